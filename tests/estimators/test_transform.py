"""A private clustering as a step of a pipeline, and a clustering that says aloud that it abstained."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from dplit import KNoisyCenters, KTupleKMeans, MaxCoverKMeans, NoisyLloyd, StableTupleMean
from dplit.inputs import AbstainedWarning

pd = pytest.importorskip("pandas")
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 2))
BALL = {"n_clusters": 3, "epsilon": 1.0, "delta": 1e-6, "radius": 4.0, "random_state": 0}
every = pytest.mark.parametrize("kind", [NoisyLloyd, MaxCoverKMeans])


@every
def test_transform_is_the_distances_whose_least_is_the_label(kind):
    model = kind(**BALL).fit(X)
    away = model.transform(X)
    assert np.allclose(away, np.linalg.norm(X[:, None] - model.cluster_centers_, axis=2))
    assert np.array_equal(away.argmin(axis=1), model.predict(X))
    assert np.array_equal(away, kind(**BALL).fit_transform(X))


@every
def test_columns_have_the_names_of_scikit_learn_and_the_kind_that_is_asked_for(kind):
    rows = pd.DataFrame(X, columns=["a", "b"], index=np.arange(400) + 7)
    table = kind(**BALL).set_output(transform="pandas").fit(rows).transform(rows)
    names = [f"{kind.__name__.lower()}{i}" for i in range(3)]
    assert [*table.columns] == names and table.index.equals(rows.index)
    assert kind(**BALL).fit(X).get_feature_names_out().tolist() == names


@every
def test_before_a_fit_there_is_nothing_to_transform(kind):
    for ask in (lambda m: m.transform(X), lambda m: m.get_feature_names_out()):
        with pytest.raises(NotFittedError):
            ask(kind(**BALL))
    with pytest.raises(ValueError, match="X"):
        kind(**BALL).fit(X).transform(X[:, :1])


def test_a_pipeline_takes_a_private_clustering_as_its_first_step():
    y = (X[:, 0] > 0).astype(int)
    pipe = make_pipeline(NoisyLloyd(**BALL), LogisticRegression()).fit(X, y)
    assert pipe.score(X, y) > 0.8 and pipe[0].spent_.epsilon <= 1.0


# ---------------------------------------------------------------- abstaining

BLOB = rng.normal(size=(3000, 2))
MISFITS = rng.normal(size=(700, 2, 1))  # tuples that do not agree


def test_a_clustering_of_parts_that_disagree_says_so_in_fit_and_in_predict():
    model = KTupleKMeans(3, epsilon=1.0, delta=1e-6, radius=5.0, random_state=0)
    with pytest.warns(AbstainedWarning, match="around public starting points") as caught:
        model.fit(BLOB)
    assert model.status_ == "abstained" and [w.filename for w in caught] == [__file__]
    for ask in (model.predict, model.transform):
        with pytest.warns(AbstainedWarning, match="KTupleKMeans abstained"):
            ask(BLOB)


@pytest.mark.parametrize("kind", [StableTupleMean, KNoisyCenters])
def test_estimators_of_tuples_say_that_there_are_no_centers(kind):
    with pytest.warns(AbstainedWarning, match=f"{kind.__name__} abstained.*centers_") as caught:
        model = kind(epsilon=1.0, delta=1e-6, random_state=0).fit(MISFITS)
    assert model.centers_ is None and [w.filename for w in caught] == [__file__]
    assert str(len(MISFITS)) not in str(caught[0].message)


def test_who_released_is_silent():
    good = np.array([-5.0, 5.0])[:, None] + 0.01 * rng.normal(size=(700, 2, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", AbstainedWarning)
        assert (
            StableTupleMean(epsilon=1.0, delta=1e-6, random_state=0).fit(good).status_ == "released"
        )
        NoisyLloyd(**BALL).fit(X).predict(X)
