"""The lessons as one PDF, from the pages of a built site.

    python tools/build_pdf.py SITE [--out lessons.pdf]

pandoc turns the pages into typst, and typst's compiler sets them. Folds stay closed, so imports, code that only
draws, and hints are left out; of something to play with, the sentence under it is printed; links lead out to the web only.
"""

import argparse
import base64
import copy
import subprocess
import sys
import tempfile
from pathlib import Path

import pypandoc
import typst
from bs4 import BeautifulSoup

LEFT_OUT = "script, style, details, button, nav, [hidden]"
HEAD = """
#set page(paper: "a4", margin: 20mm, numbering: "1")
#set text(size: 9.5pt)
#set par(justify: true)
#set figure(numbering: none)
#show figure.caption: it => text(size: 9pt, it.body)
#show heading.where(level: 1, outlined: true): it => { pagebreak(weak: true); it }
#show raw.where(block: true): it => block(fill: luma(245), inset: 6pt, radius: 2pt, width: 100%, text(size: 8pt, it))
#show table: set text(size: 9pt)
#let boxed(body) = block(stroke: (left: 2pt + rgb("#2f7fc1")), inset: (left: 8pt, y: 4pt), width: 100%, breakable: false, body)
"""
BOXES = """
function Div(box)
  if box.classes:includes("theorem") then
    return {pandoc.RawBlock("typst", "#boxed["), box, pandoc.RawBlock("typst", "]")}
  end
end
"""


def lessons(site):
    """Their pages, in the order of their notebooks' numbers."""
    notebooks = sorted((site / "notebooks" / "lessons").glob("*.ipynb"))
    return [site / "lessons" / f"{path.stem.partition('_')[2]}.html" for path in notebooks]


def one_by_one(body):
    """Of something to play with, each picture becomes a figure of its own, named by its label."""
    for box in body.select("figure .dplit-frames"):
        figure = box.find_parent("figure")
        for picture in box.find_all("img"):
            del picture["hidden"]
            single = BeautifulSoup("<figure></figure>", "html.parser").figure
            caption = copy.copy(figure.figcaption)
            caption.append(f" Here: {picture['data-label']}.")
            single.extend([picture.extract(), caption])
            figure.insert_before(single)
        figure.decompose()


def printable(page, folder, apart=False):
    """What of a lesson's page goes on paper, as HTML with its formulas as TeX; pictures in it are written into the folder.

    apart: of something to play with, print each picture.
    """
    body = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").main
    if apart:
        one_by_one(body)
    for tag in body.select(LEFT_OUT):
        tag.decompose()
    for formula in body.find_all("math"):
        left, right = (r"\[", r"\]") if formula["display"] == "block" else (r"\(", r"\)")
        formula.replace_with(f"{left}{formula.annotation.string}{right}")
    for link in body.find_all("a"):
        if not link.get("href", "").startswith("http"):
            link.unwrap()
    for picture in body.find_all("img"):
        file = page.parent / picture["src"]
        if picture["src"].startswith("data:"):
            file = folder / f"{page.stem}-{len(list(folder.iterdir()))}.png"
            file.write_bytes(base64.b64decode(picture["src"].partition(",")[2]))
        picture["src"] = str(file.resolve())
        picture["width"] = f"{int(picture.get('width', 480)) * 0.75:g}pt"
    for tag in body.find_all(["div", "section", "article", "header"]):
        if "theorem" not in tag.get("class", ()):  # else a page could not break inside it
            tag.unwrap()
    for tag in body.find_all(id=True):  # two lessons may use the same
        del tag["id"]
    return body.decode_contents()


def build(pages, out):
    """One PDF of these pages, in this order."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        head, boxes, book = (folder / name for name in ("head.typ", "boxes.lua", "book.typ"))
        head.write_text(HEAD)
        boxes.write_text(BOXES)
        command = [pypandoc.get_pandoc_path(), "--standalone", "--toc", "--toc-depth=1"]
        command += ["--from=html+tex_math_single_backslash", "--to=typst", f"--output={book}"]
        command += ["--metadata=title:dplit: the lessons", "--fail-if-warnings"]
        command += [f"--include-in-header={head}", f"--lua-filter={boxes}"]
        text = "\n".join(printable(page, folder) for page in pages)
        subprocess.run(command, input=text, encoding="utf-8", check=True)
        typst.compile(str(book), output=str(out), root="/")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("site", type=Path, help="a folder that tools/build_site.py has written")
    parser.add_argument("--out", type=Path, default=Path("lessons.pdf"))
    asked = parser.parse_args()
    pages = lessons(asked.site)
    if not pages:
        sys.exit(f"No PDF was made: {asked.site} has no lessons. Build the site first.")
    build(pages, asked.out)
    print(f"{len(pages)} lessons in {asked.out}")


if __name__ == "__main__":
    main()
