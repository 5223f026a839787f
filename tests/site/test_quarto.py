"""The book under Quarto: what it is given, what it wrote of a sample, and, where it is installed, the whole book.

quarto_sample.html is what Quarto (1.11, run once for this) wrote of SAMPLE, its <main> only. Where Quarto is installed,
`PYTHONPATH=.:tools/site:tests/site python tests/site/test_quarto.py` writes it anew.
"""

import base64
import hashlib
import json
import os
import re
import runpy
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path

import build_site as site
import pytest
import site_frame
import test_site
import yaml
from bs4 import BeautifulSoup
from execnb.nbio import dict2nb, read_nb, write_nb
from nbdev import processors
from nbdev.config import get_config
from nbdev.process import NBProcessor
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.site.site_quarto import ForQuarto, documentation, keep_numbers, link_names

ROOT = Path(__file__).parent.parent.parent
NBS, WRITTEN = ROOT / "nbs", Path(__file__).with_name("quarto_sample.html")


def picture(wide):
    """A gray PNG of this width, 9 high."""

    def chunk(kind, data):
        end = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + end

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", wide, 9, 8, 0, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress((b"\0" + b"\x99" * wide) * 9))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + head + body + chunk(b"IEND", b"")).decode()


def drawn():
    return new_output("display_data", {"image/png": picture(900), "text/plain": "<Figure>"})


def given_back(**data):
    return new_output("execute_result", {f"text/{kind}": text for kind, text in data.items()})


WORDS = " | ".join(f"a_name_that_is_long_{n}" for n in range(6))
WIDE = f"| {WORDS} |\n|{'---|' * 6}\n| {WORDS} |"
SAMPLE = [  # what went wrong under Quarto once, each thing once or twice
    "# A sample\n\n> What Quarto has to get right",
    "## 1. Theorems\n\n"
    '<div id="thm-one">\n\n#### Sums are private\n\nLet $x$ be small.\n\n</div>\n\n'
    '<div id="lem-own">\n\n#### Lemma 17; of the *paper*\n\nLet\n\n<div>\n\nit be.\n\n</div>\n\n* Clear.\n\n</div>\n\n'
    '<div id="lem-ours">\n\n#### Without a number\n\nClear.\n\n</div>\n\n'
    '<div id="eq-own">\n\n#### Equations 4 and 5; as published\n\nTwo.\n\n</div>\n\n'
    "[The lemma](#lem-own), [`Noise` here](#lem-ours), `Noise` and `PrivateKMeans.fit()`.",
    f"## 2. What is wide\n\n{WIDE}\n\n$${'+'.join(['x_1'] * 40)}$$\n\nAnd `{'x' * 90}` and ${'+'.join(['x_1'] * 40)}$.",
    "## 3. Figures",
    new_code_cell(
        '#| fig-cap: "After a *value*."\n#| fig-alt: "One"\n1',
        outputs=[given_back(plain="1"), drawn()],
    ),
    new_code_cell(
        '#| label: fig-table\n#| fig-cap: "After a table."\n#| fig-alt: "Two"\n2',
        outputs=[given_back(markdown=WIDE, plain="no"), drawn()],
    ),
    new_code_cell(
        '#| fig-cap: "After a line: one."\n#| fig-alt: "Three"\n3',
        outputs=[new_output("stream", text="a line\n"), given_back(plain="3"), drawn()],
    ),
    new_code_cell(
        '#| fig-cap: "To play with."\n4',
        outputs=[given_back(html="<p id='slider'>a</p><script>let x = 1;</script>", plain="no")],
    ),
    new_code_cell(
        "#| label: fig-alone\n#| fig-cap: 'Alone.'\n#| fig-alt: \"Five\"\n5", outputs=[drawn()]
    ),
]
FIRST = [
    processors.FrontmatterProc,
    processors.populate_language,
    processors.strip_ansi,
    processors.hide_line,
    processors.rm_export,
    processors.clean_magics,
    processors.hide_,
    processors.add_fold,
    ForQuarto,
]


def cells_of(book):
    cells = [new_markdown_cell(cell) if isinstance(cell, str) else cell for cell in book]
    return new_notebook(cells=cells, metadata={})


def given(notebook):
    """What Quarto is given of a notebook, without the documentation of what it exports, which nbdev gets by running it."""
    here = os.getcwd()
    notebook.path_ = getattr(notebook, "path_", NBS / "index.ipynb")
    os.chdir(ROOT)  # nbdev looks for settings.ini from there, and keeps what it found
    get_config.cache_clear()
    try:
        NBProcessor(nb=notebook, procs=FIRST).process()
    finally:
        os.chdir(here)
        get_config.cache_clear()
    return notebook


def digest(notebook):
    cells = [[c.cell_type, c.source, c.get("outputs", [])] for c in notebook.cells]
    return hashlib.sha256(json.dumps(cells, sort_keys=True).encode()).hexdigest()


