"""A declaration that looks like a mistake stops a run before its charge; a file of bounds that is another file is told, with the next step."""

import io
import os
import sys
import threading
import time
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

from dplit import PrivacyBudget
from dplit.command_line import command
from dplit.inputs import Column
from dplit.inputs.doubts import badly_listed

ASK = "--bounds b.csv --clusters 2 --epsilon 0.5 --delta 1e-6 --seed 0 --ledger ledger --out o"
HEAD = "column,low,high,values\nage,0,120,\n"


@pytest.fixture
def desk(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    lines = [f"{age},{'north' if age % 2 else 'south'}" for age in rng.integers(20, 60, 80)]
    (tmp_path / "t.csv").write_text("\n".join(["age,region", *lines]))
    monkeypatch.chdir(tmp_path)
    PrivacyBudget.open(tmp_path / "ledger", 4.0, 1e-5).close()
    return tmp_path


def run(*words):
    """What the command says when it stops, else 0."""
    from dplit.__main__ import main

    return main([str(word) for word in words])


def n_charges(desk):
    with PrivacyBudget.open(desk / "ledger") as budget:
        return len(budget.ledger)


WRONG = [
    "north;south",
    '"north,south"',
    "north / south",
    "'north'|'south'",
    "[north|south]",
    "{north|south}",
    "'north'",
    '"""north""|""south"""',
]


@pytest.mark.parametrize("values", WRONG)
def test_a_list_that_looks_badly_written_stops_the_run_unless_it_is_accepted(desk, capsys, values):
    (desk / "b.csv").write_text(f"{HEAD}region,,,{values}\n")
    said = run("cluster", "t.csv", *ASK.split())
    assert said.startswith("dplit: in doubt before the charge: The list of column 'region'")
    assert said.endswith("Nothing was charged. If this is what you mean, add --accept-doubts.")
    assert n_charges(desk) == 0 and not (desk / "o").exists()
    assert run("cluster", "t.csv", *ASK.split(), "--dry-run") == 1
    told = capsys.readouterr().out
    assert "in doubt: The list" in told and "Without --accept-doubts a run stops" in told
    assert run("cluster", "t.csv", *ASK.split(), "--dry-run", "--accept-doubts") == 0
    told = capsys.readouterr().out
    assert "in doubt: The list" in told and "Without --accept-doubts" not in told
    run("check", "t.csv", "--bounds", "b.csv")
    told = capsys.readouterr().out
    assert "in doubt: The list of column 'region'" in told and "Without --accept-doubts" in told


def test_an_accepted_doubt_is_said_and_charged(desk, capsys):
    (desk / "b.csv").write_text(f"{HEAD}region,,,north;south\n")
    assert run("cluster", "t.csv", *ASK.split(), "--accept-doubts") == 0
    out, err = capsys.readouterr()
    assert out.index("in doubt: The list") < out.index("reading 2 columns")
    assert "DoubtWarning" not in err and n_charges(desk) == 1


@pytest.mark.parametrize("value", ["north", "N/A", "km/h", "either/or"])
def test_a_list_of_one_value_is_said_and_stops_nothing(desk, capsys, value):
    """Mutation: a slash inside a word counts as a separator."""
    (desk / "b.csv").write_text(f"{HEAD}region,,,{value}\n")
    assert run("cluster", "t.csv", *ASK.split()) == 0
    assert "note: The list of column 'region' has one value" in capsys.readouterr().out
    assert n_charges(desk) == 1


FINE = [
    ("north", "south"),
    ("Washington, DC", "Portland, OR"),
    ("(none)", "some"),
    ("a (b)", "c"),
    ("[a]", "[b]"),
    ("it's", "o'clock"),
    (1, 2),
    ("5'", "6'"),
    ("1",),
    ("(x) a", "b (y)"),
]


@pytest.mark.parametrize("values", FINE)
def test_usual_lists_are_not_doubted(values):
    assert badly_listed(Column("c", values=values)) == ""


@pytest.mark.parametrize(
    ("clusters", "more", "told"),
    [
        (20_000, "", "--clusters 20000: PEMeans may take minutes"),
        (200_000, "--method NoisyLloyd", "--clusters 200000: NoisyLloyd would"),
        (3_000, "--method NoisyLloyd", "--clusters 3000: NoisyLloyd may take minutes"),  # cells
        (250_000, "--method GridKMeans", "--clusters 250000: the command may take minutes"),
        (10**7, "", "--clusters 10000000: PEMeans would take more than a day"),
        (10**7, "--method NoisyLloyd", "--clusters 10000000: NoisyLloyd"),
    ],
)
def test_more_clusters_than_a_machine_can_do_stop_the_run(desk, capsys, clusters, more, told):
    (desk / "b.csv").write_text(f"{HEAD}region,,,north|south\n")
    ask = ASK.replace("--clusters 2", f"--clusters {clusters} {more}").split()
    began = time.process_time()
    said = run("cluster", "t.csv", *ask)
    assert told in said and n_charges(desk) == 0 and not (desk / "o").exists()
    dry = run("cluster", "t.csv", *ask, "--dry-run")
    assert dry and told in (dry if isinstance(dry, str) else capsys.readouterr().out)
    assert time.process_time() - began < 10


def test_usual_numbers_of_clusters_are_not_doubted(desk, monkeypatch):
    (desk / "b.csv").write_text(f"{HEAD}region,,,north|south\n")
    monkeypatch.setattr(command, "stopped", lambda *_: pytest.fail("it stopped"))
    for method in "PEMeans", "NoisyLloyd", "GridKMeans", "MaxCoverKMeans":
        ask = ASK.replace("--clusters 2", f"--clusters 300 --method {method}").split()
        assert run("cluster", "t.csv", *ask, "--dry-run") == 0


# ---------------------------------------------------------------- files of bounds


def test_a_value_that_is_there_twice_is_named(desk):
    for values, told in (("north|south|north", "'north' equals"), ("1|2|1", "'1' equals")):
        (desk / "b.csv").write_text(f"{HEAD}region,,,{values}\n")
        said = run("check", "t.csv", "--bounds", "b.csv")
        assert told in said and "b.csv: categories of column 'region'" in said


def test_a_rule_for_missing_cells_of_a_list_is_named(desk):
    text = "column,low,high,values,missing\nage,0,120,,\nregion,,,north|south,low\n"
    (desk / "b.csv").write_text(text)
    (desk / "b.json").write_text('{"region": {"values": ["a", "b"], "missing": "drop"}}')
    for name, rule in (("b.csv", "low"), ("b.json", "drop")):
        said = run("check", "t.csv", "--bounds", name)
        assert f"column 'region' has values and also missing={rule!r}" in said
        assert said.endswith("leave the rule out.")


HEADS = {
    "Column,Low,High": "Write column,low,high there.",
    "name,min,max": "Write column,low,high there.",
    "variable;lower;upper;categories": "Write column,low,high,values there.",
    "column_name,low,high,note": "Write column,low,high,note there.",
    "COLUMN,HIGH,LOW": "Write column,high,low there.",
    "age,0,120": "Is that line missing? Or is this the table?",
    "age,region": "Is that line missing? Or is this the table?",
    "name,secret": "Is that line missing? Or is this the table?",
    '{"age": [0, 120]}': "give the file a name that ends in .json.",
    '[{"column": "age"}]': "give the file a name that ends in .json.",
    '{\n"age": [0, 120]}': "give the file a name that ends in .json.",
}


@pytest.mark.parametrize("head", HEADS)
def test_another_first_line_is_told_with_the_next_step(desk, head):
    (desk / "b.csv").write_text(f"{head}\n1,2,3,4\n")
    said = run("check", "t.csv", "--bounds", "b.csv")
    assert said.endswith(HEADS[head]) and "must be column,low,high" in said
    assert "secret" not in said


def _zipped(name):
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        archive.writestr(name, "x")
    return file.getvalue()


OTHER = {
    "UTF-16": (
        f"{HEAD}".encode("utf-16"),
        "perhaps UTF-16, or binary); save its table as CSV in UTF-8",
    ),
    "UTF-16 without a mark": (HEAD.encode("utf-16-le"), "perhaps UTF-16, or binary)"),
    "a pickle": (b"\x80\4abc", "it is a pickle; save its table as CSV in UTF-8"),
    "gzip": (b"\x1f\x8b\x08 ", "it is compressed"),
    "a database": (b"SQLite format 3\0", "it is another format"),
    "latin-1": (HEAD.replace("age", "\u00e2ge").encode("latin-1"), "such as latin-1; save it as"),
    "a spreadsheet": (_zipped("xl/workbook.xml"), "it is a spreadsheet, or compressed; save its"),
    "an empty zip": (b"PK\5\6" + bytes(18), "it is a spreadsheet, or compressed; save its"),
    "Parquet": (b"PAR1" + bytes(99), "it is Parquet; save its table as CSV"),
}


@pytest.mark.parametrize("name", OTHER)
def test_bounds_that_are_no_text_are_told_with_the_next_step(desk, name):
    content, told = OTHER[name]
    (desk / "b.csv").write_bytes(content)
    said = run("check", "t.csv", "--bounds", "b.csv")
    assert told in said and "bounds b.csv" in said


def test_csv_in_a_file_named_json_is_told(desk):
    (desk / "b.json").write_text(HEAD)
    assert run("check", "t.csv", "--bounds", "b.json").endswith("a name that ends in .csv.")
    (desk / "b.json").write_text("[1]")
    assert run("check", "t.csv", "--bounds", "b.json").endswith("an entry for each column.")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("none.zip", b"PK\5\6" + bytes(18), "a zip file of 0 files"),
        ("t.xlsx", b"PK\3\4" + b"xl/" * 50, "it is a spreadsheet, and damaged or cut short; save"),
        ("t.ODS", b"PK\3\4" + bytes(50), "it is a spreadsheet, and damaged or cut short; save"),
        ("t.csv.zip", b"PK\3\4" + bytes(50), "it is compressed, and cannot be unpacked"),
    ],
)
def test_a_damaged_table_is_told_as_what_it_is(desk, name, content, told):
    (desk / "b.csv").write_text(HEAD)
    (desk / name).write_bytes(content)
    assert told in run("check", name, "--bounds", "b.csv")


