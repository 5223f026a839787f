"""Which cases run when.

A promise is asked of every estimator, every relation and every planted bug, and some of these grids take long. Of a
function in SWEEPS or SHARED, one case in k runs at once: those whose positions in their lists of parameters sum to a
multiple of k, so that estimators and bugs take turns. `rest` is all others of SHARED, one in four of those of SWEEPS (one in eight of those in REPLAYS), what
stands in FILES, WHOLE, IN_TURN or long.txt, every chapter that takes longer than CHAPTER seconds by seconds.txt, the lessons,
every fourth file of answers and the homework. `pytest -m rest` runs them; what every change must pass (.ci/run) takes
one part of them in eight, which the name of the commit draws (DPLIT_TURN), and all of WHOLE. `slow` is for hours, by hand: what is left of
the grids and of the answers, and what takes minutes by itself.
"""

import gc
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import forked_kernels
import measure_pages
import pytest

NO_BROWSER = (
    "no Chromium or Chrome on this machine"
    if measure_pages.chromium() is None
    else "playwright is not installed"
    if importlib.util.find_spec("playwright") is None
    else ""
)

CHAPTER = 3
LATER = {"answers", "lessons", "teachers"}  # folders
# of the tools, the site and what large tables ask of the machine: for later, whole
FILES = {
    "test_a_page",
    "test_benchmark",
    "test_browser",
    "test_class",
    "test_cited_theorems",
    "test_documents",
    "test_estimators_for_persons",
    "test_explorers",
    "test_mutants",
    "test_pdf",
    "test_quarto",
    "test_scale",
    "test_site",
    "test_slides",
    "test_statement_checks",
    "test_threads",
    "test_tight_statements",
}
SWEEPS = {
    "test_every_injected_bug_is_caught": 13,
    "test_replay_finds_nothing": 16,
    "test_replay_of_dense_tables_finds_nothing": 8,
    "test_exploring_finds_nothing": 16,
    "test_replay_catches_planted_bugs": 16,
    "test_replay_catches_what_people_write": 3,
    "test_replay_finds_nothing_in_many_runs": 4,
    "test_replay_of_persons_finds_nothing": 8,
    "test_replay_catches_a_factor_that_was_forgotten": 8,
    "test_replay_of_data_that_pass_finds_nothing": 4,
    "test_replay_says_what_is_wrong_with_a_cover": 3,
    "test_a_spoiled_row_is_refused_and_not_quoted": 4,
    "test_an_interval_has_the_loss_of_these_rows_as_often_as_it_says": 4,
    "test_no_type_of_number_makes_a_fit_cost_more_than_its_cost": 13,
    "test_words_in_a_table_are_refused_without_quoting_them": 7,
    "test_a_pick_has_the_distribution_of_the_exponential_mechanism_over_every_node": 4,
    "test_a_cover_is_the_exponential_mechanism_over_all_nodes": 3,
    "test_exponential_mechanism_has_the_exact_distribution": 2,
    "test_three_picks_in_a_row_have_their_joint_distribution": 2,
    "test_the_form_and_order_of_the_rows_do_not_change_a_bit": 4,
    "test_counts_equal_the_definition_in_exact_arithmetic": 4,
    "test_claim_4_5_is_false_and_the_joint_bound_holds": 4,
    "test_labels_agree_from_6_on_in_floating_point_too": 6,
    "test_tuples_far_from_the_origin_move_as_little_as_declared": 6,
    "test_what_can_never_be_answered_is_said_before_the_tuples_are_read": 4,
    "test_a_fit_spends_what_it_was_given_and_no_more": 4,
    "test_centers_and_scales_move_as_little_as_claimed": 3,
    "test_the_cost_with_a_failure_is_the_lowest_of_its_bounds": 4,
    "test_the_failure_of_hidden_balls_is_paid_at_the_epsilon_that_is_quoted": 4,
    "test_an_interrupted_fit_leaves_the_results_of_the_one_before": 4,
}
# grids that are short enough to be run whole in eight changes
SHARED = {
    "test_one_record_changes_nothing_but_released_outcomes": 4,  # a hundred pairs are in WHOLE
    "test_a_table_without_records_is_a_neighbor_too": 4,
    "test_a_bug_that_shows_on_one_record_is_found_in_a_hundred_pairs": 4,
    "test_no_error_state_of_numpy_changes_a_fit": 4,
    "test_neighbors_get_the_same_text_receipt_and_shapes": 3,
    "test_a_type_of_parquet_is_answered_or_refused_before_a_charge": 4,
    "test_a_kind_of_file_is_answered_or_refused_before_a_charge": 3,
    "test_as_many_fit_as_can_be_charged": 4,
    "test_a_signal_before_the_release_is_an_error_that_the_ledger_notes": 3,
    "test_a_signal_after_the_release_waits_for_centers_receipt_and_ledger": 4,
    "test_a_signal_after_all_is_written_does_not_turn_a_result_into_a_failure": 4,
    "test_a_run_that_keeps_fewer_rows_than_the_ledger_counts_costs_what_it_states": 4,
    "test_a_list_that_looks_badly_written_stops_the_run_unless_it_is_accepted": 4,
    "test_a_report_that_cannot_be_drawn_loses_nothing": 3,
    "test_a_grid_of_few_records_has_room_for_the_clusters_and_no_more": 3,
    "test_no_name_steers_the_terminal": 4,
}
# the longest: of the rest, one in eight in place of four
REPLAYS = {
    "test_every_injected_bug_is_caught",
    "test_replay_finds_nothing",
    "test_exploring_finds_nothing",
    "test_replay_catches_planted_bugs",
}
# of these, every change must pass all cases: what one record may decide is found in a hundred pairs
WHOLE = {"test_one_record_changes_nothing_in_a_hundred_pairs"}
IN_TURN = {"test_one_record_changes_nothing_in_five_hundred_pairs"}
# cases of more than one second, by pytest --durations=0 --durations-min=0.3 tests, and of more than a third of a second where
# a shorter case of the function runs at once; and (longest) of more than about five, where a shorter one asks the same
LONG, LONGEST = (
    set((Path(__file__).parent / name).read_text("utf8").splitlines())
    for name in ("long.txt", "longest.txt")
)


