"""Non-convex adaptation: losses against differences, bounds against search, every promise of the estimator."""

import doctest
import math
import pickle
import time
import warnings
from functools import partial
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from test_audit import is_caught, planted
from test_estimators import (
    BAD_X,
    FORMS,
    IMPOSSIBLE,
    Untouchable,
    attributes,
    omissions,
    quotes,
    sentences,
)
from test_estimators import listen as listen_to

from dplit import BudgetExceeded, NCnvxAdap, PrivacyBudget, adaptation, audit
from dplit.accounting import gaussian, gaussian_epsilon, gaussian_mu
from dplit.adaptation import Sample, classification, noisy_gradient, on_lattice, profile_weights
from dplit.adaptation.classification import fisher_information
from dplit.inputs import PrivacyWarning, quantize
from dplit.inputs.lattice import lattice
from dplit.mechanisms import Noise, watch

rng = np.random.default_rng(0)
Xs, ys = rng.normal(size=(80, 2)), rng.integers(2, size=80)  # PUBLIC
Xt = np.random.default_rng(8).normal(scale=3.0, size=(61, 2)).astype(np.float32).astype(float)
yt = (Xt[:, 0] > 0).astype(int)
RADIUS = 4.0
COMMON = {"epsilon": 1.0, "delta": 1e-5, "radius": RADIUS, "weight_radius": 3.0}
COMMON |= {"classes": [0, 1], "random_state": 0, "n_iter": 3}
MAKE = partial(NCnvxAdap, **COMMON)
ESTIMATORS = {
    "logistic": MAKE,
    "logistic, nobody asks": partial(MAKE, expected_gain=0.02),
    "logistic, no weights": partial(MAKE, kappa_1=math.inf),
    "logistic, ridge and discrepancy": partial(MAKE, kappa_inf=0.5, discrepancy=0.2),
    "logistic, target alone": partial(MAKE, alpha=0.0),
    "softmax": partial(MAKE, classes=[0, 1, 2]),
    "network": partial(MAKE, loss=adaptation.NetworkLoss(2, clip=0.5)),
    "network, three classes": partial(MAKE, loss=adaptation.NetworkLoss(2, 3), classes=[0, 1, 2]),
    "source protected": partial(MAKE, protect="source", alpha=0.7),
    "as published": partial(MAKE, variant="paper", kappa_2=0.1, kappa_inf=0.2),
}
every = pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)
LOSSES = {
    "logistic": adaptation.LogLoss(),
    "softmax": adaptation.LogLoss(4),
    "network": adaptation.NetworkLoss(3),
    "network, many classes": adaptation.NetworkLoss(3, 3),
}
each_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def fit(model, rows, labels=None):
    """Fit on private rows; the public table is on the other side."""
    labels = yt if labels is None else labels
    if model.protect == "source":
        return model.fit(Xs, ys, Xs=rows, ys=labels)
    return model.fit(rows, labels, Xs=Xs, ys=ys)


def asks(model):
    """Whether the guard of this model does."""
    told = model.variant == "paper" or model.expected_gain is not None
    return not told and model.protect == "target" and 0 < model.alpha < 1


def fit_table(model, table):
    """Rows whose last entry tells the class by its sign."""
    return fit(model, table[:, :2], (table[:, 2] > 0).astype(int))


def coef(model, rows, labels=None):
    return fit(model, rows, labels).coef_


class Beside:
    """An estimator whose `fit` takes the private rows alone, for helpers that know no labels."""

    def __init__(self, model):
        self.fit = lambda rows: fit(model, rows, yt[: len(rows)])


def sample_of(X, y, p, offset=0.0, radius=RADIUS):
    return Sample(quantize(X, radius), np.asarray(y), lattice(radius)[0], p, offset)


# ---------------------------------------------------------------- losses


@each_loss
def test_gradients_are_differences_of_values(loss):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(7, 3)), rng.integers(loss.n_classes, size=7)
    w, h = rng.normal(size=loss.n_parameters(3)), 1e-3  # hidden units live on a lattice of 1e-6
    values, rows = loss(w, X, y)
    for i, e in enumerate(np.eye(len(w))):
        slope = (loss(w + h * e, X, y)[0] - loss(w - h * e, X, y)[0]) / (2 * h)
        assert np.allclose(rows[:, i], slope, atol=5e-3)
    factor = lambda v: 1 / (1 + v)  # noqa: E731
    total = loss.total(w, X, y, factor)
    assert np.allclose(total[0], values) and np.allclose(total[1], factor(values) @ rows)


@each_loss
def test_exponentials_of_minus_losses_are_the_probabilities_of_the_scores(loss):
    rng = np.random.default_rng(2)
    X, w = rng.normal(size=(9, 3)), 5 * rng.normal(size=loss.n_parameters(3))
    P = np.column_stack([np.exp(-loss(w, X, np.full(9, k))[0]) for k in range(loss.n_classes)])
    assert np.allclose(P.sum(axis=1), 1)
    assert np.allclose(P, special.softmax(loss.scores(w, X), axis=1), atol=1e-12)


@each_loss
@pytest.mark.parametrize("weight_radius", [0.5, 4.0])
def test_constants_hold_on_the_ball(loss, weight_radius):
    rng, radius, longest = np.random.default_rng(3), 1.5, 0.0
    B, G, beta = loss.constants(radius, weight_radius)
    for _ in range(200):
        w, v = rng.normal(size=(2, loss.n_parameters(3)))
        w *= weight_radius * rng.uniform() ** 0.2 / np.linalg.norm(w)
        v *= 0.05 / np.linalg.norm(v)
        X = rng.normal(size=(8, 3))
        X *= radius / np.linalg.norm(X, axis=1, keepdims=True)
        y = rng.integers(loss.n_classes, size=8)
        (values, rows), (_, moved) = loss(w, X, y), loss(w + v, X, y)
        longest = max(longest, np.linalg.norm(rows, axis=1).max() / G)
        assert values.min() >= 0 and values.max() <= B
        assert np.linalg.norm(moved - rows, axis=1).max() <= 0.05 * beta * 1.05 + 1e-5
        for kappa_1 in (0.05, 0.5, 5.0):
            reach = loss.reach(radius, weight_radius, kappa_1)
            pulled = rows * profile_weights(values, kappa_1)[:, None]
            if isinstance(loss, adaptation.LogLoss):  # a network's gradients are clipped to it
                assert np.linalg.norm(pulled, axis=1).max() <= reach * (1 + 1e-12)
                assert reach <= adaptation.Loss.reach(loss, radius, weight_radius, kappa_1) * (
                    1 + 1e-12
                )
    assert 0.1 < longest <= 1 + 1e-12


@given(st.floats(1e-3, 50.0), st.floats(1e-6, 60.0))
@settings(max_examples=200, deadline=None)
def test_no_probability_pulls_more_than_its_reach(kappa_1, loss):
    pull = -math.expm1(-loss) * min(1.0, math.sqrt(kappa_1 / loss))
    assert pull <= adaptation.log_reach(kappa_1) * (1 + 1e-12)


def test_the_reach_has_its_closed_form():
    losses = np.linspace(1e-4, 60, 400_001)
    for kappa_1 in (0.01, 0.3, 1.0, 1.3, 4.0):
        brute = np.max(-np.expm1(-losses) * np.minimum(1, np.sqrt(kappa_1 / losses)))
        assert adaptation.log_reach(kappa_1) == pytest.approx(brute, rel=1e-6)
    assert adaptation.log_reach(0.25) == pytest.approx(0.638 * 0.5, rel=1e-3)
    assert adaptation.log_reach(math.inf) == 1.0


