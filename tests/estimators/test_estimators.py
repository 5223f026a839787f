"""What every private estimator promises. A new estimator joins by one line in ESTIMATORS and gets every test here."""

import ast
import contextlib
import copy
import doctest
import importlib
import inspect
import io
import logging
import math
import pickle
import re
import textwrap
import warnings
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

import dplit
from dplit import (
    BudgetExceeded,
    CnvxAdap,
    GridKMeans,
    HDPEMeans,
    KTupleGaussianMixture,
    KTupleKMeans,
    MaxCoverKMeans,
    NoisyAverageSet,
    NoisyLloyd,
    PEMeans,
    PrivacyBudget,
    estimators,
)
from dplit.geometry import clip_to_ball
from dplit.inputs import AbstainedWarning, PrivacyWarning, UnreadableRecords
from dplit.max_cover import kmeans as max_cover_kmeans
from dplit.mechanisms import Noise
from dplit.private_evolution import paper as private_evolution_paper

K, RADIUS = 3, 4.0
COMMON = {"n_clusters": K, "radius": RADIUS, "epsilon": 1.0, "delta": 1e-6, "random_state": 0}
ESTIMATORS = {
    "NoisyLloyd": partial(NoisyLloyd, **COMMON, n_iter=2),
    "NoisyLloyd from the mean": partial(NoisyLloyd, **COMMON, n_iter=2, init="mean"),
    "NoisyLloyd from cells": partial(NoisyLloyd, **COMMON, n_iter=2, init="cells"),
    "NoisyLloyd, pure": partial(NoisyLloyd, **COMMON | {"delta": 0.0}, n_iter=2),
    "GridKMeans": partial(GridKMeans, **COMMON | {"delta": 0.0}),
    "GridKMeans of 3 bins": partial(GridKMeans, **COMMON, n_bins=3),
    "MaxCoverKMeans": partial(MaxCoverKMeans, **COMMON, finest=0.2, n_lloyd=1),
    "MaxCoverKMeans as published": partial(
        MaxCoverKMeans, **COMMON, variant="paper", n_public=60, n_lloyd=1
    ),
    "KTupleKMeans": partial(KTupleKMeans, **COMMON),
    "KTupleGaussianMixture": partial(KTupleGaussianMixture, **COMMON),
    "PEMeans": partial(PEMeans, **COMMON, n_refine=2),
    "PEMeans as published": partial(PEMeans, **COMMON, variant="paper", n_public=60, n_votes=3),
    "HDPEMeans": partial(HDPEMeans, **COMMON, n_components=1, n_refine=2),
    "HDPEMeans as published": partial(
        HDPEMeans, **COMMON, variant="paper", n_public=60, n_components=1
    ),
}
# those whose public centers have as many rows and columns as the tests that go through them
PILOT = [[1.0, 2.0], [-3.0, 0.5], [9.0, 9.0]]  # the last lies outside of the ball
STARTED = {
    "NoisyLloyd from public centers": partial(NoisyLloyd, **COMMON, n_iter=3, init=PILOT),
    "MaxCoverKMeans from public centers": partial(MaxCoverKMeans, **COMMON, finest=0.2, init=PILOT),
    "PEMeans from public centers": partial(PEMeans, **COMMON, n_refine=1, n_votes=3, init=PILOT),
    "HDPEMeans from public centers": partial(
        HDPEMeans, **COMMON, n_components=1, n_refine=1, init=PILOT
    ),
}
# what a fit releases beside centres and receipt
GRID = {"grid_points_", "n_bins_", "grid_radius_", "grid_counts_", "grid_counts_se_", "grid_rows_"}
RELEASED = {
    "GridKMeans": GRID,
    "KTupleKMeans": {"status_"},
    "KTupleGaussianMixture": {"status_", "means_", "weights_", "covariances_"},
}
# half the rows lie outside the ball; all are exact in float32
X = np.random.default_rng(8).normal(scale=3.0, size=(61, 2)).astype(np.float32).astype(float)

