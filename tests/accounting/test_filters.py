"""Filters: what adaptively chosen fits cost together."""

import itertools
import json
import math
import time
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import special

from dplit import accounting
from dplit.accounting import Release, Shares, Spending, filters
from dplit.accounting import gaussian as accounting_gaussian


def gaussian(mu, times=1):
    return accounting.Release("g", "gaussian", mu=mu, times=times)


def test_ten_fits_of_one_cost_at_most_3_2():
    fit = accounting.Receipt([gaussian(accounting.gaussian_mu(1.0, 1e-6))], "add_remove", 1e-6)
    ten = sum([accounting.Spending.of(fit)] * 10, accounting.Spending())
    exact = accounting.gaussian_epsilon(1e-5, math.sqrt(10) * fit.mu)
    assert exact < ten.epsilon_at(1e-5) <= 3.3
    assert ten.delta_at(ten.epsilon_at(1e-5)) <= 1e-5
    assert ten.delta_at(0.99 * ten.epsilon_at(1e-5)) > 1e-5


def test_a_fit_alone_costs_what_its_receipt_says():
    releases = [gaussian(0.1), accounting.Release("c", "laplace", epsilon=0.3)]
    for receipt in (
        accounting.Receipt(releases, "replace", 1e-6),
        accounting.Receipt(releases[1:], "replace"),
    ):
        spent = accounting.Spending.of(receipt, "replace")
        assert spent.delta_at(receipt.epsilon) <= receipt.delta
        assert spent.epsilon_at(receipt.delta) <= receipt.epsilon
    claim = accounting.Spending.claim(1.0, 1e-6)
    assert claim.delta_at(1.0) == 1e-6 and claim.epsilon_at(1e-6) == 1.0
    pure = sum([accounting.Spending.claim(0.1)] * 10, accounting.Spending())
    assert pure.delta_at(1.0) == 0 and pure.epsilon_at(0.0) == pytest.approx(1.0)


def test_spendings_add_up_and_go_through_json():
    parts = [accounting.Spending.claim(0.1 * i, 1e-9 * i, "replace") for i in range(1, 9)]
    whole = accounting.Spending.total(parts)
    assert sum(parts, accounting.Spending()).mu_squared == pytest.approx(
        whole.mu_squared, rel=1e-14
    )
    back = accounting.Spending.from_dict(json.loads(json.dumps(whole.to_dict())))
    assert back == whole and whole.fits == 8
    with pytest.raises(ValueError, match="neighboring"):
        whole + accounting.Spending.claim(1.0, 0.0, "add_remove")
    with pytest.raises(ValueError, match="version"):
        accounting.Spending.from_dict({**whole.to_dict(), "more": 1})


def test_a_hundred_thousand_add_up_quickly():
    parts = [accounting.Spending.claim(1e-3, 1e-12)] * 100_000
    start = time.perf_counter()
    whole = accounting.Spending.total(parts)
    assert time.perf_counter() - start < 2 and whole.fits == 100_000
    exact = 100_000 * mpmath.mpf(parts[0].mu_squared)
    assert exact <= whole.mu_squared < exact * (1 + 1e-12)


@pytest.mark.parametrize("ranged", [False, True])
def test_the_gaussian_of_a_pure_release_is_rounded_up(ranged):
    with mpmath.workdps(60):
        edges = [1e-9, 0.1, 1.0, 2.0, 10.0, 100.0]
        for epsilon in [f(e) for e in edges for f in (float, lambda e: math.nextafter(e, 0))]:
            half = mpmath.mpf(epsilon) / (2 if ranged else 1)
            mu = mpmath.mpf(accounting.pure_mu(epsilon, ranged))
            # the kink of the coin lies on the Gaussian's trade-off curve
            tail = mpmath.erfc(mu / 2 / mpmath.sqrt(2)) / 2
            assert tail <= 1 / (1 + mpmath.exp(half))
            less = mu * (1 - mpmath.mpf("3e-11"))
            assert mpmath.erfc(less / 2 / mpmath.sqrt(2)) / 2 > 1 / (1 + mpmath.exp(half))


COVER = accounting.Release("c", "cover", exponent=0.0425)
MAX_COVER = [COVER, gaussian(0.19), accounting.Release("w", "laplace", epsilon=0.155)]


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("releases", [[COVER], MAX_COVER, [COVER, COVER]])
def test_a_fit_with_a_cover_is_gaussian_but_for_what_is_cut(releases, neighboring):
    receipt = accounting.Receipt(releases, neighboring, 1e-6)
    spent = accounting.Spending.of(receipt)
    closest = 0.0
    for epsilon in np.linspace(0, 2 * receipt.epsilon, 101):
        bound = spent.own + (1 - spent.own) * accounting.gaussian_delta(
            epsilon, math.sqrt(spent.mu_squared)
        )
        assert receipt.delta_at(epsilon) <= bound
        closest = max(closest, receipt.delta_at(epsilon) / bound)
    assert closest > 0.9 and 0 < spent.own < 1e-6 / 15


