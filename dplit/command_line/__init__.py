"""`python -m dplit`."""

from .options import parse

__all__ = ["parse"]
