"""The command with a column of persons: the rows that a public rule keeps, refusals before a charge, and what is never said."""

import datetime
import itertools
import json
import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dplit import PrivacyBudget
from dplit.accounting import Receipt
from dplit.command_line import checking, command, files, parquet, sources
from dplit.command_line.command import FILES
from dplit.command_line.persons import keeping
from dplit.inputs import BoundedScaler, bound_contributions

ASK = ["--clusters", 2, "--epsilon", 1, "--delta", 1e-6, "--seed", 0]
PERSONS = ["--person-column", "id", "--max-rows-per-person", 3]


def here(folder, monkeypatch, *arguments):
    """The command in this process: what it says at the end, 0 if all went well."""
    from dplit.__main__ import main

    monkeypatch.chdir(folder)
    return main([str(a) for a in arguments])


def visits(seed=0, persons=200):
    rng = np.random.default_rng(seed)
    ids = rng.permutation(np.repeat(np.arange(persons), rng.integers(1, 9, persons)))
    old = ids % 2
    frame = {"id": ids, "age": rng.normal(30 + 40 * old, 5), "stay": rng.normal(5 + 10 * old, 2)}
    return pd.DataFrame(frame).round(3)


@pytest.fixture
def folder(tmp_path):
    visits().to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "b.csv").write_text("column,low,high\nage,0,120\nstay,0,30\n")
    return tmp_path


def scaler():
    return BoundedScaler({"age": 0, "stay": 0}, {"age": 120, "stay": 30}).fit(
        pd.DataFrame({"age": [0.0], "stay": [0.0]})
    )


def expected(frame, m):
    return scaler().transform(bound_contributions(frame, "id", m))


# ---------------------------------------------------------------- the rows


@pytest.mark.parametrize("m", [1, 3, 50])
@pytest.mark.parametrize("small_blocks", [False, True])
def test_a_csv_file_gives_the_rows_of_the_library(folder, monkeypatch, m, small_blocks):
    frame = visits()
    if small_blocks:  # some of them without a row that is kept
        monkeypatch.setattr(files, "BLOCK", 7)
        frame = visits(persons=40)
        frame.to_csv(folder / "t.csv", index=False)
    rows = files.read_rows(folder / "t.csv", scaler(), keeping(("id", m)))
    assert np.allclose(rows, expected(frame, m))


def test_a_large_file_gives_the_same_rows_block_by_block(folder, monkeypatch):
    visits(persons=40).to_csv(folder / "t.csv", index=False)
    plain = files.read_rows(folder / "t.csv", scaler(), keeping(("id", 2)))
    monkeypatch.setattr(files, "BLOCK", 11)
    monkeypatch.setattr(files, "LARGE", 10)
    rows = files.read_rows(folder / "t.csv", scaler(), keeping(("id", 2)))
    assert hasattr(rows, "compute") and np.array_equal(rows.compute(), plain)


@pytest.mark.parametrize("kind", ["numbers", "words", "missing", "floats", "categories"])
def test_parquet_and_a_folder_of_parts_give_the_same_rows(folder, kind):
    frame = visits()
    if kind == "words":
        frame["id"] = "p" + frame["id"].astype(str)
    elif kind == "missing":
        frame["id"] = frame["id"].where(frame["id"] > 20).astype("Int64")
    elif kind == "floats":
        frame["id"] = frame["id"].astype(float).where(frame["id"] > 20)
    table = pl.from_pandas(frame)
    if kind == "categories":
        table = table.with_columns(pl.col("id").cast(pl.String).cast(pl.Categorical))
    table.write_parquet(folder / "t.parquet")
    rows = files.read_rows(folder / "t.parquet", scaler(), keeping(("id", 3)))
    assert np.allclose(rows, expected(frame, 3))
    (folder / "parts").mkdir()
    for i, start in enumerate(range(0, len(frame), 300)):
        table[start : start + 300].write_parquet(folder / "parts" / f"{i}.parquet")
    with sources.opened(folder / "parts") as source:
        assert np.allclose(files.read_rows(source, scaler(), keeping(("id", 3))), rows)
    frame.to_csv(folder / "again.csv", index=False)  # 7.0 beside an empty cell
    assert np.allclose(files.read_rows(folder / "again.csv", scaler(), keeping(("id", 3))), rows)


