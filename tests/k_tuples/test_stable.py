"""Stable clusters: one row changes one part, the prices add up, and data that pass are replayed too."""

import math
import tracemalloc
import warnings
from functools import partial

import numpy as np
import pytest
from scipy import special
from sklearn.exceptions import NotFittedError
from test_estimators import COMMON, Untouchable
from threadpoolctl import threadpool_limits

from dplit import (
    KTupleGaussianMixture,
    KTupleKMeans,
    PrivacyBudget,
    accounting,
    audit,
    datasets,
    k_tuples,
)
from dplit.accounting import gaussian_mu, gdp_composition
from dplit.datasets import kmeans_loss
from dplit.inputs import quantize
from dplit.inputs.lattice import lattice
from dplit.k_tuples import kmeans, scales, stable_tuples
from dplit.mechanisms import Noise, watch

KINDS = pytest.mark.parametrize("kind", [KTupleKMeans, KTupleGaussianMixture])
RELATIONS = pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
PASSES = {"n_clusters": 3, "epsilon": 8.0, "delta": 1e-4, "radius": 16.0, "n_tuples": 60}


def groups(n=900, seed=0):
    """Three far groups in the plane."""
    places = np.array([[-8.0, 0.0], [8.0, 0.0], [1.0, 9.0]])
    return places[np.arange(n) % 3] + 0.2 * np.random.default_rng(seed).normal(size=(n, 2))


@RELATIONS
def test_one_row_changes_one_tuple(neighboring):
    rng = np.random.default_rng(0)
    for trial in range(60):
        d = rng.integers(1, 4)
        Q = rng.integers(0, 3, size=(rng.integers(1, 80), d)).astype(float)
        other = rng.integers(0, 4, size=(1, d)).astype(float)
        R = np.vstack([Q, other]) if neighboring == "add_remove" else np.vstack([other, Q[1:]])
        if neighboring == "add_remove":
            R = rng.permutation(R)  # the order means nothing
        parts = [kmeans.parts_of(S, 7, neighboring, np.random.default_rng(trial)) for S in (Q, R)]
        tuples = [kmeans.tuples_of(S, p, 7, 2, 5) for S, p in zip((Q, R), parts, strict=True)]
        assert np.any(tuples[0] != tuples[1], axis=(1, 2)).sum() <= 1


def test_parts_are_of_like_size_and_a_key_changes_them():
    Q = np.arange(40_000, dtype=float).reshape(-1, 2)
    one, two = (kmeans.parts_of(Q, 20, "add_remove", np.random.default_rng(s)) for s in (0, 1))
    sizes = np.bincount(one, minlength=20)
    # chi-square with 19 degrees of freedom: above 60 by chance once in 10^5
    assert ((sizes - 1000) ** 2 / 1000).sum() < 60 and abs(np.mean(one == two) - 0.05) < 0.01
    same = kmeans.parts_of(np.zeros((20_000, 2)), 20, "add_remove", np.random.default_rng(0))
    assert np.bincount(same, minlength=20).min() > 800  # equal rows are spread too


def test_radii_are_quantiles():
    counts = np.zeros((2, 17))
    counts[0, 4], counts[0, 9] = 100, 2
    counts[1, 16] = 10
    assert np.allclose(kmeans.cell_radii(counts.ravel(), 2), [2.0**-6, 1.0])
    assert np.all(np.isin(kmeans.cell_radii(-np.ones(34), 2), 2.0 ** (np.arange(17) / 2 - 8)))


@KINDS
@RELATIONS
def test_squares_of_costs_add_up_to_what_was_given(kind, neighboring):
    model = kind(**COMMON, neighboring=neighboring)
    model.fit(groups())
    mus = [r.mu for r in model.spent_.releases if r.mu]
    assert gdp_composition(mus) == pytest.approx(gaussian_mu(1.0, 5e-7), rel=1e-6)
    assert len(mus) == (6 if kind is KTupleGaussianMixture else 5)
    assert sum(r.delta for r in model.spent_.releases) == pytest.approx(5e-7)


@KINDS
@RELATIONS
def test_replay_of_data_that_pass_finds_nothing(kind, neighboring):
    X = groups()
    rows = [[3.0, 3.0], [1e6, 0.0], [-8.0, 0.0]]
    pairs = [
        (str(r), X, np.vstack([X, [r]]) if neighboring == "add_remove" else np.vstack([[r], X[1:]]))
        for r in rows
    ]
    model = kind(**PASSES, neighboring=neighboring, random_state=0)
    assert model.fit(X).status_ == "released"
    assert not audit.replay(model, pairs, seeds=range(2))


