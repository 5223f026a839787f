"""The rules of the book. Each is a function that reads a notebook and yields complaints.

Below the rules, the book must pass them all, and a tiny broken notebook must fail each.
"""

import ast
import functools
import hashlib
import json
import posixpath
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import release
import yaml

import dplit

ROOT = Path(__file__).parent.parent.parent
PATHS = sorted(p.relative_to(ROOT / "nbs") for p in (ROOT / "nbs").rglob("*.ipynb"))
# "accounting/gaussian", and its answers, "answers/accounting/gaussian"
BOOK = {
    p.with_suffix("").as_posix(): json.loads((ROOT / "nbs" / p).read_text("utf8"))
    for p in PATHS
    if not any(part[0] in "._" for part in p.parts)
}

ROOM_NAMES = [f"dplit.{room}" for room in dplit.ROOMS]
MODULE_NAMES = {
    ".".join(p.relative_to(ROOT).with_suffix("").parts)
    for p in (ROOT / "dplit").glob("*/*.py")
    if p.stem != "__init__"
}

# on no site: the homework, and its answers
TEACHERS = {p.stem: json.loads(p.read_text("utf8")) for p in (ROOT / "teachers").glob("*.ipynb")}

PAPERS = {"max_cover", "k_tuples", "private_evolution", "source_target", "adaptation"}
CONTRACT = """
    PrivacyBudget BudgetExceeded LedgerError NoisyLloyd GridKMeans MaxCoverKMeans PEMeans HDPEMeans KAverages KNoisyCenters
    StableTupleMean KTupleKMeans KTupleGaussianMixture NoisyAverageSet NeighborNoisyAverages
    SourceTargetKMedoids CnvxAdap NCnvxAdap LabelShiftClassifier
    CovariateShiftRegressor CovariateShiftClassifier
""".split()
SECTIONS = """1. The question|2. A picture|3. Definitions|4. The theorem|5. Why|6. The algorithm
7. Does it hold|8. What|9. On real data|10. Exercises""".replace("\n", "|").split("|")

TEN = {  # chapters with the ten sections; the others are implementation notes
    "estimators/lloyd",
    "estimators/grid",
    "max_cover/paper",
    "k_tuples/paper",
    "k_tuples/kmeans",
    "private_evolution/paper",
    "source_target/medoids",
    "adaptation/discrepancy",
    "adaptation/convex",
    "adaptation/nonconvex",
}

HIDDEN = re.compile(r"#\|\s*(hide\b|hide_\w+|(echo|include|output):\s*false)")
FOREIGN = re.compile(r"^\s*:::|(?<!\w)@(thm|lem|def|prp|cor|exm|eq|fig|tbl|sec)-|\[@|\{prf:", re.M)
GLOBAL_RANDOM = re.compile(r"(np|numpy)\.random\.(?!default_rng$)[a-z]\w*")
NETWORK = re.compile(r"(.*\.)?(urlopen|urlretrieve|fetch_\w+)|(requests|urllib|httpx)\..*")
DRAWING = re.compile(r"(.*\.)?(subplots?|figure|imshow|plot_\w+)")
LINK = re.compile(r"\]\((?:([\w./]+)\.ipynb)?(?:#([^)\s]*))?\)")
EXERCISE = re.compile(r"^(\d+)\. (★+) ", re.M)
BUG = re.compile(r"\*(Spot the privacy bug|Find the leak)\.\*")
# written so that it does not find itself
ELSEWHERE = re.compile(
    r"(?<![a-zA-Z0-9_.])/(work|root|tmp)/|\b(pypi|pythonhosted|npmjs|debian|anaconda)\.(org|com)\b"
    r"|shared/(specs|design)|\bthe sp[e]c\b"
)


# --- reading a notebook ---


def text(cell):
    return "".join(cell["source"])


def cells(nb, kind="code"):
    """Pairs (where, cell); `where` is the cell's number and first line."""
    for i, cell in enumerate(nb["cells"]):
        if cell["cell_type"] == kind:
            yield f"cell {i} ({text(cell).strip().split(chr(10))[0][:50]})", cell


def demos(nb):
    """The code cells that the module does not get."""
    return ((where, cell) for where, cell in cells(nb) if not is_export(cell))


def prose(nb):
    """Pairs (where, Markdown without its code)."""
    for where, cell in cells(nb, "markdown"):
        yield where, re.sub(r"```.*?```|``.*?``|`[^`\n]*`", "", text(cell), flags=re.S)


def is_export(cell):
    return re.match(r"#\|\s*exports?\b", text(cell)) is not None


def is_tagged(cell, *tags):
    return not {*tags}.isdisjoint(cell["metadata"].get("tags", []))


@functools.cache
def parse(source):
    return ast.parse(re.sub(r"^(\s*)[%!].*", r"\1pass", source, flags=re.M))  # magics: not Python


def tree(cell):
    return parse(text(cell))


def at_run_time(node):
    """Nodes that run when the cell does: all but the bodies of functions and classes."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
            yield child
            yield from at_run_time(child)


def dotted(node):
    """The text of a name such as np.random.seed, "" for any other expression."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def names(nb):
    """Pairs (where, dotted name) of every name that the code mentions."""
    return ((where, dotted(n)) for where, cell in cells(nb) for n in ast.walk(tree(cell)))


def calls(nodes):
    return [node for node in nodes if isinstance(node, ast.Call)]