NAN, INF = float("nan"), float("inf")
NO_NUMBER = [(v, TypeError) for v in ("1", True, np.True_, 1j, [1.0])]
NOT_POSITIVE = [(v, ValueError) for v in (None, 0.0, -1.0, NAN, INF, -INF)]
NO_COUNT = [(v, TypeError) for v in (None, "3", True, 3.0, 3j, NAN, INF, [3])]
NO_COUNT += [(v, ValueError) for v in (0, -2)]
NO_POINT = ["origin", True, 1.0, 1j, NAN, [], {}, [[0.0, 0.0]], [[0.0], 0.0]]
NO_POINT += [[NAN, 0.0], [INF, 0.0], [1j, 0.0], ["a", "b"]]
NO_POINTS = [None, "random", True, 1j, NAN, [["a", "b"]] * K, [[0.0], [0.0, 1.0]]]
NO_POINTS += [np.zeros(K), np.zeros((K + 1, 2)), np.zeros((K, 2, 1))]
NO_POINTS += [np.full((K, 2), NAN), np.full((K, 2), 1j)]
IMPOSSIBLE = {
    "epsilon": NO_NUMBER + NOT_POSITIVE,
    "delta": NO_NUMBER + NOT_POSITIVE + [(1.0, ValueError), (2, ValueError)],
    "radius": NO_NUMBER + NOT_POSITIVE,
    "n_clusters": NO_COUNT,
    "n_iter": NO_COUNT,
    "center": [(v, ValueError) for v in NO_POINT],
    "init": [(v, ValueError) for v in NO_POINTS],
    "neighboring": [(v, ValueError) for v in (None, True, 1, "both")],
    "n_tuples": [case for case in NO_COUNT if case[0] is not None] + [(1, ValueError)],
    "separation": NO_NUMBER + NOT_POSITIVE[1:] + [(None, TypeError), (8.9, ValueError)],
    "outliers": [("0", TypeError), (0.31, ValueError), (-0.1, ValueError), (NAN, ValueError)],
    "share": NO_NUMBER + NOT_POSITIVE[1:] + [(None, TypeError), (1.0, ValueError)],
    "random_state": [("zero", TypeError), (1.5, TypeError), (-1, ValueError)],
}
BAD_X = {
    "nan": (lambda X: np.where(X == X[5, 1], NAN, X), ValueError),
    "inf": (lambda X: np.where(X == X[5, 1], INF, X), ValueError),
    "minus inf": (lambda X: np.where(X == X[5, 1], -INF, X), ValueError),
    "no rows": (lambda X: X[:0], ValueError),
    "no columns": (lambda X: X[:, :0], ValueError),
    "no table": (lambda X: X[5, 1], ValueError),
    "nothing": (lambda X: None, ValueError),
    "1-d": (lambda X: X[:, 0], ValueError),
    "3-d": (lambda X: X[:, :, None], ValueError),
    "ragged": (lambda X: [*X[1:].tolist(), [X[5, 1]]], ValueError),
    "complex": (lambda X: X + 1j, ValueError),
    "strings": (lambda X: X.astype(str), ValueError),
    "words": (lambda X: np.where(X == X[5, 1], f"<{X[5, 1]}>", X.astype(object)), ValueError),
    "dicts": (lambda X: np.where(X == X[5, 1], {"a": X[5, 1]}, X.astype(object)), TypeError),
    "sparse": (lambda X: sparse.csr_array(X), TypeError),
}
PURE = {"GridKMeans", "NoisyLloyd"}  # with delta=0 they are pure epsilon-DP
FEW = {"GridKMeans": 11}  # at most so many columns
every = pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)


class Untouchable:
    """Stands for rows that must not be read: any look at them fails."""

    def _touched(self, *args):
        raise AssertionError("X was read")

    __getattribute__ = __len__ = __iter__ = __getitem__ = __array__ = __bool__ = __eq__ = _touched
    __hash__ = None


def attributes(model):
    """What a fit has left on a model, hidden or not, properties included."""
    fitted = {n for n in dir(model) if n.endswith("_") and n[0] != "_" and hasattr(model, n)}
    return fitted | set(vars(model)) - set(model.get_params())


def sentences(error):
    """Every message of an exception and of those it drags along."""
    return [str(error)] + [
        s for e in (error.__cause__, error.__context__) if e is not None for s in sentences(e)
    ]


def listen(model, X):
    """All text a fit lets out: warnings, logs, prints, errors. Not that it abstained: `status_` is released."""
    log, out = io.StringIO(), io.StringIO()
    handler, root = logging.StreamHandler(log), logging.getLogger()
    level = root.level
    root.addHandler(handler), root.setLevel(logging.DEBUG)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
        ):
            warnings.simplefilter("always")
            try:
                model.fit(X)
            except Exception as error:
                out.write("\n".join([type(error).__name__, *sentences(error)]))
    finally:
        root.removeHandler(handler), root.setLevel(level)
    told = AbstainedWarning if getattr(model, "status_", "") == "abstained" else ()
    said = [str(w.message) for w in caught if not (told and issubclass(w.category, told))]
    return "\n".join([log.getvalue(), out.getvalue(), *said])


def quotes(text, X, n_rows=True):
    """The numbers of X, or the number of its rows, that stand in a text."""
    found = [v for v in X.ravel() if str(v)[:8] in text]
    return found + re.findall(rf"\b{len(X)}\b", text) if n_rows else found


def points_of(make):
    """Which parameters that are PUBLIC points an estimator takes; as published, none takes `init`."""
    params = make().get_params()
    return {"center", "init"} & set(params) - (
        {"init"} if params.get("variant") == "paper" else set()
    )


def centers(model, X):
    return model.fit(X).cluster_centers_


def close(a, b):
    return np.allclose(a, b, rtol=0, atol=1e-4 * RADIUS)


# ---------------------------------------------------------------- scikit-learn

WITHHELD = {"check_clustering": "labels_ of training data are not a DP output"}


@parametrize_with_checks(
    [make() for make in ESTIMATORS.values()], expected_failed_checks=lambda _: WITHHELD
)
def test_scikit_learn_finds_nothing_else_to_object_to(estimator, check):
    check(estimator)


# ---------------------------------------------------------------- the price


@every
@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (5, 1e-4)])
def test_a_fit_spends_what_it_was_given_and_no_more(make, epsilon, delta, neighboring):
    spent = make(epsilon=epsilon, delta=delta, neighboring=neighboring).fit(X).spent_
    assert least(make) * epsilon <= spent.epsilon <= epsilon * (1 + 1e-9) and spent.delta <= delta
    assert spent.neighboring == neighboring and spent.releases


