"""The sets that the benchmark makes by a recipe, and the paper's own numbers beside them."""

from collections import defaultdict

import numpy as np
import pytest
from bench import kmeans, paper_rows, recipes, store, tables
from bench.sets import EPSILONS


def test_the_network_is_trained_by_the_gradients_of_its_loss():
    rng = np.random.default_rng(0)
    weights = [w.astype(float) for w in recipes.start(rng)]
    images, labels = rng.normal(size=(3, 28, 28)), np.array([1, 5, 7])

    def loss():
        scores = recipes.forward(images, weights)[-1]
        return np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(3), labels])

    found = list(recipes.gradients(recipes.forward(images, weights), labels, weights))
    moved = 0
    for w, g in zip(weights, found, strict=True):
        assert g.shape == w.shape
        at = np.unravel_index(np.argmax(np.abs(g)), w.shape)
        middle, losses = w[at], []
        for w[at] in (middle + 1e-5, middle - 1e-5):
            losses.append(loss())
        w[at] = middle
        assert (losses[0] - losses[1]) / 2e-5 == pytest.approx(g[at], rel=1e-4)
        moved += abs(g[at]) > 1e-4
    assert moved == len(weights)


def test_the_network_learns_which_half_is_dark():
    rng = np.random.default_rng(1)
    labels = rng.integers(2, size=2000)
    images = rng.normal(size=(2000, 28, 28)).astype(np.float32) / 4
    images[labels == 1, :14] += 1
    weights = recipes.train(images, labels)
    *_, features, scores = recipes.forward(images[:500], weights)
    assert features.shape == (500, 84) and features.min() == 0
    assert np.mean(scores.argmax(axis=1) == labels[:500]) > 0.97


def test_what_cannot_be_made_is_said_and_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DPLIT_DATA", str(tmp_path))
    monkeypatch.setattr(recipes.shutil, "which", lambda program: None)
    recipes.make(["scale_4_4"])
    assert "scale_4_4: no Rscript, left out" in capsys.readouterr().out
    assert not [*tmp_path.iterdir()]
    with pytest.raises(FileNotFoundError, match="paper-rows"):
        recipes.read("scale_4_4")
    recipes.save("scale_4_4", X=np.arange(8.0).reshape(2, 4))
    monkeypatch.setattr(recipes, "make_scale", lambda name: 1 / 0)
    recipes.make(["scale_4_4"])  # it is there
    X, k = recipes.read("scale_4_4")
    assert k == 4 and X.tolist() == np.arange(8.0).reshape(2, 4).tolist()


def test_another_file_of_the_package_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "train-labels-idx1-ubyte"
    content = bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 3])
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not the file that we know"):
        recipes.idx(path)
    monkeypatch.setitem(recipes.SHA256, path.name, recipes.hashlib.sha256(content).hexdigest())
    assert recipes.idx(path).tolist() == [7, 3]


def test_the_papers_table_is_copied_twice_and_alike():
    paper, others = ("PE-means", "HDPE-means"), kmeans.PEERS[2:]
    printed = defaultdict(dict)
    for r in store.book("pe_means_printed"):
        printed[r["dataset"]][r["method"]] = float(r["printed"])
    assert len(printed) == 34 and sum(map(len, printed.values())) == 34 * 6 + 15
    gains = [
        1 - min(row[m] for m in paper if m in row) / min(row[m] for m in others)
        for row in printed.values()
    ]
    assert np.mean(gains) == pytest.approx(0.2614, abs=5e-4)  # as the authors' notebook has it
    assert len(printed["mnist"]) == 7 and sum("HDPE-means" in row for row in printed.values()) == 15
    names = [name.removesuffix(", as driven") for name in kmeans.PUBLISHED_METHODS]
    for name, figures in kmeans.PUBLISHED.items():
        of = dict(zip(names, figures, strict=True))
        assert printed[name] == {m: v for m, v in of.items() if v is not None}


def test_rows_of_the_paper_are_summed_up_apart(tmp_path):
    line = {"dataset": "scale_4_4", "n": 10, "d": 4, "k": 4, "delta": 0, "method": "PE-means"}
    fits = [line | {"epsilon": e, "seed": s, "loss": s + 1} for e in EPSILONS for s in (0, 1)]
    store.write(tmp_path / "paper_fits.csv", fits)
    assert tables.sum_up(tmp_path) == []
    (row,) = store.read(tmp_path / "paper_rows.csv")
    assert row["seeds"] == "2" and float(row["auc"]) == pytest.approx(1.5 * 3.75)
    assert "published" not in row and len(store.read(tmp_path / "paper_curves.csv")) == 5


def test_every_method_of_the_paper_is_asked_for_every_row(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(recipes, "make", lambda names: None)
    monkeypatch.setattr(paper_rows.Store, "run", lambda self, jobs, measure: asked.extend(jobs))
    monkeypatch.setattr(kmeans, "available", lambda sets: sets)
    shape = {"mnist_lenet": 84, "scale_4_4": 4}
    monkeypatch.setattr(kmeans, "load", lambda name: (np.zeros((1, shape[name])), 4))
    paper_rows.run(tmp_path, ["mnist_lenet", "scale_4_4"], 5)
    found = {name: {job[1] for job in asked if job[0] == name} for name in shape}
    assert found["scale_4_4"] == {*paper_rows.METHODS} - {"HDPE-means"}
    assert found["mnist_lenet"] == {*paper_rows.METHODS} - {"PE-means"}
    assert len([j for j in asked if j[:2] == ("scale_4_4", "PE-means")]) == 5 * len(EPSILONS)
