"""A deck of slides for each lesson, one page of HTML each, from the outline that the lesson declares.

    python tools/site/build_slides.py SITE [--out FOLDER] [--pdf]

A deck lies in SITE/slides and opens in any browser, without a network: arrows, space and Page Down turn the slides, #14
after the address opens the fourteenth, and the browser prints them, one slide on a sheet. --pdf prints them here, with the machine's Chromium.

The outline is in the notebook's own metadata, "slides": a list of slides, each of which has

    kind    one of KINDS
    title   what the slide says, in one sentence
    text    Markdown, if it needs more than what it shows
    then    Markdown below what it shows, as a question about it
    show    what it takes from the lesson, in order: "#thm-noise" is a box; "c20482b9" is what a cell of this id shows, the
            first picture of something to play with; "c20482b9 code" is its code, "c20482b9 ol 1-4" are items of its list,
            "c20482b9 frame 3" its third picture, "c20482b9 table" its first table, "c20482b9 p 2" its second paragraph, "#thm-noise ul" a part of a box; and
            "play c20482b9" leads to something to play with

Neither JupyterLab, nor the site, nor Quarto shows the outline. Answers and hints are not on slides.
"""

import argparse
import base64
import contextlib
import html
import json
import os
import re
import sys
from pathlib import Path

import measure_pages
from bs4 import BeautifulSoup
from build_pdf import lessons
from site_frame import heads, number_theorems
from site_pages import (
    PROCESSORS,
    NBProcessor,
    Page,
    SiteError,
    cell_markdown,
    pandoc,
    read_nb,
    text_of,
)

ROOT = Path(__file__).resolve().parents[2]
# in this order a lesson is told; a deck has each of REQUIRED
KINDS = "question picture definition example idea algorithm theorem check data remember exercise".split()
REQUIRED = "question picture definition idea theorem check remember exercise".split()
MOST = 20  # slides of a deck


def outline(notebook):
    """The slides that a notebook declares."""
    return json.loads(Path(notebook).read_text("utf8"))["metadata"].get("slides", [])


# ---- What a lesson shows ---------------------------------------------------------------------------------------------


def still(cell):
    """A cell without what moves: of something to play with, all its pictures, of which a slide shows one."""
    for output in cell.get("outputs", []):
        shown = "".join(output.get("data", {}).get("text/html", ""))
        if "dplit-frames" in shown or "dplit-explorer" in shown:
            cell.moves = True
        if "dplit-frames" in shown:
            output["data"] = {"text/html": "".join(re.findall("<img [^>]*>", shown)) or shown}
    return cell


def rendered(notebook):
    """(the lesson cell by cell, its slides' titles and texts), all as HTML, in one pass through pandoc."""
    page = Page(f"lessons/{notebook.name}")
    with contextlib.chdir(ROOT):  # nbdev looks for settings.ini from the current folder upwards
        cells = read_nb(notebook)
        page.title = cells.cells[0].source.partition("\n")[0].removeprefix("# ")
        NBProcessor(nb=cells, procs=PROCESSORS).process()
    pieces = []
    for cell in cells.cells:
        cell = still(cell)
        moves = " .moves" if cell.get("moves") else ""
        pieces += [f"::: {{.cell{moves} data-cell={cell.id}}}\n:::"]
        pieces += [piece.removeprefix("\0") for piece in cell_markdown(page, cell)]
    for slide in outline(notebook):
        pieces += ["::: {.cell .title}", slide["title"], ":::"]
        for part in ("text", "then"):
            pieces += [f"::: {{.cell .{part}}}", slide.get(part, ""), ":::"]
    page.body = pandoc(page, "\n\n".join(pieces))
    for mark in page.body.select("div.cell[data-cell]"):  # what follows belongs to this cell
        while (after := mark.next_sibling) is not None and "cell" not in getattr(
            after, "attrs", {}
        ).get("class", ()):
            mark.append(after.extract())
    number_theorems(page)
    return page


