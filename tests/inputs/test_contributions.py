"""Bounded contributions: the theorem by brute force and at random, every type of an id, and what is refused."""

import datetime
import decimal
import enum
import fractions
import gc
import hashlib
import itertools
import math
import re
import uuid
import warnings
import weakref

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dplit import BoundedScaler, CnvxAdap, NoisyLloyd, PEMeans, PrivacyBudget
from dplit.inputs import DoubtWarning, bound_contributions, contribution_mask
from dplit.inputs.contributions import Persons, names_no_person, person_of
from dplit.inputs.doubts import _KNOWN, known_of
from dplit.ledger import record_wise

NAN = float("nan")


def kept(ids, m):
    """Places of the rows that are kept."""
    return np.flatnonzero(contribution_mask(list(ids), m)).tolist()


def moved(rule, ids, person, m):
    """(rows of this person that moved, whether another row moved) when all of this person's rows are taken out."""
    rest = [i for i, one in enumerate(ids) if one != person]
    before, after = set(rule(ids, m)), {rest[i] for i in rule([ids[i] for i in rest], m)}
    differ = before ^ after
    return len(differ), any(ids[i] != person for i in differ)


# ---------------------------------------------------------------- the theorem


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from("abcde"), max_size=40), st.integers(1, 6))
def test_a_person_changes_at_most_m_rows_and_none_of_others(ids, m):
    for person in "abcde":
        changed, others = moved(kept, ids, person, m)
        assert changed <= m and changed == min(m, ids.count(person)) and not others


def first_rows(ids, m):
    return list(range(min(len(ids), 3 * m)))  # of the table, whoever they are of


def least_of_all(ids, m):
    """The m rows of a person whose draws of one stream for the whole table are smallest."""
    draws = np.random.default_rng(0).random(len(ids))
    ranked = sorted(range(len(ids)), key=lambda i: draws[i])
    return [i for i in ranked if [j for j in ranked if ids[j] == ids[i]].index(i) < m]


@pytest.mark.parametrize("rule", [first_rows, least_of_all])
def test_rules_that_look_at_others_are_caught(rule):
    """The same check, failing: a stream of draws is shifted by the rows of others."""
    found = [
        moved(rule, list(ids), person, 2)
        for ids in itertools.product("abc", repeat=7)
        for person in "abc"
    ]
    assert any(others for _, others in found) and max(changed for changed, _ in found) > 2


def test_each_row_of_a_person_is_kept_about_equally_often():
    ids = np.repeat(np.arange(30_000), 4)
    share = contribution_mask(ids, 1).reshape(-1, 4).mean(axis=0)
    assert np.abs(share - 0.25).max() < 5 * math.sqrt(0.1875 / 30_000)
    both = contribution_mask(ids, 2).reshape(-1, 4)
    pairs = np.array(
        [np.mean(both[:, i] & both[:, j]) for i, j in itertools.combinations(range(4), 2)]
    )
    assert np.abs(pairs - 1 / 6).max() < 5 * math.sqrt(5 / 36 / 30_000)


def by_hand(ids, m):
    """The rule once more, in whole numbers of Python: splitmix64 of blake2b of the id and of the row's place."""

    def priority(person, place):
        start = int.from_bytes(hashlib.blake2b(person.encode(), digest_size=8).digest(), "big")
        x = (start + 0x9E3779B97F4A7C15 * (place + 1)) % 2**64
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
        return x ^ x >> 31

    ranked, rows = {}, []
    for i, person in enumerate(ids):
        mine = ranked.setdefault(person, [])
        mine.append((priority(person, len(mine)), i))
    for mine in ranked.values():
        rows += [i for _, i in sorted(mine)[:m]]
    return sorted(rows)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["ann", "bob", "7", "Ü"]), max_size=60), st.integers(1, 5))
def test_the_rule_is_the_same_for_ever(ids, m):
    """Seeds of processes and versions of libraries change nothing: a table that is fitted again is the same one."""
    assert kept(ids, m) == by_hand(ids, m)
    assert kept([7] * 12, 3) == kept(["7"] * 12, 3) == kept([7.0] * 12, 3) == by_hand(["7"] * 12, 3)


