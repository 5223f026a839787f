"""The figures draw what they were given, read without colour, and leave matplotlib as it was."""

import io
import itertools
import json
import re
import sys
from base64 import b64decode
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import yaml
from PIL import Image

from dplit import plotting
from dplit.accounting import Receipt, Release
from dplit.plotting.styles import _HEAVY, png

RNG = np.random.default_rng(0)
EPS = np.array([0.5, 1.0, 2.0])
RECEIPT = Receipt(
    (Release("votes", "gaussian", times=4, mu=0.5), Release("count", "laplace", epsilon=0.1)),
    "add_remove",
    delta=1e-6,
)
CALLS = {
    "centers": lambda ax=None: plotting.plot_centers(
        RNG.normal(size=(20, 2)), np.eye(2), true_centers=-np.eye(2), radius=3.0, ax=ax
    ),
    "images": lambda ax=None: plotting.plot_images(
        RNG.uniform(size=(3, 6)), (2, 3), titles="abc", ax=ax
    ),
    "loss": lambda ax=None: plotting.plot_loss_curve(
        EPS, {"a": RNG.uniform(1, 2, (5, 3)), "b": [3.0, 2.0, 1.0]}, baseline=1.0, ax=ax
    ),
    "receipt": lambda ax=None: plotting.plot_receipt(RECEIPT, ax=ax),
    "bound": lambda ax=None: plotting.plot_bound(
        EPS, RNG.uniform(1, 2, (4, 3)), [3.0, 3.0, 3.0], ax=ax
    ),
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
    with pytest.raises(RuntimeError), plotting.style():
        assert plt.rcParams["legend.frameon"] is False
        raise RuntimeError
    assert dict(plt.rcParams) == before


def test_style_keeps_what_a_backend_sets_inside():
    """A notebook's backend turns interactive mode on at its first figure; taking that back would hide all later figures."""
    was = plt.isinteractive()
    try:
        matplotlib.interactive(False)
        with plotting.style():
            matplotlib.interactive(True)
        assert plt.isinteractive()
    finally:
        matplotlib.interactive(was)


# What each kind of colour blindness leaves of linear red, green and blue (Machado, Oliveira and
# Fernandes 2009), and what the rule `filter: invert(0.88) hue-rotate(180deg)` makes of a figure on
# a dark page (the matrix of the standard for filters, on colours as they are sent to the screen).
VISION = {
    "all cones": np.eye(3),
    "no red cones": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green cones": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}  # fmt: skip
HALF_TURN = 2 * np.array([[0.213, 0.715, 0.072]] * 3) - np.eye(3)


def linear(rgb):
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(light):
    """CIE L*, a*, b* of linear colours."""
    to_xyz = [[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]]
    x = np.clip(light, 0, 1) @ np.transpose(to_xyz) / [0.9505, 1.0, 1.0888]
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.stack(
        [
            116 * f[:, 1] - 16,
            500 * (f[:, 0] - f[:, 1]),
            200 * (f[:, 1] - f[:, 2]),
        ],
        axis=1,
    )


def contrast(one, other):
    """Contrast of colours as the guidelines for accessible pages have it, from 1 to 21."""
    y = np.sort([linear(np.asarray(c)) @ [0.2126, 0.7152, 0.0722] for c in (one, other)])
    return (y[1] + 0.05) / (y[0] + 0.05)


def on_a_dark_page(rgb):
    return np.clip(HALF_TURN @ (0.88 * (1 - np.asarray(rgb)) + 0.12 * np.asarray(rgb)), 0, 1)


COLORS = np.array([matplotlib.colors.to_rgb(s["color"]) for s in plotting.SERIES])


def distances(points):
    return [np.linalg.norm(a - b) for a, b in itertools.combinations(points, 2)]


def test_series_differ_without_color():
    for part in ("marker", "hatch"):
        assert len({s[part] for s in plotting.SERIES}) == len(plotting.SERIES)
    assert len({str(s["linestyle"]) for s in plotting.SERIES}) == len(plotting.SERIES)
    light = lab(linear(COLORS))[:, :1]
    assert min(distances(light)) > 10, "any two differ in print"
    assert np.abs(np.diff(light[:, 0])).min() > 20, "neighbours differ more"


@pytest.mark.parametrize("cones", VISION)
def test_any_two_colors_differ_for_color_blind_readers(cones):
    """A distance of 2.3 is just seen; the colours of Okabe and Ito reach 18 here."""
    assert min(distances(lab(linear(COLORS) @ VISION[cones].T))) > 29


def test_colors_read_on_white_and_on_a_dark_page():
    for color in COLORS:
        assert contrast(color, np.ones(3)) > 3
        assert contrast(on_a_dark_page(color), on_a_dark_page(np.ones(3))) > 3
        assert contrast(0.7 * color, np.ones(3)) > 4.5, "names of curves are letters"
    dark = np.array([on_a_dark_page(c) for c in COLORS])
    assert min(distances(lab(linear(dark)))) > 20


def test_a_drawn_curve_uses_its_series():
    ax = CALLS["loss"]()
    lines = [c.lines[0] for c in ax.containers]
    assert [(x.get_marker(), x.get_color()) for x in lines] == [
        (s["marker"], s["color"]) for s in plotting.SERIES[:2]
    ]
    assert lines[0].get_linestyle() != lines[1].get_linestyle()


def test_loss_curve_shows_median_and_quartiles():
    runs = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0], [100.0, 50.0]])
    ax = plotting.plot_loss_curve(
        [1, 2], {"a": runs}, baseline={"k-means": 0.5, "one centre": 60.0}
    )
    line, _, (bars,) = ax.containers[0]
    assert np.allclose(line.get_ydata(), [3, 30]) and np.allclose(line.get_xdata(), [1, 2])
    assert np.allclose([segment[:, 1] for segment in bars.get_segments()], [[2, 4], [20, 40]])
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "2"]
    names = {t.get_text() for t in ax.texts}
    assert names == {"— k-means", "– – one centre", "● a"} and ax.get_legend() is None
    bare = plotting.plot_loss_curve([1, 2], {"a": runs}, names=False)
    assert not bare.texts and bare.get_legend_handles_labels()[1] == ["a"]


