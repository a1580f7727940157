"""What a browser would see of a page, its elements and its text, and a view to make one of."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser

from hardem_jax.show.record import View

VOID = {"br", "img", "input", "meta"}


@dataclasses.dataclass
class Node:
    tag: str
    attributes: dict[str, str]
    parents: tuple[Node, ...]
    text: str = ""

    @property
    def classes(self) -> set[str]:
        return set(self.attributes.get("class", "").split())

    @property
    def shade(self) -> float:
        """The probability that it is shaded by."""
        return float(self.attributes["style"].partition(";")[0].removeprefix("--p:"))


class Page(HTMLParser):
    """Elements of a page in document order; each has all the text inside it."""

    def __init__(self, html: str):
        super().__init__(convert_charrefs=True)
        self.nodes: list[Node] = []
        self._open: list[Node] = []
        self.feed(html)
        self.close()
        assert not self._open, f"not closed: {[node.tag for node in self._open]}"

    def handle_starttag(self, tag, attrs):
        node = Node(tag, {name: value or "" for name, value in attrs}, tuple(self._open))
        self.nodes.append(node)
        if tag not in VOID:
            self._open.append(node)

    def handle_endtag(self, tag):
        assert self._open and self._open[-1].tag == tag, f"</{tag}> inside {self._open[-1:]}"
        self._open.pop()

    def handle_data(self, data):
        # What is folded away counts, the line that unfolds it does not.
        if self._open and self._open[-1].tag == "summary":
            return
        for node in self._open:
            node.text += data

    def all(self, tag: str, *classes: str) -> list[Node]:
        return [n for n in self.nodes if n.tag == tag and n.classes >= set(classes)]

    def texts(self, tag: str, *classes: str) -> list[str]:
        return [node.text for node in self.all(tag, *classes)]


def view(probabilities, predicted, prediction="", true=-1):
    """One of a question with as many solutions, of which "z0" is the first."""
    texts = [f"z{z}" for z in range(len(probabilities))]
    prediction = prediction or texts[predicted]
    return View("q", "Who?", "Ann", texts, probabilities, true, prediction, 0.5, predicted)
