"""The papers' statements where they are tight: at the worst instance, or against a second derivation of the same formula.

Each check here replaces or joins one that a false statement would have passed. What it must fail for, a factor of two,
a term that is gone, is planted by `python tools/quality/statements.py`; the list is in tools/quality/mutants.toml.
"""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from test_statement_checks import far_tuples, line_by_line, through_noise

from dplit import (
    KAverages,
    MaxCoverKMeans,
    NoisyAverageSet,
    adaptation,
    k_tuples,
    max_cover,
    source_target,
)
from dplit.accounting import cover_delta, gaussian_delta, gaussian_mu
from dplit.adaptation import loss_bound
from dplit.geometry import nearest
from dplit.k_tuples import averages as k_tuples_averages
from dplit.k_tuples import noisy_centers
from dplit.k_tuples import paper as kt
from dplit.max_cover import paper as max_cover_paper
from dplit.mechanisms import Noise, noisy_avg
from dplit.private_evolution import paper as pe

pytestmark = pytest.mark.filterwarnings("ignore::dplit.inputs.PrivacyWarning")

# ---------------------------------------------------------------- max cover


def most_found(copies, k, words, epsilon, delta):
    """The largest mean share of words found that the chain of inequalities of Theorem 5 allows, with its infinite series."""
    leak = delta / math.expm1(epsilon)
    return (k / (words - k) + leak) * math.exp(2 * copies * epsilon)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("copies", [2, 9])
