"""From a notebook, or a module, to the HTML of a page: nbdev reads, pandoc writes."""

import base64
import functools
import html
import inspect
import itertools
import posixpath
import re
import subprocess
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_origin

import pypandoc
import site_code
import yaml
from bs4 import BeautifulSoup, NavigableString, Tag
from execnb.nbio import read_nb
from nbdev import processors
from nbdev.process import NBProcessor
from nbdev.showdoc import BasicMarkdownRenderer

HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
RICHEST_FIRST = [
    "text/html",
    "text/markdown",
    "image/svg+xml",
    "image/png",
    "text/latex",
    "text/plain",
]
PICTURES = {"image/png": ".png", "image/svg+xml": ".svg"}
LARGER = 1.27  # than a figure is drawn: its letters are then as large as those of the text
DIALECT = "markdown+lists_without_preceding_blankline+autolink_bare_uris-raw_tex"


class SiteError(Exception):
    """Something is wrong with the book. The message is one sentence for its author."""


@dataclass
class Page:
    notebook: str  # as _quarto.yml names it, relative to nbs/: "mechanisms/noise.ipynb"
    section: str = ""  # the part of the sidebar that it belongs to
    group: str = ""  # within that part
    short: str = ""  # what the sidebar calls it, if not by its title
    up: str = ""  # the notebook that leads to it, if it is not in the sidebar itself
    title: str = ""
    description: str = ""
    body: BeautifulSoup | None = None
    files: dict = field(default_factory=dict)  # address -> bytes: the figures
    ids: Counter = field(default_factory=Counter)
    made: bool = False  # by the builder: there is no notebook

    @property
    def address(self):
        folder, name = posixpath.split(self.notebook)
        return posixpath.join(
            folder, re.sub(r"^\d+[a-z0-9]*_", "", name.lower()).replace(".ipynb", ".html")
        )

    @property
    def label(self):
        lesson = re.match(r"(?:lessons/)?(\d+)_", self.notebook)  # prose speaks of lesson 20
        return f"{lesson[1] if lesson else ''} {self.short or self.title}".strip()

    @property
    def documents(self):
        """Whether this is the reference page of a module."""
        return self.made and self.address.startswith("reference/")

    @property
    def root(self):
        return "../" * self.notebook.count("/")

    def resolve(self, path):
        """The address, from the top of the site, of a path written on this page."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.address), path))

    def error(self, text):
        return SiteError(f"{self.notebook}: {text}")


def walk(tag, without):
    """Everything inside a tag in the order of reading; tags of the names `without` come, what is inside them does not."""
    for child in tag.children:
        yield child
        if isinstance(child, Tag) and child.name not in without:
            yield from walk(child, without)


def text_of(tag, without=("pre", "annotation")):
    """The words a reader sees, without code blocks and without the TeX hidden in formulas."""
    return " ".join("".join(s for s in walk(tag, without) if type(s) is NavigableString).split())


def fenced(text, attributes):
    ticks = "`" * max([3, *(len(run) + 1 for run in re.findall("`{3,}", text))])
    return f"\n{ticks}{attributes}\n{text}\n{ticks}\n"


@functools.cache
def converter():
    """A pandoc that turns page after page into HTML; it ends with the program that asks it."""
    command = [pypandoc.get_pandoc_path(), "lua", Path(__file__).parent / "pages.lua"]
    return subprocess.Popen([*command, DIALECT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def pandoc(page, markdown):
    """HTML by pandoc. Formulas are written as MathML, which checks the TeX; the TeX itself stays inside, for KaTeX."""
    text, asked = markdown.encode(), converter()
    late = threading.Timer(60, asked.kill)
    late.start()
    asked.stdin.write(b"%d\n%s" % (len(text), text))
    asked.stdin.flush()
    sizes = [int(size) for size in asked.stdout.readline().split()]
    complaint, html = (asked.stdout.read(size).decode() for size in sizes or (0, 0))
    late.cancel()
    if not sizes:
        converter.cache_clear()
        raise page.error("pandoc gave no answer within a minute.")
    if complaint:
        raise page.error("pandoc says: " + " ".join(complaint.split()))
    # a link and an id for every line of code are many kilobytes without use
    lines = re.sub(r'<a href="#cb\d+-\d+"[^>]*></a>| id="cb\d+(-\d+)?"', "", html)
    return BeautifulSoup(lines, "html.parser")


# ---- A notebook ------------------------------------------------------------------------------------------------------


# what nbdev does to a notebook, without documentation in the chapter: that is on its reference page
PROCESSORS = [
    processors.FrontmatterProc,
    processors.populate_language,
    processors.strip_ansi,
    processors.hide_line,
    processors.filter_stream_,
    processors.rm_header_dash,
    processors.ai_magics,
    processors.clean_magics,
    processors.hide_,
]


def output_markdown(page, output, options):
    if output["output_type"] == "stream":
        return fenced("".join(output["text"]).rstrip("\n"), "{.output}")
    if output["output_type"] == "error":
        return fenced(re.sub(r"\x1b\[[\d;]*m", "", "\n".join(output["traceback"])), "{.output}")
    kind = next((kind for kind in RICHEST_FIRST if kind in output["data"]), None)
    if kind is None:
        raise page.error(f"the site cannot show an output of type {', '.join(output['data'])}.")
    data = "".join(output["data"][kind])
    said = {**output.get("metadata", {}), **output.get("metadata", {}).get(kind, {}), **options}
    caption, label = said.get("fig-cap") or said.get("caption", ""), str(said.get("label", ""))
    if kind in PICTURES:
        figure = f"figures/{Path(page.address).stem}-{len(page.files) + 1}{PICTURES[kind]}"
        page.files[page.resolve(figure)] = (
            base64.b64decode(data) if kind == "image/png" else data.encode()
        )
        alt = said.get("fig-alt") or said.get("alt") or re.sub(r"[*_`$]", "", caption)
        if not alt:
            raise page.error("a figure says nothing to those who cannot see it: add '#| fig-alt:'.")
        alt = html.escape(alt)
        mark = f"#{label}" if label.startswith("fig-") else ""
        # its pixels are finer than the screen's
        wide = f'width="{said["width"] * LARGER:.0f}"' if "width" in said else ""
        return f'\n![{caption}]({figure}){{{mark} {wide} alt="{alt}"}}\n'
    if kind == "text/html" and caption:  # something to play with
        return f"\n<figure>\n{fenced(data, '{=html}')}\n<figcaption>{caption}</figcaption>\n</figure>\n"
    if kind == "text/html":
        return fenced(data, "{=html}")
    return fenced(data, "{.output}") if kind == "text/plain" else f"\n{data}\n"


def joined(outputs):
    """What was printed line by line is one output."""
    for printed, run in itertools.groupby(outputs, lambda o: o["output_type"] == "stream"):
        if printed:
            yield {"output_type": "stream", "text": [text for o in run for text in o["text"]]}
        else:
            yield from run


def summary(words):
    """The label of a fold: `names` as code, everything else as it is."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(words, quote=False))