@each_loss
def test_a_gradient_depends_on_its_own_record_to_the_last_bit(loss):
    rng = np.random.default_rng(4)
    X = quantize(rng.normal(size=(300, 19)), 1.0) * lattice(1.0)[0]
    y, w = rng.integers(loss.n_classes, size=300), rng.normal(size=loss.n_parameters(19))
    w = on_lattice(w, 7.0)
    values, rows = loss(w, X, y)
    for size in (1, 7, 64, 300):
        order, out, seen = rng.permutation(300), np.empty_like(rows), np.empty(300)
        for at in range(0, 300, size):
            some = order[at : at + size]
            seen[some], out[some] = loss(w, X[some], y[some])
        assert np.array_equal(out, rows) and np.array_equal(seen, values)


@each_loss
def test_the_fisher_information_is_what_the_model_expects(loss):
    rng = np.random.default_rng(5)
    sample = sample_of(rng.normal(size=(40, 3)), rng.integers(loss.n_classes, size=40), 1 / 40)
    w = rng.normal(size=loss.n_parameters(3)) / 3
    H = fisher_information(loss, w, [sample], math.inf)
    X, expected = sample.X * sample.step, 0.0
    for x in X:
        for k in range(loss.n_classes):
            value, row = loss(w, x[None], np.array([k]))
            expected = expected + math.exp(-value[0]) * np.outer(row[0], row[0]) / 40
    assert np.allclose(H, expected, atol=1e-12)
    if isinstance(loss, adaptation.LogLoss):  # there it is the second derivative
        h = 1e-5
        slope = lambda v: adaptation.profiled_gradient(loss, v, [sample], math.inf)[1]  # noqa: E731
        second = [(slope(w + h * e) - slope(w - h * e)) / (2 * h) for e in np.eye(len(w))]
        assert np.allclose(H, second, atol=1e-7)


def test_a_loss_shows_itself_and_survives_clone_and_pickle():
    loss = adaptation.NetworkLoss(5, 3, clip=0.25)
    assert repr(loss) == "NetworkLoss(n_classes=3, n_hidden=5, clip=0.25, scale=2.0)"
    model = clone(NCnvxAdap(loss=loss))
    assert repr(model.loss) == repr(loss) == repr(pickle.loads(pickle.dumps(loss)))


@pytest.mark.parametrize("bad", [0, 1, -3, 2.0, True, "2", None])
def test_impossible_losses_are_refused(bad):
    for make in (adaptation.LogLoss, partial(adaptation.NetworkLoss, 3)):
        with pytest.raises((TypeError, ValueError)):
            make(bad)
    with pytest.raises((TypeError, ValueError)):
        adaptation.NetworkLoss(bad if bad != 1 else 0)
    with pytest.raises(ValueError):
        adaptation.NetworkLoss(3, clip=0.0)


# ---------------------------------------------------------------- problem (7) and its theorems


def test_the_soft_maximum_is_between_its_bounds_and_flat_enough():
    rng = np.random.default_rng(6)
    for mu in (1.0, 100.0, 1e6):
        q = rng.uniform(size=50)
        assert 0 <= adaptation.soft_maximum(q, mu) - q.max() <= math.log(50) / mu * (1 + 1e-12)
    s = special.softmax(mu := 3.0 * q)
    assert np.linalg.norm(np.diag(s) - np.outer(s, s), 2) <= 0.5 and mu.shape == (50,)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_the_objective_is_huber_after_the_best_weights(seed):
    rng = np.random.default_rng(seed)
    values, p, kappa_1 = rng.exponential(size=6), rng.dirichlet(np.ones(6)), rng.uniform(0.05, 2)
    best = np.maximum(1, np.sqrt(values / kappa_1)) / p
    value, slope = adaptation.smoothed_objective(values, best, p, kappa_1=kappa_1)
    from dplit.adaptation import profiled_loss

    assert value == pytest.approx(p @ profiled_loss(values, kappa_1), rel=1e-12)
    free = best > 1 / p * (1 + 1e-12)
    assert np.allclose(slope[free], 0, atol=1e-12) and np.all(slope >= -1e-12)
    other = np.maximum(best * rng.uniform(0.5, 2, size=6), 1 / p)
    assert adaptation.smoothed_objective(values, other, p, kappa_1=kappa_1)[0] >= value - 1e-12


def test_sensitivities_of_lemma_5_1_hold_and_are_nearly_reached():
    rng, loss, p, Lambda = np.random.default_rng(7), adaptation.LogLoss(), 0.1, 30.0
    B, G, _ = loss.constants(1.0, Lambda)
    worst = np.zeros(2)
    for _ in range(3000):
        X = rng.normal(size=(2, 2))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y, w = rng.integers(2, size=2), rng.normal(size=2)
        w *= Lambda / np.linalg.norm(w)
        values, rows = loss(w, X, y)
        worst = np.maximum(
            worst, [p * np.linalg.norm(rows[0] - rows[1]), p**2 * abs(values[0] - values[1])]
        )
    assert np.all(worst <= [2 * G * p, B * p**2]) and np.all(
        worst >= [1.9 * G * p, 0.99 * B * p**2]
    )


def test_the_number_of_steps_is_the_best_one():
    beta, gap, one = 0.3, 0.8, 1e-5
    T = adaptation.best_n_iter(beta, gap, one)
    bounds = [adaptation.stationarity_bound(beta, gap, t * one, t) for t in range(1, 5 * T)]
    assert abs(int(np.argmin(bounds)) + 1 - T) <= 1
    assert min(bounds) == pytest.approx(math.sqrt(96 * beta * gap * one), rel=1e-3)
    assert adaptation.best_n_iter(beta, gap, 1e9) == 1


def test_smoothness_tends_to_that_of_the_loss():
    constants = adaptation.LogLoss().constants(1.0, 5.0)
    found = [
        adaptation.objective_smoothness(
            constants,
            np.full(2 * n, 0.5 / n),
            kappa_2=0.1,
            kappa_inf=0.1,
            mu=10 * n,
            weight_radius=5,
        )
        for n in (10, 100, 1000, 10_000)
    ]
    assert np.all(np.diff(found) < 0) and found[-1] == pytest.approx(constants[2], rel=1e-3)


def test_profiled_curvature_from_above_is_that_of_the_loss():
    from dplit.adaptation import profiled_loss

    rng, loss = np.random.default_rng(8), adaptation.LogLoss()
    beta = loss.constants(1.0, 9.0)[2]
    for _ in range(400):
        x = rng.normal(size=(1, 3))
        x /= np.linalg.norm(x)
        w, v = 4 * rng.normal(size=3), rng.normal(size=3)
        kappa_1, y = 10 ** rng.uniform(-3, 1), rng.integers(2, size=1)
        phi = lambda u, k=kappa_1, x=x, y=y: profiled_loss(loss(u, x, y)[0], k)[0]  # noqa: E731
        values, rows = loss(w, x, y)
        slope = profile_weights(values, kappa_1)[0] * rows[0]
        assert phi(w + v) <= phi(w) + slope @ v + beta / 2 * v @ v + 1e-12


# ---------------------------------------------------------------- training without privacy


def test_without_weights_training_is_logistic_regression():
    rng = np.random.default_rng(9)
    X, W = rng.normal(size=(300, 4)) / 3, 3 * rng.normal(size=(3, 4))
    for k in (2, 3):
        y = (X @ W[:k].T + rng.gumbel(size=(300, k))).argmax(axis=1)
        sample = sample_of(X, y, 1 / 300, radius=3.0)
        ours = adaptation.train(adaptation.LogLoss(k), [sample], 1e3, math.inf, ridge=0.01)
        theirs = LogisticRegression(C=1 / (2 * 0.01 * 300), fit_intercept=False, tol=1e-10)
        theirs.fit(X, y)
        assert np.allclose(ours.reshape(theirs.coef_.shape), theirs.coef_, atol=1e-4)


