"""The site builder: a tiny book is built whole, then broken in one place at a time, and each break must stop the build."""

import base64
import functools
import http.server
import importlib
import inspect
import json
import re
import sys
import threading
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

import build_site as site
import lesson_times
import nbformat
import pytest
import site_code
import site_frame
import site_lists
import site_pages
import site_text
import site_uses
import yaml
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from site_pages import Page

import dplit

ROOT = Path(__file__).parent.parent.parent

PIXEL = base64.b64encode(b"\x89PNG a pixel").decode()
SOURCE = '''#| exports
def noisy_sum(x, *, scale=1.0):
    """Sum of x plus noise.

    Parameters
    ----------
    x : list of float
        What to add up.

    Raises
    ------
    ValueError
        If scale is negative.
    """
    return sum(x) + scale
'''
INDEX = [
    "# A tiny book\n\n> Two pages",
    "See [the theorem](10_noise.ipynb#thm-one) and `noisy_sum`, or `noisy_sum()` $x$. Balle and Wang found it, "
    "Ding et al. (CCS 2018) another; Wang, Balle (ICML 2018) and Ding et al. (CCS 2019) are nobody.",
]
SOURCES = [
    "# Sources\n\n> Where to read",
    '* <span id="balle-wang-2018"></span>**Balle, Wang** (ICML 2018). *Noise.* [arXiv:1](https://arxiv.org/abs/1)\n'
    '* <span id="ding-kifer-2018"></span>**Ding, Kifer** (CCS 2018). *Bugs.* [doi:1](https://doi.org/1)',
    "## How to cite dplit\n\nThus.",
]
CHAPTER = [
    "# Noise & sums\n\n> A chapter about $\\varepsilon$",
    "| | |\n|---|---|\n| **Paper** | *On sums* |\n| **Cost** | none |",
    new_code_cell("import math"),
    "## First section\n\nText with $\\frac{1}{2}$.\n\n$$a \\le b \\tag{1}$$\n\nBack to [the start](index.ipynb).",
    '<div id="thm-one">\n\n#### Sums are private\n\nLet $x$ be small.\n\n</div>\n\n'
    "<details><summary>Proof</summary>\n\nClear.\n\n</details>",
    '<div id="thm-two">\n\nA theorem *without* a title.\n\n</div>\n\n<div id="def-a">\n\n#### Names\n\nOf $y$.\n\n</div>\n\n'
    '<div id="lem-own">\n\n#### Lemma 17; of the *paper*\n\nClear.\n\n</div>',
    '<div class="callout-note">\n\nMind the gap.\n\n</div>\n\n| symbol | |\n|---|---|\n| $n$ | rows |',
    "## Second section\n\n### Its part\n\n[a](index.ipynb)",
    new_code_cell("#| default_exp noise"),
    new_code_cell(SOURCE),
    new_code_cell(
        "print('<3')",
        outputs=[
            new_output("stream", text="<3\n"),
            new_output("stream", text="and more\n"),
            new_output(
                "execute_result",
                {"text/html": "<table><tr><td>wide</td></tr></table>", "text/plain": "no"},
            ),
            new_output(
                "execute_result", {"text/markdown": "**bold** `noisy_sum`", "text/plain": "no"}
            ),
            new_output(
                "display_data",
                {"text/html": "<figure id='slider'><script>let x = 1 < 2;</script></figure>"},
            ),
        ],
    ),
    new_code_cell(
        '#| fig-cap: "A *pixel*."\n#| fig-alt: "One grey square"\na\nb\nc\nd\ne',
        outputs=[
            new_output(
                "display_data",
                {"image/png": PIXEL, "text/plain": "<Figure>"},
                metadata={"image/png": {"width": 7}},
            )
        ],
    ),
    new_code_cell(
        '#| exports\nclass Summer:\n    """Sums, with a memory."""\n\n    ' + "x = 1\n    " * 25
    ),
]
MODULE = f'''"""Sums with noise."""

__all__ = ["noisy_sum", "Summer"]

{SOURCE.partition(chr(10))[2]}

class Summer:
    """Sums, with a memory."""

    def fit(self, x):
        """Add up x | or try to."""

    @classmethod
    def open(cls, path):
        """Sums from a file."""

    def _inside(self):
        """Nobody's business."""
'''
MODIDX = {
    "tiny_book.noise": {
        "tiny_book.noise.noisy_sum": ("noise.html#noisy_sum", "tiny_book/noise.py"),
        "tiny_book.noise.Summer.fit": ("noise.html#summer.fit", "tiny_book/noise.py"),
    }
}


