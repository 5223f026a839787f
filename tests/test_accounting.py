"""Accounting against two witnesses: 60-digit arithmetic and dp-accounting."""

import copy
import itertools
import math
import multiprocessing
import pickle
import threading

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from dplit import accounting as ac

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
        assert oracle >= ours * (
            1 - 1e-9
        )  # the oracle rounds up; it must never be below the exact value


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
    assert ac.zcdp_epsilon(rho, delta) <= rho + 2 * math.sqrt(
        rho * -log_delta
    )  # better than the simple form


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
        lambda: ac.gaussian_delta(-1.0, 1.0),
        lambda: ac.gaussian_delta(1.0, float("nan")),
        lambda: ac.gaussian_epsilon(2.0, 1.0),
        lambda: ac.gaussian_mu(1.0, -1e-6),
        lambda: ac.zcdp_epsilon(-0.1, 1e-6),
        lambda: ac.zcdp_rho(1.0, 0.0),
        lambda: ac.subsampled(1.0, 0.0, n_drawn=5, n_rows=4),
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
    return ac.Release("g", "gaussian", 1.0, 1 / mu, times=times, mu=mu)


def pure(epsilon, times=1, mechanism="laplace"):
    return ac.Release("p", mechanism, 1.0, 1 / epsilon, times=times, epsilon=epsilon)


def test_gaussian_receipts_are_exact_pure_ones_are_sums():
    mu = ac.gaussian_mu(1.0, 1e-6)
    receipt = ac.Receipt([gaussian(mu / 4, times=16)], "add_remove", 1e-6)
    assert receipt.epsilon == pytest.approx(1.0, rel=1e-9) and receipt.epsilon <= 1.0
    assert receipt.mu == pytest.approx(mu) and receipt.rho == pytest.approx(mu**2 / 2)
    sums = ac.Receipt([pure(0.1, 3), pure(0.7, mechanism="exponential")], "replace", 1e-6)
    assert sums.epsilon == pytest.approx(1.0)
    assert sums.delta == 0.0 and sums.mu is None
    assert sums.rho == pytest.approx(3 * 0.005 + 0.49 / 8)


def test_mixed_receipts_take_the_smaller_valid_price():
    few = ac.Receipt([gaussian(0.2), pure(0.5)], "add_remove", 1e-6)
    assert few.epsilon == pytest.approx(0.5 + ac.gaussian_epsilon(1e-6, 0.2))
    many = ac.Receipt([gaussian(0.2), pure(0.01, 10_000)], "add_remove", 1e-6)
    assert many.epsilon == pytest.approx(ac.zcdp_epsilon(0.02 + 10_000 * 0.01**2 / 2, 1e-6))


def test_releases_with_their_own_delta_use_it_up():
    receipt = ac.Receipt(
        [ac.Release("avg", "noisy_avg", epsilon=0.5, delta=1e-7, times=2)], "add_remove", 1e-6
    )
    assert receipt.epsilon <= 1.0 and receipt.rho is None
    assert (
        ac.Receipt(receipt.releases, "add_remove", 1e-7).epsilon == math.inf
    )  # two times 1e-7 do not fit into 1e-7


def test_receipts_add_up_and_refuse_mixed_neighbours():
    a, b = (
        ac.Receipt([gaussian(0.1)], "replace", 1e-6),
        ac.Receipt([gaussian(0.1)], "replace", 1e-6, private=False),
    )
    both = a + b
    assert both.mu == pytest.approx(0.1 * math.sqrt(2)) and both.delta == 2e-6 and not both.private
    with pytest.raises(ValueError, match="neighbours"):
        a + ac.Receipt([], "add_remove", 1e-6)


def test_receipts_print_in_terminal_and_notebook():
    receipt = ac.Receipt([gaussian(0.1, 3)], "add_remove", 1e-6, private=False, title="NoisyLloyd")
    assert (
        "NOT private" in str(receipt)
        and "mu = 0.1" in str(receipt)
        and "| g | gaussian |" in receipt._repr_markdown_()
    )
    assert ac.Receipt([], "add_remove").epsilon == 0
    with pytest.raises(ValueError, match="exactly one"):
        ac.Release("x", "gaussian")


# ---------------------------------------------------------------- budgets


class Spender:
    """Counts its fits; optionally fails after reading the data."""

    delta, neighboring = 1e-7, "add_remove"

    def __init__(self, epsilon=0.25, fail=False):
        self.epsilon, self.fail, self.fits = epsilon, fail, 0

    def fit(self, X):
        self.fits += 1
        if self.fail:
            raise RuntimeError("half-way")
        return self


def test_budget_charges_first_and_refuses_untouched():
    budget, spender = ac.PrivacyBudget(1.0, 1e-6), Spender()
    for _ in range(4):
        assert budget.fit(spender, None) is spender
    with pytest.raises(ac.BudgetExceeded, match="nothing was charged"):
        budget.fit(spender, None)
    assert (
        spender.fits == 4
        and budget.spent == (1.0, pytest.approx(4e-7))
        and budget.remaining.epsilon == 0
    )


