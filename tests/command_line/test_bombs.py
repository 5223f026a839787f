"""Small files that expand without limit, and files whose headers lie: refused before a charge, or read block by block."""

import gzip
import io
import os
import re
import struct
import subprocess
import sys
import zipfile
from unittest import mock

import numpy as np
import pytest
from asking import last_of_each

from dplit import PrivacyBudget
from dplit.__main__ import main
from dplit.command_line import files, sources
from dplit.command_line import parquet as parquet_files

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
READERS = {"polars": "polars", "pyarrow": "pyarrow"}


@pytest.fixture(params=READERS)
def reader(request, monkeypatch):
    """Only this reader of Parquet."""
    pytest.importorskip(request.param)
    monkeypatch.setattr(
        parquet_files, "_READERS", {request.param: parquet_files._READERS[request.param]}
    )
    return request.param


def asked(folder, table, *more, bounds="column,low,high\na,0,2\n"):
    """(what the command says, whether its ledger was charged)."""
    (folder / "b.csv").write_text(bounds)
    ledger, out = folder / "a.ledger", folder / "out"
    if not ledger.exists():
        PrivacyBudget.open(ledger, 100.0, 1e-5).close()
    line = ["cluster", table, "--bounds", folder / "b.csv", "--clusters", 1, "--epsilon", 0.5]
    line += ["--delta", 0, "--method", "GridKMeans", "--ledger", ledger, "--out", out, *more]
    said = main(last_of_each(line))
    with PrivacyBudget.open(ledger) as budget:
        return said, len(budget.ledger)


def written(folder, columns, **options):
    parquet.write_table(arrow.table(columns), folder / "t.parquet", **options)
    return folder / "t.parquet"


def varint(number):
    number *= 2  # zigzag of a number that is not negative
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def with_footer(path, n_rows, said):
    """Let the footer of a file say another number of rows, everywhere; its pages say the old one."""
    data = path.read_bytes()
    size = struct.unpack("<I", data[-8:-4])[0]
    body, footer = data[: -8 - size], data[-8 - size : -8]
    assert varint(n_rows) in footer
    footer = footer.replace(varint(n_rows), varint(said))
    path.write_bytes(body + footer + struct.pack("<I", len(footer)) + b"PAR1")
    return path


def test_a_dictionary_with_many_rows_is_refused_before_the_charge_by_a_public_limit(
    tmp_path, reader
):
    table = written(tmp_path, {"a": np.zeros(2_000_000)})
    assert table.stat().st_size < 50_000
    said, charged = asked(tmp_path, table, "--max-bytes", 10_000_000)
    assert charged == 0 and not (tmp_path / "out").exists()
    assert re.search(
        r"t\.parquet: it may take more than 10,000,000 bytes, the most that --max-bytes allows\.",
        said,
    )
    assert "2,000,000" not in said and "2000000" not in said


def test_what_the_machine_has_is_a_limit_too(tmp_path, reader, monkeypatch):
    table = written(tmp_path, {"a": np.zeros(100_000)})
    monkeypatch.setattr(files, "memory_of_machine", lambda: 1_000_000)
    said, charged = asked(tmp_path, table)
    assert charged == 0 and "1,000,000 bytes, the memory of this machine. Declare fewer" in said
    monkeypatch.setattr(files, "memory_of_machine", lambda: 10_000_000)
    assert asked(tmp_path, table) == (0, 1)


def test_a_footer_that_guarantees_a_galaxy_is_refused_before_the_charge(tmp_path, reader):
    table = with_footer(written(tmp_path, {"a": np.ones(300)}), 300, 2**45)
    said, charged = asked(tmp_path, table)
    assert charged == 0 and "nothing was charged" in said or "cannot be read" in said


