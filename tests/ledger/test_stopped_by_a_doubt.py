"""What is public and looks like a mistake stops a fit before its charge, unless it is accepted; sizes that no machine can do are refused."""

import time
import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from dplit import (
    BoundedScaler,
    CnvxAdap,
    GridKMeans,
    HDPEMeans,
    KTupleKMeans,
    MaxCoverKMeans,
    NCnvxAdap,
    NoisyLloyd,
    PEMeans,
    PrivacyBudget,
    SourceTargetKMedoids,
)
from dplit.estimators import lloyd
from dplit.geometry import covers
from dplit.inputs import DoubtWarning
from dplit.inputs.doubts import A_DAY, check_work, held_doubts

COST = {"epsilon": 0.5, "delta": 1e-6, "radius": 1.0, "random_state": 0}
GRID = {"epsilon": 0.5, "bounds": (-1.0, 1.0), "random_state": 0}
X = np.random.default_rng(0).uniform(-0.5, 0.5, (60, 2))
MINUTES = {
    "candidates": lambda: MaxCoverKMeans(12_000, **COST),
    "many clusters": lambda: PEMeans(20_000, **COST),
    "many columns": lambda: HDPEMeans(20_000, **COST),
    "a large population": lambda: PEMeans(8, population=10**6, n_votes=2, **COST),
    "as published": lambda: PEMeans(8, variant="paper", n_public=10**6, **COST),
    "a packing": lambda: NoisyLloyd(200_000, **COST),
    "around a mean": lambda: NoisyLloyd(200_000, init="mean", **COST),
    "cells": lambda: NoisyLloyd(3_000, init="cells", **COST),
    "picks": lambda: MaxCoverKMeans(10**5, **COST),
    "many picks": lambda: MaxCoverKMeans(8, n_picks=10**6, **COST),
    "parts": lambda: KTupleKMeans(400, **COST),
    "declared parts": lambda: KTupleKMeans(8, n_tuples=10**5, **COST),
}
Y = (X[:, 0] > 0).astype(int)
ADAPTED = {"weight_radius": 1.0, **COST}
ROUNDS = {
    "regression": lambda n: CnvxAdap(target_bound=1.0, alpha=0.5, n_iter=n, **ADAPTED),
    "classification": lambda n: NCnvxAdap(classes=[0, 1], n_iter=n, **ADAPTED),
    "refining": lambda n: MaxCoverKMeans(2, n_lloyd=n, **COST),
}
DAYS = {
    "many clusters": lambda: PEMeans(10**7, **COST),
    "many columns": lambda: HDPEMeans(10**7, **COST),
    "a large population": lambda: PEMeans(40, population=10**8, **COST),
    "as published": lambda: PEMeans(8, variant="paper", n_public=10**9, **COST),
    "a packing": lambda: NoisyLloyd(10**7, **COST),
    "parts": lambda: KTupleKMeans(3000, **COST),
}


def sure(model):
    """Whether a fit starts, without its work."""
    budget = PrivacyBudget(4.0, 1e-4)
    try:
        budget.fit(model, X)
    except ValueError as error:
        assert not budget.ledger
        return str(error)
    assert len(budget.ledger) == 1
    return ""


@pytest.mark.parametrize("rows", [X, X[:1], X.tolist(), np.zeros((10**5, 2))], ids=str)
@pytest.mark.parametrize("name", MINUTES)
def test_what_takes_minutes_stops_before_the_charge_whatever_the_rows_are(name, rows):
    budget, made = PrivacyBudget(4.0, 1e-4), MINUTES[name]()
    began = time.process_time()
    with pytest.raises(ValueError, match="in doubt before the charge") as caught:
        budget.fit(made, rows)
    assert not budget.ledger and time.process_time() - began < 5
    said = str(caught.value)
    assert said.count("minutes or hours") == 1 and "accept_doubts=True" in said
    assert f"n_clusters={made.n_clusters}" in said


@pytest.mark.parametrize("name", MINUTES)
def test_a_quote_and_a_fit_without_a_budget_say_it_once(name, monkeypatch):
    budget, made = PrivacyBudget(4.0, 1e-4), MINUTES[name]()
    with pytest.warns(DoubtWarning, match="minutes or hours") as caught:
        budget.quote(made)
    assert len(caught) == 1 and caught[0].filename == __file__
    monkeypatch.setattr(type(made), "_read", lambda *_: pytest.fail("a table is read"))
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with pytest.raises(pytest.fail.Exception):
            made.fit(X)
    assert [one.category for one in heard] == [DoubtWarning]


