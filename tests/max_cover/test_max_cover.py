"""Max cover: every count against brute force, every draw against its law, every price against its receipt."""

import itertools
import math
import tracemalloc
import warnings
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from unittest import mock

import numpy as np
import pytest
from scipy import special, stats
from sklearn.cluster import KMeans
from test_estimators import Untouchable
from test_mechanisms import rejects, wrong_laws

from dplit import MaxCoverKMeans, PEMeans, audit, geometry, max_cover
from dplit.accounting import Receipt, cover_exponent, gaussian_mu
from dplit.datasets import kmeans_loss, make_clipped_gaussians
from dplit.estimators import Clusters, reconciled
from dplit.geometry import (
    ball_volume_log,
    gaussian_projection,
    nearest,
    projections,
    uniform_in_ball,
    uniform_on_sphere,
)
from dplit.inputs import MappedRows, PrivacyWarning, map_blocks, quantize
from dplit.inputs.lattice import lattice
from dplit.max_cover import grid as max_cover_grid
from dplit.max_cover import kmeans as max_cover_kmeans
from dplit.max_cover import paper as mc
from dplit.max_cover.paper import Covers
from dplit.mechanisms import Noise, count_weight, lattice_distribution, watch
from dplit.private_evolution import kmeans as private_evolution_kmeans

COMMON = {"epsilon": 1.0, "delta": 1e-6, "radius": 4.0, "random_state": 0}
EXTENSION = partial(MaxCoverKMeans, **COMMON, finest=0.2)
PAPER = partial(MaxCoverKMeans, **COMMON, variant="paper", n_public=60)
VARIANTS = pytest.mark.parametrize("make", [EXTENSION, PAPER], ids=["extension", "paper"])
KINDS = [(d, r, g) for d, r in ((1, 0.1), (2, 0.35), (3, 0.9)) for g in (0.5, 1.0, 2.0)]
SNAP = pytest.mark.parametrize("snap", [True, False], ids=["snap", "ball"])


