"""The sets on which private k-means is compared, and the area by which it is."""

import math
from functools import cache, partial

import numpy as np

from bench import recipes
from dplit import datasets

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
SMALL = (0.05, 0.1)  # in a table of their own: areas are over the range above
# from cheap to expensive
FILES = ["iris", "g2_4", "g2_16", "digits", "g2_64", "g2_128", "s1", "adult", "gas", "letter", "birch2"]  # fmt: skip
ELONGATED = [f"elong_{k}_{d}" for k, d in ((16, 4), (16, 16), (64, 4), (16, 64), (64, 16), (64, 64))]  # fmt: skip
BLOBS = [f"sklearn_{k}_{d}" for d in (4, 16, 64, 128) for k in (4, 16, 64)]
SETS = FILES + ELONGATED + BLOBS
LARGE = "blobs_1e5_16_16"  # for times only


@cache
def load(name):
    """(rows, k): centered by their mean and scaled to largest norm 1, as the paper does. For benchmarks only: that is not private."""
    if name == LARGE:
        return blobs(100_000), 16
    if name in recipes.MADE:
        X, k = recipes.read(name)
        return scaled(X), k
    head, _, rest = name.partition("_")
    if head == "sklearn" or head == "elong":
        k, d = map(int, rest.split("_"))
        make = partial(datasets.make_isotropic_blobs, 20_000)
        make = make if head == "sklearn" else partial(datasets.make_elongated_blobs, 10_000)
        X = make(d, k, random_state=1).data
    elif name in ("iris", "digits"):
        X, k = getattr(datasets, f"load_{name}")().data, {"iris": 3, "digits": 10}[name]
    else:
        b = datasets.fetch_clustering({"adult": "adult6"}.get(name, name))
        X, k = b.data, b.n_clusters
        if name == "birch2":
            X = X[np.random.default_rng(0).choice(len(X), 25_000, replace=False)]
    return scaled(X), k


def scaled(X):
    """Rows with mean 0 and largest norm 1."""
    X = X - X.mean(axis=0)
    return X / np.linalg.norm(X, axis=1).max()


def blobs(n):
    return scaled(datasets.make_isotropic_blobs(n, 16, 16, random_state=1).data)


def available(sets):
    for name in sets:
        try:
            load(name)
        except FileNotFoundError:
            print(f"{name}: no file, left out")
        else:
            yield name


def auc(curve):
    """Area under loss against epsilon, by trapezoids."""
    return float(np.trapezoid(curve, EPSILONS))


def spread(values):
    """Standard deviation over runs, the first axis, with divisor n - 1; 0 of a single one."""
    return np.std(values, axis=0, ddof=min(1, len(values) - 1))


def geometric_mean(values):
    return math.exp(np.mean(np.log(values)))
