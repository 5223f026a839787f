"""Would the checks of the papers' statements detect a false statement? python tools/quality/statements.py

Each [[statement]] of mutants.toml is one change of one line, and the test of the register (nbs/statements.csv) that has
to fail for it. Tests are collected once; for each change the process is forked, the changed function replaces
the old one wherever it was imported, and the test is run. Printed: what was detected, and what was not. The run of all
of them that the register shows is kept by --keep nbs/benchmarks/planted.json.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from mutate import WORDS, Tests
from mutations import function_at, inject

ROOT = Path(__file__).resolve().parents[2]


class Checks(Tests):
    """The plugin of mutate.py, which knows which test has to fail for which change."""

    def record(self):
        """Nothing: the table says which test is to fail."""

    def pytest_runtest_logstart(self, nodeid):
        """No clock."""

    def caught(self, entry):
        """The outcome of one change: "killed", "survived", or why there is none."""
        tree, function = changed(self.root, entry)
        names = [n for test in entry["tests"] for n in self.cases[test]]
        if not names:
            return "no such test"

        def job(say, planted=True):
            if planted:
                inject(self.root / entry["file"], function, tree)
            say("test")
            for name, outcome, _ in self.run(names, say):
                if outcome == "failed":
                    return say("failed", name)
            say("end")

        tests = tuple(entry["tests"])
        if tests not in self.sound:  # do they pass without the change?
            if self.fork(lambda say: job(say, planted=False), self.patience) != "end":
                return "unsound"
            self.sound.add(tests)
        return WORDS[self.fork(job, self.patience).partition(" ")[0]]


def changed(root, entry):
    """The module's tree after the change, and the function (or constant) that it is in."""
    text = (root / entry["file"]).read_text("utf8")
    if text.count(entry["before"]) != 1:
        raise ValueError(f"{entry['of']}: {entry['before']!r} is not found once in {entry['file']}")
    line = text[: text.index(entry["before"])].count("\n") + 1
    tree = ast.parse(text.replace(entry["before"], entry["after"]))
    return tree, function_at(tree, line)


def keep(path, entries, results):
    """Store what was injected, whether it was detected, and on which commit."""
    commit = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(commit, capture_output=True, text=True, check=True).stdout.strip()
    planted = [[entry[field] for field in ("of", "change", "before", "after")] for entry in entries]
    found = {"commit": commit, "results": results, "planted": planted}
    path.write_text(json.dumps(found, indent=0, ensure_ascii=False) + "\n", "utf8")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="part of a statement's name")
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants")
    parser.add_argument("--keep", type=Path, help="a file for the results, with the commit")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    table = tomllib.loads((args.root / "tools/quality/mutants.toml").read_text("utf8"))
    entries = [e for e in table["statement"] if args.only in e["of"]]
    results = []

    def work(tests):
        for entry in entries:
            results.append(tests.caught(entry))
            print(f"{results[-1]:10s} {entry['of']}: {entry['change']}", flush=True)
        print(f"detected {results.count('killed')} of {len(entries)} injected")
        if args.keep:
            keep(args.keep, entries, results)

    os.chdir(args.root)
    sys.path.insert(0, str(args.root))
    files = sorted({test.partition("::")[0] for e in entries for test in e["tests"]})
    options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-m", "", "--capture=sys"]
    plugin = Checks(args.root, table, args.out, 300.0, False, work)
    pytest.main([*options, "--rootdir", str(args.root), *files], plugins=[plugin])
    return results.count("killed") < len(entries)


if __name__ == "__main__":
    sys.exit(main())
