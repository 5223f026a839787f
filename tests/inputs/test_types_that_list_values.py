"""A type that lists its values itself, an Enum of polars: what no cell of it can be is refused before the charge, and its list is not quoted."""

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

from dplit import BoundedScaler, NCnvxAdap, PEMeans, PrivacyBudget
from dplit.command_line import command
from dplit.inputs import DoubtWarning

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

VERSION = tuple(map(int, sklearn.__version__.split(".")[:2]))
N = 60
AGES = np.arange(N) % 7 * 1.0
ENUM = pl.Enum(["secret", "north", "7"])
COST = {"epsilon": 0.5, "delta": 1e-6, "random_state": 0}
ASK = "--clusters 2 --epsilon 0.5 --delta 1e-6 --seed 0 --out o --ledger ledger".split()


def frame(kind=ENUM, words=("north", "secret")):
    return pl.DataFrame({"a": AGES, "b": [*words] * (N // 2)}, schema_overrides={"b": kind})


def scaler(values, **more):
    return BoundedScaler({"a": 0}, {"a": 7}, categories={"b": values}, **more)


def refused(model, *tables, **named):
    budget = PrivacyBudget(4.0, 1e-4)
    with pytest.raises((ValueError, TypeError)) as caught:
        budget.fit(model, *tables, **named)
    assert not budget.ledger and "secret" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("values", [["east", "west"], ["North"], [" north"], [7], [True, False]])
def test_a_list_of_which_the_type_lists_no_value_is_refused_before_the_charge(values):
    model = PEMeans(2, radius=1.05, **COST)
    named = ColumnTransformer([("all", scaler(values), ["a", "b"])])
    # earlier versions of scikit-learn do not find columns of this polars by their names
    by_name = VERSION >= (1, 9)
    for steps in [scaler(values), *[named] * by_name]:
        said = refused(make_pipeline(steps, model), frame())
        assert "column 'b'" in said and "every record would count as none" in said
    with pytest.raises(ValueError, match="the list that its type declares"):
        scaler(values).fit(frame())
    with pytest.raises(ValueError, match="every record would count as none"):
        scaler(values).fit(frame(pl.Enum([]), (None, None)))


@pytest.mark.parametrize(
    ("values", "kind"), [([1, 2], "int64"), ([1.5, 2.5], "double"), (["a", "b"], "words")]
)
@pytest.mark.parametrize("index", [pa.int8(), pa.int32()])
def test_a_dictionary_of_arrow_in_pandas_has_the_type_of_its_values_in_a_pipeline(
    values, kind, index
):
    """It was tried as float64: so the message said, and a list that no cell can be was refused after the charge."""
    column = pa.array(values * (N // 2)).dictionary_encode()
    column = column.cast(pa.dictionary(index, column.type.value_type))
    made = pd.DataFrame({"a": AGES, "b": pd.Series(column, dtype=pd.ArrowDtype(column.type))})
    model = PEMeans(2, radius=1.05, **COST)
    for other in (
        ([0.25], [7]) if kind == "words" else (["x", "y"], [0.25] if kind == "int64" else ["1.5"])
    ):
        said = refused(make_pipeline(scaler(other), model), made)
        assert "every record would count as none" in said and f"{kind}, so" in said
    fitted = PrivacyBudget(4.0, 1e-4).fit(
        make_pipeline(scaler(values), PEMeans(2, radius=1.030776, **COST)), made
    )
    assert fitted[-1].spent_


def test_a_list_of_which_the_type_lists_some_values_is_doubted():
    with pytest.warns(DoubtWarning, match="'east' cannot occur") as caught:
        scaler(["north", "east"]).fit(frame())
    assert "secret" not in str(caught[0].message)


@pytest.mark.parametrize("kind", [pl.Categorical(), pl.String()])
def test_where_only_the_cells_would_tell_nothing_is_said(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for table in (
            frame(kind),
            frame(kind).to_pandas(),
            frame(kind).to_arrow(),
            frame().to_arrow(),  # the list of an arrow dictionary is with the cells
            frame().to_pandas(),
        ):
            pipe = make_pipeline(scaler(["east", "west"]), PEMeans(2, radius=1.05, **COST))
            PrivacyBudget(4.0, 1e-4).fit(pipe, table)


def test_what_the_type_lists_is_found():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe = make_pipeline(scaler(["north", "secret"]), PEMeans(2, radius=1.05, **COST))
        model = PrivacyBudget(4.0, 1e-4).fit(pipe, frame())
    shares = model[0].in_units(model[0].transform(frame()))[:, 1:]
    assert shares.round(9).tolist() == [[1, 0], [0, 1]] * (N // 2)


def test_a_range_for_a_type_that_lists_no_number_is_refused_before_the_charge():
    ends = {"a": 0, "b": 0}, {"a": 7, "b": 9}
    model = PEMeans(2, radius=1.5, **COST)
    words = pl.Enum(["north", "secret", "nan", "inf"])
    pipe = make_pipeline(BoundedScaler(*ends, missing="low"), model)
    assert "has no number" in refused(pipe, frame(words))
    table = frame(pl.Enum(["1", "2.5"]), ("1", "2.5"))
    rows = BoundedScaler(*ends, missing="low").fit(table).transform(table)
    assert len(np.unique(rows[:, 1])) == 2
    # and where ranges alone are declared, by its type
    assert "Enum" in refused(PEMeans(2, bounds=([0, 0], [7, 7]), **COST), frame())


@pytest.mark.parametrize("form", ["column", "frame"])
def test_labels_whose_type_lists_no_class_are_refused_before_the_charge(form):
    rows = np.random.default_rng(0).normal(size=(N, 2))
    labels = lambda kind: frame(kind)["b"] if form == "column" else frame(kind)[["b"]]  # noqa: E731
    words = np.array(["east", "west"] * (N // 2))
    model = NCnvxAdap(radius=3.0, weight_radius=1.0, classes=["east", "west"], **COST)
    said = refused(model, rows, labels(ENUM), Xs=rows, ys=words)
    assert "none of the classes" in said and said.startswith("yt")
    known = pl.Enum(["secret", "north", "west"])
    given = {"Xs": rows.copy(), "ys": words}
    said = refused(model, rows, labels(known), **given)
    assert "its type cannot hold the class 'east'" in said
    PrivacyBudget(4.0, 1e-4).fit(model, rows, labels(known), **given, accept_doubts=True)


def run(folder, monkeypatch, values, *words):
    from dplit.__main__ import main

    (folder / "b.csv").write_text(f"column,low,high,values\na,0,7,\nb,{values}\n")
    monkeypatch.chdir(folder)
    return main([*words, "--bounds", "b.csv"])


@pytest.mark.parametrize("case", [",,east|west", ",,NORTH", "0,9,"])
def test_the_command_refuses_such_a_list_or_range_before_the_charge(tmp_path, monkeypatch, case):
    kind = pl.Enum(["secret", "north"])
    frame(kind).write_parquet(tmp_path / "t.parquet")
    budget = PrivacyBudget.open(tmp_path / "ledger", 4.0, 1e-5)
    monkeypatch.setattr(command, "read_rows", lambda *_: pytest.fail("the table was read"))
    fit = ["cluster", "t.parquet", *ASK]
    for words in (fit, [*fit, "--dry-run"], ["check", "t.parquet"]):
        said = run(tmp_path, monkeypatch, case, *words)
        assert "column 'b' is of the type enum" in said and "no row was read" in said
        assert "secret" not in said
    assert not budget.ledger


@pytest.mark.parametrize("case", [",,north|secret", "0,9,"])
def test_the_command_reads_what_the_type_lists(tmp_path, monkeypatch, case):
    words = ("north", "secret") if "north" in case else ("1", "2")
    frame(pl.Enum(words), words).write_parquet(tmp_path / "t.parquet")
    assert not run(tmp_path, monkeypatch, case, "check", "t.parquet")


# ---------------------------------------------------------------- further messages about declarations


@pytest.mark.parametrize("sparse", ["int64", "float64", "bool"])
def test_a_sparse_column_is_told_by_the_type_of_its_cells(sparse):
    table = pd.DataFrame({"a": AGES, "b": pd.arrays.SparseArray([0, 1] * (N // 2), dtype=sparse)})
    with pytest.raises(ValueError, match="every record would count as none") as caught:
        scaler(["x"]).fit(table)
    words = "True or False" if sparse == "bool" else f"numbers of type {sparse}"
    assert words in str(caught.value) and "sparse" not in str(caught.value).lower()


@pytest.mark.parametrize(
    "values", [["x", "y", "x"], [1, 2, 1.0], [True, 1], ("a", "a"), np.array(["u", "u"])]
)
def test_a_value_that_is_listed_twice_is_named(values):
    with pytest.raises(ValueError, match="each value once, and .* equals an earlier one") as caught:
        scaler(values).fit(frame(pl.String()))
    assert repr(list(values)[-1] if not isinstance(values, np.ndarray) else values[-1]) in str(
        caught.value
    )


@pytest.mark.parametrize(
    "bounds", [([0], [1]), ([0, 0, 0], [1, 1, 1]), ([0, 0], [1]), ([0], 1), (0, [1, 1, 1])]
)
def test_bounds_for_another_number_of_columns_say_how_many_there_are(bounds):
    budget = PrivacyBudget(4.0, 1e-4)
    with pytest.raises(ValueError, match="one for each column with a range; there are [13] here"):
        budget.fit(PEMeans(2, bounds=bounds, **COST), np.zeros((9, 2)))
    assert not budget.ledger


def test_an_unreadable_cell_is_refused_in_words_of_our_own():
    for rows in ([[1.0, "x"]], [[1.0, float("nan")]], [[1.0], [1.0, 2.0]]):
        with pytest.raises(ValueError, match="a numeric string or a number") as caught:
            PEMeans(2, radius=1.0, **COST).fit(rows)
        assert "float()" not in str(caught.value)
