"""The samplers, word by word: with narrow words every word is tried, and 60 digits are the judge. The code is that of 64 bits."""

import functools
import math
from fractions import Fraction
from unittest import mock

import mpmath
import numpy as np
import pytest
import test_adaptation
import test_estimators
import test_k_tuples
import test_nonconvex
import test_source_target
from scipy import special, stats

from dplit import mechanisms
from dplit.mechanisms import Bits, Noise, discrete, knorm_int, lattice_distribution, samplers

mpmath.mp.dps = 15  # the default, said: each check sets its own


class Given(Bits):
    """Hands out the given words in order, and then a seed's."""

    def __init__(self, words, width=64):
        super().__init__(np.random.default_rng(0))
        self.width = width  # narrower and wider than `Bits` takes too
        self.given = np.array(words, dtype=np.uint64)

    def words(self, n):
        first, self.given = self.given[:n], self.given[n:]
        return np.r_[first, super().words(n - len(first))]


class Asked(Exception):
    """More words are needed than were given."""


class Only(Given):
    """Hands out the given words and no other."""

    def words(self, n):
        if n > len(self.given):
            raise Asked
        return super().words(n)


def law(draw, width, n_words):
    """Every outcome of `draw(bits)` with its probability, over all sequences of at most n_words words; None: still open."""
    table, waiting = {}, [[]]
    while waiting:
        known = waiting.pop()
        try:
            outcome = draw(Only(known, width))
        except Asked:
            if len(known) < n_words:
                waiting += [[*known, word] for word in range(2**width)]
                continue
            outcome = None
        table[outcome] = table.get(outcome, 0) + Fraction(1, 2 ** (width * len(known)))
    assert sum(table.values()) == 1
    return table


def same_distribution(table, exact, tolerance):
    """Each probability lies between what is decided and that plus what is open, and little is open."""
    still_open = table.pop(None, 0)
    with mpmath.workdps(60):
        for outcome, share in table.items():
            p = exact(outcome)
            low, high = (
                mpmath.mpf(x.numerator) / x.denominator for x in (share, share + still_open)
            )
            assert low - mpmath.mpf(10) ** -50 <= p <= high + mpmath.mpf(10) ** -50, outcome
    assert still_open < tolerance
    return float(still_open)


def tail(x):
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def upper(u):
    return mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * u)


def edges(kind, scale, width):
    """Where the m-th outcome begins, m = 0, 1, ..., in units of words, from 60 digits: u falls as m rises. Two lists, rounded down and up."""
    down, up = [], []
    with mpmath.workdps(60):
        unit, scale = mpmath.mpf(2) ** width, mpmath.mpf(scale)
        while not down or down[-1] > 0:
            m = len(down)
            if kind == "gaussian":
                edge = unit * (tail((m - mpmath.mpf(0.5)) / scale) if m else mpmath.mpf(0.5))
            else:
                edge = unit * mpmath.exp(-m / scale)
            down.append(int(mpmath.floor(edge)))
            up.append(int(mpmath.ceil(edge)))
    return np.array(down), np.array(up)


def decided(kind, scale, width):
    """Every word through the sampler: its magnitude, and whether doubles decided it."""
    sampler, exact = {
        "gaussian": (samplers.gaussian_int, "_exact_gaussian"),
        "geometric": (samplers.geometric_int, "_exact_geometric"),
    }[kind]
    every, sent = np.arange(2**width, dtype=np.uint64), set()
    with mock.patch.object(samplers, exact, lambda bits, word, scale: sent.add(word) or 0):
        drawn = sampler(Given(every, width), scale, len(every))
    if kind == "gaussian":  # the last bit is the sign
        zero = np.isin(every >> np.uint64(1), list(sent))
        assert np.all((drawn >= 0) | (every & np.uint64(1) == 1))
        assert np.array_equal(np.abs(drawn[::2]), np.abs(drawn[1::2])) and np.all(drawn[zero] == 0)
        drawn = np.abs(drawn[::2])
    certain = np.ones(len(drawn), bool)
    certain[sorted(sent)] = False
    return drawn, certain


def check_every_word(kind, scale, width):
    """What doubles decide is true whatever bits follow the word. Returns the share of words that they leave open."""
    drawn, certain = decided(kind, scale, width)
    down, up = edges(kind, scale, width)
    words, m = np.flatnonzero(certain), drawn[certain]
    assert np.all(m < len(down) - 1) and np.all(m >= 0)
    wrong = (words + 1 > down[m]) | (words < up[m + 1])
    assert not wrong.any(), f"{wrong.sum()} words decided wrongly, the first {words[wrong][0]}"
    return 1 - certain.mean()


# ---------------------------------------------------------------- every word

KINDS = ["geometric", "gaussian"]
SCALES = [(1e-5, 16), (0.05, 16), (0.3, 16), (1.0, 18), (7.3, 20), (50.0, 20), (1e3, 20)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("scale", "width"), SCALES)
def test_every_word_is_decided_as_60_digits_decide(kind, scale, width):
    left = check_every_word(kind, scale, width)
    # a bound that leaves everything open would be right, and useless
    assert left < 4 * (scale + 1) * width / 2**width


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("scale", "width"), [(3e4, 20), (1e3, 16), (0.7, 20)])
def test_every_word_is_decided_as_60_digits_decide_at_length(kind, scale, width):
    check_every_word(kind, scale, width)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e6, 1e9])
def test_words_that_stand_for_several_outcomes_are_sent_on(kind, scale):
    """A word of 16 bits moves ln u and z by 2**-16 at least, so at these scales by more than a step."""
    assert scale * 2.0**-16 > 2 and not decided(kind, scale, 16)[1].any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.05, 0.3, 2.0, 40.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("width", [16, 20])