def is_import(node):
    return isinstance(node, (ast.Import, ast.ImportFrom))


def ends_in_an_expression(cell):
    return bool(tree(cell).body) and isinstance(tree(cell).body[-1], ast.Expr)


def defined(cell):
    """Names of the functions and classes that a cell defines."""
    return [n.name for n in tree(cell).body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]


def home(nb):
    """The module that the notebook exports, or None."""
    found = (re.search(r"^#\|\s*default_exp\s+(\S+)", text(cell), re.M) for _, cell in cells(nb))
    return next((m[1] for m in found if m), None)


def headings(nb, level):
    for where, source in prose(nb):
        yield from ((where, title) for title in re.findall(rf"^#{{{level}}} (.+)", source, re.M))


def ids(nb):
    return [i for _, s in prose(nb) for i in re.findall(r"<\w+[^>]*\bid=[\"']([^\"']+)", s)]


def slug(title):
    """The id that the site gives a heading."""
    words = re.sub(r"[^\w\s.-]", "", title).strip().lower()
    return words.replace(" ", "-").lstrip("0123456789.-")


def anchors(nb):
    """Whatever a link may point at: ids, headings as the site names them, those that a cell shows, exported names."""
    outputs = (output for cell in nb["cells"] for output in cell.get("outputs", []))
    html = "".join("".join(o.get("data", {}).get("text/html", "")) for o in outputs)
    shown = re.findall(r'<h[1-6] id="([^"]+)"', html)
    slugs = {slug(title) for _, title in headings(nb, "1,6")}
    exported = {name.lower() for _, cell in cells(nb) if is_export(cell) for name in defined(cell)}
    return {*ids(nb), *slugs, *shown, *exported}


def imported_modules(cell):
    """Modules of dplit that a cell imports from, as "estimators.lloyd"; "" is the package itself."""
    for node in ast.walk(tree(cell)):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "") in {*ROOM_NAMES, "dplit"}:
            found = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [n if n in MODULE_NAMES else node.module for n in found]
        else:
            found = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in (name for name in found if re.match(r"dplit\b", name)):
            yield name.removeprefix("dplit").removeprefix(".")


# --- rules of one notebook: rule(nb) yields complaints ---


def the_first_cell_holds_a_title_and_a_description_only(nb):
    if not re.fullmatch(r"# [^\n]+\n+> [^\n]+\s*", text(nb["cells"][0])):
        yield "cell 0 must hold '# Title' and '> description': the site drops the rest"


def at_most_one_code_cell_in_ten_is_hidden(nb):
    hidden = [where for where, cell in cells(nb) if HIDDEN.search(text(cell))]
    if 10 * len(hidden) > len([*cells(nb)]):
        yield f"{len(hidden)} of {len([*cells(nb)])} code cells are hidden: {hidden}"


def prose_is_plain_markdown(nb):
    for where, source in prose(nb):
        yield from (f"{where}: {m[0]!r} is noise in Jupyter" for m in FOREIGN.finditer(source))


def theorem_titles_have_no_brackets_inside_brackets(nb):
    for where, title in headings(nb, 4):
        if re.search(r"\([^()]*\(", title):
            yield f"{where}: put a comma before the year in {title!r}"


def an_item_of_a_list_is_a_line(nb):
    """An item that goes on in the line before is no item on the site, nor is one whose number a bracket hides."""
    for where, source in prose(nb):
        for found in re.finditer(r"^1\. .*?[.?!)`$] 2\. \S", source, re.MULTILINE):
            yield f"{where}: a line for each item: {found[0][-40:]!r}"
        first = re.search(r"(?:\A|\n\s*\n)(\(\d+\)) ", source)
        if first and first[1] != "(1)":
            yield f"{where}: the site takes {first[1]} for an item of a list"


def numbers_are_written_as_1e_5(nb):
    for where, cell in cells(nb):
        for literal in re.findall(r"\b10e-?\d", text(cell)):
            yield f"{where}: {literal} is ten times what it seems"


def no_draw_uses_the_global_generator(nb):
    for where, name in names(nb):
        if GLOBAL_RANDOM.fullmatch(name):
            yield f"{where}: instead of {name} use rng = np.random.default_rng(seed)"


def every_generator_in_a_chapter_is_seeded(nb):
    for where, cell in demos(nb):
        for call in calls(ast.walk(tree(cell))):
            if dotted(call.func).endswith("default_rng") and not call.args:
                if not is_tagged(cell, "nbval-ignore-output", "nbval-skip"):
                    yield f"{where}: default_rng() without a seed cannot be repeated"


def nothing_is_fetched_when_the_chapter_runs(nb):
    for where, cell in demos(nb):
        for call in calls(ast.walk(tree(cell))):
            name, what = dotted(call.func), [getattr(arg, "value", None) for arg in call.args[:1]]
            # the other clustering sets come from a file or not at all
            offline = name.endswith("fetch_clustering") and what not in (
                [None],
                ["letter"],
                ["adult6"],
            )
            if NETWORK.fullmatch(name) and not offline:
                yield f"{where}: {name} may reach for the network"


def imports_have_a_cell_of_their_own(nb):
    for where, cell in cells(nb):
        imports = [is_import(statement) for statement in tree(cell).body]
        if any(map(is_import, at_run_time(tree(cell)))) and not all(imports):
            yield f"{where}: it imports and does more, so building the site would run all of it"


