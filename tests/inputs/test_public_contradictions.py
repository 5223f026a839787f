"""Public facts that contradict each other raise a doubt before a charge, once, and only then."""

import gc
import warnings
from contextlib import suppress
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from dplit import (
    BoundedScaler,
    CnvxAdap,
    CovariateShiftClassifier,
    CovariateShiftRegressor,
    LabelShiftClassifier,
    NCnvxAdap,
    PEMeans,
    PrivacyBudget,
    SourceTargetKMedoids,
)
from dplit.adaptation import NetworkLoss
from dplit.clustering import GridKMeans, HDPEMeans, MaxCoverKMeans, NoisyLloyd
from dplit.inputs import DoubtWarning, bound_contributions, overlap
from dplit.inputs.doubts import _KNOWN, Reach, check_reach, held_doubts, listed, reach_of, remember
from dplit.inputs.overlap import doubt_one_table
from dplit.ledger import choose_n_clusters, record_wise
from dplit.source_target import NeighborNoisyAverages, NoisyAverageSet, source_distance

RNG = np.random.default_rng(0)
PEOPLE = np.column_stack([RNG.uniform(18, 90, 300), RNG.normal(5e4, 1e4, 300)])
COST = {"epsilon": 0.5, "delta": 1e-6, "random_state": 0}


def scaler(**more):
    return BoundedScaler([0.0, 0.0], [120.0, 2e5], **more)


def doubts(call):
    """What was doubted, in order; nothing else may be warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert {said.category for said in caught} <= {DoubtWarning}
    assert all(said.filename == __file__ for said in caught)
    return [str(said.message) for said in caught]


def costs_nothing(fit, kind=None):
    """A doubt stops a fit before the charge, as a mistake of another kind does; advice does if warnings are errors."""
    budget = PrivacyBudget(4.0, 1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DoubtWarning)
        with pytest.raises((DoubtWarning, ValueError)) as caught:
            fit(budget)
    if caught.type is ValueError and kind is None:
        assert "in doubt before the charge" in str(caught.value)
        assert "accept_doubts=True" in str(caught.value)
    assert not budget.ledger
    return str(caught.value)


# ---------------------------------------------------------------- the ball of a scaler

KMEANS = PEMeans, HDPEMeans, NoisyLloyd, MaxCoverKMeans
RADII = {
    0.5: True,
    1.0: True,
    1.39: True,
    1.4142: False,
    2**0.5: False,
    2.0: False,
    2.2: True,
    8.0: True,
}


@pytest.mark.parametrize("kind", KMEANS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("radius", [1.0, 2**0.5, 8.0])
def test_another_ball_than_the_scaler_s_by_hand_in_a_pipeline_and_in_a_budget(kind, radius):
    make = lambda: kind(2, radius=radius, **COST)  # noqa: E731
    budget = PrivacyBudget(4.0, 1e-4)
    for fit in (
        lambda: make().fit(scaler().fit_transform(PEOPLE)),
        lambda: make_pipeline(scaler(), make()).fit(PEOPLE),
        lambda: budget.fit(make_pipeline(scaler(), make()), PEOPLE, accept_doubts=True),
        lambda: budget.fit(make(), scaler().fit_transform(PEOPLE), accept_doubts=True),
        lambda: budget.fit(make_pipeline(make_pipeline("passthrough", scaler()), FunctionTransformer(), make()), PEOPLE, accept_doubts=True),
    ):  # fmt: skip
        said = doubts(fit)
        assert len(said) == RADII[radius], said
        assert all("radius_ is 1.41421" in one and "radius=scaler.radius_" in one for one in said)
    if RADII[radius]:
        costs_nothing(lambda budget: budget.fit(make_pipeline(scaler(), make()), PEOPLE))
        costs_nothing(lambda budget: budget.fit(make(), scaler().fit_transform(PEOPLE)))


@pytest.mark.parametrize("radius", RADII)
def test_where_the_lines_are_drawn(radius):
    rows = scaler().fit_transform(PEOPLE)
    assert len(doubts(lambda: check_reach(rows, "it", radius))) == RADII[radius]
    assert not doubts(lambda: check_reach(rows.copy(), "it", radius))
    assert doubts(lambda: check_reach(rows, "it", 2.0, np.array([3.0, 0.0])))
    assert not doubts(lambda: check_reach(rows, "it", 2.0, np.array([0.3, 0.0])))


def test_weights_and_lists_change_the_ball():
    wide = scaler(weight=[2.0, 1.0]).fit_transform(PEOPLE)
    assert len(doubts(lambda: PEMeans(2, radius=2**0.5, **COST).fit(wide))) == 1
    assert not doubts(lambda: PEMeans(2, radius=5**0.5, **COST).fit(wide))
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": PEOPLE[:, 0], "where": RNG.choice(["a", "b"], 300)})
    lists = BoundedScaler({"age": 0}, {"age": 120}, categories={"where": ["a", "b"]}).fit(frame)
    budget = PrivacyBudget(4.0, 1e-4)
    for radius, many in ((lists.radius_, 0), (0.9, 1)):
        pipe = make_pipeline(lists, NoisyLloyd(2, radius=radius, **COST))
        assert len(doubts(lambda: budget.fit(pipe, frame, accept_doubts=True))) == many  # noqa: B023
    parts = [("age", BoundedScaler(0, 120), ["age"]), ("list", BoundedScaler(0, 1, categories={"where": ["a", "b"]}), ["where"])]  # fmt: skip
    for radius, many in ((lists.radius_, 0), (4.0, 1)):
        pipe = make_pipeline(ColumnTransformer(parts), NoisyLloyd(2, radius=radius, **COST))
        assert len(doubts(lambda: budget.fit(pipe, frame, accept_doubts=True))) == many  # noqa: B023


AGE, INCOME = ("a", BoundedScaler(0, 120), [0]), ("b", BoundedScaler(0, 2e5), [1])


def joined(weights, *parts):
    return ColumnTransformer([*parts] or [AGE, INCOME], transformer_weights=weights)


WEIGHTED = {  # steps, and the radius of the smallest ball that holds what they make
    "one larger": (joined({"a": 2}), 5**0.5),
    "both smaller": (joined({"a": 0.5, "b": 0.5}), 0.5**0.5),
    "negative": (joined({"a": -2, "b": 1}), 5**0.5),
    "zero": (joined({"a": 0, "b": 3}), 3.0),
    "none": (joined(None), 2**0.5),
    "a dropped column": (joined({"a": 2, "b": 9}, AGE, ("b", "drop", [1])), 2.0),
    "of a scaler's own weight": (joined({"a": 3}, ("a", BoundedScaler(0, 120, weight=0.5), [0]), INCOME), 3.25**0.5),
    "nested": (joined({"in": 2}, ("in", joined({"a": 3}), [0, 1])), 40**0.5),
    "in a pipeline": (joined({"in": 2}, ("in", make_pipeline("passthrough", joined({"a": 3})), [0, 1])), 40**0.5),
    "a pipeline": (make_pipeline(joined({"a": 2}), "passthrough"), 5**0.5),
}  # fmt: skip


@pytest.mark.parametrize("name", WEIGHTED)
def test_the_ball_of_joined_columns_has_their_weights(name):
    """Mutations: the weights of a ColumnTransformer are ignored, or those of the inner one, or their sign counts."""
    steps, radius = WEIGHTED[name]
    corners = np.array([[0.0, 0.0], [120.0, 2e5], [0.0, 2e5]])
    farthest = np.hypot.reduce(steps.fit_transform(corners), axis=1).max()
    assert farthest == pytest.approx(radius)
    for factor, words in ((1.0, ""), (0.9, "moves rows outside"), (1.6, "noise of a larger ball")):
        pipe = make_pipeline(steps, PEMeans(2, radius=factor * radius, **COST))
        budget = PrivacyBudget(4.0, 1e-4)
        said = doubts(lambda: budget.fit(pipe, PEOPLE, accept_doubts=True))  # noqa: B023
        assert len(said) == bool(words) and words in "".join(said)
        if words:
            assert f"a ball of radius {radius:.6g}" in said[0]
            assert float(said[0].split("Use radius=")[1].split()[0]) == pytest.approx(radius)
            costs_nothing(lambda budget: budget.fit(pipe, PEOPLE))  # noqa: B023


def test_the_ends_of_a_list_with_a_negative_weight_are_in_order():
    """Mutation: they are multiplied, and not sorted."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": PEOPLE[:, 0], "where": ["a", "b", "c"] * 100})
    lists = BoundedScaler(categories={"where": ["a", "b", "c"]}, weight=1.0)
    parts = ("a", BoundedScaler(0, 120), ["age"]), ("w", lists, ["where"])
    steps = joined({"w": -1.0}, *parts)
    made = steps.fit_transform(frame)
    low, high = made.min(axis=0), made.max(axis=0)
    low[0], high[0] = -1, 1
    for ends, many in (((low, high), 0), ((-high, -low), 1)):
        pipe = make_pipeline(steps, PEMeans(2, bounds=ends, **COST))
        budget = PrivacyBudget(4.0, 1e-4)
        assert len(doubts(lambda: budget.fit(pipe, frame, accept_doubts=True))) == many  # noqa: B023


