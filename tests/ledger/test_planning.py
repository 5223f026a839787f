"""What a budget admits on the numbers that people use, what it says is left, and quotes that charge nothing."""

import math
import sqlite3
from functools import cache

import numpy as np
import pytest
from scipy import special

from dplit import BudgetExceeded, GridKMeans, MaxCoverKMeans, NoisyLloyd, PEMeans, PrivacyBudget
from dplit.accounting import (
    Receipt,
    Release,
    Shares,
    Spending,
    gaussian_delta,
    worst_adaptive_delta,
)
from dplit.accounting.filters import SHARES
from dplit.accounting.receipts import rounded_up
from dplit.ledger import LedgerError
from dplit.ledger.admission import Rule
from dplit.ledger.rules import Row, gaussian_bound, quoted_at
from dplit.ledger.store import First

BEFORE = Shares(3 / 4, 1 / 8, 1 / 16, 1 / 16)  # of ledgers that were begun before version 0.4
README = {"epsilon": 4.0, "delta": 1e-5}


def votes(epsilon=1.0, delta=1e-6):
    return PEMeans(2, epsilon=epsilon, delta=delta, radius=1.0, random_state=0)


def gaussian_charge(budget, epsilon=1.0, delta=1e-6):
    budget.reserve(epsilon, delta, neighboring="add_remove", gaussian=True)


# ---------------------------------------------------------------- what plain addition allows


@pytest.mark.parametrize("first", ["gaussian", "pure"])
@pytest.mark.parametrize("parts", [(1.0, 1.0, 1.0), (3.0,), (0.3,) * 10])
def test_one_gaussian_fit_and_pure_ones_up_to_the_sum(first, parts):
    budget = PrivacyBudget(**README)
    if first == "gaussian":
        gaussian_charge(budget)
    for epsilon in parts:
        budget.charge(epsilon)
    if first == "pure":
        gaussian_charge(budget)
    assert len(budget.ledger) == 1 + len(parts)
    with pytest.raises(BudgetExceeded):
        budget.charge(0.02)


@pytest.mark.parametrize("delta", [1e-6, 7e-7])
def test_the_same_delta_for_the_limit_and_the_fit(delta):
    """Of a Gaussian fit another pair on its curve is added where its own delta is too large for the share of addition."""
    budget = PrivacyBudget(4.0, 1e-6)
    gaussian_charge(budget, 1.0, delta)
    budget.charge(2.0)
    counted = budget.spendings[0]
    assert counted.delta == 1e-6 / 8 and 1.0 < counted.epsilon < 1.2
    old = Rule(4.0, 1e-6, BEFORE)
    assert not old.admits(Spending.total([gaussian_bound(1.0, delta), Spending.claim(2.0)]))


def test_a_pair_is_quoted_anew_only_where_it_helps():
    rule = Rule(1.0, 1e-6, SHARES)
    full = Row.for_cost(1.0, 1e-6, "a fit", bound=gaussian_bound(1.0, 1e-6))
    assert rule.counted(full) == full and rule.admits(full.counts)  # alone
    small = Row.for_cost(0.5, 4e-7, "a fit", bound=gaussian_bound(0.5, 4e-7))
    assert rule.counted(small) == small
    blunt = Row.for_cost(0.5, 9e-7, "a fit")  # not Gaussian: it has one pair only
    assert rule.counted(blunt) == blunt
    added = Rule(1.0, 1e-6, Shares(0.0, 0.0, 0.0, 1.0))
    assert added.counted(full) == full


@pytest.mark.parametrize(
    ("epsilon", "delta", "before", "now"),
    [(2.0, 1e-6, 3, 3), (4.0, 1e-5, 14, 14), (4.0, 1e-6, 12, 11), (8.0, 1e-5, 48, 46), (10.0, 1e-6, 59, 57)],
)  # fmt: skip
def test_what_larger_shares_for_addition_cost_gaussian_fits(epsilon, delta, before, now):
    fit = gaussian_bound(1.0, 1e-6)
    counts = [
        Rule(epsilon, delta, shares).fits(Spending(), fit, fit) for shares in (BEFORE, SHARES)
    ]
    assert counts == [before, now]


