"""Source and target: every private number against brute force, every promise of an estimator, and the solver against the truth."""

import doctest
import itertools
import math
import pickle
import re
import tracemalloc
import warnings
from decimal import Decimal
from functools import partial
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse, stats
from scipy.spatial.distance import cdist
from sklearn.base import clone
from test_audit import is_caught, planted
from test_estimators import (
    BAD_X,
    FORMS,
    IMPOSSIBLE,
    Untouchable,
    attributes,
    close,
    quotes,
    sentences,
)
from test_estimators import listen as listen_to

from dplit import (
    BudgetExceeded,
    NeighborNoisyAverages,
    NoisyAverageSet,
    PrivacyBudget,
    SourceTargetKMedoids,
    audit,
    datasets,
    source_target,
)
from dplit.accounting import gaussian_mu, zcdp_epsilon
from dplit.geometry import clip_to_ball, farthest_point_cover
from dplit.inputs import DoubtWarning, PrivacyWarning, quantize
from dplit.inputs.lattice import lattice
from dplit.mechanisms import Noise, gauge, watch
from dplit.mechanisms import noise as mechanisms_noise
from dplit.source_target import averages, cell_sensitivity, distances
from dplit.source_target import sources as source_target_sources
from dplit.source_target.sources import _Support

RADIUS = 4.0
Xt = np.random.default_rng(5).normal(size=(40, 2))  # PUBLIC
Xs = np.random.default_rng(8).normal(scale=3.0, size=(61, 2)).astype(np.float32).astype(float)
NAS = partial(NoisyAverageSet, t=30, radius=RADIUS, n_cells=5, random_state=0)
NNA = partial(NeighborNoisyAverages, radius=RADIUS, n_cells=2, cell_radius=6.0, gamma=0.4)
NNA = partial(NNA, output="cloud", random_state=0)
COUNTS = partial(NNA, n_cells=8, output="count")
PAPER = partial(NeighborNoisyAverages, radius=RADIUS, n_cells=2, variant="paper", gamma=0.4)
PAPER = partial(PAPER, random_state=0)
ESTIMATORS = {
    "NAS, pure": partial(NAS, epsilon=2.0),
    "NAS, pure, with spread": partial(NAS, epsilon=2.0, spread=True),
    "NAS, approximate": partial(NAS, epsilon=2.0, delta=1e-5),
    "NAS, zCDP, with spread": partial(NAS, rho=0.5, spread=True),
    "NAS, pure, printed": partial(NAS, epsilon=2.0, variant="paper"),
    "NAS, approximate, printed": partial(NAS, epsilon=2.0, delta=1e-5, variant="paper"),
    "NAS, zCDP, printed": partial(NAS, rho=0.5, variant="paper"),
    "NNA, pure": partial(NNA, epsilon=2.0),
    "NNA, means": partial(NNA, epsilon=2.0, output="mean"),
    "NNA, counts": partial(COUNTS, epsilon=0.5),
    "NNA, counts, zCDP": partial(COUNTS, rho=0.1),
    "NNA, asked": partial(NNA, epsilon=2.0, output=None),
    "NNA, asked, approximate": partial(NNA, epsilon=2.0, delta=1e-5, output=None),
    "NNA, asked, zCDP": partial(NNA, rho=0.5, output=None),
    "NNA, approximate": partial(NNA, epsilon=2.0, delta=1e-5),
    "NNA, zCDP": partial(NNA, rho=0.5),
    "NNA, pure, printed": partial(PAPER, epsilon=2.0),
    "NNA, zCDP, printed": partial(PAPER, rho=0.5),
}
every = pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)
both = pytest.mark.parametrize("neighboring", ["add_remove", "replace"])


def fit(model, rows):
    return model.fit(Xs=rows, Xt=Xt)


class Beside:
    """An estimator whose `fit` takes the sources alone, for helpers that know no target."""

    def __init__(self, model):
        self.fit = lambda rows: model.fit(Xs=rows, Xt=Xt)


def listen(model, rows):
    return listen_to(Beside(model), rows)


def sources(model, rows):
    return fit(model, rows).sources_


def is_nas(make):
    return issubclass(make.func, NoisyAverageSet)


# ---------------------------------------------------------------- audits


def pairs_of(neighboring):
    """The zoo; a row at a cell beside a crowd; for replace, a row that crosses its cell."""
    crowd = np.zeros((40, 2))
    if neighboring == "replace":
        across = [("across", np.vstack([row, crowd]), np.vstack([-row, crowd])) for row in Xt[3:5]]
        return across + audit.neighbors(2, RADIUS, neighboring="replace", n_random=8)
    beside = [("at a cell", crowd, np.vstack([crowd, row])) for row in Xt[3:5]]
    nobody = [("nobody", np.zeros((0, 2)), Xt[:1].copy().copy())]
    return nobody + beside + audit.neighbors(2, RADIUS, n_random=8)


@every
@both
def test_replay_finds_nothing(make, neighboring):
    model = make(neighboring=neighboring)
    assert not audit.replay(model, pairs_of(neighboring), seeds=range(6), fit=fit)


def zoo(neighboring):
    return pairs_of(neighboring), audit.walks(2, RADIUS, neighboring=neighboring)


# a single release has no later one
LATER = (
    "the same draws",
    "a privacy cost above the claim after",
)


def harmless(name, bug):
    """Bugs that are none, each for a reason that another test or the chapter proves."""
    same_for_both = "NAS" in name and bug == "add_remove sensitivity, replace claimed"
    # twice a price of 0.05 is still far below the claim of 2
    overpaid = name == "NAS, approximate, printed" and bug == "half the noise, declared"
    # Laplace and K-norm noise are drawn by two samplers, which have no draws to share
    asked = "asked" in name and ("zCDP" in name or not bug.startswith(LATER[0]))
    # a row of NaN is in the reach of no cell, so it counts nowhere
    nowhere = name.startswith("NNA") and "printed" not in name and bug == "NaN passes"
    return (bug.startswith(LATER) and not asked) or same_for_both or overpaid or nowhere


@pytest.mark.parametrize(("name", "bug"), planted(ESTIMATORS))
def test_every_injected_bug_is_caught(name, bug):
    if "NAS" in name and bug == "an exact threshold on an inner count":
        pytest.skip("sums of exactly t rows, filled up with public ones: there is no count")
    assert is_caught(bug, ESTIMATORS[name](), zoo, fit=fit, n_runs=80) != harmless(name, bug)


@pytest.mark.parametrize("name", ["NAS, pure", "NAS, zCDP, printed", "NNA, means", "NNA, zCDP"])
def test_exploring_finds_nothing(name):
    assert not audit.explore(ESTIMATORS[name](), zoo("add_remove")[1], fit=fit)


@pytest.mark.parametrize("make", [make for name, make in ESTIMATORS.items() if "asked" not in name])
def test_one_release_has_no_later_one_to_share_its_draws_with(make):
    assert len(audit.record(make(), Xs, 0, fit=fit).events) == 1
    honest = sources(make(), Xs)
    with audit.inject("the same draws in every release", make(), fit=fit) as (
        model,
        broken,
        _,
    ):
        assert np.array_equal(broken(model, Xs).sources_, honest)


@pytest.mark.parametrize("halved", [False, True])
@pytest.mark.parametrize(
    "cost", [{"epsilon": 2.0}, pytest.param({"mu": 1.0}, marks=pytest.mark.slow)]
)
def test_the_black_box_stays_below_the_claim_and_notices_half_the_noise(cost, halved):
    # confidence 0.999 each; the canary sits at the edge of its only cell
    bought, sides = {k: v * (2 if halved else 1) for k, v in cost.items()}, []
    for seed, rows in enumerate((np.zeros((0, 2)), np.array([[0.0, 1.0]]))):
        noise = Noise(seed)
        buy = partial(
            source_target.neighbor_noisy_averages, rows, np.zeros((1, 2)), radius=1.0, noise=noise
        )
        drawn = [buy(cell_radius=1.0, **bought) for _ in range(4000)]
        sides.append(np.array([np.r_[sums[0], counts] for sums, counts in drawn]))
    bound = audit.mu_lower_bound if "mu" in cost else audit.epsilon_lower_bound
    (claim,) = cost.values()
    assert (bound(*sides) > claim) == halved and bound(*sides) > 0.5 * claim


# ---------------------------------------------------------------- the price


@every
@both
def test_the_receipt_is_what_was_asked_for(make, neighboring):
    model = fit(make(neighboring=neighboring), Xs)
    spent, printed = model.spent_, model.variant == "paper"
    asks = not printed and getattr(model, "output", "") is None
    assert spent.neighboring == neighboring and len(spent.releases) == 1 + asks
    if model.rho is not None:
        assert spent.rho <= model.rho * (1 + 1e-9)
        assert printed or spent.rho >= 0.999 * model.rho
    else:
        assert spent.epsilon <= model.epsilon * (1 + 1e-9) and spent.delta <= (model.delta or 0)
        assert printed or spent.epsilon >= 0.999 * model.epsilon


def test_printed_noise_is_as_printed_and_its_cost_honest():
    D, t, d = 2 * lattice(RADIUS)[1] * lattice(RADIUS)[0], 30, 2

    def scale(make, **options):
        (release,) = fit(make(**options), Xs).spent_.releases
        return release.scale

    nas = ESTIMATORS["NAS, pure, printed"]
    assert scale(nas) == pytest.approx(5 * math.sqrt(d) * D / 2.0, rel=1e-5)
    sigma = source_target.nas_sigma(5, t, 2.0, 1e-5, D) * t
    assert scale(ESTIMATORS["NAS, approximate, printed"]) == pytest.approx(sigma, rel=1e-9)
    assert scale(ESTIMATORS["NAS, zCDP, printed"]) == pytest.approx(D * math.sqrt(5 / 1.0))
    nna = ESTIMATORS["NNA, pure, printed"]
    assert scale(nna) == pytest.approx(D * (math.sqrt(d) + 1) / 2.0, rel=1e-5)
    assert fit(nna(), Xs).spent_.epsilon == pytest.approx(2 * (d**0.5 + 2) / (2 * d**0.5 + 2), 1e-5)
    # replacement is dearer than the printed noise pays for: more noise, not a broken promise
    assert fit(nna(neighboring="replace"), Xs).spent_.epsilon == pytest.approx(2.0)
    zcdp = ESTIMATORS["NNA, zCDP, printed"]
    assert scale(zcdp) == pytest.approx(math.sqrt(2 / 0.5) * D)
    assert fit(zcdp(), Xs).spent_.rho == pytest.approx(0.5 * 1.25 / 4)


