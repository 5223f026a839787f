"""A public source and a private target without labels: covariate shift, compared with source only and LabelShiftClassifier.

Eight shifts of clouds (classification) and of a curved rule (regression), drawn after the kinds of
skada's generators; code and numbers are ours. Rules of the estimators were tuned on seeds below 100 of the
same shifts; what is published has other seeds.
"""

import math
import warnings

import numpy as np
from scipy import special
from sklearn.linear_model import LinearRegression, LogisticRegression

from bench.store import table
from dplit import CovariateShiftClassifier, CovariateShiftRegressor, LabelShiftClassifier

EPSILONS = (0.5, 1.0, 3.0)
DELTA = 1e-5
SOURCE, FRESH = 2000, 4000  # records
KEY = {"task": str, "shift": str, "d": int, "n": int, "runs": int}
FIRST = 1000  # of the seeds

# Shifts -------------------------------------------------------------------------------------------


def clouds(rng, n, d):
    """Eight clouds, four of each class, which no line divides; more columns are noise."""
    y, where = (rng.random(n) < 0.5).astype(int), rng.integers(4, size=n)
    height = np.where(y == 0, np.array([0, 0.5, 0, -2])[where], np.array([2, 2.5, 2, 0])[where])
    X = np.c_[np.array([-3, -1, 1, 3])[where], height] + 0.6 * rng.normal(size=(n, 2))
    return np.c_[X, rng.normal(size=(n, d - 2))], y


def waves(rng, n, d):
    """A curved rule of two columns, which no linear model follows; more columns are noise."""
    X = np.c_[1.5 * rng.normal(size=n), rng.normal(size=(n, d - 1))]
    y = 1.5 * np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * X[:, 1] ** 2
    return X, y + 0.3 * rng.normal(size=n)


def kept(draw, n, share):
    """n records, each kept with the probability that `share` gives it."""
    parts, found = [], 0
    while found < n:
        X, y = draw(4 * n)
        here = share.random(len(X)) < share.of(X, y)
        parts.append((X[here], y[here]))
        found += here.sum()
    X, y = map(np.concatenate, zip(*parts, strict=True))
    return X[:n], y[:n]


class Share:
    """With which probability a record is kept."""

    def __init__(self, rng, of):
        self.random, self.of = rng.random, of


def tilted(X, y):
    return special.expit(1.5 * (X[:, 0] - 0.5))


def cornered(X, y):
    return np.exp(-0.5 * ((X[:, 0] - 2) ** 2 + (X[:, 1] - 1) ** 2))


def labeled(X, y):
    whole = y.dtype.kind == "i"
    return np.where(y == 1, 0.9, 0.2) if whole else special.expit(2 * y)


def turned(X):
    turn = np.array([[math.cos(math.pi / 6), -0.5], [0.5, math.cos(math.pi / 6)]])
    return np.c_[X[:, :2] @ turn.T, X[:, 2:]]


KEPT = {  # which records the target keeps
    "covariate": tilted,
    "covariate, a corner": cornered,
    "label": labeled,
    "both": lambda X, y: tilted(X, y) * labeled(X, y),
}
MOVED = {  # what happens to its rows
    "none": lambda X: X,
    "subspace": lambda X: X * np.r_[-1, np.ones(X.shape[1] - 1)],  # one column is mirrored
    "rotation": turned,
    "outside": lambda X: X + np.r_[4, np.zeros(X.shape[1] - 1)],
}
SHIFTS = ("none", *KEPT, "subspace", "rotation", "outside")
TASKS = {"classification": clouds, "regression": waves}


def shifted(task, shift, rng, n, d):
    """n records of the target under a shift; the source is the same without."""
    draw = lambda k: TASKS[task](rng, k, d)  # noqa: E731
    if shift in KEPT:
        return kept(draw, n, Share(rng, KEPT[shift]))
    X, y = draw(n)
    return MOVED[shift](X), y


# Methods ------------------------------------------------------------------------------------------


