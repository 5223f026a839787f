"""Sources and targets: the solver compared with its peers, and what private sources are worth, as shares of the gap.

Of nbs/source_target/medoids.ipynb: `solver [--runs 1]` (n = 5000 and 20000; FasterPAM needs `pip install kmedoids` and holds
a matrix of all distances, 1.6 GB at n = 20000) and `shares [--runs 30] [--first 0] [--mnist]`. Seeds
count from --first: defaults were chosen on seeds below 1000, so figures to quote take others.
"""

from functools import partial
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.neighbors import KernelDensity

from bench import medoids
from bench.store import Store, book, read, table, timed, write
from dplit import NeighborNoisyAverages, NoisyAverageSet, NoisyLloyd, SourceTargetKMedoids, datasets
from dplit.accounting import gaussian_epsilon, gaussian_mu
from dplit.geometry import clip_to_ball, gaussian_projection, nearest
from dplit.mechanisms import Noise
from dplit.source_target import kd_cover, source_distance, stc_cost

try:
    import kmedoids
except ImportError:
    kmedoids = None


def accelerated_k_medoids(X, S, k, seed=0, batch=3000, sweeps=10, draws=100):
    """de Mathelin et al. (ICLR 2022): greedy on a random batch, then medoids of clusters by branch and bound.

    Written from the paper's description, in favor of its speed: the greedy updates its gains.
    """
    rng, n = np.random.default_rng(seed), len(X)
    d0 = cKDTree(S).query(X)[0]
    rows = rng.permutation(n)[:batch]
    D, distance, chosen = cdist(X[rows], X[rows]), d0[rows].copy(), []
    for _ in range(k):
        gains = np.maximum(distance[:, None] - D, 0).sum(axis=0)
        chosen.append(int(gains.argmax()))
        distance = np.minimum(distance, D[chosen[-1]])
    medoids, cost = rows[chosen], np.inf
    for _ in range(sweeps):
        table = np.c_[d0, cdist(X, X[medoids])]
        owner, before = table.argmin(axis=1), cost
        cost = table.min(axis=1).mean()
        if before - cost < 1e-4:
            break
        for slot in range(k):
            mine = np.flatnonzero(owner == slot + 1)
            if len(mine):
                medoids[slot] = _medoid(X, mine, medoids[slot], rng, draws)
    return medoids


def _medoid(X, mine, medoid, rng, draws):
    """Medoid of a cluster: candidates are removed when a confidence bound on their mean exceeds the best one's."""
    best = cdist(X[[medoid]], X[mine]).mean()
    alive, total, squares, count = mine, np.zeros(len(mine)), np.zeros(len(mine)), 0
    while len(alive) > draws and count < len(mine):
        D = cdist(X[alive], X[rng.choice(mine, draws)])
        total, squares, count = total + D.sum(axis=1), squares + (D**2).sum(axis=1), count + draws
        mean = total / count
        spread = np.sqrt(np.maximum(squares / count - mean**2, 0) / count)
        keep = mean - 2 * spread < min(best, (mean + 2 * spread).min())
        alive, total, squares = alive[keep], total[keep], squares[keep]
    if not len(alive):
        return medoid
    means = np.array([cdist(X[[j]], X[mine]).mean() for j in alive])
    return alive[means.argmin()] if means.min() < best else medoid


def faster_pam(X, S, k):
    """The row-clipped matrix of all distances, and FasterPAM from a random start."""
    clipped, d0 = np.empty((len(X), len(X)), dtype=np.float32), source_distance(X, S)
    for at in range(0, len(X), 500):
        rows = slice(at, at + 500)
        clipped[rows] = np.minimum(cdist(X[rows], X), d0[rows, None])
    return kmedoids.fasterpam(clipped, k, random_state=0, n_cpu=1).medoids.astype(int)


def ours(X, S, k, **options):
    return SourceTargetKMedoids(k, **options).fit(Xt=X, sources=S).medoid_indices_


WAYS = {
    "ours": ours,
    "ours, greedy only": partial(ours, n_passes=0),
    "accelerated k-medoids": accelerated_k_medoids,
    "FasterPAM": faster_pam,
}


