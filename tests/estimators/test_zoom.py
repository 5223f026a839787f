"""The zoom: what looks cost whatever they show, what they find, and what they leave alone."""

import math
from collections import Counter
from unittest import mock

import numpy as np
import pytest
from scipy import stats

from dplit import HDPEMeans, MaxCoverKMeans, PEMeans
from dplit.accounting import gaussian_mu, gdp_composition
from dplit.audit import neighbors, replay
from dplit.datasets import kmeans_loss, make_clipped_gaussians, make_isotropic_blobs
from dplit.estimators import rows_beyond, tail_end, zoom, zooming
from dplit.max_cover import kmeans as max_cover_kmeans
from dplit.mechanisms import Noise, watch
from dplit.private_evolution import kmeans as private_evolution_kmeans

LABELS = {"mean to zoom in on", "distances to zoom by"}
BOTH = pytest.mark.parametrize("make", [PEMeans, HDPEMeans])


def silent():
    """Noise off: exact values pass."""
    return watch(lambda event: event.value)


def blobs(n=4000, d=2, k=8):
    X = make_isotropic_blobs(n, d, k, random_state=1).data
    X = X - X.mean(axis=0)
    return X / np.linalg.norm(X, axis=1).max()


def looks(spent):
    return sum(r.times for r in spent.releases if r.label == "distances to zoom by")


# ---------------------------------------------------------------- the price


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("factor", [1, 10, 1e4])
def test_looks_cost_what_the_view_says(neighboring, factor):
    noise = Noise(0, neighboring=neighboring)
    view = zoom(blobs() + 0.3, factor, n_total=4000, mu=0.7, noise=noise)
    parts = [r.mu for r in noise.releases for _ in range(r.times)]
    assert gdp_composition(parts) == pytest.approx(view.mu, rel=1e-12)
    assert len(parts) in {2 * t for t in range(1, zooming.LOOKS + 1)}
    assert view.mu**2 <= zooming.LOOKS * (zooming.MEAN + zooming.DISTANCES) * 0.7**2 * (1 + 1e-12)


@BOTH
@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("n_public", [None, 600])
def test_the_receipt_is_exact_however_many_looks(make, neighboring, n_public):
    X, counted = np.random.default_rng(0).normal(size=(600, 20)) + 3, set()
    options = {"neighboring": neighboring, "n_public": n_public, "n_refine": 1}
    for ball in ({"radius": 5.0, "center": np.full(20, 3.0)}, {"radius": 3e5}):
        model = make(2, epsilon=6.0, delta=1e-6, **ball, random_state=0, **options)
        spent = model.fit(X).spent_
        assert spent.mu == pytest.approx(gaussian_mu(6.0, 1e-6), rel=1e-12)
        assert spent.epsilon <= 6 * (1 + 1e-9)
        counted.add(looks(spent))
        plain = model.set_params(zoom=False).fit(X).spent_
        assert not looks(plain) and plain.mu == pytest.approx(spent.mu, rel=1e-12)
    assert len(counted) > 1  # and not by the same number of looks


def test_a_look_is_not_bought_with_few_rows():
    noise = Noise(0)
    scale = noise.histogram_scale(mu=zooming.look_budget(1.0).distances)
    for n, bought in ((0.99 * zooming.FEW * scale, False), (1.01 * zooming.FEW * scale, True)):
        view = zoom(np.zeros((20, 2)), 1.0, n_total=n, mu=1.0, noise=noise)
        assert bool(noise.releases) == bought == (view.mu > 0)


def test_the_paper_does_not_look():
    X = blobs(200)
    model = PEMeans(2, epsilon=9.0, delta=1e-6, radius=99.0, variant="paper", n_public=200)
    spent = model.set_params(n_votes=2, random_state=0).fit(X).spent_
    assert not LABELS & {r.label for r in spent.releases}


@pytest.mark.parametrize("value", [None, 1, "yes", 0.5])
def test_the_switch_is_a_truth_value(value):
    with pytest.raises((TypeError, ValueError), match="zoom"):
        PEMeans(2, epsilon=1.0, delta=1e-6, radius=1.0, zoom=value).fit(np.zeros((5, 2)))


