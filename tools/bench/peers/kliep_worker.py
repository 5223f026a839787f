"""Runs inside the environment that `kliep` makes: one JSON request a line in, one JSON answer a line out."""

import contextlib
import json
import os
import sys
import warnings

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
from adapt.instance_based import KLIEP  # noqa: E402

for line in sys.stdin:
    job = json.loads(line)
    rows = np.load(job["data"])
    model = KLIEP(kernel="rbf", gamma=job["gamma"], random_state=job["seed"], verbose=0)
    with contextlib.redirect_stdout(sys.stderr):
        weights = model.fit_weights(rows["Xs"], rows["Xt"])
    print(json.dumps({"weights": weights.tolist()}), flush=True)
