"""Paper 2: k-tuple clustering (Cohen, Kaplan, Mansour, Stemmer, Tsfadia, ICML 2021)."""

from ..inputs.contracts import face
from .averages import (
    KAverages, average_tuples, averages_bound, private_average, rotated_average, rotated_releases,
)
from .kmeans import KTupleGaussianMixture, KTupleKMeans, parts_of, stability_needed, tuples_of
from .noisy_centers import (
    KNoisyCenters, advanced_epsilon, composed_separation, h_index, published_loss, published_separation,
)
from .paper import (
    canonical, count_unpartitioned, exact_plan, joint_failure_bound, majority, paper_parameters,
    paper_plan, private_test_partition, rare_success, ratio_bound, separations,
    success_probability,
)
from .scales import noise_factor, one_tuple_movement, scaled_centers, smallest_separation
from .stable_tuples import (
    StableTupleMean, stable_geometry, stable_movement, stable_plan, stable_tuple_mean,
)

__all__ = [
    "KAverages", "KNoisyCenters", "KTupleGaussianMixture", "KTupleKMeans", "StableTupleMean",
    "advanced_epsilon", "average_tuples", "averages_bound", "canonical", "composed_separation",
    "count_unpartitioned", "exact_plan", "h_index", "joint_failure_bound", "majority",
    "noise_factor", "one_tuple_movement", "paper_parameters", "paper_plan", "parts_of",
    "published_loss", "published_separation", "private_average", "private_test_partition",
    "rare_success", "ratio_bound", "rotated_average", "rotated_releases", "scaled_centers",
    "separations", "smallest_separation", "stability_needed", "stable_geometry",
    "stable_movement", "stable_plan", "stable_tuple_mean", "success_probability", "tuples_of",
]

face(__name__)
