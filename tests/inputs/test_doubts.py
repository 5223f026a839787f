"""Doubts come from public and released numbers alone, and before a charge where they are public."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from dplit import BoundedScaler, PEMeans, PrivacyBudget
from dplit.audit.observations import fitting, observe
from dplit.clustering import GridKMeans, HDPEMeans, MaxCoverKMeans, NoisyLloyd
from dplit.inputs import DoubtWarning
from dplit.inputs.columns import Column, said_of_missing
from dplit.inputs.doubts import (
    advise,
    check_inside,
    deciding,
    doubt,
    ends_of,
    held_doubts,
    looks_joined,
    of_one_value,
    said_of_ends,
    stopped,
)
from dplit.source_target import NeighborNoisyAverages, NoisyAverageSet

rng = np.random.default_rng(0)
PARIS = np.array([48.8, 2.3]) + rng.normal(0, 0.1, (60, 2))
KINDS = (
    lambda **more: NoisyAverageSet(t=50, epsilon=1.0, radius=8.0, random_state=0, **more),
    lambda **more: NeighborNoisyAverages(epsilon=1.0, radius=8.0, random_state=0, **more),
)


# ---------------------------------------------------------------- public points and the ball


@pytest.mark.parametrize("make", KINDS)
def test_a_target_far_outside_of_the_ball_is_refused_before_the_charge(make):
    budget = PrivacyBudget(4, 1e-5)
    for fit in (make().fit, lambda **tables: budget.fit(make(), **tables), make().check_tables):
        with pytest.raises(ValueError, match="Xt: all of its public rows lie outside the ball"):
            fit(Xs=PARIS, Xt=PARIS)
    assert budget.spent.epsilon == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", DoubtWarning)
        make(center=[48.8, 2.3]).fit(Xs=PARIS, Xt=PARIS.copy())


@pytest.mark.parametrize("make", KINDS)
def test_one_table_that_is_private_and_public_is_a_doubt(make):
    budget = PrivacyBudget(4, 1e-5)
    with pytest.raises(ValueError, match="in doubt before the charge: Xs and Xt are one table"):
        budget.fit(make(center=[48.8, 2.3]), Xs=PARIS, Xt=PARIS)
    assert not budget.ledger


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize(("cell", "what"), [(np.nan, "NaN"), ("x", "a word")])
def test_an_unusable_cell_of_a_public_target_is_named(make, cell, what):
    bad = PARIS.astype(object)
    bad[3, 1] = cell
    with pytest.raises(ValueError, match=rf"Xt: row 3, column 1 \(counted from 0\) .* is {what}"):
        make().fit(Xs=PARIS, Xt=bad)


@pytest.mark.parametrize("make", KINDS)
def test_a_target_mostly_outside_is_warned_of_before_the_charge(make):
    near = np.r_[PARIS, np.zeros((20, 2))]
    with pytest.warns(DoubtWarning, match="Xt: most of its public rows"):
        make().fit(Xs=PARIS, Xt=near)
    budget = PrivacyBudget(4, 1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DoubtWarning)
        with pytest.raises(DoubtWarning):
            budget.fit(make(), Xs=PARIS, Xt=near, accept_doubts=True)
        with pytest.raises(ValueError, match="in doubt before the charge: Xt: most of its"):
            budget.fit(make(), Xs=PARIS, Xt=near)
        assert budget.spent.epsilon == 0
        make().fit(Xs=PARIS, Xt=np.r_[PARIS[:19], np.zeros((20, 2))])


def test_where_the_lines_are_drawn():
    at = lambda *lengths: np.c_[lengths, np.zeros(len(lengths))]  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_inside(at(1.0, 1.0, 9e199), "P", "it", 1.0)
        check_inside(at(1 + 1e-9), "P", "it", 1.0)
    for points in (at(1.9, 1.9), at(1e200, 1e200, 1.5)):
        with pytest.warns(DoubtWarning, match="most of its public rows"):
            check_inside(points, "P", "it", 1.0)
    for points in (at(2.1), at(1e300, 3.0)):
        with pytest.raises(ValueError, match="P: all of its public rows"):
            check_inside(points, "P", "it", 1.0)


# ---------------------------------------------------------------- released centers


def test_ends_of_a_range():
    low, high = np.array([0.0, 0, 1]), np.array([100.0, 10, 2])
    sharp = np.full((2, 3), 1e-3)
    at = lambda *rows: ends_of(np.array(rows, dtype=float), sharp[: len(rows)], low, high)  # noqa: E731
    assert at([0.5, 5, 1], [0.1, 5, 2]) == ["low", "", "both"]
    assert at([99.5, 0, 1], [100, 10, 1]) == ["high", "both", "low"]
    assert at([3, 5, 1.5], [0, 9, 1.5]) == ["", "", ""]
    assert ends_of(np.zeros((2, 3)), None, low, high) == [""] * 3
    assert ends_of(np.zeros((0, 3)), sharp[:0], low, high) == [""] * 3
    noisy = np.array([[6.0, 1e-3, np.inf]] * 2)
    assert ends_of(np.zeros((2, 3)), noisy, low, high) == ["", "low", ""]


def test_two_codes_may_lie_at_both_ends_and_are_named_where_they_lie_at_one():
    """Mutation: every width counts as that of two codes, or none does."""
    found = [("a", "both", 1), ("b", "low", 1), ("c", "both", 2), ("d", "high", 50), ("e", "", 1)]
    low, high, both = said_of_ends(found)
    assert "column 'b' every cluster lies at the low end" in low and "two codes" in low
    assert "'d'" in high and "two codes" not in high
    assert "'c'" in both and "two codes" not in both and "'a'" not in both


def test_a_column_at_what_a_missing_cell_counts_as_is_told():
    """Mutations: ends are told twice, one cluster or an unknown error tells it, an output of a list moves the places."""
    columns = [
        Column("where", values=("a", "b")),
        Column("x", 0.0, 100.0, missing=40.0),
        Column("y", 0.0, 10.0, missing="drop"),
        Column("z", 5.0, 9.0, missing=5.0),
        Column("w", -1.0, 1.0),
    ]
    low, high = np.array([0, 0, 0, 0, 5, -1.0]), np.array([1, 1, 100, 10, 9, 1.0])
    at = np.array([[0.3, 0.7, 40, 5, 5, 0.0], [0.4, 0.6, 40.5, 5, 5, 0]])
    sharp = 0.001 * (high - low) * np.ones((2, 1))
    said = said_of_missing(at, sharp, columns, low, high)
    assert said.startswith("In column 'x' (40) every cluster lies at what a missing")
    half = low + (at - low) / 2  # scaled otherwise
    assert said_of_missing(half, sharp / 2, columns, low, (low + high) / 2) == said
    for other in (
        (at[:1], sharp[:1]),
        (at, None),
        (at, sharp * 11),
        (at + [[0, 0, 5, 0, 0, 0], [0] * 6], sharp),
    ):
        assert said_of_missing(*other, columns, low, high) == ""


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_pipeline_tells_that_most_cells_counted_as_missing(share):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(20, 90, 4000), "income": rng.uniform(0, 8e4, 4000)})
    table.loc[rng.random(4000) < share, "income"] = np.nan
    ends = {"age": 0, "income": 0}, {"age": 120, "income": 2e5}
    pipe = make_pipeline(
        BoundedScaler(*ends, missing={"income": "middle"}),
        NoisyLloyd(3, epsilon=4.0, delta=1e-6, radius=2**0.5, random_state=0),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pipe.fit(table)
    told = [
        str(said.message) for said in caught if "missing or unreadable cell" in str(said.message)
    ]
    assert len(told) == share


BITS = (np.random.default_rng(4).random((3000, 1)) < 0.001).astype(int)


@pytest.mark.parametrize("share", ["few", "half"])
@pytest.mark.parametrize("kind", [int, float, bool])
def test_columns_of_0_and_1_are_no_mistake(kind, share):
    """Mutations: the boundary of the ball is doubted for rows of a scaler; Booleans are doubted."""
    table = (BITS if share == "few" else np.arange(3000)[:, None] % 2).astype(kind)
    cost = {"epsilon": 2.0, "delta": 1e-6, "random_state": 0}
    scales = BoundedScaler([0], [1]), BoundedScaler(categories={0: [0, 1]})
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", DoubtWarning)
        PEMeans(3, bounds=([0], [1]), **cost).fit(table)
        for scale in scales if kind is int else scales[:1]:
            rows = scale.fit_transform(table)
            PEMeans(3, radius=scale.radius_, **cost).fit(rows)
    said = [str(one.message) for one in heard]
    assert not any("boundary of the ball" in one for one in said)
    assert all("same of two codes, such as 0 and 1" in one for one in said)
    assert len(said) == (share == "few") * (1 + (kind is not bool))


def test_a_wrong_unit_shows_through_a_scaler_by_the_name_of_its_column():
    """Mutation: rows of a scaler are not asked for ends."""
    frame = pytest.importorskip("pandas").DataFrame(people(1e-3), columns=["age", "income"])
    scale = BoundedScaler({"age": 0, "income": 0}, {"age": 120, "income": 2e5}).fit(frame)
    model = PEMeans(2, epsilon=2, delta=1e-6, radius=scale.radius_, random_state=0)
    with pytest.warns(DoubtWarning, match="note: PEMeans: In column 'age' every cluster") as caught:
        model.fit(scale.transform(frame))
    assert len(caught) == 1 and "two codes" not in str(caught[0].message)


def test_the_first_words_say_what_stops():
    """Mutation: the two kinds of sentences begin alike."""
    with pytest.warns(DoubtWarning, match="^in doubt: a"):
        doubt("a")
    with pytest.warns(DoubtWarning, match="^note: b"):
        advise("b")
    with pytest.warns(DoubtWarning, match="^note: b"), held_doubts() as held:
        doubt("a")
        advise("b")
    assert held == ["a"] and stopped(held, "say so").startswith("in doubt before the charge: a")


MODELS = (PEMeans, HDPEMeans, NoisyLloyd, MaxCoverKMeans)


def people(unit=1.0, n=4000):
    old = rng.integers(2, size=n)
    return np.c_[rng.normal(30 + 35 * old, 4) * unit, rng.normal(20e3 + 50e3 * old, 4e3)]


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_a_wrong_unit_shows_in_released_centers(kind):
    make = lambda: kind(  # noqa: E731
        2, epsilon=2, delta=1e-6, bounds=([0, 0], [120, 200e3]), random_state=0
    )
    with pytest.warns(
        DoubtWarning, match=r"In column 0 every cluster lies at the low end"
    ) as caught:
        make().fit(people(1e-3))
    assert len(caught) == 1 and caught[0].filename == __file__
    with pytest.warns(DoubtWarning, match="column 0 every cluster lies at the high end"):
        make().fit(people(1e3))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DoubtWarning)
        make().fit(people())
        fitted = make().fit(people(1e-3))  # paid for, so no error loses it
    assert fitted.cluster_centers_.shape == (2, 2)


def test_a_grid_says_so_too_and_names_the_column():
    frame = pytest.importorskip("pandas").DataFrame(people(1e-3), columns=["age", "income"])
    model = GridKMeans(2, epsilon=4, bounds=([0, 0], [120, 200e3]), random_state=0)
    with pytest.warns(DoubtWarning, match="In column 'age' every cluster"):
        model.fit(frame)


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
def test_noise_alone_raises_no_doubt(kind):
    """Few rows and a small budget: centers lie anywhere, at the ends of ranges too."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DoubtWarning)
        for seed in range(10):
            model = kind(
                2, epsilon=0.05, delta=1e-6, bounds=([0, 0], [120, 200e3]), random_state=seed
            )
            fitted = model.fit(people(n=50))
            from dplit.estimators.kmeans import say_ends

            say_ends(fitted)


