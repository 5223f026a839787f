"""Fits on an accelerator: rows 1e6 to --rows of 16 float32 columns, as PyTorch tensors: accelerator.csv.

    python tools/bench/benchmark.py accelerator --out DIR --rows 1e9

Needs PyTorch; runs on its first graphics card, or on the processor where there is none. Each line has
the seconds of whole fits of `PEMeans` (defaults) and `NoisyLloyd` (five rounds) with 16 clusters, the
memory they took beyond the rows, one read of the table and the rates of plain products in the same
run, scikit-learn's `KMeans` on the processor (up to 1e6 rows) and cuML's where it is installed. The
released values of the first million rows are compared with those of numpy: `same` must be yes.
"""

import time

import numpy as np
from sklearn.cluster import KMeans

from bench.store import write
from dplit import NoisyLloyd, PEMeans
from dplit.accounting import Table
from dplit.private_evolution import fused

D, K, RADIUS, BLOCK, ALIKE = 16, 16, 1.0, 2**20, 10**6
COST = {"epsilon": 1.0, "delta": 1e-9, "radius": RADIUS, "random_state": 0}
FITS = {"PEMeans": PEMeans(K, **COST), "NoisyLloyd": NoisyLloyd(K, n_iter=5, **COST)}


def clusters(n, device):
    """Sixteen groups in the unit ball, made where they stay."""
    import torch

    rng = torch.Generator(device).manual_seed(0)
    homes = torch.randn(K, D, generator=rng, device=device) / 12
    rows = torch.empty(n, D, dtype=torch.float32, device=device)
    for i in range(0, n, BLOCK):
        block = rows[i : i + BLOCK]
        block.copy_(homes[torch.randint(K, (len(block),), generator=rng, device=device)])
        block.add_(torch.randn(block.shape, generator=rng, device=device), alpha=1 / 60)
    return rows


def seconds(function, device):
    """Wall time of a call, with all that it left to the device."""
    import torch

    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    function()
    wait()
    return time.perf_counter() - start


def rates(rows, device):
    """(GB read in a second, float32 and float64 products: 1e12 operations in a second)."""
    import torch

    read = seconds(lambda: [rows[i : i + 2**24].sum() for i in range(0, len(rows), 2**24)], device)
    side, speed = 8192 if device == "cuda" else 1024, []
    for kind in (torch.float32, torch.float64):
        square = torch.ones(side, side, dtype=kind, device=device)
        square @ square
        speed.append(2 * side**3 / seconds(lambda square=square: square @ square, device) / 1e12)
    return rows.nbytes / read / 1e9, *speed


def fitted(model, rows, device):
    """(seconds of a fit, GB that it took beyond the rows)."""
    import torch

    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() if device == "cuda" else 0
    took = seconds(lambda: model.fit(rows), device)
    most = torch.cuda.max_memory_allocated() if device == "cuda" else before
    return took, (most - before) / 1e9


def alike(model, rows):
    """Whether a fit of some rows where they are releases the bits of numpy."""
    some, bits = rows[:ALIKE], []
    for table in (some, some.cpu().numpy()):
        model.fit(table)
        bits.append(
            (model.cluster_centers_.tobytes(), model.cluster_sizes_.tobytes(), str(model.spent_))
        )
    return "yes" if bits[0] == bits[1] else "no"


def others(rows):
    """Seconds of k-means without privacy: scikit-learn's on the processor, cuML's; nan where they are not run."""
    found = dict.fromkeys(("scikit_learn", "cuml"), np.nan)
    ask = {"n_clusters": K, "n_init": 1, "max_iter": 5, "tol": 0, "random_state": 0}
    if len(rows) <= ALIKE:
        host = rows.cpu().numpy()
        found["scikit_learn"] = seconds(lambda: KMeans(**ask).fit(host), "cpu")
    try:
        from cuml.cluster import KMeans as OnDevice
    except ImportError:
        return found
    import cupy

    there = cupy.asarray(rows)
    return found | {"cuml": seconds(lambda: OnDevice(**ask).fit(there), "cuda")}


def run(folder, largest):
    """Measure, print and write; small tables first, so that a run that is cut off leaves the others."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "processor"
    lines, sizes = [], 10 ** np.arange(6, 12)
    for n in sizes[sizes <= largest].tolist() or [int(largest)]:
        rows = clusters(n, device)
        read, single, double = rates(rows, device)
        line = {"device": name, "rows": n, "read_gb_s": read, "float32_tflops": single}
        line |= {"float64_tflops": double} | others(rows)
        for method, model in FITS.items():
            fitted(model, rows[:ALIKE], device)  # kernels are compiled
            took, memory = fitted(model, rows, device)
            line |= {f"{method}_s": took, f"{method}_gb": memory}
            line |= {f"{method}_same": alike(model, rows)}
        if fused.why_not and device == "cuda":
            raise RuntimeError(f"the fused kernel of votes did not run: {fused.why_not}")
        lines.append({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in line.items()})
        write(folder / "accelerator.csv", lines)
        print(Table([*lines[-1]], [[*lines[-1].values()]]), flush=True)
        del rows
