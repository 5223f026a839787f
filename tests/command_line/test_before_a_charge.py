"""What the kind of a table decides is decided before a charge: dozens of kinds, and each is answered or refused uncharged."""

import array
import csv
import datetime
import decimal
import errno
import io
import json
import os
import pickle
import random
import signal
import socket
import sqlite3
import stat
import sys
import tarfile
import tempfile
import threading
import uuid
import warnings
import zipfile
from collections import OrderedDict
from contextlib import suppress
from unittest import mock

import numpy as np
import pytest
from scipy import sparse

from dplit import (
    CnvxAdap,
    HDPEMeans,
    NCnvxAdap,
    NoisyAverageSet,
    NoisyLloyd,
    PrivacyBudget,
)
from dplit.__main__ import main
from dplit.command_line import files, sources
from dplit.inputs import BoundedScaler, DoubtWarning
from dplit.ledger import LedgerError

N = 300
X = np.random.default_rng(0).uniform(0, 9, size=(N, 2))
CSV = "x,y\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b in X)
BALL = {"epsilon": 1.0, "delta": 1e-6, "radius": 20.0, "random_state": 0}
BOUNDS = {"epsilon": 1.0, "delta": 1e-6, "bounds": ([0, 0], [9, 9]), "random_state": 0}


# ---------------------------------------------------------------- files


def command(folder, table, *more, bounds="column,low,high,values\nx,0,9,\ny,0,9,\n"):
    """(what the command returns, states in its ledger) for a table in a folder of its own."""
    (folder / "b.csv").write_text(bounds)
    PrivacyBudget.open(folder / "l", 5.0, 1e-4).close()
    line = ["cluster", table, "--bounds", folder / "b.csv", "--ledger", folder / "l"]
    line += ["--clusters", 2, "--epsilon", 1, "--delta", 1e-6, "--seed", 0, "--out", folder / "out"]
    said = main([str(a) for a in (*line, *more)])
    with PrivacyBudget.open(folder / "l") as budget:
        return said, [row.state for row in budget.ledger]


def compressed(name, content=None):
    return __import__(name).compress(CSV.encode() if content is None else content)