def test_theorem_5_at_the_smallest_code(epsilon, copies):
    """With the smallest code and a delta that just allows so many copies, exactly half of the words can be found; one copy more, or a smaller code, and more than half."""
    k, distance, hair = 3, 0.25, 1 - 1e-9
    delta = hair * math.expm1(epsilon) / (4 * math.exp(2 * epsilon * copies))
    smallest = k + math.ceil(k * math.expm1(epsilon) / delta)
    cost, found = max_cover.cost_lower_bound(k, epsilon, delta, smallest, distance, diameter=2.0)
    assert found == copies and cost == pytest.approx(distance * 4.0 * (k / 2) * copies / 4)
    share = most_found(copies, k, smallest, epsilon, delta)
    assert 0.45 < share <= 0.5 < most_found(copies + 1, k, smallest, epsilon, delta)
    with pytest.raises(ValueError, match="needs a code"):
        max_cover.cost_lower_bound(k, epsilon, delta, smallest - 1, distance)
    assert most_found(copies, k, smallest // 2, epsilon, delta) > 0.5
    # delta = 0, Theorem 6: as many words as just allow so many copies
    words = k + math.ceil(2 * k * math.exp(2 * epsilon * copies))
    cost, found = max_cover.cost_lower_bound(k, epsilon, 0.0, words, distance, diameter=2.0)
    assert found == copies and cost == pytest.approx(distance * 4.0 * (k / 2) * copies / 4)
    assert max_cover.cost_lower_bound(k, epsilon, 0.0, words - 1, distance)[1] < copies
    assert most_found(copies, k, words, epsilon, 0.0) <= 0.5


def test_the_dimensions_the_choices_and_the_exponent_of_algorithm_1():
    """int(ln(n) / 2) dimensions; k ln(1 / g) choices a level, at g = 1 / 7 the same however it is rounded; the exponent that Lemma 17 leaves of a tenth of the budget."""
    n, how = 600, {"epsilon": 8.0, "delta": 1e-3, "radius": 4.0, "variant": "paper"}
    X = np.random.default_rng(0).normal(size=(n, 9))
    model = MaxCoverKMeans(2, n_public=n, ratio=0.9, random_state=0, **how)
    fitted, _, seen = line_by_line(X, model)
    assert seen["points"].shape == (n, 3)  # ln(600) / 2 = 3.2
    lines = {r.mechanism: r for r in fitted.spent_.releases}
    # Theorem 16: (e / 2) epsilon_E ln(1 / delta_E) for the covers, and their exponent is epsilon_E / 2
    assert math.e * lines["cover"].exponent * math.log(2 / 1e-3) == pytest.approx(0.8)
    assert cover_delta(0.8, lines["cover"].exponent) <= 5e-4
    model = MaxCoverKMeans(3, n_public=200, ratio=1 / 7, random_state=0, **how)
    _, events, seen = line_by_line(X[:200, :1], model)
    picks = sum(e.mechanism == "cover" for e in events)
    assert picks == 6 * len(seen["radii"])  # 3 ln 7 = 5.84
    assert len(seen["radii"]) == math.ceil(math.log(2 * 200, 1 + 1 / 7))


def test_algorithm_3_line_by_line():
    """The scale of the count, the shift, and sigma = 5 Delta / (4 epsilon m) sqrt(2 ln(3.5 / delta)) for the count that was handed out."""
    X, radius, epsilon, delta = np.full((40, 2), 0.5), 3.0, 0.7, 1e-5
    run = lambda: noisy_avg(X, radius=radius, epsilon=epsilon, delta=delta, noise=Noise(0))  # noqa: E731
    for counted in (400, 3000):
        hand_out = lambda e, c=counted: np.int64(c) if e.mechanism == "laplace" else e.value  # noqa: E731
        released, (count, mean) = through_noise(run, hand_out)
        assert count.value == 40 and count.scale == pytest.approx(5 / epsilon, rel=1e-9)
        m = counted - 5 / epsilon * math.log(2 / delta)
        sigma = 5 * 2 * radius / (4 * epsilon * m) * math.sqrt(2 * math.log(3.5 / delta))
        assert mean.scale * mean.step == pytest.approx(sigma, rel=5e-3)
        assert np.allclose(released, 0.5, atol=1e-3)
    shift = math.ceil(5 / epsilon * math.log(2 / delta))
    for counted, answers in ((shift, 1), (shift + 1, 2)):  # at most 0: a random point
        hand_out = lambda e, c=counted: np.int64(c) if e.mechanism == "laplace" else e.value  # noqa: E731
        assert len(through_noise(run, hand_out)[1]) == answers


def test_theorem_15_the_heads_are_the_best_of_the_weighted_candidates():
    """E_M of Theorem 15: on the proxy dataset, candidates with weights, the heads cost at most a hundredth more than the best of twenty runs of k-means; heads of candidates that all weigh alike cost a third more."""
    rng, k = np.random.default_rng(0), 4
    for seed in range(5):
        candidates = rng.uniform(-0.6, 0.6, size=(120, 2))
        weights = np.r_[rng.exponential(300.0, 12), rng.exponential(1.0, 88), np.zeros(20)]
        on_proxy = lambda centers, c=candidates, w=weights: w @ cdist(c, centers, "sqeuclidean").min(axis=1)  # fmt: skip # noqa: E731
        candidate_centers = max_cover_paper.cluster_candidates(candidates, weights, k, seed)
        best = KMeans(k, n_init=20, random_state=seed).fit(candidates, sample_weight=weights)
        alike = KMeans(k, n_init=20, random_state=seed).fit(candidates).cluster_centers_
        assert on_proxy(candidate_centers) <= 1.01 * best.inertia_ < 0.75 * on_proxy(alike)


def test_lemma_9_loses_what_one_choice_loses_and_keeps_what_greedy_keeps():
    """One node with rows among N: the least count that is chosen surely enough is the loss of the lemma. Without noise: the arrangement of which two greedy choices cover three quarters."""
    for log_nodes, exponent, beta in ((math.log(1001), 0.3, 0.01), (math.log(10**6), 2.0, 0.2)):
        nodes = round(math.exp(log_nodes))
        fails = lambda c, e=exponent, n=nodes: (n - 1) / (n - 1 + math.exp(e * c))  # noqa: E731
        least = optimize.brentq(lambda c, b=beta: fails(c) - b, 1.0, 200.0, xtol=1e-10)  # noqa: B023
        lost = 500.0 - max_cover.coverage_bound(500.0, 1, 1, log_nodes, exponent, beta)
        assert least <= lost < 1.02 * least
        # k' choices share beta, k clusters each lose once
        many = max_cover.coverage_bound(500.0, 3, 40, log_nodes, exponent, beta)
        missed = (2 / 3) ** 40
        assert many == pytest.approx((1 - missed) * (500 - 3 * (lost + math.log(40) / exponent)))
    r, counts = 0.1, [25, 25, 26, 25]
    points = np.repeat(r * np.array([-4.5, -1.5, 1.5, 4.5]), counts)[:, None]

    def largest(grid):
        seen = grid.coverage()
        return int(seen.keys[np.argmax(seen.counts)])

    _, live = max_cover.grid_set_cover(points, r, 2, largest, snap=False)
    best = sum(counts)  # by the nodes at -3 r and 3 r
    bound = max_cover.coverage_bound(float(best), 2, 2, 5.0, 1e12, 0.5)
    assert bound == pytest.approx(0.75 * best) and bound <= np.sum(~live) < bound + 1


def test_lemma_12_is_the_sum_of_its_parts():
    """The recursion of its proof with equality at every level: reached by the loss of the choices alone, by the optimal cost alone; three quarters by what greedy misses."""
    k, picks, exponent, beta, log_nodes = 1, 3, 2.0, 0.1, 9.0
    radii = max_cover.cover_radii((1 - 1e-9) / 16)  # the last is 2, or nearly
    assert radii[-1] == pytest.approx(2.0) and len(radii) == 6
    squares = np.diff(radii**2, prepend=0.0)
    for snap, width in ((False, 2.0), (True, 2.5)):
        bound = partial(max_cover.movement_bound, radii=radii, n_clusters=k, log_nodes=log_nodes, beta=beta, snap=snap)  # fmt: skip
        loss = (log_nodes + math.log(len(radii) * picks / beta)) / exponent
        # one cluster: greedy misses nothing, and every level leaves as many rows as its choices lose
        left = np.full(len(radii), loss)
        found = bound(best_cost=0.0, n_rows=0, n_picks=picks, exponent=exponent)
        assert found == pytest.approx(width**2 * left @ squares, rel=1e-6)
        # all rows at the lower end of one band, and choices without loss
        left, at = np.r_[np.full(4, 100.0), np.zeros(2)], 3
        found = bound(best_cost=100 * radii[at - 1] ** 2, n_rows=0, n_picks=picks, exponent=1e99)
        assert found == pytest.approx(width**2 * left @ squares, rel=1e-6)
    missed = (2 / 3) ** 9
    left = 100 * missed ** np.arange(len(radii))
    found = max_cover.movement_bound(0.0, 100, radii, 3, 9, log_nodes, 1e99, beta, snap=False)
    assert 0.75 < 4 * left @ squares / found <= 1


def test_lemmas_10_and_11_row_by_row():
    """Lemma 10 is reached by rows at the lower end of their band; Lemma 11 because a row that has left is within reach of a node of its level, and one that stays is not."""
    g, r1 = 0.5, 0.01
    radii = max_cover.cover_radii(r1, g)
    rows = np.repeat(radii[2:6], 25)  # distances to the best center
    band = np.searchsorted(radii, rows, "right")  # o_i: from r_(i-1) to below r_i
    thresholded, cost = (radii[band] ** 2).sum(), (rows**2).sum()
    assert thresholded <= (1 + g) ** 2 * cost + len(rows) * r1**2
    assert thresholded == pytest.approx((1 + g) ** 2 * cost)
    rng = np.random.default_rng(0)
    points, moved, left, width = rng.uniform(-0.7, 0.7, size=(400, 2)), 0.0, 0.0, 2.0
    choose = Noise(0).cover(3.0)
    for radius in max_cover.cover_radii(0.05):
        nodes, live = max_cover.grid_set_cover(points, radius, 4, choose, snap=False)
        nearest = np.linalg.norm(points[:, None] - nodes, axis=2).min(axis=1)
        assert (nearest[~live] < width * radius).all() and (nearest[live] >= width * radius).all()
        moved, left = moved + (nearest[~live] ** 2).sum(), left + (~live).sum() * radius**2
        points = points[live]
    assert 0.1 < moved / (width**2 * left) <= 1


def test_lemmas_13_and_14_on_rows_halfway():
    """Rows halfway between the best center and their candidate, and noise on a candidate at the far end: Lemma 13 is an equality; Lemma 14 follows from it in two steps."""
    rng = np.random.default_rng(0)
    rows, extra = 12, 5
    best, row, candidate = -1.0, 0.0, 1.0
    best_cost, moved = rows * (row - best) ** 2, rows * (row - candidate) ** 2
    proxy = (rows + extra) * (candidate - best) ** 2
    assert max_cover_paper.proxy_bounds(best_cost, moved, extra)[0] == pytest.approx(proxy)
    for factor, cost, moved, wrong in zip(*rng.uniform([[1], [0], [0], [0]], 9, size=(4, 30)), strict=True):  # fmt: skip
        first, second = max_cover_paper.proxy_bounds(cost, moved, wrong, factor)
        # back to the rows: 2 V, twice the proxy's cost, and rows whose weight is gone, at distance 2 at most
        assert second == pytest.approx(2 * moved + 2 * factor * first + 8 * wrong)
    # with exact weights and optimal centers the second is reached too: rows halfway between candidate and center
    first, second = max_cover_paper.proxy_bounds(0.0, 1.0, 0.0)
    assert (first, second) == (2.0, 6.0)


# ---------------------------------------------------------------- easy instances


def test_claim_4_3_where_it_is_tight():
    """The two ways in which one tuple moves the status, each alone: as a tuple of the sample, and as one against which all are counted. Exact laws; the receipt's cost is nearly reached by both."""
    for m, n, epsilon_1, epsilon_2, how in ((2, 6, 1.2, 0.01, "sample"), (1, 10**7, 12.0, 0.5, "all")):  # fmt: skip
        noise, beta = Noise(0, neighboring="replace"), 0.9
        T = far_tuples(8, 20.0)
        kt.private_test_close_tuples(
            T[:m], T, epsilon_1=epsilon_1, epsilon_2=epsilon_2, beta=beta, separation=7.0, noise=noise, n_rows=n
        )  # fmt: skip
        (line,) = noise.releases
        law = partial(kt.success_probability, epsilon_1=epsilon_1, epsilon_2=epsilon_2, beta=beta)
        if how == "sample":  # no tuple ever passes, but for the changed one, before
            never, always = [1e6] * m, [-1e6] + [1e6] * (m - 1)
            one, two = m / n * law(always) + (1 - m / n) * law(never), law(never)
        else:  # every count grows by one, the changed tuple's own aside
            at = math.ceil(m / epsilon_2 * math.log(m / beta)) + 2.0
            one, two = (law([count] * m) for count in (at, at + 1))
        loss = abs(math.log(one / two))
        assert 0.95 * line.epsilon < loss <= line.epsilon


def test_the_joint_bound_in_place_of_claim_4_5_is_nearly_reached():
    """Bad tuples first in the sample, each leaving out just too many, and good ones that pass: success with bad balls, exactly, for the worst number of bad ones."""
    for n, epsilon, delta, beta in ((4296, 0.5, math.exp(-28) / 4, 0.025), (10**6, 1.0, 1e-6, 0.1)):
        m, epsilon_1, ell = kt.paper_parameters(n, epsilon, delta, beta)
        epsilon_2 = epsilon / 2
        tau, t = m / epsilon_2 * math.log(m / beta), math.log(1 / beta) / epsilon_1
        p = kt.laplace_tail(ell - tau, m / epsilon_2)
        joint = []
        for bad in range(1, m + 1):
            passing = np.arange(1, bad + 1)  # of the bad ones: the first that passes is one of them
            law = stats.binom.pmf(passing, bad, p)
            joint.append(law @ kt.laplace_tail(bad - passing - t, 1 / epsilon_1))
        bound = kt.joint_failure_bound(m, epsilon_1, epsilon_2, ell, beta)
        assert 0.7 * bound < max(joint) <= bound


def test_theorem_4_8_by_the_distribution_of_its_choices_and_the_noise_of_its_sums():
    """`average_tuples` against the exact chance that a choice among N nodes fails; k (ell + 1) d^0.5 in the noise of KAverages itself."""
    for k, d, moves, cost, radius, small, beta in (
        (2, 1, 900, 0.8, 64.0, 0.1, 0.05), (6, 3, 50, 2.0, 16.0, 0.5, 0.2), (3, 8, 7, 0.1, 9.0, 0.01, 1e-3),
    ):  # fmt: skip
        each, nodes = cost / (3 * d), math.ceil(2 * radius / small) + 1
        surely = beta / (k * d)
        # depth q / 2 at one node and 0 at the others, weights e^(each depth / (2 moves))
        least = 4 * moves / each * math.log((nodes - 1) * (1 / surely - 1))
        found = k_tuples_averages.average_tuples(k, d, moves, cost, radius, small, beta)
        assert least <= found < 1.02 * least + 1
    for k, d in ((2, 1), (3, 2)):
        T = far_tuples(2500, 1e4, k, d)
        model = KAverages(
            epsilon=1.0, delta=1e-6, radius=2.0, min_radius=0.5, too_few=True, random_state=0
        )
        fitted, events = through_noise(partial(model.fit, T))
        assert fitted.status_ == "released"
        ell = kt.exact_plan(len(T), 1.0, 1e-6, 0.05).ell
        sums = [e for e in events if e.label == "sum"]
        mu = gaussian_mu(1.0 / 12, 1e-6 / 4)
        assert len(sums) == k
        for event in sums:
            scale = 2 * k * (ell + 1) * math.sqrt(d) / mu
            assert event.scale * event.step == pytest.approx(scale, rel=1e-3)


def test_orders_of_the_parameters_after_definitions_4_1_and_4_4():
    """With beta and delta of 1 / n the sample stays as small as m = 4 or 5 and ell grows like log(n) / epsilon; for a delta of its own, ell like log(1 / delta)^2 / (epsilon log n)."""
    sizes, found = (10**4, 10**6, 10**8, 10**10), []
    for n in sizes:
        m, epsilon_1, ell = kt.paper_parameters(n, 1.0, 1 / n, 1 / n)
        found.append((m, epsilon_1 / math.log(n), ell / math.log(n)))
    m, first, last = zip(*found, strict=True)
    assert max(m) <= 5 and 0.5 < min(first) <= max(first) < 1 and max(last) < 1.5 * min(last)
    small = [kt.paper_parameters(10**6, 1.0, math.exp(-x), 0.05) for x in (100, 200, 400)]
    order = [ell * math.log(10**6) / x**2 for (_, _, ell), x in zip(small, (100, 200, 400), strict=True)]  # fmt: skip
    assert 4 < min(order) and max(order) < 1.25 * min(order)


@pytest.mark.parametrize("d", [1, 3, 16])
def test_section_4_2_1_by_the_noise_of_its_sum(d):
    """A part that gains and a part that loses `moves` points at a corner of the turned box: sum and count move as far as is paid for, sqrt(2 d) for each; half as much is too little. And mean errors grow like sqrt(d)."""
    moves, cost = 3, {"epsilon": 1.0, "delta": 1e-6, "beta": 0.05}
    ball = {"radius": 8.0, "min_radius": 0.05}
    Q = np.tile(np.linspace(-1, 1, d) / math.sqrt(d), (4000, 1))
    run = lambda Q: k_tuples.rotated_average(Q, moves=moves, noise=Noise(0, neighboring="replace"), **ball, **cost)  # fmt: skip # noqa: E731
    _, events = through_noise(partial(run, Q))
    (event,) = [e for e in events if e.label == "sum and count"]
    _, mu = k_tuples.rotated_releases(d, 1.0, 1e-6)
    # a point of the cube [-1, 1]^d, and sqrt(d) for being there: length sqrt(2 d)
    corner = np.r_[np.ones(d), math.sqrt(d)]
    moved = np.linalg.norm(moves * corner - moves * -corner)
    assert event.scale * event.step == pytest.approx(moved / mu, rel=1e-3)
    assert moved == pytest.approx(2 * moves * math.sqrt(2 * d))


def test_section_4_2_1_grows_like_the_root_of_d_and_comes_back_from_its_turn():
    """Errors of 4.2.1 over those of Proposition 2.9, both at (1, 1e-6), with moves of 3: their quotient falls like 1 / sqrt(d)."""
    quotients = []
    for d in (4, 64):
        rng, errors = np.random.default_rng(d), [[], []]
        mu = gaussian_mu(1 / 6, 1e-6)
        for seed in range(6):
            middle = rng.normal(size=d)
            middle *= 6 / np.linalg.norm(middle)
            Q = middle + 0.2 * rng.normal(size=(60_000, d)) / math.sqrt(d)
            how = {"radius": 8.0, "min_radius": 0.02, "moves": 3, "beta": 0.05}
            turned = k_tuples.rotated_average(Q, epsilon=1.0, delta=1e-6, noise=Noise(seed, neighboring="replace"), **how)  # fmt: skip
            plain = k_tuples_averages.private_average(Q, epsilon=5 / 6, mu=mu, noise=Noise(seed, neighboring="replace"), **how)  # fmt: skip
            for found, average in zip(errors, (turned, plain), strict=True):
                found.append(np.linalg.norm(average - Q.mean(axis=0)))
        assert max(errors[0]) < 0.1
        quotients.append(np.mean(errors[0]) / np.mean(errors[1]))
    assert quotients[1] < 0.6 * quotients[0]


def test_partition_has_a_border_halfway():
    """Definition 3.5 by three distances: a point belongs to the nearest point of the tuple, on either side of the middle."""
    tuple_ = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]])
    points = np.array([[1.9, 0.0], [2.1, 0.0], [0.0, 1.4], [0.0, 1.6], [9.0, 9.0]])
    by_hand = [min(range(3), key=lambda j, p=p: math.dist(p, tuple_[j])) for p in points]
    assert by_hand == [0, 1, 0, 2, 1] and nearest(points, tuple_).tolist() == by_hand


