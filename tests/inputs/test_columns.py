"""Public weights: what they stretch, which ball follows, and what the default does to lists that are noise."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from dplit import BoundedScaler, PEMeans
from dplit.clustering import GridKMeans, MaxCoverKMeans, NoisyLloyd
from dplit.inputs.columns import CATEGORY_WEIGHT, Column, with_weights

LISTS = {2: ["a", "b", "c"], 3: ["x"]}


def rows_of(n, rng):
    numbers = np.c_[rng.uniform(-20, 140, n), rng.normal(0, 3, n)].astype(object)
    return np.column_stack([numbers, rng.choice(["a", "b", "c", "z"], n), rng.choice(["x", ""], n)])


def scaler(**more):
    return BoundedScaler([0, -5], [120, 5], categories=LISTS, **more)


# ---------------------------------------------------------------- what a weight is


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=4), st.integers(0, 2**32 - 1))
def test_a_weight_multiplies_distances_and_the_ball_follows(weights, seed):
    rows = rows_of(30, np.random.default_rng(seed))
    plain, model = scaler(weight=1).fit(rows), scaler(weight=weights).fit(rows)
    one, many = plain.transform(rows), model.transform(rows)
    each = np.repeat(weights, [1, 1, 3, 1])
    assert np.allclose(many, one * each, rtol=1e-12)
    lengths = np.linalg.norm(many, axis=1)
    assert np.all(lengths <= model.radius_ * (1 + 1e-12))
    farthest = np.array([[120, 5, "a", "x"]], dtype=object)
    assert np.linalg.norm(model.transform(farthest)) == pytest.approx(model.radius_, rel=1e-12)
    assert model.radius_**2 == pytest.approx(sum(np.square(weights) * [1, 1, 4 / 3, 1]), rel=1e-12)
    assert np.allclose(model.in_units(many), plain.in_units(one), rtol=1e-9, atol=1e-9)
    assert (
        model.inverse_transform(many)[:, 2:].tolist()
        == plain.inverse_transform(one)[:, 2:].tolist()
    )
    assert list(model.get_feature_names_out()) == list(plain.get_feature_names_out())
    units = [column.unit for column in model.columns_]
    assert np.allclose(units, [c.unit / w for c, w in zip(plain.columns_, weights, strict=True)])


def test_forms_of_a_weight_and_its_default():
    rows = rows_of(5, np.random.default_rng(0))
    weights = lambda **more: [c.weight for c in scaler(**more).fit(rows).columns_]  # noqa: E731
    assert weights() == [1, 1, CATEGORY_WEIGHT, CATEGORY_WEIGHT] == [1, 1, 0.25, 0.25]
    assert weights(weight={2: 1, 0: 3}) == [3, 1, 1, 0.25]
    assert weights(weight=np.float32(2)) == [2] * 4
    assert weights(weight=(1, 2, 3, 4)) == weights(weight=np.arange(1, 5)) == [1, 2, 3, 4]
    frame = pytest.importorskip("pandas").DataFrame(rows, columns=["age", "b", "c", "d"])
    named = BoundedScaler(
        {"age": 0, "b": 0},
        {"age": 9, "b": 9},
        categories={"c": ["a"], "d": ["x"]},
        weight={"age": 2},
    )
    assert [c.weight for c in named.fit(frame).columns_] == [2, 1, 0.25, 0.25]


@pytest.mark.parametrize(
    "weight",
    [0, {0: 0}, -1, np.nan, np.inf, 1e-4, 1e4, "2", {0: "2"}, {0: None}, {9: 1}, [1, 2], [1] * 5, "abcd", True],
)  # fmt: skip
def test_an_impossible_weight_is_refused_by_name(weight):
    rows = rows_of(5, np.random.default_rng(0))
    with pytest.raises((TypeError, ValueError), match="weight") as caught:
        scaler(weight=weight).fit(rows)
    assert "\n" not in str(caught.value)


def test_ranges_alone_are_scaled_as_ever():
    """To the bit, and float32 stays float32; a dask array stays one with weights too."""
    X = np.random.default_rng(0).normal(size=(50, 3))
    plain, doubled = BoundedScaler(-1, 1).fit(X), BoundedScaler(-1, 1, weight={1: 2}).fit(X)
    assert np.array_equal(plain.transform(X), np.clip(2 * ((np.clip(X, -1, 1) + 1) / 2) - 1, -1, 1))
    assert np.array_equal(doubled.transform(X), plain.transform(X) * [1, 2, 1])
    single = doubled.transform(X.astype(np.float32))
    assert single.dtype == np.float32 and np.allclose(single, doubled.transform(X), atol=1e-6)
    array = pytest.importorskip("dask.array")
    parts = doubled.transform(array.from_array(X, chunks=(20, 3)))
    assert not isinstance(parts, np.ndarray) and np.array_equal(
        parts.compute(), doubled.transform(X)
    )


def test_missing_cells_have_the_weight_of_their_column():
    rows = np.array([[None, 1.0], [30.0, "?"]], dtype=object)
    model = BoundedScaler(0, [120, 4], missing={0: "high", 1: "low"}, weight=[3, 0.5]).fit(rows)
    assert model.transform(rows).tolist() == [[3, -0.25], [-1.5, -0.5]]


def test_what_was_declared_says_the_weight():
    age, region = Column("age", 0, 120, missing=60.0, weight=2.0), Column("r", values=("n", "s"))
    assert age.declared == "0 to 120; weight 2; a missing or unreadable cell counts as 60"
    assert region.declared == "n | s; weight 1" and Column("age", 0, 120).declared == "0 to 120"
    assert with_weights([region], None, "t")[0].declared == "n | s; weight 0.25"


def test_a_table_of_lists_alone_has_the_same_clusters_as_before():
    """A common factor is another unit: the same bits, since it is a power of two."""
    rng = np.random.default_rng(3)
    rows = np.column_stack([rng.choice(["a", "b"], 400), rng.choice(["a", "b", "c"], 400)])
    rows = rows.astype(object)
    found = []
    for weight in (1, None):
        model = BoundedScaler(categories={0: ["a", "b"], 1: ["a", "b", "c"]}, weight=weight).fit(
            rows
        )
        fit = PEMeans(2, epsilon=1, delta=1e-6, radius=model.radius_, random_state=0)
        found.append(model.in_units(fit.fit(model.transform(rows)).cluster_centers_))
    assert np.array_equal(*found)


# ---------------------------------------------------------------- lists that are noise (P6)


def two_groups(seed, sizes, n=2000):
    """(groups, rows): 30 years and 20,000, 65 years and 70,000, and lists of these sizes that tell nothing."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(2, size=n)
    age, income = rng.normal(30 + 35 * groups, 4), rng.normal(20e3 + 50e3 * groups, 4e3)
    return groups, np.column_stack(
        [age.astype(object), income, *(rng.integers(m, size=n) for m in sizes)]
    )


