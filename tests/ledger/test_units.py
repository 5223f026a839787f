"""Budgets for persons: what counts as stated, what is converted, and what is refused before a row is read."""

import json
import math
import pickle
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from dplit import (
    BudgetExceeded,
    GridKMeans,
    LedgerError,
    MaxCoverKMeans,
    NoisyLloyd,
    PEMeans,
    PrivacyBudget,
)
from dplit.accounting import (
    Receipt,
    Release,
    gaussian_epsilon,
    gaussian_mu,
    receipt_for_persons,
)
from dplit.ledger import choose_n_clusters

X = np.random.default_rng(0).normal(size=(400, 2))
PRICE = {"epsilon": 0.5, "delta": 1e-6, "radius": 6.0, "random_state": 0}


class Untouchable:
    def _touched(self, *args):
        raise AssertionError("X was read")

    __getattribute__ = __len__ = __iter__ = __getitem__ = __array__ = _touched


def mu_of(spending):
    return math.sqrt(spending.mu_squared)


def test_a_fit_for_the_same_persons_counts_as_it_states():
    budget = PrivacyBudget(4.0, 1e-5, max_rows_per_person=3)
    model = budget.fit(NoisyLloyd(2, **PRICE, max_rows_per_person=3), X)
    assert mu_of(budget.spendings[0]) == pytest.approx(gaussian_mu(0.5, 1e-6), rel=1e-6)
    assert budget.receipts[0] == model.spent_ and budget.ledger[0].epsilon <= 0.5


def test_gaussian_and_pure_fits_of_single_rows_are_converted_exactly():
    budget = PrivacyBudget(8.0, 1e-4, max_rows_per_person=3)
    model = budget.fit(NoisyLloyd(2, **PRICE), X)
    mu = 3 * gaussian_mu(0.5, 1e-6)
    assert mu_of(budget.spendings[0]) == pytest.approx(mu, rel=1e-6)
    assert budget.ledger[0].epsilon == pytest.approx(gaussian_epsilon(1e-6, mu), rel=1e-6)
    assert budget.receipts[0] == receipt_for_persons(model.spent_, 3, 1e-6)
    assert model.spent_.max_rows_per_person == 1 and "single rows" in budget.ledger[0].estimator
    budget.fit(NoisyLloyd(2, **PRICE | {"delta": 0.0}), X)
    assert budget.ledger[1].epsilon == pytest.approx(1.5) and budget.ledger[1].delta == 0
    assert all(row.state == "settled" for row in budget.ledger)
    small = PrivacyBudget(1.0, 1e-5, max_rows_per_person=3)
    with pytest.raises(BudgetExceeded):
        small.fit(NoisyLloyd(2, **PRICE | {"epsilon": 0.9}), Untouchable())