def test_blocks_give_what_one_table_gives():
    ids = np.random.default_rng(1).integers(0, 40, 500).tolist() + [None, "x"]
    persons = Persons()
    for start in range(0, len(ids), 7):
        persons.add(ids[start : start + 7])
    assert persons.n_rows == len(ids)
    assert np.array_equal(persons.kept(3), contribution_mask(ids, 3))
    assert not Persons().kept(1).size and not contribution_mask([], 1).size


def test_a_list_that_makes_no_table_is_not_quoted():
    """Its records are kept as they are: numpy's error would tell their number, and a fit has its own sentence."""
    for rows in ([[1.0, 2.0], [3.0]], [None, [1.0]], [{"a": 1}, {"a": 2}]):
        assert bound_contributions(rows, ["ann", "bob"], 1) == rows
    assert bound_contributions([[1.0], [2.0], [3.0]], ["a", "a", "b"], 1)[-1] == [3.0]


# ---------------------------------------------------------------- ids


def test_ids_of_several_parts_are_ids():
    """Hospital and patient: as tuples, as lists, as an index of pandas; a missing part is a missing id."""
    hospital, patient = np.arange(200) // 100, np.arange(200) % 100
    pairs = list(zip(hospital.tolist(), patient.tolist(), strict=True))
    for ids in (
        pairs,
        [*map(list, pairs)],
        pd.Series(pairs),
        pd.MultiIndex.from_arrays([hospital, patient]),
    ):
        assert contribution_mask(ids, 1).all()
    assert contribution_mask([[p] for p in patient], 1).sum() == 100
    assert person_of([7]) == person_of(7) and person_of([[]]) is None
    assert contribution_mask([(1, None), (), (1, 2), ("1", 2.0)], 1).tolist().count(True) == 1
    assert person_of(("a, b", 1)) != person_of(("a", "b, 1")) and person_of(((1, NAN), 2)) is None


SAME = [7, 7.0, "7", " 7.0 ", "7.000", np.int8(7), np.uint64(7), np.float32(7), np.str_("7")]
SAME += [decimal.Decimal("7"), fractions.Fraction(7)]
MISSING = [None, NAN, np.nan, pd.NA, pd.NaT, np.datetime64("NaT"), "", "  ", "NaN", "null", "N/A"]
MISSING += [
    math.inf,
    -math.inf,
    2.0**53,
    1e300,
    True,
    np.False_,
    [],
    (),
    (7, None),
    {},
    object(),
    7j,
]
OTHERS = ["07", "seven", 7.5, -7, "Ü", "\udcff", datetime.date(2020, 1, 7), uuid.UUID(int=7)]


class Odd(int):
    """A number that fails whenever it is looked at."""

    def __hash__(self):
        raise RuntimeError("looked at")

    __eq__ = __int__ = __index__ = __str__ = __repr__ = __hash__


def test_one_id_however_it_is_written():
    assert {person_of(cell) for cell in SAME} == {"7"}
    assert {person_of(cell) for cell in MISSING} == {None} == {person_of(Odd(3))}
    names = [person_of(cell) for cell in OTHERS]
    assert None not in names and len({*names, "7"}) == len(OTHERS) + 1
    assert contribution_mask(SAME, 2).sum() == 2
    assert not contribution_mask([*MISSING, Odd(3)], 5).any()