@pytest.mark.parametrize(
    "bug",
    [
        "half the noise, declared",
        "half the noise, hidden",
        "one draw for all coordinates",
        "one draw for all coordinates, signs in turn",
        "the same draws in every release",
        "the data decide the number of releases",
    ],
)
def test_replay_of_data_that_pass_catches_planted_bugs(bug):
    X = groups(300)
    pairs = [("one more", X, np.vstack([X, [[3.0, 3.0]]]))]
    with audit.inject(bug, KTupleKMeans(**PASSES)) as (broken, fit, _):
        assert audit.replay(broken, pairs, seeds=range(8), fit=fit, stop=True)


def test_a_part_by_position_under_add_remove_is_caught():
    X = groups()
    by_place = lambda Q, t, neighboring, rng: np.arange(len(Q)) % t  # noqa: E731
    pairs = [("one more in front", X, np.vstack([[[3.0, 3.0]], X]))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kmeans, "parts_of", by_place)
        tuples = [kmeans.tuples_of(Q, by_place(Q, 60, "", None), 60, 3, 0) for Q in pairs[0][1:]]
        assert np.any(tuples[0] != tuples[1], axis=(1, 2)).sum() > 10


@RELATIONS
def test_good_data_are_found_and_bad_ones_are_not_answered(neighboring):
    made = datasets.make_separated_gaussians(24_000, 4, 3, distance=16.0, random_state=0)
    make = partial(KTupleGaussianMixture, epsilon=1.0, delta=1e-6, radius=made.radius, neighboring=neighboring, random_state=0)  # fmt: skip
    model = make(4).fit(made.data)
    gaps = np.linalg.norm(model.cluster_centers_[:, None] - made.centers, axis=2)
    assert model.status_ == "released" and gaps.min(axis=1).max() < 0.3
    assert np.abs(model.weights_ - 0.25).max() < 0.02 and model.weights_.sum() == pytest.approx(1)
    assert all(np.linalg.eigvalsh(c).min() >= -1e-9 for c in model.covariances_)
    assert kmeans_loss(made.data, model.cluster_centers_) < 1.1 * kmeans_loss(
        made.data, made.centers
    )
    blob = np.random.default_rng(0).normal(size=(10_000, 3))
    assert make(4).fit(blob).status_ == "abstained"


def test_covariances_are_near_when_rows_are_many():
    rng = np.random.default_rng(0)
    A = np.array([[1.0, 0.6], [0.6, 1.5]])
    X = rng.multivariate_normal([0, 0], A, size=100_000) + 15.0 * (np.arange(100_000) % 2)[:, None]
    model = KTupleGaussianMixture(2, epsilon=1.0, delta=1e-6, radius=32.0, random_state=0).fit(X)
    # rows beyond their cell's radius are shortened: covariances come out a little small
    assert max(np.linalg.norm(c - A) for c in model.covariances_) < 0.3 * np.linalg.norm(A)
    assert np.array_equal(model.means_, model.cluster_centers_)


def test_stability_needed_is_equation_1():
    phi = kmeans.stability_needed(10.0)
    assert 1 / phi**2 - 1 == pytest.approx(8 * 2 * 22**2)
    assert math.isclose(kmeans.stability_needed(10.0, 3.0), 1 / math.sqrt(1 + 8 * 4 * 22**2))


def test_a_tuple_is_a_function_of_its_part_bit_for_bit():
    """Whatever the other parts, the order of the rows and the threads that the machine offers."""
    rng = np.random.default_rng(0)
    # several chunks of a thread's work
    Q = rng.integers(-(10**6), 10**6, size=(40_000, 5)).astype(float)
    parts, runs = np.arange(len(Q)) % 2, []
    for threads in (1, 2, 4, 2):
        with threadpool_limits(threads):
            runs.append(kmeans.tuples_of(Q, parts, 2, 6, 11))
    assert all(np.array_equal(runs[0], run) for run in runs[1:])
    order, other = rng.permutation(len(Q)), np.where(parts == 0, 0, 1)
    assert np.array_equal(kmeans.tuples_of(Q[order], other[order], 2, 6, 11), runs[0])
    changed = np.where((parts == 1)[:, None], Q[::-1] / 2, Q).round()
    assert np.array_equal(kmeans.tuples_of(changed, parts, 2, 6, 11)[0], runs[0][0])


