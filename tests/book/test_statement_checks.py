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
    adaptation,
    audit,
    datasets,
    geometry,
    k_tuples,
    max_cover,
    private_evolution,
    source_target,
)
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
from dplit.adaptation import Sample, loss_bound
from dplit.datasets import kmeans_loss
from dplit.estimators import center_error_bound
from dplit.geometry import gaussian_projection, jl_failure, nearest, uniform_in_ball
from dplit.inputs import quantize
from dplit.inputs.checks import check_neighboring
from dplit.inputs.lattice import lattice
from dplit.k_tuples import averages as k_tuples_averages
from dplit.k_tuples import clusterer, noisy_centers
from dplit.k_tuples import paper as kt
from dplit.max_cover import paper as max_cover_paper
from dplit.mechanisms import Noise, gauge, lattice_distribution, watch
from dplit.private_evolution import paper as pe

pytestmark = pytest.mark.filterwarnings("ignore::dplit.inputs.PrivacyWarning")
BOTH = pytest.mark.parametrize("neighboring", ["add_remove", "replace"])


def through_noise(run, hand_out=lambda event: event.outcome):
    """What `run()` returns, and all events; `hand_out` decides the outcomes."""
    events = []

    def look(event):
        events.append(event)
        return hand_out(event)

    with watch(look):
        return run(), events


def event_of(query, *args, neighboring="add_remove", **cost):
    """The one event of a query of a door, such as `Noise.count`, and the door."""
    found = []

    def run():
        found.append(Noise(0, neighboring=neighboring))
        query(found[0], *args, **cost)

    _, (event,) = through_noise(run)
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
def test_a_receipt_bounds_every_event_on_every_pair_of_neighbors(neighboring):
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
                one, two = (lattice_distribution("laplace", scale, grid - v) for v in event.value)
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
            cost, values = {"sensitivity": claimed, "epsilon": epsilon}, []
            for rows in (D, E):
                event, _ = event_of(Noise.laplace, query(rows), **cost)
                values.append(int(event.value[0]))
            grid = np.rint(np.linspace(-8, 8, 401) * event.scale)
            one, two = (lattice_distribution("laplace", event.scale, grid - v) for v in values)
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
        np.outer(*(lattice_distribution("gaussian", event.scale, grid - v) for v in value))
        for value in values
    )
    for epsilon in (0.0, 0.1, 0.5, 1.0):
        delta = gaussian_delta(epsilon, mu)
        assert 0.9 * delta < stick(p, q, epsilon) <= delta * (1 + 1e-9)
        # a tenth less is too little
        assert stick(p, q, epsilon) > gaussian_delta(epsilon, 0.9 * mu)


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
            p, q = (lattice_distribution("laplace", 1 / epsilon, grid - v) for v in (0, 1))
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
    offsets = set(map(tuple, max_cover.stencil(d, ratio, snap=False).tolist()))
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

    max_cover.grid_set_cover(points, radius, n_picks, choose)
    return chance[0]


def test_the_choices_of_a_level_cost_what_lemma_17_says():
    """Every sequence of three choices from seven nodes, with and without a row: under the curve (1), and under the printed price."""
    points, radius, worst = np.array([[-0.6], [0.1], [0.2], [0.55], [1.0]]), 0.5, 0.0
    size = max_cover.GridCover(points, radius).size
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
        exponent = max_cover.paper_exponent(epsilon, delta)
        # epsilon = (e / 2) epsilon_E ln(1 / delta_E), and e' = epsilon_E / 2
        assert math.e / 2 * (2 * exponent) * math.log(1 / delta) == pytest.approx(epsilon)
        assert cover_delta(epsilon, exponent) <= delta


def line_by_line(X, model):
    """Algorithm 1 as published, followed from what passed through the `Noise` interface: (events, candidates, heads, means released)."""
    seen, honest = {}, (max_cover.max_cover, max_cover.cluster_candidates)

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

    with mock.patch.multiple(max_cover_paper, max_cover=covers, cluster_candidates=lloyd):
        fitted, events = through_noise(partial(model.fit, X))
    return fitted, events, seen


def test_algorithm_1_is_what_is_printed():
    """Lines in order: points of the unit ball, the ladder from 1 / n, k' picks a level, Lap(1 / epsilon_L) on exact counts, NoisyAVG of each cluster of all rows."""
    rng, k, n, radius = np.random.default_rng(0), 3, 3000, 4.0
    X = (
        rng.normal(size=(n, 2)) * 0.3
        + np.array([[2, 0], [-2, 1], [0, -2]])[rng.integers(3, size=n)]
    )
    model = MaxCoverKMeans(
        k, epsilon=8.0, delta=1e-3, radius=radius, variant="paper", n_public=n, ratio=0.9,
        n_components=2, random_state=0,
    )  # fmt: skip
    fitted, events, seen = line_by_line(X, model)
    assert np.allclose(seen["points"], X / radius / (1 + 0.9), atol=1e-5)  # step 1
    assert np.allclose(seen["radii"][0], 1 / n) and np.allclose(
        seen["radii"][1:] / seen["radii"][:-1], 1.9
    )
    picks = [e for e in events if e.mechanism == "cover"]
    assert (
        len(picks)
        == len(seen["candidates"])
        == max(k, math.ceil(k * math.log(2))) * math.ceil(math.log(2 * n, 1.9))
    )
    (weights,) = [e for e in events if e.label == "weights"]  # step 3
    owner = cdist(seen["points"], seen["candidates"]).argmin(axis=1)
    assert weights.value.sum() == n
    # ties
    assert np.abs(weights.value - np.bincount(owner, minlength=len(weights.value))).sum() <= 4
    assert np.array_equal(seen["weights"], np.maximum(weights.outcome, 0))
    costs = {r.label: r for r in fitted.spent_.releases}
    assert weights.scale == pytest.approx(1 / costs["weights"].epsilon)
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
    projected = kmeans_loss(seen["points"], seen["heads"]) * n * (1.9 * radius) ** 2
    assert kmeans_loss(X, fitted.cluster_centers_) * n <= projected * (1 + 1e-4) + added
    with_clusters = sum(
        ((X[groups == j] - fitted.cluster_centers_[j]) ** 2).sum() for j in range(k)
    )
    assert with_clusters == pytest.approx(inside + added, rel=1e-9) and added > 0


def test_a_clustering_costs_by_its_pairs_what_the_projection_keeps():
    """Theorem 15's other half: the cost of a clustering changes by a factor within those of its pairs' squared distances."""
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(60, 12)) / 9, rng.integers(3, size=60)
    low = geometry.project(X, gaussian_projection(12, 4, rng), radius=1.0, divisor=2.0)
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


def test_the_printed_costs_of_algorithm_1_add_up_to_its_theorem():
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
        plan = partial(max_cover.max_cover_releases, 1.0, epsilon, delta, model.shares)
        planned = plan(zoom=True, counted=True)
        stretch = [(bought[r.label].mu or bought[r.label].epsilon or bought[r.label].exponent)
                   / (r.mu or r.epsilon or r.exponent) for r in planned]  # fmt: skip
        assert max(stretch) == pytest.approx(min(stretch), rel=1e-9) and min(stretch) > 1
        assert len(planned) == len(model.spent_.releases)


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
    assert costs[-1] < costs[0] + 1  # one center for all would cost 64 times as much
    assert 64_000 * np.var(places, axis=0).sum() > bound


# ---------------------------------------------------------------- easy instances: definitions

KIND = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}


def holds(X, Y, separation):
    """Definition 3.2, read directly: every ball around a point of X holds exactly one point of Y."""
    for i, x in enumerate(X):
        reach = min(math.dist(x, z) for j, z in enumerate(X) if j != i) / separation
        if sum(math.dist(x, y) <= reach for y in Y) != 1:
            return False
    return True


def far_tuples(n, separation, k=3, d=2, seed=0):
    """n tuples partitioned by exactly `separation`-far balls, their points in any order, many on the edge of a ball."""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(k) / k
    middles = (
        np.column_stack([np.cos(angle), np.sin(angle)]) if d == 2 else np.eye(max(k, d))[:k, :d]
    )
    gap = cdist(middles, middles)[0, 1:].min()
    radius = gap / separation * (1 - 1e-9)
    moves = rng.normal(size=(n, k, d))
    moves /= np.linalg.norm(moves, axis=2, keepdims=True)
    T = middles + radius * moves * rng.choice([0.3, 1.0], size=(n, k, 1))
    return np.array([t[rng.permutation(k)] for t in T])


def same_parts(one, two):
    """Whether two lists of labels cut in the same way."""
    pairs = set(zip(one.tolist(), two.tolist(), strict=True))
    return len(pairs) == len(set(one.tolist())) == len(set(two.tolist()))