def make_book(
    root,
    extra="",
    index=INDEX,
    chapters=("10_noise.ipynb",),
    listed=("10_noise.ipynb",),
    first=CHAPTER[0],
    settings="",
):
    """A book of two pages; `extra` is one more Markdown cell of the chapter."""
    (root / "nbs" / "answers").mkdir(parents=True)
    (root / "nbs" / "about").mkdir()
    (root / "tiny_book").mkdir()
    (root / "settings.ini").write_text(
        "[DEFAULT]\nlib_name = tiny_book\nlib_path = tiny_book\nnbs_path = nbs\nuser = a\nrepo = b\nlicense = mit\n"
        + settings
    )
    (root / "LICENSE").write_text("Be kind.")
    (root / "tiny_book" / "_modidx.py").write_text(f"d = {{'syms': {MODIDX!r}, 'settings': {{}}}}")
    (root / "tiny_book" / "noise.py").write_text(MODULE)
    (root / "nbs" / "styles.css").write_text(".theorem { color: black; }")
    sidebar = ["index.ipynb", {"section": "Foundations", "contents": list(listed)}]
    sidebar.append({"section": "About the book", "contents": ["about/sources.ipynb"]})
    website = {
        "title": "tiny",
        "navbar": {"left": [{"text": "Noise", "href": "10_noise.ipynb"}]},
        "sidebar": {"contents": sidebar},
    }
    (root / "_quarto.yml").write_text(
        yaml.dump({"format": {"html": {"css": "styles.css"}}, "website": website})
    )
    for name, cells in {
        "index.ipynb": index,
        "about/sources.ipynb": SOURCES,
        **dict.fromkeys(chapters, [first, *CHAPTER[1:], extra]),
    }.items():
        cells = [new_markdown_cell(cell) if isinstance(cell, str) else cell for cell in cells]
        nbformat.write(new_notebook(cells=cells), root / "nbs" / name)
    return root


