"""The planted sets keep their promises, and the loaders say what to do when a set is missing."""

import csv
import gzip
from urllib.error import URLError

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.utils import Bunch

from dplit import datasets
from dplit.datasets import loaders
from dplit.datasets import synthetic as D

CLUSTERS = {
    "clipped": lambda seed: datasets.make_clipped_gaussians(1000, 8, 10, random_state=seed),
    "separated": lambda seed: datasets.make_separated_gaussians(1000, 6, 4, random_state=seed),
    "g2": lambda seed: datasets.make_g2(1000, 5, random_state=seed),
    "isotropic": lambda seed: datasets.make_isotropic_blobs(1000, 3, 7, random_state=seed),
    "elongated": lambda seed: datasets.make_elongated_blobs(1000, 3, 7, random_state=seed),
}
PAIRS = {
    "kind1": lambda seed: datasets.make_source_target(1, 300, 200, random_state=seed),
    "kind2": lambda seed: datasets.make_source_target(2, 300, 200, random_state=seed),
    "kind3": lambda seed: datasets.make_source_target(3, 300, 200, random_state=seed),
    "shifted": lambda seed: datasets.make_shifted_regression(random_state=seed),
    "contaminated": lambda seed: datasets.make_contaminated_source(random_state=seed),
}


def same(a, b):
    assert a.keys() == b.keys()
    return all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("make", [*CLUSTERS.values(), *PAIRS.values()], ids=[*CLUSTERS, *PAIRS])
def test_a_seed_repeats_and_a_generator_moves_on(make):
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    assert same(make(3), make(3))
    rng = np.random.default_rng(3)
    first, second = make(rng), make(rng)
    assert not same(first, second)
    assert same(first, make(np.random.default_rng(3)))
    make(None)
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002 (the global generator is left alone)


@pytest.mark.parametrize("make", CLUSTERS.values(), ids=CLUSTERS)
def test_cluster_sets_have_the_same_fields_and_a_ball_that_knows_no_row(make):
    one, two = make(1), make(2)
    n, d = one.data.shape
    assert (
        n == 1000
        and one.target.shape == (n,)
        and one.centers.shape[1] == d
        and one.center.shape == (d,)
    )
    assert set(np.unique(one.target)) == set(range(len(one.centers)))
    assert np.linalg.norm(one.data - one.center, axis=1).max() <= one.radius
    # other rows, the same ball
    assert one.radius == two.radius and np.array_equal(one.center, two.center)
    assert isinstance(one.radius, float) and isinstance(one.expected_loss, float)


@pytest.mark.parametrize("make", CLUSTERS.values(), ids=CLUSTERS)
def test_expected_loss_bounds_the_optimum(make):
    """Mean over 20 seeds; k-means starts at the planted centres, so it can only find a loss that is too low, never too high."""
    gaps = []
    for seed in range(20):
        b = make(seed)
        start = datasets.kmeans_loss(b.data, b.centers)
        found = KMeans(len(b.centers), init=b.centers, n_init=1).fit(b.data).inertia_ / len(b.data)
        assert found <= start * (1 + 1e-12)
        gaps.append(found / b.expected_loss - 1)
    assert np.mean(gaps) < 5 * np.std(gaps) / np.sqrt(20)  # false alarm below 1e-5
    assert np.mean(gaps) > -0.25


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_far_clusters_reach_their_expected_loss_for_every_seed(seed):
    n, d = 2000, 4
    for b in (
        datasets.make_separated_gaussians(n, 4, d, random_state=seed),
        datasets.make_isotropic_blobs(n, 16, 4, random_state=seed),
    ):
        found = KMeans(len(b.centers), init=b.centers, n_init=1).fit(b.data).inertia_ / n
        assert (
            abs(found - b.expected_loss) < 5 * np.sqrt(2 * b.data.shape[1] / n)
            and np.linalg.norm(b.data, axis=1).max() <= b.radius
        )


