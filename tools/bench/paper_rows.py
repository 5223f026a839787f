"""The rows of the PE-means paper's table that `kmeans` does not have, its MNIST and `scale` sets: paper_rows.csv, paper_curves.csv.

Every set is made by `recipes`, so none is the paper's own draw. PE-means is not run on the MNIST features, where its
65 rounds on average, each of 70,000 votes among 14,000 candidates, would take 16 processor minutes (judged by one
fit): HDPE-means is, the better of the two there by the paper's own table. All rows together take about that long,
the sets included, without scale_64_64 and scale_64_128, which are made and measured if they are asked for.
"""

from functools import partial

from bench import recipes
from bench.kmeans import FIELDS, KEY, jobs, measure
from bench.store import Store

ALL = [*recipes.SCALE[:6], "mnist_lenet", *recipes.SCALE[6:]]  # cheap ones first
ROWS = [name for name in ALL if name not in ("scale_64_64", "scale_64_128")]
METHODS = ["KMeans", "PEMeans", "NoisyLloyd", "PE-means", "HDPE-means", "Google LSH tree", "FastLloyd", "FastLloyd, as driven", "diffprivlib", "Balcan et al.", "Balcan et al., as driven"]  # fmt: skip
LEFT_OUT = {("mnist_lenet", "PE-means")}


def run(folder, sets, seeds):
    """Store one line a fit in paper_fits.csv."""
    recipes.make(sets)
    store = Store(folder / "paper_fits.csv", KEY, FIELDS)
    for name in sorted(sets, key=ALL.index):  # one whole set after the other
        asked = [j for j in jobs([name], METHODS, seeds) if j[:2] not in LEFT_OUT]
        store.run(asked, partial(measure, folder=folder))
