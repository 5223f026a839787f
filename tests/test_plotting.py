"""The figures draw what they were given, read without colour, and leave matplotlib as it was."""

from types import SimpleNamespace

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from dplit import plotting as P
from dplit.receipts import Receipt, Release

RNG = np.random.default_rng(0)
EPS = np.array([0.5, 1.0, 2.0])
RECEIPT = Receipt(
    (Release("votes", "gaussian", times=4, mu=0.5), Release("count", "laplace", epsilon=0.1)),
    "add_remove",
    delta=1e-6,
)
CALLS = {
    "centers": lambda ax=None: P.plot_centers(
        RNG.normal(size=(20, 2)), np.eye(2), true_centers=-np.eye(2), radius=3.0, ax=ax
    ),
    "images": lambda ax=None: P.plot_images(RNG.uniform(size=(3, 6)), (2, 3), titles="abc", ax=ax),
    "loss": lambda ax=None: P.plot_loss_curve(
        EPS, {"a": RNG.uniform(1, 2, (5, 3)), "b": [3.0, 2.0, 1.0]}, baseline=1.0, ax=ax
    ),
    "receipt": lambda ax=None: P.plot_receipt(RECEIPT, ax=ax),
    "bound": lambda ax=None: P.plot_bound(EPS, RNG.uniform(1, 2, (4, 3)), [3.0, 3.0, 3.0], ax=ax),
}


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_figure_returns_its_axes_and_never_shows(call, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *a, **k: pytest.fail("show was called"))
    before = dict(plt.rcParams)
    ax = call()
    assert isinstance(ax, plt.Axes) and dict(plt.rcParams) == before
    ax.figure.canvas.draw()  # really draws, without warnings
    _, given = plt.subplots()
    number = len(plt.get_fignums())
    assert call(given) is given and len(plt.get_fignums()) == number


def test_style_is_undone_even_after_an_error():
    before = dict(plt.rcParams)
    with pytest.raises(RuntimeError), P.style():
        assert plt.rcParams["legend.frameon"] is False
        raise RuntimeError
    assert dict(plt.rcParams) == before


def test_style_keeps_what_a_backend_sets_inside():
    """A notebook's backend turns interactive mode on at its first figure; taking that back would hide all later figures."""
    was = plt.isinteractive()
    try:
        matplotlib.interactive(False)
        with P.style():
            matplotlib.interactive(True)
        assert plt.isinteractive()
    finally:
        matplotlib.interactive(was)


def test_series_differ_without_colour():
    for part in ("marker", "hatch"):
        assert len({s[part] for s in P.SERIES}) == len(P.SERIES)
    assert len({str(s["linestyle"]) for s in P.SERIES}) == len(P.SERIES)
    rgb = np.array([matplotlib.colors.to_rgb(s["color"]) for s in P.SERIES])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [
        0.2126,
        0.7152,
        0.0722,
    ]
    light = 116 * np.cbrt(np.maximum(linear, 0.008856)) - 16  # CIE L*
    assert np.abs(np.diff(light)).min() > 12 and light.max() < 80
    seen = {(s["marker"], round(v)) for s, v in zip(P.SERIES, light, strict=True)}
    assert len(seen) == len(P.SERIES)


def test_a_drawn_curve_uses_its_series():
    ax = CALLS["loss"]()
    lines = [c.lines[0] for c in ax.containers]
    assert [(x.get_marker(), x.get_color()) for x in lines] == [
        (s["marker"], s["color"]) for s in P.SERIES[:2]
    ]
    assert lines[0].get_linestyle() != lines[1].get_linestyle()


def test_loss_curve_shows_median_and_quartiles():
    runs = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0], [100.0, 50.0]])
    ax = P.plot_loss_curve([1, 2], {"a": runs}, baseline={"k-means": 0.5, "one centre": 60.0})
    line, _, (bars,) = ax.containers[0]
    assert np.allclose(line.get_ydata(), [3, 30]) and np.allclose(line.get_xdata(), [1, 2])
    assert np.allclose([segment[:, 1] for segment in bars.get_segments()], [[2, 4], [20, 40]])
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "2"]
    labels = [t.get_text() for t in ax.get_legend().get_texts()]
    assert labels == ["k-means", "one centre", "a"]


def test_centers_project_on_a_public_plane_only():
    C = RNG.normal(size=(3, 5))
    with pytest.raises(ValueError, match="never from private rows"):
        P.plot_centers(None, C)
    with pytest.raises(ValueError, match="orthonormal"):
        P.plot_centers(None, C, basis=np.ones((2, 5)))
    basis = np.linalg.qr(RNG.normal(size=(5, 2)))[0].T
    ax = P.plot_centers(None, C, basis=basis, center=np.ones(5), radius=2.0)
    assert len(ax.collections) == 1, "without rows there is one layer, the centres"
    assert np.allclose(ax.collections[0].get_offsets(), C @ basis.T)
    assert (
        np.allclose(ax.patches[0].get_center(), basis.sum(axis=1))
        and ax.patches[0].get_radius() == 2
    )


