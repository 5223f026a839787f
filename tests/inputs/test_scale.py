"""Rows in memory, in a memory map and on dask give the same releases, bit for bit, and no partition's error quotes a row."""

import logging
import os
import signal
import subprocess
import sys
import tracemalloc
from functools import partial

import numpy as np
import pytest
from test_estimators import quotes, sentences

from dplit import (
    GridKMeans,
    HDPEMeans,
    MaxCoverKMeans,
    NoisyAverageSet,
    NoisyLloyd,
    PEMeans,
    PrivacyBudget,
)
from dplit.inputs import MappedRows, UnreadableRecords, blocks, check_rows, map_blocks
from dplit.mechanisms import Noise

COMMON = {"n_clusters": 3, "radius": 4.0, "epsilon": 1.0, "delta": 1e-6, "random_state": 0}
COMMON |= {"center": [0.5] * 5}
ESTIMATORS = {
    "NoisyLloyd": partial(NoisyLloyd, **COMMON, n_iter=2, init="mean"),
    "NoisyLloyd, pure": partial(NoisyLloyd, **COMMON | {"delta": 0.0}, n_iter=2),
    "GridKMeans": partial(GridKMeans, **COMMON | {"delta": 0.0}),
    "MaxCoverKMeans": partial(MaxCoverKMeans, **COMMON, finest=0.2, n_lloyd=1),
    "PEMeans": partial(PEMeans, **COMMON, n_refine=2),
    "PEMeans as published": partial(PEMeans, **COMMON, variant="paper", n_public=900, n_votes=3),
    "HDPEMeans": partial(HDPEMeans, **COMMON, n_components=2, n_refine=2),
    "HDPEMeans as published": partial(
        HDPEMeans, **COMMON, variant="paper", n_public=900, n_components=2
    ),
}
every = pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)
X = np.random.default_rng(8).normal(scale=2.0, size=(907, 5)).astype(np.float32)
NO_DASK = "dask is not installed: pip install 'dplit[dask]' runs this test"


@pytest.fixture
def da():
    return pytest.importorskip("dask.array", reason=NO_DASK)


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes, for all tests here; dask uses them while the client is open."""
    distributed = pytest.importorskip("distributed", reason=NO_DASK)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as machines,
        distributed.Client(machines) as client,
    ):
        yield client


def released(make, rows, **params):
    model = make(**params).fit(rows)
    return model.cluster_centers_.tobytes(), repr(model.spent_)


def on_disk(rows, folder):
    stored = np.lib.format.open_memmap(folder / "X.npy", "w+", rows.dtype, rows.shape)
    stored[:] = rows
    stored.flush()
    return np.load(folder / "X.npy", mmap_mode="r")


CHUNKS = {
    "one partition": (907, 5),
    "uneven partitions, an empty one": ((1, 0, 400, 506), (5,)),
    "columns apart": (100, 2),
}


@every
@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_releases_are_the_same_bits_wherever_the_rows_lie(
    make, neighboring, da, tmp_path, monkeypatch
):
    fit = partial(released, make, neighboring=neighboring)
    expected = fit(X)
    assert fit(on_disk(X, tmp_path)) == expected
    for chunks in CHUNKS.values():
        assert fit(da.from_array(X, chunks=chunks)) == expected
    # as if the rows were too many to keep anything of them
    monkeypatch.setattr(blocks, "KEPT_BYTES", 0)
    assert fit(X) == expected


@every
def test_two_worker_processes_release_the_same_bits(make, cluster, da):
    rows = da.from_array(X, chunks=(150, 5))
    assert released(make, rows) == released(make, X)
    assert cluster.run(lambda: "dplit.mechanisms.noise" in sys.modules).keys() == set(
        cluster.scheduler_info()["workers"]
    )


def test_the_workers_did_the_work(cluster, da):
    """Each partition says where it was: in both workers, and not here."""
    where = set(map_blocks(lambda start, rows: os.getpid(), da.zeros((64, 2), chunks=(4, 2))))
    assert where == set(cluster.run(os.getpid).values()) and os.getpid() not in where


@every
def test_what_a_fitted_model_says_of_rows_does_not_depend_on_where_they_lie(make, da):
    model, rows = make().fit(X), da.from_array(X, chunks=(100, 2))
    assert np.array_equal(model.predict(rows), model.predict(X))
    assert model.score(rows) == pytest.approx(model.score(X))


def test_the_noise_interface_takes_dask_arrays_and_groups_of_every_kind(da):
    groups = (X[:, 0] > 0).astype(int)
    rows = da.from_array(X, chunks=(100, 5))

    def mapped(table):
        return MappedRows(table, lambda rows, at: rows[:, 0] > 0, 1)

    for table in (X, rows):
        for which in (groups, mapped(table)):
            sums, counts = Noise(0).sums(table, radius=4.0, groups=which, n_groups=2, mu=0.5)
            expected = Noise(0).sums(X, radius=4.0, groups=groups, n_groups=2, mu=0.5)
            assert np.array_equal(sums, expected[0]) and np.array_equal(counts, expected[1])
        votes = Noise(0).histogram(mapped(table), 2, mu=1.0)
        assert np.array_equal(votes, Noise(0).histogram(groups, 2, mu=1.0))
    with pytest.raises(ValueError, match="same rows"):
        Noise(0).sums(X, radius=4.0, groups=mapped(X.copy()), n_groups=2, mu=0.5)


def read_or_die(path, visits, us):
    """The rows of a Parquet file; if somebody else's process is told ours, the third who comes dies."""
    import polars

    with visits.open("ab") as file:
        file.write(b".")
    if us not in (0, os.getpid()) and visits.stat().st_size == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return polars.read_parquet(path).to_numpy()


