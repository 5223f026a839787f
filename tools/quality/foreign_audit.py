"""StatDP and DP-Auditorium, which see only outputs, on our mechanisms and fits: see foreign.py.

Each mechanism is audited twice: with the noise that its claim needs, when the claim must not be rejected, and with the
noise of a much larger epsilon under the same claim, when it must be. DP-Auditorium's package imports TensorFlow and
Vizier; its histogram and its MMD tester need neither, and are imported alone.
"""

import importlib.util
import sys
import types
import warnings
from collections import Counter

import numpy as np

from dplit import GridKMeans, NoisyLloyd, PEMeans
from dplit.accounting import gaussian_mu
from dplit.mechanisms import Noise

LEVEL = 1e-4  # StatDP, whose draws are unseeded: a claim is rejected at this p-value
CHANCE = 0.05  # DP-Auditorium: probability of rejecting a true claim, by its own bound
# a private table in the ball of radius 1; its neighbor has one row more
TABLE = [[0.2], [0.2], [0.3]]
MORE = [*TABLE, [-1.0]]


# ---------------------------------------------------------------- pure mechanisms, called as StatDP calls them


def count(prng, queries, epsilon):
    """A number of rows."""
    return Noise(prng).count(queries[0], epsilon=epsilon)


def histogram(prng, queries, epsilon):
    """The first two bins of a histogram."""
    bins = np.repeat(np.arange(len(queries)), queries)
    return tuple(Noise(prng).histogram(bins, len(queries), epsilon=epsilon)[:2])


def vote(prng, queries, epsilon):
    """The bin with the most votes."""
    bins = np.repeat(np.arange(len(queries)), queries)
    return int(Noise(prng).vote(bins, len(queries), epsilon=epsilon))


def lloyd(prng, queries, epsilon):
    """A center of a pure NoisyLloyd."""
    return fitted(NoisyLloyd(1, epsilon=epsilon, delta=0, radius=1, n_iter=1), prng, queries)


def grid(prng, queries, epsilon):
    """A center of GridKMeans."""
    return fitted(GridKMeans(1, epsilon=epsilon, radius=1), prng, queries)


def fitted(model, prng, rows):
    """The first coordinate of the first released center."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few rows, and a large epsilon on purpose
        return float(model.set_params(random_state=prng).fit(rows).cluster_centers_[0, 0])


STATDP = {  # mechanism: (neighboring inputs, runs, claim, false claim's epsilon)
    count: (([1], [0]), 10_000, 0.5, 1.0),
    histogram: (([1, 2], [0, 2]), 10_000, 0.5, 1.0),
    vote: (([5, 5, 5], [4, 5, 5]), 10_000, 0.5, 2.0),
    lloyd: ((TABLE, MORE), 400, 0.5, 8.0),
    grid: ((TABLE, MORE), 200, 0.5, 30.0),
}


def statdp(small=False):
    """One line for each mechanism, of two cases: its claim, and the false claim."""
    from statdp import detect_counterexample

    for mechanism, (tables, runs, claim, larger) in STATDP.items():
        if small and mechanism is not count:
            continue
        found = Counter()
        for epsilon, honest in ((claim, True), (larger, False)):
            given = {"default_kwargs": {"epsilon": epsilon}, "databases": tables, "quiet": True}
            runs_of = {"event_iterations": runs, "detect_iterations": runs, "cores": 1}
            ((_, p, *_),) = detect_counterexample(mechanism, claim, loglevel=40, **given, **runs_of)
            found[outcome(p < LEVEL, honest)] += 1
        yield mechanism.__doc__.rstrip("."), found


def outcome(rejected, honest):
    if rejected != honest:
        return "passed", ""
    return "failed", "a true claim is rejected" if honest else "a false claim is not rejected"


# ---------------------------------------------------------------- approximate mechanisms, as samples


def gaussian_count(rng, rows, epsilon, delta):
    """A number of rows, Gaussian noise."""
    return Noise(rng).count(len(rows), mu=gaussian_mu(epsilon, delta))


def gaussian_lloyd(rng, rows, epsilon, delta):
    """A center of NoisyLloyd."""
    return fitted(NoisyLloyd(1, epsilon=epsilon, delta=delta, radius=1, n_iter=1), rng, rows)


def evolution(rng, rows, epsilon, delta):
    """A center of PEMeans."""
    return fitted(PEMeans(1, epsilon=epsilon, delta=delta, radius=1), rng, rows)


SAMPLED = {  # mechanism: (samples of each table, false claim's epsilon, range of outputs)
    gaussian_count: (10_000, 30.0, (0.0, 7.0)),
    gaussian_lloyd: (1_500, 30.0, (-1.0, 1.0)),
    evolution: (1_500, 100.0, (-1.0, 1.0)),
}
CLAIM = 0.5, 1e-3  # (epsilon, delta)


def auditorium():
    """The histogram tester and the MMD tester of an (epsilon, delta) claim, by name: functions of a range of outputs."""
    home = importlib.util.find_spec("dp_auditorium").submodule_search_locations[0]
    for name in ("dp_auditorium", "dp_auditorium.testers"):
        package = types.ModuleType(name)
        package.__path__ = [home + name.removeprefix("dp_auditorium").replace(".", "/")]
        sys.modules[name] = package
    from dp_auditorium.configs import privacy_property, property_tester_config
    from dp_auditorium.testers import histogram_tester, mmd_tester

    claim = privacy_property.ApproximateDp(*CLAIM)

    def histogram_of(low, high):
        config = property_tester_config.HistogramPropertyTesterConfig(False, 4, low, high, claim)
        return histogram_tester.HistogramTester(config)

    def mmd_of(low, high):
        width = 10 / (high - low)
        kernel = property_tester_config.Kernel.KERNEL_RBF
        return mmd_tester.MMDPropertyTester(
            property_tester_config.MMDPropertyTesterConfig(kernel, width**2, claim)
        )

    return {"histogram tester": histogram_of, "MMD tester": mmd_of}


def dp_auditorium(small=False):
    """One line for each mechanism and tester, of two cases: its claim, and the false claim."""
    epsilon, delta = CLAIM
    testers = auditorium()
    for mechanism, (samples, larger, ends) in SAMPLED.items():
        if small and mechanism is not gaussian_count:
            continue
        rng, found = np.random.default_rng(0), {name: Counter() for name in testers}
        for cost, honest in ((epsilon, True), (larger, False)):
            drawn = [
                np.array([mechanism(rng, table, cost, delta) for _ in range(samples)])
                for table in (TABLE, MORE)
            ]
            for name, tester in testers.items():
                audit = tester(*ends)
                bound = audit.estimate_lower_bound(*drawn, CHANCE)
                found[name][outcome(audit.reject_property(bound), honest)] += 1
        for name in testers:
            yield f"{mechanism.__doc__.rstrip('.')}, {name}", found[name]


AUDITS = {"statdp": statdp, "dp-auditorium": dp_auditorium}