class Tags(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.tags = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


@pytest.fixture(autouse=True)
def tiny_book_can_be_imported(monkeypatch):
    """The package of whichever tiny book is built: its reference page is made from the real objects."""
    build = site.build

    def build_here(root, out, **options):
        monkeypatch.syspath_prepend(root)
        for name in [name for name in sys.modules if name.startswith("tiny_book")]:
            del sys.modules[name]
        return build(root, out, **options)

    monkeypatch.setattr(site, "build", build_here)


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """The unbroken book, built once."""
    root = make_book(tmp_path_factory.mktemp("book"))
    sys.path.insert(0, str(root))
    pages = site.build(root, root / "out")
    sys.path.remove(str(root))
    addresses = [
        "index.html",
        "noise.html",
        "about/sources.html",
        "notation.html",
        "reference/noise.html",
    ]
    assert [page.address for page in pages] == addresses
    return root / "out"


@pytest.fixture(scope="module")
def chapter(book):
    return (book / "noise.html").read_text(encoding="utf-8")


def test_theorems_are_numbered_by_kind(chapter):
    titles = re.findall(r'<span class="theorem-title"><strong>(.*?)</strong>', chapter)
    assert titles == [
        "Theorem 1 (Sums are private)",
        "Theorem 2",
        "Definition 1 (Names)",
        "Lemma 17 (of the <em>paper</em>)",  # a heading with a number keeps its own
    ]
    assert '<div class="theorem definition" id="def-a">' in chapter
    assert '<details class="proof">' in chapter and '<p class="callout-title">Note</p>' in chapter


def test_code_and_outputs_are_shown(book, chapter):
    assert "&lt;3\nand more" in chapter and "wide</td>" in chapter
    assert "<strong>bold</strong>" in chapter and chapter.count("table-scroll") == 3
    assert (book / "figures" / "noise-1.png").read_bytes() == base64.b64decode(PIXEL)
    assert "<script>let x = 1 < 2;</script>" in chapter  # what a cell's HTML does, it does here


def test_a_figure_has_a_number_a_caption_and_words_for_who_cannot_see_it(chapter):
    figure = BeautifulSoup(chapter, "html.parser").find("figure", id=False)
    # drawn 7 wide, of twice as many pixels, say: larger, and still fine
    assert figure.img["width"] == f"{7 * site_pages.LARGER:.0f}" != "7"
    assert figure.img["alt"] == "One grey square" and not figure.figcaption.has_attr("aria-hidden")
    assert site.text_of(figure.figcaption) == "Figure 1. A pixel."
    fold = figure.find_next("details", class_="code-fold")
    assert site.text_of(fold.summary) == "How this figure is drawn" and "a\nb" in fold.get_text()


def test_a_chapter_shows_code_without_its_docstring_and_leads_to_all_of_it(chapter):
    card = BeautifulSoup(chapter, "html.parser").find(id="noisy_sum")
    assert card.find("div", class_="sourceCode").get_text().strip().split("\n") == [
        "def noisy_sum(x, *, scale=1.0):",
        '    """Sum of x plus noise."""',
        "    return sum(x) + scale",
    ]
    fold = card.find("details", class_="full")
    assert fold["data-of"] == "reference/noise.html#noisy_sum" == fold.a["href"]
    assert "What to add up" not in chapter  # it stands once, on the reference page


def test_long_code_is_folded_and_imports_wait_for_code(chapter):
    soup = BeautifulSoup(chapter, "html.parser")
    folds = [site.text_of(fold.summary) for fold in soup.select("main details.code-fold")]
    assert folds == ["Imports", "How this figure is drawn", "Summer Sums, with a memory."]
    assert chapter.index("First section</h2>") < chapter.index("Imports")
    assert site.text_of(soup.select_one("details.glance > summary")) == "At a glance: paper, cost"
    assert chapter.index('class="glance"') < chapter.index("First section</h2>")


def test_names_link_to_their_documentation(book, chapter):
    index = (book / "index.html").read_text(encoding="utf-8")
    entry = r'<a [^>]*href="reference/noise.html#noisy_sum"[^>]*><code>noisy_sum'
    assert len(re.findall(entry, index)) == 2
    # on the page that defines it, to the definition
    assert re.search(r'href="noise.html#noisy_sum"[^>]*><code>noisy_sum</code></a>', chapter)


def test_names_in_tables_and_bold_ones_need_not_be_code():
    """The first time in each; common words, and names within other links, stay as they are."""
    page = Page("a/b.ipynb")
    text = (
        "<p>NoisySum <strong>Receipt of NoisySum</strong></p><h2><strong>NoisySum</strong></h2>"
        "<table><tr><td>NoisySum (1.0)</td><td>NoisySum, Sum</td><td><a href='x'>PESum</a></td></tr></table>"
    )
    page.body = BeautifulSoup(text, "html.parser")
    places = {n: (f"c.html#{n}", f"reference/c.html#{n}") for n in ("NoisySum", "Sum", "PESum")}
    site_frame.link_names(page, places)
    links = [(a["href"], a.parent.name) for a in page.body.select("a")]
    entry = "../reference/c.html#NoisySum"
    assert links == [(entry, "strong"), (entry, "td"), ("x", "td")]
    assert site.text_of(page.body.table) == "NoisySum (1.0)NoisySum, SumPESum"


def test_what_is_cited_leads_to_the_sources(book):
    index = BeautifulSoup((book / "index.html").read_text(encoding="utf-8"), "html.parser")
    found = {a.get_text(): a["href"] for a in index.select("main a[href^='about/sources']")}
    assert {words.replace("\xa0", " "): where for words, where in found.items()} == {
        "Balle and Wang": "about/sources.html#balle-wang-2018",
        "Ding et al. (CCS 2018)": "about/sources.html#ding-kifer-2018",
    }


def test_previews_hold_what_the_links_mean(book):
    text = (book / "site" / "previews" / "noise.js").read_text(encoding="utf-8")
    entries = json.loads(re.fullmatch(r'previews\["noise.html"\] = (.*);', text)[1])
    assert "Let" in entries["thm-one"] and "Sum of x plus noise." in entries["noisy_sum"]
    assert "If scale is negative" not in entries["noisy_sum"]  # that is for the fold
    text = (book / "site" / "previews" / "reference" / "noise.js").read_text(encoding="utf-8")
    assert "If scale is negative" in text
    index = (book / "index.html").read_text(encoding="utf-8")
    assert index.count('data-preview="reference/noise.html#noisy_sum"') == 2
    assert index.count('data-preview="noise.html#thm-one"') == 1


def test_notation_is_gathered(book):
    page = BeautifulSoup((book / "notation.html").read_text("utf8"), "html.parser")
    assert page.find("a", href="noise.html#def-a").get_text() == "Definition 1 (Names)"
    assert "rows" in site.text_of(page.find("table"))


def test_ways_out(tmp_path, book, chapter):
    """The notebook, the command, the licence; Binder and such where an address is configured, and only there."""
    assert (book / "notebooks" / "10_noise.ipynb").is_file()
    assert 'href="notebooks/10_noise.ipynb" download' in chapter
    assert "jupyter lab nbs/10_noise.ipynb" in chapter and "Binder" not in chapter
    assert (book / "site" / "LICENSE.txt").read_text() == "Be kind."
    for library in ("katex", "minisearch"):
        text = (book / "site" / library / "LICENSE.txt").read_text("utf8")
        assert "Permission is hereby granted, free of charge" in text
    settings = "edit_url = https://example.org/edit/main/{path}\n"
    site.build(make_book(tmp_path / "book", settings=settings), tmp_path / "out")
    text = (tmp_path / "out" / "noise.html").read_text("utf8")
    assert '<a href="https://example.org/edit/main/nbs/10_noise.ipynb">Edit this page</a>' in text


def test_launch_links_come_from_one_setting(tmp_path, book, chapter):
    """Hidden while no address is set; a local server gets the very notebook, and a line that is no address is refused."""
    assert "Run it in the browser" not in chapter and 'class="card"' not in chapter
    root = make_book(tmp_path / "book")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=root)
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        local = f"http://127.0.0.1:{server.server_port}/{{path}}"
        with (root / "settings.ini").open("a") as settings:
            settings.write(
                f"launch =\n    Binder https://example.org/v2?urlpath=lab/tree/{{path}}\n    Local {local}\n"
            )
        site.build(root, tmp_path / "out")
        page = BeautifulSoup((tmp_path / "out/noise.html").read_text("utf8"), "html.parser")
        links = {a.get_text(): a["href"] for a in page.select("main .card a")}
        assert links["Binder"] == "https://example.org/v2?urlpath=lab/tree/nbs/10_noise.ipynb"
        with urllib.request.urlopen(links["Local"], timeout=10) as answer:
            assert answer.read() == (root / "nbs/10_noise.ipynb").read_bytes()
        server.shutdown()
    made = (tmp_path / "out/notation.html").read_text("utf8")  # no notebook: nothing to run
    assert "Run it in the browser" not in made
    text = (root / "settings.ini").read_text()
    (root / "settings.ini").write_text(text.replace("{path}", ""))
    with pytest.raises(site.SiteError, match="a line of 'launch' is a name and an address"):
        site.build(root, tmp_path / "out")


