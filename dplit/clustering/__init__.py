"""Private clustering, one module for each algorithm."""

from .k_tuples import KAverages, KNoisyCenters, StableTupleMean
from .lloyd import NoisyLloyd
from .max_cover_kmeans import MaxCoverKMeans
from .pe_means import HDPEMeans, PEMeans
from .stable import KTupleGaussianMixture, KTupleKMeans

__all__ = [
    "HDPEMeans",
    "KAverages",
    "KNoisyCenters",
    "KTupleGaussianMixture",
    "KTupleKMeans",
    "MaxCoverKMeans",
    "NoisyLloyd",
    "PEMeans",
    "StableTupleMean",
]
