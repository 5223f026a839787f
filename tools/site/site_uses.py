"""Where a public name is: how it is imported, the cell that defines it, lessons about it, and a section that runs it."""

import importlib
import json
import re

from site_pages import text_of

WORD = re.compile(r"[A-Za-z_]\w*")
# and comments: they run nothing
IMPORTS = re.compile(r"^(from \S+ )?import (\([^)]*\)|.*)$|#.*$", re.M)


def package_of(module):
    return importlib.import_module(module.partition(".")[0])


def rooms_of(module):
    return getattr(package_of(module), "ROOMS", ())


def rank(module):
    """The order of modules: by rooms, then by the alphabet."""
    rooms, room = rooms_of(module), module.split(".")[1]
    return rooms.index(room) if room in rooms else len(rooms), module


def import_line(name, module):
    """From the package, or the face of a room, its own first, or else the module: the first that offers it."""
    package = package_of(module).__name__
    rooms = [room for room in rooms_of(module) if module.startswith(f"{package}.{room}.")]
    for place in (package, *(f"{package}.{room}" for room in rooms)):
        if name in getattr(importlib.import_module(place), "__all__", ()):
            return f"from {place} import {name}"
    return f"from {module} import {name}"


def plain(words):
    """Letters and digits of a heading, as they are in its source and on its page."""
    return re.sub(r"[\W_]+", "", words.lower())


def anchor(page, heading):
    """The address of a section on its page, "" for the page itself."""
    wanted = plain(re.sub(r"\$[^$]*\$", "", heading))
    for tag in page.body.select("h2[id], h3[id]") if wanted else ():
        if plain(text_of(tag, without=("math",))) == wanted:
            return f"#{tag['id']}"
    return ""


class Uses:
    """Reads every notebook once: which names it mentions, and under which heading a cell uses each first."""

    def __init__(self, nbs, pages):
        self.pages = [page for page in pages if not page.notebook.startswith("answers/")]
        self.calls, self.said = {}, {}  # notebook -> {name: heading}, {name: times}
        for page in self.pages:
            cells = json.loads((nbs / page.notebook).read_text("utf8"))["cells"]
            self.calls[page.notebook], self.said[page.notebook] = {}, {}
            self._read(page.notebook, cells)

    def _read(self, notebook, cells):
        heading, said = "", self.said[notebook]
        for cell in cells:
            source = "".join(cell["source"])
            for name in WORD.findall(source):
                said[name] = said.get(name, 0) + 1
            if cell["cell_type"] == "markdown":
                found = re.findall(r"^###? (.+)$", source, re.M)
                heading = found[-1] if found else heading
            elif not re.match(r"#\|\s*(exports?|default_exp)\b", source):
                for name in WORD.findall(IMPORTS.sub("", source)):
                    self.calls[notebook].setdefault(name, heading)

    def in_order(self, module):
        """A module's public names: those that the package itself offers first, then by the alphabet."""
        first = getattr(package_of(module.__name__), "__all__", ())
        names = getattr(module, "__all__", [])
        return sorted(names, key=lambda name: (name not in first, name.lower()))

    def lessons(self, name):
        """At most two lessons that mention a name twice or more, the one that does most often first."""
        there = [page for page in self.pages if page.notebook.startswith("lessons/")]
        times = {page.notebook: self.said[page.notebook].get(name, 0) for page in there}
        found = [page for page in there if times[page.notebook] > 1]
        return sorted(found, key=lambda page: -times[page.notebook])[:2]

    def run(self, name, chapter):
        """A page whose cells use a name, its own chapter if they do, and the anchor of the section; None if there is none."""
        for page in [chapter, *self.pages]:
            if name in self.calls[page.notebook]:
                return page, anchor(page, self.calls[page.notebook][name])
        return None

    def below_the_summary(self, entry, name, module, chapter):
        """An entry of the reference with a line of links below its first paragraph."""
        head, signature, rest = re.split(r"(^`{3,}\{\.python \.signature\}\n.*?^`{3,}\n)", entry, maxsplit=1, flags=re.M | re.S)  # fmt: skip
        summary, _, more = rest.lstrip("\n").partition("\n\n")
        line = self._line(name, module, chapter)
        return f"{head}{signature}\n{summary}\n\n{line}\n\n{more}"

    def _line(self, name, module, chapter):
        def link(text, page, where=""):
            return f"[{text}](../{page.address}{where})"

        parts = [f"`{import_line(name, module)}`", f"chapter {link(chapter.title, chapter)}"]
        # headings of theorem boxes lose their ids later
        if chapter.body.find(["h2", "h3", "div", "span"], id=name.lower()) is not None:
            parts.append(link("source", chapter, f"#{name.lower()}"))
        if lessons := self.lessons(name):
            parts.append("lesson " + ", ".join(link(page.label, page) for page in lessons))
        if found := self.run(name, chapter):
            page, where = found
            parts.append(
                link(f"run in {'its chapter' if page is chapter else page.title}", page, where)
            )
        return "::: places\n" + " · ".join(parts) + "\n:::"
