"""Buffers: the storages that calls of a traced program read and write, from their first call to the last that needs them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...core.trace import (
    ACTIVATION,
    GRADIENT,
    HOLDS,
    INPUT,
    PARAMETER,
    STATE,
    TEMPORARY,
    Access,
    Buffers,
)

_PLACE = {name: place for place, name in enumerate(HOLDS)}
BEFORE = -1  # when a buffer was made that was there before the run


class Storages:
    """One entry for every storage seen. Views share the storage of their base; one that is freed ends where it was."""

    def __init__(self) -> None:
        self.size: list[float] = []
        self.holds: list[str] = []
        self.born: list[int] = []
        self.dies: list[int] = []
        self._alive: dict[int, tuple[int, Any]] = {}  # by address: the buffer, and the reference that notices its end
        self.now = 0  # calls so far

    def of(self, tensor: Any, holds: str = "", born: int = BEFORE) -> int:
        """The buffer of a tensor, entered when it is first seen."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        entry = self._alive.get(address)
        if entry is not None:
            return entry[0]
        index = len(self.size)
        self.size.append(float(storage.nbytes()))
        self.holds.append(holds)
        self.born.append(born)
        self.dies.append(-1)
        self._alive[address] = index, weakref.ref(storage, lambda _: self._ended(address, index))
        return index

    def continued(self, tensor: Any, index: int) -> None:
        """A tensor that a GPU has in the buffer of another, which ends with the later of both."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        self._alive[address] = index, weakref.ref(storage, lambda _: self._ended(address, index))

    def mark(self, tensors: Iterable[Any], holds: str) -> None:
        """What the buffers of tensors hold."""
        for tensor in tensors:
            self.holds[self.of(tensor, holds)] = holds

    def _ended(self, address: int, index: int) -> None:
        self.dies[index] = self.now
        if self._alive.get(address, (None,))[0] == index:
            del self._alive[address]

    def columns(self, first_backward: int | None) -> Buffers:
        """The columns of a trace. Results of the forward pass that the backward pass finds are activations."""
        self._alive.clear()  # what is freed from here on outlives the run
        dies = [end if end >= 0 else self.now + 1 for end in self.dies]
        holds = [
            name or _held(born, end, first_backward)
            for name, born, end in zip(self.holds, self.born, dies, strict=True)
        ]
        return Buffers(
            np.array(self.size, float),
            np.array([_PLACE[name] for name in holds], int),
            np.array(self.born, int),
            np.array(dies, int),
        )


def _held(born: int, dies: int, first_backward: int | None) -> str:
    if born == BEFORE:
        return INPUT
    if first_backward is None:
        return ACTIVATION
    return ACTIVATION if born < first_backward < dies else TEMPORARY


def stored_bytes(tensor: Any) -> float:
    """Bytes of the elements that a tensor has in memory: a dimension of stride 0 repeats what is there."""
    count = tensor.element_size()
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if stride:
            count *= int(size)
    return float(count) if tensor.numel() else 0.0


def fitted(accesses: list[Access], counted: float) -> tuple[Access, ...]:
    """Accesses that add up to no more than the count: what a lookup leaves unread is taken off the largest tensor."""
    excess = sum(size for _, size in accesses) - counted
    if excess <= 0 or not accesses:
        return tuple(accesses)
    place = max(range(len(accesses)), key=lambda item: accesses[item][1])
    buffer, size = accesses[place]
    return (*accesses[:place], (buffer, max(size - excess, 0.0)), *accesses[place + 1 :])


__all__ = ["GRADIENT", "PARAMETER", "STATE", "Storages", "fitted", "stored_bytes"]
