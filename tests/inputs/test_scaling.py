"""Ranges for each column: what a scaler reads, refuses, and hands back."""

import copy
import doctest
import math
import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from dplit import (
    GridKMeans,
    HDPEMeans,
    KTupleGaussianMixture,
    KTupleKMeans,
    MaxCoverKMeans,
    NoisyLloyd,
    PEMeans,
    PrivacyBudget,
)
from dplit.audit import neighbors, replay
from dplit.inputs import BoundedScaler, Box, Column, UnreadableRecords
from dplit.inputs import columns as inputs_columns
from dplit.inputs.columns import category_radius
from dplit.ledger import choose_n_clusters, squared_distances
from dplit.mechanisms import private_loss

NAN, INF = float("nan"), float("inf")
# what scikit-learn expects of a fit that reads cells; this one reads names
UNREAD = "fit reads no cell; transform refuses it"
READS_NOTHING = dict.fromkeys(
    [
        "check_dtype_object",
        "check_estimators_empty_data_messages",
        "check_estimators_nan_inf",
    ],
    UNREAD,
)
PEOPLE = {"age": [31.5, 77.25, -3.0], "income": [41e3, 2e6, 0.5], "region": ["north", "east", None]}
RANGES = {"low": {"age": 0, "income": 0}, "high": {"age": 120, "income": 2e5}}
REGION = {"region": ["north", "south"]}
SCALED = [[-0.475, -0.59], [0.2875, 1.0], [-1.0, -0.999995]]


@parametrize_with_checks([BoundedScaler(-1, 1)], expected_failed_checks=lambda _: READS_NOTHING)
def test_scikit_learn_objects_to_nothing_but_that_fit_reads_nothing(estimator, check):
    check(estimator)


def frame(kind, columns=("age", "income")):
    return pytest.importorskip(kind).DataFrame({name: PEOPLE[name] for name in columns})


class Secret:
    """A cell that must not be read by fit."""

    def __float__(self):
        raise AssertionError("read")

    __array__ = __eq__ = __hash__ = __str__ = __repr__ = __float__


def secret_frame(columns):
    cells = np.full((3, len(columns)), None, dtype=object)
    cells.fill(Secret())
    return pytest.importorskip("pandas").DataFrame(cells, columns=columns)


# ---------------------------------------------------------------- what it computes


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_columns_of_a_frame_are_found_by_name(kind):
    table = frame(kind)
    swapped = {end: dict(reversed(ends.items())) for end, ends in RANGES.items()}
    for ranges in (RANGES, swapped, {"low": 0, "high": [120, 2e5]}):
        scaler = BoundedScaler(**ranges).fit(table)
        assert np.allclose(scaler.transform(table), SCALED, rtol=0, atol=1e-15)
    assert scaler.get_feature_names_out().tolist() == ["age", "income"]
    with pytest.raises(ValueError, match="same order"):
        scaler.transform(table[["income", "age"]])


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_categories_become_one_column_for_each_value(kind):
    table = frame(kind, ("region", "age"))
    scaler = BoundedScaler({"age": 0}, {"age": 120}, categories=REGION).fit(table)
    s = 1 / math.sqrt(2) / 4  # the weight of a list, if nothing else is declared
    found = scaler.transform(table)
    assert np.allclose(found[:, :2], [[s, -s], [-s, -s], [-s, -s]], rtol=0, atol=1e-15)
    assert np.allclose(found[:, 2], np.array(SCALED)[:, 0])
    assert scaler.get_feature_names_out().tolist() == ["region=north", "region=south", "age"]
    assert scaler.inverse_transform(found).tolist() == [["north", 31.5], [None, 77.25], [None, 0.0]]
    assert scaler.in_units(found)[0].tolist() == [1.0, 0.0, 31.5]
    assert scaler.columns_ == (
        Column("region", values=("north", "south"), weight=0.25),
        Column("age", 0.0, 120.0),
    )
    for container in ("pandas", "polars"):
        pytest.importorskip(container)
        shown = scaler.set_output(transform=container).transform(table)
        assert list(shown.columns) == scaler.get_feature_names_out().tolist()


