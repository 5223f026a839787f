"""The tool that changes the code: on a tiny package, what a test looks at is killed and what none looks at lives.

And its table: whatever is named there exists.
"""

import csv
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from mutations import mutants_of, names_of

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools/quality/mutate.py"

MODULE = """
from functools import lru_cache

_STEP = 3

class Box:
    @property
    def size(self):
        return _STEP - 1

@lru_cache
def seen(a, b):
    return a + b

def unseen(a):
    return abs(a)

def never(a):
    return a + a

def endless(n):
    while n > 0:
        n -= 1
    return n
"""

TESTS = """
from tiny.module import Box, endless, seen, unseen

KNOWN = seen(1, 2)

def test_seen():
    assert seen(1, 2) == 3 and unseen(1) == 1

def test_box():
    assert Box().size == 2

def test_endless():
    assert endless(3) == 0
"""

TABLE = """
never = ["never"]
[tests]
cases = 3
seconds = 1
files_left_out = []
leave_out = []
[functions]
"tiny/module.py" = ["*"]
[[equivalent]]
in = "endless"
before = "n > 0"
after = "n >= 0"
why = "not true: for the test"
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    pytest.importorskip("coverage")
    root = tmp_path_factory.mktemp("mutants")
    for file, text in {
        "tiny/__init__.py": "",
        "tiny/module.py": MODULE,
        "tests/tiny/test_tiny.py": TESTS,
        "tools/quality/mutants.toml": TABLE,
    }.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    env = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, TOOL, "--root", root, "--out", root / "out"]
    shown = subprocess.run(map(str, command), env=env, capture_output=True, text=True, timeout=200)
    assert not shown.returncode, shown.stdout + shown.stderr
    rows = list(csv.DictReader((root / "out" / "mutants.csv").read_text().splitlines()))
    return shown.stdout, rows


def of(rows, before, after):
    (row,) = (row for row in rows if (row["before"], row["after"]) == (before, after))
    return row


@pytest.mark.parametrize(
    "before, after, killer",
    [
        ("a + b", "a - b", "test_seen"),  # although the sum was cached when the tests were read
        ("_STEP - 1", "_STEP + 1", "test_box"),
        ("3", "4", "test_box"),  # a constant
        ("n -= 1", "pass", "test_endless"),
    ],
)
def test_what_a_test_looks_at_is_killed_by_it(results, before, after, killer):
    row = of(results[1], before, after)
    assert row["result"].startswith("killed") and row["killing test"].endswith(killer)


def test_what_no_test_looks_at_lives_and_is_listed(results):
    shown, rows = results
    assert of(rows, "abs(a)", "a")["result"] == "survived"
    assert "abs(a)  ->  a  (survived)" in shown


def test_what_is_called_equivalent_is_not_counted(results):
    shown, rows = results
    assert of(rows, "n > 0", "n >= 0")["result"].startswith("equivalent (not true")
    killed = sum(row["result"].startswith("killed") for row in rows)
    assert f"equivalent: {killed / (len(rows) - 1):.1%}" in shown


GIVEN = tomllib.loads((ROOT / "tools/quality/mutants.toml").read_text())


def chosen(names, patterns):
    return [name for name in names if any(fnmatchcase(name, p) for p in patterns)]


def unmatched(patterns, names):
    return [p for p in patterns if not any(fnmatchcase(name, p) for name in names)]


def test_every_module_is_in_the_table_or_said_to_be_left_out():
    modules = {str(file.relative_to(ROOT)) for file in ROOT.glob("dplit/**/*.py")}
    modules = {file for file in modules if not file.endswith(("__init__.py", "_modidx.py"))}
    inside, outside = set(GIVEN["functions"]), set(GIVEN["rooms_left_out"])
    assert inside | outside == modules, f"mutants.toml: {(inside | outside) ^ modules}"
    assert not inside & outside


def test_every_pattern_of_the_table_matches_something():
    names = {file: names_of(ROOT, file) for file in GIVEN["functions"]}
    dead = {file: unmatched(GIVEN["functions"][file], there) for file, there in names.items()}
    assert not {file: patterns for file, patterns in dead.items() if patterns}
    changed = [n for file, there in names.items() for n in chosen(there, GIVEN["functions"][file])]
    # what the patterns of functions have not chosen needs no "never"
    assert not unmatched(GIVEN["never"], changed)
    files = {file.stem[5:]: file.read_text() for file in ROOT.glob("tests/*/test_*.py")}
    assert set(GIVEN["tests"]["files_left_out"]) <= files.keys()
    read = {n: text for n, text in files.items() if n not in GIVEN["tests"]["files_left_out"]}
    tests = [f"{n}::{f}" for n, text in read.items() for f in re.findall(r"^def (test_\w+)", text, re.M)]  # fmt: skip
    assert not unmatched(GIVEN["tests"]["leave_out"], tests)


def test_every_equivalent_change_is_one_that_the_tool_makes():
    told = {(e["in"], e["before"], e["after"]): e.get("times", 1) for e in GIVEN["equivalent"]}
    assert len(told) == len(GIVEN["equivalent"])
    made, wanted = Counter(), {function for function, *_ in told}
    for file, patterns in GIVEN["functions"].items():
        functions = wanted.intersection(chosen(names_of(ROOT, file), patterns))
        functions = functions.difference(chosen(functions, GIVEN["never"]))
        rows = (row for row, *_ in mutants_of(ROOT, file, functions))
        made.update((row["function"], row["before"], row["after"]) for row in rows)
    assert {key: made[key] for key in told} == told
