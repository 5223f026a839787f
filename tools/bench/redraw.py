"""k-means of the methods that draw this package's noise, fitted anew and compared with the published figures."""

import math
from collections import defaultdict
from types import SimpleNamespace

from bench import kmeans, log, publish, store
from bench.kmeans import DRAWN, PEERS
from bench.sets import geometric_mean
from bench.store import read, write
from bench.tables import by_set, summary
from dplit.accounting import Table


def print_moves(old, new):
    """How far areas moved, method by method, as a share and in standard errors."""
    moved = defaultdict(list)
    for before, after in zip(old, new, strict=True):
        if before is not after:
            error = float(before["sd"]) / math.sqrt(int(before["seeds"]))
            change = abs(float(after["auc"]) - float(before["auc"]))
            moved[before["method"]].append((change / float(before["auc"]), change / error, before["dataset"]))  # fmt: skip
    head = ["method", "sets", "moved", "most, relative", "most, standard errors", "on"]
    lines = [(m, len(v), sum(r > 0 for r, *_ in v), f"{max(v)[0]:.1e}", f"{max(e for _, e, _ in v):.1e}", max(v)[2]) for m, v in moved.items()]  # fmt: skip
    print(Table(head, lines))


def print_ratios(name, aucs):
    """What PEMeans loses, over the best peer and over k-means without privacy."""
    found = by_set(aucs).values()
    best = [row["PEMeans"] / min(row[p] for p in PEERS if p in row) for row in found]
    base = [row["PEMeans"] / row["KMeans"] for row in found]
    print(f"{name}: PEMeans / best peer {geometric_mean(best):.4f}, / not private {geometric_mean(base):.4f}")  # fmt: skip


def run(sets, seeds, folder, to_book):
    """Fit what draws this package's noise; print how far its published areas move. Publish, if all are drawn."""

    def fit(asked):
        kmeans.run(sets, DRAWN, seeds, asked.out)

    log.logged("redraw", fit, SimpleNamespace(out=folder))
    aucs, curves = summary(read(folder / "kmeans.csv"))
    old = store.book("auc")
    new = publish.replaced(old, aucs)
    print_moves(old, new)
    print_ratios("published", old)
    print_ratios("drawn anew", new)
    if to_book:
        kept = {r["dataset"] for r, s in zip(old, new, strict=True) if r is s and r["method"] in DRAWN}  # fmt: skip
        if kept:
            raise SystemExit(f"not published: {', '.join(sorted(kept))} are not drawn anew")
        write(folder / "auc.csv", new)
        write(folder / "curves.csv", publish.replaced(store.book("curves"), curves))
        publish.publish(folder)
