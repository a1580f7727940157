"""The HTML of a Z: elements, the list of solutions, the frame around them.

Elements are those of `xml.etree`, which escapes every text and attribute when it writes them. A
page is one ``<div>`` with its own style, so that a notebook shows it without network or scripts,
and so does an e-mail or a file.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, tostring

if TYPE_CHECKING:
    from hardem_jax.notebook.base import Solution

#: Solutions of the list that light up in the text; all others are there, too, but folded.
LISTED = 20
#: Solutions of the list; beyond, it says how many more there are.
SHOWN = 400

# HTML has no characters for these: a picture of each control character, and "�" for half a pair.
_PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n\r"}
_PICTURES |= {0x7F: "\u2421"} | dict.fromkeys(range(0xD800, 0xE000), "\ufffd")


def visible(text: str) -> str:
    """A text as HTML can hold it, of the same length.

    Example:
        >>> visible("a\\x00b\\ud800")
        'a␀b�'
    """
    return text.translate(_PICTURES)


def element(tag: str, *children: Element | str, **attributes: str) -> Element:
    """An element of HTML.

    Args:
        tag: its name.
        children: elements and texts, which are escaped when the element is written.
        attributes: with ``_`` for ``-`` and behind Python's own words: ``class_``.

    Example:
        >>> tostring(element("p", "1 < 2, ", element("b", "so"), class_="x"), encoding="unicode")
        '<p class="x">1 &lt; 2, <b>so</b></p>'
    """
    names = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    found = Element(tag, {name: visible(value) for name, value in names.items()})
    for child in children:
        append(found, child)
    return found


def append(parent: Element, child: Element | str) -> None:
    """Puts an element or a text behind the children of another one."""
    if isinstance(child, Element):
        parent.append(child)
    elif len(parent):
        parent[-1].tail = (parent[-1].tail or "") + visible(child)
    else:
        parent.text = (parent.text or "") + visible(child)


def solution_list(rows: Sequence[tuple[int, Solution, str]], left_out: int) -> Element:
    """The list of solutions.

    Args:
        rows: index in Z, solution and where it is, in the order to show.
        left_out: how many more there are.
    """
    block = element("div", class_="list")
    if rows:
        block.append(_rows(rows[:LISTED]))
    if more := rows[LISTED:]:
        block.append(element("details", element("summary", f"{len(more):,} more"), _rows(more)))
    if left_out:
        text = f"{left_out:,} more are not shown; iterate over Z for all."
        block.append(element("p", text, class_="note"))
    return block


def page(title: str, notes: Sequence[str], body: Sequence[Element], order: Sequence[int]) -> str:
    """The whole page.

    Args:
        title: the first line.
        notes: sentences below it.
        body: what follows.
        order: indices of solutions as listed; the first of them light up when one points at them.
    """
    content = [element("p", title, class_="title")]
    content += [element("p", note, class_="note") for note in notes]
    root = element("div", *content, *body, class_="hardem-z")
    # The same Z gives the same page, so that a notebook run again shows no difference.
    root.set("id", f"hz-{zlib.crc32(_write(root).encode()):08x}")
    root.insert(0, element("style", _style() + _links(root.get("id", ""), order)))
    return _write(root)


def document(title: str, fragment: str) -> str:
    """A page as a file of its own."""
    head = [element("meta", charset="utf-8"), element("title", title)]
    head.append(element("meta", name="viewport", content="width=device-width, initial-scale=1"))
    head.append(element("meta", name="color-scheme", content="light dark"))
    return "<!doctype html>\n" + "".join(map(_write, head)) + "\n" + fragment + "\n"


def _rows(rows: Sequence[tuple[int, Solution, str]]) -> Element:
    body = element("tbody")
    for index, solution, place in rows:
        chance = element("td", class_="chance")
        if (p := solution.probability) is not None:
            chance = element("td", f"{p:.3f}", class_="chance", style=f"--p:{p:.3f}")
        text = element("td", element("code", solution.text), class_="z")
        index_cell = element("td", str(index), class_="index")
        # Lines break between places only.
        chunks = [element("span", chunk) for chunk in re.split("(?<=,) ", place)]
        for chunk in chunks[:-1]:
            chunk.tail = " "
        cells = index_cell, text, element("td", *chunks, class_="place"), chance
        body.append(element("tr", *cells, data_of=str(index), tabindex="0"))
    return element("table", body)


def _links(id: str, order: Sequence[int]) -> str:
    """Style that lights up the marks of the solution that one points at in the list."""
    return "".join(
        f'#{id}:has([data-of="{i}"]:is(:hover,:focus)) .z{i}{{outline:2px solid var(--hot)}}\n'
        for i in order[:LISTED]
    )


@functools.cache
def _style() -> str:
    file = importlib.resources.files("hardem_jax.notebook").joinpath("style.css")
    return file.read_text(encoding="utf-8")


def _write(root: Element) -> str:
    return tostring(root, encoding="unicode", method="html")
