"""Every estimator says before a fit what the fit will cost, by public parameters alone, and a ledger asks nothing else."""

import ast
import inspect
import math
from functools import partialmethod
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import test_adaptation
import test_covariate_shift
import test_estimators
import test_k_tuples
import test_label_shift
import test_nonconvex
import test_source_target
from sklearn.base import clone
from test_public import FITS, make

import dplit
from dplit import (
    CnvxAdap,
    CovariateShiftClassifier,
    CovariateShiftRegressor,
    GridKMeans,
    HDPEMeans,
    KAverages,
    KNoisyCenters,
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
from dplit.accounting import PrivacyCost, Spending, zcdp_epsilon
from dplit.estimators import Clusters, PrivateKMeans
from dplit.estimators.base import PrivateEstimator
from dplit.ledger import declared_cost
from dplit.mechanisms import Noise

pytestmark = [
    pytest.mark.filterwarnings("ignore::dplit.inputs.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore::dplit.inputs.AbstainedWarning"),
    pytest.mark.filterwarnings("ignore:most of the public"),
]
MAKERS = {
    f"{family.__name__}: {name}": maker
    for family in (
        test_adaptation,
        test_covariate_shift,
        test_estimators,
        test_k_tuples,
        test_label_shift,
        test_nonconvex,
        test_source_target,
    )
    for name, maker in family.ESTIMATORS.items()
}
PRINTED_TUPLES = {"KAverages as published", "KNoisyCenters as published"}
every = pytest.mark.parametrize("name", MAKERS)
fitted = pytest.mark.parametrize("name", FITS)
PUBLIC = [name for name in dplit.__all__ if hasattr(getattr(dplit, name), "privacy_cost")]
PRICE = {"epsilon": 1.0, "delta": 1e-6}
BALL = {"radius": 4.0, **PRICE}
REACH = {"weight_radius": 4.0, **BALL}


def test_every_estimator_of_the_package_is_here():
    makers = {type(maker()).__name__ for maker in MAKERS.values()}
    assert makers | {"SourceTargetKMedoids"} == {*PUBLIC}


@every
def test_the_cost_is_that_of_the_parameters(name):
    model = MAKERS[name]()
    before, cost = dict(vars(model)), model.privacy_cost()
    assert type(cost) is PrivacyCost and cost.name == type(model).__name__
    if model.epsilon is None:
        assert cost.epsilon == zcdp_epsilon(model.rho, model.delta or 0.0)
    else:
        assert cost.epsilon == model.epsilon
    assert cost.delta == (model.delta or 0.0) and cost.neighboring == model.neighboring
    assert not cost.private and clone(model).set_params(random_state=None).privacy_cost().private
    assert cost.is_upper_bound == (name.split(": ")[1] not in PRINTED_TUPLES)
    assert vars(model) == before and model.privacy_cost() == cost


@fitted
def test_a_budget_charges_the_cost_and_a_receipt_is_not_above_it(name):
    model, tables = make(name)
    cost, budget = model.privacy_cost(), PrivacyBudget(1000.0, 0.5)
    budget.fit(model, **tables, accept_doubts=True)  # some take one table twice
    (asked, _) = budget._history()[0]
    assert (asked.epsilon, asked.delta) == (cost.epsilon, cost.delta)
    assert (asked.estimator, asked.neighboring) == (cost.name, cost.neighboring)
    assert bool(asked.private) == cost.private
    assert asked.promise == ("fixed" if cost.fixed else "bounded" if cost.gaussian_only else "")
    spent = model.spent_
    assert spent.epsilon_at(cost.delta) <= cost.epsilon * (1 + 1e-12)
    assert spent.neighboring == cost.neighboring


@fitted
def test_noise_that_is_said_to_be_gaussian_is(name):
    model, tables = make(name)
    if model.privacy_cost().gaussian_only:
        receipt = model.fit(**tables).spent_
        assert {line.mechanism for line in receipt.releases} == {"gaussian"}
        assert Spending.of(receipt).own == Spending.of(receipt).failure == 0.0


WRONG = {
    "epsilon": [None, 0.0, -1.0, math.nan, "1"],
    "delta": [-1.0, 1.0, math.nan, "1"],
    "radius": [None, 0.0, -1.0],
    "n_clusters": [0, 2.5],
    "random_state": ["x", -1],
    "neighboring": [None, "both"],
    "variant": ["other", None],
}


@fitted
def test_a_wrong_parameter_is_refused_in_the_words_of_fit(name):
    model, tables = make(name)
    for parameter in WRONG.keys() & model.get_params().keys():
        for value in WRONG[parameter]:
            wrong = clone(model).set_params(**{parameter: value})
            with pytest.raises((TypeError, ValueError)) as by_cost:
                wrong.privacy_cost()
            with pytest.raises((TypeError, ValueError)) as by_fit:
                wrong.fit(**tables)
            with pytest.raises((TypeError, ValueError)) as by_budget:
                PrivacyBudget(1000.0, 0.5).fit(wrong, **tables)
            assert by_cost.type is by_fit.type is by_budget.type
            assert str(by_cost.value) == str(by_fit.value) == str(by_budget.value)


@fitted
def test_tables_are_checked_without_a_look_at_a_private_cell(name):
    model, tables = make(name)
    before = dict(vars(model))
    with mock.patch.object(Noise, "_add", side_effect=AssertionError("released")):
        assert model.check_tables(**tables) is None
    assert vars(model) == before
    with pytest.raises(TypeError, match=r"\.fit needs data"):
        model.check_tables()
    with pytest.raises(TypeError, match=r"\.fit: .*nonsense"):
        model.check_tables(**tables, nonsense=1)


class Untouchable(np.ndarray):
    """Rows whose shape may be asked for, and no cell."""

    def __getitem__(self, at):
        raise AssertionError("a cell was read")


def test_no_cell_is_read_before_a_charge():
    rows = np.zeros((9, 2)).view(Untouchable)
    for kind in (NoisyLloyd, GridKMeans, MaxCoverKMeans, PEMeans, HDPEMeans):
        kind(2, **BALL).check_tables(rows)
        with pytest.raises(ValueError, match="center"):
            kind(2, **BALL, center=[0.0, 0.0, 0.0]).check_tables(rows)


# ---------------------------------------------------------------- what protects nothing


def test_what_protects_nobody_costs_an_infinite_epsilon_and_is_not_charged():
    open_ = CnvxAdap(private=False, radius=4.0, weight_radius=4.0, target_bound=4.0)
    for model in (open_, SourceTargetKMedoids(2)):
        cost = model.privacy_cost()
        assert cost.epsilon == math.inf and not cost.private
        with pytest.raises(ValueError, match="protects nothing"):
            declared_cost(model)
    with pytest.raises(ValueError, match="n_clusters"):
        SourceTargetKMedoids(0).privacy_cost()


def test_tuple_estimators_as_published_say_that_their_cost_is_no_upper_bound():
    for kind, more in ((KAverages, {"radius": 9.0, "min_radius": 0.1}), (KNoisyCenters, {})):
        assert kind(**PRICE, **more).privacy_cost().is_upper_bound
        model = kind(**PRICE, **more, variant="paper")
        assert not model.privacy_cost().is_upper_bound
        with pytest.raises(TypeError, match="may cost more"):
            declared_cost(model)


# ---------------------------------------------------------------- flags that a subclass has not earned

STATED = {
    "NoisyLloyd": (NoisyLloyd, BALL, {"gaussian_only"}),
    "NoisyLloyd, pure": (NoisyLloyd, BALL | {"delta": 0.0}, {"fixed"}),
    "GridKMeans": (GridKMeans, BALL, {"fixed"}),
    "GridKMeans, Gaussian": (GridKMeans, BALL | {"delta": 0.3}, {"fixed", "gaussian_only"}),
    "PEMeans": (PEMeans, BALL, {"gaussian_only"}),
    "PEMeans as published": (
        PEMeans,
        BALL | {"variant": "paper", "n_public": 9},
        {"gaussian_only"},
    ),
    "HDPEMeans": (HDPEMeans, BALL, {"gaussian_only"}),
    "MaxCoverKMeans": (MaxCoverKMeans, BALL, {"fixed"}),
    "MaxCoverKMeans as published": (
        MaxCoverKMeans,
        BALL | {"variant": "paper", "n_public": 9},
        set(),
    ),
    "KTupleKMeans": (KTupleKMeans, {"n_clusters": 2, **BALL}, set()),
    "StableTupleMean": (StableTupleMean, PRICE, set()),
    "NoisyAverageSet": (NoisyAverageSet, {"t": 9, **BALL}, {"fixed"}),
    "NoisyAverageSet, rho": (
        NoisyAverageSet,
        {"t": 9, "rho": 0.1, "delta": 1e-6, "radius": 4.0},
        {"fixed", "gaussian_only"},
    ),
    "NeighborNoisyAverages": (NeighborNoisyAverages, BALL, {"fixed"}),
    "LabelShiftClassifier": (LabelShiftClassifier, {"epsilon": 1.0}, {"fixed"}),
    "CovariateShiftRegressor": (CovariateShiftRegressor, PRICE, {"fixed", "gaussian_only"}),
    "CovariateShiftClassifier": (CovariateShiftClassifier, PRICE, {"fixed", "gaussian_only"}),
    "CnvxAdap": (CnvxAdap, REACH | {"target_bound": 4.0}, {"gaussian_only"}),
    "CnvxAdap as published": (CnvxAdap, REACH | {"target_bound": 4.0, "variant": "paper"}, set()),
    "NCnvxAdap": (NCnvxAdap, REACH | {"classes": [0, 1]}, {"gaussian_only"}),
}
stating = pytest.mark.parametrize("name", STATED)


def flags(model):
    cost = model.privacy_cost()
    return {name for name in ("gaussian_only", "fixed") if getattr(cost, name)}


@stating
def test_an_estimator_states_what_is_known_of_its_noise(name):
    kind, params, stated = STATED[name]
    assert flags(kind(**params)) == stated


@stating
def test_a_subclass_in_name_alone_states_the_same(name):
    kind, params, stated = STATED[name]
    signature = inspect.signature(kind)

    def other_init(self, *args, **named):
        kind.__init__(self, *args, **named)

    other_init.__signature__ = inspect.signature(kind.__init__)
    renamed = type("Renamed", (kind,), {"__doc__": "Another name.", "__init__": other_init})
    assert flags(renamed(**params)) == stated and signature.parameters
    longer = type("Longer", (renamed,), {"draw": lambda self: "a picture"})
    assert flags(longer(**params)) == stated


def inside(kind):
    """Names of what a fit of a class may run."""
    return [
        name
        for name in ("_release_centers", "_release", "_smallest_mu", "_gate", "fit", "_rules")
        if hasattr(kind, name)
    ]


@stating
def test_a_subclass_with_other_code_states_nothing_unless_it_says_so(name):
    """What is inherited speaks of code that no longer runs."""
    kind, params, stated = STATED[name]
    for member in inside(kind):
        found = getattr(kind, member)
        mine = {**found} if isinstance(found, dict) else partialmethod(found)
        other = type("Other", (kind,), {member: mine})
        assert flags(other(**params)) == set(), member
        # a class between, and a mixin beside or behind
        deeper = type("Deeper", (other,), {})
        beside = type("Beside", (type("Mixin", (), {member: mine}), kind), {})
        base = PrivateKMeans if issubclass(kind, PrivateKMeans) else PrivateEstimator
        for made in (deeper, beside):
            assert flags(made(**params)) == set(), member
        if hasattr(base, member) and member not in vars(kind):
            behind = type("Behind", (kind, type("Base", (base,), {member: mine})), {})
            runs = inspect.getattr_static(behind, member) is mine  # which of the two comes first
            assert flags(behind(**params)) == (set() if runs else stated), member
        again = {member: mine, "_gaussian_only": True}
        assert flags(type("Again", (kind,), again)(**params)) == {"gaussian_only"}


@pytest.mark.parametrize("value", [1, "yes", np.True_, [True], None])
def test_a_flag_is_true_or_it_is_false(value):
    odd = type("Odd", (KTupleKMeans,), {"_gaussian_only": value, "_fixed_cost": value})
    assert flags(odd(2, **BALL)) == set()
    odd = type("Odd", (KTupleKMeans,), {"_is_upper_bound": value})
    assert odd(2, **BALL).privacy_cost().is_upper_bound is False


def test_an_inherited_flag_would_have_let_other_noise_count_as_gaussian():
    class Laplace(PEMeans):
        """PE-means, but its centers are Laplace's."""

        def _release_centers(self, X, noise, center):
            count = noise.count(len(X), epsilon=self.epsilon, label="rows")
            return np.full((self.n_clusters, X.shape[1]), count / 1e9)

    rows, budget = np.zeros((60, 2)), PrivacyBudget(4.0, 1e-5)
    model = budget.fit(Laplace(2, **BALL), rows)
    assert budget.spendings == (Spending.claim(1.0, 1e-6, "add_remove"),)
    assert model.cluster_sizes_ is model.cluster_sizes_se_ is None


# ---------------------------------------------------------------- results have names


def counting(**more):
    class Mine(PrivateKMeans):
        """Returns what it is told."""

        def __init__(
            self,
            n_clusters=2,
            *,
            epsilon=1.0,
            delta=1e-6,
            radius=4.0,
            center=None,
            bounds=None,
            neighboring="add_remove",
            random_state=0,
        ):
            self.n_clusters, self.epsilon, self.delta = n_clusters, epsilon, delta
            self.radius, self.center, self.bounds = radius, center, bounds
            self.neighboring, self.random_state = neighboring, random_state

        def _release_centers(self, X, noise, center):
            noise.count(len(X), epsilon=self.epsilon, label="rows")
            centers = np.zeros((self.n_clusters, X.shape[1]))
            return Clusters(centers, **more) if more else centers

    return Mine


def test_an_estimator_that_counts_nothing_may_return_its_centers_alone():
    model = counting()(center=[1.0, 2.0]).fit(np.zeros((9, 2)))
    assert model.cluster_centers_.tolist() == [[1.0, 2.0]] * 2
    assert model.cluster_sizes_ is model.cluster_sizes_se_ is None
    assert not hasattr(model, "cluster_centers_se_")
    assert model.privacy_cost().is_upper_bound and flags(model) == set()


def test_results_become_attributes_in_one_place():
    found = {"sizes": [3, 4], "sizes_se": 1.5, "centers_se": np.ones((2, 2))}
    kind, rows = counting(**found, more={"status_": "released"}), np.zeros((9, 2))
    model = kind(center=[1.0, 2.0]).fit(rows)
    assert model.cluster_sizes_.tolist() == [3.0, 4.0] and model.cluster_sizes_.dtype == float
    assert model.cluster_sizes_se_.tolist() == [1.5, 1.5] and model.status_ == "released"
    assert model.cluster_centers_se_.tolist() == [[1.0, 1.0]] * 2
    boxed = kind(radius=None, bounds=([0.0, 0.0], [4.0, 40.0])).fit(rows)
    assert boxed.cluster_centers_.tolist() == [[2.0, 20.0]] * 2
    assert boxed.cluster_centers_se_.tolist() == [[2.0, 20.0]] * 2
    assert boxed.cluster_sizes_.tolist() == [3.0, 4.0]


# ---------------------------------------------------------------- who asks

ASKS = "ledger/ledger ledger/rules ledger/search ledger/choosing audit/audit audit/faults".split()
ASKS += ["command_line/command"]
HIDDEN = {"_declared", "_gaussian_only", "_fixed_cost", "_is_upper_bound", "_check_tables"}
HIDDEN |= {"_check_public", "_total_epsilon", "_smallest_mu", "_cost"}


@pytest.mark.parametrize("module", ASKS)
def test_who_charges_or_audits_asks_an_estimator_for_nothing_hidden(module):
    """Neither by a dot nor by a string, as `getattr` would."""
    tree = ast.parse((Path(dplit.__file__).parent / f"{module}.py").read_text("utf-8"))
    dots = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert not HIDDEN & (dots | words)
