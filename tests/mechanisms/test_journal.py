"""What passes the door is written once, and how much noise there will be is known before the question."""

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import dplit
from dplit.accounting import Receipt, Release
from dplit.mechanisms import Noise, discrete, noisy_avg
from dplit.mechanisms.journal import Journal

X = np.random.default_rng(0).normal(size=(50, 3))
CURRENCIES = ({"mu": 0.3}, {"epsilon": 0.7})
RELATIONS = ("add_remove", "replace")
COUNT = Release("a count", "laplace", 1.0, 2.0, epsilon=0.5)


def one_of_three(X):
    return np.arange(len(X)) % 3


# ---------------------------------------------------------------- the journal


def test_what_is_on_the_receipt_was_written_and_stays():
    journal = Journal()
    journal.write(COUNT)
    journal.tail(1e-6)
    before = journal.releases
    assert [r.mechanism for r in before] == ["laplace", "tail"] and before[1].delta == 1e-6
    assert isinstance(before, tuple) and journal.receipt(1e-5).releases == before
    with pytest.raises(AttributeError):
        journal.releases = ()
    with pytest.raises(AttributeError):
        journal.releases.append(COUNT)


LATE = {
    "write": lambda noise: noise.write(COUNT),
    "tail": lambda noise: noise.tail(1e-6),
    "count": lambda noise: noise.count(3, mu=0.1),
    "sums": lambda noise: noise.sums(X, radius=1.0, mu=0.1),
    "choice": lambda noise: noise.exponential([0.0, 1.0], epsilon=1.0),
    "vote": lambda noise: noise.vote([0, 1], 2, epsilon=1.0),
    "cover": lambda noise: noise.cover(0.1),
    "sample": lambda noise: noise.sample(5, 2),
    "parallel": lambda noise: noise.parallel([partial(noise.count, 3, mu=0.1)]),
    "procedure": lambda noise: noise.procedure(COUNT).__enter__(),
    "noisy_avg": lambda noise: noisy_avg(X, radius=1.0, epsilon=1.0, delta=1e-6, noise=noise),
}


@pytest.mark.parametrize("name", LATE)
def test_after_the_receipt_nothing_passes(name):
    LATE[name](Noise(0))  # before it, everything does
    noise = Noise(0)
    noise.count(3, mu=0.1)
    receipt = noise.receipt(1e-6)
    with pytest.raises(RuntimeError, match="has written its receipt"):
        LATE[name](noise)
    assert noise.receipt(1e-6) == receipt  # which may be asked for again


WRITTEN = {
    "whole": lambda noise: noise.whole([1], sensitivity=1, body=[(1, 1.0)], epsilon=1.0),
    "laplace": lambda noise: noise.laplace(1.0, sensitivity=1.0, epsilon=1.0),
    "gaussian": lambda noise: noise.gaussian(1.0, sensitivity=1.0, mu=1.0),
} | {name: LATE[name] for name in ("count", "sums", "choice", "vote", "cover")}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_release_is_written_before_it_is_drawn(name, monkeypatch):
    """An error of the draw, or an interrupt, leaves a receipt that is too large, never one too small."""
    noise, drawn = Noise(0), []

    def fail(*args):
        drawn.append(noise.releases)
        raise KeyboardInterrupt

    for sampler in ("gaussian_int", "laplace_int", "knorm_int", "race"):
        monkeypatch.setattr(discrete, sampler, fail)
    try:
        WRITTEN[name](noise)
    except KeyboardInterrupt:
        assert len(drawn) == 1
    else:
        assert name == "cover" and not drawn  # it opens, and draws when it is asked to choose
    assert len(noise.receipt(1e-6).releases) == 1 and all(len(seen) == 1 for seen in drawn)


def test_an_open_cover_is_closed_by_the_receipt():
    class Candidates:
        size, histogram = 4, np.array([0, 4])

        def find(self, count, rank):
            return rank

    noise = Noise(0)
    choose = noise.cover(0.5)
    assert choose(Candidates()) in range(4)
    noise.receipt()
    with pytest.raises(RuntimeError):
        choose(Candidates())


def test_a_look_on_the_way_seals_nothing():
    noise = Noise(0)
    noise.count(3, mu=0.1)
    on_the_way = Receipt(noise.releases, noise.neighboring, 1e-6).epsilon
    noise.count(3, mu=0.1)
    assert on_the_way < noise.receipt(1e-6).epsilon


