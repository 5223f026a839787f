"""Every private clustering estimator under one name."""

from ..estimators import GridKMeans, NoisyLloyd
from ..k_tuples import (
    KAverages, KNoisyCenters, KTupleGaussianMixture, KTupleKMeans, StableTupleMean,
)
from ..max_cover import MaxCoverKMeans
from ..private_evolution import HDPEMeans, PEMeans

__all__ = [
    "GridKMeans", "HDPEMeans", "KAverages", "KNoisyCenters", "KTupleGaussianMixture", "KTupleKMeans",
    "MaxCoverKMeans", "NoisyLloyd", "PEMeans", "StableTupleMean",
]
