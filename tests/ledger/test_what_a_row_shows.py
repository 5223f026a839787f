"""What a ledger prints: the number that settles an entry, and the privacy cost that counts; and which receipts settle nothing."""

import dataclasses
import json
import math
import re
import warnings
from unittest import mock

import numpy as np
import pytest
from test_ledger import LIMITS, Planned, Spender, everywhere, gaussians, in_a_file, in_memory

import dplit.ledger.charging
import dplit.ledger.parallel
from dplit import (
    BudgetExceeded,
    CnvxAdap,
    HDPEMeans,
    LabelShiftClassifier,
    MaxCoverKMeans,
    NCnvxAdap,
    NeighborNoisyAverages,
    NoisyLloyd,
    PEMeans,
    PrivacyBudget,
)
from dplit.accounting import Receipt, Release, Spending, gaussian_mu
from dplit.ledger import worst_settled_delta
from dplit.ledger.admission import ADDED, Rule
from dplit.ledger.rules import Row, settled
from dplit.mechanisms import private_quantile

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2)).clip(-1, 1)
Y = (X[:, 0] > 0).astype(int)
SOURCE = {"Xs": X + 0.1, "ys": Y.astype(float)}
BALL = {"epsilon": 1.0, "delta": 1e-6, "radius": 4.0, "random_state": 0}
ADAPT = {**BALL, "weight_radius": 3.0}
REGRESSION, CLASSES = {"target_bound": 5.0}, {"classes": [0, 1]}
NOTHING = Receipt((), "add_remove", 1e-7)
LAPLACE = Receipt([Release("x", "laplace", epsilon=0.01)], "add_remove", 1e-7)


@pytest.fixture(autouse=True)
def seeded():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def printed(budget):
    """{number in the first column: its whole line}, of the printed table."""
    lines = re.findall(r"^(\d+) .*$", str(budget), re.M), re.findall(r"^\d+ .*$", str(budget), re.M)
    return dict(zip(map(int, lines[0]), lines[1], strict=True))


# ---------------------------------------------------------------- one number


@everywhere
def test_the_printed_number_is_the_one_that_is_returned_and_settled(make, tmp_path):
    """Mutation: the table counts its rows 1, 2, 3, ..."""
    budget = make(tmp_path, epsilon=9.0)
    budget.fit(Spender(receipt=gaussians(0.01)), None)
    returned = [budget.reserve(0.1, 1e-7, name="a", gaussian=True), budget.charge(0.01)]
    with pytest.raises(ValueError):
        budget.fit(Spender(act=lambda: int("x")), None)
    returned.append(budget.reserve(0.2, 1e-7, name="b", gaussian=True))
    north, south = NoisyLloyd(2, **BALL), NoisyLloyd(2, **BALL)
    budget.parallel({"north": (north, X[:100]), "south": (south, X[100:])})
    told = {charge["entry"]: charge for charge in budget.to_dict()["charges"]}
    assert [*told] == [*printed(budget)] == sorted(told) and {*returned} < {*told}
    assert [*told.values()] == [
        {"entry": n, **row._asdict(), "receipt": receipt and receipt.to_dict()}
        for n, row, receipt in zip(told, budget.ledger, budget.receipts, strict=True)
    ]
    joint = next(n for n, one in told.items() if "disjoint" in one["estimator"])
    labels = [f"part {part!r} of entry {joint}" for part in ("north", "south")]
    assert [one["estimator"] for one in told.values()][-2:] == labels
    open_ = [n for n, line in printed(budget).items() if "unsettled" in line]
    assert open_ == [returned[0], returned[2]]
    for number in [*told, *range(1, 30)]:
        if number not in open_:
            with pytest.raises(ValueError, match=f"entry {number} is not open"):
                budget.settle(number)
    budget.settle(open_[1], gaussians(0.01))
    state = {n: one["state"] for n, one in zip(told, budget.to_dict()["charges"], strict=True)}
    assert (state[open_[0]], state[open_[1]]) == ("unsettled", "settled")