SOLVER = {"n": int, "d": int, "data": str, "runs": int}


def solve(n, d, data, runs, k=100):
    """Cost and CPU time of each solver over ours; means over runs, each with data of its own."""
    found, m = {}, min(n, 10_000)
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        X, S = rng.normal(size=(n, d)), rng.normal(size=(m, d)) + 1
        if data == "blobs":
            X += rng.normal(size=(30, d))[rng.integers(30, size=n)] * 5
        for name, run in WAYS.items():
            if name == "FasterPAM" and not kmedoids:
                continue
            medoids, seconds = timed(lambda run=run, X=X, S=S: run(X, S, k))
            found.setdefault(name, []).append((stc_cost(X, S, medoids), seconds))
    rows, (cost0, seconds0) = [], np.array(found["ours"]).T
    for name, pairs in found.items():
        cost, seconds = np.array(pairs).T
        dear, slow = np.mean(cost / cost0), seconds.sum() / seconds0.sum()
        row = {"n": n, "m": m, "d": d, "data": data, "solver": name, "runs": runs}
        row |= {"cost": f"{cost.mean():.5f}", "cost_over_ours": f"{dear:.4f}"}
        rows.append(row | {"cpu_s": f"{seconds.mean():.3g}", "time_over_ours": f"{slow:.3g}"})
    return {"rows": rows}


def show_solver(line):
    """Print what the solvers did on one set."""
    for row in line["rows"]:
        *place, name, _, cost, dear, seconds, slow = row.values()
        print(f"{' / '.join(map(str, place)):24s} {name:24s} {cost:>9s} {dear:>10s} {seconds:>7s} {slow:>10s}", flush=True)  # fmt: skip


def solver(runs, sizes=(5000, 20_000), path=None):
    """The table of the solvers, a few lines for each set."""
    print(f"{'n / m / d / data':24s} {'solver':24s} {'cost':>9s} {'over ours':>10s} {'s':>7s} {'over ours':>10s}")  # fmt: skip
    jobs = [(n, d, data, runs) for n in sizes for d in (2, 8) for data in ("gauss", "blobs")]
    wanted = {*WAYS} - (set() if kmedoids else {"FasterPAM"})  # all that are here by now
    whole = lambda line: wanted <= {row["solver"] for row in line["rows"]}  # noqa: E731
    return table(path, SOLVER, jobs, solve, show_solver, whole)


def moments(noise, X, mu):
    """(number, mean, covariance) of rows in the unit ball, by one Gaussian release of all sums."""
    d = X.shape[1]
    upper = np.triu_indices(d)
    double = np.where(upper[0] == upper[1], 1.0, np.sqrt(2))  # so that lengths are those of x x'
    parts = np.column_stack([np.ones(len(X)), X, X[:, upper[0]] * X[:, upper[1]] * double])
    total = noise.gaussian(parts.sum(axis=0), sensitivity=np.sqrt(3), mu=mu)
    n, sums = max(total[0], 1.0), np.zeros((d, d))
    sums[upper] = total[1 + d :] / double
    mean = clip_to_ball(total[None, 1 : d + 1] / n, 1.0)[0]
    return n, mean, (sums + np.triu(sums, 1).T) / n - np.outer(mean, mean)


def gaussian_sample(rng, mean, covariance, size):
    values, vectors = np.linalg.eigh(covariance)
    return mean + (rng.normal(size=(size, len(mean))) * np.sqrt(np.clip(values, 0, 1))) @ vectors.T


def one_gaussian(Xs, radius, center, seed, size=100):
    """Points of a Gaussian with noisy moments, at (3, 1e-6)."""
    noise = Noise(seed)
    X = clip_to_ball(Xs, radius, center) - center
    _, mean, covariance = moments(noise, X / radius, gaussian_mu(3.0, 1e-6))
    return gaussian_sample(noise.public_rng, mean, covariance, size) * radius + center