@pytest.mark.parametrize("name", ROUNDS)
def test_many_rounds_are_doubted_by_a_quote_and_stop_a_fit(name):
    """Mutation: rounds cost nothing by themselves. 100,000 of them are not doubted."""
    budget, more = PrivacyBudget(4.0, 1e-4), {} if name == "refining" else {"Xs": X, "ys": Y}
    with pytest.warns(DoubtWarning, match="in doubt: .*n_(iter|lloyd)=1000000: .*minutes"):
        budget.quote(ROUNDS[name](10**6))
    with pytest.raises(ValueError, match="in doubt before the charge: .*=1000000: .*minutes"):
        budget.fit(ROUNDS[name](10**6), X, *[Y] * bool(more), **more)
    assert not budget.ledger
    with warnings.catch_warnings():
        warnings.simplefilter("error", DoubtWarning)
        budget.quote(ROUNDS[name](10**5))


def test_starts_that_take_days_are_refused():
    """Mutation: starts without passes, of which there is one, are counted."""
    make = SourceTargetKMedoids
    with pytest.raises(ValueError, match=r"n_starts=1000000000: .*more than a day"):
        make(2, n_starts=10**9).fit(Xt=X, sources=X[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("error", DoubtWarning)
        make(2, n_starts=10**9, n_passes=0).fit(Xt=X, sources=X[:2])
        make(2, n_starts=10).fit(Xt=X, sources=X[:2])


def test_a_lack_of_memory_names_the_number_that_causes_it():
    with pytest.raises(ValueError, match=r"n_clusters=2, n_tuples=1000000000000: .*GiB"):
        KTupleKMeans(2, n_tuples=10**12, **COST).privacy_cost()


LISTED = {"low": {"age": 0}, "high": {"age": 120}, "categories": {"region": ["north;south"]}}
PIPES = {
    "a ball": (BoundedScaler([0, 0], [1, 1]), 9.0, "radius_ is 1.41421"),
    "by name": (BoundedScaler({"a": 0, "b": 0}, {"a": 1, "b": 1}), 9.0, "radius_ is 1.41421"),
    "one end by name": (BoundedScaler(0, {"a": 1}), 9.0, "radius_ is 1, "),
    "a list": (BoundedScaler(**LISTED), 1.03, "did you mean several values"),
    "a list alone": (BoundedScaler(categories={0: ["a;b"]}), 0.25, "did you mean several values"),
    "what fits": (BoundedScaler([0, 0], [1, 1]), 2**0.5, ""),
    "any number of columns": (BoundedScaler(0, 1), 9.0, ""),
    "what a fit refuses": (BoundedScaler([0], [-1]), 9.0, ""),
    "nothing": (BoundedScaler(), 9.0, ""),
}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("name", PIPES)
def test_a_quote_says_the_doubts_of_a_pipeline_that_need_no_table(name, nested):
    """Mutation: only the last step is asked. Each doubt is said once for all fits."""
    scale, radius, said = PIPES[name]
    pipe = make_pipeline(scale, NoisyLloyd(2, **COST | {"radius": radius}))
    pipe = make_pipeline("passthrough", pipe) if nested else pipe
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert PrivacyBudget(4.0, 1e-4).quote(pipe, pipe).admitted == 2
    assert len(heard) == bool(said)
    assert all(said in str(one.message) and one.filename == __file__ for one in heard)


@pytest.mark.parametrize("name", DAYS)
def test_what_takes_days_is_refused_before_the_charge_and_by_a_quote(name):
    assert "more than a day" in sure(DAYS[name]())
    for ask in (PrivacyBudget(4.0, 1e-4).quote, lambda model: model.privacy_cost()):
        with pytest.raises(ValueError, match="more than a day of one core"):
            ask(DAYS[name]())


def test_what_takes_days_is_refused_even_if_doubts_are_accepted():
    budget = PrivacyBudget(4.0, 1e-4)
    with pytest.raises(ValueError, match="more than a day"):
        budget.fit(DAYS["a packing"](), X, accept_doubts=True)
    assert not budget.ledger


def test_usual_sizes_are_not_doubted():
    with warnings.catch_warnings():
        warnings.simplefilter("error", DoubtWarning)
        for kind in (PEMeans, HDPEMeans, MaxCoverKMeans, NoisyLloyd):
            for k in (1, 8, 300, 1000):
                kind(k, **COST).check_tables(np.zeros((1, 50)))
        for k in (1, 8, 20):
            KTupleKMeans(k, **COST).check_tables(np.zeros((1, 10)))
        NoisyLloyd(500, init="cells", **COST).check_tables(X)
        NoisyLloyd(3, init=X[:3].copy(), **COST).check_tables(X)
        GridKMeans(1000, **GRID).check_tables(X)
        PEMeans(8, population=10**6, n_public=1000, n_votes=2, **COST).check_tables(X)


def test_a_search_and_a_parallel_fit_stop_too():
    budget = PrivacyBudget(9.0, 1e-4)
    grid = {"n_clusters": [2, 200_000]}
    with pytest.raises(ValueError, match="minutes or hours.*search"):
        budget.search(NoisyLloyd(**COST), grid, X, epsilon=0.5)
    parts = {"a": (NoisyLloyd(2, **COST), X.copy()), "b": (NoisyLloyd(200_000, **COST), X.copy())}
    with pytest.raises(ValueError, match="minutes or hours.*parallel"):
        budget.parallel(parts)
    assert not budget.ledger


def test_all_doubts_are_said_together():
    rows = BoundedScaler(-1.0, 1.0).fit_transform(X)
    model = NoisyLloyd(200_000, epsilon=0.5, delta=1e-6, radius=9.0, random_state=0)
    said = sure(model)  # of plain rows
    assert "radius_" not in said
    budget = PrivacyBudget(4.0, 1e-4)
    with pytest.raises(ValueError, match="minutes or hours.*radius_ is 1.41421"):
        budget.fit(model, rows)
    assert not budget.ledger


def test_the_word_that_accepts_doubts_is_not_handed_to_the_fit():
    rows = BoundedScaler(-1.0, 1.0).fit_transform(X)
    budget = PrivacyBudget(4.0, 1e-4)
    with pytest.warns(DoubtWarning, match="radius_ is 1.41421"):
        budget.fit(NoisyLloyd(2, **COST), rows, accept_doubts=True)
    with pytest.raises(TypeError, match="accept_doubts"):
        budget.fit(NoisyLloyd(2, **COST), rows, accept_doubts="yes")
    assert len(budget.ledger) == 1


def test_advice_does_not_stop_a_fit():
    table = np.column_stack([np.arange(60.0), np.arange(60) % 2, np.arange(60) % 3])
    scale = BoundedScaler([0.0], [60.0], categories={1: [0, 1], 2: [0, 1, 2]}).fit(table)
    model = MaxCoverKMeans(2, **COST | {"radius": scale.radius_})
    with pytest.warns(DoubtWarning, match="random projection"):
        PrivacyBudget(4.0, 1e-4).fit(make_pipeline(scale, model), table)


def test_nothing_is_held_after_a_refusal():
    with pytest.raises(ZeroDivisionError), held_doubts() as held:
        check_work(2e11, "n=1", "it")
        raise ZeroDivisionError
    assert len(held) == 1
    with pytest.warns(DoubtWarning, match="minutes"):
        check_work(A_DAY, "n=1", "it")
    with pytest.raises(ValueError, match="more than a day"):
        check_work(A_DAY * 1.01, "n=1", "it")


# ---------------------------------------------------------------- and what they need in memory


def test_gaps_and_squares_in_parts_are_those_of_all_pairs_at_once():
    rng = np.random.default_rng(1)
    for k, d in ((1, 3), (2, 1), (700, 2), (301, 40)):
        points = rng.normal(size=(k, d))
        every = np.linalg.norm(points[:, None] - points, axis=2)
        np.fill_diagonal(every, 7.0)
        assert np.array_equal(covers.nearest_gaps(points, 7.0), every.min(axis=1))
        other = rng.normal(size=(90, d))
        assert np.array_equal(
            lloyd._squares(points, other), ((points[:, None] - other) ** 2).sum(axis=2)
        )
    assert lloyd._squares(np.zeros((0, 2)), np.zeros((3, 2))).shape == (0, 3)


def test_cells_that_do_not_fit_into_memory_are_refused_before_the_charge(monkeypatch):
    from dplit.inputs import checks

    monkeypatch.setattr(checks, "memory_of_machine", lambda: 2**30)
    assert "GiB of memory" in sure(NoisyLloyd(2000, init="cells", **COST))
