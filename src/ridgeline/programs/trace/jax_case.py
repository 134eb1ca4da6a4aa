"""Case and Count: one primitive with its arrays, as a rule sees it, and what the rule makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...core.timeline import Call, Tensor
from ...core.trace import FREE, HOST, LIBRARY, UNKNOWN, VIEW, WORK
from ...core.work import Work
from .. import aten
from ..aten.building import distinct
from ..aten.counted import WRAPPER
from ..aten.formats import width


@dataclass(frozen=True)
class Case:
    """`inputs` are tensors, or numbers where the program holds constants; `axes` are the sizes of the mesh around it."""

    name: str
    inputs: tuple[Any, ...]
    outputs: tuple[Tensor, ...]
    params: Mapping[str, Any]
    phase: str = ""
    axes: Mapping[str, int] = field(default_factory=dict)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(item for item in self.inputs if isinstance(item, Tensor))


@dataclass(frozen=True)
class Count:
    kind: str
    sort: str
    work: Work | None = None
    call: Call | None = None  # as profiles name it, where that is not the primitive
    backend: str = ""
    reason: str = ""
    read: Mapping[int, float] = field(default_factory=dict)  # bytes of inputs that are not read once
    written: Mapping[int, float] = field(default_factory=dict)  # and of outputs that are not written once


Rule = Callable[[Case], Count]


def done(work: Work, sort: str, **more: Any) -> Count:
    return Count(WORK, sort, work, **more)


def unknown(reason: str) -> Count:
    return Count(UNKNOWN, LIBRARY, reason=reason)


NOTHING = Count(FREE, VIEW)
ON_HOST = Count(HOST, LIBRARY)


def looked_up(call: Call, sort: str, *, tf32: bool = False, named: bool = True) -> Count:
    """The count of a call by the vocabulary that profiles of PyTorch are read with; `named` keeps the call's name."""
    counted = aten.count(call, aten.Settings(tf32=tf32, conv_tf32=tf32, leaf=True))
    if counted.kind == WRAPPER:
        return unknown(f"{call.name} has no work of its own")
    kind = counted.kind if counted.kind in (WORK, FREE) else UNKNOWN
    return Count(kind, sort, counted.work, call if named else None, counted.backend, counted.reason)


def stored_bytes(tensor: Tensor) -> float:
    """Bytes of the elements that are stored: a dimension of stride 0 repeats what is there."""
    return distinct(tensor) * width(tensor)
