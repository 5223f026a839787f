"""Beyond memory, measured: rows in a memory map on this disk, from 1e5 to as many as asked for.

Writes one file of --rows x 16 float32 by blocks (6.4 GB for 1e8) into the folder of results, passes over
its first 1e5, 1e6, ... rows, and deletes it. Each line: the finite-number check, and one round of
NoisyLloyd with 16 clusters, compared with numpy's own sum over the same map and with a round that numpy
makes without privacy; and the most memory that a whole fit took (pages of the file apart, which the
system may drop at any time). With dask the last size is fitted through dask's threads too, and
the bits are compared. Set OMP_NUM_THREADS=1.
"""

import importlib
import re
import shutil
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from bench.store import write
from dplit import NoisyLloyd
from dplit.accounting import Table
from dplit.geometry import NearestCenter, sphere_packing
from dplit.inputs import check_rows
from dplit.inputs.lattice import lattice
from dplit.mechanisms import Noise

D, K, RADIUS, BLOCK = 16, 16, 1.0, 2**18
PASSES = "sum", "check", "round", "numpy_round"


def write_rows(path, n):
    """Sixteen groups in the unit ball, written block by block."""
    rng = np.random.default_rng(0)
    homes = sphere_packing(K, D, 0.7, rng).astype(np.float32)
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (n, D))
    for i in range(0, n, BLOCK):
        m = min(BLOCK, n - i)
        rows[i : i + m] = homes[rng.integers(K, size=m)]
        rows[i : i + m] += 0.05 * rng.standard_normal((m, D), dtype=np.float32)
    rows.flush()


def seconds(function, repeat=1):
    """Shortest (wall, processor) time; on a busy machine the second is more reliable."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter(), time.process_time()
        function()
        times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    return np.min(times, axis=0)


def numpy_round(X, centers):
    """A round of Lloyd's as numpy has it: one thread, no privacy, no clipping, block by block."""
    k, half = len(centers), (centers**2).sum(axis=1) / 2
    sums, counts = np.zeros(centers.shape), np.zeros(k)
    for i in range(0, len(X), 2**13):
        rows = X[i : i + 2**13].astype(float)
        labels = (rows @ centers.T - half).argmax(axis=1)
        counts += np.bincount(labels, minlength=k)
        sums += (labels == np.arange(k)[:, None]).astype(float) @ rows
    return sums, counts


class Peak:
    """The most memory of its own (anonymous pages) that this process holds, beyond the first time; in MB, Linux."""

    base = None

    def own(self):
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"RssAnon:\s*(\d+)", status)[1]) / 1024

    def __enter__(self):
        self.most = self.own()
        Peak.base = Peak.base or self.most
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def look(self):
        while not self.done.wait(0.005):
            self.most = max(self.most, self.own())

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.megabytes = self.most - Peak.base


def model(**params):
    cost = {"epsilon": 1.0, "delta": 1e-9, "radius": RADIUS, "random_state": 0}
    return NoisyLloyd(K, **cost, n_iter=2, **params)


def measure(X):
    """Seconds (check, numpy's sum, our round, numpy's round), and peak memory of a fit in MB."""
    repeat = 3 if len(X) < 5e7 else 1
    centers = sphere_packing(K, D, RADIUS, np.random.default_rng(1))
    step, limit = lattice(RADIUS)
    assign = NearestCenter(centers / step, limit, whole=True)

    def ours():
        return Noise(0).sums(X, radius=RADIUS, groups=assign, n_groups=K, mu=1.0)

    with Peak() as peak:
        fitted = model().fit(X)
    times = (
        seconds(lambda: X.sum(axis=0, dtype=float), repeat),
        seconds(lambda: check_rows(X, "scale"), repeat),
        seconds(ours, repeat),
        seconds(lambda: numpy_round(X, centers), repeat),
    )
    return times, peak.megabytes, fitted


def draw(sizes, results, path):
    figure, ax = plt.subplots(figsize=(6, 4))
    names = "numpy's sum", "the check", "our round", "numpy's round, not private"
    for j, (name, marker) in enumerate(zip(names, "xso^", strict=True)):
        ax.loglog(sizes, [times[j][1] for times, *_ in results], marker + "-", label=name)
    ax.set(xlabel="rows of 16 float32 in a memory map", ylabel="processor seconds for one pass")
    ax.legend()
    figure.savefig(path, bbox_inches="tight", dpi=120)