def chosen(found, part):
    """The second of several tables for "2"; items 2 to 4 for "2-4", counted through all lists of a cell."""
    first, _, last = part.partition("-")
    wanted = range(int(first), int(last or first) + 1)
    if found[0].name not in ("ol", "ul"):
        return found[wanted[0] - 1 : wanted[-1]]
    number = 0
    for box in found:
        for place, item in enumerate(box.find_all("li", recursive=False), 1):
            number += 1
            if number == wanted[0]:
                box["start"] = place
            if number not in wanted:
                item.decompose()
    return [box for box in found if box.find("li")]


def missing(page, wish):
    raise page.error(f"a slide shows {wish!r}, and the lesson has no such thing.")


def taken(page, wish):
    """(the first tag that a slide asks for, copies of all that it does): two slides may show the same."""
    name, _, rest = wish.partition(" ")
    what, _, part = rest.partition(" ")
    if name == "play":
        found = page.body.select(f'.moves[data-cell="{what}"] figure')
        return (found[0], []) if found else (missing(page, wish), [])
    if name.startswith("#"):
        cell = page.body.find("div", class_="theorem", id=name[1:])
        found = [] if not cell else [cell] if not what else cell.find_all(what, recursive=False)
    else:
        cell = page.body.find("div", attrs={"data-cell": name})
        kinds = {
            "code": "pre.python",
            "frame": "figure img",
            "": "figure, img, table, pre.output, .cell-output > p",
        }
        found = cell.select(kinds.get(what, what)) if cell else []
        # what a cell says in Markdown is a paragraph; a picture in a figure comes with it
        if not what:
            found = [tag for tag in found if not tag.find_parent("figure")]
        elif what not in ("figure", "table", "frame"):
            found = [tag for tag in found if not tag.find_parent(["li", "table", "figure"])]
    if what == "frame":  # the picture that is seen before the others is in the page, too, as a file
        found = [tag for tag in found if tag["src"].startswith("data:")]
    if not found:
        missing(page, wish)
    copies = [BeautifulSoup(str(tag), "html.parser").find(True) for tag in found]
    if part:
        copies = chosen(copies, part)
    elif what in ("ol", "ul", "table", "p"):
        copies = copies[:1]
    if not copies:
        missing(page, wish)
    return found[0], copies


def plain(page, tag):
    """A tag as a slide has it: no links, no numbers of the paper's lines, pictures inside the file."""
    for fold in tag.select("details, script"):
        fold.decompose()
    for link in tag.find_all("a"):
        link.unwrap()
    for aside in tag.select("li em"):
        if re.fullmatch(r"\(.*\)\.?", text_of(aside)):
            aside.decompose()
    for named in [tag, *tag.find_all(id=True)]:
        named.attrs.pop("id", None)
    for picture in [tag] if tag.name == "img" else tag.find_all("img"):
        data = picture["src"]
        if not data.startswith("data:"):
            file = page.files[page.resolve(data)]
            picture["src"] = f"data:image/png;base64,{base64.b64encode(file).decode()}"
    if tag.name == "table":
        heads(page, tag)
    if tag.name == "pre" and (said := re.fullmatch(r"(['\"])(.*)\1\n?", tag.get_text())):
        tag.string = said[2]  # a string is shown without its quotation marks
    return tag


def section_of(tag):
    """(the id, the words) of the heading under which something stands in the lesson."""
    heading = tag.find_previous("h2")
    return (heading["id"], text_of(heading)) if heading else ("", "")


# ---- Slides ----------------------------------------------------------------------------------------------------------


def parts_of(text):
    """The paragraphs, lists and tables of a piece of Markdown."""
    return [str(tag) for tag in text.find_all(True, recursive=False) if text_of(tag)]


