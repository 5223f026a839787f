"""Private domain adaptation, one module for each chapter."""

from .convex import CnvxAdap
from .nonconvex import NCnvxAdap

__all__ = ["CnvxAdap", "NCnvxAdap"]
