"""The finished site, opened in a real browser: every page, its formulas, the search, a narrow screen.

Debian's `chromium` (or Chrome) is driven by playwright. Where either is missing, these tests are skipped and say so.
"""

import re

import measure_pages
import pytest


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
        ("gausian mecanism", "accounting.html"),  # typos are forgiven
        ("maxcoverkmeans.fit", "reference/clustering.max_cover_kmeans.html"),
        ("balle wang", "sources.html"),
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


def test_the_search_puts_ideas_before_names_and_says_nothing_twice(tab, folder):
    tab.goto((folder / "tour.html").as_uri())
    tab.locator("#site-search").fill("sensitivity")
    tab.locator("#site-results a").first.wait_for(timeout=10_000)
    found = tab.locator("#site-results a").evaluate_all(
        "links => links.map(a => [a.pathname.includes('/reference/'), a.innerText.split('\\n')[0]])"
    )
    assert not found[0][0] and not found[1][0]
    assert len({words for _, words in found}) == len(found) > 5


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


def test_a_link_has_a_preview_on_hover_and_on_focus(tab, folder):
    tab.goto((folder / "private_evolution.html").as_uri())
    card = tab.locator("#preview")
    link = tab.locator("main a[data-preview*='#thm-']").first
    link.scroll_into_view_if_needed()
    link.hover()
    card.wait_for(timeout=5_000)
    assert len(card.inner_text()) > 50 and card.locator(".katex").count() > 0
    assert card.locator(".katex-error").count() == 0
    tab.keyboard.press("Escape")
    card.wait_for(state="hidden", timeout=5_000)
    tab.mouse.move(0, 0)
    tab.keyboard.press("Tab")  # so that what follows counts as the keyboard's
    link.focus()
    card.wait_for(timeout=5_000)
    assert tab.trouble == []


def test_the_whole_documentation_is_one_click_away(tab, folder):
    tab.goto((folder / "accounting.html").as_uri() + "#gaussian_mu")
    fold = tab.locator("#gaussian_mu details.full")
    fold.locator("summary").click()
    fold.locator(".documented").wait_for(timeout=5_000)
    assert "Failure probability" in fold.inner_text()
    fold.locator("a", has_text="in the reference").click()
    tab.wait_for_url("**/reference/accounting.html#gaussian_mu")
    assert tab.trouble == []


def test_dark_is_dark_and_stays(browser, folder):
    tab = browser.new_page(color_scheme="light")
    tab.goto((folder / "tour.html").as_uri())
    paper = "parseInt(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
    assert tab.evaluate(paper) > 200
    for _ in range(2):  # auto, light, dark
        tab.locator("#theme").click()
    assert tab.evaluate(paper) < 60
    tab.goto((folder / "accounting.html").as_uri())
    assert tab.evaluate(paper) < 60 and tab.locator("#theme").inner_text() == "Dark"
    tab.close()


def test_the_contents_follow_the_reading(tab, folder):
    for width in (1100, 1440):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.goto((folder / "accounting.html").as_uri())
        tab.locator("main h2").nth(4).evaluate("h => h.scrollIntoView()")
        here = tab.locator(".contents a[aria-current]")
        here.wait_for(timeout=5_000)
        assert tab.locator("main h2").nth(4).inner_text().startswith(here.inner_text())
        box = here.bounding_box()
        assert 0 <= box["y"] < 900 and box["x"] > width / 2


def test_the_keyboard_reaches_everything(tab, folder):
    """What can be clicked or scrolled takes the focus: the skip link first, then the bar, the parts, the text."""
    tab.goto((folder / "lloyd.html").as_uri())
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.closest('main') !== null")
    wanted = tab.evaluate(
        "[...document.querySelectorAll('main :is(a[href], summary, button, [tabindex])')]"
        ".filter(e => e.checkVisibility() && e.tabIndex >= 0).length"
    )
    tab.evaluate("window.reached = new Set([document.activeElement])")
    for _ in range(wanted + 5):
        tab.keyboard.press("Tab")
        tab.evaluate("window.reached.add(document.activeElement)")
    reached = tab.evaluate("[...reached].filter(e => e.closest('main')).length")
    assert reached >= wanted > 20
    overflowing = (
        "[...document.querySelectorAll('main pre, main .table-scroll')].filter(e => "
        "e.checkVisibility() && e.scrollWidth > e.clientWidth + 1 && e.tabIndex < 0).length"
    )
    assert tab.evaluate(overflowing) == 0


LIMITS = {"tour.html": 7, "benchmarks.html": 45, "reference": 75, "lessons": 25, "": 30}  # screens


def test_no_page_is_too_long(browser, folder):
    """Screens of 1440 x 900, and code: docstrings are on the reference pages alone."""
    tab = browser.new_page(viewport={"width": measure_pages.WIDTH, "height": measure_pages.SCREEN})
    rows = {
        path.relative_to(folder).as_posix(): measure_pages.measure(tab, path)
        for path in sorted(folder.rglob("*.html"))
    }
    tab.close()
    print(measure_pages.table(rows))
    for address, (screens, code, docstrings, *_) in rows.items():
        most = LIMITS.get(address, LIMITS.get(address.partition("/")[0], LIMITS[""]))
        assert screens <= most, (address, screens)
        if not address.startswith("reference"):
            assert docstrings <= 5 and code <= 60, (address, code, docstrings)


def test_a_folded_page_prints_short(browser, folder, tmp_path):
    """Folds stay closed on paper."""
    tab = browser.new_page()
    tab.goto((folder / "tour.html").as_uri())
    tab.pdf(path=tmp_path / "tour.pdf", format="A4")
    pages = len(re.findall(rb"/Type\s*/Page\b", (tmp_path / "tour.pdf").read_bytes()))
    tab.close()
    assert 1 < pages <= 12


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
