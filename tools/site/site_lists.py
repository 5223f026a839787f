"""What is collected from all pages: contents, search, previews, and the page of notation."""

import json
import posixpath
import re
from copy import copy

from bs4 import BeautifulSoup, NavigableString, Tag
from site_pages import HEADINGS, Page, SiteError, text_of, walk

REFERENCE = "Reference"


def outline(entries, section="", group=""):
    """The pages of a _quarto.yml sidebar, in reading order."""
    for entry in entries:
        if isinstance(entry, dict) and "contents" in entry:
            within = (section, entry["section"]) if section else (entry["section"], "")
            yield from outline(entry["contents"], *within)
        elif isinstance(entry, dict):
            yield Page(entry["href"], section, group, entry.get("text", ""))
        else:
            yield Page(entry, section, group)


def elsewhere(nbs, pages):
    """The notebooks that are not in the sidebar: answers belong to their chapters, all others to the reference."""
    for path in sorted(nbs.rglob("*.ipynb")):
        name = path.relative_to(nbs).as_posix()
        if name in pages or any(part[0] in "._" for part in name.split("/")):
            continue
        chapter = pages.get(name.removeprefix("answers/"))
        yield Page(
            name,
            chapter.section if chapter else REFERENCE,
            up=chapter.notebook if chapter else "about/reference.ipynb",
        )


def navbar(pages, items):
    """[(page, anchor, text)] of the bar above all pages."""
    found = []
    for item in items:
        name, _, anchor = item["href"].partition("#")
        if name not in pages or pages[name].up:
            raise SiteError(
                f"{name}: the navbar in _quarto.yml links to this notebook, the sidebar does not."
            )
        found.append((pages[name], f"#{anchor}" if anchor else "", item["text"]))
    return found


def parts(ordered):
    """The sidebar: [(name of the part, [(name of the group, its pages)])], without the pages that are not in it."""
    found = {}
    for page in ordered:
        if not page.up:
            groups = found.setdefault(page.section, [])
            if not groups or groups[-1][0] != page.group:
                groups.append((page.group, []))
            groups[-1][1].append(page)
    return [*found.items()]


def contents(page):
    """[(level, id, words)] of the headings of a page."""
    return [(h.name, h["id"], text_of(h)) for h in page.body.select("h2[id], h3[id]")]


# ---- Search ----------------------------------------------------------------------------------------------------------


def search_entries(page):
    """One entry for each heading, theorem and word of a glossary: what it is (page, section, a theorem's kind, function,
    name of a room's face, term), address, chapter, title and text."""
    kind = "function" if page.documents else "section"
    entries = [["page", page.address, page.label, page.title, []]]
    for node in walk(page.body, ("pre", "annotation", "summary", *HEADINGS)):
        if type(node) is NavigableString:
            if not (page.documents and node.find_parent(class_="places")):  # links to other pages
                entries[-1][-1].append(node)
        elif not isinstance(node, Tag) or not node.get("id"):
            continue
        elif "theorem" in node.get("class", []):
            title = text_of(node.find(class_="theorem-title"))
            entries.append(
                [node["class"][-1], f"{page.address}#{node['id']}", page.label, title, []]
            )
        elif node.name in HEADINGS[1:]:
            entries.append([kind, f"{page.address}#{node['id']}", page.label, bare(node), []])
            places = page.documents and node.find_next("div", class_="places")
            if (
                node.name == "h2"
                and places
                and not text_of(places).startswith(f"from {page.title} ")
            ):
                entries[-1][0] = "name"  # a face offers it
    for table in page.body.select("table"):  # of a glossary: one for each word
        glossary = table.th and text_of(table.th) == "our word"
        for row in table.find_all("tr")[1:] if glossary else ():
            term, *text = map(text_of, row.find_all("td"))
            section = f"{page.address}#{row.find_previous(HEADINGS[1:])['id']}"
            entries.append(["term", section, page.label, term, [" ".join(text)]])
    return [
        [*entry, " ".join("".join(text).split()).removeprefix(entry[3]).strip()]
        for *entry, text in entries
    ]


def bare(heading):
    """The words of a heading without its number."""
    number = heading.find(class_="number")
    return text_of(heading).removeprefix(text_of(number) if number else "").strip()


# ---- Previews --------------------------------------------------------------------------------------------------------


