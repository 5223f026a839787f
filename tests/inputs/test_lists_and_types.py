"""What the type of a column, the names of columns and trial records tell is refused or doubted before any privacy cost."""

import warnings
from decimal import Decimal

import numpy as np
import pytest
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from dplit import (
    BoundedScaler,
    CnvxAdap,
    CovariateShiftRegressor,
    MaxCoverKMeans,
    NCnvxAdap,
    NoisyLloyd,
    PEMeans,
    PrivacyBudget,
)
from dplit.inputs import Column, DoubtWarning, UnreadableRecords, check_rows
from dplit.inputs.columns import check_values, may_hold
from dplit.inputs.doubts import said_of_lists
from dplit.ledger import record_wise
from dplit.source_target import SourceTargetKMedoids, source_distance

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

VERSION = tuple(map(int, sklearn.__version__.split(".")[:2]))
N = 60
COST = {"epsilon": 0.5, "delta": 1e-6, "random_state": 0}
AGES = np.arange(N) % 7 * 1.0
FRAMES = {
    "pandas": lambda cells: pd.DataFrame({"a": AGES, "b": pd.Series(cells)}),
    "pandas, own types": lambda cells: pd.DataFrame({"a": AGES, "b": pd.Series(cells)}).convert_dtypes(),
    "pandas of arrow": lambda cells: pd.DataFrame({"a": AGES, "b": pd.Series(cells)}).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda cells: pl.DataFrame({"a": AGES, "b": cells}),
    "pyarrow": lambda cells: pa.table({"a": AGES, "b": cells}),
    "pyarrow dictionary": lambda cells: pa.table({"a": pa.array(AGES), "b": pa.array(cells).dictionary_encode()}),
}  # fmt: skip
HALF = N // 2
CANNOT = {
    "words for whole numbers": ([1, 2] * HALF, ["1", "2"], "(1 in place of '1')"),
    "whole numbers for words": (["1", "2"] * HALF, [1, 2], "('1' in place of 1)"),
    "words for fractions": ([0.5, 1.5] * HALF, ["half", "more"], "numbers of type"),
    "a fraction for whole numbers": ([1, 2] * HALF, [0.5], "numbers of type int64"),
    "words for yes and no": ([True, False] * HALF, ["True", "False"], "True or False"),
}


def scaler(values):
    return BoundedScaler({"a": 0}, {"a": 7}, categories={"b": values})


