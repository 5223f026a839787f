"""What is public is converted once, and refused before anything is spent; what is private reaches no message."""

import copy
import inspect
import math
import warnings
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from scipy import sparse

import dplit
from dplit import (
    CnvxAdap,
    CovariateShiftClassifier,
    CovariateShiftRegressor,
    GridKMeans,
    HDPEMeans,
    KAverages,
    KNoisyCenters,
    KTupleGaussianMixture,
    KTupleKMeans,
    LabelShiftClassifier,
    MaxCoverKMeans,
    NCnvxAdap,
    NeighborNoisyAverages,
    NoisyAverageSet,
    NoisyLloyd,
    PEMeans,
    PrivacyBudget,
    SourceTargetKMedoids,
    StableTupleMean,
)
from dplit.inputs import (
    BoundedScaler,
    PrivacyWarning,
    UnreadableRecords,
    check_rows,
    checks,
    declared,
    map_blocks,
    quantize,
)
from dplit.inputs.checks import check_epsilon, check_points, rounded_down
from dplit.inputs.declared import ABSENT
from dplit.inputs.numbers import as_float64
from dplit.inputs.tables import check_columns, one_each
from dplit.mechanisms import Noise

pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
pytestmark = [
    pytest.mark.filterwarnings("ignore::dplit.inputs.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore:most of the public"),
]

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 2))
Y = X @ [1.0, -0.5]
T = np.array([-5.0, 5.0])[:, None] + 0.1 * rng.normal(size=(600, 2, 1))
PRICE = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
BALL = {"n_clusters": 2, "radius": 4.0, **PRICE}
REACH = {"radius": 4.0, "weight_radius": 4.0, **PRICE}
ROWS, TUPLES = {"X": X}, {"T": T}
PAIR, LABELLED = {"Xs": X, "Xt": X + 0.1}, {"Xt": X, "yt": Y, "Xs": X + 0.1, "ys": Y}
WORDS = LABELLED | {"yt": (Y > 0).astype(int), "ys": (Y > 0).astype(int)}


def unlabeled(tables):
    return {name: table for name, table in tables.items() if name != "yt"}


# (estimator, parameters, tables)
FITS = {
    "NoisyLloyd": (NoisyLloyd, BALL, ROWS),
    "NoisyLloyd, mean": (NoisyLloyd, BALL | {"init": "mean"}, ROWS),
    "NoisyLloyd, cells": (NoisyLloyd, BALL | {"init": "cells"}, ROWS),
    "GridKMeans": (GridKMeans, BALL | {"delta": 0.0}, ROWS),
    "NoisyLloyd, pure": (NoisyLloyd, BALL | {"delta": 0.0}, ROWS),
    "MaxCoverKMeans": (MaxCoverKMeans, BALL | {"finest": 0.2}, ROWS),
    "MaxCoverKMeans, printed": (
        MaxCoverKMeans,
        BALL | {"variant": "paper", "n_public": 400, "neighboring": "replace"},
        ROWS,
    ),
    "KTupleKMeans": (KTupleKMeans, BALL, ROWS),
    "KTupleGaussianMixture": (KTupleGaussianMixture, BALL, ROWS),
    "PEMeans": (PEMeans, BALL | {"n_refine": 2}, ROWS),
    "PEMeans, votes": (PEMeans, BALL | {"n_votes": 3}, ROWS),
    "PEMeans, printed": (PEMeans, BALL | {"variant": "paper", "n_public": 400}, ROWS),
    "HDPEMeans": (HDPEMeans, BALL | {"n_components": 1, "n_refine": 2}, ROWS),
    "StableTupleMean": (StableTupleMean, PRICE, TUPLES),
    "KNoisyCenters": (KNoisyCenters, PRICE, TUPLES),
    "KAverages": (
        KAverages,
        PRICE | {"epsilon": 8.0, "radius": 9.0, "min_radius": 0.1, "too_few": True},
        {"T": np.tile(T, (8, 1, 1))},
    ),
    "NoisyAverageSet": (NoisyAverageSet, PRICE | {"t": 20, "radius": 4.0}, PAIR),
    "NeighborNoisyAverages": (NeighborNoisyAverages, PRICE | {"radius": 4.0}, PAIR),
    "CnvxAdap": (CnvxAdap, REACH | {"target_bound": 4.0}, LABELLED),
    "CnvxAdap, printed": (CnvxAdap, REACH | {"target_bound": 4.0, "variant": "paper"}, LABELLED),
    "NCnvxAdap": (NCnvxAdap, REACH | {"classes": [0, 1]}, WORDS),
    "NCnvxAdap, printed": (NCnvxAdap, REACH | {"classes": [0, 1], "variant": "paper"}, WORDS),
    "LabelShiftClassifier": (LabelShiftClassifier, {"epsilon": 1.0, "random_state": 0}, WORDS),
    "CovariateShiftRegressor": (CovariateShiftRegressor, PRICE, unlabeled(LABELLED)),
    "CovariateShiftClassifier": (CovariateShiftClassifier, PRICE, unlabeled(WORDS)),
}
every = pytest.mark.parametrize("name", FITS)
COUNTS = {"n_clusters", "n_iter", "n_components", "n_lloyd", "n_picks", "n_votes", "n_refine"}
COUNTS |= {"population", "n_public", "n_tuples", "t", "n_cells", "n_bins"}
PRICES = {"epsilon", "delta"}
BOUNDS = {"radius", "weight_radius", "target_bound", "min_radius"}


