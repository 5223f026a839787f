"""The adaptation paper's protocol: its splits, its solvers against other programs, and what a line of its table says."""

from types import SimpleNamespace

import numpy as np
import pytest
from bench import protocol
from bench.peers.kliep import Kliep
from bench.protocol import Logs, Squares
from sklearn.linear_model import LogisticRegression

from dplit.adaptation import Sample, profiled_regression


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(300, 3)), np.ones(300)]
    return (
        X,
        X @ [1.0, -0.5, 0.2, 0.1] + rng.standard_t(2, size=300) / 3,
        rng.dirichlet(np.ones(300)),
    )


@pytest.mark.parametrize("kappa_1", [np.inf, 0.3, 0.02])
def test_squares_are_minimized_as_by_the_package(table, kappa_1):
    X, y, p = table
    found = Squares(0.01).fit(X, y, p, 0.1, kappa_1)
    # a sample of the package has one reference weight: a record for each
    samples = [Sample(x[None], t[None], 1.0, q, 0.1) for x, t, q in zip(X, y, p, strict=True)]
    other = profiled_regression(samples, 1e3, kappa_1, ridge=0.01, tolerance=1e-10)[0]
    assert np.allclose(found, other, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kappa_1", [np.inf, 0.5])
def test_logs_are_where_the_best_weights_leave_them(table, n_classes, kappa_1):
    """With scikit-learn: a weighted fit with the weights that are best there finds the same place again."""
    X, y, p = table
    classes = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    task = Logs(0.02)
    w = task.fit(X, classes, p, 0.2, kappa_1)
    losses = -np.log(probabilities(w, X)[np.arange(300), classes])
    q = p * np.minimum(1, np.sqrt(kappa_1 / (losses + 0.2)))
    free = {"fit_intercept": False, "tol": 1e-10, "max_iter": 3000}
    # two classes: scikit-learn has one vector, half of whose square two opposite halves have together
    C = 1 / task.ridge * (2 if n_classes == 2 else 1)
    model = LogisticRegression(C=C, **free).fit(X, classes, sample_weight=q)
    assert np.allclose(probabilities(w, X), model.predict_proba(X), atol=5e-3)
    assert task.error(w, X, classes) == np.mean(model.predict(X) != classes)


def probabilities(w, X):
    powers = np.exp(X @ w.reshape(X.shape[1], -1))
    return powers / powers.sum(axis=1, keepdims=True)


class Equal:
    """In the place of KLIEP."""

    def weights(self, Xs, Xt, *, seed):
        assert len(Xt) <= protocol.READ
        return np.full(len(Xs), 1 / len(Xs))


@pytest.fixture
def shifted(monkeypatch):
    """Two problems whose target has a rule of its own."""
    rng = np.random.default_rng(1)
    X = np.c_[rng.normal(size=(900, 2)), np.ones(900)]
    source = np.arange(900) < 700
    y = X[:, 0] + np.where(source, 1.0, -1.0) * X[:, 1] + 0.1 * rng.normal(size=900)
    made = {"a": lambda: (X, y, source), "b": lambda: (X, y > 0, source)}
    monkeypatch.setattr(protocol, "problem", lambda name: made[name]())
    monkeypatch.setattr(protocol, "CLASSES", {"b"})
    return SimpleNamespace(X=X, source=source)


def test_a_split_has_seven_two_and_one_tenths_of_the_target_and_no_row_twice(shifted):
    here, *parts = (rows for rows, _ in protocol.split("a", 3))
    assert [len(rows) for rows in parts] == [140, 40, 20] and len(here) == 700
    both = np.vstack([here, *parts])
    assert len(np.unique(both, axis=0)) == 900
    assert {*map(tuple, here)} == {*map(tuple, shifted.X[shifted.source])}
    assert not np.array_equal(protocol.split("a", 4)[3][0], parts[2])


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_line_says_by_how_much_adaptation_is_ahead(shifted, name):
    rows = {row["method"]: row for row in protocol.measure(name, 3, Equal())["rows"]}
    value = {method: float(row["value"]) for method, row in rows.items()}
    sign = 1 if name == "b" else -1
    for method, row in rows.items():
        assert float(row["ahead"]) == pytest.approx(
            sign * (value["adapted"] - value[method]), abs=2e-4
        )
    assert rows["adapted"]["ahead"] == "0.0000" and ("DM" in rows) == (name == "a")
    # another rule: whoever has seen the target beats the source, and weights of rows alone do not help
    better = (lambda a, b: a > b) if name == "b" else (lambda a, b: a < b / 5)
    assert better(value["target"], value["source"]) and better(value["adapted"], value["KMM"])
    if name == "a":
        assert value["target"] == 1.0


def test_settings_are_chosen_on_one_part_and_tested_on_another(shifted, monkeypatch):
    """No row of the part to choose on, or of that to test on, is fitted."""
    chosen = []
    fit = Squares.fit

    def seen(self, X, y, p, *rest, **options):
        chosen.append(len(y))
        return fit(self, X, y, p, *rest, **options)

    monkeypatch.setattr(Squares, "fit", seen)
    parts = protocol.split("a", 0)
    protocol.errors("a", 0, Equal())
    m, n = len(parts[0][1]), len(parts[1][1])
    assert {*chosen} <= {m, n, m + n}  # nobody is fitted on the other two parts


def test_kliep_gets_rows_and_its_weights_are_a_distribution(tmp_path):
    class Told(Kliep):
        def __init__(self):
            self.folder = tmp_path

        def ask(self, data, gamma, seed):
            rows = np.load(data)
            assert rows["Xs"].shape == (40, 2) and rows["Xt"].shape == (30, 2) and seed == 5
            assert len(gamma) == 3 and gamma[0] < gamma[1] < gamma[2]
            return {"weights": [-1.0] + [2.0] * 39}

    rng = np.random.default_rng(0)
    q = Told().weights(rng.normal(size=(40, 2)), rng.normal(size=(30, 2)), seed=5)
    assert q.sum() == pytest.approx(1) and q[0] == 0 and np.allclose(q[1:], 1 / 39)


def test_a_set_whose_file_is_missing_is_left_out(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("DPLIT_DATA", str(tmp_path))
    protocol.weather.cache_clear()
    protocol.problem.cache_clear()
    assert not protocol.there("wind, RPT") and "wind.csv.gz" in capsys.readouterr().out


def test_german_credit_is_split_by_how_long_people_have_lived_where_they_do(monkeypatch, tmp_path):
    names = "status duration credit_history purpose amount savings employment_duration installment_rate personal_status_sex other_debtors present_residence property age other_installment_plans housing number_credits job people_liable telephone foreign_worker credit_risk".split()  # fmt: skip
    rng = np.random.default_rng(0)
    rows = rng.integers(1, 5, size=(60, len(names)))
    lines = [" ".join(names), *(" ".join(map(str, row)) for row in rows)]
    (tmp_path / "SouthGermanCredit.asc").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("DPLIT_DATA", str(tmp_path))
    protocol.credit.cache_clear()
    X, status, source = protocol.german(False)
    protocol.credit.cache_clear()
    assert np.array_equal(status, rows[:, 0]) and np.array_equal(source, rows[:, 10] >= 3)
    # five numbers, three columns for each of the fourteen other names, and the constant
    assert X.shape == (60, 5 + 3 * 14 + 1) and np.allclose(X[source, :5].mean(axis=0), 0)
