"""Differential privacy, literately: private clustering and private adaptation, each theorem beside the code that is the algorithm."""

__version__ = "0.1.0"

from .accounting import BudgetExceeded, PrivacyBudget
from .adaptation import CnvxAdap, NCnvxAdap
from .clustering import HDPEMeans, MaxCoverKMeans, NoisyLloyd, PEMeans
from .source_target import NeighborNoisyAverages, NoisyAverageSet, SourceTargetKMedoids

__all__ = [
    "BudgetExceeded",
    "CnvxAdap",
    "HDPEMeans",
    "MaxCoverKMeans",
    "NCnvxAdap",
    "NeighborNoisyAverages",
    "NoisyAverageSet",
    "NoisyLloyd",
    "PEMeans",
    "PrivacyBudget",
    "SourceTargetKMedoids",
]
