"""k-means from a grid: where records are counted, how many cells there are, what is released once and asked many times."""

import itertools
import math
import tracemalloc
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy import optimize, special
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline

from dplit import BoundedScaler, GridKMeans, PrivacyBudget, datasets
from dplit.estimators import (
    LARGEST_GRID,
    LEAST_BINS,
    CellGrid,
    bins_for,
    cell_weights,
    grid_cells,
    grid_loss_bound,
    most_bins,
    nearest_counts,
    weighted_centers,
)
from dplit.estimators.base import PrivateEstimator
from dplit.estimators.grid import _of_cells
from dplit.inputs import DoubtWarning
from dplit.inputs.lattice import lattice, quantize
from dplit.ledger import declared_cost
from dplit.mechanisms import Noise, watch

RADIUS = 4.0
PURE = {"n_clusters": 4, "epsilon": 1.0, "radius": RADIUS, "random_state": 0}


def blobs(d=2, n=2000, k=4, seed=0):
    rng = np.random.default_rng(seed)
    middles = rng.uniform(-2, 2, size=(k, d))
    return middles[rng.integers(k, size=n)] + 0.2 * rng.normal(size=(n, d))


X = blobs()

# ---------------------------------------------------------------- the grid


@pytest.mark.parametrize("norm", [2, np.inf])
@pytest.mark.parametrize(
    ("d", "n_bins"), [(1, 3), (1, 1000), (2, 3), (2, 8), (2, 41), (3, 5), (4, 6)]
)
@pytest.mark.parametrize("radius", [1.0, 3.7, 1e-80, 1e80])
def test_every_record_of_the_ball_is_in_a_cell_and_near_its_point(norm, d, n_bins, radius):
    grid = CellGrid.over(d, n_bins, radius, norm=norm)
    rows = np.random.default_rng(0).normal(size=(3000, d)) * radius
    rows[:20] *= 1e9
    cells = grid.cells(rows)
    assert cells.dtype == np.int64 and cells.min() >= 0 and cells.max() < len(grid.points)
    inside = quantize(rows, radius, norm=norm) * lattice(radius)[0]
    away = np.linalg.norm(inside / radius - grid.points[cells] / radius, axis=1)
    assert away.max() <= grid.half_diagonal / radius * (1 + 1e-9)
    assert np.linalg.norm(grid.points / radius, ord=norm, axis=1).max() <= 1 + 1e-9


@pytest.mark.parametrize("d", [1, 2, 3])
def test_cells_that_no_record_can_be_in_are_left_out_and_no_others(d):
    grid = CellGrid.over(d, 9, 2.0)
    edges = np.linspace(-2, 2, 10)
    nearest_edge = np.maximum(np.maximum(edges[:-1], -edges[1:]), 0)
    met = [
        math.hypot(*(nearest_edge[i] for i in place)) < 2.0 - 1e-5
        for place in itertools.product(range(9), repeat=d)
    ]
    assert np.array_equal((grid.place >= 0).ravel(), met)
    assert np.array_equal(np.unique(grid.place), np.arange(-(d > 1), len(grid.points)))


def test_cells_are_those_of_the_middle_and_a_center_moves_the_grid():
    grid, moved = CellGrid.over(2, 7, 2.0), CellGrid.over(2, 7, 2.0, center=np.array([5.0, -1.0]))
    inner = np.linalg.norm(grid.points, axis=1) < 1.6
    assert np.array_equal(grid.cells(grid.points)[inner], np.flatnonzero(inner))
    rows = np.random.default_rng(1).normal(size=(500, 2))
    assert np.array_equal(grid.cells(rows), moved.cells(rows + [5.0, -1.0]))
    table = grid.table(np.arange(len(grid.points)))
    assert np.array_equal(np.isnan(table), grid.place < 0)
    assert np.nansum(table) == sum(range(len(grid.points)))


def test_a_record_alone_decides_on_its_cell():
    grid = CellGrid.over(3, 11, 1.0)
    rows = np.random.default_rng(0).normal(size=(300, 3))
    whole = grid.cells(rows)
    assert np.array_equal(whole[::-1], grid.cells(rows[::-1]))
    assert [int(grid.cells(row[None])[0]) for row in rows] == whole.tolist()


