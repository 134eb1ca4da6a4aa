"""Exercises of the lessons about number formats, memory levels and tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ....core.errors import InputError
from ....core.machine import Machine
from ....core.roofline import largest_tile
from ....core.units import show
from ....prediction.answer import Answer, answer
from ....prediction.locality import locality_of
from ....prediction.precisions import PrecisionSweep, formats, precision_sweep
from ....programs.ops import gemm
from ....render.chart import LOG, Arrow, Axis, Chart, Line, Mark, Picture, Point, Region
from ....render.charts.answers import levels as levels_chart
from ....render.charts.plane import power_span
from ....render.charts.roofline import precisions as precisions_chart
from ....render.charts.wording import INTENSITY, PER_BYTE, level_title, rate
from ....render.table import Column, Table, columns
from .exercises import intensity_text, side_of
from .lookup import case_of_text, machine_of
from .pictures import pictured, tabled

ARITHMETIC = "fp16"  # of the exercise in which only the weights get narrower
WEIGHTS = ("fp16", "int8", "int4_g128")  # the storage formats of that exercise
Document = dict[str, Any]


# -- number formats ----------------------------------------------------------------------------------------------------


def precision(case: str, on: str, dtypes: Sequence[str], chosen: str) -> Document:
    """A case in several formats, storage and arithmetic alike; what changes from the first format to the chosen one."""
    op, values = case_of_text(case)
    machine = machine_of(on)
    sweep = precision_sweep(op, values, machine, dtypes)
    rows = {name: next(iter(prediction.rows())) for name, prediction in sweep.predictions}
    names = dict(zip(dtypes, rows, strict=False))
    if chosen not in names:
        raise InputError(f"{chosen} is none of the formats of this exercise: {', '.join(dtypes)}")
    first, last = rows[names[dtypes[0]]], rows[names[chosen]]
    return _compared(first, last, dtypes[0], chosen, pictured(_precisions(machine, sweep, names[chosen])))


def _precisions(machine: Machine, sweep: PrecisionSweep, chosen: str) -> Chart:
    """The roofs of the formats of the exercise alone, and an arrow from the first format to the chosen one."""
    study = formats(machine, sweep=sweep)
    used = tuple(name for name in study.engines if name in {kernel.engine for _, kernel in study.kernels})
    chart = precisions_chart(replace(study, engines=used, notes=()))
    spots = {name: (kernel.intensity, kernel.rate) for name, kernel in study.kernels}
    start, end = next(iter(spots.values())), spots[chosen]
    return replace(chart, arrows=(Arrow(start, end, "", "change", ""),) if start != end else (), notes=())


def weights(case: str, on: str, chosen: str) -> Document:
    """A case whose weights alone get narrower: the arithmetic, and with it the roof, stays."""
    if chosen not in WEIGHTS:
        raise InputError(f"{chosen} is none of the formats of this exercise: {', '.join(WEIGHTS)}")
    op, values = case_of_text(case)
    if "weights" not in op.params:
        raise InputError(f"{op.name} has no weights that could be stored in another format")
    machine = machine_of(on)
    answers = {name: _stored(op, values, machine, name) for name in WEIGHTS}
    rows = {name: made.rows()[0] for name, made in answers.items()}
    chart = _weights_chart(machine, answers, chosen)
    return _compared(rows[WEIGHTS[0]], rows[chosen], WEIGHTS[0], chosen, pictured(chart), " weights")


def _stored(op: Any, values: dict[str, Any], machine: Machine, weight_format: str) -> Answer:
    return answer(op, {**values, "dtype": ARITHMETIC, "weights": weight_format}, machine)


def _weights_chart(machine: Machine, answers: dict[str, Answer], chosen: str) -> Chart:
    from ....render.charts import find

    chart = find("roofline")(machine, predictions=[made.prediction for made in answers.values()], dtype=ARITHMETIC)
    assert isinstance(chart, Chart)
    labels = iter(answers)
    points = [
        replace(dot, label=f"{next(labels)} weights") if dot.role in ("expected", "overhead") else dot
        for dot in chart.points
    ]
    spots = {name: _spot(made) for name, made in answers.items()}
    start, end = next(iter(spots.values())), spots[chosen]
    arrows = (Arrow(start, end, "", "change", ""),) if start != end else ()
    return replace(chart, points=tuple(points), arrows=arrows, notes=())


def _spot(made: Answer) -> tuple[float, float]:
    row = made.rows()[0]
    return row["intensity"], row["flops"] / (row["time_us"] * 1e-6)


def _compared(first: Document, last: Document, old: str, new: str, chart: Document, what: str = "") -> Document:
    """Bytes, AI, ridge, distance from the ridge and roofline time, each against that of the first format."""
    factors = {
        "bytes": first["bytes"] / last["bytes"], "intensity": last["intensity"] / first["intensity"], "ridge": last["ridge"] / first["ridge"],
        "time": first["floor_us"] / last["floor_us"],
    }  # fmt: skip
    factors["distance"] = factors["ridge"] / factors["intensity"]
    side = last["bound"]
    time = f"roofline time {show(last['floor_us'] * 1e-6, 's')}, expected {show(last['time_us'] * 1e-6, 's')}"
    place = f"AI {intensity_text(last['intensity'])} FLOP/B, ridge {show(last['ridge'])}: {side}-bound, {time}"
    if first is last:
        lines = [f"{new}{what}: {place}.", "Choose a narrower format and see what it changes."]
    else:
        way = _distance(factors["distance"])
        change = f"{show(factors['bytes'], digits=2)}x fewer bytes, {show(factors['intensity'], digits=2)}x the AI, {show(factors['ridge'], digits=2)}x the ridge"
        lines = [f"{old} to {new}{what}: {show(factors['time'], digits=2)}x faster at the roofline, and {way}.", f"{change}.", f"{new}{what}: {place}."]  # fmt: skip
    return {"answer": lines, "factors": factors, "bound": side, "ridge": last["ridge"], "chart": chart}


def _distance(factor: float) -> str:
    if 0.99 < factor < 1.01:
        return "as far from its ridge as before"
    return f"{show(max(factor, 1 / factor), digits=2)}x {'further from' if factor > 1 else 'closer to'} its ridge"


# -- memory levels -------------------------------------------------------------------------------------------------------


def levels(case: str, on: str, tile: int | None) -> Document:
    """One kernel at every memory level of a machine; `tile` replaces the tile of the case."""
    op, values = case_of_text(case)
    if tile is not None:
        if "tile" not in op.params:
            raise InputError(f"{op.name} has no tile")
        values = {**values, "tile": tile}
    made = answer(op, values, machine_of(on))
    rows = [_level(row.level, row.bytes, row.intensity, row.ridge, row.time) for row in made.levels if row.counted]
    (row,) = made.rows()
    longest = max(rows, key=lambda level: level["time"])
    arithmetic = max(term.time for term in made.ceilings if term.side == "compute")
    needs = f"the bytes at {longest['level']} need {show(longest['time'], 's')}, the arithmetic {show(arithmetic, 's')}"
    table = Table(
        "", columns("level", Column("bytes", unit="B"), Column("AI", unit="FLOP/B"), Column("ridge", unit="FLOP/B"), Column("time", "time of its bytes", "s")), rows,
    )  # fmt: skip
    verdict = f"{row['bound']}-bound ({row['limiter']}): {needs}."
    return {"answer": [verdict], "bound": row["bound"], "limiter": row["limiter"], "table": tabled(table), "chart": pictured(_plain(levels_chart(locality_of(made))))}  # fmt: skip


def _level(level: str, moved: float, intensity: float | None, ridge: float | None, time: float | None) -> Document:
    return {"level": level_title(level), "bytes": moved, "AI": intensity, "ridge": ridge, "time": time}


def _plain(chart: Picture) -> Picture:
    return replace(chart, notes=())


# -- tiles ---------------------------------------------------------------------------------------------------------------


def tiling(n: int, on: str, tiles: Sequence[int], chosen: int) -> Document:
    """AI of an n x n x n FP32 product against the side of its tiles, fed from the main memory."""
    machine = machine_of(on)
    sides = sorted({*tiles, chosen})
    engine = machine.engine("matrix", "fp32")
    peak, bandwidth = machine.peak(engine).value, machine.bandwidth().value
    corner = peak / bandwidth
    works = {side: gemm(n, n, n, dtype="fp32", traffic="tiled", tile=side) for side in sides}
    at = {side: float(work.intensity()) for side, work in works.items()}
    naive, once = (float(gemm(n, n, n, dtype="fp32", traffic=kind).intensity()) for kind in ("no_reuse", "compulsory"))
    moved, here = float(works[chosen].bytes), at[chosen]
    side = side_of(here, corner)
    roof = min(peak, bandwidth * here)
    block, room = largest_tile(machine, "fp32")
    fits = "fit" if chosen <= block else "do not fit"
    lines = [
        f"T = {chosen}: AI {intensity_text(here)} FLOP/B, {side}-bound if fed from {level_title(machine.main.name)}, up to {rate(roof, engine)}",
        f"{show(moved, 'B')} instead of {show(float(works[chosen].flops) / naive, 'B')} without reuse and {show(float(works[chosen].flops) / once, 'B')} at best",
        f"Three such tiles {fits} into the {show(room, 'B', binary=True)} of shared memory of a thread block; the largest that do have a side of {block}.",
    ]  # fmt: skip
    chart = _tiling_chart(f"GEMM {n}³ in fp32 on {machine.name}", at, chosen, corner, (naive, once))
    return {"answer": lines, "intensity": here, "ridge": corner, "bound": side, "bytes": moved, "chart": pictured(chart)}  # fmt: skip


def _tiling_chart(title: str, at: dict[int, float], chosen: int, corner: float, limits: tuple[float, float]) -> Chart:
    """AI against the side of a tile, with the ridge, and the AI without reuse and with every element read once."""
    naive, once = limits
    low, high = power_span([naive, once, corner, *at.values()], 2.0, 1.3)
    points = [
        Point(side, value, show(value), f"{side_of(value, corner)}-bound", "expected" if side == chosen else "target", f"T = {side}", {"intensity": value})
        for side, value in at.items()
    ]  # fmt: skip
    marks = (
        Mark("y", corner, f"ridge {show(corner, PER_BYTE)}", "ridge"),
        Mark("y", once, f"every element once {show(once, PER_BYTE)}", "saturation"),
        Mark("y", naive, f"no reuse {show(naive, PER_BYTE)}", "saturation"),
    )
    return Chart(
        "tiling", title, Axis("side of a tile", "", LOG, power_span(at, 2.0, 1.5)), Axis(INTENSITY, PER_BYTE, LOG, (low, high)), "",
        (Line(tuple((float(side), value) for side, value in at.items()), "series", "", ""),), tuple(points), marks=marks,
        regions=(Region("memory-bound", None, (low, corner), "memory"), Region("compute-bound", None, (corner, high), "compute")),
    )  # fmt: skip