@pytest.mark.parametrize("name", ["NoisyLloyd", pytest.param("PEMeans", marks=pytest.mark.slow)])
def test_four_workers_over_parquet_files_one_of_them_killed_release_the_same_bits(
    name, da, tmp_path
):
    """In the third pass of several: its part is made again elsewhere, and no noise is drawn twice."""
    distributed = pytest.importorskip("distributed", reason=NO_DASK)
    polars = pytest.importorskip("polars", reason="polars writes the Parquet files of this test")
    delayed, parts = pytest.importorskip("dask").delayed, []
    for i, rows in enumerate(np.array_split(X, 6)):
        polars.from_numpy(rows).write_parquet(path := tmp_path / f"{i}.parquet")
        read = delayed(read_or_die)(path, tmp_path / f"visits-{i}", os.getpid() if i == 4 else 0)
        parts.append(da.from_delayed(read, rows.shape, rows.dtype))
    settings = {"n_workers": 4, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(processes=True, **settings) as machines,
        distributed.Client(machines) as client,
    ):
        before = set(client.run(os.getpid).values())
        found = released(ESTIMATORS[name], da.concatenate(parts))
        client.wait_for_workers(4)
        after = set(client.run(os.getpid).values())
    assert len(before) == 4 and before - after  # somebody did die
    assert found == released(ESTIMATORS[name], X)


# ---------------------------------------------------------------- bad rows


