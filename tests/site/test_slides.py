"""A deck of slides for each lesson: its outline is whole, and in a browser no slide is empty, crowded or too small to read."""

import json
import re
from pathlib import Path

import measure_pages
import pytest
from test_language import BRITISH, OURS

ROOT = Path(__file__).parent.parent.parent
build_slides = pytest.importorskip("build_slides", exc_type=ImportError)

NOTEBOOKS = sorted((ROOT / "nbs/lessons").glob("*.ipynb"))
EACH = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
SIZE = {"width": 1280, "height": 720}
SMALLEST = 24  # pixels of text, on a slide of SIZE
# of the windows of projectors and laptops, and of one turned upright
WINDOWS = [
    (1280, 720),
    (1280, 800),
    (1024, 768),
    (1920, 1080),
    (800, 600),
    (2560, 1080),
    (700, 900),
]
WRONG = """smallest => [...document.querySelectorAll(".slide")].map((slide, i) => {
  const found = [], content = slide.querySelector(".content"), title = slide.querySelector("h2");
  const { width, height } = slide.getBoundingClientRect(), over = e => e.scrollWidth > e.clientWidth + 1;
  if (width !== 1280 || height !== 720) found.push("not the size of a slide");
  if (content.scrollHeight > content.clientHeight || over(content)) found.push("runs over");
  if ([...content.querySelectorAll(":is(p, li, pre, table, ol, ul, div):not(.katex *)")].some(over)) found.push("a part is too wide");
  if (!title.innerText.trim() || title.clientHeight > 2.4 * parseFloat(getComputedStyle(title).fontSize)) found.push("title");
  const words = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT);
  for (let text; text = words.nextNode();) {
    const box = text.parentElement;
    if (!text.data.trim() || box.closest(".katex, script")) continue;
    if (parseFloat(getComputedStyle(box).fontSize) < smallest) found.push("small: " + text.data.trim().slice(0, 40));
  }
  const pictures = [...slide.querySelectorAll("img")];
  // a figure has 200 pixels to the inch and letters of 7 points, 19 pixels: 14 or more of them where a slide is 1080 high
  const scale = p => Math.min(p.clientWidth / p.naturalWidth, p.clientHeight / p.naturalHeight);
  if (pictures.some(p => !p.naturalWidth || !p.alt || scale(p) * 19.4 * 1080 / 720 < 14)) found.push("picture");
  if (pictures.length && content.textContent.replace(/\\s+/g, " ").length > 300) found.push("many words next to a picture");
  const parts = content.querySelectorAll(".words > *, .words li, .words tr").length;
  if (!pictures.length && (content.innerText.trim().length < 60 || parts === 1 && content.querySelector("pre"))) found.push("empty");
  return found.length ? `${i + 1}: ${found.join("; ")}` : "";
}).filter(Boolean)"""


# in a window of any form, the slide that was turned to is all that is seen, and nothing of it is cut off
SEEN = """n => {
  const slide = document.querySelectorAll(".slide")[n], box = slide.getBoundingClientRect(), found = [];
  const near = (a, b) => Math.abs(a - b) < 1.5, content = slide.querySelector(".content");
  if (!near(box.top, 0) || !near(box.height, innerHeight)) found.push(`from ${box.top} to ${box.bottom} of ${innerHeight}`);
  if (!near(box.left, innerWidth - box.right)) found.push("not in the middle");
  if (box.width > innerWidth + 1.5) found.push("cut off");
  if (content.scrollHeight > content.clientHeight + 1 || content.scrollWidth > content.clientWidth + 1) found.push("runs over");
  return found.length ? `${n + 1}: ${found.join("; ")}` : "";
}"""


def opened(tab, file):
    """What is wrong with the slides of a deck, as they are seen."""
    tab.set_viewport_size(SIZE)
    tab.goto(file.as_uri())
    tab.wait_for_function("document.documentElement.dataset.ready")
    return tab.evaluate(WRONG, SMALLEST)


def turned(tab, file, width, height):
    """What is wrong with each slide of a deck in a window of this size."""
    tab.set_viewport_size({"width": width, "height": height})
    tab.goto(file.as_uri())
    tab.wait_for_function("document.documentElement.dataset.ready")
    tab.keyboard.press("Home")
    found = []
    for n in range(tab.locator(".slide").count()):
        tab.evaluate("new Promise(requestAnimationFrame)")
        found.append(tab.evaluate(SEEN, n))
        tab.keyboard.press("PageDown")
    return [*filter(None, found)]


def lesson_of(folder, notebook):
    return folder / "lessons" / f"{notebook.stem.partition('_')[2]}.html"


