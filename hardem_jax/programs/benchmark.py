"""The benchmark of the parser of programs."""

from __future__ import annotations

import dataclasses

import numpy as np

from hardem_jax.programs.solutions.types import OPERATORS, PARTS, SHAPES
from hardem_jax.tables.layout import COLUMN_PIECES, question_and_headers
from hardem_jax.task.benchmark import Batch, BatchSizes, Step, random_texts

#: Links of a question on a table of WikiTableQuestions: few have more.
NUM_LINKS = 64


def random_batch(sizes: BatchSizes) -> Batch:
    """A question, then columns as for queries: every field and link is read, programs are random.

    Example:
        >>> batch = random_batch(BatchSizes(rows=2, tokens=64, solutions=3))
        >>> batch["headers"].shape, batch["solutions"].shape
        ((2, 11, 2), (2, 3, 5))
    """
    from hardem_jax.programs.model import FIELD_FACTS, LINK_FACTS

    rng = np.random.default_rng(0)
    texts = random_texts(dataclasses.replace(sizes, shortest=1.0), rng)
    words, starts = question_and_headers(sizes.tokens)
    rows, columns = sizes.rows, len(starts)
    fields = (columns + 1) * len(PARTS)  # the row number is a column after the others
    spans = np.stack([starts, starts + COLUMN_PIECES], axis=-1)
    texts["token_type_ids"] = texts["where"] * np.int32(np.arange(sizes.tokens) >= words + 2)
    first = rng.integers(0, words, (rows, NUM_LINKS))
    codes = rng.integers(0, columns * len(PARTS), first.shape)
    # Equality is what the links of every shape may have.
    equals = np.full_like(first, OPERATORS.index("="))
    links = np.stack([codes, equals, first, rng.integers(first, words)], axis=-1)
    return {
        **texts,
        "words_first": np.tile(1 + np.arange(words, dtype=np.int32), (rows, 1)),
        "headers": np.tile(np.concatenate([spans, [[0, 0]]]).astype(np.int32), (rows, 1, 1)),
        "row_number": np.full(rows, columns, np.int32),
        "fields_where": np.ones((rows, fields), bool),
        "field_facts": rng.random((rows, fields, FIELD_FACTS), np.float32),
        "links": links.astype(np.int32),
        "links_where": np.ones((rows, NUM_LINKS), bool),
        "link_facts": rng.random((rows, NUM_LINKS, LINK_FACTS), np.float32),
        "shapes_where": np.ones((rows, len(SHAPES)), bool),
        "solutions": _random_programs(rng, (rows, sizes.solutions), columns),
        "solutions_where": np.ones((rows, sizes.solutions), bool),
        "row_where": np.ones(rows, bool),
    }


def _random_programs(rng: np.random.Generator, shape: tuple[int, int], columns: int) -> np.ndarray:
    """``[*shape, 5]`` int32: a shape, and in each of its slots what may fill it."""
    from hardem_jax.programs.model import KINDS, MODIFIABLE, SELECTABLE

    programs = np.full((*shape, 5), -1, np.int32)
    programs[..., 0] = rng.integers(0, len(SHAPES), shape)
    kinds = np.array(KINDS)[programs[..., 0]]
    row_number = columns * len(PARTS) + PARTS.index("number")
    for place, suitable in enumerate((SELECTABLE, MODIFIABLE)):
        for kind, (_, *parts) in enumerate(suitable):
            of_kind = kinds[..., place] == kind
            codes = np.full(of_kind.sum(), row_number)
            if any(parts):
                codes = rng.choice(np.flatnonzero(parts), len(codes))
                codes += len(PARTS) * rng.integers(0, columns, len(codes))
            programs[of_kind, 1 + place] = codes
    for place in (2, 3):
        drawn = rng.integers(0, NUM_LINKS, shape)
        programs[..., 1 + place] = np.where(kinds[..., place] >= 0, drawn, -1)
    return programs


def _model(encoder):
    from flax import nnx

    from hardem_jax.programs.model import ProgramParser

    return ProgramParser(encoder, rngs=nnx.Rngs(0))


STEPS = {"programs": Step(random_batch, _model, fills_rows=True)}
