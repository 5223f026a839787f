"""The table of contents: what is in the sidebar and in which order, and one table of prerequisites that all pages follow."""

import csv
import json
import re
from pathlib import Path

import pytest
import site_lists
import yaml
from test_language import BRITISH, ours_in, words_of

ROOT = Path(__file__).resolve().parents[2]
WEBSITE = yaml.safe_load((ROOT / "_quarto.yml").read_text("utf8"))["website"]
PAGES = [*site_lists.outline(WEBSITE["sidebar"]["contents"])]
PARTS = "Start, Learn, Use it, The papers, Theory, Evidence, Teaching, Reference".split(", ")
with (ROOT / "nbs/lessons.csv").open(newline="", encoding="utf8") as file:
    LESSONS = list(csv.DictReader(file))  # in the order of reading
NUMBERS = [row["lesson"][:2] for row in LESSONS]


def cells(name):
    return json.loads((ROOT / "nbs" / name).read_text("utf8"))["cells"]


def shown_on(name):
    """The HTML of each stored output of a notebook."""
    outputs = (o for c in cells(name) for o in c.get("outputs", []))
    return ["".join(o.get("data", {}).get("text/html", "")) for o in outputs]


def prose(name):
    return "\n\n".join("".join(c["source"]) for c in cells(name) if c["cell_type"] == "markdown")


def title(page):
    return page.short or re.match(r"# *(.*)", prose(page.notebook))[1].strip()


def section(name, heading):
    return prose(name).partition(f"## {heading}\n")[2].partition("\n## ")[0]


def lessons_in(text):
    """Numbers of the lessons to which a text links."""
    return {*re.findall(r"\]\((?:\.\./lessons/|lessons/)?(\d\d)_\w+\.ipynb", text)}


def test_the_sidebar_has_at_most_seventy_pages_in_eight_parts():
    assert len(PAGES) < 70  # and the page of symbols, which the builder makes
    assert [*dict.fromkeys(page.section for page in PAGES)] == PARTS
    assert len({page.notebook for page in PAGES}) == len(PAGES)
    assert not [page for page in PAGES if page.notebook.startswith("answers/")]


def test_titles_in_the_sidebar_differ():
    """In more than case and what follows a colon or stands in parentheses."""
    heads = [re.split(r":| \(", title(page).lower())[0].strip() for page in PAGES]
    assert len({*heads}) == len(heads), sorted(head for head in heads if heads.count(head) > 1)


def test_the_bar_leads_to_the_parts():
    items = {item["text"]: item["href"] for item in WEBSITE["navbar"]["left"]}
    assert {"Install", "Learn", "Use it", "Papers", "Reference"} <= {*items}
    shown = "".join(shown_on("index.ipynb"))
    anchors = {*re.findall(r'<h[23] id="([\w-]+)"', shown)}
    for href in items.values():
        name, _, anchor = href.partition("#")
        assert name in {page.notebook for page in PAGES} and (not anchor or anchor in anchors)


def test_the_front_page_begins_with_what_it_is_and_a_picture():
    first, second = ("".join(c["source"]) for c in cells("index.ipynb")[:2])
    assert "Private clustering and domain adaptation" in first and "Python package" in first
    assert "differential" in first and "receipt" in second
    drawn = [n for n, c in enumerate(cells("index.ipynb")) for o in c.get("outputs", []) if "image/png" in o.get("data", {})]  # fmt: skip
    assert drawn[0] < 4
    text = prose("index.ipynb")
    assert "pip install -q -e '.[dev]'" in text and "pip install dplit" not in text
    assert "pip install -q -e '.[dev]'" in (ROOT / "README.md").read_text("utf8")


def test_the_front_page_shows_at_most_six_cards_in_each_of_three_groups():
    [cards] = [html for html in shown_on("index.ipynb") if 'class="tiles"' in html]
    groups = cards.split('<div class="tiles">')[1:]
    assert len(groups) == 3
    for group in groups:
        linked = re.findall(r'<a href="([\w/]+\.ipynb)">', group)
        assert 3 <= len(linked) <= 6
        assert all((ROOT / "nbs" / name).is_file() for name in linked)


@pytest.mark.parametrize("name", ["index", "about/install", "about/choosing", "about/reference"])
def test_these_pages_have_no_words_of_our_own(name):
    page = ROOT / "nbs" / f"{name}.ipynb"
    assert ours_in([page])[0] == 0, ours_in([page])[1]
    assert not BRITISH.findall(words_of(page))


# --- prerequisites ---


def test_every_lesson_is_in_the_table_after_what_it_needs():
    there = sorted(path.stem for path in (ROOT / "nbs/lessons").glob("*.ipynb"))
    assert sorted(row["lesson"] for row in LESSONS) == there
    for n, row in enumerate(LESSONS):
        needs, helps = {*row["needs"].split()}, {*row["helps"].split()}
        assert not needs & helps and needs <= {*NUMBERS[:n]} and helps <= {*NUMBERS[:n]}


def test_the_sidebar_has_the_lessons_of_the_table_in_its_parts():
    shown = [(page.notebook, page.group) for page in PAGES if page.notebook.startswith("lessons/")]
    assert shown == [(f"lessons/{row['lesson']}.ipynb", row["part"]) for row in LESSONS]


def test_the_map_on_the_front_page_shows_the_table():
    [shown] = [html for html in shown_on("index.ipynb") if 'class="map"' in html]
    tiles = re.findall(r"<li>(.*?)</li>", shown)
    assert len(tiles) == len(LESSONS)
    for row, tile in zip(LESSONS, tiles, strict=True):
        number, *others = re.findall(r'href="lessons/(\d\d)_', tile)
        assert number == row["lesson"][:2]
        assert others == row["needs"].split() + row["helps"].split()


@pytest.mark.parametrize("row", LESSONS, ids=lambda row: row["lesson"])
def test_a_lesson_names_the_lessons_that_the_table_says(row):
    """In the section of what one needs to know, and no others."""
    named = lessons_in(section(f"lessons/{row['lesson']}.ipynb", "What you need to know"))
    assert named == {*row["needs"].split(), *row["helps"].split()}


@pytest.mark.parametrize("row", LESSONS[:-1], ids=lambda row: row["lesson"])
def test_a_lesson_leads_to_the_next_one(row):
    following = NUMBERS[NUMBERS.index(row["lesson"][:2]) + 1]
    text = section(f"lessons/{row['lesson']}.ipynb", "Where to go next")
    assert following in lessons_in(text), text


def test_the_page_for_teachers_reads_the_table():
    code = "\n".join("".join(c["source"]) for c in cells("about/teaching.ipynb") if c["cell_type"] == "code")  # fmt: skip
    assert "lessons.csv" in code and "NEEDED" not in code
