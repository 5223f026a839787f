"""Accounting against two witnesses: 60-digit arithmetic and dp-accounting."""

import inspect
import itertools
import math
import warnings
from dataclasses import replace
from functools import partial

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

from dplit import accounting
from dplit.accounting import Receipt, Release, mixtures, receipts
from dplit.accounting import filters as fi
from dplit.accounting import gaussian as ac
from dplit.inputs import PrivacyWarning
from dplit.inputs.checks import check_delta, check_epsilon

EPSILONS = np.unique(np.r_[1e-6, np.logspace(-3, 2, 26), 300, 720, 1000])
DELTAS = np.logspace(-12, -3, 10)
GRID = list(itertools.product(EPSILONS, DELTAS))


def true_delta(epsilon, mu):
    with mpmath.workdps(60):
        e, m = mpmath.mpf(float(epsilon)), mpmath.mpf(float(mu))
        phi = lambda t: mpmath.erfc(-t / mpmath.sqrt(2)) / 2  # noqa: E731
        return phi(m / 2 - e / m) - mpmath.exp(e) * phi(-m / 2 - e / m)


def relative(value, truth):
    return float(mpmath.mpf(float(value)) / truth - 1)


def test_gaussian_conversions_hold_to_11_digits_and_never_overclaim():
    grid = GRID + [(0.0, d) for d in DELTAS]
    assert len(GRID) == 300
    epsilon, delta = np.array(grid).T
    mu = ac.gaussian_mu(epsilon, delta)
    computed = ac.gaussian_delta(epsilon, mu)
    back = ac.gaussian_epsilon(delta, mu)
    for e, d, m, c, b in zip(epsilon, delta, mu, computed, back, strict=True):
        truth = true_delta(e, m)
        assert truth <= mpmath.mpf(d), (e, d)  # what (epsilon, delta) bought is really worth it
        assert 0 <= relative(c, truth) <= 1e-11, (e, d)  # rounded up, by at most 1e-11
        assert abs(relative(d, truth)) < 1e-8, (e, d)  # and nothing was wasted
        assert b <= e * (1 + 1e-9) + 1e-12
        if b > 0:
            assert true_delta(b, m) <= mpmath.mpf(d)


def test_mu_is_exact_to_11_digits():
    for e, d in GRID[::7]:
        m = ac.gaussian_mu(e, d)
        root = mpmath.findroot(
            lambda t, e=e, d=d: mpmath.log(true_delta(e, t)) - mpmath.log(d),
            (m * 0.999, m * 1.001),
            solver="anderson",
        )
        assert abs(relative(m, root)) < 1e-11


def test_dp_accounting_agrees():
    from dp_accounting import pld
    from dp_accounting.dp_event import ComposedDpEvent, GaussianDpEvent

    for mu, times, delta in [(0.3, 1, 1e-6), (0.1, 25, 1e-5), (1.0, 4, 1e-8)]:
        accountant = pld.PLDAccountant()
        accountant.compose(ComposedDpEvent([GaussianDpEvent(1 / mu)] * times))
        oracle = accountant.get_epsilon(delta)
        ours = ac.gaussian_epsilon(delta, mu * math.sqrt(times))
        assert ours == pytest.approx(oracle, rel=1e-3)
        # the oracle rounds up; it must never be below the exact value
        assert oracle >= ours * (1 - 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (3.0, 1e-5), (50.0, 1e-3), (1e-3, 1e-12)]
)
def test_zcdp_conversions_invert_each_other(epsilon, delta):
    rho = ac.zcdp_rho(epsilon, delta)
    assert ac.zcdp_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-9)
    assert ac.zcdp_epsilon(rho, delta) <= epsilon
    assert ac.zcdp_delta(epsilon, rho) == pytest.approx(delta, rel=1e-7)
    assert ac.zcdp_delta(epsilon, rho) <= delta


@settings(max_examples=100, deadline=None)
@given(st.floats(1e-4, 50), st.floats(-27, -2))
def test_zcdp_is_a_valid_bound_for_gaussians(rho, log_delta):
    delta = math.exp(log_delta)
    assert ac.zcdp_epsilon(rho, delta) >= ac.gaussian_epsilon(delta, math.sqrt(2 * rho)) * (
        1 - 1e-9
    )
    # better than the simple form
    assert ac.zcdp_epsilon(rho, delta) <= rho + 2 * math.sqrt(rho * -log_delta)


@pytest.mark.parametrize("epsilon", [37.9, 38.2, 38.4, 38.5, 38.6, 39.0, 50.0, 900.0])
def test_what_is_too_small_for_a_float_is_no_promise_of_zero(epsilon):
    """At mu = 1 delta goes from 5e-308, a full float, through those with few digits, to nothing."""
    true = true_delta(epsilon, 1.0)
    assert true <= ac.gaussian_delta(epsilon, 1.0) <= true * (1 + 2e-11) + 1e-323
    assert ac.gaussian_delta(epsilon, 1.0) > 0 == ac.gaussian_delta(epsilon, 0.0)
    assert ac.gaussian_delta(epsilon, 1e-140) > 0  # whose logarithm is no float


def test_scalars_and_arrays_alike():
    grid = ac.gaussian_mu(np.array([[0.5], [1.0]]), np.array([1e-6, 1e-8, 0.0]))
    assert grid.shape == (2, 3) and grid[1, 0] == ac.gaussian_mu(1.0, 1e-6) and grid[0, 2] == 0
    assert isinstance(ac.gaussian_mu(1.0, 1e-6), float)
    assert (
        ac.gaussian_delta(1.0, 0.0) == 0
        and ac.gaussian_delta(0.0, 0.0) == 0
        and ac.gaussian_delta(3.0, np.inf) == 1
    )
    assert (
        ac.gaussian_epsilon(0.0, 1.0) == np.inf
        and ac.gaussian_epsilon(0.5, 0.1) == 0
        and ac.gaussian_epsilon(1e-6, 0.0) == 0
    )
    assert (
        ac.zcdp_epsilon(0.0, 1e-6) == 0
        and ac.zcdp_epsilon(1.0, 0.0) == np.inf
        and ac.zcdp_delta(1.0, 0.0) == 0
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda: accounting.gaussian_delta(-1.0, 1.0),
        lambda: accounting.gaussian_delta(1.0, float("nan")),
        lambda: accounting.gaussian_epsilon(2.0, 1.0),
        lambda: accounting.gaussian_mu(1.0, -1e-6),
        lambda: accounting.zcdp_epsilon(-0.1, 1e-6),
        lambda: accounting.zcdp_rho(1.0, 0.0),
        lambda: accounting.subsampled(1.0, 0.0, n_drawn=5, n_rows=4),
    ],
)
def test_impossible_arguments_are_refused_in_one_sentence(call):
    with pytest.raises(ValueError, match=r"^[^\n]+[.:]?[^\n]*$"):
        call()


def test_composition_by_hand():
    assert ac.basic_composition([0.1] * 10, [1e-7] * 10) == (
        pytest.approx(1.0),
        pytest.approx(1e-6),
    )
    epsilon, delta = ac.advanced_composition(0.1, 1e-8, 100, 1e-6)
    assert epsilon == pytest.approx(
        0.1 * math.sqrt(200 * math.log(1e6)) + 10 * math.expm1(0.1)
    ) and delta == pytest.approx(2e-6)
    assert ac.gdp_composition([3.0, 4.0]) == pytest.approx(5.0)


def test_subsampling_equals_the_definition_at_the_ends():
    assert ac.subsampled(1.0, 1e-6, 10, 10) == (pytest.approx(1.0), pytest.approx(1e-6))
    assert ac.subsampled(0.01, 1e-6, 1, 100)[0] == pytest.approx(0.01 / 100, rel=0.01)


# ---------------------------------------------------------------- receipts


def gaussian(mu, times=1):
    return receipts.Release("g", "gaussian", 1.0, 1 / mu, times=times, mu=mu)


def pure(epsilon, times=1, mechanism="laplace"):
    return receipts.Release("p", mechanism, 1.0, 1 / epsilon, times=times, epsilon=epsilon)


def test_gaussian_receipts_are_exact_pure_ones_are_sums():
    mu = ac.gaussian_mu(1.0, 1e-6)
    receipt = receipts.Receipt([gaussian(mu / 4, times=16)], "add_remove", 1e-6)
    assert receipt.epsilon == pytest.approx(1.0, rel=1e-9) and receipt.epsilon <= 1.0
    assert receipt.mu == pytest.approx(mu) and receipt.rho == pytest.approx(mu**2 / 2)
    sums = receipts.Receipt([pure(0.1, 3), pure(0.7, mechanism="exponential")], "replace", 1e-6)
    assert sums.epsilon == pytest.approx(1.0)
    assert sums.delta == 0.0 and sums.mu is None
    assert sums.rho == pytest.approx(3 * 0.005 + 0.49 / 8)


def test_mixed_receipts_cost_less_than_the_plain_sum_and_than_zcdp():
    few = receipts.Receipt([gaussian(0.2), pure(0.5)], "add_remove", 1e-6)
    assert 0.5 < few.epsilon < 0.5 + ac.gaussian_epsilon(1e-6, 0.2)
    many = receipts.Receipt([gaussian(0.2), pure(0.01, 10_000)], "add_remove", 1e-6)
    assert many.epsilon == pytest.approx(ac.gaussian_epsilon(1e-6, math.hypot(0.2, 1)), rel=1e-2)
    assert many.epsilon < ac.zcdp_epsilon(0.02 + 10_000 * 0.01**2 / 2, 1e-6)


