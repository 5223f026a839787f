"""Build the site: every notebook named in _quarto.yml becomes a page, without Quarto and without the network.

    python tools/site/build_site.py [--out DIR] [--only NOTEBOOK ...]

Each notebook goes through nbdev's own processing and is written out as Markdown; pandoc turns that into HTML (site_pages). Code is
cut and folded (site_code); theorem boxes, numbers and links are added (site_frame), then contents, search, previews and the page
of notation (site_lists). The lessons are written as one file of Markdown too (site_text). All that would be wrong on the site (a broken link,
malformed TeX, a forgotten chapter) stops the build with one sentence that names the notebook. Page addresses and the ids of headings
are those Quarto would give. Nothing is written before everything has been checked.
"""

import argparse
import configparser
import contextlib
import importlib
import json
import re
import runpy
import shutil
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import jinja2
import lesson_times
import site_frame
import site_lists
import site_text
import site_uses
import yaml
from site_pages import SiteError, read_page, reference, reference_name, text_of

ROOT = Path(__file__).resolve().parents[2]
PARTS = Path(__file__).resolve().parent  # template, style, script, KaTeX, MiniSearch
MARKER = ".built-by-build_site"  # lies in every folder we made: no other folder is ever replaced
LICENCES = {"apache2": "Apache License 2.0", "mit": "MIT License", "bsd3": "BSD 3-Clause License"}
WAYS = {"edit_url": "Edit this page"}


# ---- The checks -----------------------------------------------------------------------------------------------------


def check(page, by_address):
    """Every link leads somewhere, ids are unique, no TeX is outside formulas."""
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
            f"'{stray}' is outside a formula; is a dollar sign missing, or followed by a space?"
        )
    for link in page.body.find_all("a", href=re.compile("^(?!https?:|mailto:)")):
        path, _, anchor = unquote(link["href"]).partition("#")
        target = page.resolve(path) if path else page.address
        if target not in by_address:
            raise page.error(f"links to {path}, which is not on the site.")
        if anchor and anchor not in by_address[target].ids:
            raise page.error(
                f"links to {target}#{anchor}, but nothing on that page has the id '{anchor}'."
            )


def check_that_links_lead_to(ordered, by_address):
    """Every page is in the sidebar, or some page that can be reached from there links to it."""
    known = {page.address for page in ordered if not page.up}
    ahead = [*known]
    while ahead:
        page = by_address[ahead.pop()]
        hrefs = (
            link["href"]
            for link in page.body.find_all("a", href=re.compile("^(?!https?:|mailto:|#)"))
        )
        found = {page.resolve(unquote(href).partition("#")[0]) for href in hrefs} - known
        known |= found
        ahead += found
    for page in ordered:
        if page.address not in known:
            raise page.error(
                "this page is not in the sidebar, and no link leads to it; add it to _quarto.yml, or link to it."
            )


def gather(page, nbs):
    """What a page shows that lies beside the notebooks; nothing is loaded from the network."""
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


def launchers(settings):
    """[(name, address)] of the services that run a notebook in a browser: the lines of the one setting `launch`."""
    found = [line.split(maxsplit=1) for line in settings.get("launch", "").strip().splitlines()]
    for words in found:
        if len(words) != 2 or not re.match("https?://", words[1]) or "{path}" not in words[1]:
            raise SiteError(
                f"settings.ini: a line of 'launch' is a name and an address with {{path}} in it, not '{' '.join(words)}'."
            )
    return found


# ---- The whole ------------------------------------------------------------------------------------------------------


def read_modules(modidx):
    """What nbdev exported: module -> name -> (address of its documentation, file)."""
    return runpy.run_path(str(modidx))["d"]["syms"] if modidx.exists() else {}


def listed(nbs, website):
    """All pages, by notebook: those of the sidebar, each of which must exist, then all others."""
    pages = {page.notebook: page for page in site_lists.outline(website["sidebar"]["contents"])}
    for name in pages:
        if not (nbs / name).is_file():
            raise SiteError(
                f"{name}: _quarto.yml lists this notebook, but it is not in {nbs.name}/."
            )
    if "index.ipynb" not in pages:
        raise SiteError(
            "index.ipynb: the sidebar in _quarto.yml does not list it, so the site has no front page."
        )
    return pages | {page.notebook: page for page in site_lists.elsewhere(nbs, pages)}


def read_all(root, nbs, pages, modules, only):
    """Every page with its text: chapters, then the page of notation, then the reference."""
    homes = {  # address of a chapter -> the module it exports
        at.partition("#")[0]: module
        for module, names in modules.items()
        for at, _ in names.values()
    }
    ordered = list(pages.values())
    with contextlib.chdir(root):  # nbdev looks for settings.ini from the current folder upwards
        for page in ordered:
            if only and page.notebook not in only:
                first = json.loads((nbs / page.notebook).read_text(encoding="utf-8"))["cells"][0]
                page.title = "".join(first["source"]).partition("\n")[0].removeprefix("# ")
                page.body = site_lists.BeautifulSoup("<h1></h1>", "html.parser")
                continue
            module = homes.get(page.address)
            where = reference_name(module).replace(".ipynb", ".html") if module else ""
            read_page(page, nbs, where)
        chapters = {page.address: page for page in ordered}
        uses = site_uses.Uses(nbs, ordered)
        described = [
            reference(importlib.import_module(module), chapters[address], uses)
            for address, module in sorted(homes.items(), key=lambda home: site_uses.rank(home[1]))
            if not only or chapters[address].notebook in only
        ]
    return ordered, described


