"""How large the package is, and how much of it are checks: python tools/quality/house.py [--against REF] [--json]

It reads the package and counts modules, lines, imports of private names and circular imports; it counts the calls of one small
fit, and measures imports and that fit. With `--against REF` the package as of a git revision is compared with it, and the two
take turns in all that is timed.

Times are CPU seconds on one thread, the best of several; only ratios of times of one run are worth keeping.
A circle is a strongly connected set of modules: each imports all the others, directly or not. Imports inside of functions
and `import_module` with a name in quotes count, if not said otherwise; that a module needs the packages it lies in does not.
A call counts as a check if its function's name begins with `check`, if it is in a module for checks (CHECKING), or if a
function with such a name has called it, directly or not.
"""

import argparse
import ast
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHECKING = {"public", "declared", "contracts", "words"}
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
ONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


# ---------------------------------------------------------------- what the files contain


def texts_of(folder):
    """{dotted name: (whether it is a package, text)} of the modules of a package."""
    result = {}
    for path in sorted(Path(folder, "dplit").rglob("*.py")):
        if path.name != "_modidx.py":
            parts = path.relative_to(folder).with_suffix("").parts
            package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if package else parts)
            result[name] = package, path.read_text(encoding="utf-8")
    return result


def lines_of(text):
    """Numbers of lines with code, and of lines in docstrings."""
    documented = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, FUNCTIONS | ast.ClassDef | ast.Module) and ast.get_docstring(node):
            documented |= {*range(node.body[0].lineno, node.body[0].end_lineno + 1)}
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    kept = [t for t in tokens if t.type not in layout | {tokenize.ENDMARKER}]
    code = {n for t in kept for n in range(t.start[0], t.end[0] + 1)}
    return len(code - documented), len(documented)


def walked(node, late=False):
    """Nodes below a node, each with whether it runs only when a function is called."""
    for child in ast.iter_child_nodes(node):
        yield child, late
        yield from walked(child, late or isinstance(child, FUNCTIONS | ast.Lambda))


def called(node):
    """The name of what a call calls: `f` of f(...) and of a.f(...)."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def imports_of(name, package, text, known):
    """(module, imported name or "", whether deferred) of each import from inside dplit."""
    here, tree = name if package else name.rpartition(".")[0], ast.parse(text)
    for node, late in walked(tree):
        if isinstance(node, ast.Import):
            yield from ((a.name, "", late) for a in node.names if a.name.split(".")[0] == "dplit")
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            source = importlib.util.resolve_name(source, here) if node.level else source
            if source.split(".")[0] == "dplit":
                for alias in node.names:
                    inner = f"{source}.{alias.name}"
                    yield (inner, "", late) if inner in known else (source, alias.name, late)
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__"):
            given = node.args[0] if node.args else None
            start = given.values[0] if isinstance(given, ast.JoinedStr) else given
            start, words = getattr(start, "value", ""), {""}
            if isinstance(given, ast.JoinedStr):  # any word of the module may complete it
                words |= {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
            made = {f"{start}{word}" for word in words}
            yield from ((module, "", late) for module in known if module in made)


def room_of(name):
    """The package a module is in, below dplit: "" for what lies flat."""
    parts = name.split(".")
    return parts[1] if len(parts) > 2 else ""


def circles_of(arrows):
    """Strongly connected sets of more than one, sorted: Tarjan's algorithm."""
    index, low, stack, found = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in sorted(arrows.get(v, ())):
            if w not in index:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            at = stack.index(v)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for v in sorted(arrows):
        if v not in index:
            visit(v)
    return sorted(circle for circle in found if len(circle) > 1)


def short(names):
    return " - ".join(n.removeprefix("dplit.") or "dplit" for n in names)


