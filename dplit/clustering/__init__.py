"""Private clustering, one module for each algorithm."""

from .k_averages import KAverages
from .k_noisy_centers import KNoisyCenters
from .lloyd import NoisyLloyd
from .max_cover_kmeans import MaxCoverKMeans
from .pe_means import HDPEMeans, PEMeans
from .stable import KTupleGaussianMixture, KTupleKMeans
from .stable_tuples import StableTupleMean

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