def test_categories_of_arrays_are_found_by_position():
    rows = np.array([*PEOPLE.values()], dtype=object).T
    scaler = BoundedScaler([0, 0], [120, 2e5], categories={2: ["north", "south"]}).fit(rows)
    assert np.array_equal(scaler.transform(rows), scaler.transform(rows.tolist()))
    assert scaler.get_feature_names_out(["a", "b", "c"])[2] == "c=north"
    only = BoundedScaler(categories={0: ["north", 7, 1.5]}).fit(rows[:, 2:])
    assert only.inverse_transform(only.transform([[7.0], ["north"], [[]], [None]])).tolist() == [
        [7],
        ["north"],
        [None],
        [None],
    ]


def table_of(kinds, ends, rng):
    """(scaler, rows) of a random table: 0 is a range, m a category of m values."""
    low = {j: end[0] for j, end in enumerate(ends) if not kinds[j]}
    high = {j: end[0] + end[1] for j, end in enumerate(ends) if not kinds[j]}
    categories = {j: [f"v{i}" for i in range(m)] for j, m in enumerate(kinds) if m}
    columns = [
        rng.choice([f"v{i}" for i in range(m + 1)], 40)
        if m
        else ends[j][0] + ends[j][1] * rng.normal(0.5, 1, 40)
        for j, m in enumerate(kinds)
    ]
    rows = np.array([np.asarray(c, dtype=object) for c in columns], dtype=object).T
    return BoundedScaler(low, high, categories=categories or None).fit(rows), rows


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_every_row_lies_in_the_ball_by_itself_and_some_row_on_its_sphere(kinds, seed):
    rng = np.random.default_rng(seed)
    ends = [
        (rng.normal() * 10.0 ** rng.integers(-3, 9), 10.0 ** rng.integers(-3, 9)) for _ in kinds
    ]
    scaler, rows = table_of(kinds, ends, rng)
    scaled = scaler.transform(rows)
    lengths = np.linalg.norm(scaled, axis=1)
    assert np.all(lengths <= scaler.radius_ * (1 + 1e-12))
    alone = np.vstack([scaler.transform(row[None]) for row in rows])
    assert np.array_equal(scaled, alone) and np.array_equal(
        scaler.transform(rows[::-1]), scaled[::-1]
    )
    extreme = np.array([["v0" if m else ends[j][0] for j, m in enumerate(kinds)]], dtype=object)
    farthest = np.linalg.norm(scaler.transform(extreme))
    assert farthest == pytest.approx(scaler.radius_, rel=1e-9)
    back = scaler.inverse_transform(scaled)
    for j, m in enumerate(kinds):
        if m:
            known = np.where(rows[:, j] == f"v{m}", None, rows[:, j])
            assert np.array_equal(back[:, j], known)
        else:
            low, high = scaler.columns_[j].low, scaler.columns_[j].high
            cells, found = np.clip(rows[:, j].astype(float), low, high), back[:, j].astype(float)
            assert np.all((low <= found) & (found <= high))
            assert np.allclose(found, cells, rtol=1e-12, atol=1e-9 * (high - low))


def test_the_ball_of_a_category_is_the_smallest():
    """By the farthest point from any other centre, on a grid around the origin."""
    for m in (1, 2, 3, 7):
        s, a = inputs_columns.stretch(m)
        points = s * (np.eye(m + 1, m) - a)
        assert np.linalg.norm(points, axis=1).max() == pytest.approx(category_radius(m), rel=1e-12)
        for step in (1e-3, -1e-3, 0.5):
            moved = points - step * np.eye(m)[0]
            assert np.linalg.norm(moved, axis=1).max() > category_radius(m)


