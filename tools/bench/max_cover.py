"""MaxCoverKMeans measured: its losses compared with other methods', its speed with a direct implementation of Algorithm 2.

Of nbs/max_cover/paper.ipynb: `loss [--data NAME ...] [--clusters K ...] [--seeds S] [--out DIR]`, and
`cover [--rows N ...] [--dimensions D ...]`. Of nbs/max_cover/kmeans.ipynb: `skip [--sets NAME ...]`. CPU seconds differ from machine to machine, their ratios much less.
"""

import math
import tracemalloc
import warnings
from functools import partial
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

from bench import cover_figure, sets
from bench.store import table, timed, write
from dplit import MaxCoverKMeans, NoisyLloyd, datasets
from dplit.accounting import Table
from dplit.geometry import uniform_in_ball
from dplit.max_cover import GridCover, grid_set_cover
from dplit.max_cover.kmeans import budget_of, default_covers
from dplit.mechanisms import Noise

RADIUS, PICKS, EXPONENT = 0.08, 16, 0.02  # one level of the cover


def peak_megabytes(function):
    """Peak of the memory allocated while a function runs."""
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


# Algorithm 2, line by line -----------------------------------------------------------------------


def steps(d):
    """All v of V_i and s of {0, 1}^d' (grid unit = cover radius / sqrt(d'), so |v|^2 < 4 d')."""
    V = [v for v in product(range(2 * d + 1), repeat=d) if sum(x * x for x in v) < 4 * d]
    return V, list(product((0, 1), repeat=d))


def cover_by_loops(places):
    """cover[node] = set of points: the three loops of the pseudocode; lengths are in grid units."""
    d, cover = places.shape[1], {}
    V, S = steps(d)
    for i, p in enumerate(places.tolist()):
        floor = [math.floor(x) for x in p]
        for v in V:
            for s in S:
                b = tuple([f + t + (2 * t - 1) * u for f, t, u in zip(floor, s, v, strict=True)])
                if sum([(x - y) ** 2 for x, y in zip(b, p, strict=True)]) < 4 * d:
                    cover.setdefault(b, set()).add(i)
    return cover


def cover_by_record(places):
    """The same; numpy does the two inner loops, and a node is one whole number."""
    d, cover = places.shape[1], {}
    v, s = (np.array(part) for part in zip(*product(*steps(d)), strict=True))
    offsets = s + (2 * s - 1) * v
    for i, p in enumerate(places):
        b = np.floor(p).astype(np.int64) + offsets
        for key in number(b[((b - p) ** 2).sum(axis=1) < 4 * d]).tolist():
            cover.setdefault(key, set()).add(i)
    return cover


def number(b):
    """One whole number for a node."""
    return b @ (2**12) ** np.arange(b.shape[-1])


def read_directly(places, build, chosen, n_nodes):
    """All rounds for given choices; the cover is built once, which is faster than as published.

    Returns how many nodes cover c points, for each c, in each round, and the rows left after each.
    """
    cover, histograms, left = build(places), [], [set(range(len(places)))]
    nodes_of = [[] for _ in places]
    for b, rows in cover.items():
        for i in rows:
            nodes_of[i].append(b)
    for g in chosen:
        counts = np.fromiter(map(len, cover.values()), dtype=np.int64, count=len(cover))
        histograms.append(np.bincount(counts)[1:])
        total = np.exp(EXPONENT * counts).sum() + n_nodes - np.count_nonzero(counts)
        p_sample = 1 - n_nodes / total  # Ber(p_sample): a covering node, drawn by these weights
        np.cumsum(np.expm1(EXPONENT * counts)).searchsorted(p_sample)  # the draw; g is known
        gone = list(cover.get(g, ()))
        for i in gone:
            for b in nodes_of[i]:
                cover[b].discard(i)
        left.append(left[-1].difference(gone))
    return histograms, left


def clumps(n, d):
    """n points around 16 places of the unit ball, standard deviation 0.05."""
    rng = np.random.default_rng(n + d)
    centers = uniform_in_ball(16, d, rng=rng) * 0.9
    points = centers[np.arange(n) % 16] + 0.05 * rng.standard_normal((n, d))
    return points / np.maximum(1, np.linalg.norm(points, axis=1))[:, None]