def test_equal_releases_stand_on_one_line_of_the_table_and_in_order_on_the_record():
    noise = Noise(0)
    for _ in range(3):
        noise.count(3, mu=0.1, label="rows")
        noise.count(3, mu=0.2, label="again")
    noise.count(3, mu=0.2, label="again")
    receipt = noise.receipt(1e-6)
    assert [(r.label, r.times) for r in receipt.releases] == [
        *[("rows", 1), ("again", 1)] * 2,
        ("rows", 1),
        ("again", 2),
    ]
    lines = [line.split() for line in str(receipt).split("\n")[3:-1]]
    assert [(line[0], line[-4]) for line in lines] == [("rows", "3"), ("again", "4")]
    assert Receipt(receipt.releases * 2, "add_remove")._repr_markdown_().count("| rows |") == 1


def test_only_the_journal_holds_the_record():
    """Nobody reads the scale of noise off the last line, and nobody writes but by `write`."""
    for path in sorted(Path(dplit.__file__).parent.rglob("*.py")):
        text = path.read_text(encoding="utf8")
        found = [w for w in ("releases[-1]", "releases.append", "releases.sort") if w in text]
        found += ["_page"] if "._page" in text and path.name != "journal.py" else []
        assert not found, f"{path.name}: {found}"


def test_parallel_branches_and_procedures_are_written_as_one():
    noise = Noise(0)
    with noise.procedure(COUNT):
        noise.exponential([0.0, 1.0], epsilon=1.0)
        assert [r.mechanism for r in noise.releases] == ["exponential"]
    assert noise.releases == (COUNT,)
    noise.parallel([lambda: noise.whole([1], sensitivity=1, mu=1.0)] * 2)
    assert [r.mechanism for r in noise.releases] == ["laplace", "gaussian"]


# ---------------------------------------------------------------- scales before the question

SCALES = {
    "count": (
        lambda noise, cost: noise.count_scale(**cost),
        lambda noise, cost: noise.count(7, **cost),
    ),
    "histogram": (
        lambda noise, cost: noise.histogram_scale(**cost),
        lambda noise, cost: noise.histogram(one_of_three(X), 3, **cost),
    ),
    "lengths": (
        lambda noise, cost: noise.histogram_scale(**cost),
        lambda noise, cost: noise.lengths(X, np.array([1.0, 2.0]), **cost),
    ),
    "value": (
        lambda noise, cost: noise.value_scale(0.3, 6, **cost),
        lambda noise, cost: (noise.gaussian if "mu" in cost else noise.laplace)(
            np.ones((2, 3)), sensitivity=0.3, **cost
        ),
    ),
}


def sums_asked(noise, cost, **options):
    groups = options.pop("groups", None)
    n = {} if groups is None else {"n_groups": 3}
    asked = noise.sum_scale(3, radius=2.5, **n, **options, **cost)
    noise.sums(X, radius=2.5, groups=groups, **n, **options, **cost)
    return asked


@pytest.mark.parametrize(
    ("name", "neighboring", "cost"), [*itertools.product(SCALES, RELATIONS, CURRENCIES)]
)
def test_the_scale_asked_for_is_the_scale_drawn_with(name, neighboring, cost):
    ask, question = SCALES[name]
    noise = Noise(0, neighboring=neighboring)
    asked = ask(noise, cost)
    assert noise.releases == ()  # to ask costs nothing
    question(noise, cost)
    assert asked == noise.releases[0].scale  # to the last bit


@pytest.mark.parametrize(("neighboring", "cost"), [*itertools.product(RELATIONS, CURRENCIES)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight": 0},
        {"weight": 3.0},
        {"norm": 1},
        {"norm": np.inf},
        {"groups": one_of_three(X)},
        {"groups": one_of_three, "weight": 0},
    ],
    ids=["plain", "no counts", "counts", "l1", "largest", "groups", "groups by a function"],
)
def test_the_scale_of_sums_knows_groups_norm_weight_and_branch(options, neighboring, cost):
    noise = Noise(0, neighboring=neighboring)
    asked = [sums_asked(noise, cost, **options)]
    asked += noise.parallel([partial(sums_asked, noise, cost, **options)])
    assert asked == [r.scale for r in noise.releases]


def test_a_branch_of_replace_needs_more_noise_and_the_scale_says_so():
    noise = Noise(0, neighboring="replace")
    cost = {"mu": 0.3, "radius": 1.0, "weight": 3.0}
    (inside,) = noise.parallel([lambda: noise.sum_scale(2, **cost)])
    assert inside > 1.5 * noise.sum_scale(2, **cost)


# ---------------------------------------------------------------- pages that are priced together


def test_only_a_priced_procedure_may_go_unlisted():
    """A procedure without a price, or in a branch without one, would release for nothing."""

    def unpriced(noise):
        with noise.procedure():
            noise.count(3, mu=1.0)

    for route in (unpriced, lambda noise: noise.parallel([partial(unpriced, noise)])):
        noise = Noise(0)
        with pytest.raises(ValueError, match="release=None"):
            route(noise)
        assert noise.receipt(1e-6).releases == ()  # and nothing was released
    noise = Noise(0)
    with noise.procedure(COUNT):
        unpriced(noise)
        noise.parallel([partial(unpriced, noise)])
    assert noise.receipt().releases == (COUNT,)


