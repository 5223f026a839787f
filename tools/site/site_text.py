"""The book for programs such as language models: llms.txt lists its pages, llms-full.txt holds the lessons, as Markdown without tags."""

import json
import re

import site_lists

TAGS = re.compile(r"</?(?:details|summary|div)\b[^>]*>")  # of folds and boxes: their text stays
TALK = re.compile(r"^#\| (fig-cap|fig-alt): *\"(.*)\"$", re.M)


def listing(website, ordered):
    """A line for each page that somebody wrote to be read: its title, its address and what it is about."""
    lines = [f"# {website['title']}", "", f"> {website.get('description', '')}"]
    parts = {
        part: [p for _, pages in groups for p in pages]
        for part, groups in site_lists.parts(ordered)
    }
    parts["Implementation notes"] = [p for p in ordered if p.up and "answers" not in p.notebook]
    for part, pages in parts.items():
        written = [page for page in pages if not page.made]
        lines += ["", f"## {part or 'Start here'}", ""] if written else []
        lines += [f"- [{page.title}]({page.address}): {page.description}" for page in written]
    return "\n".join(lines) + "\n"


def lessons(nbs, ordered):
    """Text, code that is not folded, captions, and what the cells say, of every lesson in order."""
    paths = [nbs / page.notebook for page in ordered if page.notebook.startswith("lessons/")]
    return "\n\n".join(part for path in paths for part in _parts(path)) + "\n"


def _parts(path):
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"]).strip()
        if cell["cell_type"] == "markdown":
            yield re.sub(r"\n{3,}", "\n\n", TAGS.sub("", source)).strip()
            continue
        said = dict(TALK.findall(source))
        if said:
            yield f"Figure: {said.get('fig-cap', '')} {said.get('fig-alt', '')}"
        if "#| code-fold: true" not in source and "#| hide" not in source:
            code = "\n".join(line for line in source.splitlines() if not line.startswith("#| "))
            yield f"```python\n{code.strip()}\n```"
        for output in cell.get("outputs", []):
            shown = output.get("text") or output.get("data", {}).get("text/plain", "")
            shown = "".join(shown).strip()
            if shown and not shown.startswith("<"):
                yield f"```\n{shown}\n```"
