"""The command speaks of its own options and files, counts as the ledger does, and blames a table for nothing that is ours."""

import json

import numpy as np
import pytest
from asking import last_of_each

from dplit import PrivacyBudget
from dplit.__main__ import main
from dplit.accounting import gaussian_epsilon, gaussian_mu
from dplit.command_line import bounds, files
from dplit.command_line import command as commands
from dplit.command_line.findings import Result, doubts
from dplit.command_line.options import parse
from dplit.inputs.columns import Column
from dplit.mechanisms import Noise

BOUNDS = "column,low,high\nage,0,120\nincome,0,100000\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = "\n".join(f"{a:.0f},{b:.0f}" for a, b in zip(rng.uniform(0, 90, 200), rng.uniform(0, 9e4, 200), strict=True))  # fmt: skip
    (tmp_path / "people.csv").write_text(f"age,income\n{rows}\n")
    (tmp_path / "bounds.csv").write_text(BOUNDS)
    return tmp_path


def run(*more, clusters=2, epsilon=1, delta=1e-6):
    asked = [
        "--clusters",
        clusters,
        "--epsilon",
        epsilon,
        "--delta",
        delta,
        "--seed",
        0,
        "--out",
        "out",
    ]
    return main(last_of_each(["cluster", "people.csv", "--bounds", "bounds.csv", *asked, *more]))


def charges():
    with PrivacyBudget.open("l") as budget:
        return budget.ledger, budget.spendings


# ---------------------------------------------------------------- a ledger of persons


@pytest.mark.parametrize("method", ["PEMeans", "NoisyLloyd", "HDPEMeans"])
def test_a_row_level_gaussian_fit_is_converted_as_in_python(folder, capsys, method):
    PrivacyBudget.open("l", 8.0, 1e-5, max_rows_per_person=3).close()
    assert run("--ledger", "l", "--method", method, "--dry-run") == 0
    quoted = capsys.readouterr().out
    assert run("--ledger", "l", "--method", method) == 0
    said = capsys.readouterr().out
    wanted = gaussian_epsilon(1e-6, 3 * gaussian_mu(1.0, 1e-6))
    assert f"it is charged epsilon = {wanted:.4g} at delta = 1e-06" in said
    assert "counts persons with at most 3 rows each" in said and f"{wanted:.3g}"[:4] in quoted
    [row], [counted] = charges()
    assert row.state == "settled" and row.epsilon == pytest.approx(wanted, rel=1e-3)
    assert counted.mu_squared == pytest.approx((3 * gaussian_mu(1.0, 1e-6)) ** 2, rel=1e-3)
    receipt = json.loads((folder / "out" / "receipt.json").read_text())
    assert receipt.get("max_rows_per_person", 1) == 1
    python = PrivacyBudget(8.0, 1e-5, max_rows_per_person=3)
    python.fit(
        commands.METHODS[method](2, epsilon=1, delta=1e-6, radius=1.0, random_state=0),
        np.zeros((9, 2)),
    )
    assert python.ledger[0].epsilon == pytest.approx(row.epsilon, rel=1e-2)


def test_a_pure_fit_is_converted_too(folder):
    PrivacyBudget.open("l", 8.0, 1e-5, max_rows_per_person=3).close()
    assert run("--ledger", "l", "--method", "GridKMeans", delta=0) == 0
    [row], _ = charges()
    assert row.epsilon == pytest.approx(3.0) and row.state == "settled"


@pytest.mark.parametrize("dry", [True, False])
def test_what_cannot_be_converted_is_said_in_the_words_of_the_command(folder, dry):
    PrivacyBudget.open("l", 8.0, 1e-5, max_rows_per_person=3).close()
    more = ["--dry-run"] * dry
    said = run("--ledger", "l", "--method", "MaxCoverKMeans", *more)
    assert "add --max-rows-per-person 3" in said and "Nothing was charged." in said
    assert "max_rows_per_person" not in said and not charges()[0] and not (folder / "out").exists()
    if not dry:
        assert run("--ledger", "l", "--method", "MaxCoverKMeans", "--max-rows-per-person", 3) == 0
        assert [row.state for row in charges()[0]] == ["settled"]


def test_persons_in_a_ledger_of_rows_and_replaced_records_in_one_of_added_ones(folder):
    PrivacyBudget.open("l", 8.0, 1e-5, "add_remove").close()
    said = run("--ledger", "l", "--max-rows-per-person", 2)
    assert (
        "leave --max-rows-per-person out" in said and "begun with --max-rows-per-person 2" in said
    )
    said = run("--ledger", "l", "--neighboring", "replace")
    assert "Use --neighboring add_remove" in said and 'neighboring="' not in said
    assert not charges()[0]


