"""Right for another reason: queries that give the answer and are not the annotated ones.

Min et al. (2019), section 6, count them (88.5 % of the right answers are annotated queries) and
show some. Here every difference has a kind, so that a page tells which part of a query the answers
do not determine.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable

from hardem_jax.solutions.sql.types import Condition, Query

SELECT = "selected column"
AGGREGATOR = "aggregator"
FEWER = "fewer conditions"
MORE = "more conditions"
COLUMN = "column of a condition"
OPERATOR = "operator"
VALUE = "value"


@dataclasses.dataclass(frozen=True)
class RightAnswer:
    """A question whose predicted query gives the right answer.

    Attributes:
        question: its text.
        header: names of the table's columns.
        query: predicted.
        gold: annotated.
        result: of both, for people.
    """

    question: str
    header: tuple[str, ...]
    query: Query
    gold: Query
    result: str


def differences(query: Query, gold: Query) -> tuple[str, ...]:
    """In which parts a query is not the annotated one; none if both are the same.

    Conditions are compared as in `hardem_jax.metrics.wikisql.logical_form_match`: in any order,
    values as text in lower case. Conditions that both queries have are put aside; of those left,
    if there are equally many, columns are compared first, then operators, then values.

    Example:
        >>> gold = Query(0, 0, (Condition(1, 0, "Rome"), Condition(2, 1, "5")))
        >>> differences(Query(0, 1, (Condition(1, 0, "rome"),)), gold)
        ('aggregator', 'fewer conditions')
        >>> differences(Query(0, 0, (Condition(1, 0, "Rome"), Condition(2, 2, "5"))), gold)
        ('operator',)
    """
    found = []
    if query.select != gold.select:
        found.append(SELECT)
    if query.aggregator != gold.aggregator:
        found.append(AGGREGATOR)
    mine, theirs = Counter(map(_key, query.conditions)), Counter(map(_key, gold.conditions))
    if len(query.conditions) != len(gold.conditions):
        found.append(FEWER if len(query.conditions) < len(gold.conditions) else MORE)
    elif mine != theirs:
        parts = zip((COLUMN, OPERATOR, VALUE), range(1, 4), strict=True)
        found.append(next(name for name, size in parts if _cut(mine, size) != _cut(theirs, size)))
    return tuple(found)


def differences_page(answers: Iterable[RightAnswer], *, shown: int = 30) -> str:
    """A page in Markdown: how often which parts differ, and examples.

    Args:
        answers: right ones, whether or not their query is the annotated one.
        shown: examples; they take turns among the kinds of difference, the commonest first.

    Example:
        >>> query, gold = Query(0, 1), Query(0, 0)
        >>> page = differences_page([RightAnswer("Who?", ("name",), query, gold, "ann")])
        >>> print(page.splitlines()[0])
        1 right answers, 0 (0.0 %) by the annotated query.
    """
    groups: dict[tuple[str, ...], list[RightAnswer]] = {}
    for answer in answers:
        groups.setdefault(differences(answer.query, answer.gold), []).append(answer)
    total = sum(map(len, groups.values()))
    same = len(groups.pop((), []))
    kinds = sorted(groups, key=lambda kind: (-len(groups[kind]), kind))
    lines = [f"{total} right answers, {same} ({100 * same / max(total, 1):.1f} %) by the annotated"]
    lines[0] += " query."
    lines += ["", "| what differs | right answers |", "| --- | --- |"]
    lines += [f"| {', '.join(kind)} | {len(groups[kind])} |" for kind in kinds]
    turns = [(turn, rank) for rank, kind in enumerate(kinds) for turn in range(len(groups[kind]))]
    for turn, rank in sorted(turns)[:shown]:
        lines += _example(groups[kinds[rank]][turn], kinds[rank])
    return "\n".join(lines) + "\n"


def _example(answer: RightAnswer, kind: tuple[str, ...]) -> list[str]:
    return [
        "",
        f"**{_escaped(answer.question)}** ({', '.join(kind)})",
        "",
        f"- annotated: {_escaped(answer.gold.text(answer.header))}",
        f"- predicted: {_escaped(answer.query.text(answer.header))}",
        f"- both give: {_escaped(answer.result)}",
    ]


def _escaped(text: str) -> str:
    """Text from tables and questions, with nothing in it that Markdown would act upon."""
    return "".join(
        f"\\{char}" if char in "\\`*_[]<>#|" else char for char in " ".join(text.split())
    )


def _key(condition: Condition) -> tuple[int, int, str]:
    return condition.column, condition.operator, str(condition.value).lower()


def _cut(conditions: Counter[tuple[int, int, str]], size: int) -> Counter[tuple]:
    """How often each of the conditions' first ``size`` parts occurs."""
    return Counter(key[:size] for key in conditions.elements())