# ---------------------------------------------------------------- the exact adversary


def rounded(mu, cuts):
    ends = np.array([-np.inf, *cuts, np.inf])
    return list(zip(np.diff(special.ndtr(ends - mu)), np.diff(special.ndtr(ends)), strict=True))


def items(rule, rng):
    """Fits that a ledger may be asked for, as it counts them, each with its law."""
    menu, limit = [], (rule.epsilon, rule.delta)
    for share, part in ((0.3, 0.9), (0.5, 0.4), (0.2, 0.7)):
        epsilon, delta = share * limit[0], part * limit[1]
        bound = gaussian_bound(epsilon, delta)
        row = rule.counted(Row.for_cost(epsilon, delta, "a fit", bound=bound))
        mu = math.sqrt(bound.mu_squared)
        menu.append((row.counts, rounded(mu, np.linspace(-1, mu + 4, 14))))
    for epsilon in rng.uniform(0.1, 0.5, 1) * limit[0]:
        truth = special.expit(epsilon)
        menu.append((Spending.claim(epsilon), [(truth, 1 - truth), (1 - truth, truth)]))
    for d in (0.5 * limit[1], 0.05 * limit[1]):
        menu.append((Spending.claim(0.0, d), [(d, 0.0), (0.0, d), (1 - d, 1 - d)]))
    return menu


@pytest.mark.parametrize("seed", range(4))
def test_no_adaptive_strategy_beats_the_rule_of_a_ledger(seed):
    rng = np.random.default_rng(seed)
    for epsilon, delta in ((1.0, 1e-2), (2.0, 1e-3)):
        rule = Rule(epsilon, delta, SHARES)
        menu = items(rule, rng)
        assert any(counted.delta == delta / 8 for counted, _ in menu)  # one is quoted anew
        reached = worst_adaptive_delta(menu, cache(rule.admits), epsilon, 3)
        assert 0.3 * delta < reached <= delta


def test_either_rule_at_the_full_delta_is_no_filter():
    """What users expect, "whatever addition or composition allows", is passed by almost a half: so there are shares."""
    epsilon, delta = 1.0, 1e-2
    mu = math.sqrt(gaussian_bound(epsilon, delta).mu_squared)
    first, rest = mu * math.sqrt(0.5), mu * math.sqrt(0.5)
    counts = [quoted_at(Spending(1, part**2), delta / 10) for part in (first, rest)]
    blunt = 0.9 * delta
    menu = [(c, rounded(m, np.linspace(-2, 6, 60))) for c, m in zip(counts, (first, rest), strict=True)]  # fmt: skip
    menu.append((Spending.claim(0.0, blunt), [(blunt, 0), (0, blunt), (1 - blunt, 1 - blunt)]))
    added, composed = Shares(0, 0, 0, 1), Shares(1, 0, 0, 0)
    within = lambda s, shares: s.delta_at(epsilon, shares) <= delta * (1 + 1e-9)  # noqa: E731
    either = lambda s: within(s, added) or within(s, composed)  # noqa: E731
    assert counts[0].epsilon < epsilon
    assert worst_adaptive_delta(menu, either, epsilon, 2) > 1.4 * delta
    shared = cache(Rule(epsilon, delta, SHARES).admits)
    assert worst_adaptive_delta(menu, shared, epsilon, 2) <= delta


# ---------------------------------------------------------------- refusals and balances