@pytest.mark.parametrize(("k", "d"), [(2, 1), (3, 2), (6, 4)])
def test_balls_around_a_tuple_are_far_and_no_wider_ones_are(k, d):
    """Definition 3.1 for the radii M_i / Delta, every pair of balls."""
    T = np.random.default_rng(k).normal(size=(50, k, d)) + 5.0 * np.arange(k)[:, None]
    for X, M in zip(T, np.sqrt(kt.separations(T)), strict=True):
        gaps, others = cdist(X, X), ~np.eye(k, dtype=bool)
        assert np.allclose(M, np.where(others, gaps, np.inf).min(axis=1), rtol=1e-12)
        for separation in (2.5, 7.0):
            radii = M / separation
            far = lambda r, g=gaps, s=separation, o=others: (  # noqa: E731
                g >= s * np.maximum.outer(r, r) * (1 - 1e-12)
            )[o].all()
            assert far(radii) and not far(radii * 1.001)


def test_points_are_all_points_and_partition_does_not_depend_on_the_tuple():
    """Definitions 3.4 and 3.5: nk points, cut alike by every tuple if Delta > 4, and by two tuples differently below."""
    T = far_tuples(40, 4.1)
    points = clusterer.check_tuples(T.tolist(), "me").reshape(-1, 2)
    assert points.shape == (120, 2)
    assert Counter(map(tuple, points)) == Counter(tuple(p) for X in T for p in X)
    parts = [nearest(points, X) for X in T]
    assert all(same_parts(parts[0], other) for other in parts)
    assert np.bincount(parts[0]).tolist() == [40, 40, 40]
    for separation, unique in ((3.5, False), (3.99, False), (4.01, True)):
        # centres 0 and Delta, radius 1
        T = np.array([[-1.0, separation - 1], [1.0, separation + 1]])[:, :, None]
        parts = [nearest(T.reshape(-1, 1), X) for X in T]
        assert same_parts(*parts) == unique


SOLVERS = {
    "StableTupleMean": partial(StableTupleMean, **KIND),
    "KNoisyCenters": partial(KNoisyCenters, **KIND),
    "sampled": partial(KNoisyCenters, **KIND, variant="sampled"),
    "printed": partial(KNoisyCenters, **KIND, variant="paper", separation=2e4),
}


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(("k", "d"), [(2, 2), (3, 2)])
def test_released_centers_cut_all_points_as_the_tuples_do(name, k, d):
    """Definitions 1.2 and 3.6, the problem itself: Partition(T), whatever the order of points inside a tuple."""
    T = far_tuples(1800, 1e5 if name != "StableTupleMean" else 40.0, k, d)
    model = SOLVERS[name]().fit(T)
    points = T.reshape(-1, d)
    assert model.status_ == "released" and model.centers_.shape == (k, d)
    assert same_parts(nearest(points, T[0]), nearest(points, model.centers_))


# ---------------------------------------------------------------- easy instances: the test


def decided(passing, noisy_sum, m, tau):
    """Outcomes to hand out: which tuples pass their noisy count, and what the noisy sum is."""

    def hand_out(event):
        if event.label == "left out":
            assert event.value.shape == (m,)
            return np.where(passing, math.floor(tau / event.step), math.floor(tau / event.step) + 1)
        return np.int64(round(noisy_sum / event.step)) if event.label == "passes" else event.outcome

    return hand_out


def test_figure_1_is_what_is_printed():
    """Every line: exact counts, noise of scale m / epsilon_2 and 1 / epsilon_1, both thresholds from both sides, the first tuple that passes."""
    rng, m, cost = np.random.default_rng(0), 4, {"epsilon_1": 1.5, "epsilon_2": 0.7, "beta": 0.1}
    T1 = np.array([0.0, 70.0])[:, None] + rng.integers(-12, 13, size=(m, 2, 1))
    T2 = np.array([0.0, 70.0])[:, None] + rng.integers(-14, 15, size=(30, 2, 1))
    left_out = [sum(not holds(X, Y, 7.0) for Y in T2) for X in T1]
    assert len(set(left_out)) > 2
    tau, least = m / 0.7 * math.log(m / 0.1), m - math.log(1 / 0.1) / 1.5
    for passing, noisy_sum in itertools.product(
        ([1, 1, 1, 1], [0, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0]), (least - 1e-3, least + 1e-3)
    ):
        passing = np.array(passing, bool)
        run = lambda: kt.private_test_close_tuples(  # noqa: E731
            T1, T2, separation=7.0, noise=Noise(0), **cost
        )
        (success, first), (counts, total) = through_noise(run, decided(passing, noisy_sum, m, tau))
        assert (
            np.allclose(counts.value * counts.step, left_out)
            and total.value * total.step == passing.sum()
        )
        assert counts.scale * counts.step == pytest.approx(m / 0.7, rel=1e-4)
        assert total.scale * total.step == pytest.approx(1 / 1.5, rel=1e-4)
        assert success == (noisy_sum > least)
        assert first == (int(np.argmax(passing)) if success and passing.any() else None)


def test_figure_2_is_what_is_printed():
    """Its plan by Definition 4.1; a secret sample of m tuples against all of them; the balls of the first that passes."""
    n, m = 40, 5
    for size, epsilon, delta, beta in ((5000, 1.0, 1e-9, 0.05), (3000, 0.8, 1e-6, 0.1)):
        plan = kt.paper_plan(size, epsilon, delta, beta)
        assert (plan.m, plan.epsilon_1) == kt.paper_parameters(
            size, epsilon / 2, delta / 4, beta / 2
        )[:2]
        assert plan.epsilon_2 == epsilon / 4 and plan.beta == beta / 2
    plan = kt.PartitionPlan(m, 2.0, 0.5, 0.1, 9, 0.0, 1.0)
    T = np.array([0.0, 70.0])[:, None] + np.random.default_rng(1).integers(-14, 15, size=(n, 2, 1))
    tau, seen = m / 0.5 * math.log(m / 0.1), []
    for seed in range(30):
        door = []

        def run(seed=seed, door=door):
            door.append(Noise(seed, neighboring="replace"))
            return kt.private_test_partition(T, plan, separation=7.0, noise=door[-1])

        hand_out = decided(np.array([0, 1, 0, 1, 1], bool), m, m, tau)
        center, (sample, counts, total) = through_noise(run, hand_out)
        drawn = sample.outcome
        assert sample.mechanism == "sample" and len(set(drawn.tolist())) == m
        assert np.allclose(
            counts.value * counts.step, [sum(not holds(T[i], Y, 7.0) for Y in T) for i in drawn]
        )
        assert (counts.share, total.share) == (1.0, m / n) and np.array_equal(center, T[drawn[1]])
        (status,) = door[0].releases
        assert status.epsilon == pytest.approx(0.5 + math.log1p(m / n * math.expm1(2.0)))
        seen += drawn.tolist()
        assert through_noise(run, decided(np.zeros(m, bool), m, m, tau))[0] is None
    assert len(set(seen)) > 0.9 * n


def test_definitions_4_1_and_4_4_by_their_words():
    """The smallest m, by search over all m in 30 digits; epsilon_1 and ell from it."""
    found = 0
    for n, epsilon, delta, beta in itertools.product(
        (300, 2500, 10**5), (0.3, 1.0), (1e-4, 1e-12), (0.02, 0.3)
    ):
        with mpmath.workdps(30):
            inside = lambda m: mpmath.mpf(epsilon) * n / (2 * m) - 3  # noqa: B023, E731
            good = [
                m for m in range(1, min(n, 200))
                if inside(m) > 1 and m * mpmath.log(inside(m)) > 2 * mpmath.log(1 / mpmath.mpf(delta)) + mpmath.log(1 / mpmath.mpf(beta))
            ]  # fmt: skip
            m, epsilon_1, ell = kt.paper_parameters(n, epsilon, delta, beta)
            assert m == (good[0] if good else None)
            if good:
                found += 1
                assert epsilon_1 == pytest.approx(float(mpmath.log(inside(m))), rel=1e-12)
                assert ell == pytest.approx(
                    float(2 * m / epsilon * mpmath.log(m / (beta * delta))), rel=1e-12
                )
    assert 5 < found < 24