def words(tag):
    """What a tag says, without formulas, which one writes as MathML and the other as TeX, and without spaces and marks."""
    tag = BeautifulSoup(str(tag), "html.parser")
    for formula in tag.select("math, .math, .number, .header-section-number, .anchorjs-link"):
        formula.decompose()
    text = re.sub(r"^\s*Figure\s+\d+[:.]", "", tag.get_text())
    return re.sub(r"[\W_]+", "", re.sub(r"\\\(.*?\\\)", "", text))


def read(main):
    """What a page has of sections, boxes and figures, ours or Quarto's."""
    boxes = main.find_all("div", id=re.compile(f"^({'|'.join(site_frame.KINDS)})-"))
    return {
        "sections": sorted(tag["id"] for tag in main.select("section.level2[id], h2[id]")),
        "boxes": sorted((box["id"], words(box.select_one(".theorem-title"))) for box in boxes),
        "captions": sorted(words(caption) for caption in main.find_all("figcaption")),
        "alternatives": sorted(picture.get("alt", "") for picture in main.select("figure img")),
    }


def raw_markdown(main):
    """Links that are shown as they were written."""
    for tag in BeautifulSoup(str(main), "html.parser").find_all(["style", "script", "math"]):
        tag.decompose()
    return re.findall(
        r"\[[^\[\]\n]*`?\]\((?:[^\s()]*\.(?:html|ipynb)|https?:)[^)\n]*\)", main.get_text()
    )


@pytest.fixture(scope="module")
def written():
    return WRITTEN.read_text("utf8")


def test_quarto_gave_the_sample_what_ours_gives(written, tmp_path, monkeypatch):
    """Sections, the numbers of theorems, captions, alternative texts; the captions are those of the pictures."""
    root = test_site.make_book(tmp_path, index=[*SAMPLE, "[Noise](10_noise.ipynb)"])
    monkeypatch.syspath_prepend(root)
    site.build(root, root / "out")
    ours = BeautifulSoup((root / "out/index.html").read_text("utf8"), "html.parser").main
    theirs = BeautifulSoup(written, "html.parser").main
    assert read(theirs) == read(ours)
    assert dict(read(theirs)["boxes"])["lem-own"] == "Lemma17ofthepaper"
    assert len(read(theirs)["captions"]) == 5 and len(read(theirs)["alternatives"]) == 4
    for figure in theirs.select("figure"):
        assert figure.img or figure.find(id="slider")
    assert raw_markdown(theirs) == [] and not theirs.select("a a")


def test_quarto_links_to_what_is_in_the_book(written):
    links = [a["href"] for a in BeautifulSoup(written, "html.parser").main.find_all("a", href=True)]
    assert {"mechanisms/noise.html#noise", "estimators/kmeans.html#privatekmeans"} <= {*links}
    for link in links:
        assert re.match(r"#|[\w/]+\.html", link), link


def test_the_stored_page_is_of_what_quarto_is_given(written):
    """Where it is not, what Quarto gets has changed, and nothing is known about what it makes of that: see above."""
    assert written.startswith(f"<!-- {digest(given(dict2nb(cells_of(SAMPLE))))} -->")


def test_links_are_not_put_into_links():
    places = {"fit": "a/b.html#fit", "c.fit": "a/b.html#fit"}
    for kept in (
        "[`fit`](x.ipynb) and [about `fit` too](y)",
        "```python\n`fit`\n```",
        "## `fit` here",
        "<a href='x'>`fit`</a>",
        "`` `fit` ``",
        "`other`",
    ):
        assert link_names(kept, places, "a/c.ipynb") == kept
    assert link_names("`fit` `fit()`", places, "d/c.ipynb") == (
        "[`fit`](../a/b.html#fit) [`fit()`](../a/b.html#fit)"
    )
    assert link_names("`c.fit`", places, "index.ipynb") == "[`c.fit`](a/b.html#fit)"


def test_only_boxes_with_a_number_of_their_own_are_kept_from_quarto():
    first, own = re.findall(r"^<div id=.*?(?=\n\n<div id)", SAMPLE[1], flags=re.M | re.S)[:2]
    assert keep_numbers(first) == first and first.endswith("</div>")
    kept = keep_numbers(own)
    assert '<div id="lem-own" class="theorem lemma">' in kept and "#### Lemma" not in kept
    assert "[**Lemma 17 (of the *paper*)**]{.theorem-title}" in kept
    assert kept.count("\n<div>\n") == 1 and kept.rstrip().endswith("```{=html}\n</div>\n```")


@pytest.fixture(scope="module")
def book():
    """What Quarto is given of every notebook."""
    paths = [p for p in sorted(NBS.rglob("*.ipynb")) if ".ipynb_checkpoints" not in p.parts]
    return {p.relative_to(NBS).as_posix(): given(read_nb(p)) for p in paths}


