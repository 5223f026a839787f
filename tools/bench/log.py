"""Which code measured what, when, and in how long: runs.jsonl of a folder of results, measured.csv of the book."""

import json
import subprocess
import time
from datetime import UTC, datetime
from hashlib import sha256

import dplit
from bench import store

FIELDS = "table part version commit day minutes digest".split()


def commit():
    """The commit whose code runs, with a + where files differ from it; empty where there is no history."""
    asked = ["git", "describe", "--always", "--dirty=+", "--exclude=*", "--abbrev=7"]
    found = subprocess.run(asked, cwd=store.PROGRAM.parent, capture_output=True, text=True)
    return found.stdout.strip()


def logged(part, run, asked):
    """Run a part, and leave a line that says so in its folder."""
    start, code = time.time(), commit()
    run(asked)
    day = datetime.now(UTC).date().isoformat()
    line = {"part": part, "version": dplit.__version__, "commit": code, "day": day}
    with (asked.out / "runs.jsonl").open("a") as file:
        file.write(json.dumps(line | {"seconds": round(time.time() - start)}) + "\n")


def digest(path):
    """Tells one file from another."""
    return sha256(path.read_bytes()).hexdigest()[:16]


def measured(folder, tables):
    """Lines of measured.csv for tables (name -> part) that were measured in a folder: the last run says with what."""
    runs = store.read(folder / "runs.jsonl")
    for table, part in tables.items():
        own = [r for r in runs if r["part"] in (part, table)]
        last = own[-1] if own else dict.fromkeys(("version", "commit", "day"), "")
        minutes = f"{sum(r['seconds'] for r in own) / 60:.0f}" if own else ""
        row = {"table": table, "part": part, "minutes": minutes}
        row["digest"] = digest(store.BOOK / f"{table}.csv")
        yield {field: (last | row)[field] for field in FIELDS}
