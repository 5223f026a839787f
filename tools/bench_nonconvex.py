"""Benchmarks of the non-convex adaptation chapter. DPLIT_DATA is the folder of adult.csv.gz and letter.npz, if there is one.

python tools/bench_nonconvex.py accuracy [--data adult letter ...]  # methods side by side, 10 splits each
python tools/bench_nonconvex.py network                             # a network on two rings
python tools/bench_nonconvex.py printed                             # what Algorithm 2's weights do
python tools/bench_nonconvex.py speed                               # m = 1e5, n = 1e4, d = 50
"""

import argparse
import itertools
import math
import time
import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

from dplit import NCnvxAdap, datasets
from dplit.accounting import gaussian_mu
from dplit.adaptation import losses as lo
from dplit.adaptation import ncnvx_adap
from dplit.adaptation import nonconvex as nc
from dplit.adaptation.cnvx_adap import choose_in_public
from dplit.adaptation.discrepancy import kernel_mean_matching
from dplit.adaptation.samples import Sample
from dplit.mechanisms import Noise
from dplit.rows import lattice, quantize

DELTA = 1e-5


# ---------------------------------------------------------------- data: source, target, public order of the source


def scaled(X, source):
    """Columns in units of the source's own spread (public), and a constant."""
    mean, sd = X[source].mean(axis=0), X[source].std(axis=0)
    Z = (X - mean) / np.where(sd > 1e-9, sd, 1.0) / math.sqrt(X.shape[1])
    return np.column_stack([Z, np.full(len(Z), 0.5)])


def by_feature(X, y, feature):
    """Source: the lower 60 % of a feature; its upper third plays the target in public."""
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


# ---------------------------------------------------------------- methods


class Steep(lo.LogLoss):
    """Logistic regression that claims less curvature than it has, so that the steps are longer."""

    share = 1.0

    def constants(self, radius, weight_radius):
        bound, lipschitz, smoothness = super().constants(radius, weight_radius)
        return bound, lipschitz, smoothness * self.share


def steep(share):
    loss = Steep()
    loss.share = share
    return loss


def kmm(Xs, ys, Xt, yt, alpha=0.2):
    weights = np.r_[alpha * kernel_mean_matching(Xs, Xt), np.full(len(yt), (1 - alpha) / len(yt))]
    model = LogisticRegression(C=1000.0, fit_intercept=False, max_iter=2000)
    return model.fit(np.vstack([Xs, Xt]), np.r_[ys, yt], sample_weight=weights)