def test_a_gaussian_dominates_itself_and_nothing_larger():
    curve = lambda epsilon: accounting.gaussian_delta(epsilon, 0.3)  # noqa: E731
    mu = accounting.dominating_mu(curve, accounting.gaussian_epsilon(1e-9, 0.3), 1e-9)
    assert 0.29 < mu < 0.31
    assert accounting.dominating_mu(lambda epsilon: 1e-9, 1.0, 1e-6) == 0.0
    assert accounting.dominating_mu(lambda epsilon: 1.0, 1.0, 1e-6) == math.inf


# ---------------------------------------------------------------- an analyst who tries everything


def rounded(mu, cuts, delta=1e-3):
    ends = np.array([-np.inf, *cuts, np.inf])
    law = list(zip(np.diff(special.ndtr(ends - mu)), np.diff(special.ndtr(ends)), strict=True))
    return accounting.Spending(
        1, mu**2, 0.0, 0.0, accounting.gaussian_epsilon(delta, mu), delta
    ), law


def coin(epsilon):
    truth = special.expit(epsilon)
    return accounting.Spending.claim(epsilon), [(truth, 1 - truth), (1 - truth, truth)]


def choice(epsilon, t):
    """Two candidates of an exponential mechanism, log ratios t and t - epsilon."""
    q = math.expm1(epsilon - t) / (math.exp(epsilon) - 1)
    cost = accounting.Spending(
        1, accounting.pure_mu(epsilon, bounded_range=True) ** 2, epsilon=epsilon
    )
    return cost, [(math.exp(t) * q, q), (1 - math.exp(t) * q, 1 - q)]


def bluntly(d):
    return accounting.Spending.claim(0.0, d), [(d, 0.0), (0.0, d), (1 - d, 1 - d)]


def failing(f):
    cost = accounting.Spending(1, failure=f, epsilon=math.inf)
    return cost, [(0.5 + f, 0.5 - f), (0.5 - f, 0.5 + f)]


MENUS = {
    "pure": [coin(0.2), coin(0.5), choice(0.6, 0.2)],
    "gaussian": [rounded(0.3, [0.5, 2.0]), rounded(0.5, [-0.5, 1.0, 2.5]), coin(0.3)],
    "with deltas": [rounded(0.4, [0.2, 1.5, 2.5]), bluntly(1e-3), bluntly(4e-3)],
    "with failures": [rounded(0.4, [1.0]), failing(1e-4), failing(1e-3), bluntly(1e-3)],
    "claims": [rounded(0.3, [1.0], 1e-4), coin(0.2), bluntly(1e-4), choice(0.3, 0.1)],
}
SHARES = [
    accounting.SHARES,
    accounting.Shares(1, 0, 0, 0),
    accounting.Shares(0, 0, 0, 1),
    accounting.Shares(0.25, 0.25, 0.25, 0.25),
]


def within(epsilon, limit, shares):
    return lambda spent: spent.delta_at(epsilon, shares) <= limit


@pytest.mark.parametrize("shares", SHARES)
@pytest.mark.parametrize("menu", MENUS.values(), ids=MENUS)
def test_no_adaptive_strategy_beats_the_filter(menu, shares):
    checked = 0
    for epsilon in (0.3, 0.8):
        for counts in itertools.product(range(4), repeat=len(menu)):
            if not 0 < sum(counts) <= 3:
                continue
            ends = [s for n, (s, _) in zip(counts, menu, strict=True) for _ in range(n)]
            limit = accounting.Spending.total(ends).delta_at(epsilon, shares)
            if limit < 1:
                rule = within(epsilon, limit, shares)
                reached = accounting.worst_adaptive_delta(menu, rule, epsilon, 3)
                assert reached <= limit * (1 + 1e-12) + 1e-15, (epsilon, counts)
                checked += 1
    assert checked >= 3


def test_with_fine_answers_the_gaussian_filter_is_nearly_attained():
    whole, cuts = accounting.gaussian_delta(1.0, 0.5), np.linspace(-2, 4, 90)
    menu = [rounded(0.5 * math.sqrt(0.5), cuts)]
    rule = lambda s: s.delta_at(1.0, accounting.Shares(1, 0, 0, 0)) <= whole * (1 + 1e-9)  # noqa: E731
    assert 0.98 < accounting.worst_adaptive_delta(menu, rule, 1.0, 2) / whole <= 1 + 1e-9
    # a third is refused
    assert accounting.worst_adaptive_delta(menu, rule, 1.0, 3) <= whole * (1 + 1e-9)
    assert accounting.worst_adaptive_delta(menu, lambda s: s.fits <= 3, 1.0, 3) > 2 * whole


