"""The register of what the five papers number, show or claim: each has a place, and a check that calls its function, or a verdict.

Whether it is complete is decided by papers.csv, a list that was made from the papers alone, before the register was
looked at, and of the theorems of others by the boxes that cite one. Every check has a false statement that is planted,
or a reason why not; that all were caught, and what the tables of claims hold, is tested too.
"""

import ast
import csv
import functools
import importlib
import json
import re
import tomllib
from collections import Counter
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
    "source_target/real_data": "dplit.source_target",
    "source_target/averages": "dplit.source_target.averages",
    "adaptation/discrepancy": "dplit.adaptation.discrepancy",
    "adaptation/convex": "dplit.adaptation.convex",
    "adaptation/nonconvex": "dplit.adaptation.nonconvex",
}
with (Path(__file__).parent / "papers.csv").open(encoding="utf8", newline="") as file:
    PAPERS = [(row["paper"], row["label"]) for row in csv.DictReader(file)]
with (ROOT / "tools" / "quality" / "mutants.toml").open("rb") as file:
    _TABLE = tomllib.load(file)
    PLANTED, UNPLANTED = _TABLE["statement"], _TABLE["no_false_version"]
OF_PAPERS = [row for row in REGISTER if row["paper"] != "literature"]


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


def items_of(row):
    """What a row of the register stands for: one item, or a run of figures."""
    figures = re.fullmatch(r"Figures (\d+) to (\d+)", row["label"])
    if not figures:
        return [(row["paper"], row["label"])]
    first, last = map(int, figures.groups())
    return [(row["paper"], f"Figure {i}") for i in range(first, last + 1)]


def named_by(row):
    return [test for test in row["test"].split(" + ") if test]


def test_the_list_from_the_papers_and_the_register_are_the_same():
    registered = Counter(item for row in OF_PAPERS for item in items_of(row))
    assert not Counter(PAPERS) - registered and not registered - Counter(PAPERS)
    assert max(registered.values()) == 1 and len(OF_PAPERS) >= 240 and len(PAPERS) >= 414


def boxes(chapter):
    """Pairs (id, title) of the theorem boxes of a chapter."""
    text = "\n".join(cells(chapter))
    return re.findall(r'<div id="((?:thm|lem|cor)-[\w-]+)">\s*#### (.*)', text)


def test_a_theorem_that_cites_somebody_is_in_the_register():
    """A box whose title has a year: after others. Those of the form for a new chapter and of lessons are not the book's."""
    known = {(row["chapter"], row["anchor"]) for row in REGISTER}
    files = sorted((ROOT / "nbs").rglob("*.ipynb"))
    chapters = [file.relative_to(ROOT / "nbs").with_suffix("").as_posix() for file in files]
    chapters = [c for c in chapters if not c.startswith(("lessons/", "about/", "answers/"))]
    cited = {
        (c, i) for c in chapters for i, title in boxes(c) if re.search(r"\b(19|20)\d\d", title)
    }
    assert not cited - known and len(cited) >= 12
    assert len(REGISTER) - len(OF_PAPERS) >= 30


def test_every_row_has_a_check_or_a_verdict():
    """A verdict is a sentence; where there is neither check nor number it says why."""
    for row in REGISTER:
        assert row["test"] or len(row["verdict"].split()) > 2 or row["verdict"] in GIVEN_UP, row
        assert row["kind"] and row["about"], row


GIVEN_UP = {"not repeated", "open: not treated", "missing: as Table 2"}


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
    "pe_means Equation 7": "the rule of trapezoids, which is numpy's",
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
    bare = {name_of(row) for row in REGISTER if not row["function"] and not row["verdict"]}
    assert bare == {*NO_FUNCTION}


@pytest.mark.parametrize("row", [r for r in REGISTER if r["test"]], ids=name_of)
def test_a_statement_has_its_check(row):
    found = []
    for test in named_by(row):
        assert test.partition("::")[2] and checks(test), (row, test)
        found += checks(test)
    name = row["function"].rpartition(".")[2]
    assert not name or any(exercises(*check, name) for check in found), row


