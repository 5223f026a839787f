"""Paper 1: private k-means by the exponential mechanism and max cover (Nguyen, Chaturvedi, Xu, AAAI 2021)."""

from .grid import (
    GridCover,
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
    "GridCover",
    "LOOKS",
    "MaxCoverKMeans",
    "cluster_candidates",
    "cost_lower_bound",
    "cover_radii",
    "coverage_bound",
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
