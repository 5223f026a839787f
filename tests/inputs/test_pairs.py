"""Ranges written as one pair (low, high) for each column are refused, and the message writes them as they are wanted."""

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from dplit import GridKMeans, NoisyLloyd, PEMeans, PrivacyBudget
from dplit.inputs import BoundedScaler

pa = pytest.importorskip("pyarrow")

WANTED = "not written as pairs, but as all lower bounds, then all upper bounds: {}"
PAIRS = {
    "one column": ([(0, 120)], "[0], [120]."),
    "two columns that begin at 0": ([(0, 120), (0, 9e4)], "[0, 0], [120, 90000]."),
    "two columns, an array": (np.array([(5, 9), (0, 0.5)]), "[5, 0], [9, 0.5]."),
    "three columns": ([(0, 120), (-1, 500), (0, 90)], "[0, -1, 0], [120, 500, 90]."),
    "three columns, an array": (np.array([(0, 120), (0, 500), (0, 90)]), "[0, 0, 0], [120, 500, 90]."),
}  # fmt: skip


@pytest.mark.parametrize(("pairs", "written"), PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("kind", [PEMeans, NoisyLloyd, GridKMeans])
def test_an_estimator_writes_pairs_as_it_wants_them(kind, pairs, written):
    model = kind(2, epsilon=1.0, delta=1e-6, bounds=pairs)
    with pytest.raises((TypeError, ValueError)) as caught:
        model.fit(np.zeros((4, len(pairs))))
    assert str(caught.value).endswith(WANTED.format(written))


@pytest.mark.parametrize(("pairs", "written"), PAIRS.values(), ids=PAIRS)
def test_a_scaler_writes_pairs_as_it_wants_them(pairs, written):
    """Given as one argument or, of two columns, as two."""
    with pytest.raises((TypeError, ValueError)) as caught:
        BoundedScaler(*pairs if len(pairs) == 2 else (pairs, 1)).fit(np.zeros((4, len(pairs))))
    assert str(caught.value).endswith(WANTED.format(written))


@pytest.mark.parametrize("bounds", [
    ([18, 20], [100, 500]), [(18, 100), (20, 500)], (0, [120, 9e4]), ((0, 0, 0), (120, 500, 90)),
    (np.zeros(3), np.ones(3)), (pa.array([18, 20]), pa.chunked_array([[100], [500]])),
])  # fmt: skip
def test_ends_are_read_as_before(bounds):
    """Two columns whose pairs would be ends too cannot be told from ends: they are ends, and a doubt."""
    low, high = np.broadcast_arrays(*(np.asarray(end) for end in bounds))
    scaler = BoundedScaler(*bounds).fit(np.zeros((4, low.size)))
    np.testing.assert_array_equal(scaler.transform(np.atleast_2d(high)), np.ones((1, low.size)))


def test_two_rows_of_an_array_are_the_ends():
    X = np.random.default_rng(0).uniform(0, 9, (50, 3))
    rows, given = np.array([[0, 0, 0], [9, 10, 11]]), {"epsilon": 1.0, "delta": 1e-6}
    one, other = (
        NoisyLloyd(2, **given, bounds=bounds, random_state=0).fit(X).cluster_centers_
        for bounds in (rows, (rows[0], rows[1]))
    )
    assert np.array_equal(one, other)


@pytest.mark.parametrize("bounds", [
    ([0, 0], [0, 90]), ({"a": 0, "b": 120}, {"a": 0, "b": 9e4}), [(9, 1), (2, 3), (4, 5)], "ab", [(0, "x")] * 3,
    ([3, 2], [1, 5]),
])  # fmt: skip
def test_other_mistakes_are_not_taken_for_pairs(bounds):
    with pytest.raises((TypeError, ValueError)) as caught:
        PEMeans(2, epsilon=1.0, delta=1e-6, bounds=bounds).fit(np.zeros((4, 2)))
    assert "as pairs" not in str(caught.value)


BOTH_WAYS = [
    [(0, 120), (1000, 200000)],
    ((18, 1000), (90, 2e5)),
    [[0, 1000], [120, 2e5]],
    [(0.0, 1), [0.5, 2]],
    np.array([[0, 120], [50, 250]]),
    np.column_stack([[0, 50], [120, 250]]),
    [np.array([0, 120]), np.array([50, 250])],
]
ONE_WAY = [
    ([0, 1000], [120, 2e5]),
    ((0, 1000), [120, 2e5]),
    [(0, 0), (1, 1)],
    ((5, 0), (9, 9)),
    (0, 1),
    [0, 1],
    np.array([[0, 0], [120, 90]]),
    (np.array([0, 50]), np.array([120, 250])),
]


@pytest.mark.parametrize("given", BOTH_WAYS)
@pytest.mark.parametrize("scaled", [False, True])
def test_ranges_of_two_columns_that_may_be_pairs_stop_a_charge(given, scaled):
    """They were read as ends and charged. A scaler takes them as two arguments: there only tuples look like pairs."""
    budget, model = PrivacyBudget(2.0, 1e-5), PEMeans(2, epsilon=1.0, delta=1e-6, bounds=given)
    if scaled:
        model = make_pipeline(
            BoundedScaler(*given), PEMeans(2, epsilon=1.0, delta=1e-6, radius=2**0.5)
        )
    if scaled and not all(isinstance(side, tuple) for side in given):
        assert budget.fit(model, np.ones((9, 2))) is model
        return
    with pytest.raises(
        ValueError, match="may be a pair .low, high. for each of two columns"
    ) as said:
        budget.fit(model, np.ones((9, 2)))
    assert not budget.ledger
    ends = [f"{list(side)}" for side in zip(*np.asarray(given).tolist(), strict=True)]
    assert ", ".join(ends).replace("200000.0", "200000").replace(".0", "") in str(said.value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        budget.fit(model, np.ones((9, 2)), accept_doubts=True)


@pytest.mark.parametrize("given", ONE_WAY)
def test_ranges_that_are_read_in_one_way_are_no_doubt(given):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PEMeans(2, epsilon=1.0, delta=1e-6, bounds=given).privacy_cost()
        BoundedScaler(*given).fit(np.zeros((1, 2)))


@pytest.mark.parametrize(
    "ends", [([120, 2e5], [0, 1000]), ((9.0,), (1.0,)), ([5, 6, 7], [1, 2, 3])]
)
def test_swapped_ends_are_told(ends):
    """In two columns they may be pairs too; the message said this alone, which would have declared other ranges."""
    with pytest.raises(ValueError, match="were the two swapped"):
        PEMeans(2, epsilon=1.0, delta=1e-6, bounds=ends).fit(np.zeros((4, len(ends[0]))))


@pytest.mark.parametrize("ends", [({18, 0}, {120, 50}), ([0, 18], frozenset({50, 120}))])
def test_sets_have_no_order_and_are_no_ends(ends):
    budget = PrivacyBudget(2.0, 1e-5)
    with pytest.raises(TypeError, match="has no order; pass a list"):
        budget.fit(PEMeans(2, epsilon=1.0, delta=1e-6, bounds=ends), np.ones((9, 2)))
    assert not budget.ledger


@pytest.mark.parametrize("kind", [PEMeans, NoisyLloyd, GridKMeans])
def test_an_epsilon_that_is_nearly_infinite_is_refused_in_words(kind):
    """It ended in an error that said it was a bug."""
    for epsilon in (1.1e100, 1e308):
        with pytest.raises(ValueError, match="needs at most 1e100"):
            kind(2, epsilon=epsilon, delta=1e-6, radius=1.0).privacy_cost()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind(2, epsilon=1e100, delta=1e-6, radius=1.0).privacy_cost()