def zipped(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return file.getvalue()


def locked():
    """A zip file whose member says that it has a password."""
    content = bytearray(zipped({"t.csv": CSV}))
    content[6] |= 1
    content[content.index(b"PK\1\2") + 8] |= 1
    return bytes(content)


def tarred():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("t.csv")
        member.size = len(CSV)
        archive.addfile(member, io.BytesIO(CSV.encode()))
    return file.getvalue()


def sheet():
    return zipped({"[Content_Types].xml": "", "xl/sheet.xml": CSV})


FILES = {  # (name, content, what is said; nothing if it is answered)
    "gzip by suffix": ("t.csv.gz", compressed("gzip"), None),
    "gzip by content": ("t.csv", compressed("gzip"), None),
    "bzip2": ("t.csv.bz2", compressed("bz2"), None),
    "xz": ("t.csv", compressed("lzma"), None),
    "zip": ("t.zip", zipped({"t.csv": CSV}), None),
    "zip by content": ("t.csv", zipped({"folder/t.csv": CSV}), None),
    "zip of a Mac": ("t.zip", zipped({"__MACOSX/._t.csv": "x", "t.csv": CSV, ".DS_Store": "x"}), None),
    "gzip in gzip": ("t.csv.gz", compressed("gzip", compressed("gzip")), "compressed"),
    "gzip cut short": ("t.csv.gz", compressed("gzip")[:-20], "damaged or cut short"),
    "gzip with a wrong sum": ("t.csv.gz", compressed("gzip")[:-8] + bytes(8), "damaged or cut short"),
    "xz cut short": ("t.csv.xz", compressed("lzma")[:-20], "damaged or cut short"),
    "zip of two": ("t.zip", zipped({"a.csv": CSV, "b.csv": CSV}), "a zip file of 2 files"),
    "zip of nothing": ("t.zip", zipped({}), "a zip file of 0 files"),
    "zip of a folder": ("t.zip", zipped({"a/": ""}), "a zip file of 0 files"),
    "zip cut short": ("t.zip", zipped({"t.csv": CSV})[:-30], "damaged or cut short"),
    "zip with a wrong sum": ("t.zip", zipped({"t.csv": CSV}).replace(b"x,y", b"x,z"), "damaged or cut short"),
    "zip with a password": ("t.zip", locked(), "has a password"),
    "npz": ("t.npz", zipped({"x.npy": b"\x93NUMPY\x01" + bytes(99)}), "no text|another format"),
    "a pickle in gzip": ("t.pkl.gz", compressed("gzip", pickle.dumps(X)), "a pickle"),
    "JSON in gzip": ("t.json.gz", compressed("gzip", b'[{"x": 1}]'), "JSON"),
    "nothing in gzip": ("t.csv.gz", compressed("gzip", b""), "it is empty"),
    "tar": ("t.tar", tarred(), "a tar archive"),
    "tar in gzip": ("t.tar.gz", compressed("gzip", tarred()), "a tar archive"),
    "zstandard": ("t.csv.zst", b"\x28\xb5\x2f\xfd" + bytes(99), "compressed"),
    "CSV called Parquet, in gzip": ("t.parquet.gz", compressed("gzip"), "its name says Parquet"),
    "Stata": ("t.dta", b"<stata_dta><header>", "XML or HTML"),
    "a tie of separators": ("t.csv", CSV.replace("x,y", "x;y, z").encode(), "as many ',' as ';'"),
    "a tie the other way": ("t.csv", CSV.replace("x,y", "x|y;z").encode(), "as many ';' as '|'"),
    "a tie in a quoted name": ("t.csv", CSV.replace("x,y", 'x,y,"a;b"').replace("\n", ",1\n").replace('"a;b",1', '"a;b"').encode(), None),
    "tabs": ("t.tsv", CSV.replace(",", "\t").encode(), None),
    "tabs and commas in names": ("t.tsv", CSV.replace(",", "\t").replace("y", "y\tz, in a, b, c", 1).replace("\n", "\t1\n").replace("c\t1", "c", 1).encode(), None),
    "CSV called .parq": ("t.parq", CSV.encode(), "its name says Parquet"),
    "semicolons and old line ends": ("t.csv", CSV.replace(",", ";").replace("\n", "\r").encode(), None),
    "a name over two lines": ("t.csv", CSV.replace("y", 'y,"a\nb"', 1).encode(), "each name must be on one line"),
    "a quoted line break in an unused column": ("t.csv", ('x,y,z\n' + '1,2,"a\nb ""c""\n\n,d"\n3,4,\n' * 99).encode(), None),
    "latin-1 in an unused column": ("t.csv", (CSV.split("\n")[0] + ",z\n" + "1,2,M\u00fcller\n3,4,\n" * 99).encode("latin-1"), None),
    "true and false": ("t.csv", ("x,y\n" + "True,false\n1,TRUE\n" * 99).encode(), None),
    "xlsx": ("t.xlsx", sheet(), "a spreadsheet"),
    "xls": ("t.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), "a spreadsheet"),
    "pickle": ("t.pkl", pickle.dumps(X), "a pickle"),
    "JSON of lists": ("t.json", json.dumps(X.tolist()).encode(), "JSON"),
    "JSON of objects": ("t.json", json.dumps([{"x": 1, "y": 2}] * N, indent=1).encode(), "JSON"),
    "JSON by column": ("t.json", json.dumps({"x": [1], "y": [2]}).encode(), "JSON"),
    "JSON lines": ("t.csv", b'{"x": 1, "y": 2}\n' * N, "JSON"),
    "UTF-16": ("t.csv", CSV.encode("utf-16"), "not UTF-8 text"),
    "UTF-16 without a mark": ("t.csv", CSV.encode("utf-16-le"), "not UTF-8 text"),
    "UTF-32": ("t.csv", CSV.encode("utf-32"), "not UTF-8 text"),
    "latin-1 in the first line": ("t.csv", CSV.replace("y", "y,gr\u00f6\u00dfe").encode("latin-1"), "not UTF-8 text"),
    "npy": ("t.npy", b"\x93NUMPY\x01" + bytes(99), "another format"),
    "SQLite": ("t.db", b"SQLite format 3\0" + bytes(99), "no text|another format"),
    "HDF5": ("t.h5", b"\x89HDF\r\n\x1a\n" + bytes(99), "another format"),
    "Arrow": ("t.arrow", b"ARROW1\0\0" + bytes(99), "no text|another format"),
    "HTML": ("t.csv", b"<!DOCTYPE html>\n<table>", "XML or HTML"),
    "nothing": ("t.csv", b"", "it is empty"),
    "nothing called Parquet": ("t.parquet", b"", "it is empty"),
    "a byte order mark alone": ("t.csv", b"\xef\xbb\xbf", "its first line is empty"),
    "an empty first line": ("t.csv", ("\n" + CSV).encode(), "its first line is empty"),
    "a mark for a spreadsheet": ("t.csv", ("sep=,\n" + CSV).encode(), "delete it, the names of the columns come first"),
    "no first line of names": ("t.csv", CSV.split("\n", 1)[1].encode(), "first line hold names"),
    "a name twice": ("t.csv", CSV.replace("x,y", "x,x").encode(), "'y' is not among"),
    "other names": ("t.csv", CSV.replace("x,y", "u,v").encode(), "'x' is not among"),
    "CSV called Parquet": ("t.parquet", CSV.encode(), "its name says Parquet"),
    "a broken Parquet file": ("t.parquet", b"PAR1\x15 and no end", "is it damaged, cut short"),
    "an encrypted Parquet file": ("t.csv", b"PARE" + bytes(99), "no text|another format"),
    "old line ends": ("t.csv", CSV.replace("\n", "\r").encode(), None),
    "CSV of another name": ("t.data", CSV.encode(), None),
    "bars": ("t.csv", CSV.replace(",", "|").encode(), None),
    "a NUL after old line ends": ("t.csv", (CSV.replace("\n", "\r").replace("x,y", "x,y,z").replace("\r", ",\0\r").replace("z,\0", "z")).encode(), None),
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_a_kind_of_file_is_answered_or_refused_before_a_charge(tmp_path, kind):
    name, content, told = FILES[kind]
    (tmp_path / name).write_bytes(content)
    said, states = command(tmp_path, tmp_path / name)
    if told is None:
        assert (said, states) == (0, ["settled"])
    else:
        assert pytest.importorskip("re").search(told, said) and states == []
        assert not (tmp_path / "out").exists() and name in said + "b.csv"


def test_what_is_no_file_is_refused_before_a_charge_and_does_not_wait(tmp_path):
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as one, suppress(OSError):
        one.bind(str(tmp_path / "socket"))
        for name, told in {
            "folder": "it is a folder",
            "socket": "it is a socket",
            "/dev/null": "it is a device",
            "none.csv": "there is no such file",
            "a\0b.csv": "cannot be read as a table",
        }.items():
            said, states = command(tmp_path, tmp_path / name)
            assert told in said and states == [], name


def piped(path, content):
    """Write into a pipe that somebody else reads."""
    writer = threading.Thread(target=lambda: path.write_bytes(content))
    writer.start()
    return writer


@pytest.mark.parametrize(
    "content",
    [CSV.encode(), compressed("gzip"), zipped({"t.csv": CSV})],
    ids=["plain", "gzip", "zip"],
)
def test_a_pipe_is_copied_before_a_charge_and_the_copy_is_gone_afterwards(
    tmp_path, monkeypatch, content
):
    (tmp_path / "private").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "private"))
    modes, read_rows = [], sources.check_source

    def look(part):
        modes.append((stat.S_IMODE(os.stat(part.path).st_mode), os.listdir(tmp_path / "private")))
        return read_rows(part)

    monkeypatch.setattr(sources, "check_source", look)
    os.mkfifo(tmp_path / "pipe")
    writer = piped(tmp_path / "pipe", content)
    said, states = command(tmp_path, tmp_path / "pipe")
    writer.join()
    assert (said, states) == (0, ["settled"]) and not os.listdir(tmp_path / "private")
    hidden = os.path.exists("/proc/self/fd")
    assert all(mode == 0o600 and bool(names) != hidden for mode, names in modes) and modes


def test_a_pipe_of_a_shell_is_read_to_its_end(tmp_path):
    read, write = os.pipe()
    with open(write, "wb") as file:
        file.write(CSV.encode())  # shorter than what a pipe holds
    assert command(tmp_path, f"/dev/fd/{read}") == (0, ["settled"])
    os.close(read)


class Input:
    """Standard input."""

    def __init__(self, content, terminal=False):
        self.buffer = io.BytesIO(content)
        self.buffer.isatty = lambda: terminal


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Input(CSV.encode()), None),
        (Input(compressed("bz2")), None),
        (Input(b""), "standard input: it is empty"),
        (Input(pickle.dumps(X)), "standard input: it is a pickle"),
        (
            Input(compressed("gzip")[:-20]),
            "standard input: it is compressed, and cannot be unpacked",
        ),
        (None, "standard input: it is neither a pipe nor a file"),
    ],
)
def test_standard_input_is_answered_or_refused_before_a_charge(tmp_path, monkeypatch, given, told):
    monkeypatch.setattr(sys, "stdin", given)
    said, states = command(tmp_path, "-")
    if told is None:
        assert (said, states) == (0, ["settled"])
        assert "standard input: 2 groups" in (tmp_path / "out" / "report.html").read_text()
    else:
        assert told in said and states == [] and not (tmp_path / "out").exists()


