"""`--dry-run`: what a run would cost and what would be left, without reading a row; and how a ledger is begun."""

import io
import json
from types import SimpleNamespace

import numpy as np
import pytest

from dplit import PrivacyBudget
from dplit.__main__ import main
from dplit.accounting.filters import SHARES
from dplit.command_line import command as commands
from dplit.ledger.units import share_in_words

ASKED = ["--clusters", "3", "--epsilon", "1", "--delta", "1e-6", "--out", "out"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = "\n".join(f"{a:.0f},{b:.0f},x" for a, b in zip(rng.uniform(0, 90, 60), rng.uniform(0, 9e4, 60), strict=True))  # fmt: skip
    (tmp_path / "people.csv").write_text(f"age,income,region\n{rows}\n")
    (tmp_path / "bounds.csv").write_text("column,low,high\nage,0,120\nincome,0,100000\n")
    return tmp_path


def run(*more):
    return main(["cluster", "people.csv", "--bounds", "bounds.csv", *ASKED, *more])


def files(folder):
    return {path.name for path in folder.iterdir() if "ledger" not in path.name}


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_a_dry_run_says_the_cost_and_touches_nothing(folder, capsys, monkeypatch, neighboring):
    monkeypatch.setattr(commands, "read_rows", None)  # nobody calls it
    with PrivacyBudget.open("ledger", 4.0, 1e-5, neighboring) as budget:
        seal = budget.to_dict()["seal"]
    before = files(folder)
    assert run("--ledger", "ledger", "--dry-run") == 0
    said = capsys.readouterr().out
    quoted = "2        3.719e-06" if neighboring == "replace" else "1        1e-06"
    for words in ("3 clusters by PEMeans", "left out, because no range is declared: region", quoted):  # fmt: skip
        assert words in said, words
    assert "after that, the next fit may cost" in said and "No row was read" in said
    assert files(folder) == before == {"people.csv", "bounds.csv"}
    with PrivacyBudget.open("ledger") as budget:
        assert budget.to_dict()["seal"] == seal and not budget.ledger


class Endless(io.RawIOBase):
    """A pipe whose writer waits after the first lines, as one that asks before it continues."""

    def __init__(self, *blocks):
        self.blocks = list(blocks)

    def readable(self):
        return True

    def readinto(self, room):
        assert self.blocks, "more was read than the first line"
        block = self.blocks.pop(0)
        room[: len(block)] = block
        return len(block)


@pytest.mark.parametrize(
    "blocks", [[b"age,income\n"], [b"age,income\n40,1\n41"], [b"age,in", b"come\r\n"]]
)
def test_of_a_piped_csv_table_only_the_first_line_is_waited_for(
    folder, capsys, monkeypatch, blocks
):
    """Mutation: the copy is made in whole blocks."""
    pipe = Endless(*blocks)
    monkeypatch.setattr(
        "sys.stdin", SimpleNamespace(buffer=io.BufferedReader(pipe), isatty=lambda: False)
    )
    assert main(["cluster", "-", "--bounds", "bounds.csv", *ASKED, "--dry-run"]) == 0
    assert "No row was read" in capsys.readouterr().out and not pipe.blocks


def test_a_dry_run_without_a_ledger(folder, capsys):
    assert run("--dry-run") == 0
    assert "epsilon = 1, delta = 1e-06; no ledger is named" in capsys.readouterr().out
    assert files(folder) == {"people.csv", "bounds.csv"}


def test_a_dry_run_does_not_depend_on_the_rows(folder, capsys):
    run("--dry-run")
    said = capsys.readouterr().out
    (folder / "people.csv").write_text("age,income,region\nunreadable,,\n")
    run("--dry-run")
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda f: PrivacyBudget.open("ledger", 0.5, 1e-5).close(), "the limit is 0.5"),
        (lambda f: None, "there is no ledger"),
        (lambda f: (f / "bounds.csv").write_text("column,low,high\nage,9,1\n"), "bounds.csv|low"),
        (lambda f: ((f / "out").mkdir(), (f / "out" / "receipt.json").write_text("")), "earlier run"),
    ],
)  # fmt: skip
def test_a_dry_run_refuses_what_a_run_would(folder, spoil, words):
    if "earlier" in words or "low" in words:
        PrivacyBudget.open("ledger", 4.0, 1e-5).close()
    spoil(folder)
    told = run("--ledger", "ledger", "--dry-run")
    assert isinstance(told, str) and any(word in told for word in words.split("|")), told


def test_a_dry_run_says_why_a_method_without_gaussian_noise_is_added(folder, capsys):
    PrivacyBudget.open("ledger", 4.0, 1e-5).close()
    assert not run("--ledger", "ledger", "--dry-run", "--method", "MaxCoverKMeans")
    assert "Not all noise of MaxCoverKMeans is Gaussian, so before" in capsys.readouterr().out
    assert not run("--ledger", "ledger", "--dry-run")
    assert "Not all noise" not in capsys.readouterr().out


def test_a_missing_ledger_is_begun_in_the_unit_of_the_run(folder):
    asked = "--ledger", "missing", "--dry-run"
    assert "--begin EPSILON DELTA)" in run(*asked)
    assert "--begin EPSILON DELTA --max-rows-per-person 3)" in run(
        *asked, "--max-rows-per-person", "3"
    )


@pytest.mark.parametrize("date", ["2020-01-31", "31.12.2020", "2020-01-31T00:00"])
def test_a_date_as_a_bound_is_called_one(folder, date):
    (folder / "bounds.csv").write_text(f"column,low,high\nage,{date},120\n")
    assert "a date: write days since a public one, in the table too" in run("--dry-run")


def test_the_printed_ledger_says_how_gaussian_costs_add_where_they_compose():
    words = "costs of Gaussian noise add in squares"
    assert words in str(PrivacyBudget(4.0, 1e-5))
    for other in (PrivacyBudget(4.0), PrivacyBudget(4.0, 1e-5, composition="added")):
        assert words not in str(other)


def test_the_help_names_the_shares_of_delta(capsys):
    with pytest.raises(SystemExit):
        main(["ledger", "--help"])
    said, shares = " ".join(capsys.readouterr().out.split()), SHARES
    rest = share_in_words(shares.own + shares.failure)
    parts = share_in_words(shares.gaussian), share_in_words(shares.basic), rest
    told = "composition at {} of delta, with {} kept for addition and {} for deltas and failures"
    assert told.format(*parts) in said and share_in_words(0.1234) == "0.1234"


def test_how_a_ledger_is_begun(folder, capsys):
    begun = ["ledger", "l", "--begin", "4", "1e-5"]
    assert not main([*begun, "--composition", "added", "--neighboring", "replace"])
    with PrivacyBudget.open("l") as budget:
        assert (budget.composition, budget.neighboring) == ("added", "replace")
    assert "left: the next fit may cost epsilon = 4 if it is pure" in capsys.readouterr().out
    assert "--begin" in main(["ledger", "l", "--composition", "composed"])
    assert "not composed" in main([*begun, "--composition", "composed"])
    assert not main(["ledger", "l", "--json"])
    assert json.loads(capsys.readouterr().out)["next_fit"]["delta"] == 1e-6