def test_claim_4_2_on_tuples_of_the_worst_kind():
    """Tuples on the edge of (2 Delta + 2)-far balls: the chance of success exactly, and the balls of every success partition all; at Delta-far balls they do not."""
    separation, beta = 8.0, 0.2
    n = KNoisyCenters.min_tuples(1.0, 1e-3, beta, "paper")
    plan = kt.paper_plan(n, 1.0, 1e-3, beta)
    assert (
        kt.success_probability([0] * plan.m, plan.epsilon_1, plan.epsilon_2, plan.beta)
        >= 1 - plan.beta
    )
    T, successes = far_tuples(n, 2 * separation + 2), 0
    for seed in range(60):
        center = kt.private_test_partition(T, plan, separation=separation, noise=Noise(seed))
        if center is not None:
            successes += 1
            assert kt.count_unpartitioned(center[None], T, separation)[0] == 0
    # fails with probability beta at most: fewer by chance once in 10^5
    assert stats.binom.cdf(successes, 60, 1 - plan.beta) > 1e-5
    near = far_tuples(n, separation)
    assert kt.count_unpartitioned(near[:50], near, separation).max() > 0


def test_claim_4_3_by_every_sample():
    """The exact law of the status on neighbours, all samples of two of six tuples: within the price that the receipt states."""
    n, m, separation, rng, worst = 6, 2, 7.0, np.random.default_rng(0), 0.0
    plan = kt.PartitionPlan(m, 1.2, 0.5, 0.9, 2, 0.0, 1.0)
    status = lambda T: np.mean([  # noqa: E731
        kt.success_probability(
            kt.count_unpartitioned(T[list(drawn)], T, separation), plan.epsilon_1, plan.epsilon_2, plan.beta
        )
        for drawn in itertools.combinations(range(n), m)
    ])  # fmt: skip
    door = Noise(0, neighboring="replace")
    kt.private_test_partition(far_tuples(n, 20.0), plan, separation=separation, noise=door)
    (line,) = door.releases
    cost = subsampled(plan.epsilon_1, 0.0, m, n)[0] + plan.epsilon_2
    assert line.epsilon == pytest.approx(cost)
    for _ in range(60):
        T = np.array([0.0, 70.0])[:, None] + rng.integers(-13, 14, size=(n, 2, 1))
        T[: rng.integers(n)] = [[0.0], [70.0]]
        other = T.copy()
        other[rng.integers(n)] += rng.choice([0.0, 9.0, 1e3], size=(2, 1))
        p, q = status(T), status(other)
        worst = max(worst, abs(math.log(p / q)), abs(math.log((1 - p) / (1 - q))))
    assert 0.2 * cost < worst <= cost
    # with Definition 4.1 the status is epsilon-DP
    for size, epsilon in (
        (5000, 0.5),
        (10**6, 1.0),
    ):
        m, epsilon_1, _ = kt.paper_parameters(size, epsilon, 1e-9, 0.05)
        assert subsampled(epsilon_1, 0.0, m, size)[0] <= epsilon / 2


def test_running_times_by_counting_distances():
    """Remarks 4.7, 4.10 and 4.13: m n k^2 distances for the test, k for each of nk points for the parts, none in n for the noisy centres."""
    T = far_tuples(1700, 1e5)
    n, k, _ = T.shape
    looked, wraps = [], kt.cdist

    def count(*args):
        found = wraps(*args)
        looked.append(found.size)
        return found

    with mock.patch.object(kt, "cdist", count):
        kt.count_unpartitioned(T[:9], T, 7.0)
        assert sum(looked) == 9 * n * k**2
        parts = []

        def part_of(points, center):
            parts.append(len(points) * len(center))
            return nearest(points, center)

        for make, plan_of in (
            (partial(KNoisyCenters, variant="paper"), kt.paper_plan),
            (partial(KAverages, radius=2.0, min_radius=0.01, too_few=True), kt.exact_plan),
        ):
            looked.clear()
            with mock.patch.object(k_tuples_averages, "nearest", part_of):
                make(**KIND).fit(T)
            assert sum(looked) == plan_of(n, 1.0, 1e-6, 0.05).m * n * k**2
    assert parts == [n * k * k]


# ---------------------------------------------------------------- easy instances: averages and centres


def averaged(T, chosen):
    """Fit KAverages so that its balls are around tuple `chosen`: the parts that it averages, and what it thinks may move."""
    parts, moves, honest = [], [], k_tuples_averages.private_average

    def look(Q, **named):
        parts.append(Q)
        moves.append(named["moves"])
        return honest(Q, **named)

    def hand_out(event):
        if event.mechanism == "sample":
            others = np.delete(np.arange(len(T)), chosen)
            return np.r_[chosen, others[: len(event.outcome) - 1]]
        if event.label == "left out":
            return np.r_[-(2**40), np.full(len(event.value) - 1, 2**40)]
        return np.int64(2**40) if event.label == "passes" else event.outcome

    model = KAverages(**KIND, radius=128.0, min_radius=1.0, too_few=True)
    with mock.patch.object(k_tuples_averages, "private_average", look):
        through_noise(partial(model.fit, T), hand_out)
    return parts, moves[0]


def test_one_tuple_moves_no_more_points_than_theorem_4_9_pays_for_and_reaches_that():
    """ell tuples that neither tuple's balls hold, at the border of both partitions; the changed tuple is the one the balls are around."""
    n = KAverages.min_tuples(1.0, 1e-6, 0.05)
    ell = kt.exact_plan(n, 1.0, 1e-6, 0.05).ell
    T = np.repeat(np.array([[[6.0], [76.0]]]), n, axis=0)
    T[:ell] = [[40.0], [42.0]]  # right of 35, the border of (0, 70); left of 47, that of (12, 82)
    other = T.copy()
    T[-1], other[-1] = [[0.0], [70.0]], [[12.0], [82.0]]
    assert kt.count_unpartitioned(np.array([T[-1], other[-1]]), T[:-1], 7.0).tolist() == [ell, ell]
    (one, moves), (two, _) = averaged(T, n - 1), averaged(other, n - 1)
    one, two = (sorted(parts, key=np.median) for parts in (one, two))
    assert sorted(np.concatenate(one).ravel()) == sorted(T.ravel())  # the parts hold all points
    lost = [
        (Counter(a.ravel().tolist()) - Counter(b.ravel().tolist())).total()
        for a, b in zip(one, two, strict=True)
    ]
    assert sum(lost) == moves == 2 * (ell + 1)


