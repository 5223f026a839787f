"""Would the unit tests notice a slip in the code that keeps the promises? Small changes, one at a time: python tools/mutate.py

Each mutant is one change in one function of mutants.toml: a comparison or a sign turned, a factor or a statement left
out. Tests are collected once; for each mutant the process is forked, the changed function takes the place of the old
one wherever it was imported, and the tests that run its line are run until one fails. Which tests run which line is
recorded first by coverage.py (pip install coverage), and again where the package or a test file has changed.
"""

import argparse
import ast
import contextlib
import copy
import csv
import functools
import gc
import hashlib
import itertools
import json
import math
import os
import random
import resource
import select
import signal
import sys
import time
import tomllib
import traceback
import types
from collections import Counter, defaultdict
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FIELDS = ("id", "file:line", "function", "operator", "before", "after", "result", "killing test", "seconds")  # fmt: skip

COMPARE = {"Lt": "LtE GtE", "LtE": "Lt Gt", "Gt": "GtE LtE", "GtE": "Gt Lt", "Eq": "NotEq", "NotEq": "Eq", "Is": "IsNot", "IsNot": "Is", "In": "NotIn", "NotIn": "In"}  # fmt: skip
ARITHMETIC = {"Add": "Sub", "Sub": "Add", "Mult": "Div", "Div": "Mult", "FloorDiv": "Div", "Mod": "FloorDiv", "Pow": "Mult", "LShift": "RShift", "RShift": "LShift", "BitOr": "BitAnd", "BitAnd": "BitOr"}  # fmt: skip
PAIRS = ("min max", "minimum maximum", "floor ceil", "any all", "log log1p", "exp expm1", "argmin argmax")  # fmt: skip
SWAP = {a: b for pair in PAIRS for a, b in (pair.split(), pair.split()[::-1])}
UNWRAP = "sqrt isqrt abs ceil floor rint round exp log sum nextafter sorted unique".split()


