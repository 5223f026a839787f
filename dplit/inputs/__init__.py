"""What comes in: public parameters by rules, private tables by one reader, and public ranges of columns."""

from .blocks import MappedRows, map_blocks, MovedRows
from .checks import AbstainedWarning, DoubtWarning, PrivacyWarning
from .columns import Column
from .contracts import face
from .contributions import bound_contributions, contribution_mask
from .lattice import quantize
from .numbers import UnreadableRecords
from .ranges import BoundedScaler, Box
from .tables import check_rows

__all__ = [
    "AbstainedWarning", "BoundedScaler", "Box", "Column", "DoubtWarning", "MappedRows",
    "MovedRows", "PrivacyWarning", "UnreadableRecords", "bound_contributions", "check_rows",
    "contribution_mask", "map_blocks", "quantize",
]

face(__name__)
