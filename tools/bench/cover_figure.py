"""Figure 1 and Table 1 of the max cover paper: cost against the number of clusters at epsilon 1, delta n^-1.5 (nbs/max_cover/paper.ipynb).

MaxCoverKMeans, the published algorithm, Balcan et al. (tools/bench/peers/balcan.py, our reimplementation) in two forms, noisy Lloyd,
the single mean, and k-means without privacy. Table 1 bounds additive errors: what is left where k points are repeated, so that
the best cost is 0. A result that is in the file is not measured again: delete its line to do so.
"""

import math
import warnings
from functools import lru_cache

import numpy as np
from sklearn.cluster import KMeans
from sklearn.utils import Bunch

from bench.peers import balcan
from bench.store import BOOK
from dplit import MaxCoverKMeans, NoisyLloyd, datasets
from dplit.accounting import Table
from dplit.geometry import uniform_in_ball
from dplit.max_cover import grid_fits, stencil
from dplit.plotting import Kept

kept = Kept(BOOK / "max_cover_figure_1.json")
SETS = {  # the draw of syn64 is one on which no default was chosen
    "syn64": (lambda: datasets.make_clipped_gaussians(random_state=7300), (2, 8, 16, 32, 64)),
    "digits": (datasets.load_digits, (2, 5, 10, 20, 40)),
    "MNIST": (datasets.fetch_mnist, (2, 10, 40)),  # the test images
}


@lru_cache(maxsize=1)
def load(name):
    """A set, read once."""
    return SETS[name][0]()


PAIRS = 2**24  # of a row and a node that may cover it: a minute for each fit


def published_dimension(n):
    """ln(n) / 2 as published, or the most that can be counted in a minute with balls from 1 / n on, if that is less. PUBLIC."""
    for d in range(max(1, int(math.log(n) / 2)), 1, -1):
        if grid_fits(d, 1 / n, 1.0, False, n) and n * len(stencil(d, 1.0, snap=False)) <= PAIRS:
            return d
    return 1


def fit(way, bunch, k, seed):
    """k centers."""
    X, n = bunch.data, len(bunch.data)
    cost = {"epsilon": 1.0, "delta": n**-1.5}
    ours = cost | {"radius": bunch.radius, "center": bunch.center, "random_state": seed}
    if way.startswith("Balcan"):
        rival = balcan.fit if way == "Balcan et al., pure" else balcan.with_noisy_avg
        unit = (X - bunch.center) / bunch.radius
        return rival(unit, k, **cost, seed=seed) * bunch.radius + bunch.center
    if way == "single mean":
        return X.mean(axis=0, keepdims=True)
    models = {
        "max cover": lambda: MaxCoverKMeans(k, n_public=n, **ours),
        "as published": lambda: MaxCoverKMeans(
            k, variant="paper", n_public=n, n_components=published_dimension(n), n_lloyd=1, **ours
        ),
        "noisy Lloyd": lambda: NoisyLloyd(k, **ours),
        "k-means, 10 rounds": lambda: KMeans(k, n_init=1, max_iter=10, random_state=seed),
    }
    return models[way]().fit(X).cluster_centers_


WAYS = ["max cover", "as published", "Balcan et al., pure", "Balcan et al., NoisyAVG", "noisy Lloyd",
        "single mean", "k-means, 10 rounds"]  # fmt: skip


@kept
def figure_1(name, way, k, runs):
    """Costs of one way, mean squared distances, one for each seed from 0 on."""
    bunch = load(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ten rounds need not converge; seeds are not private
        centers = [fit(way, bunch, k, seed) for seed in range(1 if way == "single mean" else runs)]
    return [datasets.kmeans_loss(bunch.data, c) for c in centers]


ADDITIVE = [(k, 16) for k in (4, 8, 16, 32)] + [(8, d) for d in (4, 64, 256)]  # k, d


@kept
def additive(way, k, d, runs):
    """Sum of squared distances over 20,000 copies of k random points of the unit ball, in units of its squared diameter."""
    points = 0.9 * uniform_in_ball(k, d, rng=np.random.default_rng(7400 + k + d))
    bunch = Bunch(data=np.resize(points, (20_000, d)), radius=1.0, center=np.zeros(d))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        centers = [fit(way, bunch, k, seed) for seed in range(runs)]
    return [datasets.kmeans_loss(bunch.data, c) * 20_000 / 4 for c in centers]


def show_additive(runs):
    """Table 1: one line for each number of clusters and columns."""
    lines = [
        (k, d, *(f"{np.mean(additive(way, k, d, runs)):.4g}" for way in WAYS[:3]))
        for k, d in ADDITIVE
    ]
    print(
        f"\n20,000 rows of optimal cost 0: additive error over the squared diameter, {runs} seeds"
    )
    print(Table(["k", "d", *WAYS[:3]], lines), flush=True)


def run(asked):
    """Measure what the file lacks, and print the means and standard deviations of each set."""
    for name in asked.sets:
        ks, lines = SETS[name][1], []
        for way in WAYS:
            found = [figure_1(name, way, k, asked.runs) for k in ks]
            shown = [f"{np.mean(v):.4g} +- {np.std(v, ddof=len(v) > 1):.2g}" for v in found]
            lines.append((way, *shown))
        print(f"\n{name}, epsilon = 1, delta = n^-1.5, {asked.runs} seeds")
        print(Table(["way", *(f"k = {k}" for k in ks)], lines), flush=True)
    show_additive(asked.runs)


def options(parser):
    """What can be asked for."""
    names = {"nargs": "+", "choices": SETS, "default": [*SETS]}
    parser.add_argument("--sets", **names, help="MNIST needs its file, or OpenML")
    parser.add_argument("--runs", type=int, default=5, help="seeds; the paper has 5")
    parser.set_defaults(run=run)
