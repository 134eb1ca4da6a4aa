"""Case: an op call, or work alone, on a machine, with the kernels before and after it; Change: what makes another of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...core.cached import cached_property
from ...core.dtypes import dtype as dtype_row
from ...core.dtypes import result
from ...core.errors import InputError
from ...core.machine import MAIN, Machine
from ...core.work import READ, WRITE, Program, Step, Work
from ...programs.ops import Op
from ..inherited import at_same_share
from ..predict import Prediction, predict

FLAT_OPTIONS = ("efficiency", "engine", "resident")  # with which times follow from the ceilings alone
BEFORE, AFTER = "before", "after"
# Columns of the tensor that enters an op and of the one that leaves it, by the name of the size; else `cols`.
EDGES = {
    "gemm": {BEFORE: "k", AFTER: "n"},
    "bmm": {BEFORE: "k", AFTER: "n"},
    "linear": {BEFORE: "in_features", AFTER: "out_features"},
    "attention": {BEFORE: "head_dim", AFTER: "head_dim"},
    "moe": {BEFORE: "hidden", AFTER: "hidden"},
}


@dataclass(frozen=True)
class Neighbour:
    """The op that makes what a kernel reads, or reads what it makes; it runs in any case, apart or in the kernel."""

    op: Op
    side: str
    fused: bool = False


@dataclass(frozen=True)
class Case:
    """What is priced: an op and its values (or a Work), a machine, options of `predict`; `amount` in baselines."""

    machine: Machine
    op: Op | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    given: Work | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    neighbours: tuple[Neighbour, ...] = ()
    after: tuple[Work, ...] = ()  # steps of their own that follow, such as a collective
    amount: float = 1.0
    traffic: float = 1.0  # factors of a declared effect
    arithmetic: float = 1.0
    captured: bool = False  # sent as a graph, not one by one
    tuned_on: Machine | None = None  # whose kernels keep their share of the roofline, where only its figures changed

    def __post_init__(self) -> None:
        if (self.op is None) == (self.given is None):
            raise InputError("a what-if starts from an op with its sizes, or from one Work")
        work = self.main
        if any(np.ndim(value) for value in (*work.shape.values(), work.flops, work.bytes)):
            name = work.name or "this work"
            raise InputError(f"a what-if prices one case; {name} has an axis of sizes, give one value")

    @cached_property
    def main(self) -> Work:
        return self.op(**self.values) if self.op is not None else self.given or Work()

    def value(self, name: str) -> Any:
        """A parameter of the op: given, its default, or for storage dtypes that of the arithmetic."""
        assert self.op is not None
        value = self.values.get(name)
        value = self.op.params[name].default if value is None else value
        if value is None and name == "out_dtype":
            return result(self.value("dtype")).name
        return self.value("dtype") if value is None and name in ("weights", "kv") else value

    def with_values(self, **values: Any) -> Case:
        return replace(self, values={**self.values, **values})

    def with_options(self, **options: Any) -> Case:
        return replace(self, options={**self.options, **options})

    def _edge(self, side: str) -> tuple[float, float | None, str]:
        """Elements, columns (None where not known) and format of the tensor at a side of the main kernel."""
        work = self.main
        tensor = tensor_of(work, READ if side == BEFORE else WRITE)
        dtype = work.dtype
        if side == AFTER and self.op is not None:
            default = "out_dtype" in self.op.params and self.op.params["out_dtype"].default
            product = work.family == "gemv" or any(engine == "matrix" for engine, _ in work.by_engine())
            dtype = self.values.get("out_dtype") or default or (result(dtype).name if product else dtype)
        elements = float(work.tensor_sizes()[tensor]) / dtype_row(dtype).bytes
        columns = work.shape.get(EDGES.get(work.name, {}).get(side, "cols"))
        return elements, None if columns is None else float(columns), dtype

    def _neighbour_work(self, neighbour: Neighbour) -> Work:
        """The neighbour's work on the tensor between it and the main kernel."""
        elements, columns, dtype = self._edge(neighbour.side)
        params = neighbour.op.params
        needed = {name for name, param in params.items() if param.required}
        # the bytes of a tensor of mixed dtypes, such as indices and values, do not give its elements
        if needed == {"n"} and elements.is_integer():
            values: dict[str, Any] = {"n": elements}
        elif needed == {"rows", "cols"} and columns is not None and (elements / columns).is_integer():
            values = {"rows": elements / columns, "cols": columns}
        else:
            raise InputError(
                f"fuse={neighbour.op.name}: its sizes do not follow from {self.main.name}; "
                "a neighbour is elementwise, or goes over rows where the op has rows and columns"
            )
        if "dtype" in params:
            wide = result(dtype).name if neighbour.side == BEFORE else dtype
            values["dtype"] = wide
            if "out_dtype" in params and neighbour.side == BEFORE and wide != dtype:
                values["out_dtype"] = dtype
        return neighbour.op(**values)

    @cached_property
    def program(self) -> Program:
        """The kernels in order: neighbours apart or in the main one, then what follows."""
        works: list[Work] = [self.main]
        place = 0
        for neighbour in self.neighbours:
            other = self._neighbour_work(neighbour)
            if neighbour.fused:
                first, then = (other, works[place]) if neighbour.side == BEFORE else (works[place], other)
                works[place] = _fused(first, then)
            elif neighbour.side == BEFORE:
                works.insert(0, other)
                place += 1
            else:
                works.append(other)
        if self.traffic != 1.0 or self.arithmetic != 1.0:
            works[place] = works[place].scaled(self.traffic, self.arithmetic)
        steps = tuple(Step(work.name, work) for work in (*works, *self.after))
        return Program(steps, " + ".join(work.name for work in works))

    def predict(self) -> Prediction:
        if self.tuned_on is None or any(name in self.options for name in FLAT_OPTIONS):
            return predict(self.program, self.machine, **self.options)
        before = predict(self.program, self.tuned_on, **self.options)
        return at_same_share(before, self.machine, self.options.get("ceilings"))


@dataclass(frozen=True)
class Change:
    """A named transformation of a case; `prepare` adds to the baseline what the change is about to act on."""

    name: str
    make: Callable[[Case], Case]
    prepare: Callable[[Case], Case] = lambda case: case
    note: str = ""


class NoEffect(Exception):
    """A change that finds nothing to change; its text says why."""


def tensor_of(work: Work, way: str) -> str:
    """The activation that enters or the result that leaves: the first one read, the first one the last kernel writes."""
    tensors = [tensor for level, tensor, direction in work.moves if direction == way and level == MAIN]
    if not tensors:
        verb = "read" if way == READ else "written"
        raise InputError(f"{work.name or 'this work'} has no tensor that is {verb}, so nothing can be fused through it")
    return next((tensor for tensor in tensors if way == WRITE and tensor.startswith("2.")), tensors[0])


def _fused(first: Work, then: Work) -> Work:
    """Two kernels as one, through what the first leaves and the second takes; their tensors go by `1.` and `2.`."""
    renamed = [replace(work.rename(place), name=work.name) for place, work in (("1", first), ("2", then))]
    return renamed[0].fuse(renamed[1], f"1.{tensor_of(first, WRITE)}", f"2.{tensor_of(then, READ)}")