def test_kmeans_loss_is_the_definition_in_every_block_size():
    rng = np.random.default_rng(0)
    X, C = rng.normal(size=(57, 3)), rng.normal(size=(4, 3))
    brute = np.mean([min(sum((x - c) ** 2) for c in C) for x in X])
    assert np.allclose(
        [datasets.kmeans_loss(X, C, block_size=b) for b in (1, 10, 57, 1000)], brute, rtol=1e-12
    )
    # bytes do not wrap round
    assert datasets.kmeans_loss(np.array([[250]], dtype=np.uint8), [[255.0]]) == 25
    assert abs(datasets.kmeans_loss(X + 1e7, C + 1e7) / brute - 1) < 1e-6
    far = [[0.0] * 3, [1e17] * 3]  # their mean holds no digit of a row
    assert datasets.kmeans_loss(X, far) == pytest.approx((X**2).sum(axis=1).mean())
    for bad in (C[:, :2], C[:0], C[0]):
        with pytest.raises(ValueError, match="centers: kmeans_loss needs an array"):
            datasets.kmeans_loss(X, bad)
    assert datasets.kmeans_loss.__doc__.startswith("NOT private")


@pytest.mark.parametrize("mean", [-80.0, -1.0, 0.3, 2.0, 99.5, 140.0])
def test_clipped_moments_against_numerical_integration(mean):
    def expect(f):
        inside = integrate.quad(
            lambda x: f(x) * stats.norm.pdf(x, mean, 2),
            0,
            100,
            points=[min(max(mean, 1), 99)],
            limit=200,
        )[0]
        return f(0) * stats.norm.cdf(0, mean, 2) + f(100) * stats.norm.sf(100, mean, 2) + inside

    first = expect(lambda x: x)
    m, v = datasets.clipped_normal_moments(mean, 2.0, 0.0, 100.0)
    assert abs(m - first) < 1e-6 and abs(v - expect(lambda x: (x - first) ** 2)) < 1e-6 and v >= 0


def test_gaussian_radius_holds_as_often_as_it_says():
    rng = np.random.default_rng(1)
    beta, outside = 0.1, 0
    for _ in range(400):
        outside += np.linalg.norm(
            rng.normal(size=(100, 1)), axis=1
        ).max() > datasets.gaussian_radius(100, 1, beta=beta)
    assert outside <= stats.binom.ppf(1 - 1e-6, 400, beta)
    assert datasets.gaussian_radius(100, 9, 2.0) == 2 * datasets.gaussian_radius(100, 9)
    with pytest.raises(ValueError, match="beta"):
        datasets.gaussian_radius(10, 2, beta=0)


def test_two_gaussians_against_sampling_and_at_its_ends():
    rng = np.random.default_rng(2)
    t = 1.3 + 0.8 * rng.normal(size=1_000_000)
    sampled = np.var(np.abs(t)) + 2 * 0.64
    assert abs(datasets.two_gaussians_loss(1.3, 0.8, 3) / sampled - 1) < 0.01
    assert np.isclose(datasets.two_gaussians_loss(0, 1, 1), 1 - 2 / np.pi)
    assert np.isclose(datasets.two_gaussians_loss(50, 1, 7), 7)
    assert (
        datasets.two_gaussians_error(0, 1) == 0.5
        and abs(datasets.two_gaussians_error(1.3, 0.8) - np.mean(t < 0)) < 0.002
    )


def test_isotropic_blobs_are_make_blobs_at_an_integer_seed():
    X, y = make_blobs(500, 4, centers=4, random_state=1)
    b = datasets.make_isotropic_blobs(500, 4, 4, random_state=1)
    assert np.array_equal(b.data, X.round(4)) and np.array_equal(b.target, y)


def test_elongated_blobs_have_their_sizes_and_covariances():
    b = datasets.make_elongated_blobs(60_000, 3, 4, random_state=0)
    assert np.array_equal(np.bincount(b.target), [6000, 12000, 18000, 24000])
    for j in range(4):
        eigenvalues = np.linalg.eigvalsh(b.covariances[j])
        assert 1 - 1e-9 <= eigenvalues[0] and eigenvalues[-1] <= 10 + 1e-9
        assert np.abs(np.cov(b.data[b.target == j].T) - b.covariances[j]).max() < 0.6
    smallest = datasets.make_elongated_blobs(6, 2, 3, random_state=0)
    assert np.array_equal(np.bincount(smallest.target), [1, 2, 3])