def test_a_lesson_says_how_long_it_takes_and_how_that_is_known(tmp_path):
    cards = {
        path.name[:2]: lesson_times.card(path) for path in (ROOT / "nbs/lessons").glob("*.ipynb")
    }
    assert cards["01"][0] == "75 to 90 minutes to read, 2 to 2.5 hours of exercises (measured)"
    assert cards["10"][0].startswith(
        "110 minutes to read (measured), about 2 hours of exercises (est"
    )
    for number, (text, how) in cards.items():
        timed = number in lesson_times.MEASURED
        assert ("measured" in text) == timed == ("one reader took" in how), number
        assert (
            ("estimated" in text) == ("about" in text.lower()) == ("a minute for 40 words" in how)
        ), number
    for number, ((low, high), _) in lesson_times.MEASURED.items():
        (path,) = (ROOT / "nbs/lessons").glob(f"{number}_*.ipynb")
        guess = lesson_times.estimate(path)[0]
        # the rule was made from these: if it is farther off, the lesson has grown
        assert low - 20 <= guess <= high + 20
    name = "lessons/01_first_steps.ipynb"
    site.build(ROOT, tmp_path / "out", only=[name])
    page = BeautifulSoup(
        (tmp_path / "out/lessons/first_steps.html").read_text("utf8"), "html.parser"
    )
    assert page.select_one("main .description + .card summary").get_text() == cards["01"][0]


def test_programs_can_read_the_lessons(book):
    """A list of the pages, and every lesson as Markdown: no picture, no tag of a fold or box, each fence closed."""
    listing = (book / "llms.txt").read_text(encoding="utf-8")
    assert "](noise.html): " in listing and "reference/" not in listing
    sidebar = yaml.safe_load((ROOT / "_quarto.yml").read_text(encoding="utf-8"))["website"]
    pages = [*site_lists.outline(sidebar["sidebar"]["contents"])]
    text = site_text.lessons(ROOT / "nbs", pages)
    lines = {*text.splitlines()}
    for path in (ROOT / "nbs" / "lessons").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        written = "".join(
            "".join(c["source"]) + "\n" for c in cells if c["cell_type"] == "markdown"
        )
        untagged = {re.sub("<[/ads].*?>", "", line) for line in written.splitlines()}
        assert untagged <= lines and len(untagged) > 50
    assert "base64" not in text and "code-fold" not in text and "Figure: " in text
    assert not re.search(r"</?(details|summary|div)\b", text) and "\nAnswer\n\n" in text
    assert len(re.findall("^```", text, re.M)) % 2 == 0 and text.count("```python\n") > 100


