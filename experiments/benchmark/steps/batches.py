"""Random batches of every task, in the layouts of `hardem_jax.data.inputs`."""

import dataclasses

import numpy as np

from experiments.benchmark.steps.setting import MAX_MENTION, Batch, Setting, random_texts
from hardem_jax.equations.solutions.rules import MINUS, PASSAGE, PLUS, SPECIAL
from hardem_jax.programs.model import (
    FIELD_FACTS,
    KINDS,
    LINK_FACTS,
    MODIFIABLE,
    SELECTABLE,
)
from hardem_jax.programs.solutions.types import OPERATORS, PARTS, SHAPES
from hardem_jax.queries.model import NUM_AGGREGATORS, NUM_OPERATORS
from hardem_jax.queries.solutions.types import MAX_CONDITIONS

#: Numbers of a text in the equations task: passage and question of DROP have 24 in the mean.
NUM_NUMBERS = 24
NUM_SPECIAL = 10
#: Tokens of a header in the tasks over tables.
COLUMN_PIECES = 3
#: Vocabularies about as large as those of DROP's training split.
NUM_WORDS, NUM_CHARACTERS = 50_000, 100
MAX_CHARACTERS = 16
#: Mentions of the texts of an answer, as many as a tagged reader looks at.
NUM_MENTIONS = 8
#: Links of a question on a table of WikiTableQuestions: few have more.
NUM_LINKS = 64


def equation_batch(setting: Setting) -> Batch:
    """Texts full of numbers, with ``solutions`` random equations of two numbers in every row."""
    rng = np.random.default_rng(0)
    texts = random_texts(setting, rng)
    rows, slots = setting.rows, NUM_SPECIAL + NUM_NUMBERS
    lengths = texts["where"].sum(axis=1, keepdims=True)
    tokens = np.sort(rng.integers(0, lengths, (rows, NUM_NUMBERS)))
    shape = rows, setting.solutions
    first = rng.integers(0, slots - 1, shape)
    second = rng.integers(first + 1, slots)
    signs = rng.choice([PLUS, MINUS], (2, *shape))
    kinds = np.array([SPECIAL] * NUM_SPECIAL + [PASSAGE] * NUM_NUMBERS, np.int32)
    return {
        **texts,
        "number_tokens": tokens.astype(np.int32),
        "numbers_where": np.ones(tokens.shape, bool),
        "kinds": np.tile(kinds, (rows, 1)),
        "solutions": np.stack([first, signs[0], second, signs[1]], axis=-1).astype(np.int32),
        "solutions_where": np.ones(shape, bool),
        "row_where": np.ones(rows, bool),
    }


def query_batch(setting: Setting) -> Batch:
    """A question of a third of the row, then columns of three wordpieces; random queries."""
    rng = np.random.default_rng(0)
    texts = random_texts(dataclasses.replace(setting, shortest=1.0), rng)
    words, headers = _question_and_headers(setting)
    rows, columns = setting.rows, len(headers)
    places = headers[:, None] + np.arange(COLUMN_PIECES)[None]
    shape = rows, setting.solutions
    number = rng.integers(0, min(MAX_CONDITIONS, columns) + 1, shape)
    chosen = np.argsort(rng.random((*shape, columns)), axis=-1)[..., :MAX_CONDITIONS]
    used = np.arange(MAX_CONDITIONS) < number[..., None]
    clause = np.full((*shape, MAX_CONDITIONS, 4), -1)
    clause[..., : chosen.shape[-1], 0] = np.sort(chosen, axis=-1)
    clause[..., 1] = rng.integers(0, NUM_OPERATORS, used.shape)
    clause[..., 2] = rng.integers(0, words, used.shape)
    clause[..., 3] = rng.integers(clause[..., 2], words)
    head = [rng.integers(0, columns, shape), rng.integers(0, NUM_AGGREGATORS, shape), number]
    clause = np.where(used[..., None], clause, -1).reshape(*shape, -1)
    return {
        **texts,
        "question_tokens": np.tile(1 + np.arange(words, dtype=np.int32), (rows, 1)),
        "question_where": np.ones((rows, words), bool),
        "words_first": np.tile(np.arange(words, dtype=np.int32), (rows, 1)),
        "words_where": np.ones((rows, words), bool),
        "header_tokens": np.tile(places.astype(np.int32), (rows, 1, 1)),
        "header_where": np.ones((rows, columns, COLUMN_PIECES), bool),
        "columns_where": np.ones((rows, columns), bool),
        "solutions": np.concatenate([np.stack(head, axis=-1), clause], axis=-1).astype(np.int32),
        "solutions_where": np.ones(shape, bool),
        "row_where": np.ones(rows, bool),
    }


