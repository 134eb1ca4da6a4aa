"""ModelOp: one op of a device in a step of a model, with the part of the model and of the step it belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.work import Array, Work

ATTENTION, MLP, NORM, EMBEDDING, HEAD, COMMUNICATION, OPTIMIZER = PARTS = (
    "attention",
    "mlp",
    "norm",
    "embedding",
    "head",
    "communication",
    "optimizer",
)
FORWARD, RECOMPUTED, BACKWARD, UPDATE = PASSES = ("forward", "recomputed", "backward", "update")


@dataclass(frozen=True)
class ModelOp:
    """One op of a device, `count` times per step; `layer` is the place of its layer in the architecture, None outside.

    `weights` are the learned values that one call uses and this device holds, `over` the degree of the layout that a
    collective spans, `step_pass` the pass of a training step that it belongs to.
    """

    name: str
    part: str
    work: Work
    count: Array = 1.0
    layer: int | None = None
    weights: Array = 0.0
    over: str = ""
    step_pass: str = FORWARD

    @property
    def flops(self) -> Array:
        """Of all calls."""
        return self.work.flops * self.count

    @property
    def bytes(self) -> Array:
        """At the main memory, of all calls."""
        return self.work.bytes * self.count
