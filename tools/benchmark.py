"""Every table of chapter 83_benchmarks and every figure of the README, made by one command.

python tools/benchmark.py all --out DIR [--seeds S] [--rows 1e8] [--book]

or part by part, in this order:

kmeans [--sets NAME ...] [--methods NAME ...]   private k-means of this package beside its peers: losses
speed           its time and memory, each method in a fresh process
max-cover       losses of MaxCoverKMeans, and its speed beside the printed algorithm
source-target   solvers of k-medoids with a target, and what private sources are worth
adaptation      regression and classification with a public source
package         noise and passes, beside numpy and scikit-learn
scale           passes over --rows rows in a memory map (1e8: 6.4 GB of disk)
chapters        what else chapters quote from a tool, as text
tables [--book] sums up what is there; --book puts it where the chapter and the README read it

or, where only the noise of this package has changed,

redraw [--sets NAME ...] [--book]   kmeans of the methods that draw it, beside the published figures

Each part writes DIR/*.csv. kmeans and the shares of source-target store each fit at once and go on
where they were stopped; kmeans does 3 seeds of every set first, cheap sets first. (Memory in kmeans.csv
is what one fit took beyond what its process already held, little after the first fit; speed measures it
in fresh ones.) --seeds is the number of runs of everything; by default 10 of k-means and adaptation, 8
of max cover (20 on digits), 30 of shares. Set OMP_NUM_THREADS=1. Needs the extras bench (without it one
solver is left out) and dask. Sets that come from files are left out where DPLIT_DATA does not have them
and they can't be downloaded. diffprivlib is installed once into DIR.

What authors' own programs did beside ours, once, is in programs.csv of the book. No command repeats that.
"""

import argparse
import csv
import json
import math
import subprocess
import sys
import warnings
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import bench_adaptation
import bench_max_cover
import bench_nonconvex
import bench_pe_means
import bench_scale
import bench_source_target
import matplotlib.pyplot as plt
import measure
import numpy as np
from bench_pe_means import EPSILONS, SETS, auc, geometric_mean
from peers import balcan, fastlloyd, google_lsh, pe_means_direct
from peers.library import Library
from peers.meter import measured
from sklearn.cluster import KMeans

from dplit import HDPEMeans, MaxCoverKMeans, NoisyLloyd, PEMeans, datasets
from dplit.public import PrivacyWarning
from dplit.receipts import Table

HERE = Path(__file__).parent
BOOK = HERE.parent / "nbs" / "benchmarks"
README = HERE.parent / "README.md"
PUBLISHED_PARTS = (
    "auc curves speed cover max_cover solver shares regression classification package scale".split()
)
FIELDS = "dataset n d k method epsilon delta seed loss wall_s cpu_s peak_mb".split()
LARGE = "blobs_1e5_16_16"

