"""Label shift: proportions against brute force, predictions row by row, and every promise of the estimator."""

import doctest
import math
import pickle
import warnings
from decimal import Decimal
from functools import partial
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy import optimize
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
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

from dplit import BudgetExceeded, LabelShiftClassifier, NCnvxAdap, PrivacyBudget, adaptation, audit
from dplit.adaptation import label_shift
from dplit.audit import FAULTS
from dplit.inputs import DoubtWarning, foreign
from dplit.mechanisms import Noise, watch

rng = np.random.default_rng(0)
Xs = rng.normal(size=(120, 2)) + np.repeat([[-2, 0], [2, 0], [0, 3]], 40, axis=0)  # PUBLIC
ys = np.repeat([0, 1, 2], 40)
Xt = np.random.default_rng(8).normal(scale=3.0, size=(61, 2)).astype(np.float32).astype(float)
yt = (Xt[:, 0] > 0).astype(int)
SOURCE = {"Xs": Xs, "ys": ys}
MAKE = partial(LabelShiftClassifier, epsilon=1.0, random_state=0)
ESTIMATORS = {
    "labels": MAKE,
    "labels, replace": partial(MAKE, neighboring="replace"),
    "no labels": MAKE,
    "no labels, replace": partial(MAKE, neighboring="replace"),
    "no labels, another model": partial(MAKE, GaussianNB()),
}
every = pytest.mark.parametrize("name", ESTIMATORS)


def fit(model, rows, labels=None, *, name="labels"):
    labels = yt if labels is None and name.startswith("labels") else labels
    return model.fit(rows, labels, **SOURCE)


def fit_table(name):
    """Fit on rows whose last entry tells the class, where labels are given."""

    def run(model, table):
        labels = np.digitize(table[:, 2], [0.0, 2.9]) if name.startswith("labels") else None
        return model.fit(table[:, :2], labels, **SOURCE)

    return run


class Beside:
    """An estimator whose `fit` takes the private rows alone."""

    def __init__(self, model, name):
        self.fit = lambda rows: fit(model, rows, name=name)


# ---------------------------------------------------------------- audits


@every
def test_replay_finds_nothing(name):
    model = ESTIMATORS[name]()
    pairs = audit.neighbors(3, 3.0, neighboring=model.neighboring, n_random=6)
    assert not audit.replay(model, pairs, seeds=range(3), fit=fit_table(name))


def zoo(neighboring):
    pairs = audit.neighbors(3, 3.0, neighboring=neighboring, n_random=6)
    return pairs, audit.walks(3, 3.0, neighboring=neighboring)


# there is no radius, one release only, and whatever a row holds, its bin is one whole number
NOT_HERE = (
    "scaled by the data",
    "the same draws in every release",
    "the same draws in every release, signs in turn",
    "a privacy cost above the claim after a large noisy number",
    "NaN passes",
)


# the noise is weighed where fits are quick: it is the same release
WEIGHED = tuple(bug for bug in FAULTS if FAULTS[bug].seen_by == "weigh")
CASES = planted(["labels"], NOT_HERE) + planted(["no labels"], NOT_HERE + WEIGHED)


@pytest.mark.parametrize(("name", "bug"), CASES)
def test_every_injected_bug_is_caught(name, bug):
    # a fit draws three numbers: 40 fits would tell a factor of two, and not the square root of two
    assert is_caught(bug, ESTIMATORS[name](), zoo, fit=fit_table(name), n_runs=200)


@every
def test_exploring_finds_nothing(name):
    model = ESTIMATORS[name]()
    assert not audit.explore(model, zoo(model.neighboring)[1], fit=fit_table(name))


