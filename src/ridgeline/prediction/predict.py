"""Prediction: the bounds of a program on a machine with their expected times, and its fields by name.

`predict` takes one Work or a Program. A one-step prediction answers for its step directly (`p.floor`, `p.bound`,
`p.intensity`); a program's times are the sums over its steps, and never a bound of the averages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from ..core.bound import Bound, bound
from ..core.cached import cached_property
from ..core.errors import InputError, unknown
from ..core.families import TimeItem, merged
from ..core.machine import GIVEN, Machine
from ..core.trace import Trace
from ..core.work import Array, Program, Step, Work, largest, total
from ..machines.libraries import check
from ..machines.load import as_machine
from .coefficients import in_cache, timed_in_cache
from .collectives import Collective
from .expected import Expected
from .formats import runs_elsewhere
from .host import launch_latency
from .inherited import made_from
from .kernel_steps import kernels_of_step, ran_with
from .plain import listed
from .remarks import remarks
from .simple import efficiency_warning
from .summed import summed_end

if TYPE_CHECKING:
    from .traced import ProgramPrediction


def _of_step(name: str) -> Any:
    """A property that only the bound of a single step has."""
    return property(lambda prediction: getattr(prediction._only(), name))


@dataclass(frozen=True)
class Prediction:
    machine: Machine
    steps: tuple[Step, ...]
    bounds: tuple[Bound, ...]
    expected: tuple[Expected, ...]
    given_efficiency: float | None = None  # one fraction of every ceiling, the caller's
    options: Mapping[str, Any] = field(default_factory=dict)  # of `predict`, those that were given

    def __repr__(self) -> str:
        from .summary import summary  # which reads predictions itself

        return summary(self)

    def step(self, place: int) -> Prediction:
        """The prediction of one step, run once."""
        alone = (replace(self.steps[place], count=1.0),)
        return replace(self, steps=alone, bounds=(self.bounds[place],), expected=(self.expected[place],))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a person should know, as the command line has it: of one op what was assumed, the warnings, sizes nearby that take less."""
        of_op = self.work.notes if len(self.bounds) == 1 else ()
        return (*of_op, *self.warnings, *self.remarks)

    remarks = cached_property(remarks)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was left out, which ceilings are noisy, what does not fit the memory, an efficiency that is unusual."""
        notes = [note for bound in self.bounds for note in (*bound.notes, bound.shortage)]
        return tuple(dict.fromkeys(filter(None, (*notes, efficiency_warning(self.given_efficiency)))))

    def _only(self) -> Bound:
        if len(self.bounds) != 1:
            sums = "ask one of `bounds`, or for `time` and `floor`, which add up"
            raise InputError(f"this prediction has {len(self.bounds)} steps; {sums}")
        return self.bounds[0]

    @property
    def floor(self) -> Array:
        return total(item.floor * step.count for item, step in zip(self.bounds, self.steps, strict=True))

    @property
    def roofline(self) -> Array:
        """The roofline time; the floor is below it where kernels need fewer products than the work counts."""
        return total(item.roofline * step.count for item, step in zip(self.bounds, self.steps, strict=True))

    @property
    def time(self) -> Array:
        return total(item.time * step.count for item, step in zip(self.expected, self.steps, strict=True))

    def _end(self, end: str) -> Array:
        if len(self.expected) == 1:
            value: Array = getattr(self.expected[0], end) * self.steps[0].count
            return value
        return self.time + summed_end(zip(self.steps, self.expected, strict=True), end)

    @property
    def low(self) -> Array:
        """The 80 % interval of the expected time reaches from `low` to `high`."""
        return self._end("low")

    @property
    def high(self) -> Array:
        return self._end("high")

    @property
    def distance(self) -> Array:
        """How far the sizes lie beyond those that were timed, as a factor; 1 within them."""
        return largest([1.0, *(item.distance for item in self.expected)])

    @property
    def items(self) -> tuple[TimeItem, ...]:
        """Where the expected time goes, in seconds; the items sum to the time."""
        several = len(self.steps) > 1
        if not several and self.steps[0].count == 1:
            return self.expected[0].items()
        return merged(
            replace(item, seconds=item.seconds * step.count, step=step.name if several else "")
            for expected, step in zip(self.expected, self.steps, strict=True)
            for item in expected.items()
        )

    @property
    def flops(self) -> Array:
        return total(item.flops * step.count for item, step in zip(self.bounds, self.steps, strict=True))

    @property
    def bytes(self) -> Array:
        return total(item.bytes * step.count for item, step in zip(self.bounds, self.steps, strict=True))

    @property
    def intensity(self) -> Array:
        return self.flops / self.bytes

    @property
    def efficiency(self) -> Array:
        """Roofline time over expected time."""
        return self.roofline / self.time

    @property
    def mfu(self) -> Array | None:
        """Model flops utilization: the rate of the engine the work is judged by over its peak; None without flops."""
        bound = self._only()
        return None if bound.peak is None else bound.share_of_peak * self.roofline / self.time

    @property
    def mbu(self) -> Array | None:
        """Model bandwidth utilization: bytes over time over the bandwidth of the main memory; None where it feeds nothing."""
        term = self._only().terms.get(self.machine.main.name)
        return None if term is None else term.time * self.steps[0].count / self.time

    bound = _of_step("bound")
    limiter = _of_step("limiter")
    attainable = _of_step("attainable")
    ridge = _of_step("ridge")
    share_of_peak = _of_step("share_of_peak")
    sure = _of_step("confidence")
    work = _of_step("work")
    fits = _of_step("fits")

    @property
    def latency_bound(self) -> NDArray[np.bool_]:
        """Whether steps that follow each other, or too little work in parallel, take longer than any ceiling lets the work take: then the
        answer line says so in place of `bound`, the side of the roofline."""
        from .answer_line import LATENCY, sides

        self._only()
        return np.asarray(sides(self) == LATENCY)

    @property
    def collective(self) -> Collective | None:
        """What a single step that is a collective does: its algorithm, links, algorithm and bus bandwidth."""
        made = self.expected[0].collectives if len(self.expected) == 1 else ()
        return made[0] if len(made) == 1 else None

    def columns(self, wanted: Iterable[str] | None = None) -> dict[str, Any]:
        """The fields of a one-step prediction (all, or those wanted), each a scalar or an array over the cases."""
        self._only()
        usual = NAMES + RESULTS + (COLLECTIVE if self.collective is not None else ())
        wanted = usual if wanted is None else tuple(wanted)
        if wrong := [name for name in wanted if name not in FIELDS]:
            raise unknown("field", wrong[0], FIELDS)
        return {name: FIELDS[name](self) for name in wanted}

    @cached_property
    def count(self) -> int:
        """How many cases there are: one, or as many as the arrays are long."""
        sizes = [np.asarray(value) for value in (self.time, *(self.work.shape.values()))]
        shape = np.broadcast_shapes(*(value.shape for value in sizes))
        if len(shape) > 1:
            raise InputError("rows are made of scalars and one-dimensional arrays; ravel larger ones first")
        return shape[0] if shape else 1

    def rows(self, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """One document per case (of the first `limit`), plain Python values, `shape` inside."""
        count = self.count if limit is None else min(limit, self.count)
        columns = {name: listed(value, count) for name, value in self.columns().items()}
        shape = {name: listed(value, count) for name, value in self.work.shape.items()}
        cases = zip(*shape.values(), strict=True) if shape else [()] * count
        shapes = [dict(zip(shape, sizes, strict=True)) for sizes in cases]
        columns = {name: columns[name] for name in NAMES} | {"shape": shapes} | columns
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, values, strict=True))


# The fields of a prediction by name; computed only when asked for, because a sweep may want one of them for millions.
FIELDS: dict[str, Callable[[Prediction], Any]] = {
    "op": lambda p: p.work.name,
    "dtype": lambda p: p.work.dtype,
    "machine": lambda p: p.machine.name,
    "flops": lambda p: p.flops,
    "bytes": lambda p: p.bytes,
    "intensity": lambda p: p.intensity,
    "ridge": lambda p: p.ridge,
    "bound": lambda p: p.bound,
    "limiter": lambda p: p.limiter,
    "attainable": lambda p: p.attainable,
    "share_of_peak": lambda p: p.share_of_peak,
    "floor": lambda p: p.floor,
    "time": lambda p: p.time,
    "floor_us": lambda p: p.floor * 1e6,
    "time_us": lambda p: p.time * 1e6,
    "efficiency": lambda p: p.efficiency,
    "share_of_roofline": lambda p: p.efficiency,
    "mfu": lambda p: p.mfu,
    "mbu": lambda p: p.mbu,
    "ceilings": lambda p: p.bounds[0].kinds,
    "low_us": lambda p: p.low * 1e6,
    "high_us": lambda p: p.high * 1e6,
    "footprint": lambda p: p.work.footprint,
    "fits": lambda p: p.fits,
    "calibration": lambda p: p.expected[0].label,
    "confidence": lambda p: p.expected[0].confidence,
    "distance": lambda p: p.distance,
    "bound_sure": lambda p: p.sure,
    "latency_bound": lambda p: p.latency_bound,
}
# Those that only collectives have.
COLLECTIVE = ("algorithm", "network", "algbw", "busbw")
FIELDS |= {name: attrgetter(f"collective.{name}") for name in COLLECTIVE}
NAMES = ("op", "dtype", "machine")
SECONDS = ("floor", "time")  # for programs; documents carry microseconds
RESULTS = tuple(name for name in FIELDS if name not in NAMES + SECONDS + COLLECTIVE)


@overload
def predict(
    target: Work | Program,
    machine: Machine | str | Path,
    ceilings: str | None = None,
    engine: str | None = None,
    resident: str | None = None,
    efficiency: float | None = None,
    launch: float | None = None,
    backend: str | None = None,
) -> Prediction: ...


@overload
def predict(
    target: Trace, machine: Machine | str | Path, ceilings: str | None = None, *, mode: str | None = None
) -> ProgramPrediction: ...


def predict(
    target: Work | Program | Trace,
    machine: Machine | str | Path,
    ceilings: str | None = None,
    engine: str | None = None,
    resident: str | None = None,
    efficiency: float | None = None,
    launch: float | None = None,
    backend: str | None = None,
    mode: str | None = None,
) -> Prediction | ProgramPrediction:
    """Where work lands on a machine (or the one of a name) before anything runs; arrays in the work give arrays out.

    `ceilings`: stated, derived or measured figures (default: the best there is); `engine`: force the unit of matrix
    products; `resident`: the inner level the data already sit at; `efficiency`: one fraction for all terms; `launch`: seconds
    per kernel launch instead of the machine's own; `backend`: the library whose kernels are meant, one that
    was timed and runs on the machine; a step's own goes first, or the default path where nobody timed that. A traced program takes `ceilings` and `mode`: eager, graph or fused.
    """
    if isinstance(target, Trace):
        return _predict_trace(target, machine, ceilings, mode, (engine, resident, efficiency, launch, backend))
    if not isinstance(target, Work | Program):
        wanted = "work, such as ops.gemm(m=8, n=8, k=8), a Program or a trace, and then the machine"
        raise InputError(f"predict takes {wanted}; got {type(target).__name__} for the work")
    machine = as_machine(machine)
    check(
        backend, machine, families=() if isinstance(target, Program) else (kernel.family for kernel in target.kernels)
    )
    if mode is not None:
        raise InputError(f"mode='{mode}' is for traced programs; work and steps of work have none")
    if efficiency is not None and not 0 < efficiency <= 1:
        raise InputError(f"efficiency must lie in (0, 1], got {efficiency}")
    if launch is not None and not launch >= 0:
        raise InputError(f"launch must be zero or more seconds, got {launch}")
    asked_launch = launch
    steps = tuple(part for step in target.steps for part in kernels_of_step(step))
    if launch is None and machine.launch.source == GIVEN:
        launch = machine.launch.stated
    latency = launch_latency(machine) if launch is None else launch
    cached = resident is not None and timed_in_cache(machine)
    if cached:
        steps = tuple(replace(step, work=in_cache(step.work)) for step in steps)
    bounds = tuple(bound(step.work, machine, ceilings, engine, resident, latency) for step in steps)

    def expect(step: Step, item: Bound) -> Expected:
        library = step.backend or backend
        elsewhere, held = runs_elsewhere(step.work, machine, engine), resident is not None and not cached
        if elsewhere or held or efficiency is not None or not step.work.sources:  # the first two as nobody timed
            in_memory = held and not elsewhere and efficiency is None and machine.kind == "gpu"
            cold = predict(step.work, machine, ceilings, launch=launch, backend=library) if in_memory else None
            return Expected(item, efficiency, library, launch, elsewhere or held, cold.expected[0] if cold else None)
        alone = [
            predict(ran_with(source.alone, library), machine, ceilings, resident=resident, launch=launch)
            for source in step.work.sources
        ]
        return made_from(alone, item, library, launch)

    expected = tuple(expect(step, item) for step, item in zip(steps, bounds, strict=True))
    bounds = tuple(item.lowered for item in expected)
    given = {"ceilings": ceilings, "engine": engine, "resident": resident, "launch": asked_launch, "backend": backend}
    return Prediction(machine, steps, bounds, expected, efficiency, {**given, "efficiency": efficiency})


def _predict_trace(
    trace: Trace, machine: Machine | str | Path, ceilings: str | None, mode: str | None, others: tuple[Any, ...]
) -> ProgramPrediction:
    from .traced import predict_trace  # which predicts its kernels here

    if any(value is not None for value in others):
        raise InputError("a traced program takes `ceilings` and `mode`; predict trace.program() for the other options")
    return predict_trace(trace, machine, mode or "eager", ceilings)
