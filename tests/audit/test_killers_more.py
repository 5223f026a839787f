"""More slips that no other test noticed: each test holds a function to its law or to exact numbers."""

import math
import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats
from sklearn.dummy import DummyClassifier

from dplit import (
    CnvxAdap,
    KAverages,
    KNoisyCenters,
    KTupleGaussianMixture,
    KTupleKMeans,
    MaxCoverKMeans,
    NCnvxAdap,
    NeighborNoisyAverages,
    PEMeans,
    PrivacyBudget,
    accounting,
    adaptation,
    geometry,
    k_tuples,
    private_evolution,
    source_target,
)
from dplit import geometry as estimators
from dplit import geometry as max_cover
from dplit import k_tuples as k_averages
from dplit import k_tuples as k_noisy_centers
from dplit import k_tuples as private_scales
from dplit import k_tuples as stable
from dplit import private_evolution as vote_search
from dplit.accounting import (
    Receipt,
    Release,
    Shares,
    Spending,
    filters,
    gaussian,
    mixtures,
    receipts,
)
from dplit.adaptation import Sample, discrepancy, label_shift
from dplit.adaptation import classification as ncnvx_adap
from dplit.adaptation import regression as cnvx_adap
from dplit.inputs import MappedRows, declared, map_blocks, quantize
from dplit.inputs.lattice import lattice
from dplit.k_tuples import clusterer as tuple_clusterer
from dplit.k_tuples import stable_tuples
from dplit.max_cover import kmeans as max_cover_kmeans
from dplit.max_cover.paper import Covers
from dplit.mechanisms import Bits, Noise, samplers, watch
from dplit.private_evolution import kmeans as pe_means
from dplit.source_target import averages, sources


def loss_of(z, mu, rate):
    """Privacy loss of a release that looks at a row with probability `rate`."""
    seen = np.log(rate) + mu * z - mu**2 / 2
    return np.logaddexp(np.log1p(-rate), seen) if rate < 1 else seen


@pytest.mark.parametrize("mu, rate", [(0.4, 0.05), (1.5, 0.3), (3.0, 0.9), (1.1, 1.0)])
def test_cells_of_losses_keep_both_laws_and_are_exact_on_their_lattice(mu, rate):
    width = 0.02
    floor = math.log1p(-rate) if rate < 1 else loss_of(-10.0, mu, 1.0)
    ends = math.floor(floor / width), math.ceil(float(loss_of(mu + 9.5, mu, rate)) / width)
    (lost, first, chances), (lost_too, first_too, back) = mixtures._poisson_cells(mu, rate, width)
    assert (first, first + len(chances) - 1) == ends
    assert (-first_too, -(first_too + len(back) - 1)) == ends[::-1]
    losses, losses_back = (width * (f + np.arange(len(c))) for f, c in ((first, chances), (first_too, back)))  # fmt: skip
    assert lost + chances.sum() == pytest.approx(1, abs=1e-13)
    assert lost_too + back.sum() == pytest.approx(1, abs=1e-13)
    assert chances @ np.exp(-losses) == pytest.approx(
        1, abs=3e-9
    )  # a billionth goes to the safe end
    assert back @ np.exp(-losses_back) == pytest.approx(1, abs=3e-9)
    assert 0 <= lost < rate * special.ndtr(-9.4) and 0 <= lost_too <= special.ndtr(-9.9)
    for at in np.linspace(3, ends[1] - ends[0] - 3, 12).astype(int):
        epsilon = (ends[0] + at) * width
        z = (math.log((math.exp(epsilon) - 1 + rate) / rate) + mu**2 / 2) / mu
        with_row = (1 - rate) * special.ndtr(-z) + rate * special.ndtr(mu - z)
        true = with_row - math.exp(epsilon) * special.ndtr(-z)
        kept = losses > epsilon + width / 2
        got = lost - chances[kept] @ np.expm1(epsilon - losses[kept])
        assert true * (1 - 1e-9) - 1e-13 <= got <= true + 2e-9 * with_row + 1e-13
        not_with = (1 - rate) * special.ndtr(z) + rate * special.ndtr(z - mu)
        true = special.ndtr(z) - math.exp(-epsilon) * not_with
        kept = losses_back > -epsilon + width / 2
        got = lost_too - back[kept] @ np.expm1(-epsilon - losses_back[kept])
        assert true * (1 - 1e-9) - 1e-13 <= got <= true + 2e-9 * special.ndtr(z) + 1e-13


@pytest.mark.parametrize("width", [1e-3, 0.5])
def test_a_cell_is_divided_so_that_both_laws_keep_theirs(width):
    p = np.array([0.25, 0.5, 0.125])
    q = p * np.exp(-width * np.array([0.0, 0.25, 1.0]))  # the loss of each lies in its cell
    lost, first, chances = mixtures._at_the_ends(p, q, width, 7.0, 0.0625, 0.0625)
    upper = np.array([0.0, 0.5 * -math.expm1(-width / 4) / -math.expm1(-width), 0.125])
    bound = np.minimum(upper + 1e-9 * p, p)
    wanted = np.r_[p - bound, 0.0] + np.r_[0.0, bound]
    wanted[0] += 0.0625
    assert (lost, first) == (0.0625, 7) and np.allclose(chances, wanted, rtol=0, atol=1e-13)


def test_losses_add_up_exactly_and_far_tails_are_cut_to_the_safe_side():
    one = (2.0**-10, -3, np.array([2.0**-70, 0.5, 0.25, 2.0**-40]))
    other = (2.0**-12, 5, np.array([2.0**-70, 0.25, 0.5, 2.0**-40]))
    lost, first, p = mixtures._together(one, other)
    # 0: 2^-140 and 1: below 1e-20 are added to 2; at the upper end 6: 2^-80 is below 1e-20 and lost
    full = np.convolve(one[2], other[2])
    assert first == 2 + 2 and len(p) == 4
    assert p[0] == full[0] + full[1] + full[2] == 0.125 + 2.0**-70 * 0.75 + 2.0**-70 / 4 + 2.0**-140 or p[0] == pytest.approx(0.125, rel=1e-12)  # fmt: skip
    assert np.array_equal(p[1:], full[3:6])
    assert lost == 2.0**-10 + 2.0**-12 + 2.0**-80


@pytest.mark.parametrize("times", [1, 2, 3, 6, 13])
def test_the_law_of_many_releases_is_the_power_of_one(monkeypatch, times):
    asked = []

    def cells(mu, rate, width):
        asked.append((mu, rate, width))
        yield 2.0**-30, -1, np.array([0.5, 0.25, 0.25])
        yield 2.0**-31, 0, np.array([0.75, 0.25])

    monkeypatch.setattr(mixtures, "_poisson_cells", cells)
    mu, rate = 1.3, 0.2
    laws = mixtures._poisson_laws.__wrapped__(mu, rate, times)
    ((_, _, width),) = asked
    assert asked[0][:2] == (mu, rate)
    for (lost, losses, chances), (share, first, one) in zip(laws, cells(mu, rate, width), strict=True):  # fmt: skip
        power = np.ones(1)
        for _ in range(times):
            power = np.convolve(power, one)
        assert lost == pytest.approx(times * share, rel=1e-12)
        assert np.allclose(chances, power, rtol=1e-12)
        assert np.allclose(losses, (times * first + np.arange(len(power))) * width, rtol=1e-12)

    # the width of a cell: a rule of the losses' mean, deviation and range
    def mean(power):
        def law(z):
            return stats.norm.pdf(z) + rate * stats.norm.pdf(z - mu)

        return integrate.quad(lambda z: loss_of(z, mu, rate) ** power * law(z), -10, mu + 10, epsabs=1e-13)[0] / (1 + rate)  # fmt: skip

    spread = math.sqrt(mean(2) - mean(1) ** 2)
    reach = loss_of(mu + 10, mu, rate) - loss_of(-10, mu, rate)
    wanted = (20 * math.sqrt(times) * spread + 2 * times * abs(mean(1)) + reach) / 12_000
    assert width == pytest.approx(wanted, rel=1e-6)


def test_sampled_releases_cost_what_the_two_laws_say(monkeypatch):
    laws = [
        (0.001, np.array([-1.0, 0.5, 2.0]), np.array([0.5, 0.25, 0.249])),
        (0.002, np.array([0.25, 1.5]), np.array([0.75, 0.248])),
    ]
    monkeypatch.setattr(mixtures, "_poisson_laws", lambda *price: laws)

    def delta(e):
        return accounting.poisson_gaussian_delta(e, 1.0, 0.5, 3)

    for epsilon in (0.0, 0.1, 0.5, 1.0, 1.6, 5.0):
        each = [
            lost + sum(c * (1 - math.exp(epsilon - x)) for x, c in zip(x, c, strict=True) if x > epsilon)
            for lost, x, c in laws
        ]  # fmt: skip
        assert delta(epsilon) == pytest.approx(max(each) * (1 + 1e-7), rel=1e-12)
    assert delta(math.inf) == 0.0

    def epsilon(d):
        return accounting.poisson_gaussian_epsilon(d, 1.0, 0.5, 3)

    assert epsilon(0.9) == 0.0 and epsilon(0.0015) == epsilon(1e-9) == math.inf
    assert epsilon(delta(0.0)) == 0.0 < epsilon(delta(0.0) * (1 - 1e-6))
    for d in (0.003, 0.01, 0.1, 0.3):
        assert delta(epsilon(d)) <= d < delta(epsilon(d) - 1e-11)


@pytest.mark.parametrize("mu, rate, times, name", [(0.0, 0.5, 1, "mu"), (31.0, 0.5, 1, "mu"), (1.0, 0.0, 1, "rate"), (1.0, 1.1, 1, "rate"), (1.0, 0.5, 0, "times")])  # fmt: skip
def test_sampled_releases_out_of_range_are_refused(mu, rate, times, name):
    with pytest.raises(ValueError, match=f"^{name}=.*: poisson_gaussian_delta needs"):
        accounting.poisson_gaussian_delta(1.0, mu, rate, times)
    with pytest.raises(ValueError, match=f"^{name}=.*: poisson_gaussian_epsilon needs"):
        accounting.poisson_gaussian_epsilon(0.1, mu, rate, times)


