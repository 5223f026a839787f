"""Group privacy against exact distributions, dp-accounting and brute force; receipts for persons."""

import itertools
import json
import math
from dataclasses import replace

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from scipy import special

from dplit.accounting import (
    Receipt,
    Release,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    group_cost,
    group_factor,
    groups,
    receipt_for_persons,
    record_budget,
)
from dplit.mechanisms import Noise
from dplit.mechanisms.samplers import lattice_distribution

GAUSSIAN = Release("sums", "gaussian", 1.4, 29.0, times=5, mu=1.4 / 29)
PURE = Release("count", "laplace", 1.0, 20.0, times=2, epsilon=0.05)
CHOICE = Release("choice", "exponential", 1.0, 20.0, epsilon=0.05)
COVER = Release("cover", "cover", exponent=0.01)
OWN = Release("other", "noisy_avg", epsilon=0.02, delta=1e-9)
TAIL = Release("a bound", "tail", epsilon=0.0, delta=1e-9)
FAILING = Release("centers", "gaussian", mu=0.02, failure=1e-11)


def hockey_stick(epsilon, p, q):
    """The exact delta at epsilon between two distributions, in the worse direction."""
    level = np.exp(epsilon)
    return max(np.maximum(p - level * q, 0).sum(), np.maximum(q - level * p, 0).sum())


# ---------------------------------------------------------------- the theorem


@pytest.mark.parametrize("m", [1, 2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_a_count_for_persons_has_the_delta_that_is_claimed(m, epsilon):
    """The exact law of the noise on whole numbers, m rows more: never above the claim, and nearly as high."""
    stated = 1e-5
    each, delta = record_budget(epsilon, stated, m, gaussian=True)
    scale = Noise(0).count_scale(mu=gaussian_mu(each, delta))
    support = np.arange(-int(12 * scale), int(12 * scale) + m)
    p, q = (
        lattice_distribution("gaussian", scale, support),
        lattice_distribution("gaussian", scale, support - m),
    )
    exact = hockey_stick(epsilon, p, q)
    assert 0.8 * stated < exact <= stated * (1 + 1e-9)  # of few whole numbers, a little lower
    # forgotten, the factor gives what is not true
    scale = Noise(0).count_scale(mu=gaussian_mu(epsilon, stated))
    p, q = (
        lattice_distribution("gaussian", scale, support),
        lattice_distribution("gaussian", scale, support - m),
    )
    assert (hockey_stick(epsilon, p, q) > stated * (1 + 1e-9)) == (m > 1)


@pytest.mark.parametrize("m", [1, 2, 5])
def test_a_pure_count_for_persons_costs_what_is_claimed(m):
    scale = Noise(0).count_scale(epsilon=record_budget(1.0, 0.0, m)[0])
    support = np.arange(-200, 200)
    p, q = (
        lattice_distribution("laplace", scale, support),
        lattice_distribution("laplace", scale, support - m),
    )
    assert math.isclose(np.log(p / q).max(), 1.0, rel_tol=1e-9)


@pytest.mark.parametrize("m", [2, 5])
def test_another_accountant_agrees_about_gaussian_groups(m):
    mu = 0.11
    other = from_gaussian_mechanism(
        1 / mu, sensitivity=m, value_discretization_interval=1e-4, use_connect_dots=True
    )
    for epsilon in (0.2, 0.8, 1.5):
        ours = receipt_for_persons(Receipt([Release("a", "gaussian", mu=mu)], "add_remove"), m, 0.0)
        assert math.isclose(
            ours.delta_at(epsilon), other.get_delta_for_epsilon(epsilon), rel_tol=1e-3
        )
    event = dp_accounting.GaussianDpEvent(1 / (m * mu))
    accountant = dp_accounting.pld.PLDAccountant().compose(event, 4)
    line = Release("a", "gaussian", mu=mu, times=4)
    person = receipt_for_persons(Receipt([line], "add_remove", 1e-6), m, 1e-6)
    assert math.isclose(person.epsilon, accountant.get_epsilon(1e-6), rel_tol=1e-3)


@pytest.mark.parametrize("m", [2, 3, 6])
def test_the_bound_for_every_fit_is_true_of_random_chains_and_tight(m):
    rng, largest = np.random.default_rng(m), 0.0
    for _ in range(400):
        steps = np.arange(m + 1)[:, None] * rng.normal(size=5) + rng.normal(size=(m + 1, 5)) / 4
        chain = special.softmax(rng.normal(size=5) * 2 + rng.uniform(0, 1) * steps, axis=1)
        e = rng.uniform(0, 0.5)
        worst = max(hockey_stick(e, p, q) for p, q in itertools.pairwise(chain))
        epsilon, delta = group_cost(e, worst, m)
        exact = hockey_stick(epsilon, chain[0], chain[-1])
        assert exact <= delta * (1 + 1e-9)
        largest = max(largest, exact / delta if delta else 0.0)
    assert largest > 0.5
    # a coin whose chance grows as fast as (e, delta)-DP allows
    e, delta, chance = 0.3, 1e-4, 0.0
    laws = [np.array([chance := math.exp(e) * chance + delta, 1 - chance]) for _ in range(m)]
    laws = [np.array([0.0, 1.0]), *laws]
    assert all(hockey_stick(e, p, q) <= delta * (1 + 1e-9) for p, q in itertools.pairwise(laws))
    exact = hockey_stick(m * e, laws[0], laws[-1])
    assert math.isclose(exact, group_cost(e, delta, m)[1], rel_tol=1e-9)


def test_the_factor_is_the_sum():
    for e, m in itertools.product((0.0, 1e-12, 0.1, 2.0), (1, 2, 7, 40)):
        total = math.fsum(math.exp(j * e) for j in range(m))
        assert total <= group_factor(e, m) * (1 + 1e-15) <= total * (1 + 1e-9)
    assert group_factor(1.0, 2**20) == math.inf and group_cost(1.0, 0.0, 2**20) == (2**20, 0.0)
    assert group_cost(1.0, 1e-3, 2**20)[1] == 1.0


@pytest.mark.parametrize("m", [2, 3, 10, 1000])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-6, 1e-2])
def test_the_budget_of_a_row_is_the_largest(epsilon, delta, m):
    each, part = record_budget(epsilon, delta, m)
    person = group_cost(each, part, m)
    assert epsilon * (1 - 1e-9) < person[0] <= epsilon and delta * (1 - 1e-9) < person[1] <= delta
    each, part = record_budget(epsilon, delta, m, gaussian=True)
    whole, mu = gaussian_mu(epsilon, delta), gaussian_mu(each, part)
    assert whole * (1 - 1e-6) < m * mu <= whole
    assert part >= record_budget(epsilon, delta, m)[1] * (1 - 1e-9)


