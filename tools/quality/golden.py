"""Do seeded fits give the same bits as before? Hashes of what every estimator releases: python tools/quality/golden.py [--against REF]

Without options it prints one JSON object, from the name of a case to the hash of its bytes. With `--against REF` it also computes the
hashes for the package as of a git revision, in a temporary work tree and by this very file, and prints each case that differs;
the exit status is 1 if there is one. Hashes depend on the machine and the versions of numpy, scipy and scikit-learn, so
compare them on one machine only; `tests/book/test_golden.py` has rounded numbers that hold on every machine.

A fit has three cases: what it released ("PEMeans"), the numbers of its receipt ("PEMeans, costs") and the receipt as it is
printed ("PEMeans, receipt"), so that a change of words changes the last one only.
"""

import argparse
import hashlib
import importlib
import json
import math
import os
import pkgutil
import subprocess
import sys
import tempfile
import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.naive_bayes import GaussianNB

import dplit

ROOT = Path(__file__).resolve().parents[2]
TIMES = {"opened", "when", "who", "ledger", "seal"}  # of a ledger: differ from run to run


@cache
def modules():
    """Every module of dplit, at any depth, the outermost first; `__main__` is a program."""
    walked = pkgutil.walk_packages(dplit.__path__, "dplit.")
    names = [m.name for m in walked if not m.name.endswith(("__main__", "_modidx"))]
    return [dplit, *map(importlib.import_module, sorted(names, key=lambda n: (n.count("."), n)))]


@cache
def found(*names):
    """The object of the first of these names that any module of dplit has defined."""
    for name in names:
        for module in modules():
            thing = vars(module).get(name)
            if getattr(thing, "__module__", "").partition(".")[0] == "dplit":
                return thing
    raise LookupError(f"dplit has no {' or '.join(names)}")


# ---------------------------------------------------------------- bytes of a result


