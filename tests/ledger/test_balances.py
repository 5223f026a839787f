"""What a ledger says is left and why it refuses: in each relation, by both ways of counting, in few lines."""

import json
import re

import numpy as np
import pytest

from dplit import BudgetExceeded, GridKMeans, MaxCoverKMeans, NoisyLloyd, PEMeans, PrivacyBudget
from dplit.accounting.filters import SHARES

X = np.random.default_rng(0).normal(size=(200, 2))
COST = {"epsilon": 1.0, "delta": 1e-6, "radius": 3.0, "random_state": 0}


def add_remove(budget, epsilon, delta=0.0, gaussian=False):
    return budget.reserve(epsilon, delta, neighboring="add_remove", gaussian=gaussian)


# ---------------------------------------------------------------- a ledger for replaced records


@pytest.mark.parametrize("n_before", [0, 3])
@pytest.mark.parametrize("composition", ["composed", "added"])
def test_what_an_add_remove_fit_may_cost_can_be_charged_and_no_more(n_before, composition):
    def begun():
        budget = PrivacyBudget(4.0, 1e-5, "replace", composition=composition)
        for _ in range(n_before):
            budget.reserve(0.4, 1e-7, neighboring="replace", gaussian=True)
        return budget

    left = begun().to_dict()["next_add_remove_fit"]
    assert left["delta"] == 1e-6 and left["pure"] == pytest.approx(begun().next_fit.pure / 2)
    for kind, delta, gaussian in (("pure", 0.0, False), ("gaussian", 1e-6, True), ("other", 1e-6, False)):  # fmt: skip
        budget = begun()
        with pytest.raises(BudgetExceeded):
            add_remove(budget, left[kind] * (1 + 1e-6) + 1e-6, delta, gaussian)
        if left[kind]:
            add_remove(budget, left[kind], delta, gaussian)
            assert len(budget.ledger) == n_before + 1


def test_it_is_said_wherever_the_balance_is():
    budget = PrivacyBudget(4.0, 1e-5, "replace")
    words = "(add_remove) counts as a group of two in this ledger, and may cost epsilon = 2 if it is pure"
    with pytest.raises(BudgetExceeded) as refused:
        budget.fit(PEMeans(2, **COST | {"epsilon": 9.0}), X)
    for said in (
        str(budget),
        repr(budget),
        budget._repr_markdown_(),
        str(budget.quote()),
        str(refused.value),
    ):
        assert words in said
    json.dumps(budget.to_dict())
    for other in (PrivacyBudget(4.0, 1e-5), PrivacyBudget(4.0, 1e-5, "add_remove")):
        assert "group of two" not in f"{other}{other!r}{other.quote()}"
        assert "next_add_remove_fit" not in other.to_dict()
    first = PrivacyBudget(4.0, 1e-5)
    first.reserve(0.1, neighboring="replace")  # the first charge decides
    assert "group of two" in str(first)


# ---------------------------------------------------------------- receipts that move to another budget


def test_the_hint_for_another_relation_names_the_words_to_type_and_they_work():
    models = [kind(2, **COST) for kind in (PEMeans, NoisyLloyd, MaxCoverKMeans)]
    old = PrivacyBudget(9.0, 1e-4)
    for model in models:
        old.fit(model, X)
    with pytest.raises(ValueError) as caught:
        old.fit(NoisyLloyd(2, neighboring="replace", **COST), X)
    said = str(caught.value)
    for words in (
        "charge(receipt=receipt, fixed=True)",
        "privacy_cost().fixed is True",
        'charge(epsilon, delta, neighboring="add_remove")',
        'neighboring="replace"',
    ):
        assert words in said
    new = PrivacyBudget(40.0, 1e-2, "replace")
    fixed = [model.privacy_cost().fixed for model in models]
    assert {*fixed} == {True, False}
    for model, receipt, is_fixed in zip(models, old.receipts, fixed, strict=True):
        if is_fixed:
            new.charge(receipt=receipt, fixed=True)
        else:
            new.charge(model.epsilon, model.delta, neighboring="add_remove")
    assert len(new.ledger) == 3
    new.fit(NoisyLloyd(2, neighboring="replace", **COST), X)
    assert len(old.ledger) == 3  # the refused fit cost nothing


