"""A Trace from the steps of a JAX program: what each computes, which buffers it touches, and how long those are needed.

The program is taken as XLA compiles it. Views, and what is made of constants and counters alone, exist only where they are
read; a library call that cannot read a view as it lies has it copied first, and so has a result of the program. Updates
happen in place where nothing else needs the operand; the program's inputs are never overwritten (no donation).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.jax_names import pass_of, scopes
from ...core.timeline import COMMUNICATION, Call, Site, Tensor
from ...core.trace import FREE, UNKNOWN, VIEW, WORK, Access, TracedOp
from ..aten.formats import format_of
from . import jax_collectives, jax_products, jax_rules
from .jax_case import Case, Count, stored_bytes, unknown
from .jax_counts import RULES, Counts, counted
from .jax_memory import Memory
from .jax_steps import CARRY, COLLECT, JOIN, SHARD, TRIP, Place, Step, Steps, Value, contiguous
from .jax_views import (
    ALL_VIEWS,
    MADE,
    is_contiguous,
    is_dense,
    product_reads,
    product_writes,
    reduces_nothing,
    view_strides,
)  # fmt: skip

IN_PLACE = frozenset({"dynamic_update_slice", *(name for name in RULES if name.startswith("scatter"))})
# Primitives that read any view: they compute the place of every element themselves.
FUSED = frozenset({
    "gather", "concatenate", "stack", "pad", "tile", "convert_element_type", "reduce_window", "dynamic_update_slice",
    *jax_rules.REDUCTIONS, *(name for name in RULES if name.startswith(("scatter", "reduce_window", "select_and"))),
    *(name for name, rule in RULES.items() if rule is jax_rules.random_bits),
})  # fmt: skip
MAX_TEXT = 80  # characters of a parameter that a call keeps


class Builder:
    """Calls, ops and buffers of a program, step by step."""

    def __init__(self, steps: Steps, differentiates: bool) -> None:
        self.steps, self.differentiates = steps, differentiates
        self.memory = Memory()
        self.ops: list[TracedOp] = []
        self.numbers: dict[Any, int] = {}
        self.counts = Counts()
        self.op: list[int] = []
        self.places: list[Place] = []
        self.reads: list[tuple[Access, ...]] = []
        self.writes: list[tuple[Access, ...]] = []
        self.loop_calls: dict[int, list[int]] = {}
        self.groups: dict[int, tuple[tuple[int, ...], ...]] = {}  # by product result: batch, rows, columns
        self.last_use: dict[int, int] = {}
        self.uses: dict[int, int] = defaultdict(int)
        for place, step in enumerate(steps.listed):
            for value in step.inputs:
                self.uses[id(value)] += 1
                outside = [loop for loop in step.place.loops if loop not in value.loops]
                end = steps.loop_ends[outside[0]] if outside else place
                self.last_use[id(value)] = max(self.last_use.get(id(value), -1), end)

    def given(self, values: Sequence[Value]) -> None:
        """The arrays that the program is called with."""
        for value in values:
            if value.buffer < 0:
                self.memory.allocate(value, -1, ())
                self.memory.given.add(value.buffer)

    def build(self, results: Sequence[Value]) -> None:
        for value in results:
            self.last_use[id(value)] = len(self.steps.listed)
        for at, step in enumerate(self.steps.listed):
            self._step(at, step)
        end = Step("copy", (), (), {}, Place())
        for value in results:
            if (value.size and not is_contiguous(value)) or (value.buffer < 0 and value.shape):
                self._materialise(value, end)

    def _step(self, at: int, step: Step) -> None:
        name = step.name
        if name in (CARRY, JOIN, TRIP):
            self._loop_view(at, step)
        elif name == SHARD:
            self._shard(step)
        elif name == COLLECT:
            self._collect(step)
        elif name in ALL_VIEWS or reduces_nothing(step):
            self._view(step)
        elif self._made_where_read(step):
            for value in step.outputs:
                value.strides = (0,) * len(value.shape)
            self._emit(step, self._case(step), Count(FREE, VIEW))
        else:
            self._compute(at, step)

    # -- views -----------------------------------------------------------------------------------------------------------

    def _loop_view(self, at: int, step: Step) -> None:
        base, out = step.inputs[0], step.outputs[0]
        if step.name == CARRY and step.params["changes"] and base.shape and not self._owned(base, at):
            copy = Value(base.shape, base.dtype)
            self._copy(base, copy, step, "copy")
            base = copy
        strides = base.strides[1:] if step.name == TRIP else base.strides
        self.memory.share(out, base, strides)
        for other in step.inputs[1:]:  # the results of other branches share the memory
            if other.buffer >= 0 and out.buffer >= 0:
                self.memory.sharing[other.buffer].append(out)

    def _shard(self, step: Step) -> None:
        """Each rank holds its part of an array that ranks share, so the smaller of both is what the buffer holds."""
        base, out = step.inputs[0], step.outputs[0]
        if base.size and base.buffer >= 0:
            if not is_contiguous(base):
                self._materialise(base, step)
            share = min(out.size / base.size, 1.0)
            self.memory.share(out, base, contiguous(out.shape))
            self.memory.sizes[base.buffer] = min(self.memory.sizes[base.buffer], share * _bytes(base))
        else:
            out.strides = (0,) * len(out.shape)

    def _collect(self, step: Step) -> None:
        """A trip's result written to its place in the stacked array."""
        part, stack = step.inputs[0], step.outputs[0]
        first = self.loop_calls.get(step.place.loops[-1], [len(self.op)])[0]
        if stack.buffer < 0:
            self.memory.allocate(stack, first, step.place.loops[:-1])
        case = Case("dynamic_update_slice", (_tensor(stack), _argument(part)), (_tensor(stack),), {})
        count = counted(case)
        self._emit(step, case, count, [(part.buffer, _bytes(part))], [(stack.buffer, count.written.get(0, 0.0))])

    def _view(self, step: Step) -> None:
        if step.name in MADE or not step.inputs:
            for value in step.outputs:
                value.strides = (0,) * len(value.shape)
        elif self._written_transposed(step):
            self.memory.share(step.outputs[0], step.inputs[0], contiguous(step.outputs[0].shape))
        else:
            for place, (value, strides) in enumerate(zip(step.outputs, view_strides(step), strict=True)):
                base = step.inputs[place if len(step.inputs) == len(step.outputs) else 0]
                if strides is None:
                    self._copy(base, value, step, step.name)
                    return
                self.memory.share(value, base, strides)
                value.reverse = base.reverse or step.name == "rev"
        self._emit(step, self._case(step), Count(FREE, VIEW))

    def _written_transposed(self, step: Step) -> bool:
        """Whether the product before a transpose writes its result in the new order, which costs nothing."""
        base = step.inputs[0]
        if step.name != "transpose" or id(base) not in self.groups or self.uses[id(base)] != 1:
            return False
        return product_writes(base, [int(dim) for dim in step.params["permutation"]], self.groups[id(base)])

    def _made_where_read(self, step: Step) -> bool:
        """Whether an elementwise step works on constants and counters alone."""
        if any(value.buffer >= 0 for value in step.inputs) or not step.inputs:
            return False
        return step.name == "convert_element_type" or (
            step.name not in RULES and jax_rules.is_pointwise(self._case(step))
        )

    # -- copies ----------------------------------------------------------------------------------------------------------

    def _owned(self, value: Value, at: int) -> bool:
        """Whether a value may be overwritten: it has a buffer for itself that nothing reads later."""
        if value.buffer < 0 or value.buffer in self.memory.given or not is_contiguous(value):
            return False
        if _bytes(value) < self.memory.sizes[value.buffer]:
            return False
        return all(self.last_use.get(id(other), -1) <= at for other in self.memory.sharing[value.buffer])

    def _copy(self, source: Value, target: Value, step: Step, name: str) -> None:
        """A dense copy of a view, or a constant written out, at the place of a step."""
        made = source.buffer < 0
        self.memory.allocate(target, len(self.op), step.place.loops)
        if not target.size:
            return
        out = _tensor(target)
        if made:
            case = Case(name, (source.number if source.number is not None else 0,), (out,), {})
            count = jax_rules.fill(case) if format_of(out.dtype) else unknown(f"no width is known for {out.dtype}")
        else:
            case = Case(name, (_tensor(source),), (out,), {})
            count = jax_rules.cast(case) if format_of(out.dtype) else unknown(f"no width is known for {out.dtype}")
        reads = [] if made else [(source.buffer, _bytes(source))]
        self._emit(step, case, count, reads, [(target.buffer, _bytes(target))])

    def _materialise(self, value: Value, reader: Step) -> None:
        """The value itself becomes dense: what reads it later reads the copy, which has the name of the view it was."""
        source = Value(value.shape, value.dtype, value.number, value.strides, value.buffer)
        maker = value.maker or reader
        if maker.name == TRIP:
            name = "dynamic_slice"
        elif maker.name in ALL_VIEWS:
            name = maker.name
        else:
            name = "broadcast_in_dim" if value.buffer < 0 else "transpose" if self._fills(value) else "copy"
        self._copy(source, value, maker, name)

    def _prepare(self, step: Step) -> None:
        """Operands as the step can read them."""
        if step.name == "dot_general":
            case = self._case(step)
            sum_a, sum_b, batch_a, batch_b, free_a, free_b = jax_products.dot_dims(case)
            if not sum_a:
                return
            for value, dims in zip(step.inputs[:2], ((batch_a, free_a, sum_a), (batch_b, free_b, sum_b)), strict=True):
                if not self._fills(value) or value.reverse or not product_reads(value, *dims):
                    self._materialise(value, step)
            rows, columns = len(batch_a), len(batch_a) + len(free_a)
            rank = len(step.outputs[0].shape)
            self.groups[id(step.outputs[0])] = (
                tuple(range(rows)), tuple(range(rows, columns)), tuple(range(columns, rank)),
            )  # fmt: skip
        elif step.name == "conv_general_dilated":
            for value in step.inputs[:2]:
                if not self._fills(value) or not is_dense(value):
                    self._materialise(value, step)
        elif step.name not in FUSED and step.name in RULES:
            for value in step.inputs:
                if value.shape and (not self._fills(value) or not is_contiguous(value)):
                    self._materialise(value, step)

    def _fills(self, value: Value) -> bool:
        """Whether a value is all of its buffer; libraries are given no parts of arrays."""
        return value.buffer >= 0 and _bytes(value) >= self.memory.sizes[value.buffer]

    # -- computing -------------------------------------------------------------------------------------------------------

    def _compute(self, at: int, step: Step) -> None:
        self._prepare(step)
        in_place = step.name in IN_PLACE
        if in_place and not self._owned(step.inputs[0], at):
            copy = Value(step.inputs[0].shape, step.inputs[0].dtype)
            self._copy(step.inputs[0], copy, step, "copy")
            step.inputs = (copy, *step.inputs[1:])
        case = self._case(step)
        count = self.counts.count(case)
        if in_place:
            self.memory.share(step.outputs[0], step.inputs[0], contiguous(step.outputs[0].shape))
        else:
            for value in step.outputs:
                self.memory.allocate(value, len(self.op), step.place.loops)
        reads = [(value.buffer, count.read.get(place, _bytes(value))) for place, value in enumerate(step.inputs)]
        writes = [(value.buffer, count.written.get(place, _bytes(value))) for place, value in enumerate(step.outputs)]
        self._emit(step, case, count, reads, writes)

    def _case(self, step: Step) -> Case:
        op_name = f"{step.place.scope}/{step.name}"
        phase = pass_of(op_name, self.differentiates)
        inputs = tuple(_argument(value) for value in step.inputs)
        return Case(
            step.name, inputs, tuple(_tensor(value) for value in step.outputs), step.params, phase, step.place.axes
        )

    def _emit(
        self, step: Step, case: Case, count: Count, reads: Sequence[Access] = (), writes: Sequence[Access] = ()
    ) -> None:
        place, call = step.place, len(self.op)
        phase = COMMUNICATION if case.name in jax_collectives.RULES else case.phase
        phase = phase or pass_of(f"{place.scope}/{case.name}", self.differentiates)
        named = count.call or Call(case.name, (*case.inputs, *_texts(case.params)), case.outputs)
        site = Site(named, phase, scopes(f"{place.scope}/{case.name}"), place.source, _outer(count, case))
        size = sum(_stored(item) for item in (*case.tensors, *case.outputs))
        key = (site, count.kind, count.sort, count.reason)
        if key not in self.numbers:
            self.numbers[key] = len(self.ops)
            self.ops.append(TracedOp(site, count.kind, count.work, count.sort, count.backend, count.reason, size))
        self.op.append(self.numbers[key])
        self.places.append(place)
        for loop in place.loops:
            self.loop_calls.setdefault(loop, [call, call])[1] = call
        touched = count.kind in (WORK, UNKNOWN)
        self.reads.append(tuple(item for item in _merged(reads) if touched))
        self.writes.append(tuple(item for item in _merged(writes) if touched))
        for value in (*step.inputs, *step.outputs) if touched else ():
            if value.buffer >= 0:
                self.memory.touch(value.buffer, call, place.loops)
        for buffer, _ in (*self.reads[-1], *self.writes[-1]):
            self.memory.touch(buffer, call, place.loops)


