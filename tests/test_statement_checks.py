"""Checks that exercise the papers' statements through the very functions that the register names.

Exact where arithmetic allows: laws are enumerated, constructions are computed, programs are followed line
by line with outcomes handed out through the door. Where draws are counted, the false-alarm rate is said.
"""

import itertools
import math
from collections import Counter
from functools import partial
from unittest import mock

import mpmath
import numpy as np
import pytest
from scipy import integrate, optimize, special, stats
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

from dplit import (
    CnvxAdap,
    HDPEMeans,
    KAverages,
    KNoisyCenters,
    KTupleKMeans,
    MaxCoverKMeans,
    NeighborNoisyAverages,
    NoisyAverageSet,
    StableTupleMean,
    audit,
    datasets,
)
from dplit import source_target as so
from dplit.accounting import (
    Receipt,
    Release,
    classical_gaussian_mu,
    cover_delta,
    gaussian_delta,
    gaussian_mu,
    subsampled,
    zcdp_epsilon,
)
from dplit.adaptation import convex as co
from dplit.adaptation import nonconvex as nc
from dplit.adaptation.discrepancy import loss_bound
from dplit.clustering import k_tuples as kt
from dplit.clustering import max_cover as mc
from dplit.clustering import private_evolution as pe
from dplit.clustering.lloyd import center_error_bound
from dplit.datasets import kmeans_loss
from dplit.geometry import gaussian_projection, jl_failure, nearest, uniform_in_ball
from dplit.mechanisms import Noise, check_neighboring, gauge, lattice, lattice_law, quantize, watch

BOTH = pytest.mark.parametrize("neighboring", ["add_remove", "replace"])


def through_the_door(run, hand_out=lambda event: event.outcome):
    """What `run()` returns, and all events; `hand_out` decides the outcomes."""
    events = []

    def look(event):
        events.append(event)
        return hand_out(event)

    with watch(look):
        return run(), events


def event_of(query, *args, neighboring="add_remove", **price):
    """The one event of a query of a door, such as `Noise.count`, and the door."""
    found = []

    def run():
        found.append(Noise(0, neighboring=neighboring))
        query(found[0], *args, **price)

    _, (event,) = through_the_door(run)
    return event, found[0]


def silent():
    """Noise off: exact values pass."""
    return watch(lambda event: event.value)