def wrong_center(separation, k, epsilon, delta):
    """The chance that one noisy center of Figure 4 is nearer to one other center, at the smallest distance: by quadrature."""
    b = 4 * k / epsilon
    shift = b * math.log(4 * k / delta) + 1

    def misses(x):
        lam = 2 / separation * (1 + 4 / (separation - 2) * (b * x + shift))
        return stats.norm.sf(0.5 / (b * abs(lam) * math.sqrt(2 * math.log(10 * k / delta))))

    parts = ((-40.0, 0.0), (0.0, 40.0))
    law = lambda x: 0.5 * math.exp(-abs(x)) * misses(x)  # noqa: E731
    return sum(integrate.quad(law, *ends, limit=200)[0] for ends in parts)


def test_theorem_4_11_has_the_right_order_in_every_parameter():
    """The least separation at which k (k - 1) wrong centers together have probability beta, over k log(k / delta) sqrt(log(k / beta)) / epsilon: between 8 and 15 throughout; the printed 10 lies among them."""
    constants = []
    for k, epsilon, delta, beta in (
        (2, 1.0, 1e-6, 0.05), (2, 1.0, math.exp(-28), 0.05), (4, 0.1, 1e-6, 0.3), (8, 1.0, 1e-12, 0.05), (16, 0.3, 1e-9, 0.1),
    ):  # fmt: skip
        excess = lambda log, k=k, e=epsilon, d=delta, b=beta: (  # noqa: E731
            math.log(wrong_center(math.exp(log), k, e, d) + 1e-300) - math.log(b / (k * (k - 1)))
        )
        least = math.exp(optimize.brentq(excess, math.log(10), math.log(1e9)))
        constants.append(10 * least / noisy_centers.published_separation(k, epsilon, delta, beta))
    assert 8 < min(constants) <= 10 <= max(constants) < 15
    # the experiments' own parameters, by hand
    assert noisy_centers.published_separation(2, 1.0, math.exp(-28), 0.05) == pytest.approx(
        20 * (28 + math.log(2)) * math.sqrt(math.log(40))
    )
    assert wrong_center(
        noisy_centers.published_separation(2, 1.0, math.exp(-28), 0.05), 2, 1.0, math.exp(-28)
    ) == pytest.approx(0.01, abs=0.001)


