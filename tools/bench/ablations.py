"""Source-target clustering with the paper's coreset and without it, and what each method takes: its appendices C.3, C.6 and C.7.

A coreset may be used in two places: what NAS and NNA query, and what is clustered. NAS and NNA are as
published. Of the baselines DP-GAN is left out: its points are the same with a coreset and without.

Also an idea that was not kept: a noisy histogram of the two widest directions of the target, which are
public, in place of NNA. Its bins and margin were chosen on seeds 0 to 3.
"""

import time
from functools import partial

import numpy as np
from scipy.spatial import cKDTree

from bench.source_target import costs, ks_of, mnist_is_there, share_of, share_sets
from bench.store import Store, table, write
from dplit import NeighborNoisyAverages, NoisyAverageSet, NoisyLloyd, SourceTargetKMedoids
from dplit.geometry import clip_to_ball
from dplit.mechanisms import Noise
from dplit.source_target import count_threshold, kd_cover, stc_cost

PLACES = {  # where -> (what is asked about, what is clustered)
    "whole": ("whole", "whole"),
    "cells": ("coreset", "whole"),
    "coreset": ("coreset", "coreset"),
}


def ways(Xs, radius, center, seed):
    """name -> (the places to try, a function of what is asked about that releases sources)."""
    ball = {"radius": radius, "center": center, "random_state": seed}

    def ask(model, **options):
        return lambda target: model(**ball, **options).fit(Xs=Xs, Xt=target).sources_

    lloyd = NoisyLloyd(100, epsilon=3.0, delta=1e-6, **ball)
    found = {
        "open": (["whole"], lambda target: Xs),
        "ignored": (["whole", "coreset"], lambda target: None),
        "private k-means": (["whole", "coreset"], lambda target: lloyd.fit(Xs).cluster_centers_),
    }
    nas, nna = partial(NoisyAverageSet, t=150), NeighborNoisyAverages
    for name, cost in (("eps 3", {"epsilon": 3.0}), ("rho 3", {"rho": 3.0})):
        for model, way in (("NAS", nas), ("NNA", nna)):
            found[f"{model} {name} paper"] = [*PLACES], ask(way, variant="paper", **cost)
    for model, way in (("NAS", nas), ("NNA", nna)):
        found[f"{model} eps 3 tight"] = ["whole"], ask(way, epsilon=3.0)
    return found


def one(bunch, seed, ks):
    """(method, where) -> (cost summed over the numbers of medoids, CPU seconds of the release, of the medoids)."""
    Xs, Xt, radius, center = bunch
    rows, found = {"whole": np.arange(len(Xt)), "coreset": kd_cover(Xt, radius / 10)}, {}
    for method, (places, release) in ways(Xs, radius, center, seed).items():
        for where in places:
            asked, clustered = (rows[place] for place in PLACES[where])
            start = time.process_time()
            sources = release(Xt[asked])
            middle = time.process_time()
            models = [SourceTargetKMedoids(k, n_starts=1) for k in ks]
            chosen = [m.fit(Xt=Xt[clustered], sources=sources).medoid_indices_ for m in models]
            end = time.process_time()
            cost = sum(stc_cost(Xt, Xs, clustered[medoids]) for medoids in chosen)
            found[method, where] = cost, middle - start, end - middle
    return found, len(rows["coreset"])


def _shown_share(gap, won):
    return (f"{x:.4f}" for x in share_of(gap, won))


def measure(name, runs):
    """Share of the gap of each method on one set, what a coreset adds to it, standard errors, and CPU seconds."""
    draw = share_sets("MNIST" in name)[name]
    fits = [one(draw(seed), seed, ks_of(name)) for seed in range(1000, 1000 + runs)]
    of = {key: np.array([found[key] for found, _ in fits]) for key in fits[0][0]}
    ignored = of["ignored", "whole"][:, 0]
    share = partial(_shown_share, ignored - of["open", "whole"][:, 0])
    rows = []
    for (method, where), values in of.items():
        cost, release, medoids = values.T
        row = {"set": name, "method": method, "coreset": where, "runs": runs}
        row["rows"] = f"{np.mean([size for _, size in fits]):.0f}"
        row["share"], row["error"] = share(ignored - cost)
        row["gain"], row["gain_error"] = share(of[method, "whole"][:, 0] - cost)
        seconds = {"release_s": f"{release.mean():.4f}", "medoids_s": f"{medoids.mean():.4f}"}
        rows.append(row | seconds)
    return {"rows": rows}


