"""Balcan, Dick, Liang, Mou and Zhang (ICML 2017), our reimplementation from their paper and public program. Pure privacy.

Project to log(n) / 2 dimensions; divide a cube again and again where noisy counts are high, whose midpoints are
candidates; choose k of them by private swaps; bring them back by noisy averages, then three noisy rounds of Lloyd.

The public program spends 17/12 of its budget on top of a third grid, halves its cube for good from grid to grid,
and adds too little noise to averages. Here the same shares sum to 1, every grid starts anew, and each
draw is accounted exactly for one row more or less. `as_driven` keeps the noisy means without a bound on the result.
`with_noisy_avg` is the rival of Nguyen, Chaturvedi and Xu (AAAI 2021): (epsilon, delta), clusters averaged by NoisyAVG,
one round of Lloyd. They do not print how they divide the budget; here averages and round have equal parts.
"""

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances

from dplit.geometry import clip_to_ball
from dplit.mechanisms import Noise, noisy_avg

GRIDS, SWAPS, AVERAGES, LLOYD = 8 / 17, 1 / 17, 2 / 17, 6 / 17  # of epsilon
N_GRIDS, N_LLOYD = 3, 3


def grid(Y, half, epsilon, rng):
    """Midpoints of the crowded cells of a cube of side 2 half around 0, level by level.

    Cells without rows are never opened; each would be with probability n^-2 / 2.
    """
    n, p = Y.shape
    levels = max(1, int(np.ceil(np.log(n))) - 1)
    threshold = 2 * np.log(n) * levels / epsilon
    cells, found = [(np.zeros(p), np.arange(n))], [np.zeros(p)]
    corner_bits = 1 << np.arange(p)
    for _ in range(levels):
        half, below = half / 2, []
        for middle, rows in cells:
            codes = (Y[rows] >= middle) @ corner_bits
            for code in np.flatnonzero(np.bincount(codes)):
                inside = rows[codes == code]
                if len(inside) + rng.laplace(scale=levels / epsilon) > threshold:
                    corner = np.where(code & corner_bits, 1, -1)
                    below.append((middle + half * corner, inside))
        cells = below
        found += [middle for middle, _ in cells]
    return np.array(found)


def candidates(Y, half, epsilon, rng):
    """One grid around 0 and two shifted ones, in a cube that holds the rows after the shift."""
    points = [grid(Y, half, epsilon / N_GRIDS, rng)]
    for _ in range(N_GRIDS - 1):
        shift = rng.uniform(-half, half, Y.shape[1])
        points.append(grid(Y + shift, 2 * half, epsilon / N_GRIDS, rng) - shift)
    return np.vstack(points)


def choose(scores, strength, rng):
    """Exponential mechanism on losses: a flat index."""
    return int(np.argmax(rng.gumbel(size=scores.size) - strength * scores.ravel()))


def swaps(Y, points, k, epsilon, rng, factor):
    """Private local search: at each step one center is exchanged for one candidate; then the best step is chosen.

    A row more adds to every loss at most (2 R)^2, so exp(-e loss / (2 R)^2) is e-private; `factor` 2 is the general bound.
    """
    D = np.minimum(euclidean_distances(points, Y, squared=True), 4.0).astype(np.float32)
    m, n = D.shape
    T = min(k, 20)
    strength = epsilon / (T + 1) / (4.0 * factor)
    ids, kept, losses = rng.integers(m, size=k), [], []
    for _ in range(T):
        order = np.argsort(D[ids], axis=0)[:2]
        first = D[ids][order[0], np.arange(n)]
        second = D[ids][order[1], np.arange(n)] if k > 1 else np.full(n, 4.0, np.float32)
        # without center i a row of its cell goes to the second nearest or to the candidate
        table = np.empty((k, m))
        for j in range(m):
            near = np.minimum(first, D[j])
            lost = np.minimum(second, D[j]) - near
            table[:, j] = near.sum(dtype=float) + np.bincount(order[0], lost, minlength=k)
        i, j = divmod(choose(table, strength, rng), m)
        ids[i] = j
        kept.append(ids.copy())
        losses.append(table[i, j])
    return points[kept[choose(np.array(losses), strength, rng)]]


def averages(X, labels, k, epsilon, rng, as_driven):
    """k noisy averages. Shares of sums and counts after Su et al. (2016)."""
    d = X.shape[1]
    share = d / (d + np.cbrt(4 * d * 0.225**2))
    centers = np.empty((k, d))
    for j in range(k):
        rows = X[labels == j]
        if as_driven:
            noise = rng.laplace(scale=2 * np.sqrt(d) / (epsilon * max(1, len(rows))), size=d)
            centers[j] = rows.mean(axis=0) + noise if len(rows) else rng.uniform(-1, 1, d)
        else:
            total = rows.sum(axis=0) + rng.laplace(scale=np.sqrt(d) / (epsilon * share), size=d)
            centers[j] = total / max(1, len(rows) + rng.laplace(scale=1 / (epsilon * (1 - share))))
    return centers if as_driven else clip_to_ball(centers, 1.0)


def noisy_averages(X, labels, k, epsilon, delta, noise):
    """NoisyAVG of each of k clusters: a row is in one of them."""
    cost = {"radius": 1.0, "epsilon": epsilon, "delta": delta, "noise": noise}
    return clip_to_ball(np.array([noisy_avg(X[labels == j], **cost) for j in range(k)]), 1.0)


def chosen_centers(X, k, epsilon, rng, factor=1):
    """(rows projected, k of the candidates), for the shares of grids and swaps."""
    n, d = X.shape
    p = d if d <= 5 else max(1, int(0.5 * np.log(n)))
    Y = X if d <= 5 else X @ rng.standard_normal((d, p)) / np.sqrt(p)
    points = candidates(Y, np.abs(X).max() if d <= 5 else 1.0, epsilon * GRIDS, rng)
    return Y, swaps(Y, points, k, epsilon * SWAPS, rng, factor)


def with_noisy_avg(X, k, *, epsilon, delta, seed):
    """k centers at (epsilon, delta), as the max cover paper averages them."""
    Y, chosen = chosen_centers(X, k, epsilon, np.random.default_rng(seed))
    share, noise = (AVERAGES + LLOYD) / 2, Noise(seed)
    labels = euclidean_distances(Y, chosen).argmin(axis=1)
    centers = noisy_averages(X, labels, k, epsilon * share, delta / 2, noise)
    labels = euclidean_distances(X, centers).argmin(axis=1)
    return noisy_averages(X, labels, k, epsilon * share, delta / 2, noise)


def fit(X, k, *, epsilon, delta, seed, as_driven=False):
    """k centers; delta is not used."""
    rng = np.random.default_rng(seed)
    Y, chosen = chosen_centers(X, k, epsilon, rng, 2 if as_driven else 1)
    labels = euclidean_distances(Y, chosen).argmin(axis=1)
    centers = averages(X, labels, k, epsilon * AVERAGES, rng, as_driven)
    for _ in range(N_LLOYD):
        labels = euclidean_distances(X, centers).argmin(axis=1)
        centers = averages(X, labels, k, epsilon * LLOYD / N_LLOYD, rng, as_driven)
    return centers
