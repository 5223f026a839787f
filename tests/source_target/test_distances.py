"""k-medoids by any metric: against every choice of medoids, an integer program, FasterPAM, and the same target in other words."""

import io
import itertools
import re
import tracemalloc

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.metrics import pairwise_distances
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_source_target import p_median

from dplit import SourceTargetKMedoids, source_target
from dplit.source_target import distances, medoids

PARAMS = {
    "minkowski": {"p": 3},
    "seuclidean": {"V": np.array([1.0, 4.0])},
    "mahalanobis": {"VI": np.array([[2.0, 0.5], [0.5, 1.0]])},
}


def steps(x, y):
    """A function of two rows that is not the same both ways: uphill takes longer."""
    return abs(x[0] - y[0]) + 2 * max(y[1] - x[1], 0) + max(x[1] - y[1], 0)


METRICS = [m for m in distances.METRICS if m != "precomputed"] + [steps]
every_metric = pytest.mark.parametrize("metric", METRICS)


def table(n, seed=0):
    """Latitudes and longitudes in radians, which any metric takes for two columns."""
    rng = np.random.default_rng(seed)
    return np.column_stack([np.arcsin(rng.uniform(-1, 1, n)), rng.uniform(-np.pi, np.pi, n)])


def measured(metric):
    return {"metric": metric, "metric_params": PARAMS.get(metric)}


def between(A, B, metric):
    # of one table with itself, scikit-learn measures one way only
    return pairwise_distances(A, B.copy(), metric=metric, **PARAMS.get(metric, {}))


@every_metric
@pytest.mark.parametrize("beside", [0, 4])
def test_every_metric_finds_what_trying_every_choice_finds(metric, beside):
    X, S = table(14), table(beside, 1) if beside else None
    D = between(X, X, metric)
    d0 = between(X, S, metric).min(axis=1) if beside else np.full(14, np.inf)
    cost = lambda some: np.minimum(d0, D[:, some].min(axis=1)).mean()  # noqa: E731
    best = min(cost([*some]) for some in itertools.combinations(range(14), 3))
    model = SourceTargetKMedoids(3, n_starts=20, **measured(metric)).fit(X, sources=S)
    chosen = model.medoid_indices_
    assert model.cost_ == pytest.approx(best, rel=1e-6) == pytest.approx(cost(chosen), rel=1e-6)
    nearest = D[:, chosen].argmin(axis=1)
    assert np.array_equal(model.labels_, nearest) and model.labels_.dtype == np.int64
    assert np.array_equal(model.predict(X), model.labels_)
    fresh = table(30, 2)
    assert np.array_equal(model.predict(fresh), between(fresh, X[chosen], metric).argmin(axis=1))
    assert np.array_equal(model.cluster_centers_, X[chosen])
    told = source_target.stc_cost(X, S, chosen, **measured(metric))
    assert told == pytest.approx(model.cost_)
    d0 = between(X, S, metric).min(axis=1) if beside else np.full(14, 9.0)
    away = source_target.source_distance(X, S, 9.0, **measured(metric))
    assert np.allclose(away, d0, atol=1e-12)


@pytest.mark.parametrize("metric", ["haversine", "manhattan", "cosine", "canberra", steps])
@pytest.mark.parametrize("beside", [0, 30])
def test_other_metrics_are_within_a_hundredth_of_the_optimum(metric, beside):
    ratios = []
    for seed, k in ((0, 4), (1, 9)):
        X, S = table(90, seed), table(30, seed + 5)
        D = between(X, X, metric)
        d0 = between(X, S, metric).min(axis=1) if beside else np.full(90, 1.01 * D.max())
        model = SourceTargetKMedoids(k, metric=metric).fit(Xt=X, sources=S if beside else None)
        ratios.append(model.cost_ / integer_optimum(D, d0, k))
    assert min(ratios) > 1 - 1e-6 and max(ratios) <= 1.02 and np.mean(ratios) <= 1.01


