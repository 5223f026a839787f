"""diffprivlib's KMeans (Holohan et al., 2019), its own code. It does not import beside scikit-learn 1.9.

So it lives in an environment of its own, made once, and is driven by `library_worker` over a pipe.
"""

import numpy as np

from peers.apart import Apart


class Library(Apart):
    """A running worker; `fit(X, k, ...)` returns (centres, wall seconds, CPU seconds, peak MB) of the fit there."""

    NAME, REQUIREMENTS = "diffprivlib", ["diffprivlib==0.6.6", "scikit-learn==1.5.2"]
    WORKER = "library_worker.py"

    def fit(self, X, k, *, epsilon, delta, seed, name="data"):
        """Pure epsilon: delta is not used."""
        data = self.folder / f"{name}.npy"
        if not data.exists():
            np.save(data, X)
        answer = self.ask(data=str(data), k=k, epsilon=epsilon, seed=seed)
        return np.array(answer["centers"]), *answer["cost"]