# ---------------------------------------------------------------- private evolution


def test_equation_5_moves_by_a_hundredth_of_a_levy_step():
    """The median length of a step by quadrature over both normals, times gamma; the same steps as equation (4) has them."""
    beta, gamma = 1.75, 0.01
    sigma = (
        special.gamma(1 + beta)
        * math.sin(math.pi * beta / 2)
        / (special.gamma((1 + beta) / 2) * beta * 2 ** ((beta - 1) / 2))
    ) ** (1 / beta)
    below = lambda s: integrate.quad(  # noqa: E731
        lambda v: 2 * stats.norm.pdf(v) * special.erf(s * v ** (1 / beta) / (sigma * math.sqrt(2))),
        0,
        12,
    )[0]
    median = optimize.brentq(lambda s: below(s) - 0.5, 0.01, 5.0)
    assert median == pytest.approx(0.446, abs=1e-3)
    for antithetic in (True, False):
        children = pe.variations(np.zeros((4, 5)), 5000, np.random.default_rng(0), antithetic=antithetic)  # fmt: skip
        assert np.median(np.abs(children)) == pytest.approx(gamma * median, rel=0.02)
    far = pe.variations(np.eye(2), 2000, np.random.default_rng(1), step=3.0)
    lengths = np.linalg.norm(far, axis=1)
    assert lengths.max() <= 1 + 1e-12 and np.mean(lengths > 1 - 1e-9) > 0.5  # clipped to the sphere


