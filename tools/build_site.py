"""Build the site: every notebook named in _quarto.yml becomes a page, without Quarto and without the network.

    python tools/build_site.py [--out DIR]

Each notebook goes through nbdev's own processing and is written out as Markdown; pandoc turns that into HTML. What is left to do here:
theorem boxes, navigation, links from function names to their documentation, a search index, and checks. Whatever would be wrong on
the site (a broken link, malformed TeX, a forgotten chapter) stops the build with one sentence that names the notebook.
Page addresses and the ids of headings are those Quarto would give. Nothing is written before everything has been checked.
"""

import argparse
import base64
import configparser
import contextlib
import html
import importlib
import inspect
import json
import posixpath
import re
import runpy
import shutil
import subprocess
import sys
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from urllib.parse import unquote

import pypandoc
import yaml
from bs4 import BeautifulSoup, NavigableString, Tag
from execnb.nbio import read_nb
from nbdev.config import get_config
from nbdev.processors import FilterDefaults, add_links
from nbdev.showdoc import BasicMarkdownRenderer

ROOT = Path(__file__).resolve().parent.parent
PARTS = Path(__file__).resolve().parent / "site"  # template, style, script, KaTeX
MARKER = ".built-by-build_site"  # lies in every folder we made: no other folder is ever replaced
HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
KINDS = dict(
    thm="Theorem",
    lem="Lemma",
    cor="Corollary",
    prp="Proposition",
    cnj="Conjecture",
    exm="Example",
    rem="Remark",
)
KINDS["def"] = "Definition"
RICHEST_FIRST = [
    "text/html",
    "text/markdown",
    "image/svg+xml",
    "image/png",
    "text/latex",
    "text/plain",
]
DIALECT = "markdown+lists_without_preceding_blankline+autolink_bare_uris-raw_tex"


class SiteError(Exception):
    """Something is wrong with the book. The message is one sentence for its author."""


@dataclass
class Page:
    notebook: str  # as _quarto.yml names it, relative to nbs/: "11_mechanisms.ipynb"
    section: str = ""  # the part of the sidebar it stands in
    title: str = ""
    description: str = ""
    body: BeautifulSoup | None = None
    files: dict = field(default_factory=dict)  # address -> bytes: the figures
    ids: Counter = field(default_factory=Counter)

    @property
    def address(self):
        folder, name = posixpath.split(self.notebook)
        return posixpath.join(
            folder, re.sub(r"^\d+[a-z0-9]*_", "", name.lower()).replace(".ipynb", ".html")
        )

    @property
    def root(self):
        return "../" * self.notebook.count("/")

    def resolve(self, path):
        """The address, from the top of the site, of a path written on this page."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.address), path))

    def error(self, text):
        return SiteError(f"{self.notebook}: {text}")


# ---- From a notebook to HTML ----------------------------------------------------------------------------------------


class Processing(FilterDefaults):
    def base_procs(self):  # nbdev's links lead to doc_host; ours (link_names) stay on the site
        return [proc for proc in super().base_procs() if proc is not add_links]


class Documentation(BasicMarkdownRenderer):
    """show_doc with the true signature and the whole docstring: nbdev's own omits the `*` before keywords, and `Raises`."""

    def _repr_markdown_(self):
        head = super()._repr_markdown_().partition("```")[0]
        text = re.sub(
            r"^(\w[\w ]*)\n-{3,}$", r"**\1**\n", inspect.getdoc(self.sym) or "", flags=re.M
        )
        # "name : type" and, indented below it, what it means
        text = re.sub(r"^(\S.*)\n {4,}(?=\S)", r"- `\1`: ", text, flags=re.M)
        text = re.sub(r"^(?!- `)(\w[\w, ]* : .+)$", r"- `\1`", text, flags=re.M)
        text = re.sub(
            r"^>>> .*(\n.+)*", lambda example: fenced(example[0], "{.python}"), text, flags=re.M
        )
        signature = fenced(f"{self.nm}{_without_types(self.sig)}", "{.python .signature}")
        return f"{head}{signature}\n{text}"


def _without_types(signature):
    """A signature as people read it: the kinds of arguments stand below, in words."""
    if not isinstance(signature, inspect.Signature):
        return signature or ""
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)


