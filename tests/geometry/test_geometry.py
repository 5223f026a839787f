"""Geometry: what each function promises, against exact arithmetic, brute force and the definition, and for any memory layout."""

import tracemalloc
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist, pdist
from scipy.stats import kstest

from dplit import geometry
from dplit.geometry import balls

few = settings(max_examples=60, deadline=None)
finite = st.floats(-1e300, 1e300)
shapes = st.tuples(st.integers(1, 8), st.integers(1, 9))
radii = st.floats(1e-6, 1e6)
lattice = st.integers(-2, 2)


def same_bits(A, B):
    return A.dtype == B.dtype and A.shape == B.shape and A.tobytes() == B.tobytes()


# -- clipping


@few
@given(arrays(float, shapes, elements=finite), radii)
def test_clipping_ends_in_the_ball_and_is_idempotent(X, radius):
    Y = geometry.clip_to_ball(X, radius)
    rounding = Fraction(X.shape[1] + 8, 2**52)
    assert all(
        sum(Fraction(v) ** 2 for v in row) <= (Fraction(radius) * (1 + rounding)) ** 2
        for row in Y.tolist()
    )
    far = (X != Y).any(axis=1)  # the shortened rows lie inside, exactly
    assert all(
        sum(Fraction(v) ** 2 for v in row) <= Fraction(radius) ** 2 for row in Y[far].tolist()
    )
    assert same_bits(Y, geometry.clip_to_ball(Y, radius))


@few
@given(arrays(float, (2, 4), elements=st.floats(-1e3, 1e3)), st.floats(1e-3, 1e3))
def test_clipping_is_non_expansive(X, radius):
    (x, y), (p, q) = X, geometry.clip_to_ball(X, radius)
    assert np.linalg.norm(p - q) <= np.linalg.norm(x - y) + 1e-12 * radius


@few
@given(arrays(float, shapes, elements=finite), radii, st.integers(1, 9))
def test_clipping_is_row_local(X, radius, block_rows):
    Y = geometry.clip_to_ball(X, radius)
    assert same_bits(Y, geometry.clip_to_ball(np.asfortranarray(X), radius, block_rows=block_rows))
    assert same_bits(Y, np.vstack([geometry.clip_to_ball(row[None], radius) for row in X]))
    assert same_bits(Y[::-1].copy(), geometry.clip_to_ball(X[::-1], radius))


def test_a_row_keeps_its_bits_in_any_company():
    X = np.random.default_rng(0).normal(size=(300, 40))
    Y = geometry.clip_to_ball(X, 1.0)
    for size in (1, 2, 3, 100):
        assert same_bits(
            Y, np.vstack([geometry.clip_to_ball(X[i : i + size], 1.0) for i in range(0, 300, size)])
        )


def test_clipping_keeps_what_is_inside_and_shortens_the_rest():
    X, center = np.array([[3.0, 4.0], [0.1, -0.2], [1e308, -1e308], [0, 0]]), [1.0, 0.0]
    np.testing.assert_allclose(
        geometry.clip_to_ball(X, 1.0), [[0.6, 0.8], [0.1, -0.2], [0.5**0.5, -(0.5**0.5)], [0, 0]]
    )
    Y = geometry.clip_to_ball(X, 1.0, center)
    assert np.linalg.norm(Y - center, axis=1).max() <= 1 + 1e-12
    assert (Y[1] == X[1]).all() and X[0, 0] == 3.0  # a new array
    assert geometry.clip_to_ball(np.empty((0, 2)), 1.0).shape == (0, 2)


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f8", "i4", "u1", "O"])
def test_type_and_layout_do_not_matter(dtype):
    X = np.random.default_rng(0).integers(0, 9, (300, 5)).astype(dtype)
    wide = np.repeat(X, 2, axis=1)[:, ::2]
    C = np.random.default_rng(1).integers(0, 9, (7, 5))
    F = X.astype(float)
    for Z in (X, np.asfortranarray(X), wide, X.tolist()):
        assert same_bits(geometry.clip_to_ball(Z, 7.0), geometry.clip_to_ball(F, 7.0))
        assert same_bits(geometry.nearest(Z, C, radius=9.0), geometry.nearest(F, C, radius=9.0))
        assert same_bits(geometry.nearest(Z, C), geometry.nearest(F, C))
        assert same_bits(geometry.nearest_distance(Z, C), geometry.nearest_distance(F, C))
        assert same_bits(geometry.t_nearest(C, Z, 4), geometry.t_nearest(C, F, 4))