def counted(folder):
    """All that can be counted by reading the files."""
    texts = texts_of(folder)
    rooms = {name for name, (package, _) in texts.items() if package} - {"dplit"}
    flat = [n for n, (package, _) in texts.items() if n.count(".") == 1 and not package]
    lines = {name: lines_of(text) for name, (_, text) in texts.items()}
    private, across, dynamic, forwarding = 0, 0, 0, 0
    soon, ever, between = {}, {}, {}
    for name, (package, text) in texts.items():
        soon[name], ever[name] = set(), set()
        for source, what, late in imports_of(name, package, text, texts):
            hidden = what.startswith("_") and not what.startswith("__")
            private += hidden
            own, other = (room_of(f"{n}." if n in rooms else n) for n in (name, source))
            across += hidden and own != other
            if source in texts and source != name:
                ever[name].add(source)
                soon[name] |= set() if late else {source}
                if own != other:
                    between.setdefault(own, set()).add(other)
        tree = ast.parse(text)
        calls = [called(node) for node in ast.walk(tree) if isinstance(node, ast.Call)]
        dynamic += calls.count("import_module")
        forwarding += any(isinstance(n, FUNCTIONS) and n.name == "__getattr__" for n in tree.body)
    between = {room: others - {""} for room, others in between.items() if room}  # flat: no room
    return {
        "modules": len(texts) - len(rooms) - 1,
        "modules flat in dplit/": len([n for n in flat if n != "dplit.__main__"]),
        "rooms": len([n for n in rooms if n.count(".") == 1]),
        "lines": sum(text.count("\n") for _, text in texts.values()),
        "lines of code": sum(code for code, _ in lines.values()),
        "lines of docstrings": sum(doc for _, doc in lines.values()),
        "most lines of code in a module": max(code for code, _ in lines.values()),
        "arrows between modules": sum(map(len, ever.values())),
        "imports of private names": private,
        "of them across rooms": across,
        "circles of imports": [short(c) for c in circles_of(ever)],
        "circles without deferred imports": [short(c) for c in circles_of(soon)],
        "circles of rooms": [short(c) for c in circles_of(between)],
        "uses of import_module": dynamic,
        "module-level __getattr__": forwarding,
    }


# ---------------------------------------------------------------- one small fit, in a process of its own


def small_fit():
    """A function that fits PEMeans to 2,000 x 4 rows in the unit ball, warm."""
    import warnings

    import numpy as np

    import dplit

    warnings.simplefilter("ignore")
    rows = np.random.default_rng(0).normal(size=(2000, 4))
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1))[:, None]
    model = dplit.PEMeans(8, epsilon=1, delta=1e-6, radius=1, random_state=0)
    model.fit(rows)
    return lambda: model.fit(rows), Path(dplit.__file__).parent


def calls_of(fit, package):
    """Calls inside of dplit during a fit: all, and Counters of those that check, by why."""
    why = {"by name": Counter(), "by module": Counter(), "called by a check": Counter()}
    package, named, total = f"{package}{os.sep}", re.compile("_*check"), 0

    def is_check(frame):
        code = frame.f_code
        return code.co_filename.startswith(package) and named.match(code.co_name)

    def listen(frame, event, _):
        nonlocal total
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(package):
            return
        total += 1
        module = Path(code.co_filename).stem
        reason = "by name" if is_check(frame) else "by module" if module in CHECKING else None
        outer = None if reason else frame.f_back
        while outer is not None and not is_check(outer):
            outer = outer.f_back
        reason = "called by a check" if outer else reason
        if reason:
            why[reason][f"{module}.{code.co_qualname}"] += 1

    sys.setprofile(listen)
    try:
        fit()
    finally:
        sys.setprofile(None)
    return total, why


def worker():
    """Answer questions from standard input, one a line: where, calls, or time."""
    import time

    fit, package = small_fit()
    for question in sys.stdin:
        if question == "calls\n":
            total, why = calls_of(fit, package)
            answer = total, why
        elif question == "where\n":
            answer = str(package)
        else:
            start = time.process_time()
            fit()
            answer = time.process_time() - start
        print(json.dumps(answer), flush=True)


class Worker:
    """A process that fits with the package of one folder when asked."""

    def __init__(self, folder):
        command = [sys.executable, __file__, "--worker"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=environment(folder), cwd=folder, **pipes)
        if not Path(self.ask("where")).is_relative_to(folder):
            raise RuntimeError(f"the worker took another package than that of {folder}")

    def ask(self, question):
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


CACHE = tempfile.TemporaryDirectory()  # compiled files are kept, in none of the folders measured


def environment(folder):
    own = {"PYTHONPATH": str(folder), "MPLBACKEND": "Agg", "PYTHONPYCACHEPREFIX": CACHE.name}
    return os.environ | ONE | own | {"PYTHONDONTWRITEBYTECODE": ""}


