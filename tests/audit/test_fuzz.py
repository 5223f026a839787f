"""Whatever is handed to a public name, the answer is a result or a sentence of this library, and not a traceback out of numpy.

Calls are generated: most arguments are what the docstring asks for, some are of a wrong kind, shape or size. Counted is the
share of calls that end in somebody else's words: in an exception that no `raise` of this package has raised.
`python tests/audit/test_fuzz.py 150` prints the shares and the worst functions, here of 150 calls each.
"""

import ast
import contextlib
import functools
import importlib
import inspect
import io
import math
import re
import resource
import signal
import sys
import tempfile
import warnings
import zlib
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from unittest import mock

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dplit
from dplit import adaptation, k_tuples, max_cover

HOME = Path(dplit.__file__).parent
CEILING = 0.02  # the share of calls that end in foreign words may not be above this, in any room


# --- what is called ---


def public_names():
    """{room.name: function or class}, each as it is found on the face of its room."""
    found = {}
    for room in dplit.ROOMS:
        face = importlib.import_module(f"dplit.{room}")
        for name in face.__all__:
            thing = getattr(face, name)
            # contracts holds the words of signatures: they are called while a module is imported
            own = getattr(thing, "__module__", "") == "dplit.inputs.contracts"
            own |= (room, name) == ("command_line", "parse")  # argparse ends the program
            if (inspect.isfunction(thing) or inspect.isclass(thing)) and not own:
                found[f"{room}.{name}"] = thing
    return found


def is_error(thing):
    return inspect.isclass(thing) and issubclass(thing, Exception | Warning)


PUBLIC = {name: thing for name, thing in public_names().items() if not is_error(thing)}


# --- with what ---

JUNK = (
    *(None, "a word", "", b"bytes", True, 1j, object(), {}, {"a": 1}, (), range(3), {1, 2}),
    *(np.nan, np.inf, -np.inf, -1, 0, -0.5, 1e300, 1e-300, 2**63, 10**400, Fraction(1, 3)),
    *(np.float32(0.5), np.int8(3), np.datetime64("2020-01-01"), np.array(2.0)),
    *([], [[]], [1, 2, 3], [[1, 2], [3]], [["x", 1.0]], [None, 1.0], [[1.0, 2.0]] * 3),
    *(np.array([]), np.empty((0, 2)), np.empty((3, 0)), np.full((3, 2), np.nan)),
    *(np.full((3, 2), np.inf), np.full((3, 2), 1e300), -np.ones((3, 2)), np.zeros((2, 3, 4))),
    *(np.array([["a", "b"]]), np.array([None, 1], dtype=object), np.ones((3, 2), dtype=bool)),
    *(np.ma.masked_array([[1.0, 2.0]], mask=[[True, False]]), np.array([[1j, 2.0]])),
)


def constant(*args, **named):
    return 1.0


def asked_for(thing):
    """{parameter: its type, in the words of the docstring}"""
    found = re.findall(r"^([\w*, ]+?) : (.*)$", inspect.getdoc(thing) or "", re.M)
    return {name.strip("* "): said for names, said in found for name in names.split(",")}


def plausible(said, rng):
    """A value such as the docstring asks for."""
    if words := re.match(r"\{(.*?)\}", said):
        with contextlib.suppress(ValueError, SyntaxError):
            choices = ast.literal_eval(f"[{words[1]}]")
            return choices[rng.integers(len(choices))]
    pools = {
        "callable": lambda: constant,
        r"^list of tuple \(name, D": lambda: [("a pair", np.zeros((3, 2)), np.zeros((4, 2)))],
        r"^sequence of tuple \(columns": lambda: ((1, 2.0), (1, 1.0)),
        r"^tuple of int or None": lambda: (None,) * int(rng.integers(1, 3)),
        r"^type\b": lambda: float,
        r"array|matrix": lambda: rows(said, rng),
        r"\bestimator": lambda: dplit.NoisyLloyd(2, epsilon=1.0, delta=1e-6, radius=3.0),
        r"\bBits$": lambda: dplit.mechanisms.Bits(np.random.default_rng(0)),
        r"\bNoise$": lambda: dplit.mechanisms.Noise(int(rng.integers(5))),
        r"Generator$": lambda: np.random.default_rng(int(rng.integers(5))),
        r"Generator|seed": lambda: int(rng.integers(5)),
        r"\bint\b": lambda: int(rng.integers(1, 6)),
        r"\bbool\b": lambda: bool(rng.integers(2)),
        r"float|number": lambda: float(rng.choice([1e-6, 0.1, 0.5, 1.0, 2.0])),
        r"\bdict\b": lambda: {"a": 1.0},
        r"\bstr\b": lambda: "a word",
    }
    make = next((make for kind, make in pools.items() if re.search(kind, said)), None)
    return make() if make else JUNK[rng.integers(len(JUNK))]


