"""What chapters quote besides the tables of the benchmarks: a module for each, and `run` for all that is quoted."""

import subprocess
import sys
from argparse import RawDescriptionHelpFormatter

from bench import cover_figure, max_cover, source_target, stc_figure
from bench.chapters import codebook, columns, convex, k_tuples, nonconvex, pe_means, stable, zoom
from bench.store import PROGRAM

CHAPTERS = {
    "codebook": codebook,
    "columns": columns,
    "convex": convex,
    "cover_figure": cover_figure,
    "k_tuples": k_tuples,
    "max_cover": max_cover,
    "nonconvex": nonconvex,
    "pe_means": pe_means,
    "source_target": source_target,
    "stable": stable,
    "stc_figure": stc_figure,
    "zoom": zoom,
}
QUOTED = [  # 30, 32, 40, 41, 50, 71, 72, 84, 36
    ("max_cover", "loss"),
    ("max_cover", "skip"),
    ("k_tuples", "count"),
    ("stable", "release"),
    ("stable", "real"),
    ("pe_means", "ideas"),
    *(("convex", part) for part in ("adapt", "reach", "ladder", "speed")),
    *(("nonconvex", part) for part in ("network", "radius", "printed", "speed")),
    ("codebook",),
    ("columns",),
]
STORED = {("max_cover", "loss"), ("pe_means", "ideas")}  # these go on where they were stopped


def options(parser):
    """A sub-command for each chapter."""
    names = parser.add_subparsers(dest="name", required=True)
    for name, module in CHAPTERS.items():
        what = {"help": module.__doc__.splitlines()[0], "description": module.__doc__}
        module.options(names.add_parser(name, **what, formatter_class=RawDescriptionHelpFormatter))


def run(folder):
    """What is quoted, each into a text file, by a process of its own."""
    for asked in QUOTED:
        print(*asked, flush=True)
        command = [sys.executable, PROGRAM, "chapter", *asked]
        if asked in STORED:
            command += ["--out", folder]
        with (folder / f"{'_'.join(asked)}.txt").open("w") as file:
            subprocess.run(command, check=True, stdout=file)
