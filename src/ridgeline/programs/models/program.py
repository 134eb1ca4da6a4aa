"""The ops that one device runs in one step of a model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...core.errors import InputError
from ...core.work import total
from .architecture import Architecture
from .device import Device
from .experts import UNIFORM, check_routing
from .forward import device_parameters, forward_ops
from .layout import Layout, check_layout, stages
from .model_op import ATTENTION, COMMUNICATION, EMBEDDING, HEAD, MLP, NORM, PARTS, ModelOp
from .phase import DECODE, TRAIN, Formats, Phase
from .training import train_ops

# what users of a step need of its ops
__all__ = [
    "ATTENTION",
    "COMMUNICATION",
    "EMBEDDING",
    "HEAD",
    "MLP",
    "NORM",
    "PARTS",
    "ModelOp",
    "device_parameters",
    "distinct_stages",
    "stage_ops",
    "step_ops",
]

SINGLE_DEVICE, DEFAULT_FORMATS = Layout(), Formats()


def step_ops(
    architecture: Architecture,
    phase: Phase,
    formats: Formats = DEFAULT_FORMATS,
    layout: Layout = SINGLE_DEVICE,
    *,
    fused: bool = True,
    routing: str = UNIFORM,
    stage: int | None = None,
) -> tuple[ModelOp, ...]:
    """The ops of one device in one step, in order: embedding, layers, final norm, head; in training backward and update too.

    `fused` runs the kernels of serving engines, otherwise the operations of `transformers` in eager mode. `routing` says
    how tokens choose experts (`uniform` at random, `balanced` evenly). Of a pipeline the ops are those of `stage`, counted from 0,
    or of the busiest one. Of devices that do not divide the sequences evenly it is one with the most.
    """
    if stage is None:
        every = stage_ops(architecture, phase, formats, layout, fused=fused, routing=routing)
        return max(every, key=lambda listed: burden(listed, phase.kind))
    device = checked(architecture, phase, formats, layout, fused, routing)
    if not 0 <= stage < layout.pp:
        raise InputError(f"stage {stage} is not there: pp={layout.pp} has stages 0 to {layout.pp - 1}")
    return tuple(ops_of(device, stage))


def stage_ops(
    architecture: Architecture,
    phase: Phase,
    formats: Formats = DEFAULT_FORMATS,
    layout: Layout = SINGLE_DEVICE,
    *,
    fused: bool = True,
    routing: str = UNIFORM,
) -> tuple[tuple[ModelOp, ...], ...]:
    """The ops of one device of every stage that may be the busiest: which one is depends on the machine and the sizes."""
    device = checked(architecture, phase, formats, layout, fused, routing)
    return tuple(tuple(ops_of(device, place)) for place in distinct_stages(architecture, layout.pp))


def ops_of(device: Device, stage: int) -> Iterator[ModelOp]:
    return train_ops(device, stage) if device.phase.kind == TRAIN else forward_ops(device, stage)


def checked(
    architecture: Architecture, phase: Phase, formats: Formats, layout: Layout, fused: bool, routing: str
) -> Device:
    """The busiest device of a step that can be run so, else one message that says why not."""
    check_layout(architecture, layout)
    check_routing(routing)
    if not architecture.causal and any(group.kind == DECODE for group in phase.groups):
        raise InputError(f"{architecture.name} is an encoder: it has no cache and does not decode; ask for a prefill")
    if phase.kind != TRAIN and layout.shard:
        raise InputError(f"shard={layout.shard} splits what training keeps; a {phase.kind} step has shard=0")
    parts = layout.dp * phase.microbatches
    if phase.kind == TRAIN and np.any(np.asarray(phase.batch) % parts):
        raise InputError(
            f"train: batch {phase.batch} does not divide over dp={layout.dp} x {phase.microbatches} microbatches; "
            f"multiples of {parts} do"
        )
    return Device(architecture, phase, formats, layout, fused, routing)


def distinct_stages(architecture: Architecture, pp: int) -> dict[int, int]:
    """Stages that may be the busiest, and how many each stands for: of several with the same layers the first, and the last, which
    has the head."""
    every = stages(architecture, pp)
    alike: dict[object, list[int]] = {}
    for place, layers in enumerate(every):
        alike.setdefault((layers, place == 0, place == len(every) - 1), []).append(place)
    return {places[0]: len(places) for places in alike.values()}


def burden(listed: tuple[ModelOp, ...], kind: str) -> float:
    """What decides which stage is the busiest: bytes in decoding, flops otherwise; of arrays the mean."""
    amount = total(op.bytes if kind == DECODE else op.flops for op in listed)
    return float(np.mean(amount))