def test_source_target_layout():
    b = datasets.make_source_target(2, random_state=0)
    assert b.Xs.shape == (2700, 2) and b.Xt.shape == (1000, 2) and len(b.uncovered) == 9
    on_top = b.source_centers[:, 1] > 0.5
    assert on_top.sum() == 18 and (b.source_centers[~on_top, 0] > 0.5).all()
    assert (b.target_centers[b.uncovered, 0] < 0.5).all() and (b.target_centers[:, 1] < 0.5).all()
    assert [
        len(datasets.make_source_target(k, random_state=0).target_centers) for k in (1, 2, 3)
    ] == [
        1,
        18,
        12,
    ]


def test_regression_sets_keep_their_bounds_and_their_risk():
    for b in (
        datasets.make_shifted_regression(5000, 5000, 7, angle=0.9, random_state=0),
        datasets.make_contaminated_source(5000, 5000, 7, random_state=0),
    ):
        for X, y in ((b.Xs, b.ys), (b.Xt, b.yt)):
            assert (
                np.allclose(np.linalg.norm(X, axis=1), b.radius)
                and np.abs(y).max() <= b.target_bound
            )
        assert np.linalg.norm(b.coef_target) <= b.weight_radius
        w = np.arange(7.0)  # any predictor: exact risk against the mean over 5,000 target rows
        squares = (b.Xt @ w - b.yt) ** 2
        assert abs(
            datasets.sphere_risk(w, b.coef_target, b.noise) - squares.mean()
        ) < 5 * squares.std() / np.sqrt(5000)
    shifted = datasets.make_shifted_regression(angle=0.9, random_state=0)
    excess = datasets.sphere_risk(shifted.coef_source, shifted.coef_target, 0.5) - 0.25
    assert np.isclose(excess, shifted.source_excess) and np.isclose(excess, 4 * np.sin(0.45) ** 2)


def test_contaminated_source_has_the_stated_share_of_bad_labels():
    b = datasets.make_contaminated_source(1000, 40, 5, contamination=0.237, random_state=0)
    assert b.bad.sum() == 237 and abs(b.coef_bad @ b.coef_target) < 1e-9
    rule = np.where(b.bad[:, None], b.coef_bad, b.coef_target)
    assert abs(np.std(b.ys - np.sum(rule * b.Xs, axis=1)) - 0.5) < 0.06
    assert not datasets.make_contaminated_source(contamination=0, random_state=0).bad.any()
    assert datasets.make_contaminated_source(contamination=1, random_state=0).bad.all()


@pytest.mark.parametrize(
    "call, word",
    [
        (lambda: datasets.make_clipped_gaussians(0), "n_samples"),
        (lambda: datasets.make_clipped_gaussians(10, 3, 20), "every cluster needs a row"),
        (lambda: datasets.make_clipped_gaussians(low=1, high=1), "box is empty"),
        (lambda: datasets.make_clipped_gaussians(spread=np.inf), "spread"),
        (lambda: datasets.make_separated_gaussians(n_clusters=3), "even number"),
        (
            lambda: datasets.make_separated_gaussians(n_clusters=4, n_features=1),
            "two for each column",
        ),
        (lambda: datasets.make_separated_gaussians(distance=-1), "distance"),
        (lambda: datasets.make_g2(2.5), "n_samples"),
        (lambda: datasets.make_g2(1), "every cluster needs a row"),
        (lambda: datasets.make_g2(std=0), "std"),
        (lambda: datasets.make_isotropic_blobs(n_clusters=True), "n_clusters"),
        (lambda: datasets.make_isotropic_blobs(box=np.nan), "box"),
        (lambda: datasets.make_elongated_blobs(5, 2, 3), "k \\(k \\+ 1\\) / 2"),
        (lambda: datasets.make_source_target(4), "there are three source-target sets"),
        (lambda: datasets.make_source_target(2, 26), "every cluster needs a row"),
        (lambda: datasets.make_shifted_regression(n_features=1), "at least 2"),
        (lambda: datasets.make_shifted_regression(angle=4), "angle=4"),
        (lambda: datasets.make_contaminated_source(contamination=1.1), "contamination=1.1"),
        (lambda: datasets.make_contaminated_source(noise=0), "noise"),
        (lambda: datasets.fetch_mnist("validation"), '"test" or "train"'),
        (lambda: datasets.fetch_clustering("s9"), "no such clustering set"),
        (lambda: datasets.fetch_clustering("g2_0"), "no such clustering set"),
    ],
)
def test_bad_arguments_get_one_clear_sentence(call, word):
    with pytest.raises((TypeError, ValueError), match=word):
        call()