@pytest.mark.parametrize("weight_radius", [0.3, 2.0, 50.0])
def test_training_ends_where_small_steps_no_longer_help(weight_radius):
    samples = [sample_of(Xs, ys, 0.4 / 80, 0.1), sample_of(Xt, yt, 0.6 / 61)]
    w = adaptation.train(adaptation.LogLoss(), samples, weight_radius, 0.3, tolerance=1e-13)
    gradient = adaptation.profiled_gradient(adaptation.LogLoss(), w, samples, 0.3)[1]
    moved = w - gradient
    moved *= min(1.0, weight_radius / np.linalg.norm(moved))
    assert np.linalg.norm(w) <= weight_radius * (1 + 1e-6)
    assert np.linalg.norm(w - moved) < 1e-4


def test_the_network_learns_what_no_line_can():
    rng = np.random.default_rng(10)
    X = np.column_stack([rng.uniform(-1, 1, size=(600, 2)), np.full(600, 0.5)])
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    known = {"radius": 1.5, "weight_radius": 40.0, "classes": [0, 1], "private": False}
    line, net = (
        NCnvxAdap(loss=loss, random_state=0, **known).fit(X, y).score(X, y)
        for loss in (None, adaptation.NetworkLoss(8))
    )
    assert line < 0.65 and net > 0.95


def test_alpha_and_empty_tables():
    exact = NCnvxAdap(radius=RADIUS, weight_radius=3.0, classes=[0, 1], private=False)
    only = clone(exact).fit(Xt, yt).coef_
    assert np.allclose(clone(exact).set_params(alpha=0.0).fit(Xt, yt, Xs=Xs, ys=ys).coef_, only)
    source = clone(exact).fit(Xs, ys).coef_
    there = clone(exact).set_params(alpha=1.0).fit(Xt, yt, Xs=Xs, ys=ys).coef_
    assert np.allclose(there, source, atol=1e-6) and not np.allclose(only, source, atol=1e-2)
    nobody = MAKE().fit(Xt[:0], yt[:0], Xs=Xs, ys=ys)
    assert nobody.spent_.epsilon == 0 and np.allclose(nobody.coef_, source, atol=1e-6)
    ignored = MAKE(alpha=1.0).fit(Xt, yt, Xs=Xs, ys=ys)
    assert ignored.spent_.epsilon == 0 and np.array_equal(ignored.coef_, nobody.coef_)
    with pytest.raises(ValueError, match="no record"):
        MAKE().fit(Xt[:0], yt[:0])


# ---------------------------------------------------------------- audits

PAIRS = audit.neighbors(3, RADIUS, neighboring="replace", n_random=6)
CROWD = np.tile([1.0, 0.5, 1.0], (40, 1))
PAIRS = [("a changed label", CROWD, np.vstack([[1.0, 0.5, -1.0], CROWD[1:]])), *PAIRS]


@every
def test_replay_finds_nothing(make):
    assert not audit.replay(make(), PAIRS, seeds=range(3), fit=fit_table)


# there is no other relation to confuse, and under replace the number of rows is public
NOT_HERE = (
    "add_remove sensitivity, replace claimed",
    "an exact threshold on the number of rows",
    "NaN passes",  # and has a gradient of zero
)


def zoo(neighboring):
    return PAIRS, audit.walks(3, RADIUS, neighboring="replace")


@pytest.mark.parametrize(
    ("name", "bug"), planted(["logistic", "network", "softmax", "as published"], NOT_HERE)
)
def test_every_injected_bug_is_caught(name, bug):
    assert is_caught(bug, ESTIMATORS[name](), zoo, fit=fit_table)


@pytest.mark.parametrize("name", ["logistic", "as published"])
def test_exploring_finds_nothing(name):
    assert not audit.explore(ESTIMATORS[name](), zoo("replace")[1], fit=fit_table)


@pytest.mark.parametrize("halved", [False, True])
def test_the_black_box_stays_below_the_claim_and_notices_half_the_noise(halved):
    # confidence 0.999; two records whose gradients point in opposite directions
    loss, w, y, sides = adaptation.LogLoss(), np.zeros(1), np.ones(1, dtype=int), []
    reach = loss.reach(1.0, 1.0, math.inf) / 2  # at w = 0 every gradient has half the length
    for seed, x in enumerate((1.0, -1.0)):
        X, noise = np.array([[x]]), Noise(seed, neighboring="replace")
        rows = lambda block, at: loss(w, block, y[at])[1]  # noqa: E731
        buy = partial(noisy_gradient, rows, X, bound=reach, noise=noise)
        sides.append(np.array([buy(mu=2.0 if halved else 1.0) for _ in range(4000)]))
    bound = audit.mu_lower_bound(*sides)
    assert (bound > 1.0) == halved and bound > 0.5


def test_the_noise_has_its_distribution_and_steps_do_not_share_it():
    events = []

    def look(event):
        events.append(event)
        return event.outcome

    with watch(look):
        for seed in range(300):
            fit(MAKE(random_state=seed, expected_gain=0.02), Xt)
    noise = np.array([(e.outcome - e.value) / e.scale for e in events]).reshape(300, 3, 2)
    # false-alarm rates 1e-4 each
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-4
    correlation = np.corrcoef(noise.reshape(300, 6).T) - np.eye(6)
    assert np.abs(correlation).max() < 4.5 / math.sqrt(300)


# ---------------------------------------------------------------- the price


@every
def test_the_receipt_is_the_theorem(make):
    model = fit(make(), Xt)
    spent, printed = model.spent_, model.variant == "paper"
    mu = gaussian_mu(1.0, 1e-5)
    assert spent.mu == pytest.approx(mu, rel=1e-9)
    assert 0.999 <= spent.epsilon <= 1 + 1e-9 and spent.delta == 1e-5
    assert spent.neighboring == "replace"
    asked, gradients = asks(model), [r for r in spent.releases if "gradient" in r.label]
    assert sum(r.times for r in gradients) == (6 if printed else 3)
    assert sum(r.times for r in spent.releases) == asked + (6 if printed else 3)
    numbers = "80 records of the target, 61" if model.protect == "source" else "61 records of the"
    assert numbers in spent.title
    for release in spent.releases:
        assert release.mu * release.scale == pytest.approx(release.sensitivity)
    if not printed:
        loss = adaptation.LogLoss(len(model.classes)) if model.loss is None else model.loss
        kappa_1 = model.kappa_1 or math.log(loss.n_classes)
        bounds = (math.prod(lattice(b)) for b in (RADIUS, 3.0))
        reach = loss.reach(*bounds, kappa_1)
        assert gradients[0].sensitivity == pytest.approx(2 * reach, rel=1e-5)


@pytest.mark.parametrize(("parameter", "value"), [("epsilon", 12.0), ("delta", 0.01)])
def test_a_legal_cost_that_protects_little_is_computed_with_a_warning(parameter, value):
    with pytest.warns(PrivacyWarning, match=parameter):
        fit(MAKE(**{parameter: value}), Xt)


