"""Which code measured what, when, and in how long: runs.jsonl of a folder of results, measured.csv of the book."""

import json
import subprocess
import time
from datetime import UTC, datetime
from hashlib import sha256

import dplit
from bench import store

FIELDS = "table part version commit day minutes digest".split()
# what writes lines of a table besides its own part
ALSO = {"auc": "redraw", "curves": "redraw", "shares": "gan", "classification": "kernel-means"}


def commit():
    """The commit whose code runs, with a + where files differ from it; empty where there is no history."""
    asked = ["git", "describe", "--always", "--dirty=+", "--exclude=*", "--abbrev=7"]
    found = subprocess.run(asked, cwd=store.PROGRAM.parent, capture_output=True, text=True)
    return found.stdout.strip()


def logged(part, run, asked):
    """Run a part, and leave a line that says so in its folder, however the run ends."""
    start, code, before = time.time(), commit(), store.Store.measured
    try:
        run(asked)
    finally:
        day = datetime.now(UTC).date().isoformat()
        line = {"part": part, "version": dplit.__version__, "commit": code, "day": day}
        line |= {"seconds": round(time.time() - start), "jobs": store.Store.measured - before}
        with (asked.out / "runs.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def digest(path):
    """Distinguishes files."""
    return sha256(path.read_bytes()).hexdigest()[:16]


def runs(folder, table, part):
    """The runs of a folder that measured something of a table; if none did (or none counted), all."""
    own = [r for r in store.read(folder / "runs.jsonl") if r["part"] in (part, table, ALSO.get(table))]  # fmt: skip
    return [r for r in own if r.get("jobs", 1)] or own


def measured(folder, tables):
    """Lines of measured.csv for tables (name -> part) that were measured in a folder, by one run or by several."""
    for table, part in tables.items():
        own = runs(folder, table, part)
        row = {"table": table, "part": part, "digest": digest(store.BOOK / f"{table}.csv")}
        row["minutes"] = f"{sum(r['seconds'] for r in own) / 60:.0f}"
        row["commit"] = " ".join(dict.fromkeys(r["commit"] for r in own))
        yield {field: (own[-1] | row)[field] for field in FIELDS}