def least(make):
    """Share of the budget that is surely spent: printed constants add up what the receipt composes exactly."""
    return 0.5 if getattr(make(), "variant", None) == "paper" else 0.99


@every
@pytest.mark.parametrize(("parameter", "value"), [("epsilon", 12.0), ("delta", 0.01)])
def test_a_legal_cost_that_protects_little_is_computed_with_a_warning(make, parameter, value):
    with pytest.warns(PrivacyWarning, match=parameter):
        model = make(**{parameter: value}).fit(X)
    assert np.isfinite(model.cluster_centers_).all()
    assert model.spent_.epsilon <= model.epsilon * (1 + 1e-9)


@every
def test_only_operating_system_noise_is_called_private(make):
    secret, other = make(random_state=None).fit(X), make(random_state=None).fit(X)
    assert secret.spent_.private
    assert not np.array_equal(secret.cluster_centers_, other.cluster_centers_)
    for seed in (0, np.random.default_rng(0), np.random.RandomState(0), np.random.SeedSequence(0)):
        receipt = make(random_state=seed).fit(X).spent_
        assert not receipt.private
        assert "NOT private" in str(receipt) and "NOT private" in receipt._repr_markdown_()


@every
def test_the_same_seed_repeats_and_a_generator_moves_on(make):
    for seed in (lambda: 0, lambda: np.random.default_rng(0)):
        one, two = make(random_state=seed()).fit(X), make(random_state=seed()).fit(X)
        assert np.array_equal(one.cluster_centers_, two.cluster_centers_)
        assert repr(one.spent_) == repr(two.spent_)
    assert not np.array_equal(one.fit(X).cluster_centers_, two.cluster_centers_)


@every
def test_a_budget_charges_every_fit_first_and_refuses_unread(make):
    budget, model = PrivacyBudget(2.5, 1e-5, composition="added"), make()
    assert budget.fit(model, X) is model and least(make) < budget.spent.epsilon <= 1
    assert budget.spent.delta == model.spent_.delta
    first = budget.spent
    with pytest.raises(ValueError):
        budget.fit(model, X * NAN)  # a fit that fails stays charged
    assert budget.spent == pytest.approx((first.epsilon + 1, first.delta + model.delta))
    with pytest.raises(BudgetExceeded):
        budget.fit(make(), Untouchable())
    assert [row.estimator for row in budget.ledger] == [type(model).__name__] * 2
    assert [row.state for row in budget.ledger] == ["settled", "failed"]


@every
def test_a_budget_refuses_what_fits_many_times_or_is_not_private(make):
    budget = PrivacyBudget(10.0, 1e-3)
    search = GridSearchCV(make(), {"n_clusters": [2, 3]})
    scaled = make_pipeline(StandardScaler(), make())  # a mean of all rows is not paid for
    for other in (search, scaled, SVR()):  # the epsilon of SVR is no price
        with pytest.raises(TypeError, match="cannot be charged|StandardScaler.* is refused"):
            budget.fit(other, Untouchable())
    assert budget.ledger == ()


@every
def test_cross_validation_leaves_one_receipt_for_each_fit(make):
    fits = cross_validate(make(), X, cv=3, return_estimator=True)
    assert np.all(fits["test_score"] < 0)
    assert len({id(model.spent_) for model in fits["estimator"]}) == 3
    assert all(least(make) < model.spent_.epsilon <= 1 for model in fits["estimator"])
    search = GridSearchCV(make(), {"n_clusters": [1, 2]}, cv=2).fit(X)
    assert least(make) < search.best_estimator_.spent_.epsilon <= 1


# ---------------------------------------------------------------- public parameters


@pytest.mark.parametrize(
    ("make", "parameter", "value", "error"),
    [
        pytest.param(make, parameter, value, error, id=f"{name}-{parameter}-{i}")
        for name, make in ESTIMATORS.items()
        for parameter, cases in IMPOSSIBLE.items()
        if parameter in make().get_params()
        for i, (value, error) in enumerate(cases)
        if value is not None or parameter != "init" or name.startswith("NoisyLloyd")
        if not (parameter == "delta" and value == 0.0 and type(make()).__name__ in PURE)
    ],
)
def test_an_impossible_public_parameter_is_refused_in_one_sentence_before_x_is_read(
    make, parameter, value, error
):
    model = make(**{parameter: value})
    with pytest.raises(error) as caught:
        model.fit(Untouchable())
    message = str(caught.value)
    assert parameter in message and 30 < len(message) < 400 and "\n" not in message
    assert not attributes(model)


@every
@pytest.mark.parametrize(
    ("parameter", "value"), [("center", [0.0] * 3), ("init", np.zeros((K, 3)))]
)
def test_points_that_do_not_match_the_columns_are_refused(make, parameter, value):
    if parameter not in points_of(make):
        pytest.skip(f"takes no {parameter}")
    model = make(**{parameter: value})
    with pytest.raises(ValueError, match=f"{parameter}.*2"):
        model.fit(X)
    assert not attributes(model)


