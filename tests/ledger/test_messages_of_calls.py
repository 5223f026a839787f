"""What is refused before a charge is told in words that fit the estimator, the step or the value that is the reason."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dplit import BoundedScaler, NCnvxAdap, PEMeans, PrivacyBudget, SourceTargetKMedoids
from dplit.ledger import choose_n_clusters, record_wise
from dplit.source_target import NoisyAverageSet

X = np.random.default_rng(0).uniform(-1, 1, size=(40, 2))


def test_what_has_no_epsilon_is_told_apart_from_a_rho_without_a_delta():
    budget = PrivacyBudget(4.0, 1e-4)
    with pytest.raises(ValueError, match="so it cannot be charged: it protects nothing") as caught:
        budget.fit(SourceTargetKMedoids(2), X)
    assert "rho" not in str(caught.value)
    with pytest.raises(ValueError, match="its rho needs a delta") as caught:
        budget.fit(NoisyAverageSet(t=5, rho=0.1, radius=4.0), Xs=X, Xt=X.copy())
    assert "protects nothing" not in str(caught.value) and not budget.ledger


@pytest.mark.parametrize(
    ("model", "said"),
    [(KMeans(2), "KMeans"), (KMeans, "KMeans"), (SourceTargetKMedoids(2), "SourceTargetKMedoids")],
)
def test_another_k_means_is_refused_before_its_radius_is_asked_for(model, said):
    with pytest.raises(TypeError, match=f"estimator={said}.*needs a private k-means"):
        choose_n_clusters(model, [1, 2], X, epsilon=1.0, delta=1e-6)


def test_the_step_that_takes_no_dask_array_is_named():
    dask = pytest.importorskip("dask.array").from_array(X, chunks=(20, 2))
    model = PEMeans(2, epsilon=1.0, delta=1e-6, radius=2**0.5, random_state=0)
    budget, steps = PrivacyBudget(4.0, 1e-4), (BoundedScaler(-1, 1), FunctionTransformer(record_wise(np.negative)))  # fmt: skip
    with pytest.raises(TypeError, match="X is a dask array: a pipeline with the step 'functiontransformer'"):  # fmt: skip
        budget.fit(make_pipeline(*steps, model), dask)
    assert not budget.ledger and budget.fit(make_pipeline(steps[0], model), dask)


@pytest.mark.parametrize("classes", [[10**30, 1], [2**64, 0], (-(2**70), 1, 2)])
def test_classes_beyond_64_bits_are_told(classes):
    model = NCnvxAdap(classes=classes, epsilon=1.0, delta=1e-6, radius=1.0, weight_radius=1.0)
    with pytest.raises(ValueError, match="classes: NCnvxAdap needs classes that fit into 64 bits"):
        model.privacy_cost()