# ---------------------------------------------------------------- neighbours


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_replay_finds_nothing(neighboring):
    """Rows in a corner of the ball, and a row anywhere: the fit zooms, and every release is within its price."""
    model = PEMeans(2, epsilon=60.0, delta=1e-6, radius=9.0, n_refine=1, neighboring=neighboring)
    pairs = [
        (name, D / 9 + 4, E / 9 + 4) for name, D, E in neighbors(2, 9.0, neighboring=neighboring)
    ]
    far = np.random.default_rng(0).normal(size=(40, 2)) / 9 + 4
    gone = np.vstack([far[:-1], [[-900.0, 0.0]]])
    pairs = [
        *pairs[:5],
        ("far", far, gone) if neighboring == "replace" else ("far", far, gone[:-1]),
    ]
    assert looks(model.set_params(random_state=0).fit(far).spent_) > 1
    assert not replay(model, pairs, seeds=range(1))


def test_one_row_may_flip_the_decision():
    """Just so many rows at the end of the ball that they are seen, or not: then neighbours look differently often, at the same price."""
    model = PEMeans(2, epsilon=20.0, delta=1e-6, radius=9.0, n_refine=1)
    scale = Noise(0).histogram_scale(mu=zooming.look_budget(gaussian_mu(20.0, 1e-6)).distances)
    near = np.random.default_rng(0).normal(size=(300, 2)) / 9
    flips = []
    for h in range(math.floor((zooming.SEEN - 1) * scale), math.ceil((zooming.SEEN + 1) * scale)):
        D = np.vstack([near, np.tile([[8.5, 0.0]], (h, 1))])
        E = np.vstack([D, [[8.5, 0.0]]])
        first, second = (model.set_params(random_state=3).fit(rows).spent_ for rows in (D, E))
        assert first.mu == pytest.approx(second.mu, rel=1e-12)
        if looks(first) != looks(second) or first.releases != second.releases:
            flips.append((f"{h} rows", D, E))
    assert flips
    assert not replay(model, flips[:2], seeds=range(3, 5))


def test_a_middle_that_nobody_released_is_accused():
    X = blobs(300) + 3.0
    pair = [("far", X, np.vstack([X, [[-35.0, 35.0]]]))]
    model, honest = PEMeans(2, radius=50.0, epsilon=9.0, delta=1e-6, n_refine=1), Noise.lengths

    def from_the_mean(noise, rows, edges, *, label, **ask):
        if label == "distances to zoom by":
            ask["center"] = rows[:].mean(axis=0)
        return honest(noise, rows, edges, label=label, **ask)

    assert not replay(model, pair, seeds=range(2))
    with mock.patch.object(Noise, "lengths", from_the_mean):
        assert replay(model, pair, seeds=range(2))


# ---------------------------------------------------------------- what is found


def test_the_tail_by_hand():
    assert tail_end(np.array([5.0, 900.0, 1000.0, 0.0, 0.0, 0.0]), 1.0) == 2  # sharp
    # 1000, 100, then 10 expected, then 1: two bins more than the first that is not seen
    assert tail_end(np.array([0.0, 1000.0, 100.0, 10.0, 0.0, 0.0, 0.0]), 30.0) == 3
    halves = np.array([800.0, 400.0, 200.0, 100.0] + 20 * [0.0])
    assert tail_end(halves, 50.0) == 2 + math.ceil(math.log(100) / math.log(2))
    assert tail_end(np.zeros(6), 1.0) == 5  # nothing seen: all of it
    assert tail_end(np.array([0.0, 0.0, 9.0]), 1.0) == 2