# ---------------------------------------------------------------- words


WRONG = {  # what is asked, and a piece of the answer
    "clusters": (["--clusters", 0], "--clusters 0: "),
    "epsilon": (["--epsilon", -1], "--epsilon -1"),
    "delta": (["--delta", 2], "--delta 2"),
    "pure": (["--delta", 0], "--delta 0"),
    "seed": (["--seed", -1], "--seed -1"),
    "persons": (["--max-rows-per-person", 0], "--max-rows-per-person 0"),
    "grid": (["--method", "GridKMeans", "--clusters", 10**9], "--clusters"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_option_is_called_as_it_was_typed(folder, name):
    more, words = WRONG[name]
    PrivacyBudget.open("l", 8.0, 1e-5).close()
    said = run("--ledger", "l", *more)
    assert isinstance(said, str) and words in said, said
    for python in (
        "n_clusters",
        "epsilon=",
        "delta=",
        "random_state",
        "max_rows_per_person",
        "Scaler",
    ):
        assert python not in said, said
    assert not charges()[0]


FILES = {
    "ends": ("column,low,high\nage,9,1\n", "must be below"),
    "a word": ("column,low,high\nage,zero,1\n", "is a public number"),
    "a rule": ("column,low,high,missing\nage,0,9,average\n", "one of low, high, middle, drop"),
    "a rule beyond": ("column,low,high,missing\nage,0,9,10\n", "number in [0, 9]"),
    "a weight": ("column,low,high,weight\nage,0,9,0\n", "needs weights above 0"),
    "a large weight": ("column,low,high,weight\nage,0,9,1e9\n", "number in [0.001, 1000]"),
    "an end too large": ("column,low,high\nage,0,1e99\n", "number in [-1e+90, 1e+90]"),
    "a list twice": ("column,low,high,values\nage,,,a|a\n", "needs each value once"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("program", ["cluster", "check"])
def test_no_class_of_ours_in_a_message_about_the_bounds(folder, name, program):
    text, words = FILES[name]
    (folder / "bounds.csv").write_text(text)
    PrivacyBudget.open("l", 8.0, 1e-5).close()
    said = (
        run("--ledger", "l")
        if program == "cluster"
        else main(["check", "people.csv", "--bounds", "bounds.csv"])
    )
    assert words in said and said.startswith("dplit: bounds.csv: "), said
    assert "Scaler" not in said and not charges()[0]


def test_dropped_records_need_another_relation_in_words(folder):
    (folder / "bounds.csv").write_text("column,low,high,missing\nage,0,120,drop\n")
    said = run("--neighboring", "replace")
    assert (
        "--neighboring add_remove" in said and "neighboring=" not in said and "Scaler" not in said
    )


def test_a_ledger_that_was_begun_otherwise(folder):
    PrivacyBudget.open(
        "l", 8.0, 1e-5, "replace", composition="added", max_rows_per_person=3
    ).close()
    again = ["ledger", "l", "--begin", "8", "1e-5"]
    for more in (
        ["--composition", "composed"],
        ["--neighboring", "add_remove"],
        ["--max-rows-per-person", "2"],
    ):
        said = main([*again, *more])
        assert (
            "leave that option out" in said
            and "`" not in said
            and "=" not in said.replace("ledger=", "")
        )


def test_help_names_only_what_a_command_takes(capsys):
    for program in ("cluster", "check"):
        with pytest.raises(SystemExit):
            parse([program, "--help"])
        said = capsys.readouterr().out
        assert ("--person-column" in said) == (program in ("cluster", "check"))
        assert "for standard input" in " ".join(said.split())


# ---------------------------------------------------------------- long lists


def result(n_columns=2, k=100, values=()):
    columns = tuple(
        Column(f"c{i}", 0.0, 1.0) if not values else Column(f"c{i}", values=values)
        for i in range(n_columns)
    )
    noise = Noise(0)
    noise.count(10, mu=1.0)
    outputs = sum(len(c.outputs) for c in columns)
    return Result(
        source="t", method="PEMeans", columns=columns, left_out=(), centers=np.zeros((k, outputs)),
        sizes=np.zeros(k), errors=np.ones(k), receipt=noise.receipt(1e-6), center_errors=np.full((k, outputs), 1e-3),
    )  # fmt: skip


def test_many_clusters_and_columns_are_abbreviated():
    said = doubts(result())
    assert "Clusters 1, 2, 3, 4, 5, 6 and 94 more have no more rows" in said
    assert "Clusters 1, 2, 3, 4, 5, 6 and 7 have" in doubts(result(k=7))
    assert "Cluster 1 has" in doubts(result(k=1))
    sure = result(60, 3)._replace(sizes=np.full(3, 1e4))
    assert (
        "In columns 'c0', 'c1', 'c2', 'c3', 'c4', 'c5' and 54 more every cluster lies at the low end"
        in doubts(sure)
    )
    assert len(doubts(sure)) < 400
    one = doubts(result(1, 3)._replace(sizes=np.full(3, 1e4)))
    assert (
        "In column 'c0' every cluster lies at the low end of the range: check that its unit" in one
    )
    lists = result(60, 3, values=("a", "b"))._replace(sizes=np.full(3, 1e4))
    assert "and 54 more most rows of every cluster have none of the declared values" in doubts(
        lists
    )


def test_columns_left_out_are_abbreviated(folder, capsys):
    head = ",".join(f"x{i}" for i in range(300))
    (folder / "people.csv").write_text(f"age,income,{head}\n" + "1,1" + ",0" * 300 + "\n")
    assert run("--dry-run") == 0
    said = capsys.readouterr().out
    assert "x10, x11 and 288 more" in said and "x12" not in said
    main(["check", "people.csv", "--bounds", "bounds.csv"])
    assert "x10, x11 and 288 more" in capsys.readouterr().out


# ---------------------------------------------------------------- faults of our own


def test_a_fault_of_ours_is_found_before_the_charge_and_called_so(folder, monkeypatch):
    PrivacyBudget.open("l", 8.0, 1e-5).close()

    def broken(cells):
        raise AttributeError("a fault")

    for name in ("_floats", "_numbers"):
        monkeypatch.setattr(files, name, broken)
    said = run("--ledger", "l")
    assert "a bug in dplit, not a fault of people.csv" in said and "AttributeError" in said
    assert not charges()[0] and not (folder / "out").exists()


def test_a_fault_on_a_record_leaves_room_for_another_cause(folder, monkeypatch):
    PrivacyBudget.open("l", 8.0, 1e-5).close()
    read, said = files._csv_cells, []

    def broken(part):
        list(read(part))
        raise AttributeError("a fault")

    monkeypatch.setattr(files, "_csv_cells", broken)
    said.append(run("--ledger", "l"))
    monkeypatch.setattr(files, "_csv_cells", read)
    (folder / "people.csv").write_text("age,income\n1,unreadable\n")
    said.append(run("--ledger", "l"))
    for one in said:
        assert "If check finds nothing, the cause is a bug in dplit" in one
    assert said[0].split("\n")[0] == said[1].split("\n")[0]  # which one it was would tell of a row


# ---------------------------------------------------------------- a grid with weights


@pytest.mark.parametrize("weight", ["", "2", "0.5"])
def test_a_grid_reaches_the_ends_of_a_column_that_counts_double(folder, weight):
    """Rows of weight 2 fill [-2, 2]: a grid over [-1, 1] cut them, and its centers never left the middle half."""
    (folder / "bounds.csv").write_text(
        f"column,low,high,weight\nage,0,120,{weight}\nincome,0,100000,\n"
    )
    rng = np.random.default_rng(1)
    young = rng.integers(2, size=6000)
    ages = np.where(young, 5, 115)
    (folder / "people.csv").write_text("age,income\n" + "".join(f"{a},50000\n" for a in ages))
    assert run("--method", "GridKMeans", epsilon=4, delta=0) == 0
    rows = (folder / "out" / "centers.csv").read_text().splitlines()
    found = sorted(float(row.split(",")[1]) for row in rows[1:])
    assert abs(found[0] - 5) < 12 and abs(found[1] - 115) < 12


def test_the_scaler_of_the_command_has_a_name_for_people():
    assert bounds.DroppingScaler()._owner == "dplit"


@pytest.mark.parametrize("dry", [True, False])
@pytest.mark.parametrize("method", ["GridKMeans", "NoisyLloyd"])
def test_lists_that_a_grid_cannot_see_are_doubted_before_a_row_is_read(folder, capsys, dry, method):
    rows = "".join(f"{40 + i % 9},a{i % 5},b{i % 4}\n" for i in range(200))
    (folder / "people.csv").write_text(f"age,job,county\n{rows}")
    lists = "job,,,a0|a1|a2|a3|a4\ncounty,,,b0|b1|b2|b3\n"
    (folder / "bounds.csv").write_text(f"column,low,high,values\nage,0,120,\n{lists}")
    assert run("--method", method, *["--dry-run"] * dry, delta=0) == 0
    said = capsys.readouterr().out
    doubt = "note: over 10 columns, each value of a list counted as one, the grid of GridKMeans has"
    assert (doubt in said) == (method == "GridKMeans")
    if method == "GridKMeans":
        assert "the range of 'job' and 'county' is narrower than two of them" in said
        assert dry or said.index(doubt) < said.index("reading 3 columns")
