"""k-tuples: how fast they are counted compared with a triple loop, what a fit takes, how many samples a test needs (nbs/k_tuples/paper.ipynb).

CPU seconds differ from machine to machine, their ratios much less.
"""

import math

import numpy as np

from bench.store import timed
from dplit import KAverages, KNoisyCenters, StableTupleMean
from dplit.accounting import Table
from dplit.geometry import nearest
from dplit.k_tuples import count_unpartitioned

DELTA = math.exp(-28)
SHAPES = [(2, 1), (2, 16), (8, 4)]


def centers_of(k, d, R):
    """The paper's means, at R and -R on the axes."""
    axes = R * np.eye(d)[: k // 2]
    return np.stack([axes, -axes], axis=1).reshape(k, d)


def triple_loop(T1, T2, separation):
    """Figure 1, step 1, read directly; stops at the first ball that does not hold exactly one point."""
    counts = []
    for X in T1:
        reach = [
            min(math.dist(x, z) for j, z in enumerate(X) if j != i) / separation
            for i, x in enumerate(X)
        ]
        bad = 0
        for Y in T2:
            bad += any(
                sum(math.dist(x, y) <= r for y in Y) != 1 for x, r in zip(X, reach, strict=True)
            )
        counts.append(bad)
    return np.array(counts)


def count(asked):
    """Blocks against loops, over arrays as one writes them first and over plain lists."""
    rows = []
    for k, d in SHAPES:
        rng = np.random.default_rng(0)
        T = centers_of(k, d, 100.0) + 0.1 * rng.normal(size=(asked.tuples, k, d))
        fast, blocks = min(
            (timed(lambda T=T: count_unpartitioned(T[:15], T, 7.0)) for _ in range(5)),
            key=lambda pair: pair[1],
        )
        loops = [timed(lambda A=A: triple_loop(A[:15], A, 7.0)) for A in (T, T.tolist())]
        assert all(np.array_equal(slow, fast) for slow, _ in loops)
        arrays, lists = (seconds for _, seconds in loops)
        ratios = f"{arrays / blocks:.0f}", f"{lists / blocks:.0f}"
        rows.append((k, d, f"{arrays:.2f}", f"{lists:.2f}", f"{blocks:.4f}", *ratios))
    head = ["k", "d", "loops over arrays, s", "over lists, s", "blocks, s", "ratio", "ratio, lists"]
    print(Table(head, rows))


def fit(asked):
    """CPU seconds of one fit."""
    rows, cost = [], {"epsilon": 1.0, "delta": DELTA, "random_state": 0}
    for k, d in SHAPES:
        for name, n, model in (
            ("stable mean", 500, StableTupleMean(**cost)),
            ("stable mean", 750, StableTupleMean(**cost)),
            ("one noisy tuple", 250, KNoisyCenters(**cost)),
            ("sampled", 1926, KNoisyCenters(variant="sampled", **cost)),
            ("as published", 4296, KNoisyCenters(variant="paper", **cost)),
            ("averages", 500_000, KAverages(radius=2048.0, min_radius=0.1, too_few=True, **cost)),
        ):
            T = centers_of(k, d, 500.0) + 0.01 * np.random.default_rng(0).normal(size=(n, k, d))
            model.fit(T)  # plans are kept
            rows.append((name, n, k, d, f"{timed(lambda m=model, T=T: m.fit(T))[1]:.3f}"))
    print(Table(["method", "tuples", "k", "d", "seconds"], rows))


def fewest_samples(make, n, R, k, d, runs):
    """Smallest s on a grid of steps of 9% with success in nine runs of ten, times n; tuples by the distribution of group means."""
    centers, s = centers_of(k, d, R), 2.0
    while s < 1e5:
        missed = 0
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            T = centers + rng.normal(size=(n, k, d)) * math.sqrt(k / s)
            released = make(seed).fit(T).centers_
            points = (centers[:, None] + rng.normal(size=(k, 4000, d))).reshape(-1, d)
            cells = None if released is None else nearest(points, released).reshape(k, -1)
            good = (
                cells is not None and not np.ptp(cells, axis=1).any() and len({*cells[:, 0]}) == k
            )
            missed += not good
            if missed > runs // 10:
                break
        if missed <= runs // 10:
            return n * s
        s *= 1.09
    return math.inf


def samples(asked):
    """One of the paper's tests."""
    cost = {"epsilon": 1.0, "delta": DELTA}
    methods = {
        "as published": (lambda s: KNoisyCenters(variant="paper", random_state=s, **cost), 4296),
        "one noisy tuple": (lambda s: KNoisyCenters(random_state=s, **cost), 250),
        "stable mean": (lambda s: StableTupleMean(random_state=s, **cost), 550),
        "stable mean, 20": (
            lambda s: StableTupleMean(separation=20.0, random_state=s, **cost),
            750,
        ),
    }
    rows = [
        (
            R,
            *(
                f"{fewest_samples(make, n, R, asked.clusters, asked.dimensions, asked.runs):.2g}"
                for make, n in methods.values()
            ),
        )
        for R in asked.distances
    ]
    print(Table(["R", *methods], rows))


def options(parser):
    """Sub-commands of the chapter."""
    commands = parser.add_subparsers(dest="part", required=True)
    for command in (count, fit, samples):
        part = commands.add_parser(command.__name__, help=command.__doc__)
        part.set_defaults(run=command)
        if command is count:
            part.add_argument("--tuples", type=int, default=4296)
        if command is samples:
            part.add_argument("--clusters", type=int, default=2)
            part.add_argument("--dimensions", type=int, default=1)
            part.add_argument("--distances", type=float, nargs="+", default=[32, 128, 512])
            part.add_argument("--runs", type=int, default=20)
