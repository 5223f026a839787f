"""Noise and passes compared with numpy and scikit-learn: package.csv."""

from bench import measure
from bench.store import write
from dplit.accounting import Table


def run(folder):
    """Measure and print it, over a million rows."""
    rows = measure.measure(1_000_000)
    print(Table(["what", "measured"], rows))
    write(folder / "package.csv", [{"what": a, "measured": b} for a, b in rows])
