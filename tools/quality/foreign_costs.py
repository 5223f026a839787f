"""Our accounting, in place of dp-accounting's for its own tests, and compared with its numbers: see foreign.py."""

import contextlib
import functools
import importlib
import itertools
import logging
import math
from collections import Counter

from scipy import optimize

from dplit.accounting import (
    Receipt,
    Release,
    gaussian_epsilon,
    gaussian_mu,
    largest_scale,
    poisson_gaussian_epsilon,
    zcdp_epsilon,
)

CALLS = []  # one entry for each call
CLOSE = 1.01  # a cost may be this many times the upper end of theirs
ROUNDING = 1e-7  # and this part below the lower end, which their convolutions may miss by 2e-8


def counted(function):
    """The same function; each call adds its name to CALLS."""

    @functools.wraps(function)
    def counting(*args, **kwargs):
        CALLS.append(function.__name__)
        return function(*args, **kwargs)

    return counting


# ---------------------------------------------------------------- in place of their functions


def get_epsilon_gaussian(sigma, delta, tol=None):
    """The epsilon of a Gaussian mechanism of sensitivity 1."""
    return float(gaussian_epsilon(delta, 1 / sigma if sigma else math.inf))


def get_sigma_gaussian(epsilon, delta, tol=None):
    """The smallest standard deviation of a Gaussian mechanism of sensitivity 1; 0 without noise."""
    mu = math.inf if delta == 1 else gaussian_mu(epsilon, delta)  # ours has no mu at delta 1
    return 1 / mu if mu else math.inf


def _largest_pure(target, times):
    """The largest epsilon of each of some pure releases that together are within a target."""
    if target.delta == 0:
        return target.epsilon / times
    return largest_scale(
        lambda scale: [pure(scale, times)], target.epsilon, target.delta, "add_remove"
    )


def get_smallest_laplace_noise(privacy_parameters, num_queries=1, sensitivity=1):
    return sensitivity / _largest_pure(privacy_parameters, num_queries)


def get_smallest_discrete_laplace_noise(privacy_parameters, num_queries=1, sensitivity=1):
    return _largest_pure(privacy_parameters, num_queries) / sensitivity


def get_smallest_gaussian_noise(privacy_parameters, num_queries=1, sensitivity=1):
    target = privacy_parameters
    return sensitivity * math.sqrt(num_queries) / gaussian_mu(target.epsilon, target.delta)


def get_smallest_subsampled_gaussian_noise(
    privacy_parameters, num_queries=1, sensitivity=1, sampling_prob=1
):
    target = privacy_parameters

    def excess(sigma):
        return (
            poisson_gaussian_epsilon(target.delta, 1 / sigma, sampling_prob, num_queries)
            - target.epsilon
        )

    return sensitivity * optimize.brentq(excess, 0.2, 20, xtol=1e-10)


REPLACED = {
    "gaussian_mechanism_test": {
        "gaussian_mechanism": [get_epsilon_gaussian, get_sigma_gaussian],
    },
    "pld.accountant_test": {
        "pld.accountant": [
            get_smallest_laplace_noise,
            get_smallest_discrete_laplace_noise,
            get_smallest_gaussian_noise,
            get_smallest_subsampled_gaussian_noise,
        ],
    },
}


@contextlib.contextmanager
def in_place(replaced):
    """Within it, functions of dp-accounting's modules are ours of the same name."""
    theirs = []
    for module, functions in replaced.items():
        home = importlib.import_module(f"dp_accounting.{module}")
        for function in functions:
            theirs.append((home, function.__name__, getattr(home, function.__name__)))
            setattr(home, function.__name__, counted(function))
    try:
        yield
    finally:
        for home, name, function in theirs:
            setattr(home, name, function)


# ---------------------------------------------------------------- grids


def pure(epsilon, times):
    """Some releases of a pure mechanism, of which only its epsilon is used."""
    return Release("query", "laplace", epsilon=epsilon, times=times)


def gaussian(mu, times):
    return Release("query", "gaussian", mu=mu, times=times)


def together(delta, *releases):
    return Receipt([*releases], "add_remove").epsilon_at(delta)


