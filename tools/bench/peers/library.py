"""diffprivlib (Holohan et al., 2019), its own code: KMeans and LogisticRegression. It cannot be imported next to scikit-learn 1.9.

So it lives in an environment of its own, made once, and is driven by `library_worker` over a pipe.
"""

from hashlib import sha256

import numpy as np

from bench.peers.apart import Apart
from dplit.geometry import clip_to_ball


class Library(Apart):
    """A running worker for both, over rows that lie in a file."""

    NAME, REQUIREMENTS = "diffprivlib", ["diffprivlib==0.6.6", "scikit-learn==1.5.2"]
    WORKER = "library_worker.py"

    def fit(self, X, k, *, epsilon, delta, seed, name="data"):
        """KMeans: (centers, wall seconds, CPU seconds, peak MB) of the fit there. Pure epsilon: delta is not used."""
        X = np.ascontiguousarray(X)
        told = sha256(f"{X.dtype} {X.shape}".encode() + X.tobytes()).hexdigest()[:16]
        data = self.folder / f"{name}-{told}.npy"  # other rows are another file
        if not data.exists():
            np.save(data, X)
        answer = self.ask(data=str(data), k=k, epsilon=epsilon, seed=seed)
        return np.array(answer["centers"]), *answer["cost"]

    def separate(self, X, y, *, radius, epsilon, seed, strengths):
        """Parameters w of logistic regression by objective perturbation, one w for each C; y is 0 or 1, pure epsilon.

        Rows are passed in units of the radius: at norm 1 the library's bound on the curvature, which
        has the norm to the first power, is that of Chaudhuri et al., which needs its square.
        """
        data = self.folder / "labeled.npy"
        np.save(data, np.column_stack([clip_to_ball(X, radius) / radius, y]))
        asked = {"data": str(data), "epsilon": epsilon, "seed": seed}
        return np.array(self.ask(**asked, strengths=strengths)["w"]) / radius