@pytest.mark.parametrize("d", [1, 3])
def test_an_average_is_as_near_as_proposition_2_9_says_once_there_are_enough_points(d):
    """Error over max(r, r_min) d^1.5 moves / (epsilon q) is below one constant while the spread grows a hundredfold, and the sum's noise aside nothing else matters; far fewer points fail."""
    rng, cost = np.random.default_rng(d), {"moves": 3, "epsilon": 1.5, "mu": 2.0, "beta": 0.05}
    ball, small, ratios, failed = {"radius": 64.0, "min_radius": 0.05}, 0.05, [], []
    enough = k_tuples_averages.average_tuples(
        1, d, cost["moves"], cost["epsilon"], *ball.values(), cost["beta"]
    )
    for r in (0.005, 0.05, 0.5, 5.0):
        middle = rng.uniform(-50, 50, size=d) / math.sqrt(d)
        for seed in range(15):
            Q = middle + uniform_in_ball(2 * enough, d, r, rng=seed)
            error = np.linalg.norm(
                k_tuples_averages.private_average(Q, noise=Noise(seed), **ball, **cost)
                - Q.mean(axis=0)
            )
            ratios.append(
                error * cost["epsilon"] * len(Q) / (max(r, small) * d**1.5 * cost["moves"])
            )
            few = Q[: max(1, enough // 40)]
            away = k_tuples_averages.private_average(
                few, noise=Noise(seed), **ball, **cost
            ) - few.mean(axis=0)
            failed.append(np.linalg.norm(away) > 10 * max(r, small))
    logs = math.log(d * 64 / (small * cost["beta"]))
    assert np.quantile(ratios, 0.95) < 8 * logs and np.mean(failed) > 0.5
    assert max(ratios) < 16 * logs


@pytest.mark.parametrize("d", [2, 40])
def test_printed_centers_are_nearest_to_their_own(d):
    """Theorem 4.11 with KNoisyCenters itself: 25 fits at the printed separation, each fails with probability 0.05 at most; at a fiftieth of it most fail."""
    n, k, beta = KNoisyCenters.min_tuples(1.0, 1e-6, 0.05, "paper"), 2, 0.05
    separation = noisy_centers.published_separation(k, 1.0, 1e-6, beta)
    kept, chosen, honest = {}, [], kt.private_test_partition

    def look(*args, **named):
        chosen.append(honest(*args, **named))
        return chosen[-1]

    for share in (1.0, 0.02):
        T = far_tuples(n, 2 * separation + 2, k, d)
        good = []
        for seed in range(25):
            model = KNoisyCenters(
                epsilon=1.0, delta=1e-6, beta=beta, variant="paper", separation=share * separation, random_state=seed
            )  # fmt: skip
            with mock.patch.object(noisy_centers, "private_test_partition", look):
                released = model.fit(T).centers_
            own = None if released is None else cdist(released, chosen[-1]).argmin(axis=1)
            good.append(own is not None and len(set(own.tolist())) == k)
        kept[share] = sum(good)
    assert stats.binom.cdf(kept[1.0], 25, 1 - beta) > 1e-5  # false alarm once in 10^5
    assert kept[0.02] < 0.8 * kept[1.0]


def test_figure_4_is_what_is_printed_and_its_noise_is_in_proportion_to_a_private_number():
    """The released centres from the recorded draws, line by line; a chosen tuple that is wider gets noise that is wider by the same factor, which nothing pays for."""
    k, separation, delta = 2, 7.0, 1e-6
    n = KNoisyCenters.min_tuples(1.0, delta, 0.05, "paper")
    C = np.array([[-3.0, 1.0, 2.0], [4.0, 1.0, -1.0]])
    model = KNoisyCenters(**KIND, variant="paper", separation=separation)
    wide, released = separation / (separation - 2), []
    for stretch in (1.0, wide):
        T = np.repeat(stretch * C[None], n, axis=0)
        fitted, events = through_noise(partial(model.fit, T))
        released.append(fitted.centers_)
    draws = {e.label: np.asarray(e.outcome) * e.step for e in events}
    gamma = 4 / (separation - 2) * (draws["gamma"] + 4 * k * math.log(4 * k / delta) + 1)
    lam = 2 / separation * (1 + gamma) * np.linalg.norm(C[0] - C[1])
    sigma = 4 * k * lam * math.sqrt(2 * math.log(10 * k / delta))
    scales = {e.label: e.scale * e.step for e in events}
    assert scales["gamma"] == pytest.approx(4 * k, rel=1e-3) and scales["z"] == pytest.approx(
        1, rel=1e-3
    )
    by_hand = [order + sigma[:, None] * draws["z"] for order in (C, C[::-1])]
    by_hand = [c[np.lexsort(c.T[::-1])] for c in by_hand]
    assert any(np.allclose(released[0], c, rtol=1e-9) for c in by_hand)
    assert np.allclose(released[1], wide * released[0], rtol=1e-9)
    # Theorem 4.12 budgets epsilon / (4 k) for a scale that moves by this factor
    assert noisy_centers.published_loss(k, 1.0, delta, separation) > 50 / (4 * k)
    assert noisy_centers.published_loss(k, 1.0, delta, 1e6) < 1.01 / (4 * k)


def test_stable_data_are_clustered_and_data_without_clusters_are_not():
    """Section 1.2 with KTupleKMeans: near the best cost where every part shows the same clusters, abstaining on one cloud."""
    made = datasets.make_separated_gaussians(12_000, 4, 3, distance=20.0, random_state=0)
    make = partial(KTupleKMeans, epsilon=2.0, delta=1e-5, radius=made.radius, random_state=0)
    model = make(4).fit(made.data)
    best = KMeans(4, n_init=4, random_state=0).fit(made.data).cluster_centers_
    ours, least = (kmeans_loss(made.data, c) for c in (model.cluster_centers_, best))
    assert model.status_ == "released" and ours < 1.05 * least
    assert make(4).fit(np.random.default_rng(0).normal(size=(9000, 3))).status_ == "abstained"


@pytest.mark.parametrize("separation", [10.0, 20.0])
def test_the_stable_mean_hands_on_a_set_and_no_order(separation):
    """The order of the released points is one of their own values: that of the tuple it came from would be a second, unpaid release."""
    T = far_tuples(700, 60.0)
    mu, eta = gaussian_mu(2.0, 1e-5), 1e-5
    how = {"separation": separation, "outliers": 0.1, "mu": mu, "eta": eta, "beta": 0.05}
    for seed in range(12):
        centers = k_tuples.stable_tuple_mean(T, noise=Noise(seed, neighboring="replace"), **how)
        assert np.array_equal(centers, centers[np.lexsort(centers.T[::-1])])


# ---------------------------------------------------------------- private evolution


@pytest.mark.parametrize("n_elite", [0, 4])
def test_algorithm_2_counts_nearest_members_and_keeps_the_largest(n_elite):
    """Without noise: every vote by brute force, and the fewest largest bins that reach the number of rows."""
    rng = np.random.default_rng(0)
    X = uniform_in_ball(400, 3, rng=rng)
    centers = uniform_in_ball(4, 3, rng=rng)
    population = np.vstack([centers, pe.variations(centers, 10, rng, step=0.2)])
    Q = private_evolution.vote_grid(X)
    grid = np.rint(population * private_evolution.grid_radius(3))
    votes = np.bincount(cdist(Q, grid).argmin(axis=1), minlength=len(population))
    for total in (1, 120, 399, 400, 10**6):
        with silent():
            found = pe.dp_nn_histogram(
                Q, population, mu=1.0, n_total=total, noise=Noise(0), n_elite=n_elite
            )
        falling = np.sort(votes)[::-1]
        reached = np.flatnonzero(np.cumsum(falling) >= total)
        kept = reached[0] + 1 if len(reached) else np.count_nonzero(votes)
        assert np.array_equal(found[found > 0], votes[found > 0])
        assert np.array_equal(np.sort(found)[::-1][:kept], falling[:kept])
        assert np.count_nonzero(found) == np.count_nonzero(falling[:kept])


def test_algorithm_1_of_private_evolution_is_what_is_printed():
    """Round by round: the votes of the population, the halving rule, selection by weighted k-means, centres kept with their mutants."""
    Q, k, L, T, mu = private_evolution.vote_grid(uniform_in_ball(300, 2, rng=0)), 3, 16, 6, 0.03
    votes, chosen, children = [], [], []
    honest = pe.dp_nn_histogram, pe.select, pe.variations

    def vote(Q, population, **named):
        votes.append((population, named, honest[0](Q, population, **named)))
        return votes[-1][2]

    def select(population, weights, n, seed, start=None):
        chosen.append((population, weights, start, honest[1](population, weights, n, seed, start)))
        return chosen[-1][3]

    def vary(centers, n_each, rng, **named):
        children.append((centers, n_each, honest[2](centers, n_each, rng, **named)))
        return children[-1][2]

    with mock.patch.multiple(pe, dp_nn_histogram=vote, select=select, variations=vary):
        noise = Noise(0)
        found = pe.private_evolution(Q, k, L, T, mu=mu, n_total=300, noise=noise)
    assert len(votes) == len(chosen) == len(children) == T and noise.receipt(
        1e-6
    ).mu == pytest.approx(mu)
    assert len(votes[0][0]) == (L + 1) * k and np.linalg.norm(votes[0][0], axis=1).max() <= 1
    assert np.array_equal(found, chosen[-1][3])
    now = L
    for t, (population, named, noisy) in enumerate(votes):
        assert named["mu"] == pytest.approx(mu / math.sqrt(T))
        if t:
            assert np.array_equal(population, np.vstack([chosen[t - 1][3], children[t - 1][2]]))
        if (noisy**2).sum() < len(population) * T / mu**2:  # more noise than signal
            now = max(now // 2, 4)
        assert chosen[t][0] is population and chosen[t][1] is noisy
        assert children[t][0] is chosen[t][3] and children[t][1] == now
    assert now < L


def test_algorithm_3_averages_the_rows_of_the_projected_clusters():
    """Without noise: T - 2 rounds of votes, one release of sums and counts, and the means of the rows by their nearest projected centre."""
    X = np.repeat(np.eye(30)[:3], 100, axis=0) + 0.05 * np.random.default_rng(0).normal(
        size=(300, 30)
    )
    candidate_centers, views, honest, projected = [], [], pe.private_evolution, geometry.project

    def evolve(*args, **named):
        candidate_centers.append(honest(*args, **named))
        return candidate_centers[-1]

    def view(rows, matrix, **named):
        views.append(matrix)
        return projected(rows, matrix, **named)

    model = HDPEMeans(
        3, epsilon=4.0, delta=1e-5, radius=2.0, variant="paper", n_public=300, random_state=0
    )
    with mock.patch.multiple(pe, private_evolution=evolve, project=view):
        fitted, events = through_noise(partial(model.fit, X), lambda event: event.value)
    assert [e.label for e in events] == ["votes"] * (pe.paper_rounds(16) - 2) + ["sums and counts"]
    low = projected(X, views[0], radius=2.0)
    labels = cdist(low, candidate_centers[0]).argmin(axis=1)
    means = np.array([X[labels == j].mean(axis=0) for j in range(3)])
    assert np.allclose(fitted.cluster_centers_, means, atol=1e-4) and len(set(labels.tolist())) == 3


def test_top_k_loses_a_group_that_split_its_votes_and_selection_keeps_it():
    """Section IV-B: 120 votes on one place, split among forty, against two lonely members with 20 each."""
    rng = np.random.default_rng(0)
    population = np.vstack([rng.normal(size=(40, 2)) / 50 + [0.7, 0], [[-0.7, 0]], [[-0.6, 0.1]]])
    votes = np.r_[np.full(40, 3.0), 20.0, 20.0]
    top = population[np.argsort(-votes)[:2]]
    found = pe.select(population, votes, 2, 0)
    lost = [np.linalg.norm(c - [0.7, 0], axis=1).min() for c in (top, found)]
    assert lost[0] > 1 and lost[1] < 0.05
    # false votes all over the ball, each of one hundredth: they hardly move what has votes
    population = np.vstack([population, uniform_in_ball(200, 2, rng=rng)])
    votes = np.r_[votes, np.full(200, 0.01)]
    found = pe.select(population, votes, 2, 0)
    assert np.linalg.norm(found - [0.7, 0], axis=1).min() < 0.05
    assert np.linalg.norm(found - [-0.65, 0.05], axis=1).min() < 0.05


# ---------------------------------------------------------------- source and target


def private_laws(costs, epsilon, delta):
    """The least possible chance to pay `regret` too much, whatever private algorithm chooses: (chance, by linear programming).

    `costs`: for each of two neighbours, whether each choice pays too much. Variables: the two laws of the
    choice and the larger chance; constraints: privacy of every event, both ways.
    """
    bad = np.array(costs, dtype=float)
    n = bad.shape[1]
    events = np.array(list(itertools.product((0, 1), repeat=n)))
    zero, factor = np.zeros((len(events), 1)), math.exp(epsilon)
    rows = [
        np.hstack([events, -factor * events, zero]),
        np.hstack([-factor * events, events, zero]),
    ]
    rows += [np.r_[bad[0], np.zeros(n), -1][None], np.r_[np.zeros(n), bad[1], -1][None]]
    bounds = np.r_[np.full(2 * len(events), delta), 0, 0]
    ones = np.r_[np.ones(n), np.zeros(n), 0]
    found = optimize.linprog(
        np.r_[np.zeros(2 * n), 1], np.vstack(rows), bounds,
        np.vstack([ones, np.r_[np.zeros(n), np.ones(n), 0]]), [1, 1],
    )  # fmt: skip
    return found.fun


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.1), (1.0, 0.0), (2.0, 1e-3)])
def test_no_private_choice_is_surer_than_the_lower_bounds_say(epsilon, delta):
    """Observations 4.2 and 5.8: the best private algorithm on the two neighbours of the proof, over all of them; it reaches (2)."""
    claimed = source_target.error_probability(epsilon, delta)
    cases = []
    points = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5], [-0.5, 0.0]])
    cases.append((points[[0, 0, 1, 2]], points[[3, 0]], points[[3]], 2, 1 / (2 * 2 + 4)))
    x, r = np.array([[-0.6, 0.0], [0.6, 0.0], [0.0, 0.7]]), 0.1
    partners = np.repeat(x + [0.0, -r], 20, axis=0)
    near = NoisyAverageSet(
        t=20, epsilon=1.0, radius=1.0, n_cells="all", spread=True, random_state=0
    )
    with silent():
        assert near.fit(Xs=partners, Xt=x).spread_ == pytest.approx(r, abs=1e-4)  # t(S) <= r
    cases.append((x[[0, 0, 1, 2]], np.vstack([partners, x[:1]]), partners, 2, r / (2 + 2)))
    for target, S, other, k, regret in cases:
        choices = list(itertools.combinations(range(len(target)), k))
        bad = []
        for sources in (S, other):
            costs = np.array([source_target.stc_cost(target, sources, c) for c in choices])
            bad.append(costs >= costs.min() + regret * (1 - 1e-9))
        assert np.all(bad[0] | bad[1])
        chance = private_laws(bad, epsilon, delta)
        assert chance >= claimed - 1e-9
    assert private_laws([[1, 0], [0, 1]], epsilon, delta) == pytest.approx(claimed)


