"""The measuring tool and the peers it measures: a peer that is read wrongly would flatter us."""

import argparse
import csv
import itertools
import json
import math
import re
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from bench import (
    ablations,
    benchmark,
    chapters,
    classification,
    cover_figure,
    gan,
    growth,
    kmeans,
    log,
    max_cover,
    measure,
    publish,
    readme,
    redraw,
    regression,
    shifts,
    source_target,
    stc_figure,
    store,
    tables,
)
from bench.peers import apart, balcan, fastlloyd, google_lsh, library, linear, pe_means_direct
from bench.peers.gan import CRITIC_STEPS, HIDDEN, SETTINGS, Gan, noise_multiplier
from bench.sets import EPSILONS, SETS
from scipy.spatial.distance import cdist
from sklearn.linear_model import LogisticRegression

import dplit
from dplit import MaxCoverKMeans, NeighborNoisyAverages, PEMeans, SourceTargetKMedoids, datasets
from dplit.accounting import (
    gaussian_mu,
    mixture_delta,
    poisson_gaussian_delta,
    poisson_gaussian_epsilon,
)
from dplit.geometry import clip_to_ball
from dplit.max_cover.kmeans import budget_of
from dplit.mechanisms import Noise
from dplit.source_target import kd_cover, stc_cost

ROOT = Path(__file__).parent.parent.parent
TOOLS = ROOT / "tools"
BENCHMARKS = [
    f"examples/benchmarks_{what}" for what in ("kmeans", "speed", "medoids", "adaptation")
]

# iris has 150 rows: delta = n^-1.1 is large
pytestmark = pytest.mark.filterwarnings("ignore::dplit.inputs.PrivacyWarning")

FITS = [google_lsh.fit, fastlloyd.fit, balcan.fit]
AS_DRIVEN = [fastlloyd.fit, balcan.fit]


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    X = np.repeat([[0.5, 0.5, 0], [-0.5, 0.5, 0], [0, -0.6, 0.3]], 2000, axis=0)
    return X + 0.03 * rng.standard_normal(X.shape)


def loss(X, centers):
    return datasets.kmeans_loss(X, centers)


# --- the peers ---


@pytest.mark.parametrize("fit", FITS)
def test_a_peer_with_hardly_any_noise_finds_the_clusters(fit, blobs):
    losses = [loss(blobs, fit(blobs, 3, epsilon=200.0, delta=0.1, seed=s)) for s in range(5)]
    assert min(losses) < 1.2 * 3 * 0.03**2


@pytest.mark.parametrize("fit", FITS)
def test_a_peer_loses_by_privacy_and_is_repeatable(fit, blobs):
    def mean(epsilon):
        return np.mean(
            [loss(blobs, fit(blobs, 3, epsilon=epsilon, delta=1e-4, seed=s)) for s in range(8)]
        )

    assert mean(0.02) > mean(4.0) == mean(4.0)


@pytest.mark.parametrize("fit", FITS)
def test_the_centers_of_a_peer_stay_in_the_domain(fit, blobs):
    centers = fit(blobs[:50], 7, epsilon=0.05, delta=1e-4, seed=0)
    assert np.isfinite(centers).all() and len(centers) <= 7
    assert np.abs(centers).max() <= max(1, np.abs(blobs).max()) + 1e-9


