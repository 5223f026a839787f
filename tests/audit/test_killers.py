"""Slips that no other test noticed, each found by changing one line: exact fractions, enumeration and brute force on tiny cases."""

import math
import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import special

from dplit import (
    BudgetExceeded,
    CnvxAdap,
    KNoisyCenters,
    NCnvxAdap,
    PrivacyBudget,
    adaptation,
    estimators,
    k_tuples,
    max_cover,
    source_target,
)
from dplit import accounting as receipts
from dplit import mechanisms as noisy_average
from dplit.accounting import gaussian as accounting
from dplit.accounting import mixtures
from dplit.adaptation import Sample, discrepancy, noisy_gradient
from dplit.inputs import PrivacyWarning, quantize
from dplit.inputs.lattice import lattice
from dplit.k_tuples import stable_tuples
from dplit.mechanisms import Noise, samplers, watch
from dplit.mechanisms import discrete

RELATIONS = pytest.mark.parametrize("neighboring", ["add_remove", "replace"])


def events_of(action, **options):
    """What passes the door."""
    events = []
    with watch(lambda event: events.append(event) or event.outcome):
        action(Noise(0, **options))
    return events


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_real_values_pay_for_their_rounding(kind, size):
    # every coordinate of the neighbour is half a step further than its share, less a hair: all round up
    step, norm = 2.0**-20, 1 if kind == "laplace" else 2
    move = math.floor(1.5 / step / size ** (1 / norm)) + 0.02
    sensitivity = move * step * size ** (1 / norm)
    assert lattice(sensitivity)[0] == step
    price = {"epsilon": 1.0} if kind == "laplace" else {"mu": 1.0}
    one = np.full(size, 0.49 * step)
    (a,), (b,) = (
        events_of(lambda noise, v=v: getattr(noise, kind)(v, sensitivity=sensitivity, **price))
        for v in (one, one + move * step)
    )
    moved = np.linalg.norm(a.value - b.value, ord=norm)
    assert moved > sensitivity / step * (1 + 0.4 / move)  # rounding alone took it beyond the claim
    assert moved <= a.sensitivity == b.sensitivity


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_no_rounding_of_the_scale_sells_more_than_its_price(kind):
    rng = np.random.default_rng(0)
    short = 0
    for sensitivity, price in np.exp(rng.uniform(-3, 3, size=(300, 2))):
        name = "epsilon" if kind == "laplace" else "mu"
        noise = Noise(0)
        getattr(noise, kind)([0.0, 0.0], sensitivity=sensitivity, **{name: price})
        (line,) = noise.releases
        spent = Fraction(line.sensitivity) / Fraction(line.scale)  # exact
        assert spent <= Fraction(float(price)) == Fraction(getattr(line, name))
        short += Fraction(line.sensitivity / price) * Fraction(float(price)) < Fraction(line.sensitivity)  # fmt: skip
    assert short > 50  # so often a plain quotient would have cost more than the price


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
        assert float(accounting.mills_slope(t)) == pytest.approx(true, rel=3e-13)


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
    epsilon = accounting.zcdp_epsilon(rho, 1e-6)
    assert 0 <= epsilon <= (rho + 2 * math.sqrt(rho * math.log(1e6))) * (1 + 1e-9)
    if rho >= 1:
        assert epsilon >= rho


def test_both_halves_of_a_budget_are_limits():
    budget = PrivacyBudget(1.0, 1e-6, composition="added")
    budget.charge(0.1, 0.75e-6)
    for epsilon, delta in ((0.1, 0.5e-6), (0.95, 0.0), (0.95, 0.5e-6)):
        with pytest.raises(BudgetExceeded):
            budget.charge(epsilon, delta)
    budget.charge(0.9, 0.25e-6)  # what is left, to the last digit
    for epsilon, delta in ((1e-3, 0.0), (1e-3, 1e-9)):
        with pytest.raises(BudgetExceeded):
            budget.charge(epsilon, delta)


@pytest.mark.parametrize(
    "call",
    [
        lambda: accounting.zcdp_rho(1.0, 0.7),
        lambda: accounting.zcdp_rho(1.0, 0.0),
        lambda: accounting.zcdp_rho(0.0, 0.1),
        lambda: receipts.largest_scale(list, 1.0, 0.0, "replace"),
        lambda: receipts.largest_scale(list, 1.0, 1.0, "replace"),
        lambda: receipts.largest_scale(list, 0.0, 0.1, "replace"),
    ],
)
def test_prices_out_of_range_are_refused_by_name(call):
    with pytest.raises(ValueError, match="choose epsilon > 0|needs a number"):
        call()