def rows(said, rng):
    """An array with as many axes as the docstring says."""
    shape = re.search(r"\(([\w, +*]*)\)", said)
    axes = len([part for part in shape[1].split(",") if part.strip()]) if shape else 2
    sizes = {"k": 2, "d": 2, "n_features": 2, "n_clusters": 2}
    words = [part.strip() for part in shape[1].split(",")] if shape else []
    return rng.normal(size=[sizes.get(word, 6) for word in words[:axes]] or (6, 2))


def arguments(thing, said, rng):
    """Positional and named arguments for one call: at most two of them are junk, or all."""
    parameters = [
        p
        for p in inspect.signature(thing).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    how_many = rng.choice([0, 1, 2, 99], p=[0.1, 0.5, 0.2, 0.2])
    junk = {*rng.permutation(len(parameters))[:how_many]}
    # a rule's own words and limits come from this package
    if thing.__module__ == "dplit.inputs.checks":
        junk &= {0}
    args, named = [], {}
    for i, p in enumerate(parameters):
        if i in junk:
            value = JUNK[rng.integers(len(JUNK))]
        elif p.default is not p.empty and rng.integers(2):
            continue
        else:
            value = plausible(said.get(p.name, ""), rng)
        if p.kind is p.POSITIONAL_ONLY:
            args.append(value)
        else:
            named[p.name] = value
    return args, named


# --- how it ends ---


class TooLong(BaseException):
    """A call that would not end."""


@functools.cache
def raises(path):
    """Lines of a file that belong to a `raise`."""
    tree = ast.parse(Path(path).read_text("utf8"))
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Raise))
    return {line for node in nodes for line in range(node.lineno, node.end_lineno + 1)}


def is_our_own(error):
    """Whether a `raise` of this package has raised it."""
    at = error.__traceback__
    while at.tb_next:
        at = at.tb_next
    path = at.tb_frame.f_code.co_filename
    return Path(path).is_relative_to(HOME) and at.tb_lineno in raises(path)


def outcome(call, seconds=5):
    """How a call ends: "result", "sentence", "endless" or the foreign exception."""

    def stop(*_):
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)  # of CPU: other programs do not matter
        call()
        found = None
    except (TooLong, Exception) as error:
        found = error
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    if found is None or isinstance(found, TooLong):
        return "endless" if found else "result"
    return "sentence" if is_our_own(found) else f"{type(found).__name__}: {str(found)[:70]}"


def one_call(name, i):
    """The i-th call of a public name."""
    thing, rng = PUBLIC[name], np.random.default_rng([zlib.crc32(name.encode()), i])
    args, named = arguments(thing, asked_for(thing), rng)

    def call():
        made = thing(*args, **named)
        if inspect.isclass(thing) and hasattr(thing, "fit"):
            given, by_name = arguments(made.fit, asked_for(thing.fit), rng)
            made.fit(*given, **by_name)

    return call


@contextlib.contextmanager
def harmless(gibibytes=4):
    """Nothing is written outside a folder of its own, fetched, shown or said, and memory is bounded."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(stack.enter_context(tempfile.TemporaryDirectory())))
        stack.enter_context(mock.patch("sklearn.datasets.fetch_openml", side_effect=OSError))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(np.errstate(all="ignore"))
        stack.callback(resource.setrlimit, resource.RLIMIT_AS, limits)
        resource.setrlimit(resource.RLIMIT_AS, (used + gibibytes * 2**30, limits[1]))
        yield


def fuzz(names, n_calls):
    """{name: Counter of how its calls ended}"""
    ends = defaultdict(Counter)
    with harmless(), plt.rc_context({"backend": "agg"}):
        for name in names:
            for i in range(n_calls):
                ends[name][outcome(one_call(name, i))] += 1
                plt.close("all")
    return ends


def foreign(ends):
    """How many calls ended in somebody else's words."""
    return sum(ends.values()) - ends["result"] - ends["sentence"]


