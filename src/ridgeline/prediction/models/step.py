"""StepPrediction: the ops of one device in one step of a model, each with its time, and their sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...core.cached import cached_property
from ...core.families.experts import EXPERTS
from ...core.machine import Machine
from ...core.roofline import label
from ...core.work import Array, Work, total
from ...machines.libraries import known
from ...programs import ops
from ...programs.models.layout import Layout
from ...programs.models.model_op import ATTENTION
from ...programs.models.program import COMMUNICATION, ModelOp
from ..host import graph_node_share, launch_latency
from ..predict import Prediction, predict
from .links import between

UNPACKING = "weight_only"  # the family of products with weights narrower than their arithmetic
LIGHT_EFFICIENCY = 0.8  # of the bandwidth, that passes over large activations reach
SHARED_ERROR = 0.5  # part of the relative error of an op that all ops of a step have in common


@dataclass(frozen=True)
class OpTime:
    """One op of a step, all of its calls together.

    Kernels that only pass over activations (norms, quantization, activation functions, routers) were timed with cold
    caches. Between the kernels of a model their operands are in the last-level cache, and engines fuse them: where they
    are short they take `light` seconds more than the roofline and no longer what they took cold.

    Products that unpack narrow weights on the fly are made for few rows. With many, engines write the weights in the width of
    the arithmetic first (`apart`: that pass, and the usual product) where it is faster.
    """

    op: ModelOp
    prediction: Prediction
    light: float | None = None
    apart: tuple[Prediction, ...] = ()

    @cached_property
    def each(self) -> Array:
        """Seconds of one call."""
        time = self.prediction.time
        if self.apart:
            return np.minimum(time, total(step.time for step in self.apart))
        if self.light is None or self.op.part == COMMUNICATION or has_products(self.op):
            return time
        return np.minimum(time, self.prediction.floor / LIGHT_EFFICIENCY + self.light)

    @property
    def time(self) -> Array:
        return self.each * self.op.count

    @property
    def floor(self) -> Array:
        return self.prediction.floor * self.op.count

    @property
    def flops(self) -> Array:
        return self.op.work.flops * self.op.count

    @property
    def bytes(self) -> Array:
        return self.op.work.bytes * self.op.count

    @property
    def bound(self) -> Any:
        """`communication` for collectives; else that of the longest kernel."""
        if self.op.part == COMMUNICATION:
            return COMMUNICATION
        longest = max(
            zip(self.prediction.expected, self.prediction.bounds, strict=True),
            key=lambda pair: float(np.max(pair[0].time)),
        )
        return longest[1].bound


@dataclass(frozen=True)
class OpGroup:
    """The ops of one name in all layers, all of their calls together."""

    name: str
    members: tuple[OpTime, ...]

    DOCUMENT: ClassVar = ("name", "part", "count", "flops", "bytes", "bound", "floor_us=floor", "time_us=time")

    @property
    def part(self) -> str:
        return self.members[0].op.part

    @property
    def bound(self) -> Any:
        """Of the member that takes longest."""
        return max(self.members, key=lambda item: float(np.max(item.time))).bound

    def _sum(self, name: str) -> Array:
        return total(np.asarray(getattr(item, name)) for item in self.members)

    @property
    def count(self) -> Array:
        return total(np.asarray(item.op.count, dtype=np.float64) for item in self.members)

    @property
    def time(self) -> Array:
        return self._sum("time")

    @property
    def floor(self) -> Array:
        return self._sum("floor")

    @property
    def flops(self) -> Array:
        return self._sum("flops")

    @property
    def bytes(self) -> Array:
        return self._sum("bytes")


def has_products(op: ModelOp) -> bool:
    return any(engine == "matrix" for engine, _ in op.work.by_engine())


def unpacked_first(op: ModelOp) -> tuple[Work, ...]:
    """The works of a product whose weights are first written in the width of the arithmetic: n k values read narrow and written
    wide, then the product; none for products that unpack nothing."""
    if op.work.name != "linear" or not any(kernel.family == UNPACKING for kernel in op.work.kernels):
        return ()
    shape, wide = op.work.shape, op.work.dtype
    rows, inputs, outputs = shape["batch"], shape["in_features"], shape["out_features"]
    return ops.cast(n=inputs * outputs, dtype=shape["weights"], out_dtype=wide), ops.linear(
        batch=rows, in_features=inputs, out_features=outputs, dtype=wide
    )


@dataclass(frozen=True)
class StepPrediction:
    machine: Machine
    ops: tuple[OpTime, ...]
    graph: bool = False  # replayed as a graph, so that kernels start sooner after each other

    @cached_property
    def spared(self) -> Array:
        """Seconds that replaying a graph spares at the start of every kernel but those of collectives."""
        if not self.graph:
            return 0.0
        launches = total(np.asarray(item.op.count) for item in self.ops if item.op.part != COMMUNICATION)
        return launches * launch_latency(self.machine) * (1 - graph_node_share(self.machine))

    @property
    def time(self) -> Array:
        """Seconds of the device; never less than the floor."""
        return np.maximum(total(item.time for item in self.ops) - self.spared, self.floor)

    @property
    def floor(self) -> Array:
        return total(item.floor for item in self.ops)

    @property
    def flops(self) -> Array:
        return total(item.flops for item in self.ops)

    @property
    def bytes(self) -> Array:
        return total(item.bytes for item in self.ops)

    @property
    def communication(self) -> Array:
        return total(item.time for item in self.ops if item.op.part == COMMUNICATION)

    @property
    def bound(self) -> Any:
        """What most of the time is spent on: `compute`, `memory`, `overhead` or `communication`; an array for arrays."""
        shares = self.bound_times
        names = tuple(shares)
        if not names:
            return ""
        times = np.stack(np.broadcast_arrays(*(np.asarray(time, dtype=np.float64) for time in shares.values())))
        return label(np.argmax(times, axis=0), names)

    @property
    def bound_times(self) -> dict[str, Array]:
        """Seconds by what bounds the op they are of."""
        times: dict[str, Array] = {}
        for item in self.ops:
            for name in dict.fromkeys(np.ravel(item.bound).tolist()):
                spent = np.where(np.asarray(item.bound) == name, item.time, 0.0)
                times[name] = times.get(name, 0.0) + spent
        return times

    @cached_property
    def rows(self) -> tuple[OpGroup, ...]:
        """The ops by name, those that take longest first: layers of several kinds have ops of one name."""
        named: dict[str, list[OpTime]] = {}
        for item in self.ops:
            named.setdefault(item.op.name, []).append(item)
        groups = [OpGroup(name, tuple(items)) for name, items in named.items()]
        return tuple(sorted(groups, key=lambda group: -float(np.max(group.time))))

    def end(self, end: str) -> Array:
        """An end of the 80 % interval: errors of ops are in part the same ones, which do not average out."""
        widths = [(getattr(item.prediction, end) / item.prediction.time - 1) * item.time for item in self.ops]
        apart = np.sqrt(total(np.square(width) for width in widths))
        together = np.abs(total(widths))
        width = SHARED_ERROR * together + (1 - SHARED_ERROR) * apart
        sign = -1 if end == "low" else 1
        return np.maximum(self.time + sign * width, self.floor)


def predict_steps(
    stages: Sequence[Sequence[ModelOp]],
    machine: Machine,
    ceilings: str | None = None,
    graph: bool = False,
    layout: Layout | None = None,
    light: float | None = None,
    attention: float | None = None,
    experts: str = "",
) -> list[StepPrediction]:
    """Every stage of a pipeline, each op at its expected time; a work that several stages have is priced once. Collectives go over the links
    that the ranks of their degree have. `attention` is the share of the roofline that attention itself reaches, where that is given, and `experts` the library of the kernels of experts."""
    degrees = dict.fromkeys(op.over for ops in stages for op in ops)
    seen_by = {over: between(machine, layout or Layout(), over) for over in degrees}
    priced: dict[tuple[int, str], OpTime] = {}

    def timed(op: ModelOp) -> OpTime:
        key = (id(op.work), op.over)
        if key not in priced:
            apart = tuple(predict(work, machine, ceilings) for work in unpacked_first(op))
            share = attention if op.name.startswith(ATTENTION) and op.part == ATTENTION else None
            library = experts if op.work.family == EXPERTS.name and known(experts).runs_on(machine) else ""
            prediction = predict(op.work, seen_by[op.over], ceilings, efficiency=share, backend=library or None)
            priced[key] = OpTime(op, prediction, light, apart)
        return replace(priced[key], op=op)

    return [StepPrediction(machine, tuple(timed(op) for op in ops), graph) for ops in stages]


def longest_step(steps: Sequence[StepPrediction], times: Sequence[Array]) -> StepPrediction:
    """The step that takes longest by `times`; for arrays of sizes, each of them by itself."""
    longest = np.argmax(np.stack(np.broadcast_arrays(*map(np.asarray, times))), axis=0)
    chosen = [place for place in range(len(steps)) if np.any(longest == place)]
    if len(chosen) == 1:
        return steps[chosen[0]]
    return mixed_step([(steps[place], 1.0 * (longest == place)) for place in chosen])


def mixed_step(shares: Sequence[tuple[StepPrediction, Array]]) -> StepPrediction:
    """The mean of steps, each with its share."""
    listed = [
        replace(item, op=replace(item.op, count=item.op.count * share)) for step, share in shares for item in step.ops
    ]
    return replace(shares[0][0], ops=tuple(listed))
