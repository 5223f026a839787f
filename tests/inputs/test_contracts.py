"""A signature is a contract: what annotations ask of arguments, who asks it, and what a docstring says of it."""

import functools
import inspect
import math
import pickle
import re
import sys
import types
import typing
import warnings
from typing import Annotated

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from dplit.inputs import PrivacyWarning, check_rows
from dplit.inputs import contracts as c
from dplit.inputs.contracts import completed, contract, contracts_of, face, rule_of
from dplit.inputs.declared import complete, declare, rules_of
from dplit.mechanisms import Noise

Rows = Annotated[
    ArrayLike,
    c.Rule(
        lambda value, name, owner, axes: check_rows(
            value, owner, name, ensure_min_samples=int("+" in axes.split()[0])
        ),
        "PRIVATE.",
        "array_like",
        "n+ d",
    ),
]
ANoise = Annotated[Noise, c.instance(Noise, "such as Noise()")]

SECRET = 837.25
GOOD_BAD = {
    "Count": (c.Count, [1, np.int8(3), 2**53], [0, True, 1.0, "1", None, 2**53 + 1]),
    "Whole": (c.Whole, [0, 5], [-1, 0.0, False]),
    "Rounds": (c.Rounds, [1, 2**20], [0, 2**20 + 1, 3.0]),
    "RowsPerPerson": (c.RowsPerPerson, [1, 2**20], [0, 2**20 + 1, 2.0]),
    "Seed": (c.Seed, [0, 2**32 - 1], [-1, 2**32, 0.5]),
    "Positive": (c.Positive, [1e-100, 1, 1e100], [0, -1, math.nan, math.inf, "1", True, [1.0]]),
    "NotNegative": (c.NotNegative, [0, 1e100], [-1e-9, math.inf, None]),
    "Finite": (c.Finite, [-1e100, 0, 3], [math.inf, math.nan, "0"]),
    "PositiveOrInf": (c.PositiveOrInf, [1e-100, math.inf], [0, math.nan]),
    "NotNegativeOrInf": (c.NotNegativeOrInf, [0, math.inf], [-1, math.nan]),
    "Exponent": (c.Exponent, [0, 700], [-1, 701]),
    "Share": (c.Share, [0, 0.5, 1], [-0.1, 1.1, None, "half"]),
    "OpenShare": (c.OpenShare, [0.5], [0, 1, None]),
    "Chance": (c.Chance, [1e-300, 0.5], [0, 1, math.nan]),
    "ChanceOrOne": (c.ChanceOrOne, [1e-300, 1], [0, 1.5]),
    "Numbers": (c.Numbers, [1.0, [1, 2], np.ones((2, 2))], ["a", [[1], [1, 2]], None]),
    "Epsilon": (c.Epsilon, [1e-100, 1.0, 3], [0, -1, math.inf, None, "1", 1e-200]),
    "Delta": (c.Delta, [1e-6], [0, 1, None, "small"]),
    "DeltaOrZero": (c.DeltaOrZero, [0, 1e-6], [1, -1e-9]),
    "Radius": (c.Radius, [1e-90, 4], [0, math.nan, None, [4]]),
    "Relation": (c.Relation, ["add_remove", "replace"], ["swap", None, 1]),
    "RandomState": (c.RandomState, [None, 3, np.random.default_rng(0)], ["seed", -1, 0.5]),
    "Flag": (c.Flag, [True, np.False_], [1, 0, None, "yes"]),
    "Text": (c.Text, ["a"], [1, None, b"a"]),
    "Function": (c.Function, [len], ["len", None]),
    "Table": (c.Table, [[[1, 2]], np.zeros((0, 2))], [[1, 2], [[math.nan]], np.ones((2, 0)), None]),
    "Vector": (c.Vector, [[1, 2], []], [[[1]], ["a"], None]),
    "Points": (c.Points, [[[1, 2]]], [[1, 2], np.zeros((0, 2)), [[math.inf]], None]),
    "Point": (c.Point, [[1, 2]], [[[1, 2]], [], None]),
    "Center": (c.Center, [None, [1, 2]], [[[1, 2]], [math.nan], "here"]),
    "Rows": (Rows, [[[1, 2]]], [[1, 2], np.zeros((0, 2)), [[math.nan, SECRET]], None]),
    "a Noise": (ANoise, [Noise(0)], [None, 0, Noise]),
    "between": (Annotated[float, c.between(0, 0.5, "[)")], [0, 0.4], [0.5, None]),
    "whole": (Annotated[int, c.whole(2, 9)], [2, 9], [1, 10]),
    "positive": (Annotated[float, c.positive("a length")], [1.0], [0, None, "a"]),
    "numbers": (Annotated[ArrayLike, c.numbers(0, 1)], [[0, 1], 0.5], [[0, 2], 2]),
    "words": (Annotated[str, c.one_of("a", "b")], ["a", "b"], ["c", None, 1]),
    "words and numbers": (Annotated[object, c.one_of(1, 2, "K")], [1, 2, "K"], [3, "L", True, []]),
    "each": (Annotated[list[int], c.each(c.Count)], [[1, 2], range(1, 3)], [[0], 1, "12", None]),
}


