"""What all private estimators share, the k-means estimators' base, and private Lloyd."""

from ..inputs.contracts import face
from .kmeans import Clusters, PrivateKMeans, mean_errors, reconciled
from .lloyd import NoisyLloyd, center_error_bound, round_sensitivity
from .zooming import FEW, LOOKS, SEEN, look_prices, rows_beyond, shrink, tail_end, zoom

__all__ = [
    "Clusters", "FEW", "LOOKS", "NoisyLloyd", "PrivateKMeans", "SEEN", "center_error_bound",
    "look_prices", "mean_errors", "reconciled", "round_sensitivity", "rows_beyond", "shrink", "tail_end",
    "zoom",
]

face(__name__)
