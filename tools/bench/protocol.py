"""The protocol of Tables 1 and 3 of Bassily, Cortes, Mao and Mohri (2024), without privacy, on what can be had of their sets.

The target is split at random: 70% to train on, 20% to choose settings on, 10% to test on. Every method has its
settings chosen on the same 20%, from the same ridges and shares of the source. All train by the same solver.
DPLIT_DATA is the folder of adult.csv.gz, of SouthGermanCredit.asc (UCI 522, or a copy with English heads) and of
wind.csv.gz (the table `wind` of the R package gstat as CSV); sets that are not there are left out.
Grids were fixed on seeds from 1000 on; what is published has seeds from 0 on.
"""

import csv
import gzip
import itertools
import os
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from scipy import optimize, special

from bench.peers.kliep import Kliep
from bench.store import table
from dplit import datasets
from dplit.adaptation import (
    discrepancy_minimization,
    kernel_mean_matching,
    labeled_discrepancy,
    profile_weights,
    profiled_loss,
)

KEY = {"set": str, "runs": int}
SOURCE = {
    True: 2000,
    False: 1000,
}  # records at most, of classes and of numbers: kernel mean matching takes m cubed
READ = 500  # rows of the target that KLIEP is shown at most
SHARES = (0.8, 0.4, 0.1)  # of the source, where both samples count
STATIONS = ("RPT", "VAL", "ROS", "KIL", "SHA", "BIR", "DUB", "CLA", "MUL", "CLO", "BEL", "MAL")
MONTH = 7  # whose days are the target
FEW = 40  # records to train on, in the sets that say so

# Data: rows, labels, which are of the source ------------------------------------------------------


def file(name):
    """A file of DPLIT_DATA.

    Raises
    ------
    FileNotFoundError
    """
    path = Path(os.environ.get("DPLIT_DATA", ""), name)
    if not path.is_file():
        raise FileNotFoundError(f"{name} is not in the folder DPLIT_DATA")
    return path


def scaled(X, source):
    """Columns in units of the source's own spread, and a constant; rows of length about 1."""
    mean, sd = X[source].mean(axis=0), X[source].std(axis=0)
    Z = (X - mean) / np.where(sd > 1e-9, sd, 1.0)
    return np.column_stack([Z, np.ones(len(Z))]) / np.sqrt(X.shape[1] + 1)


def adult():
    """Men are the source, women the target: who has an income above 50,000 dollars?"""
    data = datasets.fetch_adult()
    return scaled(data.data, data.sex == "Male"), data.target, data.sex == "Male"


@cache
def credit():
    """South German credit as columns by name; names as in the copy with English heads."""
    with file("SouthGermanCredit.asc").open() as lines:
        names, *rows = (line.split() for line in lines)
    assert names[0] == "status" and names[10] == "present_residence", "English heads are needed"
    return dict(zip(names, np.array(rows, dtype=int).T, strict=True))


NUMBERS = "duration amount age installment_rate number_credits".split()


def german(two):
    """People who have lived at one place for long (codes 3 and 4) are the source: the state of the checking account.

    Four states, or two of them: is there an account or not?
    """
    columns = dict(credit())
    source, status = columns.pop("present_residence") >= 3, columns.pop("status")
    parts = [columns.pop(name)[:, None] for name in NUMBERS]
    parts += [values[:, None] == np.unique(values)[None, 1:] for values in columns.values()]
    return scaled(np.hstack(parts).astype(float), source), status > 1 if two else status, source


@cache
def weather():
    """Days of 1961 to 1978: (month, speed at each station in knots)."""
    with gzip.open(file("wind.csv.gz"), "rt", newline="") as lines:
        rows = list(csv.DictReader(lines))
    month = np.array([int(row["month"]) for row in rows])
    return month, np.array([[float(row[name]) for name in STATIONS] for row in rows])


def wind(station):
    """The speed at one station from those at the eleven others; the target's days are of one month."""
    month, speed = weather()
    at, source = STATIONS.index(station), month != MONTH
    y = speed[:, at]
    return scaled(np.delete(speed, at, axis=1), source), y / y[source].std(), source