# -- random points


@pytest.mark.parametrize("d", [1, 2, 16, 100])
def test_uniform_distribution(d):
    X = geometry.uniform_in_ball(5000, d, radius=2.0, center=np.ones(d), rng=d) - 1
    norms = np.linalg.norm(X, axis=1)
    assert norms.max() <= 2 + 1e-12
    assert kstest((norms / 2) ** d, "uniform").pvalue > 1e-4  # false alarm: 1 in 10,000 seeds
    directions = X / norms[:, None]
    assert np.abs(directions.mean(axis=0)).max() < 5 / np.sqrt(5000 * d)  # 5 standard deviations
    if d == 2:
        angles = np.arctan2(X[:, 1], X[:, 0]) / (2 * np.pi) + 0.5
        assert kstest(angles, "uniform").pvalue > 1e-4
    np.testing.assert_allclose(
        np.linalg.norm(geometry.uniform_on_sphere(50, d, 3.0, 0), axis=1), 3.0
    )


# -- nearest centre


@few
@given(
    arrays(float, st.tuples(st.integers(1, 6), st.just(3)), elements=st.floats(-2, 2)),
    arrays(float, st.tuples(st.integers(1, 6), st.just(3)), elements=st.floats(-2, 2)),
    st.sampled_from([0.7, 1.0, 1.5]),
    st.booleans(),
)
def test_nearest_equals_exact_arithmetic(X, C, radius, tied):
    if tied:
        X, C = np.rint(X) / 2, np.rint(C) / 2
    exact_X, exact_C = (
        [[Fraction(v) for v in row] for row in geometry.to_grid(A, radius, len(C)).tolist()]
        for A in (X, C)
    )
    distances = [
        [sum((a - b) ** 2 for a, b in zip(x, c, strict=True)) for c in exact_C] for x in exact_X
    ]
    assert geometry.nearest(X, C, radius=radius).tolist() == [
        row.index(min(row)) for row in distances
    ]


@pytest.mark.parametrize("d", [1, 2, 3, 16, 17, 1000])
@pytest.mark.parametrize("k", [1, 2, 33, 64, 65])
def test_scores_are_exact_at_the_extremes(d, k):
    b, i = geometry.grid_bits(d, k), geometry.index_bits(k)
    # exact, and not two bits coarser than needed
    assert 3 * d * 4**b * 2**i + k < 2**53 <= 3 * d * 4 ** (b + 2) * 2**i
    row = np.full((1, d), 5.0)  # beyond the grid: counts as 1
    centers = np.repeat(-row, k, axis=0)
    assert geometry.nearest(row, centers, radius=1.0).tolist() == [0]
    step, inward = 2.0**-b, np.full((1, d), -1.0)
    inward[0, -1] += step  # nearer by the least there is, in the last centre
    assert geometry.nearest(row, np.vstack([centers[1:], inward]), radius=1.0).tolist() == [k - 1]


@pytest.mark.parametrize(("d", "k"), [(2, 3), (16, 16), (3, 64), (3, 65), (4, 1), (5, 300)])
def test_labels_do_not_depend_on_company(d, k):
    X, C = (
        np.random.default_rng(0).normal(size=(700, d)),
        np.random.default_rng(1).normal(size=(k, d)),
    )
    for radius in (None, 2.0):
        assign = geometry.NearestCenter(C, radius)
        labels = assign(X)
        assert labels.dtype == np.int64 and labels.shape == (700,)
        assert same_bits(labels, np.concatenate([assign(row[None]) for row in X]))
        assert same_bits(labels, assign(X[::-1])[::-1].copy())
        for block_rows in (1, 13, 10_000):
            assert same_bits(labels, geometry.nearest(X, C, radius=radius, block_rows=block_rows))
    D = cdist(X, C)
    np.testing.assert_array_equal(geometry.nearest(X, C), D.argmin(axis=1))
    inside = geometry.clip_to_ball(X, 2.0)
    np.testing.assert_allclose(
        geometry.nearest_distance(inside, C, block_rows=11),
        cdist(inside, C, "sqeuclidean").min(axis=1),
    )