def imports_point_up_the_list_of_rooms(nb):
    """A module imports from modules of its own room and of rooms above it in `dplit.ROOMS`; a paper's from no other paper's."""
    here = home(nb)
    room = here and here.partition(".")[0]
    if here and room not in dplit.ROOMS:
        yield f"the module {here} is in no room"
    elif here:
        above = dplit.ROOMS[: dplit.ROOMS.index(room) + 1]
        for where, cell in cells(nb):
            for name in imported_modules(cell) if is_export(cell) else ():
                other = name.partition(".")[0]
                if other not in above or {room, other} <= PAPERS and room != other:
                    yield f"{where}: {here} imports {name or 'the package'} from below"


def exported_cells_import_from_modules(nb):
    """Inside, plain functions are called; faces, which check arguments, are for callers from outside."""
    for where, cell in cells(nb):
        for name in imported_modules(cell) if is_export(cell) else ():
            if "." not in name:
                yield f"{where}: import from the module, not from the face dplit.{name}"


def a_notebook_does_not_export_itself(nb):
    for where, name in names(nb):
        if name.endswith("nbdev_export"):
            yield f"{where}: {name} would rewrite the module while tests import it"


def the_style_of_figures_is_set_in_plotting_only(nb):
    for where, name in names(nb) if home(nb) != "plotting.styles" else ():
        if name.endswith((".rc_context", ".rcParams")):
            yield f"{where}: instead of {name} use dplit.plotting.style()"


def a_cell_that_shows_the_algorithm_holds_one_public_name(nb):
    for where, cell in cells(nb):
        public = [name for name in defined(cell) if not name.startswith("_")]
        if re.match(r"#\|\s*exports\b", text(cell)) and len(public) > 1:
            yield f"{where}: {', '.join(public)} want a cell each"


def every_cell_that_shows_something_has_its_output_stored(nb):
    for where, cell in demos(nb):
        draws = any(DRAWING.fullmatch(dotted(c.func)) for c in calls(at_run_time(tree(cell))))
        if (draws or ends_in_an_expression(cell)) and not cell["outputs"]:
            if not is_tagged(cell, "nbval-skip"):
                yield f"{where}: no output is stored; run the chapter"


def no_cell_ends_in_a_semicolon(nb):
    for where, cell in demos(nb):
        if text(cell).rstrip().endswith(";"):  # whether that hides a value depends on the front end
            yield f"{where}: it ends in a semicolon; write _ = ... for what it must not show"


def every_check_ends_by_showing_what_it_checked(nb):
    for where, cell in demos(nb):
        checks = any(isinstance(node, ast.Assert) for node in at_run_time(tree(cell)))
        if checks and not (cell["outputs"] or ends_in_an_expression(cell)):
            yield f"{where}: it asserts in silence; end it with the number it checked"


def no_output_is_an_error_or_a_warning(nb):
    for where, cell in cells(nb):
        for output in cell["outputs"]:
            if output["output_type"] == "error" or output.get("name") == "stderr":
                yield f"{where}: an error or a warning is stored"


def the_notebook_is_clean(nb):
    for where, cell in [*cells(nb), *cells(nb, "markdown")]:
        counts = [part.get("execution_count") for part in (cell, *cell.get("outputs", []))]
        if any(count is not None for count in counts) or {*cell["metadata"]} - {"tags"}:
            yield f"{where}: run nbdev_clean"


def the_notebook_is_small(nb):
    size = len(json.dumps(nb, indent=1, ensure_ascii=False).encode())
    if size > 600_000:
        yield f"it takes {size / 1000:.0f} kB, more than 600: draw fewer points"
    if len(nb["cells"]) > 90:
        yield f"it has {len(nb['cells'])} cells, more than 90: make it two chapters"


def ids_are_unique(nb):
    found = ids(nb)
    yield from (f"the id {i} is used twice" for i in sorted({*found}) if found.count(i) > 1)


NOTEBOOK_RULES = [
    the_first_cell_holds_a_title_and_a_description_only,
    at_most_one_code_cell_in_ten_is_hidden,
    prose_is_plain_markdown,
    theorem_titles_have_no_brackets_inside_brackets,
    an_item_of_a_list_is_a_line,
    numbers_are_written_as_1e_5,
    no_draw_uses_the_global_generator,
    every_generator_in_a_chapter_is_seeded,
    nothing_is_fetched_when_the_chapter_runs,
    imports_have_a_cell_of_their_own,
    imports_point_up_the_list_of_rooms,
    exported_cells_import_from_modules,
    a_notebook_does_not_export_itself,
    the_style_of_figures_is_set_in_plotting_only,
    a_cell_that_shows_the_algorithm_holds_one_public_name,
    every_cell_that_shows_something_has_its_output_stored,
    no_cell_ends_in_a_semicolon,
    every_check_ends_by_showing_what_it_checked,
    no_output_is_an_error_or_a_warning,
    the_notebook_is_clean,
    the_notebook_is_small,
    ids_are_unique,
]


# --- rules of the whole book: rule(book) yields complaints that name the notebooks ---


def shared(what, keys):
    """Complaints about a key that two notebooks share; `keys` maps notebooks to keys."""
    for key in sorted({key for key in keys.values() if key is not None}):
        notebooks = [name for name in keys if keys[name] == key]
        if len(notebooks) > 1:
            yield f"{' and '.join(notebooks)} have the same {what}, {key}"


