"""Lists of values that the type of a Parquet column cannot contain: refused or doubted before a charge, as the reader finds them."""

import decimal

import numpy as np
import pytest

from dplit import PrivacyBudget
from dplit.command_line import command, files, parquet
from dplit.command_line.bounds import _scaler, read_bounds
from dplit.command_line.sources import Source

pa = pytest.importorskip("pyarrow")
pytest.importorskip("polars")
pq = pytest.importorskip("pyarrow.parquet")

N = 60
ASK = ["--clusters", 2, "--epsilon", 1, "--delta", 1e-6, "--seed", 0, "--out", "o"]
WHOLE = [0, 1, 2, 100, 7] * 12
HALVES = [0.5, 1.0, 0.1, 1e20, -0.0] * 12
TYPES = {
    "int8": pa.array(WHOLE, pa.int8()),
    "uint8": pa.array(WHOLE, pa.uint8()),
    "int64": pa.array([-5, *WHOLE[1:]]),
    "uint64": pa.array(WHOLE, pa.uint64()),
    "float16": pa.array(np.array(WHOLE, np.float16)),
    "float32": pa.array(HALVES, pa.float32()),
    "double": pa.array(HALVES),
    "decimal(9, 2)": pa.array(map(decimal.Decimal, WHOLE), pa.decimal128(9, 2)),
    "decimal(5, 0)": pa.array(map(decimal.Decimal, WHOLE), pa.decimal128(5, 0)),
    "small decimals": pa.array([decimal.Decimal("1E-7")] * N, pa.decimal128(9, 7)),
    "bool": pa.array([True, False] * 30),
    "dictionary": pa.array(WHOLE).dictionary_encode(),
    "words": pa.array(["m", "f", "1", "0.1", "true"] * 12),
    "a dictionary of words": pa.array(["m", "f", "1", "0.1", "yes"] * 12).dictionary_encode(),
}
VALUES = "0 1 1.0 01 1.00 7 -5 -0 0.5 .5 0.1 0.10 1.5 100 300 -300 1e20 1e+20 1e400 nan NaN inf m yes true True".split()
VALUES += ["false", "0.00", "100.00", "1E-7", "0.0000001", "sNaN", "", "1_0"]


def table(folder, cells, values):
    pq.write_table(pa.table({"age": np.linspace(20, 60, N), "b": cells}), folder / "t.parquet")
    (folder / "b.csv").write_text(f"column,low,high,values\nage,0,120,\nb,,,{'|'.join(values)}\n")
    return Source.of(folder / "t.parquet")


def here(folder, monkeypatch, *words):
    """The command in this process: what it says at the end, 0 if all went well."""
    from dplit.__main__ import main

    monkeypatch.chdir(folder)
    return main([str(word) for word in words])


@pytest.mark.parametrize("reader", ["polars", "pyarrow"])
@pytest.mark.parametrize("name", TYPES)
def test_no_value_that_a_reader_finds_is_lost(tmp_path, monkeypatch, name, reader):
    """Against the reader: the cells of the file, and one more for each value that this type can hold."""
    monkeypatch.setattr(parquet, "_READERS", {reader: parquet._READERS[reader]})
    kind = dict(parquet._parquet(table(tmp_path, TYPES[name], ["x"]).parts[0], 0))["b"]
    more = []
    for value in VALUES:
        for cell in (
            value,
            value == "true",
            *map(_made, (int, float, decimal.Decimal), [value] * 3),
        ):
            try:
                more.append(pa.array([cell]).cast(TYPES[name].type))
            except (pa.ArrowException, ValueError, TypeError, OverflowError):
                continue
    cells = pa.chunked_array([TYPES[name], *more]).combine_chunks()
    rows = {"age": pa.array(np.ones(len(cells))), "b": cells}
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    part = Source.of(tmp_path / "t.parquet").parts[0]
    read = [cell for block in parquet._parquet(part, 2, ["b"]) for cell in block["b"]]
    likes = {value: files._cells_like(kind, value) for value in VALUES}
    for value, like in likes.items():
        occurs = value in files._words(read, (value,))
        assert not occurs or like is None or value in files._words(like, (value,)), value
    if "words" in name:
        assert set(map(str, likes.values())) == {"None"}
    else:
        assert "m" not in files._words(likes["m"], ("m",))


def _made(kind, value):
    try:
        return kind(value)
    except (ArithmeticError, ValueError):
        return None


LOST = {
    "int64": "m|f",
    "uint8": "300|400",
    "double": "m|f",
    "float32": "0.1|0.2",
    "decimal(9, 2)": "m|f",
    "bool": "yes|no",
    "dictionary": "m|f",
    "int8": "1.5|2.5",
}


