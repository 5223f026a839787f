"""Non-convex adaptation: a network on two rings, the ball of predictors on Adult, what the weights of Algorithm 2 do, and the speed (nbs/adaptation/nonconvex.ipynb)."""

import math
import time
import warnings

import numpy as np

from bench import classification
from bench.classification import DELTA
from dplit import NCnvxAdap, adaptation
from dplit.accounting import gaussian_mu
from dplit.adaptation import Sample
from dplit.inputs import quantize
from dplit.inputs.lattice import lattice
from dplit.mechanisms import Noise


def network(n_splits=10):
    def rings(n, rng, size=1.0, wrong=0.0):
        y, angle = rng.integers(2, size=n), rng.uniform(0, 2 * np.pi, size=n)
        length = size * (0.4 + 0.45 * y) + rng.normal(scale=0.09, size=n)
        X = np.column_stack([length * np.cos(angle), length * np.sin(angle), np.full(n, 0.5)])
        return X, np.where(rng.random(n) < wrong, 1 - y, y)

    found = {}
    for seed in range(n_splits):
        rng = np.random.default_rng(seed)
        (Xs, ys), (Xt, yt), (Xe, ye) = (
            rings(2000, rng, 0.75, 0.25),
            rings(400, rng),
            rings(4000, rng),
        )
        known = {"radius": 1.5, "weight_radius": 30.0, "classes": [0, 1], "random_state": seed}
        net = {"loss": adaptation.NetworkLoss(8)}
        public, free = {"Xs": Xs, "ys": ys}, {"private": False}
        private = {"delta": DELTA, "n_iter": 20}
        ways = {
            "source only": (net | free | {"alpha": 1.0}, public),
            "target only": (net | free, {}),
            "p0 mixture": (net | free | {"kappa_1": math.inf}, public),
            "adapted, not private": (net | free, public),
            "logistic regression": (free, public),
        }
        for epsilon in (1.0, 3.0, 10.0):
            ways[f"adapted, eps {epsilon:g}"] = (
                net | private | {"epsilon": epsilon, "expected_gain": 0.1},
                public,
            )
            ways[f"DP-GD target, eps {epsilon:g}"] = (net | private | {"epsilon": epsilon}, {})
        for name, (way, tables) in ways.items():
            model = NCnvxAdap(**known, **way).fit(Xt, yt, **tables)
            found.setdefault(name, []).append(model.score(Xe, ye))
    for name, scores in found.items():
        print(f"  {name:24s} {np.mean(scores):.3f} ({np.std(scores):.3f})")


def radius(n_splits=5, n=1000):
    """Adult without privacy, n target records: the ball of predictors, compared with kernel mean matching, which has none."""
    if not classification.there("adult"):
        return
    public, found = classification.PROBLEMS["adult"][1], {}
    for seed in range(n_splits):
        Xs, ys, Xt, yt, Xe, ye, _ = classification.draw(classification.problem("adult"), public, n, seed)  # fmt: skip
        fits = {"KMM + target": classification.kmm(Xs, ys, Xt, yt)}
        for size in (5.0, 10.0, 20.0, 40.0, 80.0):
            model = NCnvxAdap(private=False, weight_radius=size, **classification.KNOWN)
            fits[f"adapted, radius {size:g}"] = model.fit(Xt, yt, Xs=Xs, ys=ys)
        for name, model in fits.items():
            found.setdefault(name, []).append(model.score(Xe, ye))
    for name, scores in found.items():
        print(f"  {name:24s} {np.mean(scores):.4f} ({np.std(scores):.4f})")


def printed():
    loss, Lambda, kappa_1 = adaptation.LogLoss(), 8.0, 0.3
    print("n       steps     largest move   mean p v   F at start  at end")
    for n in (100, 1000, 10_000):
        rng, samples, p = np.random.default_rng(n), [], 0.5 / n
        for wrong in (0.3, 0.0):
            X = rng.normal(size=(n, 5)) / math.sqrt(8)
            y = (rng.random(n) < 1 / (1 + np.exp(-8 * X[:, 0]))).astype(int)
            y = np.where(rng.random(n) < wrong, 1 - y, y)
            samples.append(Sample(quantize(X, 1.0), y, lattice(1.0)[0], p))
        fitting = 0.1 * 0.25 / (2 * loss.constants(1.0, Lambda)[0] * p**3)
        for name, speed in (("printed", 1.0), ("fitting", fitting)):
            run = adaptation.algorithm_2(
                loss, samples[1], samples[0], 1.0, Lambda, kappa_1=kappa_1, n_iter=100,
                noise=Noise(1, neighboring="replace"), mu=gaussian_mu(1.0, DELTA), speed=(1.0, speed),
            )  # fmt: skip
            a = p * run[2]
            print(
                f"{n:6d}  {name}  {np.abs(a - 1).max():12.1e}  {a.mean():9.2f}  "
                f"{run[3][0]:9.3f}  {run[3][-1]:8.3f}"
            )


def speed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(110_000, 50)) / math.sqrt(50)
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-8 * X[:, 0]))).astype(int)
    big = Sample(quantize(X, 2.0), y, lattice(2.0)[0], 1 / len(X))
    w = rng.normal(size=50)

    def clock(what, f, repeats=3):
        times = []
        for _ in range(repeats):
            start = time.process_time()
            f()
            times.append(time.process_time() - start)
        print(f"  {what:40s} {min(times):.3f} s of CPU")

    clock("one pass (read, multiply, add)", lambda: (big.X * 1.5).sum(axis=0))
    clock(
        "one gradient, logistic",
        lambda: adaptation.profiled_gradient(adaptation.LogLoss(), w, [big], 0.5),
    )
    v = rng.normal(size=adaptation.NetworkLoss(8).n_parameters(50))
    clock(
        "one gradient, network",
        lambda: adaptation.profiled_gradient(adaptation.NetworkLoss(8), v, [big], 0.5),
    )
    known = {"radius": 2.0, "weight_radius": 20.0, "classes": [0, 1], "random_state": 0}
    tables = {"Xs": X[:100_000], "ys": y[:100_000]}
    exact = NCnvxAdap(private=False, **known)
    clock("fit, not private", lambda: exact.fit(X[100_000:], y[100_000:], **tables), 1)
    private = NCnvxAdap(epsilon=1.0, delta=1e-6, **known)
    clock("fit, epsilon = 1", lambda: private.fit(X[100_000:], y[100_000:], **tables), 1)


def quietly(function):
    """What argparse runs: the function, without warnings."""

    def run(asked):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(*([asked.splits] if "splits" in asked else []))

    return run


def options(parser):
    """Sub-commands of the chapter."""
    parts = parser.add_subparsers(dest="part", required=True)
    for function, text in (
        (network, "a network on two rings"),
        (radius, "the ball of predictors on Adult"),
        (printed, "what Algorithm 2's weights do"),
        (speed, "m = 1e5, n = 1e4, d = 50"),
    ):
        part = parts.add_parser(function.__name__, help=text)
        part.set_defaults(run=quietly(function))
        if function in (network, radius):
            part.add_argument("--splits", type=int, default=5 if function is radius else 10)
