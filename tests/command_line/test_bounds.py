"""A file of bounds: weights in it, what the command and its report say of them, and doubts that are public or released."""

import contextlib
import csv
import html
import json

import numpy as np
import pytest
from test_commands import Page

from dplit import PrivacyBudget
from dplit.__main__ import main
from dplit.accounting import Receipt
from dplit.command_line import findings, reports
from dplit.command_line.bounds import _scaler, read_bounds
from dplit.inputs.columns import Column
from dplit.mechanisms import Noise

HEAD = "column,low,high,values,missing,weight\n"
BOUNDS = HEAD + "age,0,120,,,\nincome,0,200000,,middle,\nregion,,,north|south|east,,\n"


@pytest.fixture
def people(tmp_path):
    """Two groups that are plain to see, and a region that tells nothing."""
    rng = np.random.default_rng(4)
    old = rng.integers(2, size=2000)
    age, income = rng.normal(30 + 35 * old, 4).round(1), rng.normal(20e3 + 50e3 * old, 4e3).round()
    with open(tmp_path / "people.csv", "w", newline="") as file:
        write = csv.writer(file)
        write.writerow(["age", "income", "region"])
        write.writerows(zip(age, income, rng.choice(["north", "south", "east"], 2000), strict=True))
    return tmp_path


def clustered(folder, bounds, *more, out="out", name="bounds.csv"):
    """(centers, page, receipt) of a seeded run."""
    (folder / name).write_text(bounds)
    asked = f"cluster people.csv --bounds {name} --clusters 2 --epsilon 1 --delta 1e-6 --seed 5"
    with contextlib.chdir(folder):
        assert main([*asked.split(), "--out", out, *more]) == 0
    head, *lines = csv.reader((folder / out / "centers.csv").read_text().splitlines())
    centers = [dict(zip(head, map(float, line), strict=True)) for line in lines]
    page = (folder / out / "report.html").read_text(encoding="utf-8")
    return centers, page, Receipt.from_dict(json.loads((folder / out / "receipt.json").read_text()))


# ---------------------------------------------------------------- weights


@pytest.mark.parametrize("method", ["PEMeans", "HDPEMeans", "MaxCoverKMeans"])
def test_a_region_that_tells_nothing_does_not_divide_the_people(people, method):
    centers, page, receipt = clustered(people, BOUNDS, "--method", method)
    ages = sorted(center["age"] for center in centers)
    assert abs(ages[0] - 30) < 3 and abs(ages[1] - 65) < 3
    assert receipt.title.endswith(
        "column income: a missing or unreadable cell counts as 100000; column region: weight 0.25"
    )
    assert "north | south | east; weight 0.25" in html.unescape(page)
    assert "decides" not in page


def test_the_weight_of_a_file_is_that_of_the_fit_and_is_said(people, capsys):
    """With 1 the region decides, and the report doubts it."""
    heavy = BOUNDS.replace("east,,", "east,,1").replace("age,0,120,,,", "age,0,120,,,0.5")
    centers, page, receipt = clustered(people, heavy)
    assert max(abs(center["age"] - 47.5) for center in centers) < 5
    assert "column age: weight 0.5" in receipt.title and receipt.title.endswith("region: weight 1")
    said = "differ in column 'region' and agree in all others, so this column alone decides"
    assert said in capsys.readouterr().out and said in html.unescape(page)
    words = Page(page).words
    assert "0 to 120; weight 0.5" in words and "multiplied by its weight" in words


def test_standard_errors_are_in_the_units_of_a_weighted_column(people):
    """Two weights of one table: the noise of a heavier column is smaller in its own unit."""
    errors = {}
    for weight in (1, 4):
        bounds = HEAD + f"age,0,120,,,{weight}\nincome,0,200000,,,\n"
        [one, two], _, receipt = clustered(people, bounds, out=f"out{weight}")
        errors[weight] = one["age_standard_error"]
        assert 20 < one["age"] < 75 and one["age_standard_error"] < 2
    assert errors[4] < errors[1]