def test_a_union_of_features_is_refused_with_its_weights():
    """It is no step of a pipeline in a budget, so its weights need no ball."""
    union = FeatureUnion([("a", BoundedScaler(0, 1))], transformer_weights={"a": 2})
    budget = PrivacyBudget(4.0, 1e-4)
    with pytest.raises(TypeError, match="FeatureUnion"):
        budget.fit(make_pipeline(union, PEMeans(2, radius=2.0, **COST)), PEOPLE)
    assert not budget.ledger


@pytest.mark.parametrize("kind", [PEMeans, GridKMeans], ids=lambda kind: kind.__name__)
def test_bounds_of_rows_that_were_scaled_already(kind):
    cost = {"epsilon": 0.5, "random_state": 0} | ({} if kind is GridKMeans else {"delta": 1e-6})
    budget = PrivacyBudget(9.0, 1e-4)
    for bounds, many in ((([0, 0], [120, 2e5]), 1), ((-1, 1), 0), ((0, 1), 1), ((-9, 9), 1)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            budget.fit(
                make_pipeline(scaler(), kind(2, bounds=bounds, **cost)), PEOPLE, accept_doubts=True
            )
        said = [
            str(one.message) for one in caught if "come from a BoundedScaler" in str(one.message)
        ]
        assert len(said) == many, bounds


def test_a_step_after_the_scaler_hides_it_and_nothing_is_said():
    halved = FunctionTransformer(record_wise(lambda row: row / 2))
    budget = PrivacyBudget(4.0, 1e-4)
    assert not doubts(
        lambda: budget.fit(
            make_pipeline(scaler(), halved, PEMeans(2, radius=0.8, **COST)),
            PEOPLE,
            accept_doubts=True,
        )
    )


def test_other_estimators_that_clip_rows_say_it_too():
    rows, y = scaler().fit_transform(PEOPLE), RNG.uniform(-1, 1, 300)
    for call in (
        lambda: NoisyAverageSet(t=30, epsilon=1.0, radius=8.0, random_state=0).fit(Xs=rows, Xt=rows[:9].copy()),
        lambda: NeighborNoisyAverages(epsilon=1.0, radius=8.0, random_state=0).fit(Xs=rows, Xt=rows[:9].copy()),
        lambda: CnvxAdap(epsilon=1.0, delta=1e-5, radius=8.0, weight_radius=1.0, target_bound=1.0, random_state=0).fit(rows, y),
    ):  # fmt: skip
        assert ["radius_ is 1.41421" in one for one in doubts(call)] == [True]


def test_an_array_is_forgotten_when_it_dies():
    gc.collect()
    before = len(_KNOWN)
    rows = scaler().fit_transform(PEOPLE)
    assert reach_of(rows).radius == 2**0.5 and len(_KNOWN) == before + 1
    del rows
    gc.collect()
    assert len(_KNOWN) == before
    assert remember([[1.0]], Reach(1.0, [-1], [1])) == [[1.0]]  # what is no array is not remembered


def test_a_doubt_depends_on_no_cell():
    said = {
        tuple(doubts(lambda: PEMeans(2, radius=8.0, **COST).fit(scaler().fit_transform(table))))  # noqa: B023
        for table in (PEOPLE, np.zeros((7, 2)), PEOPLE[:1] * 1e300)
    }
    assert len(said) == 1


# ---------------------------------------------------------------- a public start

BALL = {"radius": 2.0}
INITS = {
    "inside": ([[0.0, 0.0], [1.0, 1.0]], BALL, ""),
    "on the boundary": ([[0.0, 2.0], [2.0, 0.0]], BALL, ""),
    "one outside": ([[0.0, 0.0], [30.0, 1.0]], BALL, "row 1 lies outside the ball of radius 2 around the origin"),
    "both outside": ([[9.0, 0.0], [30.0, 1.0]], BALL, "rows 0 and 1 lie outside"),
    "another center": ([[9.0, 0.0], [0.0, 1.0]], BALL | {"center": [9.0, 0.0]}, "row 1 lies outside the ball of radius 2 around the center"),
    "ranges": ([[30.0, 4e4], [700.0, 1e4]], {"bounds": ([0, 0], [120, 2e5])}, "row 1 lies outside the bounds"),
    "in ranges": ([[30.0, 4e4], [0.0, 2e5]], {"bounds": ([0, 0], [120, 2e5])}, ""),
}  # fmt: skip


@pytest.mark.parametrize("kind", KMEANS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", INITS)
def test_a_start_outside(kind, name):
    init, ball, words = INITS[name]
    make = lambda: kind(2, init=np.array(init), **ball, **COST)  # noqa: E731
    X = PEOPLE if "bounds" in ball else RNG.uniform(-1, 1, (300, 2)) + ball.get("center", 0.0)
    budget = PrivacyBudget(4.0, 1e-4)
    for fit in (
        lambda: make().fit(X),
        lambda: budget.fit(make(), X, accept_doubts=True),
        lambda: make().check_tables(X),
    ):
        said = doubts(fit)
        assert len(said) == bool(words), said
        assert not words or f"init: {words}" in said[0] and "of 2 rows, counted from 0" in said[0]
    if words:
        costs_nothing(lambda budget: budget.fit(make(), X))


def test_a_start_of_a_list_of_rows_and_many_rows():
    init = np.full((100, 2), 9.0)
    [said] = doubts(
        lambda: NoisyLloyd(100, init=init, radius=1.0, **COST).fit(PEOPLE[:20].tolist())
    )
    assert "rows 0, 1, 2, 3, 4, 5 and 94 more lie outside" in said


# ---------------------------------------------------------------- degrees

PARIS = np.array([[48.8, 2.3], [48.9, 2.4], [43.3, 5.4]])


@pytest.mark.parametrize("sources", [None, np.radians(PARIS[:1])], ids=["none", "some"])
def test_degrees_where_radians_are_asked_for(sources):
    model = lambda: SourceTargetKMedoids(1, metric="haversine")  # noqa: E731
    [said] = doubts(lambda: model().fit(Xt=PARIS, sources=sources))
    for words in ("Xt: metric='haversine' takes radians", "latitude of 48.9", "numpy.radians"):
        assert words in said
    assert not doubts(lambda: model().fit(Xt=np.radians(PARIS), sources=sources))
    [said] = doubts(lambda: source_distance(PARIS, np.radians(PARIS), metric="haversine"))
    assert said.startswith("in doubt: Xt: ")
    [said] = doubts(lambda: model().fit(Xt=np.radians(PARIS), sources=PARIS[:1]))
    assert said.startswith("in doubt: sources: ")
    assert not doubts(lambda: SourceTargetKMedoids(1, metric="manhattan").fit(Xt=PARIS))
    # longitude first
    [said] = doubts(lambda: model().fit(Xt=np.radians([[5.0, 2.0], [120.0, 10.0]])))
    assert "latitude first" in said and "another order" in said
    ends = np.array([[np.pi / 2, np.pi], [-np.pi / 2, 2 * np.pi]])
    assert not doubts(lambda: model().fit(Xt=ends))
    fitted = model().fit(Xt=np.radians(PARIS))
    [said] = doubts(lambda: fitted.predict(PARIS))
    assert said.startswith("in doubt: X: metric='haversine' takes radians")
    assert not doubts(lambda: fitted.predict(np.radians(PARIS)))
    [said] = doubts(lambda: model().fit(Xt=[[1.0, 90.0]]))
    assert "longitude of 90" in said


def test_private_sources_are_not_looked_at():
    """Of `source_distance` the sources may be private: only the target is."""
    assert not doubts(lambda: source_distance(np.radians(PARIS), PARIS, metric="haversine"))


# ---------------------------------------------------------------- a public sample without records

BALLS = {"epsilon": 1.0, "delta": 1e-6, "radius": 1.0, "weight_radius": 1.0}
ADAPT = {
    "regression": lambda **more: CnvxAdap(**BALLS, target_bound=1.0, **more),
    "classification": lambda **more: NCnvxAdap(**BALLS, classes=(0, 1), **more),
}


@pytest.mark.parametrize("make", ADAPT.values(), ids=ADAPT)
@pytest.mark.parametrize("empty", [[], np.zeros((0, 2))], ids=["list", "array"])
def test_a_sample_without_records_is_doubted(make, empty):
    """Its filter left nothing, or `protect` names the wrong sample: the sizes of both are public."""
    X = RNG.uniform(-0.5, 0.5, (40, 2))
    y = (X[:, 0] > 0) * 1
    for protect, other in ("target", "source"), ("source", "target"):
        letter = other[0]
        given = {"Xt": X, "yt": y, "Xs": X, "ys": y, f"X{letter}": empty, f"y{letter}": []}
        said = costs_nothing(
            lambda budget, given=given, p=protect: budget.fit(make(protect=p), **given)
        )
        assert f"X{letter}: the public {other} has no records" in said
        model = make(protect=protect, random_state=0)
        assert len(doubts(lambda model=model, given=given: model.fit(**given))) == 1
        assert model.learned_from_ == protect
        # the other way round the private one is empty
        said = costs_nothing(
            lambda budget, given=given, p=other: budget.fit(make(protect=p), **given)
        )
        assert "nothing is private here" in said and f"there is no {other}" in said
    assert not doubts(lambda: make(random_state=0).fit(X, y))


@pytest.mark.parametrize("make", ADAPT.values(), ids=ADAPT)
@pytest.mark.parametrize("source", ["left out", "None", "list", "array", "frame"])
def test_a_protected_source_that_is_not_there_is_doubted(make, source):
    """The target was published exactly, in every fit the same, and nothing was said. Mutations: only an empty table counts, or only a missing one; `private=False` is forgotten."""
    X = RNG.uniform(-0.5, 0.5, (40, 2))
    y = (X[:, 0] > 0) * 1
    frame = pd.DataFrame(X[:0])
    given = {
        "left out": {},
        "None": {"Xs": None, "ys": None},
        "list": {"Xs": [], "ys": []},
        "array": {"Xs": X[:0], "ys": y[:0]},
        "frame": {"Xs": frame, "ys": frame[0]},
    }[source]
    for kind in (make, lambda **more: make(**more).set_params(variant="paper")):
        said = costs_nothing(lambda budget, k=kind: budget.fit(k(protect="source"), X, y, **given))
        for words in ("the target is public under protect='source'", "there is no source", "exactly", "write protect='target'"):  # fmt: skip
            assert words in said
        (said,) = doubts(lambda k=kind: k(protect="source", random_state=0).fit(X, y, **given))
        assert said.startswith("in doubt: nothing is private here")
    free = make(protect="source").set_params(private=False, epsilon=None, delta=None)
    assert not doubts(lambda: free.fit(X, y, **given))


@pytest.mark.parametrize("make", ADAPT.values(), ids=ADAPT)
@pytest.mark.parametrize(("protect", "alpha"), [("target", 1.0), ("source", 0.0)])
def test_a_private_sample_that_alpha_leaves_out_is_a_note(make, protect, alpha):
    """The parameter says so itself, as one of several in a search may. Mutation: alpha counts without public records too."""
    X = RNG.uniform(-0.5, 0.5, (60, 2))
    y = (X[:, 0] > 0) * 1
    given = {"Xt": X[:30], "yt": y[:30], "Xs": X[30:], "ys": y[30:]}
    model = make(protect=protect, alpha=alpha)
    budget = PrivacyBudget(4.0, 1e-4)
    (said,) = doubts(lambda: budget.fit(clone(model), **given))
    assert said.startswith("note: nothing is private here") and f"alpha={alpha:g}" in said
    assert budget.spent.epsilon == 0
    for other in (1 - alpha, 0.5):
        assert not doubts(lambda a=other: make(protect=protect, alpha=a).fit(**given))
    letter = {"target": "s", "source": "t"}[protect]
    alone = given | {f"X{letter}": X[:0], f"y{letter}": y[:0]}
    (said,) = doubts(lambda: clone(model).fit(**alone))
    assert (
        "nothing is private" not in said
    )  # without public records all weight is on the private ones


@pytest.mark.parametrize("make", ADAPT.values(), ids=ADAPT)
@pytest.mark.parametrize("protect", ["target", "source"])
@pytest.mark.parametrize(("factor", "said"), [(1e3, "most of the public rows of X{} exceed it"), (1e-5, "none of the public rows of X{} exceeds")])  # fmt: skip
def test_a_public_sample_in_another_unit_than_the_radius_is_doubted(make, protect, factor, said):
    """That of the target was not, if the source is protected."""
    other = {"target": "s", "source": "t"}[protect]
    X = RNG.uniform(-0.5, 0.5, (60, 2))
    y = (X[:, 0] > 0) * 1
    given = {"Xt": X[:30], "yt": y[:30], "Xs": X[30:], "ys": y[30:]}
    model = make(protect=protect, random_state=0)
    assert not doubts(lambda: clone(model).fit(**given))
    wrong = given | {f"X{other}": given[f"X{other}"] * factor}
    assert said.format(other) in costs_nothing(lambda budget: budget.fit(clone(model), **wrong))
    private = "ts".replace(other, "")
    secret = given | {f"X{private}": given[f"X{private}"] * factor}
    assert not doubts(lambda: clone(model).fit(**secret))


def test_public_numbers_beyond_their_bound_are_doubted_on_either_side():
    X = RNG.uniform(-0.5, 0.5, (60, 2))
    for protect, other in (("target", "s"), ("source", "t")):
        given = {"Xt": X[:30], "yt": X[:30, 0], "Xs": X[30:], "ys": X[30:, 0]}
        given[f"y{other}"] = given[f"y{other}"] * 1e4
        model = ADAPT["regression"](protect=protect)
        said = costs_nothing(lambda budget, m=model, g=given: budget.fit(m, **g))
        assert f"most of the public numbers of y{other} exceed it" in said


@pytest.mark.parametrize("make", ADAPT.values(), ids=ADAPT)
@pytest.mark.parametrize("protect", ["target", "source"])
def test_a_predictor_too_short_for_any_output_is_doubted(make, protect):
    """Nothing was said before or after: the answer was that of a guess, in full length."""
    X = RNG.uniform(-0.5, 0.5, (60, 2))
    y = (X[:, 0] > 0) * 1.0
    y = 0.5 + y / 2 if make is ADAPT["regression"] else y
    given = {"Xt": X[:30], "yt": y[:30], "Xs": X[30:], "ys": y[30:]}
    more = {"protect": protect, "random_state": 0}
    short = make(**more).set_params(weight_radius=0.003)
    said = costs_nothing(lambda budget: budget.fit(short, **given))
    assert "weight_radius=0.003: on the public rows no predictor" in said and "above 0.00" in said
    assert not doubts(lambda: make(**more).fit(**given))
    if make is ADAPT["classification"]:  # of another loss nothing is known
        short.set_params(loss=NetworkLoss(2))
        assert not doubts(lambda: short.fit(**given))


SOURCE = RNG.normal(size=(200, 2)) + 2 * (np.arange(200) % 2)[:, None]


def minus_the_mean(rows):
    return rows - rows.mean(axis=0)


MODELS = {
    "all alike": (LogisticRegression(C=1e-9), "predicts some classes nearly as often"),
    "a guess": (DummyClassifier(), "predicts some classes nearly as often"),
    "of all rows": (make_pipeline(FunctionTransformer(minus_the_mean), LogisticRegression()), "for a row alone"),
    "scaled": (make_pipeline(StandardScaler(), LogisticRegression()), ""),
    "default": (None, ""),
    "neighbors": (KNeighborsClassifier(), ""),
}  # fmt: skip


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_a_model_that_cannot_tell_the_proportions_is_doubted(kind, share):
    """The public source shows it; the answer was the source's own proportions, or noise."""
    model, said = MODELS[kind]
    some = np.r_[np.flatnonzero(np.arange(200) % 2 == 0), np.arange(1, 200, 2)[: round(100 * share / (1 - share))]]  # fmt: skip
    given = {"Xs": SOURCE[some], "ys": some % 2}
    make = partial(LabelShiftClassifier, model, epsilon=1.0)
    fit = lambda budget: budget.fit(make(), SOURCE.copy(), **given)  # noqa: E731
    said = "" if kind == "all alike" and share == 0.5 else said  # its tiny weights still rank rows
    if said:
        assert said in costs_nothing(fit)
    else:
        assert not doubts(lambda: fit(PrivacyBudget(4.0, 1e-4)))
    # with labels the model's predictions are not counted
    assert not doubts(lambda: make().fit(SOURCE.copy(), np.arange(200) % 2, **given))


def test_a_bounded_table_is_told_a_way_out_that_there_is():
    """It named a relation that the estimator does not have."""
    rows = bound_contributions(RNG.uniform(-0.5, 0.5, (60, 2)), np.arange(60) // 3, 2)
    y = np.arange(len(rows)) % 2
    tables = {"Xt": rows, "yt": y, "Xs": np.array(rows), "ys": y.copy()}
    for make in ADAPT.values():
        (said,) = doubts(lambda make=make: make(max_rows_per_person=2).fit(**tables))
        assert "add_remove" not in said and "how many rows are kept" in said
    model = NoisyLloyd(2, radius=1.0, neighboring="replace", max_rows_per_person=2, **COST)
    (said,) = doubts(lambda: model.fit(rows))
    assert 'neighboring="add_remove"' in said


# ---------------------------------------------------------------- names of columns that are numbers

NUMBERED = {
    "another order": [1, 0],
    "years": [2023, 2024],
    "from one": [1, 2],
    "pairs": [("a", 1), ("b", 1)],
    "in order": [0, 1],
    "in order, as floats": [0.0, 1.0],
}


@pytest.mark.parametrize("kind", NUMBERED)
def test_a_number_that_may_be_a_name_or_a_place_is_refused_before_the_charge(kind):
    """A mapping was matched by place: income was clipped to the range of age."""
    names = NUMBERED[kind]
    table = pd.DataFrame(RNG.uniform(-0.5, 0.5, (60, 2)))
    table.columns = pd.MultiIndex.from_tuples(names) if kind == "pairs" else names
    ends = {0: -1, 1: -1}, {0: 1, 1: 1}
    calls = {
        "bounds": lambda b: b.fit(NoisyLloyd(2, bounds=ends, **COST), table),
        "one end": lambda b: b.fit(NoisyLloyd(2, bounds=([-1, -1], ends[1]), **COST), table),
        "scaler": lambda b: b.fit(make_pipeline(BoundedScaler(*ends), NoisyLloyd(2, radius=2**0.5, **COST)), table),
        "weight": lambda b: b.fit(make_pipeline(BoundedScaler(-1, 1, weight={0: 0.5}), NoisyLloyd(2, radius=1.2, **COST)), table),
    }  # fmt: skip
    for name, call in calls.items():
        if names == [0, 1]:
            call(PrivacyBudget(9.0, 1e-3))
        else:
            assert "name or the place" in costs_nothing(call, kind=ValueError), name
    # in their order they are no mistake
    PrivacyBudget(9.0, 1e-3).fit(NoisyLloyd(2, bounds=([-1, -1], [1, 1]), **COST), table)


ORDERS = {
    "another order": ([0, 1], [1, 0], False),
    "years in another order": ([2023, 2024], [2024, 2023], False),
    "other years": ([2023, 2024], [2022, 2023], False),
    "pairs in another order": ([("a", 1), ("b", 1)], [("b", 1), ("a", 1)], False),
    "the same": ([5, 7], [5, 7], True),
    "numbered anew": ([5, 7], [0, 1], True),
    "words and numbers": (["a", "b"], [1, 0], True),
}


@pytest.mark.parametrize("kind", ORDERS)
@pytest.mark.parametrize("turned", [False, True])
def test_two_tables_whose_columns_are_numbered_in_another_order_are_refused(kind, turned):
    one, other, fine = ORDERS[kind]
    one, other = (pd.DataFrame(RNG.uniform(-0.5, 0.5, (60, 2)), columns=pd.Index(names)) for names in ((other, one) if turned else (one, other)))  # fmt: skip
    y = np.arange(60) % 2
    calls = {
        "adaptation": lambda b: b.fit(ADAPT["classification"](), one, y, Xs=other, ys=[*y]),
        "label shift": lambda b: b.fit(LabelShiftClassifier(epsilon=1.0), one, y, Xs=other, ys=[*y]),
        "sources": lambda b: b.fit(NeighborNoisyAverages(epsilon=1.0, radius=1.0), Xs=one, Xt=other),
        "init": lambda b: b.fit(NoisyLloyd(2, radius=1.0, init=other[:2], **COST), one),
    }  # fmt: skip
    for name, call in calls.items():
        if fine:
            call(PrivacyBudget(9.0, 1e-3))
        else:
            said = costs_nothing(call, kind=ValueError)
            assert "same columns in the same order" in said or "in their order" in said, name


# ---------------------------------------------------------------- once


def test_a_doubt_is_said_once_in_a_budget():
    budget, target = PrivacyBudget(20.0, 1e-3), np.r_[PARIS, [[0.0, 0.0]]]
    model = NoisyAverageSet(t=3, epsilon=1.0, radius=30.0, random_state=0)
    assert len(doubts(lambda: budget.fit(model, Xs=PARIS, Xt=target, accept_doubts=True))) == 1
    # and again for the next fit
    assert len(doubts(lambda: budget.fit(model, Xs=PARIS, Xt=target, accept_doubts=True))) == 1
    lloyd = NoisyLloyd(2, init=np.full((2, 2), 9.0), radius=1.0, **COST)
    X = RNG.uniform(-1, 1, (300, 2))
    go = {"epsilon": 0.5, "accept_doubts": True}
    assert len(doubts(lambda: budget.search(lloyd, {"n_iter": [1, 2, 3]}, X, **go))) == 1
    costs_nothing(lambda budget: budget.search(lloyd, {"n_iter": [1, 2, 3]}, X, epsilon=0.5))
    pipe = make_pipeline(scaler(), NoisyLloyd(2, radius=9.0, **COST))
    grid = {"noisylloyd__n_clusters": [1, 2]}
    assert len(doubts(lambda: budget.search(pipe, grid, PEOPLE, **go))) == 1
    costs_nothing(lambda budget: budget.search(pipe, grid, PEOPLE, epsilon=0.5))
    parts = {
        name: (NoisyLloyd(2, radius=9.0, **COST), scaler().fit_transform(PEOPLE)) for name in "ab"
    }
    assert len(doubts(lambda: budget.parallel(parts, accept_doubts=True))) == 1
    said = costs_nothing(lambda budget: budget.parallel(parts))
    assert said.count("radius_ is 1.41421") == 1
    rows = scaler().fit_transform(PEOPLE)
    chosen = NoisyLloyd(radius=9.0, random_state=0)
    assert (
        len(doubts(lambda: choose_n_clusters(chosen, [1, 2], rows, epsilon=1.0, delta=1e-6))) == 1
    )


def test_cells_of_objects_are_doubted_before_the_charge():
    pipe = make_pipeline(
        FunctionTransformer(record_wise(np.log1p)), NoisyLloyd(2, radius=20.0, **COST)
    )
    said = costs_nothing(lambda budget: budget.fit(pipe, PEOPLE.astype(object)))
    assert "may be words" in said
    budget = PrivacyBudget(4.0, 1e-4)
    assert not doubts(lambda: budget.fit(pipe, PEOPLE))
    words = np.array([[1.0, "a"], [2.0, "b"]], dtype=object)
    with pytest.warns(DoubtWarning, match="record_wise"), pytest.raises(ValueError) as caught:
        budget.fit(pipe, words)
    assert "a missing cell as NaN" in str(caught.value) and "'a'" not in str(caught.value)
    assert "finite numbers" not in str(caught.value)


def test_lists_in_sentences():
    assert listed([]) == "" and listed([1]) == "1" and listed([1, 2]) == "1 and 2"
    assert listed(range(7)) == "0, 1, 2, 3, 4, 5 and 6"
    assert listed(range(100)) == "0, 1, 2, 3, 4, 5 and 94 more"


LISTED = {  # parameters that no list of records can satisfy, whatever its cells
    "names": ({"bounds": ({"a": 0, "b": 0}, {"a": 1, "b": 1})}, "column 0 has no bound"),
    "places from 1": ({"bounds": ({1: 0, 2: 0}, {1: 1, 2: 1})}, "column 0 has no bound"),
    "a wide init": ({"bounds": ([0, 0], [1, 1]), "init": np.zeros((2, 3))}, "shape .2, 2."),
    "a wide center": ({"radius": 2.0, "center": [0, 0, 0], "init": np.zeros((2, 2))}, "shape .2, 3."),
    "an init outside": ({"bounds": ([0, 0], [1, 1]), "init": np.full((2, 2), 9.0)}, "outside the bounds"),
    "outside of one range": ({"bounds": (0, 1), "init": np.full((2, 2), 9.0)}, "outside the bounds"),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTED)
def test_parameters_that_contradict_each_other_are_refused_for_a_list_too(name):
    """Its cells alone tell its columns, so nothing was compared, and a fit was charged. Mutation: a list is left out."""
    given, said = LISTED[name]
    rows = np.random.default_rng(0).uniform(size=(60, 2)).tolist()
    for table in (rows, tuple(map(tuple, rows))):
        budget = PrivacyBudget(4.0, 1e-4)
        with pytest.raises(ValueError, match=said):
            budget.fit(NoisyLloyd(2, **COST, **given), table)
        assert not budget.ledger
    for fine in (
        {"bounds": ({0: 0, 1: 0}, {0: 1, 1: 1})},
        {"bounds": ([0, 0], [1, 1])},
        {"radius": 2.0},
    ):
        budget.fit(NoisyLloyd(2, **COST, **fine), rows)


CUT = {
    "itself": lambda Z: (Z, Z),
    "a view": lambda Z: (Z, Z[:40]),
    "a view in other columns": lambda Z: (Z[:, ::-1], Z),
    "a frame": lambda Z: (pd.DataFrame(Z, columns=["a", "b"], copy=False), Z[:40]),
}


@pytest.mark.parametrize("cut", CUT.values(), ids=CUT)
def test_a_private_table_that_is_public_too_is_doubted_before_the_charge(cut):
    """What is released depends on it without noise; only NAS and NNA noticed, and only the same object."""
    Z = RNG.uniform(-0.5, 0.5, (80, 2))
    y = (Z[:, 0] > 0) * 1
    one, two = cut(Z)
    tables = {"Xt": one, "yt": y[: len(one)], "Xs": two, "ys": y[: len(two)].copy()}
    asked = [(ADAPT[kind](), tables) for kind in ADAPT] + [
        (LabelShiftClassifier(epsilon=1.0), tables),
        (
            CovariateShiftClassifier(epsilon=1.0, delta=1e-6),
            {k: v for k, v in tables.items() if k != "yt"},
        ),
        (NeighborNoisyAverages(epsilon=1.0, radius=1.0), {"Xs": one, "Xt": two}),
        (NoisyAverageSet(t=30, epsilon=1.0, radius=1.0), {"Xs": one, "Xt": two}),
        (NoisyLloyd(2, init=np.asarray(two)[:2], radius=1.0, **COST), {"X": one}),
    ]
    for model, given in asked:
        said = costs_nothing(lambda budget, model=model, given=given: budget.fit(model, **given))
        assert "one table" in said and "without noise" in said, type(model).__name__
        (alone,) = doubts(lambda model=model, given=given: model.fit(**given))
        assert "one table" in alone, type(model).__name__
        copies = {name: np.array(table) for name, table in given.items()}
        if isinstance(model, NoisyLloyd):
            copies["X"] = copies["X"].copy()
        assert not doubts(
            lambda model=model, copies=copies: PrivacyBudget(9.0, 1e-3).fit(clone(model), **copies)
        )


def test_a_private_table_that_is_public_too_is_doubted_by_every_door():
    """Only `PrivacyBudget.fit` did, and not for a pipeline."""
    Z = RNG.uniform(-0.5, 0.5, (80, 2))
    y = (Z[:, 0] > 0) * 1
    start = lambda table: NoisyLloyd(2, init=table[:2], radius=1.0, **COST)  # noqa: E731
    piped = lambda model: make_pipeline(FunctionTransformer(record_wise(np.negative)), model)  # noqa: E731
    source = {"ncnvxadap__Xs": Z[:9], "ncnvxadap__ys": y[:9].copy()}
    asked = {
        "search": lambda b: b.search(start(Z), {"n_iter": [1, 2]}, Z, epsilon=0.1),
        "parallel": lambda b: b.parallel({"a": (start(Z), Z), "b": (start(Z.copy()), Z.copy())}),
        "pipeline": lambda b: b.fit(piped(start(Z)), Z),
        "a source": lambda b: b.fit(piped(ADAPT["classification"]()), Z, y, **source),
    }  # fmt: skip
    for name, call in asked.items():
        assert "one table" in costs_nothing(call), name


N_LABELS = 80
BITS = np.arange(N_LABELS) % 3 % 2
LABELED = {  # a table with labels "y", and how its library gives that column
    "pandas": lambda y: pd.DataFrame({"x": np.arange(1.0 * N_LABELS), "y": y}),
    "pandas, words": lambda y: pd.DataFrame({"x": 1.0, "y": np.where(y, "yes", "no")}),
    "pandas, objects": lambda y: pd.DataFrame({"x": 1.0, "y": y.astype(object)}),
    "pandas, categories": lambda y: pd.DataFrame({"x": 1.0, "y": pd.Categorical(np.where(y, "b", "a"))}),
    "pandas, Boolean": lambda y: pd.DataFrame({"x": 1.0, "y": pd.array(y == 1, dtype="boolean")}),
    "pandas, masked": lambda y: pd.DataFrame({"x": 1.0, "y": pd.array(y, dtype="Int64")}),
    "polars": lambda y: pl.DataFrame({"x": np.arange(1.0 * N_LABELS), "y": y}),
    "polars, categories": lambda y: pl.DataFrame({"y": np.where(y, "b", "a")}, schema={"y": pl.Categorical}),
    "pyarrow, words": lambda y: pa.table({"y": pa.array(np.where(y, "b", "a").tolist()).dictionary_encode()}),
    "an array": lambda y: {"y": y},
    "a list": lambda y: {"y": y.tolist()},
}  # fmt: skip


class Labels:  # like an estimator that protects a target and its labels
    _private_tables = "Xt", "yt"

    def fit(self, Xt, yt=None, *, Xs=None, ys=None): ...


def said_of_one(**given):
    with held_doubts() as found:
        doubt_one_table(Labels(), (), {"Xt": [[1.0]]} | given)
    return found


@pytest.mark.parametrize("library", LABELED)
def test_private_labels_that_are_public_too_are_doubted(library):
    """Only tables were compared. Mutations: labels are left out; a column of categories is not compared."""
    table, other = (LABELED[library](BITS.copy()) for _ in range(2))
    (said,) = said_of_one(yt=table["y"], ys=table["y"])
    assert said.startswith("yt and ys ") and "same labels: Labels protects yt" in said
    assert not said_of_one(yt=table["y"], ys=other["y"])
    if library not in ("an array", "a list"):
        (said,) = said_of_one(Xt=table, ys=table["y"])
        assert said.startswith("Xt and ys show rows of one table")
        assert not said_of_one(Xt=table, yt=table["y"])  # both private
        assert not said_of_one(Xs=table, ys=table["y"])  # both public
    if library != "a list":  # rows that only one of them has
        cut = lambda a, b: table["y"][a:b]  # noqa: E731
        assert not said_of_one(yt=cut(0, 35), ys=cut(35, 80))
        assert said_of_one(yt=cut(0, 60), ys=cut(35, 80))


@pytest.mark.parametrize("gap", [False, True])
def test_whether_all_cells_are_false_is_not_asked(gap):
    """Mutation: bits are compared. polars keeps all columns that are False throughout in one place, so the answer told whether one cell is not."""
    cells = [np.arange(N_LABELS) + 0.5 for _ in range(2)]
    one, other = (pl.Series(c.tolist()) for c in cells)
    one = pl.Series([None, *cells[0][1:].tolist()]) if gap else one
    tables = [pl.DataFrame({"x": s.fill_null(0.0), "gap": s.is_null()}) for s in (one, other)]
    assert not overlap.share_records(*tables) and not said_of_one(
        yt=one.is_null(), ys=other.is_null()
    )
    assert overlap.share_records(tables[0], tables[0][3:])


def test_a_column_of_the_private_array_is_no_public_label():
    """Mutations: labels in one dimension are not rows of their array; halves of one array are one table."""
    for order in "CF":
        Z = np.asarray(RNG.normal(size=(60, 4)), order=order)
        assert said_of_one(Xt=Z[:, :2], ys=Z[:, 3]) and said_of_one(Xt=Z[::2, :2], ys=Z[::3, 3])
        assert said_of_one(yt=Z[:, 2], ys=Z[::-1, 3])
        assert not said_of_one(Xt=Z[:30, :3], yt=Z[:30, 3], Xs=Z[30:, :3], ys=Z[30:, 3])
        assert not said_of_one(Xt=Z[::2, :3], yt=Z[::2, 3], Xs=Z[1::2, :3], ys=Z[1::2, 3])
    loaded = Z.ravel().copy().reshape(Z.shape)  # what a row is, is not known
    assert not said_of_one(Xt=loaded[:30], yt=loaded[:30, 3], Xs=loaded[30:], ys=loaded[30:, 3])


def test_one_doubt_about_each_public_argument():
    Z = RNG.normal(size=(30, 3))
    y = Z[:, 2]
    first, second = said_of_one(Xt=Z, yt=y, Xs=Z[:9], ys=y)
    assert first.startswith("Xt and Xs show rows") and second.startswith("yt and ys are the same")


def test_constants_and_what_is_empty_are_no_records():
    """A tuple that occurs twice in a program is one object. Mutation: all tuples are constants, or none."""
    first, second = (0, 1, 0, 1), (0, 1, 0, 1)
    assert first is second
    for shared in (first, (), [], np.zeros(0), np.zeros((0, 2)), pd.Series([], dtype=float), "y"):
        assert not said_of_one(yt=shared, ys=shared), shared
    classes = (0, 1)
    model = ADAPT["classification"]().set_params(classes=classes)
    assert not doubts(lambda: clone(model).fit(np.eye(2) / 2, list(classes), Xs=np.eye(2) / 3, ys=classes))  # fmt: skip
    records = tuple(range(40))  # as zip makes them
    assert said_of_one(yt=records, ys=records)


def test_labels_of_the_wrong_side_are_refused_before_the_charge():
    """All estimators with a public and a private sample, and a pipeline. Mutation: `protect` is not asked for."""
    Z, S = RNG.uniform(-0.5, 0.5, (2, 80, 2))
    frame = pd.DataFrame(Z, columns=["a", "b"])
    frame["y"] = (Z[:, 0] > 0) * 1
    y = lambda: frame["y"]  # noqa: E731
    given = {"Xt": Z, "yt": y(), "Xs": S, "ys": y()}
    cost = {"epsilon": 1.0, "delta": 1e-6}
    asked = [ADAPT[kind](protect=side) for kind in ADAPT for side in ("target", "source")]
    asked += [LabelShiftClassifier(epsilon=1.0), CovariateShiftClassifier(**cost), CovariateShiftRegressor(**cost)]  # fmt: skip
    for model in asked:
        said = costs_nothing(lambda budget, model=model: budget.fit(clone(model), **given))
        mine, other = ("ys", "yt") if getattr(model, "protect", "") == "source" else ("yt", "ys")
        assert f"{mine} and {other} show the same labels" in said
        own = given | {"ys": (S[:, 0] > 0) * 1}
        assert not doubts(lambda model=model, own=own: PrivacyBudget(9.0, 1e-3).fit(clone(model), **own))  # fmt: skip
    pipe = make_pipeline(FunctionTransformer(record_wise(np.negative)), ADAPT["classification"]())
    source = {"ncnvxadap__Xs": S, "ncnvxadap__ys": y()}
    assert "the same labels" in costs_nothing(lambda budget: budget.fit(pipe, Z, y(), **source))


def test_halves_of_one_file_are_two_tables(tmp_path):
    """Without a column, which of its bytes are one row is not known; that was said to be one table."""
    np.save(tmp_path / "x.npy", RNG.uniform(-0.5, 0.5, (80, 3)))
    Z = np.load(tmp_path / "x.npy")
    y = (Z[:, 2] > 0) * 1
    fit = lambda Xt, Xs: ADAPT["classification"]().fit(Xt, y[:40], Xs=Xs, ys=y[40:])  # noqa: E731
    assert not doubts(lambda: fit(Z[:40, :2], Z[40:, :2]))
    (said,) = doubts(lambda: fit(Z[:40, :2], Z[:40, :2]))
    assert "Xt and Xs show rows of one table" in said


@pytest.mark.parametrize("parameter", ["center", "init"])
def test_points_whose_names_are_in_another_order_are_refused(parameter):
    """They were matched by position, charged, and the centers were those of other columns."""
    X = pd.DataFrame({"a": RNG.normal(50, 1, 90), "b": RNG.normal(0, 1, 90)})

    def by(*names):
        if parameter == "center":
            return pd.Series([0.0, 50.0], names)
        return pd.DataFrame([[0.0, 50.0]] * 2, columns=names)

    for names, fine in (
        (("b", "a"), False),
        (("lat", "lon"), False),
        (("a", "b"), True),
        ((0, 1), True),
    ):
        for table in (X, pl.from_pandas(X), pa.table(X)):
            model = NoisyLloyd(2, radius=90.0, **{parameter: by(*names)}, **COST)
            if fine:
                assert PrivacyBudget(9.0, 1e-3).fit(model, table).spent_
            else:
                said = costs_nothing(
                    lambda budget, model=model, table=table: budget.fit(model, table), ValueError
                )
                assert said.startswith(
                    f"{parameter}: its names are not those of the table's columns"
                )
        assert (
            NoisyLloyd(2, radius=90.0, **{parameter: by(*names)}, **COST).fit(X.to_numpy()).spent_
        )


@pytest.mark.parametrize("make", ADAPT.values(), ids=ADAPT)
def test_a_bound_far_too_large_for_the_public_source_is_doubted(make):
    X = RNG.uniform(-0.5, 0.5, (40, 2))
    y, longest = (X[:, 0] > 0) * 1, np.linalg.norm(X, axis=1).max()
    for factor, stops in ((99, False), (101, True)):
        model = make(random_state=0).set_params(radius=factor * longest)
        said = doubts(lambda model=model: model.fit(X.copy(), y, Xs=X, ys=y.copy()))
        assert [one.startswith("in doubt: radius=") for one in said] == [True] * stops
    if "target_bound" in make().get_params():
        model = make(
            random_state=0,
        ).set_params(target_bound=101.0)
        [said] = doubts(lambda: model.fit(X.copy(), y, Xs=X, ys=y.copy()))
        assert said.startswith(
            "in doubt: target_bound=101.0: none of the public numbers of ys exceeds 1"
        )


# ---------------------------------------------------------------- scaled twice

BALL = {"radius": 2**0.5, **COST}
TWICE = joined(None, ("a", make_pipeline(AGE[1], BoundedScaler(0, 120)), [0]), INCOME)
LOGS = ("logs", FunctionTransformer(record_wise(np.log1p)), [1])


def scaled():
    return scaler().fit_transform(PEOPLE)


def piped(*steps):
    return make_pipeline(*steps, PEMeans(2, **BALL))


AGAIN = {  # a pipeline, and whether its table was scaled before
    "an array": (piped(scaler()), True),
    "an array after a step that changes nothing": (piped(FunctionTransformer(), scaler()), True),
    "two scalers": (piped(scaler(), scaler()), False),
    "with steps between": (piped(make_pipeline(scaler(), "passthrough"), FunctionTransformer(), scaler()), False),
    "in the last step": (make_pipeline(scaler(), piped("passthrough", scaler())), False),
    "joined columns": (piped(joined(None), scaler()), False),
    "joined columns in a pipeline": (piped(make_pipeline("passthrough", joined({"a": 2}), scaler())), False),
    "columns of an array": (piped(joined(None)), True),
    "columns of an array by a mask": (piped(joined(None, ("a", AGE[1], [True, False]), INCOME)), True),
    "in a joined column": (piped(TWICE), False),
    "one column of two": (piped(joined(None, AGE, LOGS), scaler()), False),
    "a list": (piped(BoundedScaler(-1, 1, categories={1: [0, 1]})), True),
    "far wider": (piped(BoundedScaler(-10, 10)), True),
}  # fmt: skip


@pytest.mark.parametrize("name", AGAIN)
def test_what_was_scaled_is_not_scaled_again(name):
    """Mutations: the ends of the table are unknown; selected or joined columns are not followed; a list has no range."""
    pipe, before = AGAIN[name]
    table = scaled() if before else PEOPLE
    other = scaled() if before else PEOPLE.copy()
    grid = {pipe.steps[-1][0] + "__n_clusters": [1, 2]}
    if "pipeline__" in [*grid][0]:
        grid = {"pipeline__pemeans__n_clusters": [1, 2]}
    for call in (
        lambda b, **more: b.fit(clone(pipe), table, **more),
        lambda b, **more: b.search(clone(pipe), grid, table, epsilon=0.1, **more),
        lambda b, **more: b.parallel({"a": (clone(pipe), table), "b": (clone(pipe), other)}, **more),
    ):  # fmt: skip
        assert costs_nothing(call).count("are scaled again") == 1
        said = doubts(lambda call=call: call(PrivacyBudget(9.0, 1e-3), accept_doubts=True))
        assert sum("are scaled again" in one for one in said) == 1


def test_a_step_that_changes_nothing_hides_no_scaler():
    """Mutation: the record on which steps are tried is not remembered as the table is."""
    pipe = make_pipeline(FunctionTransformer(), PEMeans(2, radius=9.0, **COST))
    assert "radius_ is 1.41421" in costs_nothing(lambda b: b.fit(clone(pipe), scaled()))
    assert not doubts(lambda: PrivacyBudget(9.0, 1e-3).fit(clone(pipe), scaled().copy()))


def test_scaling_again_by_hand_is_doubted_once():
    """What a ColumnTransformer joined, or a copy, is not recognized outside of a budget."""
    Z = scaled()
    for call in (
        lambda: scaler().fit_transform(Z),
        lambda: scaler().fit(PEOPLE).transform(Z),
        lambda: piped(scaler()).fit(Z),
        lambda: piped(scaler(), scaler()).fit(PEOPLE),
        lambda: PrivacyBudget(9.0, 1e-3).quote(piped(scaler(), "passthrough", scaler())),
        lambda: PrivacyBudget(9.0, 1e-3).quote(piped(BoundedScaler(0, 9), scaler(), scaler())),
    ):
        (said,) = (one for one in doubts(call) if one.startswith("in doubt: "))
        assert "BoundedScaler: columns that a BoundedScaler returned are scaled again" in said


ONCE = {
    "a scaler": (piped(scaler()), PEOPLE),
    "its output's own ranges": (piped(scaler(), BoundedScaler(-1, 1)), PEOPLE),
    "twice its output's ranges": (piped(BoundedScaler(-2, 2)), scaled()),
    "a copy": (piped(scaler()), scaled().copy()),
    "joined": (piped(joined(None)), PEOPLE),
    "other columns": (piped(joined(None, AGE, LOGS), joined(None, (*LOGS[:2], [0]), INCOME)), PEOPLE),
    "a function between": (piped(scaler(), FunctionTransformer(record_wise(lambda row: 1e3 * row)), scaler()), PEOPLE),
    "no step": (piped("passthrough"), scaled()),
}  # fmt: skip


@pytest.mark.parametrize("name", ONCE)
def test_one_scaling_is_not_doubted(name):
    pipe, table = ONCE[name]
    said = doubts(lambda: PrivacyBudget(9.0, 1e-3).fit(pipe, table, accept_doubts=True))
    assert not [one for one in said if "scaled again" in one]


# ---------------------------------------------------------------- two scalings

RAW = np.column_stack([RNG.uniform(18, 90, 80), RNG.uniform(1e4, 1.9e5, 80)])
HALVES = RAW[:40].copy(), RAW[40:].copy()
MARKS = (RAW[:, 0] > 50) * 1
SHIFT = {"epsilon": 1.0, "delta": 1e-6}
BOTH = {"epsilon": 1.0, "delta": 1e-6, "radius": 2**0.5, "weight_radius": 1.0}
PAIRS = {  # an estimator, and the name of its PRIVATE table
    "labels": (LabelShiftClassifier(epsilon=1.0), "Xt"),
    "classes": (CovariateShiftClassifier(**SHIFT), "Xt"),
    "numbers": (CovariateShiftRegressor(**SHIFT), "Xt"),
    "convex": (CnvxAdap(**BOTH, target_bound=1.0), "Xt"),
    "convex, source": (CnvxAdap(**BOTH, target_bound=1.0, protect="source"), "Xs"),
    "classifier": (NCnvxAdap(**BOTH, classes=(0, 1)), "Xt"),
    "classifier, source": (NCnvxAdap(**BOTH, classes=(0, 1), protect="source"), "Xs"),
    "set": (NoisyAverageSet(t=9, epsilon=3.0, radius=2**0.5), "Xs"),
    "neighbors": (NeighborNoisyAverages(epsilon=1.0, radius=2**0.5), "Xs"),
}


def pair(model, private, one, two):
    """The arguments of a fit, from its PRIVATE table and its PUBLIC one."""
    given = {private: one, "Xs" if private == "Xt" else "Xt": two}
    if isinstance(model, (NoisyAverageSet, NeighborNoisyAverages)):
        return given
    unlabeled = isinstance(model, (CovariateShiftClassifier, CovariateShiftRegressor))
    labels = {"yt": MARKS[:40], "ys": MARKS[:40].copy()}
    return given | {k: v for k, v in labels.items() if not (unlabeled and k == "yt")}


def by(low=(0, 0), high=(120, 2e5), **more):
    return lambda table: BoundedScaler([*low], [*high], **more).fit_transform(table)


def same(table):
    return table


def frame(table, *names):
    return pd.DataFrame(table, columns=["age", "income"])


def of(*values):
    lists = BoundedScaler([0], [2e5], categories={0: [*values]})
    return lambda table: lists.fit_transform(table.astype(int))


APART = {  # what is made of the PRIVATE table, and of the PUBLIC one
    "another range": (by(), by(high=(100, 2e5)), "differ in column 0 (0 to 120; 0 to 100)"),
    "another weight": (by(), by(weight=[1.0, 0.5]), "differ in column 1"),
    "another list": (of(30, 40), of(30, 50), "differ in column 0"),
    "another order of a list": (of(30, 40), of(40, 30), "differ in column 0"),
    "a longer list": (of(30, 40), of(30, 40, 50), "does not have the columns"),
    "another order of columns": (
        lambda table: BoundedScaler(0, 2e5).fit_transform(frame(table)),
        lambda table: BoundedScaler(0, 2e5).fit_transform(frame(table)[["income", "age"]]),
        "differ in the number or the order",
    ),
    "a public frame": (by(), frame, "most of its rows outside"),
    "a public frame of polars": (by(), lambda table: pl.from_pandas(frame(table)), "most of its rows outside"),
    "a public frame of pyarrow": (by(), lambda table: pa.table(frame(table)), "most of its rows outside"),
    "a private frame": (frame, by(), "is a data frame"),
    "a private frame of polars": (lambda table: pl.from_pandas(frame(table)), by(), "is a data frame"),
    "a private frame of pyarrow": (lambda table: pa.table(frame(table)), by(), "is a data frame"),
    "a public array in its own units": (by(), same, "most of its rows outside"),
    "a public array a little outside": (by(), lambda table: by()(table) * 2 + 0.8, "most of its rows outside"),
}  # fmt: skip
TOGETHER = {
    "one scaler": (by(), by()),
    "one scaler on a frame and on an array": (lambda table: by()(frame(table)), by()),
    "another rule for missing cells": (by(), by(missing="low")),
    "a public copy": (by(), lambda table: by()(table).copy()),
    "public rows": (by(), lambda table: np.vstack([by()(table)] * 2)[:40]),
    "public single precision": (by(), lambda table: by()(table).astype(np.float32)),
    "a private copy": (lambda table: by()(table).copy(), by()),
    "a private array in its own units": (same, by()),
    "two arrays": (same, same),
    "two frames": (frame, frame),
    "a public frame of scaled rows": (by(), lambda table: frame(by()(table))),
    "a public frame that was divided": (by(), lambda table: frame(table) / 1e6),
    "frames of two libraries": (frame, lambda table: pl.from_pandas(frame(table))),
}


@pytest.mark.parametrize("name", APART)
@pytest.mark.parametrize("kind", PAIRS)
def test_two_scalings_are_doubted_before_the_charge(kind, name):
    """Mutations: only one side's frames count; weights, values or their order are not compared."""
    model, private = PAIRS[kind]
    one, two, words = APART[name]
    given = pair(model, private, one(HALVES[0]), two(HALVES[1]))
    words_or_far = [words]
    if "public" in name and kind not in ("labels", "classes", "numbers"):
        words_or_far.append("outside the ball")  # at once, if it is far: the ball was there before
    said = costs_nothing(lambda b: b.fit(clone(model), **given), ValueError)
    assert any(word in said for word in words_or_far), said


@pytest.mark.parametrize("name", TOGETHER)
@pytest.mark.parametrize("kind", PAIRS)
def test_one_scaling_of_both_tables_is_not_doubted(kind, name):
    """Mutation: a private array is compared with the range, so its cells decide."""
    model, private = PAIRS[kind]
    one, two = (make(half) for make, half in zip(TOGETHER[name], HALVES, strict=True))
    with held_doubts() as said, suppress(ValueError):
        model.check_tables(**pair(model, private, one, two))
    assert not [doubt for doubt in said if "scal" in doubt and "radius_" not in doubt], said


def test_few_public_rows_outside_are_no_other_scaling():
    Z = by()(HALVES[1]).copy()
    model = LabelShiftClassifier(epsilon=1.0, random_state=0)
    for many, stops in ((20, False), (21, True)):
        far = np.where(np.arange(40)[:, None] < many, 3.0 * np.sign(Z), Z)
        fit = lambda far=far: clone(model).fit(**pair(model, "Xt", by()(HALVES[0]), far))  # noqa: E731
        assert len(doubts(fit)) == stops
    for empty in ([], np.zeros((0, 2))):
        model = NCnvxAdap(**BOTH, classes=(0, 1), random_state=0)
        said = doubts(lambda e=empty, m=model: m.fit(by()(RAW), MARKS, Xs=e, ys=[]))
        assert not [one for one in said if "scal" in one]


SOURCES = {
    "in a frame": (frame, True),
    "as it was": (lambda table: table * 1.0, True),
    "by another scaler": (by(high=(100, 2e5)), True),
    "by the same scaler": (by(), False),
    "a copy of that": (lambda table: by()(table).copy(), False),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("steps", [scaler(), joined(None)], ids=["scaler", "joined"])
@pytest.mark.parametrize("kind", ["labels", "classes", "convex", "classifier"])
def test_a_source_that_the_steps_did_not_prepare_is_doubted(kind, steps, name):
    """It goes to the last step as it is. Mutation: tables are compared before the steps."""
    make, stops = SOURCES[name]
    model = clone(PAIRS[kind][0]).set_params(random_state=0)
    step = type(model).__name__.lower()
    given = {f"{step}__Xs": make(HALVES[1]), f"{step}__ys": MARKS[:40].copy()}
    labels = () if kind == "classes" else (MARKS[:40],)
    fit = lambda b, **more: b.fit(  # noqa: E731
        make_pipeline(steps, clone(model)), HALVES[0], *labels, **given, **more
    )
    if stops:
        said = costs_nothing(fit, ValueError)
        assert "scaling" in said or "outside the ball" in said
    else:
        said = doubts(lambda: fit(PrivacyBudget(9.0, 1e-3), accept_doubts=True))
        assert not [one for one in said if "scaling" in one]


def test_two_scalings_are_doubted_once():
    model = LabelShiftClassifier(epsilon=1.0, random_state=0)
    given = pair(model, "Xt", by()(HALVES[0]), frame(HALVES[1]))
    for call in (
        lambda: clone(model).fit(**given),
        lambda: model.check_tables(**given),
        lambda: PrivacyBudget(9.0, 1e-3).fit(clone(model), **given, accept_doubts=True),
    ):
        (said,) = doubts(call)
        assert said.startswith("in doubt: Xt comes from a BoundedScaler, and Xs does not: ")
        assert "scaler.transform(Xs)" in said
