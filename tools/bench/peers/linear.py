"""Private regression on the target alone, by others: AdaSSP (Wang, UAI 2018) and noisy minibatch SGD (Bassily et al., NeurIPS 2019).

Our reimplementations. Both get the public bounds that ours gets, and their answers are projected onto its ball.
"""

import math
from functools import cache

import numpy as np

from dplit.accounting import gaussian_mu, poisson_gaussian_delta
from dplit.adaptation import private_second_moment
from dplit.geometry import clip_to_ball
from dplit.mechanisms import Noise


def _within(X, y, radius, target_bound):
    return clip_to_ball(X, radius), np.clip(y, -target_bound, target_bound)


def _pulled(w, weight_radius):
    return clip_to_ball(w[None], weight_radius)[0]


# AdaSSP -------------------------------------------------------------------------------------------


def ada_ssp(X, y, *, radius, weight_radius, target_bound, noise, mu, delta, failure=0.05):
    """Noisy least squares, with a ridge that a noisy smallest eigenvalue chooses. `noise` counts replaced records.

    Three Gaussian releases with a third of mu^2 each, exactly composed, in place of a third of epsilon and
    of delta each; the second moment has our noise, smaller off the diagonal than the published one.
    """
    X, y = _within(X, y, radius, target_bound)
    (n, d), part, square = X.shape, mu / math.sqrt(3), radius**2
    smallest = np.linalg.eigvalsh(X.T @ X)[0]  # a replaced record moves it by radius^2 at most
    smallest = noise.gaussian(smallest, sensitivity=square, mu=part, label="smallest eigenvalue")
    smallest = max(smallest - square / part * math.sqrt(math.log(6 / delta)), 0.0)
    ridge = square / part * math.sqrt(d * math.log(2 * d**2 / failure)) - smallest
    moment = n * private_second_moment(X, radius=radius, noise=noise, mu=part)
    far = 2 * radius * target_bound
    products = noise.gaussian(X.T @ y, sensitivity=far, mu=part, label="products with the labels")
    w = np.linalg.lstsq(moment + max(ridge, 0.0) * np.eye(d), products, rcond=None)[0]
    return _pulled(w, weight_radius)


# Noisy minibatch SGD ------------------------------------------------------------------------------

SETTINGS = [
    (rate, T, step)
    for rate, T in ((0.1, 100), (0.1, 400), (0.02, 400))
    for step in (0.25, 1.0, 4.0)
]


@cache
def sampled_mu(epsilon, delta, rate, times):
    """Sensitivity over noise of each of these releases on Poisson samples that cost epsilon at delta together."""

    def costs(mu):
        return poisson_gaussian_delta(epsilon, mu, rate, times)

    low, high = 2e-3, 4e-3
    while costs(high) <= delta:
        low, high = high, 2 * high
    while high > low * (1 + 1e-6):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if costs(middle) <= delta else (low, middle)
    return low


def minibatch_sgd(X, y, *, radius, weight_radius, target_bound, epsilon, delta, seed, setting):
    """Projected SGD with clipped gradients of Poisson samples, and the mean of the last half of its points.

    Neighboring datasets add or remove a record, which halves the noise compared with ours: in its favor. `setting`: the
    sampling rate, the number of steps, and their length in units of 1 / radius^2. Gradients are clipped at
    radius * target_bound. Floating-point noise of numpy: good enough to measure an error.
    """
    rate, T, step = setting
    X, y = _within(X, y, radius, target_bound)
    rng, w, total = np.random.default_rng(seed), np.zeros(X.shape[1]), 0.0
    clip = radius * target_bound
    sd = clip / sampled_mu(epsilon, delta, rate, T)
    for t in range(T):
        some = rng.random(len(X)) < rate
        gradients = 2 * (X[some] @ w - y[some])[:, None] * X[some]
        answer = clip_to_ball(gradients, clip).sum(axis=0) + sd * rng.normal(size=len(w))
        w = _pulled(w - step / radius**2 * answer / (rate * len(X)), weight_radius)
        total = total + w * (t >= T // 2)
    return total / (T - T // 2)


def fit(X, y, *, bounds, epsilon, delta, seed):
    """name -> predictor, or for minibatch SGD (name, setting) -> predictor with each setting."""
    noise = Noise(seed, neighboring="replace")
    private = {"noise": noise, "mu": gaussian_mu(epsilon, delta), "delta": delta}
    cost = {"epsilon": epsilon, "delta": delta, "seed": seed}
    found = {"AdaSSP": ada_ssp(X, y, **bounds, **private)}
    for setting in SETTINGS:
        found["minibatch SGD", setting] = minibatch_sgd(X, y, **bounds, **cost, setting=setting)
    return found
