"""Private clustering, one module for each algorithm."""

from .k_tuples import KAverages, KNoisyCenters, StableTupleMean
from .lloyd import NoisyLloyd
from .max_cover import MaxCoverKMeans

__all__ = ["KAverages", "KNoisyCenters", "MaxCoverKMeans", "NoisyLloyd", "StableTupleMean"]