@pytest.mark.parametrize("load, shape, radius", [
    (datasets.load_digits, (1797, 64), 64.0), (datasets.load_iris, (150, 4), 10.0), (datasets.load_breast_cancer, (569, 30), None), (datasets.load_diabetes, (442, 10), None),
])  # fmt: skip
def test_bundled_sets_lie_in_their_public_ranges(load, shape, radius):
    b = load()
    assert b.data.shape == shape and b.target.shape == shape[:1] and b.description
    assert (b.low <= b.data).all() and (b.data <= b.high).all()
    assert np.array_equal(b.center, (b.low + b.high) / 2) and np.isclose(
        b.radius, np.linalg.norm(b.high - b.center)
    )
    assert radius is None or b.radius == radius
    assert np.abs(b.target).max() <= b.get("target_bound", np.inf)


# --- sets from a folder, from a download, from nowhere


@pytest.fixture
def offline(monkeypatch):
    def refuse(*args, **kwargs):
        raise URLError("no network")

    monkeypatch.delenv("DPLIT_DATA", raising=False)
    monkeypatch.setattr(D.sk_datasets, "fetch_openml", refuse)
    return monkeypatch


@pytest.mark.parametrize("fetch, file", [
    (datasets.fetch_mnist, "mnist_t10k.npz"), (lambda: datasets.fetch_mnist("train"), "mnist_train.npz"), (datasets.fetch_adult, "adult.csv.gz"),
    *((lambda name=name: datasets.fetch_clustering(name), f"{name}.npz") for name in loaders._CLUSTERING),
])  # fmt: skip
def test_offline_says_what_why_and_what_to_do(offline, tmp_path, fetch, file):
    for folder in (None, tmp_path, tmp_path / "absent"):
        if folder:
            offline.setenv("DPLIT_DATA", str(folder))
        with pytest.raises(FileNotFoundError, match="DPLIT_DATA") as caught:
            fetch()
        assert file in str(caught.value) and "Put" in str(caught.value)
        downloaded = "OpenML" in str(caught.value)
        assert downloaded == isinstance(caught.value.__cause__, URLError)
        assert downloaded or "published" in str(caught.value)


def test_sets_that_need_no_file(offline):
    b = datasets.fetch_clustering("g2_4")
    assert b.data.shape == (2048, 4) and b.n_clusters == 2
    assert datasets.fetch_clustering("wdbc").data.shape == (569, 30)


def test_a_folder_is_read_first(offline, tmp_path):
    rng = np.random.default_rng(0)
    offline.setenv("DPLIT_DATA", str(tmp_path))
    images = rng.integers(0, 256, (12, 784)).astype(np.uint8)
    np.savez(tmp_path / "mnist_t10k.npz", X=images, y=np.arange(12) % 10)
    b = datasets.fetch_mnist()
    assert (
        b.data.dtype == float
        and np.array_equal(b.data, images)
        and b.radius == 3570
        and b.target[11] == 1
    )
    np.savez(tmp_path / "s1.npz", X=np.ones((3, 2)), k=15)
    np.savetxt(tmp_path / "s2.txt", [[1, 2], [3, 4]], fmt="%d")
    assert datasets.fetch_clustering("s1").target is None
    assert (
        datasets.fetch_clustering("s2").data.tolist() == [[1, 2], [3, 4]]
        and datasets.fetch_clustering("s2").n_clusters == 15
    )
    np.savez(tmp_path / "g2_3.npz", X=np.full((5, 3), 500.0), y=np.zeros(5))
    assert datasets.fetch_clustering("g2_3").data.shape == (5, 3)
    assert datasets.fetch_clustering("g2_3").radius == datasets.make_g2(2048, 3).radius, (
        "the ball must not depend on the rows of the file"
    )


