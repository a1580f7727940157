"""Executes random programs by both executors.

Links are those of a random question about the table, so the executor of the library reads values
and sets of rows as it does for real questions; the slow executor finds both out on its own.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from hardem_jax.programs.solutions.execute import execute
from hardem_jax.programs.solutions.links import find_links
from hardem_jax.programs.solutions.rules import ProgramRules
from hardem_jax.programs.solutions.table import program_table
from hardem_jax.programs.solutions.types import NUMBER_RESULTS, SHAPES, Field, Links, Program
from hardem_jax.tables.table import Cell, Table, mask_rows, split_words
from tests.programs.solutions.reference import Reference, table_values

_CELLS: tuple[Cell, ...] = (
    "oslo", "Oslo", "Tromsø", "oslo, norway", "new york, usa", "usa", "john (canada)", "canada",
    "red / blue", "blue", "red", "a - b", "w 13-0", "l 7-13", "2:35.4", "1:02:03", "6:00 pm",
    "5 min 3 s", "july 6, 2010", "6 july 2010", "may 1990", "may 3", "2010-07-06", "1990-94",
    "2004", "2004/05", "1,234", "1234 km", "$2.5 million", "5%", "-3", "+3", "3rd", "third", "ten",
    "1st", "", "-", "n/a", "n/a[1]", "oslo[2]", "7†", "ann and bob", "ann, bob, carl", "bob",
    "total", "total 7", None, 0.0, 3.0, 7.0, 13.0, 2004.0, 1990.0, 1e300, -1e300, 0.1, 0.2, 1e-9,
)  # fmt: skip
_WORDS = ("oslo", "usa", "ann", "bob", "red", "more", "less", "three", "third", "13", "2004")
_WORDS += ("1990", "may", "6")
_WORDS += ("july 6, 2010", "2:35.4", "1,234", "-3", "not", "or", "before", "more than", "canada")


def random_table(rng: random.Random) -> Table:
    """A small table of few different cells, so that values repeat and tie."""
    columns, rows = rng.randint(1, 4), rng.randint(1, 8)
    pools = [rng.sample(_CELLS, rng.randint(1, 6)) for _ in range(columns)]
    cells = tuple(tuple(rng.choice(pool) for pool in pools) for _ in range(rows))
    types = tuple("text" if rng.random() < 0.5 else "real" for _ in pools)
    return Table("random", tuple(f"c{n}" for n in range(columns)), types, cells)


def random_question(rng: random.Random, table: Table) -> str:
    """Words of cells and others, some of which become values of links."""
    words = [rng.choice(_WORDS) for _ in range(rng.randint(0, 5))]
    cells = [cell for row in table.rows for cell in row if cell is not None]
    for _ in range(rng.randint(1, 4)):
        if cells:
            cell = rng.choice(cells)
            text = cell if isinstance(cell, str) else f"{cell:.12g}"
            words.append(text if rng.random() < 0.6 else rng.choice(text.split() or [text]))
    rng.shuffle(words)
    return " ".join(words) or "?"


def random_row(rng: random.Random, fields: Sequence[int], links: Links) -> list[int] | None:
    """Any program over these fields and links, sensible or not; None if there are no links."""
    number = rng.randrange(len(SHAPES))
    shape = SHAPES[number]
    if shape.num_links and not len(links):
        return None
    numbers = [code for code in fields if not Field.from_code(code).is_text]
    # Mostly fields that have the right keys, or else hardly a program has a result.
    typed = rng.random() < 0.95 and numbers
    select = rng.choice(numbers if typed and shape.result in NUMBER_RESULTS else fields)
    modify = rng.choice(numbers if typed and shape.modifier != "same" else fields)
    pair = [rng.randrange(len(links)) for _ in range(shape.num_links)]
    return [
        number,
        select if shape.has_select else -1,
        modify if shape.has_modify else -1,
        *pair,
        *[-1] * (2 - len(pair)),
    ]


def compare_executors(
    cases: Iterator[tuple[Table, str]], number: int, seed: int, *, each: int = 200
) -> None:
    """Executes random programs, ``each`` for one table and question, by the library and slowly."""
    rng, programs, empty = random.Random(seed), 0, 0
    rules = ProgramRules(redundant=True)
    for table, question in cases:
        if programs >= number:
            break
        indexed = program_table(table)
        links = find_links(indexed, question, split_words(question), rules)
        codes = list(indexed.fields)
        totals = mask_rows(indexed.every_row & ~indexed.ordinary)
        reference = Reference(table_values(table), len(table.rows), totals, links.truths)
        for index, mask in enumerate(links.masks):
            link = links.link(index)
            assert reference.rows_of(link) == mask_rows(mask), (link, question, table.rows)
        wanted = min(each, number - programs)
        rows = [row for _ in range(wanted) if codes and (row := random_row(rng, codes, links))]
        programs += len(rows)
        for row in rows:
            program = Program.from_row(row, links)
            expected, found = reference.execute(program), execute(table, row, links)
            empty += expected is None
            shown = program.text(table.header), table.rows
            assert _with_types(found) == _with_types(expected), shown
    assert empty < 0.7 * programs


def _with_types(result: Sequence[Any] | None) -> list | None:
    """A result so that equal ones have the same types; 0.0 and -0.0 are one number."""
    return None if result is None else [(type(cell), cell) for cell in result]


def random_cases(seed: int) -> Iterator[tuple[Table, str]]:
    """Random tables and questions, without end."""
    rng = random.Random(seed)
    while True:
        table = random_table(rng)
        yield table, random_question(rng, table)


def real_cases(questions: Sequence[tuple[Table, str]], seed: int) -> Iterator[tuple[Table, str]]:
    """Real tables, in half of the cases with a question made of their cells."""
    rng = random.Random(seed)
    while True:
        table, question = rng.choice(questions)
        yield table, question if rng.random() < 0.5 else random_question(rng, table)
