"""Attacks on all of this: recordings, replays, bugs injected on purpose, behavior on neighboring tables."""

from ..inputs.contracts import face
from .audit import (
    Findings, brute_force_sensitivity, catch, epsilon_lower_bound, explore, mu_lower_bound,
    replay, straddling, transcripts, weigh,
)
from .faults import Lab, FAULTS, fault, inject
from .observations import (
    BUGS, Observation, asking, behavior, extreme_pairs, fitting, injected, observe,
)
from .recordings import Recording, dense_pairs, neighbors, record, walks
from .weighing import check_draws, check_distribution, check_noise

__all__ = [
    "BUGS", "Findings", "Lab", "Observation", "Recording", "FAULTS", "asking", "behavior",
    "brute_force_sensitivity", "catch", "check_draws", "check_distribution", "check_noise",
    "epsilon_lower_bound", "explore", "extreme_pairs", "fitting", "injected", "mu_lower_bound",
    "dense_pairs", "neighbors", "observe", "fault", "record", "replay", "inject", "straddling",
    "transcripts", "walks", "weigh",
]

face(__name__)
