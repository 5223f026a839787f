"""Tables of a folder summed up, and put where the chapter and the README read them."""

from bench import log, readme, store, tables
from bench.store import read, write

# table -> the part of the run that measures it
PARTS = {
    "auc": "kmeans",
    "curves": "kmeans",
    "speed": "speed",
    "cover": "max-cover",
    "max_cover": "max-cover",
    "solver": "source-target",
    "medoids": "source-target",
    "shares": "source-target",
    "coreset": "ablations",
    "plane": "ablations",
    "regression": "adaptation",
    "classification": "adaptation",
    "small": "small",
    "loose": "loose",
    "shifts": "shifts",
    "package": "package",
    "scale": "scale",
    "growth": "growth",
    "cluster": "cluster",
}


def replaced(published, fresh):
    """The published lines, with those of the same set, method (and epsilon) and as many runs drawn anew in their places."""

    def key(r):
        return r["dataset"], r["method"], float(r.get("epsilon", 0)), int(r.get("seeds", 0))

    new = {key(r): r for r in fresh}
    return [new.get(key(r), r) for r in published]


def less(fresh, published):
    """What a table has less of than the published one; nothing if it may take its place."""
    if len(fresh) < len(published):
        return f"{len(fresh)} lines of {len(published)}"
    for runs in ("seeds", "runs"):
        new, old = (sum(int(r[runs]) for r in rows if runs in r) for rows in (fresh, published))
        if new < old:
            return f"{new} runs of {old}"
    return ""


def publish(folder):
    """Put the tables where the chapter and the README read them, all or none, and say which code measured them."""
    fresh = {part: rows for part in PARTS if (rows := read(folder / f"{part}.csv"))}
    parts = {part: fresh.get(part) or store.book(part) for part in PARTS}
    missing = [part for part, rows in parts.items() if not rows]
    if missing or not tables.by_set(parts["auc"]):
        raise SystemExit(
            f"not published: {', '.join(missing) or 'no set that all peers have run on'}"
        )
    small = {part: why for part, rows in fresh.items() if (why := less(rows, store.book(part)))}
    if small:
        found = ", ".join(f"{part} has {why}" for part, why in small.items())
        raise SystemExit(
            f"not published: {found}. Finish them, or delete what is to be replaced from the book."
        )
    for part, rows in parts.items():
        write(store.BOOK / f"{part}.csv", rows)
    said = {row["table"]: row for row in store.book("measured")}
    said |= {row["table"]: row for row in log.measured(folder, {p: PARTS[p] for p in fresh})}
    write(store.BOOK / "measured.csv", [said[part] for part in PARTS if part in said])
    readme.write_section()


def run(folder, to_book):
    """Sum up what is there, put it into the book if asked, and print it."""
    aucs = tables.sum_up(folder)
    if to_book:
        publish(folder)
    tables.show(aucs)