def slide(page, declared, title, text, then, lesson):
    """One slide: its title, its words and its picture, and where in the lesson it comes from."""
    if declared["kind"] not in KINDS:
        raise page.error(
            f"a slide is of the kind {declared['kind']!r}; the kinds are {', '.join(KINDS)}."
        )
    words, picture, link, where = parts_of(text), None, "", ("", "")
    for wish in declared.get("show", []):
        first, tags = taken(page, wish)
        cell = first.find_parent("div", class_="cell")
        where = where if where[0] else section_of(first)
        for tag in tags:
            tag = plain(page, tag)
            shown = tag if tag.name == "img" else tag.find("img")
            if shown:
                picture = shown
                caption = cell.find("figcaption")
                if caption and not text_of(text) + text_of(then):
                    words.append(f"<p>{caption.decode_contents()}</p>")
            else:
                words.append(str(tag))
        if "moves" in cell.get("class", ()):
            place = section_of(first)[0]
            link = f'<a href="{lesson}{"#" if place else ""}{place}">play with it</a>'
    words += parts_of(then)
    if not words and picture is None:
        raise page.error(f"the slide {declared['title']!r} shows nothing.")
    parts = [f'<div class="words">{"".join(words)}</div>'] if words else []
    if picture:
        alt = html.escape(picture.get("alt", ""))
        parts.append(f'<div class="picture"><img src="{picture["src"]}" alt="{alt}"></div>')
    name = html.escape(where[1] or page.title.partition(":")[0])
    return (
        f'<section class="slide is-{declared["kind"]}">\n<h2>{title.p.decode_contents()}</h2>\n'
        f'<div class="content">{"".join(parts)}</div>\n'
        f"<footer><span>{name}{' · ' if link else ''}{link}</span><span>NUMBER</span></footer>\n</section>"
    )


def deck(notebook, lesson, site):
    """The slides of one lesson as a page; `lesson` and `site` are addresses from where it will lie."""
    page, declared = rendered(notebook), outline(notebook)
    if not declared:
        raise page.error("this lesson declares no slides.")
    said = (page.body.find_all("div", class_=name) for name in ("title", "text", "then"))
    made = [slide(page, *each, lesson) for each in zip(declared, *said, strict=True)]
    name = page.title.partition(":")[0]
    made = [s.replace("NUMBER", f"{n} / {len(made)}") for n, s in enumerate(made, 1)]
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{html.escape(name)}: slides</title>\n'
        f'<link rel="icon" href="data:,"><link rel="stylesheet" href="{site}katex/katex.min.css">\n'
        f'<link rel="stylesheet" href="{site}slides.css"></head>\n<body>\n'
        + "\n".join(made)
        + f'\n<script src="{site}katex/katex.min.js"></script>\n<script src="{site}slides.js"></script>\n</body>\n</html>\n'
    )


def build(page, out):
    """The deck of a lesson's page of a built site, written into a folder; its file."""
    site = page.parent.parent
    (notebook,) = (site / "notebooks/lessons").glob(f"*_{page.stem}.ipynb")
    out.mkdir(parents=True, exist_ok=True)
    there = [Path(os.path.relpath(path, out)).as_posix() for path in (page, site / "site")]
    file = out / f"{page.stem}.html"
    file.write_text(deck(notebook, there[0], there[1] + "/"), encoding="utf-8")
    return file


def print_decks(files, tab):
    """A PDF next to each deck, one slide on a page."""
    for file in files:
        tab.set_viewport_size({"width": 1280, "height": 720})
        tab.goto(file.resolve().as_uri())
        tab.wait_for_function("document.documentElement.dataset.ready")
        tab.pdf(path=file.with_suffix(".pdf"), prefer_css_page_size=True, print_background=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "site", type=Path, help="a folder that tools/site/build_site.py has written"
    )
    parser.add_argument("--out", type=Path, help="SITE/slides, if it is not said")
    parser.add_argument("--pdf", action="store_true", help="print each deck as well")
    asked = parser.parse_args()
    pages, out = lessons(asked.site), asked.out or asked.site / "slides"
    if not pages:
        sys.exit(f"No slides were made: {asked.site} has no lessons. Build the site first.")
    if asked.pdf and not measure_pages.chromium():
        sys.exit(
            "No slides were made: --pdf needs Chromium or Chrome. Without it, print from any browser."
        )
    try:
        files = [build(page, out) for page in pages]
    except SiteError as error:
        sys.exit(f"No slides were made. {error}")
    if asked.pdf:
        with measure_pages.browser() as browser:
            print_decks(files, browser.new_page())
    print(f"{len(files)} decks in {out}")


if __name__ == "__main__":
    main()
