"""Everything that is fitted: coefficients of kernel families, linear models."""

from .families import Group, fit, fit_cases, group, rounded
from .least_squares import available, linear, require, solve

__all__ = ["Group", "available", "fit", "fit_cases", "group", "linear", "require", "rounded", "solve"]  # fmt: skip