def test_each_caption_is_that_of_one_picture(book):
    """Quarto gives it to what a cell shows first, and (a), (b) to all that a cell shows."""
    count = Counter()
    for name, notebook in book.items():
        for cell in notebook.cells:
            shown = [o for o in cell.get("outputs", []) if "data" in o]
            assert not any("text/html" in o["data"] for o in shown), name  # loads scripts from afar
            if re.search(r"^#\| fig-cap:", cell.source, flags=re.M):
                assert len(cell.outputs) == len(shown) == 1 and "image/png" in shown[0]["data"], (
                    name
                )
                count["pictures"] += 1
            count["figures"] += sum("<figcaption>" in str(o["data"]) for o in shown)
    assert count["pictures"] > 150 and count["figures"] > 20


def test_every_link_stays_in_the_book(book):
    """No name leads to an address that nbdev made up, no link is inside another, and each name is documented where it leads."""
    modules = runpy.run_path(str(ROOT / "dplit/_modidx.py"))["d"]
    assert not re.search(r"https?://", json.dumps(modules["settings"]))
    places, homes, count = documentation(modules["syms"]), {}, 0
    for path in NBS.rglob("*.ipynb"):
        text = path.read_text("utf8")
        for name in re.findall(r'(?:^|")(?:class|def) (\w+)', text):
            homes.setdefault(name.lower(), set()).add(
                site.site_lists.Page(path.relative_to(NBS).as_posix()).address
            )
    for target in {*places.values()}:
        page, _, anchor = target.partition("#")
        assert page in homes[anchor], target
    for name, notebook in book.items():
        for cell in notebook.cells:
            texts = [
                "".join(o.get("data", {}).get("text/markdown", "")) for o in cell.get("outputs", [])
            ]
            for text in [cell.source] * (cell.cell_type == "markdown") + texts:
                bare = re.sub(r"\$[^$]*\$|^```.*?^```", "", text, flags=re.M | re.S)
                assert not re.search(r"\[[^\[\]]*\[`[^\[\]]*`\]\([^)]*\)[^\[\]]*\]\(", bare), (
                    name,
                    text,
                )
                count += len(re.findall(r"\[`[\w.]+(?:\(\))?`\]\([\w./]+\.html#", bare))
                assert "dplit.github.io" not in text and "github.com/dplit" not in text, name
    assert count > 500


def heading_ids(notebook):
    """The ids that pandoc makes of headings below the title; in boxes too, where Quarto removes the heading and keeps its id taken."""
    for cell in notebook["cells"]:
        text = "".join(cell["source"]) if cell["cell_type"] == "markdown" else ""
        for title in re.findall(r"^##+ +(.*?) *$", text, flags=re.M):
            slug = re.sub(r"[^\w .-]", "", title.lower()).strip().replace(" ", "-")
            yield re.sub(r"^[^a-z]+", "", slug)


def test_no_heading_takes_the_id_of_a_documented_name():
    """A name is documented under its own id; a heading with that id comes first, and the link would lead there or nowhere."""
    places = documentation(runpy.run_path(str(ROOT / "dplit/_modidx.py"))["d"]["syms"])
    named = {}
    for target in places.values():
        page, _, anchor = target.partition("#")
        named.setdefault(page, set()).add(anchor)
    taken = {
        (page, found)
        for page, names in named.items()
        for found in heading_ids(json.loads((NBS / page).with_suffix(".ipynb").read_text("utf8")))
        if found in names
    }
    assert not taken
    cell = {"cell_type": "markdown", "source": ["# Zoom\n", "## 2. Walks\n", "#### Shares, of a filter\n"]}  # fmt: skip
    assert [*heading_ids({"cells": [cell]})] == ["walks", "shares-of-a-filter"]


def test_numbers_are_the_papers(book):
    kept = 0
    for name, notebook in book.items():
        for cell in notebook.cells:
            for kind, heading in re.findall(
                r'^<div id="(\w+)-[^"]*">\s*^#+ +(.*)$', cell.source, flags=re.M
            ):
                assert kind not in site_frame.KINDS or not site_frame.NUMBERED.match(heading), name
            kept += len(
                re.findall(r'^<div id="[\w.-]+" class="theorem \w+">$', cell.source, flags=re.M)
            )
    assert kept > 50


def test_no_picture_holds_links(book):
    """Quarto's navigation reads an href as a string, which in an SVG it is not."""
    for name, notebook in book.items():
        for cell in notebook.cells:
            shown = cell.source + json.dumps(cell.get("outputs", []))
            assert not re.search(r"<svg\b(?:(?!</svg>).)*<a\b", shown, flags=re.S), name


