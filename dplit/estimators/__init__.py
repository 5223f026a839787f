"""What all private estimators share, the k-means estimators' base, and private Lloyd."""

from .kmeans import (
    Clusters,
    PrivateKMeans,
)
from .lloyd import (
    NoisyLloyd,
    center_error_bound,
    round_sensitivity,
)
from .zooming import (
    BINS,
    DISTANCES,
    FEW,
    LOOKS,
    MEAN,
    SEEN,
    look_prices,
    rows_beyond,
    shrink,
    tail_end,
    zoom,
)

__all__ = [
    "BINS",
    "Clusters",
    "DISTANCES",
    "FEW",
    "LOOKS",
    "MEAN",
    "NoisyLloyd",
    "PrivateKMeans",
    "SEEN",
    "center_error_bound",
    "look_prices",
    "round_sensitivity",
    "rows_beyond",
    "shrink",
    "tail_end",
    "zoom",
]
