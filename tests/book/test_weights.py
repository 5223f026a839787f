"""The benchmark of weights: its file is whole, and says what its program measures."""

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest
from bench import weights
from sklearn.cluster import KMeans

FILE = Path(__file__).parents[2] / "nbs" / "benchmarks" / "weights.csv"
LINES = list(csv.DictReader(FILE.open(newline="")))


def test_every_table_weight_and_seed_is_there_once():
    seeds = [str(weights.FIRST + i) for i in range(10)]
    wanted = itertools.product(
        weights.RANGES, ("KMeans", "PEMeans"), ("1", "0.5", "0.25", "0.125"), seeds
    )
    found = [tuple(line[key] for key in weights.KEY) for line in LINES]
    assert len(found) == len({*found}) and {*found} == {*wanted}
    shares = np.array([[float(line["numbers"]), float(line["lists"])] for line in LINES])
    assert 0 <= shares.min() and shares.max() < 1.1  # of a local minimum: a little above 1


def test_what_groups_explain_is_what_kmeans_leaves_less():
    """A second witness: scikit-learn's inertia."""
    rows = np.random.default_rng(0).normal(size=(500, 3))
    model = KMeans(4, n_init=1, random_state=0, tol=0, max_iter=1000).fit(rows)
    total = KMeans(1, n_init=1).fit(rows).inertia_
    assert weights.explained(rows, model.labels_) == pytest.approx(total - model.inertia_)
    assert weights.explained(rows, np.zeros(500, dtype=int)) == pytest.approx(0, abs=1e-9)
    assert weights.explained(rows[:4], np.array([7, 2, 9, 5])) == pytest.approx(
        ((rows[:4] - rows[:4].mean(axis=0)) ** 2).sum()
    )


@pytest.mark.rest
@pytest.mark.parametrize("name", weights.RANGES)
def test_the_program_measures_what_the_file_says(name):
    pytest.importorskip("pandas")
    if (whole := weights.table(name)) is None:
        pytest.skip("the table is not here")
    known = {tuple(line[key] for key in weights.KEY): line for line in LINES}
    for line in weights.measured(name, whole, weights.FIRST):
        other = known[tuple(str(line[key]) for key in weights.KEY)]
        for share in ("numbers", "lists"):
            assert float(line[share]) == pytest.approx(float(other[share]), abs=0.02)