def test_settings_name_the_processor():
    settings = (ROOT / "settings.ini").read_text("utf8")
    assert re.search(r"^procs = tools.site.site_quarto:ForQuarto$", settings, flags=re.M)
    assert re.search(r"^skip_procs = add_links$", settings, flags=re.M)
    assert re.search(r"^doc_host =$", settings, flags=re.M)


def test_quarto_gets_the_same_code():
    """As nbdev_docs would run the processor after its own."""
    cells = [
        new_code_cell(text)
        for text in (test_site.SOURCE, "#| fig-cap: 'C'\n" + test_site.LINES, "import a")
    ]
    cells.append(new_code_cell('#| code-fold: true\n#| code-summary: "Mine"\nx = 1'))
    notebook = given(dict2nb(new_notebook(cells=cells, metadata={})))
    text, long, imports, mine = (cell.source for cell in notebook.cells)
    assert '"""Sum of x plus noise."""' in text and "What to add up" not in text
    assert "#|" not in text  # short enough to be shown
    assert long.startswith("#| fig-cap: 'C'\n#| code-fold: true\n#| code-summary: \"Code, 30")
    assert imports == '#| code-fold: true\n#| code-summary: "Imports"\nimport a'
    assert mine == '#| code-fold: true\n#| code-summary: "Mine"\nx = 1'


PHONE = "<!doctype html><meta charset=utf8><meta name=viewport content=width=device-width><style>{style}</style><body>{main}"


@pytest.mark.parametrize("styled", [True, False])
def test_a_phone_does_not_scroll_sideways(tab, written, tmp_path, styled):
    """With our style sheet; without it, it would."""
    style = (NBS / "styles.css").read_text("utf8") if styled else ""
    (tmp_path / "page.html").write_text(PHONE.format(style=style, main=written), "utf8")
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto((tmp_path / "page.html").as_uri())
    parts = "table", ".math.display", "p > code", ".math.inline", "img"
    wide = {part for part in parts if tab.evaluate(REACHES, part)}
    assert wide == (set() if styled else {*parts})
    assert (tab.evaluate("document.documentElement.scrollWidth") <= 390) == styled


REACHES = """part => [...document.querySelectorAll(part)].some(e => e.getBoundingClientRect().right > 390)"""


# --- with Quarto ---


QUARTO = shutil.which("quarto")


@pytest.mark.skipif(
    QUARTO is None, reason="quarto is not on this machine: its book is not compared"
)
def test_quarto_gives_the_same_book(tmp_path):
    """Page by page: sections, theorems, captions, alternative texts. Numbers of sections are ours alone."""
    ours, copy = tmp_path / "ours", tmp_path / "copy"
    subprocess.run([sys.executable, ROOT / "tools/site/build_site.py", "--out", ours], check=True)
    leave = shutil.ignore_patterns(".git", ".venv", "_site", "_proc", "_docs", ".ci-work")
    shutil.copytree(ROOT, copy, ignore=leave)
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    subprocess.run(["nbdev_docs"], cwd=copy, check=True, env=environment)
    assert compare(ours, copy / "_docs") > 100


def compare(ours, theirs):
    """The number of pages; the first that differs stops it."""
    compared = 0
    for path in sorted(ours.rglob("*.html")):
        name = path.relative_to(ours).as_posix()
        if name != "notation.html" and not name.startswith(("reference/", "slides/")):
            texts = (path.read_text("utf8"), (theirs / name).read_text("utf8"))
            mine, quartos = (BeautifulSoup(text, "html.parser").main for text in texts)
            if made := mine.find("h2", id="all-modules"):  # a list of the reference pages
                made.decompose()
            assert read(quartos) == read(mine), name
            assert raw_markdown(quartos) == [], name
            compared += 1
    return compared


def write_sample():
    with tempfile.TemporaryDirectory() as folder:
        notebook = given(dict2nb(cells_of(SAMPLE)))
        write_nb(notebook, Path(folder) / "index.ipynb")
        config = yaml.safe_load((ROOT / "_quarto.yml").read_text("utf8"))
        config["website"]["navbar"], config["website"]["sidebar"] = (
            {},
            {"contents": ["index.ipynb"]},
        )
        (Path(folder) / "_quarto.yml").write_text(yaml.dump(config))
        shutil.copy(NBS / "styles.css", folder)
        subprocess.run(["quarto", "render", "index.ipynb"], cwd=folder, check=True)
        page = BeautifulSoup((Path(folder) / "_docs/index.html").read_text("utf8"), "html.parser")
        for image in page.main.find_all("img"):
            data = (Path(folder) / "_docs" / image["src"]).read_bytes()
            image["src"] = "data:image/png;base64," + base64.b64encode(data).decode()
        page.main["id"] = "quarto-document-content"
        WRITTEN.write_text(f"<!-- {digest(notebook)} -->\n{page.main}\n", "utf8")


if __name__ == "__main__":
    write_sample()
