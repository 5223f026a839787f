"""PEMeans and HDPEMeans: areas compared with other methods', CPU time, what each part of the default is worth (nbs/private_evolution/paper.ipynb to kmeans.ipynb)."""

import contextlib
import math
import tracemalloc
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
from sklearn.cluster import KMeans

from bench.sets import EPSILONS, SETS, auc, available, blobs, geometric_mean, load
from bench.store import Store, timed
from dplit import HDPEMeans, MaxCoverKMeans, NoisyLloyd, PEMeans, datasets, private_evolution
from dplit import private_evolution as pe
from dplit.accounting import Table
from dplit.geometry import nearest
from dplit.mechanisms import Noise
from dplit.private_evolution import kmeans as pe_means

KEY = {"dataset": str, "method": str, "epsilon": float, "seed": int}


def store_of(folder, name):
    """Losses of this chapter, one a line; in memory without a folder."""
    return Store(folder and folder / f"{name}.csv", KEY, [*KEY, "loss"])


def methods(n, d, k):
    """name -> estimator class with its options; the paper takes n as public."""
    found = {
        "PE paper": partial(PEMeans, variant="paper", n_public=n),
        "HDPE paper": partial(HDPEMeans, variant="paper", n_public=n),
        "NoisyLloyd": partial(NoisyLloyd, init="mean"),
        "MaxCover": partial(MaxCoverKMeans, n_public=n),
        "HDPEMeans": HDPEMeans,
        "PEMeans": PEMeans,
    }
    if d <= 32:
        del found["HDPE paper"], found["HDPEMeans"]
    return {name: partial(make, k) for name, make in found.items()}


def loss(make, X, epsilon, seed):
    """Mean squared distance to the nearest center of one fit."""
    model = make(epsilon=epsilon, delta=len(X) ** -1.1, radius=1.0, random_state=seed).fit(X)
    return datasets.kmeans_loss(X, model.cluster_centers_)


def best_loss(X, k):
    """Non-private: the best of 30 starts."""
    fits = (KMeans(k, n_init=10, random_state=s).fit(X) for s in range(3))
    return min(datasets.kmeans_loss(X, fit.cluster_centers_) for fit in fits)


def once(store, job, compute):
    """One loss of the store."""
    return float(store.once(job, lambda *_: {"loss": compute()})["loss"])


def mean_auc(store, name, method, make, X, seeds):
    """AUC of the mean losses over the seeds."""
    runs = [
        [once(store, (name, method, e, s), partial(loss, make, X, e, s)) for e in EPSILONS]
        for s in range(seeds)
    ]
    return auc(np.mean(runs, axis=0))


PEERS = ["PE paper", "HDPE paper", "NoisyLloyd", "MaxCover"]
COLUMNS = [*PEERS, "HDPEMeans", "PEMeans"]


def run_auc(sets, seeds, peer_seeds, folder):
    """Print the table of AUCs and the geometric means of the targets."""
    results, lines, ratios, versus = store_of(folder, "chapter_pe_means_auc"), [], [], []
    for name in available(sets):
        X, k = load(name)
        base = 3.75 * once(results, (name, "best", math.inf, 0), partial(best_loss, X, k))
        found = {}
        for method, make in methods(*X.shape, k).items():
            many = seeds if method == "PEMeans" else min(seeds, peer_seeds)
            found[method] = mean_auc(results, name, method, make, X, many)
        ratios.append(found["PEMeans"] / base)
        versus.append(found["PEMeans"] / min(found[p] for p in PEERS if p in found))
        cells = [f"{found[c]:.4g}" if c in found else "-" for c in COLUMNS]
        lines.append([name, *X.shape, k, f"{base:.4g}", *cells, f"{ratios[-1]:.3f}", f"{versus[-1]:.3f}"])  # fmt: skip
        print(*lines[-1], flush=True)
    head = ["set", "n", "d", "k", "non-private", *COLUMNS, "/ non-private", "/ best peer"]
    print(Table(head, lines))
    print(f"{seeds} seeds for PEMeans, {min(seeds, peer_seeds)} for the others.")
    print(f"PEMeans / non-private: geometric mean {geometric_mean(ratios):.3f} (target 1.08)")
    print(f"PEMeans / best peer: geometric mean {geometric_mean(versus):.3f} (target 0.80), worst {max(versus):.3f} (target 1.03)")  # fmt: skip


# What each part is worth -------------------------------------------------------------------------

IDEA_SETS = ["s1", "digits", "letter", "elong_16_16", "elong_64_4", "elong_16_64", "sklearn_64_16", "sklearn_64_64"]  # fmt: skip


