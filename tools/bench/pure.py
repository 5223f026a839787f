"""k-means at pure epsilon: GridKMeans and NoisyLloyd compared with diffprivlib and EUGkM, in a public box; losses over k-means without privacy.

Every table lies in the box [-1, 1]^d, which is public, and all methods get the same epsilon, with delta = 0. diffprivlib 0.6.6 is
its own code, installed once into DIR in an environment of its own; EUGkM (Su, Cao, Li, Bertino, Jin, CODASPY 2016) is our
reimplementation, that of the few-columns table, and is told the number of records. Seeds are 1000 to 1009, and the tables are not
those on which `grid_cells` was tuned (36 sets of blobs, seeds 200 to 235).
"""

import math
import os
from functools import partial
from pathlib import Path

import numpy as np
from sklearn import datasets as sk_datasets
from sklearn.cluster import KMeans

from bench.peers import eugkm
from bench.peers.library import Library
from bench.store import Store, write
from dplit import GridKMeans, NoisyLloyd, PEMeans, datasets

EPSILONS = [0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0]
FIRST = 1000  # of the seeds
KEY = {"dataset": str, "method": str, "epsilon": float, "seed": int}
FIELDS = [*KEY, "n", "d", "k", "loss"]


def in_box(X, low=None, high=None):
    """Rows in [-1, 1]^d, by ranges that are public, or for a set of files by those that its figure shows."""
    low, high = (X.min(axis=0), X.max(axis=0)) if low is None else (low, high)
    return np.clip(2 * (X - low) / (high - low) - 1, -1, 1)


def stored(name):
    folder = Path(os.environ.get("DPLIT_DATA", ""))
    with np.load(folder / f"{name}.npz") as file:
        return file["X"].astype(float)


def blobs(n, d, k, seed):
    bunch = datasets.make_isotropic_blobs(n, d, k, random_state=seed)
    return in_box(bunch.data, -bunch.radius, bunch.radius)


def income():
    """Age and hours a week of Adult."""
    return in_box(stored("adult6")[:, [0, 5]], np.array([16.0, 0.0]), np.array([100.0, 99.0]))


SETS = {
    "s1": (lambda: in_box(stored("s1")), 15),
    "s2": (lambda: in_box(stored("s2")), 15),
    "unbalance": (lambda: in_box(stored("unbalance")), 8),
    "adult, age and hours": (income, 5),
    "iris, petals": (lambda: in_box(sk_datasets.load_iris().data[:, 2:], 0.0, 8.0), 3),
    "iris": (lambda: in_box(sk_datasets.load_iris().data, 0.0, 8.0), 3),
    "blobs, 3000 x 1": (lambda: blobs(3000, 1, 5, 11), 5),
    "blobs, 5000 x 2": (lambda: blobs(5000, 2, 8, 12), 8),
    "blobs, 20000 x 3": (lambda: blobs(20_000, 3, 8, 13), 8),
    "blobs, 20000 x 6": (lambda: blobs(20_000, 6, 8, 14), 8),
    "birch2, every fifth": (lambda: in_box(stored("birch2")[::5]), 100),
}


def ours(make, X, k, *, epsilon, seed):
    return make(k, epsilon=epsilon, bounds=(-1.0, 1.0), random_state=seed).fit(X).cluster_centers_


METHODS = {
    "GridKMeans": partial(ours, GridKMeans),
    "EUGkM": partial(eugkm.fit, norm=math.inf),
    "NoisyLloyd": partial(ours, partial(NoisyLloyd, delta=0.0)),
    "NoisyLloyd, mean": partial(ours, partial(NoisyLloyd, delta=0.0, init="mean")),
    "diffprivlib": None,
    "PEMeans, delta 1e-6": partial(ours, partial(PEMeans, delta=1e-6)),
}


def measured(library, X, k, plain, name, method, epsilon, seed):
    """A line: the mean squared distance to the nearest center over that of k-means without privacy."""
    if method == "diffprivlib":
        asked = dict(epsilon=epsilon, delta=0.0, seed=seed, name=name.replace(" ", "_"))
        centers, *_ = library.fit(X, k, **asked)
    else:
        centers = METHODS[method](X, k, epsilon=epsilon, seed=seed)
    loss = datasets.kmeans_loss(X, centers) / plain
    return {"n": len(X), "d": X.shape[1], "k": k, "loss": f"{loss:.6g}"}


def means(rows):
    """Lines of the table: the mean of the losses of each (set, method, epsilon), and of how many fits it is one."""
    found = {}
    for row in rows:
        at = row["dataset"], row["method"], float(row["epsilon"])
        found.setdefault(at, []).append(float(row["loss"]))
    return [
        {"dataset": name, "method": method, "epsilon": f"{epsilon:g}", "seeds": len(losses)}
        | {"loss": f"{np.mean(losses):.4g}"}
        for (name, method, epsilon), losses in found.items()
    ]


def available():
    """(name, rows, clusters) of the sets whose files are there."""
    for name, (make, k) in SETS.items():
        try:
            yield name, make(), k
        except FileNotFoundError:
            print(f"{name} is left out: DPLIT_DATA does not hold it.")


def run(folder, seeds):
    """pure.csv, and pure_fits.csv with a line for each fit."""
    store, library, rows = Store(folder / "pure_fits.csv", KEY, FIELDS), Library(folder), []
    for name, X, k in available():
        best = KMeans(k, n_init=10, random_state=0).fit(X).cluster_centers_
        plain = datasets.kmeans_loss(X, best)
        jobs = [
            (name, method, epsilon, FIRST + seed)
            for seed in range(seeds)
            for method in METHODS
            for epsilon in EPSILONS
        ]
        rows += store.run(jobs, partial(measured, library, X, k, plain))
    write(folder / "pure.csv", means(rows))
