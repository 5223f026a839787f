"""Theorems of others that the book rests on, by a second derivation: where the tests of a room do not pin them."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, optimize, stats
from scipy.spatial.distance import cdist

from dplit import accounting, adaptation, source_target
from dplit.accounting import Receipt, Release, group_cost
from dplit.ledger.rules import replaced_pair

RHOS, EPSILONS = (0.01, 0.3, 2.0), (0.1, 1.0, 6.0)


@pytest.mark.parametrize(("rho", "epsilon"), [*itertools.product(RHOS, EPSILONS)])
def test_zcdp_to_delta_is_the_least_of_the_cited_formula_over_alpha(rho, epsilon):
    """Corollary 13 of Canonne, Kamath and Steinke: exp((a - 1)(a rho - epsilon)) / (a - 1) (1 - 1 / a)^a, minimized over a > 1."""
    log_delta = lambda log_x: (  # noqa: E731
        math.exp(log_x) * ((1 + math.exp(log_x)) * rho - epsilon)
        - log_x
        - (1 + math.exp(log_x)) * np.logaddexp(0, -log_x)
    )
    grid = np.linspace(-12, 8, 4001)
    start = grid[np.argmin([log_delta(t) for t in grid])]
    found = optimize.minimize_scalar(
        log_delta, bounds=(start - 0.01, start + 0.01), method="bounded", options={"xatol": 1e-12}
    )
    assert accounting.zcdp_delta(epsilon, rho) == pytest.approx(min(math.exp(found.fun), 1), rel=1e-7)  # fmt: skip
    delta = accounting.zcdp_delta(epsilon, rho)
    if 1e-300 < delta < 0.99:
        assert accounting.zcdp_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-6)


def test_renyi_costs_of_releases_add_up():
    """Bun and Steinke: the divergence of two releases together is the sum, by quadrature over the plane, and the receipt's rho is it over alpha."""
    mus = (0.4, 0.9)
    lines = [Release("a", "gaussian", mu=mus[0]), Release("b", "gaussian", mu=mus[1])]
    receipt = Receipt(lines, "add_remove")
    rho = math.fsum(line.rho for line in receipt.releases)
    x = np.linspace(-12, 15, 541)  # the rule of trapezoids is exact to many digits for normals
    for alpha in (1.5, 3.0):
        sides = [
            alpha * stats.norm.logpdf(x, mu) + (1 - alpha) * stats.norm.logpdf(x) for mu in mus
        ]
        moment = integrate.trapezoid(integrate.trapezoid(np.exp(np.add.outer(*sides)), x), x)
        assert math.log(moment) / (alpha - 1) == pytest.approx(rho * alpha, rel=1e-9)
    assert receipt.mu == pytest.approx(math.sqrt(2 * rho), rel=1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, 1e-3), (1.0, 0.01), (2.0, 0.05)])
def test_replacing_is_exactly_a_group_of_two_records(epsilon, delta):
    """A record is removed and another added: a coin whose chance grows twice as fast as (epsilon, delta)-DP allows reaches the pair."""
    chance = [0.0]
    for _ in range(2):
        chance.append(math.exp(epsilon) * chance[-1] + delta)
    for low, high in itertools.pairwise(chance):  # each step is (epsilon, delta)-DP both ways
        assert high - math.exp(epsilon) * low <= delta * (1 + 1e-12)
        assert (1 - low) - math.exp(epsilon) * (1 - high) <= delta * (1 + 1e-12)
    twice, bound = replaced_pair(epsilon, delta)
    assert chance[2] - math.exp(twice) * chance[0] == pytest.approx(bound, rel=1e-12)
    assert (twice, bound) == pytest.approx(group_cost(epsilon, delta, 2), rel=1e-9)


def test_no_predictor_tells_more_than_the_total_variation():
    """Labeled discrepancy of samples that share records: never above B |P - Q|_1 / 2, and reached where one sample's own records cost all or nothing."""
    rng, worst = np.random.default_rng(0), 0.0
    bounds = dict(zip(("radius", "weight_radius", "target_bound"), (1.0, 2.0, 1.0), strict=True))
    B = adaptation.loss_bound(**bounds)
    for _ in range(60):
        X = rng.normal(size=(8, 2))
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)
        y, some = rng.uniform(-1, 1, 8), rng.choice(8, size=(2, 8))
        shares = [np.bincount(rows, minlength=8) / 8 for rows in some]
        found = adaptation.labeled_discrepancy(X[some[0]], y[some[0]], X[some[1]], y[some[1]], 2.0)[0]  # fmt: skip
        bound = adaptation.total_variation_bound(B, *shares)
        worst = max(worst, found / bound if bound else 0.0)
        assert found <= bound + 1e-9
    # half of the records are shared, the others cost B here and nothing there
    X, y = np.array([[1.0, 0], [0, 0], [0, 1.0], [0, 1.0]]), np.array([-1.0, 0, 0, 0])
    found = adaptation.labeled_discrepancy(X[[0, 2]], y[[0, 2]], X[[1, 3]], y[[1, 3]], 2.0)[0]
    assert found == pytest.approx(adaptation.total_variation_bound(B, [0.5, 0, 0.5], [0, 0.5, 0.5]))
    assert 0.1 < worst <= 1


@pytest.mark.parametrize("metric", ["manhattan", "chebyshev"])
def test_bounds_hold_for_other_metrics_with_their_constant(metric):
    """Diff by a metric over all choices: at most the mean change of a target's distance to its nearest source, which is at most L times that in Euclidean length of the way between the sources."""
    L, scipys = {"manhattan": (math.sqrt(2), "cityblock"), "chebyshev": (1.0, "chebyshev")}[metric]
    rng, reached = np.random.default_rng(0), 0.0
    for _ in range(20):
        target, S = rng.normal(size=(6, 2)), rng.normal(size=(5, 2))
        moves = 0.3 * rng.normal(size=(5, 2))
        seen = S + moves
        apart = lambda some: source_target.source_distance(target, some, metric=metric)  # noqa: B023, E731
        by_target = np.abs(apart(S) - apart(seen)).mean()
        costs = [
            abs(
                source_target.stc_cost(target, S, c, metric=metric)
                - source_target.stc_cost(target, seen, c, metric=metric)
            )
            for size in range(1, 4)
            for c in itertools.combinations(range(6), size)
        ]
        by_hand = (
            cdist(target, S, scipys).min(axis=1),
            cdist(target, target[:2], scipys).min(axis=1),
        )
        told = source_target.stc_cost(target, S, (0, 1), metric=metric)
        assert told == pytest.approx(np.minimum(*by_hand).mean(), rel=1e-12)
        longest = np.linalg.norm(moves, axis=1).max()
        assert max(costs) <= by_target * (1 + 1e-12) <= L * longest * (1 + 1e-12)
        reached = max(reached, max(costs) / by_target)
    assert reached > 0.7
