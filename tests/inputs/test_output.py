"""After a charge nothing that is printed, drawn or written may lose a result, or report a success as a failure."""

import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from asking import last_of_each

import dplit
from dplit import CnvxAdap, KNoisyCenters, PrivacyBudget
from dplit.__main__ import main
from dplit.command_line import command as command_line_command
from dplit.inputs import AbstainedWarning, DoubtWarning, PrivacyWarning, console

ROOT = Path(__file__).parent.parent.parent
X = np.random.default_rng(0).uniform(0, 9, size=(300, 2))
BALL = {"epsilon": 1.0, "delta": 1e-6, "radius": 20.0, "random_state": 0}
NAMES = "gr\u00f6\u00dfe", "\u4e2d\u6587"  # the second is not in cp1252


@pytest.fixture
def folder(tmp_path):
    """A table, its bounds and a ledger, with names that some alphabets lack."""
    lines = [",".join(NAMES), *(f"{a:.4f},{b:.4f}" for a, b in X)]
    (tmp_path / "t\u4e2d.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    bounds = "column,low,high\n" + "".join(f"{name},0,9\n" for name in NAMES)
    (tmp_path / "b.csv").write_text(bounds, encoding="utf-8")
    PrivacyBudget.open(tmp_path / "l", 5.0, 1e-4).close()
    return tmp_path


def line(folder, *more):
    told = ["cluster", folder / "t\u4e2d.csv", "--bounds", folder / "b.csv", "--clusters", 2]
    told += ["--epsilon", 1, "--delta", 1e-6, "--ledger", folder / "l", "--out", folder / "out"]
    return last_of_each([*told, "--method", "NoisyLloyd", "--verbose", *more])


def states(folder):
    with PrivacyBudget.open(folder / "l") as budget:
        return [row.state for row in budget.ledger]


def written(folder):
    out = folder / "out"
    return sorted(os.listdir(out)) if out.exists() else []


ALL = sorted(command_line_command.FILES)


def shell(folder, after, **environment):
    """The command in a shell: (return code, stdout, stderr)."""
    command = " ".join(f"'{a}'" for a in [sys.executable, "-m", "dplit", *line(folder)])
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} {after}"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""} | environment,
        capture_output=True,
    )
    return done.returncode, done.stdout, done.stderr.decode(errors="replace")


BROKEN = {
    "an alphabet without the names": ("", {"PYTHONIOENCODING": "cp1252"}),
    "an alphabet of ASCII that is strict": ("", {"PYTHONIOENCODING": "ascii:strict"}),
    "a full disk": ("> /dev/full", {}),
    "a full disk for both": ("> /dev/full 2> /dev/full", {}),
    "a reader that has gone": ("| true", {"PYTHONUNBUFFERED": "1"}),
    "a reader that has gone, buffered": ("| true", {}),
    "a closed stdout": (">&-", {}),
    "a closed stdout and stderr": (">&- 2>&-", {}),
}


OFTEN = ["an alphabet without the names", "a full disk", "a reader that has gone"]
BROKEN_OR_SLOW = [
    how if how in OFTEN else pytest.param(how, marks=pytest.mark.slow) for how in BROKEN
]


@pytest.mark.parametrize("how", BROKEN_OR_SLOW)
def test_a_broken_stdout_neither_loses_a_result_nor_calls_it_a_failure(folder, how):
    after, environment = BROKEN[how]
    code, said, told = shell(folder, after, **environment)
    assert code == 0 and "Traceback" not in told and "Exception ignored" not in told, told
    assert states(folder) == ["settled"] and written(folder) == ALL
    if not after:
        assert rb"\u4e2d" in said and b"written: " in said