@EACH
def test_a_lesson_declares_a_whole_outline(notebook):
    slides = build_slides.outline(notebook)
    kinds = [slide["kind"] for slide in slides]
    assert {*build_slides.REQUIRED} <= {*kinds} <= {*build_slides.KINDS}
    assert 12 <= len(slides) <= build_slides.MOST == 20 and kinds[0] == "question"
    assert kinds[-2:] == ["remember", "exercise"]
    titles = [slide["title"] for slide in slides]
    assert len({*titles}) == len(titles) and all(10 <= len(title) < 100 for title in titles)
    said = "\n".join(map(words_of, slides))
    assert not OURS.findall(said) and not BRITISH.findall(said) and "After this lesson" not in said
    assert all(slide.get("text") or slide.get("show") for slide in slides)


def words_of(slide):
    """What the outline itself says on a slide."""
    return "\n".join(slide.get(part, "") for part in ("title", "text", "then"))


def numbers(text):
    """Numbers of two digits or more, 1,609 as 1609."""
    found = re.findall(r"(?<![\d^])\d[\d,.]*\d", re.sub(r"\{|\}|\\,", "", text))
    return {number.replace(",", "") for number in found}


@EACH
def test_a_number_of_the_outline_is_one_of_the_lesson(notebook):
    """So an outline that a lesson has outgrown is noticed."""
    cells = json.loads(notebook.read_text("utf8"))["cells"]
    said = ["".join(cell["source"]) for cell in cells]
    for output in (output for cell in cells for output in cell.get("outputs", [])):
        said += ["".join(output.get("text", ""))]
        said += [
            "".join(output.get("data", {}).get(kind, ""))
            for kind in ("text/plain", "text/markdown")
        ]
        frames = "".join(output.get("data", {}).get("text/html", ""))
        said += re.findall('data-label="([^"]*)"', frames)
    known = numbers("\n".join(said))
    for slide in build_slides.outline(notebook):
        assert numbers(words_of(slide)) <= known, slide["title"]


def test_the_definitions_are_on_slides():
    shown = [wish for slide in build_slides.outline(NOTEBOOKS[0]) for wish in slide.get("show", [])]
    assert {"#def-dp", "#def-sensitivity", "#thm-noise"} <= {*shown}
    for notebook in NOTEBOOKS:
        page, declared = build_slides.rendered(notebook), build_slides.outline(notebook)
        wishes = [w for s in declared if s["kind"] == "definition" for w in s.get("show", [])]
        said = " ".join(str(tag) for wish in wishes for tag in build_slides.taken(page, wish)[1])
        assert re.search("neighboring", said, re.I), notebook.stem
        assert re.search("sensitivit|privacy cost", said, re.I), notebook.stem
        assert re.search("DP|differential|[Gg]uarantee|[Pp]rivacy budget", said), notebook.stem


@EACH
def test_no_slide_is_empty_crowded_or_small(tab, folder, tmp_path, notebook):
    file = build_slides.build(lesson_of(folder, notebook), tmp_path / "slides")
    assert opened(tab, file) == []
    assert tab.trouble == []
    assert tab.locator(".slide").count() == len(build_slides.outline(notebook))
    assert not re.search("check_answer|Hint:|<details", file.read_text("utf8"))
    for link in tab.locator("a").evaluate_all("links => links.map(a => a.getAttribute('href'))"):
        path, _, place = link.partition("#")
        target = (file.parent / path).resolve()
        assert target == lesson_of(folder, notebook).resolve()
        assert not place or f'id="{place}"' in target.read_text("utf8")


def test_what_is_wrong_with_a_slide_is_seen(tab, folder, tmp_path, monkeypatch):
    long = "Much is said. " * 200
    wrong = [
        {"kind": "question", "title": "Too much on one slide", "text": long},
        {"kind": "check", "title": "One string only", "show": ["65ffd3ee"]},
        {"kind": "idea", "title": "Nearly nothing", "text": "Nothing."},
        {
            "kind": "idea",
            "title": "A title that does not end " * 8,
            "text": "Words enough, and then some more of them, so that this is full.",
        },
        {
            "kind": "idea",
            "title": "A good slide",
            "text": "Words enough, and then some more of them, so that this is full.",
        },
    ]
    monkeypatch.setattr(build_slides, "outline", lambda notebook: wrong)
    found = opened(tab, build_slides.build(lesson_of(folder, NOTEBOOKS[0]), tmp_path))
    assert [line[:2] for line in found] == ["1:", "2:", "3:", "4:"]
    assert (
        "runs over" in found[0]
        and "empty" in found[1]
        and "empty" in found[2]
        and "title" in found[3]
    )


