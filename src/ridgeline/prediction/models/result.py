"""ModelPrediction: prefill and decode of a model on a machine, what a request sees, and what the memory holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.cached import cached_property
from ...core.dtypes import dtype as dtype_row
from ...core.errors import InputError
from ...core.machine import Machine
from ...core.units import counted, percent, show
from ...core.work import Array
from ...machines.load import as_machine
from ...programs.models.architecture import Architecture
from ...programs.models.layout import Layout
from ...programs.models.parameters import Parameters, parameters
from ...programs.models.phase import DECODE, NARROW_BITS, PREFILL, Formats, Phase
from ...programs.models.program import ModelOp, stage_ops, step_ops
from ...programs.models.quantized import PUBLISHED
from .critical import CriticalBatch, critical_batches
from .energy import StepEnergy, least_time, step_energy
from .memory import MemoryPlan, largest_batch, memory_plan, running_batch
from .serving import Serving, serve
from .software import Software, software_named
from .step import StepPrediction, longest_step, mixed_step, predict_steps

HOUR, MILLION = 3600.0, 1e6
MIN_SLOWDOWN = 0.01  # by the power limit, from which it is worth a note


@dataclass(frozen=True)
class Load:
    """What is asked of a model: so many sequences at a time, prompts and answers of so many tokens."""

    batch: Array = 1.0
    prompt: Array = 2048.0
    generate: Array = 256.0
    static: bool = False  # all prompts first, then all answers, instead of continuous batching

    @property
    def context(self) -> Array:
        """Tokens of a sequence halfway through its answer."""
        return np.asarray(self.prompt) + np.asarray(self.generate) / 2

    @property
    def longest(self) -> Array:
        return np.asarray(self.prompt) + self.generate


@dataclass(frozen=True, repr=False)
class ModelPrediction:
    architecture: Architecture
    machine: Machine
    formats: Formats
    layout: Layout
    software: Software
    load: Load
    prefill: StepPrediction  # of one prompt
    decode: StepPrediction  # of all sequences that a stage works on at a time, halfway through their answers
    running: Array  # sequences that the memory lets run at a time
    ceilings: str | None = None

    DOCUMENT: ClassVar = (
        "model=architecture.name", "machine=machine.name", "params", "active_params", "formats", "layout", "devices", "software=software.name",
        "batch=load.batch", "prompt=load.prompt", "generate=load.generate", "memory", "largest_batch", "prefill=prefill_document",
        "decode=decode_document", "running", "memory_wait_ms", "ttft_ms", "tpot_ms", "tpot_low_ms", "tpot_high_ms", "tokens_per_s", "tokens_per_s_per_device",
        "joules_per_token", "joules_per_prompt", "energy_basis", "critical_batch", "notes",
    )  # fmt: skip

    def __repr__(self) -> str:
        from .summary import summary  # which reads predictions itself

        return summary(self)

    # -- what a request sees -------------------------------------------------------------------------------------

    @cached_property
    def serving(self) -> Serving:
        return serve(self.software, self.prefill_time, self.decode_time, self.load, self.layout.pp, self.running)

    @property
    def decode_time(self) -> Array:
        """Seconds of a step that gives every sequence a token: all stages, and the host work that nothing hides.

        With pp stages the sequences are pp groups that follow each other, one in every stage: a group is back at the first stage
        when all stages have worked on it, and meanwhile every stage has worked on every group.
        """
        return powered(self.decode) * self.layout.pp + self.software.host(self.running)

    @property
    def prefill_time(self) -> Array:
        """Seconds of one prompt, alone."""
        return powered(self.prefill) * self.layout.pp + self.software.host(1.0)

    @property
    def ttft_ms(self) -> Array:
        return self.serving.ttft * 1e3

    @property
    def memory_wait_ms(self) -> Array:
        return self.serving.memory_wait * 1e3

    @property
    def tpot_ms(self) -> Array:
        return self.serving.tpot * 1e3

    def tpot_end(self, end: str) -> Array:
        """An end of the 80 % interval of TPOT, in seconds: that of the kernels, the rest as it is."""
        return self.serving.tpot + (self.decode.end(end) - self.decode.time) * self.layout.pp

    @property
    def tpot_low_ms(self) -> Array:
        return self.tpot_end("low") * 1e3

    @property
    def tpot_high_ms(self) -> Array:
        return self.tpot_end("high") * 1e3

    @property
    def tokens_per_s(self) -> Array:
        """Of all replicas."""
        return self.serving.tokens_per_s * self.layout.dp

    @property
    def tokens_per_s_per_device(self) -> Array:
        return self.tokens_per_s / self.devices

    def cost(self, price: float) -> Array:
        """Of a million generated tokens, at a price per device and hour."""
        return price * self.devices / HOUR / self.tokens_per_s * MILLION

    # -- the model and its memory --------------------------------------------------------------------------------

    @cached_property
    def parameters(self) -> Parameters:
        return parameters(self.architecture)

    @property
    def params(self) -> int:
        return self.parameters.total

    @property
    def active_params(self) -> int:
        return self.parameters.active

    @property
    def devices(self) -> int:
        return self.layout.devices

    @cached_property
    def memory(self) -> MemoryPlan:
        placed = (self.architecture, self.machine, self.formats, self.layout, self.software)
        return memory_plan(*placed, self.load.batch, self.load.longest, step_rows(self.software, self.load))

    @cached_property
    def largest_batch(self) -> int | None:
        """Sequences of full length that fit at once, per replica."""
        placed = (self.architecture, self.machine, self.formats, self.layout, self.software)
        return largest_batch(
            *placed, float(np.max(self.load.longest)), float(np.max(step_rows(self.software, self.load)))
        )

    # -- energy --------------------------------------------------------------------------------------------------

    @cached_property
    def decode_energy(self) -> StepEnergy | None:
        """Of one stage, working on one of its groups of sequences."""
        return step_energy(self.decode, self.decode_time / self._groups)

    @property
    def _groups(self) -> Array:
        """Groups of sequences that decoding passes through the pipeline."""
        return np.minimum(float(self.layout.pp), self.running)

    @property
    def joules_per_token(self) -> Array | None:
        """Of one generated token, all devices of a replica together, prompts left out."""
        if self.decode_energy is None:
            return None
        joules = self.decode_energy.joules * self._groups
        return joules * (self.devices / self.layout.dp) / np.asarray(self.running)

    @property
    def joules_per_prompt(self) -> Array | None:
        """Of one prompt, all devices of a replica together."""
        energy = step_energy(self.prefill, self.prefill_time / self.layout.pp)
        return None if energy is None else energy.joules * (self.devices / self.layout.dp)

    @property
    def energy_basis(self) -> str:
        return "" if self.decode_energy is None else self.decode_energy.basis

    # -- regimes -------------------------------------------------------------------------------------------------

    @cached_property
    def critical_batch(self) -> tuple[CriticalBatch, ...]:
        """Batches from which on decode is compute-bound: of the step, then of each op with matrix products."""
        context = float(np.max(self.load.context))

        def ops_at(batches: NDArray[np.float64]) -> tuple[ModelOp, ...]:
            phase = Phase(DECODE, in_stage(batches, self.layout) * self.layout.dp, 1.0, context)
            return step_ops(self.architecture, phase, self.formats, self.layout)

        return critical_batches(ops_at, self.machine, self.ceilings)

    def step_document(self, step: StepPrediction, time: Array) -> dict[str, Any]:
        return {
            "flops": step.flops, "bytes": step.bytes, "intensity": step.flops / step.bytes, "bound": step.bound, "floor_ms": step.floor * 1e3,
            "time_ms": time * 1e3, "device_ms": step.time * 1e3, "communication_ms": step.communication * 1e3, "overhead_ms": (time - step.time * self.layout.pp) * 1e3,
            "ops": step.rows,
        }  # fmt: skip

    @property
    def prefill_document(self) -> dict[str, Any]:
        return self.step_document(self.prefill, self.prefill_time)

    @property
    def decode_document(self) -> dict[str, Any]:
        return self.step_document(self.decode, self.decode_time)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What does not fit and what would, what the architecture's reader left out, what the times rest on."""
        from .narrow import narrow_note  # which predicts steps itself

        notes = [*narrow_note(self), *self.architecture.notes]
        published, weights = self.architecture.weights, self.formats.weights
        if dtype_row(published).bits < min(dtype_row(weights).bits, NARROW_BITS):
            ask = f"the published ones are stored in {published}: ask for weights {published}"
            notes = [note for note in notes if not note.startswith(PUBLISHED)]  # which the new one says as well
            notes.insert(0, f"predicted with {weights} weights; {ask}")
        if not np.all(self.memory.fits):
            notes.insert(0, self._memory_note)
        longest, trained = float(np.max(self.load.longest)), self.architecture.max_context
        if trained is not None and longest > trained:
            notes.append(
                f"sequences of {show(longest)} tokens are longer than the context of the model, {show(trained)}"
            )
        for name, step in (("prefill", self.prefill), ("decode", self.decode)):
            longer = float(np.max(powered(step) / step.time)) - 1
            if longer > MIN_SLOWDOWN:
                notes.append(f"{name} is power-limited: it takes {percent(longer)} longer than the sum of its kernels")
        return tuple(dict.fromkeys(notes))

    @property
    def _memory_note(self) -> str:
        """What does not fit, what would, and what that means for requests."""
        needs, has = show(float(np.max(self.memory.total)), "B", 3), show(self.memory.usable or 0.0, "B", 3)
        note = f"does not fit: needs {needs} per device, {has} are usable"
        if not self.largest_batch:
            alone = self.memory.weights > (self.memory.usable or 0.0)
            what = "the weights alone do not" if alone else "not even one sequence of this length does"
            return f"{note}; {what}: raise --tp or --pp, or quantize{'' if alone else ' the cache'}"
        note += f"; at most {counted(self.largest_batch, 'sequence')} {'fits' if self.largest_batch == 1 else 'fit'}"
        asked, runs = float(np.max(self.load.batch)), float(np.max(self.running))
        if runs == asked:
            return f"{note} at full length, all while their answers grow"
        longest = show(float(np.max(self.serving.memory_wait)), "s", 3)
        times = "TTFT and TPOT include" if self.software.reserve < 1 else "TTFT includes"
        return f"{note} at full length: {runs:g} of {asked:g} run at a time, {times} {longest} per request of waiting for memory"

    def with_load(self, **changes: Any) -> ModelPrediction:
        """The same model, machine and layout under another load."""
        return _predicted(
            self.architecture, self.machine, self.formats, self.layout, self.software, replace(self.load, **changes), self.ceilings
        )  # fmt: skip


