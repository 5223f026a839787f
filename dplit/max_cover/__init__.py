"""Paper 1: private k-means by the exponential mechanism and max cover (Nguyen, Chaturvedi, Xu, AAAI 2021)."""

from .grid import (
    Grid,
    GridCover,
    check_grid,
    grid_fits,
    stencil,
)
from .kmeans import (
    LOOKS,
    MaxCoverKMeans,
    max_cover_prices,
    max_cover_releases,
    worth_keeping,
)
from .paper import (
    cluster_candidates,
    cost_lower_bound,
    cover_radii,
    coverage_bound,
    grid_set_cover,
    max_cover,
    movement_bound,
    paper_exponent,
    printed_covers,
    printed_prices,
)

__all__ = [
    "Grid",
    "GridCover",
    "LOOKS",
    "MaxCoverKMeans",
    "check_grid",
    "cluster_candidates",
    "cost_lower_bound",
    "cover_radii",
    "coverage_bound",
    "grid_fits",
    "grid_set_cover",
    "max_cover",
    "max_cover_prices",
    "max_cover_releases",
    "movement_bound",
    "paper_exponent",
    "printed_covers",
    "printed_prices",
    "stencil",
    "worth_keeping",
]