def _called(call):
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def changes(node):
    """(operator, replacement) for each small change of one node; None takes a statement away."""
    edited = lambda **parts: type(node)(**{**dict(ast.iter_fields(node)), **parts})
    turned = lambda op, table: [getattr(ast, k)() for k in table.get(type(op).__name__, "").split()]
    match node:
        case ast.Compare():
            for op in turned(node.ops[0], COMPARE):
                yield "comparison", edited(ops=[op, *node.ops[1:]])
        case ast.BinOp():
            for op in turned(node.op, ARITHMETIC):
                yield "arithmetic", edited(op=op)
            yield "operand dropped", node.left
            if not isinstance(node.op, (ast.Pow, ast.LShift, ast.RShift)):
                yield "operand dropped", node.right
        case ast.UnaryOp(operand=operand) if not isinstance(operand, ast.Constant):
            yield "sign dropped", operand
        case ast.BoolOp():
            yield "and or", edited(op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.Constant(value=bool(value)):
            yield "constant", edited(value=not value)
        case ast.Constant(value=int(value)):
            yield "constant", edited(value=value + 1)
        case ast.Constant(value=float(value)):
            yield "constant", edited(value=value * 2 + (value == 0))
        case ast.If() | ast.While() | ast.IfExp():
            yield "condition negated", edited(test=ast.UnaryOp(ast.Not(), node.test))
        case ast.Call():
            if _called(node) in SWAP:
                func = copy.copy(node.func)
                setattr(func, "attr" if hasattr(func, "attr") else "id", SWAP[_called(node)])
                yield "function swapped", edited(func=func)
            if _called(node) in UNWRAP and node.args:
                yield "call dropped", node.args[0]
            if len(node.args) > 1:
                yield "argument dropped", edited(args=node.args[:-1])
            for i in range(len(node.keywords)):
                keywords = node.keywords[:i] + node.keywords[i + 1 :]
                yield "argument dropped", edited(keywords=keywords)
        case ast.Expr(value=ast.Constant() | ast.Yield()):
            return
        case ast.Expr() | ast.Assign() | ast.AugAssign() | ast.Raise():
            yield "statement deleted", None


def _children(node):
    for name, value in ast.iter_fields(node):
        for i, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                yield (name, i), child


def _sites(node, path):
    """(path, node) of all that may be changed below a node; texts and defaults are left alone."""
    for step, child in _children(node):
        if step[0] not in ("decorator_list", "args", "annotation", "returns") or isinstance(node, ast.Call):  # fmt: skip
            yield (*path, step), child
            talks = isinstance(child, ast.Call) and _called(child) == "warn"
            if not (talks or isinstance(child, (ast.Raise, ast.JoinedStr))):
                yield from _sites(child, (*path, step))


def _named(node, path=(), prefix=""):
    """(name, path, node) of functions, methods and constants."""
    for step, child in _children(node):
        if isinstance(child, ast.ClassDef):
            yield from _named(child, (*path, step), f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef):
            yield prefix + child.name, (*path, step), child
        elif isinstance(child, ast.Assign) and not prefix:
            yield ast.unparse(child.targets[0]), (*path, step), child


def _replaced(node, path, new):
    """A tree with another node at the end of a path; what lies beside the path is shared."""
    if not path:
        return ast.copy_location(new or ast.Pass(), node)
    (name, i), old = path[0], node
    node, held = copy.copy(old), getattr(old, name)
    if i is None:
        setattr(node, name, _replaced(held, path[1:], new))
    else:
        setattr(node, name, [*held[:i], _replaced(held[i], path[1:], new), *held[i + 1 :]])
    return node


def mutants_of(root, file, patterns):
    """(row of the CSV, first line of the function, changed module) for all mutants of a module."""
    tree = ast.parse((root / file).read_text())
    for name, above, definition in _named(tree):
        if not any(fnmatchcase(name, pattern) for pattern in patterns):
            continue
        count = Counter()
        for path, node in _sites(definition, above):
            for operator, new in changes(node):
                count[operator] += 1
                mark = f"{Path(file).stem}.{name}/{operator.replace(' ', '-')}-{count[operator]}"
                texts = [ast.unparse(x)[:160] for x in (node, new or ast.Pass())]
                values = mark, f"{file}:{node.lineno}", name, operator, *texts, "", "", ""
                changed = lambda path=path, new=new: _replaced(tree, path, new)
                yield dict(zip(FIELDS, values, strict=True)), definition.lineno, changed


def _codes(code):
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from _codes(const)


def plant(path, name, tree):
    """Let a changed function, method or constant take the place of the old one, wherever it was imported."""
    module = next(m for m in [*sys.modules.values()] if getattr(m, "__file__", "") == str(path))
    code, objects = compile(ast.fix_missing_locations(tree), str(path), "exec"), gc.get_objects()
    constants = [x for x in tree.body if isinstance(x, ast.Assign) and ast.unparse(x.targets[0]) == name]  # fmt: skip
    if constants:
        space, old = dict(vars(module)), vars(module)[name]
        exec(compile(ast.Module(constants, []), str(path), "exec"), space)
        for other in [*sys.modules.values()]:
            if getattr(other, name, None) is old:
                setattr(other, name, space[name])
    else:
        new = next(c for c in _codes(code) if c.co_qualname == name)
        mark = lambda code: (code.co_filename, code.co_qualname, code.co_firstlineno)
        for old in objects:
            if isinstance(old, types.FunctionType) and mark(old.__code__) == mark(new):
                old.__code__ = new
    for cached in objects:
        if isinstance(cached, functools._lru_cache_wrapper):
            cached.cache_clear()


class Tests:
    """A plugin that keeps the collected tests and runs some of them in a forked child."""

    def __init__(self, root, table, out, work):
        self.root, self.out, self.work = root, out, work
        self.modules, self.leave_out, self.cases = table["functions"], table["tests"]["leave_out"], table["tests"]["cases"]
        self.reports, self.cover, self.seconds = [], None, {}
        self.lines, self.kills, self.sound = defaultdict(list), Counter(), set()

    def pytest_configure(self, config):
        from hypothesis import HealthCheck, Phase, settings

        quick = {"database": None, "phases": (Phase.explicit, Phase.generate), "deadline": None}
        settings.register_profile("mutants", suppress_health_check=list(HealthCheck), **quick)
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items):
        cases = defaultdict(list)
        for item in items:
            cases[item.nodeid.split("[")[0]].append(item)
        left = [n for n in cases if any(fnmatchcase(n, p) for p in self.leave_out)]
        for name, some in cases.items():  # of a function with hundreds of cases a few, evenly
            cases[name] = [] if name in left else some[:: -(-len(some) // self.cases)]
        items[:] = sum(cases.values(), [])

    def pytest_runtest_logstart(self, nodeid):
        if self.cover:
            self.cover.switch_context(nodeid)

    def pytest_runtest_logreport(self, report):
        self.reports.append(report.outcome)

    def pytest_runtestloop(self, session):
        self.items = {item.nodeid: item for item in session.items}
        self.record()
        self.work(self)
        return True

    def run(self, names, say):
        """(name, outcome, seconds) of tests, one after the other."""
        items = [self.items[name] for name in names]
        for item, following in itertools.zip_longest(items, items[1:]):
            say("test", item.nodeid)
            self.reports.clear()
            start = time.perf_counter()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            worst = min(self.reports, key=["failed", "skipped", "passed"].index)
            yield item.nodeid, worst, time.perf_counter() - start

    def fork(self, job, limit=math.inf, patience=900.0):
        """Run job(say) in a child; the last thing it said, or that it ran for too long."""
        read, write = os.pipe()
        child = os.fork()
        if not child:
            self._child(job, write)
        os.close(write)
        begin, said, last = time.monotonic(), b"", ""
        while True:
            spare = patience + 15 * self.seconds.get(last[5:], 0.0)
            if not select.select([read], [], [], spare)[0]:
                last = "endless" + last[4:]
            elif time.monotonic() - begin > limit:
                last = "time"
            elif heard := os.read(read, 2**16):
                said += heard
                last = said.decode(errors="replace").rstrip("\n").rsplit("\n", 1)[-1]
                continue
            break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # and whatever the tests have started
        os.close(read), os.waitpid(child, 0)
        return last

    def _child(self, job, write):
        os.setsid()
        log = os.open(self.out / "child.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1), os.dup2(log, 2)
        try:
            job(lambda *words: os.write(write, (" ".join(words) + "\n").encode()))
        except BaseException:
            traceback.print_exc(file=open(self.out / "child.log", "a"))
        finally:
            os._exit(0)

    def record(self):
        """Which tests run which line, and for how long; anew where the package or the tests' file has changed."""
        from coverage import Coverage

        store, part = self.out / "coverage.json", self.out / "part.json"
        known = json.loads(store.read_text()) if store.exists() else {}
        packages = {self.root / Path(file).parts[0] for file in self.modules}
        sources = b"".join(p.read_bytes() for top in sorted(packages) for p in sorted(top.rglob("*.py")))  # fmt: skip

        def job(say):
            self.cover = Coverage(None, include=[str(self.root / m) for m in self.modules], config_file=False)  # fmt: skip
            self.cover.start()
            passed = {n: (s, []) for n, outcome, s in self.run(names, say) if outcome == "passed"}
            self.cover.stop()
            data = self.cover.get_data()
            for path in data.measured_files():
                for line, contexts in data.contexts_by_lineno(path).items():
                    for name in passed.keys() & contexts:
                        passed[name][1].append(f"{Path(path).relative_to(self.root)}:{line}")
            part.write_text(json.dumps(passed))
            say("end")

        for file, names in itertools.groupby(self.items, lambda name: name.split("::")[0]):
            names = list(names)
            digest = hashlib.sha256(sources + (self.root / file).read_bytes()).hexdigest()
            if known.get(file, {}).get("digest") != digest:
                begin, said = time.monotonic(), self.fork(job)
                if said != "end":
                    sys.exit(f"{file} could not be recorded: {said}")
                known[file] = {"digest": digest, "tests": json.loads(part.read_text())}
                store.write_text(json.dumps(known))
                print(f"{file}: {len(names)} tests recorded, {time.monotonic() - begin:.0f} s", flush=True)  # fmt: skip
            for name, (seconds, lines) in known[file]["tests"].items():
                self.seconds[name] = seconds
                for line in lines:
                    self.lines[line].append(name)

    def of(self, row, first):
        """The tests of a mutant: one of each function first, cheap ones and those that killed before."""
        file, line = row["file:line"].split(":")
        near = [f"{file}:{n}" for n in range(int(line), first - 1, -1)]
        found = next((self.lines[n] for n in near if n in self.lines), [])
        if not found:  # a constant: whoever runs a line that reads it
            reads = [x.lineno for x in ast.walk(ast.parse((self.root / file).read_text())) if getattr(x, "id", "") == row["function"]]  # fmt: skip
            found = {name for n in reads for name in self.lines.get(f"{file}:{n}", [])}
        turn, ranked = Counter(), []
        for name in sorted(found, key=self.seconds.get):
            turn[name.split("[")[0]] += 1
            rank = turn[name.split("[")[0]] - 2 * min(self.kills[name], 3)
            ranked.append((rank, self.seconds[name], name))
        return [name for *_, name in sorted(ranked)]

    def kill(self, row, first, tree, limit):
        """(result, killing test) of one mutant."""
        names = self.of(row, first)
        path = self.root / row["file:line"].split(":")[0]

        def job(say, names=names, planted=True):
            resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))  # a mutant may ask for any memory
            if planted:
                plant(path, row["function"], tree)
            say("planted")
            for name, outcome, _ in self.run(names, say):
                if outcome == "failed":
                    return say("failed", name)
            say("end")

        said, _, name = self.fork(job, limit, patience=40.0).partition(" ")
        if said == "failed" and name not in self.sound:  # would it pass on the true code, alone?
            if self.fork(lambda say: job(say, [name], False)) != "end":
                del self.items[name]
                for tests in self.lines.values():
                    if name in tests:
                        tests.remove(name)
                return self.kill(row, first, tree, limit)
            self.sound.add(name)
        self.kills[name] += said == "failed"
        results = {"failed": "killed", "endless": "killed (endless)", "test": "killed (crash)", "": "invalid", "time": "survived (time)"}  # fmt: skip
        return results.get(said, "survived" if names else "survived (no test)"), name


def summary(rows):
    """Killed, survivors and those that change nothing, by module."""
    print(f"\n{'module':45s} mutants  killed  equal  lived")
    kinds = defaultdict(Counter)
    for row in rows:
        for file in (row["file:line"].split(":")[0], "together"):
            kinds[file][row["result"].split(" ")[0]] += 1
    for file in sorted(kinds, key=lambda f: (f == "together", f)):
        c = kinds[file]
        print(f"{file:45s}{c.total() - c['invalid']:8d}{c['killed']:8d}{c['equivalent']:7d}{c['survived']:7d}")  # fmt: skip
    c = kinds["together"]
    if c["killed"] + c["survived"]:
        print(f"killed of those that are not equivalent: {c['killed'] / (c['killed'] + c['survived']):.1%}")  # fmt: skip
    for row in rows:
        if row["result"].startswith("survived"):
            print(f"{row['file:line']} {row['id']}: {row['before']}  ->  {row['after']}  ({row['result']})")  # fmt: skip


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of a module's path or a mutant's id")
    parser.add_argument("--resume", action="store_true", help="keep what the CSV has already")
    parser.add_argument("--survivors", action="store_true", help="run those again that lived")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of tests for a mutant")
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants")
    args = parser.parse_args(argv)
    table = tomllib.loads((args.root / "tools" / "mutants.toml").read_text())
    args.out.mkdir(parents=True, exist_ok=True)
    modules = {f: p for f, p in table["functions"].items() if (args.root / f).exists()}
    pool = [m for file, patterns in modules.items() for m in mutants_of(args.root, file, patterns)]
    random.Random(args.seed).shuffle(pool)
    pool = [m for m in pool if args.only in m[0]["file:line"] + " " + m[0]["id"]]
    key = lambda row: (row["id"], row["before"], row["after"])
    equal = {(e["function"], e["before"], e["after"]): e["reason"] for e in table.get("equivalent", [])}  # fmt: skip
    store, old = args.out / "mutants.csv", {}
    if (args.resume or args.survivors) and store.exists():
        with open(store, newline="") as lines:
            old = {key(row): row for row in csv.DictReader(lines)}
    again = lambda row: args.survivors and row["result"].startswith("survived")

    def work(tests):
        rows = []
        for row, first, changed in pool[: None if args.survivors else args.count]:
            known, begin = old.get(key(row)), time.monotonic()
            if reason := equal.get((row["function"], row["before"], row["after"])):
                row.update({"result": f"equivalent ({reason})"})
            elif known and not again(known):
                row.update({k: known[k] for k in FIELDS[-3:]})
            elif known or not args.survivors:
                row["result"], row["killing test"] = tests.kill(row, first, changed(), args.limit)
                row["seconds"] = f"{time.monotonic() - begin:.1f}"
                print(f"{len(rows) + 1:4d} {row['result']:16s} {row['seconds']:>6s} s  {row['id']}", flush=True)  # fmt: skip
            if row["result"]:
                rows.append(row)
            with open(store, "w", newline="") as lines:
                writer = csv.DictWriter(lines, FIELDS)
                writer.writeheader()
                writer.writerows({**{key(r): r for r in rows}, **{k: r for k, r in old.items() if k not in {key(r) for r in rows}}}.values())  # fmt: skip
        summary(rows)

    files = sorted((args.root / "tests").glob("test_*.py"))
    files = [f for f in files if f.stem[5:] not in table["tests"]["files_left_out"]]
    os.chdir(args.root)
    sys.path.insert(0, str(args.root))
    options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-m", "not slow", "--capture=sys"]
    tests = Tests(args.root, {**table, "functions": modules}, args.out, work)
    return pytest.main([*options, "--rootdir", str(args.root), *map(str, files)], plugins=[tests])


if __name__ == "__main__":
    sys.exit(main())
