"""A search over pipelines: admitted as a fit admits them, at the cost of its last steps, with the choice of the same fits by hand."""

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from dplit import BoundedScaler, NoisyLloyd, PEMeans, PrivacyBudget
from dplit.inputs import DoubtWarning
from dplit.ledger import choose_n_clusters, penalised_distances, record_wise, squared_distances
from dplit.ledger.pipelines import n_columns_seen, paid_step, what_is_seen
from dplit.ledger.search import Plan
from dplit.mechanisms import Noise, watch

RNG = np.random.default_rng(0)
PEOPLE = np.column_stack([RNG.uniform(18, 90, 400), RNG.normal(5e4, 1e4, 400)])
SCALER = partial(BoundedScaler, [0.0, 0.0], [120.0, 2e5])
MODEL = partial(NoisyLloyd, epsilon=0.5, delta=1e-6, radius=2**0.5, random_state=0)


def searched(estimator, grid, X=PEOPLE, **more):
    budget = PrivacyBudget(6.0, 1e-5)
    return budget.search(estimator, grid, X, epsilon=0.5, **more), budget


def test_a_pipeline_costs_and_chooses_what_its_last_step_does_on_the_rows_that_it_sees():
    found, budget = searched(
        make_pipeline(SCALER(), MODEL()), {"noisylloyd__n_clusters": [1, 2, 3]}
    )
    alone, other = searched(MODEL(), {"n_clusters": [1, 2, 3]}, SCALER().fit_transform(PEOPLE))
    assert [*found.best_params_.values()] == [*alone.best_params_.values()]
    for pipe, model in zip(found.estimators_, alone.estimators_, strict=True):
        assert np.array_equal(pipe[-1].cluster_centers_, model.cluster_centers_)
    assert budget.spent == other.spent and budget.ledger[0][2:] == other.ledger[0][2:]
    assert found.spent_.to_dict() == alone.spent_.to_dict() == budget.receipts[0].to_dict()
    assert found.best_estimator_[-1].spent_ == found.spent_
    assert np.array_equal(
        found.best_estimator_.predict(PEOPLE), alone.best_estimator_.predict(SCALER().fit_transform(PEOPLE))
    )  # fmt: skip


def test_words_steps_and_a_scorer_of_ones_own():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"age": PEOPLE[:, 0], "where": RNG.choice(["a", "b"], 400)})
    scaler = BoundedScaler({"age": 0}, {"age": 120}, categories={"where": ["a", "b"]})
    model = MODEL(radius=1.25)
    seen = []

    def scorer(last, rows):
        seen.append((type(last), rows.shape[1]))
        return ((rows - last.cluster_centers_[0]) ** 2).sum(axis=1)

    found, budget = searched(
        make_pipeline(scaler, model), {"noisylloyd__n_clusters": [1, 2]}, frame, scorer=scorer, bound=4.0
    )  # fmt: skip
    assert {*seen} == {(NoisyLloyd, 3)} and len(budget.ledger) == 1
    assert [*found.best_estimator_[0].feature_names_in_] == ["age", "where"]
    steps = {"boundedscaler__weight": [{"where": 0.1}, {"where": 0.3}]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)  # their losses are in different units
        found, _ = searched(make_pipeline(scaler, model), steps, frame, accept_doubts=True)
    assert found.estimators_[0][0] is not found.estimators_[1][0]
    scorer = partial(penalised_distances, bound=2.0, gain=0.01)
    found, _ = searched(
        make_pipeline(scaler, model), {"noisylloyd__n_clusters": [1, 2]}, frame, scorer=scorer, bound=2.01
    )  # fmt: skip
    assert len(found.estimators_) == 2


