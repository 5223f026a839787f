"""Mechanisms: exact samplers (in `samplers`, also the `race` that draws the exponential mechanism), the journal of releases, `Noise`, quantiles, losses."""

from ..inputs.contracts import face
from .journal import Event, watch
from .loss import Loss, loss_interval, loss_parts, private_loss
from .noise import Noise, count_weight, mean_in_ball, sum_sensitivity
from .noisy_average import noisy_avg, noisy_avg_delta
from .quantiles import (
    histogram_quantile_error, private_quantile, private_radius, quantile_cell, quantile_error,
    radius_cells, rank_gaps,
)
from .samplers import Bits, gauge, gaussian_int, geometric_int, knorm_int, laplace_int, lattice_distribution

__all__ = [
    "Bits", "Event", "Loss", "Noise", "count_weight", "gauge", "gaussian_int", "geometric_int",
    "histogram_quantile_error", "knorm_int", "laplace_int", "lattice_distribution", "loss_interval",
    "loss_parts", "mean_in_ball", "noisy_avg", "noisy_avg_delta", "private_loss",
    "private_quantile", "private_radius", "quantile_cell", "quantile_error", "radius_cells",
    "rank_gaps", "sum_sensitivity", "watch",
]

face(__name__)
