"""Seeded results are what they were: of every estimator in every variant some released numbers, and its receipt in short.

The cases are those of `tools/quality/golden.py`, whose hashes hold on one machine only. Here numbers are compared to one part in a
million, because sums of floats round differently with other processors and libraries; whole numbers, words and the list of
mechanisms are compared exactly. Killed are mutants which no test of a distribution can see, such as one more draw from the stream
of secret bits, two draws in another order, or a budget split into other parts, since each of them changes every later number. After
an intended change: python tests/book/test_golden.py --write
"""

import json
import sys
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "quality"))  # for --write
import golden

import dplit

KEPT = Path(__file__).with_name("golden.json")
CASES = golden.cases()


def some(values):
    """An array's length, its first, middle and last number, and for scale the largest; of whole numbers a sum that heeds their order."""
    values = np.asarray(values).ravel()
    chosen = values[[*{0: 0, len(values) // 2: 0, len(values) - 1: 0}]] if len(values) else values
    if values.dtype.kind in "iu":
        heard = sum(at * value for at, value in enumerate(values.tolist(), 1))
        return [len(values), *chosen.tolist(), heard]
    largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    return [len(values), *(float(f"{v:.8g}") for v in (*chosen.tolist(), largest))]


def short(value):
    """A value in short, as JSON knows it."""
    if isinstance(value, dict):
        return {str(key): short(part) for key, part in value.items()}
    if isinstance(value, np.generic):
        return short(value.item())
    if isinstance(value, list | tuple | np.ndarray):
        array = np.asarray(value, None if isinstance(value, np.ndarray) else object)
        array = array if array.dtype != object else of_numbers(value)
        return [*map(short, value)] if array is None else some(array)
    if isinstance(value, float):
        return float(f"{value:.8g}")
    return value if value is None or isinstance(value, int | str) else type(value).__name__


def of_numbers(value):
    """An array of what is nothing but numbers, or None."""
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    return array if array.dtype.kind in "fiu" else None


def summary(make):
    """What a case released and what its receipt says, in short."""
    value, receipt = golden.outcome(make)
    result = {"value": short(value)}
    if receipt is not None:
        lines = receipt.releases
        result["receipt"] = {
            "mechanisms": dict(Counter(line.mechanism for line in lines)),
            "times": sum(line.times for line in lines),
            "epsilon": short(receipt.epsilon),
            "delta": short(receipt.delta),
        }
    return result


def differences(one, other, path="", scale=0.0):
    """Where two summaries differ by more than rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from differences(
                one.get(key, "absent"), other.get(key, "absent"), f"{path}/{key}"
            )
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        # a number near zero is as exact as the largest beside it
        scale = max((abs(v) for v in one[1:] if isinstance(v, float)), default=0.0)
        for at, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{path}/{at}", scale)
    elif isinstance(one, float) and isinstance(other, float):
        if not np.isclose(one, other, rtol=1e-6, atol=1e-6 * scale, equal_nan=True):
            yield f"{path}: {one} is {other}"
    elif one != other:
        yield f"{path}: {one} is {other}"


EXPECTED = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}


def test_every_case_is_kept():
    differ = {*EXPECTED} ^ {*CASES} or [*EXPECTED] != [*CASES]
    assert not differ, "keep them: python tests/book/test_golden.py --write"


@pytest.mark.parametrize("name", CASES)
def test_a_seeded_result_is_what_it_was(name):
    now = json.loads(json.dumps(summary(CASES[name])))
    assert not [*differences(EXPECTED.get(name, "not kept"), now)]


def test_every_public_class_has_a_case():
    errors = {"BudgetExceeded", "LedgerError"}
    named = " ".join(CASES)
    missing = [name for name in dplit.__all__ if name not in named and name not in errors]
    assert not missing, f"tools/quality/golden.py has no seeded fit of {missing}"


def first_case(word):
    found = (name for name in CASES if name.startswith(word) and "abstains" not in name)
    return next(found, word)  # without a case it fails, and the test above says why


DRAWN = {*dplit.__all__} - {"BudgetExceeded", "LedgerError", "PrivacyBudget"}
DRAWN -= {"BoundedScaler", "SourceTargetKMedoids"}  # these draw nothing
DRAWN |= {"private_quantile", "private_radius", "private_loss", "Noise", "distinct_int"}
DRAWN |= {"geometric_int 7", "laplace_int 7", "gaussian_int 7"}


@pytest.mark.parametrize("name", [first_case(word) for word in sorted(DRAWN)])
def test_one_more_draw_from_the_stream_is_noticed(name):
    """Of 64 bits, before the first draw of a case."""
    kind, first = golden.found("Bits"), []
    words = kind.words

    def late(bits, n):
        if not first:
            first.append(words(bits, 1))
        return words(bits, n)

    with mock.patch.object(kind, "words", late):
        now = json.loads(json.dumps(summary(CASES[name])))
    assert first and [*differences(EXPECTED[name], now)]


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        lines = [f"{json.dumps(n)}: {json.dumps(summary(make))}" for n, make in CASES.items()]
        KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