def test_the_bound_on_what_is_beyond_holds_and_that_for_half_the_noise_fails():
    """2000 draws, at most 5 % allowed: false alarm below 1e-6, and half the noise is exceeded in a third of them."""
    rng, scale, b = np.random.default_rng(0), 40.0, zooming.BINS
    truth = np.r_[np.full(b // 2, 2000.0), np.full(b // 2, (zooming.SEEN - 0.5) * scale)]
    failures = np.zeros(2)
    for _ in range(2000):
        counts = truth + np.rint(scale * rng.normal(size=b))
        last = np.flatnonzero(counts > zooming.SEEN * scale)[-1]
        bounds = [rows_beyond(b - 1 - last, b, share * scale, 0.05) for share in (1.0, 0.5)]
        failures += truth[last + 1 :].sum() > np.array(bounds)
    assert failures[0] <= stats.binom.isf(1e-6, 2000, 0.05) < failures[1]
    assert rows_beyond(0, b, scale, 0.05) == 0


def test_without_noise_the_ball_is_tight():
    X = blobs() + 50
    with silent():
        view = zoom(X, 1000.0, n_total=4000, mu=0.7, noise=Noise(0))
    away = np.linalg.norm(X - view.center, axis=1)
    assert view.radius < 6 and (away <= view.radius).mean() > 0.999


@pytest.mark.parametrize(("factor", "away"), [(10, 0.9), (100, 0.0), (1000, 0.9)])
def test_a_loose_ball_costs_little(factor, away):
    X, seeds = blobs(), range(3)
    center = np.array([0.6, -0.8]) * away * (factor - 1)
    public = {"epsilon": 1.0, "delta": 1e-6, "radius": float(factor), "center": center}
    fits = (PEMeans(8, **public, random_state=s).fit(X) for s in seeds)
    tight = (
        PEMeans(8, **public | {"radius": 1.0, "center": None}, random_state=s).fit(X) for s in seeds
    )
    loss, least = (np.mean([kmeans_loss(X, m.cluster_centers_) for m in g]) for g in (fits, tight))
    assert loss < 1.1 * least


@pytest.mark.parametrize("law", ["lognormal", "t"])
def test_tails_are_not_cut(law):
    rng = np.random.default_rng(5)
    X = np.exp(rng.normal(size=(5000, 2))) if law == "lognormal" else rng.standard_t(2, (5000, 2))
    X, found = X - X.mean(axis=0), {}
    R = np.linalg.norm(X, axis=1).max()
    for chosen in (True, False):
        public = {"epsilon": 1.0, "delta": 1e-6, "radius": R, "zoom": chosen}
        fits = [PEMeans(8, **public, random_state=s).fit(X) for s in range(6)]
        found[chosen] = np.mean([kmeans_loss(X, m.cluster_centers_) for m in fits])
    assert found[True] < 1.05 * found[False]


def test_a_group_that_was_overlooked_still_pulls_a_center():
    """One row in a hundred, three times as far as the others reach: votes come from the ball, but refinement sees where the rows are."""
    X, far = blobs(), np.tile([[3.0, 0.0]], (40, 1))
    X = np.vstack([X, far])
    seen = []

    def ball(*args, **ask):
        seen.append(zooming.View(np.zeros(2), 1.0, 0.01))
        return seen[-1]

    with mock.patch.object(private_evolution_kmeans, "zoom", ball), silent():
        model = PEMeans(9, epsilon=9.0, delta=1e-6, radius=100.0, random_state=0).fit(X)
    nearest = np.linalg.norm(model.cluster_centers_ - far[0], axis=1).min()
    assert seen and nearest < 0.2


# ---------------------------------------------------------------- small and strange


STRANGE = {
    "none": np.zeros((0, 2)),
    "one": np.array([[30.0, 1.0]]),
    "two": np.array([[30.0, 1.0], [-30.0, 1.0]]),
    "equal": np.full((500, 2), 7.0),
    "outside": np.full((500, 2), 1e9) + np.arange(1000).reshape(500, 2),
    "huge": np.tile([[1e300, -1e300]], (500, 1)),
}


@BOTH
@pytest.mark.parametrize("rows", STRANGE)
@pytest.mark.parametrize("center", [None, [5.0, -5.0]])
def test_strange_rows(make, rows, center):
    public = {"epsilon": 20.0, "delta": 1e-6, "radius": 60.0, "center": center, "n_refine": 2}
    options = {"n_components": 1} if make is HDPEMeans else {}
    X = STRANGE[rows]
    if not len(X):
        view = zoom(X, 60.0, n_total=1, mu=2.0, noise=Noise(0))
        assert view.radius == 60
        X = np.zeros((1, 2))
    model = make(2, **public, **options, random_state=0).fit(X)
    away = model.cluster_centers_ - (0 if center is None else np.array(center))
    assert np.all(np.linalg.norm(away, axis=1) <= 60 * (1 + 1e-9))
    assert model.spent_.mu == pytest.approx(gaussian_mu(20.0, 1e-6), rel=1e-12)


def test_the_unit_does_not_matter():
    X, found = blobs(1000), []
    for unit in (1.0, 2.0**40, 2.0**-40):
        view = zoom(X * unit, 100.0 * unit, n_total=1000, mu=0.9, noise=Noise(0))
        found.append((view.radius / unit, *(view.center / unit), view.mu))
    assert np.allclose(found, found[0], rtol=1e-12) and found[0][0] < 50


# ---------------------------------------------------------------- max cover


COVER = {"epsilon": 1.0, "delta": 1e-6, "finest": 0.2, "random_state": 0}


def gaussians(spent):
    """What each label costs, as a part of mu^2."""
    parts = Counter()
    for r in spent.releases:
        parts.update({r.label: r.times * r.mu**2} if r.mu else {})
    return parts


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize(
    "how", [{}, {"n_lloyd": 2, "n_public": 500}, {"shares": (0, 0.4, 0.1, 0.5)}]
)
def test_max_cover_looks_twice_and_its_averages_pay(neighboring, how):
    """Whatever is seen, the receipt is the same to the last bit; and what is no average costs what it costs without."""
    ask, receipts = COVER | {"neighboring": neighboring, "radius": 300.0} | how, []
    for X in (blobs(500), np.zeros((3, 2)), blobs(500) * 250, np.full((1, 2), 9.0)):
        receipts.append(MaxCoverKMeans(2, **ask).fit(X).spent_)
    assert len({(r.epsilon, *((line.label, line.times, line.mu) for line in r.releases)) for r in receipts}) == 1  # fmt: skip
    assert looks(receipts[0]) == max_cover_kmeans.LOOKS
    plain = MaxCoverKMeans(2, **ask, zoom=False).fit(blobs(500)).spent_
    assert receipts[0].epsilon == pytest.approx(plain.epsilon, rel=1e-9)
    with_it, without = gaussians(receipts[0]), gaussians(plain)
    assert sum(with_it.values()) == pytest.approx(sum(without.values()), rel=1e-12)
    bought = neighboring == "add_remove" and "n_public" not in how
    assert with_it.keys() - without.keys() == LABELS | ({"number of rows"} if bought else set())
    others = [{r.label: r.epsilon or r.exponent for r in s.releases if not r.mu} for s in (receipts[0], plain)]  # fmt: skip
    assert others[0] == pytest.approx(others[1], rel=1e-9)


def test_the_paper_of_max_cover_does_not_look():
    model = MaxCoverKMeans(2, epsilon=1.0, delta=1e-6, radius=99.0, variant="paper", n_public=60)
    spent = model.set_params(random_state=0).fit(np.ones((60, 2))).spent_
    assert not LABELS & {r.label for r in spent.releases}


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_replay_of_max_cover_finds_nothing(neighboring):
    model = MaxCoverKMeans(2, **COVER | {"epsilon": 20.0, "neighboring": neighboring}, radius=900.0)
    far = np.random.default_rng(0).normal(size=(60, 2)) + 300
    gone = np.vstack([far[:-1], [[-900.0, 0.0]]])
    more = gone if neighboring == "replace" else np.vstack([far, gone[-1:]])
    pairs = [("far", far, more), *([("less", far, far[1:])] if neighboring != "replace" else [])]
    assert not replay(model, pairs, seeds=range(2))


def test_a_middle_of_max_cover_that_nobody_released_is_accused():
    X = blobs(300) + 3.0
    pair, honest = [("far", X, np.vstack([X, [[-35.0, 35.0]]]))], Noise.lengths
    model = MaxCoverKMeans(2, **COVER | {"epsilon": 20.0}, radius=50.0)

    def from_the_mean(noise, rows, edges, *, label, **ask):
        if label == "distances to zoom by":
            ask["center"] = rows[:].mean(axis=0)
        return honest(noise, rows, edges, label=label, **ask)

    with mock.patch.object(Noise, "lengths", from_the_mean):
        assert replay(model, pair, seeds=range(2))


@pytest.mark.parametrize("away", [0.0, 0.9])
def test_max_cover_in_a_ball_a_hundred_times_too_large(away):
    X, found = blobs(), {}
    center = np.array([0.6, -0.8]) * away * 99
    for chosen in (True, False):
        public = COVER | {"radius": 100.0, "center": center, "zoom": chosen, "finest": 0.1}
        fits = (MaxCoverKMeans(8, **public | {"random_state": s}).fit(X) for s in range(3))
        found[chosen] = np.mean([kmeans_loss(X, m.cluster_centers_) for m in fits])
    assert found[True] < 0.5 * found[False]


@pytest.mark.parametrize("value", [None, 1, "yes", 0.5])
def test_the_switch_of_max_cover_is_a_truth_value(value):
    with pytest.raises((TypeError, ValueError), match="zoom"):
        MaxCoverKMeans(2, **COVER, radius=1.0, zoom=value).fit(np.zeros((5, 2)))


def test_every_look_takes_what_it_gains():
    """Without noise: a ball that is 2.5 times too large becomes smaller, and the look after takes the rest."""
    X = blobs() + 1.0
    for exactly in (None, 2):
        with silent():
            view = zoom(X, 300.0, n_total=4000, mu=0.7, noise=Noise(0), exactly=exactly)
        assert view.radius < 3
    noise = Noise(0)
    view = zoom(X, 2.0, n_total=4000, mu=0.7, noise=noise, exactly=3)
    assert view.radius < 2.0  # already the first ball holds a smaller one
    assert view.mu == pytest.approx(
        gdp_composition([r.mu * math.sqrt(r.times) for r in noise.releases])
    )


def test_a_look_takes_a_ball_that_is_smaller_by_less_than_half():
    """10 columns in a corner: 99 % of the rows lie within 0.36 of the radius of their mean, and the look takes 0.71."""
    bunch = make_clipped_gaussians(4000, 10, 10, random_state=500)
    rows, found = bunch.data - bunch.center, set()
    for seed in range(20):
        view = zoom(rows, bunch.radius, n_total=4000, mu=2.0, noise=Noise(seed), exactly=1)
        found.add(round(view.radius / bunch.radius, 3))
    assert found == {0.707}


# Slips in one line that no other test noticed: exact numbers, enumeration, brute force on tiny cases.


def test_rows_that_were_undercounted_are_zoomed_in_on():
    X = np.random.default_rng(0).normal(size=(3000, 2)) * 0.01 + [4.9, 0.0]
    ball = zoom(X, 5.0, n_total=1000.0, mu=1e3, noise=Noise(0), exactly=1)
    assert np.linalg.norm(ball.center) <= 5 * (1 + 1e-9) and ball.radius < 0.5
    assert (np.linalg.norm(X - ball.center, axis=1) <= ball.radius).all()


@pytest.mark.parametrize("beta", [0.5, 0.05, 1e-9])
@pytest.mark.parametrize("m", [1, 5, 20])
def test_rows_beyond_the_bound_are_seen_but_for_a_chance_of_beta(m, beta):
    """A union over 24 edges; so many rows in m bins, evenly, are all unseen only if their noise adds up to minus this."""
    missing = rows_beyond(m, 24, 40.0, beta) / 40.0 - m * zooming.SEEN
    chance = stats.norm.sf(missing / math.sqrt(m))
    assert 0.01 * beta / 24 < chance <= beta / 24