@pytest.mark.parametrize("name", GOOD_BAD)
def test_a_rule_accepts_what_it_asks_for_and_refuses_all_else_in_words_of_its_own(name):
    hint, good, bad = GOOD_BAD[name]

    @contract
    def asked(value: hint):
        return value

    for value in good:
        found = asked(value)
        assert not isinstance(found, np.generic)
        if value is not None and not isinstance(value, Noise | np.random.Generator):
            assert np.array_equal(found, value) or found is value
    for value in bad:
        with pytest.raises(
            (TypeError, ValueError), match="value|neighboring|random_state"
        ) as refused:
            asked(value)
        last = refused.traceback[-1]
        assert "dplit" in last.path.parts


def test_every_annotation_of_the_module_is_in_this_table():
    annotations = {
        n
        for n in c.__all__
        if typing.get_origin(getattr(c, n)) is Annotated and "Required" not in n
    }
    assert annotations <= {*GOOD_BAD} and len(annotations) > 25


def test_no_message_of_an_array_quotes_a_cell_or_a_number_of_rows():
    @contract
    def asked(X: Rows, T: Annotated[c.Table, "n d"], y: c.Vector, centers: c.Points):
        return len(X)

    X = np.full((37, 3), SECRET)
    fits = {"X": X, "T": X, "y": X[:, 0], "centers": X[:5]}
    wrong = [("T", X[:36]), ("T", X[:, :2]), ("y", X), ("y", X[:36, 0]), ("centers", X[:5, :2])]
    wrong += [("X", [[SECRET, "a"]]), ("X", np.where(X == X[0], math.nan, X)), ("X", X.tolist()[0])]
    wrong += [("T", [[SECRET], [SECRET, 2]]), ("T", X * math.inf), ("y", ["837.25 a"] * 37)]
    assert asked(**fits) == 37
    for name, value in wrong:
        with pytest.raises((TypeError, ValueError)) as refused:
            asked(**fits | {name: value})
        said = re.sub(r"at least 1|1e150", "", str(refused.value))
        assert not re.search(r"837|3[67]", said), said
        assert "asked" in said


def test_axes_of_one_name_agree_whatever_kind_of_array_has_them():
    @contract
    def asked(X: Rows, centers: c.Points, center: c.Center = None, n_bins: c.Count = 2, *,
              counts: Annotated[c.Vector, "n_bins"] | None = None):  # fmt: skip
        return centers, center

    X, centers = np.ones((4, 3)), np.ones((2, 3))
    assert asked(X, centers, [0, 0, 0], counts=[1, 2])[1].flags.writeable is False
    for named, said in (
        ({"centers": np.ones((2, 4))}, "centers: asked needs .* \\(k, d\\), with d as in X"),
        ({"center": [0.0]}, "center: asked needs .* \\(d\\), with d as in X"),
        ({"counts": [1, 2, 3]}, "counts: .* with n_bins as given"),
        ({"n_bins": 3, "counts": [1, 2]}, "counts: .* with n_bins as given"),
    ):
        with pytest.raises(ValueError, match=said):
            asked(**{"X": X, "centers": centers} | named)

    @contract
    def square(A: Annotated[c.Table, "d+ d"], shape: Annotated[c.Points, "2 k"] | None = None):
        return A.shape

    assert square([[1, 2], [3, 4]], np.ones((2, 7))) == (2, 2)
    for args in (([[1, 2]],), (np.ones((0, 0)),), (np.eye(2), np.ones((3, 7)))):
        with pytest.raises(ValueError, match="axes with the same name"):
            square(*args)


