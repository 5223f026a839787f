"""Speed and memory of what everything else stands on, measured here and now: python tools/measure.py [--rows N]

Ratios compare two programs in one run; absolute numbers differ from machine to machine.
"""

import argparse
import time
import tracemalloc
import warnings

import numpy as np
from sklearn.cluster import KMeans

from dplit import NoisyLloyd
from dplit.accounting import Table
from dplit.geometry import uniform_in_ball
from dplit.mechanisms import Bits, Noise, gaussian_int, laplace_int


def per_second(draw, size=100_000, repeat=50):
    """Samples per second of CPU time."""
    draw(size)
    start = time.process_time()
    for _ in range(repeat):
        draw(size)
    return size * repeat / (time.process_time() - start)


def best_of(repeat, function):
    """Shortest wall time of several runs, in seconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def lloyd_beside_kmeans(n_rows, d=16, k=16, n_iter=10):
    """(our seconds, scikit-learn's seconds) per round, same rows, same start, same number of rounds, whole fits."""
    rng = np.random.default_rng(0)
    X = uniform_in_ball(n_rows, d, rng=rng)
    start = X[:k].copy()
    ours = NoisyLloyd(k, epsilon=1.0, delta=1e-9, radius=1.0, n_iter=n_iter, init=start)
    theirs = KMeans(k, init=start, n_init=1, max_iter=n_iter, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "did not converge": as intended
        return best_of(3, lambda: ours.fit(X)) / n_iter, best_of(3, lambda: theirs.fit(X)) / n_iter


def peak_megabytes(n_rows, d=16, k=16):
    """Peak memory traced while fitting, beyond the data themselves."""
    X = np.zeros((n_rows, d), dtype=np.float32)
    tracemalloc.start()
    NoisyLloyd(k, epsilon=1.0, delta=1e-9, radius=1.0, n_iter=1).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6, X.nbytes / 1e6


def measure(n):
    """(what, measured) in words, with n rows for the comparison with k-means."""
    bits = Bits()
    ours, theirs = lloyd_beside_kmeans(n)
    peak, size = peak_megabytes(n)
    one = 1e6 / per_second(lambda _: Noise().count(0, mu=0.1), size=1, repeat=3000)
    return [
        (
            "exact Laplace noise, 1e5 at a time",
            f"{per_second(lambda m: laplace_int(bits, 2.0**20, m)) / 1e6:.0f} million / s of CPU",
        ),
        (
            "exact Gaussian noise, 1e5 at a time",
            f"{per_second(lambda m: gaussian_int(bits, 2.0**20, m)) / 1e6:.0f} million / s of CPU",
        ),
        ("one noisy count, its receipt included", f"{one:.0f} microseconds of CPU"),
        (
            f"NoisyLloyd, a round, {n:g} x 16 rows, 16 clusters",
            f"{ours / theirs:.2f} times scikit-learn's KMeans ({ours * 1e3:.0f} ms)",
        ),
        (f"the most memory it took beyond {size:.0f} MB of data", f"{peak:.1f} MB"),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="rows for the k-means comparison"
    )
    print(Table(["what", "measured"], measure(parser.parse_args().rows)))


if __name__ == "__main__":
    main()