def test_csv_and_json_declare_the_same(tmp_path):
    (tmp_path / "b.csv").write_text(
        BOUNDS.replace("east,,", "east,,2").replace("200000,,middle,", "200000,,,3")
    )
    entries = {
        "age": [0, 120],
        "income": {"low": 0, "high": 200000, "weight": 3},
        "region": {"values": ["north", "south", "east"], "weight": 2},
    }
    (tmp_path / "b.json").write_text(json.dumps(entries))
    known = read_bounds(tmp_path / "b.csv")
    assert known == read_bounds(tmp_path / "b.json") and known["weight"] == {
        "income": 3,
        "region": 2,
    }
    scaler = _scaler(known, ["age", "income", "region"])
    assert [column.weight for column in scaler.columns_] == [1, 3, 2]
    assert scaler.radius_**2 == pytest.approx(1 + 9 + 4 * 4 / 3)


@pytest.mark.parametrize(
    ("weight", "told"), [("0", "leave it out of"), ("-1", "weight"), ("much", "weight='much'"), ("nan", "weight"), ("2000", "1000")]
)  # fmt: skip
def test_an_impossible_weight_is_refused_by_name(tmp_path, weight, told):
    (tmp_path / "b.csv").write_text(HEAD + f"age,0,120,,,{weight}\n")
    with pytest.raises(ValueError, match="column 'age'") as caught:
        read_bounds(tmp_path / "b.csv")
    assert told in str(caught.value)


def test_check_shows_weights(people, capsys):
    (people / "bounds.csv").write_text(BOUNDS)
    with contextlib.chdir(people):
        assert main("check people.csv --bounds bounds.csv".split()) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["age", "1", "2000", "0", "0"] in lines and ["region", "0.25", "2000", "0", "0"] in lines


# ---------------------------------------------------------------- doubts


def test_a_wrong_unit_shows_on_the_page(people, capsys):
    _, page, _ = clustered(people, BOUNDS.replace("200000", "200000000000"))
    said = "In column 'income' every cluster lies at the low end of the range"
    assert said in capsys.readouterr().out and said in html.unescape(page)


def test_a_list_that_was_not_separated_is_said_before_the_charge(people, capsys):
    bounds = BOUNDS.replace("north|south|east", "north;south;east")
    clustered(people, bounds, "--accept-doubts")
    said = capsys.readouterr().out
    doubt = "in doubt: The list of column 'region' has one value, 'north;south;east': did you mean several values"
    assert doubt in said and said.index("in doubt") < said.index("reading 3 columns")


def test_names_in_doubts_are_text_and_never_a_program():
    noise = Noise()
    noise.count(0, mu=0.1)
    evil = "<img src=x onerror=alert(1)>"
    columns = Column(evil, 0.0, 1.0), Column("x", 0.0, 1.0), Column("y", values=(evil,))
    centers, errors = np.array([[0.0, 0.1, 0], [0.0, 0.9, 0]]), np.full((2, 3), 1e-3)
    result = findings.Result(
        "t", "m", columns, (), centers, None, None, noise.receipt(1e-6), errors
    )
    doubts = reports.doubts(result)
    assert doubts.count(evil) == 2 and "'x' and agree in all others" in doubts
    page = reports.report(result)
    assert "<img src=x" not in page and doubts in Page(page).words


def test_released_doubts_leave_out_clusters_that_may_be_empty():
    noise = Noise()
    noise.count(0, mu=0.1)
    columns = Column("a", 0.0, 1.0), Column("b", 0.0, 1.0)
    centers, errors = np.array([[0.001, 0.2], [0.5, 0.5], [0.0, 0.8]]), np.full((3, 2), 1e-3)
    result = findings.Result(
        "t", "m", columns, (), centers, np.array([900.0, 1, 900]), np.full(3, 10.0), noise.receipt(1e-6), errors
    )  # fmt: skip
    doubts = reports.doubts(result)
    assert "Cluster 2 has no more rows" in doubts and "'a' every cluster lies at the low" in doubts
    assert "differ in column 'b' and agree" in doubts
    sure = reports.doubts(result._replace(sizes=np.full(3, 900.0)))
    assert sure == ""
    nothing = reports.doubts(result._replace(sizes=np.zeros(3)))
    assert nothing.startswith("note: Clusters 1, 2 and 3 have") and "column" not in nothing