@pytest.mark.parametrize("d", range(1, 14))
def test_a_grid_has_about_as_many_cells_as_were_asked_for_and_never_too_many(d):
    assert most_bins(d) ** d <= LARGEST_GRID < (most_bins(d) + 1) ** d
    for norm, wanted in itertools.product((2, np.inf), (1, 100, 3000, LARGEST_GRID)):
        n_bins = bins_for(wanted, d, norm)
        assert type(n_bins) is int and LEAST_BINS <= n_bins <= max(most_bins(d), LEAST_BINS)
        if d <= 3 and wanted in (100, 3000):
            found = len(CellGrid.over(d, n_bins, norm=norm).points)
            assert wanted / 2.2 < found < wanted * 2.2


@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_corner_is_as_far_from_the_middle_of_its_cell_as_can_be(d):
    grid = CellGrid.over(d, 5, 3.0, norm=np.inf)
    corner = np.full((1, d), 3.0)
    away = np.linalg.norm(corner - grid.points[grid.cells(corner)])
    assert away == pytest.approx(math.sqrt(d) * 3 / 5, rel=1e-6)
    assert away <= grid.half_diagonal <= away * (1 + 1e-5)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_a_fine_grid_has_the_intervals_that_the_volume_of_the_ball_asks_for(d):
    """Where cells that stick out of the ball are few, as many cells as were asked for times the cube's volume over the ball's."""
    for wanted in (LARGEST_GRID // 40, LARGEST_GRID // 5):
        share = math.pi ** (d / 2) / special.gamma(d / 2 + 1) / 2**d
        n_bins = round((wanted / share) ** (1 / d))
        found = np.count_nonzero(CellGrid.over(d, n_bins).place >= 0)
        if found <= 1.2 * wanted:
            assert bins_for(wanted, d) == n_bins
        else:
            assert bins_for(wanted, d) < n_bins
            least = CellGrid.over(d, bins_for(wanted, d) + 1)
            assert len(least.points) > 1.2 * wanted
        assert bins_for(wanted, d, np.inf) == round(wanted ** (1 / d))


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("where", [{}, {"radius": None, "bounds": (-4, 4)}])
def test_a_grid_of_few_records_has_room_for_the_clusters_and_no_more(d, where):
    norm = 2 if not where else np.inf
    for k in range(1, 40):
        ask = PURE | {"n_clusters": k, "epsilon": 0.01, "n_public": 1} | where
        model = GridKMeans(**ask).fit(np.zeros((1, d)))
        n_bins = bins_for(max(grid_cells(1, model.grid_counts_se_, k, d), k), d, norm)
        while len(CellGrid.over(d, n_bins, norm=norm).points) < k:
            n_bins += 1
        assert model.n_bins_ == n_bins and model.cluster_centers_.shape == (k, d)


def test_the_memory_that_is_told_holds_the_largest_grid():
    for d in (1, 2, 3):
        model = GridKMeans(**PURE | {"epsilon": 0.1}, n_bins=most_bins(d))._declared()
        tracemalloc.start()
        try:
            GridKMeans(**PURE | {"epsilon": 0.1}, n_bins=most_bins(d)).fit(np.zeros((1, d)))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak / 4 < model._memory(d) < 20 * peak, d


# ---------------------------------------------------------------- the rule


def test_the_rule_is_where_bias_and_noise_balance():
    """Equation (3) is the minimum of its two terms, for every k, d: found by a search."""
    for n, sigma, k, d in itertools.product((500, 3e4), (1.4, 14.0), (2, 15), (1, 2, 3)):
        ratio = 5.0**2 * d / 4

        def excess(log_m, n=n, sigma=sigma, k=k, d=d, ratio=ratio):
            m = math.exp(log_m)
            return ratio * k ** (2 / d) * m ** (-4 / d) + sigma**2 * m * k ** (1 - 2 / d) / n**2

        best = math.exp(optimize.minimize_scalar(excess, bounds=(-3, 14), method="bounded").x)
        best = min(max(best, 1), LARGEST_GRID)
        assert grid_cells(n, sigma, k, d) == pytest.approx(best, rel=0.01, abs=0.6)


def test_the_rule_stays_in_its_range_whatever_the_numbers():
    for n, sigma, k, d in itertools.product((1e-9, 1.0, 1e90), (1e-90, 1e90), (1, 10**6), (1, 12)):
        assert 1 <= grid_cells(n, sigma, k, d) <= LARGEST_GRID


def test_the_rule_by_hand_where_records_are_few():
    """2 = 5 * 0.4 records for a deviation: (2^2 * 1000^3)^(1/5) = 83.3 cells."""
    assert grid_cells(0.4, 1.0, 1000, 1) == 83


# ---------------------------------------------------------------- counts and centers


@pytest.mark.parametrize("total", [0.3, 1.0, 57.0, 5000.0])
def test_counts_are_projected(total):
    """Against a solver that knows nothing of the closed form; and a projection brings nothing farther away."""
    rng = np.random.default_rng(0)
    counts = rng.normal(5, 10, size=40)
    found = nearest_counts(counts, total)
    assert found.min() >= 0 and found.sum() == pytest.approx(max(total, 1.0))
    level = optimize.brentq(
        lambda t: np.maximum(counts - t, 0).sum() - max(total, 1.0), -1e5, counts.max(), xtol=1e-12
    )
    assert np.allclose(found, np.maximum(counts - level, 0), atol=1e-6)
    true = rng.dirichlet(np.full(40, 0.1)) * max(total, 1.0)
    assert np.linalg.norm(found - true) <= np.linalg.norm(counts - true)


@pytest.mark.parametrize("norm", [2, np.inf])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_neighborhood_is_a_cell_and_those_that_touch_it(d, norm):
    grid = CellGrid.over(d, 6, norm=norm)
    values = np.random.default_rng(0).normal(size=len(grid.points))
    places = np.argwhere(grid.place >= 0)
    near = np.abs(places[:, None] - places).max(axis=2) <= 1
    assert np.allclose(grid.around(values), near @ values)


def test_a_cell_that_stands_alone_gets_no_weight_and_a_group_keeps_its_own():
    grid = CellGrid.over(2, 9, norm=np.inf)
    table = np.zeros((9, 9))
    table[1:4, 1:4], table[7, 7], table[7, 1] = 3.0, 5.0, 50.0
    counts = table.ravel()
    weights = cell_weights(grid, counts, 77.0, 1.5, 2).reshape(9, 9)
    # 27 records in nine cells and 50 in one are more than 9 in the noise of nine cells, 5 are not
    assert np.all(weights[1:4, 1:4] > 0) and weights[7, 1] > 0 and weights[7, 7] == 0
    assert weights.sum() == pytest.approx(77)
    nothing = cell_weights(grid, counts / 100, 77.0, 1.5, 2)
    assert np.allclose(nothing, nearest_counts(counts / 100, 77.0))


def test_centers_of_weighted_points_are_those_of_repeated_points():
    rng = np.random.default_rng(0)
    points, weights = blobs(n=60), rng.integers(0, 4, size=60).astype(float)
    found = weighted_centers(points, weights, 4)
    repeated = np.repeat(points, weights.astype(int), axis=0)
    best = KMeans(4, n_init=50, random_state=0).fit(repeated).inertia_
    assert datasets.kmeans_loss(repeated, found) * len(repeated) == pytest.approx(best, rel=1e-6)
    few = weighted_centers(points, np.eye(60)[7], 3)
    assert few.shape == (3, 2) and points[7] in few


@pytest.mark.parametrize("unit", [1e-305, 1e305])
def test_the_unit_of_weights_and_of_points_does_not_matter(unit):
    rng = np.random.default_rng(0)
    points, weights = blobs(n=60), rng.uniform(0, 100, size=60)
    found = weighted_centers(points, weights, 4)
    assert np.allclose(found, weighted_centers(points, weights * unit, 4), rtol=1e-9)
    assert np.allclose(found, weighted_centers(points * unit, weights, 4) / unit, rtol=1e-9)


def test_sizes_and_errors_of_cells_by_hand():
    """Cells at 0, 2 and 10 with 30, 10 and 1 counts about the centers 1 and 9, and noise of 2."""
    points, counts = np.array([[0.0, 0.0], [2.0, 1.0], [10.0, 0.0]]), np.array([30.0, 10.0, 1.0])
    sizes, errors, scale = _of_cells(points, counts, np.array([[1.0, 0.0], [9.0, 0.0]]), 2.0)
    assert sizes.tolist() == [40, 1] and np.allclose(errors, [2 * math.sqrt(2), 2])
    # squared distances of a column, summed over the cells: 1 + 1 and 0 + 1
    assert np.allclose(scale[0], [2 / 40 * math.sqrt(2), 2 / 40]) and np.all(scale[1] == np.inf)
    # the last center may have no cell
    sizes, errors, scale = _of_cells(points, counts, np.array([[3.0, 0.0], [99.0, 0.0]]), 2.0)
    assert sizes.tolist() == [41, 0] and errors[1] == 0 and np.all(scale[1] == np.inf)


def test_the_bound_by_hand():
    """10 = 5 sqrt 4; the noise is 10^2 (2 * 3 / sqrt(1/4) + 3 * 7) = 3300."""
    asked = 100.0, 4.0, 2, 3.0, 5.0, 10.0, 0.25
    wanted = (math.sqrt((10 + 10) ** 2 + 3300) + 10) ** 2
    assert grid_loss_bound(*asked, dropped=7.0) == pytest.approx(wanted, rel=1e-12)


# ---------------------------------------------------------------- what it costs


def test_two_shares_are_never_more_than_the_whole():
    """As exact numbers: half of all differences of floats are rounded up."""
    for epsilon in np.random.default_rng(0).uniform(0.01, 10, size=200):
        count, cells = GridKMeans(**PURE | {"epsilon": float(epsilon)})._declared()._budget_split()
        parts = Fraction(count["epsilon"]), Fraction(cells["epsilon"])
        assert sum(parts) <= Fraction(epsilon) and float(sum(parts)) > epsilon * (1 - 1e-12)


def test_a_budget_whose_smallest_share_no_noise_can_have_is_refused():
    least = 20 * 2.0**-26
    GridKMeans(**PURE | {"epsilon": least * 1.01}).privacy_cost()
    for epsilon in (least * 0.99, least / 15):
        with pytest.raises(ValueError, match="millions of times"):
            GridKMeans(**PURE | {"epsilon": epsilon}).privacy_cost()


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("known", [{}, {"n_public": 2000}, {"n_bins": 12}])
def test_pure_epsilon_is_spent_exactly_and_the_receipt_names_geometric_noise(neighboring, known):
    model = GridKMeans(**PURE, **known, neighboring=neighboring).fit(X)
    spent = model.spent_
    assert spent.delta == 0 and spent.epsilon == pytest.approx(1.0, abs=1e-12)
    assert spent.epsilon <= 1.0 and {r.mechanism for r in spent.releases} == {"laplace"}
    counted = neighboring == "add_remove" and not known
    assert len(spent.releases) == 1 + counted
    moves = 1 if neighboring == "add_remove" else 2
    cells = spent.releases[-1]
    assert cells.sensitivity == moves and cells.scale == pytest.approx(moves / cells.epsilon)
    assert cells.epsilon == pytest.approx(0.95 if counted else 1.0)


def test_a_budget_without_a_delta_pays_for_it_to_the_end():
    for composition in ("composed", "added"):
        budget = PrivacyBudget(1, 0, composition=composition)
        budget.fit(GridKMeans(**PURE | {"epsilon": 0.75}), X)
        assert budget.spent == pytest.approx((0.75, 0))
        assert budget.fits(0.25, 0) == 1
        budget.fit(GridKMeans(**PURE | {"epsilon": 0.25}), X)
        assert budget.remaining == pytest.approx((0, 0), abs=1e-12)
        with pytest.raises(Exception, match="epsilon"):
            budget.fit(GridKMeans(**PURE | {"epsilon": 0.01}), X)
        assert [row.delta for row in budget.ledger] == [0.0, 0.0]


def test_a_cost_says_whether_all_noise_is_gaussian():
    cost = partial(PrivateEstimator.privacy_cost)
    pure, small, large = (GridKMeans(**PURE | {"delta": delta}) for delta in (0.0, 1e-6, 0.3))
    assert [cost(m).gaussian_only for m in (pure, small, large)] == [False, False, True]
    assert [cost(m).delta for m in (pure, small, large)] == [0.0, 1e-6, 0.3]
    assert all(cost(m).fixed for m in (pure, small, large))
    assert declared_cost(pure)["bound"] is None
    assert small.fit(X).spent_.delta == 0.0  # geometric noise is smaller, and spends none
    with pytest.warns(Warning, match="delta"):
        spent = large.fit(X).spent_
    assert spent.delta == 0.3 and spent.epsilon == pytest.approx(1.0, rel=1e-9)
    assert {r.mechanism for r in spent.releases} == {"gaussian"}


def test_the_smaller_noise_is_taken():
    """By the standard deviation that is drawn: for either relation, at every price."""
    from dplit.accounting import gaussian_mu

    for relation, epsilon, delta in itertools.product(
        ("add_remove", "replace"), (0.1, 1.0, 8.0), (0.0, 1e-6, 0.1, 0.5)
    ):
        model = GridKMeans(**PURE | {"epsilon": epsilon, "delta": delta}, neighboring=relation)
        l1, l2 = (1, 1.0) if relation == "add_remove" else (2, math.sqrt(2))
        mu = gaussian_mu(epsilon, delta)
        smaller = delta > 0 and l2 / mu < math.sqrt(2) * l1 / epsilon
        assert model.privacy_cost().gaussian_only == smaller


@pytest.mark.parametrize(
    "cost", [{"epsilon": 0.3}, {"epsilon": 3.0}, {"epsilon": 1.0, "delta": 0.3}]
)
@pytest.mark.filterwarnings("ignore::dplit.inputs.PrivacyWarning")
def test_the_standard_error_of_a_cell_is_that_of_its_noise(cost):
    draws = []
    for seed in range(20):
        ask = PURE | cost | {"random_state": seed, "n_bins": 20}
        model = GridKMeans(**ask).fit(np.zeros((1, 2)))
        counts = model.grid_counts_.copy()
        draws.append(counts / model.grid_counts_se_)
    draws = np.concatenate(draws)
    assert len(draws) > 5000 and np.mean(draws**2) == pytest.approx(1, abs=0.1)


def test_too_many_cells_are_refused_before_the_charge_with_what_it_would_need():
    budget = PrivacyBudget(1, 0)
    wide = np.zeros((9, 12))
    for changed, rows, message in (
        ({}, wide, "12 columns.*262144.*PEMeans"),
        ({"n_bins": 600}, X, "at most 512"),
        ({"n_bins": 3, "n_clusters": 10}, X, "9 cells"),
    ):
        with pytest.raises(ValueError, match=message):
            budget.fit(GridKMeans(**PURE | changed), rows)
    assert budget.ledger == () and GridKMeans(**PURE).fit(wide[:, :11]).n_bins_ == 3


# ---------------------------------------------------------------- released once


@pytest.mark.parametrize(
    "where", [{}, {"center": [0.5, -0.25]}, {"radius": None, "bounds": (-4, 5)}]
)
def test_any_number_of_clusters_at_no_additional_cost(where):
    model = GridKMeans(**PURE | where).fit(X)
    with watch(lambda event: pytest.fail("something was released")):
        assert np.allclose(model.centers_for(4), model.cluster_centers_, rtol=0, atol=1e-9)
        losses, errors = model.loss_curve([1, 2, 4, 9])
        assert model.centers_for(9).shape == (9, 2)
    true = [datasets.kmeans_loss(X, model.centers_for(k)) for k in (1, 2, 4, 9)]
    if where.get("bounds"):
        true = [loss / 4.5**2 for loss in true]
    assert np.all(np.abs(losses - true) < 4 * errors + 0.05 * losses[0])
    with pytest.raises(ValueError, match="cells"):
        model.centers_for(10**6)
    # the class that was called, not that of the code
    for call in (model.centers_for, lambda k: model.loss_curve([k])):
        with pytest.raises(ValueError, match=r"GridKMeans\.(centers_for|loss_curve) needs"):
            call(0)


def test_ranges_and_points_are_in_the_units_of_the_columns():
    bounds = ([-4, -4e6], [4, 8e6])
    model = GridKMeans(4, epsilon=1.0, bounds=bounds, n_bins=8, random_state=0).fit(X * [1, 1e6])
    assert np.allclose(np.unique(model.grid_points_[:, 0]), -3.5 + np.arange(8.0))
    assert np.allclose(np.unique(model.grid_points_[:, 1]), (-3.25 + 1.5 * np.arange(8.0)) * 1e6)
    assert model.grid_counts_.shape == (64,) and model.grid_radius_ == 1.0


def test_counts_are_right_when_noise_is_nothing():
    ask = PURE | {"epsilon": 1e4, "n_bins": 9}
    with pytest.warns(Warning, match="epsilon"):
        model = GridKMeans(**ask).fit(X)
    grid = CellGrid.over(2, 9, RADIUS)
    assert np.array_equal(
        model.grid_counts_, np.bincount(grid.cells(X), minlength=len(grid.points))
    )
    assert model.n_rows_ == len(X) and model.cluster_sizes_.sum() == len(X)


def test_more_clusters_make_a_finer_grid_and_less_budget_a_coarser_one():
    bins = [
        GridKMeans(**PURE | changed, n_public=2000).fit(X).n_bins_
        for changed in ({"epsilon": 0.1}, {}, {"n_clusters": 40}, {"epsilon": 4.0})
    ]
    assert bins[0] < bins[1] < bins[2] and bins[1] < bins[3]


# ---------------------------------------------------------------- accuracy


def test_the_bound_holds_and_its_quantization_is_nearly_reached():
    """Two gaps that the grid exchanges: the wrong one is chosen, and the loss is 83% of the way."""
    n_bins = 10
    grid = CellGrid.over(1, n_bins, 1.0, norm=np.inf)
    edge = 1 / n_bins - 1e-5
    at = np.array([-0.5 - edge, 0.1 + edge, 0.7 - edge])  # in the cells about -.5, .1 and .7
    masses = [2920, 4140, 2940]
    rows = np.repeat(at, masses)[:, None]
    counts = np.bincount(grid.cells(rows), minlength=n_bins).astype(float)
    assert np.count_nonzero(counts) == 3
    best = KMeans(2, n_init=20, random_state=0).fit(rows).inertia_
    got = datasets.kmeans_loss(rows, weighted_centers(grid.points, counts, 2)) * len(rows)
    bound = grid_loss_bound(best, len(rows), n_bins, 0.0, grid.half_diagonal, 2.0, 0.01)
    assert got <= bound
    gone = (math.sqrt(got) - math.sqrt(best)) / (math.sqrt(bound) - math.sqrt(best))
    assert 0.8 < gone <= 1


def test_the_bound_holds_with_noise():
    for seed, epsilon in itertools.product(range(10), (0.2, 2.0)):
        model = GridKMeans(
            **PURE | {"epsilon": epsilon, "random_state": seed}, n_public=len(X)
        ).fit(X)
        grid = CellGrid.over(2, model.n_bins_, RADIUS)
        best = KMeans(4, n_init=10, random_state=0).fit(X).inertia_
        got = datasets.kmeans_loss(X, model.cluster_centers_) * len(X)
        given = len(X), len(grid.points), model.grid_counts_se_, grid.half_diagonal
        weights = cell_weights(grid, model.grid_counts_, len(X), model.grid_counts_se_, 4)
        dropped = np.count_nonzero(weights[grid.cells(X)] == 0)
        assert got <= grid_loss_bound(best, *given, 2 * RADIUS, 0.05, dropped)


def test_at_a_small_budget_in_two_columns_it_is_near_kmeans():
    best = KMeans(4, n_init=10, random_state=0).fit(X).inertia_ / len(X)
    losses = [
        datasets.kmeans_loss(
            X, GridKMeans(**PURE | {"random_state": s, "epsilon": 0.5}).fit(X).cluster_centers_
        )
        for s in range(10)
    ]
    assert np.mean(losses) < 1.5 * best


@pytest.mark.parametrize(
    ("d", "epsilon", "n", "k"), [(2, 2.0, 1200, 3), (1, 0.5, 2000, 3), (3, 1.0, 8000, 5)]
)
def test_standard_errors_cover_what_the_same_cells_would_say_without_noise(d, epsilon, n, k):
    """Those of sizes about as often as they should; those of centers at least as often: they take all cells at full noise."""
    rows, inside, right = blobs(d, n, k), [], []
    for seed in range(30):
        ask = PURE | {"n_clusters": k, "epsilon": epsilon, "random_state": seed}
        model = GridKMeans(**ask).fit(rows)
        grid, centers = CellGrid.over(d, model.n_bins_, RADIUS), model.cluster_centers_
        exact = np.bincount(grid.cells(rows), minlength=len(grid.points)).astype(float)
        home = ((grid.points[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
        sizes = np.bincount(home, exact, k)
        sums = np.stack([np.bincount(home, exact * column, k) for column in grid.points.T], axis=1)
        known = np.isfinite(model.cluster_centers_se_) & (sizes > 0)[:, None]
        away = np.abs(centers - sums / np.maximum(sizes, 1)[:, None])
        inside += (away <= 1.96 * model.cluster_centers_se_)[known].tolist()
        right += (np.abs(model.cluster_sizes_ - sizes) <= 1.96 * model.cluster_sizes_se_).tolist()
    luck = 4 * np.sqrt(0.05 * 0.95 / (30 * k))
    assert len(inside) > 0.9 * 30 * k * d and np.mean(inside) > 0.95 - luck
    assert abs(np.mean(right) - 0.95) < luck


def test_it_reads_through_noise_alone():
    """Cells by hand, noise by hand: what `Noise.histogram` gets is the number of each record's cell."""
    seen = []
    with watch(lambda event: seen.append((event.label, np.array(event.value))) or event.outcome):
        GridKMeans(**PURE, n_bins=9).fit(X)
    ((label, value),) = seen
    grid = CellGrid.over(2, 9, RADIUS)
    assert label == "records in each cell"
    assert np.array_equal(value, np.bincount(grid.cells(X), minlength=len(grid.points)))
    assert Noise(0).histogram_scale(epsilon=1.0) == pytest.approx(1.0)


# ---------------------------------------------------------------- columns narrower than a cell


def people(n_values, n=4000, n_lists=2):
    """Two groups by the first list; the age is the same for all, and the other lists are random."""
    pandas, rng = pytest.importorskip("pandas"), np.random.default_rng(3)
    words = [f"v{i}" for i in range(n_values)]
    lists = {f"list{i}": rng.choice(words, n) for i in range(n_lists)}
    lists["list0"] = np.array(words)[np.repeat([0, 1], n // 2)]
    scaler = BoundedScaler({"age": 0}, {"age": 120}, categories=dict.fromkeys(lists, words))
    frame = pandas.DataFrame({"age": np.full(n, 50.0), **lists})
    return scaler, frame


def said_before(budget, fit):
    """The doubts about cells, each of which is raised as an error: so nothing may be charged."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "error", "note: over .* columns, each value of a list", DoubtWarning
        )
        try:
            fit()
        except DoubtWarning as doubt:
            assert not budget.ledger
            return str(doubt)
    return ""


@pytest.mark.parametrize("n_values, n_lists, rough", [(5, 2, True), (9, 1, True), (3, 3, True), (2, 1, False)])  # fmt: skip
@pytest.mark.parametrize("piped", [False, True])
def test_columns_narrower_than_two_cells_are_doubted_before_the_charge(n_values, n_lists, rough, piped):  # fmt: skip
    scaler, frame = people(n_values, n_lists=n_lists)
    budget = PrivacyBudget(9.0, 1e-5)
    rows = scaler.fit_transform(frame)
    model = GridKMeans(2, epsilon=1.0, radius=scaler.radius_)
    if piped:
        fit = lambda: budget.fit(make_pipeline(scaler, model), frame)  # noqa: E731
    else:
        fit = lambda: budget.fit(model, rows)  # noqa: E731
    said = said_before(budget, fit)
    assert bool(said) == rough
    if rough:
        assert (
            f"{1 + n_values * n_lists} columns" in said
            and "'list0'" in said
            and "'age'" not in said
        )


def test_a_doubted_column_is_invisible_and_one_that_is_not_is_seen():
    """What the doubt says is so: all rows are in one cell, though the first list has two groups."""
    n_cells = {}
    for n_values, n_lists in ((5, 2), (2, 1)):
        scaler, frame = people(n_values, n_lists=n_lists)
        rows = scaler.fit_transform(frame)
        d = rows.shape[1]
        grid = CellGrid.over(d, most_bins(d), norm=math.inf)
        n_cells[n_values] = len(np.unique(grid.cells(rows)))
    assert n_cells == {5: 1, 2: 2}


def test_many_columns_without_a_scaler_and_wide_ones_with_it_are_not_doubted():
    budget = PrivacyBudget(9.0, 1e-5)
    rows = np.random.default_rng(0).uniform(-1, 1, (500, 9))
    fit = lambda X, **ball: budget.fit(GridKMeans(2, epsilon=0.5, **ball), X)  # noqa: E731
    assert not said_before(budget, lambda: fit(rows, bounds=(-1.0, 1.0)))
    scaled = BoundedScaler([0.0] * 3, [1.0] * 3).fit_transform(rows[:, :3])
    assert not said_before(budget, lambda: fit(scaled, radius=3**0.5))
    assert not said_before(budget, lambda: fit(scaled, bounds=(-1.0, 1.0)))
    assert len(budget.ledger) == 3
    budget = PrivacyBudget(9.0, 1e-5)
    few = GridKMeans(2, epsilon=0.5, radius=3**0.5, n_bins=3)
    assert "at most 3 intervals" in said_before(budget, lambda: budget.fit(few, scaled))
