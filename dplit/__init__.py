"""Differential privacy, literately: private clustering and private adaptation, each theorem beside the code that is the algorithm."""

__version__ = "0.4.0.dev0"

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import accounting as accounting
    from . import adaptation as adaptation
    from . import audit as audit
    from . import clustering as clustering
    from . import command_line as command_line
    from . import datasets as datasets
    from . import estimators as estimators
    from . import geometry as geometry
    from . import inputs as inputs
    from . import k_tuples as k_tuples
    from . import ledger as ledger
    from . import max_cover as max_cover
    from . import mechanisms as mechanisms
    from . import plotting as plotting
    from . import private_evolution as private_evolution
    from . import source_target as source_target
    from .adaptation import CnvxAdap as CnvxAdap
    from .adaptation import CovariateShiftClassifier as CovariateShiftClassifier
    from .adaptation import CovariateShiftRegressor as CovariateShiftRegressor
    from .adaptation import LabelShiftClassifier as LabelShiftClassifier
    from .adaptation import NCnvxAdap as NCnvxAdap
    from .estimators import GridKMeans as GridKMeans
    from .estimators import NoisyLloyd as NoisyLloyd
    from .inputs import BoundedScaler as BoundedScaler
    from .k_tuples import KAverages as KAverages
    from .k_tuples import KNoisyCenters as KNoisyCenters
    from .k_tuples import KTupleGaussianMixture as KTupleGaussianMixture
    from .k_tuples import KTupleKMeans as KTupleKMeans
    from .k_tuples import StableTupleMean as StableTupleMean
    from .ledger import BudgetExceeded as BudgetExceeded
    from .ledger import LedgerError as LedgerError
    from .ledger import PrivacyBudget as PrivacyBudget
    from .max_cover import MaxCoverKMeans as MaxCoverKMeans
    from .private_evolution import HDPEMeans as HDPEMeans
    from .private_evolution import PEMeans as PEMeans
    from .source_target import NeighborNoisyAverages as NeighborNoisyAverages
    from .source_target import NoisyAverageSet as NoisyAverageSet
    from .source_target import SourceTargetKMedoids as SourceTargetKMedoids

# one line for each room; imports between rooms only point up this list
ROOMS = (
    "inputs",
    "accounting",
    "geometry",
    "mechanisms",
    "estimators",
    "max_cover",
    "k_tuples",
    "private_evolution",
    "source_target",
    "adaptation",
    "clustering",
    "ledger",
    "audit",
    "datasets",
    "plotting",
    "command_line",
)
# public names, and the room of each
_HOMES = {
    "BoundedScaler": "inputs",
    "BudgetExceeded": "ledger",
    "CnvxAdap": "adaptation",
    "CovariateShiftClassifier": "adaptation",
    "CovariateShiftRegressor": "adaptation",
    "GridKMeans": "estimators",
    "HDPEMeans": "private_evolution",
    "KAverages": "k_tuples",
    "KNoisyCenters": "k_tuples",
    "KTupleGaussianMixture": "k_tuples",
    "KTupleKMeans": "k_tuples",
    "LabelShiftClassifier": "adaptation",
    "LedgerError": "ledger",
    "MaxCoverKMeans": "max_cover",
    "NCnvxAdap": "adaptation",
    "NeighborNoisyAverages": "source_target",
    "NoisyAverageSet": "source_target",
    "NoisyLloyd": "estimators",
    "PEMeans": "private_evolution",
    "PrivacyBudget": "ledger",
    "SourceTargetKMedoids": "source_target",
    "StableTupleMean": "k_tuples",
}
__all__ = [*_HOMES]


class _Package(ModuleType):
    """Rooms are loaded when somebody first asks for one: `python -m dplit --help` needs none."""

    def __getattr__(self, name):
        room = _HOMES.get(name, name)
        if room not in ROOMS:
            raise AttributeError(f"module 'dplit' has no attribute {name!r}")
        __import__(f"dplit.{room}")
        found = sys.modules[f"dplit.{room}"]
        return found if room == name else getattr(found, name)

    def __dir__(self):
        return sorted([*_HOMES, *ROOMS])


sys.modules[__name__].__class__ = _Package
