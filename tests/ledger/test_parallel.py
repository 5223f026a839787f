"""Two relations in one budget, and several disjoint tables for one charge: proofs by brute force, failures, receipts."""

import dataclasses
import itertools
import math
import warnings
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from test_ledger import (
    FORK,
    LIMITS,
    Planned,
    Replacing,
    Spender,
    fail,
    gaussians,
    in_a_file,
    in_memory,
)

from dplit import (
    BoundedScaler,
    BudgetExceeded,
    CovariateShiftClassifier,
    CovariateShiftRegressor,
    KTupleKMeans,
    LabelShiftClassifier,
    NCnvxAdap,
    NeighborNoisyAverages,
    NoisyAverageSet,
    NoisyLloyd,
    PEMeans,
    PrivacyBudget,
)
from dplit.accounting import Receipt, Release, Spending, gaussian_delta, gaussian_mu, pure_mu
from dplit.inputs import overlap
from dplit.inputs.overlap import share_records
from dplit.ledger import parallel, penalised_distances, record_wise
from dplit.ledger.admission import Rule
from dplit.ledger.rules import _like, replaced, replaced_pair

everywhere = pytest.mark.parametrize("make", [in_memory, in_a_file])


class Gaussian(Spender):
    """All its noise is Gaussian."""

    states = {"is_upper_bound": True, "gaussian_only": True}


def honest(epsilon=0.25, delta=1e-7):
    return gaussians(gaussian_mu(epsilon, delta), delta=delta)


# ---------------------------------------------------------------- a group of two


def clipped_geometric(count, epsilon, most=4):
    decay = math.exp(-epsilon)
    inner = [(1 - decay) / (1 + decay) * decay ** abs(v - count) for v in range(1, most)]
    return np.array([decay**count / (1 + decay), *inner, decay ** (most - count) / (1 + decay)])


def law(table, epsilon, d):
    """Two counts by the geometric mechanism; with probability d in the clear."""
    counts = [table.count(value) for value in (0, 1)]
    clear = np.zeros((5, 5))
    clear[tuple(counts)] = d
    noisy = np.multiply.outer(*(clipped_geometric(count, epsilon) for count in counts))
    return np.concatenate([((1 - d) * noisy).ravel(), clear.ravel()])


def deltas(epsilon, d, at):
    """Largest delta at `at` for added or removed records, and for replaced ones, over all tables of up to 3."""
    tables = [t for n in range(4) for t in itertools.combinations_with_replacement((0, 1), n)]
    gap = lambda a, b: np.maximum(law(a, epsilon, d) - math.exp(at) * law(b, epsilon, d), 0).sum()  # noqa: E731
    added = [(t, (*t, x)) for t in tables for x in (0, 1)]
    added += [(b, a) for a, b in added]
    swapped = [((*t, x), (*t, 1 - x)) for t in tables for x in (0, 1)]
    return max(itertools.starmap(gap, added)), max(itertools.starmap(gap, swapped))


@pytest.mark.parametrize(("epsilon", "d"), [(0.3, 0.0), (0.6, 1e-3), (1.1, 0.05)])
def test_replacing_is_a_group_of_two_by_brute_force(epsilon, d):
    added, _ = deltas(epsilon, d, epsilon)
    assert added <= d + 1e-12
    twice, bound = replaced_pair(epsilon, added)
    assert deltas(epsilon, d, twice)[1] <= bound + 1e-12
    assert deltas(epsilon, d, 0.5 * twice)[1] > 1.1 * bound  # epsilon is not enough


@pytest.mark.parametrize("mu", [0.1, 0.5, 2.0])
def test_a_gaussian_group_of_two_is_twice_mu_and_no_less(mu):
    """A sum of numbers in [-1, 1]: one more record moves it by 1, one replaced by 2."""
    counted = replaced(Spending(1, mu**2, 0.0, 0.0, 1.0, gaussian_delta(1.0, mu), "add_remove"))
    assert counted.mu_squared == pytest.approx(4 * mu**2) and counted.neighboring == "replace"
    assert (counted.epsilon, counted.delta) == replaced_pair(1.0, gaussian_delta(1.0, mu))
    assert gaussian_delta(2.0, 2 * mu) <= counted.delta


def test_what_is_no_gaussian_is_counted_by_its_pair():
    assert replaced(Spending.claim(0.5, 1e-6)) == Spending.claim(1.0, 1e-6 * (1 + math.exp(0.5)), "replace")  # fmt: skip
    pure = replaced(Spending.claim(0.5))
    assert pure.mu_squared == pytest.approx(pure_mu(1.0) ** 2, rel=1e-9) and pure.delta == 0.0
    several = Spending.total([Spending.claim(0.5), Spending.claim(0.25)])
    assert replaced(several).mu_squared == 4 * several.mu_squared
    with pytest.raises(ValueError, match="reserve the cost of the whole fit"):
        replaced(Spending.total([Spending.claim(0.5, 1e-6)] * 2))


@everywhere
def test_a_fit_for_added_records_in_a_budget_for_replaced_ones(make, tmp_path):
    budget = make(tmp_path, neighboring="replace")
    budget.fit(Spender(), None)
    budget.fit(Gaussian(receipt=honest()), None)
    budget.fit(Replacing(), None)
    names = [row.estimator for row in budget.ledger]
    assert ["group of two" in name for name in names] == [True, True, False]
    pair = replaced_pair(0.25, 1e-7)
    assert [row[4:6] for row in budget.ledger] == [pytest.approx(pair)] * 2 + [(0.25, 1e-7)]
    one, two, three = budget.spendings
    assert one == Spending.claim(*pair, "replace")
    assert two.mu_squared == pytest.approx(4 * gaussian_mu(0.25, 1e-7) ** 2, rel=1e-9)
    assert three == Spending.claim(0.25, 1e-7, "replace") and budget.neighboring == "replace"
    assert budget.receipts[1].neighboring == "add_remove"  # as it was handed back
    assert str(budget) and budget.to_dict()["neighboring"] == "replace"


def test_guarantees_hold_in_the_other_relation_too():
    budget = PrivacyBudget(**LIMITS, neighboring="replace")
    with pytest.raises(RuntimeError, match="a bug was found"):
        budget.fit(Gaussian(receipt=honest(0.26)), None)
    told = 4 * gaussian_mu(0.26, 1e-7) ** 2
    assert budget.spendings[0].mu_squared >= told * (1 - 1e-9)
    with pytest.raises(RuntimeError, match="allows for Gaussian noise"):
        laplace = Receipt([Release("x", "laplace", epsilon=0.2)], "add_remove", 1e-7)
        budget.fit(Gaussian(receipt=laplace), None)
    budget = PrivacyBudget(**LIMITS, neighboring="replace")
    budget.fit(Planned(receipt=gaussians(0.01)), None)  # fixed, and not known to be Gaussian before
    assert budget.spendings[0] == Spending.claim(*replaced_pair(0.25, 1e-7), "replace")
    with pytest.raises(RuntimeError, match="a bug was found"):
        budget.fit(Replacing(receipt=gaussians(gaussian_mu(0.2, 1e-7))), None)  # twice 0.2 is more