CLASSES = {
    "German, four states": partial(german, False),
    "German, account or none": partial(german, True),
    "Adult": adult,
}
# every fourth station is predicted
NUMERIC = {f"wind, {name}": partial(wind, name) for name in STATIONS[::4]}
FEWER = {f"{name}, n = {FEW}": make for name, make in NUMERIC.items()}
PROBLEMS = CLASSES | NUMERIC | FEWER
problem = cache(lambda name: PROBLEMS[name]())


def there(name):
    """Whether the file of a problem is."""
    try:
        return bool(problem(name))
    except FileNotFoundError as error:
        print(f"{name} is skipped: {error}")
        return False


# One solver for all -------------------------------------------------------------------------------


@dataclass
class Squares:
    """Squared errors: least squares with weights, again and again."""

    ridge: float

    def loss(self, w, X, y):
        return (X @ w - y) ** 2

    def error(self, w, X, y):
        return float(self.loss(w, X, y).mean())

    def fit(self, X, y, p, offset=0.0, kappa_1=np.inf, start=None):
        w = start
        for _ in range(200):
            q = p if w is None else p * profile_weights(self.loss(w, X, y) + offset, kappa_1)
            H = (X * q[:, None]).T @ X + self.ridge * np.eye(X.shape[1])
            before, w = w, np.linalg.solve(H, X.T @ (q * y))
            if np.isinf(kappa_1) or (
                before is not None and np.abs(w - before).max() < 1e-7 * np.abs(w).max()
            ):
                break
        return w


@dataclass
class Logs:
    """Log loss of K classes, all of whose parameters are free. With a finite kappa_1 it is not convex, and what is found depends on the start."""

    ridge: float

    def loss(self, w, X, y):
        scores = X @ w.reshape(X.shape[1], -1)
        return special.logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]

    def error(self, w, X, y):
        return float(np.mean((X @ w.reshape(X.shape[1], -1)).argmax(axis=1) != y))

    def fit(self, X, y, p, offset=0.0, kappa_1=np.inf, start=None):
        K, d = int(y.max()) + 1, X.shape[1]
        chosen = np.eye(K)[y]

        def phi(w):
            scores = X @ w.reshape(d, K)
            scores -= scores.max(axis=1, keepdims=True)
            powers = np.exp(scores)
            total = powers.sum(axis=1)
            losses = np.log(total) - scores[np.arange(len(y)), y] + offset
            q = p * profile_weights(losses, kappa_1)
            slope = X.T @ (q[:, None] * (powers / total[:, None] - chosen))
            value = p @ profiled_loss(losses, kappa_1) + self.ridge / 2 * w @ w
            return value, slope.ravel() + self.ridge * w

        start = np.zeros(d * K) if start is None else start
        options = {"maxiter": 100, "ftol": 1e-8}
        return optimize.minimize(phi, start, method="L-BFGS-B", jac=True, options=options).x


# Methods ------------------------------------------------------------------------------------------


def ways(task, Xs, ys, Xt, yt, seed, kliep):
    """method -> its settings (share of the source, weights of its rows, kappa_1, discrepancy), without privacy."""
    m, plain = len(Xs), (np.inf, 0.0)
    equal = np.full(m, 1 / m)
    weighed = {
        "KMM": kernel_mean_matching(Xs, Xt),
        "KLIEP": kliep.weights(Xs, Xt[:READ], seed=seed),
    }
    if task is Squares:
        weighed["DM"] = discrepancy_minimization(Xs, Xt).weights
        w = Squares(1e-4).fit(Xs, ys, equal)
        spread = float(np.median(Squares(0).loss(w, Xs, ys))) / 0.6745**2
        apart = labeled_discrepancy(Xt, yt, Xs, ys, 2 * np.linalg.norm(w))[0]
    else:
        spread = apart = np.log(yt.max() + 1)  # the loss of a guess
    found = {"source": [(1.0, equal, *plain)], "target": [(0.0, equal, *plain)]}
    found["mixture p"] = [(a, equal, *plain) for a in SHARES]
    for name, q in weighed.items():
        found[name] = [(1.0, q, *plain)]
        found[f"{name} + target"] = [(a, q, *plain) for a in (1.0, *SHARES)]
    costs = itertools.product((0.3 * spread, spread, 3 * spread), (0.0, apart))
    found["adapted"] = [(a, equal, *cost) for cost in costs for a in SHARES]
    return found