def test_releases_with_their_own_delta_use_it_up():
    receipt = receipts.Receipt(
        [receipts.Release("avg", "noisy_avg", epsilon=0.5, delta=1e-7, times=2)], "add_remove", 1e-6
    )
    assert receipt.epsilon <= 1.0 and receipt.rho is None
    # two times 1e-7 do not fit into 1e-7
    assert receipts.Receipt(receipt.releases, "add_remove", 1e-7).epsilon == math.inf


def test_receipts_add_up_and_refuse_mixed_neighbors():
    a, b = (
        receipts.Receipt([gaussian(0.1)], "replace", 1e-6),
        receipts.Receipt([gaussian(0.1)], "replace", 1e-6, private=False),
    )
    both = a + b
    assert both.mu == pytest.approx(0.1 * math.sqrt(2)) and both.delta == 2e-6 and not both.private
    with pytest.raises(ValueError, match="different relations"):
        a + receipts.Receipt([], "add_remove", 1e-6)


def test_receipts_print_in_terminal_and_notebook():
    receipt = receipts.Receipt(
        [gaussian(0.1, 3)], "add_remove", 1e-6, private=False, title="NoisyLloyd"
    )
    assert (
        "NOT private" in str(receipt)
        and "mu = 0.1" in str(receipt)
        and "| g | gaussian |" in receipt._repr_markdown_()
    )
    assert receipts.Receipt([], "add_remove").epsilon == 0
    with pytest.raises(ValueError, match="exactly one"):
        receipts.Release("x", "gaussian")


# ---------------------------------------------------------------- mixtures and covers

MIX = [
    receipts.Release("c", "cover", exponent=0.033),
    gaussian(0.17),
    pure(0.1),
    pure(0.06),
]
BOTH = pytest.mark.parametrize("neighboring", ["add_remove", "replace"])


def true_side(epsilon, mu, exponent, without=True):
    """Equation (4) before it was rearranged, with many digits."""
    e, m, y = (mpmath.mpf(float(v)) for v in (exponent, mu, epsilon))
    if not without:
        return 1 - mpmath.exp(y) + mpmath.exp(y) * true_side(-epsilon, mu, exponent)
    a, phi = mpmath.expm1(e), lambda t: mpmath.erfc(-t / mpmath.sqrt(2)) / 2
    if mu == 0:
        return -mpmath.expm1(-e) * mpmath.exp(-(y + e) / a) if y >= -e else -mpmath.expm1(y)
    u = m / 2 - (y + e) / m
    z = u + m / a
    tail = mpmath.exp((z**2 - u**2) / 2) * phi(-z)
    return phi(u) - mpmath.exp(y) * phi(u - m) - mpmath.expm1(-e) * tail


def true_mixture(epsilon, mu, exponent, coin, neighboring):
    p = 1 / (1 + mpmath.exp(-mpmath.mpf(float(coin))))
    coins = [(coin, p), (-coin, 1 - p)] if coin else [(0.0, mpmath.mpf(1))]
    side = lambda shift, without: sum(  # noqa: E731
        c
        * true_side(
            mpmath.mpf(float(epsilon)) - shift - mpmath.mpf(float(v)), mu, exponent, without
        )
        for v, c in coins
    )
    if neighboring == "replace":
        return min(mpmath.exp(exponent) * side(mpmath.mpf(float(exponent)), True), 1)
    return max(side(0, True), side(0, False))


@BOTH
@pytest.mark.filterwarnings("error")
def test_mixtures_hold_to_9_digits_and_never_overclaim(neighboring):
    costs = [0.0, 1e-6, 0.03, 0.5, 7.0], [1e-5, 0.03, 1.0, 7.9, 12.0], [0.0, 0.1, 30.0]
    checked = 0
    for mu, exponent, coin in itertools.product(*costs):
        for epsilon in (0.0, 0.08, 2.0, 60.0):
            given = {"mu": mu, "exponent": exponent, "pure": [(coin, 1)] if coin else []}
            ours = mixtures.mixture_delta(epsilon, **given, neighboring=neighboring)
            with mpmath.workdps(250):
                truth = true_mixture(epsilon, mu, exponent, coin, neighboring)
            assert 0 <= ours <= 1
            if truth > 1e-150:
                assert -1e-10 < relative(ours, truth), (epsilon, given)
                if exponent < 8 or not coin:
                    assert relative(ours, truth) < 1e-9, (epsilon, given)
                checked += 1
    assert checked > 150


@pytest.mark.filterwarnings("error")
def test_mixtures_at_the_ends_of_floating_point():
    tiny, huge = 5e-324, 1e300
    for mu, exponent, epsilon in itertools.product((0.0, tiny, 1.0, huge), repeat=3):
        for neighboring in ("add_remove", "replace"):
            for costs in ((), [(tiny, 1)], [(1.0, 1)], [(1e4, 3)]):
                delta = mixtures.mixture_delta(
                    epsilon, mu=mu, exponent=exponent, pure=costs, neighboring=neighboring
                )
                assert 0 <= delta <= 1, (mu, exponent, epsilon, costs)
        assert 0 <= mixtures.cover_delta(epsilon, exponent) <= 1
    assert mixtures.mixture_delta(math.inf, mu=1.0, exponent=0.1, pure=[(1.0, 1)]) == 0
    assert mixtures.mixture_delta(1.0, mu=math.inf, exponent=0.1) == 1
    assert mixtures.cover_delta(1.0, 0.0) == 0 and mixtures.cover_delta(1.0, math.inf) == 1
    for epsilon, delta in itertools.product((1e-12, 1.0, 1e4), (1e-320, 1e-12, 0.5, 1 - 1e-9)):
        exponent = mixtures.cover_exponent(epsilon, delta)
        assert mixtures.cover_delta(epsilon, exponent) <= delta
        assert mixtures.cover_delta(epsilon, exponent * (1 + 1e-7)) > delta or delta < 1e-308


@BOTH
@settings(max_examples=60, deadline=None)
@given(st.tuples(*[st.floats(-9, 1.5)] * 5), st.integers(0, 4))
def test_a_mixture_grows_with_each_cost_and_falls_with_epsilon(neighboring, logs, grown):
    def delta(t):
        epsilon, mu, exponent, first, second = t
        return mixtures.mixture_delta(
            epsilon,
            mu=mu,
            exponent=exponent,
            pure=[(first, 1), (second, 2)],
            neighboring=neighboring,
        )

    costs = [10**t for t in logs]
    more = [p * (1.1 if i == grown else 1) for i, p in enumerate(costs)]
    less, larger = sorted([costs, more], key=lambda t: -t[0] if grown == 0 else t[grown])
    slack = 1 + 3e-9 + 1e-15 * sum(costs) / costs[2]  # what the last digit of epsilon is worth
    assert delta(less) <= delta(larger) * slack or max(costs[2], more[2]) > 8


@BOTH
@pytest.mark.parametrize("delta", [1e-250, 1e-9, 1e-3, 0.5])
@pytest.mark.parametrize(
    "releases",
    [
        MIX,
        MIX + MIX,
        [gaussian(0.5)],
        [pure(0.5), pure(0.7)],
        [gaussian(0.5), pure(0.1, 9)],
        [gaussian(0.2), pure(0.3, 40, "exponential")],
        [receipts.Release("avg", "noisy_avg", epsilon=0.5, delta=1e-251), gaussian(0.3)],
    ],
)
def test_delta_at_and_epsilon_at_are_inverse(releases, delta, neighboring):
    receipt = receipts.Receipt(releases, neighboring)
    epsilon = receipt.epsilon_at(delta)
    assert 0 < epsilon < math.inf or delta == 0.5
    if epsilon > 0:
        assert receipt.delta_at(epsilon) == pytest.approx(delta, rel=1e-6)
        assert receipt.delta_at(epsilon) <= delta * (1 + 1e-9)
    else:
        assert receipt.delta_at(0.0) <= delta


def test_mixtures_agree_with_privacy_loss_distributions():
    from dp_accounting.pld import privacy_loss_distribution as pld

    grid = {"value_discretization_interval": 1e-4}
    noise = pld.from_gaussian_mechanism(2.0, **grid)
    coins = pld.from_discrete_laplace_mechanism(0.3, **grid).self_compose(2)
    laplace = pld.from_laplace_mechanism(1 / 0.3, **grid).self_compose(2)
    receipt = receipts.Receipt(
        [gaussian(0.3), pure(0.3), gaussian(0.4), pure(0.3)], "add_remove", 1e-6
    )
    oracle = noise.compose(coins).get_epsilon_for_delta(1e-6)  # rounds up
    assert receipt.epsilon <= oracle == pytest.approx(receipt.epsilon, rel=1e-3)
    assert noise.compose(laplace).get_epsilon_for_delta(1e-6) <= receipt.epsilon


def pick_laws(sets, rows, exponent, forced=None):
    """Every sequence of three choices and its probability; covered rows leave."""
    laws = {(): (1.0, frozenset(rows))}
    for _ in range(3):
        found = {}
        for past, (p, left) in laws.items():
            now = sets[hash(past) % len(sets)]  # the next candidates depend on the choices so far
            weights = [math.exp(exponent * len(s & left)) for s in now]
            for i, w in enumerate(weights):
                found[(*past, i)] = p * w / sum(weights), left - now[i]
        laws = found
    return {choices: p for choices, (p, _) in laws.items()}