@every
def test_only_operating_system_noise_is_called_private(make):
    secret = fit(make(random_state=None), Xt)
    assert secret.spent_.private
    # as printed, one of three iterates is returned, and the first of them is always 0:
    # thirty equal fits are a false alarm of 3^-30
    others = (fit(make(random_state=None), Xt).coef_ for _ in range(30))
    assert any(not np.array_equal(secret.coef_, other) for other in others)
    assert "NOT private" in str(fit(make(), Xt).spent_)
    for seed in (lambda: 0, lambda: np.random.default_rng(0)):
        one, two = (fit(make(random_state=seed()), Xt) for _ in range(2))
        assert np.array_equal(one.coef_, two.coef_) and repr(one.spent_) == repr(two.spent_)
    assert not np.array_equal(fit(one, Xt).coef_, two.coef_)


@every
def test_a_budget_charges_first_and_refuses_unread(make):
    budget = PrivacyBudget(1.5, 1e-4, composition="added")
    budget.fit(make(protect="target"), Xt, yt, Xs=Xs, ys=ys)
    assert budget.spent == pytest.approx((1.0, 1e-5))
    with pytest.raises(BudgetExceeded):
        budget.fit(make(protect="target"), Untouchable(), Untouchable(), Xs=Xs, ys=ys)
    with pytest.raises((TypeError, ValueError)):
        budget.fit(make(epsilon=0.1, radius=None), Untouchable(), Untouchable())
    assert len(budget.ledger) == 1


# ---------------------------------------------------------------- the guard

Y_OPPOSITE = (Xs[:, 0] < 0).astype(int)  # a source that is wrong about nearly every target


def said(count, rest=lambda event: event.value):
    """A watcher by whom the guard hears this count; all else has no noise, or what `rest` makes of it."""
    return lambda event: count if "right" in event.label else rest(event)


def test_the_guard_decides_by_what_is_asked_for():
    assert adaptation.least_right(100, 0.0, 2) == pytest.approx(57.5)
    assert adaptation.least_right(200, 7.0, 10) == pytest.approx(200 * 0.235 - 7)
    assert adaptation.guarded_gain(50, 100) == 1.0 and adaptation.guarded_gain(98, 100) == 0.01
    assert adaptation.guarded_gain(-9, 100) == 4.0 and adaptation.guarded_gain(250, 100) == 0.01


@pytest.mark.parametrize("wrong", [{"n": 0}, {"n_classes": 1}, {"scale": -1.0}, {"scale": "1"}])
def test_the_guard_refuses_what_is_impossible(wrong):
    with pytest.raises((TypeError, ValueError), match="least_right"):
        adaptation.least_right(**{"n": 10, "scale": 1.0, "n_classes": 2} | wrong)
    for right, n in (("1", 3), (1.0, 0), (math.nan, 3)):
        with pytest.raises((TypeError, ValueError), match="guarded_gain"):
            adaptation.guarded_gain(right, n)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_on_either_side_of_the_threshold_the_rest_is_what_the_theorem_says(n_classes):
    mu, n = gaussian_mu(1.0, 1e-5), len(Xt)
    scale = 1 / (mu * math.sqrt(0.05))
    least = math.ceil(n * (1 / n_classes + 0.15 * (1 - 1 / n_classes)) - scale)
    for count in (least - 1, least):
        model = MAKE(classes=list(range(n_classes)))
        with watch(said(count)):
            fit(model, Xt)
        alone, gain = count < least, 4 * (1 - max(count, 0) / n) ** 2
        assert model.learned_from_ == ("target" if alone else "both")
        # the same, told in advance and bought for the rest of the price
        rest = gaussian_epsilon(1e-5, mu * math.sqrt(0.95))
        told = {"alpha": 0.0} if alone else {"expected_gain": gain}
        other = model.__class__(**model.get_params() | told | {"epsilon": rest})
        with watch(lambda event: event.value):
            fit(other, Xt)
        assert np.allclose(model.coef_, other.coef_, atol=1e-5)
        question, *others = model.spent_.releases
        assert question.sensitivity == 1 and question.scale == pytest.approx(scale)
        assert question.mu**2 == pytest.approx(0.05 * mu**2)
        assert sum(r.times * r.mu**2 for r in others) == pytest.approx(0.95 * mu**2)
        assert model.spent_.mu == pytest.approx(mu, rel=1e-9) and model.spent_.epsilon <= 1 + 1e-9


def test_the_count_is_of_records_that_the_model_of_the_source_gets_right():
    seen = []
    with watch(lambda event: seen.append(event) or event.value):
        fit(MAKE(), Xt)
    source = NCnvxAdap(radius=RADIUS, weight_radius=3.0, classes=[0, 1], private=False, alpha=1.0)
    right = np.count_nonzero(fit(source, Xt).predict(Xt) == yt)
    assert int(seen[0].value) == right and "right" in seen[0].label
    assert len({event.label for event in seen}) == 2 and 0 < right < len(yt)


def test_the_guard_lets_the_target_go_alone_as_often_as_its_noise_says():
    mu, n, fits = gaussian_mu(1.0, 1e-5), len(Xt), 600
    scale = 1 / (mu * math.sqrt(0.05))
    least, seen = adaptation.least_right(n, scale, 2), []
    look = said(None, lambda event: event.value)
    for seed in range(fits):
        with watch(lambda event: event.outcome if "right" in event.label else look(event)):
            model = MAKE(random_state=seed, n_iter=1).fit(Xt, yt, Xs=Xs, ys=Y_OPPOSITE)
        seen.append(model.learned_from_ == "target")
    source = NCnvxAdap(radius=RADIUS, weight_radius=3.0, classes=[0, 1], private=False, alpha=1.0)
    right = np.count_nonzero(source.fit(Xt, yt, Xs=Xs, ys=Y_OPPOSITE).predict(Xt) == yt)
    chance = stats.norm.cdf((math.ceil(least) - 0.5 - right) / scale)
    assert 0.1 < chance < 0.9
    # false-alarm rate 1e-4; a scale wrong by half moves the chance by enough to be seen
    assert stats.binomtest(sum(seen), fits, chance).pvalue > 1e-4


@pytest.mark.parametrize(
    "asked",
    [{"alpha": 0.0}, {"alpha": 1.0}, {"expected_gain": 0.1}, {"variant": "paper"}, {"protect": "source"}, {"private": False, "epsilon": None}],
    ids=str,
)  # fmt: skip
def test_nobody_asks_where_there_is_nothing_to_decide(asked):
    model = fit(MAKE(**asked), Xt)
    assert asked.get("private") is False or "right" not in str(model.spent_)
    names = {"alpha 0.0": "target", "alpha 1.0": "source"}
    assert model.learned_from_ == names.get(f"alpha {asked.get('alpha')}", "both")


def test_a_source_that_is_worse_than_a_coin_does_no_harm_with_the_guard():
    rng, found = np.random.default_rng(21), []
    for seed in range(8):
        Xa, Xb, Xe = (rng.normal(size=(n, 3)) / 2 for n in (500, 200, 4000))
        known = {"epsilon": 1.0, "delta": 1e-3, "radius": 2.0, "weight_radius": 10.0}
        known |= {"classes": [False, True], "random_state": seed}
        ways = {"guarded": {}, "unguarded": {"expected_gain": 0.02}, "alone": {"alpha": 0.0}}
        public = {"Xs": Xa, "ys": Xa[:, 0] < 0}
        fits = [NCnvxAdap(**known, **way).fit(Xb, Xb[:, 0] > 0, **public) for way in ways.values()]
        assert [m.learned_from_ for m in fits] == ["target", "both", "target"]
        found.append([m.score(Xe, Xe[:, 0] > 0) for m in fits])
    guarded, unguarded, alone = np.mean(found, axis=0)
    # eight draws; `tools/bench/benchmark.py shifts` says by how much, over many
    assert guarded > alone - 0.08 and unguarded < 0.3 < 0.8 < guarded


