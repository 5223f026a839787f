"""Foreign code on private records: whatever it does on one record has the reach of that record, and nothing gets out."""

import contextlib
import logging
import math
import signal
import sys
import threading
import warnings
from array import array
from collections import deque
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from dplit import CnvxAdap, LabelShiftClassifier, NCnvxAdap, NoisyLloyd, PrivacyBudget
from dplit.adaptation import LogLoss, noisy_gradient
from dplit.geometry import NearestCenter
from dplit.inputs import BoundedScaler
from dplit.inputs.foreign import check_foreign, each_record, is_total, quiet
from dplit.ledger import squared_distances
from dplit.mechanisms import Noise, watch

BAD = 7.0  # the record on which foreign code fails: its first number


class Rude(BaseException):
    """An error that `except Exception` does not catch."""


def leave(*_):
    sys.exit("7.0 was here")


def raises(error):
    def fail(*_):
        raise error("7.0 was here")

    return fail


def talk(*_):
    """Say it in each way that there is, and then fail."""
    print("7.0 was here")
    print("7.0 was here", file=sys.stderr)
    logging.getLogger("dplit.test").critical("7.0 was here")
    warnings.warn("7.0 was here", UserWarning, stacklevel=2)
    np.float64(1e308) * np.float64(1e10)
    raise ValueError("7.0 was here")


FAILURES = {
    "an error": raises(ValueError),
    "an error of its own": raises(type("Own", (Exception,), {})),
    "an error that is none of the usual": raises(Rude),
    "no memory": raises(MemoryError),
    "the end of the program": leave,
    "text, logs and warnings": talk,
}


@pytest.fixture
def silence(capfd, caplog, recwarn):
    """Nothing was printed, logged or warned of, whatever numpy is set to."""
    with np.errstate(all="raise"):
        yield
    said = capfd.readouterr()
    heard = [w for w in recwarn.list if "7.0" in str(w.message) or w.category is RuntimeWarning]
    assert not (said.out or said.err or caplog.records or heard)


# ---------------------------------------------------------------- the two functions


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failing_record_gets_the_value_fixed_in_advance(kind, silence):
    def function(rows):
        return FAILURES[kind]() if (rows[:, 0] == BAD).any() else 2 * rows[:, 0]

    rows = np.array([[1.0], [BAD], [3.0]])
    assert each_record(function, rows, -1.0).tolist() == [2, -1, 6]


@pytest.mark.parametrize(
    "value",
    [math.nan, [1.0, 2.0], "word", None, 1j, 10**400, np.ma.masked, [[1.0]]],
    ids=repr,
)
def test_a_value_that_is_none_is_that_of_a_failure(value, silence):
    def said(rows):
        return [value if x == BAD else 2 * x for x in rows[:, 0]]

    assert each_record(said, np.array([[1.0], [BAD], [3.0]]), -1.0).tolist() == [2, -1, 6]


def test_an_interruption_by_the_user_is_one():
    """It follows a signal. One that foreign code raises by itself on a record is a failure of that record."""

    def stopped(rows):
        signal.raise_signal(signal.SIGINT)
        return rows[:, 0]

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        each_record(stopped, np.zeros((1, 1)), 0.0)
    rows = np.array([[1.0], [BAD]])

    def says(one):
        return raises(KeyboardInterrupt)(one) if one[0, 0] == BAD else one[:, 0]

    assert each_record(says, rows, -1.0).tolist() == [1.0, -1.0]
    found = []
    thread = threading.Thread(target=lambda: found.append(each_record(says, rows, -1.0).tolist()))
    thread.start()
    thread.join()
    assert found == [[1.0, -1.0]] and signal.getsignal(signal.SIGINT) is before


def test_a_signal_that_is_held_back_stays_so_in_foreign_code():
    """A command notes it, and fits on where it may not be stopped."""
    came = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:

        def noted(rows):
            return signal.raise_signal(signal.SIGINT) or rows[:, 0]

        assert each_record(noted, np.ones((2, 1)), 0.0).tolist() == [1.0, 1.0]
        assert came == [signal.SIGINT] * 2
    finally:
        signal.signal(signal.SIGINT, before)


def test_no_state_of_the_process_is_left_behind():
    def state():
        filters, level = list(warnings.filters), logging.root.manager.disable
        return filters, level, sys.stdout, sys.stderr, np.geterr()

    before = state()
    with quiet():
        assert state() != before
        with quiet():
            pass
        assert sys.stdout is not before[2]
    assert state() == before