# what the PE-means paper (2026) prints for the sets that can be drawn or loaded alike
PUBLISHED_METHODS = ["KMeans", "PE-means", "HDPE-means", "Google LSH tree", "FastLloyd, as driven", "diffprivlib", "Balcan et al., as driven"]  # fmt: skip
PUBLISHED = {
    "birch2": (0.0001, 0.0003, None, 0.0658, 0.0031, 0.0124, 0.0161),
    "iris": (0.1361, 0.2894, None, 0.6892, 0.3979, 1.3048, 5.5766),
    "adult": (0.0056, 0.0056, None, 0.0076, 0.0155, 0.0213, 0.0113),
    "letter": (0.2481, 0.2852, None, 0.3187, 0.3963, 0.4341, 0.6277),
    "gas": (0.1026, 0.1081, None, 0.1121, 0.1561, 0.1761, 0.1853),
    "sklearn_4_4": (0.0777, 0.0778, None, 0.1305, 0.1777, 0.2355, 0.1240),
    "sklearn_16_4": (0.0459, 0.0445, None, 0.0979, 0.0990, 0.1409, 0.2601),
    "sklearn_64_4": (0.0343, 0.0379, None, 0.1289, 0.0818, 0.1191, 0.3227),
    "sklearn_4_16": (0.0950, 0.0955, None, 0.1395, 0.7110, 0.5049, 0.6074),
    "sklearn_16_16": (0.0606, 0.0668, None, 0.1596, 0.7160, 0.5809, 1.4670),
    "sklearn_64_16": (0.0642, 0.1183, None, 0.3872, 0.7631, 0.8720, 1.7704),
    "sklearn_4_64": (0.0954, 0.0993, 0.0974, 0.1090, 1.4623, 0.8614, 2.7731),
    "sklearn_16_64": (0.0847, 0.1192, 0.1189, 0.2258, 1.7475, 1.3716, 3.1765),
    "sklearn_64_64": (0.0823, 0.3070, 0.4678, 0.7878, 2.2002, 2.2456, 3.1698),
    "sklearn_4_128": (0.1054, 0.1333, 0.1097, 0.1186, 1.7604, 1.1632, 5.6663),
    "sklearn_16_128": (0.0919, 0.1942, 0.1562, 0.2838, 2.3038, 1.9742, 4.9881),
    "sklearn_64_128": (0.0933, 0.5740, 0.7190, 0.9675, 2.7204, 2.9608, 4.9597),
}


# Methods ------------------------------------------------------------------------------------------

OURS = ["PEMeans", "HDPEMeans", "MaxCoverKMeans", "NoisyLloyd"]
PEERS = ["PE-means", "HDPE-means", "Google LSH tree", "FastLloyd", "diffprivlib", "Balcan et al."]
DRAWN = [*OURS, "PE-means", "HDPE-means"]  # with this package's noise
CHECKS = ["FastLloyd, as driven", "Balcan et al., as driven"]
METHODS = ["KMeans", *OURS, *PEERS, *CHECKS]
CHAPTERS = [  # 30, 40, 50, 71, 72, 84
    ("bench_max_cover", "loss"),
    ("bench_k_tuples", "count"),
    ("bench_pe_means", "ideas"),
    *(("bench_adaptation", part) for part in ("adapt", "reach", "ladder", "speed")),
    *(("bench_nonconvex", part) for part in ("network", "printed", "speed")),
    ("bench_codebook",),
]
PURE = {"diffprivlib", "Balcan et al.", "Balcan et al., as driven"}
ESTIMATORS = {  # n is public in the paper, so whoever asks for it gets it
    # every ball of this table is right: there is nothing to zoom in on
    "PEMeans": lambda n: partial(PEMeans, zoom=False),
    "HDPEMeans": lambda n: partial(HDPEMeans, zoom=False),
    "MaxCoverKMeans": lambda n: partial(MaxCoverKMeans, n_public=n, zoom=False),
    "NoisyLloyd": lambda n: partial(NoisyLloyd, init="mean"),
    "PE-means": lambda n: partial(PEMeans, variant="paper", n_public=n),
    "HDPE-means": lambda n: partial(HDPEMeans, variant="paper", n_public=n),
}
FUNCTIONS = {
    "Google LSH tree": google_lsh.fit,
    "FastLloyd": fastlloyd.fit,
    "FastLloyd, as driven": partial(fastlloyd.fit, as_driven=True),
    "Balcan et al.": balcan.fit,
    "Balcan et al., as driven": partial(balcan.fit, as_driven=True),
    "PE-means, read directly": pe_means_direct.fit,
}


def load(name):
    """(rows centred and scaled to largest norm 1, k); the large set is for times only."""
    return (bench_pe_means.blobs(100_000), 16) if name == LARGE else bench_pe_means.load(name)


def applies(method, name, d):
    """Whether a method runs on a set."""
    if method in ("HDPEMeans", "HDPE-means"):
        return d > 32
    return method not in CHECKS or name in PUBLISHED


worker = cache(Library)  # one for all fits


