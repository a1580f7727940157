"""Two slow executors of programs, to compare the fast one with.

Both follow the docstring of `hardem_jax.programs.solutions.types` and share no code with
`hardem_jax.programs.solutions.execute` or with each other: one is plain Python over lists of rows,
the other writes a program as SQL and lets SQLite execute it.
"""

import math
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from hardem_jax.programs.solutions.parts import read_cell
from hardem_jax.programs.solutions.types import (
    NUMBER_RESULTS,
    OPERATORS,
    PARTS,
    Field,
    Link,
    Program,
)
from hardem_jax.tables.table import Table

# Texts or numbers, never compared with each other.
Key = Any
Value = tuple[Key, str | float]
Fields = Mapping[int, Sequence[Sequence[Value]]]
"""For the code of each field, the list of (key, cell shown) of every row."""


def table_values(table: Table) -> Fields:
    """The values of every field of a table, read cell by cell, and its row numbers."""
    fields: dict[int, list] = {}
    for column in range(len(table.header)):
        read = [read_cell(row[column]) for row in table.rows]
        for part in range(len(PARTS)):
            rows = [values.get(part, ()) for values in read]
            if any(rows):
                fields[Field(column, part).code] = rows
    number = Field(len(table.header), PARTS.index("number"))
    fields[number.code] = [((row, row),) for row in map(float, range(1, len(table.rows) + 1))]
    return fields


