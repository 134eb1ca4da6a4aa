"""MemoryPlan: what a model keeps in the memory of one device, the largest batch that fits, and how many of more run at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.dtypes import dtype
from ...core.machine import Machine
from ...core.work import Array, largest, total
from ...programs.models.architecture import Architecture, Experts, Latent, Layer
from ...programs.models.layout import Layout, stages
from ...programs.models.parameters import kv_values
from ...programs.models.phase import Formats, prefill
from ...programs.models.program import ATTENTION, MLP, ModelOp, stage_ops
from .software import Software

PAGE = 16  # tokens of a page of the cache; the last page of a sequence is half full on average
WIDE = ("router", "shared gate")  # products of layers that quantized checkpoints keep in the format of activations
LOGITS = "fp32"  # in which all_software keep the logits of a step


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes on one device; `capacity` is the memory of the device, `usable` the part of it that the software fills."""

    weights: float
    kv: Array
    activations: Array
    capacity: float | None  # None where the machine's file has none
    usable: float | None

    DOCUMENT: ClassVar = ("weights", "kv", "activations", "total", "capacity", "usable", "share", "fits")

    @property
    def total(self) -> Array:
        return self.weights + self.kv + self.activations

    @property
    def share(self) -> Array | None:
        """Of the memory of the device."""
        return None if self.capacity is None else self.total / self.capacity

    @property
    def fits(self) -> NDArray[np.bool_]:
        total = np.asarray(self.total)
        return np.ones(total.shape, dtype=np.bool_) if self.usable is None else np.asarray(total <= self.usable)


@cache
def device_weights(architecture: Architecture, formats: Formats, layout: Layout) -> float:
    """Bytes of weights on the device that holds most: those of the ops of its stage.

    Matrices of layers, embedding and head are split over tensor-parallel devices, layers over stages, experts over the devices that
    share them; norms, routers and products down to latent vectors are on every device. Quantized checkpoints keep embedding, head,
    router, norms and what the architecture names in the format of activations.
    """
    stored, rest = dtype(formats.weights).bytes, dtype(formats.values).bytes

    def held(op: ModelOp) -> float:
        return float(np.max(op.weights * op.count)) * (stored if _quantized(architecture, op) else rest)

    return max(sum(map(held, ops)) for ops in _forward(architecture, formats, layout))


@dataclass(frozen=True)
class Held:
    """Learned values on a device, none of them sharded: those of experts and all others, and the most that sharded devices
    gather at a time (a layer, or what is outside of the layers)."""

    experts: float
    others: float
    gathered: float

    def split(self, layout: Layout) -> float:
        """Those of one device where all that hold the same ones split them."""
        return self.experts / layout.holders(experts=True) + self.others / layout.holders(experts=False)


@cache
def held_parameters(architecture: Architecture, formats: Formats, layout: Layout) -> tuple[Held, ...]:
    """Of every stage that may hold most."""
    return tuple(_held(ops, layout) for ops in _forward(architecture, formats, layout))


def _held(ops: tuple[ModelOp, ...], layout: Layout) -> Held:
    kinds = {True: 0.0, False: 0.0}
    units: dict[int | None, float] = {}
    for op in ops:
        experts = op.name == "experts"
        each = float(op.weights * op.count)
        kinds[experts] += each
        if layout.holders(experts) > 1:
            units[op.layer] = units.get(op.layer, 0.0) + each
    layers: dict[int | None, float] = {
        op.layer: float(op.count) for op in ops if op.layer is not None and op.name == "out"
    }
    gathered = max((size / layers.get(place, 1.0) for place, size in units.items()), default=0.0)
    return Held(kinds[True], kinds[False], gathered)


def _forward(architecture: Architecture, formats: Formats, layout: Layout) -> tuple[tuple[ModelOp, ...], ...]:
    """Ops of a forward pass, of every stage that may hold most."""
    return stage_ops(architecture, prefill(float(layout.dp), 1.0), formats, replace(layout, shard=0))


def _quantized(architecture: Architecture, op: ModelOp) -> bool:
    """Whether weights of an op are stored in the format of the layers."""
    return op.part in (ATTENTION, MLP) and op.part not in architecture.unquantized and op.name not in WIDE