def test_all_rows_of_a_person_move_at_most_m_rows_of_the_table(folder):
    """The theorem through the reader: of others the same rows, in the same order."""
    frame = visits()
    for person in (0, 7, 100):
        frame[frame["id"] != person].to_csv(folder / "less.csv", index=False)
        without = files.read_rows(folder / "less.csv", scaler(), keeping(("id", 3)))
        whole = files.read_rows(folder / "t.csv", scaler(), keeping(("id", 3)))
        own = expected(frame[frame["id"] == person], 3)
        assert 1 <= len(own) <= 3 and len(whole) == len(without) + len(own)
        others = whole[[not (row == own).all(axis=1).any() for row in whole]]
        assert np.array_equal(others, without)


def test_cells_of_rows_that_are_left_out_are_not_read(folder):
    frame = visits()
    kept = bound_contributions(frame, "id", 1).index
    frame["age"] = frame["age"].astype(object)
    frame.loc[~frame.index.isin(kept), "age"] = "unreadable"
    frame.to_csv(folder / "t.csv", index=False)
    assert len(files.read_rows(folder / "t.csv", scaler(), keeping(("id", 1)))) == len(kept)
    with pytest.raises(ValueError, match="cannot be used"):
        files.read_rows(folder / "t.csv", scaler(), keeping(("id", 2)))


def test_a_table_without_an_id_has_no_rows(folder):
    frame = visits()
    frame["id"] = ""
    frame.to_csv(folder / "t.csv", index=False)
    assert len(files.read_rows(folder / "t.csv", scaler(), keeping(("id", 2)))) == 0


# ---------------------------------------------------------------- the command

EMPTY = {  # a record that decides nothing: its file without it, or with a rule that leaves it out
    "a line of names": ("", [], ""),
    "a dropped record": ("1,,9\n", [], "drop"),
    "a record without an id": (",40,9\n", PERSONS, ""),
}


@pytest.mark.parametrize("how", EMPTY)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_without_records_is_answered(folder, monkeypatch, capsys, how, kind):
    """Under "add_remove" it is a neighbor of a table with one record: a refusal distinguished the two."""
    left_out, persons, rule = EMPTY[how]
    (folder / "b.csv").write_text(f"column,low,high,missing\nage,0,120,{rule}\nstay,0,30,\n")
    states = []
    for line in (left_out, "1,40,9\n"):
        table = folder / f"t.{kind}"
        table.write_text(f"id,age,stay\n{line}")
        if kind == "parquet":
            types = {"id": "Int64", "age": float, "stay": float}
            pd.read_csv(table, dtype=types).to_parquet(table, index=False)
        ledger, out = f"{len(line)}.db", f"o{len(line)}"
        begun = "--begin", 2, 1e-5, *persons[2:]
        assert not here(folder, monkeypatch, "ledger", ledger, *begun)
        asked = *ASK, *persons, "--ledger", ledger, "--out", out
        assert not here(folder, monkeypatch, "cluster", table.name, "--bounds", "b.csv", *asked)
        states.append([(row.state, row.epsilon) for row in PrivacyBudget.open(ledger).ledger])
        assert {path.name for path in Path(out).iterdir()} == {*FILES}
    assert states[0] == states[1] and len(states[0]) == 1


def test_a_run_says_the_unit_and_never_how_many_rows_were_left_out(folder, monkeypatch, capsys):
    said = here(
        folder, monkeypatch, "cluster", "t.csv", "--bounds", "b.csv", *ASK, *PERSONS, "--out", "o"
    )
    text = capsys.readouterr()
    assert not said, text.err
    receipt = Receipt.from_dict(json.loads((folder / "o" / "receipt.json").read_text()))
    assert receipt.max_rows_per_person == 3 and receipt.epsilon <= 1
    assert "of each id in column id, at most 3 rows" in receipt.title
    assert "at most 3 rows of each id in column id" in text.out and "left out" not in text.out
    assert "for each person with at most 3 rows" in text.out
    page = (folder / "o" / "report.html").read_text()
    assert "the rows of any one person (at most 3)" in page and "A person with several ids" in page
    assert "Several rows of one person" not in page
    rows, kept = len(visits()), len(expected(visits(), 3))
    for number in (rows, kept, rows - kept):
        assert f" {number} " not in text.out and f">{number}<" not in page
    # of the table that the library bounds, the fit is the same
    bound_contributions(visits(), "id", 3).to_csv(folder / "less.csv", index=False)
    unit = ["--max-rows-per-person", 3]
    here(
        folder, monkeypatch, "cluster", "less.csv", "--bounds", "b.csv", *ASK, *unit, "--out", "o2"
    )
    one, other = ((folder / o / "centers.csv").read_text() for o in ("o", "o2"))
    assert one == other