def step_rows(software: Software, load: Load) -> Array:
    """Tokens of the largest step."""
    return np.minimum(load.prompt, software.chunk) if software.chunk else np.asarray(load.prompt)


def in_stage(batch: Array, layout: Layout) -> Array:
    """Sequences that a stage of a pipeline decodes at a time at most: the largest of pp groups."""
    return np.ceil(np.asarray(batch, dtype=np.float64) / layout.pp)


def powered(step: StepPrediction) -> Array:
    """Seconds of the device in steps that follow each other: no less than the power limit allows."""
    return np.maximum(step.time, least_time(step))


def predict_model(
    architecture: Architecture,
    machine: Machine | str | Path,
    load: Load | None = None,
    formats: Formats | None = None,
    layout: Layout | None = None,
    software: str | None = None,
    ceilings: str | None = None,
) -> ModelPrediction:
    """Prefill and decode of a model; sizes of the load may be arrays, which give arrays."""
    runs = software_named(software)
    return _predicted(
        architecture, as_machine(machine), formats or Formats(), layout or Layout(), runs, load or Load(), ceilings
    )


def _predicted(
    architecture: Architecture, machine: Machine, formats: Formats, layout: Layout, software: Software, load: Load, ceilings: str | None
) -> ModelPrediction:  # fmt: skip
    if not architecture.causal:
        raise InputError(
            f"{architecture.name} is an encoder, which is not served token by token; predict a forward pass of it with "
            "`ridgeline trace`"
        )
    held = np.asarray(load.prompt) + software.reserve * np.asarray(load.generate)
    running = running_batch(
        architecture, machine, formats, layout, software, load.batch, held, step_rows(software, load)
    )
    prompt = Phase(
        PREFILL, float(layout.dp), load.prompt
    )  # phases count the sequences of all replicas, a load those of one
    prefill = busiest_step(architecture, machine, formats, layout, software, prompt, ceilings)
    decode = decode_step(architecture, machine, formats, layout, software, running, load.context, ceilings)
    return ModelPrediction(architecture, machine, formats, layout, software, load, prefill, decode, running, ceilings)


