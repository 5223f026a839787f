"""How the site shows code: docstrings cut to one line, and code that does not teach folded. Quarto's book does too (site_quarto)."""

import ast
import re
from dataclasses import dataclass, field

LONG = 20  # lines of code that are shown unasked; longer cells are folded
HELPER = 8  # the same of a cell that only defines what later cells use
PLOT = 4  # the same of a cell that draws: readers come for the figure
DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass
class Code:
    """What the site shows of a cell's code."""

    text: str
    public: list = field(default_factory=list)  # names of the functions and classes a reader calls
    imports: bool = False  # it only imports
    folded: str = ""  # the label of the fold; "" if the code is shown
    after: bool = False  # the fold is below what the cell shows


def parse(source):
    try:
        return ast.parse(source)
    except SyntaxError:  # a magic, a shell command
        return ast.Module([], [])


def shorten(source):
    """The source with each docstring cut to its first line."""
    lines = source.split("\n")
    for node in ast.walk(parse(source)):
        if isinstance(node, DEFINITIONS) and (text := ast.get_docstring(node)):
            place, summary = node.body[0], text.partition("\n")[0]
            quoted = 'r"""' if "\\" in summary else '"""'
            lines[place.lineno - 1] = " " * place.col_offset + f'{quoted}{summary}"""'
            after = place.end_lineno
            if len(node.body) > 1 and after < len(lines) and not lines[after].strip():
                after += 1  # the empty line between a docstring and the code
            for n in range(place.lineno, after):
                lines[n] = None
    kept = "\n".join(line for line in lines if line is not None)
    return re.sub(r"\n{3,}(?=\S)", "\n\n", kept)  # one empty line between definitions is enough


def _summary(node):
    """A definition on one line: its name and what it takes, and the first line of its docstring."""
    taken = ""
    if not isinstance(node, ast.ClassDef):
        a = node.args
        first = [x.arg for x in a.posonlyargs + a.args]
        star = [f"*{a.vararg.arg}"] if a.vararg else ["*"] if a.kwonlyargs else []
        rest = [x.arg for x in a.kwonlyargs] + ([f"**{a.kwarg.arg}"] if a.kwarg else [])
        taken = f"({', '.join(first + star + rest)})"
    return f"`{node.name}{taken}`", (ast.get_docstring(node) or "").partition("\n")[0]


def _label(tree, text, draws):
    """The label of the fold of a long cell."""
    shown = [n for n in tree.body if isinstance(n, DEFINITIONS) and n.name[0] != "_"]
    count = len(text.split("\n"))
    if draws:
        return "How this figure is drawn"
    if len(shown) == 1:
        what, says = _summary(shown[0])
        return f"{what} {says}" if says else what
    names = [f"`{n.name}`" for n in shown or tree.body if isinstance(n, DEFINITIONS)]
    if names:
        return ", ".join(names)
    checks = any(isinstance(node, ast.Assert) for node in ast.walk(tree))
    return f"The code of this check, {count} lines" if checks else f"Code, {count} lines"


def show(source, directives=(), options=None, draws=False):
    """What of a cell is shown.

    `directives` are nbdev's (a cell that is exported without its source is folded), `options` Quarto's: an author's own
    `code-fold` and `code-summary` win.
    """
    options, tree = options or {}, parse(source)
    code = Code(shorten(source))
    exported = {"export", "exports"}.intersection(directives)
    code.public = [
        n.name for n in tree.body if isinstance(n, DEFINITIONS) and n.name[0] != "_" and exported
    ]
    code.imports = bool(tree.body) and all(
        isinstance(n, ast.Import | ast.ImportFrom) for n in tree.body
    )
    defines = (
        bool(tree.body) and not exported and all(isinstance(n, DEFINITIONS) for n in tree.body)
    )
    most = PLOT if draws else HELPER if defines else LONG
    fold = options.get("code-fold", code.text.count("\n") >= most or "export" in directives)
    if fold and fold != "show" or code.imports and "code-fold" not in options:
        label = "Imports" if code.imports else _label(tree, code.text, draws)
        code.folded = options.get("code-summary", label)
        code.after = draws
    return code


def split(source):
    """(Quarto's cell options, `#| key: value`, as they are written; the code)."""
    lines = re.match(r"(?:#\|.*\n?)*", source)[0]
    return lines, source[len(lines) :]