@every
def test_fitting_leaves_parameters_rows_and_global_randomness_alone(make, tmp_path):
    stored = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", shape=X.shape)
    stored[:] = X
    stored.flush()
    arrays = {"center": np.ones(2), "init": np.eye(K, 2)}
    model = make(**{name: arrays[name] for name in points_of(make)})
    before, state = model.get_params(), repr(np.random.get_state())  # noqa: NPY002
    kept = copy.deepcopy(before)
    model.fit(np.load(tmp_path / "X.npy", mmap_mode="r"))
    model.predict(X)
    after = model.get_params()
    assert all(after[name] is before[name] and np.all(after[name] == kept[name]) for name in kept)
    assert np.array_equal(np.load(tmp_path / "X.npy"), X) and repr(np.random.get_state()) == state  # noqa: NPY002
    assert not attributes(clone(model)) and repr(clone(model).get_params()) == repr(before)
    assert clone(model).set_params(epsilon=2.0).epsilon == 2.0 and model.epsilon == 1.0


# ---------------------------------------------------------------- nothing private is kept


@every
def test_a_fit_leaves_released_numbers_the_receipt_and_nothing_else(make):
    always = {"cluster_centers_", "spent_", "n_features_in_", "cluster_sizes_", "cluster_sizes_se_"}
    model = make().fit(X)
    always |= {"n_rows_", "n_rows_se_"}
    if model.cluster_sizes_ is not None:  # whoever counts rows says how exact its means are
        always.add("cluster_centers_se_")
    assert not vars(make()).keys() - make().get_params().keys()
    assert attributes(model) == always | RELEASED.get(type(model).__name__, set())


@every
def test_column_names_are_kept_as_public_schema(make):
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["east", "north"])
    model = make().fit(frame)
    assert attributes(model) == attributes(make().fit(X)) | {"feature_names_in_"}
    assert np.array_equal(model.cluster_centers_, make().fit(X).cluster_centers_)


@every
def test_no_training_row_is_found_in_pickle_display_or_text(make):
    model = make()
    text = listen(model, X)
    stored = pickle.dumps(model)
    assert not quotes(text, X)
    shown = [repr(model), model._repr_html_(), repr(model.spent_), model.spent_._repr_markdown_()]
    assert not quotes("".join(shown), X, n_rows=False)
    for kind in ("<f8", ">f8", "<f4"):
        assert not [row for row in X.astype(kind) if row.tobytes() in stored]
    assert not [v for v in X.ravel() if v.tobytes() in stored]
    # how often a fit looked where the rows are is released, and whether these are too few for
    # more than one step: a line of the receipt is longer
    plain = {"zoom": False} if "zoom" in model.get_params() else {}
    plain |= {"n_public": len(X)} if {"n_refine", "n_bins"} & {*model.get_params()} else {}
    fits = (make().set_params(**plain).fit(T) for T in (X, X[:7], np.tile(X, (20, 1))))
    assert len({len(pickle.dumps(fit)) for fit in fits}) == 1
    again = pickle.loads(stored)
    assert np.array_equal(again.predict(X), model.predict(X))
    assert repr(again.spent_) == repr(model.spent_)


NEIGHBORS = {
    "one row less": (X, X[:-1]),
    "one row exchanged": (X, np.r_[X[:-1], [[50.0, -50.0]]]),
    "one row far outside": (X / 100, np.r_[X / 100, [[1e300, 1e300]]]),
    "one row or two": (X[:1], X[:2]),
    "as many rows as clusters": (X[:K], X[: K - 1]),
    "equal rows, one apart": (np.ones((9, 2)), np.r_[np.ones((9, 2)), [[-1.0, 2.0]]]),
}


@every
@pytest.mark.parametrize("pair", NEIGHBORS.values(), ids=NEIGHBORS)
def test_neighbors_get_the_same_text_receipt_and_shapes(make, pair):
    seen = []
    for rows in pair:
        model = make()
        if "n_bins" in model.get_params():  # the number of cells follows a released count
            model.set_params(n_public=50)
        text = listen(model, rows)
        shapes = {name: np.shape(getattr(model, name)) for name in attributes(model)}
        seen.append(
            (text, repr(model.spent_), model.spent_.releases, shapes, len(pickle.dumps(model)))
        )
    assert seen[0] == seen[1] and seen[0][0].strip() == ""


@every
def test_refitting_replaces_everything_and_a_failed_refit_changes_nothing(make):
    wide, model = np.c_[X, X[:, :1]], make().fit(X)
    assert model.fit(wide).n_features_in_ == 3
    assert np.array_equal(model.cluster_centers_, make().fit(wide).cluster_centers_)
    before = vars(model).copy()
    for bad in (X * NAN, X[:0], X[0]):
        with pytest.raises(ValueError):
            model.fit(bad)
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[name] is before[name] for name in before)


# ---------------------------------------------------------------- bad rows


@every
@pytest.mark.parametrize("kind", BAD_X)
def test_unfit_rows_are_refused_before_any_release_and_not_quoted(make, kind):
    spoil, error = BAD_X[kind]
    model, released = make(), mock.Mock(side_effect=AssertionError("released"))
    with (
        mock.patch.multiple(Noise, _add=released, exponential=released),
        pytest.raises(error) as caught,
    ):
        model.fit(spoil(X))
    assert not [s for s in sentences(caught.value) if quotes(s, X)]
    assert "X" in str(caught.value) and "\n" not in str(caught.value)
    assert not attributes(model)


@every
def test_unfit_rows_are_not_quoted_by_predict_either(make):
    model = make().fit(X)
    for spoil, error in BAD_X.values():
        for method in (model.predict, model.score):
            with pytest.raises(error) as caught:
                method(spoil(X))
            assert not [s for s in sentences(caught.value) if quotes(s, X)]