def mixture(Xs, radius, center, seed, size=100, k=8):
    """Points of k Gaussians at (3, 1e-6): private centers for half, then noisy moments of their clusters."""
    noise, mu = Noise(seed), gaussian_mu(3.0, 1e-6) / np.sqrt(2)  # half in zCDP, or in mu squared
    half = {"epsilon": gaussian_epsilon(1e-6, mu), "delta": 1e-6}
    lloyd = NoisyLloyd(k, **half, radius=radius, center=center, random_state=seed).fit(Xs)
    X, centers = clip_to_ball(Xs, radius, center) - center, lloyd.cluster_centers_ - center
    owner = nearest(X, centers)  # a row is in one cluster: only the moments of that one change
    parts = [moments(noise, X[owner == j] / radius, mu) for j in range(k)]
    weight = np.array([part[0] for part in parts])
    drawn = noise.public_rng.multinomial(size, weight / weight.sum())
    points = [
        gaussian_sample(noise.public_rng, mean, covariance, times)
        for (_, mean, covariance), times in zip(parts, drawn, strict=True)
    ]
    return np.vstack(points) * radius + center


def plane_histogram(Xs, radius, center, seed, size=100, n_bins=20):
    """Points of a noisy histogram of the two widest directions, found with a quarter of the budget."""
    noise, mu = Noise(seed), gaussian_mu(3.0, 1e-6)
    X = (clip_to_ball(Xs, radius, center) - center) / radius
    spent, mean, plane = 0.0, np.zeros(X.shape[1]), np.eye(X.shape[1])[:, :2]
    if X.shape[1] > 2:
        spent = mu / 2
        _, mean, covariance = moments(noise, X, spent)
        plane = np.linalg.eigh(covariance)[1][:, -2:]
    cell = np.clip(np.floor((X @ plane + 1) / 2 * n_bins), 0, n_bins - 1).astype(int)
    counts = noise.histogram(cell @ [n_bins, 1], n_bins**2, mu=np.sqrt(mu**2 - spent**2))
    chance = np.maximum(counts - 3 / mu, 0) + 1e-9  # small counts are mostly noise
    drawn = noise.public_rng.choice(n_bins**2, size=size, p=chance / chance.sum())
    corner = np.column_stack([drawn // n_bins, drawn % n_bins])
    found = (corner + noise.public_rng.uniform(size=(size, 2))) / n_bins * 2 - 1
    return (mean + (found - mean @ plane) @ plane.T) * radius + center


def centers_of(X, seed, size=100):
    """Centers of k-means, without privacy."""
    return KMeans(min(size, len(X)), n_init=1, random_state=seed).fit(X).cluster_centers_


def kernel_draws(X, seed, size=100):
    """Draws from a Gaussian kernel on the rows, its width by Scott's rule; without privacy."""
    width = len(X) ** (-1 / (X.shape[1] + 4)) * X.std(axis=0).mean()
    return KernelDensity(bandwidth=width).fit(X).sample(size, random_state=seed)


def ways(Xs, Xt, radius, center, seed):
    """How each method gets its sources, by name; the private ones at epsilon = 3, (3, 1e-6) or rho = 3.

    The last ones are generative models, 100 points each as in the paper. "100 true sources" is what a
    generator has that learns the rows by heart; centers and kernel draws can do better.
    """
    ball = {"radius": radius, "center": center, "random_state": seed}
    coarse = Xt[kd_cover(Xt, radius / 10)]
    pure, both, rho = {"epsilon": 3.0}, {"epsilon": 3.0, "delta": 1e-6}, {"rho": 3.0}

    def run(model, **options):
        target = coarse if options.get("variant") == "paper" else Xt
        return lambda: model(**ball, **options).fit(Xs=Xs, Xt=target).sources_

    nas, nna = partial(NoisyAverageSet, t=150), NeighborNoisyAverages
    found = {"ignored": lambda: None, "open": lambda: Xs}
    for name, cost in (("eps 3", pure), ("rho 3", rho), ("(3, 1e-6)", both)):
        found[f"NAS {name} paper"] = run(nas, variant="paper", **cost)
        found[f"NAS {name} tight"] = run(nas, **cost)
        if cost is not both:  # not published for NNA, and pure noise is smaller
            found[f"NNA {name} paper"] = run(nna, variant="paper", **cost)
            found[f"NNA {name} tight"] = run(nna, **cost)
            found[f"NNA {name} tight, clouds"] = run(nna, output="cloud", **cost)
            found[f"NNA {name} tight, means"] = run(nna, output="mean", **cost)
    rng, at = np.random.default_rng(seed), (Xs, radius, center, seed)
    few = Xs[rng.choice(len(Xs), min(100, len(Xs)), replace=False)]
    return found | {
        "private k-means (3, 1e-6)": lambda: (
            NoisyLloyd(100, **both, **ball).fit(Xs).cluster_centers_
        ),
        "100 true sources, open": lambda: few,
        "100 k-means centers, open": lambda: centers_of(Xs, seed),
        "100 kernel draws, open": lambda: kernel_draws(Xs, seed),
        "one Gaussian, open": lambda: gaussian_sample(rng, Xs.mean(axis=0), np.cov(Xs.T), 100),
        "one Gaussian": lambda: one_gaussian(*at),
        "8 Gaussians": lambda: mixture(*at),
        "histogram of a plane": lambda: plane_histogram(*at),
    }


def synthetic(kind, seed):
    """One of the paper's three sets, as in the chapter but larger."""
    b = datasets.make_source_target(kind, 2700 if kind == 2 else 2000, 1000, random_state=seed)
    return b.Xs, b.Xt, b.radius, b.center


def with_ball(Xs, Xt):
    """(sources, target, radius, center): a ball around the public target, with a margin of a half."""
    center = Xt.mean(axis=0)
    return Xs, Xt, 1.5 * np.linalg.norm(Xt - center, axis=1).max(), center


def digits(bunch, source, target, seed):
    """Two digits, projected to 8 columns."""
    W = gaussian_projection(bunch.data.shape[1], 8, np.random.default_rng(seed))
    X = (bunch.data - bunch.center) @ W
    return with_ball(X[bunch.target == source], X[bunch.target == target])


def halves(X, columns, seed):
    """A table cut in two at random, projected: sources that lie where targets lie."""
    rng = np.random.default_rng(seed)
    X = X @ gaussian_projection(X.shape[1], columns, rng)
    order = rng.permutation(len(X))
    return with_ball(X[order[: len(X) // 2]], X[order[len(X) // 2 :]])


def share_sets(mnist):
    """name -> function of the seed that draws sources and targets."""
    sets = {f"synthetic {kind}": (lambda s, kind=kind: synthetic(kind, s)) for kind in (1, 2, 3)}
    pixels = {"digits": datasets.load_digits()}
    if mnist:
        pixels["MNIST"] = datasets.fetch_mnist()
    for name, bunch in pixels.items():
        for a, b in ((1, 7), (5, 2), (9, 6)):
            sets[f"{name} {a} to {b}"] = lambda s, bunch=bunch, a=a, b=b: digits(bunch, a, b, s)
    nuclei, patients = datasets.load_breast_cancer(), datasets.load_diabetes()
    for name, bunch, columns in (("nuclei", nuclei, 6), ("patients", patients, 4)):
        X = (bunch.data - bunch.low) / (bunch.high - bunch.low)
        sets[f"{name}, halves"] = lambda s, X=X, d=columns: halves(X, d, s)
    sets["digits, halves"] = lambda s, X=pixels["digits"].data: halves(X, 5, s)
    return sets


def share_of(gap, won):
    """(share of the gap, its standard error over the runs)"""
    share = won.sum() / gap.sum()
    return share, np.std(won - share * gap, ddof=1) / np.sqrt(len(gap)) / gap.mean()


def share_rows(name, rows, order):
    """Share of the gap that each method closes on one set, with its standard error over runs; printed too."""
    found, gap = [], np.array([row["ignored"] - row["open"] for row in rows])
    print(f"\n{name}: {len(rows)} runs, k in {ks_of(name)}")
    for method in order:
        won = np.array([row["ignored"] - row[method] for row in rows])
        share, error = share_of(gap, won)
        print(f"  {method:28s} {share:6.0%} +- {error:.0%}", flush=True)
        row = {"set": name, "method": method, "runs": len(rows)}
        found.append(row | {"share": f"{share:.4f}", "error": f"{error:.4f}"})
    return found


def shares(seeds, mnist, file):
    """Share of the gap between ignoring the sources and seeing them. `file` keeps the costs of every run. A list of rows."""
    sets = share_sets(mnist)
    order = [*ways(*sets["synthetic 1"](seeds[0]), seeds[0])]
    key = {"set": str, "seed": int}
    store = Store(file, key, whole=lambda row: {*order} <= {*row["costs"]})

    def measure(name, seed):
        known = store.rows.get((name, seed), {"costs": {}})["costs"]
        bunch = sets[name](seed)
        return {"costs": costs(bunch, ways(*bunch, seed), ks_of(name), known)}

    store.run([(name, seed) for seed in seeds for name in sets], measure)
    of = {name: [store.rows[name, seed]["costs"] for seed in seeds] for name in sets}
    return [row for name, rows in of.items() for row in share_rows(name, rows, order)]


def ks_of(name):
    return (3, 6, 9, 15) if name in ("synthetic 2", "synthetic 3") else (3, 5, 10, 20)


def costs(bunch, releases, ks, known=()):
    """Cost for each method that is not known yet, summed over the numbers of medoids."""
    (Xs, Xt, *_), found = bunch, {}
    for method, release in releases.items():
        if method not in known:
            rows = release()
            fits = [SourceTargetKMedoids(k, n_starts=1).fit(Xt=Xt, sources=rows) for k in ks]
            found[method] = sum(stc_cost(Xt, Xs, fit.medoid_indices_) for fit in fits)
    return found


def mnist_is_there():
    """Whether MNIST can be had; says so if not."""
    try:
        datasets.fetch_mnist()
    except FileNotFoundError as error:
        print(f"MNIST is left out: {error}")
        return False
    return True


def run(folder, seeds):
    """Solvers: solver.csv, medoids.csv. The share of the gap that private sources close: shares.csv."""
    solver(1, path=folder / "solver.csv")
    if medoids.kmedoids:
        medoids.grid(folder / "medoids.csv", [n for n in medoids.RUNS if n < 20_000], share=0.3)
    fresh = range(1000, 1000 + (seeds or 30))  # defaults were chosen on seeds below
    file = folder / "source_target_costs.jsonl"
    # lines that bench.gan measures stay as they are: of this folder, or else of the book
    path, rows = folder / "shares.csv", shares(fresh, mnist_is_there(), file)
    older = read(path), book("shares")
    here, there = ([r for r in found if r["method"].startswith("DP-GAN")] for found in older)
    write(path, rows + (here or there))


def options(parser):
    """Sub-commands of the chapter."""
    parts = parser.add_subparsers(dest="part", required=True)
    part = parts.add_parser("solver", help="cost and time compared with other solvers")
    part.add_argument("--runs", type=int, default=1)
    part.set_defaults(run=lambda asked: solver(asked.runs))
    part = parts.add_parser(
        "grid", help="without sources, one thread, compared with FasterPAM: 2 to 1,000 medoids"
    )
    part.add_argument("--sizes", type=int, nargs="+", choices=medoids.RUNS, default=[*medoids.RUNS])
    part.add_argument("--ks", type=int, nargs="+", default=[*medoids.KS])
    part.add_argument("--share", type=float, default=1.0, help="of the runs")
    part.add_argument("--out", type=Path, help="folder that keeps finished lines, and the table")
    part.set_defaults(run=run_grid)
    part = parts.add_parser("shares", help="what private sources are worth")
    part.add_argument("--runs", type=int, default=30)
    part.add_argument("--first", type=int, default=0, help="first seed")
    part.add_argument("--mnist", action="store_true")
    part.add_argument("--out", type=Path, help="folder that keeps the costs of every run")
    part.set_defaults(run=run_shares)


def run_grid(asked):
    """The grid of the sub-command."""
    medoids.grid(asked.out and asked.out / "medoids.csv", asked.sizes, asked.ks, asked.share)


def run_shares(asked):
    """Shares of the sub-command."""
    file = asked.out and asked.out / "source_target_costs.jsonl"
    shares(range(asked.first, asked.first + asked.runs), asked.mnist, file)
