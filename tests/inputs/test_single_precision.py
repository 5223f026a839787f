"""A ball for rows of single precision: they may lie outside by rounding, and one exact rule clips them, so that the sensitivity holds."""

import itertools

import numpy as np
import pytest

from dplit import BoundedScaler, NoisyLloyd, PEMeans
from dplit.geometry import clip_to_ball
from dplit.inputs import quantize
from dplit.inputs.lattice import lattice
from dplit.mechanisms import Noise
from dplit.mechanisms.noise import LatticeRows

RNG = np.random.default_rng(0)


def corners(d, weight):
    """Every cell at an end of its range, or beyond: the longest rows that a scaler makes, as float32."""
    signs = [*itertools.islice(itertools.product([0.0, 1.0], repeat=d), 64)]
    X = np.array(signs + [[1e30] * d, [-1e30] * d], dtype=np.float32)
    scaler = BoundedScaler(0.0, 1.0, weight=weight).fit(X)
    rows = scaler.transform(X)
    assert rows.dtype == np.float32
    return rows, scaler.radius_


def exact_length(Q):
    """Squared lengths of whole rows, in whole numbers of any size."""
    return [sum(int(cell) ** 2 for cell in row) for row in Q]


def radii(radius):
    """What a user may hand over as the radius: as it is, in single precision, or rounded down or up there."""
    single = np.float32(radius)
    return (
        radius,
        single,
        np.nextafter(single, np.float32(0)),
        np.nextafter(single, np.float32(9e9)),
    )


WEIGHTS = (1.0, 0.1, 0.3, 1.1, 7.7, 123.4)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 6, 17])
@pytest.mark.parametrize("weight", WEIGHTS)
def test_whatever_is_rounded_no_row_is_longer_than_the_sensitivity(d, weight):
    rows, radius = corners(d, weight)
    for given in radii(radius):
        given = float(given)
        _, limit = lattice(given)
        for Q in (quantize(rows, given), quantize(rows.astype(float), given)):
            assert max(exact_length(Q)) <= limit**2
        kept = LatticeRows(rows, given, keep=2**30)[:]
        # kept in single precision: whole, and exact
        assert np.array_equal(kept, quantize(rows, given))
        assert max(exact_length(kept)) <= limit**2
        lengths = np.hypot.reduce(clip_to_ball(rows, given), axis=1)
        assert lengths.max() <= given * (1 + d * 2.0**-52)


def test_some_rows_do_lie_outside_so_that_the_test_above_says_something():
    outside = [
        np.hypot.reduce(rows.astype(float), axis=1).max() > radius * (1 + 1e-9)
        for rows, radius in (corners(d, weight) for d in (1, 2, 3) for weight in WEIGHTS)
    ]
    assert 3 <= sum(outside) < len(outside)
    below = [
        float(np.float32(radius)) < radius for _, radius in (corners(d, 1.0) for d in range(1, 9))
    ]
    assert any(below) and not all(below)


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("weight", [0.3, 1.1])
def test_sums_of_neighbors_differ_by_no_more_than_was_declared(neighboring, weight):
    """The numbers before the noise, by a door that adds none: exact sums of lattice rows, one record more, less or another."""
    rows, radius = corners(3, weight)
    for given in map(float, radii(radius)):
        step, limit = lattice(given)
        most = limit if neighboring == "add_remove" else 2 * limit
        noise = Noise(0, neighboring=neighboring)
        noise.sums(rows, radius=given, mu=1.0)
        [line] = [one for one in noise.releases if one.sensitivity is not None][:1]
        # with the number of rows a little more
        assert most * step <= line.sensitivity * (1 + 1e-12)
        Q = quantize(rows, given)
        total = Q.sum(axis=0)
        for i in range(len(rows)):
            for other in [None] if neighboring == "add_remove" else range(0, len(rows), 7):
                moved = total - Q[i] + (0 if other is None else Q[other])
                assert sum(int(cell) ** 2 for cell in total - moved) <= most**2


@pytest.mark.parametrize("kind", [PEMeans, NoisyLloyd], ids=lambda kind: kind.__name__)
def test_a_fit_costs_the_same_and_stays_in_the_ball(kind):
    rows, radius = corners(2, 0.3)
    rows = np.repeat(rows, 20, axis=0)
    for given in radii(radius):
        cost = {"epsilon": 1.0, "delta": 1e-6, "radius": given, "random_state": 0}
        one, two = kind(2, **cost).fit(rows), kind(2, **cost).fit(rows.astype(float))
        assert one.spent_.to_dict() == two.spent_.to_dict() and one.spent_.epsilon <= 1.0 + 1e-9
        assert np.array_equal(one.cluster_centers_, two.cluster_centers_.astype(np.float32))
        assert np.hypot.reduce(one.cluster_centers_.astype(float), axis=1).max() <= float(given) * (
            1 + 1e-6
        )