def agreement(model, seed, sizes, **more):
    groups, rows = two_groups(seed, sizes)
    lists = {2 + i: [*range(m)] for i, m in enumerate(sizes)}
    scale = BoundedScaler([0, 0], [120, 200e3], categories=lists, **more).fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = model(scale.radius_, seed).fit(scale.transform(rows))
    return adjusted_rand_score(groups, fit.predict(scale.transform(rows)))


PRIVATE = {"epsilon": 1.0, "delta": 1e-6}
METHODS = {
    "k-means": lambda radius, seed: KMeans(2, n_init=5, random_state=seed),
    "PEMeans": lambda r, seed: PEMeans(2, **PRIVATE, radius=r, random_state=seed),
    "GridKMeans": lambda r, seed: GridKMeans(2, epsilon=1.0, radius=r, random_state=seed),
}
LOCAL = {  # these may end in a worse local minimum, a split by the list among them
    "NoisyLloyd": lambda r, seed: NoisyLloyd(
        2, **PRIVATE, radius=r, init="mean", random_state=seed
    ),
    "NoisyLloyd, cells": lambda r, seed: NoisyLloyd(
        2, **PRIVATE, radius=r, init="cells", random_state=seed
    ),
    "MaxCoverKMeans": lambda r, seed: MaxCoverKMeans(2, **PRIVATE, radius=r, random_state=seed),
}
NOISE = [(2,), (3,), (5,), (8,), (2, 2), (4, 8)]


