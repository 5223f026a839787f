"""Areas and curves of kmeans.csv, their figures, and what the terminal shows of them."""

import math
from collections import defaultdict

import matplotlib.pyplot as plt
import numpy as np

from bench.kmeans import CHECKS, METHODS, OURS, PEERS, PUBLISHED, PUBLISHED_METHODS
from bench.recipes import MADE
from bench.sets import EPSILONS, SETS, auc, geometric_mean, spread
from bench.store import read, write
from dplit.accounting import Table


def summary(rows):
    """(AUC rows, curve rows): means and spread over seeds. KMeans: the best of all starts, at every epsilon."""
    losses, shape = defaultdict(dict), {}
    for r in rows:
        key = r["dataset"], r["method"], float(r["epsilon"])
        losses[key][int(r["seed"])] = float(r["loss"])
        shape[r["dataset"]] = {c: int(r[c]) for c in ("n", "d", "k")}
    aucs, curves = [], []
    for name in sorted(shape, key=[*SETS, *MADE].index):
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
            apart = spread(areas) if len(areas) > 1 else math.nan
            aucs.append(head | {"seeds": len(seeds), "auc": f"{np.mean(areas):.6g}", "sd": f"{apart:.3g}", "published": public or ""})  # fmt: skip
            if method not in CHECKS:
                means, sds = np.mean(found, axis=0), spread(found)
                for epsilon, mean, sd in zip(EPSILONS, means, sds, strict=True):
                    curves.append({"dataset": name, "method": method, "epsilon": epsilon, "loss": f"{mean:.6g}", "sd": f"{sd:.3g}"})  # fmt: skip
    return aucs, curves


def small(rows):
    """Means and spread over seeds of the losses at the smallest epsilons, which no area contains."""
    losses = defaultdict(list)
    for r in rows:
        key = {c: r[c] for c in ("dataset", "n", "d", "k", "method", "epsilon")}
        losses[tuple(key.items())].append(float(r["loss"]))

    def order(item):
        key = dict(item[0])
        return SETS.index(key["dataset"]), METHODS.index(key["method"]), float(key["epsilon"])

    return [
        dict(key) | {"seeds": len(v), "loss": f"{np.mean(v):.6g}", "sd": f"{spread(v):.3g}"}
        for key, v in sorted(losses.items(), key=order)
    ]


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


def sum_up(folder):
    """Write small.csv, paper_rows.csv and paper_curves.csv from their fits, and auc.csv, curves.csv and the figures from kmeans.csv; the rows of auc.csv."""
    if fits := read(folder / "small_fits.csv"):
        write(folder / "small.csv", small(fits))
    if fits := read(folder / "paper_fits.csv"):
        aucs, curves = summary(fits)
        without = [{c: v for c, v in r.items() if c != "published"} for r in aucs]
        write(folder / "paper_rows.csv", without)
        write(folder / "paper_curves.csv", curves)
    aucs, curves = summary(read(folder / "kmeans.csv"))
    if aucs:
        write(folder / "auc.csv", aucs)
        write(folder / "curves.csv", curves)
        (folder / "figures").mkdir(exist_ok=True)
        figures(curves, folder / "figures")
    return aucs


def show(aucs):
    """Print the areas, ours over the peers', and ours over the published ones."""
    columns = ["KMeans", *OURS, *PEERS]
    lines = []
    for name, found in by_set(aucs).items():
        best = min(found[p] for p in PEERS if p in found)
        ratios = found["PEMeans"] / best, found["PEMeans"] / found["KMeans"]
        lines.append([name, *(f"{found[c]:.4g}" if c in found else "-" for c in columns), *(f"{r:.3f}" for r in ratios)])  # fmt: skip
    print(Table(["AUC", *columns, "/ best peer", "/ KMeans"], lines))
    if lines:
        against, base = (np.array([float(line[i]) for line in lines]) for i in (-2, -1))
        print(f"PEMeans below every private peer on {np.sum(against < 1)} of {len(lines)} sets; geometric mean of PEMeans / best peer {geometric_mean(against):.3f} (target 0.80), / not private {geometric_mean(base):.3f}")  # fmt: skip
    public = [r for r in aucs if r["published"]]
    print(Table(["set", "method", "seeds", "here", "sd", "published", "ratio"], [[r["dataset"], r["method"], r["seeds"], r["auc"], r["sd"], r["published"], f"{float(r['auc']) / r['published']:.2f}"] for r in public]))  # fmt: skip