def test_k_means_runs_inside_one_thread():
    seen = []

    class Spy(kmeans.KMeans):
        def fit(self, X):
            seen.append([pool["num_threads"] for pool in stable_pools()])
            return super().fit(X)

    from threadpoolctl import threadpool_info as stable_pools

    with pytest.MonkeyPatch.context() as patch, threadpool_limits(4):
        patch.setattr(kmeans, "KMeans", Spy)
        kmeans.tuples_of(groups(), np.zeros(900, int), 1, 3, 0)
    assert seen and all(threads == 1 for pools in seen for threads in pools)


@KINDS
def test_one_cluster_has_no_parts_and_no_bound_that_fails(kind):
    model = kind(**{**COMMON, "n_clusters": 1}).fit(groups())
    assert model.status_ == "released" and not any(r.delta for r in model.spent_.releases)
    assert not [r for r in model.spent_.releases if "parts" in r.label]
    mus = [r.mu for r in model.spent_.releases]
    assert gdp_composition(mus) == pytest.approx(gaussian_mu(1.0, 1e-6), rel=1e-6)


@KINDS
def test_abstaining_makes_the_same_releases_around_public_points(kind):
    model = kind(**PASSES, random_state=0)
    good, bad = model.fit(groups()), kind(**PASSES, random_state=0)
    bad.fit(np.random.default_rng(0).normal(size=(900, 2)))
    assert (good.status_, bad.status_) == ("released", "abstained")
    fits = [model.spent_.releases for model in (good, bad)]
    lines = [[(r.label, r.mechanism, r.times, r.delta) for r in releases] for releases in fits]
    totals = [gdp_composition([r.mu for r in releases if r.mu]) for releases in fits]
    assert lines[0] == lines[1] and totals[0] == pytest.approx(totals[1], rel=1e-9)
    # and the later ones, which look at the rows again, at the same price each
    assert [r.mu for r in fits[0][4:]] == [r.mu for r in fits[1][4:]]


@KINDS
def test_parts_that_can_never_agree_are_refused_before_x_is_read(kind):
    for wrong, message in (
        ({"n_tuples": 2}, "n_tuples=2.*by default"),
        ({"epsilon": 1e-9}, "larger epsilon"),
    ):
        with pytest.raises(ValueError, match=message):
            kind(**{**COMMON, **wrong}).fit(Untouchable())


@KINDS
def test_nothing_is_there_before_a_fit(kind):
    model = kind(**COMMON)
    for name in ("means_", "cluster_centers_", "covariances_"):
        assert not hasattr(model, name)
    if kind is KTupleGaussianMixture:
        with pytest.raises(NotFittedError):
            model.means_  # noqa: B018
    with pytest.raises(NotFittedError):
        model.predict(groups())


@pytest.mark.parametrize("kind", [KTupleKMeans, KTupleGaussianMixture])
def test_a_cost_at_which_no_number_of_parts_agrees_names_its_owner(kind):
    for n_tuples in (None, 50):
        model = kind(2, epsilon=1e-3, delta=1e-6, radius=1.0, n_tuples=n_tuples)
        with pytest.raises(ValueError, match=f"epsilon=0.001: {kind.__name__}.*larger epsilon"):
            model.fit(None)


@pytest.mark.parametrize("kind", [KTupleKMeans, KTupleGaussianMixture])
def test_parts_that_would_be_compared_for_days_are_refused_before_the_budget(kind):
    cost = {"epsilon": 1.0, "delta": 1e-6, "radius": 1.0}
    budget = PrivacyBudget(epsilon=2.0, delta=1e-5)
    with pytest.raises(
        ValueError,
        match=r"^n_clusters=1000 with 16 columns: .* would take more than a day of one core.*Choose smaller",
    ) as e:
        budget.fit(kind(1000, **cost), np.zeros((10, 16)))
    assert budget.spent.epsilon == 0 and "\n" not in str(e.value)
    kind(300, **cost)._check_shape(16)  # hours, but not days