def test_a_doubt_is_a_function_of_what_was_released():
    """Two tables, one model's attributes: what is said is the same."""
    from dplit.estimators.kmeans import say_ends

    make = lambda: PEMeans(  # noqa: E731
        2, epsilon=2, delta=1e-6, bounds=([0, 0], [120, 200e3]), random_state=0
    )
    with pytest.warns(DoubtWarning) as first:
        one = make().fit(people(1e-3))
    other = make().fit(people())
    vars(other).update(vars(one))
    with pytest.warns(DoubtWarning) as second:
        say_ends(other)
    assert str(first[0].message) == str(second[0].message)


@pytest.mark.parametrize("kind", [PEMeans, NoisyLloyd], ids=lambda kind: kind.__name__)
def test_neighbors_hear_the_same_doubt_where_the_released_outcomes_are_equal(kind):
    """The audit of behavior, on a table whose fit raises a doubt and whose neighbor has an extreme record."""
    model = kind(2, epsilon=2, delta=1e-6, bounds=([0, 0], [120, 200e3]), random_state=0)
    X = people(1e-3, n=1500)
    run = fitting(model)
    for record in ([1e300, -1e300], [120.0, 200e3], [0.0, 0.0]):
        seen, outcomes = observe(run, X, seed=0)
        assert any("every cluster lies at the low end" in str(said) for said in seen.warnings)
        other, _ = observe(run, np.r_[X, [record]], seed=0, outcomes=outcomes)
        assert other.warnings == seen.warnings and other == seen


