"""Refusals that a fresh user read: what each of them says, and that a record changes none of them."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dplit import PrivacyBudget
from dplit.__main__ import main
from dplit.command_line import bounds, files, parquet, sources
from dplit.command_line.options import number_of


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("b.csv").write_text("column,low,high\nage,0,120\n")
    PrivacyBudget.open("ledger.db", 4, 1e-5).close()
    return tmp_path


def refused(table, *more):
    line = ["cluster", table, "--bounds", "b.csv", "--clusters", "2", "--epsilon", "1"]
    line += ["--delta", "1e-6", "--ledger", "ledger.db", "--out", "out", *more]
    said = main(line)
    assert isinstance(said, str) and not Path("out").exists()
    with PrivacyBudget.open("ledger.db") as budget:
        assert not budget.ledger
    return said


def test_the_first_record_of_a_table_without_names_changes_no_word(desk):
    said = set()
    for first in ("37,37", "37,38", ",", "37,"):
        Path("t.csv").write_text(f"{first}\n40,41\n")
        said.add(refused("t.csv"))
    assert len(said) == 1 and "'age' is not among the 2 names" in said.pop()
    Path("t.csv").write_text("age,x,x\n40,41,42\n")
    assert "two of its 3 columns have the same name" in refused("t.csv")


@pytest.mark.parametrize("packed", [True, False])
def test_a_limit_of_bytes_reveals_a_power_of_two_alone(desk, monkeypatch, packed):
    """A bisection over the limit ends at the same place for all sizes with the same power of two."""
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    scaler = bounds._scaler(bounds.read_bounds("b.csv"), ["age"])

    def fits(size, most):
        text = ("age\n" + "1\n" * size)[: size - 1] + "\n"
        path = Path("t.csv.gz" if packed else "t.csv")
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        try:
            with sources.opened(str(path), most) as source:
                files.check_table(source, scaler)
        except ValueError as error:
            assert f"more than {most:,} bytes" in str(error)
            return False
        return True

    for size in (513, 700, 1024):
        assert [fits(size, most) for most in (512, 700, 1023, 1024, 1025)] == [False] * 3 + [
            True
        ] * 2
    assert fits(512, 512) and not fits(512, 511)


@pytest.mark.parametrize(
    ("low", "high"), [("min", "max"), ("Lower", "upper"), ("lo", "hi"), ("from", "to")]
)
def test_other_words_for_the_ends_are_named(desk, low, high):
    Path("b.csv").write_text(f"column,{low},{high}\nage,0,120\n")
    with pytest.raises(
        ValueError, match=f"there is no '{low}' in a declaration; did you mean 'low'"
    ):
        bounds.read_bounds("b.csv")
    Path("b.json").write_text(json.dumps({"age": {"low": 0, high: 120}}))
    with pytest.raises(
        ValueError, match=f"there is no '{high}' in a declaration; did you mean 'high'"
    ):
        bounds.read_bounds("b.json")


def test_a_least_value_next_to_the_ends_is_a_comment(desk):
    Path("b.csv").write_text("column,low,high,min,max\nage,0,120,3,99\n")
    assert bounds.read_bounds("b.csv")["low"] == {"age": 0.0}


@pytest.mark.parametrize("values", ["north||south", "north|", "|north"])
def test_an_empty_value_next_to_a_bar_is_refused(desk, values):
    Path("b.csv").write_text(f"column,low,high,values\nregion,,,{values}\n")
    with pytest.raises(ValueError, match="'region' has an empty value next to a bar.*JSON"):
        bounds.read_bounds("b.csv")
    Path("b.json").write_text(json.dumps({"region": {"values": ["north", "", "south"]}}))
    assert bounds.read_bounds("b.json")["categories"] == {"region": ["north", "", "south"]}


@pytest.mark.parametrize("begins", ["BZh9", "Rar!", "ORC", "%PDF", "RDX2", "Obj\x01"])
def test_a_first_name_that_looks_like_another_format(desk, begins):
    Path("t.csv").write_text(f"{begins}{',age' * (begins != 'RDX2')}\n1,2\n")
    assert "or its first name looks like it" in refused("t.csv")


@pytest.mark.parametrize("name", ["a\u200bge", "\u2060age", "\uff41ge", "age\xa0\u200e"])
def test_a_name_that_looks_the_same_is_told(desk, name):
    Path("t.csv").write_text(f"{name},x\n1,2\n", encoding="utf-8")
    said = refused("t.csv")
    assert "a name looks the same" in said and name not in said
    Path("t.csv").write_text("AGE,x\n1,2\n")
    assert "upper and lower case differ" in refused("t.csv")
    Path("t.csv").write_text("ages,x\n1,2\n")
    assert "does its first line hold names?" in refused("t.csv")


def test_a_negative_number_is_read_as_a_number(desk):
    Path("t.csv").write_text("age\n1\n2\n")
    said = main(
        "cluster t.csv --bounds b.csv --clusters 2 --epsilon 1 --delta -1e-6 --out out".split()
    )
    assert "--delta -1e-06: PEMeans needs 0 < delta < 1" in said


# ---------------------------------------------------------------- numbers that no float represents

BEYOND = {
    "1e400": "too large",
    "-1e400": "too large",
    "1e-400": "too small",
    "0.001e-330": "too small",
}


@pytest.mark.parametrize("number", BEYOND)
@pytest.mark.parametrize(
    "line",
    [
        "cluster t.csv --bounds b.csv --clusters 2 --epsilon {} --delta 1e-6 --out out",
        "cluster t.csv --bounds b.csv --clusters 2 --epsilon 1 --delta {} --out out",
        "ledger new.db --begin 4 {}",
        "ledger new.db --begin {} 1e-6",
        "tour --epsilon {}",
    ],
)
def test_an_option_that_no_float_represents_is_refused(desk, capsys, line, number):
    """Mutation: 1e-400 is read as 0, which asks for another guarantee."""
    with pytest.raises(SystemExit) as caught:
        main(line.format(number).split())
    assert caught.value.code == 2 and not Path("new.db").exists()
    assert f"{BEYOND[number]} for a computer's numbers" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["b.csv", "b.json"])
@pytest.mark.parametrize("number", [*BEYOND, "9" * 400, "9" * 5000])
@pytest.mark.parametrize("end", ["low", "high", "weight", "missing"])
def test_a_declared_number_that_no_float_represents_is_refused_by_its_column(
    desk, name, number, end
):
    given = {"low": "0", "high": "120", "weight": "1", "missing": "5"} | {end: number}
    if name == "b.csv":
        Path(name).write_text(f"column,{','.join(given)}\nage,{','.join(given.values())}\n")
    else:
        entry = ", ".join(f'"{key}": {value}' for key, value in given.items())
        Path(name).write_text(f'{{"age": {{{entry}}}}}')
    with pytest.raises(ValueError, match="column 'age' has") as caught:
        bounds.read_bounds(name)
    said = str(caught.value)
    assert f"{BEYOND.get(number, 'too large')} for a computer's numbers" in said and len(said) < 300


def test_numbers_that_a_float_represents_are_read_as_before(desk):
    for text in ("0", "0e400", "-0.0", "1e-300", " 5e307 ", "1e308", "4.9e-324"):
        assert number_of(text) == float(text)
    Path("b.json").write_text('{"age": [0.0, 1e2], "k": {"values": [1, 2]}, "n": [0, 12]}')
    found = bounds.read_bounds("b.json")
    assert found["high"] == {"age": 100.0, "n": 12} and found["categories"] == {"k": ["1", "2"]}
    Path("b.json").write_text('{"age": [1e400, 2e400]}')  # is no list of words
    with pytest.raises(ValueError, match="column 'age' has low='1e400'"):
        bounds.read_bounds("b.json")


# ---------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ('{"age": [0, 120],\n "n": [0, 1],\n}', "line (3|2, at character 13)", "a comma too many"),
        ('{"age": [0, 120,]}', "line 1", "a comma too many"),
        ('{"age": [0,, 120]}', "line 1", "a comma too many"),
        ('{"age": [0, 120]\n "n": [0, 1]}', "line 2, at character 2", "a bracket missing"),
        ('{"age": [0, 120]', "line 1", "a bracket missing"),
        ('{"age: [0, 120]}', "line 1", "a bracket missing"),
        ('{"age": [0, 120]}\n{}', "line 2, at character 1", "a bracket missing"),
    ],
)
def test_json_that_ends_early_is_told_by_its_place(desk, text, place, why):
    """Mutation: the place is left out. Python's own words, which may quote a sign, are not repeated."""
    Path("b.json").write_text(text)
    with pytest.raises(ValueError, match=place) as caught:
        bounds.read_bounds("b.json")
    said = str(caught.value)
    assert why in said and "120" not in said and "delimiter" not in said and "Expecting" not in said


