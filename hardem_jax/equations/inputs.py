"""Makes the inputs of the equation tagger from prepared questions.

What a batch holds, with R rows, T tokens, M numbers of the text, S special ones and Z solutions:

==================  ====================  ==============================================
``token_ids``       ``[R, T]`` int32      question and passage with special tokens, padded
``token_type_ids``  ``[R, T]`` int32      1 from the passage on
``where``           ``[R, T]`` bool       real tokens
``number_tokens``   ``[R, M]`` int32      first token of each number of the text
``numbers_where``   ``[R, M]`` bool       real numbers
``kinds``           ``[R, S + M]`` int32  kind of each number; -1 where there is none
``solutions``       ``[R, Z, 4]`` int32   equations, see `hardem_jax.equations.solutions`
``solutions_where`` ``[R, Z]`` bool       real equations
``true_solution``   ``[R]`` int32         index of the true equation or -1; not trained on
``row_where``       ``[R]`` bool          real rows
==================  ====================  ==============================================
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Self, TypeVar

import numpy as np

from hardem_jax.data.batching.padding import Arrays, fitting
from hardem_jax.data.tokenizer import Encoding, Tokenizer
from hardem_jax.equations.examples import NumericQuestion
from hardem_jax.equations.solutions.rules import COUNT, PASSAGE
from hardem_jax.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumericInput:
    """What every model reads of a question: the numbers that were not cut, and the Z they leave."""

    id: str
    slots: np.ndarray  # [S + M] int32, of these numbers among all of the question
    number_tokens: np.ndarray  # [M] int32, where each number of the text begins
    kinds: np.ndarray  # [S + M] int8
    equations: np.ndarray  # [Z, 4] int32
    true_equation: int  # index among them or -1

    @classmethod
    def of(
        cls, question: NumericQuestion, tokens: np.ndarray, kept: np.ndarray, **texts: Any
    ) -> Self:
        """The input of a question whose numbers begin at ``tokens`` if they are ``kept``."""
        read = np.concatenate([np.ones(len(question.kinds) - len(kept), bool), kept])
        slots = np.flatnonzero(read)
        equations = at_slots(question.equations, np.where(read, np.cumsum(read) - 1, -2))
        remain = np.all(equations > -2, axis=1)
        true = question.true_equation
        if true >= 0:
            true = int(remain[:true].sum()) if remain[true] else -1
        return cls(
            id=question.id,
            slots=slots.astype(np.int32),
            number_tokens=tokens[kept].astype(np.int32),
            kinds=question.kinds[slots],
            equations=equations[remain],
            true_equation=true,
            **texts,
        )


def at_slots(equations: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """``[Z, 4]`` int32 over other numbers: n becomes ``slots[n]``."""
    n1, o1, n2, o2 = equations.T
    slots = np.append(slots, -1)  # that of lone numbers
    first = np.where(o1 == COUNT, n1, slots[np.where(o1 == COUNT, -1, n1)])
    return np.stack([first, o1, slots[n2], o2], axis=1).astype(np.int32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EquationInput(NumericInput):
    """One input of the tagger."""

    token_ids: np.ndarray  # [T] int32
    passage_start: int  # position of the first passage token


X = TypeVar("X", bound=NumericInput)


class NumericInputs(list[X]):
    """Inputs of a model, by index; ``sizes`` ``[N, 2]`` int32 are lengths and solutions of each,
    ``num_numbers`` the most numbers read of any text."""

    def __init__(self, inputs: Sequence[X], lengths: Sequence[int]):
        if not inputs:
            raise InputError("data: expected questions, found none")
        super().__init__(inputs)
        sizes = [(n, len(x.equations)) for n, x in zip(lengths, inputs, strict=True)]
        self.sizes = np.array(sizes, np.int32)
        self.num_numbers = max(1, *(len(x.number_tokens) for x in inputs))


class TaggerInputs(NumericInputs[EquationInput]):
    """Questions as inputs of the tagger, cut to ``max_tokens`` at the end of the passage."""

    def __init__(
        self,
        questions: Sequence[NumericQuestion],
        tokenizer: Tokenizer,
        *,
        max_tokens: int = 512,
        max_question_tokens: int = 64,
    ):
        template = tokenizer.template
        without_passage = max_question_tokens + template.num_special_tokens
        if max_tokens <= without_passage:
            raise InputError(
                f"max_tokens: expected more than {without_passage}, found {max_tokens}"
            )

        def item(question: NumericQuestion, asked: Encoding) -> EquationInput:
            passage = encoded[question.passage]
            first = asked.ids[:max_question_tokens]
            second = passage.ids[: max_tokens - len(first) - template.num_special_tokens]
            passage_start = template.second_start(len(first))
            in_passage = question.kinds[len(question.kinds) - len(question.spans) :] == PASSAGE
            # The token that holds a number's first character; past the end if it was cut.
            places = [
                np.searchsorted(text.offsets[:, 1], question.spans[:, 0], side="right")
                for text in (passage, asked)
            ]
            kept = np.where(in_passage, places[0] < len(second), places[1] < len(first))
            starts = passage_start, len(template.before)
            tokens = np.where(in_passage, *(n + at for n, at in zip(places, starts, strict=True)))
            ids = template.join(first, second)
            return EquationInput.of(
                question, tokens, kept, token_ids=ids, passage_start=passage_start
            )

        passages = list(dict.fromkeys(question.passage for question in questions))
        encoded = dict(zip(passages, tokenizer.encode(passages), strict=True))
        asked = tokenizer.encode([question.question for question in questions])
        inputs = [item(*pair) for pair in zip(questions, asked, strict=True)]
        super().__init__(inputs, [len(x.token_ids) for x in inputs])


def pad_inputs(
    inputs: Sequence[EquationInput | None],
    num_tokens: int,
    *,
    num_numbers: int,
    num_special: int,
    num_solutions: int,
    pad_id: int,
) -> Arrays:
    """A batch of R inputs, None for padding, see `pad_equations`."""
    rows = len(inputs)
    batch: Arrays = {
        "token_ids": np.full((rows, num_tokens), pad_id, np.int32),
        "token_type_ids": np.zeros((rows, num_tokens), np.int32),
        "where": np.zeros((rows, num_tokens), bool),
        **pad_equations(inputs, num_numbers, num_solutions, num_special=num_special),
    }
    for row, item in enumerate(inputs):
        if item is not None:
            length = len(item.token_ids)
            batch["token_ids"][row, :length] = item.token_ids
            batch["token_type_ids"][row, item.passage_start : length] = 1
            batch["where"][row, :length] = True
    return batch


def pad_equations(
    inputs: Sequence[NumericInput | None],
    num_numbers: int,
    num_solutions: int,
    *,
    num_special: int = 0,
) -> Arrays:
    """The part of a batch that all models share: numbers and Z; of a larger Z those `fitting`."""
    rows = len(inputs)
    batch: Arrays = {
        "number_tokens": np.zeros((rows, num_numbers), np.int32),
        "numbers_where": np.zeros((rows, num_numbers), bool),
        "kinds": np.full((rows, num_special + num_numbers), -1, np.int32),
        # The tagging without any operand: finite whatever the scores are.
        "solutions": np.tile(np.array([-1, 0, -1, 0], np.int32), (rows, num_solutions, 1)),
        "solutions_where": np.zeros((rows, num_solutions), bool),
        "true_solution": np.full(rows, -1, np.int32),
        "row_where": np.array([item is not None for item in inputs]),
    }
    for row, item in enumerate(inputs):
        if item is None:
            continue
        count = len(item.number_tokens)
        kept = fitting(item.id, len(item.equations), num_solutions)
        batch["number_tokens"][row, :count] = item.number_tokens
        batch["numbers_where"][row, :count] = True
        batch["kinds"][row, : len(item.kinds)] = item.kinds
        batch["solutions"][row, : len(kept)] = item.equations[kept]
        batch["solutions_where"][row, : len(kept)] = True
        if item.true_equation in kept:
            batch["true_solution"][row] = np.searchsorted(kept, item.true_equation)
    return batch
