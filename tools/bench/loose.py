"""PEMeans on every set as people run it, at epsilon 1: loss and its spread, time, memory, and what the zoom does: loose.csv.

Each set in its right ball and in one ten times as large, with the zoom (the default) and without. Time is that of the
fastest fit; memory is what the first fit of a fresh process took, by default in the right ball.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from bench.peers.meter import measured
from bench.sets import available, load, spread
from bench.store import table
from dplit import PEMeans, datasets

CASES = [(radius, zoom) for radius in (1.0, 10.0) for zoom in (True, False)]  # the default first


def fits(name, radius, zoom, seeds):
    """A line of the table."""
    X, k = load(name)
    n, d = X.shape
    cost = {"epsilon": 1.0, "delta": n**-1.1, "radius": radius}
    found = []
    for seed in range(seeds):
        model = PEMeans(k, **cost, zoom=zoom, random_state=seed)
        centers, _, cpu, peak = measured(lambda model=model: model.fit(X).cluster_centers_)
        found.append((datasets.kmeans_loss(X, centers), cpu, peak))
    losses, cpu, peak = np.array(found).T
    line = {"dataset": name, "n": n, "d": d, "k": k, "radius": radius, "zoom": zoom, "seeds": seeds}
    line |= {
        "loss": f"{losses.mean():.6g}",
        "sd": f"{spread(losses):.3g}",
        "cpu_s": f"{min(cpu):.3g}",
    }
    return line | {"peak_mb": f"{peak[0]:.0f}" if (radius, zoom) == CASES[0] else ""}


def measure(name, seeds):
    """All lines of one set, by a process that has fitted nothing before."""
    with ProcessPoolExecutor(1, get_context("fork")) as fresh:
        found = [fresh.submit(fits, name, *case, seeds) for case in CASES]
        return {"rows": [line.result() for line in found]}


def run(folder, sets, seeds):
    jobs = [(name, seeds) for name in available(sets)]
    table(folder / "loose.csv", {"dataset": str, "seeds": int}, jobs, measure)
