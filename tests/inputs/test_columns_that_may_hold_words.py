"""A type that leaves open whether cells are words (object, a category of pandas): a doubt before the charge wherever numbers are needed, and nowhere else."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dplit import (
    BoundedScaler,
    CnvxAdap,
    LabelShiftClassifier,
    NCnvxAdap,
    NeighborNoisyAverages,
    NoisyLloyd,
    PEMeans,
    PrivacyBudget,
)
from dplit.__main__ import main
from dplit.inputs import DoubtWarning, UnreadableRecords
from dplit.ledger import record_wise

pd = pytest.importorskip("pandas")

N = 60
COST = {"epsilon": 0.5, "delta": 1e-6, "random_state": 0}
AGES, KNOWN = np.arange(N) % 7 * 1.0, np.arange(N) % 2
SAID = "may hold words by its type"


def open_columns(words):
    """Columns of numbers or words whose type does not tell which."""
    cells = pd.Series(["3d", "4d"] * (N // 2) if words else [3.0, 4.0] * (N // 2))
    return {"object": cells.astype(object), "category": cells.astype("category")}


def table(kind, words=True):
    return pd.DataFrame({"a": AGES, "b": open_columns(words)[kind]})


def scaler(**more):
    return BoundedScaler({"a": 0, "b": 0}, {"a": 7, "b": 9}, **more)


def two(step, *columns):
    return ColumnTransformer([(f"part {i}", step, list(one)) for i, one in enumerate(columns)])


MODEL = NoisyLloyd(2, radius=2**0.5, **COST)
PIPES = {
    "no pipeline": NoisyLloyd(2, radius=20.0, **COST),
    "ranges of the estimator": PEMeans(2, bounds=([0, 0], [7, 9]), **COST),
    "a scaler": make_pipeline(scaler(), MODEL),
    "a pipeline in a pipeline": make_pipeline(make_pipeline(scaler()), make_pipeline(MODEL)),
    "after a step that changes nothing": make_pipeline(FunctionTransformer(), scaler(), MODEL),
    "columns of a ColumnTransformer": make_pipeline(two(scaler(), "ab"), MODEL),
    "a rule for another column": make_pipeline(scaler(missing={"a": 0}), MODEL),
}


@pytest.mark.parametrize("kind", ["object", "category"])
@pytest.mark.parametrize("name", PIPES)
def test_a_column_that_may_hold_words_is_doubted_before_the_charge_whatever_it_holds(name, kind):
    """Mutation: a pipeline is tried on zeros of another type, or only a category is doubted."""
    model, said = PIPES[name], set()
    parts = {
        "a": (clone(model), table(kind)[:20]),
        "b": (clone(model), table(kind, False)[20:]),
    }
    for call in (
        lambda b: b.fit(model, table(kind)),
        lambda b: b.fit(model, table(kind, words=False)),
        lambda b: b.parallel(parts),
    ):
        budget = PrivacyBudget(4.0, 1e-4)
        with pytest.raises(ValueError, match=SAID) as caught:
            call(budget)
        assert not budget.ledger
        said.add(str(caught.value).partition("Nothing was charged")[0])
    assert len(said) == 1 and "column 'b'" in said.pop()
    accepted = PrivacyBudget(4.0, 1e-4)
    with warnings.catch_warnings(action="ignore", category=DoubtWarning):
        accepted.fit(model, table(kind, words=False), accept_doubts=True)
        with pytest.raises(UnreadableRecords):
            accepted.fit(model, table(kind), accept_doubts=True)


def words_beside():
    """A table with a column of words beside one that may hold words."""
    return table("object", words=False).assign(c=["x", "y"] * (N // 2))


LISTED = scaler(categories={"c": ["x", "y"]})
FINE = {
    "a list": (clone(MODEL).set_params(radius=20.0), table("object", words=False).to_numpy().tolist()),
    "a rule for the column": (make_pipeline(scaler(missing={"b": 0}), MODEL), table("object")),
    "its column is left out": (make_pipeline(two(BoundedScaler({"a": 0}, {"a": 7}), "a"), MODEL), table("object")),
    "declared words": (
        make_pipeline(BoundedScaler({"a": 0}, {"a": 7}, categories={"b": ["3d", "4d"]}), PEMeans(2, radius=1.0625**0.5, **COST)),
        table("object"),
    ),
    # an array has one type for all its columns: words of one make it this type
    "an array with declared words": (
        make_pipeline(BoundedScaler([0], [7], categories={1: ["3d", "4d"]}), PEMeans(2, radius=1.0625**0.5, **COST)),
        table("object").to_numpy(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FINE)
def test_where_no_cell_is_needed_as_a_number_nothing_is_said(name):
    model, rows = FINE[name]
    with warnings.catch_warnings(action="error", category=DoubtWarning):
        PrivacyBudget(4.0, 1e-4).fit(model, rows)


def test_a_range_beside_declared_words_is_doubted_in_a_frame():
    """Mutation: where words are accepted in one column, they are accepted in all."""
    budget = PrivacyBudget(4.0, 1e-4)
    with pytest.raises(ValueError, match=f"column 'b' {SAID}"):
        budget.fit(make_pipeline(LISTED, PEMeans(2, radius=3.0, **COST)), words_beside())
    assert not budget.ledger


def test_an_array_of_objects_and_private_labels_of_objects_are_doubted_and_public_ones_are_read():
    """Mutation: a public table or label is doubted, whose cells are read before the charge."""
    rows, target = table("object", False).to_numpy(), AGES[:, None]
    source = {"Xs": target.astype(object), "ys": (1 - KNOWN).astype(object)}
    ask = {"epsilon": 0.5, "delta": 1e-6, "radius": 9.0, "random_state": 0}
    adapt = {"weight_radius": 1.0, "n_iter": 2} | ask
    convex, classes = CnvxAdap(target_bound=1.0, **adapt), NCnvxAdap(classes=[0, 1], **adapt)
    doubted = [
        (NoisyLloyd(2, radius=20.0, **COST), (rows,), {}),
        (convex, (target, KNOWN.astype(object)), source),
        (classes, (target, KNOWN.astype(object)), source),
        (convex, (target.astype(object), KNOWN), source),
        (convex.set_params(), (target.astype(object), KNOWN), source),
        (NCnvxAdap(classes=[0, 1], protect="source", **adapt), (target, KNOWN), source),
        (LabelShiftClassifier(GaussianNB(), epsilon=0.5, random_state=0), (target.astype(object),), source),
        (NeighborNoisyAverages(epsilon=0.5, delta=1e-6, radius=9.0), (), {"Xt": target[:9] + 0.5, "Xs": target.astype(object)}),
    ]  # fmt: skip
    for model, tables, named in doubted:
        budget = PrivacyBudget(4.0, 1e-4)
        with pytest.raises(ValueError, match=SAID):
            budget.fit(model, *tables, **named)
        assert not budget.ledger, model
    for model in (convex, classes):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            PrivacyBudget(4.0, 1e-4).fit(model, target + 0.5, KNOWN, accept_doubts=True, **source)
        assert not [one for one in heard if SAID in str(one.message)]


def test_record_wise_steps_that_make_numbers_pass():
    """Their own note says what only their cells would tell."""
    step = FunctionTransformer(record_wise(lambda X: np.asarray(X, dtype=float)))
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        PrivacyBudget(4.0, 1e-4).fit(
            make_pipeline(step, NoisyLloyd(2, radius=20.0, **COST)),
            table("object", words=False),
            accept_doubts=True,
        )
    assert not [one for one in heard if SAID in str(one.message)]


PARQUET = {
    "words": (["x", "y"] * (N // 2), 1, 1),
    "digits": (["1", "2"] * (N // 2), 1, 0),
    "a dictionary": (pd.Categorical(["1", "2"] * (N // 2)), 1, 0),
    "numbers": ([1.0, 2.0] * (N // 2), 0, 0),
}


@pytest.mark.parametrize("rule", ["", "middle"])
@pytest.mark.parametrize("name", PARQUET)
def test_a_range_of_a_parquet_column_of_words_stops_the_command_before_its_charge(
    name, rule, tmp_path, monkeypatch, capsys
):
    """Digits can be read: it is a doubt. With a rule for missing cells every cell can be used."""
    monkeypatch.chdir(tmp_path)
    cells, doubted, code = PARQUET[name]
    pd.DataFrame({"a": AGES, "w": cells}).to_parquet("t.parquet")
    (tmp_path / "b.csv").write_text(f"column,low,high,missing\na,0,7,{rule}\nw,0,9,{rule}\n")
    PrivacyBudget.open("ledger", 9.0, 1e-3).close()
    ask = "cluster t.parquet --bounds b.csv --clusters 2 --epsilon 0.5 --delta 1e-6 --seed 0 --ledger ledger"
    doubted, code = doubted and not rule, code and not rule
    for more, fails in (["--dry-run"], doubted), (["--accept-doubts"], code), ([], doubted or code):
        with warnings.catch_warnings(action="ignore", category=DoubtWarning):
            ended = main([*ask.split(), "--out", f"o{more}", *more])
        assert bool(ended) == fails, more
        said = "".join(capsys.readouterr()) + (ended if isinstance(ended, str) else "")
        assert ("column 'w' has a range, and may hold words by its type" in said) == doubted
        charged = len(PrivacyBudget.open("ledger").ledger)
        assert charged == (more != ["--dry-run"]) + (not more and not doubted)
