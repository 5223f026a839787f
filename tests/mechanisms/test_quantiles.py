"""Private quantiles and radii: what each promises, exactly where the law is known, and by replay."""

import itertools
import math
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats
from sklearn.base import BaseEstimator

from dplit.accounting import pure_mu
from dplit.audit import neighbors, replay
from dplit.inputs import UnreadableRecords, map_blocks
from dplit.mechanisms import (
    Noise,
    histogram_quantile_error,
    private_quantile,
    private_radius,
    quantile_cell,
    quantile_error,
    radius_cells,
)
from dplit.mechanisms.quantiles import PARTS, gap_sensitivity, rank_gaps

relations = pytest.mark.parametrize("neighboring", ["add_remove", "replace"])


class Asks(BaseEstimator):
    """A function that returns what is released and a receipt, as an estimator that an audit can fit."""

    def __init__(self, ask=None, epsilon=1.0, delta=0.0, neighboring="add_remove", random_state=0):
        self.ask, self.epsilon, self.delta = ask, epsilon, delta
        self.neighboring, self.random_state = neighboring, random_state

    def fit(self, X):
        cost = {"epsilon": self.epsilon, "neighboring": self.neighboring}
        found = self.ask(X, **cost, random_state=self.random_state)
        self.value_, self.spent_ = found[:-1], found[-1]
        return self


def ask_quantile(X, **cost):
    return private_quantile(np.asarray(X)[:, 0], 0.3, low=-5.0, high=5.0, n_cells=40, **cost)


def ask_radius(X, **cost):
    return private_radius(X, 0.7, radius=4.0, center=[0.5, 0.0], **cost)


ASK = {"quantile": ask_quantile, "radius": ask_radius}


@relations
@pytest.mark.parametrize("kind", ASK)
def test_replay_finds_nothing_in_a_quantile_and_a_radius(kind, neighboring):
    """A false alarm has probability 1e-6."""
    pairs = neighbors(2, 4.0, neighboring=neighboring)
    found = replay(Asks(ASK[kind], neighboring=neighboring), pairs, seeds=range(3))
    assert not found, found


def ask_with_half(X, *, epsilon, neighboring, random_state):
    """A choice that is told half of how far the gaps move."""
    noise = Noise(random_state, neighboring=neighboring)
    edges = np.r_[0, 2.0 ** np.arange(-6, 3), np.inf]
    gaps = rank_gaps(np.histogram(np.linalg.norm(X, axis=1), edges)[0], 0.7) / PARTS
    told = gap_sensitivity(0.7, neighboring) / PARTS / 2
    return noise.exponential(-gaps, sensitivity=told, epsilon=epsilon), noise.receipt()


@relations
def test_replay_finds_a_gap_that_is_told_half_of_its_sensitivity(neighboring):
    pairs = [pair for pair in neighbors(2, 4.0, neighboring=neighboring) if "NaN" not in pair[0]]
    asks = Asks(ask_with_half, neighboring=neighboring)
    found = replay(asks, pairs, seeds=range(3), stop=True)
    assert any("times the declared sensitivity" in sentence for sentence in found)


def by_definition(counts, q):
    """Rows that must change sides, in exact fractions of a part."""
    n, whole = int(sum(counts)), round(q * PARTS)
    before = [sum(map(int, counts[:j])) for j in range(len(counts) + 1)]
    return [
        max(0, PARTS * before[j] - whole * n, whole * n - PARTS * before[j + 1])
        for j in range(len(counts))
    ]


def test_gaps_are_those_of_the_definition_and_some_gap_is_zero():
    rng = np.random.default_rng(0)
    for _ in range(300):
        counts = rng.integers(0, 10 ** rng.integers(1, 8), size=rng.integers(1, 30))
        q = float(rng.choice([0.0, 1.0, 0.5, rng.random()]))
        gaps = rank_gaps(counts, q)
        assert gaps.tolist() == by_definition(counts, q) and gaps.min() == 0
        assert np.array_equal(gaps.astype(float).astype(np.int64), gaps)  # exact as scores


