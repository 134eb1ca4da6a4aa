"""Training: a step of a model on many devices, from the ops of its busiest device.

    busy       kernels of all microbatches, with the collectives that no kernel hides
    exposed    gradients travel while the last backward pass computes, sharded weights and gradients while any pass does: what is
               longer shows; collectives of tensor, context and expert parallelism wait for each other's results, and are
               hidden by the share that libraries overlap
    step       busy / (1 - bubble) + update; gradients that are exchanged once a step are outside the pipeline and its bubble

The step lies between a perfect overlap (the longer of kernels and links) and none (their sum): both are given.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from ...core.cached import cached_property
from ...core.dtypes import dtype
from ...core.errors import InputError, RidgelineError
from ...core.machine import Machine
from ...core.work import total
from ...machines.load import as_machine
from ...programs.models.activations import training_activations
from ...programs.models.architecture import Architecture
from ...programs.models.layout import (
    DATA,
    EXPERT,
    EXPERT_DATA,
    PIPELINE,
    SHARD_GRADIENTS,
    SHARD_STATES,
    SHARD_WEIGHTS,
    Layout,
    bubble,
)
from ...programs.models.model_op import BACKWARD, FORWARD, PASSES, RECOMPUTED, UPDATE
from ...programs.models.phase import Formats, train
from ...programs.models.program import COMMUNICATION, distinct_stages, stage_ops
from .energy import least_time
from .memory import Held, held_parameters
from .step import OpTime, StepPrediction, predict_steps

LIGHT = 3e-6  # seconds of a pass over activations that are in the cache
EXPERT_LOSS = (
    2.0  # of experts in training over their products alone: permuted tokens, uneven groups, many launches; fitted
)
INTEGER = "int"  # how names of formats begin that gradients cannot update
STATES = 3  # the optimizer's copy of the weights, and two moments
HIDDEN = 0.5  # share of the collectives within a layer that runs while kernels do; assumed


@dataclass(frozen=True)
class Job:
    """What is trained: `batch` sequences of `tokens` in a step, over all devices; `micro` of them at a time on a device."""

    batch: int
    tokens: int = 4096
    micro: int = 1
    recompute: str = "none"
    interleaved: int = 1  # chunks of layers per pipeline stage
    attention: float | None = (
        None  # share of the roofline that attention reaches, where its kernels are not those that were timed
    )


@dataclass(frozen=True)
class TrainingPrediction:
    architecture: Architecture
    machine: Machine
    formats: Formats
    layout: Layout
    job: Job
    step: StepPrediction  # of the busiest device, all microbatches
    useful: float  # flops of forward and backward of a device, nothing recomputed: the mean over the stages
    ceilings: str | None = None

    DOCUMENT: ClassVar = (
        "model=architecture.name", "machine=machine.name", "devices", "layout", "formats", "job", "milliseconds",
        "tokens_per_s", "tokens_per_s_per_device", "mfu", "bubble", "memory", "fits", "ops=step.rows",
    )  # fmt: skip

    @property
    def devices(self) -> int:
        return self.layout.devices

    @property
    def microbatches(self) -> int:
        return _microbatches(self.job, self.layout)

    def _sum(
        self, *, communication: bool, over: tuple[str, ...] | None = None, update: bool = False, passes: tuple[str, ...] = PASSES
    ) -> float:  # fmt: skip
        chosen = [
            item
            for item in self.step.ops
            if (item.op.part == COMMUNICATION) is communication
            and (item.op.step_pass == UPDATE) is update
            and (over is None or item.op.over in over)
            and item.op.step_pass in passes
        ]
        return float(total(np.asarray(item.time) * _loss(item) for item in chosen))

    @cached_property
    def kernels(self) -> float:
        """Seconds of all kernels of a device but those of the optimizer; no less than the power limit allows."""
        return max(self._sum(communication=False), float(least_time(self.step)))

    @property
    def update(self) -> float:
        return self._sum(communication=False, update=True) + self._sum(communication=True, update=True)

    @property
    def communication(self) -> float:
        return self._sum(communication=True)

    @property
    def exchange(self) -> float:
        """Seconds of collectives over the replicas, hidden or not."""
        return self._sum(communication=True, over=(DATA, EXPERT_DATA))

    @cached_property
    def hiding(self) -> float:
        """Seconds of kernels that the exchange runs beside: all of them where weights or gradients are sharded, which are exchanged in
        every microbatch; else the backward pass of the last microbatch, before which no gradient is complete."""
        if self.layout.shard >= SHARD_GRADIENTS:
            return self.kernels
        every = self._sum(communication=False)
        backward = self._sum(communication=False, passes=(RECOMPUTED, BACKWARD))
        return self.kernels * backward / every / self.microbatches if every else 0.0

    @property
    def exchange_shown(self) -> float:
        """Seconds by which the exchange is longer than the kernels that hide it."""
        return max(self.exchange - self.hiding, 0.0)

    @cached_property
    def exposed(self) -> float:
        """Seconds of collectives that no kernel hides: at least those that are longer than all kernels."""
        apart = self._sum(communication=True, over=(EXPERT,))  # tokens are waited for, before and behind their experts
        inner = self.communication - self.exchange - apart - self._sum(communication=True, over=(PIPELINE,))
        return max((1 - HIDDEN) * inner + apart + self.exchange_shown, self.communication - self.kernels)

    @property
    def waiting(self) -> float:
        """Seconds of a step in which kernels wait for links: exposed collectives, and those of the update."""
        shown = self._piped(self.exposed - self._once_shown) + self._once_shown
        return shown + self._sum(communication=True, update=True)

    @property
    def bubble(self) -> float:
        """Share of the step that a pipeline stage waits."""
        return bubble(self.layout.pp, self.microbatches, self.job.interleaved)

    def _piped(self, seconds: float) -> float:
        """Seconds of all microbatches, with the waits of a pipeline that fills and drains."""
        return seconds / (1 - self.bubble)

    @property
    def _once(self) -> float:
        """Seconds of the exchange where it comes once a step, behind the last microbatch."""
        return 0.0 if self.layout.shard >= SHARD_GRADIENTS else self.exchange

    @property
    def _once_shown(self) -> float:
        return min(self.exchange_shown, self._once)

    @property
    def time(self) -> float:
        return self._piped(self.kernels + self.exposed - self._once_shown) + self._once_shown + self.update

    @property
    def best(self) -> float:
        """With a perfect overlap."""
        inside = self.communication - self._once
        return max(self._piped(self.kernels), self._piped(inside) + self._once) + self.update

    @property
    def worst(self) -> float:
        """Without any."""
        return self._piped(self.kernels + self.communication - self._once) + self._once + self.update

    @property
    def tokens_per_s(self) -> float:
        return self.job.batch * self.job.tokens / self.time

    @property
    def tokens_per_s_per_device(self) -> float:
        return self.tokens_per_s / self.devices

    @cached_property
    def mfu(self) -> float | None:
        """Flops of forward and backward, nothing recomputed, over what the devices could do meanwhile in the format of the products, those of
        stages that wait for the longest one among them."""
        try:
            peak = self.machine.peak(f"tensor.{dtype(self.formats.activations).math}", self.ceilings).value
        except RidgelineError:  # no matrix units, or no figure of them
            return None
        return self.useful / peak / self.time

    @cached_property
    def memory(self) -> dict[str, float]:
        """Bytes on the device that holds most: weights, gradients and the optimizer's states, of which devices with the same weights
        keep a part each from a ZeRO stage on; with sharded weights the layer whose weights are gathered and whose gradients
        are not reduced yet; and the activations that are kept for the backward pass."""
        layout, formats = self.layout, self.formats
        phase = train(self.job.batch, self.job.tokens, self.microbatches, self.job.recompute)
        stages = (_kept(held, formats, layout) for held in held_parameters(self.architecture, formats, layout))
        most = max(stages, key=lambda kept: sum(kept.values()))
        return {**most, "activations": float(training_activations(self.architecture, phase, formats, layout))}

    @property
    def fits(self) -> bool | None:
        """Whether that is within the memory of the device; None where it is not known."""
        capacity = self.machine.main.capacity.value()
        return None if not capacity else sum(self.memory.values()) <= capacity

    @property
    def milliseconds(self) -> dict[str, float]:
        """Where the step goes."""
        names = ("time", "best", "worst", "kernels", "exposed", "communication", "update")
        return {name: getattr(self, name) * 1e3 for name in names}


def _kept(held: Held, formats: Formats, layout: Layout) -> dict[str, float]:
    """Bytes of a stage by kind; `gathered` where replicas split the weights themselves."""
    entire, part = held.experts + held.others, held.split(layout)
    weights, gradients, states = (dtype(name).bytes for name in (formats.weights, formats.gradients, formats.states))
    kept = {
        "weights": (part if layout.shard >= SHARD_WEIGHTS else entire) * weights,
        "gradients": (part if layout.shard >= SHARD_GRADIENTS else entire) * gradients,
        "states": (part if layout.shard >= SHARD_STATES else entire) * STATES * states,
    }
    if layout.shard >= SHARD_WEIGHTS and held.gathered:
        kept["gathered"] = held.gathered * (weights + gradients)
    return kept


def _loss(item: OpTime) -> float:
    return EXPERT_LOSS if item.op.name.startswith("experts") else 1.0


def _microbatches(job: Job, layout: Layout) -> int:
    return max(round(job.batch / (layout.dp * job.micro)), 1)


def check_job(architecture: Architecture, job: Job, formats: Formats, layout: Layout) -> None:
    """One message where a step cannot be run so, and what could."""
    parts = layout.dp * job.micro
    if job.batch % parts:
        raise InputError(
            f"train: batch {job.batch} does not divide over dp={layout.dp} x micro={job.micro}; multiples of {parts} do"
        )
    if job.interleaved > 1 and layout.pp == 1:
        raise InputError(f"interleaved={job.interleaved} splits the stages of a pipeline; with pp=1 there is one stage")
    most = architecture.depth // layout.pp
    if job.interleaved > 1 and job.interleaved > most:
        raise InputError(
            f"interleaved={job.interleaved} x pp={layout.pp} are more chunks than the {architecture.depth} layers of "
            f"{architecture.name}; interleaved can be at most {most}"
        )
    if formats.weights.startswith(INTEGER):
        raise InputError(f"weights are not trained in {formats.weights}: use bf16, fp16 or a float of 8 bits")


def predict_training(
    architecture: Architecture, machine: Machine | str | Path, job: Job, formats: Formats | None = None, layout: Layout | None = None,
    ceilings: str | None = None,
) -> TrainingPrediction:  # fmt: skip
    """A training step; what does not divide is said by the ops."""
    machine, formats, layout = as_machine(machine), formats or Formats(), layout or Layout()
    check_job(architecture, job, formats, layout)
    phase = train(job.batch, job.tokens, _microbatches(job, layout), job.recompute)
    stages = stage_ops(architecture, phase, formats, layout, routing="balanced")
    steps = predict_steps(stages, machine, ceilings, layout=layout, light=LIGHT, attention=job.attention)
    alike = distinct_stages(architecture, layout.pp).values()
    useful = sum(count * _useful(step) for count, step in zip(alike, steps, strict=True)) / layout.pp
    every = [TrainingPrediction(architecture, machine, formats, layout, job, step, useful, ceilings) for step in steps]
    return max(every, key=lambda made: made.time)


def _useful(step: StepPrediction) -> float:
    return float(total(np.asarray(item.flops) for item in step.ops if item.op.step_pass in (FORWARD, BACKWARD)))
