"""Memory of a program over its calls: the bytes that its buffers hold, by what they hold.

A buffer holds its bytes from the call that allocates it to the last call that needs it; what an allocator rounds up and
what libraries take as workspace is not part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...core.cached import cached_property
from ...core.trace import HOLDS, Buffers, Trace
from ..queue import Floats, Ints


@dataclass(frozen=True)
class Memory:
    """Bytes at every call by kind, `HOLDS` in order of the columns."""

    curve: Floats  # calls x kinds

    @cached_property
    def total(self) -> Floats:
        return np.asarray(self.curve.sum(axis=1))

    @property
    def peak(self) -> float:
        return float(self.total.max()) if len(self.total) else 0.0

    @property
    def peak_call(self) -> int:
        """The call at which the program holds most."""
        return int(self.total.argmax()) if len(self.total) else 0

    @property
    def at_peak(self) -> dict[str, float]:
        """Bytes by kind when the program holds most."""
        row = self.curve[self.peak_call] if len(self.curve) else np.zeros(len(HOLDS))
        return dict(zip(HOLDS, row.tolist(), strict=True))

    def steps(self, points: int = 400) -> tuple[Ints, Floats]:
        """The curve at up to so many calls, each with the most of the calls around it: peaks stay."""
        count = len(self.curve)
        if count <= points:
            return np.arange(count, dtype=np.int64), self.curve
        edges = np.linspace(0, count, points + 1).astype(np.int64)
        best = [int(low + self.total[low:high].argmax()) for low, high in pairwise(edges.tolist())]
        return np.array(best, dtype=np.int64), self.curve[best]


def memory(trace: Trace, held: Buffers | None = None) -> Memory:
    """The memory of a trace: for each kind the running sum of what is allocated less what is freed.

    `held` has the buffers as a plan holds them, where that is not as the calls of the trace do.
    """
    buffers, calls = held or trace.buffers, max(len(trace), 1)
    size = np.asarray(buffers.size, dtype=np.float64)
    curve = np.zeros((calls, len(HOLDS)))
    born = np.clip(np.asarray(buffers.born, dtype=np.int64), 0, calls)
    dies = np.clip(np.maximum(np.asarray(buffers.dies, dtype=np.int64), born + 1), 0, calls)
    for kind in range(len(HOLDS)):
        alike = np.asarray(buffers.holds) == kind
        sizes = size[alike]
        change = np.bincount(born[alike], sizes, minlength=calls + 1) - np.bincount(
            dies[alike], sizes, minlength=calls + 1
        )
        curve[:, kind] = np.maximum(np.cumsum(change)[:calls], 0.0)
    return Memory(curve)