def test_one_limit_for_two_bounds_is_no_filter():
    """Deltas traded against Gaussian parts, or either of two rules at the full limit."""
    epsilon, full, part = 1.0, 0.3, 0.7
    limit, cuts = accounting.gaussian_delta(epsilon, full), np.linspace(-2, 5, 120)
    first, rest = full * math.sqrt(part), full * math.sqrt(1 - part)
    left = limit - accounting.gaussian_delta(epsilon, first)
    menu = [rounded(first, cuts), rounded(rest, cuts), bluntly(left)]
    mu = lambda s: math.sqrt(s.mu_squared) * (1 - 1e-12)  # noqa: E731
    traded = lambda s: accounting.gaussian_delta(epsilon, mu(s)) + s.own <= limit * (1 + 1e-9)  # noqa: E731
    assert accounting.worst_adaptive_delta(menu, traded, epsilon, 2) > 1.8 * limit
    shared = lambda s: s.delta_at(epsilon, accounting.Shares(0.5, 0.5, 0, 0)) <= limit  # noqa: E731
    assert accounting.worst_adaptive_delta(menu, shared, epsilon, 2) <= limit
    assert (
        accounting.worst_adaptive_delta(menu, lambda s: s.delta_at(epsilon) <= limit, epsilon, 2)
        <= limit
    )
    # every transcript by itself is within the limit: the order alone is the leak
    assert all(
        accounting.gaussian_delta(epsilon, mu(s)) + s.own <= limit * (1 + 1e-9)
        for s in (menu[0][0] + menu[1][0], menu[0][0] + menu[2][0])
    )


def test_a_first_fit_alone_is_admitted_and_nothing_after_it():
    big = rounded(0.5, np.linspace(-2, 4, 60), 1e-3)
    epsilon, limit = big[0].epsilon, 1e-3
    rule = lambda s: s.delta_at(epsilon) <= limit  # noqa: E731
    assert rule(big[0]) and not rule(big[0] + coin(0.01)[0])
    menu = [big, coin(0.1), bluntly(1e-4), rounded(0.2, [0.5, 2.0])]
    assert 0.95 < accounting.worst_adaptive_delta(menu, rule, epsilon, 2) / limit <= 1


def test_shares_say_what_they_divide():
    spent = accounting.Spending(2, 0.25, 1e-6, 1e-7, 9.0, 1e-5)
    for shares in SHARES[:2] + SHARES[3:]:
        parts = (accounting.gaussian_delta(2.0, 0.5), 1.1e-6, math.exp(2.0) * 1e-7)
        wanted = max(p / s if s else math.inf for p, s in zip(parts, shares, strict=False))
        assert spent.delta_at(2.0, shares) == pytest.approx(min(wanted, 1.0))
    assert spent.delta_at(9.0, SHARES[2]) == 1e-5 and spent.delta_at(8.9, SHARES[2]) == 1.0
    for delta in (1e-4, 1e-2):
        epsilon = spent.epsilon_at(delta)
        assert spent.delta_at(epsilon) <= delta < spent.delta_at(epsilon * (1 - 1e-6))
    for bad in ({"own": -1.0}, {"mu_squared": math.nan}, {"neighboring": "friends"}):
        with pytest.raises(ValueError):
            accounting.Spending(**bad)
    with pytest.raises(ValueError, match="replace neighboring datasets, not add_remove"):
        accounting.Spending.of(accounting.Receipt([gaussian(0.1)], "replace", 1e-6), "add_remove")


# Slips in one line that no other test noticed: exact numbers, enumeration, brute force on tiny cases.


def is_just_above(number, exact):
    """Rounded up: what floats lose in a product and a little, no more."""
    return exact <= Fraction(number) <= exact * (1 + Fraction(15, 10**16))


def test_a_claim_is_the_square_of_its_pure_cost():
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
    law = accounting_gaussian.log_gaussian_delta
    mu = filters.dominating_mu(curve, last, cut)
    assert asked == grid[:-1].tolist()  # left ends, against the right ends of the other curve
    assert np.all(law(grid[1:], np.asarray(mu)) >= wanted + 0.9e-9)
    assert not np.all(law(grid[1:], np.asarray(mu * (1 - 2e-6))) >= wanted)
    # a law that is only just equal is not enough, one that lies above by a hair is
    for more, found in ((0.0, 2.0), (0.9e-9, 2.0), (1.1e-9, 1.0)):

        def step(e, mu, more=more):
            return wanted + (-1 if mu < 1 else more if mu < 2 else 1e-8)

        monkeypatch.setattr(filters, "log_gaussian_delta", step)
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
        got = float(accounting_gaussian.log_gaussian_delta(np.asarray(at), np.asarray(mu * factor)))
        assert (got >= floor) == is_enough


@pytest.mark.parametrize("shares", [Shares(), Shares(0.25, 0.25, 0.25, 0.25), Shares(0.1, 0.6, 0.2, 0.1)])  # fmt: skip
def test_a_filter_s_two_limits_are_each_other_s_inverse(shares):
    spent = Spending.total([Spending.claim(0.3, 1e-9)] * 40)
    for delta in (1e-5, 1e-3):
        epsilon = spent.epsilon_at(delta, shares)
        assert spent.delta_at(epsilon, shares) <= delta < spent.delta_at(epsilon * (1 - 1e-9), shares)  # fmt: skip
    assert Spending.claim(0.3, 1e-9).epsilon_at(1e-9, shares) == 0.3


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
    assert 0 < mu < 1 and float(accounting_gaussian.log_gaussian_delta(at, np.asarray(mu))) >= floor
