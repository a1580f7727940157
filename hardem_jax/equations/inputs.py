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

import numpy as np

from hardem_jax.data.batching.padding import Arrays
from hardem_jax.data.drawing import fitting
from hardem_jax.data.tokenizer import Encoding, Tokenizer
from hardem_jax.equations.examples import NumericQuestion
from hardem_jax.equations.solutions.enumeration import COUNT, PASSAGE
from hardem_jax.errors import InputError


@dataclasses.dataclass(frozen=True)
class EquationInput:
    """One input of the tagger.

    Attributes:
        id: of the question.
        token_ids: ``[T]`` int32.
        passage_start: position of the first passage token.
        number_tokens: ``[M]`` int32, first token of each number of the text; -1 if it was cut.
        kinds: ``[S + M]`` int8, of all numbers; -1 if it was cut.
        equations: ``[Z, 4]`` int32, those of Z whose numbers were not cut.
        true_equation: index among them or -1.
    """

    id: str
    token_ids: np.ndarray
    passage_start: int
    number_tokens: np.ndarray
    kinds: np.ndarray
    equations: np.ndarray
    true_equation: int


class TaggerInputs(Sequence[EquationInput]):
    """Questions as inputs of the tagger, by index. All texts are tokenised at once.

    ``sizes`` ``[N, 2]`` int32 are tokens and solutions of each, ``num_numbers`` M the most numbers
    of any text. Longer inputs are cut at the end of the passage.
    """

    def __init__(
        self,
        questions: Sequence[NumericQuestion],
        tokenizer: Tokenizer,
        *,
        max_tokens: int = 512,
        max_question_tokens: int = 64,
    ):
        without_passage = max_question_tokens + tokenizer.template.num_special_tokens
        if max_tokens <= without_passage:
            raise InputError(
                f"max_tokens: expected more than {without_passage}, found {max_tokens}"
            )
        passages: dict[str, int] = {}
        items = []
        for i in range(len(questions)):
            question = questions[i]
            if (question.equations[:, 1] == COUNT).any():
                raise InputError(
                    f"{question.id}: expected equations that a tagger can express, found a count; "
                    "prepare the data without counts (max_count)"
                )
            items.append((question, passages.setdefault(question.passage, len(passages))))
        if not items:
            raise InputError("data: expected questions, found none")
        encoded = tokenizer.encode(list(passages))
        asked = tokenizer.encode([question.question for question, _ in items])
        self._inputs = [
            _input(question, encoded[index], encoding, tokenizer, max_tokens, max_question_tokens)
            for (question, index), encoding in zip(items, asked, strict=True)
        ]
        self.sizes = np.array(
            [[len(x.token_ids), len(x.equations)] for x in self._inputs], np.int32
        )
        self.num_numbers = max(1, *(len(x.number_tokens) for x in self._inputs))

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, index):
        return self._inputs[index]


def pad_inputs(
    inputs: Sequence[EquationInput | None],
    num_tokens: int,
    *,
    num_numbers: int,
    num_special: int,
    num_solutions: int,
    pad_id: int,
) -> Arrays:
    """A batch of R inputs, None for padding; of more than Z equations, a row holds those that are
    `fitting`."""
    rows = len(inputs)
    batch: Arrays = {
        "token_ids": np.full((rows, num_tokens), pad_id, np.int32),
        "token_type_ids": np.zeros((rows, num_tokens), np.int32),
        "where": np.zeros((rows, num_tokens), bool),
        "number_tokens": np.zeros((rows, num_numbers), np.int32),
        "numbers_where": np.zeros((rows, num_numbers), bool),
        **pad_equations(inputs, num_special + num_numbers, num_solutions),
    }
    for row, item in enumerate(inputs):
        if item is None:
            continue
        length, count = len(item.token_ids), len(item.number_tokens)
        batch["token_ids"][row, :length] = item.token_ids
        batch["token_type_ids"][row, item.passage_start : length] = 1
        batch["where"][row, :length] = True
        batch["number_tokens"][row, :count] = np.maximum(item.number_tokens, 0)
        batch["numbers_where"][row, :count] = item.number_tokens >= 0
    return batch


def pad_equations(inputs: Sequence, num_slots: int, num_solutions: int) -> Arrays:
    """The part of a batch that does not depend on the model: kinds, Z, ids."""
    rows = len(inputs)
    batch: Arrays = {
        "kinds": np.full((rows, num_slots), -1, np.int32),
        # The tagging without any operand: finite whatever the scores are.
        "solutions": np.tile(np.array([-1, 0, -1, 0], np.int32), (rows, num_solutions, 1)),
        "solutions_where": np.zeros((rows, num_solutions), bool),
        "true_solution": np.full(rows, -1, np.int32),
        "row_where": np.array([item is not None for item in inputs]),
    }
    for row, item in enumerate(inputs):
        if item is None:
            continue
        kept = fitting(item.id, len(item.equations), num_solutions)
        batch["kinds"][row, : len(item.kinds)] = item.kinds
        batch["solutions"][row, : len(kept)] = item.equations[kept]
        batch["solutions_where"][row, : len(kept)] = True
        if item.true_equation in kept:
            batch["true_solution"][row] = np.searchsorted(kept, item.true_equation)
    return batch


def drop_cut_numbers(
    question: NumericQuestion, kept: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Kinds, equations and the true equation's index when only ``kept`` ``[M]`` numbers of the text
    remain."""
    slots = np.append(np.concatenate([np.ones(len(question.kinds) - len(kept), bool), kept]), True)
    n1, o1, n2, _ = question.equations.T
    # Slot -1, of lone numbers, is the True at the end; a count's first column is not a slot.
    remain = slots[np.where(o1 == COUNT, -1, n1)] & slots[n2]
    true_equation = question.true_equation
    if true_equation >= 0:
        true_equation = int(remain[:true_equation].sum()) if remain[true_equation] else -1
    kinds = np.where(slots[:-1], question.kinds, -1).astype(np.int8)
    return kinds, question.equations[remain], true_equation


def _input(
    question: NumericQuestion,
    passage: Encoding,
    encoding: Encoding,
    tokenizer: Tokenizer,
    max_tokens: int,
    max_question_tokens: int,
) -> EquationInput:
    template = tokenizer.template
    asked = encoding.ids[:max_question_tokens]
    read = passage.ids[: max_tokens - len(asked) - template.num_special_tokens]
    question_start, passage_start = len(template.before), template.second_start(len(asked))
    in_passage = question.kinds[len(question.kinds) - len(question.spans) :] == PASSAGE
    # The token that holds a number's first character; past the end if it was cut.
    starts = question.spans[:, 0]
    passage_token = np.searchsorted(passage.offsets[:, 1], starts, side="right")
    question_token = np.searchsorted(encoding.offsets[:, 1], starts, side="right")
    kept = np.where(in_passage, passage_token < len(read), question_token < len(asked))
    tokens = np.where(in_passage, passage_token + passage_start, question_token + question_start)
    kinds, equations, true_equation = drop_cut_numbers(question, kept)
    return EquationInput(
        id=question.id,
        token_ids=template.join(asked, read),
        passage_start=passage_start,
        number_tokens=np.where(kept, tokens, -1).astype(np.int32),
        kinds=kinds,
        equations=equations,
        true_equation=true_equation,
    )