def test_one_release_that_draws_every_row_is_a_gaussian_one():
    known = accounting.gaussian_delta(1.0, 1.0)
    assert accounting.poisson_gaussian_delta(1.0, 1.0, 1.0, 1) == pytest.approx(known, rel=0.01)


# Margins: every conversion is rounded to the safe side, by as much as it says and no more.


@pytest.mark.parametrize("mu, delta", [(0.01, 1e-8), (0.3, 1e-4), (1.0, 1e-6), (4.0, 0.01), (10.0, 0.999), (7.0, 0.9)])  # fmt: skip
def test_gaussian_epsilon_is_rounded_up_by_one_margin(mu, delta):
    epsilon = np.asarray(accounting.gaussian_epsilon(delta, mu))
    short = math.log(delta) - float(gaussian.log_gaussian_delta(epsilon, np.asarray(mu)))
    assert short == pytest.approx(3e-12 * min(1.0, -math.log(delta)), rel=0.25)


@pytest.mark.parametrize("epsilon, delta", [(0.01, 1e-8), (1.0, 1e-6), (1.0, 0.3), (0.1, 0.9), (20.0, 1e-3)])  # fmt: skip
def test_gaussian_mu_is_rounded_down_by_two_margins(epsilon, delta):
    mu, margin = accounting.gaussian_mu(epsilon, delta), 6e-12

    def at(more):
        return float(gaussian.log_gaussian_delta(np.asarray(epsilon), np.asarray(mu * (1 + more))))

    assert at(0.7 * margin) < math.log(delta) < at(1.3 * margin)


@pytest.mark.parametrize("delta", [1e-300, 1e-20, 0.2, 0.5, 0.9, 0.999999])
def test_gaussian_mu_finds_its_root_everywhere(delta):
    epsilon = np.geomspace(1e-12, 1e6, 61)
    mu = accounting.gaussian_mu(epsilon, delta)
    assert np.all(np.diff(mu) > 0) or delta > 0.1 and np.all(np.diff(mu) >= 0)
    wrong = gaussian.log_gaussian_delta(epsilon, mu * (1 + 6e-12)) - math.log(delta)
    steep = 1e-9 * np.maximum(1, epsilon**2 / mu**2)
    assert np.all(np.abs(wrong) <= steep)


def test_what_is_certain_buys_any_noise():
    assert accounting.gaussian_mu(1.0, 1.0) == accounting.gaussian_mu(np.inf, 0.1) == math.inf
    assert accounting.gaussian_mu(1.0, 0.0) == 0.0
    assert list(accounting.gaussian_mu([1.0, np.inf], [1.0, 0.5])) == [math.inf, math.inf]


@pytest.mark.parametrize("rho, delta", [(1e-9, 1e-9), (1e-4, 1e-6), (0.01, 1e-6), (1.0, 1e-6), (0.02, 0.05)])  # fmt: skip
def test_zcdp_epsilon_is_rounded_up_in_both_of_its_terms(rho, delta):
    got = accounting.zcdp_epsilon(rho, delta)
    with mpmath.workdps(40):

        def slope(t):
            return -rho * mpmath.e ** (2 * t) - mpmath.log1p(mpmath.e**t) - mpmath.log(delta)

        low, high = mpmath.mpf(-60), mpmath.mpf(60)
        for _ in range(140):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) > 0 else (low, middle)
        x = mpmath.e**low
        above = (1 + x) * rho + (-mpmath.log(delta) - mpmath.log1p(x)) / x
        below = mpmath.log1p(1 / x)
        more = (mpmath.mpf(got) - (above - below)) / (above + below)
    assert got > 0 and 2.9e-12 < float(more) < 3.1e-12


# The measure of a filter.


def is_just_above(number, exact):
    """Rounded up: what floats lose in a product and a little, no more."""
    return exact <= Fraction(number) <= exact * (1 + Fraction(15, 10**16))


def test_a_claim_is_the_square_of_its_pure_price():
    short = 0
    for epsilon in np.geomspace(1e-9, 5, 100):
        claim = Spending.claim(float(epsilon), 1e-7, "replace")
        exact = Fraction(filters.pure_mu(epsilon)) ** 2
        short += exact > Fraction(filters.pure_mu(epsilon) ** 2)
        assert is_just_above(claim.mu_squared, exact)
        rest = claim.fits, claim.own, claim.failure, claim.epsilon, claim.delta, claim.neighboring
        assert rest == (1, 1e-7, 0.0, epsilon, 1e-7, "replace")
        one = filters._of_fit((Release("", "laplace", epsilon=float(epsilon)),), 0.0, "replace")
        assert is_just_above(one[0], exact)
    assert short > 20  # so often a plain square would be too small


def test_the_square_of_a_fit_is_the_sum_over_its_releases():
    lines = [
        Release("a", "gaussian", mu=0.3, times=3, failure=2.0**-30),
        Release("b", "laplace", epsilon=0.7, times=2, delta=2.0**-20),
        Release("c", "exponential", epsilon=0.4),
        Release("d", "tail", epsilon=0.0, delta=2.0**-22, times=5),
    ]
    mu_squared, own, failure = filters._of_fit(tuple(lines), 1e-5, "replace")
    assert own == math.nextafter(2 * 2.0**-20 + 5 * 2.0**-22, 1) and failure == 3 * 2.0**-30
    exact = [3 * Fraction(0.3) ** 2, 2 * Fraction(filters.pure_mu(0.7)) ** 2, Fraction(filters.pure_mu(0.4, True)) ** 2]  # fmt: skip
    assert sum(exact) <= Fraction(mu_squared) <= sum(exact) * (1 + Fraction(3, 10**15))


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_fit_with_a_cover_is_one_thing_and_a_little_is_cut_off(monkeypatch, delta):
    calls = []
    monkeypatch.setattr(filters, "dominating_mu", lambda *args: calls.append(args) or 1.5)
    lines = (
        Release("covers", "cover", exponent=0.5),
        Release("tail", "tail", epsilon=0.0, delta=2.0**-20),
        Release("sums", "gaussian", mu=0.5, failure=2.0**-40),
    )
    mu_squared, own, failure = filters._of_fit.__wrapped__(lines, delta, "add_remove")
    ((curve, last, cut),) = calls
    assert cut == max(delta, 1e-12) / 16 and failure == 2.0**-40
    assert own == math.nextafter(2.0**-20 + cut, 1)
    assert Fraction(9, 4) < Fraction(mu_squared) and is_just_above(mu_squared, Fraction(9, 4))
    for epsilon in (0.0, 0.7, last):
        true = accounting.mixture_delta(epsilon, mu=0.5, exponent=0.5, neighboring="add_remove")
        assert curve(epsilon) == pytest.approx(true, rel=1e-12)
    assert curve(last) <= cut < curve(last * (1 - 1e-6))


def test_a_mu_that_dominates_is_found_to_the_safe_side(monkeypatch):
    asked = []

    def curve(epsilon):
        asked.append(epsilon)
        return 0.5 * math.exp(-epsilon / 2)

    cut, last = 0.01, 4.0
    grid = np.linspace(0.0, last, 513)
    wanted = np.log(0.5 * np.exp(-grid[:-1] / 2) * (1 + 1e-9) - cut) - math.log1p(-cut)
    law = gaussian.log_gaussian_delta
    mu = filters.dominating_mu(curve, last, cut)
    assert asked == grid[:-1].tolist()  # left ends, against the right ends of the other curve
    assert np.all(law(grid[1:], np.asarray(mu)) >= wanted + 0.9e-9)
    assert not np.all(law(grid[1:], np.asarray(mu * (1 - 2e-6))) >= wanted)
    # a law that is only just equal is not enough, one that lies above by a hair is
    for more, found in ((0.0, 2.0), (0.9e-9, 2.0), (1.1e-9, 1.0)):

        def step(e, mu, more=more):
            return wanted + (-1 if mu < 1 else more if mu < 2 else 1e-8)

        monkeypatch.setattr(filters, "_log_gaussian_delta", step)
        assert found <= filters.dominating_mu(curve, last, cut) <= found * (1 + 1e-6)


def test_a_curve_that_is_cut_off_wholly_costs_nothing_and_one_that_is_certain_everything():
    for curve, mu in ((lambda e: 1e-3, 0.0), (lambda e: 0.01 / (1 + 1e-9), 0.0), (lambda e: 1.0, math.inf)):  # fmt: skip
        assert filters.dominating_mu(curve, 2.0, 0.01) == mu
    one = next(c for i in range(9) if (c := 1 / (1 + 1e-9) + (i - 4) * 2.0**-53) * (1 + 1e-9) == 1)
    assert filters.dominating_mu(lambda e: one, 2.0, 0.25) == math.inf  # exactly what is left

    def above(e):
        return np.nextafter(0.99 / (1 + 1e-9), 0) + 0.01  # just beyond 1, after rounding

    assert filters.dominating_mu(above, 1e-3, 0.01) == math.inf


def test_a_curve_just_above_the_cut_is_dominated():
    def curve(e):
        return 0.02 if e < 1 else 0.0  # falls to nothing: the log of zero is no obstacle

    mu = filters.dominating_mu(curve, 2.0, 0.01)
    at = np.linspace(0, 2, 513)[256]  # the right end of the last cell that counts
    floor = math.log((0.02 * (1 + 1e-9) - 0.01) / 0.99)
    for factor, is_enough in ((1.0, True), (1 - 3e-6, False)):
        got = float(gaussian.log_gaussian_delta(np.asarray(at), np.asarray(mu * factor)))
        assert (got >= floor) == is_enough


@pytest.mark.parametrize("shares", [Shares(), Shares(0.25, 0.25, 0.25, 0.25), Shares(0.1, 0.6, 0.2, 0.1)])  # fmt: skip
def test_a_filter_s_two_limits_are_each_other_s_inverse(shares):
    spent = Spending.total([Spending.claim(0.3, 1e-9)] * 40)
    for delta in (1e-5, 1e-3):
        epsilon = spent.epsilon_at(delta, shares)
        assert spent.delta_at(epsilon, shares) <= delta < spent.delta_at(epsilon * (1 - 1e-9), shares)  # fmt: skip
    assert Spending.claim(0.3, 1e-9).epsilon_at(1e-9, shares) == 0.3