PARTS = 8  # of what is for later
forked_kernels.use()


def in_turn(things):
    """Those of a list whose turn it is: all of them, unless DPLIT_TURN names one part, from 0."""
    turn = os.environ.get("DPLIT_TURN")
    return things[int(turn) :: PARTS] if turn else things


def seconds_of():
    """How long each chapter takes (`jupyter execute`, on one core of a server), answers and lists aside."""
    lines = (Path(__file__).parent / "seconds.txt").read_text("utf8").splitlines()
    return {name: int(seconds) for name, seconds in map(str.split, lines)}


def long_chapters():
    """Names of the chapters that take more than CHAPTER seconds by seconds.txt."""
    return {name for name, seconds in seconds_of().items() if seconds > CHAPTER}


def when(item, long):
    """The mark of a case: "" if it runs at once."""
    if item.path.suffix == ".ipynb":
        if "answers" in item.path.parts:
            beside = sorted(item.path.parent.glob("*.ipynb"))
            return "slow" if beside.index(item.path) % 4 else "rest"
        name = "/".join(item.path.with_suffix("").parts[-2:])
        return "rest" if name in long or not LATER.isdisjoint(item.path.parts) else ""
    if item.nodeid in LONGEST:
        return "slow"
    name, turn = item.originalname, place(item)
    if name in SWEEPS and turn % SWEEPS[name]:
        return "slow" if (turn - 1) % (8 if name in REPLAYS else 4) else "rest"
    if turn % SHARED.get(name, 1):
        return "rest"
    later = item.path.stem in FILES or item.nodeid in LONG or name in WHOLE | IN_TURN
    return "rest" if later else ""


def place(item):
    """The sum of the positions of a case in its lists of parameters."""
    return sum(item.callspec.indices.values()) if hasattr(item, "callspec") else 0


@pytest.fixture(scope="module")
def browser():
    """The machine's own Chromium. Tests that ask for it are skipped, and say so, where there is none."""
    with measure_pages.browser() as opened:
        yield opened


@pytest.fixture
def tab(browser):
    """A tab of its own that notes what goes wrong in it."""
    with measure_pages.watched(browser) as tab:
        yield tab


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The built site: the folder that DPLIT_SITE names, or one built now."""
    if built := os.environ.get("DPLIT_SITE"):
        return Path(built).resolve()
    out = tmp_path_factory.mktemp("site") / "site"
    subprocess.run(
        [sys.executable, "tools/site/build_site.py", "--out", out],
        check=True,
        cwd=Path(__file__).parent.parent,
    )
    return out


def must_exist(config, items):
    """A name in long.txt or longest.txt of no case in a file that was collected whole: it was renamed, and runs at once."""
    if config.getoption("lf", default=False) or any("::" in arg for arg in config.args):
        return
    ids, files = {item.nodeid for item in items}, {item.nodeid.split("::")[0] for item in items}
    if stale := sorted(i for i in (LONG | LONGEST) - ids if i.split("::")[0] in files):
        raise pytest.UsageError(f"tests/long.txt or longest.txt names no case: {', '.join(stale)}")


def unit(item):
    """What has its turn together: a notebook, or a case."""
    return item.path if item.path.suffix == ".ipynb" else item.nodeid


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config, items):
    must_exist(config, items)
    long = long_chapters()
    for item in items:
        if not item.get_closest_marker("slow") and (mark := when(item, long)):
            item.add_marker(mark)
        if NO_BROWSER and "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason=NO_BROWSER))
    # test_a_page.py gives its pages turns itself
    apart = {
        i for i in items if i.path.stem == "test_a_page" or getattr(i, "originalname", "") in WHOLE
    }
    later = [i for i in items if i.get_closest_marker("rest") and i not in apart]
    now = {*in_turn([*dict.fromkeys(map(unit, later))])}
    left = {item for item in later if unit(item) not in now}
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=[*left])


def pytest_collection_finish():
    """The tens of thousands of cases live to the end: what looks for garbage need not look at them each time."""
    gc.collect()
    gc.freeze()
