"""Translates the SQL of SQUALL into forms, programs whose parts and values are not linked yet.

A form has the three names of a shape (see `hardem_jax.solutions.programs`), the columns with
SQUALL's suffixes, and conditions with literal values. SQL that no form can say raises
`NotExpressible` with the construct that is in the way.
"""

import dataclasses
import functools
from collections.abc import Iterator

from experiments.solution_sets.squall.sql import ROW_NUMBER, Apply, Column, Expression, Select
from hardem_jax.solutions.programs.types import SHAPES, Shape

_AGGREGATES = {"max": "max", "min": "min", "sum": "sum", "avg": "average"}
_AGGREGATES |= {"count distinct": "count distinct"}
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_DATE_PARTS = ("year", "month", "day")
_NULLS = {"is null": "empty", "not null": "not empty"}


@dataclasses.dataclass(frozen=True)
class Condition:
    """``column operator value``.

    Attributes:
        column: the column, with SQUALL's suffix.
        operator: one of `hardem_jax.solutions.programs.types.OPERATORS`.
        value: a literal; None for "empty" and "not empty"; for a date, year, month and day, of
            which one may be None.
    """

    column: Column
    operator: str
    value: str | int | float | tuple[int | None, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Form:
    """A program without parts and links.

    Attributes:
        result: what is computed, such as "values" or "count".
        select: the column it is computed from, or None.
        connective: how the conditions select rows, such as "all", "one" or "and".
        conditions: as many as the connective has.
        modifier: which rows follow from these, such as "none" or "highest".
        modify: the column that the modifier compares, or the second operand of the result, or None.
    """

    result: str
    select: Column | None
    connective: str
    conditions: tuple[Condition, ...] = ()
    modifier: str = "none"
    modify: Column | None = None

    @property
    def shape(self) -> Shape:
        """The shape, which need not be one of `SHAPES`."""
        return Shape(self.result, self.modifier, self.connective)


_Pair = tuple[Condition, Condition]


class NotExpressible(Exception):
    """SQL that is no program of the language; the message names the construct."""


def forms_of(query: Expression) -> list[Form]:
    """The forms that mean what the SQL means, the most literal first.

    These are the same to SQL and to the language, and only the right one is a shape:

    - MAX and MIN are the value of the highest and lowest row;
    - the row above ``id`` n, or with ``id`` n + 1, is the next one, and likewise the previous one;
    - of a value n + 1 that some row has, the row is the next higher one if all values are whole,
      and likewise the next lower one;
    - the row with ``id`` 1 is the first one;
    - conditions on year, month and day of a column, joined by AND, are one on a date.

    Raises:
        NotExpressible: there is none.

    Example:
        >>> from experiments.solution_sets.squall.sql import parse_squall
        >>> (form,) = forms_of(parse_squall("select c1 from w where c2 = 'x' order by id limit 1"))
        >>> form.shape
        Shape(result='values', modifier='first', connective='one')
    """
    found: list[Form] = []
    problem = None
    for reading in dict.fromkeys((query, _with_dates(query))):
        try:
            form = _form(reading)
            known = [f for f in (form, *_equivalents(form)) if f.shape in SHAPES]
            if not known:
                names = ", ".join(form.shape)
                raise NotExpressible(f"no shape {names}")
            found += known
        except NotExpressible as error:
            problem = error
    if not found:
        assert problem is not None
        raise problem
    return found


def _with_dates(query: Expression) -> Expression:
    """The same, with conditions on the year, month and day of one column made one."""
    match query:
        case Select(where=where):
            return dataclasses.replace(
                query,
                values=tuple(map(_with_dates, query.values)),
                where=None if where is None else _with_dates(where),
            )
        case Apply("and"):
            dates: dict[int, dict[str, int]] = {}
            rest: list[Expression] = []
            for conjunct in _conjuncts(query):
                match conjunct:
                    case Apply("=", (Column(index, suffix), int(number))) if (
                        suffix in _DATE_PARTS and suffix not in dates.get(index, ())
                    ):
                        dates.setdefault(index, {})[suffix] = number
                    case _:
                        rest.append(_with_dates(conjunct))
            for index, parts in dates.items():
                values = [parts.get(name) for name in _DATE_PARTS]
                rest.append(Apply("date", (Column(index, "date"), *values)))
            return functools.reduce(lambda left, right: Apply("and", (left, right)), rest)
        case Apply(name, arguments):
            return Apply(name, tuple(map(_with_dates, arguments)))
    return query


_NEXT = {"plus one": "next higher", "minus one": "next lower"}
_NEXT_ROW = {"plus one": "next", "minus one": "previous", "highest": "last", "lowest": "first"}
_NEXT_ROW |= {"next higher": "next", "next lower": "previous"}
_EXTREMES = {"max": "highest", "min": "lowest"}


def _equivalents(form: Form) -> Iterator[Form]:
    row, change = Column(ROW_NUMBER), dataclasses.replace
    if form.result in _EXTREMES and form.modifier == "none":
        modifier = _EXTREMES[form.result]
        yield change(form, result="values", modifier=modifier, modify=form.select)
    if form.modify == row and form.modifier in _NEXT_ROW:
        yield change(form, modifier=_NEXT_ROW[form.modifier], modify=None)
    elif form.modifier in _NEXT:
        yield change(form, modifier=_NEXT[form.modifier])
    if form.modifier == "none" and form.conditions == (Condition(row, "=", 1),):
        yield change(form, connective="all", conditions=(), modifier="first")


def _form(query: Expression) -> Form:
    match query:
        case Apply("abs", (inner,)):
            form = _form(inner)
            if form.result not in ("difference", "count difference", "range"):
                raise NotExpressible("abs")
            return form
        case Apply("-", (Select() as left, Select() as right)):
            return _difference(_form(left), _form(right))
        case Apply("+", (Select() as left, Select() as right)):
            return _sum(_form(left), _form(right))
        case Apply("-" | "+", _):
            raise NotExpressible("arithmetic with a query and a constant")
        case Apply(name, (Select() as left, Select() as right)) if name in _COMPARISONS:
            return _compared(name, _form(left), _form(right))
        case Apply(name, (Select() as inner, str() | int() | float() as value)) | Apply(
            name, (str() | int() | float() as value, Select() as inner)
        ) if name in _COMPARISONS:
            turned = query == Apply(name, (value, inner))
            return _constant_compared(_FLIPPED[name] if turned else name, _form(inner), value)
        case Apply(name) if name in _COMPARISONS:
            raise NotExpressible("comparison of something else than queries as result")
        case Apply("intersect" | "union" | "except" as name, _):
            raise NotExpressible(name)
        case Select():
            return _select(query)
    raise NotExpressible("a result that is not a query")


def _difference(left: Form, right: Form) -> Form:
    ends = {left.result, right.result}
    if ends == {"max", "min"} and left.connective == right.connective:
        if dataclasses.replace(left, result=right.result) == right:
            return dataclasses.replace(left, result="range")
    for form in (left, right):
        if form.modifier != "none" or form.connective != "one":
            raise NotExpressible("difference of rows that are not given by one condition each")
    conditions = (*left.conditions, *right.conditions)
    if ends == {"count"}:
        return Form("count difference", None, "versus", conditions)
    if left.select is None or left.select != right.select:
        raise NotExpressible("difference of two columns")
    if ends != {"values"}:
        raise NotExpressible("difference of other results than values and counts")
    return Form("difference", left.select, "versus", conditions)


def _compared(name: str, left: Form, right: Form) -> Form:
    if name in ("<", "<="):
        name, left, right = _FLIPPED[name], right, left
    for form in (left, right):
        if form.modifier != "none" or form.connective != "one":
            raise NotExpressible("comparison of rows that are not given by one condition each")
    results = {left.result, right.result}
    if left.select != right.select or name not in (">", "=") or len(results) > 1:
        raise NotExpressible("comparison of two columns, or by >= or !=, as result")
    kinds = {("values", ">"): "is higher", ("values", "="): "is same", ("count", ">"): "is more"}
    if (left.result, name) not in kinds:
        raise NotExpressible(f"comparison of {left.result} by {name} as result")
    return Form(
        kinds[left.result, name], left.select, "versus", (*left.conditions, *right.conditions)
    )


def _constant_compared(name: str, form: Form, value: str | int | float) -> Form:
    """Whether the row has a value like this: whether it is among the rows that have one."""
    if form.result != "values" or form.select is None:
        raise NotExpressible(f"comparison of {form.result} and a constant as result")
    if form.modifier != "none" or form.connective != "one":
        raise NotExpressible("comparison of rows that are not given by one condition each")
    conditions = (*form.conditions, Condition(form.select, name, value))
    return Form("is within", None, "versus", conditions)


def _sum(left: Form, right: Form) -> Form:
    if left.select != right.select or {left.result, right.result} - {"values", "count"}:
        raise NotExpressible("sum of two columns")
    for form in (left, right):
        if form.modifier != "none" or form.connective != "one":
            raise NotExpressible("sum of rows that are not given by one condition each")
    if left.result != right.result:
        raise NotExpressible("sum of a value and a count")
    result = "sum" if left.result == "values" else "count"
    return Form(result, left.select, "or", (*left.conditions, *right.conditions))


def _select(query: Select) -> Form:
    if query.source is not None:
        raise NotExpressible("from a query")
    selected, *others = query.values
    if others:
        raise NotExpressible("two selected columns")
    form = _rows(query.where)
    if query.group is not None:
        return _grouped(query, form)
    if query.order is not None and query.limit is not None:
        form = _ordered(query, form)
    elif query.limit is not None and query.limit == 1:
        # Without an order, SQLite returns the first row.
        form = _modified(form, "first", None)
    elif query.limit is not None:
        raise NotExpressible("the first n rows (limit n)")
    match selected:
        case Column() as column:
            result = "values"
        case Apply("count", (Column() | "*",)):
            return dataclasses.replace(form, result="count")
        case Apply("max" | "min" | "sum" | "avg" | "count distinct" as name, (Column() as column,)):
            result = _AGGREGATES[name]
        case Apply("-", (Apply("max", (Column() as column,)), Apply("min", (other,)))) | Apply(
            "abs", (Apply("-", (Apply("max", (Column() as column,)), Apply("min", (other,)))),)
        ) if column == other:
            result = "range"
        case Apply("-" | "+" as name, (Column() as column, Column() as other)) | Apply(
            "abs", (Apply("-" as name, (Column() as column, Column() as other)),)
        ) if form.modifier == "none":
            result = "gap" if name == "-" else "total"
            form = dataclasses.replace(form, modify=other)
        case Apply("-" | "+" | "*" | "/" | "abs"):
            raise NotExpressible("arithmetic as result")
        case Apply(name):
            raise NotExpressible(f"{name} of an expression")
        case _:
            raise NotExpressible("a constant as result")
    return dataclasses.replace(form, result=result, select=column)


def _grouped(query: Select, form: Form) -> Form:
    group = query.group
    if not isinstance(group, Column) or form.modifier != "none":
        raise NotExpressible("group by something else than a column of selected rows")
    if query.values != (group,):
        raise NotExpressible("group by a column, another one selected")
    if query.having is not None:
        match query.having:
            case Apply(">=", (Apply("count"), int(least))) if query.order is None:
                return _repeated(group, form, least)
            case Apply(">", (Apply("count"), int(below))) if query.order is None:
                return _repeated(group, form, below + 1)
        raise NotExpressible("having something else than count >= n")
    if query.limit != 1:
        raise NotExpressible("group by without limit 1")
    match query.order:
        case Apply("count"):
            result = "most common" if query.descending else "least common"
            return dataclasses.replace(form, result=result, select=group)
        case Apply(name):
            raise NotExpressible(f"group by, ordered by {name}")
    raise NotExpressible("group by, ordered by a column")


def _repeated(group: Column, form: Form, least: int) -> Form:
    if least != 2:
        raise NotExpressible("having count >= n, n not 2")
    return dataclasses.replace(form, result="repeated", select=group)


def _ordered(query: Select, form: Form) -> Form:
    if query.limit != 1:
        raise NotExpressible("the first n rows of an order (limit n)")
    match query.order:
        case Column() as column:
            pass
        case Apply("abs", (Column() as column,)):
            pass
        case Apply(name):
            what = "arithmetic of columns" if name in ("-", "+", "*", "/", "abs") else name
            raise NotExpressible(f"ordered by {what}")
        case _:
            raise NotExpressible("ordered by a constant")
    if form.modifier in ("higher", "lower") and form.modify == column:
        # The lowest of the higher ones is the next higher one.
        if query.descending == (form.modifier == "lower"):
            return dataclasses.replace(form, modifier=f"next {form.modifier}")
        raise NotExpressible("the farthest of the higher or lower rows")
    if column.index == ROW_NUMBER:
        return _modified(form, "last" if query.descending else "first", None)
    return _modified(form, "highest" if query.descending else "lowest", column)


def _modified(form: Form, modifier: str, modify: Column | None) -> Form:
    if form.modifier != "none":
        raise NotExpressible(f"two modifiers: {form.modifier}, then {modifier}")
    return dataclasses.replace(form, modifier=modifier, modify=modify)


def _rows(where: Expression | None) -> Form:
    """The rows of a WHERE, as a form without result."""
    simple: list[Condition] = []
    pairs: list[_Pair] = []
    relations: list[Form] = []
    for conjunct in _conjuncts(where):
        match _conjunct(conjunct):
            case Condition() as condition:
                simple.append(condition)
            case Form() as relation:
                relations.append(relation)
            case pair:
                pairs.append(pair)
    if len(relations) > 1:
        raise NotExpressible("two nested queries")
    if relations:
        return _related(relations[0], simple, pairs)
    if pairs:
        if len(pairs) > 1 or simple:
            raise NotExpressible("in two values, and another condition")
        return Form("", None, "or", pairs[0])
    if len(simple) > 2:
        raise NotExpressible("three conditions")
    if len(simple) == 2:
        negated = [condition.operator == "!=" for condition in simple]
        if negated == [True, False]:
            simple.reverse()
        return Form("", None, "and", tuple(simple))
    return Form("", None, "one" if simple else "all", tuple(simple))


def _related(relation: Form, simple, pairs) -> Form:
    """Rows that stand in a relation to others, and meet at most one more condition."""
    if pairs:
        raise NotExpressible("nested query, and in two values")
    # "The others that have the same" needs no condition that the row itself is left out.
    same = [dataclasses.replace(c, operator="!=") for c in relation.conditions]
    rest = [c for c in simple if not (relation.modifier == "same" and c in same)]
    if not rest:
        return relation
    if len(rest) > 1 or relation.connective != "one":
        raise NotExpressible("nested query, and more than one condition")
    return dataclasses.replace(relation, connective="to", conditions=(*relation.conditions, *rest))


def _conjuncts(where: Expression | None) -> list[Expression]:
    match where:
        case None:
            return []
        case Apply("and", (left, right)):
            return _conjuncts(left) + _conjuncts(right)
        case Apply("between", (column, low, high)):
            return [Apply(">=", (column, low)), Apply("<=", (column, high))]
    return [where]


def _conjunct(where: Expression) -> Condition | _Pair | Form:
    match where:
        case Apply("is null" | "not null" as name, (Column() as column,)):
            return Condition(column, _NULLS[name])
        case Apply("date", (Column() as column, *values)):
            return Condition(column, "=", tuple(v if isinstance(v, int) else None for v in values))
        case Apply("in", (Column() as column, *values)):
            return _among(column, values)
        case Apply("or", (left, right)):
            a, b = _conjunct(left), _conjunct(right)
            if not isinstance(a, Condition) or not isinstance(b, Condition):
                raise NotExpressible("or of more than two")
            if a.column != b.column or {a.operator, b.operator} != {"="}:
                raise NotExpressible("or, not of two values of one column")
            return a, b
        case Apply(name, (left, right)) if name in _COMPARISONS:
            return _comparison(name, left, right)
        case Apply(name):
            raise NotExpressible(f"{name} as a condition")
    raise NotExpressible("a condition without an operator")


def _among(column: Column, values) -> Condition | _Pair:
    if any(not isinstance(value, str | int | float) for value in values):
        raise NotExpressible("in a query")
    if len(values) > 2:
        raise NotExpressible("in three or more values")
    first, last = (Condition(column, "=", value) for value in (values[0], values[-1]))
    return first if len(values) == 1 else (first, last)


def _comparison(name: str, left: Expression, right: Expression) -> Condition | Form:
    if not isinstance(left, Column) and isinstance(right, Column):
        name, left, right = _FLIPPED[name], right, left
    if not isinstance(left, Column):
        kind = "arithmetic of columns" if isinstance(left, Apply) else "a query"
        raise NotExpressible(f"condition on {kind}")
    match right:
        case Column():
            raise NotExpressible("comparison of two columns")
        case str() | int() | float():
            return Condition(left, name, right)
        case Select():
            return _relation(left, name, right)
        case Apply("+" | "-" as sign, (Select() as inner, 1)) if name == "=":
            modifier = "plus one" if sign == "+" else "minus one"
            return dataclasses.replace(_relation(left, "=", inner), modifier=modifier)
        case Apply("+" | "-" as sign, (int() | float() as number, 1)) if name == "=":
            # The row after number 13 is the one whose number is 13 + 1.
            modifier = "plus one" if sign == "+" else "minus one"
            return Form("", None, "one", (Condition(left, "=", number),), modifier, left)
        case Apply("+" | "-", (Select(), int() | float())):
            raise NotExpressible("a value plus n, n more than 1, or compared")
        case Apply("negative", (int() | float() as number,)):
            return Condition(left, name, -number)
        case Apply("present_ref"):
            raise NotExpressible("the present (present_ref)")
        case Apply(function):
            raise NotExpressible(f"condition with a value by {function}")
    raise NotExpressible("condition with another value")


def _relation(column: Column, name: str, inner: Select) -> Form:
    """Rows whose value compares with that of the rows of a nested query."""
    form = _form(inner)
    if form.select != column:
        raise NotExpressible("nested query of another column")
    if form.result in ("max", "min") and name == "=" and form.modifier == "none":
        if form.connective != "all":
            raise NotExpressible("extreme of a nested query with a condition")
        modifier = "highest" if form.result == "max" else "lowest"
        return Form("", None, "all", (), modifier, column)
    if form.result != "values":
        raise NotExpressible(f"comparison with {form.result} of a nested query")
    if form.modifier != "none" or form.connective == "all":
        raise NotExpressible("nested query with a modifier")
    if form.connective != "one":
        raise NotExpressible("nested query with two conditions")
    modifiers = {"=": "same", "<": "lower", ">": "higher"}
    if name not in modifiers:
        raise NotExpressible(f"{name} a nested query")
    return Form("", None, "one", form.conditions, modifiers[name], column)
