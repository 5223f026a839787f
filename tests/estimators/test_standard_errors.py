"""Standard errors of centres: how often they cover what the last step would have found without noise."""

from unittest import mock

import numpy as np
import pytest

import dplit
from dplit import estimators, mechanisms
from dplit.estimators import mean_errors

LAST = {
    dplit.NoisyLloyd: "a round: sums and counts",
    dplit.MaxCoverKMeans: "sums and counts",
    dplit.PEMeans: "sums of residuals, and counts",
    dplit.HDPEMeans: "sums of residuals, and counts",
    dplit.KTupleKMeans: "sums and counts",
}
every = pytest.mark.parametrize("kind", LAST, ids=lambda kind: kind.__name__)
LIMIT = 4.0


def blobs(d, n=1200, k=3):
    rng = np.random.default_rng(d)
    middles = rng.normal(size=(k, d))
    middles *= 2.5 / np.linalg.norm(middles, axis=1)[:, None]
    return middles[np.arange(n) % k] + rng.normal(size=(n, d)) * 0.5 / np.sqrt(d)


def make(kind, seed, **changed):
    options = {"epsilon": 2.0, "delta": 1e-5, "radius": LIMIT, "random_state": seed}
    return kind(3, **options | changed)


def without_noise_at_the_end(model, X):
    """The centres of the same fit, if the last sums and counts had come out exactly, and their step had not been shrunk."""
    label, passed, shrunk = LAST[type(model)], [], []

    def count(event):
        passed.append(event.label == label)
        return event.outcome

    with mechanisms.watch(count):
        fitted = model.fit(X)
    last = max(i for i, found in enumerate(passed) if found)
    steps, seen = getattr(model, "n_refine", 0), []
    true_shrink = estimators.shrink

    def clear(event):
        seen.append(event)
        return event.value if len(seen) == last + 1 else event.outcome

    def shrink(moves, variance):
        shrunk.append(1)
        return moves if len(shrunk) == steps else true_shrink(moves, variance)

    released = {n: getattr(fitted, n).copy() for n in ("cluster_centers_", "cluster_centers_se_")}
    with mechanisms.watch(clear), mock.patch.object(estimators, "shrink", shrink):
        exact = model.fit(X).cluster_centers_
    return released["cluster_centers_"], released["cluster_centers_se_"], exact


def coverage(kind, d, n_fits=40, **changed):
    """(share of coordinates within 1.96 standard errors, of those that are finite; how many they are; of all)"""
    X, hits = blobs(d), []
    total = 0
    for seed in range(n_fits):
        centers, errors, exact = without_noise_at_the_end(make(kind, seed, **changed), X)
        finite = np.isfinite(errors)
        hits += (np.abs(centers - exact) <= 1.96 * errors)[finite].tolist()
        total += errors.size
    return np.mean(hits), len(hits), total


@pytest.mark.parametrize(
    "kind, d, n_fits",
    [(dplit.NoisyLloyd, 2, 60), (dplit.PEMeans, 2, 12), (dplit.MaxCoverKMeans, 2, 8)],
)
def test_most_centers_lie_within_two_standard_errors_of_what_they_were_without_noise(
    kind, d, n_fits
):
    """At least 95 % less four deviations of luck, coordinates of a fit counted as one; half the errors cover far less for the unshrunk ones."""
    share, n, total = coverage(kind, d, n_fits)
    assert n >= total / 2 and share > 0.95 - 4 * np.sqrt(0.95 * 0.05 / (3 * n_fits))


def test_the_distribution_of_the_noisy_mean_and_what_half_the_error_would_cover():
    """One group of few rows, the noise drawn 20,000 times: nominal coverage within four deviations of luck."""
    rng, n = np.random.default_rng(0), 30
    S, sigma, tau = 0.7 * n, 2.0, 4.0
    sums, counts = S + sigma * rng.normal(size=20_000), n + tau * rng.normal(size=20_000)
    means = (sums / counts)[:, None]
    errors = mean_errors(means, counts, sigma, tau)
    assert np.isfinite(errors).mean() > 0.99
    inside = [np.mean(np.abs(means - S / n) <= z * errors) for z in (1.96, 0.98)]
    luck = 4 * np.sqrt(0.05 * 0.95 / 20_000)
    assert abs(inside[0] - 0.95) < luck + 0.005 and inside[1] < 0.8


def test_a_count_that_may_be_noise_says_nothing_of_the_mean():
    errors = mean_errors(np.ones((3, 2)), [7.9, 8.1, -5.0], 1.0, 4.0)
    assert np.isinf(errors[[0, 2]]).all() and np.allclose(errors[1], np.hypot(1, 4) / 8.1)


def test_with_ranges_they_are_in_the_units_of_the_columns():
    X = np.abs(blobs(2))
    ask = {"radius": None, "bounds": ([0, 0], [8, 8])}
    one = make(dplit.NoisyLloyd, 0, **ask).fit(X)
    other = make(dplit.NoisyLloyd, 0, **ask | {"bounds": ([0, 0], [8, 8e6])}).fit(X * [1, 1e6])
    assert np.allclose(one.cluster_centers_se_ * [1, 1e6], other.cluster_centers_se_)
    cube = make(dplit.NoisyLloyd, 0, radius=2**0.5).fit(X / 4 - 1)  # what the fit works in
    assert np.allclose(one.cluster_centers_se_, 4 * cube.cluster_centers_se_)


@pytest.mark.parametrize(
    "options", [{"variant": "paper", "n_public": 1200, "n_votes": 2}, {"n_refine": 1, "n_votes": 3}]
)
def test_where_no_mean_was_released_there_is_none(options):
    model = make(dplit.PEMeans, 0, population=50, **options).fit(blobs(2))
    assert not hasattr(model, "cluster_centers_se_")


if __name__ == "__main__":
    for kind in LAST:
        for d, eps in ((2, 2.0), (2, 0.5), (16, 2.0)):
            share, n, total = coverage(kind, d, 100, epsilon=eps)
            print(
                f"{kind.__name__:16s} d={d:2d} epsilon={eps}: {share:.3f} of {n} finite of {total}"
            )