def test_centers_project_on_a_public_plane_only():
    C = RNG.normal(size=(3, 5))
    with pytest.raises(ValueError, match="never from private rows"):
        plotting.plot_centers(None, C)
    with pytest.raises(ValueError, match="orthonormal"):
        plotting.plot_centers(None, C, basis=np.ones((2, 5)))
    basis = np.linalg.qr(RNG.normal(size=(5, 2)))[0].T
    ax = plotting.plot_centers(None, C, basis=basis, center=np.ones(5), radius=2.0)
    assert len(ax.collections) == 1, "without rows there is one layer, the centres"
    assert np.allclose(ax.collections[0].get_offsets(), C @ basis.T)
    assert (
        np.allclose(ax.patches[0].get_center(), basis.sum(axis=1))
        and ax.patches[0].get_radius() == 2
    )


def test_images_are_laid_out_in_order():
    images = np.arange(12.0).reshape(3, 4)
    ax = plotting.plot_images(images, (2, 2), n_columns=2, value_range=(0, 20))
    sheet = ax.images[0].get_array()
    assert ax.images[0].get_clim() == (0, 20)
    assert (
        sheet[:2, :2].tolist() == [[0, 1], [2, 3]]
        and sheet[:2, 3:5].tolist() == [[4, 5], [6, 7]]
        and sheet[3:5, :2].tolist() == [[8, 9], [10, 11]]
    )
    assert np.ma.getmaskarray(sheet)[:, 2].all()
    with pytest.raises(ValueError, match="3 by 3 pixels"):
        plotting.plot_images(images, (3, 3))
    with pytest.raises(ValueError, match="one title"):
        plotting.plot_images(images, (2, 2), titles="ab")


def test_receipt_shares_are_of_rho_or_of_epsilon():
    ax = CALLS["receipt"]()
    widths = [bar.get_width() for bar in ax.patches]
    assert np.allclose(widths, [0.5 / 0.505, 0.005 / 0.505]) and ax.get_xlabel() == "share of rho"
    pure = Receipt(
        (Release("a", "laplace", times=3, epsilon=0.3), Release("b", "exponential", epsilon=0.1)),
        "replace",
    )
    ax = plotting.plot_receipt(pure)
    assert (
        np.allclose([bar.get_width() for bar in ax.patches], [0.9, 0.1])
        and ax.get_xlabel() == "share of epsilon"
    )
    assert "3 times" in ax.texts[0].get_text() and "times" not in ax.texts[1].get_text()
    assert ax.patches[0].get_hatch() != ax.patches[1].get_hatch()


