"""KLIEP (Sugiyama et al., 2007) as the package adapt has it. It asks for TensorFlow, so it lives in an environment of its own.

The kernel's width is chosen by the likelihood that the method itself cross-validates, among three widths around
the median distance. It uses the rows only. There is no package of gapBoost: its authors' program is for MATLAB.
"""

import numpy as np

from bench.peers.apart import Apart

WIDTHS = (0.3, 1.0, 3.0)  # of gamma, in units of 1 / (2 median squared distance)


class Kliep(Apart):
    """A running worker, over rows that lie in a file."""

    NAME, REQUIREMENTS = "adapt", ["adapt==0.4.5", "tensorflow==2.21.0", "scikit-learn==1.9.1"]
    WORKER = "kliep_worker.py"

    def weights(self, Xs, Xt, *, seed):
        """Weights of source rows, at least 0 and summing to 1."""
        some = Xs[:: max(1, len(Xs) // 300)]
        squares = ((some[:, None] - some[None]) ** 2).sum(axis=2)
        unit = 1 / (2 * float(np.median(squares)))
        data = self.folder / "kliep.npz"
        np.savez(data, Xs=Xs, Xt=Xt)
        answer = self.ask(data=str(data), gamma=[width * unit for width in WIDTHS], seed=seed)
        q = np.maximum(np.array(answer["weights"]), 0)
        return q / q.sum()
