"""Benchmarks of the source-target chapter: the solver against its peers, and shares of the gap with 30 runs.

python tools/bench_source_target.py solver          # n = 5000 and 20000, about five minutes; FasterPAM needs `pip install kmedoids`
python tools/bench_source_target.py shares [--runs 30] [--mnist]
"""

import argparse
import time
from functools import partial

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from dplit import (
    NeighborNoisyAverages,
    NoisyAverageSet,
    NoisyLloyd,
    SourceTargetKMedoids,
    datasets,
)
from dplit.geometry import gaussian_projection
from dplit.source_target import kd_cover, source_distance, stc_cost

try:
    import kmedoids
except ImportError:
    kmedoids = None


def accelerated_k_medoids(X, S, k, seed=0, batch=3000, sweeps=10, draws=100):
    """de Mathelin et al. (ICLR 2022): greedy on a random batch, then medoids of clusters by branch and bound.

    Written from the paper's description, in favour of its speed: the greedy updates its gains.
    """
    rng, n = np.random.default_rng(seed), len(X)
    d0 = cKDTree(S).query(X)[0]
    rows = rng.permutation(n)[:batch]
    D, distance, chosen = cdist(X[rows], X[rows]), d0[rows].copy(), []
    for _ in range(k):
        gains = np.maximum(distance[:, None] - D, 0).sum(axis=0)
        chosen.append(int(gains.argmax()))
        distance = np.minimum(distance, D[chosen[-1]])
    medoids, cost = rows[chosen], np.inf
    for _ in range(sweeps):
        table = np.c_[d0, cdist(X, X[medoids])]
        owner, before = table.argmin(axis=1), cost
        cost = table.min(axis=1).mean()
        if before - cost < 1e-4:
            break
        for slot in range(k):
            mine = np.flatnonzero(owner == slot + 1)
            if len(mine):
                medoids[slot] = _medoid(X, mine, medoids[slot], rng, draws)
    return medoids


def _medoid(X, mine, medoid, rng, draws):
    """Medoid of a cluster: candidates leave when a confidence bound on their mean exceeds the best one's."""
    best = cdist(X[[medoid]], X[mine]).mean()
    alive, total, squares, count = mine, np.zeros(len(mine)), np.zeros(len(mine)), 0
    while len(alive) > draws and count < len(mine):
        D = cdist(X[alive], X[rng.choice(mine, draws)])
        total, squares, count = total + D.sum(axis=1), squares + (D**2).sum(axis=1), count + draws
        mean = total / count
        spread = np.sqrt(np.maximum(squares / count - mean**2, 0) / count)
        keep = mean - 2 * spread < min(best, (mean + 2 * spread).min())
        alive, total, squares = alive[keep], total[keep], squares[keep]
    if not len(alive):
        return medoid
    means = np.array([cdist(X[[j]], X[mine]).mean() for j in alive])
    return alive[means.argmin()] if means.min() < best else medoid


def faster_pam(X, S, k):
    """The row-clipped matrix of all distances, and FasterPAM from a random start."""
    clipped = np.minimum(cdist(X, X).astype(np.float32), source_distance(X, S)[:, None])
    return kmedoids.fasterpam(clipped.astype(np.float32), k, random_state=0).medoids.astype(int)


def ours(X, S, k, **options):
    return SourceTargetKMedoids(k, **options).fit(X, S).medoid_indices_


WAYS = {
    "ours": ours,
    "ours, greedy only": partial(ours, n_passes=0),
    "accelerated k-medoids": accelerated_k_medoids,
    "FasterPAM": faster_pam,
}


def solver(sizes=(5000, 20_000)):
    """Cost and time of each solver, relative to ours."""
    print(
        f"{'n / m / d / k / data':28s} {'solver':22s} {'cost':>9s} {'cost / ours':>12s} {'seconds':>8s} {'time / ours':>12s}"
    )
    for n in sizes:
        for d in (2, 8):
            for blobs in (False, True):
                rng, m, k = np.random.default_rng(0), min(n, 10_000), 100
                X, S = rng.normal(size=(n, d)), rng.normal(size=(m, d)) + 1
                if blobs:
                    X += rng.normal(size=(30, d))[rng.integers(30, size=n)] * 5
                first = None
                for name, run in WAYS.items():
                    if name == "FasterPAM" and not (kmedoids and n <= 5000):
                        continue
                    start = time.perf_counter()
                    medoids = run(X, S, k)
                    seconds, cost = time.perf_counter() - start, stc_cost(X, S, medoids)
                    first = first or (cost, seconds)
                    what = f"{n} / {m} / {d} / {k} / {'blobs' if blobs else 'gauss'}"
                    print(
                        f"{what:28s} {name:22s} {cost:9.5f} {cost / first[0]:12.4f} "
                        f"{seconds:8.2f} {seconds / first[1]:12.2f}",
                        flush=True,
                    )


