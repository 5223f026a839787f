"""The finished site under axe, which looks for what keeps people out: in a wide window, on a phone and in the dark."""

import importlib.util
import json
from pathlib import Path

import pytest

AXE = importlib.util.find_spec("axe_playwright_python")
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.mark.skipif(AXE is None, reason="axe-playwright-python is not installed")
@pytest.mark.parametrize("width, scheme", [(1440, "light"), (390, "light"), (1440, "dark")])
def test_axe_finds_nothing(browser, folder, width, scheme):
    """No violation of any level; in dark, of contrast."""
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    axe = Path(AXE.submodule_search_locations[0], "axe.min.js").read_text("utf8")
    asked = {"resultTypes": ["violations"], "preload": False}
    if scheme == "dark":
        asked["runOnly"] = ["color-contrast"]
    run = (  # what KaTeX draws is not ours
        f"axe.run({{ exclude: ['.katex'] }}, {json.dumps(asked)}).then(found => found.violations.map(v => "
        "v.id + ': ' + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160)).join(' | ')))"
    )
    found = {}
    for page in sorted(folder.rglob("*.html")):
        tab.goto(page.as_uri())
        tab.evaluate(TWO_FRAMES)  # the page looks for what scrolls after its first frame
        tab.evaluate(axe)
        if violations := tab.evaluate(run):
            found[page.name] = violations
    tab.close()
    assert not found, "\n".join(f"{name}: {line}" for name in found for line in found[name])
