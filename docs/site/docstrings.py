"""Docstrings as the API reference reads them: formulas as MathML, tables and names as Markdown.

A Griffe extension. Docstrings use what a terminal shows well: ``:math:`` roles, tables of
reStructuredText, and names in single backquotes. Browsers draw MathML themselves, so no page needs
a script for it.
"""

import re
from collections.abc import Callable
from typing import Any

import griffe
from latex2mathml.converter import convert

_INLINE = re.compile(r":math:`([^`]+)`")
_BLOCK = re.compile(r"^( *)\.\. math:: (.*(?:\n\1 +\S.*)*)$", re.MULTILINE)
_RULE = re.compile(r"^ *=+(?: +=+)+ *$")
_NAME = re.compile(r"(?<![`\w:])`([A-Za-z_][\w.]*)`(?!`)")


class Docstrings(griffe.Extension):
    """Rewrites every docstring before its sections are read."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        homes = _public_names(pkg)
        for item in _own(pkg):
            if item.docstring is not None:
                item.docstring.value = to_markdown(item.docstring.value, item, homes)


def to_markdown(text: str, item: Any = None, homes: dict[str, str] | None = None) -> str:
    """A docstring without reStructuredText.

    Args:
        text: the docstring.
        item: the object it belongs to, whose scope names are looked up in; None for no links.
        homes: name -> path of every class and function that has a name of its own.
    """
    text = _tables(text)
    text = _BLOCK.sub(lambda found: found[1] + _formula(found[2], "block"), text)
    text = _INLINE.sub(lambda found: _formula(found[1], "inline"), text)
    text = re.sub(r"(?m)^(?!\s*(?:>>>|\.\.\.))(.*\w)::$", r"\1:", text)
    return _fenced_examples(text, lambda line: _links(line, item, homes or {}))


def _formula(latex: str, display: str) -> str:
    # A thin space after an operator's name, which the converter leaves out.
    found = convert(" ".join(latex.split()), display=display)
    found = re.sub(r"<mi>(log|max|min|exp)</mi>", r'<mi>\1</mi><mspace width="0.17em"/>', found)
    # Inside of a span, or Markdown takes a line that begins with it for a paragraph of its own.
    return f"<span>{found}</span>"


def _tables(text: str) -> str:
    """Tables between rules of equals signs as tables between bars."""
    lines, made = text.split("\n"), []
    while lines:
        line = lines.pop(0)
        if not _RULE.match(line):
            made.append(line)
            continue
        starts = [match.start() for match in re.finditer("=+", line)]
        indent, rows, rules = " " * starts[0], [], 1
        while rules < 3 and lines:
            line = lines.pop(0)
            if _RULE.match(line):
                rules += 1
                # A table without a heading has two rules only.
                if rules == 2 and (not lines or not any(map(_RULE.match, _paragraph(lines)))):
                    rows.insert(0, [""] * len(starts))
                    break
                continue
            ends = [*starts[1:], None]
            cells = [line[a:b].strip() for a, b in zip(starts, ends, strict=True)]
            if rows and not cells[0]:
                cells = [f"{a} {b}".strip() for a, b in zip(rows.pop(), cells, strict=True)]
            rows.append(cells)
        bars = ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
        bars.insert(1, "|" + "---|" * len(starts))
        made += ["", *(indent + bar for bar in bars), ""]
    return "\n".join(made)


def _paragraph(lines: list[str]) -> list[str]:
    return lines[: next((i for i, line in enumerate(lines) if not line.strip()), len(lines))]


def _cell(text: str) -> str:
    # Markdown splits cells at bars, also in code; in a formula the converter wants them.
    return re.sub(r"(?<!\\)\|", r"\\mid " if ":math:" in text else r"&#124;", text)


def _fenced_examples(text: str, prose: Callable[[str], str]) -> str:
    """Examples as blocks of code, and the lines between them changed by ``prose``."""
    lines, indent = [], None
    for line in text.split("\n"):
        if indent is None and line.lstrip().startswith(">>>"):
            indent = line[: len(line) - len(line.lstrip())]
            # No blank line below a heading such as "Example:", which names what follows directly.
            lines += [""] * bool(lines and not lines[-1].endswith(":")) + [indent + "```pycon"]
        elif indent is not None and not line.strip():
            lines.append(indent + "```")
            indent = None
        lines.append(prose(line) if indent is None else line)
    return "\n".join(lines if indent is None else [*lines, indent + "```"])


def _links(line: str, item: Any, homes: dict[str, str]) -> str:
    def link(found: re.Match[str]) -> str:
        name = found[1]
        path = homes.get(name.rpartition(".")[2])
        # A plain word is more often a field or an argument than a function of that name.
        if (
            path is None
            or path == getattr(item, "path", None)
            or name.islower()
            and "_" not in name
        ):
            return found[0]
        # Optional: the reference leaves out modules that only others of them use.
        return f'<autoref identifier="{path}" optional><code>{name}</code></autoref>'

    return _NAME.sub(link, line)


def _own(module: Any) -> list[Any]:
    """A module and everything defined in it, without what it imports."""
    found = [module]
    for member in module.members.values():
        if not member.is_alias:
            found += _own(member) if member.is_module or member.is_class else [member]
    return found


def _public_names(pkg: Any) -> dict[str, str]:
    """The path of each class and function whose name only one module defines."""
    paths: dict[str, set[str]] = {}
    for item in _own(pkg):
        if (item.is_class or item.is_function) and item.parent.is_module and item.name[0] != "_":
            paths.setdefault(item.name, set()).add(item.path)
    return {name: next(iter(found)) for name, found in paths.items() if len(found) == 1}