def test_a_full_disk_is_told_before_a_charge(tmp_path, monkeypatch):
    class Full:
        def write(self, block):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="no copy of it can be made in .*TMPDIR.*nothing was charged"):
        sources._write_some(Full(), b"1", "t.csv.gz")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    (tmp_path / "t.csv.gz").write_bytes(compressed("gzip"))
    said, states = command(tmp_path, tmp_path / "t.csv.gz")
    assert "t.csv.gz: no copy of it can be made in" in said and states == []


def parts(folder, *tables):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder.mkdir()
    for i, columns in enumerate(tables):
        parquet.write_table(pa.table(columns), folder / f"part-{i}.parquet")
    return folder


def test_a_folder_of_parquet_parts_is_one_table(tmp_path):
    whole = {"x": X[:, 0], "y": X[:, 1]}
    one, two = ({"y": X[at, 1], "x": X[at, 0]} for at in (slice(0, 100), slice(100, None)))
    folder = parts(tmp_path / "people", one, two)
    (folder / "_SUCCESS").write_text("")
    (folder / ".part-0.parquet.crc").write_text("...")
    together = parts(tmp_path / "together", whole) / "part-0.parquet"
    with sources.opened(folder) as source:
        rows = files.read_rows(source, scaler())
    assert np.array_equal(rows, files.read_rows(together, scaler()))
    assert command(tmp_path, folder) == (0, ["settled"])


def test_a_folder_of_anything_else_is_refused_before_a_charge(tmp_path):
    good, other = {"x": X[:, 0], "y": X[:, 1]}, {"x": X[:, 0], "z": X[:, 1]}
    kinds = {
        "other names": (parts(tmp_path / "other names", good, other), "part-1.parquet: its columns are not"),
        "a date": (
            parts(tmp_path / "a date", good, {"x": np.zeros(9, "M8[s]"), "y": np.zeros(9)}),
            "part-1.parquet: column 'x' is of the type timestamp|part-1.parquet: column 'x' is of the type datetime",
        ),
        "CSV": (parts(tmp_path / "CSV", good), "notes.csv is not such a part"),
        "folders": (parts(tmp_path / "folders", good), "a folder of folders"),
        "nothing": (parts(tmp_path / "nothing"), "it is empty"),
        "a pipe": (parts(tmp_path / "a pipe", good), "pipe.parquet is not such a part"),
        "a broken part": (parts(tmp_path / "a broken part", good), "bad.parquet: it cannot be read"),
        "Delta": (parts(tmp_path / "Delta", good), "its folder '_delta_log' belongs to a program"),
        "Hudi": (parts(tmp_path / "Hudi", good), "its folder '.hoodie' belongs to a program"),
        "Spark": (parts(tmp_path / "Spark", good), "its folder '_temporary' belongs to a program"),
        "a backup": (parts(tmp_path / "a backup", good), "'part-0.parquet' and 'part-0.parquet.bak' end differently"),
        "an editor's": (parts(tmp_path / "an editor's", good), "'part-0.parquet' and 'part-0.parquet~' end differently"),
        "a link": (parts(tmp_path / "a link", good), "'again.parquet' and 'part-0.parquet' are one file"),
        "a hard link": (parts(tmp_path / "a hard link", good), "'part-0.parquet' and 'part-1.parquet' are one file"),
    }  # fmt: skip
    (tmp_path / "CSV" / "notes.csv").write_text(CSV)
    (tmp_path / "folders" / "year=2020").mkdir()
    for name, inside in (("Delta", "_delta_log"), ("Hudi", ".hoodie"), ("Spark", "_temporary")):
        (tmp_path / name / inside).mkdir()
    for name, ending in (("a backup", ".bak"), ("an editor's", "~")):
        part = tmp_path / name / "part-0.parquet"
        part.with_name(part.name + ending).write_bytes(part.read_bytes())
    (tmp_path / "a link" / "again.parquet").symlink_to("part-0.parquet")
    os.link(*(tmp_path / "a hard link" / f"part-{i}.parquet" for i in (0, 1)))
    os.mkfifo(tmp_path / "a pipe" / "pipe.parquet")
    (tmp_path / "a broken part" / "bad.parquet").write_bytes(b"PAR1\x15 and no end")
    for name, (folder, told) in kinds.items():
        said, states = command(tmp_path, folder)
        assert pytest.importorskip("re").search(told, said) and states == [], (name, said)


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd", "brotli", "lz4", "snappy"])
def test_a_parquet_file_may_be_packed_and_its_names_may_hold_dots(tmp_path, monkeypatch, codec):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"x": X[:, 0], "x.y": X[:, 0], "y": X[:, 1]})
    parquet.write_table(table, tmp_path / "t.parquet", compression=codec)
    for reader in ("polars", "pyarrow"):
        pytest.importorskip(reader)
        monkeypatch.setattr(files, "find_spec", lambda name, one=reader: name == one or None)
        assert len(files.read_rows(tmp_path / "t.parquet", scaler())) == N


def test_a_file_at_standard_input_is_read(tmp_path):
    """It may be opened again, as a pipe may not."""
    (tmp_path / "t.csv").write_text(CSV)
    with open(tmp_path / "t.csv") as file:
        said, states = command(tmp_path, f"/dev/fd/{file.fileno()}")
    assert (said, states) == (0, ["settled"])