def test_a_broken_file_is_named(offline, tmp_path):
    offline.setenv("DPLIT_DATA", str(tmp_path))
    np.savez(tmp_path / "letter.npz", X=np.ones((3, 2)))
    with pytest.raises(ValueError, match="letter.npz.*16 columns"):
        datasets.fetch_clustering("letter")
    np.savez(tmp_path / "gas.npz", Z=np.ones((3, 12)))
    with pytest.raises(ValueError, match="no array X"):
        datasets.fetch_clustering("gas")
    with gzip.open(tmp_path / "adult.csv.gz", "wt") as out:
        out.write("age,sex\n30,Male\n")
    with pytest.raises(ValueError, match="no column 'capital_gain'"):
        datasets.fetch_adult()


ADULT = [
    dict(age=39, workclass="State-gov", fnlwgt=77516, education="Bachelors", education_num=13, marital_status="Never-married", occupation="Adm-clerical",
         relationship="Not-in-family", race="White", sex="Male", capital_gain=2174, capital_loss=0, hours_per_week=40, native_country="United-States", income="<=50K"),
    dict(age=100, workclass="?", fnlwgt=287927, education="Masters", education_num=16, marital_status="Widowed", occupation="?",
         relationship="Wife", race="Black", sex="Female", capital_gain=99999, capital_loss=99999, hours_per_week=100, native_country="?", income=">50K"),
]  # fmt: skip


def test_adult_from_a_file_and_from_openml_agree(offline, tmp_path):
    with gzip.open(tmp_path / "adult.csv.gz", "wt", newline="") as out:
        writer = csv.DictWriter(out, ADULT[0])
        writer.writeheader()
        writer.writerows(ADULT)
    offline.setenv("DPLIT_DATA", str(tmp_path))
    from_file = datasets.fetch_adult()
    offline.delenv("DPLIT_DATA")

    # the form scikit-learn gives: codes for names, nan for a missing one
    def fake(name, version, as_frame, parser):
        assert (name, version, as_frame, parser) == ("adult", 2, False, "liac-arff")
        columns = [c for c in ADULT[0] if c != "income"]
        names = {
            c: sorted({r[c] for r in ADULT} - {"?"})
            for c in columns
            if isinstance(ADULT[0][c], str)
        }
        data = [
            [
                float(names[c].index(r[c]))
                if r[c] in names.get(c, ())
                else np.nan
                if c in names
                else r[c]
                for c in columns
            ]
            for r in ADULT
        ]
        dashed = {c: c.replace("_", "-") for c in columns}
        return Bunch(
            data=np.array(data, dtype=float), target=np.array([r["income"] for r in ADULT], dtype=object),
            feature_names=[dashed[c] for c in columns], categories={dashed[c]: v for c, v in names.items()},
        )  # fmt: skip

    offline.setattr(D.sk_datasets, "fetch_openml", fake)
    downloaded = datasets.fetch_adult()
    assert same(from_file, downloaded)
    assert (
        from_file.data.shape == (2, 45)
        and from_file.target.tolist() == [0, 1]
        and from_file.sex.tolist() == ["Male", "Female"]
    )
    assert np.linalg.norm(from_file.data, axis=1).max() <= from_file.radius
    row = dict(zip(from_file.feature_names, from_file.data[1], strict=True))
    assert (
        row["age"] == 1
        and row["race=Black"] == 1
        and sum(v for k, v in row.items() if k.startswith("occupation=")) == 0
    )
    six = datasets.fetch_clustering("adult6")
    assert six.data[0].tolist() == [39, 77516, 13, 2174, 0, 40]


def test_other_downloads(offline):
    def fake(name, version, as_frame, parser):
        if name == "letter":
            return Bunch(data=np.ones((3, 16)), target=np.array(["B", "A", "B"], dtype=object))
        assert (name, version) == ("mnist_784", 1)
        return Bunch(
            data=np.zeros((60_002, 784), dtype=np.uint8),
            target=np.array(["5"] * 60_000 + ["7", "2"], dtype=object),
        )

    offline.setattr(D.sk_datasets, "fetch_openml", fake)
    assert datasets.fetch_mnist("test").target.tolist() == [7, 2]
    assert datasets.fetch_clustering("letter").target.tolist() == [1, 0, 1]
