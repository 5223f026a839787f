"""The curator looks before paying: what is listed, that the reader is the fit's, and that nothing is charged."""

import json
import math
import random

import numpy as np
import pytest

from dplit import PrivacyBudget
from dplit.__main__ import main
from dplit.accounting import Receipt
from dplit.command_line import bounds, checking, files
from dplit.command_line.sources import opened

BOUNDS = "column,low,high,values,missing\nage,0,120,,{age}\nincome,0,200000,,{income}\nregion,,,north|south,\n"
HEAD = "name,age,income,region\n"
GOOD = "".join(
    f"person-{i},{20 + i % 60},{20_000 + 97 * i},{['north', 'south'][i % 2]}\n" for i in range(300)
)


def write(folder, rows, age="", income="", name="t.csv"):
    (folder / "b.csv").write_text(BOUNDS.format(age=age, income=income))
    (folder / name).write_bytes((HEAD + rows).encode("utf-8", "surrogateescape"))
    return folder / name


def look(folder, capsys, *more, name="t.csv"):
    code = main(["check", str(folder / name), "--bounds", str(folder / "b.csv"), *more])
    return code, capsys.readouterr().out


def fit(folder, *more, name="t.csv"):
    """(what the command says, states in a ledger of its own, the folder of results)."""
    out = folder / f"out{len(list(folder.iterdir()))}"
    ledger = folder / f"{out.name}.ledger"
    PrivacyBudget.open(ledger, 5.0, 1e-4).close()
    line = [
        "cluster",
        folder / name,
        "--bounds",
        folder / "b.csv",
        "--ledger",
        ledger,
        "--out",
        out,
    ]
    line += ["--clusters", 2, "--epsilon", 1, "--delta", 1e-6, "--seed", 0]
    said = main([str(a) for a in (*line, *more)])
    with PrivacyBudget.open(ledger) as budget:
        return said, [row.state for row in budget.ledger], out


def test_a_good_table_is_told_to_be_one_and_the_warning_stands_first_and_last(tmp_path, capsys):
    write(tmp_path, GOOD)
    code, said = look(tmp_path, capsys)
    assert code == 0 and said.startswith("PRIVATE: ") and said.rstrip().endswith(checking.WARNING)
    assert "A fit would read the table, and keep 300 of 300 records." in said
    assert "left out, because no range is declared: name" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.csv", "t.csv"]


