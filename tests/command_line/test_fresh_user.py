"""Refusals that a fresh user read: what each of them says, and that a record changes none of them."""

import gzip
import json
from pathlib import Path

import pytest

from dplit import PrivacyBudget
from dplit.__main__ import main
from dplit.command_line import bounds, files, sources


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
    with pytest.raises(ValueError, match=f"there is no '{low}' in a declaration; is 'low' meant"):
        bounds.read_bounds("b.csv")
    Path("b.json").write_text(json.dumps({"age": {"low": 0, high: 120}}))
    with pytest.raises(ValueError, match=f"there is no '{high}' in a declaration; is 'high' meant"):
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