def cpu_seconds(folder, *arguments):
    """Of a Python process with its children."""
    command = [sys.executable, *arguments]
    process = subprocess.Popen(
        command, env=environment(folder), cwd=folder, stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def measured(folders, rounds, fits):
    """For each folder, how long everything takes; in each round everything is timed once."""
    programs = {
        "import dplit": ("-c", "import dplit"),
        "import sklearn.cluster": ("-c", "import sklearn.cluster"),
        "python -m dplit --help": ("-m", "dplit", "--help"),
        "import numpy": ("-c", "import numpy"),
    }
    workers = [Worker(folder) for folder in folders]
    calls = [one.ask("calls") for one in workers]
    times = [[] for _ in folders]
    for turn in range(fits):
        for i in range(len(workers))[:: 1 if turn % 2 else -1]:
            times[i].append(workers[i].ask("time"))
    for one in workers:
        one.close()
    best = [{name: [] for name in programs} for _ in folders]
    for turn in range(rounds + 1):
        for name, arguments in programs.items():
            for i, folder in enumerate(folders):
                seconds = cpu_seconds(folder, *arguments)
                if turn:  # the first round compiles
                    best[i][name].append(seconds)
    result = []
    for (total, why), seconds, each in zip(calls, times, best, strict=True):
        each = {name: min(found) for name, found in each.items()}
        checks = sum(sum(found.values()) for found in why.values())
        result.append(
            {
                "calls in a small PEMeans fit": total,
                "of them checks": checks,
                "share of checks": round(checks / total, 3),
                "checks": {
                    reason: dict(Counter(found).most_common()) for reason, found in why.items()
                },
                "import dplit / import sklearn.cluster": ratio(
                    each, "import dplit", "import sklearn.cluster"
                ),
                "python -m dplit --help / import numpy": ratio(
                    each, "python -m dplit --help", "import numpy"
                ),
                "fit / import numpy": round(min(seconds) / each["import numpy"], 3),
                "seconds": {name: round(value, 4) for name, value in each.items()}
                | {"small PEMeans fit": round(min(seconds), 5)},
            }
        )
    return result


def ratio(seconds, one, other):
    return round(seconds[one] / seconds[other], 3)


# ---------------------------------------------------------------- the table


def told(value):
    if isinstance(value, list):
        return str(len(value))
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def table(columns):
    """Rows of what is one number or a list, then the lists and the names that count as checks."""
    plain = {k: v for k, v in columns[0][1].items() if not isinstance(v, dict)}
    head = ["", *(name for name, _ in columns)]
    rows = [head] + [[key, *(told(found[key]) for _, found in columns)] for key in plain]
    for key in columns[0][1]["seconds"]:
        rows.append([f"seconds: {key}", *(f"{found['seconds'][key]:.4f}" for _, found in columns)])
    if len(columns) > 1:
        now, then = (found["seconds"]["small PEMeans fit"] for _, found in columns)
        rows.append([f"fit, ratio to {columns[1][0]}", f"{now / then:.3f}", ""])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *rest in rows:
        cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()
    for name, found in columns:
        for key, value in found.items():
            if isinstance(value, list) and value:
                yield "\n".join([f"\n{name}: {key}", *(f"  {line}" for line in value)])
        for reason, names in found["checks"].items():
            most = ", ".join(f"{called} {n}" for called, n in [*names.items()][:12])
            yield f"\n{name}: checks, {reason}, {sum(names.values()):,}\n  {most}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", metavar="REF", help="a git revision to compare it with")
    parser.add_argument("--json", action="store_true", help="for machines, with all names")
    parser.add_argument("--rounds", type=int, default=3, help="how often an import is timed")
    parser.add_argument("--fits", type=int, default=40, help="how often the fit is timed")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker()
    with tempfile.TemporaryDirectory() as folder:
        trees = {"now": ROOT}
        if options.against:
            archive = ["git", "archive", options.against, "dplit"]
            files = subprocess.run(archive, cwd=ROOT, capture_output=True, check=True).stdout
            subprocess.run(["tar", "-x", "-C", folder], input=files, check=True)
            trees[options.against] = Path(folder).resolve()
        found = measured([*trees.values()], options.rounds, options.fits)
        columns = [
            (name, counted(tree) | timed)
            for (name, tree), timed in zip(trees.items(), found, strict=True)
        ]
    print(json.dumps(dict(columns), indent=1) if options.json else "\n".join(table(columns)))


if __name__ == "__main__":
    main()
