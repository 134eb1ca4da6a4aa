"""Work: what has to be done, on any machine; Program: named steps of work.

Work counts four things and keeps every addend apart:

    flops      by (engine, dtype, label)          engine is `matrix` or `vector`; the machine decides which unit that is
    moves      by (level, tensor, direction)      bytes; level `main` is the outermost memory, `link` another device
    waits      by name                            things that take time however little is done: kernel launches, link hops
    footprint  bytes that must be resident: each tensor once (`sizes` where its traffic is not its size)

A fused multiply-add is two flops. Counts are float64, scalars or arrays that broadcast, and never wrap.
`special` counts the exp, sqrt, tanh and divisions among the vector flops, which run on a slower unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .combining import checked, merge, over_bytes, scale, sequence, value_range, without
from .dtypes import dtype as dtype_row
from .errors import InputError
from .machine import MAIN
from .units import counted

Array = float | NDArray[np.float64]
FlopKey = tuple[str, str, str]
MoveKey = tuple[str, str, str]
LINK = "link"
MAX_LISTED = 6  # steps that the repr of a program names
READ, WRITE = "read", "write"


def total(values: Iterable[Array]) -> Array:
    """Sum of scalars and arrays, 0.0 of none."""
    listed = list(values)
    return reduce(add, listed) if listed else 0.0


def largest(values: Iterable[Array]) -> Array:
    """The largest of scalars and arrays, case by case; 0.0 of none."""
    listed = list(values)
    return reduce(np.maximum, listed) if listed else 0.0


@dataclass(frozen=True)
class Kernel:
    """A kernel that libraries run for an op, by the sizes its family's time formula asks for."""

    family: str
    sizes: Mapping[str, Array]
    op: str = ""  # where the ops of a family run kernels of their own
    dtype: str = ""
    like: str = ""  # an op whose kernel is built alike, whose timings serve where this one was never timed
    unusual: str = (
        ""  # the format of its result, what it does with it, or how it is called, where that is not usual of the op
    )


