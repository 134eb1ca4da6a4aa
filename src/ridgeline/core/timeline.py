"""Timeline: what one run of a program did and when, as a profiler recorded it.

    sites       where the program calls an operator: the call with its arguments, its phase, modules and source line
    activities  what a device did there: kernels, copies, fills, collectives
    runs        the instances of activities: start, end, activity, site, call, step, stream
    calls       the instances of sites on the host: start, end, site
    waits       times the host stood still for the device or for data
    steps       the repetitions of the program's loop

Sites and activities are few and are objects; runs, calls and waits are many and are columns. Times are seconds from the
first event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

KERNEL, COPY, FILL, COLLECTIVE, OPERATOR = "kernel", "memcpy", "memset", "collective", "operator"
FORWARD, BACKWARD, OPTIMIZER, COMMUNICATION, COPIES, OTHER = (
    "forward", "backward", "optimizer", "communication", "copy", "other",
)  # fmt: skip
PHASES = (FORWARD, BACKWARD, OPTIMIZER, COMMUNICATION, COPIES, OTHER)


@dataclass(frozen=True, slots=True)
class Tensor:
    """`dtype` in ridgeline's names, empty where it was not recorded; `strides` empty where the layout was not.

    Of a sparse tensor `stored` is the shape of the values that it holds, empty where that was not recorded.
    """

    shape: tuple[int, ...]
    dtype: str = ""
    strides: tuple[int, ...] = ()
    sparse: bool = False
    stored: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """An operator with its arguments at the places of its schema: tensors, tuples of tensors, numbers, texts, None.

    `outputs` is empty where results were not recorded, as in profiles.
    """

    name: str  # `aten::addmm`, or a compiled kernel's own name
    args: tuple[Any, ...] = ()
    outputs: tuple[Tensor, ...] = ()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors among the arguments, those in lists too."""
        flat = (item for arg in self.args for item in (arg if isinstance(arg, tuple) else (arg,)))
        return tuple(item for item in flat if isinstance(item, Tensor))


@dataclass(frozen=True, slots=True)
class Site:
    """A place of the program that calls an operator; equal calls at one place are one site."""

    call: Call
    phase: str = OTHER  # one of PHASES
    modules: tuple[str, ...] = ()  # outermost first
    source: str = ""  # `train.py:31`, the innermost line of the user's program
    outer: tuple[Call, ...] = ()  # operators around the call with their arguments, outermost first
    fused: tuple[str, ...] = ()  # of a compiled kernel: the operators it was made of
    ranges: tuple[str, ...] = ()  # named ranges of the user around the call, outermost first


@dataclass(frozen=True, slots=True)
class Activity:
    """A kernel, copy, fill or collective, or an operator that ran on the host itself; all but its time."""

    kind: str
    name: str  # short, without template arguments
    kernel: str = ""  # full
    device: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Columns:
    """Equally long columns in order of `start`; `-1` is no site, no call or no step."""

    start: np.ndarray
    end: np.ndarray
    site: np.ndarray

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class Runs(Columns):
    """On a host an operator's run is a stretch of its time outside the operators it called, so one call may have several."""

    activity: np.ndarray
    call: np.ndarray  # row of `calls` that launched it: the kernels of one call share it
    step: np.ndarray  # kept step whose host code launched it; the device may run it later
    stream: np.ndarray
    correlated: np.ndarray  # whether the site follows from the profiler's correlation ids
    graph: np.ndarray  # whether a graph replay launched it
    launched: np.ndarray  # when the launch call returned; NaN where it was not recorded


@dataclass(frozen=True)
class Waits(Columns):
    what: tuple[str, ...]  # the operator that waits (`aten::item`), else the library call, else `data loader`
    through: tuple[str, ...]  # the library call or range that was recorded: `cudaStreamSynchronize`


@dataclass(frozen=True)
class Steps:
    """The steps that were kept; each begins where the device finished the one before (on a host: where it began).

    `how` says what they were recognised by: `profiler`, `marked`, `repetition`, or `single` for the entire run.
    """

    start: np.ndarray
    end: np.ndarray
    how: str = "single"
    warmup: int = 0  # steps at the beginning that were left out

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class Timeline:
    sites: tuple[Site, ...]
    activities: tuple[Activity, ...]
    runs: Runs
    calls: Columns
    waits: Waits
    steps: Steps
    shapes: bool = True  # whether arguments were recorded
    conditions: Mapping[str, Any] = field(default_factory=dict)
    tool: str = ""
    notes: tuple[str, ...] = ()
    gradients: tuple[Tensor, ...] = ()  # of one step: as many and as large as the parameters that are trained
    host_events: int = 0  # recorded on the host over the entire run; recording each of them took time
