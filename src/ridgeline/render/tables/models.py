"""Tables of a model: its phases, its ops, critical batches, remedies; layouts and batches side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...prediction.models.choice import Choice
from ...prediction.models.curve import Curve
from ...prediction.models.remedies import Remedy
from ...prediction.models.replicas import TrainingRemedy
from ...prediction.models.result import ModelPrediction
from ...prediction.models.scaling import Scaling
from ...prediction.models.speculative import Speculation
from ...prediction.models.step import StepPrediction
from ...prediction.models.study_answers import choice_name
from ...prediction.models.summary import devices_text, layout_text
from ...prediction.models.training import TrainingPrediction
from ...programs.models.load import architecture, entries
from ...programs.models.parameters import kv_bytes_per_token, parameters
from ..table import ROW_KEY, Column, Table, columns, dot_key, percent

MAX_OPS = 8  # of a phase on the terminal without -v


def op_table(title: str, step: StepPrediction, limit: int | None = None, phase: str = "") -> Table:
    """The ops of a phase, those that take longest first, with the share of the phase that each is; its name joins dots."""
    rows = [
        {
            "name": item.name, "part": item.part, "count": round(float(np.max(item.count))), "time": float(np.max(item.time)),
            "share": float(np.max(item.time)) / float(np.max(step.time)), "flops": float(np.max(item.flops)) or None, "bytes": float(np.max(item.bytes)) or None,
            "floor": float(np.max(item.floor)), "bound": str(item.bound), ROW_KEY: dot_key(phase, item.name) if phase else item.name,
        }
        for item in step.rows
    ]  # fmt: skip
    shown = rows[:limit]
    notes = (f"and {len(rows) - len(shown)} more: -v",) if len(shown) < len(rows) else ()
    heads = columns(
        Column("name", "op"), "part", Column("count", "calls"), Column("time", unit="s"), percent("share", digits=2), Column("flops", unit="flop"),
        Column("bytes", unit="B"), Column("floor", "roofline", unit="s"), "bound",
    )  # fmt: skip
    return Table(title, heads, shown, notes)


def both_table(prediction: ModelPrediction, limit: int | None = MAX_OPS) -> Table:
    """Ops of decode and prefill next to each other, those that take longest in decode first."""
    prefill = {item.name: item for item in prediction.prefill.rows}
    rows = []
    for item in prediction.decode.rows[:limit]:
        other = prefill.get(item.name)
        rows.append(
            {
                "name": item.name, "count": round(float(np.max(item.count))), "decode": float(np.max(item.time)),
                "share": float(np.max(item.time)) / float(np.max(prediction.decode.time)), "bound": str(item.bound),
                "prefill": None if other is None else float(np.max(other.time)),
                "prefill_share": None if other is None else float(np.max(other.time)) / float(np.max(prediction.prefill.time)),
                "prefill_bound": "" if other is None else str(other.bound),
            }
        )  # fmt: skip
    more = len(prediction.decode.rows) - len(rows)
    heads = columns(
        Column("name", "op"), Column("count", "calls"), Column("decode", unit="s"), percent("share", digits=2), "bound",
        Column("prefill", unit="s"), percent("prefill_share", "share", 2), Column("prefill_bound", "bound"),
    )  # fmt: skip
    return Table("", heads, rows, (f"and {more} more: -v",) if more > 0 else ())


def critical_table(prediction: ModelPrediction) -> Table:
    rows = [
        {"name": row.name, "batch": "memory-bound at any batch" if row.batch is None else f"{row.batch}"}
        for row in prediction.critical_batch
    ]
    return Table("Compute-bound from this batch on, decode", columns(Column("name", "op"), "batch"), rows)


def remedy_table(rows: Sequence[Remedy]) -> Table:
    shown: list[dict[str, Any]] = [
        {
            "name": row.name,
            "changes": row.changes,
            "tpot": row.tpot,
            "speedup": row.speedup,
            "gain": row.throughput_gain,
            "fits": row.fits,
        }
        for row in rows
    ]
    heads = columns(
        Column("name", "change"), Column("changes", "what it changes"), Column("tpot", "TPOT", unit="s"), Column("speedup", "per token"),
        Column("gain", "tok/s per device"), "fits",
    )  # fmt: skip
    return Table("What each change would bring", heads, shown)


def training_remedy_table(rows: Sequence[TrainingRemedy]) -> Table:
    shown: list[dict[str, Any]] = [{"name": row.name, "step": row.time, "speedup": row.speedup} for row in rows]
    heads = columns(Column("name", "change"), Column("step", unit="s"), "speedup")
    return Table("What each change would bring", heads, shown)


def memory_table(prediction: ModelPrediction) -> Table:
    memory = prediction.memory
    held = {"weights": memory.weights, "cache": memory.kv, "activations": memory.activations}
    return held_table({name: float(np.max(size)) for name, size in held.items()}, memory.capacity)


def held_table(held: Mapping[str, float], capacity: float | None) -> Table:
    """What the memory of a device holds, and the share of it that each kind is."""
    rows = [
        {"kind": name, "bytes": size, "share": size / capacity if capacity else None} for name, size in held.items()
    ]
    heads = columns("kind", Column("bytes", unit="B"), percent("share", digits=2))
    return Table("Memory of a device", heads, rows)


def model_tables(prediction: ModelPrediction, changes: Sequence[Remedy]) -> list[Table]:
    """All of it."""
    tables = [
        op_table("Decode step", prediction.decode, phase="decode"), op_table("Prefill of one prompt", prediction.prefill, phase="prefill"),
        memory_table(prediction),
        critical_table(prediction), remedy_table(changes),
    ]  # fmt: skip
    return [table for table in tables if table.rows]


def choice_table(rows: Sequence[Choice], title: str = "") -> Table:
    """Layouts, the best first; those that do not answer say why."""
    priced = any(row.price is not None for row in rows)
    shown = [
        {
            ROW_KEY: choice_name(row), "machine": row.machine, "devices": row.devices, "tp": row.layout.tp, "pp": row.layout.pp, "ep": row.layout.ep, "batch": row.batch or None,
            "ttft": row.ttft or None, "tpot": row.tpot or None, "rate": row.tokens_per_s or None, "each": row.tokens_per_s_per_device or None,
            "memory": row.memory or None, "cost": row.cost_per_million if row.tokens_per_s else None, "reason": row.reason,
        }
        for row in rows
    ]  # fmt: skip
    experts = [Column("ep")] if any(row.layout.ep > 1 for row in rows) else []
    cost = [Column("cost", "per 1M tokens")] if priced else []
    heads = columns(
        "machine", "devices", "tp", "pp", *experts, "batch", Column("ttft", "TTFT", unit="s"), Column("tpot", "TPOT", unit="s"), Column("rate", "tok/s"),
        Column("each", "tok/s per device"), percent("memory", digits=2), *cost, Column("reason", "why not"),
    )  # fmt: skip
    return Table(title, heads, shown)


def curve_table(curve: Curve) -> Table:
    places = {prediction.machine.name: layout_text(prediction) for prediction in curve.predictions}
    rows = [
        {
            ROW_KEY: dot_key(places[point.machine], f"{curve.swept} {point.value}"),
            **({"machine": point.machine} if curve.machines > 1 else {}), curve.swept: point.value, "ttft": point.ttft, "tpot": point.tpot, "rate": point.tokens_per_s,
            "each": point.tokens_per_s_per_device, "memory": point.memory, "bound": point.bound, "fits": point.fits,
        }
        for point in curve.points
    ]  # fmt: skip
    machine = ["machine"] if curve.machines > 1 else []
    heads = columns(
        *machine, curve.swept, Column("ttft", "TTFT", unit="s"), Column("tpot", "TPOT", unit="s"), Column("rate", "tok/s"), Column("each", "tok/s per device"),
        percent("memory", digits=2), Column("bound", "decode bound"), "fits",
    )  # fmt: skip
    return Table("", heads, rows)


def training_table(made: Sequence[TrainingPrediction]) -> Table:
    """Machines side by side."""
    rows = [
        {
            "machine": item.machine.name, "devices": item.devices, "step": item.time, "rate": item.tokens_per_s, "each": item.tokens_per_s_per_device,
            "mfu": item.mfu, "kernels": item.kernels, "exposed": item.exposed, "bubble": item.bubble or None, "fits": item.fits,
        }
        for item in made
    ]  # fmt: skip
    heads = columns(
        "machine", "devices", Column("step", unit="s"), Column("rate", "tok/s"), Column("each", "tok/s per device"), percent("mfu", "MFU", 2),
        Column("kernels", unit="s"), Column("exposed", "exposed communication", unit="s"), percent("bubble", digits=2), "fits",
    )  # fmt: skip
    return Table("", heads, rows)


def scaling_table(scaling: Scaling) -> Table:
    """Numbers of devices, with the share of ideal scaling that each reaches."""
    several = len(scaling.machines) > 1
    rows = [
        {
            ROW_KEY: devices_text(row.layout, row.machine),
            **({"machine": row.machine} if several else {}), "devices": row.devices, "layout": getattr(row.layout, scaling.degree), "time": row.time,
            "rate": row.tokens_per_s, "each": row.tokens_per_s / row.devices, "efficiency": row.efficiency, "communication": row.communication,
            "bound": row.bound, "fits": row.fits,
        }
        for row in scaling.points
    ]  # fmt: skip
    what, bound = ("step", "bound") if scaling.training else ("TPOT", "decode bound")
    heads = columns(
        *(["machine"] if several else []), "devices", Column("layout", scaling.degree), Column("time", what, unit="s"), Column("rate", "tok/s"), Column("each", "tok/s per device"),
        percent("efficiency", digits=2), percent("communication", digits=2), Column("bound", bound), "fits",
    )  # fmt: skip
    return Table("", heads, rows, scaling.refused)


def speculation_table(made: Speculation) -> Table:
    """Batches, and whether a draft helps at each."""
    decode, without = np.asarray(made.prediction.decode_time), np.asarray(made.prediction.serving.tpot)
    listed = (
        made.prediction.load.batch,
        without,
        made.serving.tpot,
        made.speedup,
        made.drafting / decode,
        made.verify / decode,
        made.break_even,
        made.fits,
    )
    rows = [
        {
            ROW_KEY: f"batch {batch:g}", "batch": int(batch), "without": before, "tpot": after, "speedup": speedup, "draft": draft, "verify": verify,
            "even": None if np.isnan(even) else even, "fits": bool(fits),
        }
        for batch, before, after, speedup, draft, verify, even, fits in zip(*(np.asarray(column).tolist() for column in listed), strict=True)
    ]  # fmt: skip
    heads = columns(
        "batch", Column("without", "TPOT", unit="s"), Column("tpot", "with draft", unit="s"), "speedup", Column("draft", "draft, decode steps"),
        Column("verify", "verification, decode steps"), percent("even", "break-even acceptance", 2), "fits",
    )  # fmt: skip
    return Table("", heads, rows)


def known_table() -> Table:
    """The built-in models, with their parameters and what a token adds to the cache in bf16."""
    rows = []
    for name, entry in entries().items():
        made = architecture(name)
        sizes = parameters(made)
        active = sizes.active if sizes.active != sizes.total else None
        cache = kv_bytes_per_token(made)
        rows.append(
            {
                "name": name,
                "params": sizes.total,
                "active": active,
                "layers": made.depth,
                "cache": cache or None,
                "source": entry.source,
            }
        )
    heads = columns(
        "name",
        Column("params", "parameters"),
        Column("active"),
        "layers",
        Column("cache", "cache per token", unit="B"),
        "source",
    )
    return Table("", heads, rows)
