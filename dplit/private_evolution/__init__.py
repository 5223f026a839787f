"""Paper 3: private k-means by private evolution (PE-means, 2026)."""

from ..inputs.contracts import face
from .kmeans import (
    HDPEMeans, PEMeans, evolution_budget, refine_step, residual_radius, step_error, step_budget,
)
from .paper import (
    dp_nn_histogram, keep_largest, levy_steps, mantegna_scale, paper_rounds, paper_variations,
    private_evolution, select, variations, vote_noise,
)
from .quadtree import (
    coarse_bins, false_mass_threshold, has_quadtree, pooled_counts, quadtree_plan, quadtree_search,
    quadtree_votes,
)
from .votes import grid_radius, nearest_member, vote_grid

__all__ = [
    "HDPEMeans", "PEMeans", "coarse_bins", "dp_nn_histogram", "evolution_budget", "false_mass_threshold",
    "grid_radius", "has_quadtree", "keep_largest", "levy_steps", "mantegna_scale", "nearest_member",
    "paper_rounds", "paper_variations", "pooled_counts", "private_evolution", "quadtree_plan",
    "quadtree_search", "quadtree_votes", "refine_step", "residual_radius", "select", "step_error", "step_budget",
    "variations", "vote_grid", "vote_noise",
]

face(__name__)