@pytest.mark.parametrize("k", [1, 2, 100])
def test_the_rounding_of_gradients_is_paid(k):
    # one record's numbers are just below half a step, the other's just above: each moves by a whole step
    step, limit = lattice(1.0)
    diameter = 0.02 * step * math.sqrt(k)
    a, b = (
        events_of(
            lambda noise, x=x: noisy_gradient(
                lambda block, at: np.repeat(block, k, axis=1),
                np.array([[x * step]]),
                bound=1.0,
                diameter=diameter,
                noise=noise,
                mu=1.0,
            ),
            neighboring="replace",
        )[0]
        for x in (0.49, 0.51)
    )
    moved = np.linalg.norm(a.value - b.value)
    assert moved == pytest.approx(math.sqrt(k)) and moved > 40 * diameter / step
    assert a.sensitivity == b.sensitivity >= moved
    assert a.sensitivity == pytest.approx(diameter / step + 4 * math.sqrt(k) + 4, rel=1e-11)


@pytest.mark.parametrize("diameter", [None, 1.0, 2.0, 5.0])
def test_gradients_are_apart_by_their_diameter_or_twice_the_ball(diameter):
    step, limit = lattice(1.0)
    (event,) = events_of(
        lambda noise: noisy_gradient(
            lambda block, at: block,
            np.ones((3, 2)),
            bound=1.0,
            diameter=diameter,
            noise=noise,
            mu=1.0,
        ),
        neighboring="replace",
    )
    if diameter == 1.0:
        needed = Fraction(1.0) / Fraction(step) + 4  # exact, and the caller's own rounding
        assert needed * (1 + Fraction(1, 10**13)) < Fraction(event.sensitivity) < needed + 8
    else:
        assert event.sensitivity == 2 * limit
    assert event.step == step and np.array_equal(event.value, event.value.astype(int))


@pytest.mark.parametrize("d", [1, 2, 7, 50])
def test_second_moments_pay_for_rows_that_rounding_made_longer(d):
    steps = discrepancy._MOMENT_STEPS
    cut = (math.floor(steps / math.sqrt(d)) + 0.51) / steps  # just above half a step
    m = min(d, math.floor(1 / cut**2))  # as many such numbers as a row of length 1 holds
    row = np.zeros((1, d))
    row[0, :m] = cut
    assert np.linalg.norm(row) <= 1
    (event,) = events_of(
        lambda noise: discrepancy.private_second_moment(row, radius=1.0, noise=noise, mu=1.0),
        neighboring="replace",
    )
    rounded = np.rint(row * steps)
    weights = np.where(np.eye(d), 5, 7)  # 7 < 5 sqrt(2)
    assert np.array_equal(event.value, (weights * (rounded.T @ rounded))[np.triu_indices(d)])
    assert event.step == 1 / steps**2 / 5
    assert np.linalg.norm(event.value) <= 5 * np.sum(rounded**2) <= event.sensitivity / math.sqrt(2)
    longest = 5 * math.sqrt(2) * (steps + math.sqrt(d) / 2) ** 2
    assert event.sensitivity == pytest.approx(longest, rel=1e-12)


@pytest.mark.parametrize("n", [1, 10, 10**6, 10**8])
@pytest.mark.parametrize("price", [{"mu": 1.0}, {"epsilon": 0.5}])
def test_a_discrepancy_pays_for_the_rounding_of_its_sums(n, price):
    bound = 3.7
    (event,) = events_of(
        lambda noise: discrepancy.private_discrepancy(bound / 3, bound, n, noise=noise, **price),
        neighboring="replace",
    )
    # two means of n products, each off by at most n 2**-53 of B, beside what one record can do, a
    # millionth more; in whole steps, and one step for rounding to the lattice
    needed = Fraction(bound) / n * (1 + Fraction(1, 10**6)) + 2 * n * Fraction(bound) / 2**53
    assert event.sensitivity == math.ceil(needed / Fraction(event.step)) + 1


# Without noise an algorithm is the one that is printed, step by step.


def records(rng, n):
    """Rows and labels on every lattice of the bounds below."""
    return np.round(rng.uniform(-1, 1, size=(n, 2)) * 64) / 64, np.round(rng.uniform(-1, 1, n) * 64) / 64  # fmt: skip


def in_ball(w, radius):
    return w * min(1.0, radius / np.linalg.norm(w))