def test_fixed_points_of_the_formulas():
    assert source_target.nas_sigma(200, 150, 1.0, 1e-6) == pytest.approx(6.5387, abs=1e-4)
    assert source_target.nas_sigma(200, 150, 3.0, 1e-6) == pytest.approx(2.1796, abs=1e-4)
    needed = [source_target.nas_sensitivity(200, 150) / gaussian_mu(e, 1e-6) for e in (1.0, 3.0)]
    assert needed == pytest.approx([0.3983, 0.1456], abs=1e-4)
    assert source_target.cylinder_rms(8, 3.0) == pytest.approx((3.1269, 2.0184), abs=1e-3)
    assert source_target.laplace_noise_bound(3.0, 2, 0.05, 200, 150) == pytest.approx(
        400 / 450 * math.log(8000)
    )


def test_whichever_noise_is_smaller_pays_for_an_approximate_nna():
    narrow = NeighborNoisyAverages(
        epsilon=3.0, delta=1e-6, radius=1.0, n_cells=2, output="cloud", random_state=0
    )
    rng = np.random.default_rng(0)
    for d, kind in ((2, "knorm"), (300, "gaussian")):
        tables = rng.normal(size=(2, 30, d)) / d
        (release,) = clone(narrow).fit(Xs=tables[0], Xt=tables[1]).spent_.releases
        assert release.mechanism == kind
        sigma = (
            source_target.cell_sensitivity(1.0, 1.0, d, 2) / gaussian_mu(3.0, 1e-6) * math.sqrt(d)
        )
        assert (source_target.cylinder_rms(d, 3.0)[0] < sigma) == (kind == "knorm")


def test_whichever_noise_is_smaller_pays_for_an_approximate_nas():
    target = np.random.default_rng(0).normal(size=(60, 2))
    for n, kind in ((15, "knorm"), (40, "gaussian")):
        make = partial(NoisyAverageSet, t=5, radius=4.0, n_cells=n, random_state=0)
        (release,) = make(epsilon=3.0, delta=1e-6).fit(Xs=Xs, Xt=target).spent_.releases
        assert release.mechanism == kind
        sides = (
            source_target.average_rms(n, 2, epsilon=3.0),
            source_target.average_rms(n, 2, mu=gaussian_mu(3.0, 1e-6)),
        )
        assert (sides[0] < sides[1]) == (kind == "knorm")
        assert source_target.average_rms(1, 1, epsilon=1.0) == pytest.approx(
            math.sqrt(2)
        )  # Laplace
        # the claimed size, measured: one table of averages of nobody, so all noise but the dummies
        for cost in ({"epsilon": 3.0}, {"mu": 0.65}):
            buy = partial(source_target.noisy_average_set, Xs[:0], target[:n], 5, radius=4.0)
            exact = buy(noise=Noise(0), mu=1e9)[0]
            drawn = [buy(noise=Noise(s), **cost)[0] - exact for s in range(60)]
            size = np.sqrt(np.mean(np.sum(np.square(drawn), axis=2))) / (8.0 / 5)
            assert size == pytest.approx(source_target.average_rms(n, 2, **cost), rel=0.15)


@every
@pytest.mark.parametrize(("parameter", "value"), [("epsilon", 12.0), ("delta", 0.01)])
def test_a_legal_cost_that_protects_little_is_computed_with_a_warning(make, parameter, value):
    params = make().get_params()
    if params["rho"] is not None or (parameter == "delta" and not params["delta"]):
        pytest.skip("not its price")
    with pytest.warns(PrivacyWarning, match=parameter):
        fit(make(**{parameter: value}), Xs)


def fit_and_draws(model):
    """A fitted model, and all numbers that its noise gave out."""
    drawn = []
    with watch(lambda event: drawn.append(np.ravel(event.outcome)) or event.outcome):
        return fit(model, Xs), np.concatenate(drawn)


@every
def test_only_operating_system_noise_is_called_private(make):
    # of counts all may be too small to be kept, in one fit of five: so what is drawn is compared, which
    # is the same in both fits with a probability below 1e-7, and the sources where one has any
    (secret, drawn), (other, again) = (fit_and_draws(make(random_state=None)) for _ in range(2))
    assert secret.spent_.private and not np.array_equal(drawn, again)
    nothing = len(secret.sources_) == len(other.sources_) == 0
    assert nothing or not np.array_equal(secret.sources_, other.sources_)
    assert not fit(make(), Xs).spent_.private and "NOT private" in str(fit(make(), Xs).spent_)
    for seed in (lambda: 0, lambda: np.random.default_rng(0)):
        one, two = (fit(make(random_state=seed()), Xs) for _ in range(2))
        assert np.array_equal(one.sources_, two.sources_) and repr(one.spent_) == repr(two.spent_)
    assert not np.array_equal(fit(one, Xs).sources_, two.sources_)


@every
def test_a_budget_charges_first_and_refuses_unread(make):
    model, delta = make(), 1e-3
    if model.rho is not None:  # a budget counts epsilon and delta: it needs a delta to convert at
        budget = PrivacyBudget(4.5, delta)
        with pytest.raises(ValueError, match="epsilon"):
            budget.fit(model, Xs=Untouchable(), Xt=Xt)
        assert budget.ledger == ()
        model, cost = make(delta=1e-4), zcdp_epsilon(model.rho, 1e-4)
    else:
        cost = model.epsilon
    budget = PrivacyBudget(1.01 * cost, delta, composition="added")
    assert budget.fit(model, Xs=Xs, Xt=Xt) is model and 0 < budget.spent.epsilon <= cost
    assert budget.spent == (model.spent_.epsilon, model.spent_.delta)
    with pytest.raises(BudgetExceeded):
        budget.fit(make(delta=model.delta), Xs=Untouchable(), Xt=Xt)
    assert len(budget.ledger) == 1


# ---------------------------------------------------------------- public parameters

PUBLIC = {name: IMPOSSIBLE[name] for name in ("radius", "center", "neighboring", "random_state")}
PUBLIC["t"] = [*IMPOSSIBLE["n_clusters"], (2**31 + 1, ValueError)]
PUBLIC["rho"] = [("1", TypeError), (True, TypeError), (0.0, ValueError), (-1.0, ValueError)]
PUBLIC["rho"] += [(float("nan"), ValueError), (float("inf"), ValueError), (1e-13, ValueError)]
PUBLIC["epsilon"] = [(v, e) for v, e in IMPOSSIBLE["epsilon"]]
PUBLIC["delta"] = [(v, e) for v, e in IMPOSSIBLE["delta"] if v not in (None, 0.0)]
PUBLIC["n_cells"] = [(0, ValueError), ("some", TypeError), (2.0, TypeError), (True, TypeError)]
PUBLIC["cell_radius"] = [
    *((v, ValueError) for v in (0.0, float("nan"))),
    *((v, TypeError) for v in ("1", True, 1j, Decimal(1), [1.0])),
]
PUBLIC["gamma"] = [(v, ValueError) for v in (0.0, 0.5, 1.0, float("nan"))]
PUBLIC["gamma"] += [(v, TypeError) for v in (True, "1")]
PUBLIC["variant"] = [(v, ValueError) for v in (None, "clouds", 1, [])]
PUBLIC["output"] = PUBLIC["variant"][1:]
PUBLIC["spread"] = [(v, TypeError) for v in (None, 0.5, "yes")]


@pytest.mark.parametrize(
    ("name", "parameter", "value", "error"),
    [
        pytest.param(name, parameter, value, error, id=f"{name}-{parameter}-{i}")
        for name in ("NAS, pure", "NAS, approximate", "NAS, zCDP, with spread", "NNA, pure")
        for parameter, cases in PUBLIC.items()
        if parameter in ESTIMATORS[name]().get_params()
        for i, (value, error) in enumerate(cases)
        if ("zCDP" in name) == (parameter == "rho")
    ],
)
def test_an_impossible_public_parameter_is_refused_before_the_sources_are_read(
    name, parameter, value, error
):
    model = ESTIMATORS[name](**{parameter: value})
    with pytest.raises(error) as caught:
        fit(model, Untouchable())
    message = str(caught.value)
    assert parameter in message and 30 < len(message) < 400 and "\n" not in message
    assert not attributes(model)


@pytest.mark.parametrize(
    "make",
    [
        partial(NAS),
        partial(NNA),
        partial(NAS, epsilon=1.0, rho=1.0),
        partial(NNA, epsilon=1.0, rho=1.0),
        partial(PAPER, epsilon=1.0, delta=1e-6),
        partial(NAS, rho=1.0, delta=2.0),
        partial(NAS, epsilon=1.0, center=[0.0] * 3),
    ],
)
def test_costs_that_contradict_one_another_are_refused_unread(make):
    with pytest.raises(ValueError):
        fit(make(), Untouchable())


@pytest.mark.parametrize("make", [NAS, NNA, PAPER])
def test_a_cost_below_what_the_lattice_can_hide_is_refused_before_it_is_charged(make):
    budget = PrivacyBudget(1.0)
    with pytest.raises(ValueError, match="epsilon=1e-09"):
        budget.fit(make(epsilon=1e-9), Xs=Untouchable(), Xt=Xt)
    assert budget.ledger == ()
    assert 0 < fit(make(epsilon=1e-5), Xs).spent_.epsilon < 1.001e-5  # as printed: less


@every
@pytest.mark.parametrize(
    "target", [None, [], Xt[:0], Xt[0], "all", Xt * np.nan, [[1.0], [1.0, 2.0]]]
)
def test_an_impossible_target_is_refused_unread(make, target):
    with pytest.raises(ValueError, match="Xt"):
        make().fit(Xs=Untouchable(), Xt=target)


def test_a_delta_beside_rho_only_quotes_an_epsilon():
    plain, quoted = (fit(NAS(rho=0.5, delta=d), Xs) for d in (None, 1e-6))
    assert np.array_equal(plain.sources_, quoted.sources_)
    assert math.isinf(plain.spent_.epsilon) and quoted.spent_.epsilon < 6


@pytest.mark.parametrize("kind", [NoisyAverageSet, NeighborNoisyAverages])
def test_a_delta_of_0_is_none(kind):
    cost = {"epsilon": 1.0, "radius": RADIUS, "random_state": 0} | (
        {"t": 30} if kind is NoisyAverageSet else {}
    )
    without, pure = (fit(kind(delta=d, **cost), Xs) for d in (None, 0.0))
    assert np.array_equal(without.sources_, pure.sources_) and pure.spent_.delta == 0
    with pytest.raises(ValueError, match="delta=0.0"):
        fit(kind(delta=0.0, rho=0.5, **cost | {"epsilon": None}), Xs)