def plain(n: c.Count, share: c.Share = 0.5, *, radius: c.Radius | None = None, tag="a"):
    """A sentence.

    Parameters
    ----------
    share : float
        In its own words.
    tag : str
    """
    return n, share, radius, tag


outside = contract(plain)


def test_a_call_by_position_and_by_name_is_converted_once():
    assert outside(np.int8(3)) == (3, 0.5, None, "a")
    assert outside(3, np.float32(1), radius=2, tag=None) == (3, 1.0, 2.0, None)
    assert outside(share=0, n=3) == (3, 0.0, None, "a")
    assert all(
        type(v) in (int, float, str, type(None)) for v in outside(np.int64(3), np.float64(0))
    )
    assert outside.plain is plain and [*outside.rules] == ["n", "share", "radius"]


def test_a_default_is_checked_too():
    @contract
    def wrong(n: c.Count = 0, epsilon: c.Epsilon = None):
        return n

    with pytest.raises(ValueError, match="n=0: wrong needs at least 1"):
        wrong()
    with pytest.raises(ValueError, match="epsilon=None: wrong needs a public epsilon"):
        wrong(1)


def positional(a: c.Count, /, b: c.Count = 2, *rest: c.Count, flag: c.Flag = True, **more: c.Share):
    return a, b, rest, flag, more


def test_arguments_without_names_and_without_an_end_are_checked_each():
    found = contract(positional)
    assert found(1) == (1, 2, (), True, {})
    assert found(1, 2, np.int8(3), 4, flag=False, x=1, y=0) == (
        1,
        2,
        (3, 4),
        False,
        {"x": 1.0, "y": 0.0},
    )
    for args, named, said in (
        ((0,), {}, "a=0: positional"),
        ((1, 2, 3, 0), {}, "rest=0: positional"),
        ((1,), {"y": 2}, "y=2: positional"),
    ):
        with pytest.raises(ValueError, match=said):
            found(*args, **named)


class Thing:
    """With methods that check."""

    @contract
    def __init__(self, width: c.Count = 64):
        self.width = width

    @contract
    def scaled(self, by: c.Positive):
        """A number."""
        return self.width * by

    @staticmethod
    @contract
    def of(n: c.Count):
        return n

    @classmethod
    @contract
    def made(cls, width: c.Count):
        return cls(width)


class Other(Thing):
    """Its errors name it."""


def test_methods_are_contracts_and_messages_name_the_class():
    assert Thing(np.int8(3)).scaled(2) == 6.0 and Other.made(4).width == 4 and Thing.of(2) == 2
    for call, said in (
        (lambda: Thing("wide"), "width='wide': Thing needs"),
        (lambda: Other(0), "width=0: Other needs"),
        (lambda: Thing().scaled(0), "by=0: Thing.scaled needs"),
        (lambda: Thing.of(0), "n=0: Thing.of needs"),
        (lambda: Thing.made(0), "width=0: Thing.made needs"),
    ):
        with pytest.raises((TypeError, ValueError), match=re.escape(said)):
            call()
    with pytest.raises(TypeError, match="below @staticmethod"):
        contract(staticmethod(len))


FUNCTIONS = [plain, positional, Thing.scaled.plain]
values = st.lists(st.just(1), max_size=5)
named = st.dictionaries(
    st.sampled_from(["n", "share", "radius", "tag", "a", "b", "flag", "x", "by"]), st.just(1)
)


@given(st.sampled_from(FUNCTIONS), values, named)
def test_arguments_that_do_not_fit_are_refused_in_pythons_own_words(function, args, named):
    said = []
    for f in (function, contract(function)):
        try:
            f(*args, **named)
            said.append("")
        except TypeError as error:
            said.append(str(error) if f"{function.__qualname__}()" in str(error) else "")
        except (ValueError, AttributeError):
            said.append("")
    assert said[0] == said[1]