@pytest.mark.parametrize("name", LOST)
def test_a_list_of_which_no_value_can_occur_is_refused_before_a_charge(tmp_path, monkeypatch, name):
    table(tmp_path, TYPES[name], LOST[name].split("|"))
    budget = PrivacyBudget.open(tmp_path / "ledger", 4.0, 1e-5)
    monkeypatch.setattr(command, "read_rows", lambda *_: pytest.fail("the table was read"))
    asked = ["t.parquet", "--bounds", "b.csv"]
    fit = ["cluster", *asked, *ASK, "--ledger", "ledger"]
    for words in (fit, [*fit, "--dry-run"], ["check", *asked]):
        said = here(tmp_path, monkeypatch, *words)
        assert (
            "every record would count as none of the values" in said and "no row was read" in said
        )
        assert repr(LOST[name].split("|")[0]) in said
    assert not budget.ledger and not (tmp_path / "o").exists()


@pytest.mark.parametrize(("other", "refused"), [
    ("int64", True), ("bool", True), ("double", True), ("words", False), ("a dictionary of words", False), ("null", False),
])  # fmt: skip
def test_one_part_in_which_no_value_can_occur_is_refused_by_its_name(tmp_path, monkeypatch, other, refused):  # fmt: skip
    """All its records would count as none of the values. Mutation: parts are looked at together."""
    source, parts = table(tmp_path, TYPES["words"], ["m", "f"]), tmp_path / "parts"
    parts.mkdir()
    (tmp_path / "t.parquet").rename(parts / "a.parquet")
    cells = pa.nulls(N) if other == "null" else TYPES[other]
    pq.write_table(pa.table({"age": np.linspace(20, 60, N), "b": cells}), parts / "b.parquet")
    assert source
    asked = ["parts", "--bounds", "b.csv"]
    for words in (["cluster", *asked, *ASK, "--dry-run"], ["check", *asked]):
        said = str(here(tmp_path, monkeypatch, *words))
        assert ("b.parquet: column 'b'" in said and "no declared value, such as 'm'" in said) is refused, said  # fmt: skip


def test_a_list_of_which_some_values_can_occur_is_doubted_before_a_charge(tmp_path, monkeypatch, capsys):  # fmt: skip
    table(tmp_path, TYPES["int64"], ["1", "x", "2.5"])
    asked = ["t.parquet", "--bounds", "b.csv"]
    stopped = here(tmp_path, monkeypatch, "cluster", *asked, *ASK)
    assert "in doubt before the charge" in stopped and "add --accept-doubts" in stopped
    for words in (["check", *asked], ["cluster", *asked, *ASK, "--dry-run"], ["cluster", *asked, *ASK, "--accept-doubts"]):  # fmt: skip
        assert here(tmp_path, monkeypatch, *words) == ("--dry-run" in words)
        said = capsys.readouterr().out
        assert said.count("column 'b', 'x' and '2.5' cannot occur, since its type is int64") == 1


@pytest.mark.parametrize("name", ["int64", "double", "decimal(9, 2)", "dictionary", "words", "bool"])  # fmt: skip
def test_a_list_that_can_occur_is_found_and_nothing_is_said(tmp_path, monkeypatch, capsys, name):
    source = table(tmp_path, TYPES[name], ["1", "0"])
    bounds = read_bounds(tmp_path / "b.csv")
    rows = files.read_rows(source, _scaler(bounds, ["age", "b"]))
    assert len({*map(tuple, rows[:, 1:])}) > 1
    asked = ["t.parquet", "--bounds", "b.csv", *ASK, "--dry-run"]
    assert not here(tmp_path, monkeypatch, "cluster", *asked)
    assert ("cannot occur" in capsys.readouterr().out) is False


def test_a_value_that_can_occur_in_one_part_is_not_lost(tmp_path):
    (tmp_path / "parts").mkdir()
    for name, kind in (("one", "int64"), ("two", "words")):
        part = {"age": np.linspace(20, 60, N), "b": TYPES[kind]}
        pq.write_table(pa.table(part), tmp_path / "parts" / f"{name}.parquet")
    table(tmp_path, TYPES["int64"], ["m", "f", "7"])
    scaler = _scaler(read_bounds(tmp_path / "b.csv"), ["age", "b"])
    one = Source.of(tmp_path / "parts" / "one.parquet")
    both = one._replace(parts=one.parts + Source.of(tmp_path / "parts" / "two.parquet").parts)
    files.check_table(both, scaler)
    assert not [*files.columns_in_doubt(both, scaler)]
    assert "'m' and 'f' cannot occur" in "".join(files.columns_in_doubt(one, scaler))


def test_a_type_that_no_reader_reads_is_to_be_converted_not_installed_for(tmp_path, monkeypatch):
    polars = pytest.importorskip("polars")
    table(tmp_path, TYPES["words"], ["m"])
    ages = polars.Series("age", [40] * N, dtype=polars.Int128)
    polars.DataFrame([ages, polars.Series("b", ["m"] * N)]).write_parquet(tmp_path / "t.parquet")
    said = here(
        tmp_path, monkeypatch, "cluster", "t.parquet", "--bounds", "b.csv", *ASK, "--dry-run"
    )
    assert "Install" not in said and "convert" in said.lower(), said
