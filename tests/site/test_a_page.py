"""Pages of the finished site, each opened once: what it shows, how long it is, how wide on a phone, and what axe says.

axe looks for what keeps people out. Most of its time goes into contrast, which hangs on the style of a text and on what lies
behind it; so contrast is asked of one text of each style, in light and in dark, and everything else of the whole page.
"""

import importlib.util
import os
import re
from pathlib import Path

import measure_pages
import pytest

from conftest import in_turn

AXE = importlib.util.find_spec("axe_playwright_python")
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
WIDE = {"width": measure_pages.WIDTH, "height": measure_pages.SCREEN}
PHONE = {"width": 390, "height": 900}
SHOWN = """() => ({
    formulas: document.querySelectorAll("main .katex").length,
    broken: [...document.querySelectorAll(".katex-error")].map(e => e.textContent).concat(
        [...document.images].filter(i => !(i.complete && i.naturalWidth)).map(i => i.src)),
    title: document.querySelector("h1").checkVisibility(),
    cut: [...document.querySelectorAll("main pre")].filter(e => e.checkVisibility()
        && (e.scrollWidth > e.clientWidth || parseFloat(getComputedStyle(e).fontSize) < 14)).map(e => e.textContent.slice(0, 80)),
})"""
UNFOLDED = """() => {
    const folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach(part => { part.open = true; });
    const width = document.documentElement.scrollWidth;
    folded.forEach(part => { part.open = false; });
    return width;
}"""
# what KaTeX draws is not ours, and half of what axe would look at: a box of its size stands in its place
BOXES = """() => document.fonts.ready.then(() => document.querySelectorAll(".katex").forEach(formula => {
    const { width, height } = formula.getBoundingClientRect();
    formula.replaceChildren("x"); // a head of a table that is a formula is not empty
    Object.assign(formula.style, { display: "inline-block", width: width + "px", height: height + "px", overflow: "hidden" });
}))"""
# one text of each style: of the same colour, size and weight on the same layers all have one contrast
STYLES = """() => {
    const layers = new Map([[null, ""]]), styles = new Map();
    const behind = element => {
        if (!layers.has(element)) {
            const { backgroundColor, backgroundImage, opacity, position } = getComputedStyle(element);
            layers.set(element, [behind(element.parentElement), backgroundColor, backgroundImage, opacity, position].join());
        }
        return layers.get(element);
    };
    for (const element of document.body.querySelectorAll("*")) {
        const own = [...element.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.data.trim());
        if (!own || !element.checkVisibility()) continue;
        const { color, fontSize, fontWeight, textShadow } = getComputedStyle(element);
        const style = [behind(element), color, fontSize, fontWeight, textShadow].join();
        if (!styles.has(style)) styles.set(style, element);
    }
    return [...styles.values()];
}"""
RUN = """asked => {
    const where = asked.runOnly?.includes("color-contrast") ? { include: (STYLES)() } : document;
    return axe.run(where, { resultTypes: ["violations"], preload: false, ...asked }).then(found =>
        found.violations.map(v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160)).join(" | ")));
}""".replace("STYLES", STYLES)
COLOURS = "color-contrast", "link-in-text-block"
CONTRAST = {"runOnly": [*COLOURS]}
# (window, colours, what axe is asked). A page is asked the first and, if it is its turn, one of the other three, which hang
# on the style that the pages share: every second page is asked one
VIEWS = {
    "wide": (WIDE, "light", {"rules": {rule: {"enabled": False} for rule in COLOURS}}),
    "light": (WIDE, "light", CONTRAST),
    "dark": (WIDE, "dark", CONTRAST),
    "phone": (PHONE, "light", {"runOnly": ["scrollable-region-focusable", "target-size"]}),
}


def violations(tab, views=VIEWS):
    """What axe finds on the page that is open."""
    tab.evaluate(Path(AXE.submodule_search_locations[0], "axe.min.js").read_text("utf8"))
    tab.evaluate(BOXES)
    for name, (window, scheme, asked) in views.items():
        tab.set_viewport_size(window)
        tab.emulate_media(color_scheme=scheme)
        tab.evaluate(TWO_FRAMES)  # the page looks for what scrolls after its first frame
        yield from (f"{name}: {line}" for line in tab.evaluate(RUN, asked))


def visit(tab, path, views=VIEWS):
    """All that is asked of one page."""
    tab.trouble.clear()
    tab.set_viewport_size(WIDE)
    tab.emulate_media(color_scheme="light")
    found = {"size": measure_pages.measure(tab, path)} | tab.evaluate(SHOWN)
    tab.set_viewport_size(PHONE)
    found["phone"] = tab.evaluate(UNFOLDED)
    found["trouble"] = [*tab.trouble]
    return found | {"axe": [*violations(tab, views)] if AXE and views else []}


