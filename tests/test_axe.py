"""The finished site under axe, which looks for what keeps people out: in a wide window, in the dark and on a phone."""

import importlib.util
import json
from pathlib import Path

import pytest

AXE = importlib.util.find_spec("axe_playwright_python")
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 900}
CONTRAST = "color-contrast"
# what KaTeX draws is not ours, and half of what axe would look at: a box of its size stands in its place
BOXES = """document.querySelectorAll(".katex").forEach(formula => {
    const { width, height } = formula.getBoundingClientRect();
    formula.replaceChildren();
    Object.assign(formula.style, { display: "inline-block", width: width + "px", height: height + "px" });
})"""
# (window, colours, what axe is asked): contrast takes axe longest, and hangs on colours, not on the width
VISITS = {
    "wide": (WIDE, "light", {}),
    "dark": (WIDE, "dark", {"runOnly": [CONTRAST]}),
    "phone": (PHONE, "light", {"rules": {CONTRAST: {"enabled": False}}}),
}


def violations(tab, asked):
    """What axe finds on the page that is open."""
    tab.evaluate(TWO_FRAMES)  # the page looks for what scrolls after its first frame
    asked = json.dumps({"resultTypes": ["violations"], "preload": False} | asked)
    return tab.evaluate(
        f"axe.run(document, {asked}).then(found => found.violations.map(v => "
        "v.id + ': ' + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160)).join(' | ')))"
    )


@pytest.mark.skipif(AXE is None, reason="axe-playwright-python is not installed")
def test_axe_finds_nothing(browser, folder):
    """No violation of any level on any page, which is opened once; in dark, of contrast."""
    axe = Path(AXE.submodule_search_locations[0], "axe.min.js").read_text("utf8")
    tab, found = browser.new_page(), []
    for page in sorted(folder.rglob("*.html")):
        for name, (window, scheme, asked) in VISITS.items():
            tab.set_viewport_size(window)
            tab.emulate_media(color_scheme=scheme)
            if name == "wide":
                tab.goto(page.as_uri())
                tab.evaluate(axe)
                tab.evaluate(f"document.fonts.ready.then(() => {BOXES})")
            found += [f"{page.name}, {name}: {line}" for line in violations(tab, asked)]
    tab.close()
    assert not found, "\n".join(found)
