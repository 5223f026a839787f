"""More slips that no other test noticed: each test here fails when one line is changed."""

import math
from fractions import Fraction
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy import stats

from dplit import KNoisyCenters, KTupleKMeans, NeighborNoisyAverages, PEMeans, mechanisms
from dplit.accounting import gaussian_mu
from dplit.charges import declared_price, gaussian_bound
from dplit.choosing import search_prices
from dplit.clustering import (
    grid_cover,
    k_averages,
    k_noisy_centers,
    k_tuples,
    pe_means,
    private_scales,
    stable,
)
from dplit.estimators import project
from dplit.filters import Spending
from dplit.mechanisms import Noise
from dplit.receipts import Receipt, Release
from dplit.rows import quantize
from dplit.samplers import lattice_law
from dplit.search import Plan
from dplit.source_target import sources
from dplit.source_target.averages import cell_sensitivity


@pytest.mark.parametrize("separation", [2.5, 3.0, 7.0, 1102.0])
def test_the_ratio_bound_is_this_fraction(separation):
    exact = (Fraction(separation) + 2) / (Fraction(separation) - 2)
    assert k_tuples.ratio_bound(separation) == pytest.approx(float(exact), rel=1e-15)


@pytest.mark.parametrize("separation", [6.1, 10.0, 1102.0])
def test_a_tuple_is_said_to_move_a_little_farther_than_it_can(separation):
    with mpmath.workdps(40):
        omega = (mpmath.mpf(separation) + 2) / (mpmath.mpf(separation) - 2)
        shift, stretch = private_scales.one_tuple_movement(separation)
        assert 1 < shift / ((1 + omega) / separation) < 1 + 1e-8
        assert 1 < stretch / mpmath.log(omega) < 1 + 1e-8


def test_an_average_of_several_columns_is_that_of_each():
    Q = np.random.default_rng(0).normal(size=(4000, 3)) * 0.2 + [1.0, -2.0, 3.0]
    price = {"moves": 1, "epsilon": 1e6, "mu": 1e6, "beta": 0.1}
    noise = Noise(0, neighboring="replace")
    found = k_averages.private_average(Q, radius=5.0, min_radius=0.5, noise=noise, **price)
    assert np.allclose(found, Q.mean(axis=0), atol=0.02)
    *_, total, _ = noise.releases
    # a row may go from one corner of its box to the opposite one
    assert total.label == "sum" and total.sensitivity == pytest.approx(2 * math.sqrt(3), rel=1e-5)


def test_strangers_must_name_a_relation_that_there_is():
    stranger = SimpleNamespace(epsilon=1.0, delta=1e-6, neighboring="both")
    with pytest.raises(ValueError, match="both"):
        declared_price(stranger)
    stranger.neighboring = "replace"
    assert declared_price(stranger)["neighboring"] == "replace"


def test_the_sensitivity_of_a_cell_may_be_small():
    assert cell_sensitivity(0.0, 0.5, 3, 2, "add_remove") == 0.5
    assert cell_sensitivity(2, 0.5, 3, 1, "add_remove") == math.isqrt(12) + 0.5


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, 2.0**61])
def test_a_law_needs_a_scale(scale):
    with pytest.raises(ValueError, match="scale"):
        lattice_law("gaussian", scale, [0, 1])


def test_bins_for_which_there_is_no_memory_are_refused():
    with pytest.raises((ValueError, MemoryError), match="n_bins=1000000000000"):
        mechanisms._exact_counts(np.array([0, 1]), 10**12)


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("n_fits", [1, 2, 7])
def test_a_search_spends_all_and_no_more(gaussian, n_fits):
    (epsilon, delta), choice = search_prices(n_fits, 1.0, 1e-6, share=0.3, gaussian=gaussian)
    assert choice == 0.3
    if not gaussian:
        assert 1 - 1e-11 < n_fits * epsilon + choice <= 1 and n_fits * delta <= 1e-6
        return
    fits = Release("fit", "gaussian", mu=gaussian_mu(epsilon, delta), times=n_fits)
    total = Receipt([fits, Release("choice", "exponential", epsilon=choice)], "add_remove")
    assert 0.999 < total.epsilon_at(1e-6) <= 1


def test_tuples_of_the_wrong_shape_are_refused_by_name():
    given = KNoisyCenters(variant="paper", epsilon=1.0, delta=1e-6)
    noise = Noise(0, neighboring="replace")
    with pytest.raises(ValueError, match="T"):
        k_noisy_centers.printed_noisy_centers(np.zeros((5, 2)), given, noise)


def test_a_matrix_that_does_not_fit_is_refused_by_name():
    for matrix in (np.ones((3, 2)), np.full((2, 2), np.nan), "no"):
        with pytest.raises((TypeError, ValueError), match="matrix"):
            project(np.zeros((5, 2)), matrix, radius=1.0, divisor=1.0)


def test_no_points_are_covered_by_none():
    cover = grid_cover.GridCover(np.zeros((0, 2)), 0.5)
    assert cover.histogram.tolist() == [0]


