"""Quadtree start: least squares, thresholds and cells against brute force; its receipt, its neighbors, what it is worth."""

import math
import tracemalloc
from collections import Counter
from functools import partial
from unittest import mock

import numpy as np
import pytest
from scipy import integrate, stats

from dplit import HDPEMeans, PEMeans, private_evolution
from dplit.accounting import gaussian_mu
from dplit.datasets import kmeans_loss, make_isotropic_blobs
from dplit.estimators import LARGEST_GRID, CellGrid, bins_for
from dplit.mechanisms import Noise, watch
from dplit.private_evolution import kmeans, quadtree
from dplit.private_evolution.votes import grid_radius, vote_grid

PUBLIC = {"epsilon": 1.0, "delta": 1e-6, "radius": 1.0, "random_state": 0}
COLUMNS = pytest.mark.parametrize("d", [1, 2])


def in_unit_ball(n, d, k=4, seed=0):
    X = make_isotropic_blobs(n, d, k, random_state=seed).data
    X = X - X.mean(axis=0)
    return X / np.linalg.norm(X, axis=1).max()


def silent():
    """Noise off: exact values pass."""
    return watch(lambda event: event.value)


def events_of(act, exact=False):
    """What `act` asked of its noise; `exact`: which is off, and exact values pass."""
    found = []
    with watch(lambda event: (found.append(event), event.value if exact else event.outcome)[1]):
        act()
    return found


# ---------------------------------------------------------------- counts


@pytest.mark.parametrize("seed", range(12))
def test_pooled_counts_are_least_squares_with_the_variance_of_the_theorem(seed):
    """On random trees of one to five levels whose levels have different deviations: kills any other weight."""
    rng = np.random.default_rng(seed)
    homes, sizes = [], [int(rng.integers(1, 5))]
    for _ in range(seed % 5):  # every cell has a part
        more = rng.integers(sizes[-1], size=rng.integers(9))
        homes.append(rng.permutation(np.r_[np.arange(sizes[-1]), more]))
        sizes.append(len(homes[-1]))
    deviations = rng.uniform(0.3, 4, len(sizes))
    counts = [rng.normal(size=size) for size in sizes]
    # the last cells that each cell holds
    held = [np.eye(sizes[-1])]
    for home in homes[::-1]:
        held.insert(0, np.array([held[0][home == j].sum(axis=0) for j in range(home.max() + 1)]))
    weights = 1 / np.repeat(deviations, sizes)
    asked = np.vstack(held) * weights[:, None]
    wanted = np.linalg.lstsq(asked, np.concatenate(counts) * weights, rcond=None)[0]
    found, errors = private_evolution.pooled_counts(counts, deviations, homes)
    assert np.allclose(found, wanted)
    assert np.allclose(errors**2, np.diag(np.linalg.inv(asked.T @ asked)))


@pytest.mark.parametrize("scale", [1e-90, 1e90])
def test_pooled_counts_have_any_unit(scale):
    counts, homes = [np.array([12.0]), np.array([4.0, 2.0])], [np.array([0, 0])]
    found, errors = private_evolution.pooled_counts(
        [scale * of for of in counts], [scale] * 2, homes
    )
    assert np.allclose(found / scale, [6, 4]) and np.allclose(errors / scale, math.sqrt(2 / 3))


@pytest.mark.parametrize(
    ("deviations", "mass"), [([3.0] * 100, 5.0), ([20.0] * 4000, 1.0), ([2.0, 9.0] * 50, 4.0)]
)
def test_above_the_threshold_empty_cells_have_the_expected_mass(deviations, mass):
    at, sum_above = private_evolution.false_mass_threshold(deviations, mass), 0.0
    for deviation in deviations[:2]:
        density = stats.norm(scale=deviation).pdf
        above = integrate.quad(lambda x: x * density(x), at * deviation, 12 * deviation)[0]  # noqa: B023
        sum_above += above * len(deviations) / 2
    assert sum_above == pytest.approx(mass, rel=1e-6)


def test_the_threshold_is_half_a_deviation_at_least():
    assert private_evolution.false_mass_threshold([3.0] * 100, 1e6) == 0.5


