"""PE-means (2026), Algorithm 1 implemented line by line; for times only.

The authors' program cannot be installed from a registry. This one does what it does, one thread, except that it does
not compute the private loss in every round: packing point by point, every vote searched among all candidates,
k-means with ten starts on all of them. `PEMeans(variant="paper")` is the same algorithm, faster.
"""

import math

import numpy as np
from sklearn.cluster import KMeans

from dplit.accounting import gaussian_mu

BETA, GAMMA = 1.75, 0.01
SIGMA = (
    math.gamma(1 + BETA)
    * math.sin(math.pi * BETA / 2)
    / (math.gamma((1 + BETA) / 2) * BETA * 2 ** ((BETA - 1) / 2))
) ** (1 / BETA)


def packing(m, d, rng):
    """m points of the unit ball, far from each other and from the wall."""
    a = 0.5
    while True:
        points, failures = np.empty((m, d)), 0
        found = 0
        while found < m and failures < 100:
            point = rng.standard_normal(d)
            point *= (1 - a) * rng.random() ** (1 / d) / np.linalg.norm(point)
            if found and ((points[:found] - point) ** 2).sum(axis=1).min() < 4 * a * a:
                failures += 1
            else:
                points[found], found, failures = point, found + 1, 0
        if found == m:
            return points
        a /= 2


def votes(X, P):
    """How many rows are nearest to each point: a product of matrices, block by block."""
    half, counts = (P**2).sum(axis=1) / 2, np.zeros(len(P))
    for start in range(0, len(X), 2000):
        best = (X[start : start + 2000] @ P.T - half).argmax(axis=1)
        counts += np.bincount(best, minlength=len(P))
    return counts


def kept(noisy, n):
    """The largest votes until they sum to n; the others become 0."""
    order = np.argsort(-noisy)
    last = np.searchsorted(np.cumsum(np.maximum(noisy[order], 0)), n) + 1
    out = np.zeros_like(noisy)
    out[order[:last]] = np.maximum(noisy[order[:last]], 0)
    return out


def fit(X, k, *, epsilon, delta, seed):
    """k centers for rows in the unit ball; n is public."""
    rng, (n, d) = np.random.default_rng(seed), X.shape
    X = X.astype(np.float32)
    T, L = max(int(max(epsilon, 1) * int(4 * math.sqrt(d))), 1), max(n // (5 * k), 4)
    sigma = math.sqrt(T) / gaussian_mu(epsilon, delta)
    P = packing((L + 1) * k, d, rng)
    for t in range(T):
        weights = kept(votes(X, P.astype(np.float32)) + sigma * rng.standard_normal(len(P)), n)
        if (weights**2).sum() < len(P) * sigma**2:
            L = max(L // 2, 4)
        weights = weights if weights.any() else np.ones(len(P))
        C = KMeans(k, n_init=10, random_state=0).fit(P, sample_weight=weights).cluster_centers_
        if t < T - 1:
            u, v = SIGMA * rng.standard_normal((L * k, d)), rng.standard_normal((L * k, d))
            mutants = np.repeat(C, L, axis=0) + GAMMA * u / np.abs(v) ** (1 / BETA)
            mutants /= np.maximum(1, np.linalg.norm(mutants, axis=1))[:, None]
            P = np.vstack([C, mutants])
    return C