def device_cache(architecture: Architecture, tokens: Array, formats: Formats, layout: Layout) -> Array:
    """Bytes of the cache of one sequence of `tokens` on one device, in pages, of the stage whose layers keep most.

    Key heads are split over tensor parallel devices until each has one; a latent vector is on all of them.
    """
    if not architecture.causal:
        return 0.0 * np.asarray(tokens, dtype=np.float64)
    paged = np.ceil(np.asarray(tokens, dtype=np.float64) / PAGE) * PAGE

    def kept(layer: Layer) -> Array:
        attention = layer.attention
        shards = 1 if isinstance(attention, Latent) else min(layout.tp, attention.kv_heads)
        tokens_kept = paged if attention.window is None else np.minimum(paged, attention.window + PAGE)
        return layer.count * kv_values(layer) / shards * tokens_kept

    values = largest(total(kept(layer) for _, layer in stage) for stage in stages(architecture, layout.pp))
    return values * dtype(formats.kv).bytes / layout.cp


def step_activations(
    architecture: Architecture, rows: Array, sequences: Array, formats: Formats, layout: Layout
) -> Array:
    """Bytes that a forward step of `rows` tokens needs at once, nothing kept for a backward pass.

    The hidden state, its residual and the widest intermediate of a layer; and the logits of the sequences.
    """
    widths = []
    for layer in architecture.layers:
        inter = (
            layer.mlp.topk * layer.mlp.inter + layer.mlp.shared if isinstance(layer.mlp, Experts) else layer.mlp.inter
        )
        widths.append(3 * inter / layout.tp)  # gate, up and their product
    width = 2 * architecture.hidden + max(widths)
    logits = sequences * architecture.vocab / layout.tp * dtype(LOGITS).bytes if architecture.head else 0.0
    return rows * width * dtype(formats.values).bytes + logits


def memory_plan(
    architecture: Architecture,
    machine: Machine,
    formats: Formats,
    layout: Layout,
    software: Software,
    batch: Array,
    tokens: Array,
    rows: Array,
) -> MemoryPlan:
    """Of `batch` sequences that have grown to `tokens` each, with steps of `rows` tokens at most."""
    capacity = machine.main.capacity.value() or None
    return MemoryPlan(
        device_weights(architecture, formats, layout),
        batch * device_cache(architecture, tokens, formats, layout),
        step_activations(architecture, rows, batch, formats, layout),
        capacity,
        None if capacity is None else capacity * software.memory,
    )


def running_batch(
    architecture: Architecture,
    machine: Machine,
    formats: Formats,
    layout: Layout,
    software: Software,
    batch: Array,
    tokens: Array,
    rows: Array,
) -> Array:
    """Of `batch` sequences those that run at a time, where each holds the cache of `tokens`: the others wait.

    All of them where not even one fits, so that there is an answer at all: the plan says that it does not fit.
    """
    most = _most(architecture, machine, formats, layout, software, tokens, rows)
    asked = np.asarray(batch, dtype=np.float64)
    return np.where(most >= 1, np.minimum(asked, np.maximum(most, 1.0)), asked)


def largest_batch(
    architecture: Architecture,
    machine: Machine,
    formats: Formats,
    layout: Layout,
    software: Software,
    tokens: float,
    rows: float,
) -> int | None:
    """Sequences of `tokens` that fit at once; 0 where the weights alone do not, None where the memory is not known."""
    most = float(_most(architecture, machine, formats, layout, software, tokens, rows))
    return None if np.isinf(most) else int(most)


def _most(
    architecture: Architecture, machine: Machine, formats: Formats, layout: Layout, software: Software, tokens: Array, rows: Array
) -> Array:  # fmt: skip
    single = memory_plan(architecture, machine, formats, layout, software, 1.0, tokens, rows)
    if single.usable is None:
        return np.full(np.shape(tokens), np.inf)
    fixed = single.weights + step_activations(architecture, rows, 0.0, formats, layout)
    each = np.asarray(single.total - fixed)
    return np.where(each > 0, np.maximum((single.usable - fixed) // np.maximum(each, 1.0), 0.0), 0.0)
