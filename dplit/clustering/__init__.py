"""Private clustering, one module for each algorithm."""

from .lloyd import NoisyLloyd
from .max_cover import MaxCoverKMeans
from .private_evolution import HDPEMeans, PEMeans

__all__ = ["HDPEMeans", "MaxCoverKMeans", "NoisyLloyd", "PEMeans"]
