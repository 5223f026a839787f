"""Benchmarks of the convex adaptation chapter. DPLIT_DATA is the folder of gas.npz, if there is one.

python tools/bench_adaptation.py adapt    # without privacy: mixtures, KMM, DM, reweighting; 10 splits each
python tools/bench_adaptation.py reach    # where Algorithm 1 loses: its excess and the profiled one, by n
python tools/bench_adaptation.py ladder   # from the printed noise to the default
python tools/bench_adaptation.py private  # relative error by n and epsilon, in the shape of the paper's Figure 1
python tools/bench_adaptation.py speed    # m = 1e5, n = 1e4, d = 50
"""

import argparse
import math
import time

import numpy as np

from dplit import CnvxAdap, datasets
from dplit.accounting import gaussian_mu
from dplit.adaptation import convex as co
from dplit.adaptation.discrepancy import (
    discrepancy_minimization,
    kernel_mean_matching,
    labeled_discrepancy,
    private_second_moment,
)
from dplit.adaptation.samples import Sample, squared_errors
from dplit.mechanisms import Noise

ALPHAS = (0.0, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9)
KAPPAS = (0.05, 0.1, 0.25, 0.6, 1.5, 4.0)


# ---------------------------------------------------------------- data: source, target, test


def scaled(X, y, source):
    """Columns and labels in units of the source's own spread (public), a column of ones, rows of length about 1."""
    mean, sd = X[source].mean(axis=0), X[source].std(axis=0) + 1e-12
    Z = np.c_[(X - mean) / sd, np.ones(len(X))] / (1.5 * math.sqrt(X.shape[1] + 1))
    Z /= np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1.0)
    return Z, np.clip((y - y[source].mean()) / y[source].std(), -4, 4)


def synthetic(make, m, n, **options):
    def draw(seed):
        data = make(m, n + 2000, 20, random_state=seed, **options)
        rows = np.c_[data.Xt, data.yt]
        return (data.Xs, data.ys), rows[:n], rows[n:], data.weight_radius, data.target_bound

    return draw


def real(X, y, source, n, m=None):
    Z, labels = scaled(X, y, source)
    w = np.linalg.lstsq(Z[source], labels[source], rcond=None)[0]

    def draw(seed):
        rng = np.random.default_rng(seed)
        here, there = (
            rng.permutation(np.flatnonzero(source))[:m],
            rng.permutation(np.flatnonzero(~source)),
        )
        rows = np.c_[Z[there], labels[there]]
        size = n if n < len(rows) else n * len(rows) // 442
        return (Z[here], labels[here]), rows[:size], rows[size:], 4 * np.linalg.norm(w), 4.0

    return draw


def sets(m, sizes, m_synthetic):
    found = {}
    for n in sizes[0]:
        found[f"turned by 0.4, n={n}"] = synthetic(datasets.make_shifted_regression, m_synthetic, n)
        found[f"turned by 0.7, n={n}"] = synthetic(
            datasets.make_shifted_regression, m_synthetic, n, angle=0.7
        )
        found[f"contaminated, n={n}"] = synthetic(datasets.make_contaminated_source, m_synthetic, n)
    try:
        gas = datasets.fetch_clustering("gas").data
        year = gas[:, 11]
        pool = (year <= 2013) | (year == 2015)
        for n in sizes[1]:
            found[f"gas turbines, n={n}"] = real(
                gas[pool][:, :9], gas[pool, 10], year[pool] <= 2013, n, m
            )
    except FileNotFoundError as error:
        print(error)
    diabetes = datasets.load_diabetes()
    sex = diabetes.data[:, 1] == 1
    columns = np.delete(diabetes.data, 1, axis=1)
    found["diabetes by sex"] = real(columns, diabetes.target, sex, 160)
    old = diabetes.data[:, 0] >= np.quantile(diabetes.data[:, 0], 0.6)
    found["diabetes by age"] = real(diabetes.data, diabetes.target, ~old, 120)
    return found


def ridge(X, y, q, strength):
    H = (X * q[:, None]).T @ X + strength * np.eye(X.shape[1])
    return np.linalg.solve(H, X.T @ (q * y))