def test_threads_that_are_quiet_at_once_give_back_what_the_first_one_found():
    """The first one ends before the second: what the second found is not what was there before both."""
    before = sys.stdout, list(warnings.filters), logging.root.manager.disable
    inside, leave_now = threading.Event(), threading.Event()

    def second():
        with quiet():
            inside.set()
            leave_now.wait(10)

    with quiet():
        other = threading.Thread(target=second)
        other.start()
        inside.wait(10)
    hushed = sys.stdout is not before[0]
    leave_now.set()
    other.join()
    assert hushed and (sys.stdout, list(warnings.filters), logging.root.manager.disable) == before
    sys.stdout.write("")  # and it is open


@pytest.mark.parametrize("got", [np.zeros((2, 1)), np.zeros(3), 0.0, np.zeros((1, 2))], ids=str)
def test_a_trial_on_public_records_refuses_another_shape(got):
    with pytest.raises(ValueError, match="the code returns an array of shape"):
        check_foreign(lambda rows: got, np.zeros((2, 3)), (), "the code")


def test_a_trial_on_public_records_quotes_the_error():
    with pytest.raises(ValueError, match="the code fails on a public record: ValueError: 7.0 was"):
        check_foreign(raises(ValueError), np.zeros((2, 3)), (), "the code")


# ---------------------------------------------------------------- models

rng = np.random.default_rng(0)
Xs = rng.integers(0, 3, size=(60, 1)).astype(float)  # PUBLIC
ys = (Xs[:, 0] > 0).astype(int)
Xt = np.r_[np.zeros((20, 1)), np.ones((11, 1))]
SOURCE = {"Xs": Xs, "ys": ys}


class Model(ClassifierMixin, BaseEstimator):
    """Class 1 above 0; on the bad row whatever it is told to do."""

    def __init__(self, on_bad=None, broken=None):
        self.on_bad, self.broken = on_bad, broken

    def fit(self, X, y):
        if self.broken == "parts" and len(X) < len(Xs):
            raise ValueError("too few records")
        self.classes_ = np.array([0, 1])
        return self

    def __deepcopy__(self, memo):
        if self.broken == "copies":
            raise ValueError("there can be only one")
        return Model(self.on_bad, self.broken)

    def predict(self, X):
        if self.broken == "one row" and len(X) == 1:
            raise ValueError("one row is not enough")
        if self.broken == "shape":
            return np.zeros((len(X), 2), dtype=int)
        if (X == BAD).any():
            return self.on_bad(X)
        return (X[:, 0] > 0).astype(int)

    def predict_proba(self, X):
        return np.eye(2)[self.predict(X)]


ODD_ANSWERS = {
    "NaN": lambda X: np.array([np.nan]),
    "an unknown label": lambda X: np.array(["neither"]),
    "an unknown number": lambda X: np.array([2]),
    "nothing": lambda X: None,
    "two labels": lambda X: np.array([0, 1]),
    "no label": lambda X: np.array([]),
    "a label of its own kind": lambda X: np.array([{}], dtype=object),
}


def released_by(fit):
    """The exact numbers that pass to the noise."""
    seen = []
    with watch(lambda event: seen.append(np.array(event.value)) or event.outcome):
        fit()
    return seen


def counts(model, rows):
    def fit():
        return LabelShiftClassifier(model, epsilon=1.0, random_state=0).fit(rows, **SOURCE)

    [found] = released_by(fit)
    return found.reshape(2, -1).sum(axis=1).tolist()  # over levels of confidence


@pytest.mark.parametrize("kind", [*FAILURES, *ODD_ANSWERS])
def test_a_row_on_which_the_model_fails_counts_for_no_class(kind, silence):
    model = Model((FAILURES | ODD_ANSWERS)[kind])
    assert counts(model, np.r_[Xt[:5], [[BAD]], Xt[5:]]) == counts(model, Xt) == [20, 11]


@pytest.mark.parametrize("where", [0, 15, 31])
def test_a_category_that_the_source_has_not_is_no_reason_to_refuse(where):
    model = make_pipeline(OneHotEncoder(), LogisticRegression())
    assert counts(model, np.insert(Xt, where, 9.0, axis=0)) == counts(model, Xt)