def rows_in_ball(n, d, seed=0):
    """Random points of the unit ball, some of them twice, one in the middle and one on the edge."""
    X = uniform_in_ball(n, d, rng=seed)
    return np.vstack([X, X[: n // 4], np.zeros((1, d)), np.eye(d)[:1]])


# ---------------------------------------------------------------- counts


def brute_force(points, radius, ratio, snap, high):
    """(nodes, covers): every node of the grid in whole numbers, and whether it covers each point. Nothing is shared with the module."""
    d = points.shape[1]
    unit = ratio * radius / math.sqrt(d)
    nodes = np.array(list(itertools.product(range(-high, high + 1), repeat=d)))
    if snap:
        reach2 = d * (1 + 1 / Fraction(ratio)) ** 2  # an exact number
        length2 = ((np.rint(points / unit)[:, None] - nodes) ** 2).sum(axis=-1)
        return nodes, length2 <= math.ceil(reach2) - 1
    length = np.linalg.norm(points[:, None] / radius - nodes * (ratio / math.sqrt(d)), axis=-1)
    return nodes, length < (1 + ratio) * (1 - 1e-12)  # r + unit sqrt(d), in units of r


def same_counts(cover, expected):
    """The cover's counts, histogram and look-ups say `expected`, a count for every node."""
    seen = cover.coverage()
    full = np.zeros(cover.size, dtype=int)
    full[seen.keys] = seen.counts
    many = np.bincount(expected, minlength=1)
    assert np.array_equal(full, expected) and np.all(np.diff(seen.keys) > 0) and seen.counts.all()
    assert np.array_equal(cover.histogram[1 : len(many)], many[1:])
    assert not cover.histogram[len(many) :].any()
    for count in np.flatnonzero(many[1:]) + 1:
        found = [cover.find(int(count), rank) for rank in range(many[count])]
        assert sorted(found) == np.flatnonzero(expected == count).tolist()


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "sparse"])
@pytest.mark.parametrize("n", [3, 40])
@SNAP
@pytest.mark.parametrize(("d", "radius", "ratio"), KINDS)
def test_counts_are_those_of_brute_force_after_every_removal(
    d, radius, ratio, snap, n, dense, monkeypatch
):
    monkeypatch.setattr(max_cover_grid, "_CHUNK", 1000)
    monkeypatch.setattr(max_cover_grid, "_DENSE", max_cover_grid._DENSE if dense else 0)
    points, rng = rows_in_ball(n, d, seed=n), np.random.default_rng(d)
    cover = max_cover_grid.GridCover(points, radius, ratio, snap)
    nodes, covers = brute_force(points, radius, ratio, snap, cover.nodes.high)
    live = np.ones(len(points), dtype=bool)
    assert cover.size == len(nodes)
    assert np.allclose(cover.node(np.arange(cover.size)), nodes * ratio * radius / math.sqrt(d))
    same_counts(cover, covers[live].sum(axis=0))
    for step in range(4):
        counts = covers[live].sum(axis=0)
        where = np.flatnonzero(counts if step % 2 == 0 and counts.any() else counts == 0)
        key = int(rng.choice(where))
        cover.remove(key)
        live &= ~covers[:, key]
        assert np.array_equal(cover.live(), live)
        same_counts(cover, covers[live].sum(axis=0))


@SNAP
@pytest.mark.parametrize(("d", "radius", "ratio"), KINDS)
def test_no_node_outside_the_grid_covers_a_point_of_the_ball(d, radius, ratio, snap):
    points = np.vstack([rows_in_ball(30, d), np.eye(d), -np.eye(d)])
    high = max_cover_grid._grid(d, radius, ratio, snap)[1:3][1]
    nodes, covers = brute_force(points, radius, ratio, snap, high + 2)
    outside = np.abs(nodes).max(axis=1) > high
    assert outside.any() and not covers[:, outside].any() and covers.any(axis=1).all()


def test_an_empty_cover_has_no_counts_and_stays_empty():
    for snap in (True, False):
        cover = max_cover_grid.GridCover(np.zeros((0, 2)), 0.3, 1.0, snap)
        same_counts(cover, np.zeros(cover.size, dtype=int))
        cover.remove(0)
        assert cover.live().shape == (0,) and not cover.histogram[1:].any()


SIZES = [(2, 1, 21), (3, 1, 171), (4, 1, 1257), (5, 1, 9153), (2, 0.5, 57), (3, 0.5, 587)]
SIZES += [(4, 0.5, 6265), (5, 0.5, 69325), (2, 2, 13), (3, 2, 81), (4, 2, 321), (5, 2, 2463)]


@pytest.mark.parametrize(("d", "ratio", "size"), SIZES)
def test_stencils_are_as_large_as_counted_by_hand(d, ratio, size):
    offsets = max_cover_grid.stencil(d, ratio)
    assert len(offsets) == size == len(np.unique(offsets, axis=0))
    assert np.array_equal(np.sort(offsets, axis=0), np.sort(-offsets, axis=0))


@pytest.mark.parametrize(("d", "size"), [(2, 32), (3, 304), (4, 2560), (5, 22944)])
def test_stencils_of_the_paper_are_the_pairs_of_lemma_7(d, size):
    """Lemma 7 itself: s + (2 s - 1) v for s in {0, 1}^d and whole v >= 0 of squared length below 4 d."""
    steps = range(math.isqrt(4 * d) + 1)
    V = [v for v in itertools.product(steps, repeat=d) if sum(x * x for x in v) < 4 * d]
    S = list(itertools.product((0, 1), repeat=d))
    assert len(V) * 2**d == size
    pairs = {tuple(a + (2 * a - 1) * b for a, b in zip(s, v, strict=True)) for s in S for v in V}
    assert (
        pairs == set(map(tuple, max_cover_grid.stencil(d, 1.0, snap=False).tolist()))
        and len(pairs) == size
    )


# ---------------------------------------------------------------- the guarantee


@SNAP
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_one_node_covers_any_ball_of_the_radius(d, snap):
    rng = np.random.default_rng(d)
    for _ in range(30):
        ratio, radius = rng.choice([0.5, 1.0, 2.0]), rng.uniform(0.15, 0.8) * (2 if d == 4 else 1)
        middle = uniform_in_ball(1, d, rng=rng)
        ball = middle + uniform_in_ball(200, d, radius * (1 - 1e-9), rng=rng)
        edge = ball - middle
        edge *= radius * (1 - 1e-9) / np.linalg.norm(edge, axis=1, keepdims=True)
        ball = np.vstack([ball, middle + edge])
        ball = ball[np.linalg.norm(ball, axis=1) <= 1]
        assert max_cover_grid.GridCover(ball, radius, ratio, snap).coverage().counts.max(
            initial=0
        ) == len(ball)


def test_one_node_does_not_cover_much_larger_balls():
    ball = np.array([[-1.0], [1.0]])  # a ball of radius 1 needs a cover radius of 1
    for snap in (True, False):
        assert max_cover_grid.GridCover(ball, 0.4, 1.0, snap).coverage().counts.max() == 1


@SNAP
@pytest.mark.parametrize(("d", "radius", "ratio"), KINDS)
def test_covered_points_are_near_their_node(d, radius, ratio, snap):
    points = rows_in_ball(300, d)
    cover = max_cover_grid.GridCover(points, radius, ratio, snap)
    reach = radius * (1 + ratio * (1.5 if snap else 1.0))
    farthest = 0.0
    for key in cover.coverage().keys[::7]:
        before = cover.live()
        cover.remove(int(key))
        distance = np.linalg.norm(points[before & ~cover.live()] - cover.node(int(key)), axis=1)
        farthest = max(farthest, distance.max(initial=0))
    assert 0.5 * reach < farthest < reach


def test_radii_start_at_the_finest_and_end_where_one_ball_covers_all():
    assert np.allclose(mc.cover_radii(0.02), 0.02 * 2.0 ** np.arange(7))
    for n in (5, 60, 1000, 1024, 50_000):  # the paper: ceil(log_2(2 n)) levels from 1 / n
        assert len(mc.cover_radii(1 / n)) == math.ceil(math.log2(2 * n))
    for finest, ratio in ((0.3, 0.1), (0.01, 3.0), (1.9, 1.0)):
        radii = mc.cover_radii(finest, ratio)
        assert radii[0] == finest and radii[-1] < 2 <= radii[-1] * (1 + ratio)


# ---------------------------------------------------------------- draws


def joint_distribution(covers, n_picks, exponent):
    """Probability of every sequence of picks, points leaving as they are covered."""
    law = {(): (1.0, np.ones(len(covers), dtype=bool))}
    for _ in range(n_picks):
        longer = {}
        for picks, (p, live) in law.items():
            for key, q in enumerate(special.softmax(exponent * covers[live].sum(axis=0))):
                longer[(*picks, key)] = (p * q, live & ~covers[:, key])
        law = longer
    return {picks: p for picks, (p, _) in law.items()}


def joint_p(n_runs, snap, seed=0, exponent=0.8):
    """Chi-square tests of three picks in a row from a tiny grid: with their law, and with the law if covered points stayed."""
    points, radius = np.array([[-0.6], [0.1], [0.2], [0.6], [0.55], [1.0]]), 0.5
    high = max_cover_grid.GridCover(points, radius, 1.0, snap).nodes.high
    nodes, covers = brute_force(points, radius, 1.0, snap, high)
    law = joint_distribution(covers, 3, exponent)
    choose, seen = Noise(seed).cover(exponent), dict.fromkeys(law, 0)
    for _ in range(n_runs):
        picks = mc.grid_set_cover(points, radius, 3, choose, snap=snap)[0]
        seen[tuple(np.rint(picks[:, 0] / radius).astype(int) + high)] += 1
    once = joint_distribution(covers, 1, exponent)
    stale = [math.prod(once[i,] for i in picks) for picks in law]
    assert len(nodes) == (7 if snap else 9)
    return [
        pooled_p(list(seen.values()), n_runs * np.array(p)) for p in (list(law.values()), stale)
    ]


def pooled_p(observed, expected):
    """Chi-square test; what is expected less than ten times is taken together."""
    observed, rare = np.array(observed), expected < 10
    if rare.any():
        observed = np.r_[observed[~rare], observed[rare].sum()]
        expected = np.r_[expected[~rare], expected[rare].sum()]
    return stats.chisquare(observed, expected).pvalue


@SNAP
def test_three_picks_in_a_row_have_their_joint_distribution(snap):
    # false-alarm rate 1e-6; the same runs reject the law of picks without removal
    p, p_stale = joint_p(3000, snap)
    assert p > 1e-6 > p_stale


@pytest.mark.slow
@SNAP
@pytest.mark.parametrize("exponent", [0.05, 0.3, 1.0])
def test_three_picks_in_a_row_have_their_joint_distribution_in_many_runs(snap, exponent):
    assert joint_p(40_000, snap, 1, exponent)[0] > 1e-6  # false-alarm rate 6e-6 in all


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "sparse"])
@SNAP
def test_a_pick_has_the_distribution_of_the_exponential_mechanism_over_every_node(
    snap, dense, monkeypatch
):
    # false-alarm rate 1e-6 a case; 10,000 draws reject what others printed and programmed
    monkeypatch.setattr(max_cover_grid, "_DENSE", max_cover_grid._DENSE if dense else 0)
    points, n = rows_in_ball(6, 2, seed=4), 10_000
    cover = max_cover_grid.GridCover(points, 1.0, 2.0, snap)
    _, covers = brute_force(points, 1.0, 2.0, snap, cover.nodes.high)
    counts, choose = covers.sum(axis=0), Noise(5).cover(0.3)
    drawn = np.bincount([choose(cover) for _ in range(n)], minlength=cover.size)
    assert (counts == 0).any() and stats.chisquare(
        drawn, n * special.softmax(0.3 * counts)
    ).pvalue > 1e-6
    laws = wrong_laws(counts, 0.3)
    del laws["ln len"]  # seen on the seven nodes of test_mechanisms
    assert all(rejects(law, counts, 0.3, n) for law in laws.values())


# ---------------------------------------------------------------- the ladder


def with_candidates(make, X, **parameters):
    """A fitted model, and the candidates that its ladder of covers chose."""
    seen, honest = [], mc.max_cover

    def look(*args, **named):
        seen.append(honest(*args, **named))
        return seen[-1]

    with mock.patch.object(mc, "max_cover", look):
        model = make(**parameters).fit(X)
    return model, seen[0]


def test_rows_that_were_covered_are_gone_on_all_later_levels():
    points, radii, seen = rows_in_ball(200, 2), mc.cover_radii(0.1), []
    choose = Noise(0).cover(0.5)

    def look(grid):
        seen.append((grid, choose(grid)))
        return seen[-1][1]

    mc.max_cover(points, radii, 4, look)
    live = np.ones(len(points), dtype=bool)
    left = []
    for radius, level in zip(radii, zip(*[iter(seen)] * 4, strict=True), strict=True):
        cover, chosen = level[0][0], [key for _, key in level]
        assert len(cover.live()) == live.sum()  # this level began with the rows that were left
        _, covers = brute_force(points[live], radius, 1.0, True, cover.nodes.high)
        live[live] = ~covers[:, chosen].any(axis=1)
        left.append(live.sum())
    assert left[0] > left[2] > left[-1] == 0 and np.all(np.diff(left) <= 0)