D = decimal.Decimal
COLUMNS = {  # of Parquet: (type, cells, whether it is answered as a range)
    "decimal128": ("decimal128(38, 2)", [D("1.5")], True),
    "decimal256": ("decimal256(60, 2)", [D("1.5")], True),
    "decimal256 beyond floats": ("decimal256(76, 0)", [D(10) ** 70], True),
    "half": ("float16()", [1.5], True),
    "uint64": ("uint64()", [2**64 - 1], True),
    "bool": ("bool_()", [True], True),
    "numbers as words": ("string()", ["1.5"], True),
    "views of words": ("string_view()", ["1.5"], True),
    "large words": ("large_string()", ["1.5"], True),
    "a dictionary of numbers": ("dictionary(pa.int32(), pa.int64())", [3], True),
    "a dictionary of words": ("dictionary(pa.int32(), pa.string())", ["3"], True),
    "null": ("null()", [None], False),
    "date": ("date32()", [datetime.date(2020, 1, 1)], False),
    "timestamp": ("timestamp('us', 'UTC')", [0], False),
    "time": ("time32('s')", [1], False),
    "duration": ("duration('s')", [1], False),
    "binary": ("binary()", [b"1"], False),
    "fixed binary": ("binary(4)", [b"1234"], False),
    "uuid": ("uuid()", [uuid.UUID(int=1).bytes], False),
    "list": ("list_(pa.int64())", [[1]], False),
    "struct": ("struct([('a', pa.int64())])", [{"a": 1}], False),
    "map": ("map_(pa.string(), pa.int64())", [[("a", 1)]], False),
}


@pytest.mark.parametrize("readers", [["polars", "pyarrow"], ["polars"], ["pyarrow"]], ids="+".join)
@pytest.mark.parametrize("kind", COLUMNS)
def test_a_type_of_parquet_is_answered_or_refused_before_a_charge(
    tmp_path, monkeypatch, kind, readers
):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for reader in readers:
        pytest.importorskip(reader)
    monkeypatch.setattr(files, "find_spec", lambda name: name in readers or None)
    text, cells, good = COLUMNS[kind]
    column = pa.array(cells * N, type=eval(f"pa.{text}"))
    table = pa.table({"x": column, "y": pa.array([1.0] * N)})
    parquet.write_table(table, tmp_path / "t.parquet")
    # of a column of words: they may be digits
    more = "--method", "NoisyLloyd", "--accept-doubts"
    said, states = command(tmp_path, tmp_path / "t.parquet", *more)
    if said == 0:
        assert good and states == ["settled"]
    else:
        assert states == [] and "no row was read" in said
        assert not good or readers == ["polars"] and kind.startswith("decimal256")


def test_a_parquet_file_may_have_any_name_and_two_of_one_name_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"x": X[:, 0], "y": X[:, 1]}), tmp_path / "t.csv")
    assert command(tmp_path, tmp_path / "t.csv") == (0, ["settled"])
    twice = pa.Table.from_arrays([pa.array(X[:, 0])] * 2, names=["x", "x"])
    (tmp_path / "two").mkdir()
    parquet.write_table(twice, tmp_path / "two" / "t.parquet")
    said, states = command(tmp_path / "two", tmp_path / "two" / "t.parquet")
    assert states == [] and isinstance(said, str)


PRIVATE = {  # what only a row can tell
    "a word": "one,1\n",
    "an empty cell": ",1\n",
    "infinity": "inf,1\n",
    "not a number": "nan,1\n",
    "a decimal comma": '"1,5",1\n',
    "a cell too many": "1,1,1\n",
    "a cell too few": "1\n",
    "an open quote": '"1,1\n',
    "a quote inside": '1"x",1\n',
    "a NUL": "1\0,1\n",
    "bytes": "\udcff,1\n",
    "a cell as long as a book": "1" * 200_000 + "x,1\n",
    "a quote as long as a book": '"' + "1" * 200_000 + ",1\n",
    "half a letter": "\ud800,1\n".encode("utf-8", "surrogatepass").decode(
        "utf-8", "surrogateescape"
    ),
    "a whole number of another script": "\u0663,1\n",
    "many cells": "1," * 200_000 + "\n",
    "infinity after a long text": " " * 200_000 + "inf,1\n",
}


def scaler():
    columns = files._Block(x=np.empty(0), y=np.empty(0))
    return BoundedScaler(low=0, high=9).fit(columns)


