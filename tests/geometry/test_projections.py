"""Projections: orthogonal columns of equal length, the same on every machine."""

import numpy as np
import pytest

from dplit import geometry as projections


@pytest.mark.parametrize(("d", "q"), [(5, 1), (40, 3), (784, 32)])
def test_orthonormal_columns_are_orthogonal_and_keep_the_average_length(d, q):
    W = projections.orthonormal_projection(d, q, 0)
    assert W.shape == (d, q) and np.array_equal(W, np.round(W, 6))
    assert np.allclose(W.T @ W, np.eye(q) * d / q, atol=d * 1e-6)  # so |xW|^2 is |x|^2 on average


@pytest.mark.parametrize("bad", [0, -3, 2.5, True, "3"])
def test_impossible_dimensions_are_refused(bad):
    for call in (
        lambda: projections.gaussian_projection(bad, 2),
        lambda: projections.gaussian_projection(5, bad),
        lambda: projections.jl_dimension(bad, 0.5),
    ):
        with pytest.raises((TypeError, ValueError), match="needs"):
            call()
