"""A model's prediction in a few lines, the answer first: what Python and the command line print for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...core.units import counted, percent, show, show_interval
from ...core.work import Array
from ...programs.models.layout import DEGREES, SHARD_WEIGHTS, Layout
from ...programs.models.phase import FULL
from .critical import WEIGHTS

if TYPE_CHECKING:
    from .choice import Choice
    from .result import ModelPrediction
    from .step import StepPrediction
    from .training import TrainingPrediction

MAX_OPS = 4  # that Python lists


def summary(prediction: ModelPrediction) -> str:
    lines = answer(prediction)
    for item in prediction.decode.rows[:MAX_OPS]:
        share = float(np.max(item.time)) / float(np.max(prediction.decode.time))
        lines.append(f"{item.name}: {show(float(np.max(item.time)), 's', 3)} of a decode step ({percent(share)})")
    return "\n  ".join(lines)


def answer(prediction: ModelPrediction) -> list[str]:
    """What a request sees, in one line; then the model, its phases and its memory."""
    memory, load = prediction.memory, prediction.load
    formats = prediction.formats
    stored = dict.fromkeys((formats.weights, formats.activations))
    model = f"{prediction.architecture.name}, {show(prediction.params)} parameters"
    if prediction.active_params != prediction.params:
        model += f", {show(prediction.active_params)} active"
    place = (
        f"{model}, {'/'.join(stored)}, cache {formats.kv}, on {layout_text(prediction)}, {prediction.software.title}"
    )
    what = f"prompt {counted_tokens(load.prompt)}, answer {counted_tokens(load.generate)}"
    what += f", {counted_sequences(load.batch)} at a time{' per replica' if prediction.layout.dp > 1 else ''}"
    held = [("weights", memory.weights), ("cache", memory.kv), ("activations", memory.activations)]
    parts = ", ".join(f"{name} {show(float(np.max(size)), 'B', 3)}" for name, size in held)
    return [
        headline(prediction),
        f"{place}; {what}",
        step_text("prefill", prediction.prefill, float(np.max(prediction.prefill_time)), prediction.devices),
        step_text("decode", prediction.decode, float(np.max(prediction.decode_time)), prediction.devices),
        f"memory  {parts}{capacity_text(prediction)}",
        *energy_lines(prediction),
        *prediction.notes,
    ]


def headline(prediction: ModelPrediction) -> str:
    """`TTFT 212 ms · TPOT 14.1 ms [12.9-15.8] · 567 tok/s/GPU · 61 % of memory · decode memory-bound to batch 210`."""
    serving = prediction.serving
    tpot = show_interval(float(serving.tpot), float(prediction.tpot_end("low")), float(prediction.tpot_end("high")))
    rate = f"{show(float(prediction.tokens_per_s))} tok/s"
    if prediction.devices > 1:
        rate += f", {show(float(prediction.tokens_per_s_per_device))} per device"
    parts = [
        f"TTFT {show(float(serving.ttft), 's', 3)}",
        f"TPOT {tpot}",
        rate,
        memory_text(prediction),
        regime_text(prediction),
    ]
    return " · ".join(part for part in parts if part)


def memory_text(prediction: ModelPrediction) -> str:
    """`61 % of memory`; what does not fit is said in the first line too."""
    share = prediction.memory.share
    if share is None:
        return ""
    return f"{'' if np.all(prediction.memory.fits) else 'does not fit: '}{percent(float(share))} of memory"


def capacity_text(prediction: ModelPrediction) -> str:
    capacity = prediction.memory.capacity
    if capacity is None:
        return f"; the memory of {prediction.machine.name} is not known"
    return f" of {show(capacity, 'B', 3)}; at most {counted(prediction.largest_batch or 0, 'sequence')}"


def regime_text(prediction: ModelPrediction) -> str:
    """What bounds decode now, and the batch from which on its products with weights are compute-bound."""
    bound = str(prediction.decode.bound)
    turns = next(row.batch for row in prediction.critical_batch if row.name == WEIGHTS)
    if bound != "memory":
        return f"decode {bound}-bound"
    if turns is None:
        return "decode memory-bound at any batch"
    return f"decode memory-bound, weight GEMMs compute-bound at batch >= {turns}"


def step_text(name: str, step: StepPrediction, time: float, devices: int) -> str:
    """A phase in a line; FLOPs and bytes are those of one device."""
    flops, moved = float(np.max(step.flops)), float(np.max(step.bytes))
    shares = {bound: float(np.max(spent)) for bound, spent in step.bound_times.items()}
    all_times = sum(shares.values()) or 1.0
    where = ", ".join(
        f"{percent(spent / all_times)} {bound}" for bound, spent in sorted(shares.items(), key=lambda pair: -pair[1])
    )
    floor = show(float(np.max(step.floor)), "s", 3)
    counts = (
        f"{show(flops, 'flop')}, {show(moved, 'B', 3)}{' per device' if devices > 1 else ''}, AI {show(flops / moved)}"
    )
    return f"{name:8}{show(time, 's', 3)} ({floor} at the roofline), {counts}; {where}"


def energy_lines(prediction: ModelPrediction) -> list[str]:
    joules, prompt = prediction.joules_per_token, prediction.joules_per_prompt
    if joules is None or prompt is None:
        return []
    each = f"{show(float(joules), 'J', 3)} per decoded token, {show(float(prompt), 'J', 3)} per prompt"
    return [f"energy  {each} ({prediction.energy_basis})"]


def layout_text(prediction: ModelPrediction) -> str:
    return devices_text(prediction.layout, prediction.machine.name)


def devices_text(layout: Layout, machine: str) -> str:
    """`8 x h200-sxm (tp=8)`."""
    degrees = degrees_text(layout)
    count = f"{layout.devices} x " if layout.devices > 1 else ""
    return f"{count}{machine}{f' ({degrees})' if degrees else ''}"


def degrees_text(layout: Layout) -> str:
    """`tp=4 pp=2`; empty for a single device."""
    return " ".join(f"{name}={value}" for name in DEGREES if (value := getattr(layout, name)) > 1)


def counted_tokens(tokens: Array) -> str:
    count = float(np.max(tokens))
    return f"{show(count)} token{'' if count == 1 else 's'}"


def counted_sequences(batch: Array) -> str:
    count = round(float(np.max(batch)))
    return f"{count:,} sequence{'' if count == 1 else 's'}"


def choice_answer(rows: Sequence[Choice]) -> list[str]:
    """The layout to take, in a line; or that none will do."""
    if not rows or rows[0].reason:
        return ["no layout meets this: `why not` has the reasons"]
    first = rows[0]
    degrees = " ".join(f"{name}={value}" for name in ("tp", "pp", "ep") if (value := getattr(first.layout, name)) > 1)
    cost = first.cost_per_million
    parts = [
        f"{first.devices} x {first.machine}{' ' + degrees if degrees else ''}, batch {first.batch}",
        f"TTFT {show(first.ttft, 's', 3)}",
        f"TPOT {show(first.tpot, 's', 3)}",
        f"{show(first.tokens_per_s)} tok/s, {show(first.tokens_per_s_per_device)} per device",
        "" if first.memory is None else f"{percent(first.memory)} of memory",
    ]
    return [" · ".join([*filter(None, parts), *([f"{cost:.3g} per million tokens"] if cost else [])])]


def training_answer(made: TrainingPrediction) -> list[str]:
    """The step and what it yields in one line; then where it goes and what bounds it from both sides."""
    rate = f"{show(made.tokens_per_s)} tok/s, {show(made.tokens_per_s_per_device)} per device"
    mfu = f"MFU {percent(made.mfu)}" if made.mfu is not None else "MFU not known"
    job = made.job
    parts = [f"{name} {show(getattr(made, name), 's', 3)}" for name in ("kernels", "exposed", "update")]
    waits = f"pipeline bubble {percent(made.bubble)}" if made.bubble else ""
    overlap = f"{show(made.best, 's', 3)} with all communication hidden, {show(made.worst, 's', 3)} with none"
    return [
        f"step {show(made.time, 's', 3)} [{overlap}] · {rate} · {mfu}",
        f"{made.architecture.name} on {devices_text(made.layout, made.machine.name)}; {counted(job.batch, 'sequence')} of {show(job.tokens)} tokens, "
        f"{counted(made.microbatches, 'microbatch', 'es')} of {job.micro} per replica, recompute {job.recompute}",
        "; ".join(part for part in (", ".join(parts).replace("exposed", "exposed communication"), waits) if part),
        training_memory(made),
        *too_long(made),
    ]


def too_long(made: TrainingPrediction) -> list[str]:
    longest = made.architecture.max_context
    if longest is None or made.job.tokens <= longest:
        return []
    return [f"sequences of {show(made.job.tokens)} tokens are longer than the context of the model, {show(longest)}"]


def training_memory(made: TrainingPrediction) -> str:
    held = ", ".join(f"{name} {show(size, 'B', 3)}" for name, size in made.memory.items())
    capacity, total = made.machine.main.capacity.value(), sum(made.memory.values())
    if not capacity:
        return f"memory per device: {held}"
    if made.fits:
        return f"memory per device: {held}; {percent(total / capacity)} of {show(capacity, 'B', 3)}"
    deeper = ["raise --shard, --tp or --pp" if made.layout.shard < SHARD_WEIGHTS else "raise --tp or --pp"]
    fixes = ", or ".join(deeper + ["recompute"] * (made.job.recompute != FULL))
    return f"does not fit: needs {show(total, 'B', 3)} per device ({held}), {made.machine.name} has {show(capacity, 'B', 3)}: {fixes}"
