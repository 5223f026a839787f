"""NoisyLloyd at pure epsilon: the shape of one row's influence, what the noise of that shape costs, and how large it is."""

import itertools
import math

import numpy as np
import pytest
import test_standard_errors
from scipy.spatial.distance import cdist

from dplit import (
    CnvxAdap,
    GridKMeans,
    HDPEMeans,
    KTupleKMeans,
    MaxCoverKMeans,
    NoisyLloyd,
    PEMeans,
    PrivacyBudget,
)
from dplit.estimators import kmeans, shaped_deviations
from dplit.estimators.lloyd import shaped_sums
from dplit.geometry import NearestCenter
from dplit.inputs.lattice import lattice
from dplit.mechanisms import Noise, gauge, watch
from dplit.mechanisms.noise import LatticeRows

PURE = {"n_clusters": 3, "epsilon": 1.0, "delta": 0.0, "random_state": 0}
X = test_standard_errors.blobs(2)
BOTH = pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
EITHER = pytest.mark.parametrize("cube", [False, True])


def table(rows, cube, centers, neighboring="add_remove"):
    """(exact whole numbers of a round, the body of its noise, its sensitivity): what `Noise` gets."""
    radius = math.sqrt(rows.shape[1]) if cube else 4.0
    step, limit = lattice(radius)
    seen = []

    def note(event):
        seen.append((np.array(event.value), event.body, event.sensitivity))
        return event.outcome

    ask = {"radius": radius, "epsilon": 1.0, "cube": cube, "label": "a round"}
    assign = NearestCenter(centers / step, limit, whole=True)
    with watch(note):
        ask["noise"] = Noise(0, neighboring=neighboring)
        shaped_sums(LatticeRows(rows, radius), groups=assign, n_groups=len(centers), **ask)
    return seen[0]


@EITHER
@pytest.mark.parametrize("d", [1, 2, 5])
def test_one_row_moves_a_round_by_at_most_its_sensitivity_and_some_row_by_all_of_it(cube, d):
    rng = np.random.default_rng(d)
    rows = rng.uniform(-1, 1, size=(30, d)) * (1 if cube else 9)  # many outside the ball
    rows[:4] = np.sign(rows[:4]) * (1 if cube else 99)
    centers = rng.uniform(-1, 1, size=(3, d))
    whole, body, moves = table(rows, cube, centers)
    assert moves == 1
    one_less = [
        gauge(whole - table(np.delete(rows, i, axis=0), cube, centers)[0], body).sum()
        for i in range(len(rows))
    ]
    assert 0.999999 < max(one_less) <= 1
    _, body, moves = table(rows, cube, centers, "replace")
    assert moves == 2
    other = [np.r_[rows[:i], -rows[i : i + 1], rows[i + 1 :]] for i in range(len(rows))]
    changed = [gauge(whole - table(rows_, cube, centers)[0], body).sum() for rows_ in other]
    assert 1.999 < max(changed) <= 2


@BOTH
@EITHER
@pytest.mark.parametrize("d", [1, 3, 12])
def test_equation_3_is_the_deviation_of_what_is_drawn(neighboring, cube, d):
    radius = math.sqrt(d) if cube else 2.0
    noise = Noise(1, neighboring=neighboring)
    ask = {"radius": radius, "epsilon": 0.5, "cube": cube, "noise": noise, "label": "a round"}
    sums, counts = shaped_sums(LatticeRows(np.zeros((1, d)), radius), n_groups=20_000, **ask)
    said = shaped_deviations(d, radius, 0.5, neighboring, cube)
    assert np.allclose((np.std(sums), np.std(counts)), said, rtol=0.03)
    laplace = math.sqrt(2) * noise.sum_scale(d, radius=radius, n_groups=9, epsilon=0.5)
    assert said[0] < laplace


@BOTH
@pytest.mark.parametrize("options", [{"radius": 4.0}, {"bounds": (-4.0, 4.0)}])
@pytest.mark.parametrize("start", [{}, {"init": "mean"}, {"init": "cells"}, {"n_iter": 1}])
def test_every_round_costs_its_part_and_no_delta(neighboring, options, start):
    model = NoisyLloyd(**PURE, **options, **start, neighboring=neighboring).fit(X)
    spent, rounds = model.spent_, start.get("n_iter", 5) + len(start.get("init", "")) // 4
    assert spent.delta == 0 and spent.epsilon <= 1.0 and spent.epsilon == pytest.approx(1.0)
    assert sum(r.times for r in spent.releases) == rounds
    assert {r.mechanism for r in spent.releases} == {"knorm"}
    assert all(r.epsilon == pytest.approx(1 / rounds) for r in spent.releases)
    assert all(r.sensitivity == (1 if neighboring == "add_remove" else 2) for r in spent.releases)
    cost = model.privacy_cost()
    assert (cost.epsilon, cost.delta, cost.fixed, cost.gaussian_only) == (1.0, 0.0, True, False)


