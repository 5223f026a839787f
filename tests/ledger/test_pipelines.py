"""Pipelines in a budget: what is admitted costs what its last step costs, and what could look at two records is refused."""

import io
import pickle
import warnings
from contextlib import redirect_stdout
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

from dplit import (
    BoundedScaler,
    BudgetExceeded,
    CovariateShiftClassifier,
    GridKMeans,
    KTupleKMeans,
    LabelShiftClassifier,
    NoisyAverageSet,
    NoisyLloyd,
    PEMeans,
    PrivacyBudget,
    SourceTargetKMedoids,
)
from dplit.accounting import PrivacyCost
from dplit.audit import observations as bh
from dplit.inputs.numbers import UnreadableRecords
from dplit.ledger import declared_cost, record_wise
from dplit.ledger.pipelines import RecordWise, paid_step

RNG = np.random.default_rng(0)
PEOPLE = np.column_stack([RNG.uniform(18, 90, 300), RNG.lognormal(10.5, 0.6, 300)])
SCALER = partial(BoundedScaler, [0.0, 3.0], [120.0, 6.0])
LOYAL = {"n_clusters": 2, "epsilon": 1.0, "delta": 1e-6, "radius": 1.5, "random_state": 0}
MODELS = {kind.__name__: partial(kind, **LOYAL) for kind in (PEMeans, NoisyLloyd, GridKMeans)}


def log_income(row):
    """Fails, warns, prints and overflows on some records."""
    print(row)
    warnings.warn(f"a record is at {row}", stacklevel=1)
    if row[0, 0] < 0:
        raise ValueError(f"a record is at {row}")
    return [[row[0, 0], np.log10(row[0, 1])]]


def logs():
    return FunctionTransformer(record_wise(log_income, otherwise=[50.0, 4.5]))


def logged(X):
    ready = np.array([[50.0, 4.5] if a < 0 else [a, np.log10(b)] for a, b in X])
    return np.where(np.isfinite(ready), ready, [50.0, 4.5])


def by_hand(X):
    return SCALER().fit_transform(logged(X))


def budget(epsilon=9.0, delta=1e-4):
    return PrivacyBudget(epsilon, delta)


COLUMNS = [("a", record_wise(lambda row: row), [0]), ("b", record_wise(np.log10), [1])]
SAME = {
    "plain": lambda model: make_pipeline(logs(), SCALER(), model),
    "passed on": lambda model: Pipeline(
        [("a", "passthrough"), ("b", logs()), ("c", None), ("d", SCALER()), ("e", model)]
    ),
    "nested": lambda model: make_pipeline(
        make_pipeline(logs(), "passthrough"), make_pipeline(SCALER(), model)
    ),
    "identity": lambda model: make_pipeline(FunctionTransformer(), logs(), SCALER(), model),
    "columns": lambda model: make_pipeline(
        ColumnTransformer([(n, FunctionTransformer(f), c) for n, f, c in COLUMNS]), SCALER(), model
    ),
    "the rest": lambda model: make_pipeline(
        ColumnTransformer(
            [("a", FunctionTransformer(record_wise(np.copy)), [0])],
            remainder=FunctionTransformer(record_wise(np.log10)),
        ),
        SCALER(),
        model,
    ),
    "cloned": lambda model: clone(make_pipeline(logs(), SCALER(), model)),
    "pickled": lambda model: pickle.loads(pickle.dumps(make_pipeline(logs(), SCALER(), model))),
}


@pytest.mark.parametrize("how", SAME)
@pytest.mark.parametrize("name", MODELS)
def test_a_pipeline_costs_and_releases_what_its_last_step_does(name, how):
    pipe, mine, bare = SAME[how](MODELS[name]()), budget(), budget()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of set_output
        assert mine.fit(pipe, PEOPLE, label="people") is pipe
    alone = bare.fit(MODELS[name](), by_hand(PEOPLE), label="people")
    last = paid_step(pipe)
    assert np.array_equal(last.cluster_centers_, alone.cluster_centers_)
    assert mine.spent == bare.spent and mine.ledger[0][2:] == bare.ledger[0][2:]
    assert mine.receipts[0].to_dict() == bare.receipts[0].to_dict() == last.spent_.to_dict()
    assert np.array_equal(pipe.predict(PEOPLE), alone.predict(by_hand(PEOPLE)))
    assert declared_cost(paid_step(pipe)) == declared_cost(alone)
    assert mine.fits(pipe) == bare.fits(alone) > 0


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_of_every_library_are_tables_with_names(library):
    make = bh.CONTAINERS.get(library) or pytest.skip(f"{library} is not here")
    wanted = budget().fit(make_pipeline(SCALER(), NoisyLloyd(**LOYAL)), logged(PEOPLE))
    low, high = {"c1": 3.0, "c0": 0.0}, {"c0": 120.0, "c1": 6.0}
    pipe = make_pipeline(BoundedScaler(low, high), NoisyLloyd(**LOYAL))
    found = budget().fit(pipe, make(logged(PEOPLE)))
    assert np.array_equal(found[-1].cluster_centers_, wanted[-1].cluster_centers_)
    assert [*found[0].feature_names_in_] == ["c0", "c1"]
    mine = budget()
    with pytest.raises(ValueError, match="'c1' has no bound"):
        mine.fit(make_pipeline(BoundedScaler({"c0": 1}, {"c0": 2}), clone(found[-1])), make(PEOPLE))
    assert not mine.ledger


class Watched(np.ndarray):
    """Rows of which the shape and the type may be read, and nothing else."""

    def _touched(self, *args, **kwargs):
        raise AssertionError("a cell was read")

    __getitem__ = __iter__ = __array__ = __array_ufunc__ = __array_function__ = _touched