def accuracy(names, n_splits=10, epsilons=(0.5, 1.0, 3.0, 10.0)):
    """Accuracy on fresh target records; only DP-GD is tuned on them (best of 9). A list of rows."""
    table = []
    for name in names:
        load, n_source, sizes = PROBLEMS[name]
        try:
            problem = load()
        except FileNotFoundError as error:
            print(f"\n{name} is skipped: {error}")
            continue
        for n in sizes:
            found, known = {}, {"radius": 2.0, "classes": [0, 1]}
            for seed in range(n_splits):
                Xs, ys, Xt, yt, Xe, ye, near = draw(problem, n_source, n, seed)
                paid = known | {"delta": DELTA, "random_state": seed}
                public = {"Xs": Xs, "ys": ys}
                if not seed:
                    grid = {
                        "weight_radius": [5.0, 10.0, 20.0, 40.0],
                        "expected_gain": [0.01, 0.03, 0.1],
                    }
                    asked = NCnvxAdap(epsilon=1.0, **paid)
                    size = min(n, int(near.sum()) // 2)
                    chosen, _ = choose_in_public(asked, grid, Xs, ys, near, n_target=size)
                exact = known | {"private": False, "weight_radius": chosen["weight_radius"]}
                fits = {
                    "source only": NCnvxAdap(alpha=1.0, **exact).fit(Xt, yt, **public),
                    "target only": NCnvxAdap(**exact).fit(Xt, yt),
                    "p0 mixture": NCnvxAdap(kappa_1=math.inf, **exact).fit(Xt, yt, **public),
                    "KMM + target": kmm(Xs, ys, Xt, yt),
                    "adapted, not private": NCnvxAdap(**exact).fit(Xt, yt, **public),
                }
                for epsilon in epsilons:
                    ours = NCnvxAdap(epsilon=epsilon, **paid, **chosen)
                    fits[f"adapted, eps {epsilon:g}"] = ours.fit(Xt, yt, **public)
                    printed = NCnvxAdap(
                        epsilon=epsilon,
                        variant="paper",
                        weight_radius=chosen["weight_radius"],
                        **paid,
                    )
                    fits[f"Algorithm 2, eps {epsilon:g}"] = printed.fit(Xt, yt, **public)
                    for T, share in itertools.product((10, 40, 160), (1.0, 0.2, 0.04)):
                        alone = NCnvxAdap(
                            epsilon=epsilon,
                            n_iter=T,
                            loss=steep(share),
                            weight_radius=chosen["weight_radius"],
                            **paid,
                        )
                        fits[f"DP-GD target, eps {epsilon:g}", T, share] = alone.fit(Xt, yt)
                for method, model in fits.items():
                    found.setdefault(method, []).append(model.score(Xe, ye))
            best = {}
            for method, scores in found.items():
                method = method if isinstance(method, str) else method[0]
                best[method] = max(best.get(method, [0.0]), scores, key=np.mean)
            m, d = Xs.shape
            print(f"\n{name}: m={m}, n={n}, d={d}; chosen in public: {chosen}")
            for method, scores in best.items():
                print(f"  {method:24s} {np.mean(scores):.3f} ({np.std(scores):.3f})", flush=True)
                row = {"set": name, "m": m, "n": n, "d": d, "method": method, "runs": n_splits}
                row |= {"accuracy": f"{np.mean(scores):.4f}", "sd": f"{np.std(scores):.4f}"}
                table.append(row)
    return table


# ---------------------------------------------------------------- network, printed algorithm, speed


def network(n_splits=10):
    def rings(n, rng, size=1.0, wrong=0.0):
        y, angle = rng.integers(2, size=n), rng.uniform(0, 2 * np.pi, size=n)
        length = size * (0.4 + 0.45 * y) + rng.normal(scale=0.09, size=n)
        X = np.column_stack([length * np.cos(angle), length * np.sin(angle), np.full(n, 0.5)])
        return X, np.where(rng.random(n) < wrong, 1 - y, y)

    found = {}
    for seed in range(n_splits):
        rng = np.random.default_rng(seed)
        (Xs, ys), (Xt, yt), (Xe, ye) = (
            rings(2000, rng, 0.75, 0.25),
            rings(400, rng),
            rings(4000, rng),
        )
        known = {"radius": 1.5, "weight_radius": 30.0, "classes": [0, 1], "random_state": seed}
        net = {"loss": lo.NetworkLoss(8)}
        public, free = {"Xs": Xs, "ys": ys}, {"private": False}
        paid = {"delta": DELTA, "n_iter": 20}
        ways = {
            "source only": (net | free | {"alpha": 1.0}, public),
            "target only": (net | free, {}),
            "p0 mixture": (net | free | {"kappa_1": math.inf}, public),
            "adapted, not private": (net | free, public),
            "logistic regression": (free, public),
        }
        for epsilon in (1.0, 3.0, 10.0):
            ways[f"adapted, eps {epsilon:g}"] = (
                net | paid | {"epsilon": epsilon, "expected_gain": 0.1},
                public,
            )
            ways[f"DP-GD target, eps {epsilon:g}"] = (net | paid | {"epsilon": epsilon}, {})
        for name, (way, tables) in ways.items():
            model = NCnvxAdap(**known, **way).fit(Xt, yt, **tables)
            found.setdefault(name, []).append(model.score(Xe, ye))
    for name, scores in found.items():
        print(f"  {name:24s} {np.mean(scores):.3f} ({np.std(scores):.3f})")


def printed():
    loss, Lambda, kappa_1 = lo.LogLoss(), 8.0, 0.3
    print("n       steps     largest move   mean p v   F at start  at end")
    for n in (100, 1000, 10_000):
        rng, samples, p = np.random.default_rng(n), [], 0.5 / n
        for wrong in (0.3, 0.0):
            X = rng.normal(size=(n, 5)) / math.sqrt(8)
            y = (rng.random(n) < 1 / (1 + np.exp(-8 * X[:, 0]))).astype(int)
            y = np.where(rng.random(n) < wrong, 1 - y, y)
            samples.append(Sample(quantize(X, 1.0), y, lattice(1.0)[0], p))
        fitting = 0.1 * 0.25 / (2 * loss.constants(1.0, Lambda)[0] * p**3)
        for name, speed in (("printed", 1.0), ("fitting", fitting)):
            run = nc.algorithm_2(
                loss, samples[1], samples[0], 1.0, Lambda, kappa_1=kappa_1, n_iter=100,
                noise=Noise(1), mu=gaussian_mu(1.0, DELTA), speed=(1.0, speed),
            )  # fmt: skip
            a = p * run[2]
            print(
                f"{n:6d}  {name}  {np.abs(a - 1).max():12.1e}  {a.mean():9.2f}  "
                f"{run[3][0]:9.3f}  {run[3][-1]:8.3f}"
            )


def speed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(110_000, 50)) / math.sqrt(50)
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-8 * X[:, 0]))).astype(int)
    big = Sample(quantize(X, 2.0), y, lattice(2.0)[0], 1 / len(X))
    w = rng.normal(size=50)

    def clock(what, f, repeats=3):
        times = []
        for _ in range(repeats):
            start = time.process_time()
            f()
            times.append(time.process_time() - start)
        print(f"  {what:40s} {min(times):.3f} s of CPU")

    clock("one pass (read, multiply, add)", lambda: (big.X * 1.5).sum(axis=0))
    clock(
        "one gradient, logistic",
        lambda: ncnvx_adap.profiled_gradient(lo.LogLoss(), w, [big], 0.5),
    )
    v = rng.normal(size=lo.NetworkLoss(8).n_parameters(50))
    clock(
        "one gradient, network",
        lambda: ncnvx_adap.profiled_gradient(lo.NetworkLoss(8), v, [big], 0.5),
    )
    known = {"radius": 2.0, "weight_radius": 20.0, "classes": [0, 1], "random_state": 0}
    tables = {"Xs": X[:100_000], "ys": y[:100_000]}
    exact = NCnvxAdap(private=False, **known)
    clock("fit, not private", lambda: exact.fit(X[100_000:], y[100_000:], **tables), 1)
    paid = NCnvxAdap(epsilon=1.0, delta=1e-6, **known)
    clock("fit, epsilon = 1", lambda: paid.fit(X[100_000:], y[100_000:], **tables), 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("accuracy", "network", "printed", "speed"))
    parser.add_argument("--data", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--splits", type=int, default=10)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.what == "accuracy":
        accuracy(args.data, args.splits)
    elif args.what == "network":
        network(args.splits)
    else:
        {"printed": printed, "speed": speed}[args.what]()