def refused(budget, model, table, error=ValueError):
    """What a budget says when it refuses; nothing may be charged."""
    with pytest.raises(error) as caught:
        budget.fit(model, table)
    assert not budget.ledger
    return str(caught.value)


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("case", CANNOT)
def test_a_list_that_a_column_cannot_hold_is_refused_before_the_charge(case, kind):
    cells, values, words = CANNOT[case]
    table = FRAMES[kind](cells)
    with pytest.raises(ValueError, match="every record would count as none") as caught:
        scaler(values).fit(table)
    assert words in str(caught.value)
    budget = PrivacyBudget(4.0, 1e-4)
    model = PEMeans(2, radius=1.05, **COST)
    assert words in refused(budget, make_pipeline(scaler(values), model), table)
    if kind == "polars" and VERSION < (1, 9):
        return  # whose ColumnTransformer cannot select columns of a frame of polars without rows
    parts = [("all", scaler(values), ["a", "b"])]
    assert words in refused(budget, make_pipeline(ColumnTransformer(parts), model), table)


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize(
    ("cells", "values"),
    [([1, 2] * HALF, [1, 2.0]), (["x", "y"] * HALF, ["x", "y"]), ([True, False] * HALF, [1, 0])],
)
def test_a_list_that_a_column_can_hold_is_found(kind, cells, values):
    table, budget = FRAMES[kind](cells), PrivacyBudget(4.0, 1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = budget.fit(make_pipeline(scaler(values), PEMeans(2, radius=1.05, **COST)), table)
    shares = model[0].in_units(model[0].transform(table))[:, 1:]
    assert shares.round(9).tolist() == [[1, 0], [0, 1]] * HALF


def test_of_a_column_of_objects_nothing_is_said_whatever_its_cells_are():
    budget = PrivacyBudget(9.0, 1e-4)
    for cells in ([1, 2], ["1", "2"], [None, object()]):
        for table in (
            pd.DataFrame({"a": AGES, "b": pd.Series(cells * HALF, dtype=object)}),
            np.array([AGES, cells * HALF], dtype=object).T,
        ):
            own = {"a": 0, "b": 1} if isinstance(table, np.ndarray) else {"a": "a", "b": "b"}
            scale = BoundedScaler({own["a"]: 0}, {own["a"]: 7}, categories={own["b"]: ["1", "2"]})
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                scale.fit(table)
                budget.fit(make_pipeline(scale, PEMeans(2, radius=1.05, **COST)), table)


CELLS = {
    "all missing": [None],
    "one word": [None] * (N - 1) + ["a"],
    "whole numbers": [1, 2],
    "one fraction": [1] * (N - 1) + [2.5],
    "one word among numbers": [1] * (N - 1) + ["x"],
    "Booleans": [True, False],
}


@pytest.mark.parametrize("values", [["a", "b"], [1, 2, 2.5], ["1", "x"]])
@pytest.mark.parametrize("name", CELLS)
def test_of_a_category_of_pandas_nothing_is_said_since_its_cells_determine_its_type(name, values):
    cells = (CELLS[name] * N)[:N]
    budget = PrivacyBudget(4.0, 1e-4)
    table = pd.DataFrame({"a": AGES, "b": pd.Series(cells).astype("category")})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = budget.fit(make_pipeline(scaler(values), PEMeans(2, radius=1.05, **COST)), table)
    shares = model[0].in_units(model[0].transform(table))[:, 1:]
    assert len(budget.ledger) == 1
    found = [[float(cell == value) for value in values] for cell in cells]
    assert shares.round(9).tolist() == found


@pytest.mark.parametrize("kind", FRAMES)
def test_values_of_which_some_cannot_occur_are_doubted_once_before_the_charge(kind):
    table = FRAMES[kind]([1, 2] * HALF)
    make = lambda: make_pipeline(scaler([1, "x", 0.5]), PEMeans(2, radius=1.05, **COST))  # noqa: E731
    with pytest.warns(DoubtWarning, match="'x' and 0.5 cannot occur") as caught:
        PrivacyBudget(4.0, 1e-4).fit(make(), table, accept_doubts=True)
    assert len(caught) == 1 and caught[0].filename == __file__
    budget = PrivacyBudget(4.0, 1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DoubtWarning)
        said = refused(budget, make(), table)
        assert said.count("'x' and 0.5 cannot occur") == 1
        with pytest.raises(DoubtWarning):
            budget.fit(make(), table, accept_doubts=True)
        assert not budget.ledger


def test_what_a_type_can_hold():
    holds = {
        np.dtype("int8"): ([-128, 127.0, True], [128, 0.5, "1", np.inf]),
        np.dtype(">u2"): ([0, 65535], [-1, 65536]),
        np.dtype("float32"): ([0.5, np.inf, 2**24], [0.1, 2**24 + 1, 1e300, "0.5"]),
        np.dtype(float): ([0.1, -np.inf, 3], ["0.1"]),
        np.dtype(bool): ([True, 0, 1.0], [2, "True"]),
        np.dtype("U2"): (["a", "long word"], [1]),
        np.dtype(object): (["a", 1, 0.1], []),
        pd.Int16Dtype(): ([32767], [32768, 0.5]),
        pd.ArrowDtype(pa.string()): (["a"], [1]),
        pd.SparseDtype("int64"): ([3], [0.5, "3"]),
        pd.CategoricalDtype(["a"]): (["a", "b", 1], []),  # inferred from the cells
        pd.CategoricalDtype([1, 2]): ([1, 2.5, "x"], []),
        pl.Enum(["a"]): (["a"], ["b", 1]),
        pl.Categorical(): (["a", "b"], [1]),
        pl.Float32(): ([0.5], [0.1]),
        pl.UInt8(): ([255], [256]),
        pl.Decimal(9, 2): ([1.25, 3], [1.125, 0.1]),
        pa.decimal128(5, 1): ([0.5], [0.25]),
        pa.float16(): ([0.5], [0.1]),
        pa.float64(): ([0.1], ["a"]),
        pa.large_string(): (["a"], [1]),
        None: (["a", 1], []),
    }
    for kind, (can, cannot) in holds.items():
        assert [value for value in can if not may_hold(kind, value)] == [], kind
        assert [value for value in cannot if may_hold(kind, value)] == [], kind
    assert Decimal("1.25") == 1.25 and Decimal("0.1") != 0.1  # as cells are compared


def test_a_message_quotes_declared_values_and_no_values_of_the_type():
    for kind in (pl.Enum(["SECRET"]), pa.dictionary(pa.int32(), pa.string())):
        with pytest.raises(ValueError, match="words") as caught:
            check_values([Column("b", values=(1, 2))], [kind], "T")
        assert "SECRET" not in str(caught.value)


def test_an_array_of_words_may_have_lists_and_ranges():
    words = np.array([["north", "1.5"], ["south", "3"]] * 5)
    scale = BoundedScaler({1: 0}, {1: 3}, categories={0: ["north", "south"]}).fit(words)
    assert scale.inverse_transform(scale.transform(words))[:2].tolist() == [["north", 1.5], ["south", 3.0]]  # fmt: skip
    with pytest.raises(ValueError, match="stored as text"):
        BoundedScaler(0, 3).fit(words)


@pytest.mark.parametrize("kind", [">f8", ">f4", ">i4", "<i2"])
def test_numbers_in_another_byte_order_are_scaled(kind):
    rows = np.arange(12).reshape(6, 2).astype(kind)
    assert np.allclose(
        BoundedScaler(0, 12).fit_transform(rows), np.arange(12).reshape(6, 2) / 6 - 1
    )


def test_sparse_columns_are_read_in_silence_where_warnings_are_errors():
    table = pd.DataFrame({"a": pd.arrays.SparseArray(AGES), "b": AGES})
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        PrivacyBudget(4.0, 1e-4).fit(PEMeans(2, bounds=([0, 0], [7, 7]), **COST), table)


# ---------------------------------------------------------------- names of columns


@pytest.mark.parametrize("names", [["age", 0], [0, "age"], ["age", None], ["age", ("a", "b")], ["age", 1.5]])  # fmt: skip
def test_names_of_which_some_are_no_words_are_refused_before_the_charge(names):
    table = pd.DataFrame(np.column_stack([AGES, AGES]))
    table.columns = pd.Index(names, dtype=object)
    budget = PrivacyBudget(4.0, 1e-4)
    for model in (
        PEMeans(2, bounds=(0, 7), **COST),
        PEMeans(2, radius=9.0, **COST),
        make_pipeline(BoundedScaler(0, 7), PEMeans(2, radius=1.5, **COST)),
    ):
        said = refused(budget, model, table, TypeError)
        assert "X.columns = X.columns.astype(str)" in said and "Feature names" not in said


# ---------------------------------------------------------------- functions of one record

SAME = {
    "a constant": lambda row: np.ones((1, 2)),
    "no number": lambda row: row * np.nan,
    "rows minus their mean": lambda row: row - row.mean(axis=0),
    "a scaler of one row": lambda row: StandardScaler().fit_transform(row),
    "fails, but for zeros": lambda row: row if not row.any() else 1 / 0,
}
TELLING = {
    "logarithm": np.log1p,
    "a difference of columns": lambda row: row[:, :1] - row[:, 1:],
    "a record minus its own mean": lambda row: row - row.mean(axis=1, keepdims=True),
    "rarely yes": lambda row: (row[:, 1:] > 1e6) * 1.0,
    "one code": lambda row: (row[:, 1:] == 17) * 1.0,
    "direction": lambda row: row / np.linalg.norm(row),
}


@pytest.mark.parametrize("name", SAME | TELLING)
def test_a_function_that_says_the_same_of_all_trial_records_is_doubted(name):
    step = FunctionTransformer(record_wise((SAME | TELLING)[name]))
    pipe = make_pipeline(step, NoisyLloyd(2, radius=20.0, **COST))
    for rows in (np.column_stack([AGES, AGES[::-1]]), np.ones((N, 2))):  # whatever the records are
        budget = PrivacyBudget(4.0, 1e-4)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            budget.fit(pipe, rows, accept_doubts=True)
        said = [one for one in caught if "different public records" in str(one.message)]
        assert len(said) == (name in SAME) and all(one.filename == __file__ for one in said)
        if name in SAME:
            budget = PrivacyBudget(4.0, 1e-4)
            with warnings.catch_warnings():
                warnings.simplefilter("error", DoubtWarning)
                assert "different public records" in refused(budget, pipe, rows)


def test_doubts_of_a_step_are_heard_in_a_budget():
    table = pd.DataFrame({"a": AGES, "b": ["x", "y"] * HALF})
    pipe = make_pipeline(scaler(["x;y"]), PEMeans(2, radius=1.05, **COST))
    with pytest.warns(DoubtWarning, match="did you mean several values") as caught:
        PrivacyBudget(4.0, 1e-4).fit(pipe, table, accept_doubts=True)
    assert len(caught) == 1
    assert "did you mean several values" in refused(PrivacyBudget(4.0, 1e-4), pipe, table)


# ---------------------------------------------------------------- lists and clusters


def people(sizes, weight, seed=0, n=2000):
    """(scaler, rows) of an age with two groups, and lists that have nothing to do with them."""
    rng = np.random.default_rng(seed)
    ages = rng.normal(30 + 35 * rng.integers(2, size=n), 4)
    table = np.column_stack([ages.astype(object), *(rng.integers(m, size=n) for m in sizes)])
    lists = {1 + j: [*range(m)] for j, m in enumerate(sizes)}
    scale = BoundedScaler([0], [120], categories=lists, weight=dict.fromkeys(lists, weight))
    return scale.fit(table), table


@pytest.mark.parametrize("kind", [MaxCoverKMeans, PEMeans, NoisyLloyd])
@pytest.mark.parametrize("sizes", [(2,), (2, 2)])
def test_clusters_that_differ_in_lists_alone_are_doubted(kind, sizes):
    for weight in (1.0, 0.05):
        scale, table = people(sizes, weight)
        model = kind(2, epsilon=1.0, delta=1e-6, radius=scale.radius_, random_state=1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            PrivacyBudget(4.0, 1e-4).fit(make_pipeline(scale, model), table)
        said = " ".join(str(one.message) for one in caught)
        assert ("own privacy cost" in said) == (weight == 1.0), said
        assert ("random projection" in said) == (kind is MaxCoverKMeans and len(sizes) > 1)


def test_when_lists_are_doubted():
    age, one, two = Column("age", 0, 9), Column("b", values=(1, 2)), Column("c", values=(3, 4))
    centers = np.array([[0.1, 0.3, -0.3, 0.2, -0.2], [0.1, -0.3, 0.3, -0.2, 0.2]])
    assert "'b' and 'c'" in said_of_lists(centers, [age, one, two])
    assert "'b'" in said_of_lists(centers[:, :3], [age, one])
    # the range differs too
    assert said_of_lists(centers[:, [1, 2, 3, 0, 4]], [one, age, two]) == ""
    assert "'b'" in said_of_lists(centers[:, [1, 2, 0]], [one, age])
    assert said_of_lists(centers[:, 1:], [one, two]) == ""  # there is nothing else
    assert said_of_lists(centers[:1], [age, one, two]) == said_of_lists(centers, [age]) == ""


def test_max_cover_is_doubted_before_the_charge_where_lists_are_several():
    scale, table = people((2, 3, 2), 0.25)
    make = lambda: MaxCoverKMeans(2, radius=scale.radius_, **COST)  # noqa: E731
    for model, rows in ((make_pipeline(scale, make()), table), (make(), scale.transform(table))):
        budget = PrivacyBudget(4.0, 1e-4)
        with warnings.catch_warnings():
            warnings.simplefilter("error", DoubtWarning)
            said = refused(budget, model, rows, DoubtWarning)
        assert "columns 1, 2 and 3 are lists" in said


# ---------------------------------------------------------------- globes, and parts of one frame


@pytest.mark.parametrize("width", [1, 3, 4])
def test_haversine_needs_two_columns(width):
    rows = np.linspace(0, 1, 5 * width).reshape(5, width)
    for call in (
        lambda: SourceTargetKMedoids(2, metric="haversine").fit(rows),
        lambda: source_distance(rows, rows, metric="haversine"),
    ):
        with pytest.raises(
            ValueError, match="needs two columns, latitude and longitude in radians"
        ):
            call()


def test_parts_that_are_views_of_common_rows_of_a_frame_are_refused():
    table = pd.DataFrame({"a": AGES, "b": AGES + 1, "word": "x"}).astype({"word": "string"})
    numbers = table[["a", "b"]]
    disjoint = [
        (numbers.iloc[:20], numbers.iloc[20:]),
        (numbers.iloc[::2], numbers.iloc[1::2]),
        (numbers[numbers.a > 3], numbers[numbers.a <= 3]),
        (numbers.copy(), numbers.copy()),  # copies cannot be told from other records
    ]
    common = [
        (numbers.iloc[:21], numbers.iloc[20:]),
        (numbers.iloc[:30], numbers.iloc[10:40]),
        (numbers.iloc[:30][["b"]], numbers.iloc[10:]),
        (numbers, numbers.iloc[:5]),
    ]
    for first, second in disjoint + common:
        budget = PrivacyBudget(4.0, 1e-4)
        parts = {
            name: (NoisyLloyd(1, radius=12.0, **COST), rows)
            for name, rows in (("one", first), ("two", second))
        }
        if any(first is pair[0] and second is pair[1] for pair in disjoint):
            assert set(budget.parallel(parts)) == {"one", "two"} and len(budget.ledger) > 0
        else:
            with pytest.raises(ValueError, match="one table twice"):
                budget.parallel(parts)
            assert not budget.ledger


# ---------------------------------------------------------------- numbers that are written as text


@pytest.mark.parametrize("make", [list, tuple, lambda rows: np.array(rows, dtype=object)])
def test_a_numeric_string_is_read_in_a_list_as_in_an_array_of_objects(make):
    """Mutation: one string turns all cells of a list into strings, and the table is refused."""
    rows = [[0.1, "0.25"], [True, 0], [1e-300, "-1"], [10**400, 0.5]]
    read = check_rows(make(rows), "it")
    assert read.tolist() == [[0.1, 0.25], [1.0, 0.0], [1e-300, -1.0], [np.finfo(float).max, 0.5]]


@pytest.mark.parametrize("cell", ["word", "", "nan", None, [1.0], "1_0x", b"x"])
@pytest.mark.parametrize("other", [0.5, "0.5"])
def test_a_cell_of_a_list_that_is_no_number_is_refused_by_the_same_sentence(cell, other):
    with pytest.raises(UnreadableRecords) as caught:
        check_rows([[other, 1.0], [0.0, cell]], "it")
    assert str(caught.value) == str(UnreadableRecords("X", "it"))


# ---------------------------------------------------------------- what to pass instead


class Files(dict):
    """As what numpy.load returns for a file of several arrays."""

    files = ["x"]


def lazy():
    return pytest.importorskip("dask").delayed(np.zeros((4, 2)))


def reader():
    return pytest.importorskip("pyarrow").table({"x": [1.0], "y": [2.0]}).to_reader()


def sparse():
    pd = pytest.importorskip("pandas")
    if VERSION < (1, 8):
        pytest.skip("earlier versions of scikit-learn read such frames")
    return pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 1.0]), "b": pd.arrays.SparseArray([1.0, 1.0], fill_value=1)})  # fmt: skip


