"""What releases cost, alone and together: Gaussian and zCDP conversions, mixtures, group privacy, receipts and filters."""

from ..inputs.contracts import face
from .filters import (
    PrivacyCost, SHARES, Shares, Spending, dominating_mu, pure_mu, worst_adaptive_delta,
)
from .gaussian import (
    advanced_composition, basic_composition, classical_gaussian_mu, gaussian_delta,
    gaussian_epsilon, gaussian_mu, gdp_composition, subsampled, zcdp_delta, zcdp_epsilon,
    zcdp_rho,
)
from .groups import group_cost, group_factor, receipt_for_persons, record_budget
from .mixtures import (
    cover_delta, cover_exponent, failure_delta, mixture_delta, poisson_gaussian_delta,
    poisson_gaussian_epsilon,
)
from .receipts import Receipt, Release, Table, largest_scale

__all__ = [
    "PrivacyCost", "Receipt", "Release", "SHARES", "Shares", "Spending", "Table",
    "advanced_composition", "basic_composition", "classical_gaussian_mu", "cover_delta",
    "cover_exponent", "dominating_mu", "failure_delta", "gaussian_delta", "gaussian_epsilon",
    "gaussian_mu", "gdp_composition", "group_cost", "group_factor", "largest_scale",
    "mixture_delta", "poisson_gaussian_delta", "poisson_gaussian_epsilon", "pure_mu",
    "receipt_for_persons", "record_budget", "subsampled", "worst_adaptive_delta", "zcdp_delta", "zcdp_epsilon", "zcdp_rho",
]

face(__name__)
