"""Every private estimator for persons with several rows: what it states, how it runs, and what the audit says of groups."""

import inspect
import itertools
import pickle
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from sklearn.base import clone
from test_estimators import ESTIMATORS, STARTED, Untouchable, X

import dplit
from dplit import (
    CnvxAdap,
    CovariateShiftRegressor,
    KNoisyCenters,
    LabelShiftClassifier,
    NeighborNoisyAverages,
    NoisyAverageSet,
    NoisyLloyd,
    StableTupleMean,
)
from dplit.accounting import gaussian_mu, group_factor
from dplit.audit import neighbors, replay
from dplit.estimators import base

ALL = ESTIMATORS | STARTED
EVERY = [getattr(dplit, name) for name in dplit.__all__]
EVERY = [one for one in EVERY if inspect.isclass(one) and issubclass(one, base.PrivateEstimator)]


def gaussian(model):
    return model.privacy_cost().gaussian_only


def the_same(one, other):
    """Whether all fitted attributes are the same bits."""
    fitted = [
        {name: value for name, value in vars(model).items() if name.endswith("_")}
        for model in (one, other)
    ]
    return pickle.dumps(fitted[0]) == pickle.dumps(fitted[1])


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_private_estimator_has_the_parameter(kind):
    parameter = inspect.signature(kind).parameters["max_rows_per_person"]
    assert parameter.default == 1 and parameter.kind is parameter.KEYWORD_ONLY
    assert "max_rows_per_person : int\n" in inspect.getdoc(kind)
    assert len(EVERY) > 15


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_one_row_changes_no_bit_and_several_are_said(make):
    assert the_same(make().fit(X), make(max_rows_per_person=1).fit(X))
    model = make(max_rows_per_person=4)
    cost, spent = model.privacy_cost(), model.fit(X).spent_
    assert (cost.epsilon, cost.delta) == (model.epsilon, model.delta or 0.0)
    assert cost.max_rows_per_person == spent.max_rows_per_person == 4
    assert spent.epsilon_at(cost.delta) <= model.epsilon * (1 + 1e-9)
    assert spent.neighboring == model.neighboring and "for each person with at most 4 rows" in str(
        spent
    )
    assert clone(model).max_rows_per_person == 4 and "max_rows_per_person=4" in repr(model)
    # what it computes with is what one row may cost, and nothing else
    given = model._declared()
    each = make(epsilon=given.epsilon, delta=given.delta).fit(X)
    assert np.array_equal(each.cluster_centers_, model.cluster_centers_)
    if gaussian(model):
        mu = gaussian_mu(model.epsilon, model.delta)
        assert gaussian_mu(given.epsilon, given.delta) == pytest.approx(mu / 4, rel=1e-6)
        assert spent.mu == pytest.approx(4 * each.spent_.mu, rel=1e-12) and spent.mu <= mu
    elif model.delta:
        assert given.delta * group_factor(given.epsilon, 4) <= model.delta
    else:
        assert spent.epsilon == pytest.approx(4 * each.spent_.epsilon) and spent.delta == 0


def test_noise_grows_with_the_rows_of_a_person():
    for m in (2, 9):
        one, many = (
            NoisyLloyd(
                2, epsilon=1.0, delta=1e-6, radius=4.0, random_state=0, max_rows_per_person=k
            )
            for k in (1, m)
        )
        scales = [model.fit(X).spent_.releases[0].scale for model in (one, many)]
        assert scales[1] / scales[0] == pytest.approx(m, rel=1e-6)
        assert many.spent_.mu == pytest.approx(one.spent_.mu, rel=1e-6)


@pytest.mark.parametrize(
    "value, error",
    [(0, ValueError), (-2, ValueError), (2**21, ValueError)]
    + [(v, TypeError) for v in (None, 1.5, "2", True, [1])],
)
def test_an_impossible_number_of_rows_is_refused_before_a_row_is_read(value, error):
    for make in ALL.values():
        model = make(max_rows_per_person=value)
        for refused in (model.privacy_cost, lambda model=model: model.fit(Untouchable())):
            with pytest.raises(error, match="max_rows_per_person"):
                refused()


def test_what_may_cost_more_than_it_states_has_no_group_privacy():
    printed = KNoisyCenters(epsilon=1.0, delta=1e-6, variant="paper", max_rows_per_person=2)
    for refused in (printed.privacy_cost, lambda: printed.fit(Untouchable())):
        with pytest.raises(ValueError, match="as published may cost more"):
            refused()


def test_a_budget_too_small_for_one_row_says_whose_it_is():
    model = NoisyLloyd(3, epsilon=1e-4, delta=1e-9, radius=1.0, max_rows_per_person=2**20)
    with pytest.raises(ValueError, match="one of 1048576 rows of a person, of epsilon=0.0001"):
        model.privacy_cost()
    model = NoisyAverageSet(t=3, rho=1e-12, radius=1.0, max_rows_per_person=2**20)
    with pytest.raises(ValueError, match="one of 1048576 rows of a person, of rho=1e-12"):
        model.privacy_cost()


