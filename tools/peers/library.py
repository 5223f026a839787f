"""diffprivlib's KMeans (Holohan et al., 2019), its own code. It does not import beside scikit-learn 1.9.

So it lives in an environment of its own, made once, and is driven by `library_worker` over a pipe.
"""

import atexit
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

REQUIREMENTS = ["diffprivlib==0.6.6", "scikit-learn==1.5.2"]
WORKER = Path(__file__).with_name("library_worker.py")


def environment(folder):
    """Path of a Python that has diffprivlib; installs it once."""
    python = Path(folder) / "diffprivlib-env" / "bin" / "python"
    ready = python.parent.parent / "ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *REQUIREMENTS], check=True)
        ready.write_text("\n".join(REQUIREMENTS))
    return python


class Library:
    """A running worker; `fit(X, k, ...)` returns (centres, wall seconds, CPU seconds, peak MB) of the fit there."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.process = subprocess.Popen(
            [environment(self.folder), WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self.process.kill)

    def fit(self, X, k, *, epsilon, delta, seed, name="data"):
        """Pure epsilon: delta is not used."""
        data = self.folder / f"{name}.npy"
        if not data.exists():
            np.save(data, X)
        job = {"data": str(data), "k": k, "epsilon": epsilon, "seed": seed}
        print(json.dumps(job), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        return np.array(answer["centers"]), *answer["cost"]