def test_a_search_of_gaussian_fits_has_a_bound_that_adds_their_squares():
    fit = PEMeans(3, epsilon=0.5, delta=1e-6, radius=2.0)
    plan = Plan.of(fit, {"n_clusters": [2, 3, 4]}, None, 0.2, None)
    parts = [gaussian_bound(0.5, 1e-6, "add_remove")] * 3 + [Spending.claim(0.2)]
    assert plan.price["bound"].mu_squared == pytest.approx(Spending.total(parts).mu_squared)
    assert plan.price["bound"].fits == 1


def test_residuals_are_never_shortened_below_the_ladder():
    ask = {"radius": 1.0, "mu": 1e-3, "sum_mu": 1.0, "n_total": 10.0, "noise": Noise(0)}
    r, kept = pe_means.residual_radius(np.zeros((10, 2)), np.zeros((3, 2)), **ask)
    assert r == pytest.approx(1e-4, rel=1e-12) and kept == 1.0


def test_a_part_that_may_fail_is_taken_off_before_the_rest_is_composed():
    parts = [Release("parts", "stable histogram", epsilon=0.5, delta=0.3)]
    receipt = Receipt([*parts, Release("rest", "gaussian", mu=2.0)], "add_remove")
    assert receipt.delta_at(receipt.epsilon_at(0.4)) == pytest.approx(0.4, rel=1e-6)


def test_the_sampled_test_needs_a_door():
    plan = k_tuples.exact_plan(6000, 1.0, 1e-6, 0.05)
    with pytest.raises(TypeError, match="noise"):
        k_tuples.private_test_partition(np.zeros((6000, 2, 1)), plan, separation=10.0, noise=None)


def test_the_printed_loss_is_a_price_that_is_not_nothing():
    with pytest.raises(ValueError, match="delta"):
        k_noisy_centers.printed_loss(3, 1.0, 2.0, 10.0)
    losses = [k_noisy_centers.printed_loss(3, 1.0, 1e-6, s) for s in (6.5, 10.0, 100.0)]
    assert losses[0] > losses[1] > losses[2] > 0


@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize("price", [{"epsilon": 0.5}, {"rho": 0.1}])
def test_the_printed_threshold_is_the_papers(monkeypatch, d, price):
    gamma, Xs = 0.05, np.random.default_rng(0).uniform(-0.5, 0.5, (40, d))
    if "rho" in price:
        threshold = 1 + math.sqrt(2 / 0.1) * stats.norm.isf(gamma)
    else:
        threshold = 1 + math.log((math.sqrt(d) + 1) / gamma) / 0.5
    counts = np.array([threshold - 1e-6, threshold + 1e-6])
    monkeypatch.setattr(
        sources, "neighbor_noisy_averages", lambda *_, **__: (np.ones((2, d)), counts)
    )
    how = {"variant": "paper", "radius": 1.0, "random_state": 0, **price}
    delta = {"delta": 1e-6} if "rho" in price else {}
    model = NeighborNoisyAverages(**how, **delta).fit(Xs=Xs, Xt=Xs)
    assert np.allclose(model.sources_, 1 / counts[1:, None])


def cells(Q, radius, start, mu=1e7):
    """Found and Inside at hardly any noise."""
    price = stable.StablePrices(**{name: mu for name in stable.StablePrices.__annotations__})
    return stable.cell_means(quantize(Q, radius), start, radius, price, Noise(0))


def test_second_moments_are_those_of_the_cells():
    rng = np.random.default_rng(0)
    start = np.array([[-27.0, 0.0], [27.0, 0.0]])
    spread = [[3.0, 0.9], [0.6, 1.5]]
    Q = np.vstack([c + rng.normal(size=(3000, 2)) @ spread for c in start])
    found, inside = cells(Q, 60.0, start)
    noise = Noise(0)
    weights, matrices = stable.second_moments(found, inside, 1e7, noise)
    (release,) = noise.receipt(1e-9).releases
    assert release.sensitivity == pytest.approx(1.0, rel=1e-6)
    assert np.allclose(weights, 0.5, atol=1e-3)
    for matrix, part in zip(matrices, (Q[:3000], Q[3000:]), strict=True):
        assert np.allclose(matrix, np.cov(part.T), rtol=0.1)  # the longest rows are cut


def test_errors_of_centres_do_not_know_where_the_centres_are():
    rng = np.random.default_rng(0)
    X = np.repeat([[-20.0, 0.0], [20.0, 0.0]], 20_000, axis=0) + rng.normal(size=(40_000, 2))
    price = {"epsilon": 4.0, "delta": 1e-6, "radius": 30.0, "random_state": 0}
    model = KTupleKMeans(2, **price).fit(X)
    errors = model.cluster_centers_se_
    assert model.status_ == "released"
    assert np.allclose(errors[:, 0], errors[:, 1], rtol=0.2)


def test_the_population_is_shared_among_the_heads(monkeypatch):
    asked = []

    def search(*_, n_clusters, n_variations, **__):
        asked.append((n_clusters, n_variations))
        raise InterruptedError

    monkeypatch.setattr(pe_means, "private_evolution", search)
    price = {"epsilon": 1.0, "delta": 1e-6, "radius": 4.0, "random_state": 0, "n_public": 9000}
    with pytest.raises(InterruptedError):
        PEMeans(4, population=300, **price).fit(np.zeros((9000, 2)))
    assert asked == [(6, 50)]