def ideas():
    """name -> (options of the estimator, names of the module to exchange)."""
    lengths = pe_means.residual_radius

    def whole_ball(residuals, centers, *, radius, **rest):
        lengths(residuals, centers, radius=radius, **rest)  # costs the same
        return 2 * radius, 1.0

    def no_undoing(*args, **rest):
        return lengths(*args, **rest)[0], 1.0

    def half(mu, n_refine, projected, counted):
        rows = 0.01 * counted
        shares = rows, 0.5 - rows, 0.5 / n_refine
        return pe_means.EvolutionBudget(*(mu * math.sqrt(share) for share in shares))

    return {
        "the default": ({}, {}),
        "no refinement but one step": ({"n_refine": 1}, {}),
        "two steps": ({"n_refine": 2}, {}),
        "five steps": ({"n_refine": 5}, {}),
        "half of the budget to the votes": ({}, {"evolution_budget": half}),
        "no extra centers": ({}, {"EXTRA": 1.0}),
        "2 k centers": ({}, {"EXTRA": 2.0}),
        "residuals not clipped": ({}, {"residual_radius": whole_ball}),
        "clipping not undone": ({}, {"residual_radius": no_undoing}),
        "no shrinkage": ({}, {"shrink": lambda steps, variance: steps}),
        "no antithetic pairs": (
            {},
            {"private_evolution": partial(pe.private_evolution, antithetic=False)},
        ),
        "Gaussian mutants": ({}, {"variations": partial(pe.variations, beta=2)}),
        "population 500": ({"population": 500}, {}),
        "population 5000": ({"population": 5000}, {}),
        "projected to 16": ({"n_components": 16}, {}),
        "number of rows public": ({"n_public": "n"}, {}),
    }


@contextlib.contextmanager
def exchange(names):
    """Put other functions in place of those of the two modules, wherever they are looked up."""
    with contextlib.ExitStack() as stack:
        for module in (pe, pe_means):
            mine = {name: f for name, f in names.items() if hasattr(module, name)}
            stack.enter_context(mock.patch.dict(vars(module), mine))
        yield


def run_ideas(sets, seeds, folder):
    """Print AUC over the default's, set by set, and geometric means."""
    results, lines, base = store_of(folder, "chapter_pe_means_ideas"), [], {}
    names = list(available(sets))
    for idea, (options, exchanged) in ideas().items():
        row = []
        for name in names:
            X, k = load(name)
            options_here = {o: len(X) if v == "n" else v for o, v in options.items()}
            with exchange(exchanged):
                make = partial(PEMeans, k, **options_here)
                row.append(mean_auc(results, name, idea, make, X, seeds))
            base.setdefault(name, row[-1])
            row[-1] /= base[name]
        lines.append([idea, *(f"{r:.3f}" for r in row), f"{geometric_mean(row):.3f}"])
        print(*lines[-1], flush=True)
    print(Table(["AUC over the default's", *names, "geometric mean"], lines))


# Speed -------------------------------------------------------------------------------------------


def run_speed():
    """Print CPU seconds of whole fits at n = 1e5, and of one round at n = 1e6 compared with a plain blocked pass."""
    X, public = blobs(100_000), {"epsilon": 1.0, "delta": 1e-6, "radius": 1.0, "random_state": 0}
    for name, make in {
        "variant='paper'": partial(PEMeans, 16, variant="paper", n_public=len(X)),
        "default": partial(PEMeans, 16),
    }.items():
        model, seconds = timed(lambda make=make: make(**public).fit(X))
        found = datasets.kmeans_loss(X, model.cluster_centers_)
        print(f"n = 1e5, d = k = 16, {name}: {seconds:.2f} CPU s, loss {found:.5f}")
    X = blobs(1_000_000)
    rng, k, L = np.random.default_rng(0), 16, 124
    centers = KMeans(k, n_init=1, random_state=0).fit(X[:5000]).cluster_centers_
    population = np.vstack([centers, pe.variations(centers, L, rng)])
    Q = private_evolution.vote_grid(X)
    cost = {"mu": 0.1, "n_total": len(X), "noise": Noise(0)}
    tracemalloc.start()
    _, ours = timed(lambda: pe.dp_nn_histogram(Q, population, n_elite=k, **cost))
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    _, ours = timed(lambda: pe.dp_nn_histogram(Q, population, n_elite=k, **cost))
    _, plain = timed(lambda: nearest(X, population, radius=1.0))
    print(
        f"n = 1e6, one round of {len(population)} candidates: {ours:.2f} CPU s, peak {peak:.0f} MB"
    )
    print(
        f"a blocked nearest-neighbor pass: {plain:.2f} CPU s; ratio {ours / plain:.2f} (target 2)"
    )
    model, seconds = timed(lambda: PEMeans(k, **public).fit(X))
    print(f"n = 1e6, the default: {seconds:.1f} CPU s")


def options(parser):
    """Sub-commands of the chapter."""
    parts = parser.add_subparsers(dest="part", required=True)
    areas = parts.add_parser("auc", help="loss compared with other methods'")
    parts.add_parser("speed", help="CPU time").set_defaults(run=lambda asked: run_speed())
    worth = parts.add_parser("ideas", help="what each part of the default is worth")
    for part, sets in ((areas, SETS), (worth, IDEA_SETS)):
        part.add_argument("--sets", nargs="+", choices=SETS, default=sets)
        part.add_argument("--seeds", type=int, default=10)
        part.add_argument("--out", type=Path, help="folder that keeps what is finished")
    areas.add_argument("--peer-seeds", type=int, default=10)
    areas.set_defaults(run=lambda a: run_auc(a.sets, a.seeds, a.peer_seeds, a.out))
    worth.set_defaults(run=lambda a: run_ideas(a.sets, a.seeds, a.out))