@pytest.mark.parametrize("name", PRIVATE)
def test_all_private_reasons_of_a_file_are_one_sentence_and_one_exception(tmp_path, name):
    text = CSV + PRIVATE[name] + CSV.split("\n", 1)[1]
    (tmp_path / "t.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert files.read_names(tmp_path / "t.csv") == ["x", "y"]
    with pytest.raises(ValueError) as caught:
        files.read_rows(tmp_path / "t.csv", scaler())
    assert type(caught.value) is ValueError and caught.value.__context__ is None
    assert str(caught.value) == f"{tmp_path / 't.csv'}: {files._UNUSABLE}"


def test_a_private_reason_is_charged_and_told_in_that_sentence(tmp_path):
    (tmp_path / "t.csv").write_text(CSV + "one,1\n")
    said, states = command(tmp_path, tmp_path / "t.csv")
    assert states == ["failed"]
    first, second = said.split("\n")
    assert first == f"dplit: {tmp_path / 't.csv'}: {files._UNUSABLE}"
    assert second.startswith("The budget was charged epsilon = 1")


def test_a_cell_of_parquet_that_is_no_number_is_told_in_the_same_sentence(tmp_path):
    polars = pytest.importorskip("polars")
    for cells in ([1.0, None], [1.0, np.nan], [1.0, np.inf], ["1", "one"], ["1", ""]):
        polars.DataFrame({"x": cells, "y": [1.0, 2.0]}).write_parquet(tmp_path / "t.parquet")
        with pytest.raises(ValueError) as caught:
            files.read_rows(tmp_path / "t.parquet", scaler())
        assert str(caught.value) == f"{tmp_path / 't.parquet'}: {files._UNUSABLE}"


def test_cells_beyond_the_largest_float_are_finite_and_clipped(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1e400,-1e400\n1e308,-1e308\n" + "9" * 400 + ",0e999\n")
    rows = files.read_rows(tmp_path / "t.csv", scaler())
    assert rows.tolist() == [[1.0, -1.0]] * 3
    assert files._floats([D("-1e400"), 2.0])[0] == -np.finfo(float).max
    with pytest.raises(ValueError):
        files._floats([D("Infinity")])


FINITE = {  # a number's text, and what it becomes within the range from 0 to 9
    f"0.{'0' * 131_070}5": -1.0,
    "9" * 200_000: 1.0,
    f"{'0' * 200_000}9": 1.0,
    f"9{'0' * 5000}e-5000": 1.0,
    "9" + " " * 200_000: 1.0,
    "1e9999999999999999999": 1.0,
    "-1e9999999999999999999": -1.0,
    "1e-9999999999999999999": -1.0,
    f"1e{'9' * 5000}": 1.0,
    f"0e{'9' * 200_000}": -1.0,
}


@pytest.mark.parametrize("kind", ["CSV", "CSV in quotes", "polars", "pyarrow"])
def test_a_finite_number_is_read_however_long_its_text_is(tmp_path, monkeypatch, kind):
    path = tmp_path / "t.csv"
    if kind.startswith("CSV"):
        quote = '"' * ("quotes" in kind)
        lines = "".join(f"{quote}{text}{quote},1\n" for text in FINITE)
        path.write_text("x,y\n" + lines)
    else:
        polars = pytest.importorskip("polars")
        pytest.importorskip(kind)
        monkeypatch.setattr(files, "find_spec", lambda name: name == kind or None)
        polars.DataFrame({"x": list(FINITE), "y": [1.0] * len(FINITE)}).write_parquet(path)
    limits = csv.field_size_limit(), sys.get_int_max_str_digits()
    assert files.read_rows(path, scaler())[:, 0].tolist() == list(FINITE.values())
    assert limits == (csv.field_size_limit(), sys.get_int_max_str_digits())


def test_a_row_with_a_long_number_does_not_decide_whether_there_is_an_answer(tmp_path):
    (tmp_path / "t.csv").write_text(f"{CSV}0.{'0' * 131_070}5,1\n")
    assert command(tmp_path, tmp_path / "t.csv") == (0, ["settled"])


def test_a_line_is_read_by_the_rules_of_csv():
    rng = random.Random(0)
    for _ in range(20_000):
        separator = rng.choice(",;\t|")
        line = "".join(rng.choices('""a, ;\t|\0\\\ud800', k=rng.randint(1, 9)))
        try:
            want = next(csv.reader([line], delimiter=separator, strict=True))
        except csv.Error:
            with pytest.raises(csv.Error):
                files._cells(line, separator)
        else:
            assert files._cells(line + rng.choice(["", "\n", "\r\n"]), separator) == want


def test_a_word_may_be_anything_and_of_any_length(tmp_path):
    """What stands on no list is none of its values, and no reason to refuse the table."""
    words = [
        "1" * 5000,
        "b" * 200_000,
        "b\0",
        "1." + "0" * 200_000,
        "\ufeffb",
        "\ue000",
        "nan",
        "b",
    ]
    (tmp_path / "t.csv").write_text("x\n" + "".join(f"{word}\n" for word in words))
    columns = files._Block(x=np.empty(0))
    listed = BoundedScaler(categories={"x": ["1", "b"]}).fit(columns)
    rows = files.read_rows(tmp_path / "t.csv", listed)
    assert [tuple(row == rows.max()) for row in rows] == [
        (word.startswith("1."), word == "b") for word in words
    ]


# ---------------------------------------------------------------- in Python


class Cells:
    """A table that says no more of itself than scikit-learn asks for, and cannot be converted."""

    shape, dtype = (N, 2), np.dtype(float)

    def __len__(self):
        return N

    def __getitem__(self, rows):
        return self

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("on another device")


def frames():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    dask = pytest.importorskip("dask.array")
    good = pandas.DataFrame(X, columns=["x", "y"])
    yield "a frame", good, True
    yield "a frame with an index of floats", good.set_index(np.linspace(-1, 1, N)), True
    yield "names that are numbers", pandas.DataFrame(X), True
    yield "names of two kinds", pandas.DataFrame(X, columns=["a", 1]), False
    yield "two names alike", pandas.DataFrame(X, columns=["a", "a"]), False
    yield "levels of names", pandas.DataFrame(X, columns=[["a", "a"], ["b", "c"]]), True
    for kind in ("Int64", "Float32", "float16", "boolean", "double[pyarrow]"):
        yield kind, good.round().clip(0, 1).astype(kind), True
    yield "sparse columns", good.astype("Sparse[float]"), False
    yield "columns with few that are not 0", good.astype(pandas.SparseDtype(float, 0.0)), False
    one = [D("1.5")] * N
    decimals = pandas.array(one, dtype=pandas.ArrowDtype(pyarrow.decimal128(9, 2)))
    yield "decimals of Arrow", good.assign(y=decimals), True
    yield "categories of numbers", good.round().astype("category"), False  # they may hold words
    yield "string", good.astype("string"), False
    yield "string[pyarrow]", good.astype("string[pyarrow]"), False
    yield "categories of words", good.astype("string").astype("category"), False
    yield "dates", good.assign(y=pandas.Timestamp("2020")), False
    yield "dates with a zone", good.assign(y=pandas.Timestamp("2020", tz="UTC")), False
    yield "durations", good.assign(y=pandas.Timedelta("1D")), False
    yield "periods", good.assign(y=pandas.Period("2020")), False
    yield "intervals", good.assign(y=pandas.Interval(0, 1)), False
    yield "complex", good.astype(complex), False
    nulls = pandas.array([None] * N, dtype=pandas.ArrowDtype(pyarrow.null()))
    yield "nulls of Arrow", good.assign(y=nulls), False
    yield "a series", good["x"], False
    p = polars.DataFrame({"x": X[:, 0], "y": X[:, 1]})
    yield "polars", p, True
    yield "polars: decimals", p.with_columns(polars.Series("y", one)), True
    yield "polars: words", p.with_columns(y=polars.lit("1")), False
    yield "polars: nulls", p.with_columns(y=polars.lit(None)), False
    yield "polars: dates", p.with_columns(y=polars.lit(datetime.date(2020, 1, 1))), False
    yield "polars: lists", p.with_columns(y=polars.lit([1, 2])), False
    yield "polars: structs", p.with_columns(y=polars.struct("x")), False
    yield "polars: binary", p.with_columns(y=polars.lit(b"1")), False
    yield "polars: categories", p.with_columns(y=polars.lit("1").cast(polars.Categorical)), False
    yield "polars: enum", p.with_columns(y=polars.lit("1").cast(polars.Enum(["1"]))), False
    yield "polars: object", p.with_columns(polars.Series("y", [{1}] * N, polars.Object)), False
    yield "polars: lazy", p.lazy(), False
    yield "polars: a series", p["x"], False
    a = p.to_arrow()
    yield "Arrow", a, True
    yield "Arrow: a batch", a.to_batches()[0], True
    yield "Arrow: words", a.set_column(1, "y", pyarrow.array(["1"] * N)), False
    yield "Arrow: two names alike", a.rename_columns(["x", "x"]), False
    yield (
        "Arrow: dates",
        a.set_column(1, "y", pyarrow.array([datetime.date(2020, 1, 1)] * N)),
        False,
    )
    yield "Arrow: nulls", a.set_column(1, "y", pyarrow.nulls(N)), False
    yield "Arrow: a column", a["x"], False
    yield "dask", dask.from_array(X, chunks=(100, 2)), True
    yield "dask: split columns", dask.from_array(X, chunks=(100, 1)), True
    yield "dask: flat", dask.from_array(X[:, 0], chunks=100), False
    yield "dask: words", dask.from_array(X.astype(str), chunks=(100, 2)), False
    yield "dask: unknown length", (d := dask.from_array(X, chunks=(100, 2)))[d[:, 0] > 1], False
    sparse_parts = dask.from_array(X, chunks=(100, 2)).map_blocks(sparse.csr_array)
    yield "dask: sparse parts", sparse_parts, False


def arrays():
    words = np.array([["1", "2"]] * N)
    yield "an array", X, True
    yield "float32", X.astype(np.float32), True
    yield "float16", X.astype(np.float16), True
    yield "long double", X.astype(np.longdouble), True
    yield "int8", X.astype(np.int8), True
    yield "bool", X > 1, True
    yield "objects that are numbers", X.astype(object), False  # in doubt
    yield "not contiguous", np.asfortranarray(X)[::-1], True
    yield "big-endian", X.astype(">f8"), True
    yield "a masked array without a mask", np.ma.masked_array(X), True
    yield "a list of lists", X.tolist(), True
    yield "a tuple of arrays", tuple(X), True
    yield "nothing", None, False
    yield "a path", "people.csv", False
    yield "a path object", __import__("pathlib").Path("people.csv"), False
    yield "bytes", b"x,y\n1,2\n", False
    yield "a dict", {"x": X[:, 0], "y": X[:, 1]}, False
    yield "an ordered dict", OrderedDict(x=X[:, 0]), False
    yield "a set", {1, 2}, False
    yield "a generator", (row for row in X), False
    yield "a map", map(list, X), False
    yield "a range", range(N), False
    yield "a number", 1.5, False
    yield "a function", np.zeros, False
    yield "a type", np.ndarray, False
    yield "an array of the standard library", array.array("d", X[:, 0]), False
    yield "a view of memory", memoryview(X[:, 0].copy()), False
    yield "no dimension", np.array(1.5), False
    yield "one dimension", X[:, 0], False
    yield "three dimensions", X[:, :, None], False
    yield "no column", X[:, :0], False
    yield "complex", X.astype(complex), False
    yield "words", words, False
    yield "bytes in an array", words.astype("S"), False
    yield "dates", words.astype("M8[D]"), False
    yield "durations", X.astype("m8[s]"), False
    yield "records", np.zeros((N, 2), dtype=[("a", float)]), False
    if hasattr(np.dtypes, "StringDType"):
        yield "strings of numpy 2", words.astype(np.dtypes.StringDType()), False
    yield "a matrix", np.matrix(X), False
    for kind in (sparse.csr_matrix, sparse.coo_array, sparse.lil_array, sparse.dok_array):
        yield kind.__name__, kind(X), False
    yield "another device", Cells(), False


@pytest.mark.parametrize("cost", [BALL, BOUNDS], ids=["ball", "bounds"])
@pytest.mark.parametrize("make", [arrays, frames])
def test_a_kind_of_table_is_answered_or_refused_before_a_charge(make, cost):
    wrong = []
    for name, table, good in make():
        budget = PrivacyBudget(9.0, 1e-3)
        try:
            model = budget.fit(NoisyLloyd(2, **cost), table)
        except (TypeError, ValueError) as error:
            if good or budget.ledger:
                wrong.append((name, good, [row.state for row in budget.ledger], str(error)))
        else:
            if not good or model.cluster_centers_.shape != (2, 2):
                wrong.append((name, "answered"))
    assert not wrong


@pytest.mark.parametrize("make", [arrays, frames])
def test_a_search_refuses_the_same_kinds_before_it_charges(make):
    wrong = []
    for name, table, good in make():
        good &= not name.startswith("dask")  # losses are read in memory
        budget = PrivacyBudget(9.0, 1e-3)
        try:
            budget.search(NoisyLloyd(2, **BALL), {"n_iter": [1, 2]}, table, epsilon=1.0)
        except (TypeError, ValueError) as error:
            if good or budget.ledger:
                wrong.append((name, good, [row.state for row in budget.ledger], str(error)))
        else:
            if not good:
                wrong.append((name, "answered"))
    assert not wrong


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (
            "people.csv",
            r"\(it is a str\): HDPEMeans needs a table of finite numbers. Read the file first",
        ),
        (io.StringIO("1,2"), "it is a StringIO.*Read the file first: pandas.read_csv"),
        ({"x": [1]}, "it is a dict.*pandas.DataFrame"),
        (iter([[1.0]]), "it is a list_iterator.*all rows at once"),
        (sparse.eye_array(3), "it is a dia_array.*X.toarray()"),
        (np.zeros((2, 2), "M8[D]"), "not numbers"),
    ],
)
def test_a_refusal_names_what_it_saw_and_the_next_step(table, told):
    with pytest.raises((TypeError, ValueError), match=told):
        PrivacyBudget(9, 1e-3).fit(HDPEMeans(2, **BALL), table)
    frame = pytest.importorskip("pandas").DataFrame({"x": [1.0], "day": ["2020-01-01"]})
    frame["day"] = frame["day"].astype("datetime64[s]")
    with pytest.raises(ValueError, match=r"column 'day' is of type datetime64\[s\]"):
        PrivacyBudget(9, 1e-3).fit(HDPEMeans(2, **BALL), frame)