def test_a_footer_that_lies_downwards_is_read_as_it_says_or_refused_by_the_one_sentence(
    tmp_path, reader
):
    """Its pages hold 3,000 rows, its footer says 100: no error of another kind, and no more rows than it says."""
    table = with_footer(written(tmp_path, {"a": np.ones(3000)}), 3000, 100)
    said, charged = asked(tmp_path, table)
    assert charged == 1 and (said == 0 or "the table cannot be used" in said)
    blocks = []
    with pytest.MonkeyPatch.context(), np.errstate(all="ignore"):
        try:
            blocks = list(parquet_files._parquet(sources.Part("t", str(table)), 2, ["a"]))
        except BaseException as error:
            assert not isinstance(error, MemoryError)
    assert sum(len(block["a"]) for block in blocks) in (0, 100)


def test_a_long_text_that_comes_again_is_in_memory_a_few_times_only(tmp_path, reader):
    """100 rows of a megabyte each from a dictionary, in a file of a few kilobytes: at most 64 become words at a time."""
    table = written(tmp_path, {"r": ["x" * 2**20] * 100 + ["north"]})
    assert table.stat().st_size < 100_000
    blocks = parquet_files._parquet(sources.Part("t", str(table)), 2, ["r"])
    lengths = [[len(cell) for cell in block["r"]] for block in blocks]
    assert [len(block) for block in lengths] == [63, 38]
    assert sum(map(sum, lengths)) == 100 * 2**20 + 5
    assert asked(tmp_path, table, bounds="column,low,high,values\nr,,,north|south\n") == (0, 1)


def test_blocks_of_a_parquet_file_are_its_rows_whatever_their_size(tmp_path, reader, monkeypatch):
    rng = np.random.default_rng(0)
    words = rng.choice(["north", "south", "a longer one", None], 1000)
    columns = {"a": rng.normal(size=1000), "r": arrow.array(words.tolist()), "c": words.tolist()}
    columns["c"] = arrow.array(words.tolist()).dictionary_encode()
    table = written(tmp_path, columns, row_group_size=300)
    part = sources.Part("t", str(table))
    for block, text in ((2**14, 2**26), (7, 2**26), (2**14, 40), (64, 1)):
        monkeypatch.setattr(parquet_files, "BLOCK", block)
        monkeypatch.setattr(parquet_files, "TEXT", text)
        found = list(parquet_files._parquet(part, 2, ["a", "r", "c"]))
        joined = {name: [cell for one in found for cell in one[name]] for name in columns}
        assert joined["a"] == columns["a"].tolist()
        assert joined["r"] == joined["c"] == words.tolist()
        assert max(len(one["a"]) for one in found) <= block


def test_an_empty_part_of_a_folder_is_no_reason_to_refuse_the_others(tmp_path, reader):
    """Spark writes such parts; without any record the folder is answered too."""
    (tmp_path / "parts").mkdir()
    for i, cells in enumerate(([], [1.0, 2.0], [])):
        column = arrow.array(cells, type=arrow.float64())
        parquet.write_table(arrow.table({"a": column}), tmp_path / "parts" / f"{i}.parquet")
    assert asked(tmp_path, tmp_path / "parts") == (0, 1)
    (tmp_path / "parts" / "1.parquet").unlink()
    assert asked(tmp_path, tmp_path / "parts", "--out", tmp_path / "out2") == (0, 2)


