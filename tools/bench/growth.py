"""How time and memory of the clusterings grow with rows, columns and clusters: growth.csv.

Each point is a fit in a process of its own, with a limit of its address space (8 GB besides the file of
rows) and of its processor time (--limit). A curve stops at the first point that passes either, or that
is refused; the line then says which, and its time is the limit. In the same run: numpy's own pass
(distances, nearest center, sums; no privacy), its sum of a large array and its product of two matrices,
which say what the machine's memory and its multiplier can do. Set OMP_NUM_THREADS=1.
"""

import math
import resource
import shutil
import signal
import tempfile
import warnings
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import dplit
from bench import scale
from bench.scale import D, K, Peak, numpy_round, write_rows
from bench.store import Store, timed, write
from dplit.accounting import Table
from dplit.geometry import sphere_packing
from dplit.inputs import AbstainedWarning

SPACE = 8 * 2**30
ROWS = 20_000  # along columns and clusters
FIELDS = "method axis n d k cpu_s peak_mb answers status".split()
KEY = {"method": str, "axis": str, "n": int, "d": int, "k": int}
METHODS = ["numpy", "NoisyLloyd", "PEMeans", "HDPEMeans", "MaxCoverKMeans", "KTupleKMeans"]
METHODS += ["SourceTargetKMedoids"]
MACHINE = [("sum", "machine", 2**25, 1, 1), ("product", "machine", 2000, 2000, 2000)]
AXES = {
    "rows": [(a * 10**b, D, K) for b in range(4, 8) for a in (1, 3)] + [(10**8, D, K)],
    "columns": [(ROWS, d, K) for d in (2, 8, 32, 128, 500, 2000)],
    "clusters": [(ROWS, D, k) for k in (2, 8, 30, 125, 500, 1000)],
}


def curves(largest):
    """The jobs of each curve, small ones first; none beyond so many rows."""
    for axis, shapes in AXES.items():
        for method in METHODS:
            yield [(method, axis, n, d, k) for n, d, k in shapes if n <= largest]


def drawn(n, d, k):
    """Groups in the unit ball."""
    rng = np.random.default_rng(0)
    rows = sphere_packing(k, d, 0.7, rng).astype(np.float32)[rng.integers(k, size=n)]
    return rows + 0.2 / math.sqrt(d) * rng.standard_normal((n, d), dtype=np.float32)


def work(method, X, n, d, k):
    """What is timed: a function that gives the number of answers that were drawn, one pass each."""
    if method == "sum":
        numbers = np.ones(n)
        return lambda: numbers.sum() and 1
    if method == "product":
        left, right = np.ones((n, d)), np.ones((d, k))
        return lambda: (left @ right).size and 1
    if method == "numpy":
        centers = sphere_packing(k, d, 1.0, np.random.default_rng(1))
        return lambda: len(numpy_round(X, centers)) and 1
    if method == "SourceTargetKMedoids":
        return lambda: dplit.SourceTargetKMedoids(k).fit(X) and 0
    cost = {"epsilon": 1.0, "delta": 1e-9, "radius": 1.0, "random_state": 0}
    model = getattr(dplit, method)(k, **cost)
    # the time is that of the whole work all the same
    warnings.simplefilter("ignore", AbstainedWarning)
    return lambda: sum(r.times for r in model.fit(X).spent_.releases)


def cost(job, path, limit, answer):
    """Send what a point takes: the mean time of many fits if they are quick, and the memory of the first."""
    method, axis, *shape = job
    X = np.load(path, mmap_mode="r")[: shape[0]] if axis == "rows" else None
    space = SPACE + (path.stat().st_size if axis == "rows" else 0)
    if axis in ("columns", "clusters"):
        X = drawn(*shape)
    spent = math.ceil(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_CPU, (spent + math.ceil(limit), resource.RLIM_INFINITY))
    function = work(method, X, *shape)
    try:
        with Peak() as peak:
            answers, seconds = timed(function)
        if seconds < 0.5:  # some clocks of processors count in hundredths of a second
            many = min(100, math.ceil(0.5 / max(seconds, 1e-3)))
            seconds = timed(lambda: [function() for _ in range(many)])[1] / many
    except MemoryError:
        answer.send({"status": "memory"})
    except ValueError as refusal:
        answer.send({"status": f"refused: {refusal}"})
    else:
        found = {"cpu_s": f"{seconds:.4g}", "peak_mb": f"{peak.megabytes:.0f}"}
        answer.send(found | {"answers": answers, "status": ""})