# ---------------------------------------------------------------- public parameters

POSITIVE = [("1", TypeError), (True, TypeError), (0.0, ValueError), (-1.0, ValueError)]
POSITIVE += [(float("nan"), ValueError), (1j, TypeError), ([1.0], TypeError)]
NOT_NEGATIVE = [case for case in POSITIVE if case[0] != 0.0]
PUBLIC = {name: IMPOSSIBLE[name] for name in ("epsilon", "delta", "radius", "random_state")}
PUBLIC |= {"weight_radius": [*POSITIVE, (None, ValueError)], "kappa_1": POSITIVE}
PUBLIC |= {name: NOT_NEGATIVE for name in ("kappa_2", "kappa_inf", "discrepancy")}
PUBLIC |= {"expected_gain": POSITIVE, "raise_curvature": NOT_NEGATIVE}
PUBLIC["alpha"] = [*NOT_NEGATIVE, (1.5, ValueError), (None, ValueError)]
PUBLIC["n_iter"] = [(0, ValueError), (2.0, TypeError), (True, TypeError), ("3", TypeError)]
PUBLIC["variant"] = PUBLIC["protect"] = [(v, ValueError) for v in (None, "tight", 1, [])]
PUBLIC["private"] = [(v, TypeError) for v in (None, 1, "yes")]
PUBLIC["loss"] = [
    ("log", TypeError),
    (adaptation.LogLoss(3), ValueError),
    (adaptation.LogLoss, TypeError),
]
PUBLIC["classes"] = [
    (v, ValueError)
    for v in (None, [], [1], [1, 1], "ab", [[0, 1]], [0, float("nan")], {0: 1}, 2, [1, "a"])
]


@pytest.mark.parametrize(
    ("parameter", "value", "error"),
    [
        pytest.param(parameter, value, error, id=f"{parameter}-{i}")
        for parameter, cases in PUBLIC.items()
        for i, (value, error) in enumerate(cases)
    ],
)
def test_an_impossible_public_parameter_is_refused_before_the_records_are_read(
    parameter, value, error
):
    model = MAKE(**{parameter: value})
    with pytest.raises(error) as caught:
        model.fit(Untouchable(), Untouchable(), Xs=Untouchable(), ys=Untouchable())
    message = str(caught.value)
    assert parameter in message and 30 < len(message) < 400 and "\n" not in message
    assert not attributes(model)


def test_a_cost_without_privacy_is_refused():
    with pytest.raises(ValueError, match="private=False"):
        fit(MAKE(private=False), Untouchable())


# ---------------------------------------------------------------- nothing private is kept


@every
def test_a_fit_leaves_released_numbers_the_receipt_and_nothing_else(make):
    expected = {"coef_", "classes_", "spent_", "n_features_in_", "learned_from_"}
    assert attributes(make()) == set() and attributes(fit(make(), Xt)) == expected
    assert np.linalg.norm(fit(make(), Xt).coef_) <= 3.0 * (1 + 1e-6)


@every
def test_no_record_is_found_in_pickle_display_or_text(make):
    model = make(protect="target")
    text = listen_to(Beside(model), Xt)
    stored, shown = pickle.dumps(model), repr(model) + repr(model.spent_)
    assert text.strip() == "" and not quotes(shown, Xt, n_rows=False)
    assert not [v for v in Xt.ravel() if v.tobytes() in stored]


@every
def test_neighbors_get_the_same_text_and_receipt(make):
    seen = []
    other = np.vstack([[[50.0, -1e300]], Xt[1:]])
    for rows, labels in ((Xt, yt), (other, yt), (Xt, np.r_[1 - yt[0], yt[1:]])):
        model = make(protect="target")
        model.fit(rows, labels, Xs=Xs, ys=ys)
        seen.append((repr(model.spent_), attributes(model), model.coef_.shape, repr(model)))
    assert seen[0] == seen[1] == seen[2]


@every
def test_refitting_replaces_everything_and_a_failed_refit_changes_nothing(make):
    model = make(protect="target").fit(Xt, yt, Xs=Xs, ys=ys)
    model.fit(np.c_[Xt, Xt], yt, Xs=np.c_[Xs, Xs], ys=ys)
    assert model.n_features_in_ == 4
    before = vars(model).copy()
    for bad in ((Xt * np.nan, yt), (Xt, yt), (Xt[0], yt), (np.c_[Xt, Xt], yt.astype(str))):
        with pytest.raises(ValueError):
            model.fit(*bad, Xs=np.c_[Xs, Xs], ys=ys)
        assert all(vars(model)[name] is before[name] for name in before)


@every
def test_fitting_leaves_parameters_tables_and_global_randomness_alone(make):
    model, tables = make(), [table.copy() for table in (Xt, yt, Xs, ys)]
    before, state = model.get_params(), repr(np.random.get_state())  # noqa: NPY002
    fit(model, Xt)
    assert all(model.get_params()[name] is before[name] for name in before)
    assert all(np.array_equal(*pair) for pair in zip(tables, (Xt, yt, Xs, ys), strict=True))
    assert repr(np.random.get_state()) == state and not attributes(clone(model))  # noqa: NPY002


# ---------------------------------------------------------------- bad records, odd records, forms


@pytest.mark.parametrize("name", ["logistic", "network", "as published"])
@pytest.mark.parametrize("kind", [kind for kind in BAD_X if kind != "no rows"])
def test_unfit_rows_are_refused_before_any_release_and_not_quoted(name, kind):
    spoil, error = BAD_X[kind]
    model, released = ESTIMATORS[name](), mock.Mock(side_effect=AssertionError("released"))
    with mock.patch.multiple(Noise, _add=released), pytest.raises(error) as caught:
        model.fit(spoil(Xt), yt, Xs=Xs, ys=ys)
    assert not [s for s in sentences(caught.value) if quotes(s, Xt)]
    assert not attributes(model)


@pytest.mark.parametrize(
    "labels", [yt[:-1], yt.astype(str), yt.astype("S1"), np.eye(61), None, "yes", yt + 1j]
)
def test_labels_that_no_table_of_this_shape_and_type_can_have_are_refused_unread(labels):
    model, released = MAKE(), mock.Mock(side_effect=AssertionError("released"))
    with mock.patch.multiple(Noise, _add=released), pytest.raises(ValueError) as caught:
        model.fit(Xt, labels, Xs=Xs, ys=ys)
    assert not [s for s in sentences(caught.value) if quotes(s, np.full((61, 1), 17.25))]
    assert "yt" in str(caught.value) and not attributes(model)
    budget = PrivacyBudget(2.0, 1e-5)
    with pytest.raises(ValueError, match="yt"):
        budget.fit(model, Xt, labels, Xs=Xs, ys=ys)
    assert budget.spent == (0.0, 0.0)


@pytest.mark.parametrize("name", ["logistic", "softmax", "network", "as published"])
@pytest.mark.parametrize("form", FORMS)
def test_the_form_and_order_of_the_records_do_not_change_a_bit(name, form):
    make = partial(ESTIMATORS[name], n_iter=1 if name == "as published" else 3)
    table = FORMS[form](np.column_stack([Xt, yt]))
    rows = [row[:2] for row in table] if isinstance(table, list) else table[:, :2]
    labels = [row[2] for row in table] if isinstance(table, list) else table[:, 2]
    if name == "as published":  # its weights have noise of their own, record by record
        rows, labels = (rows, labels) if "order" not in form and "rev" not in form else (Xt, yt)
    seen = make().fit(rows, labels, Xs=Xs, ys=ys).coef_
    assert np.array_equal(seen, make().fit(Xt, yt, Xs=Xs, ys=ys).coef_)