RIDGES = {Squares: (1e-6, 1e-4, 1e-2), Logs: (1e-5, 1e-4, 1e-3)}


def split(name, seed):
    """(source, target to train on, to choose on, to test on), each rows and labels."""
    X, y, source = problem(name)
    if name in CLASSES:
        y = np.unique(y, return_inverse=True)[1]
    rng = np.random.default_rng(seed)
    here = rng.permutation(np.flatnonzero(source))[: SOURCE[name in CLASSES]]
    there = rng.permutation(np.flatnonzero(~source))
    a, b = round(0.7 * len(there)), round(0.9 * len(there))
    train = there[: FEW if name in FEWER else a]
    return [(X[rows], y[rows]) for rows in (here, train, there[a:b], there[b:])]


def errors(name, seed, kliep):
    """method -> error on the test part, of the settings that are best on the part to choose on."""
    task = Logs if name in CLASSES else Squares
    (Xs, ys), (Xt, yt), choose, test = split(name, seed)
    X, y = np.vstack([Xs, Xt]), np.r_[ys, yt]
    found, mixtures = {}, {}
    for method, settings in ways(task, Xs, ys, Xt, yt, seed, kliep).items():
        tried = []
        for (alpha, q, kappa_1, d), ridge in itertools.product(settings, RIDGES[task]):
            p = np.r_[alpha * q, np.full(len(yt), (1 - alpha) / len(yt))]
            offset, model = np.r_[np.full(len(ys), d), np.zeros(len(yt))], task(ridge)
            used, options = p > 0, {}
            if kappa_1 < np.inf:  # from the mixture of the same shares
                options = {"kappa_1": kappa_1, "start": mixtures[alpha, ridge]}
            w = model.fit(X[used], y[used], p[used], offset[used], **options)
            if method == "mixture p":
                mixtures[alpha, ridge] = w
            tried.append((model.error(w, *choose), model.error(w, *test)))
        found[method] = min(tried, key=lambda pair: pair[0])[1]  # the first of equals
    return found


def measure(name, runs, kliep):
    """Means over splits; accuracy, or squared error over that of target only; and by how much adaptation is better, in pairs."""
    found = [errors(name, seed, kliep) for seed in range(runs)]
    rows, sizes = [], [len(y) for _, y in split(name, 0)]
    head = dict(zip(("m", "n", "chosen on", "tested on"), sizes, strict=True))
    better = {method: np.array([f[method] for f in found]) for method in found[0]}
    if name in CLASSES:
        better = {method: 1 - values for method, values in better.items()}
    else:
        better = {method: values / better["target"].mean() for method, values in better.items()}
    sign = 1 if name in CLASSES else -1
    for method, values in better.items():
        gaps = sign * (better["adapted"] - values)
        row = (
            {"set": name, "method": method, "runs": runs} | head | {"value": f"{values.mean():.4f}"}
        )
        row |= {"sd": f"{values.std(ddof=1):.4f}", "ahead": f"{gaps.mean():.4f}"}
        rows.append(row | {"se": f"{gaps.std(ddof=1) / runs**0.5:.4f}"})
    return {"rows": rows}


def show(line):
    """Print the means of one set."""
    print(f"\n{line['set']}: {line['runs']} splits")
    for row in line["rows"]:
        print(f"  {row['method']:16} {row['value']} ({row['sd']}); adaptation ahead by {row['ahead']} ({row['se']})", flush=True)  # fmt: skip


def run(folder, runs=None):
    """protocol.csv; by default 20 splits of German credit, which is small, and 10 of the others."""
    names = [name for name in PROBLEMS if there(name)]
    kliep = Kliep(folder)
    jobs = [(name, runs or (20 if "German" in name else 10)) for name in names]
    return table(folder / "protocol.csv", KEY, jobs, partial(measure, kliep=kliep), show)
