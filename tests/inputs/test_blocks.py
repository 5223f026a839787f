"""Private rows come in as blocks, on a lattice of whole numbers."""

import math

import numpy as np
import pytest

from dplit.inputs import MappedRows, map_blocks
from dplit.inputs.lattice import lattice


@pytest.mark.parametrize("radius", [True, np.True_, "3", [1.0], np.ones(2), 0.0, -1.0, 0.99e-100, 1.01e100, math.nan, math.inf, None])  # fmt: skip
def test_a_lattice_needs_one_number_in_range(radius):
    with pytest.raises((ValueError, TypeError)) as caught:
        lattice(radius)
    assert caught.type is ValueError or radius is None
    assert radius is None or "from 1e-100 to 1e100" in str(caught.value)


def test_blocks_have_about_131000_numbers():
    def seen(X):
        return [(start, rows) for start, rows in map_blocks(lambda start, rows: (start, len(rows)), X)]  # fmt: skip

    assert seen(np.zeros((1100, 256))) == [(0, 512), (512, 512), (1024, 76)]
    assert seen(np.zeros((600, 2**17))[:, :1000]) == [(0, 256), (256, 256), (512, 88)]
    # a mapped table is cut by the wider of what it reads and what it makes
    wide = MappedRows(np.zeros((1100, 1)), lambda rows, at: np.repeat(rows, 256, axis=1), 256)
    assert seen(wide) == [(0, 512), (512, 512), (1024, 76)]
    wide = MappedRows(np.zeros((1100, 256)), lambda rows, at: rows[:, :1], 1)
    assert seen(wide) == [(0, 512), (512, 512), (1024, 76)]


def test_partitions_are_mapped_one_by_one():
    array = pytest.importorskip("dask.array")
    dask = pytest.importorskip("dask")
    X = np.arange(14.0).reshape(7, 2)
    with dask.config.set(scheduler="synchronous"):
        table = array.from_array(X, chunks=((3, 4), (2,)))
        got = list(map_blocks(lambda start, rows: (start, rows.sum()), table, block_rows=2))
        assert got == [(0, 6.0), (2, 9.0), (3, 30.0), (5, 46.0)]
        sums = list(map_blocks(lambda start, rows: rows.sum(), table, block_rows=2, reduce=sum))
        assert sums == [15.0, 76.0]