def test_every_module_has_a_reference_page(book):
    page = BeautifulSoup((book / "reference" / "noise.html").read_text("utf8"), "html.parser")
    text = site.text_of(page.main, without=("annotation",))
    assert "tiny_book.noise Sums with noise." in text
    assert page.main.find("a", href="../noise.html", string="Noise & sums")
    assert [h["id"] for h in page.main(["h2", "h3"])] == [
        "noisy_sum",
        "summer",
        "summer.fit",
        "summer.open",
    ]
    assert "Summer.fit(self, x) Add up x | or try to." in text
    links = page.main.find("h2", id="noisy_sum").find_next("div", class_="places")
    assert (
        site.text_of(links)
        == "from tiny_book.noise import noisy_sum · chapter Noise & sums · source"
    )
    assert links.find("a", string="source")["href"] == "../noise.html#noisy_sum"
    assert "If scale is negative." in text and "Nobody's business" not in text


NBS = ROOT / "nbs"


@pytest.fixture(scope="module")
def uses():
    """Of the book itself; where a section lies is not asked."""
    names = [path.relative_to(NBS).as_posix() for path in sorted(NBS.rglob("*.ipynb"))]
    pages = [Page(name) for name in names if ".ipynb_checkpoints" not in name]
    for page in pages:
        page.body = BeautifulSoup("", "html.parser")
    return site_uses.Uses(NBS, pages)


def test_each_name_of_a_face_is_imported_from_there_and_run_in_the_book(uses):
    """Or its docstring has an example."""
    chapters, alone, asked = {page.notebook: page for page in uses.pages}, [], 0
    for module, names in site.read_modules(ROOT / "dplit" / "_modidx.py").items():
        room = module.split(".")[1]
        face = importlib.import_module(f"dplit.{room}")
        for name in {name.removeprefix(f"{module}.") for name in names} & {*face.__all__}:
            thing = getattr(face, name)
            chapter = chapters[f"{module.removeprefix('dplit.').replace('.', '/')}.ipynb"]
            line, space = site_uses.import_line(name, module), {}
            exec(line, space)
            assert space[name] is thing
            assert line.startswith("from dplit import " if name in dplit.__all__ else f"from dplit.{room} import ")  # fmt: skip
            asked += 1
            if ">>> " not in (inspect.getdoc(thing) or "") and uses.run(name, chapter) is None:
                alone.append(f"{room}.{name}")
    # these are run by tests and by other functions only
    assert asked > 300 and len(alone) <= 13, alone


def test_lessons_are_found_by_the_names_that_they_mention(uses):
    assert "lessons/09_noisy_lloyd.ipynb" in {p.notebook for p in uses.lessons("NoisyLloyd")}
    assert uses.lessons("no_such_name") == [] and len(uses.lessons("gaussian_mu")) == 2
    assert site_uses.rank("dplit.inputs.tables") < site_uses.rank("dplit.audit.audit")


def test_mathematics_is_in_the_page_with_its_tex(chapter):
    assert (
        "<mfrac>" in chapter
        and r"\frac{1}{2}</annotation>" in chapter
        and r"a \le b {}\tag{1}</annotation>" in chapter
    )


def test_navigation(book, chapter):
    index = (book / "index.html").read_text(encoding="utf-8")
    assert '<a href="noise.html" rel="next">10 Noise &amp; sums →</a>' in index
    assert '<a href="index.html" rel="prev">← A tiny book</a>' in chapter
    soup = BeautifulSoup(chapter, "html.parser")
    parts = {part.summary.get_text(): part for part in soup.select(".sidebar details")}
    assert list(parts) == ["Foundations", "About the book", "Reference"]
    assert [name for name, part in parts.items() if part.has_attr("open")] == ["Foundations"]
    assert parts["Foundations"].find("a", attrs={"aria-current": "page"})


def test_sections_have_numbers(book, chapter):
    soup = BeautifulSoup(chapter, "html.parser")
    headings = [site.text_of(h) for h in soup.main(["h1", "h2", "h3"])]
    assert headings == ["Noise & sums", "1 First section", "2 Second section", "2.1 Its part"]
    assert [a.get_text() for a in soup.select(".contents a")] == headings[1:]
    for name in ("reference/noise.html", "notation.html", "index.html"):  # made, or the first
        page = BeautifulSoup((book / name).read_text("utf8"), "html.parser")
        assert not page.select("h2 > .number")


def numbered(text):
    page = Page("a/t.ipynb")
    page.body = BeautifulSoup(text, "html.parser")
    site_frame.number_sections(page)
    return [site.text_of(h) for h in page.body(["h1", "h2", "h3"])]


def test_a_number_that_a_heading_has_in_its_notebook_is_the_one_that_is_counted():
    text = "<h1>T</h1><h3>Before</h3><h2>1. <em>One</em></h2><h3>Part</h3><h2>Exercises</h2>"
    assert numbered(text) == ["T", "Before", "1 One", "1.1 Part", "2 Exercises"]
    for other in ("<h2>4. Four</h2>", "<h3>1. Part</h3>"):
        with pytest.raises(site.SiteError, match="^a/t.ipynb: .* has another number on its page"):
            numbered(text + other)