def test_receipt_with_a_cover_costs_each_release_alone():
    cover = Release("choices", "cover", exponent=0.03)
    mixed = Receipt((*RECEIPT.releases, cover), "replace", delta=1e-6)
    alone = [Receipt([r], "replace").epsilon_at(1e-6) for r in mixed.releases]
    ax = plotting.plot_receipt(mixed)
    assert np.allclose([bar.get_width() for bar in ax.patches], np.divide(alone, sum(alone)))
    assert ax.get_xlabel() == "share of epsilon, each release alone"
    assert "exponent = 0.03" in ax.texts[2].get_text()
    with pytest.raises(ValueError, match="finite privacy cost"):
        plotting.plot_receipt(Receipt([cover], "replace", delta=0.0))


def test_receipt_of_any_object_of_nothing_and_of_infinity():
    release = SimpleNamespace(
        label="x", mechanism="gaussian", times=1, epsilon=None, rho=0.5, privacy_cost="mu = 1"
    )
    assert plotting.plot_receipt(SimpleNamespace(releases=[release])).patches[0].get_width() == 1
    assert (
        plotting.plot_receipt(SimpleNamespace(releases=[])).texts[0].get_text()
        == "nothing was released"
    )
    release.rho = np.inf
    with pytest.raises(ValueError, match="finite privacy cost"):
        plotting.plot_receipt(SimpleNamespace(releases=[release]))


@pytest.mark.parametrize("upper, broken", [(True, [3.5]), (False, [1.0])])
def test_bound_crosses_out_the_violations(upper, broken):
    ax = plotting.plot_bound(
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
    assert len(plotting.plot_bound([-1.0, 0.0], [0.0, -3.0], [1.0, 0.0], log=False).lines) == 2


@pytest.mark.parametrize(
    "call, word",
    [
        (lambda: plotting.plot_loss_curve([0, 1], {"a": [1, 2]}), "above 0"),
        (lambda: plotting.plot_loss_curve(EPS, {"a": [1, 2]}), "one for each epsilon"),
        (lambda: plotting.plot_loss_curve(EPS, {"a": [1, 2, np.nan]}), "vanish silently"),
        (lambda: plotting.plot_loss_curve(EPS, {"a": [1, 2, 0]}), "log=False"),
        (lambda: plotting.plot_bound(EPS, [1, 2], EPS), "one bound and one column"),
        (lambda: plotting.plot_bound(EPS, [1, 2, 0], EPS), "log=False"),
        (lambda: plotting.plot_bound(EPS, [1, 2, 3], [1, np.inf, 1]), "bound holds"),
    ],
)
def test_bad_input_gets_one_clear_sentence(call, word):
    with pytest.raises(ValueError, match=word):
        call()


def test_inputs_are_left_alone():
    runs, x = RNG.uniform(1, 2, (4, 3)), EPS.copy()
    kept = runs.copy()
    plotting.plot_loss_curve(x, {"a": runs})
    plotting.plot_bound(x, runs, x + 2)
    plotting.plot_images(runs, (1, 3))
    assert np.array_equal(runs, kept) and np.array_equal(x, EPS)


def test_names_of_lines_stand_at_their_ends_and_not_on_one_another():
    with plotting.style():
        fig, ax = plt.subplots()
    for i, end in enumerate([1.0, 1.0, 1.001, 5.0, 9.99, 10.0]):
        ax.plot([0, 1], [0, end], label=f"line {i}")
    assert plotting.label_lines(ax) is ax and ax.get_legend() is None
    fig.canvas.draw()
    boxes = sorted((t.get_window_extent() for t in ax.texts), key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 + 1 for low, high in itertools.pairwise(boxes))
    assert min(box.x0 for box in boxes) > ax.get_window_extent().x1
    alone = next(t for t in ax.texts if t.get_text().endswith("line 3"))
    box = alone.get_window_extent()
    assert abs((box.y0 + box.y1) / 2 - ax.transData.transform((1, 5.0))[1]) < 3
    order = [t.get_text()[-1] for t in sorted(ax.texts, key=lambda t: t.get_position()[1])]
    assert order == list("012345")


def test_panels_stand_one_under_another():
    fig, axes = plotting.panels(5, height=1.0, abreast=2, sharex=True)
    assert len(axes) == 5 and tuple(fig.get_size_inches()) == (4.6, 3.0)
    assert len(fig.axes) == 6 and not fig.axes[5].axison
    fig, axes = plotting.panels(2)
    assert axes[0].get_position().y0 > axes[1].get_position().y1 and fig.get_size_inches()[0] < 5
    with pytest.raises(ValueError, match="at least 1"):
        plotting.panels(0)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_figure_is_sharp_and_small(call):
    fig = call().figure
    data, shown = png(fig)
    picture = Image.open(io.BytesIO(data))
    assert len(data) < 60_000 and picture.width in (2 * shown["width"], 2 * shown["width"] + 1)
    assert picture.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
    once = io.BytesIO()
    fig.savefig(once, format="png", bbox_inches="tight")
    assert abs(Image.open(once).width - shown["width"]) <= 1


def test_noise_is_drawn_with_fewer_colors_until_it_is_small():
    with plotting.style():
        fig, ax = plt.subplots()
    ax.imshow(RNG.uniform(size=(60, 60, 3)))
    assert len(png(fig)[0]) < 1.1 * _HEAVY


def test_a_notebook_shows_only_our_figures_sharply(monkeypatch):
    shown = {matplotlib.figure.Figure: lambda fig: b"usual"}
    formatters = {"image/png": SimpleNamespace(type_printers=shown)}
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters=formatters))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    theirs, _ = plt.subplots()
    with plotting.style():
        ours, _ = plt.subplots()
    given, ax = plt.subplots()
    for _ in range(2):
        plotting.plot_centers(None, np.eye(2), ax=ax)
    show = shown[matplotlib.figure.Figure]
    assert show(theirs) == b"usual"
    for fig in (ours, given):
        assert show(fig)[0].startswith(b"\x89PNG")


