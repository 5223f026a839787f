"""Rules for missing cells: public, record-wise, the same for every kind of table, and refused where they would tell."""

import datetime
import math
import pickle
import warnings
from decimal import Decimal

import numpy as np
import pytest
from sklearn.base import clone

from dplit import BoundedScaler, PEMeans, PrivacyBudget
from dplit.command_line.bounds import DroppingScaler
from dplit.inputs.numbers import UnreadableRecords

NAN, INF = math.nan, math.inf
LOW, HIGH = {"a": 0, "b": -10}, {"a": 8, "b": 10}
PLACES = {0: 0, 1: -10}, {0: 8, 1: 10}
NO_NUMBER = [NAN, INF, -INF, None, "", "forty", "1,5", np.ma.masked, np.nan, Decimal("NaN"), 1j, [1.0],
             datetime.date(2020, 1, 1), np.datetime64("NaT"), b"x", object(), {}]  # fmt: skip


def scaler(missing, **more):
    kind = DroppingScaler if more else BoundedScaler
    return kind(*PLACES, missing=missing, **more).fit(np.zeros((1, 2)))


def units(scaler, X):
    return scaler.in_units(scaler.transform(X)).round(12).tolist()


@pytest.mark.parametrize(("rule", "counts"), [("low", 0), ("high", 8), ("middle", 4), (3, 3), (3.5, 3.5), (np.int64(2), 2)])  # fmt: skip
@pytest.mark.parametrize("cell", NO_NUMBER, ids=lambda cell: f"{type(cell).__name__} {cell}"[:25])
def test_what_is_no_finite_number_counts_as_the_rule_says(rule, counts, cell):
    rows = [[1.0, 5.0], [cell, 5.0], [20.0, 10**400]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for X in (rows, objects(rows)):
            if cell is not np.ma.masked or X is not rows:
                assert units(scaler({0: rule}), X) == [[1, 5], [counts, 5], [8, 10]]
            dropped = scaler({0: "drop"}, neighboring="add_remove")
            if cell is not np.ma.masked or X is not rows:
                assert units(dropped, X) == [[1, 5], [8, 10]]


def objects(rows):
    found = np.empty((len(rows), 2), dtype=object)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            found[i, j] = cell
    return found


def tables():
    cells = {"a": [1.0, NAN, 20.0], "b": [5.0, 6.0, NAN]}
    X = np.array([*cells.values()]).T
    yield "array", X
    yield "float32", X.astype(np.float32)
    yield "Fortran", np.asfortranarray(X)
    yield "masked", np.ma.MaskedArray(np.nan_to_num(X), np.isnan(X))
    yield "list", X.tolist()
    yield "tuples", [tuple(row) for row in X.tolist()]
    none = {k: [None if math.isnan(c) else c for c in v] for k, v in cells.items()}
    words = {k: ["n/a" if c is None else f"{c}" for c in v] for k, v in none.items()}
    pandas = pytest.importorskip("pandas")
    yield "pandas", pandas.DataFrame(cells)
    yield "pandas with NA", pandas.DataFrame(none, dtype="Float64")
    yield "pandas of objects", pandas.DataFrame(none, dtype=object)
    yield "pandas of words", pandas.DataFrame(words)
    yield "an index of its own", pandas.DataFrame(cells, index=[9, 9, 4])
    polars = pytest.importorskip("polars")
    yield "polars", polars.DataFrame(none)
    yield "polars with NaN", polars.DataFrame(cells)
    yield "polars of words", polars.DataFrame(words)
    arrow = pytest.importorskip("pyarrow")
    yield "arrow", arrow.table(none)
    yield "arrow of decimals", arrow.table({k: [c if c is None else Decimal(c) for c in v] for k, v in none.items()})  # fmt: skip
    yield "pandas of arrow", arrow.table(none).to_pandas(types_mapper=pandas.ArrowDtype)
    yield "dask", pytest.importorskip("dask.array").from_array(X, chunks=(2, 1))


def test_every_kind_of_table_has_the_same_rule():
    kept = {"a": "middle", "b": "low"}, [[1, 5], [4, 6], [8, -10]]
    drops = {"a": "drop", "b": "low"}, [[1, 5], [8, -10]]
    for name, table in tables():
        named = hasattr(table, "columns")
        for rules, want in (kept, drops):
            ends = (LOW, HIGH) if named else PLACES
            given = rules if named else {0: rules["a"], 1: rules["b"]}
            model = DroppingScaler(*ends, missing=given, neighboring="add_remove").fit(table)
            found = model.transform(table)
            assert np.allclose(model.in_units(np.asarray(found)), want), name


def test_a_rule_for_all_columns_and_a_category_beside_it():
    table = np.array([[1.0, None, "x"], [None, 3.0, None]], dtype=object)
    model = BoundedScaler([0, 0], [8, 8], categories={2: ["x", "y"]}, missing="middle").fit(table)
    assert model.inverse_transform(model.transform(table)).tolist() == [[1, 4, "x"], [4, 3, None]]
    assert [c.missing for c in model.columns_] == [4, 4, None]
    bare = BoundedScaler([0, 0], [8, 8], categories={2: ["x", "y"]}).fit(table)
    assert model.radius_ == bare.radius_


@pytest.mark.parametrize(
    "rules", ["low", "drop", {0: 3, 1: "drop"}, {0: "drop", 1: "high"}], ids=str
)
def test_a_record_s_rows_depend_on_that_record_alone(rules):
    """The theorem's assumption: scaling commutes with adding a record, bit by bit."""
    cells = [None, NAN, "x", INF, 1e308, -5, "3", True, 0.1, 10**400]
    records = [[one, other] for one in cells for other in cells]
    model = scaler(rules, neighboring="add_remove")
    alone = [model.transform([record]) for record in records]
    assert np.array_equal(np.concatenate(alone), model.transform(records))
    kept = {len(rows) for rows in alone}
    assert kept == ({1} if rules == "low" else {0, 1})


def test_without_a_rule_nothing_changes_and_a_column_without_one_is_refused():
    X = np.random.default_rng(0).normal(size=(50, 2))
    bare = BoundedScaler(*PLACES).fit(X)
    assert np.array_equal(bare.transform(X), scaler("low").transform(X))
    for cell in (NAN, None, "x"):
        for where, refused in ((0, False), (1, True)):
            rows = X.tolist()
            rows[3][where] = cell
            if refused:
                with pytest.raises(UnreadableRecords):
                    scaler({0: "low"}).transform(rows)
            else:
                assert len(scaler({0: "low"}).transform(rows)) == 50
            with pytest.raises(UnreadableRecords):
                bare.transform(rows)


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("mean", "missing of column 0: .* one of low, high, middle, not 'mean'"),
        ("LOW", "not 'LOW'"),
        (9, r"missing of column 0=9: .* a number in \[0, 8\]"),
        (NAN, "missing of column 0"),
        (True, "missing of column 0"),
        ([1, 2], "missing of column 0"),
        ({5: "low"}, "finds no column 5"),
        ({0: "low", 1: "median"}, "missing of column 1"),
    ],
)
def test_a_wrong_rule_is_refused_in_the_name_of_its_column(missing, told):
    with pytest.raises(ValueError, match=told):
        scaler(missing)