def test_the_whole_book_is_numbered_by_this_rule():
    """Chapters have numbers in their notebooks, lessons have none."""
    chapters = 0
    for path in NBS.rglob("*.ipynb"):
        if ".ipynb_checkpoints" in path.parts:
            continue
        cells = json.loads(path.read_text("utf8"))["cells"]
        prose = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        prose = re.sub(r"^```.*?^```", "", prose, flags=re.M | re.S)
        typed = re.findall(r"^## (?:(\d+)\. )?", prose, flags=re.M)
        assert all(int(t) == n for n, t in enumerate(typed, 1) if t), path
        assert path.parent.name != "lessons" or not any(typed) or "answers" in path.parts
        chapters += any(typed)
    assert chapters > 30


def test_the_page_of_security_is_the_file():
    [cell] = [c for c in json.loads((NBS / "about/security.ipynb").read_text("utf8"))["cells"] if c.get("outputs")]  # fmt: skip
    shown = "".join(cell["outputs"][0]["data"]["text/markdown"])
    text = (ROOT / "SECURITY.md").read_text("utf8").removeprefix("# Security\n\n").strip()
    shown = re.sub(r"\]\(#.*?\)", lambda link: link[0].replace(".", ""), shown)  # as on a code host
    assert shown == text.replace("](nbs/", "](../"), "run nbs/about/security.ipynb"


def test_search_index(book):
    text = (book / "site" / "search-index.js").read_text(encoding="utf-8")
    entries = json.loads(re.fullmatch(r"const searchIndex = (.*);", text)[1])
    by_address = {address: (kind, *rest) for kind, address, *rest in entries}
    assert by_address["noise.html#thm-one"] == (
        "theorem",
        "10 Noise & sums",
        "Theorem 1 (Sums are private)",
        "Let x be small. Clear.",
    )
    kinds = {address: kind for kind, address, *_ in entries}
    assert kinds["noise.html#def-a"] == "definition" and kinds["index.html"] == "page"
    assert kinds["noise.html#first-section"] == "section"
    assert kinds["reference/noise.html#noisy_sum"] == "function"  # of no face
    assert by_address["noise.html#first-section"][2] == "First section"  # without its number
    assert "noise.html#noisy_sum" not in kinds  # a function is found once
    assert len(by_address) == len(entries) and not any(a.endswith("#") for a in kinds)
    assert "frac" not in text  # readers search words, not TeX


def test_no_request_leaves_the_folder(book):
    """Every link and resource of the finished pages exists, and none is loaded from elsewhere."""
    pages = {path: Tags(path).tags for path in book.rglob("*.html")}
    checked = 0
    for path, tags in pages.items():
        ids = [attrs["id"] for _, attrs in tags if "id" in attrs]
        assert len(ids) == len(set(ids))
        for target in (attrs.get("href") or attrs.get("src") for _, attrs in tags):
            if target and not re.match("data:|https://(arxiv|doi)", target):
                assert "//" not in target
                name, _, anchor = target.partition("#")
                assert not name or (path.parent / name).is_file(), (path, target)
                if anchor:
                    there = pages[(path.parent / name).resolve() if name else path]
                    assert anchor in [attrs.get("id") for _, attrs in there]
                checked += 1
    assert checked > 30
    for style in book.glob("site/**/*.css"):
        for url in re.findall(r"url\((.*?)\)", style.read_text(encoding="utf-8")):
            assert (style.parent / url).is_file()


BREAKS = {
    "malformed TeX": (r"Here $\frac{x$ is.", "Could not convert TeX"),
    "TeX without dollars": (r"Here $ \frac{x}{2} $ is.", r"'\\frac' is outside a formula"),
    "missing id": ("[x](#thm-nowhere)", "nothing on that page has the id 'thm-nowhere'"),
    "missing id elsewhere": ("[x](index.ipynb#nowhere)", "links to index.html#nowhere"),
    "missing notebook": ("[x](11_gone.ipynb)", "links to 11_gone.ipynb, which is not on the site"),
    "missing file": ("[x](gone.html)", "links to gone.html"),
    "missing image": ("![x](gone.png)", "shows gone.png"),
    "image from the network": ("![x](https://example.org/x.png)", "must work without the network"),
    "duplicate id": ('<div id="thm-one">\n\nAgain.\n\n</div>', "'thm-one' is used 2 times"),
    "unknown label": ("As in @thm-one.", "'@thm-one' is not a label"),
    "unclosed div": ('<div id="thm-three">\n\nOpen.', "pandoc says: .*unclosed"),
}


