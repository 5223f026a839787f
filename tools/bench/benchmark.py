"""Every table of the four benchmark pages and every figure of the README, made by one command.

The pages are examples/benchmarks_kmeans, benchmarks_speed, benchmarks_medoids and benchmarks_adaptation.

python tools/bench/benchmark.py all --out DIR [--seeds S] [--rows 1e8] [--book]

or part by part, in this order:

kmeans [--sets NAME ...] [--methods NAME ...]   private k-means of this package and its peers: losses
small [--sets NAME ...]   PEMeans and the peers at epsilon 0.05 and 0.1, which no area contains
loose [--sets NAME ...]   PEMeans at epsilon 1 on every set, in its ball and in one ten times as large: loss,
                time, memory, and what the zoom does
paper-rows [--rows-of NAME ...]   rows of the PE-means paper's table that kmeans does not have: MNIST's features and
                the scale sets, each made once into DPLIT_DATA (by npm and R, where they are)
few-columns     PEMeans in one to three columns, also with two histograms or with evolution, compared with EUGkM
pure            GridKMeans and NoisyLloyd at pure epsilon, compared with diffprivlib and EUGkM
speed           its time and memory, each method in a fresh process
max-cover       losses of MaxCoverKMeans, and its speed compared with the published algorithm
source-target   solvers of k-medoids with a target, and what private sources are worth
ablations       the paper's coreset, for its algorithms and their baselines, and what each takes
gan             the same of a generative network: its lines of shares.csv, in DIR or else in the book
adaptation      regression and classification with a public source; or one of them: regression, classification
shifts          what the guard of NCnvxAdap is worth where the source is wrong in one of many ways
protocol        regression and classification without privacy in the adaptation paper's own protocol, on Adult,
                German credit and wind, compared with kernel mean matching, KLIEP and discrepancy minimization
covariate       a target without labels, under eight shifts: CovariateShiftClassifier and -Regressor
package         noise and passes, compared with numpy and scikit-learn
scale           passes over --rows rows in a memory map (1e8: 6.4 GB of disk)
growth          time and memory of each clustering along rows, columns and clusters, each curve up to --limit
                seconds of a fit
cluster         a fit by one and two worker processes over Parquet files of four million rows
chapters        what else chapters quote from a tool, as text
tables [--book] sums up what is there; --book puts it where pages and README read it, and
                names the pages to execute again

or, where only the noise of this package has changed,

redraw [--sets NAME ...] [--book]   kmeans of the methods that draw it, compared with the published figures

or, where only kernel mean matching has changed,

kernel-means [--book]   its lines of classification, next to the published ones

or, on a machine with a graphics card and PyTorch,

accelerator     fits of 1e6 to --rows rows as tensors, compared with the bits of numpy; sizes are powers of ten

or what one chapter quotes, with settings of your own,

chapter NAME PART ...   on the terminal; chapter --help names them

Each part writes DIR/*.csv, and a line of DIR/runs.jsonl: which code, when, how long. What is finished of
one (a fit, a process, a group of lines) is stored at once, and a second run continues from there;
to measure anew, take another DIR. kmeans does 3 seeds of
every set first, cheap sets first. (Memory in kmeans.csv is what one fit took beyond what its process
already held, little after the first fit; speed measures it in fresh ones.) --seeds is the number of runs
of everything; by default 10 of k-means (5 of loose and paper-rows, 3 of small, on adult 5, on iris 40), pure, adaptation, shifts and covariate, 8 of max cover (20 on digits), 10 of protocol (20 of German credit), 30 of shares
(10 of ablations and gan, but 12 of a histogram). Set OMP_NUM_THREADS=1. Needs the extras bench (without it one solver is left out) and dask; with tqdm it says
how long it will take. Sets that come from files are left out where DPLIT_DATA does not have them and they
can't be downloaded. diffprivlib, adapt for protocol, and JAX for gan, are installed once into DIR.

What authors' own programs did next to ours, once, is in programs.csv of the book. No command repeats that.
"""

import argparse
import sys
import warnings
from functools import partial
from pathlib import Path

# `bench` is this folder: found in the one above, and nothing in it by its bare name
if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import (
    ablations,
    accelerator,
    chapters,
    classification,
    cluster,
    covariate,
    few_columns,
    gan,
    growth,
    kernel_means,
    kmeans,
    log,
    loose,
    max_cover,
    package,
    paper_rows,
    protocol,
    publish,
    pure,
    redraw,
    regression,
    scale,
    shifts,
    source_target,
    speed,
)
from bench.sets import SETS
from dplit.inputs import PrivacyWarning

OPTIONS = {
    "--out": {"type": Path, "required": True, "help": "folder of the results"},
    "--sets": {"nargs": "+", "choices": SETS, "default": SETS, "metavar": "NAME"},
    "--rows-of": {"nargs": "+", "choices": paper_rows.ALL, "default": paper_rows.ROWS, "metavar": "NAME"},
    "--methods": {"nargs": "+", "choices": kmeans.METHODS, "default": kmeans.METHODS, "metavar": "NAME"},
    "--seeds": {"type": int, "help": "runs; the default is that of the published tables"},
    "--rows": {"type": float, "default": 1e8, "help": "of the largest memory map"},
    "--limit": {"type": float, "default": 120, "help": "processor seconds of a fit, where a curve stops"},
    "--picture": {"type": Path, "help": "seconds against rows, as a figure"},
    "--no-dask": {"action": "store_true", "help": "leave out the fit by dask's threads"},
    "--data": {"nargs": "+", "choices": classification.PROBLEMS, "default": [*classification.PROBLEMS]},
    "--book": {"action": "store_true", "help": "put the tables where pages and README read them"},
}  # fmt: skip