# Receipts and Renyi divergences.


def renyi(alpha, p, q):
    return math.log(math.fsum(a**alpha * b ** (1 - alpha) for a, b in zip(p, q, strict=True))) / (alpha - 1)  # fmt: skip


@pytest.mark.parametrize("alpha", [1.0001, 1.5, 2.0, 7.0])
@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_renyi_divergences_are_those_of_the_laws(alpha, neighboring):
    truth = special.expit(0.7)
    coin = renyi(alpha, (truth, 1 - truth), (1 - truth, truth))

    def of(*lines):
        return receipts._renyi(alpha, lines, neighboring)

    assert of(Release("", "laplace", epsilon=0.7, times=3)) == pytest.approx(3 * coin, rel=1e-9)
    assert of(Release("", "gaussian", mu=0.6, times=2)) == pytest.approx(alpha * 0.36, rel=1e-12)
    assert of(Release("", "exponential", epsilon=0.8)) == pytest.approx(alpha * 0.08, rel=1e-12)
    exponent = math.log1p(0.5 / (alpha - 1)) / 2
    a = math.expm1(exponent)
    assert a * (alpha - 1) < 1  # the loss is a s - e' for an exponential waiting time s
    moment, _ = integrate.quad(lambda s: math.exp((alpha - 1) * (a * s - exponent) - s), 0, np.inf, epsabs=1e-14, epsrel=1e-12)  # fmt: skip
    cover = math.log(moment) / (alpha - 1)
    if neighboring == "replace":
        cover += exponent * alpha / (alpha - 1)
    assert of(Release("", "cover", exponent=exponent, times=2)) == pytest.approx(2 * cover, rel=1e-6, abs=1e-9)  # fmt: skip
    assert of(Release("", "cover", exponent=math.log1p(1.001 / (alpha - 1)))) == math.inf


def test_renyi_deltas_are_the_best_over_orders():
    lines = [Release("", "exponential", epsilon=0.3, times=50), Release("", "cover", exponent=0.2)]
    for releases in (lines[:1], lines):
        for epsilon in (2.0, 5.0):
            x = np.geomspace(1e-2, 4.5, 1201)
            each = [a * (receipts._renyi(1 + a, releases, "replace") - epsilon) + a * math.log(a) - (1 + a) * math.log1p(a) for a in x]  # fmt: skip
            got = math.log(receipts._renyi_delta(epsilon, releases, "replace"))
            assert got == pytest.approx(min(min(each) + 1e-9, 0.0), abs=1e-4)


def test_pure_releases_are_summed_at_delta_zero_and_small_ones_stay_small():
    lines = [Release("a", "laplace", epsilon=0.25, times=3), Release("b", "laplace", epsilon=0.5)]
    assert receipts._mixture_epsilon(0.0, lines, "replace") == 1.25
    for price in (1e-15, 1e-9, 1e-3):
        epsilon = receipts._mixture_epsilon(1e-30, [Release("a", "laplace", epsilon=price)], "replace")  # fmt: skip
        assert price * (1 - 1e-9) <= epsilon <= price * (1 + 1e-9) or epsilon < price
        assert accounting.mixture_delta(epsilon, pure=[(price, 1)], neighboring="replace") <= 1e-30


@pytest.mark.parametrize("n, is_exact", [(14, True), (15, False)])
def test_coins_are_counted_while_they_are_few(monkeypatch, n, is_exact):
    calls = []
    monkeypatch.setattr(receipts, "mixture_delta", lambda *args, **kw: calls.append(kw) or 0.5)
    lines = [Release("", "laplace", epsilon=0.01 * (i + 1)) for i in range(n)]
    got = receipts._mixture_delta(0.1, lines, "replace")
    assert bool(calls) == is_exact and (got == 0.5 or not is_exact)


def test_a_limit_that_the_bound_only_touches_where_it_is_lowest_is_reached_there(monkeypatch):
    asked = []

    def bound(receipt, epsilon, lowest=0.25):  # at 1.5, exactly
        asked.append(epsilon)
        assert len(asked) < 1000, "the search does not end"
        return max(1 - epsilon / 2, lowest)

    monkeypatch.setattr(receipts, "_bound", bound)
    assert receipts._smallest(None, 0.25, 1.5) == 1.5
    assert receipts._smallest(None, 0.2, 1.5) == math.inf
    monkeypatch.setattr(receipts, "_bound", lambda receipt, epsilon: 0.25)
    assert receipts._smallest(None, 0.25, 1.5) == 0.0


def test_covers_are_priced_as_one_while_there_is_one(monkeypatch):
    lines = [Release("", "cover", exponent=0.5), Release("", "gaussian", mu=0.7)]
    for neighboring in ("add_remove", "replace"):
        got = receipts._mixture_delta(1.0, lines, neighboring)
        assert got == accounting.mixture_delta(1.0, mu=0.7, exponent=0.5, neighboring=neighboring)
    two = [lines[0], Release("", "cover", exponent=0.25)]
    assert receipts._mixture_delta(1.0, two, "replace") == receipts._renyi_delta(1.0, two, "replace")  # fmt: skip


def test_some_event_of_many():
    assert receipts._some([(2, 0.25), (1, 0.5)]) == pytest.approx(1 - 0.75**2 * 0.5, rel=1e-15)
    assert receipts._some([(3, 1e-30)]) == pytest.approx(3e-30, rel=1e-14)
    assert receipts._some([]) == 0.0


@pytest.mark.parametrize("value, digits, text", [(0.12341, 4, "0.1235"), (0.1234, 4, "0.1234"), (2.01e-7, 2, "2.1e-07"), (0.0, 4, "0"), (math.inf, 4, "inf")])  # fmt: skip
def test_printed_prices_are_rounded_up(value, digits, text):
    assert receipts.rounded_up(value, digits) == text


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0, 30.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.3, 0.999])
def test_a_cover_s_exponent_is_the_root(epsilon, delta):
    exponent = accounting.cover_exponent(epsilon, delta)
    assert accounting.cover_delta(epsilon, exponent) <= delta
    assert accounting.cover_delta(epsilon, exponent * (1 + 2e-9)) > delta


@pytest.mark.parametrize("exponent", [0.2, 1.0, 2.5])
@pytest.mark.parametrize("mu", [0.0, 0.4, 2.0])
def test_a_cover_s_loss_is_an_exponential_waiting_time(mu, exponent):
    a, (nodes, weights) = math.expm1(exponent), np.polynomial.legendre.leggauss(300)

    def integral(f, *cuts):
        ends = zip(cuts, cuts[1:], strict=False)
        return sum(weights @ f((low + high + (high - low) * nodes) / 2) * (high - low) / 2 for low, high in ends)  # fmt: skip

    def gauss(e):
        return mixtures._continued(e, mu) if mu else -np.expm1(np.minimum(e, 0.0))

    for epsilon in (-1.5, -0.2, 0.0, 0.3, 1.1, 3.0):
        # without the row the loss is a s - e', with it e' - a s, of which s is shorter by 1 + a
        for law, more, turn, rate in ((mixtures._without, exponent, 1, 1), (mixtures._with, -exponent, -1, 1 + a)):  # fmt: skip
            kink = turn * (epsilon + more) / a

            def f(s):
                return gauss(epsilon + more - turn * a * s) * rate * np.exp(-rate * s)  # noqa: B023

            true = integral(f, 0.0, *([kink] if 0 < kink < 60 else []), 60.0)
            assert float(law(np.asarray(epsilon), mu, exponent)) == pytest.approx(true, abs=1e-9)


def test_beyond_an_exponent_of_8_the_larger_side_stands_for_both():
    epsilon = np.array([0.0, 1.0, 7.0])
    for exponent in (8.2, 8.9):
        sides = (side(epsilon, 1.0, exponent) for side in (mixtures._with, mixtures._without))
        assert np.array_equal(*sides)


def test_a_price_on_paper_makes_a_receipt_that_is_not_private():
    line = Release("printed", "printed", epsilon=1.0, private=False)
    assert Receipt([line], "replace").private is False
    assert Receipt([Release("real", "laplace", epsilon=1.0)], "replace").private is True


def test_zcdp_prices_out_of_range_are_refused():
    for rho, delta in ((-1.0, 0.1), (1.0, 1.1), (math.nan, 0.1)):
        with pytest.raises(ValueError, match="needs a number in"):
            accounting.zcdp_epsilon(rho, delta)


# Samplers: what a double decides, and who is asked when it cannot.


class Given(Bits):
    """Words that are known beforehand."""

    def __init__(self, words, width=64):
        super().__init__(np.random.default_rng(0), width)
        self.given = np.asarray(words, dtype=np.uint64)

    def words(self, n):
        assert n == len(self.given)
        return self.given


