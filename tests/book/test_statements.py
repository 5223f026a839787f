"""The register of the papers' numbered statements: each has a place, a function that exists, and a check that calls it."""

import ast
import csv
import functools
import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
with (ROOT / "nbs" / "statements.csv").open(encoding="utf8", newline="") as file:
    REGISTER = list(csv.DictReader(file))
MODULES = {
    "mechanisms/noise": "dplit.mechanisms.noise",
    "max_cover/paper": "dplit.max_cover.paper",
    "k_tuples/paper": "dplit.k_tuples.paper",
    "k_tuples/kmeans": "dplit.k_tuples.kmeans",
    "k_tuples/averages": "dplit.k_tuples.averages",
    "k_tuples/noisy_centers": "dplit.k_tuples.noisy_centers",
    "private_evolution/paper": "dplit.private_evolution.paper",
    "source_target/medoids": "dplit.source_target",
    "source_target/averages": "dplit.source_target.averages",
    "adaptation/discrepancy": "dplit.adaptation.discrepancy",
    "adaptation/convex": "dplit.adaptation.convex",
    "adaptation/nonconvex": "dplit.adaptation.nonconvex",
}
# how many numbered statements and experiments each paper has
PAPERS = {
    "max_cover": 20,
    "easy_instances": 39,
    "pe_means": 15,
    "source_target": 21,
    "domain_adaptation": 15,
}


@functools.cache
def notebook(file):
    """Pairs (kind, source) of its cells."""
    nb = json.loads((ROOT / file).read_text("utf8"))
    return [(cell["cell_type"], "".join(cell["source"])) for cell in nb["cells"]]


def cells(chapter):
    return [source for _, source in notebook(f"nbs/{chapter}.ipynb")]


@functools.cache
def parse(source):
    return ast.parse(re.sub(r"^(\s*)[%!].*", r"\1pass", source, flags=re.M))  # magics: not Python


def slug(heading):
    """The id that the site gives a heading."""
    text = re.sub(r"[^\w\s.-]", "", heading.lower())
    return re.sub(r"^[^a-z]+", "", re.sub(r"\s+", "-", text.strip()))


def anchors(chapter):
    """What a link into a chapter may lead to: ids, headings, documented names."""
    text = "\n".join(cells(chapter))
    headings = re.findall(r"^#{2,4} (.*)", text, re.M)
    names = re.findall(r"^(?:def|class) (\w+)", text, re.M)
    ids = re.findall(r'id="([^"]+)"', text)
    return {*ids, *map(slug, headings), *map(str.lower, names)}


def name_of(row):
    return f"{row['paper']} {row['label']}"


def test_no_statement_is_missing_or_listed_twice():
    count = {paper: sum(row["paper"] == paper for row in REGISTER) for paper in PAPERS}
    assert count == PAPERS
    assert len({name_of(row) for row in REGISTER}) == len(REGISTER) == sum(PAPERS.values())


@pytest.mark.parametrize("row", REGISTER, ids=name_of)
def test_a_statement_has_its_place(row):
    assert row["anchor"] in anchors(row["chapter"]), row


@pytest.mark.parametrize("row", [r for r in REGISTER if r["function"]], ids=name_of)
def test_a_statement_has_its_function(row):
    name = row["function"]
    if not name.startswith("dplit."):
        name = f"{MODULES[row['chapter']]}.{name}"
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):  # the longest prefix that is a module
        try:
            found = importlib.import_module(".".join(parts[:cut]))
            break
        except ModuleNotFoundError:
            continue
    for part in parts[cut:]:
        found = getattr(found, part)
    assert callable(found)


# ---------------------------------------------------------------- the check calls the function

# statements without a function of their own, and why
NO_FUNCTION = {
    "easy_instances Lemma 2.4": "a lemma about laws that no program computes; its check builds the events",
}


