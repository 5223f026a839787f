"""Private k-means of this package and its peers: a line of kmeans.csv for each fit."""

import math
from functools import cache, partial

from sklearn.cluster import KMeans

from bench.peers import balcan, fastlloyd, google_lsh, pe_means_direct
from bench.peers.library import Library
from bench.peers.meter import measured
from bench.recipes import MADE
from bench.sets import EPSILONS, SMALL, available, load
from bench.store import Store
from dplit import HDPEMeans, MaxCoverKMeans, NoisyLloyd, PEMeans, datasets

FIELDS = "dataset n d k method epsilon delta seed loss wall_s cpu_s peak_mb".split()
KEY = {"dataset": str, "method": str, "seed": int, "epsilon": float}

# what the PE-means paper (2026) reports for the sets that can be drawn or loaded alike
PUBLISHED_METHODS = ["KMeans", "PE-means", "HDPE-means", "Google LSH tree", "FastLloyd, as driven", "diffprivlib", "Balcan et al., as driven"]  # fmt: skip
PUBLISHED = {
    "birch2": (0.0001, 0.0003, None, 0.0658, 0.0031, 0.0124, 0.0161),
    "iris": (0.1361, 0.2894, None, 0.6892, 0.3979, 1.3048, 5.5766),
    "adult": (0.0056, 0.0056, None, 0.0076, 0.0155, 0.0213, 0.0113),
    "letter": (0.2481, 0.2852, None, 0.3187, 0.3963, 0.4341, 0.6277),
    "gas": (0.1026, 0.1081, None, 0.1121, 0.1561, 0.1761, 0.1853),
    "sklearn_4_4": (0.0777, 0.0778, None, 0.1305, 0.1777, 0.2355, 0.1240),
    "sklearn_16_4": (0.0459, 0.0445, None, 0.0979, 0.0990, 0.1409, 0.2601),
    "sklearn_64_4": (0.0343, 0.0379, None, 0.1289, 0.0818, 0.1191, 0.3227),
    "sklearn_4_16": (0.0950, 0.0955, None, 0.1395, 0.7110, 0.5049, 0.6074),
    "sklearn_16_16": (0.0606, 0.0668, None, 0.1596, 0.7160, 0.5809, 1.4670),
    "sklearn_64_16": (0.0642, 0.1183, None, 0.3872, 0.7631, 0.8720, 1.7704),
    "sklearn_4_64": (0.0954, 0.0993, 0.0974, 0.1090, 1.4623, 0.8614, 2.7731),
    "sklearn_16_64": (0.0847, 0.1192, 0.1189, 0.2258, 1.7475, 1.3716, 3.1765),
    "sklearn_64_64": (0.0823, 0.3070, 0.4678, 0.7878, 2.2002, 2.2456, 3.1698),
    "sklearn_4_128": (0.1054, 0.1333, 0.1097, 0.1186, 1.7604, 1.1632, 5.6663),
    "sklearn_16_128": (0.0919, 0.1942, 0.1562, 0.2838, 2.3038, 1.9742, 4.9881),
    "sklearn_64_128": (0.0933, 0.5740, 0.7190, 0.9675, 2.7204, 2.9608, 4.9597),
}

OURS = ["PEMeans", "HDPEMeans", "MaxCoverKMeans", "NoisyLloyd"]
PEERS = ["PE-means", "HDPE-means", "Google LSH tree", "FastLloyd", "diffprivlib", "Balcan et al."]
DRAWN = [*OURS, "PE-means", "HDPE-means"]  # with this package's noise
CHECKS = ["FastLloyd, as driven", "Balcan et al., as driven"]
METHODS = ["KMeans", *OURS, *PEERS, *CHECKS]
PURE = {"diffprivlib", "Balcan et al.", "Balcan et al., as driven"}
DIRECT = "PE-means, read directly"
ESTIMATORS = {  # n is public in the paper, so every method that asks for it gets it
    # every ball of this table is right: there is nothing to zoom in on
    "PEMeans": lambda n: partial(PEMeans, zoom=False),
    "HDPEMeans": lambda n: partial(HDPEMeans, zoom=False),
    "MaxCoverKMeans": lambda n: partial(MaxCoverKMeans, n_public=n, zoom=False),
    "NoisyLloyd": lambda n: partial(NoisyLloyd, init="mean"),
    "PE-means": lambda n: partial(PEMeans, variant="paper", n_public=n),
    "HDPE-means": lambda n: partial(HDPEMeans, variant="paper", n_public=n),
}
FUNCTIONS = {
    "Google LSH tree": google_lsh.fit,
    "FastLloyd": fastlloyd.fit,
    "FastLloyd, as driven": partial(fastlloyd.fit, as_driven=True),
    "Balcan et al.": balcan.fit,
    "Balcan et al., as driven": partial(balcan.fit, as_driven=True),
    DIRECT: pe_means_direct.fit,
}


def applies(method, name, d):
    """Whether a method runs on a set."""
    if method in ("HDPEMeans", "HDPE-means"):
        return d > 32
    return method not in CHECKS or name in PUBLISHED or name in MADE


worker = cache(Library)  # one for all fits


def fit(method, name, epsilon, seed, folder):
    """(centers, wall s, CPU s, peak MB) of one fit."""
    X, k = load(name)
    cost = {"epsilon": epsilon, "delta": len(X) ** -1.1}
    if method == "diffprivlib":
        return worker(folder).fit(X, k, **cost, seed=seed, name=name)
    if method == "KMeans":
        return measured(lambda: KMeans(k, n_init=10, random_state=seed).fit(X).cluster_centers_)
    if method in FUNCTIONS:
        return measured(lambda: FUNCTIONS[method](X, k, **cost, seed=seed))
    model = ESTIMATORS[method](len(X))(k, **cost, radius=1.0, random_state=seed)
    return measured(lambda: model.fit(X).cluster_centers_)


def jobs(sets, methods, seeds, epsilons=EPSILONS):
    """What to fit: three seeds of everything first, then the rest; small sets before large ones."""

    def size(name):
        X, k = load(name)
        return X.size * k

    sets = sorted(available(sets), key=size)
    for first, last in ((0, min(3, seeds)), (3, seeds)):
        for name in sets:
            for method in methods:
                if applies(method, name, load(name)[0].shape[1]):
                    for seed in range(first, last if method != "KMeans" else min(last, 3)):
                        for epsilon in epsilons if method != "KMeans" else [math.inf]:
                            yield name, method, seed, epsilon


def measure(name, method, seed, epsilon, folder):
    """The loss and cost of one fit."""
    X, k = load(name)
    delta = 0 if method in PURE or method == "KMeans" else len(X) ** -1.1
    centers, *cost = fit(method, name, epsilon, seed, folder)
    n, d = X.shape
    row = {"n": n, "d": d, "k": k, "delta": f"{delta:.6g}"}
    row["loss"] = datasets.kmeans_loss(X, centers)
    return row | {c: f"{v:.4g}" for c, v in zip(FIELDS[-3:], cost, strict=True)}


def run(sets, methods, seeds, folder, part="kmeans", epsilons=EPSILONS):
    """Store one line a fit in kmeans.csv, or in the file of another part."""
    store = Store(folder / f"{part}.csv", KEY, FIELDS)
    store.run(jobs(sets, methods, seeds, epsilons), partial(measure, folder=folder))


def run_small(sets, methods, seeds, folder):
    """Store one line a fit in small_fits.csv: at the smallest epsilons, with more runs where three are too few."""
    for name in available(sets):
        many = seeds or {"iris": 40, "adult": 5}.get(name, 3)
        run([name], methods, many, folder, "small_fits", SMALL)
