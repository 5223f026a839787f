"""The one door: exact samplers, exact sensitivity, and nothing that depends on anything else."""

import ast
import copy
import inspect
import itertools
import math
import multiprocessing
import pickle
import re
import warnings
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from unittest import mock

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import special, stats

import dplit
from dplit import accounting, max_cover, mechanisms
from dplit.accounting import gaussian
from dplit.estimators import kmeans as estimators_kmeans
from dplit.inputs import MappedRows, PrivacyWarning, UnreadableRecords, map_blocks, quantize
from dplit.inputs.checks import check_between
from dplit.inputs.lattice import lattice
from dplit.mechanisms import Bits, Noise, discrete, journal, samplers, watch
from dplit.mechanisms import noise as me
from dplit.mechanisms.noise import LatticeRows

SAMPLERS = {"laplace": samplers.laplace_int, "gaussian": samplers.gaussian_int}


def seeded(seed):
    return Bits(np.random.default_rng(seed))


def p_value(kind, drawn, scale):
    """Chi-square test of integer draws against their exact law."""
    edge = int(8 * scale) + 1
    observed = np.bincount(np.clip(drawn, -edge, edge) + edge, minlength=2 * edge + 1)
    expected = samplers.lattice_distribution(kind, scale, np.arange(-edge, edge + 1))
    expected[[0, -1]] += (1 - expected.sum()) / 2
    keep = expected * drawn.size > 20
    observed, expected = (
        np.append(observed[keep], observed[~keep].sum()),
        np.append(expected[keep], expected[~keep].sum() + 1e-300),
    )
    return stats.chisquare(observed, expected / expected.sum() * drawn.size).pvalue


# ---------------------------------------------------------------- samplers


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("scale", [0.3, 1.0, 12.5])
def test_samplers_have_the_right_distribution(kind, scale):
    # false-alarm rate 1e-6 a case; 1e6 draws reject a scale wrong by 2 %
    drawn = SAMPLERS[kind](seeded(5), scale, 1_000_000)
    assert p_value(kind, drawn, scale) > 1e-6
    if scale > 1:
        assert max(p_value(kind, drawn, 0.98 * scale), p_value(kind, drawn, 1.02 * scale)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("seed", range(100))
def test_samplers_hold_for_every_seed(kind, seed):
    # 200 tests at 1e-6: false-alarm rate 2e-4 in all
    assert p_value(kind, SAMPLERS[kind](seeded(seed), 4.7, 200_000), 4.7) > 1e-6


@pytest.mark.parametrize("kind", SAMPLERS)
def test_secure_bits_have_the_right_distribution(kind):
    # fresh randomness each run: alarm once in 1e9
    assert p_value(kind, SAMPLERS[kind](Bits(), 3.3, 200_000), 3.3) > 1e-9


@pytest.mark.parametrize("kind", SAMPLERS)
def test_the_exact_path_decides_as_the_fast_one(kind, monkeypatch):
    for scale in (0.4, 31.7, 2.0**20):
        fast = SAMPLERS[kind](seeded(1), scale, 400)
        with monkeypatch.context() as patch:
            patch.setattr(samplers, "_SLACK", 1.0)  # distrust every float
            assert np.array_equal(SAMPLERS[kind](seeded(1), scale, 400), fast)


def test_opendp_draws_from_the_same_distributions():
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    theirs = {
        "laplace": dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=5.0),
        "gaussian": dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=5.0),
    }
    for kind, mechanism in theirs.items():
        sample = np.array(mechanism(np.zeros(20_000, dtype=np.int64)))
        ours = SAMPLERS[kind](seeded(3), 5.0, 20_000)
        # fresh randomness on their side: alarm once in 1e9 (discrete and rounded Gaussians differ by less than 1e-3 at scale 5)
        assert stats.ks_2samp(sample, ours).pvalue > 1e-9


def test_no_two_releases_share_a_draw_and_workers_differ():
    noise = Noise(0)
    first, second = (noise.sum(np.zeros((5, 40)), radius=1.0, mu=1.0) for _ in range(2))
    assert not np.any(first == second) and len(set(first)) == 40  # no broadcast, no reuse
    for method, workers in (("fork", 4), ("spawn", 2)):  # the latter import everything anew
        with multiprocessing.get_context(method).Pool(workers) as pool:
            assert len(set(pool.map(_one_draw, range(4), chunksize=1))) == 4


def _one_draw(_):
    return int(samplers.gaussian_int(Bits(), 2.0**40, 1)[0])


def test_seeds_repeat_and_mark_the_receipt():
    for seed in (0, np.random.default_rng(3), np.random.RandomState(3), np.random.SeedSequence(3)):
        assert not Noise(seed).private
    assert Noise(7).count(10, mu=1.0) == Noise(7).count(10, mu=1.0)
    assert Noise(None).private and Noise().receipt().private
    generator = np.random.default_rng(1)
    # two fits, two streams
    assert Noise(generator).count(10, mu=0.01) != Noise(generator).count(10, mu=0.01)


def test_nothing_in_dplit_touches_global_randomness():
    for path in Path(dplit.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Attribute)
                and node.value.attr == "random"
            ):
                assert node.attr in {"default_rng", "Generator", "RandomState", "SeedSequence"}, (
                    path.name,
                    node.lineno,
                )
            if isinstance(node, ast.Import):
                assert "random" not in [a.name for a in node.names], path.name


# ---------------------------------------------------------------- exact sensitivity

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
rows = arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 5)), elements=finite)


def length(v, norm):
    v = [abs(int(x)) for x in v]
    return (
        max(v)
        if norm == np.inf
        else sum(v)
        if norm == 1
        else math.isqrt(sum(x * x for x in v) - 1) + 1
        if any(v)
        else 0
    )


@settings(max_examples=700, deadline=None)
@given(rows, st.sampled_from([1, 2, np.inf]), st.floats(1e-9, 1e9), st.booleans())
def test_every_row_is_inside_whatever_it_was(X, norm, radius, centred):
    center = X[0] / 3 if centred else None
    Q = quantize(X, radius, center, norm)
    step, limit = lattice(radius)
    assert max(length(q, norm) for q in Q) <= limit and limit * step <= radius * (1 + 2e-6)
    # row by row, backwards, in Fortran order and as a strided view: the same bits
    assert np.array_equal(np.vstack([quantize(x[None], radius, center, norm) for x in X]), Q)
    assert np.array_equal(quantize(np.asfortranarray(X[::-1]), radius, center, norm)[::-1], Q)
    assert np.array_equal(quantize(np.repeat(X, 2, axis=0)[::2], radius, center, norm), Q)


@settings(max_examples=700, deadline=None)
@given(
    rows,
    st.sampled_from([1, 2, np.inf]),
    st.sampled_from(["add_remove", "replace"]),
    st.integers(1, 3),
    st.data(),
)
def test_sums_move_by_at_most_what_they_declare(X, norm, neighboring, n_groups, data):
    """Both releases are recorded without noise; integers are compared with the declared integer sensitivities: no tolerance."""
    groups = np.array(
        data.draw(st.lists(st.integers(-1, n_groups), min_size=len(X), max_size=len(X)))
    )
    other_row, other_group = (
        data.draw(arrays(np.float64, X.shape[1], elements=finite)),
        data.draw(st.integers(0, n_groups)),
    )
    i = data.draw(st.integers(0, len(X) - 1))
    if neighboring == "replace":
        X2, g2 = X.copy(), groups.copy()
        X2[i], g2[i] = other_row, other_group
    else:
        X2, g2 = np.delete(X, i, axis=0), np.delete(groups, i)
    seen = []

    class Recorder(Noise):
        def _add(self, value, l1, l2, step, **how):
            seen.append((np.asarray(value), l1, l2))
            return super()._add(value, l1, l2, step, **how)

    for A, g in ((X, groups), (X2, g2)):
        Recorder(0, neighboring=neighboring).sums(
            A, radius=1.5, norm=norm, groups=g, n_groups=n_groups, mu=1.0
        )
    (a, l1, l2), (b, *_) = seen
    moved = [abs(int(x)) for x in (a - b).ravel()]
    assert sum(moved) <= l1 and sum(x * x for x in moved) <= l2**2 * (1 + 1e-12)


