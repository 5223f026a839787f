"""EUGkM (Su, Cao, Li, Bertino and Jin, CODASPY 2016), our reimplementation from their paper. Pure privacy.

Laplace noise on the counts of a uniform grid, once; then k-means of the midpoints of the cells, weighted by
their counts. For (n epsilon / 10)^(2d / (2 + d)) cells, theirs. Where the paper leaves a choice: for rows in the unit
ball the grid lies over the cube around it, so many of its cells meet the ball, and the others, in which no record can
be, are left out; counts below 0 count as 0; k-means starts thirty times; there are at least as many cells as clusters.
"""

import math

import numpy as np

from dplit.private_evolution import select

BALL = {1: 1.0, 2: math.pi / 4, 3: math.pi / 6}  # its share of the cube


def cells(n, d, epsilon):
    """Their number of cells."""
    return (n * epsilon / 10) ** (2 * d / (2 + d))


def fit(X, k, *, epsilon, seed, delta=0.0, norm=2):
    """k centers of rows in the unit ball of a norm: 2, for at most three columns, or math.inf, a box. delta is not used."""
    rng, (n, d) = np.random.default_rng(seed), X.shape
    share = BALL[d] if norm == 2 else 1.0
    side = max(round((cells(n, d, epsilon) / share) ** (1 / d)), math.ceil(k ** (1 / d)))
    bins = np.clip(((X + 1) / 2 * side).astype(int), 0, side - 1)
    counts = np.bincount(np.ravel_multi_index(bins.T, (side,) * d), minlength=side**d)
    counts = counts + rng.laplace(scale=1 / epsilon, size=side**d)
    middles = (np.indices((side,) * d).reshape(d, -1).T + 0.5) * (2 / side) - 1
    near = np.linalg.norm(middles, axis=1, ord=norm) <= 1 + math.sqrt(d) / side
    points, counts = middles[near], np.maximum(counts[near], 0)
    if len(points) <= k:
        return np.resize(points[np.argsort(-counts)], (k, d))
    return select(points, counts, k, int(rng.integers(2**31)), n_init=30)
