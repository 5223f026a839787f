"""A privacy budget shared by many fits: its ledger, its privacy filter, and private choices among fits."""

from ..inputs.contracts import face
from .choosing import choice_error, choose_n_clusters, penalised_distances, search_budget
from .admission import BudgetExceeded
from .ledger import PrivacyBudget
from .pipelines import record_wise
from .rules import declared_cost, line_by_line, worst_settled_delta
from .search import squared_distances
from .store import LedgerError

__all__ = [
    "BudgetExceeded", "LedgerError", "PrivacyBudget", "choice_error", "choose_n_clusters",
    "declared_cost", "line_by_line", "penalised_distances", "record_wise", "search_budget",
    "squared_distances", "worst_settled_delta",
]

face(__name__)
