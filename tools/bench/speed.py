"""Time and memory of private k-means, each method in a fresh process: speed.csv."""

import json
import subprocess
import sys

import numpy as np

from bench import kmeans
from bench.kmeans import DIRECT, OURS, PEERS
from bench.sets import LARGE, available, load
from bench.store import PROGRAM, Store

SPEED_METHODS = ["KMeans", *OURS, *PEERS, DIRECT]
SPEED_SETS = ["letter", "sklearn_16_16", "sklearn_64_64", LARGE]
FIELDS = "dataset n d k method wall_s cpu_s peak_mb".split()


def jobs():
    """(set, method) of every process; the large set has few methods."""
    for name in available(SPEED_SETS):
        methods = SPEED_METHODS if name != LARGE else ["KMeans", "PEMeans", "PE-means", DIRECT]
        for method in methods:
            if kmeans.applies(method, name, load(name)[0].shape[1]):
                yield name, method


def run(folder):
    """One fit for memory and the better of two for time."""

    def measure(name, method):
        (n, d), k = load(name)[0].shape, load(name)[1]
        command = [sys.executable, PROGRAM, "one", name, method, "--out", folder]
        cost = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        return {"n": n, "d": d, "k": k} | cost

    store = Store(folder / "speed.csv", {"dataset": str, "method": str}, FIELDS)
    store.run(jobs(), measure, lambda row: print(*(row[f] for f in FIELDS), flush=True))


def run_one(name, method, folder):
    """Print the cost of one method on one set at epsilon 1."""
    tries = [kmeans.fit(method, name, 1.0, seed, folder)[1:] for seed in (0, 1)]
    wall, cpu, _ = np.min(tries, axis=0)
    cost = {"wall_s": wall, "cpu_s": cpu, "peak_mb": tries[0][2]}
    print(json.dumps({name: float(f"{value:.4g}") for name, value in cost.items()}))