def ours(points, snap, watch=None):
    """One level; the same choices at every call. `watch` notes what the choices saw."""
    choose = Noise(0).cover(EXPONENT)

    def watched(grid):
        watch.append((grid.size, grid.histogram[1:].copy()))
        return choose(grid)

    return grid_set_cover(points, RADIUS, PICKS, choose if watch is None else watched, snap=snap)


def cover_row(n, d, snap):
    """Times of the same 16 choices, after a check that all implementations count alike in every round."""
    points, seen = clumps(n, d), []
    unit = RADIUS / math.sqrt(d)
    places = np.rint(points / unit) if snap else points / unit
    nodes, live = ours(points, snap, seen)
    chosen = np.rint(nodes / unit).astype(np.int64)
    seconds, left = {}, None
    implementations = [
        ("loops", cover_by_loops, [tuple(b) for b in chosen.tolist()]),
        ("by record", cover_by_record, number(chosen).tolist()),
    ]
    for name, build, keys in implementations:
        (histograms, left), seconds[name] = timed(
            lambda b=build, c=keys: read_directly(places, b, c, seen[0][0])
        )
        for theirs, (_, mine) in zip(histograms, seen, strict=True):
            assert np.array_equal(np.trim_zeros(theirs, "b"), np.trim_zeros(mine, "b"))
        assert left[-1] == set(np.flatnonzero(live).tolist())
    own = min(timed(lambda: ours(points, snap))[1] for _ in range(5))
    one_build = timed(lambda: cover_by_loops(places))[1]
    printed = one_build * sum(map(len, left[:-1])) / n  # a build for the rows left, in each round
    fastest = min(seconds.values())
    return [
        n, d, "snap" if snap else "ball", len(left[-1]), f"{own:.4f}",
        f"{seconds['by record']:.2f}", f"{seconds['loops']:.2f}", f"{printed:.1f}",
        f"{fastest / own:.0f}", f"{seconds['loops'] / own:.0f}", f"{printed / own:.0f}",
        f"{peak_megabytes(lambda: ours(points, snap)):.0f}",
    ]  # fmt: skip


def cover(rows, dimensions):
    """Print the table of times."""
    head = ["n", "d'", "cover", "left", "ours s", "by record s", "loops s", "as published s"]
    head += ["fastest / ours", "loops / ours", "published / ours", "ours peak MB"]
    sizes = [(n, d) for d in dimensions for n in rows if d < 4 or n <= 5000]
    print(f"One level: r = {RADIUS}, g = 1, {PICKS} picks, exponent {EXPONENT}; CPU seconds.")
    print("Counts of all implementations agree in every round. by record, loops: cover built once;")
    print("as published: rebuilt in every round (one build timed, times the rows left).")
    print(Table(head, [cover_row(n, d, snap) for n, d in sizes for snap in (False, True)]))
    print("Targets at n = 20000, d' = 3: ball 30 times, snap 300 times.")


# Losses -------------------------------------------------------------------------------------------


CLUSTERS = {"syn64": (8, 16, 32, 64), "digits": (10,), "mnist10k": (10,)}  # others: 8 and 16
SEEDS = {"digits": 20}  # others: 8
ALL = ["syn64", "digits", "mnist10k", *(f"blobs_{n}_{d}" for d in (2, 10, 50) for n in (5000, 20000))]  # fmt: skip


def load(name, k):
    """(rows, PUBLIC center, PUBLIC radius) of a data set."""
    if name.startswith("blobs_"):
        n, d = map(int, name.split("_")[1:])
        X = make_blobs(n, d, centers=k, center_box=(-10, 10), random_state=7)[0]
        return np.clip(X + 15, 0, 30), np.full(d, 15.0), 15 * math.sqrt(d)
    makers = {
        "syn64": lambda: datasets.make_clipped_gaussians(random_state=500),
        "digits": datasets.load_digits,
        "mnist10k": datasets.fetch_mnist,
    }
    b = makers[name]()
    return b.data, b.center, b.radius


NO_COVERS = 0.114, 1e-9, 0.143, 0.743 - 1e-9  # their share goes to the other parts


def random_candidates(seed):
    """Instead of step 2: as many points, drawn without the data."""

    def draw(points, radii, n_picks, choose, **_):
        return uniform_in_ball(
            len(radii) * n_picks, points.shape[1], rng=np.random.default_rng(seed)
        )

    return mock.patch("dplit.max_cover.paper.max_cover", draw)


