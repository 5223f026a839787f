"""Other projects' tests on dplit: what tools/quality/foreign.py reports, the stored run and its page, and a small run."""

import csv
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import foreign
import foreign_costs
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = json.loads((ROOT / "nbs/about/statements.ipynb").read_text("utf8"))["cells"]
with (ROOT / "nbs/benchmarks/foreign.csv").open(encoding="utf8", newline="") as file:
    RUN = [*csv.DictReader(file)]
with (ROOT / "tools/quality/foreign.toml").open("rb") as file:
    LISTED = tomllib.load(file)["by_design"]


def table(head):
    """Rows of the table of the page with these first columns."""
    for cell in PAGE:
        for output in cell.get("outputs", []):
            text = "".join(output.get("data", {}).get("text/markdown", ""))
            if head in text:
                lines = [x for x in text.splitlines() if x.startswith("| ")]
                return [[c.strip() for c in x.split(" | ")] for x in lines][1:]
    raise LookupError(head)


def test_the_table_of_the_page_is_the_stored_run():
    counts = {}
    for line in RUN:
        key = line["check"].lower(), line["package"]
        counts.setdefault(key, Counter())[line["outcome"]] += int(line["cases"])
    shown = {}
    for row in table("| check | package | not about dplit"):
        check, package, *numbers = (cell.strip("| ") for cell in row)
        shown[check.lower(), package] = [*map(int, numbers)]
    assert shown == {
        key: [
            n["not about dplit"],
            n["by design"],
            n["passed"] + n["failed"],
            n["passed"],
            n["failed"],
        ]
        for key, n in counts.items()
    }
    parts = Counter(line["part"] for line in RUN)
    assert {*parts} == {*foreign.PARTS}
    assert {line["outcome"] for line in RUN} <= {*foreign.OUTCOMES[:4]}
    assert all(line["dplit"] and line["date"] and re.search(r"\d", line["package"]) for line in RUN)


def test_every_case_by_design_has_its_reason():
    reasons = {entry["reason"] for entry in LISTED} | {*foreign_costs.LOOSE.values()}
    assert all(len(reason.split()) > 5 for reason in reasons)
    met = {line["why"] for line in RUN if line["outcome"] == "by design"}
    assert all(any(why.startswith(reason) for reason in reasons) for why in met)
    assert all(any(why.startswith(reason) for why in met) for reason in reasons)
    checks = {line["check"] for line in RUN}
    for entry in LISTED:
        assert entry["tests"] and {*entry["checks"]} <= checks
        assert all(re.compile(test) for test in entry["tests"])


def test_the_page_explains_every_failure():
    prose = "".join("".join(c["source"]) for c in PAGE if c["cell_type"] == "markdown")
    failed = [line["why"] for line in RUN if line["outcome"] == "failed"]
    assert failed and all(f"`{name.partition('[')[0]}`" in prose for name in failed)


def test_what_is_listed_and_passes_is_reported():
    listed = [("test_a.*", "no weights"), (r"test_b\[x\]", "no rows"), ("test_c", "not there")]
    seen = {
        "test_a1": ("failed", 1),
        "test_a2": ("passed", 2),
        "test_b[x]": ("failed", 0),
        "test_b[y]": ("failed", 1),
        "test_d": ("passed", 1),
        "test_e": ("passed", 0),
    }
    found = {
        ("by design", "no weights"): 1,
        ("listed, but passed", "test_a2"): 1,
        ("by design", "no rows"): 1,
        ("failed", "test_b[y]"): 1,
        ("passed", ""): 1,
        ("not about dplit", ""): 1,
    }
    assert foreign.sorted_out(seen, listed, whole=False) == found
    assert foreign.sorted_out(seen, listed) == found | {("listed, but missing", "test_c"): 1}


def test_a_cost_below_the_truth_and_one_that_is_not_close_fail():
    def grid():
        yield 1.0, 0.999, 1.0
        yield 0.99, 0.999, 1.0  # no guarantee
        yield 1.02, 0.999, 1.0  # not close
        yield 0.0, 0.0, 0.0  # says nothing

    found = foreign_costs.compared(grid)
    assert sorted((o, n) for (o, _), n in found.items()) == [("failed", 2), ("passed", 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "package", "only"),
    [
        ("sklearn", "sklearn", "test_transform or test_wrong_params"),
        ("accounting", "dp_accounting", "test_get_smallest"),
        ("audit", "statdp", "count"),
        ("audit", "dp_auditorium", "count"),
    ],
)
def test_a_small_run_says_what_the_stored_run_says(part, package, only):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    command = [sys.executable, "tools/quality/foreign.py", part, "--only", only]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = [*csv.DictReader(run.stdout.splitlines())]
    checks = {(line["check"], line["outcome"]) for line in RUN}
    assert {(line["check"], line["outcome"]) for line in found} <= checks
    assert {line["why"] for line in found if line["outcome"] == "failed"} <= {
        line["why"] for line in RUN
    }
    assert any(line["outcome"] == "passed" for line in found)
