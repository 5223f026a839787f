"""Paper 5: private domain adaptation (Bassily, Cortes, Mao, Mohri, ICML 2024)."""

from .classification import (
    Classification, NCnvxAdap, adapt_classifier, guarded_gain, least_right, profiled_gradient,
    train,
)
from .convex import (
    algorithm_1, default_alpha, descent_bound, gradient_bound, gradient_diameter,
    joint_gradient, joint_objective, profile_weights, profiled_excess_bound, profiled_loss,
    profiled_sensitivity, released_weights_excess, weight_bounds, weighted_objective,
)
from .covariate_shift import (
    CovariateShiftClassifier, CovariateShiftRegressor, moment_error, nearest_weights,
    weighted_loss_bound,
)
from .discrepancy import (
    Reweighting, dca_max, discrepancy_minimization, discrepancy_sensitivity, kernel_mean_matching,
    labeled_discrepancy, loss_bound, loss_difference, moment_noise_bound,
    published_reweighting_bound, private_discrepancy, private_second_moment, rademacher_bound,
    reweighting_bound, total_variation_bound, trust_region_max, trust_region_violation,
)
from .label_shift import (
    LabelShiftClassifier, black_box_counts, counts_p_value, moments_p_value,
    shift_excess_bound, shrunk_proportions,
)
from .local import (
    adapt_without_labels, local_discrepancy, private_local_discrepancy, rule_difference,
    unlabeled_discrepancy,
)
from .losses import LogLoss, Loss, NetworkLoss, log_reach
from .nonconvex import (
    algorithm_2, best_n_iter, objective_smoothness, smoothed_objective, soft_maximum,
    stationarity_bound, target_names, trust_in, worth_calling,
)
from .regression import (
    CnvxAdap, Regression, adapt_regression, choose_in_public, profiled_regression, raised_share,
)
from .samples import Sample, noisy_gradient, on_lattice, squared_errors
from ..inputs.contracts import face

__all__ = [
    "Classification", "CnvxAdap", "CovariateShiftClassifier", "CovariateShiftRegressor",
    "LabelShiftClassifier", "LogLoss", "Loss", "NCnvxAdap", "NetworkLoss", "Regression",
    "Reweighting", "Sample", "adapt_classifier", "adapt_regression", "adapt_without_labels",
    "algorithm_1", "algorithm_2", "best_n_iter", "black_box_counts", "choose_in_public",
    "counts_p_value", "dca_max", "default_alpha", "descent_bound", "discrepancy_minimization",
    "discrepancy_sensitivity", "gradient_bound", "gradient_diameter", "guarded_gain",
    "joint_gradient", "joint_objective", "kernel_mean_matching", "labeled_discrepancy",
    "least_right", "local_discrepancy", "log_reach", "loss_bound", "loss_difference",
    "moment_error", "moment_noise_bound", "moments_p_value", "nearest_weights",
    "noisy_gradient", "objective_smoothness", "on_lattice", "published_reweighting_bound",
    "private_discrepancy", "private_local_discrepancy", "private_second_moment",
    "profile_weights", "profiled_excess_bound", "profiled_gradient", "profiled_loss",
    "profiled_regression", "profiled_sensitivity", "rademacher_bound", "raised_share",
    "released_weights_excess", "reweighting_bound", "rule_difference", "shift_excess_bound",
    "shrunk_proportions", "smoothed_objective", "soft_maximum", "squared_errors",
    "stationarity_bound", "target_names", "total_variation_bound", "train", "trust_in",
    "trust_region_max", "trust_region_violation", "unlabeled_discrepancy", "weight_bounds",
    "weighted_loss_bound", "weighted_objective", "worth_calling",
]

face(__name__)
