"""The house in numbers: how much of a fit is checks, what an import loads, and lists that stand in two places."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import house
import pytest
from sklearn.base import BaseEstimator, ClusterMixin

import dplit

ROOT = Path(__file__).parent.parent.parent
INIT = (ROOT / "dplit" / "__init__.py").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore")
def test_less_than_a_tenth_of_the_calls_of_a_small_fit_are_checks():
    """Counted by the tool that prints the table: fails if a contract is called in a loop inside."""
    total, why = house.calls_of(*house.small_fit())
    checks = sum(sum(found.values()) for found in why.values())
    assert total > 1000 and 0 < checks < total / 10, (checks, total)


@pytest.mark.parametrize("program", [("-c", "import dplit"), ("-m", "dplit", "--help")])
def test_a_start_loads_no_library(program):
    """A name of a library in -X importtime's list costs up to a second before anything is said."""
    command = [sys.executable, "-X", "importtime", *program]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stderr
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in said.splitlines()}
    assert "dplit" in loaded
    assert not loaded & {"numpy", "scipy", "sklearn", "matplotlib", "pandas"}


def test_what_type_checkers_read_is_what_is_loaded():
    (given,) = [node for node in ast.parse(INIT).body if isinstance(node, ast.If)]
    read = [(node.module, name.name, name.asname) for node in given.body for name in node.names]
    rooms = [(None, room, room) for room in dplit.ROOMS]
    names = [(room, name, name) for name, room in dplit._HOMES.items()]
    assert sorted(read, key=str) == sorted(rooms + names, key=str)


def test_the_table_of_contributors_is_the_table_of_rooms():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## The rooms")[2].partition("\n* ")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert re.findall(r"`(\w+)`", " ".join(cells)) == [*dplit.ROOMS]


def estimators_left_out(rooms, public, clustering):
    """Estimators on a face that `from dplit import ...`, or `dplit.clustering` if they cluster, does not know."""
    for face in rooms:
        for name in face.__all__:
            made = getattr(face, name)
            if inspect.isclass(made) and issubclass(made, BaseEstimator):
                if name not in public and name != "PrivateKMeans":  # made to be derived from
                    yield f"dplit: {name}"
                if issubclass(made, ClusterMixin) and name in public and name not in clustering:
                    yield f"dplit.clustering: {name}"


def test_every_estimator_of_a_face_is_a_public_name():
    rooms = [getattr(dplit, room) for room in dplit.ROOMS]
    known = {"NeighborNoisyAverages", "NoisyAverageSet", "SourceTargetKMedoids"}  # a paper's own
    clustering = {*dplit.clustering.__all__} | known
    assert not [*estimators_left_out(rooms, {*dplit.__all__}, clustering)]


def test_an_estimator_left_out_is_seen():
    rooms = [dplit.private_evolution]
    assert [*estimators_left_out(rooms, {"HDPEMeans"}, {"HDPEMeans"})] == ["dplit: PEMeans"]
    both = {"HDPEMeans", "PEMeans"}
    assert [*estimators_left_out(rooms, both, {"PEMeans"})] == ["dplit.clustering: HDPEMeans"]