def integer_optimum(D, d0, k):
    """`p_median` of the other tests, asked about distances that are given."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(p_median.__globals__, "cdist", lambda A, B: D)
        return p_median(D, d0, k)


def test_faster_pam_by_other_metrics_agrees():
    kmedoids = pytest.importorskip("kmedoids")
    for metric, beside in itertools.product(("haversine", "manhattan", "sqeuclidean"), (0, 50)):
        X, S = table(400, 3), table(50, 4)
        D = between(X, X, metric)
        if beside:
            D = np.minimum(D, between(X, S, metric).min(axis=1)[:, None])
        best = min(kmedoids.fasterpam(D, 12, random_state=s).loss for s in range(3)) / 400
        model = SourceTargetKMedoids(12, metric=metric).fit(X, sources=S if beside else None)
        assert 0.97 * best < model.cost_ < 1.02 * best


@every_metric
def test_distances_that_are_given_are_the_same_target(metric):
    X, S, fresh = table(60), table(7, 1), table(9, 2)
    model = SourceTargetKMedoids(5, n_starts=2, **measured(metric)).fit(Xt=X, sources=S)
    given = SourceTargetKMedoids(5, n_starts=2, metric="precomputed")
    given.fit(Xt=between(X, X, metric), sources=between(X, S, metric))
    # the Euclidean metric has a search of its own; by angles, and by equal cells, pairs tie in two columns
    if metric not in (*distances.EUCLIDEAN, "cosine", "correlation", "hamming"):
        assert np.array_equal(given.medoid_indices_, model.medoid_indices_)
        assert np.array_equal(given.labels_, model.labels_) and given.n_features_in_ == 60
    assert given.cluster_centers_ is None and given.cost_ == pytest.approx(model.cost_, rel=0.02)
    found = given.predict(between(fresh, X, metric))
    assert np.array_equal(found, between(fresh, X[given.medoid_indices_], metric).argmin(axis=1))
    none = np.zeros((60, 0))
    alone = clone(given).fit(Xt=between(X, X, metric), sources=none)
    assert alone.cost_ == clone(given).fit(Xt=between(X, X, metric)).cost_ >= given.cost_


def test_a_table_is_read_from_the_served_to_the_serving():
    """Row 2 is near to all, but nobody is near to row 2 the other way round."""
    D = np.array([[0.0, 9.0, 1.0], [9.0, 0.0, 1.0], [8.0, 8.0, 0.0]])
    model = SourceTargetKMedoids(1, metric="precomputed").fit(D)
    assert model.medoid_indices_.tolist() == [2] and model.cost_ == pytest.approx(2 / 3)
    assert SourceTargetKMedoids(1, metric="precomputed").fit(D.T).medoid_indices_.tolist() != [2]


def test_the_date_line_and_the_poles_are_no_borders():
    fiji = np.radians([[-17, 179], [-17, -179], [-18, 178], [-16, -178]])
    pole = np.radians([[89, 0], [89, 120], [89, -120]])
    X = np.vstack([fiji, pole])
    model = SourceTargetKMedoids(2, metric="haversine").fit(X)
    assert len({*model.labels_[:4]}) == len({*model.labels_[4:]}) == 1
    assert model.labels_[0] != model.labels_[4]
    assert len({*SourceTargetKMedoids(2).fit(X).labels_[:4]}) == 2  # a map cuts Fiji apart


def test_many_rows_are_measured_in_blocks():
    X = np.random.default_rng(0).normal(size=(4000, 2))
    tracemalloc.start()
    model = SourceTargetKMedoids(5, n_passes=1, n_candidates=500, metric="manhattan").fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25e6  # all distances: 128 MB
    D = cdist(X, X, "cityblock")
    given = SourceTargetKMedoids(5, n_passes=1, n_candidates=500, metric="precomputed")
    assert np.array_equal(given.fit(D).medoid_indices_, model.medoid_indices_)
    assert np.array_equal(given.labels_, D[:, model.medoid_indices_].argmin(axis=1))
    tracemalloc.start()
    given.fit(D)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25e6  # nor a copy of them


def test_few_rows_are_measured_once():
    calls = []

    def counted(x, y):
        calls.append(1)
        return abs(x - y).sum()

    SourceTargetKMedoids(3, metric=counted).fit(table(60))
    assert len(calls) <= 60 * 60 + 60 * 60 + 60 * 3  # all pairs, which are the longest, the labels


@pytest.mark.parametrize("metric", ["haversine", "manhattan", "cosine", steps])
def test_without_sources_no_row_is_taken_for_served(metric):
    X = table(40)
    for target in (
        distances.RowsByNumber(X, metric),
        distances.RowsByNumber(between(X, X, metric), "precomputed"),
    ):
        assert np.all(target.to_sources(None) >= between(X, X, metric).max())
        assert np.array_equal(target.to_sources(None, 3.0), np.full(40, 3.0))


def test_what_is_no_distance_is_refused():
    X = table(6)
    for wrong in (lambda x, y: -1.0, lambda x, y: np.nan, lambda x, y: np.inf):
        with pytest.raises(ValueError, match="below zero, or no finite"):
            SourceTargetKMedoids(2, metric=wrong).fit(X)
    hair = np.array([[0.0, 1.0], [-1e-16, 0.0]])
    assert distances.as_distances(hair).min() == 0.0
    given = SourceTargetKMedoids(2, metric="precomputed")
    for bad, words in (
        (np.ones((3, 2)), r"\(n, n\)"),
        (-np.ones((3, 3)), "below zero"),
        (np.full((3, 3), np.nan), "NaN"),
    ):
        with pytest.raises(ValueError, match=words):
            given.fit(bad)
    with pytest.raises(ValueError, match="as many rows"):
        given.fit(np.ones((3, 3)), sources=np.ones((2, 5)))
    with pytest.raises(ValueError, match="below zero"):
        given.fit(np.ones((3, 3)), sources=-np.ones((3, 5)))


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"metric": "euclid"}, ValueError),
        ({"metric": 2}, TypeError),
        ({"metric": "seuclidean"}, ValueError),
        ({"metric": "mahalanobis", "metric_params": {"p": 3}}, ValueError),
        ({"metric_params": 3}, TypeError),
        ({"metric": "haversine"}, ValueError),  # of three columns
    ],
)
def test_an_impossible_metric_is_refused(given, error):
    with pytest.raises(error, match="metric"):
        SourceTargetKMedoids(2, **given).fit(np.ones((4, 3)))


def test_functions_that_measure_points_take_no_distances():
    for ask in (
        source_target.source_distance,
        lambda *a, **k: source_target.stc_cost(*a, [0], **k),
    ):
        with pytest.raises(ValueError, match="measures rows and points itself"):
            ask(np.ones((3, 3)), None, metric="precomputed")
        with pytest.raises(ValueError, match="metric='euclid'"):
            ask(np.ones((3, 3)), None, metric="euclid")


def test_labels_of_another_row_go_to_the_nearest_medoid_though_a_source_is_nearer():
    X, S = np.array([[0.0], [1.0], [9.0], [10.0]]), np.array([[0.4]])
    model = SourceTargetKMedoids(1).fit(Xt=X, sources=S)
    assert model.labels_.tolist() == [0, 0, 0, 0] and model.medoid_indices_[0] in (2, 3)
    two = SourceTargetKMedoids(2).fit(X)
    assert [*two.labels_] == [*two.fit_predict(X)] == [*two.predict(X)]
    assert [*two.labels_] == [*two.fit_predict(Xt=X)]  # by the names of `fit`
    assert two.labels_[0] == two.labels_[1] != two.labels_[2] == two.labels_[3]
    twins = SourceTargetKMedoids(3).fit(np.ones((5, 2)))
    assert twins.labels_.tolist() == [0] * 5  # ties go to the first


def test_a_second_table_still_needs_its_name():
    X = table(8)
    for second in (X, X[:3], np.ones(5)):
        with pytest.raises(TypeError, match="two tables by name"):
            SourceTargetKMedoids(2).fit(X, second)
    assert (
        SourceTargetKMedoids(2).fit(X, np.arange(8)).cost_ == SourceTargetKMedoids(2).fit(X).cost_
    )


PAIRWISE = dict.fromkeys(
    ("check_clustering", "check_positive_only_tag_during_fit"),
    "hands over rows where distances are asked for",
)


@parametrize_with_checks(
    [
        SourceTargetKMedoids(3),
        SourceTargetKMedoids(3, metric="manhattan"),
        SourceTargetKMedoids(3, metric="precomputed"),
    ],
    expected_failed_checks=lambda model: PAIRWISE if model.metric == "precomputed" else {},
)
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


def test_the_search_by_number_is_the_search_by_rows():
    """Greedy choices and swaps by another metric are those of the Euclidean search, if the metric is Euclidean."""
    X, S = table(150), table(20, 1)
    by_rows, by_number = distances.EuclideanRows(X), distances.RowsByNumber(X, "euclidean")
    d0 = source_target.source_distance(X, S)
    assert np.allclose(by_number.to_sources(S), d0)
    some = medoids.greedy_medoids(by_rows.points, d0, 6)[0]
    same = medoids.greedy_medoids(by_number.points, d0, 6, between=by_number.between)[0]
    assert np.array_equal(some, same)
    assert np.array_equal(by_rows.around(some, 9), by_number.around(some, 9))
    state = medoids._two_nearest(X, d0, X[some])
    steps = X, d0, some.copy(), np.arange(150), state, 3, 1e-6
    n_swaps = medoids._one_by_one(*steps)
    found, again = medoids.swap_medoids(
        by_number.points, d0, same, np.arange(150), 3, between=by_number.between
    )
    assert n_swaps == again and np.array_equal(found, steps[2])


METRICS_THAT_FAIL = {
    "an argument": ({"metric": lambda a, b: 1.0, "metric_params": {"w": 2}}, "unexpected keyword"),
    "words": ({"metric": lambda one, other: "far"}, "could not convert"),
    "rows": ({"metric": lambda one, other: one}, "sequence"),
    "an error": ({"metric": lambda one, other: 1 / 0}, "ZeroDivisionError"),
    "one argument": ({"metric": lambda one: 1.0}, "positional argument"),
}  # fmt: skip


@pytest.mark.parametrize("name", METRICS_THAT_FAIL)
@pytest.mark.parametrize("alone", [True, False])
def test_a_metric_that_fails_is_refused_in_one_line_without_the_table(name, alone):
    given, words = METRICS_THAT_FAIL[name]
    X = np.random.default_rng(0).normal(size=(9, 3))
    more = {} if alone else {"sources": X + 1.0}
    with pytest.raises(
        (TypeError, ValueError), match=f"^metric=.*fails on the rows.*{words}"
    ) as told:
        SourceTargetKMedoids(2, **given).fit(Xt=X, **more)
    assert "\n" not in str(told.value) and told.value.__context__ is None


# ---------------------------------------------------------------- parameters of a metric


WRONG_PARAMS = [
    ("minkowski", {"p": -1}, "needs p = a number of at least 1"),
    ("minkowski", {"p": 0.5}, "needs p = a number of at least 1"),
    ("minkowski", {"p": float("nan")}, "needs p = a number of at least 1"),
    ("minkowski", {"p": "x"}, "needs p = .* not 'x'"),
    ("minkowski", {"p": True}, "needs p ="),
    ("minkowski", {"p": None}, "needs p ="),
    ("minkowski", {"q": 3}, "takes p and w; leave 'q' out"),
    ("minkowski", {1: 2}, "1 is not the name"),
    ("minkowski", {"p": 3, "w": [1, 1]}, "needs w = 3 weights"),
    ("canberra", {"w": [1, -1, 1]}, "needs w = 3 weights"),
    ("hamming", {"w": [0, 0, 0]}, "needs w = 3 weights"),
    ("braycurtis", {"w": "x"}, "needs w = 3 weights"),
    ("correlation", {"centered": False}, "takes w; leave 'centered' out"),
    ("seuclidean", {}, "give metric_params={'V'"),
    ("seuclidean", {"V": None}, "needs V = 3 variances"),
    ("seuclidean", {"V": [1.0]}, "needs V = 3 variances"),
    ("seuclidean", {"V": [1, 0, 1]}, "needs V = 3 variances"),
    ("seuclidean", {"V": [1, np.nan, 1]}, "needs V = 3 variances"),
    ("mahalanobis", {"VI": None}, "needs VI = a symmetric"),
    ("mahalanobis", {"VI": np.eye(2)}, r"needs VI = .* \(3, 3\)"),
    ("mahalanobis", {"VI": np.eye(4)}, r"needs VI = .* \(3, 3\)"),
    ("mahalanobis", {"VI": -np.eye(3)}, "positive semidefinite"),
    ("mahalanobis", {"VI": np.zeros((3, 3))}, "positive semidefinite"),
    ("mahalanobis", {"VI": np.triu(np.ones((3, 3)))}, "symmetric"),
    ("mahalanobis", {"V": np.eye(3)}, "takes VI; leave 'V' out"),
    ("euclidean", {"squared": True}, "takes no parameters; leave 'squared' out"),
    ("l1", {"p": 1}, "takes no parameters; leave 'p' out"),
    ("cosine", {"w": [1, 1, 1]}, "takes no parameters"),
]


@pytest.mark.parametrize(("metric", "params", "words"), WRONG_PARAMS)
def test_a_parameter_that_makes_no_distance_is_refused_in_our_words(metric, params, words):
    X = np.random.default_rng(0).normal(size=(9, 3))
    given = {"metric": metric, "metric_params": params}
    for ask in (
        lambda: SourceTargetKMedoids(2, **given).fit(Xt=X),
        lambda: source_target.source_distance(X, X[:2], **given),
    ):
        with pytest.raises((TypeError, ValueError), match=f"^metric.*{words}"):
            ask()


RIGHT_PARAMS = [
    ("minkowski", {"p": 1}),
    ("minkowski", {"p": np.float32(2.5), "w": np.array([1, 0, 2])}),
    ("minkowski", {"p": float("inf")}),
    ("chebyshev", {"w": None}),
    ("sqeuclidean", {"w": [0.5, 1, 2]}),
    ("seuclidean", {"V": (1, 2, 3)}),
    ("mahalanobis", {"VI": [[2, 1, 0], [1, 2, 0], [0, 0, 0]]}),
]


@pytest.mark.parametrize(("metric", "params"), RIGHT_PARAMS)
def test_a_parameter_that_is_checked_is_the_one_that_measures(metric, params):
    X = np.random.default_rng(0).normal(size=(9, 3))
    given = {"metric": metric, "metric_params": params}
    known = pairwise_distances(X, X[:2], metric=metric, **params).min(axis=1)
    assert np.allclose(source_target.source_distance(X, X[:2], **given), known)
    assert len(SourceTargetKMedoids(2, **given).fit(Xt=X).medoid_indices_) == 2


# ---------------------------------------------------------------- public mistakes, in our own words

FOREIGN = (
    "Expected|array=|check_array|toarray\\(\\)' to|inhomogeneous|DType|could not convert|dtype\\("
)


def ones_but(cell, dtype=float):
    rows = np.ones((5, 3), dtype=dtype)
    rows[2, 1] = cell
    return rows


BAD_TABLES = {
    "NaN": (ones_but(np.nan), "row 2, column 1 .* is NaN"),
    "infinity": (ones_but(-np.inf), "row 2, column 1 .* is infinite"),
    "None": (ones_but(None, object), "row 2, column 1 .* is NaN"),
    "a word": (ones_but("far", object), "row 2, column 1 .* is a word"),
    "words in a list": ([[1.0, 2.0], ["x", 3.0]], "row 1, column 0 .* is a word"),
    "masked": (np.ma.masked_equal(ones_but(7.0), 7.0), "row 2, column 1 .* is masked"),
    "an object": (ones_but(print, object), "row 2, column 1 .* is a builtin_function"),
    "unequal rows": ([[1.0, 2.0], [3.0, 4.0], [5.0]], "row 2 .* has 1 entries, and row 0 has 2"),
    "dates": (np.full((2, 2), "2020-01-01", "M8[D]"), "not numbers"),
    "True": (np.ones((3, 2), bool), "True or False"),
    "no rows": (np.ones((0, 2)), "at least one row|0 sample"),
    "an iterator": (iter([[1.0]]), "Pass all rows at once"),
    "a file": ("table.csv", "Read the file first"),
    "an open file": (io.StringIO("1,2"), "Read the file first"),
    "a mapping": ({"a": [1.0]}, "Make it a data frame first"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_public_table_that_cannot_be_used_is_refused_in_our_words(name):
    table, words = BAD_TABLES[name]
    for metric in ("euclidean", "haversine", "precomputed", "manhattan"):
        model = SourceTargetKMedoids(2, metric=metric)
        with pytest.raises((TypeError, ValueError), match=f"^Xt.*({words})") as told:
            model.fit(Xt=table)
        assert not re.search(FOREIGN, str(told.value)) and "\n" not in str(told.value)
    if name != "no rows":  # there may be no source
        with pytest.raises((TypeError, ValueError), match=f"^sources.*({words})") as told:
            SourceTargetKMedoids(2).fit(Xt=np.eye(5, 3), sources=table)
        assert not re.search(FOREIGN, str(told.value))


def test_precomputed_tables_that_are_no_distances_are_named_with_their_place():
    D = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    wrong, model = D.copy(), SourceTargetKMedoids(2, metric="precomputed")
    wrong[3, 1] = -2.0
    with pytest.raises(ValueError, match=r"^Xt: the distance in row 3, column 1 .* is below"):
        model.fit(Xt=wrong)
    with pytest.raises(ValueError, match="^sources: the distance in row 3, column 1"):
        model.fit(Xt=D, sources=wrong)
    with pytest.raises(ValueError, match="^Xt: .* 4 rows and 2 columns. Pass distances"):
        model.fit(Xt=D[:, :2])
    with pytest.raises(ValueError, match="^sources: .* as many rows as Xt has, 4, and here are 3"):
        model.fit(Xt=D, sources=D[:3])
    wrong[3, 1] = -1e-12  # rounded
    assert model.fit(Xt=wrong).cost_ >= 0


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("euclidian", "euclidean"), ("Euclidean", "euclidean"), ("haversin", "haversine"),
        ("MANHATTAN", "manhattan"), ("pre-computed", "precomputed"), ("mahalonobis", "mahalanobis"),
        ("cosin", "cosine"), ("city-block", "cityblock"),
    ],
)  # fmt: skip
def test_a_typing_error_in_a_metric_is_answered_by_the_right_word(wrong, right):
    for ask in (
        lambda: SourceTargetKMedoids(2, metric=wrong).fit(table(6)),
        lambda: source_target.stc_cost(table(6), None, [0], metric=wrong),
    ):
        with pytest.raises(ValueError, match=f"Did you mean '{right}'[?]"):
            ask()
    with pytest.raises(ValueError, match=r"precomputed\.$"):  # none is near
        SourceTargetKMedoids(2, metric="gower").fit(table(6))


@pytest.mark.parametrize("metric", ["correlation", "braycurtis"])
def test_rows_without_a_distance_name_the_metric(metric):
    with pytest.raises(ValueError, match=f"^metric='{metric}': .*no finite number.* row"):
        SourceTargetKMedoids(1, metric=metric).fit(Xt=np.zeros((4, 2)))
