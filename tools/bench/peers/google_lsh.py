"""Google's private clustering (Chang and Kamath, 2021), our reimplementation from its public description and parameters.

Rows are grouped by a tree: at each level one random hyperplane through 0 halves a node, and noisy counts
decide which nodes live on. Leaves become noisy averages, and k-means of these averages, weighted by their
counts, gives the centers. One row is in at most 21 counts and in one sum.
"""

from functools import cache

import numpy as np
from scipy.optimize import brentq
from sklearn.cluster import KMeans

from dplit.accounting import mixture_delta
from dplit.geometry import clip_to_ball

DEPTH = 20
COUNTS_PER_SUM = 20  # a count's Laplace scale over the sum's standard deviation, at radius 1


@cache
def noise_scale(epsilon, delta):
    """Standard deviation of a sum, radius 1: the smallest that DEPTH + 1 counts and one sum allow.

    A discrete Laplace count is exactly randomized response, so the privacy cost is exact.
    """

    def too_much(log_scale):
        scale = np.exp(log_scale)
        counts = [(1 / (COUNTS_PER_SUM * scale), DEPTH + 1)]
        cost = mixture_delta(epsilon, mu=1 / scale, pure=counts)
        return np.log(max(cost, 1e-300)) - np.log(delta)

    return float(np.exp(brentq(too_much, np.log(1e-3), np.log(2000), xtol=1e-9)))


def coreset(X, k, scale, rng):
    """(points, weights): noisy averages of the leaves and their noisy counts."""
    n, d = X.shape
    quit_rate = -np.expm1(-1 / (COUNTS_PER_SUM * scale))

    def count(rows):
        return len(rows) + int(rng.geometric(quit_rate)) - int(rng.geometric(quit_rate))

    total = count(X)
    fewest = max(1, min(int(10 * np.sqrt(d) * scale), total // (2 * k)))
    level, leaves = [(np.arange(n), max(1, total))], []
    for normal in rng.standard_normal((DEPTH, d)):
        below = []
        for rows, weight in level:
            side = X[rows] @ normal >= 0
            children = [(half, count(half)) for half in (rows[side], rows[~side])] if weight >= 3 * fewest else []  # fmt: skip
            children = [child for child in children if child[1] >= fewest]
            below += children
            leaves += [] if children else [(rows, weight)]
        level = below
    leaves += level
    weights = np.array([weight for _, weight in leaves], dtype=float)
    sums = np.array([X[rows].sum(axis=0) for rows, _ in leaves])
    return (sums + scale * rng.standard_normal(sums.shape)) / weights[:, None], weights


def fit(X, k, *, epsilon, delta, seed):
    """Centers, at most k: the tree may have fewer leaves."""
    rng = np.random.default_rng(seed)
    points, weights = coreset(X, k, noise_scale(epsilon, delta), rng)
    points = clip_to_ball(points, 1.0)
    model = KMeans(min(k, len(points)), n_init=10, random_state=seed)
    return model.fit(points, sample_weight=weights).cluster_centers_