# ---------------------------------------------------------------- places


@pytest.mark.parametrize(
    "line",
    [
        "ledger - --begin 1 1e-6",
        "ledger -",
        "cluster t.csv --bounds - --clusters 2 --epsilon 1 --delta 1e-6 --out out",
        "cluster t.csv --bounds b.csv --clusters 2 --epsilon 1 --delta 1e-6 --out -",
        "cluster t.csv --bounds b.csv --clusters 2 --epsilon 1 --delta 1e-6 --out out --ledger -",
        "check t.csv --bounds -",
        "tour --picture -",
    ],
)
def test_a_dash_is_a_table_and_no_other_file(desk, capsys, line):
    before = {path.name for path in desk.iterdir()}
    with pytest.raises(SystemExit):
        main(line.split())
    assert "standard input or output" in capsys.readouterr().err
    assert {path.name for path in desk.iterdir()} == before


LONG = "x" * 300


@pytest.mark.parametrize("out", [LONG, f"new/{LONG}", "t.csv", "t.csv/new", "there"])
@pytest.mark.parametrize("more", [["--dry-run"], []])
def test_a_folder_that_cannot_hold_the_results_is_found_by_the_dry_run_too(desk, out, more):
    """Mutations: the dry run looks only for earlier results; folders that were made for it stay."""
    Path("t.csv").write_text("age\n40\n50\n")
    Path("there").mkdir()
    Path("there/report.html").write_text("earlier")
    before = {str(path) for path in desk.rglob("*")}
    said = _refused_at(out, *more)
    assert "Errno" not in said and ("cannot be made into one" in said or "earlier run" in said)
    assert {str(path) for path in desk.rglob("*")} == before