@pytest.mark.parametrize("columns, radii", [([1], [64.0]), ([2, 1], [8.0, 0.25]), ([1, 3], [1.0, 3.0])])  # fmt: skip
def test_knorm_noise_asks_where_a_coordinate_is_as_near_to_a_half_as_it_may_err(
    monkeypatch, columns, radii
):
    width, D, B = 20, sum(columns), len(columns)
    words = np.random.default_rng(2).integers(2**12, 2**width, size=2 * D + 1 + B, dtype=np.uint64)
    u = (words.astype(float) + 0.5) / 2**width
    tails = ((words >> np.uint64(1)).astype(float) + 0.5) / 2**width
    gamma, z = -np.log(u[: D + 1]).sum(), -special.ndtri(tails[D + 1 + B :])
    asked = []

    def exact(bits, logs, tails, scales):
        assert np.array_equal(logs, words[: D + 1])
        asked.append([(power, list(normal), scale) for (power, normal), scale in zip(tails, scales, strict=True)])  # fmt: skip
        return [[10**6] * len(normal) for _, normal in tails]

    monkeypatch.setattr(samplers, "_exact_knorm", exact)
    slack, start, known = 2.0**-43 + 1 / float(min(words.tolist()) >> 1), 0, []
    for j, (c, r) in enumerate(zip(columns, radii, strict=True)):
        part = z[start : start + c]
        length = math.sqrt(math.fsum(part**2))
        value = r * gamma * u[D + 1 + j] ** (1 / c) * part / length  # at scale 1
        error = slack * r * (D + 1 + gamma) * (5 + (1 + math.sqrt(c)) / length)
        known.append((start, value, error))
        start += c
    signs = 1 - 2 * (words[D + 1 + B :] & np.uint64(1)).astype(int)
    for j, (_, value, error) in enumerate(known):
        i = int(np.argmax(np.abs(value)))
        for nearness, side in ((0.9, 1), (1.1, 1), (0.9, -1), (1.1, -1)):
            # the coordinate lies above or below a half by 0.9 or 1.1 of its error
            scale = 2.5 / (value[i] - side * nearness * error)
            asked.clear()
            (row,) = samplers._knorm_rows(Given(words, width), scale, 1, np.array(columns), np.array(radii))  # fmt: skip
            unsure = [
                b
                for b, (_, v, e) in enumerate(known)
                if np.min(0.5 - np.abs(v * scale - np.rint(v * scale))) < e * scale
            ]
            assert (j in unsure) == (nearness < 1)
            wanted = []
            for b, (first, v, _) in enumerate(known):
                at = slice(first, first + columns[b])
                sign = signs[at]
                assert np.array_equal(row[at], sign * (10**6 if b in unsure else np.rint(v * scale)))  # fmt: skip
                if b in unsure:
                    tail = (words[D + 1 + B :][at] >> np.uint64(1)).tolist()
                    wanted.append((int(words[D + 1 + b]), tail, scale * radii[b]))
            assert asked == ([wanted] if unsure else [])


@pytest.mark.parametrize("columns", [1, 3])
def test_exact_blocks_are_decided_where_the_bits_to_come_cannot_matter(columns):
    n_bits = 16
    logs, block = [40000, 2**15 + 7, 51234, 60001][: columns + 1], [50001, 30000, 12345, 22222][: columns + 1]  # fmt: skip
    with samplers.decimal.localcontext(samplers._EXACT):
        u = [(number + 0.5) / 2**n_bits for number in (*logs, *block)]
        z = [-special.ndtri(x) for x in u[len(logs) + 1 :]]
        size = -sum(map(math.log, u[: len(logs)])) * u[len(logs)] ** (1 / columns)
        value = [size * x / math.hypot(*z) for x in z]
        i = int(np.argmax(np.abs(value)))

        def decide(near, numbers=logs, bits=n_bits):
            return samplers._round_blocks(numbers, [block], [near / value[i]], bits)

        if columns == 1:
            assert decide(3.0) == [[3]] and decide(2.9) == [[3]] and decide(3.1) == [[3]]
        for near in (2.5 - 1e-5, 2.5 + 1e-5):  # from below and from above
            assert decide(near) is None
        small = [1, *logs[1:]]  # one number of which little is known is enough
        assert samplers._round_blocks(small, [block], [1.0], n_bits) is None
        for k in range(columns + 1):
            few = [*block]
            few[k] = 1
            assert samplers._round_blocks(logs, [few], [1.0], n_bits) is None


def test_doubles_decide_nearly_always(monkeypatch):
    asked = []
    for name in ("_exact_gaussian", "_exact_geometric"):
        monkeypatch.setattr(samplers, name, lambda *args: asked.append(args) or 0)
    bits = Bits(np.random.default_rng(0))
    for scale in (0.3, 50.0, 1e6):
        samplers.gaussian_int(bits, scale, 2000)
        samplers.laplace_int(bits, scale, 1000)
    assert not asked


def test_a_geometric_number_waits_for_the_bits_that_decide_it():
    extended = []

    class Noted(Bits):
        def extend(self, numerator, n_bits):
            extended.append(numerator)
            return super().extend(numerator, n_bits)

    bits = Noted(np.random.default_rng(0), 4)
    assert samplers._exact_geometric(bits, 8, 2.0) == 1 and not extended  # 1.15 to 1.39
    assert samplers._exact_geometric(bits, 9, 2.0) in (0, 1) and extended[0] == 9  # 0.94 to 1.15
    extended.clear()
    assert samplers._exact_geometric(bits, 0, 2.0) >= 5 and extended[0] == 0


# Rows, blocks, and the door.


@pytest.mark.parametrize("radius", [True, np.True_, "3", [1.0], np.ones(2), 0.0, -1.0, 0.99e-100, 1.01e100, math.nan, math.inf, None])  # fmt: skip
def test_a_lattice_needs_one_number_in_range(radius):
    with pytest.raises((ValueError, TypeError)) as caught:
        lattice(radius)
    assert caught.type is ValueError or radius is None
    assert radius is None or "between 1e-100 and 1e100" in str(caught.value)


def test_blocks_have_about_131000_numbers():
    def seen(X):
        return [(start, rows) for start, rows in map_blocks(lambda start, rows: (start, len(rows)), X)]  # fmt: skip

    assert seen(np.zeros((1100, 256))) == [(0, 512), (512, 512), (1024, 76)]
    assert seen(np.zeros((600, 2**17))[:, :1000]) == [(0, 256), (256, 256), (512, 88)]
    # a mapped table is cut by the wider of what it reads and what it makes
    wide = MappedRows(np.zeros((1100, 1)), lambda rows, at: np.repeat(rows, 256, axis=1), 256)
    assert seen(wide) == [(0, 512), (512, 512), (1024, 76)]
    wide = MappedRows(np.zeros((1100, 256)), lambda rows, at: rows[:, :1], 1)
    assert seen(wide) == [(0, 512), (512, 512), (1024, 76)]


def test_partitions_are_mapped_one_by_one():
    array = pytest.importorskip("dask.array")
    dask = pytest.importorskip("dask")
    X = np.arange(14.0).reshape(7, 2)
    with dask.config.set(scheduler="synchronous"):
        table = array.from_array(X, chunks=((3, 4), (2,)))
        got = list(map_blocks(lambda start, rows: (start, rows.sum()), table, block_rows=2))
        assert got == [(0, 6.0), (2, 9.0), (3, 30.0), (5, 46.0)]
        sums = list(map_blocks(lambda start, rows: rows.sum(), table, block_rows=2, reduce=sum))
        assert sums == [15.0, 76.0]


def test_a_mask_that_cannot_be_counted_is_named():
    for mask in (np.ones((2, 2), dtype=bool), [[True], [False]]):
        with pytest.raises(ValueError, match="the mask"):
            Noise(0).count(mask, mu=1.0)


def prices_of(noise, kind):
    return [r.times * getattr(r, kind) for r in noise.releases if getattr(r, kind) is not None]


def test_thirds_of_an_average_add_up_to_its_price():
    noise = Noise(0, neighboring="replace")
    Q = np.random.default_rng(0).normal(size=(50, 2))
    k_averages.private_average(Q, radius=4.0, min_radius=0.5, moves=3, epsilon=0.6, mu=0.2, beta=0.1, noise=noise)  # fmt: skip
    assert prices_of(noise, "mu") == [pytest.approx(0.2)]
    by_label = {}
    for r in noise.releases:
        if r.epsilon is not None:
            by_label[r.label] = by_label.get(r.label, 0.0) + r.times * r.epsilon
    assert set(by_label) == {"a point inside", "a radius", "count"}
    assert all(price == pytest.approx(0.2, rel=1e-12) for price in by_label.values())


def test_average_tuples_is_the_printed_number():
    got = k_averages.average_tuples(3, 2, 15, 0.5, 10.0, 0.25, 0.01)
    assert got == math.ceil(4 * 15 / (0.5 / 6) * math.log(81 * 2 * 3 / 0.01)) == 7770


@pytest.mark.parametrize("fits, d, ratio", [(True, 4, 2.0), (False, 3, 1.0)])
def test_the_default_grid_is_the_finest_that_fits(monkeypatch, fits, d, ratio):
    calls = []
    monkeypatch.setattr(max_cover_kmeans, "grid_fits", lambda *args: calls.append(args) or fits)
    model = MaxCoverKMeans(3, epsilon=1.0, delta=1e-6, radius=1.0, finest=0.03, n_public=70)
    picks = 3 * math.ceil(2 * math.log1p(ratio) + 0.5)
    assert model._covers() == Covers(d, 0.03, ratio, picks, snap=True)
    assert calls == [(4, 0.03, 2.0, True, 70)]
    assert model._covers(2) == Covers(2, 0.03, 1.0, 3 * 2, snap=True)
    model.set_params(ratio=1.5, n_picks=7)
    assert model._covers() == Covers(d, 0.03, 1.5, 7, snap=True)
    assert calls[-1] == (4, 0.03, 1.5, True, 70)


def test_the_printed_plan_is_made_from_the_number_of_rows():
    model = MaxCoverKMeans(3, epsilon=1.0, delta=1e-6, radius=1.0, n_public=1000, variant="paper")
    whole = Covers(3, 1e-3, 1.0, 3, snap=False)  # ln(1000) / 2 = 3.45
    assert model._covers() == model._covers(50) == whole
    assert model._covers(2) == Covers(2, 1e-3, 1.0, 3, snap=False)
    model.set_params(ratio=0.1, n_components=2)
    assert model._covers() == Covers(2, 1e-3, 0.1, 9, snap=False)  # 3 * ceil(ln 10)
    assert model.set_params(n_public=2)._covers() == Covers(1, 0.5, 0.1, 9, snap=False)


# Clusters.


def test_memory_is_what_the_largest_tables_take():
    price = {"epsilon": 1.0, "delta": 1e-6, "radius": 1.0}
    model = PEMeans(3, population=100, n_components=4, **price)
    heads = 10 * pe_means.EXTRA * 3
    for d in (2, 4, 9):
        assert model._memory(d) == 40 * 3 * (d + 1) + 40 * (300 + heads) * min(d, 4)
    model = MaxCoverKMeans(3, n_picks=7, **price)
    assert model._memory(5) == 40 * 3 * 6 + 60 * (7 + 3) * (5 + 8)