def _tensor(value: Value) -> Tensor:
    return Tensor(value.shape, value.dtype, () if is_contiguous(value) else value.strides)


def _argument(value: Value) -> Any:
    """A constant as a number, else the array as it lies."""
    if isinstance(value.number, bool | int | float | complex):
        return value.number
    return 0 if value.buffer < 0 and not value.shape else _tensor(value)


def _bytes(value: Value) -> float:
    return _stored(_tensor(value)) if value.buffer >= 0 else 0.0


def _stored(tensor: Tensor) -> float:
    return stored_bytes(tensor) if format_of(tensor.dtype) else 0.0


def _outer(count: Count, case: Case) -> tuple[Call, ...]:
    """The primitive of a call that has another name in profiles."""
    return () if count.call is None else (Call(case.name),)


def _texts(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Parameters that say what is computed: sizes, axes and names."""
    plain = {name: value for name, value in params.items() if _is_plain(value)}
    return tuple(f"{name}={value}"[:MAX_TEXT] for name, value in plain.items())


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(_is_plain(item) for item in value)
    return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def _merged(accesses: Sequence[Access]) -> list[Access]:
    """One access per buffer, nothing where no bytes move."""
    moved: dict[int, float] = {}
    for buffer, size in accesses:
        if buffer >= 0 and size > 0:
            moved[buffer] = moved.get(buffer, 0.0) + size
    return list(moved.items())