def test_only_the_nearest_sources_matter():
    """Observation 5.1: equal costs for every choice, and a source that is nobody's nearest may go."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        target, S = rng.normal(size=(6, 2)), rng.normal(size=(15, 2))
        nearest_only = S[np.unique(cdist(target, S).argmin(axis=1))]
        assert np.array_equal(
            source_target.source_distance(target, S),
            source_target.source_distance(target, nearest_only),
        )
        for size in range(4):
            for c in itertools.combinations(range(6), size):
                assert source_target.stc_cost(target, S, c) == source_target.stc_cost(
                    target, nearest_only, c
                )
        fewer = np.delete(nearest_only, 0, axis=0)
        assert source_target.stc_cost(target, S, ()) < source_target.stc_cost(target, fewer, ())


@pytest.mark.parametrize("m", [3, 40])
def test_the_spread_is_the_mean_distance_to_the_t_nearest_sources(m):
    """Definition 5.4 by sorting all distances, weighted by the targets of a cell; absent sources are at the far end of the ball."""
    rng, t, radius = np.random.default_rng(m), 5, 4.0
    target, S = uniform_in_ball(30, 2, radius, rng=rng), uniform_in_ball(m, 2, radius, rng=rng)
    model = NoisyAverageSet(
        t=t, epsilon=1.0, radius=radius, n_cells="all", spread=True, random_state=0
    )
    with silent():
        found = model.fit(Xs=S, Xt=target).spread_
    far = -target / np.linalg.norm(target, axis=1, keepdims=True) * radius
    distances = np.sort(cdist(target, S), axis=1)[:, :t]
    absent = np.linalg.norm(far - target, axis=1, keepdims=True) * np.ones((1, max(t - m, 0)))
    assert found == pytest.approx(np.hstack([distances, absent]).mean(), abs=1e-4)
    with silent():
        few = NoisyAverageSet(
            t=t, epsilon=1.0, radius=radius, n_cells=4, spread=True, random_state=0
        )
        few = few.fit(Xs=S, Xt=target)
        cells = target[source_target.target_cells(target, 4)]
    weights = np.bincount(cdist(target, cells).argmin(axis=1), minlength=4) / 30
    of_cells = np.sort(cdist(cells, S), axis=1)[:, :t].mean(axis=1)
    away = cdist(target, cells).min(axis=1).mean()  # of a target from its cell
    assert m < t or few.spread_ == pytest.approx(away + weights @ of_cells, abs=1e-4)


PRICES = {
    "gaussian": {"rho": 0.5},
    "K-norm": {"epsilon": 1.0},
    "laplace": {"epsilon": 1.0, "variant": "paper"},
}


def movement(events):
    """Movement of a table between two fits, as a share of what was declared for it."""
    one, two = events
    moved = np.asarray(two.value, dtype=float) - np.asarray(one.value, dtype=float)
    if one.body:
        moved = gauge(moved, one.body).sum()
    else:
        moved = np.linalg.norm(moved.ravel(), 2 if one.mechanism == "gaussian" else 1)
    return moved / one.sensitivity


@pytest.mark.parametrize("cost", PRICES.values(), ids=PRICES)
@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("n_cells", [1, 2])
def test_one_source_moves_averages_and_spread_as_far_as_declared(n_cells, spread, cost):
    """Theorems 5.3, 5.10, 5.12 and the spread beside them, by brute force: one or two cells at an end of the ball, a source that comes; never more, and reached."""
    radius, ends, worst = 1.0, np.array([[1.0, 0.0], [0.0, 1.0], [math.sqrt(0.5)] * 2]), 0.0
    D = 2 * lattice(radius)[1]
    for t, end, m in itertools.product((1, 3), ends, (0, 1, 5)):
        target = end * np.linspace(1, 0.999, n_cells)[:, None]
        rng = np.random.default_rng(m)
        S = uniform_in_ball(m, 2, radius, rng=rng)
        for row in (end, -end, uniform_in_ball(1, 2, radius, rng=rng)[0]):
            model = NoisyAverageSet(
                t=t, radius=radius, n_cells="all", spread=spread, random_state=0, **cost
            )
            pair = [
                through_noise(partial(model.fit, Xs=rows, Xt=target))[1][0]
                for rows in (S, np.vstack([S, row]))
            ]
            worst = max(worst, movement(pair))
            assert movement(pair) <= 1 + 1e-12
            if pair[0].mechanism == "gaussian" and not spread:  # 5.12: sums, so t times (3)
                assert pair[0].sensitivity == pytest.approx(
                    t * source_target.nas_sensitivity(n_cells, t, D)
                )
                assert model.spent_.rho == pytest.approx(0.5, rel=1e-9)
    assert worst > 0.999


@pytest.mark.parametrize("cost", PRICES.values(), ids=PRICES)
@BOTH
def test_one_source_moves_sums_and_counts_as_far_as_declared(neighboring, cost):
    """Theorems 5.11 and 5.13 by brute force over rows on a coarse grid and on the edge of cells: (6) holds, and is reached."""
    cells, radius, worst = np.array([[-0.5, 0.0], [0.5, 0.0]]), 1.0, 0.0
    diagonal = math.sqrt(0.5)
    rows = [
        np.array(r)
        for r in ((0.8, 0.0), (-0.8, 0.0), (0.5, 0.3), (0.5, -0.3), (0.0, 0.0), (9.0, 9.0))
    ]
    rows += [
        cells[1] + 0.3 * diagonal,
        cells[1] - 0.3 * diagonal,
        np.full(2, diagonal),
        np.full(2, -diagonal),
        np.array([-1.0, 0.0]),
        np.array([1.0, 0.0]),
    ]
    own = {} if cost.get("variant") else {"cell_radius": 0.3, "output": "cloud"}
    model = NeighborNoisyAverages(
        radius=radius, n_cells="all", neighboring=neighboring, random_state=0, **own, **cost
    )
    for one, two in itertools.permutations(rows, 2):
        tables = (
            ([[0.1, 0.1]], [[0.1, 0.1], two]) if neighboring == "add_remove" else ([one], [two])
        )
        pair = [through_noise(partial(model.fit, Xs=np.array(S), Xt=cells))[1][0] for S in tables]
        worst = max(worst, movement(pair))
        assert movement(pair) <= 1 + 1e-12
    limit = lattice(radius)[1]
    reach, share = (
        (limit, 2 * limit) if cost.get("variant") else (math.ceil(0.3 / lattice(radius)[0]),) * 2
    )
    norm = {"gaussian": 2, "laplace": 1, "knorm": "K"}[pair[0].mechanism]
    assert pair[0].sensitivity == source_target.cell_sensitivity(reach, share, 2, norm, neighboring)
    assert worst > 0.99


@pytest.mark.parametrize("copies", [False, True], ids=["spread", "no spread"])
@pytest.mark.parametrize("kind", ["gaussian", "zCDP", "laplace"])
def test_diff_is_below_the_spread_and_the_printed_noise(kind, copies):
    """Theorems 5.5, 5.12 and 5.10: Diff over all choices of a small target, 40 fits with the printed noise, against t(S) + Lambda; exceeded with probability gamma at most.

    Where t sources stand at every target, t(S) is 0 and Diff is all noise.
    """
    rng, n, t, gamma, radius = np.random.default_rng(0), 7, 200, 0.1, 0.5
    angle = 2 * np.pi * np.arange(n) / n
    target = 0.4 * np.column_stack([np.cos(angle), np.sin(angle)])
    S = np.repeat(target, t, axis=0) if copies else uniform_in_ball(3000, 2, radius, rng=rng)
    how = {"t": t, "radius": radius, "n_cells": "all", "variant": "paper"}
    costs = {"gaussian": {"epsilon": 30.0, "delta": 1e-5}, "zCDP": {"rho": 8.0}}
    how |= costs.get(kind, {"epsilon": 30.0})
    with silent():
        exact = NoisyAverageSet(random_state=0, **how | {"variant": "tight", "spread": True})
        spread = exact.fit(Xs=S, Xt=target).spread_
    assert (spread < 1e-4) == copies
    if kind == "gaussian":
        sigma = source_target.nas_sigma(n, t, 30.0, 1e-5)
        assert sigma == pytest.approx(
            math.sqrt(18 * n * math.log(1e5) * math.log(1.25e5 * (n + 1))) / (t * 30.0)
        )
    else:
        sigma = source_target.nas_sensitivity(n, t) / math.sqrt(16.0)
    bounds = [
        source_target.published_noise_bound(sigma, 2, gamma, n),
        source_target.mean_noise_bound(sigma, 2, gamma, np.full(n, 1 / n)),
    ]
    if kind == "laplace":
        bounds = [source_target.laplace_noise_bound(30.0, 2, gamma, n, t)]
        assert bounds[0] == pytest.approx(n * 2 / (t * 30.0) * math.log(n * 2 / gamma))
    choices = [c for k in range(1, 4) for c in itertools.combinations(range(n), k)]
    true, above, largest = (
        np.array([source_target.stc_cost(target, S, c) for c in choices]),
        np.zeros(len(bounds)),
        0.0,
    )
    for seed in range(40):
        released = NoisyAverageSet(random_state=seed, **how).fit(Xs=S, Xt=target).sources_
        diff = np.abs(true - [source_target.stc_cost(target, released, c) for c in choices]).max()
        largest = max(largest, diff)
        above += diff > spread + np.array(bounds)
    assert np.all(stats.binom.sf(above - 1, 40, gamma) > 1e-5)
    assert largest > (bounds[-1] / 20 if copies else spread / 20)


def test_printed_noise_of_theorem_5_3_is_enough():
    for n, t, epsilon, delta in itertools.product(
        (1, 40, 6000), (1, 150), (1e-3, 0.01, 1.0, 30.0), (1e-9, 1e-3)
    ):
        mu = source_target.nas_sensitivity(n, t) / source_target.nas_sigma(n, t, epsilon, delta)
        assert gaussian_delta(epsilon, mu) <= delta  # beyond epsilon <= 1 / sqrt(n) too


@pytest.mark.parametrize("d", [1, 3])
def test_laplace_noise_exceeds_its_bound_as_rarely_as_lemma_5_9_says(d):
    """The exact tail of the largest of n d numbers at the scale that the door used: gamma bounds it, and not by much."""
    n, t, gamma = 6, 4, 0.05
    target = uniform_in_ball(n, d, 0.4, rng=0)
    model = NoisyAverageSet(
        t=t, epsilon=3.0, radius=0.5, n_cells="all", variant="paper", random_state=0
    )
    (event,) = through_noise(partial(model.fit, Xs=target, Xt=target))[1]
    # of one number: |Z| <= sqrt(d) max
    largest = source_target.laplace_noise_bound(3.0, d, gamma, n, t) / math.sqrt(d)
    first = math.ceil(largest * t / event.step)  # a geometric series from here on, on both sides
    beyond = 2 * lattice_distribution("laplace", event.scale, first) / -math.expm1(-1 / event.scale)
    exceeded = 1 - (1 - beyond) ** (n * d)
    assert 0.9 * gamma < exceeded <= gamma * 1.001


def test_nna_costs_no_more_than_its_bound_and_that_is_reached():
    """Equation (8): sources moved by r on both sides, and a share of targets whose sources are lost."""
    r, D = 0.1, 2.0
    cells = np.array([[-0.5, 0.0], [0.5, 0.0]])
    for lost, n in ((0.0, 10), (0.3, 10)):
        gone = round(lost * n)
        target = np.vstack(
            [np.tile(cells[0] - [r, 0], (n - gone, 1)), np.tile([1.0, 0.0], (gone, 1))]
        )
        S = np.vstack([np.tile(cells[0] - [r, 0], (5, 1)), np.tile([1.0, 0.0], (5, 1))])
        released = cells[:1] + [[r, 0.0]]
        diff = source_target.diff_bound(target, S, released, D)
        assert diff <= source_target.nna_bound(r, lost, D) * (
            1 + 1e-12
        ) and diff > 0.6 * source_target.nna_bound(r, lost, D)
    assert source_target.nna_bound(0.25, 0.1, 2.0) == pytest.approx(0.7)


# ---------------------------------------------------------------- domain adaptation


def small_adaptation(seed, N=10, d=3):
    """Records within r = Lambda / 2 = Y = 1, the first half of the source."""
    rng = np.random.default_rng(seed)
    X, y = uniform_in_ball(N, d, rng=rng), rng.uniform(-1, 1, N)
    p = np.r_[np.full(N // 2, 0.6 / N), np.full(N - N // 2, 1.4 / N)]
    offset = np.r_[np.full(N // 2, rng.uniform(0, 1)), np.zeros(N - N // 2)]
    return rng, X, y, p, offset


def test_problem_3_is_what_is_printed():
    """Term by term in plain loops: the weighted loss, the discrepancy of the public part, three norms."""
    for seed in range(10):
        rng, X, y, p, offset = small_adaptation(seed)
        q, w, (k1, k2, k3) = rng.uniform(size=10), rng.normal(size=3), rng.uniform(size=3)
        total = sum(q[i] * (sum(w[j] * X[i, j] for j in range(3)) - y[i]) ** 2 for i in range(10))
        total += sum(q[:5]) * offset[0]
        total += k1 * sum(abs(a - b) for a, b in zip(q, p, strict=True))
        total += k2 * sum(a * a for a in q) + k3 * max(q) * sum(a * a for a in w)
        found = adaptation.weighted_objective(
            q, w, X, y, p, offset=offset, kappa_1=k1, kappa_2=k2, kappa_inf=k3
        )
        assert found == pytest.approx(total, rel=1e-12)


def test_lemma_4_1_bounds_and_sensitivities():
    """(i) the three blocks' gradients on the feasible set; (ii), (iii) what replacing one private record moves, block by block; reached."""
    N, Lambda, top = 10, 2.0, np.zeros(5)
    B, G = loss_bound(1.0, Lambda, 1.0), adaptation.gradient_bound(1.0, Lambda, 1.0)
    assert (B, G) == (9.0, 6.0)
    for seed in range(600):
        rng, X, y, p, offset = small_adaptation(seed, N)
        kappas = dict(
            zip(("kappa_1", "kappa_2", "kappa_inf"), 10 ** rng.uniform(-3, 0, 3), strict=True)
        )
        w = rng.normal(size=3)
        w *= Lambda / np.linalg.norm(w)
        u = (1 + rng.integers(0, 2) * rng.exponential(size=N)) / p
        if seed % 2:  # the worst records: along w, against their labels
            X[-1], y[-1] = w / Lambda, -1.0
        if seed % 4 == 3:
            X, y = np.tile(w / Lambda, (N, 1)), -np.ones(N)
        by_u, by_w = adaptation.joint_gradient(u, w, X, y, p, offset=offset, **kappas)
        bounds = [
            adaptation.weight_bounds(B + offset[0], p[0], 5, Lambda, **kappas)[0],
            adaptation.weight_bounds(B, p[-1], 5, Lambda, **kappas)[0],
            G + 2 * kappas["kappa_inf"] * Lambda * p.max(),
        ]
        other, label = X.copy(), y.copy()
        other[-1], label[-1] = (-X[-1], -y[-1]) if seed % 3 else (0 * X[-1], 0.0)
        moved_u, moved_w = (
            a - b
            for a, b in zip(
                (by_u, by_w),
                adaptation.joint_gradient(u, w, other, label, p, offset=offset, **kappas),
                strict=True,
            )
        )
        assert not moved_u[:-1].any()  # u of the source, and v of the others
        n_share = p[-1]  # (1 - alpha) / n
        found = [np.linalg.norm(by_u[:5]), np.linalg.norm(by_u[5:]), np.linalg.norm(by_w)]
        top = np.maximum(
            top,
            [
                *np.divide(found, bounds),
                np.linalg.norm(moved_w) / (2 * G * n_share),
                abs(moved_u[-1]) / (B * n_share**2),
            ],
        )
    assert top.max() <= 1 + 1e-12 and np.all(top[[0, 1, 2, 4]] > 0.7) and top[3] > 0.45


