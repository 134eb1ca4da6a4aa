"""Everything that is fitted: coefficients of kernel families, the three-number baseline, linear models."""

from .baseline import three_number_times
from .families import fit, fit_cases, rounded
from .groups import Group, group
from .least_squares import available, linear, require, solve

__all__ = ["Group", "available", "fit", "fit_cases", "group", "linear", "require", "rounded", "solve", "three_number_times"]  # fmt: skip
