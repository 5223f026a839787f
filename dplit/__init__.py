"""Differential privacy, literately: private clustering and private adaptation, each theorem beside the code that is the algorithm."""

__version__ = "0.1.0"

from .accounting import BudgetExceeded, PrivacyBudget
from .clustering import HDPEMeans, MaxCoverKMeans, NoisyLloyd, PEMeans

__all__ = [
    "BudgetExceeded",
    "HDPEMeans",
    "MaxCoverKMeans",
    "NoisyLloyd",
    "PEMeans",
    "PrivacyBudget",
]
