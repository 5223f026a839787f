"""Tables of a folder summed up, and put where the chapter and the README read them."""

from bench import readme, store, tables
from bench.store import read, write

PARTS = "auc curves speed cover max_cover solver medoids shares coreset plane regression classification".split()
PARTS += "small shifts package scale growth cluster".split()


def replaced(published, fresh):
    """The published lines, with those of the same set, method (and epsilon) and as many runs drawn anew in their places."""

    def key(r):
        return r["dataset"], r["method"], float(r.get("epsilon", 0)), int(r.get("seeds", 0))

    new = {key(r): r for r in fresh}
    return [new.get(key(r), r) for r in published]


def publish(folder):
    """Put the tables where the chapter and the README read them, all or none."""
    parts = {part: read(folder / f"{part}.csv") or store.book(part) for part in PARTS}
    missing = [part for part, rows in parts.items() if not rows]
    if missing or not tables.by_set(parts["auc"]):
        raise SystemExit(
            f"not published: {', '.join(missing) or 'no set that all peers have run on'}"
        )
    for part, rows in parts.items():
        write(store.BOOK / f"{part}.csv", rows)
    readme.write_section()


def run(folder, to_book):
    """Sum up what is there, put it into the book if asked, and print it."""
    aucs = tables.sum_up(folder)
    if to_book:
        publish(folder)
    tables.show(aucs)
