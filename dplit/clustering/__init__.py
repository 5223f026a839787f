"""Private clustering, one module for each algorithm."""

from .lloyd import NoisyLloyd

__all__ = ["NoisyLloyd"]
