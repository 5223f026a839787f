"""k-medoids without sources: SourceTargetKMedoids compared with FasterPAM, from 2 to 1,000 medoids of 500 to 20,000 rows."""

import numpy as np
from scipy.spatial.distance import cdist

from bench.store import table, timed
from dplit import SourceTargetKMedoids
from dplit.source_target import stc_cost

try:
    import kmedoids
except ImportError:
    kmedoids = None

KS = (2, 5, 10, 30, 100, 300, 1000)
RUNS = {500: 20, 1000: 20, 2000: 10, 5000: 6, 10_000: 4, 20_000: 2}
FIRST = 1000  # seeds from here on: the solver's rules were set on 0 to 3
KEY = {"n": int, "d": int, "data": str, "k": int, "runs": int}


def points(n, d, data, seed):
    """One Gaussian, or thirty of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if data == "blobs":
        X += rng.normal(size=(30, d))[rng.integers(30, size=n)] * 5
    return X


def all_distances(X):
    """In single precision, a million at a time: the conversion then takes no time."""
    D = np.empty((len(X), len(X)), dtype=np.float32)
    step = max(1, 10**6 // len(X))
    for at in range(0, len(X), step):
        D[at : at + step] = cdist(X[at : at + step], X)
    return D


def faster_pam(X, k, seed):
    """FasterPAM from a random start, one thread, and the matrix it needs."""
    return kmedoids.fasterpam(all_distances(X), k, random_state=seed, n_cpu=1).medoids.astype(int)


def ours(X, k):
    return SourceTargetKMedoids(k).fit(Xt=X).medoid_indices_


def compare(n, d, data, k, runs, repeats=None):
    """Mean cost and CPU time of both, in alternation: each run has data, and a start of FasterPAM, of its own."""
    repeats = repeats or (3 if n <= 2000 else 1)
    cost, seconds = np.empty((2, runs)), np.empty((2, runs))
    for run in range(runs):
        X = points(n, d, data, FIRST + run)
        ways = [lambda X=X: ours(X, k), lambda X=X, run=run: faster_pam(X, k, run)]
        found = [[timed(way) for way in ways] for _ in range(repeats)]
        cost[:, run] = [stc_cost(X, None, medoids) for medoids, _ in found[0]]
        seconds[:, run] = np.min([[s for _, s in pair] for pair in found], axis=0)
    (cost0, cost1), (s0, s1) = cost.mean(axis=1), seconds.mean(axis=1)
    over = cost[1] / cost[0]
    row = {"n": n, "d": d, "data": data, "k": k, "runs": runs}
    row |= {"cost": f"{cost0:.5f}", "cost_over_ours": f"{cost1 / cost0:.5f}"}
    row |= {"error": f"{over.std() / max(1, runs - 1) ** 0.5:.5f}"}
    row |= {"cpu_s": f"{s0:.3g}", "time_over_ours": f"{s1 / s0:.3g}"}
    return {"rows": [row]}


def show(line):
    for row in line["rows"]:
        print("  ".join(f"{v!s:>9s}" for v in row.values()), flush=True)


def grid(path=None, sizes=tuple(RUNS), ks=KS, share=1.0):
    """The table, a line for each cell with fewer medoids than half the rows."""
    jobs = [
        (n, d, data, k, max(2, round(RUNS[n] * share)))
        for n in sizes
        for d in (2, 8)
        for data in ("gauss", "blobs")
        for k in ks
        if 2 * k < n
    ]
    return table(path, KEY, jobs, compare, show)