def adapted(model, data):
    Xs, ys, Xt, yt = data
    return model.fit(Xt, yt, Xs=Xs, ys=ys)


BOUNDED = {"radius": 1.0, "weight_radius": 2.0, "target_bound": 1.0}


def printed_run(data, T, model):
    """Algorithm 1 in u as it is printed, by `joint_gradient`, with given noise on both blocks: (mean w, mean u)."""
    Xs, ys, Xt, yt = data
    X, y, m, n = np.vstack([Xs, Xt]), np.r_[ys, yt], len(Xs), len(Xt)
    p = np.r_[np.full(m, model.alpha / m), np.full(n, (1 - model.alpha) / n)]
    offset = np.r_[np.full(m, model.discrepancy), np.zeros(n)]
    kappas = {"kappa_1": model.kappa_1, "kappa_2": model.kappa_2, "kappa_inf": model.kappa_inf}
    r, Lambda, Y = 1.0, 2.0, 1.0
    B, mu_each = (
        loss_bound(r, Lambda, Y),
        gaussian_mu(model.epsilon, model.delta) / math.sqrt(2 * T),
    )
    sigma = p[-1] * adaptation.gradient_diameter(r, Lambda, Y) / mu_each, B * p[-1] ** 2 / mu_each
    G = adaptation.gradient_bound(r, Lambda, Y) + 2 * model.kappa_inf * Lambda * p.max()
    steps = [Lambda / math.sqrt(T * (G**2 + X.shape[1] * sigma[0] ** 2))]
    for size, weight, bound, noisy in (
        (m, p[0], B + model.discrepancy, 0.0),
        (n, p[-1], B, sigma[1]),
    ):
        slope, reach = adaptation.weight_bounds(bound, weight, size, Lambda, **kappas)
        steps.append(reach / math.sqrt(T * (slope**2 + size * noisy**2)))
    w, u, means = np.zeros(X.shape[1]), 1 / p, [0.0, 0.0]
    for _ in range(T):
        means = [means[0] + w / T, means[1] + u / T]
        by_u, by_w = adaptation.joint_gradient(u, w, X, y, p, offset=offset, **kappas)
        w, u = w - steps[0] * by_w, u - np.r_[np.full(m, steps[1]), np.full(n, steps[2])] * by_u
        w, u = w * min(1.0, Lambda / max(np.linalg.norm(w), 1e-300)), np.maximum(u, 1 / p)
    return means