@pytest.mark.parametrize("far", [1e39, -1e39, 1e300, sys.float_info.max])
def test_a_number_beyond_single_precision_is_no_reason_to_refuse(far, silence):
    assert counts(DecisionTreeClassifier(), np.r_[Xt, [[far]]]) == counts(
        DecisionTreeClassifier(), Xt
    )


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("copies", "only one"),
        ("one row", "not enough"),
        ("shape", "cannot reshape"),
        ("parts", "5 parts of the PUBLIC source.*too few records"),
    ],
)
def test_a_model_that_does_not_work_is_found_on_the_source_and_costs_nothing(broken, said):
    budget, model = PrivacyBudget(2.0), LabelShiftClassifier(Model(broken=broken), epsilon=1.0)
    with pytest.raises(ValueError, match=f"estimator.*{said}"):
        budget.fit(model, Xt, **SOURCE)
    assert budget.spent == (0.0, 0.0)


def test_a_model_that_names_no_class_of_some_public_rows_is_counted_as_it_is():
    """Columns of the confusion add up to less than 1; before, a name that is no class stopped the fit after the charge."""

    class Shy(LogisticRegression):
        def predict(self, X):
            said = super().predict(X).astype(object)
            said[X[:, 0] == 2] = "neither"
            return said

    model = LabelShiftClassifier(Shy(), epsilon=9.0, random_state=0)
    twin = model._declared(Xt, **SOURCE)
    confused = twin._confused.reshape(2, -1, 2).sum(axis=1)
    assert np.allclose(confused, [[1, 0], [0, (Xs == 1).sum() / ys.sum()]])
    rows = np.repeat([[0.0], [1.0], [2.0]], [50, (Xs == 1).sum(), (Xs == 2).sum()], axis=0)
    shares = model.fit(rows, **SOURCE).target_proportions_
    assert np.allclose(shares, [50 / len(rows), 1 - 50 / len(rows)], atol=0.05)


# ---------------------------------------------------------------- losses


class Picky(LogLoss):
    """A loss that does what it is told to on the bad record, and shows the world that it was called."""

    def __init__(self, on_bad=None, broken=None):
        super().__init__(2)
        self.on_bad, self.broken = on_bad, broken

    def scores(self, w, X):
        if self.broken == "scores":
            raise ValueError("7.0 was here")
        if self.on_bad in FAILURES.values() and (X[:, 0] == BAD).any():
            self.on_bad()
        return super().scores(w, X)

    def start(self, d, rng):
        return np.zeros(d + 1) if self.broken == "start" else super().start(d, rng)

    def reach(self, *bounds):
        return math.nan if self.broken == "reach" else super().reach(*bounds)

    def __call__(self, w, X, y):
        values, rows = super().__call__(w, np.where(X == BAD, 0.0, X), y)
        bad = X[:, 0] == BAD
        if bad.any() and callable(self.on_bad):
            values, rows = values + 0.0, rows + 0.0
            values[bad], rows[bad] = self.on_bad(values[bad], rows[bad])
        if self.broken == "gradients":
            rows = rows[:, :1]
        return values, rows


ODD_LOSSES = {
    "a gradient of NaN": lambda value, row: (value, row * np.nan),
    "a loss of NaN": lambda value, row: (value * np.nan, row * 0.0),
    "a gradient of another length": lambda value, row: (value, np.zeros((1, 3))),
}
LARGE_LOSSES = {
    "an infinite gradient": lambda value, row: (value, row * 0.0 + np.inf),
    "an infinite loss": lambda value, row: (value + np.inf, row),
    "both infinite": lambda value, row: (value + np.inf, row - np.inf),
    "a loss below 0": lambda value, row: (value - 1e6, row),
    "a gradient beyond its bound": lambda value, row: (value, row * 0.0 + 1e300),
}
RECORDS = np.c_[rng.normal(size=(12, 1)), np.ones(12)]
CLASSES = rng.integers(2, size=12)


def fit_loss(loss, variant, X, y):
    given = {"radius": 8.0, "weight_radius": 2.0, "classes": [0, 1], "variant": variant}
    model = NCnvxAdap(epsilon=1.0, delta=1e-3, n_iter=2, loss=loss, random_state=0, **given)
    return model.fit(X, y, Xs=np.c_[Xs, np.ones(60)], ys=ys)


