"""Filters: what adaptively chosen fits cost together."""

import json
import math
import time

import mpmath
import numpy as np
import pytest

from dplit import accounting as ac
from dplit import filters as fi


def gaussian(mu, times=1):
    return ac.Release("g", "gaussian", mu=mu, times=times)


def test_ten_fits_of_one_cost_at_most_3_2():
    fit = ac.Receipt([gaussian(ac.gaussian_mu(1.0, 1e-6))], "add_remove", 1e-6)
    ten = sum([fi.Spending.of(fit)] * 10, fi.Spending())
    exact = ac.gaussian_epsilon(1e-5, math.sqrt(10) * fit.mu)
    assert exact < ten.epsilon_at(1e-5) <= 3.2
    assert ten.delta_at(ten.epsilon_at(1e-5)) <= 1e-5
    assert ten.delta_at(0.99 * ten.epsilon_at(1e-5)) > 1e-5


def test_a_fit_alone_costs_what_its_receipt_says():
    releases = [gaussian(0.1), ac.Release("c", "laplace", epsilon=0.3)]
    for receipt in (ac.Receipt(releases, "replace", 1e-6), ac.Receipt(releases[1:], "replace")):
        spent = fi.Spending.of(receipt, "replace")
        assert spent.delta_at(receipt.epsilon) <= receipt.delta
        assert spent.epsilon_at(receipt.delta) <= receipt.epsilon
    claim = fi.Spending.claim(1.0, 1e-6)
    assert claim.delta_at(1.0) == 1e-6 and claim.epsilon_at(1e-6) == 1.0
    pure = sum([fi.Spending.claim(0.1)] * 10, fi.Spending())
    assert pure.delta_at(1.0) == 0 and pure.epsilon_at(0.0) == pytest.approx(1.0)


def test_spendings_add_up_and_go_through_json():
    parts = [fi.Spending.claim(0.1 * i, 1e-9 * i, "replace") for i in range(1, 9)]
    whole = fi.Spending.total(parts)
    assert sum(parts, fi.Spending()).mu_squared == pytest.approx(whole.mu_squared, rel=1e-14)
    back = fi.Spending.from_dict(json.loads(json.dumps(whole.to_dict())))
    assert back == whole and whole.fits == 8
    with pytest.raises(ValueError, match="neighbours"):
        whole + fi.Spending.claim(1.0, 0.0, "add_remove")
    with pytest.raises(ValueError, match="version"):
        fi.Spending.from_dict({**whole.to_dict(), "more": 1})


def test_a_hundred_thousand_add_up_quickly():
    parts = [fi.Spending.claim(1e-3, 1e-12)] * 100_000
    start = time.perf_counter()
    whole = fi.Spending.total(parts)
    assert time.perf_counter() - start < 2 and whole.fits == 100_000
    exact = 100_000 * mpmath.mpf(parts[0].mu_squared)
    assert exact <= whole.mu_squared < exact * (1 + 1e-12)


@pytest.mark.parametrize("ranged", [False, True])
def test_the_gaussian_of_a_pure_release_is_rounded_up(ranged):
    with mpmath.workdps(60):
        edges = [1e-9, 0.1, 1.0, 2.0, 10.0, 100.0]
        for epsilon in [f(e) for e in edges for f in (float, lambda e: math.nextafter(e, 0))]:
            half = mpmath.mpf(epsilon) / (2 if ranged else 1)
            mu = mpmath.mpf(fi.pure_mu(epsilon, ranged))
            # the kink of the coin lies on the Gaussian's trade-off curve
            tail = mpmath.erfc(mu / 2 / mpmath.sqrt(2)) / 2
            assert tail <= 1 / (1 + mpmath.exp(half))
            less = mu * (1 - mpmath.mpf("3e-11"))
            assert mpmath.erfc(less / 2 / mpmath.sqrt(2)) / 2 > 1 / (1 + mpmath.exp(half))


COVER = ac.Release("c", "cover", exponent=0.0425)
MAX_COVER = [COVER, gaussian(0.19), ac.Release("w", "laplace", epsilon=0.155)]


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("releases", [[COVER], MAX_COVER, [COVER, COVER]])
def test_a_fit_with_a_cover_is_gaussian_but_for_what_is_cut(releases, neighboring):
    receipt = ac.Receipt(releases, neighboring, 1e-6)
    spent = fi.Spending.of(receipt)
    closest = 0.0
    for epsilon in np.linspace(0, 2 * receipt.epsilon, 101):
        bound = spent.own + (1 - spent.own) * ac.gaussian_delta(
            epsilon, math.sqrt(spent.mu_squared)
        )
        assert receipt.delta_at(epsilon) <= bound
        closest = max(closest, receipt.delta_at(epsilon) / bound)
    assert closest > 0.9 and 0 < spent.own < 1e-6 / 15


def test_a_gaussian_dominates_itself_and_nothing_larger():
    curve = lambda epsilon: ac.gaussian_delta(epsilon, 0.3)  # noqa: E731
    mu = fi.dominating_mu(curve, ac.gaussian_epsilon(1e-9, 0.3), 1e-9)
    assert 0.29 < mu < 0.31
    assert fi.dominating_mu(lambda epsilon: 1e-9, 1.0, 1e-6) == 0.0
    assert fi.dominating_mu(lambda epsilon: 1.0, 1.0, 1e-6) == math.inf