def test_words_numbers_and_columns_are_all_labels():
    plain = MAKE().fit(Xt, yt, Xs=Xs, ys=ys)
    words = MAKE(classes=["well", "ill"])
    word = np.array(["well", "ill"])
    words.fit(Xt, word[yt], Xs=Xs, ys=word[ys])
    column = MAKE().fit(Xt, yt[:, None], Xs=Xs, ys=ys.astype(float))
    swapped = MAKE(classes=[1, 0]).fit(Xt, yt, Xs=Xs, ys=ys)
    assert np.array_equal(words.coef_, plain.coef_) and np.array_equal(column.coef_, plain.coef_)
    assert np.array_equal(words.predict(Xe := Xt[:9]), word[plain.predict(Xe)])
    assert swapped.classes_.tolist() == [1, 0]
    assert np.allclose(plain.predict_proba(Xt).sum(axis=1), 1)
    assert np.array_equal(plain.predict_proba(Xt).argmax(axis=1), plain.predict(Xt))


def test_a_change_of_unit_is_only_that():
    plain = MAKE(n_iter=8).fit(Xt, yt, Xs=Xs, ys=ys).coef_
    scaled = MAKE(n_iter=8, radius=100 * RADIUS, weight_radius=0.03)
    assert np.allclose(scaled.fit(100 * Xt, yt, Xs=100 * Xs, ys=ys).coef_ * 100, plain, atol=2e-3)


def test_rows_outside_the_ball_are_clipped_in_silence():
    inside = Xt * np.minimum(1, RADIUS / np.linalg.norm(Xt, axis=1, keepdims=True))
    assert np.allclose(coef(MAKE(), Xt), coef(MAKE(), inside), atol=1e-3)


ODD = {
    "one": Xt[:1],
    "equal rows": np.ones((20, 2)),
    "zeros": np.zeros((50, 2)),
    "huge": Xt * 1e300,
    "tiny": Xt * 1e-310,
}


@every
@pytest.mark.parametrize("rows", ODD.values(), ids=ODD)
def test_odd_tables_give_finite_parameters(make, rows):
    with np.errstate(all="raise", under="ignore"):
        model = fit(make(), rows, yt[: len(rows)])
    assert np.isfinite(model.coef_).all()
    assert np.isin(model.predict(Xt), model.classes_).all()


def test_prediction_wants_a_fit_and_the_same_columns():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        MAKE().predict(Xt)
    with pytest.raises(ValueError, match="columns"):
        fit(MAKE(), Xt).predict(np.c_[Xt, Xt])


# ---------------------------------------------------------------- use


def test_without_noise_worth_mentioning_the_private_fit_is_the_optimum():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(4000, 3)) / 2
    y = (rng.random(4000) < special.expit(X @ [3.0, -2.0, 0.0])).astype(int)
    Xp = rng.normal(size=(2000, 3)) / 2
    yp = (rng.random(2000) < special.expit(Xp @ [2.0, 0.0, 2.0])).astype(int)
    known = {"radius": 2.0, "weight_radius": 10.0, "classes": [0, 1]}
    best = NCnvxAdap(private=False, **known).fit(X, y, Xs=Xp, ys=yp).coef_
    with pytest.warns(PrivacyWarning):
        how = {"n_iter": 150, "raise_curvature": 0.01, "expected_gain": 1.0}  # alpha as it is given
        rich = NCnvxAdap(epsilon=1e4, delta=1e-6, **how, **known, random_state=0)
        rich = rich.fit(X, y, Xs=Xp, ys=yp).coef_
    assert np.allclose(rich, best, atol=0.05)  # steps of 2 / (t + 1) come slowly


def test_adaptation_at_epsilon_one_mends_a_wrong_source():
    rng, scores = np.random.default_rng(12), []
    for seed in range(4):
        Xa, Xb, Xe = (rng.normal(size=(n, 3)) / 2 for n in (2000, 3000, 4000))
        ya, yb, ye = (
            X[:, j] + 0.1 * rng.normal(size=len(X)) > 0 for X, j in ((Xa, 1), (Xb, 0), (Xe, 0))
        )
        known = {
            "radius": 2.0,
            "weight_radius": 10.0,
            "classes": [False, True],
            "random_state": seed,
        }
        paid = NCnvxAdap(epsilon=1.0, delta=1e-6, expected_gain=0.3, **known)
        there = NCnvxAdap(private=False, alpha=1.0, **known)
        scores.append([m.fit(Xb, yb, Xs=Xa, ys=ya).score(Xe, ye) for m in (paid, there)])
    ours, source = np.mean(scores, axis=0)
    assert source < 0.6 and ours > 0.85


def test_printed_weights_never_move_and_cost_noise():
    rng = np.random.default_rng(13)
    private = sample_of(rng.normal(size=(500, 2)), rng.integers(2, size=500), 0.5 / 500)
    public = sample_of(rng.normal(size=(500, 2)), rng.integers(2, size=500), 0.5 / 500)
    run = adaptation.algorithm_2(
        adaptation.LogLoss(),
        private,
        public,
        RADIUS,
        3.0,
        kappa_1=0.1,
        n_iter=50,
        noise=Noise(0, neighboring="replace"),
        mu=0.3,
    )
    assert np.abs(run[2] * private.p - 1).max() < 1e-4 and len(run[0]) == len(run[3]) == 50


def test_a_gradient_is_three_passes_over_the_data():
    rng = np.random.default_rng(14)
    big = Sample(
        quantize(rng.normal(size=(100_000, 50)), 8.0), rng.integers(2, size=100_000), 1e-6, 1e-5
    )
    w = on_lattice(rng.normal(size=50), 8.0)

    def clock(f):
        times = []
        for _ in range(5):
            start = time.process_time()
            f()
            times.append(time.process_time() - start)
        return min(times)

    gradient = clock(lambda: adaptation.profiled_gradient(adaptation.LogLoss(), w, [big], 0.5))
    one_pass = clock(lambda: (big.X * 1.5).sum(axis=0))  # reads the table, and writes it once
    assert gradient < 6 * one_pass  # on a busy machine; about 2 on an idle one


# ---------------------------------------------------------------- help


@pytest.mark.parametrize("name", adaptation.__all__)
def test_every_public_name_explains_itself(name):
    thing = getattr(adaptation, name)
    assert omissions(thing) == []
    for example in doctest.DocTestFinder(recurse=False).find(thing):
        assert doctest.DocTestRunner().run(example).failed == 0


def test_help_says_what_is_public():
    stated = NCnvxAdap.__doc__.split("Attributes")[1].split("Raises")[0]
    assert stated.count("PUBLIC") >= 4
    assert all(name in stated for name in attributes(fit(MAKE(), Xt)))
    assert NCnvxAdap.predict.__doc__.count("NOT private") == 1
    assert "NOT private" in NCnvxAdap.predict_proba.__doc__ and "PRIVATE" in NCnvxAdap.fit.__doc__


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"clip": "1"}, TypeError),
        ({"clip": math.inf}, ValueError),
        ({"scale": None}, ValueError),
        ({"scale": -1.0}, ValueError),
        ({"n_hidden": 5000}, ValueError),
    ],
)
def test_an_impossible_network_is_refused(parameters, error):
    with pytest.raises(error, match=f"{next(iter(parameters))}.*NetworkLoss"):
        adaptation.NetworkLoss(**parameters)


def test_the_printed_algorithm_wants_a_finite_cost():
    with pytest.raises(ValueError, match="kappa_1=inf: NCnvxAdap"):
        fit(MAKE(variant="paper", kappa_1=math.inf), Untouchable())