# ---------------------------------------------------------------- false statements that are planted

# of which a reader found that a false statement would pass
WEAK = [
    *(f"max_cover {label}" for label in ("Theorem 5", "Theorem 2", "Theorem 3", "Theorem 6")),
    *(f"max_cover {label}" for label in ("Algorithm 1", "Algorithm 3", "Lemma 9")),
    *("max_cover Lemma 13", "max_cover Lemma 14", "easy_instances Theorem 4.8"),
    *("easy_instances Theorem 4.11", "easy_instances Claim 4.3", "source_target Theorem 5.5"),
    *("pe_means Equation 5", "pe_means Section IV-C, variations", "domain_adaptation Lemma 4.1"),
]


def test_what_is_planted_is_one_change_and_a_check_of_the_register():
    rows = {name_of(row): row for row in REGISTER}
    for entry in PLANTED:
        assert {*entry["tests"]} <= {*named_by(rows[entry["of"]])}, entry
        text = (ROOT / entry["file"]).read_text("utf8")
        assert text.count(entry["before"]) == 1 and entry["before"] != entry["after"], entry
    assert {*WEAK} <= {entry["of"] for entry in PLANTED}
    assert len(PLANTED) >= 200


def test_every_check_has_a_false_version_or_a_reason_why_not():
    """What is measured has a cell that asserts its verdict."""
    planted = {entry["of"] for entry in PLANTED}
    reasons = {name: why for why, names in UNPLANTED.items() for name in names}
    checked = {name_of(row): row for row in REGISTER if row["test"]}
    assert planted | {*reasons} == {*checked} and not planted & {*reasons}
    assert sum(map(len, UNPLANTED.values())) == len(reasons) < 60
    for name in (n for n, why in reasons.items() if why.startswith("measured")):
        found = [tree for test in named_by(checked[name]) for tree, _ in checks(test)]
        assert any(isinstance(node, ast.Assert) for t in found for node in ast.walk(t)), name


def test_the_kept_run_planted_what_is_planted_now_and_all_was_caught():
    """By `python tools/quality/statements.py --keep nbs/benchmarks/planted.json`; a change of the table asks for another run."""
    kept = json.loads((ROOT / "nbs" / "benchmarks" / "planted.json").read_text("utf8"))
    now = [[entry["of"], entry["change"], entry["before"], entry["after"]] for entry in PLANTED]
    assert kept["planted"] == now
    assert {*kept["results"]} == {"killed"} and len(kept["results"]) == len(now)


# ---------------------------------------------------------------- tables of claims

CLAIMED = {
    "max_cover/paper": 8,
    "private_evolution/paper": 11,
    "k_tuples/paper": 12,
    "source_target/real_data": 12,
    "adaptation/convex": 15,
    "adaptation/nonconvex": 8,
}


@pytest.mark.parametrize("chapter", CLAIMED)
def test_a_chapter_ends_with_the_papers_claims(chapter):
    """In the paper's words, with one of three verdicts, and numbers wherever it is not undecided."""
    cells = json.loads((ROOT / "nbs" / f"{chapter}.ipynb").read_text("utf8"))["cells"]
    shown = [
        "".join(output["data"]["text/markdown"])
        for cell in cells
        for output in cell.get("outputs", [])
        if "text/markdown" in output.get("data", {})
    ]
    (table,) = (text for text in shown if text.startswith("| claim | verdict |"))
    lines = [line.split(" | ") for line in table.splitlines()[2:]]
    assert len(lines) == CLAIMED[chapter]
    for claim, verdict, measured, *_ in lines:
        assert re.search(r"\b(confirmed|undecided)\b", verdict), claim
        assert verdict == "undecided" or re.search(r"\d", measured) or "(" in measured, claim
    assert sum('"' in claim for claim, *_ in lines) >= 2
    assert "The paper's claims" in "\n".join("".join(cell["source"]) for cell in cells)


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
