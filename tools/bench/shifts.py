"""A public source that is wrong in one of many ways: what the guard of NCnvxAdap is worth compared with source only and target only.

All sets come with scikit-learn, or are drawn. Rules were tuned on seeds below 100; what is published has others.
"""

import math
import warnings

import numpy as np
from scipy import ndimage, special
from sklearn.datasets import make_blobs, make_moons

from bench.store import table
from dplit import NCnvxAdap, datasets

EPSILONS = (0.5, 1.0, 3.0)
KNOWN = {"delta": 1e-5, "radius": 2.0}
KEY = {"set": str, "n": int, "runs": int}
FIRST = 100  # of the seeds

# Shifts: functions of a generator and n, which give source, private target and fresh target --------


def cut(X, y, rng, m, n):
    """m rows for a source, n for a private target, and the others, all at random."""
    order = rng.permutation(len(X))
    return [(X[at], y[at]) for at in np.split(order, [m, m + n])]


def even(parts):
    """All rows in units of the source's own spread, which is public, and a constant."""
    X = parts[0][0]
    mean, sd = X.mean(axis=0), X.std(axis=0)
    unit = np.where(sd > 1e-9, sd, 1.0) * math.sqrt(X.shape[1])
    return [(np.column_stack([(X - mean) / unit, np.full(len(X), 0.5)]), y) for X, y in parts]


def digits(seen=lambda images, rng: images, called=lambda y, rng: y, rare=1.0):
    """Digits in 4 x 4 boxes: what the target's camera sees, what the source calls them, how rare the first five are."""

    def draw(rng, n):
        data = datasets.load_digits()
        source, rest = cut(data.data.reshape(-1, 8, 8), data.target, rng, 500, 1297)[:2]
        kept = (rest[1] >= 5) | (rng.random(len(rest[1])) < rare)
        _, private, fresh = cut(rest[0][kept], rest[1][kept], rng, 0, n)
        parts = [(source[0], called(source[1], rng))]
        parts += [(seen(X, rng), y) for X, y in (private, fresh)]
        boxes = [X.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16) for X, _ in parts]
        return even([(X, y) for X, (_, y) in zip(boxes, parts, strict=True)])

    return draw


def aside(pixels):
    return lambda images, rng: ndimage.shift(images, (0, 0, pixels), order=1)


def turned_round(degrees):
    turn = {"axes": (1, 2), "reshape": False, "order": 1}
    return lambda images, rng: ndimage.rotate(images, degrees, **turn)


def blurred(images, rng):
    return ndimage.gaussian_filter(images, (0, 1.0, 1.0))


def noisy(images, rng):
    return images + rng.normal(scale=6.0, size=images.shape)


def negative(images, rng):
    return 16.0 - images


def covered(images, rng):
    return np.where(np.arange(8)[:, None] < 4, 0.0, images)  # the upper half


def some_wrong(share, n_classes):
    """Labels of which a share is drawn anew."""
    return lambda y, rng: np.where(
        rng.random(len(y)) < share, rng.integers(n_classes, size=len(y)), y
    )


def swapped(y, rng):
    """Four of ten classes have their names exchanged."""
    return np.array([1, 0, 3, 2, 4, 5, 6, 7, 8, 9])[y]


def cancer(column):
    """Source: the 60% of the nuclei with the smaller values of a column."""

    def draw(rng, n):
        data = datasets.load_breast_cancer()
        X, y, low = data.data, data.target, data.data[:, column]
        source = low <= np.quantile(low, 0.6)
        return even([(X[source], y[source]), *cut(X[~source], y[~source], rng, 0, n)[1:]])

    return draw


def rule(angle, wrong, width=1.0):
    """Ten columns and a logistic rule, which is turned in the source; a share of its labels is opposite."""

    def some(n, rng, angle, wrong, width):
        X = rng.normal(size=(n, 10)) / math.sqrt(10) * np.r_[width, np.ones(9)]
        score = 12 * (np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1])
        y = (rng.random(n) < special.expit(score)).astype(int)
        return np.column_stack([X, np.full(n, 0.5)]), np.where(rng.random(n) < wrong, 1 - y, y)

    def draw(rng, n):
        source = some(2000, rng, angle, wrong, width)
        return [source, some(n, rng, 0.0, 0.0, 1.0), some(2000, rng, 0.0, 0.0, 1.0)]

    return draw


def moons(rng, n):
    """Two moons, turned by a third of a right angle, with their squares and cubes."""
    X, y = make_moons(2000 + n + 2000, noise=0.2, random_state=int(rng.integers(2**31)))
    parts, turn = cut(X, y, rng, 2000, n), math.pi / 6
    turn = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    parts[1:] = [((X - X.mean(axis=0)) @ turn + X.mean(axis=0), y) for X, y in parts[1:]]
    more = lambda a, b: np.column_stack([a, b, a * a, a * b, b * b, a**3, a * a * b, a * b * b, b**3])  # noqa: E731  # fmt: skip
    return even([(more(*X.T), y) for X, y in parts])