INSTEAD = {
    lazy: r"pass X\.compute\(\)",
    reader: r"pass X\.read_all\(\)",
    Files: r"X\[X\.files\[0\]\]",
    sparse: r"X\.sparse\.to_dense\(\)",
}


@pytest.mark.parametrize("make", INSTEAD, ids=lambda make: make.__name__)
def test_advice_names_what_works(make):
    budget = PrivacyBudget(2, 1e-5)
    with pytest.raises((TypeError, ValueError), match=INSTEAD[make]):
        budget.fit(PEMeans(2, epsilon=1.0, delta=1e-6, radius=1.0), make())
    assert not budget.ledger


def test_bounds_by_name_for_a_table_without_names_say_what_is_missing():
    """The names may have been lost between two steps of a pipeline."""
    low, high = {"age": 0, "income": 0}, {"age": 120, "income": 2e5}
    step = FunctionTransformer(record_wise(np.asarray))
    frame = pytest.importorskip("pandas").DataFrame({"age": [1.0], "income": [2.0]})
    model = PEMeans(2, epsilon=1.0, delta=1e-6, radius=2.0)
    budget = PrivacyBudget(2, 1e-5)
    for pipe, table in (
        (make_pipeline(step, BoundedScaler(low, high), model), frame),
        (make_pipeline(BoundedScaler(low, high), model), np.zeros((3, 2))),
    ):
        with pytest.raises(ValueError, match="columns of the table have no names"):
            budget.fit(pipe, table)
    assert not budget.ledger


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "numpy", "lists"])
def test_public_labels_of_words_may_be_a_table_of_one_column(library):
    """As private ones may. Mutation: words in a table of one column are refused as cells."""
    X = np.linspace(-0.5, 0.5, 40).reshape(-1, 2)
    y = np.where(X[:, 0] > 0, "a", "b")
    make = {"numpy": lambda y: y[:, None].astype(object), "lists": lambda y: [[one] for one in y]}
    wide = make.get(library) or (lambda y: table_in(library)({"y": list(y)}))
    given = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0, "radius": 1.0, "weight_radius": 1.0}
    model = NCnvxAdap(**given, classes=["a", "b"])
    one, other = (model.fit(X, y, Xs=X.copy(), ys=ys).coef_ for ys in (wide(y), y))
    assert np.array_equal(one, other)