def stick(p, q, epsilon):
    """The most that an event can gain: sup over U of P(U) - e^epsilon Q(U), for laws on a finite set."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


# ---------------------------------------------------------------- what private means


def test_an_event_gains_no_more_than_the_hockey_stick():
    rng = np.random.default_rng(0)
    for _ in range(20):
        p, q = rng.dirichlet(np.ones(6), size=2)
        epsilon = rng.uniform(0, 1)
        gains = [
            (p - math.exp(epsilon) * q)[list(event)].sum()
            for size in range(7)
            for event in itertools.combinations(range(6), size)
        ]
        assert max(gains) == pytest.approx(stick(p, q, epsilon), abs=1e-14)


@BOTH
def test_a_receipt_bounds_every_event_on_every_pair_of_neighbours(neighboring):
    """Two noisy counts, their exact joint law on neighbours: (epsilon, delta) for every epsilon, and reached."""
    check_neighboring(neighboring)
    with pytest.raises(ValueError):
        check_neighboring("one row")
    shares, halved = [], []
    for _, D, E in audit.neighbors(1, 4.0, neighboring=neighboring)[:-1]:
        less, more = (Counter(map(float, rows.ravel())) for rows in (D, E))
        gone, new = (less - more).total(), (more - less).total()
        assert (gone, new) == (0, 1) if neighboring == "add_remove" else gone == new <= 1
        laws, half = [], []
        for rows in (D, E):
            sides, grid = (rows[:, 0] > 0).astype(int), np.arange(-90, 250)
            event, noise = event_of(Noise.histogram, sides, 2, epsilon=0.7, neighboring=neighboring)
            for found, scale in ((laws, event.scale), (half, event.scale / 2)):
                one, two = (lattice_law("laplace", scale, grid - v) for v in event.value)
                found.append(np.outer(one, two))
        receipt = Receipt(noise.releases, neighboring)
        for epsilon in (0.0, 0.2, 0.5, 0.7):
            delta = receipt.delta_at(epsilon)
            for p, q in (laws, laws[::-1]):
                assert stick(p, q, epsilon) <= delta + 1e-12
                shares.append(stick(p, q, epsilon) / delta if delta else 0.0)
            halved.append(stick(*half, epsilon) - delta)
    assert max(shares) > (0.999 if neighboring == "add_remove" else 0.5) and max(halved) > 0.01


def parts_of_laws(P, Q, epsilon):
    """Parts of P and Q of the same mass whose ratio is within e^epsilon everywhere: the proof of Lemma 2.4."""
    one, two = np.minimum(P, math.exp(epsilon) * Q), np.minimum(Q, math.exp(epsilon) * P)
    mass = min(one.sum(), two.sum())
    small = []
    for part, other in ((one, two), (two, one)):
        least = math.exp(-epsilon) * other
        share = (mass - least.sum()) / max(part.sum() - least.sum(), 1e-300)
        small.append(least + share * (part - least) if part.sum() > mass else part)
    return small


def test_lemma_2_4_holds_with_coins_and_not_without():
    rng = np.random.default_rng(0)
    for _ in range(300):
        P, Q = rng.dirichlet(np.full(5, 0.5), size=2)
        epsilon = rng.uniform(0, 1.5)
        delta = max(stick(P, Q, epsilon), stick(Q, P, epsilon))
        parts = parts_of_laws(P, Q, epsilon)
        for part, law in zip(parts, (P, Q), strict=True):
            assert np.all(part <= law * (1 + 1e-12)) and part.sum() >= 1 - delta - 1e-12
        one, two = (part / part.sum() for part in parts)
        assert stick(one, two, epsilon) < 1e-12 and stick(two, one, epsilon) < 1e-12
        # back: any coins, of whatever masses
        a, b = rng.uniform(0.3, 1, size=(2, 5))
        delta = 1 - min(P @ a, Q @ b)
        ratio = np.log((P * a / (P @ a)) / (Q * b / (Q @ b)))
        for p, q in ((P, Q), (Q, P)):
            assert stick(p, q, np.abs(ratio).max()) <= delta + 1e-12
    # without coins: only everything has mass 0.9 under both, and there the laws differ
    P, Q = np.array([0.5, 0.5]), np.array([0.6, 0.4])
    events = [e for e in ([0], [1], [0, 1]) if min(P[e].sum(), Q[e].sum()) >= 0.9]
    assert stick(P, Q, 0) <= 0.1 + 1e-15 and events == [[0, 1]] and np.any(P != Q)


# ---------------------------------------------------------------- two mechanisms


def all_pairs(values=(-1.0, 0.0, 2.0), n=3):
    """Every pair of data sets of n numbers that differ in one place."""
    every = list(itertools.product(values, repeat=n))
    apart = lambda D, E: sum(a != b for a, b in zip(D, E, strict=True)) == 1  # noqa: E731
    return [(f"{D} and {E}", np.array(D), np.array(E)) for D in every for E in every if apart(D, E)]


def test_laplace_noise_hides_the_largest_movement_and_no_larger_one():
    """Definition 2.5 by brute force; the exact law on every pair of neighbours loses epsilon, and the worst pair all of it."""
    query = lambda D: np.array([D.sum()])  # noqa: E731
    pairs, epsilon = all_pairs(), 0.8
    sensitivity = audit.brute_force_sensitivity(query, pairs, norm=1)
    assert sensitivity == 3.0
    losses = {}
    for claimed in (sensitivity, sensitivity / 2):
        losses[claimed] = []
        for _, D, E in pairs:
            price, values = {"sensitivity": claimed, "epsilon": epsilon}, []
            for rows in (D, E):
                event, _ = event_of(Noise.laplace, query(rows), **price)
                values.append(int(event.value[0]))
            grid = np.rint(np.linspace(-8, 8, 401) * event.scale)
            one, two = (lattice_law("laplace", event.scale, grid - v) for v in values)
            losses[claimed].append(np.abs(np.log(one / two)).max())
    honest, sold_twice = losses.values()
    assert max(honest) <= epsilon * (1 + 1e-9) and max(honest) > 0.999 * epsilon
    assert max(sold_twice) > 1.9 * epsilon


def test_gaussian_noise_hides_the_largest_movement_and_no_larger_one():
    """Definition 2.7 by brute force: the movement over the deviation is mu on the worst pair, and never more."""
    query = lambda D: np.array([D.sum(), (D**2).sum()])  # noqa: E731
    pairs, mu = all_pairs(), 0.6
    sensitivity = audit.brute_force_sensitivity(query, pairs)
    assert sensitivity == math.hypot(2, 4)  # from 0 to 2; from -1 to 2 it is (3, 3)
    moved = []
    for _, D, E in pairs:
        values = []
        for rows in (D, E):
            event, _ = event_of(Noise.gaussian, query(rows), sensitivity=sensitivity, mu=mu)
            values.append(event.value)
        moved.append(np.linalg.norm(values[0] - values[1]) / event.scale)
    assert 0.999 * mu < max(moved) <= mu


@BOTH
def test_a_histogram_with_gaussian_noise_is_gdp(neighboring):
    """Theorem II.1 for votes: the exact law of rounded noise, on neighbours, under the curve for every epsilon, and near it."""
    rows, mu = np.array([0, 1, 1]), 0.5
    other = np.append(rows, 0) if neighboring == "add_remove" else np.array([0, 0, 1])
    values = []
    for votes in (rows, other):
        event, _ = event_of(Noise.histogram, votes, 2, mu=mu, neighboring=neighboring)
        values.append(event.value)
    moved = np.linalg.norm(values[0] - values[1])
    assert moved == event.sensitivity == (1 if neighboring == "add_remove" else math.sqrt(2))
    assert event.scale == pytest.approx(moved / mu, rel=1e-12)
    grid = np.arange(-40, 45)
    p, q = (
        np.outer(*(lattice_law("gaussian", event.scale, grid - v) for v in value))
        for value in values
    )
    for epsilon in (0.0, 0.1, 0.5, 1.0):
        delta = gaussian_delta(epsilon, mu)
        assert 0.9 * delta < stick(p, q, epsilon) <= delta * (1 + 1e-9)
        assert stick(p, q, epsilon) > gaussian_delta(
            epsilon, 0.9 * mu
        )  # a tenth less is too little


@pytest.mark.parametrize("mu", [0.05, 0.7, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 2.0])
def test_gaussian_delta_is_what_tells_two_normals_apart(epsilon, mu):
    """Definition II.3 and Theorem II.3, by quadrature and by every threshold test."""
    density = stats.norm.pdf
    gain = lambda x: max(density(x - mu) - math.exp(epsilon) * density(x), 0.0)  # noqa: E731
    cut = mu / 2 + epsilon / mu  # from here on the first is larger
    area = integrate.quad(gain, cut, max(cut, mu) + 12, epsabs=0, epsrel=1e-12, limit=200)[0]
    assert gaussian_delta(epsilon, mu) == pytest.approx(area, rel=1e-8)
    t = np.linspace(-6, mu + 9, 3001)
    type_one, power = stats.norm.sf(t), stats.norm.sf(t - mu)
    excess = power - math.exp(epsilon) * type_one
    assert excess.max() <= gaussian_delta(epsilon, mu) * (1 + 1e-9)
    assert excess.max() > 0.99 * gaussian_delta(epsilon, mu) or cut > t[-1]


def test_the_textbook_gaussian_keeps_its_claim_below_one_and_not_far_above():
    """Theorem 2.8 and Lemma 5.2: sigma = sqrt(2 ln(1.25 / delta)) / epsilon delivers delta for epsilon < 1."""
    for epsilon, delta in itertools.product(
        (1e-3, 0.01, 0.1, 0.5, 0.9, 0.999), (1e-15, 1e-9, 1e-5, 1e-2, 0.3, 0.99)
    ):
        mu = classical_gaussian_mu(epsilon, delta)
        with mpmath.workdps(30):
            sigma = mpmath.sqrt(2 * mpmath.log(mpmath.mpf(1.25) / delta)) / epsilon
        assert mu * float(sigma) == pytest.approx(1, rel=1e-12)
        assert gaussian_delta(epsilon, mu) <= delta
        assert mu <= gaussian_mu(epsilon, delta)
    assert gaussian_delta(30.0, classical_gaussian_mu(30.0, 1e-6)) > 1e-3  # the condition is needed


def test_a_secret_sample_is_as_private_as_its_theorem_says_and_no_less():
    """Lemma 2.10: every subset of n rows, a worst algorithm with a delta of its own; and the paper's form follows."""
    n, m = 5, 2
    for inner, delta in ((0.5, 0.0), (1.0, 0.02), (3.0, 0.1)):
        right, wrong = (1 - delta) * special.expit(inner), (1 - delta) * special.expit(-inner)
        P, Q = np.array([delta, right, wrong, 0.0]), np.array([0.0, wrong, right, delta])
        assert stick(P, Q, inner) == pytest.approx(delta, abs=1e-15)
        with_row, without = (
            np.mean([law if 0 in I else Q for I in itertools.combinations(range(n), m)], axis=0)
            for law in (P, Q)
        )
        outer, small = subsampled(inner, delta, m, n)
        for p, q in ((with_row, without), (without, with_row)):
            assert stick(p, q, outer) <= small + 1e-15
        assert stick(with_row, without, outer) == pytest.approx(small, abs=1e-12)
        assert stick(with_row, without, 0.99 * outer) > small + 1e-4
    for inner, epsilon, m in itertools.product((0.1, 1.0, 4.0), (0.05, 0.5, 1.0), (1, 7)):
        n = math.ceil(m / epsilon * (3 + math.exp(inner)))
        outer, small = subsampled(inner, 1e-6, m, n)
        assert outer <= epsilon and small == pytest.approx(m / n * 1e-6)