def test_the_l1_bound_for_balls_is_an_integer_that_holds():
    """Rows in the Euclidean ball: the l1 length is at most floor(sqrt(d) * limit), also for the worst integer row."""
    for d in (1, 2, 3, 7, 50):
        Q = quantize(np.full((1, d), 10.0), 1.0)
        l1, _ = me.sum_sensitivity(lattice(1.0)[1], 0, d)
        assert length(Q[0], 1) <= l1


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-2, 5), min_size=1, max_size=30), st.integers(-2, 5), st.data())
def test_histograms_move_by_at_most_what_they_declare(bins, new, data):
    i = data.draw(st.integers(0, len(bins) - 1))
    seen = []

    class Recorder(Noise):
        def _add(self, value, l1, l2, step, **how):
            seen.append((np.asarray(value), l1, l2))
            return super()._add(value, l1, l2, step, **how)

    for neighboring, other in (
        ("add_remove", bins[:i] + bins[i + 1 :]),
        ("replace", bins[:i] + [new] + bins[i + 1 :]),
    ):
        for b in (bins, other):
            Recorder(0, neighboring=neighboring).histogram(np.array(b, dtype=int), 4, mu=1.0)
        (a, l1, l2), (b, *_) = seen[-2:]
        assert np.abs(a - b).sum() <= l1 and np.sum((a - b) ** 2) <= l2**2 + 1e-9


def test_results_do_not_depend_on_order_dtype_blocks_or_threads():
    rng = np.random.default_rng(0)
    X = rng.integers(-1000, 1000, size=(70_000, 4)).astype(np.float32) / 512
    groups = (X[:, 0] > 0).astype(int)

    def run(A, g):
        sums, counts = Noise(0).sums(A, radius=2.0, groups=g, n_groups=2, mu=0.5)
        return sums.tobytes() + counts.tobytes()

    expected = run(X.astype(float), groups)
    order = rng.permutation(len(X))
    assert (
        run(X, groups)
        == run(np.asfortranarray(X), groups)
        == run(X[order], groups[order])
        == expected
    )
    assert run(X.astype(">f8"), groups) == run(np.concatenate([X, X])[: len(X)], groups) == expected
    assert run(X, lambda Q: (Q[:, 0] > 0).astype(int)) == expected
    small = [
        r.sum(axis=0) for r in map_blocks(lambda start, b: quantize(b, 2.0), X, block_rows=999)
    ]
    assert np.array_equal(np.sum(small, axis=0), quantize(X, 2.0).sum(axis=0))


def test_released_numbers_are_multiples_of_the_public_step():
    step, _ = lattice(3.7)
    sums, counts = Noise(0).sums(np.random.default_rng(0).normal(size=(50, 3)), radius=3.7, mu=0.3)
    assert np.all(sums / step == np.rint(sums / step)) and counts.shape == (1,)


def test_memory_is_bounded_by_the_block():
    import tracemalloc

    X = np.zeros((400_000, 16), dtype=np.float32)  # 25.6 MB; as float64 it would be 51
    tracemalloc.start()
    Noise(0).sum(X, radius=1.0, mu=1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


# ---------------------------------------------------------------- prices


def test_noise_has_the_scale_its_cost_says():
    # 40,000 coordinates: the standard deviation is known to 0.35 %, so 3 % is more than 8 standard errors
    zero = np.zeros((1, 40_000))
    gaussian = Noise(0).sum(zero, radius=2.0, mu=0.5)
    assert np.std(gaussian) == pytest.approx(4.0, rel=0.03)
    laplace = Noise(0).sum(np.zeros((1, 40_000)), radius=2.0, norm=1, epsilon=0.5)
    assert np.mean(np.abs(laplace)) == pytest.approx(4.0, rel=0.03)
    counts = Noise(0, neighboring="replace").histogram(np.zeros(0, int), 40_000, epsilon=0.5)
    assert np.mean(np.abs(counts)) == pytest.approx(4.0, rel=0.03)


def test_noise_on_coordinates_is_independent():
    draws = np.array([Noise(s).sum(np.zeros((1, 3)), radius=1.0, mu=1.0) for s in range(4000)])
    correlation = np.corrcoef(draws.T)[np.triu_indices(3, 1)]
    # five standard errors: false-alarm rate below 2e-6
    assert np.abs(correlation).max() < 5 / math.sqrt(4000)


def test_receipts_state_what_was_done():
    noise = Noise(0, neighboring="replace")
    noise.count(10, epsilon=0.1)
    noise.histogram([0, 1], 2, mu=0.2)
    noise.vote([0, 1, 1], 2, epsilon=0.3)
    noise.exponential([0.0, 1.0], epsilon=0.4)
    receipt = noise.receipt(1e-6, "demo")
    assert [r.mechanism for r in receipt.releases] == [
        "laplace",
        "gaussian",
        "exponential",
        "exponential",
    ]
    assert receipt.neighboring == "replace" and receipt.releases[1].sensitivity == pytest.approx(
        math.sqrt(2)
    )
    assert receipt.releases[0].scale == pytest.approx(10)


# ---------------------------------------------------------------- the exponential mechanism


@pytest.mark.parametrize("monotone", [False, True])
def test_exponential_mechanism_has_the_exact_distribution(monotone):
    scores, n = np.array([5.0, 5.0, 3.0, 0.0, -2.0]), 60_000
    noise = Noise(11)
    chosen = np.bincount(
        [
            noise.exponential(scores, sensitivity=2.0, epsilon=1.5, monotone=monotone)
            for _ in range(n)
        ],
        minlength=5,
    )
    law = special.softmax(1.5 / (2.0 if monotone else 4.0) * scores)
    assert stats.chisquare(chosen, n * law).pvalue > 1e-6
    assert stats.chisquare(chosen, n * special.softmax(np.log(law) * 1.1)).pvalue < 1e-6


def test_race_decides_the_same_with_and_without_floats(monkeypatch):
    scores = np.random.default_rng(0).normal(size=30)
    fast = [samplers.race(seeded(s), scores, 0.7) for s in range(60)]
    monkeypatch.setattr(samplers, "_SLACK", 1.0)
    assert [samplers.race(seeded(s), scores, 0.7) for s in range(60)] == fast


def test_huge_scores_neither_overflow_nor_warn():
    with np.errstate(all="raise", under="ignore"):
        assert Noise(0).exponential([1e6, 0.0, -1e300], epsilon=100.0) == 0
        assert Noise(0).exponential([1e300, 1e300], epsilon=1.0) in (0, 1)


# ---------------------------------------------------------------- noisy average


def test_noisy_avg_scales_with_its_count_and_stays_private_on_nothing():
    X = np.full((5000, 2), 0.5)
    out = np.array(
        [
            mechanisms.noisy_avg(X, radius=1.0, epsilon=1.0, delta=1e-6, noise=Noise(s))
            for s in range(600)
        ]
    )
    sigma = 5 / 4 * math.sqrt(2 * math.log(3.5e6)) * 2 / (5000 - 5 * math.log(2e6))
    assert out.std() == pytest.approx(sigma, rel=0.15)  # 1200 draws: 5 standard errors are 10 %
    empty = np.array(
        [
            mechanisms.noisy_avg(X[:0], radius=1.0, epsilon=1.0, delta=1e-6, noise=Noise(s))
            for s in range(600)
        ]
    )
    radii = np.linalg.norm(empty, axis=1)
    # uniform in the disc
    assert radii.max() <= 1 and stats.kstest(radii**2, "uniform").pvalue > 1e-6
    assert Noise(0).receipt().epsilon == 0


def test_noisy_avg_receipt_and_refusal():
    noise = Noise(0)
    mechanisms.noisy_avg(np.zeros((10, 2)), radius=1.0, epsilon=0.7, delta=1e-7, noise=noise)
    assert noise.receipt(1e-7).epsilon == pytest.approx(0.7)
    with pytest.raises(ValueError, match="published constants"), pytest.warns(PrivacyWarning):
        mechanisms.noisy_avg(np.zeros((10, 2)), radius=1.0, epsilon=80.0, delta=1e-7, noise=noise)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "call",
    [
        lambda n: n.count(3),
        lambda n: n.count(3, mu=1.0, epsilon=1.0),
        lambda n: n.count(3, mu=0.0),
        lambda n: n.count(3, epsilon=math.inf),
        lambda n: n.count(3, epsilon=math.nan),
        lambda n: n.count(3, mu=True),
        lambda n: n.count(3, mu=1e-30),
        lambda n: n.sum(np.ones((2, 2)), radius=0.0, mu=1.0),
        lambda n: n.sum(np.ones((2, 2)), radius=None, mu=1.0),
        lambda n: n.sum(np.ones((2, 2)), radius=math.nan, mu=1.0),
        lambda n: n.sum(np.array([[1.0, math.nan]]), radius=1.0, mu=1.0),
        lambda n: n.sum(np.array([[math.inf, 0.0]]), radius=1.0, mu=1.0),
        lambda n: n.sum(np.array([[math.inf, 0.0]]), radius=1.0, norm=np.inf, mu=1.0),
        lambda n: n.exponential([], epsilon=1.0),
        lambda n: n.exponential([0.0, math.nan], epsilon=1.0),
        lambda n: Noise(neighboring="both"),
    ],
)
def test_bad_input_is_refused_before_anything_is_released(call):
    noise = Noise(0)
    with pytest.raises(ValueError) as error:
        call(noise)
    assert "\n" not in str(error.value) and len(str(error.value)) > 20
    assert noise.releases == ()


