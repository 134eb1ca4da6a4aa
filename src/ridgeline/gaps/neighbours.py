"""Steps after each other that pass a tensor through memory, which one kernel of both would not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ..core.machine import MAIN
from ..core.work import READ, WRITE
from .gap import Gap, SharedTensor


def with_neighbours(gaps: Sequence[Gap]) -> list[Gap]:
    """Gaps that know the tensor they share with the step before or after; the one that only streams could join the other."""
    shared: dict[int, SharedTensor] = {}
    for place, (first, second) in enumerate(pairwise(gaps)):
        tensor = shared_tensor(first, second)
        if tensor is None or (first.target.matrix_flops and second.target.matrix_flops):
            continue
        if first.target.matrix_flops:
            place, tensor = place + 1, replace(tensor, other=first.name)
        if place not in shared or shared[place].bytes < tensor.bytes:
            shared[place] = tensor
    return [replace(gap, between=shared.get(place)) for place, gap in enumerate(gaps)]


def shared_tensor(first: Gap, second: Gap) -> SharedTensor | None:
    """The largest tensor that the first step writes and the second reads."""
    read = set(_moves(second, READ).values())
    passed = {tensor: size for tensor, size in _moves(first, WRITE).items() if size in read and size > 0}
    if not passed:
        return None
    tensor = max(passed, key=lambda name: passed[name])
    modules = [gap.name.rpartition(".")[0] for gap in (first, second)]
    ranges = [gap.measurement.path[:-1] for gap in (first, second)]
    together = any(before and before == after for before, after in (modules, ranges))
    return SharedTensor(second.name, tensor, passed[tensor], together)


def _moves(gap: Gap, way: str) -> dict[str, float]:
    """Bytes of each tensor over the main memory, in one direction."""
    moves = gap.target.work.moves.items()
    return {tensor: float(np.asarray(size)) for (level, tensor, to), size in moves if (level, to) == (MAIN, way)}
