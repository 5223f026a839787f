"""Convex adaptation compared with other methods, and what each part of it is worth (nbs/adaptation/convex.ipynb)."""

import math
import time

import numpy as np

from bench.regression import error, ridge, sets
from dplit import CnvxAdap, adaptation, datasets
from dplit.accounting import gaussian_mu
from dplit.adaptation import (
    Sample,
    discrepancy_minimization,
    kernel_mean_matching,
    labeled_discrepancy,
    squared_errors,
)

ALPHAS = (0.0, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9)
KAPPAS = (0.05, 0.1, 0.25, 0.6, 1.5, 4.0)


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
            dm[some] = discrepancy_minimization(Xs[some], rows[:, :-1]).weights
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
                return float(p @ adaptation.profiled_loss((X @ w - y) ** 2, kappa_1))

            best = phi(fit(private=False).coef_)
            cost = {"epsilon": 1.0, "delta": 1e-5}
            printed = fit(variant="paper", discrepancy=0.0, n_iter=200, **cost)
            u = 1 / np.r_[printed.source_weights_, printed.target_weights_]
            joint = adaptation.joint_objective(
                u, printed.coef_, X, y, p, offset=0.0, kappa_1=kappa_1
            )
            gaps.append([joint - best, phi(printed.coef_) - best, phi(fit(**cost).coef_) - best])
        print(n, *(f"{v:.4f}" for v in np.mean(gaps, axis=0)))


def ladder(seeds):
    """Noisy gradient descent with the noise of each rung; rounds and step are the best for the TEST set, in favor of each."""
    n, alpha, epsilon, delta, kappa_1, r = 1000, 0.3, 1.0, 1e-5, 0.25, 1.0
    draws = [datasets.make_shifted_regression(4000, n, 20, random_state=s) for s in range(seeds)]
    Lambda, Y = draws[0].weight_radius, draws[0].target_bound
    mu, half, kept = gaussian_mu(epsilon, delta), math.sqrt(0.5), math.sqrt(0.9)
    G2, tight = (
        2 * adaptation.gradient_bound(r, Lambda, Y),
        adaptation.gradient_diameter(r, Lambda, Y),
    )
    huber = adaptation.profiled_sensitivity(r, Lambda, Y, kappa_1)
    rungs = {
        "as published": (G2 * math.sqrt(8 * math.log(1 / delta)) / (epsilon / 2), math.inf),
        "exact joint privacy cost": (G2 / (mu * kept * half), math.inf),
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
                g += part.p * part.combine(2 * residual * adaptation.profile_weights(loss, kappa))
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

    def fit(**o):  # with the source, which the default would leave out here
        return CnvxAdap(**bounds, alpha=0.1, **o).fit(data.Xt, data.yt, **tables)

    cost = {"epsilon": 1.0, "delta": 1e-5, "random_state": 0}
    one_pass = clock("one pass over both tables (a sum)", lambda: (data.Xs.sum(), data.Xt.sum()))
    few, many = (clock(f"default, {T} rounds", lambda T=T: fit(n_iter=T, **cost)) for T in (2, 22))
    print(f"{'a round':40} {(many - few) / 20:.4f} s, {(many - few) / 20 / one_pass:.1f} sums")
    clock("default", lambda: fit(**cost))
    clock("not private", lambda: fit(private=False))
    clock("Algorithm 1, 100 rounds", lambda: fit(variant="paper", **cost))
    clock("discrepancy", lambda: labeled_discrepancy(data.Xt, data.yt, data.Xs, data.ys, 14.0))


PARTS = {  # name -> (function, draws or splits, what it prints)
    "adapt": (adapt, 10, "without privacy: mixtures, KMM, DM, reweighting"),
    "reach": (reach, 3, "where Algorithm 1 loses: its excess and the profiled one, by n"),
    "ladder": (ladder, 5, "from the published noise to the default"),
    "speed": (speed, 3, "m = 1e5, n = 1e4, d = 50"),
}


def options(parser):
    """Sub-commands of the chapter."""
    parts = parser.add_subparsers(dest="part", required=True)
    for name, (function, seeds, text) in PARTS.items():
        part = parts.add_parser(name, help=text)
        part.add_argument("--seeds", type=int, default=seeds, help="draws or splits")
        part.set_defaults(run=lambda asked, function=function: function(asked.seeds))