def run(method, name, epsilon, seed, folder):
    """(centres, wall s, CPU s, peak MB) of one fit."""
    X, k = load(name)
    price = {"epsilon": epsilon, "delta": len(X) ** -1.1}
    if method == "diffprivlib":
        return worker(folder).fit(X, k, **price, seed=seed, name=name)
    if method == "KMeans":
        return measured(lambda: KMeans(k, n_init=10, random_state=seed).fit(X).cluster_centers_)
    if method in FUNCTIONS:
        return measured(lambda: FUNCTIONS[method](X, k, **price, seed=seed))
    model = ESTIMATORS[method](len(X))(k, **price, radius=1.0, random_state=seed)
    return measured(lambda: model.fit(X).cluster_centers_)


# Measuring ----------------------------------------------------------------------------------------


def read(path):
    """Rows of a CSV file as dictionaries; none if there is no file."""
    return list(csv.DictReader(path.open())) if path.exists() else []


def write(path, rows):
    """A CSV file from dictionaries, put in place at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    with new.open("w", newline="") as file:
        out = csv.DictWriter(file, rows[0], lineterminator="\n")
        out.writeheader()
        out.writerows(rows)
    new.replace(path)


def jobs(sets, methods, seeds):
    """What to fit: three seeds of everything first, then the rest; small sets before large ones."""

    def size(name):
        X, k = load(name)
        return X.size * k

    sets = sorted(bench_pe_means.available(sets), key=size)
    for first, last in ((0, min(3, seeds)), (3, seeds)):
        for name in sets:
            for method in methods:
                if applies(method, name, load(name)[0].shape[1]):
                    for seed in range(first, last if method != "KMeans" else min(last, 3)):
                        for epsilon in EPSILONS if method != "KMeans" else [math.inf]:
                            yield name, method, seed, epsilon


def run_kmeans(sets, methods, seeds, folder):
    """Store one line a fit in kmeans.csv."""
    path = folder / "kmeans.csv"
    done = {(r["dataset"], r["method"], int(r["seed"]), float(r["epsilon"])) for r in read(path)}
    with path.open("a", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        if not done:
            out.writerow(FIELDS)
        for job in jobs(sets, methods, seeds):
            if job in done:
                continue
            name, method, seed, epsilon = job
            X, k = load(name)
            delta = 0 if method in PURE or method == "KMeans" else len(X) ** -1.1
            centers, *cost = run(method, name, epsilon, seed, folder)
            loss = datasets.kmeans_loss(X, centers)
            cost = [f"{c:.4g}" for c in cost]
            out.writerow([name, *X.shape, k, method, epsilon, f"{delta:.6g}", seed, loss, *cost])
            file.flush()


DIRECT = "PE-means, read directly"
SPEED_METHODS = ["KMeans", *OURS, *PEERS, DIRECT]
SPEED_SETS = ["letter", "sklearn_16_16", "sklearn_64_64", LARGE]


def run_speed(folder):
    """Each method in a fresh process, one fit for memory and the better of two for time: speed.csv."""
    path = folder / "speed.csv"
    rows = read(path)
    done = {(r["dataset"], r["method"]) for r in rows}
    for name in SPEED_SETS:
        if name in SETS and not [*bench_pe_means.available([name])]:
            continue
        (n, d), k = load(name)[0].shape, load(name)[1]
        methods = SPEED_METHODS if name != LARGE else ["KMeans", "PEMeans", "PE-means", DIRECT]
        for method in methods:
            if (name, method) in done or not applies(method, name, d):
                continue
            command = [sys.executable, __file__, "one", name, method, "--out", folder]
            cost = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            rows.append({"dataset": name, "n": n, "d": d, "k": k, "method": method} | cost)
            print(*rows[-1].values(), flush=True)
            write(path, rows)


def run_one(name, method, folder):
    """Print the cost of one method on one set at epsilon 1."""
    tries = [run(method, name, 1.0, seed, folder)[1:] for seed in (0, 1)]
    wall, cpu, _ = np.min(tries, axis=0)
    print(json.dumps({"wall_s": float(f"{wall:.4g}"), "cpu_s": float(f"{cpu:.4g}"), "peak_mb": float(f"{tries[0][2]:.4g}")}))  # fmt: skip


def run_max_cover(folder, seeds):
    """Losses: max_cover.csv. One level of covers beside the printed algorithm read directly, same choices: cover.csv."""
    write(folder / "max_cover.csv", bench_max_cover.loss(["syn64", "digits"], None, seeds))
    head = "n d predicate rows_left ours_s by_record_s loops_s as_printed_s fastest_over_ours loops_over_ours printed_over_ours peak_mb".split()  # fmt: skip
    rows = []
    for n, d, snap in [(5000, 2, True), (20000, 2, True), (20000, 2, False), (5000, 3, True), (20000, 3, True), (20000, 3, False)]:  # fmt: skip
        rows.append(dict(zip(head, bench_max_cover.cover_row(n, d, snap), strict=True)))
        print(*rows[-1].values(), flush=True)
    write(folder / "cover.csv", rows)


def run_source_target(folder, seeds):
    """Solvers: solver.csv. The share of the gap that private sources close: shares.csv."""
    write(folder / "solver.csv", bench_source_target.solver(1))
    fresh = range(1000, 1000 + (seeds or 30))  # defaults were chosen on seeds below
    try:
        datasets.fetch_mnist()
        mnist = True
    except FileNotFoundError as error:
        print(f"MNIST is left out: {error}")
        mnist = False
    costs = folder / "source_target_costs.jsonl"
    write(folder / "shares.csv", bench_source_target.shares(fresh, mnist, costs))


def run_adaptation(folder, seeds):
    """Relative squared errors: regression.csv. Accuracies: classification.csv."""
    write(folder / "regression.csv", bench_adaptation.private(seeds or 10))
    names = bench_nonconvex.PROBLEMS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write(folder / "classification.csv", bench_nonconvex.accuracy(names, seeds or 10))


def run_scale(folder, rows):
    """scale.csv, in a process of its own: what others freed would hide what it takes."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        write(folder / "scale.csv", fresh.submit(bench_scale.run, rows, folder).result())


