"""Small random problems on tables, and all of Z_tot by executing every query."""

import dataclasses
import itertools
import re

from hardem_jax.queries.solutions.types import ROW_WIDTH, Condition, Query, SqlRules
from hardem_jax.queries.solutions.values import ExecutionError, bound_value
from hardem_jax.tables.table import Table, split_words
from tests.queries.solutions.official import official

WORDS = ("7", "2.5", "-7", "1,000", "ann", "Bo", "bo ann", "96-97", "8abx", "'", "20", "3.0", "é")
CELLS = ("7", "2.5", "ann", "bo", "bo ann", "20", "1000", "8abx", "é", "'", None, "", "96 km")
NUMBERS = (7.0, 2.5, -7.0, 20.0, 96.0, 97.0, 1000.0, 0.1, 0.2, None, "n/a")


def random_table(rng):
    types = tuple(rng.choice(("text", "real")) for _ in range(rng.randrange(1, 4)))
    cells = {"text": CELLS, "real": NUMBERS}
    rows = tuple(tuple(rng.choice(cells[kind]) for kind in types) for _ in range(rng.randrange(6)))
    return Table("1-1", tuple(map(str, types)), types, rows)


def random_rules(rng):
    names = ("ranges_on_text", "shared_columns", "distinct_values")
    return SqlRules(
        max_conditions=rng.choice((0, 1, 2, 3, 3)),
        numbers=rng.choice(("whole", "exact", "official")),
        vacuous_conditions=rng.random() < 0.7,
        aggregates_of_one_row=rng.random() < 0.7,
        aggregates_on_text=rng.random() < 0.5,
        **{name: rng.random() < 0.3 for name in names},
    )


NUMBER = r"[-+]?([0-9]+|[0-9]{1,3}(,[0-9]{3})+)(\.[0-9]+)?|[-+]?\.[0-9]+"


def may_face_numbers(question, start, end, numbers):
    text = question[start:end]
    if numbers == "official":
        try:
            bound_value(text, "real")
        except ExecutionError:
            return False
        return True
    if not re.fullmatch(NUMBER, text):
        return False
    # Digits that go on, also behind a point or a comma of thousands, make it a piece of a number.
    before, behind = question[:start], question[end:]
    piece = re.search(r"[0-9][.]?$", before) and text[0] not in "+-"
    piece = piece or re.match(r"[.]?[0-9]|,[0-9]{3}(?![0-9])", behind)
    piece = piece or (re.search(r"[0-9],$", before) and re.match(r"[0-9]{3}(?![0-9])", text))
    piece = piece or (text[0] != "." and before.endswith("."))
    return numbers == "exact" or not piece


def brute_conditions(table, question, rules):
    """Every condition that some row meets, as row parts (column, operator, first, last)."""
    words = split_words(question)
    found, seen = [], set()
    spans = [(i, j) for i in range(len(words)) for j in range(i, len(words))]
    for column, kind in enumerate(table.types):
        for operator, (first, last) in itertools.product(range(3), spans):
            start, end = words[first, 0], words[last, 1]
            value = question[start:end]
            if kind == "real" and not may_face_numbers(question, start, end, rules.numbers):
                continue
            if kind == "text" and operator and not rules.ranges_on_text:
                continue
            bound = bound_value(value, kind)
            # NULL in a selected column still is a row.
            rows = official(table, Query(0, 0, (Condition(column, operator, value),)))
            if not rows or (len(rows) == len(table.rows) and not rules.vacuous_conditions):
                continue
            if rules.distinct_values and (column, operator, bound) in seen:
                continue
            seen.add((column, operator, bound))
            found.append((column, operator, first, last))
    return sorted(found)


def brute_results(table, question, rules):
    """{row of Z_tot: its result}, executing every query, in no particular order."""
    words = split_words(question)
    conditions = brute_conditions(table, question, rules)
    results = {}
    for number in range(rules.max_conditions + 1):
        for chosen in itertools.combinations(conditions, number):
            columns = [condition[0] for condition in chosen]
            if len(set(columns)) < number and not rules.shared_columns:
                continue
            tail = [*itertools.chain(*chosen), *[-1] * (ROW_WIDTH - 3 - 4 * number)]
            rows = [
                (select, aggregator, number, *tail)
                for select in range(len(table.types))
                for aggregator in range(6)
            ]
            if not rules.aggregates_on_text:
                # MAX, MIN, SUM and AVG of text mean nothing.
                rows = [row for row in rows if row[1] in (0, 3) or table.types[row[0]] == "real"]
            selected = official(
                table,
                Query(0, 0, Query.from_row((0, 0, number, *tail), question, words).conditions),
            )
            if len(selected) == 1 and not rules.aggregates_of_one_row:
                rows = [row for row in rows if row[1] in (0, 3)]  # none and COUNT
            if selected:
                for row in rows:
                    results[row] = official(table, Query.from_row(row, question, words))
    return results


def random_problem(rng):
    """Rules, a table, a question, and every query of Z_tot with its result."""
    rules, table = random_rules(rng), random_table(rng)
    question = " ".join(rng.choice(WORDS) for _ in range(rng.randrange(0, 4)))
    if len(brute_conditions(table, question, rules)) > 40:
        rules = dataclasses.replace(rules, max_conditions=min(2, rules.max_conditions))
    return rules, table, question, brute_results(table, question, rules)
