"""A browser for pages that experiments write."""

import shutil

import pytest


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no Chromium on the path (Debian's package chromium)")
    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def show(browser, tmp_path):
    """Opens a page from a file and fails on any error or request of its own."""
    opened, wrong = [], []

    def opener(html, where="", width=1200, **options):
        file = tmp_path / "page.html"
        file.write_text(html, encoding="utf-8")
        tab = browser.new_page(viewport={"width": width, "height": 800}, **options)
        opened.append(tab)
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        tab.on(
            "request", lambda r: None if r.url.startswith(file.as_uri()) else wrong.append(r.url)
        )
        tab.goto(file.as_uri() + where)
        tab.wait_for_selector("#question h2", state="attached")
        return tab

    yield opener
    for tab in opened:
        tab.close()
    assert not wrong
