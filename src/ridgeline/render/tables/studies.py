"""Answers and tables of studies: kernels, tiles, regimes, batches, machines compared, priced changes, errors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.bound import bound_words
from ...core.documents import to_document
from ...core.machine import Machine
from ...core.units import counted, enumerated, show
from ...core.units import percent as share_text
from ...prediction import whatif
from ...prediction.answer_line import LATENCY, sides
from ...prediction.basis import QUANTIZING
from ...prediction.ceilings import usable_dtype
from ...prediction.compare import Comparison
from ...prediction.host import launch_latency
from ...prediction.kernel_sets import Entry, KernelSet, kernel_name
from ...prediction.locality import Tiling
from ...prediction.score import Evaluation
from ...prediction.studies import published
from ...prediction.turning import CriticalBatch
from ..table import Column, Table, columns, facts_table, microseconds, percent

US = (microseconds("floor_us", "floor"), microseconds("time_us", "time"))
INTENSITY = Column("intensity", "AI FLOP/B")
# Ratios of two times below which machines are equally fast: rounded to 1x, or where both intervals hold the other's time.
ROUNDED, NOTABLE = 1.005, 1.05
BASELINES = {"roofline": "stated roofline", "flat": "78 % of roofline", "fitted": "3-parameter fit"}


def kernel_table(study: KernelSet) -> Table:
    """Every kernel of a set with its counts, regime and times."""
    shown = columns(
        "op", Column("flops", "FLOPs", "flop"), Column("bytes", "bytes", "B"), INTENSITY, Column("ridge", "ridge FLOP/B"), "bound", "limiter",
        Column("attainable", "attainable", "flop/s"), Column("floor", "floor", "s"), Column("time", "time", "s"),
    )  # fmt: skip
    rows = [_kernel_row(entry) for entry in study.entries]
    kinds = "+".join(sorted({kind for row in rows for kind in row["ceilings"].split("+")}))
    return Table(f"{_bounds(rows)}: {study.title}, {kinds} ceilings", shown, rows, study.notes)


def _bounds(rows: Sequence[Mapping[str, Any]]) -> str:
    """`6 memory-bound, 2 compute-bound`."""
    sides = Counter(str(row["bound"]) for row in rows)
    return ", ".join(f"{count} {bound_words(side)}" for side, count in sides.items())


def _kernel_row(entry: Entry) -> dict[str, Any]:
    row = next(entry.prediction.rows())
    return {**row, "op": entry.name, "floor": row["floor_us"] / 1e6, "time": row["time_us"] / 1e6}


def production_table(study: KernelSet) -> Table:
    """Production kernels with the published share of the ceiling they reach."""
    reached = {row.name: {"low": row.low, "high": row.high, "of": row.of} for row in published()}
    rows = [_kernel_row(entry) | reached[entry.name] for entry in study.entries]
    shares = percent("low", "from"), percent("high", "to"), Column("of", "share")
    return Table(study.title, columns(Column("op", "kernel"), INTENSITY, "bound", *shares), rows, study.notes)


def tiling_table(study: Tiling) -> Table:
    """Tile sizes: working set and the level it fits in; traffic, AI, bound and rate with the main memory feeding the tiles."""
    machine = study.machine
    bandwidths = {level.name: level.bandwidth.value() for level in machine.levels}
    rows = []
    for tiled in study.rows:
        row = {**to_document(tiled), "tile": tiled.label}
        if (tile := tiled.tile) is not None:
            row |= {"working_set": tile.working_set, "level": tile.level, "fits_block": tile.fits_block}
            row["bandwidth"] = bandwidths.get(tile.level)
        rows.append(row)
    shown = columns(
        "tile", Column("working_set", "working set (3 tiles)", "B", binary=True), Column("level", "fits in"), Column("bandwidth", "bandwidth", "B/s"),
        Column("fits_block", "fits one block"), Column("traffic", "main-memory traffic", "B"), INTENSITY, "bound",
        Column("attainable", unit="flop/s"),
    )  # fmt: skip
    peak, memory = show(machine.peak(study.engine).value, "flop/s"), show(machine.bandwidth().value, "B/s")
    fed = f"bytes are counted as if {machine.main.name} fed every tile; a prediction with a tile size counts them at the level that does"
    notes = (f"{study.engine} peak {peak}, {machine.main.name} bandwidth {memory}", study.largest, fed)
    enough = next((row.tile.side for row in study.rows if row.tile and row.bound == "compute"), None)
    answer = (
        f"compute-bound with {enough} x {enough} tiles or larger" if enough else "memory-bound with every tile size"
    )
    title = f"{answer}: GEMM {study.n:.0f}^3 {study.dtype} on {machine.name}"
    return Table(title, shown, rows, notes)


def regimes_table(machine: Machine, dtype: str | None = None) -> Table:
    """The three regimes: when each holds and what its time is."""
    dtype = dtype or usable_dtype(machine, "bf16")
    engine = machine.engine("matrix", dtype)
    ridge = f"{show(machine.ridge(engine), 'flop/B')}{machine.ridge_mix()}"
    peak = f"peak {show(machine.peak(engine).value, 'flop/s')} ({engine})"
    bandwidth = f"bandwidth {show(machine.bandwidth().value, 'B/s')} ({machine.main.name})"
    launch = f"launch {show(launch_latency(machine), 's')}"
    lines = (
        ("compute", f"AI above the ridge, {ridge}", "flops / (peak x efficiency)", peak),
        ("memory", f"AI below the ridge, {ridge}", "bytes / (bandwidth x efficiency)", bandwidth),
        ("overhead", "both terms below the launch latency", "launch latency", launch),
    )
    keys = ("regime", "when", "time", "figure")
    note = "balanced: both terms are equal within the uncertainty of their ratio"
    title = f"the three regimes on {machine.name}, {dtype}"
    return Table(title, columns(*keys), [dict(zip(keys, line, strict=True)) for line in lines], (note,))


def critical_batch_lines(study: CriticalBatch) -> list[str]:
    """The batch from which on the layer is compute-bound, then what was asked."""
    if study.never:
        limit = f"AI limit {show(study.saturation, 'flop/B')} < ridge {show(study.ridge, 'flop/B')}"
        answer = f"never compute-bound: {limit}"
    else:
        answer = study.turning.text
    layer = f"linear {study.in_features:.0f} -> {study.out_features:.0f}, {study.dtype}"
    layer = layer if study.weights == study.dtype else f"{layer}, {study.weights} weights"
    return [answer, f"{layer}, {study.ceilings} ceilings" if study.ceilings else layer]


def critical_batch_table(study: CriticalBatch) -> Table:
    facts = {
        "critical batch": "never" if study.never else f"{study.batch:.0f}",
        "ridge": f"{show(study.ridge, 'flop/B')} ({study.of})",
        "AI limit for large batch": show(study.saturation, "flop/B"),
    }
    return facts_table("", facts)


def comparison_lines(study: Comparison, case: str = "") -> list[str]:
    """Which machine is faster, and by how much: on the op, or in peak and bandwidth."""
    rows, ceilings = study.generations, study.kinds
    if not study.predictions:
        fastest, widest = max(rows, key=lambda row: row.peak), max(rows, key=lambda row: row.bandwidth)
        peak = f"highest {study.dtype} peak: {fastest.name}, {show(fastest.peak, 'flop/s')}"
        bandwidth = f"highest bandwidth: {widest.name}, {show(widest.bandwidth, 'B/s')}"
        return [f"{peak}; {bandwidth}", f"{counted(len(rows), 'machine')}, dense {study.dtype}, {ceilings}"]
    on = {row.name: item for row, item in zip(rows, study.predictions, strict=True)}
    times = {name: float(item.time) for name, item in on.items()}
    bounds = {name: bound_words(str(sides(item))) for name, item in on.items()}
    best, *others = sorted(times, key=lambda name: times[name])
    asked = f"{case} {study.dtype}, {ceilings}"
    if not others:
        return [f"{best}: {show(times[best], 's')}, {bounds[best]}", asked]
    other = others[0] if len(others) == 1 or rows[0].name == best else rows[0].name
    how = f"both {bounds[best]}" if bounds[best] == bounds[other] else f"{bounds[best]} vs {bounds[other]}"
    ratio = times[other] / times[best]
    both = f"{show(times[best], 's')} vs {show(times[other], 's')}"
    if ratio < ROUNDED or (ratio < NOTABLE and on[best].high >= times[other] and on[other].low <= times[best]):
        return [f"{best} and {other} are equally fast on this op: {both}, {how}{_unlike(study, best, other)}", asked]
    return [f"{best} is {ratio:.3g}x faster than {other} on this op: {both}, {how}{_unlike(study, best, other)}", asked]


def _unlike(study: Comparison, *names: str) -> str:
    """Which of two times includes quantizing the activations, where the other does not."""
    including = [name for name in names if name in study.quantizing]
    return f"; the time of {including[0]} includes quantizing the activations" if len(including) == 1 else ""


def comparison_table(study: Comparison) -> Table:
    """Machines in the order given: growth from one to the next and the phase it helps; the op on each of them."""
    rows = [to_document(row) for row in study.generations]
    shown = columns(
        "machine", "engine", Column("peak", unit="flop/s"), Column("bandwidth", unit="B/s"), Column("ridge", "ridge FLOP/B"), "ceilings",
        Column("compute_growth", "compute x", digits=3), Column("bandwidth_growth", "bandwidth x", digits=3), Column("gains", "gains more"),
    )  # fmt: skip
    alike = f", {study.growth.text}" if study.growth.text else ""
    growth = f"x: relative to the row above{alike}; more compute helps prefill, more bandwidth helps decode"
    if len(study.generations) == 1:  # nothing is relative to another row
        growth = ""
    elif missing := [name for name in ("peak", "bandwidth") if getattr(study.growth, name) is None]:
        growth += f"; no kind of {' or '.join(missing)} is known of all, so that growth is not given"
    notes = (*filter(None, [growth]), *study.notes)
    if study.quantizing:
        spent = enumerated([show(seconds, "s") for seconds in study.quantizing.values()])
        others = "" if len(study.quantizing) == len(rows) else "; the others do not include it"
        notes += (f"{enumerated(list(study.quantizing))}: {QUANTIZING}, which takes {spent}{others}",)
    if study.predictions:
        cases = [next(prediction.rows()) for prediction in study.predictions]
        for row, on in zip(rows, cases, strict=True):
            row |= {key: on[key] for key in ("bound", "floor_us", "time_us")}
            row["speedup"] = cases[0]["time_us"] / on["time_us"]
        shown = (*shown, Column("bound"), *US, Column("speedup", "speedup vs first"))
    return Table("", shown, rows, notes)


def changes_lines(stops: Sequence[whatif.PricedCase]) -> list[str]:
    """The change that gains the most and what all of them gain, then the baseline."""
    first, last = stops[0], stops[-1]
    time = f"{show(first.unit_time, 's')}, {first.bound_words}"
    baseline = (
        f"baseline {kernel_name(first.case.main)} on {first.case.machine.name}: {time}, {first.ceilings} ceilings"
    )
    best = max(stops[1:], key=lambda stop: stop.gain)
    if (best.gain <= 0 or best.why) and (graph := next((stop for stop in stops if stop.spared > 0), None)):
        each = f"{show(graph.spared, 's')} of waiting for the host per launch"
        return [
            f"{graph.name} spares the device {each}; the kernel takes as long: {show(graph.unit_time, 's')}",
            baseline,
        ]
    if best.gain <= 0 or best.why:
        return [f"no gain: {best.name}: {best.why or 'slower'}", baseline]
    assert best.before is not None
    times = f"{show(best.before.unit_time, 's')} -> {show(best.unit_time, 's')} ({best.ratio:.3g}x)"
    total = (
        f"; all {len(stops) - 1} changes: {show(last.unit_time, 's')} ({last.total_ratio:.3g}x)"
        if len(stops) > 2
        else ""
    )
    return [f"largest gain: {best.name}, {times}{total}", baseline]


def changes_table(stops: Sequence[whatif.PricedCase], share: float | None = None) -> Table:
    """A chain of changes as rows: time, gain and ratio of every step and of all steps so far."""
    rows = []
    for number, stop in enumerate(stops):
        row = whatif.case_document(stop, share)
        row |= {"step": number, "change": stop.name, "time": stop.unit_time, "total": row["total_ratio"]}
        row |= {"bound": LATENCY, "limiter": "steps"} if stop.waits_for_steps else {}  # as the answer line says
        rows.append(row | ({"gain": stop.gain} if stop.before else dict.fromkeys(("gain", "ratio", "direction"))))
    several = len({stop.case.machine.name for stop in stops}) > 1
    shown = columns(
        Column("step", "#"), "change", *(["machine"] if several else []), Column("time", "time", "s"), Column("gain", "gain", "s"),
        Column("ratio", "speedup"), Column("total", "speedup vs baseline"), Column("direction", "moves"), "bound", "limiter",
        Column("intensity", "AI FLOP/B"), *([Column("program_ratio", "program speedup")] if share is not None else []),
    )  # fmt: skip
    notes = [f"{number} {stop.name}: {stop.why}" for number, stop in enumerate(stops) if stop.why]
    notes += dict.fromkeys(note for stop in stops for note in stop.notes)
    if share is not None:
        limit = whatif.amdahl(share, math.inf)
        bounded = (
            f"program speedup is at most {limit:.3g}x (Amdahl)"
            if math.isfinite(limit)
            else "program speedup = kernel speedup"
        )
        notes.append(f"kernel takes {share_text(share)} of the program time: {bounded}")
    return Table("", shown, rows, tuple(notes))


def score_lines(evaluation: Evaluation) -> list[str]:
    """Median error, P90 and coverage over all cases, then the same of the best baseline."""
    pooled = evaluation.pooled
    errors, inside = pooled.errors(), float(pooled.inside.mean())
    cases = f"over {len(pooled.measured):,} case{'' if len(pooled.measured) == 1 else 's'}"
    answer = f"median error {share_text(errors.median)}, P90 {share_text(errors.p90)} {cases}; {share_text(inside)} inside the 80 % interval"
    baselines = {name: pooled.errors(name) for name in evaluation.methods[1:]}
    best = min(baselines, key=lambda name: baselines[name].median)
    median, p90 = (share_text(value) for value in (baselines[best].median, baselines[best].p90))
    return [answer, f"on {evaluation.machine}; best baseline ({BASELINES[best]}): median error {median}, P90 {p90}"]


def score_table(evaluation: Evaluation) -> Table:
    """Errors of the expected times by family, and those of three baselines."""
    rows = []
    baselines = evaluation.methods[1:]
    for family in (*evaluation.families, evaluation.pooled):
        errors = family.errors()
        row = {"family": family.family, "cases": len(family.measured), "inside": float(family.inside.mean())}
        row |= {"median": errors.median, "mean": errors.mean, "p90": errors.p90, "signed": errors.signed}
        for name in baselines:
            row |= {f"{name}_median": family.errors(name).median, f"{name}_p90": family.errors(name).p90}
        rows.append(row)
    titles = {
        "median": "median error",
        "mean": "mean",
        "p90": "P90",
        "signed": "bias (signed median)",
        "inside": "inside 80 % interval",
    }
    for name in baselines:
        titles |= {f"{name}_median": f"{BASELINES[name]}: median", f"{name}_p90": "P90"}
    errors_note = "error = |predicted - measured| / measured"
    fitted = "the 3-parameter fit is held-out: fitted on the other half of the cases"
    without = "no 3-parameter fit: it needs SciPy, pip install 'ridgeline[fit]'"
    notes = [f"{errors_note}; {fitted if 'fitted' in baselines else without}"]
    if evaluation.failed:
        notes.append(f"{evaluation.failed} cases could not be predicted or have no measured time")
    return Table("", columns("family", "cases", *(percent(*item) for item in titles.items())), rows, tuple(notes))
