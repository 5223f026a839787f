"""Results that are kept in a file: read when they are there, measured when not, and still true (slow: all of them, again)."""

import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from dplit.plotting import Kept
from dplit.plotting.kept import _near

BOOK = Path(__file__).parent.parent.parent / "nbs"
CHAPTERS = {
    name: found.group(1)
    for path in sorted(BOOK.rglob("*.ipynb"))
    if (name := path.relative_to(BOOK).with_suffix("").as_posix()) != "plotting/kept"
    and (found := re.search(r'Kept\(\\"\.\./(benchmarks/\w+\.json)', path.read_text("utf-8")))
}


def counted(result):
    calls = []

    def function(*args, **named):
        calls.append((args, named))
        return result

    return function, calls


def test_a_result_is_computed_once(tmp_path):
    function, calls = counted([1.5, "a", {"b": None}])
    for _ in range(2):
        kept = Kept(tmp_path / "file.json")(function)
        assert kept(1, "x", shape=(2, 3)) == [1.5, "a", {"b": None}]
    assert calls == [((1, "x"), {"shape": (2, 3)})]


def test_other_arguments_are_another_result(tmp_path):
    function, calls = counted(0)
    kept = Kept(tmp_path / "file.json")(function)
    for args in ((1,), (1.0,), ("1",), (True,), (1, 2), ([1, 2],)):
        kept(*args)
    kept(1, seed=2)
    assert len(calls) == len(json.loads((tmp_path / "file.json").read_text())) == 7


def test_numbers_of_numpy_come_back_as_plain_ones_at_once(tmp_path):
    function, _ = counted({"a": np.arange(3), "b": np.float64(0.1), "c": np.bool_(True)})
    for _ in range(2):
        found = Kept(tmp_path / "file.json")(function)(np.int64(3))
        assert found == {"a": [0, 1, 2], "b": 0.1, "c": True}
        assert type(found["b"]) is float and type(found["c"]) is bool


def test_what_was_found_before_an_interruption_is_kept(tmp_path):
    def function(n):
        if n == 2:
            raise KeyboardInterrupt
        return n

    kept = Kept(tmp_path / "file.json")(function)
    kept(1)
    with pytest.raises(KeyboardInterrupt):
        kept(2)
    assert Kept(tmp_path / "file.json").results == {"function(1)": 1}


def test_everything_is_measured_anew_where_that_is_asked_for(tmp_path, monkeypatch):
    function, calls = counted(1)
    Kept(tmp_path / "file.json")(function)(5)
    monkeypatch.setenv("DPLIT_ANEW", "1")
    Kept(tmp_path / "file.json")(function)(5)
    assert len(calls) == 2


@pytest.mark.parametrize(
    "then, now, same",
    [
        (1.0, 1.0 + 1e-7, True),
        (1.0, 1.0 + 1e-5, False),
        (float("inf"), float("inf"), True),
        ([1.0, 2.0], [1.0], False),
        ({"a": 1.0}, {"a": 1.0, "b": 2.0}, False),
        ({"a": [1.0, "x"]}, {"a": [1.0, "y"]}, False),
        (0.0, 1e-300, False),
        (3, 4, False),
        (10**9, 10**9 + 1, False),  # whole numbers agree wholly
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        (1.0, None, False),
        ("x", 1.0, False),
    ],
)
def test_a_stale_number_is_noticed(tmp_path, then, now, same):
    kept = Kept(tmp_path / "file.json")
    results = iter([then, now])
    function = kept(lambda: next(results))
    function()
    assert kept.holds(function) is same


def test_bad_input_gets_a_sentence(tmp_path):
    with pytest.raises(TypeError, match="Kept needs a str or PathLike, a path"):
        Kept(3)
    with pytest.raises(TypeError, match="function"):
        Kept(tmp_path / "file.json")(3)
    with pytest.raises(TypeError, match="type set can't be kept"):
        Kept(tmp_path / "file.json")(lambda: {1})()
    assert not (tmp_path / "file.json").exists()
    for text in ("no JSON", "3"):
        (tmp_path / "file.json").write_text(text)
        with pytest.raises(ValueError, match="no kept results"):
            Kept(tmp_path / "file.json")


