"""Doubts about a fit from its public sample: each is said on one side of its threshold, and not on the other."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression

from dplit.adaptation import doubts
from dplit.inputs import DoubtWarning


def said(function, *args):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        function(*args)
    assert all(w.category is DoubtWarning for w in heard)
    return [str(w.message) for w in heard]


def given(radius=1.0, weight_radius=1.0, private=True):
    return SimpleNamespace(radius=radius, weight_radius=weight_radius, private=private)


@pytest.mark.parametrize(
    ("sizes", "private", "words"),  # in parts of the bound
    [
        ([1.0, 1.0, 1.0], True, None),  # at the bound
        ([1.0, 1.0 + 5e-7, 1.0 + 5e-7], True, None),  # above it by rounding
        ([1.0, 1.0 + 2e-6, 1.0 + 2e-6], True, "most of the public rows exceed it"),
        ([1.0, 1.0, 9.0], True, None),  # one of three
        ([0.0, 0.0, 0.0100001], True, None),
        ([0.0, 0.0, 0.0099999], True, "none of the public rows exceeds 0.04,"),
        ([0.0, 0.0, 0.0099999], False, None),  # no noise is added
        ([0.0, 0.0], True, None),  # zeros tell nothing about a unit
        ([], True, None),
    ],
)
def test_a_bound_is_doubted_beyond_its_thresholds(sizes, private, words):
    """Mutations: the mean in place of the median; a factor of the bound; `private` or one of the sizes forgotten."""
    model, sizes = given(radius=4.0, private=private), 4 * np.array(sizes)
    heard = said(doubts.doubt_bound, model, "radius", sizes, "rows")
    assert len(heard) == (words is not None) and all(words in one for one in heard)


@pytest.mark.parametrize(
    ("lengths", "radius", "weight_radius", "doubted"),
    [
        ([0.5, 2.0], 9.0, 0.1, False),  # 0.2 where 2 is needed: a tenth
        ([0.5, 2.0], 9.0, 0.0999, True),
        ([0.5, 2.0], 1.9, 0.1, True),  # rows are cut to the radius
        ([0.5, 2.0], 2.1, 0.1, False),
        ([0.0, 0.0], 9.0, 0.1, False),  # zeros tell nothing
        ([], 9.0, 0.1, False),
    ],
)
def test_a_predictor_that_gives_no_tenth_of_the_outputs_is_doubted(
    lengths, radius, weight_radius, doubted
):
    """Mutations: the shortest row, or a row outside the ball; a factor of the outputs."""
    model = given(radius=radius, weight_radius=weight_radius)
    heard = said(doubts.doubt_predictor, model, np.array(lengths), 2.0, "2 is needed")
    assert len(heard) == doubted


@pytest.mark.parametrize(("smallest", "doubted"), [(0.0501, False), (0.0499, True), (0.0, True)])
def test_a_model_that_confuses_two_classes_is_doubted(smallest, doubted):
    """Mutations: another singular value; the threshold moves. Two columns (1 + s, 1 - s) / 2 have the singular values 1 and s."""
    confused = np.array([[1 + smallest, 1 - smallest], [1 - smallest, 1 + smallest]]) / 2
    assert len(said(doubts.doubt_confused, confused, "it")) == doubted


@pytest.mark.parametrize(("others", "doubted"), [(5, False), (6, True), (100, True), (0, False)])
def test_a_model_that_looks_at_other_rows_is_doubted(others, doubted):
    """Mutation: one row that differs is enough, or none is. One in twenty may be a tie."""
    among = np.zeros(100)
    alone = [1.0] * others + [0.0] * (100 - others)
    assert len(said(doubts.doubt_alone, alone, among)) == doubted


@pytest.mark.parametrize(
    ("model", "doubted"),
    [
        (LogisticRegression(), False),
        (LogisticRegression(class_weight="balanced"), True),
        (CalibratedClassifierCV(LogisticRegression(class_weight="balanced")), False),
        (SimpleNamespace(get_params=lambda: {"scale_pos_weight": 1}), False),
        (SimpleNamespace(get_params=lambda: {"scale_pos_weight": 1.5}), True),
        (SimpleNamespace(get_params=lambda: {"fit_prior": True}), False),
        (SimpleNamespace(get_params=lambda: {"fit_prior": False}), True),
        (SimpleNamespace(get_params=lambda: {"step__priors": [0.5, 0.5]}), True),
        (SimpleNamespace(), False),
    ],
)
def test_a_model_with_other_proportions_is_doubted(model, doubted):
    assert len(said(doubts.doubt_weights, model, "it")) == doubted