def test_rows_of_a_frame_go_by_their_place_and_not_by_its_index():
    """Slices of a frame may go by its labels, both ends included: a row would count twice."""

    class ByLabel(pd.DataFrame):  # as pandas 2 does where labels are floats
        def __getitem__(self, key):
            return self.loc[key] if isinstance(key, slice) else super().__getitem__(key)

    index = np.arange(140_000.0)
    index[65_536:66_000] = 65_536.0
    frame = ByLabel(np.zeros((140_000, 2)), columns=["a", "b"], index=index)
    lengths = Noise(0).lengths(frame, [1.0, 2.0], epsilon=1e9)
    assert lengths.tolist() == [140_000.0, 0.0]
    whole = MappedRows(frame, lambda rows, at: rows)
    assert sum(map_blocks(lambda start, block: len(block), whole)) == 140_000
    assert sum(map_blocks(lambda start, block: len(block), frame)) == 140_000


WORDS = np.array([["HIV-Anna", "x"], ["b", "c"]], dtype=object)
AGES = np.array([4242, 2, 5])
SWAPPED = {  # rows where a public number belongs, or words where rows belong
    "n_bins": lambda: Noise(0).histogram(4, AGES, epsilon=1.0),
    "vote": lambda: Noise(0).vote(4, AGES, epsilon=1.0),
    "radius": lambda: quantize(8.0, AGES[:, None].astype(float)),
    "lattice": lambda: lattice(AGES),
    "seed": lambda: Noise(AGES + 0.5),
    "sensitivity": lambda: Noise(0).laplace(1.0, sensitivity=AGES, epsilon=1.0),
    "words": lambda: Noise(0).lengths(WORDS, [1.0], epsilon=1.0),
    "mapped": lambda: Noise(0).sums(MappedRows(WORDS, lambda rows, at: rows), radius=1.0, mu=1.0),
    "blocks": lambda: list(map_blocks(lambda start, block: block, WORDS)),
    "n_clusters": lambda: dplit.NoisyLloyd(AGES, epsilon=1.0, delta=1e-6, radius=1.0).fit(AGES[:, None]),
}  # fmt: skip


@pytest.mark.parametrize("swapped", SWAPPED)
def test_what_stands_in_the_wrong_place_is_not_quoted(swapped):
    with pytest.raises((TypeError, ValueError)) as raised:
        SWAPPED[swapped]()
    assert "4242" not in str(raised.value) and "HIV" not in str(raised.value)


def test_messages_do_not_quote_private_rows():
    with pytest.raises(ValueError) as error:
        Noise(0).sum(np.array([[123.456, math.nan]]), radius=1.0, mu=1.0)
    assert "123" not in str(error.value)


def test_every_public_name_explains_itself():
    for name in me.__all__:
        thing = getattr(me, name)
        if callable(thing):
            assert inspect.getdoc(thing), name


# ---------------------------------------------------------------- ways to spend more than the receipt says


@pytest.mark.parametrize("weight", [-1e-6, -0.999999, -5, math.nan, math.inf, 1e30, "1", True])
def test_a_weight_cannot_shrink_the_sensitivity(weight):
    noise = Noise(0)
    with pytest.raises((TypeError, ValueError), match="weight"):
        noise.sums(np.ones((5, 1)), radius=1.0, weight=weight, epsilon=1.0)
    assert noise.releases == ()


@pytest.mark.parametrize("norm", [0, -1, 1.5, 3, math.nan, -math.inf, "l2", None])
def test_only_three_norms_exist(norm):
    with pytest.raises(ValueError, match="norm"):
        Noise(0).sum(np.array([[1e6]]), radius=1.0, norm=norm, mu=0.1)


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 60), st.sampled_from([1, 2, np.inf]), st.integers(0, 3), st.data())
def test_heavy_counts_are_paid_for(weight, norm, n_groups, data):
    """Any weight, any groups, a row replaced or leaving its group: integers against the declared integer sensitivities."""
    seen = []
    d = 2
    X = np.array([data.draw(st.lists(st.floats(-9, 9), min_size=d, max_size=d)) for _ in range(4)])
    groups = np.array(data.draw(st.lists(st.integers(-1, n_groups), min_size=4, max_size=4)))
    X2, groups2 = X.copy(), groups.copy()
    X2[0] = data.draw(st.lists(st.floats(-9, 9), min_size=d, max_size=d))
    groups2[0] = data.draw(st.integers(-1, n_groups))

    class Recorder(Noise):
        def _add(self, value, l1, l2, step, **how):
            seen.append((np.asarray(value), l1, l2))
            return super()._add(value, l1, l2, step, **how)

    for A, g in ((X, groups), (X2, groups2)):
        which = {"groups": g, "n_groups": n_groups} if n_groups else {}
        Recorder(0, neighboring="replace").sums(
            A, radius=2.0, norm=norm, weight=weight, mu=1.0, **which
        )
    (a, l1, l2), (b, *_) = seen
    moved = [abs(int(x)) for x in (a - b).ravel()]
    assert sum(moved) <= l1 and sum(x * x for x in moved) <= l2**2 * (1 + 1e-12)


@pytest.mark.parametrize(
    "call",
    [
        lambda n: n.histogram(np.zeros((100, 5), int), 2, epsilon=1.0),
        lambda n: n.vote(np.zeros((100, 5), int), 2, epsilon=1.0),
        lambda n: n.count(np.ones((10, 3), bool), epsilon=1.0),
        lambda n: n.histogram([0.0, 1.0], 2, epsilon=1.0),
        lambda n: n.histogram([0, 1], 0, epsilon=1.0),
        lambda n: n.histogram([[0, 1], [1]], 2, epsilon=1.0),
        lambda n: n.mean(np.ones(1000), radius=100.0, mu=1.0),
        lambda n: n.sums(np.ones((1, 2)), radius=1.0, center=np.zeros((5, 2)), mu=1.0),
        lambda n: n.sums(np.ones((1, 2)), radius=1.0, center=[0.0, math.nan], mu=1.0),
        lambda n: n.sums(np.ones((3, 2)), radius=1.0, groups=[0, 1], n_groups=2, mu=1.0),
        lambda n: n.sums(np.ones((3, 2)), radius=1.0, groups=["a", "b", "c"], n_groups=2, mu=1.0),
        lambda n: n.sum(np.array([["alice", "2"]]), radius=1.0, mu=1.0),
        lambda n: n.exponential([0.0, 1.0], epsilon=1.0, sensitivity=np.float64(0)),
        lambda n: n.exponential([0.0, 1.0], epsilon=1.0, sensitivity=-1.0),
        lambda n: n.exponential([0.0, 1.0], epsilon=1.0, sensitivity=math.nan),
        lambda n: n.laplace(1.0, sensitivity=0.0, epsilon=1.0),
        lambda n: mechanisms.noisy_avg(
            np.ones((3, 2)), radius=1.0, epsilon=0.0, delta=1e-6, noise=n
        ),
        lambda n: mechanisms.noisy_avg(
            np.ones((3, 2)), radius=1.0, epsilon=1.0, delta=0.0, noise=n
        ),
        lambda n: mechanisms.noisy_avg(
            np.array([[math.nan]]), radius=1.0, epsilon=1.0, delta=1e-6, noise=n
        ),
    ],
)
def test_what_one_person_could_do_twice_is_refused(call):
    noise = Noise(0)
    with pytest.raises((TypeError, ValueError)) as error:
        call(noise)
    assert noise.releases == () and "alice" not in str(error.value) and "\n" not in str(error.value)


def test_a_door_keeps_its_neighbors_and_cannot_be_copied():
    noise = Noise(0)
    with pytest.raises(AttributeError):
        noise.neighboring = "replace"
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="receipt"):
            attempt(noise)