def blobs(moved):
    """Twelve letters: clouds in eight columns; those of the source lie elsewhere."""

    def draw(rng, n):
        centers = rng.normal(size=(12, 8)) * 2.0
        away = centers + moved * rng.normal(size=(12, 8)) * 2.0
        make = lambda size, at: make_blobs(size, centers=at, cluster_std=1.5, random_state=int(rng.integers(2**31)))  # noqa: E731  # fmt: skip
        return even([make(1000, away), make(n, centers), make(2000, centers)])

    return draw


# name: (what draws it, number of classes, private records)
SHIFTS = {
    "digits, none": (digits(), 10, (300, 900)),
    "digits, one pixel aside": (digits(aside(1)), 10, (300, 900)),
    "digits, two pixels aside": (digits(aside(2)), 10, (300, 900)),
    "digits, turned by 30 degrees": (digits(turned_round(30)), 10, (300, 900)),
    "digits, blurred": (digits(blurred), 10, (300, 900)),
    "digits, noisy": (digits(noisy), 10, (300, 900)),
    "digits, upper half covered": (digits(covered), 10, (300, 900)),
    "digits, negatives": (digits(negative), 10, (300, 900)),
    "digits, five of them rare": (digits(rare=0.1), 10, (200, 500)),
    "digits, 60 % wrong labels": (digits(called=some_wrong(0.6, 10)), 10, (300, 900)),
    "digits, four exchanged": (digits(called=swapped), 10, (300, 900)),
    "cancer by texture": (cancer(1), 2, (60, 114)),
    "cancer by size": (cancer(0), 2, (60, 114)),
    "a rule turned by 45 degrees": (rule(math.pi / 4, 0.2), 2, (300, 1000)),
    "a rule turned by 135 degrees": (rule(3 * math.pi / 4, 0.2), 2, (300, 1000)),
    "a narrow source": (rule(math.pi / 8, 0.1, 0.3), 2, (300, 1000)),
    "moons turned by 30 degrees": (moons, 2, (300, 1000)),
    "twelve clouds, moved a little": (blobs(0.3), 12, (300, 1000)),
    "twelve clouds, moved": (blobs(1.0), 12, (300, 1000)),
}
# Methods ------------------------------------------------------------------------------------------


def scores(draw, n_classes, n, seed):
    """Accuracies on fresh records of the target, by (method, epsilon), and whether the guard chose target only."""
    (Xs, ys), (Xt, yt), (Xe, ye) = draw(np.random.default_rng(seed), n)
    known = KNOWN | {"classes": [*range(n_classes)], "random_state": seed}
    known |= {"weight_radius": 20.0 if n_classes == 2 else 40.0}
    public, found = {"Xs": Xs, "ys": ys}, {}
    free = {name: known[name] for name in known if name != "delta"} | {"private": False}
    source = NCnvxAdap(alpha=1.0, **free).fit(Xt, yt, **public).score(Xe, ye)
    for epsilon in EPSILONS:
        private = known | {"epsilon": epsilon}
        guarded = NCnvxAdap(**private).fit(Xt, yt, **public)
        found[epsilon] = {
            "source": source,
            "alone": NCnvxAdap(**private).fit(Xt, yt).score(Xe, ye),
            "unguarded": NCnvxAdap(expected_gain=0.02, **private)
            .fit(Xt, yt, **public)
            .score(Xe, ye),
            "guarded": guarded.score(Xe, ye),
            "refused": float(guarded.learned_from_ == "target"),
        }
    return found


def measure(name, n, runs):
    """Means over seeds; by how much the guard is ahead of the better of the two alternatives, and the standard error of that."""
    draw, n_classes, _ = SHIFTS[name]
    found = [scores(draw, n_classes, n, FIRST + seed) for seed in range(runs)]
    rows = []
    for epsilon in EPSILONS:
        of = {key: np.array([run[epsilon][key] for run in found]) for key in found[0][epsilon]}
        rival = max(("source", "alone"), key=lambda key, of=of: of[key].mean())
        ahead = of["guarded"] - of[rival]
        row = {"set": name, "n": n, "epsilon": epsilon, "runs": runs}
        row |= {key: f"{values.mean():.4f}" for key, values in of.items()}
        error = ahead.std(ddof=1) / math.sqrt(runs) if runs > 1 else math.nan
        rows.append(row | {"ahead": f"{ahead.mean():.4f}", "se": f"{error:.4f}"})
    return {"rows": rows}


def show(line):
    """Print one set: in points, how far the guard is ahead."""
    for row in line["rows"]:
        print(f"{row['set']:30s} n={row['n']:5d} eps={row['epsilon']:3g}  source {row['source']}  alone {row['alone']}  unguarded {row['unguarded']}  guarded {row['guarded']}  refused {row['refused']}  ahead {row['ahead']} ({row['se']})", flush=True)  # fmt: skip


def run(folder, runs, names=tuple(SHIFTS)):
    """shifts.csv"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jobs = [(name, n, runs) for name in names for n in SHIFTS[name][2]]
        return table(folder / "shifts.csv", KEY, jobs, measure, show)
