"""nbdev_clean removes execution counts, and nbval refuses to compare a cell that was never run: say that it was."""

import os

# One thread per process: pytest-xdist already uses every core. Set before numpy is imported.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.pop(
    "MPLBACKEND", None
)  # with Agg set, a notebook's figures print nothing and every figure cell differs


def pytest_collection_modifyitems(items):
    for item in items:
        cell = getattr(item, "cell", None)  # nbval's IPyNbCell
        if cell is not None and cell.get("execution_count") is None:
            cell["execution_count"] = 0
