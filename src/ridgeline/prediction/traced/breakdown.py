"""Breakdown: where the device time of a program goes, by op, family, phase, module or source line.

Every op is in exactly one part of a flat breakdown. In the module tree it is also in every module around its own, so that
the parts of depth 0 add up to the program. Modules that differ in numbers only (`h.0`, `h.1`) are one part, `h.*`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...core.cached import cached_property
from ...core.errors import unknown
from ...core.timeline import OPTIMIZER
from ...core.units import percent, show
from ..kernel_sets import KernelSet, PredictedKernel, kernel_name, kernels_of
from .op_time import OpTime
from .result import ProgramPrediction

OP, FAMILY, PHASE, MODULE, LINE = VIEWS = ("op", "family", "phase", "module", "line")
OUTSIDE, OPTIMIZER_STEP = "(no module)", "(optimizer)"
NO_LINE = "(no line)"
Path = tuple[str, ...]  # labels of modules, outermost first


@dataclass(frozen=True)
class Part:
    """Some ops of a program; all amounts and times are sums over their calls."""

    name: str
    ops: tuple[OpTime, ...]
    device_time: float  # of the program
    depth: int = 0  # in the module tree
    modules: int = 1  # that the part stands for

    DOCUMENT: ClassVar = (
        "name", "depth", "modules", "calls", "flops", "bytes", "intensity", "bound", "floor_us=floor", "time_us=time", "share",
        "share_of_roofline", "launches", "cached_bytes=cached",
    )  # fmt: skip

    @property
    def label(self) -> str:
        """`gemm 4096x1024x1024 bf16` where the part is one work; else its own name."""
        works = {item.name: item.unit.work for item in self.ops}
        work = works.get(self.name)
        return self.name if work is None or len(works) > 1 else f"{kernel_name(work)} {work.dtype}".rstrip()

    @cached_property
    def calls(self) -> float:
        return sum(item.count for item in self.ops)

    @cached_property
    def launches(self) -> float:
        return sum(item.launches for item in self.ops)

    @cached_property
    def flops(self) -> float:
        return sum(item.flops for item in self.ops)

    @cached_property
    def bytes(self) -> float:
        return sum(item.bytes for item in self.ops)

    @cached_property
    def cached(self) -> float:
        return sum(item.cached for item in self.ops)

    @cached_property
    def floor(self) -> float:
        return sum(item.floor for item in self.ops)

    @cached_property
    def time(self) -> float:
        return sum(item.time for item in self.ops)

    @property
    def intensity(self) -> float | None:
        return self.flops / self.bytes if self.bytes else None

    @property
    def share(self) -> float | None:
        """Of the device time of the program."""
        return self.time / self.device_time if self.device_time else None

    @cached_property
    def roofline(self) -> float:
        return sum(item.roofline for item in self.ops)

    @property
    def share_of_roofline(self) -> float | None:
        return self.roofline / self.time if self.time else None

    @cached_property
    def bound(self) -> str:
        """What bounds most of its time."""
        return self._most(lambda item: item.bound)

    @cached_property
    def limiter(self) -> str:
        return self._most(lambda item: item.limiter)

    def _most(self, key: Callable[[OpTime], str]) -> str:
        times: dict[str, float] = {}
        for item in self.ops:
            times[key(item)] = times.get(key(item), 0.0) + item.time
        return max(times, key=lambda name: times[name], default="")


class Breakdown(tuple[Part, ...]):
    """Breakdown in order; Python prints them as lines of a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        rows = [("", "calls", "time", "share", "FLOPs", "bytes", "roofline", "bound")]
        for part in self:
            amounts = (show(part.time, "s", 3), percent(part.share), show(part.flops, "flop"), show(part.bytes, "B"))
            shares = (percent(part.share_of_roofline), part.bound)
            rows.append((f"{'  ' * part.depth}{part.label}", f"{part.calls:,.0f}", *amounts, *shares))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        aligned = (
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
            for row in rows
        )
        return "\n".join("  ".join(cells) for cells in aligned)


def breakdown(program: ProgramPrediction, by: str = OP) -> Breakdown:
    """The parts of a program, the longest first; modules as a tree in the order of the program, parents before children."""
    if by not in VIEWS:
        raise unknown("view of a program", by, VIEWS)
    if by == MODULE:
        return _tree(program)
    key: Callable[[OpTime], str] = {
        OP: lambda item: item.name,
        FAMILY: lambda item: item.family[0] or item.family[1],
        PHASE: lambda item: item.phase,
        LINE: lambda item: item.source or NO_LINE,
    }[by]
    groups: dict[str, list[OpTime]] = {}
    for item in program.ops:
        groups.setdefault(key(item), []).append(item)
    made = [Part(name, tuple(items), program.time) for name, items in groups.items()]
    return Breakdown(sorted(made, key=lambda part: -part.time))