def show(line):
    """Print what was found on one set."""
    print(f"\n{line['set']}: {line['runs']} runs, {line['rows'][0]['rows']} rows in the coreset")
    for row in line["rows"]:
        share, error, gain, gain_error = (100 * float(row[x]) for x in ("share", "error", "gain", "gain_error"))  # fmt: skip
        print(
            f"  {row['method']:18s} {row['coreset']:8s} {share:5.0f} +- {error:2.0f} %, {gain:+5.0f} +- {gain_error:2.0f}"
            f"   {row['release_s']} s + {row['medoids_s']} s",
            flush=True,
        )


def plane_of(Xt):
    """Two orthonormal columns: the widest directions of the PUBLIC target."""
    if Xt.shape[1] == 2:
        return np.eye(2)
    return np.linalg.svd(Xt - Xt.mean(axis=0), full_matrices=False)[2][:2].T


def target_histogram(Xs, Xt, radius, center, seed, epsilon, lift):
    """Points of a noisy histogram of the target's plane: in the plane, or lifted as far as nearby targets are."""
    noise, plane, middle = Noise(seed), plane_of(Xt), Xt.mean(axis=0)
    X, T = ((clip_to_ball(rows, radius, center) - center) @ plane for rows in (Xs, Xt))
    margin = (T.max(axis=0) - T.min(axis=0)).max() / 4
    low = np.maximum(T.min(axis=0) - margin, -radius)
    size = np.minimum(T.max(axis=0) + margin, radius) - low
    width = np.sqrt(size.prod() / np.clip(len(T) / 2.5, 100, 2500))
    shape = np.ceil(size / width).astype(int)
    cell, n = np.floor((X - low) / width).astype(int), int(shape.prod())
    inside = ((cell >= 0) & (cell < shape)).all(axis=1)
    where = np.where(inside, cell[:, 0] * shape[1] + cell[:, 1], n)
    counts = noise.histogram(where, n + 1, epsilon=epsilon)[:n]
    counts[counts < count_threshold(1 / n, 0, epsilon=epsilon)] = 0
    found = np.repeat(np.arange(n), np.minimum(counts, 100).astype(int))
    corner = np.column_stack([found // shape[1], found % shape[1]])
    points = low + (corner + noise.public_rng.uniform(size=corner.shape)) * width
    out = middle + (points + (center - middle) @ plane) @ plane.T
    if lift and len(points):
        rng = np.random.default_rng(seed)
        nearby = cKDTree(T).query(points, k=5)[1]
        nearby = nearby[np.arange(len(points)), rng.integers(5, size=len(points))]
        out += Xt[nearby] - middle - (Xt[nearby] - middle) @ plane @ plane.T
    return out


def plane_ways(Xs, Xt, radius, center, seed):
    """name -> a function that releases sources: NNA as it is by default, and histograms, at epsilon 1 and 3."""
    found = {"ignored": lambda: None, "open": lambda: Xs}
    for e in (1.0, 3.0):
        nna = NeighborNoisyAverages(epsilon=e, radius=radius, center=center, random_state=seed)
        found[f"NNA eps {e:g}"] = lambda nna=nna: nna.fit(Xs=Xs, Xt=Xt).sources_
        for lift in (False, True)[: Xt.shape[1] - 1]:
            name = f"histogram{', lifted' * lift} eps {e:g}"
            found[name] = partial(target_histogram, Xs, Xt, radius, center, seed, e, lift)
    return found


def plane(folder, seeds):
    """Rows of plane.csv: shares of the gap, and how far above that of NNA they are."""
    sets, rows = share_sets(mnist_is_there()), []
    done = Store(folder / "plane_costs.jsonl", {"set": str, "seed": int})

    def fits(name, seed):
        bunch = sets[name](seed)
        return {"costs": costs(bunch, plane_ways(*bunch, seed), (5, 10))}

    done.run([(name, seed) for seed in seeds for name in sets], fits)
    for name in sets:
        found = [done.rows[name, seed]["costs"] for seed in seeds]
        of = {m: np.array([cost[m] for cost in found]) for m in found[0]}
        share = partial(_shown_share, of["ignored"] - of["open"])
        for method in [m for m in of if " eps " in m]:
            row = {"set": name, "method": method, "runs": len(seeds)}
            row["share"], row["error"] = share(of["ignored"] - of[method])
            nna = of["NNA eps " + method.split()[-1]]
            row["gain"], row["gain_error"] = share(nna - of[method])
            rows.append(row)
    write(folder / "plane.csv", rows)


def run(folder, runs):
    """coreset.csv, on the paper's sets that can be had, and plane.csv, on all."""
    pixels = "MNIST" if mnist_is_there() else "digits"
    names = [n for n in share_sets(pixels == "MNIST") if n.startswith(("synthetic", pixels))]
    jobs = [(name, runs or 10) for name in names if "halves" not in name]
    table(folder / "coreset.csv", {"set": str, "runs": int}, jobs, measure, show)
    plane(folder, range(8000, 8000 + (runs or 12)))