def test_a_face_replaces_its_functions_and_nothing_else(monkeypatch):
    room = types.ModuleType("dplit_room")
    room.plain, room.Thing, room.LIMIT, room.free, room.cached = (
        plain,
        Thing,
        3,
        len,
        functools.lru_cache(plain),
    )
    room.hidden = positional
    room.__all__ = ["plain", "Thing", "LIMIT", "free", "cached"]
    monkeypatch.setitem(sys.modules, "dplit_room", room)
    face("dplit_room")
    kept = dict(vars(room))
    face("dplit_room")
    assert (
        kept == vars(room)
        and room.Thing is Thing
        and room.free is len
        and room.hidden is positional
    )
    assert room.plain.plain is plain and room.plain.__module__ == "dplit_room"
    assert pickle.loads(pickle.dumps(room.plain)) is room.plain
    assert pickle.loads(pickle.dumps(plain)) is plain
    with pytest.raises(ValueError, match="n=0"):
        room.cached(0)
    names = {"plain", "cached", "Thing.__init__", "Thing.scaled", "Thing.of", "Thing.made"}
    assert {*contracts_of("dplit_room")} == {*contracts_of(room)} == names
    assert [*contracts_of(room)["Thing.scaled"].rules] == ["by"]
    for wrong in ("no such room", 3):
        with pytest.raises(TypeError, match="a face"):
            contracts_of(wrong)


def quoted(
    X: "Annotated[ArrayLike, c.Rule(c.check_points, '', 'array_like')] | None" = None,
    y: "ArrayLike" = 0,
):
    """Annotations in quotes are read too."""


def test_signature_and_help_show_plain_types():
    expected = "(n: int, share: float = 0.5, *, radius: Optional[float] = None, tag='a')"
    assert str(inspect.signature(outside)).replace("float | None", "Optional[float]") == expected
    assert typing.get_type_hints(outside)["n"] is int
    assert inspect.getsource(outside) == inspect.getsource(plain)
    assert (
        str(inspect.signature(contract(quoted)))
        == "(X: 'ArrayLike | None' = None, y: 'ArrayLike' = 0)"
    )
    assert "Annotated" not in str(inspect.signature(Thing)) + str(inspect.signature(Thing.scaled))

    def unresolved(n: "Unknown"):  # noqa: F821
        pass

    with pytest.raises(NameError, match="Unknown"):
        contract(unresolved)


def test_an_annotation_that_cannot_be_asked_is_refused():
    for hint, said in (
        (list[c.Count], "inside another type is not applied"),
        (c.Count | str, "inside another type is not applied"),
        (c.Count | c.Text | None, "inside another type is not applied"),
        (tuple[list[c.Count], int], "inside another type is not applied"),
        (Annotated[np.ndarray, "n d"], "axes without a rule"),
        (Annotated[c.Count, "n"], "have axes"),
    ):
        with pytest.raises(TypeError, match=said):
            rule_of(hint)
    with pytest.raises(TypeError, match="each needs a Rule"):
        c.each(int)
    for hint in (int, int | None, list[int], Annotated[int, 3], ArrayLike):
        assert rule_of(hint) is None


def test_a_docstring_is_completed_in_order_and_keeps_what_it_says():
    said = outside.__doc__
    assert said == inspect.getdoc(outside)
    names = re.findall(r"^(\w+) : .*$", said, re.M)
    assert names == ["n", "share", "radius", "tag"]
    assert "share : float\n    In its own words.\n" in said and "radius : float, optional\n" in said
    assert said.endswith(
        "Raises\n------\nTypeError, ValueError\n    If an argument has the wrong type or lies outside its range."
    )
    words = {name: rule.entry(name) for name, rule in outside.rules.items()}
    assert completed(said, ["n", "share", "radius", "tag"], words) == said
    assert completed("A sentence.").startswith("A sentence.\n\nRaises\n------\n")
    full = "S.\n\nReturns\n-------\nint\n\nNotes\n-----\nText\n\nReferences\n----------\nA, B"
    done = completed(full, ["a"], {"a": "a : int\n    Of it."})
    assert re.findall(r"^(\w+)\n-", done, re.M) == [
        "Parameters",
        "Returns",
        "Raises",
        "Notes",
        "References",
    ]
    own = "S.\n\nRaises\n------\nKeyError\n    Its own."
    assert completed(own) == own
    joint = "S.\n\nParameters\n----------\na, c : int\n    Two."
    order = {name: f"{name} : int" for name in "abcd"}
    assert re.findall(r"^([\w, ]+) :", completed(joint, order, order), re.M) == ["a, c", "b", "d"]