def make(name, **changes):
    kind, params, tables = FITS[name]
    return kind(**params | changes), tables


def parameters(name, wanted):
    return sorted(wanted & set(inspect.signature(FITS[name][0]).parameters))


# --- rules that convert


@pytest.mark.parametrize("name", sorted({kind.__name__ for kind, *_ in FITS.values()}))
def test_every_parameter_has_a_rule(name):
    kind, asked = getattr(dplit, name), []

    def note(estimator, rules):
        asked.append(set(rules))
        raise InterruptedError

    (model, _) = next(make(n) for n, fit in FITS.items() if fit[0] is kind)
    with mock.patch.object(inspect.getmodule(kind._declared), "declare", note):
        with pytest.raises(InterruptedError):
            model._declared()
    assert asked == [set(model.get_params())]


@every
def test_a_fit_computes_with_plain_values(name):
    model, _ = make(name)
    given = model._declared()
    plain = int, float, str, bool, tuple, np.ndarray, type(None)
    for parameter in given.get_params():
        value = getattr(given, parameter)
        assert type(value) in plain, (parameter, value)
        assert (
            not isinstance(value, np.ndarray) or not value.flags.writeable or parameter == "classes"
        )


SMALL = [np.uint8, np.int8, np.float16, np.float32, np.longdouble, Fraction]


@every
@pytest.mark.parametrize("kind", SMALL)
def test_no_type_of_number_makes_a_fit_cost_more_than_its_cost(name, kind):
    """129 rounds wrap in 8 bits; prices lose digits in 16 and are not floats as fractions."""
    whole = kind in (np.uint8, np.int8)
    values = {"n_clusters": 2, "n_components": 2, "delta": 1e-5, "epsilon": 0.1}
    for parameter in parameters(name, COUNTS if whole else PRICES | BOUNDS):
        typed = kind(values.get(parameter, 127 if kind is np.int8 else 129 if whole else 3))
        model, tables = make(name, **{parameter: typed})
        budget = PrivacyBudget(epsilon=1e6, delta=0.9)
        try:
            budget.fit(model, **tables)
        except (TypeError, ValueError) as refused:
            assert len(str(refused)) > 20 and len(budget.ledger) == 0, (parameter, refused)
            continue
        if model.privacy_cost().is_upper_bound:
            # a receipt is rounded up in its last digits
            assert model.spent_.epsilon <= model.epsilon * (1 + 1e-12), (parameter, typed)
            assert model.spent_.delta <= model.delta


@every
@pytest.mark.parametrize("kind", [np.float16, np.float64, Fraction])
def test_a_count_is_a_whole_number_or_refused(name, kind):
    for parameter in parameters(name, COUNTS):
        model, _ = make(name, **{parameter: kind(2)})
        with pytest.raises((TypeError, ValueError), match=parameter):
            model._declared()


LONG = {
    "an int": 10**400,
    "beyond the digits that Python writes": 10**5000,
    "and below 0": -(10**5000),
    "a fraction": Fraction(-(10**300), 3**200),
}


@pytest.mark.parametrize("long", LONG.values(), ids=LONG)
@every
def test_a_long_number_is_refused_in_a_short_sentence(name, long):
    """Mutations: the number is printed in full; Python's limit of digits is met while a message is made."""
    for parameter in parameters(name, PRICES | BOUNDS | COUNTS):
        model, _ = make(name, **{parameter: long})
        with pytest.raises((TypeError, ValueError), match=f"^{parameter}=") as told:
            model._declared()
        assert len(str(told.value)) < 250


def test_costs_are_rounded_down_whatever_their_type():
    for value in (Fraction(1, 10), np.longdouble("0.1"), Fraction(10**40 + 1, 3 * 10**40), 0.1):
        assert type(rounded_down(value)) is float and rounded_down(value) <= value
        assert math.nextafter(rounded_down(value), 1) > value
    assert check_epsilon(Fraction(1, 10), "epsilon", "somebody") < 0.1
    noise = Noise(0)
    noise.count(5, epsilon=np.float16(0.1))
    (release,) = noise.releases
    assert 1 / release.scale <= float(np.float16(0.1)) and release.epsilon == float(np.float16(0.1))