def test_a_guarantee_for_replaced_records_says_nothing_of_added_ones():
    """It may publish how many there are."""
    budget = PrivacyBudget(**LIMITS)
    budget.charge(0.1, neighboring="add_remove")
    adapted = NCnvxAdap(epsilon=1.0, delta=1e-6, radius=1.0, weight_radius=1.0, classes=[0, 1])
    for model in (Replacing(), adapted):
        with pytest.raises(ValueError, match="implies none") as refused:
            budget.fit(model, None, None, None)
        assert 'charge(epsilon, delta, neighboring="add_remove")' in str(refused.value)
        assert 'neighboring="replace"' in str(refused.value) and "two budgets" not in str(refused.value)  # fmt: skip
    assert len(budget.ledger) == 1
    both = PrivacyBudget(**LIMITS, neighboring="replace")
    assert both.quote(PEMeans(2, epsilon=0.5, delta=1e-6, radius=1.0), adapted).admitted == 2


def test_receipts_told_afterwards_in_the_other_relation():
    budget = PrivacyBudget(**LIMITS, neighboring="replace")
    receipt = gaussians(0.1, 0.05)
    budget.charge(receipt=receipt)
    budget.charge(receipt=receipt, fixed=True)
    assert [s.mu_squared for s in budget.spendings] == pytest.approx([4 * 0.0125] * 2)
    doubled = PrivacyBudget(**LIMITS)
    for _ in range(2):
        doubled.charge(receipt=gaussians(0.2, 0.1), fixed=True)
    assert abs(budget.fits(receipt=receipt) - doubled.fits(receipt=gaussians(0.2, 0.1))) <= 1
    other = dataclasses.replace(receipt, neighboring="replace")
    budget.charge(receipt=other)
    assert budget.spendings[-1].mu_squared == pytest.approx(0.0125)
    own = Receipt([Release("x", "other", epsilon=0.1, delta=1e-8)] * 2, "add_remove", 1e-6)
    with pytest.raises(ValueError, match="reserve the cost"):
        budget.charge(receipt=own)
    budget.charge(receipt=own, fixed=True)
    assert len(budget.ledger) == 4


def test_how_many_fits_counts_the_group():
    model = PEMeans(2, epsilon=1.0, delta=1e-6, radius=1.0)
    rule = Rule(4.0, 1e-5, PrivacyBudget(1.0)._rule.shares)
    row = rule.counted(_like(model, 0.0, None), "replace")
    n = PrivacyBudget(4.0, 1e-5, "replace").fits(model)
    assert rule.admits(Spending.total([row.counts] * n), 1e-9) and 3 <= n <= 4
    assert n < PrivacyBudget(4.0, 1e-5).fits(model) / 3


# ---------------------------------------------------------------- disjoint tables


def parts(*epsilons, kind=Gaussian, **options):
    return {str(i): (kind(e, **options), [i]) for i, e in enumerate(epsilons)}


@everywhere
@pytest.mark.parametrize("neighboring", ["add_remove", "replace"])
def test_parts_cost_what_the_most_expensive_does(make, tmp_path, neighboring):
    budget, alone = make(tmp_path, neighboring=neighboring), PrivacyBudget(**LIMITS, neighboring=neighboring)  # fmt: skip
    fitted = budget.parallel(parts(0.5, 1.0, 0.25), label="by region")
    alone.fit(Gaussian(1.0), None)
    assert list(fitted) == ["0", "1", "2"] and [m.fits for m in fitted.values()] == [1, 1, 1]
    assert budget.spendings == alone.spendings and budget.spent == alone.spent
    assert budget.ledger[0].label == "by region" and "3 disjoint tables" in budget.ledger[0].estimator  # fmt: skip


def test_each_number_is_the_largest():
    """A Gaussian part with the larger pair and a part of another kind with the larger mu."""
    budget = PrivacyBudget(**LIMITS)
    wide, sharp = Gaussian(0.9), Spender(0.5)
    budget.parallel({"a": (wide, [1]), "b": (sharp, [2])})
    (row,) = budget.spendings
    assert row.epsilon == 0.9 and row.delta == 1e-7 and row.own == 1e-7
    assert row.mu_squared == pytest.approx(pure_mu(0.5) ** 2)
    assert row.mu_squared > gaussian_mu(0.9, 1e-7) ** 2


@everywhere
def test_the_ledger_keeps_a_receipt_of_each_part(make, tmp_path):
    budget = make(tmp_path)
    told = {"north": honest(0.25), "south": honest(0.2)}
    given = {name: (Gaussian(receipt=receipt), [name]) for name, receipt in told.items()}
    budget.parallel(given)
    assert budget.receipts == (None, *told.values()) and len(budget.ledger) == 3
    assert [row.epsilon for row in budget.ledger] == [0.25, 0.0, 0.0]
    assert budget.ledger[2].estimator == "part 'south' of entry 1"
    assert [s.fits for s in budget.spendings] == [1, 0, 0]
    again = PrivacyBudget.open(budget.path) if budget.path else budget
    assert again.spent == budget.spent and again.to_dict()["charges"][1]["receipt"]