def test_a_parameter_that_has_no_end_is_described_once():
    @contract
    def f(*sizes: c.Count):
        """S.

        Parameters
        ----------
        *sizes : int
            Its own words.
        """

    assert f.__doc__.count("sizes") == 1


class Estimator(BaseEstimator):
    """Says what is special.

    Parameters
    ----------
    n_votes : int, optional
        Special.

    References
    ----------
    Nobody.
    """

    def __init__(
        self,
        n_clusters: c.Count = 8,
        *,
        epsilon: c.RequiredEpsilon = None,
        center: c.Center = None,
        n_votes: c.Rounds | None = None,
        variant: Annotated[str, c.one_of("extension", "paper")] = "extension",
        free: "ArrayLike | None" = None,
    ):
        self.n_clusters, self.epsilon, self.center = n_clusters, epsilon, center
        self.n_votes, self.variant, self.free = n_votes, variant, free


def test_an_estimators_annotations_are_its_rules_and_its_docstring_is_completed():
    rules = rules_of(Estimator)
    assert [*rules] == ["n_clusters", "epsilon", "center", "n_votes", "variant"]
    twin = declare(Estimator(np.int8(3), epsilon=1, free="x"), rules)
    assert (type(twin.n_clusters), type(twin.epsilon), twin.n_votes, twin.free) == (
        int,
        float,
        None,
        "x",
    )
    for wrong, said in (
        ({"epsilon": None}, "epsilon=None: Estimator needs a public epsilon"),
        ({"n_votes": 0}, "n_votes=0: Estimator"),
        ({"variant": "other"}, 'Estimator takes "extension" or "paper"'),
    ):
        with pytest.raises(ValueError, match=said):
            declare(Estimator(**{"epsilon": 1.0} | wrong), rules)
    assert complete(Estimator) is Estimator
    said = Estimator.__doc__
    assert complete(Estimator).__doc__ == said
    assert re.findall(r"^(\w+) : ", said, re.M) == (
        ["n_clusters", "epsilon", "center", "n_votes", "variant", "spent_", "n_features_in_"]
    )
    assert re.findall(r"^(\w+)\n-", said, re.M) == [
        "Parameters",
        "Attributes",
        "Raises",
        "References",
    ]
    assert "PUBLIC number of centers" in said and 'variant : {"extension", "paper"}' in said
    assert "Annotated" not in str(inspect.signature(Estimator))
    assert rules_of(Estimator).keys() == rules.keys()  # the annotations are still there
    assert Estimator(3, epsilon=2.0).get_params()["epsilon"] == 2.0
    assert rules_of(type("Bare", (), {})) == {}


@pytest.mark.parametrize("delta", [5e-324, 1e-307, np.nextafter(1e-300, 0)])
def test_a_delta_whose_parts_would_be_no_floats_is_refused(delta):
    """Mutation: no least delta; max cover divided 1e-307 into parts of 0, and stated an infinite epsilon after the charge."""
    for rule, zero in ((c.Delta, ""), (c.DeltaOrZero, ", or 0")):

        @contract
        def asked(delta: rule):
            return delta

        with pytest.raises(ValueError, match=f"at least 1e-300{zero}, since"):
            asked(delta)
        assert asked(1e-300) == 1e-300


def test_a_warning_of_a_rule_points_to_the_caller():
    @contract
    def asked(delta: c.Delta):
        return delta

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        asked(0.5)
    assert [w.category for w in found] == [PrivacyWarning] and found[0].filename == __file__
