"""Every line of code that a document shows runs, or says why it does not.

Blocks of code stand in README, CONTRIBUTING, SECURITY, CHANGELOG, in the text of notebooks, and in docstrings. Code
cells of notebooks run elsewhere, by nbval. A block is Python, which is run here; a shell's lines, of which
`python -m dplit` is run here, programs of this repository are asked for the options that are named, and what
installs or takes minutes is listed with the place where it runs; or words, marked as `text`.
"""

import ast
import csv
import doctest
import importlib
import inspect
import json
import math
import pkgutil
import re
import shlex
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dplit
from dplit.__main__ import main
from dplit.command_line.options import parse

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"

# first words of lines of a shell that are not run here, and where they run
ELSEWHERE = {
    "python3 -m venv .venv": "installs: .ci/run does it in a clean checkout",
    ". .venv/bin/activate": "of the reader's shell",
    ".venv/bin/": "of the reader's environment: .ci/run and tools/quality/release.py do the same",
    "jupyter lab": "opens a browser",
    "jupyter execute": "nbval executes every notebook",
    "ruff check": ".ci/run",
    "nbdev_export": ".ci/run",
    "nbdev_clean": ".ci/run",
    "pytest": "this is one",
    "bash .ci/run": "all of this",
    "python tools/": "their options are held below; .ci/run and tests/site run them",
    "python tests/book/test_golden.py --write": "writes into the project; tests/book/test_golden.py has tests",
}
# beginnings of blocks that are no programs of ours, by notebook
WORDS = {
    ("nbs/about/sources.ipynb", "@software{dplit"): "BibTeX",
    ("nbs/lessons/01_first_steps.ipynb", "   1  def average(euros, noise):"): "a bug to find, with numbers of lines",
}  # fmt: skip