def test_renyi_divergences_stay_below_rho_alpha():
    """Definition 3.2: quadrature for normals (equality), the exact lattice law for pure noise, a coin; and what a rho buys."""
    for alpha in (1.01, 1.5, 2.0, 8.0, 40.0):
        mu = 0.8
        rho = Release("r", "gaussian", mu=mu).rho
        density = lambda x, a=alpha, m=mu: math.exp(  # noqa: E731
            a * stats.norm.logpdf(x, m) + (1 - a) * stats.norm.logpdf(x)
        )
        middle = alpha * mu
        moment = integrate.quad(density, middle - 12, middle + 12, epsrel=1e-12)[0]
        assert math.log(moment) / (alpha - 1) == pytest.approx(rho * alpha, rel=1e-7)
        for epsilon in (0.1, 1.0, 3.0):
            rho = Release("r", "laplace", epsilon=epsilon).rho
            grid = np.arange(-400, 401)
            p, q = (lattice_law("laplace", 1 / epsilon, grid - v) for v in (0, 1))
            coin = np.array([special.expit(epsilon), special.expit(-epsilon)])
            for one, two in ((p, q), (coin, coin[::-1])):
                keep = (one > 0) & (two > 0)
                logs = alpha * np.log(one[keep]) + (1 - alpha) * np.log(two[keep])
                found = special.logsumexp(logs) / (alpha - 1)
                assert found <= rho * alpha * (1 + 1e-9)
                assert alpha > 2 or epsilon > 0.1 or found > 0.9 * rho * alpha
    for rho, delta in itertools.product((0.02, 0.5, 3.0), (1e-9, 1e-3)):
        epsilon = zcdp_epsilon(rho, delta)  # the curve holds for the Gaussian, which has this rho
        assert gaussian_delta(epsilon, math.sqrt(2 * rho)) <= delta
        assert gaussian_delta(0.5 * epsilon, math.sqrt(2 * rho)) > delta


