"""Covariate shift without target labels: weights against an independent optimizer, bounds, and every guarantee of the estimators."""

import doctest
import math
import pickle
import warnings
from functools import partial
from unittest import mock

import numpy as np
import pytest
from scipy import optimize
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVC
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

from dplit import (
    BudgetExceeded,
    CovariateShiftClassifier,
    CovariateShiftRegressor,
    PrivacyBudget,
    adaptation,
    audit,
)
from dplit.adaptation import covariate_shift
from dplit.audit import FAULTS
from dplit.mechanisms import Noise, watch

rng = np.random.default_rng(0)
Xs = rng.normal(size=(90, 2)) * [1.5, 1.0]  # PUBLIC
NUMBERS = Xs[:, 0] ** 2 + Xs[:, 1] + rng.normal(scale=0.1, size=90)
CLASSES = (Xs[:, 0] + rng.normal(scale=0.5, size=90) > 0).astype(int)
Xt = np.random.default_rng(8).normal(1.0, 0.7, size=(61, 2)).astype(np.float32).astype(float)
MAKE = {
    "regressor": partial(CovariateShiftRegressor, epsilon=1.0, delta=1e-6, random_state=0),
    "classifier": partial(CovariateShiftClassifier, epsilon=1.0, delta=1e-6, random_state=0),
}
ESTIMATORS = {
    f"{kind}{words}": partial(make, **known)
    for kind, make in MAKE.items()
    for words, known in {
        "": {},
        ", replace": {"neighboring": "replace"},
        ", means": {"order": 1},
    }.items()
}
every = pytest.mark.parametrize("name", ESTIMATORS)
both = pytest.mark.parametrize("kind", MAKE)
pytestmark = pytest.mark.filterwarnings("ignore:the released moments")


def source(name):
    return {"Xs": Xs, "ys": NUMBERS if name.startswith("regressor") else CLASSES}


def fit(model, rows, name=None):
    return model.fit(rows, **source(name or type(model).__name__[14:].lower()))


class Beside:
    """An estimator whose `fit` takes the private rows alone."""

    def __init__(self, model):
        self.fit = lambda rows: fit(model, rows)


# ---------------------------------------------------------------- audits


@every
def test_replay_finds_nothing(name):
    model = ESTIMATORS[name]()
    pairs = audit.neighbors(2, 3.0, neighboring=model.neighboring, n_random=6)
    assert not audit.replay(model, pairs, seeds=range(3), fit=fit)


def test_replay_finds_moments_that_depend_on_other_rows():
    """Centered by the PRIVATE mean: one row moves what all others add."""
    real = covariate_shift._released_moment
    centered = lambda rows, *rest: real(rows - rows.mean(axis=0), *rest)  # noqa: E731
    pairs = audit.neighbors(2, 3.0, neighboring="replace", n_random=6)
    with mock.patch.object(covariate_shift, "_released_moment", centered):
        model = ESTIMATORS["regressor, replace"]()
        assert audit.replay(model, pairs, seeds=range(2), fit=fit)


def zoo(neighboring):
    pairs = audit.neighbors(2, 3.0, neighboring=neighboring, n_random=6)
    if neighboring == "add_remove":  # the one way in which sums can be empty
        pairs.append(("nobody", np.zeros((0, 2)), np.array([[3.0, 0.0]])))
    return pairs, audit.walks(2, 3.0, neighboring=neighboring)


# there is no radius, and one release only
NOT_HERE = (
    "scaled by the data",
    "the same draws in every release",
    "the same draws in every release, signs in turn",
    "a privacy cost above the claim after a large noisy number",
)
# under replace the number of rows is public, and none is counted; there is no other relation to confuse
NOT_REPLACED = (
    "an exact threshold on the number of rows",
    "an exact threshold on an inner count",
    "empty groups without noise",
    "add_remove sensitivity, replace claimed",
)
CASES = planted(["regressor", "classifier"], NOT_HERE)
CASES += planted(["regressor, replace"], NOT_HERE + NOT_REPLACED)


