"""Runs inside the environment that `library` makes: one JSON request a line in, one JSON answer a line out."""

import json
import sys
import warnings

import numpy as np
from diffprivlib.models import KMeans, LogisticRegression
from meter import measured

warnings.simplefilter("ignore")
loaded = {}


def centers(data, k, epsilon, seed):
    """KMeans on a file that does not change."""
    if data not in loaded:
        loaded.clear()
        loaded[data] = np.load(data)
    X = loaded[data]
    bound = [float(np.abs(X).max())] * X.shape[1]
    low = [-b for b in bound]
    model = KMeans(k, epsilon=epsilon, bounds=(low, bound), random_state=seed)
    _, *cost = measured(lambda: model.fit(X))
    return {"centers": model.cluster_centers_.tolist(), "cost": cost}


def separators(data, strengths, epsilon, seed):
    """LogisticRegression on a file whose last column is 0 or 1, with each C; rows have norm 1 at most."""
    table, found = np.load(data), []
    known = {"epsilon": epsilon, "data_norm": 1.0, "fit_intercept": False, "max_iter": 1000}
    for C in strengths:
        model = LogisticRegression(C=C, random_state=seed, **known).fit(table[:, :-1], table[:, -1])
        found.append(model.coef_[0].tolist())
    return {"w": found}


for line in sys.stdin:
    job = json.loads(line)
    answer = (centers if "k" in job else separators)(**job)
    print(json.dumps(answer), flush=True)
