"""Private domain adaptation, one module for each chapter."""

from .cnvx_adap import CnvxAdap
from .label_shift import LabelShiftClassifier
from .ncnvx_adap import NCnvxAdap

__all__ = ["CnvxAdap", "LabelShiftClassifier", "NCnvxAdap"]