def run_kmeans(asked):
    kmeans.run(asked.sets, asked.methods, asked.seeds or 10, asked.out)


def run_small(asked):
    kmeans.run_small(asked.sets, ["PEMeans", *kmeans.PEERS], asked.seeds, asked.out)


def run_adaptation(asked):
    regression.run(asked.out, asked.seeds or 10)
    classification.run(asked.out, asked.seeds or 10)


def run_scale(asked):
    rest = (asked.picture, not asked.no_dask) if asked.what == "scale" else ()
    scale.run(asked.out, int(asked.rows), *rest)


def run_tables(asked):
    publish.run(asked.out, asked.book)


def run_all(asked):
    scale.check(int(asked.rows), asked.out)  # before hours of work, not after
    for run, *_ in PARTS.values():
        run(asked)


PARTS = {  # name -> (function, its options besides --out), in the order of `all`
    "kmeans": (run_kmeans, "--sets", "--methods", "--seeds"),
    "small": (run_small, "--sets", "--seeds"),
    "loose": (
        lambda asked: loose.run(asked.out, asked.sets, asked.seeds or 5),
        "--sets",
        "--seeds",
    ),
    "paper-rows": (
        lambda asked: paper_rows.run(asked.out, asked.rows_of, asked.seeds or 5),
        "--rows-of",
        "--seeds",
    ),
    "few-columns": (lambda asked: few_columns.run(asked.out, asked.seeds or 20), "--seeds"),
    "pure": (lambda asked: pure.run(asked.out, asked.seeds or 10), "--seeds"),
    "speed": (lambda asked: speed.run(asked.out),),
    "max-cover": (lambda asked: max_cover.run(asked.out, asked.seeds), "--seeds"),
    "source-target": (lambda asked: source_target.run(asked.out, asked.seeds), "--seeds"),
    "ablations": (lambda asked: ablations.run(asked.out, asked.seeds), "--seeds"),
    "gan": (lambda asked: gan.run(asked.out, asked.seeds or 10), "--seeds"),
    "adaptation": (run_adaptation, "--seeds"),
    "shifts": (lambda asked: shifts.run(asked.out, asked.seeds or 10), "--seeds"),
    "covariate": (lambda asked: covariate.run(asked.out, asked.seeds or 10), "--seeds"),
    "protocol": (lambda asked: protocol.run(asked.out, asked.seeds), "--seeds"),
    "package": (lambda asked: package.run(asked.out),),
    "scale": (run_scale, "--rows", "--picture", "--no-dask"),
    "growth": (
        lambda asked: growth.run(asked.out, int(asked.rows), asked.limit),
        "--rows",
        "--limit",
    ),
    "cluster": (lambda asked: cluster.run(asked.out, 4_000_000),),
    "chapters": (lambda asked: chapters.run(asked.out),),
}
# a part that has run leaves a line that says with which code, and how long it took
PARTS = {name: (partial(log.logged, name, run), *rest) for name, (run, *rest) in PARTS.items()}
PARTS["tables"] = run_tables, "--book"
OTHERS = {
    "all": (run_all, "--sets", "--methods", "--seeds", "--rows", "--limit", "--book"),
    # a run of one part shows its tables at once
    "kmeans": (lambda asked: (PARTS["kmeans"][0](asked), run_tables(asked)), "--sets", "--methods", "--seeds", "--book"),
    "small": (lambda asked: (PARTS["small"][0](asked), run_tables(asked)), "--sets", "--seeds", "--book"),
    "regression": (partial(log.logged, "regression", lambda asked: regression.run(asked.out, asked.seeds or 10)), "--seeds"),
    "classification": (partial(log.logged, "classification", lambda asked: classification.run(asked.out, asked.seeds or 10, asked.data)), "--seeds", "--data"),
    "redraw": (lambda asked: redraw.run(asked.sets, asked.seeds or 10, asked.out, asked.book), "--sets", "--seeds", "--book"),
    "kernel-means": (lambda asked: kernel_means.run(asked.seeds or 10, asked.out, asked.book), "--seeds", "--book"),
    "accelerator": (partial(log.logged, "accelerator", lambda asked: accelerator.run(asked.out, asked.rows)), "--rows"),
    "one": (lambda asked: speed.run_one(asked.set, asked.method, asked.out),),
}  # fmt: skip


def command_line():
    """The parser of all sub-commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    commands = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    for name, (run, *options) in (PARTS | OTHERS).items():
        command = commands.add_parser(name)
        command.set_defaults(run=run)
        for option in ("--out", *options):
            command.add_argument(option, **OPTIONS[option])
        if name == "one":  # what speed starts
            command.add_argument("set")
            command.add_argument("method")
    chapters.options(commands.add_parser("chapter"))
    return parser


def main():
    asked = command_line().parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)  # iris: delta is large
    warnings.filterwarnings("ignore", message="Number of distinct clusters")  # noisy averages
    if folder := getattr(asked, "out", None):  # of a chapter not always
        folder.mkdir(parents=True, exist_ok=True)
    asked.run(asked)


if __name__ == "__main__":
    main()