@contextmanager
def broken(name):
    """A way to lose the privacy of the covers."""
    remove, cover, build = (
        max_cover_grid.GridCover.remove,
        mc.grid_set_cover,
        max_cover_grid.GridCover.__init__,
    )

    def forgetful(points, radii, n_picks, choose, **how):
        return np.concatenate([cover(points, r, n_picks, choose, **how)[0] for r in radii])

    def last_stays(self, key):
        live = self._live
        remove(self, key)
        if len(live) and live[-1] not in self._live:  # put the last one back
            mine = live[-1:]
            keys, more = self._tally(mine)
            self._live = np.r_[self._live, mine]
            before = self._counts[keys]
            self._counts[keys] += more.astype(self._counts.dtype)
            self.histogram = np.bincount(self._counts, minlength=len(self.histogram))
            assert (before >= 0).all()

    def twice(self, points, *args):
        build(self, np.repeat(points, 2, axis=0), *args)
        self._cells.owner = self._cells.owner[::2]

    def centred(self, points, *args):
        build(self, points - points.mean(axis=0) if len(points) else points, *args)

    patches = {
        "every level starts anew": (mc, "max_cover", forgetful),
        "a row stays after it was covered": (max_cover_grid.GridCover, "remove", last_stays),
        "a row counts twice": (max_cover_grid.GridCover, "__init__", twice),
        "a row moves the others": (max_cover_grid.GridCover, "__init__", centred),
    }
    with mock.patch.object(*patches[name]):
        yield


@pytest.mark.parametrize(
    ("bug", "finding"),
    [
        ("every level starts anew", "a row counts after it was covered"),
        ("a row stays after it was covered", "a row counts after it was covered"),
        ("a row counts twice", "moved 2 times the declared sensitivity"),
        ("a row moves the others", "counts move both ways"),
    ],
)
def test_replay_finds_what_breaks_the_cost_of_the_covers(bug, finding):
    model = EXTENSION(2, epsilon=4.0)
    pairs = audit.neighbors(2, 4.0, n_random=0)[:-1]
    with broken(bug):
        found = audit.replay(model, pairs, seeds=range(1))
    assert any(finding in sentence for sentence in found), found


@pytest.mark.slow
@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@VARIANTS
def test_replay_finds_nothing_in_many_runs(make, neighboring):
    for d in (1, 2, 5):
        model = make(3, epsilon=3.0, neighboring=neighboring, n_lloyd=1)
        pairs = audit.neighbors(d, 4.0, neighboring=neighboring, n_random=12, seed=d)
        assert not audit.replay(model, pairs, seeds=range(10))


# ---------------------------------------------------------------- projection


def test_a_row_is_projected_to_the_same_bits_whatever_the_others_are(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 137)) * np.exp(rng.normal(size=(5000, 1)))
    W, center = gaussian_projection(137, 3, rng), rng.normal(size=137)
    how = {"radius": 9.7, "center": center, "divisor": 1.5}
    whole = projections.project(X, W, **how)  # eight blocks or more: threads
    assert len(X) * 137 > 8 * 2**17 / 2 and whole.shape == (5000, 3)
    assert np.array_equal(
        whole[::500], np.vstack([projections.project(x[None], W, **how) for x in X[::500]])
    )
    assert np.array_equal(whole[::-1], projections.project(X[::-1], W, **how))
    X2 = X.copy()
    X2[1:] = 1e9
    assert np.array_equal(whole[0], projections.project(X2, W, **how)[0])
    for rows in (1, 7, 640):
        monkeypatch.setattr(projections, "map_blocks", partial(map_blocks, block_rows=rows))
        assert np.array_equal(whole[:900], projections.project(X[:900], W, **how))


def test_projection_is_exact_in_whole_numbers_and_near_the_real_one():
    rng = np.random.default_rng(1)
    X, W = rng.normal(size=(40, 60)), gaussian_projection(60, 4, rng)
    radius, divisor = 30.0, 2.0
    points = projections.project(X, W, radius=radius, divisor=divisor)
    assert np.abs(points - X @ W / (radius * divisor)).max() < 1e-5 < np.abs(points).max()
    step, _ = lattice(radius)
    longest = np.sqrt((W**2).sum(axis=0).max())
    whole = np.rint(W * (2.0**31 / longest)).astype(int)
    assert max(math.isqrt(sum(int(w) ** 2 for w in column)) for column in whole.T) <= 2**31 + 8
    for q, point in zip(quantize(X, radius).astype(int), points, strict=True):
        exact = [sum(int(a) * int(b) for a, b in zip(q, column, strict=True)) for column in whole.T]
        assert all(int(float(e)) == e for e in exact)  # every dot product fits a float
        scale = step / (radius * divisor) * longest / 2.0**31
        assert np.array_equal(np.array(exact, dtype=float) * scale, point)


@pytest.mark.parametrize("d_out", [None, 2])
def test_projection_depends_on_row_minus_center_only_and_stays_in_the_ball(d_out):
    X = np.random.default_rng(2).integers(-900, 900, size=(50, 5)) / 64
    W = None if d_out is None else gaussian_projection(5, d_out, 3)
    move = np.array([3.0, -1.0, 0.5, 100.0, 0.0])
    here = projections.project(X, W, radius=8.0)
    assert np.array_equal(here, projections.project(X + move, W, radius=8.0, center=move))
    assert np.linalg.norm(here, axis=1).max() <= 1 + 1e-15
    assert np.array_equal(here, projections.project(X * 4, W, radius=32.0))
    assert (np.linalg.norm(here, axis=1) < 0.999).any() and (
        np.linalg.norm(here, axis=1) > 0.999
    ).any()


# ---------------------------------------------------------------- shapes

FAR = np.r_[np.zeros((30, 2)), [[1e6, 1e6]]]
ODD = {
    "all equal": np.full((50, 2), 1.3),
    "all zero": np.zeros((40, 2)),
    "one far outlier": FAR,
    "one row": np.ones((1, 2)),
    "two rows": np.array([[1.0, 0.0], [-1.0, 0.0]]),
    "one column": np.linspace(-3, 3, 41)[:, None],
    "projected": np.random.default_rng(0).normal(size=(60, 7)),
}


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("kind", ODD)
@VARIANTS
def test_the_number_of_centers_and_of_candidates_is_fixed(make, kind, k):
    X = ODD[kind]
    model, candidates = with_candidates(make, X, n_clusters=k)
    assert model.cluster_centers_.shape == (k, X.shape[1])
    assert np.linalg.norm(model.cluster_centers_, axis=1).max() <= 4.0 * (1 + 1e-9)
    plan = model._covers(X.shape[1])
    assert plan.n_picks == (k if make is PAPER else 3 * k if plan.ratio == 2 else 2 * k)
    assert candidates.shape == (plan.n_picks * len(mc.cover_radii(plan.finest, plan.ratio)), plan.d)
    assert np.linalg.norm(candidates, axis=1).max() <= 1 + 1e-12


def test_the_printed_plan_is_the_papers():
    plan = lambda **how: mc.published_covers(PAPER(4, **how))  # noqa: E731
    # floor(ln(n) / 2), 1 / n, k
    assert plan(n_public=1000) == mc.Covers(3, 1e-3, 1.0, 4, snap=False)
    assert plan(n_public=2).d == 1 and plan(n_public=1000, ratio=0.1).n_picks == 10  # 4 ln 10 = 9.2


@pytest.mark.parametrize("k, ratio, n_picks", [
    (10, 0.3, 14),  # not k ceil(ln(1 / g)) = 20, nor k ln(1 / g) = 12.04
    (64, 0.2, 104),  # not 128
    (10, 0.7, 10),  # k ln 2 = 6.9, below k
    (10, 1.0, 10), (10, 2.0, 10),  # k ln 1 = 0
])  # fmt: skip
def test_the_published_number_of_choices(k, ratio, n_picks):
    assert (
        mc.published_picks(k, ratio)
        == n_picks
        == mc.published_covers(PAPER(k, ratio=ratio)).n_picks
    )
    # the least whole number from k on whose k-th root of e^ is ceil(1 / g), found by counting
    enough = (m for m in range(k, 1000) if math.exp(m / k) >= math.ceil(1 / ratio))
    assert n_picks == next(enough)
    # what Lemma 9 wants of it: so many greedy choices miss a share of at most g
    assert (1 - 1 / k) ** n_picks <= ratio


