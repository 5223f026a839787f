"""Other projects' tests and tools, run on dplit: python tools/quality/foreign.py [sklearn] [accounting] [audit]

sklearn: the installed tests of scikit-learn's KMeans, with our estimators in its place. accounting: two of the test
files that dp-accounting installs, with our functions in place of theirs, and grids of privacy costs compared with its
privacy loss distributions. audit: StatDP and DP-Auditorium, which see only outputs, on our mechanisms and fits.
Nothing of theirs is copied; what is not installed is named and left out. foreign.toml lists the tests that cannot pass
by design, each with its reason. A test is "not about dplit" if it passes and called nothing of ours; every other test
that is not listed is applicable. Results are printed, and kept by --keep nbs/benchmarks/foreign.csv. The two audits
are not on PyPI:

    pip install --no-deps git+https://github.com/cmla-psu/statdp
    pip install --no-deps 'git+https://github.com/google/differential-privacy#subdirectory=python/dp_auditorium'
    pip install -e '.[foreign]'
"""

import argparse
import contextlib
import csv
import importlib.util
import json
import os
import re
import sys
import tempfile
import tomllib
from collections import Counter
from datetime import date
from importlib import import_module, metadata
from pathlib import Path

import pytest

import dplit

sys.path.insert(0, str(Path(__file__).parent))
import foreign_audit
import foreign_costs
import foreign_kmeans

COLUMNS = "part", "check", "package", "outcome", "cases", "why", "dplit", "date"
OUTCOMES = (
    "passed",
    "failed",
    "by design",
    "not about dplit",
    "listed, but passed",
    "listed, but missing",
)
SEED = "SKLEARN_TESTS_GLOBAL_RANDOM_SEED"


def by_design(check):
    """What foreign.toml lists for a check: (regular expression of a test's name, reason)."""
    with (Path(__file__).parent / "foreign.toml").open("rb") as file:
        entries = tomllib.load(file)["by_design"]
    return [(t, e["reason"]) for e in entries if check in e["checks"] for t in e["tests"]]


class Watch:
    """A plugin of pytest: the outcome of each test, and how often it called something of ours."""

    def __init__(self, calls):
        self.calls, self.seen = calls, {}

    def pytest_runtest_setup(self):
        self.calls.clear()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if report.when == "call" and not report.skipped:
            self.seen[item.name] = report.outcome, len(self.calls)
        return report


def tests_of(module, calls, chosen=""):
    """Runs one installed test file; {name of a test: (outcome, number of calls of ours)}."""
    watch, path = Watch(calls), importlib.util.find_spec(module).origin
    sys.modules.pop(module, None)  # it keeps the class that it imported
    root = Path(import_module(module.partition(".")[0]).__file__).parent
    options = ["-q", "--tb=no", "-p", "no:nbval", "-p", "no:cacheprovider", "-W", "ignore"]
    with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
        with contextlib.redirect_stdout(sys.stderr):
            pytest.main(
                [path, *options, "-c", os.devnull, "--rootdir", str(root), "-k", chosen],
                plugins=[watch],
            )
    return watch.seen


def sorted_out(seen, listed, whole=True):
    """Counter of (outcome, why) of the tests of a whole file, or of some of them."""
    found, used = Counter(), set()
    for name, (outcome, calls) in seen.items():
        if outcome == "passed" and not calls:
            found["not about dplit", ""] += 1
            continue
        fits = [(test, why) for test, why in listed if re.fullmatch(test, name)]
        used |= {test for test, _ in fits}
        if outcome == "passed":
            found[("listed, but passed", name) if fits else ("passed", "")] += 1
        else:
            found[("by design", fits[0][1]) if fits else ("failed", name)] += 1
    missing = [test for test, _ in listed if test not in used] if whole else []
    found.update(("listed, but missing", test) for test in missing)
    return found


def version(package):
    """A package with its version, and the commit if it was installed from one."""
    found = metadata.distribution(package)
    commit = json.loads(found.read_text("direct_url.json") or "{}").get("vcs_info", {})
    return f"{package} {found.version} {commit.get('commit_id', '')[:7]}".strip()


def run_sklearn(chosen=""):
    os.environ.setdefault(SEED, "42")
    for name, shim in foreign_kmeans.SHIMS.items():
        with foreign_kmeans.in_place(shim):
            seen = tests_of("sklearn.cluster.tests.test_k_means", foreign_kmeans.CALLS, chosen)
        check = f"test_k_means.py, {name}"
        yield check, "scikit-learn", sorted_out(seen, by_design(check), whole=not chosen)


def run_accounting(chosen=""):
    for module, ours in foreign_costs.REPLACED.items():
        with foreign_costs.in_place(ours):
            seen = tests_of(f"dp_accounting.{module}", foreign_costs.CALLS, chosen)
        check = module.rpartition(".")[2] + ".py"
        yield check, "dp-accounting", sorted_out(seen, by_design(check), whole=not chosen)
    for name, grid in foreign_costs.GRIDS.items():
        yield name, "dp-accounting", foreign_costs.compared(grid, 1 if chosen else None)


def run_audit(chosen=""):
    for package, audit in foreign_audit.AUDITS.items():
        if importlib.util.find_spec(package.replace("-", "_")) is None:
            print(f"{package} is not installed", file=sys.stderr)
            continue
        for check, found in audit(bool(chosen)):
            yield check, package, found


PARTS = {"sklearn": run_sklearn, "accounting": run_accounting, "audit": run_audit}


def lines(part, chosen=""):
    """The lines of one part, as they are kept."""
    for check, package, found in PARTS[part](chosen):
        for (outcome, why), cases in sorted(found.items(), key=lambda x: OUTCOMES.index(x[0][0])):
            end = version(package), outcome, cases, why, dplit.__version__, date.today().isoformat()
            yield dict(zip(COLUMNS, (part, check, *end), strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all of them if none")
    parser.add_argument("--keep", type=Path, help="replace the lines of these parts in this file")
    parser.add_argument(
        "--only",
        default="",
        help="a small run: tests of this name (as pytest -k), the first cell of each grid, one audit",
    )
    given = parser.parse_args()
    if given.only and given.keep:
        parser.error("a small run is not kept")
    if unknown := {*given.parts} - {*PARTS}:
        parser.error(f"no such part: {', '.join(unknown)}")
    found = {part: [*lines(part, given.only)] for part in given.parts or PARTS}
    out = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    out.writeheader()
    out.writerows(line for part in found.values() for line in part)
    if given.keep:
        old = []
        if given.keep.exists():
            with given.keep.open(encoding="utf8", newline="") as file:
                old = [*csv.DictReader(file)]
        kept = {p: [line for line in old if line["part"] == p] for p in PARTS} | found
        with given.keep.open("w", encoding="utf8", newline="") as file:
            out = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            out.writeheader()
            out.writerows(line for part in PARTS for line in kept[part])


if __name__ == "__main__":
    main()