def test_the_column_that_decides_alone():
    centers = np.array([[0.0, 0.0, 0.5, -0.5], [0.02, 0.01, -0.5, 0.5]])
    assert deciding(centers, [1, 2, 4]) == 2
    assert deciding(centers[:, [2, 0, 1]], [1, 2, 3]) == 0
    assert deciding(centers[:, 2:], [2]) is None and deciding(centers[:1], [1, 2, 4]) is None
    assert deciding(0.1 * centers, [1, 2, 4]) is None  # they hardly differ at all
    centers[0, 0] = 0.5
    assert deciding(centers, [1, 2, 4]) is None


# ---------------------------------------------------------------- lists


def test_lists_of_one_value():
    for joined in ("a,b", "north; south", "a|b", "a / b", "a\tb"):
        assert looks_joined(joined)
        with pytest.warns(DoubtWarning, match="has one value"):
            BoundedScaler(0, 1, categories={1: [joined]}).fit(np.zeros((2, 2), dtype=object))
    for single in ("north", "St. Gallen", "a/", ";", "/a", "", 7, "N/A", "km/h", "a/b/c"):
        assert not looks_joined(single)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            BoundedScaler(0, 1, categories={1: [single]}).fit(np.zeros((2, 2), dtype=object))
    assert of_one_value(Column("r", values=("a", "b"))) == of_one_value(Column("r", 0, 1)) == ""
    assert "none of them" in of_one_value(Column("r", values=("a",)))
    assert "did you mean several values" in of_one_value(Column("r", values=("a;b",)))


@pytest.mark.parametrize("make", [PEMeans, MaxCoverKMeans, NoisyLloyd, HDPEMeans])
def test_centers_on_the_boundary_of_the_ball_are_in_doubt(make):
    """Years and dollars in a ball of radius 1; the same table in a range for each column, or in a wide ball, is not."""
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(40, 10, 2000), rng.normal(5e4, 1e4, 2000)]
    cost = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
    with pytest.warns(DoubtWarning, match="boundary of the ball of radius 1:.*Pass bounds"):
        make(3, radius=1.0, **cost).fit(X)
    for known in ({"bounds": ([0, 0], [120, 2e5])}, {"radius": 1e5}):
        with warnings.catch_warnings():
            warnings.simplefilter("error", DoubtWarning)
            make(3, **known, **cost).fit(X)