# ---------------------------------------------------------------- source and target


@pytest.mark.parametrize(("n", "t", "epsilon", "delta"), [(7, 200, 0.3, 1e-5), (400, 150, 3.0, 1e-9)])  # fmt: skip
def test_lambda_of_theorem_5_5_is_what_is_printed_and_the_tail_is_of_its_order(n, t, epsilon, delta):  # fmt: skip
    """6 / (t epsilon) sqrt(d n log(1/delta) log(1.25 (n+1)/delta) log(2 d n/gamma)); the exact chance that a coordinate is longer, in logarithm within 1.6 times what is claimed."""
    sigma = source_target.nas_sigma(n, t, epsilon, delta)
    for d, gamma in ((1, 0.1), (4, 1e-3)):
        printed = 6 / (t * epsilon) * math.sqrt(
            d * n * math.log(1 / delta) * math.log(1.25 * (n + 1) / delta) * math.log(2 * d * n / gamma)
        )  # fmt: skip
        found = source_target.published_noise_bound(sigma, d, gamma, n)
        assert found == pytest.approx(printed, rel=1e-12)
        largest = found / (sigma * math.sqrt(d))  # of one coordinate
        log_chance = math.log(2) + stats.norm.logsf(largest)
        assert 1.6 * math.log(gamma / (n * d)) < log_chance <= math.log(gamma / (n * d))


def shifted(model, target, S, noise):
    """The points that NAS releases where its noise is `noise` (in units of the data), handed out through the door."""
    t = model.t
    hand_out = lambda e: np.asarray(e.value) + np.rint(np.ravel(noise) * t / e.step).astype(np.int64)  # fmt: skip # noqa: E731
    return through_noise(partial(model.fit, Xs=S, Xt=target), hand_out)[0].sources_


def test_lemmas_5_6_and_5_7_where_they_are_equalities():
    """One source at the target, the others all in one place, noise away from the target: its distance grows by exactly the spread and the length of the noise. The same beside medoids that are farther; never more, beside nearer ones or on random sources."""
    t, x, away = 5, np.array([[0.1, -0.2]]), np.array([0.6, 0.8])
    S = np.vstack([x, np.tile(x + 0.25 * away, (t - 1, 1))])
    model = NoisyAverageSet(t=t, epsilon=1.0, radius=1.0, n_cells="all", random_state=0)
    spread, noise = 0.25 * (t - 1) / t, 0.15 * away
    released = shifted(model, x, S, noise)
    before, after = (source_target.source_distance(x, some)[0] for some in (S, released))
    assert before == pytest.approx(0, abs=1e-12)
    assert after == pytest.approx(spread + 0.15, abs=1e-4)  # Lemma 5.6
    for medoid in (0.9, spread + 0.151, 0.3, 0.01):  # Lemma 5.7, a medoid at that distance
        near = [min(d, medoid) for d in (before, after)]
        found = source_target.source_distance(x, np.vstack([released, x + medoid * away]))[0]
        assert found == pytest.approx(near[1], abs=1e-9) and near[1] - near[0] <= spread + 0.1501
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(40):
        target, S = rng.uniform(-0.4, 0.4, size=(4, 2)), rng.uniform(-0.5, 0.5, size=(12, 2))
        noise = 0.05 * rng.normal(size=(4, 2))
        gaps = np.sort(cdist(target, S), axis=1)[:, :t].mean(axis=1)
        change = cdist(target, shifted(model, target, S, noise)).diagonal() - cdist(target, S).min(axis=1)  # fmt: skip
        worst = max(worst, (np.abs(change) / (gaps + np.linalg.norm(noise, axis=1))).max())
    assert 0.5 < worst <= 1 + 1e-3


