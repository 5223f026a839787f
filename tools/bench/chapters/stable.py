"""Stable clusters: from how many rows and which distance on they are released, and on which real data (nbs/k_tuples/kmeans.ipynb).

Both compared with PEMeans at the same privacy cost. Losses are over those of k-means without privacy.
"""

import math
import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine

from bench.sets import load
from dplit import KTupleKMeans, PEMeans, datasets
from dplit.accounting import Table
from dplit.datasets import kmeans_loss
from dplit.inputs import AbstainedWarning, PrivacyWarning

REAL = ["iris", "wine", "cancer", "diabetes", "digits", "mnist", "gas", "letter", "adult"]


def equally_far(k, distance, rows, seed):
    """k Gaussians of deviation 1 in k columns, every two means so far apart."""
    rng = np.random.default_rng(seed)
    means = distance / math.sqrt(2) * np.eye(k)
    return means, np.repeat(means, rows, axis=0) + rng.standard_normal((k * rows, k))


def fitted(kind, X, k, seed, epsilon, delta, radius):
    """A fit at one privacy level, without the word that it abstained."""
    model = kind(k, epsilon=epsilon, delta=delta, radius=radius, random_state=seed)
    with warnings.catch_warnings():
        for kind_of in (PrivacyWarning, AbstainedWarning):
            warnings.simplefilter("ignore", kind_of)
        return model.fit(X)


def release(asked):
    """How many of so many fits are released, and the largest loss of PEMeans, at epsilon 1, delta 1e-6."""
    lines = []
    for k in asked.clusters:
        for distance in asked.distances:
            found = []
            for rows in asked.rows:
                released, losses = 0, []
                for seed in range(asked.runs):
                    means, X = equally_far(k, distance, rows, seed)
                    ask = {"epsilon": 1.0, "delta": 1e-6, "radius": 2 * distance}
                    released += fitted(KTupleKMeans, X, k, seed, **ask).status_ == "released"
                    centers = fitted(PEMeans, X, k, seed, **ask).cluster_centers_
                    losses.append(kmeans_loss(X, centers) / kmeans_loss(X, means))
                found.append(f"{released} of {asked.runs}; {max(losses):.3f}")
            lines.append((k, f"{distance:g}", *found))
            print(*lines[-1], sep="   ", flush=True)
    print(Table(["k", "distance", *(f"{rows} rows each" for rows in asked.rows)], lines))


def table_of(name):
    """(rows, k) of a real set, centered, largest norm 1; columns whose units differ by their ranges first."""
    if name in ("iris", "digits", "gas", "letter", "adult"):
        return load(name)
    if name == "mnist":
        X, k = datasets.fetch_mnist().data, 10
    elif name == "wine":
        X, k = load_wine().data, 3
    else:
        X, k = {
            "cancer": (datasets.load_breast_cancer, 2),
            "diabetes": (datasets.load_diabetes, 4),
        }[name]
        X = X().data
    if name != "mnist":
        X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    X = X - X.mean(axis=0)
    return X / np.linalg.norm(X, axis=1).max(), k


def real(asked):
    """On which real tables it is released, at delta = n^-1.1, and what it and PEMeans lose there."""
    lines, tried, fits = [], 0, 0
    for name in asked.sets:
        try:
            X, own = table_of(name)
        except FileNotFoundError as error:
            print(f"{name} is skipped: {error}")
            continue
        tried += 1
        for k in sorted({2, 3, 4, own}):
            best = None
            for epsilon in asked.epsilons:
                ask = {"epsilon": epsilon, "delta": len(X) ** -1.1, "radius": 1.0}
                ours = [fitted(KTupleKMeans, X, k, s, **ask) for s in range(asked.runs)]
                fits += len(ours)
                ours = [m.cluster_centers_ for m in ours if m.status_ == "released"]
                if not ours:
                    continue
                best = best or KMeans(k, n_init=10, random_state=0).fit(X).inertia_ / len(X)
                theirs = [
                    fitted(PEMeans, X, k, s, **ask).cluster_centers_ for s in range(asked.runs)
                ]
                both = [
                    np.mean([kmeans_loss(X, c) for c in centers]) / best
                    for centers in (ours, theirs)
                ]
                share = f"{len(ours)} of {asked.runs}"
                lines.append(
                    (name, *X.shape, k, f"{epsilon:g}", share, *(f"{v:.3f}" for v in both))
                )
                print(*lines[-1], sep="   ", flush=True)
        print(f"{name}, {len(X)} x {X.shape[1]}: tried", flush=True)
    print(f"{tried} tables, {fits} fits; released:")
    head = ["table", "rows", "columns", "k", "epsilon", "released", "its loss", "PEMeans"]
    print(Table(head, lines) if lines else "none")


def options(parser):
    """Sub-commands of the chapter."""
    commands = parser.add_subparsers(dest="part", required=True)
    part = commands.add_parser("release", help=release.__doc__)
    part.add_argument("--clusters", type=int, nargs="+", default=[3, 8])
    part.add_argument("--distances", type=float, nargs="+", default=[10, 15, 20, 30])
    part.add_argument("--rows", type=int, nargs="+", default=[1000, 2500, 5000, 10_000])
    part.add_argument("--runs", type=int, default=5)
    part.set_defaults(run=release)
    part = commands.add_parser("real", help=real.__doc__)
    part.add_argument("--sets", nargs="+", choices=REAL, default=REAL)
    part.add_argument("--epsilons", type=float, nargs="+", default=[1, 4, 8])
    part.add_argument("--runs", type=int, default=3)
    part.set_defaults(run=real)