def busiest_step(
    architecture: Architecture, machine: Machine, formats: Formats, layout: Layout, software: Software, phase: Phase, ceilings: str | None
) -> StepPrediction:  # fmt: skip
    """The step of the stage that takes longest."""
    graph = software.graph and phase.kind == DECODE
    stages = stage_ops(architecture, phase, formats, layout)
    steps = predict_steps(stages, machine, ceilings, graph, layout, software.light, experts=software.experts)
    return steps[0] if len(steps) == 1 else longest_step(steps, [powered(step) for step in steps])


def decode_step(
    architecture: Architecture, machine: Machine, formats: Formats, layout: Layout, software: Software, running: Array, context: Array,
    ceilings: str | None = None, tokens: Array = 1.0,
) -> StepPrediction:  # fmt: skip
    """A stage working on one of the pp groups of the running sequences: the mean over groups, that differ by one sequence at most."""

    def of_group(sequences: Array) -> StepPrediction:
        phase = Phase(DECODE, sequences * layout.dp, tokens, context)
        return busiest_step(architecture, machine, formats, layout, software, phase, ceilings)

    larger = in_stage(running, layout)
    smaller = np.maximum(np.floor(np.asarray(running) / layout.pp), 1.0)
    if np.all(larger == smaller):
        return of_group(larger)
    share = np.where(larger == smaller, 1.0, np.asarray(running) / layout.pp - smaller)  # of groups with one more
    return mixed_step([(of_group(larger), share), (of_group(smaller), 1 - share)])