# ---------------------------------------------------------------- both totals


def plain_sum(budget, *more):
    rows = [(row.epsilon, row.delta) for row in budget.ledger] + [*more]
    return tuple(sum(part) for part in zip(*rows, strict=True))


@pytest.mark.parametrize("composition", ["composed", "added"])
@pytest.mark.parametrize("how", ["charge", "fit", "search", "parallel", "quote"])
def test_a_refusal_names_the_composed_total_and_that_of_addition(composition, how):
    budget = PrivacyBudget(1.6, 1e-5, composition=composition)
    for _ in range(3):
        budget.reserve(0.5, 1e-6, neighboring="add_remove", gaussian=True)
    model = NoisyLloyd(2, **COST | {"epsilon": 1.75, "delta": 3e-6})
    ask = {
        "charge": lambda: budget.reserve(1.75, 3e-6, neighboring="add_remove", gaussian=True),
        "fit": lambda: budget.fit(model, X),
        "search": lambda: budget.search(model, {"n_clusters": [1, 2]}, X, epsilon=1e-9),
        "parallel": lambda: budget.parallel({"a": (model, X)}),
    }.get(how)
    if ask is None:
        quote = budget.quote(model)
        said = quote.refusal
        assert (quote.added.epsilon, quote.added.delta) == pytest.approx(plain_sum(budget))
        assert "(by plain addition: epsilon = 1.5 at delta = 3e-06)" in str(quote)
    else:
        with pytest.raises(BudgetExceeded) as refused:
            ask()
        said = str(refused.value)
    assert said.count("at delta = 1e-05, all charges together would cost epsilon = ") == 1
    fits = 2 if how == "search" else 1  # a search has two candidates
    words = rf"by composition and epsilon = {1.5 + 1.75 * fits:g}[.\d]* by plain addition, and the limit is 1\.6;"
    assert re.search(words, said)
    composed = float(said.split("would cost epsilon = ")[1].split(" ")[0])
    sums = budget._look().total()
    from dplit.ledger.rules import gaussian_bound

    total = type(sums).total([sums, *[gaussian_bound(1.75, 3e-6)] * fits]).epsilon_at(1e-5, SHARES)
    assert composed == pytest.approx(total, rel=1e-3) and len(budget.ledger) == 3


def test_addition_counts_what_the_ledger_counts():
    budget = PrivacyBudget(2.0, 1e-4, "replace")
    with pytest.raises(BudgetExceeded, match="epsilon = 3 by plain addition, and the limit is 2"):
        add_remove(budget, 1.5)
    quote = budget.quote(GridKMeans(2, epsilon=0.5, radius=3.0))
    assert quote.added == (1.0, 0.0)


# ---------------------------------------------------------------- long plans


def test_a_long_plan_is_a_few_lines():
    budget = PrivacyBudget(4.0, 1e-5)
    model = NoisyLloyd(2, **COST)
    same = budget.quote(*[model] * 100)
    assert len(same.fits) == 100 and 0 < same.admitted < 99
    lines = str(same).split("\n")
    assert len(lines) <= 8
    assert lines[2].startswith(f"NoisyLloyd, {same.admitted} times") and lines[2].endswith(
        "admitted"
    )
    assert lines[3].startswith("NoisyLloyd ") and lines[3].endswith("refused")
    assert f"{99 - same.admitted} times" in lines[4] and lines[4].endswith("not asked")
    different = budget.quote(*[0.01 * (i + 1) for i in range(100)])
    lines = str(different).split("\n")
    n = different.admitted
    assert 8 < n < 99 and len(lines) <= 24
    [more, rest] = [line for line in lines if line.startswith("and ")]
    assert more.split()[1] == str(n - 8) and rest.split()[1] == str(100 - n - 1 - 8)
    [refused] = [line for line in lines if line.endswith("refused")]
    assert refused.startswith("a fit") and len(budget.ledger) == 0
    mixed = str(budget.quote(model, 0.5, 0.5, model))
    assert mixed.count("a fit, 2 times") == 1 and mixed.count("NoisyLloyd ") == 2