def test_a_refusal_that_addition_would_not_give_says_both_totals_and_the_way_out():
    budget = PrivacyBudget(**README)
    gaussian_charge(budget)
    budget.charge(1.0, 2.5e-6)
    with pytest.raises(BudgetExceeded) as refused:
        budget.charge(0.5, 2e-6)
    said = str(refused.value)
    for words in (
        "at delta = 1e-05, all charges together would cost no finite epsilon by composition (the deltas of fits "
        "whose noise is not all Gaussian add up to 4.5e-06, and its share for them is 6.25e-07) and epsilon = "
        "2.5 by plain addition, and the limit is 4; nothing was charged",
        "addition has only 5e-06 of it",
        "a smaller delta for each fit",
        "for other people, such fits before all others",
        'PrivacyBudget(4, 1e-05, composition="added")',
        "Now the next fit may cost epsilon = 2 if it is pure",
    ):
        assert words in said, words
    budget.charge(2.0)  # as it said
    with pytest.raises(BudgetExceeded) as refused:
        budget.charge(1.0)
    said = str(refused.value)
    assert "epsilon = 5 by plain addition" in said and "Ways out" not in said


@pytest.mark.parametrize("limit", [(2.0, 0.0), (2.0, 1e-5)])
@pytest.mark.parametrize("cost", [(3.0, 0.0), (3.0, 1e-6), (1.0, 1e-4), (1e6, 0.0), (1.0, 0.5)])
@pytest.mark.parametrize("composition", ["composed", "added"])
def test_no_refusal_says_inf(limit, cost, composition):
    budget = PrivacyBudget(*limit, composition=composition)
    with pytest.raises(BudgetExceeded) as refused:
        budget.charge(*cost)
    said = str(refused.value).split("Now the next")[0]
    assert "inf" not in said.replace("infinite", "").replace("finite", "")
    assert said.count("by composition") == said.count("by plain addition") == 1
    if cost[1] > limit[1]:
        assert f"all deltas add up to {cost[1]:g}" in said


# ---------------------------------------------------------------- shares that nothing can use any more


def ways(*costs):
    """Charges (epsilon, delta, gaussian), one after the other."""

    def make(budget):
        for epsilon, delta, gaussian in costs:
            budget.reserve(epsilon, delta, gaussian=gaussian)
        return budget

    return make


BLACK, GAUSS, PURE = (1.0, 2e-6, False), (1.0, 1e-6, True), (1.0, 0.0, False)


@pytest.mark.parametrize(
    ("limit", "costs"),
    [
        ((4.0, 1e-5), [BLACK] * 3),  # 6e-6 by addition: more than half of delta
        ((4.0, 1e-5), [BLACK] * 4),
        ((9.0, 1e-5), [(1.0, 1e-6, False), *[GAUSS] * 5]),
        ((2.0, 1e-6), [PURE, GAUSS]),
        ((2.0, 1e-5), [(1.0, 9e-6, False), PURE]),
        ((2.0, 1e-6), [(1.99, 1e-6, True), (0.01, 0.0, False)]),
    ],
)
def test_after_a_first_fit_that_cannot_be_composed_all_of_delta_is_added(limit, costs):
    budget = ways(*costs)(PrivacyBudget(*limit))
    assert len(budget.ledger) == len(costs)
    plain = tuple(map(sum, zip(*((e, d) for e, d, _ in costs), strict=True)))
    assert budget.spent == pytest.approx(plain)
    assert "spent, by plain addition: epsilon = " in str(budget) and "composed" not in str(budget)
    with pytest.raises(BudgetExceeded):
        budget.charge(limit[0] - plain[0] + 1e-6, max(limit[1] - plain[1], 0.0))


@pytest.mark.parametrize(
    ("limit", "costs"),
    [
        ((9.0, 1e-5), [*[GAUSS] * 5, (1.0, 1e-6, False)]),
        ((2.0, 1e-6), [GAUSS, PURE]),
        ((4.0, 1e-5), [GAUSS, *[BLACK] * 3]),
    ],
)
def test_what_the_default_gives_up_is_admitted_by_addition(limit, costs):
    begun = ways(*costs[:-1])(PrivacyBudget(*limit))
    with pytest.raises(BudgetExceeded, match="Ways out"):
        ways(costs[-1])(begun)
    ways(*costs)(PrivacyBudget(*limit, composition="added"))


