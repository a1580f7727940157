"""The examples of the guide print what it says."""

import doctest
from pathlib import Path

from tests.show.html_pages import Page

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "notebook.md"


def test_the_examples_of_the_guide_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(str(GUIDE), module_relative=False)
    assert found.attempted > 20 and found.failed == 0
    page = Page((tmp_path / "queries.html").read_text(encoding="utf-8"))
    assert "SELECT Player WHERE No. = '8'" in page.texts("code")
