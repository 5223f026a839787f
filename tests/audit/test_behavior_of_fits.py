"""The audit of behavior for the fits of all estimators: a file of its own, so that another process can take it."""

import pytest
from test_behavior import ESTIMATOR_CASES, FEW, MANY, PAIRS, SOME, TARGETS, differences


@pytest.mark.parametrize(("name", "relation"), ESTIMATOR_CASES)
def test_one_record_changes_nothing_but_released_outcomes(name, relation):
    assert not differences(name, relation, FEW // len(TARGETS[name][2]), seed=10**7)


@pytest.mark.parametrize(("name", "relation"), ESTIMATOR_CASES)
def test_one_record_changes_nothing_in_a_hundred_pairs(name, relation):
    assert not differences(name, relation, SOME // len(TARGETS[name][2]), seed=2 * 10**7)


@pytest.mark.parametrize(("name", "relation"), ESTIMATOR_CASES)
def test_one_record_changes_nothing_in_five_hundred_pairs(name, relation):
    assert not differences(name, relation, PAIRS // len(TARGETS[name][2]))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "relation"), ESTIMATOR_CASES)
def test_one_record_changes_nothing_in_many_pairs(name, relation):
    assert not differences(name, relation, MANY // len(TARGETS[name][2]), seed=10**6)