# ---------------------------------------------------------------- nothing private is kept


@every
def test_a_fit_leaves_released_numbers_the_receipt_and_nothing_else(make):
    expected = {"sources_", "spent_", "n_features_in_"}
    expected |= {"spread_"} if getattr(make(), "spread", False) else set()
    expected |= {"output_"} if not is_nas(make) and make().variant != "paper" else set()
    assert attributes(make()) == set() and attributes(fit(make(), Xs)) == expected


@every
def test_no_source_is_found_in_pickle_display_or_text(make):
    model = make()
    text = listen(model, Xs)
    stored = pickle.dumps(model)
    shown = repr(model) + repr(model.spent_) + model.spent_._repr_markdown_()
    assert text.strip() == "" and not quotes(shown, Xs, n_rows=False)
    assert not [v for v in Xs.ravel() if v.tobytes() in stored]


NEIGHBORS = {
    "one row less": (Xs, Xs[:-1]),
    "one row exchanged": (Xs, np.r_[Xs[:-1], [[50.0, -50.0]]]),
    "one row far outside": (Xs / 100, np.r_[Xs / 100, [[1e300, 1e300]]]),
    "nobody or one": (Xs[:0], Xs[:1]),
    "equal rows, one apart": (np.ones((9, 2)), np.r_[np.ones((9, 2)), [[-1.0, 2.0]]]),
}


@every
@pytest.mark.parametrize("pair", NEIGHBORS.values(), ids=NEIGHBORS)
def test_neighbors_get_the_same_text_and_receipt(make, pair):
    seen = []
    for rows in pair:
        model = make()
        text = listen(model, rows)
        seen.append((text, repr(model.spent_), attributes(model), model.sources_.shape[1]))
    assert seen[0] == seen[1] and seen[0][0].strip() == ""


@every
def test_refitting_replaces_everything_and_a_failed_refit_changes_nothing(make):
    model = fit(make(), Xs)
    wide = np.c_[Xs, Xs[:, :1]], np.c_[Xt, Xt[:, :1]]
    assert model.fit(Xs=wide[0], Xt=wide[1]).n_features_in_ == 3
    before = vars(model).copy()
    for bad in (wide[0] * np.nan, Xs, Xs[0]):
        with pytest.raises(ValueError):
            model.fit(Xs=bad, Xt=wide[1])
        assert all(vars(model)[name] is before[name] for name in before)


@pytest.mark.parametrize("t", [1, 7, 50, 200])
@pytest.mark.parametrize("n_cells", [1, 3, 20, "all", None])
def test_the_spread_bounds_the_mean_distance_and_the_error(t, n_cells):
    """It was that of the cells alone, below both where cells are few. Mutations: the distance of a target from its cell is left out, or counted twice; the mean is over cells; farther sources than the ball holds."""
    rng = np.random.default_rng(t)
    T, S = rng.uniform(-2, 2, size=(60, 2)), rng.normal(scale=1.5, size=(150, 2))
    T[0] = [9.0, 0.0]  # outside of the ball: clipped, as sources are
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        model = NAS(t=t, n_cells=n_cells, spread=True, rho=1e12).fit(Xs=S, Xt=T)
    T, S = clip_to_ball(T, RADIUS), clip_to_ball(S, RADIUS)
    far = (
        -T / np.linalg.norm(T, axis=1, keepdims=True) * RADIUS
    )  # dummies, where sources are missing
    reach = np.sort(cdist(T, S), axis=1)[:, :t].sum(axis=1)
    reach += max(t - len(S), 0) * np.linalg.norm(far - T, axis=1)
    spread = reach.mean() / t
    assert model.spread_ >= spread - 1e-4
    assert model.spread_ >= source_target.diff_bound(T, S, model.sources_, 2 * RADIUS) - 1e-4
    if n_cells == "all":
        assert model.spread_ == pytest.approx(spread, abs=1e-4)
    elif n_cells is not None and t <= len(S):
        cells = T[source_target.target_cells(T, n_cells)]
        away, own = cdist(T, cells).min(axis=1), cdist(T, cells).argmin(axis=1)
        of_cells = np.sort(cdist(cells, S), axis=1)[:, :t].mean(axis=1)
        assert model.spread_ == pytest.approx((away + of_cells[own]).mean(), abs=1e-4)


def test_a_refit_without_the_spread_forgets_it():
    model = fit(NAS(epsilon=2.0, spread=True), Xs)
    assert np.isfinite(model.spread_)
    assert not hasattr(fit(model.set_params(spread=False), Xs), "spread_")


def test_a_gamma_may_be_of_any_real_type():
    plain, narrow = (fit(NNA(epsilon=2.0, gamma=g), Xs) for g in (0.25, np.float32(0.25)))
    assert np.array_equal(plain.sources_, narrow.sources_)


@pytest.mark.parametrize("rows", [0, 1, 29])
def test_sums_over_the_largest_t_are_exact(rows):
    t, cells = 2**31, Xt[:3]
    sums, _ = source_target.averages._t_nearest_sums(Xs[:rows], cells, t, RADIUS, None)
    far = source_target.averages._far_end(quantize(cells, RADIUS), lattice(RADIUS)[1])
    present = quantize(Xs[:rows], RADIUS).sum(axis=0)
    for got, dummy in zip(sums.tolist(), far.tolist(), strict=True):
        exact = [(t - rows) * int(f) + int(q) for f, q in zip(dummy, present, strict=True)]
        assert got == exact and max(map(abs, exact)) < 2**53


@every
def test_fitting_leaves_parameters_tables_and_global_randomness_alone(make):
    model, tables = make(center=np.ones(2)), (Xs.copy(), Xt.copy())
    before, state = model.get_params(), repr(np.random.get_state())  # noqa: NPY002
    model.fit(Xs=tables[0], Xt=tables[1])
    assert all(model.get_params()[name] is before[name] for name in before)
    assert np.array_equal(tables[0], Xs) and np.array_equal(tables[1], Xt)
    assert repr(np.random.get_state()) == state and not attributes(clone(model))  # noqa: NPY002


# ---------------------------------------------------------------- bad rows, odd rows, forms


@every
@pytest.mark.parametrize("kind", [kind for kind in BAD_X if kind != "no rows"])
def test_unfit_sources_are_refused_before_any_release_and_not_quoted(make, kind):
    spoil, error = BAD_X[kind]
    model, released = make(), mock.Mock(side_effect=AssertionError("released"))
    with mock.patch.multiple(Noise, _add=released), pytest.raises(error) as caught:
        fit(model, spoil(Xs))
    assert not [s for s in sentences(caught.value) if quotes(s, Xs)]
    assert "Xs" in str(caught.value) and not attributes(model)


@every
def test_sources_with_other_columns_are_refused_unquoted(make):
    with pytest.raises(ValueError, match="columns") as caught:
        make().fit(Xs=np.c_[Xs, Xs], Xt=Xt)
    assert not quotes(str(caught.value), Xs)


@every
@pytest.mark.parametrize("form", FORMS)
def test_the_form_and_order_of_the_sources_do_not_change_a_bit(make, form):
    assert np.array_equal(sources(make(), FORMS[form](Xs)), sources(make(), Xs))


@every
def test_units_and_translations_are_only_that(make):
    plain, shift = sources(make(), Xs), np.array([1000.0, -250.0])
    scaled = {"radius": 100 * RADIUS}
    if make().get_params().get("cell_radius"):
        scaled["cell_radius"] = 600.0
    assert close(make(**scaled).fit(Xs=100 * Xs, Xt=100 * Xt).sources_ / 100, plain)
    assert close(make(center=shift).fit(Xs=Xs + shift, Xt=Xt + shift).sources_ - shift, plain)
    assert close(sources(make(), clip_to_ball(Xs, RADIUS)), plain)


ODD = {
    "nobody": Xs[:0],
    "one": Xs[:1],
    "equal rows": np.ones((20, 2)),
    "rows at the centre": np.zeros((50, 2)),
    "huge": Xs * 1e300,
    "tiny": Xs * 1e-310,
}


@every
@pytest.mark.parametrize("rows", ODD.values(), ids=ODD)
@pytest.mark.parametrize(
    "target",
    [Xt, Xt[:1], np.ones((7, 2)), np.r_[Xt, 1e200 * Xt[:5]]],
    ids=["many", "one target", "equal targets", "some far"],
)
def test_odd_tables_give_finite_sources(make, rows, target):
    with np.errstate(all="raise", under="ignore"):
        model = make().fit(Xs=rows, Xt=target)
    assert model.sources_.shape[1] == 2 and np.isfinite(model.sources_).all()
    if is_nas(make):
        assert len(model.sources_) == min(5, len(target))
    elif model.variant != "paper":
        assert np.all(np.linalg.norm(model.sources_, axis=1) <= RADIUS * (1 + 1e-9))
        assert len(model.sources_) <= max((3 if model.output_ == "count" else 1) * len(target), 2)


def test_defaults_work_for_small_targets_and_every_target_as_a_cell():
    for target in (Xt[:3], Xt):
        for n_cells in (None, "all"):
            for model in (
                NoisyAverageSet(t=2, epsilon=1.0, radius=4.0, n_cells=n_cells),
                NeighborNoisyAverages(epsilon=1.0, radius=4.0, n_cells=n_cells),
            ):
                assert model.fit(Xs=Xs, Xt=target).sources_.shape[1] == 2


# ---------------------------------------------------------------- sensitivity

small = st.integers(-3, 3)
tables = st.lists(st.tuples(small, small), max_size=9)


def table_of(name, rows):
    """The exact whole numbers that pass the door."""
    seen = []

    def look(event):
        seen.append(event)
        return event.outcome

    rows = np.array(rows, dtype=float).reshape(-1, 2)
    cells, noise = np.array([[0.0, 0.0], [2.0, 1.0], [-1.0, 3.0]]), None
    with watch(look):
        noise = Noise(0)
        if name == "NAS":
            source_target.noisy_average_set(rows, cells, 4, radius=4.0, noise=noise, epsilon=1.0)
        else:
            r = 2.0
            source_target.neighbor_noisy_averages(
                rows, cells, radius=4.0, cell_radius=r, noise=noise, epsilon=1.0
            )
    return seen[0]