IDS = [1, 1, 1, 2, None, 2, 2]
WORDS = [None if i is None else f"p{i}" for i in IDS]
COLUMNS = {
    "list": IDS,
    "tuple": tuple(IDS),
    "objects": np.array(IDS, dtype=object),
    "floats with NaN": np.array([NAN if i is None else i for i in IDS]),
    "pandas": pd.Series(IDS),
    "pandas Int64": pd.Series(IDS, dtype="Int64"),
    "pandas, another index": pd.Series(IDS, index=range(50, 57)),
    "a frame of one column": pd.DataFrame({"id": IDS}),
    "polars": pl.Series(IDS),
    "pyarrow": pa.array(IDS),
    "chunks": pa.chunked_array([IDS[:3], IDS[3:]]),
}
NAMES = {
    "words": WORDS,
    "fixed words": np.array([w or "" for w in WORDS]),
    "pandas words": pd.Series(WORDS),
    "pandas categories": pd.Series(WORDS).astype("category"),
    "polars words": pl.Series(WORDS),
    "polars categories": pl.Series(WORDS, dtype=pl.Categorical),
    "pyarrow words": pa.array(WORDS),
    "a dictionary of pyarrow": pa.array(WORDS).dictionary_encode(),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_numbers_of_every_library_give_the_same_rows(name):
    assert np.array_equal(contribution_mask(COLUMNS[name], 2), contribution_mask(IDS, 2))


@pytest.mark.parametrize("name", NAMES)
def test_words_of_every_library_give_the_same_rows(name):
    assert np.array_equal(contribution_mask(NAMES[name], 2), contribution_mask(WORDS, 2))


NO_IDS = {
    "Booleans": np.array([True, False]),
    "Booleans of polars": pl.Series([True, False]),
    "Booleans of pyarrow": pa.array([True, None]),
    "Booleans of pandas": pd.Series([True, None], dtype="boolean"),
    "complex": np.array([1j]),
    "short floats": np.ones(3, dtype=np.float32),
    "short floats of polars": pl.Series([1.0], dtype=pl.Float32),
    "short floats of pyarrow": pa.array([1.0], type=pa.float32()),
    "durations": np.array([1], dtype="m8[s]"),
    "lists of pyarrow": pa.array([[1]]),
    "short floats in a dictionary of pyarrow": pa.DictionaryArray.from_arrays(
        pa.array([0, 0]), pa.array([1.0], type=pa.float32())
    ),
    "durations of pandas": pd.Series(pd.to_timedelta([1, 2], "s")),
    "durations of polars": pl.Series([1], dtype=pl.Duration),
    "durations of pyarrow": pa.array([1], type=pa.duration("s")),
    "durations of pyarrow in pandas": pd.Series([1], dtype=pd.ArrowDtype(pa.duration("s"))),
    "periods": pd.Series(pd.period_range("2020", periods=3, freq="D")),
    "intervals": pd.Series(pd.interval_range(0, 3)),
    "records": np.zeros(2, dtype=[("a", int)]),
    "no type of pyarrow": pa.nulls(3),
    "no type of polars": pl.Series([None, None]),
    "maps": pa.array([[("a", 1)]], type=pa.map_(pa.string(), pa.int64())),
    "structs": pl.Series([{"a": 1}]),
    "a frame of Booleans": pd.DataFrame({"id": [True, False]}),
    "a table of durations": pa.table({"id": pa.array([1], type=pa.duration("s"))}),
    "nothing": None,
    "a number": 5,
    "a word": "id",
    "a mapping": {"a": 1},
    "an iterator": iter([1]),
    "a set": {1, 2},
}


@pytest.mark.parametrize("name", NO_IDS)
def test_what_names_no_person_by_its_type_is_refused(name):
    with pytest.raises(TypeError, match="ids: contribution_mask needs"):
        contribution_mask(NO_IDS[name], 2)


WHO = [
    uuid.UUID(int=i) if i else None for i in (1, 1, 9, 9, 32, 0, 1, 9)
]  # 9 and 32: as text, blanks
RAW = [one and one.bytes for one in WHO]
SHORT = [one and one[-3:] for one in RAW]
BYTES = {
    "UUIDs": WHO,
    "a list": RAW,
    "bytes of numpy": np.array([one or b"" for one in RAW]),
    "binary": pa.array(RAW, pa.binary()),
    "large binary": pa.array(RAW, pa.large_binary()),
    "fixed size": pa.array(RAW, pa.binary(16)),
    "a view": pa.array(RAW, pa.binary_view()),
    "a dictionary": pa.array(RAW, pa.binary()).dictionary_encode(),
    "binary of polars": pl.Series(RAW),
    "binary in pandas": pd.Series(RAW, dtype=pd.ArrowDtype(pa.binary())),
    "objects": pd.Series(RAW, dtype=object),
    "text": [one and str(one) for one in WHO],
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_and_uuids_of_every_library_are_ids(name):
    for m in (1, 2):
        mask = contribution_mask(BYTES[name], m)
        if name == "bytes of numpy":  # which cuts zeros at the end off, so the ids are others
            assert mask.sum() == contribution_mask(WHO, m).sum() and not mask[5]
        else:
            assert np.array_equal(mask, contribution_mask(WHO, m))
    assert contribution_mask(SHORT, 1).sum() == 3 and not contribution_mask([b"", None], 9).any()
    assert len({person_of(one) for one in (b"7", "7", b" 7", b"7.0", b"\xff", bytes(16))}) == 6


def test_a_type_of_ids_of_a_column_of_extensions_is_told_by_its_name():
    if hasattr(pa, "uuid"):
        assert names_no_person(pa.uuid()) == "" and names_no_person(pa.bool8()) != ""
    for kind in ("timestamp[us, tz=UTC]", "Datetime(time_unit='us')", "string[pyarrow]", "Sparse[int64, 0]", pl.Enum(["SECRET"])):  # fmt: skip
        assert names_no_person(kind) == "", kind
    for kind in ("Sparse[bool, False]", "geometry", "list<item: string>", "Array(String, 3)"):
        assert names_no_person(kind) == kind.lower()


def test_of_cells_that_are_no_ids_nothing_is_said():
    """A column of objects has no type that tells: rows without an id are left out."""
    for cells in (
        [{1: 2}] * 3,
        [object()] * 3,
        list(pd.period_range("2020", periods=3)),
        [None] * 3,
    ):
        for ids in (cells, np.fromiter(cells, dtype=object), pd.Series(cells, dtype=object)):
            assert not contribution_mask(ids, 2).any()


def test_other_impossible_arguments_are_refused():
    with pytest.raises(ValueError, match="single column"):
        contribution_mask(np.zeros((3, 2)), 1)
    for m in (0, -3, 2**20 + 1):
        with pytest.raises(ValueError, match=f"max_rows_per_person={m}"):
            contribution_mask(IDS, m)
    with pytest.raises(TypeError, match="max_rows_per_person"):
        bound_contributions(np.zeros((7, 1)), IDS, 1.5)
    with pytest.raises(ValueError, match="one id for each row"):
        bound_contributions(np.zeros((6, 1)), IDS, 1)
    with pytest.raises(TypeError, match="rows of numbers"):
        bound_contributions("people.csv", IDS, 1)
    for frame in (pd.DataFrame({"a": IDS}), pl.DataFrame({"a": IDS}), np.zeros((7, 2))):
        with pytest.raises(ValueError, match="not the name of one column"):
            bound_contributions(frame, "b", 1)


# ---------------------------------------------------------------- tables

FRAME = pd.DataFrame({"id": IDS, "x": np.arange(7.0), "word": list("abcdefg")})


@pytest.mark.parametrize(
    "kind",  # not the table: threads of polars, begun while tests are collected, would be missing in a fork
    [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas],
    ids=["pandas", "polars", "arrow"],
)
def test_a_frame_keeps_its_kind_its_order_and_its_other_columns(kind):
    table = kind(FRAME)
    rows = np.flatnonzero(contribution_mask(IDS, 2)).tolist()
    for ids, gone in (("id", {"id"}), (IDS, set())):
        found = bound_contributions(table, ids, 2)
        assert type(found) is type(table)
        names = getattr(found, "column_names", getattr(found, "columns", None))
        assert {*names} == {"id", "x", "word"} - gone
        assert np.asarray(found["x"]).tolist() == rows


def test_arrays_lists_and_labels():
    X, mask = np.arange(14.0).reshape(7, 2), contribution_mask(IDS, 2)
    assert np.array_equal(bound_contributions(X, IDS, 2), X[mask])
    assert np.array_equal(bound_contributions(X.tolist(), IDS, 2), X[mask])
    assert np.array_equal(bound_contributions(X, IDS, 9), X[[i is not None for i in IDS]])
    assert bound_contributions(X.astype(np.float32), IDS, 2).dtype == np.float32


def test_nothing_is_said_about_the_rows(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ids in (IDS, [None] * 7, [1] * 7):
            bound_contributions(np.zeros((7, 1)), ids, 1)
    assert capsys.readouterr() == ("", "")


def test_equal_cells_with_several_texts_are_one_person_whatever_comes_before():
    D, zone = decimal.Decimal, datetime.timezone(datetime.timedelta(hours=2))
    noon = datetime.datetime(2020, 1, 7, 12, tzinfo=datetime.UTC)
    for ids in ([D("1E+2"), D("100"), 100], [1.5, D("1.50"), "1.5"], [noon, noon.astimezone(zone)]):
        for order in (ids, ids[::-1]):
            assert contribution_mask(order, 1).sum() == 1


def test_a_text_of_a_float_beyond_all_whole_numbers_is_no_id():
    """pandas writes the ids 2**53 and 2**53 + 1 so once a cell of the column is missing."""
    far = ["9007199254740992.0", "9.007199254740993e+15", np.float32(2**24), np.float16(2**11)]
    assert not contribution_mask(far, 1).any()
    assert contribution_mask(["9007199254740993", np.float32(5), "1e5"], 1).all()


def test_a_missing_id_in_an_array_of_text_is_nobodys():
    text = np.dtypes.StringDType(na_object=None)
    ids = np.array(["a", None, "a"], dtype=text)
    assert contribution_mask(ids, 2).tolist() == [True, False, True]


# ---------------------------------------------------------------- messages name the caller and the next step


@pytest.mark.parametrize("name", ["contribution_mask", "bound_contributions"])
@pytest.mark.parametrize(
    "ids", [np.array([True, False]), pd.Series([1.5, 2.5], dtype="float32"), np.zeros((2, 2)), 3, None]
)  # fmt: skip
def test_a_refusal_names_the_function_that_was_called(name, ids):
    call = {
        "contribution_mask": lambda: contribution_mask(ids, 1),
        "bound_contributions": lambda: bound_contributions(np.zeros((2, 1)), ids, 1),
    }
    (other,) = {*call} - {name}
    with pytest.raises((TypeError, ValueError), match=f"ids: {name} needs") as caught:
        call[name]()
    assert other not in str(caught.value)


@pytest.mark.parametrize("name", [0, 7, 2.5, ("person", "id")])
@pytest.mark.parametrize("ids", ["its name", "another"])
def test_a_column_whose_name_is_no_text_is_passed_as_the_message_says(name, ids):
    """Nothing said how. Whether such a column exists plays no part: an id may be equal to a name."""
    names = [("x", "y"), name] if isinstance(name, tuple) else ["x", name]
    names = pd.MultiIndex.from_tuples(names) if isinstance(name, tuple) else names
    table = pd.DataFrame([[1.0, 5], [2.0, 5], [3.0, 6]], columns=names)
    asked = name if ids == "its name" else ("p", "q") if isinstance(name, tuple) else 5
    with pytest.raises(TypeError, match="ids: .*, and this is a single value") as caught:
        bound_contributions(table, asked, 1)
    code = re.search(r"without it: bound_contributions\((.*), \.\.\.\)", str(caught.value))[1]
    rest, column = eval(f"({code})", {"table": table, "name": name})
    assert bound_contributions(rest, column, 1).shape == (2, 1)


def test_two_ids_of_a_table_with_two_levels_are_ids():
    """Mutation: every pair is taken for a name."""
    table = pd.DataFrame([[1.0], [2.0]], columns=pd.MultiIndex.from_tuples([("x", "y")]))
    assert bound_contributions(table, ("x", "y"), 1).shape == (2, 1)


def test_the_place_of_a_column_of_an_array_is_passed_as_the_message_says():
    table = np.array([[1.0, 5], [2.0, 5], [3.0, 6]])
    with pytest.raises(TypeError, match=r"np.delete\(table, j, axis=1\), table\[:, j\]") as caught:
        bound_contributions(table, 1, 1)
    assert "one id for each row" in str(caught.value)
    assert bound_contributions(np.delete(table, 1, axis=1), table[:, 1], 1).shape == (2, 1)


@pytest.mark.parametrize("ids", [["person"], ("person",), ["another"], [7], np.array(["person"])])
def test_a_name_in_brackets_is_told_whatever_it_is(ids):
    table = pd.DataFrame({"person": [1, 2, 2], "x": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=r'pass it alone: ids="name"\.$') as caught:
        bound_contributions(table, ids, 1)
    assert "person'" not in str(caught.value)
    with pytest.raises(ValueError, match=r"one id for each row of the table\.$"):
        bound_contributions(table, ["person", "x"], 1)


def test_members_of_an_enum_are_ids_by_their_values():
    kind = enum.Enum("kind", {"ANN": "ann", "BOB": 7, "GAP": None, "YES": True})
    cells = [kind.ANN, "ann", kind.BOB, 7, kind.GAP, kind.YES, kind.ANN]
    assert [person_of(cell) for cell in cells] == ["ann", "ann", "7", "7", None, None, "ann"]
    assert contribution_mask(cells, 1).sum() == 2
    for other in (datetime.timedelta(1), 1j, True, object()):
        assert person_of(other) is None


@pytest.mark.parametrize("labels", [[0, 1, 2, 3], [3, 2, 1, 0], [7, 7, 7, 7], list("wxyz")])
@pytest.mark.parametrize("kind", [pd.Series, pd.DataFrame])
def test_ids_belong_to_rows_by_position_whatever_labels_say(kind, labels):
    """Mutation: labels are compared, or choose the rows: whether they agree may depend on records, for example after a sort."""
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}, index=[3, 1, 0, 2])
    ids = kind(["ann", "ann", "bob", "bob"], index=labels)
    bounded = bound_contributions(frame, ids, 1)
    plain = bound_contributions(frame.to_numpy(), ["ann", "ann", "bob", "bob"], 1)
    assert np.array_equal(bounded.to_numpy(), plain) and len(plain) == 2


# ---------------------------------------------------------------- a fit that counts fewer rows

VISITS = np.random.default_rng(1).uniform(0, 1, (90, 2))
PERSONS = np.arange(90) % 20
KINDS = {
    "an array": np.asarray,
    "pandas": lambda X: pd.DataFrame(X, columns=["a", "b"]),
    "polars": lambda X: pl.DataFrame(X, schema=["a", "b"]),
    "pyarrow": lambda X: pa.table({"a": X[:, 0], "b": X[:, 1]}),
}
SMALL = {"epsilon": 0.5, "delta": 1e-6}
BOUNDS = {"bounds": (0, 1), **SMALL}
SCALED = {"radius": 2**0.5, **SMALL}
MODELS = {
    "an estimator": lambda m: PEMeans(2, max_rows_per_person=m, **BOUNDS),
    "after a scaler": lambda m: make_pipeline(
        BoundedScaler([0, 0], [1, 1]), NoisyLloyd(2, max_rows_per_person=m, **SCALED)
    ),
    "after a function": lambda m: make_pipeline(
        FunctionTransformer(record_wise(np.sqrt)), PEMeans(2, max_rows_per_person=m, **BOUNDS)
    ),
}


def doubts_of_rows(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    said = [str(one.message) for one in caught if issubclass(one.category, DoubtWarning)]
    return [one for one in said if "bound_contributions" in one]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", MODELS)
def test_a_table_bounded_at_more_rows_stops_a_fit_before_the_charge(kind, model):
    """Mutations: nothing is remembered; a scaler, or a pipeline, forgets it; the smaller number is doubted."""
    for m, bound in ((1, 2), (2, 3), (2, 2), (3, 1)):
        table = bound_contributions(KINDS[kind](VISITS), PERSONS, bound)
        budget = PrivacyBudget(4.0, 1e-4, max_rows_per_person=m)
        fit = lambda **more: budget.fit(MODELS[model](m), table, **more)  # noqa: B023, E731
        if bound <= m:
            assert not doubts_of_rows(fit) and len(budget.ledger) == 1
            continue
        with pytest.raises(ValueError, match=f"kept up to {bound} rows.*Bound the table at {m}"):
            fit()
        assert not budget.ledger
        assert len(doubts_of_rows(lambda: fit(accept_doubts=True))) == 1  # noqa: B023


def test_a_fit_without_a_budget_says_it_and_one_without_privacy_does_not():
    table = bound_contributions(VISITS, PERSONS, 3)
    [said] = doubts_of_rows(lambda: MODELS["an estimator"](2).fit(table))
    assert said.startswith("in doubt: PEMeans: ") and "persons with at most 2 rows" in said
    scaled = BoundedScaler([0, 0], [1, 1]).fit_transform(table)
    [said] = doubts_of_rows(lambda: NoisyLloyd(2, **SCALED).fit(scaled))
    assert "single rows" in said
    again = bound_contributions(scaled, PERSONS[:60], 1)
    assert known_of(again).bounded_at == 1 and known_of(again).reach.radius == 2**0.5
    assert not doubts_of_rows(lambda: NoisyLloyd(2, **SCALED).fit(again))
    ask = {"radius": 2.0, "weight_radius": 1.0, "target_bound": 1.0}
    plain = CnvxAdap(epsilon=None, private=False, **ask)
    assert not doubts_of_rows(lambda: plain.fit(table, table[:, 0].copy()))


def test_a_budget_for_persons_counts_their_rows_whatever_the_estimator_states():
    """Mutation: only the estimator's own number is compared. A Gaussian cost of single rows is converted to that of persons."""
    for bound, many in ((3, 0), (4, 1)):
        table = bound_contributions(VISITS, PERSONS, bound)
        for call in (
            lambda b, X: b.fit(NoisyLloyd(2, **BOUNDS), X, accept_doubts=True),
            lambda b, X: b.parallel({"a": (NoisyLloyd(2, **BOUNDS), X)}, accept_doubts=True),
        ):
            budget = PrivacyBudget(9.0, 1e-3, max_rows_per_person=3)
            assert len(doubts_of_rows(lambda: call(budget, table))) == many  # noqa: B023
    grid = {"n_iter": [1, 2]}
    with pytest.raises(ValueError, match="kept up to 4 rows"):
        budget.search(NoisyLloyd(2, max_rows_per_person=3, **BOUNDS), grid, table, epsilon=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_remembering_holds_no_table(kind):
    """Mutation: a strong reference. A list has no weak references, and is not remembered."""
    gc.collect()
    before = len(_KNOWN)
    table = bound_contributions(KINDS[kind](VISITS), PERSONS, 2)
    alive = weakref.ref(table)
    assert known_of(table).bounded_at == 2 and len(_KNOWN) == before + 1
    assert not any(isinstance(part, type(table)) for part in known_of(table))
    del table
    gc.collect()
    assert alive() is None and len(_KNOWN) == before
    listed = bound_contributions(VISITS.tolist(), PERSONS.tolist(), 2)
    assert known_of(listed).bounded_at == 0 and len(_KNOWN) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_bounded_table_has_a_private_number_of_rows(kind):
    """A fit in which records are replaced states it as public, and told two neighbors apart. Mutation: only m is compared."""
    table = bound_contributions(KINDS[kind](VISITS), PERSONS, 1)
    for relation, stopped in (("replace", True), ("add_remove", False)):
        budget = PrivacyBudget(4.0, 1e-4, neighboring=relation)
        model = PEMeans(2, neighboring=relation, **BOUNDS)
        if stopped:
            with pytest.raises(ValueError, match="number of rows of this table is private"):
                budget.fit(model, table)
        else:
            budget.fit(model, table)
        assert len(budget.ledger) == (not stopped)
