"""A private loss and its interval, and the private choice of the number of clusters."""

import math

import numpy as np
import pytest
from scipy import special, stats
from sklearn.base import BaseEstimator
from test_estimators import Untouchable

from dplit import KTupleKMeans, NoisyLloyd, PrivacyBudget
from dplit.accounting import Receipt, Release, gaussian_mu
from dplit.audit import neighbors, replay
from dplit.ledger import choice_error, choose_n_clusters, penalised_distances, search_budget
from dplit.mechanisms import (
    Noise,
    lattice_distribution,
    loss_interval,
    loss_parts,
    private_loss,
)
from dplit.mechanisms.loss import difference_quantile

relations = pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
both = pytest.mark.parametrize("delta", [0.0, 1e-6])
rng = np.random.default_rng(0)
CENTERS = np.array([[0.0, 0.0], [2.0, 1.0]])
SETS = {
    "a cloud": rng.normal(size=(500, 2)),
    "30 rows": rng.normal(size=(30, 2)),
    "little is lost": CENTERS[rng.integers(2, size=400)] + 0.05 * rng.normal(size=(400, 2)),
    "much is lost": np.r_[np.full((300, 2), 9.0), rng.normal(size=(100, 2))],
}
BOUND = 4.0


def truth(rows, bound=BOUND):
    squares = ((rows[:, None] - CENTERS) ** 2).sum(axis=2).min(axis=1)
    return np.minimum(squares, bound).mean()


# ---------------------------------------------------------------- the interval


CASES = [(name, "add_remove", 0.0) for name in SETS]
CASES += [("a cloud", "add_remove", 1e-6), ("30 rows", "add_remove", 1e-6)]
CASES += [("much is lost", "replace", 0.0), ("a cloud", "replace", 1e-6)]


@pytest.mark.parametrize(("name", "neighboring", "delta"), CASES)
def test_an_interval_has_the_loss_of_these_rows_as_often_as_it_says(name, neighboring, delta):
    """1,200 repetitions at 95 %: 93 to 97.5 % but for a probability of 1.5e-3; half the noise is found out."""
    noise, rows = Noise(7, neighboring=neighboring), SETS[name]
    runs, hits = 1200, np.zeros(2)
    cost = {"mu": gaussian_mu(0.5, delta)} if delta else {"epsilon": 0.5}
    kind, fixed = "gaussian" if delta else "laplace", neighboring == "replace"
    share = truth(rows) / BOUND
    for _ in range(runs):
        *sums, scale = loss_parts(CENTERS, rows, bound=BOUND, noise=noise, **cost)
        for i, claimed in enumerate((scale, scale / 2)):
            low, high = loss_interval(*sums, claimed, kind, fixed_rows=fixed)
            hits[i] += low <= share <= high
    alarm = stats.binom.cdf(1115, runs, 0.95) + stats.binom.sf(1170, runs, 0.95)
    assert alarm < 1.5e-3
    assert 1116 <= hits[0] <= 1170 and hits[1] < 1080


@pytest.mark.parametrize(
    ("one", "other"), [(1.0, 0.0), (0.7, 0.3), (0.5, 0.5), (0.2, 0.8), (0.50002, 0.49998)]
)
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_the_quantile_of_a_difference_is_that_of_its_exact_distribution_on_the_lattice(
    kind, one, other
):
    """The two lattice laws, folded exactly; one step is a two hundredth of the larger scale."""
    steps = np.arange(-8000, 8001)
    laws = [
        lattice_distribution(kind, 200 * s, steps) if s else (steps == 0) * 1.0
        for s in (one, other)
    ]
    difference = np.convolve(*laws, mode="same")
    for confidence in (0.5, 0.9, 0.95, 0.999):
        reach = 200 * difference_quantile(kind, one, other, confidence)
        inside = lambda t: difference[np.abs(steps) <= t].sum()  # noqa: E731
        assert inside(reach - 2) <= confidence <= inside(reach + 2)


def test_an_interval_ends_where_noise_no_longer_explains_the_sums():
    for kind in ("gaussian", "laplace"):
        for lost, kept in ((30.0, 70.0), (5.0, 400.0), (-3.0, 90.0), (60.0, -2.0), (2.0, 3.0)):
            low, high = loss_interval(lost, kept, 2.0, kind)
            shares = np.linspace(0, 1, 4001)
            allowed = [difference_quantile(kind, 2 * (1 - s), 2 * s) for s in shares]
            inside = shares[np.abs((1 - shares) * lost - shares * kept) <= allowed]
            if len(inside):
                assert abs(low - inside.min()) < 3e-4 and abs(high - inside.max()) < 3e-4
        # without noise, what the lattice rounds is left
        ends = loss_interval(30.0, 70.0, 1e-12, kind)
        assert ends == pytest.approx((0.3 - 2**-20, 0.3 + 2**-20), abs=1e-9)
    assert loss_interval(-1.0, 0.5, 1.0, "laplace") == (0.0, 1.0)


