"""NoisyLloyd: centers without rows move to where rows are, and what is paid for a round."""

import math

import numpy as np
import pytest
from sklearn.cluster import KMeans

from dplit import NoisyLloyd
from dplit.accounting import gaussian_mu
from dplit.estimators import lloyd
from dplit.inputs import PrivacyWarning
from dplit.mechanisms import Noise, watch
from dplit.mechanisms.noise import count_weight

FOUR = np.array([[1.0, 0], [0, 1], [-1, 0], [0.5, 0.5]])


def relocated(counts):
    return lloyd.relocate_empty(FOUR, np.array(counts), 10.0, 4.0, np.random.default_rng(0))


def test_a_center_without_rows_shares_the_largest_cluster():
    made = relocated([100.0, 9.9, 400.0, 10.0])
    side = made[2] - FOUR[2]
    assert np.linalg.norm(side) == pytest.approx(4e-3)
    assert made[1] == pytest.approx(FOUR[2] - side)  # both at once, on opposite sides
    assert np.array_equal(made[[0, 3]], FOUR[[0, 3]])
    # 400 are halved twice before 150 are
    made = relocated([150.0, 0.0, 400.0, 0.0])
    assert np.linalg.norm(made[1:] - FOUR[2], axis=1).max() < 9e-3
    assert np.array_equal(made[0], FOUR[0])
    # the largest is too small to be split, or none is empty
    for counts in ([159.9, 0.0, 70.0, 0.0], [400.0, 10.0, 400.0, 10.0]):
        assert np.array_equal(relocated(counts), FOUR)
    assert FOUR[1].tolist() == [0, 1]  # what was handed in is left alone


def test_relocation_draws_the_same_whatever_the_counts_and_stays_in_the_ball():
    after = []
    for counts in np.array([[900.0, 0, 0], [900.0] * 3]):
        rng = np.random.default_rng(0)
        made = lloyd.relocate_empty(np.eye(3, 2) * 4.0, counts, 1.0, 4.0, rng)
        assert np.linalg.norm(made, axis=1).max() <= 4.0 * (1 + 1e-12)
        after.append(rng.random())
    assert after[0] == after[1]


def test_no_center_of_noisy_lloyd_stays_where_no_row_is():
    rows = np.tile([[-1.0], [1.0]], (500, 1)) + np.random.default_rng(0).normal(size=(1000, 1)) / 20
    model = NoisyLloyd(3, epsilon=20.0, delta=1e-3, radius=10.0, init=[[-1.0], [1.0], [9.0]])
    for seed in range(5):
        with pytest.warns(PrivacyWarning):
            made = model.set_params(random_state=seed).fit(rows).cluster_centers_
        assert np.abs(made).max() < 1.5
    with pytest.warns(PrivacyWarning):  # a single round has none after it
        assert 9.0 in model.set_params(n_iter=1).fit(rows).cluster_centers_


def test_a_split_begins_at_its_limit_and_looks_at_no_cluster_twice():
    """Empty is below one standard error, 10, and large is from 16 of them on; a half of 320 is large again."""
    assert lloyd.ALONE == 1 and lloyd.SPLIT == 16
    assert np.count_nonzero(relocated([160.0, 9.99, 70.0, 80.0]) != FOUR) > 0
    assert np.array_equal(relocated([160.0, 10.0, 70.0, 80.0]), FOUR)
    made = relocated([0.0, 0.0, 320.0, 0.0])
    near = np.linalg.norm(made - FOUR[2], axis=1) < 0.02
    # 320 are halved into 160 and 160, and each of these once more: no center stays where it was
    assert near.all() and len(np.unique(made, axis=0)) == 4
    made = relocated([0.0, 0.0, 319.0, 0.0])
    assert np.array_equal(made[[1, 3]], FOUR[[1, 3]]) and np.any(made[0] != FOUR[0])