def run_chapters(folder):
    """What other tools print, each into a text file."""
    for name, *part in CHAPTERS:
        command = [sys.executable, HERE / f"{name}.py", *part]
        print(" ".join((f"{name}.py", *part)), flush=True)
        with (folder / f"{'_'.join((name, *part[:1]))}.txt").open("w") as file:
            subprocess.run(command, check=True, stdout=file)


def run_package(folder):
    """package.csv"""
    rows = measure.measure(1_000_000)
    print(Table(["what", "measured"], rows))
    write(folder / "package.csv", [{"what": a, "measured": b} for a, b in rows])


# Summing up ---------------------------------------------------------------------------------------


def summary(rows):
    """(AUC rows, curve rows): means and spread over seeds. KMeans: the best of all starts, at every epsilon."""
    losses, shape = defaultdict(dict), {}
    for r in rows:
        key = r["dataset"], r["method"], float(r["epsilon"])
        losses[key][int(r["seed"])] = float(r["loss"])
        shape[r["dataset"]] = {c: int(r[c]) for c in ("n", "d", "k")}
    aucs, curves = [], []
    for name in sorted(shape, key=SETS.index):
        for method in METHODS:
            public = dict(zip(PUBLISHED_METHODS, PUBLISHED.get(name, ()), strict=False)).get(method)
            head = {"dataset": name, **shape[name], "method": method}
            if method == "KMeans":
                seeds = losses[name, method, math.inf]
                if not seeds:
                    continue
                found = [[min(seeds.values())] * len(EPSILONS)]
            else:
                by_epsilon = [losses[name, method, e] for e in EPSILONS]
                seeds = sorted(set.intersection(*map(set, by_epsilon)))
                found = [[at[s] for at in by_epsilon] for s in seeds]
            if not found:
                continue
            areas = [auc(curve) for curve in found]
            spread = np.std(areas, ddof=1) if len(areas) > 1 else math.nan
            aucs.append(head | {"seeds": len(seeds), "auc": f"{np.mean(areas):.6g}", "sd": f"{spread:.3g}", "published": public or ""})  # fmt: skip
            if method not in CHECKS:
                means, sds = np.mean(found, axis=0), np.std(found, axis=0)
                for epsilon, mean, sd in zip(EPSILONS, means, sds, strict=True):
                    curves.append({"dataset": name, "method": method, "epsilon": epsilon, "loss": f"{mean:.6g}", "sd": f"{sd:.3g}"})  # fmt: skip
    return aucs, curves