@pytest.mark.filterwarnings("ignore")
def test_a_cover_s_steps_hand_on_what_they_should(monkeypatch):
    seen, spare = {}, np.array([[0.25, 0.5], [0.5, -0.25]])
    monkeypatch.setattr(max_cover_kmeans, "public_draws", lambda rng, k, d: (0, spare))
    for name in ("recenter", "candidate_weights", "worth_keeping", "cluster_candidates"):
        real = getattr(max_cover_kmeans, name)

        def noted(*args, real=real, name=name, **kw):
            answer = real(*args, **kw)
            if name == "candidate_weights":  # some look empty, and are kept all the same
                answer[:3] = -3.0, 0.5, 1.25
            seen[name] = args, np.arange(len(answer)) if name == "worth_keeping" else answer
            return seen[name][1]

        monkeypatch.setattr(max_cover_kmeans, name, noted)
    rounds, wholes, nearest_center = [], [], geometry.NearestCenter

    def averages(noise, weight, radius, fallback, **buy):
        rounds.append((radius, fallback))
        noise.sums(**buy, radius=radius, weight=weight, label="sums and counts")
        return np.array([[0.5, 0.0], [0.0, 0.5]]) * len(rounds), np.full(2, 7.0 * len(rounds)), 3.0

    def center(centers, radius, whole=False):
        wholes.append(whole)
        return nearest_center(centers, radius, whole=whole)

    monkeypatch.setattr(max_cover_kmeans, "_averages", averages)
    monkeypatch.setattr(max_cover_kmeans, "NearestCenter", center)
    X = np.random.default_rng(0).normal(size=(40, 2)) / 4 + [1.0, 0.0]
    model = MaxCoverKMeans(2, epsilon=2.0, delta=1e-3, radius=3.0, n_lloyd=2, finest=0.5, random_state=0).fit(X)  # fmt: skip
    assert model.cluster_sizes_.tolist() == [21.0, 21.0] and model.cluster_sizes_se_.tolist() == [3.0, 3.0]  # fmt: skip
    radius, weights, kept = (
        seen["recenter"][1][1],
        seen["candidate_weights"][1],
        seen["worth_keeping"][1],
    )
    assert [r for r, _ in rounds] == [radius] * 3 and np.array_equal(rounds[0][1], spare * radius)
    assert np.array_equal(rounds[2][1], 2 * rounds[1][1]) and wholes[-2:] == [True, True]
    (candidates, used, k, _), _ = seen["cluster_candidates"]
    assert np.array_equal(used, np.maximum(weights[kept], 1)) and k == 2 and len(candidates) == len(kept)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ratio", [0.7, 1.0])
def test_printed_projections_divide_by_one_and_the_ratio(monkeypatch, ratio):
    class Enough(Exception):
        """The rest does not matter."""

    def project(rows, matrix, *, radius, center=None, divisor=1.0):
        raise Enough(radius, divisor)

    monkeypatch.setattr(max_cover, "project", project)
    model = MaxCoverKMeans(1, epsilon=1.0, delta=1e-3, radius=3.0, ratio=ratio, n_public=20, variant="paper", random_state=0)  # fmt: skip
    with pytest.raises(Enough) as caught:
        model.fit(np.zeros((20, 1)))
    assert caught.value.args == (3.0, 1 + ratio)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_votes", [3, 7])
def test_printed_evolution_in_many_columns_costs_its_price(n_votes):
    model = pe_means.HDPEMeans(
        1, epsilon=1.0, delta=1e-6, radius=3.0, n_public=40, variant="paper", n_votes=n_votes,
        n_components=2, random_state=0,
    )  # fmt: skip
    model.fit(np.random.default_rng(0).normal(size=(40, 3)))
    mu = accounting.gaussian_mu(1.0, 1e-6)
    lines = model.spent_.releases
    assert model.spent_.mu == pytest.approx(mu, rel=1e-9)
    votes = [r for r in lines if r.label == "votes"]
    assert sum(r.times for r in votes) == n_votes - 2
    assert all(r.mu == pytest.approx(mu / math.sqrt(n_votes), rel=1e-9) for r in votes)


def test_rounds_of_votes_follow_the_signal():
    model = PEMeans(3, epsilon=1.0, delta=1e-6, radius=1.0, n_components=16)
    most = private_evolution.paper_rounds(5)
    assert [pe_means._rounds(model, 5, s) for s in (0.5, 1.5, 2.9, 1e9)] == [
        1,
        2,
        min(8, most),
        most,
    ]
    assert [pe_means._rounds(model, 17, s) for s in (0.1, 2.0, 3.0, 1e9)] == [1, 3, 4, 16]
    assert pe_means._rounds(model.set_params(n_votes=9), 17, 0.1) == 9


@pytest.mark.parametrize("votes, halved", [(1.01, False), (0.99, True)])
def test_votes_that_are_mostly_noise_breed_less(monkeypatch, votes, halved):
    asked, noise = [], Noise(0)
    scale = noise.histogram_scale(mu=0.2)  # of a round, of which there are four

    def histogram(Q, population, *, mu, n_total, noise, n_elite):
        assert mu == 0.2
        return np.full(len(population), scale * votes)

    def children(centers, L, rng, *, antithetic):
        asked.append(L)
        return np.zeros((len(centers) * L, 2))

    monkeypatch.setattr(private_evolution, "dp_nn_histogram", histogram)
    monkeypatch.setattr(private_evolution, "variations", children)
    monkeypatch.setattr(private_evolution, "select", lambda *args: np.zeros((3, 2)))
    private_evolution.private_evolution(np.zeros((9, 2)), 3, 20, 4, mu=0.4, n_total=9, noise=noise, antithetic=True)  # fmt: skip
    assert asked == ([10, 5, 4, 4] if halved else [20] * 4)


def test_votes_are_cast_from_the_public_center():
    X = np.array([[3.0, 1.0], [4.0, 1.0], [9.0, 1.0]])
    got = vote_search.vote_grid(X, 2.0, np.array([3.0, 1.0]))
    steps = vote_search.grid_radius(2)
    assert np.array_equal(got, np.rint([[0, 0], [steps / 2, 0], [steps, 0]]).astype(np.float32))


def test_residuals_are_shortened_to_the_length_of_least_error(monkeypatch):
    radius, asked = 2.0, []
    monkeypatch.setattr(pe_means, "step_error", lambda *args: asked.append(args) or np.abs(np.arange(80) - 37))  # fmt: skip
    residuals = np.random.default_rng(0).normal(size=(500, 3)) / 5
    with watch(lambda event: event.value):
        r, kept = pe_means.residual_radius(
            residuals, np.zeros((4, 3)), radius=radius, mu=1.0, sum_mu=0.3, n_total=500, noise=Noise(0)
        )  # fmt: skip
    ((counts, middles, edges, d, n, mu),) = asked
    wanted = 4 * 5e-5 ** (1 - np.arange(80) / 79)
    assert np.allclose(edges, wanted, rtol=1e-12) and r == edges[37]
    assert np.allclose(middles[1:], np.sqrt(wanted[1:] * wanted[:-1]), rtol=1e-12)  # of each range
    assert (d, n, mu) == (3, 125.0, 0.3) and counts.sum() == 500
    assert kept == pytest.approx(counts @ np.minimum(r / middles, 1) / 500, rel=1e-12)


def test_tuples_need_as_many_distinct_rows_as_clusters():
    two, three = [[1.0, 5.0], [7.0, 2.0]], [[1.0, 5.0], [7.0, 2.0], [7.0, 30.0]]
    Q = np.array(two * 4 + three * 3 + [[9.0, 4.0]])
    parts = np.repeat([0, 1, 2], [8, 9, 1])
    T = stable.tuples_of(Q, parts, 4, 3, 0)
    assert not T[0].any() and not T[2].any() and not T[3].any()
    assert np.allclose(sorted(T[1].tolist()), three)


def test_the_stability_that_tuples_need():
    assert stable.stability_needed(6.0) == pytest.approx(1 / math.sqrt(1 + 16 * 14**2), rel=1e-15)
    assert stable.stability_needed(10.0, 2.0) == pytest.approx(1 / math.sqrt(1 + 24 * 22**2), rel=1e-15)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rough", [None, np.array([[-3.0, 0.0], [3.0, 0.0]])])
def test_a_stable_start_is_paid_and_said(monkeypatch, rough):
    asked, starts = [], []
    monkeypatch.setattr(stable, "tuples_of", lambda Q, parts, t, k, seed: np.zeros((t, k, 2)))
    monkeypatch.setattr(stable, "stable_tuple_mean", lambda T, **kw: asked.append(kw) or rough)
    cell_means = stable.cell_means
    monkeypatch.setattr(stable, "cell_means", lambda Q, start, *args: starts.append(start) or cell_means(Q, start, *args))  # fmt: skip
    model = KTupleKMeans(2, **STABLE_PRICE, outliers=0.15, share=0.4, random_state=0)
    model.fit(np.random.default_rng(0).normal(size=(900, 2)))
    ((ask,), (start,)) = asked, starts
    mu = accounting.gaussian_mu(1.0, 0.5e-6)
    assert ask["eta"] == 0.5e-6 * (1 - 1e-5) and ask["beta"] == 0.05
    assert (ask["separation"], ask["outliers"]) == (12.0, 0.15)
    assert ask["mu"] == pytest.approx(mu * math.sqrt(0.4), rel=1e-8)
    assert model.status_ == ("abstained" if rough is None else "released")
    assert (rough is not None) == np.array_equal(start, rough if rough is not None else 0)


STABLE_PRICE = {"epsilon": 1.0, "delta": 1e-6, "radius": 8.0, "n_tuples": 300, "separation": 12.0}


@pytest.mark.parametrize("make, k", [(KTupleKMeans, 1), (KTupleKMeans, 3), (KTupleGaussianMixture, 3)])  # fmt: skip
def test_parts_of_a_stable_price_add_up_a_hair_below_it(make, k):
    eta, *parts = make(k, **STABLE_PRICE, share=0.3)._prices()
    assert eta == (0.5e-6 if k > 1 else 0.0)
    whole = accounting.gaussian_mu(1.0, 1e-6 - eta)
    assert math.hypot(*parts) == pytest.approx(whole * (1 - 1e-9), rel=1e-12)
    assert parts[0] == (pytest.approx(whole * math.sqrt(0.3), rel=1e-8) if k > 1 else 0)
    assert bool(parts[-1]) == (make is KTupleGaussianMixture)