def written(value, put):
    """Write a value down exactly: arrays by their bytes, floats by their bits, the rest by its parts."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        put(f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif isinstance(value, np.generic):
        written(value.item(), put)
    elif isinstance(value, float):
        put(value.hex().encode())
    elif isinstance(value, dict):
        for key in value:
            put(repr(key).encode())
            written(value[key], put)
    elif isinstance(value, list | tuple | np.ndarray):
        put(f"{len(value)}[".encode())
        for part in value:
            written(part, put)
    elif value is None or isinstance(value, str | int):
        put(repr(value).encode())
    elif hasattr(value, "get_params"):
        written({"parameters": value.get_params(), "found": released(value)}, put)
    else:
        raise TypeError(f"no bytes of a {type(value).__name__}")


def hashed(value):
    digest = hashlib.sha256()
    written(value, lambda part: digest.update(part + b"\n"))
    return digest.hexdigest()[:16]


def released(model):
    """Fitted attributes except the receipt, by their names."""
    names = [n for n in sorted(vars(model)) if n.endswith("_") and not n.startswith("_")]
    return {name: getattr(model, name) for name in names if name != "spent_"}


def costs(receipt):
    """The numbers of a receipt; of its words only the names of the mechanisms."""
    fields = "mechanism sensitivity scale times mu epsilon delta exponent failure private".split()
    lines = [[getattr(line, field) for field in fields] for line in receipt.releases]
    total = receipt.epsilon, receipt.delta, receipt.mu, receipt.rho, receipt.private
    return lines, total, receipt.neighboring


def without_times(ledger):
    """What `to_dict` says of a ledger, except clocks, names of accounts, and what is derived from these."""
    if isinstance(ledger, list):
        return [*map(without_times, ledger)]
    if not isinstance(ledger, dict):
        return ledger
    return {key: without_times(value) for key, value in ledger.items() if key not in TIMES}


# ---------------------------------------------------------------- tables


def rng_of(seed):
    return np.random.default_rng(seed)


FAR = np.array([[-8.0, 0.0, 1.0], [8.0, 0.0, -1.0], [1.0, 9.0, 0.0]])
GROUPS = FAR[np.arange(600) % 3] + 0.2 * rng_of(0).normal(size=(600, 3))
CLOUD = rng_of(8).normal(scale=3.0, size=(250, 3))  # no clusters; some rows outside of the ball
PUBLIC = rng_of(5).normal(size=(40, 3))
LABELS = np.repeat([0, 1, 2], 50)
LABELED = rng_of(1).normal(size=(150, 2)) + np.array([[-2.0, 0.0], [2.0, 0.0], [0.0, 3.0]])[LABELS]
RECORDS = rng_of(2).normal(size=(60, 2))
ANSWERS = RECORDS @ [0.5, -0.25] + 0.1 * rng_of(3).normal(size=60)
COST = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}


def tuples(n, d=2, spread=5e-4):
    """Noisy copies of two far points, each tuple in an order of its own."""
    rng = rng_of(4)
    points = 20 * np.eye(2)[:, :d] + 3 * np.arange(2)[:, None]
    T = points + spread * rng.normal(size=(n, 2, d))
    return np.array([t[rng.permutation(2)] for t in T])


def scattered(n):
    return rng_of(6).normal(size=(n, 2, 2))


# ---------------------------------------------------------------- cases


def kmeans():
    """Estimators of clusters: (name, thunk that fits it)."""
    ball = {"n_clusters": 3, "radius": 10.0} | COST
    cube = {"n_clusters": 3, "bounds": ([-10, -10, -5], [10, 10, 5])} | COST
    public, start = {"variant": "paper", "n_public": 600}, {"init": FAR / 2}
    ways = {
        "NoisyLloyd": [
            {},
            {"init": "mean"},
            {"init": FAR / 2},
            {"n_iter": 2},
            {"delta": 0.0},
            {"init": "cells"},
        ],
        "GridKMeans": [{"delta": 0.0}, {"n_bins": 6}, {"n_public": 600}],
        "MaxCoverKMeans": [
            {},
            {"zoom": False, "n_lloyd": 1},
            start,
            public,
            public | {"n_lloyd": 1},
            public | {"n_clusters": 10, "ratio": 0.3, "n_public": 60},
        ],
        "PEMeans": [{}, {"zoom": False}, {"n_votes": 2}, {"n_refine": 1}, start, public],
        "HDPEMeans": [
            {"n_components": 2},
            {"n_components": 2} | start,
            public | {"n_components": 2},
        ],
        "KTupleKMeans": [{}, {"epsilon": 8.0}, {"n_tuples": 40, "epsilon": 8.0}],
        "KTupleGaussianMixture": [{}, {"epsilon": 8.0}],
    }
    for name, settings in ways.items():
        kind, at = getattr(dplit, name), dict(ball)
        at |= {"delta": 1e-4} if name.startswith("KTuple") else {}
        known = {*kind().get_params()}  # what an earlier version cannot do is left out there
        settings = [way for way in settings if known >= {*way}]
        forms = [at | way for way in settings]
        forms += [at | way | {"neighboring": "replace"} for way in settings]
        forms += [at | {"center": [1.0, -0.5, 0.25], "epsilon": 8.0}, cube | {"epsilon": 8.0}]
        for form in forms:
            yield said(name, form, ball), partial(fit, kind(**form), GROUPS)
        few = {"n_public": 250} if "n_public" in form else {}
        yield f"{name}, cloud", partial(fit, kind(**at | few), CLOUD)
        wide = {"bounds": (-10.0, 10.0), "radius": None} | few
        yield f"{name}, one range", partial(fit, kind(**at | wide), CLOUD)
    for relation in ("add_remove", "replace"):
        table = pd.DataFrame(GROUPS, columns=["a", "b", "c"])
        ranges = {"a": -10, "b": -10, "c": -5}, {"a": 10, "b": 10, "c": 5}
        made = {"bounds": ranges, "radius": None, "neighboring": relation}
        named = f"PEMeans, ranges by name, {relation}"
        yield named, partial(fit, dplit.PEMeans(**ball | made), table)
    for epsilon in (0.3, 1.0):  # cells of a quadtree, in two and in three histograms
        few = dplit.PEMeans(**ball | {"epsilon": epsilon})
        yield f"PEMeans, two columns, epsilon={epsilon}", partial(fit, few, GROUPS[:, :2])
    yield "PEMeans, float32", partial(fit, dplit.PEMeans(**ball), np.asfortranarray(CLOUD, "f4"))
    yield (
        "PEMeans, generator",
        partial(fit, dplit.PEMeans(**ball | {"random_state": rng_of(7)}), CLOUD),
    )


def tuple_clusterers():
    box = {"radius": 64.0, "min_radius": 0.5, "too_few": True}
    for name, form, least in [
        ("StableTupleMean", {}, 300),
        ("StableTupleMean", {"center": [1.0, 2.0], "outliers": 0.0}, 300),
        ("KNoisyCenters", {}, 300),
        ("KNoisyCenters", {"separation": 500.0, "center": [1.0, 2.0]}, 300),
        ("KNoisyCenters", {"variant": "sampled"}, 1200),
        ("KNoisyCenters", {"variant": "paper"}, 1800),
        ("KAverages", box, 1200),
        ("KAverages", box | {"center": [1.0, 2.0]}, 1200),
        ("KAverages", box | {"variant": "paper"}, 1800),
    ]:
        kind, named = getattr(dplit, name), said(name, form, box)
        for answer, T in (("answers", tuples(least)), ("abstains", scattered(least))):
            yield f"{named}, {answer}", partial(fit, kind(**COST | form), T)
    yield (
        "StableTupleMean, one column",
        partial(fit, dplit.StableTupleMean(**COST), tuples(300, 1)),
    )


def source_target():
    both = {"Xs": CLOUD, "Xt": PUBLIC}
    at = {"radius": 6.0, "random_state": 0}
    costs = {"epsilon": 2.0}, {"epsilon": 2.0, "delta": 1e-5}, {"rho": 0.5}
    for cost in costs:
        for variant in ("tight", "paper"):
            forms = [{}, {"neighboring": "replace"}]
            forms += [{"spread": True}, {"center": [0.5, 0.0, -0.5]}] if variant == "tight" else []
            for form in forms:
                form = cost | {"variant": variant} | form
                model = dplit.NoisyAverageSet(**at, t=30, n_cells=5, **form)
                yield said("NoisyAverageSet", form), partial(fit, model, **both)
            if variant == "paper" and "delta" in cost:
                continue  # the paper has no such algorithm
            outputs = ("cloud",) if variant == "paper" else ("cloud", "mean", "count", None)
            forms = [{"output": output} for output in outputs]
            forms += [{"neighboring": "replace"}] if variant == "paper" else []
            forms += [{"output": "mean", "neighboring": "replace"}] * (variant == "tight")
            for form in forms:
                form = cost | {"variant": variant} | form
                cells = {} if variant == "paper" else {"cell_radius": 6.0}
                made = at | cells | {"n_cells": 2, "gamma": 0.4} | form
                yield said("NeighborNoisyAverages", form), partial(fit, nna(made), **both)
    yield "NeighborNoisyAverages, all by default", partial(fit, nna({"epsilon": 2.0} | at), **both)
    far = at | {"center": [0.5, 0.0, -0.5], "epsilon": 2.0, "n_cells": 4}
    yield "NeighborNoisyAverages, center", partial(fit, nna(far), **both)
    for form in ({}, {"n_passes": 1, "n_starts": 2}, {"n_candidates": 7}):
        model = dplit.SourceTargetKMedoids(5, **form)
        yield said("SourceTargetKMedoids", form), partial(fit, model, Xt=PUBLIC, sources=CLOUD)
    yield "SourceTargetKMedoids, target", partial(fit, dplit.SourceTargetKMedoids(4), PUBLIC)


def nna(made):
    made = {key: value for key, value in made.items() if not (key == "output" and value is None)}
    return dplit.NeighborNoisyAverages(**made)


def adaptation():
    data = {"Xs": LABELED, "ys": LABELED @ [0.4, -0.3]}
    own = COST | {"delta": 1e-4, "radius": 2.0, "weight_radius": 3.0, "n_iter": 4}
    for form in (
        {},
        {"discrepancy": "release", "kappa_2": 0.1, "kappa_inf": 0.1},
        {"n_iter": None, "discrepancy": "release", "discrepancy_share": 0.3},
        {"kappa_1": math.inf},
        {"alpha": 0.0},
        {"alpha": 0.0, "epsilon": 30.0},
        {"epsilon": 1000.0},
        {"private": False, "epsilon": None, "delta": None, "random_state": None},
        {"variant": "paper", "kappa_2": 0.1, "kappa_inf": 0.1},
        {"variant": "paper", "discrepancy": 0.5},
    ):
        for protect in ("target", "source"):
            if protect == "source" and form.get("alpha") == 0:
                continue
            model = dplit.CnvxAdap(**own | {"target_bound": 2.0, "protect": protect} | form)
            yield said(f"CnvxAdap {protect}", form), partial(fit, model, RECORDS, ANSWERS, **data)
    network = found("NetworkLoss")
    classes = (ANSWERS > 0).astype(int)
    for form in (
        {},
        {"expected_gain": 0.02, "n_iter": None},
        {"kappa_1": math.inf},
        {"kappa_inf": 0.5, "discrepancy": 0.2},
        {"alpha": 0.0},
        {"classes": [0, 1, 2]},
        {"loss": network(2, clip=0.5)},
        {"loss": network(2, 3), "classes": [0, 1, 2]},
        {"private": False, "epsilon": None, "delta": None, "random_state": None},
        {"variant": "paper", "kappa_2": 0.1, "kappa_inf": 0.2},
    ):
        for protect in ("target", "source"):
            if protect == "source" and form.get("alpha") == 0:
                continue
            known = {"classes": [0, 1], "protect": protect}
            if protect == "source" and "alpha" not in form:
                known["alpha"] = 0.7
            model = dplit.NCnvxAdap(**own | known | form)
            named = said(f"NCnvxAdap {protect}", form)
            labels = {"Xs": LABELED, "ys": LABELS % len(model.classes)}
            yield named, partial(fit, model, RECORDS, classes, **labels)
    for y in (classes, None):
        for made in (None, GaussianNB()):
            for relation in ("add_remove", "replace"):
                model = dplit.LabelShiftClassifier(
                    made, epsilon=1.0, neighboring=relation, random_state=0
                )
                named = (
                    f"LabelShiftClassifier, {type(made).__name__}, {relation}, y={y is not None}"
                )
                rows = {"Xs": LABELED, "ys": LABELS}
                yield named, partial(fit, model, RECORDS, *([] if y is None else [y]), **rows)
    for kind in ("CovariateShiftRegressor", "CovariateShiftClassifier"):
        for known in ({}, {"neighboring": "replace"}, {"order": 1, "caution": 0.0}):
            model = getattr(dplit, kind)(epsilon=1.0, delta=1e-6, random_state=0, **known)
            yield said(kind, known), partial(fit, model, RECORDS, Xs=LABELED, ys=LABELS)


def queries():
    """Functions that release something by themselves: (name, thunk)."""
    ages = rng_of(9).normal(45, 15, size=700)
    for relation in ("add_remove", "replace"):
        one = {"epsilon": 0.5, "neighboring": relation, "random_state": 0}
        for q in (0.1, 0.9):
            quantile = partial(found("private_quantile"), ages, q, low=0, high=120, **one)
            yield f"private_quantile {q}, {relation}", quantile
        for form in ({}, {"q": 0.5, "center": [1.0, 0.0, 0.0], "ratio": 1.2, "smallest": 0.5}):
            radius = partial(found("private_radius"), CLOUD, radius=100.0, **form, **one)
            yield said(f"private_radius {relation}", form), radius
        for form in ({"radius": 10.0}, {"bound": 9.0, "delta": 1e-6}):
            loss = partial(found("private_loss"), FAR, GROUPS, **form, **one)
            yield said(f"private_loss {relation}", form), loss
        model = dplit.NoisyLloyd(radius=10.0, neighboring=relation, random_state=0)
        much = {"epsilon": 8.0, "delta": 1e-6}
        yield (
            f"choose_n_clusters {relation}",
            partial(found("choose_n_clusters"), model, [2, 3, 4], GROUPS, **much),
        )
    cube = {"bounds": ([-10] * 3, [10] * 3)}

    def loss_of_a_fit():
        made = dplit.PEMeans(3, **COST | {"epsilon": 8.0}, **cube).fit(GROUPS)
        return found("private_loss")(made, GROUPS, epsilon=0.5, random_state=1)

    yield "private_loss after a fit with bounds", loss_of_a_fit
    scaler = found("BoundedScaler")([0, 0, 0], [8, 8, 8])
    yield "BoundedScaler", lambda: (scaler.fit(GROUPS).transform(GROUPS), scaler.radius_)


def draws():
    """Samplers, which are exact integers, and every mechanism of `Noise`."""

    def drawn(name, *given):
        return [found(name)(found("Bits")(rng_of(seed)), *given) for seed in range(3)]

    for scale in (0.3, 7.0, 2.0**40):
        for name in ("geometric_int", "laplace_int", "gaussian_int"):
            yield f"{name} {scale:g}", partial(drawn, name, scale, 200)
    yield "distinct_int", partial(drawn, "distinct_int", 1000, 30)

    def mechanisms(relation):
        noise = found("Noise")(0, neighboring=relation)
        value = noise.gaussian(np.arange(4.0), sensitivity=2.0, mu=0.5, label="a")
        other = noise.laplace(3.0, sensitivity=1.0, epsilon=0.5, label="b")
        chosen = noise.exponential([1.0, 2.0, 3.0], sensitivity=1.0, epsilon=1.0, label="c")
        sums, counts = noise.sums(CLOUD, radius=6.0, mu=0.5, label="d")
        secret = noise.sample(50, 9, label="e")
        public = noise.public_rng.normal(size=5) if hasattr(noise, "public_rng") else None
        return value, other, chosen, sums, counts, secret, public, noise.receipt(1e-6)

    for relation in ("add_remove", "replace"):
        yield f"Noise, {relation}", partial(mechanisms, relation)


def ledgers():
    """Ledgers of fits, searches and charges by hand, without what differs from run to run."""

    def kept(budget):
        return without_times(budget.to_dict()), budget.spent, budget.remaining, budget.fits(0.1)

    def filled(composition=None, relation="add_remove"):
        budget = dplit.PrivacyBudget(30.0, 1e-4, composition=composition)
        ball = {"n_clusters": 3, "radius": 10.0, "neighboring": relation} | COST
        budget.fit(dplit.NoisyLloyd(**ball), GROUPS, label="first")
        budget.fit(dplit.PEMeans(**ball), GROUPS)
        budget.charge(0.5, 1e-7, name="a query", label="by hand")
        entry = budget.reserve(0.25, name="another")
        budget.settle(entry)
        budget.reserve(0.25, name="never settled", fixed=True)
        made = {"epsilon": 1.0, "radius": 6.0, "n_cells": 2, "random_state": 0}
        budget.fit(nna(made | {"neighboring": relation}), Xs=CLOUD, Xt=PUBLIC)
        loss = {"epsilon": 0.5, "radius": 10.0, "neighboring": relation, "random_state": 0}
        budget.charge(receipt=found("private_loss")(FAR, GROUPS, **loss).spent_)
        try:
            budget.charge(100.0)
        except dplit.BudgetExceeded:
            return kept(budget)
        raise AssertionError("a charge above the limit was admitted")

    def searched():
        budget = dplit.PrivacyBudget(30.0, 1e-4)
        ball = {"radius": 10.0} | COST
        made = budget.search(dplit.NoisyLloyd(**ball), {"n_clusters": [2, 3]}, GROUPS, epsilon=1.0)
        return kept(budget), made.best_params_, released(made.best_estimator_)

    for composition in ("composed", "added"):
        for relation in ("add_remove", "replace"):
            yield f"PrivacyBudget {composition}, {relation}", partial(filled, composition, relation)
    yield "PrivacyBudget.search", searched

    def in_a_file():
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):
                with dplit.PrivacyBudget.open(Path(folder) / "l", 3.0, 1e-5) as budget:
                    budget.fit(dplit.PEMeans(3, radius=10.0, **COST), GROUPS)
            with dplit.PrivacyBudget.open(Path(folder) / "l") as budget:
                return kept(budget)

    yield "PrivacyBudget.open", in_a_file


def said(name, form, usual=()):
    """The name of a case: what differs from usual."""
    usual = dict(usual)
    odd = {k: v for k, v in form.items() if k not in usual or not np.array_equal(usual[k], v)}
    shown = {
        k: type(v).__name__ if hasattr(v, "n_classes") else np.array(v, object).tolist()
        for k, v in odd.items()
    }
    return ", ".join([name, *(f"{key}={value}" for key, value in shown.items())])


def fit(model, *tables, **more):
    return model.fit(*tables, **more)


def cases():
    """Every case by its name: a function that makes a fitted estimator or a released value."""
    groups = kmeans, tuple_clusterers, source_target, adaptation, queries, draws, ledgers
    made = [case for group in groups for case in group()]
    twice = sorted({name for name, _ in made if [n for n, _ in made].count(name) > 1})
    if twice:
        raise AssertionError(f"several cases have one name: {twice}")
    return dict(made)


def outcome(make):
    """What a case returned, its warnings ignored: (value, receipt or None)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = make()
        receipt = getattr(result, "spent_", None)
        value = released(result) if hasattr(result, "get_params") else result
        if hasattr(result, "predict"):
            value["predict"] = result.predict(CLOUD[:, : result.n_features_in_])
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = {k: v for k, v in value._asdict().items() if k != "spent_"}
    if isinstance(value, tuple) and hasattr(value[-1], "releases"):
        *value, receipt = value
    return value, receipt