REFUSED = {
    "single rows with a cover": (MaxCoverKMeans(2, **PRICE), 3),
    "single rows with Laplace noise and a delta": (GridKMeans(2, **PRICE), 3),
    "more rows": (PEMeans(2, **PRICE, max_rows_per_person=5), 3),
    "fewer rows": (PEMeans(2, **PRICE, max_rows_per_person=2), 3),
    "persons in a budget of rows": (PEMeans(2, **PRICE, max_rows_per_person=2), 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_unit_is_refused_before_anything_is_charged_or_read(name):
    model, m = REFUSED[name]
    budget = PrivacyBudget(4.0, 1e-5, max_rows_per_person=m)
    with pytest.raises(ValueError, match="cannot be added") as refused:
        budget.fit(model, Untouchable())
    assert f"Construct the estimator with max_rows_per_person={m}" in str(refused.value)
    assert ("would multiply delta" in str(refused.value)) == (model.max_rows_per_person == 1)
    assert not budget.ledger
    with pytest.raises(ValueError, match="cannot be added"):
        budget.fits(model)


def test_receipts_and_costs_by_hand():
    budget = PrivacyBudget(4.0, 1e-5, max_rows_per_person=4)
    one = Receipt([Release("a", "gaussian", mu=0.05)], "add_remove", 1e-6)
    budget.charge(receipt=one)
    assert mu_of(budget.spendings[0]) == pytest.approx(0.2, rel=1e-9)
    budget.charge(receipt=receipt_for_persons(one, 4, 1e-6))
    assert mu_of(budget.spendings[1]) == pytest.approx(0.2, rel=1e-9)
    with pytest.raises(ValueError, match="persons with at most 2 rows"):
        budget.charge(receipt=receipt_for_persons(one, 2, 1e-6))
    entry = budget.reserve(1.0, 1e-6, gaussian=True)
    with pytest.raises(ValueError, match="persons with at most 2 rows"):
        budget.settle(entry, receipt_for_persons(one, 2, 1e-6))
    budget.settle(entry, one)
    assert mu_of(budget.spendings[2]) == pytest.approx(0.2, rel=1e-9)
    budget.charge(0.1)
    assert len(budget.ledger) == 4
    with pytest.raises(ValueError, match="persons with at most 4 rows"):
        PrivacyBudget(4.0, 1e-5).charge(receipt=receipt_for_persons(one, 4, 1e-6))


def test_a_receipt_above_its_charge_is_a_bug_for_persons_too():
    """A receipt of single rows that would be within the price is above it for persons."""
    budget = PrivacyBudget(4.0, 1e-5, max_rows_per_person=4)
    entry = budget.reserve(0.3, 1e-6, gaussian=True)
    with pytest.raises(RuntimeError, match="a bug was found"):
        budget.settle(entry, Receipt([Release("a", "gaussian", mu=0.06)], "add_remove", 1e-6))


def test_a_file_keeps_its_unit(tmp_path):
    path = tmp_path / "ledger"
    budget = PrivacyBudget.open(path, 4.0, 1e-5, max_rows_per_person=3)
    budget.fit(NoisyLloyd(2, **PRICE, max_rows_per_person=3), X)
    for again in (
        PrivacyBudget.open(path),
        PrivacyBudget.open(path, max_rows_per_person=3),
        PrivacyBudget.open(path, 4.0, 1e-5, composition="composed"),
        pickle.loads(pickle.dumps(budget)),
    ):
        assert again.max_rows_per_person == 3 and again.composition == "composed"
        assert "for each person with at most 3 rows" in str(again)
    for m in (1, 4):
        with pytest.raises(ValueError, match="persons with at most 3 rows each, not"):
            PrivacyBudget.open(path, max_rows_per_person=m)
    with pytest.raises(ValueError, match="composed"):
        PrivacyBudget.open(path, 4.0, 1e-5, composition="added")
    with pytest.raises(LedgerError), sqlite3.connect(path) as other:
        other.executescript("DROP TRIGGER limits_stay; UPDATE limits SET shares = '[1, 0, 0, 0]'")
        PrivacyBudget.open(path)


def test_a_ledger_of_rows_is_the_file_that_it_was(tmp_path):
    PrivacyBudget.open(tmp_path / "ledger", 4.0, 1e-5)
    with sqlite3.connect(tmp_path / "ledger") as file:
        (shares,) = file.execute("SELECT shares FROM limits").fetchone()
    assert isinstance(json.loads(shares), list)
    assert PrivacyBudget.open(tmp_path / "ledger").max_rows_per_person == 1
    assert "person" not in str(PrivacyBudget.open(tmp_path / "ledger")).replace("people", "")


@pytest.mark.parametrize(
    "value, error", [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_an_impossible_unit_is_refused(tmp_path, value, error):
    with pytest.raises(error, match="max_rows_per_person"):
        PrivacyBudget(1.0, 1e-6, max_rows_per_person=value)
    with pytest.raises(error, match="max_rows_per_person"):
        PrivacyBudget.open(tmp_path / "ledger", 1.0, 1e-6, max_rows_per_person=value)
    assert not (tmp_path / "ledger").exists()


def test_a_search_for_persons():
    budget = PrivacyBudget(6.0, 1e-4, max_rows_per_person=3)
    model = NoisyLloyd(2, **PRICE, max_rows_per_person=3)
    found = budget.search(model, {"n_clusters": [1, 2]}, X, epsilon=0.3)
    choice = found.spent_.releases[-1]
    assert choice.mechanism == "exponential" and choice.epsilon == pytest.approx(0.3)
    assert found.spent_.max_rows_per_person == 3 and budget.ledger[0].state == "settled"
    assert budget.receipts[0] == found.spent_
    for grid in (
        {"max_rows_per_person": [3, 4]},
        {"n_clusters": [1, 2], "max_rows_per_person": [1]},
    ):
        with pytest.raises(ValueError, match="max_rows_per_person|cannot be added"):
            budget.search(model, grid, Untouchable(), epsilon=0.3)
    assert len(budget.ledger) == 1
    found = choose_n_clusters(model, [1, 2], X, epsilon=2.0, delta=1e-6)
    assert found.spent_.max_rows_per_person == 3 and found.spent_.epsilon <= 2.0


def test_the_choice_for_persons_has_the_distribution_of_the_smaller_cost(monkeypatch):
    """m rows of a person move a loss m times as far as one: the choice is drawn at a third of its price."""
    from dplit.mechanisms import Noise

    asked, choose = [], Noise.exponential

    def watched(self, *args, epsilon, **named):
        asked.append(epsilon)
        return choose(self, *args, epsilon=epsilon, **named)

    monkeypatch.setattr(Noise, "exponential", watched)
    for m in (1, 3):
        budget = PrivacyBudget(6.0, 1e-4, max_rows_per_person=m)
        model = NoisyLloyd(2, **PRICE, max_rows_per_person=m)
        budget.search(model, {"n_clusters": [1, 2]}, X, epsilon=0.3)
    assert asked == [0.3, pytest.approx(0.1)]


def test_the_help_of_the_command_names_the_shares_of_delta_that_are_used():
    """The help loads no ledger, so its text contains the numbers; here they are compared."""
    from dplit.accounting.filters import SHARES
    from dplit.command_line import options
    from dplit.ledger.units import share_in_words

    said = options._ADDED
    for told in (
        f"tight composition at {share_in_words(SHARES.gaussian)} of delta",
        f"with {share_in_words(SHARES.basic)} kept for addition",
        f"and {share_in_words(SHARES.own + SHARES.failure)} for deltas and failures",
    ):
        assert told in said


@pytest.mark.parametrize("other", ["composed", "added"])
def test_another_composition_is_refused_with_and_without_a_limit(other, tmp_path):
    own = {"composed": "added", "added": "composed"}[other]
    PrivacyBudget.open(tmp_path / "l", 2.0, 1e-6, composition=own).close()
    for limit in ((), (2.0, 1e-6)):
        with pytest.raises(ValueError, match=f"its costs are {own}, not {other}"):
            PrivacyBudget.open(tmp_path / "l", *limit, composition=other)
        PrivacyBudget.open(tmp_path / "l", *limit, composition=own).close()


# ---------------------------------------------------------------- a delta that is capped


@pytest.mark.parametrize("kind", [PEMeans, NoisyLloyd])
@pytest.mark.parametrize("epsilon", [6.0, 6.9, 7.0, 9.0])
def test_an_add_remove_fit_whose_delta_for_replaced_records_is_capped_settles_by_its_noise(
    kind, epsilon
):
    """(1 + exp(epsilon)) * delta is capped at 1; the receipt was compared at less than its own delta, and the ledger ended."""
    X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    make = lambda: kind(2, epsilon=epsilon, delta=1e-3, radius=2.0)  # noqa: E731
    budget, other = (PrivacyBudget(60, 1e-2, "replace") for _ in range(2))
    quoted = budget.quote(make())
    model = budget.fit(make(), X)
    other.charge(receipt=model.spent_)
    assert budget.spent.epsilon == pytest.approx(other.spent.epsilon, rel=1e-9)
    assert "admitted" in str(quoted)
    budget.fit(make(), X.copy())
    assert np.isfinite(budget.spent.epsilon)


def test_a_receipt_above_a_charge_with_a_capped_delta_is_a_bug_still():
    """Mutation: where the delta is capped, nothing is compared."""
    X = np.random.default_rng(0).uniform(-1, 1, (60, 2))

    class Liar(NoisyLloyd):
        _gaussian_only = True

        def fit(self, X, y=None):
            super().fit(X)
            lines = tuple(replace(line, mu=2 * line.mu) for line in self.spent_.releases)
            self.spent_ = replace(self.spent_, releases=lines)
            return self

    budget = PrivacyBudget(60, 1e-2, "replace")
    with pytest.raises(RuntimeError, match="a bug was found"):
        budget.fit(Liar(2, epsilon=7.0, delta=1e-3, radius=2.0), X)