def test_a_figure_that_is_not_described_stops_the_build(tmp_path):
    root = make_book(tmp_path / "book")
    chapter = root / "nbs" / "10_noise.ipynb"
    notebook = json.loads(chapter.read_text("utf-8"))
    (drawn,) = [cell for cell in notebook["cells"] if "fig-alt" in "".join(cell["source"])]
    drawn["source"] = "a\nb"
    chapter.write_text(json.dumps(notebook))
    with pytest.raises(site.SiteError, match="^10_noise.ipynb: .*cannot see it"):
        site.build(root, tmp_path / "out")


@pytest.mark.parametrize("extra, message", BREAKS.values(), ids=BREAKS.keys())
def test_a_break_in_a_chapter_stops_the_build(tmp_path, extra, message):
    with pytest.raises(site.SiteError, match=f"^10_noise.ipynb: .*{message}"):
        site.build(make_book(tmp_path / "book", extra=extra), tmp_path / "out")
    assert not (tmp_path / "out").exists()


STRUCTURE = {
    "listed but missing": (
        dict(listed=("10_noise.ipynb", "12_gone.ipynb")),
        "12_gone.ipynb: .* not in nbs/",
    ),
    "no title": (dict(first="> nothing"), "10_noise.ipynb: the first cell has no title"),
    "text that nbdev would drop": (
        dict(first="# Title\n\nLost."),
        "10_noise.ipynb: the first cell may hold only",
    ),
}


@pytest.mark.parametrize("changes, message", STRUCTURE.values(), ids=STRUCTURE.keys())
def test_a_break_in_the_book_stops_the_build(tmp_path, changes, message):
    with pytest.raises(site.SiteError, match=f"^{message}"):
        site.build(make_book(tmp_path / "book", **changes), tmp_path / "out")


def more(root, name, *cells):
    """One more notebook, which is not in the sidebar."""
    notebook = new_notebook(cells=[new_markdown_cell(cell) for cell in cells])
    nbformat.write(notebook, root / "nbs" / name)


def test_a_page_to_which_no_link_leads_stops_the_build(tmp_path):
    root = make_book(tmp_path / "book")
    more(root, "11_more.ipynb", "# More\n\n> Alone.", "[Back](index.ipynb)")
    with pytest.raises(site.SiteError, match="^11_more.ipynb: .* no link leads to it"):
        site.build(root, tmp_path / "out")


def test_a_page_that_is_not_in_the_sidebar_is_built_found_and_leads_up(tmp_path):
    """Under its chapter's part, off the way that the arrows follow; the text of a link is what leads to it."""
    root = make_book(tmp_path / "book", extra="[Answers](answers/10_noise.ipynb)")
    more(root, "answers/10_noise.ipynb", "# Answers\n\n> Of the chapter.", "Clear.")
    pages = {page.notebook: page for page in site.build(root, tmp_path / "out")}
    assert pages["answers/10_noise.ipynb"].section == "Foundations"
    answers = BeautifulSoup((tmp_path / "out/answers/noise.html").read_text("utf8"), "html.parser")
    assert answers.select_one(".turn [rel=up]")["href"] == "../noise.html"
    assert not answers.select(".turn [rel=prev], .turn [rel=next]")
    assert [d.summary.get_text() for d in answers.select(".sidebar details[open]")] == [
        "Foundations"
    ]
    for path in (tmp_path / "out").rglob("*.html"):
        text = BeautifulSoup(path.read_text("utf8"), "html.parser")
        assert not text.select(".sidebar a[href*='answers/']")
        assert not text.select(".turn [rel=next][href*='answers/']")
    index = (tmp_path / "out/site/search-index.js").read_text("utf8")
    assert '"answers/noise.html"' in index


def test_the_sidebar_has_groups_and_short_names():
    entries = [
        "index.ipynb",
        {"section": "A", "contents": [{"section": "B", "contents": ["b.ipynb"]}]},
    ]
    entries.append({"text": "Short", "href": "c.ipynb"})
    pages = [*site_lists.outline(entries)]
    assert [(p.notebook, p.section, p.group, p.short) for p in pages] == [
        ("index.ipynb", "", "", ""),
        ("b.ipynb", "A", "B", ""),
        ("c.ipynb", "", "", "Short"),
    ]
    assert Page("lessons/20_a.ipynb", title="T").label == "20 T"
    assert [part for part, _ in site_lists.parts(pages)] == ["", "A"]