def test_a_step_that_the_grid_names_is_fitted_by_itself():
    """The same object in two candidates would be one fit, paid twice."""
    lasts = [MODEL(n_clusters=2), MODEL(n_clusters=3)]
    grid = {"noisylloyd": lasts, "boundedscaler__weight": [1.0, 0.5]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DoubtWarning)  # half a weight is another ball
        found, budget = searched(make_pipeline(SCALER(), MODEL()), grid, accept_doubts=True)
    assert len({id(pipe[-1]) for pipe in found.estimators_}) == 4
    assert not any(hasattr(last, "spent_") for last in lasts)
    assert len(found.spent_.releases) >= 5 and len(budget.ledger) == 1


class Watched(np.ndarray):
    def _touched(self, *args, **kwargs):
        raise AssertionError("a cell was read")

    __getitem__ = __iter__ = __array__ = __array_ufunc__ = __array_function__ = _touched


WATCHED = np.zeros((300, 2)).view(Watched)
GRID = {"noisylloyd__n_clusters": [1, 2]}
WRONG = {
    "a mean": (make_pipeline(StandardScaler(), MODEL()), TypeError, "StandardScaler.*PUBLIC ranges"),
    "cached": (make_pipeline(SCALER(), MODEL(), memory="."), TypeError, "memory="),
    "too many ranges": (make_pipeline(BoundedScaler([0] * 3, [1] * 3), MODEL()), ValueError, "array of numbers"),
    "a center": (make_pipeline(SCALER(), MODEL(center=[0.0, 0.0, 0.0])), ValueError, "center"),
    "a function": (
        make_pipeline(FunctionTransformer(record_wise(lambda row: 1 / 0)), MODEL()), ValueError, "ZeroD"
    ),
    "columns": (
        make_pipeline(ColumnTransformer([("a", SCALER(), [7])]), MODEL()), (ValueError, IndexError), "features"
    ),
    "dear": (make_pipeline(SCALER(), MODEL(epsilon=9.0)), ValueError, "the limit is 6"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_public_mistake_costs_nothing(name):
    pipe, error, words = WRONG[name]
    budget = PrivacyBudget(6.0, 1e-5)
    with pytest.raises(error, match=words):
        budget.search(pipe, GRID, WATCHED, epsilon=0.5)
    assert not budget.ledger


def test_the_advice_of_a_refusal_is_true():
    """What states no cost is told what does, and that is admitted by search and fit alike."""
    from sklearn.cluster import KMeans

    budget = PrivacyBudget(6.0, 1e-5)
    for refused in (
        lambda: budget.fit(KMeans(), PEOPLE),
        lambda: budget.search(KMeans(), {"n_clusters": [1]}, PEOPLE, epsilon=0.5),
        lambda: budget.search(make_pipeline(SCALER(), KMeans()), {"kmeans__n_clusters": [1]}, PEOPLE, epsilon=0.5),
    ):  # fmt: skip
        with pytest.raises(
            TypeError, match="a Pipeline that ends with one. budget.search takes the same"
        ):
            refused()
    assert not budget.ledger


@pytest.mark.parametrize("bounds", [(0, 120), (0, [120, 2e5]), ([0, 0], [120, 2e5])])
def test_ranges_of_one_number_need_no_bound_where_the_columns_are_known(bounds):
    model = PEMeans(epsilon=0.5, delta=1e-6, bounds=bounds, random_state=0)
    plain, budget = searched(model, {"n_clusters": [1, 2]})
    given, _ = searched(model, {"n_clusters": [1, 2]}, bound=2.0)
    assert plain.best_params_ == given.best_params_ and len(budget.ledger) == 1
    piped, _ = searched(make_pipeline(model), {"pemeans__n_clusters": [1, 2]})
    assert [*piped.best_params_.values()] == [*plain.best_params_.values()]
    assert choose_n_clusters(model, [1, 2], PEOPLE, epsilon=2.0, delta=1e-6).best_params_


@pytest.mark.parametrize("bounds", [120, (0, 60, 120), [(1, 120), (5, 90)], (0, "120"), (120, 0)])
def test_bounds_that_are_none_are_refused_alike_by_fit_and_search(bounds):
    model, said = PEMeans(2, epsilon=0.5, delta=1e-6, bounds=bounds), []
    budget = PrivacyBudget(6.0, 1e-5)
    for ask in (
        lambda: budget.fit(model, WATCHED),
        lambda: budget.search(model, {"n_clusters": [1, 2]}, WATCHED, epsilon=0.5),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            ask()
        said.append(str(caught.value))
    assert said[0] == said[1] and "bound" in said[0] and not budget.ledger


def test_a_list_needs_a_bound_since_only_its_cells_have_columns():
    model = PEMeans(epsilon=0.5, delta=1e-6, bounds=(0, 120))
    budget = PrivacyBudget(6.0, 1e-5)
    with pytest.raises(ValueError, match="search over PEMeans: bound=None; give a public bound"):
        budget.search(model, {"n_clusters": [1, 2]}, [[1.0, 2.0]] * 9, epsilon=0.5)
    assert not budget.ledger


def test_what_the_last_step_sees():
    inner = make_pipeline(
        FunctionTransformer(record_wise(lambda row: row[:, [0, 0, 1]])), "passthrough"
    )
    pipe = make_pipeline(SCALER(), make_pipeline(inner, MODEL(2)))
    assert n_columns_seen(pipe, WATCHED) == 3 and n_columns_seen(MODEL(2), WATCHED) == 2
    budget = PrivacyBudget(6.0, 1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        budget.fit(pipe, PEOPLE)
    rows = SCALER().fit_transform(PEOPLE)
    assert np.array_equal(what_is_seen(pipe, PEOPLE), rows[:, [0, 0, 1]])
    assert paid_step(pipe).cluster_centers_.shape == (2, 3) and what_is_seen(MODEL(), rows) is rows


def test_one_record_moves_the_loss_of_a_candidate_by_at_most_its_bound():
    """The sensitivity of the choice, through steps that look at one record at a time."""
    from dplit.ledger.search import STEPS, bounded_loss, squared_distances

    budget = PrivacyBudget(6.0, 1e-5)
    halved = FunctionTransformer(record_wise(lambda row: np.sqrt(row), otherwise=1.0))
    pipe = make_pipeline(halved, BoundedScaler([0, 0], [11, 450]), MODEL(2))
    budget.fit(pipe, PEOPLE)
    loss = lambda X: bounded_loss(squared_distances, pipe[-1], what_is_seen(pipe, X), 2.0)  # noqa: E731
    whole, moved = loss(PEOPLE), set()
    for record in ([1e300, -1e300], [np.nan, 0.0], [0.0, 0.0], [120.0, 2e5]):
        moved.add(loss(np.r_[PEOPLE, [record]]) - whole)
        each = [loss(np.r_[PEOPLE[:i], [record], PEOPLE[i + 1 :]]) - whole for i in (0, 7, 399)]
        assert max(map(abs, each)) <= STEPS
    assert 0 <= min(moved) and max(moved) <= STEPS and len(moved) > 1


SCORERS = {
    "a typo": (lambda model, rows: model.centers_[0] * rows[:, 0], "no attribute 'centers_'"),
    "one number": (lambda model, rows: 3.0, r"shape \(\)"),
    "an error": (lambda model, rows: 1 / 0, "ZeroDivisionError"),
    "other columns": (lambda model, rows: rows @ np.ones(5), "ValueError"),
    "words": (lambda model, rows: np.array(["far"] * len(rows)), "type <U3"),
}


@pytest.mark.parametrize("name", SCORERS)
def test_a_wrong_scorer_costs_nothing_where_the_columns_are_known(name):
    scorer, words = SCORERS[name]
    budget = PrivacyBudget(6.0, 1e-5)
    grid = {"n_clusters": [1, 2]}
    for model, asked in (MODEL(), grid), (make_pipeline(SCALER(), MODEL()), GRID):
        with pytest.raises(ValueError, match=words) as told:
            budget.search(model, asked, WATCHED, scorer, epsilon=0.5, bound=4.0)
        assert not hasattr(told.value, "estimators_")
    assert not budget.ledger
    # the number of columns of a list is not public
    with pytest.raises(ValueError, match=words) as told:
        budget.search(MODEL(), grid, PEOPLE.tolist(), scorer, epsilon=0.5, bound=4.0)
    assert len(told.value.estimators_) == 2 and len(budget.ledger) == 1


def test_the_trial_of_a_scorer_changes_no_release_and_is_in_no_audit():
    events, found = [], []
    for scorer in (None, lambda model, rows: squared_distances(model, rows)):
        with watch(lambda event: events.append(event) or event.outcome):
            found.append(
                PrivacyBudget(6.0, 1e-5).search(
                    MODEL(random_state=np.random.default_rng(5)),
                    {"n_clusters": [1, 2]}, PEOPLE, scorer, epsilon=0.5, bound=2.0,
                )
            )  # fmt: skip
    half = len(events) // 2
    assert [str(one) for one in events[:half]] == [str(one) for one in events[half:]]
    first, second = (one.best_estimator_.cluster_centers_ for one in found)
    assert np.array_equal(first, second)


GRIDS = {
    "a typo": ({"n_cluster": [1]}, "no parameter 'n_cluster'. Did you mean 'n_clusters'"),
    "a number": ({"n_clusters": 3}, "a list of values for 'n_clusters'"),
    "a word": ({"variant": "paper"}, "a list of values for 'variant'"),
    "no value": ({"n_clusters": []}, "one value or more"),
    "a table": ({"n_clusters": np.ones((2, 2), int)}, "a list of values"),
    "names": (["n_clusters"], "needs a dictionary"),
    "None": (None, "needs a dictionary"),
    "a search": (GridSearchCV(MODEL(), {"n_clusters": [1]}), "needs a dictionary"),
    "a key": ({1: [2]}, "1 is not the name"),
}


@pytest.mark.parametrize("name", GRIDS)
def test_a_wrong_grid_is_refused_in_our_words(name):
    grid, words = GRIDS[name]
    budget = PrivacyBudget(6.0, 1e-5)
    with pytest.raises((TypeError, ValueError), match=f"^grid: .*{words}"):
        budget.search(MODEL(), grid, WATCHED, epsilon=0.5)
    assert not budget.ledger


@pytest.mark.parametrize(
    "wrong, right",
    [
        ("n_clusters", "noisylloyd__n_clusters"),
        ("low", "boundedscaler__low"),
        ("lloyd__n_clusters", "noisylloyd__n_clusters"),
        ("noisylloyd__n_cluster", "noisylloyd__n_clusters"),
    ],
)
def test_a_wrong_name_in_the_grid_of_a_pipeline_is_answered_by_the_right_one(wrong, right):
    budget, pipe = PrivacyBudget(6.0, 1e-5), make_pipeline(SCALER(), MODEL())
    with pytest.raises(ValueError, match=f"^grid: Pipeline has no parameter '{wrong}'.*'{right}'"):
        budget.search(pipe, {wrong: [1]}, WATCHED, epsilon=0.5)
    assert not budget.ledger


def test_lists_of_values_may_be_arrays_or_of_unequal_lengths():
    for values in ([1, 2], (1, 2), range(1, 3), np.array([1, 2])):
        assert len(searched(MODEL(), {"n_clusters": values})[0].estimators_) == 2
    found, _ = searched(MODEL(n_clusters=1), {"center": [None, [0.0, 0.0]]})
    assert len(found.estimators_) == 2


def test_what_states_no_cost_is_refused_as_a_fit_refuses_it():
    budget = PrivacyBudget(6.0, 1e-5)
    for model in (GridSearchCV(MODEL(), {"n_clusters": [1]}), NoisyLloyd, None):
        with pytest.raises(TypeError, match="states no"):
            budget.search(model, {"n_clusters": [1]}, WATCHED, epsilon=0.5)
    assert not budget.ledger


NO_CHOICE = {
    "no name": ({}, "one candidate"),
    "one value": ({"n_clusters": [2]}, "one candidate"),
    "one value each": ({"n_clusters": [2], "n_iter": (3,)}, "one candidate"),
    "a list of one": ([{}], "one candidate"),
    "no values": ({"n_clusters": [], "n_iter": [1, 2]}, "the list of values for 'n_clusters' is empty"),
    "no grids": ([], "a dictionary"),
    "twice": ({"n_clusters": [2, 3, 2]}, r"equal parameters \(n_clusters=2\)"),
    "in an array": ({"n_clusters": np.array([3, 3])}, "equal parameters"),
    "of two types": ({"n_clusters": [2, np.int64(2)]}, "equal parameters"),
    "a whole float": ({"epsilon": [1, 1.0]}, "equal parameters"),
    "what is printed": ({"verbose": [False, True]}, "'verbose' is not a parameter to search: it changes only"),
    "in two grids": ([{"n_clusters": [1, 2]}, {"n_clusters": [2, 4]}], "equal parameters"),
    "the default": ([{"n_clusters": [1, 8]}, {}], "equal parameters .those of the estimator"),
    "centers": ({"center": [np.zeros(2), np.zeros(2)]}, "equal parameters"),
    "lists": ({"n_iter": [1, 2], "center": [[0.0, 0.0], [0.0, 0.0]]}, "equal parameters"),
    "a seed": ({"random_state": [0, 1]}, "'random_state' is not a parameter to search"),
    "two seeds": ({"n_clusters": [1, 2], "random_state": [None, None]}, "'random_state' is not"),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_CHOICE)
@pytest.mark.parametrize("piped", [False, True])
def test_candidates_that_leave_no_choice_are_refused_before_a_charge(name, piped):
    grid, words = NO_CHOICE[name]
    model, budget = MODEL(random_state=None), PrivacyBudget(60.0, 1e-4)
    if piped:
        model = make_pipeline(SCALER(), model)
        named = lambda one: {f"noisylloyd__{key}": values for key, values in one.items()}  # noqa: E731
        grid = [*map(named, grid)] if isinstance(grid, list) else named(grid)
        words = words.replace("'n_c", "'noisylloyd__n_c").replace("(n_c", "(noisylloyd__n_c")
        words = words.replace("'random", "'noisylloyd__random").replace(
            "'verb", "'noisylloyd__verb"
        )
    with pytest.raises((TypeError, ValueError), match=f"^grid: .*{words}"):
        budget.search(model, grid, WATCHED, epsilon=0.5)
    assert not budget.ledger


def test_equal_steps_are_equal_candidates_and_different_ones_are_not():
    pipe, budget = make_pipeline(SCALER(), MODEL()), PrivacyBudget(6.0, 1e-5)
    with pytest.raises(ValueError, match="^grid: two candidates have equal parameters"):
        budget.search(pipe, {"noisylloyd": [MODEL(n_clusters=3)] * 2}, WATCHED, epsilon=0.5)
    with pytest.raises(ValueError, match="^grid: two candidates have equal parameters"):
        twins = [MODEL(n_clusters=3), MODEL(n_clusters=3)]
        budget.search(pipe, {"noisylloyd": twins}, WATCHED, epsilon=0.5)
    assert not budget.ledger
    grid = [{"n_clusters": [1, 2]}, {"n_clusters": [1, 2], "n_iter": [1]}]
    assert len(searched(MODEL(), grid)[0].estimators_) == 4
    found, _ = searched(MODEL(n_clusters=1), {"center": [np.zeros(2), np.array([0.0, 0.1])]})
    assert len(found.estimators_) == 2


@pytest.mark.parametrize("grid", [[3], (3,), range(3, 4), [2, 2], []])
def test_one_number_of_clusters_leaves_no_choice(grid):
    with pytest.raises(ValueError, match="^n_clusters: .* two or more, each once"):
        choose_n_clusters(MODEL(), grid, WATCHED, epsilon=1.0, delta=1e-6)


def test_a_search_without_the_cost_of_its_choice_says_what_is_missing():
    for asked in ({}, {"epsilon": None}):
        with pytest.raises(ValueError, match="^epsilon=None: search needs the privacy cost of the choice"):  # fmt: skip
            PrivacyBudget(6.0, 1e-5).search(MODEL(), {"n_clusters": [1, 2]}, WATCHED, **asked)


USELESS = {
    "NaN": (lambda model, rows: np.full(len(rows), np.nan), "NaN or fails for each of"),
    "a root": (lambda model, rows: np.sqrt(-1.0 - rows[:, 0] ** 2), "NaN or fails for each of"),
    "a score": (lambda model, rows: -1.0 - squared_distances(model, rows), "return the bound minus"),
    "-inf": (lambda model, rows: np.full(len(rows), -np.inf), "return the bound minus"),
}  # fmt: skip


@pytest.mark.parametrize("name", USELESS)
def test_a_scorer_that_tells_nothing_on_public_rows_costs_nothing(name):
    scorer, words = USELESS[name]
    budget = PrivacyBudget(6.0, 1e-5)
    for model, grid in (MODEL(), {"n_clusters": [1, 2]}), (make_pipeline(SCALER(), MODEL()), GRID):
        with pytest.raises(ValueError, match=f"^the scorer returns .*{words}") as told:
            budget.search(model, grid, WATCHED, scorer, epsilon=0.5, bound=4.0)
        assert "before the charge" in told.value.__notes__[0]
    assert not budget.ledger


def test_a_scorer_with_equal_losses_on_public_rows_is_doubted_and_others_are_not():
    def asked(scorer, bound=4.0):
        with warnings.catch_warnings(record=True, action="always") as heard:
            ask = {"scorer": scorer, "bound": bound, "accept_doubts": True}
            searched(MODEL(), {"n_clusters": [1, 2]}, **ask)
        return [str(w.message) for w in heard if issubclass(w.category, DoubtWarning)]

    budget, constant = PrivacyBudget(6.0, 1e-5), lambda model, rows: np.full(len(rows), 2.0)
    with pytest.raises(ValueError, match="returns the same loss for each of"):
        budget.search(MODEL(), {"n_clusters": [1, 2]}, PEOPLE, constant, epsilon=0.5, bound=4.0)
    assert not budget.ledger
    (said,) = asked(constant)
    assert said.startswith(
        "in doubt: the scorer: between 0 and bound=4 it returns the same loss for"
    )
    for scorer in (
        lambda model, rows: 9.0 + squared_distances(model, rows),
        lambda model, rows: np.sqrt(rows[:, 0] - 100.0),
        lambda model, rows: np.where(rows[:, 0] > 0, -1.0, 0.0),
    ):
        assert len(asked(scorer)) == 1
    # a loss that is NaN, or negative, for some rows only is none of these
    for scorer in (
        None,
        lambda model, rows: np.where(rows[:, 0] > 0, np.nan, 1.0),
        lambda model, rows: np.where(rows[:, 0] > 0, -1.0, np.nan),
    ):
        assert asked(scorer) == []


IN_OTHER_UNITS = {  # a grid whose candidates measure their losses each in its own units, and the estimator
    "bounds": (
        partial(NoisyLloyd, 2, epsilon=0.5, delta=1e-6, bounds=([0, 0], [120, 2e5])),
        {"bounds": [([0, 0], [1, 1]), ([0, 0], [120, 2e5])]},
    ),
    "the ends of a scaler": (
        lambda: make_pipeline(SCALER(), MODEL(2)),
        {"boundedscaler__high": [[120, 2e5], [1e6, 1e9]]},
    ),
    "a weight": (
        lambda: make_pipeline(SCALER(), MODEL(2)),
        {"boundedscaler__weight": [{}, {1: 0.001}], "noisylloyd__n_clusters": [1, 2]},
    ),
    "another step": (
        lambda: make_pipeline(SCALER(), MODEL(2)),
        {"boundedscaler": [SCALER(), BoundedScaler([0, 0], [240, 2e5])]},
    ),
}


@pytest.mark.parametrize("how", IN_OTHER_UNITS)
def test_losses_in_other_units_are_not_compared(how):
    """The candidate that clips all rows, or has ranges far too wide, has the smallest loss, and was chosen."""
    make, grid = IN_OTHER_UNITS[how]
    budget = PrivacyBudget(6.0, 1e-5)
    with pytest.raises(ValueError, match="the losses cannot be compared"):
        budget.search(make(), grid, PEOPLE, epsilon=0.5)
    assert not budget.ledger
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert budget.search(make(), grid, PEOPLE, epsilon=0.5, accept_doubts=True)


def test_what_is_measured_in_one_unit_is_compared():
    """Ranges that are the same for all; other ranges with a scorer of one's own, which gets the rows as they are."""
    grid = {"n_clusters": [1, 2], "bounds": [([0, 0], [120, 2e5])]}
    model = NoisyLloyd(epsilon=0.5, delta=1e-6, bounds=([0, 0], [120, 2e5]), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DoubtWarning)
        searched(model, grid)

        def by_hand(model, rows):
            away = (rows[:, None] - model.cluster_centers_) / [120, 2e5]
            return (away**2).sum(axis=2).min(axis=1)

        other = {"bounds": [([0, 0], [120, 2e5]), ([0, 0], [150, 3e5])]}
        searched(model.set_params(n_clusters=2), other, scorer=by_hand, bound=2.0)


def test_the_bound_of_a_loss_is_that_of_the_largest_ball():
    """It was that of the first candidate."""
    for radii in ([1.0, 3.0], [3.0, 1.0]):
        plan = Plan.of(MODEL(2), {"radius": radii}, None, 0.5, None, PEOPLE)
        assert plan.bound == 9.0


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_the_choice_is_sharper_where_a_record_moves_all_losses_in_one_direction(
    monkeypatch, relation
):
    """Sums of nonnegative losses: under add/remove the mechanism needs half the noise. Mutation: it is not told."""
    asked, draw = [], Noise.exponential

    def noted(*args, **given):
        asked.append(given)
        return draw(*args, **given)

    monkeypatch.setattr(Noise, "exponential", noted)
    PrivacyBudget(6.0, 1e-4, neighboring=relation).search(
        NoisyLloyd(epsilon=0.5, delta=1e-6, radius=1.0, neighboring=relation),
        {"n_clusters": [1, 2]},
        np.full((30, 2), 0.5),
        epsilon=0.5,
    )
    assert [given["monotone"] for given in asked] == [relation == "add_remove"]


def test_other_last_steps_are_compared_on_the_same_rows():
    """It was said that each measured after its own scaling."""
    pipe, budget = make_pipeline(SCALER(), MODEL()), PrivacyBudget(6.0, 1e-5)
    grid = {"noisylloyd": [MODEL(n_clusters=1), PEMeans(2, epsilon=0.5, delta=1e-6, radius=2.0)]}
    with warnings.catch_warnings(action="error", category=DoubtWarning):
        Plan.of(pipe, grid, None, 0.5, None)
    with pytest.warns(DoubtWarning, match="measured after its own scaling"):
        Plan.of(pipe, {"boundedscaler": [SCALER(), BoundedScaler(-9, 9)]}, None, 0.5, None)
    assert not budget.ledger