def no_two_notebooks_export_one_module(book):
    return shared("module", {name: home(nb) for name, nb in book.items()})


def a_notebooks_path_is_its_modules_path(book):
    for name, nb in book.items():
        if home(nb) and home(nb).replace(".", "/") != name:
            yield f"{name} exports {home(nb)}: a notebook lies where its module does"


def numbers_stand_in_lessons_only(book):
    for name in book:
        if re.search(r"(^|/)\d", name) and not name.removeprefix("answers/").startswith("lessons/"):
            yield f"{name}: only lessons are numbered"


def titles_are_unique(book):
    return shared("title", {name: text(nb["cells"][0]).split("\n")[0] for name, nb in book.items()})


def links_between_notebooks_lead_somewhere(book):
    known = {name: anchors(nb) for name, nb in book.items()}
    for name, nb in book.items():
        for where, source in prose(nb):
            for path, anchor in LINK.findall(source):
                page = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
                page = page if path else name
                if page not in book:
                    yield f"{name}, {where}: there is no notebook {page}"
                elif anchor and anchor not in known[page]:
                    yield f"{name}, {where}: {page} has no id {anchor!r}"


def paper_chapters_have_the_ten_sections(book):
    for name, nb in book.items():
        if name in TEN:
            found = [title for _, title in headings(nb, 2)]
            if len(found) != 10 or not all(map(str.startswith, found, SECTIONS)):
                yield f"{name}: the sections are {found}, they must be {SECTIONS}"


def path_between(name, other):
    """How a notebook, which may lie in a folder, links to another one."""
    return posixpath.relpath(other, posixpath.dirname(name)) + ".ipynb"


def answers_answer_the_exercises(book):
    for name, nb in book.items():
        asks = any(title.endswith("Exercises") for _, title in headings(nb, 2))
        if asks and f"answers/{name}" not in book:
            yield f"{name}: it has exercises, so write answers/{name}"
    for name in (name for name in book if name.startswith("answers/")):
        chapter = name.removeprefix("answers/")
        if chapter not in book:
            yield f"{name}: there is no such chapter"
            continue
        asking = "\n".join(source for _, source in prose(book[chapter]))
        asked = EXERCISE.findall(asking)
        titles = [title for _, title in headings(book[name], 2)]
        answered = [(title.partition(".")[0], title.rpartition(" ")[2]) for title in titles]
        if asked != answered:
            yield f"{name}: answers {answered}, but the exercises of the chapter are {asked}"
        if not 3 <= len(asked) <= 5 or not BUG.search(asking):
            yield f"{chapter}: give three to five exercises, and let one be *Spot the privacy bug.*"
        title = text(book[chapter]["cells"][0]).partition("\n")[0].removeprefix("# ")
        if not text(book[name]["cells"][0]).startswith(f"# Answers: {title}\n"):
            yield f"{name}: its title is not 'Answers: {title}'"
        there, here = path_between(name, chapter), path_between(chapter, name)
        back = any(f"]({there}#exercises)" in s for _, s in prose(book[name]))
        if not back or f"]({here})" not in asking:
            yield f"{name}: exercises and answers must link to each other"


NO_WORDS = r"<details>.*?</details>|</?\w[^>]*>|\$\$.*?\$\$|\$[^$\n]*\$|\]\([^)]*\)"

WORKED = {
    "examples/first_aid",
    "examples/two_hospitals",
    "examples/which_kmeans",
    "examples/codebook",
}
WORKED |= {"examples/beyond_memory", "examples/year_of_questions", "examples/from_a_table"}
WORKED |= {"examples/a_billion_records"}


def lessons_are_one_sitting(book):
    """Words, lines of code that are not folded, figures with captions (screens: tests/site/test_browser.py).

    Worked examples are as short; they need not have figures to play with.
    """
    for name in (name for name in book if name.startswith("lessons/") or name in WORKED):
        nb = book[name]
        shown = (re.sub(NO_WORDS, "", s, flags=re.S) for _, s in prose(nb))
        words = sum(len(re.findall(r"[A-Za-z][\w'’-]*", source)) for source in shown)
        unfolded = [text(c) for _, c in cells(nb) if "code-fold: true" not in text(c)]
        code = sum(bool(line.strip()) for source in unfolded for line in source.splitlines())
        figures = [i for i, c in enumerate(nb["cells"]) if "#| fig-cap:" in text(c)]
        moving = any(re.search(r"\b(frames|\w+_explorer)\(", text(c)) for _, c in cells(nb))
        if words > 2500 or code > 250:
            yield f"{name}: it shows {words} words and {code} lines of code, at most 2,500 and 250"
        if name not in WORKED and (len(figures) < 4 or min(figures) > 4 or not moving):
            yield f"{name}: give four figures, the first on the first screen, one to play with"


# a row of the glossary: our word, the literature's, and where it is explained
WORD = re.compile(r"^\| \*\*(.+?)\*\* \| (.+?) \|.*\]\(([\w./]+)\.ipynb(?:#([\w-]+))?\) \|$", re.M)
TABLE = "| our word | in the literature | what it means | symbol | unit | where |"


def section(nb, anchor):
    """The text of a section, with what its boxes say; without an anchor, of the page."""
    page = "\n".join(source for _, source in prose(nb))
    parts = re.split(r"^## (.+)$", page, flags=re.M)
    sections = dict(zip(map(slug, parts[1::2]), parts[2::2], strict=True))
    return sections.get(anchor, "") if anchor else page