def distinct_labels(parts: Sequence[Part]) -> list[str]:
    """The label of each part; where several have one, with the sizes in which they differ, such as `kernel=3`, or as names."""
    alike: dict[str, list[Part]] = {}
    for part in parts:
        alike.setdefault(part.label, []).append(part)
    labels: dict[int, str] = {}
    for label, members in alike.items():
        shapes = [{key: str(value) for key, value in _shape(part).items()} for part in members]
        keys = [key for key in dict.fromkeys(key for shape in shapes for key in shape) if len({shape.get(key) for shape in shapes}) > 1]  # fmt: skip
        texts = [" ".join([label, *(f"{key}={shape[key]}" for key in keys if key in shape)]) for shape in shapes]
        distinct = len(set(texts)) == len(texts)
        labels |= {id(part): text if distinct else part.name for part, text in zip(members, texts, strict=True)}
    return [labels[id(part)] for part in parts]


def _shape(part: Part) -> Mapping[str, object]:
    work = part.ops[0].unit.work
    return {} if work is None else work.shape


def longest(parts: tuple[Part, ...], limit: int | None) -> tuple[Part, ...]:
    """The parts that take most of the time, in the order they have; a module is never without those around it."""
    if limit is None or len(parts) <= limit:
        return parts
    ranked = sorted(range(len(parts)), key=lambda place: (-parts[place].time, parts[place].depth, place))
    return tuple(parts[place] for place in sorted(ranked[:limit]))


def _tree(program: ProgramPrediction) -> Breakdown:
    paths = [item.unit.op.site.modules or (_outside(item),) for item in program.ops]
    return _nested(program, paths)


def flame(program: ProgramPrediction) -> Breakdown:
    """The module tree with the ops of each module below it, by name; a program of several phases begins with them."""
    several = len({item.phase for item in program.ops}) > 1
    paths = []
    for item in program.ops:
        modules = item.unit.op.site.modules or (() if several else (_outside(item),))
        paths.append((*((item.phase,) * several), *modules, item.family[1] or item.op))
    return _nested(program, paths)


def _outside(item: OpTime) -> str:
    return OPTIMIZER_STEP if item.phase == OPTIMIZER else OUTSIDE


def _nested(program: ProgramPrediction, paths: list[Path]) -> Breakdown:
    """The parts of the tree that the ops have these paths in, parents before children."""
    ops: dict[Path, list[OpTime]] = {}
    members: dict[Path, set[Path]] = {}
    children: dict[Path, list[Path]] = {(): []}
    for item, exact in zip(program.ops, paths, strict=True):
        path: Path = ()
        for place, module in enumerate(exact):
            parent, path = path, (*path, _label(module))
            if path not in children:
                children[path] = []
                children[parent].append(path)
            ops.setdefault(path, []).append(item)
            members.setdefault(path, set()).add(exact[: place + 1])
    rows: list[Part] = []

    def add(path: Path) -> None:
        if path:
            rows.append(Part(path[-1], tuple(ops[path]), program.time, len(path) - 1, len(members[path])))
        for child in children[path]:
            add(child)

    add(())
    return Breakdown(rows)


def _label(module: str) -> str:
    """`h.* (GPT2Block)` of `h.3:GPT2Block`, `GPT2Model` of `:GPT2Model`, `Linear` of `2:Linear`."""
    name, _, kind = module.partition(":")
    name = re.sub(r"(?<![^._])\d+(?![^._])", "*", name)
    if name == "*" and kind:
        return kind
    return f"{name} ({kind})" if name and kind else name or kind


# -- on the roofline ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartKernels(KernelSet):
    """The parts of a program as the kernels of a chart, each an average call of its ops."""

    parts: tuple[Part, ...] = ()

    @property
    def kernels(self) -> list[PredictedKernel]:
        return [_kernel(part) for part in self.parts if part.time]


def kernel_set(program: ProgramPrediction) -> PartKernels:
    """The ops of a program, those with equal work together."""
    title = f"{program.trace.name or 'Program'} on {program.machine.name}, {program.mode}"
    return PartKernels(program.machine, title=title, parts=breakdown(program))


def _kernel(part: Part) -> PredictedKernel:
    """The longest op names the engine and the level."""
    item = max(part.ops, key=lambda op: op.time)
    assert item.prediction is not None  # it has a time
    main = max(kernels_of(item.prediction), key=lambda kernel: kernel.time * kernel.count)
    each = 1 / part.calls
    return PredictedKernel(
        part.label, part.flops * each, part.bytes * each, part.time * each, part.floor * each, part.roofline * each, part.bound,
        part.limiter, main.engine, main.level, count=part.calls,
    )  # fmt: skip
