"""A fit by one and two worker processes over rows in Parquet files, and the parts that its time is made of: cluster.csv.

Four million rows of 16 columns lie in 16 files. Each line is NoisyLloyd with two rounds (three passes, each of
which reads the files anew) on a fresh `dask.distributed` cluster on this machine: wall seconds, and
processor seconds of the workers together and of this process, in which the client and the scheduler are.
Lines with a row a partition show what partitions take by themselves. Needs polars.
"""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.scale import D, K
from bench.store import Store
from dplit import NoisyLloyd
from dplit.geometry import sphere_packing

FILES = 16
KEY = {"rows": int, "partitions": int, "workers": int}
FIELDS = [*KEY, "wall_s", "workers_cpu_s", "client_cpu_s", "same"]


def write_files(folder, rows, files):
    """So many Parquet files, together so many rows; their paths."""
    import polars

    rng = np.random.default_rng(0)
    homes = sphere_packing(K, D, 0.7, rng).astype(np.float32)
    paths = []
    for i in range(files):
        n = rows // files
        block = homes[rng.integers(K, size=n)]
        block += 0.05 * rng.standard_normal((n, D), dtype=np.float32)
        paths.append(Path(folder, f"part-{i:03}.parquet"))
        polars.from_numpy(block, [f"x{j}" for j in range(D)]).write_parquet(paths[-1])
    return paths


def read(path):
    """The rows of a file, on the worker that is asked."""
    import polars

    return polars.read_parquet(path).to_numpy()


def array_of(paths):
    """One partition a file; of the files only their lengths are read here."""
    import polars
    from dask import array, delayed

    lengths = [polars.scan_parquet(path).select(polars.len()).collect().item() for path in paths]
    parts = [delayed(read, pure=True)(path) for path in paths]
    shapes = [(n, D) for n in lengths]
    return array.concatenate(
        [array.from_delayed(p, s, np.float32) for p, s in zip(parts, shapes, strict=True)]
    )


def fit(rows):
    model = NoisyLloyd(K, epsilon=1.0, delta=1e-9, radius=1.0, random_state=0, n_iter=2)
    return model.fit(rows).cluster_centers_


def on_cluster(paths, workers):
    """(wall, the workers' processors, ours, centers) of a fit; the second on a cluster, for the first imports."""
    from distributed import Client, LocalCluster

    local = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(n_workers=workers, **local) as machines, Client(machines) as client:
        rows = array_of(paths)
        fit(rows)
        there = sum(client.run(time.process_time).values())
        wall, here = time.perf_counter(), time.process_time()
        centers = fit(rows)
        wall, here = time.perf_counter() - wall, time.process_time() - here
        return wall, sum(client.run(time.process_time).values()) - there, here, centers


def measure(rows, partitions, workers):
    """The times, and whether the centers are those of the rows in memory."""
    with tempfile.TemporaryDirectory() as folder:
        paths = write_files(folder, rows, partitions)
        expected = fit(np.concatenate([read(path) for path in paths])).tobytes()
        *times, centers = on_cluster(paths, workers)
    found = {name: f"{t:.3g}" for name, t in zip(FIELDS[3:6], times, strict=True)}
    return found | {"same": centers.tobytes() == expected}


def run(folder, rows):
    """cluster.csv."""
    os.environ["POLARS_MAX_THREADS"] = "1"  # a worker is one thread
    jobs = [(FILES, FILES, 1), (8 * FILES, 8 * FILES, 1), (rows, FILES, 1), (rows, FILES, 2)]
    store = Store(folder / "cluster.csv", KEY, FIELDS)
    show = lambda row: print(*(row[f] for f in FIELDS), flush=True)  # noqa: E731
    store.run(jobs, measure, show)