def reference(module, chapter):
    """The page of a module's public names in the order of the alphabet: what each takes, gives and raises."""
    page = Page(f"reference/{module.__name__.partition('.')[2]}.ipynb", "Reference")
    page.title, page.description = module.__name__, (module.__doc__ or "").strip()
    public = sorted(getattr(module, "__all__", []), key=str.lower)
    lines, entries = ["| name | what it is |", "|---|---|"], []
    for name in public:
        symbol = getattr(module, name)
        # constants, and rules bound to their limits, have no page
        if not (callable(symbol) and hasattr(symbol, "__name__")):
            continue
        first = (inspect.getdoc(symbol) or "").partition("\n")[0].replace("|", r"\|")
        lines.append(f"| [`{name}`](#{name.lower()}) | {first} |")
        entries.append(Documentation(symbol, title_level=2)._repr_markdown_())
        methods = inspect.getmembers(symbol, inspect.isfunction) if inspect.isclass(symbol) else []
        for method, function in methods:  # our own, inherited ones too
            ours = function.__module__.partition(".")[0] == module.__name__.partition(".")[0]
            if method[0] != "_" and function.__doc__ and ours:
                shown = Documentation(function, name=f"{name}.{method}", title_level=3)
                entries.append(shown._repr_markdown_())
    head = (
        f"# {page.title} {{#title-block-header .title}}\n\n::: description\n{page.description}\n:::"
    )
    where = f"What these names are for, and why they are right: [{chapter.title}](../{chapter.notebook})."
    page.body = pandoc(page, "\n\n".join([head, where, "\n".join(lines), *entries]))
    return page


def fenced(text, attributes):
    ticks = "`" * max([3, *(len(run) + 1 for run in re.findall("`{3,}", text))])
    return f"\n{ticks}{attributes}\n{text}\n{ticks}\n"


def output_markdown(page, output, options):
    if output["output_type"] == "stream":
        return fenced("".join(output["text"]).rstrip("\n"), "{.output}")
    if output["output_type"] == "error":
        return fenced(re.sub(r"\x1b\[[\d;]*m", "", "\n".join(output["traceback"])), "{.output}")
    kind = next((kind for kind in RICHEST_FIRST if kind in output["data"]), None)
    if kind is None:
        raise page.error(f"the site cannot show an output of type {', '.join(output['data'])}.")
    data = "".join(output["data"][kind])
    if kind == "image/png":
        figure = f"figures/{Path(page.address).stem}-{len(page.files) + 1}.png"
        page.files[page.resolve(figure)] = base64.b64decode(data)
        caption, label = options.get("fig-cap", ""), str(options.get("label", ""))
        alt = html.escape(options.get("fig-alt") or caption or "Figure drawn by the code above")
        return f'\n![{caption}]({figure}){{{"#" + label if label.startswith("fig-") else ""} alt="{alt}"}}\n'
    if kind in ("text/html", "image/svg+xml"):
        return fenced(data, "{=html}")
    return fenced(data, "{.output}") if kind == "text/plain" else f"\n{data}\n"


def cell_markdown(page, cell):
    if cell.cell_type == "markdown":
        return cell.source.replace(
            r"\tag{", r"{}\tag{"
        )  # pandoc 3.9 refuses a \tag that follows a letter or a digit
    if cell.cell_type != "code" or not cell.source:
        return ""
    lines = re.match(r"(?:#\|.*\n?)*", cell.source)[0]  # Quarto's cell options: #| key: value
    options, code = (
        yaml.safe_load(lines.replace("#|", "")) or {},
        cell.source[len(lines) :].strip("\n"),
    )
    language = cell.metadata.get("language", "python")
    shown = fenced(code, f"{{.{language}}}") if code and options.get("echo", True) else ""
    if shown and "code-fold" in options:
        unfolded, summary = (
            "" if options["code-fold"] is True else "open",
            options.get("code-summary", "Code"),
        )
        shown = f"<details {unfolded} class='code-fold'><summary>{summary}</summary>\n{shown}\n</details>"
    outputs = "".join(output_markdown(page, output, options) for output in cell.get("outputs", []))
    return shown + (
        f"\n::: cell-output\n{outputs}\n:::\n" if outputs and options.get("output", True) else ""
    )


def pandoc(page, markdown):
    """HTML by pandoc. Formulas are written as MathML, which checks the TeX; the TeX itself stays inside, for KaTeX."""
    command = [
        pypandoc.get_pandoc_path(),
        f"--from={DIALECT}",
        "--to=html",
        "--mathml",
        "--wrap=none",
    ]
    command += ["--columns=9999", "--fail-if-warnings"]
    try:
        done = subprocess.run(
            command, input=markdown, capture_output=True, encoding="utf-8", timeout=60
        )
    except subprocess.TimeoutExpired:
        raise page.error("pandoc did not finish within a minute.") from None
    if done.returncode:
        complaint = done.stderr.replace("[WARNING] ", "").replace(
            "Failing because there were warnings.", ""
        )
        raise page.error("pandoc says: " + " ".join(complaint.split()))
    return BeautifulSoup(done.stdout, "html.parser")