def test_all_ranges_at_the_ends_of_what_floats_hold():
    rows = np.array([[1e300, -1e300], [0.0, 5e-324]])
    for low, high in ((-1e90, 1e90), (0.0, 1e-90), (1e89, 1e90)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            scaled = BoundedScaler(low, high).fit(rows).transform(rows)
        assert np.all(abs(scaled) <= 1) and np.isfinite(scaled).all()


def test_a_dask_array_stays_one():
    array = pytest.importorskip("dask.array")
    X = np.random.default_rng(0).normal(size=(100, 3))
    parts = BoundedScaler(-1, 1).fit_transform(array.from_array(X, chunks=(30, 3)))
    assert not isinstance(parts, np.ndarray)
    assert np.array_equal(parts.compute(), BoundedScaler(-1, 1).fit_transform(X))


# ---------------------------------------------------------------- what it refuses, and what it never says


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        ({"age": 0}, {"age": 120, "income": 2e5}, "income"),
        ({"age": 0, "income": 0}, {"age": 120}, "income"),
        ({"age": 0, "income": 0, "height": 0}, 9, "height"),
        ({"age": 120, "income": 0}, {"age": 0, "income": 2e5}, "age"),
        ({"age": 120, "income": 0}, {"age": 120, "income": 2e5}, "age"),
        ({"age": 0, "income": NAN}, {"age": 120, "income": 2e5}, "income"),
        ({"age": 0, "income": 0}, {"age": INF, "income": 2e5}, "age"),
        ({"age": -1e91, "income": 0}, {"age": 120, "income": 2e5}, "age"),
        ({"age": "0", "income": 0}, {"age": 120, "income": 2e5}, "age"),
        ({"age": 0, "income": None}, {"age": 120, "income": 2e5}, "income"),
        ([0, 1], [9, 1], "income"),
        ([0, 1e16], [9, 1e16 + 2], "income"),
        ([0], [1, 2], "low"),
        ([0, 0], "ab", "high"),
        (None, [1, 2], "low"),
        (0, None, "high"),
    ],
)
def test_an_impossible_bound_is_refused_in_the_name_of_its_column(low, high, told):
    secret = secret_frame(["age", "income"])
    scaler = BoundedScaler(low, high)
    with pytest.raises((TypeError, ValueError), match=told) as caught:
        scaler.fit(secret)
    assert "\n" not in str(caught.value) and not hasattr(scaler, "radius_")


@pytest.mark.parametrize(
    "values", [[], "north", ["a", "a"], [None], [NAN], [["a"]], [1, True], None, {"a": 1}]
)
def test_an_impossible_list_of_values_is_refused(values):
    table = frame("pandas", ("region", "age"))
    with pytest.raises(ValueError, match="region"):
        BoundedScaler(0, 9, categories={"region": values}).fit(table)


def test_other_misuse_is_refused():
    table = frame("pandas", ("region", "age"))
    for other, told in (
        ({"categories": {"land": ["a"]}}, "land"),
        ({"categories": ["a"]}, "categories"),
        ({"low": {"region": 0, "age": 0}, "categories": REGION}, "region"),
    ):
        with pytest.raises((TypeError, ValueError), match=told):
            BoundedScaler(**{"low": 0, "high": 9, **other}).fit(table)
    twice = pytest.importorskip("pandas").DataFrame(np.ones((3, 2)), columns=["a", "a"])
    with pytest.raises(ValueError, match="two columns|unique column"):
        BoundedScaler(0, 9).fit(twice)
    with pytest.raises(NotFittedError):
        BoundedScaler(0, 9).transform(np.ones((3, 2)))
    with pytest.raises(ValueError, match="shape"):
        BoundedScaler(0, 9).fit(np.ones((3, 2))).in_units(np.ones((3, 3)))


def test_fit_reads_no_cell():
    table = secret_frame(["region", "age"])
    scaler = BoundedScaler({"age": 0}, {"age": 9}, categories=REGION).fit(table)
    fitted = {name for name in vars(scaler) if name.endswith("_")}
    own = {"radius_", "columns_"}
    assert fitted == own | {"n_features_in_", "feature_names_in_"}


@pytest.mark.parametrize("categories", [None, {2: ["north"]}])
def test_a_finite_cell_beyond_float64_counts_as_the_end_of_its_range(categories):
    rows = np.array([[31.5, 41e3, 7.125], [10**400, -(10**400), 7.125]], dtype=object)
    scaler = BoundedScaler(0, 100, categories=categories).fit(rows)
    assert scaler.transform(rows)[1, :2].tolist() == [1.0, -1.0]


@pytest.mark.parametrize("cell", [NAN, INF, None, "31.5 years", 1j])
@pytest.mark.parametrize("categories", [None, {2: ["north"]}])
def test_a_cell_that_is_no_number_is_refused_and_not_quoted(cell, categories):
    rows = np.array([[31.5, 41e3, 7.125], [77.25, 2e6, 7.125]], dtype=object)
    scaler = BoundedScaler(0, 100, categories=categories).fit(rows)
    rows[1, 0] = cell
    with pytest.raises((TypeError, ValueError)) as caught:
        scaler.transform(rows)
    error = caught.value
    assert error.__cause__ is None and error.__context__ is None
    for private in ("77.25", "31.5", "years", "41", "7.125", "400"):
        assert private not in str(error)
    masked = np.ma.masked_array(np.ones((2, 3)), mask=np.eye(2, 3))
    with pytest.raises(ValueError, match="masked"):
        scaler.transform(masked)


