"""The baselines that weigh source rows by kernel or second moments, measured anew beside the published lines of all other methods."""

from types import SimpleNamespace

from bench import classification, log, publish, regression, store
from bench.store import write
from dplit.accounting import Table

# table -> the column of its results
RESULTS = {"classification": "accuracy", "regression": "error"}


def merged(table, fresh):
    """The published lines of a table, with those of `fresh` in their places."""
    columns = publish.KEYS[table].split()

    def key(row):  # numbers as numbers: a file has text
        return tuple(str(row[c]) if c in ("set", "method") else float(row[c]) for c in columns)

    new = {key(row): row for row in fresh}
    return [new.get(key(row), row) for row in store.book(table)]


def print_moves(table, old, new):
    """Each line that was measured anew, before and after."""
    result, (*place, method) = RESULTS[table], publish.KEYS[table].split()
    shown = lambda row: f"{float(row[result]):.4g} ({float(row['sd']):.2g})"  # noqa: E731
    lines = [
        (a["method"], *(a[column] for column in place), shown(a), shown(b))
        for a, b in zip(old, new, strict=True)
        if not a.items() <= b.items() and a["method"] == b["method"] and a is not b
    ]
    print(Table([method, *place, f"{result} published", "now"], lines))


def run(seeds, folder, to_book):
    """Measure them, print how far they moved, and publish if asked."""

    def fit(asked):
        parts["classification"] = classification.run(asked.out, seeds, groups=("kernel means",))
        parts["regression"] = regression.run(asked.out, seeds, errors=regression.matched_errors)

    parts = {}
    log.logged("baselines", fit, SimpleNamespace(out=folder))
    for table, fresh in parts.items():
        old = store.book(table)
        new = merged(table, fresh)
        print_moves(table, old, new)
        write(folder / f"{table}.csv", new)
    if to_book:
        publish.publish(folder)