@every
def test_predict_wants_a_fitted_model_and_the_same_columns(make):
    for method in ("predict", "score"):
        with pytest.raises(NotFittedError):
            getattr(make(), method)(X)
        with pytest.raises(ValueError, match=r"X has 3 features, but \w+ is expecting 2 features"):
            getattr(make().fit(X), method)(np.c_[X, X[:, 0]])


@every
def test_weights_are_refused_and_y_is_ignored(make):
    with pytest.raises(TypeError, match="sample_weight"):
        make().fit(X, sample_weight=np.ones(len(X)))
    assert np.array_equal(
        make().fit(X, y=Untouchable()).cluster_centers_, make().fit(X).cluster_centers_
    )


# ---------------------------------------------------------------- the released centres

FORMS = {
    "Fortran order": np.asfortranarray,
    "big-endian": lambda X: X.astype(">f8"),
    "list": lambda X: X.tolist(),
    "objects": lambda X: X.astype(object),
    "strided view": lambda X: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "backwards view": lambda X: X[::-1].copy()[::-1],
    "other row order": lambda X: X[np.random.default_rng(1).permutation(len(X))],
    "reversed rows": lambda X: X[::-1],
}


@every
@pytest.mark.parametrize("form", FORMS)
def test_the_form_and_order_of_the_rows_do_not_change_a_bit(make, form):
    assert np.array_equal(centers(make(), FORMS[form](X)), centers(make(), X))


@every
def test_whole_and_truth_values_are_the_numbers_they_stand_for(make):
    for rows in (X.astype(np.int8), X > 0, np.full((9, 2), 2**60), (X + 128).astype(np.uint8)):
        assert np.array_equal(centers(make(), rows), centers(make(), rows.astype(float)))


@every
def test_a_change_of_unit_is_only_that(make):
    assert close(centers(make(radius=100 * RADIUS), 100 * X) / 100, centers(make(), X))


@every
def test_a_translation_is_only_that(make):
    shift = np.array([1000.0, -250.0])
    assert close(centers(make(center=shift), X + shift) - shift, centers(make(), X))
    assert np.array_equal(centers(make(center=[0, 0]), X), centers(make(), X))


@every
def test_rows_outside_the_ball_are_clipped_in_silence(make):
    model = make()
    assert listen(model, X).strip() == "" and np.linalg.norm(X, axis=1).max() > RADIUS
    assert close(model.cluster_centers_, centers(make(), clip_to_ball(X, RADIUS)))


ODD = {
    "one row": X[:1],
    "fewer rows than clusters": X[: K - 1],
    "equal rows": np.ones((20, 2)),
    "rows at the centre": np.zeros((20, 2)),
    "one column": X[:, :1],
    "many columns": np.tile(X, (1, 20)),
    "huge": X * 1e300,
    "tiny": X * 1e-310,
}


@every
@pytest.mark.parametrize("rows", ODD.values(), ids=ODD)
@pytest.mark.parametrize("far_init", [False, True])
def test_odd_data_give_finite_centers_inside_the_ball(make, rows, far_init):
    params = {"init": np.full((K, rows.shape[1]), 1e3)} if far_init else {}
    if far_init and "init" not in points_of(make):
        pytest.skip("takes no init")
    if rows.shape[1] > FEW.get(type(make()).__name__, INF):
        with pytest.raises(ValueError, match="at most 262144 cells"):
            make(**params).fit(rows)
        return
    with np.errstate(all="raise", under="ignore"):
        released = centers(make(**params), rows)
    assert released.shape == (K, rows.shape[1]) and released.dtype == float
    assert np.linalg.norm(released, axis=1).max() <= RADIUS * (1 + 1e-9)