# ---------------------------------------------------------------- noise


@pytest.mark.parametrize("radius", [1.0, 1000.0])
def test_a_center_is_as_noisy_as_its_receipt_says(radius):
    """One cluster around the middle: the error is the noise of the sum over the number of rows. 1200 numbers: five standard errors are 10 %."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6))
    X = np.r_[X, -X] * radius / 20
    how = {**COMMON, "radius": radius, "finest": 0.5, "shares": (0.0, 0.2, 0.2, 0.6), "zoom": False}
    errors = []
    for seed in range(200):
        model = MaxCoverKMeans(1, **{**how, "random_state": seed}).fit(X)
        errors.append(model.cluster_centers_[0])
    (line,) = [r for r in model.spent_.releases if r.label == "sums and counts"]
    assert np.std(errors) == pytest.approx(line.scale / len(X), rel=0.10)
    assert line.sensitivity == pytest.approx(radius * math.hypot(1, count_weight(6)), rel=1e-5)


def test_groups_that_look_empty_take_their_fallback_and_others_are_not_biased():
    """Groups of 0, 1 and 400 rows; a count has noise of about one row. Means of 300 runs lie within five standard errors."""
    X, fallback = np.full((401, 2), [0.5, -0.6]), np.array([[9.0, 0.0], [9.0, 1.0], [9.0, 2.0]])
    groups, out = np.r_[1, np.full(400, 2)], []
    for seed in range(300):
        noise, buy = Noise(seed), {"X": X, "groups": groups, "n_groups": 3, "center": None}
        means, *_ = max_cover_kmeans._averages(noise, 0.8, 1.0, fallback, **buy, mu=1.0)
        out.append(means)
    out, deviation = np.array(out), noise.releases[-1].scale / 0.8
    assert 1 < deviation < 2
    # normal tails: beyond 2, and beyond 2 - 1 / 1.6
    for j, often in (
        (0, 0.97),
        (1, 0.9),
        (2, 0.0),
    ):
        share = np.mean((out[:, j] == fallback[j]).all(axis=1))
        assert share == 0 if j == 2 else often - 0.05 < share < 1
    error, five = out[:, 2].mean(axis=0) - X[0], 5 * out[:, 2].std(axis=0) / math.sqrt(300)
    assert np.all(np.abs(error) < five)
    assert np.all(five < 0.5 * deviation / 400)  # a count wrong by one deviation would be seen


@pytest.mark.parametrize("power", [-7, 5])
@VARIANTS
def test_a_change_of_unit_by_a_power_of_two_changes_nothing_else(make, power):
    X, a = np.random.default_rng(3).normal(size=(70, 5)), 2.0**power
    one = make(3, n_lloyd=1).fit(X).cluster_centers_
    assert np.array_equal(make(3, n_lloyd=1, radius=4.0 * a).fit(a * X).cluster_centers_, a * one)


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_weights_get_two_sided_geometric_noise(neighboring):
    """P(0) / P(1) = exp(epsilon), from the noise of many fits; rounding towards zero would double it at least."""
    noise = []

    def look(event):
        if event.label == "weights":
            noise.append(np.ravel(event.outcome - event.value))
        return event.outcome

    model = EXTENSION(1, n_picks=400, n_components=1, finest=1.5, epsilon=4.0)
    model.set_params(neighboring=neighboring)
    with watch(look):
        for seed in range(30):
            model.set_params(random_state=seed).fit(np.zeros((3, 1)))
    noise = np.concatenate(noise)
    (line,) = [r for r in model.spent_.releases if r.label == "weights"]
    epsilon = line.epsilon / (2 if neighboring == "replace" else 1)
    n = [np.count_nonzero(noise == z) for z in (-1, 0, 1)]
    ratio = math.log(2 * n[1] / (n[0] + n[2]))
    error = math.sqrt(1 / n[1] + 1 / (n[0] + n[2]))
    assert abs(ratio - epsilon) < 5 * error < 0.2 < epsilon  # false-alarm rate 6e-7


# ---------------------------------------------------------------- recentring


EDGES = 2 * 4.0 * 2.0 ** (np.arange(-15, 1) / 4)


def test_recentring_finds_where_the_rows_are_and_how_far_they_reach():
    """94 % of the rows within 0.3, all but 1 % within 0.8: the radius is the first edge beyond 0.8."""
    X = np.repeat([0.3, 0.8], [3760, 240])[:, None] * uniform_on_sphere(4000, 2, rng=0)
    X = np.r_[X + [1.5, -1.0], np.full((40, 2), [-3.9, 0.0])]
    middle, radius = max_cover_kmeans.recenter(X, 4.0, mu=100.0, epsilon=30.0, noise=Noise(1))
    assert np.linalg.norm(middle - X.mean(axis=0)) < 0.01
    reach = np.quantile(np.linalg.norm(X - middle, axis=1), 0.95)
    assert radius == EDGES[np.searchsorted(EDGES, reach)] and 0.8 < radius < 1.2
    moved = max_cover_kmeans.recenter(
        X + 64, 4.0, center=[64, 64], mu=100.0, epsilon=30.0, noise=Noise(1)
    )
    assert np.allclose(moved[0] - 64, middle, atol=1e-5) and moved[1] == radius


@pytest.mark.parametrize("n", [1, 30])
def test_recentring_by_noise_alone_gives_one_of_sixteen_public_balls(n):
    X, radii = np.full((n, 3), 1e5), set()
    for seed in range(60):
        middle, radius = max_cover_kmeans.recenter(X, 4.0, mu=0.01, epsilon=0.01, noise=Noise(seed))
        assert np.linalg.norm(middle) <= 4.0 * (1 + 1e-9)
        radii.add(radius)
    assert radii <= set(EDGES.tolist()) and len(radii) > 3


# ---------------------------------------------------------------- candidates

SCALES = sorted([0.1, 0.2, 1 / math.log(100), 1 / math.log(70), 0.7, 1.0, 3.3, 10.0, 80.0])


@pytest.mark.parametrize("scale", SCALES)
def test_empty_candidates_are_kept_as_rarely_as_guaranteed(scale):
    """The exact chance that a candidate without rows passes, whatever noise the others got: at most 1 / (20 m)."""
    for m in (7, 10, 224):
        values = np.arange(int(60 * scale) + 60)
        chance = lattice_distribution("laplace", scale, values)
        passes = [z for z in values[:: max(1, len(values) // 300)]]
        filled = np.full(m, 1e9)
        threshold = next(
            z for z in values if 0 in max_cover_kmeans.worth_keeping(np.r_[z, filled[1:]], scale, 1)
        )
        assert all(
            (0 in max_cover_kmeans.worth_keeping(np.r_[z, filled[1:]], scale, 1))
            == (z >= threshold)
            for z in passes
        )
        assert chance[threshold:].sum() <= 1 / (20 * m)


def test_heavy_candidates_pass_and_too_few_are_filled_up_with_the_heaviest():
    weights = np.array([0.0, 500.0, -3.0, 499.0, 2.0, 498.0, 1.0])
    keep = partial(max_cover_kmeans.worth_keeping, weights, 10.0)
    assert keep(2).tolist() == keep(3).tolist() == [1, 3, 5]
    assert keep(4).tolist() == [1, 3, 4, 5] and keep(5).tolist() == [1, 3, 4, 5, 6]
    assert max_cover_kmeans.worth_keeping(weights, 1000.0, 1).tolist() == [1]
    assert max_cover_kmeans.worth_keeping(weights, 1000.0, 1, n_public=998).tolist() == [
        1,
        3,
    ]  # half of 998
    assert keep(9).tolist() == list(range(7))  # fewer candidates than clusters


def test_clusters_of_candidates_are_weighted_and_padded():
    rng, k = np.random.default_rng(0), 3
    middles = np.array([[0.5, 0.0], [-0.5, 0.0], [0.0, 0.6]])
    candidates = np.vstack([m + rng.uniform(-0.05, 0.05, size=(6, 2)) for m in middles])
    weights = rng.uniform(1, 9, size=18)
    found = mc.cluster_candidates(candidates, weights, k, 5)
    means = [
        np.average(c, axis=0, weights=w)
        for c, w in zip(candidates.reshape(3, 6, 2), weights.reshape(3, 6), strict=True)
    ]
    assert np.allclose(found[nearest(np.array(means), found)], means, atol=1e-5)
    assert np.array_equal(found, mc.cluster_candidates(candidates, weights, k, 5))
    for few in (np.zeros(18), np.r_[1.0, np.zeros(17)], -np.ones(18)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            padded = mc.cluster_candidates(candidates, few, 5, 5)
        assert padded.shape == (5, 2) and np.linalg.norm(padded, axis=1).max() <= 1
        assert len(np.unique(padded.round(6), axis=0)) == 5
    same = mc.cluster_candidates(np.zeros((9, 2)), np.ones(9), 4, 5)  # equal candidates
    assert same.shape == (4, 2) and np.abs(same).max() < 1e-5


# ---------------------------------------------------------------- grids that do not fit

TOO_FINE = [
    {"n_components": 4},
    {"n_components": 3, "finest": 1e-3},
    {"n_components": 5, "finest": 0.05, "n_public": 10**6},
    {"n_components": 7},
    {"finest": 1e-9, "n_components": 3},
    {"ratio": 1e-3},
    {"variant": "paper", "n_public": 50_000},
]


@pytest.mark.parametrize("how", TOO_FINE, ids=str)
def test_a_grid_that_does_not_fit_is_refused_before_x_is_read(how):
    with pytest.raises(ValueError, match="too many nodes") as error:
        EXTENSION(2, **{"finest": 0.02, **how}).fit(Untouchable())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("how", [h for h in TOO_FINE if len(h) < 3 and "ratio" not in h], ids=str)
def test_the_advice_of_a_refusal_works(how):
    X = np.random.default_rng(0).normal(size=(40, 8))
    how = {"finest": 0.02, **how}
    with pytest.raises(ValueError) as error:
        EXTENSION(2, **how).fit(X)
    if how.get("variant") == "paper":
        assert EXTENSION(2, **{**how, "n_components": 2}).fit(X).cluster_centers_.shape == (2, 8)
        return
    advice = str(error.value).split("what fits: ")[1].split(". ")[0].rstrip(".")
    for part in advice.split(" or "):
        name, value = part.split("=")
        value = int(value) if name == "n_components" else float(value)
        assert EXTENSION(2, **{**how, name: value}).fit(X).cluster_centers_.shape == (2, 8)


def test_the_printed_plan_is_not_advised_to_change_what_it_ignores():
    with pytest.raises(ValueError) as error:
        PAPER(2, n_public=50_000).fit(Untouchable())
    assert "n_public" in str(error.value) or "ratio" in str(error.value)
    assert "n_components=3" not in str(error.value)


@pytest.mark.parametrize("n_public", [None, 300, 20_000, 10**6])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
def test_advised_radii_and_dimensions_fit(d, n_public):
    refused = 0
    for finest in np.geomspace(1e-6, 0.5, 40):
        try:
            max_cover_grid.check_grid(d, finest, n_public=n_public)
        except ValueError as error:
            refused += 1
            advice = str(error).split("what fits: ")[1]
            if "n_components=" in advice:
                fitting = int(advice.split("n_components=")[1].split(" ")[0].rstrip("."))
                max_cover_grid.check_grid(fitting, finest, n_public=n_public)
                with pytest.raises(ValueError):
                    max_cover_grid.check_grid(fitting + 1, finest, n_public=n_public)
            if "finest=" in advice:
                fitting = float(advice.split("finest=")[1].split(" ")[0].rstrip("."))
                max_cover_grid.check_grid(d, fitting, n_public=n_public)
    assert refused or d < 3


@pytest.mark.parametrize(("ratio", "most"), [(0.5, 6), (1.0, 7), (3.0, 9)])
def test_columns_up_to_which_a_stencil_is_listed(ratio, most):
    """A ball of radius sqrt(d) (1 + 1 / ratio) has at most 2**20 unit cubes. Mutations: another radius."""
    for d, listed in ((most, True), (most + 1, False)):
        log_volume = d / 2 * math.log(math.pi * d * (1 + 1 / ratio) ** 2) - math.lgamma(d / 2 + 1)
        assert (log_volume <= 20 * math.log(2)) == listed
        assert (max_cover_grid._offsets(d, ratio, True) is not None) == listed


@pytest.mark.parametrize(("d", "ratio"), [(8, 1.0), (7, 0.5), (9, 1.0), (20, 1.0), (500, 1.0)])
def test_a_refusal_lists_no_stencil_too_large_for_memory(d, ratio):
    def guarded(e, ratio, snap, honest=max_cover_grid.stencil):
        reach = math.sqrt(e) * (1 + 1 / ratio)
        volume = math.exp(ball_volume_log(e, reach))  # about as many offsets
        assert 8 * e * volume < 2**28, f"a stencil of {8 * e * volume:.0e} bytes in {e} dimensions"
        return honest(e, ratio, snap)

    with (
        mock.patch.object(max_cover_grid, "stencil", guarded),
        pytest.raises(ValueError, match="too many"),
    ):
        max_cover_grid.check_grid(d, 0.02, ratio)


@pytest.mark.parametrize("how", [{"ratio": 5e-324}, {"finest": 5e-324}], ids=str)
def test_absurdly_small_public_numbers_are_refused_in_words(how):
    with pytest.raises(ValueError):
        EXTENSION(2, **how).fit(Untouchable())


def test_keys_never_wrap_around():
    """The largest grids that are accepted: keys near 2**63, counts equal to those of the same points on a coarse look."""
    finest = {2: 1e-9, 3: 2e-6, 4: 1e-4}
    for d, radius in finest.items():
        max_cover_grid.check_grid(d, radius, n_public=100)
        points = rows_in_ball(20, d)
        cover = max_cover_grid.GridCover(points, radius)
        assert 2**50 < cover.size < 2**63
        seen = cover.coverage()
        assert seen.keys.min() >= 0 and seen.keys.max() < cover.size
        assert seen.counts.sum() == len(points) * len(cover.nodes.offsets)
        corner = cover.node(cover.size - 1)
        assert np.allclose(corner, cover.nodes.high * cover.nodes.unit)
        far = np.abs(cover.node(seen.keys)[:, None] - points).max(axis=2).min(axis=1)
        assert far.max() <= 3 * radius
    with pytest.raises(ValueError, match="too many nodes"):
        max_cover_grid.check_grid(4, 1e-5, n_public=100)


def test_the_paper_needs_a_public_number_of_rows():
    with pytest.raises(ValueError, match="n_public=None"):
        PAPER(2, n_public=None).fit(Untouchable())


@pytest.mark.parametrize(
    "how",
    [
        {"variant": "fast"},
        {"n_components": 0},
        {"n_lloyd": -1},
        {"n_picks": 0},
        {"n_public": 1},
        {"finest": 2.0},
        {"ratio": math.nan},
        {"shares": (0.1, 0.2, 0.3)},
        {"shares": (0.1, 0.2, 0.3, 0.5)},
        {"shares": (0.5, 0.5, 0.0, 0.0)},
        {"shares": (-0.1, 0.3, 0.3, 0.5)},
        {"shares": "mostly"},
    ],
    ids=str,
)
def test_impossible_public_parameters_are_refused_before_x_is_read(how):
    with pytest.raises((TypeError, ValueError), match=next(iter(how))) as error:
        EXTENSION(2, **how).fit(Untouchable())
    assert "\n" not in str(error.value)


def test_memory_does_not_exceed_a_few_grids():
    points = rows_in_ball(16_000, 3)  # 20,002 rows
    tracemalloc.start()
    mc.max_cover(points, mc.cover_radii(0.02), 8, Noise(0).cover(0.05))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # 171 nodes for each of 20,000 rows would be 55 MB of keys and as much of counts
    assert peak < 250e6


# ---------------------------------------------------------------- budgets

SHARES = [(0.08, 0.30, 0.10, 0.52), (0.0, 0.4, 0.1, 0.5)]


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("n_lloyd", [0, 2])
@pytest.mark.parametrize("shares", SHARES, ids=["recentred", "not recentred"])
def test_the_extension_spends_exactly_its_budget(shares, n_lloyd, neighboring):
    for epsilon, delta in ((0.05, 1e-9), (1.0, 1e-6), (8.0, 1e-5)):
        how = {"epsilon": epsilon, "delta": delta, "neighboring": neighboring}
        model = EXTENSION(2, **how, n_lloyd=n_lloyd, shares=shares).fit(np.ones((9, 2)))
        spent = model.spent_
        assert spent.epsilon <= epsilon * (1 + 1e-9) and spent.epsilon > epsilon * (1 - 1e-6)
        assert delta * (1 - 1e-5) < spent.delta_at(epsilon) <= delta


@pytest.mark.parametrize("n_lloyd", [0, 3])
def test_shares_are_shares_of_what_each_kind_could_buy_alone(n_lloyd):
    lines = max_cover_kmeans.max_cover_releases(1.0, 2.0, 1e-6, (0.2, 0.3, 0.1, 0.4), n_lloyd)
    mu = {r.label: r.mu * math.sqrt(r.times) / gaussian_mu(2.0, 1e-6) for r in lines if r.mu}
    assert mu == pytest.approx({"sums and counts": 0.4, "mean to center on": 0.1})
    pure = {r.label: r.epsilon for r in lines if r.epsilon}
    assert pure == pytest.approx({"weights": 0.2, "distances from it": 0.2})
    (cover,) = [r.exponent for r in lines if r.exponent]
    assert cover == pytest.approx(0.3 * cover_exponent(2.0, 1e-6))


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("n_lloyd", [0, 2])
@pytest.mark.parametrize("zoom", [False, True])
def test_a_receipt_has_the_lines_that_were_planned(n_lloyd, neighboring, zoom):
    for shares in SHARES:
        how = {"n_lloyd": n_lloyd, "shares": shares, "zoom": zoom}
        spent = EXTENSION(2, **how, neighboring=neighboring).fit(np.ones((9, 2))).spent_
        lines = {r.label: r for r in spent.releases}
        exponent = lines["covers"].exponent
        scale = exponent / (shares[1] * cover_exponent(1.0, 1e-6))
        how["counted"] = neighboring == "add_remove"
        planned = max_cover_kmeans.max_cover_releases(scale, 1.0, 1e-6, **how)
        looks = (4 + how["counted"]) * zoom  # two, each a mean and distances
        assert len(planned) == len(spent.releases) == looks + (5 if shares[0] else 3)
        for plan in planned:
            line = lines[plan.label]
            assert (line.mechanism, line.times) == (plan.mechanism, plan.times)
            for cost in ("mu", "epsilon", "exponent"):
                ours, theirs = (getattr(r, cost) or 0.0 for r in (line, plan))
                assert ours == pytest.approx(theirs, rel=1e-12)
        assert Receipt(planned, neighboring, 1e-6).epsilon == pytest.approx(spent.epsilon, rel=1e-9)
        assert scale > 1  # composed exactly, every part gets more than its share


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("n_lloyd", [0, 2])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.filterwarnings("ignore::dplit.inputs.PrivacyWarning")
def test_the_paper_never_spends_more_than_it_claims(k, n_lloyd, neighboring):
    for epsilon, delta in ((0.05, 1e-9), (1.0, 1e-6), (1.0, 0.01), (8.0, 1e-5)):
        how = {"epsilon": epsilon, "delta": delta, "neighboring": neighboring}
        model = PAPER(k, **how, n_lloyd=n_lloyd).fit(np.ones((9, 2)))
        assert model.spent_.epsilon <= epsilon and model.spent_.delta_at(epsilon) <= delta
        (line,) = [r for r in model.spent_.releases if r.mechanism == "noisy_avg"]
        assert line.times == (1 + n_lloyd) * (2 if neighboring == "replace" and k > 1 else 1)


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_the_paper_refuses_a_cost_at_which_its_constants_fail(neighboring):
    """Large epsilon: either the receipt keeps the claim or the fit refuses; never more is spent than claimed."""
    for epsilon in (20.0, 100.0, 1000.0):
        model = PAPER(2, epsilon=epsilon, neighboring=neighboring)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            try:
                model.fit(np.ones((9, 2)))
            except ValueError as error:
                assert "published constants" in str(error)
            else:
                assert model.spent_.epsilon <= epsilon


def test_exponents_of_three_proofs_are_in_order():
    for epsilon, delta in itertools.product((0.01, 0.3, 1.0, 3.0), (1e-12, 1e-6, 1e-3, 0.059)):
        gupta = epsilon / (2 * math.log(math.e / delta))
        simple = math.log1p(epsilon / math.log(1 / delta))
        paper, exact = mc.paper_exponent(epsilon, delta), cover_exponent(epsilon, delta)
        assert paper <= gupta <= simple <= exact
    # beyond .06 the order turns
    assert mc.paper_exponent(1.0, 0.07) > 1 / (2 * math.log(math.e / 0.07))


@pytest.mark.parametrize(
    ("epsilon", "n", "delta", "paper", "exact"),
    [
        (0.1, 50_000, 2.2e-8, 0.00209, 0.00841),
        (0.3, 50_000, 2.2e-8, 0.00626, 0.02308),
        (0.2, 5000, 7.1e-7, 0.00520, 0.02125),
        (0.5, 1797, 3.3e-6, 0.01457, 0.05564),
    ],
)
def test_exponents_are_those_of_a_second_implementation(epsilon, n, delta, paper, exact):
    """Numbers computed by another program, with a quarter of delta = n^-1.5 for the covers."""
    assert n**-1.5 / 4 == pytest.approx(delta, rel=0.02)
    printed, ours = (f(epsilon, n**-1.5 / 4) for f in (mc.paper_exponent, cover_exponent))
    assert printed == pytest.approx(paper, rel=0.003) and ours == pytest.approx(exact, rel=0.003)
    assert 3.6 < ours / printed < 4.1


# ---------------------------------------------------------------- utility


def planted(n, k, seed):
    """k tight groups of n / k points in the unit disc, and their middles, at least 0.3 apart."""
    angle = 2 * np.pi * np.arange(k) / k
    middles = 0.7 * np.column_stack([np.cos(angle), np.sin(angle)])
    noise = uniform_in_ball(n, 2, 0.02, rng=seed)
    return np.repeat(middles, n // k, axis=0) + noise, middles


def log_nodes(radius):
    return math.log(max_cover_grid.GridCover(np.zeros((0, 2)), radius).size)


def test_a_level_covers_what_its_lemma_guarantees():
    """Lemma 9 on groups that k nodes cover completely: never broken in 200 runs, and it says something."""
    k, exponent, beta = 4, 0.5, 0.05
    points, _ = planted(4000, k, 0)
    for n_picks in (2, k, 3 * k):
        bound = mc.coverage_bound(len(points), k, n_picks, log_nodes(0.05), exponent, beta)
        choose = Noise(n_picks).cover(exponent)
        least = min(
            np.count_nonzero(~mc.grid_set_cover(points, 0.05, n_picks, choose)[1])
            for _ in range(200)
        )
        assert 0.3 * len(points) < bound <= least
    weak = mc.coverage_bound(len(points), k, k, log_nodes(0.05), 1e-3, beta)
    assert weak < 0  # a tiny exponent promises nothing


def test_the_ladder_moves_points_by_no_more_than_its_lemma_guarantees():
    k, exponent, radii = 3, 5.0, mc.cover_radii(0.05)
    points, middles = planted(6000, k, 1)
    best = np.sum((points - middles[nearest(points, middles)]) ** 2)
    how = (best, len(points), radii, k)
    bound = mc.movement_bound(*how, 6 * k, log_nodes(0.05), exponent, 0.05)
    for seed in range(20):
        candidates = mc.max_cover(points, radii, 6 * k, Noise(seed).cover(exponent))
        moved = np.sum((points - candidates[nearest(points, candidates)]) ** 2)
        assert moved <= bound < 0.5 * np.sum(points**2)
    assert mc.movement_bound(*how, k, log_nodes(0.05), exponent, 0.05) == math.inf


# ---------------------------------------------------------------- end to end


@pytest.fixture(scope="module")
def gaussians():
    return make_clipped_gaussians(10_000, 20, 16, random_state=7)


def fitted_loss(data, seed, epsilon=1.0, **how):
    where = {"radius": data.radius, "center": data.center, "delta": 1e-6, "random_state": seed}
    model = MaxCoverKMeans(16, epsilon=epsilon, **where, **how).fit(data.data)
    return kmeans_loss(data.data, model.cluster_centers_)


def random_candidates(points, radii, n_picks, choose, **how):
    """As many candidates, uniform in the ball: what the covers must beat."""
    return uniform_in_ball(
        n_picks * len(radii),
        points.shape[1],
        rng=len(points) % 1000 + int(choose(max_cover_grid.GridCover(points[:0], 1.0))),
    )


def test_covers_beat_one_mean_and_random_candidates(gaussians):
    single = kmeans_loss(gaussians.data, gaussians.data.mean(axis=0)[None])
    losses, control = [], []
    for seed in range(5):
        losses.append(fitted_loss(gaussians, seed))
        with mock.patch.object(mc, "max_cover", random_candidates):
            control.append(fitted_loss(gaussians, seed))
    assert max(losses) < single / 10, (losses, control, single)
    assert np.median(losses) < np.median(control), (losses, control)


def test_a_large_budget_comes_near_k_means_on_the_candidates(gaussians):
    """With epsilon = 1000 the noise vanishes: what is left is what k-means itself makes of the same candidates."""
    seen, honest = [], mc.cluster_candidates

    def look(*args):
        seen.append((args, honest(*args)))
        return seen[-1][1]

    with (
        mock.patch.object(max_cover_kmeans, "cluster_candidates", look),
        pytest.warns(PrivacyWarning),
    ):
        private = fitted_loss(gaussians, 0, epsilon=1e3)
    (candidates, weights, k, seed), candidate_centers = seen[0]
    ours = KMeans(k, n_init=10, random_state=0).fit(candidates, sample_weight=weights)
    assert kmeans_loss(candidates, candidate_centers) <= 1.3 * kmeans_loss(
        candidates, ours.cluster_centers_
    )
    assert private <= 1.2 * gaussians.expected_loss


# ---------------------------------------------------------------- lower bounds


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-3), (0.5, 1e-4), (1.0, 1e-3), (0.3, 0.0)])
def test_the_lower_bound_is_what_its_proof_needs(epsilon, delta):
    """Two witnesses: the largest L for which the share of words found stays at a half, by search; the cost by its parts."""
    k, words, distance = 3, 2**20, 0.25
    cost, copies = mc.cost_lower_bound(k, epsilon, delta, words, distance, diameter=2.0)

    def found(L):
        """The most that an algorithm can find on average, from the chain of inequalities."""
        chain = math.exp(-2 * L * epsilon)
        leak = delta * (1 - chain) / math.expm1(epsilon)
        return (k / (words - k) + leak) / chain

    assert found(copies) <= 0.5 + 1e-12
    assert cost == pytest.approx(0.25 * (k / 2) * copies * distance * 2.0**2)
    assert copies > 0 and (delta or found(copies + 1) > 0.5)
    with pytest.raises(ValueError, match="n_words=10"):
        mc.cost_lower_bound(k, 1.0, 1e-3, 10, distance)
    assert mc.cost_lower_bound(k, 50.0, 0.0, words, distance) == (0.0, 0)


# Slips in one line that no other test noticed: exact numbers, enumeration, brute force on tiny cases.


@pytest.mark.parametrize("fits, d, ratio", [(True, 4, 2.0), (False, 3, 1.0)])
def test_the_default_grid_is_the_finest_that_fits(monkeypatch, fits, d, ratio):
    calls = []
    monkeypatch.setattr(max_cover_kmeans, "grid_fits", lambda *args: calls.append(args) or fits)
    model = MaxCoverKMeans(3, epsilon=1.0, delta=1e-6, radius=1.0, finest=0.03, n_public=70)
    picks = 3 * math.ceil(2 * math.log1p(ratio) + 0.5)
    assert model._covers() == Covers(d, 0.03, ratio, picks, snap=True)
    assert calls == [(4, 0.03, 2.0, True, 70)]
    assert model._covers(2) == Covers(2, 0.03, 1.0, 3 * 2, snap=True)
    model.set_params(ratio=1.5, n_picks=7)
    assert model._covers() == Covers(d, 0.03, 1.5, 7, snap=True)
    assert calls[-1] == (4, 0.03, 1.5, True, 70)


def test_the_printed_plan_is_made_from_the_number_of_rows():
    model = MaxCoverKMeans(3, epsilon=1.0, delta=1e-6, radius=1.0, n_public=1000, variant="paper")
    whole = Covers(3, 1e-3, 1.0, 3, snap=False)  # ln(1000) / 2 = 3.45
    assert model._covers() == model._covers(50) == whole
    assert model._covers(2) == Covers(2, 1e-3, 1.0, 3, snap=False)
    model.set_params(ratio=0.1, n_components=2)
    assert model._covers() == Covers(2, 1e-3, 0.1, 7, snap=False)  # 3 ln 10 = 6.9
    assert model.set_params(n_public=2)._covers() == Covers(1, 0.5, 0.1, 7, snap=False)


def test_memory_is_what_the_largest_tables_take():
    cost = {"epsilon": 1.0, "delta": 1e-6, "radius": 1.0}
    model = PEMeans(3, population=100, n_components=4, **cost)
    candidate_centers = 10 * private_evolution_kmeans.EXTRA * 3
    for d in (3, 4, 9):
        assert model._memory(d) == 40 * 3 * (d + 1) + 40 * (300 + candidate_centers) * min(d, 4)
    model = MaxCoverKMeans(3, n_picks=7, **cost)
    assert model._memory(5) == 40 * 3 * 6 + 60 * (7 + 3) * (5 + 8)


@pytest.mark.filterwarnings("ignore")
def test_a_cover_s_steps_hand_on_what_they_should(monkeypatch):
    seen, spare = {}, np.array([[0.25, 0.5], [0.5, -0.25]])
    monkeypatch.setattr(max_cover_kmeans, "public_draws", lambda rng, k, d: (0, spare))
    for name in ("recenter", "candidate_weights", "worth_keeping", "cluster_candidates"):
        real = getattr(max_cover_kmeans, name)

        def noted(*args, real=real, name=name, **kw):
            answer = real(*args, **kw)
            if name == "candidate_weights":  # some look empty, and are kept all the same
                answer[:3] = -3.0, 0.5, 1.25
            seen[name] = args, np.arange(len(answer)) if name == "worth_keeping" else answer
            return seen[name][1]

        monkeypatch.setattr(max_cover_kmeans, name, noted)
    rounds, wholes, nearest_center = [], [], geometry.NearestCenter

    def averages(noise, weight, radius, fallback, **buy):
        rounds.append((radius, fallback))
        noise.sums(**buy, radius=radius, weight=weight, label="sums and counts")
        return np.array([[0.5, 0.0], [0.0, 0.5]]) * len(rounds), np.full(2, 7.0 * len(rounds)), 3.0

    def center(centers, radius, whole=False):
        wholes.append(whole)
        return nearest_center(centers, radius, whole=whole)

    made = []

    def clusters(*args, **named):
        made.append(Clusters(*args, **named))
        return made[-1]

    monkeypatch.setattr(max_cover_kmeans, "Clusters", clusters)
    monkeypatch.setattr(max_cover_kmeans, "_averages", averages)
    monkeypatch.setattr(max_cover_kmeans, "NearestCenter", center)
    X = np.random.default_rng(0).normal(size=(40, 2)) / 4 + [1.0, 0.0]
    model = MaxCoverKMeans(2, epsilon=2.0, delta=1e-3, radius=3.0, n_lloyd=2, finest=0.5, random_state=0).fit(X)  # fmt: skip
    (found,) = made
    assert found.sizes.tolist() == [21.0, 21.0] and found.sizes_se == 3.0
    # the number of rows that the zoom bought, and what the rounds before the last one counted
    assert abs(found.totals[0][0] - 40) < 5 * found.totals[0][1]
    assert np.allclose(found.totals[1:], [(14.0, 3 * math.sqrt(2)), (28.0, 3 * math.sqrt(2))])
    sizes, errors, *_ = reconciled(found.sizes, np.full(2, 3.0), found.totals)
    assert np.allclose([model.cluster_sizes_, model.cluster_sizes_se_], [sizes, errors])
    radius, weights, kept = (
        seen["recenter"][1][1],
        seen["candidate_weights"][1],
        seen["worth_keeping"][1],
    )
    assert [r for r, _ in rounds] == [radius] * 3 and np.array_equal(rounds[0][1], spare * radius)
    assert np.array_equal(rounds[2][1], 2 * rounds[1][1]) and wholes[-2:] == [True, True]
    (candidates, used, k, _), _ = seen["cluster_candidates"]
    assert np.array_equal(used, np.maximum(weights[kept], 1)) and k == 2 and len(candidates) == len(kept)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ratio", [0.7, 1.0])
def test_printed_projections_divide_by_one_and_the_ratio(monkeypatch, ratio):
    class Enough(Exception):
        """The rest does not matter."""

    def project(rows, matrix, *, radius, center=None, divisor=1.0):
        raise Enough(radius, divisor)

    monkeypatch.setattr(mc, "project", project)
    model = MaxCoverKMeans(1, epsilon=1.0, delta=1e-3, radius=3.0, ratio=ratio, n_public=20, variant="paper", random_state=0)  # fmt: skip
    with pytest.raises(Enough) as caught:
        model.fit(np.zeros((20, 1)))
    assert caught.value.args == (3.0, 1 + ratio)


def test_no_points_are_covered_by_none():
    cover = max_cover_grid.GridCover(np.zeros((0, 2)), 0.5)
    assert cover.histogram.tolist() == [0]


def test_rows_that_are_computed_are_covered_like_rows_that_are_there():
    X = np.random.default_rng(0).normal(size=(300, 2)) * 0.2
    X[::7] = np.nan
    there = max_cover_grid.GridCover(X[~np.isnan(X[:, 0])], 0.3)
    computed = max_cover_grid.GridCover(MappedRows(X / 2, lambda rows, at: 2 * rows, 2), 0.3)
    assert np.array_equal(computed.histogram, there.histogram)


def test_recentring_on_noise_still_finds_a_ball_with_all_rows():
    """All rows are at one end; in one of ten runs the noise puts the middle at the other, 2 R away."""
    X, farthest = np.ones((5000, 1)), 0.0
    for seed in range(100):
        found = max_cover_kmeans.recenter(X, 1.0, mu=1e-6, epsilon=100.0, noise=Noise(seed))
        away = abs(1.0 - found[0][0])
        assert away <= found[1] * (1 + 1e-9)
        farthest = max(farthest, away)
    assert farthest > 1.7


def test_a_large_stencil_has_the_nodes_of_its_ball_and_a_larger_one_is_refused():
    offsets = max_cover_grid.stencil(3, 1 / 36)
    assert len(offsets) == pytest.approx(4 / 3 * math.pi * (37 * math.sqrt(3)) ** 3, rel=0.01)
    assert len(offsets) > max_cover_grid._STENCIL
    with pytest.raises(ValueError, match="too many nodes"):
        max_cover_grid.stencil(3, 1 / 200)


PARTS = 0.1, 0.3, 0.1, 0.5


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: max_cover.stencil(2.5), TypeError, "d=2.5: stencil"),
        (lambda: max_cover.grid_fits(2, 0.0), ValueError, "radius=0.*the radius of a cover"),
        (lambda: max_cover.GridCover([[0.0], [1.0, 77.5]], 0.1), ValueError, "points cannot be"),
        (lambda: max_cover.GridCover([[0.0]], 0.1, 0.0), ValueError, "ratio=0.*GridCover"),
        (lambda: max_cover.GridCover([[0.0]], 1e-30), ValueError, "too many nodes"),
        (lambda: max_cover.max_cover([[0.0]], [0.1, 0.0], 1, len), ValueError, "radii"),
        (lambda: max_cover.max_cover([[0.0]], [[0.1]], 1, len), ValueError, "radii: max_cover"),
        (lambda: max_cover.grid_set_cover([[0.0]], 0.1, 1, 3), TypeError, "choose"),
        (lambda: max_cover.cover_radii(0.0), ValueError, "finest=0"),
        (
            lambda: max_cover.cluster_candidates([[0.0]], [1, 2], 1, 0),
            ValueError,
            "weights: cluster_c",
        ),
        (lambda: max_cover.coverage_bound(9, 2, 3, 1, [1, 0], 0.1), ValueError, "exponent"),
        (
            lambda: max_cover.max_cover_releases(1, 1, 1e-6, [1, 2, 3, 4]),
            ValueError,
            "shares=.*sum to 1",
        ),
        (lambda: max_cover.max_cover_budget(1, 0.0, "replace", PARTS, 0), ValueError, "delta=0"),
        (lambda: max_cover.worth_keeping([[1.0]], 1.0, 1), ValueError, "weights: worth_keeping"),
        (lambda: max_cover.cost_lower_bound(4, 1.0, 0.0, 4, 0.5), ValueError, "n_words=4"),
    ],
)
def test_the_face_refuses_what_the_lemmas_cannot_take(call, error, words):
    with pytest.raises(error, match=words) as refusal:
        call()
    assert "77.5" not in str(refusal.value)


def test_lists_pass_the_face_and_covers_are_those_of_arrays():
    plain = max_cover_kmeans.max_cover_budget(1.0, 1e-6, "replace", PARTS, 0)
    assert max_cover.max_cover_budget(1, 1e-6, "replace", list(PARTS), 0) == plain
    points = np.array([[0.1, 0.2], [0.5, 0.5]])
    ours, theirs = (
        m.GridCover(p, 0.5) for m, p in ((max_cover, points.tolist()), (max_cover_grid, points))
    )
    assert np.array_equal(ours.histogram, theirs.histogram) and ours.size == theirs.size


@pytest.mark.parametrize("zoom", [True, False])
@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_the_largest_ball_is_answered_and_a_larger_one_refused_before_the_charge(zoom, neighboring):
    """Beyond it, distances of rows from each other are too large to count; it was charged and then refused."""
    X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    make = partial(MaxCoverKMeans, 2, epsilon=1.0, delta=1e-6, zoom=zoom, neighboring=neighboring)
    for radius in (1e-90, 5e89):
        model = make(radius=radius, random_state=0).fit(X * radius)
        assert np.isfinite(model.cluster_centers_).all()
    for radius in (5.0001e89, 6e89, 1e90):
        with pytest.raises(ValueError, match="twice the radius, and needs at most 5e89"):
            make(radius=radius).privacy_cost()
