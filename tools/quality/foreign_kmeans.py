"""Our estimators in place of scikit-learn's KMeans, for its own tests: see foreign.py.

The budget is so large that the noise is below the rounding of rows. The public ball is taken from the test's rows,
which are public there; in a real release it never is. `labels_`, `inertia_` and `n_iter_`, which dplit does not
release, are computed from the test's rows. Parameters that dplit does not have (`n_init`, `tol`, `algorithm`,
`copy_x`) are accepted and ignored. Words for `init` stand for our own start.
"""

import contextlib
import warnings

import numpy as np
import sklearn.cluster

from dplit import NoisyLloyd, PEMeans

CALLS = []  # one entry for each fit


def _radius(X):
    """A ball that holds the test's rows; 1 for what no ball is for, which the fit refuses by itself."""
    try:
        return 1 + float(np.linalg.norm(np.asarray(X, dtype=float), axis=1).max())
    except (TypeError, ValueError):
        return 1.0


class Shim:
    """What scikit-learn's tests ask of KMeans, by one of our estimators. Its default number of rounds is 30, not 300."""

    def __init__(
        self,
        n_clusters=8,
        *,
        init="k-means++",
        n_init="auto",
        max_iter=30,
        tol=1e-4,
        verbose=0,
        random_state=None,
        copy_x=True,
        algorithm="lloyd",
    ):
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state
        self.copy_x = copy_x
        self.algorithm = algorithm

    def fit(self, X, y=None, sample_weight=None):
        CALLS.append(type(self).__name__)
        if sample_weight is not None:
            raise TypeError("dplit has no sample_weight")
        given = {"random_state": self.random_state, "verbose": bool(self.verbose)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # this budget protects nothing, as intended here
            model = self._ours(epsilon=1e30, delta=1e-6, radius=_radius(X), **given).fit(X)
        self.model_, self.cluster_centers_ = model, model.cluster_centers_
        self.labels_, self.inertia_ = model.predict(X), -model.score(X)
        self.n_iter_, self.n_features_in_ = self.max_iter, model.n_features_in_
        return self

    def fit_predict(self, X, y=None, sample_weight=None):
        return self.fit(X, y, sample_weight).labels_

    def fit_transform(self, X, y=None, sample_weight=None):
        return self.fit(X, y, sample_weight).transform(X)

    def predict(self, X):
        return self.model_.predict(X)

    def transform(self, X):
        return self.model_.transform(X)

    def score(self, X, y=None):
        return self.model_.score(X)


class LloydInPlace(Shim, NoisyLloyd):
    def _ours(self, **given):
        init = "packing" if isinstance(self.init, str) else self.init
        return NoisyLloyd(self.n_clusters, init=init, n_iter=self.max_iter, **given)


class PEMeansInPlace(Shim, PEMeans):
    def _ours(self, **given):
        if not isinstance(self.init, str):
            raise TypeError("PEMeans has no init")
        return PEMeans(self.n_clusters, **given)


SHIMS = {"NoisyLloyd": LloydInPlace, "PEMeans": PEMeansInPlace}


@contextlib.contextmanager
def in_place(shim):
    """Within it, sklearn.cluster.KMeans is the shim, under the name that tests expect."""
    theirs, name = sklearn.cluster.KMeans, shim.__name__
    sklearn.cluster.KMeans, shim.__name__ = shim, "KMeans"
    try:
        yield
    finally:
        sklearn.cluster.KMeans, shim.__name__ = theirs, name