def test_a_zip_whose_header_lies_about_the_size_is_refused_or_read_whole(tmp_path):
    """Cut by a size that is too small it fails its check sum; with one that is too large, it does not."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.csv", "a\n" + "1\n" * 100_000)
    size = struct.pack("<I", 200_002)
    assert packed.getvalue().count(size) == 2
    for lie in (0, 10, 200_001, 200_003, 2**31):
        (tmp_path / "t.zip").write_bytes(packed.getvalue().replace(size, struct.pack("<I", lie)))
        if lie < 200_002:
            said, charged = asked(tmp_path, tmp_path / "t.zip")
            assert charged == 0 and "t.zip: it is " in said
        else:
            with sources.opened(tmp_path / "t.zip") as source:
                assert open(source.parts[0].path).read() == "a\n" + "1\n" * 100_000
    (tmp_path / "t.zip").write_bytes(packed.getvalue())
    said, charged = asked(tmp_path, tmp_path / "t.zip", "--max-bytes", 200_001)
    assert charged == 0 and "more than 200,001 bytes" in said


def test_what_is_compressed_twice_is_refused_and_not_charged(tmp_path):
    once = gzip.compress(b"a\n1\n")
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("t.csv", b"a\n1\n")
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as archive:
        archive.writestr("t.csv.gz", once)
    for i, data in enumerate(
        (gzip.compress(once), gzip.compress(inner.getvalue()), outer.getvalue())
    ):
        (tmp_path / f"{i}.csv.gz").write_bytes(data)
        said, charged = asked(tmp_path, tmp_path / f"{i}.csv.gz")
        assert charged == 0 and "compressed" in said


def test_a_first_line_without_end_is_not_read_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "HEAD", 1000)
    (tmp_path / "t.csv").write_text("a" * 1001 + "\n1\n")
    said, charged = asked(tmp_path, tmp_path / "t.csv")
    assert charged == 0 and "its first 1,000 bytes hold no line break" in said
    for end in "\n", "\r", "\r\n":
        (tmp_path / "t.csv").write_bytes(f"a,{'b' * 900}{end}{f'1,2{end}' * 500}".encode())
        out = tmp_path / f"out{ord(end[-1])}{len(end)}"
        said, charged = asked(tmp_path, tmp_path / "t.csv", "--out", out)
        assert (said, charged > 0) == (0, True)


@pytest.mark.parametrize(
    "line", ["1" * 100, '1,"' + "b" * 100 + '"', '1,"' + "b\n" * 60, "1," + "b" * 49]
)
def test_a_record_without_end_is_none_like_any_other(tmp_path, monkeypatch, line, capsys):
    monkeypatch.setattr(files, "LONGEST", 50)
    (tmp_path / "t.csv").write_text(f"a,b\n1,2\n{line}\n2,3\n")
    said, charged = asked(tmp_path, tmp_path / "t.csv")
    assert charged == 1 and files._UNUSABLE in said
    assert main(["check", str(tmp_path / "t.csv"), "--bounds", str(tmp_path / "b.csv")]) == 1
    assert "line 3:" in capsys.readouterr().out


def test_a_record_below_the_limit_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST", 50)
    (tmp_path / "t.csv").write_text(f"a,b\n1,{'b' * 46}\n2,3\n")
    assert asked(tmp_path, tmp_path / "t.csv") == (0, 1)


def test_a_text_file_beyond_the_memory_needs_dask(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("a\n1\n" * 1000)
    monkeypatch.setattr(files, "memory_of_machine", lambda: 1000)
    with mock.patch.object(files, "find_spec", lambda name: None):
        said, charged = asked(tmp_path, tmp_path / "t.csv")
    assert charged == 0 and "install dask" in said and "1,000 bytes, the memory" in said


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))
sys.modules["polars"] = None
from dplit.command_line import sources
from dplit.command_line import parquet as parquet_files
parquet_files._READERS = {"pyarrow": parquet_files._READERS["pyarrow"]}
blocks = parquet_files._parquet(sources.Part("t", sys.argv[1]), 2, ["r"])
print(sum(len(block["r"]) for block in blocks))
"""


@pytest.mark.rest
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are of the system")
def test_texts_of_eight_gigabytes_are_read_in_three(tmp_path):
    """8,192 rows of a megabyte each, in a file of kilobytes."""
    table = written(tmp_path, {"r": ["x" * 2**20] * 64})
    rows = parquet.read_table(table)
    with parquet.ParquetWriter(table, rows.schema, compression="zstd") as writer:
        for _ in range(128):
            writer.write_table(rows)
    assert table.stat().st_size < 100_000
    line = [sys.executable, "-c", LIMITED, str(table)]
    found = subprocess.run(line, capture_output=True, text=True, timeout=300)
    assert found.stdout.strip() == "8192", found.stderr[-500:]


