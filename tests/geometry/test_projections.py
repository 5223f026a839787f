"""Projections: orthogonal columns of equal length, the same on every machine, and both names under which they may be asked for."""

import numpy as np
import pytest

from dplit import geometry
from dplit.geometry import project


@pytest.mark.parametrize(("d", "q"), [(5, 1), (40, 3), (784, 32)])
def test_orthonormal_columns_are_orthogonal_and_keep_the_average_length(d, q):
    W = geometry.orthonormal_projection(d, q, 0)
    assert W.shape == (d, q) and np.array_equal(W, np.round(W, 6))
    assert np.allclose(W.T @ W, np.eye(q) * d / q, atol=d * 1e-6)  # so |xW|^2 is |x|^2 on average


@pytest.mark.parametrize("bad", [0, -3, 2.5, True, "3"])
def test_impossible_dimensions_are_refused(bad):
    for call in (
        lambda: geometry.gaussian_projection(bad, 2),
        lambda: geometry.gaussian_projection(5, bad),
        lambda: geometry.jl_dimension(bad, 0.5),
    ):
        with pytest.raises((TypeError, ValueError), match="needs"):
            call()


# Slips in one line that no other test noticed: exact numbers, enumeration, brute force on tiny cases.


def test_projected_rows_are_products_over_the_radius():
    rng = np.random.default_rng(0)
    X, matrix = rng.uniform(-1, 1, size=(20, 5)), rng.normal(size=(5, 2)) / 4
    for divisor, radius in ((1.0, 3.0), (1.7, 100.0)):
        got = geometry.project(X * radius / 3, matrix, radius=radius, divisor=divisor)
        assert np.allclose(got, X @ matrix / 3 / divisor, atol=1e-5)
        got = geometry.project(X * radius / 3, None, radius=radius, divisor=divisor)
        assert np.allclose(got, X / 3 / divisor, atol=1e-5)


def test_a_matrix_that_does_not_fit_is_refused_by_name():
    for matrix in (np.ones((3, 2)), np.full((2, 2), np.nan), "no"):
        with pytest.raises((TypeError, ValueError), match="matrix"):
            project(np.zeros((5, 2)), matrix, radius=1.0, divisor=1.0)