@pytest.mark.parametrize("variant", ["profiled", "paper"])
@pytest.mark.parametrize("kind", [*FAILURES, *ODD_LOSSES, *LARGE_LOSSES])
def test_a_record_on_which_the_loss_fails_moves_no_release_further_than_another(
    kind, variant, silence
):
    on_bad = (FAILURES | ODD_LOSSES | LARGE_LOSSES)[kind]
    X, labels = RECORDS.copy(), [*CLASSES[:-1], "of no class"]
    X[-1, 0] = BAD
    events = []

    def keep(event):
        events.append(event)
        return np.asarray(event.value) * 0

    with watch(keep):
        fit_loss(Picky(on_bad), variant, X, CLASSES)
        cut = len(events)
        fit_loss(Picky(on_bad), variant, X, labels)  # its gradient is zero
    assert len(events) == 2 * cut
    for bad, without in zip(events[:cut], events[cut:], strict=True):
        assert (bad.label, bad.sensitivity) == (without.label, without.sensitivity)
        moved = np.linalg.norm(np.subtract(bad.value, without.value, dtype=float))
        assert moved <= bad.sensitivity  # half of it for a sum
        if kind not in LARGE_LOSSES and bad.label == "a gradient of the classifier":
            assert moved == 0
        if bad.label == "gradients of the private weights":
            assert np.min(bad.value) >= 0


@pytest.mark.parametrize("broken", ["scores", "start", "reach", "gradients"])
@pytest.mark.parametrize("public", [True, False])
def test_a_loss_that_does_not_work_is_found_on_public_records_and_costs_nothing(broken, public):
    given = {"radius": 8.0, "weight_radius": 2.0, "classes": [0, 1]}
    model = NCnvxAdap(epsilon=1.0, delta=1e-3, loss=Picky(broken=broken), **given)
    source = {"Xs": np.c_[Xs, Xs], "ys": ys} if public else {}
    budget = PrivacyBudget(2.0, 1e-3)
    with pytest.raises(ValueError, match="loss"):
        budget.fit(model, RECORDS, CLASSES, **source)
    assert budget.spent == (0.0, 0.0)


# ---------------------------------------------------------------- gradients of a user's own

ASK = {"bound": 2.0, "mu": 1.0, "label": "mine"}


@pytest.mark.parametrize("kind", [*FAILURES, "NaN", "infinite", "wrong shape"])
def test_a_gradient_that_fails_is_zero_and_a_long_one_is_clipped(kind, silence):
    def rows(block, at):
        if (block[:, 0] != BAD).all():
            return block
        if kind == "wrong shape":
            return block[:, :1]
        if kind in FAILURES:
            return FAILURES[kind]()
        return np.where(block[:, :1] == BAD, {"NaN": np.nan, "infinite": np.inf}[kind], block)

    X = np.c_[np.array([0.5, 1.0, BAD, 0.25]), np.zeros(4)]

    def total(X):
        def ask():
            return noisy_gradient(rows, X, noise=Noise(0, neighboring="replace"), **ASK)

        return released_by(ask)[0] * 2.0**-19

    rest = total(np.delete(X, 2, axis=0))
    assert rest.tolist() == [1.75, 0.0]
    length = np.linalg.norm(total(X) - rest)
    assert length == (pytest.approx(2.0) if kind == "infinite" else 0.0)


def test_a_gradient_function_is_tried_on_no_records_first():
    def fail(block, at):
        raise ValueError("no block is long enough")

    for rows, said in ((fail, "long enough"), (lambda block, at: block[:, 0], r"must be \(1, k\)")):
        noise = Noise(0)
        with pytest.raises(ValueError, match=said):
            noisy_gradient(rows, np.ones((3, 2)), noise=noise, **ASK)
        assert not noise.releases


def test_a_gradient_function_that_takes_no_empty_block_is_tried_on_a_record_of_zeros():
    def rows(block, at):
        return block.reshape(len(block), -1, 2)[:, 0]

    assert noisy_gradient(rows, np.ones((3, 2)), noise=Noise(0), **ASK).shape == (2,)


# --- one record at a time ---


def test_a_failure_on_one_record_does_not_change_how_others_are_called():
    """In a block the last bits of a product depend on its size: a threshold on them is met or not."""
    rng = np.random.default_rng(1)
    rng.integers(-50, 50, size=5)
    x, v = rng.integers(-(2**19), 2**19, size=5).astype(float), rng.normal(size=5)
    sizes = set()

    def groups(Q):
        sizes.add(len(Q))
        if np.abs(Q[:, 0]).max(initial=0) > 2**20 - 2:
            raise ValueError
        return (Q @ v >= x @ v).astype(int)

    crowd = np.tile(x, (64, 1)) / 2**20
    asked = {"radius": 1.0, "groups": groups, "n_groups": 2, "epsilon": 50.0}
    one, two = (
        Noise(0).sums(rows, **asked)[1].round()
        for rows in (crowd, np.vstack([crowd, 5 * np.eye(5)[:1]]))
    )
    assert np.array_equal(one, two) and sizes == {1}