@every
def test_labels_and_score_are_functions_of_the_rows_passed(make):
    model = make().fit(X)
    D = ((X[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
    assert np.array_equal(model.predict(X), D.argmin(axis=1))
    assert np.array_equal(make().fit_predict(X), model.predict(X))
    assert model.score(X) == pytest.approx(-D.min(axis=1).sum())


# ---------------------------------------------------------------- can these tests fail?


class KeepsLabels(NoisyLloyd):
    def fit(self, X, y=None):
        self.labels_ = super().fit(X).predict(X)
        return self


class HidesRows(NoisyLloyd):
    def fit(self, X, y=None):
        self._inertia = lambda: -self.score(X)
        return super().fit(X)


class ReturnsRows(NoisyLloyd):
    def _release_centers(self, X, noise, center):
        super()._release_centers(X, noise, center)
        return X[:K].copy()


class ReadsMissingRadius(NoisyLloyd):
    def fit(self, X, y=None):
        given, self.radius = self.radius, self.radius or float(np.linalg.norm(X, axis=1).max())
        super().fit(X)
        self.radius = given
        return self


class CountsOutliers(NoisyLloyd):
    def fit(self, X, y=None):
        if outside := int(np.sum(np.linalg.norm(X, axis=1) > self.radius)):
            warnings.warn(f"{outside} rows were shortened", stacklevel=2)
        return super().fit(X)


class StopsEarly(NoisyLloyd):
    def _release_centers(self, X, noise, center):
        rounds = self.n_iter if np.ptp(X) > 0 and len(X) > K else 1
        return NoisyLloyd._release_centers(clone(self).set_params(n_iter=rounds), X, noise, center)


class QuotesRows(NoisyLloyd):
    def fit(self, X, y=None):
        if not np.isfinite(np.asarray(X)).all():
            raise ValueError(f"X is not finite: {X}")
        return super().fit(X)


class AlwaysSeeded(NoisyLloyd):
    def _release_centers(self, X, noise, center):
        return super()._release_centers(X, Noise(0), center)


class SpendsTwice(NoisyLloyd):
    def _release_centers(self, X, noise, center):
        super()._release_centers(X, noise, center)
        return super()._release_centers(X, noise, center)


refuses = test_an_impossible_public_parameter_is_refused_in_one_sentence_before_x_is_read
same_for_neighbours = test_neighbors_get_the_same_text_receipt_and_shapes
spends = test_a_fit_spends_what_it_was_given_and_no_more
SABOTEURS = {
    KeepsLabels: test_a_fit_leaves_released_numbers_the_receipt_and_nothing_else,
    HidesRows: test_a_fit_leaves_released_numbers_the_receipt_and_nothing_else,
    ReturnsRows: test_no_training_row_is_found_in_pickle_display_or_text,
    ReadsMissingRadius: partial(refuses, parameter="radius", value=None, error=ValueError),
    CountsOutliers: partial(same_for_neighbours, pair=NEIGHBORS["one row exchanged"]),
    StopsEarly: partial(same_for_neighbours, pair=NEIGHBORS["equal rows, one apart"]),
    QuotesRows: partial(test_unfit_rows_are_refused_before_any_release_and_not_quoted, kind="nan"),
    AlwaysSeeded: test_only_operating_system_noise_is_called_private,
    SpendsTwice: partial(spends, epsilon=1.0, delta=1e-6, neighboring="replace"),
}


@pytest.mark.parametrize(
    ("saboteur", "promise"), SABOTEURS.items(), ids=[s.__name__ for s in SABOTEURS]
)
def test_a_broken_promise_is_noticed(saboteur, promise):
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        promise(partial(saboteur, **COMMON, n_iter=2))
    promise(partial(NoisyLloyd, **COMMON, n_iter=2))


# ---------------------------------------------------------------- words

FACES = [importlib.import_module(f"dplit.{room}") for room in dplit.ROOMS]
PUBLIC = {  # what users import: each name as its room's face shows it
    f"{room.__name__}.{name}": thing
    for room in FACES
    for name, thing in [(name, getattr(room, name)) for name in room.__all__]
    if inspect.isfunction(thing) or inspect.isclass(thing)
}
PUBLIC |= {
    f"{owner}.{name}": method
    for owner, kind in PUBLIC.items()
    if inspect.isclass(kind)
    for name, method in vars(kind).items()
    if inspect.isfunction(method) and not name.startswith("_")
}


def parameters(thing):
    """Names that whoever calls a function or a class may pass."""
    if inspect.isclass(thing) and "__init__" not in vars(thing):
        if not documented(thing, "Parameters"):  # else it takes what its parent takes
            return set()
    star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    found = inspect.signature(thing).parameters.values()
    return {star.get(p.kind, "") + p.name for p in found} - {"self"}


def documented(thing, section):
    """Names that a section of a docstring speaks of; `a, b : float` are two."""
    text = inspect.cleandoc(thing.__doc__)
    body = re.search(rf"^{section}\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", text, re.M | re.S)
    candidate_centers = re.findall(r"^(\S.*?)(?: : .*)?$", body[1], re.M) if body else []
    return {name for head in candidate_centers for name in head.split(", ")}


def placeholders(thing):
    """What a docstring still has to say: lines that are a `{word}` which nobody filled in."""
    members = [*vars(thing).values()] if inspect.isclass(thing) else []
    docs = [getattr(getattr(m, "__func__", m), "__doc__", None) for m in [thing, *members]]
    return [
        word
        for doc in docs
        if isinstance(doc, str)
        for word in re.findall(r"^ *\{\w+\}$", doc, re.M)
    ]


def bodies(thing):
    """The functions that run when a function or a class is called, without generated ones."""
    found = [vars(thing).get(name) for name in ("__init__", "__post_init__")]
    found = [inspect.unwrap(f) for f in (found if inspect.isclass(thing) else [thing]) if f]
    return [f for f in found if inspect.isfunction(f) and f.__code__.co_filename != "<string>"]


def raises(thing, seen=()):
    """Whether it raises an error by itself, or through a helper of its module or a `check_...`."""
    for function in (f for f in bodies(thing) if f not in seen):
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        calls = [
            n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and hasattr(n.func, "id")
        ]
        helpers = [function.__globals__.get(name) for name in calls]
        ours = [
            h
            for h in helpers
            if getattr(h, "__module__", None) == function.__module__
            or getattr(h, "__name__", "").startswith("check_")
        ]
        if any(isinstance(n, ast.Raise) for n in ast.walk(tree)):
            return True
        if any(raises(h, (*seen, function)) for h in ours if callable(h)):
            return True
    return False


def returns(thing):
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(thing))))
    return any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(tree))