def excess(p, q, epsilon):
    return math.fsum(max(p[k] - math.exp(epsilon) * q[k], 0.0) for k in p)


@pytest.mark.parametrize("seed", range(6))
def test_covers_of_small_set_systems_never_exceed_their_cost(seed):
    rng, closest = np.random.default_rng(seed), 0.0
    for _ in range(12):
        n, exponent = int(rng.integers(1, 7)), float(10 ** rng.uniform(-1.3, 0.6))
        sets = [
            [
                frozenset(np.flatnonzero(rng.random(n) < rng.uniform(0.1, 0.9)).tolist())
                for _ in range(m)
            ]
            for m in rng.integers(2, 7, size=3)
        ]
        without, first, second = (
            pick_laws(sets, rows, exponent)
            for rows in (range(2, n), [*range(2, n), 0], [*range(2, n), 1])
        )
        for epsilon in (0.0, 0.3 * exponent, 0.8 * exponent, 2 * exponent):
            cost = mixtures.cover_delta(epsilon, exponent) * (1 + 1e-9)
            for one in (first, second):
                assert excess(without, one, epsilon) <= cost
                assert excess(one, without, epsilon) <= cost
                closest = max(closest, excess(without, one, epsilon) / cost)
            cost = mixtures.mixture_delta(epsilon, exponent=exponent, neighboring="replace")
            assert excess(first, second, epsilon) <= cost
            assert excess(second, first, epsilon) <= cost
    assert closest > 0.3  # the systems are not trivial


@pytest.mark.parametrize(("epsilon", "exponent"), [(0.5, 0.1), (1.0, 0.0916), (2.0, 0.7)])
def test_a_ladder_costs_nearly_the_whole_cost_of_a_cover(epsilon, exponent):
    """At each of many choices, one of N equal candidates covers the extra row, so that hardly anything is learnt at once."""
    n, a = 20_000, math.expm1(exponent)
    rungs = np.arange(int(30 * n))
    p = np.exp(rungs * np.log1p(-1 / n)) / n  # the extra row's set is chosen at this rung first
    q = np.exp(rungs * math.log((n - 1) / (n + a)) + exponent) / (n + a)
    cost = np.maximum(p - math.exp(epsilon) * q, 0).sum()
    assert 0.99 < cost / mixtures.cover_delta(epsilon, exponent) <= 1


def test_receipts_of_one_kind_keep_their_costs():
    assert mixtures.mixture_delta(1.0, mu=0.4) == ac.gaussian_delta(1.0, 0.4)
    assert mixtures.mixture_delta(1.0, exponent=0.1) == pytest.approx(
        mixtures.cover_delta(1.0, 0.1)
    )
    one_gaussian, one_pure = (
        receipts.Receipt([gaussian(0.4)], "replace"),
        receipts.Receipt([pure(0.4)], "replace"),
    )
    assert one_gaussian.epsilon_at(1e-7) == ac.gaussian_epsilon(1e-7, 0.4)
    assert one_gaussian.epsilon == math.inf and one_pure.epsilon == 0.4
    # a coin: P - e^epsilon Q, where it is right
    coin = (math.exp(0.4) - math.exp(0.1)) / (1 + math.exp(0.4))
    assert one_pure.delta_at(0.1) == pytest.approx(coin) and one_pure.delta_at(0.4) == 0
    assert receipts.Receipt(MIX, "add_remove").epsilon == math.inf  # delta = 0
    assert (
        receipts.Receipt([], "replace").epsilon_at(0.0)
        == 0
        == receipts.Receipt([], "replace").delta_at(0.0)
    )
    zeros = [gaussian_zero, pure_zero, cover_zero] = [
        receipts.Release("0", "nothing", **{cost: 0.0}) for cost in ("mu", "epsilon", "exponent")
    ]
    assert (
        receipts.Receipt(zeros, "add_remove").epsilon
        == 0
        == receipts.Receipt(zeros, "replace").epsilon
    )
    assert receipts.Receipt([*zeros, *MIX], "replace", 1e-7).epsilon == pytest.approx(
        receipts.Receipt(MIX, "replace", 1e-7).epsilon
    )


@BOTH
def test_renyi_is_never_below_the_exact_cost(neighboring):
    rng = np.random.default_rng(0)
    for _ in range(40):
        mu, exponent, first, second = 10 ** rng.uniform(-2.5, 0.3, size=4)
        kinds = (
            gaussian(mu),
            receipts.Release("c", "cover", exponent=exponent),
            pure(first),
            pure(second, 3),
        )
        releases = [r for r in kinds if rng.random() < 0.7] or [pure(first)]
        epsilon = float(rng.uniform(0, 3))
        exact = receipts._mixture_delta(epsilon, releases, neighboring)
        assert exact <= receipts._renyi_delta(epsilon, releases, neighboring) * (1 + 1e-9)


def test_choices_cost_the_smaller_of_coin_and_bounded_range():
    many, few = [gaussian(0.2), pure(0.05, 400, "exponential")], [pure(0.5, 2, "exponential")]
    for releases in (many, few):
        coins = [
            r if r.mu else receipts.Release("p", "laplace", epsilon=r.epsilon, times=r.times)
            for r in releases
        ]
        choices, coins = (
            receipts.Receipt(rs, "replace").epsilon_at(1e-6) for rs in (releases, coins)
        )
        renyi = ac.zcdp_epsilon(receipts.Receipt(releases, "replace").rho, 1e-6)
        assert choices == pytest.approx(min(coins, renyi), rel=1e-6)
    assert renyi > coins  # few: the coin; many: the bounded range
    assert receipts.Receipt(many, "replace").epsilon_at(1e-6) < ac.zcdp_epsilon(0.02 + 0.5, 1e-6)


@BOTH
def test_two_covers_cost_at_most_their_sum(neighboring):
    one = receipts.Receipt(MIX, neighboring, 1e-7)
    both = one + receipts.Receipt(
        [receipts.Release("c", "cover", exponent=0.02), pure(0.1)], neighboring, 1e-7
    )
    alone = receipts.Receipt(both.releases[-2:], neighboring, 1e-7)
    assert one.epsilon_at(2e-7) < both.epsilon < one.epsilon + alone.epsilon
    assert both.delta == 2e-7 and both.rho is None and both.mu is None


def test_many_different_pure_costs_cost_at_most_the_plain_sum():
    releases = [gaussian(1.0)] + [pure(0.0001 * (i + 1)) for i in range(20)]
    receipt = receipts.Receipt(releases, "replace", 1e-6)
    alone = ac.gaussian_epsilon(1e-6, 1.0)
    assert alone < receipt.epsilon <= (0.021 + alone) * (1 + 1e-9)
    assert receipts.Receipt(releases[1:], "replace").epsilon_at(1e-30) == pytest.approx(0.021)


@BOTH
def test_the_largest_scale_is_the_largest(neighboring):
    programs = {
        "mixture": lambda t: [
            receipts.Release("c", "cover", exponent=0.1 * t),
            gaussian(0.3 * t),
            pure(0.2 * t),
        ],
        "gaussian": lambda t: [gaussian(t, 3)],
        "two covers": lambda t: [receipts.Release("c", "cover", exponent=t, times=2), pure(t)],
        "choices": lambda t: [gaussian(t), pure(t, 100, "exponential")],
        "own delta": lambda t: [gaussian(t), receipts.Release("a", "avg", epsilon=t, delta=1e-8)],
    }
    for epsilon, delta in ((1.0, 1e-6), (0.05, 1e-7), (8.0, 1e-3)):
        for name, program in programs.items():
            scale = receipts.largest_scale(program, epsilon, delta, neighboring)
            receipt = receipts.Receipt(program(scale), neighboring, delta)
            assert receipt.epsilon <= epsilon and receipt.delta_at(epsilon) <= delta, name
            more = receipts.Receipt(program(scale * 1.001), neighboring, delta)
            assert more.epsilon > epsilon and more.delta_at(epsilon) > delta, name
    with pytest.raises(ValueError, match="deltas of the releases alone"):
        receipts.largest_scale(programs["own delta"], 1.0, 1e-9, neighboring)


def test_own_deltas_are_beside_the_mixture():
    own = receipts.Release("a", "avg", epsilon=0.1, delta=1e-7)
    plain = receipts.Receipt([pure(0.1), gaussian(0.2)], "replace")
    with_own = receipts.Receipt([own, gaussian(0.2)], "replace")
    for epsilon in (0.0, 0.5, 1.0):
        assert with_own.delta_at(epsilon) == pytest.approx(
            1e-7 + (1 - 1e-7) * plain.delta_at(epsilon), rel=1e-12
        )
    assert with_own.epsilon_at(0.99e-7) == math.inf and with_own.epsilon_at(1.0) == 0
    for d in np.random.default_rng(0).uniform(0, 0.5, size=50).tolist():
        exactly = receipts.Receipt(
            [receipts.Release("a", "avg", epsilon=0.1, delta=d)], "replace", d
        )
        assert exactly.epsilon == 0.1  # no digit of delta is lost