@pytest.mark.parametrize(
    "slide, message",
    [
        ({"kind": "joke", "title": "x", "text": "y"}, "of the kind 'joke'"),
        ({"kind": "idea", "title": "x"}, "shows nothing"),
        (
            {"kind": "idea", "title": "x", "show": ["#thm-none"]},
            "'#thm-none', and the lesson has no",
        ),
        ({"kind": "idea", "title": "x", "show": ["d5c4853b ol 6"]}, "'d5c4853b ol 6', and the"),
        ({"kind": "idea", "title": "x", "text": "y", "show": ["play cc4e1480"]}, "'play cc4e1480'"),
    ],
)
def test_an_outline_that_asks_for_what_is_not_there_is_refused(monkeypatch, slide, message):
    monkeypatch.setattr(build_slides, "outline", lambda notebook: [slide])
    with pytest.raises(build_slides.SiteError, match=message):
        build_slides.deck(NOTEBOOKS[0], "lesson.html", "site/")


def test_a_deck_prints_one_slide_on_a_page(browser, folder, tmp_path):
    file = build_slides.build(lesson_of(folder, NOTEBOOKS[0]), tmp_path)
    with measure_pages.watched(browser) as tab:
        build_slides.print_decks([file], tab)
    pages = max(map(int, re.findall(rb"/Count (\d+)", file.with_suffix(".pdf").read_bytes())))
    assert pages == len(build_slides.outline(NOTEBOOKS[0]))


def test_a_deck_is_printed_as_it_is_seen_in_a_window_of_its_own_form(tab, folder, tmp_path):
    file = build_slides.build(lesson_of(folder, NOTEBOOKS[0]), tmp_path)
    assert turned(tab, file, 1024, 768) == []
    tab.keyboard.press("PageUp")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.evaluate(WRONG, SMALLEST) == []
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.evaluate(SEEN, 18) == ""


def test_keys_turn_the_slides(tab, folder, tmp_path):
    file = build_slides.build(lesson_of(folder, NOTEBOOKS[0]), tmp_path)
    opened(tab, file)
    seen = "Math.round(scrollY / innerHeight)"
    for key, place in (
        ("ArrowRight", 1),
        (" ", 2),
        ("ArrowLeft", 1),
        ("End", 19),
        ("PageDown", 19),
        ("Home", 0),
    ):
        tab.keyboard.press(key)
        tab.wait_for_function(f"{seen} === {place}")


def test_an_address_opens_a_slide(tab, folder, tmp_path):
    file = build_slides.build(lesson_of(folder, NOTEBOOKS[0]), tmp_path)
    shown = "() => Math.round(scrollY / innerHeight)"
    for place, number in (("#14", 13), ("", 0), ("#99", 0), ("#here", 0)):
        tab.goto("about:blank")
        tab.goto(file.as_uri() + place)
        tab.wait_for_function("document.documentElement.dataset.ready")
        assert tab.evaluate(shown) == number, place
    tab.evaluate("location.hash = '#3'")
    tab.wait_for_function("Math.round(scrollY / innerHeight) === 2")


@pytest.mark.parametrize("width, height", WINDOWS)
def test_a_slide_fills_a_window_of_any_form(tab, folder, tmp_path, width, height):
    for notebook in NOTEBOOKS[:1] + NOTEBOOKS[6:7]:
        file = build_slides.build(lesson_of(folder, notebook), tmp_path)
        assert turned(tab, file, width, height) == []


def test_a_slide_fills_a_window_that_changes(tab, folder, tmp_path):
    file = build_slides.build(lesson_of(folder, NOTEBOOKS[0]), tmp_path)
    assert turned(tab, file, 1280, 720) == []
    tab.keyboard.press("Home")
    tab.keyboard.press("PageDown")
    for width, height in WINDOWS:
        tab.set_viewport_size({"width": width, "height": height})
        tab.wait_for_function(f"({SEEN})(1) === ''")


def test_a_slide_that_shows_a_part_of_the_next_is_seen(tab, folder, tmp_path):
    file = build_slides.build(lesson_of(folder, NOTEBOOKS[0]), tmp_path)
    fixed = file.with_name("fixed.html")
    style = "<style>.slide { height: 720px !important; }</style></head>"
    fixed.write_text(file.read_text("utf8").replace("</head>", style), "utf8")
    assert len(turned(tab, fixed, 1280, 800)) == len(build_slides.outline(NOTEBOOKS[0]))
