"""Executes random programs by all three executors, and counts where results differ.

Links are those of a random question about the table, so the executor of the library reads values
and sets of rows as it does for real questions; the slow executors find both out on their own.
"""

import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import Any

from hardem_jax.programs.solutions.execute import execute
from hardem_jax.programs.solutions.links import find_links
from hardem_jax.programs.solutions.rules import ProgramRules
from hardem_jax.programs.solutions.table import program_table
from hardem_jax.programs.solutions.types import NUMBER_RESULTS, SHAPES, Field, Links, Program
from hardem_jax.tables.table import Cell, Table, mask_rows, split_words
from tests.programs.solutions.reference import Reference, SqliteReference, table_values

_EXAMPLES = 10
_CELLS: tuple[Cell, ...] = (
    "oslo", "Oslo", "Tromsø", "oslo, norway", "new york, usa", "usa", "john (canada)", "canada",
    "red / blue", "blue", "red", "a - b", "w 13-0", "l 7-13", "2:35.4", "1:02:03", "6:00 pm",
    "5 min 3 s", "july 6, 2010", "6 july 2010", "may 1990", "may 3", "2010-07-06", "1990-94",
    "2004", "2004/05", "1,234", "1234 km", "$2.5 million", "5%", "-3", "+3", "3rd", "third", "ten",
    "1st", "", "-", "n/a", "n/a[1]", "oslo[2]", "7†", "ann and bob", "ann, bob, carl", "bob",
    "total", "total 7", None, 0.0, 3.0, 7.0, 13.0, 2004.0, 1990.0, 1e300, -1e300, 0.1, 0.2, 1e-9,
)  # fmt: skip
_WORDS = (
    "oslo",
    "usa",
    "ann",
    "bob",
    "red",
    "more",
    "less",
    "three",
    "third",
    "13",
    "2004",
    "1990",
    "may",
    "6",
)
_WORDS += ("july 6, 2010", "2:35.4", "1,234", "-3", "not", "or", "before", "more than", "canada")


@dataclasses.dataclass
class Differences:
    """Counts over random programs.

    Attributes:
        programs: random programs executed.
        empty: of these, without a result by the slow executor.
        different: of these, with another result by the library's executor.
        sqlite: of these, with another result by SQLite.
        rows: links that hold for other rows.
        examples: the first differences, each in one line.
    """

    programs: int = 0
    empty: int = 0
    different: int = 0
    sqlite: int = 0
    rows: int = 0
    examples: list[str] = dataclasses.field(default_factory=list)

    def note(self, what: str) -> None:
        """Keeps an example, unless there are enough."""
        if len(self.examples) < _EXAMPLES:
            self.examples.append(what)


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
    """Any program over these fields and links, sensible or not; None if there are no links.

    Args:
        rng: source of chance.
        fields: the codes of the table's fields.
        links: of a question.
    """
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
    cases: Iterator[tuple[Table, str]],
    number: int,
    seed: int,
    *,
    each: int = 200,
) -> Differences:
    """Executes random programs on tables, by the library, in plain Python and by SQLite.

    Args:
        cases: tables and questions, as many as needed.
        number: programs to execute.
        seed: of the programs.
        each: programs for one table and question.
    """
    rng, found = random.Random(seed), Differences()
    rules = ProgramRules(redundant=True)
    for table, question in cases:
        if found.programs >= number:
            break
        indexed = program_table(table)
        links = find_links(indexed, question, split_words(question), rules)
        codes = list(indexed.fields)
        totals = mask_rows(indexed.every_row & ~indexed.ordinary)
        about = table_values(table), len(table.rows), totals, links.truths
        reference = Reference(*about)
        _compare_links(found, reference, table, question, links)
        wanted = min(each, number - found.programs)
        rows = [row for _ in range(wanted) if codes and (row := random_row(rng, codes, links))]
        found.programs += len(rows)
        with SqliteReference(*about) as sqlite:
            for row in rows:
                program = Program.from_row(row, links)
                shown = f"{program.text(table.header)}: "
                expected = reference.execute(program)
                found.empty += expected is None
                ours, third = execute(table, row, links), sqlite.execute(program)
                if _with_types(ours) != _with_types(expected):
                    found.different += 1
                    found.note(f"{shown}{ours}, not {expected}; {table.rows}")
                if _with_types(third) != _with_types(expected):
                    found.sqlite += 1
                    found.note(f"{shown}SQLite {third}, not {expected}; {table.rows}")
    return found


def _compare_links(
    found: Differences, reference: Reference, table: Table, question: str, links: Links
) -> None:
    for index, mask in enumerate(links.masks):
        link = links.link(index)
        rows = reference.rows_of(link)
        if rows != mask_rows(mask):
            found.rows += 1
            shown = f"{link.text(table.header)} in {question!r}, {table.rows}"
            found.note(f"{shown}: rows {mask_rows(mask)} instead of {rows}")


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