def test_the_exact_path_asks_for_bits_exactly_where_they_decide(kind, scale, width):
    """Around boundaries of the law, and at the ends: the words on either side decide, and the one between asks."""
    exact = {"gaussian": samplers._exact_gaussian, "geometric": samplers._exact_geometric}[kind]
    top = width - 1 if kind == "gaussian" else width
    # as many bits as tell outcomes apart
    words = math.ceil((math.log2(scale + 1) + 40) / width)
    fine = Only([], words * width)
    with mpmath.workdps(60):
        unit = mpmath.mpf(2) ** (words * width)
        for m in sorted({1, 2, *(int(scale * x) + 1 for x in (0.1, 0.6744, 1.1012, 1.1017, 2, 5))}):
            edge = (
                tail((m - 0.5) / mpmath.mpf(scale))
                if kind == "gaussian"
                else mpmath.exp(-m / mpmath.mpf(scale))
            )
            at = int(edge * unit)
            if at > 1:
                assert exact(fine, at - 1, scale) == m and exact(fine, at + 1, scale) == m - 1
            with pytest.raises(Asked):
                exact(fine, at, scale)
    with pytest.raises(Asked):
        exact(Only([], width), 0, scale)
    if scale < 1e3:
        assert exact(Only([], width), 2**top - 1, scale) == 0


def from_outcome(m, scale):
    """The chance of m or more beyond it, m signed."""
    return tail((m - mpmath.mpf(0.5)) / mpmath.mpf(scale))


def geometric_law(m, scale):
    return mpmath.exp(-m / mpmath.mpf(scale)) * -mpmath.expm1(-1 / mpmath.mpf(scale))


def test_gaussian_noise_has_its_distribution_to_the_last_continuation():
    """Words of 5 bits, four in a row, through the sampler and its exact path: nothing but arithmetic."""
    for scale in (0.05, 0.3, 1.3):
        table = law(lambda b, s=scale: int(samplers.gaussian_int(b, s, 1)[0]), 5, 4)
        same_distribution(
            table, lambda m, s=scale: from_outcome(m, s) - from_outcome(m + 1, s), 2e-4
        )


