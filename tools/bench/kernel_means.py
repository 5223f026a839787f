"""Kernel mean matching of the classification tables, measured anew next to the published lines of all other methods."""

from types import SimpleNamespace

from bench import classification, log, publish, store
from bench.store import write
from dplit.accounting import Table

PLACE = "set", "n", "method"


def merged(published, fresh):
    """The published lines, with those of `fresh` in their places."""
    new = {tuple(str(row[c]) for c in PLACE): row for row in fresh}
    return [new.get(tuple(row[c] for c in PLACE), row) for row in published]


def run(seeds, folder, to_book):
    """Measure it, print how far it moved, and publish if asked."""

    def fit(asked):
        fresh.extend(classification.run(asked.out, seeds, groups=("kernel means",)))

    fresh, old = [], store.book("classification")
    log.logged("kernel-means", fit, SimpleNamespace(out=folder))
    new = merged(old, fresh)
    shown = [[f"{row['accuracy']} ({row['sd']})" for row in pair] for pair in zip(old, new, strict=True)]  # fmt: skip
    lines = [(a["set"], a["n"], *both) for a, b, both in zip(old, new, shown, strict=True) if a is not b]  # fmt: skip
    print(Table(["set", "n", "accuracy published", "now"], lines))
    write(folder / "classification.csv", new)
    if to_book:
        publish.publish(folder)
