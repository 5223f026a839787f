"""The finished site, opened in a real browser: every page, its formulas, the search, a narrow screen.

Debian's `chromium` (or Chrome) is driven by playwright. Where either is missing, these tests are skipped and say so.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on this machine"),
    pytest.mark.skipif(
        importlib.util.find_spec("playwright") is None, reason="playwright is not installed"
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The built site: the folder DPLIT_SITE names, or one built now."""
    if built := os.environ.get("DPLIT_SITE"):
        return Path(built).resolve()
    out = tmp_path_factory.mktemp("site") / "site"
    subprocess.run([sys.executable, ROOT / "tools" / "build_site.py", "--out", out], check=True)
    return out


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # without a sandbox: containers run as root, and the pages are our own
        chromium = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def tab(browser):
    """A tab that notes what goes wrong in it and what leaves the folder."""
    tab = browser.new_page(viewport={"width": 1300, "height": 900})
    tab.trouble = []
    tab.on("pageerror", lambda error: tab.trouble.append(f"error: {error}"))
    tab.on(
        "console",
        lambda line: tab.trouble.append(f"console: {line.text}") if line.type == "error" else None,
    )
    tab.on("requestfailed", lambda request: tab.trouble.append(f"failed: {request.url}"))
    tab.on(
        "request",
        lambda request: (
            None
            if request.url.startswith(("file:", "data:"))
            else tab.trouble.append(f"leaves the folder: {request.url}")
        ),
    )
    yield tab
    tab.close()


def test_every_page_opens_with_its_formulas_and_pictures(tab, folder):
    pages = sorted(folder.rglob("*.html"))
    assert len(pages) > 20
    formulas = 0
    for page in pages:
        tab.goto(page.as_uri())
        written = len(re.findall("<math", page.read_text("utf8")))
        drawn = tab.locator("main .katex").count()
        assert (drawn, tab.locator(".katex-error").count()) == (written, 0), page.name
        assert tab.locator("h1").is_visible(), page.name
        broken = "[...document.images].filter(i => !(i.complete && i.naturalWidth)).map(i => i.src)"
        assert tab.evaluate(broken) == [], page.name
        formulas += written
    assert tab.trouble == []
    assert formulas > 500  # the book is about theorems


def test_next_leads_through_the_whole_book(tab, folder):
    tab.goto((folder / "index.html").as_uri())
    seen = [tab.url]
    while tab.locator("a[rel=next]").count():
        with tab.expect_navigation():  # to count its links before it is there would end the walk
            tab.locator("a[rel=next]").click()
        seen.append(tab.url)
    assert len(seen) == len(set(seen)) == len(list(folder.rglob("*.html")))
    assert tab.trouble == []


@pytest.mark.parametrize(
    "words, page",
    [
        ("gaussian mechanism", "accounting.html"),
        ("maxcoverkmeans.fit", "reference/clustering.max_cover_kmeans.html"),
    ],
)
def test_the_search_finds_and_leads_there(tab, folder, words, page):
    tab.goto((folder / "tour.html").as_uri())
    tab.keyboard.press("/")
    tab.keyboard.type(words)
    results = tab.locator("#site-results a")
    results.first.wait_for(timeout=10_000)
    where = [results.nth(i).get_attribute("href") for i in range(results.count())]
    there = next(i for i, address in enumerate(where) if address.startswith(page))
    assert there < 5, where
    results.nth(there).click()
    tab.wait_for_url(f"**/{page}*")
    anchor = tab.url.partition("#")[2]
    assert tab.locator(f'[id="{anchor}"]').is_visible() and tab.trouble == []


def test_nothing_found_is_said(tab, folder):
    tab.goto((folder / "tour.html").as_uri())
    tab.locator("#site-search").fill("zyzzyva")
    tab.get_by_text("Nothing found.").wait_for(timeout=10_000)


def test_a_phone_needs_no_scrolling_sideways(browser, folder):
    tab = browser.new_page(viewport={"width": 390, "height": 800})
    wide = {}
    for page in sorted(folder.rglob("*.html")):
        tab.goto(page.as_uri())
        tab.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
        if (width := tab.evaluate("document.documentElement.scrollWidth")) > 390:
            wide[page.name] = width
    tab.close()
    assert wide == {}


def test_a_link_to_what_a_proof_holds_opens_the_proof(tab, folder):
    """Folded text is found: an address inside a folded part unfolds it."""
    tab.goto((folder / "index.html").as_uri())
    for page in sorted(folder.glob("*.html")):
        tab.goto(page.as_uri())
        tab.evaluate(
            "document.querySelectorAll('main details').forEach((d, i) => { d.id ||= 'd' + i; })"
        )
        if tab.locator("main details.proof").count():
            name = tab.evaluate(
                "() => { const d = document.querySelector('main details.proof');"
                " d.querySelector('p').id = 'inside'; return d.open; }"
            )
            assert name is False
            tab.evaluate("location.hash = 'inside'")
            tab.wait_for_function("document.querySelector('main details.proof').open")
            return
    raise AssertionError("no page has a folded proof")