def test_methods_of_losses_explain_themselves_by_the_first_line_and_the_rest_of_loss():
    doc = adaptation.LogLoss.n_parameters.__doc__
    assert (
        doc.startswith("D = d")
        and doc.split("\n")[1:] == adaptation.Loss.n_parameters.__doc__.split("\n")[1:]
    )
    assert adaptation.NetworkLoss.scores.__doc__ == adaptation.Loss.scores.__doc__


def rings_alone(epsilon, seed, n=400):
    """Share of 2,000 fresh records that a network of eight units sorts rightly, from private records alone."""
    rng = np.random.default_rng(seed)
    y, angle = rng.integers(2, size=n + 2000), rng.uniform(0, 2 * math.pi, size=n + 2000)
    length = 0.4 + 0.45 * y + rng.normal(scale=0.09, size=n + 2000)
    X = np.column_stack([length * np.cos(angle), length * np.sin(angle), np.full(n + 2000, 0.5)])
    known = {
        "radius": 1.5,
        "weight_radius": 30.0,
        "classes": [0, 1],
        "loss": adaptation.NetworkLoss(8),
    }
    model = NCnvxAdap(**known, epsilon=epsilon, delta=1e-5, random_state=seed).fit(X[:n], y[:n])
    return model.score(X[n:], y[n:]), sum(line.times for line in model.spent_.releases)


def test_a_network_learns_from_private_records_alone(monkeypatch):
    assert np.mean([rings_alone(10.0, seed)[0] for seed in range(3)]) > 0.9
    assert rings_alone(10.0, 0)[1] == 100 > rings_alone(1.0, 0)[1] >= rings_alone(0.1, 0)[1] == 20
    # steps of 1 / beta lead nowhere: its beta is hundreds of times too large where it starts
    monkeypatch.setattr(adaptation.NetworkLoss, "convex", True)
    assert np.mean([rings_alone(10.0, seed)[0] for seed in range(3)]) < 0.7


# Slips in one line that no other test noticed: exact numbers, enumeration, brute force on tiny cases.


def records(rng, n):
    """Rows and labels on every lattice of the bounds below."""
    return np.round(rng.uniform(-1, 1, size=(n, 2)) * 64) / 64, np.round(rng.uniform(-1, 1, n) * 64) / 64  # fmt: skip


def in_ball(w, radius):
    return w * min(1.0, radius / np.linalg.norm(w))


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


@pytest.mark.parametrize("sources", [0, 5])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_profiled_classifier_ends_where_objective_and_pull_balance(sources, n_classes):
    rng, radius, Lambda, alpha, mu = np.random.default_rng(3), 1.5, 4.0, 0.3, 0.3
    (Xt, yt), (Xs, ys) = ((records(rng, n)[0], np.arange(n) % n_classes) for n in (9, sources))
    delta = 1e-3
    epsilon = gaussian.gaussian_epsilon(delta, mu)
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


def test_the_printed_classifier_is_one_of_the_iterates(monkeypatch):
    visited, asked = [np.full(3, t) for t in range(5)], []

    def run(*args, **kw):
        asked.append(kw)
        return (visited, np.ones(5), np.ones(5), [0.0] * 5)

    monkeypatch.setattr(classification, "algorithm_2", run)
    model = NCnvxAdap(classes=[0, 1], epsilon=1.0, delta=1e-3, radius=1.0, weight_radius=1.0, kappa_2=0.5, kappa_inf=0.25, n_iter=5)  # fmt: skip
    drawn = [model._as_published(None, None, model._given(3, Noise(i)), Noise(i), 0.75) for i in range(40)]  # fmt: skip
    assert {w.tolist()[0] for w in drawn} == {0, 1, 2, 3, 4} and all(w.shape == (3,) for w in drawn)
    kappas = {"kappa_1": math.log(2), "kappa_2": 0.5, "kappa_inf": 0.25}
    assert all({n: v for n, v in kw.items() if n != "noise"} == {**kappas, "n_iter": 5, "mu": 0.75} for kw in asked)  # fmt: skip


def test_a_network_sees_the_rows_of_a_sample_in_their_own_units():
    rng, loss = np.random.default_rng(0), adaptation.NetworkLoss(4, 3)
    X, w = rng.integers(-4000, 4000, size=(300, 3)), rng.normal(size=loss.n_parameters(3))
    said = loss.scores(w, X / 1024.0).argmax(axis=1)
    sample = Sample(X.astype(float), said, 1 / 1024, p=1 / 300)
    assert classification._right(sample, w, loss).all()
    assert np.mean(loss.scores(w, 1.0 * X).argmax(axis=1) != said) > 0.02