@pytest.mark.parametrize("far", [0, 1, 7])
def test_a_row_one_step_beyond_the_reach_of_its_cell_is_not_counted(far):
    """And one at the very end of it is; the noise is for what lies within."""
    (step, _), reach, seen = lattice(1.0), 5 + far, []
    rows = np.array([[reach, 0.0], [0.0, reach + 1.0], [3.0, 4.0]]) * step
    with watch(lambda event: seen.append(event) or event.outcome):
        source_target.neighbor_noisy_averages(
            rows, np.zeros((1, 2)), radius=1.0, cell_radius=reach * step, noise=Noise(0), mu=1.0
        )
    assert np.asarray(seen[0].value).ravel().tolist() == [reach + 3, 4, 2 * reach]


@pytest.mark.parametrize("weight", [0, -1.0, 1001, 1e14])
def test_a_weight_beyond_its_range_is_refused_before_anything_is_released(weight):
    noise = Noise(0)
    with pytest.raises(ValueError, match="weight"):
        source_target.neighbor_noisy_averages(
            np.zeros((4, 2)), np.zeros((2, 2)), radius=1.0, epsilon=1.0, noise=noise, weight=weight
        )
    assert noise.releases == ()


@pytest.mark.parametrize("name", ["NAS", "NNA"])
@given(rows=tables, extra=st.tuples(small, small))
@settings(max_examples=150, deadline=None)
def test_one_row_moves_the_table_by_no_more_than_its_body(name, rows, extra):
    # grids of whole numbers are full of ties
    first, second = table_of(name, rows), table_of(name, [*rows, extra])
    moved = np.asarray(second.value) - np.asarray(first.value)
    assert gauge(moved, first.body).sum() <= 1 + 1e-12 and first.sensitivity == 1
    if name == "NNA":
        assert np.count_nonzero(moved.any(axis=1)) <= 1


@pytest.mark.parametrize(
    "cost", [{"mu": 1.0}, {"epsilon": 1.0, "laplace": True}], ids=["mu", "laplace"]
)
def test_a_spread_adds_its_own_sensitivity(cost):
    """Mutation: the step of its rounding is left out."""
    seen, n, D = [], len(Xt), 2 * lattice(4.0)[1]
    with watch(lambda event: seen.append(event) or event.outcome):
        given = {"radius": 4.0, "noise": Noise(0), "weights": np.ones(n)}
        source_target.noisy_average_set(Xs, Xt, 7, **given, **cost)
    gaussian = math.hypot(source_target.nas_sensitivity(n, 1, D), D + 1)
    pure = n * math.isqrt(2 * D**2) + D + 1
    assert [event.sensitivity for event in seen] == [gaussian if "mu" in cost else pure]


def test_averages_are_of_the_nearest_and_dummies_are_far():
    t, radius = 7, 4.0
    step, limit = lattice(radius)
    seen = source_target.noisy_average_set(Xs, Xt, t, radius=radius, noise=Noise(0), mu=1e12)[0]
    rows = quantize(Xs, radius) * step
    for x, average in zip(Xt, seen, strict=True):
        nearest_rows = rows[np.argsort(np.linalg.norm(rows - x, axis=1))[:t]]
        assert np.allclose(average, nearest_rows.mean(axis=0), atol=1e-4)
    few, spread = source_target.noisy_average_set(
        Xs[:2], Xt, t, radius=radius, noise=Noise(0), mu=1e12, weights=np.ones(40)
    )
    far = -Xt / np.linalg.norm(Xt, axis=1, keepdims=True) * limit * step
    expected = (rows[:2].sum(axis=0) + 5 * far) / t
    assert np.allclose(few, expected, atol=1e-4)
    distances = cdist(Xt, rows[:2]).sum(axis=1) + 5 * np.linalg.norm(far - Xt, axis=1)
    assert spread == pytest.approx(distances.mean() / t, abs=1e-4)
    assert np.all(np.linalg.norm(far - Xt, axis=1) >= cdist(Xt, rows).max(axis=1) - 1e-9)


def test_cells_are_summed_one_by_one():
    cells, r = Xt[:6], 1.5
    sums, counts = source_target.neighbor_noisy_averages(
        Xs, cells, radius=RADIUS, cell_radius=r, noise=Noise(0), mu=1e9
    )
    rows = quantize(Xs, RADIUS) * lattice(RADIUS)[0]
    owner = cdist(rows, cells).argmin(axis=1)
    for j, cell in enumerate(cells):
        mine = rows[(owner == j) & (np.linalg.norm(rows - cell, axis=1) <= r)]
        assert round(counts[j]) == len(mine)
        assert np.allclose(sums[j], (mine - cell).sum(axis=0), atol=1e-3)


# ---------------------------------------------------------------- laws and bounds


@pytest.mark.parametrize(("d", "epsilon"), [(1, 1.0), (2, 3.0), (8, 0.5)])
def test_cylinder_noise_has_its_size_and_its_tail(d, epsilon):
    n, unit = 40_000, 2**20
    drawn = Noise(1).whole(
        np.zeros((n, d + 1), dtype=int),
        sensitivity=1,
        epsilon=epsilon,
        body=((d, unit), (1, unit)),
    )
    rms = [np.sqrt(np.mean((drawn[:, :d] ** 2).sum(axis=1))), np.sqrt(np.mean(drawn[:, d] ** 2))]
    assert np.allclose(np.array(rms) / unit, source_target.cylinder_rms(d, epsilon), rtol=0.03)
    counts = drawn[:, d] / unit
    # Kolmogorov-Smirnov on the positive half; false-alarm rate 1e-4
    tail = 2 * source_target.count_tail(counts[counts > 0], d, epsilon)
    assert stats.kstest(tail, "uniform").pvalue > 1e-4
    for q in (0.02, 0.2):
        threshold = source_target.count_threshold(q, d, epsilon=epsilon)
        assert threshold == 1.0 or source_target.count_tail(threshold, d, epsilon) == pytest.approx(
            q
        )
    assert source_target.count_threshold(0.02, d, sigma=10.0) == pytest.approx(20.537, abs=1e-2)


def test_empty_cells_are_kept_as_rarely_as_guaranteed():
    kept, target = 0, np.random.default_rng(0).uniform(-1, 1, size=(600, 2))
    model = NeighborNoisyAverages(epsilon=1.0, radius=2.0, output="mean", n_cells=50)
    for seed in range(100):
        kept += len(
            clone(model).set_params(random_state=seed).fit(Xs=np.zeros((0, 2)), Xt=target).sources_
        )
    # 5,000 cells at 0.02: by chance 60 to 143 with probability 1 - 1e-4
    assert 60 < kept < 143


def test_nas_bound_holds_as_often_as_it_says():
    d, n, gamma = 3, 40, 0.2
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(n))
    means = np.linalg.norm(rng.normal(size=(5000, n, d)), axis=2) @ weights
    assert np.mean(means > source_target.mean_noise_bound(1.0, d, gamma, weights)) <= gamma
    assert source_target.mean_noise_bound(
        1.0, d, gamma, weights
    ) < source_target.published_noise_bound(1.0, d, gamma, n)


def test_diff_is_below_its_bound_and_reaches_it():
    rng, reached = np.random.default_rng(0), 0.0
    for _ in range(30):
        target, S, seen = rng.normal(size=(7, 2)), rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
        bound = source_target.diff_bound(target, S, seen, 10.0)
        choices = [c for k in range(1, 4) for c in itertools.combinations(range(7), k)]
        diff = max(
            abs(source_target.stc_cost(target, S, c) - source_target.stc_cost(target, seen, c))
            for c in choices
        )
        assert diff <= bound * (1 + 1e-12)
        reached = max(reached, diff / bound)
    assert reached > 0.7
    assert source_target.diff_bound(target, np.zeros((0, 2)), seen, 0.5) <= 0.5


def test_kd_cover_covers():
    target = np.random.default_rng(0).normal(size=(400, 3))
    chosen = source_target.kd_cover(target, 0.8)
    assert cdist(target, target[chosen]).min(axis=1).max() <= 0.8 and len(set(chosen)) < 400
    assert len(source_target.kd_cover(np.ones((5, 2)), 0.1)) == 1
    assert np.array_equal(source_target.target_cells(target[:9]), np.arange(9))


def test_covering_cells_balance_cover_and_noise():
    """The chosen number makes the sum least, by brute force over all numbers, for each price."""
    rng = np.random.default_rng(0)
    for n, cost in itertools.product((1, 7, 300), ({"mu": 2.0}, {"epsilon": 3.0})):
        target, total = rng.normal(size=(n, 2)), []
        for m in range(1, min(n, 150) + 1):
            cover = cdist(target, target[farthest_point_cover(target, n_points=m)]).min(axis=1)
            total.append(
                1.25 * cover.max() + source_target.average_rms(m, 2, **cost) * 2 * RADIUS / 100
            )
        cells = source_target.covering_cells(target, 100, RADIUS, **cost)
        assert len(cells) == 1 + np.argmin(total)
        assert np.array_equal(cells, farthest_point_cover(target, n_points=len(cells)))
    target = rng.normal(size=(300, 2))

    def count(t, **cost):
        return len(source_target.covering_cells(target, t, RADIUS, **cost))

    assert 1 == count(1, mu=0.01) < count(30, mu=2.0) < count(100, mu=2.0) < count(10**6, mu=2.0)
    assert count(10**6, mu=2.0) == 150
    # with both prices the noise is the smaller one at each number of cells
    both = count(100, mu=0.65, epsilon=3.0)
    assert both in (count(100, mu=0.65), count(100, epsilon=3.0))
    assert len(source_target.covering_cells(np.ones((5, 2)), 10, RADIUS, mu=1.0)) == 1


def test_cell_radius_leaves_outliers_out_only_where_cells_are_full():
    rng = np.random.default_rng(0)
    for n, share in ((1000, 0.9), (60, 1.0)):
        target = rng.normal(size=(n, 2))
        release = mock.patch.object(
            source_target.sources,
            "neighbor_noisy_averages",
            wraps=source_target.neighbor_noisy_averages,
        )
        with release as seen:
            NeighborNoisyAverages(epsilon=3.0, radius=5.0, random_state=0).fit(Xs=Xs, Xt=target)
        target = clip_to_ball(target, 5.0)
        many = source_target.cells.affordable_cells(n, 2, epsilon=3.0)
        distance = source_target.source_distance(
            target, target[source_target.target_cells(target, many)]
        )
        assert seen.call_args.kwargs["cell_radius"] == max(0.5, np.quantile(distance, share))
    assert distance.max() > 0.5  # so the second case saw more than the floor


# ---------------------------------------------------------------- the solver


