"""Differences between annotated queries and other queries with the correct result.

Min et al. (2019), section 6, count such queries (88.5 % of correct answers come from the annotated
query). Here they are grouped by the parts that differ: by what the answers leave undetermined.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable

from hardem_jax.queries.solutions.types import Condition, Query

SELECT = "selected column"
AGGREGATOR = "aggregator"
FEWER = "fewer conditions"
MORE = "more conditions"
COLUMN = "column of a condition"
OPERATOR = "operator"
VALUE = "value"


@dataclasses.dataclass(frozen=True)
class CorrectAnswer:
    """A question whose predicted query gives the correct answer, the ``result`` of both queries."""

    question: str
    header: tuple[str, ...]
    query: Query
    gold: Query
    result: str


def differences(query: Query, gold: Query) -> tuple[str, ...]:
    """The parts in which a query differs from the annotated one.

    Conditions are compared as in `hardem_jax.queries.metrics.logical_form_match`. Those that both
    queries share are ignored. If equal numbers remain, columns are compared first, then operators,
    then values.
    """
    parts = []
    if query.select != gold.select:
        parts.append(SELECT)
    if query.aggregator != gold.aggregator:
        parts.append(AGGREGATOR)
    ours, golds = Counter(map(_key, query.conditions)), Counter(map(_key, gold.conditions))
    if len(query.conditions) != len(gold.conditions):
        parts.append(FEWER if len(query.conditions) < len(gold.conditions) else MORE)
    elif ours != golds:
        names = zip((COLUMN, OPERATOR, VALUE), range(1, 4), strict=True)
        parts.append(
            next(name for name, size in names if _prefixes(ours, size) != _prefixes(golds, size))
        )
    return tuple(parts)


def differences_page(answers: Iterable[CorrectAnswer], *, shown: int = 30) -> str:
    """A Markdown page: how often which parts differ, with examples.

    Args:
        answers: correct answers, including those by the annotated query.
        shown: number of examples, cycling through the kinds of difference, most common first.
    """
    groups: dict[tuple[str, ...], list[CorrectAnswer]] = {}
    for answer in answers:
        groups.setdefault(differences(answer.query, answer.gold), []).append(answer)
    total = sum(map(len, groups.values()))
    same = len(groups.pop((), []))
    kinds = sorted(groups, key=lambda kind: (-len(groups[kind]), kind))
    share = f"{same} ({100 * same / max(total, 1):.1f} %)"
    lines = [f"{total} correct answers, {share} by the annotated query."]
    lines += ["", "| difference | correct answers |", "| --- | --- |"]
    lines += [f"| {', '.join(kind)} | {len(groups[kind])} |" for kind in kinds]
    turns = [(turn, rank) for rank, kind in enumerate(kinds) for turn in range(len(groups[kind]))]
    for turn, rank in sorted(turns)[:shown]:
        lines += _example(groups[kinds[rank]][turn], kinds[rank])
    return "\n".join(lines) + "\n"


def _example(answer: CorrectAnswer, kind: tuple[str, ...]) -> list[str]:
    return [
        "",
        f"**{_escaped(answer.question)}** ({', '.join(kind)})",
        "",
        f"- annotated: {_escaped(answer.gold.text(answer.header))}",
        f"- predicted: {_escaped(answer.query.text(answer.header))}",
        f"- both give: {_escaped(answer.result)}",
    ]


def _escaped(text: str) -> str:
    """Escapes Markdown in text from tables and questions."""
    return "".join(
        f"\\{char}" if char in "\\`*_[]<>#|" else char for char in " ".join(text.split())
    )


def _key(condition: Condition) -> tuple[int, int, str]:
    return condition.column, condition.operator, str(condition.value).lower()


def _prefixes(conditions: Counter[tuple[int, int, str]], size: int) -> Counter[tuple]:
    """Counts the first ``size`` parts of the conditions."""
    return Counter(key[:size] for key in conditions.elements())