@relations
def test_a_gap_moves_as_far_as_it_says_and_sometimes_that_far(neighboring):
    rng, widest = np.random.default_rng(1), {}
    for trial in range(3000):
        q = (0.1, 0.5, 0.75)[trial % 3]
        counts = rng.integers(0, 6, size=5)
        other = counts.copy()
        other[rng.integers(5)] += 1
        if neighboring == "replace":
            at = rng.integers(5)
            if not other[at]:
                continue
            other[at] -= 1
        moved = np.abs(rank_gaps(other, q) - rank_gaps(counts, q)).max()
        widest[q] = max(widest.get(q, 0), moved)
    for q, moved in widest.items():
        assert moved <= gap_sensitivity(q, neighboring) <= moved * (1 + 1e-6)


@relations
@pytest.mark.parametrize(
    ("m", "q", "epsilon"), [*itertools.product((2, 30), (0.1, 0.5), (0.2, 2.0))]
)
def test_the_rank_is_off_by_more_than_proved_as_rarely_as_guaranteed(m, q, epsilon, neighboring):
    """Exact: the law of the choice is known. The hardest histogram comes close to beta."""
    rng, beta = np.random.default_rng(2), 0.05
    bound = quantile_error(m, q, epsilon, beta, neighboring)
    scale = 2 * gap_sensitivity(q, neighboring) / epsilon
    crowd = np.zeros(m, dtype=int)
    crowd[0] = math.ceil(bound / (1 - q)) + 1  # all other cells are just too far
    shapes = [crowd, *(rng.multinomial(2000, rng.dirichlet(np.full(m, 0.1))) for _ in range(50))]
    missed = []
    for counts in shapes:
        gaps = rank_gaps(counts, q)
        missed.append(special.softmax(-gaps / scale)[gaps > bound * PARTS].sum())
    assert max(missed) <= beta and missed[0] > (0.02 if epsilon < 1 else 0.002)


def test_the_choice_has_the_distribution_of_the_exponential_mechanism():
    """2,000 choices against the law, chi square: a false alarm has probability 1e-6; half the noise is found."""
    counts, q, epsilon = np.array([3, 0, 4, 1, 2]), 0.5, 0.8
    bins, noise = np.repeat(np.arange(5), counts), Noise(0)
    drawn = [quantile_cell(bins, 5, q, epsilon=epsilon, noise=noise) for _ in range(2000)]
    seen = np.bincount(drawn, minlength=5)

    def law(e):
        return special.softmax(-rank_gaps(counts, q) * e / (2 * gap_sensitivity(q)))

    assert stats.chisquare(seen, 2000 * law(epsilon)).pvalue > 1e-6
    assert stats.chisquare(seen, 2000 * law(2 * epsilon)).pvalue < 1e-6


def test_the_variance_of_a_noisy_count_is_that_of_rounded_noise():
    """Mutation: without the 1/12 of rounding. At mu = 1 it is 8% of the variance, whose standard error here is .3%."""
    mu, beta = 1.0, 0.05
    bound = histogram_quantile_error(1, 0.0, mu, beta=beta)
    exact = math.sqrt(1 / mu**2 + 1 / 12) * special.ndtri(1 - beta / 2)
    assert bound == pytest.approx(exact, rel=1e-9)
    drawn = Noise(0).histogram(np.zeros(0, dtype=int), 200_000, mu=mu)
    assert np.mean(np.square(drawn)) == pytest.approx(1 / mu**2 + 1 / 12, rel=0.015)


def test_a_quantile_of_a_noisy_histogram_is_off_by_no_more_than_proved():
    """Of 400 at 95 %, 36 or more are off with probability 4e-4; the bound is at most 1.5 times what is needed."""
    gen, m, q, mu = np.random.default_rng(3), 20, 0.3, 0.2
    counts = gen.multinomial(3000, gen.dirichlet(np.full(m, 0.5)))
    bins, noise = np.repeat(np.arange(m), counts), Noise(1)
    bound, gaps, off, errors = histogram_quantile_error(m, q, mu), rank_gaps(counts, q), [], []
    for _ in range(400):
        noisy = noise.histogram(bins, m, mu=mu)
        off.append(gaps[rank_gaps(noisy, q).argmin()] / PARTS)
        before = np.r_[0, np.cumsum(noisy - counts)]
        errors.append(np.abs(before - q * before[-1]).max())
    assert (np.array(off) > bound).sum() < 36
    assert bound / 1.5 < np.quantile(errors, 0.95) <= bound