def blocks(text):
    """(language, content) of each block between fences."""
    fences = re.finditer(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", text, re.M | re.S)
    return [(fence[1], inspect.cleandoc("\n" + fence[2])) for fence in fences]


def texts():
    """(file, text) of each document, and of the text cells of each notebook."""
    for name in DOCUMENTS:
        text = (ROOT / name).read_text("utf8")
        yield name, "##".join(text.split("\n## ")[:2]) if name == "CHANGELOG.md" else text  # now
    for folder in ("nbs", "teachers"):
        for path in sorted((ROOT / folder).rglob("*.ipynb")):
            if ".ipynb_checkpoints" not in path.parts:
                cells = json.loads(path.read_text("utf8"))["cells"]
                words = ["".join(c["source"]) for c in cells if c["cell_type"] == "markdown"]
                yield str(path.relative_to(ROOT)), "\n\n".join(words)


TEXTS = dict(texts())
BLOCKS = [(name, kind, code) for name, text in TEXTS.items() for kind, code in blocks(text)]
PYTHON = [(name, code) for name, kind, code in BLOCKS if kind == "python"]


def is_words(name, kind, code):
    listed = [(n, b) for n, b in WORDS if n == name and code.startswith(inspect.cleandoc(b))]
    return kind == "text" or bool(listed)


SHELL = [(n, c) for n, k, c in BLOCKS if k != "python" and not is_words(n, k, c)]


def lines_of(code):
    """Commands of a shell: continued lines in one, without comments."""
    joined = re.sub(r"\\\n\s*", "", code)
    lines = [re.sub(r"\s+#.*", "", line).strip() for line in joined.splitlines()]
    return [line for line in lines if line]


def test_no_block_is_forgotten_and_none_is_listed_in_vain():
    """Adding a block of another language, or an unknown command, fails here."""
    for name, kind, code in BLOCKS:
        assert kind in ("", "python", "text"), (name, kind, code)
    for name, code in SHELL:
        for line in lines_of(code):
            known = [start for start in (*ELSEWHERE, "python -m dplit ") if line.startswith(start)]
            assert known, (name, line)
    for (name, start), why in WORDS.items():
        assert why and inspect.cleandoc(start) in "\n".join(c for n, _, c in BLOCKS if n == name)
    every = "\n".join(TEXTS.values())
    assert all(start in every for start in ELSEWHERE)
    assert len(PYTHON) >= 4 and len(SHELL) >= 10


# what a block of Python stands on
SETTINGS = {
    "README.md": "",
    "CONTRIBUTING.md": "from dplit.estimators.kmeans import PrivateKMeans\n"
    "from dplit.inputs.contracts import *\n"
    "from dplit.inputs.contracts import Center, Count, RandomState, Relation, RequiredDelta\n"
    "from dplit.inputs.contracts import RequiredEpsilon, RequiredRadius\n"
    "from dplit.inputs.ranges import Bounds",
    "nbs/inputs/contracts.ipynb": "import math\n"
    "from dplit.inputs.contracts import Chance, Count, Epsilon, Positive",
    "nbs/audit/audit.ipynb": "import numpy as np\nfrom scipy import special",
    "nbs/index.ipynb": "import numpy as np\n"
    "import pandas\n"
    "from dplit import PEMeans\n"
    "groups = np.repeat([[30, 5, 20], [60, 20, 80]], 1000, axis=0)\n"
    "rows = groups + np.random.default_rng(0).normal(size=(2000, 3))\n"
    "shop = pandas.DataFrame(rows, columns=['age', 'visits', 'spend']).assign(customer='somebody')\n"
    "shop.to_csv('shop.csv', index=False)",
}
# blocks of Python that are not run, and why
NOT_RUN = {
    ("nbs/examples/beyond_memory.ipynb", "Client("): "a cluster of machines; the cells beside it run on one",
    ("nbs/examples/a_billion_records.ipynb", "torch.load"): "a graphics card, and 64 GB; the cells below fit another tensor",
}  # fmt: skip


@pytest.mark.parametrize(("name", "code"), PYTHON, ids=lambda value: value[:30])
def test_a_block_of_python_runs(name, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if any(name == n and part in code for n, part in NOT_RUN):
        ast.parse(code)
        return
    space = {}
    exec(SETTINGS[name] or "", space)
    if "\nreturn" in f"\n{code}":  # the end of a function
        code = "def function(u):\n" + "".join(f"    {line}\n" for line in code.splitlines())
    exec(code, space)
    WITNESSES[name](space)


def _of_readme(space):
    centers = space["model"].cluster_centers_
    np.testing.assert_allclose(centers[np.argsort(centers[:, 0])], [[-4, 0], [4, 0]], atol=0.3)
    assert space["budget"].remaining is not None and len(space["budget"].ledger) == 1


def _of_contributing(space):
    model = space["MyKMeans"]
    assert issubclass(model, space["PrivateKMeans"]) and "Parameters" in model.__doc__


def _of_contracts(space):
    """The cells beside it call the function of the module: here the number by hand."""
    found = space["sigma"](4, 100, 1.0, 1e-6)
    assert found == pytest.approx(math.sqrt(18 * 4 * math.log(1e6) * math.log(6.25e6)) / 100)


def _of_audit(space):
    """All words between the two numbers give one draw: the atom that the chapter tells of."""
    below, one, other, above = space["function"](np.array([0.1352, 0.13532, 0.13538, 0.1355]))
    assert one == other and below > one > above


def _of_the_front_page(space):
    centers = space["model"].cluster_centers_
    # some eight standard deviations of its noise
    assert np.allclose(centers[centers[:, 0].argsort()], [[30, 5, 20], [60, 20, 80]], atol=6)


WITNESSES = {
    "README.md": _of_readme,
    "nbs/index.ipynb": _of_the_front_page,
    "CONTRIBUTING.md": _of_contributing,
    "nbs/inputs/contracts.ipynb": _of_contracts,
    "nbs/audit/audit.ipynb": _of_audit,
}


OURS = [
    (name, [line for line in lines_of(code) if line.startswith("python -m dplit")])
    for name, code in SHELL
    if re.search("^python -m dplit", code, re.M)
]


def write_table(path, bounds):
    """A table with the columns that documents speak of, and what they declare of them."""
    rng = np.random.default_rng(0)
    cells = {
        "age": rng.integers(18, 90, 3000),
        "region": rng.choice(["north", "south"], 3000),
        "income": rng.integers(0, 200_000, 3000),
        "person": rng.integers(0, 1500, 3000),  # an id: no range is declared
    }
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(cells)
        writer.writerows(zip(*cells.values(), strict=True))
    bounds.write_text("column,low,high,values,missing\nage,0,120,,middle\nregion,,,north|south,\n")


@pytest.mark.parametrize(("name", "lines"), OURS, ids=lambda value: str(value)[:30])
def test_a_block_of_commands_runs_on_a_table(name, lines, tmp_path, monkeypatch):
    """In the order of the document, in one folder."""
    monkeypatch.chdir(tmp_path)
    asked = [parse(shlex.split(line)[3:]) for line in lines]
    table = next(str(a.table) for a in asked if hasattr(a, "table"))
    write_table(Path(table), Path("bounds.csv"))
    for a in asked:
        if getattr(a, "ledger", None) and not any(hasattr(b, "begin") for b in asked):
            dplit.PrivacyBudget.open(a.ledger, 4.0, 1e-5).close()
    for line in lines:
        assert main(shlex.split(line)[3:]) == 0, line
    for a in asked:
        if hasattr(a, "out"):
            assert (a.out / "report.html").exists() != a.dry_run


def spans(text):
    """Commands in a line of text."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S))


COMMANDS = sorted(
    {
        (name, line.removeprefix(".venv/bin/"))
        for name, text in TEXTS.items()
        for line in [*spans(text), *(line for n, c in SHELL if n == name for line in lines_of(c))]
        if re.match(r"(\.venv/bin/)?python (-m dplit|tools/|tests/)", line)
    }
)


@pytest.mark.parametrize(("name", "line"), COMMANDS, ids=lambda value: value[:40])
def test_a_command_in_a_text_has_the_options_that_it_names(name, line):
    """Ours are parsed, with what is left out filled in; of other programs the file and its options are there."""
    words = shlex.split(line.replace("...", ""))
    if words[1] == "-m":
        full = dict.fromkeys(("TABLE", "FILE", "file"), "t.csv")
        words = [full.get(word, word) for word in words[3:]]
        missing = {
            "cluster": "t --bounds b --clusters 1 --epsilon 1 --delta 1e-6 --out o",
            "check": "t --bounds b",
            "ledger": "l",
        }
        # options alone, of a whole line
        if words and "--help" not in words and words[0] in missing:
            named = {word for word in words[1:] if word.startswith("-")}
            assert named <= _options(words[0]), (name, line)
            words = [words[0], *missing[words[0]].split()]
        try:
            parse(words)
        except SystemExit as ended:
            assert ended.code == 0, (name, line)  # of --help
        return
    program = ROOT / words[1]
    assert program.is_file(), (name, line)
    text = "".join(path.read_text("utf8") for path in sorted(program.parent.glob("*.py")))
    for option in (word for word in words[2:] if word.startswith("--")):
        assert f'"{option}"' in text or f"'{option}'" in text, (name, line)


def _options(command):
    """The options of one of our commands, by its help."""
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as said, pytest.raises(SystemExit):
        parse([command, "--help"])
    return set(re.findall(r"--[\w-]+", said.getvalue()))


CALLS = {  # in the text of README and SECURITY, and what they stand on
    'PrivacyBudget.open("registry.db", epsilon=4, delta=1e-5)': "from dplit import PrivacyBudget",
    'budget.search(model, {"zoom": [True, False]}, X, epsilon=0.5)': "import numpy as np\n"
    "from dplit import PEMeans, PrivacyBudget\n"
    "X = np.random.default_rng(0).normal(size=(500, 2))\n"
    "budget = PrivacyBudget(epsilon=4, delta=1e-5)\n"
    "model = PEMeans(2, epsilon=1.0, delta=1e-6, bounds=([-8, -4], [8, 4]))",
    "bound_contributions(table, ids, 5)": "import numpy as np\nfrom dplit.inputs import bound_contributions\n"
    "table, ids = np.ones((6, 2)), np.zeros(6, dtype=int)",
    "BoundedScaler(low, high)": "from dplit import BoundedScaler\nlow, high = [0, 0], [120, 2e5]",
    "NoisyAverageSet(t=50, rho=0.01, delta=1e-6, radius=1, n_cells=150)": "from dplit import NoisyAverageSet",
}  # fmt: skip


def whole_calls(text):
    """Calls in a text that leave nothing out: of functions with arguments that are no names of places."""
    for span in spans(text):
        try:
            [one] = ast.parse(span).body
        except (SyntaxError, ValueError):
            continue
        call = isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)
        if call and one.value.args + one.value.keywords and "..." not in span:
            yield span


@pytest.mark.parametrize("call", CALLS, ids=lambda value: value[:30])
def test_a_call_in_a_text_works(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = {}
    exec(CALLS[call], space)
    assert eval(call, space) is not None


def test_every_call_in_the_readme_is_tried():
    # of CONTRIBUTING: a place for a name of one's own, values of a style sheet, and the audit's chapter
    others = {'Kept("../benchmarks/NAME.json")', "face(__name__)", "bounds=(low, high)",
              'inject("half the noise, declared", model)', 'Decimal("1e400")'}  # fmt: skip
    found = {call for name in DOCUMENTS[:3] for call in whole_calls(TEXTS[name])}
    found = {call for call in found if not call.startswith("var(")}
    assert found - others == {*CALLS}


def estimators():
    for name in dplit.__all__:
        kind = getattr(dplit, name)
        if inspect.isclass(kind) and hasattr(kind, "privacy_cost"):
            yield name, inspect.signature(kind).parameters


def test_the_readme_names_the_estimators_that_take_bounds():
    [sentence] = re.findall(r"In Python, (.*?) take `bounds=\(low, high\)`", TEXTS["README.md"])
    named = {*re.findall(r"`(\w+)`", sentence)}
    assert named == {name for name, known in estimators() if "bounds" in known}
    others = {name for name, known in estimators() if "radius" in known} - named
    assert others and "`BoundedScaler(low, high)` maps rows into the ball" in TEXTS["README.md"]


def examples():
    """Docstrings with examples, each once: faces show what modules define."""
    found = {}
    for module in pkgutil.walk_packages(dplit.__path__, "dplit."):
        if not module.name.endswith("__main__"):
            known = importlib.import_module(module.name)
            for test in doctest.DocTestFinder(exclude_empty=True).find(known):
                if test.examples:
                    found.setdefault(tuple(line.source for line in test.examples), test)
    return sorted(found.values(), key=lambda test: test.name)


EXAMPLES = examples()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_of_a_docstring_runs(example, tmp_path, monkeypatch):
    """Every line, with the results that it shows; in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    said = []
    failed = doctest.DocTestRunner(verbose=False).run(example, out=said.append).failed
    plt.close("all")
    assert failed == 0, "".join(said)


def test_examples_are_found_where_they_stand():
    names = {example.name.rpartition(".")[2] for example in EXAMPLES}
    assert {"PEMeans", "choose_n_clusters", "private_quantile", "panels", "Kept"} <= names
    sources = [path.read_text("utf8") for path in sorted((ROOT / "dplit").rglob("*.py"))]
    shown = sum(len(re.findall(r"^ *>>> ", text, re.M)) for text in sources)
    lines = [e.source for example in EXAMPLES for e in example.examples]
    assert shown == len(lines)  # none stands where doctest does not look
