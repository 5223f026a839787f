"""Would the unit tests detect a slip in the code that keeps the guarantees? Many small ones, one at a time: python tools/quality/mutate.py

A mutant is one change in one function of mutants.toml: a comparison or a sign reversed, a factor or a statement left out.
Tests are collected once; for each mutant the process is forked, the changed function replaces the old one
wherever it was imported, and the tests that run its line are run until one fails. Which tests run which line is recorded
first, by coverage.py (pip install coverage), and again for a file of tests that has changed.
"""

import argparse
import contextlib
import csv
import hashlib
import itertools
import json
import os
import random
import re
import resource
import select
import signal
import sys
import time
import tomllib
import traceback
from collections import Counter, defaultdict
from fnmatch import translate
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from mutations import FIELDS, codes, inject, mutants_of

ROOT = Path(__file__).resolve().parents[2]
RESULT = ["result", "killing test", "seconds"]
WORDS = {
    "end": "survived",
    "time": "survived (time)",  # not all of its tests were run
    "failed": "killed",
    "endless": "killed (endless)",
    "test": "killed (crash)",
    "": "invalid",  # the change is not a program
}


def _function(test):
    return test.split("[")[0]


def _too_dear(*_):
    raise TimeoutError("a test that takes so long is left out")


class Tests:
    """A plugin that keeps the collected tests and runs some of them in a forked child."""

    def __init__(self, root, table, out, patience, stale, work):
        self.root, self.modules, self.chosen = root, table["functions"], table["tests"]
        self.out, self.work, self.patience, self.stale = out, work, patience, stale
        self.reports, self.cover = [], None
        self.seconds, self.lines = {}, defaultdict(lambda: defaultdict(set))
        self.kills, self.sound, self.cases = Counter(), set(), defaultdict(list)

    def pytest_configure(self, config):
        from hypothesis import HealthCheck, Phase, settings

        quick = {"database": None, "phases": (Phase.explicit, Phase.generate), "deadline": None}
        settings.register_profile("mutants", suppress_health_check=list(HealthCheck), **quick)
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items):
        left_out = re.compile("|".join(map(translate, self.chosen["leave_out"])) or "$")
        items[:] = [item for item in items if not left_out.match(_function(item.nodeid))]

    def pytest_runtest_logstart(self, nodeid):
        if self.cover:
            self.cover.switch_context(nodeid)
        seconds = self.chosen["seconds"] * (1 if self.cover else 4)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)  # of CPU: other programs do not matter

    def pytest_runtest_logreport(self, report):
        self.reports.append(report.outcome)

    def pytest_runtestloop(self, session):
        self.items = {item.nodeid: item for item in session.items}
        for name in self.items:
            self.cases[_function(name)].append(name)
        self.record()
        self.work(self)
        return True

    def run(self, names, say):
        """(name, outcome, seconds of CPU) of tests, one after the other."""
        items = [self.items[name] for name in names]
        for item, following in itertools.zip_longest(items, items[1:]):
            say("test", item.nodeid)
            self.reports.clear()
            start = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            worst = min(self.reports, key=["failed", "skipped", "passed"].index)
            yield item.nodeid, worst, time.process_time() - start

    def fork(self, job, patience=900.0):
        """Run job(say) in a child: the last it said; "endless" and the test for one that did not end."""
        read, write = os.pipe()
        child = os.fork()
        if not child:
            self._child(job, write)
        os.close(write)
        last = ""
        while select.select([read], [], [], patience)[0] and (heard := os.read(read, 2**16)):
            last = heard.decode().rstrip("\n").rsplit("\n", 1)[-1]  # whole lines: they are short
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # and all that the tests have started
        os.close(read)
        ended = os.waitpid(child, 0)[1] & 127
        asleep = ended == signal.SIGKILL and last.startswith("test")
        return "endless" + last[4:] if ended == signal.SIGVTALRM or asleep else last

    def _child(self, job, write):
        os.setsid()
        log = os.open(self.out / "child.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            job(lambda *words: os.write(write, (" ".join(words) + "\n").encode()))
        except BaseException:
            os.write(log, traceback.format_exc().encode())
        finally:
            os._exit(0)

    def record(self):
        """Which tests run which line of which function, and for how long."""
        store = self.out / "coverage.json"
        known = json.loads(store.read_text()) if store.exists() else {}
        files = defaultdict(list)
        for function, names in self.cases.items():  # of hundreds of cases a few, evenly
            files[function.split("::")[0]] += names[:: -(-len(names) // self.chosen["cases"])]
        for file, names in files.items():
            digest = hashlib.sha256((self.root / file).read_bytes()).hexdigest()
            if known.get(file, {}).get("digest") != digest and not (self.stale and file in known):
                begin = time.monotonic()
                while (said := self._recorded(names)) != "end":
                    stuck = said.split(" ", 1)[-1]  # interrupted where a lock was held
                    if stuck not in names:
                        sys.exit(f"{file} could not be recorded: {said}; see {self.out}/child.log")
                    print(f"left out, it hangs when it is interrupted: {stuck}", flush=True)
                    names.remove(stuck)
                tests = json.loads((self.out / "part.json").read_text())
                known[file] = {"digest": digest, "tests": tests}
                store.write_text(json.dumps(known))
                took = time.monotonic() - begin
                print(f"{file}: {len(names)} tests recorded, {took:.0f} s", flush=True)
            for name, (seconds, lines) in known[file]["tests"].items():
                self.seconds[name] = seconds
                for function, line in lines:
                    self.lines[function][line].add(name)

    def _recorded(self, names):
        return self.fork(lambda say: self._record(say, names), patience=120.0)

    def _record(self, say, names):
        from coverage import Coverage

        self.seconds = {}
        signal.signal(signal.SIGVTALRM, _too_dear)
        files = [str(self.root / file) for file in self.modules]
        self.cover = Coverage(None, include=files, config_file=False)
        self.cover.start()
        passed = {n: (s, []) for n, outcome, s in self.run(names, say) if outcome == "passed"}
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        self.cover.stop()
        data = self.cover.get_data()
        for path in data.measured_files():
            file, text = str(Path(path).relative_to(self.root)), Path(path).read_text()
            spans = sorted(
                (code.co_firstlineno, max(n or 0 for *_, n in code.co_lines()), code.co_qualname)
                for code in codes(compile(text, path, "exec"))
                if "<" not in code.co_qualname
            )
            for line, contexts in data.contexts_by_lineno(path).items():
                for first, last, function in spans:
                    if first <= line <= last:
                        for name in passed.keys() & contexts:
                            passed[name][1].append((f"{file}:{function}", line - first))
        (self.out / "part.json").write_text(json.dumps(passed))
        say("end")

    def of(self, row, below):
        """The tests of a mutant: cheap ones first, few cases of each, and those that killed before."""
        file = row["file:line"].split(":")[0]
        lines = self.lines.get(f"{file}:{row['function']}", {})
        near = [n for n in lines if n <= below]
        found = lines[max(near)] if near else set().union(*lines.values())
        if not found:  # a constant, or a new function: all tests that run the module
            theirs = [at for name, at in self.lines.items() if name.startswith(file + ":")]
            found = set().union(*(names for at in theirs for names in at.values()))
        functions = {_function(name) for name in set().union(found, *lines.values())}
        more = {
            name
            for f in functions
            for name in self.cases[f]
            if name in self.items and name not in self.seconds
        }
        turn, ranked = Counter(), []
        for name in sorted(found & self.items.keys(), key=self.seconds.get) + sorted(more):
            function = _function(name)
            turn[function] += 1
            cost = self.seconds.get(name) or max(map(self._seconds, self.cases[function]))
            ranked.append(((cost + 0.02) * turn[function] / (1 + self.kills[name]), name))
        return [name for _, name in sorted(ranked)]

    def _seconds(self, name):
        return self.seconds.get(name, 0.0)

    def kill(self, row, below, tree, limit):
        """(result, killing test) of one mutant."""
        names, path = self.of(row, below), self.root / row["file:line"].split(":")[0]

        def job(say, names=names, planted=True):
            resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))  # it may ask for any memory
            if planted:
                inject(path, row["function"], tree)
            say("test")
            spent = 0.0
            for name, outcome, seconds in self.run(names, say):
                spent += seconds
                if outcome == "failed" or spent > limit:
                    return say(*(("failed", name) if outcome == "failed" else ("time",)))
            say("end")

        said, _, name = self.fork(job, self.patience).partition(" ")
        if name and name not in self.sound:  # would it pass on the true code, by itself?
            if self.fork(lambda say: job(say, [name], False)) not in ("end", "time"):
                del self.items[name]
                return self.kill(row, below, tree, limit)
            self.sound.add(name)
        self.kills[name] += said == "failed"
        return WORDS[said] + (" (no test)" if not names else ""), name


def summary(rows):
    """Killed, lived and equivalent, by module, and what lived."""
    kinds = defaultdict(Counter)
    for row in rows:
        for file in (row["file:line"].split(":")[0], "together"):
            kinds[file][row["result"].split(" ")[0]] += 1
    print(f"\n{'':40s} killed   lived  equivalent")
    for file, c in sorted(kinds.items(), key=lambda item: (item[0] == "together", item[0])):
        print(f"{file:40s}{c['killed']:7d} {c['survived']:7d} {c['equivalent']:11d}")
    killed, lived = kinds["together"]["killed"], kinds["together"]["survived"]
    print(f"killed of those that are not equivalent: {killed / max(killed + lived, 1):.1%}")
    for row in rows:
        if row["result"].startswith("survived"):
            print(
                f"{row['file:line']} {row['id']}: {row['before']}  ->  {row['after']}  ({row['result']})"
            )


def _key(row):
    return row["id"], row["before"], row["after"]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300, help="how many, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of a module's path or of a mutant's id")
    parser.add_argument("--resume", action="store_true", help="keep the results that are there")
    parser.add_argument("--survivors", action="store_true", help="of those only what lived, again")
    parser.add_argument("--stale", action="store_true", help="do not record changed tests anew")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds of CPU for a mutant")
    parser.add_argument(
        "--patience", type=float, default=300.0, help="seconds that a test may sleep"
    )
    parser.add_argument("--tests", default="", help="files of tests, if not all; with spaces")
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    table = tomllib.loads((args.root / "tools/quality/mutants.toml").read_text())
    equal = {(e["in"], e["before"], e["after"]): e["why"] for e in table.get("equivalent", ())}
    functions = [(f, p) for f, p in table["functions"].items() if (args.root / f).exists()]
    pool = [m for file, patterns in functions for m in mutants_of(args.root, file, patterns)]
    random.Random(args.seed).shuffle(pool)
    never = re.compile("|".join(map(translate, table["never"])))
    pool = [m for m in pool if not never.match(m[0]["function"])]
    pool = [m for m in pool if args.only in f"{m[0]['file:line']} {m[0]['id']}"]
    pool = pool[: args.count]
    store, old = args.out / "mutants.csv", {}
    if (args.resume or args.survivors) and store.exists():
        with open(store, newline="") as lines:
            old = {_key(row): row for row in csv.DictReader(lines)}

    def work(tests):
        rows = []
        for row, below, make in pool:
            known, begin = old.get(_key(row)), time.monotonic()
            again = args.survivors and known and known["result"].startswith("survived")
            if reason := equal.get((row["function"], row["before"], row["after"])):
                row |= dict(zip(RESULT, [f"equivalent ({reason})", "", ""], strict=True))
            elif known and not again:
                row |= {name: known[name] for name in RESULT}
            elif known or not args.survivors:
                result = tests.kill(row, below, make(), args.limit)
                seconds = f"{time.monotonic() - begin:.1f}"
                row |= dict(zip(RESULT, [*result, seconds], strict=True))
                print(f"{len(rows) + 1:4d} {seconds:>6s} s  {result[0]}  {row['id']}", flush=True)
            else:
                continue
            rows.append(row)
            old[_key(row)] = row
            with open(store, "w", newline="") as lines:
                writer = csv.DictWriter(lines, FIELDS + RESULT)
                writer.writeheader()
                writer.writerows(old.values())
        summary(rows)

    files = sorted((args.root / "tests").glob("*/test_*.py"))
    files = [f for f in files if f.stem[5:] not in table["tests"]["files_left_out"]]
    files = [f for f in files if not args.tests or f.name in args.tests]
    os.chdir(args.root)
    sys.path.insert(0, str(args.root))
    options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-m", "not slow", "--capture=sys"]
    plugin = Tests(args.root, table, args.out, args.patience, args.stale, work)
    return pytest.main([*options, "--rootdir", str(args.root), *map(str, files)], plugins=[plugin])


if __name__ == "__main__":
    sys.exit(main())
