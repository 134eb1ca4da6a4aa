"""Everything that is fitted: coefficients of kernel families, linear models."""

from .families import fit, fit_cases, rounded
from .groups import Group, group
from .least_squares import available, linear, require, solve
from .small import fit_small
from .updates import update_cases

__all__ = [
    "Group",
    "available",
    "fit",
    "fit_cases",
    "fit_small",
    "group",
    "linear",
    "require",
    "rounded",
    "solve",
    "update_cases",
]