# ---------------------------------------------------------------- its price


class Asks(BaseEstimator):
    """`private_loss` as an estimator that an audit can fit."""

    def __init__(self, epsilon=1.0, delta=0.0, neighboring="add_remove", random_state=0):
        self.epsilon, self.delta = epsilon, delta
        self.neighboring, self.random_state = neighboring, random_state

    def fit(self, X):
        found = private_loss(CENTERS, X, radius=4.0, **self.get_params())
        self.value_, self.spent_ = found[:-1], found.spent_
        return self


@relations
@both
def test_replay_finds_nothing_in_a_private_loss(neighboring, delta):
    """A false alarm has probability 1e-6."""
    pairs = neighbors(2, 4.0, neighboring=neighboring)
    found = replay(Asks(delta=delta, neighboring=neighboring), pairs, seeds=range(3))
    assert not found, found


@relations
@both
def test_a_private_loss_costs_what_was_asked_exactly(neighboring, delta):
    cost = {"epsilon": 0.7, "delta": delta, "neighboring": neighboring}
    found = private_loss(CENTERS, SETS["a cloud"], bound=BOUND, random_state=0, **cost)
    assert 0.7 * (1 - 1e-6) < found.spent_.epsilon <= 0.7 * (1 + 1e-9)
    assert found.spent_.delta == delta and found.spent_.neighboring == neighboring
    assert 0 <= found.low <= found.value <= found.high <= BOUND
    assert (found.n_rows == 500) == (neighboring == "replace")


def test_a_row_moves_the_two_sums_by_the_bound_and_no_more():
    """Without noise to speak of: what is lost and what is kept add up to the bound for each row."""
    rows, noise = SETS["much is lost"], Noise(0)
    lost, kept, scale = loss_parts(CENTERS, rows, bound=BOUND, noise=noise, epsilon=1e6)
    assert lost == pytest.approx(truth(rows) * len(rows), abs=1e-3)
    assert lost + kept == pytest.approx(BOUND * len(rows), abs=2e-3)
    assert scale == pytest.approx(BOUND / 1e6)


def test_an_estimator_brings_its_centers_and_its_radius():
    rows = SETS["a cloud"]
    model = NoisyLloyd(2, epsilon=1.0, delta=1e-6, radius=4.0, random_state=0).fit(rows)
    one = private_loss(model, rows, epsilon=1.0, random_state=3)
    two = private_loss(model.cluster_centers_, rows, epsilon=1.0, bound=64.0, random_state=3)
    assert one[:4] == two[:4] and one.spent_ == two.spent_


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"centers": [[0.0]]}, "centers"),
        ({"centers": [[np.nan, 0.0]]}, "centers"),
        ({"bound": None}, "bound"),
        ({"bound": -1.0}, "bound"),
        ({"epsilon": None}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"confidence": 0.3}, "confidence"),
        ({"neighboring": "near"}, "neighboring"),
        ({"X": [[7.25, np.nan]]}, "finite"),
        ({"X": [7.25]}, "X"),
    ],
)
def test_an_impossible_loss_is_refused_in_a_sentence_that_quotes_no_row(change, words):
    given = {"centers": CENTERS, "X": [[7.25, 0.0]], "bound": BOUND, "epsilon": 1.0} | change
    with pytest.raises((TypeError, ValueError), match=words) as caught:
        private_loss(given.pop("centers"), given.pop("X"), **given)
    assert "7.25" not in str(caught.value)


# ---------------------------------------------------------------- how many clusters

GROUPS = np.repeat([[-6.0, 0.0], [6.0, 0.0]], 1500, axis=0) + rng.normal(size=(3000, 2))


@relations
def test_a_search_costs_what_was_asked_on_one_receipt(neighboring):
    model = NoisyLloyd(radius=10.0, neighboring=neighboring, random_state=0)
    found = choose_n_clusters(model, [3, 1, 2], GROUPS, epsilon=2.0, delta=1e-6, gain=5.0)
    assert 2.0 * (1 - 1e-5) < found.spent_.epsilon <= 2.0 and found.spent_.delta == 1e-6
    assert sum("choice" in release.label for release in found.spent_.releases) == 1
    assert [model.n_clusters for model in found.estimators_] == [1, 2, 3]
    assert found.best_params_ == {"n_clusters": 2} and found.best_estimator_.spent_ == found.spent_
    assert model.get_params()["epsilon"] is None  # as it was


def test_the_gain_decides_and_a_free_cluster_is_taken():
    model = NoisyLloyd(radius=10.0, random_state=1)
    for gain, wanted in ((200.0, 1), (5.0, 2)):
        found = choose_n_clusters(
            model, [1, 2], GROUPS, epsilon=4.0, delta=1e-6, gain=gain, bound=400.0
        )
        assert found.best_params_ == {"n_clusters": wanted}