@pytest.mark.parametrize(
    "call",
    [
        lambda: accounting.mixture_delta(-1.0),
        lambda: accounting.mixture_delta(1.0, mu=-1.0),
        lambda: accounting.mixture_delta(1.0, exponent=math.nan),
        lambda: accounting.mixture_delta(1.0, pure=[(-0.1, 2)]),
        lambda: accounting.mixture_delta(1.0, mu=1.0, neighboring="both"),
        lambda: accounting.cover_delta(-1.0, 0.1),
        lambda: accounting.cover_exponent(0.0, 1e-6),
        lambda: accounting.cover_exponent(1.0, 0.0),
        lambda: accounting.cover_exponent(math.nan, 1e-6),
        lambda: accounting.Release("c", "cover", exponent=-0.1),
        lambda: accounting.Release("c", "cover", exponent=0.1, epsilon=0.1),
        lambda: accounting.Receipt(MIX, "replace").epsilon_at(1.5),
        lambda: accounting.Receipt(MIX, "replace").epsilon_at(math.nan),
        lambda: accounting.Receipt(MIX, "replace").delta_at(-0.1),
        lambda: accounting.largest_scale(lambda t: [], 1.0, 1e-6, "replace"),
        lambda: accounting.largest_scale(lambda t: MIX, 1.0, 0.0, "replace"),
    ],
)
def test_impossible_costs_of_mixtures_are_refused(call):
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        call()


# ---------------------------------------------------------------- budgets


@pytest.mark.parametrize(
    ("epsilon", "delta", "error"),
    [
        (0, 1e-6, ValueError),
        (-1, 1e-6, ValueError),
        (math.nan, 1e-6, ValueError),
        (math.inf, 1e-6, ValueError),
        (True, 1e-6, TypeError),
        ("1", 1e-6, TypeError),
    ]
    + [
        (None, 1e-6, ValueError),
        (10**400, 1e-6, ValueError),
        (-(10**400), 1e-6, ValueError),
        (1, 10**400, ValueError),
        (1j, 1e-6, TypeError),
        (1, 0, ValueError),
        (1, 1, ValueError),
        (1, -1e-6, ValueError),
        (1, math.nan, ValueError),
        (1, None, ValueError),
    ],
)
def test_epsilon_and_delta_are_checked(epsilon, delta, error):
    with pytest.raises(error, match="Thing"):
        check_epsilon(epsilon, "epsilon", "Thing"), check_delta(delta, "delta", "Thing")


def test_weak_parameters_warn():
    with pytest.warns(PrivacyWarning, match="little"):
        check_epsilon(11, "epsilon", "Thing")
    with pytest.warns(PrivacyWarning, match="large"):
        check_delta(0.01, "delta", "Thing")
    assert check_delta(0, "delta", "Thing", pure=True) == 0.0


# ---------------------------------------------------------------- ways to talk a receipt or a budget into less


@pytest.mark.parametrize(
    "cost",
    [
        {"epsilon": -0.9},
        {"epsilon": math.nan},
        {"mu": math.inf},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "delta": -1e-9},
        {"mu": 0.1, "times": 0},
        {"mu": 0.1, "times": 0.5},
        {"mu": 0.1, "times": True},
    ],
)
def test_impossible_costs_are_refused(cost):
    kind = TypeError if cost.get("times") in (0.5, True) else ValueError
    with pytest.raises(kind, match="release 'x'|times=.*: Release needs"):
        receipts.Release("x", "laplace", **cost)


def test_choices_with_a_delta_get_no_discount():
    fifty = receipts.Receipt(
        [receipts.Release("c", "exponential", epsilon=3.0, delta=1e-7, times=50)], "replace", 1e-4
    )
    pure = receipts.Receipt(
        [receipts.Release("c", "laplace", epsilon=3.0, delta=1e-7, times=50)], "replace", 1e-4
    )
    assert fifty.epsilon == pure.epsilon


def test_printed_totals_are_rounded_up():
    receipt = receipts.Receipt([receipts.Release("x", "laplace", epsilon=1.00049)], "add_remove")
    assert "epsilon = 1.001," in str(receipt)
    third = receipts.Receipt([receipts.Release("x", "laplace", epsilon=0.1, times=3)], "add_remove")
    assert "epsilon = 0.3," in str(third)
    assert sum([receipt, third]).epsilon == pytest.approx(1.30049)


def test_large_epsilons_do_not_overflow():
    assert ac.subsampled(1000.0, 0.0, 1, 10)[0] == pytest.approx(1000 - math.log(10))
    for slack, times in ((0.0, 3), (1.0, 3), (1e-6, -1)):
        with pytest.raises(ValueError, match="slack|times"):
            accounting.advanced_composition(0.1, 0.0, times, slack)


# ---------------------------------------------------------------- private failures


def random_distribution(rng, n):
    return rng.dirichlet(np.full(n, 0.5))


def near(rng, law, failure):
    """A law within total variation `failure`, at that distance as often as not: mass moved from some outcomes to others."""
    target = (
        random_distribution(rng, len(law))
        if rng.random() < 0.5
        else np.eye(len(law))[rng.integers(len(law))]
    )
    apart = np.abs(target - law).sum() / 2
    return law + (target - law) * min(1.0, failure / max(apart, 1e-12))


def hockey_stick(P, Q, epsilon):
    """By every event of a finite space."""
    events = itertools.product((0.0, 1.0), repeat=len(P))
    return max(float(np.dot(e, P) - math.exp(epsilon) * np.dot(e, Q)) for e in events)


@pytest.mark.parametrize("seed", range(4))
def test_a_private_failure_costs_what_equation_5_says(seed):
    rng, tight = np.random.default_rng(seed), 0.0
    for _ in range(150):
        P, Q = random_distribution(rng, 4), random_distribution(rng, 4)
        failure, epsilon = rng.uniform(0, 0.2), rng.uniform(0, 2)
        moved = hockey_stick(near(rng, P, failure), near(rng, Q, failure), epsilon)
        bound = mixtures.failure_delta(epsilon, failure) + hockey_stick(P, Q, epsilon)
        assert moved <= bound + 1e-12
        tight = max(tight, moved / bound)
    assert tight > 0.8
    # attained, and wrong without the factor: a coin moved towards what tells
    coin = np.array([math.e, 1.0]) / (1 + math.e)
    moved = hockey_stick(coin + [0.01, -0.01], coin[::-1] - [0.01, -0.01], 1.0)
    assert moved == pytest.approx(mixtures.failure_delta(1.0, 0.01)) and moved > 2 * 0.01


def test_failures_of_several_releases_add_up_in_total_variation():
    """Two coins, one after the other, the second law chosen by the first answer: every event of four outcomes."""
    rng = np.random.default_rng(0)
    coin = lambda e: np.array([math.exp(e), 1.0]) / (1 + math.exp(e))  # noqa: E731
    releases = [
        receipts.Release("first", "laplace", epsilon=0.7, failure=0.02),
        receipts.Release("second", "laplace", epsilon=0.4, failure=0.03),
    ]
    receipt, worst = receipts.Receipt(releases, "replace", 1e-3), 0.0
    assert receipts._failure(releases) == pytest.approx(1 - 0.98 * 0.97)
    for _ in range(300):
        laws = []
        for side in (1, -1):
            one = near(rng, coin(0.7)[::side], 0.02)
            two = [near(rng, coin(0.4)[::side], 0.03) for _ in range(2)]
            laws.append(np.concatenate([one[0] * two[0], one[1] * two[1]]))
        for epsilon in (0.0, 0.3, 0.7, 1.1, 2.0):
            excess = hockey_stick(*laws, epsilon) - receipt.delta_at(epsilon)
            assert excess <= 1e-9
            worst = max(worst, hockey_stick(*laws, epsilon) / receipt.delta_at(epsilon))
    assert worst > 0.8


FAILING = {
    "pure": [receipts.Release("status", "laplace", epsilon=0.5, failure=1e-13), receipts.Release("rest", "laplace", epsilon=0.5, delta=1e-13)],
    "mixed": [receipts.Release("status", "laplace", epsilon=0.5, failure=1e-8), receipts.Release("means", "gaussian", mu=0.1)],
    "gaussian": [receipts.Release("means", "gaussian", mu=0.3, times=3, failure=1e-9)],
    "cover": [receipts.Release("cover", "cover", exponent=0.03, failure=1e-9), receipts.Release("means", "gaussian", mu=0.1)],
}  # fmt: skip


@pytest.mark.parametrize("releases", FAILING.values(), ids=FAILING)
def test_the_cost_with_a_failure_is_the_lowest_of_its_bounds(releases):
    receipt = receipts.Receipt(releases, "replace", 1e-6)
    plain = receipts.Receipt([replace(r, failure=0.0) for r in releases], "replace", 1e-6)
    F = receipts._failure(releases)
    grid = np.linspace(0, 12, 241)
    bounds = np.array([(1 + math.exp(e)) * F + plain.delta_at(e) for e in grid])
    for e, lowest in zip(grid[::12], np.minimum.accumulate(bounds)[::12], strict=True):
        assert receipt.delta_at(e) <= lowest * (1 + 1e-9)
        assert receipt.delta_at(e) >= plain.delta_at(e) + 2 * F * (1 - 1e-9)
    curve = [receipt.delta_at(e) for e in grid]
    assert np.all(np.diff(curve) <= 1e-12 * np.array(curve[1:]))
    least = curve[-1]
    assert receipt.epsilon_at(0.5 * least) == math.inf and receipt.epsilon_at(1.0) == 0
    for delta in np.geomspace(least * 1.001, 0.5, 9):
        epsilon = receipt.epsilon_at(delta)
        assert math.isfinite(epsilon) and receipt.delta_at(epsilon) <= delta * (1 + 1e-12)
        assert epsilon == 0 or receipt.delta_at(epsilon * (1 - 1e-6)) > delta * (1 - 1e-4)
    assert receipt.mu is None and receipt.rho is None
    assert "failure = " in str(receipt) and "failure = " in receipt._repr_markdown_()


