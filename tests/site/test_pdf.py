"""The lessons on paper: nothing is lost on the way, and nothing that only works in a browser is printed."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

build_pdf = pytest.importorskip("build_pdf", exc_type=ImportError)
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
        assert re.search(
            r"[.?]</(em|strong)></em></p>|[.?]</em></p>", sheet.partition("</h1>")[2][:2000]
        )
        assert sheet.rpartition("<h2>What to remember</h2>")[2].count("<li>") == 3
        build_pdf.build_handouts([page], tmp_path / "handout.pdf")
        assert pages_of(tmp_path / "handout.pdf") == 1
    build_pdf.build_handouts(pages, tmp_path / "handouts.pdf")
    assert pages_of(tmp_path / "handouts.pdf") == len(pages)


def pages_of(file):
    return int(re.findall(rb"/Count (\d+)", file.read_bytes())[0])