@pytest.fixture(scope="module")
def visits(browser, folder):
    """What each page showed, by its address."""
    (first, *others), found = VIEWS, {}
    with measure_pages.watched(browser) as tab:
        for i, page in enumerate(in_turn(addresses(folder))):
            turn = [others[i // 2 % 3]] if i % 2 else []
            found[page] = visit(tab, folder / page, {name: VIEWS[name] for name in [first, *turn]})
    assert len(found) > 20
    return found


def addresses(folder):
    pages = (path.relative_to(folder) for path in folder.rglob("*.html"))
    return sorted(page.as_posix() for page in pages if page.parts[0] != "slides")


def that(visits, wrong):
    """What is wrong with which pages."""
    return {page: found for page, visit in visits.items() if (found := wrong(visit))}


def test_every_page_opens_with_its_formulas_and_pictures(visits, folder):
    written = {page: len(re.findall("<math", (folder / page).read_text("utf8"))) for page in visits}
    assert {page: found["formulas"] for page, found in visits.items()} == written
    assert sum(written.values()) > 500  # the book is about theorems
    assert that(visits, lambda found: found["broken"] + found["trouble"]) == {}
    assert that(visits, lambda found: not found["title"]) == {}


def test_code_is_large_and_no_line_of_it_is_cut(visits):
    """Of 14 px and more, in a wide window."""
    assert that(visits, lambda found: found["cut"]) == {}


def test_next_leads_through_the_whole_sidebar(folder):
    page, seen = "index.html", []
    while page not in seen:
        seen.append(page)
        if there := re.search(r'<a href="([^"]*)" rel="next">', (folder / page).read_text("utf8")):
            page = Path(os.path.normpath(Path(page).parent / there[1])).as_posix()
    front = (folder / "index.html").read_text("utf8")
    sidebar = front.partition('<nav aria-label="Chapters">')[2].partition("</nav>")[0]
    assert seen == re.findall(r'<a href="([^"]*)"', sidebar) and len(seen) <= 70


def test_a_phone_needs_no_scrolling_sideways(visits):
    """With all folds open."""
    assert that(visits, lambda found: found["phone"] > PHONE["width"] and found["phone"]) == {}


LIMITS = {
    "index.html": 7,
    "command_line/tour.html": 7,
    "examples/benchmarks_kmeans.html": 20,
    "examples/benchmarks_speed.html": 20,
    "examples/benchmarks_medoids.html": 20,
    "examples/benchmarks_adaptation.html": 20,
    "reference": 75,
    "lessons": 25,
    "": 30,
}  # screens


def test_no_page_is_too_long(visits):
    """Screens of 1440 x 900, and code: docstrings are on the reference pages alone."""
    print(measure_pages.table({address: found["size"] for address, found in visits.items()}))
    for address, found in visits.items():
        screens, code, docstrings, *_ = found["size"]
        most = LIMITS.get(address, LIMITS.get(address.partition("/")[0], LIMITS[""]))
        assert screens <= most, (address, screens)
        if not address.startswith("reference"):
            assert docstrings <= 5 and code <= 60, (address, code, docstrings)


@pytest.mark.skipif(AXE is None, reason="axe-playwright-python is not installed")
def test_axe_finds_nothing(visits):
    """No violation of any level on any page; of contrast, light and dark, and on a phone, by turns."""
    assert that(visits, lambda found: found["axe"]) == {}


PLANTED = {  # what a page gets -> the name of what is then found
    '<p style="color: #bbb; background: #ddd">faint</p>': "light: color-contrast",
    '<p class="planted">faint in the dark</p><style>@media (prefers-color-scheme: dark)'
    "{ .planted { color: #333; background: #000; } }</style>": "dark: color-contrast",
    '<img src="tour.png">': "wide: image-alt",
    f'<div class="planted">{"far " * 900}</div><style>@media (max-width: 400px)'
    "{ .planted { overflow: auto; height: 3em; } }</style>": "phone: scrollable-region-focusable",
}


@pytest.mark.skipif(AXE is None, reason="axe-playwright-python is not installed")
@pytest.mark.parametrize("planted", PLANTED)
def test_axe_finds_what_is_planted(tab, folder, planted):
    tab.goto((folder / "command_line/tour.html").as_uri())
    tab.evaluate("html => document.querySelector('main').insertAdjacentHTML('beforeend', html)", planted)  # fmt: skip
    view = PLANTED[planted].partition(":")[0]
    found = violations(tab, {view: VIEWS[view]})
    assert any(line.startswith(PLANTED[planted]) for line in found)


def test_a_visit_sees_what_is_wrong(tab, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        '<!doctype html><html lang="en"><title>a</title><main><h1 style="display: none">a</h1>'
        '<img alt="a" src="none.png"><details><p style="width: 900px">a</p></details>'
        '<script>throw new Error("b")</script></main></html>'
    )
    found = visit(tab, page)
    assert not found["title"] and found["phone"] > 900 and len(found["broken"]) == 1
    assert {line.partition(":")[0] for line in found["trouble"]} >= {"error", "failed"}