def by_set(aucs):
    """dataset -> method -> AUC, of the sets that PEMeans, KMeans and all peers have run on."""
    found = defaultdict(dict)
    for r in aucs:
        found[r["dataset"]][r["method"]] = float(r["auc"])
    wanted = {"KMeans", "PEMeans", *PEERS} - {"HDPE-means"}
    return {name: row for name, row in found.items() if wanted <= {*row}}


def figures(curves, folder):
    """Loss against epsilon, one picture a set."""
    table = defaultdict(lambda: defaultdict(list))
    for r in curves:
        table[r["dataset"]][r["method"]].append(float(r["loss"]))
    for name, found in table.items():
        fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
        for marker, (method, losses) in zip("_osD^v<>PX*d", found.items(), strict=False):
            if len(losses) == len(EPSILONS):
                ax.loglog(EPSILONS, losses, marker=marker, label=method)
        ax.set(xlabel="epsilon", ylabel="loss", title=name)
        ax.legend(fontsize="small")
        fig.savefig(folder / f"{name}.png", dpi=120)
        plt.close(fig)


def run_tables(folder, book):
    """Write auc.csv and curves.csv and the figures; print the tables."""
    aucs, curves = summary(read(folder / "kmeans.csv"))
    if aucs:
        write(folder / "auc.csv", aucs)
        write(folder / "curves.csv", curves)
        (folder / "figures").mkdir(exist_ok=True)
        figures(curves, folder / "figures")
    if book:
        publish(folder)
    columns = ["KMeans", *OURS, *PEERS]
    complete, lines = by_set(aucs), []
    for name, found in complete.items():
        best = min(found[p] for p in PEERS if p in found)
        ratios = found["PEMeans"] / best, found["PEMeans"] / found["KMeans"]
        lines.append([name, *(f"{found[c]:.4g}" if c in found else "-" for c in columns), *(f"{r:.3f}" for r in ratios)])  # fmt: skip
    print(Table(["AUC", *columns, "/ best peer", "/ KMeans"], lines))
    if lines:
        against, base = (np.array([float(line[i]) for line in lines]) for i in (-2, -1))
        print(f"PEMeans below every private peer on {np.sum(against < 1)} of {len(lines)} sets; geometric mean of PEMeans / best peer {geometric_mean(against):.3f} (target 0.80), / not private {geometric_mean(base):.3f}")  # fmt: skip
    public = [r for r in aucs if r["published"]]
    print(Table(["set", "method", "seeds", "here", "sd", "published", "ratio"], [[r["dataset"], r["method"], r["seeds"], r["auc"], r["sd"], r["published"], f"{float(r['auc']) / r['published']:.2f}"] for r in public]))  # fmt: skip


# Drawing anew ------------------------------------------------------------------------------------


def replaced(published, fresh):
    """The published lines, with those of the same set, method (and epsilon) and as many runs drawn anew in their places."""

    def key(r):
        return r["dataset"], r["method"], float(r.get("epsilon", 0)), int(r.get("seeds", 0))

    new = {key(r): r for r in fresh}
    return [new.get(key(r), r) for r in published]