@dataclass(frozen=True)
class Work:
    counts: Mapping[FlopKey, Array] = field(default_factory=dict)
    moves: Mapping[MoveKey, Array] = field(default_factory=dict)
    waits: Mapping[str, Array] = field(default_factory=dict)
    held: Array | None = None
    sizes: Mapping[str, Array] = field(default_factory=dict)  # of tensors whose traffic is not their size
    special: Array = 0.0
    name: str = ""
    family: str = ""
    dtype: str = ""
    shape: Mapping[str, Any] = field(default_factory=dict)
    formulas: Mapping[Any, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    kernels: tuple[Kernel, ...] = ()  # none where the counts are all that is known
    parts: tuple[Step, ...] = ()  # what runs one after the other, where this is a sum
    sources: tuple[Source, ...] = ()  # what this one kernel was made from, where no library has it

    def __repr__(self) -> str:
        """`gemm m=8 n=8 k=8 in bf16: 1.02 kFLOP, 384 B, AI 2.67 FLOP/B`; of arrays the ranges."""
        sizes = " ".join(f"{name}={value_range(value)}" for name, value in self.shape.items())
        name = " ".join(part for part in (self.name or "work", sizes, f"in {self.dtype}" if self.dtype else "") if part)
        moved = self.bytes if MAIN in self.levels() else self.bytes_at(LINK)
        counts = [value_range(self.flops, "flop"), value_range(moved, "B")]
        counts += [f"AI {value_range(self.flops / moved, 'flop/B')}"] if np.all(np.asarray(moved) > 0) else []
        return f"{name}: {', '.join(counts)}"

    @property
    def steps(self) -> tuple[Step, ...]:
        """Kernel by kernel: the parts of a sum, else the work itself."""
        return self.parts or (Step(self.name, self),)

    @property
    def flops(self) -> Array:
        """All arithmetic, a multiply-add counted as two."""
        return total(self.counts.values())

    def by_engine(self) -> dict[tuple[str, str], Array]:
        flops: dict[tuple[str, str], Array] = {}
        for (engine, dtype, _), value in self.counts.items():
            flops[engine, dtype] = flops[engine, dtype] + value if (engine, dtype) in flops else value
        return flops

    @property
    def bytes(self) -> Array:
        """Bytes read and written at the main memory."""
        return self.bytes_at(MAIN)

    def bytes_at(self, level: str, direction: str | None = None) -> Array:
        return total(value for (at, _, way), value in self.moves.items() if at == level and direction in (None, way))

    @property
    def footprint(self) -> Array:
        return total(self.tensor_sizes().values()) if self.held is None else self.held

    def tensor_sizes(self) -> dict[str, Array]:
        """Bytes of every tensor at the main memory; one that is read and written is one tensor."""
        sizes: dict[str, Array] = {}
        for (level, tensor, _), value in self.moves.items():
            if level == MAIN:
                sizes[tensor] = np.maximum(sizes[tensor], value) if tensor in sizes else value
        return {tensor: self.sizes.get(tensor, size) for tensor, size in sizes.items()}

    def levels(self) -> list[str]:
        return list(dict.fromkeys(level for level, _, _ in self.moves))

    def intensity(self, level: str = MAIN) -> Array:
        """Flops per byte crossing a level; zero flops give 0, no bytes at all are an error."""
        moved = self.bytes_at(level)
        if np.any(np.asarray(moved) <= 0):
            name = self.name or "work"
            raise InputError(f"{name} moves no bytes at level '{level}', so its intensity there is undefined")
        return self.flops / moved

    def __add__(self, other: Work) -> Work:
        """One after the other: times add, and each part keeps its kernels.

        The footprint is the larger one: the second may reuse what the first held.
        """
        names = [name for name in (self.name, other.name) if name]
        return Work(
            counts=merge(self.counts, other.counts),
            moves=merge(self.moves, other.moves),
            waits=merge(self.waits, other.waits),
            held=np.maximum(self.footprint, other.footprint),
            special=self.special + other.special,
            name=" + ".join(dict.fromkeys(names)),
            family=self.family if self.family == other.family else "",
            dtype=self.dtype if self.dtype == other.dtype else "",
            notes=tuple(dict.fromkeys(self.notes + other.notes)),
            parts=sequence(self, other),
        )

    def repeat(self, times: Array) -> Work:
        """The same work again and again in the same place: counts, waits and times grow, the footprint stays."""
        times = checked(times, "repeat")
        again = self._multiplied(times, times)
        steps = tuple(replace(step, count=step.count * times) for step in self.steps)
        return replace(again, waits=scale(self.waits, times), parts=steps)

    def batch(self, size: Array) -> Work:
        """Many of the same at once, each on data of its own: counts and footprint grow, the waits stay.

        Its time is that of one, with all but the launch multiplied; a kernel that fills the machine better takes less.
        """
        size = checked(size, "batch", zero=False)
        return self._changed(lambda work: replace(work._multiplied(size, size), held=work.footprint * size))

    def scaled(self, traffic: Array, arithmetic: Array) -> Work:
        """Bytes and flops multiplied; the waits, the footprint and the achieved share of the roofline stay."""
        traffic, arithmetic = (checked(factor, "scaled") for factor in (traffic, arithmetic))
        return self._changed(lambda work: work._multiplied(traffic, arithmetic))

    def _multiplied(self, traffic: Array, arithmetic: Array) -> Work:
        return replace(
            self,
            counts=scale(self.counts, arithmetic),
            moves=scale(self.moves, traffic),
            special=self.special * arithmetic,
            held=self.footprint,
            formulas={},
            kernels=over_bytes(self.kernels, traffic),
        )

    def _changed(self, change: Callable[[Work], Work]) -> Work:
        """The same change made to every kernel, each made from the one before the change."""
        if self.parts:
            parts = tuple(replace(step, work=step.work._changed(change)) for step in self.parts)
            return replace(change(self), parts=parts)
        changed = change(self)
        return replace(changed, sources=(Source(self, changed),))

    def rename(self, prefix: str) -> Work:
        """Tensor names and the name itself under a prefix, so that two works stay separate when added."""
        return replace(
            self,
            name=f"{prefix}.{self.name}" if self.name else prefix,
            moves={(level, f"{prefix}.{tensor}", way): value for (level, tensor, way), value in self.moves.items()},
            sizes={f"{prefix}.{tensor}": size for tensor, size in self.sizes.items()},
            formulas={_renamed(key, prefix): text for key, text in self.formulas.items()},
            parts=tuple(replace(step, work=step.work.rename(prefix)) for step in self.parts),
        )

    def fuse(self, then: Work, through: str, into: str | None = None, keep: bool = False) -> Work:
        """One kernel of two: the tensor written here as `through` and read there as `into` stays on chip.

        Its write and its read disappear, flops never do. `keep` still writes it (a backward pass wants it). Its time is
        between that of the longer one and the sum of both less what the traffic that disappeared takes at the ceiling;
        below the longer one only where the floor of both together is below the floor of that one.
        """
        into = into or through
        if not any(tensor == through and way == WRITE for _, tensor, way in self.moves):
            raise InputError(f"{self.name} does not write '{through}'; it writes {_tensors(self, WRITE)}")
        if not any(tensor == into and way == READ for _, tensor, way in then.moves):
            raise InputError(f"{then.name} does not read '{into}'; it reads {_tensors(then, READ)}")
        written, taken = self.tensor_sizes()[through], then.tensor_sizes()[into]
        if not np.all(np.asarray(written) == np.asarray(taken)):
            raise InputError(f"'{through}' of {self.name} and '{into}' of {then.name} differ in size: not one tensor")
        left = self if keep else without(self, through, WRITE)
        sources = (Source(self, left), Source(then, without(then, into, READ)))
        both = sources[0].left + sources[1].left
        launches = {"launch": np.maximum(self.waits.get("launch", 0.0), then.waits.get("launch", 0.0))}
        # the tensor between is held once if it is kept or was an input of its own, else not at all
        updated = any(tensor == through and way == READ for _, tensor, way in self.moves)
        footprint = self.footprint + then.footprint - taken - (0.0 if keep or updated else written)
        return replace(
            both,
            waits={**both.waits, **launches},
            held=np.maximum(footprint, 0.0),
            notes=(*both.notes, f"fused through {through}"),
            parts=(),
            sources=sources,
        )


def _renamed(key: Any, prefix: str) -> Any:
    return (key[0], f"{prefix}.{key[1]}", key[2]) if key[-1] in (READ, WRITE) else key


def _tensors(work: Work, direction: str) -> str:
    return ", ".join(dict.fromkeys(tensor for _, tensor, way in work.moves if way == direction)) or "nothing"


def _nothing(value: Array) -> bool:
    """A scalar zero is an addend that does not apply (beta = 0, no bias); arrays keep theirs."""
    return not isinstance(value, np.ndarray) and value == 0


def only_if(flag: Array, value: Array) -> Array:
    """The value where a flag is set, nothing where it is not; a scalar flag costs no pass over an array."""
    if isinstance(flag, np.ndarray):
        return value * flag
    return value if flag else 0.0


Operand = tuple[Any, ...]  # (elements, dtype) or (elements, dtype, "formula")


def work(
    matrix: Mapping[str, tuple[Any, ...]] | None = None,
    vector: Mapping[str, tuple[Any, ...]] | None = None,
    read: Mapping[str, Operand] | None = None,
    write: Mapping[str, Operand] | None = None,
    inner_read: Mapping[str, Mapping[str, Operand]] | None = None,
    inner_write: Mapping[str, Mapping[str, Operand]] | None = None,
    sizes: Mapping[str, Operand] | None = None,
    dtype: str = "bf16",
    special: Array = 0.0,
    waits: Mapping[str, Array] | None = None,
    notes: tuple[str, ...] = (),
    kernels: tuple[Kernel, ...] = (),
) -> Work:
    """Work from an op's definition.

    `matrix` and `vector` map a label to (count, "formula"); `read` and `write` map a tensor to
    (elements, dtype, "formula"), bytes follow from the dtype; `inner_read` and `inner_write` add traffic at levels
    nearer the core; `sizes` gives the size of tensors that move more or less than once.
    """
    counts: dict[FlopKey, Array] = {}
    moves: dict[MoveKey, Array] = {}
    formulas: dict[Any, str] = {}
    for engine, entries in (("matrix", matrix), ("vector", vector)):
        for label, (value, *formula) in (entries or {}).items():
            if _nothing(value):
                continue
            counts[engine, dtype, label] = value
            formulas[engine, dtype, label] = formula[0] if formula else ""
    groups = [(MAIN, READ, read), (MAIN, WRITE, write)]
    groups += [(level, READ, tensors) for level, tensors in (inner_read or {}).items()]
    groups += [(level, WRITE, tensors) for level, tensors in (inner_write or {}).items()]
    for level, way, tensors in groups:
        for tensor, (elements, stored, *formula) in (tensors or {}).items():
            if _nothing(elements):
                continue
            width = dtype_row(stored)
            moves[level, tensor, way] = elements * width.bytes
            formulas[level, tensor, way] = f"{formula[0]} x {width.bytes:g} B" if formula else f"{width.bytes:g} B each"
    return Work(
        counts=counts,
        moves=moves,
        waits=waits if waits is not None else {"launch": 1.0},
        sizes={tensor: elements * dtype_row(stored).bytes for tensor, (elements, stored, *_) in (sizes or {}).items()},
        special=special,
        dtype=dtype,
        formulas=formulas,
        notes=notes,
        kernels=kernels,
    )


@dataclass(frozen=True)
class Source:
    """Work that another kernel was made from: as it runs alone, and what is left of it in that kernel."""

    alone: Work
    left: Work


@dataclass(frozen=True)
class Step:
    name: str
    work: Work
    count: Array = 1.0
    backend: str = ""  # the library whose kernels it is of, where that is not the one asked for


@dataclass(frozen=True)
class Program:
    """Named steps of work, in order; a step that runs `count` times is one row."""

    steps: tuple[Step, ...] = ()
    name: str = ""

    def __repr__(self) -> str:
        shown = [f"  {step.name} x{step.count:g}: {step.work!r}" for step in self.steps[:MAX_LISTED]]
        more = [f"  ... {len(self.steps) - MAX_LISTED} more steps"] if len(self.steps) > MAX_LISTED else []
        return "\n".join([f"program {self.name}".rstrip() + f": {counted(len(self.steps), 'step')}", *shown, *more])

    def __add__(self, other: Program) -> Program:
        return Program(self.steps + other.steps, self.name or other.name)

    def total(self) -> Work:
        works = (step.work.repeat(step.count) for step in self.steps)
        return replace(reduce(add, works, Work()), name=self.name)
