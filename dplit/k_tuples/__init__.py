"""Paper 2: k-tuple clustering (Cohen, Kaplan, Mansour, Stemmer, Tsfadia, ICML 2021)."""

from .averages import (
    KAverages,
    average_tuples,
    private_average,
)
from .clusterer import (
    check_tuples,
    printed_receipt,
)
from .kmeans import (
    KTupleGaussianMixture,
    KTupleKMeans,
    StablePrices,
    cell_means,
    cell_radii,
    parts_of,
    stability_needed,
    tuples_of,
)
from .noisy_centers import (
    KNoisyCenters,
    h_index,
    printed_loss,
    printed_separation,
)
from .paper import (
    canonical,
    count_unpartitioned,
    exact_plan,
    joint_failure_bound,
    laplace_tail,
    majority,
    paper_parameters,
    paper_plan,
    private_test_partition,
    rare_success,
    ratio_bound,
    separations,
    smallest,
    success_probability,
)
from .scales import (
    noise_factor,
    one_tuple_movement,
    scaled_centers,
    smallest_separation,
)
from .stable_tuples import (
    StableTupleMean,
    stable_geometry,
    stable_movement,
    stable_plan,
    stable_tuple_mean,
)

__all__ = [
    "KAverages",
    "KNoisyCenters",
    "KTupleGaussianMixture",
    "KTupleKMeans",
    "StablePrices",
    "StableTupleMean",
    "average_tuples",
    "canonical",
    "cell_means",
    "cell_radii",
    "check_tuples",
    "count_unpartitioned",
    "exact_plan",
    "h_index",
    "joint_failure_bound",
    "laplace_tail",
    "majority",
    "noise_factor",
    "one_tuple_movement",
    "paper_parameters",
    "paper_plan",
    "parts_of",
    "printed_loss",
    "printed_receipt",
    "printed_separation",
    "private_average",
    "private_test_partition",
    "rare_success",
    "ratio_bound",
    "scaled_centers",
    "separations",
    "smallest",
    "smallest_separation",
    "stability_needed",
    "stable_geometry",
    "stable_movement",
    "stable_plan",
    "stable_tuple_mean",
    "success_probability",
    "tuples_of",
]