def the_glossary_is_complete(book):
    """At least 60 terms in tables of six columns, each once; every row of these tables is one."""
    page = "\n".join(
        text(cell) for _, cell in cells(book.get("about/words", chapter()), "markdown")
    )
    lines = [line for line in page.splitlines() if line.startswith("| **")]
    words = [word for word, *_ in WORD.findall(page)]
    if "about/words" in book and (len({*words}) < 60 or TABLE not in page):
        yield f"about/words: it explains {len({*words})} terms, at least 60 are wanted"
    if len(words) != len({*words}) or any(line.count(" | ") != 5 for line in lines):
        yield "about/words: a term occurs twice, or a row has not six columns"
    if len(words) != len(lines):
        yield "about/words: some row does not end in a link"


def the_glossary_is_true(book):
    """Each term, or what the literature calls it, occurs where the reader is sent."""
    plain = functools.partial(re.sub, r"[*\s-]+", " ")
    page = "\n".join(
        text(cell) for _, cell in cells(book.get("about/words", chapter()), "markdown")
    )
    for word, others, path, anchor in WORD.findall(page):
        place = posixpath.normpath(posixpath.join("about", path))
        said = plain(section(book.get(place, chapter()), anchor))
        names = [plain(name).strip() for name in (word, *re.split("[,;]", others))]
        if not any(name and re.search(rf"(\b|var){re.escape(name)}", said, re.I) for name in names):
            yield f"about/words: {word!r} does not occur in {place}#{anchor}"


BOOK_RULES = [
    lessons_are_one_sitting,
    the_glossary_is_complete,
    the_glossary_is_true,
    no_two_notebooks_export_one_module,
    a_notebooks_path_is_its_modules_path,
    numbers_stand_in_lessons_only,
    titles_are_unique,
    links_between_notebooks_lead_somewhere,
    paper_chapters_have_the_ten_sections,
    answers_answer_the_exercises,
]


# --- the book keeps its rules ---


def rule_name(value):
    return value.__name__ if callable(value) else ""


@pytest.mark.parametrize("name", BOOK)
@pytest.mark.parametrize("rule", NOTEBOOK_RULES, ids=rule_name)
def test_every_notebook(rule, name):
    complaints = [f"{name}, {complaint}" for complaint in rule(BOOK[name])]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("name", TEACHERS)
@pytest.mark.parametrize("rule", NOTEBOOK_RULES, ids=rule_name)
def test_every_notebook_for_teachers(rule, name):
    complaints = [f"{name}, {complaint}" for complaint in rule(TEACHERS[name])]
    assert not complaints, "\n".join(complaints)


def problems(nb):
    """What is asked, or answered: titles, and the names of the entries of each answer."""
    asked = [title for _, title in headings(nb, 2) if title[0].isdigit()]
    for _, cell in cells(nb):
        for node in tree(cell).body:
            if isinstance(node, ast.Assign) and dotted(node.targets[0]).startswith("answer_"):
                asked.append((dotted(node.targets[0]), [key.value for key in node.value.keys]))
    return sorted(map(str, asked))


def test_each_problem_of_the_homework_has_an_answer_that_is_checked():
    asked, answered = (problems(TEACHERS[name]) for name in ("homework", "homework_answers"))
    assert asked == answered and len(asked) == 26
    for where, cell in cells(TEACHERS["homework_answers"]):
        assert "\nanswer_" not in text(cell) or "\nassert " in text(cell), where


@pytest.mark.parametrize("rule", BOOK_RULES, ids=rule_name)
def test_the_book(rule):
    complaints = [*rule(BOOK)]
    assert not complaints, "\n".join(complaints)


def test_every_module_comes_from_a_notebook():
    paths = [
        path.relative_to(ROOT / "dplit").with_suffix("") for path in (ROOT / "dplit").rglob("*.py")
    ]
    written = {"__init__", "__main__", "_modidx"}  # the first two by hand
    modules = {".".join(path.parts) for path in paths if path.name not in written}
    assert modules == {home(nb) for nb in BOOK.values()} - {None}


def test_every_notebook_is_in_the_navigation():
    """In the sidebar, or an answer, or a chapter of a room, which the page of the reference lists."""
    site = yaml.safe_load((ROOT / "_quarto.yml").read_text("utf8"))
    listed = {*re.findall(r"([\w/]+)\.ipynb", str(site["website"]["sidebar"]))}
    assert listed <= {*BOOK}, "the sidebar in _quarto.yml has pages that do not exist"
    for name in {*BOOK} - listed:
        assert name.startswith("answers/") or home(BOOK[name]), f"{name}: add it to _quarto.yml"
    shown = "".join(text for _, cell in cells(BOOK["about/reference"]) for text in outputs(cell))
    rooms = {name for name in BOOK if home(BOOK[name])}
    linked = {*re.findall(r"\(\.\./([\w/]+)\.ipynb\)", shown)}
    assert rooms <= linked <= {*BOOK}, "execute nbs/about/reference.ipynb"


def outputs(cell):
    """What a cell shows as Markdown."""
    for output in cell["outputs"]:
        yield "".join(output.get("data", {}).get("text/markdown", ""))