def table_in(library):
    made = pytest.importorskip(library)
    return made.table if library == "pyarrow" else made.DataFrame


# ---------------------------------------------------------------- cells that exit


def cell_that(method, error):
    """An object of which one method raises."""

    def fail(self, *arguments):
        raise error

    made = {method: fail} | ({"__hash__": object.__hash__} if method == "__eq__" else {})
    return type("Cell", (), made)()


def with_cell(cell):
    rows = np.full((N, 2), 0.5, dtype=object)
    rows[-1, 0] = cell
    return rows


IN_A_BALL = {"radius": 2**0.5}
EXITING = {  # where a cell may stand: (model, table, labels)
    "a list": lambda cell: (PEMeans(2, **IN_A_BALL, **COST), with_cell(cell).tolist(), None),
    "an array": lambda cell: (NoisyLloyd(2, **IN_A_BALL, **COST), with_cell(cell), None),
    "a frame": lambda cell: (PEMeans(2, **IN_A_BALL, **COST), pd.DataFrame(with_cell(cell)), None),
    "a scaler": lambda cell: (make_pipeline(BoundedScaler([0, 0], [1, 1]), PEMeans(2, **IN_A_BALL, **COST)), with_cell(cell), None),
    "a rule": lambda cell: (make_pipeline(BoundedScaler([0, 0], [1, 1], missing=0.5), PEMeans(2, **IN_A_BALL, **COST)), with_cell(cell), None),
    "a number as label": lambda cell: (CnvxAdap(weight_radius=1.0, target_bound=1.0, **IN_A_BALL, **COST), np.zeros((N, 2)), [0.5] * (N - 1) + [cell]),
    "a class as label": lambda cell: (NCnvxAdap(weight_radius=1.0, alpha=0.0, classes=["a", "b"], **IN_A_BALL, **COST), np.zeros((N, 2)), ["a"] * (N - 1) + [cell]),
}  # fmt: skip