def losses(kind, *parameters, times=1, **more):
    """The privacy loss distribution of some equal releases, rounded down and up."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    logging.getLogger().setLevel(logging.ERROR)  # theirs says at each call how it rounds down
    make = getattr(pld, f"from_{kind}_mechanism")
    given = {"value_discretization_interval": 1e-4, **more}
    return [
        make(*parameters, pessimistic_estimate=side, **given).self_compose(times)
        for side in (False, True)
    ]


def of_losses(delta, *pairs):
    """The lower and the upper end of epsilon of releases that are made together."""
    return [
        functools.reduce(lambda a, b: a.compose(b), side).get_epsilon_for_delta(delta)
        for side in zip(*pairs, strict=True)
    ]


def gaussian_grid():
    for mu, times, delta in itertools.product((0.1, 0.5, 1, 2), (1, 10, 100), (1e-9, 1e-6, 1e-3)):
        theirs = of_losses(delta, losses("gaussian", 1 / mu, times=times))
        yield gaussian_epsilon(delta, mu * math.sqrt(times)), *theirs


def geometric_grid():
    for cost, times, delta in itertools.product((0.05, 0.3, 1), (1, 10, 100), (1e-9, 1e-6, 1e-3)):
        theirs = of_losses(delta, losses("discrete_laplace", cost, 1, times=times))
        yield together(delta, pure(cost, times)), *theirs


def laplace_grid():
    for cost, times, delta in itertools.product((0.05, 0.3, 1), (1, 10, 100), (1e-9, 1e-6, 1e-3)):
        theirs = of_losses(delta, losses("laplace", 1 / cost, times=times))
        yield together(delta, pure(cost, times)), *theirs


def mixed_grid():
    for mu, cost, times, delta in itertools.product((0.2, 1), (0.05, 0.3), (2, 20), (1e-9, 1e-6)):
        theirs = of_losses(
            delta,
            losses("gaussian", 1 / mu, times=times),
            losses("discrete_laplace", cost, 1, times=times),
        )
        yield together(delta, gaussian(mu, times), pure(cost, times)), *theirs


def sampled_grid():
    for mu, rate, times, delta in itertools.product((0.5, 1), (0.01, 0.1), (10, 300), (1e-6, 1e-5)):
        theirs = of_losses(delta, losses("gaussian", 1 / mu, times=times, sampling_prob=rate))
        yield poisson_gaussian_epsilon(delta, mu, rate, times), *theirs


def zcdp_grid():
    """Between a Gaussian mechanism of that zCDP parameter and dp-accounting's conversion of Renyi privacy."""
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    for rho, delta in itertools.product((0.01, 0.1, 0.5, 2), (1e-9, 1e-6, 1e-3)):
        lower = of_losses(delta, losses("gaussian", 1 / math.sqrt(2 * rho)))[0]
        renyi = RdpAccountant().compose(dp_event.ZCDpEvent(rho))
        yield zcdp_epsilon(rho, delta), lower, renyi.get_epsilon(delta)


GRIDS = {
    "Gaussian noise, composed": gaussian_grid,
    "Laplace noise on counts (two-sided geometric), composed": geometric_grid,
    "Laplace noise on real numbers, composed": laplace_grid,
    "Gaussian noise and Laplace noise on counts, together": mixed_grid,
    "Gaussian noise on Poisson-sampled records": sampled_grid,
    "zCDP to epsilon, with their Renyi accountant": zcdp_grid,
}


LOOSE = {  # where a cost that is not close is meant
    laplace_grid: "only its epsilon is accounted for, so that every pure mechanism is covered: ",
}


def ratios(pairs):
    """Ours over the lower and over the upper end of theirs, each from the least to the most."""
    over = zip(("lower", "upper"), zip(*pairs, strict=True), strict=True)
    return ", ".join(f"{min(r):.6f} to {max(r):.6f} of the {end} end" for end, r in over)


def compared(grid, largest=None):
    """Counter of (outcome, ratios). Failed: below the lower end of theirs, or above `CLOSE` times the upper end.

    Ends of an epsilon below 1e-9 say nothing, and are left out.
    """
    found = {"passed": [], "failed": [], "by design": []}
    for ours, lower, upper in itertools.islice(grid(), largest):
        ours = float(ours)
        if upper < 1e-9:
            continue
        if ours < lower * (1 - ROUNDING):
            outcome = "failed"
        elif ours <= upper * CLOSE:
            outcome = "passed"
        else:
            outcome = "by design" if grid in LOOSE else "failed"
        found[outcome].append((ours / max(lower, 1e-9), ours / upper))
    return Counter(
        {
            (o, LOOSE.get(grid, "") * (o == "by design") + ratios(r)): len(r)
            for o, r in found.items()
            if r
        }
    )
