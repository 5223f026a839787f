"""The form of the errata: whose words, where, which edition, how much it weighs, and what shows it.

Whether a row is right no test can tell; that it says enough to be checked by whoever has the paper, these do.
"""

import csv
import functools
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TITLE = "What we could not confirm, and what we repaired"
KINDS = ["error", "gap", "loose but true", "misprint", "reading", "remark", "program"]
# what was read for each chapter: a paper, then programs by name and commit
EDITIONS = {
    "max_cover/paper": ["AAAI 2021", "C++ a2145fa", "EMMC 9798611"],
    "k_tuples/paper": ["ICML 2021"],
    "private_evolution/paper": ["arXiv:2606.00342", "PE-means e67d051"],
    "source_target/medoids": ["TMLR 2025"],
    "adaptation/convex": ["arXiv:2306.08838"],
    "adaptation/nonconvex": ["arXiv:2306.08838"],
}
WITHOUT_ROWS = ["k_tuples/kmeans", "adaptation/discrepancy"]
# short quotations, each found in the edition by a search that forgets spaces and signs
with (ROOT / "tests" / "quotes.csv").open(encoding="utf8", newline="") as file:
    QUOTES = [(row["edition"], row["quote"]) for row in csv.DictReader(file)]
# a number in brackets, or a section, that only the chapter's own pages could resolve
DANGLING = re.compile(r"(?<![\[\w])\(\d{1,2}\)|\bsection \d|\bthe table\)|\((see )?(above|below)")