def released(Xs, Xt, radius, center, seed):
    """Sources released by every method, at epsilon = 3, (3, 1e-6) or rho = 3."""
    ball = {"radius": radius, "center": center, "random_state": seed}
    coarse = Xt[kd_cover(Xt, radius / 10)]
    nas, nna = NoisyAverageSet(t=150, **ball), NeighborNoisyAverages(**ball)

    def run(model, target, **price):
        return model.set_params(**price).fit(Xs, target).sources_

    found = {}
    for name, price in (("eps 3", {"epsilon": 3.0}), ("rho 3", {"epsilon": None, "rho": 3.0})):
        for variant, target in (("paper", coarse), ("tight", Xt)):
            found[f"NAS {name} {variant}"] = run(nas, target, variant=variant, **price)
            found[f"NNA {name} {variant}"] = run(nna, target, variant=variant, **price)
        found[f"NNA {name} tight, means"] = run(nna, Xt, output="mean", **price)
        nna.set_params(output="cloud")
    for variant, target in (("paper", coarse), ("tight", Xt)):
        price = {"epsilon": 3.0, "delta": 1e-6, "rho": None}
        found[f"NAS (3, 1e-6) {variant}"] = run(nas, target, variant=variant, **price)
    found["private k-means (3, 1e-6)"] = (
        NoisyLloyd(100, epsilon=3.0, delta=1e-6, **ball).fit(Xs).cluster_centers_
    )
    return found


def synthetic(kind, seed):
    """One of the paper's three sets, as in the chapter but larger."""
    b = datasets.make_source_target(kind, 2700 if kind == 2 else 2000, 1000, random_state=seed)
    return b.Xs, b.Xt, b.radius, b.center


def digits(bunch, source, target, seed):
    """Two digits, projected to 8 columns; the ball is around the public target, with a margin of a half."""
    W = gaussian_projection(bunch.data.shape[1], 8, np.random.default_rng(seed))
    X = (bunch.data - bunch.center) @ W
    Xs, Xt = X[bunch.target == source], X[bunch.target == target]
    center = Xt.mean(axis=0)
    return Xs, Xt, 1.5 * np.linalg.norm(Xt - center, axis=1).max(), center


def shares(runs, mnist):
    """Share of the gap between ignoring the sources and seeing them, with a standard error over runs."""
    sets = {f"synthetic {kind}": (lambda s, kind=kind: synthetic(kind, s)) for kind in (1, 2, 3)}
    pixels = {"digits": datasets.load_digits()}
    if mnist:
        pixels["MNIST"] = datasets.fetch_mnist()
    for name, bunch in pixels.items():
        for a, b in ((1, 7), (5, 2), (9, 6)):
            sets[f"{name} {a} to {b}"] = lambda s, bunch=bunch, a=a, b=b: digits(bunch, a, b, s)
    for name, draw in sets.items():
        ks, gaps, won = (
            (3, 6, 9, 15) if name in ("synthetic 2", "synthetic 3") else (3, 5, 10, 20),
            [],
            {},
        )
        for seed in range(runs):
            Xs, Xt, radius, center = draw(seed)
            seen = {"ignored": None, "open": Xs} | released(Xs, Xt, radius, center, seed)
            cost = {}
            for method, rows in seen.items():
                fits = [SourceTargetKMedoids(k, n_starts=1).fit(Xt, rows) for k in ks]
                cost[method] = sum(stc_cost(Xt, Xs, fit.medoid_indices_) for fit in fits)
            gaps.append(cost["ignored"] - cost["open"])
            for method in seen:
                won.setdefault(method, []).append(cost["ignored"] - cost[method])
        print(f"\n{name}: {runs} runs, k in {ks}")
        gaps = np.array(gaps)
        for method, values in won.items():
            share = np.sum(values) / gaps.sum()
            error = np.std(np.array(values) - share * gaps) / np.sqrt(runs) / gaps.mean()
            print(f"  {method:28s} {share:6.0%} +- {error:.0%}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["solver", "shares"])
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--mnist", action="store_true")
    options = parser.parse_args()
    if options.what == "solver":
        solver()
    else:
        shares(options.runs, options.mnist)