def score(task, model, X, y):
    """Accuracy in percent, or the mean squared error."""
    if task == "classification":
        return 100 * np.mean(model.predict(X) == y)
    return np.mean((model.predict(X) - y) ** 2)


def measured(task, shift, d, n, seed):
    """By epsilon: scores of the source, of covariate shift and of label shift on fresh records, and the message."""
    rng = np.random.default_rng([seed, d, n])
    Xs, ys = TASKS[task](rng, SOURCE, d)
    (Xt, yt), (Xe, ye) = (shifted(task, shift, rng, k, d) for k in (n, FRESH))
    classes = task == "classification"
    plain = LogisticRegression(max_iter=1000) if classes else LinearRegression()
    source = score(task, plain.fit(Xs, ys), Xe, ye)
    own = score(task, plain.fit(Xt, yt), Xe, ye)
    make = CovariateShiftClassifier if classes else CovariateShiftRegressor
    found = {}
    for epsilon in EPSILONS:
        private = {"neighboring": "replace", "random_state": seed, "epsilon": epsilon}
        model = make(delta=DELTA, **private).fit(Xt, Xs=Xs, ys=ys)
        row = {"source": source, "ours": score(task, model, Xe, ye), "target, labels": own}
        row |= {f"seen {name}": model.shift_ == name for name in SEEN}
        row |= {"weighted": model.power_ > 0, "effective": model.effective_size_}
        if classes and epsilon == 1:  # a copy of the model for each row takes long
            label = LabelShiftClassifier(**private).fit(Xt, Xs=Xs, ys=ys)
            row |= {"label shift": score(task, label, Xe, ye), "warned": label.p_value_ < 1e-4}
        found[epsilon] = row
    return found


SEEN = ("none", "label", "covariate", "neither")


def gain(task, before, after):
    """In points: of accuracy, or percent of the loss; above 0 is better."""
    return after - before if task == "classification" else 100 * (1 - after / before)


def measure(task, shift, d, n, runs):
    """Means over seeds; by how much we are ahead of source only, and the standard error of that."""
    found = [measured(task, shift, d, n, FIRST + seed) for seed in range(runs)]
    rows = []
    for epsilon in EPSILONS:
        of = {key: np.array([run[epsilon][key] for run in found]) for key in found[0][epsilon]}
        ahead = gain(task, of["source"], of["ours"])
        row = {"task": task, "shift": shift, "d": d, "n": n, "epsilon": epsilon, "runs": runs}
        row |= {key: f"{of[key].mean():.4f}" for key in of}
        error = ahead.std(ddof=1) / math.sqrt(runs) if runs > 1 else math.nan
        row |= {"ahead": f"{ahead.mean():.2f}", "se": f"{error:.2f}", "least": f"{ahead.min():.2f}"}
        if "label shift" in of:
            label = gain(task, of["source"], of["label shift"])
            row |= {"label ahead": f"{label.mean():.2f}"}
        rows.append(dict.fromkeys(FIELDS, "") | row)
    return {"rows": rows}


FIELDS = ("task", "shift", "d", "n", "epsilon", "runs", "source", "ours", "target, labels", *(f"seen {name}" for name in SEEN), "weighted", "effective", "label shift", "warned", "ahead", "se", "least", "label ahead")  # fmt: skip


def show(line):
    """Print one setting: in points, how far we are ahead of source only."""
    for row in line["rows"]:
        seen = " ".join(f"{name} {float(row[f'seen {name}']):.2f}" for name in SEEN)
        print(f"{row['task']:14s} {row['shift']:20s} d={row['d']} n={row['n']:5d} eps={row['epsilon']:3g}  source {row['source']}  ahead {row['ahead']} ({row['se']}), least {row['least']}; seen: {seen}; label shift {row['label ahead']} warned {row['warned']}", flush=True)  # fmt: skip


def run(folder, runs):
    """covariate.csv"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jobs = [
            (task, shift, d, n, runs)
            for task in TASKS
            for shift in SHIFTS
            for d in (2, 8)
            for n in (300, 1000)
        ]
        return table(folder / "covariate.csv", KEY, jobs, measure, show)