def test_public_points_are_copies_that_nobody_can_change():
    mine = np.zeros((2, 2))
    points = check_points(mine, "init", "somebody", (2, 2))
    mine[:] = 1
    assert not points.any() and not points.flags.writeable
    with pytest.raises(ValueError, match="finite public numbers"):
        check_points(np.ma.array(mine, mask=[[1, 0], [0, 0]]), "init", "somebody", (2, 2))


@every
def test_a_parameter_that_changes_during_a_fit_changes_nothing(name):
    (model, tables), (calm, _) = make(name), make(name)
    calm.fit(**tables)
    declare = declared.declare

    def meddle(estimator, rules):
        given = declare(estimator, rules)
        for parameter in COUNTS & set(model.get_params()):
            setattr(model, parameter, 3)
        return given

    with mock.patch.object(inspect.getmodule(type(model)._declared), "declare", meddle):
        model.fit(**tables)
    assert repr(model.spent_) == repr(calm.spent_)
    for attribute, value in vars(calm).items():
        if attribute.endswith("_") and attribute not in ("spent_", "estimator_"):
            assert np.array_equal(getattr(model, attribute), value), attribute


@every
def test_an_interrupted_fit_leaves_the_results_of_the_one_before(name):
    model, tables = make(name)
    model.fit(**tables)
    before = dict(vars(model))
    model.set_params(epsilon=2.0)
    add, passages, stop = Noise._add, [], [math.inf]

    def counted(self, *args, **options):
        passages.append(args)
        if len(passages) == stop[0]:
            raise KeyboardInterrupt
        return add(self, *args, **options)

    with mock.patch.object(Noise, "_add", counted):
        type(model)(**model.get_params()).fit(**tables)
        for stop[0] in {1, len(passages)}:
            passages.clear()
            with pytest.raises(KeyboardInterrupt):
                model.fit(**tables)
            assert vars(model) == before | {"epsilon": 2.0}


# --- refused before anything is spent


class Silent:
    """A table whose shape may be asked for, and nothing else."""

    def __init__(self, *shape):
        self.shape = shape

    def __array__(self, *args, **kwargs):
        raise AssertionError("a private cell was read")

    __len__ = __iter__ = __getitem__ = __array__


def refused_without_charge(model, match, error=(TypeError, ValueError), args=(), **tables):
    budget = PrivacyBudget(epsilon=1e6, delta=0.9)
    with pytest.raises(error, match=match):
        budget.fit(model, *args, **tables)
    assert budget.spent == (0.0, 0.0) and len(budget.ledger) == 0
    assert not hasattr(model, "spent_")


KMEANS = [n for n in FITS if FITS[n][2] is ROWS]


@pytest.mark.parametrize("name", KMEANS)
def test_what_is_public_of_a_table_is_refused_before_it_is_paid_for(name):
    model, _ = make(name, center=[0.0, 0.0, 0.0])
    refused_without_charge(model, "center.*shape", X=Silent(9, 2))
    model, _ = make(name)
    refused_without_charge(model, "Reshape your data", X=Silent(9))
    refused_without_charge(model, "(?i)sparse", X=sparse.csr_array(X))
    refused_without_charge(model, "X", X=None)
    refused_without_charge(model, "(?i)data|argument")
    if "init" in model.get_params() and model.get_params().get("variant") != "paper":
        model.set_params(init=np.zeros((2, 3)))
        refused_without_charge(model, "init.*shape", X=Silent(9, 2))


BEYOND = [
    ("NoisyLloyd", "n_clusters", 2**40, "GiB"),
    ("PEMeans", "n_clusters", 2**40, "GiB"),
    ("PEMeans, votes", "population", 2**45, "GiB"),
    ("MaxCoverKMeans", "n_clusters", 2**40, "GiB"),
    ("MaxCoverKMeans", "n_picks", 2**40, "GiB"),
    ("KTupleKMeans", "n_clusters", 2**20, "GiB|parts"),
    ("NoisyLloyd", "n_iter", 2**31, "at most 1000"),
    ("PEMeans", "n_refine", 2**31, "at most 1000"),
    ("PEMeans", "n_votes", 2**31, "at most 1000"),
    ("MaxCoverKMeans", "n_lloyd", 2**31, "at most 1048576"),
    ("CnvxAdap", "n_iter", 2**31, "at most 1048576"),
    ("NCnvxAdap", "n_iter", 2**31, "at most 1048576"),
    ("NoisyAverageSet", "t", 2**31 + 1, "at most 2147483648"),
    ("MaxCoverKMeans", "radius", 6e99, "1e90"),
    ("NoisyLloyd", "epsilon", 1e-300, "1e-100"),
    ("KNoisyCenters", "epsilon", 5e-324, "1e-100"),
    ("KAverages", "beta", 5e-324, "beta"),
    ("KAverages", "epsilon", 1e-12, "too few|tuples|spend|larger"),
]


