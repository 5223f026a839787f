"""Runs inside the environment that `library` makes: one JSON request a line in, one JSON answer a line out."""

import json
import sys
import warnings

import numpy as np
from diffprivlib.models import KMeans
from meter import measured

warnings.simplefilter("ignore")
loaded = {}
for line in sys.stdin:
    job = json.loads(line)
    if job["data"] not in loaded:
        loaded.clear()
        loaded[job["data"]] = np.load(job["data"])
    X = loaded[job["data"]]
    bound = [float(np.abs(X).max())] * X.shape[1]
    low = [-b for b in bound]
    model = KMeans(job["k"], epsilon=job["epsilon"], bounds=(low, bound), random_state=job["seed"])
    _, *cost = measured(lambda model=model, X=X: model.fit(X))
    print(json.dumps({"centers": model.cluster_centers_.tolist(), "cost": cost}), flush=True)
