"""The register of the papers' numbered statements: each has a place, a function that exists and a test that exists."""

import ast
import csv
import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
with (ROOT / "nbs" / "statements.csv").open(encoding="utf8", newline="") as file:
    REGISTER = list(csv.DictReader(file))
MODULES = {
    "11_mechanisms": "dplit.mechanisms",
    "30_max_cover": "dplit.clustering.max_cover",
    "40_k_tuples": "dplit.clustering.k_tuples",
    "41_stable_clusters": "dplit.clustering.stable",
    "50_private_evolution": "dplit.clustering.private_evolution",
    "60_source_target": "dplit.source_target",
    "70_discrepancy": "dplit.adaptation.discrepancy",
    "71_convex_adaptation": "dplit.adaptation.convex",
    "72_nonconvex_adaptation": "dplit.adaptation.nonconvex",
}
# how many numbered statements and experiments each paper has
PAPERS = {
    "max_cover": 20,
    "easy_instances": 39,
    "pe_means": 15,
    "source_target": 21,
    "domain_adaptation": 15,
}


def cells(chapter):
    nb = json.loads((ROOT / "nbs" / f"{chapter}.ipynb").read_text("utf8"))
    return ["".join(cell["source"]) for cell in nb["cells"]]


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


@pytest.mark.parametrize("row", REGISTER, ids=name_of)
def test_a_statement_has_its_check(row):
    file, _, name = row["test"].partition("::")
    assert name, row
    if file.endswith(".py"):
        tree = ast.parse((ROOT / file).read_text("utf8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    else:
        assert any(name in cell for cell in cells(Path(file).stem)), row