def test_a_public_table_whose_columns_have_one_name_is_refused_before_a_charge():
    """The names of a frame that is PUBLIC itself are kept, too, after the fit."""
    target = pytest.importorskip("pandas").DataFrame(X, columns=["a", "a"])
    budget = PrivacyBudget(9.0, 1e-3)
    with pytest.raises(ValueError, match="two columns of a table have the same name"):
        budget.fit(NoisyAverageSet(t=20, **BALL), Xs=X, Xt=target)
    assert not budget.ledger


# ---------------------------------------------------------------- labels, names, messages

ADAPTS = {
    "CnvxAdap": (CnvxAdap, {"weight_radius": 1.0, "target_bound": 1.0, "discrepancy": 0.0, "alpha": 0.2}),
    "NCnvxAdap": (NCnvxAdap, {"weight_radius": 1.0, "classes": [0, 1]}),
}  # fmt: skip


def adapted(name, y, ys=None):
    """(error or None, states) of a fit with labels of the target, whose people are private, or of the public source."""
    make, own = ADAPTS[name]
    known = np.arange(N) % 2
    budget = PrivacyBudget(9.0, 1e-3)
    model = make(epsilon=1.0, delta=1e-6, radius=20.0, n_iter=2, random_state=0, **own)
    try:
        given = dict(Xs=X.copy(), ys=1 - known if ys is None else ys)
        with warnings.catch_warnings(action="ignore", category=DoubtWarning):
            budget.fit(model, X, known if y is None else y, accept_doubts=True, **given)
    except Exception as error:
        return error, [row.state for row in budget.ledger]
    return None, [row.state for row in budget.ledger]