def test_the_release_of_the_spread_is_gdp_and_its_delta_is_not_small():
    """A source moves t(S) by D / t, and no further: with sigma = D / (t epsilon) that is mu = epsilon, whose delta at epsilon is far from small, by quadrature."""
    rng, t, worst = np.random.default_rng(0), 4, 0.0
    spread_of = lambda S, x: np.sort(cdist(x, S), axis=1)[:, :t].mean()  # noqa: E731
    end = np.array([[1.0, 0.0]])
    for S in (np.vstack([end] * (t - 1) + [-end] * 3), *rng.uniform(-0.6, 0.6, size=(20, 9, 2))):
        for x, source in itertools.product((end, rng.uniform(-0.6, 0.6, size=(3, 2))), (end, -end)):
            worst = max(worst, abs(spread_of(S, x) - spread_of(np.vstack([S, source]), x)))
    assert worst == pytest.approx(2 / t)
    for epsilon, delta in ((1.0, 0.127), (3.0, 0.567)):
        gain = lambda z, e=epsilon: max(stats.norm.pdf(z - e) - math.exp(e) * stats.norm.pdf(z), 0)  # noqa: E731
        area = integrate.quad(gain, epsilon / 2 + 1, epsilon + 12, epsabs=1e-12, limit=200)[0]
        assert gaussian_delta(epsilon, epsilon) == pytest.approx(area, rel=1e-6)
        assert area == pytest.approx(delta, abs=5e-4)


def test_the_cost_of_section_3_by_two_loops():
    """Every target's nearest source or medoid, one by one."""
    rng = np.random.default_rng(0)
    for size in (0, 1, 3):
        target, S = rng.normal(size=(9, 2)), rng.normal(size=(5, 2))
        medoids = tuple(range(size))
        by_hand = sum(
            min([math.dist(x, s) for s in S] + [math.dist(x, target[j]) for j in medoids])
            for x in target
        )
        assert source_target.stc_cost(target, S, medoids) == pytest.approx(by_hand / 9, rel=1e-12)


def test_corollary_b_1_where_the_cover_costs_nearly_twice_its_radius():
    """Every target within C of its cell, for many C, and no more cells than the volume asks for. Where the cell's own sources are behind it, 2 C and the spread of Definition 5.4 are nearly reached by NAS without noise; with the spread of the cover one C is enough."""
    target = np.random.default_rng(0).uniform(size=(3000, 2))
    for C in (0.05, 0.1, 0.3):
        cells = target[source_target.kd_cover(target, C)]
        assert cdist(target, cells).min(axis=1).max() <= C
        assert len(cells) <= 16 / C**2  # boxes halve: their diagonals are longer than C / 4
    # one target is the cell, at distance C of all others, which have t sources each; nearer to the cell are those behind it
    C, n, t = 0.2, 100, 3
    target = np.vstack([[[0.0, 0.0]], np.tile([[0.1992, 0.0]], (n - 1, 1))])
    S = np.vstack([np.tile([[0.1992, 0.0]], (t, 1)), np.tile([[-0.198, 0.0]], (t, 1))])
    (cell,) = source_target.kd_cover(target, C)
    assert cell == 0
    model = NoisyAverageSet(t=t, epsilon=1.0, radius=1.0, n_cells="all", random_state=0)
    released = shifted(model, target[:1], S, np.zeros(2))
    assert np.allclose(released, [[-0.198, 0.0]], atol=1e-4)
    spread = np.sort(cdist(target, S), axis=1)[:, :t].mean()  # Definition 5.4, over all targets
    diff = source_target.diff_bound(target, S, released, 2.0)
    assert 1.9 * C + spread < diff <= 2 * C + spread
    spread = np.sort(cdist(target[:1], S), axis=1)[:, :t].mean()  # of the cover
    assert diff <= C + spread


def test_observation_4_1_on_its_own_instance():
    """One source at the center of a hexagon of sources' partners: the cost jumps by (n - k) / n times the distance 1/2, at least a quarter."""
    ring = np.array([[math.cos(a), math.sin(a)] for a in np.arange(6) * math.pi / 3]) / 2
    k, n = 6, 14
    target = np.vstack([ring, np.zeros((n - k, 2))])
    with_it, without = np.vstack([[[0.0, 0.0]], ring[:1]]), ring[:1]
    one, two = (source_target.stc_cost(target, S, tuple(range(k))) for S in (with_it, without))
    assert one == 0 and two - one == pytest.approx((n - k) / n / 2) and two - one > 0.25


# ---------------------------------------------------------------- domain adaptation


def corner(loss_high, N=10, Lambda=2.0, m=5):
    """Records that are all alike, along w: the largest loss, or none; (u, w, X, y, p) at the largest weights."""
    w = np.array([Lambda, 0.0, 0.0])
    X = np.tile([1.0, 0.0, 0.0], (N, 1)) if loss_high else np.zeros((N, 3))
    y = -np.ones(N) if loss_high else np.zeros(N)
    p = np.r_[np.full(m, 0.6 / N), np.full(N - m, 1.4 / N)]
    return 1 / p, w, X, y, p


