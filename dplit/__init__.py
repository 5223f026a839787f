"""Differential privacy, literately: private clustering and private adaptation, each theorem beside the code that is the algorithm."""

__version__ = "0.4.0.dev0"

from .charges import BudgetExceeded
from .ledger import PrivacyBudget
from .ledger_file import LedgerError
from .adaptation import CnvxAdap, LabelShiftClassifier, NCnvxAdap
from .clustering import (
    HDPEMeans,
    KAverages,
    KNoisyCenters,
    KTupleGaussianMixture,
    KTupleKMeans,
    MaxCoverKMeans,
    NoisyLloyd,
    PEMeans,
    StableTupleMean,
)
from .source_target import NeighborNoisyAverages, NoisyAverageSet, SourceTargetKMedoids

__all__ = [
    "BudgetExceeded",
    "CnvxAdap",
    "HDPEMeans",
    "KAverages",
    "KNoisyCenters",
    "KTupleGaussianMixture",
    "KTupleKMeans",
    "LabelShiftClassifier",
    "LedgerError",
    "MaxCoverKMeans",
    "NCnvxAdap",
    "NeighborNoisyAverages",
    "NoisyAverageSet",
    "NoisyLloyd",
    "PEMeans",
    "PrivacyBudget",
    "SourceTargetKMedoids",
    "StableTupleMean",
]