def omissions(thing):
    """What `help` does not say about a function or a class, in words."""
    if not thing.__doc__ or thing.__doc__.startswith(f"{thing.__name__}("):  # Python's own words
        return ["it has no docstring"]
    lines = inspect.cleandoc(thing.__doc__).split("\n")
    found = [] if lines[1:2] in ([], [""]) else ["its first line is not a sentence of its own"]
    wanted, said = parameters(thing), documented(thing, "Parameters")
    found += [f"Parameters differ by {sorted(wanted ^ said)}"] if wanted != said else []
    found += ["no Raises"] if raises(thing) and not documented(thing, "Raises") else []
    if inspect.isfunction(thing) and returns(thing):
        said = documented(thing, "Returns") | documented(thing, "Yields")
        found += [] if said else ["no Returns"]
    return found


@every
def test_help_says_what_is_public_what_is_raised_and_where_it_is_from(make):
    kind = type(make())
    for section in ("Parameters", "Attributes", "Raises", "References", "Examples"):
        assert re.search(rf"{section}\n\s*-+\n", kind.__doc__), section
    stated = kind.__doc__.split("Attributes")[1].split("Raises")[0]
    assert stated.count("PUBLIC") >= 3 and all(name in stated for name in attributes(make().fit(X)))
    assert all(re.search(rf"\b{name}\b", kind.__doc__) for name in make().get_params())
    assert kind.fit_predict.__doc__.startswith("NOT private")
    assert "NOT private" in kind.score.__doc__ and "NOT private" in kind.predict.__doc__
    assert "PRIVATE" in kind.fit.__doc__


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_explains_itself(name):
    assert omissions(PUBLIC[name]) == [] and placeholders(PUBLIC[name]) == []


def test_what_help_does_not_say_is_noticed():
    def silent(x, *rest, rng=None):
        """Add.

        Parameters
        ----------
        x, y : float
        """
        if rng is not None:
            raise ValueError(rest)
        return x

    missing = "Parameters differ by ['*rest', 'rng', 'y']"
    assert omissions(silent) == [missing, "no Raises", "no Returns"]
    assert omissions(lambda: 0) == ["it has no docstring"]


@pytest.mark.parametrize(
    "make", [*ESTIMATORS.values(), PrivacyBudget], ids=[*ESTIMATORS, "PrivacyBudget"]
)
def test_examples_print_what_they_say(make):
    kind = getattr(make, "func", make)
    for example in doctest.DocTestFinder(recurse=False).find(kind):
        assert doctest.DocTestRunner().run(example).failed == 0