class Broken(io.StringIO):
    """A stream that fails in some way."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def write(self, text):
        raise self.error


ERRORS = [
    OSError(28, "full"),
    BrokenPipeError(),
    ValueError("closed"),
    UnicodeEncodeError("x", "y", 0, 1, ""),
    RuntimeError("odd"),
]


@pytest.mark.parametrize("error", [*ERRORS, None], ids=repr)
@pytest.mark.parametrize("kind", [dplit.NoisyLloyd, dplit.PEMeans, dplit.KTupleKMeans])
def test_a_verbose_fit_outlives_any_stdout(monkeypatch, kind, error):
    budget = PrivacyBudget(5.0, 1e-4)
    quiet = kind(2, **BALL).fit(X)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None if error is None else Broken(error))
        model = budget.fit(kind(2, verbose=True, **BALL), X)
    assert np.array_equal(model.cluster_centers_, quiet.cluster_centers_)
    assert [row.state for row in budget.ledger] == ["settled"]


@pytest.mark.parametrize("error", [*ERRORS, KeyboardInterrupt(), MemoryError()], ids=repr)
def test_a_report_that_cannot_be_drawn_loses_nothing(folder, monkeypatch, capsys, error):
    drawn = command_line_command.report

    def once(result):
        monkeypatch.setattr(command_line_command, "report", fail)
        return drawn(result)

    def fail(result):
        raise error

    monkeypatch.setattr(command_line_command, "report", once)  # the first is of made-up numbers
    assert main(line(folder)) == 3
    said, told = capsys.readouterr()
    assert "do not run this again; not written: report.html" in told and "centers.csv" in said
    assert states(folder) == ["settled"] and written(folder) == ALL[:2]


def test_a_report_that_cannot_be_drawn_at_all_is_refused_before_the_charge(folder, monkeypatch):
    def fail(result):
        raise RuntimeError("no fonts")

    monkeypatch.setattr(command_line_command, "report", fail)
    said = main(line(folder))
    assert "report.html cannot be written there (RuntimeError: no fonts); no row was read" in said
    assert states(folder) == [] and not (folder / "out").exists()


def test_results_that_cannot_be_written_are_printed(folder, monkeypatch, capsys):
    """As when the disk fills up between the rehearsal and the end of the fit."""
    new_file, fitted = Path.open, []

    def full(path, *args, **kwargs):
        if path.parent == folder / "out":
            fitted.append(path.name)
            raise OSError(28, "No space left on device")
        return new_file(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", full)
    assert main(line(folder)) == 3
    said, told = capsys.readouterr()
    assert fitted == [*command_line_command.FILES] and states(folder) == ["settled"]
    head = f"cluster,{NAMES[0]},{NAMES[1]}"
    assert head in said and '"schema"' in said.split("receipt.json:\n")[1]
    text = said.split("receipt.json:\n")[1]
    receipt, _ = json.JSONDecoder().raw_decode(text)
    assert dplit.accounting.Receipt.from_dict(receipt).epsilon == pytest.approx(1)
    assert "Printed instead of a file: centers.csv, receipt.json" in told and written(folder) == []


def test_a_second_run_into_the_same_folder_is_refused_before_its_charge(
    folder, monkeypatch, capsys
):
    """It comes while the first one reads. Mutation: without the mark both are charged, and one overwrites the other."""
    read, said = command_line_command.read_rows, []

    def meanwhile(*args):
        monkeypatch.undo()
        said.append(main(line(folder, "--epsilon", 0.5, "--clusters", 3)))
        said.append(main(line(folder, "--dry-run")))
        return read(*args)

    monkeypatch.setattr(command_line_command, "read_rows", meanwhile)
    assert main(line(folder)) == 0
    assert all("another run writes its results there" in one for one in said)
    assert states(folder) == ["settled"] and written(folder) == ALL
    assert len((folder / "out" / "centers.csv").read_text("utf8").splitlines()) == 3
    assert "has centers.csv from an earlier run" in main(line(folder))


def test_a_broken_link_under_the_name_of_a_result_is_seen_before_the_charge(folder):
    """It was noticed when the result was written. Mutation: exists in place of lexists."""
    (folder / "out").mkdir()
    (folder / "out" / "centers.csv").symlink_to(folder / "nowhere")
    assert "has centers.csv from an earlier run" in main(line(folder)) and not states(folder)


def test_a_file_that_appears_during_a_run_is_not_overwritten(folder, monkeypatch, capsys):
    read, theirs = command_line_command.read_rows, folder / "out" / "centers.csv"

    def meanwhile(*args):
        theirs.write_text("theirs")
        return read(*args)

    monkeypatch.setattr(command_line_command, "read_rows", meanwhile)
    assert main(line(folder)) == 3
    said, told = capsys.readouterr()
    assert theirs.read_text() == "theirs" and f"cluster,{NAMES[0]},{NAMES[1]}" in said
    assert "centers.csv (a file of that name has appeared)" in told and states(folder) == [
        "settled"
    ]


def test_a_run_that_was_killed_leaves_its_mark(folder):
    (folder / "out").mkdir()
    (folder / "out" / console._MARK).touch()
    said = main(line(folder))
    assert "or was killed" in said and "you may remove the file" in said and states(folder) == []
    assert written(folder) == [console._MARK]


def test_a_folder_without_room_is_refused_before_the_charge(folder, monkeypatch):
    full = lambda dir: open("/dev/full", "wb", buffering=0)  # noqa: E731
    monkeypatch.setattr(console.tempfile, "TemporaryFile", full)
    assert "nothing can be written there (No space left on device)" in main(line(folder))
    assert states(folder) == [] and not (folder / "out").exists()


@pytest.mark.parametrize("out", ["/proc/out", "/proc", "/dev/null/out"])
def test_a_folder_that_takes_no_files_is_refused_before_the_charge(folder, out):
    said = main(line(folder, "--out", out))
    assert isinstance(said, str) and "Errno" not in said and states(folder) == []


@pytest.mark.parametrize("step", ["_result", "_write", "_lines"])
def test_an_interrupt_after_the_fit_does_not_lose_it(folder, monkeypatch, capsys, step):
    """Ctrl-C at some step between the last release and the ledger's entry: only the report is left out."""
    original = getattr(command_line_command, step)

    def interrupted(*args, **kwargs):
        if states(folder):
            signal.raise_signal(signal.SIGINT)
        return original(*args, **kwargs)

    monkeypatch.setattr(command_line_command, step, interrupted)
    assert main(line(folder)) == 3
    assert states(folder) == ["settled"] and written(folder) == ALL[:2]
    assert "not written: report.html (left out, because SIGINT came)" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("step", ["read_rows", "_try_first"])