def test_a_budget_of_one_row_is_itself_and_an_impossible_one_is_refused():
    assert record_budget(0.7, 1e-7, 1) == record_budget(0.7, 1e-7, 1, gaussian=True) == (0.7, 1e-7)
    assert record_budget(1.0, 0.0, 4)[0] <= 0.25
    with pytest.raises(
        ValueError, match="below 1e-300.*, or an estimator with Gaussian noise only"
    ):
        record_budget(800.0, 1e-6, 2)


@pytest.mark.parametrize("m", [2, 3, 10, 1000])
def test_a_delta_with_few_digits_is_refused_with_gaussian_noise_too(m):
    """It was rounded up to 5e-324, and a receipt stated more than was charged."""
    refused = 0
    for epsilon in np.geomspace(1000, 20000, 60):
        try:
            each, part = record_budget(epsilon, 1e-6, m, gaussian=True)
        except ValueError as error:
            refused += 1
            assert str(error).endswith("below 1e-300; choose a smaller epsilon.")
            continue
        assert not refused and m * gaussian_mu(each, part) <= gaussian_mu(epsilon, 1e-6)
    assert 0 < refused < 60


# ---------------------------------------------------------------- receipts


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("m", [2, 5])
def test_gaussian_and_pure_releases_are_converted_one_by_one(m, neighboring):
    one = Receipt([GAUSSIAN, GAUSSIAN], neighboring, 1e-6, title="of a fit")
    person = receipt_for_persons(one, m, 1e-6)
    assert math.isclose(person.mu, m * one.mu) and person.title == one.title
    assert all(r.sensitivity / r.scale == pytest.approx(r.mu) for r in person.releases)
    assert person.delta_at(1.0) == pytest.approx(gaussian_delta(1.0, m * one.mu), rel=1e-9)
    one = Receipt([PURE, CHOICE], neighboring)
    person = receipt_for_persons(one, m, 0.0)
    assert person.epsilon == pytest.approx(m * one.epsilon) and person.delta == 0
    assert person.rho == pytest.approx(m * m * one.rho)  # of a bounded range, too