def read_page(page, nbs):
    notebook = read_nb(nbs / page.notebook)
    if re.search(r"^(?!# |> |- |\s*$)", notebook.cells[0].source, flags=re.M):
        raise page.error(
            "the first cell may hold only '# Title' and '> description'; nbdev drops anything else in it."
        )
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "error", message="Found cells containing imports"
        )  # they would be run whole
        try:
            Processing()(
                notebook
            )  # runs imports and exported cells: show_doc needs the functions themselves
        except Exception as error:
            raise page.error(str(error)) from error
    front = notebook.frontmatter_
    if "title" not in front:
        raise page.error("the first cell has no title; begin it with '# Title'.")
    head = f"# {front['title']} {{#title-block-header .title}}\n\n"
    head += f"::: description\n{front.get('description', '')}\n:::"
    page.body = pandoc(
        page, "\n\n".join([head, *(cell_markdown(page, cell) for cell in notebook.cells)])
    )
    page.title, page.description = (
        text_of(page.body.h1),
        text_of(page.body.find(class_="description")),
    )


def text_of(tag, without=("pre", "annotation")):
    """The words a reader sees, without code blocks and without the TeX hidden in formulas."""
    strings = (
        s for s in tag.descendants if type(s) is NavigableString and not s.find_parent(without)
    )
    return " ".join("".join(strings).split())


# ---- What Quarto would make of it -----------------------------------------------------------------------------------


NUMBERED = re.compile(
    r"(Theorem|Lemma|Proposition|Corollary|Definition|Observation|Problem|Claim)[^;]*\d[^;]*"
)


def number_theorems(page):
    """<div id="thm-x"> with a heading becomes "Theorem 1 (heading)". Numbers run per kind and per page.

    A heading that has a number already, as in "Lemma 17; what it says", keeps that one.
    """
    counts, new = Counter(), page.body.new_tag
    for box in page.body.find_all("div", id=True):
        kind = KINDS.get(box["id"].partition("-")[0])
        if kind is None:
            continue
        heading = box.find(HEADINGS)
        title = new("strong")
        if heading and NUMBERED.match(text_of(heading)):
            title.extend(list(heading.contents))
            first = title.contents[0]
            own, semicolon, rest = str(first).partition("; ")
            if semicolon:
                first.replace_with(f"{own} ({rest}")
                title.append(")")
        else:
            counts[kind] += 1
            title.append(f"{kind} {counts[kind]}")
            if heading:
                title.extend([" (", *list(heading.contents), ")"])
        if heading:
            heading.decompose()
        if box.find(True) is None or box.find(True).name != "p":
            box.insert(0, new("p"))
        label = new("span", attrs={"class": "theorem-title"})
        label.append(title)
        box.p.insert(0, label, " ")
        box["class"] = ["theorem", kind.lower()]


def frame(page, has_source):
    """Captions, callouts and proofs; a table gets a box to scroll in; [source] links go if there is no public source."""
    new = page.body.new_tag
    for number, caption in enumerate(page.body.select("figure[id] > figcaption"), 1):
        caption.insert(0, f"Figure {number}: ")
    for box in page.body.select("div[class^=callout-]"):
        kind, title = box["class"][0], box.find(True)
        if title is None or title.name not in HEADINGS:
            title = new("p", string=kind.removeprefix("callout-").capitalize())
        title.name, title.attrs = "p", {"class": "callout-title"}
        box.insert(0, title.extract())
        box["class"] = ["callout", kind]
    for summary in page.body.select("details > summary"):
        if text_of(summary).startswith("Proof"):
            summary.parent["class"] = "proof"
    for table in page.body.find_all("table"):
        table.wrap(new("div", attrs={"class": "table-scroll", "tabindex": "0"}))
    for link in [] if has_source else page.body.find_all("a", target="_blank", string="source"):
        link.decompose()


def read_modules(modidx):
    """What nbdev exported: module -> name -> (address of its documentation, file)."""
    return runpy.run_path(str(modidx))["d"]["syms"] if modidx.exists() else {}


def documentation(modules, pages):
    """Where each exported name is documented: both noisy_sum and mechanisms.noisy_sum -> mechanisms.html#noisy_sum."""
    there = {f"{page.address}#{tag['id']}" for page in pages for tag in page.body.find_all(id=True)}
    places = {}
    for module, names in modules.items():
        for name, (target, _) in names.items():
            while target not in there and "." in target.partition("#")[2]:
                target = target.rpartition(".")[0]  # a method is documented with its class
            short = name.removeprefix(f"{module}.")
            for spelling in (
                (short, f"{module.rpartition('.')[2]}.{short}", name) if target in there else ()
            ):
                places.setdefault(spelling, target)
    return places