def watched(shape=(300, 2), dtype=float):
    return np.zeros(shape, dtype).view(Watched)


class Colder(BoundedScaler):
    pass


class Other(Pipeline):
    pass


class Unknown(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


def replaced_inside():
    """An inner method of scikit-learn, replaced: it is handed every record."""
    step = FunctionTransformer(record_wise(np.log10))
    step._transform = lambda X, func=None, kw_args=None: X - X.mean(axis=0)
    return step


def replaced():
    step = SCALER()
    step.transform = lambda X: X - X.mean()
    return step


REFUSED = {  # steps, and a word of the reason
    "its mean": (StandardScaler(), "StandardScaler.*PUBLIC ranges"),
    "its range": (MinMaxScaler(), "MinMaxScaler"),
    "its axes": (PCA(2), "PCA.*record_wise\\(step.transform\\)"),
    "its missing cells": (SimpleImputer(), "SimpleImputer.*missing="),
    "its variance": (VarianceThreshold(), "VarianceThreshold"),
    "frozen": (FrozenEstimator(StandardScaler().fit(PEOPLE)), "FrozenEstimator"),
    "a subclass": (Colder(0, 1), "Colder"),
    "unknown": (Unknown(), "Unknown"),
    "several": (FeatureUnion([("a", SCALER())]), "FeatureUnion"),
    "private": (NoisyLloyd(**LOYAL), "NoisyLloyd"),
    "not declared": (FunctionTransformer(np.log10), "receives all records at once"),
    "validated": (FunctionTransformer(record_wise(np.log10), validate=True), "validate=True"),
    "inverse": (
        FunctionTransformer(record_wise(np.log10), inverse_func=np.exp),
        "check_inverse=False",
    ),
    "cached": (Pipeline([("a", SCALER())], memory="."), "memory="),
    "loud": (Pipeline([("a", SCALER())], verbose=True), "verbose="),
    "inside": (make_pipeline(SCALER(), StandardScaler()), "pipeline__standardscaler"),
    "columns": (ColumnTransformer([("a", StandardScaler(), [0])]), "columntransformer__a"),
    "the rest": (
        ColumnTransformer([("a", SCALER(), [0])], remainder=PCA(1)),
        "columntransformer__remainder",
    ),
    "picked": (
        ColumnTransformer([("a", SCALER(), make_column_selector())]),
        "function that picks columns",
    ),
    # columns side by side get one type, which a single cell may change
    "as it is": (ColumnTransformer([("a", "passthrough", [0])]), "passes columns on unchanged"),
    "as the rest is": (
        ColumnTransformer([("a", SCALER(), [0])], remainder="passthrough"),
        "passes columns on unchanged",
    ),
    "no function": (
        ColumnTransformer([("a", FunctionTransformer(), [0])]),
        "passes columns on unchanged",
    ),
    "frames between": (SCALER().set_output(transform="polars"), "set_output of"),
    "watched within": (replaced_inside(), "methods were replaced"),
    "workers": (ColumnTransformer([("a", SCALER(), [0])], n_jobs=2), "n_jobs="),
    "loud columns": (ColumnTransformer([("a", SCALER(), [0])], verbose=True), "verbose="),
    "replaced": (replaced(), "methods were replaced"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize(
    "around", [make_pipeline, lambda *s: make_pipeline("passthrough", make_pipeline(*s))]
)
def test_a_step_that_may_look_at_two_records_is_refused_before_the_charge(name, around):
    step, words = REFUSED[name]
    mine, pipe = budget(), around(step, SCALER(), NoisyLloyd(**LOYAL))
    with pytest.raises(TypeError, match=words):
        mine.fit(pipe, watched())
    with pytest.raises(TypeError, match=words):
        mine.fits(pipe)
    assert not mine.ledger


@pytest.mark.parametrize(
    ("pipe", "words"),
    [
        (Pipeline([("s", SCALER()), ("m", NoisyLloyd(**LOYAL))], memory="."), "memory="),
        (Pipeline([("s", SCALER()), ("m", NoisyLloyd(**LOYAL))], verbose=True), "verbose="),
        (Other([("s", SCALER()), ("m", NoisyLloyd(**LOYAL))]), "Other is refused"),
        (make_pipeline(SCALER(), "passthrough"), "nothing to charge"),
        (make_pipeline(SCALER(), KMeans()), "KMeans states no epsilon"),
        (make_pipeline(SCALER(), make_pipeline(KMeans())), "KMeans states no epsilon"),
    ],
)
def test_a_pipeline_that_tells_or_has_nothing_to_charge_is_refused(pipe, words):
    mine = budget()
    with pytest.raises(TypeError, match=words):
        mine.fit(pipe, watched())
    assert not mine.ledger


def test_callbacks_and_other_routes_to_the_rows_are_refused():
    mine, model = budget(), NoisyLloyd(**LOYAL)
    for at in (0, None):
        pipe = make_pipeline(SCALER(), model)
        (pipe if at is None else pipe[at])._skl_callbacks = [print]
        with pytest.raises(TypeError, match="callback"):
            mine.fit(pipe, watched())
    with pytest.raises(TypeError, match="transform_input"):
        mine.fit(Pipeline([("m", model)], transform_input=["Xs"]), watched())
    with pytest.raises(ValueError, match="protects nothing"):
        mine.fit(make_pipeline(SCALER(), SourceTargetKMedoids(2)), watched())
    assert not mine.ledger


MISTAKES = {  # what is public about a fit and wrong: steps, rows, words
    "too many ranges": ([BoundedScaler([0, 0, 0], [1, 1, 1])], watched(), "array of numbers"),
    "an empty range": ([BoundedScaler(1, 0)], watched(), "must be below"),
    "no range": ([BoundedScaler()], watched(), "needs a public bound"),
    "it leaves records out": ([BoundedScaler(0, 1, missing="drop")], watched(), "drop"),
    "a function that fails": (
        [FunctionTransformer(record_wise(lambda r: 1 / 0))],
        watched(),
        "ZeroD",
    ),
    "a function of one number": (
        [FunctionTransformer(record_wise(lambda r: r[:, 0]))],
        watched(),
        r"shape \(1,\)",
    ),
    "nothing comes out": (
        [FunctionTransformer(record_wise(lambda r: r[:, :0]))],
        watched(),
        "shape",
    ),
    "words come out": (
        [FunctionTransformer(record_wise(lambda r: [["a"]]))],
        watched(),
        "type <U1",
    ),
    "otherwise too long": (
        [FunctionTransformer(record_wise(lambda r: r, otherwise=[1, 2, 3]))],
        watched(),
        "otherwise",
    ),
    "no such column": ([ColumnTransformer([("a", SCALER(), [7])])], watched(), "all features must"),
    "two steps that do not fit": (
        [SCALER(), BoundedScaler([0], [1])],
        watched(),
        "array of numbers",
    ),
    "words": ([SCALER()], watched(dtype="U3"), "not numbers"),
    "one dimension": ([SCALER()], watched((300,)), "2D"),
    "no column": ([SCALER()], watched((300, 0)), "0 feature"),
    "nothing": ([SCALER()], None, "Pass the rows"),
    "a list": ([SCALER()], [[1.0, 2.0]], "X is a list"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_public_mistake_costs_nothing(name):
    steps, X, words = MISTAKES[name]
    mine, model = budget(), NoisyLloyd(**LOYAL)
    with pytest.raises((TypeError, ValueError, IndexError), match=words):
        mine.fit(make_pipeline(*steps, model), X)
    assert not mine.ledger and not hasattr(steps[0], "n_features_in_")


def test_the_last_step_is_asked_about_what_it_will_see():
    mine = budget()
    three = record_wise(lambda row: np.repeat(row, 3, axis=1))
    model = NoisyLloyd(**LOYAL | {"center": [0.0, 0.0]})
    with pytest.raises(ValueError, match="center"):
        mine.fit(make_pipeline(FunctionTransformer(three), model), watched())
    ranged = PEMeans(2, epsilon=1.0, delta=1e-6, bounds=([0] * 6, [1] * 6), random_state=0)
    found = mine.fit(make_pipeline(FunctionTransformer(three), ranged), RNG.uniform(size=(300, 2)))
    assert found[-1].cluster_centers_.shape == (2, 6) and len(mine.ledger) == 1
    with pytest.raises(TypeError, match="two tables by name"):
        mine.fit(make_pipeline(SCALER(), NoisyAverageSet(t=3, epsilon=1.0, radius=1.0)), watched())
    with pytest.raises(BudgetExceeded):
        mine.fit(make_pipeline(SCALER(), clone(model).set_params(epsilon=99.0)), watched())
    with pytest.raises(ValueError, match="epsilon"):
        mine.fit(make_pipeline(SCALER(), clone(model).set_params(epsilon=None)), watched())
    assert len(mine.ledger) == 1


def test_a_refused_or_failed_fit_leaves_the_steps_as_they_were():
    mine, pipe = budget(), make_pipeline(SCALER(), NoisyLloyd(**LOYAL))
    broken = PEOPLE.copy()
    broken[7, 1] = np.nan
    with pytest.raises(UnreadableRecords) as caught:
        mine.fit(pipe, broken)
    assert mine.ledger[0].state == "failed"
    assert not hasattr(pipe[-1], "spent_")
    said = str(caught.value)
    with pytest.raises(UnreadableRecords) as caught:
        BoundedScaler(0, 1).fit(broken).transform(broken)
    assert str(caught.value) == said  # the scaler's own words


def test_every_fit_is_charged_and_settled_with_its_own_receipt():
    mine, pipe = budget(), make_pipeline(SCALER(), NoisyLloyd(**LOYAL))
    for n in (1, 2, 3):
        mine.fit(pipe, logged(PEOPLE))
        assert len(mine.ledger) == n and mine.ledger[-1].state == "settled"
        assert mine.receipts[-1].to_dict() == pipe[-1].spent_.to_dict()


@pytest.mark.parametrize("rule", ["low", "high", "middle", 60.0])
def test_missing_cells_count_as_declared(rule):
    broken = PEOPLE.copy()
    broken[::7, 0], broken[3, 1] = np.nan, np.inf
    pipe = make_pipeline(
        BoundedScaler(0.0, [120.0, 1e6], missing={0: rule, 1: "low"}), NoisyLloyd(**LOYAL)
    )
    found = budget().fit(pipe, broken)
    filled = broken.copy()
    filled[::7, 0] = {"low": 0.0, "high": 120.0, "middle": 60.0}.get(rule, rule)
    filled[3, 1] = 0.0
    rows = BoundedScaler(0.0, [120.0, 1e6]).fit_transform(filled)
    alone = NoisyLloyd(**LOYAL).fit(rows)
    assert np.array_equal(found[-1].cluster_centers_, alone.cluster_centers_)


@pytest.mark.parametrize("kind", [CovariateShiftClassifier, LabelShiftClassifier])
def test_sources_and_labels_go_to_the_last_step(kind):
    Xs, ys = by_hand(PEOPLE[:100]), (PEOPLE[:100, 0] > 50).astype(int)
    model = kind(epsilon=1.0, **({"delta": 1e-6} if kind is CovariateShiftClassifier else {}))
    model.set_params(random_state=0)
    mine, name = budget(), kind.__name__.lower()
    given = {f"{name}__Xs": Xs, f"{name}__ys": ys}
    pipe = mine.fit(make_pipeline(logs(), SCALER(), model), PEOPLE[100:], **given)
    alone = clone(model).fit(by_hand(PEOPLE[100:]), Xs=Xs, ys=ys)
    assert np.array_equal(pipe.predict(PEOPLE), alone.predict(by_hand(PEOPLE)))
    assert mine.receipts[0].to_dict() == alone.spent_.to_dict()
    inner = make_pipeline(SCALER(), clone(model))
    both = mine.fit(
        make_pipeline(logs(), inner),
        PEOPLE[100:],
        **{f"pipeline__{key}": value for key, value in given.items()},
    )
    assert np.array_equal(both.predict(PEOPLE), pipe.predict(PEOPLE)) and len(mine.ledger) == 2
    for wrong in (
        {"Xs": Xs},
        {"boundedscaler__y": ys},
        {},
        {f"{name}__Xs": Xs[:, :1], f"{name}__ys": ys},
    ):
        with pytest.raises((TypeError, ValueError), match="Xs|boundedscaler__y"):
            mine.fit(make_pipeline(SCALER(), clone(model)), watched(), **wrong)
    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises(TypeError, match="without metadata routing"):
            mine.fit(make_pipeline(SCALER(), clone(model)), watched(), **given)
    assert len(mine.ledger) == 2


def test_labels_that_are_too_few_are_refused_before_the_charge():
    mine = budget()
    model = LabelShiftClassifier(epsilon=1.0, random_state=0)
    given = {
        "labelshiftclassifier__Xs": by_hand(PEOPLE[:9]),
        "labelshiftclassifier__ys": [0, 1] * 4 + [1],
    }
    with pytest.raises(ValueError, match="length|label each"):
        mine.fit(make_pipeline(SCALER(), model), PEOPLE, [0, 1], **given)
    assert not mine.ledger


# --- declared functions ---


def test_a_function_sees_a_copy_of_one_record():
    seen = []

    def look(row):
        seen.append((row.shape, row.dtype, row.base, row.flags.owndata))
        row += 1  # of its own
        return row

    table = PEOPLE.copy()
    assert np.array_equal(record_wise(look)(table), PEOPLE + 1) and np.array_equal(table, PEOPLE)
    assert {*seen} == {((1, 2), np.dtype(float), None, True)} and len(seen) == 300 + 12


def test_what_fails_on_a_record_has_the_reach_of_the_record():
    out = io.StringIO()
    table = np.vstack([PEOPLE[:5], [[-1.0, 1.0], [30.0, -1.0], [np.nan, 1.0], [np.inf, 1.0]]])
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(out):
        warnings.simplefilter("always")
        found = record_wise(log_income, otherwise=[50.0, 4.5])(table)
    assert not caught and not out.getvalue()
    assert found[5:].tolist() == [[50, 4.5], [30, 4.5], [50, 0], [50, 0]]
    assert np.array_equal(found[:5], np.column_stack([table[:5, 0], np.log10(table[:5, 1])]))
    exits = record_wise(lambda row: exit() if row[0, 0] > 90 else row)
    assert exits(np.array([[91.0], [3.0]])).tolist() == [[0.0], [3.0]]
    shapes = record_wise(lambda row: row if row[0, 0] < 2000 else row[:, :1], otherwise=7.0)
    assert shapes(np.array([[3000.0, 1.0], [3.0, 2.0]])).tolist() == [[7.0, 7.0], [3.0, 2.0]]
    none = record_wise(log_income)(np.zeros((0, 2)))
    assert none.shape == (0, 2)


def counted(row, seen=[]):  # noqa: B006
    seen.append(row)
    return row * 0 + len(seen)


@pytest.mark.parametrize(
    "function",
    [counted, lambda row: row + np.random.default_rng().normal(), StandardScaler().fit_transform],
)
def test_a_function_that_remembers_or_draws_is_refused(function):
    if function == StandardScaler().fit_transform or "StandardScaler" in repr(function):
        # of one record alone it has nothing to tell
        assert np.all(record_wise(function)(PEOPLE) == 0)
        return
    mine = budget()
    with pytest.raises(ValueError, match="again with the same record"):
        mine.fit(
            make_pipeline(FunctionTransformer(record_wise(function)), NoisyLloyd(**LOYAL)),
            watched(),
        )
    assert not mine.ledger


def test_a_claim_to_be_total_is_not_believed():
    def mean(rows):
        return rows - rows.mean(axis=0)

    mean.is_total = True
    assert np.all(record_wise(mean)(PEOPLE) == 0)


def test_a_transformer_of_public_records_can_be_declared():
    known = StandardScaler().fit(PEOPLE[:50])  # PUBLIC here
    pipe = make_pipeline(FunctionTransformer(record_wise(known.transform)), NoisyLloyd(**LOYAL))
    found = budget().fit(pipe, PEOPLE[50:])
    alone = NoisyLloyd(**LOYAL).fit(known.transform(PEOPLE[50:]))
    assert np.allclose(found[-1].cluster_centers_, alone.cluster_centers_, atol=1e-9)


def test_a_declared_function_is_a_parameter_like_others():
    declared = record_wise(np.log10, otherwise=2.0)
    assert type(declared) is RecordWise and clone(FunctionTransformer(declared)).func is declared
    again = pickle.loads(pickle.dumps(declared))
    assert again.function is np.log10 and again == declared and "log10" in repr(declared)
    power = FunctionTransformer(record_wise(lambda row, p: row**p), kw_args={"p": 2})
    assert np.array_equal(power.fit_transform(PEOPLE), PEOPLE**2)
    with pytest.raises((AttributeError, TypeError)):
        declared.function = np.exp
    for wrong in (3, None):
        with pytest.raises(TypeError, match="function"):
            record_wise(wrong)
    for wrong in (np.nan, "a"):
        with pytest.raises((TypeError, ValueError), match="otherwise"):
            record_wise(np.log10, otherwise=wrong)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(), st.floats()), min_size=1, max_size=6),
    st.integers(0, 5),
    st.sampled_from(["plain", "columns", "the rest"]),
)
def test_images_of_neighbors_are_neighbors(rows, at, how):
    """What one record becomes does not depend on the others, to the last bit."""
    steps = clone(SAME[how](NoisyLloyd(**LOYAL)))[:-1]
    steps.steps[-1] = ("scaler", SCALER(missing="middle"))
    table = np.array(rows, dtype=float).reshape(-1, 2)
    at %= len(table)
    with np.errstate(all="ignore"):
        whole = steps.fit_transform(table)
        single = np.vstack([clone(steps).fit_transform(row[None]) for row in table])
        assert np.array_equal(whole, single)
        if len(table) > 1:
            fewer = clone(steps).fit_transform(np.delete(table, at, axis=0))
            assert np.array_equal(np.delete(whole, at, axis=0), fewer)


def test_k_tuples_and_a_memory_map_go_through(tmp_path):
    wide = RNG.normal(size=(4000, 2)) * 0.01 + RNG.choice([-0.5, 0.5], size=(4000, 1))
    np.save(tmp_path / "rows.npy", wide)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    model = KTupleKMeans(2, epsilon=2.0, delta=1e-6, radius=2.0, random_state=0)
    pipe = make_pipeline(BoundedScaler(-1, 1), model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = budget().fit(pipe, rows)
        alone = clone(model).fit(BoundedScaler(-1, 1).fit_transform(wide))
    assert np.array_equal(found[-1].cluster_centers_, alone.cluster_centers_)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.npy"]


def test_kinds_that_a_pipeline_cannot_take_are_refused_before_a_charge():
    """A np.matrix, and a pandas column that is sparse: both are public types."""
    pandas, budget = pytest.importorskip("pandas"), PrivacyBudget(epsilon=4.0, delta=1e-5)
    scaled = make_pipeline(
        BoundedScaler([0, 0], [1, 1]), NoisyLloyd(2, epsilon=1.0, delta=1e-6, radius=1.5)
    )
    with pytest.raises(TypeError, match="np.asarray"):
        budget.fit(scaled, np.matrix(np.ones((50, 2))))
    holes = pandas.DataFrame(
        {"a": [1.0] * 9, "b": pandas.arrays.SparseArray([1.0, np.nan, 0.0] * 3)}
    )
    chosen = ColumnTransformer([("b", FunctionTransformer(record_wise(lambda x: x)), ["b"])])
    with pytest.raises(TypeError, match="column 'b' is sparse"):
        budget.fit(make_pipeline(chosen, NoisyLloyd(2, epsilon=1.0, delta=1e-6, radius=1.5)), holes)
    assert budget.ledger == ()


def selected(step, names=(0, 1), **more):
    return ColumnTransformer([("s", step, list(names))], **more)


FORMS = {  # steps that are no list of named steps, and what is said of them
    "two steps of one name": ([("a", "S"), ("a", "M")], "two steps of Pipeline have the name 'a'"),
    "deeper": ([("a", [("b", "S"), ("b", "S")]), ("m", "M")], "two steps of Pipeline have the name 'b'"),
    "deeper at the end": ([("a", "S"), ("m", [("b", "S"), ("b", "M")])], "have the name 'b'"),
    "two underscores": ([("a__b", "S"), ("m", "M")], "cannot be the name"),
    "two underscores at the end": ([("a", "S"), ("m__b", "M")], "cannot be the name"),
    "a parameter": ([("steps", "S"), ("m", "M")], "'steps' cannot be the name"),
    "a number": ([(1, "S"), ("m", "M")], "1 cannot be the name"),
    "nothing": ([], "needs a list of steps"),
    "None": (None, "needs a list of steps"),
    "no names": (["S", "M"], "needs a list of steps"),
    "triples": ([("a", "S", 1), ("m", "M")], "needs a list of steps"),
    "a mapping": ({"a": "S"}, "needs a list of steps"),
}  # fmt: skip


def pipeline_of(steps):
    """A pipeline of steps of which the words S and M stand for a scaler and a model."""
    known = {"S": SCALER(), "M": NoisyLloyd(**LOYAL)}

    def made(one):
        if isinstance(one, list):
            return pipeline_of(one)
        return known.get(one, one) if isinstance(one, str) else one

    if not isinstance(steps, list):
        return Pipeline(steps)
    pairs = [tuple(map(made, one)) if isinstance(one, tuple) else known[one] for one in steps]
    return Pipeline(pairs)


@pytest.mark.parametrize("name", FORMS)
def test_a_malformed_pipeline_is_refused_in_our_words_wherever_a_budget_is_shown_one(name):
    steps, words = FORMS[name]
    mine, grid = budget(), {"m__n_clusters": [1]}
    for asked in (
        lambda pipe: mine.quote(pipe),
        lambda pipe: mine.fits(pipe),
        lambda pipe: mine.fit(pipe, watched()),
        lambda pipe: mine.parallel(
            {"x": (NoisyLloyd(**LOYAL), PEOPLE), "y": (pipe, np.array(PEOPLE))}
        ),
        lambda pipe: mine.search(pipe, grid, watched(), epsilon=0.1),
    ):
        with pytest.raises((TypeError, ValueError), match=f"a pipeline in a budget: .*{words}"):
            asked(pipeline_of(steps))
    assert not mine.ledger


IMPOSSIBLE = {
    "none": (selected(SCALER(), []), "pass no column on"),
    "dropped": (selected("drop"), "pass no column on"),
    "a mask of none": (selected(SCALER(), [False, False]), "pass no column on"),
    "pairs": (ColumnTransformer([("s", SCALER())]), "needs a list of steps, each of them"),
    "one name twice": (
        ColumnTransformer([("s", BoundedScaler(0, 1), [0]), ("s", BoundedScaler(0, 1), [1])]),
        "two steps of ColumnTransformer",
    ),
    "names of an array": (selected(SCALER(), ["a", "b"]), "fail on one public record.*ValueError"),
    "a weight that is a word": (selected(SCALER(), transformer_weights={"s": "x"}), "finite"),
    "a weight of NaN": (selected(SCALER(), transformer_weights={"s": np.nan}), "finite"),
    "an infinite weight": (selected(SCALER(), transformer_weights={"s": np.inf}), "finite"),
    "a weight of no step": (selected(SCALER(), transformer_weights={"z": 1}), "finite"),
    "no mapping of weights": (selected(SCALER(), transformer_weights=[1]), "finite"),
    "too large a product": (
        selected(
            FunctionTransformer(record_wise(lambda row: row + 1e300)),
            transformer_weights={"s": 1e300},
        ),
        "not finite of a public record",
    ),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_columns_or_weights_are_refused_in_our_words_before_the_charge(name):
    step, words = IMPOSSIBLE[name]
    mine = budget()
    with pytest.raises((TypeError, ValueError), match=f"a pipeline in a budget.*{words}"):
        mine.fit(make_pipeline(step, NoisyLloyd(**LOYAL)), watched())
    nested = make_pipeline(make_pipeline(step), NoisyLloyd(**LOYAL))
    with pytest.raises((TypeError, ValueError), match=f"a pipeline in a budget.*{words}"):
        mine.fit(nested, watched())
    assert not mine.ledger


def test_a_scaler_of_no_column_next_to_another_is_no_step():
    both = ColumnTransformer([("s", SCALER(), [0, 1]), ("none", SCALER(), [])])
    mine, alone = budget(), budget()
    fitted = mine.fit(make_pipeline(both, NoisyLloyd(**LOYAL)), PEOPLE)
    other = alone.fit(make_pipeline(SCALER(), NoisyLloyd(**LOYAL)), PEOPLE)
    assert np.array_equal(fitted[-1].cluster_centers_, other[-1].cluster_centers_)


def test_a_second_table_is_passed_by_name():
    mine = budget()
    for tables in ((watched(), None, watched()), ()):
        with pytest.raises(TypeError, match="fitted to one table X.*noisylloyd__Xs="):
            mine.fit(make_pipeline(SCALER(), NoisyLloyd(**LOYAL)), *tables)
    assert not mine.ledger


# ---------------------------------------------------------------- tried once


def test_a_function_is_tried_on_public_records_once_before_the_charge():
    """Later it could tell what it has seen: its answers about public records, and the doubts, stay those of the first call."""
    rows, seen = PEOPLE / 1000.0, []

    def count(row):
        seen.append(row.copy())
        return row * (0.0 if len(seen) > 100 else 0.01)  # a state: later all are zeros

    step, budget = record_wise(count), PrivacyBudget(epsilon=4.0, delta=1e-4)
    pipe = make_pipeline(FunctionTransformer(step), PEMeans(**LOYAL))
    told = []
    for n_public in (10 + 2 + 1, 1):  # each twice, then until two differ; and the record of zeros
        before = len(seen)
        with warnings.catch_warnings(record=True, action="always") as heard:
            budget.fit(pipe, rows)
        assert len(seen) - before == n_public + len(rows)
        told.append([str(one.message) for one in heard if "record_wise" in str(one.message)])
    assert told == [[], []] and len(budget.ledger) == 2
    before = len(seen)
    pipe.predict(rows)
    assert len(seen) - before == len(rows)


def test_a_function_is_tried_again_for_other_columns_and_arguments():
    calls = []

    def scaled(row, by=1.0):
        calls.append(by)
        return row * by

    step, rows = record_wise(scaled), np.ones((3, 2))
    step(rows), step(rows)
    tried = len(calls) - 6
    for more in ({"X": rows[:, :1]}, {"X": rows, "by": np.full(2, 2.0)}):
        calls.clear()
        step(**more)
        assert len(calls) == tried + 3
        calls.clear()
        step(**more)
        assert len(calls) == 3
    assert step == record_wise(scaled) and repr(step) == repr(record_wise(scaled))
    copied = clone(FunctionTransformer(step, kw_args={"by": np.full(2, 2.0)}))
    calls.clear()
    copied.fit_transform(rows)
    assert len(calls) == 3  # a clone is the same function


def test_a_doubt_about_a_function_is_said_at_each_fit_though_it_is_tried_once():
    pipe = make_pipeline(FunctionTransformer(record_wise(np.zeros_like)), PEMeans(**LOYAL))
    budget = PrivacyBudget(epsilon=4.0, delta=1e-4)
    for _ in range(2):
        with pytest.warns(match="the same for each of 40 different public records"):
            budget.fit(pipe, PEOPLE / 1000.0, accept_doubts=True)
        with pytest.raises(ValueError, match="the same for each of 40 different public records"):
            budget.fit(pipe, PEOPLE / 1000.0)


def test_a_class_among_the_steps_is_refused_in_our_words():
    """Also by a search, which asks a pipeline for its parameters."""
    budget = PrivacyBudget(epsilon=4.0, delta=1e-5)
    for pipe in (
        Pipeline([("a", BoundedScaler), ("b", PEMeans(**LOYAL))]),
        Pipeline([("a", SCALER()), ("b", PEMeans)]),
        Pipeline([("i", Pipeline([("a", BoundedScaler)])), ("b", PEMeans(**LOYAL))]),
        Pipeline([("a", ColumnTransformer([("s", BoundedScaler, [0])])), ("b", PEMeans(**LOYAL))]),
    ):
        for ask in (
            lambda: budget.fit(pipe, PEOPLE),  # noqa: B023
            lambda: budget.quote(pipe),  # noqa: B023
            lambda: budget.parallel({"a": (pipe, PEOPLE)}),  # noqa: B023
            lambda: budget.search(pipe, {"b__n_clusters": [1, 2]}, PEOPLE, epsilon=0.1, bound=9),  # noqa: B023
        ):
            with pytest.raises(TypeError, match="is a class: construct it"):
                ask()
    assert not budget.ledger


@pytest.mark.parametrize("otherwise", [np.inf, -np.inf, np.nan, [0.0, np.inf], 1e200])
def test_otherwise_is_a_finite_number(otherwise):
    """An infinite one would be refused with the table, after the charge, if the function fails on a record."""
    with pytest.raises(ValueError, match="otherwise=.*record_wise needs a number in"):
        record_wise(np.log, otherwise=otherwise)


def test_a_scorer_that_ends_the_program_is_refused_on_a_public_record():
    budget = PrivacyBudget(epsilon=4.0, delta=1e-5)
    with pytest.raises(ValueError, match="the scorer fails on a public record: SystemExit"):
        budget.search(
            PEMeans(**LOYAL), {"n_clusters": [1, 2]}, PEOPLE, epsilon=0.1, bound=9,
            scorer=lambda model, rows: exit(),
        )  # fmt: skip
    assert not budget.ledger


def test_a_class_of_tables_is_no_table():
    budget = PrivacyBudget(epsilon=4.0, delta=1e-5)
    pandas = pytest.importorskip("pandas")
    for kind in (pandas.DataFrame, np.ndarray, list):
        with pytest.raises(TypeError, match=f"It is the class {kind.__name__}, not an object"):
            budget.fit(PEMeans(**LOYAL), kind)
    assert not budget.ledger


NOT_DECLARED = {
    "an estimator of all records": StandardScaler(),
    "a function of tables": FunctionTransformer(np.log1p),
    "columns that pass on": ColumnTransformer([("s", SCALER(), [0, 1])], remainder="passthrough"),
}


@pytest.mark.parametrize("name", NOT_DECLARED)
def test_a_refusal_says_where_record_wise_comes_from(name):
    """Mutation: the name alone."""
    budget = PrivacyBudget(4.0, 1e-5)
    with pytest.raises(TypeError, match="from dplit.ledger import record_wise"):
        budget.fit(make_pipeline(NOT_DECLARED[name], NoisyLloyd(**LOYAL)), PEOPLE)
    assert not budget.ledger


@pytest.mark.parametrize("missing", ["drop", {0: "drop"}])
@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_no_step_drops_records(missing, neighboring):
    """Mutation: what SECURITY.md says of Python is not so."""
    budget = PrivacyBudget(4.0, 1e-5)
    model = NoisyLloyd(**LOYAL, neighboring=neighboring)
    with pytest.raises(ValueError, match='missing="drop": BoundedScaler does not know'):
        budget.fit(make_pipeline(SCALER(missing=missing), model), PEOPLE)
    assert not budget.ledger


def category(cells):
    """A column whose type takes the kind of its values from these cells, as `read_csv(dtype="category")` makes one."""
    return pd.DataFrame({"a": pd.Categorical(cells)})


NUMBERS_IN_A_CATEGORY = [[], [0.5], [0.5, 10**400], [0.5, Decimal("0.1")], [True, 0.5]]
UNREADABLE_IN_A_CATEGORY = [["x"], ["x", 0.5], [1j, 0.5], [pd.Timestamp(0)], [None, "x"]]
OF_A_CATEGORY = {
    "direct": lambda: PEMeans(2, epsilon=1.0, delta=1e-6, radius=1.0),
    "record-wise": lambda: make_pipeline(
        FunctionTransformer(record_wise(np.sin)), PEMeans(2, epsilon=1.0, delta=1e-6, radius=1.0)
    ),
    "a rule for missing cells": lambda: make_pipeline(
        BoundedScaler(0.0, 3.0, missing="low"), PEMeans(2, epsilon=1.0, delta=1e-6, radius=1.0)
    ),
    "a list": lambda: make_pipeline(
        BoundedScaler(categories={"a": ["x", "y"]}, weight={"a": 1.0}),
        PEMeans(2, epsilon=1.0, delta=1e-6, radius=1.0),
    ),
}


def shown_by(fit):
    """What an adversary sees of a charge, apart from what is released."""
    budget = PrivacyBudget(4.0, 1e-4)
    with warnings.catch_warnings(record=True, action="always") as heard:
        try:
            fit(budget)
            error = ""
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
    return error, [str(one.message) for one in heard], [row.state for row in budget.ledger]


@pytest.mark.parametrize("how", OF_A_CATEGORY)
@pytest.mark.parametrize("accept_doubts", [False, True])
@pytest.mark.parametrize(
    "cells", [NUMBERS_IN_A_CATEGORY, UNREADABLE_IN_A_CATEGORY], ids=["numbers", "others"]
)
def test_the_type_of_a_category_tells_nothing_about_its_cells(how, accept_doubts, cells):
    """pandas infers it from the cells: complex numbers, dates and words were refused before the charge, each in other words."""
    seen = [
        shown_by(
            lambda b, c=c: b.fit(OF_A_CATEGORY[how](), category(c), accept_doubts=accept_doubts)
        )
        for c in cells
    ]
    assert all(one == seen[0] for one in seen), seen


@pytest.mark.parametrize(
    "cells", [[0, 1, 1], ["x"] * 3, [0, "x", 1j], [pd.Timestamp(0)] * 3, [b"x", 1, 0]]
)
def test_labels_of_a_category_are_treated_alike_whatever_they_are(cells):
    """Where numbers are needed they are a doubt, since they may be words; accepted, each is answered."""
    rng = np.random.default_rng(0)
    Xs, labels = rng.normal(size=(60, 1)), pd.Series(pd.Categorical(cells))
    for classes, stops in ((np.array([0, 1]), True), (np.array(["x", "y"]), False)):
        public = {"Xs": Xs, "ys": classes[(Xs[:, 0] > 0).astype(int)]}
        for accepted in (False, True):
            error, _, states = shown_by(
                lambda b, public=public, accepted=accepted: b.fit(
                    LabelShiftClassifier(epsilon=1.0),
                    np.zeros((3, 1)),
                    labels,
                    **public,
                    accept_doubts=accepted,
                )
            )
            assert ("may hold words" in error) == (stops and not accepted)
            assert states == ([] if error else ["settled"])


@pytest.mark.parametrize("kind", ["dask", "array_api_strict"])
def test_a_step_that_takes_no_such_array_is_refused_before_the_charge(kind):
    """It was charged, and failed in the step; a scaler takes both."""
    library = pytest.importorskip({"dask": "dask.array"}.get(kind, kind))
    X = library.asarray(np.full((9, 2), 0.5))
    model = partial(PEMeans, 2, epsilon=1.0, delta=1e-6, radius=2**0.5)
    whole = ColumnTransformer([("all", BoundedScaler(0, 1), [0, 1])])
    for step in (FunctionTransformer(record_wise(np.sin)), whole):
        budget = PrivacyBudget(4.0, 1e-4)
        with pytest.raises(TypeError, match="X is a (dask array|tensor)"):
            budget.fit(make_pipeline(step, model()), X)
        assert not budget.ledger
    assert budget.fit(make_pipeline(BoundedScaler(0, 1), model()), X)


# ---------------------------------------------------------------- estimators of other people


class Own:
    """One of another package: what it costs, and a fit of one table."""

    def privacy_cost(self):
        return PrivacyCost(
            name="Own", epsilon=0.5, delta=0.0, neighboring="add_remove", is_upper_bound=True
        )

    def fit(self, X):
        return self


class Unfit:
    privacy_cost = Own.privacy_cost


CALLS = {
    "no table": lambda b, X: b.fit(Own()),
    "another name": lambda b, X: b.fit(Own(), X, sample_weight=1),
    "one too many": lambda b, X: b.fit(Own(), X, X),
    "no fit": lambda b, X: b.fit(Unfit(), X),
    "in a pipeline": lambda b, X: b.fit(make_pipeline(BoundedScaler(0, 1), Unfit()), X),
    "labels in a pipeline": lambda b, X: b.fit(make_pipeline(BoundedScaler(0, 1), Own()), X, X[:, 0]),
    "in parallel": lambda b, X: b.parallel({"a": (Own(), X), "b": (Unfit(), X.copy())}),
    "one too many in parallel": lambda b, X: b.parallel({"a": (Own(), X), "b": (Own(), X.copy(), X[:, 0].copy())}),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_that_no_fit_takes_is_refused_before_the_charge(call):
    """The signature of our estimators was looked at, and that of others after the charge."""
    budget = PrivacyBudget(4.0, 1e-5)
    with pytest.raises((TypeError, AttributeError)):
        call(budget, np.full((9, 2), 0.5))
    assert not budget.ledger
    budget.fit(Own(), np.zeros((3, 2)))
    assert len(budget.ledger) == 1


@pytest.mark.parametrize("make", [PEMeans, NoisyLloyd, GridKMeans])
def test_a_word_in_place_of_labels_is_no_label_of_the_charge(make):
    budget = PrivacyBudget(4.0, 1e-5)
    given = {"bounds": ([0, 0], [1, 1])} | ({} if make is GridKMeans else {"delta": 1e-6})
    with pytest.raises(TypeError, match="pass the label of a charge by name, label="):
        budget.fit(make(2, epsilon=1.0, **given), np.full((9, 2), 0.5), "2026")
    assert not budget.ledger


def test_a_scaler_of_some_columns_after_others_that_no_scaler_made_is_no_error():
    """The ends of all columns, none of them known, were compared with those of some."""
    half = record_wise(lambda row: row / 2)
    first = ColumnTransformer([("a", FunctionTransformer(half), [0, 1, 2]), ("b", FunctionTransformer(half), [3, 4])])  # fmt: skip
    then = ColumnTransformer([("s", BoundedScaler(-3.0, 3.0), [0, 1, 2]), ("t", make_pipeline(BoundedScaler(-3.0, 3.0)), [4])])  # fmt: skip
    rows, budget = RNG.uniform(-1, 1, (60, 5)), PrivacyBudget(4.0, 1e-5)
    budget.fit(make_pipeline(first, then, PEMeans(2, epsilon=1.0, delta=1e-6, radius=2.0)), rows)
    assert len(budget.ledger) == 1
