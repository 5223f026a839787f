"""What a radius that is too large costs, with the private zoom and without: loss over k-means.

python tools/bench_zoom.py [--seeds S] [--sets NAME ...] [--factors F ...] [--methods M ...] [--away A ...]

Set OMP_NUM_THREADS=1. Every set is scaled to largest norm 1 (which reads the data: for benchmarks
only); the public ball has a radius of F, and its centre lies A (F - 1) from the middle of the rows.
Losses are sums of squares of all rows over those of k-means, the mean over the seeds.
"""

import argparse
from functools import cache

import numpy as np
from sklearn.cluster import KMeans

from dplit import HDPEMeans, MaxCoverKMeans, PEMeans, datasets
from dplit.receipts import Table

METHODS = {"PEMeans": PEMeans, "HDPEMeans": HDPEMeans, "MaxCoverKMeans": MaxCoverKMeans}
# name -> rows, columns, clusters
BLOBS = {"blobs_2": (5000, 2, 8), "blobs_10": (5000, 10, 10), "blobs_80": (20_000, 80, 40)}
TAILS = {"lognormal": (5000, 2, 8), "t_2": (5000, 2, 8), "t_5": (10_000, 5, 10)}
SETS = BLOBS | TAILS


@cache
def load(name):
    """(rows, k, loss of k-means), the rows around their mean, the longest of norm 1."""
    (n, d, k), rng = SETS[name], np.random.default_rng(5)
    if name in BLOBS:
        X = datasets.make_isotropic_blobs(n, d, k, random_state=1).data
    elif name == "lognormal":
        X = np.exp(rng.normal(size=(n, d)))
    else:
        X = rng.standard_t(2, size=(n, d))
    X = X - X.mean(axis=0)
    X = X / np.linalg.norm(X, axis=1).max()
    best = KMeans(k, n_init=10, random_state=0).fit(X)
    return X, k, datasets.kmeans_loss(X, best.cluster_centers_)


def loss(method, name, factor, away, zoom, seeds):
    """Mean loss over that of k-means, and its standard error."""
    X, k, best = load(name)
    to_side = np.random.default_rng(3).normal(size=X.shape[1])
    center = away * (factor - 1) * to_side / np.linalg.norm(to_side)
    public = {"epsilon": 1.0, "delta": 1e-6, "radius": float(factor), "center": center}
    fits = (METHODS[method](k, **public, zoom=zoom, random_state=s).fit(X) for s in range(seeds))
    found = [datasets.kmeans_loss(X, fit.cluster_centers_) / best for fit in fits]
    return np.mean(found), np.std(found) / np.sqrt(len(found))


def run(methods, sets, factors, away, seeds):
    """Print a line for each method, set and ball; the tight ball comes first."""
    lines = []
    for method in methods:
        for name in sets:
            tight = None
            for factor, a in [(1, 0.0), *((f, a) for f in factors for a in away)]:
                off, on = (loss(method, name, factor, a, z, seeds) for z in (False, True))
                tight = tight or off[0]
                cells = [f"{m:.3f} +- {e:.3f}" for m, e in (off, on)]
                lines.append([method, name, factor, a, *cells, f"{on[0] / tight:.3f}"])
                print(*lines[-1], flush=True)
    head = ["method", "rows", "radius x", "away", "no zoom", "zoom", "zoom / tight, no zoom"]
    print(Table(head, lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--factors", nargs="+", type=float, default=[10, 100, 1000])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["PEMeans"])
    parser.add_argument("--away", nargs="+", type=float, default=[0.0, 0.9])
    args = parser.parse_args()
    run(args.methods, args.sets, args.factors, args.away, args.seeds)