def test_every_chapter_that_keeps_results_checks_some():
    assert len(CHAPTERS) >= 8
    for chapter, file in CHAPTERS.items():
        assert "kept.holds(" in (BOOK / f"{chapter}.ipynb").read_text("utf-8"), chapter
        assert json.loads((BOOK / file).read_text("utf-8")), file


def leaves(value):
    """The numbers and words of a result, in order."""
    if isinstance(value, (dict, list)):
        parts = value.values() if isinstance(value, dict) else value
        return [leaf for part in parts for leaf in leaves(part)]
    return [value]


def says_the_same(now, then):
    """All but a fiftieth of the numbers to six digits, and these within four percent: other libraries' solvers, which some
    chapters compare with, end a little elsewhere on other machines."""
    if not _near(now, then, math.inf):  # names, lengths, words and whole numbers
        return False
    pairs = [*zip(leaves(now), leaves(then), strict=True)]
    off = [(a, b) for a, b in pairs if not _near(a, b, 1e-6)]
    return len(off) <= 0.02 * len(pairs) and all(_near(a, b, 0.04) for a, b in off)


def test_little_may_differ_between_machines():
    then = {"a": [1.0] * 100, "b": "x"}
    assert says_the_same({"a": [1.0] * 99 + [1.03], "b": "x"}, then)
    assert not says_the_same({"a": [1.0] * 99 + [1.05], "b": "x"}, then)
    assert not says_the_same({"a": [1.0] * 97 + [1.01] * 3, "b": "x"}, then)
    assert not says_the_same({"a": [1.0] * 100, "b": "y"}, then)
    assert not says_the_same({"a": [1.0] * 100, "c": "x"}, then)
    assert not says_the_same({"a": [1.0] * 99, "b": "x"}, then)
    assert not says_the_same({"a": [1.0] * 99 + [1], "b": 3}, then | {"b": 4})


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_measured_anew_says_the_same(chapter, tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    shutil.copytree(BOOK, tmp_path / "nbs")
    monkeypatch.setenv("DPLIT_ANEW", "1")
    (
        tmp_path / "nbs" / CHAPTERS[chapter]
    ).unlink()  # what nobody asks for any more is not found again
    book = nbformat.read(BOOK / f"{chapter}.ipynb", 4)
    nbclient.NotebookClient(
        book, timeout=3600, resources={"metadata": {"path": (tmp_path / "nbs" / chapter).parent}}
    ).execute()
    monkeypatch.delenv("DPLIT_ANEW")
    then, now = (Kept(nbs / CHAPTERS[chapter]).results for nbs in (BOOK, tmp_path / "nbs"))
    assert then.keys() == now.keys()
    assert says_the_same(*([results[key] for key in then] for results in (now, then)))


def test_nothing_holds_that_the_file_does_not_say(tmp_path):
    kept, (function, calls) = Kept(tmp_path / "file.json"), counted(2)
    found = kept(function)
    assert not kept.holds(found, 1) and not calls and not kept.results
    assert not (tmp_path / "file.json").exists()
    assert found(1) == 2 and kept.holds(found, 1) and len(calls) == 2


def test_what_is_handed_out_can_be_changed_and_others_results_stay(tmp_path, monkeypatch):
    file = tmp_path / "file.json"
    one, other = (Kept(file)(lambda x: [x]) for _ in range(2))
    one(1).append("spoiled")
    other(2), one(3)
    assert [*json.loads(file.read_text()).values()] == [[1], [2], [3]]
    assert one(1) == [1]
    monkeypatch.setenv("DPLIT_ANEW", "1")
    Kept(file)(lambda x: [-x])(2)
    assert [*json.loads(file.read_text()).values()] == [[1], [-2], [3]]
    other(4)  # read 2 before it was measured anew, and writes 4 alone
    assert [*json.loads(file.read_text()).values()] == [[1], [-2], [3], [4]]
    file.write_text("no JSON")
    with pytest.raises(ValueError, match="no kept results"):  # before anything is computed
        Kept(file)