@everywhere
@pytest.mark.parametrize("error", [ValueError("half-way"), KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_part_that_fails_leaves_all_charged(make, tmp_path, error, where):
    budget, given = make(tmp_path), parts(0.25, 0.5, 0.25)
    given[str(where)][0].act = fail(error)
    with pytest.raises(type(error)) as raised:
        budget.parallel(given)
    assert budget.ledger[0].state == "failed" and budget.ledger[0].epsilon == 0.5
    assert budget.spendings[0].mu_squared == pytest.approx(gaussian_mu(0.5, 1e-7) ** 2)
    assert list(raised.value.estimators_) == [str(i) for i in range(where)]
    notes = "\n".join(raised.value.__notes__)
    assert f"part '{where}'" in notes and "charged epsilon = 0.5" in notes
    assert [part[0].fits for part in given.values()] == [1] * (where + 1) + [0] * (2 - where)


@everywhere
def test_receipts_of_parts_before_a_failure_are_kept(make, tmp_path):
    """Without `failed=` of `charged` they were lost; a receipt above its part's cost counts here too."""
    budget, told = make(tmp_path), [honest(0.25), honest(0.2), gaussians(0.4)]
    broken = Gaussian()
    broken.act = fail(ValueError("half-way"))
    given = {str(i): (Gaussian(receipt=one), [i]) for i, one in enumerate(told)}
    with pytest.raises(ValueError, match="half-way"):
        budget.parallel({name: given[name] for name in "01"} | {"north": (broken, [3])})
    assert [row.state for row in budget.ledger] == ["failed", "settled", "settled"]
    assert budget.receipts == (None, *told[:2])
    assert budget.ledger[2].estimator == "part '1' of entry 1" and budget.ledger[2].epsilon == 0
    with pytest.raises(ValueError, match="half-way"):
        budget.parallel({"2": given["2"], "north": (broken, [3])})
    assert budget.spendings[3].mu_squared == pytest.approx(0.16)
    again = PrivacyBudget.open(budget.path) if budget.path else budget
    assert again.receipts == budget.receipts


@everywhere
def test_a_bug_in_a_part_before_a_failure_is_told(make, tmp_path):
    """The note said instead that the ledger could not be written, though it was."""
    budget, broken = make(tmp_path), Gaussian()
    broken.act = fail(ValueError("half-way"))
    with pytest.raises(ValueError, match="half-way") as raised:
        budget.parallel({"a": (Gaussian(receipt=gaussians(0.4)), [1]), "b": (broken, [2])})
    notes = " ".join(raised.value.__notes__)
    assert "part 'a': a bug was found" in notes and "could not be written" not in notes
    assert budget.ledger[0].state == "failed" and budget.spendings[0].mu_squared == pytest.approx(
        0.16
    )


SMALL = {"epsilon": 0.5, "delta": 1e-7}
ROW = np.array([[0.25, 0.5]])
CUT = {  # a table of the first n records of ROW
    "array": lambda n: ROW[:n],
    "pandas": lambda n: pd.DataFrame(ROW[:n], columns=["a", "b"]),
    "polars": lambda n: pl.DataFrame(ROW[:n], schema=["a", "b"]),
    "pyarrow": lambda n: pa.table({"a": ROW[:n, 0], "b": ROW[:n, 1]}),
    "dask": lambda n: pytest.importorskip("dask.array").from_array(ROW[:n]),
}


def piped():
    """A pipeline of record-wise steps."""
    halved = FunctionTransformer(record_wise(lambda row: row / 2))
    return make_pipeline(halved, BoundedScaler((0, 0), (1, 1)), PEMeans(2, **SMALL, radius=2**0.5))


def what_shows(run, n):
    """(type of the error, ledger, releases) of a charge whose table has n records."""
    budget = PrivacyBudget(2.0, 1e-5)
    with warnings.catch_warnings(record=True, action="always") as heard:
        try:
            run(budget, n)
            error = None
        except Exception as raised:
            error = type(raised), str(raised)
    rows = [(row.estimator, row.state, row.epsilon) for row in budget.ledger]
    told = [one and [(r.label, r.scale) for r in one.releases] for one in budget.receipts]
    return error, rows, told, [str(one.message) for one in heard]


CHARGES = {
    f"a part, {name}": lambda budget, n, cut=cut: budget.parallel(
        {
            "north": (NoisyLloyd(2, **SMALL, radius=1.0), cut(n)),
            "south": (PEMeans(2, **SMALL, radius=1.0), np.ones((5, 2)) / 2),
        }
    )
    for name, cut in CUT.items()
} | {
    "a fit": lambda budget, n: budget.fit(NoisyLloyd(2, **SMALL, radius=1.0), ROW[:n]),
    "a search": lambda budget, n: budget.search(
        PEMeans(2, **SMALL, radius=1.0), {"n_clusters": [1, 2]}, ROW[:n], epsilon=0.5
    ),
    "a search with a scorer": lambda budget, n: budget.search(
        PEMeans(2, **SMALL, radius=1.0),
        {"n_clusters": [1, 2]},
        ROW[:n],
        partial(penalised_distances, bound=4.0, gain=0.5),
        epsilon=0.5,
        bound=4.0,
    ),
    "a pipeline": lambda budget, n: budget.fit(piped(), ROW[:n]),
}


@pytest.mark.parametrize("how", CHARGES)
def test_one_record_does_not_decide_whether_there_is_an_answer(how):
    """Such a part was refused after the charge: with one record there was an answer, and other rows in the ledger."""
    none, one = (what_shows(CHARGES[how], n) for n in (0, 1))
    assert none == one and none[0] is None and none[1]


@pytest.mark.parametrize("cut", [*CUT.values(), lambda n: []], ids=[*CUT, "list"])
def test_a_public_number_of_records_that_is_zero_is_refused_before_the_charge(cut):
    budget = PrivacyBudget(2.0, 1e-5, neighboring="replace")
    with pytest.raises(ValueError, match="Pass at least one record"):
        budget.fit(NoisyLloyd(2, **SMALL, radius=1.0, neighboring="replace"), cut(0))
    assert not budget.ledger


def test_nothing_is_looked_at_unless_all_can_be_paid():
    budget, given = PrivacyBudget(1.0, 1e-6), parts(0.5, 1.2)
    with pytest.raises(BudgetExceeded, match="nothing was charged"):
        budget.parallel(given)
    wrong = NoisyLloyd(2, epsilon=0.5, delta=1e-7, radius=1.0, center=[0.0, 0.0])
    rows = np.zeros((9, 2))
    with pytest.raises(ValueError, match="center|columns|shape"):
        budget.parallel({"a": (Gaussian(), [1]), "b": (wrong, np.zeros((9, 3)))})
    assert not budget.ledger and not any(part[0].fits for part in given.values())
    budget.parallel({"a": (Gaussian(), [1]), "b": (wrong, rows)})
    assert len(budget.ledger) == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "disjoint tables"),
        ([(Gaussian(), [1])], "disjoint tables"),
        ({"a": Gaussian()}, "disjoint tables"),
        ({"a": (Gaussian(),)}, "disjoint tables"),
        ({"a": ()}, "disjoint tables"),
        ({"a": [Gaussian(), [1]]}, "disjoint tables"),
        ({"a": (Gaussian(), {})}, "Arguments by name go into a dictionary, the last element"),
        ({"a": (Gaussian(), [1], {1: [2]})}, "Arguments by name go into a dictionary"),
        ({"a": (Gaussian(), [1]), "b": (Gaussian(), {"X": [2], None: 3})}, "disjoint tables"),
        ({1: (Gaussian(), [1])}, "disjoint tables"),
        ({"a\n": (Gaussian(), [1])}, "disjoint tables"),
        ({"a": (Spender, [1])}, "is a class"),
        ({"a": (Gaussian(), [1]), "b": (Replacing(), [2])}, "no parameter `neighboring`"),
    ],
)
def test_impossible_parts_are_refused_before_the_charge(given, words):
    budget = PrivacyBudget(**LIMITS, neighboring="replace")
    with pytest.raises((TypeError, ValueError), match=words):
        budget.parallel(given)
    assert not budget.ledger


def test_one_table_or_one_estimator_twice():
    """What a program can see; two equal tables it cannot: that is what the caller promises."""
    budget, rows, model = PrivacyBudget(**LIMITS), np.zeros((9, 2)), Gaussian()
    with pytest.raises(
        ValueError, match="one table twice.*, in 'a' and in 'b'; .*budget.fit twice"
    ):
        budget.parallel({"a": (model, rows), "b": (Gaussian(), rows)})
    with pytest.raises(ValueError, match="one estimator twice"):
        budget.parallel({"a": (model, rows), "b": (model, rows.copy())})
    assert not budget.ledger
    budget.parallel({"a": (model, rows), "b": (Gaussian(), rows.copy())})


def test_a_receipt_above_its_part_is_a_bug_and_charged():
    budget = PrivacyBudget(**LIMITS)
    dear, small = gaussians(0.4), gaussians(gaussian_mu(0.3, 1e-7))
    with pytest.raises(RuntimeError, match="part 'b': a bug was found"):
        budget.parallel({"a": (Gaussian(receipt=honest()), [1]), "b": (Gaussian(receipt=dear), [2])})  # fmt: skip
    assert budget.spendings[0].mu_squared == pytest.approx(0.16)
    assert len(budget.ledger) == 3 and budget.ledger[0].state == "settled"
    budget = PrivacyBudget(**LIMITS)  # above its part, and below the most expensive one
    with pytest.raises(RuntimeError, match="part 'b': a bug was found"):
        budget.parallel({"a": (Gaussian(1.0), [1]), "b": (Gaussian(0.25, receipt=small), [2])})
    assert budget.spendings[0].mu_squared == pytest.approx(gaussian_mu(1.0, 1e-7) ** 2, rel=1e-9)


def joint(table, epsilons, d, split):
    """Law of all answers of parts that hold the values of `split`."""
    laws = np.ones(1)
    for epsilon, values in zip(epsilons, split, strict=True):
        part = [values.index(v) for v in table if v in values]
        laws = np.multiply.outer(laws, law(tuple(part), epsilon, d)).ravel()
    return laws


