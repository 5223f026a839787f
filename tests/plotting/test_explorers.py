"""Things to play with: what moves in a page shows the numbers of this package, and needs nothing but the page.

Debian's `chromium` (or Chrome) is driven by playwright. Where either is missing, what needs it is skipped and says so.
"""

import itertools
import json
import math
import tomllib
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

from dplit import plotting
from dplit.accounting import (
    Receipt,
    Release,
    basic_composition,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gdp_composition,
)
from dplit.audit import epsilon_lower_bound
from dplit.plotting import explorers

ROOT = Path(__file__).parent.parent.parent
RNG = np.random.default_rng(0)
SIDES = {
    name: tuple(shift + RNG.laplace(scale=scale, size=(4000, 1)) for shift in (0, 1))
    for name, scale in (("honest", 1.0), ("half the noise", 0.5))
}
START = [
    Release("sums", "gaussian", mu=0.3),
    Release("counts", "gaussian", mu=0.2),
    Release("rows", "laplace", epsilon=0.1),
]


def drawn(n=3):
    """Small figures, one a frame."""
    for i in range(n):
        fig, ax = plt.subplots(figsize=(2, 1.5))
        ax.plot([0, 1], [0, i])
        yield fig


SEEN = {}


def bound(A, B):
    """An audit's bound, which takes half a second, once for each pair."""
    key = A.tobytes(), B.tobytes()
    if key not in SEEN:
        SEEN[key] = epsilon_lower_bound(A, B)
    return SEEN[key]


def all_of_them():
    return {
        "composition": plotting.composition_explorer(),
        "neighboring": plotting.neighboring_explorer(),
        "audit": plotting.audit_explorer(SIDES, 1.0, bound),
        "receipt": plotting.receipt_explorer(START),
        "frames": plotting.frames(drawn(), ["one", "two", "three"], alt="A line rises"),
    }


# --- without a browser ---


def test_each_is_small_the_same_twice_and_asks_nobody():
    first, second = ({k: v._repr_html_() for k, v in all_of_them().items()} for _ in range(2))
    assert first == second
    for html in first.values():
        assert len(html) < explorers._HEAVIEST
        assert "src=" not in html.replace('src="data:', "") and "import" not in html
        # the name of a kind of element is the only address
        assert html.replace("http://www.w3.org/2000/svg", "").count("http") == 0


def test_a_notebook_without_html_has_a_sentence_or_a_picture():
    said = {k: repr(v) for k, v in all_of_them().items()}
    epsilon = gaussian_epsilon(1e-6, 0.5)
    assert f"epsilon = {epsilon:.3g} at delta = 1e-06" in said["composition"]
    assert f"standard deviation {1 / gaussian_mu(1.0, 1e-5):.3g}" in said["neighboring"]
    least = epsilon_lower_bound(*SIDES["honest"])
    assert f"4000 runs on each side: honest at least {least:.3g}" in said["audit"]
    assert f"{Receipt(START, 'replace').epsilon_at(1e-6):.3g}" in said["receipt"]
    assert said["frames"] == "3 frames, one to three: A line rises"
    assert plotting.receipt_explorer()._repr_html_() and "0 releases cost epsilon = 0 " in repr(
        plotting.receipt_explorer()
    )
    still, shown = all_of_them()["frames"]._repr_png_()
    assert still.startswith(b"\x89PNG") and shown["width"] > 100


def test_the_script_comes_with_the_package():
    data = tomllib.loads((ROOT / "pyproject.toml").read_text("utf8"))["tool"]["setuptools"]
    assert "*.js" in data["package-data"]["dplit.plotting"]
    assert "EXPLORERS" in explorers._script() and len(explorers._script()) < 20_000


