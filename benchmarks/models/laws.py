"""Laws of models at scale, checked on random questions: any model of the list on any machine of the catalog.

    python benchmarks/models/laws.py [--cases N] [--seed S] [--show N]

Kernels for few rows and for many are timed apart: where a larger size switches to a faster kernel and a time falls by no more than its
80 % interval, that is counted apart. Chunked attention forgets its chunk at every boundary, so that longer contexts are left out there.

A case is a model on a machine with formats, a layout, software and one load; with every second question comes a training step.
Counted are violations of

    order        floor <= low <= time <= high of prefill, decode and TPOT; a training step lies between perfect overlap and none
    batch        more sequences never shorten a step, TTFT, TPOT or the stay of a request
    prompt       longer prompts never shorten prefill, a decode step of as many sequences, TTFT or the stay
    generate     longer answers never shorten a decode step of as many sequences, or the stay
    fewer run    where the memory lets fewer sequences run at a time, no stay gets shorter by more than the interval
    layers       another layer never shortens anything
    chunks       a longer chunk, a longer context or more sequences in a step never shorten it
    single       flags of degrees of 1, links, and replicas of a model without experts change no digit of the single device
    arrays       a load among others is predicted as it is alone
    parts        ops and bounds sum to the step, stages to the model; devices together do no less than one
    weights      decoding at batch 1 takes at least as long as the weights in use take through the stated bandwidth
    memory       parts sum; fits exactly up to the largest batch; what does not fit says so
    graph        replaying a graph never slows
    draft        verifying more tokens never shortens a step; more accepted ones never lengthen TPOT
    training     more sequences, tokens (of equal alignment), layers or recomputation never shorten a step; memory grows
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from questions import LOADS, Question, Source, TrainingQuestion

from ridgeline.core.dtypes import dtype
from ridgeline.core.errors import RidgelineError
from ridgeline.core.work import total
from ridgeline.prediction.models.memory import device_cache, device_weights, step_activations
from ridgeline.prediction.models.result import ModelPrediction, step_rows
from ridgeline.prediction.models.speculative import verify_time
from ridgeline.prediction.models.step import StepPrediction, longest_step, predict_steps
from ridgeline.prediction.models.training import TrainingPrediction, predict_training
from ridgeline.programs.models.architecture import Architecture, Experts
from ridgeline.programs.models.layout import Layout
from ridgeline.programs.models.parameters import weight_bytes
from ridgeline.programs.models.phase import DECODE, PREFILL, Phase, decode, mixed, prefill
from ridgeline.programs.models.program import COMMUNICATION, stage_ops, step_ops

ROUNDING = 1e-9
ALIGNMENT = 64  # of tokens that gradients of weights are summed over: other numbers take slower kernels
TRAINING_EVERY = 2  # questions


@dataclass
class Count:
    """Checks and violations by law, with the worst cases."""

    cases: int = 0
    checks: Counter[str] = field(default_factory=Counter)
    violations: Counter[str] = field(default_factory=Counter)
    switches: Counter[str] = field(default_factory=Counter)  # to faster kernels as sizes grow, within the interval
    largest_switch: float = 0.0
    worst: dict[str, list[tuple[float, str]]] = field(default_factory=dict)

    def no_less(
        self, law: str, name: str, larger: Any, smaller: Any, text: Callable[[int], str], near: StepPrediction | None = None
    ) -> None:  # fmt: skip
        """larger >= smaller, rounding aside; a fall within the 80 % interval of the step `near` is counted apart."""
        larger, smaller = np.broadcast_arrays(np.asarray(larger, dtype=np.float64), np.asarray(smaller, dtype=np.float64))  # fmt: skip
        valid, fall = larger >= smaller * (1 - ROUNDING), 1 - larger / np.maximum(smaller, 1e-300)
        if near is not None and not np.all(valid):
            inside = ~valid & (fall <= np.asarray((near.end("high") - near.end("low")) / near.time))
            self.switches[law] += int(np.sum(inside))
            self.largest_switch = max(self.largest_switch, float(np.max(np.where(inside, fall, 0.0))))
            valid = valid | inside
        self.holds(law, name, valid, fall, text)

    def equal(self, law: str, name: str, one: Any, other: Any, text: Callable[[int], str], rel: float = 0.0) -> None:
        one, other = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
        by = np.abs(one / np.where(other == 0, 1.0, other) - 1)
        self.holds(law, name, (one == other) | (by <= rel), by, text)

    def holds(self, law: str, name: str, valid: Any, by: Any, text: Callable[[int], str]) -> None:
        valid = np.atleast_1d(np.asarray(valid))
        self.checks[law] += valid.size
        failed = np.flatnonzero(~valid)
        if not len(failed):
            return
        self.violations[law] += len(failed)
        by = np.broadcast_to(np.atleast_1d(by), valid.shape)
        place = int(failed[np.argmax(np.abs(by[failed]))])
        self.worst.setdefault(law, []).append((float(by[place]), f"{name}: {text(place)}"))


def stay(made: ModelPrediction) -> Any:
    """Seconds from the arrival of a request to its last token."""
    return made.serving.ttft + np.maximum(np.asarray(made.load.generate) - 1, 0) * made.serving.tpot


def check_order(count: Count, asked: Question, made: ModelPrediction) -> None:
    for name, step in (("prefill", made.prefill), ("decode", made.decode)):
        low, high = step.end("low"), step.end("high")
        count.holds("order", name, np.isfinite(step.time) & (np.asarray(step.time) > 0), 1.0, asked.text)
        for larger, smaller in ((low, step.floor), (step.time, low), (high, step.time)):
            count.no_less("order", name, larger, smaller, asked.text)
    for larger, smaller in ((made.tpot_ms, made.tpot_low_ms), (made.tpot_high_ms, made.tpot_ms)):
        count.no_less("order", "TPOT", larger, smaller, asked.text)
    count.no_less("order", "TPOT over floor", made.serving.tpot, made.decode.floor, asked.text)
    count.no_less("order", "TTFT over floor", made.serving.ttft, made.prefill.floor, asked.text)


def check_loads(count: Count, asked: Question, made: ModelPrediction, source: Source) -> None:
    """One size of the load grown at a time."""
    for law in ("batch", "prompt", "generate"):
        load = replace(asked.load, **{law: source.grown(np.asarray(getattr(asked.load, law)))})
        grown = asked.predict(load=load)

        def text(place: int, law: str = law, load: Any = load) -> str:
            return f"{asked.text(place)} -> {law}={float(getattr(load, law)[place]):g}"

        if law == "prompt":
            count.no_less(law, "prefill", grown.prefill_time, made.prefill_time, text, made.prefill)
        if law == "batch":
            count.no_less(law, "TPOT", grown.serving.tpot, made.serving.tpot, text, made.decode)
            count.no_less(law, "TTFT", grown.serving.ttft, made.serving.ttft, text, made.prefill)
        check_served(count, law, made, grown, text, fewer=law != "batch")


def check_served(
    count: Count,
    law: str,
    made: ModelPrediction,
    grown: ModelPrediction,
    text: Callable[[int], str],
    fewer: bool = True,
) -> None:
    """Decode steps and stays. Where the memory lets fewer sequences run a step has fewer of them; and as kernels take steps with the
    number of rows, it may take so much less that the stay gets shorter, by no more than the interval. A plan of which not one sequence
    fits is compared with another such plan only."""
    same = np.asarray(made.running) == np.asarray(grown.running)
    possible = _possible(made) == _possible(grown)
    if law in ("prompt", "generate") and is_chunked(made.architecture):
        return
    strict = possible & (same | (not fewer))
    count.no_less(law, "decode step", np.where(strict, grown.decode_time, np.inf), made.decode_time, text, made.decode)
    count.no_less(law, "stay", np.where(strict, stay(grown), np.inf), stay(made), text, made.decode)
    if law == "prompt":
        count.no_less(law, "TTFT", np.where(strict, grown.serving.ttft, np.inf), made.serving.ttft, text, made.prefill)
    waiting = np.where(possible & ~strict, stay(grown), np.inf)
    count.no_less("fewer run", f"stay, {law}", waiting, stay(made), text, made.decode)


def is_chunked(architecture: Architecture) -> bool:
    return any(getattr(layer.attention, "chunked", False) for layer in architecture.layers)


def _possible(made: ModelPrediction) -> Any:
    """Whether one sequence fits."""
    plan = made.memory
    held = np.asarray(made.load.prompt) + made.software.reserve * np.asarray(made.load.generate)
    fixed = step_activations(made.architecture, step_rows(made.software, made.load), 1.0, made.formats, made.layout)
    cache = device_cache(made.architecture, held, made.formats, made.layout)
    needs = plan.weights + cache + fixed
    return np.ones(np.shape(needs), dtype=bool) if plan.usable is None else np.asarray(needs <= plan.usable)


def deeper(architecture: Architecture, source: Source) -> Architecture:
    """With another layer of one of its kinds."""
    layers = list(architecture.layers)
    place = int(source.random.integers(len(layers)))
    layers[place] = replace(layers[place], count=layers[place].count + 1)
    return replace(architecture, layers=tuple(layers))


def check_layers(count: Count, asked: Question, made: ModelPrediction, source: Source) -> None:
    """Another layer; of several kinds in a pipeline it would move others between stages, so that those are left out."""
    if asked.layout.pp > 1 and len(asked.architecture.layers) > 1:
        return
    grown = asked.predict(architecture=deeper(asked.architecture, source))
    count.no_less("layers", "prefill", grown.prefill_time, made.prefill_time, asked.text, made.prefill)
    check_served(count, "layers", made, grown, asked.text)


def check_chunks(count: Count, asked: Question, made: ModelPrediction, source: Source) -> None:
    """Steps of a chunked prefill, alone and with sequences that decode."""
    layout, replicas = asked.layout, float(asked.layout.dp)

    def timed(phase: Phase) -> StepPrediction:
        stages = stage_ops(asked.architecture, phase, asked.formats, layout)
        steps = predict_steps(stages, asked.machine, None, False, layout, made.software.light)
        return longest_step(steps, [step.time for step in steps])

    tokens, context, batch = source.sizes(0, 13), source.sizes(0, 15), source.sizes(0, 8)
    chunk, decoding = prefill(replicas, tokens, context), decode(batch * replicas, context)
    base = timed(chunk)
    for name, phase in (
        ("tokens", prefill(replicas, source.grown(tokens), context)),
        ("context", prefill(replicas, tokens, source.grown(context))),
        ("prompts", prefill(2 * replicas, tokens, context)),
        ("mixed", mixed(chunk, decoding)),
    ):

        def text(place: int, name: str = name, phase: Phase = phase) -> str:
            sizes = f"{tokens[place]:g} tokens after {context[place]:g}"
            grown = ", ".join(f"{part.kind} {np.broadcast_to(part.batch, LOADS)[place]:g} x {np.broadcast_to(part.tokens, LOADS)[place]:g} after {np.broadcast_to(part.context, LOADS)[place]:g}" for part in phase.groups)  # fmt: skip
            return f"{asked.text(place)} [{sizes} -> {grown}]"

        if name == "context" and is_chunked(asked.architecture):
            continue
        count.no_less("chunks", name, timed(phase).time, base.time, text, base)


def check_single(count: Count, asked: Question) -> None:
    """What a single device must not depend on."""
    alone = replace(asked, layout=Layout())
    base = alone.predict()
    others = {
        "flags": alone.predict(layout=Layout(sequence=True, ring=False)),
        "no links": alone.predict(machine=replace(asked.machine, links=())),
    }
    if not any(isinstance(layer.mlp, Experts) for layer in asked.architecture.layers):
        others["replicas"] = alone.predict(layout=Layout(dp=3))
    for name, other in others.items():
        for figure in ("ttft_ms", "tpot_ms", "prefill_time", "decode_time", "tokens_per_s_per_device"):
            rel = 1e-15 * (figure == "tokens_per_s_per_device")  # three times a rate, over three
            count.equal("single", f"{name}, {figure}", getattr(other, figure), getattr(base, figure), alone.text, rel * 2)  # fmt: skip
        count.equal("single", f"{name}, memory", other.memory.total, base.memory.total, alone.text)


def check_arrays(count: Count, asked: Question, made: ModelPrediction, source: Source) -> None:
    place = int(source.random.integers(LOADS))
    sizes = {name: float(getattr(asked.load, name)[place]) for name in ("batch", "prompt", "generate")}
    alone = asked.predict(load=replace(asked.load, **sizes))
    for figure in ("ttft_ms", "tpot_ms", "tokens_per_s", "prefill_time", "decode_time"):
        among = np.broadcast_to(getattr(made, figure), LOADS)[place]
        count.equal("arrays", figure, getattr(alone, figure), among, lambda _: asked.text(place), 1e-12)


def check_parts(count: Count, asked: Question, made: ModelPrediction) -> None:
    for name, step in (("prefill", made.prefill), ("decode", made.decode)):
        listed = total(item.time for item in step.ops)
        count.equal("parts", f"{name} rows", total(row.time for row in step.rows), listed, asked.text, ROUNDING)
        count.equal("parts", f"{name} bounds", total(step.bound_times.values()), listed, asked.text, ROUNDING)
        shown = np.maximum(np.asarray(listed) - step.spared, step.floor)
        count.equal("parts", f"{name} total", step.time, shown, asked.text, ROUNDING)
        of_ops = total(item.floor for item in step.ops)
        count.equal("parts", f"{name} floor", step.floor, of_ops, asked.text, ROUNDING)
    layout, architecture = asked.layout, asked.architecture
    decoding = Phase(DECODE, np.asarray(asked.load.batch) * layout.dp, 1.0, asked.load.context)
    for phase in (decoding, Phase(PREFILL, float(layout.dp), asked.load.prompt)):
        staged = [step_ops(architecture, phase, asked.formats, layout, stage=stage) for stage in range(layout.pp)]
        unpiped = step_ops(architecture, phase, asked.formats, replace(layout, pp=1))
        alone = step_ops(architecture, phase, asked.formats)
        for name in ("flops", "bytes"):
            summed = total(_amount(ops, name) for ops in staged)
            count.equal("parts", f"{phase.kind} {name} of stages", summed, _amount(unpiped, name), asked.text, ROUNDING)
            together = _amount(unpiped, name) * (layout.devices // layout.pp)
            count.no_less("parts", f"{phase.kind} {name} of devices", together, _amount(alone, name), asked.text)


def _amount(ops: Any, name: str) -> Any:
    return total(np.asarray(getattr(op, name)) for op in ops if op.part != COMMUNICATION)


def check_weights(count: Count, asked: Question) -> None:
    """Weights that a token uses, over the stated bandwidth of the devices that share them."""
    layout = asked.layout
    made = asked.predict(load=replace(asked.load, batch=np.ones(LOADS)))
    architecture, formats = asked.architecture, asked.formats
    stored, wide = dtype(formats.weights).bytes, dtype(formats.values).bytes
    read = 0.0
    for layer in architecture.layers:
        mlp, heads = layer.mlp, layer.attention
        products = 0.0
        if hasattr(heads, "q_width") and "attention" not in architecture.unquantized:
            products += architecture.hidden * 2 * (heads.q_width + heads.kv_width)
        if isinstance(mlp, Experts):
            products += (2 + mlp.gated) * architecture.hidden * (mlp.topk * mlp.inter + mlp.shared)
        else:
            products += (2 + mlp.gated) * architecture.hidden * mlp.inter
        read += layer.count * products * stored
    read += (architecture.embedding_width or architecture.hidden) * architecture.vocab * wide * architecture.head
    bandwidth = asked.machine.bandwidth("main", "stated").value
    least = read / (max(layout.tp, layout.ep) * bandwidth)
    count.no_less("weights", "decode step", made.decode_time, least, asked.text)
    count.no_less("weights", "TPOT", made.serving.tpot, least, asked.text)
    count.no_less("weights", "low", np.asarray(made.tpot_low_ms) / 1e3, least, asked.text)


def check_memory(count: Count, asked: Question, made: ModelPrediction, source: Source) -> None:
    plan = made.memory
    parts = plan.weights + plan.kv + plan.activations
    count.equal("memory", "parts", plan.total, parts, asked.text)
    if plan.usable is None:
        return
    count.holds("memory", "fits", np.asarray(plan.fits) == (np.asarray(parts) <= plan.usable), 1.0, asked.text)
    place = int(source.random.integers(LOADS))

    def text(_: int) -> str:
        return asked.text(place)

    sizes = {name: float(getattr(asked.load, name)[place]) for name in ("batch", "prompt", "generate")}
    alone = asked.predict(load=replace(asked.load, **sizes))
    said = any(note.startswith("does not fit") for note in alone.notes)
    count.holds("memory", "says that it does not fit", said != bool(alone.memory.fits), 1.0, text)
    most = alone.largest_batch or 0
    if most:
        count.holds("memory", "largest batch fits", bool(alone.with_load(batch=float(most)).memory.fits), 1.0, text)
    over = alone.with_load(batch=float(most + 1))
    count.holds("memory", "one more does not", not bool(over.memory.fits), 1.0, text)
    weights = weight_bytes(asked.architecture, asked.formats.weights, asked.formats.values)
    count.no_less("memory", "weights of all devices", plan.weights * asked.layout.devices * 1.001, weights, text)
    single = device_weights(asked.architecture, asked.formats, Layout())
    count.equal("memory", "weights of a single device", single, weights, text, 1e-3)
    grown = asked.predict(load=replace(asked.load, prompt=source.grown(np.asarray(asked.load.prompt))))
    count.no_less("memory", "longer prompts", grown.memory.total, plan.total, asked.text)


def check_graph(count: Count, asked: Question, made: ModelPrediction) -> None:
    without = StepPrediction(made.machine, made.decode.ops, graph=False)
    with_graph = StepPrediction(made.machine, made.decode.ops, graph=True)
    count.no_less("graph", "decode", without.time, with_graph.time, asked.text)
    count.no_less("graph", "floor", with_graph.time, with_graph.floor, asked.text)


def check_draft(count: Count, asked: Question, made: ModelPrediction) -> None:
    times = [made.decode_time, *(verify_time(made, drafted) for drafted in (1, 3, 7))]
    for before, after in pairwise(times):
        count.no_less("draft", "verification", after, before, asked.text, made.decode)


def grown_jobs(asked: TrainingQuestion, source: Source) -> Iterator[tuple[str, TrainingQuestion]]:
    job = asked.job
    group = asked.layout.dp * job.micro
    yield "sequences", replace(asked, job=replace(job, batch=job.batch + group * int(source.random.integers(1, 9))))
    more = int(np.ceil(job.tokens * np.exp2(source.random.uniform(-10, 1)) / ALIGNMENT)) * ALIGNMENT
    yield "tokens", replace(asked, job=replace(job, tokens=job.tokens + more))
    if asked.layout.pp == 1 or len(asked.architecture.layers) == 1:
        yield "layers", replace(asked, architecture=deeper(asked.architecture, source))
    if job.recompute != "full":
        yield "recomputation", replace(asked, job=replace(job, recompute="full"))


def check_training(count: Count, asked: TrainingQuestion, source: Source) -> None:
    def predicted(question: TrainingQuestion) -> TrainingPrediction:
        return predict_training(
            question.architecture, question.machine, question.job, question.formats, question.layout
        )

    made = predicted(asked)
    for larger, smaller in ((made.time, made.best), (made.worst, made.time), (made.best, float(made.step.floor) * 0)):
        count.no_less("order", "training step", larger, smaller, asked.text)
    kernels = total(item.floor for item in made.step.ops if item.op.part != COMMUNICATION)
    count.no_less("order", "training step over floor", made.time, kernels, asked.text)
    count.equal("parts", "training rows", total(row.time for row in made.step.rows), made.step.time, asked.text, ROUNDING)  # fmt: skip
    capacity = asked.machine.main.capacity.value()
    if capacity:
        fits = sum(made.memory.values()) <= capacity
        count.holds("memory", "training fits", fits == made.fits, 1.0, asked.text)
    for name, question in grown_jobs(asked, source):
        grown = predicted(question)
        count.no_less("training", name, grown.time, made.time, question.text)
        if name in ("tokens", "layers"):
            count.no_less("training", f"memory, {name}", sum(grown.memory.values()), sum(made.memory.values()), question.text)  # fmt: skip


def check(count: Count, asked: Question, source: Source) -> None:
    made = asked.predict()
    check_order(count, asked, made)
    check_loads(count, asked, made, source)
    check_layers(count, asked, made, source)
    check_chunks(count, asked, made, source)
    check_single(count, asked)
    check_arrays(count, asked, made, source)
    check_parts(count, asked, made)
    check_weights(count, asked)
    check_memory(count, asked, made, source)
    check_graph(count, asked, made)
    check_draft(count, asked, made)


def run(cases: int, seed: int) -> tuple[Count, Counter[str]]:
    source, count, refused, questions = Source(seed), Count(), Counter[str](), 0
    while count.cases < cases:
        questions += 1
        asked = source.ask()
        try:
            check(count, asked, source)
            count.cases += LOADS
            if questions % TRAINING_EVERY == 0:
                check_training(count, source.ask_training(), source)
                count.cases += 1
        except RidgelineError as error:  # a format that the machine does not compute in, a machine without links
            refused[type(error).__name__] += 1
    return count, refused


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5, help="worst cases of a law")
    options = parser.parse_args()
    count, refused = run(options.cases, options.seed)
    for law, checks in count.checks.items():
        print(
            f"{law:10s} {checks:10,} checks {count.violations[law]:8,} violations {count.switches[law]:8,} within the interval"
        )
        for by, text in sorted(count.worst.get(law, []), key=lambda row: -abs(row[0]))[: options.show]:
            print(f"    {by:8.3g}  {text}")
    found = sum(count.violations.values())
    print(f"within the interval: by {count.largest_switch:.1%} at most")
    print(f"{count.cases:,} cases, {sum(count.checks.values()):,} checks, {found:,} violations; questions refused: {dict(refused)}")  # fmt: skip
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
