"""What all private estimators share, the k-means estimators' base, and private Lloyd."""

from ..inputs.contracts import face
from .grid import LARGEST_GRID, LEAST_BINS, CellGrid, GridKMeans, bins_for, cell_weights
from .grid import grid_cells, grid_loss_bound, most_bins, nearest_counts, weighted_centers
from .kmeans import Clusters, PrivateKMeans, mean_errors, reconciled
from .lloyd import NoisyLloyd, center_error_bound, round_sensitivity, shaped_deviations
from .zooming import FEW, LOOKS, SEEN, look_budget, rows_beyond, shrink, tail_end, zoom

__all__ = [
    "CellGrid", "Clusters", "FEW", "GridKMeans", "LARGEST_GRID", "LEAST_BINS", "LOOKS",
    "NoisyLloyd", "PrivateKMeans", "SEEN", "bins_for", "cell_weights", "center_error_bound", "grid_cells",
    "grid_loss_bound", "look_budget", "mean_errors", "most_bins", "nearest_counts", "reconciled",
    "round_sensitivity", "rows_beyond", "shaped_deviations", "shrink", "tail_end",
    "weighted_centers", "zoom",
]

face(__name__)