def test_a_failure_is_no_free_lunch_anywhere():
    status = receipts.Release("status", "laplace", epsilon=0.5, failure=1e-7)
    pure = receipts.Receipt([status], "replace", 1e-6)
    assert pure.delta == 1e-6 and pure.epsilon == pytest.approx(0.5, rel=1e-5)  # not reset to 0
    assert receipts.Receipt([status], "replace").epsilon == math.inf  # nothing is pure here
    both = pure + receipts.Receipt([status], "replace", 1e-6)
    assert both.epsilon == pytest.approx(1.0, rel=1e-3) and both.releases == (status, status)
    twice = receipts.Receipt([replace(status, times=2)], "replace", 2e-6)
    assert twice.epsilon == pytest.approx(both.epsilon)
    parts = lambda scale: [status, receipts.Release("noise", "gaussian", mu=scale)]  # noqa: E731
    scale = receipts.largest_scale(parts, 1.0, 1e-6, "replace")
    receipt = receipts.Receipt(parts(scale), "replace", 1e-6)
    assert 0.999 < receipt.epsilon <= 1.0
    with pytest.raises(ValueError, match="failures"):
        receipts.largest_scale(parts, 1.0, 1e-7, "replace")
    for bad in (-0.1, 1.0, math.nan):
        with pytest.raises(ValueError, match="failure"):
            receipts.Release("x", "laplace", epsilon=1.0, failure=bad)


def test_delta_never_rises_with_epsilon_where_the_bound_is_above_one():
    coin = [receipts.Release("coin", "laplace", epsilon=1.0, failure=0.01)]
    receipt = receipts.Receipt(coin, "replace", 0.05)
    curve = [receipt.delta_at(e) for e in (0.0, 1.0, 3.0, 4.5, 4.6, 5.0, 10.0, 700.0, 1e6)]
    assert np.all(np.diff(curve) <= 1e-12) and curve[-1] == pytest.approx(curve[1], rel=1e-6)
    # the lowest bound is below 1, the one at epsilon 0 perhaps not
    for failure in (
        0.01,
        0.2,
        0.45,
    ):
        lossy = receipts.Receipt([replace(coin[0], epsilon=0.1, failure=failure)], "replace")
        least = lossy.delta_at(1e3)
        assert least < 1 and math.isfinite(lossy.epsilon_at(least * (1 + 1e-9)))
        assert lossy.epsilon_at(least * (1 - 1e-6)) == math.inf


def test_tails_are_added_in_full():
    """A failure that everybody can see: the proof gives own + rest, not own + (1 - own) rest."""
    eta, rest = 0.1, receipts.Receipt([gaussian(0.5)], "replace")
    receipt = receipts.Receipt(
        [receipts.Release("t", "tail", epsilon=0.0, delta=eta), gaussian(0.5)], "replace"
    )
    for epsilon in (0.0, 0.3, 1.0):
        assert receipt.delta_at(epsilon) == eta + rest.delta_at(epsilon)
    assert receipt.epsilon_at(0.2) == pytest.approx(rest.epsilon_at(0.1), rel=1e-9)
    assert receipt.epsilon_at(0.09) == math.inf
    assert (receipt + receipt).delta_at(50.0) == pytest.approx(2 * eta)


def test_a_release_that_is_private_on_paper_only_makes_no_receipt_private():
    paper = replace(gaussian(0.5), private=False)
    receipt = receipts.Receipt([gaussian(0.5), paper], "replace", 1e-6)
    assert not receipt.private and "NOT private" in str(receipt) and "seed" not in str(receipt)
    assert not (receipt + receipts.Receipt([gaussian(0.1)], "replace", 1e-6)).private


def test_a_warning_points_to_the_user_s_line():
    from dplit import NoisyLloyd

    with pytest.warns(PrivacyWarning) as caught:
        check_epsilon(20.0, "epsilon", "me")
        NoisyLloyd(2, epsilon=20.0, delta=1e-6, radius=1.0).fit(np.zeros((9, 1)))
    assert {w.filename for w in caught if w.category is PrivacyWarning} == {__file__}


# ---------------------------------------------------------------- the ends of the range, and where branches meet


def neighbors_of(value):
    return math.nextafter(value, -math.inf), value, math.nextafter(value, math.inf)


LOWS = [-20.0, -5.0, *neighbors_of(-3.0), *neighbors_of(-1.0), 0.0, 0.5, 3.0, *neighbors_of(8.0)]
MUS = [1e-6, 1e-3, 0.1, *neighbors_of(1.0), 2.0, 15.9, 300.0, 1500.0, 1e4, 1e6, 1e9]


def test_the_gaussian_curve_keeps_a_tenth_of_its_margin_on_both_sides_of_every_branch():
    worst, checked = 0.0, 0
    for mu, low in itertools.product(MUS, [*LOWS, 20.0, 36.0]):
        for epsilon in neighbors_of(mu * (low + mu / 2)):
            if epsilon < 0:
                continue
            with mpmath.workdps(200):
                e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
                phi = lambda t: mpmath.erfc(-t / mpmath.sqrt(2)) / 2  # noqa: E731
                truth = phi(m / 2 - e / m) - mpmath.exp(e) * phi(-m / 2 - e / m)
                log_truth = mpmath.log(truth)
                ours = mpmath.mpf(float(ac.log_gaussian_delta(np.asarray(epsilon), np.asarray(mu))))
                worst = max(worst, float(abs(ours - log_truth) / min(1, -log_truth)))
                rounded = mpmath.mpf(ac.gaussian_delta(epsilon, mu))
                assert truth <= rounded <= truth * (1 + mpmath.mpf("1e-11")), (epsilon, mu)
            checked += 1
    assert checked > 400 and worst < 0.1 * ac._MARGIN, worst


def test_mills_and_its_slope_agree_on_both_sides_of_their_branches():
    with mpmath.workdps(60):
        for t in map(float, [*neighbors_of(8.0), *neighbors_of(-1.0), 7.0, 20.0, 1e3]):
            x = mpmath.mpf(t)
            ratio = (
                mpmath.sqrt(mpmath.pi / 2) * mpmath.exp(x**2 / 2) * mpmath.erfc(x / mpmath.sqrt(2))
            )
            assert abs(relative(ac.mills(t), ratio)) < 2e-15, t
            assert abs(relative(ac.mills_slope(t), 1 - x * ratio)) < 5e-14, t


@BOTH
def test_mixtures_keep_a_tenth_of_their_slack_on_both_sides_of_every_branch(neighboring):
    worst = 0.0
    for mu, exponent in itertools.product((0.0, 0.03, *neighbors_of(1.0), 7.0), (0.03, 1.0, 8.0)):
        a = math.expm1(exponent)
        meet = {exponent, mu**2 / 2, mu**2 / 2 - exponent, mu**2 * (1 + a) / (2 * a) - exponent}
        for epsilon in [0.0, 2.0, *(v for m in meet if m > 0 for v in neighbors_of(m))]:
            ours = mixtures.mixture_delta(
                epsilon, mu=mu, exponent=exponent, neighboring=neighboring
            )
            with mpmath.workdps(250):
                truth = true_mixture(epsilon, mu, exponent, 0.0, neighboring)
            if truth > 1e-150 and ours < 1:
                worst = max(worst, abs(relative(ours, truth) - 1e-10))
    assert worst < 1e-11


