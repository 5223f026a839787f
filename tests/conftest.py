"""Which cases run when.

A promise is asked of every estimator, every relation and every planted bug, and some of these grids take long.
A test marked `sweep(k)` runs one case in k at once: those whose positions in their lists of parameters sum to a
multiple of k, so that each estimator and each bug has its turn. The others are marked `rest`: `pytest -m rest`
runs them, and what every change must pass (.ci/run) does so too. `slow` is for hours, by hand.
"""

import pytest


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items):
    for item in items:
        sweep = item.get_closest_marker("sweep")
        if sweep and sum(item.callspec.indices.values()) % sweep.args[0]:
            item.add_marker("rest")
