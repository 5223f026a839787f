"""What a page gets beyond pandoc's HTML: numbers, theorem boxes, figures, tables to scroll in, and links."""

import posixpath
import re
import unicodedata
from collections import Counter, defaultdict

from bs4 import NavigableString
from site_pages import HEADINGS, reference_name, text_of, walk

KINDS = dict(
    thm="Theorem",
    lem="Lemma",
    cor="Corollary",
    prp="Proposition",
    cnj="Conjecture",
    exm="Example",
    rem="Remark",
    eq="Equation",
)
KINDS["def"] = "Definition"
NUMBERED = re.compile(
    r"(Theorem|Lemma|Proposition|Corollary|Definition|Observation|Problem|Claim|Equation)[^;]*\d[^;]*"
)


# ---- Numbers ---------------------------------------------------------------------------------------------------------


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


def number_sections(page):
    """Sections are counted, on every page that is a notebook, except the first: 4, and its second part 4.2.

    A heading may have its number in the notebook too, as in "## 4. The theorem": then it must be this one.
    """
    if page.made or page.notebook == "index.ipynb":
        return
    section = part = 0
    for heading in page.body.find_all(["h2", "h3"]):
        first = next(heading.strings)
        typed = re.match(r"(\d+)\. ", first)
        section, part = (section + 1, 0) if heading.name == "h2" else (section, part + 1)
        if typed and (heading.name != "h2" or int(typed[1]) != section):
            raise page.error(
                f"'{text_of(heading)}' has another number on its page, {section}; correct it, or leave it out."
            )
        first.replace_with(first.removeprefix(typed[0] if typed else ""))
        if section:
            number = f"{section}.{part}" if part else f"{section}"
            label = page.body.new_tag("span", string=number, attrs={"class": "number"})
            heading.insert(0, label, " ")


def number_figures(page):
    """A picture that has a caption is a figure and has a number, whether pandoc wrote it or a cell's HTML."""
    for number, caption in enumerate(page.body.find_all("figcaption"), 1):
        label = page.body.new_tag("span", string=f"Figure {number}.", attrs={"class": "number"})
        # pandoc hides a caption that repeats the picture's text
        caption.attrs.pop("aria-hidden", None)
        caption.insert(0, label, " ")


# ---- Boxes and tables ------------------------------------------------------------------------------------------------


def frame(page, has_source):
    """Captions, callouts and proofs; a table gets a box to scroll in; [source] links go if there is no public source."""
    new = page.body.new_tag
    number_figures(page)
    for box in page.body.select("div[class^=callout-]"):
        kind, title = box["class"][0], box.find(True)
        if title is None or title.name not in HEADINGS:
            title = new("p", string=kind.removeprefix("callout-").capitalize())
        title.name, title.attrs = "p", {"class": "callout-title"}
        box.insert(0, title.extract())
        box["class"] = ["callout", kind]
    for fold in page.body.select("details > summary"):
        if text_of(fold).startswith("Proof"):
            fold.parent["class"] = "proof"
    for table in page.body.find_all("table"):
        heads(page, table)
        table.wrap(new("div", attrs={"class": "table-scroll"}))
    glance(page)
    for link in page.body.find_all("a", href=True):  # a formula alone has no name to be read out
        if link.find("math") and not text_of(link, without=("math",)):
            link["aria-label"] = text_of(link)
    for link in [] if has_source else page.body.find_all("a", target="_blank", string="source"):
        link.decompose()
    number_sections(page)


def glance(page):
    """The table of facts before the first section waits folded: a page begins with its question."""
    section = page.body.find("h2")
    table = section and section.find_previous("table", class_="facts")
    if table:
        fold = table.parent.wrap(page.body.new_tag("details", attrs={"class": "glance"}))
        names = [text_of(head).lower() for head in table.find_all("th")]
        fold.insert(0, page.body.new_tag("summary", string="At a glance: " + ", ".join(names)))


def card(page, time, ways):
    """Below the description of a page: how long a lesson takes and how that is known, and where its notebook can be run."""
    head, new = page.body.find(class_="description"), page.body.new_tag
    if head is None or not (time or ways):
        return
    head.insert_after(box := new("div", attrs={"class": "card"}))
    if time:
        box.append(fold := new("details"))
        fold.append(new("summary", string=time[0]))
        fold.append(new("p", string=time[1]))
    if ways:
        box.append(line := new("p"))
        line.append("Run it in the browser: ")
        for n, (name, address) in enumerate(ways):
            line.extend([" · "] if n else [])
            line.append(new("a", string=name, href=address))


def heads(page, table):
    """An empty head is a cell, an empty row of heads goes; a table without heads, its first cells bold, names its rows."""
    if table.thead and not text_of(table.thead):
        table.thead.decompose()
    firsts = [row.find("td") for row in table.find_all("tr")]
    if not table.thead and all(first and first.find("strong") for first in firsts):
        table["class"] = ["facts"]
        for first in firsts:
            first.name, first["scope"] = "th", "row"
    for head in table.find_all("th"):
        if not text_of(head):
            head.name = "td"
    for cell in table.find_all("td"):  # words have room, where a window is narrow too
        if len(text_of(cell)) > 40:
            cell["class"] = "long"
    for code in table.find_all("code"):  # a long name breaks where its words do
        pieces = re.split(r"(?<=\w[_.(=])(?=[\w'])", code.string or "")
        if len(pieces) > 1 and len(code.string) > 15:
            code.clear()
            for n, piece in enumerate(pieces):
                code.extend([page.body.new_tag("wbr"), piece] if n else [piece])