def link_names(page, places):
    for code in page.body.find_all("code"):
        target = places.get(code.get_text().removesuffix("()"))
        if target and not code.find_parent(["a", "pre", *HEADINGS]):
            code.wrap(page.body.new_tag("a", href=page.root + target))


def link_pages(page, pages):
    """Links between notebooks, right in Jupyter, become links between pages."""
    for link in page.body.find_all("a", href=re.compile(r"^[^:#]*\.ipynb")):
        path, hash_, anchor = link["href"].partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page.notebook), path))
        if target not in pages:
            raise page.error(
                f"links to {target}, which is not on the site; correct the link or add it to _quarto.yml."
            )
        link["href"] = page.root + pages[target].address + hash_ + anchor


# ---- The checks -----------------------------------------------------------------------------------------------------


def check(page, by_address, nbs):
    """Every link leads somewhere, ids are unique, nothing is loaded from the network, no TeX stands outside formulas."""
    for name, times in page.ids.items():
        if times > 1:
            raise page.error(
                f"the id '{name}' is used {times} times; an id may stand only once on a page."
            )
    for label in page.body.select("span.citation"):
        raise page.error(
            f"'{text_of(label)}' is not a label the site knows; write a link, as in [text](#thm-name)."
        )
    for stray in re.findall(r"\\[a-zA-Z]+", text_of(page.body, without=("pre", "code", "math"))):
        raise page.error(
            f"'{stray}' stands outside a formula; is a dollar sign missing, or followed by a space?"
        )
    for tag in page.body.select("[src], link[href]"):
        source = tag.get("src") or tag["href"]
        if source.startswith("data:"):  # the picture itself
            continue
        if "//" in source:
            raise page.error(f"loads {source}, but the site must work without the network.")
        local = page.resolve(source)
        if local not in page.files:
            if local.startswith("..") or not (nbs / local).is_file():
                raise page.error(f"shows {source}, but there is no such file in {nbs.name}/.")
            page.files[local] = (nbs / local).read_bytes()
    for link in page.body.find_all("a", href=re.compile("^(?!https?:|mailto:)")):
        path, _, anchor = unquote(link["href"]).partition("#")
        target = page.resolve(path) if path else page.address
        if target not in by_address:
            raise page.error(f"links to {path}, which is not on the site.")
        if anchor and anchor not in by_address[target].ids:
            raise page.error(
                f"links to {target}#{anchor}, but nothing on that page has the id '{anchor}'."
            )


# ---- Around the text: navigation and search -------------------------------------------------------------------------


def outline(entries, section=""):
    """The pages of a _quarto.yml sidebar, in reading order."""
    for entry in entries:
        if isinstance(entry, dict) and "contents" in entry:
            yield from outline(entry["contents"], entry["section"])
        else:
            yield Page(entry if isinstance(entry, str) else entry["href"], section)


def link_to(page, other, text, extra=""):
    here = ' aria-current="page"' if other is page else ""
    return f'<a href="{page.root}{other.address}"{extra}{here}>{html.escape(text)}</a>'


def navbar(page, pages, items):
    for item in items:
        if item["href"] not in pages:
            raise SiteError(
                f"{item['href']}: the navbar in _quarto.yml links to this notebook, the sidebar does not."
            )
    return "\n".join(link_to(page, pages[item["href"]], item["text"]) for item in items)


def sidebar(page, ordered):
    lines = []
    for before, other in zip([None, *ordered], ordered, strict=False):
        if before and other.section != before.section:
            lines.append(f'<li class="section">{html.escape(other.section)}</li>')
        lines.append(f"<li>{link_to(page, other, other.title)}</li>")
    return "\n".join(lines)


def contents(page):
    headings = page.body.select("h2[id], h3[id]")
    lines = (
        f'<li class="{h.name}"><a href="#{h["id"]}">{html.escape(text_of(h))}</a></li>'
        for h in headings
    )
    return "\n".join(lines)


def search_entries(page):
    """One entry for each heading and theorem: [address, page, heading, text]."""
    entries = [[page.address, page.title, "", []]]
    for node in page.body.descendants:
        if type(node) is NavigableString and not node.find_parent(
            ["pre", "annotation", "summary", *HEADINGS]
        ):
            entries[-1][-1].append(node)
        elif isinstance(node, Tag) and (
            node.name in HEADINGS[1:] or "theorem" in node.get("class", [])
        ):
            heading = node if node.name in HEADINGS else node.find(class_="theorem-title")
            entries.append(
                [f"{page.address}#{node.get('id', '')}", page.title, text_of(heading), []]
            )
    return [
        [*entry, " ".join("".join(text).split()).removeprefix(entry[2]).strip()]
        for *entry, text in entries
    ]