def adaptation_data(seed=0, m=12, n=9, d=2):
    rng = np.random.default_rng(seed)
    Xs, Xt, w = (
        uniform_in_ball(m, d, rng=rng),
        uniform_in_ball(n, d, rng=rng),
        np.array([0.9, -0.3]),
    )
    return Xs, np.clip(Xs @ w + 0.1 * rng.normal(size=m), -1, 1), Xt, np.clip(-(Xt @ w), -1, 1)


def test_cnvxadap_is_algorithm_1_step_by_step():
    """Without noise the program and a loop over the printed lines, in u and with `joint_gradient`, end at the same means."""
    data, T = adaptation_data(m=400, n=300), 60
    model = CnvxAdap(
        **BOUNDED, epsilon=50.0, delta=1e-3, variant="paper", discrepancy=0.3, alpha=0.4, kappa_1=0.05,
        kappa_2=0.02, kappa_inf=0.01, n_iter=T, random_state=0,
    )  # fmt: skip
    with silent():
        adapted(model, data)
    mean_w, mean_u = printed_run(data, T, model)
    assert np.allclose(model.coef_, mean_w, atol=1e-4) and np.linalg.norm(mean_w) > 0.05
    assert np.allclose(model.source_weights_, 1 / mean_u[:400], rtol=1e-4)
    assert np.allclose(model.target_weights_, 1 / mean_u[400:], rtol=1e-4)
    p = np.r_[np.full(400, 0.4 / 400), np.full(300, 0.6 / 300)]
    assert np.ptp(mean_u * p) > 1e-3  # the weights moved


def test_cnvxadap_is_as_near_the_optimum_as_theorem_4_2_says():
    """Thirty runs of the printed algorithm: the mean excess of F below `descent_bound` of its three blocks, and the price of the rounds."""
    data, T, kappa_1, alpha = adaptation_data(), 60, 0.1, 0.4
    Xs, ys, Xt, yt = data
    X, y = np.vstack([Xs, Xt]), np.r_[ys, yt]
    p = np.r_[np.full(12, alpha / 12), np.full(9, (1 - alpha) / 9)]
    rest = {"offset": np.zeros(21), "kappa_1": kappa_1}
    samples = [Sample(Xs, ys, 1.0, p[0]), Sample(Xt, yt, 1.0, p[-1])]
    best = adaptation.profiled_regression(samples, 2.0, kappa_1, n_iter=20_000, tolerance=1e-12)[0]
    least = p @ adaptation.profiled_loss((X @ best - y) ** 2, kappa_1)
    excess, how = [], {"epsilon": 9.0, "delta": 1e-3, "variant": "paper", "discrepancy": 0.0}
    for seed in range(30):
        model = CnvxAdap(
            **BOUNDED, **how, alpha=alpha, kappa_1=kappa_1, n_iter=T, random_state=seed
        )
        model = adapted(model, data)
        u = 1 / np.r_[model.source_weights_, model.target_weights_]
        excess.append(adaptation.joint_objective(u, model.coef_, X, y, p, **rest) - least)
    lines = {r.label: r for r in model.spent_.releases}
    in_w, in_v = lines["a gradient of the predictor"], lines["losses of the records"]
    sigma_w, sigma_v = p[-1] * in_w.scale, p[-1] ** 2 * in_v.scale
    B, G = loss_bound(1.0, 2.0, 1.0), adaptation.gradient_bound(1.0, 2.0, 1.0)
    bound = adaptation.descent_bound(2.0, G, T, 2, sigma_w)
    for size, weight, noisy in ((12, p[0], 0.0), (9, p[-1], sigma_v)):
        slope, reach = adaptation.weight_bounds(B, weight, size, 2.0, kappa_1=kappa_1)
        bound += adaptation.descent_bound(reach, slope, T, size if noisy else 0, noisy)
    error = 3 * np.std(excess) / math.sqrt(30)
    assert min(excess) > -1e-6 and np.mean(excess) + error < bound < 300 * np.mean(excess)
    moved = (in_w.sensitivity / in_w.scale) ** 2 + (in_v.sensitivity / in_v.scale) ** 2
    assert model.spent_.mu**2 == pytest.approx(T * moved, rel=1e-9)


