"""Source-target clustering: the solver, cells of the target, noisy averages, and the two estimators that release points in place of private sources."""

from . import averages, cells, medoids, sources
from .averages import *
from .cells import *
from .medoids import *
from .sources import *

__all__ = [*medoids.__all__, *cells.__all__, *averages.__all__, *sources.__all__]