@pytest.mark.parametrize(("name", "parameter", "value", "match"), BEYOND)
def test_more_than_the_machine_has_is_refused_before_it_is_paid_for(name, parameter, value, match):
    model, tables = make(name, **{parameter: value})
    refused_without_charge(model, match, **tables)


def test_noise_beyond_the_lattice_is_refused_before_it_is_paid_for():
    for name in KMEANS:
        model, tables = make(name, epsilon=1e-12, delta=1e-30)
        refused_without_charge(model, "epsilon|budget", **tables)


def test_a_histogram_larger_than_the_machine_is_refused():
    with pytest.raises(ValueError, match="GiB"):
        Noise(0).histogram([0, 1], 2**40, epsilon=1.0)
    with pytest.raises(ValueError, match="GiB"):
        Noise(0).sums(X, radius=1.0, n_groups=2**40, groups=np.zeros(400, int), epsilon=1.0)


def test_labels_and_sources_that_do_not_fit_are_refused_before_they_are_paid_for():
    for name in ("CnvxAdap", "NCnvxAdap"):
        model, tables = make(name)
        refused_without_charge(model, "belong together", **tables | {"ys": None})
        refused_without_charge(model, "columns of Xt", **tables | {"Xt": Silent(400, 3)})
        bad = np.where(X == X[3, 1], np.nan, X)
        refused_without_charge(model, "^Xs: row 3, column 1 .* is NaN", **tables | {"Xs": bad})
        refused_without_charge(model, "(?i)data|argument")
    for name in ("NoisyAverageSet", "NeighborNoisyAverages"):
        model, tables = make(name)
        refused_without_charge(model, "columns of Xt", Xs=Silent(9, 3), Xt=X)
        refused_without_charge(model, "Xt: ", Xs=Silent(9, 2), Xt=X * np.nan)
        refused_without_charge(model, "by name", args=(X, X))
        refused_without_charge(model, "by name", Xt=X)
        refused_without_charge(model, "(?i)data|argument")
        with pytest.raises(TypeError, match="by name"):
            model.fit(X, X)
        with pytest.raises(TypeError, match="two tables"):
            model.fit()
    for name in ("StableTupleMean", "KNoisyCenters", "KAverages"):
        model, _ = make(name)
        refused_without_charge(model, "shape", T=X)
        model, _ = make(name, **({"too_few": False} if name == "KAverages" else {}))
        refused_without_charge(model, "tuples", T=T[:5])
    with pytest.raises(TypeError, match="by name"):
        SourceTargetKMedoids(2).fit(X, X)
    with pytest.raises(ValueError, match="1e150"):
        SourceTargetKMedoids(2).fit(X * 1e200)


def test_a_receipt_names_the_table_that_it_protects():
    for name, words in (
        ("NoisyAverageSet", "protects: Xs"),
        ("CnvxAdap", "protects: the target"),
        ("LabelShiftClassifier", "protects: the target"),
        ("CovariateShiftClassifier", "protects: the target"),
    ):
        model, tables = make(name)
        assert words in str(model.fit(**tables).spent_)


# --- what is private reaches no message


SECRET = "HIV"
FRAMES = {
    "pandas category": pd.DataFrame({"a": pd.Categorical([SECRET, "no"] * 200), "b": 1.0}),
    "pandas string": pd.DataFrame({"a": pd.Series([SECRET, "no"] * 200, dtype="string"), "b": 1.0}),
    "pandas object": pd.DataFrame({"a": pd.Series([SECRET, 1.0] * 200, dtype=object), "b": 1.0}),
    "polars string": pl.DataFrame({"a": [SECRET, "no"] * 200, "b": [1.0] * 400}),
    "polars category": pl.DataFrame(
        {"a": pl.Series([SECRET, "no"] * 200, dtype=pl.Categorical), "b": [1.0] * 400}
    ),
    "numpy words": np.array([[SECRET, "1"]] * 400),
    "numpy objects": np.array([[SECRET, 1.0]] * 400, dtype=object),
    "lists": [[SECRET, 1.0]] * 400,
    "dates": np.full((400, 2), np.datetime64("1999-12-31")),
    "beyond float, and no number": [[10**400, None]] * 400,
}


