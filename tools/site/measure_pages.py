"""How long the pages of the site are, and what takes their height: python tools/site/measure_pages.py SITE [PAGE ...]

Every page is opened in a browser, 1440 pixels wide; a screen is 900 pixels. Shares are of the height of the page, of what
can be seen when it opens: what is folded takes no height. Load times differ from machine to machine.
"""

import argparse
import shutil
from contextlib import contextmanager
from pathlib import Path

WIDTH, SCREEN = 1440, 900
BROWSERS = ("chromium", "google-chrome", "chrome")
COLUMNS = ("screens", "code %", "docstrings %", "figures %", "theorems %", "kB", "load ms")
# heights of what can be seen; a block inside another of its kind is not counted twice
HEIGHTS = r"""() => {
  const seen = (selector, share = () => 1) => [...document.querySelectorAll(selector)]
    .filter(e => e.checkVisibility() && !e.parentElement.closest(selector))
    .reduce((sum, e) => sum + share(e) * e.getBoundingClientRect().height, 0);
  const documented = block => {      // the lines of a block of code that are docstrings
    const lines = block.innerText.trimEnd().split("\n");
    let inside = false, count = 0;
    lines.forEach((line, i) => {
      const quotes = line.split(/"{3}/).length - 1, opens = /^\s*r?"{3}/.test(line) && /:\s*$/.test(lines[i - 1] ?? "");
      if (inside || opens) count += 1;
      if (inside) inside = quotes === 0; else if (opens) inside = quotes === 1;
    });
    return count / lines.length;
  };
  const code = "main div.sourceCode:not(:has(.signature))";
  const { loadEventEnd, startTime } = performance.getEntriesByType("navigation")[0];
  return {
    page: document.documentElement.scrollHeight, code: seen(code), load: loadEventEnd - startTime,
    docstrings: seen(code, documented) + seen("main .cell-output:has(.signature), main .documented"),
    figures: seen("main :is(figure, img, .cell-output svg)"), theorems: seen("main .theorem"),
  };
}"""


def chromium():
    """Path of the machine's own browser, None if there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def browser():
    """The machine's own browser, driven by playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # without a sandbox: containers run as root, and the pages are our own
        opened = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def watched(browser):
    """A tab that notes, in `trouble`, what goes wrong in it and what leaves the folder."""
    tab = browser.new_page(viewport={"width": WIDTH, "height": SCREEN})
    tab.trouble = []

    def asked(request):
        if not request.url.startswith(("file:", "data:")):
            tab.trouble.append(f"leaves the folder: {request.url}")

    def said(line):
        if line.type == "error":
            tab.trouble.append(f"console: {line.text}")

    tab.on("pageerror", lambda error: tab.trouble.append(f"error: {error}"))
    tab.on("requestfailed", lambda request: tab.trouble.append(f"failed: {request.url}"))
    tab.on("request", asked)
    tab.on("console", said)
    yield tab
    tab.close()


def measure(tab, path):
    """One row of the table, in the order of COLUMNS; `tab` is a playwright page, WIDTH wide."""
    tab.goto(path.as_uri(), wait_until="load")
    found = tab.evaluate(HEIGHTS)
    shares = [100 * found[part] / found["page"] for part in ("code", "docstrings")]
    shares += [100 * found[part] / found["page"] for part in ("figures", "theorems")]
    return [found["page"] / SCREEN, *shares, path.stat().st_size / 1000, found["load"]]


def table(rows):
    """Markdown: one row for each page, {address: numbers}, and the sum of all."""
    lines = ["page " + " ".join(f"| {name} " for name in COLUMNS), "---" + "|---:" * len(COLUMNS)]
    for address, numbers in rows.items():
        lines.append(f"{address} | {numbers[0]:.1f}" + "".join(f" | {x:.0f}" for x in numbers[1:]))
    sums = [sum(numbers[i] for numbers in rows.values()) for i in (0, 5)]
    return "\n".join([*lines, f"{len(rows)} pages | {sums[0]:.1f} | | | | | {sums[1]:.0f} |"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "site", type=Path, help="a folder that tools/site/build_site.py has written"
    )
    parser.add_argument("pages", nargs="*", help="addresses, as accounting.html (default: all)")
    asked = parser.parse_args()
    site = asked.site.resolve()
    pages = asked.pages or sorted(p.relative_to(site).as_posix() for p in site.rglob("*.html"))
    with browser() as opened:
        tab = opened.new_page(viewport={"width": WIDTH, "height": SCREEN})
        print(table({page: measure(tab, site / page) for page in pages}))


if __name__ == "__main__":
    main()