@pytest.mark.parametrize(("d", "k"), [(2, 3), (16, 16), (3, 64), (3, 65), (5, 300)])
def test_rows_beside_a_bisector_lose_no_more_than_the_grid(d, k):
    """Where the grid decides, labels are off by a tenth of the bound or more. Mutation: half of the bound, or less."""
    gen, bound = np.random.default_rng(2), geometry.grid_regret(d, 2.0, k)
    C = geometry.clip_to_ball(np.random.default_rng(1).normal(size=(k, d)), 2.0)
    i, j = gen.integers(k, size=(2, 100_000))
    i, j = i[i != j], j[i != j]
    apart = C[j] - C[i]
    apart /= np.linalg.norm(apart, axis=1, keepdims=True)
    beside = (C[i] + C[j]) / 2 + gen.uniform(-bound, bound, (len(i), 1)) * apart
    beside = geometry.clip_to_ball(beside, 2.0)
    D, found = cdist(beside, C), geometry.nearest(beside, C, radius=2.0)
    lost = (D[np.arange(len(D)), found] - D.min(axis=1)).max()
    assert 0.1 * bound < lost <= bound


@pytest.mark.parametrize("radius", [2**22, 2**22 + 1])
def test_whole_numbers_are_taken_up_to_where_scores_would_round(radius):
    """Mutation: another limit."""
    centers = [[0.0, 1.0], [1.0, 0.0]]
    if radius > 2**22:
        with pytest.raises(ValueError, match=r"2\*\*22"):
            geometry.NearestCenter(centers, radius, whole=True)
    else:
        rows = np.array([[radius, 0.0]])
        assert geometry.NearestCenter(centers, radius, whole=True)(rows).tolist() == [1]