def test_a_center_at_the_boundary_moves_along_it():
    """Both halves are clipped to the ball, and stay a thousandth of its radius or less away."""
    centers = np.array([[4.0, 0.0], [0.0, 0.0]])
    for seed in range(20):
        rng = np.random.default_rng(seed)
        made = lloyd.relocate_empty(centers, np.array([900.0, 0.0]), 1.0, 4.0, rng)
        assert np.linalg.norm(made, axis=1).max() <= 4.0 * (1 + 1e-12)
        assert 0 < np.linalg.norm(made - centers[0], axis=1).max() <= 4e-3 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("n_iter", "init"), [(1, "packing"), (4, "packing"), (3, "mean"), (1, "cells"), (3, "cells")]
)
def test_every_round_costs_the_same_and_all_together_the_budget(n_iter, init):
    rows = np.random.default_rng(0).normal(size=(300, 2))
    known = {"epsilon": 1.0, "delta": 1e-6, "radius": 3.0, "random_state": 0}
    spent = NoisyLloyd(3, n_iter=n_iter, init=init, **known).fit(rows).spent_
    costs = [release.mu for release in spent.releases for _ in range(release.times)]
    assert len(costs) == n_iter + (init != "packing")
    assert np.allclose(costs, gaussian_mu(1.0, 1e-6) / math.sqrt(len(costs)), rtol=1e-12)


def test_a_round_asks_for_the_sums_of_the_nearest_rows():
    """With noise off, one round from public centers is a round of Lloyd's."""
    rows = np.random.default_rng(0).normal(size=(300, 2))
    start = np.array([[1.0, 0.0], [-1.0, 0.5], [0.0, -1.0]])
    known = {"delta": 1e-6, "radius": 9.0, "random_state": 0, "init": start}
    with watch(lambda event: event.value):
        model = NoisyLloyd(3, epsilon=1.0, n_iter=1, **known).fit(rows)
    home = ((rows[:, None] - start) ** 2).sum(axis=2).argmin(axis=1)
    wanted = np.array([rows[home == j].mean(axis=0) for j in range(3)])
    assert np.allclose(model.cluster_centers_, wanted, atol=1e-5)
    assert np.allclose(model.cluster_sizes_, np.bincount(home), rtol=1e-5)


def test_the_sensitivity_of_a_round_by_hand():
    """A row moves a sum by 3 and a count by 3 / 4 of it; two rows move sums by 6, or two counts as well."""
    assert lloyd.round_sensitivity(3.0, 0.0) == 3
    assert lloyd.round_sensitivity(3.0, 0.75) == pytest.approx(3.75)
    assert lloyd.round_sensitivity(3.0, 0.75, "replace") == pytest.approx(6)
    wide = math.sqrt(3)
    assert lloyd.round_sensitivity(3.0, wide) == pytest.approx(6)
    assert lloyd.round_sensitivity(3.0, wide, "replace") == pytest.approx(6 * math.sqrt(2))


@pytest.mark.parametrize("n_iter", [1, 2, 5])
def test_every_round_counts_all_rows_and_the_sizes_agree_with_all_of_them(n_iter):
    """T sums of k counts: the error of their mean, e sqrt(k / T), and with it that of a size."""
    rows, k = np.random.default_rng(0).normal(size=(300, 2)), 4
    known = {"epsilon": 1.0, "delta": 1e-6, "radius": 3.0, "random_state": 0}
    model = NoisyLloyd(k, n_iter=n_iter, **known).fit(rows)
    one = NoisyLloyd(k, n_iter=1, **known).fit(rows).cluster_sizes_se_[0] * math.sqrt(n_iter)
    assert model.n_rows_se_ == pytest.approx(one * math.sqrt(k / n_iter), rel=1e-3)
    wanted = one * math.sqrt(1 - (1 - 1 / n_iter) / k)
    assert np.allclose(model.cluster_sizes_se_, wanted, rtol=1e-3)


def test_from_the_mean_the_start_is_a_packing_of_a_quarter_of_the_ball(monkeypatch):
    asked, packing = [], lloyd.sphere_packing

    def note(k, d, radius, rng):
        asked.append((k, d, radius))
        return packing(k, d, radius, rng)

    monkeypatch.setattr(lloyd, "sphere_packing", note)
    known = {"epsilon": 1.0, "delta": 1e-6, "radius": 8.0, "random_state": 0}
    for init in ("mean", "packing"):
        NoisyLloyd(3, init=init, n_iter=1, **known).fit(np.zeros((9, 2)))
    assert asked == [(3, 2, 2.0), (3, 2, 8.0)]