@pytest.mark.parametrize("protect", ["target", "source"])
@pytest.mark.parametrize("kappa_2, kappa_inf", [(0.0, 0.0), (0.3, 0.0), (0.0, 0.4), (0.3, 0.4)])
def test_the_printed_convex_algorithm_is_projected_descent_on_the_joint_objective(
    protect, kappa_2, kappa_inf
):
    rng, T, r, Lambda, Y, d, alpha = np.random.default_rng(2), 6, 1.5, 0.75, 1.25, 0.5, 0.4
    (Xt, yt), (Xs, ys) = records(rng, 4), records(rng, 3)
    kappas = {"kappa_1": 0.05, "kappa_2": kappa_2, "kappa_inf": kappa_inf}
    bounds = {"radius": r, "weight_radius": Lambda, "target_bound": Y, "discrepancy": d}
    model = CnvxAdap(variant="paper", epsilon=50.0, delta=0.01, alpha=alpha, n_iter=T, protect=protect, random_state=0, **bounds, **kappas)  # fmt: skip
    with pytest.warns(PrivacyWarning), watch(lambda event: event.value):
        model.fit(Xt, yt, Xs=Xs, ys=ys)

    X, y = np.vstack([Xt, Xs]), np.r_[yt, ys]
    target = np.arange(len(y)) < len(yt)
    p = np.where(target, (1 - alpha) / len(yt), alpha / len(ys))
    offset = np.where(target, 0.0, d)
    private = target if protect == "target" else ~target
    mu_each = accounting.gaussian_mu(50.0, 0.01) / math.sqrt(2 * T)
    # Theorem 4.3: the distance to go, over the length of a gradient with its noise and the root of T
    largest_loss, mine = (Lambda * r + Y) ** 2 + offset, p[private][0]
    noise_w = mine * adaptation.gradient_diameter(r, Lambda, Y) / mu_each
    noise_u = largest_loss[private][0] * mine**2 / mu_each
    slope = 2 * r * (Lambda * r + Y) + 2 * kappa_inf * Lambda * p.max()
    eta_w = Lambda / math.sqrt(T * (slope**2 + 2 * noise_w**2))
    eta_u = np.empty(len(y))
    for group in (private, ~private):
        n, q, B = group.sum(), p[group][0], largest_loss[group][0]
        slope = math.sqrt(n) * ((B + 0.05) * q**2 + 2 * kappa_2 * q**3) + kappa_inf * Lambda**2 * q**2  # fmt: skip
        reach = math.sqrt(n) * (math.sqrt(B / 0.05) - 1) / q
        extra = n * noise_u**2 if group is private else 0.0
        eta_u[group] = reach / math.sqrt(T * (slope**2 + extra))
    w, u, mean_w, mean_u = np.zeros(2), 1 / p, np.zeros(2), np.zeros(len(y))
    for _ in range(T):
        mean_w, mean_u = mean_w + w / T, mean_u + u / T
        by_u, by_w = adaptation.joint_gradient(u, w, X, y, p, offset=offset, **kappas)
        w, u = in_ball(w - eta_w * by_w, Lambda), np.maximum(u - eta_u * by_u, 1 / p)
    assert np.linalg.norm(mean_w) > 0.01 and np.abs(mean_u * p - 1).max() > 0.01  # it moves
    assert np.allclose(model.coef_, mean_w, rtol=0, atol=4e-6)
    assert np.allclose(model.target_weights_, 1 / mean_u[target], rtol=2e-5)
    assert np.allclose(model.source_weights_, 1 / mean_u[~target], rtol=2e-5)