def test_many_clusters_take_no_table_of_all_pairs_in_all_parts():
    """Parts by clusters by columns, and clusters squared; not parts by clusters squared."""
    n, k, d = 300, 60, 2
    T = np.random.default_rng(0).normal(size=(k, d)) + np.zeros((n, k, d))
    tracemalloc.start()
    k_tuples.stable_tuple_mean(
        T, separation=10.0, outliers=0.1, mu=3.0, eta=1e-6, beta=0.05, noise=Noise(0)
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * n * k * (d + 1) + 2**22 < 8 * n * k**2


# Slips in one line that no other test noticed: exact numbers, enumeration, brute force on tiny cases.


@pytest.mark.parametrize("delta", [1e-3, 1e-7])
def test_the_cost_of_stable_means_is_kept_and_used(delta):
    for epsilon in np.geomspace(0.03, 8, 40):
        mu, eta = stable_tuples._stable_cost(epsilon, delta)
        lines = [
            accounting.Release("bounds", "tail", epsilon=0.0, delta=eta),
            accounting.Release("all", "gaussian", mu=mu),
        ]
        spent = accounting.Receipt(lines, "replace").epsilon_at(delta)
        assert epsilon * (1 - 1e-7) <= spent <= epsilon and eta == delta / 2


def test_stable_movements_allow_for_rounding():
    for separation in (9.0, 12.5, 100.0):
        shift, stretch = stable_tuples.stable_movement(0.25, separation)
        closer = k_tuples.ratio_bound(separation * (1 - 0.9e-9))
        assert closer * 0.5 / separation < shift < closer * 0.5 / separation * (1 + 1e-9)
        assert 0.25 * math.log(closer) < stretch < 0.25 * math.log(closer) * (1 + 1e-8)


STABLE = {"separation": 12.0, "outliers": 0.1, "mu": 40.0, "eta": 1e-6, "beta": 0.05}


def test_tuples_that_do_not_agree_are_not_answered_whatever_the_cost():
    T = np.random.default_rng(0).normal(size=(40, 3, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for mu in (1.0, 40.0, 1e4):
            assert stable_tuples.stable_tuple_mean(T, **{**STABLE, "mu": mu}, noise=Noise(0, neighboring="replace")) is None  # fmt: skip


def test_a_stable_mean_divides_its_failures_in_halves(monkeypatch):
    calls, release = [], k_tuples.scaled_centers
    monkeypatch.setattr(
        stable_tuples,
        "scaled_centers",
        lambda *args, **kw: calls.append(kw) or release(*args, **kw),
    )
    T = np.tile(np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 40.0]]), (60, 1, 1))
    seen = []
    with watch(lambda event: seen.append(event) or event.value):
        got = stable_tuples.stable_tuple_mean(T, **STABLE, noise=Noise(0, neighboring="replace"))
    assert np.allclose(got, T[0][np.lexsort(T[0].T[::-1])], atol=1e-4)
    h0, s, G = stable_tuples.stable_geometry(60, 0.1)
    step, scale = seen[0].step, seen[0].scale * seen[0].step
    assert seen[0].value * step == s * 60 and seen[0].sensitivity * step == pytest.approx(G, rel=1e-5)  # fmt: skip
    low = s * 60 + special.ndtri(STABLE["eta"] / 2) * scale
    shift, stretch = stable_tuples.stable_movement(G / low, 12.0)
    (call,) = calls
    assert call["eta"] == STABLE["eta"] / 2
    assert call["shift"] == pytest.approx(shift, rel=1e-12)
    assert call["stretch"] == pytest.approx(stretch, rel=1e-12)
    spent = (G / scale) ** 2 + call["mu"] ** 2
    assert spent == pytest.approx(STABLE["mu"] ** 2, rel=1e-4) and spent <= STABLE["mu"] ** 2 * (1 + 1e-12)  # fmt: skip


def test_tuples_need_as_many_distinct_rows_as_clusters():
    two, three = [[1.0, 5.0], [7.0, 2.0]], [[1.0, 5.0], [7.0, 2.0], [7.0, 30.0]]
    Q = np.array(two * 4 + three * 3 + [[9.0, 4.0]])
    parts = np.repeat([0, 1, 2], [8, 9, 1])
    T = kmeans.tuples_of(Q, parts, 4, 3, 0)
    assert not T[0].any() and not T[2].any() and not T[3].any()
    assert np.allclose(sorted(T[1].tolist()), three)


def test_the_stability_that_tuples_need():
    assert kmeans.stability_needed(6.0) == pytest.approx(1 / math.sqrt(1 + 16 * 14**2), rel=1e-15)
    assert kmeans.stability_needed(10.0, 2.0) == pytest.approx(1 / math.sqrt(1 + 24 * 22**2), rel=1e-15)  # fmt: skip


