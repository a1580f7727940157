"""What the site makes of docstrings and notebooks."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

pytest.importorskip("griffe", reason="the packages of the site are not installed (extra `docs`)")
pytest.importorskip("mkdocs", reason="the packages of the site are not installed (extra `docs`)")

from docs.site.docstrings import to_markdown
from docs.site.pages import _FOREIGN


class Item:
    path = "hardem_jax.losses.mml_loss"


HOMES = {"hard_em_loss": "hardem_jax.losses.hard_em_loss", "rows": "hardem_jax.masked.rows"}


def test_a_formula_stays_in_its_sentence():
    found = to_markdown(r"It is :math:`-\log \sum_z P(z)`" + "\n:math:`x` too.")
    assert found.count("<math") == 2 and ":math:" not in found and "\\" not in found
    # A line that begins with a tag of its own would begin a paragraph.
    assert not re.search(r"^<math", found, re.MULTILINE)


def test_tables_between_rules_become_tables_between_bars():
    table = (
        "=====  ====\nloss   of\n=====  ====\n`a`    one\n       more\n`b`    |Z|\n=====  ====\nend"
    )
    lines = to_markdown(table).split("\n")
    assert lines[1:5] == [
        "| loss | of |",
        "|---|---|",
        "| `a` | one more |",
        "| `b` | &#124;Z&#124; |",
    ]
    assert lines[-1] == "end"


def test_names_become_links_outside_of_examples():
    text = (
        "As `hard_em_loss`, of `rows`, not `mml_loss`.\n\nExample:\n    >>> `hard_em_loss`\n    1"
    )
    found = to_markdown(text, Item, HOMES | {"mml_loss": Item.path})
    assert found.count("<autoref") == 1 and "`rows`" in found and "`mml_loss`" in found
    # The heading names what follows it directly.
    assert "Example:\n    ```pycon\n    >>> `hard_em_loss`\n    1\n    ```" in found


@pytest.mark.parametrize(
    "html, refused",
    [
        ('<script src="https://cdn.example/x.js"></script>', True),
        ('<link rel="stylesheet" href="//fonts.example/x.css">', True),
        ('<img alt="" src="http://pictures.example/x.png">', True),
        ('<script src="../assets/x.js"></script><a href="https://aclanthology.org">x</a>', False),
        ('<link rel="canonical" href="https://site.example/">', False),
    ],
)
def test_a_page_may_load_nothing_from_other_hosts(html, refused):
    assert bool(_FOREIGN.search(html)) == refused


def test_a_distribution_of_the_source_can_build_the_site():
    included = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    names = {Path(name).name for name in included["targets"]["sdist"]["include"]}
    assert {"docs", "mkdocs.yml", "CONTRIBUTING.md", "CHANGELOG.md"} <= names