@pytest.mark.parametrize("where", EXITING)
@pytest.mark.parametrize(
    "method", ["__float__", "__len__", "__array__", "__iter__", "__eq__", "__hash__"]
)
def test_a_cell_that_exits_ends_no_program(where, method):
    """Mutation: only an `Exception` is caught. The ledger and the answer are those of a cell that is no number."""
    ends = set()
    for error in (SystemExit(3), ValueError("of a cell"), TypeError()):
        budget = PrivacyBudget(4.0, 1e-4)
        try:
            budget.fit(*EXITING[where](cell_that(method, error)), accept_doubts=True)
            ends.add("an answer")
        except UnreadableRecords as told:
            ends.add(str(told))
        assert len(budget.ledger) == 1
    assert len(ends) == 1


def test_a_user_may_still_interrupt():
    with pytest.raises(KeyboardInterrupt):
        check_rows(with_cell(cell_that("__float__", KeyboardInterrupt())), "here")


def test_private_labels_are_not_sent_to_a_scaler():
    """Mutation: one sentence for tables and labels; a scaler takes no labels."""
    model = CnvxAdap(weight_radius=1.0, target_bound=1.0, **IN_A_BALL, **COST)
    with pytest.raises(UnreadableRecords, match="yt cannot be used: .*one label for each row") as y:
        model.fit(np.zeros((N, 2)), [0.5] * (N - 1) + [None])
    with pytest.raises(UnreadableRecords, match="Xt cannot be used: .*BoundedScaler") as X:
        model.fit(with_cell(None), [0.5] * N)
    assert "BoundedScaler" not in str(y.value) and "says no more" in str(y.value)
    assert "says no more" in str(X.value)