class Reference:
    """Executes programs in plain Python.

    Args:
        fields: the values of every field, see `Fields`; a field that is not there has none.
        num_rows: rows of the table.
        totals: those that are total rows.
        truths: the words for true and false.

    Example:
        >>> from hardem_jax.programs.solutions.types import Shape
        >>> size = Field(0, 4)
        >>> table = Reference({size.code: [[(3.0, 3.0)], [], [(5.0, "5 km")]]}, 3)
        >>> table.execute(Program(Shape("values", "highest", "all"), size, size, ()))
        ['5 km']
    """

    def __init__(
        self,
        fields: Fields,
        num_rows: int,
        totals: Collection[int] = (),
        truths: tuple[str, str] = ("yes", "no"),
    ):
        self._fields, self._rows, self._truths = fields, range(num_rows), truths
        self._ordinary = [row for row in self._rows if row not in totals]

    def rows_of(self, link: Link) -> list[int]:
        """The rows that satisfy a link."""
        on_text = link.field.is_text and OPERATORS[link.operator] in ("=", "contains")
        rows = self._rows if on_text else self._ordinary
        return [r for r in rows if _holds(link, self._keys(link.field, r))]

    def execute(self, program: Program, sets: Sequence[Sequence[int]] | None = None) -> list | None:
        """The result of a program; None if it has none.

        Args:
            program: with links, unless ``sets`` are given.
            sets: rows, ascending, to use instead of those that satisfy the links.
        """
        if not _is_typed(program):
            return None
        if sets is None:
            sets = [self.rows_of(link) for link in program.links]
        if program.shape.connective == "versus":
            return self._versus(program, *sets)
        rows = self._final(program, sets)
        return self._result(program, rows) if rows else None

    def _keys(self, field: Field, row: int) -> list[Key]:
        return [key for key, _ in self._values(field, row)]

    def _values(self, field: Field, row: int) -> Sequence[Value]:
        return self._fields[field.code][row] if field.code in self._fields else ()

    def _final(self, program: Program, sets: Sequence[Sequence[int]]) -> list[int]:
        targets = self._ordinary
        match program.shape.connective:
            case "all":
                rows = targets
            case "one":
                rows = list(sets[0])
            case "and":
                rows = [r for r in sets[0] if r in sets[1]]
            case "or":
                rows = [r for r in self._rows if r in sets[0] or r in sets[1]]
            case "and not":
                rows = [r for r in sets[0] if r not in sets[1]]
            case "to":
                rows, targets = map(list, sets)
            case other:
                raise ValueError(other)
        if not rows:
            return []
        return self._modified(program.shape.modifier, program.modify, rows, targets)

    def _modified(self, modifier, field, rows, targets) -> list[int]:
        match modifier:
            case "none":
                return rows
            case "first":
                return [min(rows)]
            case "last":
                return [max(rows)]
            case "previous":
                return [r for r in targets if r < min(rows)][-1:]
            case "next":
                return [r for r in targets if r > max(rows)][:1]
            case "same":
                known = {key for r in rows for key in self._keys(field, r)}
                return [
                    r for r in targets if r not in rows and known.intersection(self._keys(field, r))
                ]
            case "highest":
                return self._extreme(max, field, rows)
            case "lowest":
                return self._extreme(min, field, rows)
            case "higher" | "next higher":
                above = self._beyond(max, lambda key, bound: key > bound, field, rows, targets)
                return self._extreme(min, field, above) if modifier == "next higher" else above
            case "lower" | "next lower":
                below = self._beyond(min, lambda key, bound: key < bound, field, rows, targets)
                return self._extreme(max, field, below) if modifier == "next lower" else below
        raise ValueError(modifier)

    def _extreme(self, choose: Callable, field: Field, rows: list[int]) -> list[int]:
        keys = [key for r in rows for key in self._keys(field, r)]
        return [r for r in rows if choose(keys) in self._keys(field, r)] if keys else []

    def _beyond(self, choose, is_beyond, field, rows, targets) -> list[int]:
        keys = [key for r in rows for key in self._keys(field, r)]
        if not keys:
            return []
        bound = choose(keys)
        return [r for r in targets if any(is_beyond(key, bound) for key in self._keys(field, r))]

    def _result(self, program: Program, rows: list[int]) -> list | None:
        result, field = program.shape.result, program.select
        if result == "count":
            return [float(len(rows))]
        assert field is not None
        if result in ("gap", "total"):
            return self._pair(result, field, program.modify, rows)
        values = [value for r in rows for value in self._values(field, r)]
        if not values:
            return None
        keys = [key for key, _ in values]
        match result:
            case "values":
                return [shown for _, shown in values]
            case "count distinct":
                return [float(len(set(keys)))]
            case "sum":
                return _number(lambda: math.fsum(keys))
            case "average":
                return _number(lambda: math.fsum(keys) / len(keys))
            case "range":
                return _number(lambda: max(keys) - min(keys)) if len(set(keys)) > 1 else None
        shown = {}
        for key, cell in values:
            shown.setdefault(key, cell)
        counts = Counter(key for r in rows for key in set(self._keys(field, r)))
        match result:
            case "most common":
                wanted = {max(counts.values())} if len(counts) > 1 else set()
            case "least common":
                wanted = {min(counts.values())} if len(counts) > 1 else set()
            case "repeated":
                wanted = set(counts.values()) - {1}
            case _:
                raise ValueError(result)
        return [cell for key, cell in shown.items() if counts[key] in wanted] or None

    def _pair(self, result: str, first: Field, second: Field | None, rows) -> list | None:
        assert second is not None
        if len(rows) > 1:
            return None
        a, b = self._keys(first, rows[0]), self._keys(second, rows[0])
        if not a or not b:
            return None
        return _number(lambda: abs(a[0] - b[0]) if result == "gap" else a[0] + b[0])

    def _versus(self, program: Program, left: Sequence[int], right: Sequence[int]) -> list | None:
        if not left or not right:
            return None
        result = program.shape.result
        if result == "count difference":
            return [float(abs(len(left) - len(right)))]
        if result == "is more":
            return self._whether(len(left) > len(right))
        if result == "is within":
            return self._whether(set(left) <= set(right))
        assert program.select is not None
        a, b = ({k for r in rows for k in self._keys(program.select, r)} for rows in (left, right))
        if len(a) != 1 or len(b) != 1:
            return None
        (a,), (b,) = a, b
        match result:
            case "difference":
                return _number(lambda: abs(a - b))
            case "is higher":
                return self._whether(a > b)
            case "is same":
                return self._whether(a == b)
        raise ValueError(result)

    def _whether(self, truth: bool) -> list:
        return [self._truths[0] if truth else self._truths[1]]


def _holds(link: Link, keys: list[Key]) -> bool:
    value: Key = link.value
    match OPERATORS[link.operator]:
        case "empty":
            return not keys
        case "not empty":
            return bool(keys)
        case "=":
            return value in keys
        case "!=":
            return bool(keys) and value not in keys
        case ">":
            return any(key > value for key in keys)
        case ">=":
            return any(key >= value for key in keys)
        case "<":
            return any(key < value for key in keys)
        case "<=":
            return any(key <= value for key in keys)
        case "contains":
            return any(
                key != value and _has_words(key.split(" "), value.split(" ")) for key in keys
            )
    raise ValueError(link.operator)


def _has_words(words: list[str], wanted: list[str]) -> bool:
    starts = range(len(words) - len(wanted) + 1)
    return any(words[start : start + len(wanted)] == wanted for start in starts)


def _number(compute: Callable[[], float]) -> list[float] | None:
    try:
        number = compute()
    except OverflowError:
        return None
    return [float(number)] if math.isfinite(number) else None


