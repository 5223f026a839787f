"""FastLloyd (Diaa, Humphries and Kerschbaum, USENIX Security 2025), the computation without the cryptography.

Lloyd's rounds with Gaussian noise, where a row counts only if it is near its center, and sums are taken about
that center: their sensitivity is the length allowed, not the size of the domain. The domain is [-1, 1]^d.
"""

import numpy as np
from scipy.sparse import csr_array
from sklearn.metrics.pairwise import euclidean_distances

from dplit.accounting import gaussian_mu

ALPHA = 0.8  # the authors' default: share of the distance between centers of a perfect packing


def packing(k, d, rng, low=-1.0, high=1.0):
    """k points of a cube far from each other and from its walls (Su et al. 2016)."""
    near = (high - low) / 2
    while True:
        points, failures = [], 0
        while len(points) < k and failures < 100:
            point = rng.uniform(low + near, high - near, d)
            if all(np.linalg.norm(point - other) >= 2 * near for other in points):
                points.append(point)
                failures = 0
            else:
                failures += 1
        if len(points) == k:
            return np.array(points)
        near /= 2


def fold(values):
    """Reflect at -1 and 1 until inside."""
    values = np.mod(values + 1, 4)
    return np.minimum(values, 4 - values) - 1


def rounds(n, d, k, share, noise):
    """The authors' number of rounds."""
    eta = 2 * np.sqrt(d) * share
    many = 0.016 * n**2 / (k**3 * eta**2 * (1 + np.sqrt(4 * d)) ** 2 * noise**2)
    return int(np.clip(many, 2, 7))


def generators(seed, t):
    """As the public program seeds its noise: sums and counts draw alike, and round 0 is the same in every run."""
    return [np.random.default_rng(seed * t) for _ in range(2)]


def fit(X, k, *, epsilon, delta, seed, as_driven=False):
    """k centers. The rows are first scaled to fill the cube, the domain that the authors' constants are for.

    as_driven=True does as the comparison in the PE-means paper did: rows not scaled, six rounds, repeated draws.
    """
    rng, (n, d) = np.random.default_rng(seed), X.shape
    largest = np.abs(X).max()
    unit, bound = (1.0, largest) if as_driven else (largest, 1.0)
    Y, noise, share = X / unit, 1 / gaussian_mu(epsilon, delta), ALPHA / (2 * k ** (1 / d))
    T = 6 if as_driven else rounds(n, d, k, share, noise)
    noise *= np.sqrt(T)  # for one round: sums and counts together are one Gaussian release
    sum_scale, count_scale = np.sqrt(1 + 1 / np.sqrt(4 * d)), np.sqrt(1 + np.sqrt(4 * d))
    centers = packing(k, d, rng)
    for t in range(T):
        reach = np.sqrt(d) if t == 0 else 2 * np.sqrt(d) * min(share, 1)
        distances = euclidean_distances(Y, centers)
        labels = distances.argmin(axis=1)
        labels[distances.min(axis=1) > reach] = k
        one_hot = csr_array((np.ones(n), (labels, np.arange(n))), shape=(k + 1, n))[:k]
        counts = np.maximum(one_hot.sum(axis=1), 1)
        sums = one_hot @ Y - one_hot.sum(axis=1)[:, None] * centers
        sensitivity = min(2 * bound * np.sqrt(d), reach)
        for_sums, for_counts = generators(seed, t) if as_driven else (rng, rng)
        sums += noise * sum_scale * sensitivity * for_sums.standard_normal((k, d))
        counts += noise * count_scale * for_counts.standard_normal(k)
        steps = sums / (counts + 1e-9)[:, None]
        steps *= np.minimum(1, reach / np.linalg.norm(steps, axis=1))[:, None]
        centers = fold(centers + steps)
    return centers * unit
