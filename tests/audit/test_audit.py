"""Every estimator is attacked; so is every attack: one that finds nothing in a broken program proves nothing."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from test_estimators import ESTIMATORS, STARTED
from test_mechanisms import Counted

from dplit import BudgetExceeded, NoisyLloyd, PrivacyBudget
from dplit.accounting import Receipt, Release, cover_exponent, gaussian_mu
from dplit.audit import (
    FAULTS,
    audit,
    dense_pairs,
    inject,
    neighbors,
    record,
    walks,
    weighing,
)
from dplit.estimators import PrivateKMeans
from dplit.inputs import quantize
from dplit.inputs.lattice import lattice
from dplit.mechanisms import Event, Noise, discrete, mean_in_ball, samplers

DIMENSIONS = 2  # the estimators of the list accept any number of columns
ATTACKED = ESTIMATORS | STARTED


def fresh(name):
    return clone(ATTACKED[name]()).set_params(epsilon=2.0, delta=1e-5)


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("name", ATTACKED)
def test_replay_finds_nothing(name, neighboring):
    model = fresh(name).set_params(neighboring=neighboring)
    pairs = neighbors(DIMENSIONS, model.radius, neighboring=neighboring, n_random=8)
    assert not audit.replay(model, pairs, seeds=range(8))


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_replay_of_dense_tables_finds_nothing(name, neighboring):
    """Forty tables of three hundred records: what exact data cut, one of some records cuts elsewhere."""
    model = fresh(name).set_params(neighboring=neighboring)
    pairs = dense_pairs(DIMENSIONS, model.radius, neighboring=neighboring)
    assert not audit.replay(model, pairs, seeds=range(1))


class CutByTheData(PrivateKMeans):
    """Groups between the exact quartiles of the first column, rounded: their sums are declared as if nothing had moved."""

    def __init__(
        self, n_clusters=4, *, epsilon=1.0, delta=1e-6, radius=1.0, center=None, bounds=None,
        neighboring="add_remove", random_state=None,
    ):  # fmt: skip
        self.n_clusters, self.epsilon, self.delta, self.radius = n_clusters, epsilon, delta, radius
        self.center, self.bounds, self.neighboring = center, bounds, neighboring
        self.random_state = random_state

    def _release_centers(self, X, noise, center):
        cuts = np.floor(np.quantile(X[:, 0], [0.25, 0.5, 0.75]) / self.radius * 40) / 40
        groups = np.searchsorted(cuts * self.radius, X[:, 0])
        mu = gaussian_mu(self.epsilon, self.delta)
        sums, counts = noise.sums(X, groups=groups, n_groups=4, radius=self.radius, mu=mu)
        return mean_in_ball(sums, counts, self.radius)


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_cuts_by_exact_data_are_caught(neighboring):
    """A newcomer's leak that no pair made for another bug shows; a cut moves in 7 of 40 pairs or more."""
    model = CutByTheData(radius=4.0, neighboring=neighboring)
    pairs = dense_pairs(DIMENSIONS, 4.0, neighboring=neighboring)
    assert audit.replay(model, pairs, seeds=range(1))


# they take thousands of draws: tests of their own
RARE = (
    "noise cut at 3 scales",
    "an atom of 2e-4",
)


def planted(names, without=()):
    """Cases (name, bug). Replays and explorations stop early: they run for every estimator. Many fits are weighed in turn.

    Each bug of the noise runs for every third estimator, and for all of them in the slow tests.
    """
    cases = []
    for (i, name), (j, bug) in itertools.product(enumerate(names), enumerate(FAULTS)):
        if bug in RARE or bug in without:
            continue
        in_turn = FAULTS[bug].seen_by == "weigh" and (i + j) % 3
        slow = [pytest.mark.slow] if in_turn else []
        cases.append(pytest.param(name, bug, marks=slow, id=f"{name}-{bug}"))
    return cases


def is_caught(bug, model, zoo, **how):
    """Whether the tool made for a bug notices it, or the fit breaks before anything is released."""
    found = audit.catch(bug, model, zoo, **how)
    if bug == "NaN passes" and not found:
        with inject(bug, model, how.get("fit")) as (broken, fit, neighboring):
            broken = record(broken, zoo(neighboring)[0][-1][2], 0, fit=fit)
        return bool(broken.public["refusal"] and not broken.events)
    return bool(found)


def zoo(neighboring, radius=4.0):
    return [make(DIMENSIONS, radius, neighboring=neighboring) for make in (neighbors, walks)]