def measure(*job, path, limit):
    """One point, in a process of its own."""
    own = get_context("fork")  # what is imported here is there at once
    here, there = own.Pipe(duplex=False)
    process = own.Process(target=cost, args=(job, path, limit, there))
    process.start()
    there.close()
    try:
        found = here.recv()
    except EOFError:
        found = None
    process.join()
    blank = {"cpu_s": "", "peak_mb": "", "answers": ""}
    if process.exitcode == -signal.SIGXCPU:
        return blank | {"cpu_s": limit, "status": "time"}
    if found is None:
        raise SystemExit(f"{job} ended with code {process.exitcode}")
    return blank | found


def exponent(sizes, seconds):
    """Slope of log time over log size in the upper half of a curve; NaN of fewer than two points."""
    upper = slice(min(len(sizes) // 2, len(sizes) - 2), None)
    return np.polyfit(*np.log([sizes[upper], seconds[upper]]), 1)[0] if len(sizes) > 1 else np.nan


def show(rows):
    """Print each curve: times, memory, exponent, and what stopped it."""
    lines = []
    for curve in curves(math.inf):
        points = [rows[job] for job in curve if job in rows]
        good = [r for r in points if not r["status"]]
        if not good:
            continue
        method, axis = curve[0][:2]
        place = {"rows": "n", "columns": "d", "clusters": "k"}[axis]
        sizes, seconds = ([float(r[c]) for r in good] for c in (place, "cpu_s"))
        end = points[-1]["status"].split(":")[0]
        slope = f"{exponent(sizes, seconds):.2f}"
        lines.append(
            (axis, method, f"{sizes[-1]:.0e}", seconds[-1], good[-1]["peak_mb"], slope, end)
        )
    print(Table(["along", "method", "up to", "CPU s", "MB", "exponent", "stopped by"], lines))


def within(row, limit):
    """A point as a run with this limit says it: what took longer was stopped."""
    if row["status"] not in ("", "time") or float(row["cpu_s"]) <= limit:
        return row
    return row | {"cpu_s": limit, "peak_mb": "", "answers": "", "status": "time"}


def table(points, limit):
    """All points that are there, curve by curve, each up to the first that was stopped."""
    found = {}
    for curve in [[job] for job in MACHINE] + [*curves(math.inf)]:
        for job in curve:
            if job in points:
                found[job] = within(points[job], limit)
                if found[job]["status"]:
                    break
    return found


def run(folder, rows, limit):
    """growth.csv, as this limit has it; with a larger one, curves that time stopped are taken up again.

    What was measured, by any limit, stays in growth_done.csv.
    """
    scale.check(rows, folder, dask=False)
    done, path = folder / "growth_done.csv", folder / "growth.csv"
    if path.exists() and not done.exists():  # of a run that had one file for both
        shutil.copy(path, done)

    def whole(row):
        return row["status"] != "time" or float(row["cpu_s"]) >= limit

    store = Store(done, KEY, FIELDS, whole)
    with tempfile.TemporaryDirectory(dir=folder) as own:
        file = Path(own, "rows.npy")
        for curve in [[job] for job in MACHINE] + [*curves(rows)]:
            for job in curve:
                if job not in store and job[1] == "rows" and not file.exists():
                    write_rows(file, rows)
                row = within(store.once(job, partial(measure, path=file, limit=limit)), limit)
                print(*(row[f] for f in FIELDS), flush=True)
                if row["status"]:
                    break
    found = table(store.rows, limit)
    write(path, [*found.values()])
    show(found)
