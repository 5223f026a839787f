"""What the private zoom is worth: `loose` where the radius is too large, `auc` what it costs where it is right.

python tools/bench_zoom.py loose [--sets NAME ...] [--factors F ...] [--away A ...] [--methods M ...] [--seeds S] [--out FILE]
python tools/bench_zoom.py auc [--sets NAME ...] [--seeds S] [--out FILE]

Set OMP_NUM_THREADS=1. With --out, every result is stored at once and a second run goes on where the
first one ended.

loose: every set is scaled to largest norm 1 (which reads the data: for benchmarks only); the public
ball has a radius of F, and its centre lies A (F - 1) from the middle of the rows. Losses are sums of
squares of all rows over those of k-means, the mean over the seeds; the last column is what the zoom
gives over what the ball of radius 1 gives without.

auc: the sets of chapter 83 in their right balls, cheap ones first. Areas under loss against epsilon of
PEMeans with the zoom, over those without. Sets that come from files are left out where DPLIT_DATA does
not have them.
"""

import argparse
from functools import cache, partial

import bench_pe_means
import numpy as np
from bench_pe_means import EPSILONS, SETS, auc, geometric_mean
from sklearn.cluster import KMeans

from dplit import HDPEMeans, MaxCoverKMeans, PEMeans, datasets
from dplit.kept import Kept
from dplit.receipts import Table

METHODS = {"PEMeans": PEMeans, "HDPEMeans": HDPEMeans, "MaxCoverKMeans": MaxCoverKMeans}
# name -> rows, columns, clusters
BLOBS = {"blobs_2": (5000, 2, 8), "blobs_10": (5000, 10, 10), "blobs_80": (20_000, 80, 40)}
TAILS = {"lognormal": (5000, 2, 8), "t_2": (5000, 2, 8), "t_2, 5 columns": (10_000, 5, 10)}
LOOSE = BLOBS | TAILS


@cache
def load(name):
    """(rows, k, loss of k-means), the rows around their mean, the longest of norm 1."""
    (n, d, k), rng = LOOSE[name], np.random.default_rng(5)
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


def loss(method, name, factor, away, zoom, seed):
    """Loss of one fit over that of k-means."""
    X, k, best = load(name)
    to_side = np.random.default_rng(3).normal(size=X.shape[1])
    center = away * (factor - 1) * to_side / np.linalg.norm(to_side)
    public = {"epsilon": 1.0, "delta": 1e-6, "radius": float(factor), "center": center}
    model = METHODS[method](k, **public, zoom=zoom, random_state=seed).fit(X)
    return datasets.kmeans_loss(X, model.cluster_centers_) / best


def run_loose(methods, sets, factors, away, seeds, out):
    """Print a line for each method, set and ball; the tight ball comes first."""
    results, lines = Kept(out), []
    for method in methods:
        for name in sets:
            tight = None
            for factor, a in [(1.0, 0.0), *((f, a) for f in factors for a in away)]:
                found = {}
                for zoom in (False, True):
                    ask = method, name, factor, a, zoom
                    key = "|".join(map(str, ask))
                    runs = (
                        results.once(f"{key}|{s}", partial(loss, *ask, s)) for s in range(seeds)
                    )
                    found[zoom] = np.array([*runs])
                tight = tight or found[False].mean()
                cells = [
                    f"{v.mean():.3f} +- {v.std() / np.sqrt(seeds):.3f}" for v in found.values()
                ]
                lines.append([method, name, f"{factor:g}", a, *cells, f"{found[True].mean() / tight:.3f}"])  # fmt: skip
                print(*lines[-1], flush=True)
    head = ["method", "rows", "radius x", "away", "no zoom", "zoom", "zoom / tight, no zoom"]
    print(Table(head, lines))


def run_auc(sets, seeds, out):
    """Print the ratio of areas of each set with its standard error, and their geometric mean."""
    results, lines, ratios = Kept(out), [], {}
    sized = {name: bench_pe_means.load(name) for name in bench_pe_means.available(sets)}
    for name, (X, k) in sorted(sized.items(), key=lambda item: item[1][0].size * item[1][1]):
        areas = {}
        for zoom in (False, True):
            at = partial(bench_pe_means.loss, partial(PEMeans, k, zoom=zoom), X)
            runs = [[results.once(f"{name}|{zoom}|{e}|{s}", partial(at, e, s)) for e in EPSILONS]
                    for s in range(seeds)]  # fmt: skip
            areas[zoom] = np.array([auc(run) for run in runs])
        off, on = (a.mean() for a in areas.values())
        ratios[name] = on / off
        error = np.hypot(*(a.std(ddof=1) / a.mean() for a in areas.values())) / np.sqrt(seeds)
        lines.append([name, *X.shape, k, f"{off:.4g}", f"{on:.4g}", f"{on / off:.4f}", f"{error * on / off:.4f}"])  # fmt: skip
        print(*lines[-1], flush=True)
    print(Table(["set", "n", "d", "k", "no zoom", "zoom", "ratio", "+-"], lines))
    worst = max(ratios, key=ratios.get)
    print(f"{len(ratios)} sets, {seeds} seeds: geometric mean {geometric_mean([*ratios.values()]):.4f}, worst {ratios[worst]:.4f} ({worst})")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parts = parser.add_subparsers(dest="part", required=True)
    loose, areas = parts.add_parser("loose"), parts.add_parser("auc")
    for part, sets in ((loose, LOOSE), (areas, SETS)):
        part.add_argument("--sets", nargs="+", choices=sets, default=list(sets))
        part.add_argument("--seeds", type=int, default=5)
        part.add_argument("--out")
    loose.add_argument("--factors", nargs="+", type=float, default=[10, 100, 1000])
    loose.add_argument("--away", nargs="+", type=float, default=[0.0, 0.9])
    loose.add_argument("--methods", nargs="+", choices=METHODS, default=["PEMeans"])
    args = parser.parse_args()
    if args.part == "auc":
        run_auc(args.sets, args.seeds, args.out)
    else:
        run_loose(args.methods, args.sets, args.factors, args.away, args.seeds, args.out)
