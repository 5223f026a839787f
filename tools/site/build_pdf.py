"""The lessons as one PDF, from the pages of a built site.

    python tools/site/build_pdf.py SITE [--handouts] [--out lessons.pdf]

--handouts prints a page of each lesson: its algorithm in numbered lines, its theorems, and what to remember.

pandoc turns the pages into typst, and typst's compiler sets them. Folds stay closed, so imports, code that only
draws, and hints are left out; of an interactive figure, the sentence under it is printed; links lead out to the web only.
"""

import argparse
import base64
import re
import subprocess
import sys
import tempfile
from itertools import takewhile
from pathlib import Path

import pypandoc
import typst
from bs4 import BeautifulSoup
from site_pages import LARGER

BLOCKS = {"p", "ul", "ol", "table", "figure", "pre", "blockquote", "h2", "h3", "div"}
LEFT_OUT = "script, style, details, button, nav, [hidden]"
HEAD = """
#set page(paper: "a4", margin: 20mm, numbering: "1")
#set text(size: 9.5pt)
#set par(justify: true)
#set figure(numbering: none)
#show figure.caption: it => text(size: 9pt, it.body)
#show raw.where(block: true): it => block(fill: luma(245), inset: 6pt, radius: 2pt, width: 100%, text(size: 8pt, it))
#show table: set text(size: 9pt)
#let boxed(body) = block(stroke: (left: 2pt + rgb("#2f7fc1")), inset: (left: 8pt, y: 4pt), width: 100%, breakable: false, body)
"""
NEW_PAGE = """
#show heading.where(level: 1, outlined: true): it => { pagebreak(weak: true); it }
"""
FITTED = """
// the first of these sizes of type with which all of it fits into the space, else the last
#let fitted(sizes, body) = layout(space => {
  for size in sizes {
    let sized = { set text(size: size); body }
    if measure(block(width: space.width, sized)).height <= space.height or size == sizes.last() { return sized }
  }
})
"""
ONE_PAGE = """
#let handout(body) = page(fitted((11pt, 10.5pt, 10pt, 9.5pt, 9pt, 8.5pt, 8pt), body))
"""
BOXES = """
function Div(box)
  if box.classes:includes("theorem") then
    return {pandoc.RawBlock("typst", "#boxed["), box, pandoc.RawBlock("typst", "]")}
  elseif box.classes:includes("handout") then
    return {pandoc.RawBlock("typst", "#handout["), box, pandoc.RawBlock("typst", "]")}
  end
end
"""


def lessons(site):
    """Their pages, in the order of their notebooks' numbers."""
    notebooks = sorted((site / "notebooks" / "lessons").glob("*.ipynb"))
    return [site / "lessons" / f"{path.stem.partition('_')[2]}.html" for path in notebooks]


def _paired(formula):
    """TeX whose bars stand in pairs: pandoc takes others for operators, and sets space around them."""
    formula = re.sub(r"\\[bB]ig+[lr]?(?=\\?\|)", "", formula)
    formula = re.sub(
        r"\\[lr]([vV])ert\b ?", lambda found: {"v": "|", "V": r"\|"}[found[1]], formula
    )
    return re.sub(r"(?<!left)(?<!right)(\\?\|)(.+?)(?<!right)\1", r"\\left\1\2\\right\1", formula)


def printable(page, folder):
    """What of a lesson's page goes on paper, as HTML with its formulas as TeX; pictures in it are written into the folder."""
    body = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").main
    for tag in body.select(LEFT_OUT):
        tag.decompose()
    for formula in body.find_all("math"):
        left, right = (r"\[", r"\]") if formula["display"] == "block" else (r"\(", r"\)")
        formula.replace_with(f"{left}{_paired(formula.annotation.string)}{right}")
    for link in body.find_all("a"):
        if not link.get("href", "").startswith("http"):
            link.unwrap()
    for picture in body.find_all("img"):
        file = page.parent / picture["src"]
        if picture["src"].startswith("data:"):
            file = folder / f"{page.stem}-{len(list(folder.iterdir()))}.png"
            file.write_bytes(base64.b64decode(picture["src"].partition(",")[2]))
        picture["src"] = str(file.resolve())
        width = int(picture.get("width", 480 * LARGER)) / LARGER  # as it was drawn
        picture["width"] = f"{width * 0.75:.3g}pt"
    for tag in body.find_all(["div", "section", "article", "header"]):
        if "theorem" not in tag.get("class", ()):  # else a page could not break inside it
            tag.unwrap()
    for tag in body.find_all(id=True):  # two lessons may use the same
        del tag["id"]
    return body.decode_contents()