def test_one_choice_is_proved_better_than_a_histogram_from_a_few_cells_on():
    for epsilon in (0.05, 0.5, 2.0):
        mu = pure_mu(epsilon, bounded_range=True)
        for m in (10, 100, 1000):
            assert quantile_error(m, 0.5, epsilon) < histogram_quantile_error(m, 0.5, mu)
        assert quantile_error(2, 0.5, epsilon) > histogram_quantile_error(2, 0.5, mu) - 1 / epsilon


@relations
def test_a_radius_holds_the_share_it_says_up_to_what_is_proved(neighboring):
    """Each of 60 is off with probability 5 % at most: 14 or more with 2e-7."""
    X = np.random.default_rng(4).normal(size=(3000, 3)) + [1, 0, 0]
    lengths, off = np.linalg.norm(X - [1, 0, 0], axis=1), 0
    for seed in range(60):
        found = private_radius(
            X,
            0.8,
            radius=500.0,
            center=[1, 0, 0],
            epsilon=0.3,
            neighboring=neighboring,
            random_state=seed,
        )
        low, high = found.cell
        assert found.value == high <= 1.06 * low and found.spent_.epsilon == pytest.approx(0.3)
        slack = 1e-3  # rounding to the lattice of 500
        holds, below = (lengths <= high + slack).sum(), (lengths < low - slack).sum()
        off += holds < 0.8 * 3000 - found.within or below > 0.8 * 3000 + found.within
    assert off < 14


def test_a_quantile_is_near_whatever_the_rows_are_and_none_are_refused():
    same = np.full(500, 0.25)  # all rows in one cell
    found = private_quantile(same, 0.5, low=0, high=1, n_cells=100, epsilon=1.0, random_state=0)
    assert found.cell[0] < 0.25 <= found.cell[1] + 1e-12
    far = private_quantile(same + 7, 0.5, low=0, high=1, epsilon=1.0, random_state=0)
    assert far.cell[1] == 1.0
    nobody = private_quantile([], 0.5, low=0, high=1, epsilon=1.0, random_state=0)
    assert 0 <= nobody.value <= 1 and nobody.spent_.epsilon == 1.0


@pytest.mark.parametrize(("smallest", "ratio"), [(0.5, 2.0), (0.5, 3.0), (4.0, 2.0), (0.01, 1.05)])
def test_the_cells_of_a_radius_end_at_it_once(monkeypatch, smallest, ratio):
    """Mutation: a last cell without width, which may be chosen too."""
    asked = []

    def chosen(bins, edges, *_):
        asked.append(edges)
        return (edges[0], edges[1]), 0, None

    monkeypatch.setattr("dplit.mechanisms.quantiles._chosen", chosen)
    private_radius(np.zeros((3, 2)), radius=4.0, epsilon=1.0, smallest=smallest, ratio=ratio)
    [edges] = asked
    assert edges[:2].tolist() == [0.0, smallest] and edges[-1] == 4.0
    steps = edges[2:] / edges[1:-1]
    assert np.all(np.diff(edges) > 0) and np.all(steps <= ratio * (1 + 1e-12))
    assert steps[:-1] == pytest.approx(ratio)