@pytest.mark.parametrize("kappa_2, kappa_inf", [(0.0, 0.0), (0.3, 0.05)])
@pytest.mark.parametrize("sources", [0, 3])
def test_the_printed_nonconvex_algorithm_is_projected_descent_on_problem_7(
    kappa_2, kappa_inf, sources
):
    rng, T, radius, Lambda, loss = np.random.default_rng(5), 4, 1.5, 0.75, adaptation.LogLoss(3)
    (Xt, _), (Xs, _) = records(rng, 4), records(rng, sources)
    yt, ys = np.array([0, 1, 2, 1]), np.array([2, 0, 2])[:sources]
    step = lattice(radius)[0]
    private = Sample(Xt / step, yt, step, p=0.15)
    public = Sample(Xs / step, ys, step, p=0.1, offset=0.4)
    kappas, speed = {"kappa_1": 0.05, "kappa_2": kappa_2, "kappa_inf": kappa_inf}, (3.0, 300.0)
    with watch(lambda event: event.value):
        visited, u_public, u_private, values = adaptation.algorithm_2(
            loss, private, public, radius, Lambda, n_iter=T, speed=speed,
            noise=Noise(0, neighboring="replace"), mu=1.0, **kappas,
        )  # fmt: skip

    X, y = np.vstack([Xs, Xt]), np.r_[ys, yt]
    p, offset = np.r_[np.full(sources, 0.1), np.full(4, 0.15)], np.r_[np.full(sources, 0.4), np.zeros(4)]  # fmt: skip
    soft = 10 * len(p) * math.log(len(p) + 1)

    def objective(w, u):
        losses = np.array([loss(w, X[i : i + 1], y[i : i + 1])[0][0] for i in range(len(y))])
        return adaptation.smoothed_objective(losses + offset, u, p, mu=soft, squared_norm=w @ w, **kappas)[0]  # fmt: skip

    def slope(function, at, h=1e-6):  # differences of values
        return np.array([(function(at + h * e) - function(at - h * e)) / (2 * h) for e in np.eye(len(at))])  # fmt: skip

    smooth = adaptation.objective_smoothness(
        loss.constants(radius, Lambda), p, offset=offset, kappa_2=kappa_2, kappa_inf=kappa_inf,
        mu=soft, weight_radius=Lambda,
    )  # fmt: skip
    w, u = np.zeros(6), 1 / p
    for t in range(T):
        assert np.allclose(visited[t], w, rtol=0, atol=1e-5)
        assert values[t] == pytest.approx(objective(w, u), rel=1e-5)
        by_w, by_u = slope(lambda w: objective(w, u), w), slope(lambda u: objective(w, u), u)  # noqa: B023
        w = in_ball(w - speed[0] / smooth * by_w, Lambda)
        u = np.maximum(u - speed[1] / smooth * by_u, 1 / p)
    assert np.linalg.norm(w) > 0.01 and np.abs(u * p - 1).max() > 0.01  # it moves
    assert np.allclose(np.r_[u_public, u_private], u, rtol=1e-5)


UNITS = [  # a formula, its arguments, the power of the unit in each of them, and in the result
    (adaptation.gradient_bound, (1.5, 0.7, 0.4), (1, -1, 0), 1),  # of rows
    (adaptation.gradient_bound, (1.5, 0.7, 0.4), (0, 1, 1), 1),  # of labels
    (adaptation.gradient_diameter, (1.5, 0.7, 0.4), (1, -1, 0), 1),
    (adaptation.gradient_diameter, (1.5, 0.7, 0.4), (0, 1, 1), 1),
    (adaptation.profiled_sensitivity, (1.5, 0.7, 0.4, 0.1), (1, -1, 0, 0), 1),
    (adaptation.profiled_sensitivity, (1.5, 0.7, 0.4, 0.1), (0, 1, 1, 2), 1),
    (adaptation.profiled_sensitivity, (1.5, 0.7, 0.4, 9.0), (1, -1, 0, 0), 1),
    (adaptation.profiled_loss, (7.0, 0.3), (2, 2), 2),
    (discrepancy.loss_bound, (1.5, 0.7, 0.4), (1, -1, 0), 0),
    (discrepancy.loss_bound, (1.5, 0.7, 0.4), (0, 1, 1), 2),
    (discrepancy.discrepancy_sensitivity, (2.0, 8), (1, 0), 1),
    (discrepancy.discrepancy_sensitivity, (2.0, 8), (0, 1), -1),
    (source_target.nas_sensitivity, (7, 3, 0.6), (0, 0, 1), 1),
    (source_target.nas_sensitivity, (7, 3, 0.6), (0, 1, 0), -1),
    (source_target.nas_sensitivity, (7, 3, 0.6), (2, 0, 0), 1),
    (source_target.nas_sigma, (7, 3, 0.9, 1e-3, 0.6), (0, 0, 0, 0, 1), 1),
    (source_target.nas_sigma, (7, 3, 0.9, 1e-3, 0.6), (0, 1, 0, 0, 0), -1),
    (source_target.nas_sigma, (7, 3, 0.9, 1e-3, 0.6), (0, 0, 1, 0, 0), -1),
    (source_target.cell_sensitivity, (6.0, 4.0, 3, 2, "replace"), (1, 1, 0, 0), 1),
    (source_target.cell_sensitivity, (6.0, 4.0, 3, 2, "add_remove"), (1, 1, 0, 0), 1),
    (estimators.round_sensitivity, (1.5, 0.7), (1, 0), 1),
    (estimators.center_error_bound, (500.0, 3, 1.5, 0.4, 0.1), (0, 0, 1, 0, 0), 1),
]