def test_without_the_options_nothing_has_changed(folder, monkeypatch, capsys):
    here(folder, monkeypatch, "cluster", "t.csv", "--bounds", "b.csv", *ASK, "--out", "o")
    assert "person" not in capsys.readouterr().out
    assert "max_rows_per_person" not in (folder / "o" / "receipt.json").read_text()
    assert "hides each single row" in (folder / "o" / "report.html").read_text()


REFUSED = {
    "no bound": (["--person-column", "id"], "state the largest number of rows"),
    "no such column": (
        ["--person-column", "ID", "--max-rows-per-person", 2],
        "there is no such column",
    ),
    "a column to be clustered": (
        ["--person-column", "age", "--max-rows-per-person", 2],
        "leave it out there",
    ),
    "replaced rows": ([*PERSONS, "--neighboring", "replace"], "needs --neighboring add_remove"),
    "no row": (["--person-column", "id", "--max-rows-per-person", 0], "--max-rows-per-person 0:"),
    "minus one": (["--max-rows-per-person", -1], "--max-rows-per-person -1:"),
    "another unit than the ledger's": (["--max-rows-per-person", 2], "cannot be added"),
    "single rows": (["--method", "MaxCoverKMeans"], "cannot be added"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_impossible_is_refused_before_a_row_is_read_or_charged(folder, monkeypatch, name):
    options, message = REFUSED[name]
    budget = PrivacyBudget.open(folder / "ledger", 4.0, 1e-5, max_rows_per_person=3)
    monkeypatch.setattr(command, "read_rows", lambda *_: pytest.fail("the table was read"))
    ask = [*ASK, "--ledger", "ledger", "--out", "o"]
    said = here(folder, monkeypatch, "cluster", "t.csv", "--bounds", "b.csv", *ask, *options)
    assert message in said and not budget.ledger and not (folder / "o").exists()


TYPES = {
    "Booleans": pl.Series("id", [True, False] * 30),
    "short floats": pl.Series("id", [1.0, 2.0] * 30, dtype=pl.Float32),
    "lists": pl.Series("id", [[1], [2]] * 30),
    "structs": pl.Series("id", [{"a": 1}, {"a": 2}] * 30),
    "no type": pa.nulls(60),
    "durations": pa.array(range(60), pa.duration("s")),
    "maps": pa.array([[("a", 1)]] * 60, pa.map_(pa.string(), pa.int64())),
}


def written(folder, ids, name="t.parquet"):
    """A Parquet file of sixty records with such ids."""
    rng = np.random.default_rng(0)
    columns = {"age": rng.uniform(20, 60, 60), "stay": rng.uniform(0, 30, 60)}
    ids = ids.to_arrow() if isinstance(ids, pl.Series) else ids
    pq.write_table(pa.table(columns | {"id": ids}), folder / name)


@pytest.mark.parametrize("name", TYPES)
def test_a_column_whose_type_names_no_person_is_refused_before_a_charge(folder, monkeypatch, name):
    written(folder, TYPES[name])
    budget = PrivacyBudget.open(folder / "ledger", 4.0, 1e-5, max_rows_per_person=3)
    ask = ["t.parquet", "--bounds", "b.csv", *PERSONS]
    told = [*ASK, "--ledger", "ledger", "--out", "o"]
    for words in (["cluster", *ask, *told], ["cluster", *ask, *told, "--dry-run"], ["check", *ask]):
        said = here(folder, monkeypatch, *words)
        assert "an id must be a whole number, a word, a date or bytes; convert it" in said
    assert not budget.ledger


WHO = [uuid.UUID(int=i // 5 + 1).bytes for i in range(60)]
BYTES = {
    "uuid": pa.uuid() if hasattr(pa, "uuid") else pa.binary(16),
    "binary": pa.binary(),
    "large": pa.large_binary(),
    "fixed": pa.binary(16),
    "view": pa.binary_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.binary()),
}


@pytest.mark.parametrize("reader", ["polars", "pyarrow"])
@pytest.mark.parametrize("name", BYTES)
def test_ids_in_bytes_are_read_by_each_reader(folder, monkeypatch, name, reader):
    monkeypatch.setattr(parquet, "_READERS", {reader: parquet._READERS[reader]})
    plain = name == "dictionary"
    ids = pa.array(WHO).dictionary_encode() if plain else pa.array(WHO, BYTES[name])
    written(folder, ids)
    rows = files.read_rows(folder / "t.parquet", scaler(), keeping(("id", 3)))
    written(folder, pa.array([str(uuid.UUID(bytes=one)) for one in WHO]), "words.parquet")
    words = files.read_rows(folder / "words.parquet", scaler(), keeping(("id", 3)))
    assert len(rows) == 36 and np.array_equal(rows, words)
    said = here(folder, monkeypatch, "cluster", "t.parquet", "--bounds", "b.csv", *ASK, *PERSONS, "--out", "o")  # fmt: skip
    assert not said


DAYS = [datetime.date(2024, 1, 1 + i % 20) for i in range(len(WHO))]
SORTS = {
    "bytes": (pa.array(WHO), "bytes"),
    "words": (pa.array([str(uuid.UUID(bytes=one)) for one in WHO]), "words"),
    "coded words": (pa.array([f"00{i % 9}" for i in range(len(WHO))]).dictionary_encode(), "words"),
    "whole": (pa.array([i % 9 for i in range(len(WHO))]), "numbers"),
    "fractions": (pa.array([i % 9 / 2 for i in range(len(WHO))]), "numbers"),
    "dates": (pa.array(DAYS), "date"),
    "times": (pa.array(DAYS, pa.date64()).cast(pa.timestamp("ms")), "datetime"),
}


@pytest.mark.parametrize(("one", "other"), itertools.combinations(SORTS, 2))
def test_parts_whose_ids_are_written_in_two_ways_are_refused(folder, monkeypatch, one, other):
    (folder / "parts").mkdir()
    for i, name in enumerate((one, other)):
        written(folder / "parts", SORTS[name][0], f"{i}.parquet")
    ask = ["parts", "--bounds", "b.csv", *PERSONS]
    said = here(folder, monkeypatch, "cluster", *ask, *ASK, "--out", "o", "--dry-run")
    (first, second) = SORTS[one][1], SORTS[other][1]
    if first == second:
        assert not said
    else:
        assert f"1.parquet: column 'id' holds {second}" in said and f"0.parquet {first}" in said
        assert "convert it to text in all parts" in said


# ---------------------------------------------------------------- the check


@pytest.mark.parametrize("kind", ["csv", "parquet", "parts"])
@pytest.mark.parametrize("m", [1, 3, 50])
def test_the_check_counts_records_without_an_id_and_what_a_fit_would_keep(
    folder, monkeypatch, capsys, kind, m
):
    frame = visits()
    frame["id"] = frame["id"].where(frame["id"] > 20).astype("Int64")
    table, name = pl.from_pandas(frame), f"t.{kind}"
    if kind == "csv":
        frame.to_csv(folder / name, index=False)
    elif kind == "parquet":
        table.write_parquet(folder / name)
    else:
        (folder / name).mkdir()
        for i, start in enumerate(range(0, len(frame), 300)):
            table[start : start + 300].write_parquet(folder / name / f"{i}.parquet")
    monkeypatch.setattr(checking, "BLOCK", 100)
    ask = [name, "--bounds", "b.csv", "--person-column", "id", "--max-rows-per-person", m]
    assert not here(folder, monkeypatch, "check", *ask)
    said, kept = capsys.readouterr().out, len(expected(frame, m))
    lost = int(frame["id"].isna().sum())
    assert f"keep {kept} of {len(frame)} records" in said
    assert f"records without an id: {lost}, which" in said
    assert f"beyond these: {len(frame) - kept - lost}" in said


def test_the_check_agrees_with_a_fit_that_finds_no_id_or_reads_no_bad_cell(
    folder, monkeypatch, capsys
):
    frame = visits()
    kept = bound_contributions(frame, "id", 1).index
    frame["age"] = frame["age"].astype(object)
    frame.loc[~frame.index.isin(kept), "age"] = "unreadable"
    frame.to_csv(folder / "t.csv", index=False)
    check = ["check", "t.csv", "--bounds", "b.csv", "--person-column", "id"]
    for m, code in ((1, 0), (2, 1)):
        assert here(folder, monkeypatch, *check, "--max-rows-per-person", m) == code
        try:
            assert len(files.read_rows(folder / "t.csv", scaler(), keeping(("id", m)))) == len(kept)
            assert code == 0
        except ValueError as error:
            assert code == 1 and "cannot be used" in str(error)
    frame["id"] = " "
    frame.to_csv(folder / "t.csv", index=False)
    assert here(folder, monkeypatch, *check, "--max-rows-per-person", 1) == 1
    said = capsys.readouterr().out
    assert "NO RECORD IS LEFT" in said and f"without an id: {len(frame)}" in said
    with open(folder / "t.csv", "a") as file:
        file.write('x,"1\n')
    assert here(folder, monkeypatch, *check, "--max-rows-per-person", 1) == 1
    assert "malformed record" in capsys.readouterr().out
    for more in ([], ["--max-rows-per-person", 0], ["--max-rows-per-person", 2**20 + 1]):
        assert "--max-rows-per-person" in here(folder, monkeypatch, *check, *more)


def test_a_ledger_for_persons_is_begun_and_charged(folder, monkeypatch, capsys):
    unit = ["--max-rows-per-person", 3]
    assert not here(folder, monkeypatch, "ledger", "ledger", "--begin", 4, 1e-5, *unit)
    assert not here(folder, monkeypatch, "cluster", "t.csv", "--bounds", "b.csv", *ASK, *PERSONS,
                    "--ledger", "ledger", "--out", "o")  # fmt: skip
    assert not here(folder, monkeypatch, "ledger", "ledger")
    assert "for each person with at most 3 rows" in capsys.readouterr().out
    budget = PrivacyBudget.open(folder / "ledger")
    assert budget.max_rows_per_person == 3 and budget.ledger[0].state == "settled"
    assert budget.receipts[0].max_rows_per_person == 3
    assert "at most 3 rows each, not" in here(
        folder, monkeypatch, "ledger", "ledger", "--max-rows-per-person", 5
    )


# ---------------------------------------------------------------- a bound without a column

PROMISE = (
    "no rule was applied: epsilon and delta hold for a person only if the table has at most 3 rows of each person; "
    "--person-column ID enforces this"
)


@pytest.mark.parametrize("stated", ["by an option", "by the ledger"])
def test_a_bound_that_no_rule_applies_is_called_a_promise(folder, monkeypatch, capsys, stated):
    ask = ["cluster", "t.csv", "--bounds", "b.csv", *ASK, "--out", "o"]
    if stated == "by an option":
        ask += PERSONS[2:]
    else:  # the run states its cost for single rows, and the ledger converts it
        PrivacyBudget.open(folder / "ledger", 9.0, 1e-5, max_rows_per_person=3).close()
        ask += ["--ledger", "ledger"]
    assert not here(folder, monkeypatch, *ask, "--dry-run")
    assert PROMISE in capsys.readouterr().out
    assert not here(folder, monkeypatch, *ask)
    assert PROMISE in capsys.readouterr().out
    receipt = Receipt.from_dict(json.loads((folder / "o" / "receipt.json").read_text()))
    assert PROMISE in receipt.title
    page = (folder / "o" / "report.html").read_text()
    assert f"<li>Persons with more rows than promised: {PROMISE}.</li>" in page
    # with the column there is a rule, and nothing is promised
    bounded = ["cluster", "t.csv", "--bounds", "b.csv", *ASK, *PERSONS, "--out", "o2"]
    assert not here(folder, monkeypatch, *bounded)
    assert "no rule was applied" not in capsys.readouterr().out
    assert "no rule was applied" not in (folder / "o2" / "receipt.json").read_text()
    assert "no rule was applied" not in (folder / "o2" / "report.html").read_text()


@pytest.mark.parametrize("m", [1, 3])
def test_the_check_refuses_a_bound_that_it_could_not_count(folder, monkeypatch, m):
    said = here(
        folder, monkeypatch, "check", "t.csv", "--bounds", "b.csv", "--max-rows-per-person", m
    )
    assert said.startswith(f"dplit: --max-rows-per-person {m}: without --person-column ID")


# ---------------------------------------------------------------- fewer rows than the ledger counts


@pytest.mark.parametrize("method", ["PEMeans", "NoisyLloyd", "GridKMeans", "MaxCoverKMeans"])
@pytest.mark.parametrize("m", [1, 2])
def test_a_run_that_keeps_fewer_rows_than_the_ledger_counts_costs_what_it_states(folder, monkeypatch, capsys, method, m):  # fmt: skip
    PrivacyBudget.open(folder / "ledger", 9.0, 1e-4, max_rows_per_person=3).close()
    ask = ["cluster", "t.csv", "--bounds", "b.csv", *ASK, "--method", method, "--out", "o"]
    ask += ["--person-column", PERSONS[1], "--max-rows-per-person", m, "--ledger", "ledger"]
    words = f"this run keeps at most {m} of the rows of each person, so it costs a person what it"
    assert not here(folder, monkeypatch, *ask, "--dry-run")
    quoted = capsys.readouterr().out
    assert words in quoted and f"{method} (rows kept of each person: {m})" in quoted
    assert not here(folder, monkeypatch, *ask)
    assert words in capsys.readouterr().out
    receipt = Receipt.from_dict(json.loads((folder / "o" / "receipt.json").read_text()))
    assert receipt.max_rows_per_person == m  # what was kept
    budget = PrivacyBudget.open(folder / "ledger")
    [row] = budget.ledger
    assert row.state == "settled" and row.epsilon <= receipt.epsilon * (1 + 1e-9)
    [kept] = budget.receipts
    assert kept.max_rows_per_person == 3 and kept.releases == receipt.releases
    # the same run in a ledger of its own unit counts the same
    alone = PrivacyBudget(9.0, 1e-4, max_rows_per_person=m)
    alone.charge(receipt=receipt, fixed=True)
    assert budget.spendings[0].mu_squared >= alone.spendings[0].mu_squared * (1 - 1e-9)


def test_kept_rows_cost_what_the_theorem_says_and_more_rows_than_the_ledger_counts_are_refused(folder, monkeypatch, capsys):  # fmt: skip
    from dplit import PEMeans
    from dplit.command_line.persons import KeptRows

    PrivacyBudget.open(folder / "ledger", 9.0, 1e-4, max_rows_per_person=3).close()
    ask = ["cluster", "t.csv", "--bounds", "b.csv", *ASK, "--ledger", "ledger", "--out", "o"]
    said = here(folder, monkeypatch, *ask, "--person-column", PERSONS[1], "--max-rows-per-person", 4)  # fmt: skip
    assert "the two cannot be added" in said and "add --max-rows-per-person 3" in said
    # without the column no row is dropped, and a person costs more
    assert not here(folder, monkeypatch, *ask, "--dry-run")
    said = capsys.readouterr().out
    assert "so it is charged epsilon" in said
    assert "With --person-column ID --max-rows-per-person 1 it would keep one row" in said
    model = PEMeans(2, epsilon=1.0, delta=1e-6, radius=1.0, max_rows_per_person=2)
    one, other = model.privacy_cost(), KeptRows(model, 5).privacy_cost()
    assert (one.epsilon, one.delta, one.gaussian_only) == (other.epsilon, other.delta, other.gaussian_only)  # fmt: skip
    assert other.max_rows_per_person == 5 and not PrivacyBudget.open(folder / "ledger").ledger
