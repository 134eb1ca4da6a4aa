"""MemoryPlan: what a model keeps in the memory of one device, the largest batch that fits, and how many of more run at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.dtypes import dtype
from ...core.machine import Machine
from ...core.work import Array
from ...programs.models.architecture import Architecture, Experts, Latent
from ...programs.models.layout import Layout
from ...programs.models.parameters import ATTENTION, MLP, kv_values, parameters
from ...programs.models.phase import Formats
from .software import Software

PAGE = 16  # tokens of a page of the cache; the last page of a sequence is half full on average
UNQUANTIZED = "bf16"  # embedding, head, router and norms of quantized checkpoints
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


def device_weights(architecture: Architecture, formats: Formats, layout: Layout) -> float:
    """Bytes of weights on the device of the stage that has most: layers split over tensor and pipeline parallel devices,
    experts over those that share them; embedding and head split by rows of the vocabulary, on the first and last stage.

    Quantized checkpoints keep embedding, head, router and norms in the format of activations.
    """
    groups = parameters(architecture).groups
    stored, rest = dtype(formats.weights).bytes, dtype(UNQUANTIZED).bytes
    routed = sum(
        layer.count * layer.mlp.count * layer.mlp.inter * architecture.hidden * (2 + layer.mlp.gated)
        for layer in architecture.layers
        if isinstance(layer.mlp, Experts)
    )
    stages = np.ceil(architecture.depth / layout.pp) / architecture.depth
    dense = (groups[ATTENTION] + groups[MLP] - routed) * stored / layout.tp
    experts = routed * stored / max(layout.tp, layout.ep)
    kept = (sum(groups.values()) - groups[ATTENTION] - groups[MLP]) * rest
    # the first stage has the embedding and the last the head, so that neither has both
    ends = kept / layout.tp / (2 if layout.pp > 1 and not architecture.tied else 1)
    return float((dense + experts) * stages + ends)


def device_cache(architecture: Architecture, tokens: Array, formats: Formats, layout: Layout) -> Array:
    """Bytes of the cache of one sequence of `tokens` on one device, in pages.

    Key heads are split over tensor parallel devices until each has one; a latent vector is on all of them.
    """
    if not architecture.causal:
        return 0.0 * np.asarray(tokens, dtype=np.float64)
    paged = np.ceil(np.asarray(tokens, dtype=np.float64) / PAGE) * PAGE
    values: Array = 0.0
    for layer in architecture.layers:
        attention = layer.attention
        shards = 1 if isinstance(attention, Latent) else min(layout.tp, attention.kv_heads)
        kept = paged if attention.window is None else np.minimum(paged, attention.window + PAGE)
        values = values + layer.count * kv_values(layer) / shards * kept
    return values * dtype(formats.kv).bytes / (layout.pp * layout.cp)


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
    return rows * width * dtype(formats.activations).bytes + logits


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
