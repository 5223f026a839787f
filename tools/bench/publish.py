"""Tables of a folder summed up, and put where the pages of the book and the README read them."""

import re

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
    "paper_rows": "paper-rows",
    "paper_curves": "paper-rows",
    "few_columns": "few-columns",
    "pure": "pure",
    "shifts": "shifts",
    "covariate": "covariate",
    "protocol": "protocol",
    "package": "package",
    "scale": "scale",
    "growth": "growth",
    "cluster": "cluster",
    "accelerator": "accelerator",
}
# table -> the columns that distinguish its lines
KEYS = {
    "auc": "dataset method",
    "curves": "dataset method epsilon",
    "speed": "dataset method",
    "cover": "n d predicate",
    "max_cover": "dataset k method",
    "solver": "n d data solver",
    "medoids": "n d data k",
    "shares": "set method",
    "coreset": "set method coreset",
    "plane": "set method",
    "regression": "set epsilon method",
    "classification": "set n method",
    "small": "dataset method epsilon",
    "loose": "dataset radius zoom",
    "paper_rows": "dataset method",
    "paper_curves": "dataset method epsilon",
    "few_columns": "dataset epsilon method",
    "pure": "dataset method epsilon",
    "shifts": "set n epsilon",
    "covariate": "task shift d n epsilon",
    "protocol": "set method",
    "package": "what",
    "scale": "rows",
    "growth": "method axis n d k",
    "cluster": "rows partitions workers",
    "accelerator": "device rows",
}


def replaced(published, fresh):
    """The published lines, with those of the same set, method (and epsilon) and as many runs drawn anew in their places."""

    def key(r):
        return r["dataset"], r["method"], float(r.get("epsilon", 0)), int(r.get("seeds", 0))

    new = {key(r): r for r in fresh}
    return [new.get(key(r), r) for r in published]


def ended(fresh, published):
    """Curves of growth (method, axis) that were stopped, and not by less time than the published ones: they may be shorter."""
    times = [float(r["cpu_s"]) for r in published if r["status"] == "time"]
    stops = [r for r in fresh if r["status"]]
    whole = [
        r for r in stops if r["status"] != "time" or float(r["cpu_s"]) >= max(times, default=0)
    ]
    return {(r["method"], r["axis"]) for r in whole}


def less(table, fresh, published):
    """What a table has less of than the published one; nothing if it may take its place."""
    columns = KEYS[table].split()
    new, old = ({tuple(r.get(c) for c in columns): r for r in rows} for rows in (fresh, published))
    shorter = ended(fresh, published) if table == "growth" else ()
    for key, row in old.items():
        place = ", ".join(f"{c}={value}" for c, value in zip(columns, key, strict=True))
        if key not in new and key[:2] not in shorter:
            return f"no line of {place}"
        for runs in {"seeds", "runs"} & {*row} if key in new else ():
            if int(new[key][runs]) < int(row[runs]):
                return f"{new[key][runs]} {runs} of {place}, and {row[runs]} are published"
    return ""


def readers(parts):
    """Pages of the book that read one of these tables, as "examples/benchmarks_kmeans"."""
    nbs = store.PROGRAM.parents[2] / "nbs"
    wanted = re.compile(rf'read\(\\"({"|".join(parts)})\\"\)|\b({"|".join(parts)})\.csv')
    found = [path for path in sorted(nbs.rglob("*.ipynb")) if wanted.search(path.read_text("utf8"))]
    return [path.relative_to(nbs).with_suffix("").as_posix() for path in found]


def publish(folder):
    """Put the tables where the book and the README read them, all or none, and say which code measured them."""
    fresh = {part: rows for part in PARTS if (rows := read(folder / f"{part}.csv"))}
    parts = {part: fresh.get(part) or store.book(part) for part in PARTS}
    missing = [part for part, rows in parts.items() if not rows]
    if missing or not tables.by_set(parts["auc"]):
        raise SystemExit(
            f"not published: {', '.join(missing) or 'no set that all peers have run on'}"
        )
    for part, rows in fresh.items():
        if why := less(part, rows, store.book(part)):
            raise SystemExit(
                f"not published: {part} has {why}; measure as much, or delete that from the book"
            )
    if untold := [part for part in fresh if not log.runs(folder, part, PARTS[part])]:
        raise SystemExit(
            f"not published: runs.jsonl does not say what measured {', '.join(untold)}"
        )
    for part, rows in parts.items():
        write(store.BOOK / f"{part}.csv", rows)
    said = {row["table"]: row for row in store.book("measured")}
    said |= {row["table"]: row for row in log.measured(folder, {p: PARTS[p] for p in fresh})}
    write(store.BOOK / "measured.csv", [said[part] for part in PARTS if part in said])
    readme.write_section()
    if fresh:
        print("Execute these pages again:", ", ".join(readers(fresh)))


def run(folder, to_book):
    """Sum up what is there, put it into the book if asked, and print it."""
    aucs = tables.sum_up(folder)
    if to_book:
        publish(folder)
    tables.show(aucs)