def _refused_at(out, *more):
    line = ["cluster", "t.csv", "--bounds", "b.csv", "--clusters", "2", "--epsilon", "1"]
    said = main([*line, "--delta", "1e-6", "--ledger", "ledger.db", "--out", out, *more])
    assert isinstance(said, str)
    with PrivacyBudget.open("ledger.db") as budget:
        assert not budget.ledger
    return said


def test_a_dry_run_finds_a_full_disk(desk, monkeypatch):
    def full(folder, room):
        raise OSError(f"{folder}: nothing can be written there (No space left on device).")

    Path("t.csv").write_text("age\n40\n50\n")
    monkeypatch.setattr("dplit.command_line.command.check_folder", full)
    for more in (["--dry-run"], []):
        assert "No space left" in _refused_at("new/deep", *more)
        assert not Path("new").exists()


@pytest.mark.parametrize(
    "call",
    [
        f"ledger {LONG}",
        f"ledger {LONG} --begin 1 1e-6",
        f"ledger {LONG[:240]} --begin 1 1e-6",
        f"tour --picture {LONG}.png",
    ],
)
def test_a_name_that_is_too_long_is_told_in_words(desk, call):
    said = main(call.split())
    assert "File name too long" in said and "Errno" not in said


def test_a_value_in_two_spellings_is_doubted_where_the_type_makes_them_one(desk, capsys):
    """Mutation: each value is tried as if it stood alone in its list."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.table(
        {"whole": [1, 2], "float": [1.0, 2.0], "truth": [True, False], "word": ["1", "1.0"]}
    )
    parquet.write_table(table, "t.parquet")
    lists = "whole,1|1.0|2\nfloat,1|1.0|2\ntruth,true|True|False\nword,1|1.0|2\n"
    Path("b.csv").write_text(f"column,values\n{lists}")
    said = refused("t.parquet")
    for name, lost in (("whole", "'1.0'"), ("float", "'1'"), ("truth", "'true'")):
        assert f"of the values of column '{name}', {lost} cannot occur" in said
    assert "'word'" not in said and "two spellings" in said


@pytest.mark.parametrize("values", ["0.1|0.2", "0.5|0.1"])
@pytest.mark.parametrize("reader", [["pyarrow"], ["polars"], ["polars", "pyarrow"]])
def test_a_list_that_no_half_precision_cell_equals_is_no_list_of_it(
    desk, monkeypatch, values, reader
):
    """A cell of float16 is 0.0999755859375, and its short text is 0.1: such a fit was charged, and no cell was on the list."""
    column = pa.array(np.array([0.1, 0.5] * 20, dtype=np.float16))
    pq.write_table(pa.table({"age": column, "stay": np.ones(40)}), desk / "t.parquet")
    (desk / "b.csv").write_text(f"column,low,high,values\nage,,,{values}\nstay,0,9,\n")
    monkeypatch.setattr(parquet, "_READERS", {name: parquet._READERS[name] for name in reader})
    said = refused("t.parquet")
    assert "cannot occur" in said or "can occur" in said


@pytest.mark.parametrize("kind", ["csv", "blank lines", "parquet"])
def test_no_records_under_replace_are_refused_before_the_charge(desk, kind):
    """Their number is public there. Under add_remove such a table is answered."""
    (desk / "b.csv").write_text("column,low,high\nage,0,9\nstay,0,9\n")
    name = "t.parquet" if kind == "parquet" else "t.csv"
    (desk / name).write_text("age,stay\n" + "\n \n" * (kind == "blank lines"))
    if kind == "parquet":
        pd.DataFrame({"age": [0.5], "stay": [0.5]}).iloc[:0].to_parquet(desk / name)
    said = refused(name, "--neighboring", "replace")
    assert "it has no records" in said and "nothing was charged" in said


def test_bounds_are_read_from_a_pipe(desk):
    """Process substitution of a shell: the pipe was read twice, and empty the second time."""
    (desk / "t.csv").write_text("age,stay\n1,2\n")
    read, write = os.pipe()
    os.write(write, b"column,low,high\nage,0,9\nstay,0,9\n")
    os.close(write)
    assert bounds.read_bounds(f"/dev/fd/{read}")["low"] == {"age": 0.0, "stay": 0.0}
    os.close(read)


@pytest.mark.parametrize(
    "joined", ["north\nsouth", "north\r\nsouth", "north｜south", "north、south", "north ／ south"]
)
def test_a_value_that_holds_several_stops_a_charge(desk, joined):
    (desk / "t.csv").write_text("age,region\n1,north\n")
    (desk / "b.csv").write_text(f'column,low,high,values\nage,0,9,\nregion,,,"{joined}"\n')
    assert "in doubt before the charge" in refused("t.csv")


@pytest.mark.parametrize("out", ["people", "people/answer", "people/../people/deep/answer"])
def test_a_result_in_the_folder_of_the_table_is_refused(desk, out):
    """It would be read as a part of the table the next time."""
    Path("people").mkdir()
    pq.write_table(pa.table({"age": [40.0, 41.0]}), "people/part-0.parquet")
    line = ["cluster", "people", "--bounds", "b.csv", "--clusters", "2", "--epsilon", "1"]
    said = main([*line, "--delta", "1e-6", "--out", out])
    assert "lies in the folder of the table" in said and os.listdir("people") == ["part-0.parquet"]


def test_a_home_that_the_shell_left_alone_is_found(desk, monkeypatch):
    monkeypatch.setenv("HOME", str(desk))
    Path("t.csv").write_text("age\n40\n41\n")
    line = ["cluster", "~/t.csv", "--bounds", "~/b.csv", "--clusters", "2", "--epsilon", "1"]
    assert main([*line, "--delta", "1e-6", "--method", "NoisyLloyd", "--out", "~/answer"]) == 0
    assert (desk / "answer" / "centers.csv").exists() and not Path("~").exists()