def test_laplace_noise_has_its_distribution_to_the_last_continuation():
    for scale in (0.05, 0.3, 1.3):
        table = law(lambda b, s=scale: int(samplers.geometric_int(b, s, 1)[0]), 5, 4)
        same_distribution(table, lambda m, s=scale: geometric_law(m, s), 2e-4)
    pairs = np.stack(np.meshgrid(*[np.arange(2**9)] * 2), axis=-1).reshape(-1)  # all pairs of words
    with mock.patch.object(samplers, "_exact_geometric", lambda bits, word, scale: 1000 * word):
        one = samplers.geometric_int(Given(np.arange(2**9), 9), 0.9, 2**9)
        two = samplers.laplace_int(Given(pairs, 9), 0.9, len(pairs) // 2)
    assert np.array_equal(two, one[pairs[::2]] - one[pairs[1::2]])


@pytest.mark.parametrize("n", [1, 2, 3, 5, 16, 100, 2**9 + 1])
def test_below_gives_each_number_equally_often(n):
    width = 5 if n > 16 else 4
    table = law(lambda bits: bits.below(n), width, 2 if n > 16 else 3)
    left = table.pop(None, 0)
    assert set(table) == set(range(n)) and len(set(table.values())) == 1 and left < Fraction(1, 2)


def planted_split(u):
    """Two numbers where one is needed."""
    near, far = special.ndtri(np.minimum(u, 0.1353)), special.ndtri(np.maximum(u, 0.1354))
    return -np.where(u < 0.1353, near, far)


PLANTED = {
    "two split points": ("gaussian", 1e3, 20, "_upper_quantile", planted_split),
    "bits to come forgotten, gaussian": (
        "gaussian", 7.3, 16, "_normal",
        lambda w, width: (z := samplers._upper_quantile((w + 0.5) * 2.0**-width), samplers._SLACK * (1 + z)),
    ),
    "bits to come forgotten, geometric": (
        "geometric", 7.3, 16, "_exponential",
        lambda w, width: (z := -np.log((w + 0.5) * 2.0**-width), samplers._SLACK * (1 + z)),
    ),
    "a word of zeros decided, gaussian": (
        "gaussian", 0.05, 16, "_normal",
        lambda w, width: (z := samplers._upper_quantile((w + 0.5) * 2.0**-width), 1 / (w + 0.5) + 0 * z),
    ),
    "a word of zeros decided, geometric": (
        "geometric", 0.05, 16, "_exponential",
        lambda w, width: (z := -np.log((w + 0.5) * 2.0**-width), 1 / (w + 0.5) + 0 * z),
    ),
    "a quantile wrong by 1e-5": (
        "gaussian", 1e3, 20, "_upper_quantile", lambda u: -special.ndtri(u) * (1 + 1e-5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_every_word_shows_planted_faults(name):
    kind, scale, width, target, fault = PLANTED[name]
    with mock.patch.object(samplers, target, fault), pytest.raises(AssertionError):
        check_every_word(kind, scale, width)


@pytest.mark.parametrize(
    "sampler", [mechanisms.geometric_int, mechanisms.laplace_int, mechanisms.gaussian_int]
)
def test_scales_of_any_size_are_drawn_quickly_or_refused(sampler):
    for scale in (5e-324, 1e-300, 1e-5, 1e-3):
        assert not sampler(Bits(np.random.default_rng(0)), scale, 10**6).any()
        zeros = sampler(Given(np.zeros(4)), scale, 2)  # words of zeros: more bits, and no overflow
        assert not zeros.any()
    for scale in (2.0**50, 1e300, math.inf, math.nan, 0.0, -1.0):
        with pytest.raises(ValueError, match="coarser lattice"):
            sampler(Bits(), scale, 3)
        with pytest.raises(ValueError, match="coarser lattice"):
            mechanisms.knorm_int(Bits(), scale, 3, ((1, 1.0),))
    with pytest.raises(ValueError, match="coarser lattice"):  # the gauge grows with the columns
        mechanisms.knorm_int(Bits(), 2.0**20, 3, ((2**20, 2.0**11),))
    with pytest.raises(ValueError, match="from 1e-100 to 1e100"):
        mechanisms.knorm_int(Bits(), 1.0, 3, ((1, 1e300),))
    assert sampler(Bits(), np.float32(3.0), 3).dtype == np.int64


# ---------------------------------------------------------------- noise shaped like a body


def direction(own, others, i):
    """Coordinate i over the length, where the other coordinates are those of another corner."""
    rest = (np.delete(others, i, axis=1) ** 2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isinf(own[:, i]), 1.0, own[:, i] / np.sqrt(own[:, i] ** 2 + rest))


@functools.cache
def ends_of_words(width):
    """-ln u where words begin and end, and the normals with these upper tails up to 1/2, from 30 digits."""
    with mpmath.workdps(30):
        ends = [mpmath.mpf(k) / 2**width for k in range(1, 2**width + 1)]
        logs = [float(-mpmath.log(x)) for x in ends]
        normals = [float(upper(x)) for x in ends[: 2 ** (width - 1) - 1]]
    return np.array([math.inf, *logs]), np.array([math.inf, *normals, 0.0])


# all rows of words of few bits, or many rows of words of 10
@pytest.mark.parametrize(
    ("columns", "width", "scale", "n_rows"),
    [
        ([1], 4, 0.1, None),
        ([2], 2, 0.01, None),
        ([1, 1], 2, 0.01, None),
        ([1], 10, 3.0, 4000),
        ([2, 1], 10, 2.0, 4000),
    ],
)
def test_every_row_of_words_of_knorm_noise_is_decided_rightly(columns, width, scale, n_rows):
    """All combinations of words: what doubles decide holds in every corner of what the words leave open."""
    D, radii = sum(columns), np.arange(1.0, len(columns) + 1)
    n_words = 2 * D + 1 + len(columns)
    if n_rows is None:
        words = np.indices((2**width,) * n_words).reshape(n_words, -1).T
    else:
        words = np.random.default_rng(0).integers(2**width, size=(n_rows, n_words))
    sent = set()

    def note(bits, logs, tails, scales):
        sent.add((tuple(logs.tolist()), *((p, *t.tolist()) for p, t in tails)))
        return [[10**6] * len(t) for _, t in tails]

    with mock.patch.object(samplers, "_exact_knorm", note):
        body = np.array(columns), radii
        drawn = np.abs(samplers._knorm_rows(Given(words.ravel(), width), scale, len(words), *body))
    (log, z), start, n_sure = ends_of_words(width), 0, 0
    for j, c in enumerate(columns):
        part = slice(D + 1 + len(columns) + start, D + 1 + len(columns) + start + c)
        normals = words[:, part] >> 1
        power = (words[:, D + 1 + j][:, None] + np.array([0, 1])) / 2**width
        corner = [log[words[:, : D + 1] + i].sum(axis=1) for i in (0, 1)]
        for i in range(c):
            far, near = (z[normals + k] for k in (0, 1))  # largest and smallest
            high = corner[0] * power[:, 1] ** (1 / c) * direction(far, near, i)
            low = corner[1] * power[:, 0] ** (1 / c) * direction(near, far, i)
            sure = drawn[:, start + i] < 10**6
            m, reach = drawn[sure, start + i], scale * radii[j]
            # these numbers have 15 digits; no decision is as close as 12
            assert np.all(reach * high[sure] < m + 0.5 + 1e-12) and not np.isnan(high[sure]).any()
            assert np.all(np.nan_to_num(reach * low[sure]) > m - 0.5 - 1e-12)
            n_sure += sure.sum()
        start += c
    assert n_rows is None or np.any((drawn > 0) & (drawn < 10**6))
    assert sent and n_sure  # both ways were walked


@pytest.mark.parametrize("case", [([1], 10, 3.0, 4000), ([2, 1], 10, 2.0, 4000)])
def test_an_error_of_knorm_noise_that_is_too_small_is_seen(case):
    real = samplers._knorm_error
    with mock.patch.object(samplers, "_knorm_error", lambda *a: 0.01 * real(*a)):
        with pytest.raises(AssertionError):
            test_every_row_of_words_of_knorm_noise_is_decided_rightly(*case)


@pytest.mark.parametrize("columns", [[1], [2], [3, 1]])
@pytest.mark.parametrize("scale", [0.3, 30.0, 1e9])
def test_the_exact_path_of_knorm_noise_rounds_as_more_bits_do(columns, scale):
    """From few bits it decides only what 400 more bits cannot change."""
    rng, D = np.random.default_rng(3), sum(columns)
    for seed in range(6):
        logs = rng.integers(0, 2**16, D + 1)
        tails = [(int(rng.integers(2**16)), rng.integers(0, 2**15, c)) for c in columns]
        scales = [scale * (j + 1) for j in range(len(columns))]

        class Noted(Bits):
            """Keeps the bits that it gives."""

            def extend(self, numerator, n_bits):
                if n_bits == 16:
                    number = super().extend(numerator, n_bits)
                    self.path.append(number[0])
                    return number
                if n_bits not in self.deep:
                    self.deep[n_bits] = []
                number = super().extend(numerator, n_bits)
                self.deep[n_bits].append(number[0])
                return number

        bits = Noted(np.random.default_rng(seed), 16)
        bits.path, bits.deep = [], {}
        drawn = samplers._exact_knorm(bits, logs, tails, scales)
        last = bits.deep[max(bits.deep)] if bits.deep else bits.path
        n_bits = (max(bits.deep) if bits.deep else 16) + 16
        with mpmath.workdps(60):
            for u in (0.0, 0.5, 1.0):  # the ends and the middle of what is still open
                x = [(number + mpmath.mpf(u)) / mpmath.mpf(2) ** n_bits for number in last]
                gamma, at = -sum(mpmath.log(v) for v in x[: D + 1]), D + 1
                for c, s, row in zip(columns, scales, drawn, strict=True):
                    z = [mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * v) for v in x[at + 1 : at + 1 + c]]
                    size = s * gamma * x[at] ** (mpmath.mpf(1) / c) / mpmath.norm(z)
                    assert [int(mpmath.nint(size * v)) for v in z] == row
                    at += 1 + c


# ---------------------------------------------------------------- races


def race_keys(width, weight):
    """ln E - ln w at the ends of all words, from 60 digits."""
    with mpmath.workdps(60):
        inner = [
            mpmath.log(-mpmath.log1p(-mpmath.mpf(k) / 2**width)) - weight
            for k in range(1, 2**width)
        ]
    return [-mpmath.inf, *inner, mpmath.inf]


RACES = {
    "two alike": (5, [0.0, 0.0], 1.0, None),
    "two": (5, [0.3, -1.0], 0.7, None),
    "two far apart": (5, [0.0, 9.0], 1.0, None),
    "three": (3, [0.0, 1.0, 0.5], 1.3, None),
    "sizes": (5, [0, 2], 0.4, [5, 3]),
    "three sizes": (3, [0, 1, 3], 0.5, [7, 10, 2]),
}
FINE_RACES = {
    "two, 7 bits": (7, [0.3, -1.0], 0.7, None),
    "sizes, 7 bits": (7, [0, 2], 0.4, [5, 3]),
    "three, 4 bits": (4, [0.0, 1.0, 0.5], 1.3, None),
    "three sizes, 4 bits": (4, [0, 1, 3], 0.5, [7, 10, 2]),
}


def race_weights(scores, factor, sizes):
    """ln w_i, from as many digits as are set."""
    f = mpmath.mpf(factor)
    if not sizes:
        return [f * (s - max(scores)) for s in scores]
    excess = [mpmath.log(mpmath.expm1(f * s)) if s else 0 for s in scores]
    return [mpmath.log(size) + x for size, x in zip(sizes, excess, strict=True)]


def race_distribution(scores, factor, sizes):
    weights = race_weights(scores, factor, sizes)
    total = mpmath.fsum(mpmath.exp(w) for w in weights)
    return [mpmath.exp(w) / total for w in weights]


def check_race(name):
    """Every tuple of words: it decides exactly if one key is below all others whatever bits follow, and for that one.

    How many decide is known whatever the weights: choose an edge between two words for each
    candidate, in (2**width - 1)**m ways; the smallest edge ends the winner's word, and the others
    begin words that come later. Edges that coincide decide nothing.
    """
    width, scores, factor, sizes = (RACES | FINE_RACES)[name]
    with mpmath.workdps(60):
        keys = [race_keys(width, weight) for weight in race_weights(scores, factor, sizes)]
        law, alike = race_distribution(scores, factor, sizes), mpmath.mpf(10) ** -50
    won, tuples = [0] * len(scores), 2 ** (width * len(scores))
    for words in np.ndindex(*(2**width,) * len(scores)):
        ends = [(row[w], row[w + 1]) for row, w in zip(keys, words, strict=True)]
        first = min(range(len(scores)), key=lambda i: ends[i][1])
        room = min(low for i, (low, _) in enumerate(ends) if i != first) - ends[first][1]
        try:
            winner = samplers.race(Only(words, width), np.array(scores), factor, sizes)
        except Asked:
            assert room <= alike, words
        else:
            assert room > alike and winner == first, (words, winner)
            won[winner] += 1
    edges = 2**width - 1
    assert sum(won) == (edges * (edges - 1) if name == "two alike" else edges ** len(scores))
    left = tuples - sum(won)
    assert all(w <= p * tuples <= w + left for w, p in zip(won, law, strict=True))


@pytest.mark.parametrize("name", RACES)
def test_every_pair_and_triple_of_words_runs_its_race_rightly(name):
    check_race(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", FINE_RACES)
def test_every_pair_and_triple_of_finer_words_runs_its_race_rightly(name):
    check_race(name)


@pytest.mark.parametrize("name", ["two", "sizes"])
def test_a_race_has_its_distribution_to_the_last_continuation(name):
    """Words of 2 bits, three each."""
    _, scores, factor, sizes = RACES[name]
    table = law(lambda bits: samplers.race(bits, np.array(scores), factor, sizes), 2, 6)
    same_distribution(table, lambda i: race_distribution(scores, factor, sizes)[i], 0.2)


@pytest.mark.parametrize("name", RACES)
def test_doubles_decide_the_race_of_wide_words(name):
    """A filter that leaves all to the exact way would be right, and slow."""
    _, scores, factor, sizes = RACES[name]
    exact = mock.Mock(side_effect=AssertionError("sent on"))
    with mock.patch.object(Bits, "extend", exact), mock.patch.object(samplers, "Decimal", exact):
        for seed in range(300):
            samplers.race(Bits(np.random.default_rng(seed)), np.array(scores), factor, sizes)


@pytest.mark.filterwarnings("error")
def test_gaps_and_sizes_too_large_or_small_for_doubles_drop_no_candidate():
    """The word of the first leaves all open: what is then decided is decided in 95 digits."""
    middle = 2**63
    far = np.array([1.7e308, -1.7e308, 0.0])
    with pytest.raises(Asked):
        samplers.race(Only([2**64 - 1, middle, middle]), far, 1.0)
    assert samplers.race(Only([middle] * 3), far, 1.0) == 0
    assert samplers.race(Only([middle] * 3), far, 1e10) == 0
    # exp(factor * score) - 1 below the smallest double, and the sizes bring it back: 1, 1 and 3
    tiny, sizes = 5e-324, [1, round(1 / Fraction(5e-324)), 3 * round(1 / Fraction(5e-324))]
    assert samplers.race(Only([middle] * 3), np.array([0, 1, 1]), tiny, sizes) == 2
    assert samplers.race(Only([middle // 8, middle, middle]), np.array([0, 1, 1]), tiny, sizes) == 0
    assert samplers.race(Only([middle, middle // 8, middle]), np.array([0, 1, 1]), tiny, sizes) == 1


def test_a_race_that_forgets_the_bits_to_come_is_seen():
    def overconfident(words, width, scores, factor, sizes):
        key, error = real(words, width, scores, factor, sizes)
        return key, np.minimum(error, 1e-3)

    real = samplers._keys
    with mock.patch.object(samplers, "_keys", overconfident), pytest.raises(AssertionError):
        check_race("two")


# ---------------------------------------------------------------- doubles against 60 digits


def grid(top, split=()):
    """Words at the ends, at powers of two, at branch points and one double beside them, and many others."""
    rng, words = np.random.default_rng(0), {1, 2, 3, 2**44 - 1, 2**44, top - 1, top - 2, top // 2}
    words |= {2**k + d for k in range(3, 64) for d in (-1, 0, 1)}
    words |= {top - 2**k for k in range(1, 60)}
    for u in split:
        at = int(u * 2.0**64)
        gap = 2 ** max(0, at.bit_length() - 53)
        words |= {at + d * gap for d in range(-3, 4)} | {at - 1, at + 1}
        words |= {at + int(d) for d in rng.integers(-(2**50), 2**50, 50)}
    words |= {int(w) for w in rng.integers(1, top, 1500, dtype=np.uint64)}
    words |= {int(2.0**e) for e in rng.uniform(1, math.log2(top) - 1e-9, 700)}
    return np.array(sorted(w for w in words if 0 < w < top), dtype=np.uint64)


# where cephes' ndtri changes its method, our own split, and where a planted one was
SPLITS = (math.exp(-2), 1 - math.exp(-2), math.exp(-32), samplers._SPLIT, 0.1353, 0.1354, 0.25)


def largest_error(kind):
    """The largest error of a function as called, in units of the slack that it is allowed."""
    words = grid(2**63 if kind == "normal" else 2**64, SPLITS)
    function = {"normal": samplers._normal, "exponential": samplers._exponential}[kind]
    worst, at = 0.0, None
    values, _ = function(words, 64)
    with mpmath.workdps(60):
        for word, value in zip(words.tolist(), values.tolist(), strict=True):
            u, x = (word + mpmath.mpf(0.5)) / mpmath.mpf(2) ** 64, mpmath.mpf(value)
            error = x + mpmath.log(u) if kind == "exponential" else (tail(x) - u) / mpmath.npdf(x)
            ratio = float(abs(error) / (samplers._SLACK * (1 + x)))
            worst, at = max((worst, at or 0), (ratio, word))
    return worst, at


@pytest.mark.parametrize("kind", ["normal", "exponential"])
def test_doubles_are_ten_times_better_than_the_certificate_needs(kind):
    worst, word = largest_error(kind)
    assert 0 < worst < 0.1, f"{worst} of the slack at word {word}"


def test_the_certificate_sees_two_split_points():
    with mock.patch.object(samplers, "_upper_quantile", planted_split):
        assert largest_error("normal")[0] > 1e9


def test_errors_contain_the_bits_to_come():
    """At both ends of what a word leaves open, for words of 16 bits, the value is as near as the error says."""
    for kind, top in (("normal", 2**15), ("exponential", 2**16)):
        words = np.unique(
            np.r_[1:100, top - 100 : top - 1, np.random.default_rng(0).integers(1, top - 1, 200)]
        )
        words = words.astype(np.uint64)
        values, errors = {"normal": samplers._normal, "exponential": samplers._exponential}[kind](
            words, 16
        )
        with mpmath.workdps(30):
            truth = (
                (lambda u: mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * u))
                if kind == "normal"
                else (lambda u: -mpmath.log(u))
            )
            for w, value, error in zip(words.tolist(), values, errors, strict=True):
                for end in (w, w + 1):
                    assert abs(truth(mpmath.mpf(end) / 2**16) - value) <= error


RACED = {
    "scores": (np.array([0.0, -3.7, 2.5, -900.0]), 0.7, None),
    "large scores": (np.array([1e6, 1e6 - 1, 1e6 + 3, 0.0]), 1.3, None),
    "sizes": (np.array([0, 1, 7, 400]), 0.05, [10**30, 3, 5 * 10**40, 1]),
    "tiny excess": (np.array([0, 1, 2, 3]), 1e-12, [4, 10**12, 10**300, 7]),
}


def largest_race_error(name):
    """The largest error of a key, in units of what it is allowed beside the bits to come."""
    scores, factor, sizes = RACED[name]
    words = grid(2**64, (math.exp(-2), 1 - math.exp(-1), 0.5))
    words = words[words < 2**64 - 2**12]
    words = words[: len(words) // 4 * 4].reshape(-1, 4)
    worst = 0.0
    with mpmath.workdps(60):
        f, lead = mpmath.mpf(float(factor)), 0 if sizes else float(scores.max())
        weights = [f * (mpmath.mpf(float(s)) - lead) for s in scores]
        if sizes:
            weights = [
                mpmath.log(n) + (mpmath.log(mpmath.expm1(w)) if w else 0)
                for n, w in zip(sizes, weights, strict=True)
            ]
        for row in words:
            key, error = samplers._keys(row, 64, scores, factor, sizes)
            allowed = error - 1 / row.astype(float) - 1 / (2.0**64 - row.astype(float))
            for w, k, a, weight in zip(row.tolist(), key, allowed, weights, strict=True):
                e = -mpmath.log1p(-(w + mpmath.mpf(0.5)) / mpmath.mpf(2) ** 64)
                worst = max(worst, float(abs(mpmath.mpf(float(k)) - mpmath.log(e) + weight) / a))
    return worst


@pytest.mark.parametrize("name", RACED)
def test_keys_of_a_race_are_ten_times_better_than_needed(name):
    assert 0 < largest_race_error(name) < 0.1


BODIES = [((1, 3.0),), ((2, 40.0), (1, 30.0)), ((5, 10.0), (1, 10.0), (40, 30.0))]


def largest_knorm_error(body):
    """The largest error of a coordinate of K-norm noise as computed in doubles, in units of what it is allowed."""
    columns, radii = (np.array(part) for part in zip(*body, strict=True))
    D, scale, n, worst = int(columns.sum()), 2.0**30, 12, 0.0
    special_words = grid(2**63, SPLITS)[40:]
    n_words = 2 * D + 1 + len(body)
    rng = np.random.default_rng(D)
    words = rng.choice(special_words[special_words > 2**20], size=(n, n_words))
    words[:, -D:] = words[:, -D:] << np.uint64(1)  # the tail without its sign
    words[0] = rng.integers(2**62, 2**64, n_words, dtype=np.uint64)
    seen = []
    with (
        mock.patch.object(
            samplers.np, "rint", lambda x: seen.append(x.copy()) or np.zeros(x.shape)
        ),
        mock.patch.object(
            samplers, "_exact_knorm", lambda b, logs, t, s: [[0] * len(w) for _, w in t]
        ),
    ):
        samplers._knorm_rows(Given(words.ravel()), scale, n, columns, radii.astype(float))
    with mpmath.workdps(60):
        half, unit = mpmath.mpf(0.5), mpmath.mpf(2) ** 64
        for row, values in zip(words.tolist(), np.abs(seen[0]), strict=True):
            gamma = -sum(mpmath.log((w + half) / unit) for w in row[: D + 1])
            z = [mpmath.mpf(-special.ndtri(((w >> 1) + 0.5) * 2.0**-64)) for w in row[-D:]]
            for _ in range(3):
                z = [
                    x + (tail(x) - ((w >> 1) + half) / unit) / mpmath.npdf(x)
                    for x, w in zip(z, row[-D:], strict=True)
                ]
            at = 0
            for c, r, power in zip(columns.tolist(), radii.tolist(), row[D + 1 : -D], strict=True):
                block = z[at : at + c]
                length = mpmath.norm(block)
                size = scale * r * gamma * ((power + half) / unit) ** (mpmath.mpf(1) / c)
                allowed = samplers._SLACK * scale * r
                allowed *= samplers._knorm_error(gamma, length, D, mpmath.sqrt(c))
                for x, value in zip(block, values[at : at + c], strict=True):
                    worst = max(
                        worst, float(abs(size * x / length - mpmath.mpf(float(value))) / allowed)
                    )
                at += c
    return worst


@pytest.mark.parametrize("body", BODIES)
def test_knorm_coordinates_are_ten_times_better_than_needed(body):
    assert 0 < largest_knorm_error(body) < 0.1


def test_tails_and_quantiles_have_their_digits_on_both_sides_of_the_split():
    with mpmath.workdps(120), samplers.decimal.localcontext(samplers._EXACT):
        for x in ("1e-30", "0.5", "3", "7.999999", "8", "8.000001", "9", "40", "900"):
            truth = tail(mpmath.mpf(x))
            found = mpmath.mpf(str(samplers._tail(samplers.Decimal(x))))
            assert abs(found - truth) <= truth * mpmath.mpf(10) ** -78
        assert samplers._tail(samplers.Decimal("1e9")) == 0  # beyond every word, and no overflow
        for u in ("0.4999999", "0.1353352832366127", "0.2", "1e-14", "1.27e-14", "1e-19", "1e-60"):
            x = mpmath.mpf(str(samplers._exact_upper_quantile(samplers.Decimal(u))))
            assert abs(tail(x) / mpmath.mpf(u) - 1) < mpmath.mpf(10) ** -70


# ---------------------------------------------------------------- atoms and gaps


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_no_atom_and_no_gap_in_a_hundred_million_draws(kind):
    """Each value within +-6 scales beside its exact expectation, and the values near 0 that never came.

    False alarms: 1e-6 each, by a union bound over the values. An atom of weight 1e-6 has 100 draws
    more than its at most 50: seen with more than 99.9 %. A gap is one value of about a million to the scale.
    """
    scale, n, chunk = 2.0**20, 10**8, 10**7
    edge, counts = int(6 * scale), np.zeros(2 * int(6 * scale) + 1, np.int64)
    bits = Bits(np.random.default_rng(2026))
    sampler = {"gaussian": samplers.gaussian_int, "laplace": samplers.laplace_int}[kind]
    for _ in range(n // chunk):
        drawn = sampler(bits, scale, chunk) + edge
        drawn = drawn[(drawn >= 0) & (drawn <= 2 * edge)]
        counts += np.bincount(drawn, minlength=len(counts))
    expected = n * samplers.lattice_distribution(kind, scale, np.arange(-edge, edge + 1))
    assert check_counts(counts, expected)
    atom = counts.copy()
    atom[edge + int(1.10122 * scale)] += 100
    assert not check_counts(atom, expected)
    gap = counts.copy()
    gap[edge + 1000] = 0
    assert not check_counts(gap, expected)


def check_counts(counts, expected):
    """No count is too large for its expectation, nor a value missing where it should have come often."""
    alarm = 1e-6
    often = expected > -math.log(alarm / len(counts) * 4)
    missing = np.exp(-expected[often & (counts == 0)])
    atoms = stats.poisson.sf(counts - 1, expected).min() * len(counts)
    return atoms > alarm and not len(missing)


# ---------------------------------------------------------------- where randomness comes from

FITS = {
    "clusters": (test_estimators.ESTIMATORS, lambda m: m.fit(test_estimators.X)),
    "tuples": (test_k_tuples.ESTIMATORS, lambda m: m.fit(test_k_tuples.T)),
    "sources": (test_source_target.ESTIMATORS, lambda m: test_source_target.fit(m, test_source_target.Xs)),
    "convex": (test_adaptation.ESTIMATORS, lambda m: test_adaptation.fit(m, test_adaptation.RECORDS)),
    "nonconvex": (test_nonconvex.ESTIMATORS, lambda m: test_nonconvex.fit(m, test_nonconvex.Xt)),
}  # fmt: skip
EVERY = [(family, name) for family, (made, _) in FITS.items() for name in made]


def bytes_and_draws(fit):
    """Bytes that the operating system gave to the noise of a fit, and the words that its releases need at least."""
    given, events, urandom = [], [], samplers.os.urandom

    def count(n):
        given.append(n)
        return urandom(n)

    with (
        mock.patch("dplit.mechanisms.samplers.os.urandom", count),
        mechanisms.watch(lambda e: events.append(e) or e.outcome),
    ):
        fit()
    choices = ("exponential", "monotone", "cover", "sample")
    twice = {"laplace": 2, "gaussian": 1, "knorm": 2}  # words for each number
    return sum(given), sum(
        1 if e.mechanism in choices else twice[e.mechanism] * np.size(e.value) for e in events
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("family", "name"), EVERY)
def test_unseeded_noise_takes_its_bytes_from_the_operating_system(family, name):
    made, fit = FITS[family]
    got, words = bytes_and_draws(lambda: fit(made[name](random_state=None)))
    assert words and got >= 8 * words


def test_a_generator_in_place_of_the_operating_system_is_noticed():
    with mock.patch.object(discrete, "Bits", lambda rng=None: Bits(np.random.default_rng(0))):
        got, words = bytes_and_draws(lambda: Noise().histogram([0, 1], 5, mu=1.0))
    assert words == 5 and got == 0
    assert bytes_and_draws(lambda: Noise().histogram([0, 1], 5, mu=1.0)) == (40, 5)
    assert bytes_and_draws(lambda: Noise(0).histogram([0, 1], 5, mu=1.0)) == (0, 5)


# Slips in one line that no other test noticed: exact numbers, enumeration, brute force on tiny cases.


class Known(Bits):
    """Words that are known beforehand."""

    def __init__(self, words, width=64):
        super().__init__(np.random.default_rng(0), width)
        self.given = np.asarray(words, dtype=np.uint64)

    def words(self, n):
        assert n == len(self.given)
        return self.given


@pytest.mark.parametrize("columns, radii", [([1], [64.0]), ([2, 1], [8.0, 0.25]), ([1, 3], [1.0, 3.0])])  # fmt: skip
def test_knorm_noise_asks_where_a_coordinate_is_as_near_to_a_half_as_it_may_err(
    monkeypatch, columns, radii
):
    width, D, B = 20, sum(columns), len(columns)
    words = np.random.default_rng(2).integers(2**12, 2**width, size=2 * D + 1 + B, dtype=np.uint64)
    u = (words.astype(float) + 0.5) / 2**width
    tails = ((words >> np.uint64(1)).astype(float) + 0.5) / 2**width
    gamma, z = -np.log(u[: D + 1]).sum(), -special.ndtri(tails[D + 1 + B :])
    asked = []

    def exact(bits, logs, tails, scales):
        assert np.array_equal(logs, words[: D + 1])
        asked.append([(power, list(normal), scale) for (power, normal), scale in zip(tails, scales, strict=True)])  # fmt: skip
        return [[10**6] * len(normal) for _, normal in tails]

    monkeypatch.setattr(samplers, "_exact_knorm", exact)
    slack, start, known = 2.0**-43 + 1 / float(min(words.tolist()) >> 1), 0, []
    for j, (c, r) in enumerate(zip(columns, radii, strict=True)):
        part = z[start : start + c]
        length = math.sqrt(math.fsum(part**2))
        value = r * gamma * u[D + 1 + j] ** (1 / c) * part / length  # at scale 1
        error = slack * r * (D + 1 + gamma) * (5 + (1 + math.sqrt(c)) / length)
        known.append((start, value, error))
        start += c
    signs = 1 - 2 * (words[D + 1 + B :] & np.uint64(1)).astype(int)
    for j, (_, value, error) in enumerate(known):
        i = int(np.argmax(np.abs(value)))
        for nearness, side in ((0.9, 1), (1.1, 1), (0.9, -1), (1.1, -1)):
            # the coordinate lies above or below a half by 0.9 or 1.1 of its error
            scale = 2.5 / (value[i] - side * nearness * error)
            asked.clear()
            (row,) = samplers._knorm_rows(Known(words, width), scale, 1, np.array(columns), np.array(radii))  # fmt: skip
            unsure = [
                b
                for b, (_, v, e) in enumerate(known)
                if np.min(0.5 - np.abs(v * scale - np.rint(v * scale))) < e * scale
            ]
            assert (j in unsure) == (nearness < 1)
            wanted = []
            for b, (first, v, _) in enumerate(known):
                at = slice(first, first + columns[b])
                sign = signs[at]
                assert np.array_equal(row[at], sign * (10**6 if b in unsure else np.rint(v * scale)))  # fmt: skip
                if b in unsure:
                    tail = (words[D + 1 + B :][at] >> np.uint64(1)).tolist()
                    wanted.append((int(words[D + 1 + b]), tail, scale * radii[b]))
            assert asked == ([wanted] if unsure else [])


@pytest.mark.parametrize("columns", [1, 3])
def test_exact_blocks_are_decided_where_the_bits_to_come_cannot_matter(columns):
    n_bits = 16
    logs, block = [40000, 2**15 + 7, 51234, 60001][: columns + 1], [50001, 30000, 12345, 22222][: columns + 1]  # fmt: skip
    with samplers.decimal.localcontext(samplers._EXACT):
        u = [(number + 0.5) / 2**n_bits for number in (*logs, *block)]
        z = [-special.ndtri(x) for x in u[len(logs) + 1 :]]
        size = -sum(map(math.log, u[: len(logs)])) * u[len(logs)] ** (1 / columns)
        value = [size * x / math.hypot(*z) for x in z]
        i = int(np.argmax(np.abs(value)))

        def decide(near, numbers=logs, bits=n_bits):
            return samplers._round_blocks(numbers, [block], [near / value[i]], bits)

        if columns == 1:
            assert decide(3.0) == [[3]] and decide(2.9) == [[3]] and decide(3.1) == [[3]]
        for near in (2.5 - 1e-5, 2.5 + 1e-5):  # from below and from above
            assert decide(near) is None
        small = [1, *logs[1:]]  # one number of which little is known is enough
        assert samplers._round_blocks(small, [block], [1.0], n_bits) is None
        for k in range(columns + 1):
            few = [*block]
            few[k] = 1
            assert samplers._round_blocks(logs, [few], [1.0], n_bits) is None


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_exact_blocks_decide_only_what_every_further_bit_leaves_as_it_is(columns):
    """Of whole numbers of few bits, extended in all ways at the ends and at random. Mutation: the reach of an error is 1."""
    rng, n_bits, more, decided, open_ = np.random.default_rng(columns), 13, 40, 0, 0
    ends = [np.zeros, lambda n: np.full(n, 2.0**more - 1)] + [
        lambda n: rng.integers(2**more, size=n)
    ] * 4
    for _ in range(150):
        known = rng.integers(2**6, 2 ** (n_bits - 1), 2 * columns + 2).tolist()
        scale = float(rng.choice([0.1, 1.0, 10.0]))

        def rounded(numbers, bits, scale=scale):
            logs, block = numbers[: columns + 1], numbers[columns + 1 :]
            with samplers.decimal.localcontext(samplers._EXACT):
                return samplers._round_blocks(logs, [block], [scale], bits)

        found = rounded(known, n_bits)
        decided, open_ = decided + (found is not None), open_ + (found is None)
        for fill in ends if found is not None else ():
            longer = [
                (number << more) + int(low)
                for number, low in zip(known, fill(len(known)), strict=True)
            ]
            assert rounded(longer, n_bits + more) in (found, None)
    assert decided > 5 and open_ > 5


def test_doubles_decide_nearly_always(monkeypatch):
    asked = []
    for name in ("_exact_gaussian", "_exact_geometric"):
        monkeypatch.setattr(samplers, name, lambda *args: asked.append(args) or 0)
    bits = Bits(np.random.default_rng(0))
    for scale in (0.3, 50.0, 1e6):
        samplers.gaussian_int(bits, scale, 2000)
        samplers.laplace_int(bits, scale, 1000)
    assert not asked


def test_a_geometric_number_waits_for_the_bits_that_decide_it():
    extended = []

    class Noted(Bits):
        def extend(self, numerator, n_bits):
            extended.append(numerator)
            return super().extend(numerator, n_bits)

    bits = Noted(np.random.default_rng(0), 4)
    assert samplers._exact_geometric(bits, 8, 2.0) == 1 and not extended  # 1.15 to 1.39
    assert samplers._exact_geometric(bits, 9, 2.0) in (0, 1) and extended[0] == 9  # 0.94 to 1.15
    extended.clear()
    assert samplers._exact_geometric(bits, 0, 2.0) >= 5 and extended[0] == 0


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, 2.0**61])
def test_a_distribution_needs_a_scale(scale):
    with pytest.raises(ValueError, match="scale"):
        lattice_distribution("gaussian", scale, [0, 1])


def test_keys_of_a_race_are_as_near_as_they_say_up_to_the_last_word():
    words = 2**64 - 1 - np.r_[0:70, 2.0 ** np.arange(7, 63)].astype(np.uint64)
    key, error = samplers._keys(words, 64, np.zeros(len(words)), 1.0, None)
    assert error[0] == math.inf and np.isfinite(key).all()
    with mpmath.workdps(60):
        for k, e, word in zip(key[1:], error[1:], words[1:].tolist(), strict=True):
            for uniform in (mpmath.mpf(word) / 2**64, mpmath.mpf(word + 1) / 2**64):
                assert abs(mpmath.log(-mpmath.log(1 - uniform)) - mpmath.mpf(k)) <= e


def test_noise_in_a_tiny_body_may_have_any_scale_below_2_to_the_50():
    bits = Bits(np.random.default_rng(0))
    draws = knorm_int(bits, 2.0**49.5, 50, ((1, 1e-3),))
    assert 0 < np.abs(draws).max() < 2**50
    with pytest.raises(ValueError, match="scale"):
        knorm_int(bits, 2.0**50, 3, ((1, 1e-3),))