def test_own_code_is_called_once_and_inherited_guarantees_do_not_count():
    assert is_total(NearestCenter([[0.0]])) and is_total(partial(squared_distances, None))
    assert is_total(LogLoss()) and not is_total(lambda rows: rows[:, 0])

    class Mine(LogLoss):
        pass

    assert not is_total(Mine())


def test_complex_and_masked_values_are_none():
    rows = np.array([[1.0], [2.0]])
    assert each_record(lambda r: r[:, 0] + 1j, rows, -1.0).tolist() == [-1, -1]
    assert each_record(lambda r: np.ma.masked_equal(r[:, 0], 2), rows, -1.0).tolist() == [1, -1]
    assert each_record(lambda r: r[:, 0].astype(str), rows, -1.0).tolist() == [-1, -1]


def test_what_a_scorer_keeps_on_a_model_is_not_handed_out():
    def scorer(model, rows):
        model.note_ = max(getattr(model, "note_", 0.0), rows.max())
        return rows[:, 0]

    model = NoisyLloyd(2, epsilon=1.0, delta=1e-6, radius=1.0, random_state=0)
    rows = np.random.default_rng(0).normal(size=(20, 2))
    found = PrivacyBudget(9.0, 1e-3).search(
        model, {"n_iter": [1, 2]}, rows, scorer, epsilon=1.0, bound=1.0
    )
    assert not any(hasattr(fitted, "note_") for fitted in found.estimators_)


# --- labels of typed columns ---

BIG = 2**53