@pytest.mark.parametrize(("name", "bug"), CASES)
def test_every_injected_bug_is_caught(name, bug):
    assert is_caught(bug, ESTIMATORS[name](), zoo, fit=fit, n_runs=120)  # few numbers in a fit


@every
def test_exploring_finds_nothing(name):
    model = ESTIMATORS[name]()
    assert not audit.explore(model, zoo(model.neighboring)[1], fit=fit)


@pytest.mark.parametrize("form", FORMS)
@both
def test_the_form_and_order_of_the_records_do_not_change_a_bit(kind, form):
    seen = fit(MAKE[kind](), FORMS[form](Xt))
    assert np.array_equal(seen.moment_, fit(MAKE[kind](), Xt).moment_)


# ---------------------------------------------------------------- mathematics


def test_two_rows_have_weights_by_hand():
    """Features -1 and 1, moment 1/2, unit covariance: the mean w2 - w1 must come within 0.3 of it, so w = (0.4, 0.6)."""
    w, distance = adaptation.nearest_weights([[-1.0], [1.0]], [0.5], [[1.0]], allowed=0.3**2)
    assert w == pytest.approx([0.4, 0.6], abs=1e-7) and distance == pytest.approx(0.09, rel=1e-6)
    w, distance = adaptation.nearest_weights([[-1.0], [1.0]], [0.5], [[1.0]], allowed=0.25)
    assert np.array_equal(w, [0.5, 0.5]) and distance == 0.25  # uniform ones explain it