def run_redraw(sets, seeds, folder, book):
    """Fit what draws this package's noise; print how far its published areas move. --book: publish, if all are drawn."""
    run_kmeans(sets, DRAWN, seeds, folder)
    aucs, curves = summary(read(folder / "kmeans.csv"))
    old = read(BOOK / "auc.csv")
    new = replaced(old, aucs)
    moved = defaultdict(list)
    for before, after in zip(old, new, strict=True):
        if before is not after:
            error = float(before["sd"]) / math.sqrt(int(before["seeds"]))
            change = abs(float(after["auc"]) - float(before["auc"]))
            moved[before["method"]].append((change / float(before["auc"]), change / error, before["dataset"]))  # fmt: skip
    head = ["method", "sets", "moved", "most, relative", "most, standard errors", "on"]
    lines = [(m, len(v), sum(r > 0 for r, *_ in v), f"{max(v)[0]:.1e}", f"{max(e for _, e, _ in v):.1e}", max(v)[2]) for m, v in moved.items()]  # fmt: skip
    print(Table(head, lines))
    for name, found in (("published", by_set(old)), ("drawn anew", by_set(new))):
        best = [row["PEMeans"] / min(row[p] for p in PEERS if p in row) for row in found.values()]
        base = [row["PEMeans"] / row["KMeans"] for row in found.values()]
        print(f"{name}: PEMeans / best peer {geometric_mean(best):.4f}, / not private {geometric_mean(base):.4f}")  # fmt: skip
    if book:
        kept = {r["dataset"] for r, s in zip(old, new, strict=True) if r is s and r["method"] in DRAWN}  # fmt: skip
        if kept:
            raise SystemExit(f"not published: {', '.join(sorted(kept))} are not drawn anew")
        write(folder / "auc.csv", new)
        write(folder / "curves.csv", replaced(read(BOOK / "curves.csv"), curves))
        publish(folder)


# The README ---------------------------------------------------------------------------------------

PEER_TITLES = {
    "PE-means": ("PE-means (2026), its privacy repaired", "our reading"),
    "Google LSH tree": ("Google's LSH tree (2021)", "our reading"),
    "FastLloyd": ("FastLloyd (2025)", "our reading"),
    "Balcan et al.": ("Balcan et al. (2017)", "our reading"),
    "diffprivlib": ("diffprivlib 0.6.6", "their code"),
}
COVER_TITLES = {
    "KMeans, 10 restarts": "not private",
    "the mean alone": "the mean alone",
    "NoisyLloyd(init='mean', n_iter=4)": "NoisyLloyd",
    "MaxCoverKMeans": "MaxCoverKMeans",
    "  random candidates, no covers": "random candidates in place of covers",
}
SOLVER_TITLES = {"FasterPAM": "their code", "accelerated k-medoids": "our reading"}


def markdown(head, rows):
    """A table, as a notebook shows it."""
    return Table(head, rows)._repr_markdown_() + "\n"


TIMED_PROGRAMS = [
    "PE-means, authors' program, printout off",
    "PE-means, authors' program, as shipped",
    "Google's clustering, their program",
    "FastLloyd, authors' program",
]


def programs(part, program):
    """Lines of the table of authors' own programs, which were run once beside ours."""
    rows = read(BOOK / "programs.csv")
    return [r for r in rows if (r["part"], r["program"]) == (part, program)]