def test_the_seconds_of_every_chapter_are_known():
    """They decide which chapters run at once."""
    lines = (ROOT / "tests/seconds.txt").read_text("utf8").splitlines()
    known = {line.split()[0].removeprefix("nbs/") for line in lines}
    assert lines == sorted(lines) and len(known) == len(lines)
    assert known == {name for name in BOOK if not name.startswith("answers/")}


def test_settings_package_citation_and_changelog_name_one_version():
    assert {*release.versions().values()} == {dplit.__version__}, "run nbdev_export"


def test_the_package_offers_the_names_of_the_contract_that_exist_so_far():
    exports = [cell for nb in BOOK.values() for _, cell in cells(nb) if is_export(cell)]
    written = {name for cell in exports for name in defined(cell)}.intersection(CONTRACT)
    assert "NoisyLloyd" in written and written <= {*dplit.__all__}, "mend dplit/__init__.py"
    assert all(hasattr(dplit, name) for name in dplit.__all__)


def strangers(name, source):
    """Complaints about machine paths, registries and documents that are not part of the project."""
    source = re.sub(r'"image/(png|jpeg)": "[^"]*"', "", source)
    for m in ELSEWHERE.finditer(source):
        yield f"{name}, line {source.count(chr(10), 0, m.start()) + 1}: {m[0]!r}"


def test_the_project_speaks_only_of_itself():
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    # katex is not ours
    ours = [name for name in listed.stdout.splitlines() if "/katex/" not in name]
    complaints = []
    for name in ours:
        raw = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        if b"\0" not in raw:  # else a picture or data
            complaints += strangers(name, raw.decode("utf8"))
    assert len(ours) > 20 and not complaints, "\n".join(complaints)


# --- every rule can fail ---


def md(source):
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def code(source, *outputs, count=None, **metadata):
    base = {"cell_type": "code", "execution_count": count, "outputs": outputs}
    return {**base, "metadata": metadata, "source": source}


def chapter(*cells, module="datasets.a", title="A title"):
    return {"cells": [md(f"# {title}\n\n> What it is"), code(f"#| default_exp {module}"), *cells]}


SHOWN = {"output_type": "stream", "name": "stdout", "text": "1"}
THEOREM = '<div id="thm-one">\n\n#### One (Someone, 2020)\n\nSee `:::`, [this](#thm-one).\n\n</div>'
GOOD = chapter(
    code("#| export\nimport numpy as np\nfrom dplit.accounting.receipts import Receipt"),
    md(f"## 1. The question\n\n{THEOREM}"),
    code(
        "#| exports\ndef f(rng=None):\n    return np.random.default_rng(rng)\n\n\ndef _g():\n    f()"
    ),
    code("rng = np.random.default_rng(1)\nassert rng.random() < 1\nprint(1e-5)", SHOWN),
    code("ax = plot_loss_curve([1], [2])", SHOWN),
    code("fetch_clustering('s1')", SHOWN),
    code("rng = np.random.default_rng()\nprint(rng.random())", SHOWN, tags=["nbval-ignore-output"]),
    code("x = 1"),
)
ASKING = """## Exercises

1. ★ One.
2. ★★ *Find the leak.* Two.
3. ★ Three.

[answers](../answers/datasets/a.ipynb)
"""
ANSWERING = """[Back](../../datasets/a.ipynb#exercises)

## 1. One ★

## 2. Two ★★

## 3. Three ★
"""
ANSWERS = chapter(md(ANSWERING), title="Answers: A title")

FOUR = [code('#| fig-cap: "What is seen."\nfig', SHOWN)] * 4
PLAYS = code("frames(drawn, labels)", SHOWN)
TERM = "| **term {0}** | x{0} | y | s | none | [a](../datasets/a.ipynb#b) |"
GLOSSARY = "\n".join([TABLE, "|---|---|---|---|---|---|", *map(TERM.format, range(60)), ""])

