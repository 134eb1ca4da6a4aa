"""The plan of a compiled program: a unit for every kernel of the fusion, and the library calls between them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from math import ceil

import numpy as np

from ...core.dtypes import dtype as dtype_row
from ...core.machine import Machine
from ...core.timeline import BACKWARD, Tensor
from ...core.trace import ACTIVATION, HOLDS, INPUT, TEMPORARY, Buffers, Trace, TracedOp
from ...core.work import Work
from ...programs.aten import Settings, count
from ...programs.aten.arguments import base_name
from ...programs.ops.blas import bmm, gemm
from ..formats import computed_in, computes, formats_on
from ..merged import merged_work
from ..predict import predict
from ..queue import Ints
from .attention import timed_backend
from .fusion import Group, Traffic, groups, traffic
from .handling import layout_factor, operand_factor
from .layouts import lays_channels_last
from .nodes import SPLIT
from .plan import FUSED, Plan, Unit

COSTLY = frozenset({"gelu", "gelu_backward", "erf", "tanh"})
PADDED = ("mm", "addmm", "bmm")  # products whose sizes a compiler pads
DROPOUT = "native_dropout"
CONVOLUTIONS = ("convolution", "convolution_backward", "cudnn_convolution")
MIN_PADDING_GAIN = 1.1  # that TorchInductor asks of padded products
ALIGNED = 8  # elements of formats narrower than 32 bits


def fused_plan(trace: Trace, machine: Machine) -> tuple[Plan, Buffers]:
    """The plan, and the buffers as it holds them."""
    every = groups(trace, machine)
    pairs = [pair for pair in zip(every, traffic(trace, every), strict=True) if pair[0].library or pair[1].moves]
    listed, moved = [group for group, _ in pairs], [row for _, row in pairs]
    last = lays_channels_last(trace)
    units: dict[Hashable, int] = {}
    made: list[Unit] = []
    unit, reads, writes = [], [], []
    for group, row in zip(listed, moved, strict=True):
        key = _key(group, row)
        if key not in units:
            units[key] = len(made)
            made.append(_unit(trace, group, row, key, machine, last))
        unit.append(units[key])
        reads.append(tuple(row.reads.items()))
        writes.append(tuple(row.writes.items()))
    calls = np.array([group.nodes[0].call for group in listed], dtype=np.int64)
    times = np.array([group.nodes[0].times for group in listed], dtype=np.float64)
    plan = Plan(tuple(made), np.array(unit, dtype=np.int64), calls, times, reads, writes)
    return plan, _held(trace, listed, moved)


def _held(trace: Trace, listed: Sequence[Group], moved: Sequence[Traffic]) -> Buffers:
    """Buffers as compiled kernels hold them.

    Those that no kernel writes to memory take none. What a kernel of the backward pass computes again keeps the buffers that
    it is computed from, and a result is freed after the last kernel that reads it, that of dropout after the forward pass. The caller keeps the inputs of a compiled
    graph until it returns: a cache that is replaced is freed then.
    """
    buffers, calls = trace.buffers, len(trace)
    touched = {buffer for row in moved for buffer, size in (*row.reads.items(), *row.writes.items()) if size}
    inner = {buffer for accesses in trace.writes for buffer, _ in accesses} - touched
    size, dies = np.array(buffers.size, dtype=np.float64), np.array(buffers.dies, dtype=np.int64)
    size[list(inner)] = 0.0
    last: dict[int, int] = {}
    for group in listed:
        for node in group.nodes:
            used = (buffer for buffer, size in (*node.reads, *node.writes) if size)
            last |= {buffer: max(last.get(buffer, 0), node.call + 1) for buffer in used}
    for buffer, end in last.items():
        if dies[buffer] < calls or end > dies[buffer]:
            dies[buffer] = end
    holds = np.array(buffers.holds)
    dies[holds == HOLDS.index(INPUT)] = calls
    backward = [op.site.phase == BACKWARD for op in trace.ops]
    first = next((call for call, place in enumerate(trace.op.tolist()) if backward[place]), calls)
    for buffer, end in _made_again(trace, listed, first, dies).items():
        dies[buffer] = end
    saved = (holds == HOLDS.index(TEMPORARY)) & (np.asarray(buffers.born) < first) & (dies > first)
    holds[saved] = HOLDS.index(ACTIVATION)
    return Buffers(size, holds, buffers.born, dies)


def _made_again(trace: Trace, listed: Sequence[Group], first: int, dies: Ints) -> dict[int, int]:
    """Results of dropout whose input and mask the backward pass (from call `first`) has anyway: when each is freed.

    The compiler's partitioner saves these two and multiplies them again.
    """
    forward = [node for group in listed for node in group.nodes if node.call < first]
    last: dict[int, int] = {}
    for node in forward:
        last |= {buffer: max(last.get(buffer, 0), node.call + 1) for buffer, _ in (*node.reads, *node.writes)}
    made: dict[int, int] = {}
    for node in forward:
        if base_name(trace.ops[node.op].site.call.name) != DROPOUT or len(node.writes) < 2:
            continue
        result, _ = max(node.writes, key=lambda access: access[1])
        others = [buffer for buffer, size in (*node.reads, *node.writes) if size and buffer != result]
        if dies[result] > first and all(dies[buffer] > first for buffer in others):
            made[result] = last[result]
    return made


def _key(group: Group, row: Traffic) -> Hashable:
    ops = tuple((*node.inlined, node.op) for node in group.nodes)
    if group.library:
        return ops
    return ops, tuple(row.reads.values()), tuple(row.writes.values())


def _unit(trace: Trace, group: Group, row: Traffic, key: Hashable, machine: Machine, last: bool) -> Unit:
    ops = tuple(dict.fromkeys(op for node in group.nodes for op in (*node.inlined, node.op)))
    first = trace.ops[group.nodes[0].op]
    if group.library:
        return Unit(first, library_work(first, machine, last), timed_backend(first, machine), ops, FUSED)
    flops, special, handling = (
        sum(getattr(node, name) for node in group.nodes) for name in ("flops", "special", "handling")
    )
    formats = [work.dtype for op in ops if (work := trace.ops[op].work) is not None and work.dtype]
    widest = max(formats, key=lambda name: dtype_row(name).bytes, default="fp32")
    single = any(node.kind == SPLIT and node.rows == 1 for node in group.nodes)
    names = {base_name(trace.ops[op].site.call.name) for op in ops}
    work = merged_work(
        {f"b{buffer}": size for buffer, size in row.reads.items()},
        {f"b{buffer}": size for buffer, size in row.writes.items()},
        flops,
        special,
        widest,
        group.elements,
        handling=handling * operand_factor(names, len(row.reads)) * layout_factor(names),
        costly=bool(COSTLY & names),
        single=single,
        launches=max(node.launches for node in group.nodes),
    )
    return Unit(first, work, "", ops, key)


def library_work(op: TracedOp, machine: Machine, last: bool) -> Work | None:
    """The work of a library call as a compiler makes it: products padded, convolutions on channels-last tensors (`last`)."""
    base = base_name(op.site.call.name)
    if op.work is None or base not in (*PADDED, *CONVOLUTIONS):
        return op.work
    if base in PADDED:
        return _padded(op.work, machine)
    work = _channels_last(op) if last else op.work
    return work if work is None else computed_in(work, formats_on(machine))


def _padded(work: Work, machine: Machine) -> Work:
    """A compute-bound product with its sizes raised to multiples of 8 elements, where its format is below 32 bits.

    Of many products in one call, those whose rows begin at odd addresses, where that is faster: the kernels that make
    the operands leave the room.
    """
    narrow = dtype_row(work.dtype or "fp32").bytes < 4
    if (
        not narrow
        or not computes(machine, work.dtype)
        or not work.kernels
        or work.kernels[0].family != "gemm"
        or not all(name in work.shape for name in "mnk")
    ):
        return work
    sizes = {name: float(np.max(np.asarray(work.shape[name]))) for name in "mnk"}
    raised = {name: ALIGNED * ceil(size / ALIGNED) for name, size in sizes.items()}
    ridge = machine.ridges().get(machine.engine("matrix", work.dtype), 0.0)
    if "batch" in work.shape:
        larger = bmm(work.shape["batch"], **raised, dtype=work.dtype)
        gains = raised["k"] != sizes["k"] and _time(larger, machine) * MIN_PADDING_GAIN < _time(work, machine)
        return replace(work, kernels=larger.kernels) if gains else work
    if raised == sizes or float(np.max(np.asarray(work.intensity()))) < ridge:
        return work
    return replace(work, kernels=gemm(**raised, dtype=work.dtype).kernels)


def _time(work: Work, machine: Machine) -> float:
    return float(np.max(np.asarray(predict(work, machine).time)))


def _channels_last(op: TracedOp) -> Work | None:
    """A convolution of images on tensors whose channels lie next to each other."""
    call = op.site.call
    args = tuple(_with_channels_last(arg) if isinstance(arg, Tensor) else arg for arg in call.args)
    outputs = tuple(_with_channels_last(tensor) for tensor in call.outputs)
    counted = count(replace(call, args=args, outputs=outputs), Settings(leaf=True))
    return counted.work or op.work


def _with_channels_last(tensor: Tensor) -> Tensor:
    if len(tensor.shape) != 4:
        return tensor
    _, channels, height, width = tensor.shape
    return replace(tensor, strides=(channels * height * width, 1, width * channels, channels))
