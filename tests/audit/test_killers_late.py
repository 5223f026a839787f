"""More slips that no other test noticed: each test here fails when one line is changed."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from dplit import (
    CnvxAdap,
    KNoisyCenters,
    KTupleKMeans,
    NCnvxAdap,
    NeighborNoisyAverages,
    NoisyLloyd,
    PEMeans,
    PrivacyBudget,
    adaptation,
    k_tuples,
)
from dplit import estimators as zoom
from dplit.k_tuples import averages as k_averages
from dplit.k_tuples import scales as private_scales
from dplit.k_tuples import stable_tuples
from dplit import mechanisms as noisy_average
from dplit.private_evolution import kmeans as pe_means
from dplit.private_evolution import paper as pe_paper
from dplit.accounting import PrivacyCost, Receipt, Release, Spending, gaussian_mu
from dplit.adaptation import Sample
from dplit.adaptation import classification as ncnvx_adap
from dplit.geometry import project
from dplit.inputs import MappedRows, quantize
from dplit.inputs.lattice import lattice
from dplit.k_tuples import kmeans as stable
from dplit.k_tuples import noisy_centers as k_noisy_centers
from dplit.ledger import Plan, declared_price, gaussian_bound, search_prices
from dplit.max_cover import grid as grid_cover
from dplit.max_cover import kmeans as max_cover_kmeans
from dplit.mechanisms import Bits, Noise, knorm_int, lattice_law, samplers
from dplit.mechanisms import noise as mechanisms
from dplit.source_target import cell_sensitivity, sources


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


@pytest.mark.parametrize("moves", [1, 3])
def test_an_average_of_skewed_columns_is_that_of_each(moves):
    """The tails are long: in a box of half the radius, or around the middle alone, it would be another."""
    Q = np.random.default_rng(0).exponential(size=(4000, 3)) * [0.3, -0.5, 0.8] + [1.0, -2.0, 1.0]
    price = {"moves": moves, "epsilon": 1e6, "mu": 1e6, "beta": 0.1}
    for seed in range(5):
        noise = Noise(seed, neighboring="replace")
        found = k_averages.private_average(Q, radius=9.0, min_radius=0.1, noise=noise, **price)
        assert np.allclose(found, Q.mean(axis=0), atol=0.01)
    *_, total, count = noise.releases
    # a row may go from one corner of its box to the opposite one, and out of one count into another
    assert total.label == "sum" and count.label == "count"
    assert total.sensitivity == pytest.approx(2 * moves * math.sqrt(3), rel=1e-5)
    assert count.sensitivity == pytest.approx(2 * moves, rel=1e-5)


def test_strangers_must_name_a_relation_that_there_is():
    class Stranger:
        neighboring = "both"

        def privacy_cost(self):
            known = {"name": "Stranger", "epsilon": 1.0, "delta": 1e-6, "is_upper_bound": True}
            return PrivacyCost(**known, neighboring=self.neighboring)

    with pytest.raises(ValueError, match="both"):
        declared_price(Stranger())
    Stranger.neighboring = "replace"
    assert declared_price(Stranger())["neighboring"] == "replace"


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
    with pytest.raises(ValueError, match=r"\bT\b"):
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
    assert model.sources_.shape == (1, d) and np.allclose(model.sources_, 1 / counts[1])


@pytest.mark.parametrize("unit", [0.01, 1.0, 100.0])
def test_second_moments_are_those_of_the_cells_in_any_unit(unit):
    rng, radius = np.random.default_rng(0), 60.0 * unit
    start = np.array([[-27.0, 0.0], [27.0, 0.0]]) * unit
    spread = np.array([[3.0, 0.9], [0.6, 1.5]]) * unit
    Q = np.vstack([c + rng.normal(size=(3000, 2)) @ spread for c in start])
    price = stable.StablePrices(**dict.fromkeys(stable.StablePrices.__annotations__, 1e7))
    found, inside = stable.cell_means(quantize(Q, radius), start, radius, price, Noise(0))
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


@pytest.mark.parametrize("share", [0.0, 1.0, 1.5, math.nan])
def test_a_choice_costs_a_share_that_leaves_something(share):
    with pytest.raises(ValueError, match="share"):
        search_prices(3, 1.0, 1e-6, share=share)


@pytest.mark.parametrize("radius", [1.01, 1.1, 1.2, 1.5])
def test_a_maximum_is_found_where_its_direction_hardly_shows(radius):
    """The multiplier is 1e-29 of its bracket, which takes a hundred halvings."""
    A, b = np.diag([-1.0, 0.0]), np.array([1.0, 1e-29])
    _, w, nu = adaptation.trust_region_max(A, b, 0.0, radius)
    assert adaptation.trust_region_violation(A, b, radius, w, nu) < 1e-9
    assert np.linalg.norm(w) == pytest.approx(radius, rel=1e-9)


@pytest.mark.parametrize(
    ("n_tuples", "delta", "beta", "m"),
    [(1000, 0.5, 0.3, 1), (10**7, 1e-4, 1e-6, 2), (10**4, 1e-6, 0.05, 3)],
)
def test_a_plan_of_few_drawn_tuples_fails_as_rarely_as_it_says(n_tuples, delta, beta, m):
    plan = k_tuples.exact_plan(n_tuples, 1.0, delta, beta)
    price = plan.epsilon_1, plan.epsilon_2
    bound = [k_tuples.joint_failure_bound(m, *price, ell, plan.beta) for ell in (plan.ell, 1)]
    assert plan.m == m and bound[0] <= plan.failure < bound[1]


@pytest.mark.parametrize(("d", "least"), [(1, 60), (2, 30)])
def test_a_cell_is_asked_about_for_so_many_targets(monkeypatch, d, least):
    asked = []

    def averages(Xs, cells, **_):
        asked.append(len(cells))
        raise InterruptedError

    monkeypatch.setattr(sources, "neighbor_noisy_averages", averages)
    Xt = np.random.default_rng(0).uniform(-0.5, 0.5, (40 * least, d))
    with pytest.raises(InterruptedError):
        NeighborNoisyAverages(epsilon=8.0, radius=1.0, output="cloud", random_state=0).fit(
            Xs=Xt, Xt=Xt
        )
    assert asked == [40]


def test_rows_that_are_computed_are_covered_like_rows_that_are_there():
    X = np.random.default_rng(0).normal(size=(300, 2)) * 0.2
    X[::7] = np.nan
    there = grid_cover.GridCover(X[~np.isnan(X[:, 0])], 0.3)
    computed = grid_cover.GridCover(MappedRows(X / 2, lambda rows, at: 2 * rows, 2), 0.3)
    assert np.array_equal(computed.histogram, there.histogram)


def test_rounds_start_around_the_noisy_mean():
    model = NoisyLloyd(3, epsilon=1.0, delta=1e-6, radius=8.0, init="mean")
    bought = np.array([[40.0, -30.0]]), np.array([10.0])  # sums, counts
    start = model._start(2, None, np.random.default_rng(0), lambda label: bought)
    assert (np.linalg.norm(start - [4.0, -3.0], axis=1) <= 2.0).all()


def test_a_budget_is_for_a_relation_that_there_is():
    with pytest.raises(ValueError, match='both.*choose "add_remove"'):
        PrivacyBudget(1.0, 1e-6, neighboring="both")


def test_recentring_on_noise_still_finds_a_ball_with_all_rows():
    """All rows are at one end; in one of ten runs the noise puts the middle at the other, 2 R away."""
    X, farthest = np.ones((5000, 1)), 0.0
    for seed in range(100):
        found = max_cover_kmeans.recenter(X, 1.0, mu=1e-6, epsilon=100.0, noise=Noise(seed))
        away = abs(1.0 - found[0][0])
        assert away <= found[1] * (1 + 1e-9)
        farthest = max(farthest, away)
    assert farthest > 1.7


def test_the_first_population_is_spread_over_the_ball_of_the_rows(monkeypatch):
    seen = []

    def votes(Q, population, **_):
        seen.append(population)
        raise InterruptedError

    monkeypatch.setattr(pe_paper, "dp_nn_histogram", votes)
    with pytest.raises(InterruptedError):
        pe_paper.private_evolution(
            np.zeros((9, 2), np.float32), 4, 30, 1, mu=1.0, n_total=9, noise=Noise(0)
        )
    [population] = seen
    lengths = np.linalg.norm(population, axis=1)
    assert len(population) == 4 * 31 and 0.8 < lengths.max() <= 1


def test_rows_that_were_undercounted_are_zoomed_in_on():
    X = np.random.default_rng(0).normal(size=(3000, 2)) * 0.01 + [4.9, 0.0]
    ball = zoom.zoom(X, 5.0, n_total=1000.0, mu=1e3, noise=Noise(0), exactly=1)
    assert np.linalg.norm(ball.center) <= 5 * (1 + 1e-9) and ball.radius < 0.5
    assert (np.linalg.norm(X - ball.center, axis=1) <= ball.radius).all()


@pytest.mark.parametrize("beta", [0.5, 0.05, 1e-9])
@pytest.mark.parametrize("m", [1, 5, 20])
def test_rows_beyond_the_bound_are_seen_but_for_a_chance_of_beta(m, beta):
    """A union over 24 edges; so many rows in m bins, evenly, are all unseen only if their noise adds up to minus this."""
    missing = zoom.rows_beyond(m, 24, 40.0, beta) / 40.0 - m * zoom.SEEN
    chance = stats.norm.sf(missing / math.sqrt(m))
    assert 0.01 * beta / 24 < chance <= beta / 24


@pytest.mark.parametrize("private", ["no", 1, None])
def test_adaptation_is_private_or_not(private):
    bounds = {"radius": 2.0, "weight_radius": 3.0, "target_bound": 2.0}
    with pytest.raises(TypeError, match="private"):
        CnvxAdap(**bounds, epsilon=1.0, delta=1e-3, private=private).fit(
            np.zeros((9, 2)), np.zeros(9)
        )


def test_sums_for_which_there_is_no_memory_are_refused():
    noise = Noise(0)
    with pytest.raises(ValueError, match="n_groups=1000000000000"):
        noise.sums(np.zeros((2, 3)), radius=1.0, groups=[0, 1], n_groups=10**12, mu=1.0)
    assert not noise.releases


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan, math.inf])
def test_evolution_has_a_price(mu):
    with pytest.raises(ValueError, match="mu"):
        pe_means.evolution_prices(mu, 3)


def test_a_large_stencil_has_the_nodes_of_its_ball_and_a_larger_one_is_refused():
    offsets = grid_cover.stencil(3, 1 / 36)
    assert len(offsets) == pytest.approx(4 / 3 * math.pi * (37 * math.sqrt(3)) ** 3, rel=0.01)
    assert len(offsets) > grid_cover._STENCIL
    with pytest.raises(ValueError, match="too many nodes"):
        grid_cover.stencil(3, 1 / 200)


def test_one_cluster_of_tuples_is_one_mean():
    X = np.random.default_rng(0).normal(size=(3000, 2)) * 0.3 + [1.0, -1.0]
    model = KTupleKMeans(1, epsilon=8.0, delta=1e-6, radius=4.0, random_state=0).fit(X)
    assert model.cluster_centers_.shape == (1, 2)
    assert np.allclose(model.cluster_centers_, X.mean(axis=0), atol=0.02)


def test_a_count_beyond_64_bits_is_refused_and_not_wrapped():
    noise = Noise(0)
    with pytest.raises(OverflowError):
        noise.count(np.uint64(2**63), mu=1.0)
    with pytest.raises(OverflowError, match="at most 2"):
        noise.count(2**63 - 1, mu=1.0)
    assert not noise.releases


def test_the_head_start_forgets_how_much_the_public_sample_weighs():
    rng = np.random.default_rng(0)
    model = NCnvxAdap(classes=[0, 1], radius=2.0, weight_radius=3.0, epsilon=1.0, delta=1e-3)
    given, step = model._given(2, Noise(0)), lattice(2.0)[0]
    X, y = np.rint(rng.uniform(-1, 1, (60, 2)) / step), rng.integers(2, size=60)
    one, other = (
        ncnvx_adap._head_start(Sample(X, y, step, p, offset), given, 2, rng)
        for p, offset in ((1 / 60, 0.0), (0.1 / 60, 0.7))
    )
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_keys_of_a_race_are_as_near_as_they_say_up_to_the_last_word():
    words = 2**64 - 1 - np.r_[0:70, 2.0 ** np.arange(7, 63)].astype(np.uint64)
    key, error = samplers._keys(words, 64, np.zeros(len(words)), 1.0, None)
    assert error[0] == math.inf and np.isfinite(key).all()
    with mpmath.workdps(60):
        for k, e, word in zip(key[1:], error[1:], words[1:].tolist(), strict=True):
            for uniform in (mpmath.mpf(word) / 2**64, mpmath.mpf(word + 1) / 2**64):
                assert abs(mpmath.log(-mpmath.log(1 - uniform)) - mpmath.mpf(k)) <= e


def test_noise_in_a_tiny_body_may_have_any_scale_below_2_to_the_50():
    bits = Bits(np.random.default_rng(0))
    draws = knorm_int(bits, 2.0**49.5, 50, ((1, 1e-3),))
    assert 0 < np.abs(draws).max() < 2**50
    with pytest.raises(ValueError, match="scale"):
        knorm_int(bits, 2.0**50, 3, ((1, 1e-3),))


@pytest.mark.parametrize("n", [0, 100_000])
def test_a_printed_average_lies_around_its_centre(n):
    center = np.array([40.0, -30.0])
    X = center + np.random.default_rng(0).uniform(-0.5, 0.5, (n, 2))
    found = noisy_average.noisy_avg(
        X, radius=1.0, center=center, epsilon=5.0, delta=1e-6, noise=Noise(0)
    )
    assert np.linalg.norm(found - center) <= (0.1 if n else 1.0)


def test_a_plan_of_tuples_counts_bad_ones_whole():
    plans = [
        stable_tuples.stable_plan(333, 2, 5.0, 1e-7, 0.01, 9.0, bad / 333)
        for bad in (33.1, 33.9, 34.1)
    ]
    assert plans[0] == plans[1] != plans[2]


def test_rows_of_no_part_are_in_no_tuple():
    Q = np.rint(np.random.default_rng(0).normal(size=(90, 2)) * 1000)
    parts = np.repeat([0, 1, 2], 30)
    inside = stable.tuples_of(Q[parts < 2], parts[parts < 2], 2, 3, seed=0)
    assert np.array_equal(stable.tuples_of(Q, parts, 2, 3, seed=0), inside)