def test_objective_perturbation_gets_rows_of_norm_1_and_its_answers_come_back_in_our_units(
    tmp_path,
):
    """With the library in the place of scikit-learn: the same separators as on the rows themselves."""

    class Plain(library.Library):
        def __init__(self, folder):
            self.folder = folder

        def ask(self, data, epsilon, seed, strengths):
            *rows, y = np.load(data).T
            assert np.linalg.norm(rows, axis=0).max() <= 1 + 1e-12
            free = {"fit_intercept": False, "tol": 1e-10, "max_iter": 1000}
            models = [LogisticRegression(C=C, **free).fit(np.array(rows).T, y) for C in strengths]
            return {"w": [model.coef_[0].tolist() for model in models]}

    rng = np.random.default_rng(0)
    X = clip_to_ball(rng.normal(size=(300, 3)) * 2, 2.0)
    y = (rng.random(300) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
    far = np.vstack([X[:-1], 50 * X[-1:] / np.linalg.norm(X[-1])])  # is shortened to the radius
    for rows in (X, far):
        ask = {"radius": 2.0, "epsilon": 1.0, "seed": 0, "strengths": [0.4, 40.0]}
        found = Plain(tmp_path).separate(rows, y, **ask)
        for C, w in zip((0.4, 40.0), found, strict=True):  # |2 w|^2 costs four times |w|^2
            free = {"fit_intercept": False, "tol": 1e-10, "max_iter": 1000}
            same = LogisticRegression(C=C / 4, **free).fit(clip_to_ball(rows, 2.0), y).coef_[0]
            assert w == pytest.approx(same, rel=1e-3)
            line = classification.Line(w)
            assert line.score(X, y) == pytest.approx(np.mean((X @ same > 0) == y), abs=0.01)


@pytest.mark.parametrize("epsilon, delta", [(0.25, 1e-5), (1.0, 1e-5), (4.0, 1e-3)])
def test_the_tree_spends_exactly_what_it_may(epsilon, delta):
    scale = google_lsh.noise_scale(epsilon, delta)
    counts = [(1 / (google_lsh.COUNTS_PER_SUM * scale), google_lsh.DEPTH + 1)]
    assert mixture_delta(epsilon, mu=1 / scale, pure=counts) == pytest.approx(delta, rel=1e-6)
    assert scale > 1 / gaussian_mu(epsilon, delta)  # the counts cost something


def test_the_tree_against_a_second_accountant():
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    scale, counts = google_lsh.noise_scale(1.0, 1e-5), google_lsh.DEPTH + 1
    ledger = PLDAccountant()
    ledger.compose(dp_accounting.GaussianDpEvent(scale))
    count = dp_accounting.LaplaceDpEvent(google_lsh.COUNTS_PER_SUM * scale)
    ledger.compose(count, counts)
    # continuous Laplace noise costs a little less than the discrete one used
    assert 0.98 < ledger.get_epsilon(1e-5) <= 1.001


def test_the_leaves_of_the_tree_hold_the_rows(blobs):
    points, weights = google_lsh.coreset(blobs, 3, 1e-9, np.random.default_rng(0))
    assert weights.sum() <= len(blobs) and np.all(weights >= 1)
    assert weights.sum() > 0.9 * len(blobs)  # small children are dropped with their rows
    mean = weights @ points / weights.sum()
    assert np.allclose(mean, blobs.mean(axis=0), atol=0.1)


@pytest.mark.parametrize("d", [1, 4, 100])
def test_sums_and_counts_of_fastlloyd_are_one_gaussian_release(d):
    sum_scale, count_scale = np.sqrt(1 + 1 / np.sqrt(4 * d)), np.sqrt(1 + np.sqrt(4 * d))
    assert sum_scale**-2 + count_scale**-2 == pytest.approx(1)


def test_folding_reflects_at_the_walls():
    values = fastlloyd.fold(np.array([-1.2, 0.3, 1.2, 3.1, 5.5]))
    assert values == pytest.approx([-0.8, 0.3, 0.8, -0.9, 0.5])  # 5.5 -> -3.5 -> 1.5 -> 0.5


def test_the_packing_keeps_its_points_apart():
    points = fastlloyd.packing(8, 2, np.random.default_rng(0))
    apart = np.linalg.norm(points[:, None] - points, axis=2) + 9 * np.eye(8)
    assert apart.min() >= 0.25 and np.abs(points).max() <= 1


def test_the_budget_of_the_swaps_and_grids_is_the_whole_budget():
    assert balcan.GRIDS + balcan.SWAPS + balcan.AVERAGES + balcan.LLOYD == pytest.approx(1)


def test_the_swaps_climb_to_the_best_of_all_choices(blobs):
    rng = np.random.default_rng(1)
    Y, points = blobs[::20], np.vstack([blobs[[0, 2000, 4000]], rng.uniform(-1, 1, (5, 3))])
    chosen = balcan.swaps(Y, points, 3, 1e7, rng, 1)
    assert loss(Y, chosen) == pytest.approx(loss(Y, points[:3]))


def test_a_grid_opens_the_crowded_cells():
    rows = np.array([[0.3, 0.3]] * 900 + [[-0.7, 0.2]] * 900)
    points = balcan.grid(rows, 1.0, 100.0, np.random.default_rng(0))
    assert {(0.0, 0.0), (0.5, 0.5), (-0.5, 0.5), (0.25, 0.25)} <= {*map(tuple, points)}
    assert balcan.grid(rows, 1.0, 1e-3, np.random.default_rng(0)).tolist() == [[0.0, 0.0]]


def test_the_noise_of_an_average_has_the_scale_it_is_priced_at():
    rng, X = np.random.default_rng(0), np.zeros((1000, 4))
    labels, e = np.zeros(1000, dtype=int), 2.0
    share = 4 / (4 + np.cbrt(16 * 0.225**2))
    found = [balcan.averages(X, labels, 1, e, rng, False)[0] * 1000 for _ in range(4000)]
    # sensitivity of a sum in l1: sqrt(d) R; standard deviation of Laplace noise: sqrt(2) scale
    assert np.std(found) == pytest.approx(np.sqrt(2) * 2 / (e * share), rel=0.05)


def test_the_rival_of_figure_1_averages_by_noisy_avg(blobs):
    """Enough budget: centers near the blobs; little: NoisyAVG gives up, and centers are random points of the ball."""
    cost = {"delta": 1e-4, "seed": 0}
    plenty, little = (balcan.with_noisy_avg(blobs, 3, epsilon=e, **cost) for e in (4.0, 0.01))
    assert loss(blobs, plenty) < loss(blobs, little) / 4
    assert max(np.linalg.norm(c, axis=1).max() for c in (plenty, little)) <= 1 + 1e-9


def test_lines_of_figure_1_hold():
    """The published grid at the true number of rows, and lines of the file measured again."""
    fits = [cover_figure.published_dimension(n) for n in (1797, 10_000, 50_000)]
    assert fits == [3, 3, 3]  # ln(n) / 2 would be 3, 4, 5
    for way, k in (("Balcan et al., pure", 10), ("max cover", 5)):
        kept = cover_figure.figure_1("digits", way, k, 5)
        again = cover_figure.fit(way, cover_figure.load("digits"), k, 1)
        assert datasets.kmeans_loss(cover_figure.load("digits").data, again) == pytest.approx(
            kept[1]
        )


def test_lines_of_the_source_target_figures_hold():
    kept = stc_figure.stc_costs("synthetic 1", 9100)
    Xs, Xt, *ball = stc_figure.draw("synthetic 1", 9100)
    released = stc_figure.ways(Xs, Xt, *ball, 9100)
    for way in ("ignored", "Balcan et al., epsilon 3.00", "NNA, ours, epsilon 3"):
        fit = SourceTargetKMedoids(5, n_starts=1).fit(Xt=Xt, sources=released[way]())
        assert stc_cost(Xt, Xs, fit.medoid_indices_) == pytest.approx(kept[way][1], rel=1e-6)


def test_the_direct_reading_is_the_printed_algorithm(blobs):
    """Not the same draws, so not the same centres: the same loss on average, and the same parts."""
    X, cost = blobs[::3], {"epsilon": 0.3, "delta": 1e-4}
    direct = [loss(X, pe_means_direct.fit(X, 3, **cost, seed=s)) for s in range(6)]
    paper = [
        PEMeans(3, variant="paper", n_public=len(X), radius=1.0, random_state=s, **cost).fit(X)
        for s in range(6)
    ]
    paper = [loss(X, model.cluster_centers_) for model in paper]
    assert np.mean(direct) == pytest.approx(np.mean(paper), rel=0.3)
    assert pe_means_direct.SIGMA == pytest.approx(0.507450, abs=1e-6)
    noisy = np.array([5.0, 3, 2, -1, 0.5])
    assert pe_means_direct.kept(noisy, 8).tolist() == [5, 3, 0, 0, 0]
    assert pe_means_direct.kept(noisy, 8.5).tolist() == [5, 3, 2, 0, 0]


@pytest.mark.parametrize("rate, times", [(0.25, 20), (1.0, 20)])
def test_the_network_spends_what_it_may_and_no_more(rate, times):
    noise = noise_multiplier(3.0, 1e-6, rate, times)
    assert 0.99e-6 < poisson_gaussian_delta(3.0, 1 / noise, rate, times) <= 1e-6
    all_rows = times**0.5 / gaussian_mu(3.0, 1e-6)  # one Gaussian release, however many steps
    assert noise == pytest.approx(all_rows, rel=1e-3) if rate == 1 else noise < all_rows


class Echo(Gan):
    """Draws the rows it is asked to learn, far out, and keeps the job."""

    def __init__(self, folder):
        pass

    def ask(self, rows, **job):
        self.rows, self.job = np.array(rows), job
        return (5 * self.rows).tolist()


def test_the_network_sees_the_unit_ball_and_answers_in_ours():
    echo, X, center = Echo(None), np.array([[3.0, 1.0], [90.0, 1.0]]), np.array([2.0, 1.0])
    points = echo.draw(X, 4.0, center, epsilon=3.0, delta=1e-6, seed=0)
    assert echo.rows == pytest.approx(np.array([[0.25, 0], [1, 0]]))
    assert points == pytest.approx(np.array([[6.0, 1], [6, 1]]))
    assert echo.job["noise"] == noise_multiplier(3.0, 1e-6, SETTINGS["rate"], SETTINGS["steps"] * CRITIC_STEPS)  # fmt: skip
    echo.draw(X, 4.0, center, epsilon=math.inf, delta=0.0, seed=0)
    assert echo.job["noise"] == 0


def test_a_worker_of_another_environment_answers_line_by_line(tmp_path, monkeypatch):
    program = "import json, sys\nfor l in sys.stdin: print(2 * json.loads(l)['a'], flush=True)"
    (tmp_path / "twice.py").write_text(program)
    monkeypatch.setattr(apart, "environment", lambda folder, name, requirements: sys.executable)
    monkeypatch.setattr(apart.Apart, "NAME", "twice", raising=False)
    monkeypatch.setattr(apart.Apart, "REQUIREMENTS", [], raising=False)
    monkeypatch.setattr(apart.Apart, "WORKER", tmp_path / "twice.py", raising=False)
    worker = apart.Apart(tmp_path)
    assert [worker.ask(a=a) for a in (1, 21)] == [2, 42]
    worker.process.kill()


def test_the_network_learns_where_rows_lie_and_noise_drowns_them():
    """Only where JAX is: the tool gives it an environment of its own."""
    pytest.importorskip("optax")
    from bench.peers.gan_worker import train
    from jax import random

    rng = np.random.default_rng(0)
    X = np.repeat([[0.6, 0.3], [0.0, -0.6]], 300, axis=0) + 0.03 * rng.normal(size=(600, 2))
    job = {"critic_steps": CRITIC_STEPS, "hidden": HIDDEN, **SETTINGS, "steps": 1000, "size": 100}

    def error(noise):
        points = np.array(train(X, random.key(1), noise=noise, **job))
        near = np.linalg.norm(X[:, None] - points, axis=2)
        return near.min(axis=0).mean() + near.min(axis=1).mean()

    assert error(0.0) < 0.25 < error(1e4)


def test_lines_of_the_network_stand_beside_the_others(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    Xs, Xt = rng.uniform(-0.5, 0.5, (200, 2)), rng.uniform(0, 1, (60, 2))
    monkeypatch.setattr(gan, "share_sets", lambda mnist: {"here": lambda seed: (Xs, Xt, 2.0, np.zeros(2))})  # fmt: skip
    monkeypatch.setattr(gan, "mnist_is_there", lambda: False)
    monkeypatch.setattr(gan, "worker", Echo)
    old = [{"set": "here", "method": m, "runs": "30", "share": "0.5", "error": "0.1"} for m in ("A", *gan.PRICES)]  # fmt: skip
    away = old[1] | {"set": "not here"}
    store.write(tmp_path / "shares.csv", [*old, away])
    gan.run(tmp_path, 2)
    first, second, *rest = store.read(tmp_path / "shares.csv")
    assert first == old[0] and second == away and [r["method"] for r in rest] == [*gan.PRICES]
    assert all(r["runs"] == "2" and float(r["share"]) < 1 for r in rest)


def test_the_other_shares_leave_the_lines_of_the_network_as_they_are(tmp_path, monkeypatch):
    line = {"set": "here", "method": "A", "runs": "2", "share": "0.5", "error": "0.1"}
    monkeypatch.setattr(source_target, "solver", lambda *args, **options: None)
    monkeypatch.setattr(source_target.medoids, "kmedoids", None)
    monkeypatch.setattr(source_target, "mnist_is_there", lambda: False)
    monkeypatch.setattr(source_target, "shares", lambda *args: [line])

    def found():
        source_target.run(tmp_path, 2)
        return store.read(tmp_path / "shares.csv")

    network = [r for r in store.book("shares") if r["method"] in gan.PRICES]
    assert found() == [line, *network] and len(network) > 2
    own = [r | {"share": "0.25"} for r in network]
    store.write(tmp_path / "shares.csv", own)
    assert found() == [line, *own]


def test_a_solver_that_was_not_here_is_measured_when_it_is(tmp_path, monkeypatch):
    asked = []

    def solve(n, d, data, runs):
        asked.append(source_target.kmedoids)
        names = [name for name in source_target.WAYS if name != "FasterPAM" or asked[-1]]
        return {"rows": [{"n": n, "d": d, "data": data, "solver": name} for name in names]}

    monkeypatch.setattr(source_target, "solve", solve)
    monkeypatch.setattr(source_target, "show_solver", lambda line: None)
    for kmedoids, runs, solvers in ((None, 4, 3), ("there", 8, 4), ("there", 8, 4), (None, 8, 4)):
        monkeypatch.setattr(source_target, "kmedoids", kmedoids)
        found = source_target.solver(1, (500,), tmp_path / "solver.csv")
        assert len(asked) == runs and len(found) == 4 * solvers
        assert len(store.read(tmp_path / "solver.csv")) == len(found)


def test_an_environment_of_other_requirements_is_made_anew(tmp_path, monkeypatch):
    made = []

    def run(command, check):
        made.append(command)
        (tmp_path / "twice-env").mkdir(exist_ok=True)

    monkeypatch.setattr(apart.subprocess, "run", run)
    for wanted, times in ((["a==1"], 2), (["a==1"], 2), (["a==2"], 4), (["a==2"], 4)):
        apart.environment(tmp_path, "twice", wanted)
        assert len(made) == times and made[-1][-1] == wanted[0]
    assert "--clear" in made[2]


def test_the_library_is_handed_the_rows_it_is_asked_about(tmp_path):
    class Mean(library.Library):
        def __init__(self, folder):
            self.folder = folder

        def ask(self, data, **job):
            return {"centers": [np.load(data).mean(axis=0).tolist()], "cost": [0, 0, 0]}

    cost = {"epsilon": 1.0, "delta": 0.0, "seed": 0, "name": "iris"}
    for X in (np.eye(3), 2 * np.eye(3), np.eye(4)[:, :3], np.eye(3)):
        assert np.array_equal(Mean(tmp_path).fit(X, 1, **cost)[0], [X.mean(axis=0)])
    assert len([*tmp_path.iterdir()]) == 3


# --- the measuring ---


BOUNDS = {"radius": 1.0, "weight_radius": 3.0, "target_bound": 2.0}


def line(n=20_000, seed=0):
    """Rows of the unit ball, labels within their bound, and the least squares of both."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, size=(n, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=n)
    return X, y, np.linalg.lstsq(X, y, rcond=None)[0]


def test_ada_ssp_with_hardly_any_noise_is_least_squares_and_it_spends_what_it_may():
    X, y, best = line()
    noise = Noise(0, neighboring="replace")
    w = linear.ada_ssp(X, y, **BOUNDS, noise=noise, mu=1e4, delta=1e-5)
    assert np.allclose(w, best, atol=1e-2)
    for epsilon in (0.5, 5.0):
        noise = Noise(0, neighboring="replace")
        cost = {"mu": gaussian_mu(epsilon, 1e-5), "delta": 1e-5}
        w = linear.ada_ssp(X[:50], y[:50], **BOUNDS, noise=noise, **cost)
        assert noise.receipt(1e-5).epsilon == pytest.approx(epsilon, rel=1e-6)
        assert np.linalg.norm(w) <= 3.0 * (1 + 1e-9)


def test_minibatch_sgd_comes_near_least_squares_where_noise_is_small():
    X, y, best = line()

    def off(epsilon):
        paid = {"epsilon": epsilon, "delta": 1e-5, "setting": (0.1, 400, 4.0)}
        fits = [linear.minibatch_sgd(X, y, **BOUNDS, **paid, seed=seed) for seed in range(6)]
        return np.mean([np.linalg.norm(w - best) for w in fits])

    assert off(5.0) < 0.01 and off(0.05) > 0.04


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 10.0])
@pytest.mark.parametrize(("rate", "times"), [(0.1, 100), (0.02, 400)])
def test_poisson_samples_are_bought_for_the_whole_cost(epsilon, rate, times):
    mu = linear.sampled_mu(epsilon, 1e-5, rate, times)
    spent = poisson_gaussian_epsilon(1e-5, mu, rate, times)
    assert spent == pytest.approx(epsilon, rel=2e-3)
    assert mu > gaussian_mu(epsilon, 1e-5) / np.sqrt(times)  # samples are worth something


def test_the_meter_reads_result_time_and_memory():
    """In a process of its own: what this one frees on the way would be missing from the peak."""
    program = "from bench.peers.meter import measured; print(measured(lambda: bytearray(40_000_000).count(1)))"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=TOOLS, capture_output=True, text=True, check=True
    )
    result, wall, cpu, peak = map(float, run.stdout.strip("()\n").split(","))
    assert result == 0 and 0 < cpu and 0 < wall < 60
    assert math.isnan(peak) or 30 < peak < 50  # 40 MB


@pytest.mark.slow
def test_a_second_run_goes_on_where_the_first_ended(tmp_path):
    run = (["iris"], ["KMeans", "Google LSH tree", "NoisyLloyd"])
    kmeans.run(*run, 1, tmp_path)
    first = store.read(tmp_path / "kmeans.csv")
    kmeans.run(*run, 2, tmp_path)
    both = store.read(tmp_path / "kmeans.csv")
    assert len(first) == 11 and len(both) == 22 and both[:11] == first
    assert {*both[0]} == {*kmeans.FIELDS}
    again = tmp_path / "again"
    again.mkdir()
    kmeans.run(*run, 2, again)
    key = ["method", "epsilon", "seed", "loss"]
    lines = [
        sorted([r[c] for c in key] for r in store.read(p / "kmeans.csv")) for p in (tmp_path, again)
    ]
    assert lines[0] == lines[1]  # every fit is seeded


def test_a_table_goes_on_where_it_was_stopped_and_is_the_same(tmp_path, monkeypatch):
    tiny = {"a": regression.synthetic(datasets.make_shifted_regression, 60, 40)}
    monkeypatch.setattr(regression, "sets", lambda *_: tiny)
    monkeypatch.setattr(regression, "others", lambda *_: {})
    monkeypatch.setattr(regression, "EPSILONS", (1.0, 5.0))
    errors, asked = regression.errors, []

    def stopped(data, epsilon, seed):
        asked.append((epsilon, seed))
        if asked[-1] == (5.0, 1):
            raise KeyboardInterrupt
        return errors(data, epsilon, seed)

    def folder(name):
        (tmp_path / name).mkdir(exist_ok=True)
        return tmp_path / name

    whole = regression.run(folder("whole"), 2)
    monkeypatch.setattr(regression, "errors", stopped)
    with pytest.raises(KeyboardInterrupt):
        regression.run(folder("half"), 2)
    assert not (tmp_path / "half" / "regression.csv").exists()  # half of a table is none
    with (tmp_path / "half" / "regression_done.jsonl").open("a") as file:
        file.write('{"set": "a", "epsil')  # a line that was cut off
    asked[:] = [(5.0, 1)] * 2  # from now on nobody stops it
    monkeypatch.setattr(regression, "errors", lambda *job: asked.append(job[1:]) or errors(*job))
    assert regression.run(folder("half"), 2) == whole and len(whole) == 2 * 10
    assert asked[2:] == [(5.0, 0), (5.0, 1)]  # what was finished is not measured again
    regression.run(folder("half"), 2)
    assert len(asked) == 4
    one, other = ((tmp_path / f / "regression.csv").read_text() for f in ("whole", "half"))
    assert one == other
    assert one.splitlines()[0] == ",".join(store.book("regression")[0])
    regression.run(folder("half"), 1)  # another number of runs is another table
    assert len(asked) == 6


def test_lines_of_older_runs_are_read_and_only_what_is_missing_is_added(tmp_path):
    """Format of the costs of source and target: two lines of one job add up."""
    path = tmp_path / "costs.jsonl"
    old = '{"set": "x", "seed": 3, "costs": {"open": 1.5}}\n'
    path.write_text(old)
    key = {"set": str, "seed": int}
    wanted = {"open", "ignored"}

    def opened():
        return store.Store(path, key, whole=lambda row: wanted <= {*row["costs"]})

    jobs = [("x", 3), ("y", 3)]
    assert not any(job in opened() for job in jobs)
    rows = opened().run(jobs, lambda name, seed: {"costs": {w: 2.0 for w in wanted - {"open"}}})
    assert rows[0]["costs"] == {"open": 1.5, "ignored": 2.0}
    lines = path.read_text().splitlines(keepends=True)
    assert lines[0] == old and len(lines) == 3
    assert lines[1] == '{"set": "x", "seed": 3, "costs": {"ignored": 2.0}}\n'
    assert jobs[0] in opened() and jobs[1] not in opened()


def test_a_coreset_stands_where_it_is_said_to():
    b = datasets.make_source_target(3, 200, 150, random_state=0)
    found, size = ablations.one((b.Xs, b.Xt, b.radius, b.center), 0, (3, 4))
    cells = kd_cover(b.Xt, b.radius / 10)
    assert size == len(cells) < 150 and all(len(values) == 3 for values in found.values())
    for where, rows in (("whole", np.arange(150)), ("coreset", cells)):
        fits = [SourceTargetKMedoids(k, n_starts=1).fit(b.Xt[rows]) for k in (3, 4)]
        costs = [stc_cost(b.Xt, b.Xs, rows[fit.medoid_indices_]) for fit in fits]
        assert found["ignored", where][0] == sum(costs)
    model = NeighborNoisyAverages(
        epsilon=3.0, radius=b.radius, center=b.center, random_state=0, variant="paper"
    )
    sources = model.fit(Xs=b.Xs, Xt=b.Xt[cells]).sources_
    fits = [SourceTargetKMedoids(k, n_starts=1).fit(Xt=b.Xt, sources=sources) for k in (3, 4)]
    costs = [stc_cost(b.Xt, b.Xs, fit.medoid_indices_) for fit in fits]
    assert found["NNA eps 3 paper", "cells"][0] == sum(costs)


@pytest.mark.parametrize("d", [2, 5])
def test_a_histogram_with_hardly_any_noise_lies_where_the_sources_are(d):
    rng = np.random.default_rng(0)
    Xt = rng.normal(size=(300, d)) * np.array([3, 2, 0.1, 0.1, 0.1])[:d] + 10
    Xs, center = Xt[:80] + 0.01, np.full(d, 10.0)
    plane = ablations.plane_of(Xt)
    flat, lifted = (
        ablations.target_histogram(Xs, Xt, 12.0, center, 0, 1e4, lift) for lift in (False, d > 2)
    )
    assert len(flat) == 80 and np.allclose(plane.T @ plane, np.eye(2))
    assert np.allclose(lifted @ plane, flat @ plane)
    apart = cdist(flat @ plane, Xs @ plane)
    assert max(apart.min(axis=0).max(), apart.min(axis=1).max()) < 2.5  # the diagonal of a bin
    off = lambda rows: np.abs((rows - Xt.mean(axis=0)) @ (np.eye(d) - plane @ plane.T)).max()  # noqa: E731
    assert off(flat) < 1e-9 and (d == 2 or 0.01 < off(lifted) < 1)


def test_the_signal_of_covers_is_what_the_workshop_says():
    make = lambda **how: MaxCoverKMeans(10, epsilon=1.0, delta=1797**-1.1, radius=1.0, **how)  # noqa: E731
    assert f"{max_cover.signal(make(n_public=1797, zoom=False), 1797, 64):.2f}" == "0.78"
    model = make(n_public=1797)  # 4 dimensions, 105 nodes an axis
    tickets = budget_of(model).covers * 1797 / 10
    assert max_cover.signal(model, 1797, 64) == pytest.approx(tickets / (4 * math.log(105)))


def test_every_command_of_the_tools_is_there():
    options = benchmark.command_line()
    for what in "all kmeans small paper-rows speed max-cover source-target ablations adaptation protocol regression classification package scale chapters tables redraw kernel-means".split():  # fmt: skip
        assert options.parse_args([what, "--out", "x"]).what == what
    for asked in chapters.QUOTED:
        out = ["--out", "x"] if asked in chapters.STORED else []
        assert callable(options.parse_args(["chapter", *asked, *out]).run)


def test_the_area_is_that_of_the_losses():
    line = {"dataset": "iris", "n": 150, "d": 4, "k": 3, "delta": 0}
    rows = [
        line | {"method": "PEMeans", "epsilon": e, "seed": s, "loss": (s + 1) * e}
        for e in EPSILONS
        for s in (0, 1)
    ]
    rows += [
        line | {"method": "KMeans", "epsilon": "inf", "seed": s, "loss": 2 - s} for s in (0, 1)
    ]
    rows.append(line | {"method": "FastLloyd", "epsilon": 1.0, "seed": 0, "loss": 5})  # not whole
    aucs, curves = tables.summary(rows)
    areas = {r["method"]: float(r["auc"]) for r in aucs}
    whole = (4**2 - 0.25**2) / 2  # integral of epsilon
    assert areas == pytest.approx({"KMeans": 3.75, "PEMeans": 1.5 * whole}, rel=1e-5)
    assert float(aucs[1]["sd"]) == pytest.approx(whole / np.sqrt(2), rel=1e-2)
    assert [float(r["loss"]) for r in curves if r["method"] == "PEMeans"] == pytest.approx(
        [1.5 * e for e in EPSILONS]
    )


def test_small_epsilons_have_a_table_of_their_own_and_no_area(tmp_path):
    kmeans.run_small(["iris"], ["NoisyLloyd", "Google LSH tree"], 2, tmp_path)
    assert tables.sum_up(tmp_path) == [] and not (tmp_path / "auc.csv").exists()
    rows, fits = (store.read(tmp_path / f"{part}.csv") for part in ("small", "small_fits"))
    cells = [(r["method"], float(r["epsilon"]), r["seeds"]) for r in rows]
    assert cells == [(m, e, "2") for m in ("NoisyLloyd", "Google LSH tree") for e in (0.05, 0.1)]
    losses = [
        float(r["loss"]) for r in fits if r["method"] == "NoisyLloyd" if r["epsilon"] == "0.1"
    ]
    assert float(rows[1]["loss"]) == pytest.approx(np.mean(losses), rel=1e-5)
    assert float(rows[1]["sd"]) == pytest.approx(np.std(losses, ddof=1), rel=1e-2)
    # the area of nbs/examples/benchmarks_kmeans.ipynb is over these
    assert EPSILONS == (
        0.25,
        0.5,
        1.0,
        2.0,
        4.0,
    )


def test_every_published_figure_has_its_column():
    assert all(len(row) == len(kmeans.PUBLISHED_METHODS) for row in kmeans.PUBLISHED.values())
    assert {*kmeans.PUBLISHED_METHODS} <= {*kmeans.METHODS}
    assert {*kmeans.PUBLISHED} <= {*SETS}


def test_the_tables_of_the_book_have_what_the_chapter_reads():
    for name, column in (
        ("auc", "sd"),
        ("curves", "loss"),
        ("speed", "cpu_s"),
        ("cover", "ours_s"),
        ("growth", "n"),
        ("cluster", "client_cpu_s"),
    ):
        with (store.BOOK / f"{name}.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert rows and all(float(r[column]) >= 0 or math.isnan(float(r[column])) for r in rows)


def test_a_point_of_growth_says_what_stopped_it(monkeypatch):
    measure = partial(growth.measure, path=None, limit=20)
    assert measure("NoisyLloyd", "columns", 300, 2, 2)["status"] == ""
    refused = measure("KTupleKMeans", "clusters", 300, 16, 1000)
    assert refused["status"].startswith("refused: n_clusters=1000 with 16 columns")
    monkeypatch.setattr(growth, "work", lambda *args: lambda: np.empty(3 * growth.SPACE // 16))
    assert measure("any", "columns", 300, 2, 2)["status"] == "memory"
    monkeypatch.setattr(growth, "work", lambda *args: partial(sum, itertools.repeat(1)))
    stopped = growth.measure("any", "columns", 300, 2, 2, path=None, limit=1)
    assert (stopped["status"], stopped["cpu_s"]) == ("time", 1)


def test_the_guard_is_compared_with_the_better_rival_of_each_cost(monkeypatch):
    """The source wins at one epsilon, the target alone at another, neither in every run."""
    source, alone = (0.5, 0.7), {0.5: (0.8, 0.2), 3.0: (0.9, 0.5)}  # means 0.6; 0.5 and 0.7
    guarded = {0.5: (0.7, 0.8), 3.0: (0.8, 0.8)}

    def scores(draw, n_classes, n, seed):
        at = seed - shifts.FIRST
        rest = {"unguarded": 0.99, "refused": float(at == 0), "source": source[at]}
        return {e: rest | {"alone": alone[e][at], "guarded": guarded[e][at]} for e in alone}

    monkeypatch.setattr(shifts, "scores", scores)
    monkeypatch.setattr(shifts, "EPSILONS", (0.5, 3.0))
    rows = shifts.measure("digits, none", 300, 2)["rows"]
    assert [float(r["ahead"]) for r in rows] == pytest.approx([0.75 - 0.6, 0.8 - 0.7])
    ahead = [np.subtract(guarded[0.5], source), np.subtract(guarded[3.0], alone[3.0])]
    errors = [np.std(a, ddof=1) / math.sqrt(2) for a in ahead]
    assert [float(r["se"]) for r in rows] == pytest.approx(errors, abs=1e-4)
    assert [(r["n"], r["epsilon"], r["runs"], r["refused"]) for r in rows] == [
        (300, 0.5, 2, "0.5000"),
        (300, 3.0, 2, "0.5000"),
    ]


def test_exponents_are_those_of_the_upper_half():
    sizes = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    assert growth.exponent(sizes, np.where(sizes < 4, 7.0, sizes**1.5)) == pytest.approx(1.5)
    assert math.isnan(growth.exponent(sizes[:1], sizes[:1]))


# --- the README ---


def test_the_readme_says_what_the_tables_of_the_book_say():
    assert readme.section() in readme.README.read_text(encoding="utf8")


def test_only_its_own_section_of_the_readme_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(readme, "README", tmp_path / "README.md")
    readme.README.write_text("# a\n\n## Measured\n\nold\n\n## Rest\n\n## More\n", encoding="utf8")
    readme.write_section()
    first = readme.README.read_text(encoding="utf8")
    assert first == f"# a\n\n{readme.section()}\n## Rest\n\n## More\n"
    readme.write_section()
    assert readme.README.read_text(encoding="utf8") == first


def test_every_published_table_is_there_and_is_read_by_a_page():
    pages = {part: publish.readers([part]) for part in publish.PARTS}
    for part, found in pages.items():
        assert store.read(store.BOOK / f"{part}.csv") and found, part
    assert {page for found in pages.values() for page in found} >= {*BENCHMARKS}
    assert "examples/benchmarks_kmeans" in pages["auc"] and pages["plane"] == [BENCHMARKS[2]]
    assert publish.readers(["no_such_table"]) == []


def test_a_benchmark_page_says_its_verdict_first_and_labels_headings_only():
    """Before the first section there are a verdict and one table; "(our reimplementation)" is in no row."""
    for page in BENCHMARKS:
        cells = json.loads((ROOT / "nbs" / f"{page}.ipynb").read_text("utf8"))["cells"]
        sections = [i for i, c in enumerate(cells) if re.search("^## ", "".join(c["source"]), re.M)]
        before = cells[1 : sections[0]]
        assert "".join(before[0]["source"]).startswith("**Verdict.**"), page
        shown = [o["data"] for c in before for o in c.get("outputs", []) if "data" in o]
        assert sum("text/markdown" in data for data in shown) == 1, page
        tables = [
            "".join(o["data"]["text/markdown"])
            for c in cells[sections[0] :]
            for o in c.get("outputs", [])
            if "text/markdown" in o.get("data", {})
        ]
        assert tables and "our reading" not in str(cells), page
        for table in tables:
            lines = [line for line in table.splitlines() if line.startswith("|")]
            assert not any("(our re" in line for line in lines[2:]), (page, lines[0])
            assert len(lines) < 15 or table.startswith("<details>"), (page, lines[0])


def test_a_table_that_is_not_whole_is_not_published(tmp_path, monkeypatch):
    monkeypatch.setattr(readme, "README", tmp_path / "README.md")
    monkeypatch.setattr(store, "BOOK", tmp_path / "book")
    store.write(tmp_path / "auc.csv", [{"dataset": "iris", "method": "PEMeans", "auc": 1.0}])
    with pytest.raises(SystemExit, match="curves"):
        publish.publish(tmp_path)
    for part in set(publish.PARTS) - {"auc"}:
        store.write(tmp_path / f"{part}.csv", [{"a": 1}])
    with pytest.raises(SystemExit, match="all peers"):
        publish.publish(tmp_path)
    assert not store.BOOK.exists() and not readme.README.exists()


def test_every_table_of_the_book_is_the_file_that_was_measured():
    """Which code measured a table stands beside it; whoever changes a figure by hand is found."""
    said = {r["table"]: r for r in store.book("measured")}
    assert [*said] == [*publish.PARTS]
    for table, part in publish.PARTS.items():
        assert said[table]["part"] == part and len(said[table]["commit"]) >= 7, table
        assert said[table]["digest"] == log.digest(store.BOOK / f"{table}.csv"), table


def test_a_run_says_what_it_measured_and_leaves_other_lines_as_they_were(tmp_path, monkeypatch):
    book = tmp_path / "book"
    for part in [*publish.PARTS, "measured", "programs"]:
        store.write(book / f"{part}.csv", store.read(store.BOOK / f"{part}.csv"))
    before = store.read(book / "measured.csv")
    monkeypatch.setattr(store, "BOOK", book)
    monkeypatch.setattr(readme, "README", tmp_path / "README.md")
    readme.README.write_text("## Measured\n\n## Rest\n", encoding="utf8")
    out = tmp_path / "out"
    changed = [r | {"measured": "nothing"} for r in store.book("package")]

    def run(asked):
        store.write(asked.out / "package.csv", changed)

    for _ in range(2):  # gone on with: the minutes add up
        benchmark.log.logged("package", run, argparse.Namespace(out=out))
    monkeypatch.setattr(tables, "show", lambda aucs: None)
    publish.run(out, True)
    after = store.read(book / "measured.csv")
    assert [r for r in after if r["table"] != "package"] == [r for r in before if r["table"] != "package"]  # fmt: skip
    line = next(r for r in after if r["table"] == "package")
    assert (line["version"], line["minutes"]) == (dplit.__version__, "0")
    assert line["digest"] == log.digest(book / "package.csv") and store.book("package") == changed
    assert len(store.read(out / "runs.jsonl")) == 2
    with pytest.raises(SystemExit, match="what measured small"):  # all or none
        store.write(out / "small.csv", store.book("small"))
        publish.run(out, True)
    assert store.read(book / "measured.csv") == after


def test_a_run_is_credited_with_what_it_measured_and_no_other(tmp_path, monkeypatch):
    """One is interrupted, one goes on, one finds nothing left to do."""
    codes, asked = ["aaaaaaa", "bbbbbbb", "ccccccc"], argparse.Namespace(out=tmp_path)
    for ends, code in zip((2, 9, 9), codes, strict=True):

        def measure(job, ends=ends):
            if job == ends:
                raise KeyboardInterrupt
            return {"rows": [{"job": job}]}

        def run(asked, measure=measure):
            store.table(tmp_path / "shifts.csv", {"job": int}, [(j,) for j in range(3)], measure)

        monkeypatch.setattr(log, "commit", lambda code=code: code)
        with suppress(KeyboardInterrupt):
            log.logged("shifts", run, asked)
    assert [r["jobs"] for r in store.read(tmp_path / "runs.jsonl")] == [2, 1, 0]
    [line] = log.measured(tmp_path, {"shifts": "shifts"})
    assert line["commit"] == "aaaaaaa bbbbbbb"
    log.logged("gan", lambda asked: None, asked)
    assert [r["part"] for r in log.runs(tmp_path, "shares", "source-target")] == ["gan"]
    assert log.runs(tmp_path, "auc", "kmeans") == []


def test_a_table_of_fewer_lines_or_runs_takes_no_other_ones_place(tmp_path, monkeypatch):
    rows = [{"set": name, "method": "A", "runs": "10"} for name in "ab"]
    less = partial(publish.less, "shares")
    assert less(rows, rows) == less(rows, []) == ""
    others = [r | {"set": r["set"] * 2} for r in rows]  # as many, of other settings
    assert less(rows[:1] + others, rows) == "no line of set=b, method=A"
    fewer = [rows[0] | {"runs": "30"}, rows[1] | {"runs": "3"}]  # more in all
    assert less(fewer, rows) == "3 runs of set=b, method=A, and 10 are published"
    store.write(tmp_path / "scale.csv", store.book("scale")[:-1])
    with pytest.raises(SystemExit, match="scale has no line of rows=100000000; measure"):
        publish.publish(tmp_path)


def test_lines_of_every_published_table_are_told_apart_by_their_columns():
    assert {*publish.KEYS} == {*publish.PARTS}
    for table, columns in publish.KEYS.items():
        rows = store.book(table)
        assert len({tuple(r[c] for c in columns.split()) for r in rows}) == len(rows), table


def test_a_curve_of_growth_may_end_earlier_if_it_had_as_much_time():
    def curve(*times, limit, status="time"):
        points = [{"cpu_s": str(t), "status": ""} for t in times]
        points.append({"cpu_s": str(limit), "status": status})
        place = {"method": "A", "axis": "rows", "d": "16", "k": "16"}
        return [place | {"n": str(n)} | point for n, point in enumerate(points)]

    published = curve(1, 10, 19, limit=20)
    assert publish.less("growth", curve(1, 10, limit=20), published) == ""
    assert publish.less("growth", curve(1, limit="", status="memory"), published) == ""
    assert publish.less("growth", curve(1, limit=5), published).startswith("no line of method=A")
    assert publish.less("growth", published[:2], published)


def test_points_of_growth_are_those_of_this_limit_and_none_is_lost(tmp_path, monkeypatch):
    measured = []

    def measure(*job, path, limit):
        measured.append(job)
        cpu = job[2] / 100  # seconds
        if cpu > limit + 1:  # whole seconds are counted
            return {"cpu_s": limit, "peak_mb": "", "answers": "", "status": "time"}
        return {"cpu_s": cpu, "peak_mb": "1", "answers": 0, "status": ""}

    monkeypatch.setattr(growth, "measure", measure)
    monkeypatch.setattr(growth, "write_rows", lambda path, n: path.touch())
    monkeypatch.setattr(growth.scale, "check", lambda *args, **options: None)
    monkeypatch.setattr(growth, "MACHINE", [])

    def found(folder, rows, limit):
        folder.mkdir(exist_ok=True)
        growth.run(folder, rows, limit)
        lines = store.read(folder / "growth.csv")
        return {(r["method"], r["axis"], r["n"], r["d"], r["k"]): r for r in lines}

    one = tmp_path / "one"
    large = found(one, 10**5, 1000.0)
    for limit in (150.0, 99.5, 199.9):  # at 199.5 s, say, some fits of 200 s come through
        fresh = found(tmp_path / f"{limit}", 10**5, limit)
        seen = len(measured)
        assert found(one, 10**5, limit) == fresh == found(tmp_path / f"{limit}", 10**5, limit)
        assert len(measured) == seen  # a larger limit has measured all of it
    assert found(one, 10**4, 1000.0) == large == found(one, 10**5, 1000.0)
    assert len(measured) == seen
    taken_up = found(tmp_path / "99.5", 10**5, 1000.0)
    assert taken_up == large and len(measured) > seen
    (one / "growth_done.csv").unlink()  # as older runs left their folder
    seen = len(measured)
    assert found(one, 10**5, 1000.0) == large and len(measured) == seen


# --- what is compared with what ---


def test_a_round_is_what_a_further_round_costs(monkeypatch):
    """Set-up of 5 s, hidden in whole fits, must not count: 2 s a round of ours, half of that of theirs."""
    cost = {"ours": 2.0, "theirs": 1.0}

    def seconds(fit, n_iter):
        return 5 + cost[fit.__name__] * n_iter

    monkeypatch.setattr(measure, "cpu_seconds", seconds)
    assert measure.lloyd_and_kmeans(100, "float64").tolist() == [2.0, 1.0]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_round_is_measured_on_both_programs(dtype):
    assert np.all(measure.lloyd_and_kmeans(30_000, dtype, repeat=2) > 0)
    with pytest.raises(RuntimeError, match="converged"):
        measure.lloyd_and_kmeans(16, dtype, repeat=1)  # as many rows as clusters


def test_the_readme_says_in_the_same_cell_whose_program_was_run():
    """Every figure of somebody else's method; without the mark the line below it must complain."""
    peers = ["PE-means", "printed", "Google", "FastLloyd", "Balcan", "diffprivlib", "FasterPAM", "accelerated", "best peer", "authors'", "C++"]  # fmt: skip
    marks = "our reimplementation", "their code", "run once"

    def unmarked(section):
        found = []
        for line in section.splitlines():
            head, *cells = line.strip("| ").split(" | ")
            if line.startswith("|"):
                about = [c for c in cells if any(p in head or p in c for p in peers)]
                found += [c for c in about if not any(m in c for m in marks)]
            elif any(p in line for p in ("FasterPAM", "C++")):
                found += [s for s in line.split(";") if not any(m in s for m in marks)]
        return found

    section = readme.section()
    assert section.count("(our reimplementation") == 2 and section.count("(run once") == 2
    assert unmarked(section) == []
    for mark in marks:
        assert unmarked(section.replace(mark, ""))


def test_the_readme_has_at_most_two_tables_of_ten_rows_together():
    lines = readme.README.read_text(encoding="utf8").splitlines()
    tables = sum(line.startswith("|--") for line in lines)
    assert tables <= 2 and sum(line.startswith("|") for line in lines) - 2 * tables <= 10
    assert len(lines) <= 140


def test_ratios_of_programs_that_were_run_once_are_those_of_their_figures():
    rows = store.read(store.BOOK / "programs.csv")
    checked = 0
    for r in rows:
        assert r["over"] in ("theirs / ours", "ours / theirs", "program / our reimplementation", "")
        assert r["ratio"] != "nan" and not r["data"].startswith("0 ")  # of fits that were not found
        try:
            ours, theirs, ratio = (
                float(r[c].replace(",", "").removeprefix("about "))
                for c in ("ours", "theirs", "ratio")
            )
        except ValueError:
            continue  # a range, or a ratio alone
        found = theirs / ours if r["over"] == "theirs / ours" else ours / theirs
        assert ratio == pytest.approx(found, rel=0.06, abs=0.01), r  # both are rounded
        checked += 1
    assert checked >= 20
    assert publish.readers(["programs"]) == [
        "about/other_libraries",
        "examples/benchmarks_kmeans",
        "examples/benchmarks_speed",
    ]


# --- drawing anew ---


@pytest.mark.slow
def test_ours_alone_is_drawn_anew_and_published_only_if_whole(tmp_path, monkeypatch, capsys):
    book = tmp_path / "book"
    for part in publish.PARTS:
        store.write(book / f"{part}.csv", store.read(store.BOOK / f"{part}.csv"))
    published = store.read(book / "auc.csv")
    moved = [r for r in published if (r["dataset"], r["method"]) == ("iris", "NoisyLloyd")][0]
    moved["auc"] = str(2 * float(moved["auc"]))  # as if other noise had drawn it
    store.write(book / "auc.csv", published)
    monkeypatch.setattr(store, "BOOK", book)
    monkeypatch.setattr(readme, "README", tmp_path / "README.md")
    monkeypatch.setattr(redraw, "DRAWN", ["NoisyLloyd"])
    with pytest.raises(SystemExit, match="letter"):  # other sets are as they were
        redraw.run(["iris"], 10, tmp_path, True)
    assert store.read(book / "auc.csv") == published
    line = next(l for l in capsys.readouterr().out.splitlines() if l.startswith("NoisyLloyd"))
    assert line.split()[:3] == ["NoisyLloyd", "1", "1"] and float(line.split()[3]) == 0.5
    others = [r for r in published if r["dataset"] != "iris" or r["method"] != "NoisyLloyd"]
    fresh = tables.summary(store.read(tmp_path / "kmeans.csv"))[0]
    again = publish.replaced(published, fresh)
    assert [r for r in again if r in others] == others
    assert float(again[published.index(moved)]["auc"]) == pytest.approx(float(moved["auc"]) / 2)
    few = [r | {"seeds": "3"} for r in published]
    assert publish.replaced(few, fresh) == few  # of other numbers of runs none is replaced