def test_the_steps_of_theorem_4_3_are_the_best():
    """`descent_bound` is the least over all step sizes of D^2 / (2 eta T) + eta (G^2 + k sigma^2) / 2."""
    for D, G, T, k, sigma in ((2.0, 3.0, 50, 4, 0.7), (9.0, 0.01, 7, 0, 0.0)):
        square = G**2 + k * sigma**2
        bound = lambda log_eta: D**2 / (2 * math.exp(log_eta) * T) + math.exp(log_eta) * square / 2  # noqa: B023, E731
        found = optimize.minimize_scalar(
            bound, bounds=(-20, 20), method="bounded", options={"xatol": 1e-10}
        )
        assert adaptation.descent_bound(D, G, T, k, sigma) == pytest.approx(found.fun, rel=1e-9)
        assert math.exp(found.x) == pytest.approx(D / math.sqrt(T * square), rel=1e-4)


def nonconvex_case(seed=0, m=4, n=3, d=3, Lambda=3.0):
    rng, loss = np.random.default_rng(seed), adaptation.LogLoss()
    X, y = uniform_in_ball(m + n, d, rng=rng), rng.integers(2, size=m + n)
    p = np.r_[np.full(m, 0.4 / m), np.full(n, 0.6 / n)]
    offset = np.r_[np.full(m, 0.2), np.zeros(n)]
    w = rng.normal(size=d)
    w *= Lambda * rng.uniform() ** 0.2 / np.linalg.norm(w)
    u = (1 + rng.integers(0, 2) * rng.exponential(size=m + n)) / p
    return rng, loss, X, y, p, offset, w, u


WEIGH = {"kappa_1": 0.4, "kappa_2": 0.05, "kappa_inf": 0.02, "mu": 5.0}


def test_problem_7_is_what_is_printed():
    """F_mu term by term in plain loops, and its derivative by u by differences."""
    for seed in range(10):
        rng, loss, X, y, p, offset, w, u = nonconvex_case(seed)
        values = loss(w, X, y)[0] + offset
        total = sum(v / a for v, a in zip(values, u, strict=True))
        total += 0.4 * sum(b * b * (a - 1 / b) for a, b in zip(u, p, strict=True))
        total += 0.05 * sum(1 / a**2 for a in u)
        total += 0.02 * sum(c * c for c in w) * math.log(sum(math.exp(5.0 / a) for a in u)) / 5.0
        run = partial(adaptation.smoothed_objective, values, p=p, squared_norm=w @ w, **WEIGH)
        found, slope = run(u)
        assert found == pytest.approx(total, rel=1e-12)
        for i, e in enumerate(np.eye(len(u)) * 1e-4):
            assert slope[i] == pytest.approx(
                (run(u + e)[0] - run(u - e)[0]) / 2e-4, rel=1e-5, abs=1e-9
            )


def test_lemma_5_1_bounds_sensitivities_and_smoothness():
    """Item 1, the gradient in w and what a replaced record moves in each block; item 2, second derivatives in all variables below `objective_smoothness`, and not far."""
    Lambda, top = 3.0, np.zeros(4)

    def gradient(z, loss, X, y, p, offset):
        w, u = z[:3], z[3:]
        values, rows = loss(w, X, y)
        _, in_u = adaptation.smoothed_objective(values + offset, u, p, squared_norm=w @ w, **WEIGH)
        soft = adaptation.soft_maximum(1 / u, WEIGH["mu"])
        return np.r_[(1 / u) @ rows + 2 * WEIGH["kappa_inf"] * soft * w, in_u]

    for seed in range(60):
        rng, loss, X, y, p, offset, w, u = nonconvex_case(seed, Lambda=Lambda)
        if seed % 2:
            u = 1 / p
        constants = B, G, _ = loss.constants(1.0, Lambda)
        limits = {name: WEIGH[name] for name in ("kappa_2", "kappa_inf", "mu")}
        beta = adaptation.objective_smoothness(
            constants, p, offset=offset, weight_radius=Lambda, **limits
        )
        z, rest = np.r_[w, u], (X, y, p, offset)
        here = gradient(z, loss, *rest)
        second = [
            (gradient(z + h, loss, *rest) - gradient(z - h, loss, *rest)) / 2e-5
            for h in np.eye(len(z)) * 1e-5
        ]
        longest = G + 2 * WEIGH["kappa_inf"] * Lambda * (p.max() + math.log(len(p)) / WEIGH["mu"])
        X2, y2 = X.copy(), y.copy()
        X[-1] /= np.linalg.norm(X[-1])
        here = gradient(z, loss, *rest)
        X2[-1], y2[-1] = -X[-1], y[-1]
        moved = gradient(z, loss, X2, y2, p, offset) - here
        assert not moved[3:-1].any()
        top = np.maximum(top, [
            np.linalg.norm(second, 2) / beta, np.linalg.norm(here[:3]) / longest,
            np.linalg.norm(moved[:3]) / (2 * G * p[-1]), abs(moved[-1]) / (B * p[-1] ** 2),
        ])  # fmt: skip
    assert top.max() <= 1 + 1e-6 and top[0] > 0.3 and top[2] > 0.45 and top[3] > 0.5


def test_algorithm_2_of_adaptation_is_what_is_printed():
    """Without noise: projected steps of 1 / beta on F_mu in w and in all weights, against a loop over the printed lines."""
    rng, m, n, Lambda, T = np.random.default_rng(0), 9, 7, 3.0, 25
    step, _ = lattice(1.0)
    make = lambda size, weight, d: Sample(  # noqa: E731
        quantize(uniform_in_ball(size, 2, rng=rng), 1.0),
        rng.integers(2, size=size),
        step,
        weight,
        d,
    )
    public, private, loss = make(m, 0.4 / m, 0.2), make(n, 0.6 / n, 0.0), adaptation.LogLoss()
    kappas, speed = {"kappa_1": 0.2, "kappa_2": 0.05, "kappa_inf": 0.1}, (1.0, 400.0)
    with silent():
        visited, u, v, values = adaptation.algorithm_2(
            loss, private, public, 1.0, Lambda, **kappas, n_iter=T, noise=Noise(0, neighboring="replace"), mu=1.0, speed=speed
        )  # fmt: skip
    X, y = np.vstack([public.X, private.X]) * step, np.r_[public.y, private.y]
    p, offset = np.r_[np.full(m, 0.4 / m), np.full(n, 0.6 / n)], np.r_[np.full(m, 0.2), np.zeros(n)]
    soft = 10 * (m + n) * math.log(m + n + 1)
    limits = {"kappa_2": 0.05, "kappa_inf": 0.1, "mu": soft, "weight_radius": Lambda}
    eta = 1 / adaptation.objective_smoothness(
        loss.constants(1.0, Lambda), p, offset=offset, **limits
    )
    w, weights = np.zeros(2), 1 / p
    for t in range(T):
        assert np.allclose(visited[t], w, atol=1e-4)
        each, rows = loss(w, X, y)
        value, by_u = adaptation.smoothed_objective(
            each + offset, weights, p, squared_norm=w @ w, mu=soft, **kappas
        )
        assert values[t] == pytest.approx(value, rel=1e-4)
        by_w = (1 / weights) @ rows + 0.2 * adaptation.soft_maximum(1 / weights, soft) * w
        w, weights = w - eta * by_w, np.maximum(weights - speed[1] * eta * by_u, 1 / p)
        w *= min(1.0, Lambda / np.linalg.norm(w))
    assert np.allclose(np.r_[u, v], weights, rtol=1e-4) and np.ptp(weights * p) > 1e-3
    assert values[-1] < values[0]
