"""Private codebooks of MNIST digits, whole or cut into parts: bits, distortion, digits read (nbs/examples/codebook.ipynb).

Needs DPLIT_DATA, the folder that holds mnist_t10k.npz. Two CPU minutes.
"""

import math
import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier

from dplit import HDPEMeans, PEMeans, datasets
from dplit.accounting import Table, gaussian_epsilon, gaussian_mu
from dplit.geometry import nearest

DELTA = 1e-5
FORMS = ((1, 64), (16, 8), (49, 4), (49, 8), (49, 16))  # parts, codewords of each


def cut(parts):
    """Columns of each of `parts` squares of a 28 by 28 image."""
    side = 28 // math.isqrt(parts)
    pixel = np.arange(784).reshape(28, 28)
    corners = range(0, 28, side)
    return [pixel[i : i + side, j : j + side].ravel() for i in corners for j in corners]


def private_books(images, squares, k, epsilon, seed):
    """A codebook for each square; all together cost (epsilon, DELTA)."""
    each = gaussian_epsilon(DELTA, gaussian_mu(epsilon, DELTA) / math.sqrt(len(squares)))
    books = []
    for square in squares:
        make, d = (PEMeans if len(square) <= 32 else HDPEMeans), len(square)
        ball = dict(radius=127.5 * math.sqrt(d), center=np.full(d, 127.5))
        model = make(k, epsilon=each, delta=DELTA, random_state=seed, **ball)
        books.append(model.fit(images[:, square]).cluster_centers_)
    return books


def exact_books(images, squares, k):
    return [KMeans(k, n_init=1, random_state=0).fit(images[:, s]).cluster_centers_ for s in squares]


def transmit(images, squares, books):
    """The images as they arrive."""
    arrived = np.empty_like(images)
    for square, book in zip(squares, books, strict=True):
        arrived[:, square] = book[nearest(images[:, square], book)]
    return arrived


def options(parser):
    """Options of the chapter, which has one table."""
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.set_defaults(run=lambda asked: run(asked.epsilon, asked.seeds))


def run(epsilon, n_seeds):
    """Print a line for each form, and the table."""
    mnist = datasets.fetch_mnist()
    order = np.random.default_rng(0).permutation(len(mnist.data))
    archive, public = mnist.data[order[:9000]], mnist.data[order[9000:]]
    digit = mnist.target[order[9000:]]

    def judge(squares, books):
        """Distortion, and share of the last 500 public digits read after the first 500."""
        arrived = transmit(public, squares, books)
        error = np.mean((public - arrived) ** 2) / np.mean((public - public.mean(axis=0)) ** 2)
        reader = KNeighborsClassifier(1).fit(arrived[:500], digit[:500])
        return error, reader.score(arrived[500:], digit[500:])

    # corners that are always blank: one codeword
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows = []
    for parts, k in FORMS:
        squares = cut(parts)
        open_ = judge(squares, exact_books(archive, squares, k))
        runs = [
            judge(squares, private_books(archive, squares, k, epsilon, s)) for s in range(n_seeds)
        ]
        private = np.median(runs, axis=0)
        bits = parts * round(math.log2(k))
        cells = [
            f"{v:.{i}{t}}" for v, i, t in zip((*open_, *private), (2, 0, 2, 0), "f%f%", strict=True)
        ]
        rows.append((f"{parts} of {k} codewords", bits, *cells))
        print(rows[-1], flush=True)
    plain = KNeighborsClassifier(1).fit(public[:500], digit[:500]).score(public[500:], digit[500:])
    print(f"digits read as written: {plain:.0%}\n")
    head = [
        "parts",
        "bits",
        "distortion, exact",
        "read, exact",
        "distortion, private",
        "read, private",
    ]
    print(Table(head, rows)._repr_markdown_())