def about(page, name, reference):
    """Under a definition: the whole documentation, one click away. The script fills the fold; without it the link is there."""
    there = f"{page.root}{reference}#{name.lower()}"
    return (
        f'<details class="full" data-of="{reference}#{name.lower()}"><summary>What <code>{name}</code> takes, gives and '
        f'raises</summary><p><a href="{there}">{name} in the reference</a></p></details>'
    )


def code_markdown(page, cell, code, language, reference):
    """The code of a cell: shown or folded, and for what it exports an anchor and the way to its documentation."""
    shown = fenced(code.text, f"{{.{language}}}")
    if code.folded:
        shown = f'<details class="code-fold"><summary>{summary(code.folded)}</summary>\n{shown}\n</details>'
    if not (code.public and reference):
        return f"\n{shown}\n"
    marks = "".join(f'<span id="{name.lower()}"></span>' for name in code.public[1:])
    text = "\n".join(about(page, name, reference) for name in code.public)
    return (
        f'\n<div class="defines" id="{code.public[0].lower()}">{marks}\n{shown}\n{text}\n</div>\n'
    )


def in_words(output):
    """Whether an output is anything but a picture."""
    return PICTURES.keys().isdisjoint(output.get("data", {}))


def cell_markdown(page, cell, reference=""):
    """Markdown of a cell, in pieces; imports begin with "\\0", for they are to stand where code begins."""
    if cell.cell_type == "markdown":
        # pandoc 3.9 refuses a \tag that follows a letter or a digit
        return [cell.source.replace(r"\tag{", r"{}\tag{")]
    if cell.cell_type != "code" or not cell.source or "default_exp" in cell.directives_:
        return []
    lines, source = site_code.split(cell.source)
    options, source = yaml.safe_load(lines.replace("#|", "")) or {}, source.strip("\n")
    outputs = cell.get("outputs", [])
    draws = not all(map(in_words, outputs))
    code = site_code.show(source, cell.directives_, options, draws)
    hidden = {"export", "exporti"}.intersection(cell.directives_) and not code.public
    shown = ""
    if source and options.get("echo", True) and not hidden:
        shown = code_markdown(page, cell, code, cell.metadata.get("language", "python"), reference)
    # a picture is looked at before what is printed with it
    seen = sorted(joined(outputs), key=in_words)
    written = "".join(output_markdown(page, output, options) for output in seen)
    below = written and options.get("output", True)
    below = f"\n::: cell-output\n{written}\n:::\n" if below else ""
    if code.imports and shown and not below and "code-fold" not in options:
        return ["\0" + shown]
    return [below, shown] if code.after else [shown, below]


def in_order(pieces):
    """Imports are put off until code is first seen: a page begins with its question, a figure comes before its code."""
    waiting = []
    for piece in pieces:
        if piece.startswith("\0"):
            waiting.append(piece[1:])
            continue
        if waiting and re.search(r'^```+\{\.python|class="code-fold"', piece, flags=re.M):
            yield from waiting
            waiting = []
        yield piece


