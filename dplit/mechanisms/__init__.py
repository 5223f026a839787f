"""Mechanisms: exact samplers, the journal of releases, `Noise`, noisy averages, quantiles and losses."""

from .discrete import (
    Mechanisms,
)
from .journal import (
    Event,
    Journal,
    watch,
)
from .loss import (
    Loss,
    difference_quantile,
    loss_interval,
    loss_parts,
    private_loss,
)
from .noise import (
    Noise,
    count_weight,
    mean_in_ball,
    sum_sensitivity,
)
from .noisy_average import (
    noisy_avg,
    noisy_avg_delta,
)
from .quantiles import (
    PARTS,
    gap_sensitivity,
    histogram_quantile_error,
    private_quantile,
    private_radius,
    quantile_cell,
    quantile_error,
    radius_cells,
    rank_gaps,
)
from .samplers import (
    Bits,
    gauge,
    gaussian_int,
    geometric_int,
    knorm_int,
    laplace_int,
    lattice_law,
)

__all__ = [
    "Bits",
    "Event",
    "Journal",
    "Loss",
    "Mechanisms",
    "Noise",
    "PARTS",
    "count_weight",
    "difference_quantile",
    "gap_sensitivity",
    "gauge",
    "gaussian_int",
    "geometric_int",
    "histogram_quantile_error",
    "knorm_int",
    "laplace_int",
    "lattice_law",
    "loss_interval",
    "loss_parts",
    "mean_in_ball",
    "noisy_avg",
    "noisy_avg_delta",
    "private_loss",
    "private_quantile",
    "private_radius",
    "quantile_cell",
    "quantile_error",
    "radius_cells",
    "rank_gaps",
    "sum_sensitivity",
    "watch",
]
