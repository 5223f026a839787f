"""Files of results: read, written at once or line by line, and continued where a run was stopped."""

import csv
import json
import sys
import time
from pathlib import Path

PROGRAM = Path(__file__).with_name("benchmark.py")
BOOK = PROGRAM.parents[2] / "nbs" / "benchmarks"  # the tables that chapters and the README read


def read(path):
    """Rows of a CSV file as dictionaries of text, or of a file with a line of JSON each; none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(map(json.loads, file) if path.suffix == ".jsonl" else csv.DictReader(file))


def book(part):
    """Rows of a table of the book."""
    return read(BOOK / f"{part}.csv")


def write(path, rows):
    """A CSV file from dictionaries, put in place at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    with new.open("w", newline="") as file:
        out = csv.DictWriter(file, rows[0], lineterminator="\n")
        out.writeheader()
        out.writerows(rows)
    new.replace(path)


def progress(jobs, what):
    """The jobs one after another; on stderr how many are left and for how long, if tqdm is there."""
    try:
        from tqdm import tqdm
    except ImportError:
        return jobs
    tqdm.monitor_interval = 0  # no second thread next to what is timed
    pause = 0.5 if sys.stderr.isatty() else 60
    return tqdm(jobs, desc=what, mininterval=pause, disable=not jobs, file=sys.stderr)


def timed(function):
    """(result, CPU seconds)."""
    start = time.process_time()
    result = function()
    return result, time.process_time() - start


class Store:
    """Results of jobs, each in the file as soon as it is there, so that a second run goes on where the first one ended.

    A job is a tuple of the values of the `key` fields (name -> type). What is measured of it is a
    dictionary of further fields, and a line of the file has both: NAME.csv, with `fields` as its
    columns, or NAME.jsonl. Without a path results are kept in memory. Of two lines of one job the
    later adds to the dictionaries of the earlier; `whole` says whether a job has all that is wanted.
    """

    measured = 0  # by this process, into any file

    def __init__(self, path, key, fields=None, whole=lambda row: True):
        self.path, self.key, self.fields, self.whole = path, key, fields, whole
        self.rows = {}
        if path is not None and path.exists():
            self._mend()
            for row in read(path):
                self._keep(row)

    def __contains__(self, job):
        return job in self.rows and self.whole(self.rows[job])

    def once(self, job, measure):
        """The row of a job, from the file or from measure(*job)."""
        if job not in self:
            row = dict(zip(self.key, job, strict=True)) | measure(*job)
            Store.measured += 1
            self._keep(row)
            self._append(row)
        return self.rows[job]

    def run(self, jobs, measure, show=lambda row: None):
        """The rows of all jobs, in their order, those that are missing measured; each is shown."""
        jobs = [*jobs]
        left = iter(progress([job for job in jobs if job not in self], self._name()))
        for job in jobs:
            if job not in self:
                next(left, None)
                self.once(job, measure)
            show(self.rows[job])
        next(left, None)  # the end of the bar
        return [self.rows[job] for job in jobs]

    def _name(self):
        return self.path.stem if self.path else None

    def _keep(self, row):
        job = tuple(kind(row[field]) for field, kind in self.key.items())
        old = self.rows.setdefault(job, {})
        for field, value in row.items():
            both = isinstance(value, dict) and field in old
            old[field] = old[field] | value if both else value

    def _append(self, row):
        """One line, written in one piece."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", newline="") as file:
            if self.path.suffix == ".jsonl":
                file.write(json.dumps(row) + "\n")
                return
            out = csv.DictWriter(file, self.fields, lineterminator="\n")
            if not file.tell():
                out.writeheader()
            out.writerow(row)

    def _mend(self):
        """Take away a last line that was cut off."""
        text = self.path.read_bytes()
        end = text.rfind(b"\n") + 1
        if end < len(text):
            with self.path.open("r+b") as file:
                file.truncate(end)


def table(path, key, jobs, measure, show=lambda line: None, whole=lambda line: True):
    """A table that is measured some rows at a time: each job gives {"rows": [...]}. All rows, as a list.

    What is finished lies in NAME_done.jsonl next to `path`; the table itself is written when it is
    whole, so that half of one is never published. Without a path nothing is written. A finished
    line of which `whole` says no is measured again.
    """
    done = Store(path and path.with_name(f"{path.stem}_done.jsonl"), key, whole=whole)
    rows = [row for line in done.run(jobs, measure, show) for row in line["rows"]]
    if path and rows:
        write(path, rows)
    return rows