def error(w, rows):
    return float(np.mean((rows[:, :-1] @ w - rows[:, -1]) ** 2))


# ---------------------------------------------------------------- without privacy


def adapt(seeds):
    """Every method picks its parameters on the same validation half of the test records, as the paper does."""
    head = ["source", "mixture", "KMM", "DM", "adapted", "adapted, d_hat"]
    print(f"{'relative to target-only ridge':30}", *(f"{name:>15}" for name in head))
    for name, draw in sets(800, ((40,), (20, 50, 200)), 600).items():
        table = []
        for seed in range(seeds):
            (Xs, ys), rows, rest, Lambda, Y = draw(seed)
            check, test = np.array_split(rest, 2)
            X, y, m, n = np.vstack([Xs, rows[:, :-1]]), np.r_[ys, rows[:, -1]], len(ys), len(rows)
            strengths = (1e-6, 1e-4, 1e-3, 1e-2)

            def best(ws, check=check, test=test):
                return error(min(ws, key=lambda w: error(w, check)), test)

            def mixtures(q, alphas=ALPHAS, X=X, y=y, n=n, strengths=strengths):
                for alpha in alphas:
                    weights = np.r_[alpha * q, np.full(n, (1 - alpha) / n)]
                    yield from (ridge(X, y, weights, s) for s in strengths)

            def adapted(d, rows=rows, Xs=Xs, ys=ys, Lambda=Lambda, Y=Y):
                for alpha in ALPHAS[1:]:
                    for kappa_1 in KAPPAS:
                        model = CnvxAdap(
                            radius=1.0, weight_radius=Lambda, target_bound=Y, alpha=alpha,
                            kappa_1=kappa_1, discrepancy=d, private=False, kappa_inf=0.0,
                        )  # fmt: skip
                        yield model.fit(rows[:, :-1], rows[:, -1], Xs=Xs, ys=ys).coef_

            equal = np.full(m, 1 / m)
            some = slice(0, 600)
            kmm, dm = np.zeros(m), np.zeros(m)
            kmm[some] = kernel_mean_matching(Xs[some], rows[:, :-1])
            dm[some] = discrepancy_minimization(Xs[some], rows[:, :-1])
            d_hat = labeled_discrepancy(rows[:, :-1], rows[:, -1], Xs, ys, Lambda)[0]
            base = best(mixtures(equal, (0.0,)))
            found = [best(mixtures(equal, (1.0,))), best(mixtures(equal))]
            found += [
                best(mixtures(kmm)),
                best(mixtures(dm)),
                best(adapted(0.0)),
                best(adapted(d_hat)),
            ]
            table.append(np.array(found) / base)
        mean, spread = np.mean(table, axis=0), np.std(table, axis=0)
        print(f"{name:30}", *(f"{a:8.3f} ({b:.3f})" for a, b in zip(mean, spread, strict=True)))


# ---------------------------------------------------------------- where Algorithm 1 loses


def reach(seeds):
    kappa_1, alpha, _Lambda, Y = 0.25, 0.5, 3.2, 4.5
    print("n, excess of (6): Algorithm 1; its predictor with the best weights; the default")
    for n in (100, 1000, 3000, 10_000):
        gaps = []
        for seed in range(seeds):
            data = datasets.make_shifted_regression(n, n, 10, angle=0.4, random_state=seed)
            bounds = {"radius": 1.0, "weight_radius": 2 * math.sqrt(10), "target_bound": Y}
            settings = bounds | {"alpha": alpha, "kappa_1": kappa_1, "random_state": seed}
            tables = {"Xs": data.Xs, "ys": data.ys}

            def fit(d=data, s=settings, t=tables, **o):
                return CnvxAdap(**s | o).fit(d.Xt, d.yt, **t)

            X, y = np.vstack([data.Xs, data.Xt]), np.r_[data.ys, data.yt]
            p = np.r_[np.full(n, alpha / n), np.full(n, (1 - alpha) / n)]

            def phi(w, X=X, y=y, p=p):
                return float(p @ co.profiled_loss((X @ w - y) ** 2, kappa_1))

            best = phi(fit(private=False).coef_)
            price = {"epsilon": 1.0, "delta": 1e-5}
            printed = fit(variant="paper", discrepancy=0.0, n_iter=200, **price)
            u = 1 / np.r_[printed.source_weights_, printed.target_weights_]
            joint = co.joint_objective(u, printed.coef_, X, y, p, offset=0.0, kappa_1=kappa_1)
            gaps.append([joint - best, phi(printed.coef_) - best, phi(fit(**price).coef_) - best])
        print(n, *(f"{v:.4f}" for v in np.mean(gaps, axis=0)))