@pytest.mark.parametrize("formula, arguments, powers, power", UNITS)
def test_a_formula_keeps_its_units(formula, arguments, powers, power):
    # 4 of the old units in a new one: exact, and lattices go along
    changed = [x * 4**k if k else x for x, k in zip(arguments, [*powers, "", ""], strict=False)]
    assert formula(*changed) == pytest.approx(4.0**power * formula(*arguments), rel=1e-12)


def test_bounds_on_one_line_are_reached():
    r, Lambda, Y = 0.7, 1.9, 0.4
    losses = [(w * r - y) ** 2 for w in (-Lambda, Lambda) for y in (-Y, Y)]
    slopes = [2 * (w * x - y) * x for w in (-Lambda, Lambda) for x in (-r, r) for y in (-Y, Y)]
    assert discrepancy.loss_bound(r, Lambda, Y) == pytest.approx(max(losses), rel=1e-14)
    assert adaptation.gradient_bound(r, Lambda, Y) == pytest.approx(max(slopes), rel=1e-14)


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("reach, share", [(5, 2), (2, 5), (5, 50)])
def test_no_move_of_one_source_is_longer_than_its_cell_sensitivity(neighboring, norm, reach, share):
    """Every pair of whole points of a disc, in either of two cells or in none."""
    points = [
        (x, y)
        for x in range(-reach, reach + 1)
        for y in range(-reach, reach + 1)
        if x * x + y * y <= reach**2
    ]
    tables = [np.array([x, y, share, 0, 0, 0]) for x, y in points]
    tables += [np.roll(table, 3) for table in tables]
    tables = np.array([*tables, np.zeros(6, dtype=int)])
    if neighboring == "add_remove":
        moves = tables
    else:
        moves = (tables[:-1, None] - tables[None]).reshape(-1, 6)
    farthest = np.linalg.norm(moves, ord=norm, axis=1).max()
    claim = source_target.cell_sensitivity(reach, share, 2, norm, neighboring)
    slack = 1.0 if norm == 2 else 1.15  # whole points do not reach every diagonal of the disc
    assert farthest <= claim * (1 + 1e-12) and claim <= farthest * slack * (1 + 1e-12)


@pytest.mark.parametrize("weight", [0.3, 1.0, 2.5])
def test_no_row_moves_a_round_farther_than_its_sensitivity(weight):
    # one row of length 1 in one of two clusters, beside its weighted count; the worst is on the circle
    angle = np.linspace(0, 2 * np.pi, 361)
    rows = np.c_[np.cos(angle), np.sin(angle), np.full(361, weight), np.zeros((361, 3))]
    both = np.vstack([rows, np.roll(rows, 3, axis=1)])
    one = np.linalg.norm(rows, axis=1).max()
    two = np.linalg.norm(both[:, None] - both[None], axis=2).max()
    assert estimators.round_sensitivity(1.0, weight) == pytest.approx(one, rel=1e-12)
    assert estimators.round_sensitivity(1.0, weight, "replace") == pytest.approx(two, rel=1e-12)