def test_ties_go_to_the_lowest_index_and_no_rows_give_no_labels():
    C = [[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]
    assert geometry.nearest([[0.0, 0.0], [1.0, 0.0]], C, radius=1.0).tolist() == [0, 1]
    assert geometry.nearest([[0.0, 0.0], [1.0, 0.0]], C).tolist() == [0, 1]
    assert geometry.nearest(np.empty((0, 2)), C, radius=1.0).shape == (0,)


def test_a_prepared_assignment_does_not_follow_its_input():
    C = np.eye(2)
    assign = geometry.NearestCenter(C)
    C[:] = 0
    assert assign(np.eye(2)).tolist() == [0, 1]


# -- t nearest


@few
@given(arrays(float, st.tuples(st.integers(3, 14), st.just(2)), elements=lattice), st.data())
def test_one_record_changes_one_choice(S, data):
    t = data.draw(st.integers(1, len(S) - 1))
    queries = data.draw(arrays(float, (3, 2), elements=lattice))
    gone = data.draw(st.integers(0, len(S) - 1))
    other = data.draw(st.permutations(range(len(S) - 1)))
    fewer = np.delete(S, gone, axis=0)[other]  # a data set has no order
    for more, less in zip(
        S[geometry.t_nearest(queries, S, t)],
        fewer[geometry.t_nearest(queries, fewer, t)],
        strict=True,
    ):
        assert sum((Counter(map(tuple, more)) - Counter(map(tuple, less))).values()) <= 1


@few
@given(arrays(float, st.tuples(st.integers(1, 12), st.just(3)), elements=lattice), st.data())
def test_t_nearest_equals_sorting(S, data):
    t, q = data.draw(st.integers(1, len(S))), data.draw(arrays(float, 3, elements=lattice))
    expected = sorted(
        S.tolist(), key=lambda p: (sum((a - b) ** 2 for a, b in zip(p, q, strict=True)), p)
    )[:t]
    assert S[geometry.t_nearest(q[None], S, t)[0]].tolist() == expected


# -- packings


def pack_slowly(n, d, radius, rng, batch):
    "The definition, one candidate after the other, fed with the same stream."
    unit, a = radius / 2.0 ** geometry.grid_bits(d), 0.5
    while True:
        P, refused = [], 0
        while refused < 100 and len(P) < n:
            for q in np.trunc(
                geometry.uniform_in_ball(batch, d, 1 - a, rng=rng) * 2.0 ** geometry.grid_bits(d)
            ):
                if all(sum((q - p) ** 2) >= (2 * a * 2.0 ** geometry.grid_bits(d)) ** 2 for p in P):
                    P, refused = [*P, q], 0
                else:
                    refused += 1
                if refused == 100 or len(P) == n:
                    break
        if len(P) == n:
            return np.array(P) * unit
        a /= 2


@pytest.mark.parametrize(
    ("n", "d", "batch"), [(30, 2, 512), (30, 2, 1), (60, 3, 16), (3, 1, 7), (1, 4, 512)]
)
def test_batches_do_not_change_the_packing(n, d, batch):
    for seed in range(3):
        slow = pack_slowly(n, d, 2.5, np.random.default_rng(seed), batch)
        assert same_bits(
            geometry.sphere_packing(n, d, 2.5, np.random.default_rng(seed), batch=batch), slow
        )


@pytest.mark.parametrize(
    ("n", "d", "a"), [(4016, 4, 1 / 16), (4016, 16, 1 / 4), (40, 2, 1 / 16), (2, 1, 1 / 4)]
)
def test_packing_is_separated_and_contained(n, d, a):
    P = geometry.sphere_packing(n, d, 3.0, rng=1)
    assert P.shape == (n, d)
    assert pdist(P).min() >= 6 * a * (1 - 1e-12) and np.linalg.norm(P, axis=1).max() <= 3 * (
        1 - a
    ) * (1 + 1e-12)
    assert np.log(n) <= geometry.packing_number_bound(d, 3 * (1 - a), 6 * a)
    assert same_bits(P, geometry.sphere_packing(n, d, 3.0, rng=1))


# -- covers and bounds


@few
@given(
    arrays(float, st.tuples(st.integers(1, 30), st.integers(1, 4)), elements=st.floats(-2, 2)),
    st.floats(0.1, 5),
)
def test_covers_cover(X, radius):
    for method in ("net", "farthest"):
        chosen, label = geometry.cover(X, radius, method=method)
        assert len(set(chosen.tolist())) == len(chosen) and label.shape == (len(X),)
        assert np.linalg.norm(X - X[chosen[label]], axis=1).max() <= radius * (1 + 1e-12)
        assert len(chosen) == 1 or pdist(X[chosen]).min() >= radius * (1 - 1e-12)


def test_cover_with_a_budget():
    X = np.random.default_rng(0).normal(size=(500, 3))
    chosen, label = geometry.cover(X, method="farthest", n_points=20)
    assert len(chosen) == 20 and label.max() == 19
    reach = np.sqrt(geometry.nearest_distance(X, X[chosen]).max())
    assert reach <= pdist(X[chosen]).min()  # Gonzalez: 21 rows, pairwise at least `reach` apart
    assert len(geometry.farthest_point_cover(np.zeros((9, 2)), n_points=4)) == 1
    with pytest.raises(ValueError, match="method"):
        geometry.cover(X, method="net", n_points=3)
    with pytest.raises(ValueError, match="needs a radius"):
        geometry.farthest_point_cover(X)


def test_bounds_against_known_cases():
    np.testing.assert_allclose(
        np.exp(geometry.ball_volume_log(np.array([1, 2, 3]), 2.0)), [4, 4 * np.pi, 32 / 3 * np.pi]
    )
    assert np.exp(geometry.packing_number_bound(1, 1.0, 1.0)) >= 3  # -1, 0, 1: tight on the line
    low, high = geometry.covering_number_bound(2, 1.0, 0.5)
    assert np.exp(low) <= 7 <= np.exp(high)  # seven half-size discs cover a disc
    assert np.isfinite(geometry.packing_number_bound(10_000, 1.0, 1e-9))
    assert (
        geometry.jl_dimension(1000, 0.2, 1.0) in (1595, 1596)
        and geometry.jl_dimension(1000, 0.2) > 2000
    )
    for m in (10, 100, 400):
        W = geometry.gaussian_projection(50, m, rng=m)
        assert W.shape == (50, m) and abs(W.std() * np.sqrt(m) - 1) < 0.2


# -- bad input, memory


@pytest.mark.parametrize("radius", [0, -1.0, np.nan, np.inf, None, "1", True, [1.0], 1e300, 1e-300])
def test_bad_radius(radius):
    calls = [
        lambda: geometry.clip_to_ball([[1.0]], radius),
        lambda: geometry.uniform_in_ball(3, 2, radius),
        lambda: geometry.sphere_packing(3, 2, radius, 0),
        lambda: geometry.net_cover([[1.0]], radius),
    ]
    for call in calls + (
        [lambda: geometry.nearest([[1.0]], [[1.0]], radius=radius)] if radius is not None else []
    ):
        with pytest.raises((TypeError, ValueError), match="radius="):
            call()


@pytest.mark.parametrize(
    "X",
    [
        [1.0, 2.0],
        [[[1.0]]],
        [[np.nan, 1.0]],
        [[np.inf, 1.0]],
        [["secret", "b"]],
        [[1j, 2]],
        [[1.0], [2.0, 3.0]],
        None,
        np.empty((3, 0)),
    ],
)
def test_bad_rows(X):
    calls = [
        lambda: geometry.clip_to_ball(X, 1.0),
        lambda: geometry.nearest(X, [[1.0, 2.0]], radius=1.0),
        lambda: geometry.nearest([[1.0, 2.0]], X),
        lambda: geometry.nearest_distance(X, [[1.0, 2.0]]),
        lambda: geometry.t_nearest([[1.0, 2.0]], X, 1),
        lambda: geometry.cover(X, 1.0),
    ]
    for call in calls:
        with pytest.raises((TypeError, ValueError)) as error:
            call()
        message = str(error.value)
        assert "secret" not in message and "\n" not in message and len(message) < 400


def test_other_bad_input():
    for call in (
        lambda: geometry.clip_to_ball([[1.0, 2.0]], 1.0, [0.0]),
        lambda: geometry.clip_to_ball([[1.0, 2.0]], 1.0, [np.nan, 0.0]),
        lambda: geometry.clip_to_ball([[1.0, 2.0]], 1.0, [1e300, 0.0]),
        lambda: geometry.clip_to_ball([[1.0]], 1.0, block_rows=0),
        lambda: geometry.nearest([[1.0, 2.0]], [[1.0]]),
        lambda: geometry.nearest([[1.0]], np.empty((0, 1))),
        lambda: geometry.t_nearest([[1.0]], [[1.0], [2.0]], 3),
        lambda: geometry.t_nearest([[1.0]], [[1.0], [2.0]], 0),
        lambda: geometry.sphere_packing(0, 2, 1.0),
        lambda: geometry.sphere_packing(5, 0, 1.0),
        lambda: geometry.uniform_in_ball(5.0, 2),
        lambda: geometry.gaussian_projection(5, 0),
        lambda: geometry.jl_dimension(10, 0.5, 0.0),
        lambda: geometry.cover([[1.0]], 1.0, method="grid"),
    ):
        with pytest.raises((TypeError, ValueError)):
            call()


def peak(call):
    tracemalloc.start()
    call()
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return size


def test_memory_is_bounded_by_the_block():
    X, C = (
        np.random.default_rng(0).normal(size=(200_000, 4)),
        np.random.default_rng(1).normal(size=(200, 4)),
    )
    full = len(X) * len(C) * 8
    assert peak(lambda: geometry.nearest(X, C, radius=3.0)) < full / 50
    assert peak(lambda: geometry.nearest(X, C)) < full / 50
    assert peak(lambda: geometry.nearest_distance(X, C)) < full / 50
    assert peak(lambda: geometry.t_nearest(C, X, 50)) < full / 10
    assert peak(lambda: geometry.clip_to_ball(X, 1.0)) < 2 * X.nbytes
    assert peak(lambda: geometry.cover(X, method="farthest", n_points=50)) < 4 * X.nbytes
    assert peak(lambda: geometry.sphere_packing(5000, 8, 1.0, 0)) < 5000 * 5000 * 8 / 10


@pytest.mark.parametrize("radius", [1e-90, 0.3, 1.0, 1e90])
@pytest.mark.parametrize("d", [1, 3, 50])
def test_rows_near_the_sphere_are_judged_by_the_norm_that_is_added_up_column_by_column(radius, d):
    X = geometry.uniform_on_sphere(2000, d, radius, 0)
    X *= 1 + np.linspace(-30, 30, len(X))[:, None] * 2.0**-53  # across the sphere, bit by bit
    X[::7] *= 0.5
    X[3::7] *= 1e3
    largest = np.maximum(np.abs(X).max(axis=1), radius)  # as if every row were doubtful
    far = balls._norms((X / largest[:, None]).T) > radius / largest
    found, clipped = balls._clip_block(X, radius)
    assert np.array_equal(found, far) and 0 < found.sum() < len(X)
    one_by_one = [balls._clip_block(X[i : i + 1], radius)[1][0] for i in np.flatnonzero(found)]
    assert np.array_equal(clipped, one_by_one)