BROKEN = [
    (the_first_cell_holds_a_title_and_a_description_only, {"cells": [md("# A\n\n> B\n\nMore")]}),
    (the_first_cell_holds_a_title_and_a_description_only, {"cells": [md("# A title")]}),
    (at_most_one_code_cell_in_ten_is_hidden, chapter(*[code("x = 1")] * 7, code("#| hide\nx = 1"))),
    (at_most_one_code_cell_in_ten_is_hidden, chapter(code("#| echo: false\nx = 1"))),
    (prose_is_plain_markdown, chapter(md("::: {#thm-a}\n\nText\n\n:::"))),
    (prose_is_plain_markdown, chapter(md("By @thm-a, clearly."))),
    (prose_is_plain_markdown, chapter(md("As is known [@dwork2006]."))),
    (theorem_titles_have_no_brackets_inside_brackets, chapter(md("#### One (by (2009))"))),
    (an_item_of_a_list_is_a_line, chapter(md("1. Why? 2. How?"))),
    (an_item_of_a_list_is_a_line, chapter(md("As follows.\n\n(4) came first."))),
    (numbers_are_written_as_1e_5, chapter(code("delta = 10e-5"))),
    (no_draw_uses_the_global_generator, chapter(code("np.random.seed(0)"))),
    (no_draw_uses_the_global_generator, chapter(code("def f():\n    numpy.random.normal()"))),
    (every_generator_in_a_chapter_is_seeded, chapter(code("rng = np.random.default_rng()"))),
    (nothing_is_fetched_when_the_chapter_runs, chapter(code("b = datasets.fetch_mnist()"))),
    (nothing_is_fetched_when_the_chapter_runs, chapter(code("b = fetch_clustering('letter')"))),
    (nothing_is_fetched_when_the_chapter_runs, chapter(code("b = fetch_clustering(name)"))),
    (nothing_is_fetched_when_the_chapter_runs, chapter(code("b = requests.get(address)"))),
    (nothing_is_fetched_when_the_chapter_runs, chapter(code("def f():\n    urlopen(address)"))),
    (imports_have_a_cell_of_their_own, chapter(code("import numpy as np\nx = 1"))),
    (imports_have_a_cell_of_their_own, chapter(code("try:\n    import a\nexcept OSError:\n    b"))),
    (
        imports_point_up_the_list_of_rooms,
        chapter(code("#| export\nfrom dplit.plotting import style")),
    ),
    (
        imports_point_up_the_list_of_rooms,
        chapter(code("#| export\nfrom dplit import NoisyLloyd")),
    ),
    (
        imports_point_up_the_list_of_rooms,
        chapter(code("#| export\nfrom dplit import plotting")),
    ),
    (
        imports_point_up_the_list_of_rooms,
        chapter(code("#| export\nimport dplit.plotting.kept")),
    ),
    (imports_point_up_the_list_of_rooms, chapter(code("#| export\nimport dplit"))),
    (imports_point_up_the_list_of_rooms, chapter(module="kitchen.sink")),
    (
        imports_point_up_the_list_of_rooms,
        chapter(code("#| export\nfrom dplit.plotting.kept import Kept")),
    ),
    (
        imports_point_up_the_list_of_rooms,
        chapter(
            code("#| export\nfrom dplit.max_cover.paper import max_cover"), module="k_tuples.paper"
        ),
    ),
    (exported_cells_import_from_modules, chapter(code("#| export\nfrom dplit import NoisyLloyd"))),
    (a_notebook_does_not_export_itself, chapter(code("nbdev.nbdev_export()"))),
    (
        the_style_of_figures_is_set_in_plotting_only,
        chapter(code("with plt.rc_context():\n    f()")),
    ),
    (
        a_cell_that_shows_the_algorithm_holds_one_public_name,
        chapter(code("#| exports\ndef f():\n    return 1\n\n\nclass G:\n    x = 1")),
    ),
    (every_cell_that_shows_something_has_its_output_stored, chapter(code("x = 1\nx"))),
    (
        every_cell_that_shows_something_has_its_output_stored,
        chapter(code("fig, ax = plt.subplots()\nx = 1")),
    ),
    (no_cell_ends_in_a_semicolon, chapter(code("x = 1\nx;"))),
    (every_check_ends_by_showing_what_it_checked, chapter(code("for x in (1, 2):\n    assert x"))),
    (no_output_is_an_error_or_a_warning, chapter(code("f()", {"output_type": "error"}))),
    (no_output_is_an_error_or_a_warning, chapter(code("f()", {**SHOWN, "name": "stderr"}))),
    (the_notebook_is_clean, chapter(code("x = 1", count=3))),
    (the_notebook_is_clean, chapter(code("1", {**SHOWN, "execution_count": 3}))),
    (the_notebook_is_clean, chapter(code("x = 1", collapsed=True))),
    (the_notebook_is_small, chapter(*[md("Text")] * 89)),
    (the_notebook_is_small, chapter(md("x" * 600_000))),
    (ids_are_unique, chapter(md(THEOREM), md(THEOREM))),
    (no_two_notebooks_export_one_module, {"datasets/a": chapter(), "mechanisms/b": chapter()}),
    (a_notebooks_path_is_its_modules_path, {"datasets/b": GOOD}),
    (numbers_stand_in_lessons_only, {"datasets/10_a": {"cells": []}}),
    (numbers_stand_in_lessons_only, {"answers/10_a": {"cells": []}}),
    (titles_are_unique, {"datasets/a": chapter(), "mechanisms/b": chapter()}),
    (
        links_between_notebooks_lead_somewhere,
        {"datasets/a": chapter(md("See [it](../mechanisms/b.ipynb)."))},
    ),
    (links_between_notebooks_lead_somewhere, {"datasets/a": chapter(md("See [it](#thm-two)."))}),
    (
        links_between_notebooks_lead_somewhere,
        {
            "datasets/a": chapter(md("See [it](../mechanisms/b.ipynb#thm-two).")),
            "mechanisms/b": GOOD,
        },
    ),
    (paper_chapters_have_the_ten_sections, {"max_cover/paper": chapter(md("## 1. The question"))}),
    (
        paper_chapters_have_the_ten_sections,
        {"estimators/lloyd": chapter(*[md(f"## {section}") for section in reversed(SECTIONS)])},
    ),
    (
        links_between_notebooks_lead_somewhere,
        {"answers/datasets/a": chapter(md("See [it](../../datasets/a.ipynb)."))},
    ),
    (answers_answer_the_exercises, {"answers/datasets/a": ANSWERS}),
    (answers_answer_the_exercises, {"datasets/a": chapter(md("## 10. Exercises"))}),
    (lessons_are_one_sitting, {"lessons/10_a": chapter(*FOUR)}),
    (lessons_are_one_sitting, {"examples/first_aid": chapter(md("Word " * 2501))}),
    (the_glossary_is_complete, {"about/words": chapter(md("No table."))}),
    (
        the_glossary_is_complete,
        {"about/words": chapter(md(GLOSSARY.replace("term 7*", "term 8*")))},
    ),
    (the_glossary_is_complete, {"about/words": chapter(md(GLOSSARY.replace("| none |", "|", 1)))}),
    (the_glossary_is_complete, {"about/words": chapter(md(GLOSSARY + "| **noise** | x |"))}),
    (the_glossary_is_true, {"about/words": chapter(md(GLOSSARY))}),
    (
        the_glossary_is_true,
        {
            "about/words": chapter(md(GLOSSARY)),
            "datasets/a": chapter(md("## C\n\nterm\n\n## B\n\nText")),
        },
    ),
    (lessons_are_one_sitting, {"lessons/10_a": chapter(*FOUR[1:], PLAYS)}),
    (lessons_are_one_sitting, {"lessons/10_a": chapter(*FOUR, PLAYS, md("Word " * 2501))}),
    (lessons_are_one_sitting, {"lessons/10_a": chapter(*FOUR, PLAYS, code("x = 1\n" * 251))}),
    (lessons_are_one_sitting, {"lessons/10_a": chapter(*[md("")] * 3, *FOUR, PLAYS)}),
    *(
        (answers_answer_the_exercises, {"datasets/a": asking, "answers/datasets/a": answering})
        for asking, answering in [
            (chapter(md(ASKING.replace("★★", "★"))), ANSWERS),
            (chapter(md(ASKING.replace("Find", "Hide"))), ANSWERS),
            (chapter(md(ASKING.replace("answers/", ""))), ANSWERS),
            (chapter(md(ASKING), title="Another"), ANSWERS),
            (
                chapter(md(ASKING)),
                chapter(md(ANSWERING.replace("../../", "")), title="Answers: A title"),
            ),
        ]
    ),
]