# ---------------------------------------------------------------- the ladder


def ladder(seeds):
    """Noisy gradient descent with the noise of each rung; rounds and step are the best for the TEST set, in favour of each."""
    n, alpha, epsilon, delta, kappa_1, r = 1000, 0.3, 1.0, 1e-5, 0.25, 1.0
    draws = [datasets.make_shifted_regression(4000, n, 20, random_state=s) for s in range(seeds)]
    Lambda, Y = draws[0].weight_radius, draws[0].target_bound
    mu, half, kept = gaussian_mu(epsilon, delta), math.sqrt(0.5), math.sqrt(0.9)
    G2, tight = 2 * co.gradient_bound(r, Lambda, Y), co.gradient_diameter(r, Lambda, Y)
    huber = co.profiled_sensitivity(r, Lambda, Y, kappa_1)
    rungs = {
        "as printed": (G2 * math.sqrt(8 * math.log(1 / delta)) / (epsilon / 2), math.inf),
        "exact joint price": (G2 / (mu * kept * half), math.inf),
        "exact sensitivity": (tight / (mu * kept * half), math.inf),
        "weights inside": (tight / (mu * kept), math.inf),
        "profiled gradient": (huber / (mu * kept), kappa_1),
        "d is public": (huber / mu, kappa_1),
    }

    def descend(data, sd, kappa, T, step, seed):
        rng, w, total = np.random.default_rng(seed), np.zeros(20), np.zeros(20)
        parts = [
            Sample(data.Xs, data.ys, 1.0, alpha / 4000),
            Sample(data.Xt, data.yt, 1.0, (1 - alpha) / n),
        ]
        for t in range(T):
            g = sd * math.sqrt(T) * rng.normal(size=20)
            for part in parts:
                residual, loss = squared_errors(part, w)
                g += part.p * part.combine(2 * residual * co.profile_weights(loss, kappa))
            w = w - step * g
            w *= min(1.0, Lambda / np.linalg.norm(w))
            total += w * (t >= T // 2) / (T - T // 2)
        return datasets.sphere_risk(total, data.coef_target, data.noise) / data.noise**2

    print(f"{'rung':20} noise x 1000, relative error")
    for name, (diameter, kappa) in rungs.items():
        sd = (1 - alpha) / n * diameter
        grid = [
            [descend(d, sd, kappa, T, step, s) for s, d in enumerate(draws)]
            for T in (10, 40, 160)
            for step in (0.1, 0.3, 1.0, 3.0, 8.0)
        ]
        best = min(grid, key=np.mean)
        print(f"{name:20} {1000 * sd:8.2f} {np.mean(best):8.2f} ({np.std(best):.2f})")
    methods = {
        "the default": {"kappa_1": kappa_1},
        "default, own kappa_1": {},
        "Algorithm 1, exact": {"variant": "paper"},
        "mixture p": {"kappa_1": math.inf},
        "target alone": {"alpha": 0.0},
        "not private": {"private": False, "epsilon": None, "kappa_1": kappa_1},
        "source alone": {"alpha": 1.0},
    }
    for name, options in methods.items():
        risks = []
        for seed, data in enumerate(draws):
            settings = {"epsilon": epsilon, "delta": delta, "alpha": alpha, "random_state": seed}
            bounds = {"radius": r, "weight_radius": Lambda, "target_bound": Y}
            model = CnvxAdap(**bounds, **settings | options)
            w = model.fit(data.Xt, data.yt, Xs=data.Xs, ys=data.ys).coef_
            risks.append(datasets.sphere_risk(w, data.coef_target, data.noise) / data.noise**2)
        print(f"{name:20} {'':8} {np.mean(risks):8.2f} ({np.std(risks):.2f})")


# ---------------------------------------------------------------- with privacy


def private(seeds):
    """Nothing is tuned: alpha = 0.1, everything else by default. Relative to least squares on all target records. A list of rows."""
    found = []
    methods = {
        "source": {"alpha": 1.0},
        "np": {"private": False, "epsilon": None},
        "Alg. 1": {"variant": "paper"},
        "mixture p": {"kappa_1": math.inf},
        "target": {"alpha": 0.0},
        "adapted": {},
    }
    head = [*methods, "private DM"]
    print(f"{'set, epsilon':36}", *(f"{name:>14}" for name in head))
    for name, draw in sets(4000, ((300, 1000, 3000, 10_000), (300, 1000, 3000)), 4000).items():
        for epsilon in (0.5, 1.0, 5.0, 10.0):
            table = []
            for seed in range(seeds):
                (Xs, ys), rows, test, Lambda, Y = draw(seed)
                base = error(
                    ridge(test[:, :-1], test[:, -1], np.full(len(test), 1 / len(test)), 1e-9), test
                )
                bounds = {"radius": 1.0, "weight_radius": Lambda, "target_bound": Y}
                line = []
                for options in methods.values():
                    settings = {
                        "epsilon": epsilon,
                        "delta": 1e-5,
                        "alpha": 0.1,
                        "random_state": seed,
                    }
                    model = CnvxAdap(**bounds, **settings | options)
                    w = model.fit(rows[:, :-1], rows[:, -1], Xs=Xs, ys=ys).coef_
                    line.append(error(w, test) / base)
                moment = private_second_moment(
                    rows[:, :-1], radius=1.0, mu=gaussian_mu(epsilon, 1e-5),
                    noise=Noise(seed, neighboring="replace"),
                )  # fmt: skip
                q = discrepancy_minimization(Xs, moment=moment)
                line.append(error(ridge(Xs, ys, q, 1e-6), test) / base)
                table.append(line)
            mean, spread = np.mean(table, axis=0), np.std(table, axis=0)
            print(
                f"{name + f', {epsilon:g}':36}",
                *(f"{a:7.2f} ({b:.2f})" for a, b in zip(mean, spread, strict=True)),
                flush=True,
            )
            for method, a, b in zip(head, mean, spread, strict=True):
                row = {"set": name, "epsilon": epsilon, "method": method, "runs": seeds}
                found.append(row | {"error": f"{a:.4g}", "sd": f"{b:.2g}"})
    return found


# ---------------------------------------------------------------- speed


def speed(seeds):
    data = datasets.make_shifted_regression(100_000, 10_000, 50, random_state=0)
    bounds = {"radius": 1.0, "weight_radius": data.weight_radius, "target_bound": data.target_bound}
    tables = {"Xs": data.Xs, "ys": data.ys}

    def clock(name, call):
        times = []
        for _ in range(seeds):
            start = time.process_time()
            call()
            times.append(time.process_time() - start)
        print(f"{name:40} {min(times):.3f} s of CPU")
        return min(times)

    def fit(**o):
        return CnvxAdap(**bounds, **o).fit(data.Xt, data.yt, **tables)

    price = {"epsilon": 1.0, "delta": 1e-5, "random_state": 0}
    one_pass = clock("one pass over both tables (a sum)", lambda: (data.Xs.sum(), data.Xt.sum()))
    few, many = (clock(f"default, {T} rounds", lambda T=T: fit(n_iter=T, **price)) for T in (2, 22))
    print(f"{'a round':40} {(many - few) / 20:.4f} s, {(many - few) / 20 / one_pass:.1f} sums")
    clock("default", lambda: fit(**price))
    clock("not private", lambda: fit(private=False))
    clock("Algorithm 1, 100 rounds", lambda: fit(variant="paper", **price))
    clock("discrepancy", lambda: labeled_discrepancy(data.Xt, data.yt, data.Xs, data.ys, 14.0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=["adapt", "reach", "ladder", "private", "speed"])
    parser.add_argument("--seeds", type=int, default=None, help="draws or splits")
    asked = parser.parse_args()
    default = {"adapt": 10, "reach": 3, "ladder": 5, "private": 3, "speed": 3}[asked.what]
    globals()[asked.what](asked.seeds or default)