def typed_columns(labels):
    """The same labels in every kind of column that may have a missing one."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    yield "pandas", pandas.Series(labels, dtype="Int64")
    yield "a frame of pandas", pandas.DataFrame({"y": pandas.Series(labels, dtype="Int64")})
    yield "polars", polars.Series("y", labels, dtype=polars.Int64)
    yield "a frame of polars", polars.DataFrame({"y": labels}, schema={"y": polars.Int64})
    yield "a list", labels
    with contextlib.suppress(ImportError):
        import pyarrow

        column = pyarrow.array(labels, pyarrow.int64())
        yield "arrow", column
        yield "chunks of arrow", pyarrow.chunked_array([column[:4], column[4:]])
        yield "a table of arrow", pyarrow.table({"y": column})
        yield "pandas on arrow", pandas.Series(labels, dtype="int64[pyarrow]")


def test_a_missing_label_does_not_change_how_others_are_read():
    """A missing cell makes floats of whole numbers where a library turns its column into an array."""
    rng = np.random.default_rng(0)
    source = {"Xs": rng.normal(size=(40, 2)), "ys": np.array([BIG, BIG + 1] * 20)}
    rows = rng.normal(size=(30, 2))
    shift = LabelShiftClassifier(epsilon=1e6, random_state=0)
    for name, column in typed_columns([BIG + 1] * 29 + [None]):
        assert shift.fit(rows, column, **source).counts_.tolist() == [0.0, 29.0], name
    kept = {"epsilon": 1.0, "delta": 1e-5, "radius": 4.0, "weight_radius": 3.0, "random_state": 0}
    made = NCnvxAdap(**kept, classes=[BIG, BIG + 1], n_iter=3)
    coefs = [made.fit(rows, c, **source).coef_ for _, c in typed_columns([BIG + 1] * 29 + [None])]
    assert all(np.array_equal(coefs[0], coef) for coef in coefs)


def test_a_missing_cell_does_not_change_how_others_of_its_category_are_read():
    for name, column in typed_columns([BIG + 1, BIG, None, BIG + 1, BIG]):
        if name in ("pandas", "polars"):
            table = column.to_frame("y") if name == "pandas" else column.to_frame()
        elif name == "a table of arrow":
            table = column
        else:
            continue
        scaled = BoundedScaler(categories={"y": [BIG, BIG + 1]}).fit(table).transform(table)
        assert (scaled[0] == scaled[3]).all() and (scaled[1] == scaled[4]).all(), name
        assert (scaled[0] != scaled[1]).any()


# ---------------------------------------------------------------- words where the classes are numbers


@pytest.mark.parametrize("typed", [True, False])
def test_a_classifier_says_what_its_classes_are_and_costs_nothing(typed):
    from dplit import CnvxAdap, NCnvxAdap, PrivacyBudget

    rng = np.random.default_rng(0)
    X, words = rng.normal(size=(40, 2)), np.array(["a", "b"])[rng.integers(0, 2, 40)]
    words = words if typed else words.astype(object)
    cost = {"epsilon": 1.0, "delta": 1e-5, "radius": 3.0, "weight_radius": 1.0}
    budget = PrivacyBudget(4.0, 1e-4)
    with pytest.raises(
        ValueError, match="Its `classes` are numbers: convert the labels, or declare"
    ):
        budget.fit(NCnvxAdap(classes=[0, 1], **cost), X, np.zeros(40), Xs=X, ys=words)
    with pytest.raises(ValueError, match="to predict words, use a classifier with `classes`"):
        budget.fit(CnvxAdap(target_bound=1.0, **cost), X, np.zeros(40), Xs=X, ys=words)
    if typed:
        with pytest.raises(ValueError, match="Its `classes` are words: convert the labels"):
            budget.fit(NCnvxAdap(classes=["a", "b"], **cost), X, np.zeros(40), Xs=X, ys=words)
    assert not budget.ledger


NO_LABELS = {
    "generator": lambda: (label for label in ROWS_OF_LABELS),
    "map": lambda: map(int, ROWS_OF_LABELS),
    "iterator": lambda: iter(ROWS_OF_LABELS),
    "zip": lambda: zip(ROWS_OF_LABELS, strict=True),
    "dict": lambda: dict(enumerate(ROWS_OF_LABELS)),
    "keys": lambda: dict(enumerate(ROWS_OF_LABELS)).keys(),
    "values": lambda: dict(enumerate(ROWS_OF_LABELS)).values(),
    "set": lambda: set(ROWS_OF_LABELS),
    "path": lambda: Path("labels.csv"),
    "function": lambda: len,
    "matrix": lambda: np.matrix(ROWS_OF_LABELS).T,
    "sparse": lambda: sparse.csc_array(np.reshape(ROWS_OF_LABELS, (-1, 1))),
    "lazy": lambda: pytest.importorskip("polars").DataFrame({"y": ROWS_OF_LABELS}).lazy(),
    "too short": lambda: deque(ROWS_OF_LABELS[1:]),
}
ROWS_OF_LABELS = [0, 1] * 15
LEARNERS = {
    "replace": NCnvxAdap(epsilon=1.0, delta=1e-6, radius=3.0, weight_radius=2.0, classes=[0, 1]),
    "convex": CnvxAdap(epsilon=1.0, delta=1e-6, radius=3.0, weight_radius=2.0, target_bound=2.0),
    "shift": LabelShiftClassifier(epsilon=1.0),
}


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("kind", NO_LABELS)
def test_labels_of_a_kind_that_has_none_are_refused_before_the_charge(learner, kind):
    Xs = np.random.default_rng(0).normal(size=(30, 2))
    budget = PrivacyBudget(5.0, 1e-5, "add_remove" if learner == "shift" else "replace")
    for side in ("yt", "ys"):
        given = {"yt": ROWS_OF_LABELS, "ys": ROWS_OF_LABELS} | {side: NO_LABELS[kind]()}
        with pytest.raises((TypeError, ValueError), match=f"{side}.*needs (one|a) label"):
            budget.fit(LEARNERS[learner], Xs + 1, given.pop("yt"), Xs=Xs, **given)
    assert not budget.ledger


@pytest.mark.parametrize("kind", [list, tuple, deque, np.array, partial(array, "l")])
def test_sequences_are_labels(kind):
    Xs = np.random.default_rng(0).normal(size=(30, 2))
    model = LabelShiftClassifier(epsilon=1.0)
    model.fit(Xs, kind(ROWS_OF_LABELS), Xs=Xs, ys=kind(ROWS_OF_LABELS))
    assert model.classes_.tolist() == [0, 1]


def test_a_source_with_too_few_labels_is_told_so():
    with pytest.raises(ValueError, match="Xs and ys differ in length"):
        LabelShiftClassifier(epsilon=1.0).fit(np.eye(3), Xs=np.eye(3), ys=[1])
