"""Cluster a file from the command line: what the command writes, refuses, and never says. It is run as whoever owns a table runs it, in a process of its own."""

import argparse
import csv
import datetime
import json
import math
import os
import re
import subprocess
import sys
from decimal import Decimal
from functools import partial
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from asking import last_of_each
from sklearn.datasets import load_wine

from dplit import GridKMeans, MaxCoverKMeans, NoisyLloyd, PEMeans, PrivacyBudget, inputs
from dplit.accounting import Receipt
from dplit.command_line import bounds as command_line_bounds
from dplit.command_line import command as command_line_command
from dplit.command_line import files as command_line_files
from dplit.command_line import findings, options, reports
from dplit.command_line import parquet as command_line_parquet
from dplit.command_line.options import arguments
from dplit.inputs import BoundedScaler
from dplit.inputs.columns import Column
from dplit.mechanisms import Noise

ROOT = Path(__file__).parent.parent.parent
BOUNDS = "column,low,high,values\nage,0,120,\nincome,0,200000,\nregion,,,north|south\n"
# from what the columns mean: percent, grams and milligrams to a litre, a share of light, and so on
WINE = {
    "alcohol": [8, 16],
    "malic_acid": [0, 8],
    "ash": [0, 5],
    "magnesium": [50, 200],
    "flavanoids": [0, 6],
    "color_intensity": [0, 15],
    "hue": [0, 2],
    "proline": [0, 2000],
}


def run(folder, *arguments):
    """The command in a process of its own: (return code, stdout, stderr)."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "dplit", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def here(folder, monkeypatch, *arguments):
    """The command in this process, for what needs no second one: what it says at the end, 0 if all went well."""
    from dplit.__main__ import main

    monkeypatch.chdir(folder)
    return main([str(a) for a in arguments])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A folder with 2,000 made-up people. Their cells are long numbers, so that a quoted one is found."""
    folder, rng = tmp_path_factory.mktemp("people"), np.random.default_rng(0)
    old = rng.integers(2, size=2000)
    columns = {
        "name": [f"person-{i}" for i in range(2000)],
        "age": [f"{x:.5f}" for x in rng.normal(30 + 40 * old, 5)],
        "income": [f"{x:.4f}" for x in rng.normal(40e3 + 20e3 * old, 9e3)],
        "region": [["north", "south", "abroad"][i] for i in rng.integers(3, size=2000)],
    }
    write(folder / "people.csv", columns)
    (folder / "bounds.csv").write_text(BOUNDS)
    return folder


def write(path, columns):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([[*columns], *zip(*columns.values(), strict=True)])


def cells_of(path):
    """Every cell of a table but the short words and numbers that may stand anywhere."""
    with open(path, newline="") as file:
        return {cell for row in list(csv.reader(file))[1:] for cell in row if len(cell) > 6}


def asked(folder, out, *more, table="people.csv", bounds="bounds.csv"):
    cost = ["--clusters", 2, "--epsilon", 1, "--delta", 1e-6]
    line = ["cluster", folder / table, "--bounds", folder / bounds, *cost, "--out", out, *more]
    return last_of_each(line)