def test_the_cell_of_a_row_does_not_depend_on_its_company():
    X = np.random.default_rng(5).normal(size=(1000, 4))
    edges = np.geomspace(0.1, 6.0, 200)

    def take(rows):
        cells = map_blocks(lambda start, block: block.ravel(), radius_cells(rows, edges), 128)
        return np.concatenate(list(cells))

    together = take(X)
    assert np.array_equal(together, np.concatenate([take(row[None]) for row in X]))
    assert np.array_equal(together[::-1], take(X[::-1]))
    step = 6.0 / 2**20
    inside = np.linalg.norm(X, axis=1)
    at = together.astype(int)
    assert np.all(inside <= edges[at] + 4 * step)
    assert np.all(inside[at > 0] > edges[at[at > 0] - 1] - 4 * step)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: private_quantile([[1.0]], low=0, high=1, epsilon=1.0), "cannot be used"),
        (lambda: private_quantile(["7.5"], low=0, high=1, epsilon=1.0), "cannot be used"),
        (lambda: private_quantile(np.eye(2), low=0, high=1, epsilon=1.0), "one-dimensional"),
        (lambda: private_quantile([np.nan], low=0, high=1, epsilon=1.0), "finite"),
        (lambda: private_quantile([1.0], low=1, high=1, epsilon=1.0), "high"),
        (lambda: private_quantile([1.0], 1.5, low=0, high=1, epsilon=1.0), "q="),
        (lambda: private_quantile([1.0], low=0, high=1, epsilon=0.0), "epsilon"),
        (lambda: private_quantile([1.0], low=0, high=1, epsilon=1.0, n_cells=0), "n_cells"),
        (lambda: private_radius([[1.0, 7.25]], radius=None, epsilon=1.0), "radius"),
        (lambda: private_radius([[1.0, 7.25]], radius=1, center=[0], epsilon=1.0), "center"),
        (lambda: private_radius([[1.0, np.inf]], radius=1, epsilon=1.0), "finite"),
        (lambda: private_radius([[1.0, 7.25]], radius=1, epsilon=1.0, smallest=2), "smallest"),
        (lambda: private_radius([[1.0, 7.25]], radius=1, epsilon=1.0, ratio=1), "ratio"),
    ],
)
def test_what_is_impossible_is_refused_in_a_sentence_that_quotes_no_row(call, words):
    with pytest.raises((TypeError, ValueError), match=words) as caught:
        call()
    assert "7.25" not in str(caught.value) and "7.5" not in str(caught.value)


def test_a_masked_cell_is_refused():
    values = np.ma.array([1, 2, 3, 1000], mask=[0, 0, 0, 1])
    with pytest.raises(ValueError, match="masked"):
        private_quantile(values, low=0, high=1000, epsilon=1.0)


def test_ties_may_put_the_middle_of_a_cell_far_from_the_rank_but_not_its_ends():
    values = np.full(5000, 0.01)
    for seed in range(20):
        found = private_quantile(values, low=0, high=1024, epsilon=1.0, random_state=seed)
        before, upto = (values < found.cell[0]).sum(), (values < found.cell[1]).sum()
        assert before <= 2500 + found.within and upto >= 2500 - found.within


def test_a_ball_holds_the_rows_that_the_lattice_moved():
    X = np.full((400, 10_000), 0.49 * 2.0**-20)  # shorter on the lattice than they are
    found = private_radius(X, radius=1.0, smallest=2.0**-16, epsilon=50.0, random_state=0)
    lengths = np.linalg.norm(X, axis=1)
    assert (lengths <= found.value).sum() >= 0.9 * len(X) - found.within
    assert (lengths < found.cell[0]).sum() <= 0.9 * len(X) + found.within


@pytest.mark.parametrize(
    "far", [10**308, 10**400, Fraction(10**400, 3), Decimal("1e400"), np.longdouble("1e4000")]
)
def test_a_value_of_any_size_and_type_is_answered(far):
    """A refusal would tell of it."""
    asked = {"low": 0, "high": 1, "epsilon": 1.0, "random_state": 0}
    known = private_quantile([0.1, 1e300], **asked).value
    for values in ([0.1, far], np.array([0.1, far], dtype=object)):
        assert private_quantile(values, **asked).value == known


@pytest.mark.parametrize("cell", [float("nan"), None, "word", np.ma.masked, 1j, [1.0]], ids=repr)
def test_a_value_that_is_none_is_refused_by_one_sentence_and_no_warning(cell):
    with warnings.catch_warnings(), pytest.raises(UnreadableRecords) as caught:
        warnings.simplefilter("error")
        private_quantile([0.1, cell], low=0, high=1, epsilon=1.0)
    assert str(caught.value) == str(UnreadableRecords("values", "private_quantile"))