def test_weights_are_those_of_an_independent_optimizer():
    """Proposition 1, by SLSQP on the weights themselves: no dual, no Newton step, no path."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        m, D = 12, 1 + seed % 3
        F, root = rng.normal(size=(m, D)), rng.normal(size=(D, D)) * 0.1 + 0.2 * np.eye(D)
        target, V = F[:4].mean(axis=0), root @ root.T + 0.01 * np.eye(D)
        inverse = np.linalg.inv(V)
        far = lambda w: (w @ F - target) @ inverse @ (w @ F - target)  # noqa: B023, E731
        allowed = 0.3 * far(np.full(m, 1 / m)) + 1e-3
        w, distance = adaptation.nearest_weights(F, target, V, allowed=allowed)
        found = optimize.minimize(
            lambda w: np.sum(w * np.log(np.maximum(w, 1e-300) * m)),  # noqa: B023
            np.full(m, 1 / m),
            bounds=[(1e-12, 1)] * m,
            constraints=[
                {"type": "eq", "fun": lambda w: w.sum() - 1},
                {"type": "ineq", "fun": lambda w: allowed - far(w)},  # noqa: B023
            ],
            options={"ftol": 1e-12, "maxiter": 1000},
        )
        assert far(found.x) <= allowed * (1 + 1e-6) and found.x.sum() == pytest.approx(1, abs=1e-9)
        assert distance == pytest.approx(far(w), rel=1e-9)
        assert distance == pytest.approx(allowed, rel=1e-6) and w.sum() == pytest.approx(1)
        assert w == pytest.approx(found.x, abs=2e-4)
        assert np.sum(w * np.log(w * m)) <= found.fun + 1e-6


def test_moments_outside_the_source_are_not_explained():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(200, 2))
    w, distance = adaptation.nearest_weights(F, [9.0, 0.0], np.eye(2) * 1e-3, allowed=2.0)
    assert distance > 1e3 and 1 / (w @ w) >= 0.2 * 200
    w, distance = adaptation.nearest_weights(
        F, [2.0, 0.0], np.eye(2) * 1e-3, allowed=2.0, smallest_share=0.001
    )
    assert distance <= 2.0 and 1 / (w @ w) < 0.2 * 200
    w, distance = adaptation.nearest_weights(F, [2.0, 0.0], np.eye(2) * 1e-3, allowed=2.0)
    assert distance > 2.0 and 1 / (w @ w) >= 0.2 * 200


def test_a_covariance_that_is_none_is_refused():
    with pytest.raises(ValueError, match="covariance"):
        adaptation.nearest_weights(np.eye(2), [0.0, 0.0], -np.eye(2), allowed=1.0)


def test_the_error_of_the_moments_is_within_its_bound_and_not_far_below():
    R, D, beta = 2.0, 4, 0.1
    for n, scale in ((50, 0.0), (50, 0.5), (5000, 0.2)):
        rng, off = np.random.default_rng(1), []
        for _ in range(300):
            rows = rng.normal(size=(n, D))
            rows *= R / np.linalg.norm(rows, axis=1)[:, None]
            off.append(np.linalg.norm(rows.mean(axis=0) + scale * rng.normal(size=D)))
        bound = adaptation.moment_error(n, D, R, scale, beta)
        assert np.mean(np.array(off) > bound) <= beta and np.mean(off) > 0.2 * bound
    by_hand = 2 * (1 + math.sqrt(2 * math.log(20))) / 10 + 0.5 * (2 + math.sqrt(2 * math.log(20)))
    assert adaptation.moment_error(100, 4, 2.0, 0.5, 0.1) == pytest.approx(by_hand, rel=1e-12)


def test_the_bound_on_the_loss_adds_up():
    found = adaptation.weighted_loss_bound(
        0.2, 0.1, 0.3, 50.0, steepness=2.0, misfit=0.05, bound=3.0, beta=0.1
    )
    by_hand = 0.2 + 2 * 0.4 + 0.1 + 3 * math.sqrt(math.log(10) / 100)
    assert found == pytest.approx(by_hand, rel=1e-12)


def test_the_bound_on_the_loss_holds_under_covariate_shift_and_not_under_another_rule():
    """E[loss | x] = 0.3 + 0.2 x, exactly within the family: steepness 0.2, no misfit."""
    beta, n, m, exceeded = 0.05, 400, 600, {0.0: 0, 0.4: 0}
    for other in exceeded:
        for seed in range(100):
            rng = np.random.default_rng(seed)
            source, target = rng.uniform(-1, 1, (m, 1)), rng.beta(4, 2, (n, 1)) * 2 - 1
            losses = rng.random(m) < 0.3 + 0.2 * source[:, 0]
            scale = 0.01
            moment = target.mean(axis=0) + scale * rng.normal(size=1)
            V = np.eye(1) * (source.var() * (1 / n + 1 / m) + scale**2)
            w, _ = adaptation.nearest_weights(source, moment, V, allowed=1.0)
            error = adaptation.moment_error(n, 1, 1.0, scale, beta)
            bound = adaptation.weighted_loss_bound(
                w @ losses, abs(w @ source - moment).item(), error, 1 / (w @ w),
                steepness=0.2, misfit=0.0, bound=1.0, beta=beta,
            )  # fmt: skip
            exceeded[other] += 0.3 + 0.2 * (4 / 6 * 2 - 1) + other > bound
    assert exceeded[0.0] <= 5 and exceeded[0.4] > 90


def mixed(rng, share, n):
    y = (rng.random(n) < share).astype(int)
    return rng.normal(size=(n, 2)) + np.array([[-1, 0], [1, 1]])[y], y


def test_the_p_value_of_label_shift_is_that_of_chance_and_nearly_0_otherwise():
    scale, n, found = 0.02, 400, []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        X, y = mixed(rng, 0.5, 500)
        moment = mixed(rng, (0.1, 0.5, 0.8)[seed % 3], n)[0].mean(axis=0)
        moment = moment + scale * rng.normal(size=2)
        found.append(adaptation.moments_p_value(X, y, moment, float(n), scale))
    found = np.array(found)
    assert np.mean(found < 0.1) == pytest.approx(0.1, abs=0.05) and np.mean(found < 0.01) < 0.04
    assert adaptation.moments_p_value(X, y, [0.0, -1.0], float(n), scale) < 1e-6


def test_the_p_value_of_label_shift_is_weighed_by_hand_where_shares_are_forced():
    """One class has moment 0 and the other 1, the released one is 2: the best share is 1, the distance 1 / V."""
    F, y = np.c_[np.repeat([0.0, 1.0], 50), np.tile([-1.0, 1.0], 50)], np.repeat([0, 1], 50)
    n, scale = 100.0, 0.5
    within = np.var([-1.0, 1.0]) * 50 / 49  # of the second column; the first has none
    V = scale**2 + np.array([0.0, within * (1 / n + 1 / 50)])
    by_hand = chi2.sf((2.0 - 1.0) ** 2 / V[0], 1)
    assert adaptation.moments_p_value(F, y, [2.0, 0.0], n, scale) == pytest.approx(
        by_hand, rel=1e-3
    )
    assert adaptation.moments_p_value(F[:, :1], y, [2.0], n, scale) == 1.0  # D < K


def test_moments_of_a_row_by_hand():
    moments = covariate_shift._Moments(np.array([1.0, 0.0]), np.array([2.0, 1.0]), 2, 100.0)
    row = moments(np.array([[5.0, -90.0], [1e300, 1e-300]]))
    root = math.sqrt(2)
    assert row[0] == pytest.approx([2.0, -4.0, 3 / root, 15 / root])
    assert row[1] == pytest.approx([4.0, 0.0, 15 / root, -1 / root])
    short = covariate_shift._Moments(moments.mean, moments.spread, 1, 1.0)(np.array([[7.0, 4.0]]))
    assert short[0] == pytest.approx([0.6, 0.8], rel=1e-9)


def test_units_come_from_the_source_and_flat_columns_have_one():
    X = np.c_[np.arange(100.0), np.full(100, 7.0), np.r_[1e300, np.zeros(99)]]
    found = covariate_shift._moments_of(X, 2)
    assert found.mean[:2] == pytest.approx([49.5, 7.0]) and found.spread[1] == 1.0
    assert found.spread[0] == pytest.approx(X[:, 0].std()) and np.isfinite(found(X)).all()
    lengths = np.linalg.norm(covariate_shift._Moments(found.mean, found.spread, 2, 1e9)(X), axis=1)
    assert np.mean(lengths <= found.radius) == pytest.approx(0.95, abs=0.011)
    assert covariate_shift._moments_of(np.zeros((5, 1)), 1).radius == 1.0


def test_a_gain_is_counted_less_its_standard_errors():
    before, after, w = np.array([3.0, 1.0]), np.array([1.0, 1.0]), np.array([0.25, 0.75])
    error = math.sqrt(0.25**2 * 1.5**2 + 0.75**2 * 0.5**2)
    assert covariate_shift._safe_gain(before, after, w, 0.0) == pytest.approx(0.5)
    assert covariate_shift._safe_gain(before, after, w, 2.0) == pytest.approx(0.5 - 2 * error)
    assert covariate_shift._power(np.array([0.2, 0.8]), 0.5) == pytest.approx([1 / 3, 2 / 3])


@both
def test_the_released_moment_is_the_mean_and_noise_of_the_stated_scale(kind):
    for neighboring in ("add_remove", "replace"):
        off = []
        moments = covariate_shift._moments_of(Xs, 2)
        exact = moments(Xt).mean(axis=0)
        for seed in range(200):
            model = MAKE[kind](neighboring=neighboring, random_state=seed, epsilon=20.0)
            found, n, scale = covariate_shift._released_moment(
                Xt, moments, model, Noise(seed, neighboring=neighboring)
            )
            off.append((found - exact) / scale)
        size = np.std(off)
        assert n == 61 if neighboring == "replace" else abs(n - 61) < 10
        assert size == pytest.approx(1.0, abs=0.12)


# ---------------------------------------------------------------- what it is for


def curve(rng, n, place, spread=1.0):
    X = rng.normal(place, spread, size=(n, 1))
    return X, np.sin(1.5 * X[:, 0]) + 0.1 * rng.normal(size=n)


def ring(rng, n, place, spread=1.0):
    X = rng.normal(place, spread, size=(n, 1))
    return X, ((np.abs(X[:, 0] - 0.3) > 1) ^ (rng.random(n) < 0.05)).astype(int)


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_it_is_better_than_the_source_where_rows_have_moved(kind, neighboring):
    draw, better = {"regressor": curve, "classifier": ring}[kind], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        (X, y), (T, _), (E, e) = (
            draw(rng, 2000, 0),
            draw(rng, 1000, 1, 0.5),
            draw(rng, 4000, 1, 0.5),
        )
        model = MAKE[kind](random_state=seed, neighboring=neighboring).fit(T, Xs=X, ys=y)
        alone = MAKE[kind](caution=1e100, random_state=seed).fit(T, Xs=X, ys=y)
        assert model.shift_ == "covariate" and model.power_ > 0 and alone.power_ == 0
        assert model.effective_size_ == pytest.approx(1 / np.sum(model.weights_**2))
        better.append(model.score(E, e) - alone.score(E, e))
    assert min(better) > 0.05


@both
def test_without_a_shift_it_is_the_source_s_model_to_the_bit(kind):
    draw, found = {"regressor": curve, "classifier": ring}[kind], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        (X, y), (T, _), (E, _) = draw(rng, 300, 0), draw(rng, 200, 0), draw(rng, 50, 0)
        model = MAKE[kind](random_state=seed).fit(T, Xs=X, ys=y)
        plain = {"regressor": LinearRegression(), "classifier": LogisticRegression(max_iter=1000)}
        alone = plain[kind].fit(X, y, sample_weight=np.ones(300))
        found.append(model.shift_)
        if model.shift_ == "none":
            assert np.array_equal(model.predict(E), alone.predict(E))
            assert np.ptp(model.weights_) == 0 and model.effective_size_ == pytest.approx(300)
    assert found.count("none") >= 18


@both
def test_rows_that_no_weights_explain_are_told_and_leave_the_model(kind):
    rows, model = Xt + 30.0, MAKE[kind](epsilon=20.0)
    with pytest.warns(UserWarning, match="contradict a covariate shift") as heard:
        fit(model, rows)
    assert model.shift_ == "neither" and model.power_ == 0 and np.ptp(model.weights_) == 0
    assert not quotes(str(heard[0].message), rows, n_rows=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "the released moments")  # then no result is lost
        assert fit(MAKE[kind](epsilon=20.0), rows).shift_ == "neither"


def test_the_diagnosis_tells_shares_of_classes_from_other_shifts():
    seen = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = mixed(rng, 0.5, 1500)
        turned = mixed(rng, 0.5, 800)[0] @ np.array([[0.0, 1.0], [-1.0, 0.0]]) * 1.5
        for rows in (mixed(rng, 0.5, 800)[0], mixed(rng, 0.15, 800)[0], turned):
            model = MAKE["classifier"](random_state=seed).fit(rows, Xs=X, ys=y)
            seen.append(model.shift_)
            assert set(model.p_values_) == {"none", "label", "covariate"}
    assert seen[::3].count("none") >= 5 and seen[1::3].count("label") >= 5
    assert not {"none", "label"} & {*seen[2::3]}


def test_a_model_that_fails_with_weights_leaves_the_source_s():
    class Choosy(LinearRegression):
        def fit(self, X, y, sample_weight=None):
            if np.ptp(sample_weight) > 0:
                raise RuntimeError("these weights")
            return super().fit(X, y, sample_weight)

    rng = np.random.default_rng(0)
    (X, y), (T, _) = curve(rng, 2000, 0), curve(rng, 1000, 1, 0.5)
    model = MAKE["regressor"](Choosy()).fit(T, Xs=X, ys=y)
    assert model.shift_ == "covariate" and model.power_ == 0 and np.ptp(model.weights_) == 0


# ---------------------------------------------------------------- the privacy cost


@every
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5])
def test_a_fit_spends_what_it_was_given(name, epsilon):
    spent = fit(ESTIMATORS[name](epsilon=epsilon), Xt).spent_
    assert spent.epsilon == pytest.approx(epsilon, rel=1e-6) and spent.delta == 1e-6
    (release,) = spent.releases
    assert release.label == "moments of the target" and "protects: the target" in str(spent)


def test_only_operating_system_noise_is_called_private():
    make = MAKE["regressor"]
    secret, other = (fit(make(random_state=None), Xt) for _ in range(2))
    assert secret.spent_.private and not np.array_equal(secret.moment_, other.moment_)
    assert not fit(make(), Xt).spent_.private


@every
def test_a_budget_charges_first_and_refuses_unread(name):
    make = partial(ESTIMATORS[name], neighboring="replace")
    budget = PrivacyBudget(1.5, 1e-5, composition="added")
    budget.fit(make(), Xt, **source(name))
    assert budget.spent == pytest.approx((1.0, 1e-6))
    with pytest.raises(BudgetExceeded):
        budget.fit(make(), Untouchable(), **source(name))
    with pytest.raises((TypeError, ValueError)):
        budget.fit(make(epsilon=None), Untouchable(), **source(name))
    assert len(budget.ledger) == 1


def test_a_source_that_cannot_be_learned_costs_nothing():
    class Unlearnable(LinearRegression):
        def fit(self, X, y, sample_weight=None):
            raise RuntimeError("this source cannot be learned")

    budget = PrivacyBudget(1.5, 1e-5)
    with pytest.raises(RuntimeError, match="cannot be learned"):
        budget.fit(MAKE["regressor"](Unlearnable()), Xt, **source("regressor"))
    assert budget.spent == (0.0, 0.0) and not len(budget.ledger)


# ---------------------------------------------------------------- what is refused

PUBLIC = {name: IMPOSSIBLE[name] for name in ("epsilon", "delta", "neighboring", "random_state")}
PUBLIC["estimator"] = [(v, TypeError) for v in ("log", 3, Ridge, KNeighborsRegressor())]
PUBLIC["order"] = [(v, (TypeError, ValueError)) for v in (0, 3, "2", None)]
PUBLIC["caution"] = [(v, (TypeError, ValueError)) for v in (-1.0, math.nan, math.inf, "3", None)]


@pytest.mark.parametrize(
    ("parameter", "value", "error"),
    [
        pytest.param(parameter, value, error, id=f"{parameter}-{i}")
        for parameter, cases in PUBLIC.items()
        for i, (value, error) in enumerate(cases)
    ],
)
@both
def test_an_impossible_public_parameter_is_refused_before_the_records_are_read(
    kind, parameter, value, error
):
    model = MAKE[kind](**{parameter: value})
    with pytest.raises(error) as caught:
        model.fit(Untouchable(), Xs=Untouchable(), ys=Untouchable())
    message = str(caught.value)
    assert parameter in message and 30 < len(message) < 400 and "\n" not in message
    assert not attributes(model)


def test_a_classifier_without_probabilities_is_refused():
    with pytest.raises(TypeError, match="predict_proba"):
        fit(MAKE["classifier"](SVC()), Xt)
    fit(MAKE["regressor"](Ridge()), Xt)


class Shaped(Untouchable):
    def __getattribute__(self, name):
        if name == "shape":
            return (61, 2)
        if name == "__class__":
            return Shaped
        raise AttributeError(name)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"Xs": None}, "Xs"),
        ({"ys": None}, "ys"),
        ({"ys": NUMBERS[:-1]}, "length"),
        ({"ys": np.full(90, np.nan)}, "ys"),
        ({"ys": ["a", 1] * 45}, "ys"),
        ({"Xs": Xs * np.nan}, "Xs"),
        ({"Xs": np.c_[Xs, Xs]}, "columns"),
        ({"Xs": Xs[:1], "ys": [1]}, "one row|two classes"),
    ],
)
@both
def test_an_impossible_source_is_refused_before_the_target_is_read(kind, changed, match):
    model = MAKE[kind]()
    with pytest.raises((TypeError, ValueError), match=match):
        model.fit(Shaped(), **source(kind) | changed)
    assert not attributes(model)


def test_a_class_of_one_record_is_refused():
    with pytest.raises(ValueError, match="two records of each class"):
        MAKE["classifier"]().fit(Shaped(), Xs=Xs[:5], ys=[0, 0, 0, 0, 1])


@pytest.mark.parametrize("bad", [bad for bad in BAD_X if bad != "no rows"])
@both
def test_unfit_rows_are_refused_before_any_release_and_not_quoted(kind, bad):
    spoil, error = BAD_X[bad]
    model, released = MAKE[kind](), mock.Mock(side_effect=AssertionError("released"))
    with mock.patch.multiple(Noise, _add=released), pytest.raises(error) as caught:
        fit(model, spoil(Xt))
    assert not [s for s in sentences(caught.value) if quotes(s, Xt)]
    assert not attributes(model)


# ---------------------------------------------------------------- nothing private is kept

KEPT = {"estimator_", "weights_", "effective_size_", "power_", "moment_", "p_values_", "shift_"}


@every
def test_a_fit_leaves_released_numbers_the_receipt_and_nothing_else(name):
    model = fit(ESTIMATORS[name](), Xt)
    more = {"classes_"} if name.startswith("classifier") else set()
    assert attributes(model) == KEPT | more | {"spent_", "n_features_in_"}
    assert {*vars(model)} == attributes(model) | set(model.get_params())
    assert attributes(ESTIMATORS[name]()) == set()


@every
def test_no_record_is_found_in_pickle_display_or_text(name):
    model = ESTIMATORS[name]()
    text = listen_to(Beside(model), Xt)
    stored, shown = pickle.dumps(model), repr(model) + repr(model.spent_)
    assert "released moments" in text or text.strip() == ""
    assert not quotes(shown + text, Xt, n_rows=False)
    assert not [v for v in Xt.ravel() if v.tobytes() in stored]


@every
def test_what_is_released_is_all_that_depends_on_the_target(name):
    """With the answer of the interface held fast, two targets leave the same estimator and the same warning."""
    other, seen = np.vstack([[[50.0, -1e300]], Xt[1:]]), []
    for rows in (Xt, other):
        model = ESTIMATORS[name]()
        with watch(lambda event: np.full(np.shape(event.value), 2**26)):
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                fit(model, rows)
        said = [str(w.message) for w in heard]
        seen.append((repr(model.spent_), model.weights_.tolist(), repr(model.p_values_), said))
    assert seen[0] == seen[1]


@every
def test_refitting_replaces_everything_and_a_failed_refit_changes_nothing(name):
    model = fit(ESTIMATORS[name](), Xt)
    before = vars(model).copy()
    for bad in (Xt * np.nan, Xt[0], np.c_[Xt, Xt]):
        with pytest.raises(ValueError):
            fit(model, bad)
        assert all(vars(model)[key] is before[key] for key in before)
    model.fit(Xt[:, :1], Xs=Xs[:80, :1], ys=source(name)["ys"][:80])
    assert model.n_features_in_ == 1 and len(model.weights_) == 80


@every
def test_fitting_leaves_parameters_tables_and_global_randomness_alone(name):
    model, tables = ESTIMATORS[name](), [t.copy() for t in (Xt, Xs, NUMBERS, CLASSES)]
    before, state = model.get_params(), repr(np.random.get_state())  # noqa: NPY002
    fit(model, Xt)
    assert all(model.get_params()[key] is before[key] for key in before)
    known = (Xt, Xs, NUMBERS, CLASSES)
    assert all(np.array_equal(*pair) for pair in zip(tables, known, strict=True))
    assert repr(np.random.get_state()) == state and not attributes(clone(model))  # noqa: NPY002


# ---------------------------------------------------------------- forms


@both
def test_labels_of_the_target_are_not_read(kind):
    model = MAKE[kind]().fit(Xt, Untouchable(), **source(kind))
    assert np.array_equal(model.moment_, fit(MAKE[kind](), Xt).moment_)


def test_words_are_classes():
    words = np.array(["ill", "well"])
    model = MAKE["classifier"]().fit(Xt, Xs=Xs, ys=words[CLASSES])
    plain = fit(MAKE["classifier"](), Xt)
    assert list(model.classes_) == ["ill", "well"]
    assert np.array_equal(model.predict(Xt), words[plain.predict(Xt)])
    assert np.allclose(model.predict_proba(Xt), plain.predict_proba(Xt))


@both
def test_units_of_the_columns_do_not_matter(kind):
    """Powers of two round nothing; a regularized classifier does depend on units, its weights do not."""
    ys = source(kind)["ys"]
    model, other = fit(MAKE[kind](), Xt), MAKE[kind]().fit(Xt * 1024, Xs=Xs * 1024, ys=ys)
    assert np.array_equal(model.moment_, other.moment_) and model.p_values_ == other.p_values_


@both
def test_names_of_columns_are_kept_and_compared(kind):
    frame = pytest.importorskip("pandas").DataFrame(Xt, columns=["east", "north"])
    model = fit(MAKE[kind](), frame)
    assert list(model.feature_names_in_) == ["east", "north"]
    model.predict(frame)
    with pytest.raises(ValueError):
        model.predict(frame[["north", "east"]])


@every
def test_nobody_leaves_the_model_as_it_is(name):
    model = ESTIMATORS[name]()
    if model.neighboring == "replace":  # the number of records is public
        with pytest.raises(ValueError, match="Xt cannot be used .*at least one record"):
            fit(model, Xt[:0])
        return
    fit(model, Xt[:0])
    assert model.shift_ == "none" and model.power_ == 0


@both
def test_columns_that_do_not_vary_are_answered(kind):
    flat = np.c_[Xs, np.full(90, 3.0)], np.c_[Xt, np.full(61, 3.0)]
    model = MAKE[kind]().fit(flat[1], Xs=flat[0], ys=source(kind)["ys"])
    assert model.p_values_ and np.isfinite(model.moment_).all()


@both
def test_prediction_wants_a_fit_and_the_same_columns(kind):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        MAKE[kind]().predict(Xt)
    with pytest.raises(ValueError, match="features|columns"):
        fit(MAKE[kind](), Xt).predict(np.c_[Xt, Xt])


# ---------------------------------------------------------------- help

NAMES = [
    "CovariateShiftClassifier",
    "CovariateShiftRegressor",
    "moment_error",
    "moments_p_value",
    "nearest_weights",
    "weighted_loss_bound",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_explains_itself(name):
    thing = getattr(adaptation, name)
    assert omissions(thing) == []
    for example in doctest.DocTestFinder(recurse=False).find(thing):
        assert doctest.DocTestRunner().run(example).failed == 0


@both
def test_help_says_what_is_public(kind):
    model = fit(MAKE[kind](), Xt)
    stated = type(model).__doc__.split("Attributes")[1].split("Raises")[0]
    assert all(name in stated for name in attributes(model)) and stated.count("PUBLIC") >= 8
    assert "NOT private" in type(model).predict.__doc__
    assert "PRIVATE" in type(model).fit.__doc__ and len(FAULTS) > 15