KAPPAS = {"kappa_1": 1e-9, "kappa_2": 0.0, "kappa_inf": 0.0}


def test_lemma_4_1_at_its_corners():
    """Every bound is reached to a thousandth where its own term is the largest: loss, kappa_1, kappa_2, kappa_inf; and both sensitivities."""
    N, m, Lambda = 10, 5, 2.0
    B, G = loss_bound(1.0, Lambda, 1.0), adaptation.gradient_bound(1.0, Lambda, 1.0)
    assert (B, G) == (9.0, 6.0)
    none = np.zeros(N)
    for high, large in (
        (True, {}), (False, {"kappa_1": 1e6}), (False, {"kappa_2": 1e6}), (True, {"kappa_inf": 1e6}),
    ):  # fmt: skip
        kappas = KAPPAS | large
        u, w, X, y, p = corner(high)
        if "kappa_inf" in large:  # one weight is the largest, so that no tie shares its term
            u = u * np.r_[np.full(N - 1, 1.5), 1.0]
        by_u, by_w = adaptation.joint_gradient(u, w, X, y, p, offset=none, **kappas)
        slope = adaptation.weight_bounds(B, p[-1], N - m, Lambda, **kappas)[0]
        assert 0.999 < np.linalg.norm(by_u[m:]) / slope <= 1 + 1e-9
        longest = G + 2 * kappas["kappa_inf"] * Lambda * p.max()
        if high:
            assert 0.999 < np.linalg.norm(by_w) / longest <= 1 + 1e-9 or "kappa_inf" not in large
        if high and not large:
            assert np.linalg.norm(by_w) == pytest.approx(G, rel=1e-9)
    u, w, X, y, p = corner(True)
    other, label = X.copy(), y.copy()
    other[-1], label[-1] = 0.0, 0.0  # the largest loss, then none
    one, two = (
        adaptation.joint_gradient(u, w, *records, p, offset=none, **KAPPAS)
        for records in ((X, y), (other, label))
    )
    assert abs(one[0] - two[0])[-1] == pytest.approx(B * p[-1] ** 2, rel=1e-9)
    # 2 G p for the predictor: at w = 0, where two records pull in opposite directions
    G = adaptation.gradient_bound(1.0, 1e-9, 1.0)
    label = y.copy()
    label[-1] = 1.0
    one, two = (
        adaptation.joint_gradient(u, 0 * w, X, labels, p, offset=none, **KAPPAS)
        for labels in (y, label)
    )
    assert np.linalg.norm(one[1] - two[1]) == pytest.approx(2 * G * p[-1], rel=1e-6)


def test_problems_4_to_6_bound_each_other():
    """Weights above their reference never help, so (4) and (5) have one value; (6) is above (5), level with it at the reference, and no chord lies below it."""
    rng, N, d = np.random.default_rng(0), 8, 2
    equal = 0
    for _ in range(200):
        X, y, p = rng.normal(size=(N, d)), rng.normal(size=N), rng.uniform(0.05, 0.2, N)
        rest = {"offset": rng.uniform(size=N), **dict(zip(KAPPAS, 10 ** rng.uniform(-2, 1, 3), strict=True))}  # fmt: skip
        q, w = rng.exponential(p), rng.normal(size=d)
        low = np.minimum(q, p)
        five, six = adaptation.weighted_objective, adaptation.joint_objective
        assert five(low, w, X, y, p, **rest) <= five(q, w, X, y, p, **rest) + 1e-12
        assert five(low, w, X, y, p, **rest) <= six(1 / low, w, X, y, p, **rest) + 1e-12
        equal = max(equal, abs(six(1 / p, w, X, y, p, **rest) - five(p, w, X, y, p, **rest)))
        ends = [(rng.normal(size=d), (1 + rng.exponential(size=N)) / p) for _ in range(2)]
        middle = [(a + b) / 2 for a, b in zip(*ends, strict=True)]
        ends = [six(u, w, X, y, p, **rest) for w, u in ends]
        assert six(middle[1], middle[0], X, y, p, **rest) <= sum(ends) / 2 * (1 + 1e-12)
        # without losses the term of kappa_1 is linear: the chord is the function
    assert equal < 1e-9
    still = {"offset": np.zeros(N), "kappa_1": 1.0}
    at = [six(f / p, np.zeros(d), X, np.zeros(N), p, **still) for f in (1.0, 2.0, 3.0)]
    assert at[1] == pytest.approx((at[0] + at[2]) / 2) and at[2] > at[0]


def test_theorem_b_1_term_by_term():
    """Each term alone, from the words of the theorem: the weighted loss, the discrepancy of the source's weight, twice the complexity, the distance to the reference; and it is above the simpler bound."""
    rng = np.random.default_rng(0)
    p = np.full(10, 0.1)
    q = p + 0.02 * rng.uniform(-1, 1, 10)
    losses, moved, none = rng.uniform(size=10), np.abs(q - p).sum(), np.zeros(10)
    call = adaptation.published_reweighting_bound
    alone = lambda loss=none, dis=0.0, bound=0.0, rad=0.0: call(  # noqa: E731
        loss, q, p, 4, dis, bound, rad, 0.05
    )
    assert alone(loss=losses) == pytest.approx(sum(a * b for a, b in zip(losses, q, strict=True)))
    assert alone(dis=3.0) == pytest.approx(3 * q[:4].sum())
    assert alone(rad=0.7) == pytest.approx(1.4)
    layers = math.sqrt(math.log(math.log(2 / (1 - moved), 2))) + math.sqrt(math.log(40) / 2)
    norm = math.sqrt(sum(a * a for a in q))
    assert alone(bound=2.0) == pytest.approx(2 * (7 * moved + (norm + 2 * moved) * layers))
    everything = call(losses, q, p, 4, 3.0, 2.0, 0.7, 0.05)
    parts = alone(losses), alone(dis=3.0), alone(rad=0.7), alone(bound=2.0)
    assert everything == pytest.approx(sum(parts))
    assert adaptation.reweighting_bound(losses, q, p, 4, 3.0, 2.0, 0.7, 0.05) < everything