def readme_kmeans():
    """Losses and times of PEMeans beside the peers."""
    found = by_set(read(BOOK / "auc.csv"))
    best = [row["PEMeans"] / min(row[p] for p in PEERS if p in row) for row in found.values()]
    below = f"{geometric_mean(best):.2f} (our readings and diffprivlib); below 1 on {sum(r < 1 for r in best)} of {len(best)} sets"

    def over(method):
        return f"{geometric_mean([row['PEMeans'] / row[method] for row in found.values()]):.2f}"

    best, worst, *_ = [r for r in read(BOOK / "programs.csv") if r["part"] == "k-means, loss"]
    rows = [("k-means without privacy", f"{over('KMeans')} (scikit-learn)")]
    rows += [("the best peer of each set, chosen afterwards", below)]
    rows += [(title, f"{over(m)} ({whose})") for m, (title, whose) in PEER_TITLES.items()]
    rows += [("the best of the authors' own programs", f"{best['ratio']} (run once: {best['data']}, {best['what']}); at most {worst['ratio']}, on {worst['data']} (run once)")]  # fmt: skip
    cpu = {(r["dataset"], r["method"]): float(r["cpu_s"]) for r in read(BOOK / "speed.csv")}
    columns = {"20,000 x 16, k = 16": "sklearn_16_16", "1e5 x 16, k = 16": LARGE}
    times = [("`PEMeans`", *(f"{cpu[s, 'PEMeans']:.2f} s" for s in columns.values()))]
    times += [("the same algorithm as printed", *(f"{cpu[s, 'PE-means'] / cpu[s, 'PEMeans']:.1f} times that (our reading, in our code)" for s in columns.values()))]  # fmt: skip
    for name in TIMED_PROGRAMS:
        ratios = {r["data"]: r["ratio"] for r in programs("k-means, CPU s", name)}
        times.append((name, *(f"{ratios[c]} times that (run once)" if c in ratios else "-" for c in columns)))  # fmt: skip
    return f"""Private k-means at the same (epsilon, delta) on {len(found)} sets: area under loss against epsilon, geometric means. Every ball is right, so ours do not zoom.

{markdown(["`PEMeans` over", "ratio (below 1: `PEMeans` loses less)"], rows)}
CPU time of a fit, 16 clusters:

{markdown(["", "20,000 x 16 rows", "1e5 x 16 rows"], times)}"""


def readme_max_cover():
    """Losses of MaxCoverKMeans, with their spread where they are compared."""
    table = defaultdict(dict)
    for r in read(BOOK / "max_cover.csv"):
        if r["method"] in COVER_TITLES:
            loss, sd = float(r["loss"]), float(r["sd"])
            cell = f"{loss:,.4g}" if loss < 1e4 else f"{loss:,.0f}"
            name = f"{r['dataset']}: {int(r['n']):,} x {r['d']}, {r['k']} clusters, {r['runs']} runs"  # fmt: skip
            table[name][r["method"]] = cell + (f" ± {sd:.0f}" if sd else "")
    rows = [[name, *(row[m] for m in COVER_TITLES)] for name, row in table.items()]
    level = {r["what"]: r["ratio"] for r in programs("max cover, CPU s", "max cover, authors' C++")}
    return f"""Max cover, mean loss at epsilon 1, delta n^-1.5:

{markdown(["data", *COVER_TITLES.values()], rows)}
The authors' C++ takes {level["one cover level, ball"]} times our CPU time for one level of covers of 20,000 points by the printed rule (run once), {level["one cover level, snap"]} times by the rounded one (run once); for whole fits {level["whole fits, all sets above"]} times, least on digits (run once).
"""


def readme_solver():
    """SourceTargetKMedoids beside other solvers."""
    rows = []
    for name, whose in SOLVER_TITLES.items():
        found = [r for r in read(BOOK / "solver.csv") if r["solver"] == name]
        if found:
            cost = [float(r["cost_over_ours"]) for r in found]
            time = [float(r["time_over_ours"]) for r in found]
            rows.append((name, f"{min(cost):.4f} to {max(cost):.4f} ({whose})", f"{min(time):.1f} to {max(time):.0f} ({whose})"))  # fmt: skip
    few = programs("k-medoids, CPU s", "FasterPAM (kmedoids 0.5.5)")[-1]
    head = ["solver", "cost over ours", "CPU time over ours"]
    return f"""k-medoids beside given sources, 5,000 and 20,000 rows, 100 medoids, over `SourceTargetKMedoids`:

{markdown(head, rows)}
With 10 medoids and no sources FasterPAM takes {few["ratio"]} times our CPU time (run once).
"""