# ---- Links -----------------------------------------------------------------------------------------------------------


def documentation(modules, pages):
    """Where each exported name is defined and where it is documented, its entry in the reference if it has one.

    Both noisy_sum and mechanisms.noisy_sum -> (mechanisms.html#noisy_sum, reference/mechanisms.html#noisy_sum).
    """
    there = {f"{page.address}#{tag['id']}" for page in pages for tag in page.body.find_all(id=True)}
    places = {}
    for module, names in modules.items():
        entries = posixpath.splitext(reference_name(module))[0] + ".html"
        for name, (target, _) in names.items():
            short = name.removeprefix(f"{module}.")
            entry = f"{entries}#{short.lower()}"
            while target not in there and "." in target.partition("#")[2]:
                target = target.rpartition(".")[0]  # a method is documented with its class
            both = target if target in there else entry, entry if entry in there else target
            for spelling in (
                (short, f"{module.rpartition('.')[2]}.{short}", name) if both[0] in there else ()
            ):
                places.setdefault(spelling, both)
    return places


CAMEL = re.compile(r"\b(?=\w*[a-z])[A-Z]\w*[A-Z]\w*\b")  # a name, and no word of a language


def link_names(page, places):
    """Names lead to the reference, on the page that defines them to the definition. In tables, and where they are bold, they need not be code."""

    def address(name):
        if name in places:
            chapter, entry = places[name]
            return page.root + (chapter if chapter.startswith(f"{page.address}#") else entry)

    skipped = ["a", "pre", "summary", *HEADINGS]
    for code in page.body.find_all("code"):
        target = address(code.get_text().removesuffix("()"))
        if target and not code.find_parent(skipped):
            code.wrap(page.body.new_tag("a", href=target))
    for box in page.body.select("table, p > strong"):
        seen = {link.get_text() for link in box.find_all("a")}
        for words in list(walk(box, (*skipped, "code", "math", "svg", "script", "style"))):
            parts, at = [], 0
            for found in CAMEL.finditer(words) if type(words) is NavigableString else ():
                if found[0] not in seen and (target := address(found[0])):
                    seen.add(found[0])
                    parts += [words[at : found.start()]]
                    parts += [page.body.new_tag("a", string=found[0], href=target)]
                    at = found.end()
            if parts and not box.find_parent(skipped):
                words.replace_with(*parts, words[at:])


def link_pages(page, pages):
    """Links between notebooks, as they work in Jupyter, become links between pages. A link text of one or two letters is extended by its target."""
    for link in page.body.find_all("a", href=re.compile(r"^[^:#]*\.ipynb")):
        path, hash_, anchor = link["href"].partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page.notebook), path))
        if target not in pages:
            raise page.error(
                f"links to {target}, which is not on the site; correct the link or add it to _quarto.yml."
            )
        link["href"] = page.root + pages[target].address + hash_ + anchor
        if len(text_of(link)) < 3:
            link["class"], link["aria-label"] = (
                "short",
                f"{text_of(link)}, in {pages[target].label}",
            )


def plain(name):
    """A surname in small letters without accents."""
    bare = unicodedata.normalize("NFKD", name)
    return "".join(c for c in bare if not unicodedata.combining(c)).lower()


def sources(page):
    """The bibliography's entries, by the first of their authors: [(surnames, year, address)].

    An entry is an item of a list that begins <span id="..."></span>**Balle, Wang** (ICML 2018).
    """
    found = defaultdict(list)
    for item in page.body.find_all("li") if page else ():
        named = item.find("strong")
        year = re.search(r"\((?:[^()]*?)(\d{4})\)", text_of(item))
        if named and year and item.find("span", id=True):
            names = [plain(n) for n in text_of(named).split(", ")]
            where = f"{page.address}#{item.find('span', id=True)['id']}"
            found[names[0]].append((names, year[1], where))
    return found


NAME = r"(?:de\s|Mac\s)?[A-Z][\w’'-]+(?::[\w-]+)?"
CITED = re.compile(
    rf"({NAME})((?:(?:,\s(?:and\s)?|\sand\s){NAME})*)(\set\sal\.)?,?\s?(?:\((?:[^()]*?)(\d{{4}})[^()]*\))?"
)


def cited(known, found):
    """The address of what is cited here, None if nothing is."""
    first, others, more, year = found.groups()
    names = [plain(n) for n in [first, *re.findall(NAME, others)]]
    for surnames, published, where in known.get(names[0], ()):
        same = surnames[: len(names)] == names if more else surnames == names
        if same and (year == published or (len(names) > 1 and year is None and not more)):
            return where
    return None


def link_sources(page, known):
    """The names of a paper's authors, followed by its year, lead to the bibliography."""
    skipped = ("a", "code", "pre", "math", "summary", "script", "style", *HEADINGS)
    for words in list(walk(page.body, skipped)):
        if type(words) is not NavigableString:
            continue
        parts, at = [], 0
        for found in CITED.finditer(words):
            if where := cited(known, found):
                link = page.body.new_tag("a", string=found[0].rstrip(), href=page.root + where)
                parts += [words[at : found.start()], link]
                at = found.start() + len(found[0].rstrip())
        if parts:
            words.replace_with(*parts, words[at:])