@pytest.mark.parametrize(
    ("split", "over"),
    [(((0, 1), (2, 3)), False), (((0, 1), (1, 2)), True)],  # value 1 in both: the promise is broken
)
@pytest.mark.parametrize("d", [0.0, 0.01])
def test_parallel_composition_by_brute_force(split, over, d):
    epsilons, values = (0.7, 0.4), sorted({*split[0], *split[1]})
    tables = [t for n in range(3) for t in itertools.combinations_with_replacement(values, n)]

    def worst(pairs, at):
        laws = [(joint(a, epsilons, d, split), joint(b, epsilons, d, split)) for a, b in pairs]
        return max(np.maximum(p - math.exp(at) * q, 0).sum() for p, q in laws)

    added = [pair for t in tables for x in values for pair in ((t, (*t, x)), ((*t, x), t))]
    reached = worst(added, 0.7)
    assert (reached > 0.1) if over else (reached <= d + 1e-12)
    replaced_ = [((*t, x), (*t, y)) for t in tables[:5] for x, y in itertools.permutations(values, 2)]  # fmt: skip
    twice, bound = replaced_pair(0.7, d)
    if not over:
        assert worst(replaced_, twice) <= bound + 1e-12
        assert worst(replaced_, 0.9 * twice) > bound  # attained within a part


