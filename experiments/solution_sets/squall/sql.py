"""Parses the SQL of SQUALL (Shi et al., 2020), annotated programs for WikiTableQuestions.

The file is ``annotations.jsonl.gz``, one JSON object a line with `id` and `sql`. In the SQL, the
table is `w`, its row number `id`, and its columns are `c1`, `c2` and so on. A suffix names a typed
part of the cells: `c3_number`, `c1_list_first`.

A SELECT with a FROM becomes a `Select`; one without is the expression that it selects. Everything
else is a column, a literal or an `Apply`.
"""

import dataclasses
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from hardem_jax.errors import InputError
from hardem_jax.solutions.arguments import check_texts

ROW_NUMBER = -1
"""The index of the column `id`."""

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<number>\d+(?:\.\d+)?|\.\d+)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<mark><=|>=|!=|<>|[-+*/=<>(),])
    )""",
    re.VERBOSE,
)
_COLUMN = re.compile(r"c(\d+)(?:_(\w+))?")
_COMPARISONS = {"=": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


@dataclasses.dataclass(frozen=True)
class Column:
    """A column, or a part of it: `c3_first_number` is ``Column(2, "first_number")``."""

    index: int
    suffix: str = ""


@dataclasses.dataclass(frozen=True)
class Apply:
    """An operator or function and what it is applied to.

    Names are lower case: "and", "=", "in", "is null", "not null", "+", "count", "count distinct".
    The argument of ``count(*)`` is "*".
    """

    name: str
    arguments: tuple["Expression", ...]


@dataclasses.dataclass(frozen=True)
class Select:
    """A SELECT.

    Attributes:
        values: the selected expressions.
        where: condition, or None.
        group: the column of GROUP BY, or None.
        having: condition on groups, or None.
        order: the expression of ORDER BY, or None.
        descending: its direction.
        limit: or None.
        distinct: SELECT DISTINCT.
        source: the query of FROM, None for the table.
    """

    values: tuple["Expression", ...]
    where: "Expression | None" = None
    group: "Expression | None" = None
    having: "Expression | None" = None
    order: "Expression | None" = None
    descending: bool = False
    limit: int | None = None
    distinct: bool = False
    source: "Expression | None" = None


Expression = Column | Apply | Select | str | int | float | None


class SqlError(ValueError):
    """SQL that `parse_squall` does not know."""


def read_squall(file: Path) -> Iterator[tuple[str, str]]:
    """The id and the SQL of every annotated question.

    Raises:
        InputError: the file is missing, damaged or not in this layout.
    """
    try:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    record = json.loads(line)
                    check_texts((record["id"], record["sql"]), "id and sql")
                except (ValueError, KeyError, TypeError) as error:
                    expected = "expected a JSON object with id and sql"
                    raise InputError(f"{file}: line {number}: {expected}") from error
                yield record["id"], record["sql"]
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise InputError(f"{file}: {error}") from error


def parse_squall(sql: str) -> Expression:
    """Parses the SQL of an annotation.

    Raises:
        SqlError: not SQL of this subset.

    Example:
        >>> query = parse_squall("select c2 from w where c1_number = 3 order by id desc limit 1")
        >>> query.where
        Apply(name='=', arguments=(Column(index=0, suffix='number'), 3))
        >>> query.order, query.descending, query.limit
        (Column(index=-1, suffix=''), True, 1)
    """
    parser = _Parser(_tokens(sql))
    query = parser.expression()
    if parser.next:
        raise SqlError(f"expected the end of the query, found {parser.next!r}")
    return query


def _tokens(sql: str) -> list[str | int | float | tuple[str]]:
    """Names and marks as strings, text literals as tuples of one."""
    tokens, position, sql = [], 0, sql.rstrip()
    while position < len(sql):
        match = _TOKEN.match(sql, position)
        if match is None:
            raise SqlError(f"unknown character {sql[position:].strip()[:1]!r}")
        position = match.end()
        if text := match["text"]:
            quote = text[0]
            unquoted = text[1:-1].replace(quote * 2, quote)
            tokens.append((re.sub(r"\\(.)", r"\1", unquoted),))
        elif number := match["number"]:
            tokens.append(float(number) if "." in number else int(number))
        else:
            tokens.append((match["name"] or match["mark"]).lower())
    return tokens


class _Parser:
    """Recursive descent, a method for each level of precedence."""

    def __init__(self, tokens):
        self._tokens, self._place = tokens, 0

    @property
    def next(self):
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def take(self, *words: str) -> bool:
        """Whether these words come next; they are consumed if so."""
        found = self._tokens[self._place : self._place + len(words)] == [*words]
        self._place += len(words) * found
        return found

    def expect(self, word: str) -> None:
        if not self.take(word):
            raise SqlError(f"expected {word!r}, found {self.next!r}")

    def expression(self) -> Expression:
        return self._joined(("or",), lambda: self._joined(("and",), self._comparison))

    def _joined(self, marks, operand) -> Expression:
        left = operand()
        while self.next in marks:
            mark = self.next
            self.expect(mark)
            left = Apply(mark, (left, operand()))
        return left

    def _comparison(self) -> Expression:
        if self.take("not"):
            return Apply("not", (self._comparison(),))
        left = self._sum()
        if (mark := self.next) in _COMPARISONS and isinstance(mark, str):
            self.expect(mark)
            return Apply(_COMPARISONS[mark], (left, self._sum()))
        if self.take("is", "not", "null") or self.take("not", "null"):
            return Apply("not null", (left,))
        if self.take("is", "null"):
            return Apply("is null", (left,))
        if self.take("between"):
            low = self._sum()
            self.expect("and")
            return Apply("between", (left, low, self._sum()))
        name = "not in" if self.take("not", "in") else "in" if self.take("in") else ""
        if not name:
            return left
        self.expect("(")
        return Apply(name, (left, *self._list()))

    def _sum(self) -> Expression:
        return self._joined(("+", "-"), lambda: self._joined(("*", "/"), self._operand))

    def _list(self) -> tuple[Expression, ...]:
        """Expressions up to the closing parenthesis."""
        found = [self.expression()]
        while self.take(","):
            found.append(self.expression())
        self.expect(")")
        return tuple(found)

    def _operand(self) -> Expression:
        token = self.next
        self._place += 1
        if isinstance(token, tuple):
            return token[0]
        if isinstance(token, int | float):
            return token
        if token == "(":
            inner = self.expression()
            self.expect(")")
            return inner
        if token == "-":
            return Apply("negative", (self._operand(),))
        if token == "select":
            return self._select()
        if token == "id":
            return Column(ROW_NUMBER)
        if match := _COLUMN.fullmatch(token):
            return Column(int(match[1]) - 1, match[2] or "")
        if self.take("("):
            if self.take("*", ")"):
                return Apply(token, ("*",))
            name = f"{token} distinct" if self.take("distinct") else token
            return Apply(name, self._list())
        if token.isidentifier() and token not in ("from", "where", "and", "or", "limit", "order"):
            return Apply(token, ())  # a name such as present_ref
        raise SqlError(f"expected an expression, found {token!r}")

    def _select(self) -> Expression:
        distinct = self.take("distinct")
        values = [self.expression()]
        while self.take(","):
            values.append(self.expression())
        if not self.take("from"):
            return values[0]  # SELECT (SELECT ...) - (SELECT ...)
        source = None if self.take("w") else self._operand()
        self.take("w")  # an alias
        where = self.expression() if self.take("where") else None
        group = self.expression() if self.take("group", "by") else None
        having = self.expression() if self.take("having") else None
        order, descending, limit = None, False, None
        if self.take("order", "by"):
            order = self.expression()
            descending = self.take("desc")
            self.take("asc")
        if self.take("limit"):
            limit = self.next
            if not isinstance(limit, int):
                raise SqlError(f"expected a number after limit, found {limit!r}")
            self._place += 1
        left = Select(
            tuple(values), where, group, having, order, descending, limit, distinct, source
        )
        for name in ("intersect", "union", "except"):
            if self.take(name):
                self.take("all")
                return Apply(name, (left, self._operand()))
        return left
