"""Questions answered by calculation: numbers found, Z enumerated, one record a question.

A prepared split is a folder with

=======================  =====================================================
``questions.*``          `NumericQuestion` records, in the order of the source
``meta.json``            rules, sources, options, counts, |Z| statistics
=======================  =====================================================

It holds texts, no tokens: every model cuts them up in its own way when it is
trained. What does not depend on the model, Z above all, is found once, here.
"""

import collections
import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hardem_jax.data.examples import NumericExample
from hardem_jax.data.exclusions import REPEATED_ID, ExclusionCounts
from hardem_jax.data.files import new_folder, read_meta, write_json
from hardem_jax.data.prepared.records import (
    Codec,
    RecordSource,
    RecordWriter,
    check_not_empty,
    read_left_out,
    size_summary,
    write_left_out,
)
from hardem_jax.solutions.equations.enumeration import (
    SPECIAL_NUMBERS,
    EquationRules,
    NumberTable,
    enumerate_equations,
    number_table,
)
from hardem_jax.solutions.equations.numbers import NumberConfig, NumberMention, find_numbers

FORMAT = "equations 2"
NO_SOLUTION = "no equation gives the answer"


@dataclasses.dataclass(frozen=True)
class NumericQuestion:
    """A question with its numbers and its Z.

    Attributes:
        id, passage_id, passage, question, golds: as in `data.examples.NumericExample`
            (golds are a list once they were on disk).
        spans: ``[M, 2]`` int32, characters of every number of the text: those of the passage,
            then those of the question, each in its own text.
        values: ``[N]`` float64, special numbers first, then those of ``spans``.
        kinds: ``[N]`` int8, SPECIAL, PASSAGE or QUESTION.
        equations: ``[Z, 4]`` int32, all of Z in document order.
        true_equation: index of the equation that is meant, -1 if unknown. For measuring, never
            for training.
    """

    id: str
    passage_id: str
    passage: str
    question: str
    golds: Sequence[dict[str, Any]]
    spans: np.ndarray
    values: np.ndarray
    kinds: np.ndarray
    equations: np.ndarray
    true_equation: int = -1

    @property
    def table(self) -> NumberTable:
        """The numbers by slot."""
        return NumberTable(self.values, self.kinds)


QUESTIONS = Codec(
    NumericQuestion,
    {
        "spans": ("<i4", (-1, 2)),
        "values": ("<f8", (-1,)),
        "kinds": ("i1", (-1,)),
        "equations": ("<i4", (-1, 4)),
    },
    sizes=lambda question: (len(question.spans), len(question.equations)),
)


def numeric_question(
    example: NumericExample, numbers: NumberConfig, rules: EquationRules
) -> NumericQuestion:
    """Find the numbers of an example and its Z, which is empty if it has no answer.

    Example:
        >>> example = NumericExample("q", "p", "41 yards, then 38.", "How many more?", 3.0, ())
        >>> numeric_question(example, NumberConfig(), EquationRules()).equations.tolist()
        [[10, 1, 11, 2]]
    """
    of_passage = _numbers_of_passage(example.passage, numbers)
    of_question = find_numbers(example.question, numbers) if rules.question_numbers else []
    special = SPECIAL_NUMBERS if rules.special_numbers else ()
    table = number_table(of_passage, of_question, special)
    equations = np.zeros((0, 4), np.int32)
    if example.answer is not None:
        equations = enumerate_equations(table, example.answer, rules)
    true_equation = -1
    if example.true_equation is not None:
        hits = np.flatnonzero((equations == example.true_equation).all(axis=1))
        true_equation = int(hits[0]) if len(hits) else -1
    spans = [(mention.start, mention.end) for mention in (*of_passage, *of_question)]
    return NumericQuestion(
        id=example.id,
        passage_id=example.passage_id,
        passage=example.passage,
        question=example.question,
        golds=example.golds,
        spans=np.array(spans, np.int32).reshape(-1, 2),
        values=table.values,
        kinds=table.kinds,
        equations=equations,
        true_equation=true_equation,
    )