def test_the_readme_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    readme = (Path(dplit.__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", readme, re.DOTALL):
        exec(compile(block, "README.md", "exec"), {})


# Slips in one line that no other test noticed: exact numbers, enumeration, brute force on tiny cases.


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


def test_rounds_start_around_the_noisy_mean():
    model = NoisyLloyd(3, epsilon=1.0, delta=1e-6, radius=8.0, init="mean")
    bought = np.array([[40.0, -30.0]]), np.array([10.0])  # sums, counts
    start = model._start(2, np.random.default_rng(0), lambda label: bought, 0.0)
    assert (np.linalg.norm(start - [4.0, -3.0], axis=1) <= 2.0).all()


# ---------------------------------------------------------------- public centers to start from


@pytest.mark.parametrize("make", STARTED.values(), ids=STARTED)
def test_public_centers_move_with_the_ball_and_do_not_change_what_is_paid(make):
    model, shift = make().fit(X), np.array([512.0, -256.0])
    moved = make(center=shift, init=PILOT + shift).fit(X + shift)
    assert close(moved.cluster_centers_ - shift, model.cluster_centers_)
    assert str(moved.spent_) == str(model.spent_)
    without = make(init="packing" if "Lloyd" in type(model).__name__ else None).fit(X)
    assert np.any(without.cluster_centers_ != model.cluster_centers_)
    assert without.privacy_cost() == model.privacy_cost()
    inside = clip_to_ball(np.array(PILOT), RADIUS)
    assert np.array_equal(centers(make(init=inside), X), model.cluster_centers_)


@pytest.mark.parametrize("kind", [PEMeans, HDPEMeans, MaxCoverKMeans])
def test_as_published_there_are_no_public_centers(kind):
    model = kind(**COMMON, variant="paper", n_public=60, init=PILOT)
    with pytest.raises(ValueError, match='init together with variant="paper"'):
        model.fit(Untouchable())


def test_good_public_centers_help_where_rows_say_little():
    """Sixteen clouds of 60 rows in eight columns at epsilon 1: the geometric mean over 8 seeds."""
    rng = np.random.default_rng(5)
    true = rng.uniform(-5, 5, size=(16, 8))
    rows = np.repeat(true, 60, axis=0) + 0.3 * rng.normal(size=(960, 8))
    cost = {"n_clusters": 16, "epsilon": 1.0, "delta": 1e-6, "radius": 16.0}

    def loss(seed, init):
        model = PEMeans(**cost, random_state=seed, init=init).fit(rows)
        return math.log(-model.score(rows))

    ratios = [loss(seed, true + 0.2) - loss(seed, None) for seed in range(8)]
    assert np.exp(np.mean(ratios)) < 0.6


def test_public_centers_are_weighed_like_the_candidates_of_the_covers(monkeypatch):
    seen, real = [], max_cover_kmeans.candidate_weights

    def watched(points, candidates, *more):
        seen.append(candidates)
        return real(points, candidates, *more)

    monkeypatch.setattr(max_cover_kmeans, "candidate_weights", watched)
    for init in (None, PILOT):
        model = MaxCoverKMeans(
            **COMMON, finest=0.2, init=init, zoom=False, shares=(0, 0.4, 0.1, 0.5)
        )
        model.fit(X)
    assert np.array_equal(seen[1][:-K], seen[0])
    assert close(seen[1][-K:], clip_to_ball(np.array(PILOT), RADIUS) / RADIUS)


def test_public_centers_are_candidates_of_the_first_vote():
    start, seen = np.array([[0.5, 0.0], [0.0, -0.5]]), []
    rows = np.zeros((9, 2), np.float32)

    def histogram(Q, population, **ask):
        seen.append(population.copy())
        return np.ones(len(population))

    with mock.patch.object(private_evolution_paper, "dp_nn_histogram", histogram):
        for given in (start, None):
            ask = {"mu": 1.0, "n_total": 9, "noise": Noise(0), "start": given}
            private_evolution_paper.private_evolution(rows, 2, 4, 1, **ask)
    assert np.array_equal(seen[0][:2], start) and np.array_equal(seen[0][2:], seen[1][2:])


# ---------------------------------------------------------------- float32

NARROW = X.astype(np.float32)


@every
def test_float32_comes_back_as_float32(make):
    wide, model = make().fit(X), make().fit(NARROW)
    assert model.cluster_centers_.dtype == np.float32 and wide.cluster_centers_.dtype == float
    assert np.array_equal(model.cluster_centers_, wide.cluster_centers_.astype(np.float32))
    assert str(model.spent_) == str(wide.spent_)
    assert model.transform(NARROW).dtype == np.float32
    assert model.transform(X).dtype == wide.transform(NARROW).dtype == float
    exact = make().fit(X)
    exact.cluster_centers_ = model.cluster_centers_.astype(float)
    assert np.array_equal(model.predict(NARROW), exact.predict(X))
    assert model.score(NARROW) == exact.score(X)


def test_only_the_type_of_a_table_decides_and_no_cell():
    cells = [[np.float32(cell) for cell in row] for row in X]
    other = X.astype(object)
    mixed = pd.DataFrame({"a": NARROW[:, 0], "b": X[:, 1]})
    for rows in (cells, other, mixed, X.astype(np.float16), X.astype(int)):
        assert centers(ESTIMATORS["NoisyLloyd"](), rows).dtype == float
    assert centers(ESTIMATORS["NoisyLloyd"](), pd.DataFrame(NARROW)).dtype == np.float32
    # a center beyond the type stays what it is
    far = NoisyLloyd(**COMMON | {"radius": 1e40}, center=[1e60, 0.0]).fit(NARROW)
    assert far.cluster_centers_.dtype == float and np.isfinite(far.cluster_centers_).all()


# ---------------------------------------------------------------- lists, whose width is in their cells


@pytest.mark.parametrize(
    "model",
    [
        NoisyLloyd(2, epsilon=1.0, delta=1e-6, radius=2.0, init=[[0.0, 0.0], [1.0, 1.0]]),
        PEMeans(2, epsilon=1.0, delta=1e-6, bounds=([0, 0], [120, 2e5])),
        MaxCoverKMeans(2, epsilon=1.0, delta=1e-6, radius=2.0, center=[0.0, 0.0]),
        GridKMeans(2, epsilon=1.0, delta=1e-6, bounds=([0, 0], [1, 1])),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_list_that_does_not_fit_gets_one_sentence_whatever_is_wrong(model):
    """One record of a list must not decide which error appears: too wide, ragged, no rows of numbers, one flat row."""
    wide, said = [[1.0, 2.0, 3.0]] * 50, set()
    for X in (
        wide,
        [*wide, [1.0, 2.0]],
        [{"a": 1.0}] * 9,
        [1.0, 2.0, 3.0],
        [*wide, ["a", 1.0, 2.0]],
    ):
        with pytest.raises(UnreadableRecords) as found:
            clone(model).fit(X)
        said.add(str(found.value))
    assert len(said) == 1
    with pytest.raises(ValueError, match="bounds|shape") as found:  # an array's shape is public
        clone(model).fit(np.array(wide))
    assert not isinstance(found.value, UnreadableRecords)
    clone(model).fit([[0.5, 0.5]] * 50)


def test_of_two_tables_the_private_list_is_named_and_a_public_one_keeps_its_own_words():
    """What is wrong with a public list may be said; what is wrong with a private one may not."""
    wide, square, ones = [[1.0, 2.0, 3.0]] * 30, np.ones((30, 2)), np.ones(30)
    sources = NoisyAverageSet(t=5, rho=0.01, delta=1e-6, radius=3.0, n_cells=15)
    with pytest.raises(UnreadableRecords, match="^Xs cannot"):
        sources.fit(Xs=wide, Xt=square)
    ask = dict(epsilon=1.0, delta=1e-6, radius=2.0, weight_radius=1.0, target_bound=1.0, alpha=0.5)
    with pytest.raises(UnreadableRecords, match="^Xt cannot"):
        CnvxAdap(**ask).fit(wide, ones, Xs=square, ys=ones)
    for protect, tables in (("target", (square, wide)), ("source", (wide, square))):
        with pytest.raises(ValueError, match="does not have the columns") as found:
            CnvxAdap(**ask, protect=protect).fit(tables[0], ones, Xs=tables[1], ys=ones)
        assert not isinstance(found.value, UnreadableRecords)