def test_real_values_are_brought_into_a_public_range():
    assert Noise(0).laplace(1e11, sensitivity=1.0, epsilon=1.0) == pytest.approx(2**32, abs=100)
    assert abs(Noise(0).gaussian(math.nan, sensitivity=1.0, mu=1.0)) < 100
    assert Noise(0).vote([], 3, epsilon=1.0) in (0, 1, 2)


def test_the_race_knows_what_it_does_not_know(monkeypatch):
    """The largest words leave the exponential unbounded above: more bits decide, not the float in the middle."""

    class Fixed(Bits):
        def words(self, n):
            return (
                np.array([2**64 - 1, int(2**64 * (1 - math.exp(-1)))], dtype=np.uint64)
                if n == 2
                else np.array([2**63], dtype=np.uint64)
            )

    # E_0 is at least 44.4, so its key is above 3.79; E_1 = 1 gives the key 3.7
    assert samplers.race(Fixed(), np.array([0.0, -3.7]), 1.0) == 1


class Secretive:
    """A cell that tells its secret when asked for a number."""

    def __float__(self):
        raise ValueError("secret 42")


@pytest.mark.parametrize(
    "call",
    [
        lambda n: n.sums([["alice secret", None]], radius=1.0, mu=1.0),
        lambda n: n.sum([[None, "b secret"]], radius=1.0, mu=1.0),
        lambda n: n.sum([[Secretive(), 1]], radius=1.0, mu=1.0),
        lambda n: n.laplace("secret", sensitivity=1.0, epsilon=1.0),
        lambda n: n.exponential(["secret"], epsilon=1.0),
        lambda n: n.count("17secret", mu=1.0),
        lambda n: n.sum([[Decimal("sNaN"), 1]], radius=1.0, mu=1.0),
    ],
)
def test_no_error_at_the_noise_interface_quotes_a_cell(call):
    noise = Noise(0)
    with pytest.raises((TypeError, ValueError)) as error:
        call(noise)
    assert "secret" not in str(error.value) and error.value.__context__ is None
    assert noise.releases == ()


# ---------------------------------------------------------------- whole numbers of any size


def uniform_p(drawn, n_cells):
    return stats.chisquare(np.bincount(drawn, minlength=n_cells)).pvalue


@pytest.mark.parametrize("n", [2, 3, 7, 64, 100])
def test_below_is_uniform(n):
    bits = seeded(n)
    assert uniform_p([bits.below(n) for _ in range(20_000)], n) > 1e-6  # false-alarm rate 1e-6