# ---------------------------------------------------------------- separators that look wrong


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ("column low high\nage 0 120\n", "read as one name"),
        ("column\nage;0;120\n", "the line 'age;0;120' is one cell"),
        ("column,low,high\nage;0;120\n", "uses ',' between cells, and this one, it seems, ';'"),
        ("column,low,high\nage\t0\t120\n", "is one cell"),
        ("column,low,high\nage\n", "column 'age' has no low"),
        ("", "it is empty; a file of bounds begins with"),
        ("\ufeff\r\n\n", "it is empty; a file of bounds begins with"),
        (" \n \n", "it is empty; a file of bounds begins with"),
        ("column,low,high,low\nage,0,120,2\n", "names low more than once"),
        ("column,low,high,weight, weight\nage,0,120,2,1\n", "names weight more than once"),
        ("column,low,column,high\nage,0,x,120\n", "names column more than once"),
    ],
)
def test_bounds_read_as_one_column(tmp_path, bounds, told):
    (tmp_path / "b.csv").write_text(bounds)
    with pytest.raises(ValueError) as caught:
        read_bounds(tmp_path / "b.csv")
    assert told in str(caught.value)


def test_blank_lines_before_the_first_are_left_out(tmp_path):
    text = "column,low,high\nage,0,120\n"
    (tmp_path / "b.csv").write_text(text)
    (tmp_path / "c.csv").write_text(f"\n\r\n{text}")
    assert repr(read_bounds(tmp_path / "b.csv")) == repr(read_bounds(tmp_path / "c.csv"))


def test_a_table_read_as_one_column_is_refused_before_the_charge(people):
    text = (people / "people.csv").read_text().replace(",", " ")
    (people / "spaces.csv").write_text(text), (people / "bounds.csv").write_text(BOUNDS)
    with contextlib.chdir(people):
        PrivacyBudget.open("l", 4, 1e-5).close()
        asked = "cluster spaces.csv --bounds bounds.csv --clusters 2 --epsilon 1 --delta 1e-6 --ledger l"
        said = main([*asked.split(), "--out", "out"])
        with PrivacyBudget.open("l") as budget:
            assert budget.spent.epsilon == 0
    assert "among the 1 names" in said and "read as one name; , ; | or a tab separate names" in said
    assert "age income" not in said  # a first line without names is a person


def test_check_says_that_records_separate_otherwise(people, capsys):
    head, *rows = (people / "people.csv").read_text().splitlines()
    (people / "mixed.csv").write_text("\n".join([head, *(row.replace(",", ";") for row in rows)]))
    (people / "bounds.csv").write_text(BOUNDS)
    with contextlib.chdir(people):
        assert main("check mixed.csv --bounds bounds.csv".split()) == 1
    assert "separated by ','; this line uses another separator" in capsys.readouterr().out


@pytest.mark.parametrize(("entry", "refused"), [
    ('["0", "120"]', True), ('["120", "0"]', True), ('["1e3", "2e5"]', True), ('["0", "1"]', False), ('["1", "2"]', False),
    ('["0", "60", "120"]', False), ('["m", "120"]', False), ('{"values": ["0", "120"]}', False), ("[0, 120]", False),
])  # fmt: skip
def test_two_numbers_in_quotes_are_refused_as_a_list_unless_it_is_called_one(tmp_path, entry, refused):  # fmt: skip
    """They became a list of two values, and nearly all cells were none of them."""
    (tmp_path / "b.json").write_text(f'{{"age": {entry}, "bp": [50, 250]}}')
    try:
        read_bounds(tmp_path / "b.json")
    except ValueError as error:
        assert refused and "two numbers in quotes" in str(error) and "without quotes" in str(error)
        (tmp_path / "b.json").write_text('{"age": ' + str(error).rsplit("only, ", 1)[1][:-1] + "}")
        assert read_bounds(tmp_path / "b.json")["categories"]["age"]
    else:
        assert not refused
