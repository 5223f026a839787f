"""`python -m dplit`: what it is asked (`options`), CSV and Parquet files (`files`), the programs and their report."""

from .options import parse

__all__ = ["parse"]