def methods(n, k, public):
    """name -> function of (rows, seed) that returns centers; the first three are not private."""
    private = dict(public, n_clusters=k, epsilon=1.0, delta=n**-1.5)

    def kmeans(restarts, **options):
        def run(X, seed):
            model = KMeans(k, n_init=restarts, random_state=seed, **options)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # ten rounds need not converge
                return model.fit(X).cluster_centers_

        return run

    def lloyd(X, seed):
        model = NoisyLloyd(**private, init="mean", n_iter=4, random_state=seed)
        return model.fit(X).cluster_centers_

    def max_cover(n_public=n, **options):
        def run(X, seed):
            model = MaxCoverKMeans(
                **private, n_public=n_public, zoom=False, random_state=seed, **options
            )
            return model.fit(X).cluster_centers_

        return run

    def without_covers(X, seed):
        with random_candidates(seed):
            return max_cover(shares=NO_COVERS)(X, seed)

    return {
        "KMeans, 10 restarts": kmeans(10),
        "KMeans, random start, 10 rounds": kmeans(1, init="random", max_iter=10),
        "the mean alone": lambda X, seed: X.mean(axis=0, keepdims=True),
        "NoisyLloyd(init='mean', n_iter=4)": lloyd,
        # balls from 1 / n on, as published; ln(n) / 2 dimensions or the most that can be counted
        "variant='paper'": max_cover(
            variant="paper", n_components=cover_figure.published_dimension(n)
        ),
        # the smaller grid of earlier tables: three dimensions, and balls from 1 / 1000
        "variant='paper', n_public=1000": max_cover(variant="paper", n_public=1000),
        "MaxCoverKMeans": max_cover(),
        "  without recentring": max_cover(shares=(0.0, 0.33, 0.11, 0.56)),
        "  n_lloyd=2": max_cover(n_lloyd=2),
        "  random candidates, no covers": without_covers,
    }


def loss_row(name, method, X, seeds):
    """[name, loss, sd, CPU seconds of a fit, note] over the seeds."""
    losses, cpu = [], []
    for seed in range(seeds):
        try:
            centers, seconds = timed(lambda s=seed: method(X, s))
        except ValueError as error:
            return [name, "-", "", "", "refused: " + str(error).split(":")[0]]
        losses.append(datasets.kmeans_loss(X, centers))
        cpu.append(seconds)
    return [name, f"{np.mean(losses):.4g}", f"{sets.spread(losses):.2g}", f"{np.mean(cpu):.2f}", ""]  # fmt: skip


KEY = {"dataset": str, "k": int, "runs": int}


def loss_jobs(names, clusters, seeds):
    """(data set, clusters, seeds) of every table, without the sets whose file is missing."""
    for name in names:
        for k in clusters or CLUSTERS.get(name, (8, 16)):
            try:
                load(name, k)
            except FileNotFoundError as error:
                print(f"\n{name} is skipped: {error}")
                break
            yield name, k, seeds or SEEDS.get(name, 8)


def loss_table(name, k, seeds):
    """Rows of all methods on one data set; what is not drawn runs once."""
    X, center, radius = load(name, k)
    n, d = X.shape
    ways = methods(n, k, {"center": center, "radius": radius})
    once = "KMeans, 10 restarts", "the mean alone"
    rows = [loss_row(m, f, X, 1 if m in once else seeds) for m, f in ways.items()]
    peak = peak_megabytes(lambda: ways["MaxCoverKMeans"](X, 0))
    head = {"dataset": name, "n": n, "d": d, "k": k, "runs": seeds}
    fields = "method", "loss", "sd", "cpu_s", "note"
    rows = [head | dict(zip(fields, row, strict=True)) for row in rows]
    return {"rows": rows, "peak_mb": peak, "data_mb": X.nbytes / 1e6}


def show(line):
    """Print the table of one data set."""
    d, *_ = line["rows"]
    print(f"\n{d['dataset']}: {d['n']} x {d['d']}, k = {d['k']}, epsilon = 1, delta = n^-1.5, {d['runs']} seeds;")  # fmt: skip
    print(f"peak memory of a MaxCoverKMeans fit {line['peak_mb']:.0f} MB beyond {line['data_mb']:.0f} MB of data")  # fmt: skip
    rows = [[*row.values()][5:] for row in line["rows"]]
    print(Table(["method", "loss", "sd", "CPU s", "note"], rows), flush=True)


