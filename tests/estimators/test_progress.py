"""What a fit and a command say while they work: the lines of the receipt, and seconds."""

import io
import itertools
import sys
import time
import types

import numpy as np
import pytest

import dplit
from dplit import audit
from dplit.inputs import console

KINDS = [
    dplit.NoisyLloyd,
    dplit.MaxCoverKMeans,
    dplit.PEMeans,
    dplit.HDPEMeans,
    dplit.KTupleKMeans,
    dplit.KTupleGaussianMixture,
]
X = np.random.default_rng(0).normal(size=(400, 3))
every = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def make(kind, **changed):
    public = {"epsilon": 1.0, "delta": 1e-5, "radius": 4.0, "random_state": 0}
    return kind(2, **public | changed)


@every
@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_what_is_printed_is_the_list_of_releases_of_the_receipt(kind, neighboring, capsys):
    model = make(kind, verbose=1, neighboring=neighboring).fit(X)
    listed = itertools.chain(*([r.label] * r.times for r in model.spent_.releases))
    name = kind.__name__
    want = [f"[{name}] release {i}: {label}" for i, label in enumerate(listed, 1)]
    assert capsys.readouterr().out.splitlines() == want and len(want) >= 5


@every
def test_whether_it_is_said_changes_nothing_and_silence_is_the_default(kind, capsys):
    silent = make(kind).fit(X)
    assert capsys.readouterr().out == ""
    aloud = make(kind, verbose=True).fit(X)
    assert np.array_equal(silent.cluster_centers_, aloud.cluster_centers_)
    assert str(silent.spent_) == str(aloud.spent_)


@every
@pytest.mark.parametrize("verbose", [-1, 1.5, "yes", None])
def test_other_words_are_refused(kind, verbose):
    with pytest.raises(TypeError, match="^verbose="):
        make(kind, verbose=verbose).fit(X)


class Chatty(dplit.NoisyLloyd):
    """Says how many rows it has."""

    def _release_centers(self, X, noise, center):
        print(f"{len(X)} rows")
        return super()._release_centers(X, noise, center)


def test_the_audit_reads_along():
    """Equal words on neighbours where releases are equal; and a fit that tells its number of rows is found."""
    pairs = audit.neighbors(3, 4.0, n_random=2)
    assert not audit.replay(make(dplit.PEMeans, verbose=1), pairs, seeds=range(2))
    assert not audit.replay(make(dplit.NoisyLloyd, verbose=1), pairs, seeds=range(2))
    assert audit.replay(make(Chatty, verbose=1), pairs, seeds=range(1), stop=True)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("seconds", [0.0, 1.0])
@pytest.mark.parametrize("file", [Terminal, io.StringIO])
def test_a_clock_shows_seconds_on_a_terminal_after_a_while_and_goes(monkeypatch, seconds, file):
    pytest.importorskip("tqdm")
    said = file()
    monkeypatch.setattr(console, "CLOCK", console.CLOCK | {"delay": 0.5, "file": said})
    with console.clock("reading"):
        time.sleep(seconds)
    shown = {line.strip() for line in said.getvalue().split("\r")} - {""}
    if seconds and file is Terminal:
        assert shown and shown <= {"reading: 00:00", "reading: 00:01"}
    else:
        assert not shown


def test_without_tqdm_there_is_no_clock(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with console.clock("reading"):
        pass
    assert capsys.readouterr() == ("", "")


def test_the_clock_counts_nothing_and_ends_with_the_work(monkeypatch):
    """Whatever tqdm does: it is told a word and to be quiet for two seconds, and no number of rows."""
    bars = []

    class Bar:
        def __init__(self, **options):
            self.options, self.told = options, []
            bars.append(self)

        def update(self, n):
            self.told.append(n)

        def close(self):
            self.closed = True

    monkeypatch.setitem(sys.modules, "tqdm", types.SimpleNamespace(tqdm=Bar))
    with pytest.raises(KeyError), console.clock("reading"):
        time.sleep(0.7)
        raise KeyError
    (bar,) = bars
    assert set(bar.told) == {0} and bar.options["delay"] == 2 and bar.closed
    assert bar.options.keys() == {*console.CLOCK, "desc", "disable"}
    told = len(bar.told)
    time.sleep(0.5)
    assert len(bar.told) == told