@pytest.mark.parametrize("n", [3 * 2**62, 3 * 2**200, 10**300])
def test_below_is_uniform_beyond_the_words(n):
    """Six equal parts of the range; a word taken modulo n would fill the first third twice as often."""
    bits, draw = seeded(2), lambda: int.from_bytes(bits.words(-(-n.bit_length() // 64)).tobytes())
    drawn = [bits.below(n) for _ in range(20_000)]
    assert max(drawn) < n and uniform_p([6 * x // n for x in drawn], 6) > 1e-6
    if n == 3 * 2**62:
        assert uniform_p([6 * (draw() % n) // n for _ in range(20_000)], 6) < 1e-6


def test_below_one_is_zero_and_powers_of_two_need_no_second_try():
    assert Bits().below(1) == seeded(0).below(1) == 0
    for n_bits in (1, 63, 64, 65, 128):
        one, two = seeded(4), seeded(4)
        word = int.from_bytes(two.words(-(-n_bits // 64)).tobytes(), "little")
        assert one.below(2**n_bits) == word % 2**n_bits
        assert one.words(1)[0] == two.words(1)[0]  # as many words were drawn


# ---------------------------------------------------------------- covers


class Counted:
    """Candidates of a cover, the first of which cover so many rows each, the others none."""

    def __init__(self, counts, size=None):
        self.counts, self.size = np.asarray(counts), size or len(counts)
        self.histogram = np.bincount(self.counts, minlength=1)

    def find(self, count, rank):
        return int(np.flatnonzero(self.counts == count)[rank])

    def coverage(self):
        at = np.flatnonzero(self.counts)
        return journal.Coverage(at, self.counts[at], self.size)


SEVEN = np.array([0, 1, 3, 2, 0, 0, 1])


def draws(counts, exponent, n, seed=0, size=None):
    choose, candidates = Noise(seed).cover(exponent), Counted(counts, size)
    return [choose(candidates) for _ in range(n)]


def mixed(counts, exponent, p_covered, uniform):
    """The law of programs that flip a coin: a covered node by its excess weight, or a node of another law."""
    excess = np.expm1(exponent * counts)
    return p_covered * excess / excess.sum() + (1 - p_covered) * uniform / uniform.sum()


def wrong_laws(counts, exponent):
    """What was printed or programmed instead of the exponential mechanism, by name."""
    size, weights, covered = len(counts), np.exp(exponent * counts), counts > 0
    everyone, true = np.ones(size), 1 - size / weights.sum()
    total = weights[covered].sum() + size - math.log(covered.sum())
    relative = (np.expm1(exponent * counts) / weights.max()).sum()
    product = 1 - size / (relative * size - covered.sum())
    return {
        "ln len": mixed(counts, exponent, 1 - size / total, everyone),
        "uncovered nodes only": mixed(counts, exponent, true, ~covered),
        "positive orthant": mixed(counts, exponent, true, np.arange(size) >= size // 2),
        "a product for a sum": mixed(counts, exponent, np.clip(product, 0, 1), everyone),
    }


@pytest.mark.parametrize("exponent", [0.05, 0.2, 1.0])
def test_a_cover_is_the_exponential_mechanism_over_all_nodes(exponent):
    # false-alarm rate 1e-6 a case
    drawn = np.bincount(draws(SEVEN, exponent, 30_000), minlength=7)
    assert stats.chisquare(drawn, 30_000 * special.softmax(exponent * SEVEN)).pvalue > 1e-6


def rejects(law, counts, exponent, n=30_000):
    """Whether the test above would notice another law: another witness draws from it."""
    drawn = np.random.default_rng(1).multinomial(n, law)
    return stats.chisquare(drawn, n * special.softmax(exponent * counts)).pvalue < 1e-6


@pytest.mark.parametrize("name", wrong_laws(SEVEN, 0.2))
def test_as_many_draws_reject_every_wrong_distribution(name):
    assert rejects(wrong_laws(SEVEN, 0.2)[name], SEVEN, 0.2)
    assert not rejects(special.softmax(0.2 * SEVEN), SEVEN, 0.2)


def test_a_product_for_a_sum_is_rejected_where_it_is_a_probability():
    crowd = np.array([3, 3, 0, 3, 3, 3, 3])
    assert rejects(wrong_laws(crowd, 1.0)["a product for a sum"], crowd, 1.0)


def test_a_cover_chooses_from_astronomically_many():
    """2**1300 nodes, one of which covers a million rows: the exact chance of that one is near one half."""
    size, count, n = 2**1300, 10**6, 1000
    exponent = 1300 * math.log(2) / count
    counts = np.zeros(4, dtype=np.int64)
    counts[2] = count
    with np.errstate(all="raise", under="ignore"):
        drawn = draws(counts, exponent, n, size=size)
    heavy = drawn.count(2)
    with mpmath.workdps(60):
        weight = mpmath.expm1(mpmath.mpf(float(np.nextafter(exponent, 0))) * count)
        chance = float(weight / (weight + size))
    assert 0.4 < chance < 0.6
    assert stats.binomtest(heavy, n, chance).pvalue > 1e-6  # false-alarm rate 1e-6
    rest = [8 * x // size for x in drawn if x != 2]
    assert uniform_p(rest, 8) > 1e-6


def test_a_cover_of_nothing_is_uniform_and_extreme_weights_decide():
    size = int(mpmath.exp(900))
    with np.errstate(all="raise", under="ignore"):
        assert uniform_p([8 * x // size for x in draws([0, 0], 1.0, 4000, size=size)], 8) > 1e-6
        assert set(draws([0, 10**6, 10**6 - 1000], 1.0, 50, size=size)) == {1}
        assert 1 not in draws([0, 5], 1e-3, 50, size=size)
        for exponent in (1e-300, 1e-12):  # weights 1 + 1e-300
            assert set(draws([0, 10**6], exponent, 50)) == {0, 1}
        assert set(draws([0, 1, 2], 1e3, 50)) == {2}


def test_the_race_takes_multiplicities_of_any_size():
    big, scores = 10**300, np.array([0, 1, 2])
    sizes = [2 * big, 3 * big, big]
    weights = np.array([2.0, 3 * math.expm1(0.7), math.expm1(1.4)])
    bits, n = seeded(3), 20_000
    with np.errstate(all="raise", under="ignore"):
        drawn = np.bincount(
            [samplers.race(bits, scores, 0.7, sizes) for _ in range(n)], minlength=3
        )
        lonely = {samplers.race(bits, scores, 1e-3, [10**600, 1, 1]) for _ in range(50)}
    assert stats.chisquare(drawn, n * weights / weights.sum()).pvalue > 1e-6
    assert lonely == {0}


@pytest.mark.parametrize("factor", [1e-6, 0.7, 40.0])
def test_race_with_multiplicities_decides_the_same_with_and_without_floats(monkeypatch, factor):
    scores = np.r_[0, 1 + np.arange(12)]
    excess = [mpmath.expm1(factor * s) or 1 for s in scores.tolist()]
    sizes = [int(mpmath.mpf(10) ** 300 / e) for e in excess]  # all weights alike
    fast = [samplers.race(seeded(s), scores, factor, sizes) for s in range(40)]
    monkeypatch.setattr(samplers, "_SLACK", 1.0)
    assert [samplers.race(seeded(s), scores, factor, sizes) for s in range(40)] == fast
    assert len(set(fast)) > 1


def test_a_cover_is_paid_once_whatever_the_number_of_choices():
    noise = Noise(0)
    choose = noise.cover(0.03, label="covers")
    for _ in range(20):
        choose(Counted(SEVEN))
    (line,) = noise.releases
    assert (line.mechanism, line.exponent, line.times) == ("cover", 0.03, 1)
    assert 1 / line.scale <= 0.03 and line.scale == pytest.approx(1 / 0.03)


@pytest.mark.parametrize("exponent", [0.0, -1.0, math.nan, math.inf, None, True, "1"])
def test_a_cover_wants_a_finite_cost(exponent):
    noise = Noise(0)
    with pytest.raises(ValueError, match="privacy cost"):
        noise.cover(exponent)
    assert noise.releases == ()


def test_auditors_see_every_choice_of_a_cover():
    seen = []
    with journal.watch(lambda event: seen.append(event) or event.outcome):
        choose = Noise(0).cover(0.5, label="covers")
        chosen = [choose(Counted(SEVEN, size=10**30)) for _ in range(5)]
    assert [e.outcome for e in seen] == chosen
    for event in seen:
        assert event.mechanism == "cover" and event.value.shape == (10**30,)
        assert np.array_equal(event.value.keys, [1, 2, 3, 6])
        assert np.array_equal(event.value.counts, [1, 3, 2, 1])


# ---------------------------------------------------------------- parallel groups


@pytest.mark.parametrize(("neighboring", "times"), [("add_remove", 1), ("replace", 2)])
def test_parallel_groups_cost_what_one_costs_or_two_under_replace(neighboring, times):
    noise = Noise(0, neighboring=neighboring)
    noise.count(9, mu=0.5)
    results = noise.parallel([lambda i=i: noise.count(10**6 * i, epsilon=0.1) for i in range(4)])
    assert [round(x / 1e6) for x in results] == [0, 1, 2, 3]
    assert [(r.mechanism, r.times) for r in noise.releases] == [("gaussian", 1), ("laplace", times)]
    noise.count(9, mu=0.5)  # the door is open again, outside of all groups
    assert [r.times for r in noise.releases] == [1, times, 1]
    assert noise.receipt().releases[1].epsilon == 0.1


def test_one_group_or_none_costs_no_more():
    noise = Noise(0, neighboring="replace")
    assert noise.parallel([]) == [] and noise.releases == ()
    noise.parallel([lambda: noise.count(3, epsilon=0.1)])
    assert [r.times for r in noise.releases] == [1]


def test_groups_that_release_different_things_are_refused_and_charged_in_sum():
    noise = Noise(0)
    with pytest.raises(ValueError, match="same releases"):
        noise.parallel([partial(noise.count, 3, epsilon=e) for e in (0.1, 0.1, 0.2)])
    assert sorted(r.epsilon for r in noise.releases) == [0.1, 0.1, 0.2]


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_an_error_inside_a_group_still_charges(neighboring, at):
    noise = Noise(0, neighboring=neighboring)

    def branch(i):
        noise.count(3, epsilon=0.1)
        if i == at:
            raise RuntimeError("inside")
        noise.count(3, epsilon=0.2)

    with pytest.raises(RuntimeError, match="inside"):
        noise.parallel([partial(branch, i) for i in range(3)])
    # what has really gone out, for a row of one group, or of the two that went furthest
    spent = sum(r.epsilon * r.times for r in noise.releases)
    groups = sorted([0.3 - 1e-12] * at + [0.1 - 1e-12])
    assert spent >= sum(groups[-1 if neighboring == "add_remove" else -2 :])
    seen = []
    noise._watcher = lambda event: seen.append(event.branch) or event.outcome
    noise.count(3, epsilon=0.1)
    assert seen == [None]


def test_groups_within_groups_are_charged():
    """A group that splits its rows again must not lose what the parts release."""
    noise = Noise(0)
    noise.parallel(
        [lambda: noise.parallel([lambda: noise.count(3, epsilon=0.1)] * 2) for _ in range(2)]
    )
    assert sum(r.epsilon * r.times for r in noise.releases) >= 0.1


def test_events_name_their_group_and_branch():
    seen = []
    with journal.watch(lambda event: seen.append(event.branch) or event.outcome):
        noise = Noise(0)
        noise.count(1, epsilon=0.1)
        for _ in range(2):
            noise.parallel([partial(noise.count, 1, epsilon=0.1)] * 2)
    assert seen == [None, (1, 0), (1, 1), (2, 0), (2, 1)]


@pytest.mark.parametrize("weight", [0.5, 2.0, 100.0])
def test_a_row_that_leaves_its_branch_moves_sum_and_count(weight):
    """Under replace a row may go from one branch to another: what moves in each is within what each declares."""
    both = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])

    def exact(n_first):
        seen = []
        with journal.watch(lambda event: seen.append(event) or event.outcome):
            noise = Noise(0, neighboring="replace")
            buy = partial(noise.sums, radius=1.0, weight=weight, mu=0.5)
            noise.parallel([partial(buy, both[:n_first]), partial(buy, both[n_first:])])
        return seen

    for before, after in zip(exact(1), exact(2), strict=True):
        moved = np.linalg.norm(np.subtract(after.value, before.value))
        assert 0.3 * before.sensitivity < moved <= before.sensitivity


# ---------------------------------------------------------------- noise shaped like a body

CYLINDER = ((2, 40), (1, 30))


def test_a_gauge_is_the_longest_block():
    rows = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, -60.0], [30.0, 40.0, 30.0]])
    assert np.allclose(samplers.gauge(rows, CYLINDER), [5 / 40, 2.0, 50 / 40])
    assert samplers.gauge(np.zeros((0, 3)), CYLINDER).shape == (0,)


@pytest.mark.parametrize("body", [CYLINDER, ((1, 7),), ((3, 50),) * 4, ((5, 10), (1, 10), (2, 30))])
def test_knorm_noise_has_its_distribution(body):
    # Kolmogorov-Smirnov, false-alarm rate 1e-5 each; scales are large, so lattice steps are invisible
    D, scale = sum(n for n, _ in body), 1e5
    drawn = samplers.knorm_int(seeded(3), scale, 20_000, body).astype(float)
    assert drawn.shape == (20_000, D)
    blown = samplers.gauge(drawn, body) / scale
    assert stats.kstest(blown, stats.gamma(D).cdf).pvalue > 1e-5
    assert stats.kstest(0.94 * blown, stats.gamma(D).cdf).pvalue < 1e-5
    columns, radius = body[0]
    first = drawn[:, :columns] / (radius * scale)
    # given the gauge the blocks are uniform in balls: (length / gauge bound) has a known second moment
    second = (D + 1) * (D + 2) * columns / (columns + 2)
    assert np.mean((first**2).sum(axis=1)) == pytest.approx(second, rel=0.05)
    if columns > 1:  # no direction is preferred
        angle = np.arctan2(first[:, 0], first[:, 1]) / (2 * np.pi) + 0.5
        assert columns > 2 or stats.kstest(angle, "uniform").pvalue > 1e-5
        assert abs(np.corrcoef(first[:, 0], first[:, 1])[0, 1]) < 0.05
    assert stats.binomtest(int(np.sum(first[:, 0] > 0)), 20_000).pvalue > 1e-5


@pytest.mark.parametrize("body", [CYLINDER, ((3, 50),) * 4, ((1, 7),)])
def test_the_slow_path_of_knorm_noise_decides_the_same(body, monkeypatch):
    fast = samplers.knorm_int(seeded(2), 30.0, 40, body)
    monkeypatch.setattr(samplers, "_SLACK", 0.1)
    assert np.array_equal(samplers.knorm_int(seeded(2), 30.0, 40, body), fast)


def test_exact_quantiles_agree_with_mpmath():
    with mpmath.workdps(80):
        for u in (Decimal(1) / 3, Decimal("0.4999999"), Decimal(2) ** -40):
            with samplers.decimal.localcontext(samplers._EXACT):
                x = samplers._exact_upper_quantile(u)
            tail = mpmath.erfc(mpmath.mpf(str(x)) / mpmath.sqrt(2)) / 2
            assert abs(tail / mpmath.mpf(str(u)) - 1) < mpmath.mpf(10) ** -60


def test_interval_bodies_are_laplace_noise():
    # one column, one interval: density exp(-|z| / (radius scale)), rounded
    drawn = samplers.knorm_int(seeded(4), 2.0, 200_000, ((1, 3),))[:, 0]
    expected = np.exp(-(np.arange(1, 30) - 0.5) / 6.0)  # chance of at least m, either sign
    observed = [(np.abs(drawn) >= m).mean() for m in range(1, 30)]
    assert np.allclose(observed, expected, atol=5e-3)


def test_whole_numbers_pass_the_noise_interface_in_every_currency():
    value = np.arange(12).reshape(4, 3)
    for cost, body, kind in (
        ({"mu": 0.5}, None, "gaussian"),
        ({"mu": 0.5}, CYLINDER, "gaussian"),
        ({"epsilon": 0.5}, None, "laplace"),
        ({"epsilon": 0.5}, CYLINDER, "knorm"),
    ):
        noise, seen = Noise(0), []
        with journal.watch(lambda event, seen=seen: seen.append(event) or event.outcome):
            watched = Noise(0).whole(value, sensitivity=2, body=body, step=0.25, **cost)
        out = noise.whole(value, sensitivity=2, body=body, step=0.25, **cost)
        assert np.array_equal(out, watched) and np.all(out * 4 == np.rint(out * 4))
        (release,), (event,) = noise.releases, seen
        assert release.mechanism == event.mechanism == kind and event.sensitivity == 2
        unit = 1.0 if kind == "knorm" else 0.25
        assert release.scale == pytest.approx(2 / 0.5 * unit) and release.sensitivity == 2 * unit
        assert event.body == (CYLINDER if kind == "knorm" else ())
        assert np.array_equal(event.value, value)


@pytest.mark.parametrize(
    "options",
    [
        {"value": [0.5]},
        {"value": [1, 2], "body": CYLINDER},
        {"sensitivity": 0},
        {"sensitivity": float("nan")},
        {"step": -1.0},
        {"body": ((1, 0),)},
        {"body": ((0, 1),)},
        {"epsilon": None},
        {"epsilon": -1.0},
        {"epsilon": 1e-12, "body": ((1, 2**20),)},
    ],
)
def test_what_is_no_whole_query_is_refused_before_release(options):
    noise = Noise(0)
    with pytest.raises(ValueError):
        noise.whole(**({"value": [1], "sensitivity": 1, "epsilon": 1.0} | options))
    assert noise.releases == ()


def test_knorm_noise_too_large_for_whole_numbers_is_refused():
    """The gauge of the noise is of the order of its number of columns: the guard must know it."""
    columns = 10_000
    body, value = ((columns, 2.0**20),), np.zeros(columns, dtype=np.int64)
    with pytest.raises(ValueError, match="spend more"):
        Noise(0).whole(value, sensitivity=1, body=body, epsilon=2.0**-20)
    noisy = Noise(0).whole(value, sensitivity=1, body=body, epsilon=2.0**-14)
    assert 0 < np.abs(noisy).max() < 2**55


def test_a_knorm_draw_of_length_zero_is_decided_exactly():
    """u = 1/2 rounds to a normal of 0 in floats, and 0 / 0 must not pass as certain."""

    class Half(Bits):
        def words(self, n):
            if n == 1:  # the bits to come
                return super().words(1)
            words = np.full(n, 2**61, dtype=np.uint64)
            words[-1] = 2**64 - 1  # the normal's word
            return words

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = samplers.knorm_int(Half(np.random.default_rng(0)), 100.0, 1, ((1, 10),))
    assert np.abs(drawn).max() < 10**6


# ---------------------------------------------------------------- secret samples


def test_samples_have_their_distribution_and_cost_nothing():
    """All ordered triples of four rows; a false alarm once in a million."""
    noise, seen = Noise(0), Counter()
    for _ in range(24_000):
        seen[tuple(noise.sample(4, 3).tolist())] += 1
    assert sorted(seen) == sorted(itertools.permutations(range(4), 3))
    assert stats.chisquare(list(seen.values())).pvalue > 1e-6
    assert not noise.releases and noise.sample(10**15, 2).dtype == np.int64
    assert sorted(noise.sample(50, 50)) == list(range(50)) and noise.sample(1, 1).tolist() == [0]
    for wrong in ((3, 4), (0, 1), (5, 0), (5.0, 1), (5, True)):
        with pytest.raises((TypeError, ValueError), match="sample"):
            noise.sample(*wrong)


def test_a_sample_is_not_a_function_of_public_randomness():
    one, two, other = Noise(3), Noise(3), Noise(4)
    vars(two)["public_rng"] = vars(other)["public_rng"] = None  # any look at it fails
    assert np.array_equal(one.sample(10**6, 9), two.sample(10**6, 9))
    assert not np.array_equal(one.sample(10**6, 9), other.sample(10**6, 9))
    assert one.public_rng.random() == Noise(3).public_rng.random()  # and leaves it alone
    with mock.patch("dplit.mechanisms.samplers.Bits.below", return_value=0):
        assert Noise().sample(9, 3).tolist() == [0, 1, 2]  # the bits of the door, and nothing else


def test_a_replayed_sample_is_the_recorded_one():
    events = []
    with watch(lambda event: events.append(event) or event.outcome):
        drawn = Noise(0).sample(100, 4)
    with watch(lambda event: events[0].outcome):
        assert np.array_equal(Noise(1).sample(100, 4), drawn)
    assert events[0].mechanism == "sample" and not events[0].value.any()


@pytest.mark.parametrize(
    ("value", "ends", "good"),
    [(0.0, "[]", True), (0.3, "[]", True), (0.0, "(]", False), (0.3, "[)", False), (0.31, "[]", False), (0.1, "()", True), (math.nan, "[]", False)],
)  # fmt: skip
def test_intervals_are_checked_and_printed_as_they_are(value, ends, good):
    if good:
        assert check_between(value, "share", "Somebody", 0, 0.3, ends) == value
    else:
        with pytest.raises(ValueError, match=re.escape(f"{ends[0]}0, 0.3{ends[1]}")):
            check_between(value, "share", "Somebody", 0, 0.3, ends)


@pytest.mark.parametrize("value", [None, "1", True, np.True_, 1j, [1.0]])
def test_no_number_is_no_number_of_an_interval(value):
    with pytest.raises(TypeError, match="share"):
        check_between(value, "share", "Somebody", 0, 1)


MASKED = np.ma.array([[1, 2], [3, 4]], mask=[[0, 0], [1, 0]])
THROUGH_A_MASK = {
    "sums": lambda noise: noise.sums(MASKED, radius=9.0, mu=1.0),
    "groups": lambda noise: noise.sums(np.ones((2, 1)), radius=9.0, mu=1.0, groups=MASKED[:, 0]),
    "mean": lambda noise: noise.mean(MASKED, radius=9.0, mu=1.0),
    "count": lambda noise: noise.count(MASKED[:, 0] > 0, mu=1.0),
    "histogram": lambda noise: noise.histogram(MASKED[:, 0], 5, mu=1.0),
    "lengths": lambda noise: noise.lengths(MASKED, np.array([1.0, 9.0]), mu=1.0),
    "vote": lambda noise: noise.vote(MASKED[:, 0], 5, epsilon=1.0),
    "laplace": lambda noise: noise.laplace(MASKED, sensitivity=1.0, epsilon=1.0),
    "whole": lambda noise: noise.whole(MASKED, sensitivity=1.0, mu=1.0),
    "exponential": lambda noise: noise.exponential(MASKED[:, 0], epsilon=1.0),
    "mapped": lambda noise: noise.sum(MappedRows(MASKED, lambda b, at: b), radius=9.0, mu=1.0),
    "rows in a list": lambda noise: noise.sums(list(MASKED), radius=9.0, mu=1.0),
}


@pytest.mark.parametrize("name", THROUGH_A_MASK)
def test_no_question_reads_through_a_mask(name):
    """Whoever masked a cell has said that it must not be used, by hand-made programs neither."""
    noise = Noise(0)
    with pytest.raises(ValueError, match="mask"):
        THROUGH_A_MASK[name](noise)
    assert noise.releases == ()


def test_half_of_a_complex_number_is_not_released():
    noise = Noise(0)
    with pytest.raises(ValueError, match="real"):
        noise.laplace(np.array([1 + 2j]), sensitivity=1.0, epsilon=1.0)
    assert noise.releases == ()


@pytest.mark.parametrize("dtype", [float, np.float32])
@pytest.mark.parametrize("center", [None, [0.1, -0.2, 0.3]])
@pytest.mark.parametrize("kept", [0, 2**28])
def test_rows_that_are_on_the_lattice_give_the_same_sums_and_the_same_receipt(dtype, center, kept):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3)).astype(dtype)
    X[:5] *= 1e30  # far outside
    groups, ball = rng.integers(-1, 4, 3000), {"radius": 1.5, "center": center}
    center = None if center is None else np.array(center)
    with mock.patch.object(estimators_kmeans, "KEPT_BYTES", kept):
        table = estimators_kmeans._lattice_rows(X, 1.5, center)
    assert isinstance(table.rows, np.ndarray)
    assert table.rows.dtype == (np.float32 if kept else dtype)
    for which in (None, groups, lambda Q: (Q[:, 0] > 0).astype(int)):
        found, receipts = [], []
        for rows in (X, table):
            noise = Noise(0)
            found += noise.sums(rows, groups=which, n_groups=4, mu=0.5, **ball)
            receipts.append(str(noise.receipt(1e-6)))
        assert np.array_equal(found[0], found[2]) and np.array_equal(found[1], found[3])
        assert receipts[0] == receipts[1]


@pytest.mark.parametrize("keep", [0, 2**20])
def test_what_rows_on_the_lattice_keep_was_clipped_by_their_own_class_and_stays(keep):
    table = LatticeRows(np.full((5, 2), 1e9), 2.0, keep=keep)
    assert (table.rows.dtype == np.float32) == bool(keep)
    assert np.linalg.norm(np.asarray(table), axis=1).max() <= lattice(2.0)[1]
    assert LatticeRows(np.empty((0, 2)), 2.0, keep=keep).shape == (0, 2)
    if keep:
        with pytest.raises(ValueError, match="read-only"):
            table.rows[0] = 1e9
    with pytest.raises(TypeError):  # nobody else's word is taken for what is kept
        LatticeRows(np.ones((5, 2)), 2.0, keep=lambda X, function: 1e9 * X)


@pytest.mark.parametrize("wrap", [np.asarray, lambda X: LatticeRows(X, 1.0, keep=2**20)])
def test_groups_cannot_change_the_rows_that_are_added_up(wrap):
    def groups(Q):
        Q *= 1e6
        return np.zeros(len(Q))

    noise = Noise(0)
    with pytest.raises(ValueError, match="read-only"):
        noise.sums(wrap(np.ones((5, 2))), groups=groups, radius=1.0, mu=1.0)
    assert not noise.releases


def test_rows_on_the_lattice_of_one_ball_are_refused_for_another():
    table = estimators_kmeans._lattice_rows(np.ones((5, 2)), 2.0)
    for other in (
        {"radius": 2.5},
        {"radius": 2.0, "center": [0.0, 1.0]},
        {"radius": 2.0, "norm": 1},
    ):
        noise = Noise(0)
        with pytest.raises(ValueError, match="a different ball"):
            noise.sums(table, mu=1.0, **other)
        assert not noise.releases


def test_rows_of_a_file_are_not_kept(tmp_path):
    X = np.random.default_rng(0).normal(size=(500, 3))
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    for rows in (mapped, np.asarray(mapped)[10:]):
        table = estimators_kmeans._lattice_rows(rows, 1.5)
        assert np.shares_memory(table.rows, mapped)
        sums = [Noise(0).sums(x, radius=1.5, mu=1.0)[0] for x in (table, np.array(rows))]
        assert np.array_equal(*sums)
    assert not np.shares_memory(estimators_kmeans._lattice_rows(X, 1.5).rows, X)


@pytest.mark.parametrize(
    "cell", [float("nan"), float("inf"), None, "word", np.ma.masked, []], ids=repr
)
@pytest.mark.parametrize("ask", ["sum", "mean", "lengths"])
def test_all_that_is_wrong_with_a_cell_is_one_sentence_of_noise(ask, cell):
    with pytest.raises(UnreadableRecords) as caught:
        if ask == "lengths":
            Noise(0).lengths([[1.0], [cell]], [0.5, 1.0], mu=1.0)
        else:
            getattr(Noise(0), ask)([[1.0], [cell]], radius=1.0, mu=1.0)
    assert str(caught.value) == str(UnreadableRecords("X", "Noise"))


# Slips in one line that no other test noticed: exact numbers, enumeration, brute force on tiny cases.


def events_of(action, **options):
    """What passes the door."""
    events = []
    with watch(lambda event: events.append(event) or event.outcome):
        action(Noise(0, **options))
    return events


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_real_values_pay_for_their_rounding(kind, size):
    # every coordinate of the neighbour is half a step further than its share, less a hair: all round up
    step, norm = 2.0**-20, 1 if kind == "laplace" else 2
    move = math.floor(1.5 / step / size ** (1 / norm)) + 0.02
    sensitivity = move * step * size ** (1 / norm)
    assert lattice(sensitivity)[0] == step
    cost = {"epsilon": 1.0} if kind == "laplace" else {"mu": 1.0}
    one = np.full(size, 0.49 * step)
    (a,), (b,) = (
        events_of(lambda noise, v=v: getattr(noise, kind)(v, sensitivity=sensitivity, **cost))
        for v in (one, one + move * step)
    )
    moved = np.linalg.norm(a.value - b.value, ord=norm)
    assert moved > sensitivity / step * (1 + 0.4 / move)  # rounding alone took it beyond the claim
    assert moved <= a.sensitivity == b.sensitivity


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_no_rounding_of_the_scale_sells_more_than_its_cost(kind):
    rng = np.random.default_rng(0)
    short = 0
    for sensitivity, cost in np.exp(rng.uniform(-3, 3, size=(300, 2))):
        name = "epsilon" if kind == "laplace" else "mu"
        noise = Noise(0)
        getattr(noise, kind)([0.0, 0.0], sensitivity=sensitivity, **{name: cost})
        (line,) = noise.releases
        spent = Fraction(line.sensitivity) / Fraction(line.scale)  # exact
        assert spent <= Fraction(float(cost)) == Fraction(getattr(line, name))
        short += Fraction(line.sensitivity / cost) * Fraction(float(cost)) < Fraction(line.sensitivity)  # fmt: skip
    assert short > 50  # so often a plain quotient would have cost more than the price


def test_every_choice_and_sample_is_shown_whole_to_an_auditor():
    grid = max_cover.GridCover(np.array([[0.1, 0.2], [0.5, 0.5], [0.1, 0.2]]), 0.5)
    seen = events_of(
        lambda noise: (
            noise.exponential([1.0, 2.0], epsilon=0.5, sensitivity=3.0),
            noise.cover(0.7)(grid),
            noise.sample(4, 2),
            noise.count(3, mu=1.0),
        )
    )
    assert [event.mechanism for event in seen] == ["exponential", "cover", "sample", "gaussian"]
    for event in seen:
        assert (event.step, event.branch, event.body, event.share) == (1.0, None, (), 1.0)
    assert [event.sensitivity for event in seen] == [3.0, 1.0, 1.0, 1.0]
    assert seen[0].scale == pytest.approx(2 * 3.0 / 0.5) and seen[1].scale == pytest.approx(1 / 0.7)
    inside = []
    with watch(lambda event: inside.append(event) or event.outcome):
        noise = Noise(0)
        with noise.procedure(accounting.Release("both", "other", epsilon=1.0), share=0.25):
            noise.parallel([lambda: noise.count(1, mu=1.0), lambda: noise.count(2, mu=1.0)])
        noise.count(3, mu=1.0)
    assert [event.share for event in inside] == [0.25, 0.25, 1.0]
    assert [event.branch for event in inside] == [(1, 0), (1, 1), None]


@pytest.fixture
def raced(monkeypatch):
    """Arguments of every race for a choice."""
    calls, race = [], samplers.race
    monkeypatch.setattr(discrete, "race", lambda *args: calls.append(args) or race(*args))
    return calls


@pytest.mark.parametrize("monotone", [True, False])
def test_no_rounding_of_a_choice_s_factor_sells_more_than_its_cost(raced, monotone):
    rng, missed = np.random.default_rng(1), 0
    for sensitivity, epsilon in np.exp(rng.uniform(-3, 3, size=(100, 2))):
        noise = Noise(0)
        noise.exponential([0.0, 1.0], sensitivity=sensitivity, epsilon=epsilon, monotone=monotone)
        moves = Fraction(sensitivity) * (1 if monotone else 2)
        assert Fraction(float(raced[-1][2])) * moves <= Fraction(epsilon)
        assert float(raced[-1][2]) == pytest.approx(float(Fraction(epsilon) / moves), rel=1e-15)
        missed += Fraction(float(epsilon / float(moves))) * moves > Fraction(epsilon)
    assert missed > 10  # so often a plain quotient costs more


def test_a_cover_races_for_counts_and_for_anyone(raced):
    class Candidates:
        size, histogram = 10, np.array([0, 3, 0, 1])
        find = staticmethod(lambda count, rank: 100 * count + rank)

    chosen = [Noise(seed).cover(2.0)(Candidates) for seed in range(60)]
    for _, counts, factor, sizes in raced:
        assert list(counts) == [0, 1, 3] and list(sizes) == [10, 3, 1] and 0 < 2.0 - factor < 1e-15
    assert {c for c in chosen if c >= 100} <= {100, 101, 102, 300} and 300 in chosen
    assert all(c in range(10) for c in chosen if c < 100)


def test_noisy_avg_divides_whole_numbers_and_starts_at_one():
    X, epsilon, delta = np.array([[0.3, -0.7], [0.11, 0.2], [-0.5, 0.4]]), 1.0, 1e-6
    shift = math.ceil(5 / epsilon * math.log(2 / delta))
    for m_hat, n_events in ((-5, 1), (0, 1), (1, 2), (2, 2), (1000, 2)):
        seen = []

        def watcher(event, seen=seen, m_hat=m_hat):
            seen.append(event)
            return np.asarray(m_hat + shift if len(seen) == 1 else event.value)

        with watch(watcher):
            got = mechanisms.noisy_avg(X, radius=1.0, epsilon=epsilon, delta=delta, noise=Noise(0))
        assert len(seen) == n_events and seen[0].value == 3 and seen[0].sensitivity == 1
        assert seen[0].scale == pytest.approx(5 / epsilon)
        if n_events == 1:
            assert np.linalg.norm(got) <= 1
            continue
        step = Fraction(lattice(1.0)[0])
        for total, value in zip(quantize(X, 1.0).sum(axis=0), seen[1].value, strict=True):
            exact = Fraction(total) * step / 3 / Fraction(seen[1].step)
            assert abs(exact - int(value)) <= Fraction(1, 2)
        z = 5 / (4 * epsilon) * math.sqrt(2 * math.log(3.5 / delta))
        moves = 2 / m_hat / seen[1].step + math.sqrt(2)  # of the mean, and of its rounding
        assert seen[1].sensitivity == pytest.approx(moves, rel=1e-12)
        assert seen[1].scale == pytest.approx(z * moves, rel=1e-12)
        assert seen[1].scale > 2**19  # the lattice is as fine as the noise needs


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 1.7])
def test_the_proved_delta_of_noisy_avg_is_its_sum(epsilon):
    z = 5 / (4 * epsilon) * math.sqrt(2 * math.log(3.5 / 1e-5))
    count = math.exp(epsilon / 5) * 1e-5 / 4
    proved = gaussian.gaussian_delta(4 * epsilon / 5, 1 / z) + count
    assert mechanisms.noisy_avg_delta(epsilon, 1e-5) == pytest.approx(proved, rel=1e-12)


def test_a_mask_that_cannot_be_counted_is_named():
    for mask in (np.ones((2, 2), dtype=bool), [[True], [False]]):
        with pytest.raises(ValueError, match="the mask"):
            Noise(0).count(mask, mu=1.0)


@pytest.mark.parametrize("weight", [0.3, 2.5])
def test_counts_beside_sums_are_in_rows(weight):
    X = np.array([[0.5, 0.25], [1.0, 0.0], [0.0, -1.5]])
    with watch(lambda event: event.value):
        sums, counts = Noise(0).sums(X, radius=2.0, groups=[0, 1, 1], n_groups=3, weight=weight, mu=1.0)  # fmt: skip
    assert sums.tolist() == [[0.5, 0.25], [1.0, -1.5], [0.0, 0.0]]
    assert np.allclose(counts, [1, 2, 0], rtol=1e-12)


def test_bins_for_which_there_is_no_memory_are_refused():
    with pytest.raises((ValueError, MemoryError), match="n_bins=1000000000000"):
        me._exact_counts(np.array([0, 1]), 10**12)


def test_sums_for_which_there_is_no_memory_are_refused():
    noise = Noise(0)
    with pytest.raises(ValueError, match="n_groups=1000000000000"):
        noise.sums(np.zeros((2, 3)), radius=1.0, groups=[0, 1], n_groups=10**12, mu=1.0)
    assert not noise.releases


def test_a_count_beyond_64_bits_is_refused_and_not_wrapped():
    noise = Noise(0)
    with pytest.raises(OverflowError):
        noise.count(np.uint64(2**63), mu=1.0)
    with pytest.raises(OverflowError, match="at most 2"):
        noise.count(2**63 - 1, mu=1.0)
    assert not noise.releases


@pytest.mark.parametrize("n", [0, 100_000])
def test_a_printed_average_lies_around_its_center(n):
    center = np.array([40.0, -30.0])
    X = center + np.random.default_rng(0).uniform(-0.5, 0.5, (n, 2))
    found = mechanisms.noisy_avg(
        X, radius=1.0, center=center, epsilon=5.0, delta=1e-6, noise=Noise(0)
    )
    assert np.linalg.norm(found - center) <= (0.1 if n else 1.0)


def test_each_release_has_the_label_it_was_given():
    """Mutation: `sum` passes its label on to nobody."""
    noise, X, ball = mechanisms.Noise(0), np.zeros((3, 2)), {"radius": 1.0, "mu": 0.5}
    noise.sum(X, label="a", **ball)
    noise.sums(X, label="b", **ball)
    noise.mean(X, label="c", **ball)
    noise.count(np.ones(3), mu=0.5, label="d")
    assert [release.label for release in noise.receipt().releases] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(("norm", "d"), [(1, 2), (np.inf, 2), (np.inf, 3), (2, 1)])
@pytest.mark.parametrize(("neighboring", "n_groups", "branched"), [
    ("add_remove", 0, False), ("add_remove", 3, True), ("replace", 0, False), ("replace", 0, True),
    ("replace", 1, False), ("replace", 2, False), ("replace", 3, True),
])  # fmt: skip
@pytest.mark.parametrize(("limit", "share"), [(3, 0), (3, 2), (2, 9)])
def test_sensitivities_of_sums_and_counts_are_those_of_all_changes_of_a_record(
    norm, d, neighboring, n_groups, branched, limit, share
):
    """A record is added, changes in its group, moves to another group or leaves, for another branch or for none of the groups."""
    found = mechanisms.noise.sum_sensitivity(limit, share, d, norm, n_groups, neighboring, branched)
    grid = itertools.product(range(-limit, limit + 1), repeat=d)
    rows = [np.array(row) for row in grid if np.linalg.norm(row, norm) <= limit]
    gone, here = np.zeros(d + 1), [np.append(row, share) for row in rows]
    changes = [(new - old, gone) for old, new in itertools.product(here, repeat=2)]
    moves = [(-old, new) for old, new in itertools.product(here, repeat=2)]
    leaves = [(new, gone) for new in here]
    if neighboring == "add_remove":
        changes = leaves
    else:
        changes += moves * (n_groups > 1) + leaves * (n_groups > 0 or branched)
    flat = np.array([np.concatenate(change) for change in changes])
    assert found[0] == np.abs(flat).sum(axis=1).max()
    assert found[1] == pytest.approx(np.linalg.norm(flat, axis=1).max())