@pytest.mark.parametrize("sizes", NOISE, ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_lists_that_tell_nothing_do_not_drown_two_groups(method, sizes):
    if method == "GridKMeans" and sum(sizes) > 4:
        pytest.skip("a grid is for few columns")
    for seed in (11, 12, 13):
        assert agreement(METHODS[method], seed, sizes) > 0.95


@pytest.mark.parametrize("method", LOCAL)
def test_nor_mostly_for_methods_that_stop_at_local_minima(method):
    found = [
        agreement(LOCAL[method], seed, (m,)) for seed, m in enumerate((2, 3, 4, 5, 6, 7, 8, 8), 20)
    ]
    assert np.mean(np.array(found) > 0.9) >= 0.75


def test_with_the_weight_of_a_range_the_lists_are_what_is_found():
    """What all methods did before, and what `weight` brings back where the list must count."""
    for method in ("k-means", "PEMeans"):
        assert agreement(METHODS[method], 11, (4,), weight=1) < 0.1
        assert agreement(METHODS[method], 11, (4,), weight={2: 1.0}) < 0.1


# ---------------------------------------------------------------- what is told of a wrong list


@pytest.mark.parametrize("kind", [pd.Series, pd.Index, set, iter, dict.fromkeys, "".join])
def test_what_is_no_list_of_values_is_named_and_never_quoted(kind):
    given = kind(["north", "south"])
    with pytest.raises(ValueError, match="needs a list of its public values") as caught:
        BoundedScaler(categories={"region": given}).fit(pd.DataFrame({"region": ["north"]}))
    said = str(caught.value)
    assert f"this is of the type {type(given).__name__}." in said and "['north', 'south']" in said
    with pytest.raises(ValueError) as caught:
        BoundedScaler(categories={"region": kind(["p1", "p2"])}).fit(pd.DataFrame({"region": [""]}))
    assert str(caught.value) == said


UNLISTED = {
    "None": (["m", None], "entry 1 of this one (counted from 0) is of the type NoneType"),
    "NaN": (["m", "f", float("nan")], "entry 2 of this one (counted from 0) is NaN"),
    "NA": ((pd.NA, "m"), "entry 0 of this one (counted from 0) is of the type NAType"),
    "bytes": ([b"m"], "is of the type bytes"),
    "a list in a list": ([["m"], ["f", "x"]], "entry 0 of this one (counted from 0) is of the type list"),
    "an array of two axes": (np.array([["m"], ["f"]]), "this array has 2 axes"),
    "an array of none": (np.array("m"), "this array has 0 axes"),
    "an empty list": ([], "this one is empty"),
    "an empty array": (np.array([]), "this one is empty"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNLISTED)
def test_a_list_with_a_wrong_entry_is_not_called_a_wrong_type(name):
    """Mutation: the message names the type of the list, which is right."""
    given, words = UNLISTED[name]
    with pytest.raises(ValueError, match="needs a list of its public values") as caught:
        BoundedScaler(categories={"sex": given}).fit(pd.DataFrame({"sex": ["m", "f"]}))
    said = str(caught.value)
    assert words in said and "this is of the type" not in said and "'m'" not in said
    assert ("Leave it out: a cell that is missing" in said) == (
        "entry" in words or "bytes" in words
    )


@pytest.mark.parametrize("model", [PEMeans, GridKMeans, MaxCoverKMeans, NoisyLloyd])
def test_without_a_ball_the_ranges_are_named_too(model):
    with pytest.raises(ValueError, match=r"radius=None: .* Or give public ranges .*bounds=\("):
        model(2, epsilon=1.0, delta=1e-6).fit(np.zeros((9, 2)))