def test_what_is_no_such_thing_gets_a_sentence(monkeypatch):
    one, two = drawn(2)
    for figures, labels, word in (
        ([], [], "one label a figure"),
        ([one], ["a", "b"], "one label a figure"),
    ):
        with pytest.raises(ValueError, match=word):
            plotting.frames(figures, labels, alt="")
    with pytest.raises(TypeError, match="needs a Figure"):
        plotting.frames([1], ["a"], alt="")
    monkeypatch.setattr(explorers, "_HEAVIEST", 2000)
    with pytest.raises(ValueError, match="fewer or smaller"):
        plotting.frames(drawn(), "abc", alt="")
    for bad in (1.0, {"a": 3}, {"a": (1, 2)}):
        with pytest.raises(TypeError, match="programs"):
            plotting.audit_explorer(bad, 1.0, epsilon_lower_bound)
    with pytest.raises(ValueError, match="at least 20"):
        plotting.audit_explorer({"a": (np.zeros((9, 1)),) * 2}, 1.0, epsilon_lower_bound)
    for bad in (Release("a", "exponential", epsilon=0.1), Release("a", "gaussian", mu=1, times=2)):
        with pytest.raises(ValueError, match="not one Gaussian or Laplace"):
            plotting.receipt_explorer([bad])
    with pytest.raises(ValueError, match="at most ten"):
        plotting.receipt_explorer(START * 4)
    with pytest.raises(ValueError, match="noise"):
        plotting.composition_explorer(noise=0.0)
    with pytest.raises(ValueError, match="epsilon"):
        plotting.neighboring_explorer(epsilon=9.0)


# --- in a browser ---


def written(path, shown):
    """A page that shows these; its address."""
    body = "\n".join(v._repr_html_() for v in shown)
    path.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Play</title>"
        "<style>img { max-width: 100%; height: auto }</style>"
        f"<body><main><h1>Play</h1>{body}</main></html>",
        "utf8",
    )
    return path.as_uri()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """One page with all of them, and one of them twice."""
    shown = all_of_them()
    path = tmp_path_factory.mktemp("page") / "page.html"
    return written(path, [*shown.values(), shown["composition"]])


@pytest.fixture
def tab(browser, page):
    """The page, in a tab that notes what goes wrong in it and what leaves it."""
    tab = browser.new_page(viewport={"width": 800, "height": 900})
    trouble = []
    tab.on("pageerror", lambda error: trouble.append(f"error: {error}"))
    tab.on("console", lambda line: trouble.append(f"console: {line.text}"))
    tab.on(
        "request",
        lambda r: None if r.url.startswith(("file:", "data:")) else trouble.append(r.url),
    )
    tab.goto(page)
    yield tab
    tab.close()
    assert trouble == []


def moved(tab, kind, positions):
    """The numbers of an explorer after its sliders were moved."""
    return tab.evaluate(
        """([kind, positions]) => {
            const box = document.querySelector(`[data-kind=${kind}]`);
            box.querySelectorAll("input").forEach((input, i) => {
                input.value = positions[i];
                input.dispatchEvent(new Event("input", { bubbles: true }));
            });
            return JSON.parse(box.dataset.numbers);
        }""",
        [kind, positions],
    )


def near(a, b, relative=1e-6):
    return math.isclose(a, b, rel_tol=relative, abs_tol=1e-12)


def test_costs_are_those_of_the_accounting(tab):
    for position in itertools.product((-1, -0.3, 0.7, 2), (0, 1, 2.4, 3), (-12, -6, -2)):
        if position[1] / 2 - position[0] > 1.2:
            continue  # mu of a thousand: no price that anybody would pay
        n = moved(tab, "composition", position)
        mu = gdp_composition([1 / n["noise"]] * n["times"])
        assert n["noise"] == pytest.approx(10 ** position[0], rel=0.05)
        assert near(n["mu"], mu) and n["delta"] == pytest.approx(10 ** position[2])
        assert near(n["epsilon"], gaussian_epsilon(n["delta"], mu)), n
        assert near(n["one"], gaussian_epsilon(n["delta"], 1 / n["noise"])), n
        each = gaussian_epsilon(n["delta"] / n["times"], 1 / n["noise"])
        total = basic_composition([each] * n["times"], [n["delta"] / n["times"]] * n["times"])
        assert near(n["sum"], total[0]), n