def test_a_table_in_place_of_a_ledger_is_told(desk):
    (desk / "b.csv").write_text(HEAD)
    (desk / "empty").touch()
    for name in ("t.csv", "b.csv", "empty"):
        before = (desk / name).read_bytes()
        for ask in (["ledger", name], ["cluster", "t.csv", *ASK.replace("ledger ledger", f"ledger {name}").split()]):  # fmt: skip
            said = run(*ask)
            assert (
                "it is not a ledger of dplit; name another file" in said and "damaged" not in said
            )
        assert (desk / name).read_bytes() == before


# ---------------------------------------------------------------- a dry run reads no more than the names


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have no name here")
@pytest.mark.parametrize("start", [["age,region\n"], ["age,re", "gion\r", "1,north\r"]])
def test_a_dry_run_of_a_pipe_waits_for_its_first_line_only(desk, capsys, start):
    (desk / "b.csv").write_text(f"{HEAD}region,,,north|south\n")
    os.mkfifo(desk / "pipe")
    done = threading.Event()

    def write():
        with open(desk / "pipe", "wb", buffering=0) as pipe:
            for part in start:
                pipe.write(part.encode())
                time.sleep(0.05)
            done.wait(60)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert run("cluster", "pipe", *ASK.split(), "--dry-run") == 0
    finally:
        done.set()
        writer.join()
    out, err = capsys.readouterr()
    assert "It would cost" in out or "admitted" in out
    assert "copying" not in out + err


@pytest.mark.parametrize("kind", ["gzip", "csv"])
def test_a_dry_run_of_standard_input_says_what_a_dry_run_of_the_file_says(desk, capsys, monkeypatch, kind):  # fmt: skip
    import gzip

    (desk / "b.csv").write_text(f"{HEAD}region,,,north|south\n")
    assert run("cluster", "t.csv", *ASK.split(), "--dry-run") == 0
    told = capsys.readouterr().out
    content = (desk / "t.csv").read_bytes()
    content = gzip.compress(content) if kind == "gzip" else content
    stream = io.BufferedReader(io.BytesIO(content))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
    assert run("cluster", "-", *ASK.split(), "--dry-run") == 0
    assert capsys.readouterr().out == told
