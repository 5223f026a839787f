"""The tool that changes the code: on a tiny package, what a test looks at is killed and what none looks at lives."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("coverage")
TOOL = Path(__file__).resolve().parents[1] / "tools" / "mutate.py"

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
    root = tmp_path_factory.mktemp("mutants")
    for file, text in {
        "tiny/__init__.py": "",
        "tiny/module.py": MODULE,
        "tests/test_tiny.py": TESTS,
        "tools/mutants.toml": TABLE,
    }.items():
        (root / file).parent.mkdir(exist_ok=True)
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