# --- captions and alternative texts, where notebooks keep figures ---

ROOT = Path(__file__).parent.parent.parent
CAPTIONED = "accounting/gaussian mechanisms/noise plotting/styles plotting/figures audit/audit estimators/lloyd private_evolution/paper"
SAYS_NOTHING = re.compile(
    r"^(figure|image|picture|plot|chart|output)\b.{0,12}\b(drawn|of|by|from|above|below|code|\d)",
    re.I,
)


def figure_complaints(source, outputs, everywhere):
    """What is wrong with the caption and the alternative text of a cell's figure."""
    shown = [o["data"] for o in outputs if "image/png" in o.get("data", {})]
    lines = re.match(r"(?:#\|.*\n?)*", source)[0]
    options = yaml.safe_load(lines.replace("#|", "")) or {}
    if not shown or any("text/html" in data for data in shown):
        return  # no figure, or one that brings its own words
    alt, caption = options.get("fig-alt", ""), options.get("fig-cap", "")
    if not str(options.get("label", "fig-")).startswith("fig-"):
        yield "the label of a figure begins with fig-"
    elif not (alt and caption):
        if everywhere or alt or caption:
            yield "a figure needs a fig-cap and a fig-alt"
    elif SAYS_NOTHING.match(alt) or len(alt.split()) < 12 or alt in caption:
        yield f"the alternative text {alt!r} does not say what is to be seen"
    elif not caption.endswith(".") or not alt.endswith("."):
        yield "captions and alternative texts are sentences"


def stored_figures():
    for path in sorted((ROOT / "nbs").rglob("*.ipynb")):
        for cell in json.loads(path.read_text("utf8"))["cells"]:
            if cell["cell_type"] == "code":
                name = path.relative_to(ROOT / "nbs").with_suffix("").as_posix()
                yield name, "".join(cell["source"]), cell["outputs"]


def test_figures_have_captions_and_say_what_is_to_be_seen():
    complaints = [
        f"{name}: {complaint}"
        for name, source, outputs in stored_figures()
        for complaint in figure_complaints(source, outputs, name in CAPTIONED.split())
    ]
    assert not complaints, "\n".join(complaints)


