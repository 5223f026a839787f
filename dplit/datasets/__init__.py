"""Synthetic sets, exact optima and loaders."""

from ..inputs.contracts import face
from .exact import (
    clipped_normal_moments, gaussian_radius, kmeans_loss, planted_loss, sphere_risk,
    two_gaussians_error, two_gaussians_loss,
)
from .loaders import (
    fetch_adult, fetch_mnist, load_breast_cancer, load_diabetes, load_digits, load_iris,
)
from .synthetic import (
    fetch_clustering, make_clipped_gaussians, make_contaminated_source, make_elongated_blobs,
    make_g2, make_isotropic_blobs, make_separated_gaussians, make_shifted_regression,
    make_source_target,
)

__all__ = [
    "clipped_normal_moments", "fetch_adult", "fetch_clustering", "fetch_mnist",
    "gaussian_radius", "kmeans_loss", "load_breast_cancer", "load_diabetes", "load_digits",
    "load_iris", "make_clipped_gaussians", "make_contaminated_source", "make_elongated_blobs",
    "make_g2", "make_isotropic_blobs", "make_separated_gaussians", "make_shifted_regression",
    "make_source_target", "planted_loss", "sphere_risk", "two_gaussians_error",
    "two_gaussians_loss",
]

face(__name__)