ODD = {  # (row, what is said of it)
    "a decimal comma": ('p,"1,5",1,north\n', "line 302: '1,5' (a decimal comma? write 1.5)"),
    "a thousands separator": ('p,1,"40,000",north\n', "line 302: '40,000' (a thousands separator? write"),
    "a Swiss one": ("p,1,40'000,north\n", "a thousands separator?"),
    "a currency": ("p,1,$400,north\n", "line 302: '$400' (a currency: write the number alone)"),
    "another currency": ("p,1,400 EUR,north\n", "(a currency: write the number alone)"),
    "a percent sign": ("p,12%,1,north\n", "(a percent sign: write the number alone)"),
    "nothing": ("p,,1,north\n", "line 302: '' (it is empty)"),
    "a blank": ("p,  ,1,north\n", "line 302: '  ' (it is empty)"),
    "NA": ("p,NA,1,north\n", "line 302: 'NA' (a word for a missing cell)"),
    "a date": ("p,2020-01-31,1,north\n", "(a date? write days since a public one)"),
    "yes": ("p,yes,1,north\n", "(yes or no: write 1 and 0"),
    "infinity": ("p,inf,1,north\n", "(infinity is not a finite number)"),
    "latin-1": ("p,1,1,M\udcfcnchen\n", "line 302: 'M\\udcfcnchen' (it is not UTF-8 text)"),
    "a long word": (f"p,{'x' * 999},1,north\n", f"line 302: '{'x' * 39}... (no number)"),
    "a cell too few": ("p,1,1\n", "line 302: it has 3 cells, and the first line 4 names"),
    "a total": ("total,1\n", "line 302: it has 2 cells"),
    "an open quote": ('"p,1,1,north\n', "line 302: a quote is not closed"),
    "a quote inside": ('"p"x,1,1,north\n', "line 302: a quote is not closed, or is followed by something else"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD)
def test_what_a_fit_would_stumble_over_is_listed_with_its_line_and_looks(tmp_path, capsys, kind):
    row, told = ODD[kind]
    write(tmp_path, GOOD + row)
    code, said = look(tmp_path, capsys)
    assert code == 1 and told in said and "A fit would be REFUSED, and its ledger charged" in said


@pytest.mark.parametrize("kind", ["a decimal comma", "latin-1", "an open quote"])
def test_the_fit_is_refused_for_it_indeed_and_charged(tmp_path, kind):
    write(tmp_path, GOOD + ODD[kind][0])
    said, states, _ = fit(tmp_path)
    assert states == ["failed"] and files._UNUSABLE in said


def test_lines_are_counted_as_an_editor_counts_them(tmp_path, capsys):
    write(tmp_path, '"two\nlines",1,1,north\n\np,1,1,north\n"a\r\nb\nc",x,1,north\np,y,1,north\n')
    _, said = look(tmp_path, capsys)
    assert "line 6: 'x'" in said and "line 9: 'y'" in said


def test_few_are_listed_unless_all_are_asked_for(tmp_path, capsys):
    write(tmp_path, "p,n/a,1,north\n" * 9 + "p\n" * 8 + "p,1,1,north\n")
    _, said = look(tmp_path, capsys)
    assert said.count("'n/a'") == checking.FEW and "and 4 more (--all lists them)" in said
    assert said.count("it has 1 cells") == checking.FEW and "and 3 more (--all lists them)" in said
    _, said = look(tmp_path, capsys, "--all")
    assert said.count("'n/a'") == 9 and said.count("it has 1 cells") == 8 and "more" not in said


def test_a_column_that_lies_mostly_outside_is_pointed_at(tmp_path, capsys):
    write(tmp_path, "p,360,40,North\n" * 6 + "p,36,40,north\n" * 5)
    code, said = look(tmp_path, capsys)
    assert code == 0 and "column 'age': most cells lie outside its range" in said
    assert (
        "column 'region': most cells are none of its values" in said and "'North' (6 times)" in said
    )
    assert "column 'income': most" not in said
    write(tmp_path, "p,360,40,North\n" * 5 + "p,36,40,north\n" * 6)
    assert "most" not in look(tmp_path, capsys)[1]


def test_rows_of_parquet_are_counted_and_parts_named(tmp_path, capsys):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    write(tmp_path, GOOD, age="low")
    (tmp_path / "parts").mkdir()
    for i, income in enumerate(([1.0, 2.0], [None, 4.0])):
        columns = {"age": [1.0, None], "income": income, "region": ["north", None]}
        parquet.write_table(pa.table(columns), tmp_path / "parts" / f"{i}.parquet")
    code, said = look(tmp_path, capsys, name="parts")
    assert code == 1 and f"row 1 of {tmp_path / 'parts' / '1.parquet'}: None (it is empty)" in said
    assert (
        "column 'age': cells that a fit cannot read: 2 (a missing or unreadable cell counts as 0)"
        in said
    )
    said, states, _ = fit(tmp_path, name="parts")
    assert states == ["failed"] and files._UNUSABLE in said


@pytest.mark.parametrize("seed", range(8))
def test_the_check_and_the_fit_read_alike(tmp_path, seed):
    """Random tables, rules and mistakes: the verdict and the number of records kept are the reader's."""
    rng, verdicts = random.Random(seed), []
    cells = ["1", "2.5", "", "n/a", "true", "1e400", "inf", "\udcff", " 7 ", "1,5", "-3", "\u0663"]
    for _ in range(40):
        rules = [rng.choice(["", "low", "high", "middle", "7", "drop"]) for _ in range(2)]
        spoiled = rng.random() < 0.7
        rows = ""
        for _ in range(rng.randint(0, 9)):
            own = [rng.choice(cells if spoiled else cells[:2]) for _ in range(2)]
            name = rng.choice(["p", '"p, q"', '"p\n""q"""', "\udcff"])
            region = rng.choice(["north", "south", "", "west", *["\udcff"] * (rng.random() < 0.05)])
            rows += f'{name},"{own[0]}",{own[1].replace(",", ".")},{region}\n'
            rows += rng.choice(["\n", "p,1\n", '"p,1,1,north\n']) * (rng.random() < 0.02)
        write(tmp_path, rows, *rules)
        scaler = bounds._scaler(bounds.read_bounds(tmp_path / "b.csv"), ["age", "income", "region"])
        with opened(tmp_path / "t.csv") as source:
            tallied = checking.tally(source, scaler, 5)
            good, _ = checking._verdict(*tallied)
            try:
                n = len(files.read_rows(source, scaler))
            except ValueError:
                n = None
        assert good == bool(n) and (n is None or n == tallied[2]), (rows, rules)
        verdicts.append(good)
    assert {*verdicts} == {True, False}


def test_a_wrong_bound_or_kind_of_table_is_refused_as_by_the_fit(tmp_path, capsys):
    write(tmp_path, GOOD)
    (tmp_path / "t.pkl").write_bytes(b"\x80\x05\x95")
    assert "it is a pickle" in look(tmp_path, capsys, name="t.pkl")[0]
    (tmp_path / "b.csv").write_text("column,low,high\nyears,0,9\n")
    assert "'years' is not among the 4 names" in look(tmp_path, capsys)[0]


# ---------------------------------------------------------------- rules for missing cells

HOLES = GOOD + "p,,1,north\np,forty,1,north\n"


@pytest.mark.parametrize("rule", ["low", "high", "middle", "33", " Middle ", "1e1"])
def test_a_rule_lets_a_table_with_holes_be_read(tmp_path, capsys, rule):
    counts = {"low": 0, "high": 120, "middle": 60}.get(rule.strip().lower())
    counts = float(rule) if counts is None else counts
    write(tmp_path, HOLES, age=rule)
    assert look(tmp_path, capsys)[0] == 0
    said, states, out = fit(tmp_path)
    assert (said, states) == (0, ["settled"])
    scaler = bounds._scaler(bounds.read_bounds(tmp_path / "b.csv"), ["age", "income", "region"])
    rows = scaler.in_units(files.read_rows(tmp_path / "t.csv", scaler))
    assert np.allclose(rows[-2:, 0], counts) and len(rows) == 302
    receipt = json.loads((out / "receipt.json").read_text())
    line = f"column age: a missing or unreadable cell counts as {counts:g}"
    assert line in receipt["title"] and line in str(Receipt.from_dict(receipt))
    page = (out / "report.html").read_text()
    assert f"0 to 120; a missing or unreadable cell counts as {counts:g}" in page and line in page


def test_a_rule_fills_as_a_table_that_was_filled_before(tmp_path):
    write(tmp_path, HOLES, age="middle")
    _, _, out = fit(tmp_path)
    write(tmp_path, GOOD + "p,60,1,north\n" * 2, age="")
    _, _, other = fit(tmp_path)
    assert (out / "centers.csv").read_bytes() == (other / "centers.csv").read_bytes()
    write(tmp_path, HOLES, age="drop")
    _, _, out = fit(tmp_path)
    write(tmp_path, GOOD)
    _, _, other = fit(tmp_path)
    assert (out / "centers.csv").read_bytes() == (other / "centers.csv").read_bytes()


def test_to_drop_is_refused_under_replacement_before_a_charge(tmp_path):
    write(tmp_path, HOLES, age="drop")
    said, states, out = fit(tmp_path, "--neighboring", "replace")
    assert "a dropped record is not hidden" in said and states == [] and not out.exists()
    write(tmp_path, HOLES, age="low")
    assert fit(tmp_path, "--neighboring", "replace")[:2] == (0, ["settled"])
    write(tmp_path, HOLES, age="drop")
    said, states, out = fit(tmp_path)
    assert (said, states) == (0, ["settled"])
    assert (
        "column age: a missing or unreadable cell leaves its record out"
        in (out / "receipt.json").read_text()
    )


@pytest.mark.parametrize(
    "method",
    ["PEMeans", "HDPEMeans", "MaxCoverKMeans", "NoisyLloyd", "KTupleKMeans", "GridKMeans"],
)
def test_what_is_charged_and_said_does_not_depend_on_holes(tmp_path, capsys, method):
    found = []
    for rows in (GOOD, HOLES):
        write(tmp_path, rows, age="middle", income="high")
        said, states, out = fit(tmp_path, "--method", method)
        receipt = (out / "receipt.json").read_text()
        found.append((said, states, json.loads(receipt)["title"], json.loads(receipt)["epsilon"]))
    assert found[0] == found[1] and found[0][:2] == (0, ["settled"])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("age,0,120,,mean", "missing of column 'age': .* not 'mean'"),
        ("age,0,120,,121", "missing of column 'age'=121"),
        ("age,0,120,,nan", "missing of column 'age': dplit needs a number in the range"),
        ("age,0,120,,-1", "missing of column 'age'=-1"),
        ("age,,,1|2,low", "leave the rule out"),
        ("age,0,120,,1,5", "one cell too many"),
    ],
)
def test_a_wrong_rule_is_refused_by_name_before_a_charge(tmp_path, line, told):
    write(tmp_path, GOOD)
    (tmp_path / "b.csv").write_text(f"column,low,high,values,missing\n{line}\nincome,0,9,,\n")
    said, states, out = fit(tmp_path)
    assert pytest.importorskip("re").search(told, said) and states == [] and not out.exists()