@pytest.mark.parametrize("missing", ["drop", {0: "low", 1: "drop"}, {0: "drop"}], ids=str)
def test_to_drop_is_refused_unless_records_may_come_and_go(missing):
    for neighboring in ("replace", "both"):
        with pytest.raises(
            ValueError, match=f"--neighboring add_remove: with {neighboring} a dropped record"
        ):
            scaler(missing, neighboring=neighboring)
    with pytest.raises(ValueError, match="does not know what follows"):
        scaler(missing)
    scaler(missing, neighboring="add_remove")


def test_a_rule_for_a_category_is_refused():
    model = BoundedScaler([0], [8], categories={1: ["x"]}, missing={1: "low"})
    with pytest.raises(ValueError, match="missing of column 1: .* not on the list as none of them"):
        model.fit(np.zeros((1, 2), dtype=object))


def test_a_rule_is_a_parameter_like_any_other():
    model = scaler({0: "drop"}, neighboring="add_remove")
    again = clone(pickle.loads(pickle.dumps(model)))
    assert again.get_params()["missing"] == {0: "drop"} and again.neighboring == "add_remove"
    assert "missing" in repr(again)


def test_a_dropped_record_is_told_by_an_exact_count_under_replacement():
    """Part 3 of the theorem: whoever may publish the number of rows would publish which of two people is there."""
    X = np.random.default_rng(0).uniform(0, 8, size=(20, 2))
    other = X.copy()
    other[0, 0] = NAN
    fills, drops = scaler("low"), scaler("drop", neighboring="add_remove")
    assert len(fills.transform(X)) == len(fills.transform(other)) == len(drops.transform(X)) == 20
    assert len(drops.transform(other)) == 19
    # one record replaced by one
    differ = (fills.transform(X) != fills.transform(other)).any(axis=1)
    assert differ.sum() == 1


def test_a_fit_of_scaled_rows_is_charged_once_and_says_nothing_of_missing_cells():
    X = np.random.default_rng(0).uniform(0, 8, size=(200, 2))
    holes = X.copy()
    holes[::7, 0] = NAN
    costs = []
    for table in (X, holes):
        budget, model = PrivacyBudget(9.0, 1e-3), scaler("middle")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cost = dict(epsilon=1.0, delta=1e-6, radius=model.radius_)
            budget.fit(PEMeans(2, **cost), model.transform(table))
        costs.append((*budget.spent, len(budget.ledger)))
    assert costs[0] == pytest.approx(costs[1], rel=1e-9)  # sums of the same, in another order


class _Raises:
    """A cell that raises whatever it is asked."""

    def _raise(self, *args, **kwargs):
        raise RuntimeError("a cell")

    __array__ = __len__ = __iter__ = __getitem__ = __float__ = _raise


@pytest.mark.parametrize(
    "cell", [_Raises(), [1, 2], (3,), np.ones(2), range(2), {1: 2}], ids=lambda c: type(c).__name__
)
@pytest.mark.parametrize("record", [list, tuple])
def test_a_cell_of_a_list_is_not_looked_into(cell, record):
    """A record whose cell is a sequence of the same length, or refuses to be an array, is one record all the same."""
    rows = [record([1.0, 5.0]), record([cell, 5.0]), record([8.0, cell])]
    assert units(scaler("low"), rows) == [[1.0, 5.0], [0.0, 5.0], [8.0, -10.0]]


@pytest.mark.parametrize(
    "rows", [[[1.0, 2.0], [3.0]], ["ab", "cd"], [[], []], [], [1.0, 2.0], [{0: 1, 1: 2}]]
)
def test_a_list_that_makes_no_table_is_refused_by_the_one_sentence(rows):
    with pytest.raises(UnreadableRecords):
        scaler("low").transform(rows)


class Loud(float):
    def __float__(self):
        warnings.warn("a cell", stacklevel=1)
        return 1.0


@pytest.mark.parametrize("missing", [None, "low", 3.0])
def test_a_cell_that_warns_is_not_heard(missing):
    rows = np.array([[1.0, 2.0], [Loud(), 2.0]], dtype=object)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        scaler(missing).transform(rows)
    assert not heard
