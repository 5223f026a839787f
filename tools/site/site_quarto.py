"""What Quarto gets: notebooks from which it makes the book that build_site makes. `ForQuarto` is a processor for nbdev, named in settings.ini.

Left alone, Quarto gives a caption to what a cell shows first, be it a table, and numbers a theorem that has a paper's number
already; nbdev links names to public addresses, inside links too.
"""

import json
import posixpath
import re
import runpy
import sys
from pathlib import Path

import yaml
from execnb.nbio import mk_cell
from nbdev.config import get_config
from nbdev.process import Processor

sys.path.insert(0, str(Path(__file__).parent))  # nbdev_docs runs elsewhere

import site_code
import site_frame
from site_pages import in_words

# ---- Links -----------------------------------------------------------------------------------------------------------


def documentation(modules):
    """Where Quarto's book documents each exported name: on the page of its notebook, a method with its class."""
    places = {}
    for module, names in modules.items():
        for name, (target, _) in names.items():
            short = name.removeprefix(f"{module}.")
            if short[0] != "_":
                page, _, anchor = target.partition("#")
                for spelling in (short, f"{module.rpartition('.')[2]}.{short}", name):
                    places.setdefault(spelling, f"{page}#{anchor.partition('.')[0]}")
    return places


CODE = re.compile(
    r"(?P<kept>^ *(?P<fence>`{3,}|~{3,})[^\n]*\n.*?^ *(?P=fence)|^\#[^\n]*|\[(?:[^\[\]]|\[[^\[\]]*\])*\]\([^)]*\)|"
    r"<(?P<tag>a|pre|summary)\b.*?</(?P=tag)>|(?P<ticks>``+).*?(?P=ticks))|`(?P<name>[\w.]+)(?:\(\))?`",
    flags=re.M | re.S,
)


def link_names(text, places, page):
    """Markdown in which the names that are code lead to their documentation, except in links, headings and blocks of code."""

    def linked(found):
        target = places.get(found["name"])
        if target is None:
            return found[0]
        return f"[{found[0]}]({posixpath.relpath(target, posixpath.dirname(page) or '.')})"

    return CODE.sub(linked, text)


# ---- Theorems --------------------------------------------------------------------------------------------------------

BOX = re.compile(r'^<div id="((\w+)-[^"]*)">\s*^#+ +(.*)$', flags=re.M)


def raw(html):
    """HTML that Quarto does not look into."""
    return f"\n```{{=html}}\n{html}\n```\n"


def keep_numbers(text):
    """Markdown in which boxes that have a number of their own are theorems that Quarto does not number again."""
    while box := next((b for b in BOX.finditer(text) if _own(b)), None):
        depth, end = 1, box.end()
        while depth:
            tag = re.compile(r"</?div\b[^>]*>").search(text, end)
            depth, end = depth + (-1 if tag[0][1] == "/" else 1), tag.end()
        name, semicolon, rest = box[3].partition("; ")
        title = f"{name} ({rest})" if semicolon else name
        kind = site_frame.KINDS[box[2]].lower()
        text = (
            text[: box.start()]
            + raw(f'<div id="{box[1]}" class="theorem {kind}">')
            + f"\n[**{title}**]{{.theorem-title}}\n\n{text[box.end() : tag.start()].strip()}\n"
            + raw("</div>")
            + text[end:]
        )
    return text


def _own(box):
    return box[2] in site_frame.KINDS and site_frame.NUMBERED.match(box[3])


# ---- Cells -----------------------------------------------------------------------------------------------------------


def fold(cell):
    """Docstrings cut, and what is long folded, by Quarto's own options."""
    lines, source = site_code.split(cell.source)
    own = dict(re.findall(r"^#\|\s*([\w-]+):\s*(.*)$", lines, flags=re.M))
    if own.get("echo") == "false":
        return
    draws = any("image/png" in output.get("data", {}) for output in cell.get("outputs", []))
    by_author = own.get("code-summary", "").strip("\"'") not in ("", "Exported source")
    code = site_code.show(source, cell.directives_, {}, draws)
    options = [f"#| {name}: {value}" for name, value in own.items()]
    if not by_author:
        options = [line for line in options if not line.startswith("#| code-")]
        if code.folded:
            label = code.folded.replace("`", "").replace('"', "'")
            options += ["#| code-fold: true", f'#| code-summary: "{label}"']
    cell.source = "\n".join([*options, code.text])


def rest(cell):
    """A cell for what this one shows next to its picture: Quarto's caption is for all that a cell shows. None if there is nothing."""
    outputs = cell.get("outputs", [])
    if all(map(in_words, outputs)) or not any(map(in_words, outputs)):
        return None
    other = mk_cell("#| echo: false\npass")
    other.directives_ = {}
    other.outputs = [output for output in outputs if in_words(output)]
    cell.outputs = [output for output in outputs if not in_words(output)]
    return other


def embed(cell):
    """HTML that a cell shows becomes a part of the page, with its caption, and loads nothing."""
    for output in cell.get("outputs", []):
        if shown := "".join(output.get("data", {}).get("text/html", "")):
            lines, source = site_code.split(cell.source)
            options = yaml.safe_load(lines.replace("#|", "")) or {}
            if caption := options.pop("fig-cap", ""):
                label = options.pop("label", "")
                head = f'<figure id="{label}">' if label else "<figure>"
                foot = raw("<figcaption>") + caption + raw("</figcaption>\n</figure>")
                output["data"] = {"text/markdown": [raw(head) + raw(shown) + foot]}
            else:
                output["data"] = {"text/markdown": [raw(shown)]}
            written = [f"#| {name}: {json.dumps(value)}\n" for name, value in options.items()]
            cell.source = "".join([*written, source])


class ForQuarto(Processor):
    """The last that nbdev_docs does to a notebook before Quarto gets it."""

    def begin(self):
        config = get_config()
        index = config.lib_path / "_modidx.py"
        self.has_source = bool(config.git_url)
        self.places = documentation(runpy.run_path(str(index))["d"]["syms"])
        path = Path(self.nb.path_).resolve()
        self.page = path.relative_to(Path(config.nbs_path).resolve()).as_posix()

    def words(self, text):
        if not self.has_source:
            text = re.sub(r'\[source\]\([^)]*\)\{target="_blank"[^}]*\}', "", text)
        return keep_numbers(link_names(text, self.places, self.page))

    def cell(self, cell):
        if cell.cell_type == "markdown":
            cell.source = self.words(cell.source)
        for output in cell.get("outputs", []):
            if text := "".join(output.get("data", {}).get("text/markdown", "")):
                output["data"]["text/markdown"] = self.words(text).splitlines(keepends=True)
        if cell.cell_type == "code" and cell.source:
            fold(cell)

    def end(self):
        """A picture is looked at before what is printed with it."""
        cells = []
        for cell in self.nb.cells:
            cells += [cell, other] if (other := rest(cell)) else [cell]
        for cell in cells:
            if getattr(cell, "source", None):
                embed(cell)
        self.nb.cells = cells