def test_a_ledger_in_other_processes_takes_each_charge_once(tmp_path):
    path = tmp_path / "l.db"
    PrivacyBudget.open(path, 1.0, composition="added").close()

    def work(n):
        for _ in range(n):
            try:
                PrivacyBudget.open(path).parallel({"a": (Spender2(), [1]), "b": (Spender2(), [2])})
            except BudgetExceeded:
                return

    class Spender2(Spender):
        delta = 0.0

    workers = [FORK.Process(target=work, args=(9,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    budget = PrivacyBudget.open(path)
    assert sum(row.epsilon for row in budget.ledger) == 1.0 == budget.spent.epsilon


def test_with_real_estimators_of_several_kinds():
    rng = np.random.default_rng(0)
    budget = PrivacyBudget(3.0, 1e-5)
    shared = {"epsilon": 1.0, "delta": 1e-6, "radius": 6.0}
    fitted = budget.parallel(
        {
            "north": (PEMeans(2, **shared), rng.normal(-1, 1, (300, 2))),
            "south": (KTupleKMeans(2, **shared), rng.normal(2, 1, (300, 2))),
        }
    )
    assert all(model.spent_ for model in fitted.values()) and len(budget.ledger) == 3
    assert budget.ledger[0].estimator == "PEMeans and KTupleKMeans in 2 disjoint tables"
    assert budget.spent.epsilon <= 1.0 * (1 + 1e-9)


def test_parts_in_a_budget_for_persons():
    """Of Gaussian noise a person with 3 rows pays 3 mu; the receipts are told in that unit, and other units are refused."""
    budget = PrivacyBudget(**LIMITS, max_rows_per_person=3)
    given = parts(0.25, 0.5)
    given["1"][0].receipt = honest(0.5)
    budget.parallel(given)
    told = 9 * gaussian_mu(0.5, 1e-7) ** 2
    assert budget.spendings[0].mu_squared == pytest.approx(told, rel=1e-9)
    assert budget.receipts[1].max_rows_per_person == 3
    assert budget.quote(Gaussian(0.5)).spent == PrivacyBudget(**LIMITS, max_rows_per_person=3).quote(*[Gaussian(0.5)] * 2).spent  # fmt: skip
    with pytest.raises(ValueError, match="at most 3 rows"):
        # not Gaussian: its own unit must be the ledger's
        budget.parallel(parts(0.25, kind=Spender))
    with pytest.raises(ValueError, match="at most 3 rows"):
        budget.quote(Spender(0.25))
    assert len(budget.ledger) == 2


def test_views_of_one_table_are_not_disjoint():
    """Half of an array and the other half are; overlapping views, and a whole view, are refused before a charge."""
    budget, Z = PrivacyBudget(**LIMITS), np.random.default_rng(0).normal(size=(60, 2))
    for first, second in ((Z[:31], Z[30:]), (Z, Z[:])):
        with pytest.raises(ValueError, match="one table twice"):
            budget.parallel({"a": (Gaussian(0.1), first), "b": (Gaussian(0.1), second)})
    assert not budget.ledger
    budget.parallel({"a": (Gaussian(0.1), Z[:30]), "b": (Gaussian(0.1), Z[30:])})
    assert budget.ledger


def test_a_refusal_before_the_charge_says_which_part_it_is_about():
    X, mine = np.random.default_rng(0).normal(size=(60, 2)), PrivacyBudget(9.0, 1e-4)
    good = {"n_clusters": 2, "delta": 1e-6, "radius": 4.0}
    for model, table in (
        (PEMeans(epsilon=-1.0, **good), X[30:].copy()),
        (PEMeans(epsilon=1.0, **good), X[30:].astype(complex)),
    ):
        parts = {"north": (PEMeans(epsilon=1.0, **good), X[:30].copy()), "south": (model, table)}
        with pytest.raises(ValueError) as told:
            mine.parallel(parts)
        assert told.value.__notes__ == ["This is about the part 'south'; nothing was charged."]
    assert not mine.ledger


# ---------------------------------------------------------------- views of one table


def frames(library, words=False):
    """A table with one column of numbers and one of words or numbers, and how its library cuts rows a to b."""
    cells = {
        "x": np.arange(60.0),
        "y": [f"word {i}" for i in range(60)] if words else np.arange(60),
    }
    frame = pd.DataFrame(cells)
    if library == "polars":
        return pl.DataFrame(cells), lambda t, a, b: t[a:b]
    if library == "pyarrow":
        return pa.table(cells), lambda t, a, b: t.slice(a, b - a)
    cut = lambda t, a, b: t.iloc[a:b]  # noqa: E731
    if library == "pandas, arrow":
        return frame.convert_dtypes(dtype_backend="pyarrow"), cut
    return (frame.convert_dtypes(dtype_backend="numpy_nullable") if "masked" in library else frame), cut  # fmt: skip


LIBRARIES = "pandas", "pandas, masked", "pandas, arrow", "polars", "pyarrow"


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("words", [False, True])
def test_views_that_overlap_are_refused_and_halves_are_not(library, words):
    """By addresses alone: what the buffers hold plays no part."""
    table, cut = frames(library, words)
    same = lambda *two: share_records(*two)  # noqa: E731
    assert same(cut(table, 0, 31), cut(table, 30, 60)) and same(table, cut(table, 59, 60))
    assert not same(cut(table, 0, 30), cut(table, 30, 60))
    assert not same(cut(table, 0, 0), table) and not same(table, frames(library, words)[0])
    one = (lambda t: t.select(["y"])) if library in ("polars", "pyarrow") else (lambda t: t[["y"]])
    if not (words and library == "pandas, masked"):  # its words lie in an array of objects
        assert same(one(table), cut(table, 9, 20)) and same(cut(one(table), 0, 9), table)
    assert not same(one(cut(table, 0, 30)), one(cut(table, 30, 60)))


def test_views_are_recognized_between_libraries_and_as_labels():
    table, _ = frames("polars")
    assert share_records(table, table["x"].to_numpy()[:, None])
    assert share_records(table["x"][:9], table[8:]) and not share_records(table["x"][:8], table[8:])  # fmt: skip
    parts = {"a": (Gaussian(), [1], table["x"][:9]), "b": (Gaussian(), [2], table["x"][8:])}
    budget = PrivacyBudget(**LIMITS)
    with pytest.raises(ValueError, match="one table twice, or two views of one"):
        budget.parallel(parts)
    assert not budget.ledger
    # within a part nothing is compared: its labels may be a column of its table
    frame = pd.DataFrame({"x": np.arange(9.0)})
    plan, _ = parallel._planned({"a": (Gaussian(), frame, frame["x"]), "b": (Gaussian(), [2])}, 1)
    assert [name for name, *_ in plan] == ["a", "b"]


def test_what_a_library_does_not_show_is_not_compared():
    lists = pl.DataFrame({"x": [[1], [2]]})
    assert not share_records(lists, lists.clone())
    with warnings.catch_warnings(action="error"):  # no schema of a lazy frame is resolved
        assert not share_records(pl.LazyFrame({"x": [1]}), pl.LazyFrame({"x": [1]}))
    bits = pl.DataFrame({"x": [True, False] * 9})
    assert not share_records(bits[:9], bits[9:])  # they share a byte, and no record


def test_an_estimator_of_one_relation_is_not_advised_another():
    """NCnvxAdap protects replaced records and has no parameter for that."""
    given = {"epsilon": 1.0, "delta": 1e-6, "radius": 1.0, "weight_radius": 1.0, "classes": [0, 1]}
    budget, rows = PrivacyBudget(**LIMITS), np.zeros((4, 2))
    budget.charge(0.1, neighboring="add_remove")
    with pytest.raises(ValueError, match="no parameter `neighboring`, so keep one budget") as told:
        budget.fit(NCnvxAdap(**given), rows, [0, 1, 0, 1], Xs=rows, ys=[0, 1, 0, 1])
    assert "Fit it with" not in str(told.value)
    with pytest.raises(ValueError, match="call budget.fit for each table") as told:
        budget.parallel({"a": (NCnvxAdap(**given), rows), "b": (NCnvxAdap(**given), rows.copy())})
    assert "Give each part" not in str(told.value)
    other = PEMeans(2, epsilon=0.1, delta=1e-7, radius=1.0, neighboring="replace")
    with pytest.raises(ValueError, match='Fit it with neighboring="add_remove", or keep'):
        budget.fit(other, rows)
    with pytest.raises(ValueError, match='Fit it with neighboring="add_remove", or keep'):
        budget.search(other, {"n_clusters": [1, 2]}, rows, epsilon=0.1)
    assert len(budget.ledger) == 1


# ---------------------------------------------------------------- columns of one table


def test_ranges_of_rows_meet_as_sets_do():
    rng = np.random.default_rng(0)
    for _ in range(20_000):
        one, other = (
            range(*rng.integers(-9, 30, 2).tolist(), int(rng.choice([-5, -3, -2, -1, 1, 2, 3, 6])))
            for _ in range(2)
        )
        assert overlap._meet(one, other) == bool({*one} & {*other}), (one, other)


VIEWS = {  # of ten rows: two views, and whether a row is in both
    "columns": (lambda X: (X[:, :1], X[:, 1:]), True),
    "halves": (lambda X: (X[:5], X[5:]), False),
    "every other row": (lambda X: (X[::2], X[1::2]), False),
    "other columns of halves": (lambda X: (X[:5, :1], X[5:, 1:]), False),
    "other columns, one row": (lambda X: (X[:5, :1], X[4:, 1:]), True),
    "backward": (lambda X: (X[::-1][:5, :1], X[:5, 1:]), False),
    "backward, all": (lambda X: (X[::-1, :1], X[:, 1:]), True),
    "second and third": (lambda X: (X[::2, :1], X[::3, 1:]), True),
}


def check_charged_unless(same, *views):
    """Parts that show the same rows are refused before a charge; disjoint ones are fitted."""
    budget = PrivacyBudget(2.0, 1e-5)
    given = {n: (NoisyLloyd(1, **SMALL, radius=1.0), X) for n, X in zip("ab", views, strict=True)}
    if same:
        with pytest.raises(ValueError, match="two views of one"):
            budget.parallel(given)
        assert not budget.ledger
    else:
        assert len(budget.parallel(given)) == 2


@pytest.mark.parametrize("how", VIEWS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_columns_of_one_array_are_not_disjoint(how, order):
    """Both parts would read every person, for the cost of one."""
    cut, same = VIEWS[how]
    check_charged_unless(same, *cut(np.full((10, 3), 0.5, order=order)))


def loaded(table, folder):
    np.save(folder / "x.npy", table)
    return np.load(folder / "x.npy")


def test_a_part_without_rows_shares_none():
    """Mutation: what shows no row is said to show the first."""
    table = np.full((10, 3), 0.5)
    check_charged_unless(False, table[:0], table[:5, :2])
    check_charged_unless(False, table[:5], table[:0, 1:])


def test_rows_that_are_one_row_of_memory_are_not_disjoint():
    """Mutation: a width of 0 is divided by."""
    table = np.lib.stride_tricks.as_strided(np.full(3, 0.5), (10, 3), (0, 0))
    check_charged_unless(True, table[:5], table[5:])


OWNERS = {  # of memory that has no rows of its own
    "a file": loaded,
    "one column of memory": lambda table, folder: table.ravel().copy().reshape(table.shape),
    "a buffer": lambda table, folder: np.frombuffer(table.tobytes()).reshape(table.shape),
    "three axes": lambda table, folder: table.reshape(2, 5, 3).copy().reshape(10, 3),
}


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("how", VIEWS)
def test_columns_of_memory_without_rows_are_not_disjoint(owner, how, tmp_path):
    """Mutation: only an array that owns its memory as a table is looked at. Halves pass, and what cannot be told is refused."""
    table = OWNERS[owner](np.full((10, 3), 0.5), tmp_path)
    views = VIEWS[how][0](table)
    has_rows = overlap._base_of(table).ndim == 2  # of a file too, before numpy 2.1
    assert share_records(*views) == (VIEWS[how][1] if has_rows else how != "halves")
    # Mutation: one part of whole rows is enough
    assert share_records(table[:5], table[5:, :2]) == (not has_rows)


# ---------------------------------------------------------------- maps of one file


def two_maps(table, folder, order="C"):
    np.save(folder / "x.npy", np.asarray(table, order=order))
    return [np.load(folder / "x.npy", mmap_mode="r") for _ in range(2)]


@pytest.mark.parametrize("how", VIEWS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_two_maps_of_one_file_are_two_views_of_one_table(how, order, tmp_path):
    """Mutation: only addresses in memory are compared, which differ."""
    one, other = two_maps(np.full((10, 3), 0.5), tmp_path, order)
    cut, same = VIEWS[how]
    first, second = cut(one)[0], cut(other)[1]
    assert not np.shares_memory(first, second)
    check_charged_unless(same, first, second)


def at_offset(folder, row, n, columns=3, dtype=float):
    return np.memmap(folder / "x", dtype, "r", offset=row * 24, shape=(n, columns))


MAPS = {  # of ten rows of a raw file: two maps, and whether a row is in both
    "rows in both": (lambda at: (at(0, 6), at(5, 5)), True),
    "disjoint rows": (lambda at: (at(0, 5), at(5, 5)), False),
    "disjoint, the later first": (lambda at: (at(5, 5), at(0, 5)), False),
    "other columns of rows in both": (lambda at: (at(0, 6)[:, :1], at(5, 5)[:, 1:]), True),
    "other columns of disjoint rows": (lambda at: (at(0, 5)[:, :1], at(5, 5)[:, 1:]), False),
    "a slice that is disjoint": (lambda at: (at(0, 8)[:4], at(4, 6)), False),
    "every other row": (lambda at: (at(0, 10)[::2], at(1, 9)[::2]), False),
    "every other row, backward": (lambda at: (at(0, 10)[::-2], at(1, 9)[::2]), True),
    "another type": (lambda at: (at(0, 6), at(5, 5, 6, np.float32)), True),
    "another type of disjoint rows": (lambda at: (at(0, 5), at(5, 5, 6, np.float32)), False),
    "another width": (lambda at: (at(0, 5)[:, :1], at(0, 5, 6, np.float32)[:, 4:]), True),
    "as an array": (lambda at: (np.asarray(at(0, 6)), at(5, 5)), True),
    "labels": (lambda at: (at(0, 10)[:, 0], at(9, 1)), True),
    "a frame": (lambda at: (pd.DataFrame(at(0, 6), copy=False), at(5, 5)), True),
    "frames of disjoint rows": (lambda at: (pd.DataFrame(at(0, 5), copy=False), at(5, 5)), False),
    "a copy": (lambda at: (at(0, 6).copy(), at(5, 5)), False),
}


@pytest.mark.parametrize("how", MAPS)
def test_maps_are_compared_by_their_place_in_the_file(how, tmp_path):
    """Mutations: the offset of a map is forgotten, or that of a view in its map; only arrays themselves, and not frames, are compared."""
    np.arange(30.0).tofile(tmp_path / "x")
    make, same = MAPS[how]
    assert share_records(*make(partial(at_offset, tmp_path))) == same


def test_a_file_is_known_by_other_names_and_another_file_is_another(tmp_path):
    np.arange(30.0).tofile(tmp_path / "x")
    (tmp_path / "link").symlink_to(tmp_path / "x")
    (tmp_path / "hard").hardlink_to(tmp_path / "x")
    (tmp_path / "other").write_bytes((tmp_path / "x").read_bytes())
    one = at_offset(tmp_path, 0, 10)
    for name, same in (("link", True), ("hard", True), ("other", False)):
        assert share_records(one, np.memmap(tmp_path / name, float, "r", shape=(10, 3))) == same
    two = at_offset(tmp_path, 5, 5)
    (tmp_path / "x").unlink()
    # what a name that is gone stood for cannot be told
    assert share_records(one[:5], two)


# ---------------------------------------------------------------- estimators inside


def columns(order, seed):
    """A table in the unit square whose two columns differ, in either order."""
    cells = np.random.default_rng(seed).random((60, 2)) * [1.0, 0.2]
    return pd.DataFrame(cells, columns=["a", "b"])[list(order)]


def scaler():
    return BoundedScaler({"a": 0, "b": 0}, {"a": 1, "b": 0.2})


def narrow():
    return BoundedScaler({"a": 0}, {"a": 1})


def lloyd():
    return NoisyLloyd(2, **SMALL, radius=2**0.5, random_state=0)


def split(one):
    return ColumnTransformer([("cells", one, ["a", "b"])])


INSIDE = {  # what two parts share, and how each part contains it
    "a last step": (lloyd, *[lambda one: make_pipeline(scaler(), one)] * 2),
    "a scaler": (scaler, *[lambda one: make_pipeline(one, lloyd())] * 2),
    "a ColumnTransformer": (
        lambda: split(scaler()),
        *[lambda one: make_pipeline(one, lloyd())] * 2,
    ),
    "a step of two ColumnTransformers": (
        scaler,
        *[lambda one: make_pipeline(split(one), lloyd())] * 2,
    ),
    "a scaler, and a step of a ColumnTransformer": (
        scaler,
        lambda one: make_pipeline(one, lloyd()),
        lambda one: make_pipeline(split(one), lloyd()),
    ),
    "what remains": (
        lambda: BoundedScaler({"b": 0}, {"b": 0.2}),
        *[
            lambda one: make_pipeline(
                ColumnTransformer([("a", narrow(), ["a"])], remainder=one), lloyd()
            )
        ]
        * 2,
    ),
    "an estimator, and a pipeline": (
        lloyd,
        lambda one: one,
        lambda one: make_pipeline(scaler(), one),
    ),
    "a pipeline, and an estimator": (
        lloyd,
        lambda one: make_pipeline(scaler(), one),
        lambda one: one,
    ),
    "a pipeline, and a pipeline of it": (
        lambda: make_pipeline(scaler(), lloyd()),
        lambda one: one,
        lambda one: make_pipeline("passthrough", one),
    ),
    "a last step of nested pipelines": (
        lloyd,
        lambda one: make_pipeline("passthrough", make_pipeline(scaler(), one)),
        lambda one: make_pipeline(scaler(), one),
    ),
    "a step of nested pipelines": (
        scaler,
        lambda one: make_pipeline(make_pipeline("passthrough", one), lloyd()),
        lambda one: make_pipeline("passthrough", make_pipeline(one, lloyd())),
    ),
}


CLONED = {  # a ColumnTransformer fits clones of its parts
    "a step of two ColumnTransformers",
    "a scaler, and a step of a ColumnTransformer",
    "what remains",
}


@pytest.mark.parametrize("what", INSIDE)
def test_an_estimator_inside_two_parts_is_refused_and_a_clone_is_answered(what):
    """Mutations: only the outer objects are compared; only steps, and not the estimator itself. One result was lost, or columns were mixed up."""
    make, *around = INSIDE[what]
    one, budget = make(), PrivacyBudget(4.0, 1e-5)
    north, south = (wrap(one) for wrap in around)
    tables = [columns("ab", 0), columns("ba", 1)]
    models, name = [north, south], type(one).__name__
    if what not in CLONED:
        with pytest.raises(
            ValueError, match=rf"one estimator twice, .* the same {name} .*clone\(pipe"
        ):
            budget.parallel({"north": (north, tables[0]), "south": (south, tables[1])})
        assert not budget.ledger and not any(hasattr(last_of(m), "spent_") for m in models)
        models = [clone(north), clone(south)]
    fitted = budget.parallel(dict(zip("ab", zip(models, tables, strict=True), strict=True)))
    alone = [clone(m).fit(t) for m, t in zip(models, tables, strict=True)]
    for model, other, table in zip(fitted.values(), alone, tables, strict=True):
        assert np.array_equal(last_of(model).cluster_centers_, last_of(other).cluster_centers_)
        assert np.array_equal(model.predict(table), other.predict(table))


def last_of(model):
    return last_of(model[-1]) if hasattr(model, "steps") else model


def test_one_model_of_the_source_may_be_in_two_parts():
    """An estimator of ours clones it. Mutation: every estimator among the parameters is compared."""
    source, budget = LogisticRegression(), PrivacyBudget(4.0, 1e-5)
    make = lambda model: LabelShiftClassifier(model, epsilon=1.0, random_state=0)  # noqa: E731
    given = {"a": labeled(8), "b": labeled(9)}
    parts = {
        name: (make(source), X, y, {"Xs": X.copy(), "ys": y.copy()})
        for name, (X, y) in given.items()
    }
    found = budget.parallel(parts)
    for name, (X, y) in given.items():
        alone = make(LogisticRegression()).fit(X, y, Xs=X.copy(), ys=y.copy())
        assert np.array_equal(found[name].predict(X), alone.predict(X))
    piped = {n: (make_pipeline(BoundedScaler(0, 1), p[0]), *p[1:3], {f"labelshiftclassifier__{k}": v for k, v in p[3].items()}) for n, p in parts.items()}  # fmt: skip
    assert len(PrivacyBudget(4.0, 1e-5).parallel(piped)) == 2


def test_what_another_package_keeps_inside_is_compared():
    """Whether its fit changes it is not known."""
    budget, inner = PrivacyBudget(4.0, 1e-5), LogisticRegression()
    tables = np.full((9, 2), 0.5), np.full((9, 2), 0.4)
    parts = {name: (Choosing(kind=inner), X) for name, X in zip("ab", tables, strict=True)}
    with pytest.raises(ValueError, match="the same LogisticRegression object"):
        budget.parallel(parts)
    assert not budget.ledger


class Choosing(Spender):
    """Takes anything as a parameter."""

    def __init__(self, epsilon=0.25, act=None, receipt=None, kind=None):
        super().__init__(epsilon, act, receipt)
        self.kind = kind


HARMLESS = {
    "a class": lambda: (Choosing(kind=PEMeans), Choosing(kind=PEMeans)),
    "a string": lambda: (make_pipeline("passthrough", lloyd()), make_pipeline("passthrough", lloyd())),
    "a function": lambda: tuple(
        make_pipeline(FunctionTransformer(f), lloyd()) for f in [record_wise(np.sqrt)] * 2
    ),
    "one step twice in one part": lambda: (make_pipeline(*[BoundedScaler((-1, -1), (1, 1))] * 2, lloyd()), lloyd()),
}  # fmt: skip


@pytest.mark.parametrize("what", HARMLESS)
def test_what_is_no_estimator_may_be_in_two_parts(what):
    """Mutation: classes, strings or functions are taken for estimators; or steps are compared within a part."""
    budget = PrivacyBudget(**LIMITS)
    budget.parallel(
        {name: (m, np.full((9, 2), 0.5)) for name, m in zip("ab", HARMLESS[what](), strict=True)}
    )
    assert budget.ledger


def test_a_frozen_estimator_may_be_in_two_parts():
    """Its fit does nothing, and a clone would be the same object. Mutation: what is inside it is compared."""
    X, y = labeled(9)
    frozen, budget = FrozenEstimator(LogisticRegression().fit(X, y)), PrivacyBudget(4.0, 1e-5)
    for models in ([frozen, frozen], [frozen, FrozenEstimator(frozen.estimator)]):
        parts = {
            str(seed): (LabelShiftClassifier(m, epsilon=1.0), *labeled(seed), {"Xs": X, "ys": y})
            for seed, m in enumerate(models)
        }
        assert len(budget.parallel(parts)) == 2


# ---------------------------------------------------------------- tables by name


def labeled(seed, n=80):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.5
    return (rng.normal(size=(n, 2)) + 2 * y[:, None]) / 4, y.astype(int)


def points(seed):
    return np.random.default_rng(seed).random((300, 2))


SHIFTS = {"label": LabelShiftClassifier, "classes": CovariateShiftClassifier, "numbers": CovariateShiftRegressor}  # fmt: skip
SOURCES = {"set": NoisyAverageSet, "averages": NeighborNoisyAverages}


def adapted(how, **options):
    if how == "label":
        return LabelShiftClassifier(epsilon=1.0, random_state=0, **options)
    if how in SOURCES:
        options |= {"radius": 1.0, "center": [0.5, 0.5]} | ({"t": 3} if how == "set" else {})
    return (SHIFTS | SOURCES)[how](epsilon=1.0, delta=1e-7, random_state=0, **options)


def by_name(how):
    """Two parts whose PUBLIC table is the same object."""
    if how in SOURCES:
        public = points(9)
        return [(adapted(how), {"Xs": points(seed), "Xt": public}) for seed in (1, 2)]
    X, y = labeled(9)
    return [(adapted(how), labeled(seed)[0], {"Xs": X, "ys": y}) for seed in (1, 2)]


def piped_by_name(how, nested=False):
    parts, found = by_name(how), []
    for model, table, given in parts:
        model, key = make_pipeline(BoundedScaler((-2, -2), (2, 2)), model), type(model).__name__
        key = f"{key.lower()}__"
        if nested:
            model, key = make_pipeline("passthrough", model), f"pipeline__{key}"
        found.append((model, table, {key + name: value for name, value in given.items()}))
    return found


def released(model):
    return {k: v for k, v in vars(last_of(model)).items() if isinstance(v, np.ndarray)}


FORMS = {f"{how}, by name": partial(by_name, how) for how in (*SHIFTS, *SOURCES)}
FORMS |= {f"{how}, piped": partial(piped_by_name, how) for how in SHIFTS}
FORMS |= {f"{how}, nested": partial(piped_by_name, how, nested=True) for how in SHIFTS}


@pytest.mark.parametrize("form", FORMS)
def test_tables_by_name_are_fitted_as_in_separate_fits(form):
    """One charge, and a public table for both parts. Mutations: tables by name are not passed on; every table is compared."""
    budget, several = PrivacyBudget(4.0, 1e-5), PrivacyBudget(9.0, 1e-5)
    fitted = budget.parallel(dict(zip("ab", FORMS[form](), strict=True)))
    for model, (other, *tables) in zip(fitted.values(), FORMS[form](), strict=True):
        several.fit(other, *tables[:-1], **tables[-1])
        expected = released(other)
        assert expected and {*expected} == {*released(model)}
        assert all(np.array_equal(expected[k], v) for k, v in released(model).items())
    assert budget.spent.epsilon < several.spent.epsilon and len(budget.ledger) == 3
    assert all(one is not None for one in budget.receipts[1:])


def with_private(how, form):
    """Two parts that share a PRIVATE table: the second gives it by position or by name, as a view, or as its PUBLIC one."""
    (one, *tables), (two, *others) = by_name(how)
    table = tables[-1]["Xs"] if how in SOURCES else tables[0]
    if form == "a view":
        table = table[5:]
    if form == "public there":
        others[-1] = others[-1] | {"Xt" if how in SOURCES else "Xs": table}
        if how not in SOURCES:
            others[-1]["ys"] = np.arange(len(table)) % 2
    elif how in SOURCES:
        others[-1] = others[-1] | {"Xs": table}
    elif form == "by name":
        others = [others[-1] | {"Xt": table}]
    else:
        others[0] = table
    return {"a": (one, *tables), "b": (two, *others)}


@pytest.mark.parametrize("form", ["as it is", "by name", "a view", "public there"])
@pytest.mark.parametrize("how", [*SHIFTS, *SOURCES])
@pytest.mark.parametrize("turned", [False, True])
def test_a_table_that_one_part_protects_is_in_no_other(how, form, turned):
    """Mutations: tables by name are not compared; only pairs that both parts protect are."""
    budget, given = PrivacyBudget(4.0, 1e-5), with_private(how, form)
    if turned:
        given = dict(reversed(given.items()))
    with pytest.raises(ValueError, match="one table twice, .*take as PUBLIC may be in both"):
        budget.parallel(given)
    assert not budget.ledger


@pytest.mark.parametrize("named", [False, True])
def test_labels_are_as_private_as_their_table(named):
    """Those of the target differ, those of a public source need not."""
    (X, y), (Xs, ys), budget = labeled(1), labeled(9), PrivacyBudget(4.0, 1e-5)
    for labels, same in ((y, True), (y[:], True), (y.copy(), False)):
        given = {"Xs": Xs, "ys": ys}
        other = (labeled(2)[0], given | {"yt": labels}) if named else (labeled(2)[0], labels, given)
        parts = {"a": (adapted("label"), X, y, given), "b": (adapted("label"), *other)}
        if same:
            with pytest.raises(ValueError, match="one table twice"):
                budget.parallel(parts)
            assert not budget.ledger
        else:
            assert len(budget.parallel(parts)) == 2


class Silent(Spender):
    """Says nothing about its tables."""

    seen = ()

    def fit(self, Xt, Xs=None, ys=None, *more, yt=None, **others):
        self.seen = Xt, Xs, ys, more, yt, others
        return self


class Saying(Silent):
    """Says which of its tables are PRIVATE; a public one may be passed by position."""

    _private_tables = ("Xt",)


class SilentLast(Spender):
    """May be the last step of a pipeline, which passes X and y by position."""

    def fit(self, Xt, y=None, *, Xs=None, yt=None):
        return self


class Last(SilentLast):
    _private_tables = ("Xt",)


class Other(SilentLast):
    _private_tables = ("Xs",)


class Labeled(Spender):
    _private_tables = ("X",)

    def fit(self, X, y=None, *, T=None):
        return self


T = [[0.5]]  # a table
ROLES = {  # an estimator, what two parts share, and whether it is refused
    "public by position": (Saying, (T,), {}, False),
    "public by name": (Saying, (), {"Xs": T, "ys": [1]}, False),
    "private labels": (Saying, (), {"yt": T}, True),
    "a table without a name": (Saying, ([1], [2], T), {}, True),
    "a name that fit does not list": (Saying, (), {"Z": T}, True),
    "names of what takes the rest": (Saying, (), {"more": T}, True),
    "and of what takes other names": (Saying, (), {"others": T}, True),
    "nothing is said": (Silent, (T,), {}, True),
    "nothing is said, by name": (Silent, (), {"Xs": T}, True),
    "numbers and words": (Silent, (), {"Xs": 3, "ys": True, "p": "words", "q": None, "r": 0.5}, False),
    "labels of X": (Labeled, (T,), {}, True),
    "labels of X by name": (Labeled, (), {"y": T}, True),
    "another public table": (Labeled, (), {"T": T}, False),
}  # fmt: skip


@pytest.mark.parametrize("role", ROLES)
def test_what_is_not_known_to_be_public_differs(role):
    """Mutations: what takes the rest, or its contents, count as public; labels do; an estimator that says nothing protects nothing; numbers are tables."""
    kind, args, kwargs, refused = ROLES[role]
    if "without a name" not in role:
        shared = [(args, kwargs)] * 2
    else:
        shared = [(([1], [2], T), {}), (([3], [4], T), {})]
    given = {n: (kind(), [n], *a, k) for n, (a, k) in zip("ab", shared, strict=True)}
    budget = PrivacyBudget(**LIMITS)
    if refused:
        with pytest.raises(ValueError, match="one table twice"):
            budget.parallel(given)
        assert not budget.ledger
    else:
        assert len(budget.parallel(given)) == 2


def test_arguments_are_passed_on_as_they_are():
    """One dictionary may serve two parts, and stays as it is."""
    given = {"Xs": [[2.0]], "Z": 3}
    parts = {"a": (Saying(), [1], given), "b": (Saying(), {"Xt": [2], **given})}
    with pytest.raises(ValueError, match="one table twice"):
        PrivacyBudget(**LIMITS).parallel({n: (*part[:-1], part[-1] | {"Z": T}) for n, part in parts.items()})  # fmt: skip
    fitted = PrivacyBudget(**LIMITS).parallel(parts)
    assert fitted["a"].seen == ([1], [[2.0]], None, (), None, {"Z": 3})
    assert fitted["b"].seen == ([2], [[2.0]], None, (), None, {"Z": 3})
    assert given == {"Xs": [[2.0]], "Z": 3}


def test_public_tables_of_pipelines():
    """By position all differ, and so do tables by name where the last step says nothing."""
    X, others, budget = points(1), points(2), PrivacyBudget(**LIMITS)
    same = lambda model: make_pipeline(FunctionTransformer(record_wise(np.copy)), model)  # noqa: E731

    for kind, key, refused in ((Last, "Xs", False), (Last, "yt", True), (SilentLast, "Xs", True)):
        given = {
            n: (same(kind()), table, {f"{kind.__name__.lower()}__{key}": T})
            for n, table in (("a", X), ("b", others))
        }
        if refused:
            with pytest.raises(ValueError, match="one table twice"):
                budget.parallel(given)
        else:
            assert len(budget.parallel(given)) == 2
    assert len(budget.ledger) == 1
    with pytest.raises(ValueError, match="one table twice"):  # y of a pipeline is by position
        budget.parallel({n: (same(Last()), X.copy(), T) for n in "ab"})
    with pytest.raises(ValueError, match="one table twice"):
        budget.parallel({n: (same(Last()), {"X": X}) for n in "ab"})
    # public where it is fitted alone, and a pipeline's table
    own = {n: (Other(), X, {"Xs": table}) for n, table in (("a", X.copy()), ("b", others))}
    assert len(budget.parallel(own)) == 2
    with pytest.raises(ValueError, match="one table twice"):
        budget.parallel({n: (same(model), table) for n, (model, table, _) in own.items()})
    assert len(budget.ledger) == 2


def broken(how, change):
    parts = dict(zip(("north", "south"), by_name(how), strict=True))
    model, *tables, given = parts["south"]
    parts["south"] = (model, *tables, change(given))
    return parts


MISTAKES = {
    "a source is missing": ("label", lambda g: {"Xs": g["Xs"]}, "ys"),
    "everything by name is missing": ("classes", lambda g: {}, "Xs"),
    "an unknown name": ("label", lambda g: g | {"Z": T}, "Z"),
    "a table twice": (
        "numbers",
        lambda g: g | {"Xt": points(3)},
        "multiple values for argument 'Xt'",
    ),
    "other columns": ("label", lambda g: g | {"Xs": g["Xs"][:, :1]}, "columns"),
    "a target is missing": ("averages", lambda g: {"Xs": g["Xs"]}, "two tables by name"),
    "a target with a gap": ("averages", lambda g: g | {"Xt": [[0.5, np.nan]]}, "Xt"),
    "a target far away": ("averages", lambda g: g | {"Xt": points(3) + 99}, "outside"),
    "its own private table": ("averages", lambda g: g | {"Xt": g["Xs"]}, "one table"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_tables_by_name_are_refused_before_the_charge(mistake):
    """Mutation: `check_fit` is called without them."""
    how, change, words = MISTAKES[mistake]
    budget = PrivacyBudget(4.0, 1e-5)
    with pytest.raises((TypeError, ValueError), match=words) as told:
        budget.parallel(broken(how, change))
    assert told.value.__notes__ == ["This is about the part 'south'; nothing was charged."]
    assert not budget.ledger


def test_names_of_no_step_are_refused_before_the_charge():
    budget, (first, second) = PrivacyBudget(4.0, 1e-5), piped_by_name("label")
    parts = {"a": first, "b": (*second[:-1], by_name("label")[1][-1])}
    with pytest.raises(TypeError, match="to its last step only"):
        budget.parallel(parts)
    assert not budget.ledger


def test_a_part_of_two_column_transformers_may_be_one_object():
    """They clone it. Mutation: what is inside of them is compared; or they themselves are not."""
    shared = BoundedScaler(0, 1)
    rows = np.full((9, 2), 0.5)
    make = lambda: ColumnTransformer([("s", shared, [0, 1])])  # noqa: E731
    budget = PrivacyBudget(**LIMITS)
    budget.parallel({name: (make_pipeline(make(), lloyd()), rows.copy()) for name in "ab"})
    assert budget.ledger
    one = make()
    with pytest.raises(ValueError, match="the same ColumnTransformer object"):
        PrivacyBudget(**LIMITS).parallel(
            {name: (make_pipeline(one, lloyd()), rows.copy()) for name in "ab"}
        )