@pytest.mark.parametrize("sources", [0, 5])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_profiled_classifier_ends_where_objective_and_pull_balance(sources, n_classes):
    rng, radius, Lambda, alpha, mu = np.random.default_rng(3), 1.5, 4.0, 0.3, 0.3
    (Xt, yt), (Xs, ys) = ((records(rng, n)[0], np.arange(n) % n_classes) for n in (9, sources))
    delta = 1e-3
    epsilon = accounting.gaussian_epsilon(delta, mu)
    model = NCnvxAdap(
        classes=list(range(n_classes)), epsilon=float(epsilon), delta=delta, radius=radius,
        weight_radius=Lambda, alpha=alpha, kappa_1=0.5, kappa_inf=0.1, discrepancy=0.2,
        expected_gain=0.3, raise_curvature=0.05, n_iter=200, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings(), watch(lambda event: event.value):
        warnings.simplefilter("ignore")
        model.fit(Xt, yt, **({"Xs": Xs, "ys": ys} if sources else {}))
    loss = adaptation.LogLoss(n_classes)
    share = alpha if sources else 0.0
    p = np.r_[np.full(9, (1 - share) / 9), np.full(sources, share / max(sources, 1))]
    X, y = np.vstack([Xt, Xs]), np.r_[yt, ys]
    offset = np.r_[np.zeros(9), np.full(sources, 0.2)]
    reach, D = loss.reach(radius, Lambda, 0.5), loss.n_parameters(2)
    pull = (2 * p[0] * reach / mu) ** 2 * D / (2 * 0.3)
    ridge = 0.1 * p.max()
    start = np.zeros(D)
    if sources:
        step = lattice(radius)[0]
        alone = Sample(Xs / step, ys, step, p=1 / sources)
        start = adaptation.train(loss, [alone], Lambda, 0.5, ridge=0.1 / sources)

    def objective(w):
        values = loss(w, X, y)[0] + offset
        return p @ adaptation.profiled_loss(values, 0.5) + ridge * w @ w + pull / 2 * np.sum((w - start) ** 2)  # fmt: skip

    assert 0.03 < np.linalg.norm(model.coef_) < Lambda
    at, h = model.coef_, 1e-5
    slope = [(objective(at + h * e) - objective(at - h * e)) / (2 * h) for e in np.eye(D)]
    assert np.linalg.norm(slope) < 1e-3 < 0.1 * pull * np.linalg.norm(at - start)


# What passes the door, and the arguments of the draws behind it.


def test_every_choice_and_sample_is_shown_whole_to_an_auditor():
    grid = max_cover.GridCover(np.array([[0.1, 0.2], [0.5, 0.5], [0.1, 0.2]]), 0.5)
    seen = events_of(
        lambda noise: (
            noise.exponential([1.0, 2.0], epsilon=0.5, sensitivity=3.0),
            noise.cover(0.7)(grid),
            noise.sample(4, 2),
            noise.count(3, mu=1.0),
        )
    )
    assert [event.mechanism for event in seen] == ["exponential", "cover", "sample", "gaussian"]
    for event in seen:
        assert (event.step, event.branch, event.body, event.share) == (1.0, None, (), 1.0)
    assert [event.sensitivity for event in seen] == [3.0, 1.0, 1.0, 1.0]
    assert seen[0].scale == pytest.approx(2 * 3.0 / 0.5) and seen[1].scale == pytest.approx(1 / 0.7)
    inside = []
    with watch(lambda event: inside.append(event) or event.outcome):
        noise = Noise(0)
        with noise.procedure(receipts.Release("both", "other", epsilon=1.0), share=0.25):
            noise.parallel([lambda: noise.count(1, mu=1.0), lambda: noise.count(2, mu=1.0)])
        noise.count(3, mu=1.0)
    assert [event.share for event in inside] == [0.25, 0.25, 1.0]
    assert [event.branch for event in inside] == [(1, 0), (1, 1), None]


@pytest.fixture
def raced(monkeypatch):
    """Arguments of every race for a choice."""
    calls, race = [], samplers._race
    monkeypatch.setattr(discrete, "_race", lambda *args: calls.append(args) or race(*args))
    return calls


@pytest.mark.parametrize("monotone", [True, False])
def test_no_rounding_of_a_choice_s_factor_sells_more_than_its_price(raced, monotone):
    rng, missed = np.random.default_rng(1), 0
    for sensitivity, epsilon in np.exp(rng.uniform(-3, 3, size=(100, 2))):
        noise = Noise(0)
        noise.exponential([0.0, 1.0], sensitivity=sensitivity, epsilon=epsilon, monotone=monotone)
        moves = Fraction(sensitivity) * (1 if monotone else 2)
        assert Fraction(float(raced[-1][2])) * moves <= Fraction(epsilon)
        assert float(raced[-1][2]) == pytest.approx(float(Fraction(epsilon) / moves), rel=1e-15)
        missed += Fraction(float(epsilon / float(moves))) * moves > Fraction(epsilon)
    assert missed > 10  # so often a plain quotient costs more


def test_a_cover_races_for_counts_and_for_anyone(raced):
    class Candidates:
        size, histogram = 10, np.array([0, 3, 0, 1])
        find = staticmethod(lambda count, rank: 100 * count + rank)

    chosen = [Noise(seed).cover(2.0)(Candidates) for seed in range(60)]
    for _, counts, factor, sizes in raced:
        assert list(counts) == [0, 1, 3] and list(sizes) == [10, 3, 1] and 0 < 2.0 - factor < 1e-15
    assert {c for c in chosen if c >= 100} <= {100, 101, 102, 300} and 300 in chosen
    assert all(c in range(10) for c in chosen if c < 100)


def test_noisy_avg_divides_whole_numbers_and_starts_at_one():
    X, epsilon, delta = np.array([[0.3, -0.7], [0.11, 0.2], [-0.5, 0.4]]), 1.0, 1e-6
    shift = math.ceil(5 / epsilon * math.log(2 / delta))
    for m_hat, n_events in ((-5, 1), (0, 1), (1, 2), (2, 2), (1000, 2)):
        seen = []

        def watcher(event, seen=seen, m_hat=m_hat):
            seen.append(event)
            return np.asarray(m_hat + shift if len(seen) == 1 else event.value)

        with watch(watcher):
            got = noisy_average.noisy_avg(
                X, radius=1.0, epsilon=epsilon, delta=delta, noise=Noise(0)
            )
        assert len(seen) == n_events and seen[0].value == 3 and seen[0].sensitivity == 1
        assert seen[0].scale == pytest.approx(5 / epsilon)
        if n_events == 1:
            assert np.linalg.norm(got) <= 1
            continue
        step = Fraction(lattice(1.0)[0])
        for total, value in zip(quantize(X, 1.0).sum(axis=0), seen[1].value, strict=True):
            exact = Fraction(total) * step / 3 / Fraction(seen[1].step)
            assert abs(exact - int(value)) <= Fraction(1, 2)
        z = 5 / (4 * epsilon) * math.sqrt(2 * math.log(3.5 / delta))
        moves = 2 / m_hat / seen[1].step + math.sqrt(2)  # of the mean, and of its rounding
        assert seen[1].sensitivity == pytest.approx(moves, rel=1e-12)
        assert seen[1].scale == pytest.approx(z * moves, rel=1e-12)
        assert seen[1].scale > 2**19  # the lattice is as fine as the noise needs


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 1.7])
def test_the_proved_delta_of_noisy_avg_is_its_sum(epsilon):
    z = 5 / (4 * epsilon) * math.sqrt(2 * math.log(3.5 / 1e-5))
    count = math.exp(epsilon / 5) * 1e-5 / 4
    proved = accounting.gaussian_delta(4 * epsilon / 5, 1 / z) + count
    assert noisy_average.noisy_avg_delta(epsilon, 1e-5) == pytest.approx(proved, rel=1e-12)