def test_names_of_parquet_with_line_breaks_quotes_and_spaces(tmp_path):
    """What a first line of CSV cannot hold."""
    ages = [1.0] * 20
    table = written(tmp_path, {"a\nb": ages, 'c"d': ages, " e ": ages, "f,g": ages})
    bounds = 'column,low,high\n"a\nb",0,2\n"c""d",0,2\n"f,g",0,2\n'
    assert asked(tmp_path, table, bounds=bounds) == (0, 1)
    said, charged = asked(tmp_path, table, bounds="column,low,high\n e ,0,2\n")
    assert charged == 1 and "there, it has spaces around it" in said


def test_a_file_whose_name_holds_a_line_break(tmp_path):
    (tmp_path / "a\nb.csv").write_text("a\n1\n")
    assert asked(tmp_path, tmp_path / "a\nb.csv") == (0, 1)


@pytest.mark.parametrize("how", ["rows", "schema", "count"])
def test_what_a_reader_writes_past_python_is_discarded(tmp_path, monkeypatch, capfd, how):
    """A panic of polars prints a number that it found in the file. Mutation: only Python's own stream is redirected."""
    polars = pytest.importorskip("polars")
    from dplit.command_line import parquet

    polars.DataFrame({"x": [1.0]}).write_parquet(tmp_path / "x.parquet")

    def panic(*args, **kwargs):
        os.write(2, b"panicked: invalid num_bits 133\n")
        raise RuntimeError("panic")

    name = {"rows": "read_parquet", "schema": "read_parquet_schema", "count": "scan_parquet"}[how]
    monkeypatch.setattr(polars, name, panic)
    call = {
        "rows": lambda path: parquet._polars_read(path, ["x"]),
        "schema": parquet._polars_kinds,
        "count": parquet._polars_rows,
    }[how]
    with pytest.raises(RuntimeError):
        call(tmp_path / "x.parquet")
    os.write(2, b"heard again\n")
    assert capfd.readouterr().err == "heard again\n"


def test_a_cell_that_makes_polars_panic_after_the_charge_is_one_sentence(
    tmp_path, monkeypatch, capfd
):
    """A date beyond the calendar in the column of persons: the panic was printed."""
    polars = pytest.importorskip("polars")
    monkeypatch.setattr(parquet_files, "_READERS", {"polars": parquet_files._READERS["polars"]})
    said = []
    for last in (3, 2**31 - 1):
        dates = polars.Series([1, 2, 3, last] * 50, dtype=polars.Int32).cast(polars.Date)
        path = tmp_path / f"{last}.parquet"
        polars.DataFrame({"x": [1.0, 2.0, 3.0, 4.0] * 50, "p": dates}).write_parquet(path)
        try:
            blocks = [*parquet_files._polars_blocks(path, ["x", "p"])]
            assert sum(len(block["x"]) for block in blocks) == 200
        except BaseException as error:
            said.append(type(error).__name__)
        assert capfd.readouterr().err == ""
    assert said == ["PanicException"]


def test_standard_error_may_be_closed_while_a_file_is_read(tmp_path):
    """The file got its descriptor, and was replaced by nothing."""
    polars = pytest.importorskip("polars")
    polars.DataFrame({"x": [1.0, 2.0]}).write_parquet(tmp_path / "x.parquet")
    program = (
        "import os, sys; from dplit.command_line import parquet as p; "
        "path = sys.argv[1]; assert p._polars_kinds(path) and p._polars_rows(path) == 2; "
        "assert [*p._polars_blocks(path, ['x'])] == [{'x': [1.0, 2.0]}]"
    )
    line = [sys.executable, "-c", program, str(tmp_path / "x.parquet")]
    assert subprocess.run(line, preexec_fn=lambda: os.close(2), timeout=60).returncode == 0