def word_batch(setting: Setting) -> Batch:
    """`equation_batch` in words and characters: passages of T words, questions of an eighth.

    Example:
        >>> setting = Setting("tiny", rows=2, tokens=64, solutions=3)
        >>> word_batch(setting)["question_chars"].shape
        (2, 8, 16)
    """
    rng = np.random.default_rng(0)
    read = ("number_tokens", "numbers_where", "solutions", "solutions_where", "row_where")
    equations = equation_batch(setting)
    batch = {name: equations[name] for name in read}
    texts = {"passage": setting.tokens, "question": setting.tokens // 8}
    for text, length in texts.items():
        shape = setting.rows, length
        chars = rng.integers(2, NUM_CHARACTERS, (*shape, MAX_CHARACTERS))
        batch[f"{text}_words"] = rng.integers(2, NUM_WORDS, shape).astype(np.int32)
        batch[f"{text}_chars"] = chars.astype(np.int32)
        batch[f"{text}_where"] = np.ones(shape, bool)
    return batch


def _question_and_headers(setting: Setting) -> tuple[int, np.ndarray]:
    """Words of a question of a third of the row, and the first token of each header after it."""
    words, width = setting.tokens // 3, 1 + COLUMN_PIECES  # and [SEP]
    begin = words + 2  # [CLS] question [SEP]
    columns = max(1, (setting.tokens - begin) // width)
    return words, begin + width * np.arange(columns)


def tagging_batch(setting: Setting) -> Batch:
    """A question of an eighth of the row, then words of one token; sets of mentions in every row.

    Example:
        >>> batch = tagging_batch(Setting("tiny", rows=2, tokens=32, solutions=3))
        >>> batch["words"].shape, batch["solutions"].shape
        ((2, 26), (2, 3, 8))
    """
    rng = np.random.default_rng(0)
    texts = random_texts(dataclasses.replace(setting, shortest=1.0), rng)
    rows, begin = setting.rows, setting.tokens // 8 + 2
    words = np.arange(begin, setting.tokens, dtype=np.int32)
    # One mention in each of as many parts of the text, so that none overlap.
    parts = np.linspace(0, len(words), NUM_MENTIONS + 1).astype(int)
    first = rng.integers(parts[:-1], parts[1:], (rows, NUM_MENTIONS))
    last = np.minimum(first + rng.integers(0, MAX_MENTION, first.shape), parts[1:] - 1)
    solutions = rng.random((rows, setting.solutions, NUM_MENTIONS)) < 0.5
    solutions[..., 0] |= ~solutions.any(axis=-1)
    return {
        **texts,
        "words": np.tile(words, (rows, 1)),
        "words_where": np.ones((rows, len(words)), bool),
        "mentions": np.stack([first, last], axis=-1).astype(np.int32),
        "solutions": solutions,
        "solutions_where": np.ones((rows, setting.solutions), bool),
        "holds": np.ones(rows, bool),
        "row_where": np.ones(rows, bool),
    }


def program_batch(setting: Setting) -> Batch:
    """`query_batch` for the parser of programs: every field and link is read, programs are random.

    Example:
        >>> batch = program_batch(Setting("tiny", rows=2, tokens=64, solutions=3))
        >>> batch["headers"].shape, batch["solutions"].shape
        ((2, 11, 2), (2, 3, 5))
    """
    rng = np.random.default_rng(0)
    texts = random_texts(dataclasses.replace(setting, shortest=1.0), rng)
    words, starts = _question_and_headers(setting)
    rows, columns = setting.rows, len(starts)
    fields = (columns + 1) * len(PARTS)  # the row number is a column after the others
    spans = np.stack([starts, starts + COLUMN_PIECES], axis=-1)
    texts["token_type_ids"] = texts["where"] * np.int32(np.arange(setting.tokens) >= words + 2)
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
        "solutions": _random_programs(rng, (rows, setting.solutions), columns),
        "solutions_where": np.ones((rows, setting.solutions), bool),
        "row_where": np.ones(rows, bool),
    }


def _random_programs(rng: np.random.Generator, shape: tuple[int, int], columns: int) -> np.ndarray:
    """``[*shape, 5]`` int32: a shape, and in each of its slots what may fill it."""
    programs = np.full((*shape, 5), -1, np.int32)
    programs[..., 0] = rng.integers(0, len(SHAPES), shape)
    kinds = np.array(KINDS)[programs[..., 0]]
    row_number = columns * len(PARTS) + PARTS.index("number")
    for place, suitable in enumerate((SELECTABLE, MODIFIABLE)):
        for kind, (_, *parts) in enumerate(suitable):
            own = kinds[..., place] == kind
            codes = np.full(own.sum(), row_number)
            if any(parts):
                codes = rng.choice(np.flatnonzero(parts), len(codes))
                codes += len(PARTS) * rng.integers(0, columns, len(codes))
            programs[own, 1 + place] = codes
    for place in (2, 3):
        drawn = rng.integers(0, NUM_LINKS, shape)
        programs[..., 1 + place] = np.where(kinds[..., place] >= 0, drawn, -1)
    return programs
