"""Sizes of clusters and numbers of all rows, released separately, made to agree by weighted least squares."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplit import KTupleKMeans, MaxCoverKMeans, NoisyLloyd, PEMeans
from dplit.estimators import Clusters, reconciled
from dplit.mechanisms import Noise

COUNTS, ERRORS = np.array([50.0, 30.0]), np.array([3.0, 4.0])


def test_two_clusters_by_hand():
    sizes, sizes_se, n_rows, n_rows_se = reconciled(COUNTS, ERRORS, [[95.0, 5.0]])
    # 15 rows are missing; of 25 + 25 the first cluster has 9, the second 16
    assert sizes == pytest.approx([50 + 15 * 9 / 50, 30 + 15 * 16 / 50])
    assert sizes_se == pytest.approx([math.sqrt(9 - 81 / 50), math.sqrt(16 - 256 / 50)])
    assert n_rows == pytest.approx(87.5) and n_rows_se == pytest.approx(math.sqrt(12.5))


def test_without_another_number_nothing_changes_and_an_exact_one_is_kept():
    sizes, sizes_se, n_rows, n_rows_se = reconciled(COUNTS, ERRORS, np.zeros((0, 2)))
    assert np.array_equal(sizes, COUNTS) and np.array_equal(sizes_se, ERRORS)
    assert (n_rows, n_rows_se) == (80.0, 5.0)
    sizes, sizes_se, n_rows, n_rows_se = reconciled(COUNTS, ERRORS, [[95.0, 5.0], [100.0, 0.0]])
    assert sizes == pytest.approx([50 + 20 * 9 / 25, 30 + 20 * 16 / 25])
    assert n_rows == pytest.approx(100) and n_rows_se == pytest.approx(0, abs=1e-7)
    assert sizes_se == pytest.approx([12 / 5, 12 / 5])  # of two clusters one decides the other
    one = reconciled([7.0], [3.0], [[11.0, 0.0]])
    assert one[0] == [11.0] and one[1] == [0.0] and one[3] == 0.0


@given(st.integers(1, 6), st.integers(0, 3), st.integers(0, 10**6))
@settings(max_examples=100, deadline=None)
def test_they_are_the_weighted_least_squares_estimates(k, n_totals, seed):
    rng = np.random.default_rng(seed)
    errors, deviations = np.exp(rng.normal(size=k)), np.exp(rng.normal(size=n_totals))
    counts, numbers = rng.normal(size=k) * 100, rng.normal(size=n_totals) * 100
    sizes, sizes_se, n_rows, n_rows_se = reconciled(counts, errors, np.c_[numbers, deviations])
    # another way: all observations as rows of one linear model
    model = np.vstack([np.diag(1 / errors), np.ones((n_totals, k)) / deviations[:, None]])
    observed = np.r_[counts / errors, numbers / deviations]
    best = np.linalg.lstsq(model, observed, rcond=None)[0]
    covariance = np.linalg.inv(model.T @ model)
    assert sizes == pytest.approx(best, rel=1e-6, abs=1e-6)
    assert sizes_se == pytest.approx(np.sqrt(np.diag(covariance)), rel=1e-6)
    assert n_rows == pytest.approx(best.sum(), rel=1e-6, abs=1e-6)
    assert n_rows_se == pytest.approx(math.sqrt(covariance.sum()), rel=1e-6)


def test_cluster_sizes_come_reconciled_out_of_what_was_released():
    found = Clusters(np.zeros((2, 1)), COUNTS, ERRORS, totals=[(95.0, 5.0)]).attributes()
    assert found["cluster_sizes_"] == pytest.approx([52.7, 34.8])
    assert found["n_rows_"] == pytest.approx(87.5)
    none = Clusters(np.zeros((2, 1)), totals=[(95.0, 5.0)]).attributes()
    assert none["cluster_sizes_"] is none["cluster_sizes_se_"] is none["n_rows_"] is None


rng = np.random.default_rng(0)
X = np.repeat([[-4.0, 0.0], [4.0, 0.0], [0.0, 4.0]], [250, 150, 42], axis=0)
X = X + rng.normal(size=X.shape) * 0.3
PAID = {"epsilon": 1.0, "delta": 1e-4, "radius": 6.0}
KINDS = {
    "NoisyLloyd": (NoisyLloyd, {"n_iter": 3}),
    "PEMeans": (PEMeans, {"n_votes": 1}),
    "MaxCoverKMeans": (MaxCoverKMeans, {}),
    "MaxCoverKMeans, more rounds": (MaxCoverKMeans, {"n_lloyd": 2, "zoom": False}),
}


@pytest.mark.parametrize("kind", [*KINDS, "KTupleKMeans"])
def test_a_public_number_of_rows_is_the_exact_sum(kind):
    make, options = KINDS.get(kind, (KTupleKMeans, {"n_tuples": None}))
    k = 1 if make is KTupleKMeans else 3
    model = make(k, **PAID, **options, neighboring="replace", random_state=0).fit(X)
    assert model.n_rows_ == pytest.approx(len(X)) and model.n_rows_se_ == pytest.approx(0, abs=1e-6)
    assert model.cluster_sizes_.sum() == pytest.approx(len(X))
    assert np.all(model.cluster_sizes_se_ >= 0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_errors_are_as_large_as_stated(kind):
    """Of 80 fits, the standardized errors of the sum have mean square 1, within 55 percent (three and a half deviations)."""
    make, options = KINDS[kind]
    off, ratios = [], []
    for seed in range(80):
        model = make(3, **PAID, **options, random_state=seed).fit(X)
        off.append((model.n_rows_ - len(X)) / model.n_rows_se_)
        ratios.append(model.n_rows_se_ / np.linalg.norm(model.cluster_sizes_se_))
        assert model.n_rows_ == pytest.approx(model.cluster_sizes_.sum())
    assert 0.45 < np.mean(np.square(off)) < 1.55 and abs(np.mean(off)) < 0.39
    assert np.max(ratios) < 0.97  # the sum is better known than the sizes suggest


def test_a_size_of_one_cluster_has_the_error_stated():
    """One cluster: its size is the number of rows, and averages all rounds."""
    off = []
    for seed in range(150):
        model = NoisyLloyd(1, **PAID, n_iter=4, random_state=seed).fit(X)
        off.append((model.cluster_sizes_[0] - len(X)) / model.cluster_sizes_se_[0])
    assert 0.6 < np.mean(np.square(off)) < 1.4
    single = NoisyLloyd(1, **PAID, n_iter=1, random_state=0)
    # four rounds of a quarter of the budget say together what one of all says
    four = NoisyLloyd(1, **PAID, n_iter=4, random_state=0).fit(X).cluster_sizes_se_[0]
    assert four == pytest.approx(single.fit(X).cluster_sizes_se_[0], rel=0.01)


def test_in_a_parallel_branch_the_number_is_private():
    noise, model = Noise(0, neighboring="replace"), NoisyLloyd(2, **PAID, neighboring="replace")
    rows, box = model._gate(X)  # as a fit begins
    parts = (partial(model._release, part, box, noise) for part in (rows[:200], rows[200:]))
    assert all(branch["n_rows_se_"] > 1 for branch in noise.parallel(parts))
    whole = model._release(rows, box, noise)
    assert (whole["n_rows_"], whole["n_rows_se_"]) == (len(X), 0.0)
