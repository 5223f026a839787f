"""The site builder: a tiny book is built whole, then broken in one place at a time, and each break must stop the build."""

import base64
import importlib.util
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

spec = importlib.util.spec_from_file_location(
    "build_site", Path(__file__).parent.parent / "tools" / "build_site.py"
)
site = sys.modules["build_site"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(site)

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
    "See [the theorem](10_noise.ipynb#thm-one) and `noisy_sum`, or `noisy_sum()` $x$.",
]
CHAPTER = [
    "# Noise & sums\n\n> A chapter about $\\varepsilon$",
    "## First section\n\nText with $\\frac{1}{2}$.\n\n$$a \\le b \\tag{1}$$\n\nBack to [the start](index.ipynb).",
    '<div id="thm-one">\n\n#### Sums are private\n\nLet $x$ be small.\n\n</div>\n\n'
    "<details><summary>Proof</summary>\n\nClear.\n\n</details>",
    '<div id="thm-two">\n\nA theorem *without* a title.\n\n</div>\n\n<div id="def-a">\n\n#### Names\n\nOf $y$.\n\n</div>\n\n'
    '<div id="lem-own">\n\n#### Lemma 17; of the *paper*\n\nClear.\n\n</div>',
    '<div class="callout-note">\n\nMind the gap.\n\n</div>\n\n| a | b |\n|---|---|\n| 1 | 2 |',
    new_code_cell("#| default_exp noise"),
    new_code_cell(SOURCE),
    new_code_cell(
        "print('<3')",
        outputs=[
            new_output("stream", text="<3\n"),
            new_output("display_data", {"image/png": PIXEL, "text/plain": "<Figure>"}),
            new_output(
                "execute_result",
                {"text/html": "<table><tr><td>wide</td></tr></table>", "text/plain": "no"},
            ),
            new_output(
                "execute_result", {"text/markdown": "**bold** `noisy_sum`", "text/plain": "no"}
            ),
        ],
    ),
]
MODULE = f'''"""Sums with noise."""

__all__ = ["noisy_sum", "Summer"]

{SOURCE.partition(chr(10))[2]}

class Summer:
    """Sums, with a memory."""

    def fit(self, x):
        """Add up x | or try to."""

    def _inside(self):
        """Nobody's business."""
'''
MODIDX = {
    "tiny_book.noise": {"tiny_book.noise.noisy_sum": ("noise.html#noisy_sum", "tiny_book/noise.py")}
}


def make_book(
    root,
    extra="",
    index=INDEX,
    chapters=("10_noise.ipynb",),
    listed=("10_noise.ipynb",),
    first=CHAPTER[0],
):
    """A book of two pages; `extra` is one more Markdown cell of the chapter."""
    (root / "nbs" / "answers").mkdir(parents=True)
    (root / "tiny_book").mkdir()
    (root / "settings.ini").write_text(
        "[DEFAULT]\nlib_name = tiny_book\nlib_path = tiny_book\nnbs_path = nbs\nuser = a\nrepo = b\n"
    )
    (root / "tiny_book" / "_modidx.py").write_text(f"d = {{'syms': {MODIDX!r}, 'settings': {{}}}}")
    (root / "tiny_book" / "noise.py").write_text(MODULE)
    (root / "nbs" / "styles.css").write_text(".theorem { color: black; }")
    sidebar = ["index.ipynb", {"section": "Foundations", "contents": list(listed)}]
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

    def build_here(root, out):
        monkeypatch.syspath_prepend(root)
        for name in [name for name in sys.modules if name.startswith("tiny_book")]:
            del sys.modules[name]
        return build(root, out)

    monkeypatch.setattr(site, "build", build_here)


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """The unbroken book, built once."""
    root = make_book(tmp_path_factory.mktemp("book"))
    sys.path.insert(0, str(root))
    pages = site.build(root, root / "out")
    sys.path.remove(str(root))
    addresses = ["index.html", "noise.html", "reference/noise.html"]
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
    assert "&lt;3" in chapter and "wide</td>" in chapter and "<strong>bold</strong>" in chapter
    assert chapter.count("table-scroll") == 2
    assert (book / "figures" / "noise-1.png").read_bytes() == base64.b64decode(PIXEL)
    assert (
        ">source</a>" not in chapter
    )  # no git_url in settings.ini: there is no public source to link to


def test_exported_functions_are_documented_with_their_source(chapter):
    text = site.text_of(site.BeautifulSoup(chapter, "html.parser").main, without=("annotation",))
    assert (
        "noisy_sum noisy_sum(x, *, scale=1.0) Sum of x plus noise. Parameters x : list of float: What to add up."
        in text
    )
    assert (
        "Raises ValueError: If scale is negative. Exported source def noisy_sum(x, *, scale=1.0):"
        in text
    )


def test_names_link_to_their_documentation(book, chapter):
    index = (book / "index.html").read_text(encoding="utf-8")
    assert index.count('<a href="noise.html#noisy_sum"><code>noisy_sum') == 2
    assert (
        'id="noisy_sum"' in chapter
        and '<a href="noise.html#noisy_sum"><code>noisy_sum</code></a>' in chapter
    )