def test_a_cell_that_stands_in_no_list_passes_in_silence():
    table = frame("pandas", ("region", "age"))
    scaler = BoundedScaler({"age": 0}, {"age": 120}, categories=REGION).fit(table)
    odd = table.copy()
    odd["region"] = [[], {"a": 1}, "elsewhere"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = scaler.transform(odd)
    assert len({tuple(row) for row in scaled[:, :2].tolist()}) == 1


def test_neighbors_see_the_same_scaler():
    """Whatever the rows are: attributes, pickles and the other rows' images are the same to the last bit."""
    X = np.random.default_rng(0).normal(size=(30, 2))
    other = np.r_[X[:-1], [[1e9, -1e9]]]
    one, two = (BoundedScaler(-2, 2).fit(rows) for rows in (X, other))
    assert pickle.dumps(one) == pickle.dumps(two)
    assert np.array_equal(one.transform(X)[:-1], two.transform(other)[:-1])
    again = copy.deepcopy(one)
    assert np.array_equal(again.transform(X), one.transform(X)) and not hasattr(
        clone(one), "radius_"
    )


# ---------------------------------------------------------------- in use


def test_scaled_rows_go_into_an_estimator_and_centers_come_back():
    """At epsilon 1 the ages of 2 x 2,000 people are found within 3 years; in all seeds 0 to 99 within 2.2."""
    rng = np.random.default_rng(0)
    people = np.r_[
        np.c_[rng.normal(30, 5, 2000), rng.normal(40e3, 9e3, 2000)],
        np.c_[rng.normal(70, 5, 2000), rng.normal(60e3, 9e3, 2000)],
    ]
    scaler = BoundedScaler([0, 0], [120, 2e5]).fit(people)
    model = PEMeans(2, epsilon=1.0, delta=1e-6, radius=scaler.radius_, random_state=0)
    centers = scaler.in_units(make_pipeline(scaler, model).fit(people)[-1].cluster_centers_)
    assert np.allclose(np.sort(centers[:, 0]), [30, 70], atol=3)


def test_examples_print_what_they_say():
    for example in doctest.DocTestFinder(recurse=False).find(BoundedScaler):
        assert doctest.DocTestRunner().run(example).failed == 0


def test_a_box_without_a_table():
    box = Box.of({"a": 0, "b": 1}, {"a": 1, "b": 3}, "me")
    assert box.low.tolist() == [0, 1] and box.radius == math.sqrt(2)
    assert Box.of(0, [1, 2], "me").low.tolist() == [0, 0] and Box.of(0, 1, "me").radius == 1
    with pytest.raises(ValueError, match="'c'"):
        Box.of({"a": 0}, {"a": 1, "c": 2}, "me")
    with pytest.raises(ValueError, match="'b'"):
        Box.of({"a": 0, "b": 0}, {"a": 1}, "me")


# ---------------------------------------------------------------- ranges as a parameter of k-means

PRICE = {"n_clusters": 2, "epsilon": 2.0, "delta": 1e-6, "random_state": 0}
START = [[30.0, 40e3], [70.0, 60e3]]
MAKERS = [
    NoisyLloyd,
    *(partial(kind, init=START) for kind in (NoisyLloyd, MaxCoverKMeans, PEMeans)),
    GridKMeans,
    MaxCoverKMeans,
    PEMeans,
    HDPEMeans,
    KTupleKMeans,
    KTupleGaussianMixture,
    partial(PEMeans, variant="paper", n_public=4000),
    partial(MaxCoverKMeans, variant="paper", n_public=4000, finest=0.2),
]
LOW, HIGH = np.array([0.0, 0.0]), np.array([120.0, 2e5])
makers = pytest.mark.parametrize("make", MAKERS)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    young, old = (
        rng.normal([30, 40e3], [5, 9e3], (2000, 2)),
        rng.normal([70, 60e3], [5, 9e3], (2000, 2)),
    )
    return np.r_[young, old]


@makers
def test_bounds_are_the_scaler_the_ball_and_the_way_back(make, people):
    model = make(**PRICE, bounds=(LOW, HIGH)).fit(people)
    scaler = BoundedScaler(LOW, HIGH).fit(people)
    by_hand = make(**PRICE, radius=scaler.radius_)
    if isinstance(by_hand, GridKMeans):  # its cells are those of the cube, not of a ball
        by_hand.set_params(radius=None, bounds=(-1.0, 1.0))
    if not isinstance(getattr(by_hand, "init", None), str | None):
        by_hand.set_params(init=scaler.transform(by_hand.init))
    by_hand.fit(scaler.transform(people))
    assert np.array_equal(model.cluster_centers_, scaler.in_units(by_hand.cluster_centers_))
    assert np.all((LOW <= model.cluster_centers_) & (model.cluster_centers_ <= HIGH))
    assert str(model.spent_) == str(by_hand.spent_)
    if model.cluster_sizes_ is not None:
        assert np.array_equal(model.cluster_sizes_, by_hand.cluster_sizes_)
    if hasattr(model, "covariances_"):
        half = (HIGH - LOW) / 2
        back = model.covariances_ / (half[:, None] * half)
        assert np.allclose(back, by_hand.covariances_, rtol=1e-9, atol=1e-12)
    centers = scaler.transform(model.cluster_centers_)
    nearest = ((scaler.transform(people)[:, None] - centers) ** 2).sum(axis=2)
    assert np.array_equal(model.predict(people), nearest.argmin(axis=1))
    assert model.score(people) == pytest.approx(-nearest.min(axis=1).sum(), rel=1e-9)
    assert model.get_params()["bounds"][0] is LOW and model.get_params()["radius"] is None
    again = clone(model).fit(people)
    assert np.array_equal(again.cluster_centers_, model.cluster_centers_)


@makers
def test_the_unit_of_a_column_does_not_matter(make, people):
    """Powers of two change no bit on the way into the cube."""
    unit = np.array([2.0**-6, 2.0**11])
    model = make(**PRICE, bounds=(LOW, HIGH)).fit(people)
    other = make(**PRICE, bounds=(LOW * unit, HIGH * unit))
    if not isinstance(getattr(other, "init", None), str | None):
        other.set_params(init=np.array(other.init) * unit)
    other.fit(people * unit)
    assert np.array_equal(other.cluster_centers_, model.cluster_centers_ * unit)


@makers
def test_frames_memory_maps_and_partitions_are_read_the_same(make, people, tmp_path, monkeypatch):
    model = make(**PRICE, bounds=(LOW, HIGH)).fit(people)
    frame = pytest.importorskip("pandas").DataFrame(people, columns=["age", "income"])
    named = {"income": 0, "age": 0}, {"age": 120, "income": 2e5}
    of_frame = make(**PRICE, bounds=named).fit(frame)
    assert np.array_equal(of_frame.cluster_centers_, model.cluster_centers_)
    assert np.array_equal(of_frame.predict(frame), model.predict(people))
    # nothing is kept: scaled anew at every pass
    monkeypatch.setattr("dplit.inputs.blocks.KEPT_BYTES", 0)
    anew = make(**PRICE, bounds=(LOW, HIGH)).fit(people)
    assert np.array_equal(anew.cluster_centers_, model.cluster_centers_)
    if getattr(model, "variant", "") != "paper":
        parts = pytest.importorskip("dask.array").from_array(people, chunks=(900, 2))
        of_parts = make(**PRICE, bounds=(LOW, HIGH)).fit(parts)
        assert np.array_equal(of_parts.cluster_centers_, model.cluster_centers_)


class Untouchable:
    """Stands for rows that must not be read: any look at them fails."""

    def _touched(self, *args):
        raise AssertionError("X was read")

    __getattribute__ = __len__ = __iter__ = __getitem__ = __array__ = _touched


@makers
@pytest.mark.parametrize(
    ("bounds", "more"),
    [
        ((LOW, HIGH), {"radius": 3.0}),
        ((LOW, HIGH), {"center": [0.0, 0.0]}),
        (LOW[0], {}),
        ((LOW,), {}),
        ("ab", {}),
        ((None, HIGH), {}),
        ((HIGH, LOW), {}),
        ((LOW, [120.0, INF]), {}),
        (({"age": 0}, {"age": 0}), {}),
        (None, {}),
    ],
)
def test_impossible_bounds_are_refused_before_x_is_read(make, bounds, more):
    model = make(**PRICE, bounds=bounds, **more)
    with pytest.raises((TypeError, ValueError), match="bounds|radius|age") as caught:
        model.fit(Untouchable())
    assert "\n" not in str(caught.value) and not hasattr(model, "spent_")


@makers
def test_bounds_of_other_columns_are_refused_before_a_budget_is_charged(make, people):
    frame = pytest.importorskip("pandas").DataFrame(people, columns=["age", "income"])
    budget = PrivacyBudget(3.0, 1e-5)
    for bounds in (([0, 0, 0], 1), ({"age": 0}, 9), ({"age": 0, "height": 0}, 9)):
        with pytest.raises(ValueError, match="bounds"):
            budget.fit(make(**PRICE, bounds=bounds), frame)
    assert budget.ledger == ()
    budget.fit(make(**PRICE, bounds=(0, 2e5)), frame)
    assert len(budget.ledger) == 1


def test_a_search_measures_in_the_cube(people):
    budget = PrivacyBudget(20.0, 1e-4)
    model = NoisyLloyd(**PRICE, bounds=(LOW, HIGH))
    found = budget.search(model, {"n_clusters": [1, 2]}, people, epsilon=0.5)
    assert found.best_params_["n_clusters"] == 2  # by default a row loses at most 1 for each column
    fitted = clone(model).set_params(n_clusters=2).fit(people)
    losses = squared_distances(fitted, np.asarray(people))
    assert losses.sum() == pytest.approx(-fitted.score(people))
    assert losses.max() <= 4 * len(LOW)
    found = choose_n_clusters(model, [1, 2], people, epsilon=2.0, delta=1e-6, gain=0.0)
    assert found.spent_.epsilon <= 2.0 and found.best_params_["n_clusters"] in (1, 2)
    near = private_loss(fitted, people, epsilon=1e6)
    assert near.value == pytest.approx(losses.mean(), rel=1e-3)
    assert near.low <= losses.mean() <= near.high

    def loss(fitted, rows):
        return [-fitted.score(row[None]) for row in rows[:1]] * len(rows)

    found = budget.search(model, {"n_clusters": [1, 2]}, people, loss, epsilon=0.5, bound=4.0)
    assert found.best_estimator_ in found.estimators_


class ReadsItsRanges(NoisyLloyd):
    """Takes each column's range from the rows."""

    def _box(self, X):
        rows = np.asarray(X)
        return None if self.bounds is None else Box(rows.min(axis=0) - 1, rows.max(axis=0) + 1)


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("make", [NoisyLloyd, MaxCoverKMeans, PEMeans, HDPEMeans])
def test_replay_finds_nothing(make, neighboring):
    """Neighbours in years and dollars, rows beyond their ranges among them: no release moves by more than is paid for."""
    pairs = [
        (name, *(LOW + (rows + 1) / 2 * (HIGH - LOW) for rows in pair))
        for name, *pair in neighbors(2, 1.5, neighboring=neighboring)
    ]
    model = make(**PRICE, bounds=(LOW, HIGH), neighboring=neighboring)
    assert not replay(model, pairs, seeds=range(2))


def test_replay_finds_ranges_that_were_read_off_the_rows():
    rows = np.tile(LOW + (HIGH - LOW) / 3, (20, 1))
    pair = [("a far row", rows, np.vstack([rows, [[110.0, 1.9e5]]]))]
    found = {
        make: replay(make(**PRICE, bounds=(LOW, HIGH)), pair, seeds=range(2))
        for make in (NoisyLloyd, ReadsItsRanges)
    }
    assert not found[NoisyLloyd] and found[ReadsItsRanges]


@pytest.mark.parametrize(
    "odd", [[np.ma.array([7.0, 2.0], mask=[1, 0])], [[1.0]], [3.0], [[NAN, "a"]], [["word", "a"]]]
)
def test_a_list_with_categories_is_refused_by_one_sentence(odd):
    """A masked row among them, which must not be read through its mask."""
    scaler = BoundedScaler([0.0], [9.0], categories={1: ["a", 2.0]}).fit([[1.0, "a"]])
    with pytest.raises(UnreadableRecords) as caught:
        scaler.transform([[5.0, "a"], *odd])
    assert str(caught.value) == str(UnreadableRecords("X", "BoundedScaler"))


def test_a_scaler_keeps_float32_and_the_ball():
    rows = np.random.default_rng(0).normal(scale=2, size=(500, 3))
    narrow, scaler = rows.astype(np.float32), BoundedScaler(-1.0, 1.0).fit(rows)
    made = scaler.transform(narrow)
    assert made.dtype == np.float32 and scaler.transform(rows).dtype == float
    assert np.array_equal(made, scaler.transform(narrow.astype(float)).astype(np.float32))
    assert np.abs(made).max() == 1
    assert scaler.transform(narrow.tolist()).dtype == float
    words = BoundedScaler(-1.0, 1.0, categories={0: [0, 1]}).fit(narrow)
    assert words.transform(narrow).dtype == float


@pytest.mark.parametrize("missing", [None, {"income": "low"}])
def test_a_table_of_arrow_with_categories_is_read_as_a_frame_is(missing):
    """A list of names is no index of a table of pyarrow."""
    arrow = pytest.importorskip("pyarrow")
    frame = pytest.importorskip("pandas").DataFrame(PEOPLE)
    scaler = BoundedScaler(**RANGES, categories=REGION, missing=missing)
    for table in (arrow.table(PEOPLE), arrow.RecordBatch.from_pydict(PEOPLE)):
        found = scaler.fit(table).transform(table)
        np.testing.assert_array_equal(found, clone(scaler).fit(frame).transform(frame))


def test_ends_too_close_are_shown_as_they_are_with_the_smallest_width():
    """Rounded, 1e15 and 1e15 + 100 look equal: "low=1e+15 must be below high=1e+15"."""
    low, high = 1e15, 1e15 + 100
    with pytest.raises(ValueError) as told:
        BoundedScaler(low, high).fit([[low, low]])
    assert "low=1000000000000000 must be below high=1000000000000100, here by 1e+03" in str(
        told.value
    )
    BoundedScaler(low, low + 1001).fit([[low, low]])
    with pytest.raises(ValueError, match="here by 1e-90 or more"):
        BoundedScaler(0.0, 1e-91).fit([[0.0]])


@pytest.mark.parametrize("names", [[5, 7], [("a", "x"), ("a", "y")], [1.5, 0.5], [1, 0]], ids=str)
def test_a_frame_whose_names_are_no_words_goes_by_position_unless_a_number_may_be_a_name(names):
    """`X[0]` of such a frame is another column, or none."""
    pandas = pytest.importorskip("pandas")
    rows = np.array([[20.0, 1.0], [np.nan, 3.0]])
    frame = pandas.DataFrame(rows, columns=pandas.Index(names))
    ends = {"low": [0, 0], "high": [100, 10]}
    for options in (
        {"missing": "middle"} | ends,
        {"missing": {0: 30}} | ends,
        {"missing": "middle", "weight": {1: 2.0}} | ends,
        {"missing": "middle", "low": {0: 0, 1: 0}, "high": 100},
        {"categories": {1: [1.0, 3.0]}, "missing": "low", "low": [0], "high": [100]},
    ):
        expected = BoundedScaler(**options).fit_transform(rows)
        if any(isinstance(value, dict) for value in options.values()):
            with pytest.raises(ValueError, match="number is the name or the place of a column"):
                BoundedScaler(**options).fit(frame)
        else:
            assert np.array_equal(BoundedScaler(**options).fit_transform(frame), expected)
        numbered = frame.set_axis(range(2), axis=1)
        assert np.array_equal(BoundedScaler(**options).fit_transform(numbered), expected)


@pytest.mark.parametrize(
    ("low", "high", "name"),
    [
        ({"age": 0, "region": 0}, {"age": 120, "region": 1}, "low"),
        ({"age": 0}, {"age": 120, "region": 1}, "high"),
        (0, {"age": 120, "region": 1}, "high"),
        ({"region": 0}, None, "low"),
    ],
)
def test_a_column_with_a_range_and_a_list_is_declared_twice(low, high, name):
    table = pd.DataFrame({"age": [30.0], "region": ["north"]})
    for X in (table, pl.from_pandas(table), pa.table(table)):
        with pytest.raises(ValueError, match=f"{name} and categories: both declare .*'region'"):
            BoundedScaler(low, high, categories={"region": ["north", "south"]}).fit(X)
    with pytest.raises(ValueError, match="low and categories: both declare column 0"):
        BoundedScaler({0: 0}, {0: 9}, categories={0: ["a"]}).fit(np.array([["a"]], dtype=object))
    with pytest.raises(ValueError, match="2, one for each column with a range"):
        BoundedScaler([0], [9, 9], categories={2: ["a"]}).fit(np.zeros((1, 3)))