def spoken(node):
    """The last part of a name: sum for np.sum; "" for anything else."""
    return getattr(node, "id", getattr(node, "attr", ""))


def calls(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def called(tree):
    """Names that are called, or handed as they are to something that is called, such as `partial`."""
    handed = (a for call in calls(tree) for a in (*call.args, *(k.value for k in call.keywords)))
    names = {spoken(node) for argument in handed for node in ast.walk(argument)}
    return names | {spoken(call.func) for call in calls(tree)}


def replaced(tree):
    """Names that a patch puts something else in place of."""
    patches = [
        c for c in calls(tree) if "patch" in ast.unparse(c.func) or spoken(c.func) == "setattr"
    ]
    words = (n.value for c in patches for n in c.args if isinstance(n, ast.Constant))
    return {k.arg for c in patches for k in c.keywords} | {str(w).rpartition(".")[2] for w in words}


def definitions(tree):
    """What the top level of a file or cell defines: name to syntax tree."""
    found = {n.name: n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            found |= dict.fromkeys(filter(None, map(spoken, node.targets)), node)
    return found


def with_helpers(check, helpers):
    """The check, and every helper that it mentions, directly or through another one."""
    seen, left = {}, [check]
    while left:
        tree = left.pop()
        seen[id(tree)] = tree
        mentioned = {spoken(node) for node in ast.walk(tree)} & {*helpers}
        left += [helpers[name] for name in mentioned if id(helpers[name]) not in seen]
    return [*seen.values()]


def exercises(check, helpers, name):
    """Whether the check, or a helper of it, calls the function `name`, and none puts another in its place."""
    trees = with_helpers(check, helpers)
    return any(name in called(t) for t in trees) and not any(name in replaced(t) for t in trees)


def checks(test):
    """Pairs (check, helpers) as syntax trees: a test function, or the code cells that a notebook shows under these words."""
    file, _, name = test.partition("::")
    if file.endswith(".py"):
        helpers = definitions(parse((ROOT / file).read_text("utf8")))
        return [(helpers.pop(name), helpers)] if name in helpers else []
    found, helpers, here = [], {}, False
    for kind, source in notebook(file):
        here = here or name in source
        if kind == "code":
            if here:  # the words stand in it, or in the text above it
                found.append((parse(source), dict(helpers)))
            if not source.startswith("#| export"):
                helpers |= definitions(parse(source))
            here = False
    return found


def test_every_statement_has_a_function_or_a_reason():
    assert {name_of(row) for row in REGISTER if not row["function"]} == {*NO_FUNCTION}


@pytest.mark.parametrize("row", REGISTER, ids=name_of)
def test_a_statement_has_its_check(row):
    assert row["test"].partition("::")[2], row
    found = checks(row["test"])
    assert found, row
    name = row["function"].rpartition(".")[2]
    assert not name or any(exercises(*check, name) for check in found), row


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        ("def test():\n    assert f(1) == 2", True),
        ("def test():\n    assert module.f(1) == 2", True),
        ("def helper():\n    return f(1)\n\n\ndef test():\n    assert helper() == 2", True),
        ("make = partial(f, 1)\n\n\ndef test():\n    assert make() == 2", True),
        ("def test():\n    assert 1 + 1 == 2  # f", False),
        ("def test():\n    assert 'f' in names", False),
        ("def test():\n    f\n    assert 1 + 1 == 2", False),
        (
            "def test():\n    with mock.patch.object(module, 'f', g):\n        assert f(1) == 2",
            False,
        ),
        (
            "def test():\n    with mock.patch.multiple(module, f=g):\n        assert f(1) == 2",
            False,
        ),
        ("def other():\n    return f(1)\n\n\ndef test():\n    assert 1 + 1 == 2", False),
    ],
)
def test_a_check_that_does_not_call_its_function_is_noticed(source, verdict):
    helpers = definitions(parse(source))
    assert exercises(helpers.pop("test"), helpers, "f") == verdict