def test_rules_in_json(tmp_path):
    given = {"age": {"low": 0, "high": 120, "missing": "middle"}, "income": {"low": 0, "high": 9, "missing": 3},
             "region": ["north", "south"]}  # fmt: skip
    (tmp_path / "b.json").write_text(json.dumps(given))
    assert bounds.read_bounds(tmp_path / "b.json")["missing"] == {"age": "middle", "income": 3.0}
    for rule in ([1], {}, True, "mean", 999):
        given["age"]["missing"] = rule
        (tmp_path / "b.json").write_text(json.dumps(given))
        with pytest.raises((TypeError, ValueError), match="'age'"):
            bounds.read_bounds(tmp_path / "b.json")


def test_a_table_too_large_for_memory_has_the_same_rules(tmp_path, monkeypatch):
    pytest.importorskip("dask")
    write(tmp_path, "".join(HOLES for _ in range(3)), age="drop", income="low")
    scaler = bounds._scaler(bounds.read_bounds(tmp_path / "b.csv"), ["age", "income", "region"])
    plain = files.read_rows(tmp_path / "t.csv", scaler)
    monkeypatch.setattr(files, "LARGE", 0)
    monkeypatch.setattr(files, "BLOCK", 100)
    assert np.array_equal(files.read_rows(tmp_path / "t.csv", scaler).compute(), plain)
    assert len(plain) == 900 and math.isfinite(plain.sum())


@pytest.mark.parametrize("parts", [False, True])
def test_cells_on_no_list_are_shown_with_their_lines(tmp_path, capsys, monkeypatch, parts):
    if parts:  # of blocks
        monkeypatch.setattr(checking, "BLOCK", 3)
    write(
        tmp_path,
        GOOD + "p,1,1,nroth\n" * 4 + "p,1,1, south \n" + "p,1,1,M\udcfc\n" + "p,1,1,\n" * 5,
    )
    _, said = look(tmp_path, capsys)
    assert (
        "column 'region': cells that are not on its list, which count as none of its values: 9"
        in said
    )
    assert "  line 302: 'nroth'\n" in said and "line 306" not in said and "  line 308: ''\n" in said
    assert "  and 4 more (--all lists them)" in said
    _, said = look(tmp_path, capsys, "--all")
    assert said.count("'nroth'") == 4 and said.count(": ''\n") == 5 and "more" not in said
    assert "line 307: 'M\\udcfc' (it is not UTF-8 text)" in said