RNG = np.random.default_rng(3)
XS, XT = RNG.normal(size=(300, 2)), RNG.normal(size=(40, 2))
LABELS = RNG.integers(0, 2, 300)
T = np.array([-5.0, 5.0])[:, None] + 0.1 * RNG.normal(size=(3000, 2, 1))
OTHERS = {
    "NAS by rho": (NoisyAverageSet(t=50, rho=0.5, radius=4.0), {"Xs": XS, "Xt": XT}),
    "NAS by rho, quoted": (
        NoisyAverageSet(t=50, rho=0.5, delta=1e-6, radius=4.0),
        {"Xs": XS, "Xt": XT},
    ),
    "NAS": (NoisyAverageSet(t=50, epsilon=1.0, delta=1e-6, radius=4.0), {"Xs": XS, "Xt": XT}),
    "NAS, pure": (NoisyAverageSet(t=50, epsilon=1.0, radius=4.0), {"Xs": XS, "Xt": XT}),
    "NNA": (NeighborNoisyAverages(epsilon=1.0, radius=4.0), {"Xs": XS, "Xt": XT}),
    "tuples": (StableTupleMean(epsilon=1.0, delta=1e-6), {"T": T}),
    "label shift": (
        LabelShiftClassifier(epsilon=1.0),
        {"Xt": XT, "Xs": XS, "ys": LABELS},
    ),
    "covariate shift": (
        CovariateShiftRegressor(epsilon=1.0, delta=1e-6),
        {"Xt": XT, "Xs": XS, "ys": XS[:, 0]},
    ),
    "adaptation": (
        CnvxAdap(epsilon=1.0, delta=1e-6, radius=4.0, weight_radius=1.0, target_bound=4.0),
        {"Xt": XS, "yt": XS[:, 0], "Xs": XT, "ys": XT[:, 0]},
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_estimators_state_and_spend_for_persons(name):
    model, tables = OTHERS[name]
    model = clone(model).set_params(random_state=0, max_rows_per_person=3)
    cost = model.privacy_cost()
    one = clone(model).set_params(max_rows_per_person=1).privacy_cost()
    assert (cost.epsilon, cost.delta) == (one.epsilon, one.delta)
    spent = model.fit(**tables).spent_
    assert spent.max_rows_per_person == cost.max_rows_per_person == 3
    assert spent.epsilon_at(cost.delta) <= cost.epsilon * (1 + 1e-9)
    if getattr(model, "rho", None):
        assert model.rho * (1 - 1e-6) < spent.rho <= model.rho


def test_without_privacy_there_is_no_unit():
    ask = {"radius": 4.0, "weight_radius": 1.0, "target_bound": 4.0, "private": False}
    model = CnvxAdap(**ask, max_rows_per_person=3).fit(XS, XS[:, 0])
    assert model.privacy_cost().epsilon == np.inf and not hasattr(model, "spent_")


# ---------------------------------------------------------------- the audit, with groups of rows

M = 3
FORGOTTEN = {
    "in the noise, and not on the receipt": {"for_one_row": lambda given: given},
    "in both": {
        "for_one_row": lambda given: given,
        "receipt_for_persons": lambda receipt, m, delta: replace(
            receipt, max_rows_per_person=m, delta=delta if receipt.delta else 0.0
        ),
    },
    "in all": {
        "for_one_row": lambda given: given,
        "receipt_for_persons": lambda receipt, m, delta: receipt,
    },
}


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_replay_of_persons_finds_nothing(make, neighboring):
    model = make(neighboring=neighboring, max_rows_per_person=M)
    pairs = neighbors(2, 4.0, neighboring=neighboring, max_rows_per_person=M)
    assert not replay(model, pairs, seeds=range(1))


@pytest.mark.parametrize("bug", FORGOTTEN)
@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_replay_catches_a_factor_that_was_forgotten(make, bug):
    """Ten rows, because the printed MaxCover pays several times what it needs."""
    model = make(max_rows_per_person=10)
    pairs = neighbors(2, 4.0, max_rows_per_person=10)[:2]
    with mock.patch.multiple(base, **FORGOTTEN[bug]):
        assert replay(model, pairs, seeds=range(1), stop=True)
    assert not replay(model, pairs, seeds=range(1))


def test_groups_move_what_is_released_as_far_as_is_allowed():
    """Tight: rows of a person that are alike move sums m times as far as one row may; m - 1 claimed is too few."""
    pairs = neighbors(2, 4.0, max_rows_per_person=M)
    model = NoisyLloyd(2, epsilon=1.0, delta=1e-6, radius=4.0, max_rows_per_person=M - 1)
    found = replay(model, pairs, seeds=range(1))
    assert any("moved 3 times the declared sensitivity" in sentence for sentence in found)


def test_pairs_differ_by_the_rows_of_a_person():
    for neighboring, m in itertools.product(("add_remove", "replace"), (1, 2, 5)):
        for name, D, E in neighbors(2, 4.0, neighboring=neighboring, max_rows_per_person=m):
            if neighboring == "add_remove":
                assert len(E) == len(D) + m and np.array_equal(E[: len(D)], D)
            else:
                assert len(E) == len(D) and np.array_equal(E[m:], D[m:])
            group = E[len(D) :] if neighboring == "add_remove" else E[:m]
            alike = np.array_equal(group, np.tile(group[:1], (m, 1)), equal_nan=True)
            assert alike or "places" in name or not group[0].any()
