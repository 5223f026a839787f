"""What comes in: public parameters by rules, private tables by one reader, and public ranges of columns."""

from .blocks import MappedRows, map_blocks, MovedRows
from .checks import AbstainedWarning, PrivacyWarning
from .contracts import face
from .lattice import quantize
from .numbers import UnreadableRecords
from .ranges import BoundedScaler, Box, Column
from .tables import check_rows

__all__ = [
    "AbstainedWarning", "BoundedScaler", "Box", "Column", "MappedRows", "MovedRows", "PrivacyWarning",
    "UnreadableRecords", "check_rows", "map_blocks", "quantize",
]

face(__name__)