def test_the_guard_trusts_a_source_that_gets_just_enough_right(monkeypatch):
    rng, loss = np.random.default_rng(1), adaptation.LogLoss(2)
    X = np.round(rng.uniform(-1, 1, size=(60, 2)) * 64) / 64
    y = (X[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(int)
    private, public = (Sample(X[at], y[at], 1.0, p=1 / 60) for at in (slice(30), slice(30, 60)))
    given = classification.Classification(loss, (2.0, 5.0), 1.0, 0.0, np.zeros(2))
    own = classification._target_only(public, given)[0]
    start, _, _ = classification._head_start(public, given, 2, Noise(0).public_rng)
    home = np.count_nonzero(classification._right(own, start, loss)) / 30
    scale = 1 / math.sqrt(0.05)
    trust = classification.trust_in(20 + scale, 30, home, 2)
    assert 0 < trust < 1
    for most, kept in ((20.0, trust / 60), (np.nextafter(20.0, 21), 0.0)):
        monkeypatch.setattr(classification, "least_right", lambda *_, most=most: most)
        noise = Noise(0, neighboring="replace")
        monkeypatch.setitem(vars(noise), "count", lambda *_, **__: 20)
        _, source, then, mu = classification._ask_first(private, public, given, noise, 1.0)
        assert source.p == pytest.approx(kept) and mu == pytest.approx(math.sqrt(0.95), rel=1e-12)
    assert then is given  # no source, no start of its
    monkeypatch.setattr(classification, "least_right", lambda *_: 20.0)
    target, source, then, _ = classification._ask_first(private, public, given, noise, 1.0)
    assert target.p == pytest.approx((1 - trust / 2) / 30) and target.X is private.X
    shrunk = on_lattice(trust * start, 5.0)
    assert np.array_equal(then.start, shrunk) and np.linalg.norm(shrunk) > 0.1
    H = classification.fisher_information(loss, shrunk, [own], given.kappa_1)
    assert np.array_equal(then.curvature, H)
    assert then.expected_gain == classification.guarded_gain(20, 30)
    # what is known is not searched for again
    found = classification._head_start(source, then, 2, None)
    assert all(
        np.array_equal(a, b) for a, b in zip(found, (shrunk, H, then.expected_gain), strict=True)
    )
    for right in (-1.5e300, 1.5e300):
        with pytest.raises(ValueError, match="guarded_gain"):
            adaptation.guarded_gain(right, 30)


def test_the_head_start_forgets_how_much_the_public_sample_weighs():
    rng = np.random.default_rng(0)
    model = NCnvxAdap(classes=[0, 1], radius=2.0, weight_radius=3.0, epsilon=1.0, delta=1e-3)
    given, step = model._given(2, Noise(0)), lattice(2.0)[0]
    X, y = np.rint(rng.uniform(-1, 1, (60, 2)) / step), rng.integers(2, size=60)
    one, other = (
        classification._head_start(Sample(X, y, step, p, offset), given, 2, rng)
        for p, offset in ((1 / 60, 0.0), (0.1 / 60, 0.7))
    )
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


# ---------------------------------------------------------------- classes under other names, and trust


def three_clouds(n, rng, names=(0, 1, 2)):
    y = rng.integers(3, size=n)
    X = np.array([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]])[y] + 0.25 * rng.normal(size=(n, 2))
    return X, np.array(names)[y]


RENAMED = {
    "epsilon": 3.0,
    "delta": 1e-5,
    "radius": 2.0,
    "weight_radius": 20.0,
    "classes": [0, 1, 2],
}


def test_classes_under_other_names_are_called_as_the_target_calls_them():
    rng, found = np.random.default_rng(3), []
    for seed in range(4):
        (Xs, ys), (Xt, yt) = three_clouds(600, rng, (1, 0, 2)), three_clouds(300, rng)
        fresh = three_clouds(2000, rng)
        model = NCnvxAdap(**RENAMED, random_state=seed).fit(Xt, yt, Xs=Xs, ys=ys)
        told = NCnvxAdap(**RENAMED, random_state=seed, expected_gain=0.02)
        found.append((model.score(*fresh), told.fit(Xt, yt, Xs=Xs, ys=ys).score(*fresh)))
        assert model.learned_from_ == "both"
    mended, followed = np.mean(found, axis=0)
    assert mended > 0.95 and followed < 0.6


def test_the_confusion_matrix_is_of_what_the_source_calls_each_class():
    rng, seen = np.random.default_rng(4), []
    (Xs, ys), (Xt, yt) = three_clouds(600, rng, (1, 0, 2)), three_clouds(300, rng)
    yt = np.where(np.arange(300) < 5, 7, yt)  # no classes: in no bin
    with watch(lambda event: seen.append(event) or event.outcome):
        model = NCnvxAdap(**RENAMED, random_state=0).fit(Xt, yt, Xs=Xs, ys=ys)
    free = {"radius": 2.0, "weight_radius": 20.0, "classes": [0, 1, 2], "private": False}
    calls = NCnvxAdap(**free, alpha=1.0).fit(Xt[5:], yt[5:], Xs=Xs, ys=ys).predict(Xt)
    exact = np.zeros((3, 3), dtype=int)
    np.add.at(exact, (yt[5:], calls[5:]), 1)
    assert np.array_equal(seen[1].value.reshape(3, 3), exact) and exact[1, 0] > 80
    assert int(seen[0].value) == np.trace(exact)
    mu = gaussian_mu(3.0, 1e-5)
    shares = [r.times * r.mu**2 / mu**2 for r in model.spent_.releases]
    assert shares == pytest.approx([0.05, 0.1, 0.85], rel=1e-6)
    assert model.spent_.releases[1].sensitivity == pytest.approx(math.sqrt(2))
    assert model.spent_.epsilon <= 3 + 1e-9


def test_names_change_only_where_released_counts_are_three_deviations_apart():
    counts = np.array([[10.0, 20.0], [10.0 + 3 * math.sqrt(2) * 5, 40.0]])
    assert adaptation.target_names(counts, 5.0).tolist() == [0, 1]
    assert adaptation.target_names(counts + [[0, 0], [1, 0]], 5.0).tolist() == [1, 1]
    assert adaptation.worth_calling(25, 5.0, 3) and not adaptation.worth_calling(21, 5.0, 3)
    assert not adaptation.worth_calling(10**9, 5.0, 2)


def test_trust_is_what_is_left_of_what_the_source_knows_beyond_guessing():
    assert adaptation.trust_in(70, 100, 0.9, 2) == pytest.approx(0.5**0.5)
    assert (
        adaptation.trust_in(40, 100, 0.4, 5) == 1.0 and adaptation.trust_in(19, 100, 0.4, 5) == 0.0
    )
    # a source that hardly knows its own records: at least a twentieth is asked of it
    assert adaptation.trust_in(52, 100, 0.5, 2) == pytest.approx(0.4**0.5)


def test_a_record_that_fails_the_model_is_in_no_bin_and_never_right():
    class Fails(adaptation.LogLoss):
        is_total = False

        def scores(self, w, X):
            if (X[:, 0] > 1.5).any():
                raise ValueError
            return super().scores(w, X)

    X, y = np.array([[1.0, 0.0], [2.0, 0.0], [2.0, 0.0]]), np.array([1, 0, -2])
    sample, w = Sample(X, y, 1.0, p=1 / 3), np.array([1.0, 0.0])
    assert classification._named(sample, w, Fails(2)).tolist() == [1, -2, -2]
    assert classification._right(Sample(X[:2], y[:2], 1.0), w, Fails(2)).tolist() == [True, False]


def test_the_start_of_a_network_is_not_shrunk():
    rng = np.random.default_rng(5)
    (Xs, ys), (Xt, yt) = three_clouds(200, rng), three_clouds(60, rng)
    loss, step = adaptation.NetworkLoss(4, 3), lattice(2.0)[0]
    model = NCnvxAdap(**RENAMED, loss=loss)
    given = model._declared()._given(2, Noise(0))
    private, public = (
        Sample(quantize(X, 2.0), y, step, p=0.5 / len(y)) for X, y in ((Xt, yt), (Xs, ys))
    )
    start = classification._target_only(public, given)[1]
    then = classification._trusted(private, public, given, start, 30.0, 0.0)[2]
    assert np.array_equal(then.start, start)


TYPES = {  # of labels, the classes, and how many of these it can hold
    "uint8": ([300, 400], 0),
    "bool": ([2, 3], 0),
    "int64": ([0.5, 1.5], 0),
    "float32": ([0.1, 0.2], 0),
    "int8": ([1, 300], 1),
    "uint16": ([-1, 1], 1),
    "float16": ([0.5, 70000.0], 1),
    "int32": ([1, 300], 2),
    "float64": ([0.1, 0.2], 2),
    "bool_": ([0, 1], 2),
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("library", ["numpy", "pandas", "polars"])
@pytest.mark.parametrize("protect", ["target", "source"])
def test_a_type_of_labels_that_no_class_fits_is_refused_before_the_charge(kind, library, protect):
    """Every label was none of the classes: the fit was charged and learned nothing from them."""
    classes, fits = TYPES[kind]
    rng = np.random.default_rng(0)
    X, which = rng.uniform(-0.5, 0.5, (60, 2)), np.arange(60) % 2
    with np.errstate(all="ignore"):
        labels = np.array(classes)[which].astype(kind.rstrip("_"))
    if library == "polars" and kind == "float16":
        pytest.skip("polars of this version may have no such type")
    made = {"numpy": np.array, "pandas": pd.Series, "polars": pl.Series}[library](labels)
    given = {"Xt": X[:30], "yt": np.array(classes)[which][:30], "Xs": X[30:], "ys": np.array(classes)[which][30:]}  # fmt: skip
    side = protect[0]
    given[f"y{side}"] = made[:30] if side == "t" else made[30:]
    if library == "pandas":
        given[f"y{side}"] = given[f"y{side}"].reset_index(drop=True)
    budget = PrivacyBudget(9.0, 1e-3)
    model = NCnvxAdap(epsilon=1.0, delta=1e-6, radius=1.0, weight_radius=5.0, classes=classes, protect=protect)  # fmt: skip
    if fits == 2:
        budget.fit(model, **given)
        return
    said = "can hold none of the classes" if fits == 0 else "in doubt before the charge: y.: its type cannot hold the class"  # fmt: skip
    with pytest.raises(ValueError, match=said):
        budget.fit(model, **given)
    assert not budget.ledger
