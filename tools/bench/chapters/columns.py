"""PEMeans compared with HDPEMeans on tables of 33 to 128 columns: whence `python -m dplit` chooses by columns (nbs/command_line/command.ipynb).

Each table lies in a public box, as the command has it: numbers within their bounds, values of a list as
columns of zeros and ones. Losses are means over the seeds; a ratio is that of HDPEMeans over PEMeans.
"""

from itertools import product

import numpy as np
from sklearn.datasets import load_digits

from bench.sets import geometric_mean
from dplit import HDPEMeans, PEMeans, datasets
from dplit.accounting import Table

EPSILONS = (0.5, 1.0, 2.0)
LEVEL = 0.005  # ratios within half a percent of 1 count for neither


def one_hot(n, columns, values, k, seed=3):
    """Rows of `k` kinds: each kind has a favorite value in each column, taken with probability .7."""
    rng = np.random.default_rng(seed)
    favorite, kind = rng.integers(values, size=(k, columns)), rng.integers(k, size=n)
    at_random = rng.integers(values, size=(n, columns))
    cells = np.where(rng.random((n, columns)) < 0.7, favorite[kind], at_random)
    return np.eye(values)[cells].reshape(n, -1)


def blobs(make, n, d, k):
    """Blobs that just fit into the box [-1, 1]^d, which reads the rows: for benchmarks only."""
    X = make(n, d, k, random_state=7).data
    return X / np.abs(X).max()


TABLES = {
    "digits": lambda: (load_digits().data / 8 - 1, 10),
    "round, 33": lambda: (blobs(datasets.make_isotropic_blobs, 5000, 33, 8), 8),
    "round, 64": lambda: (blobs(datasets.make_isotropic_blobs, 20_000, 64, 16), 16),
    "round, 128": lambda: (blobs(datasets.make_isotropic_blobs, 20_000, 128, 16), 16),
    "long, 33": lambda: (blobs(datasets.make_elongated_blobs, 5000, 33, 8), 8),
    "long, 64": lambda: (blobs(datasets.make_elongated_blobs, 20_000, 64, 16), 16),
    "lists, 40": lambda: (one_hot(10_000, 10, 4, 8), 8),
    "lists, 96": lambda: (one_hot(10_000, 16, 6, 8), 8),
}


def ball(X):
    """Center and radius of the ball around the box of `X`; for blobs and digits the box is [-1, 1]^d."""
    low = 0.0 if X.min() == 0 else -1.0
    return {"center": np.full(X.shape[1], (low + 1) / 2), "radius": np.sqrt(X.shape[1]) * (1 - low) / 2}  # fmt: skip


def compare(seeds):
    """Print the mean losses of each table and privacy level, and what becomes of them."""
    lines, ratios = [], []
    for (name, make), epsilon in product(TABLES.items(), EPSILONS):
        X, k = make()
        public = {"epsilon": epsilon, "delta": 1e-6, **ball(X)}
        losses = [
            np.mean([datasets.kmeans_loss(X, method(k, **public, random_state=s).fit(X).cluster_centers_) for s in seeds])
            for method in (PEMeans, HDPEMeans)
        ]  # fmt: skip
        ratios.append(losses[1] / losses[0])
        lines.append([name, *X.shape, k, epsilon, *(f"{x:.4g}" for x in losses), f"{ratios[-1]:.3f}"])  # fmt: skip
        print(*lines[-1], flush=True)
    print(Table(["table", "rows", "columns", "k", "epsilon", "PEMeans", "HDPEMeans", "ratio"], lines))  # fmt: skip
    lower, higher = (sum(r < 1 - LEVEL for r in ratios), sum(r > 1 + LEVEL for r in ratios))
    print(f"{len(ratios)} cases, {len(seeds)} seeds: geometric mean {geometric_mean(ratios):.3f}, lower by more than half a percent in {lower}, higher in {higher}")  # fmt: skip


def options(parser):
    """The options of the chapter."""
    parser.add_argument("--seeds", type=int, default=10, help="seeds, from 100 on")
    parser.set_defaults(run=lambda a: compare(range(100, 100 + a.seeds)))