def test_uncertain_counts_are_dropped_and_if_few_are_certain_the_largest_stay():
    counts, ones = np.array([100.0, 90.0, 80.0, 3.0, -2.0, 0.4]), np.ones(6)
    assert 0.4 < private_evolution.false_mass_threshold(ones, 1.5) < 3
    assert quadtree._certain(counts, ones, 1.5, 1).tolist() == [100, 90, 80, 3, 0, 0]
    assert quadtree._certain(counts, ones, 1.5, 2).tolist() == [100, 90, 80, 3, 0, 0.4]
    assert quadtree._certain(counts, 60 * ones, 1.5, 1).tolist() == [100, 90, 80, 0, 0, 0]


def test_a_count_is_compared_with_its_own_deviation():
    counts, deviations = np.array([100.0, 90.0, 80.0, 30.0, 30.0]), np.array([1.0, 1, 1, 1, 50])
    kept = quadtree._certain(counts, deviations, 1.5, 1)
    assert kept.tolist() == [100, 90, 80, 30, 0]


@pytest.mark.parametrize(("n_rows", "mass"), [(50.0, 0.25), (190.0, 0.95), (210, 1.0), (1e5, 1.0)])
def test_false_mass_is_half_a_percent_or_a_tenth_of_a_deviation_for_each_cluster(n_rows, mass):
    """5 clusters, noise of 2 records."""
    assert private_evolution.quadtree_plan(n_rows, 2.0, 5, 2).mass == pytest.approx(mass)


@COLUMNS
@pytest.mark.parametrize("k", [1, 32])
@pytest.mark.parametrize("signal", [1e-3, 1e2, 1e90])
def test_the_first_grid_has_room_for_the_clusters_and_can_be_divided(d, k, signal):
    n_bins = private_evolution.coarse_bins(signal, 1.0, k, d)
    grid = quadtree.CellGrid.over(d, n_bins)
    assert 3 <= n_bins and (2 * n_bins) ** d <= LARGEST_GRID
    assert len(grid.points) >= k and private_evolution.has_quadtree(d, k)


@pytest.mark.parametrize(
    ("signal", "k", "d", "cells"),
    [
        (1010, 1, 1, 61),
        (400, 1, 2, 240),
        (1, 32, 2, 64),
        (1, 1, 2, 9),
        (1, 1, 1, 3),
        (80, 5, 1, 12),
    ],
)
def test_the_first_grid_by_hand(signal, k, d, cells):
    """0.6 signal^(2 / 3) or 0.6 signal, two for each cluster, or three per column: 0.6 * 1010^(2 / 3) = 60.4."""
    assert private_evolution.coarse_bins(3.0 * signal, 3.0, k, d) == bins_for(cells, d)