def by_room(ends):
    """{room: (foreign, all)}"""
    found = defaultdict(lambda: (0, 0))
    for name, counts in ends.items():
        room, (bad, n) = name.rpartition(".")[0], found[name.rpartition(".")[0]]
        found[room] = bad + foreign(counts), n + sum(counts.values())
    return dict(sorted(found.items(), key=lambda item: -item[1][0] / item[1][1]))


def report(ends, n_worst=60):
    for room, (bad, n) in by_room(ends).items():
        print(f"{room:36s} {bad:6d} of {n:6d} {bad / n:8.2%}")
    bad, n = (sum(pair) for pair in zip(*by_room(ends).values(), strict=True))
    print(f"{'all':36s} {bad:6d} of {n:6d} {bad / n:8.2%}")
    for name in sorted(ends, key=lambda name: -foreign(ends[name]))[:n_worst]:
        counts = Counter({k: v for k, v in ends[name].items() if k not in ("result", "sentence")})
        print(f"{name:50s} {foreign(ends[name]):4d}  {counts.most_common(2)}")


# --- what is promised ---


def allowed(n):
    """How many of n calls may end in foreign words: the ceiling, and three standard deviations of luck."""
    return CEILING * n + 3 * math.sqrt(CEILING * n) + 1


def check(n_calls):
    """Complaints about rooms above the ceiling."""
    ends = fuzz(PUBLIC, n_calls)
    for room, (bad, n) in by_room(ends).items():
        if bad > allowed(n):
            yield f"{room}: {bad} of {n} calls end in foreign words, {allowed(n):.0f} may"


def test_wrong_arguments_get_a_sentence_of_ours():
    assert not [*check(8)]


@pytest.mark.slow
def test_wrong_arguments_get_a_sentence_of_ours_in_fifty_thousand_calls():
    assert not [*check(-(-50_000 // len(PUBLIC)))]


def test_the_count_tells_our_words_from_others():
    assert outcome(lambda: dplit.geometry.clip_to_ball([[1.0]], -1.0)) == "sentence"
    assert outcome(lambda: dplit.geometry.clip_to_ball([[1.0]], 1.0)) == "result"
    assert outcome(lambda: np.zeros(-1)).startswith("ValueError: negative dimensions")
    assert outcome(lambda: dplit.geometry.clip_to_ball()).startswith("TypeError: clip_to_ball()")
    assert outcome(lambda: [None for _ in iter(int, 1)], seconds=0.1) == "endless"


def test_most_of_the_generated_calls_are_refused_and_some_are_not():
    ends = fuzz(["geometry.nearest", "accounting.gaussian_mu"], 60)
    for counts in ends.values():
        assert counts["sentence"] > 15 and counts["result"] > 0


class OfOnesOwn(dplit.estimators.PrivateKMeans):
    def __init__(self):
        super().__init__()


LEGAL = {
    "means of no group": (
        lambda: dplit.mechanisms.mean_in_ball(np.empty((0, 3)), np.empty(0), 2.0).shape,
        (0, 3),
    ),
    "a reference weight for each loss": (
        lambda: [*adaptation.profile_weights([0.25, 4.0], 1.0, p=[0.5, 1.0])],
        [1.0, 0.5],
    ),
    "gradients whose squares no float holds": (
        lambda: (
            adaptation.gradient_diameter(1.0, 0.0, 1e200)
            + adaptation.gradient_bound(1.0, 1e200, 0.0)
        ),
        6e200,
    ),
    "a predictor far outside": (lambda: [*adaptation.on_lattice([-1e300], 1.0)], [-(1 - 2.0**-26)]),
    "failures whose product no float holds": (
        lambda: k_tuples.paper_parameters(10**6, 1.0, 1e-200, 1e-200)[0],
        174,
    ),
    "no outliers": (
        lambda: 0 < k_tuples.rare_success(9, 0, 0, 2, 1.0, 1.0, 0.5)[1] < 1,
        True,
    ),
    "no cluster to keep": (
        lambda: [*max_cover.worth_keeping([0.0, 1e3, 0.0], 1.0, 0, n_public=9)],
        [1],
    ),
    "a subclass that calls its base": (
        lambda: OfOnesOwn().get_params(),
        {},
    ),
}


@pytest.mark.parametrize("case", LEGAL)
def test_what_is_legal_is_answered_at_the_ends_too(case):
    call, answer = LEGAL[case]
    assert call() == answer


if __name__ == "__main__":
    asked = sys.argv[2:]
    chosen = [name for name in PUBLIC if not asked or any(name.startswith(a) for a in asked)]
    report(fuzz(chosen, int(sys.argv[1])))
