"""NAME=VALUE words of the command line as the arguments of an op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError

if TYPE_CHECKING:
    from ...programs.ops import Op

MAX_CASES = 10_000_000  # of a sweep on the terminal: some 4 GB of memory
MAX_WRITTEN_CASES = 1_000_000  # of a sweep written in full: some 5 GB of memory


def bind(op: Op, words: Sequence[str], formats: dict[str, str | None], most: int = MAX_CASES) -> dict[str, Any]:
    """`k=v` words and storage options as the op's arguments; several axes make a full grid of `most` cases at most."""
    import math

    import numpy as np

    from ...programs.cases import arguments

    values = arguments(op, words, formats)
    axes = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    count = math.prod(len(value) for value in axes.values())
    if count > most:
        raise InputError(
            f"this sweep has {count:,} cases; {MAX_CASES:,} is the most, {MAX_WRITTEN_CASES:,} with --json or --out; "
            "take larger steps, or several sweeps"
        )
    if len(axes) > 1:
        values.update(zip(axes, (grid.ravel() for grid in np.meshgrid(*axes.values(), indexing="ij")), strict=True))
    return values