class Centering(ClassifierMixin, BaseEstimator):
    """Looks at the whole table that it is shown, and at the place of a row in it."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return (X[:, 0] > X[:, 0].mean()).astype(int) + (np.arange(len(X)) > 3)

    def predict_proba(self, X):
        return np.eye(3)[self.predict(X)]


def test_a_model_that_looks_at_the_table_sees_one_row():
    model = MAKE(Centering())
    pairs = audit.neighbors(3, 3.0, neighboring="add_remove", n_random=6)
    assert not audit.replay(model, pairs, seeds=range(2), fit=fit_table("no labels"))
    at_once = lambda model, X, classes, edges: model.predict(X) * 3  # noqa: E731
    with mock.patch.object(label_shift, "_bins_alone", at_once):
        assert audit.replay(model, pairs, seeds=range(2), fit=fit_table("no labels"))


class Remembering(Centering):
    """Compares a row with those that it was shown before, draws numbers of its own, and keeps it all."""

    def fit(self, X, y):
        self.seen_, self.random_ = [], np.random.default_rng(0)
        return super().fit(X, y)

    def predict(self, X):
        self.seen_.append(X)  # the table itself, not a copy
        mean = np.concatenate([rows[:, 0].copy() for rows in self.seen_]).mean()
        return (X[:, 0] > mean + self.random_.normal()).astype(int) + (len(self.seen_) > 3)


def test_a_model_that_remembers_rows_meets_each_for_the_first_time():
    """Else one row moves the bins of all that come after it, and `estimator_` hands the rows out."""
    model = MAKE(Remembering())
    for neighboring in ("add_remove", "replace"):
        model.set_params(neighboring=neighboring)
        pairs = audit.neighbors(3, 3.0, neighboring=neighboring, n_random=6)
        assert not audit.replay(model, pairs, seeds=range(2), fit=fit_table("no labels"))
    assert not model.fit(Xt, **SOURCE).estimator_.seen_
    with mock.patch.object(label_shift.copy, "deepcopy", lambda model: model):
        assert audit.replay(model, pairs, seeds=range(2), fit=fit_table("no labels"))
        assert MAKE(Remembering()).fit(Xt, **SOURCE).estimator_.seen_


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["labels", "no labels"])
def test_the_form_and_order_of_the_records_do_not_change_a_bit(name, form):
    table = FORMS[form](np.column_stack([Xt, yt]))
    rows = [row[:2] for row in table] if isinstance(table, list) else table[:, :2]
    labels = [row[2] for row in table] if isinstance(table, list) else table[:, 2]
    seen = MAKE().fit(rows, labels if name == "labels" else None, **SOURCE)
    assert np.array_equal(seen.counts_, fit(MAKE(), Xt, name=name).counts_)


# ---------------------------------------------------------------- mathematics


def test_counts_end_at_zero_and_the_source_stands_beside_them():
    p = adaptation.shrunk_proportions([-5.0, 30.0, 10.0], [0.5, 0.25, 0.25], 2.0)
    assert p == pytest.approx([3 / 46, 31.5 / 46, 11.5 / 46])
    assert np.allclose(adaptation.shrunk_proportions([0.0, -9.0], [0.9, 0.1], 5.0), [0.9, 0.1])
    assert np.allclose(adaptation.shrunk_proportions([30.0, 10.0], [0.9, 0.1], 1e-9), [0.75, 0.25])


def test_counts_without_labels_minimise_what_they_say():
    rng = np.random.default_rng(1)
    for _ in range(20):
        K, scale = 3, rng.uniform(0.1, 20)
        C, s = rng.dirichlet(np.ones(K), size=K).T, rng.dirichlet(np.ones(K))
        q = rng.integers(-5, 200, size=K).astype(float)
        n = max(q.sum(), 1.0)
        ridge = (2 * scale**2 + n / K) / (n / K) ** 2
        objective = lambda h: np.sum((C @ h - q) ** 2) + ridge * np.sum((h - n * s) ** 2)  # noqa: B023, E731
        found = adaptation.black_box_counts(C, q, s, scale)
        start = np.maximum(n * s, 1e-3)
        brute = optimize.minimize(objective, start, bounds=[(0, None)] * K, tol=1e-14)
        assert found.min() >= 0
        assert objective(found) <= brute.fun * (1 + 1e-6) + 1e-9


def test_without_noise_the_shares_are_those_of_the_equation():
    C, p = np.array([[0.8, 0.3], [0.2, 0.7]]), np.array([0.1, 0.9])
    counts = adaptation.black_box_counts(C, 1e9 * C @ p, [0.5, 0.5], 1e-3)
    assert np.allclose(counts / counts.sum(), p, atol=1e-4)


def test_the_confusion_is_of_rows_that_were_not_trained_on():
    X = np.arange(40.0)[:, None]
    y = np.arange(40) % 2  # nothing to learn, and a tree that remembers everything
    from sklearn.tree import DecisionTreeClassifier

    C = label_shift._confusion(DecisionTreeClassifier(random_state=0), X, y, np.arange(2))
    assert np.allclose(C.sum(axis=0), 1) and C[:3, 0].sum() < 0.9 and C.shape == (6, 2)
    known = np.repeat([0, 1], 20)
    C = label_shift._confusion(LogisticRegression(), known[:, None] * 9.0, known, np.arange(2))
    assert np.allclose(C.reshape(2, 3, 2).sum(axis=1), np.eye(2))


def test_the_bound_holds_for_the_counts_alone():
    """E |shrunk - exact shares|_1 <= 4 K b / n: the part of the noise; 300 draws are enough for a factor of two."""
    for n, epsilon, K in ((50, 0.5, 2), (300, 1.0, 5), (300, 0.1, 2)):
        rng, off = np.random.default_rng(2), []
        for seed in range(300):
            p, source = rng.dirichlet(np.ones(K)), rng.dirichlet(np.full(K, 5.0))
            bins = rng.choice(K, size=n, p=p)
            h = Noise(seed).histogram(bins, K, epsilon=epsilon)
            exact = np.bincount(bins, minlength=K) / n
            off.append(np.abs(adaptation.shrunk_proportions(h, source, 1 / epsilon) - exact).sum())
        noise = 4 * K / epsilon / n
        assert np.mean(off) <= noise and np.mean(off) > 0.05 * noise
        drawing = math.sqrt((K - 1) / n)
        assert adaptation.shift_excess_bound(n, K, 1 / epsilon) == pytest.approx(
            min(1, drawing + noise)
        )


def test_the_posterior_is_that_of_bayes():
    some = np.r_[0:40, 40:51, 80:86]  # classes as rare in the source as they are not in the target
    model = MAKE(GaussianNB()).fit(Xt, yt, Xs=Xs[some], ys=ys[some])
    p = model.target_proportions_
    nb = GaussianNB(priors=p).fit(Xs[some], ys[some])
    assert p.sum() == pytest.approx(1)
    assert np.allclose(model.predict_proba(Xt), nb.predict_proba(Xt))
    assert np.array_equal(model.predict(Xt), nb.predict(Xt))


@pytest.mark.parametrize("labelled", [True, False])
def test_shares_are_found_and_the_model_is_better_for_it(labelled):
    better = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y, ye = (rng.choice(3, size=n, p=[0.85, 0.1, 0.05]) for n in (600, 5000))
        at = np.array([[-1, 0], [1, 0], [0, 1.5]])
        X, Xe = (rng.normal(size=(len(z), 2)) + at[z] for z in (y, ye))
        yp = rng.choice(3, size=2000)
        Xp = rng.normal(size=(2000, 2)) + at[yp]
        model = MAKE(random_state=seed).fit(X, y if labelled else None, Xs=Xp, ys=yp)
        assert np.abs(model.target_proportions_ - [0.85, 0.1, 0.05]).max() < 0.08
        better.append(model.score(Xe, ye) - model.estimator_.score(Xe, ye))
    assert np.min(better) > 0.05


def at_confidence(M, rows, sizes, scale, rng):
    """Noisy counts of predictions, and the shares that a source of these sizes would show."""
    seen = np.array([rng.multinomial(s, c) / s for s, c in zip(sizes, M.T, strict=True)]).T
    drawn = sum(rng.multinomial(h, c) for h, c in zip(rows, M.T, strict=True))
    noise = np.diff(rng.geometric(1 - math.exp(-1 / scale), size=(2, len(M))), axis=0)[0]
    return seen, (drawn + noise).astype(float)


def test_the_p_value_is_that_of_chance_under_label_shift_and_nearly_0_otherwise():
    M = np.array([[0.5, 0.05], [0.3, 0.05], [0.1, 0.1], [0.05, 0.1], [0.03, 0.3], [0.02, 0.4]])
    for scale, n, m in ((1.0, 300, 400), (10.0, 300, 100), (1.0, 0, 400), (0.3, 5000, 1000)):
        rng, sizes, found = np.random.default_rng(3), np.array([m, m]), []
        for share in np.resize([0.1, 0.5, 0.8], 900):
            rows = rng.multinomial(n, [share, 1 - share])
            C, counts = at_confidence(M, rows, sizes, scale, rng)
            found.append(adaptation.counts_p_value(C, counts, sizes, scale))
        assert np.mean(np.array(found) < 0.05) == pytest.approx(0.05, abs=0.025)
        assert np.mean(np.array(found) < 1e-4) < 0.005
    middle = np.array([0.05, 0.1, 0.35, 0.35, 0.1, 0.05])  # no mixture of the two columns
    assert adaptation.counts_p_value(M, 1000 * middle, [400, 400], 1.0) < 1e-10
    assert adaptation.counts_p_value(M, 1000 * M @ [0.3, 0.7], [400, 400], 1.0) == pytest.approx(
        1.0
    )


def test_as_many_bins_as_classes_contradict_nothing():
    assert adaptation.counts_p_value(np.eye(2), [1000.0, -900.0], [50, 50], 1.0) == 1.0


def test_a_single_class_is_weighed_by_hand():
    """One class, two bins of equal shares, a large source: the statistic is a square that anybody can write down."""
    scale, counts, sizes = 1e-3, np.array([60.0, 40.0]), np.array([1e12])
    from scipy.stats import chi2

    by_hand = (60 - 40) ** 2 / 100  # (a - b)^2 / (a + b)
    found = adaptation.counts_p_value([[0.5], [0.5]], counts, sizes, scale)
    assert found == pytest.approx(chi2.sf(by_hand, 1), rel=1e-3)


@pytest.mark.parametrize(("apart", "n"), [(1.0, 1e6), (1e4, 1e14)])
def test_the_statistic_of_moments_is_the_least_over_all_proportions(apart, n):
    """Two classes, by a search over one number. Mutation: where classes are far apart, proportions need not sum to 1."""
    from scipy.optimize import minimize_scalar
    from scipy.stats import chi2

    rng = np.random.default_rng(5)
    codes = np.repeat([0, 1], 40_000)
    features = rng.normal(size=(80_000, 3)) + apart * (1 + codes[:, None] * [0.0, 1.0, 0.0])
    ends = [features[codes == k] for k in (0, 1)]
    means, spreads = (
        np.array([part.mean(axis=0) for part in ends]),
        [np.cov(part.T) for part in ends],
    )
    floor = 1e-9 * features.var(axis=0).mean()  # of the variance, against rounding
    moment = means.T @ [0.7, 0.3] + np.array([3 * math.sqrt(floor + 2e-5), 0.0, 0.0])

    def statistic(b):
        off = means - [1 - b, b] @ means
        V = (off.T * [1 - b, b]) @ off / n + floor * np.eye(3)
        for share, spread in zip((1 - b, b), spreads, strict=True):
            V += spread * (share / n + share**2 / 40_000)
        rest = moment - [1 - b, b] @ means
        return rest @ np.linalg.solve(V, rest)

    least = minimize_scalar(statistic, bounds=(0.29, 0.31), options={"xatol": 1e-13}).fun
    found = adaptation.moments_p_value(features, codes, moment, n, 0.0)
    assert 1e-7 < found < 0.9 and found == pytest.approx(chi2.sf(least, 2), rel=0.02)


WARNING = "released counts contradict label shift"


def test_a_visible_contradiction_warns_and_label_shift_does_not():
    rng, said = np.random.default_rng(4), []
    source = {"ys": np.repeat([0, 1], 1000)}
    source["Xs"] = rng.normal(size=(2000, 1)) + 2.0 * source["ys"][:, None] - 1
    rare = (rng.random(1000) < 0.1).astype(int)
    for rows in (
        rng.normal(size=(1000, 1)) + 2.0 * rare[:, None] - 1,
        rng.normal(0, 0.2, (1000, 1)),
    ):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            model = MAKE().fit(rows, **source)
        said.append([str(w.message) for w in heard if WARNING in str(w.message)])
        assert bool(said[-1]) == (model.p_value_ < 1e-4)
    assert [len(lines) for lines in said] == [0, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # then nothing is said, and no result is lost
        assert MAKE().fit(rows, **source).p_value_ == model.p_value_
    assert MAKE().fit(rows, rare, **source).p_value_ is None


# ---------------------------------------------------------------- the price


@every
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5])
def test_a_fit_spends_what_it_was_given(name, epsilon):
    model = fit(ESTIMATORS[name](epsilon=epsilon), Xt, name=name)
    spent = model.spent_
    assert spent.epsilon == pytest.approx(epsilon, rel=1e-9) and spent.delta == 0
    (release,) = spent.releases
    assert release.sensitivity == (2 if model.neighboring == "replace" else 1)
    assert spent.neighboring == model.neighboring and "protects: the target" in str(spent)


def test_only_operating_system_noise_is_called_private():
    secret, other = (fit(MAKE(random_state=None, epsilon=0.01), Xt) for _ in range(2))
    assert secret.spent_.private and not np.array_equal(secret.counts_, other.counts_)
    assert not fit(MAKE(), Xt).spent_.private
    assert np.array_equal(fit(MAKE(), Xt).counts_, fit(MAKE(), Xt).counts_)


@every
def test_a_budget_charges_first_and_refuses_unread(name):
    budget, model = PrivacyBudget(1.5, composition="added"), ESTIMATORS[name](neighboring="replace")
    budget.fit(model, Xt, yt if name.startswith("labels") else None, **SOURCE)
    assert budget.spent == pytest.approx((1.0, 0.0))
    with pytest.raises(BudgetExceeded):
        budget.fit(model, Untouchable(), Untouchable(), **SOURCE)
    with pytest.raises((TypeError, ValueError)):
        budget.fit(MAKE(epsilon=None), Untouchable(), Untouchable(), **SOURCE)
    assert len(budget.ledger) == 1


class Unlearnable(LogisticRegression):
    def fit(self, X, y):
        raise RuntimeError("this source cannot be learned")


def test_a_source_that_cannot_be_learned_costs_nothing():
    budget = PrivacyBudget(1.5)
    with pytest.raises(RuntimeError, match="cannot be learned"):
        budget.fit(MAKE(Unlearnable()), Xt, yt, **SOURCE)
    assert budget.spent == (0.0, 0.0) and not len(budget.ledger)


# ---------------------------------------------------------------- what is refused

PUBLIC = {name: IMPOSSIBLE[name] for name in ("epsilon", "neighboring", "random_state")}
PUBLIC["estimator"] = [(v, TypeError) for v in ("log", 3, LogisticRegression, SVC(), Centering)]


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


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ({"Xs": None}, "Xs"),
        ({"ys": None}, "ys"),
        ({"ys": ys[:-1]}, "length"),
        ({"ys": np.zeros(120)}, "two classes"),
        ({"ys": np.full(120, np.nan)}, "is NaN, the first of 120"),
        ({"ys": [1, None] * 60}, "row 1 .* is NaN"),
        ({"Xs": Xs * np.nan}, "Xs"),
        ({"Xs": np.c_[Xs, Xs]}, "columns"),
    ],
)
def test_an_impossible_source_is_refused_before_the_target_is_read(source, match):
    class Shaped(Untouchable):
        def __getattribute__(self, name):
            if name == "shape":
                return (61, 2)
            if name == "__class__":
                return Shaped
            raise AttributeError(name)

    model = MAKE()
    with pytest.raises((TypeError, ValueError), match=match):
        model.fit(Shaped(), yt, **SOURCE | source)
    assert not attributes(model)


def test_a_class_of_one_record_needs_target_labels():
    source = {"Xs": Xs[:81], "ys": ys[:81]}
    with pytest.raises(ValueError, match="two records of each class"):
        MAKE().fit(Xt, **source)
    assert len(MAKE().fit(Xt, yt, **source).classes_) == 3


@pytest.mark.parametrize("name", ["labels", "no labels"])
@pytest.mark.parametrize("kind", [kind for kind in BAD_X if kind != "no rows"])
def test_unfit_rows_are_refused_before_any_release_and_not_quoted(name, kind):
    spoil, error = BAD_X[kind]
    model, released = MAKE(), mock.Mock(side_effect=AssertionError("released"))
    with mock.patch.multiple(Noise, _add=released), pytest.raises(error) as caught:
        fit(model, spoil(Xt), name=name)
    assert not [s for s in sentences(caught.value) if quotes(s, Xt)]
    assert not attributes(model)


@pytest.mark.parametrize(
    "labels", [yt[:-1], yt.astype(str), yt.astype("S1"), np.eye(61), "yes", yt + 1j]
)
def test_labels_that_no_table_of_this_shape_and_type_can_have_are_refused_unpaid(labels):
    model, budget = MAKE(), PrivacyBudget(1.5)
    with pytest.raises(ValueError, match="yt"):
        budget.fit(model, Xt, labels, **SOURCE)
    assert budget.spent == (0.0, 0.0) and not attributes(model)


def histogram_of(model, *tables, **source):
    """The exact counts that pass to the noise."""
    counted = []
    with watch(lambda event: counted.append(event.value) or event.outcome):
        model.fit(*tables, **(source or SOURCE))
    return np.ravel(counted[0]).tolist()


class Loud:
    """A label that quotes itself when it is compared."""

    def __eq__(self, other):
        raise ValueError("label 4711")

    __hash__ = None


STRANGE = {
    "of no class": 3,
    "between two classes": 0.5,
    "a word": "1",
    "bytes": b"1",
    "nothing": None,
    "no number": math.nan,
    "infinite": math.inf,
    "beyond every float": 10**400,
    "quotes itself": Loud(),
    "missing, in a cell": pd.NA,
    "an array in a cell": np.array([0, 4711]),
    "a list in a cell": [0, 1],
    "a column in a cell": pd.Series([0, 4711]),
    "a signalling NaN": Decimal("sNaN"),
}


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("as_list", [False, True])
def test_a_label_of_no_class_counts_for_none_and_changes_no_other(kind, as_list, recwarn):
    labels = yt.astype(object)
    labels[5] = STRANGE[kind]
    labels, rest = list(labels) if as_list else labels, np.delete(yt, 5)
    assert histogram_of(MAKE(), Xt, labels) == np.bincount(rest, minlength=3).tolist()
    # of labels of type object, whatever they are, one doubt is said
    assert ["may hold words" in str(one.message) for one in recwarn] == [True] * (not as_list)


@pytest.mark.parametrize("kind", STRANGE)
def test_a_label_of_no_class_has_a_gradient_of_zero(kind):
    labels, ball = list(yt), {"radius": 9.0, "weight_radius": 1.0, "classes": [0, 1, 2]}
    labels[5] = STRANGE[kind]
    make = partial(NCnvxAdap, epsilon=1.0, delta=1e-6, random_state=0, alpha=0.0, **ball)

    def sums(labels):
        seen = []
        with watch(lambda event: seen.append(np.array(event.value)) or event.value * 0):
            make().fit(Xt, labels, **SOURCE)
        return np.array(seen)

    whole, without = sums(list(yt)), sums(labels)
    assert without.shape == whole.shape and not (whole == without).all()
    assert (without == sums([*yt[:5], "another", *yt[6:]])).all()


def test_records_of_fields_are_no_labels():
    labels, ball = np.zeros(len(yt), dtype=[("a", int)]), {"radius": 9.0, "weight_radius": 1.0}
    other = NCnvxAdap(epsilon=1.0, delta=1e-6, classes=[0, 1, 2], **ball)
    for model in (MAKE(), other):
        with pytest.raises(ValueError, match="yt: its entries are of another type"):
            model.fit(Xt, labels, **SOURCE)


def test_a_list_of_columns_keeps_each_label_apart():
    """One record that is no row of one column must not make the others mean something else."""
    column, broken = [[label] for label in yt], [[label] for label in yt]
    broken[5] = "a word"
    assert histogram_of(MAKE(), Xt, column) == np.bincount(yt, minlength=3).tolist()
    rest = np.bincount(np.delete(yt, 5), minlength=3).tolist()
    assert histogram_of(MAKE(), Xt, broken) == rest


def test_a_model_that_warns_of_a_row_is_not_heard(recwarn):
    class Warner(GaussianNB):
        def predict(self, X):
            if len(X) == 1:
                warnings.warn(f"{X} is large", UserWarning, stacklevel=2)
            return super().predict(X)

    MAKE(Warner()).fit(Xt * 1e200, **SOURCE)
    assert [str(w.message)[:19] for w in recwarn.list] == ["the released counts"]


def test_a_model_that_quotes_a_row_is_not_heard():
    class Loud(GaussianNB):
        def predict(self, X):
            if len(X) == 1:
                raise ValueError(f"{X} is too large")
            return super().predict(X)

    budget = PrivacyBudget(1.5)
    with pytest.raises(ValueError, match="source's model") as caught:
        budget.fit(MAKE(Loud()), Xt, **SOURCE)  # it fails on the source, too
    assert not [s for s in sentences(caught.value) if quotes(s, Xt)]
    assert budget.spent == (0.0, 0.0)


# ---------------------------------------------------------------- nothing private is kept


@every
def test_a_fit_leaves_released_numbers_the_receipt_and_nothing_else(name):
    expected = {"classes_", "estimator_", "counts_", "source_proportions_", "target_proportions_"}
    expected |= {"p_value_"}
    model = fit(ESTIMATORS[name](), Xt, name=name)
    assert attributes(model) == expected | {"spent_", "n_features_in_"}
    assert attributes(ESTIMATORS[name]()) == set()
    assert np.array_equal(model.classes_, [0, 1, 2]) and model.target_proportions_.min() > 0
    given = model.estimator or LogisticRegression(max_iter=1000)
    alone = clone(given).fit(Xs, ys)  # the source alone
    assert str(model.estimator_.get_params()) == str(given.get_params())
    assert np.array_equal(model.estimator_.predict_proba(Xt), alone.predict_proba(Xt))


@every
def test_no_record_is_found_in_pickle_display_or_text(name):
    model = ESTIMATORS[name]()
    text = listen_to(Beside(model, name), Xt)
    stored, shown = pickle.dumps(model), repr(model) + repr(model.spent_)
    assert text.strip() == "" and not quotes(shown, Xt, n_rows=False)
    assert not [v for v in Xt.ravel() if v.tobytes() in stored]


@every
def test_what_is_released_is_all_that_depends_on_the_target(name):
    """With the answer of the door held fast, two targets leave the same estimator."""
    other, seen = np.vstack([[[50.0, -1e300]], Xt[1:]]), []
    for rows, labels in ((Xt, yt), (other, np.r_[2, yt[1:]])):
        model = ESTIMATORS[name]()
        with watch(lambda event: np.resize([30, 20, 11], np.shape(event.value))):
            fit(model, rows, labels if name.startswith("labels") else None, name=name)
        seen.append((repr(model.spent_), model.target_proportions_.tolist(), repr(model)))
    assert seen[0] == seen[1]


@every
def test_refitting_replaces_everything_and_a_failed_refit_changes_nothing(name):
    model = fit(ESTIMATORS[name](), Xt, name=name)
    before = vars(model).copy()
    for bad in (Xt * np.nan, Xt[0], np.c_[Xt, Xt]):
        with pytest.raises(ValueError):
            fit(model, bad, name=name)
        assert all(vars(model)[key] is before[key] for key in before)
    model.fit(Xt[:, :1], yt, Xs=Xs[:80, :1], ys=ys[:80])
    assert model.n_features_in_ == 1 and len(model.classes_) == 2


@every
def test_fitting_leaves_parameters_tables_and_global_randomness_alone(name):
    model, tables = ESTIMATORS[name](), [table.copy() for table in (Xt, yt, Xs, ys)]
    before, state = model.get_params(), repr(np.random.get_state())  # noqa: NPY002
    fit(model, Xt, name=name)
    assert all(model.get_params()[key] is before[key] for key in before)
    assert all(np.array_equal(*pair) for pair in zip(tables, (Xt, yt, Xs, ys), strict=True))
    assert repr(np.random.get_state()) == state and not attributes(clone(model))  # noqa: NPY002


# ---------------------------------------------------------------- forms


def test_words_numbers_and_columns_are_all_labels():
    plain, word = fit(MAKE(), Xt), np.array(["ill", "none", "well"])
    words = MAKE().fit(Xt, word[yt], Xs=Xs, ys=word[ys])
    objects = MAKE().fit(Xt, word[yt].astype(object), Xs=Xs, ys=list(word[ys]))
    column = MAKE().fit(Xt, yt[:, None], Xs=Xs, ys=ys[:, None].astype(float))
    for other in (words, objects, column):
        assert np.array_equal(other.counts_, plain.counts_)
        assert np.allclose(other.predict_proba(Xt), plain.predict_proba(Xt))
    assert np.array_equal(words.predict(Xt), word[plain.predict(Xt)])
    assert np.array_equal(objects.predict(Xt), word[plain.predict(Xt)])


def test_a_pipeline_is_a_model_and_its_parameters_can_be_set():
    model = MAKE(make_pipeline(StandardScaler(), LogisticRegression()))
    model.set_params(estimator__logisticregression__C=0.1)
    assert np.allclose(fit(model, Xt).predict_proba(Xt).sum(axis=1), 1)
    assert model.estimator_[-1].C == 0.1 and not hasattr(model.estimator[-1], "coef_")


def test_names_of_columns_are_kept_and_compared():
    frame = pytest.importorskip("pandas").DataFrame(Xt, columns=["east", "north"])
    model = fit(MAKE(), frame)
    assert list(model.feature_names_in_) == ["east", "north"]
    model.predict(frame)
    with pytest.raises(ValueError):
        model.predict(frame[["north", "east"]])
    with pytest.raises(ValueError, match="columns"):
        MAKE().fit(frame, yt, Xs=frame[["north", "east"]], ys=yt)


def test_nobody_leaves_the_model_as_it_is_up_to_noise():
    model = MAKE(epsilon=100.0).fit(Xt[:0], yt[:0], **SOURCE)
    assert np.allclose(model.target_proportions_, 1 / 3)
    assert np.allclose(model.predict_proba(Xt), model.estimator_.predict_proba(Xt))


def test_prediction_wants_a_fit_and_the_same_columns():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        MAKE().predict(Xt)
    with pytest.raises(ValueError, match="features|columns"):
        fit(MAKE(), Xt).predict(np.c_[Xt, Xt])


# ---------------------------------------------------------------- help


PUBLIC_NAMES = [
    "LabelShiftClassifier",
    "black_box_counts",
    "counts_p_value",
    "shift_excess_bound",
    "shrunk_proportions",
]


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_every_public_name_explains_itself(name):
    thing = getattr(adaptation, name)
    assert omissions(thing) == []
    for example in doctest.DocTestFinder(recurse=False).find(thing):
        assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: adaptation.shrunk_proportions([1, 2], [0.5, 0.5, 0.5], 1.0), "source"),
        (lambda: adaptation.shrunk_proportions([1, 2], [1.0, 0.0], 1.0), "source"),
        (lambda: adaptation.shrunk_proportions([1, 2], [0.5, 0.5], 0.0), "scale"),
        (
            lambda: adaptation.black_box_counts(np.eye(3), [1, 2], [0.5, 0.5], 1.0),
            "confusion|predicted",
        ),
        (lambda: adaptation.black_box_counts(np.eye(2), [1, 2], [0.5, 0.5], -1.0), "scale"),
        (lambda: adaptation.shift_excess_bound(0, 2, 1.0), "n=0"),
        (lambda: adaptation.shift_excess_bound(10, 2, math.nan), "scale"),
    ],
)
def test_functions_refuse_what_cannot_be(call, match):
    with pytest.raises((TypeError, ValueError), match=match):
        call()


def test_help_says_what_is_public():
    stated = LabelShiftClassifier.__doc__.split("Attributes")[1].split("Raises")[0]
    assert stated.count("PUBLIC") >= 6
    assert all(name in stated for name in attributes(fit(MAKE(), Xt)))
    assert "NOT private" in LabelShiftClassifier.predict.__doc__
    assert "NOT private" in LabelShiftClassifier.predict_proba.__doc__
    assert "PRIVATE" in LabelShiftClassifier.fit.__doc__


@pytest.mark.parametrize("last", [2**53, float(2**53)])
def test_a_label_in_a_list_does_not_change_what_the_others_are(last):
    """A list with one float in it is no list of floats: 2**53 and 2**53 + 1 would become one number, for all."""
    classes, rows, labels = [2**53, 2**53 + 1], np.zeros((100, 1)), [2**53 + 1] * 99 + [last]
    beside = {"Xs": np.random.default_rng(0).normal(size=(40, 1)), "ys": classes * 20}
    counted = []
    with watch(lambda event: counted.append(event.value) or event.outcome):
        MAKE(neighboring="replace").fit(rows, labels, **beside)
    assert np.ravel(counted[0]).tolist() == [1, 99]
    places = foreign.label_places(foreign.one_column(labels, "yt", "this"), np.array(classes))
    assert places.tolist() == [1] * 99 + [0]  # NCnvxAdap asks this


def test_words_and_numbers_in_one_list_stay_what_they_are():
    beside = {"Xs": np.random.default_rng(0).normal(size=(40, 1)), "ys": ["1", "2"] * 20}
    for labels, found in ((["2"] * 9 + [1], 9), ([2] * 9 + ["2"], 1), ([b"2"] * 9 + [1], 0)):
        assert histogram_of(MAKE(), np.zeros((10, 1)), labels, **beside) == [0, found]


@pytest.mark.parametrize(
    "ys", [[1, "a"] * 20, np.array([1, "a"] * 20, dtype=object), [1, b"a"] * 20, ["b", b"a"] * 20]
)
def test_a_source_of_words_and_numbers_is_refused_before_it_is_paid_for(ys):
    """Together numpy makes words of both, and then 1 in the target would be none of them."""
    budget, rows = PrivacyBudget(1.0), np.zeros((40, 1))
    with pytest.raises(
        ValueError, match="ys: some entries are .* LabelShiftClassifier needs numbers or"
    ):
        budget.fit(MAKE(), rows, [1, "a"] * 20, Xs=rows, ys=ys)
    assert budget.ledger == ()


# Slips in one line that no other test noticed: exact numbers, enumeration, brute force on tiny cases.


def test_the_bound_under_label_shift_takes_every_scale_from_0_to_1e100():
    assert adaptation.shift_excess_bound(100, 2, 0.0) == pytest.approx(0.1, rel=1e-12)
    assert adaptation.shift_excess_bound(400, 2, 0.5) == pytest.approx(0.05 + 0.01, rel=1e-12)
    for scale in (30.0, 1e100):
        assert adaptation.shift_excess_bound(100, 2, scale) == 1.0  # no share of errors exceeds it
    for scale in (-1e-9, 1.5e100):
        with pytest.raises(ValueError, match="scale"):
            adaptation.shift_excess_bound(100, 2, scale)


def test_counts_of_less_than_one_row_are_taken_as_one():
    C, heard, s, scale = np.array([[0.7, 0.2], [0.3, 0.8]]), np.array([0.3, 0.2]), np.array([0.6, 0.4]), 0.4  # fmt: skip
    ridge = (2 * scale**2 + 1 / 2) / (1 / 2) ** 2
    best = np.linalg.solve(C.T @ C + ridge * np.eye(2), C.T @ heard + ridge * s)
    assert best.min() > 0
    assert adaptation.black_box_counts(C, heard, s, scale) == pytest.approx(best, rel=1e-9)


def test_a_rare_class_makes_fewer_parts_of_the_confusion():
    sizes = []

    class Counted(DummyClassifier):
        def fit(self, X, y):
            sizes.append(len(X))
            return super().fit(X, y)

    X, y = np.zeros((12, 1)), np.repeat([0, 1], [9, 3])
    C = label_shift._confusion(Counted(), X, y, np.arange(2))
    assert sizes == [8, 8, 8] and np.array_equal(C, [[1, 1], *np.zeros((5, 2))])
    edges = label_shift._level_edges(DummyClassifier().fit(X, y), X, np.arange(2))
    assert np.allclose(edges, [[0.75, 0.75], [1, 1]], atol=1e-8)  # the second is never named
    sizes.clear()
    label_shift._confusion(Counted(), np.zeros((30, 1)), np.repeat([0, 1], 15), np.arange(2))
    assert sizes == [24] * 5


def test_shares_are_pulled_towards_those_of_the_source_whatever_they_add_up_to():
    counts, source = np.array([30.0, 10.0, 20.0]), np.array([1.0, 1.0, 2.0])
    found = adaptation.shrunk_proportions(counts, source, 5.0)
    assert found == pytest.approx((counts + 3 * 5.0 * source / 4) / 75, rel=1e-12)
    assert found == pytest.approx(adaptation.shrunk_proportions(counts, source / 4, 5.0), rel=1e-12)


def test_rows_of_few_values_under_label_shift_raise_no_alarm():
    """A model fitted on all rows is surer than those fitted on parts: edges of its own keep equal rows at one level."""
    Xs, ys = np.array([[0.0], [1.0]] * 10), [0, 1] * 10
    rows = np.r_[np.zeros((30, 1)), np.ones((12, 1))]
    for seed in range(20):
        model = LabelShiftClassifier(epsilon=1.0, random_state=seed).fit(rows, Xs=Xs, ys=ys)
        assert model.p_value_ > 1e-4


# ---------------------------------------------------------------- labels that cannot be classes


def no_classes():
    """Public labels that are no classes, for 120 rows, and words of the refusal."""
    days = np.array(["2020-01-01", "2021-01-01"] * 60, dtype="M8[ns]")
    yield "one number", np.zeros(120), "all its entries are equal, .* two classes at least"
    yield "one word", ["a"] * 120, "all its entries are equal"
    yield "days", days, "its entries are dates"
    yield "days in a list", [*days.astype("M8[D]").tolist()], "its entries are dates"
    yield "spans", days - days[0], "its entries are dates"
    yield "two sorts", ["a", 1] * 60, "words, such as entry 0, and some numbers, such as entry 1"
    yield "bytes and words", [b"a", "b"] * 60, "some entries are bytes"
    yield "complex", np.arange(120) + 1j, "of type complex"
    yield "pairs", [(1, 2), (2, 3)] * 60, "of type tuple"
    yield "an object", [print, len] * 60, "of type builtin"
    yield "NaN", [0.0, np.nan] * 60, "row 1 .* is NaN"
    yield "None", ["a", None] * 60, "row 1 .* is NaN"
    yield "infinity", [0.0, -np.inf] * 60, "row 1 .* is infinite"
    yield "masked", np.ma.masked_equal([0, 1] * 60, 1), "row 1 .* is masked"
    pandas = pytest.importorskip("pandas")
    yield "NA", pandas.Series([1, pandas.NA] * 60, dtype="Int64"), "row 1 .* is NaN"
    yield "words and NaN", pandas.Series(["a", None] * 60), "row 1 .* is NaN"
    yield "periods", pandas.Series(pandas.period_range("2020", periods=120)), "of type Period"


@pytest.mark.parametrize("name", ["LabelShiftClassifier", "CovariateShiftClassifier"])
def test_public_labels_that_are_no_classes_are_told_apart_and_cost_nothing(name):
    import dplit

    cost = {"epsilon": 1.0} | ({"delta": 1e-6} if name.startswith("C") else {})
    for what, labels, words in no_classes():
        budget = dplit.PrivacyBudget(9.0, 1e-4)
        with pytest.raises((TypeError, ValueError), match=f"^ys: .*{words}") as told:
            budget.fit(getattr(dplit, name)(**cost), np.zeros_like(Xs), Xs=Xs, ys=labels)
        assert name in str(told.value) and "\n" not in str(told.value), what
        assert not budget.ledger


CLASSES = {
    "NaN": ([0, float("nan")], r"entry 1 \(counted from 0\) is NaN or None, and a missing label"),
    "None": (["a", None], "entry 1 .* is NaN or None"),
    "one": ([3], "all its entries are equal"),
    "one, twice": (["x", "x"], "all its entries are equal"),
    "twice": ([0, 1, 0], "exactly once, and entries 0 and 2 .* are equal"),
    "equal numbers": ([1, 2.0, True], "exactly once, and entries 0 and 2 .* are equal"),
    "none": ([], "it is empty"),
    "dates": (np.array(["2020", "2021"], dtype="M8[Y]"), "its entries are dates"),
    "two sorts": (["a", 1], "all of one sort"),
    "lists": ([[0, 1], [2]], "of type list"),
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes_that_cannot_be_declared_are_told_apart(name):
    from dplit import NCnvxAdap

    classes, words = CLASSES[name]
    model = NCnvxAdap(epsilon=1.0, delta=1e-6, radius=1.0, weight_radius=1.0, classes=classes)
    with pytest.raises(ValueError, match=f"^classes: .*{words}"):
        model.check_tables(np.zeros((2, 2)), [0, 1])


def test_classes_may_come_from_a_frame():
    pandas = pytest.importorskip("pandas")
    from dplit import NCnvxAdap

    known = {"epsilon": 1.0, "delta": 1e-6, "radius": 1.0, "weight_radius": 1.0}
    for classes in (pandas.Series(["a", "b"]), np.array(["a", "b"], dtype=object)):
        NCnvxAdap(**known, classes=classes).check_tables(np.zeros((2, 2)), ["a", "b"])


@pytest.mark.parametrize("rows", [["secret"] * 9, ["secret", "other"] * 9, ["secret", 1] * 9, ["secret", None], [b"secret"]])  # fmt: skip
def test_private_labels_in_place_of_classes_are_not_quoted(rows):
    from dplit import NCnvxAdap

    model = NCnvxAdap(epsilon=1.0, delta=1e-6, radius=1.0, weight_radius=1.0, classes=rows)
    with pytest.raises(ValueError, match="^classes: ") as told:
        model.check_tables(np.zeros((2, 2)), [0, 1])
    assert "secret" not in str(told.value)


WEIGHTED = {
    "balanced": (LogisticRegression(class_weight="balanced"), "class_weight"),
    "weights": (LogisticRegression(class_weight={0: 1, 1: 3}), "class_weight"),
    "in a pipeline": (
        make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced")),
        "logisticregression__class_weight",
    ),
    "priors": (GaussianNB(priors=[0.5, 0.5]), "priors"),
    "no prior": (BernoulliNB(fit_prior=False), "fit_prior"),
    "plain": (LogisticRegression(), ""),
    "a prior": (BernoulliNB(binarize=1.0), ""),
    "calibrated": (CalibratedClassifierCV(LogisticRegression(class_weight="balanced")), ""),
}


@pytest.mark.parametrize("kind", WEIGHTED)
def test_a_model_with_weights_of_classes_is_doubted_before_the_charge(kind):
    """Its posterior is not that of the source, and was corrected twice."""
    model, named = WEIGHTED[kind]
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.2) * 1
    X, budget = rng.normal(size=(300, 2)) + 2 * y[:, None], PrivacyBudget(4.0, 1e-5)
    fit = partial(budget.fit, LabelShiftClassifier(model, epsilon=1.0), X, Xs=X.copy(), ys=y)
    if named:
        with pytest.raises(
            ValueError, match=f"in doubt before the charge: estimator: its parameter {named} "
        ):
            fit()
        assert not budget.ledger
        fit(accept_doubts=True)
    else:
        with warnings.catch_warnings(action="error", category=DoubtWarning):
            fit()
    assert len(budget.ledger) == 1


class FailsForSome(LogisticRegression):
    """For a row alone, far to the right."""

    def predict(self, X):
        if len(X) == 1 and X[0, 1] > 0.5:
            raise RuntimeError("row alone")
        return super().predict(X)


def test_a_model_that_fails_on_some_public_rows_alone_is_doubted_or_used_and_no_error():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 2))
    X[:10, 1] = -1.0
    y = np.arange(200) % 2
    X[:, 0] += 2 * y
    model = LabelShiftClassifier(FailsForSome(), epsilon=1.0)
    with pytest.warns(DoubtWarning, match="for a row alone it often predicts another class"):
        model.fit(X.copy(), Xs=X, ys=y)
    few = X.copy()
    few[:, 1] = np.where(np.arange(200) == 150, 0.9, -0.5)
    with warnings.catch_warnings(action="error", category=DoubtWarning):
        model.fit(few.copy(), Xs=few, ys=y)


def test_a_table_that_shows_no_shape_is_read_where_records_are_replaced():
    class Shapeless:
        def __init__(self, rows):
            self.rows = rows

        def __array__(self, dtype=None, copy=None):
            return self.rows

        def __len__(self):
            return len(self.rows)

    X = np.random.default_rng(0).normal(size=(80, 2)) + 2 * (np.arange(80) % 2)[:, None]
    model = LabelShiftClassifier(epsilon=1.0, neighboring="replace", random_state=0)
    model.fit(Shapeless(X), Xs=X.copy(), ys=np.arange(80) % 2)