def test_coins_have_the_binomial_distribution():
    for epsilon, times in ((0.01, 5000), (1.0, 300), (30.0, 3)):
        losses, chances = mixtures._coins([(epsilon, times)])
        with mpmath.workdps(60):
            p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
            for loss, chance in list(zip(losses, chances, strict=True))[:: max(1, times // 40)]:
                k = round((loss / epsilon + times) / 2)  # truths
                truth = mpmath.binomial(times, k) * p**k * (1 - p) ** (times - k)
                assert truth < 1e-290 or abs(relative(chance, truth)) < 1e-11


def true_zcdp_epsilon(rho, delta):
    """Section 5 with 60 digits: bisection for alpha - 1 = e^t."""
    r, g = mpmath.mpf(float(rho)), -mpmath.log(mpmath.mpf(float(delta)))
    low, high = mpmath.mpf(-800), mpmath.mpf(800)
    for _ in range(240):
        t = (low + high) / 2
        low, high = (
            (low, t) if r * mpmath.exp(2 * t) + mpmath.log1p(mpmath.exp(t)) > g else (t, high)
        )
    return (2 * mpmath.exp(low) + 1) * r - mpmath.log1p(mpmath.exp(-low))


def test_zcdp_holds_from_tiny_to_huge_and_never_overclaims():
    for delta in (1e-300, 1e-30, 1e-12, 1e-3, 0.5):
        for epsilon in (1e-6, 1e-3, 1.0, 100.0, 1e4):
            rho = ac.zcdp_rho(epsilon, delta)
            with mpmath.workdps(60):
                truth = true_zcdp_epsilon(rho, delta)
                assert truth <= epsilon and relative(epsilon, truth) < 1e-5, (epsilon, delta)
                assert truth <= ac.zcdp_epsilon(rho, delta), (epsilon, delta)
            assert relative(ac.zcdp_delta(epsilon, rho), mpmath.mpf(delta)) < 1e-9
    assert ac.zcdp_rho(1.0, 1e-30) == pytest.approx(0.003923109666, rel=1e-9)


@pytest.mark.filterwarnings("error")
def test_no_conversion_is_nan_at_any_cost():
    huge = (0.0, 5e-324, 1e-300, 1e-12, 1.0, 1e12, 1e13, 1e100, 1e300, math.inf)
    deltas = (5e-324, 1e-6, 0.5, 1 - 2**-53, 1.0)
    for cost, delta in itertools.product(huge, deltas):
        found = [
            ac.gaussian_epsilon(delta, cost),
            ac.gaussian_mu(cost, delta),
            ac.zcdp_epsilon(cost, delta),
            ac.zcdp_rho(cost, min(delta, 0.5)) if cost else 0.0,
        ]
        assert all(v >= 0 for v in found), (cost, delta, found)
    for one, other in itertools.product(huge, huge):
        assert ac.gaussian_delta(one, other) >= 0 and ac.zcdp_delta(one, other) >= 0
    assert ac.gaussian_epsilon(1e-6, 1e100) == pytest.approx(5e199)
    # where the bound takes over
    low, high = ac.gaussian_epsilon(1e-6, np.array([1e12, 1.0000001e12]))
    assert low < high < low * 1.000001


@pytest.mark.parametrize("delta", [0.5, 0.9, 0.999999, 1 - 2**-40, 1 - 2**-53])
def test_a_receipt_keeps_its_claim_however_near_one_delta_is(delta):
    for epsilon in (1e-3, 1.0, 20.0):
        receipt = receipts.Receipt([gaussian(ac.gaussian_mu(epsilon, delta))], "replace", delta)
        assert receipt.epsilon <= epsilon and receipt.epsilon > epsilon - 1e-6


def test_printed_costs_are_rounded_up_whatever_their_size():
    for value in (5e-324, 1e-310, 0.0987649, 1.00001, 123456.0, 1e300):
        for digits in (2, 4):
            printed = float(receipts.rounded_up(value, digits))
            assert (
                value * (1 - 1e-13) <= printed <= value * (1 + 1.01 * 10 ** (1 - digits)) + 5e-324
            )
    assert receipts.rounded_up(0.1 + 0.2) == "0.3" and receipts.rounded_up(0.0) == "0"
    low = receipts.Release("x", "noisy", epsilon=0.50001, delta=1.01e-7, failure=1.21e-9)
    assert low.privacy_cost == "epsilon = 0.5001, delta = 1.1e-07, failure = 1.3e-09"
    assert (
        "mu = 0.2001" in str(receipts.Receipt([gaussian(0.20001)], "replace", 1e-6)).split("\n")[3]
    )
    tiny = receipts.Receipt([gaussian(0.1)], "replace", 1e-310)
    assert "delta = 1e-310" in str(tiny) and "delta = 1e-310" in tiny._repr_markdown_()


# ---------------------------------------------------------------- Poisson subsampling


def test_poisson_subsampling_agrees_with_privacy_loss_distributions():
    from dp_accounting.pld import privacy_loss_distribution as pld

    for delta, mu, rate, times in (
        (1e-6, 1.0, 0.01, 1000),
        (1e-5, 0.5, 0.1, 50),
        (1e-6, 2.0, 0.02, 300),
    ):
        given = {"sampling_prob": rate, "value_discretization_interval": 1e-4}
        below, above = (
            pld.from_gaussian_mechanism(1 / mu, pessimistic_estimate=side, **given)
            .self_compose(times)
            .get_epsilon_for_delta(delta)
            for side in (False, True)
        )
        ours = mixtures.poisson_gaussian_epsilon(delta, mu, rate, times)
        assert below < ours < above * 1.01, (below, ours, above)
        assert ours == pytest.approx(above, rel=5e-3)
        assert mixtures.poisson_gaussian_delta(ours, mu, rate, times) <= delta
    assert mixtures.poisson_gaussian_epsilon(1e-6, 1.0, 0.01, 1000) == pytest.approx(
        2.125, abs=5e-3
    )


@pytest.mark.parametrize(("mu", "times"), [(1e-3, 1), (2e-3, 1), (1e-3, 100), (0.1, 1)])
def test_all_rows_but_a_trillionth_cost_what_all_rows_do(mu, times):
    """The least loss, the log of 1e-12, lies 27,000 widths of the others away: it needs no cells."""
    total = mu * math.sqrt(times)
    for epsilon in (0.0, total / 2, total):
        delta = mixtures.poisson_gaussian_delta(epsilon, mu, 1 - 1e-12, times)
        truth = float(ac.gaussian_delta(epsilon, total))
        assert truth * (1 - 1e-9) <= delta <= truth * 1.01 + 1e-15


@pytest.mark.parametrize("rate", [1e-3, 0.2, 1.0])
@pytest.mark.parametrize("mu", [0.1, 1.0, 5.0])
def test_one_subsampled_release_is_never_below_its_closed_form(mu, rate):
    with mpmath.workdps(60):
        phi = lambda t: mpmath.erfc(-t / mpmath.sqrt(2)) / 2  # noqa: E731
        q, m = mpmath.mpf(rate), mpmath.mpf(mu)

        def curve(ratio):  # mixture against N(0, 1), at e^epsilon = ratio
            if ratio <= 1 - q:
                return 1 - ratio
            t = (mpmath.log((ratio - 1 + q) / q) + m**2 / 2) / m
            return (1 - q) * phi(-t) + q * phi(m - t) - ratio * phi(-t)

        for epsilon in (0.0, 0.05, 0.5, 2.0):
            e = mpmath.exp(mpmath.mpf(epsilon))
            truth = max(curve(e), 1 - e + e * curve(1 / e))
            ours = mixtures.poisson_gaussian_delta(epsilon, mu, rate)
            assert truth <= ours, (epsilon, ours, truth)
            assert truth < 1e-12 or relative(ours, truth) < 1e-2, (epsilon, ours, truth)


def test_drawing_every_row_is_no_subsampling_and_bad_arguments_are_refused():
    for epsilon in (0.3, 1.0, 4.0):
        ratio = mixtures.poisson_gaussian_delta(epsilon, 0.5, 1.0, 9) / ac.gaussian_delta(
            epsilon, 1.5
        )
        assert 1 <= ratio < 1.001
    assert mixtures.poisson_gaussian_delta(math.inf, 1.0, 0.1) == 0.0
    assert mixtures.poisson_gaussian_epsilon(0.9, 1.0, 0.1) == 0.0
    for bad in ((0.0, 0.1, 1), (1.0, 0.0, 1), (1.0, 1.1, 1), (1.0, 0.1, 0), (math.nan, 0.1, 1)):
        with pytest.raises(ValueError, match="mu|rate|times|epsilon"):
            accounting.poisson_gaussian_delta(1.0, *bad)


# ---------------------------------------------------------------- stored receipts


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_stored_receipt_is_priced_as_the_first_time(delta):
    import json

    releases = [
        receipts.Release(
            "g", "gaussian", np.float32(1.5), 7.25, times=np.int64(3), mu=np.float64(0.1)
        ),
        receipts.Release("p", "laplace", epsilon=0.3, failure=1e-9),
        receipts.Release("t", "tail", epsilon=0.0, delta=1e-8),
        receipts.Release("c", "cover", exponent=0.03),
        receipts.Release("x", "exponential", epsilon=0.1),
    ]
    for lines in (releases, releases[:1], [pure(0.2)], []):
        receipt = receipts.Receipt(lines, "add_remove", delta, private=False, title="a fit")
        stored = json.dumps(receipt.to_dict(), allow_nan=False)
        back = receipts.Receipt.from_dict(json.loads(stored))
        assert back == receipt and back.epsilon == receipt.epsilon and str(back) == str(receipt)
        assert back.to_dict() == receipt.to_dict()


def test_a_stored_receipt_of_another_kind_is_refused():
    good = receipts.Receipt([gaussian(0.1)], "replace", 1e-6).to_dict()
    line = good["releases"][0]
    for bad, why in (
        ({**good, "schema": 2}, "schema"),
        ([], "schema"),
        ({**good, "colour": 1}, "colour"),
        ({k: v for k, v in good.items() if k != "delta"}, "delta"),
        ({**good, "releases": [{**line, "mechanism": "magic"}]}, "magic"),
        ({**good, "releases": [{**line, "more": 1}]}, "more"),
        ({**good, "releases": [{**line, "mu": None}]}, "exactly one"),
        ({**good, "neighboring": "friends"}, "friends"),
    ):
        with pytest.raises(ValueError, match=why):
            receipts.Receipt.from_dict(bad)
    with pytest.raises(ValueError, match="other"):
        receipts.Receipt([receipts.Release("x", "magic", epsilon=1.0)], "replace").to_dict()


@pytest.mark.parametrize("rate", [1e-9, 1e-3, 0.5, 1.0])
@pytest.mark.parametrize("mu", [1e-3, 0.1, 5.0, 24.0, 25.0])
def test_sampled_releases_are_priced_wherever_they_are_accepted(mu, rate):
    """Against the integral by 30 digits; at rate 1 that is a Gaussian release. Beyond mu = 28 a loss overflowed to delta 0."""
    with (
        mpmath.workdps(30),
        np.errstate(all="raise", under="ignore", divide="ignore", invalid="ignore"),
    ):
        for epsilon in (0.0, 1.0):
            p, level = mpmath.mpf(rate), mpmath.exp(epsilon)
            start = (mpmath.log((level - 1 + p) / p) + mpmath.mpf(mu) ** 2 / 2) / mu
            tail = lambda t: mpmath.erfc(t / mpmath.sqrt(2)) / 2  # noqa: E731
            true = p * tail(start - mu) - (level - 1 + p) * tail(start)
            found = mixtures.poisson_gaussian_delta(epsilon, mu, rate)
            assert true <= found <= float(true) * 1.05 + 1e-15


def test_what_underflows_is_not_guaranteed_to_be_zero():
    """A delta below the smallest float is rounded up to it; 0 is said only where it is true."""
    assert ac.gaussian_delta(60.0, 0.1) == ac.zcdp_delta(60.0, 0.005) == 5e-324
    assert mixtures.mixture_delta(60.0, mu=0.1, pure=[(1.0, 1)]) == 5e-324
    assert mixtures.mixture_delta(60.0, pure=[(1.0, 1)], exponent=1e-3) == 5e-324
    assert mixtures.mixture_delta(1.0, pure=[(1.0, 1)]) == ac.zcdp_delta(60.0, 0.0) == 0
    spent = receipts.Receipt([gaussian(0.1), pure(1.0)], "add_remove")
    assert spent.delta_at(60.0) > 0


# ---------------------------------------------------------------- no error state of numpy changes anything

TINY = [0.0, 5e-324, 1e-320, 1e-300, 1e-16, 0.5, 1.0]
EXTREMES = {
    "epsilon": [0.0, 5e-324, 1e-300, 1.0, 700.0, 1e4, 1e300, math.inf],
    "delta": TINY,
    "failure": TINY,
    "slack": TINY[1:6],
    "mu": [0.0, 5e-324, 1e-160, 1e-3, 1.0, 40.0, 1e12, 1e155, 1e300, math.inf],
    "rho": [0.0, 5e-324, 1e-300, 1.0, 1e5, 1e300, math.inf],
    "exponent": [0.0, 5e-324, 1e-300, 1.0, 50.0, 705.0, 1e300],
    "t": [-math.inf, -1e300, -40.0, 0.0, 1e-300, 40.0, 1e300, math.inf],
    "rate": [1e-9, 1.0],
    "share": [1e-9, 0.5, 1.0],
    "times": [1, 3],
    "epsilons": [0.0, 5e-324, 1e300],
    "deltas": TINY,
    "mus": [0.0, 1e-200, 1e200, [5e-324, 1e300]],
    "n_drawn": [1, 10],
    "n_rows": [10],
    "pure": [(), [(1e-300, 2)], [(1.0, 3), (0.1, 1)], [(800.0, 2)], [(1e300, 1)]],
    "neighboring": ["add_remove", "replace"],
    "bounded_range": [False, True],
    "max_rows_per_person": [1, 3, 2**20],
    "gaussian": [False, True],
}
INSIDE = [ac.log_gaussian_delta, ac.mills_slope, ac.sampled_epsilon]  # of arrays
CONVERSIONS = INSIDE + [
    getattr(accounting, name)
    for name in accounting.__all__
    if inspect.isfunction(getattr(accounting, name))
    # below, by what calls them
    and name
    not in ("dominating_mu", "largest_scale", "receipt_for_persons", "worst_adaptive_delta")
]


def outcome(question, state):
    """What a question is answered in an error state of numpy: a value, or the type of an error."""
    with np.errstate(all=state), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(question()).tolist()
        except (TypeError, ValueError) as error:  # refused, and nothing else
            return type(error).__name__


def same(question):
    """Whether the error state of numpy changes nothing; in the stricter one first, as much is kept."""
    strict, usual = (repr(outcome(question, state)) for state in ("raise", "warn"))
    return strict == usual


@pytest.mark.parametrize("convert", CONVERSIONS, ids=lambda f: f.__name__)
def test_no_error_state_of_numpy_changes_a_conversion(convert):
    grid = [EXTREMES[name] for name in inspect.signature(convert).parameters]
    points = list(itertools.product(*grid))
    for point in points[:: 1 + len(points) // 800]:
        named = dict(zip(inspect.signature(convert).parameters, point, strict=True))
        if convert in INSIDE:
            named = {name: np.asarray(value, dtype=float) for name, value in named.items()}
        assert same(partial(convert, **named)), named


def extreme_releases(number):
    """Releases of every kind at the ends of what floats hold, all numbers of one type."""
    many = partial(receipts.Release, "x")
    for mu in (0.0, 5e-324, 1e-160, 1.0, 1e12, 1e155, 1.7e308):
        yield many("gaussian", mu=number(mu))
    for epsilon in (5e-324, 1e-300, 1.0, 800.0, 1e200, 1.7e308):
        yield many("laplace", epsilon=number(epsilon))
        yield many("exponential", epsilon=number(epsilon), times=3)
    for exponent in (5e-324, 1e-3, 50.0, 710.0):
        yield many("cover", exponent=number(exponent))
    for part in (5e-324, 1e-300, 1e-9, 0.999):
        yield many("gaussian", mu=number(0.5), delta=number(part))
        yield many("laplace", epsilon=number(0.5), failure=number(part))


QUESTIONS = {
    "epsilon": lambda r: r.epsilon,
    "delta": lambda r: [r.delta_at(e) for e in (0.0, 1e-300, 1.0, 1e300, math.inf)],
    "rho and mu": lambda r: [str(r.rho), str(r.mu), *(str(line.rho) for line in r.releases)],
    "words": lambda r: [str(r), r._repr_markdown_(), str(r.to_dict())],
    "spending": lambda r: list(fi.Spending.of(r).to_dict().values())[:-1],
    "filter": lambda r: [fi.Spending.of(r).delta_at(1.0), fi.Spending.of(r).epsilon_at(1e-5)],
}


def check_every_state(question, deltas, step):
    lines = list(extreme_releases(np.float64))
    pairs = list(zip(lines, lines[7:], strict=False))
    for delta, kept in itertools.product(deltas, [*((line,) for line in lines), *pairs][::step]):
        receipt = receipts.Receipt(kept, "replace", delta)
        fi._of_fit.cache_clear()
        asked = partial(QUESTIONS[question], receipt)
        assert same(asked) and not isinstance(outcome(asked, "raise"), str), kept


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_error_state_of_numpy_changes_a_receipt(question):
    """Nor is one of them without an answer: numbers of numpy warned, and those of Python overflowed."""
    check_every_state(question, [1e-300], 4)


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_no_error_state_of_numpy_changes_any_receipt(question):
    check_every_state(question, [0.0, 1e-300, 1e-9], 1)


def test_a_receipt_holds_numbers_that_warn_of_nothing():
    line = receipts.Release(
        "x", "gaussian", np.float32(2), np.float64(9), np.int64(3), np.float64(1e200)
    )
    kept = (line.sensitivity, line.scale, line.times, line.mu)
    assert [type(number) for number in kept] == [float, float, int, float]
    assert line.rho == math.inf and type(receipts.Receipt((line,), "replace", 1).delta) is float


# ---------------------------------------------------------------- what is Gaussian, and what is nearly so


@pytest.mark.parametrize("own", [{"delta": 1e-9}, {"failure": 1e-9}], ids=str)
def test_a_release_with_a_delta_of_its_own_is_not_said_to_be_gaussian(own):
    """It shows the data with that probability, which no Gaussian release does: delta never falls below."""
    line = receipts.Release("x", "gaussian", mu=1.0, **own)
    for lines in ((line,), (gaussian(0.5), line), (line, gaussian(0.5))):
        receipt = receipts.Receipt(lines, "add_remove", 1e-6)
        assert receipt.mu is None and receipt.rho is None
        assert "(mu" not in str(receipt) and "(mu" not in receipt._repr_markdown_()
        assert receipt.delta_at(60.0) >= 1e-9 > ac.gaussian_delta(60.0, 1.2)
        spent = fi.Spending.of(receipt)
        assert spent.own + spent.failure >= 1e-9
    plain = receipts.Receipt((gaussian(0.5),), "add_remove", 1e-6)
    assert plain.mu == 0.5 and "(mu = 0.5)" in str(plain)
    assert receipts.Receipt((plain.releases[0], line), "add_remove", 1e-6).mu is None


# Slips in one line that no other test noticed: exact numbers, enumeration, brute force on tiny cases.


def test_the_slope_of_mills_ratio_is_exact_on_both_sides_of_its_branch():
    for t in (
        -5.0,
        -1.0,
        0.0,
        3.0,
        math.nextafter(8, 0),
        8.0,
        math.nextafter(8, 9),
        9.0,
        40.0,
        1e6,
    ):
        with mpmath.workdps(60):
            x = mpmath.mpf(t)
            ratio = mpmath.sqrt(mpmath.pi / 2) * mpmath.exp(x * x / 2) * mpmath.erfc(x / mpmath.sqrt(2))  # fmt: skip
            true = float(1 - x * ratio)
        assert float(ac.mills_slope(t)) == pytest.approx(true, rel=3e-13)


@pytest.mark.parametrize("exponent", [0.0, 0.05, 0.7, 1.6])
@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0, 3.0])
def test_a_cover_costs_the_same_by_reflection(mu, exponent):
    # delta of (Q, P) at e is 1 - exp(e) + exp(e) times that of (P, Q) at -e, for any two laws
    epsilon = np.linspace(-4, 4, 33)
    mirrored = -np.expm1(epsilon) + np.exp(epsilon) * mixtures._without(-epsilon, mu, exponent)
    assert np.allclose(mixtures._with(epsilon, mu, exponent), mirrored, rtol=0, atol=3e-14)


@pytest.mark.parametrize("rho", [1e-20, 1e-6, 1.0, 1e6, 1e25])
def test_zcdp_conversions_reach_the_ends(rho):
    # between the divergence of order infinity's slope and the simple bound rho + 2 sqrt(rho log(1/delta))
    epsilon = ac.zcdp_epsilon(rho, 1e-6)
    assert 0 <= epsilon <= (rho + 2 * math.sqrt(rho * math.log(1e6))) * (1 + 1e-9)
    if rho >= 1:
        assert epsilon >= rho


@pytest.mark.parametrize(
    "call",
    [
        lambda: accounting.zcdp_rho(1.0, 0.7),
        lambda: accounting.zcdp_rho(1.0, 0.0),
        lambda: accounting.zcdp_rho(0.0, 0.1),
        lambda: accounting.largest_scale(list, 1.0, 0.0, "replace"),
        lambda: accounting.largest_scale(list, 1.0, 1.0, "replace"),
        lambda: accounting.largest_scale(list, 0.0, 0.1, "replace"),
    ],
)
def test_costs_out_of_range_are_refused_by_name(call):
    with pytest.raises(ValueError, match="needs a number"):
        call()


def loss_of(z, mu, rate):
    """Privacy loss of a release that looks at a row with probability `rate`."""
    seen = np.log(rate) + mu * z - mu**2 / 2
    return np.logaddexp(np.log1p(-rate), seen) if rate < 1 else seen


@pytest.mark.parametrize("mu, rate", [(0.4, 0.05), (1.5, 0.3), (3.0, 0.9), (1.1, 1.0)])
def test_cells_of_losses_keep_both_distributions_and_are_exact_on_their_lattice(mu, rate):
    width = 0.02
    floor = math.log1p(-rate) if rate < 1 else loss_of(-10.0, mu, 1.0)
    ends = math.floor(floor / width), math.ceil(float(loss_of(mu + 9.5, mu, rate)) / width)
    (lost, first, chances), (lost_too, first_too, back) = mixtures._poisson_cells(mu, rate, width)
    assert (first, first + len(chances) - 1) == ends
    assert (-first_too, -(first_too + len(back) - 1)) == ends[::-1]
    losses, losses_back = (width * (f + np.arange(len(c))) for f, c in ((first, chances), (first_too, back)))  # fmt: skip
    assert lost + chances.sum() == pytest.approx(1, abs=1e-13)
    assert lost_too + back.sum() == pytest.approx(1, abs=1e-13)
    # a billionth goes to the safe end
    assert chances @ np.exp(-losses) == pytest.approx(1, abs=3e-9)
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
def test_a_cell_is_divided_so_that_both_distributions_keep_theirs(width):
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
def test_the_distribution_of_many_releases_is_the_power_of_one(monkeypatch, times):
    asked = []

    def cells(mu, rate, width):
        asked.append((mu, rate, width))
        yield 2.0**-30, -1, np.array([0.5, 0.25, 0.25])
        yield 2.0**-31, 0, np.array([0.75, 0.25])

    monkeypatch.setattr(mixtures, "_poisson_cells", cells)
    mu, rate = 1.3, 0.2
    laws = mixtures._poisson_distributions.__wrapped__(mu, rate, times)
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


def test_sampled_releases_cost_what_the_two_distributions_say(monkeypatch):
    laws = [
        (0.001, np.array([-1.0, 0.5, 2.0]), np.array([0.5, 0.25, 0.249])),
        (0.002, np.array([0.25, 1.5]), np.array([0.75, 0.248])),
    ]
    monkeypatch.setattr(mixtures, "_poisson_distributions", lambda *cost: laws)

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


@pytest.mark.parametrize("mu, delta", [(0.01, 1e-8), (0.3, 1e-4), (1.0, 1e-6), (4.0, 0.01), (10.0, 0.999), (7.0, 0.9)])  # fmt: skip
def test_gaussian_epsilon_is_rounded_up_by_one_margin(mu, delta):
    epsilon = np.asarray(accounting.gaussian_epsilon(delta, mu))
    short = math.log(delta) - float(ac.log_gaussian_delta(epsilon, np.asarray(mu)))
    assert short == pytest.approx(3e-12 * min(1.0, -math.log(delta)), rel=0.25)


@pytest.mark.parametrize("epsilon, delta", [(0.01, 1e-8), (1.0, 1e-6), (1.0, 0.3), (0.1, 0.9), (20.0, 1e-3)])  # fmt: skip
def test_gaussian_mu_is_rounded_down_by_two_margins(epsilon, delta):
    mu, margin = accounting.gaussian_mu(epsilon, delta), 6e-12

    def at(more):
        return float(ac.log_gaussian_delta(np.asarray(epsilon), np.asarray(mu * (1 + more))))

    assert at(0.7 * margin) < math.log(delta) < at(1.3 * margin)


@pytest.mark.parametrize("delta", [1e-300, 1e-20, 0.2, 0.5, 0.9, 0.999999])
def test_gaussian_mu_finds_its_root_everywhere(delta):
    epsilon = np.geomspace(1e-12, 1e6, 61)
    mu = accounting.gaussian_mu(epsilon, delta)
    assert np.all(np.diff(mu) > 0) or delta > 0.1 and np.all(np.diff(mu) >= 0)
    wrong = ac.log_gaussian_delta(epsilon, mu * (1 + 6e-12)) - math.log(delta)
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


def renyi(alpha, p, q):
    return math.log(math.fsum(a**alpha * b ** (1 - alpha) for a, b in zip(p, q, strict=True))) / (alpha - 1)  # fmt: skip


@pytest.mark.parametrize("alpha", [1.0001, 1.5, 2.0, 7.0])
@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_renyi_divergences_are_those_of_the_distributions(alpha, neighboring):
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
    for cost in (1e-15, 1e-9, 1e-3):
        epsilon = receipts._mixture_epsilon(1e-30, [Release("a", "laplace", epsilon=cost)], "replace")  # fmt: skip
        assert cost * (1 - 1e-9) <= epsilon <= cost * (1 + 1e-9) or epsilon < cost
        assert accounting.mixture_delta(epsilon, pure=[(cost, 1)], neighboring="replace") <= 1e-30


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
def test_printed_costs_are_rounded_up(value, digits, text):
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


def test_a_cost_on_paper_makes_a_receipt_that_is_not_private():
    line = Release("printed", "printed", epsilon=1.0, private=False)
    assert Receipt([line], "replace").private is False
    assert Receipt([Release("real", "laplace", epsilon=1.0)], "replace").private is True


def test_zcdp_costs_out_of_range_are_refused():
    for rho, delta in ((-1.0, 0.1), (1.0, 1.1), (math.nan, 0.1)):
        with pytest.raises(ValueError, match="needs a number in"):
            accounting.zcdp_epsilon(rho, delta)


@pytest.mark.parametrize("mu", [1e3, 1e6, 3e9])
def test_delta_at_large_costs_does_not_feel_the_rounding_of_a_quotient(mu):
    for low in (-0.7, 0.3, 2.9, 5.1):
        epsilon = mu**2 / 2 + low * mu
        with mpmath.workdps(60):
            x, e = mpmath.mpf(epsilon) / mpmath.mpf(mu), mpmath.mpf(epsilon)

            def tail(t):
                return mpmath.erfc(t / mpmath.sqrt(2)) / 2

            true = mpmath.log(tail(x - mpmath.mpf(mu) / 2) - mpmath.exp(e) * tail(x + mpmath.mpf(mu) / 2))  # fmt: skip
            got = ac.log_gaussian_delta(np.asarray(epsilon), np.asarray(mu))
            assert abs(mpmath.mpf(float(got)) - true) < 3e-12 * max(1, abs(true))


def test_no_chance_that_is_cut_off_is_forgotten():
    one = (0.0, 0, np.array([2.0**-40, 2.0**-1, 2.0**-40]))
    other = (0.0, 0, np.array([2.0**-40, 2.0**-24, 2.0**-40]))
    lost, first, p = mixtures._together(one, other)  # 2**-80 at either end is below 1e-20
    side = 2.0**-41 + 2.0**-64
    assert (lost, first) == (2.0**-80, 1)
    assert p.tolist() == [side + 2.0**-80, 2.0**-25 + 2.0**-79, side]


def test_a_part_that_may_fail_is_taken_off_before_the_rest_is_composed():
    parts = [Release("parts", "stable histogram", epsilon=0.5, delta=0.3)]
    receipt = Receipt([*parts, Release("rest", "gaussian", mu=2.0)], "add_remove")
    assert receipt.delta_at(receipt.epsilon_at(0.4)) == pytest.approx(0.4, rel=1e-6)
