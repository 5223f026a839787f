"""Slips that no other test noticed, each found by changing one line: exact fractions, enumeration and brute force on tiny cases."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dplit.mechanisms import Noise, lattice, watch

RELATIONS = pytest.mark.parametrize("neighboring", ["add_remove", "replace"])


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
    price = {"epsilon": 1.0} if kind == "laplace" else {"mu": 1.0}
    one = np.full(size, 0.49 * step)
    (a,), (b,) = (
        events_of(lambda noise, v=v: getattr(noise, kind)(v, sensitivity=sensitivity, **price))
        for v in (one, one + move * step)
    )
    moved = np.linalg.norm(a.value - b.value, ord=norm)
    assert moved > sensitivity / step * (1 + 0.4 / move)  # rounding alone took it beyond the claim
    assert moved <= a.sensitivity == b.sensitivity


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_no_rounding_of_the_scale_sells_more_than_its_price(kind):
    rng = np.random.default_rng(0)
    short = 0
    for sensitivity, price in np.exp(rng.uniform(-3, 3, size=(300, 2))):
        name = "epsilon" if kind == "laplace" else "mu"
        noise = Noise(0)
        getattr(noise, kind)([0.0, 0.0], sensitivity=sensitivity, **{name: price})
        (line,) = noise.releases
        spent = Fraction(line.sensitivity) / Fraction(line.scale)  # exact
        assert spent <= Fraction(float(price)) == Fraction(getattr(line, name))
        short += Fraction(line.sensitivity / price) * Fraction(float(price)) < Fraction(line.sensitivity)  # fmt: skip
    assert short > 50  # so often a plain quotient would have cost more than the price