def spoilt(value):
    bad = X.astype(float)
    bad[700, 3] = value
    return bad


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_bad_rows_are_refused_with_the_same_sentence_everywhere(value, da, tmp_path):
    said = set()
    for rows in (spoilt(value), on_disk(spoilt(value), tmp_path), da.from_array(spoilt(value))):
        model = ESTIMATORS["NoisyLloyd"]()
        with pytest.raises(ValueError, match="^X cannot be used") as caught:
            model.fit(rows)
        assert not [s for s in sentences(caught.value) if quotes(s, X)]
        assert set(vars(model)) == set(model.get_params())
        said.add(str(caught.value))
    assert len(said) == 1
    both = spoilt(value)
    both[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        ESTIMATORS["NoisyLloyd"]().fit(both)


def words():
    return np.where(X == X[5, 1], f"<{X[5, 1]}>", X.astype(object))


UNFIT = {
    "no rows": (lambda da: da.zeros((0, 5)), ValueError),
    "no columns": (lambda da: da.zeros((9, 0)), ValueError),
    "1-d": (lambda da: da.from_array(X[:, 0]), ValueError),
    "complex": (lambda da: da.from_array(X + 1j), ValueError),
    "strings": (lambda da: da.from_array(X.astype(str)), ValueError),
    "words": (lambda da: da.from_array(words(), chunks=(100, 5)), ValueError),
    "unknown length": (lambda da: da.from_array(X)[da.from_array(X)[:, 0] > 0], ValueError),
}


@pytest.mark.parametrize("kind", UNFIT)
def test_dask_arrays_that_are_no_tables_are_refused_in_one_sentence(kind, da):
    make, error = UNFIT[kind]
    with pytest.raises(error, match="^X ") as caught:
        ESTIMATORS["NoisyLloyd"]().fit(make(da))
    assert not [s for s in sentences(caught.value) if quotes(s, X)] and "\n" not in str(
        caught.value
    )


def explode(rows):
    raise KeyError(f"bad cell in {rows.tolist()}")


def test_an_error_in_a_partition_quotes_no_row_here(da):
    rows = da.from_array(X, chunks=(100, 5)).map_blocks(explode, meta=X[:0])
    dask = pytest.importorskip("dask")
    with (
        dask.config.set(scheduler="threads"),
        pytest.raises(UnreadableRecords, match="^X cannot be used") as caught,
    ):
        ESTIMATORS["NoisyLloyd"]().fit(rows)
    assert not [s for s in sentences(caught.value) if quotes(s, X)]
    assert "installed on every worker" in caught.value.__notes__[0]


NARROW = {  # blocks that have other columns than their array declares
    "one in place of five": lambda rows: rows[:, :1],
    "four": lambda rows: rows[:, :4],
    "six": lambda rows: np.column_stack([rows, rows[:, 0]]),
    "none": lambda rows: rows[:, :0],
    "one axis": lambda rows: rows[:, 0],
}


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("private", [False, True])
def test_a_block_of_other_columns_is_refused_like_any_broken_block(kind, private, da):
    """Mutation: a block of one column is broadcast to all. Whether every block, or one that holds a certain record, plays no part."""
    dask = pytest.importorskip("dask")
    cut = lambda rows: NARROW[kind](rows) if not private or (rows == X[5]).any() else rows  # noqa: E731
    said = set()
    spoiled = lambda rows: np.where(rows == X[5], np.nan, rows)  # noqa: E731
    for broken in (cut, explode, spoiled):
        rows = da.from_array(X, chunks=(100, 5)).map_blocks(broken, meta=X[:0], dtype=X.dtype)
        with dask.config.set(scheduler="threads"), pytest.raises(ValueError) as caught:
            ESTIMATORS["NoisyLloyd"]().fit(rows)
        said.add((type(caught.value), str(caught.value)))
    assert len(said) == 1 and UnreadableRecords in next(iter(said))


@pytest.mark.parametrize("value", [np.nan, "text"])
def test_an_error_in_a_worker_quotes_no_row_in_any_log(value, cluster, da, caplog):
    """A worker logs the arguments of a task that failed: so ours must not fail."""
    bad = X.astype(object)
    bad[700, 3] = value

    def logged():
        return {str(line) for lines in cluster.get_worker_logs().values() for line in lines}

    before = logged()
    with caplog.at_level(logging.DEBUG), pytest.raises(ValueError, match="^X ") as caught:
        ESTIMATORS["NoisyLloyd"]().fit(da.from_array(bad, chunks=(100, 5)))
    assert not [s for s in sentences(caught.value) if quotes(s, X)]
    assert not [line for line in logged() - before if quotes(line, X, n_rows=False)]
    assert not quotes(caplog.text, X, n_rows=False)
    # does this test see what a worker logs? A task of one's own that fails is quoted
    failing = da.from_array(X[:3], chunks=(3, 5)).map_blocks(explode, meta=X[:0])
    with pytest.raises(KeyError):
        failing.compute()
    assert [line for line in logged() - before if quotes(line, X[:3], n_rows=False)]


# ---------------------------------------------------------------- who takes what


def test_who_works_in_memory_says_so(da):
    rows = da.from_array(X.astype(float), chunks=(100, 5))
    with pytest.raises(TypeError, match=r"^Xs is a dask array: NoisyAverageSet works in memory"):
        NoisyAverageSet(t=20, epsilon=1.0, radius=4.0).fit(Xs=rows, Xt=X[:50])
    printed = MaxCoverKMeans(**COMMON, variant="paper", n_public=900)
    with pytest.raises(TypeError, match=r'variant="paper" works in memory\. Pass X.compute\(\)'):
        printed.fit(rows)
    with pytest.raises(TypeError, match="dask array"):
        check_rows(rows, "anybody")


def test_dask_is_imported_by_nobody_but_its_user():
    code = "import sys, numpy, dplit; dplit.NoisyLloyd(2, epsilon=1., delta=1e-6, radius=1.)"
    code += ".fit(numpy.zeros((9, 2))); sys.exit('dask' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize(
    "name",
    [
        "NoisyLloyd",
        "PEMeans",
        pytest.param("MaxCoverKMeans", marks=pytest.mark.slow),
        pytest.param("HDPEMeans", marks=pytest.mark.slow),
    ],
)
def test_a_fit_holds_a_block_and_not_the_rows(name, tmp_path, monkeypatch):
    """Five times the rows, the same memory."""
    monkeypatch.setattr(blocks, "KEPT_BYTES", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)  # one block for each thread
    quick = {"n_votes": 1, "population": 20} if "PE" in name else {}
    peaks = []
    for n in (300_000, 1_500_000):
        rows = on_disk(np.resize(X, (n, 5)), tmp_path)
        tracemalloc.start()
        ESTIMATORS[name](**quick).fit(rows)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0] < X.itemsize * 5 * 1_500_000, peaks


@pytest.mark.parametrize("kind", [object, complex, "U3", "datetime64[D]"])
def test_a_type_that_is_not_of_numbers_is_refused_before_a_charge(kind, da):
    budget, rows = (
        PrivacyBudget(9.0, 1e-3),
        da.from_array(np.zeros((9, 5)).astype(kind), chunks=(3, 5)),
    )
    with pytest.raises(ValueError, match="^X cannot be used"):
        budget.fit(ESTIMATORS["NoisyLloyd"](), rows)
    assert not budget.ledger
