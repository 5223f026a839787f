"""What the private zoom is worth where the radius is too large, and what it costs where it is right (nbs/estimators/zooming.ipynb).

loose: every set is scaled to largest norm 1 (which reads the data: for benchmarks only); the public
ball has a radius of F, and its center lies A (F - 1) from the middle of the rows. Losses are sums of
squares of all rows over those of k-means, the mean over the seeds; the last column is what the zoom
gives over what the ball of radius 1 gives without.

auc: the sets of nbs/examples/benchmarks_kmeans.ipynb in their right balls, cheap ones first. Areas under loss against epsilon of
PEMeans with the zoom, over those without. Sets that come from files are left out where DPLIT_DATA does
not have them.
"""

from functools import cache, partial
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from bench import sets as right
from bench.chapters import pe_means
from bench.sets import EPSILONS, SETS, auc, geometric_mean
from bench.store import Store
from dplit import HDPEMeans, MaxCoverKMeans, PEMeans, datasets
from dplit.accounting import Table

METHODS = {"PEMeans": PEMeans, "HDPEMeans": HDPEMeans, "MaxCoverKMeans": MaxCoverKMeans}
# name -> rows, columns, clusters
BLOBS = {"blobs_2": (5000, 2, 8), "blobs_10": (5000, 10, 10), "blobs_80": (20_000, 80, 40)}
TAILS = {"lognormal": (5000, 2, 8), "t_2": (5000, 2, 8), "t_2, 5 columns": (10_000, 5, 10)}
LOOSE = BLOBS | TAILS
ASK = {"method": str, "dataset": str, "factor": float, "away": float, "zoom": str, "seed": int}


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


def measure(*job):
    """What is stored of one fit."""
    *ask, zoom, seed = job
    return {"loss": loss(*ask, zoom == "on", seed)}


def run_loose(methods, sets, factors, away, seeds, folder):
    """Print a line for each method, set and ball; the tight ball comes first."""
    path = folder and folder / "chapter_zoom_loose.csv"
    results, lines = Store(path, ASK, [*ASK, "loss"]), []
    for method in methods:
        for name in sets:
            tight = None
            for factor, a in [(1.0, 0.0), *((f, a) for f in factors for a in away)]:
                found = {}
                for zoom in ("off", "on"):
                    runs = (
                        results.once((method, name, factor, a, zoom, s), measure)["loss"]
                        for s in range(seeds)
                    )
                    found[zoom] = np.array([*map(float, runs)])
                tight = tight or found["off"].mean()
                cells = [
                    f"{v.mean():.3f} +- {v.std() / np.sqrt(seeds):.3f}" for v in found.values()
                ]
                lines.append([method, name, f"{factor:g}", a, *cells, f"{found['on'].mean() / tight:.3f}"])  # fmt: skip
                print(*lines[-1], flush=True)
    head = ["method", "rows", "radius x", "away", "no zoom", "zoom", "zoom / tight, no zoom"]
    print(Table(head, lines))


def run_auc(sets, seeds, folder):
    """Print the ratio of areas of each set with its standard error, and their geometric mean."""
    results, lines, ratios = pe_means.store_of(folder, "chapter_zoom_auc"), [], {}
    sized = {name: right.load(name) for name in right.available(sets)}
    for name, (X, k) in sorted(sized.items(), key=lambda item: item[1][0].size * item[1][1]):
        areas = {}
        for zoom in (False, True):
            at = partial(pe_means.loss, partial(PEMeans, k, zoom=zoom), X)
            runs = [[pe_means.once(results, (name, f"zoom {zoom}", e, s), partial(at, e, s)) for e in EPSILONS]
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


def options(parser):
    """Sub-commands of the chapter."""
    parts = parser.add_subparsers(dest="part", required=True)
    loose = parts.add_parser("loose", help="balls that are too large")
    areas = parts.add_parser("auc", help="balls that are right")
    for part, sets in ((loose, LOOSE), (areas, SETS)):
        part.add_argument("--sets", nargs="+", choices=sets, default=list(sets))
        part.add_argument("--seeds", type=int, default=5)
        part.add_argument("--out", type=Path, help="folder that keeps what is finished")
    loose.add_argument("--factors", nargs="+", type=float, default=[10.0, 100.0, 1000.0])
    loose.add_argument("--away", nargs="+", type=float, default=[0.0, 0.9])
    loose.add_argument("--methods", nargs="+", choices=METHODS, default=["PEMeans"])
    loose.set_defaults(
        run=lambda a: run_loose(a.methods, a.sets, a.factors, a.away, a.seeds, a.out)
    )
    areas.set_defaults(run=lambda a: run_auc(a.sets, a.seeds, a.out))
