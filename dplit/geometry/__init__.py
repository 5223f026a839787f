"""Public geometry: balls, projections, nearest centers, covers and packings."""

from ..inputs.contracts import face
from .balls import clip_to_ball, uniform_in_ball, uniform_on_sphere
from .covers import (
    ball_volume_log, cover, covering_number_bound, farthest_point_cover, net_cover,
    packing_number_bound, sphere_packing,
)
from .neighbors import (
    NearestCenter, grid_bits, grid_regret, index_bits, nearest, nearest_distance, t_nearest,
    to_grid,
)
from .projections import (
    gaussian_projection, jl_dimension, jl_failure, orthonormal_projection, project,
)

__all__ = [
    "NearestCenter", "ball_volume_log", "clip_to_ball", "cover", "covering_number_bound",
    "farthest_point_cover", "gaussian_projection", "grid_bits", "grid_regret", "index_bits",
    "jl_dimension", "jl_failure", "nearest", "nearest_distance", "net_cover",
    "orthonormal_projection", "packing_number_bound", "project", "sphere_packing", "t_nearest",
    "to_grid", "uniform_in_ball", "uniform_on_sphere",
]

face(__name__)
