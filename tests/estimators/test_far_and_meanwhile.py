"""What a fitted estimator says of far rows, of rows that come while it is fitted anew, and of too many rounds."""

import math
import threading

import numpy as np
import pytest

from dplit import (
    BoundedScaler,
    HDPEMeans,
    KTupleKMeans,
    LabelShiftClassifier,
    NCnvxAdap,
    NoisyLloyd,
    PEMeans,
)
from dplit.inputs.declared import as_of_now, settle

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 2))
PRICE = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}


@pytest.mark.parametrize("ball", [{"radius": 4.0}, {"bounds": (-4, 4)}], ids=["radius", "bounds"])
@pytest.mark.parametrize("far", [1e300, -1e300, 1e155, np.finfo(float).max])
def test_a_row_that_fit_takes_has_a_finite_score_and_finite_distances(ball, far):
    """Squares of what lies beyond 1e150 are no floats; such cells count as 1e150, and near rows as they are."""
    model = NoisyLloyd(2, **PRICE, **ball).fit(np.vstack([X, [[far, 0.0]]]))
    rows = np.array([[far, 0.0], [0.5, -0.5]])
    assert math.isfinite(model.score(rows)) and np.isfinite(model.transform(rows)).all()
    np.testing.assert_array_equal(model.transform(rows)[1], model.transform(rows[1:])[0])
    assert model.score(rows[1:]) == pytest.approx(-(model.transform(rows[1:]).min() ** 2))
    limit = np.array([[math.copysign(1e150, far), 0.0]])
    assert model.predict(rows)[0] == model.predict(limit)[0]


def test_rows_are_compared_with_one_fit_while_another_is_made():
    """Old centers in new units would be far from every row; all results change at once."""
    small = PEMeans(2, **PRICE, bounds=(-4, 4)).fit(X)
    large = PEMeans(2, **PRICE, bounds=(-4e6, 4e6)).fit(X * 1e6)
    rows, allowed = X[:5] * 100, []
    for model in (small, large):
        allowed.append((model.transform(rows).tobytes(), model.score(rows)))
    model, stop, found = PEMeans(2, **PRICE, bounds=(-4, 4)).fit(X), threading.Event(), set()

    def refit():
        while not stop.is_set():
            for other in (small, large):
                settle(model, other)

    thread = threading.Thread(target=refit)
    thread.start()
    try:
        for _ in range(300):
            found |= {("distances", model.transform(rows).tobytes()), ("score", model.score(rows))}
    finally:
        stop.set()
        thread.join()
    distances, scores = (set(each) for each in zip(*allowed, strict=True))
    assert found <= {("distances", d) for d in distances} | {("score", s) for s in scores}


class _Changes:
    """Rows that have the estimator fitted anew as soon as they are read."""

    def __init__(self, rows, change):
        self.rows, self.change, self.shape, self.dtype = rows, change, rows.shape, rows.dtype

    def __len__(self):
        return len(self.rows)

    def __array__(self, dtype=None, copy=None):
        self.change()
        return np.array(self.rows, dtype=dtype)

    def __getitem__(self, rows):
        return self.rows[rows]


def _classifier(kind, classes):
    y = rng.integers(2, size=300)
    if kind is NCnvxAdap:
        ball = {"radius": 4.0, "weight_radius": 3.0, "classes": [0, 1]}
        model = kind(epsilon=2.0, delta=1e-5, random_state=0, **ball)
    else:
        model = kind(epsilon=2.0, random_state=0)
    model.fit(Xt=X, yt=y, Xs=X, ys=y)
    other = as_of_now(model)
    other.classes_ = np.array(classes)
    return model, other


@pytest.mark.parametrize("kind", [LabelShiftClassifier, NCnvxAdap])
def test_a_class_that_is_predicted_is_one_of_the_fit_that_predicts_it(kind):
    model, other = _classifier(kind, [10, 11])
    rows = _Changes(X, lambda: settle(model, other))
    assert set(model.predict(rows)) <= {0, 1}
    assert set(model.predict(X)) <= {10, 11}


def test_a_scaler_has_the_ranges_of_one_fit():
    scaler = BoundedScaler(-4, 4).fit(X)
    before, other = scaler.transform(X), BoundedScaler(-8, 8).fit(X)
    rows = _Changes(X, lambda: settle(scaler, other))
    np.testing.assert_array_equal(scaler.transform(rows), before)
    np.testing.assert_array_equal(scaler.transform(X), other.transform(X))
    assert np.abs(other.transform(X)).max() < np.abs(before).max()


@pytest.mark.parametrize(
    ("kind", "name"),
    [(NoisyLloyd, "n_iter"), (PEMeans, "n_votes"), (PEMeans, "n_refine"), (HDPEMeans, "n_refine")],
)
def test_a_million_rounds_are_refused_before_a_row_is_read(kind, name):
    """A thousand passes over the rows are the most: each costs a part of the budget, and time."""
    model = kind(2, epsilon=1.0, delta=1e-6, radius=4.0, **{name: 1001})
    with pytest.raises(ValueError, match=rf"{name}=1001: {kind.__name__} needs at most 1000: each"):
        model.privacy_cost()
    assert model.set_params(**{name: 1000}).privacy_cost().epsilon == 1.0


def test_a_thousand_clusters_of_few_rows_take_no_minute():
    """Parts with fewer rows than clusters have equal points, which are not compared (44 s to 1.4 s)."""
    import time

    model = KTupleKMeans(1000, **PRICE, radius=8.0)
    start = time.process_time()
    with pytest.warns(UserWarning, match="abstained"):
        model.fit(rng.normal(size=(500, 3)))
    assert time.process_time() - start < 15