def until_next(heading):
    """The content under a heading of a reference page."""
    found = []
    for sibling in heading.next_siblings:
        if getattr(sibling, "name", None) in ("h2", "h3"):
            break
        found.append(sibling)
    return found


def previews(ordered):
    """What is shown when a link is hovered or focused: {address of a page: {id: HTML}}.

    Of theorems and definitions the box, of functions in a chapter the signature and the summary; the reference pages'
    entries, whole, fill the folds below definitions.
    """
    found = {page.address: {} for page in ordered}
    signatures = {}
    for page in ordered:
        for box in page.body.select("div.theorem[id]"):
            found[page.address][box["id"]] = "".join(map(str, box.contents))
        for heading in page.body.select("h2[id], h3[id]") if page.documents else ():
            inside = [part for part in until_next(heading) if isinstance(part, Tag)]
            found[page.address][heading["id"]] = "".join(map(str, inside))
            signatures[f"{page.address}#{heading['id']}"] = "".join(map(str, inside[:2]))
    for page in ordered:
        for fold in page.body.select("details.full"):
            where = fold["data-of"]
            if where in signatures:
                found[page.address][where.partition("#")[2]] = signatures[where]
    return {address: entries for address, entries in found.items() if entries}


def preview_files(ordered):
    """Scripts, not data, so that they load from file:// too; and the links that have a preview are marked."""
    found = previews(ordered)
    for page in ordered:
        for link in page.body.find_all("a", href=re.compile("#.")):
            path, _, anchor = link["href"].partition("#")
            target = page.resolve(path) if path else page.address
            if anchor in found.get(target, ()):
                link["data-preview"] = f"{target}#{anchor}"
    for address, entries in found.items():
        text = f"previews[{json.dumps(address)}] = {json.dumps(entries, ensure_ascii=False)};"
        yield f"site/previews/{address.replace('.html', '.js')}", text.encode()


# ---- Notation and words ----------------------------------------------------------------------------------------------


def notation(ordered):
    """The page of symbols and words, gathered from the chapters' own tables and definitions."""
    page = Page("notation.ipynb", REFERENCE, title="Symbols and definitions", made=True)
    page.description = (
        "Every table of symbols in the book, and every definition, with the chapter it comes from."
    )
    soup = page.body = BeautifulSoup("", "html.parser")

    def add(parent, name, text="", **attributes):
        parent.append(tag := soup.new_tag(name, string=text or None, attrs=attributes))
        return tag

    add(soup, "h1", page.title, **{"id": "title-block-header", "class": "title"})
    add(soup, "p", page.description, **{"class": "description"})
    add(soup, "h2", "Words", id="words")
    words = add(soup, "ul", **{"class": "words"})
    add(soup, "h2", "Symbols", id="symbols")
    for other in ordered:
        for box in other.body.select("div.definition[id]"):
            title = text_of(box.find(class_="theorem-title"))
            link = add(add(words, "li"), "a", title, href=f"{other.address}#{box['id']}")
            link.insert_after(f", {other.label}")
        for n, table in enumerate(other.body.find_all("table")):
            heads = [text_of(head) for head in table.select("thead th")]
            if heads and heads[0] in ("symbol", "guarantee"):
                heading = add(soup, "h3", id=f"{posixpath.splitext(other.address)[0]}-{n}")
                add(heading, "a", other.label, href=other.address)
                box = add(soup, "div", **{"class": "table-scroll"})
                box.append(same := copy(table))
                for tag in same.find_all(id=True):
                    del tag["id"]
                for link in same.find_all("a", href=re.compile("^(?!https?:|mailto:)")):
                    path, mark, anchor = link["href"].partition("#")
                    link["href"] = (other.resolve(path) if path else other.address) + mark + anchor
    return page


def list_modules(ordered, described):
    """Below the page of the reference, or of the symbols where there is none: the page of each module."""
    pages = {page.address: page for page in ordered}
    page = pages.get("about/reference.html", pages.get("notation.html", ordered[-1]))
    if described:
        soup = page.body
        soup.append(soup.new_tag("h2", string="All modules", attrs={"id": "all-modules"}))
        items = soup.new_tag("ul")
        soup.append(items)
        for module in described:
            item = soup.new_tag("li")
            link = soup.new_tag("a", string=module.title, href=page.root + module.address)
            item.extend([link, f": {module.description}"])
            items.append(item)
