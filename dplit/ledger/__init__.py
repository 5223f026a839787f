"""A privacy budget that many fits share: its file, its rules, private choices among fits."""

from .choosing import (
    choice_error,
    choose_n_clusters,
    penalised_distances,
    search_prices,
)
from .ledger import (
    Ledger,
    Pages,
    PrivacyBudget,
    Till,
)
from .rules import (
    BudgetExceeded,
    Rule,
    check_tables,
    gaussian_bound,
    line_by_line,
    problem,
    settled,
    worst_settled_delta,
)
from .search import (
    Plan,
    STEPS,
    bounded_loss,
    check_plan,
    check_scorer,
    squared_distances,
)
from .store import (
    Event,
    LedgerError,
    Sums,
    read_all,
)

__all__ = [
    "BudgetExceeded",
    "Event",
    "Ledger",
    "LedgerError",
    "Pages",
    "Plan",
    "PrivacyBudget",
    "Rule",
    "STEPS",
    "Sums",
    "Till",
    "bounded_loss",
    "check_plan",
    "check_scorer",
    "check_tables",
    "choice_error",
    "choose_n_clusters",
    "gaussian_bound",
    "line_by_line",
    "penalised_distances",
    "problem",
    "read_all",
    "search_prices",
    "settled",
    "squared_distances",
    "worst_settled_delta",
]