# ---------------------------------------------------------------- bounds of the foundation


@pytest.mark.parametrize("distortion", [0.1, 0.3, 0.7, 0.95])
def test_a_projection_fails_more_rarely_than_its_bound(distortion):
    """The squared length after a Gaussian projection is chi-square: the exact chance, and the function's rows have that law."""
    for k in (1, 5, 40, 400):
        tails = stats.chi2.cdf(k * (1 - distortion), k) + stats.chi2.sf(k * (1 + distortion), k)
        assert tails <= jl_failure(k, distortion)
    k = math.ceil(60 / distortion**2)
    claimed, true = math.log(jl_failure(k, distortion)), stats.chi2.logsf(k * (1 + distortion), k)
    assert true <= claimed < 0.35 * true  # the exponent is of the right order
    rng, x = np.random.default_rng(1), np.array([3.0, -4.0])
    lengths = [np.sum((x @ gaussian_projection(2, 5, rng)) ** 2) / 25 * 5 for _ in range(2000)]
    assert stats.kstest(lengths, stats.chi2(5).cdf).pvalue > 1e-4  # false-alarm rate 1e-4


@pytest.mark.parametrize("d", [1, 6])
def test_a_noisy_mean_is_as_near_as_its_bound_says(d):
    """Equation (2) of the chapter on Lloyd: 2000 noisy means of one cluster; wrong more often than beta by chance once in 10^5."""
    rows, mu, beta = np.full((300, d), 0.9 / math.sqrt(d)), 0.5, 0.05
    bound = center_error_bound(len(rows), d, 1.0, mu, beta)
    draws = [Noise(s).mean(rows, radius=1.0, mu=mu) for s in range(2000)]
    errors = np.linalg.norm(np.array(draws) - rows[0], axis=1)
    assert stats.binomtest(int((errors > bound).sum()), 2000, beta, "greater").pvalue > 1e-5
    assert np.quantile(errors, 1 - beta) > 0.2 * bound  # and it is no idle bound
    assert center_error_bound(3, d, 1.0, 0.1, beta) == math.inf