def test_every_module_has_a_reference_page(book):
    page = site.BeautifulSoup((book / "reference" / "noise.html").read_text("utf8"), "html.parser")
    text = site.text_of(page.main, without=("annotation",))
    assert "tiny_book.noise Sums with noise." in text
    assert page.find("a", href="../noise.html", string="Noise & sums")
    assert [h["id"] for h in page.main(["h2", "h3"])] == ["noisy_sum", "summer", "summer.fit"]
    assert "Summer.fit(self, x) Add up x | or try to." in text
    assert "If scale is negative." in text and "Nobody's business" not in text


def test_mathematics_is_in_the_page_with_its_tex(chapter):
    assert (
        "<mfrac>" in chapter
        and r"\frac{1}{2}</annotation>" in chapter
        and r"a \le b {}\tag{1}</annotation>" in chapter
    )


def test_navigation(book, chapter):
    index = (book / "index.html").read_text(encoding="utf-8")
    assert '<a href="noise.html" rel="next">Noise &amp; sums →</a>' in index
    assert '<a href="index.html" rel="prev">← A tiny book</a>' in chapter
    assert (
        '<li class="section">Foundations</li>' in chapter
        and 'aria-current="page">Noise &amp; sums</a>' in chapter
    )
    assert '<li class="h2"><a href="#first-section">First section</a></li>' in chapter


def test_search_index(book):
    text = (book / "site" / "search-index.js").read_text(encoding="utf-8")
    entries = {
        address: rest
        for address, *rest in json.loads(re.fullmatch(r"const searchIndex = (.*);", text)[1])
    }
    assert entries["noise.html#thm-one"] == [
        "Noise & sums",
        "Theorem 1 (Sums are private)",
        "Let x be small. Clear.",
    ]
    assert {"index.html", "noise.html#first-section", "noise.html#noisy_sum"} <= set(entries)
    assert "frac" not in text  # readers search words, not TeX


def test_no_request_leaves_the_folder(book):
    """Every link and resource of the finished pages exists, and none is loaded from elsewhere."""
    pages = {path: Tags(path).tags for path in book.rglob("*.html")}
    checked = 0
    for path, tags in pages.items():
        ids = [attrs["id"] for _, attrs in tags if "id" in attrs]
        assert len(ids) == len(set(ids))
        for target in (attrs.get("href") or attrs.get("src") for _, attrs in tags):
            if target and not target.startswith("data:"):
                assert "//" not in target
                name, _, anchor = target.partition("#")
                assert (path.parent / name).is_file() if name else True
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
    "TeX without dollars": (r"Here $ \frac{x}{2} $ is.", r"'\\frac' stands outside a formula"),
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


@pytest.mark.parametrize("extra, message", BREAKS.values(), ids=BREAKS.keys())
def test_a_break_in_a_chapter_stops_the_build(tmp_path, extra, message):
    with pytest.raises(site.SiteError, match=f"^10_noise.ipynb: .*{message}"):
        site.build(make_book(tmp_path / "book", extra=extra), tmp_path / "out")
    assert not (tmp_path / "out").exists()


STRUCTURE = {
    "unlisted notebook": (
        dict(chapters=("10_noise.ipynb", "11_more.ipynb")),
        "11_more.ipynb: .* not in the sidebar",
    ),
    "unlisted notebook in a folder": (
        dict(chapters=("10_noise.ipynb", "answers/10_noise.ipynb")),
        "answers/10_noise.ipynb: .* not in the sidebar",
    ),
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


def test_a_notebook_in_a_folder_and_its_chapter_link_to_each_other(tmp_path):
    listed = ("10_noise.ipynb", "answers/10_noise.ipynb")
    root = make_book(tmp_path / "book", extra="[Answers](answers/10_noise.ipynb)", listed=listed)
    cells = ["# Answers\n\n> In a folder.", "[Back](../10_noise.ipynb#first-section): `noisy_sum`"]
    nbformat.write(
        new_notebook(cells=[new_markdown_cell(cell) for cell in cells]), root / "nbs" / listed[1]
    )
    site.build(root, tmp_path / "out")
    chapter, answers = (
        (tmp_path / "out" / name).read_text(encoding="utf-8")
        for name in ("noise.html", "answers/noise.html")
    )
    assert '<a href="answers/noise.html">Answers</a>' in chapter
    assert '<a href="../noise.html#first-section">Back</a>' in answers
    assert '<a href="../noise.html#noisy_sum"><code>noisy_sum</code></a>' in answers


def test_only_its_own_folder_is_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(site.SiteError, match="was not made by this builder"):
        site.write({"index.html": b"new"}, tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"
    site.write({"old.html": b"old"}, tmp_path / "site")
    site.write({"index.html": b"new"}, tmp_path / "site")
    assert sorted(path.name for path in (tmp_path / "site").glob("*.html")) == ["index.html"]
