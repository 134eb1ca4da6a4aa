"""NAME=VALUE words of the command line as the arguments of an op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError, unknown

if TYPE_CHECKING:
    from ...programs.ops import Op

MAX_CASES = 10_000_000  # of a sweep on the terminal: some 4 GB of memory
MAX_WRITTEN_CASES = 1_000_000  # of a sweep written in full: some 5 GB of memory


def bind(op: Op, words: Sequence[str], formats: dict[str, str | None], most: int = MAX_CASES) -> dict[str, Any]:
    """`k=v` words and storage options as the op's arguments; several axes make a full grid of `most` cases at most."""
    import math

    import numpy as np

    from ...core.units import axis

    values: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise InputError(f"'{word}' is not of the form name=value; {op.name} is {op.signature}")
        if name in values:
            raise InputError(f"{op.name}: {name} is given twice")
        if name not in op.params:
            raise unknown(f"parameter of {op.name}", name, op.params, f"It is {op.signature}.")
        kind = op.params[name].kind
        if kind in ("Size", "Count"):
            try:
                values[name] = axis(text)
            except InputError as error:
                raise InputError(f"{op.name}: {name}: {error}") from error
        else:
            values[name] = text
    for name, value in formats.items():
        if value is None:
            continue
        if name not in op.params:
            raise InputError(f"{op.name} has no {name}; it is {op.signature}")
        if name in values:
            raise InputError(f"{op.name}: {name} is given twice, as {name}={values[name]} and as an option")
        values[name] = value
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
