"""Paper 4: source-target clustering (Schnapp, Sabato, TMLR 2025)."""

from .averages import (
    cell_sensitivity,
    diff_bound,
    laplace_noise_bound,
    mean_noise_bound,
    nas_sensitivity,
    nas_sigma,
    neighbor_noisy_averages,
    nna_bound,
    noisy_average_set,
    printed_noise_bound,
)
from .cells import (
    affordable_cells,
    average_rms,
    count_tail,
    count_threshold,
    countable_cells,
    covering_cells,
    cylinder_rms,
    kd_cover,
    target_cells,
    target_clouds,
    target_spacing,
)
from .medoids import (
    SourceTargetKMedoids,
    error_probability,
    source_distance,
    stc_cost,
)
from .sources import (
    NeighborNoisyAverages,
    NoisyAverageSet,
    SOURCES,
)

__all__ = [
    "NeighborNoisyAverages",
    "NoisyAverageSet",
    "SOURCES",
    "SourceTargetKMedoids",
    "affordable_cells",
    "average_rms",
    "cell_sensitivity",
    "count_tail",
    "count_threshold",
    "countable_cells",
    "covering_cells",
    "cylinder_rms",
    "diff_bound",
    "error_probability",
    "kd_cover",
    "laplace_noise_bound",
    "mean_noise_bound",
    "nas_sensitivity",
    "nas_sigma",
    "neighbor_noisy_averages",
    "nna_bound",
    "noisy_average_set",
    "printed_noise_bound",
    "source_distance",
    "stc_cost",
    "target_cells",
    "target_clouds",
    "target_spacing",
]