@pytest.mark.parametrize(("noise", "times", "delta"), [(21.1, 25, 1e-6), (20.0, 997, 3e-6)])
def test_given_numbers_between_two_steps_hold_until_a_slider_moves(
    browser, tmp_path, noise, times, delta
):
    shown = plotting.composition_explorer(noise=noise, times=times, delta=delta)
    tab = browser.new_page()
    tab.goto(written(tmp_path / "page.html", [shown]))
    n = json.loads(tab.locator("[data-kind=composition]").get_attribute("data-numbers"))
    assert (n["noise"], n["times"], n["delta"]) == (noise, times, delta)
    assert near(n["epsilon"], gaussian_epsilon(delta, gdp_composition([1 / noise] * times)))
    labels = tab.locator("[data-kind=composition] label b")
    assert labels.all_inner_texts()[:2] == [f"{noise:g}", str(times)]
    slider = tab.get_by_role("slider", name="noise")
    for key, way in (("ArrowRight", 1), ("ArrowLeft", 0), ("ArrowLeft", -1)):
        slider.press(key)  # each step up is more noise than where it began, each down less
        n = json.loads(tab.locator("[data-kind=composition]").get_attribute("data-numbers"))
        assert np.sign(n["noise"] - noise) == way
    tab.close()


@pytest.mark.parametrize("noise", ["Laplace", "Gaussian"])
def test_neighbors_see_the_noise_that_the_cost_asks_for(tab, noise):
    tab.locator("[data-kind=neighboring] select").select_option(noise)
    for epsilon in (0.1, 0.5, 1.0, 2.35, 5.0):
        n = moved(tab, "neighboring", [epsilon])
        if noise == "Laplace":
            law = stats.laplace(scale=1 / Release("a", "laplace", epsilon=epsilon).epsilon)
            gap = law.cdf(0.5) - law.cdf(-0.5)  # the best guess asks: above or below the middle?
        else:
            mu = gaussian_mu(epsilon, 1e-5)
            law, gap = stats.norm(scale=1 / mu), gaussian_delta(0.0, mu)
        assert n["epsilon"] == epsilon and near(n["scale"], law.kwds["scale"]), n
        assert near(n["right"], (1 + gap) / 2) and near(n["factor"], math.exp(epsilon)), n
        assert np.allclose(n["density"], law.pdf([0, 1]), rtol=1e-6)
        # delta is an area, not the probability of the numbers at which one curve is above the other's multiple
        above = stats.norm.sf if noise == "Gaussian" else stats.laplace.sf
        edge = 0.5 + epsilon * n["scale"] ** 2
        area = above(edge - 1, scale=n["scale"]) - n["factor"] * above(edge, scale=n["scale"])
        sentence = tab.locator("[data-kind=neighboring] p").last.inner_text()
        if noise == "Gaussian":
            assert area == pytest.approx(1e-5) and "an area of 10⁻⁵ that sticks out" in sentence
        else:
            assert area < 1e-12 and "sticks out" not in sentence


def test_the_bounds_are_those_of_the_audit(tab):
    last = int(tab.locator("[data-kind=audit] input").get_attribute("max"))
    seen = [moved(tab, "audit", [i]) for i in range(last + 1)]
    assert len(seen) == 10 and seen[-1]["runs"] == 4000
    for n in seen:
        want = [bound(*(s[: n["runs"]] for s in pair)) for pair in SIDES.values()]
        assert n["bounds"] == pytest.approx(want, rel=1e-5)
    # seeded, and bounds of 99.9 % each: an honest program passes, the other is caught in the end
    assert max(n["bounds"][0] for n in seen) < 1 < seen[-1]["bounds"][1]
    sentence = tab.locator("[data-kind=audit] p").last.inner_text()
    assert sentence.startswith("After 4000 runs") and sentence.count("more than it claims") == 1


def receipt_in(tab):
    """What a receipt in the page lists and says, and the receipt that this package would write."""
    n = json.loads(tab.locator("[data-kind=receipt]").get_attribute("data-numbers"))
    cost = {"Gaussian": "mu", "Laplace": "epsilon"}
    releases = [Release("a", kind.lower(), **{cost[kind]: p}) for kind, p in n["releases"]]
    return n, releases