class PreparedQuestions:
    """A folder that `prepare_questions` wrote.

    Attributes:
        questions: `NumericQuestion` by index.
        rules: that Z follows.
        left_out: see `hardem_jax.data.prepared.records.read_left_out`.
        repeated: id -> how often the source file repeats the question, which is here once. The
            official evaluator counts every repetition.
        meta: content of ``meta.json``.

    Raises:
        InputError: if the folder is not a complete prepared split of this format.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.meta = read_meta(folder, format=FORMAT)
        self.rules = EquationRules(**self.meta["rules"])
        self.numbers = NumberConfig(**self.meta["numbers"])
        self.questions = RecordSource(folder / "questions", QUESTIONS)
        self.left_out = read_left_out(folder)
        self.repeated: dict[str, int] = self.meta["repeated"]


def prepare_questions(
    examples: Iterable[NumericExample],
    folder: Path,
    *,
    numbers: NumberConfig,
    rules: EquationRules,
    sources: Mapping[str, Any],
    exclusions: ExclusionCounts,
    keep_without_solution: bool,
    reader: Mapping[str, Any] | None = None,
    replace: bool = False,
) -> dict[str, Any]:
    """Find Z for every example and write the split; memory holds one example at a time.

    Args:
        examples: from a reader.
        folder: to be created; it may exist if it is empty.
        numbers: what counts as a number.
        rules: what counts as an equation.
        sources: name of each source file -> digest, for the record.
        exclusions: the reader's count; what drops out here is added to it.
        keep_without_solution: True for data to evaluate on, where a question that no equation
            answers still counts. Training cannot use such a question.
        reader: options of the reader by name, for the record.
        replace: whether a complete split of this kind is replaced; see
            `hardem_jax.data.files.new_folder`.

    Returns:
        The content of ``meta.json``.

    Raises:
        InputError: no question can be used, or the folder exists or cannot be written.
    """
    return write_questions(
        (numeric_question(example, numbers, rules) for example in examples),
        folder,
        numbers=numbers,
        rules=rules,
        sources=sources,
        exclusions=exclusions,
        keep_without_solution=keep_without_solution,
        reader=reader,
        replace=replace,
    )


def write_questions(
    questions: Iterable[NumericQuestion],
    folder: Path,
    *,
    numbers: NumberConfig,
    rules: EquationRules,
    sources: Mapping[str, Any],
    exclusions: ExclusionCounts,
    keep_without_solution: bool,
    reader: Mapping[str, Any] | None = None,
    replace: bool = False,
) -> dict[str, Any]:
    """Write a prepared split of questions whose Z was found; see `prepare_questions`."""
    set_sizes: list[int] = []
    kept: set[str] = set()
    with new_folder(folder, format=FORMAT, replace=replace) as partial:
        writer = RecordWriter(partial / "questions", QUESTIONS)
        for question in questions:
            if exclusions.repeated(question.id):
                continue
            if not len(question.equations) and not keep_without_solution:
                exclusions.add(NO_SOLUTION, question.id)
                continue
            set_sizes.append(len(question.equations))
            kept.add(question.id)
            writer.write(question)
        writer.close()
        check_not_empty(folder, len(set_sizes), keep_without_solution, exclusions)
        write_left_out(partial, exclusions, kept)
        again = [id for id, why in exclusions.left_out if why == REPEATED_ID and id in kept]
        meta = {
            "format": FORMAT,
            "numbers": dataclasses.asdict(numbers),
            "rules": dataclasses.asdict(rules),
            "content": writer.content,
            "sources": dict(sources),
            "reader": dict(reader or {}),
            "keep_without_solution": keep_without_solution,
            "counts": {
                "examples read": len(set_sizes) + exclusions.total,
                "left out": exclusions.total,
                "questions": len(set_sizes),
                "questions with a solution": sum(size > 0 for size in set_sizes),
            },
            "excluded": exclusions.as_dict(),
            "repeated": collections.Counter(again),
            "warnings": exclusions.warnings_as_dict(),
            "solutions per question": size_summary(set_sizes),
        }
        write_json(partial / "meta.json", meta)
    return meta


@functools.lru_cache(maxsize=8)
def _numbers_of_passage(passage: str, numbers: NumberConfig) -> list[NumberMention]:
    # The questions on one passage follow one another.
    return find_numbers(passage, numbers)