@pytest.mark.parametrize("neighboring", RELATIONS)
def test_the_number_of_records_is_public_under_replace_and_outside_of_branches(neighboring):
    noise = Noise(0, neighboring=neighboring)
    assert noise.size_is_public == (neighboring == "replace") and not noise.in_branch
    assert noise.parallel([lambda: (noise.size_is_public, noise.in_branch)]) == [(False, True)]
    noise.require_fixed_size("a test")
    with pytest.raises(ValueError, match="a test needs a public number of records"):
        noise.parallel([lambda: noise.require_fixed_size("a test")])


@pytest.mark.parametrize("inside", ["procedure", "parallel"])
def test_there_is_no_receipt_before_a_page_is_priced(inside):
    """It would have no line of what was released before, nor of what is being released."""
    noise, early = Noise(0), []
    noise.count(3, mu=1.0)

    def step():
        noise.count(3, epsilon=0.5)
        with pytest.raises(RuntimeError, match="has not ended"):
            early.append(noise.receipt(1e-6))

    if inside == "procedure":
        with noise.procedure(COUNT):
            step()
    else:
        noise.parallel([step])
    receipt = noise.receipt(1e-6)
    assert not early and [r.mechanism for r in receipt.releases] == ["gaussian", "laplace"]


@pytest.mark.parametrize("inside", ["procedure", "parallel"])
def test_no_other_thread_releases_on_an_open_page(inside):
    """There its release would be taken for a part of what the page's price covers, and not be paid."""
    noise = Noise(0)

    def meanwhile():
        with ThreadPoolExecutor(1) as pool:
            for ask in (lambda: noise.count(3, mu=3.0), lambda: noise.parallel([]), step):
                with pytest.raises(RuntimeError, match="another thread"):
                    pool.submit(ask).result()
        noise.count(3, epsilon=0.5)

    def step():
        with noise.procedure(COUNT):
            raise AssertionError("nothing inside was to run")

    if inside == "procedure":
        with noise.procedure(COUNT):
            meanwhile()
    else:
        noise.parallel([meanwhile])
    with ThreadPoolExecutor(1) as pool:  # and now it may
        pool.submit(lambda: noise.count(3, mu=0.1)).result()
    assert [r.mechanism for r in noise.receipt(1e-6).releases] == ["laplace", "gaussian"]


def test_nobody_comes_in_between_two_branches():
    """What the branches before released is not on the list yet: a receipt would be without it."""
    noise, early = Noise(0), []

    def branches():
        for _ in range(2):
            yield partial(noise.count, 3, epsilon=0.5)
            with pytest.raises(RuntimeError, match="has not ended"):
                early.append(noise.receipt())
            with ThreadPoolExecutor(1) as pool, pytest.raises(RuntimeError, match="another thread"):
                pool.submit(noise.count, 3, epsilon=0.1).result()
            noise.count(3, epsilon=0.25)  # in this thread, and of no branch: is listed too

    noise.parallel(branches())
    assert not early and [r.epsilon for r in noise.releases] == [0.25, 0.25, 0.5]
    assert noise.receipt().epsilon == 1.0


@pytest.mark.parametrize("inside", ["procedure", "parallel"])
def test_no_other_task_of_a_thread_releases_on_an_open_page(inside):
    noise, refused = Noise(0), []

    async def steps():
        noise.count(3, epsilon=0.25)
        await asyncio.sleep(0)  # now the other one has its turn
        await asyncio.create_task(its_own())

    async def its_own():
        noise.count(3, epsilon=0.25)

    async def procedure():
        with noise.procedure(COUNT):
            await steps()

    def branch():  # an event loop of its own: its tasks begin inside
        asyncio.run(steps())

    async def other():
        for ask in (lambda: noise.count(3, epsilon=50.0), lambda: noise.parallel([])):
            with pytest.raises(RuntimeError, match="another thread or task"):
                ask()
            refused.append(ask)

    async def both():
        await asyncio.gather(procedure(), other())
        noise.count(3, mu=0.1)  # and now it may

    if inside == "procedure":
        asyncio.run(both())
        assert len(refused) == 2
        assert [r.mechanism for r in noise.receipt(1e-6).releases] == ["laplace", "gaussian"]
    else:
        noise.parallel([branch] * 2)
        assert noise.receipt().epsilon == 0.5


@pytest.mark.parametrize(
    "name", ["private", "neighboring", "releases", "public_rng", "count", "slack"]
)
def test_nothing_of_a_noise_can_be_assigned_to(name):
    noise = Noise(0)
    with pytest.raises(AttributeError):
        setattr(noise, name, True)
    assert not noise.private and noise.receipt().private is False