def _is_typed(program: Program) -> bool:
    """Whether results and modifiers that need numbers have fields of numbers."""
    shape, select, modify, _ = program
    if shape.result in NUMBER_RESULTS and select is not None and select.is_text:
        return False
    return modify is None or shape.modifier == "same" or not modify.is_text


class _ExactSum:
    """An aggregate function of SQLite."""

    def __init__(self):
        self._numbers: list[float] = []

    def step(self, number: Any) -> None:
        self._numbers.append(number)

    def finalize(self) -> Any:
        if not self._numbers:
            return None
        try:
            return math.fsum(self._numbers)
        except OverflowError:
            return math.inf


class SqliteReference:
    """Executes programs as SQL: every value is a row of the table ``v(f, r, p, k, s)``.

    f is the code of a field, r the row, p the place in the row's list, k the key, s the cell shown.
    The table ``t(r)`` has the rows that are no totals. Sums are exact, as SQLite's own are not.

    Args:
        fields: the values of every field, see `Fields`.
        num_rows: rows of the table.
        totals: those that are total rows.
        truths: the words for true and false.
    """

    def __init__(
        self,
        fields: Fields,
        num_rows: int,
        totals: Collection[int] = (),
        truths: tuple[str, str] = ("yes", "no"),
    ):
        self._truths = truths
        self._connection = sqlite3.connect(":memory:")
        self._connection.create_aggregate("exact_sum", 1, _ExactSum)
        run = self._connection.executemany
        self._connection.execute("CREATE TABLE t (r INTEGER)")
        self._connection.execute("CREATE TABLE v (f INTEGER, r INTEGER, p INTEGER, k, s)")
        self._connection.execute("CREATE INDEX i ON v (f, r)")
        run("INSERT INTO t VALUES (?)", [(r,) for r in range(num_rows) if r not in totals])
        run(
            "INSERT INTO v VALUES (?, ?, ?, ?, ?)",
            [
                (code, r, place, key, shown)
                for code, rows in fields.items()
                for r, row in enumerate(rows)
                for place, (key, shown) in enumerate(row)
            ],
        )

    def __enter__(self) -> "SqliteReference":
        return self

    def __exit__(self, *exception) -> None:
        self._connection.close()

    def execute(self, program: Program) -> list | None:
        """The result of a program; None if it has none."""
        if not _is_typed(program):
            return None
        shape, views, values = program.shape, {}, {}
        for name, link in zip(("links_a", "links_b"), program.links, strict=False):
            views[name] = _link_sql(link)
            values[name] = (link.value,) * views[name].count("?")
        for name, field in (("selected", program.select), ("modifying", program.modify)):
            if field is not None:
                views[name] = f"SELECT * FROM v WHERE f = {field.code}"
        views["start"] = _START[shape.connective]
        views["target"] = "SELECT r FROM " + ("links_b" if shape.connective == "to" else "t")
        views["final"] = _FINAL[shape.modifier]
        views |= {"sizes": _SIZES, "groups": _GROUPS}
        used = _needed(_RESULT[shape.result], views)
        sql = ", ".join(f"{name} AS ({views[name]})" for name in views if name in used)
        sql = f"WITH {sql} {_RESULT[shape.result]}"
        bound = [value for name in views if name in used for value in values.get(name, ())]
        cells = [cell for (cell,) in self._connection.execute(sql, bound) if cell is not None]
        cells = [float(cell) if isinstance(cell, int) else cell for cell in cells]
        if shape.result.startswith("is "):
            return [self._truths[not cell] for cell in cells] or None
        if any(isinstance(cell, float) and not math.isfinite(cell) for cell in cells):
            return None
        return cells or None


def _link_sql(link: Link) -> str:
    operator = OPERATORS[link.operator]
    held = f"SELECT r FROM v WHERE f = {link.field.code}"
    if not (link.field.is_text and operator in ("=", "contains")):
        held += " AND r IN t"
    match operator:
        case "empty":
            return f"SELECT r FROM t WHERE r NOT IN ({held})"
        case "not empty":
            return held
        case "!=":
            return f"{held} AND r NOT IN ({held} AND k = ?)"
        case "contains":
            return f"{held} AND instr(' ' || k || ' ', ' ' || ? || ' ') AND k != ?"
    return f"{held} AND k {operator} ?"


def _needed(sql: str, views: Mapping[str, str]) -> set[str]:
    """The views that a query names, and those that they name."""
    found = set(re.findall(r"\w+", sql)) & views.keys()
    return found.union(*(_needed(views[name], views) for name in found))


