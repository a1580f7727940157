"""The examples of the guide print what it says."""

import doctest
from pathlib import Path

import pytest

from tests.show.html_pages import Page

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "notebook.md"


def test_the_examples_of_the_guide_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(str(GUIDE), module_relative=False)
    assert found.attempted > 20 and found.failed == 0
    page = Page((tmp_path / "queries.html").read_text(encoding="utf-8"))
    assert "SELECT Player WHERE No. = '8'" in page.texts("code")


@pytest.mark.parametrize("limit", ["at most 4,096 queries", "first 400 words", "than 40 rows"])
def test_the_guide_names_the_limits_of_the_code(limit):
    from hardem_jax.equations.builds import DropNum
    from hardem_jax.queries.builds import WikiSQL
    from hardem_jax.show.html import ROWS

    known = (f"at most {WikiSQL().rules.cap:,} queries",)
    known += (f"first {DropNum().max_words} words", f"than {ROWS} rows")
    assert limit in known and limit in GUIDE.read_text(encoding="utf-8")