def words_by_type():
    words = ["ill", "well"] * (N // 2)
    yield "numpy", np.array(words)
    yield "dates", np.zeros(N, "M8[D]")
    pandas = pytest.importorskip("pandas")
    yield "pandas", pandas.Series(words, dtype="string")
    yield "pandas of pyarrow", pandas.Series(words, dtype="string[pyarrow]")
    yield "a frame of one column", pandas.DataFrame({"y": words}, dtype="string")
    polars = pytest.importorskip("polars")
    yield "polars", polars.Series(words)
    yield "polars categorical", polars.Series(words, dtype=polars.Categorical)
    arrow = pytest.importorskip("pyarrow")
    yield "arrow", arrow.array(words)
    yield "arrow in chunks", arrow.chunked_array([words])
    yield "arrow dictionary", arrow.array(words).dictionary_encode()


def numbers_by_type():
    numbers = [0, 1] * (N // 2)
    yield "list", numbers
    yield "objects", np.array(numbers, dtype=object)
    yield "bool", np.array(numbers, dtype=bool)
    pandas = pytest.importorskip("pandas")
    yield "pandas", pandas.Series(numbers)
    yield "pandas with NA", pandas.Series(numbers, dtype="Int64")
    yield "a frame of one column", pandas.DataFrame({"y": numbers})
    yield "polars", pytest.importorskip("polars").Series(numbers)
    yield "arrow", pytest.importorskip("pyarrow").array(numbers)


@pytest.mark.parametrize("name", ADAPTS)
def test_labels_are_refused_by_the_type_of_their_column_before_a_charge(name):
    for kind, y in words_by_type():
        for given in ({"y": y}, {"y": None, "ys": y}):
            error, states = adapted(name, **given)
            assert "needs numbers" in str(error) and states == [], (kind, error)
    for kind, y in numbers_by_type():
        for given in ({"y": y}, {"y": None, "ys": y}):
            assert adapted(name, **given) == (None, ["settled"]), kind


@pytest.mark.parametrize("name", ADAPTS)
def test_words_in_public_labels_are_quoted_and_in_private_ones_never(name):
    words = ["ill", "well"] * (N // 2)
    for labels in (words, np.array(words, dtype=object), [*[0, 1] * (N // 2 - 1), 0, "ill"]):
        error, states = adapted(name, None, ys=labels)
        assert "ys: some of its entries are words, such as 'ill'" in str(error) and states == []
        error, states = adapted(name, labels)
        assert "ill" not in str(error) and states != []


CELLS = [None, float("nan"), float("inf"), "forty", b"x", 1j, [1.0, 2.0], {}, object(), datetime.date(2020, 1, 1),
         np.datetime64("NaT"), np.ma.masked, decimal.Decimal("NaN"), decimal.Decimal("Infinity")]  # fmt: skip


@pytest.mark.parametrize("cost", [BALL, BOUNDS], ids=["ball", "bounds"])
@pytest.mark.parametrize("make", [NoisyLloyd, HDPEMeans])
def test_after_a_charge_one_sentence_is_said_whatever_the_cell_is(make, cost):
    said = set()
    for cell in CELLS:
        rows = X[:60].tolist()
        rows[7][1] = cell
        table = np.empty((60, 2), dtype=object)
        for i, row in enumerate(rows):
            table[i, 0], table[i, 1] = row
        tables = [rows, table]
        if not isinstance(cell, (list, dict)) and cell is not np.ma.masked:
            pandas = pytest.importorskip("pandas")
            tables.append(
                pandas.DataFrame({"x": X[:60, 0], "y": pandas.Series([*table[:, 1]], dtype=object)})
            )
        for one in tables:
            budget = PrivacyBudget(9.0, 1e-3)
            with pytest.raises((TypeError, ValueError)) as caught:
                with warnings.catch_warnings(action="ignore", category=DoubtWarning):
                    budget.fit(make(2, **cost), one, accept_doubts=True)
            notes = tuple(getattr(caught.value, "__notes__", ()))
            said.add(
                (
                    type(caught.value).__name__,
                    str(caught.value),
                    notes,
                    [r.state for r in budget.ledger][0],
                )
            )
    assert len(said) == 1


@pytest.mark.parametrize(
    "names", [["a", 1], [1, "a"], [("a", 1), "b"], ["a", None], ["a", 1.5]], ids=str
)
def test_a_frame_whose_names_are_of_several_kinds_is_refused_before_a_charge(names):
    frame = pytest.importorskip("pandas").DataFrame(X)
    frame.columns = pytest.importorskip("pandas").Index(names, dtype=object, tupleize_cols=False)
    for model, given in (
        (NoisyLloyd(2, **BALL), {"X": frame}),
        (HDPEMeans(2, **BOUNDS), {"X": frame}),
        (NoisyAverageSet(t=20, **BALL), {"Xs": frame, "Xt": X}),
        (NoisyAverageSet(t=20, **BALL), {"Xs": X, "Xt": frame}),
    ):
        budget = PrivacyBudget(9.0, 1e-3)
        with pytest.raises((TypeError, ValueError), match="[Nn]ames|str"):
            budget.fit(model, **given)
        assert not budget.ledger


def test_a_disk_that_may_only_be_read_is_told_and_not_the_draft(tmp_path, monkeypatch):
    """There even a file that is not there cannot be removed. Mutation: the error of `unlink` is not suppressed."""

    def read_only(path, *_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    cannot = sqlite3.OperationalError("unable to open database file")
    monkeypatch.setattr("dplit.ledger.store.sqlite3.connect", mock.Mock(side_effect=cannot))
    monkeypatch.setattr(os, "unlink", read_only)
    with pytest.raises(LedgerError, match=r"ledger .*/l: .*Nothing was written\.$"):
        PrivacyBudget.open(tmp_path / "l", 1.0, 1e-5)


def test_a_ledger_says_what_is_missing_at_its_place_and_in_which_time_it_counts(tmp_path):
    for more in ((), (1.0, 1e-5)):
        with pytest.raises(FileNotFoundError, match="none does not exist; create it first"):
            PrivacyBudget.open(tmp_path / "none" / "l", *more)
        with pytest.raises(IsADirectoryError, match="it is a folder; name a file in it"):
            PrivacyBudget.open(tmp_path, *more)
        with pytest.raises(OSError, match=r"ledger .*: it is a pipe or a device; name a file\."):
            PrivacyBudget.open(os.devnull, *more)
    assert "does not exist" in main(
        ["ledger", str(tmp_path / "none" / "l"), "--begin", "1", "1e-5"]
    )
    budget = PrivacyBudget(1.0)
    budget.charge(0.5)
    assert str(budget).split("\n")[1].startswith("entry  when (UTC)")


def _arrives(monkeypatch, tmp_path, read):
    """Standard input whose bytes come from a function, on a system without /proc; the folder of copies."""
    monkeypatch.setattr("sys.stdin", mock.Mock(buffer=mock.Mock(read=read, isatty=lambda: False)))
    exists = os.path.exists
    monkeypatch.setattr(
        sources.os.path, "exists", lambda p: not str(p).startswith("/proc") and exists(p)
    )
    folder = tmp_path / "copies"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_while_a_table_is_copied_leaves_no_copy(monkeypatch, tmp_path, number):
    """Where a file keeps its name while it is open: SIGTERM would end the process, and the copy stay."""
    blocks = iter([b"age\n41\n", None])
    seen = []

    def read(_):
        if (block := next(blocks)) is None:
            seen.append(os.listdir(folder))
            signal.raise_signal(number)
        return block

    folder = _arrives(monkeypatch, tmp_path, read)
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), sources.opened("-"):
        pytest.fail("opened")
    assert len(seen[0]) == 1 and os.listdir(folder) == []
    assert signal.getsignal(number) is before


def test_a_copy_with_a_name_is_read_and_removed_and_only_its_owner_may(monkeypatch, tmp_path):
    blocks = iter([b"age\n41\n", b""])
    folder = _arrives(monkeypatch, tmp_path, lambda _: next(blocks))
    with sources.opened("-") as source:
        [part] = source.parts
        assert stat.S_IMODE(os.stat(part.path).st_mode) == 0o600
        assert open(part.path).read() == "age\n41\n"
    assert os.listdir(folder) == []


def test_a_small_file_that_unpacks_to_a_large_one_is_refused_uncharged(monkeypatch, tmp_path):
    """By a public limit, and by what is left on the disk; a table below both is read."""
    import gzip

    table, bounds, ledger = (tmp_path / n for n in ("t.csv.gz", "b.csv", "a.ledger"))
    with gzip.open(table, "wt") as file:
        file.write("a\n" + "1\n" * 3_000_000)
    assert table.stat().st_size < 10_000
    bounds.write_text("column,low,high\na,0,2\n")
    PrivacyBudget.open(ledger, 1.0, 1e-5).close()
    line = [
        "cluster",
        table,
        "--bounds",
        bounds,
        "--clusters",
        1,
        "--epsilon",
        0.5,
        "--delta",
        1e-6,
    ]
    line += ["--ledger", ledger, "--out", tmp_path / "out"]
    said = main([*map(str, [*line, "--max-bytes", 5_000_000])])
    assert "more than 5,000,000 bytes" in said and "--max-bytes" in said
    assert "more than 10 bytes" in main(
        ["check", str(table), "--bounds", str(bounds), "--max-bytes", "10"]
    )
    usage = mock.Mock(return_value=mock.Mock(free=2**20))
    with monkeypatch.context() as little:
        little.setattr(sources.shutil, "disk_usage", usage)
        assert "no copy of it can be made" in main([*map(str, line)])
    with PrivacyBudget.open(ledger) as budget:
        assert not budget.ledger
    assert not (tmp_path / "out").exists()
    with sources.opened(table, 2**23) as source:  # the size is rounded up to a power of two
        assert os.path.getsize(source.parts[0].path) == 6_000_002


def test_a_parquet_file_that_breaks_on_its_rows_is_told_the_curator_without_a_cell(
    monkeypatch, tmp_path, capsys
):
    """Readers quote what they could not convert, outside of the lines that are marked as private."""
    arrow = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    arrow.write_table(pyarrow.table({"a": [1.0, 2.0]}), tmp_path / "t.parquet")
    (tmp_path / "b.csv").write_text("column,low,high\na,0,2\n")

    class ComputeError(BaseException):
        pass

    def breaks(part, step, *args):
        raise ComputeError("cannot convert 41 Main Street")

    monkeypatch.setattr("dplit.command_line.checking._parquet", breaks)
    said = main(["check", str(tmp_path / "t.parquet"), "--bounds", str(tmp_path / "b.csv")])
    assert "t.parquet: its rows cannot be read (ComputeError). A fit would be REFUSED" in said
    assert "Main Street" not in said + capsys.readouterr().out