def part(path, block_info=None):
    """The rows of one partition."""
    (first, last), _ = block_info[None]["array-location"]
    return np.load(path, mmap_mode="r")[first:last]


def with_dask(X, fitted):
    """Seconds and memory of a fit by dask's threads, bits compared."""
    from dask import array, config

    # from_array would copy the map: each partition opens the file itself
    chunks = array.core.normalize_chunks((1_000_000, D), X.shape)
    rows = array.map_blocks(part, X.filename, chunks=chunks, dtype=X.dtype)
    start = time.perf_counter()
    with config.set(scheduler="threads"), Peak() as peak:
        same = model().fit(rows).cluster_centers_.tobytes() == fitted.cluster_centers_.tobytes()
    wall = time.perf_counter() - start
    print(
        f"dask, partitions of a million rows, threads: {wall:.1f} s a fit, "
        f"{peak.megabytes:.0f} MB, the same bits: {same}"
    )
    return {"dask_s": f"{wall:.3g}", "dask_peak_mb": f"{peak.megabytes:.0f}", "dask_same": same}


def check(n, folder=None, dask=True):
    """End here if the file would not fit, or if dask is wanted and missing."""
    if dask:
        importlib.import_module("dask.array")
    folder = folder or tempfile.gettempdir()
    if shutil.disk_usage(folder).free < 1.2 * 4 * n * D:
        raise SystemExit(
            f"{4e-9 * n * D:.1f} GB do not fit in {folder}: fewer --rows, or another folder"
        )


def show(sizes, results):
    """Print the table of times and memory, and how the time of a round grows."""
    lines = [
        (
            f"{m:.0e}",
            *(f"{wall:.3g} ({cpu:.3g})" for wall, cpu in times),
            " ".join(f"{ratio:.1f}" for ratio in times[2] / times[0]),
            " ".join(f"{ratio:.2f}" for ratio in times[2] / times[3]),
            f"{1e9 * times[2][1] / m:.0f}",
            f"{peak:.0f}",
        )
        for m, (times, peak, _) in zip(sizes, results, strict=True)
    ]
    head = ["rows", "numpy's sum", "check", "our round", "numpy's round"]
    head += ["round / sum", "round / numpy's round", "CPU ns a row", "peak of a fit, MB"]
    print("Seconds: wall (processor); ratios: wall, processor.")
    print(Table(head, lines))
    logs = np.log([[m, times[2][1]] for m, (times, *_) in zip(sizes, results, strict=True)])
    slope = np.polyfit(*logs.T, 1)[0] if len(sizes) > 1 else 1.0
    print(f"processor time of our round grows like rows to the power {slope:.2f}")


def passes(n, folder=None, picture=None, dask=True):
    """Write n rows, pass over the first 1e5, 1e6, ... of them, delete them. A list of rows, one a size."""
    with tempfile.TemporaryDirectory(dir=folder) as folder:
        path = Path(folder, "rows.npy")
        wall, _ = seconds(lambda: write_rows(path, n))
        print(f"writing {4e-9 * n * D:.1f} GB: {wall:.0f} s", flush=True)
        rows = np.load(path, mmap_mode="r")
        sizes = [m for m in 10 ** np.arange(5, 12) if m < n] + [n]
        results = [measure(rows[:m]) for m in sizes]
        show(sizes, results)
        if picture:
            draw(sizes, results, picture)
        found = [
            {"rows": m, "peak_mb": f"{peak:.0f}", "dask_s": "", "dask_peak_mb": "", "dask_same": ""}
            | {f"{name}_cpu_s": f"{cpu:.4g}" for name, (_, cpu) in zip(PASSES, times, strict=True)}
            for m, (times, peak, _) in zip(sizes, results, strict=True)
        ]
        if dask:
            found[-1] |= with_dask(rows, results[-1][2])
        return found


def run(folder, rows, picture=None, dask=True):
    """scale.csv, in a process of its own: what others freed would hide what it takes."""
    check(rows, folder, dask)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        found = fresh.submit(passes, rows, folder, picture, dask).result()
    write(folder / "scale.csv", found)
