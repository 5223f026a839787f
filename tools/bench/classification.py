"""Classification with a public source and a private target: accuracies, methods side by side.

DPLIT_DATA is the folder of adult.csv.gz and letter.npz, if there is one.
"""

import itertools
import math
import warnings
from functools import cache, partial

import numpy as np
from sklearn.linear_model import LogisticRegression

from bench.peers.library import Library
from bench.sets import spread
from bench.store import table
from dplit import LabelShiftClassifier, NCnvxAdap, adaptation, datasets
from dplit.adaptation import choose_in_public, kernel_mean_matching

DELTA = 1e-5
EPSILONS = (0.5, 1.0, 3.0, 10.0)
KNOWN = {"radius": 2.0, "classes": [0, 1]}
GRID = {"weight_radius": [5.0, 10.0, 20.0, 40.0], "expected_gain": [0.01, 0.03, 0.1]}
STRENGTHS = [10 ** (k / 2) for k in range(-5, 4)]  # C of objective perturbation
KEY = {"set": str, "n": int, "runs": int, "group": str}

# Data: source, target, public order of the source -------------------------------------------------


def scaled(X, source):
    """Columns in units of the source's own spread (public), and a constant."""
    mean, sd = X[source].mean(axis=0), X[source].std(axis=0)
    Z = (X - mean) / np.where(sd > 1e-9, sd, 1.0) / math.sqrt(X.shape[1])
    return np.column_stack([Z, np.full(len(Z), 0.5)])


def by_feature(X, y, feature):
    """Source: the lower 60% of a feature; its upper third plays the target in public."""
    source = feature <= np.quantile(feature, 0.6)
    near = feature[source] > np.quantile(feature, 0.4)
    return scaled(X, source), y, source, near


def adult():
    """Men are the source, women the target, as in the paper; married men, say, play the target in public."""
    data = datasets.fetch_adult()
    source = data.sex == "Male"
    married = data.data[source][:, data.feature_names.index("marital_status=Married-civ-spouse")]
    return scaled(data.data, source), data.target, source, married < 0.5


def letter():
    """A letter of the first half of the alphabet, or of the second; split by the number of ink pixels."""
    data = datasets.fetch_clustering("letter")
    y = np.asarray(data.target)
    codes = np.unique(y, return_inverse=True)[1]
    X = np.column_stack([data.data, data.data**2])
    return by_feature(X, (codes >= 13).astype(int), data.data[:, 4])


def cancer():
    data = datasets.load_breast_cancer()
    return by_feature(data.data, data.target, data.data[:, 1])


def digits():
    data = datasets.load_digits()
    return by_feature(data.data, (data.target >= 5).astype(int), data.data.sum(axis=1))


# name: (loader, records of the source at most, private records)
PROBLEMS = {
    "cancer": (cancer, 341, (114,)),
    "digits": (digits, 1078, (60, 359)),
    "letter": (letter, 2000, (100, 1000, 3000)),
    "adult": (adult, 2000, (300, 1000, 3000, 8000)),
}


@cache
def problem(name):
    """What the loader gives."""
    return PROBLEMS[name][0]()


def there(name):
    """Whether the files of a problem are."""
    try:
        return bool(problem(name))
    except FileNotFoundError as error:
        print(f"\n{name} is skipped: {error}")
        return False


def draw(problem, n_source, n, seed):
    X, y, source, near = problem
    rng = np.random.default_rng(seed)
    # one source for all splits: it is public
    here = np.random.default_rng(0).permutation(np.flatnonzero(source))[:n_source]
    there = rng.permutation(np.flatnonzero(~source))
    place = np.full(len(X), False)
    place[np.flatnonzero(source)[near]] = True
    test = there[n : n + 4000] if n < len(there) else there
    return X[here], y[here], X[there[:n]], y[there[:n]], X[test], y[test], place[here]


# Methods ------------------------------------------------------------------------------------------


class Steep(adaptation.LogLoss):
    """Logistic regression that claims less curvature than it has, so that the steps are longer."""

    share = 1.0

    def constants(self, radius, weight_radius):
        bound, lipschitz, smoothness = super().constants(radius, weight_radius)
        return bound, lipschitz, smoothness * self.share


def steep(share):
    loss = Steep()
    loss.share = share
    return loss


def logistic():
    return LogisticRegression(C=1000.0, fit_intercept=False, max_iter=2000)


def kmm(Xs, ys, Xt, yt, alpha=0.2):
    weights = np.r_[alpha * kernel_mean_matching(Xs, Xt), np.full(len(yt), (1 - alpha) / len(yt))]
    return logistic().fit(np.vstack([Xs, Xt]), np.r_[ys, yt], sample_weight=weights)