def test_a_cost_is_not_erased_by_the_receipt_of_another():
    """As a user found it: the number of the row was that of another entry."""
    budget = PrivacyBudget(10, 1e-4)
    budget.fit(PEMeans(2, **BALL), X)
    for name, epsilon in (("B", 2.0), ("C", 0.2)):
        budget.reserve(epsilon, 1e-6, name=name, gaussian=True)
    (number,) = (n for n, line in printed(budget).items() if " C " in line)
    budget.settle(number, gaussians(gaussian_mu(0.2, 1e-6), delta=1e-6))
    assert {row.estimator: row.state for row in budget.ledger} == {
        "PEMeans": "settled",
        "B": "unsettled",
        "C": "settled",
    }
    with pytest.raises(ValueError, match="entry 2 is not open"):
        budget.settle(2)


# ---------------------------------------------------------------- another's receipt


def reserved(budget, model):
    """The number of the entry of a fit that was interrupted before it was settled."""
    with mock.patch.object(dplit.ledger.charging, "settle_entry", side_effect=KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            budget.fit(model, X)
    return [*printed(budget)][-1]


OTHER = {
    "another estimator": (PEMeans, NoisyLloyd(2, **BALL)),
    "one that contains it": (HDPEMeans, PEMeans(2, **BALL)),
    "the other way round": (PEMeans, HDPEMeans(2, **BALL)),
    "neither Gaussian": (MaxCoverKMeans, PEMeans(2, **BALL)),
}


@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
@pytest.mark.parametrize("kind", OTHER)
def test_the_receipt_of_another_estimator_settles_nothing(kind, neighboring, tmp_path):
    """In a ledger for replaced records a charge has a longer name (a group of two). Mutation: compare whole titles."""
    charged, other = OTHER[kind]
    budget = in_a_file(tmp_path, epsilon=40.0, delta=1e-4, neighboring=neighboring)
    model = charged(2, **BALL)
    number, before = reserved(budget, model), budget.spent
    with pytest.raises(
        ValueError, match=f"entry {number} is the charge of {charged.__name__}, and"
    ) as no:
        budget.settle(number, other.fit(X).spent_)
    assert f"this receipt is of {type(other).__name__}. Nothing was settled" in str(no.value)
    assert budget.spent == before and budget.ledger[0].state == "unsettled"
    titled = dataclasses.replace(model.spent_, title=f"{model.spent_.title}; column age: a rule")
    budget.settle(number, titled)
    assert budget.ledger[0].state == "settled"


def test_a_part_or_a_candidate_does_not_settle_the_whole():
    budget = PrivacyBudget(20.0, 1e-4)
    grid, model = {"n_clusters": [2, 3]}, PEMeans(2, **BALL)
    one = PEMeans(2, **BALL).fit(X).spent_
    parts = {"north": (PEMeans(2, **BALL), X[:100]), "south": (PEMeans(2, **BALL), X[100:])}
    stop = KeyboardInterrupt
    with (
        mock.patch.object(dplit.ledger.charging, "settle_entry", side_effect=stop),
        pytest.raises(stop),
    ):
        budget.search(model, grid, X, epsilon=0.5)
    with (
        mock.patch.object(dplit.ledger.parallel, "close_with", side_effect=stop),
        pytest.raises(stop),
    ):
        budget.parallel(parts)
    for number, line in printed(budget).items():
        assert "unsettled" in line
        with pytest.raises(ValueError, match="Nothing was settled"):
            budget.settle(number, one)
        budget.settle(number)  # at its stated cost
    assert {row.state for row in budget.ledger} == {"settled"}


def named(name):
    """A wrapper whose cost has the name of an estimator."""
    return type(name, (Spender,), {})


def test_a_receipt_above_its_charge_is_a_bug_whosever_it_is():
    """Mutation: the guard comes first, so a wrapper that spends eight times its charge is handed out, again and again."""
    dear = PEMeans(2, **BALL | {"epsilon": 8.0}).fit(X).spent_
    budget = PrivacyBudget(20.0, 1e-4)
    wrapper = named("NoisyLloyd")(1.0, receipt=dear)
    with pytest.raises(RuntimeError, match="a bug was found"):
        budget.fit(wrapper, None)
    number = budget.reserve(1.0, 1e-6, name="NoisyLloyd")
    with pytest.raises(RuntimeError, match="a bug was found"):
        budget.settle(number, dear)
    assert [row.state for row in budget.ledger] == ["settled"] * 2


def test_a_budget_knows_whose_receipt_it_is():
    """Mutation: the guard is asked for a fit too. A wrapper may hand on the receipt of another estimator."""
    budget = PrivacyBudget(20.0, 1e-4)
    spent = PEMeans(2, **BALL | {"delta": 1e-7}).fit(X).spent_
    with warnings.catch_warnings(action="error"):
        budget.fit(named("HDPEMeans")(1.1, receipt=spent), None)
    assert [row.state for row in budget.ledger] == ["settled"]


def honest():
    """(how it was reserved, the receipt that settles it)."""
    pe = PEMeans(2, **BALL).fit(X).spent_
    top = private_quantile(X[:, 0], 0.9, low=-1, high=1, epsilon=0.2, random_state=0).spent_
    yield {"name": "a study", "gaussian": True}, pe
    yield {"name": "PEMeans", "gaussian": True}, pe
    yield {"name": "PEMeans of April", "gaussian": True}, NoisyLloyd(2, **BALL).fit(X).spent_
    yield {"name": "NoisyLloyd: and PEMeans afterwards"}, pe
    yield {"gaussian": True}, LAPLACE
    yield {"name": "NoisyLloyd"}, dataclasses.replace(sum([pe]), title="")  # made of others
    yield {"name": "PEMeans", "fixed": True}, gaussians(0.01)
    yield {"name": "PEMeans"}, top
    yield {"fixed": True}, LAPLACE
    yield {}, LAPLACE
    yield {"gaussian": True}, NOTHING


@pytest.mark.parametrize("i", range(11))
def test_honest_receipts_settle(i):
    how, receipt = [*honest()][i]
    budget = PrivacyBudget(**LIMITS)
    budget.settle(budget.reserve(1.1, 1e-6, **how), receipt)
    assert budget.ledger[0].state == "settled" and budget.receipts[0] == receipt


def test_a_wrapper_may_hand_on_the_receipt_of_what_it_fits():
    budget = PrivacyBudget(**LIMITS)
    budget.fit(Spender(1.1, receipt=PEMeans(2, **BALL | {"delta": 1e-7}).fit(X).spent_), None)
    assert budget.ledger[0].state == "settled"


# ---------------------------------------------------------------- rows and totals


SILENT = {
    "all of the source": (CnvxAdap(alpha=1.0, **ADAPT, **REGRESSION), (X, Y), SOURCE),
    "classes, all of the source": (NCnvxAdap(alpha=1.0, **ADAPT, **CLASSES), (X, Y), SOURCE),
    "an empty target": (NCnvxAdap(**ADAPT, **CLASSES), (X[:0], Y[:0]), SOURCE),
    "no source to protect": (CnvxAdap(protect="source", **ADAPT, **REGRESSION), (X, Y), {}),
}


@pytest.mark.parametrize("composition", ["added", "composed"])
@pytest.mark.parametrize("name", SILENT)
def test_a_fit_without_a_release_costs_nothing(name, composition):
    """Under both rules. Mutations: its stated pair stays; it still counts as one fit, so that no other is alone."""
    model, tables, public = SILENT[name]
    budget = PrivacyBudget(4.0, 1e-5, "replace", composition=composition)
    for _ in range(3):
        budget.fit(model, *tables, **public, accept_doubts=True)
    assert not budget.receipts[2].releases and budget.receipts[2].epsilon == 0
    assert budget.spent == (0.0, 0.0) and {row[4:6] for row in budget.ledger} == {(0.0, 0.0)}
    assert "by plain addition: epsilon = 0 " in str(budget) and not any(
        one.fits for one in budget.spendings
    )
    fresh = PrivacyBudget(4.0, 1e-5, "replace", composition=composition)
    assert (budget.next_fit, budget.remaining) == (fresh.next_fit, fresh.remaining)
    budget.charge(4.0, 1e-5)  # all of it, as the only fit


def test_the_first_fit_may_make_no_release_where_it_was_admitted_alone():
    budget = PrivacyBudget(1.0, 1e-6)
    budget.settle(budget.reserve(1.0, 1e-6, gaussian=True), NOTHING)
    assert budget.spent == (0.0, 0.0)
    budget.charge(0.5)
    budget.charge(0.5)
    with pytest.raises(BudgetExceeded):
        budget.charge(0.01)


def test_no_release_is_refunded_only_where_a_receipt_counts():
    """An algorithm may stay silent on some tables, and count that in its epsilon. Mutation: refund it too."""
    asked = Row.for_cost(1.0, 0.0, "a fit", "", "add_remove")
    lie = 1 / (1 + math.e)
    counts = settled(asked, NOTHING).counts
    menu = [(asked.counts, [(1 - lie, lie, counts), (lie, 1 - lie, asked.counts)])]
    rule = Rule(1.0, 0.0, ADDED)
    assert worst_settled_delta(menu, rule.admits, 1.0, 3) < 1e-12
    refunded = [(asked.counts, [(1 - lie, lie, Spending()), (lie, 1 - lie, asked.counts)])]
    assert worst_settled_delta(refunded, rule.admits, 1.0, 3) > 0.3
    budget = PrivacyBudget(1.0, composition="added")
    budget.settle(budget.reserve(1.0, neighboring="add_remove"), NOTHING)
    assert budget.spent.epsilon == budget.ledger[0].epsilon == 1


def test_fits_of_parts_without_a_release_stay_at_the_joint_cost():
    budget = PrivacyBudget(**LIMITS, composition="added")
    parts = {"a": X[:9], "b": X[9:]}
    budget.parallel({name: (Planned(0.25, receipt=NOTHING), X) for name, X in parts.items()})
    assert budget.spent.epsilon == math.fsum(row.epsilon for row in budget.ledger) == 0.25


def histories(budget):
    """Charges of all kinds; each yields after one."""
    relation = {"neighboring": "add_remove"}
    budget.fit(NoisyLloyd(2, **BALL), X)
    yield
    budget.search(PEMeans(2, **BALL), {"n_clusters": [2, 3]}, X, epsilon=0.5)
    yield
    budget.fit(
        NeighborNoisyAverages(variant="paper", epsilon=1.0, radius=3.0, random_state=0),
        Xs=X,
        Xt=X + 0.1,
    )
    yield
    for kind in (Spender, Planned):
        budget.fit(kind(receipt=gaussians(0.01)), None)
        yield
        budget.fit(kind(), None)
        yield
    with pytest.raises(ValueError):
        budget.fit(Spender(act=lambda: int("x")), None)
    yield
    budget.reserve(0.3, 1e-7, **relation)
    yield
    budget.settle(budget.reserve(0.3, 1e-7, gaussian=True, **relation), gaussians(0.02))
    yield
    budget.settle(budget.reserve(0.3, 1e-7, gaussian=True, **relation), NOTHING)
    yield
    for fixed in (True, False):
        budget.charge(receipt=gaussians(0.05, 0.04, 0.03), fixed=fixed)
        yield
    with pytest.raises(RuntimeError):
        budget.fit(Spender(receipt=gaussians(0.4)), None)
    yield
    budget.parallel({"a": (NoisyLloyd(2, **BALL), X[:50]), "b": (NoisyLloyd(2, **BALL), X[50:])})
    yield


@everywhere
@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_added_rows_add_up_to_the_total(make, neighboring, tmp_path):
    """Mutation: a row shows its receipt, also where the stated pair counts."""
    budget = make(tmp_path, epsilon=1e3, delta=1e-2, composition="added", neighboring=neighboring)
    for _ in histories(budget):
        sums = [
            math.fsum(getattr(row, name) for row in budget.ledger) for name in ("epsilon", "delta")
        ]
        assert budget.spent == pytest.approx(sums, rel=1e-12)
    told = json.loads(json.dumps(budget.to_dict()))["charges"]
    assert [(one["epsilon"], one["delta"]) for one in told] == [row[4:6] for row in budget.ledger]


def test_rows_add_up_where_the_first_charge_leaves_addition_only():
    """A ledger that began as composed, and a pair that addition takes at another delta."""
    budget = PrivacyBudget(4.0, 1e-5)
    budget.charge(1.0, 2e-6)  # more than a sixteenth: composition is of no use
    budget.settle(budget.reserve(0.5, 1e-6, gaussian=True), gaussians(0.01, delta=1e-6))
    budget.settle(budget.reserve(0.5, 1e-6, gaussian=True), NOTHING)
    assert "spent, by plain addition" in str(budget)
    sums = [math.fsum(getattr(row, name) for row in budget.ledger) for name in ("epsilon", "delta")]
    assert (*budget.spent, *sums) == pytest.approx((1.5, 3e-6) * 2)


def test_composed_rows_show_what_counts():
    budget = PrivacyBudget(1e3, 1e-2)
    small, mu = gaussians(0.01), gaussian_mu(0.3, 1e-7)
    budget.settle(budget.reserve(0.3, 1e-7), small)  # no receipt counts
    budget.settle(budget.reserve(0.3, 1e-7, gaussian=True), small)
    budget.settle(budget.reserve(0.3, 1e-7, fixed=True), small)
    with pytest.raises(RuntimeError):
        budget.settle(budget.reserve(0.3, 1e-7, gaussian=True), gaussians(2 * mu))
    elsewhere = gaussians(1.5 * mu, delta=1e-3)  # its own pair has a smaller epsilon
    with pytest.raises(RuntimeError):
        budget.settle(budget.reserve(0.3, 1e-7, gaussian=True), elsewhere)
    assert elsewhere.epsilon < 0.3 and budget.ledger[4][4:6] == (0.3, 1e-3)
    shown = [row.epsilon for row in budget.ledger]
    assert shown[:3] == [0.3, small.epsilon, small.epsilon]
    assert shown[3] == budget.spendings[3].epsilon > 0.3


def test_the_two_rules_add_the_same_pairs():
    """As a user found it: 0.7071 where costs are added, 1 by plain addition where they are composed."""
    said = []
    for composition in ("added", "composed"):
        budget = PrivacyBudget(4.0, 1e-5, composition=composition)
        paper = NeighborNoisyAverages(variant="paper", epsilon=1.0, radius=3.0, random_state=0)
        budget.fit(paper, Xs=X, Xt=X + 0.1)
        budget.settle(budget.reserve(0.5, 1e-7, gaussian=True), gaussians(0.01))
        budget.charge(receipt=gaussians(0.05, 0.04))
        said.append(re.search(r"by plain addition: (epsilon = \S+)", str(budget))[1])
        quoted = budget.quote().added.epsilon
        assert f"epsilon = {budget.spendings[0].epsilon:.4g}" < said[-1] and quoted < 4
    assert said[0] == said[1]


# ---------------------------------------------------------------- what is said


STOPS = [KeyboardInterrupt(), SystemExit(3), MemoryError()]


@pytest.mark.parametrize("stop", STOPS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("how", ["fit", "search", "parallel"])
def test_a_stop_between_the_fit_and_its_receipt_says_what_was_charged(how, stop, tmp_path):
    budget = in_a_file(tmp_path, epsilon=20.0)
    calls = {
        "fit": lambda: budget.fit(PEMeans(2, **BALL), X),
        "search": lambda: budget.search(PEMeans(2, **BALL), {"n_clusters": [2, 3]}, X, epsilon=0.5),
        "parallel": lambda: budget.parallel({"a": (PEMeans(2, **BALL), X)}),
    }
    module = dplit.ledger.parallel if how == "parallel" else dplit.ledger.charging
    with mock.patch.object(module, "close_with", side_effect=stop):
        with pytest.raises(type(stop)) as raised:
            calls[how]()
    (note,) = raised.value.__notes__
    (row,) = budget.ledger
    assert note.startswith(
        f"The budget was charged epsilon = {row.epsilon:g}, delta = {row.delta:g} for"
    )
    assert row.state == "unsettled" and "the ledger shows entry 1 as unsettled" in note
    stop.__notes__.clear()


@pytest.mark.parametrize("more", [{}, {"receipt": gaussians(0.1)}])
def test_a_delta_is_refused_where_the_cost_states_its_own(more):
    budget, model = PrivacyBudget(**LIMITS), PEMeans(2, **BALL)
    with pytest.raises(TypeError, match="delta=1e-06: PEMeans states its own epsilon and delta"):
        budget.fits(model, 1e-6, **more)
    with pytest.raises(TypeError, match="delta=1e-06: a receipt states its own epsilon"):
        budget.fits(delta=1e-6, receipt=gaussians(0.1))
    assert budget.fits(model, **more) > 1 and budget.fits(1.0, 1e-6, **more) > 1


CALLED = {
    "reserve": lambda budget: budget.reserve(-1.0),
    "charge": lambda budget: budget.charge(0.1, label=5),
    "settle": lambda budget: budget.settle(1, "a receipt"),
    "fits": lambda budget: budget.fits(0.1, 2.0),
    "parallel": lambda budget: budget.parallel({}, label=5),
}


@pytest.mark.parametrize("name", CALLED)
def test_messages_name_the_class_that_users_know(name):
    with pytest.raises((TypeError, ValueError), match=rf"PrivacyBudget\.{name} needs"):
        CALLED[name](PrivacyBudget(**LIMITS))


@pytest.mark.parametrize("make", [in_memory, in_a_file])
def test_a_long_label_is_shortened_in_print_only(make, tmp_path):
    budget, long, short = make(tmp_path), "x" * 5000, "y" * 60
    budget.charge(0.1, label=long, name=long)
    budget.charge(0.1, label=short)
    for text in (str(budget), budget._repr_markdown_()):
        rows = [line for line in text.split("\n") if "xxx" in line or "yyy" in line]
        assert all(len(row) < 300 for row in rows) and "xxx..." in rows[0] and short in rows[1]
    assert budget.ledger[0].label == budget.to_dict()["charges"][0]["label"] == long


def test_labels_shift_classifiers_and_others_name_themselves_alike():
    """The name in a charge is that in the title of its receipt, or a fit would not be settled."""
    budget = PrivacyBudget(40.0, 1e-4, "replace")
    with warnings.catch_warnings(record=True, action="always") as said:
        budget.fit(LabelShiftClassifier(epsilon=1.0), X, Y, Xs=X, ys=Y, accept_doubts=True)
        budget.fit(MaxCoverKMeans(2, **BALL), X)
        budget.fit(CnvxAdap(**ADAPT, **REGRESSION), X, Y, **SOURCE, accept_doubts=True)
    assert not any("stays charged" in str(one.message) for one in said)
    assert [row.state for row in budget.ledger] == ["settled"] * 3
