"""Paper 4: source-target clustering (Schnapp, Sabato, TMLR 2025)."""

from ..inputs.contracts import face
from .averages import (
    cell_sensitivity, diff_bound, laplace_noise_bound, mean_noise_bound, nas_sensitivity,
    nas_sigma, neighbor_noisy_averages, nna_bound, noisy_average_set, published_noise_bound,
)
from .cells import (
    average_rms, count_tail, count_threshold, covering_cells, cylinder_rms, kd_cover,
    target_cells, target_spacing,
)
from .medoids import SourceTargetKMedoids, error_probability, source_distance, stc_cost
from .sources import NeighborNoisyAverages, NoisyAverageSet

__all__ = [
    "NeighborNoisyAverages", "NoisyAverageSet", "SourceTargetKMedoids", "average_rms",
    "cell_sensitivity", "count_tail", "count_threshold", "covering_cells", "cylinder_rms",
    "diff_bound", "error_probability", "kd_cover", "laplace_noise_bound", "mean_noise_bound",
    "nas_sensitivity", "nas_sigma", "neighbor_noisy_averages", "nna_bound", "noisy_average_set",
    "published_noise_bound", "source_distance", "stc_cost", "target_cells", "target_spacing",
]

face(__name__)
