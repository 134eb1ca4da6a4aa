"""The sets of programs: `models` the predictor was compared with while it was made, the others it was not."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from models import Built

SETS = ("models", "held_out", "held_out_2", "held_out_3", "held_out_4", "held_out_5", "held_out_6", "held_out_7")


def cases(*names: str) -> dict[str, Callable[[str], Built]]:
    """The programs of sets, by name."""
    return {case: build for name in names for case, build in import_module(name).CASES.items()}