@pytest.mark.parametrize("gain", [100.0, -1.0, math.inf])
def test_a_gain_that_no_cluster_can_reach_is_refused_before_rows_are_read(gain):
    with pytest.raises(ValueError, match=r"gain=.*\[0, 100\)"):
        choose_n_clusters(
            NoisyLloyd(radius=10.0), [1, 2], Untouchable(), epsilon=1.0, delta=1e-6, gain=gain
        )
    model = NoisyLloyd(1, radius=10.0, epsilon=1.0, delta=1e-6, random_state=0).fit(GROUPS)
    with pytest.raises(ValueError, match=r"gain=.*\[0, 100\)"):
        penalised_distances(model, GROUPS, bound=100.0, gain=gain)


@relations
@pytest.mark.parametrize("n_fits", [1, 7, 30])
def test_costs_of_a_search_add_up_to_the_whole_and_waste_nothing(n_fits, neighboring):
    (epsilon, delta), choice = search_budget(n_fits, 1.0, 1e-6, neighboring=neighboring)
    fits = Release("fit", "gaussian", mu=gaussian_mu(epsilon, delta), times=n_fits)
    whole = Receipt([fits, Release("choice", "exponential", epsilon=choice)], neighboring, 1e-6)
    assert 1 - 1e-4 < whole.epsilon <= 1.0
    (epsilon, delta), choice = search_budget(n_fits, 1.0, 1e-6, gaussian=False)
    assert n_fits * epsilon + choice <= 1.0 and n_fits * delta <= 1e-6 * (1 + 1e-12)


def test_fits_that_are_not_gaussian_are_added_up():
    model = KTupleKMeans(radius=10.0, n_tuples=200, random_state=0)
    with pytest.warns(UserWarning):  # so few rows: the parts do not agree
        found = choose_n_clusters(model, [2, 3], GROUPS, epsilon=8.0, delta=1e-4)
    assert found.spent_.epsilon_at(1e-4) <= 8.0


@relations
def test_the_choice_is_worse_than_the_best_by_no_more_than_proved(neighboring):
    """Exact. The hardest losses come close to beta."""
    factor, allowed = (1 if neighboring == "add_remove" else 2), None
    for m, epsilon, bound in ((2, 0.5, 1.0), (9, 0.1, 3.0)):
        allowed = choice_error(m, bound, epsilon, 0.05, neighboring)
        sums = np.full(m, allowed * (1 + 1e-9))
        sums[0] = 0.0
        missed = special.softmax(-epsilon * sums / (factor * bound))[1:].sum()
        assert 0.04 < missed <= 0.05


def test_a_penalty_is_the_same_for_each_row_and_a_budget_can_search_by_it():
    model = NoisyLloyd(3, epsilon=1.0, delta=1e-6, radius=10.0, random_state=0).fit(GROUPS)
    plain = penalised_distances(model, GROUPS, bound=50.0, gain=0.0)
    dear = penalised_distances(model, GROUPS, bound=50.0, gain=2.0, least=1)
    assert np.allclose(dear - plain, 4.0) and plain.max() <= 50.0 and plain.min() >= 0
    budget = PrivacyBudget(5.0, 1e-4)
    scorer = lambda fit, rows: penalised_distances(fit, rows, bound=100.0, gain=5.0)  # noqa: E731
    grid = {"n_clusters": [1, 2, 3]}
    found = budget.search(model, grid, GROUPS, scorer, epsilon=0.5, bound=110.0)
    assert found.best_params_ == {"n_clusters": 2} and math.isfinite(budget.spent.epsilon)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_clusters": []}, "n_clusters"),
        ({"n_clusters": [2, 2]}, "n_clusters"),
        ({"n_clusters": [0, 1]}, "n_clusters"),
        ({"n_clusters": 3}, "n_clusters"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"gain": -1.0}, "gain"),
        ({"bound": np.inf}, "bound"),
        ({"share": 1.0}, "share"),
        ({"estimator": 3}, "estimator"),
        ({"estimator": NoisyLloyd()}, "radius"),
    ],
)
def test_an_impossible_search_is_refused_in_a_sentence(change, words):
    given = {"estimator": NoisyLloyd(radius=1.0), "n_clusters": [1, 2], "epsilon": 1.0}
    given |= {"delta": 1e-6} | change
    with pytest.raises((TypeError, ValueError), match=words):
        choose_n_clusters(given.pop("estimator"), given.pop("n_clusters"), GROUPS, **given)


def test_swapped_columns_are_refused():
    frame = pytest.importorskip("polars").DataFrame({"a": [0.0, 1.0, 2.0], "b": [5.0, 4.0, 6.0]})
    model = NoisyLloyd(1, epsilon=1.0, delta=1e-6, radius=9.0, random_state=0).fit(frame)
    with pytest.raises(ValueError, match="order"):
        private_loss(model, frame[["b", "a"]], epsilon=1.0)
