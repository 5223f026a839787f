"""What comes in: public parameters by rules, private tables by one reader, blocks, the lattice and public ranges."""

from .blocks import (
    MappedRows,
    keep_rows,
    map_blocks,
)
from .checks import (
    AbstainedWarning,
    PrivacyWarning,
    check_between,
    check_center,
    check_choice,
    check_count,
    check_delta,
    check_epsilon,
    check_flag,
    check_neighboring,
    check_points,
    check_radius,
    check_random_state,
)
from .console import (
    SIGNALS,
    Stopped,
    check_folder,
    clock,
    held,
    say,
)
from .declared import (
    LARGEST,
    WORDS,
    as_float64,
    cells_of,
    check_arrays,
    check_each,
    check_memory,
    documented,
    settle,
)
from .foreign import (
    check_foreign,
    each_record,
    quiet,
)
from .frames import (
    column_names,
    not_a_table,
    without_rows,
)
from .lattice import (
    quantize,
)
from .ranges import (
    BoundedScaler,
    Box,
    Column,
    category_radius,
)
from .tables import (
    check_columns,
    check_rows,
)

__all__ = [
    "AbstainedWarning",
    "BoundedScaler",
    "Box",
    "Column",
    "LARGEST",
    "MappedRows",
    "PrivacyWarning",
    "SIGNALS",
    "Stopped",
    "WORDS",
    "as_float64",
    "category_radius",
    "cells_of",
    "check_arrays",
    "check_between",
    "check_center",
    "check_choice",
    "check_columns",
    "check_count",
    "check_delta",
    "check_each",
    "check_epsilon",
    "check_flag",
    "check_folder",
    "check_foreign",
    "check_memory",
    "check_neighboring",
    "check_points",
    "check_radius",
    "check_random_state",
    "check_rows",
    "clock",
    "column_names",
    "documented",
    "each_record",
    "held",
    "keep_rows",
    "map_blocks",
    "not_a_table",
    "quantize",
    "quiet",
    "say",
    "settle",
    "without_rows",
]
