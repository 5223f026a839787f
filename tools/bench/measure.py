"""Speed and memory of what everything else is built on, measured here and now: python tools/bench/measure.py [--rows N]

Ratios compare two programs in one run, on one thread; absolute numbers differ from machine to machine.
"""

import argparse
import time
import tracemalloc
import warnings
from unittest import mock

import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from dplit import NoisyLloyd, PEMeans
from dplit.accounting import Table
from dplit.datasets import make_isotropic_blobs
from dplit.geometry import uniform_in_ball
from dplit.mechanisms import Bits, Noise, gaussian_int, laplace_int


def per_second(draw, size=100_000, repeat=50):
    """Samples per second of CPU time."""
    draw(size)
    start = time.process_time()
    for _ in range(repeat):
        draw(size)
    return size * repeat / (time.process_time() - start)


def cpu_seconds(function, *args):
    """CPU seconds of a call, all threads together."""
    start = time.process_time()
    function(*args)
    return time.process_time() - start


def lloyd_and_kmeans(n_rows, dtype, d=16, k=16, rounds=(2, 12), repeat=5):
    """CPU seconds of one more round (ours, scikit-learn's): same rows, same start, one thread, taking turns.

    A round is the difference of two fits that differ only in their number of rounds, the best of
    each: of a short fit of scikit-learn, much is set-up, and whole fits would flatter ours.
    """
    X = uniform_in_ball(n_rows, d, rng=np.random.default_rng(0)).astype(dtype)
    start = X[:k].copy()

    def ours(n_iter):
        NoisyLloyd(k, epsilon=1.0, delta=1e-9, radius=1.0, n_iter=n_iter, init=start).fit(X)

    def theirs(n_iter):
        fitted = KMeans(k, init=start, n_init=1, max_iter=n_iter, tol=0).fit(X)
        if fitted.n_iter_ < n_iter:
            raise RuntimeError("KMeans has converged: there is no further round to measure.")

    def turn():
        return [[cpu_seconds(fit, n_iter) for n_iter in rounds] for fit in (ours, theirs)]

    with warnings.catch_warnings(), threadpool_limits(1), mock.patch("os.cpu_count", lambda: 1):
        warnings.simplefilter("ignore")  # "did not converge": as intended
        few, many = np.min([turn() for _ in range(repeat)], axis=0).T
    return (many - few) / (rounds[1] - rounds[0])


def peak_megabytes(n_rows, n_iter, d=16, k=16):
    """Peak memory traced while fitting, beyond the data themselves, and the size of these."""
    X = np.zeros((n_rows, d), dtype=np.float32)
    tracemalloc.start()
    NoisyLloyd(k, epsilon=1.0, delta=1e-9, radius=1.0, n_iter=n_iter).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6, X.nbytes / 1e6


def count_with_receipt(n):
    """A `Noise`, one query and its receipt, whose privacy cost is computed when the receipt is read."""
    noise = Noise()
    noise.count(n, mu=0.1)
    return noise.receipt(delta=1e-6)


def pe_means_seconds(n_rows, d, k, repeat=5):
    """CPU seconds of a fit on groups, the best of some."""
    groups = make_isotropic_blobs(n_rows, d, k, random_state=1)
    model = PEMeans(k, epsilon=1.0, delta=1e-6, radius=groups.radius, random_state=0)
    return min(cpu_seconds(model.fit, groups.data) for _ in range(repeat))


def measure(n):
    """(what, measured) in words, with n rows for the comparison with k-means."""
    bits = Bits()
    rounds = []
    for dtype in ("float64", "float32"):
        ours, theirs = lloyd_and_kmeans(n, dtype)
        what = f"NoisyLloyd, one more round, {n:g} x 16 rows of {dtype}, 16 clusters"
        found = f"{ours / theirs:.1f} times scikit-learn's KMeans ({1e3 * ours:.0f} ms against {1e3 * theirs:.0f}; one thread)"
        rounds.append((what, found))
    (once, size), (often, _) = peak_megabytes(n, 1), peak_megabytes(n, 5)
    one = 1e6 / max(per_second(count_with_receipt, size=1, repeat=3000) for _ in range(5))
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
        ("PEMeans, 2e4 x 16 rows, 16 clusters", f"{pe_means_seconds(20_000, 16, 16):.2f} s of CPU"),
        *rounds,
        (
            f"NoisyLloyd: memory beyond {size:.0f} MB of data, float32",
            f"{once:.1f} MB; {often:.0f} MB with several rounds, which keep the rows in whole numbers",
        ),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="rows for the k-means comparison"
    )
    print(Table(["what", "measured"], measure(parser.parse_args().rows)))


if __name__ == "__main__":
    main()
