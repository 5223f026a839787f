"""The finished site, used in a real browser: its search, its links, its colours, its keys; test_a_page.py looks at every page.

Debian's `chromium` (or Chrome) is driven by playwright. Where either is missing, these tests are skipped and say so.
"""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "words, page",
    [
        ("gaussian mechanism", "accounting/gaussian.html"),
        ("gausian mecanism", "accounting/gaussian.html"),  # typos are forgiven
        ("maxcoverkmeans.fit", "reference/max_cover.kmeans.html"),
        ("balle wang", "about/sources.html"),
        ("weights", "inputs/columns.html"),  # a plural finds its singular
        ("dp_accounting", "about/other_libraries.html"),
    ],
)
def test_the_search_finds_and_leads_there(tab, folder, words, page):
    tab.goto((folder / "command_line/tour.html").as_uri())
    tab.keyboard.press("/")
    tab.keyboard.type(words)
    results = tab.locator("#site-results a")
    results.first.wait_for(timeout=10_000)
    where = [results.nth(i).get_attribute("href") for i in range(results.count())]
    there = next(i for i, address in enumerate(where) if address.startswith(f"../{page}"))
    assert there < 5, where
    results.nth(there).click()
    tab.wait_for_url(f"**/{page}*")
    anchor = tab.url.partition("#")[2]
    assert tab.locator(f'[id="{anchor}"]').is_visible() and tab.trouble == []


FIRST = {  # what a reader looks for: the page that teaches it
    "laplace mechanism": "lessons/first_steps.html",
    "gaussian mechanism": "lessons/many_questions_one_budget.html",
    "exponential mechanism": "lessons/covering_the_crowd.html",
    "group privacy": "accounting/groups.html",
    "how to choose epsilon": "about/choosing.html",
    "how many rows do I need": "about/choosing.html",
    "what delta should I use": "about/choosing.html",
    "can I publish labels": "about/choosing.html",
    "covariate shift": "adaptation/covariate_shift.html",
    "k-medoids": "lessons/help_where_it_is_missing.html",
    "install": "about/install.html",
    "--dry-run": "command_line/command.html",
    "dry run": "command_line/command.html",
    "report a vulnerability": "about/security.html",
}


@pytest.mark.parametrize("words", FIRST)
def test_the_first_hit_is_the_page_that_teaches_it(tab, folder, words):
    tab.goto((folder / "index.html").as_uri())
    tab.locator("#site-search").fill(words)
    first = tab.locator("#site-results a").first
    first.wait_for(timeout=10_000)
    assert first.get_attribute("href").partition("#")[0] == FIRST[words]


NAMES = {  # a public name, typed as it is written or not: its entry in the reference
    "PEMeans": "private_evolution.kmeans.html#pemeans",
    "pemeans": "private_evolution.kmeans.html#pemeans",
    "NoisyLloyd": "estimators.lloyd.html#noisylloyd",
    "PrivacyBudget": "ledger.ledger.html#privacybudget",
    "gaussian_mu": "accounting.gaussian.html#gaussian_mu",
    "PrivacyBudget.open": "ledger.ledger.html#privacybudget.open",
    "Noise": "mechanisms.noise.html#noise",
}


@pytest.mark.parametrize("name", NAMES)
def test_the_first_hit_for_a_name_is_its_entry_in_the_reference(tab, folder, name):
    tab.goto((folder / "index.html").as_uri())
    tab.locator("#site-search").fill(name)
    first = tab.locator("#site-results a").first
    first.wait_for(timeout=10_000)
    assert first.get_attribute("href") == f"reference/{NAMES[name]}"


def test_a_word_that_is_also_a_name_finds_what_it_means(tab, folder):
    tab.goto((folder / "index.html").as_uri())
    tab.locator("#site-search").fill("noise")
    first = tab.locator("#site-results a").first
    first.wait_for(timeout=10_000)
    assert not first.get_attribute("href").startswith("reference/")