HARMLESS = {
    # three times the price of what follows is still below the claim
    ("MaxCoverKMeans as published", "a privacy cost above the claim after a large noisy number"),
    # without the question whether cells are numbers, a row of NaN is counted once, in one bin, as any other row
    ("MaxCoverKMeans as published", "NaN passes"),
    ("PEMeans as published", "NaN passes"),
    # it has one release: no other draws, and no price of what follows
    ("GridKMeans of 3 bins", "the same draws in every release"),
    ("GridKMeans of 3 bins", "the same draws in every release, signs in turn"),
    ("GridKMeans of 3 bins", "a privacy cost above the claim after a large noisy number"),
}
# fits of few draws: with 40 fits, neither a factor of the square root of two nor one draw used twice would be told
FITS = {"GridKMeans": 200, "GridKMeans of 3 bins": 200}


@pytest.mark.parametrize(("name", "bug"), planted(ATTACKED))
def test_every_injected_bug_is_caught(name, bug):
    caught = is_caught(bug, fresh(name), zoo, n_runs=FITS.get(name, 40))
    assert caught == ((name, bug) not in HARMLESS)


@pytest.mark.parametrize("name", ATTACKED)
def test_exploring_finds_nothing(name):
    assert not audit.explore(fresh(name), zoo("add_remove")[1][:1])


@pytest.mark.slow
@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_exploring_every_walk_finds_nothing(name, neighboring):
    assert not audit.explore(fresh(name).set_params(neighboring=neighboring), zoo(neighboring)[1])


# ---------------------------------------------------------------- the noise of many fits


def noise_events(draws, scale=1e6, mechanism="gaussian"):
    """One release of each row of draws, of nothing."""
    zeros = np.zeros(draws.shape[1], dtype=np.int64)
    return [Event("a sum", mechanism, zeros, row, 1.0, scale, 1.0) for row in draws]


def drawn(shape, seed, scale=1e6, kind="gaussian"):
    bits = samplers.Bits(np.random.default_rng(seed))
    return getattr(samplers, f"{kind}_int")(bits, scale, math.prod(shape)).reshape(shape)


@pytest.mark.parametrize("scale", [0.7, 12.0, 1e6])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_scores_are_exactly_normal_and_uniform_on_every_lattice(kind, scale):
    """Chance of a failure of honest noise: six tests at 1e-6 each."""
    (event,) = noise_events(drawn((1, 20_000), 3, scale, kind), scale, kind)
    score = weighing._score(event, np.random.default_rng(0))
    for values, law in (
        (score.normal, "norm"),
        (score.uniform, "uniform"),
        (score.tail, "uniform"),
    ):
        assert stats.kstest(values, law).pvalue > 1e-6
    assert stats.gamma(score.shape).cdf(score.energy) == pytest.approx(0.5, abs=0.5 - 1e-6)


def test_scores_of_k_norm_noise_are_normal_too():
    body, bits = ((1, 2e5), (3, 1e5)), samplers.Bits(np.random.default_rng(0))
    draws = samplers.knorm_int(bits, 2.0, 5000, body)
    event = Event("sums", "knorm", np.zeros_like(draws), draws, 1.0, 2.0, 1.0, None, body)
    score = weighing._score(event, np.random.default_rng(0))
    assert stats.kstest(score.normal, "norm").pvalue > 1e-6
    assert stats.kstest(score.uniform, "uniform").pvalue > 1e-6
    r = np.corrcoef(score.normal.reshape(-1, 4).T) - np.eye(4)
    assert np.abs(r).max() < 5 / math.sqrt(5000)  # six correlations: 4e-6 by chance


def faulty(kind, draws):
    """Draws of scale 1e6 with one fault of their joint law, or none."""
    first, half = draws[:, :1], draws.shape[1] // 2
    signs = np.resize([1, -1], draws.shape[1])
    return {
        "honest": draws,
        "one draw": np.tile(first, (1, draws.shape[1])),
        "alternating": first * signs,
        "antisymmetric": np.c_[draws[:, :half], -draws[:, :half]],
        "correlated at 0.95": np.c_[first, np.rint(0.95 * first + 0.3122 * draws[:, 1:])],
        "a little in common": np.rint(0.3 * first + math.sqrt(0.91) * draws),
        "adds up to nothing": draws - np.rint(draws.mean(axis=1, keepdims=True)),
    }[kind].astype(np.int64)


