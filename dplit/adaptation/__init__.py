"""Private domain adaptation, one module for each chapter."""

from .convex import CnvxAdap

__all__ = ["CnvxAdap"]
