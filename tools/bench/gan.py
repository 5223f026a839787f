"""DP-GAN compared with the other ways to come by private sources: its lines of shares.csv.

A network draws 100 points, at (3, 1e-6) and without noise. Steps, clip and learning rate were chosen on
seeds 0 to 2 of six of the sets; the lines take seeds from 1000 on.
"""

import math
from functools import cache

from bench import store
from bench.peers.gan import Gan
from bench.source_target import costs, ks_of, mnist_is_there, share_rows, share_sets
from bench.store import Store, read, write

PRICES = {
    "DP-GAN (3, 1e-6)": {"epsilon": 3.0, "delta": 1e-6},
    "DP-GAN without noise, open": {"epsilon": math.inf, "delta": 0.0, "steps": 500},
}

worker = cache(Gan)  # one for all


def measure(folder, bunch, seed, ks):
    """Costs of one draw of a set."""
    Xs, _, *ball = bunch
    releases = {"ignored": lambda: None, "open": lambda: Xs}
    for name, cost in PRICES.items():
        releases[name] = lambda cost=cost: worker(folder).draw(Xs, *ball, **cost, seed=seed)
    return {"costs": costs(bunch, releases, ks)}


def run(folder, seeds):
    """The lines of the two networks, in place of older ones, at the end of shares.csv: of this folder, or of the book."""
    sets, fresh = share_sets(mnist_is_there()), range(1000, 1000 + seeds)
    done = Store(folder / "gan_costs.jsonl", {"set": str, "seed": int})
    jobs = [(name, seed) for seed in fresh for name in sets]
    done.run(jobs, lambda name, seed: measure(folder, sets[name](seed), seed, ks_of(name)))
    rows = read(folder / "shares.csv") or store.book("shares")
    rows = [row for row in rows if row["method"] not in PRICES or row["set"] not in sets]
    for name in sets:
        rows += share_rows(name, [done.rows[name, seed]["costs"] for seed in fresh], PRICES)
    write(folder / "shares.csv", rows)