def test_the_bar_has_room_and_the_menu_has_its_pages(tab, folder):
    """In every window the page is as wide as the window; where the bar shows no pages, the menu has them."""
    for width in (320, 390, 1020, 1021, 1440):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.goto((folder / "index.html").as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        bar = tab.locator("header nav a", has_text="Teaching")
        assert bar.is_visible() == (width > 1020)
        if not bar.is_visible():
            tab.locator(".sidebar > summary").click()
            tab.locator(".sidebar .part > summary", has_text="Teaching").click()
            assert tab.locator(".sidebar a[href='about/teaching.html']").is_visible()


VERDICTS = {  # of a benchmark: heads of the columns by which one judges
    "kmeans": ["lower loss in", "verdict", "geometric mean"],
    "speed": ["its time over ours (above 1: ours is faster)", "fastest over ours", "verdict"],
    "medoids": ["ours faster in", "verdict"],
    "adaptation": ["ours ahead"],
}


@pytest.mark.parametrize("name", VERDICTS)
def test_a_verdict_is_seen_on_a_small_phone(tab, folder, name):
    """Its column begins and ends within 320 pixels, before the table is scrolled sideways."""
    tab.set_viewport_size({"width": 320, "height": 700})
    tab.goto((folder / f"examples/benchmarks_{name}.html").as_uri())
    for head in VERDICTS[name]:
        cells = tab.locator("main thead th:visible").filter(
            has_text=re.compile(rf"^\s*{re.escape(head)}\s*$")
        )
        assert cells.count() >= 1
        for i in range(cells.count()):
            box = cells.nth(i).bounding_box()
            assert box["x"] + box["width"] <= 320, head


def test_a_figure_is_sharp_and_its_letters_are_those_of_the_text(tab, folder):
    """It is shown with no more pixels than it has, in the middle of the column, wider than half of it."""
    tab.set_viewport_size({"width": 1440, "height": 900})
    tab.goto((folder / "lessons/finding_clusters_by_voting.html").as_uri())
    figures = tab.evaluate(
        "[...document.querySelectorAll('main figure > img')].map(i => [i.getBoundingClientRect(), i.naturalWidth])"
        ".map(([box, has]) => [box.left, box.width, has])"
    )
    column = tab.evaluate("document.querySelector('main').getBoundingClientRect().toJSON()")
    assert len(figures) >= 3
    for left, width, pixels in figures:
        assert 1.5 * width < pixels and width > column["width"] / 2
        assert abs(left + width / 2 - column["x"] - column["width"] / 2) < 2


def glossary():
    """Terms of the glossary, each with the page that defines it, by its row."""
    cells = json.loads((ROOT / "nbs/about/words.ipynb").read_text("utf8"))["cells"]
    prose = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    rows = re.findall(r"^\| \*\*(.+?)\*\* \|.*\]\(([^)#]*)[^)]*\) \|$", prose, re.M)
    return rows


def test_a_term_of_the_glossary_is_found_on_the_page_that_defines_it(tab, folder):
    """Among the hits that are shown: that page, or the glossary."""
    tab.goto((folder / "index.html").as_uri())
    terms, missed = glossary(), []
    assert len(terms) > 90
    for term, there in terms:
        page = re.sub(r"(lessons/)\d\d_", r"\1", there.removeprefix("../")).replace(
            ".ipynb", ".html"
        )
        tab.locator("#site-search").fill(term)
        tab.wait_for_timeout(60)  # the search answers at once, the first time after loading
        tab.locator("#site-results a").first.wait_for(timeout=10_000)
        hits = tab.locator("#site-results a").evaluate_all(
            "links => links.map(a => a.getAttribute('href'))"
        )
        if not any(hit.startswith((page, "about/words.html")) for hit in hits):
            missed.append((term, page))
    assert not missed


def test_nothing_found_is_said(tab, folder):
    tab.goto((folder / "command_line/tour.html").as_uri())
    tab.locator("#site-search").fill("zyzzyva")
    tab.get_by_text("Nothing found.").wait_for(timeout=10_000)


def test_the_search_puts_ideas_before_names_and_says_nothing_twice(tab, folder):
    tab.goto((folder / "command_line/tour.html").as_uri())
    tab.locator("#site-search").fill("sensitivity")
    tab.locator("#site-results a").first.wait_for(timeout=10_000)
    found = tab.locator("#site-results a").evaluate_all(
        "links => links.map(a => [a.pathname.includes('/reference/'), a.innerText.split('\\n')[0]])"
    )
    assert not found[0][0] and not found[1][0]
    assert len({words for _, words in found}) == len(found) > 5


def test_a_link_has_a_preview_on_hover_and_on_focus(tab, folder):
    tab.goto((folder / "private_evolution/paper.html").as_uri())
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
    tab.goto((folder / "accounting/gaussian.html").as_uri() + "#gaussian_mu")
    fold = tab.locator("#gaussian_mu details.full")
    fold.locator("summary").click()
    fold.locator(".documented").wait_for(timeout=5_000)
    assert "not the probability that" in fold.inner_text()
    fold.locator("a", has_text="in the reference").click()
    tab.wait_for_url("**/reference/accounting.gaussian.html#gaussian_mu")
    assert tab.trouble == []


def test_dark_is_dark_and_stays(browser, folder):
    tab = browser.new_page(color_scheme="light")
    tab.goto((folder / "command_line/tour.html").as_uri())
    paper = "parseInt(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
    assert tab.evaluate(paper) > 200
    for _ in range(2):  # auto, light, dark
        tab.locator("#theme").click()
    assert tab.evaluate(paper) < 60
    tab.goto((folder / "accounting/gaussian.html").as_uri())
    assert tab.evaluate(paper) < 60 and tab.locator("#theme").inner_text() == "Dark"
    tab.close()


def test_the_contents_follow_the_reading(tab, folder):
    for width in (1100, 1440):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.goto((folder / "accounting/gaussian.html").as_uri())
        tab.locator("main h2").nth(4).evaluate("h => h.scrollIntoView()")
        here = tab.locator(".contents a[aria-current]")
        here.wait_for(timeout=5_000)
        assert tab.locator("main h2").nth(4).inner_text().startswith(here.inner_text())
        box = here.bounding_box()
        assert 0 <= box["y"] < 900 and box["x"] > width / 2


def test_the_keyboard_reaches_everything(tab, folder):
    """What can be clicked or scrolled takes the focus: the skip link first, then the bar, the parts, the text."""
    tab.goto((folder / "estimators/lloyd.html").as_uri())
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


def test_a_folded_page_prints_short(browser, folder, tmp_path):
    """Folds stay closed on paper."""
    tab = browser.new_page()
    tab.goto((folder / "command_line/tour.html").as_uri())
    tab.pdf(path=tmp_path / "tour.pdf", format="A4")
    pages = len(re.findall(rb"/Type\s*/Page\b", (tmp_path / "tour.pdf").read_bytes()))
    tab.close()
    assert 1 < pages <= 12


def test_a_link_to_what_a_proof_holds_opens_the_proof(tab, folder):
    """Folded text is found: an address inside a folded part unfolds it."""
    tab.goto((folder / "index.html").as_uri())
    for page in sorted(folder.rglob("*.html")):
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