@pytest.mark.parametrize(("n_total", "levels"), [(50.0, 2), (1e4, 3)])
@pytest.mark.parametrize(("n_bins", "parts"), [(128, 16), (129, 4)])
def test_a_cell_is_cut_in_sixteen_parts_where_these_are_not_too_many(
    monkeypatch, n_bins, parts, n_total, levels
):
    """In two columns at most 512 intervals per column: four times 128, but not four times 129."""
    monkeypatch.setattr(quadtree, "coarse_bins", lambda *sizes: n_bins)
    assert private_evolution.quadtree.most_bins(2) == 512
    rows = vote_grid(np.full((10_000, 2), 0.01))
    act = partial(private_evolution.quadtree_votes, rows, 2, mu=1.0, n_total=n_total)
    *earlier, last = events_of(lambda: act(noise=Noise(0)), exact=True)
    assert len(earlier) == levels - 1
    assert len(earlier[0].value) == len(CellGrid.over(2, n_bins // (levels - 1)).points)
    assert len(last.value) == len(earlier[-1].value) + parts - 1
    assert sorted(last.value)[-1] == 10_000


@pytest.mark.parametrize(
    ("n_rows", "shares", "cuts"), [(1999, (0.5, 0.5), (2, 0)), (2000, (0.1, 0.4, 0.5), (1, 2, 0))]
)
@COLUMNS
def test_clusters_of_twenty_deviations_have_three_histograms(n_rows, shares, cuts, d):
    """By hand: 5 clusters, noise of 20 records."""
    plan = private_evolution.quadtree_plan(n_rows, 20.0, 5, d)
    assert (plan.shares, plan.cuts) == (shares, cuts) and sum(shares) == pytest.approx(1)
    assert plan.limit == min(n_rows / 400, 5)
    assert plan.n_bins == private_evolution.coarse_bins(n_rows, 20.0, 5, d) // (len(shares) - 1)


@COLUMNS
@pytest.mark.parametrize("k", [1, 32])
@pytest.mark.parametrize("signal", [1e-3, 1e2, 1e90])
def test_the_finest_cells_of_a_plan_are_not_too_many(d, k, signal):
    plan = private_evolution.quadtree_plan(signal, 1.0, k, d)
    assert plan.n_bins >= 1 and (plan.n_bins * 2 ** sum(plan.cuts)) ** d <= LARGEST_GRID
    assert plan.shares[-1] == 0.5 and plan.cuts[-1] == 0  # whose deviation is that of the plan


@pytest.mark.parametrize(("n_total", "levels"), [(100.0, 2), (4000.0, 3)])
def test_the_number_of_histograms_is_told_by_public_numbers(n_total, levels):
    """Kills a plan that counts the rows: no row, a few, many."""
    for n in (0, 30, 5000):
        rows = vote_grid(in_unit_ball(5000, 2)[:n])
        act = partial(private_evolution.quadtree_votes, rows, 4, mu=1.0, n_total=n_total)
        found = events_of(lambda act=act: act(noise=Noise(0)))
        assert len(found) == levels


@COLUMNS
@pytest.mark.parametrize("n_total", [3e4, 1e9])
def test_memory_is_as_stated_where_every_cell_is_divided(d, n_total):
    rows = vote_grid(in_unit_ball(600, d))
    act = partial(private_evolution.quadtree_votes, rows, 4, mu=1.0, n_total=n_total)
    with watch(lambda event: np.full(len(event.value), 1e13)):
        tracemalloc.start()
        act(noise=Noise(0))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < quadtree.QUADTREE_BYTES


def test_where_a_quadtree_is_too_coarse_candidates_evolve():
    assert not private_evolution.has_quadtree(4, 2)
    assert private_evolution.has_quadtree(2, 32) and not private_evolution.has_quadtree(2, 33)
    with pytest.raises(ValueError, match="n_clusters=2, with 4 columns: quadtree_votes"):
        private_evolution.quadtree_votes(np.zeros((5, 4)), 2, mu=1.0, n_total=5.0, noise=Noise(0))


# ---------------------------------------------------------------- cells


@COLUMNS
def test_without_noise_every_row_is_counted_once_near_itself(d):
    X = in_unit_ball(600, d)
    with silent():
        points, counts = private_evolution.quadtree_votes(
            vote_grid(X), 4, mu=50.0, n_total=600, noise=Noise(0)
        )
    assert np.linalg.norm(points, axis=1).max() <= 1 + 1e-9
    # cells with less than half a deviation are dropped; with this budget no record is
    assert counts.sum() == pytest.approx(600, rel=1e-9)
    n_bins = private_evolution.coarse_bins(600, math.sqrt(2) / 50, 4, d)
    away = np.linalg.norm(X[:, None] - points[counts > 0.5], axis=2).min(axis=1)
    assert away.max() <= math.sqrt(d) / (2 * n_bins) + 2 * math.sqrt(d) / grid_radius(d)


@pytest.mark.parametrize(("k", "levels"), [(10, 2), (2, 3)])
def test_only_full_cells_are_divided(k, levels):
    """Kills cells divided by a count, or by an estimate with another deviation."""
    X = np.r_[np.full((500, 2), 0.31), np.full((5, 2), -0.4)]
    act = partial(private_evolution.quadtree_votes, vote_grid(X), k, mu=0.5, n_total=505)
    found = events_of(lambda: act(noise=Noise(0)))
    assert [event.label for event in found] == ["counts of cells"] * levels
    plan = private_evolution.quadtree_plan(505, 2 * math.sqrt(2), k, 2)
    deviation = 2 / math.sqrt(plan.shares[0])
    once, twice = (found[0].outcome > c * plan.limit * deviation for c in (1, 4))
    assert twice.sum() == np.sum(found[0].value > plan.limit * deviation) == 1
    parts = 3 * once.sum() + (12 * twice.sum() if levels == 2 else 0)
    assert len(found[1].value) == len(found[0].value) + parts


def test_a_cell_is_divided_once_or_twice_by_its_count():
    """All cells of one column, by hand: 200, 60 and 8 records with noise of one record."""
    X = np.r_[np.full(200, -0.9), np.full(60, 0.01), np.full(8, 0.7)][:, None]
    act = partial(private_evolution.quadtree_votes, vote_grid(X), 16, mu=math.sqrt(2))
    found = events_of(lambda: act(n_total=268, noise=Noise(0)), exact=True)
    first, second = (event.value for event in found)
    assert 4 < 268 / 64 < 5  # deviations, by a quarter of a cluster's share
    assert sorted(first[first > 0]) == [8, 60, 200]
    assert len(second) == len(first) + 3 + 3 + 1  # above 8.4 in four parts, above 4.2 in two
    assert sorted(second[second > 0]) == [8, 60, 200]


def test_three_levels_by_hand():
    """One column, 1 cluster; noise of 2.24, 1.12 and 1 record, so the first cells are divided above 11.2 records.

    An estimate has a deviation of 1 in a cell that stayed whole, of 1.02 in a half: divided above 5 in two, above 10 in
    four parts. Kills counts that are not pooled, and limits in deviations of another level.
    """
    sizes = 4, 6, 9, 11, 12
    X = np.repeat([-0.9, -0.45, 0.05, 0.45, 0.9], sizes)[:, None]
    act = partial(private_evolution.quadtree_votes, vote_grid(X), 1, mu=math.sqrt(2))
    found = events_of(lambda: act(n_total=2000.0, noise=Noise(0)), exact=True)
    first, second, third = (event.value for event in found)
    assert len(second) == len(first) + 1  # 12
    assert len(third) == len(second) + 1 + 1 + 3 + 3  # 6, 9, 11, 12
    assert all(sorted(of[of > 0]) == [*sizes] for of in (first, second, third))


@pytest.mark.parametrize(("n_total", "deviations"), [(160, 4), (100, 2.5), (20, 2.5), (120, 3)])
def test_a_cell_is_divided_above_its_share_of_the_records_in_deviations(n_total, deviations):
    """A quarter of a cluster's share, n / (4 * 5 * 2) deviations of two records, but at least 2.5."""
    limit = int(2 * deviations)
    sizes = limit, limit + 1, 2 * limit, 2 * limit + 1
    X = np.repeat([-0.9, -0.3, 0.35, 0.9], sizes)[:, None]
    act = partial(private_evolution.quadtree_votes, vote_grid(X), 5, mu=math.sqrt(0.5))
    first, second = events_of(lambda: act(n_total=float(n_total), noise=Noise(0)), exact=True)
    assert sorted(first.value)[-4:] == [*sizes]
    # at the limit it stays whole, above it there are two parts, above twice the limit four
    assert len(second.value) == len(first.value) + 1 + 1 + 3


def test_public_centers_are_one_more_start(monkeypatch):
    asked = []
    monkeypatch.setattr(quadtree, "select", lambda *args, **more: asked.append((args, more)))
    start, rows = np.array([[0.1], [0.2]]), vote_grid(in_unit_ball(60, 1))
    for given in (start, None):
        cost = {"mu": 2.0, "n_total": 60.0, "noise": Noise(0)}
        private_evolution.quadtree_search(rows, 2, **cost, start=given)
    (points, counts, k, _, first), more = asked[0]
    assert (k, more) == (2, {"n_init": 30}) and len(points) == len(counts)
    assert np.array_equal(first, start) and asked[1][0][-1] is None


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize(("mu", "levels"), [(0.5, 2), (3.0, 3)])
@COLUMNS
def test_a_neighbor_moves_each_histogram_by_its_sensitivity_at_most(d, mu, levels, neighboring):
    X = in_unit_ball(60, d)
    row = np.full((1, d), 0.9 / math.sqrt(d))
    other = np.vstack([X, row]) if neighboring == "add_remove" else np.vstack([row, X[1:]])
    seen = [[], []]

    def note(event, to, again):
        to.append(event)
        return again.pop(0) if again is not None else event.outcome

    for data, to, first in ((X, seen[0], None), (other, seen[1], seen[0])):
        again = first and [event.outcome for event in first]
        with watch(partial(note, to=to, again=again)):
            noise = Noise(0, neighboring=neighboring)
            private_evolution.quadtree_search(vote_grid(data), 3, mu=mu, n_total=60.0, noise=noise)
    assert len(seen[0]) == len(seen[1]) == levels
    for one, two in zip(*seen, strict=True):
        moved = np.linalg.norm((two.value - one.value).astype(float))
        assert one.value.shape == two.value.shape and 0 < moved <= one.sensitivity * (1 + 1e-9)


# ---------------------------------------------------------------- whole fits


@pytest.mark.parametrize("make", [PEMeans, HDPEMeans])
@pytest.mark.parametrize("n_public", [None, 3000])
@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize(("k", "shares"), [(30, [0.5, 0.5]), (3, [0.1, 0.4, 0.5])])
@COLUMNS
def test_the_receipt_is_the_theorem(make, n_public, neighboring, k, shares, d):
    X, options = in_unit_ball(3000, d), dict(PUBLIC, neighboring=neighboring, n_public=n_public)
    model = make(k, zoom=False, **options).fit(X)
    mu = gaussian_mu(1.0, 1e-6)
    assert model.spent_.mu == pytest.approx(mu, rel=1e-12)
    costs = {}
    for release in model.spent_.releases:
        costs.setdefault(release.label, []).extend([release.mu] * release.times)
    rest = mu * math.sqrt(0.99 if "number of rows" in costs else 1.0)
    assert ("number of rows" in costs) == (n_public is None and neighboring == "add_remove")
    assert "votes" not in costs
    wanted = [rest * math.sqrt(0.8 * share) for share in shares]
    assert costs["counts of cells"] == pytest.approx(wanted, rel=1e-9)
    step = math.hypot(*(each for name in costs if "residuals" in name for each in costs[name]))
    assert step == pytest.approx(rest * math.sqrt(0.2), rel=1e-9)
    assert np.isfinite(model.cluster_centers_se_).any()


def test_rounds_of_votes_that_are_asked_for_are_votes_of_candidates():
    def labels(**options):
        model = PEMeans(3, **PUBLIC | options).fit(in_unit_ball(3000, 2))
        return Counter(r.label for r in model.spent_.releases for _ in range(r.times))

    assert labels(n_votes=2)["votes"] == 2 and "counts of cells" not in labels(n_votes=2)
    assert "counts of cells" not in labels(n_components=1)  # projected
    assert "counts of cells" not in labels(variant="paper", n_public=3000, n_votes=2)
    step = "sums of residuals, and counts"
    assert labels(n_refine=7, zoom=False)[step] == 1
    # in a ball that was found rows may have been overlooked
    assert labels(n_refine=7, radius=100.0)[step] == 7


def test_in_three_columns_nothing_is_counted_in_cells():
    model = PEMeans(3, **PUBLIC).fit(in_unit_ball(300, 3))
    assert "counts of cells" not in [r.label for r in model.spent_.releases]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("n", "k"), [(1, 1), (1, 3), (2, 60), (40, 60)])
@pytest.mark.parametrize("epsilon", [1e-3, 9.0])
@COLUMNS
def test_always_k_centers_in_the_ball(n, k, epsilon, d):
    X = np.full((n, d), 3.0)
    found = PEMeans(k, **PUBLIC | {"epsilon": epsilon}).fit(X).cluster_centers_
    assert found.shape == (k, d) and np.linalg.norm(found, axis=1).max() <= 1 + 1e-9


def mean_loss(X, k, seeds=12, **options):
    fits = [PEMeans(k, **PUBLIC | options | {"random_state": s}).fit(X) for s in range(seeds)]
    return np.mean([kmeans_loss(X, fit.cluster_centers_) for fit in fits])


@pytest.mark.parametrize(("d", "epsilon", "most"), [(1, 0.3, 0.98), (2, 0.1, 0.9)])
def test_the_quadtree_pays(d, epsilon, most):
    X, ask = in_unit_ball(3000, d, 10, seed=3), {"epsilon": epsilon, "zoom": False}
    lost = mean_loss(X, 10, **ask)
    with mock.patch.object(kmeans, "has_quadtree", lambda *sizes: False):
        assert lost < most * mean_loss(X, 10, **ask)


@COLUMNS
def test_three_histograms_pay_on_heavy_tails(d):
    X = np.exp(np.random.default_rng(1000).normal(size=(5000, d)))
    X = X - X.mean(axis=0)
    X /= np.linalg.norm(X, axis=1).max()
    lost = mean_loss(X, 8, zoom=False)
    with mock.patch.object(quadtree, "ENOUGH", math.inf):
        assert lost < 0.95 * mean_loss(X, 8, zoom=False)
