"""A training step of one device: forward, loss, what is recomputed, backward, gradients over links, optimizer.

Every microbatch runs forward and backward; with P learned values on the device and w bytes of a gradient, data parallelism over N
devices (context parallelism included, whose devices hold the same weights) then exchanges

    shard 0   all_reduce of P w, in buckets
    shard 1   reduce_scatter of P w, and all_gather of the updated weights
    shard 2   reduce_scatter of P w in every microbatch, and all_gather of the updated weights
    shard 3   all_gather of the weights of a layer before its forward and again before its backward pass, and reduce_scatter of its
              gradients, in every microbatch

and the optimizer updates P values, or P / N where states are sharded. Experts that are split over data-parallel replicas have
fewer devices that hold the same weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...core.dtypes import dtype as dtype_row
from ...core.work import Array, Work, total, work
from .. import ops
from .backward import backward_ops
from .device import Device
from .forward import forward_ops, head_rows
from .layout import DATA, EXPERT_DATA, SHARD_GRADIENTS, SHARD_STATES, SHARD_WEIGHTS, TENSOR
from .model_op import BACKWARD, COMMUNICATION, FORWARD, HEAD, OPTIMIZER, RECOMPUTED, UPDATE, ModelOp
from .parallel import collective
from .passes import built, one_pass
from .phase import FULL, SELECTIVE

BUCKET = 25.0 * 2**20  # bytes of gradients that PyTorch's data parallelism reduces at a time
LOSS_VALUES = (
    3.0  # of a row that tensor-parallel devices exchange for the loss: largest logit, sum, logit of the target
)
ADAMW_FLOPS, ADAMW_SPECIAL = 14.0, 2.0  # per value, as `ops.adamw` counts them


def train_ops(device: Device, stage: int = 0) -> Iterator[ModelOp]:
    """All ops of the step, counts over all microbatches."""
    forward = [*forward_ops(device, stage)]
    if stage == device.layout.pp - 1 and device.architecture.head:
        forward += _loss(device)
    backward = [*_recomputed(device, forward), *backward_ops(device, stage, forward)]
    for op in (*forward, *backward):
        yield replace(op, count=op.count * device.phase.microbatches)
    yield from _exchange(device, forward)
    yield from _update(device, forward)


def _loss(device: Device) -> list[ModelOp]:
    rows, tp = head_rows(device), device.layout.tp
    columns = float(-(-device.architecture.vocab // tp))
    listed = [ModelOp("loss", HEAD, built(ops.cross_entropy, rows=rows, cols=columns, dtype=device.formats.values))]
    if tp > 1:
        size = LOSS_VALUES * rows * dtype_row("fp32").bytes
        listed.append(
            ModelOp("all_reduce loss", COMMUNICATION, collective("all_reduce", size, tp, "fp32"), over=TENSOR)
        )
    return listed


def _recomputed(device: Device, forward: Sequence[ModelOp]) -> Iterator[ModelOp]:
    """Forward ops that run once more before the backward pass: all of the layers, or attention itself."""
    recompute = device.phase.recompute
    for op in forward:
        if op.layer is not None and (recompute == FULL or (recompute == SELECTIVE and op.name == "attention")):
            yield replace(op, step_pass=RECOMPUTED, weights=0.0)


# -- data parallelism ----------------------------------------------------------------------------------------------


def _held(forward: Sequence[ModelOp], experts: bool, layer: int | None = None, every: bool = True) -> Array:
    """Learned values of experts or of all else: of one place in the architecture, or of all of them."""
    return total(
        op.weights * op.count for op in forward if (op.name == "experts") is experts and (every or op.layer == layer)
    )


def _exchange(device: Device, forward: Sequence[ModelOp]) -> Iterator[ModelOp]:
    shard, formats, times = device.layout.shard, device.formats, device.phase.microbatches
    for experts in (False, True):
        ranks, held = device.layout.holders(experts), _held(forward, experts)
        if ranks == 1 or not held:
            continue
        of, over = (" of experts", EXPERT_DATA) if experts else ("", DATA)
        size = held * dtype_row(formats.gradients).bytes
        stored = held * dtype_row(formats.weights).bytes
        if shard == SHARD_WEIGHTS:
            yield from _sharded(device, forward, experts, ranks)
            continue
        if shard >= SHARD_STATES:
            reduced = times if shard == SHARD_GRADIENTS else 1
            yield _bucketed("reduce_scatter", f"gradients{of}", size, ranks, formats.gradients, reduced, BACKWARD, over)
            yield _bucketed("all_gather", f"weights{of}", stored, ranks, formats.values, 1, UPDATE, over)
        else:
            yield _bucketed("all_reduce", f"gradients{of}", size, ranks, formats.gradients, 1, BACKWARD, over)


def _bucketed(name: str, what: str, size: Array, ranks: int, dtype: str, times: int, step_pass: str, over: str) -> ModelOp:  # fmt: skip
    buckets = -(-size // BUCKET)
    made = collective(name, size / buckets, ranks, dtype)
    return ModelOp(f"{name} {what}", COMMUNICATION, made, buckets * times, over=over, step_pass=step_pass)


def _sharded(device: Device, forward: Sequence[ModelOp], experts: bool, ranks: int) -> Iterator[ModelOp]:
    """Layer by layer, and what is outside of the layers together."""
    formats, times = device.formats, device.phase.microbatches
    of, over = (" of experts", EXPERT_DATA) if experts else ("", DATA)
    for place in dict.fromkeys(op.layer for op in forward):
        layers = 1.0 if place is None else next(op.count for op in forward if op.layer == place and op.name == "out")
        held = _held(forward, experts, place, every=False) / layers
        if not held:
            continue
        stored, size = held * dtype_row(formats.weights).bytes, held * dtype_row(formats.gradients).bytes
        gathered = collective("all_gather", stored, ranks, formats.values)
        for step_pass in (FORWARD, BACKWARD):
            yield ModelOp(f"all_gather weights{of}", COMMUNICATION, gathered, layers * times, place, over=over, step_pass=step_pass)  # fmt: skip
        reduced = collective("reduce_scatter", size, ranks, formats.gradients)
        yield ModelOp(f"reduce_scatter gradients{of}", COMMUNICATION, reduced, layers * times, place, over=over, step_pass=BACKWARD)  # fmt: skip


# -- optimizer -----------------------------------------------------------------------------------------------------


def _update(device: Device, forward: Sequence[ModelOp]) -> Iterator[ModelOp]:
    values: Array = 0.0
    for experts in (False, True):
        ranks = device.layout.holders(experts) if device.layout.shard else 1
        values = values + _held(forward, experts) / ranks
    yield ModelOp("adamw", OPTIMIZER, adamw(values, device.formats.weights, device.formats.gradients, device.formats.states), step_pass=UPDATE)  # fmt: skip


def adamw(n: Array, weights: str, gradients: str, states: str) -> Work:
    """AdamW over n values in one pass: 14 flops each, as `ops.adamw` counts them.

    The optimizer's copy of the weights and both moments read and written as `states`, the gradient read; where weights are
    stored in another format they are written too.
    """
    kept = dict.fromkeys("pmv", (n, states, "n"))
    stored = {} if dtype_row(weights).name == dtype_row(states).name else {"weights": (n, weights, "n")}
    made = work(
        vector={"update": (ADAMW_FLOPS * n, "14 n")}, special=ADAMW_SPECIAL * n,
        read={**kept, "g": (n, gradients, "n")}, write={**kept, **stored}, dtype=states,
    )  # fmt: skip
    return replace(one_pass(made, "adamw_fused", "", n), name="adamw", family="stream", shape={"n": n})