@pytest.mark.parametrize("rule, broken", BROKEN, ids=rule_name)
def test_a_rule_complains_about_what_breaks_it(rule, broken):
    assert [*rule(broken)]


def test_every_rule_has_been_seen_to_complain():
    assert {rule for rule, _ in BROKEN} == {*NOTEBOOK_RULES, *BOOK_RULES}


def test_no_rule_complains_about_a_good_book():
    link = chapter(md("See [it](../datasets/a.ipynb#thm-one)."), module="mechanisms.b", title="B")
    ten = [md(f"## {section}") for section in SECTIONS]
    ten += [md(ASKING.removeprefix("## Exercises").replace("datasets/a", "max_cover/paper"))]
    ten = chapter(*ten, module="max_cover.paper", title="C")
    asking = chapter(*GOOD["cells"][2:], md(ASKING))
    answers = {"cells": [c for c in ANSWERS["cells"] if "default_exp" not in text(c)]}
    more = chapter(md(ANSWERING.replace("datasets/a", "max_cover/paper")), title="Answers: C")
    more = {"cells": [c for c in more["cells"] if "default_exp" not in text(c)]}
    book = {
        "datasets/a": asking,
        "mechanisms/b": link,
        "max_cover/paper": ten,
        "answers/datasets/a": answers,
    }
    book["answers/max_cover/paper"] = more
    asking = md(ASKING.replace("datasets/a", "lessons/10_a"))
    lesson = chapter(*FOUR, PLAYS, asking, title="D")
    solved = chapter(md(ANSWERING.replace("datasets/a", "lessons/10_a")), title="Answers: D")
    for name, nb in (("lessons/10_a", lesson), ("answers/lessons/10_a", solved)):
        book[name] = {"cells": [c for c in nb["cells"] if "default_exp" not in text(c)]}
    complaints = [c for rule in NOTEBOOK_RULES for nb in book.values() for c in rule(nb)]
    assert complaints + [c for rule in BOOK_RULES for c in rule(book)] == []


@pytest.mark.parametrize(
    "parts", ["in /|work/x", "/|tmp/x", "pypi|.org", "shared/|specs", "the |spec"]
)
def test_a_stray_path_or_host_is_found(parts):
    assert "line 2" in next(strangers("a", "first\n" + parts.replace("|", "") + " and so on\n"))


def test_an_ordinary_path_is_no_stranger():
    assert not [*strangers("a", "nbs/work/x, ~/tmp, the specification, `work/main`")]


@pytest.mark.parametrize("lesson", [name for name in BOOK if name.startswith("lessons/")])
def test_who_answers_with_something_else_is_asked_for_a_number(lesson):
    """Words, lists and the like end in a sentence; a number in any form is compared with the answer."""
    cells = ("".join(cell["source"]) for cell in BOOK[lesson]["cells"])
    (cell,) = (text for text in cells if "def check_answer" in text)
    body = [
        node
        for node in ast.parse(cell).body
        if getattr(node, "name", "") == "check_answer"
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("ANSWERS", "KEYS"))
    ]
    world = {"hashlib": hashlib, "sha256": hashlib.sha256}
    exec(compile(ast.Module(body, []), lesson, "exec"), world)
    check = world["check_answer"]
    for odd in ("two", "", [1, 2], (), {}, np.zeros(3), 1j, 10**400, print):
        assert check(1, odd).endswith("please give one number.")
    assert "no answer yet" in check(1, None)
    told = {check(1, x) for x in (-98765, -98765.0, "-98765", np.float64(-98765), np.int64(-98765))}
    assert len(told) == 1 and "not yet" in told.pop()