def handout(html):
    """Of a printable lesson its title, sentence, algorithm, theorems and what to remember, as HTML."""
    body = BeautifulSoup(html, "html.parser")
    # the sentence below the title, with what is bold in it: all up to the next block
    sentence = takewhile(lambda part: part.name not in BLOCKS, body.h1.next_siblings)
    kept = [body.h1, f"<p><em>{''.join(map(str, sentence)).strip()}</em></p>"]
    given = [p for p in body.find_all("p") if p.get_text().startswith("Given")]
    for tag in given[:1]:  # First steps has no algorithm
        kept.append("<h2>The algorithm</h2>")
        part = [tag, *tag.find_next_siblings()]
        end = next(i for i, other in enumerate(part) if other.name in ("h2", "h3"))
        last = max(i for i, other in enumerate(part[:end]) if other.name == "ol")
        kept += part[: last + 1]  # between them is what else is given, or a second algorithm
    boxes = body.select("div.theorem")
    kept += [f"<h2>{'The theorem' if len(boxes) == 1 else 'Theorems'}</h2>", *boxes]
    remember = next(h for h in body.find_all("h2") if h.get_text().endswith("to remember"))
    kept += ["<h2>What to remember</h2>", remember.find_next_sibling("ol")]
    return f'<div class="handout">{"".join(map(str, kept))}</div>'


def typeset(html, out, head, *options):
    """A PDF of this HTML; `head` says in typst how it looks, `options` are pandoc's."""
    with tempfile.TemporaryDirectory() as folder:
        boxes, book = Path(folder) / "boxes.lua", Path(folder) / "book.typ"
        boxes.write_text(BOXES)
        command = [pypandoc.get_pandoc_path(), "--fail-if-warnings", f"--lua-filter={boxes}"]
        command += ["--from=html+tex_math_single_backslash", "--to=typst", *options]
        made = subprocess.run(
            command, input=html, encoding="utf-8", check=True, stdout=subprocess.PIPE
        )
        book.write_text(head + made.stdout, encoding="utf-8")
        typst.compile(str(book), output=str(out), root="/")


def build(pages, out):
    """One PDF of these pages, in this order."""
    with tempfile.TemporaryDirectory() as folder:
        text = "\n".join(printable(page, Path(folder)) for page in pages)
        head = Path(folder) / "head.typ"
        head.write_text(HEAD + NEW_PAGE)
        options = "--standalone", "--toc", "--toc-depth=1", f"--include-in-header={head}"
        typeset(text, out, "", *options, "--metadata=title:dplit: the lessons")


def build_handouts(pages, out):
    """One PDF, with one page of each of these."""
    with tempfile.TemporaryDirectory() as folder:
        text = "\n".join(handout(printable(page, Path(folder))) for page in pages)
        typeset(text, out, HEAD + FITTED + ONE_PAGE)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "site", type=Path, help="a folder that tools/site/build_site.py has written"
    )
    parser.add_argument("--handouts", action="store_true", help="a page of each lesson")
    parser.add_argument("--out", type=Path, help="lessons.pdf, or handouts.pdf")
    asked = parser.parse_args()
    out = asked.out or Path("handouts.pdf" if asked.handouts else "lessons.pdf")
    pages = lessons(asked.site)
    if not pages:
        sys.exit(f"No PDF was made: {asked.site} has no lessons. Build the site first.")
    (build_handouts if asked.handouts else build)(pages, out)
    print(f"{len(pages)} lessons in {out}")


if __name__ == "__main__":
    main()
