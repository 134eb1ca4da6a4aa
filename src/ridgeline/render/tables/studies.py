"""Tables of studies: sets of kernels, tiles, regimes, batches, precisions, machines side by side, priced changes, errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.documents import to_document
from ...core.dtypes import dtype as dtype_row
from ...core.machine import Machine
from ...core.units import show
from ...prediction import whatif
from ...prediction.ceilings import usable_dtype
from ...prediction.compare import Comparison
from ...prediction.host import launch_latency
from ...prediction.kernel_sets import Entry, KernelSet, kernel_name
from ...prediction.locality import Tiling
from ...prediction.precisions import PrecisionSweep
from ...prediction.predict import plain
from ...prediction.score import Evaluation
from ...prediction.studies import published
from ...prediction.turning import CriticalBatch
from ..table import Column, Table, columns, facts_table, percent
from .prediction import shape_text

US = (Column("floor_us", "floor us"), Column("time_us", "time us"))
INTENSITY = Column("intensity", "FLOP/B")
BASELINES = {"roofline": "stated roofline", "flat": "0.78 of it", "fitted": "three numbers"}


def kernel_table(study: KernelSet) -> Table:
    """Every kernel of a set with its counts, regime and times."""
    shown = columns(
        "op", Column("flops", "FLOPs", "flop"), Column("bytes", "bytes", "B"), INTENSITY, Column("ridge", "ridge"), "bound", "limiter",
        Column("attainable", "attainable", "flop/s"), Column("floor", "floor", "s"), Column("time", "time", "s"),
    )  # fmt: skip
    return Table(study.title, shown, [_kernel_row(entry) for entry in study.entries], study.notes)


def _kernel_row(entry: Entry) -> dict[str, Any]:
    row = next(entry.prediction.rows())
    return {**row, "op": entry.name, "floor": row["floor_us"] / 1e6, "time": row["time_us"] / 1e6}


def production_table(study: KernelSet) -> Table:
    """Production kernels with the share of the ceiling they are known to reach."""
    reached = {row.name: {"low": row.low, "high": row.high, "of": row.of} for row in published()}
    rows = [_kernel_row(entry) | reached[entry.name] for entry in study.entries]
    shares = percent("low", "from", 4), percent("high", "to", 4), Column("of", "share")
    return Table(study.title, columns(Column("op", "kernel"), INTENSITY, "bound", *shares), rows, study.notes)


def tiling_table(study: Tiling) -> Table:
    """Tile sizes: working set and the level that holds it; traffic, intensity, bound and rate where the main memory feeds the tiles."""
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
        "tile", Column("working_set", "three tiles", "B", binary=True), Column("level", "held in"), Column("bandwidth", "its bandwidth", "B/s"),
        Column("fits_block", "fits one block"), Column("traffic", "tiles read and written", "B"), INTENSITY, "bound",
        Column("attainable", unit="flop/s"),
    )  # fmt: skip
    peak, memory = show(machine.peak(study.engine).value, "flop/s"), show(machine.bandwidth().value, "B/s")
    notes = (f"bound and rate: {study.engine}, {peak}, against {machine.main.name}, {memory}", study.largest)
    title = f"tiled product of {study.n:.0f} x {study.n:.0f} matrices in {study.dtype} on {machine.name}"
    return Table(title, shown, rows, notes)


def regimes_table(machine: Machine, dtype: str | None = None) -> Table:
    """The three regimes: when each holds and what its time is."""
    dtype = dtype or usable_dtype(machine, "bf16")
    engine = machine.engine("matrix", dtype)
    ridge = show(machine.ridge(engine), "flop/B")
    peak = f"peak {show(machine.peak(engine).value, 'flop/s')} ({engine})"
    bandwidth = f"bandwidth {show(machine.bandwidth().value, 'B/s')} ({machine.main.name})"
    launch = f"launch {show(launch_latency(machine), 's')}"
    lines = (
        ("compute", f"intensity above the ridge ({ridge})", "flops / (peak x efficiency)", peak),
        ("memory", f"intensity below the ridge ({ridge})", "bytes / (bandwidth x efficiency)", bandwidth),
        ("overhead", "both terms below the launch latency", "launch latency", launch),
    )
    keys = ("regime", "when", "time", "here")
    note = "balanced: both terms within the ceilings' uncertainty of each other"
    title = f"the three regimes on {machine.name}, {dtype}"
    return Table(title, columns(*keys), [dict(zip(keys, line, strict=True)) for line in lines], (note,))


def critical_batch_table(study: CriticalBatch) -> Table:
    facts = {
        "critical batch": "never: the intensity saturates below the ridge" if study.never else f"{study.batch:.0f}",
        "ridge": f"{show(study.ridge, 'flop/B')} ({study.of})",
        "intensity for ever larger batches": show(study.saturation, "flop/B"),
    }
    sizes = f"{study.in_features:.0f} to {study.out_features:.0f}"
    return facts_table(f"linear {sizes}, {study.dtype} arithmetic, {study.weights} weights", facts)


def precisions_table(study: PrecisionSweep) -> Table:
    """One op in every number format; a sweep has a row per format and case."""
    rows = []
    for name, prediction in study.predictions:
        bound = prediction.bounds[0]
        shared: dict[str, Any] = {"dtype": name, "bits": dtype_row(name).stored_bits}
        if dtype_row(name).integer:  # counted by the same rules but called OP
            shared |= {"flops:unit": "op", "attainable:unit": "op/s", "peak:unit": "op/s"}
        for index, row in enumerate(prediction.rows()):
            distance = row["intensity"] / row["ridge"] if row["ridge"] else None
            units = {"peak": plain(bound.peak, index), "engine": plain(bound.engine, index), "to_ridge": distance}
            rows.append({**row["shape"], **row, **shared, **units})
    swept = [name for name, value in study.values.items() if getattr(value, "ndim", 0)]
    fixed = {name: value for name, value in study.values.items() if name not in swept}
    shown = columns(
        *swept, "dtype", "bits", "engine", Column("peak", unit="flop/s"), INTENSITY, "ridge", Column("to_ridge", "AI/ridge"), "bound",
        Column("attainable", unit="flop/s"), *US,
    )  # fmt: skip
    note = "AI/ridge tells the side, time the gain; narrower storage with wider arithmetic (--weights) moves towards the ridge"
    return Table(f"{study.op.name} {shape_text(fixed)} on {study.machine.name}", shown, rows, (note,))


def comparison_table(study: Comparison, case: str = "") -> Table:
    """Machines in the order given: growth from one to the next and the phase it helps; `case` is the op on each of them."""
    rows = [to_document(row) for row in study.generations]
    shown = columns(
        "machine", "engine", Column("peak", unit="flop/s"), Column("bandwidth", unit="B/s"), Column("ridge", "ridge FLOP/B"),
        Column("compute_growth", "compute x", digits=3), Column("bandwidth_growth", "bandwidth x", digits=3), Column("gains", "gains more"),
    )  # fmt: skip
    growth = "growth is against the row above; more compute helps prefill, more bandwidth decode"
    notes = (f"{study.dtype}, dense, {study.ceilings or 'mixed'} ceilings; {growth}", *study.notes)
    if study.predictions:
        cases = [next(prediction.rows()) for prediction in study.predictions]
        for row, on in zip(rows, cases, strict=True):
            row |= {key: on[key] for key in ("bound", "floor_us", "time_us")}
            row["speedup"] = cases[0]["time_us"] / on["time_us"]
        shown = (*shown, Column("bound"), *US, Column("speedup", "x first", digits=3))
        notes = (*notes, f"op: {case}")
    return Table("machines side by side", shown, rows, notes)


def changes_table(stops: Sequence[whatif.PricedCase], share: float | None = None) -> Table:
    """A chain of changes as rows: time, gain and ratio of every step and of all steps so far."""
    rows = []
    for number, stop in enumerate(stops):
        row = whatif.case_document(stop, share)
        row |= {"step": number, "change": stop.name, "time": stop.unit_time, "total": row["total_ratio"]}
        rows.append(row | ({"gain": stop.gain} if stop.before else dict.fromkeys(("gain", "ratio", "direction"))))
    several = len({stop.case.machine.name for stop in stops}) > 1
    shown = columns(
        Column("step", "#"), "change", *(["machine"] if several else []), Column("time", "time", "s", 3), Column("gain", "gain", "s", 3),
        Column("ratio", "x before", digits=3), Column("total", "x baseline", digits=3), Column("direction", "moves"), "bound", "limiter",
        Column("intensity", "FLOP/B", digits=3), *([Column("program_ratio", "x program", digits=3)] if share is not None else []),
    )  # fmt: skip
    notes = [f"{number} {stop.name}: {stop.why}" for number, stop in enumerate(stops) if stop.why]
    notes += dict.fromkeys(note for stop in stops for note in stop.notes)
    if share is not None:
        limit = whatif.amdahl(share, math.inf)
        bounded = f", which gets {limit:.3g}x as fast at most"
        gain = bounded if math.isfinite(limit) else ": it gets as fast as the kernel does"
        notes.append(f"the kernel is {share:.0%} of the program{gain}")
    return Table(f"{kernel_name(stops[0].case.main)} on {stops[0].case.machine.name}", shown, rows, tuple(notes))


def score_table(evaluation: Evaluation) -> Table:
    """Errors of the expected times by family, beside those of three baselines."""
    rows = []
    baselines = evaluation.methods[1:]
    for family in (*evaluation.families, evaluation.pooled):
        errors = family.errors()
        row = {"family": family.family, "cases": len(family.measured), "inside": float(family.inside.mean())}
        row |= {"median": errors.median, "mean": errors.mean, "p90": errors.p90, "signed": errors.signed}
        for name in baselines:
            row |= {f"{name}_median": family.errors(name).median, f"{name}_p90": family.errors(name).p90}
        rows.append(row)
    titles = {"median": "", "mean": "", "p90": "P90", "signed": "signed median", "inside": "in 80 % interval"}
    for name in baselines:
        titles |= {f"{name}_median": f"{BASELINES[name]}: median", f"{name}_p90": "P90"}
    errors_note = "errors are |predicted - measured| / measured"
    fitted = "three numbers are fitted on the half that is not judged"
    without = "three numbers are left out: fitting them needs SciPy, pip install 'ridgeline[fit]'"
    notes = [f"{errors_note}; {fitted if 'fitted' in baselines else without}"]
    if evaluation.failed:
        notes.append(f"{evaluation.failed} cases could not be predicted or carry no time")
    title = f"expected against measured times on {evaluation.machine}"
    return Table(title, columns("family", "cases", *(percent(*item) for item in titles.items())), rows, tuple(notes))
