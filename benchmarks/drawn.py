"""Print a table of cases drawn at random, the same one every time: what the scripts that draw cases to time have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import numpy as np

from ridgeline.measure.cuda.draw import Case, Draw
from ridgeline.measure.cuda.kernels import table


def print_cases(cases: Callable[[Draw, int], list[Case]], times: Mapping[str, int], seeds: Mapping[str, int]) -> None:
    """The cases of the table that the command line names, so many times what a draw has."""
    chosen = sys.argv[1]
    print(table(cases(Draw(np.random.default_rng(seeds[chosen]), smooth=True), times[chosen])), end="")