@pytest.mark.parametrize("start", [[[1.0, 0.0]], [[-1.0, 0.0], [2.0, 0.0]], [[-3.0, 0.0], [3.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]]])  # fmt: skip
def test_distances_are_counted_in_those_between_centers(start):
    start, radius = np.array(start), 4.0
    step, limit = lattice(radius)
    rng = np.random.default_rng(0)
    near = np.rint(start[0] / step) + rng.integers(-900, 900, size=(50, 2))  # a few steps away
    Q = np.vstack([quantize(rng.normal(size=(300, 2)), radius), near])
    events, price = [], stable.StablePrices(0.0, 0.0, distances=1.0, means=1.0, moments=0.0)
    with watch(lambda event: events.append(event) or event.value):
        stable.cell_means(Q, start, radius, price, Noise(0))
    (seen,) = [e.value for e in events if e.label == "distances"]
    apart = [2.0 * limit] if len(start) == 1 else [max(math.dist(*start) / step, 2.0**10)] * 2
    wanted = np.zeros((len(start), 17), dtype=int)
    for row in Q:
        far = [math.dist(row, c / step) for c in start]
        j = int(np.argmin(far))
        wanted[j, sum(far[j] / apart[j] > 2 ** (i / 2 - 8) for i in range(16))] += 1
    assert np.array_equal(seen.reshape(-1, 17), wanted)


# Tuples.


@pytest.mark.parametrize("n, outliers, numbers", [(60, 0.1, (31, 24, 83)), (61, 0.0, (32, 30, 90)), (10, 0.3, (6, 2, 11)), (4, 0.3, (3, 1, 4))])  # fmt: skip
def test_the_whole_numbers_of_a_stable_mean(n, outliers, numbers):
    assert stable_tuples.stable_geometry(n, outliers) == numbers