@pytest.mark.parametrize(
    "kind",
    [
        "honest",
        "one draw",
        "alternating",
        "antisymmetric",
        "correlated at 0.95",
        "a little in common",
        "adds up to nothing",
    ],
)
def test_joint_defects_are_seen_within_forty_fits(kind):
    draws = faulty(kind, drawn((40, 10), 5))
    for per_release in (10, 5, 1):  # within a release, between releases
        recordings = [
            [e for part in np.split(row, 10 // per_release) for e in noise_events(part[None])]
            for row in draws
        ]
        assert bool(weighing.check_joint(recordings)) == (kind != "honest")


def test_false_alarms_are_as_rare_as_stated():
    """Two hundred audits of honest noise at a rate of 0.2: more than 72 alarms would be luck below 1e-6."""
    alarms = 0
    for seed in range(200):
        fine, coarse = drawn((20, 4), seed), drawn((20, 6), 1000 + seed, 3.0, "laplace")
        recordings = [
            noise_events(a[None]) + noise_events(b[None], 3.0, "laplace")
            for a, b in zip(fine, coarse, strict=True)
        ]
        alarms += bool(weighing.check_noise(recordings, 0.2))
    assert 5 < alarms <= 72  # and it is no test that never speaks


def test_a_release_that_was_not_made_bends_nothing():
    """A fit goes on where its first two numbers are high: those that went on are dependent, and must not be accused."""
    draws, recordings = drawn((1200, 3), 7), []
    for row in draws:
        goes_on = row[:2].min() > 0
        recordings.append(noise_events(np.split(row, 3)[0][None]) + noise_events(row[None, 1:2]))
        recordings[-1] += noise_events(row[None, 2:]) if goes_on else []
    kept = [events for events in recordings if len(events) == 3]
    assert not weighing.check_joint(recordings)
    assert weighing.check_joint(kept)  # the same test would have accused the selection


@pytest.mark.parametrize("factor", [2, math.sqrt(2), 1.1, 0.9])
def test_the_scale_test_notices_with_its_stated_power(factor):
    """With 1.2 times the draws that the chapter's formula asks for at 99 per cent, 20 of 20 audits notice."""
    luck, n = 1e-6 / 5, 50
    while True:
        low, high = stats.gamma(n / 2).ppf([luck / 2, 1 - luck / 2])
        law = stats.gamma(n / 2, scale=factor**-2)
        if law.cdf(low) + law.sf(high) > 0.99:
            break
        n = int(n * 1.05) + 1
    for seed in range(20):
        draws = drawn((1, int(1.2 * n)), seed, 1e6 / factor)
        assert weighing.check_distribution(noise_events(draws))


def test_noise_cut_at_three_scales_and_an_atom_are_seen_in_wide_rows():
    """One fit in 300 columns draws 1,204 numbers: 80 fits hold 96,000, 99 in 100 audits see the atom."""
    wide = NoisyLloyd(
        2, epsilon=4.0, delta=1e-5, radius=3.0, n_iter=2, init=np.zeros((2, 300)), random_state=0
    )
    rows = np.zeros((20, 300))
    assert not audit.weigh(wide, rows, 80)
    for bug, says in zip(RARE, ("at one place", "at one place"), strict=True):
        with inject(bug, wide) as (broken, fit, _):
            found = audit.weigh(broken, rows, 80, fit=fit)
        assert any(says in sentence for sentence in found), found


def test_a_soft_cut_is_seen_by_its_tails():
    """No atom: whoever is further out than 3 scales is drawn in by half. 12,000 draws, 16 expected beyond 3.2."""
    draws = drawn((1, 12_000), 0)
    soft = np.where(np.abs(draws) > 3e6, draws // 2, draws)
    assert not weighing.check_distribution(noise_events(draws))
    assert any("draws" in sentence for sentence in weighing.check_distribution(noise_events(soft)))


@pytest.mark.slow
@pytest.mark.parametrize("bug", RARE)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_rare_faults_are_seen_in_every_estimator_with_enough_draws(name, bug):
    """As many fits in 40 columns as hold 100,000 draws on fine lattices: on coarse ones the atom is none."""
    model = fresh(name).set_params(radius=4.0)
    rows = np.random.default_rng(0).normal(size=(60, 40)) / 3
    events = record(model, rows, 0).events
    fine = sum(
        np.size(e.value) for e in events if e.mechanism in weighing._ADDITIVE and e.scale > 1e4
    )
    if not fine:
        pytest.skip("only votes: on whole numbers of scale 4 the atom is none")
    with inject(bug, model) as (broken, fit, _):
        assert audit.weigh(broken, rows, -(-100_000 // fine), fit=fit)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ESTIMATORS)
def test_weighing_raises_no_false_alarm(name, seed):
    # 40 audits at 1e-6: decided once by the seeds
    assert not audit.weigh(fresh(name), zoo("add_remove")[1][1][1][-1], 60, seed=1000 * seed)


# ---------------------------------------------------------------- walks


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_a_walk_steps_from_neighbor_to_neighbor(neighboring):
    for name, walk in walks(2, 1.0, n_rows=40, neighboring=neighboring):
        for D, E in itertools.pairwise(walk):
            if neighboring == "add_remove":
                assert len(E) == len(D) + 1 and np.array_equal(E[:-1], D), name
            else:
                assert E.shape == D.shape and (E != D).any(axis=1).sum() <= 1, name
    with pytest.raises(ValueError, match="neighboring"):
        walks(2, 1.0, neighboring="swap")


class ThresholdOnRows(BaseEstimator):
    """A private mean that says whether there were many."""

    def __init__(self, many=100, epsilon=1.0, delta=1e-6, random_state=None):
        self.many, self.epsilon = many, epsilon
        self.delta, self.random_state = delta, random_state

    def fit(self, X, y=None):
        noise = Noise(self.random_state)
        self.mean_ = noise.mean(X, radius=1.0, mu=gaussian_mu(self.epsilon, self.delta))
        self.crowded_, self.spent_ = len(X) >= self.many, noise.receipt(self.delta)
        return self


@pytest.mark.parametrize("many", [2, 11, 100, 263, 300])
def test_straddling_finds_the_very_neighbors(many):
    ((_, walk), *_) = walks(2, 1.0)
    ((sentence, D, E),) = audit.straddling(ThresholdOnRows(many), walk)
    assert (len(D), len(E)) == (many - 1, many) and "crowded_" in sentence
    assert audit.replay(ThresholdOnRows(many), [("found", D, E)], seeds=[0])
    assert not audit.straddling(ThresholdOnRows(301), walk)  # beyond the walk: stated, not seen


class DearerBranch(ThresholdOnRows):
    """Looks again, unpaid by the claim, where many or very few seem to be there."""

    def fit(self, X, y=None):
        noise, cost = Noise(self.random_state), self.epsilon / 2
        self.n_ = noise.count(len(X), epsilon=cost)
        if abs(self.n_) > self.many:
            self.n_ = noise.count(len(X), epsilon=4 * cost)
        self.spent_ = noise.receipt()
        return self


def test_exploring_opens_branches_that_honest_noise_leaves_closed():
    paths = walks(2, 1.0, n_rows=30)
    dear = DearerBranch(many=200)
    assert not audit.replay(dear, neighbors(2, 1.0)[:-1], seeds=range(3))
    found = audit.explore(dear, paths)
    assert any("releases cost epsilon" in f and "outcomes large" in f for f in found), found
    assert any("releases cost epsilon" in f and "outcomes small" in f for f in found), found
    assert not audit.explore(ThresholdOnRows(many=10**9), paths)


def test_shared_draws_are_noticed_on_coarse_lattices_too():
    def events(*draws, scale):
        zeros = [np.zeros(len(d), dtype=np.int64) for d in draws]
        return [
            Event("votes", "gaussian", z, z + np.asarray(d), 1.0, scale, 1.0)
            for z, d in zip(zeros, draws, strict=True)
        ]

    sample, found = Noise(0)._bits, []
    for _ in range(2000):  # luck below 1e-6 for each: all silent but with probability 0.2 %
        one, two = (samplers.gaussian_int(sample, 4.0, 15) for _ in range(2))
        found += weighing.check_draws(events(one, two, scale=4.0))
    assert not found
    assert "the same draws" in weighing.check_draws(events(one, one, scale=4.0))[0]
    assert "share one draw" in weighing.check_draws(events(np.full(15, 3), scale=4.0))[0]
    assert not weighing.check_draws(events(one[:3], one[:3], scale=4.0))  # too few to tell


def test_sabotage_leaves_nothing_behind():
    before = (
        samplers.gaussian_int,
        Noise._add,
        Noise.exponential,
        Noise.cover,
        Noise.__init__,
        samplers.race,
    )
    for bug in FAULTS:
        with inject(bug, NoisyLloyd(2, epsilon=1.0, delta=1e-5, radius=1.0)):
            pass
    assert before == (
        samplers.gaussian_int,
        Noise._add,
        Noise.exponential,
        Noise.cover,
        Noise.__init__,
        samplers.race,
    )
    with pytest.raises(ValueError, match="choose one of"), inject("no such bug", None):
        pass


# ---------------------------------------------------------------- the black box

CLAIM = gaussian_mu(4.0, 1e-5)
TIGHT = NoisyLloyd(1, epsilon=4.0, delta=1e-5, radius=1.0, n_iter=1, init=[[0.0]])
WIDE = NoisyLloyd(2, epsilon=4.0, delta=1e-5, radius=1.0, n_iter=3, init=[[-0.5, 0.0], [0.5, 0.0]])
ZEROS, FAR = np.zeros((20, 1)), np.tile([[-0.5, 0.0]], (200, 1))


def pair(model, neighboring, bug):
    """Two neighbouring data sets on which the worst case is in reach."""
    crowd, row, other = (
        (ZEROS, [[1.0]], [[-1.0]]) if model is TIGHT else (FAR, [[0.2, 0.9]], [[-1.0, 0.0]])
    )
    if bug == "NaN passes":
        row = np.full_like(np.array(row), np.nan)
    return (
        (np.r_[crowd, other], np.r_[crowd, row])
        if neighboring == "replace"
        else (crowd, np.r_[crowd, row])
    )


def bound(model, bug=None, n_runs=1000, seed=0):
    with (
        inject(bug, model) if bug else nullcontext((model, None, "add_remove")) as (
            broken,
            fit,
            neighboring,
        )
    ):
        sides = [
            audit.transcripts(broken, X, n_runs, seed=seed + 10**6 * i, fit=fit)
            for i, X in enumerate(pair(model, neighboring, bug))
        ]
    return audit.mu_lower_bound(*sides)


def test_the_black_box_stays_below_an_honest_claim_and_above_half_of_it():
    # false-alarm rate 1e-3 for a fixed seed, decided once; the power floor is the second half
    assert 0.5 * CLAIM < bound(TIGHT, n_runs=2500) <= CLAIM
    assert bound(WIDE) <= CLAIM


@pytest.mark.slow
def test_the_black_box_catches_at_least_eight_of_nine():
    """Each bug on the tight instance or on three rounds in the plane, whichever shows it: both look at the transcript."""
    wide = "scaled by the data", "the same draws in every release", "empty groups without noise"
    tight = (
        "half the noise, declared",
        "half the noise, hidden",
        "one draw for all coordinates",
        "add_remove sensitivity, replace claimed",
        "the data decide the number of releases",
        "NaN passes",
    )
    bounds = {bug: bound(WIDE if bug in wide else TIGHT, bug) for bug in (*tight, *wide)}
    caught = [bug for bug, value in bounds.items() if value > CLAIM]
    assert len(caught) >= 8, bounds


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_the_black_box_raises_no_false_alarm(seed):
    # 20 tests at 1e-3: false-alarm rate 2 % in all, decided once by the seeds
    assert bound(TIGHT, n_runs=1000, seed=10**7 * (seed + 1)) <= CLAIM


def test_lower_bounds_on_exact_distributions():
    """Two witnesses: laws known in closed form; the bound must lie between half the truth and the truth."""
    rng, n = np.random.default_rng(0), 20_000
    laplace = [shift + rng.laplace(size=(n, 1)) for shift in (0, 1)]
    assert 0.5 < audit.epsilon_lower_bound(*laplace) < 1.0
    gauss = [
        shift * 0.5 + rng.normal(size=(n, 3)) * [1, 1e3, 1e-3]
        for shift in (np.zeros(3), np.array([1, 0, 0]))
    ]
    assert 0.25 < audit.mu_lower_bound(*gauss) < 0.5
    same = [rng.normal(size=(n, 2)) for _ in range(2)]
    assert audit.mu_lower_bound(*same) < 0.1
    catastrophe = [np.zeros((n, 1)), np.ones((n, 1))]
    assert audit.epsilon_lower_bound(*catastrophe) > 6


def test_clopper_pearson_agrees_with_scipy():
    for hits, n in [(0, 50), (3, 50), (50, 50)]:
        interval = stats.binomtest(hits, n).proportion_ci(confidence_level=0.9, method="exact")
        assert np.allclose(audit._clopper_pearson(hits, n, 0.05), (interval.low, interval.high))


def test_lengths_are_releases_too():
    short, long = np.zeros((400, 2)), np.zeros((400, 3))
    assert audit.mu_lower_bound(short, long) > 3


def test_brute_force_sensitivity_finds_the_worst_pair():
    pairs = neighbors(2, 1.0, n_random=20)[:-1]  # without the row of NaN
    clipped = lambda X: quantize(X, 1.0).sum(axis=0) * lattice(1.0)[0]  # noqa: E731
    assert 0.999 < audit.brute_force_sensitivity(clipped, pairs) <= 1.0 + 1e-6
    assert audit.brute_force_sensitivity(lambda X: X.sum(axis=0), pairs) > 1e6


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_the_zoo_holds_neighbors(neighboring):
    pairs = neighbors(3, 2.0, neighboring=neighboring)
    assert len(pairs) >= 8
    for name, D, E in pairs:
        if neighboring == "add_remove":
            assert len(E) == len(D) + 1 and np.array_equal(E[:-1], D), name
        else:
            assert E.shape == D.shape and np.array_equal(E[1:], D[1:]), name
    with pytest.raises(ValueError, match="neighboring"):
        neighbors(3, 2.0, neighboring="swap")


# ---------------------------------------------------------------- budgets in real use


def test_cross_validation_charges_every_fit():
    model, X = fresh("NoisyLloyd"), np.random.default_rng(0).normal(size=(60, DIMENSIONS))
    budget = PrivacyBudget(epsilon=6.0, delta=1e-3, composition="added")
    for train, _ in KFold(3).split(X):
        budget.fit(clone(model), X[train])
    assert budget.spent.epsilon == pytest.approx(3 * model.epsilon)
    with pytest.raises(BudgetExceeded):
        budget.fit(model, X)  # a refit counts like a fit
    assert budget.spent.epsilon == pytest.approx(3 * model.epsilon)


def test_searches_and_scorers_cannot_lose_a_charge():
    model, X = fresh("NoisyLloyd"), np.random.default_rng(0).normal(size=(60, DIMENSIONS))
    budget = PrivacyBudget(epsilon=5.0, delta=1e-3)
    with pytest.raises(TypeError, match="charged"):
        budget.fit(GridSearchCV(model, {"n_iter": [1, 2]}), X)
    assert budget.spent.epsilon == 0
    # outside the budget: each fit has its own receipt, and nothing is claimed
    scores = cross_val_score(model, X, cv=3)
    assert np.isfinite(scores).all() and budget.spent.epsilon == 0


# ---------------------------------------------------------------- time


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_time_does_not_tell_the_noise(kind):
    import time

    sampler, bits = getattr(samplers, f"{kind}_int"), samplers.Bits()
    times, sizes = [], []
    for _ in range(8000):
        start = time.perf_counter_ns()
        draw = int(sampler(bits, 2.0**20, 1)[0])
        times.append(time.perf_counter_ns() - start)
        sizes.append(abs(draw))
    # 8000 independent pairs: |rank correlation| exceeds 0.05 by chance once in 130,000
    assert abs(stats.spearmanr(times, sizes).statistic) < 0.05


# ---------------------------------------------------------------- broken estimators that someone might write


REAL_RACE = samplers.race


class Honest(BaseEstimator):
    """A private mean; the base of the broken ones."""

    def __init__(self, epsilon=1.0, delta=1e-6, random_state=None):
        self.epsilon, self.delta, self.random_state = epsilon, delta, random_state

    def fit(self, X, y=None):
        noise = Noise(self.random_state)
        self.mean_ = noise.mean(X, radius=1.0, mu=gaussian_mu(self.epsilon, self.delta))
        self.spent_ = noise.receipt(self.delta)
        return self


class OffTheReceipt(Honest):
    def fit(self, X, y=None):
        Noise(self.random_state).sum(X, radius=1.0, mu=1000.0)
        return super().fit(X)


class EmptyReceipt(Honest):
    def fit(self, X, y=None):
        super().fit(X)
        self.spent_ = Receipt([], "add_remove")
        return self


class LargeDelta(Honest):
    def fit(self, X, y=None):
        noise = Noise(self.random_state)
        self.mean_ = noise.mean(X, radius=1.0, mu=3.0)
        self.spent_ = noise.receipt(0.9)
        return self


class PrintsRows(Honest):
    def fit(self, X, y=None):
        print(len(X))
        return super().fit(X)


class KeepsRowsPrivately(Honest):
    def fit(self, X, y=None):
        self._rows = len(X)
        return super().fit(X)

    def __getstate__(self):
        return {k: v for k, v in vars(self).items() if k != "_rows"}


class CountsTheCrowd(Honest):
    def fit(self, X, y=None):
        self.crowded_ = len(X) > 150
        return super().fit(X)


class HalfVote(Honest):
    """A vote whose sampler is fed twice the price."""

    def fit(self, X, y=None):
        noise = Noise(self.random_state)
        with mock.patch.object(discrete, "race", lambda b, s, f, *m: self.race(b, s, 2 * f, *m)):
            self.vote_ = noise.vote((X[:, 0] > 0).astype(int), 2, epsilon=self.epsilon)
        self.spent_ = noise.receipt()
        return self

    race = staticmethod(REAL_RACE)


@pytest.mark.parametrize(
    "broken",
    [
        OffTheReceipt,
        EmptyReceipt,
        LargeDelta,
        PrintsRows,
        KeepsRowsPrivately,
        CountsTheCrowd,
    ],
)
def test_replay_catches_what_people_write(broken):
    assert audit.replay(broken(), neighbors(2, 1.0)[:-1], seeds=range(20))


def test_replay_accuses_no_honest_estimator():
    pairs = neighbors(2, 3.0)
    assert not audit.replay(Honest(), pairs)
    many_rounds = NoisyLloyd(2, epsilon=4.0, delta=1e-5, radius=3.0, n_iter=30)
    assert not audit.replay(many_rounds, pairs[:6])


class Threaded(Honest):
    def fit(self, X, y=None):
        noise = Noise(self.random_state)
        with ThreadPoolExecutor(1) as pool:
            self.n_ = pool.submit(noise.count, len(X), epsilon=self.epsilon).result()
        self.spent_ = noise.receipt()
        return self


def test_replay_sees_releases_made_in_other_threads():
    assert not audit.replay(Threaded(), neighbors(2, 1.0))


A_CLOSE_VOTE = np.resize([[-1.0, 0.0], [1.0, 0.0]], (25, 2))


def judged():
    """Five hundred votes of 12 against 11."""
    pair = [("a close vote", A_CLOSE_VOTE[:-2], A_CLOSE_VOTE[:-1])]
    return audit.replay(HalfVote(), pair, seeds=range(500))


@pytest.mark.slow
def test_replay_judges_choices_too():
    """The law of the choice is tested, and halved noise rejected."""
    assert judged()


@pytest.mark.slow
def test_replay_lets_choices_at_their_cost_pass():
    with mock.patch.object(HalfVote, "race", staticmethod(lambda b, s, f: REAL_RACE(b, s, f / 2))):
        assert not judged()


def test_sabotage_says_where_it_does_not_apply():
    with pytest.raises(ValueError, match="radius"):
        with inject("scaled by the data", Honest()):
            pass
    with (
        pytest.raises(ValueError, match="neighboring"),
        inject("add_remove sensitivity, replace claimed", Honest()),
    ):
        pass


# ---------------------------------------------------------------- covers and parallel groups


class Greedy(Honest):
    """Four choices of one cover of the line: a row near node j covers the nodes j and j + 1, and leaves with them."""

    def counts(self, places):
        near = np.bincount(places, minlength=12)
        return near + np.r_[0, near[:-1]]

    def leave(self, places, chosen):
        return places[(places != chosen) & (places + 1 != chosen)]

    def open(self, noise):
        return noise.cover(cover_exponent(self.epsilon, self.delta), label="covers")

    def fit(self, X, y=None):
        noise = Noise(self.random_state)
        choose, self.chosen_ = self.open(noise), []
        places = np.rint(np.clip(np.asarray(X)[:, 0], -1, 1) * 5).astype(int) + 5
        for _ in range(4):
            self.chosen_.append(choose(Counted(self.counts(places), size=10**40)))
            places = self.leave(places, self.chosen_[-1])
        self.spent_ = noise.receipt(self.delta)
        return self


class NobodyLeaves(Greedy):
    def leave(self, places, chosen):
        return places


class HalfLeave(Greedy):
    """A row leaves with one of its two nodes only."""

    def leave(self, places, chosen):
        return places[places != chosen]


class CountsTwice(Greedy):
    def counts(self, places):
        return 2 * super().counts(places)


class CountsTheAbsent(Greedy):
    """Node 11 covers whoever is missing from a hundred."""

    def counts(self, places):
        return super().counts(places) + np.r_[np.zeros(11, int), max(100 - len(places), 0)]


class CheapReceipt(Greedy):
    def open(self, noise):
        choose = super().open(noise)
        noise._pages.top.lines[-1] = replace(
            noise.releases[-1], exponent=noise.releases[-1].exponent / 2
        )
        return choose


class OtherDoor(Greedy):
    def open(self, noise):
        return super().open(Noise(self.random_state))


class SharpRace(Greedy):
    """Choices as if the exponent were twice as large."""

    def fit(self, X, y=None):
        with mock.patch.object(discrete, "race", lambda b, s, f, *m: REAL_RACE(b, s, 2 * f, *m)):
            return super().fit(X)


LINE = [(n, D[:, :1], E[:, :1]) for n, D, E in neighbors(2, 1.0)[:-1]]


def test_replay_accuses_no_honest_cover():
    assert not audit.replay(Greedy(epsilon=3.0), LINE, seeds=range(20))


@pytest.mark.parametrize(
    ("broken", "finding"),
    [
        (NobodyLeaves, "a row counts after it was covered"),
        (HalfLeave, "a row counts after it was covered"),
        (CountsTwice, "moved 2 times the declared sensitivity"),
        (CountsTheAbsent, "counts move both ways"),
        (CheapReceipt, "a more costly choice than the receipt says"),
        (OtherDoor, "a more costly choice than the receipt says"),
    ],
)
def test_replay_says_what_is_wrong_with_a_cover(broken, finding):
    # a large budget: rows must be covered before their return can be seen
    found = audit.replay(broken(epsilon=300.0, delta=1e-3), LINE, seeds=range(6))
    assert any(finding in sentence for sentence in found), found


def test_the_distribution_of_choices_of_a_cover_is_tested():
    """One crowd against 10^40 empty nodes, at even odds: with twice the exponent the crowd would always win."""
    D = np.zeros((round(40 * np.log(10) / cover_exponent(1.0, 1e-6)), 1))
    pair = [("a crowd", D, D[1:])]
    assert not audit.replay(Greedy(), pair, seeds=range(250))
    found = audit.replay(SharpRace(), pair, seeds=range(250))
    assert any(
        "the choice does not have its declared distribution" in sentence for sentence in found
    )


class TwoCovers(Greedy):
    """Two covers, both paid, with labels of their own: in the second everybody counts again."""

    def fit(self, X, y=None):
        noise = Noise(self.random_state)
        places, self.chosen_ = np.full(len(X), 3), []
        for label in ("first cover", "second cover"):
            choose = noise.cover(cover_exponent(self.epsilon, self.delta) / 3, label)
            self.chosen_.append(choose(Counted(self.counts(places))))
        self.spent_ = noise.receipt(self.delta)
        return self


def test_a_second_cover_that_was_paid_is_no_return():
    assert not audit.replay(TwoCovers(), LINE, seeds=range(6))


class Groups(BaseEstimator):
    """Counts of rows left, in the middle and right of it, each by its own branch."""

    def __init__(self, epsilon=1.0, delta=1e-6, neighboring="add_remove", random_state=None):
        self.epsilon, self.delta = epsilon, delta
        self.neighboring, self.random_state = neighboring, random_state

    def members(self, group):
        return [group == j for j in range(3)]

    def paid(self, noise):
        return noise.receipt(self.delta)

    def fit(self, X, y=None):
        noise = Noise(self.random_state, neighboring=self.neighboring)
        cost = self.epsilon / (2 if self.neighboring == "replace" else 1)
        group = np.digitize(np.asarray(X)[:, 0], [-0.3, 0.3])
        counts = [partial(noise.count, int(m.sum()), epsilon=cost) for m in self.members(group)]
        self.counts_, self.spent_ = noise.parallel(counts), self.paid(noise)
        return self


class Overlapping(Groups):
    """The branches see everybody."""

    def members(self, group):
        return [group >= 0, group > 0, group > 1]


class PaidOnce(Groups):
    def paid(self, noise):
        honest = noise.receipt(self.delta)
        return replace(honest, releases=tuple(replace(r, times=1) for r in honest.releases))


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_replay_accuses_no_honest_groups(neighboring):
    pairs = neighbors(2, 1.0, neighboring=neighboring)[:-1]
    assert not audit.replay(Groups(neighboring=neighboring), pairs, seeds=range(6))


@pytest.mark.parametrize(
    ("broken", "neighboring", "finding"),
    [
        (Overlapping, "add_remove", "a row is in more than one parallel branch"),
        (PaidOnce, "replace", "more was released than the receipt says"),
    ],
)
def test_replay_says_what_is_wrong_with_groups(broken, neighboring, finding):
    pairs = neighbors(2, 1.0, neighboring=neighboring)[:-1]
    found = audit.replay(broken(neighboring=neighboring), pairs, seeds=range(6))
    assert any(finding in sentence for sentence in found), found


def test_a_row_that_moves_three_groups_under_replace_is_found():
    rows = np.zeros((9, 2))
    pair = [("from left to right", np.vstack([[-1, 0], rows]), np.vstack([[1, 0], rows]))]

    class Third(Groups):
        def members(self, group):
            return [group == 0, group == 2, group != 0]

    assert not audit.replay(Groups(neighboring="replace"), pair)
    found = audit.replay(Third(neighboring="replace"), pair)
    assert any("more than one parallel branch" in sentence for sentence in found)


def test_parallel_branches_are_priced_by_the_dearest_or_the_two_dearest():
    event = partial(Event, "a", "gaussian", np.zeros(1), np.zeros(1), 1.0)
    events = [event(s, 1.0, branch) for s, branch in ((1, None), (2, (1, 0)), (2, (1, 0)))]
    events += [event(1, 1.0, (1, 1)), event(4, 1.0, (1, 2)), event(5, 1.0, (2, 0))]
    one = 0.5 + 0.5 + 0.5 / 25
    assert audit._rho(events, 1) == pytest.approx(one)
    assert audit._rho(events, 2) == pytest.approx(one + 0.25)


class OneTheorem(Honest):
    """Two counts that a theorem prices together, the second of a sample."""

    cost = 1.0

    def fit(self, X, y=None):
        noise = Noise(self.random_state)
        with noise.procedure(Release("both", "a theorem", epsilon=self.cost * self.epsilon)):
            self.n_ = noise.count(len(X), epsilon=self.epsilon / 2)
            with noise.procedure(share=0.1):  # ln(1 + 0.1 (e^2 - 1)) < 0.5
                self.few_ = noise.count(len(X), epsilon=2 * self.epsilon)
        self.spent_ = noise.receipt()
        return self


class CheapTheorem(OneTheorem):
    cost = 0.5


def test_a_procedure_is_one_line_of_the_receipt_and_its_releases_are_seen():
    model = OneTheorem(random_state=0).fit(np.zeros((9, 2)))
    assert [r.label for r in model.spent_.releases] == ["both"] and model.spent_.epsilon == 1.0
    pairs = neighbors(2, 1.0)[:-1]
    assert not audit.replay(OneTheorem(), pairs, seeds=range(6))
    found = audit.replay(CheapTheorem(), pairs, seeds=range(2))
    assert any("more was released than the receipt says" in sentence for sentence in found)
    noise = Noise(0)
    with pytest.raises(RuntimeError), noise.procedure(Release("both", "a theorem", epsilon=1.0)):
        noise.count(3, epsilon=0.5)
        raise RuntimeError
    assert [r.label for r in noise.releases] == ["both"]  # what was begun is paid