def titled(title, description):
    """How every page begins."""
    return f"# {title} {{#title-block-header .title}}\n\n::: description\n{description}\n:::"


def read_page(page, nbs, reference=""):
    """Fill the page from its notebook; `reference` is the address of the page that documents what it exports."""
    notebook = read_nb(nbs / page.notebook)
    if re.search(r"^(?!# |> |- |\s*$)", notebook.cells[0].source, flags=re.M):
        raise page.error(
            "the first cell may hold only '# Title' and '> description'; nbdev drops anything else in it."
        )
    NBProcessor(nb=notebook, procs=PROCESSORS).process()
    front = notebook.frontmatter_
    if "title" not in front:
        raise page.error("the first cell has no title; begin it with '# Title'.")
    head = titled(front["title"], front.get("description", ""))
    pieces = [piece for cell in notebook.cells for piece in cell_markdown(page, cell, reference)]
    page.body = pandoc(page, "\n\n".join([head, *in_order(pieces)]))
    sections = {tag["id"] for tag in page.body.find_all(HEADINGS, id=True)}
    for mark in page.body.select(".defines, .defines > span"):
        if mark.get("id") in sections:  # where a section has the name of a function, it keeps it
            del mark["id"]
    page.title, page.description = (
        text_of(page.body.h1),
        text_of(page.body.find(class_="description")),
    )


# ---- A module --------------------------------------------------------------------------------------------------------


class Documentation(BasicMarkdownRenderer):
    """show_doc with the true signature and the whole docstring: nbdev's own omits the `*` before keywords, and `Raises`."""

    def _repr_markdown_(self):
        head = super()._repr_markdown_().partition("```")[0]
        text = re.sub(
            r"^(\w[\w ]*)\n-{3,}$", r"**\1**\n", inspect.getdoc(self.sym) or "", flags=re.M
        )
        # "name : type" and, indented below it, what it means
        text = re.sub(r"^(\S.*)\n {4,}(?=\S)", _item, text, flags=re.M)
        text = re.sub(r"^(?!- `)(\w[\w, ]* : .+)$", lambda m: f"- {_typed(m[1])}", text, flags=re.M)
        text = re.sub(
            r"^>>> .*(\n.+)*", lambda example: fenced(example[0], "{.python}"), text, flags=re.M
        )
        signature = fenced(f"{self.nm}{_without_types(self.sig)}", "{.python .signature}")
        return f"{head}{signature}\n{text}"


def _typed(words):
    """The name and type of a parameter as code; a type that holds code of its own keeps it."""
    name, colon, kind = words.partition(" : ")
    return f"`{name}` : {kind}" if "`" in kind else f"`{words}`"


def _item(found):
    return f"- {_typed(found[1])}: "


def _without_types(signature):
    """A signature as people read it: the kinds of arguments stand below, in words."""
    if not isinstance(signature, inspect.Signature):
        return signature or ""
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)


def reference(module, chapter, uses):
    """The page of a module's public names, estimators first: what each takes, gives and raises, and where the book uses it."""
    page = Page(reference_name(module.__name__), "Reference", up=chapter.notebook, made=True)
    page.title, page.description = module.__name__, (module.__doc__ or "").strip()
    public = uses.in_order(module)
    lines, entries = ["| name | what it is |", "|---|---|"], []
    for name in public:
        symbol = getattr(module, name)
        # constants, annotations, and rules bound to their limits, have no page
        if not (callable(symbol) and hasattr(symbol, "__name__")) or get_origin(symbol):
            continue
        first = (inspect.getdoc(symbol) or "").partition("\n")[0].replace("|", r"\|")
        lines.append(f"| [`{name}`](#{name.lower()}) | {first} |")
        entry = Documentation(symbol, name=name, title_level=2)._repr_markdown_()
        entries.append(uses.below_the_summary(entry, name, module.__name__, chapter))
        # those of the class itself too, such as PrivacyBudget.open
        methods = inspect.getmembers(symbol, inspect.isroutine) if inspect.isclass(symbol) else []
        methods = [m for m in methods if inspect.isfunction(m[1]) or inspect.ismethod(m[1])]
        for method, function in methods:  # our own, inherited ones too
            ours = function.__module__.partition(".")[0] == module.__name__.partition(".")[0]
            if method[0] != "_" and function.__doc__ and ours:
                shown = Documentation(function, name=f"{name}.{method}", title_level=3)
                entries.append(shown._repr_markdown_())
    head = titled(page.title, page.description)
    where = f"What these names are for, and why they are right: [{chapter.title}](../{chapter.notebook})."
    page.body = pandoc(page, "\n\n".join([head, where, "\n".join(lines), *entries]))
    return page


def reference_name(module):
    return f"reference/{module.partition('.')[2]}.ipynb"