def hashes():
    """{name: hash} of all cases, of what they released, cost and wrote."""
    result = {}
    for name, make in cases().items():
        try:
            value, receipt = outcome(make)
        except Exception as error:  # is shown, and differs from a hash
            result[name] = f"{type(error).__name__}: {str(error)[:90]}"
            continue
        result[name] = hashed(value)
        if receipt is not None:
            result |= {
                f"{name}, costs": hashed(costs(receipt)),
                f"{name}, receipt": hashed(str(receipt)),
            }
    return result


# ---------------------------------------------------------------- against another revision


def of_tree(folder):
    """Hashes of the package in a folder, by a process of its own on one thread."""
    one = {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--here", str(folder)]
    done = subprocess.run(
        command, env=os.environ | one, cwd=folder, stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout)


def work_tree(ref, folder):
    """The files of a git revision, in a folder that is no part of the checkout."""
    archive = subprocess.run(
        ["git", "archive", ref, "dplit"], cwd=ROOT, capture_output=True, check=True
    )
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", metavar="REF", help="a git revision to compare with")
    parser.add_argument("--here", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        if not Path(dplit.__file__).is_relative_to(options.here):
            raise RuntimeError(f"{dplit.__file__} is not in {options.here}")
        print(json.dumps(hashes(), indent=1))
        return 0
    now = of_tree(ROOT)
    if not options.against:
        print(json.dumps(now, indent=1))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        before = of_tree(work_tree(options.against, folder))
    differ = [name for name in before | now if before.get(name) != now.get(name)]
    for name in differ:
        print(f"{name}: {before.get(name, 'absent')} -> {now.get(name, 'absent')}")
    print(f"{len(differ)} of {len(before | now)} differ from {options.against}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