@cache
def choose(name, n):
    """Weight radius and expected gain, chosen in public: on the source, which is the same in all splits."""
    Xs, ys, *_, near = draw(problem(name), PROBLEMS[name][1], n, 0)
    asked = NCnvxAdap(epsilon=1.0, **KNOWN, delta=DELTA, random_state=0)
    size = min(n, int(near.sum()) // 2)
    return choose_in_public(asked, GRID, Xs, ys, near, n_target=size)[0]


def exact_fits(data, chosen):
    """name -> model, without privacy."""
    Xs, ys, Xt, yt, *_ = data
    public = {"Xs": Xs, "ys": ys}
    exact = KNOWN | {"private": False, "weight_radius": chosen["weight_radius"]}
    return {
        "source only": NCnvxAdap(alpha=1.0, **exact).fit(Xt, yt, **public),
        "target only": NCnvxAdap(**exact).fit(Xt, yt),
        "p0 mixture": NCnvxAdap(kappa_1=math.inf, **exact).fit(Xt, yt, **public),
        "adapted, not private": NCnvxAdap(**exact).fit(Xt, yt, **public),
    }


def private_fits(data, chosen, epsilon, seed):
    """name -> model at one epsilon; DP-GD has a name with each of its nine settings."""
    Xs, ys, Xt, yt, *_ = data
    public = {"Xs": Xs, "ys": ys}
    private = KNOWN | {"delta": DELTA, "random_state": seed, "epsilon": epsilon}
    bounded = private | {"weight_radius": chosen["weight_radius"]}
    fits = {
        f"adapted, eps {epsilon:g}": NCnvxAdap(**private, **chosen).fit(Xt, yt, **public),
        f"Algorithm 2, eps {epsilon:g}": NCnvxAdap(variant="paper", **bounded).fit(
            Xt, yt, **public
        ),
    }
    for T, share in itertools.product((10, 40, 160), (1.0, 0.2, 0.04)):
        alone = NCnvxAdap(n_iter=T, loss=steep(share), **bounded)
        fits[f"DP-GD target, eps {epsilon:g}", T, share] = alone.fit(Xt, yt)
    return fits


class Line:
    """Class 1 on one side of w x = 0, class 0 on the other."""

    def __init__(self, w):
        self.w = w

    def score(self, X, y):
        return np.mean((X @ self.w > 0) == y)


worker = cache(Library)  # one for all fits


def adaptation(name, data, n, seed, folder):
    chosen = choose(name, n)
    fits = exact_fits(data, chosen)
    for epsilon in EPSILONS:
        fits |= private_fits(data, chosen, epsilon, seed)
    return fits


def label_shift(name, data, n, seed, folder):
    """The model of the source, and one histogram of private labels; pure epsilon, replaced records as everywhere here."""
    Xs, ys, Xt, yt, *_ = data
    private = {"neighboring": "replace", "random_state": seed}
    return {
        f"label shift, eps {e:g}": LabelShiftClassifier(logistic(), epsilon=e, **private).fit(
            Xt, yt, Xs=Xs, ys=ys
        )
        for e in EPSILONS
    }


def objective_perturbation(name, data, n, seed, folder):
    """diffprivlib's logistic regression of the target only; pure epsilon; it has a name with each of its nine settings."""
    fit = partial(worker(folder).separate, *data[2:4], radius=KNOWN["radius"], strengths=STRENGTHS)
    return {
        (f"objective perturbation, eps {e:g}", C): Line(w)
        for e in EPSILONS
        for C, w in zip(STRENGTHS, fit(epsilon=e, seed=seed), strict=True)
    }


def kernel_means(name, data, n, seed, folder):
    """Kernel mean matching, without privacy."""
    return {"KMM + target": kmm(*data[:4])}


GROUPS = {  # what is measured in one go
    "adaptation": adaptation,
    "kernel means": kernel_means,
    "label shift": label_shift,
    "objective perturbation": objective_perturbation,
}


def measure(name, n, runs, group, folder):
    """Accuracy on fresh target records; only what has settings (DP-GD, objective perturbation) is tuned on them: best of 9."""
    found = {}
    for seed in range(runs):
        data = draw(problem(name), PROBLEMS[name][1], n, seed)
        *_, Xe, ye, _ = data
        for method, model in GROUPS[group](name, data, n, seed, folder).items():
            found.setdefault(method, []).append(model.score(Xe, ye))
    best = {}
    for method, scores in found.items():
        method = method if isinstance(method, str) else method[0]
        best[method] = max(best.get(method, [0.0]), scores, key=np.mean)
    m, d = data[0].shape
    head, rows = {"set": name, "m": m, "n": n, "d": d}, []
    for method, scores in best.items():
        row = head | {"method": method, "runs": runs, "accuracy": f"{np.mean(scores):.4f}"}
        rows.append(row | {"sd": f"{spread(scores):.4f}"})
    return {"rows": rows}


def show(line):
    """Print the accuracies on one set."""
    first, *_ = line["rows"]
    print(f"\n{first['set']}: m={first['m']}, n={first['n']}, d={first['d']}; {line['group']}")
    for row in line["rows"]:
        print(f"  {row['method']:24s} {row['accuracy']} ({row['sd']})", flush=True)


def run(folder, seeds, names=tuple(PROBLEMS), groups=tuple(GROUPS)):
    """classification.csv"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sets = [(name, n) for name in names if there(name) for n in PROBLEMS[name][2]]
        jobs = [(*one, seeds, group) for one in sets for group in groups]
        fit = partial(measure, folder=folder)
        return table(folder / "classification.csv", KEY, jobs, fit, show)