def loss(names, clusters, seeds, path=None):
    """One table for each data set and number of clusters, all their lines in a CSV file."""
    return table(path, KEY, loss_jobs(names, clusters, seeds), loss_table, show)


SKIPPED = ["digits", "elong_16_4", "elong_64_4", "elong_64_64", "sklearn_64_16", "sklearn_64_64"]


def signal(model, n, d):
    """Logarithm of the tickets of a node that covers an average cluster, over that of the finest grid's nodes. PUBLIC."""
    covers = default_covers(model, d)
    nodes = GridCover(np.zeros((1, covers.d)), covers.finest, covers.ratio, covers.snap).size
    return budget_of(model).covers * n / model.n_clusters / math.log(nodes)


def skip(asked):
    """Loss of random candidates, the covers' share given to the other parts, over that of MaxCoverKMeans."""
    lines = []
    for name in sets.available(asked.sets):
        (X, k), found = sets.load(name), []
        n, d = X.shape
        for epsilon in asked.epsilons:
            cost = {"epsilon": epsilon, "delta": n**-1.1, "radius": 1.0}
            make = partial(MaxCoverKMeans, k, n_public=n, zoom=False, **cost)
            for seed in range(asked.runs):
                ours = make(random_state=seed).fit(X).cluster_centers_
                with random_candidates(seed):
                    theirs = make(random_state=seed, shares=NO_COVERS).fit(X).cluster_centers_
                found.append([datasets.kmeans_loss(X, centers) for centers in (ours, theirs)])
            ours, theirs = np.array(found[-asked.runs :]).T
            error = np.std(theirs - ours, ddof=1) / math.sqrt(asked.runs) / ours.mean()
            ratio = f"{theirs.mean() / ours.mean():.3f} +- {error:.3f}"
            lines.append((name, n, d, k, f"{epsilon:g}", f"{signal(make(), n, d):.2f}", ratio))
            print(*lines[-1], sep="   ", flush=True)
    lines.sort(key=lambda line: float(line[5]))
    print(Table(["set", "n", "d", "k", "epsilon", "signal", "random / covers"], lines))


COVER = "n d predicate rows_left ours_s by_record_s loops_s as_printed_s fastest_over_ours loops_over_ours printed_over_ours peak_mb".split()  # fmt: skip
LEVELS = [(5000, 2, True), (20000, 2, True), (20000, 2, False), (5000, 3, True), (20000, 3, True), (20000, 3, False)]  # fmt: skip


def run(folder, seeds):
    """Losses: max_cover.csv. One level of covers compared with direct implementations of the published algorithm, same choices: cover.csv."""
    loss(["syn64", "digits"], None, seeds, folder / "max_cover.csv")
    rows = []
    for n, d, snap in LEVELS:
        rows.append(dict(zip(COVER, cover_row(n, d, snap), strict=True)))
        print(*rows[-1].values(), flush=True)
    write(folder / "cover.csv", rows)


def options(parser):
    """Sub-commands of the chapter."""
    parts = parser.add_subparsers(dest="part", required=True)
    part = parts.add_parser("cover", help="speed of one level of covers")
    part.add_argument("--rows", type=int, nargs="+", default=[1000, 5000, 20000])
    part.add_argument("--dimensions", type=int, nargs="+", default=[2, 3, 4])
    part.set_defaults(run=lambda asked: cover(asked.rows, asked.dimensions))
    part = parts.add_parser("skip", help=skip.__doc__)
    part.add_argument("--sets", nargs="+", choices=sets.SETS, default=SKIPPED, metavar="NAME")
    part.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.25, 0.5, 1.0])
    part.add_argument("--runs", type=int, default=10)
    part.set_defaults(run=skip)
    part = parts.add_parser("loss", help="losses of the methods")
    part.add_argument("--data", nargs="+", default=ALL, help="syn64, digits, mnist10k, blobs_n_d")
    part.add_argument("--clusters", type=int, nargs="+", help="default: those of the data set")
    part.add_argument("--seeds", type=int, help="default: 8, of digits 20")
    part.add_argument("--out", type=Path, help="folder that keeps what is finished")
    part.set_defaults(run=run_loss)


def run_loss(asked):
    """Losses of the sub-command, which go into a table of their own."""
    path = asked.out and asked.out / "chapter_max_cover.csv"
    loss(asked.data, asked.clusters, asked.seeds, path)