@functools.cache
def prose(name):
    """All Markdown of a notebook."""
    cells = json.loads((ROOT / "nbs" / f"{name}.ipynb").read_text("utf8"))["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def section_8(chapter):
    return re.search(r"(?ms)^## 8\. (.*?)^## 9\. ", prose(chapter))[1]


def table_rows(text):
    """Rows of the tables in a text, without head and rule."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def quotations(words):
    """What stands in quotation marks, or, where nothing does, the code in backticks."""
    return re.findall(r'"([^"]+)"', words) or re.findall(r"`([^`]+)`", words)


def complaints(chapter, row):
    """What a row of a chapter's table lacks."""
    if len(row) != 5:
        yield f"{len(row)} columns"
        return
    number, kind, place_and_words, so, shown = row
    where, _, words = place_and_words.partition(": ")
    if kind not in KINDS:
        yield f"{kind!r} is no kind"
    read = [edition for edition in EDITIONS[chapter] if edition in where]
    if not re.match(rf"({'|'.join(map(re.escape, EDITIONS[chapter]))}), \w", where):
        yield f"{where!r} does not begin with an edition and a place"
    if (kind == "program") > any(edition in where for edition in EDITIONS[chapter][1:]):
        yield "a row about a program names the program and its commit"
    if not quotations(words):
        yield "no words are quoted"
    for quote in quotations(words):
        if not any((edition, quote) in QUOTES for edition in read):
            yield f"{quote!r} is not among the quotations of {read}"
    text = prose(chapter)
    number_of_section = re.fullmatch(r"section (\d+)", shown)
    if number_of_section and not re.search(rf"(?m)^## {number_of_section[1]}\. ", text):
        yield f"there is no {shown}"
    if not number_of_section and f'<a id="cell-{shown}"></a>' not in text:
        yield f"there is no cell {shown!r}"
    if "ndecided" in so and "settle" not in so:
        yield "what is undecided says what would settle it"
    if not so or DANGLING.search(so):
        yield f"{DANGLING.findall(so)} leads nowhere on the page of all errata"


ROWS = [(chapter, row) for chapter in EDITIONS for row in table_rows(section_8(chapter))]


def row_name(value):
    return value if isinstance(value, str) else value[0]


@pytest.mark.parametrize("chapter, row", ROWS, ids=row_name)
def test_a_row_can_be_checked(chapter, row):
    assert not [*complaints(chapter, row)]


GOOD = next(row for chapter, row in ROWS if chapter == "source_target/medoids" and row[0] == "n")
WORDS = GOOD[2].partition(": ")[2]


@pytest.mark.parametrize(
    "column, value",
    [
        (1, "mistake"),
        (1, "program"),
        (2, WORDS),
        (2, f"Observation 5.8: {WORDS}"),
        (2, f"TMLR 2025: {WORDS}"),
        (2, f"ICML 2021, Observation 5.8: {WORDS}"),
        (2, "TMLR 2025, Observation 5.8"),
        (2, "TMLR 2025, Observation 5.8: the proof is identical"),
        (2, 'TMLR 2025, Observation 5.8: "words that nobody wrote"'),
        (3, ""),
        (3, "Undecided."),
        (3, "by (3)"),
        (3, "repaired (above)"),
        (3, "see section 7"),
        (4, ""),
        (4, "z"),
        (4, "section 11"),
    ],
)
def test_a_row_that_cannot_be_checked_is_found(column, value):
    row = [*GOOD]
    row[column] = value
    assert [*complaints("source_target/medoids", row)]
    assert not [*complaints("source_target/medoids", GOOD)]


@pytest.mark.parametrize("chapter", [*EDITIONS, *WITHOUT_ROWS])
def test_who_is_quoted_said_so(chapter):
    """Outside the tables too, within the eighth section's first cell."""
    first = re.split(r'<a id="cell-', section_8(chapter))[0]
    papers = [e for names in EDITIONS.values() for e in names]
    read = EDITIONS.get(chapter, papers)
    for quote in re.findall(r'"([^"]+)"', first):
        short = len(quote) < 12  # a word of ours, such as "as printed"
        assert short or any((edition, quote) in QUOTES for edition in read), quote
    assert (chapter in WITHOUT_ROWS) == (not table_rows(first))


@pytest.mark.parametrize("chapter", EDITIONS)
def test_a_chapter_says_what_was_read(chapter):
    read = re.search(r"\*\*Read\*\*: .*", section_8(chapter))[0]
    assert all(f"*{edition}*" in read for edition in EDITIONS[chapter])


def test_quotations_are_short_and_all_are_used():
    text = "\n".join(map(section_8, [*EDITIONS, *WITHOUT_ROWS]))
    assert all(quote in text and len(quote) < 130 for _, quote in QUOTES)
    assert len({*QUOTES}) == len(QUOTES) > len(ROWS)


def page():
    return json.loads((ROOT / "nbs" / "about/errata.ipynb").read_text("utf8"))["cells"]


def test_the_page_of_all_errata_shows_every_row():
    shown = [
        "".join(output["data"]["text/markdown"])
        for cell in page()
        for output in cell.get("outputs", [])
        if "text/markdown" in output.get("data", {})
    ]
    tables = [row for text in shown for row in table_rows(text) if len(row) == 5]

    def based(cells):
        return [re.sub(r"\]\([\w./]*/", "](", cell) for cell in cells[:4]]

    assert list(map(based, tables)) == [based(row) for _, row in ROWS], "run about/errata.ipynb"
    ids = [re.fullmatch(r"\[.+\]\(\.\./([\w/]+)\.ipynb#([\w-]+)\)", r[4]).groups() for r in tables]
    for (chapter, anchor), (home, _) in zip(ids, ROWS, strict=True):
        titles = re.findall(r"(?m)^## \d+\. (.*)", prose(home))
        slugs = {re.sub(r"[^a-z ]", "", title.lower()).replace(" ", "-") for title in titles}
        assert chapter == home and (f'id="{anchor}"' in prose(home) or anchor in slugs)


def test_our_own_errors_stand_first_and_name_their_tests():
    text = prose("about/errata")
    sections = re.findall(r"(?m)^## (.*)", text)
    assert sections[:2] == ["Our own errors", "The kinds"]
    own = table_rows(text.split("## The kinds")[0])
    assert len(own) >= 9 and all(len(row) == 3 for row in own)
    for row in own:
        assert own_tests(row), row[2]


def own_tests(row):
    return re.findall(r"`(tests/\w+/\w+\.py)`", row[2])


@pytest.mark.skipif(
    not (ROOT / "tests/mechanisms/test_samplers.py").is_file(),
    reason="a tree without the tests it names",
)
def test_the_tests_that_our_own_errors_name_exist():
    own = table_rows(prose("about/errata").split("## The kinds")[0])
    named = {name for row in own for name in own_tests(row)}
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_the_kinds_are_explained():
    explained = re.findall(r"(?m)^\* \*\*([a-z ]+)\*\*: ", prose("about/errata"))
    assert explained == KINDS
    assert {row[1] for _, row in ROWS} <= {*KINDS}


@pytest.mark.parametrize("name", ["README.md", "nbs/about/errata.ipynb", "nbs/index.ipynb"])
def test_the_page_has_one_title(name):
    text = (ROOT / name).read_text("utf8")
    assert TITLE in text and "What the papers get wrong" not in text
