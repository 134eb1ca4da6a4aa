"""One collective at one size: the call, its samples, its answer compared with what the ranks hold.

sent: bytes per rank and direction of the ring algorithm
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import RidgelineError
from ..protocol import repeat
from .group import Group

ELEMENT_BYTES = 4  # fp32
CHECKED_ELEMENTS = 32  # of every part that are compared with what they should be
MAX_GROWTH = 30.0  # powers of ten a sum may grow by before the buffer is filled again: all_reduce works in place


# bytes a rank sends, as a share of the buffer, by the ring algorithm
SENT: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "all_gather": lambda ranks: (ranks - 1) / ranks,
    "reduce_scatter": lambda ranks: (ranks - 1) / ranks,
    "all_to_all": lambda ranks: (ranks - 1) / ranks,
    "p2p": lambda ranks: 1.0,
}


@dataclass
class Point:
    """One collective over a buffer of `size` bytes: its data, its answer and its samples (the slowest rank's)."""

    group: Group
    op: str
    size: int
    samples: list[float] = field(default_factory=list)
    loops: int = 1
    slowest: list[int] = field(default_factory=list)  # the rank that took longest, sample by sample

    def __post_init__(self) -> None:
        torch, group = self.group.torch, self.group
        self.part = max(1, self.size // ELEMENT_BYTES // group.ranks)
        self.count = self.part * group.ranks
        generator = torch.Generator().manual_seed(100 + group.rank)
        self.base = torch.randn(self.count, generator=generator).to(group.device)
        self.buffer = self.base.clone()
        self.out = torch.empty(self.part if self.op == "reduce_scatter" else self.count, device=group.device)

    @property
    def bytes(self) -> int:
        return self.count * ELEMENT_BYTES

    @property
    def sent(self) -> float:
        return SENT[self.op](self.group.ranks) * self.bytes

    @property
    def in_place(self) -> bool:
        return self.op == "all_reduce"

    def once(self) -> None:
        dist, group = self.group.dist, self.group
        if self.op == "all_reduce":
            dist.all_reduce(self.buffer)
        elif self.op == "all_gather":
            local = self.base[group.rank * self.part : (group.rank + 1) * self.part]
            newest(dist, "all_gather_single", "all_gather_into_tensor")(self.out, local)
        elif self.op == "reduce_scatter":
            newest(dist, "reduce_scatter_single", "reduce_scatter_tensor")(self.out, self.base)
        elif self.op == "all_to_all":
            dist.all_to_all_single(self.out, self.base)
        else:
            self.ping_pong(0, 1)

    def ping_pong(self, first: int, second: int) -> None:
        """From one rank to another and back; the others take no part."""
        dist, rank = self.group.dist, self.group.rank
        if rank == first:
            dist.send(self.base, second)
            dist.recv(self.out, second)
        elif rank == second:
            dist.recv(self.out, first)
            dist.send(self.out, first)

    def run(self, loops: int) -> float:
        """Seconds of so many calls at this rank; a buffer summed in place is filled again before it overflows."""
        max_chunk = max(1, int(MAX_GROWTH / np.log10(self.group.ranks))) if self.in_place else loops
        spent, left = 0.0, loops
        while left:
            chunk = min(left, max_chunk)
            if self.in_place:
                self.buffer.copy_(self.base)
            spent += self.group.seconds(repeat(self.once, chunk))
            left -= chunk
        return spent / (2 if self.op == "p2p" else 1)

    def calibrate(self, min_seconds: float) -> None:
        """As many loops as the slowest rank needs for `min_seconds`; all ranks agree on it."""
        self.run(2)
        took = max(self.group.gather(self.run(2))) / 2
        self.loops = int(min(10_000, max(1, np.ceil(min_seconds / max(took, 1e-7)))))

    def sample(self) -> None:
        took = self.group.gather(self.run(self.loops) / self.loops)
        taking_part = took[:2] if self.op == "p2p" else took
        self.samples.append(max(taking_part))
        self.slowest.append(int(np.argmax(taking_part)))

    def check(self) -> None:
        """Compare the head of every part with what the ranks' data say it must be."""
        group = self.group
        head = min(CHECKED_ELEMENTS, self.part)
        heads = np.stack(group.gather_objects(self._heads(self.base, head)))  # [rank, part, element]
        if self.in_place:
            self.buffer.copy_(self.base)
        self.once()
        group.synchronize()
        actual = self._heads(self.buffer if self.in_place else self.out, head)
        expected = self._expected(heads)
        right = expected is None or bool(np.allclose(actual, expected, rtol=1e-5, atol=1e-5))
        if min(group.gather(float(right))) < 1:
            raise RidgelineError(f"probe {self.op} of {self.bytes} B: wrong values arrived; do not use it")

    def _heads(self, values: Any, head: int) -> NDArray[np.float64]:
        heads: NDArray[np.float64] = values.view(-1, self.part)[:, :head].double().cpu().numpy()
        return heads

    def _expected(self, heads: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """What this rank must receive; None where it takes no part."""
        rank, ranks = self.group.rank, self.group.ranks
        if self.op == "all_reduce":
            return np.asarray(heads.sum(axis=0))
        if self.op == "all_gather":
            return np.stack([heads[other, other] for other in range(ranks)])
        if self.op == "reduce_scatter":
            return np.asarray(heads[:, rank].sum(axis=0)[None])
        if self.op == "all_to_all":
            return heads[:, rank]
        return heads[0] if rank < 2 else None


def newest(module: Any, *names: str) -> Any:
    """The first of these functions there is: torch renames, and warns of the old name for as long as it has both."""
    return next(getattr(module, name) for name in names if hasattr(module, name))