# ---------------------------------------------------------------- max cover


@pytest.mark.parametrize(("d", "ratio"), [(1, 1.0), (2, 0.5), (2, 1.0), (3, 1.0), (3, 2.0)])
def test_every_node_that_covers_a_point_is_in_the_stencil_of_its_corner(d, ratio):
    """Lemma 7 by brute force over all nodes around random points; Lemma 8's count of them."""
    rng, unit = np.random.default_rng(d), 0.3
    reach = unit * math.sqrt(d) * (1 + 1 / ratio)  # r + t sqrt(d), with t = ratio r / sqrt(d)
    offsets = set(map(tuple, mc.stencil(d, ratio, snap=False).tolist()))
    high, used = math.ceil(reach / unit) + 1, set()
    nodes = np.array(list(itertools.product(range(-high, high + 2), repeat=d)))
    for p in rng.uniform(0, unit, size=(400, d)):  # the corner below is 0
        near = np.sum((nodes * unit - p) ** 2, axis=1) < reach**2 * (1 - 1e-12)
        used |= set(map(tuple, nodes[near].tolist()))
    assert used <= offsets and len(used) > 0.75 * len(offsets)
    D = math.floor(d * (1 + 1 / ratio) ** 2)
    assert len(offsets) <= 2**d * math.comb(D + d, d)


def choices_of_a_level(points, radius, n_picks, exponent, script):
    """Probability that `grid_set_cover` makes these choices, by its own counts; it is told what to choose."""
    chance, left = [1.0], list(script)

    def choose(grid):
        seen = grid.coverage()
        counts = np.zeros(grid.size)
        counts[seen.keys] = seen.counts
        key = left.pop(0)
        chance[0] *= special.softmax(exponent * counts)[key]
        return key

    mc.grid_set_cover(points, radius, n_picks, choose)
    return chance[0]


def test_the_choices_of_a_level_cost_what_lemma_17_says():
    """Every sequence of three choices from seven nodes, with and without a row: under the curve (1), and under the printed price."""
    points, radius, worst = np.array([[-0.6], [0.1], [0.2], [0.55], [1.0]]), 0.5, 0.0
    size = mc.GridCover(points, radius).size
    scripts = list(itertools.product(range(size), repeat=3))
    for row, exponent in ((0, 0.5), (4, 1.5)):
        with_row, without = (
            np.array([choices_of_a_level(rows, radius, 3, exponent, s) for s in scripts])
            for rows in (points, np.delete(points, row, axis=0))
        )
        assert with_row.sum() == pytest.approx(1) and without.sum() == pytest.approx(1)
        assert np.log(with_row / without).max() <= exponent + 1e-12
        for share in (0.0, 0.3, 0.6, 0.9):
            delta = cover_delta(share * exponent, exponent)
            for p, q in ((with_row, without), (without, with_row)):
                assert stick(p, q, share * exponent) <= delta * (1 + 1e-12)
                worst = max(worst, stick(p, q, share * exponent) / delta)
    assert worst > 0.5
    for epsilon, delta in ((0.5, 1e-2), (2.0, 0.05)):
        exponent = mc.paper_exponent(epsilon, delta)
        # epsilon = (e / 2) epsilon_E ln(1 / delta_E), and e' = epsilon_E / 2
        assert math.e / 2 * (2 * exponent) * math.log(1 / delta) == pytest.approx(epsilon)
        laws = [
            np.array(
                [choices_of_a_level(rows, radius, 2, exponent, s) for s in scripts[:: size**0]]
            )
            for rows in ()
        ]
        assert not laws and cover_delta(epsilon, exponent) <= delta