def test_a_notebook_in_a_folder_and_its_chapter_link_to_each_other(tmp_path):
    root = make_book(tmp_path / "book", extra="[Answers](answers/10_noise.ipynb)")
    cells = ["# Answers\n\n> In a folder.", "[Back](../10_noise.ipynb#first-section): `noisy_sum`"]
    more(root, "answers/10_noise.ipynb", *cells)
    site.build(root, tmp_path / "out")
    chapter, answers = (
        (tmp_path / "out" / name).read_text(encoding="utf-8")
        for name in ("noise.html", "answers/noise.html")
    )
    assert '<a href="answers/noise.html">Answers</a>' in chapter
    assert '<a href="../noise.html#first-section">Back</a>' in answers
    entry = 'href="../reference/noise.html#noisy_sum"[^>]*><code>noisy_sum</code></a>'
    assert re.search(entry, answers)


def test_only_its_own_folder_is_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(site.SiteError, match="was not made by this builder"):
        site.write({"index.html": b"new"}, tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"
    site.write({"old.html": b"old"}, tmp_path / "site")
    site.write({"index.html": b"new"}, tmp_path / "site")
    assert sorted(path.name for path in (tmp_path / "site").glob("*.html")) == ["index.html"]


# --- code ---


DOCUMENTED = '''class A:
    r"""First \\epsilon.

    More.
    """

    def f(self, x, *rest, y=1, **others):
        """Only a docstring."""

    async def g(self):
        """Begins.

        Ends.
        """
        return "a \\n"


def _h():
    pass
'''


def test_a_docstring_is_cut_to_its_first_line():
    short = site_code.shorten(DOCUMENTED)
    compile(short, "short", "exec")
    assert short.split("\n") == [
        "class A:",
        '    r"""First \\epsilon."""',
        "    def f(self, x, *rest, y=1, **others):",
        '        """Only a docstring."""',
        "",
        "    async def g(self):",
        '        """Begins."""',
        '        return "a \\n"',
        "",
        "def _h():",
        "    pass",
        "",
    ]
    assert site_code.shorten("%timeit f(x)") == "%timeit f(x)"  # not Python


LINES = "\n".join(["x = 1"] * 30)
FOLDS = {
    "short": (("x = 1", (), {}, False), ""),
    "long": ((LINES, (), {}, False), "Code, 30 lines"),
    "a long check": ((LINES + "\nassert x", (), {}, False), "The code of this check, 31 lines"),
    "a figure": ((LINES[:40], (), {}, True), "How this figure is drawn"),
    "the author shows it": ((LINES, (), {"code-fold": False}, False), ""),
    "the author shows it, in a fold": ((LINES, (), {"code-fold": "show"}, False), ""),
    "the author folds it": (("x = 1", (), {"code-fold": True, "code-summary": "S"}, False), "S"),
    "imports": (("import a\nfrom b import c", (), {}, False), "Imports"),
    "helpers": (("def f(x, /, *, y):\n" + "    x = 1\n" * 9, (), {}, False), "`f(x, *, y)`"),
    "without source": (('def f():\n    "Does."', ["export"], {}, False), "`f()` Does."),
    "with source": (('def f():\n    "Does."', ["exports"], {}, False), ""),
}


@pytest.mark.parametrize("given, folded", FOLDS.values(), ids=FOLDS.keys())
def test_what_is_folded(given, folded):
    assert site_code.show(*given).folded == folded


# --- the book itself ---


def test_every_source_has_an_address():
    text = "\n\n".join(
        "".join(cell["source"])
        for cell in json.loads((ROOT / "nbs" / "about/sources.ipynb").read_text("utf8"))["cells"]
    )
    entries = re.findall(r"^\* .*", text, flags=re.M)
    form = re.compile(
        r'\* <span id="[a-z0-9-]+-\d{4}"></span>\*\*[^*]+\*\* \((?:[^()]* )?\d{4}\)\. '
        r"\*[^*]+[.?]\* \[[^\]]+\]\((https://\S+)\)"
    )
    addresses = [found[1] if (found := form.fullmatch(entry)) else entry for entry in entries]
    wrong = [address for address in addresses if not address.startswith("https://")]
    assert not wrong, "\n".join(wrong)
    lasting = re.compile(r"https://(arxiv\.org/abs/\d{4}\.\d{4,5}|doi\.org/10\.\d{4,5}/\S+)")
    assert sum(lasting.fullmatch(address) is not None for address in addresses) >= 25
    assert len(addresses) == len({*addresses}) and len(entries) > 50


def test_the_citation_names_the_version():
    version = re.search(r"^version = (.*)$", (ROOT / "settings.ini").read_text(), flags=re.M)[1]
    cff = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf8"))
    assert cff["version"] == version and cff["license"] == "Apache-2.0" and cff["title"]
    text = (ROOT / "nbs" / "about/sources.ipynb").read_text("utf8")
    assert f"version = {{{version}}}" in text and f"Version {version}, " in text