def test_equations_1_and_2_are_of_an_absolute_value():
    """The largest difference in either direction, against every predictor of a fine grid in one column."""
    rng, grid = np.random.default_rng(0), np.linspace(-1.5, 1.5, 3001)[:, None]
    signs = set()
    for _ in range(40):
        Xt, Xs = (rng.normal(size=(6, 1)) * rng.exponential() for _ in range(2))
        yt, ys = (rng.normal(size=6) * rng.exponential() for _ in range(2))
        mean = lambda X, y: ((grid * X.ravel() - y) ** 2).mean(axis=1)  # noqa: E731
        apart = mean(Xt, yt) - mean(Xs, ys)
        largest = np.abs(apart).max()
        for tables in ((Xt, yt, Xs, ys), (Xs, ys, Xt, yt)):
            value = adaptation.labeled_discrepancy(*tables, 1.5)[0]
            assert largest <= value * (1 + 1e-9) and value == pytest.approx(largest, rel=1e-3)
        signs.add(np.sign(apart[np.abs(apart).argmax()]))
    assert signs == {-1.0, 1.0}


def test_the_bound_of_theorem_5_2_is_the_sum_of_its_two_steps():
    """Step by step on runs of noisy projected descent: what smoothness and the projection give, what the mapping without noise adds; both sums together are 4 beta gap / T + 6 noise, and the runs stay below."""
    rng, beta, radius, T = np.random.default_rng(0), 2.5, 1.0, 40
    curve = np.diag([beta, 0.5, -0.3])  # not convex; its gradient moves by at most beta
    f = lambda w: 0.5 * w @ curve @ w + w[0]  # noqa: E731
    slope = lambda w: curve @ w + np.eye(3)[0]  # noqa: E731
    project = lambda w: w / max(1.0, np.linalg.norm(w) / radius)  # noqa: E731
    means, gaps, noise = [], [], 0.0
    least = min(f(project(w)) for w in rng.normal(size=(20_000, 3)))
    for _ in range(60):
        w, squares = np.array([0.9, 0.1, 0.0]), []
        gaps.append(f(w) - least)
        for _ in range(T):
            g, z = slope(w), 0.3 * rng.normal(size=3)
            after = project(w - (g + z) / beta)
            exact, noisy = beta * (w - project(w - g / beta)), beta * (w - after)
            # the descent: |noisy|^2 / (2 beta) is paid by f and by <z, noisy> / beta
            assert noisy @ noisy / (2 * beta) <= f(w) - f(after) + z @ noisy / beta + 1e-12
            assert z @ noisy <= z @ exact + z @ z + 1e-12
            assert exact @ exact <= 2 * (noisy @ noisy) + 2 * (z @ z) + 1e-12
            squares.append(exact @ exact)
            w = after
        means.append(np.mean(squares))
    gap, noise = gaps[0], 3 * 0.3**2  # E |z|^2
    of_noisy = 2 * beta * gap / T + 2 * noise  # the mean of |noisy|^2: <z, exact> is 0 on average
    bound = adaptation.stationarity_bound(beta, gap, noise, T)
    assert bound == pytest.approx(2 * of_noisy + 2 * noise, rel=1e-12)
    assert np.mean(means) < bound
    # a point is stationary where the mapping is 0: in the ball without slope, or at its edge with a slope that points out
    inside, edge = np.zeros(3), np.array([1.0, 0.0, 0.0])
    mapping = lambda w, g: beta * (w - project(w - g / beta))  # noqa: E731
    assert not mapping(inside, np.zeros(3)).any() and not mapping(edge, -edge).any()
    assert np.allclose(mapping(inside, 0.1 * edge), 0.1 * edge) and mapping(edge, edge).any()


def test_equation_8_is_a_slope_times_a_random_walk():
    """The steepest slope of (z - y)^2 within the bounds, by a grid, times Lambda times the walk's length, which for orthogonal records is r |q| whatever the signs; the complexity of tiny labels reaches half of it."""
    rng, r, Lambda, Y = np.random.default_rng(0), 0.8, 1.5, 0.7
    z, y = np.linspace(-Lambda * r, Lambda * r, 401)[:, None], np.linspace(-Y, Y, 101)
    losses = (z - y) ** 2
    slope = np.abs(np.diff(losses, axis=0)).max() / np.diff(z[:2], axis=0).item()
    q = rng.uniform(size=12) / 12
    X = r * np.eye(12)
    for _ in range(5):
        signs = rng.choice([-1, 1], 12)
        assert Lambda * np.linalg.norm((signs * q) @ X) == pytest.approx(Lambda * r * np.linalg.norm(q))  # fmt: skip
    found = adaptation.rademacher_bound(q, r, Lambda, Y)
    assert found == pytest.approx(slope * Lambda * r * np.linalg.norm(q), rel=5e-3)
    # labels near +-Y and small predictions: (z - y)^2 - y^2 is nearly -2 y z, half of the steepest slope
    sups = [
        adaptation.trust_region_max(1e-6 * (X.T * (s * q)) @ X, 1e-3 * X.T @ (s * q * Y), 0.0, Lambda)[0]
        for s in rng.choice([-1, 1], size=(50, 12))
    ]  # fmt: skip
    reached = np.mean(sups) / adaptation.rademacher_bound(q, 1e-3 * r, Lambda, Y)
    assert 0.9 < reached <= 1
