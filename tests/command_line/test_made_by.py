"""What an auditor matches by: the files of a run name the version of dplit and, if a ledger was charged, its file and the charge."""

import json

import numpy as np
import pytest

import dplit
from dplit import PrivacyBudget
from dplit.__main__ import main
from dplit.accounting import Receipt

ASKED = ["--bounds", "bounds.csv", "--clusters", "2", "--epsilon", "1", "--delta", "1e-6"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"{a:.0f}" for a in np.random.default_rng(0).uniform(0, 90, 60))
    (tmp_path / "people.csv").write_text(f"age\n{rows}\n")
    (tmp_path / "bounds.csv").write_text("column,low,high\nage,0,120\n")
    return tmp_path


def run(out, *more):
    assert main(["cluster", "people.csv", *ASKED, "--seed", "0", "--out", out, *more]) == 0
    kept = json.loads(open(f"{out}/receipt.json", encoding="utf-8").read())
    return kept, open(f"{out}/report.html", encoding="utf-8").read()


def test_the_files_name_the_charge_without_the_folder(folder, capsys):
    ledger = folder / "a secret project" / "people.ledger"
    ledger.parent.mkdir()
    with PrivacyBudget.open(ledger, 9.0, 1e-4) as budget:
        budget.charge(0.5, 1e-6, label="another program")
    run("one", "--ledger", str(ledger))
    kept, page = run("two", "--ledger", str(ledger))
    with PrivacyBudget.open(ledger) as budget:
        where = {"ledger": "people.ledger", "ledger_id": budget.id, "entry": 5}
    assert kept["made_by"] == {"dplit": dplit.__version__} | where
    last = f"Made by dplit {dplit.__version__}. Charged to the ledger people.ledger as its entry 5."
    assert page.endswith(f"<p><small>{last}</small></p></body></html>")
    assert "secret" not in page + json.dumps(kept)
    capsys.readouterr()
    main(["ledger", str(ledger)])  # the row that an auditor finds
    heading, *lines = capsys.readouterr().out.split("\n")
    head, *rows = map(str.split, lines[:5])
    assert heading == f"Ledger {ledger} (id {where['ledger_id']})"
    assert head[0] == "entry" and rows[3][0] == "5" and {"PEMeans", "people.csv"} <= {*rows[3]}
    with PrivacyBudget.open(ledger) as budget:
        assert budget.receipts[2] == Receipt.from_dict(kept)
        assert "made_by" not in json.dumps(budget.to_dict())


def test_the_receipt_is_the_same_with_and_without_a_ledger(folder):
    PrivacyBudget.open("people.ledger", 9.0, 1e-4).close()
    charged, page = run("charged", "--ledger", "people.ledger")
    kept, free = run("free")
    assert kept.pop("made_by") == {"dplit": dplit.__version__} != charged.pop("made_by")
    assert kept == charged == Receipt.from_dict(charged).to_dict()
    assert page.replace("Charged to the ledger people.ledger as its entry 1.", "No ledger was charged.") == free  # fmt: skip


@pytest.mark.parametrize("name", ["<b>&amp;.ledger", "new\nline.ledger", "next\u2028line.ledger"])
def test_a_strange_name_of_a_ledger_is_shown(folder, name):
    """It is shown on one line, and is never read as a part of the page."""
    PrivacyBudget.open(name, 9.0, 1e-4).close()
    kept, page = run("out", "--ledger", name)
    assert kept["made_by"]["ledger"].isprintable() and kept["made_by"]["entry"] == 1
    assert "<b>" not in page.rpartition("<h2>The receipt</h2>")[2] and "entry 1.<" in page