class Page(HTMLParser):
    """What a page holds: words, pictures, open elements, addresses."""

    def __init__(self, text):
        super().__init__()
        self.words, self.pictures, self.open, self.addresses = "", [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.addresses += [given[name] for name in ("src", "href") if name in given]
        if tag == "img":
            self.pictures.append(given.get("alt", ""))
        if tag not in ("img", "meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


# ---------------------------------------------------------------- what it writes


def test_a_table_becomes_centers_a_receipt_and_a_report(table, tmp_path):
    code, said, told = run(table, *asked(table, tmp_path / "one", "--seed", 0))
    assert code == 0, told
    assert sorted(os.listdir(tmp_path / "one")) == ["centers.csv", "receipt.json", "report.html"]
    assert "left out" in said and "name" in said and "NOT private" in said

    with open(tmp_path / "one" / "centers.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    names = ["cluster", "age", "income", "region=north", "region=south"]
    errors = [f"{name}_standard_error" for name in names[1:]]
    assert list(lines[0]) == [*names, "size", "size_standard_error", *errors] and len(lines) == 2
    for line in lines:
        assert 0 <= float(line["age"]) <= 120 and 0 <= float(line["income"]) <= 200_000
        assert 0 <= float(line["region=north"]) <= 1
        assert float(line["size_standard_error"]) > 1

    receipt = Receipt.from_dict(json.loads((tmp_path / "one" / "receipt.json").read_text()))
    assert receipt.epsilon == pytest.approx(1) and receipt.delta == 1e-6 and not receipt.private

    page = Page((tmp_path / "one" / "report.html").read_text(encoding="utf-8"))
    assert page.open == [] and len(page.pictures) == 2 and all(page.pictures)
    assert all(address.startswith("data:image/png;base64,") for address in page.addresses)
    for word in ("people.csv", "age", "north", "0 to 120", "not protected", "NOT private", "name"):
        assert word in page.words
    assert str(receipt).splitlines()[-1] in page.words

    code, again, _ = run(table, *asked(table, tmp_path / "two", "--seed", 0))
    assert code == 0 and again.replace("two", "one") == said
    for name in command_line_command.FILES:
        files = [(tmp_path / run_ / name).read_bytes() for run_ in ("one", "two")]
        assert files[0] == files[1]

    everything = (
        said
        + told
        + "".join(
            re.sub(r"base64,[^\"]*", "", (tmp_path / "one" / name).read_text())
            for name in command_line_command.FILES
        )
    )
    assert not [cell for cell in cells_of(table / "people.csv") if cell in everything]
    assert not re.search(r"\b2000\b", everything.replace("200000", ""))


def test_without_a_seed_it_is_private_and_differs(table, tmp_path, monkeypatch, capsys):
    outs = [tmp_path / "one", tmp_path / "two"]
    for out in outs:
        assert here(table, monkeypatch, *asked(table, out, "--method", "NoisyLloyd")) == 0
        said = capsys.readouterr().out + (out / "report.html").read_text()
        assert "release" in said and "NOT private" not in said
        assert json.loads((out / "receipt.json").read_text())["private"] is True
    assert (outs[0] / "centers.csv").read_text() != (outs[1] / "centers.csv").read_text()


def test_it_is_the_estimator_on_scaled_rows(table, tmp_path, monkeypatch):
    """To the last digit written: the command adds reading, scaling and writing, and nothing else."""
    assert here(table, monkeypatch, *asked(table, tmp_path / "out", "--seed", 3)) == 0
    with open(table / "people.csv", newline="") as file:
        _, *rows = csv.reader(file)
    rows = np.array([[float(r[1]), float(r[2]), r[3]] for r in rows], dtype=object)
    regions = {2: ["north", "south"]}
    scaler = BoundedScaler([0, 0], [120, 200e3], categories=regions).fit(rows)
    model = PEMeans(2, epsilon=1.0, delta=1e-6, radius=scaler.radius_, random_state=3)
    model.fit(scaler.transform(rows))
    found = np.loadtxt(tmp_path / "out" / "centers.csv", delimiter=",", skiprows=1)
    assert np.allclose(found[:, 1:5], scaler.in_units(model.cluster_centers_), rtol=1e-9, atol=1e-9)
    assert np.allclose(found[:, 5], model.cluster_sizes_, rtol=1e-9)


def test_wine_with_ranges_written_from_meaning(tmp_path, monkeypatch):
    """178 bottles are few for epsilon 8: ranges that a book on wine tells, and the noise still shows."""
    wine = load_wine()
    columns = {name: wine.data[:, i] for i, name in enumerate(wine.feature_names)}
    write(tmp_path / "wine.csv", columns)
    (tmp_path / "bounds.json").write_text(json.dumps(WINE))
    line = ["cluster", "wine.csv", "--bounds", "bounds.json", "--clusters", 3, "--delta", 1e-4]
    line += ["--epsilon", 8, "--seed", 0, "--out", "out"]
    assert here(tmp_path, monkeypatch, *line) == 0
    head, *lines = csv.reader((tmp_path / "out" / "centers.csv").read_text().splitlines())
    order = [name for name in wine.feature_names if name in WINE]
    assert head[1 : 1 + len(WINE)] == order and len(lines) == 3
    low, high = (np.array([WINE[name][i] for name in order]) for i in (0, 1))
    centers = np.array(lines, dtype=float)[:, 1 : 1 + len(WINE)]
    assert np.all((low <= centers) & (centers <= high))
    left_out = [name for name in wine.feature_names if name not in WINE]
    assert all(name in (tmp_path / "out" / "report.html").read_text() for name in left_out)


@pytest.mark.parametrize("method", command_line_command.METHODS)
def test_every_method_works(table, tmp_path, monkeypatch, method):
    cost = ["--method", method, "--seed", 0, "--epsilon", 4]
    assert here(table, monkeypatch, *asked(table, tmp_path / "out", *cost)) == 0
    assert "size" in (tmp_path / "out" / "centers.csv").read_text()


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_the_receipt_says_whom_it_protects(table, tmp_path, monkeypatch, neighboring):
    cost = ["--neighboring", neighboring, "--seed", 0]
    assert here(table, monkeypatch, *asked(table, tmp_path / "out", *cost)) == 0
    receipt = json.loads((tmp_path / "out" / "receipt.json").read_text())
    assert receipt["neighboring"] == neighboring
    page = (tmp_path / "out" / "report.html").read_text()
    assert ("replaced by any other" in page) == (neighboring == "replace")


# ---------------------------------------------------------------- kinds of files


def same_rows(path, other, bounds):
    scaler = command_line_bounds._scaler(
        command_line_bounds.read_bounds(bounds), ["age", "income", "region"]
    )
    one, two = (command_line_command.read_rows(p, scaler) for p in (path, other))
    assert isinstance(one, np.ndarray) and np.array_equal(one, two)


def test_parquet_and_other_ways_to_write_a_csv(table, tmp_path, monkeypatch):
    text = (table / "people.csv").read_text()
    for name, changed in {
        "semicolons": text.replace(",", ";"),
        "tabs": text.replace(",", "\t"),
        "from a spreadsheet": "\ufeff" + text.replace("\n", "\r\n"),
        "empty lines": text.replace("\n", "\n\n"),
        "quoted": re.sub(r"([^,\n]+)", r'"\1"', text),
    }.items():
        other = tmp_path / f"{name}.csv"
        other.write_bytes(changed.encode())
        assert command_line_files.read_names(other) == ["name", "age", "income", "region"], name
        same_rows(table / "people.csv", other, table / "bounds.csv")
    frame = pytest.importorskip("polars").read_csv(table / "people.csv")
    frame.write_parquet(tmp_path / "people.parquet")
    assert command_line_files.read_names(tmp_path / "people.parquet") == frame.columns
    same_rows(table / "people.csv", tmp_path / "people.parquet", table / "bounds.csv")
    if find_spec("pyarrow"):
        without_polars = lambda name: None if name == "polars" else find_spec(name)  # noqa: E731
        monkeypatch.setattr(command_line_parquet, "find_spec", without_polars)
        assert command_line_files.read_names(tmp_path / "people.parquet") == frame.columns
        same_rows(table / "people.csv", tmp_path / "people.parquet", table / "bounds.csv")


def test_a_table_too_large_for_memory_becomes_a_dask_array(table, monkeypatch):
    array = pytest.importorskip("dask.array")
    names = ["age", "income", "region"]
    scaler = command_line_bounds._scaler(
        command_line_bounds.read_bounds(table / "bounds.csv"), names
    )
    whole = command_line_command.read_rows(table / "people.csv", scaler)
    (
        monkeypatch.setattr(command_line_files, "LARGE", 1000),
        monkeypatch.setattr(command_line_files, "BLOCK", 300),
    )
    parts = command_line_command.read_rows(table / "people.csv", scaler)
    assert isinstance(parts, array.Array) and parts.numblocks == (7, 1)
    assert np.array_equal(parts.compute(), whole)
    cost = {"epsilon": 1.0, "delta": 1e-6, "radius": scaler.radius_, "random_state": 0}
    models = [NoisyLloyd(2, **cost).fit(rows) for rows in (parts, whole)]
    assert np.array_equal(models[0].cluster_centers_, models[1].cluster_centers_)


def test_two_columns_of_one_name_are_refused_who_reads_parquet(tmp_path, monkeypatch):
    schema = SimpleNamespace(names=["a", "a", "b"], types=["double"] * 3)
    parquet = SimpleNamespace(read_schema=lambda path: schema)
    monkeypatch.setitem(sys.modules, "pyarrow", SimpleNamespace(parquet=parquet))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", parquet)
    monkeypatch.setattr(command_line_parquet, "find_spec", lambda name: name == "pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match="two of its 3 columns"):
        command_line_files.read_names(tmp_path / "a.parquet")


def test_without_readers_of_parquet_a_sentence_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setattr(command_line_parquet, "find_spec", lambda name: None)
    with pytest.raises(OSError, match="install polars"):
        command_line_files.read_names(tmp_path / "a.parquet")


def test_bounds_in_json(tmp_path, table):
    given = {"age": [0, 120], "income": {"low": 0, "high": 200000}, "region": ["north", "south"]}
    (tmp_path / "bounds.json").write_text(json.dumps(given))
    assert command_line_bounds.read_bounds(
        tmp_path / "bounds.json"
    ) == command_line_bounds.read_bounds(table / "bounds.csv")


@pytest.mark.parametrize("line", ["income,0,200,000", "income,0,5,120,"])
def test_a_bound_with_a_comma_in_it_is_no_other_bound(tmp_path, line):
    (tmp_path / "bounds.csv").write_text(f"column,low,high\n{line}\n")
    with pytest.raises(ValueError, match="column 'income' has one cell too many; write 200000"):
        command_line_bounds.read_bounds(tmp_path / "bounds.csv")


AS_MADE = {  # by pandas, spreadsheets and people: (the table, the bounds)
    "an index": (lambda t: re.sub(r"(?m)^", "7,", t).replace("7,", ",", 1).removesuffix("7,"), BOUNDS),
    "spaces in names": (lambda t: t.replace("age", " age in years ", 1), BOUNDS.replace("age", "age in years")),
    "a byte order mark": (lambda t: "\ufeff" + t, "\ufeff" + BOUNDS),
    "semicolons": (lambda t: t.replace(",", ";"), BOUNDS.replace(",", ";")),
    "bars": (lambda t: t.replace(",", "|"), BOUNDS),
    "bars and quotes": (lambda t: re.sub(r"([^,\n]+)", r'"\1"', t).replace(",", "|"), BOUNDS),
    "CRLF": (lambda t: t.replace("\n", "\r\n"), BOUNDS.replace("\n", "\r\n")),
    "quoted numbers": (lambda t: re.sub(r"([^,\n]+)", r'"\1"', t), BOUNDS),
    "an empty last line": (lambda t: t + "\n", BOUNDS + "\n"),
    "no last line end": (lambda t: t.removesuffix("\n"), BOUNDS.removesuffix("\n")),
}  # fmt: skip


@pytest.mark.parametrize("change", AS_MADE)
def test_tables_as_people_make_them_give_the_same_answer(table, tmp_path, monkeypatch, change):
    tables, centers = (table / "people.csv").read_text(), []
    for name, (make, bounds) in {"plain": (str, BOUNDS), "other": AS_MADE[change]}.items():
        (tmp_path / f"{name}.csv").write_bytes(make(tables).encode())
        (tmp_path / f"{name}-bounds.csv").write_bytes(bounds.encode())
        PrivacyBudget.open(tmp_path / f"{name}.ledger", 1.0, 1e-5).close()
        more = ["--ledger", f"{name}.ledger", "--seed", 0, "--method", "NoisyLloyd"]
        files = {"table": f"{name}.csv", "bounds": f"{name}-bounds.csv"}
        assert here(tmp_path, monkeypatch, *asked(tmp_path, name, *more, **files)) == 0
        centers.append((tmp_path / name / "centers.csv").read_text().split("\n", 1)[1])
        with PrivacyBudget.open(tmp_path / f"{name}.ledger") as budget:
            assert [row.state for row in budget.ledger] == ["settled"]
    assert centers[0] == centers[1]


REFUSED = {  # (the first line, the bounds, what is said): all of it public
    "two names alike": ("name,age,age,region", BOUNDS, "'income' is not among"),
    "no names": (",,age,income,region", BOUNDS, "both have none"),
    "capitals": ("name,Age,income,region", BOUNDS, "upper and lower case differ"),
    "capitals in the bounds": ("name,age,income,region", BOUNDS.replace("age", "AGE"), "upper and lower case differ"),
    "an unknown column": ("name,years,income,region", BOUNDS, "'age' is not among"),
    "another separator": ("name^age^income^region", BOUNDS, "is not among the 1 names"),
    "another separator and quotes": ('"name"^"age"^"income"', BOUNDS, "or is followed by a character other than , ; |"),
}  # fmt: skip


@pytest.mark.parametrize("change", REFUSED)
def test_a_wrong_first_line_is_told_before_a_charge(table, tmp_path, monkeypatch, change):
    head, bounds, told = REFUSED[change]
    (tmp_path / "t.csv").write_text(f"{head}\nperson-1,41.25,41000.125,north\n")
    (tmp_path / "b.csv").write_text(bounds)
    PrivacyBudget.open(tmp_path / "l", 1.0, 1e-5).close()
    before = (tmp_path / "l").read_bytes()
    line = asked(tmp_path, tmp_path / "out", "--ledger", "l", table="t.csv", bounds="b.csv")
    said = here(tmp_path, monkeypatch, *line).replace(str(tmp_path), "")  # which may be numbered 41
    assert told in said and "person-1" not in said and "41" not in said
    assert (tmp_path / "l").read_bytes() == before and not (tmp_path / "out").exists()


@pytest.mark.parametrize("total", [0.5, 2.0])
@pytest.mark.parametrize("place", [0, 300])
def test_a_row_that_is_no_text_changes_neither_a_refusal_nor_a_charge(
    tmp_path, monkeypatch, total, place
):
    """A text file is decoded some rows ahead of its first line: whether the ledger was charged told where such a row lies.

    In a column that is used; in another one it is not looked at.
    """
    (tmp_path / "b.csv").write_text("column,low,high\nage,0,120\n")
    lines = [b"name,age", *[b"person,30"] * 400]
    states = {}
    for name, row in ("clean", b"M\xfcller,30"), ("odd", b"person,3\xfc0"):
        folder = tmp_path / name
        folder.mkdir()
        lines[1 + place] = row
        (folder / "t.csv").write_bytes(b"\n".join(lines) + b"\n")
        PrivacyBudget.open(folder / "l", total, 1e-5).close()
        line = asked(folder, "out", "--ledger", "l", table="t.csv", bounds=tmp_path / "b.csv")
        told = here(folder, monkeypatch, *line)
        with PrivacyBudget.open(folder / "l") as budget:
            states[name] = told, [row.state for row in budget.ledger]
    if total < 1:
        assert states["clean"] == states["odd"] and not states["odd"][1]
    else:
        assert states["clean"] == (0, ["settled"]) and states["odd"][1] == ["failed"]
        assert command_line_files._UNUSABLE in states["odd"][0]


def test_a_spreadsheet_is_told_to_be_one(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"PK\3\4 ...")
    with pytest.raises(ValueError, match="a spreadsheet, or compressed; save its table as CSV"):
        command_line_files.read_names(tmp_path / "t.csv")


@pytest.mark.parametrize(("many", "method"), [(32, "PEMeans"), (33, "HDPEMeans")])
def test_the_bounds_choose_the_method_and_the_page_says_why(tmp_path, monkeypatch, many, method):
    """Each value of a list counts as a column; no row is asked, and whoever names a method gets it."""
    bounds = "column,low,high,values\nage,0,120,\nward,,,"
    (tmp_path / "b.csv").write_text(bounds + "|".join(map(str, range(many - 1))) + "\n")
    (tmp_path / "t.csv").write_text(",ward,age\n" + "0,1,30\n" * 500)
    for more, taken, why in (
        ([], method, f"{many} columns, each value of a list counted as one, are"),
        (["--method", "NoisyLloyd"], "NoisyLloyd", "it was asked for"),
    ):
        line = asked(tmp_path, tmp_path / taken, "--seed", 0, *more, table="t.csv", bounds="b.csv")
        assert here(tmp_path, monkeypatch, *line) == 0
        page = Page((tmp_path / taken / "report.html").read_text(encoding="utf-8"))
        assert f"by {taken}, with random noise" in page.words
        assert f"used because {why}" in page.words and "a column without a name" in page.words


def test_where_no_list_is_declared_the_page_speaks_of_none(tmp_path, monkeypatch):
    names = [f"c{i}" for i in range(33)]
    (tmp_path / "b.csv").write_text("column,low,high\n" + "".join(f"{n},0,2\n" for n in names))
    (tmp_path / "t.csv").write_text(",".join(names) + "\n" + (",".join("1" * 33) + "\n") * 500)
    line = asked(tmp_path, tmp_path / "out", "--seed", 0, table="t.csv", bounds="b.csv")
    assert here(tmp_path, monkeypatch, *line) == 0
    page = Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    assert "used because 33 columns are more than 32" in page.words


# ---------------------------------------------------------------- pure differential privacy


def test_the_methods_that_can_be_asked_for_are_those_that_there_are():
    assert options.NAMES == tuple(command_line_command.METHODS)


@pytest.mark.parametrize(("method", "noise"), [("GridKMeans", "laplace"), ("NoisyLloyd", "knorm")])
def test_without_a_delta_all_is_pure(table, tmp_path, monkeypatch, capsys, method, noise):
    """A ledger whose limit has delta = 0 takes it, and receipt, ledger and page say so."""
    PrivacyBudget.open(tmp_path / "pure.ledger", 1.0, 0.0).close()
    more = ["--delta", 0, "--method", method, "--ledger", tmp_path / "pure.ledger"]
    assert here(table, monkeypatch, *asked(table, tmp_path / "out", *more)) == 0
    said = capsys.readouterr()
    text = (tmp_path / "out" / "receipt.json").read_text()
    receipt = Receipt.from_dict(json.loads(text))
    assert receipt.delta == 0 and 0.999 < receipt.epsilon <= 1 and receipt.private
    releases = json.loads(text)["releases"]
    assert {line["mechanism"] for line in releases} == {noise}
    assert {(line["mu"], line["delta"]) for line in releases} == {(None, 0.0)}
    with PrivacyBudget.open(tmp_path / "pure.ledger") as budget:
        ((row, state),) = [(row, row.state) for row in budget.ledger]
    assert state == "settled" and row.delta == 0 and row.epsilon == pytest.approx(1)
    page = Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    assert re.search(r"term is pure [01.]+-differential privacy", page.words)
    assert "plus" not in page.words and "times its probability without; and" in page.words
    everything = said.out + said.err + page.words + text
    assert not [cell for cell in cells_of(table / "people.csv") if cell in everything]


def test_with_a_delta_the_page_says_plus_delta(table, tmp_path, monkeypatch):
    assert here(table, monkeypatch, *asked(table, tmp_path / "out")) == 0
    page = Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    assert re.search(r"\([01.]+, 1e-06\)-differential privacy", page.words)
    assert "without, plus 1e-06; and" in page.words


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_a_grid_lies_over_all_ranges_and_answers_in_their_units(
    table, tmp_path, monkeypatch, neighboring
):
    """Its cells are those of the cube of scaled rows, not of the larger ball around it."""
    more = ["--delta", 0, "--method", "GridKMeans", "--seed", 3, "--neighboring", neighboring]
    assert here(table, monkeypatch, *asked(table, tmp_path / "out", *more)) == 0
    centers = np.loadtxt(tmp_path / "out" / "centers.csv", delimiter=",", skiprows=1)
    with open(table / "people.csv", newline="") as file:
        people = list(csv.DictReader(file))
    rows = [[float(p["age"]), float(p["income"]), p["region"]] for p in people]
    scaler = BoundedScaler(low=[0, 0], high=[120, 200_000], categories={2: ["north", "south"]})
    X = scaler.fit_transform(np.array(rows, dtype=object))
    cost = {"epsilon": 1.0, "neighboring": neighboring, "random_state": 3}
    model = GridKMeans(2, bounds=(-1.0, 1.0), **cost).fit(X)
    by_hand = scaler.in_units(model.cluster_centers_)
    assert np.allclose(centers[:, 1:5], by_hand, rtol=1e-8)
    apart = np.ptp(centers[:, 1:5] / [120, 200_000, 1, 1], axis=0)
    assert apart.max() > 0.2  # in shares of a range
    assert np.allclose(centers[:, 5], model.cluster_sizes_, rtol=1e-8)
    units = [60.0, 100_000.0]
    errors = model.cluster_centers_se_[:, :2] * units
    assert np.allclose(centers[:, 7:9], errors, rtol=1e-8)


IMPOSSIBLE = {  # what is asked for, and what is said of it
    "too many columns": (["--method", "GridKMeans"], 12, "12 columns: GridKMeans counts at most"),
    "too many clusters": (["--method", "GridKMeans", "--clusters", 10**6], 2, "at most as many"),
    "a method that needs one": ([], 2, "PEMeans needs 0 < delta < 1"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_cannot_be_pure_is_refused_before_a_charge(table, tmp_path, monkeypatch, case):
    more, many, told = IMPOSSIBLE[case]
    values = "|".join(f"v{i}" for i in range(many))
    (tmp_path / "b.csv").write_text(f"column,low,high,values\nregion,,,{values}\n")
    PrivacyBudget.open(tmp_path / "a.ledger", 1.0, 1e-5).close()
    before = (tmp_path / "a.ledger").read_bytes()
    monkeypatch.setattr(command_line_command, "read_rows", None)  # no row is asked for
    line = asked(table, tmp_path / "out", "--delta", 0, "--ledger", tmp_path / "a.ledger", *more)
    line[3] = tmp_path / "b.csv"
    said = here(table, monkeypatch, *line)
    assert told in said and not (tmp_path / "out").exists()
    assert (tmp_path / "a.ledger").read_bytes() == before


# ---------------------------------------------------------------- what it refuses

WRONG_BOUNDS = {
    "reversed": ("age,120,0,", "age"),
    "equal": ("age,120,120,", "age"),
    "missing": ("age,0,,", "age"),
    "both missing": ("age,,,", "age"),
    "infinite": ("income,0,inf,", "income"),
    "not a number": ("income,nan,1,", "income"),
    "a word": ("income,zero,1,", "income"),
    "not in the table": ("height,0,250,", "height"),
    "twice": ("age,0,120,\nage,0,120,", "age"),
    "no name": (",0,120,", "no column"),
    "a value twice": ("region,,,north|north", "region"),
    "nothing": ("", "no column"),
}


@pytest.mark.parametrize(("line", "told"), WRONG_BOUNDS.values(), ids=WRONG_BOUNDS)
def test_a_wrong_bound_is_refused_by_name_and_nothing_is_written(
    table, tmp_path, monkeypatch, line, told
):
    (tmp_path / "bad.csv").write_text(f"column,low,high,values\n{line}\n")
    monkeypatch.setattr(
        command_line_command, "read_rows", lambda *_: pytest.fail("the table was read")
    )
    problem = here(table, monkeypatch, *asked(table, tmp_path / "out", bounds=tmp_path / "bad.csv"))
    assert isinstance(problem, str) and told in problem and "\n" not in problem
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "text",
    ["[1]", "{", '{"age": 3}', '{"age": {"low": 0}}', '{"age": {"values": 3}}', '{"age": []}',
     f'{{"age": [0, {"9" * 400}]}}', f'{{"age": [0, {"9" * 5000}]}}', "[" * 100_000],
)  # fmt: skip
def test_wrong_json_is_refused(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises((TypeError, ValueError), match="age|JSON"):
        command_line_bounds.read_bounds(tmp_path / "bad.json")


@pytest.mark.parametrize(
    "change",
    [["--epsilon", -1], ["--delta", 2], ["--clusters", 0], ["--seed", -1]],
    ids=str,
)
def test_an_impossible_cost_is_refused_before_the_table_is_read(
    table, tmp_path, monkeypatch, change
):
    monkeypatch.setattr(
        command_line_command, "read_rows", lambda *_: pytest.fail("the table was read")
    )
    problem = here(table, monkeypatch, *asked(table, tmp_path / "out", *change))
    assert isinstance(problem, str) and not (tmp_path / "out").exists()


SPOILED = {
    "a word": "person-x,forty-one,41000.125,north",
    "empty": "person-x,,41000.125,north",
    "not a number": "person-x,nan,41000.125,north",
    "infinite": "person-x,-inf,41000.125,north",
    "Python's own way": "person-x,41.25,41_000.125,north",
    "too few cells": "person-x,41.25",
    "too many cells": "person-x,41.25,41000.125,north,south",
    "bytes": "person-\xff,41.25,41000.125,\xfe",
    "an open quote": 'person-x,"41.25,41000.125,north',
}


@pytest.mark.parametrize("row", SPOILED.values(), ids=SPOILED)
def test_a_spoiled_row_is_refused_and_not_quoted(table, tmp_path, row):
    """In a process of its own: nothing of the row in what it prints, nothing written; to have read it is charged."""
    spoiled = (table / "people.csv").read_bytes() + row.encode("latin-1") + b"\n"
    (tmp_path / "spoiled.csv").write_bytes(spoiled)
    PrivacyBudget.open(tmp_path / "a.ledger", 1.0, 1e-5).close()
    more = ["--ledger", tmp_path / "a.ledger"]
    line = asked(table, tmp_path / "out", *more, table=tmp_path / "spoiled.csv")
    code, said, told = run(table, *line)
    assert code == 1 and "spoiled.csv" in told and "Traceback" not in told
    for private in ("person", "forty", "41.25", "41000", "north", "2000", "2001", "xff", "0xff"):
        assert private not in (said + told).replace(str(tmp_path), "").replace(
            "--person-column", ""
        )
    assert not (tmp_path / "out").exists()
    with PrivacyBudget.open(tmp_path / "a.ledger") as budget:
        assert [row.state for row in budget.ledger] == ["failed"]
    assert "was charged epsilon = 1" in told


def test_a_number_is_written_in_plain_digits():
    """What Python's float, or numpy, reads as a number and nobody wrote as one."""
    plain = ["1", " 2.5\t", "-3e2", "+.5", "4.", "1E-3"]
    assert command_line_files._floats(plain).tolist() == [1, 2.5, -300, 0.5, 4, 0.001]
    for cell in (
        "1_0",
        "1\0",
        "\uff11\uff12",
        "\u0663",
        "1\u00a0",
        "0x1p3",
        "e",
        "1 0",
        "infinity",
        "",
    ):
        with pytest.raises(ValueError, match="could not|a cell is not a finite number"):
            command_line_files._floats(["1", cell])
    mixed = [True, 2, Decimal("2.5"), "3"]
    assert command_line_files._floats(mixed).tolist() == [1, 2, 2.5, 3]


ODD = {
    "date": [datetime.date(2020, 1, 1)],
    "datetime": [datetime.datetime(2020, 1, 1, 12)],
    "time": [datetime.time(12)],
    "duration": [datetime.timedelta(1)],
    "list": [[1.0, 2.0]],
    "struct": [{"a": 1.0}],
    "binary": [b"1"],
}


@pytest.mark.parametrize("bounds", ["x,0,9,", "x,,,a|b"], ids=["range", "list"])
@pytest.mark.parametrize("kind", ODD)
def test_a_type_of_parquet_that_is_no_number_is_refused_unread_and_uncharged(
    tmp_path, monkeypatch, kind, bounds
):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"y": [1.0], "x": ODD[kind]})
    frame.write_parquet(tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text(f"column,low,high,values\n{bounds}\ny,0,9,\n")
    monkeypatch.setattr(
        command_line_command, "read_rows", lambda *_: pytest.fail("the table was read")
    )
    PrivacyBudget.open(tmp_path / "l", 1.0, 1e-5).close()
    line = asked(tmp_path, tmp_path / "out", "--ledger", "l", table="a.parquet", bounds="b.csv")
    told = here(tmp_path, monkeypatch, *line)
    assert f"'x' is of the type {kind}" in told and "charged" not in told
    with PrivacyBudget.open(tmp_path / "l") as budget:
        assert not budget.ledger and not (tmp_path / "out").exists()


def test_types_of_parquet_that_are_numbers_or_words_are_read(tmp_path):
    polars = pytest.importorskip("polars")
    columns = {
        "flag": [True, False],
        "price": [Decimal("1.50"), Decimal("2.00")],
        "small": polars.Series([1, 2], dtype=polars.Int8),
        "text": ["1.5", "2"],
        "kind": polars.Series(["a", "b"], dtype=polars.Categorical),
    }
    polars.DataFrame(columns).write_parquet(tmp_path / "a.parquet")
    four = [*columns][:4]
    scaler = command_line_bounds._scaler(
        {"low": dict.fromkeys(four, 0), "high": dict.fromkeys(four, 2), "categories": {"kind": ["a", "b"]}},
        [*columns],
    )  # fmt: skip
    rows = scaler.in_units(command_line_command.read_rows(tmp_path / "a.parquet", scaler))
    assert np.allclose(rows, [[1, 1.5, 1, 1.5, 1, 0], [0, 2, 2, 2, 0, 1]])


@pytest.mark.parametrize("listed", ["true|false", "True|False", "1|0", "1.0|0.00"])
def test_a_list_of_yes_and_no_is_found_however_it_is_written(tmp_path, listed):
    polars = pytest.importorskip("polars")
    cells = [True, False, None]
    polars.DataFrame({"a": cells}).write_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a\n1\n0.0\n2\n")
    (tmp_path / "b.csv").write_text(f"column,low,high,values\na,,,{listed}\n")
    scaler = command_line_bounds._scaler(command_line_bounds.read_bounds(tmp_path / "b.csv"), ["a"])
    for table in ["t.parquet"] + ["t.csv"] * listed.startswith("1"):
        shares = scaler.in_units(command_line_command.read_rows(tmp_path / table, scaler))
        assert np.allclose(shares, [[1, 0], [0, 1], [0, 0]]), table


def test_of_two_spellings_in_a_list_the_exact_one_is_taken():
    for listed in (("1", "1.0"), ("1.0", "1")):
        assert [*command_line_files._words(["1", "1.0", " 1 ", "2"], listed)] == [
            "1",
            "1.0",
            "1",
            None,
        ]
    versions = ("v1.0", "10.0.0.0", "3.0.0", "3")  # no numbers, but for the last
    assert [*command_line_files._words(["v1", "10.0.0", "3.0"], versions)] == [None, None, "3"]


def test_a_record_is_a_line_unless_a_quote_goes_on(table, tmp_path):
    """A quote that is not closed would swallow the rows of others, and is refused; a quoted line break moves no row."""
    text = (table / "people.csv").read_text()
    (tmp_path / "open.csv").write_text(text + '"Bob,50,40000,north\n' + text.split("\n", 1)[1])
    scaler = command_line_bounds._scaler(
        command_line_bounds.read_bounds(table / "bounds.csv"), ["age", "income", "region"]
    )
    with pytest.raises(ValueError, match="quotes closed") as caught:
        command_line_command.read_rows(tmp_path / "open.csv", scaler)
    assert "Bob" not in str(caught.value) and caught.value.__context__ is None
    plain = command_line_command.read_rows(table / "people.csv", scaler)
    (tmp_path / "broken.csv").write_text(text.replace("person-7,", '"person\n\n, ""7""",'))
    assert np.array_equal(command_line_command.read_rows(tmp_path / "broken.csv", scaler), plain)
    (tmp_path / "more.csv").write_text(text.replace("person-7,", "person\n7,"))
    with pytest.raises(ValueError, match="each record must have a cell for each name"):
        command_line_command.read_rows(tmp_path / "more.csv", scaler)


def test_a_missing_cell_changes_no_other_row_of_parquet(tmp_path):
    polars = pytest.importorskip("polars")
    (tmp_path / "b.csv").write_text("column,low,high,values\nward,,,1|2|3\nage,0,100,\n")
    rows = {}
    for name, ward in {"without": [1, 2, 3] * 5, "with": [1, 2, 3] * 5 + [None]}.items():
        frame = polars.DataFrame({"ward": ward, "age": [50.0] * len(ward)})
        frame.write_parquet(tmp_path / f"{name}.parquet")
        scaler = command_line_bounds._scaler(
            command_line_bounds.read_bounds(tmp_path / "b.csv"), ["ward", "age"]
        )
        rows[name] = command_line_command.read_rows(tmp_path / f"{name}.parquet", scaler)
    assert np.array_equal(rows["without"], rows["with"][:-1]) and len(rows["with"]) == 16
    many = polars.DataFrame({"c": [2**53 + 1, 2**53 + 3, None]})
    scaler = BoundedScaler(categories={"c": [2**53 + 1, 2**53 + 3]}).fit(many)
    assert np.array_equal(scaler.transform(many[:2]), scaler.transform(many)[:2])


def test_a_whole_number_of_a_category_may_be_written_as_pandas_writes_it(tmp_path):
    """1.0 is the value 1, unless the list itself has 1.0; a name that only ends so stays what it is."""
    cells = ["1", "1.0", "2.00", " 3.0 ", "10.0", "v.0", "1.05", ""]
    write(tmp_path / "wards.csv", {"ward": cells, "age": ["30"] * len(cells)})
    for values, found in (
        (["1", "2", "3", "10", "v"], [0, 0, 1, 2, 3, None, None, None]),
        (["1", "1.0", "v.0"], [0, 1, None, None, None, 2, None, None]),
    ):
        scaler = BoundedScaler(low={"age": 0}, high={"age": 120}, categories={"ward": values})
        scaler.fit(command_line_files._Block({"ward": np.empty(0), "age": np.empty(0)}))
        shares = scaler.in_units(command_line_command.read_rows(tmp_path / "wards.csv", scaler))[
            :, :-1
        ]
        assert [row.argmax() if row.max() > 0.5 else None for row in shares] == found


def test_a_file_s_name_is_no_pattern(tmp_path):
    polars = pytest.importorskip("polars")
    (tmp_path / "b.csv").write_text("column,low,high\nage,0,100\n")
    for name, age in {"people[1]": 1.0, "people1": 99.0}.items():
        polars.DataFrame({"age": [age]}).write_parquet(tmp_path / f"{name}.parquet")
    scaler = command_line_bounds._scaler(
        command_line_bounds.read_bounds(tmp_path / "b.csv"), ["age"]
    )
    assert command_line_command.read_rows(tmp_path / "people[1].parquet", scaler)[0, 0] < -0.9


def test_a_table_without_names_is_not_quoted(table, tmp_path, monkeypatch):
    (tmp_path / "nohead.csv").write_text("p0,79,127392,north\np1,33,41000,south\n")
    problem = here(
        table, monkeypatch, *asked(table, tmp_path / "out", table=tmp_path / "nohead.csv")
    )
    problem = problem.replace(str(tmp_path), "")
    assert "does its first line hold names" in problem and "127392" not in problem
    (tmp_path / "twice.csv").write_text("p0,79,79,north\np1,33,41000,south\n")
    problem = here(
        table, monkeypatch, *asked(table, tmp_path / "out", table=tmp_path / "twice.csv")
    )
    problem = problem.replace(str(tmp_path), "")
    assert "does its first line hold names" in problem and "79" not in problem


@pytest.mark.parametrize(
    "entry",
    ['{"age": [0, null]}', '{"age": [0]}', '{"age": [0, 120, 130]}', '{"age": [0, 1], "age": [0, 9]}',
     '{"age": {"low": 0, "high": 120, "values": ["a"]}}', '{"age": {"values": [1.0, 2.0]}}'],
)  # fmt: skip
def test_ranges_do_not_become_categories_in_silence(tmp_path, entry):
    (tmp_path / "b.json").write_text(entry)
    with pytest.raises(ValueError, match="age"):
        command_line_bounds.read_bounds(tmp_path / "b.json")


def test_no_two_columns_of_the_centers_have_one_name():
    columns = tuple(inputs.Column(name, 0, 1) for name in ("cluster", "size", "x"))
    sizes, centers = np.ones(2), np.zeros((2, 3))
    result = findings.Result("t", "m", columns, (), centers, sizes, sizes, None, centers)
    head, rows = command_line_command._lines(result)
    assert len(set(head)) == len(head) == len(rows[0]) == 9


def test_a_name_is_no_formula_and_centers_have_errors(table, tmp_path, monkeypatch):
    text = (table / "people.csv").read_text().replace("income", r"price $\x$", 1)
    (tmp_path / "odd.csv").write_text(text)
    (tmp_path / "odd_bounds.csv").write_text(BOUNDS.replace("income", r"price $\x$"))
    line = [
        "cluster",
        tmp_path / "odd.csv",
        "--bounds",
        tmp_path / "odd_bounds.csv",
        "--clusters",
        2,
    ]
    line += [
        "--epsilon",
        2,
        "--delta",
        1e-6,
        "--method",
        "NoisyLloyd",
        "--seed",
        0,
        "--out",
        tmp_path / "odd",
    ]
    assert here(table, monkeypatch, *line) == 0
    head, *rows = [
        r.split(",") for r in (tmp_path / "odd" / "centers.csv").read_text().splitlines()
    ]
    errors = {name: i for i, name in enumerate(head) if name.endswith("_standard_error")}
    assert "age_standard_error" in errors and len(rows) == 2
    assert all(0 < float(row[i]) for row in rows for i in errors.values())


def test_a_spent_ledger_refuses_unread_and_nothing_is_written(table, tmp_path, monkeypatch, capsys):
    ledger = tmp_path / "people.ledger"
    assert here(table, monkeypatch, "ledger", ledger, "--begin", 1.2, 1e-5) == 0
    assert "of 1.2" in capsys.readouterr().out

    def line(out):
        return asked(table, tmp_path / out, "--ledger", ledger, "--method", "NoisyLloyd")

    assert here(table, monkeypatch, *line("first")) == 0
    before = ledger.read_bytes()
    code, said, told = run(table, *line("second"))
    assert code == 1 and "NoisyLloyd" in told and "1.2" in told and said == ""
    assert not (tmp_path / "second").exists() and ledger.read_bytes() == before
    with PrivacyBudget.open(ledger) as budget:
        assert [(row.label, row.state) for row in budget.ledger] == [("people.csv", "settled")]
    line = asked(table, tmp_path / "x", "--ledger", "none.db")
    assert "no ledger" in here(table, monkeypatch, *line)


def test_results_that_were_paid_for_are_not_overwritten(table, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "receipt.json").write_text("{}")
    problem = here(table, monkeypatch, *asked(table, tmp_path / "out"))
    assert "receipt.json" in problem and os.listdir(tmp_path / "out") == ["receipt.json"]


def test_neighbors_are_told_the_same(table, tmp_path, monkeypatch, capsys):
    """One row less, and one wild row more: the same words, whatever the seed makes of the centres."""
    text = (table / "people.csv").read_text().splitlines(keepends=True)
    said = []
    for name, rows in {"a": text, "b": text[:-1], "c": [*text, "x,-5e7,1e300,\n"]}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "people.csv").write_text("".join(rows))
        line = asked(table, "out", "--seed", 0, table=tmp_path / name / "people.csv")
        assert here(tmp_path / name, monkeypatch, *line) == 0
        words = capsys.readouterr().out.replace(str(tmp_path / name), "")
        said.append(re.sub(r"^[12] .*$", "", words, flags=re.M))
        said[-1] = re.sub(r"-+|cluster  age.*|about [0-9]+ rows", "", said[-1])  # released numbers
    assert said[0] == said[1] == said[2] != ""


def test_the_commands_are_listed(tmp_path):
    code, said, _ = run(tmp_path, "--help")
    assert code == 0 and all(word in said for word in ("tour", "cluster", "ledger"))


# ---------------------------------------------------------------- the report by itself


def test_right_guesses_are_those_of_the_gaussian():
    """Total variation of two Gaussians mu apart: 2 Phi(mu / 2) - 1, here by the error function."""
    for mu in (0.05, 0.3, 1.0, 2.5):
        noise = Noise(0)
        noise.count(0, mu=mu)
        exact = (1 + math.erf(mu / 2 / math.sqrt(2))) / 2
        assert reports.right_guesses(noise.receipt(1e-6)) == pytest.approx(exact, rel=1e-6)


def test_a_reader_is_told_no_fewer_right_guesses_than_there_may_be():
    """At most N of 100: rounded up to a tenth, also where the nearest tenth is below."""
    for mu, nearest_is_below in ((0.3, False), (1.0, True), (2.5, True), (9.0, False)):
        noise = Noise(0)
        noise.count(0, mu=mu)
        result = SimpleNamespace(
            receipt=noise.receipt(1e-6),
            centers=np.zeros((2, 1)),
            method="PEMeans",
            why="",
            columns=(),
            left_out=(),
        )
        text = " ".join(reports._sentences(result))
        said = float(re.search(r"right in at most ([\d.]+) of 100", text)[1])
        exact = 50 * (1 + math.erf(mu / 2 / math.sqrt(2)))
        assert exact <= said <= min(exact + 0.1001, 100)
        assert (round(exact, 1) < exact) == nearest_is_below


def test_names_are_text_and_never_a_program(tmp_path):
    noise = Noise()
    noise.count(0, mu=0.1)
    evil = "<img src=x onerror=alert(1)>"
    column = Column(evil, values=(evil, "&"))
    result = findings.Result(
        evil, "PEMeans", (column,), (evil,), np.full((2, 2), 0.5), None, None, noise.receipt(1e-6)
    )
    page = Page(reports.report(result))
    assert evil in page.words and len(page.pictures) == 1
    assert all(address.startswith("data:") for address in page.addresses)
    with pytest.raises(ValueError, match="sizes"):
        reports.plot_sizes(result)


def test_of_many_columns_those_are_drawn_in_which_the_centers_differ():
    noise = Noise(0)
    noise.count(0, mu=0.1)
    columns = [Column(f"c{i}", 0.0, 1000.0) for i in range(59)]
    columns.insert(30, Column("sex", values=("f", "m")))
    centers = np.full((2, 61), 0.4)
    telling = {"c3": 3, "sex": 31, "c58": 60}
    centers[0, [*telling.values()]] = 500.0, 0.9, 500.0
    result = findings.Result(
        "people", "PEMeans", tuple(columns), (), centers, None, None, noise.receipt(1e-6)
    )
    panels = [ax for ax in reports.plot_columns(result).axes if ax.get_visible()]
    drawn = [ax.get_title() for ax in panels]
    assert len(drawn) == reports.MOST_COLUMNS and telling.keys() <= {*drawn}
    assert drawn == [c.name for c in columns if c.name in drawn]  # in the order of the table
    assert panels[drawn.index("c58")].lines[0].get_xdata()[0] == 500.0
    words = Page(reports.report(result)).words
    assert "24 of 60 columns" in words and "c57" in words


def test_clusters_that_may_be_empty_are_named_and_choose_no_picture():
    """Two standard errors of 10 rows: 21 rows are some, 19 and -5 may be nobody."""
    noise = Noise(0)
    noise.count(0, mu=0.1)
    columns = tuple(Column(f"c{i}", 0.0, 1.0) for i in range(30))
    centers = np.full((4, 30), 0.5)
    centers[0, :24], centers[1, :24] = 0.4, 0.6  # as far apart as the real clusters get
    centers[2:, 24:] = [[0.0], [1.0]]
    result = findings.Result("t", "PEMeans", columns, (), centers, None, None, noise.receipt(1e-6))
    assert reports.doubts(result) == "" and result.sizes is None
    result = result._replace(sizes=np.array([21.0, 900, 19, -5]), errors=np.full(4, 10.0))
    assert reports.doubts(result).startswith("note: Clusters 3 and 4 have no more rows than")
    assert [column.name for column, _ in reports._telling(result)] == [f"c{i}" for i in range(24)]
    assert reports.doubts(result) in Page(reports.report(result)).words
    one = result._replace(sizes=np.array([19.0, 900, 900, 900]))
    assert reports.doubts(one).startswith("note: Cluster 1 has no more rows")


def test_a_list_that_nobody_is_on_is_pointed_at():
    """Half of the rows of one cluster are enough; of clusters that may be empty nothing is said."""
    noise = Noise(0)
    noise.count(0, mu=0.1)
    columns = Column("age", 0.0, 1.0), Column("region", values=("North", "South"))
    centers = np.array([[0.5, 0.1, 0.3], [0.4, 0.0, 0.0], [0.3, 1.0, 0.0]])
    sizes, errors = np.array([900.0, 900, 1]), np.full(3, 10.0)
    result = findings.Result("t", "m", columns, (), centers, sizes, errors, noise.receipt(1e-6))
    said = reports.doubts(result)
    assert said.startswith("note: Cluster 3 has no more rows")
    assert "column 'region' most rows of every cluster have none of the declared values" in said
    noisy = result._replace(
        center_errors=np.full((3, 3), 0.04)
    )  # 0.4 + 2 * 0.04 * sqrt(2) is above 1/2
    assert "most rows of every" not in reports.doubts(noisy)
    sharp = result._replace(center_errors=np.full((3, 3), 0.03))
    assert "most rows of every" in reports.doubts(sharp)
    centers[0, 1] = 0.25
    assert "region" not in reports.doubts(result)


def test_a_name_of_a_group_may_begin_with_an_underscore():
    noise = Noise(0)
    noise.count(0, mu=0.1)
    columns = (Column("region", values=("_north", "south")),)
    centers = np.array([[0.2, 0.8], [0.7, 0.3]])
    result = findings.Result("t", "m", columns, (), centers, None, None, noise.receipt(1e-6))
    [ax] = reports.plot_columns(result).axes
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["_north", "south"]


def test_signs_in_quoted_names_separate_nothing_and_names_of_bounds_have_room(tmp_path):
    (tmp_path / "t.csv").write_text('"Income (gross, p.a.)";"Age, completed";x\n30000;40;1\n')
    names = ["Income (gross, p.a.)", "Age, completed", "x"]
    assert command_line_files.read_names(tmp_path / "t.csv") == names
    (tmp_path / "b.csv").write_text("column, low, high\nage, 0, 120\n")
    known = command_line_bounds.read_bounds(tmp_path / "b.csv")
    assert known["low"] == {"age": 0.0} and known["high"] == {"age": 120.0}
    (tmp_path / "t.csv").write_text('"age;x\n1;2\n')
    with pytest.raises(OSError, match="t.csv: a quote in its first line, .*, is not closed"):
        command_line_files.read_names(tmp_path / "t.csv")


def test_a_picture_that_cannot_be_drawn_is_refused_before_the_fits(tmp_path):
    from dplit.command_line.tour import tour

    options = argparse.Namespace(epsilon=[1.0], picture=tmp_path / "digits.txt")
    with (
        mock.patch("dplit.command_line.tour.compare", side_effect=AssertionError("fitted")),
        pytest.raises(ValueError, match="digits.txt: name a file such as digits.png, .svg or .pdf"),
    ):
        tour(options)


def test_a_wide_table_is_shown_on_its_side(table, tmp_path, monkeypatch, capsys):
    """Forty columns would be a line of hundreds of signs; the file keeps one line a cluster."""
    rng = np.random.default_rng(0)
    names = [f"c{i:02}" for i in range(40)]
    write(tmp_path / "wide.csv", {n: [f"{x:.3f}" for x in rng.normal(size=50)] for n in names})
    (tmp_path / "wide.json").write_text(json.dumps(dict.fromkeys(names, [-4, 4])))
    line = asked(tmp_path, tmp_path / "out", "--seed", 0, table="wide.csv", bounds="wide.json")
    assert here(tmp_path, monkeypatch, *line) == 0
    printed = capsys.readouterr()
    assert printed.err == f"drawing {tmp_path / 'out' / 'report.html'} ...\n"  # it takes seconds
    said = printed.out.splitlines()
    assert (
        max(len(row) for row in said if row.startswith(("cluster", "c0", "size")))
        < command_line_command.WIDE
    )
    assert [row.split()[0] for row in said if re.match(r"c\d\d ", row)] == names
    assert len((tmp_path / "out" / "centers.csv").read_text().splitlines()) == 3


@pytest.mark.filterwarnings("default")
def test_a_warning_is_a_sentence_and_an_unknown_command_is_told_the_known_ones(
    table, tmp_path, monkeypatch, capsys
):
    more = ["--method", "KTupleKMeans", "--epsilon", 0.05, "--seed", 0]  # too little to agree on
    assert here(tmp_path, monkeypatch, *asked(table, tmp_path / "out", *more)) == 0
    told = capsys.readouterr().err
    assert told.startswith("dplit: KTupleKMeans abstained") and ".py" not in told
    with pytest.raises(SystemExit):
        here(tmp_path, monkeypatch, "clutser")
    assert "choose from" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_named_and_nothing_is_charged(table, tmp_path, monkeypatch):
    PrivacyBudget.open(tmp_path / "a.ledger", 1.0, 1e-5).close()
    (tmp_path / "out").write_text("a file")
    line = asked(table, tmp_path / "out", "--ledger", tmp_path / "a.ledger")
    said = here(tmp_path, monkeypatch, *line)
    assert "out is not a folder" in said and "Errno" not in said
    with PrivacyBudget.open(tmp_path / "a.ledger") as budget:
        assert not budget.ledger


def test_arguments_are_those_of_argparse():
    parser = argparse.ArgumentParser()
    arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args([])


# ---------------------------------------------------------------- sizes

LLOYD = partial(NoisyLloyd, init=[[3.0, 3.0], [-3.0, -3.0]])  # it may miss a group from elsewhere


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("make", [LLOYD, PEMeans, MaxCoverKMeans], ids=["Lloyd", "PE", "cover"])
def test_sizes_are_off_by_their_standard_errors(make, neighboring):
    """Two far-apart groups of 700 and 300 rows, 40 seeds: chi-square of 80 degrees, false alarm below 1e-4.

    Half or twice the standard error would be noticed surely: 80 becomes 320 or 20, the limits are 40 and 140.
    """
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(3, 0.3, (700, 2)), rng.normal(-3, 0.3, (300, 2))]
    total = 0.0
    for seed in range(40):
        cost = {"epsilon": 4.0, "delta": 1e-6, "radius": 6.0, "random_state": seed}
        model = make(2, **cost, neighboring=neighboring).fit(X)
        order = np.argsort(-model.cluster_centers_[:, 0])
        off = (model.cluster_sizes_[order] - [700, 300]) / model.cluster_sizes_se_[order]
        total += float(np.sum(off**2))
    assert 40 < total < 140