def test_a_budget_without_a_delta_pays_for_fits_and_for_a_search():
    budget = PrivacyBudget(4, 0)
    budget.fit(NoisyLloyd(**PURE, radius=4.0), X)
    found = budget.search(NoisyLloyd(**PURE, radius=4.0), {"n_clusters": [1, 3]}, X, epsilon=0.5)
    assert found.best_estimator_.spent_.delta == 0
    assert budget.spent.epsilon <= 4 and budget.spent.delta == 0
    with pytest.raises(Exception, match="epsilon"):
        budget.fit(NoisyLloyd(**PURE, radius=4.0), X)
    with pytest.raises(Exception, match="delta"):
        PrivacyBudget(3, 0).fit(NoisyLloyd(**PURE | {"delta": 1e-6}, radius=4.0), X)


@pytest.mark.parametrize(("epsilon", "d"), [(1e-7, 2), (1e-5, 900)])
def test_a_cost_whose_noise_has_no_lattice_is_refused_before_a_charge(epsilon, d):
    budget = PrivacyBudget(1, 0)
    with pytest.raises(ValueError, match=f"^epsilon.*{d} columns"):
        budget.fit(NoisyLloyd(**PURE | {"epsilon": epsilon}, radius=4.0), np.zeros((5, d)))
    assert budget.ledger == ()
    # and what is not refused is answered, far outside the data's own scale too
    least = 5 * 2.0**-27 * (d + 65) * (1 + 1e-9)
    ask = PURE | {"epsilon": least, "neighboring": "replace"}
    assert NoisyLloyd(**ask, radius=4.0).fit(np.zeros((5, d))).spent_.delta == 0


def test_standard_errors_cover_as_with_gaussian_noise():
    for epsilon in (2.0, 20.0):
        share, n, total = test_standard_errors.coverage(
            NoisyLloyd, 2, 40, delta=0.0, epsilon=epsilon
        )
        assert n > 0 and share > 0.95 - 4 * np.sqrt(0.95 * 0.05 / (3 * 40))
    assert n > 0.8 * total


def test_at_a_large_epsilon_it_finds_the_clusters_in_ball_and_box():
    middles = np.stack([X[i::3].mean(axis=0) for i in range(3)])
    for options in ({"radius": 4.0}, {"bounds": (-4.0, 4.0)}):
        with pytest.warns(Warning, match="epsilon"):
            model = NoisyLloyd(**PURE | {"epsilon": 100.0}, **options, init=middles).fit(X)
        assert cdist(middles, model.cluster_centers_).min(axis=1).max() < 0.05
        assert np.allclose(model.cluster_sizes_, 400, atol=5)


def test_the_cube_has_the_smaller_noise_and_the_better_centers():
    wide, box = [], []
    for seed, d in itertools.product(range(20), (4,)):
        rows = np.clip(test_standard_errors.blobs(d) / 4, -1, 1)
        ask = PURE | {"random_state": seed, "epsilon": 0.5, "n_clusters": 1, "n_iter": 1}
        mean = rows.mean(axis=0)
        wide.append(NoisyLloyd(**ask, radius=2.0).fit(rows).cluster_centers_[0] - mean)
        box.append(NoisyLloyd(**ask, bounds=(-1, 1)).fit(rows).cluster_centers_[0] - mean)
    assert np.std(box) < 0.9 * np.std(wide)


KINDS = GridKMeans, HDPEMeans, KTupleKMeans, MaxCoverKMeans, NoisyLloyd, PEMeans


def test_a_delta_of_zero_names_the_estimators_that_take_it():
    """These and no others; a wrong delta of another kind names none, and nothing is charged."""
    budget = PrivacyBudget(4.0, 1e-5)
    for kind in KINDS:
        model = kind(2, epsilon=1.0, delta=0, radius=1.0)
        if kind.__name__ in kmeans.PURE:
            assert model.privacy_cost().delta == 0
            continue
        with pytest.raises(ValueError, match="delta=0, use GridKMeans or NoisyLloyd"):
            budget.fit(model, X)
        for delta in (-1e-9, 1.0, float("nan"), None):
            with pytest.raises(ValueError, match="delta") as told:
                budget.fit(kind(2, epsilon=1.0, delta=delta, radius=1.0), X)
            assert "GridKMeans or" not in str(told.value)
    with pytest.raises(ValueError, match="delta=0") as told:  # no kind of its family takes it
        CnvxAdap(epsilon=1.0, delta=0).privacy_cost()
    assert "GridKMeans" not in str(told.value) and not budget.ledger