def test_labels_of_figures_are_unique_on_their_page():
    labels = Counter(
        (name, label)
        for name, source, _ in stored_figures()
        for label in re.findall(r"^#\| label: (fig-\S+)", source, re.M)
    )
    assert len(labels) > 15 and max(labels.values()) == 1


def test_stored_figures_are_in_the_style_sharp_small_and_narrow_enough_for_a_phone():
    found = 0
    for name, _, outputs in stored_figures():
        for output in outputs:
            if "image/png" in output.get("data", {}) and not name.startswith("answers/"):
                data = b64decode(output["data"]["image/png"])
                assert "image/png" in output["metadata"], f"{name}: a figure without the style"
                width = output["metadata"]["image/png"]["width"]
                assert len(data) <= 60_000, f"{name}: {len(data)} bytes"
                assert Image.open(io.BytesIO(data)).width >= 2 * width, name
                # the chapter about figures also shows what is wide
                assert width <= (750 if name.startswith("plotting/") else 480), (
                    f"{name}: {width} pixels"
                )
                found += 1
    assert found > 80


FIGURE = [{"data": {"image/png": ""}}]
SEES = "Two curves fall towards a grey line; the lower one reaches it at epsilon 4."


@pytest.mark.parametrize(
    "label, caption, alt",
    [
        ("fig-a", "Loss.", ""),
        ("fig-a", "", SEES),
        ("tbl-a", "Loss.", SEES),
        ("fig-a", "Loss.", "Figure drawn by the code above, with two curves and a line that is grey."),
        ("fig-a", "Loss.", "Image of the output of this cell with all of its curves and all of its lines."),
        ("fig-a", "Loss.", "Two curves."),
        ("fig-a", SEES, SEES),
        ("fig-a", "Loss", SEES),
    ],
)  # fmt: skip
def test_a_text_that_says_nothing_is_refused(label, caption, alt):
    source = f'#| label: {label}\n#| fig-cap: "{caption}"\n#| fig-alt: "{alt}"\nplot()'
    assert [*figure_complaints(source, FIGURE, False)]
    good = f'#| label: fig-a\n#| fig-cap: "Loss."\n#| fig-alt: "{SEES}"\nplot()'
    assert not [*figure_complaints(good, FIGURE, True)]
    assert [*figure_complaints("plot()", FIGURE, True)]
    assert not [*figure_complaints("plot()", FIGURE, False)]


def test_shares_of_a_gaussian_release_with_a_delta_of_its_own_are_not_called_rho():
    both = [Release("a", "gaussian", mu=0.5, delta=1e-7), Release("b", "gaussian", mu=0.5)]
    axes = plotting.plot_receipt(Receipt(both, "add_remove", 1e-5))
    assert "rho" not in axes.get_xlabel() and "alone" in axes.get_xlabel()
    assert "rho" in plotting.plot_receipt(Receipt(both[1:], "add_remove", 1e-5)).get_xlabel()


@pytest.mark.parametrize("words", ["$x_{$", "$\\frac$", "$^$ and $_$", "{$}$}", "$\\nothing$"])
def test_words_that_are_no_formula_are_drawn_as_they_are(words):
    """A label of a release or a name of a method may hold two dollar signs; real formulas stay formulas."""
    receipt = Receipt((Release(words, "laplace", epsilon=0.1),), "add_remove")
    curves = {words: [[1.0, 2.0]]}
    drawn = [
        plotting.plot_receipt(receipt),
        plotting.plot_loss_curve([0.1, 1.0], curves, ylabel=words, baseline={words: 1.0}),
        plotting.plot_bound([1, 2], [1, 2], [3, 4], xlabel=words, ylabel=words),
    ]
    for ax in drawn:
        ax.figure.savefig(io.BytesIO())
        texts = [*ax.texts, *ax.get_yticklabels(), ax.xaxis.label, ax.yaxis.label]
        assert any(words in text.get_text() for text in texts)
    ax = plotting.plot_bound([1, 2], [1, 2], [3, 4], xlabel=r"$\frac{1}{\mu}$")
    assert ax.xaxis.label.get_parse_math()