STABLE_PRICE = {"epsilon": 1.0, "delta": 1e-6, "radius": 8.0, "n_tuples": 300, "separation": 12.0}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rough", [None, np.array([[-3.0, 0.0], [3.0, 0.0]])])
def test_a_stable_start_is_paid_and_said(monkeypatch, rough):
    asked, starts = [], []
    monkeypatch.setattr(kmeans, "tuples_of", lambda Q, parts, t, k, seed: np.zeros((t, k, 2)))
    monkeypatch.setattr(kmeans, "stable_tuple_mean", lambda T, **kw: asked.append(kw) or rough)
    cell_means = kmeans.cell_means
    monkeypatch.setattr(kmeans, "cell_means", lambda Q, start, *args: starts.append(start) or cell_means(Q, start, *args))  # fmt: skip
    model = KTupleKMeans(2, **STABLE_PRICE, outliers=0.15, share=0.4, random_state=0)
    model.fit(np.random.default_rng(0).normal(size=(900, 2)))
    ((ask,), (start,)) = asked, starts
    mu = accounting.gaussian_mu(1.0, 0.5e-6)
    assert ask["eta"] == 0.5e-6 * (1 - 1e-5) and ask["beta"] == 0.05
    assert (ask["separation"], ask["outliers"]) == (12.0, 0.15)
    assert ask["mu"] == pytest.approx(mu * math.sqrt(0.4), rel=1e-8)
    assert model.status_ == ("abstained" if rough is None else "released")
    assert (rough is not None) == np.array_equal(start, rough if rough is not None else 0)


@pytest.mark.parametrize("make, k", [(KTupleKMeans, 1), (KTupleKMeans, 3), (KTupleGaussianMixture, 3)])  # fmt: skip
def test_parts_of_a_stable_cost_add_up_a_hair_below_it(make, k):
    eta, *parts = make(k, **STABLE_PRICE, share=0.3)._budget_split()
    assert eta == (0.5e-6 if k > 1 else 0.0)
    whole = accounting.gaussian_mu(1.0, 1e-6 - eta)
    assert math.hypot(*parts) == pytest.approx(whole * (1 - 1e-9), rel=1e-12)
    assert parts[0] == (pytest.approx(whole * math.sqrt(0.3), rel=1e-8) if k > 1 else 0)
    assert bool(parts[-1]) == (make is KTupleGaussianMixture)


@pytest.mark.parametrize("start", [[[1.0, 0.0]], [[-1.0, 0.0], [2.0, 0.0]], [[-3.0, 0.0], [3.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]]])  # fmt: skip
def test_distances_are_counted_in_those_between_centers(start):
    start, radius = np.array(start), 4.0
    step, limit = lattice(radius)
    rng = np.random.default_rng(0)
    near = np.rint(start[0] / step) + rng.integers(-900, 900, size=(50, 2))  # a few steps away
    Q = np.vstack([quantize(rng.normal(size=(300, 2)), radius), near])
    events, cost = [], kmeans.StableBudget(0.0, 0.0, distances=1.0, means=1.0, moments=0.0)
    with watch(lambda event: events.append(event) or event.value):
        kmeans.cell_means(Q, start, radius, cost, Noise(0))
    (seen,) = [e.value for e in events if e.label == "distances"]
    apart = [2.0 * limit] if len(start) == 1 else [max(math.dist(*start) / step, 2.0**10)] * 2
    wanted = np.zeros((len(start), 17), dtype=int)
    for row in Q:
        far = [math.dist(row, c / step) for c in start]
        j = int(np.argmin(far))
        wanted[j, sum(far[j] / apart[j] > 2 ** (i / 2 - 8) for i in range(16))] += 1
    assert np.array_equal(seen.reshape(-1, 17), wanted)


@pytest.mark.parametrize("n, outliers, numbers", [(60, 0.1, (31, 24, 83)), (61, 0.0, (32, 30, 90)), (10, 0.3, (6, 2, 11)), (4, 0.3, (3, 1, 4))])  # fmt: skip
def test_the_whole_numbers_of_a_stable_mean(n, outliers, numbers):
    assert stable_tuples.stable_geometry(n, outliers) == numbers