# ---- The whole ------------------------------------------------------------------------------------------------------


def build(root=ROOT, out="_site"):
    """Build the site of the nbdev project in folder `root` into folder `out`; return its pages."""
    root, out = Path(root).resolve(), Path(out).resolve()
    config = yaml.safe_load((root / "_quarto.yml").read_text(encoding="utf-8"))
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(root / "settings.ini", encoding="utf-8")
    settings, website = settings["DEFAULT"], config["website"]
    nbs = root / settings["nbs_path"]

    pages = {page.notebook: page for page in outline(website["sidebar"]["contents"])}
    for name in pages:
        if not (nbs / name).is_file():
            raise SiteError(
                f"{name}: _quarto.yml lists this notebook, but it is not in {nbs.name}/."
            )
    for path in sorted(path.relative_to(nbs) for path in nbs.rglob("*.ipynb")):
        if path.as_posix() not in pages and not any(part[0] in "._" for part in path.parts):
            raise SiteError(
                f"{path.as_posix()}: this notebook is not in the sidebar; add it to _quarto.yml."
            )
    if "index.ipynb" not in pages:
        raise SiteError(
            "index.ipynb: the sidebar in _quarto.yml does not list it, so the site has no front page."
        )

    ordered = list(pages.values())
    with contextlib.chdir(root):  # nbdev looks for settings.ini from the current folder upwards
        get_config().d["renderer"] = f"{__name__}.Documentation"  # what show_doc draws with
        for page in ordered:
            read_page(page, nbs)
        chapters = {page.address: page for page in ordered}
        modules = read_modules(root / settings["lib_path"] / "_modidx.py")
        ordered += [
            reference(importlib.import_module(module), chapters[address])
            for module, names in modules.items()
            if (address := next((at.partition("#")[0] for at, _ in names.values()), None))
        ]
    for page in ordered:
        number_theorems(page)
        frame(page, has_source="git_url" in settings)
        page.ids = Counter(tag["id"] for tag in page.body.find_all(id=True))
    places = documentation(modules, ordered)
    for page in ordered:
        link_names(page, places)
        link_pages(page, pages)
        check(page, {page.address: page for page in ordered}, nbs)

    files = {
        f"site/{path.relative_to(PARTS).as_posix()}": path.read_bytes()
        for path in PARTS.rglob("*.*")
    }
    files["site/styles.css"] = (nbs / config["format"]["html"]["css"]).read_bytes()
    index = [entry for page in ordered for entry in search_entries(page)]
    files["site/search-index.js"] = (
        f"const searchIndex = {json.dumps(index, ensure_ascii=False)};".encode()
    )
    template = Template(files.pop("site/page.html").decode())
    for page, before, after in zip(ordered, [None, *ordered], [*ordered[1:], None], strict=False):
        files |= page.files
        files[page.address] = template.substitute(
            root=page.root,
            site=html.escape(website["title"]),
            title=html.escape(page.title),
            description=html.escape(page.description or website.get("description", "")),
            navbar=navbar(page, pages, website["navbar"]["left"]),
            sidebar=sidebar(page, ordered),
            contents=contents(page),
            body=page.body,
            before=link_to(page, before, f"← {before.title}", ' rel="prev"') if before else "",
            after=link_to(page, after, f"{after.title} →", ' rel="next"') if after else "",
        ).encode()
    write(files, out)
    return ordered


def write(files, out):
    """Make the folder `out`, in place of an earlier one of ours, and write the files into it."""
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not (out / MARKER).exists()):
        raise SiteError(
            f"{out} was not made by this builder, so it stays as it is; choose another folder with --out."
        )
    if out.exists():
        shutil.rmtree(out)
    for name, content in {MARKER: b"", **files}.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(content)


def main():
    parser = argparse.ArgumentParser(
        description="Build the site from the notebooks, without Quarto."
    )
    parser.add_argument("--out", default="_site", help="folder to write (default: _site)")
    out = Path(parser.parse_args().out)
    try:
        pages = build(out=out)
    except SiteError as error:
        sys.exit(f"No site was built. {error}")
    print(f"{len(pages)} pages in {out}, no broken links. Open {out / 'index.html'}")


if __name__ == "__main__":
    # as a module of its own name: the shell that runs a notebook's cells takes the name __main__ for itself
    from build_site import main

    main()