def test_pure_noise_under_replace_is_twice_as_large():
    both = []
    for relation in ("add_remove", "replace"):
        known = {"epsilon": 1.0, "delta": 0.0, "radius": 3.0, "neighboring": relation}
        model = NoisyLloyd(3, **known)._declared()
        both.append(model._deviations(2, Noise(0, neighboring=relation), model._cost()))
    assert np.allclose(np.divide(*both[::-1]), 2, rtol=1e-3)


@pytest.mark.parametrize("where", [{"radius": 3.0}, {"bounds": (-1.0, 1.0)}])
@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_the_deviations_are_those_of_the_noise_of_a_round(where, neighboring):
    known = {"epsilon": 1.0, "neighboring": neighboring} | where
    noise, radius = Noise(0, neighboring=neighboring), where.get("radius", math.sqrt(2))
    model = NoisyLloyd(3, delta=1e-6, **known).fit(np.zeros((9, 2)))
    cost = {"mu": gaussian_mu(1.0, 1e-6) / math.sqrt(model.n_iter)}
    scale = noise.sum_scale(2, radius=radius, n_groups=3, **cost)
    given = model._declared(np.zeros((9, 2)))
    given._gate(np.zeros((9, 2)))  # with ranges, the radius is that of the cube
    found = given._deviations(2, noise, given._cost())
    assert found == pytest.approx((scale, scale / (count_weight(2) * radius)), rel=1e-9)
    given = NoisyLloyd(3, delta=0.0, **known)._declared(np.zeros((9, 2)))
    given._gate(np.zeros((9, 2)))
    asked = {"neighboring": neighboring, "cube": "bounds" in where}
    wanted = lloyd.shaped_deviations(2, radius, epsilon=1.0 / given.n_iter, **asked)
    assert given._deviations(2, noise, given._cost()) == pytest.approx(wanted, rel=1e-9)


# ---------------------------------------------------------------- a start from cells


def test_the_kmeans_of_a_few_means_is_that_of_rows_that_lie_on_them():
    """A second witness: scikit-learn's k-means, with as many copies of each mean as its count says."""
    rng = np.random.default_rng(0)
    for k in (1, 2, 3, 5):
        middles = rng.normal(size=(k, 3)) * 10
        means = np.repeat(middles, 4, axis=0) + rng.normal(size=(4 * k, 3)) / 10
        counts = rng.integers(1, 50, size=4 * k).astype(float)
        found = lloyd.means_of_cells(means, counts, k, np.zeros((k, 3)))
        rows = np.repeat(means, counts.astype(int), axis=0)
        known = KMeans(k, n_init=20, random_state=0).fit(rows).cluster_centers_
        found, known = (c[np.lexsort(c.round(6).T)] for c in (found, known))
        assert np.allclose(found, known)


@pytest.mark.parametrize("n_means", [0, 1, 3])
def test_fewer_means_than_clusters_leave_public_points(n_means):
    public = np.arange(8.0).reshape(4, 2) + 100
    means = np.arange(2.0 * n_means).reshape(n_means, 2)
    found = lloyd.means_of_cells(means, np.ones(n_means), 4, public)
    assert np.array_equal(found[n_means:], public[n_means:])
    assert {*map(tuple, found[:n_means])} == {*map(tuple, means)}
    assert np.array_equal(public, np.arange(8.0).reshape(4, 2) + 100)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_cells_cost_one_round(delta):
    X = np.random.default_rng(1).normal(size=(4000, 2))
    model = NoisyLloyd(
        2, epsilon=50.0, delta=delta, radius=8.0, init="cells", n_iter=2, random_state=0
    ).fit(X)
    assert abs(model.n_rows_ - 4000) < 5 * model.n_rows_se_ + 1
    first, *rounds = model.spent_.releases
    assert first.label == "cells to start from: sums and counts"
    assert first.times == 1 and sum(one.times for one in rounds) == 2
    assert all(one.scale == first.scale for one in rounds)


def test_what_is_drawn_does_not_depend_on_the_rows():
    """Empty cells, or none: the directions of later rounds are the same draws."""
    drawn = []
    for X in (np.zeros((5, 2)), np.random.default_rng(0).normal(size=(5000, 2))):
        noise = Noise(0)
        model = NoisyLloyd(3, epsilon=1.0, delta=1e-6, radius=8.0, init="cells", random_state=0)
        model._declared()._release_centers(X, noise, np.zeros(2))
        drawn.append(noise.public_rng.random())
    assert drawn[0] == drawn[1]