def p_median(X, d0, k):
    """The least possible cost, by integer programming: y opens rows, z serves i from j."""
    D = cdist(X, X)
    i, j = np.nonzero(D < d0[:, None])
    n, m = len(X), len(i)
    one = np.ones(m)
    served = sparse.csr_array((one, (i, n + np.arange(m))), shape=(n, n + m))
    rows = np.r_[np.arange(m), np.arange(m)]
    opened = sparse.csr_array(
        (np.r_[one, -one], (rows, np.r_[n + np.arange(m), j])), shape=(m, n + m)
    )
    found = optimize.milp(
        np.r_[np.zeros(n), D[i, j] - d0[i]],
        integrality=np.r_[np.ones(n), np.zeros(m)],
        bounds=optimize.Bounds(0, 1),
        constraints=[
            optimize.LinearConstraint(served, ub=1),
            optimize.LinearConstraint(opened, ub=0),
            optimize.LinearConstraint(np.r_[np.ones(n), np.zeros(m)], ub=k),
        ],
    )
    return (d0.sum() + found.fun) / n


def instances():
    for seed, (d, k, blobs) in enumerate(itertools.product((2, 8), (5, 15), (False, True))):
        rng = np.random.default_rng(seed)
        X, S = rng.normal(size=(130, d)), rng.normal(size=(130, d)) + 1
        X[::2] += 4 * blobs
        yield X, S, k


def test_the_solver_is_within_a_fifth_of_a_per_cent_of_the_optimum():
    ratios = []
    for X, S, k in instances():
        best = p_median(X, source_target.source_distance(X, S), k)
        ratios.append(SourceTargetKMedoids(k).fit(Xt=X, sources=S).cost_ / best)
    assert min(ratios) > 1 - 1e-6 and np.mean(ratios) <= 1.002 and max(ratios) <= 1.01


def test_the_greedy_is_greedy_and_swaps_only_help():
    for X, S, k in instances():
        d0 = source_target.source_distance(X, S)
        chosen, gain = source_target.medoids.greedy_medoids(X, d0, k)
        distance, D = d0.copy(), cdist(X, X)
        for j in chosen:  # every choice, recomputed from nothing
            gains = (distance - np.minimum(D, distance)).sum(axis=1)
            assert gains[j] == pytest.approx(gains.max(), abs=1e-8)
            distance = np.minimum(distance, D[j])
        left = (distance - np.minimum(D, distance)).sum(axis=1)
        assert np.allclose(gain, left, atol=1e-8)
        swapped, n_swaps = source_target.medoids.swap_medoids(X, d0, chosen, np.arange(len(X)))
        costs = [source_target.stc_cost(X, S, m) for m in (chosen, swapped)]
        assert costs[1] <= costs[0] and (n_swaps > 0) == (costs[1] < costs[0])
        assert len({*swapped}) == k


def test_swap_changes_are_what_brute_force_says():
    (X, S, k), rng = next(instances()), np.random.default_rng(0)
    d0 = source_target.source_distance(X, S)
    medoids, _ = source_target.medoids.greedy_medoids(X, d0, k)
    candidates = np.setdiff1d(np.arange(40), medoids)
    swaps = source_target.medoids._Swaps(
        X, d0, medoids, candidates, source_target.medoids._two_nearest(X, d0, X[medoids])
    )
    for _ in range(6):  # the table follows arbitrary swaps, bad ones too
        table = swaps.table[:, :1] + swaps.table[:, 1:] + swaps.loss
        for row, j in zip(table, candidates, strict=True):
            for slot in range(k if j not in medoids else 0):
                other = np.r_[np.delete(medoids, slot), j]
                moved = source_target.stc_cost(X, S, other) - source_target.stc_cost(X, S, medoids)
                assert row[slot] / len(X) == pytest.approx(moved, abs=1e-10)
        j = rng.choice(np.flatnonzero(~np.isin(candidates, medoids)))
        swaps.swap(j, int(rng.integers(k)))
        assert candidates[j] in medoids


@pytest.mark.parametrize("beside", [0, 6])
def test_rounds_promise_what_brute_force_says_and_end_where_no_swap_helps(beside, monkeypatch):
    n, rng, m = 40, np.random.default_rng(0), source_target.medoids
    X, S = rng.normal(size=(n, 2)), rng.normal(size=(beside, 2)) + 1  # none: every medoid is missed
    d0, start = source_target.source_distance(X, S), np.arange(3)
    pairs, cost = m._pairs(X), lambda some: source_target.stc_cost(X, S, some) * n
    whole = cdist(X, X)
    for rows, columns in ((np.arange(n), np.arange(n)), (np.arange(3, 9), np.arange(1, n, 2))):
        assert np.allclose(pairs(rows, columns), whole[np.ix_(rows, columns)], rtol=1e-6)
        assert pairs(rows, columns).dtype == np.float32  # as much memory as is promised

    def change(some, j):
        return min(cost(np.r_[np.delete(some, i), j]) for i in range(3)) - cost(some)

    for cells in (distances._CELLS, 64):  # all rows at once; and in blocks that cut clusters apart
        monkeypatch.setattr(distances, "_CELLS", cells)
        for columns in (np.arange(n), np.arange(1, n, 2)):
            guaranteed = m._guaranteed(pairs, m._two_nearest(X, d0, X[start]), 3, columns)
            others = np.flatnonzero(~np.isin(columns, start))
            found = [change(start, columns[i]) for i in others]
            assert np.allclose(guaranteed[others], found, atol=1e-5 * cost(start))
    end, total = m._in_rounds(X, d0, start, pairs, 100)
    assert total == pytest.approx(cost(end)) and cost(end) < cost(start)
    assert min(change(end, j) for j in range(n) if j not in end) > -1e-5 * total
    assert np.array_equal(start, np.arange(3))  # whoever starts from it again finds it so
    same, before = m._in_rounds(X, d0, start, pairs, 0)
    assert np.array_equal(same, start) and before == pytest.approx(cost(start))


def test_rounds_look_only_where_rows_have_changed_hands_and_everywhere_before_they_end(monkeypatch):
    rng, m, looked, tried, sums, promises = (
        np.random.default_rng(1),
        source_target.medoids,
        [],
        [],
        [],
        [],
    )
    X = rng.normal(size=(600, 2)) + 20 * rng.integers(3, size=(600, 2))  # nine groups, far apart
    d0, guaranteed, entries, replaced = (
        source_target.source_distance(X, X[X.max(axis=1) < 10]),  # a ninth of the rows has sources
        m._guaranteed,
        m._entries_of,
        m._replace,
    )

    def look(pairs, state, k, columns):
        looked.append(columns)
        tried.append([])
        sums.append(state[2].sum())
        promises.append(dict(zip(columns, guaranteed(pairs, state, k, columns), strict=True)))
        return np.array([*promises[-1].values()])

    def entry(new, *rest):
        tried[-1].append(promises[-1][new.argmin()])
        return entries(new, *rest)

    def replace(X, d0, medoids, state, *rest):
        replaced(X, d0, medoids, state, *rest)
        sums.append(state[2].sum())

    monkeypatch.setattr(m, "_guaranteed", look)
    monkeypatch.setattr(m, "_entries_of", entry)
    monkeypatch.setattr(m, "_replace", replace)
    start = rng.choice(600, 20, replace=False)
    end, _ = m._in_rounds(X, d0, start, m._pairs(X), 100)
    sizes = [len(columns) for columns in looked]
    assert sizes[0] == sizes[-1] == 600 and min(sizes) < 300 and len(sizes) < 30
    assert all(n == 600 or n <= 0.7 * 600 for n in sizes)
    assert max(map(len, tried)) <= 21 and np.all(np.diff(sums) <= 0)  # none makes it worse
    assert all(some == sorted(some) for some in tried)  # the best promise first
    again, _ = m._in_rounds(X, d0, end, m._pairs(X), 100)
    assert np.array_equal(again, end) and len(looked[-1]) == 600  # one more look, nothing to do
    sizes = len(looked)
    assert np.array_equal(m._in_rounds(X, d0, start, m._pairs(X), 100, 0.9)[0], start)
    assert len(looked) == sizes + 1  # no swap takes nine tenths of the sum away


def test_the_next_round_looks_at_the_whole_clusters_of_new_medoids(monkeypatch):
    rng, m, looked, k = np.random.default_rng(2), source_target.medoids, [], 5
    group = np.repeat(np.arange(k), 100)
    X = rng.normal(size=(500, 2)) + 1000 * group[:, None]
    d0, guaranteed = source_target.source_distance(X, None), m._guaranteed
    middles = [100 * g + cdist(X[group == g], X[group == g]).sum(axis=0).argmin() for g in range(k)]
    edges = [100 * g + np.abs(X[group == g] - 1000 * g).max(axis=1).argmax() for g in range(k)]
    start = np.array([middles[0], edges[1], middles[2], edges[3], edges[4]])
    monkeypatch.setattr(m, "_guaranteed", lambda *a: looked.append(a[3]) or guaranteed(*a))
    end, _ = m._in_rounds(X, d0, start, m._pairs(X), 100)
    assert np.array_equal(end, middles)
    assert np.array_equal(looked[1], np.flatnonzero(np.isin(group, (1, 3, 4))))


def test_rounds_bear_medoids_that_no_row_is_nearest_to():
    X, m = np.random.default_rng(0).normal(size=(30, 2)), source_target.medoids
    X[[7, 8]] = X[[0, 1]]
    for S, start in ((None, [0, 1, 7, 8]), (X[[5, 6]], [2, 5, 6])):
        d0 = source_target.source_distance(X, S)
        end, total = m._in_rounds(X, d0, np.array(start), m._pairs(X), 100)
        before = source_target.stc_cost(X, S, start) * 30
        assert len({*map(tuple, X[end])}) == len(end) and total < before - 0.1