@pytest.mark.parametrize("delta", [1e-3, 1e-7])
def test_the_price_of_stable_means_is_kept_and_used(delta):
    for epsilon in np.geomspace(0.03, 8, 40):
        mu, eta = stable_tuples._stable_price(epsilon, delta)
        lines = [
            receipts.Release("bounds", "tail", epsilon=0.0, delta=eta),
            receipts.Release("all", "gaussian", mu=mu),
        ]
        spent = receipts.Receipt(lines, "replace").epsilon_at(delta)
        assert epsilon * (1 - 1e-7) <= spent <= epsilon and eta == delta / 2


def test_stable_movements_allow_for_rounding():
    for separation in (9.0, 12.5, 100.0):
        shift, stretch = stable_tuples.stable_movement(0.25, separation)
        closer = k_tuples.ratio_bound(separation * (1 - 0.9e-9))
        assert closer * 0.5 / separation < shift < closer * 0.5 / separation * (1 + 1e-9)
        assert 0.25 * math.log(closer) < stretch < 0.25 * math.log(closer) * (1 + 1e-8)


STABLE = {"separation": 12.0, "outliers": 0.1, "mu": 40.0, "eta": 1e-6, "beta": 0.05}


def test_tuples_that_do_not_agree_are_not_answered_whatever_the_price():
    T = np.random.default_rng(0).normal(size=(40, 3, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for mu in (1.0, 40.0, 1e4):
            assert stable_tuples.stable_tuple_mean(T, **{**STABLE, "mu": mu}, noise=Noise(0, neighboring="replace")) is None  # fmt: skip


def test_a_stable_mean_divides_its_failures_in_halves(monkeypatch):
    calls, release = [], k_tuples.scaled_centers
    monkeypatch.setattr(
        stable_tuples,
        "scaled_centers",
        lambda *args, **kw: calls.append(kw) or release(*args, **kw),
    )
    T = np.tile(np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 40.0]]), (60, 1, 1))
    seen = []
    with watch(lambda event: seen.append(event) or event.value):
        got = stable_tuples.stable_tuple_mean(T, **STABLE, noise=Noise(0, neighboring="replace"))
    assert np.allclose(got, T[0][np.lexsort(T[0].T[::-1])], atol=1e-4)
    h0, s, G = stable_tuples.stable_geometry(60, 0.1)
    step, scale = seen[0].step, seen[0].scale * seen[0].step
    assert seen[0].value * step == s * 60 and seen[0].sensitivity * step == pytest.approx(G, rel=1e-5)  # fmt: skip
    low = s * 60 + special.ndtri(STABLE["eta"] / 2) * scale
    shift, stretch = stable_tuples.stable_movement(G / low, 12.0)
    (call,) = calls
    assert call["eta"] == STABLE["eta"] / 2
    assert call["shift"] == pytest.approx(shift, rel=1e-12)
    assert call["stretch"] == pytest.approx(stretch, rel=1e-12)
    spent = (G / scale) ** 2 + call["mu"] ** 2
    assert spent == pytest.approx(STABLE["mu"] ** 2, rel=1e-4) and spent <= STABLE["mu"] ** 2 * (1 + 1e-12)  # fmt: skip