def test_an_interrupt_before_anything_was_released_stops(folder, monkeypatch, capsys, step):
    monkeypatch.setattr(command_line_command, step, lambda *_: signal.raise_signal(signal.SIGINT))
    assert main(line(folder)) == 130
    told = capsys.readouterr().err
    assert told.startswith("dplit: interrupted.") and not (folder / "out").exists()
    assert states(folder) == (["failed"] if step == "read_rows" else [])
    assert ("was charged" in told) == (step == "read_rows")


SIGNALS = [getattr(signal, name, signal.SIGINT) for name in ("SIGINT", "SIGTERM", "SIGHUP")]
# Runs commands, each in a process and on a terminal of its own; at each stop sends a signal.
TERMINALS = """
import json, os, pty, runpy, sys
from dplit import PrivacyBudget
from dplit.ledger import charging
from dplit.command_line import command as commands, persons, tour
from dplit.estimators import NoisyLloyd
from dplit.accounting import Receipt

STEPS = {  # (owner, function, which of its calls, whether after it)
    "rehearsing": (commands, "_try_first", 1, True),
    "charged": (charging, "_reserve", 1, True),
    "reading": (commands, "read_rows", 1, False),
    "fitting": (NoisyLloyd, "_start", 1, False),
    "failing": (charging, "_failed", 1, False),
    "fitted": (NoisyLloyd, "fit", 1, True),
    "centers written": (Receipt, "to_dict", 2, False),
    "both written": (persons, "settle_entry", 1, False),
    "summary printed": (commands, "_finish", 1, True),
    "table closed": (tour, "drain", 1, False),
    "leaving": (sys, "exit", 1, False),
}


def wait_at(step, there, go):
    owner, name, left, after = STEPS[step]
    original = getattr(owner, name)

    def waiting(*args, **kwargs):
        nonlocal left
        left -= 1
        found = original(*args, **kwargs) if after else None
        if left == 0:
            os.write(there, b".")
            os.read(go, 1)
        return found if after else original(*args, **kwargs)

    setattr(owner, name, waiting)


for asked in sys.stdin:
    stops, argv = json.loads(asked)
    pipes = [(os.pipe(), os.pipe()) for _ in stops]  # (arrived, there), (go, let_go)
    child, terminal = pty.fork()
    if child == 0:
        for (step, _), ((_, there), (go, _)) in zip(stops, pipes):
            wait_at(step, there, go)
        sys.argv = ["dplit", *argv]
        runpy.run_module("dplit", run_name="__main__")
    for (_, number), ((arrived, there), (_, let_go)) in zip(stops, pipes):
        os.close(there)
        assert os.read(arrived, 1)
        os.close(terminal) if number == 1 else os.kill(child, number)
        os.write(let_go, b".")
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for (arrived, _), (go, let_go) in pipes:
        os.close(arrived), os.close(go), os.close(let_go)
    if all(number != 1 for _, number in stops):
        os.close(terminal)
    print(code, flush=True)
"""