@pytest.mark.parametrize(
    ("n", "k", "sample", "starts"),
    [(40, 30, 40, 10), (200, 4, 200, 10), (201, 4, 201, 3), (700, 4, 500, 3), (1200, 30, 500, 3)],
)
def test_few_medoids_start_on_halves_of_a_sample_and_end_on_all_rows(
    n, k, sample, starts, monkeypatch
):
    X, m, greedy, rounds = (
        np.random.default_rng(0).normal(size=(n, 2)),
        source_target.medoids,
        [],
        [],
    )
    first, then = m.greedy_medoids, m._in_rounds
    monkeypatch.setattr(m, "greedy_medoids", lambda *a: greedy.append(a) or first(*a))
    monkeypatch.setattr(m, "_in_rounds", lambda *a: rounds.append((a, then(*a))) or rounds[-1][1])
    far = [[1e12, 0.0]]  # single precision would not see the rows beside it
    found = SourceTargetKMedoids(k).fit(Xt=100 * X + 7, sources=far).medoid_indices_
    assert [len(a[0]) for a in greedy] == [max(sample // 2, k)] * starts
    assert len({a[0].tobytes() for a in greedy}) == starts  # halves that differ
    assert [len(a[0]) for a, _ in rounds] == [sample] * starts + [n] * (sample < n)
    scale = np.abs(X - X.mean(axis=0)).max()
    assert all(np.abs(a[0]).max() <= 1 + 1e-12 and a[-1] == 90 for a, _ in rounds)
    best = min((end for _, end in rounds[:starts]), key=lambda end: end[1])[0]
    if sample < n:
        (all_rows, d0, start, *_), (best, _) = rounds[-1]
        assert np.allclose(all_rows, (X - X.mean(axis=0)) / scale) and {*d0} == {8**0.5 + 1}
        some = np.sort(np.random.default_rng(0).permutation(n)[:500])  # a seed of its own
        assert all(np.array_equal(a[0], all_rows[some]) for a, _ in rounds[:starts])
        came = [rounds[0][0][0][end[0]] for _, end in rounds[:starts]]
        assert any(np.array_equal(X0, all_rows[start]) for X0 in came)
    assert np.array_equal(found, best)
    S = 100 * X[:3] + 8
    SourceTargetKMedoids(k).fit(Xt=100 * X + 7, sources=S)
    d0 = source_target.source_distance(X + 0.07, S / 100) / scale
    assert len(rounds[-1][0][1]) == n and np.allclose(rounds[-1][0][1], d0)


def test_few_medoids_are_for_few_of_not_too_many_rows(monkeypatch):
    seen, every = [], np.arange(40)
    monkeypatch.setattr(
        source_target.medoids, "_few_medoids", lambda *a: seen.append(a[2:]) or every[: a[2]]
    )
    monkeypatch.setattr(SourceTargetKMedoids, "_ends", lambda *a: [every[: a[3]]])
    X = np.random.default_rng(0).normal(size=(2001, 2))
    SourceTargetKMedoids(1, n_passes=2).fit(X[:2000])
    SourceTargetKMedoids(30).fit(X[:100])
    assert seen == [(1, 60), (30, 90)]  # thirty rounds in place of a pass
    SourceTargetKMedoids(31).fit(X[:100])
    SourceTargetKMedoids(1).fit(X)
    for options in ({"n_starts": 1}, {"n_passes": 0}, {"n_candidates": 99}):
        SourceTargetKMedoids(3, **options).fit(X[:100])
    assert len(seen) == 2


def test_near_pairs_are_all_near_pairs_and_exact():
    rng = np.random.default_rng(0)
    for d, scale, far in ((2, 1.0, 0.0), (8, 1e-9, 0.0), (3, 1.0, 1e5), (64, 1e6, 0.0)):
        X, C = scale * rng.normal(size=(60, d)), scale * rng.normal(size=(80, d))
        C[:5] += far * scale
        D, near = cdist(X, C), source_target.medoids._Near(C, X)
        assert np.allclose(near.nearest(X), D.min(axis=1), rtol=1e-12, atol=0)
        reach = rng.permutation(np.sort(D, axis=None)[:: len(D.ravel()) // 60][:60])
        points, distances = near.within(X, reach)
        for i, (j, how_near) in enumerate(zip(points, distances, strict=True)):
            assert np.array_equal(
                j, np.flatnonzero(D[i] < reach[i] * (1 - 1e-14))
            ) or np.array_equal(j, np.flatnonzero(D[i] <= reach[i]))
            assert np.allclose(how_near, D[i, j], rtol=1e-12, atol=0)
    assert np.array_equal(source_target.medoids._Near(X[:1], X[:1]).nearest(X[:1]), [0.0])


def test_swaps_in_many_blocks_end_where_none_helps(monkeypatch):
    X, S, k = next(instances())
    d0, every = source_target.source_distance(X, S), np.arange(len(X))
    start = np.arange(k)
    whole, _ = source_target.medoids.swap_medoids(X, d0, start, every)
    monkeypatch.setattr(source_target.medoids, "_PAIRS", 200)
    parts, n_swaps = source_target.medoids.swap_medoids(X, d0, start, every, n_passes=50)
    assert n_swaps and source_target.stc_cost(X, S, parts) == pytest.approx(
        source_target.stc_cost(X, S, whole), rel=0.02
    )
    # a local optimum for all candidates
    assert source_target.medoids.swap_medoids(X, d0, parts, every)[1] == 0


def test_faster_pam_on_clipped_rows_agrees():
    kmedoids = pytest.importorskip("kmedoids")
    for X, S, k in instances():
        d0 = source_target.source_distance(X, S)
        clipped = np.minimum(cdist(X, X), d0[:, None])
        best = min(kmedoids.fasterpam(clipped, k, random_state=s).loss for s in range(3)) / len(X)
        assert SourceTargetKMedoids(k).fit(Xt=X, sources=S).cost_ < 1.005 * best


def test_costs_of_special_cases():
    X = np.random.default_rng(0).normal(size=(30, 2))
    cost = lambda k, S=None, X=X: SourceTargetKMedoids(k).fit(Xt=X, sources=S).cost_  # noqa: E731
    assert cost(30) == 0 and cost(99) == 0 and cost(3, X) == 0
    costs = [cost(k) for k in range(1, 12)]
    assert np.all(np.diff(costs) <= 1e-12)
    S = X[:9] + 0.3
    nearest_only = S[np.unique(cdist(X, S).argmin(axis=1))]
    assert cost(4, S) == pytest.approx(cost(4, nearest_only), abs=0)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    assert cost(4, 5 * S @ turn + 3, 5 * X @ turn + 3) == pytest.approx(5 * cost(4, S))
    order = np.random.default_rng(1).permutation(30)
    assert cost(4, S, X[order]) == pytest.approx(cost(4, S), rel=2e-2)
    assert cost(2, np.zeros((0, 2))) == cost(2)
    twins = SourceTargetKMedoids(5).fit(np.ones((9, 2)))
    assert len({*twins.medoid_indices_}) == 5 and twins.cost_ == 0


def test_a_sample_of_candidates_costs_little_and_holds_enough():
    X = np.random.default_rng(0).normal(size=(2000, 2))
    every, some = (SourceTargetKMedoids(20, n_candidates=n).fit(X).cost_ for n in (2000, 500))
    assert 0.98 * every < some < 1.02 * every  # local optima of two searches
    assert len({*SourceTargetKMedoids(20, n_candidates=5).fit(X).medoid_indices_}) == 20


def test_the_solver_never_holds_all_distances():
    X = np.random.default_rng(0).normal(size=(6000, 2))
    tracemalloc.start()
    SourceTargetKMedoids(10, n_passes=1).fit(Xt=X, sources=X[:50] + 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6  # all distances: 288 MB


@pytest.mark.parametrize(
    ("parameter", "value", "error"),
    [("n_clusters", 0, ValueError), ("n_clusters", "3", TypeError), ("n_passes", -1, ValueError)]
    + [("n_candidates", 0, ValueError), ("n_passes", 1.0, TypeError), ("n_starts", 0, ValueError)],
)
def test_the_solver_refuses_impossible_parameters(parameter, value, error):
    with pytest.raises(error, match=parameter):
        SourceTargetKMedoids(**{parameter: value}).fit(Xt)
    for bad in (None, Xt * np.nan, Xt[0], []):
        with pytest.raises(ValueError, match="Xt"):
            SourceTargetKMedoids(2).fit(bad)
    with pytest.raises(ValueError, match="sources"):
        SourceTargetKMedoids(2).fit(Xt=Xt, sources=Xt[:, :1])
    with pytest.raises(ValueError, match="sources"):
        SourceTargetKMedoids(2).fit(Xt=Xt, sources=np.zeros((5, 0)))


# ---------------------------------------------------------------- end to end


def test_planted_sources_are_found_privately():
    town = datasets.make_source_target(2, 2700, 1000, random_state=3)
    ball = {"radius": town.radius, "center": town.center, "random_state": 0}
    paid = lambda seen: source_target.stc_cost(  # noqa: E731
        town.Xt, town.Xs, SourceTargetKMedoids(9).fit(Xt=town.Xt, sources=seen).medoid_indices_
    )
    nna = NeighborNoisyAverages(epsilon=3.0, **ball).fit(Xs=town.Xs, Xt=town.Xt)
    nas = NoisyAverageSet(t=150, rho=3.0, **ball).fit(Xs=town.Xs, Xt=town.Xt)
    in_the_open, ignoring = paid(town.Xs), paid(None)
    assert ignoring > 3 * in_the_open
    assert paid(nna.sources_) < 1.02 * in_the_open and paid(nas.sources_) < 0.5 * ignoring


@pytest.mark.parametrize("kind", [NoisyAverageSet, NeighborNoisyAverages, SourceTargetKMedoids])
def test_help_is_complete_and_its_examples_print_what_they_say(kind):
    for section in ("Parameters", "Attributes", "Raises", "References", "Examples"):
        assert re.search(rf"{section}\n\s*-+\n", kind.__doc__), section
    assert all(re.search(rf"\b{name}\b", kind.__doc__) for name in kind().get_params())
    assert "PUBLIC" in kind.__doc__ and "PUBLIC" in kind.fit.__doc__
    assert "by name" in kind.fit.__doc__  # swapped, the sources would be published
    for example in doctest.DocTestFinder(recurse=False).find(kind):
        assert doctest.DocTestRunner().run(example).failed == 0


# ---------------------------------------------------------------- counts alone


@both
def test_one_source_moves_one_count_and_asks_nobody_else(neighboring):
    """Hostile rows included: far ones, equal ones, ties; in company and alone a row has the same bin."""
    for d in (1, 2, 7):
        rng = np.random.default_rng(d)
        target = rng.integers(-2, 3, size=(60, d)) / 2.0  # many ties
        support = _Support(target, RADIUS, None, rng)
        of, moved = np.append(rng.integers(9, size=60), -1), set()
        rows = np.vstack([target[:9], rng.normal(size=(9, d)), [[1e300] * d], [[1e-320] * d]])
        count = partial(mechanisms_noise._exact_counts, n_bins=9)
        for length in (support.near, support.reach):
            whole = count(support.bins(rows, of, length))
            alone = sum(count(support.bins(row[None], of, length)) for row in rows)
            assert np.array_equal(whole, alone)
            for i in range(len(rows)):
                other = np.delete(rows, i, axis=0)
                if neighboring == "replace":
                    other = np.vstack([other, rows[(i + 1) % len(rows)]])
                moved.add(int(np.abs(whole - count(support.bins(other, of, length))).sum()))
        assert max(moved) == mechanisms_noise.histogram_sensitivity(neighboring)[0]


def test_a_source_counts_where_it_is_near_enough_and_in_the_cell_of_its_nearest_target():
    rng = np.random.default_rng(1)
    target, rows = rng.normal(size=(50, 2)), 2 * rng.normal(size=(300, 2))
    support = _Support(target, 9.0, None, rng)
    apart = np.linalg.norm(rows[:, None] - target, axis=2)
    among = np.linalg.norm(target[:, None] - target, axis=2) + 99 * np.eye(50)
    assert support.spacing == pytest.approx(among.min(axis=1))
    of = np.append(np.arange(50), -1)
    for length, times, share in ((support.near, 1, 0.5), (support.reach, 2, 0.9)):
        limit = times * np.quantile(among.min(axis=1), share)
        wanted = np.where(apart.min(axis=1) <= limit, apart.argmin(axis=1), -1)
        found = mechanisms_noise._exact_counts(support.bins(rows, of, length), 50)
        assert np.array_equal(found, np.bincount(wanted[wanted >= 0], minlength=50))


@pytest.mark.parametrize("outside, within, output", [(55, 35, "count"), (56, 34, "cloud")])
def test_counts_are_taken_above_a_third_by_more_than_the_noise(
    monkeypatch, outside, within, output
):
    """Of 90 answers a third is 30, and an eighth of the price has noise of the scale 4."""

    def histogram(noise, bins, n_bins, **_):
        return np.array([outside, within]) if n_bins == 2 else np.zeros(n_bins)

    monkeypatch.setattr(Noise, "histogram", histogram)
    model = NeighborNoisyAverages(epsilon=2.0, radius=RADIUS, n_cells=5, random_state=0)
    assert fit(model, Xs).output_ == output


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_a_count_alone_has_laplace_noise(epsilon):
    x = np.linspace(0, 30, 50)
    assert source_target.count_tail(x, 0, epsilon) == pytest.approx(np.exp(-epsilon * x) / 2)
    q = source_target.count_tail(
        source_target.count_threshold(1e-4, 0, epsilon=epsilon), 0, epsilon
    )
    assert q == pytest.approx(1e-4)
    per_cell = max(20 / 4, 2, 2 * source_target.count_threshold(1 / 150, 0, epsilon=epsilon))
    assert source_target.cells.countable_cells(3000, 4, scale=1 / epsilon) == max(
        int(3000 / per_cell), 20
    )


def test_points_stand_beside_targets_of_their_cell_three_times_at_most():
    rng = np.random.default_rng(0)
    target, cell_of = 10.0 * np.arange(12)[:, None] + np.zeros((12, 2)), np.repeat([0, 1, 2], 4)
    spacing = np.linspace(0.1, 1.0, 12)
    points = source_target.cells.target_clouds(
        target, cell_of, np.array([3.9, 99.0, -2.0]), spacing, rng
    )
    beside = np.linalg.norm(points[:, None] - target, axis=2).argmin(axis=1)
    assert np.linalg.norm(points - target[beside], axis=1) == pytest.approx(spacing[beside])
    taken = np.bincount(beside, minlength=12)
    assert sorted(taken[:4]) == [0, 1, 1, 1] and taken[4:8].tolist() == [3] * 4
    assert not taken[8:].any()


# ---------------------------------------------------------------- branches, and numbers of any size

CELLS = np.array([[-1.0, 0.0], [1.0, 0.0]])
ASKS = {
    "averages": lambda X, noise: source_target.noisy_average_set(
        X, CELLS, 3, radius=4.0, noise=noise, mu=1.0
    ),
    "averages and spread": lambda X, noise: source_target.noisy_average_set(
        X, CELLS, 3, radius=4.0, noise=noise, epsilon=1.0, laplace=True, weights=[1, 2]
    ),
    "cells": lambda X, noise: source_target.neighbor_noisy_averages(
        X, CELLS, radius=4.0, noise=noise, mu=1.0
    ),
    "cells, pure": lambda X, noise: source_target.neighbor_noisy_averages(
        X, CELLS, radius=4.0, noise=noise, epsilon=1.0, laplace=True, cell_radius=1.0
    ),
}


@both
@pytest.mark.parametrize("name", ASKS)
def test_in_branches_one_source_moves_no_table_by_more_than_declared(name, neighboring):
    X, events = np.array([[-1.0, 0.5], [1.0, 0.5], [1.0, -0.5], [-4.0, 0.0]]), []

    def ask(X, group):
        cut, noise = len(events), Noise(0, neighboring=neighboring)
        noise.parallel([partial(ASKS[name], X[group == g], noise) for g in range(3)])
        return events[cut:]

    with watch(lambda event: events.append(event) or event.outcome):
        before = ask(X, np.array([0, 0, 1, 1]))
        after = ask(X, np.array([2, 0, 1, 1]))  # it leaves one branch for another
        gone = ask(X[1:], np.array([0, 1, 1]))
    for other in (after, gone) if neighboring == "replace" else (gone,):
        for one, two in zip(before, other, strict=True):
            moved = np.subtract(one.value, two.value, dtype=float).ravel()
            length = np.linalg.norm(moved, 2 if one.mechanism == "gaussian" else 1)
            assert length <= one.sensitivity == two.sensitivity


@pytest.mark.parametrize("radius", [1e-90, 1e-9, 1.0, 1e90])
@pytest.mark.parametrize("name", ["averages", "cells"])
def test_sources_of_any_size_are_answered_whatever_numpy_is_set_to(name, radius, recwarn):
    numbers = [0.0, -0.0, 5e-324, 1e-310, 1e-170, 1.0, np.nextafter(1, 2), 1e151, 1e300]
    numbers += [np.finfo(float).max, -np.finfo(float).max, radius, np.nextafter(radius, 0)]
    ask = (
        source_target.noisy_average_set
        if name == "averages"
        else source_target.neighbor_noisy_averages
    )
    ask = partial(ask, cells=CELLS * radius / 4, radius=radius, mu=1.0)
    ask = partial(ask, t=3) if name == "averages" else ask
    with np.errstate(all="raise"):
        for x in numbers:
            for y in numbers:
                noise = Noise(0)
                found = ask(np.array([[x, y]]), noise=noise)[0]
                assert np.isfinite(found).all() and len(noise.releases) == 1
    assert not recwarn.list


def test_a_cell_radius_beyond_a_length_is_refused_unread():
    for far in (1e-95, 1e95):
        with pytest.raises(ValueError, match="cell_radius"):
            NNA(epsilon=1.0, cell_radius=far).fit(Xs=Untouchable(), Xt=Xt)


# Slips in one line that no other test noticed: exact numbers, enumeration, brute force on tiny cases.


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("reach, share", [(5, 2), (2, 5), (5, 50)])
def test_no_move_of_one_source_is_longer_than_its_cell_sensitivity(neighboring, norm, reach, share):
    """Every pair of whole points of a disc, in either of two cells or in none."""
    points = [
        (x, y)
        for x in range(-reach, reach + 1)
        for y in range(-reach, reach + 1)
        if x * x + y * y <= reach**2
    ]
    tables = [np.array([x, y, share, 0, 0, 0]) for x, y in points]
    tables += [np.roll(table, 3) for table in tables]
    tables = np.array([*tables, np.zeros(6, dtype=int)])
    if neighboring == "add_remove":
        moves = tables
    else:
        moves = (tables[:-1, None] - tables[None]).reshape(-1, 6)
    farthest = np.linalg.norm(moves, ord=norm, axis=1).max()
    claim = source_target.cell_sensitivity(reach, share, 2, norm, neighboring)
    slack = 1.0 if norm == 2 else 1.15  # whole points do not reach every diagonal of the disc
    assert farthest <= claim * (1 + 1e-12) and claim <= farthest * slack * (1 + 1e-12)


def test_the_far_end_of_the_ball_lies_opposite_and_inside():
    limit = 2**20
    cells = np.array([[0.0, 0.0], [3.0, 4.0], [-300.0, 400.0], [limit, 0.0], [0.0, -1.0]])
    far = np.array([[limit - 1, 0], [-629145, -838860], [629145, -838860], [1 - limit, 0], [0, limit - 1]])  # fmt: skip
    assert np.array_equal(averages._far_end(cells, limit), far)
    line = averages._far_end(np.array([[0.0], [5.0]]), limit)
    assert np.array_equal(line, [[limit - 1], [1 - limit]])


def test_the_printed_deviation_of_noisy_averages():
    logs = math.log(1e6) * math.log(1.25 * 8 * 1e6)
    assert source_target.nas_sigma(7, 3, 0.5, 1e-6, 2.0) == pytest.approx(2 / 1.5 * math.sqrt(126 * logs), rel=1e-12)  # fmt: skip


@pytest.mark.parametrize("n_rows, full", [(60, True), (59, False)])
@pytest.mark.parametrize("gamma, output", [(None, "cloud"), (0.3, "cloud"), (None, "mean")])
def test_cells_are_kept_and_filled_by_their_noisy_counts(monkeypatch, n_rows, full, gamma, output):
    asked, counts = {}, np.array([2.9, 3.0, 7.5, 40.0])
    Xt = np.random.default_rng(0).normal(size=(n_rows, 2))

    def noted(name, answer):
        def function(*args, **kw):
            asked[name] = args, kw
            return answer(*args)

        monkeypatch.setattr(source_target_sources, name, function)

    def clouds(cells, r, n, rng):
        return [np.full((n, 2), 0.125)] * len(cells)

    noted("count_threshold", lambda *args: 3.0)
    noted("cell_clouds", clouds)
    noted("neighbor_noisy_averages", lambda *args: (counts[:, None] * [0.25, 0.5], counts))
    model = NeighborNoisyAverages(epsilon=0.8, radius=9.0, n_cells=4, gamma=gamma, output=output, neighboring="replace")  # fmt: skip
    noise = Noise(0, neighboring="replace")
    released = model._tight(np.zeros((5, 2)), Xt, noise, output=output)
    (q, d), known = asked["count_threshold"]
    assert (q, d) == (0.02 if gamma is None else 0.3 / 4, 2)
    assert known == {"epsilon": 0.4}  # under replace two counts move
    cells, r, most, _ = asked["cell_clouds"][0]
    far = source_target.source_distance(Xt, cells)
    assert r == max(np.quantile(far, 0.9) if full else far.max(), 0.9)
    assert most == n_rows // 4 - 1
    assert asked["neighbor_noisy_averages"][1] == {
        "cell_radius": r,
        "noise": noise,
        "radius": 9.0,
        "center": None,
        "epsilon": 0.8,
    }
    assert np.allclose(released[:3], cells[1:] + [0.25, 0.5])
    extra = 0 if output == "mean" else 0 + 4 + min(37, most)
    assert len(released) == 3 + extra and np.all(released[3:] == 0.125)


def test_many_empty_cells_pass_as_rarely_as_one(monkeypatch):
    asked, last = [], []
    monkeypatch.setattr(
        source_target_sources, "count_threshold", lambda q, d, **kw: asked.append(q) or 3.0
    )
    for n in (1, 49, 51, 200):
        Xt = np.random.default_rng(0).normal(size=(n, 2))
        model = NeighborNoisyAverages(epsilon=0.8, radius=9.0, n_cells="all")
        model._tight(np.zeros((5, 2)), Xt, Noise(0))
        last.append(asked[-1])
    assert last == [0.02, 0.02, 1 / 51, 1 / 200]


@pytest.mark.parametrize("center", [None, np.array([10.0, 20.0])])
def test_printed_averages_of_cells_are_sums_over_counts(monkeypatch, center):
    counts = np.array([4.5, 8.0, 16.0, 400.0])

    def answer(*args, **kw):
        return (counts[:, None] * [0.25, 0.5], counts)

    monkeypatch.setattr(source_target_sources, "neighbor_noisy_averages", answer)
    model = NeighborNoisyAverages(
        epsilon=1.0, radius=9.0, center=center, n_cells="all", variant="paper"
    )
    got = model._paper(None, np.eye(4)[:, :2], Noise(0))
    # the printed threshold is 1 + ln((sqrt(2) + 1) / 0.05) = 4.9
    assert got.shape == (3, 2)
    moved = np.zeros(2) if center is None else center
    assert np.allclose(got, moved + [0.25, 0.5], rtol=1e-15)


def test_sums_of_the_nearest_rows_are_each_cell_s_own():
    step, limit = lattice(4.0)
    X, cells = np.array([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.5]]), np.array([[3.0, 0.0], [-1.0, 0.0]])
    sums, far = averages._t_nearest_sums(X, cells, 2, 4.0, None)
    assert np.array_equal(sums * step, [[3.0, 0.0], [0.0, 0.5]])
    assert np.allclose(far * step, [1 + 2, 0.5 + 2])
    sums, far = averages._t_nearest_sums(X[:1], cells, 3, 4.0, None)  # two are missing
    end = averages._far_end(cells / step, limit) * step
    assert np.allclose(sums * step, X[0] + 2 * end, atol=1e-12)
    assert np.allclose(far * step, [2 + 2 * 7, 2 + 2 * 5], atol=1e-4)


def test_the_sensitivity_of_a_cell_may_be_small():
    assert cell_sensitivity(0.0, 0.5, 3, 2, "add_remove") == 0.5
    assert cell_sensitivity(2, 0.5, 3, 1, "add_remove") == math.isqrt(12) + 0.5


@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize("cost", [{"epsilon": 0.5}, {"rho": 0.1}])
def test_the_printed_threshold_is_the_papers(monkeypatch, d, cost):
    gamma, Xs = 0.05, np.random.default_rng(0).uniform(-0.5, 0.5, (40, d))
    if "rho" in cost:
        threshold = 1 + math.sqrt(2 / 0.1) * stats.norm.isf(gamma)
    else:
        threshold = 1 + math.log((math.sqrt(d) + 1) / gamma) / 0.5
    counts = np.array([threshold - 1e-6, threshold + 1e-6])
    monkeypatch.setattr(
        source_target_sources, "neighbor_noisy_averages", lambda *_, **__: (np.ones((2, d)), counts)
    )
    how = {"variant": "paper", "radius": 1.0, "random_state": 0, **cost}
    delta = {"delta": 1e-6} if "rho" in cost else {}
    model = NeighborNoisyAverages(**how, **delta).fit(Xs=Xs, Xt=Xs)
    assert model.sources_.shape == (1, d) and np.allclose(model.sources_, 1 / counts[1])


@pytest.mark.parametrize(("d", "least"), [(1, 60), (2, 30)])
def test_a_cell_is_asked_about_for_so_many_targets(monkeypatch, d, least):
    asked = []

    def averages(Xs, cells, **_):
        asked.append(len(cells))
        raise InterruptedError

    monkeypatch.setattr(source_target_sources, "neighbor_noisy_averages", averages)
    Xt = np.random.default_rng(0).uniform(-0.5, 0.5, (40 * least, d))
    with pytest.raises(InterruptedError):
        NeighborNoisyAverages(epsilon=8.0, radius=1.0, output="cloud", random_state=0).fit(
            Xs=Xt, Xt=Xt
        )
    assert asked == [40]


def test_points_too_close_for_their_squares_are_refused_and_equal_ones_are_not():
    """Distances of 1e-200 have squares of 0: any choice would look best."""
    Xt = np.array([[0.0], [1.0], [5.0], [6.0], [6.5]])
    with pytest.raises(
        ValueError, match="Xt: SourceTargetKMedoids needs rows that differ by 1e-150"
    ):
        SourceTargetKMedoids(2).fit(Xt * 1e-200)
    near = SourceTargetKMedoids(2).fit(Xt * 1e-145)
    np.testing.assert_array_equal(
        near.medoid_indices_, SourceTargetKMedoids(2).fit(Xt).medoid_indices_
    )
    assert SourceTargetKMedoids(2).fit(np.ones((4, 2))).cost_ == 0


# ---------------------------------------------------------------- doubts about a public target


@pytest.mark.parametrize("model", [NeighborNoisyAverages, partial(NoisyAverageSet, t=9)])
def test_a_ball_far_larger_than_the_target_is_in_doubt(model):
    Xt, Xs = np.random.default_rng(0).uniform(-2, 2, (30, 2)), np.zeros((50, 2))
    with pytest.warns(DoubtWarning, match="Xt: all of its public rows lie within a thousandth"):
        model(epsilon=1.0, radius=1e6, random_state=0).fit(Xs=Xs, Xt=Xt)
    for radius, target in ((25.0, Xt), (1e6, np.zeros((1, 2)))):
        with warnings.catch_warnings(action="error"):
            model(epsilon=1.0, radius=radius, random_state=0).fit(Xs=Xs, Xt=target)


@pytest.mark.parametrize("variant", ["tight", "paper"])
@pytest.mark.parametrize(
    "cost", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.5, "delta": 1e-6}]
)
def test_noise_far_beyond_the_target_is_in_doubt(cost, variant):
    """Averages of t sources say nothing where their noise is ten times the extent of the target. Mutations: without t; the diameter once."""
    rng = np.random.default_rng(0)
    Xt, Xs = rng.normal(0, 0.05, (40, 2)) + [48.85, 2.35], np.full((90, 2), [48.85, 2.35])
    extent = np.linalg.norm(Xt - Xt.mean(axis=0), axis=1).max()
    if "rho" in cost:
        least = math.sqrt(2 / (2 * cost["rho"]))
    else:  # K-norm noise, or Gaussian
        least = math.sqrt(3 * 4 * 2 / 4) / cost["epsilon"]
        if "delta" in cost:
            least = min(least, math.sqrt(2) / gaussian_mu(1.0, 1e-6))
    for t, factor in itertools.product((10, 200), (0.9, 1.1)):
        radius = factor * 10 * extent * t / (2 * least)  # a little below and above
        model = NoisyAverageSet(
            t=t, radius=radius, center=[48.85, 2.35], variant=variant, random_state=0, **cost
        )
        budget = PrivacyBudget(9.0, 1e-3)
        if factor < 1:
            with warnings.catch_warnings(action="error", category=DoubtWarning):
                budget.fit(model, Xs=Xs, Xt=Xt)
        else:
            with pytest.raises(
                ValueError, match="in doubt before the charge: radius=.*: the noise of one average"
            ):
                budget.fit(model, Xs=Xs, Xt=Xt)
            assert not budget.ledger


def test_distances_to_oneself_and_too_many_medoids_are_in_doubt():
    D = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    with warnings.catch_warnings(action="error"):
        SourceTargetKMedoids(4, metric="precomputed").fit(D)
        SourceTargetKMedoids(2, metric="precomputed").fit(D * [1, 2, 3, 4])  # one way only
    with pytest.warns(DoubtWarning, match="some row has a distance other than 0 to itself"):
        SourceTargetKMedoids(2, metric="precomputed").fit(3 - D)
    with pytest.warns(DoubtWarning, match="n_clusters=5: Xt has only 4 rows"):
        assert len(SourceTargetKMedoids(5).fit(D).medoid_indices_) == 4


@pytest.mark.parametrize("model", [NAS(epsilon=1.0), NNA(epsilon=1.0)], ids=["NAS", "NNA"])
@pytest.mark.parametrize(
    "kind", ["Int64", "Float64", "double[pyarrow]", "decimals", "polars decimals"]
)
def test_a_public_target_of_any_type_of_numbers_is_read(model, kind):
    """Those that numpy makes objects of were refused, and private ones read."""
    plain = pd.DataFrame(np.rint(Xt), columns=["a", "b"])
    table = plain if "decimals" in kind else plain.astype(kind)
    if kind == "decimals":
        table = plain.map(Decimal)
    if kind == "polars decimals":
        table = pl.DataFrame(np.rint(Xt), schema=["a", "b"]).cast(pl.Decimal(20, 3))
    expected = clone(model).fit(Xs=Xs, Xt=plain).sources_
    np.testing.assert_array_equal(clone(model).fit(Xs=Xs, Xt=table).sources_, expected)
    if hasattr(table, "iloc"):
        table = table.astype(object)
        table.iloc[3, 1] = pd.NA
        with pytest.raises(ValueError, match=r"Xt: row 3, column 1 .* is NaN"):
            clone(model).fit(Xs=Xs, Xt=table)


@pytest.mark.parametrize("kind", [NAS, NNA])
def test_no_source_is_refused_where_their_number_is_public(kind):
    budget = PrivacyBudget(4.0, 1e-5)
    with pytest.raises(ValueError, match="Xs cannot be used .*at least one record"):
        budget.fit(kind(epsilon=1.0, neighboring="replace"), Xs=Xs[:0], Xt=Xt)
    assert not budget.ledger
    kind(epsilon=1.0).fit(Xs=Xs[:0], Xt=Xt)


def test_a_lazy_target_is_told_to_be_collected():
    with pytest.raises(ValueError, match="lazy.*collect"):
        NNA(epsilon=1.0).fit(Xs=Xs, Xt=pl.DataFrame(Xt).lazy())