@pytest.mark.parametrize("line", [COVER, OWN, TAIL, FAILING], ids=lambda line: line.label)
@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("quoted", [1e-7, 1e-12, 1e-3])
def test_what_may_fail_is_one_line_at_the_least_epsilon(line, m, quoted):
    """Mutation: the search begins at the epsilon that the receipt quotes, at a delta of its own."""
    one, delta = Receipt([GAUSSIAN, PURE, line], "add_remove", quoted), 1e-6
    person = receipt_for_persons(one, m, delta)
    (whole,) = person.releases
    assert person.epsilon == whole.epsilon and person.delta == whole.delta == delta
    assert "sums; count" in whole.label
    e = person.epsilon / m
    assert group_factor(e, m) * one.delta_at(e) <= delta * (1 + 1e-9)
    least = e * (1 - 1e-4)
    assert group_factor(least, m) * one.delta_at(least) > delta


def test_a_mix_takes_the_better_of_two_true_ways():
    for times in (1, 3, 40):
        one = Receipt([GAUSSIAN, replace(PURE, times=times)], "add_remove", 1e-7)
        listed = Receipt(
            [replace(GAUSSIAN, mu=4 * GAUSSIAN.mu), replace(PURE, epsilon=0.2, times=times)],
            "add_remove",
            1e-6,
        )
        person = receipt_for_persons(one, 4, 1e-6)
        assert person.epsilon <= listed.epsilon * (1 + 1e-12)
        if len(person.releases) == 1:
            e = person.epsilon / 4
            assert group_factor(e, 4) * one.delta_at(e) <= 1e-6 * (1 + 1e-9)


def test_a_receipt_says_its_unit_and_is_kept_with_it():
    one = Receipt([GAUSSIAN], "add_remove", 1e-6)
    assert receipt_for_persons(one, 1, 1e-6) is one
    assert "max_rows_per_person" not in one.to_dict() and "person" not in str(one)
    person = receipt_for_persons(one, 3, 1e-6)
    assert "for each person with at most 3 rows" in str(person)
    assert "for each person with at most 3 rows" in person._repr_markdown_()
    assert Receipt.from_dict(json.loads(json.dumps(person.to_dict()))) == person
    assert Receipt.from_dict(one.to_dict()) == one
    assert (person + person).max_rows_per_person == 3
    assert (person + person).mu == pytest.approx(person.mu * math.sqrt(2))
    with pytest.raises(ValueError, match="different persons. rows .3 and 1."):
        person + one
    with pytest.raises(ValueError, match="already"):
        receipt_for_persons(person, 2, 1e-6)
    with pytest.raises(ValueError, match="no epsilon is enough"):
        receipt_for_persons(Receipt([replace(OWN, delta=1e-3)], "add_remove"), 3, 1e-6)
    for wrong in (0, -1, 2**20 + 1):
        with pytest.raises(ValueError, match="max_rows_per_person"):
            receipt_for_persons(one, wrong, 1e-6)
    with pytest.raises(TypeError, match="max_rows_per_person"):
        receipt_for_persons(one, 2.5, 1e-6)


def test_branches_with_the_rows_of_a_person_cost_no_more_than_one_with_all():
    """Every way to spread m rows over three branches: mu of the branches together, and epsilon."""
    m, mu = 6, 0.1
    for parts in itertools.product(range(m + 1), repeat=3):
        if sum(parts) <= m:
            assert math.hypot(*(part * mu for part in parts)) <= m * mu * (1 + 1e-12)
        if sum(parts) <= 2 * m and max(parts) <= m:  # replaced rows count in two branches
            assert math.hypot(*(part * mu for part in parts)) <= m * mu * math.sqrt(2) * (1 + 1e-12)
    noise = Noise(0, neighboring="replace")
    noise.parallel([lambda: noise.count(3, mu=mu)] * 2)
    person = receipt_for_persons(noise.receipt(1e-6), m, 1e-6)
    assert person.mu == pytest.approx(m * mu * math.sqrt(2))
    assert person.epsilon == pytest.approx(gaussian_epsilon(1e-6, m * mu * math.sqrt(2)))


@pytest.mark.parametrize("m", [2, 5])
@pytest.mark.parametrize("delta", [0.3, 0.45])
def test_the_least_epsilon_of_one_record_is_that_of_a_search_at_large_deltas_too(m, delta):
    """S(e) delta(e) <= delta, by a grid. Mutation: a start at m deltas, which may exceed 1."""
    receipt = Receipt(
        [Release("a", "gaussian", mu=0.4), Release("b", "laplace", epsilon=0.1)],
        "add_remove",
        delta,
    )
    found = groups._least_epsilon(receipt, m, delta)
    grid = np.linspace(0, 1, 2001)
    fits = [e for e in grid if receipt.delta_at(e) * group_factor(e, m) <= delta]
    assert fits[0] - 1e-3 <= found <= fits[0] + 1e-6