def readme_speed():
    """The ground everything stands on."""
    last = read(BOOK / "scale.csv")[-1]
    n, cpu = int(last["rows"]), {p: float(last[f"{p}_cpu_s"]) for p in bench_scale.PASSES}
    rows = [(r["what"], r["measured"]) for r in read(BOOK / "package.csv")]
    rows += [
        (
            f"NoisyLloyd, a round over a memory map of {n:.0e} x 16 rows, {64e-9 * n:.1f} GB",
            f"{1e9 * cpu['round'] / n:.0f} ns of CPU a row; {cpu['round'] / cpu['sum']:.1f} times numpy's own sum of the map, {cpu['round'] / cpu['numpy_round']:.2f} of a round without privacy that we wrote in numpy",
        ),  # fmt: skip
        ("memory of its own that a whole fit of it held", f"{last['peak_mb']} MB"),
    ]
    return markdown(["what", "measured"], rows)


def readme_section():
    """What the README says under "Measured", from the tables of the book."""
    parts = readme_kmeans(), readme_max_cover(), readme_solver(), readme_speed()
    return """## Measured

By `python tools/benchmark.py all --out results --book`, which writes these lines too, on two cores of a server, one BLAS thread. [Benchmarks](nbs/83_benchmarks.ipynb) has the whole tables, with their spread and what they do not say. "Our reading" is a program of ours after what the authors published. "Run once" is the authors' own program beside ours, in a run that this command does not repeat; versions and seeds stand there.

""" + "\n".join(parts)


def publish(folder):
    """Put the tables where the chapter and the README read them, all or none."""
    parts = {
        part: read(folder / f"{part}.csv") or read(BOOK / f"{part}.csv") for part in PUBLISHED_PARTS
    }
    missing = [part for part, rows in parts.items() if not rows]
    if missing or not by_set(parts["auc"]):
        raise SystemExit(
            f"not published: {', '.join(missing) or 'no set that all peers have run on'}"
        )
    for part, rows in parts.items():
        write(BOOK / f"{part}.csv", rows)
    write_readme()


def write_readme():
    """Replace that section of the README, and nothing else."""
    before, rest = README.read_text(encoding="utf8").split("## Measured\n")
    _, after = rest.split("\n## ", 1)
    README.write_text(before + readme_section() + "\n## " + after, encoding="utf8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("what", choices=["all", "kmeans", "speed", "max-cover", "source-target", "adaptation", "package", "scale", "chapters", "tables", "redraw", "one"])  # fmt: skip
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--seeds", type=int, help="runs of everything; default: see above")
    parser.add_argument("--rows", type=float, default=1e8, help="of the largest memory map")
    parser.add_argument("--book", action="store_true")
    parser.add_argument("one", nargs="*", help="for `one`: set and method")
    args = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)  # iris: delta is large
    warnings.filterwarnings("ignore", message="Number of distinct clusters")  # noisy averages
    args.out.mkdir(parents=True, exist_ok=True)
    parts = {
        "kmeans": lambda: run_kmeans(args.sets, args.methods, args.seeds or 10, args.out),
        "speed": lambda: run_speed(args.out),
        "max-cover": lambda: run_max_cover(args.out, args.seeds),
        "source-target": lambda: run_source_target(args.out, args.seeds),
        "adaptation": lambda: run_adaptation(args.out, args.seeds),
        "package": lambda: run_package(args.out),
        "scale": lambda: run_scale(args.out, int(args.rows)),
        "chapters": lambda: run_chapters(args.out),
        "tables": lambda: run_tables(args.out, args.book),
    }
    others = {
        "one": lambda: run_one(*args.one, args.out),
        "redraw": lambda: run_redraw(args.sets, args.seeds or 10, args.out, args.book),
    }
    if args.what in ("all", "scale"):
        bench_scale.check(int(args.rows), args.out)  # before hours of work, not after
    for part in parts if args.what == "all" else [args.what]:
        (parts | others)[part]()
    if args.what == "kmeans":
        parts["tables"]()


if __name__ == "__main__":
    main()
