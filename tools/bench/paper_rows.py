"""The rows of the PE-means paper's table that `kmeans` does not have, its MNIST and `scale` sets: paper_rows.csv, paper_curves.csv.

Every set is made by `recipes`, so none is the paper's own draw. PE-means is not run on the MNIST features, where its
72 rounds on average, each of 70,000 votes among 14,000 candidates, take 16 processor minutes: HDPE-means is, the
better of the two there by the paper's own table.
"""

from functools import partial

from bench import recipes
from bench.kmeans import FIELDS, KEY, jobs, measure
from bench.store import Store

ROWS = [*recipes.SCALE[:6], "mnist_lenet", *recipes.SCALE[6:]]  # cheap ones first
METHODS = ["KMeans", "PEMeans", "NoisyLloyd", "PE-means", "HDPE-means", "Google LSH tree", "FastLloyd", "FastLloyd, as driven", "diffprivlib", "Balcan et al.", "Balcan et al., as driven"]  # fmt: skip
LEFT_OUT = {("mnist_lenet", "PE-means")}


def run(folder, sets, seeds):
    """Store one line a fit in paper_fits.csv."""
    recipes.make(sets)
    store = Store(folder / "paper_fits.csv", KEY, FIELDS)
    for name in sorted(sets, key=ROWS.index):  # one whole set after the other
        asked = [j for j in jobs([name], METHODS, seeds) if j[:2] not in LEFT_OUT]
        store.run(asked, partial(measure, folder=folder))