def test_noisy_centers_as_printed_have_the_printed_deviation():
    k, epsilon, delta, separation = 2, 1.0, 1e-3, 1e4
    T = np.tile(np.array([[0.0, 0.0], [3.0, 4.0]]), (900, 1, 1))
    model = KNoisyCenters(epsilon=epsilon, delta=delta, separation=separation, variant="paper", random_state=0)  # fmt: skip
    drawn = {}

    def watcher(event):
        if event.label in ("gamma", "z"):
            return np.full(np.shape(event.value), drawn[event.label] / event.step)
        return event.outcome

    released = []
    for gamma, z in ((0.5, 0.0), (0.5, 1.0), (2.0, 1.0)):
        drawn.update(gamma=gamma, z=z)
        with warnings.catch_warnings(), watch(watcher):
            warnings.simplefilter("ignore")
            released.append(model.fit(T).centers_)
    epsilon, delta, _ = model._numbers()
    assert np.allclose(released[0], T[0])
    for gamma, centers in ((0.5, released[1]), (2.0, released[2])):
        # Figure 4, steps 4a to 4c; the two points are at distance 5
        stretched = 4 / (separation - 2) * (gamma + 4 * k / epsilon * math.log(4 * k / delta) + 1)
        scale = 2 / separation * (1 + stretched) * 5.0
        sigma = 4 * k / epsilon * scale * math.sqrt(2 * math.log(10 * k / delta))
        assert np.allclose(centers - T[0], sigma, rtol=1e-6, atol=0)


@pytest.mark.parametrize("protect", ["target", "source"])
def test_the_profiled_predictor_ends_where_objective_and_pull_balance(protect):
    rng, r, Lambda, Y, alpha, mu, kappa_1 = np.random.default_rng(4), 1.5, 4.0, 1.25, 0.3, 0.5, 0.4
    (Xt, yt), (Xs, ys) = records(rng, 9), records(rng, 5)
    model = CnvxAdap(
        epsilon=float(accounting.gaussian_epsilon(1e-3, mu)), delta=1e-3, radius=r, alpha=alpha,
        weight_radius=Lambda, target_bound=Y, kappa_1=kappa_1, kappa_inf=0.1, discrepancy=0.2,
        raise_curvature=0.05, n_iter=300, protect=protect, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings(), watch(lambda event: event.value):
        warnings.simplefilter("ignore")
        model.fit(Xt, yt, Xs=Xs, ys=ys)
    p, offset = np.repeat([(1 - alpha) / 9, alpha / 5], [9, 5]), np.repeat([0.0, 0.2], [9, 5])
    X, y = np.vstack([Xt, Xs]), np.r_[yt, ys]
    mine = p[0] if protect == "target" else p[-1]
    sd = mine * adaptation.profiled_sensitivity(r, Lambda, Y, kappa_1) / mu
    # the public sample says where to start and what curves
    step = lattice(r)[0]
    public, labels, d = (Xs, ys, 0.2) if protect == "target" else (Xt, yt, 0.0)
    alone = Sample(public / step, labels, step, p=1 / len(labels), offset=d)
    start, H = adaptation.profiled_regression([alone], Lambda, kappa_1, ridge=0.1 / len(labels))
    far = np.linalg.norm(start) / 2
    curvature, V = np.linalg.eigh(H)
    doubt = (V * (sd**2 * 2 / far**2 / (curvature + 0.05 * curvature[-1]))) @ V.T

    def objective(w):
        values = adaptation.profiled_loss((X @ w - y) ** 2 + offset, kappa_1)
        return p @ values + 0.1 * p.max() * w @ w + (w - start) @ doubt @ (w - start) / 2

    at, h = model.coef_, 1e-5
    slope = [(objective(at + h * e) - objective(at - h * e)) / (2 * h) for e in np.eye(2)]
    assert 0.01 < np.linalg.norm(at) < Lambda
    assert np.linalg.norm(slope) < 1e-3 < 0.1 * np.linalg.norm(doubt @ (at - start))
