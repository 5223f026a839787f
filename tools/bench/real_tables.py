"""Tables on which nothing was tuned, as they are, with ranges written from what the columns mean: losses over k-means without privacy.

python tools/bench/real_tables.py [--epsilon E ...] [--seeds S]

Needs pandas. Adult is left out where the folder DPLIT_DATA does not hold adult.csv.gz. Set
OMP_NUM_THREADS=1; one CPU minute.
"""

import argparse
import math
import os
from pathlib import Path

import numpy as np
import pandas
from sklearn import datasets as sk_datasets
from sklearn.cluster import KMeans

from dplit import MaxCoverKMeans, NoisyLloyd, PEMeans, datasets
from dplit.accounting import Table
from dplit.inputs import BoundedScaler

DELTA = 1e-5
METHODS = {"PEMeans": PEMeans, "MaxCoverKMeans": MaxCoverKMeans, "NoisyLloyd": NoisyLloyd}

# what is drunk, in the units of a wine laboratory: per cent of volume, grams and milligrams a litre, optical densities
WINE = dict(
    alcohol=(8, 16), malic_acid=(0, 8), ash=(0, 5), alcalinity_of_ash=(0, 40), magnesium=(0, 200),
    total_phenols=(0, 5), flavanoids=(0, 6), nonflavanoid_phenols=(0, 1), proanthocyanins=(0, 5),
    color_intensity=(0, 15), hue=(0, 2), proline=(0, 2000),
) | {"od280/od315_of_diluted_wines": (0, 5)}  # fmt: skip
# living adults, in the units of their blood tests; s4 is a ratio, s5 a natural logarithm
DIABETES = dict(
    age=(18, 100), bmi=(12, 50), bp=(40, 160), s1=(50, 400), s2=(20, 300), s3=(10, 120),
    s4=(1, 10), s5=(3, 7), s6=(40, 250),
)  # fmt: skip
# a nucleus of a radius up to 40: length and area of the circle; the others are shares and curvatures
NUCLEUS = {
    "radius": 40, "texture": 60, "perimeter": 2 * math.pi * 40, "area": math.pi * 40**2,
    "smoothness": 0.3, "compactness": 1, "concavity": 1, "concave points": 0.5, "symmetry": 1,
    "fractal dimension": 0.3,
}  # fmt: skip
# the questionnaire: 16 years and older, 16 steps of schooling, hours of two digits, dollars
ADULT = dict(
    age=(16, 100), education_num=(1, 16), capital_gain=(0, 20_000), capital_loss=(0, 4_000),
    hours_per_week=(0, 99),
)  # fmt: skip
ADULT_VALUES = {
    "workclass": "Private|Self-emp-not-inc|Self-emp-inc|Federal-gov|Local-gov|State-gov|Without-pay|Never-worked",
    "marital_status": "Married-civ-spouse|Divorced|Never-married|Separated|Widowed|Married-spouse-absent|Married-AF-spouse",
    "relationship": "Wife|Own-child|Husband|Not-in-family|Other-relative|Unmarried",
    "sex": "Female|Male",
    "income": "<=50K|>50K",
}


def nuclei():
    """Ranges of means, of their standard errors (a quarter as wide), and of the worst."""
    parts = (("mean {}", 1), ("{} error", 0.25), ("worst {}", 1))
    return {
        said.format(name): (0, high * share)
        for said, share in parts
        for name, high in NUCLEUS.items()
    }


def tables():
    """(name, frame, ranges, lists of values, number of clusters) of each."""
    wine, cancer = sk_datasets.load_wine, sk_datasets.load_breast_cancer
    yield "wine", wine(as_frame=True).data, WINE, {}, 3
    yield "breast cancer", cancer(as_frame=True).data, nuclei(), {}, 2
    diabetes = sk_datasets.load_diabetes(as_frame=True, scaled=False).data
    yield "diabetes", diabetes, DIABETES, {"sex": [1, 2]}, 3
    path = Path(os.environ.get("DPLIT_DATA", ""), "adult.csv.gz")
    if path.is_file():
        values = {name: said.split("|") for name, said in ADULT_VALUES.items()}
        frame = pandas.read_csv(path, skipinitialspace=True)[[*ADULT, *values]]
        yield "adult", frame, ADULT, values, 5


def losses(X, k, radius, epsilon, n_seeds):
    """{method: losses}, by seeds."""
    cost = dict(epsilon=epsilon, delta=DELTA, radius=radius)
    return {
        name: [
            datasets.kmeans_loss(X, make(k, **cost, random_state=seed).fit(X).cluster_centers_)
            for seed in range(n_seeds)
        ]
        for name, make in METHODS.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    rows = []
    for name, frame, ranges, values, k in tables():
        low, high = ({column: ends[i] for column, ends in ranges.items()} for i in (0, 1))
        scaler = BoundedScaler(low, high, categories=values).fit(frame)
        X = scaler.transform(frame)
        open_ = KMeans(k, n_init=10, random_state=0).fit(X).cluster_centers_
        best = datasets.kmeans_loss(X, open_)
        shape = f"{len(X)} x {X.shape[1]}"
        one = datasets.kmeans_loss(X, X.mean(axis=0)[None]) / best
        rows.append((name, shape, k, "", "one cluster, no privacy", f"{one:.2f}", ""))
        for epsilon in options.epsilon:
            for method, found in losses(X, k, scaler.radius_, epsilon, options.seeds).items():
                found = np.array(found) / best
                spread = f"{found.min():.2f} to {found.max():.2f}"
                rows.append(("", "", "", f"{epsilon:g}", method, f"{np.median(found):.2f}", spread))
    head = ["table", "rows x columns", "clusters", "epsilon", "method", "loss", "spread"]
    print(Table(head, rows))
    print(
        f"\nloss: over that of k-means without privacy, in the scaled columns; median of {options.seeds} seeds"
    )


if __name__ == "__main__":
    main()