@pytest.mark.parametrize("n, outliers, mu", [(300, 0.1, 2.0), (900, 0.0, 0.5), (900, 0.25, 1.0)])
def test_the_plan_and_chance_of_a_stable_mean(n, outliers, mu):
    k, eta, beta, separation = 3, 1e-6, 0.05, 12.0
    _, s, G = stable_tuples.stable_geometry(n, outliers)
    cost = k, mu, eta, beta, separation, outliers
    good, best = s * (n - math.floor(outliers * n)), (math.inf, 0.7 * mu, mu * math.sqrt(0.51))

    def factor(moved, rest):
        return scales.noise_factor(*stable_tuples.stable_movement(moved, separation), k, rest, eta / 2)[0]  # fmt: skip

    for share in np.linspace(0.1, 0.98, 45):  # of the price, for the weight
        low = good + (special.ndtri(eta / 2) + special.ndtri(beta)) * G / (share * mu)
        rest = mu * math.sqrt(1 - share**2)
        if low >= 2 * G:
            best = min(best, (factor(G / low, rest), share * mu, rest))
    assert stable_tuples.stable_plan(n, *cost) == pytest.approx(best, rel=1e-12)
    low, high = 0.0, 0.5  # the largest share of the weight that may move
    while high - low > 1e-13:
        middle = (low + high) / 2
        low, high = (middle, high) if factor(middle, best[2]) <= 0.25 else (low, middle)
    deviation = G / best[1]
    chance = special.ndtr((s * n - G / low) / deviation + special.ndtri(eta / 2))
    assert stable_tuples.stable_chance(n, *cost) == pytest.approx(chance, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("unit", [0.01, 1.0, 100.0])
def test_second_moments_are_those_of_the_cells_in_any_unit(unit):
    rng, radius = np.random.default_rng(0), 60.0 * unit
    start = np.array([[-27.0, 0.0], [27.0, 0.0]]) * unit
    spread = np.array([[3.0, 0.9], [0.6, 1.5]]) * unit
    Q = np.vstack([c + rng.normal(size=(3000, 2)) @ spread for c in start])
    cost = kmeans.StableBudget(**dict.fromkeys(kmeans.StableBudget.__annotations__, 1e7))
    found, inside = kmeans.cell_means(quantize(Q, radius), start, radius, cost, Noise(0))
    noise = Noise(0)
    weights, matrices = kmeans.second_moments(found, inside, 1e7, noise)
    (release,) = noise.receipt(1e-9).releases
    assert release.sensitivity == pytest.approx(1.0, rel=1e-6)
    assert np.allclose(weights, 0.5, atol=1e-3)
    for matrix, part in zip(matrices, (Q[:3000], Q[3000:]), strict=True):
        assert np.allclose(matrix, np.cov(part.T), rtol=0.1)  # the longest rows are cut


def test_errors_of_centers_do_not_know_where_the_centers_are():
    rng = np.random.default_rng(0)
    X = np.repeat([[-20.0, 0.0], [20.0, 0.0]], 20_000, axis=0) + rng.normal(size=(40_000, 2))
    cost = {"epsilon": 4.0, "delta": 1e-6, "radius": 30.0, "random_state": 0}
    model = KTupleKMeans(2, **cost).fit(X)
    errors = model.cluster_centers_se_
    assert model.status_ == "released"
    assert np.allclose(errors[:, 0], errors[:, 1], rtol=0.2)


def test_one_cluster_of_tuples_is_one_mean():
    X = np.random.default_rng(0).normal(size=(3000, 2)) * 0.3 + [1.0, -1.0]
    model = KTupleKMeans(1, epsilon=8.0, delta=1e-6, radius=4.0, random_state=0).fit(X)
    assert model.cluster_centers_.shape == (1, 2)
    assert np.allclose(model.cluster_centers_, X.mean(axis=0), atol=0.02)


def test_a_plan_of_tuples_counts_bad_ones_whole():
    plans = [
        stable_tuples.stable_plan(333, 2, 5.0, 1e-7, 0.01, 9.0, bad / 333)
        for bad in (33.1, 33.9, 34.1)
    ]
    assert plans[0] == plans[1] != plans[2]


def test_rows_of_no_part_are_in_no_tuple():
    Q = np.rint(np.random.default_rng(0).normal(size=(90, 2)) * 1000)
    parts = np.repeat([0, 1, 2], 30)
    inside = kmeans.tuples_of(Q[parts < 2], parts[parts < 2], 2, 3, seed=0)
    assert np.array_equal(kmeans.tuples_of(Q, parts, 2, 3, seed=0), inside)
