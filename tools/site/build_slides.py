"""A deck of slides for each lesson, one PDF each, from the pages of a built site.

    python tools/site/build_slides.py SITE [--out slides]

On slides goes what a class looks at together: the question, figures (of something to play with, each picture), tables, boxes,
the algorithm, short code, sentences in bold, questions to predict, what to remember, and easy exercises. What
explains them is for the teacher to say; it stays on the page of the lesson. Answers are not on slides.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

from bs4 import BeautifulSoup
from build_pdf import FITTED, lessons, printable, question, typeset
from PIL import Image

PROGRAM, CHECK = 24, 6  # lines of a program, of a check: longer ones are read in the notebook
TOTAL = "total: "  # so the last line of a receipt begins
QUIET = ("What you need to know", "Where to go next")  # sections that are for readers
HEAD = """
#set page(width: 25.4cm, height: 14.29cm, margin: (x: 1.4cm, top: 1.1cm, bottom: 1.2cm), numbering: "1")
#set text(font: ("DejaVu Sans", "Libertinus Serif"), size: 18pt)
#set figure(numbering: none)
#set table(column-gutter: 0.4em, stroke: (x, y) => (bottom: 0.4pt + gray), inset: (x: 0.4em, y: 0.35em))
// as large as its rows fit on lines; where sentences would make it tiny, words are parted instead of running into each other
#show table: it => layout(space => {
  let fit = calc.min(1, space.width / measure(it).width)
  set text(size: calc.max(0.65, fit) * 1em, hyphenate: true)
  it
})
#show raw.where(block: true): it => block(fill: luma(245), inset: 8pt, radius: 3pt, width: 100%, it)
#show figure.where(kind: image): it => grid(
  columns: (62%, 1fr), gutter: 1em, align: horizon,
  align(center, it.body), align(left, text(size: 0.8em, it.caption.body)))
#let horizontalrule = line(length: 100%)
#let boxed(body) = block(stroke: (left: 3pt + rgb("#2f7fc1")), inset: (left: 12pt, y: 6pt), width: 100%, body)
#let slide(title, body) = {
  pagebreak(weak: true)
  block(height: 1.1cm, text(size: 20pt, weight: "bold", fill: rgb("#2f7fc1"), title))
  block(height: 1fr, width: 100%, fitted((22pt, 20pt, 18pt, 16pt, 14pt, 12pt, 11pt, 10pt, 9pt, 8pt), body))
}
"""
# a heading opens a slide, and what follows is on it
PARTS = """
function Pandoc(doc)
  local out, open = pandoc.List(), false
  for _, block in ipairs(doc.blocks) do
    if block.t == "Header" then
      if open then out:insert(pandoc.RawBlock("typst", "]")) end
      out:insert(pandoc.RawBlock("typst", "#slide["))
      out:insert(pandoc.Plain(block.content))
      out:insert(pandoc.RawBlock("typst", "]["))
      open = true
    else
      out:insert(block)
    end
  end
  out:insert(pandoc.RawBlock("typst", "]"))
  return pandoc.Pandoc(out, doc.meta)
end
"""
WIDE, HIGH = 390, 265  # points that a picture may take


def stressed(paragraph):
    """A question to the class, the sentences in bold, what a receipt adds up to, as HTML; None if the paragraph only explains."""
    if paragraph.get_text().startswith((TOTAL, "Check yourself")):
        return str(paragraph)
    bold = [b for b in paragraph.find_all("strong") if len(b.get_text().split()) > 3]
    kept = [b.decode_contents() for b in bold]
    # of a question to predict, what leads up to it is for the teacher to say
    if opening := question(paragraph):
        kept.append("".join(map(str, (opening, *opening.next_siblings))))
    return "".join(f"<p>{text}</p>" for text in kept) or None


def easy(tag):
    """The exercises of one star that are a sentence or two, with the numbers by which plans call them."""
    if tag.name != "ol":
        return None
    return "".join(
        f'<ol start="{number}">{li}</ol>'
        for number, li in enumerate(tag.find_all("li", recursive=False), 1)
        if li.text.strip().startswith("★")
        and "★★" not in li.text
        and not re.search("Find the leak|Spot the privacy bug", li.text)
    )


def enlarged(figure):
    """A figure, its pictures as large as a slide has room for."""
    for picture in figure.find_all("img"):
        width, height = Image.open(picture["src"]).size
        del picture["height"]
        picture["width"] = f"{width * min(WIDE / width, HIGH / height):.1f}pt"
    return str(figure)


def shown(tag, section):
    """What of a block goes on a slide, as HTML, or None."""
    if section in QUIET:
        return None
    if section == "Exercises":
        return easy(tag)
    if tag.name == "p":
        return stressed(tag)
    if tag.name == "figure":
        return enlarged(tag)
    if tag.name == "pre" and "sourceCode" in tag.get("class", ()):
        lines = len(tag.get_text().splitlines())
        most = PROGRAM if "program" in section.lower() else CHECK
        return (
            str(tag) if 1 < lines <= most else None
        )  # one line is a call; its output is looked at
    return str(tag) if tag.name in ("pre", "table", "ol", "ul", "div") else None


SHORT = ("p", "pre")  # what follows one another of these shares a slide, if it is short


def slides(html):
    """[title, content] of each slide, both HTML, from a printable lesson."""
    body = BeautifulSoup(html, "html.parser")
    section = body.h1.get_text()
    sentence, begins = str(body.h1.next_sibling).strip(), body.find("p")
    found, last = [[section, f"<p><em>{sentence}</em></p>{begins}"]], "h1"
    for tag in body.find_all(recursive=False):
        if tag.name in ("h1", "h2"):
            section, last = tag.get_text(), tag.name
        elif content := shown(tag, section):
            long = content.count("\n") > CHECK
            total = tag.get_text().startswith(TOTAL)  # stands under its receipt
            if total or tag.name in SHORT and last in SHORT and not long:
                found[-1][1] += content
            else:
                found.append([section, content])
            # an answer does not share the slide of its question
            last = "question" if question(tag) else "long" if long else tag.name
    return found


def build(page, out):
    """The deck of one lesson; returns the number of its slides."""
    with tempfile.TemporaryDirectory() as folder:
        parts = Path(folder) / "parts.lua"
        parts.write_text(PARTS)
        found = slides(printable(page, Path(folder), apart=True))
        text = "\n".join(f"<h2>{title}</h2>\n{content}" for title, content in found)
        options = f"--lua-filter={parts}", "--syntax-highlighting=none"
        typeset(text, out, FITTED + HEAD, *options)
    return len(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "site", type=Path, help="a folder that tools/site/build_site.py has written"
    )
    parser.add_argument("--out", type=Path, default=Path("slides"))
    asked = parser.parse_args()
    pages = lessons(asked.site)
    if not pages:
        sys.exit(f"No slides were made: {asked.site} has no lessons. Build the site first.")
    asked.out.mkdir(parents=True, exist_ok=True)
    for page in pages:
        deck = asked.out / f"{page.stem}.pdf"
        print(f"{build(page, deck)} slides in {deck}")


if __name__ == "__main__":
    main()