def said(call, *args, **kwargs):
    """Every word that a call lets out: its error, what that drags along, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call(*args, **kwargs)
        except (TypeError, ValueError) as error:
            chain = [error, error.__cause__, error.__context__]
            return [str(e) for e in chain if e is not None] + [str(w.message) for w in caught]
    raise AssertionError("not refused")


def private_table(tables):
    return "Xs" if set(tables) == {"Xs", "Xt"} else "Xt" if "Xt" in tables else next(iter(tables))


ROWWISE = [n for n in FITS if FITS[n][2] is not TUPLES and n != "KAverages"]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", ROWWISE)
def test_words_in_a_table_are_refused_without_quoting_them(name, frame):
    model, tables = make(name)
    fitted, _ = make(name)
    fitted.fit(**tables)
    bad = tables | {private_table(tables): FRAMES[frame]}
    budget = PrivacyBudget(epsilon=1e6, delta=0.9)
    calls = [(model.fit, bad), (lambda **t: budget.fit(model, **t), bad)]
    calls += [(fitted.predict, {"X": FRAMES[frame]})] if hasattr(fitted, "predict") else []
    for call, arguments in calls:
        for sentence in said(call, **arguments):
            assert SECRET not in sentence and "1999" not in sentence and "overflow" not in sentence


@every
def test_masked_cells_are_refused_and_not_read(name):
    model, tables = make(name)
    key = private_table(tables)
    mask = np.zeros(tables[key].shape, dtype=bool)
    masked = np.ma.array(tables[key], mask=mask)
    if key != "T":
        model.fit(**tables | {key: masked})  # nothing is masked: the same table
    mask.flat[5] = True
    masked = np.ma.array(tables[key], mask=mask)
    assert "mask" in said(make(name)[0].fit, **tables | {key: masked})[0]
    if "yt" in tables:
        masked = np.ma.array(tables["yt"], mask=mask[:, 0] | mask[:, 1])
        assert "mask" in said(make(name)[0].fit, **tables | {"yt": masked})[0]


@pytest.mark.parametrize("frames", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
@pytest.mark.parametrize("name", ROWWISE)
def test_reordered_columns_are_refused(name, frames):
    model, tables = make(name)
    named = lambda A: frames({"age": A[:, 0], "income": A[:, 1]})  # noqa: E731
    turned = lambda A: frames({"income": A[:, 1], "age": A[:, 0]})  # noqa: E731
    wide = {k: named(v) if np.ndim(v) == 2 else v for k, v in tables.items()}
    model.fit(**wide)
    assert model.feature_names_in_.tolist() == ["age", "income"] and model.n_features_in_ == 2
    if hasattr(model, "predict"):
        model.predict(named(X))
        with pytest.raises(ValueError, match="(?i)feature names"):
            model.predict(turned(X))
    if len(wide) > 1:
        for key in ("Xs", "Xt"):
            model, _ = make(name)
            mixed = wide | {key: turned(tables[key])}
            refused_without_charge(model, "same columns in the same order", **mixed)


def test_a_center_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="center"):
        quantize(X, 1.0, center=np.array([np.nan, 0.0]))
    door = Noise(0)
    with pytest.raises(ValueError, match="center"):
        door.lengths(X, [1.0, 2.0], center=[np.nan, 0], epsilon=1.0)
    assert door.releases == ()


def test_absent_is_not_none():
    assert ABSENT is not None and issubclass(PrivacyWarning, UserWarning)


TYPED = {
    "string": pd.Series(["a", "b"] * 20, dtype="string"),
    "category of words": pd.Series(pd.Series(["a", "b"] * 20, dtype="string"), dtype="category"),
    "category of dates": pd.Series(pd.to_datetime(["2020", "2021"] * 20)).astype("category"),
    "period": pd.Series(pd.period_range("2020", periods=40, freq="D")),
    "interval": pd.Series(pd.interval_range(0, 40)),
    "polars string": pl.Series(["a", "b"] * 20),
    "polars categorical": pl.Series(["a", "b"] * 20, dtype=pl.Categorical),
    "polars enum": pl.Series(["a", "b"] * 20, dtype=pl.Enum(["a", "b"])),
}
NUMBERS = {
    "category": pd.Series([1, 2] * 20, dtype="category"),
    "nullable": pd.Series([1, 2] * 20, dtype="Int64"),
    "object": pd.Series([1, 2] * 20, dtype=object),
    "polars decimal": pl.Series([Decimal("1.5")] * 40),
}


def beside_ones(column):
    kind = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
    return kind({"a": [1.0] * 40, "b": column})


@pytest.mark.parametrize("kind", TYPED)
def test_a_column_of_a_type_that_is_no_number_is_refused_before_a_charge(kind):
    with PrivacyBudget(2.0, 1e-5) as budget:
        # what a category of pandas holds is not in its type: a doubt, whatever that is
        why = "may hold words" if kind.startswith("category") else "its entries are not numbers"
        with pytest.raises(ValueError, match=why):
            model = NoisyLloyd(2, epsilon=1.0, delta=1e-6, radius=3.0, random_state=0)
            budget.fit(model, beside_ones(TYPED[kind]))
        assert not budget.ledger
    scaler = BoundedScaler(low={"a": 0}, high={"a": 2}, categories={"b": ["a", "b"]})
    if kind in ("period", "interval"):
        with pytest.raises(ValueError, match="its entries are not numbers"):
            scaler.fit(beside_ones(TYPED[kind]))
    else:  # words are what its lists are for
        assert scaler.fit(beside_ones(TYPED[kind])).transform(beside_ones(TYPED[kind])).shape == (
            40,
            3,
        )


@pytest.mark.filterwarnings("ignore::dplit.inputs.PrivacyWarning")
@pytest.mark.parametrize("kind", NUMBERS)
def test_a_column_of_numbers_is_read_whatever_its_type_is_called(kind):
    NoisyLloyd(2, epsilon=1.0, delta=1e-6, radius=3.0, random_state=0).fit(
        beside_ones(NUMBERS[kind])
    )


@pytest.mark.parametrize("ball", [{"radius": 3.0}, {"bounds": ([-3, -3], [3, 3])}])
def test_two_columns_of_one_name_are_refused_in_words_before_a_charge(ball):
    twins = pd.DataFrame(np.ones((40, 2)), columns=["a", "a"])
    with PrivacyBudget(2.0, 1e-5) as budget:
        with pytest.raises(ValueError, match="two columns of a table have the same name") as caught:
            budget.fit(NoisyLloyd(2, epsilon=1.0, delta=1e-6, **ball), twins)
        assert type(caught.value) is ValueError and not budget.ledger
    with pytest.raises(ValueError, match="two columns of a table have the same name"):
        NoisyLloyd(2, epsilon=1.0, delta=1e-6, **ball).fit(twins)
    arrow = mock.Mock(spec=["columns", "shape"], columns=[[1.0], [1.0]], shape=(1, 2))
    assert check_columns(arrow, "T") == 2  # its columns are cells, which are not compared
    records = np.zeros(3, dtype=[("columns", float), ("dtypes", float)])  # no frame
    with pytest.raises(ValueError, match="its entries are not numbers"):
        NoisyLloyd(2, epsilon=1.0, delta=1e-6, radius=1.0).fit(records)
    with pytest.raises(ValueError, match="its entries are not numbers"):
        NoisyLloyd(2, epsilon=1.0, delta=1e-6, radius=1.0).fit(records.view(np.recarray))


def test_a_refusal_counts_no_rows_and_says_what_to_do_with_words():
    for rows, advice in (
        (np.zeros((0, 4)), "at least one record"),
        (np.zeros((7, 0)), "at least one column"),
        (np.array([["a", "b"]] * 7), "BoundedScaler"),
        (np.array([["2024-03-01"]] * 7, dtype="datetime64[D]"), "BoundedScaler"),
    ):
        with pytest.raises((ValueError, TypeError), match=advice) as caught:
            check_rows(rows, "anybody")
        assert "shape=(, 4)" not in str(caught.value) and "7" not in str(caught.value)


LARGEST = np.finfo(float).max


@pytest.mark.parametrize(
    "cell", [10**400, Fraction(10**400, 7), Decimal("1e400"), np.longdouble("1e400"), "1e400"]
)
def test_a_finite_number_beyond_float64_is_the_largest_one(cell):
    """A refusal would tell of its record, while 1e308 is answered."""
    for sign in (1, -1):
        far = f"-{cell}" if isinstance(cell, str) and sign < 0 else cell
        far = far if isinstance(cell, str) else sign * far
        for rows in ([[1, 2], [far, 0.5]], np.array([[1, 2], [far, 0.5]], dtype=object)):
            if isinstance(cell, str) and isinstance(rows, list):
                continue  # numbers of a list are no text
            assert check_rows(rows, "a test").tolist() == [[1, 2], [sign * LARGEST, 0.5]]
    if isinstance(cell, np.longdouble):
        wide = np.array([[1, 2], [-cell, 0.5]])
        assert as_float64(wide).tolist() == [[1, 2], [-LARGEST, 0.5]]
        assert np.concatenate([*map_blocks(lambda _, rows: rows, wide)])[1, 0] == -LARGEST


@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize(
    "cell",
    [
        np.nan,
        np.inf,
        -np.inf,
        None,
        "word",
        "inf",
        {},
        [],
        1j,
        np.datetime64("2020-01-01"),
        Decimal("nan"),
        Decimal("inf"),
        np.ma.masked,
    ],
    ids=repr,
)
def test_all_that_only_a_cell_tells_is_refused_by_one_class_and_one_sentence(cell, as_list):
    rows = np.array([[0.5, 1.0], [0.25, 2.0]], dtype=object)
    rows[1, 0] = cell
    with pytest.raises(UnreadableRecords) as caught:
        check_rows(rows.tolist() if as_list else rows, "a test")
    assert str(caught.value) == str(UnreadableRecords("X", "a test"))
    assert caught.value.__cause__ is None is caught.value.__context__


@pytest.mark.parametrize("last", [2**64, Decimal(9), Fraction(9, 2), np.longdouble(9)])
def test_a_number_in_a_list_does_not_change_how_others_are_read(last):
    """Nor whether they are: a list that is refused for one row tells of it."""
    rows = check_rows([[0.1, 0.2], [3, 0.4], [last, 0]], "anybody")
    assert rows.dtype.kind == "f" and np.array_equal(rows[:2], [[0.1, 0.2], [3, 0.4]])
    values = one_each([0.1, 3, last], "values")
    assert values.tolist() == [0.1, 3.0, float(last)]


def test_a_whole_number_in_a_list_may_be_of_any_size():
    for bins in (
        [1, 2**64],
        [1, -(2**64)],
        [True, 2**63],
        [np.True_, np.int8(-1)],
        [1, np.uint64(9)],
    ):
        assert Noise(0).histogram(bins, 3, epsilon=1e6).tolist() == [0, 1, 0]
    for bins in ([1, 2.0], [1, "2"], [1, None], [[1]], [1, np.ma.masked]):
        with pytest.raises(UnreadableRecords) as caught:
            Noise(0).histogram(bins, 3, epsilon=1.0)
        assert str(caught.value) == str(UnreadableRecords("the bins", "Noise"))
    for bins in ({1}, "12", 3, np.zeros(3), np.zeros((3, 1), dtype=int)):
        with pytest.raises(ValueError, match="must hold a whole number for each record"):
            Noise(0).histogram(bins, 3, epsilon=1.0)


def private_words():
    return [f"patient {i % 7}: positive" for i in range(40)]


@pytest.mark.parametrize(
    "fit",
    [
        lambda rows: NCnvxAdap(
            epsilon=1.0, delta=1e-6, radius=1.0, weight_radius=1.0, classes=rows
        ).fit(np.zeros((40, 2)), rows),
        lambda rows: NCnvxAdap(
            epsilon=1.0, delta=1e-6, radius=1.0, weight_radius=1.0, classes=[0, 1], loss=rows
        ).fit(np.zeros((40, 2)), rows),
        lambda rows: LabelShiftClassifier(rows, epsilon=1.0).fit(
            np.zeros((4, 2)), [0, 1, 0, 1], Xs=np.eye(2), ys=[0, 1]
        ),
        lambda rows: MaxCoverKMeans(
            2, epsilon=1.0, delta=1e-6, radius=1.0, n_public=40, shares=rows
        ).fit(np.zeros((40, 2))),
    ],
)
def test_a_table_in_place_of_a_public_argument_is_not_quoted(fit):
    with pytest.raises((ValueError, TypeError)) as caught:
        fit(private_words())
    assert "patient" not in str(caught.value)


NO_NUMBERS = {
    "words": np.array([["a", "b"]]),
    "dates": np.zeros((3, 2), "M8[s]"),
    "complex": np.zeros((3, 2), complex),
    "a frame with dates": pd.DataFrame({"a": pd.to_datetime(["2020-01-01"] * 3), "b": 1.0}),
    "a polars frame with dates": lambda: pl.DataFrame({"a": [date(2020, 1, 1)] * 3, "b": 1.0}),
    "a polars frame with times": lambda: pl.DataFrame({"a": [datetime(2020, 1, 1)] * 3, "b": 1.0}),
    "a polars frame with durations": lambda: pl.DataFrame({"a": [timedelta(1)] * 3, "b": 1.0}),
    "a series": pd.Series([1.0, 2.0]),
    "a dictionary": {"a": [1.0]},
    "a generator": (row for row in [[1.0]]),
    "a word": "people.csv",
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_what_is_seen_to_be_no_table_of_numbers_is_refused_before_it_is_paid_for(kind):
    budget, X = PrivacyBudget(2.0, 1e-5), NO_NUMBERS[kind]
    X = (
        X() if callable(X) else X
    )  # threads of polars, begun while tests are collected, would be missing in a fork
    with pytest.raises((TypeError, ValueError), match="X cannot be used"):
        budget.fit(NoisyLloyd(**BALL), X)
    assert budget.ledger == ()


# ---------------------------------------------------------------- seeds


class Odd(np.random.bit_generator.ISeedSequence):
    """A sequence of seeds that has no children."""

    def generate_state(self, n_words, dtype=np.uint32):
        return np.arange(1, n_words + 1, dtype=dtype)


class Cracked(np.random.SeedSequence):
    def spawn(self, n_children):
        raise OverflowError("42")


SEEDLESS = np.random.MT19937(0)
SEEDLESS._legacy_seeding(5)
NO_SEEDS = {
    "a Generator of a sequence without children": np.random.Generator(np.random.PCG64(Odd())),
    "a Generator seeded as of old": np.random.Generator(SEEDLESS),
    "a Generator of a RandomState's bits": np.random.Generator(np.random.RandomState(3)._bit_generator),
    "a sequence that cannot spawn": Cracked(0),
    "a bit generator": np.random.PCG64(0),
    "a word": "seed",
    "a negative number": -1,
    "a truth": True,
    "a truth of numpy": np.True_,
    "a list with a negative number": [1, -2],
    "a fraction": 0.5,
    "not a number": math.nan,
    "a dict": {},
    "an array of floats": np.ones(2),
    "a function": np.random.default_rng,
}  # fmt: skip


@pytest.mark.parametrize("name", NO_SEEDS)
def test_a_seed_that_cannot_be_used_is_refused_before_a_charge(name):
    for kind, parameters, tables in FITS.values():
        budget = PrivacyBudget(20.0, 1e-4)
        with pytest.raises((TypeError, ValueError), match="^random_state="):
            budget.fit(kind(**parameters | {"random_state": NO_SEEDS[name]}), **tables)
        assert not budget.ledger
    budget = PrivacyBudget(20.0, 1e-4)
    with pytest.raises((TypeError, ValueError), match="^random_state="):
        model = NoisyLloyd(**BALL | {"random_state": NO_SEEDS[name]})
        budget.search(model, {"n_iter": [1, 2]}, X, epsilon=1.0)
    with pytest.raises((TypeError, ValueError), match="^random_state="):
        Noise(NO_SEEDS[name])
    assert not budget.ledger


SEEDS = {
    "a number": 7,
    "a list": [1, 2],
    "a sequence": np.random.SeedSequence(7),
    "a child": np.random.SeedSequence(7).spawn(3)[2],
    "a Generator": np.random.default_rng(7),
    "a RandomState": np.random.RandomState(7),
}


@pytest.mark.parametrize("name", SEEDS)
def test_a_seed_is_checked_without_a_change_and_only_generators_advance(name):
    seed = SEEDS[name]
    first = [NoisyLloyd(**BALL | {"random_state": seed}) for _ in range(2)]
    twin = copy.deepcopy(seed)
    for model in first:
        model._declared()
        assert checks.check_random_state(seed) is seed
    for one in (np.random.Generator, np.random.RandomState):
        assert not isinstance(seed, one) or seed.bytes(8) == twin.bytes(8)
    a, b = (model.fit(X).cluster_centers_ for model in first)
    assert np.array_equal(a, b) == ("Generator" not in name and "RandomState" not in name)
    if "sequence" in name:
        assert seed.n_children_spawned == 0
        assert np.array_equal(a, NoisyLloyd(**BALL | {"random_state": 7}).fit(X).cluster_centers_)


POINTS = {
    "text": (np.array([["1", "2"]]), "Some entries are text: convert it"),
    "one word in a list": ([[1.0, "a"]], "Some entries are text"),
    "words as objects": (np.array([["a", "b"]], dtype=object), "Some entries are text"),
    "complex": (np.array([[1j, 2]]), "are of the type complex128"),
    "yes and no": (np.array([[True, False]]), "are of the type bool"),
    "objects": (np.array([[1, 2]], dtype=object), "are of the type object"),
    "another shape": (np.zeros(2), "has shape (2,)"),
    "other columns": (np.zeros((1, 3)), "has shape (1, 3)"),
    "no rows": (np.zeros((0, 2)), "has shape (0, 2)"),
    "rows of different lengths": ([[1.0, 2.0], [3.0]], "Its rows have different lengths"),
    "NaN": ([[1.0, np.nan]], "Some entries are NaN or infinite"),
    "infinity": ([[1.0, np.inf]], "Some entries are NaN or infinite"),
    "masked": (np.ma.array([[1.0, 2.0]], mask=[[1, 0]]), "Some entries are masked"),
}


@pytest.mark.parametrize("name", POINTS)
def test_public_points_say_what_is_wrong_with_them(name):
    """Mutation: one sentence for all. They are public, so what is wrong may be said."""
    given, words = POINTS[name]
    with pytest.raises(ValueError, match="init: PEMeans needs an array of finite public") as told:
        check_points(given, "init", "PEMeans", (None, 2))
    assert words in str(told.value) and "in the units of X. " in str(told.value)