def test_images_are_laid_out_in_order():
    images = np.arange(12.0).reshape(3, 4)
    ax = P.plot_images(images, (2, 2), n_columns=2, value_range=(0, 20))
    sheet = ax.images[0].get_array()
    assert ax.images[0].get_clim() == (0, 20)
    assert (
        sheet[:2, :2].tolist() == [[0, 1], [2, 3]]
        and sheet[:2, 3:5].tolist() == [[4, 5], [6, 7]]
        and sheet[3:5, :2].tolist() == [[8, 9], [10, 11]]
    )
    assert np.ma.getmaskarray(sheet)[:, 2].all()
    with pytest.raises(ValueError, match="3 by 3 pixels"):
        P.plot_images(images, (3, 3))
    with pytest.raises(ValueError, match="one title"):
        P.plot_images(images, (2, 2), titles="ab")


def test_receipt_shares_are_of_rho_or_of_epsilon():
    ax = CALLS["receipt"]()
    widths = [bar.get_width() for bar in ax.patches]
    assert np.allclose(widths, [0.5 / 0.505, 0.005 / 0.505]) and ax.get_xlabel() == "share of rho"
    pure = Receipt(
        (Release("a", "laplace", times=3, epsilon=0.3), Release("b", "exponential", epsilon=0.1)),
        "replace",
    )
    ax = P.plot_receipt(pure)
    assert (
        np.allclose([bar.get_width() for bar in ax.patches], [0.9, 0.1])
        and ax.get_xlabel() == "share of epsilon"
    )
    assert "3 times" in ax.texts[0].get_text() and "times" not in ax.texts[1].get_text()
    assert ax.patches[0].get_hatch() != ax.patches[1].get_hatch()


def test_receipt_with_a_cover_prices_each_release_alone():
    cover = Release("choices", "cover", exponent=0.03)
    mixed = Receipt((*RECEIPT.releases, cover), "replace", delta=1e-6)
    alone = [Receipt([r], "replace").epsilon_at(1e-6) for r in mixed.releases]
    ax = P.plot_receipt(mixed)
    assert np.allclose([bar.get_width() for bar in ax.patches], np.divide(alone, sum(alone)))
    assert ax.get_xlabel() == "share of epsilon, each priced alone"
    assert "exponent = 0.03" in ax.texts[2].get_text()
    with pytest.raises(ValueError, match="finite price"):
        P.plot_receipt(Receipt([cover], "replace", delta=0.0))


def test_receipt_of_any_object_of_nothing_and_of_infinity():
    release = SimpleNamespace(
        label="x", mechanism="gaussian", times=1, epsilon=None, rho=0.5, price="mu = 1"
    )
    assert P.plot_receipt(SimpleNamespace(releases=[release])).patches[0].get_width() == 1
    assert (
        P.plot_receipt(SimpleNamespace(releases=[])).texts[0].get_text() == "nothing was released"
    )
    release.rho = np.inf
    with pytest.raises(ValueError, match="finite price"):
        P.plot_receipt(SimpleNamespace(releases=[release]))


@pytest.mark.parametrize("upper, broken", [(True, [3.5]), (False, [1.0])])
def test_bound_crosses_out_the_violations(upper, broken):
    ax = P.plot_bound(
        EPS,
        [[1.0, 2.0, 3.5]],
        [1.5, 2.0, 3.0] if upper else [1.5, 2.0, 3.4],
        upper=upper,
        xlabel="x",
        ylabel="y",
    )
    assert (
        ax.lines[-1].get_ydata().tolist() == broken
        and ax.lines[-1].get_label() == "beyond the bound"
    )
    assert len(ax.collections) == 1 and ax.collections[0].get_hatch()
    low, high = ax.get_ylim()
    assert low < 1.0 and high > 3.5


def test_bound_without_violation_has_no_crosses():
    assert len(CALLS["bound"]().lines) == 2
    assert len(P.plot_bound([-1.0, 0.0], [0.0, -3.0], [1.0, 0.0], log=False).lines) == 2


@pytest.mark.parametrize(
    "call, word",
    [
        (lambda: P.plot_loss_curve([0, 1], {"a": [1, 2]}), "above 0"),
        (lambda: P.plot_loss_curve(EPS, {"a": [1, 2]}), "one for each epsilon"),
        (lambda: P.plot_loss_curve(EPS, {"a": [1, 2, np.nan]}), "vanish silently"),
        (lambda: P.plot_loss_curve(EPS, {"a": [1, 2, 0]}), "log=False"),
        (lambda: P.plot_bound(EPS, [1, 2], EPS), "one bound and one column"),
        (lambda: P.plot_bound(EPS, [1, 2, 0], EPS), "log=False"),
        (lambda: P.plot_bound(EPS, [1, 2, 3], [1, np.inf, 1]), "bound holds"),
    ],
)
def test_bad_input_gets_one_clear_sentence(call, word):
    with pytest.raises(ValueError, match=word):
        call()


def test_inputs_are_left_alone():
    runs, x = RNG.uniform(1, 2, (4, 3)), EPS.copy()
    kept = runs.copy()
    P.plot_loss_curve(x, {"a": runs})
    P.plot_bound(x, runs, x + 2)
    P.plot_images(runs, (1, 3))
    assert np.array_equal(runs, kept) and np.array_equal(x, EPS)