def finish(ordered, described, modules, has_source):
    """Numbers, boxes and links of all pages; the page of symbols, made of the finished ones, and a list of the modules."""
    for page in [*ordered, *described]:
        site_frame.number_theorems(page)
        site_frame.frame(page, has_source)
    made = site_lists.notation(ordered)
    in_sidebar = [page for page in ordered if not page.up]
    in_sidebar += [made] if made.body.select("li, table") else []  # the last page of the reference
    site_lists.list_modules(in_sidebar, described)
    ordered = [*in_sidebar, *(page for page in ordered if page.up), *described]
    for page in ordered:
        page.ids = Counter(tag["id"] for tag in page.body.find_all(id=True))
    places = site_frame.documentation(modules, ordered)
    sources = site_frame.sources(
        next((p for p in ordered if p.address == "about/sources.html"), None)
    )
    for page in ordered:
        site_frame.link_names(page, places)
        if page.address != "about/sources.html":
            site_frame.link_sources(page, sources)
    return ordered


def build(root=ROOT, out="_site", only=()):
    """Build the site of the nbdev project in folder `root` into folder `out`; return its pages.

    With `only`, just the pages of these notebooks, for a preview: links to other pages are not checked.
    """
    root, out = Path(root).resolve(), Path(out).resolve()
    config = yaml.safe_load((root / "_quarto.yml").read_text(encoding="utf-8"))
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(root / "settings.ini", encoding="utf-8")
    settings, website = settings["DEFAULT"], config["website"]
    nbs = root / settings["nbs_path"]

    pages = listed(nbs, website)
    modules = read_modules(root / settings["lib_path"] / "_modidx.py")
    ordered, described = read_all(root, nbs, pages, modules, only)
    ordered = finish(ordered, described, modules, bool(settings.get("git_url")))
    by_address = {page.address: page for page in ordered}
    for page in ordered:
        site_frame.link_pages(page, pages)
        gather(page, nbs)
        if not only:
            check(page, by_address)
    if not only:
        check_that_links_lead_to(ordered, by_address)

    files = shared_files(root, nbs / config["format"]["html"]["css"])
    files |= site_lists.preview_files(ordered)
    index = [entry for page in ordered for entry in site_lists.search_entries(page)]
    files["site/search-index.js"] = (
        f"const searchIndex = {json.dumps(index, ensure_ascii=False)};".encode()
    )
    for page in ordered:  # not before: the search is for what is taught
        timed = page.notebook.startswith("lessons/") and not (only and page.notebook not in only)
        time = lesson_times.card(nbs / page.notebook) if timed else None
        ways = [] if page.made else launchers(settings)
        site_frame.card(
            page, time, [(n, a.replace("{path}", f"{nbs.name}/{page.notebook}")) for n, a in ways]
        )
    files |= render(ordered, pages, nbs, settings, website, only)
    if not only:
        files["llms.txt"] = site_text.listing(website, ordered).encode()
        files["llms-full.txt"] = site_text.lessons(nbs, ordered).encode()
    write(files, out)
    return ordered


def shared_files(root, style):
    """What all pages load, and the licences of what is in it."""
    files = {}
    for path in PARTS.rglob("*"):
        if path.is_file() and path.name != "page.html":
            name = path.relative_to(PARTS).as_posix()
            files[f"site/{name}{'' if path.suffix else '.txt'}"] = path.read_bytes()
    files["site/styles.css"] = style.read_bytes()
    if (root / "LICENSE").is_file():
        files["site/LICENSE.txt"] = (root / "LICENSE").read_bytes()
    return files


def render(ordered, pages, nbs, settings, website, only):
    """The pages as they are read, their pictures and their notebooks: {address: bytes}."""
    environment = jinja2.Environment(autoescape=True, loader=jinja2.FileSystemLoader(PARTS))
    template, files = environment.get_template("page.html"), {}
    cite = "about/sources.html#how-to-cite-dplit"
    way = [page for page in ordered if not page.up]
    before = dict(zip([page.address for page in way[1:]], way, strict=False))
    after = dict(zip([page.address for page in way], way[1:], strict=False))
    by_notebook = {page.notebook: page for page in ordered}
    for page in ordered:
        if only and page.notebook not in only and not page.made:
            continue
        files |= page.files
        if not page.made:
            files[f"notebooks/{page.notebook}"] = (nbs / page.notebook).read_bytes()
        path = f"{nbs.name}/{page.notebook}"
        files[page.address] = template.render(
            page=page,
            body=jinja2.filters.Markup(str(page.body)),
            before=before.get(page.address),
            after=after.get(page.address),
            up=by_notebook.get(page.up),
            site=website["title"],
            description=website.get("description", ""),
            navbar=site_lists.navbar(pages, website["navbar"]["left"]),
            parts=site_lists.parts(ordered),
            contents=site_lists.contents(page),
            nbs=nbs.name,
            ways=[
                (text, settings[key].replace("{path}", path))
                for key, text in WAYS.items()
                if key in settings
            ],
            version=settings.get("version", ""),
            licence=LICENCES.get(settings.get("license"), ""),
            citation=cite if any(p.address == "about/sources.html" for p in ordered) else "",
        ).encode()
    return files


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
    parser.add_argument(
        "--only", nargs="+", default=(), help="pages of these notebooks alone, links unchecked"
    )
    asked = parser.parse_args()
    out = Path(asked.out)
    try:
        pages = build(out=out, only=asked.only)
    except SiteError as error:
        sys.exit(f"No site was built. {error}")
    print(f"{len(pages)} pages in {out}, no broken links. Open {out / 'index.html'}")


if __name__ == "__main__":
    main()
