"""The lessons on paper and on slides: nothing is lost on the way, and nothing that only works in a browser is printed."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

build_pdf = pytest.importorskip("build_pdf", exc_type=ImportError)
build_slides = pytest.importorskip("build_slides", exc_type=ImportError)
build_site = pytest.importorskip("build_site", exc_type=ImportError)


NOTEBOOKS = sorted((ROOT / "nbs/lessons").glob("*.ipynb"))
THIRDS = [0, *(pytest.param(i, marks=pytest.mark.slow) for i in (1, 2))]


@pytest.fixture(scope="module", params=THIRDS)
def notebooks(request):
    """Lessons by turns: every third, and when there is time the others."""
    return NOTEBOOKS[request.param :: 3]


@pytest.fixture(scope="module")
def pages(notebooks, tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    names = [path.relative_to(ROOT / "nbs").as_posix() for path in notebooks]
    build_site.build(ROOT, out / "site", only=names)
    found = build_pdf.lessons(out / "site")
    assert len(found) == len(names) and all(path.is_file() for path in found)
    return found


def test_what_is_printed_is_what_can_be_read(pages, tmp_path):
    for page in pages:
        printed, shown = build_pdf.printable(page, tmp_path), page.read_text("utf-8")
        assert not re.search("<(details|script|button|math)|data:image|<[^>]* hidden", printed)
        assert printed.count(r"\(") + printed.count(r"\[") > 10
        for formula in re.findall(r"\\\((.*?)\\\)|\\\[(.*?)\\\]", printed, re.S):
            assert not re.search(
                r"(?<!left)(?<!right)(?<!left\\)(?<!right\\)\||[vV]ert", "".join(formula)
            )
        assert printed.count("<figcaption") == shown.count("<figcaption") > 3
        assert printed.count("theorem-title") == shown.count("theorem-title") > 0
        for picture in re.findall(r'<img[^>]*src="([^"]*)"', printed):
            assert Path(picture).read_bytes().startswith(b"\x89PNG")


def test_every_lesson_fits_on_sixteen_pages(pages, tmp_path):
    for page in pages:
        build_pdf.build([page], tmp_path / "lesson.pdf")
        assert 5 <= pages_of(tmp_path / "lesson.pdf") <= 1 + 16  # the first holds the contents


def numbered_lines(notebook):
    """How many numbered lines the algorithms of a lesson have: those from the paragraph that begins with Given to the next heading."""
    cells = json.loads(notebook.read_text("utf8"))["cells"]
    prose = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    below = prose.partition("\n**Given**")[2].partition("\n#")[0]
    return len(re.findall(r"^\d+\. ", below, re.M))


def test_a_handout_is_one_page_that_holds_every_numbered_line(pages, notebooks, tmp_path):
    for page, notebook in zip(pages, notebooks, strict=True):
        printed = build_pdf.printable(page, tmp_path)
        sheet = build_pdf.handout(printed)
        algorithm = sheet.partition("<h2>The algorithm")[2].partition("<h2>")[0]
        lines = numbered_lines(notebook)
        assert algorithm.count("<li>") == lines and (lines > 3 or "first_steps" in page.stem)
        assert sheet.count("theorem-title") == printed.count("theorem-title")
        assert sheet.rpartition("<h2>What to remember</h2>")[2].count("<li>") == 3
        build_pdf.build_handouts([page], tmp_path / "handout.pdf")
        assert pages_of(tmp_path / "handout.pdf") == 1
    build_pdf.build_handouts(pages, tmp_path / "handouts.pdf")
    assert pages_of(tmp_path / "handouts.pdf") == len(pages)


def pages_of(file):
    return int(re.findall(rb"/Count (\d+)", file.read_bytes())[0])


def test_a_slide_asks_before_it_answers(pages, tmp_path):
    asked_of_frames = 0
    for page in pages:
        printed = build_slides.printable(page, tmp_path, apart=True)
        slides = [content for _, content in build_slides.slides(printed)]
        questions = [i for i, content in enumerate(slides) if ">Predict" in content]
        # every question of the page, each the last thing on its slide
        asked = re.findall(r">Predict[^<]*<", page.read_text("utf-8"))
        assert len(questions) == len(asked) > 0
        for i in questions:
            tail = slides[i].partition(">Predict")[2]
            assert tail.endswith("</p>") and not re.search("<(p|pre|table|img)", tail)
            if "slider" in tail.partition("<")[0] and "<figure" in slides[i - 1]:
                before, after = (slides[j].partition(" Here: ")[0] for j in (i - 1, i + 1))
                caption = before.partition("<figcaption")[2]
                assert caption and caption == after.partition("<figcaption")[2]
                assert slides[i - 2].partition("<figcaption")[2].partition(" Here: ")[0] != caption
                asked_of_frames += 1
    assert asked_of_frames > 1


def test_slides_keep_totals_of_receipts_and_numbers_of_exercises(pages, tmp_path):
    totals = 0
    for page in pages:
        printed = build_slides.printable(page, tmp_path, apart=True)
        slides = build_slides.slides(printed)
        with_total = [content for _, content in slides if "<p>total: " in content]
        assert len(with_total) == printed.count("<p>total: ")
        assert all("privacy cost" in content for content in with_total)  # on the slide of its table
        totals += len(with_total)
        exercises = printed.partition("Exercises</h2>")[2].partition("<h2")[0]
        all_of_them = build_slides.BeautifulSoup(exercises, "html.parser").ol
        texts = [li.get_text().strip() for li in all_of_them.find_all("li", recursive=False)]
        numbered = build_slides.BeautifulSoup(dict(slides)["Exercises"], "html.parser")
        for ol in numbered.find_all("ol", recursive=False):
            assert ol.li.get_text().strip() == texts[int(ol["start"]) - 1]
        assert len(numbered.find_all("ol", recursive=False)) >= 2
        assert not any(
            re.fullmatch(r"<pre[^>]*sourceCode.*</pre>", content) for _, content in slides
        )  # a call alone: what it gives is looked at
    assert totals >= 3


def test_slides_hold_what_a_class_looks_at_and_no_answer(pages, tmp_path):
    for page in pages:
        shown = page.read_text("utf-8")
        slides = build_slides.slides(build_pdf.printable(page, tmp_path, apart=True))
        deck = "".join(content for _, content in slides)
        still = shown.count("<figcaption") - shown.count('class="dplit-frames"')
        assert deck.count("<figcaption") >= still + 2 * shown.count('class="dplit-frames"')
        assert deck.count("theorem-title") == shown.count("theorem-title")
        assert "Predict" in deck and "★" in dict(slides)["Exercises"]
        assert not re.search("<details|Answers? that run|check_answer", deck)
        lines = (re.sub(r"\n<t[dh]", "", content).count("\n") for _, content in slides)
        assert max(lines) < 60  # a row of a table is one
        count = build_slides.build(page, tmp_path / "deck.pdf")
        assert count == len(slides) == pages_of(tmp_path / "deck.pdf")  # no slide runs over
        assert 20 <= count <= 50