@pytest.fixture(scope="module")
def terminals():
    """A function of stops and the arguments of a command, to its return code."""
    pytest.importorskip("pty")
    with subprocess.Popen(
        [sys.executable, "-c", TERMINALS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    ) as running:  # fmt: skip

        def ask(stops, argv):
            print(json.dumps([stops, argv]), file=running.stdin, flush=True)
            return int(running.stdout.readline())

        yield ask


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("step", ["rehearsing", "charged", "reading", "fitting"])
def test_a_signal_before_the_release_is_an_error_that_the_ledger_notes(
    folder, terminals, step, number
):
    assert terminals([(step, number)], line(folder)) == 128 + number
    assert states(folder) == ["failed"] * (step != "rehearsing") and not (folder / "out").exists()


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("step", ["fitted", "centers written", "both written"])
def test_a_signal_after_the_release_waits_for_centers_receipt_and_ledger(
    folder, terminals, step, number
):
    assert terminals([(step, number)], line(folder)) == 3
    assert states(folder) == ["settled"] and written(folder) == ALL[:2]
    receipt = json.loads((folder / "out" / "receipt.json").read_text())
    assert dplit.accounting.Receipt.from_dict(receipt).epsilon == pytest.approx(1)
    assert len((folder / "out" / "centers.csv").read_text().splitlines()) == 3


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("step", ["summary printed", "table closed", "leaving"])
def test_a_signal_after_all_is_written_does_not_turn_a_result_into_a_failure(
    folder, terminals, step, number
):
    """A supervisor would run it again, and pay again. Mutations: handlers restored with `held`, or with `stopping`."""
    assert terminals([(step, number)], line(folder)) == 0
    assert states(folder) == ["settled"] and written(folder) == ALL


def test_a_second_signal_stops_neither_the_note_of_a_failure_nor_the_last_file(folder, terminals):
    twice = [("reading", signal.SIGHUP), ("failing", signal.SIGTERM)]
    assert terminals(twice, line(folder)) == 128 + signal.SIGHUP
    assert states(folder) == ["failed"] and not (folder / "out").exists()
    twice = [("fitted", signal.SIGTERM), ("both written", signal.SIGHUP)]
    assert terminals(twice, line(folder)) == 3
    assert states(folder) == ["failed", "settled"] and written(folder) == ALL[:2]


def test_a_signal_that_is_handled_or_ignored_stays_so(folder, monkeypatch):
    """As under nohup; and in another thread than the first no handler can be set."""
    called, original = [], command_line_command.read_rows

    def read_rows(*args):
        for number in (signal.SIGHUP, signal.SIGTERM):
            signal.raise_signal(number)
        return original(*args)

    monkeypatch.setattr(command_line_command, "read_rows", read_rows)
    handlers = {signal.SIGHUP: signal.SIG_IGN, signal.SIGTERM: lambda *_: called.append(1)}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        assert main(line(folder)) == 0 and called == [1]
        assert {number: signal.getsignal(number) for number in handlers} == handlers
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert states(folder) == ["settled"] and written(folder) == ALL
    codes = []
    monkeypatch.setattr(command_line_command, "read_rows", original)
    told = line(folder)
    told[told.index("--out") + 1] = str(folder / "second")
    thread = Thread(target=lambda: codes.append(main(told)))
    thread.start(), thread.join()
    assert codes == [0]


def test_a_clock_that_cannot_be_shown_is_not_shown(monkeypatch):
    class Bar:
        def __init__(self, **options):
            pass

        def update(self, n):
            raise OSError("no terminal")

        close = update

    for bar in (Bar, None):
        monkeypatch.setitem(sys.modules, "tqdm", type(sys)("tqdm"))
        sys.modules["tqdm"].tqdm = bar
        monkeypatch.setattr(console, "Thread", console.Thread)
        with console.clock("reading"):
            result = 1
        assert result == 1


def test_a_warning_that_cannot_be_shown_does_not_stop_a_fit(folder, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Broken(OSError(28, "full")))
    more = ["--method", "KTupleKMeans", "--epsilon", "0.05"]  # it abstains, and says so
    assert main(line(folder, *more)) == 0
    assert states(folder) == ["settled"] and written(folder) == ALL


@pytest.mark.slow
def test_a_warning_made_an_error_does_not_stop_the_command(folder):
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-m", "dplit", *line(folder, "--method", "KTupleKMeans", "--epsilon", "0.05")],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and "abstained" in done.stderr
    assert states(folder) == ["settled"] and written(folder) == ALL


def test_a_name_that_no_file_can_hold_is_refused_before_the_charge(folder):
    """Half a letter, which JSON can write and UTF-8 cannot."""
    (folder / "b.json").write_text(json.dumps({NAMES[0]: [0, 9], NAMES[1]: ["\ud800", "b"]}))
    told = line(folder)
    told[told.index("--bounds") + 1] = str(folder / "b.json")
    said = main(told)
    assert "cannot be written there (UnicodeEncodeError" in said and states(folder) == []


def test_the_tour_tries_its_picture_before_it_fits(monkeypatch, tmp_path):
    monkeypatch.setattr("dplit.command_line.tour.compare", lambda *_, **__: pytest.fail("fitted"))
    (tmp_path / "digits.png").mkdir()
    for picture, told in {
        "/proc/digits.png": "nothing can be written there",
        str(tmp_path / "digits.png"): "it is a folder; name a file",
        str(tmp_path / "none" / "digits.png"): "does not exist; create it first",
    }.items():
        assert told in main(["--picture", picture])


def test_a_ledger_is_begun_whatever_stdout_is_and_shown_only_if_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdout", Broken(OSError(28, "full")))
    assert main(["ledger", str(tmp_path / "l"), "--begin", "1", "1e-6"]) == 0
    assert "could not be printed" in main(["ledger", str(tmp_path / "l")])


class TestWarningsAsErrors:
    """`-W error`, after a charge: what is paid for is handed out all the same."""

    @pytest.mark.parametrize(
        "kind", ["abstained", "a delta above one over n", "a source too far out"]
    )
    def test_a_warning_about_a_fit_loses_no_result(self, kind):
        budget = PrivacyBudget(9.0, 0.5)
        with warnings.catch_warnings():
            warnings.simplefilter("error", AbstainedWarning)
            if kind == "abstained":
                tuples = np.random.default_rng(0).normal(size=(1700, 2, 2))
                made = KNoisyCenters(epsilon=1.0, delta=1e-6, random_state=0)
                assert budget.fit(made, tuples).status_ == "abstained"
            else:
                rng, far = np.random.default_rng(0), 100.0 if "far" in kind else 1.0
                table, y = rng.normal(size=(40, 2)), rng.normal(size=40)
                bounds = {"radius": 2.0, "weight_radius": 3.0, "target_bound": 2.0}
                made = CnvxAdap(epsilon=1.0, delta=0.04, **bounds, n_iter=2, random_state=0)
                warnings.simplefilter("error", UserWarning)
                warnings.filterwarnings("default", ".* is large", PrivacyWarning)
                if far > 1:  # by the public rows alone: before the charge
                    with pytest.raises(ValueError, match="most of the public rows"):
                        budget.fit(made, table, y, Xs=table * far, ys=y.copy())
                    with pytest.raises(DoubtWarning, match="most of the public rows"):
                        budget.fit(made, table, y, Xs=table * far, ys=y.copy(), accept_doubts=True)
                    assert not budget.ledger
                    return
                budget.fit(made, table, y, Xs=table * far, ys=y.copy())
        assert [row.state for row in budget.ledger] == ["settled"]


@pytest.mark.parametrize("begin", [[], ["--begin", "4", "1e-5"], ["--json"]])
def test_a_ledger_that_cannot_be_read_says_why(tmp_path, begin):
    """The reason was lost in what could not be printed, and --begin returned 0."""
    path = tmp_path / "l"
    with dplit.PrivacyBudget.open(path, 4.0, 1e-5) as budget:
        budget.charge(1.0)
    os.link(path, tmp_path / "other")
    assert "second name" in main(["ledger", str(path), *begin])
    (tmp_path / "other").unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER events_stay")
        connection.execute("UPDATE events SET epsilon = 0.5 WHERE number = 1")
    assert "damaged" in main(["ledger", str(path), *begin])