def line_by_line(X, model):
    """Algorithm 1 as printed, followed from what passed through the door: (events, candidates, heads, means released)."""
    seen, honest = {}, (mc.max_cover, mc.cluster_candidates)

    def covers(*args, **named):
        seen["points"], seen["radii"], seen["candidates"] = (
            args[0],
            args[1],
            honest[0](*args, **named),
        )
        return seen["candidates"]

    def lloyd(*args):
        seen["weights"], seen["heads"] = args[1], honest[1](*args)
        return seen["heads"]

    with mock.patch.multiple(mc, max_cover=covers, cluster_candidates=lloyd):
        fitted, events = through_the_door(lambda: model.fit(X))
    return fitted, events, seen


def test_algorithm_1_is_what_is_printed():
    """Lines in order: points of the unit ball, the ladder from 1 / n, k' picks a level, Lap(1 / epsilon_L) on exact counts, NoisyAVG of each cluster of all rows."""
    rng, k, n, radius = np.random.default_rng(0), 3, 400, 4.0
    X = (
        rng.normal(size=(n, 2)) * 0.3
        + np.array([[2, 0], [-2, 1], [0, -2]])[rng.integers(3, size=n)]
    )
    model = MaxCoverKMeans(
        k, epsilon=60.0, delta=1e-3, radius=radius, variant="paper", n_public=n, ratio=0.9,
        n_components=2, random_state=0,
    )  # fmt: skip
    with pytest.warns(UserWarning):
        fitted, events, seen = line_by_line(X, model)
    assert np.allclose(seen["points"], X / radius / (1 + 0.9), atol=1e-5)  # step 1
    assert np.allclose(seen["radii"][0], 1 / n) and np.allclose(
        seen["radii"][1:] / seen["radii"][:-1], 1.9
    )
    picks = [e for e in events if e.mechanism == "cover"]
    assert (
        len(picks)
        == len(seen["candidates"])
        == k * math.ceil(math.log(1 / 0.9)) * math.ceil(math.log(2 * n, 1.9))
    )
    (weights,) = [e for e in events if e.label == "weights"]  # step 3
    owner = cdist(seen["points"], seen["candidates"]).argmin(axis=1)
    assert weights.value.sum() == n
    assert (
        np.abs(weights.value - np.bincount(owner, minlength=len(weights.value))).sum() <= 4
    )  # ties
    assert np.array_equal(seen["weights"], np.maximum(weights.outcome, 0))
    prices = {r.label: r for r in fitted.spent_.releases}
    assert weights.scale == pytest.approx(1 / prices["weights"].epsilon)
    averages = [e for e in events if e.branch]  # step 4: a count and a mean for each cluster
    groups = nearest(seen["points"], seen["heads"], radius=1.0)
    counts = [int(e.value) for e in averages if e.mechanism == "laplace"]
    assert counts == np.bincount(groups, minlength=k).tolist() and min(counts) > 50
    for j, event in enumerate(e for e in averages if e.mechanism == "gaussian"):
        released = np.asarray(event.outcome) * event.step
        mean = X[groups == j].mean(axis=0)
        assert np.allclose(fitted.cluster_centers_[j], released, atol=1e-9)
        assert np.linalg.norm(np.asarray(event.value) * event.step - mean) < 1e-4
    # Theorem 15: with these clusters a noisy centre adds n_j |noise|^2 and nothing else
    means = np.array([X[groups == j].mean(axis=0) for j in range(k)])
    inside = sum(((X[groups == j] - means[j]) ** 2).sum() for j in range(k))
    added = sum(
        c * ((m - f) ** 2).sum()
        for c, m, f in zip(counts, means, fitted.cluster_centers_, strict=True)
    )
    assert kmeans_loss(X, fitted.cluster_centers_) * n <= (inside + added) * (1 + 1e-9)
    with_clusters = sum(
        ((X[groups == j] - fitted.cluster_centers_[j]) ** 2).sum() for j in range(k)
    )
    assert with_clusters == pytest.approx(inside + added, rel=1e-9) and added > 0