@pytest.mark.parametrize("n, outliers, mu", [(300, 0.1, 2.0), (900, 0.0, 0.5), (900, 0.25, 1.0)])
def test_the_plan_and_chance_of_a_stable_mean(n, outliers, mu):
    k, eta, beta, separation = 3, 1e-6, 0.05, 12.0
    _, s, G = stable_tuples.stable_geometry(n, outliers)
    price = k, mu, eta, beta, separation, outliers
    good, best = s * (n - math.floor(outliers * n)), (math.inf, 0.7 * mu, mu * math.sqrt(0.51))

    def factor(moved, rest):
        return private_scales.noise_factor(*stable_tuples.stable_movement(moved, separation), k, rest, eta / 2)[0]  # fmt: skip

    for share in np.linspace(0.1, 0.98, 45):  # of the price, for the weight
        low = good + (special.ndtri(eta / 2) + special.ndtri(beta)) * G / (share * mu)
        rest = mu * math.sqrt(1 - share**2)
        if low >= 2 * G:
            best = min(best, (factor(G / low, rest), share * mu, rest))
    assert stable_tuples.stable_plan(n, *price) == pytest.approx(best, rel=1e-12)
    low, high = 0.0, 0.5  # the largest share of the weight that may move
    while high - low > 1e-13:
        middle = (low + high) / 2
        low, high = (middle, high) if factor(middle, best[2]) <= 0.25 else (low, middle)
    deviation = G / best[1]
    chance = special.ndtr((s * n - G / low) / deviation + special.ndtri(eta / 2))
    assert stable_tuples.stable_chance(n, *price) == pytest.approx(chance, rel=1e-6, abs=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("more, passed", [(-1e-5, False), (1e-5, True)])
def test_a_noisy_degree_is_believed_beyond_its_tail(monkeypatch, more, passed):
    calls, scaled = [], private_scales.scaled_centers
    monkeypatch.setattr(k_noisy_centers, "scaled_centers", lambda *args, **kw: calls.append(kw) or scaled(*args, **kw))  # fmt: skip
    model = KNoisyCenters(epsilon=1.0, delta=1e-3, separation=1e5, random_state=0)
    test, own, mu, eta = model._price()
    assert (test, own, eta) == (0.5, 0.5e-3, 0.25e-3)

    # a majority is 31; beyond it the tail of the noise, for a hair less
    def degree(event):
        scale = event.scale * event.step
        assert scale == pytest.approx(2, rel=1e-5)
        return np.asarray((31 + math.log(1e3 / (1 - 1e-5)) * scale + more) / event.step)

    with watch(lambda event: degree(event) if event.label == "H-index" else event.outcome):
        assert (model.fit(TUPLES).centers_ is not None) == passed
    (ask,) = calls
    assert ask["eta"] == eta * (1 - 1e-5) and ask["mu"] == mu  # a hair for the lattice's tails


TUPLES = np.tile(np.array([[0.0, 0.0], [30.0, 40.0]]), (60, 1, 1))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("variant", ["extension", "paper"])
def test_averages_of_parts_are_bought_for_a_group(monkeypatch, variant):
    asked = []

    def average(Q, **ask):
        asked.append(ask)
        ask["noise"].count(len(Q), mu=1e-3)
        return np.zeros(Q.shape[1])

    monkeypatch.setattr(k_averages, "private_average", average)
    monkeypatch.setattr(k_tuples, "private_test_partition", lambda T, *args, **kw: T[0])
    k, epsilon, delta, beta, n = 2, 1.0, 1e-3, 0.05, 1800
    T = np.tile(np.array([[0.0], [30.0]]), (n, 1, 1))
    KAverages(epsilon=epsilon, delta=delta, beta=beta, radius=50.0, min_radius=1.0, variant=variant, too_few=True, random_state=0).fit(T)  # fmt: skip
    plan = tuple_clusterer._plan_of(variant)(n, epsilon, delta, beta)
    moves, rest = k * (plan.ell + 1), epsilon / 2
    mu = accounting.gaussian_mu(rest / 6, delta / 4)
    if variant == "paper":
        small = delta / (8 * k * math.exp(epsilon / 2) * (plan.ell + 1))
        mu = 2 * moves * accounting.gaussian_mu(rest / 6 / (2 * moves), small)
    assert len(asked) == k
    for ask in asked:
        assert ask["moves"] == moves and ask["mu"] == pytest.approx(mu, rel=1e-12)
        assert ask["epsilon"] == pytest.approx(rest * 5 / 6) and ask["beta"] == beta / (2 * k)


def test_the_far_end_of_the_ball_lies_opposite_and_inside():
    limit = 2**20
    cells = np.array([[0.0, 0.0], [3.0, 4.0], [-300.0, 400.0], [limit, 0.0], [0.0, -1.0]])
    far = np.array([[limit - 1, 0], [-629145, -838860], [629145, -838860], [1 - limit, 0], [0, limit - 1]])  # fmt: skip
    assert np.array_equal(averages._far_end(cells, limit), far)
    line = averages._far_end(np.array([[0.0], [5.0]]), limit)
    assert np.array_equal(line, [[limit - 1], [1 - limit]])


# Sources.


def test_the_printed_deviation_of_noisy_averages():
    logs = math.log(1e6) * math.log(1.25 * 8 * 1e6)
    assert source_target.nas_sigma(7, 3, 0.5, 1e-6, 2.0) == pytest.approx(2 / 1.5 * math.sqrt(126 * logs), rel=1e-12)  # fmt: skip


@pytest.mark.parametrize("n_rows, full", [(60, True), (59, False)])
@pytest.mark.parametrize("gamma, output", [(None, "cloud"), (0.3, "cloud"), (None, "mean")])
def test_cells_are_kept_and_filled_by_their_noisy_counts(monkeypatch, n_rows, full, gamma, output):
    asked, counts = {}, np.array([2.9, 3.0, 7.5, 40.0])
    Xt = np.random.default_rng(0).normal(size=(n_rows, 2))

    def noted(name, answer):
        def function(*args, **kw):
            asked[name] = args, kw
            return answer(*args)

        monkeypatch.setattr(sources, name, function)

    def clouds(cells, r, n, rng):
        return [np.full((n, 2), 0.125)] * len(cells)

    noted("count_threshold", lambda *args: 3.0)
    noted("cell_clouds", clouds)
    noted("neighbor_noisy_averages", lambda *args: (counts[:, None] * [0.25, 0.5], counts))
    model = NeighborNoisyAverages(epsilon=0.8, radius=9.0, n_cells=4, gamma=gamma, output=output, neighboring="replace")  # fmt: skip
    noise = Noise(0, neighboring="replace")
    released = model._tight(np.zeros((5, 2)), Xt, noise, output=output)
    (q, d), known = asked["count_threshold"]
    assert (q, d) == (0.02 if gamma is None else 0.3 / 4, 2)
    assert known == {"epsilon": 0.4}  # under replace two counts move
    cells, r, most, _ = asked["cell_clouds"][0]
    far = source_target.source_distance(Xt, cells)
    assert r == max(np.quantile(far, 0.9) if full else far.max(), 0.9)
    assert most == n_rows // 4 - 1
    assert asked["neighbor_noisy_averages"][1] == {
        "cell_radius": r,
        "noise": noise,
        "radius": 9.0,
        "center": None,
        "epsilon": 0.8,
    }
    assert np.allclose(released[:3], cells[1:] + [0.25, 0.5])
    extra = 0 if output == "mean" else 0 + 4 + min(37, most)
    assert len(released) == 3 + extra and np.all(released[3:] == 0.125)


def test_many_empty_cells_pass_as_rarely_as_one(monkeypatch):
    asked, last = [], []
    monkeypatch.setattr(source_target, "count_threshold", lambda q, d, **kw: asked.append(q) or 3.0)
    for n in (1, 49, 51, 200):
        Xt = np.random.default_rng(0).normal(size=(n, 2))
        model = NeighborNoisyAverages(epsilon=0.8, radius=9.0, n_cells="all")
        model._tight(np.zeros((5, 2)), Xt, Noise(0))
        last.append(asked[-1])
    assert last == [0.02, 0.02, 1 / 51, 1 / 200]


# Adaptation.


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_constants_of_the_losses(n_classes):
    r, size, width = 2.0, 1.5, 1.0 if n_classes == 2 else math.sqrt(2)
    loss = adaptation.LogLoss(n_classes)
    bound = math.log1p((n_classes - 1) * math.exp(width * size * r))
    curvature = r**2 * (0.25 if n_classes == 2 else 0.5)
    assert loss.constants(r, size) == pytest.approx((bound, width * r, curvature), rel=1e-12)
    network = adaptation.NetworkLoss(3, n_classes, clip=100.0)
    bound = math.log1p((n_classes - 1) * math.exp(width * size * 2))  # of 3 units and a constant
    slope = width * math.sqrt(4 + (size * r) ** 2)
    curvature = slope**2 / 4 + width * r * (1 + 0.77 * size * r)
    assert network.constants(r, size) == pytest.approx((bound, slope, curvature), rel=1e-12)
    assert network.reach(r, size, 1.0) == pytest.approx(slope, rel=1e-12)
    assert adaptation.NetworkLoss(3, n_classes, clip=0.5).reach(r, size, 1.0) == 0.5


def test_a_loss_must_say_what_is_special():
    class Bare(adaptation.Loss):
        """Nothing is written."""

    loss, x = Bare(2), np.zeros((1, 1))
    for call in (
        lambda: loss.n_parameters(1),
        lambda: loss.constants(1.0, 1.0),
        lambda: loss.reach(1.0, 1.0, 1.0),
        lambda: loss.scores(np.zeros(1), x),
        lambda: loss(np.zeros(1), x, np.zeros(1, dtype=int)),
    ):
        with pytest.raises(NotImplementedError):
            call()


def test_the_printed_classifier_is_one_of_the_iterates(monkeypatch):
    visited, asked = [np.full(3, t) for t in range(5)], []

    def run(*args, **kw):
        asked.append(kw)
        return (visited, np.ones(5), np.ones(5), [0.0] * 5)

    monkeypatch.setattr(ncnvx_adap, "algorithm_2", run)
    model = NCnvxAdap(classes=[0, 1], epsilon=1.0, delta=1e-3, radius=1.0, weight_radius=1.0, kappa_2=0.5, kappa_inf=0.25, n_iter=5)  # fmt: skip
    drawn = [model._as_printed(None, None, model._given(3, Noise(i)), Noise(i), 0.75) for i in range(40)]  # fmt: skip
    assert {w.tolist()[0] for w in drawn} == {0, 1, 2, 3, 4} and all(w.shape == (3,) for w in drawn)
    kappas = {"kappa_1": math.log(2), "kappa_2": 0.5, "kappa_inf": 0.25}
    assert all({n: v for n, v in kw.items() if n != "noise"} == {**kappas, "n_iter": 5, "mu": 0.75} for kw in asked)  # fmt: skip


def test_bounds_of_weights_that_cannot_move():
    assert adaptation.weight_bounds(1.0, 0.0, 9, 2.0, kappa_1=0.25) == (0.0, 0.0)
    slope, reach = adaptation.weight_bounds(
        0.2, 0.1, 9, 2.0, kappa_1=0.25, kappa_2=0.5, kappa_inf=3.0
    )
    assert reach == 0.0 and slope == pytest.approx(3 * (0.45e-2 + 1e-3) + 0.12)
    assert adaptation.weight_bounds(1.0, 0.1, 9, 2.0, kappa_1=0.25)[1] == pytest.approx(30.0)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_best_predictor_does_not_depend_on_the_unit_and_stops_in_time(monkeypatch, unit):
    rng, turns, solve = np.random.default_rng(0), [], discrepancy._trust_region_max
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    monkeypatch.setattr(
        cnvx_adap, "_trust_region_max", lambda *args: turns.append(0) or solve(*args)
    )
    sample = Sample(X, y, unit, p=1 / 30)
    w, H = cnvx_adap.profiled_regression([sample], 1e9, math.inf)
    assert np.allclose(w * unit, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-8) and len(turns) == 1  # fmt: skip
    assert np.allclose(H, 2 * X.T @ X / 30 * unit**2, rtol=1e-8)
    w, _ = cnvx_adap.profiled_regression([sample], 1e9, 4.0)
    assert len(turns) < 100
    one = Sample(X, y, 1.0, p=1 / 30)
    best = cnvx_adap.profiled_regression([one], 1e9, 4.0, tolerance=1e-14)[0]
    assert np.allclose(w * unit, best, rtol=1e-8)


@pytest.mark.parametrize("share", [None, 0.25])
def test_the_discrepancy_and_the_gradients_share_the_price(share):
    model = CnvxAdap(epsilon=1.0, delta=1e-5, radius=1.0, discrepancy_share=share)
    mu = accounting.gaussian_mu(1.0, 1e-5)
    price = cnvx_adap._cnvx_prices(model, True)
    part = 0.1 if share is None else share
    assert price.discrepancy == {"mu": pytest.approx(mu * math.sqrt(part), rel=1e-12)}
    assert math.hypot(price.discrepancy["mu"], price.mu) == pytest.approx(mu, rel=1e-12)
    assert cnvx_adap._cnvx_prices(model, False) == cnvx_adap._Prices({}, mu)
    price = cnvx_adap._cnvx_prices(model.set_params(variant="paper"), True)
    assert price.discrepancy == {"epsilon": 0.5 if share is None else share}
    lines = [Release("d", "laplace", **price.discrepancy), Release("g", "gaussian", mu=price.mu)]
    assert 1 - 1e-6 <= Receipt(lines, "replace").epsilon_at(1e-5) <= 1


def test_a_predictor_without_public_records_ends_where_objective_and_pull_balance():
    rng, r, size, Y, kappa_1, mu, c = np.random.default_rng(4), 1.5, 4.0, 1.25, 0.4, 0.15, 0.05
    X, y = np.round(rng.uniform(-1, 1, size=(9, 2)) * 64) / 64, np.round(rng.uniform(-1, 1, 9) * 64) / 64  # fmt: skip
    model = CnvxAdap(
        epsilon=float(accounting.gaussian_epsilon(1e-3, mu)), delta=1e-3, radius=r,
        weight_radius=size, target_bound=Y, kappa_1=kappa_1, kappa_inf=0.1, raise_curvature=c,
        n_iter=300, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings(), watch(lambda event: event.value):
        warnings.simplefilter("ignore")
        model.fit(X, y)
    sd = adaptation.profiled_sensitivity(r, size, Y, kappa_1) / 9 / mu
    pull = sd**2 * 2 / (size / 2) ** 2 / (2 * r**2 / 2 * (1 + c))  # as much curvature everywhere

    def objective(w):
        return adaptation.profiled_loss((X @ w - y) ** 2, kappa_1).mean() + 0.1 / 9 * w @ w + pull / 2 * w @ w  # fmt: skip

    at, h = model.coef_, 1e-5
    slope = [(objective(at + h * e) - objective(at - h * e)) / (2 * h) for e in np.eye(2)]
    assert 0.01 < np.linalg.norm(at) < size
    assert np.linalg.norm(slope) < 1e-3 < 0.1 * np.linalg.norm(pull * at)


def test_a_discrepancy_over_too_many_records_is_refused():
    noise = Noise(0, neighboring="replace")
    discrepancy.private_discrepancy(1.0, 1.0, 10**8, noise=noise, mu=1.0)
    with pytest.raises(ValueError, match="at most 1e8"):
        discrepancy.private_discrepancy(1.0, 1.0, 10**8 + 1, noise=noise, mu=1.0)


# Budgets.


def test_a_charge_names_its_neighbours_rightly_or_not_at_all():
    receipt = Receipt([Release("count", "laplace", epsilon=0.1)], "replace")
    for price in ({"epsilon": 0.1}, {"receipt": receipt}):
        budget = PrivacyBudget(1.0, 1e-6)
        with pytest.raises(ValueError, match='choose "add_remove" .* or "replace"'):
            budget.charge(**price, neighboring="neighbours")
        assert not budget.ledger


@pytest.mark.parametrize("composition", ["composed", "added"])
def test_decimal_fractions_fill_a_budget(composition):
    budget = PrivacyBudget(0.3, 0.3e-6, composition=composition)
    for _ in range(3):  # which is more than a third of it, in floats
        budget.charge(0.1, 0.1e-6 if composition == "added" else 0.0)
    assert len(budget.ledger) == 3 and 3 * 0.1 > 0.3
    assert PrivacyBudget(0.3, 0.0).fits(0.1) == 3


@pytest.mark.parametrize("mu", [1e3, 1e6, 3e9])
def test_delta_at_large_prices_does_not_feel_the_rounding_of_a_quotient(mu):
    for low in (-0.7, 0.3, 2.9, 5.1):
        epsilon = mu**2 / 2 + low * mu
        with mpmath.workdps(60):
            x, e = mpmath.mpf(epsilon) / mpmath.mpf(mu), mpmath.mpf(epsilon)

            def tail(t):
                return mpmath.erfc(t / mpmath.sqrt(2)) / 2

            true = mpmath.log(tail(x - mpmath.mpf(mu) / 2) - mpmath.exp(e) * tail(x + mpmath.mpf(mu) / 2))  # fmt: skip
            got = gaussian.log_gaussian_delta(np.asarray(epsilon), np.asarray(mu))
            assert abs(mpmath.mpf(float(got)) - true) < 3e-12 * max(1, abs(true))


@pytest.mark.parametrize("mu", [0.02, 0.7, 5.0])
def test_a_gaussian_curve_is_dominated_by_hardly_more_than_its_mu(mu):
    def curve(epsilon):
        return float(accounting.gaussian_delta(epsilon, mu))

    cut = 1e-9
    found = filters.dominating_mu(curve, accounting.gaussian_epsilon(cut, mu), cut)
    assert mu * (1 - 1e-5) < found < mu * 1.02


def test_a_curve_that_falls_at_once_is_dominated_too():
    mu = filters.dominating_mu(lambda e: 0.02 if e == 0 else 0.0, 2.0, 0.01)
    floor, at = math.log((0.02 * (1 + 1e-9) - 0.01) / 0.99), np.asarray(2 / 512)
    assert 0 < mu < 1 and float(gaussian.log_gaussian_delta(at, np.asarray(mu))) >= floor


@pytest.mark.parametrize("center", [None, np.array([10.0, 20.0])])
def test_printed_averages_of_cells_are_sums_over_counts(monkeypatch, center):
    counts = np.array([4.5, 8.0, 16.0, 400.0])

    def answer(*args, **kw):
        return (counts[:, None] * [0.25, 0.5], counts)

    monkeypatch.setattr(source_target, "neighbor_noisy_averages", answer)
    model = NeighborNoisyAverages(
        epsilon=1.0, radius=9.0, center=center, n_cells="all", variant="paper"
    )
    got = model._paper(None, np.eye(4)[:, :2], Noise(0))
    # the printed threshold is 1 + ln((sqrt(2) + 1) / 0.05) = 4.9
    assert got.shape == (3, 2)
    moved = np.zeros(2) if center is None else center
    assert np.allclose(got, moved + [0.25, 0.5], rtol=1e-15)


def test_tuples_are_put_in_the_order_of_a_dictionary():
    rng = np.random.default_rng(0)
    for d in (1, 2, 3):
        T = rng.integers(0, 2, size=(30, 3, d)).astype(float)  # many entries tie
        wanted = sorted(sorted(map(tuple, t)) for t in T.tolist())
        assert k_tuples.canonical(T).tolist() == [[list(p) for p in t] for t in wanted]


@pytest.mark.parametrize("weight", [0.3, 2.5])
def test_counts_beside_sums_are_in_rows(weight):
    X = np.array([[0.5, 0.25], [1.0, 0.0], [0.0, -1.5]])
    with watch(lambda event: event.value):
        sums, counts = Noise(0).sums(X, radius=2.0, groups=[0, 1, 1], n_groups=3, weight=weight, mu=1.0)  # fmt: skip
    assert sums.tolist() == [[0.5, 0.25], [1.0, -1.5], [0.0, 0.0]]
    assert np.allclose(counts, [1, 2, 0], rtol=1e-12)


def test_sums_of_the_nearest_rows_are_each_cell_s_own():
    step, limit = lattice(4.0)
    X, cells = np.array([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.5]]), np.array([[3.0, 0.0], [-1.0, 0.0]])
    sums, far = averages._t_nearest_sums(X, cells, 2, 4.0, None)
    assert np.array_equal(sums * step, [[3.0, 0.0], [0.0, 0.5]])
    assert np.allclose(far * step, [1 + 2, 0.5 + 2])
    sums, far = averages._t_nearest_sums(X[:1], cells, 3, 4.0, None)  # two are missing
    end = averages._far_end(cells / step, limit) * step
    assert np.allclose(sums * step, X[0] + 2 * end, atol=1e-12)
    assert np.allclose(far * step, [2 + 2 * 7, 2 + 2 * 5], atol=1e-4)


def test_projected_rows_are_products_over_the_radius():
    rng = np.random.default_rng(0)
    X, matrix = rng.uniform(-1, 1, size=(20, 5)), rng.normal(size=(5, 2)) / 4
    for divisor, radius in ((1.0, 3.0), (1.7, 100.0)):
        got = estimators.project(X * radius / 3, matrix, radius=radius, divisor=divisor)
        assert np.allclose(got, X @ matrix / 3 / divisor, atol=1e-5)
        got = estimators.project(X * radius / 3, None, radius=radius, divisor=divisor)
        assert np.allclose(got, X / 3 / divisor, atol=1e-5)


def test_no_chance_that_is_cut_off_is_forgotten():
    one = (0.0, 0, np.array([2.0**-40, 2.0**-1, 2.0**-40]))
    other = (0.0, 0, np.array([2.0**-40, 2.0**-24, 2.0**-40]))
    lost, first, p = mixtures._together(one, other)  # 2**-80 at either end is below 1e-20
    side = 2.0**-41 + 2.0**-64
    assert (lost, first) == (2.0**-80, 1)
    assert p.tolist() == [side + 2.0**-80, 2.0**-25 + 2.0**-79, side]


# What a fit computes with.


class Declared:
    """An estimator of two parameters, one of which goes by a rule."""

    def __init__(self, price, word):
        self.price, self.word, self.n_ = price, word, 0

    def get_params(self, deep=True):
        inner = {"word__deep": 1} if deep else {}
        return {"price": self.price, "word": self.word} | inner


def test_a_twin_has_what_the_rules_made_of_it_and_nothing_else():
    given = Declared("3", [])
    rules = {"price": lambda value, name, owner: (int(value), name, owner), "none": int}
    twin = declared.declare(given, rules)
    assert type(twin) is Declared and vars(given) == {"price": "3", "word": given.word, "n_": 0}
    assert vars(twin) == {"price": (3, "price", "Declared"), "word": []} and twin.word is given.word
    for call in (
        lambda: declared.declare(object(), rules),
        lambda: declared.settle(object(), twin),
        lambda: declared.settle(twin, object()),
    ):
        with pytest.raises(TypeError, match="^get_params of the .* needs a function to call"):
            call()
    with pytest.raises(TypeError, match="^rules: declare needs a dict"):
        declared.declare(given, [*rules.items()])


def test_results_change_hands_all_at_once_and_old_ones_go():
    given, twin = Declared("3", "w"), Declared(3, "x")
    given.old_, given.__kept__ = 1, 2
    twin.n_, twin.receipt_, twin.__own__ = 5, 6, 7
    before = vars(given)
    declared.settle(given, twin)
    assert vars(given) == {"price": "3", "word": "w", "__kept__": 2, "n_": 5, "receipt_": 6}
    assert before["old_"] == 1 and vars(twin)["price"] == 3  # whoever looked in between saw one fit


def test_the_bound_under_label_shift_takes_every_scale_from_0_to_1e100():
    assert label_shift.shift_excess_bound(100, 2, 0.0) == pytest.approx(0.1, rel=1e-12)
    assert label_shift.shift_excess_bound(400, 2, 0.5) == pytest.approx(0.05 + 0.01, rel=1e-12)
    assert label_shift.shift_excess_bound(100, 2, 30.0) == 1.0  # no share of errors exceeds it
    for scale in (1e100, 1.5e100):
        with pytest.raises(ValueError, match="scale"):
            label_shift.shift_excess_bound(100, 2, scale)


def test_counts_of_less_than_one_row_are_taken_as_one():
    C, heard, s, scale = np.array([[0.7, 0.2], [0.3, 0.8]]), np.array([0.3, 0.2]), np.array([0.6, 0.4]), 0.4  # fmt: skip
    ridge = (2 * scale**2 + 1 / 2) / (1 / 2) ** 2
    best = np.linalg.solve(C.T @ C + ridge * np.eye(2), C.T @ heard + ridge * s)
    assert best.min() > 0
    assert label_shift.black_box_counts(C, heard, s, scale) == pytest.approx(best, rel=1e-9)


def test_a_rare_class_makes_fewer_parts_of_the_confusion():
    sizes = []

    class Counted(DummyClassifier):
        def fit(self, X, y):
            sizes.append(len(X))
            return super().fit(X, y)

    C = label_shift._confusion(
        Counted(), np.zeros((12, 1)), np.repeat([0, 1], [9, 3]), np.arange(2)
    )
    assert sizes == [8, 8, 8] and np.array_equal(C, [[1, 1], [0, 0]])
    sizes.clear()
    label_shift._confusion(Counted(), np.zeros((30, 1)), np.repeat([0, 1], 15), np.arange(2))
    assert sizes == [24] * 5


def test_shares_are_pulled_towards_those_of_the_source_whatever_they_add_up_to():
    counts, source = np.array([30.0, 10.0, 20.0]), np.array([1.0, 1.0, 2.0])
    found = label_shift.shrunk_proportions(counts, source, 5.0)
    assert found == pytest.approx((counts + 3 * 5.0 * source / 4) / 75, rel=1e-12)
    assert found == pytest.approx(
        label_shift.shrunk_proportions(counts, source / 4, 5.0), rel=1e-12
    )


def test_a_network_sees_the_rows_of_a_sample_in_their_own_units():
    rng, loss = np.random.default_rng(0), adaptation.NetworkLoss(4, 3)
    X, w = rng.integers(-4000, 4000, size=(300, 3)), rng.normal(size=loss.n_parameters(3))
    said = loss.scores(w, X / 1024.0).argmax(axis=1)
    sample = Sample(X.astype(float), said, 1 / 1024, p=1 / 300)
    assert ncnvx_adap._right(sample, w, loss).all()
    assert np.mean(loss.scores(w, 1.0 * X).argmax(axis=1) != said) > 0.02


def test_the_guard_trusts_a_source_that_gets_just_enough_right(monkeypatch):
    rng, loss = np.random.default_rng(1), adaptation.LogLoss(2)
    X = np.round(rng.uniform(-1, 1, size=(60, 2)) * 64) / 64
    y = (X[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(int)
    private, public = (Sample(X[at], y[at], 1.0, p=1 / 60) for at in (slice(30), slice(30, 60)))
    given = ncnvx_adap.Classification(loss, (2.0, 5.0), 1.0, 0.0, np.zeros(2))
    for most, kept in ((20.0, 1 / 60), (np.nextafter(20.0, 21), 0.0)):
        monkeypatch.setattr(ncnvx_adap, "least_right", lambda *_, most=most: most)
        noise = Noise(0, neighboring="replace")
        monkeypatch.setattr(noise, "count", lambda *_, **__: 20)
        _, source, then, mu = ncnvx_adap._ask_first(private, public, given, noise, 1.0)
        assert source.p == kept and mu == pytest.approx(math.sqrt(0.95), rel=1e-12)
    assert then is given  # no source, no start of its
    monkeypatch.setattr(ncnvx_adap, "least_right", lambda *_: 20.0)
    then = ncnvx_adap._ask_first(private, public, given, noise, 1.0)[2]
    start, _, _ = ncnvx_adap._head_start(public, given, 2, noise.public_rng)
    assert np.array_equal(then.start, start) and np.linalg.norm(start) > 0.1
    assert then.expected_gain == ncnvx_adap.guarded_gain(20, 30)
    for right in (-1.5e300, 1.5e300):
        with pytest.raises(ValueError, match="guarded_gain"):
            ncnvx_adap.guarded_gain(right, 30)
