"""The house: rooms with walls between them, each small enough to see through.

A rule is a function that yields complaints. Below it, the package must pass, and a tiny broken one must fail. Code is
counted without docstrings, comments and empty lines, a class as a reader meets it.
"""

import ast
import graphlib
import io
import itertools
import json
import re
import tokenize
from pathlib import Path

import pytest

import dplit

ROOT = Path(__file__).parent.parent.parent
MODULES = {
    str(path.relative_to(ROOT / "dplit")): path.read_text(encoding="utf-8")
    for path in sorted(ROOT.glob("dplit/**/*.py"))
    if path.name != "_modidx.py"
}
every = pytest.mark.parametrize("name", MODULES)
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
CODE, CLASS, FUNCTION, CELL, ESTIMATOR = 350, 250, 60, 45, 120
# what is written down, what is drawn and what is asked of records: one class each, as its users meet it, as
# large as an estimator may be, docstrings aside
INTERFACE = {"Journal", "Mechanisms", "Noise"}
PAPERS = {"max_cover", "k_tuples", "private_evolution", "source_target", "adaptation"}


def docstrings(tree):
    """Numbers of the lines that docstrings take."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS | ast.ClassDef | ast.Module) and ast.get_docstring(node):
            found |= {*range(node.body[0].lineno, node.body[0].end_lineno + 1)}
    return found


def code_lines(text):
    """Numbers of the lines with code."""
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    kept = [t for t in tokens if t.type not in skipped | {tokenize.ENDMARKER}]
    lines = {n for t in kept for n in range(t.start[0], t.end[0] + 1)}
    return lines - docstrings(ast.parse(text))


def span(node):
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return range(first, node.end_lineno + 1)


def cells_of(text):
    """(line of its first, code) of each cell that nbdev has written into a module."""
    starts = [i for i, line in enumerate(text.split("\n"), 1) if line.startswith("# %% ")]
    return list(itertools.pairwise([*starts, text.count("\n") + 2]))


def too_big(text, most=CODE):
    """What is larger than a module, a class, a function or a cell may be."""
    lines, tree = code_lines(text), ast.parse(text)
    if len(lines) > most:
        yield f"{len(lines)} lines of code"
    estimators = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            if len(span(node)) > CLASS and node.name not in INTERFACE:
                yield f"class {node.name}: {len(span(node))} lines"
            methods = {getattr(n, "name", "") for n in node.body}
            if node.name in INTERFACE or any(
                name == "fit" or name.startswith("_release") for name in methods
            ):
                estimators |= {*span(node)}
        elif isinstance(node, FUNCTIONS) and (code := len(lines & {*span(node)})) > FUNCTION:
            yield f"function {node.name}: {code} lines of code"
    for start, end in cells_of(text):
        code = lines & {*range(start, end)}
        if len(code) > (ESTIMATOR if code & estimators else CELL):
            yield f"cell at line {start}: {len(code)} lines of code"


@every
def test_no_room_is_too_big(name):
    assert not list(too_big(MODULES[name], CODE))


def test_what_is_too_big_is_seen():
    body = "    x = 1\n" * 61
    assert list(too_big(f"def f():\n{body}")) == ["function f: 62 lines of code"]
    assert list(too_big(f'def f():\n    """{body}"""\n')) == []
    long = "class C:\n" + '    """a\n' + "    b\n" * 250 + '    """\n'
    assert list(too_big(long)) == ["class C: 253 lines"]
    assert list(too_big("# a comment\n" * 701)) == []
    assert list(too_big("x = 1\n" * 351)) == ["351 lines of code"]
    assert list(too_big("# %% a\n" + "x = 1\n" * 46)) == ["cell at line 1: 46 lines of code"]
    estimator = "# %% a\nclass E:\n    def fit(self):\n        pass\n\n" + "    x = 1\n" * 50
    assert list(too_big(estimator)) == []
    assert list(too_big(estimator.replace("fit", "work"))) == ["cell at line 1: 53 lines of code"]


# --- walls ---


def room_of(name):
    """The room of a module, as "ledger" of "ledger/store.py"; "" if it lies in none."""
    return name.rpartition("/")[0]


def dotted(name):
    """ "dplit.ledger.store" of "ledger/store.py", "dplit.ledger" of its face."""
    return ".".join(["dplit", *name.removesuffix(".py").split("/")]).removesuffix(".__init__")


def imports(name, text):
    """(module, name in it or "", name here) of all that a module imports from this package, wherever in its code."""
    package = ["dplit", *name.split("/")[:-1]]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found = [(a.name, "", a.asname or a.name) for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            found = [(module, a.name, a.asname or a.name) for a in node.names]
        else:
            continue
        yield from (i for i in found if i[0].split(".")[0] == "dplit")


def imported(modules, name):
    """The same as (module, name in it or "", name here), where a module may be a name in a room."""
    known = {*map(dotted, modules)}
    for module, what, here in imports(name, modules[name]):
        inner = f"{module}.{what}"
        yield (inner, "", here) if inner in known else (module, what, here)


def inside(modules):
    """Names of what lies in a room."""
    return [name for name in modules if room_of(name)]


def what_lies_in_no_room(modules):
    """Flat in the package lie `__init__` and `__main__` only; a folder is a room, and has none inside."""
    for name in modules:
        if name not in {"__init__.py", "__main__.py"} and room_of(name) not in dplit.ROOMS:
            yield name


def imports_from_below(modules):
    """A module imports from its own room and from rooms above it in `dplit.ROOMS`; a paper's from no other paper's."""
    for name in inside(modules):
        room = room_of(name)
        above = dplit.ROOMS[: dplit.ROOMS.index(room) + 1]
        for module, what, _ in imported(modules, name):
            other = (*module.split("."), "")[1]
            if other not in above or len({room, other} & PAPERS) == 2:
                yield f"{name} imports {module} {what}".rstrip()


def circles(modules):
    """Modules that import each other, at once or when a function is called."""
    graph = {
        dotted(name): {module for module, *_ in imported(modules, name)} - {"dplit"}
        for name in inside(modules)
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        yield " <- ".join(error.args[1])


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def private_names_of_other_rooms(modules):
    """A leading underscore ends at the wall."""
    for name in inside(modules):
        rooms = {}  # modules of other rooms, by their names here
        for module, what, here in imported(modules, name):
            if (*module.split("."), "")[1] != room_of(name):
                rooms |= {} if what else {here: module}
                if any(map(is_private, [*module.split("."), what])):
                    yield f"{name} imports {module} {what}".rstrip()
        for node in ast.walk(ast.parse(modules[name])):
            if isinstance(node, ast.Attribute) and is_private(node.attr):
                if (module := rooms.get(ast.unparse(node.value))) is not None:
                    yield f"{name} reads {module} {node.attr}"


def what_hides_an_import(modules):
    """An import of this package is a statement: no `import_module`, no `__getattr__` of a module. `__init__` alone loads rooms late."""
    for name, text in modules.items():
        tree = ast.parse(text)
        own = {getattr(n, "name", "") for n in tree.body}
        own |= {ast.unparse(t) for n in tree.body if isinstance(n, ast.Assign) for t in n.targets}
        if "__getattr__" in own:
            yield f"{name}: __getattr__"
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                call = ast.unparse(node)
                if re.match(r"(\w+\.)*import_module\(", call) or (
                    call.startswith("__import__(") and "dplit" in call and name != "__init__.py"
                ):
                    yield f"{name}: {call}"
            elif isinstance(node, ast.ClassDef) and name != "__init__.py":
                if any(ast.unparse(base).endswith("ModuleType") for base in node.bases):
                    yield f"{name}: class {node.name} of a module"


def strange_faces(modules):
    """A face is a docstring, imports, the list of their names, and at most the line that makes contracts of them."""
    for name in inside(modules):
        if not name.endswith("/__init__.py"):
            continue
        tree = ast.parse(modules[name])
        first, *body = tree.body or [None]
        if first is None or not ast.get_docstring(tree):
            yield f"{name} does not say what it is for"
            body = tree.body
        if body and ast.unparse(body[-1]) == "face(__name__)":
            *body, _ = body
        lists = [
            n for n in body if isinstance(n, ast.Assign) and ast.unparse(n.targets) == "__all__"
        ]
        rest = [n for n in body if n not in lists and not isinstance(n, ast.ImportFrom)]
        yield from (f"{name}: {ast.unparse(n).splitlines()[0]}" for n in rest)
        if len(lists) != 1:
            yield f"{name} has {len(lists)} lists of names"
            continue
        here = {h for _, _, h in imports(name, modules[name])} - {"face"}
        odd = here ^ ({*ast.literal_eval(lists[0].value)} - {"face"})
        if odd:
            yield f"{name} imports or lists, but not both: {sorted(odd)}"


WALLS = [
    what_lies_in_no_room,
    imports_from_below,
    circles,
    private_names_of_other_rooms,
    what_hides_an_import,
    strange_faces,
]
FACE = '"""What it is for."""\n\nfrom .store import a\n\n__all__ = ["a"]\n'


@pytest.mark.parametrize("rule", WALLS, ids=lambda rule: rule.__name__)
def test_walls(rule):
    assert not [*rule(MODULES)]


BROKEN = [
    (what_lies_in_no_room, {"kitchen.py": ""}),
    (what_lies_in_no_room, {"kitchen/sink.py": ""}),
    (what_lies_in_no_room, {"ledger/old/store.py": ""}),
    (imports_from_below, {"inputs/a.py": "from ..ledger import b"}),
    (imports_from_below, {"inputs/a.py": "def f():\n    import dplit.ledger.store"}),
    (imports_from_below, {"inputs/a.py": "from .. import ledger", "ledger/__init__.py": ""}),
    (imports_from_below, {"ledger/a.py": "from dplit import PEMeans"}),
    (imports_from_below, {"k_tuples/a.py": "from ..max_cover.grid import Grid"}),
    (circles, {"ledger/a.py": "from .b import x", "ledger/b.py": "def f():\n    from .a import y"}),
    (circles, {"ledger/a.py": "from . import b", "ledger/__init__.py": "from .a import x"}),
    (private_names_of_other_rooms, {"ledger/a.py": "from ..inputs.tables import _whole"}),
    (private_names_of_other_rooms, {"ledger/a.py": "from ..inputs._hidden import whole"}),
    (
        private_names_of_other_rooms,
        {"ledger/a.py": "from ..inputs import tables as t\nt._whole()", "inputs/tables.py": ""},
    ),
    (what_hides_an_import, {"ledger/a.py": "def f():\n    importlib.import_module('b')"}),
    (what_hides_an_import, {"ledger/a.py": "def f():\n    __import__('dplit.audit')"}),
    (what_hides_an_import, {"__init__.py": "def __getattr__(name): ..."}),
    (what_hides_an_import, {"ledger/__init__.py": "class Late(ModuleType): ..."}),
    (strange_faces, {"ledger/__init__.py": ""}),
    (strange_faces, {"ledger/__init__.py": FACE.split("\n\n", 1)[1]}),
    (strange_faces, {"ledger/__init__.py": FACE.replace('["a"]', '["a", "b"]')}),
    (strange_faces, {"ledger/__init__.py": FACE + "b = a\n"}),
    (strange_faces, {"ledger/__init__.py": FACE + "face(__name__)\nface(__name__)\n"}),
    (strange_faces, {"ledger/__init__.py": FACE.replace('__all__ = ["a"]\n', "")}),
]


@pytest.mark.parametrize("rule, modules", BROKEN, ids=lambda v: getattr(v, "__name__", ""))
def test_a_breach_is_seen(rule, modules):
    assert [*rule(modules)]


def test_walls_have_doors():
    fine = {
        "__init__.py": "def f():\n    __import__('dplit.ledger')",
        "__main__.py": "from .ledger import a",
        "ledger/__init__.py": FACE + "face(__name__)\n",
        "ledger/store.py": "import os\nfrom ..inputs import tables as t\nfrom .rules import _told\nt.whole",
        "ledger/rules.py": "",
        "inputs/tables.py": "from __future__ import annotations",
        "clustering/a.py": "from ..k_tuples.b import c\nfrom ..max_cover.b import d",
    }
    assert not [complaint for rule in WALLS for complaint in rule(fine)]


# --- what a face shows ---


def shown_by_mistake(names):
    """Completion after `dplit.` shows the public names and the rooms."""
    return {*names} ^ {*dplit.__all__, *dplit.ROOMS}


def test_completion_shows_public_names_and_rooms_only():
    assert not shown_by_mistake(dir(dplit))
    assert shown_by_mistake([*dir(dplit), "annotations"]) == {"annotations"}


def source(cell):
    return "".join(cell["source"])


def is_exported(cell):
    return cell["cell_type"] == "code" and re.match(r"#\| *export", source(cell)) is not None


BOOK = {
    str(path.relative_to(ROOT)): json.loads(path.read_text(encoding="utf-8"))["cells"]
    for folder in ("nbs", "teachers")
    for path in sorted(ROOT.glob(f"{folder}/**/*.ipynb"))
    if ".ipynb_checkpoints" not in path.parts
}


def said(book, *texts):
    """The words of the book: all but the code that the modules get."""
    cells = (source(c) for page in book.values() for c in page if not is_exported(c))
    return {word for text in (*cells, *texts) for word in re.findall(r"\w+", text)}


def names_without_a_page(modules, words):
    """A name of a face occurs in a lesson, a chapter, an example, an answer, the homework or the README."""
    for name in inside(modules):
        if name.endswith("/__init__.py"):
            for _, _, here in imports(name, modules[name]):
                if here not in words | {"face"}:
                    yield f"{room_of(name)}.{here}"


WORDS = said(BOOK, (ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("room", dplit.ROOMS)
def test_every_name_of_a_face_occurs_in_the_book(room):
    face = f"{room}/__init__.py"
    assert not [*names_without_a_page({face: MODULES[face]}, WORDS)]


def test_a_name_that_only_its_definition_knows_is_seen():
    page = [cell("#| export\ndef a(): ..."), cell("It has `b`.", "markdown"), cell("c()")]
    words = said({"a page": page}, "and d")
    faces = {"ledger/__init__.py": "from .store import a, b, c, d"}
    assert [*names_without_a_page(faces, words)] == ["ledger.a"]


# --- a module is worth reading ---


def cell(text, kind="code", outputs=()):
    return {"cell_type": kind, "source": [text], "outputs": [*outputs]}


def is_worth_reading(cell):
    """Prose, a value or a check."""
    if cell["cell_type"] == "markdown":
        return True
    text = source(cell)
    if is_exported(cell) or re.match(r"#\| *hide", text):
        return False
    return bool(cell["outputs"]) or re.search(r"^ *assert\b", text, re.M) is not None


def only_imports(cell):
    return all(isinstance(n, ast.Import | ast.ImportFrom) for n in ast.parse(source(cell)).body)


def thin(page):
    """Exported cells that stand alone, and too few words for so much code (docstrings are code here)."""
    exported = [i for i, cell in enumerate(page) if is_exported(cell)]
    for i in exported:
        if only_imports(page[i]):
            continue
        if not any(map(is_worth_reading, page[i + 1 : i + 3])):
            first = next(line for line in source(page[i]).split("\n")[1:] if line.strip())
            yield f"cell {i} ({first[:50]}) is followed by no prose, value or check"
    lines = [line.strip() for i in exported for line in source(page[i]).split("\n")]
    code = sum(bool(line) and not line.startswith("#") for line in lines)
    words = sum(len(source(cell).split()) for cell in page if cell["cell_type"] == "markdown")
    if words < code:
        yield f"{words} words for {code} lines of code"


EXPORTING = [name for name, page in BOOK.items() if any(map(is_exported, page))]


@pytest.mark.parametrize("name", EXPORTING)
def test_a_module_is_worth_reading(name):
    assert not [*thin(BOOK[name])]


def test_what_is_not_worth_reading_is_seen():
    made, prose = cell("#| export\nx = 1\ny = 2"), cell("Two numbers, for you.", "markdown")
    check = cell("for _ in x:\n    assert _")
    for beside in (prose, cell("x", outputs=["1"]), cell("assert x"), check):
        assert not [*thin([made, beside, prose])]
        assert not [*thin([prose, made, made, beside])]
    alone = "cell 0 (x = 1) is followed by no prose, value or check"
    for beside in (made, cell("#| hide\nassert x", outputs=["1"]), cell("import os")):
        assert [*thin([made, beside, beside, prose, prose, prose])] == [alone]
    assert not [*thin([cell("#| export\nimport os"), cell("import io"), made, prose])]
    assert [*thin([made, cell("Numbers.", "markdown")])] == ["1 words for 2 lines of code"]