def test_a_receipt_grows_and_shrinks_and_costs_what_a_receipt_costs(tab):
    box = tab.locator("[data-kind=receipt]")
    more = box.get_by_role("button", name="Add this release")
    costs = []
    for kind, cost in [("Gaussian", 0.5), ("Laplace", 0.35), ("Laplace", 1.0)] * 2:
        box.locator("select").select_option(kind)
        moved(tab, "receipt", [cost])
        more.click()
        n, releases = receipt_in(tab)
        assert n["releases"][-1] == [kind, cost]
        assert near(n["epsilon"], Receipt(releases, "add_remove").epsilon_at(1e-6)), n
        for release, alone in zip(releases, n["alone"], strict=True):
            assert near(alone, Receipt([release], "add_remove").epsilon_at(1e-6))
        costs.append(n["epsilon"])
    assert costs == sorted(costs) and len(releases) == 9
    more.click()
    assert more.is_disabled(), "ten are enough for a page"
    for left in range(9, -1, -1):
        box.get_by_role("button", name="Take back release 1", exact=True).click()
        n, releases = receipt_in(tab)
        assert len(releases) == left
        assert near(n["epsilon"], Receipt(releases, "add_remove").epsilon_at(1e-6) if left else 0)
    assert tab.evaluate("document.activeElement.textContent") == "Add this release"


def test_frames_follow_the_arrow_keys(tab):
    slider, images = tab.get_by_role("slider", name="A line rises: frame"), tab.locator("main img")

    def shown():
        return [i for i in range(3) if images.nth(i).is_visible()]

    assert shown() == [0] and slider.is_visible()
    for i, key in ((1, "ArrowRight"), (2, "ArrowRight"), (2, "ArrowRight"), (0, "Home")):
        slider.press(key)
        label = ["one", "two", "three"][i]
        assert shown() == [i] and slider.get_attribute("aria-valuetext") == label
        assert images.nth(i).get_attribute("alt") == f"A line rises ({label})"
        assert tab.locator(".dplit-frames output").inner_text() == label


def test_the_keyboard_reaches_every_control_and_each_has_a_name(tab):
    controls = "main :is(input, select, button):not(:disabled)"
    reached = []
    for _ in range(tab.locator(controls).count()):
        tab.keyboard.press("Tab")
        reached.append(
            tab.evaluate(
                "(c) => [...document.querySelectorAll(c)].indexOf(document.activeElement)", controls
            )
        )
        name = "document.activeElement.ariaLabel || document.activeElement.labels?.[0]?.innerText"
        assert tab.evaluate(f"{name} || document.activeElement.innerText").strip()
    assert reached == list(range(len(reached)))
    slider = tab.get_by_role("slider", name="releases", exact=True).first
    before = tab.locator("[data-kind=composition]").first.get_attribute("data-numbers")
    slider.press("ArrowRight")
    assert tab.locator("[data-kind=composition]").first.get_attribute("data-numbers") != before
    # its twin further down stands still
    assert tab.locator("[data-kind=composition]").last.get_attribute("data-numbers") == before
    assert slider.get_attribute("aria-valuetext") == "105"


def test_a_picture_says_in_words_what_it_shows(tab):
    for picture in tab.locator("svg[role=img]").all():
        sentence = picture.locator("xpath=ancestor::div[@data-kind]/p").last.inner_text()
        assert len(sentence) > 30 and picture.get_attribute("aria-label") == sentence
    assert tab.locator(".still").count() == 0


def test_on_a_phone_nothing_is_cut_and_letters_keep_their_size(browser, page):
    tab = browser.new_page(viewport={"width": 390, "height": 800})
    tab.goto(page)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tall = tab.evaluate(
        "[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height)"
    )
    assert min(tall) > 11
    inside = """[...document.querySelectorAll('svg')].every(svg => {
        const box = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('text')].every(text => {
            const t = text.getBoundingClientRect();
            return t.left >= box.left - 1 && t.right <= box.right + 1 && t.top >= box.top - 1;
        });
    })"""
    assert tab.evaluate(inside)
    tab.close()


def test_without_scripts_there_is_a_picture_and_a_sentence(browser, page):
    tab = browser.new_page(java_script_enabled=False)
    tab.goto(page)
    assert tab.locator(".still").count() == 5
    assert [tab.locator("main img").nth(i).is_visible() for i in range(3)] == [True, False, False]
    assert not tab.locator(".dplit-frames input").is_visible()
    tab.close()
