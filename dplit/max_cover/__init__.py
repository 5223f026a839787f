"""Paper 1: private k-means by the exponential mechanism and max cover (Nguyen, Chaturvedi, Xu, AAAI 2021)."""

from ..inputs.contracts import face
from .grid import GridCover, grid_fits, stencil
from .kmeans import MaxCoverKMeans, max_cover_budget, max_cover_releases, worth_keeping
from .paper import (
    cluster_candidates, cost_lower_bound, cover_radii, coverage_bound, grid_set_cover,
    max_cover, movement_bound, paper_exponent,
)

__all__ = [
    "GridCover", "MaxCoverKMeans", "cluster_candidates", "cost_lower_bound", "cover_radii",
    "coverage_bound", "grid_fits", "grid_set_cover", "max_cover", "max_cover_budget",
    "max_cover_releases", "movement_bound", "paper_exponent", "stencil", "worth_keeping",
]

face(__name__)