PUBLIC_LABELS = {
    "a list": ["a", "b"] * HALF,
    "one word": [0.5] * (N - 1) + ["b"],
    "an array": np.array(["a", "b"] * HALF),
    "objects": np.array(["a", 0.5] * HALF, dtype=object),
    "a column": pd.Series(["a", "b"] * HALF),
    "a table of one column": pd.DataFrame({"y": ["a", "b"] * HALF}),
    "NaN": [0.5] * (N - 1) + [np.nan],
    "too few": [0.5] * (N - 1),
}


@pytest.mark.parametrize("name", PUBLIC_LABELS)
def test_all_regressors_say_the_same_of_public_labels(name):
    """Mutation: one of them answers with the sentence that protects private records."""
    rows, said = np.zeros((N, 2)), set()
    for model, yt in (
        (CnvxAdap(weight_radius=1.0, target_bound=1.0, **IN_A_BALL, **COST), np.zeros(N)),
        (CovariateShiftRegressor(**COST), None),
    ):
        budget = PrivacyBudget(4.0, 1e-4)
        with pytest.raises(ValueError, match="ys") as told:
            budget.fit(model, rows, yt, Xs=rows, ys=PUBLIC_LABELS[name])
        assert not budget.ledger and "says no more" not in str(told.value)
        said.add(str(told.value).replace(type(model).__name__, "it"))
    assert len(said) == 1


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("make", [PEMeans, NoisyLloyd])
def test_a_misspelled_list_is_told_after_a_fit_in_python_too(library, make):
    """The command said it; a pipeline released centers of which every one is none of the values, without a word."""
    kind = pd.DataFrame if library == "pandas" else pl.DataFrame
    table = kind({"age": AGES, "region": ["north", "south"] * HALF})
    for values, told in (
        (["North", "South"], True),
        (["north", "south"], False),
        (["north", "West"], False),
    ):
        scaler = BoundedScaler({"age": 0}, {"age": 120}, categories={"region": values})
        radius = scaler.fit(table).radius_
        model = make(2, epsilon=4.0, delta=1e-4, radius=radius, random_state=0)
        with warnings.catch_warnings(record=True, action="always") as heard:
            PrivacyBudget(9.0, 1e-3).fit(make_pipeline(scaler, model), table)
        said = " ".join(str(one.message) for one in heard)
        assert (
            "In column 'region' most rows of every cluster have none of the declared" in said
        ) == told