def test_budget_adds_decimal_fractions_fairly():
    budget = ac.PrivacyBudget(1.0)
    for _ in range(10):
        budget.charge(0.1)
    with pytest.raises(ac.BudgetExceeded):
        budget.charge(1e-9)


def test_failed_fits_stay_charged():
    budget = ac.PrivacyBudget(1.0, 1e-6)
    with pytest.raises(RuntimeError):
        budget.fit(Spender(fail=True), None)
    assert budget.spent.epsilon == 0.25


def test_budget_cannot_be_copied_or_pickled():
    budget = ac.PrivacyBudget(1.0, 1e-6)
    assert (
        clone(budget) is budget and copy.copy(budget) is budget and copy.deepcopy(budget) is budget
    )
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(budget)


def test_budget_is_safe_under_threads():
    budget, refused = ac.PrivacyBudget(1.0, 1e-4), []

    def spend():
        for _ in range(10):
            try:
                budget.fit(Spender(0.02), None)
            except ac.BudgetExceeded:
                refused.append(1)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert budget.spent.epsilon == pytest.approx(1.0) and len(refused) == 30


def test_budget_refuses_what_it_cannot_price():
    budget = ac.PrivacyBudget(1.0, 1e-6)
    with pytest.raises(TypeError, match="states no epsilon"):
        budget.fit(object(), None)
    budget.fit(Spender(), None)
    with pytest.raises(ValueError, match="do not add up"):
        budget.charge(0.1, neighboring="replace")


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
        ac.check_epsilon_delta(epsilon, delta, "Thing")


def test_weak_parameters_warn():
    with pytest.warns(ac.PrivacyWarning, match="little"):
        ac.check_epsilon_delta(11, 1e-6, "Thing")
    with pytest.warns(ac.PrivacyWarning, match="large"):
        ac.check_epsilon_delta(1, 0.01, "Thing")
    assert ac.check_epsilon_delta(1, 0, "Thing", pure=True) == (1.0, 0.0)


# ---------------------------------------------------------------- ways to talk a receipt or a budget into less


@pytest.mark.parametrize(
    "price",
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
def test_impossible_prices_are_refused(price):
    with pytest.raises(ValueError, match="release"):
        ac.Release("x", "laplace", **price)


def test_choices_with_a_delta_get_no_discount():
    fifty = ac.Receipt(
        [ac.Release("c", "exponential", epsilon=3.0, delta=1e-7, times=50)], "replace", 1e-4
    )
    pure = ac.Receipt(
        [ac.Release("c", "laplace", epsilon=3.0, delta=1e-7, times=50)], "replace", 1e-4
    )
    assert fifty.epsilon == pure.epsilon


def test_printed_totals_are_rounded_up():
    receipt = ac.Receipt([ac.Release("x", "laplace", epsilon=1.00049)], "add_remove")
    assert "epsilon = 1.001," in str(receipt)
    third = ac.Receipt([ac.Release("x", "laplace", epsilon=0.1, times=3)], "add_remove")
    assert "epsilon = 0.3," in str(third)
    assert sum([receipt, third]).epsilon == pytest.approx(1.30049)


def test_a_budget_is_not_spent_in_another_process():
    budget = ac.PrivacyBudget(1.0)
    with multiprocessing.get_context("fork").Pool(1, initializer=_keep, initargs=(budget,)) as pool:
        assert pool.apply(_spend_there) == "RuntimeError"
    assert budget.spent.epsilon == 0


def _keep(budget):
    global kept
    kept = budget


def _spend_there():
    try:
        kept.charge(0.5)
    except RuntimeError as error:
        return type(error).__name__


@pytest.mark.parametrize(
    "typo",
    [
        {"radius": None},
        {"n_clusters": 0},
        {"neighboring": "add-remove"},
        {"random_state": "x"},
        {"init": "rows"},
        {"n_iter": 0},
    ],
)
def test_a_typo_does_not_burn_the_budget(typo):
    from dplit import NoisyLloyd

    budget = ac.PrivacyBudget(1.0, 1e-5)
    right = {"n_clusters": 2, "epsilon": 1.0, "delta": 1e-6, "radius": 1.0}
    with pytest.raises((TypeError, ValueError)):
        budget.fit(NoisyLloyd(**right | typo), np.zeros((5, 2)))
    assert budget.spent == (0, 0)
    budget.fit(NoisyLloyd(**right), np.zeros((5, 2)))


def test_large_epsilons_do_not_overflow():
    assert ac.subsampled(1000.0, 0.0, 1, 10)[0] == pytest.approx(1000 - math.log(10))
    for slack, times in ((0.0, 3), (1.0, 3), (1e-6, -1)):
        with pytest.raises(ValueError, match="slack"):
            ac.advanced_composition(0.1, 0.0, times, slack)