_START = {
    "all": "SELECT r FROM t",
    "one": "SELECT r FROM links_a",
    "and": "SELECT r FROM links_a INTERSECT SELECT r FROM links_b",
    "or": "SELECT r FROM links_a UNION SELECT r FROM links_b",
    "and not": "SELECT r FROM links_a EXCEPT SELECT r FROM links_b",
    "to": "SELECT r FROM links_a",
    "versus": "SELECT r FROM t",
}
_EXTREME = (
    "SELECT r FROM modifying WHERE r IN start"
    " AND k = (SELECT {}(k) FROM modifying WHERE r IN start)"
)
_BEYOND = (
    "SELECT r FROM modifying WHERE r IN target"
    " AND k {} (SELECT {}(k) FROM modifying WHERE r IN start)"
)
_HIGHER, _LOWER = _BEYOND.format(">", "max"), _BEYOND.format("<", "min")
_NEXT = "{0} AND k = (SELECT {1}(k) FROM modifying WHERE r IN ({0}))"
_FINAL = {
    "none": "SELECT r FROM start",
    "first": "SELECT min(r) AS r FROM start",
    "last": "SELECT max(r) AS r FROM start",
    "highest": _EXTREME.format("max"),
    "lowest": _EXTREME.format("min"),
    "previous": "SELECT max(r) AS r FROM target WHERE r < (SELECT min(r) FROM start)",
    "next": "SELECT min(r) AS r FROM target WHERE r > (SELECT max(r) FROM start)",
    "same": "SELECT r FROM modifying WHERE r IN target AND r NOT IN start"
    " AND k IN (SELECT k FROM modifying WHERE r IN start)",
    "higher": _HIGHER,
    "lower": _LOWER,
    "next higher": _NEXT.format(_HIGHER, "min"),
    "next lower": _NEXT.format(_LOWER, "max"),
}
# How many rows hold each key, and where it first appears; a table has less than 10^6 values a row.
_SIZES = "SELECT k, count(DISTINCT r) AS n FROM selected WHERE r IN final GROUP BY k"
_GROUPS = (
    "SELECT min(r * 1000000 + p) AS place, s, n FROM selected JOIN sizes USING (k)"
    " WHERE r IN final GROUP BY k"
)
_IN = "FROM selected WHERE r IN final"
_COMMON = (
    "SELECT s FROM groups WHERE n = (SELECT {}(n) FROM sizes) AND (SELECT count(*) FROM sizes) > 1"
    " ORDER BY place"
)
_PAIR = (
    "SELECT {} FROM (SELECT k AS x FROM selected WHERE r IN final),"
    " (SELECT k AS y FROM modifying WHERE r IN final)"
    " WHERE (SELECT count(DISTINCT r) FROM final) = 1"
)
_ONLY = "(SELECT iif(count(DISTINCT k) = 1, min(k), NULL) AS {} FROM selected WHERE r IN links_{})"
_VERSUS = (
    "SELECT {} FROM " + f"{_ONLY.format('x', 'a')}, {_ONLY.format('y', 'b')}"
    " WHERE x IS NOT NULL AND y IS NOT NULL"
)
_COUNTS = (
    "SELECT {} FROM (SELECT count(DISTINCT r) AS x FROM links_a),"
    " (SELECT count(DISTINCT r) AS y FROM links_b) WHERE x AND y"
)
_RESULT = {
    "values": f"SELECT s {_IN} ORDER BY r, p",
    "count": "SELECT nullif(count(DISTINCT r), 0) FROM final",
    "count distinct": f"SELECT nullif(count(DISTINCT k), 0) {_IN}",
    "sum": f"SELECT exact_sum(k) {_IN}",
    "average": f"SELECT exact_sum(k) / count(k) {_IN}",
    "range": f"SELECT iif(count(DISTINCT k) > 1, max(k) - min(k), NULL) {_IN}",
    "most common": _COMMON.format("max"),
    "least common": _COMMON.format("min"),
    "repeated": "SELECT s FROM groups WHERE n > 1 ORDER BY place",
    "gap": _PAIR.format("abs(x - y)"),
    "total": _PAIR.format("x + y"),
    "difference": _VERSUS.format("abs(x - y)"),
    "count difference": _COUNTS.format("abs(x - y)"),
    "is higher": _VERSUS.format("x > y"),
    "is same": _VERSUS.format("x = y"),
    "is more": _COUNTS.format("x > y"),
    "is within": "SELECT count(*) = 0 FROM links_a WHERE r NOT IN links_b",
}
