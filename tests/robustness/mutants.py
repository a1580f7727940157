"""Small changes of a module's functions, most of them by the operators of mutmut.

The operators are mutmut's for numbers, strings, names, comparisons, arithmetic and boolean
operators, conditional expressions, removed arguments, string methods, ``break`` and ``continue``.
Those that replace a value by None are skipped, because almost any call fails on them. In addition,
functions are swapped (``SWAPS``), conditions forced to be true or false, and calls removed.
Annotations, error messages and code outside functions are not changed.
"""

import dataclasses
import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hardem_jax.errors import InputError
from hardem_jax.extras import require_packages
from hardem_jax.lazy import LazyModule

# Of mutmut and its parser, which few tests need.
cst, mutators = LazyModule("libcst"), LazyModule("mutmut.mutation.mutators")

PAIRS = (
    *(("min", "max"), ("any", "all"), ("minimum", "maximum"), ("argmin", "argmax")),
    *(("logical_and", "logical_or"), ("floor", "ceil"), ("zeros", "ones"), ("append", "extend")),
    *(("zeros_like", "ones_like"), ("startswith", "endswith"), ("match", "search")),
)
SWAPS = dict(PAIRS) | {b: a for a, b in PAIRS} | {"sorted": "list", "fullmatch": "match"}
#: Operators of mutmut that replace a value by None or rename arguments.
SKIPPED_OPERATORS = {
    *("operator_assignment", "operator_lambda", "operator_dict_arguments", "operator_match"),
}
#: Calls whose arguments are messages or types.
MESSAGES = {"InputError", "ValueError", "TypeError", "warn", "print", "cast", "TypeVar"}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A module with one change.

    Attributes:
        path: path of the module, relative to the working directory.
        function: qualified name of the outermost function around the change.
        source: source of the changed module.
        line: line number of the change.
        diff: the change, without line numbers; identifies the mutant with path and function.
    """

    path: str
    function: str
    source: str
    line: int
    diff: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.path, self.function, self.diff


def mutant(path: str, function: str, original: str, source: str) -> Mutant:
    """Builds a mutant, computing its line and diff."""
    lines = [*difflib.unified_diff(original.splitlines(), source.splitlines(), lineterm="", n=1)]
    first = int(lines[2].split()[1][1:].split(",")[0]) + (not lines[3].startswith(("-", "+")))
    return Mutant(path, function, source, first, "\n".join(lines[3:]))


def mutants(path: str) -> tuple[list[Mutant], int]:
    """Returns the mutants of a module, and the number of changes outside functions.

    Raises:
        InputError: mutmut is not installed, or the file is not Python.
    """
    try:
        require_packages("mutation", "mutmut")
        source = Path(path).read_text("utf-8")
        module = cst.MetadataWrapper(cst.parse_module(source)).module
    except ImportError as error:
        raise InputError(str(error)) from None
    except (OSError, UnicodeDecodeError, cst.ParserSyntaxError) as error:
        raise InputError(f"{path}: expected a Python module, found {error}") from None
    texts = [module.code_for_node(statement) for statement in module.body]
    begin = source.index("".join(texts))
    unique: dict[tuple[str, str, str], Mutant] = {}
    outside = 0
    for statement, text in zip(module.body, texts, strict=True):
        end = begin + len(text)
        for function, node, new in _changes(statement, "", in_function=False):
            if function is None:
                outside += 1
                continue
            changed = module.code_for_node(statement.deep_replace(node, new))
            if changed != text and _compiles(changed):
                one = mutant(path, function, source, source[:begin] + changed + source[end:])
                unique.setdefault(one.key, one)
        begin = end
    return [*unique.values()], outside


def _compiles(source: str) -> bool:
    try:
        compile(source, "changed", "exec")
    except SyntaxError:  # e.g. a positional argument after a keyword
        return False
    return True


def _changes(node: Any, scope: str, in_function: bool) -> Iterator[tuple[str | None, Any, Any]]:
    """Yields (outermost function or None, node, replacement) for every change below a node."""
    if isinstance(node, cst.Annotation | cst.Import | cst.ImportFrom | cst.Decorator | cst.Raise):
        return
    if isinstance(node, cst.Call) and _name(node.func) in MESSAGES:
        return
    if isinstance(node, cst.Expr) and isinstance(
        node.value, cst.SimpleString | cst.ConcatenatedString
    ):
        return
    if isinstance(node, cst.ClassDef | cst.FunctionDef) and not in_function:
        scope = f"{scope}.{node.name.value}".lstrip(".")
    if isinstance(node, cst.FunctionDef):
        # Defaults are evaluated at import time.
        for child in node.params.children if not in_function else ():
            yield from ((None, *change[1:]) for change in _changes(child, scope, True))
        yield from _changes(node.body, scope, True)
        return
    for new in _replacements(node):
        yield scope if in_function else None, node, new
    for child in node.children:
        yield from _changes(child, scope, in_function)


def _name(node: Any) -> str:
    """Returns the last part of a dotted name, or ''."""
    return getattr(getattr(node, "attr", node), "value", "")


def _replacements(node: Any) -> Iterator[Any]:
    for kind, operator in mutators.mutation_operators:
        if not isinstance(node, kind) or operator.__name__ in SKIPPED_OPERATORS:
            continue
        made = [*operator(node)]
        if operator.__name__ == "operator_arg_removal":
            made = [new for new in made if len(new.args) < len(node.args)]
        # Only the first change of a string; the others differ in case.
        yield from made[:1] if isinstance(node, cst.BaseString) else made
    if isinstance(node, cst.Call) and (swapped := SWAPS.get(_name(node.func))):
        yield node.with_deep_changes(getattr(node.func, "attr", node.func), value=swapped)
    if isinstance(node, cst.If):
        inner = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        for operator, literal in ((cst.And(), "False"), (cst.Or(), "True")):
            test = cst.BooleanOperation(inner, operator, cst.Name(literal))
            # `if(a)` becomes `if (a) and False`.
            space = cst.SimpleWhitespace(" ")
            yield node.with_changes(test=test, whitespace_before_test=space)
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
        yield cst.Pass()