def test_all_that_was_admitted_before_is_admitted_still():
    """Random histories, with and without the gift: no history that was admitted is refused."""
    rng, rule, more = np.random.default_rng(5), Rule(4.0, 1e-5, SHARES), 0
    for _ in range(150):
        before, now, first = Spending(), Spending(), None
        for _ in range(7):
            epsilon, delta = rng.uniform(0.1, 1.6), rng.choice([0, 1e-7, 1e-6, 3e-6, 7e-6])
            bound = gaussian_bound(epsilon, delta) if rng.random() < 0.5 else None
            row = Row.for_cost(epsilon, delta, "a fit", bound=bound)
            old, going = rule.counted(row).counts, rule.after(first)
            new = going.counted(row, None, now).counts
            after = Spending.total([now, new])
            is_old, is_new = rule.admits(Spending.total([before, old])), going.admits(after)
            assert is_new or not is_old
            assert not is_old or old == new  # so what follows is counted alike
            more += is_new and not is_old
            if not is_old:
                break
            before, now, first = after, after, first or First(row.promise, new)
    assert more > 10


def begun_with(rule, menu, first, again=None):
    """The largest delta that a strategy reaches which asks for this item first; `again`: the rule from then on."""
    promise, counts, _ = first
    going = again or cache(rule.after(First(promise, counts)).admits)
    admits = lambda s: s == counts if s.fits == 1 else going(s)  # noqa: E731
    return worst_adaptive_delta([item[1:] for item in menu], admits, rule.epsilon, 3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("limit", [(1.0, 1e-2), (2.0, 1e-3)])
def test_no_strategy_beats_the_rule_that_its_first_fit_chose(seed, limit):
    rule, rng = Rule(*limit, SHARES), np.random.default_rng(seed)
    menu = [("bounded" if c.delta and not c.own else "", c, law) for c, law in items(rule, rng)]
    for d in (0.97 * limit[1], 0.3 * limit[1]):
        menu.append(("", Spending.claim(0.2, d), blunt_coin(0.2, d)))
    adding = []
    for first in filter(lambda item: rule.admits(item[1]), menu):
        reached = begun_with(rule, menu, first) / limit[1]
        assert 0 < reached <= 1
        if rule.after(First(*first[:2])).only_adds:
            adding.append(reached)
    assert len(adding) >= 3 and max(adding) > 0.95  # nearly all of delta is used


def blunt_coin(epsilon, d):
    truth = special.expit(epsilon)
    return [(d, 0.0), (0.0, d), ((1 - d) * truth, (1 - d) * (1 - truth)), ((1 - d) * (1 - truth), (1 - d) * truth)]  # fmt: skip


def test_a_later_fit_must_not_choose_the_rule():
    """The share of a dead rule, given back after an answer: the limit is exceeded by three tenths."""
    epsilon, delta = 2.0, 1e-3
    rule = Rule(epsilon, delta, SHARES)
    full = math.sqrt(gaussian_bound(epsilon, delta * SHARES.gaussian).mu_squared) * (1 - 1e-9)
    parts = full * math.sqrt(0.7), full * math.sqrt(0.3)
    costs = [quoted_at(Spending(1, m**2), 1.001 * gaussian_delta(epsilon, m)) for m in parts]
    blunt = (delta - costs[0].delta) * (1 - 1e-9)
    laws = [rounded(m, np.linspace(-2, 6, 60)) for m in parts]
    laws.append([(blunt, 0), (0, blunt), (1 - blunt, 1 - blunt)])
    costs.append(Spending.claim(0.0, blunt))
    menu = list(zip(("bounded", "bounded", ""), costs, laws, strict=True))
    assert rule.after(First("", costs[2])).only_adds
    late = lambda s: rule.admits(s) or (s.epsilon <= epsilon and s.delta <= delta)  # noqa: E731
    assert begun_with(rule, menu, menu[0], late) > 1.3 * delta
    assert 0.4 * delta < begun_with(rule, menu, menu[0]) <= delta


@pytest.mark.parametrize("promise", ["fixed", "told", "bounded", ""])
def test_only_a_cost_that_is_known_before_the_fit_chooses_the_rule(promise):
    rule = Rule(4.0, 1e-5, SHARES)
    black, pure = Spending.claim(1.0, 2e-6), Spending.claim(1.0)
    assert rule.after(None) == rule
    assert rule.after(First(promise, black)).only_adds == (promise == "")
    assert rule.after(First(promise, pure)).only_adds == (promise == "")
    gaussian = gaussian_bound(1.0, 1e-6)
    assert not rule.after(First(promise, gaussian)).only_adds  # composition goes on


def test_a_ledger_in_a_file_remembers_its_first_charge(tmp_path):
    path = tmp_path / "l.db"
    with PrivacyBudget.open(path, **README) as first:
        first.reserve(*BLACK[:2])
    with PrivacyBudget.open(path) as again:
        for _ in range(3):
            again.reserve(*BLACK[:2])
    other = PrivacyBudget.open(path)
    assert other.spent == pytest.approx((4.0, 8e-6))
    told = PrivacyBudget(**README)
    lines = [Release("a count", "laplace", epsilon=1.0, delta=2e-6)]
    told.charge(receipt=Receipt(lines, "add_remove", 2e-6))
    told.charge(1.0, 2e-6)
    with pytest.raises(BudgetExceeded):  # what the first one costs was told by answers
        told.charge(1.0, 2e-6)


def told(budget):
    lines = [Release("a count", "laplace", epsilon=0.5, delta=2e-6)]
    budget.charge(receipt=Receipt(lines, "add_remove", 2e-6))


@pytest.mark.parametrize(
    "first", [told, lambda budget: gaussian_charge(budget, 1.0, 1e-6)], ids=["told", "gaussian"]
)
def test_no_later_charge_chooses_the_rule_of_a_ledger_in_a_file(tmp_path, first):
    """Reopened, and in a second process that saw each charge. False versions: the last event, or none, is taken for the first."""
    path = tmp_path / "l.db"
    with PrivacyBudget.open(path, **README) as budget, PrivacyBudget.open(path) as other:
        assert other.spent == (0.0, 0.0)
        first(budget)
        assert other.spent == budget.spent  # it looked
        budget.reserve(0.5, 2e-6)  # alone, this would leave addition as the only rule
        with PrivacyBudget.open(path) as again:
            for each in (budget, other, again):
                with pytest.raises(BudgetExceeded):
                    each.reserve(0.5, 5.9e-6)


def test_a_first_charge_that_was_changed_in_the_file_is_found(tmp_path):
    path = tmp_path / "l.db"
    with PrivacyBudget.open(path, **README) as budget:
        gaussian_charge(budget, 1.0, 1e-6)
        budget.reserve(0.5, 2e-6)
    with sqlite3.connect(path) as raw:
        triggers = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        triggers = triggers.fetchall()
        for name, _ in triggers:
            raw.execute(f"DROP TRIGGER {name}")
        raw.execute("UPDATE events SET promise = '' WHERE number = 1")
        for _, sql in triggers:
            raw.execute(sql)
    raw.close()
    with pytest.raises(LedgerError):
        PrivacyBudget.open(path).reserve(0.1)


def test_a_quote_begins_as_the_ledger_would():
    black = BLACK[:2]
    assert PrivacyBudget(**README).quote(*[black] * 5).admitted == 4
    assert PrivacyBudget(**README).fits(*black) == 4
    assert PrivacyBudget(**README).quote(votes(), *[black] * 5).admitted == 3


@pytest.mark.parametrize("composition", ["composed", "added"])
@pytest.mark.parametrize("n_before", [0, 1, 6])
def test_the_balance_can_be_charged_in_each_kind_and_no_more(composition, n_before):
    budget = PrivacyBudget(**README, composition=composition)
    for _ in range(n_before):
        gaussian_charge(budget, 0.5, 1e-6)
    left = budget.next_fit
    assert left.delta == 1e-6
    for kind, delta, gaussian in (("pure", 0.0, False), ("gaussian", 1e-6, True), ("other", 1e-6, False)):  # fmt: skip
        epsilon = getattr(left, kind)
        again = PrivacyBudget(**README, composition=composition)
        for _ in range(n_before):
            gaussian_charge(again, 0.5, 1e-6)
        with pytest.raises(BudgetExceeded):
            again.reserve(epsilon * (1 + 1e-6) + 1e-6, delta, gaussian=gaussian)
        if epsilon:
            again.reserve(epsilon, delta, gaussian=gaussian)
    assert f"{left}" in repr(budget) and f"left: {left}" in str(budget)


def test_the_balance_of_a_pure_limit_and_of_nothing_left():
    budget = PrivacyBudget(1.0)
    assert budget.next_fit[0] == pytest.approx(1.0) and budget.next_fit[1:] == (0.0, 0.0, 0.0)
    assert "delta = 0" in repr(budget) and "Gaussian" not in repr(budget)
    budget.charge(1.0)
    assert budget.next_fit == (0.0,) * 4


def test_a_budget_whose_file_is_gone_still_has_a_name(tmp_path):
    budget = PrivacyBudget.open(tmp_path / "l.db", 1.0)
    (tmp_path / "l.db").unlink()
    assert repr(budget).startswith("PrivacyBudget(epsilon=1, delta=0, path=") and "next" not in repr(budget)  # fmt: skip


# ---------------------------------------------------------------- quotes


@pytest.mark.parametrize("in_a_file", [False, True])
def test_a_quote_says_what_the_charges_then_say_and_writes_nothing(tmp_path, in_a_file):
    path = tmp_path / "l.db"
    budget = PrivacyBudget.open(path, **README) if in_a_file else PrivacyBudget(**README)
    gaussian_charge(budget)
    seal, plan = budget.to_dict()["seal"], [votes(), 0.5, (0.25, 1e-7), votes(0.5)]
    quote = budget.quote(*plan)
    assert budget.to_dict()["seal"] == seal and len(budget.ledger) == 1
    assert quote.admitted == 4 and not quote.refusal
    assert [cost for _, cost in quote.fits] == [(1, 1e-6), (0.5, 0), (0.25, 1e-7), (0.5, 1e-6)]
    gaussian_charge(budget)
    budget.charge(0.5)
    budget.charge(0.25, 1e-7)
    gaussian_charge(budget, 0.5)
    assert quote.spent == budget.spent and quote.next_fit == budget.next_fit
    assert "Nothing was charged." in str(quote) and "admitted" in str(quote)


def test_a_quote_ends_where_the_charges_would_and_never_before():
    model = NoisyLloyd(2, epsilon=1.0, delta=1e-6, radius=1.0)
    quote = PrivacyBudget(**README).quote(*[model] * 20)
    assert quote.admitted == PrivacyBudget(**README).fits(model)
    assert "NoisyLloyd needs epsilon = 1" in quote.refusal and "5 times" in str(quote)
    budget = PrivacyBudget(**README)
    budget.charge(4.0)
    assert budget.quote(model).admitted == 0 and budget.quote().admitted == 0
    added = PrivacyBudget(**README, composition="added")
    assert added.quote(*[model] * 4).admitted == 4 and added.quote(*[model] * 5).admitted == 4


@pytest.mark.parametrize("fit", [-1.0, (1.0, 2.0), (1.0, 1e-6, 3), "one", object()])
def test_an_impossible_plan_is_refused(fit):
    with pytest.raises((TypeError, ValueError)):
        PrivacyBudget(**README).quote(fit)


def test_what_is_public_and_impossible_is_said_by_a_quote():
    with pytest.raises(ValueError, match="epsilon"):
        PrivacyBudget(**README).quote(MaxCoverKMeans(2, delta=1e-6, radius=1.0))


@pytest.mark.parametrize("asked", ["list", "dict", "table", "rows", "class"])
def test_a_quote_of_no_fit_says_what_a_quote_takes(asked):
    model = PEMeans(2, epsilon=1.0, delta=1e-6, radius=1.0)
    given = {
        "list": [[model, model]],
        "dict": [{"a": model}],
        "table": [model, np.ones((3, 2))],
        "rows": [[[1.0, 2.0]]],
        "class": [(PEMeans, 1.0)],
    }
    with pytest.raises(TypeError, match=r"one argument for each fit, as in quote\(a, b\)"):
        PrivacyBudget(**README).quote(*given[asked])


# ---------------------------------------------------------------- ledgers of before


def test_a_ledger_keeps_the_shares_it_was_opened_with(tmp_path, monkeypatch):
    from dplit.ledger import ledger

    with monkeypatch.context() as patched:
        patched.setitem(ledger._SHARES, "composed", BEFORE)
        with PrivacyBudget.open(tmp_path / "old.db", **README) as old:
            gaussian_charge(old, 1.0, 1e-7)
    budget = PrivacyBudget.open(tmp_path / "old.db", **README)
    assert budget._rule.shares == BEFORE and budget.to_dict()["shares"] == "[0.75, 0.125, 0.0625, 0.0625]"  # fmt: skip
    assert budget.to_dict()["delta_shares"] == BEFORE._asdict()
    assert "all charges composed at 3/4 of delta, the rest is kept" in str(budget)
    assert "all charges composed at 13/32 of delta, " in str(PrivacyBudget(**README))
    gaussian_charge(budget, 1.0, 5e-7)
    with pytest.raises(BudgetExceeded, match="addition has only 6.25e-07 of it"):
        budget.charge(1.0, 1e-6)
    gaussian_charge(budget)  # more than addition has: quoted anew, which is sound under any shares
    assert budget.spendings[-1].delta == pytest.approx(6.25e-7 / 4)
    rule = Rule(2.0, 1e-3, BEFORE)
    menu = items(rule, np.random.default_rng(0))
    assert worst_adaptive_delta(menu, cache(rule.admits), 2.0, 3) <= 1e-3


def test_receipts_that_come_after_their_fits_are_added_as_they_count_and_the_ledger_says_why():
    """Each of their releases counts as a fit: "spent" was above its own plain addition, and a refusal named ways out that were none."""
    X, bounds = np.random.default_rng(0).normal(size=(300, 2)), ([-8.0, -4.0], [8.0, 4.0])
    pure, mixed = (
        GridKMeans(2, epsilon=1.0, bounds=bounds, random_state=0),
        PEMeans(2, epsilon=1.0, delta=1e-6, bounds=bounds, random_state=0),
    )
    receipts = [model.fit(X).spent_ for model in (pure, mixed)]
    late, early = PrivacyBudget(4.0, 1e-5), PrivacyBudget(4.0, 1e-5)
    for receipt in receipts:
        late.charge(receipt=receipt)
        early.charge(receipt=receipt, fixed=True)
    added = math.fsum(row.epsilon for row in late.spendings)
    assert added > 3 and f"(by plain addition: epsilon = {rounded_up(added)} at" in str(late)
    why = "2 of the charges came as receipts after their fits"
    assert why in str(late) and "fixed=True" in str(late) and why not in str(early)
    quote = late.quote(pure)
    for refused in (quote.refusal, str(pytest.raises(BudgetExceeded, late.fit, pure, X).value)):
        assert why in refused and f"epsilon = {rounded_up(added + 1)} by plain addition" in refused
        assert "Ways out" not in refused  # by addition too it is beyond the limit
    assert quote.added.epsilon == pytest.approx(added)
    early.fit(pure, X)
