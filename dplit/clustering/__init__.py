"""Private clustering, one module for each algorithm."""

from .lloyd import NoisyLloyd
from .max_cover import MaxCoverKMeans

__all__ = ["MaxCoverKMeans", "NoisyLloyd"]
