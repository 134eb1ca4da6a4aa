"""Everything that is fitted: coefficients of kernel families, linear models."""

from .families import Group, fit, fit_cases, group, rounded
from .least_squares import available, linear, require, solve
from .small import fit_small

__all__ = ["Group", "available", "fit", "fit_cases", "fit_small", "group", "linear", "require", "rounded", "solve"]