def test_a_clustering_costs_by_its_pairs_what_the_projection_keeps():
    """Theorem 15's other half: the cost of a clustering changes by a factor within those of its pairs' squared distances."""
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(60, 12)) / 9, rng.integers(3, size=60)
    low = mc.project(X, gaussian_projection(12, 4, rng), radius=1.0, divisor=2.0)
    low *= 2.0  # undo the scaling
    cost = lambda Z: sum(  # noqa: E731
        ((Z[groups == j] - Z[groups == j].mean(axis=0)) ** 2).sum() for j in range(3)
    )
    same = (groups[:, None] == groups) & ~np.eye(60, dtype=bool)
    ratios = (cdist(low, low) ** 2)[same] / (cdist(X, X) ** 2)[same]
    assert ratios.min() <= cost(low) / cost(X) <= ratios.max() and ratios.max() > 1.5 * ratios.min()
    pairs = sum(
        (cdist(X[groups == j], X[groups == j]) ** 2).sum() / (2 * (groups == j).sum())
        for j in range(3)
    )
    assert pairs == pytest.approx(cost(X))


def test_the_printed_prices_of_algorithm_1_add_up_to_its_theorem():
    """Theorem 16: (e / 2) epsilon_E ln(1 / delta_E) + epsilon_L + epsilon_G and delta_E + delta_G; and the lines of the default are those of the mixture."""
    for epsilon, delta in ((0.5, 1e-6), (2.0, 1e-4)):
        how = {"epsilon": epsilon, "delta": delta, "radius": 4.0, "random_state": 0}
        spent = MaxCoverKMeans(2, variant="paper", n_public=60, **how).fit(np.ones((9, 2))).spent_
        lines = {r.mechanism: r for r in spent.releases}
        covers = math.e * lines["cover"].exponent * math.log(2 / delta)
        average = lines["noisy_avg"]
        assert covers + lines["laplace"].epsilon + average.epsilon == pytest.approx(epsilon)
        assert average.delta == pytest.approx(delta / 2) and set(lines) == {
            "cover",
            "laplace",
            "noisy_avg",
        }
        assert spent.epsilon <= epsilon and spent.delta_at(epsilon) <= delta
        model = MaxCoverKMeans(2, finest=0.2, **how).fit(np.ones((9, 2)))
        bought = {r.label: r for r in model.spent_.releases}
        planned = mc.max_cover_releases(1.0, epsilon, delta, model.shares)
        stretch = [(bought[r.label].mu or bought[r.label].epsilon or bought[r.label].exponent)
                   / (r.mu or r.epsilon or r.exponent) for r in planned]  # fmt: skip
        assert max(stretch) == pytest.approx(min(stretch), rel=1e-9) and min(stretch) > 1
        assert len(planned) == len(bought)


def test_the_additive_error_of_max_cover_does_not_grow_with_the_rows():
    """Theorem 1 where the best cost is 0: rows on k points, delta = n^-1.5; the whole cost stays below its two terms while n grows 64-fold."""
    places, costs, k = np.array([[0.7, 0.0], [-0.5, 0.5], [0.0, -0.7], [0.4, 0.8]]), [], 4
    for n in (1000, 8000, 64_000):
        X, delta, found = np.resize(places, (n, 2)), n**-1.5, []
        for seed in range(3):
            model = MaxCoverKMeans(k, epsilon=1.0, delta=delta, radius=1.0, random_state=seed)
            found.append(kmeans_loss(X, model.fit(X).cluster_centers_) * n)
        log = math.log(1 / delta)
        bound = k * 2.0**2 * math.log(n) ** 2 * log + 2.0**2 * k * math.sqrt(2 * log)
        costs.append(np.mean(found))
        assert max(found) < bound
    assert costs[-1] < 4 * costs[0] + 20  # one centre for all would cost 64 times as much
    assert 64_000 * np.var(places, axis=0).sum() > bound
