"""Exercises of the lessons about the chart itself: its four strokes, any point on it, other roofs, generations, phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ....core.machine import MAIN
from ....core.units import percent, show
from ....machines.load import load
from ....prediction.compare import Generation, generations
from ....prediction.kernel_sets import PredictedKernel
from ....prediction.studies import phases as predict_phases
from ....programs.ops import linear
from ....render.chart import Chart, Point
from ....render.charts import find
from ....render.charts.plane import Roofs, bound_regions, equal_decades, plane_axes, ridge_mark, roof_chart
from ....render.charts.roofline import phases as phases_chart
from ....render.charts.wording import rate, rate_unit
from ....render.table import Column, Table, columns
from .exercises import intensity_text, side_of
from .lookup import machine_of
from .pictures import pictured, tabled

MAX_FACTOR = 4.0  # of the sliders of the roof, up and down
AT_RIDGE = 0.01  # within this share of the ridge, or of the roof, a point is on it
MIN_INTENSITY = 0.5  # at the left end of a chart without kernels: below the AI of decode
LAYER, ROWS = 4096, (1, 128, 1024)  # kernels under a changing roof: a square layer at these batches
Document = dict[str, Any]


def machine_roofs(on: str, dtype: str) -> Roofs:
    machine = machine_of(on)
    return Roofs(machine, [machine.engine("matrix", dtype)], [machine.bandwidth(MAIN).name])


def _empty_chart(roofs: Roofs) -> Chart:
    chart = roof_chart(
        "roofline",
        f"Roofline of {roofs.machine.name}",
        [roofs],
        roofs.ranges([(MIN_INTENSITY, roofs.bandwidths[0] * MIN_INTENSITY)]),
        (),
        (),
    )
    return replace(chart, notes=())


# -- the chart in four strokes, and any point on it ----------------------------------------------------------------------


def buildup(on: str, dtype: str) -> Document:
    """Four states of one chart with the same axes, each with what is new in it."""
    roofs = machine_roofs(on, dtype)
    full, engine = _empty_chart(roofs), roofs.engines[0]
    bare = replace(full, lines=(), points=(), regions=(), marks=())
    ramp, ceiling = ([line for line in full.lines if line.role == role] for role in ("bandwidth", "peak"))
    peak, bandwidth, corner = rate(roofs.peaks[0], engine), show(roofs.bandwidths[0], "B/s"), roofs.ridges[0]
    unit = rate_unit(roofs.engines)
    steps = [
        ("Axes", bare, f"AI (FLOP/B) to the right, performance ({unit}) up. Both are logarithmic: equal distances are equal factors."),
        ("Memory ramp", replace(bare, lines=tuple(ramp)), f"performance = bandwidth x AI = {bandwidth} x AI: slope 1 on log axes."),
        ("Compute ceiling", replace(bare, lines=(*ramp, *ceiling)), f"performance = peak = {peak}, at any AI."),
        ("Ridge point", full, f"The lines meet at peak / bandwidth = {show(corner, 'flop/B')}: memory-bound left of it, compute-bound right."),
    ]  # fmt: skip
    return {
        "ridge": corner,
        "steps": [{"title": title, "answer": [text], "chart": pictured(chart)} for title, chart, text in steps],
    }


def empty_roofline(on: str, dtype: str) -> Document:
    """The roofline of a machine with nothing on it."""
    roofs = machine_roofs(on, dtype)
    return {"chart": pictured(_empty_chart(roofs)), "ridge": roofs.ridges[0], "peak": roofs.peaks[0]}


def readout(on: str, dtype: str, intensity: float, performance: float) -> Document:
    """What a point of the plane means: its coordinates, the side, and its share of the roof above it."""
    roofs = machine_roofs(on, dtype)
    engine, level = roofs.engines[0], roofs.levels[0]
    roof, side = roofs.attainable(intensity, engine, level), side_of(intensity, roofs.ridges[0])
    spot = f"AI {show(intensity, 'flop/B')}, performance {_rate(performance, engine)}"
    share = performance / roof
    if share > 1 + AT_RIDGE:
        verdict = f"Above the roof of {_rate(roof, engine)}: no kernel on this machine can be here."
    elif abs(intensity / roofs.ridges[0] - 1) < AT_RIDGE:
        verdict = f"At the ridge: both roofs allow {_rate(roof, engine)}, this point is at {percent(share)} of it."
    else:
        verdict = f"{side}-bound side: the roof is {_rate(roof, engine)}, this point is at {percent(share)} of it."
    return {"answer": [spot, verdict], "side": side, "attainable": roof, "share_of_roofline": share}


def _rate(value: float, engine: str) -> str:
    return show(value, rate_unit([engine]))


# -- a roof that moves ---------------------------------------------------------------------------------------------------


def roof(on: str, dtype: str, compute: float, bandwidth: float) -> Document:
    """A machine with so many times its compute and its bandwidth, its old roof as a thin line, and three kernels on it."""
    base = machine_roofs(on, dtype)
    engine, level = base.engines[0], base.levels[0]
    peak, speed = base.peaks[0] * compute, base.bandwidths[0] * bandwidth
    corner, old = peak / speed, base.ridges[0]
    changed = base.machine.with_figures(peak, speed)
    roofs = Roofs(changed, [changed.engine("matrix", dtype)], [level])
    across = (MIN_INTENSITY, old * MAX_FACTOR**2 * 1.5)
    up = (across[0] * base.bandwidths[0] / MAX_FACTOR, base.peaks[0] * MAX_FACTOR * 1.5)
    across, up = equal_decades((across, up))
    lines, corners = roofs.lines(across)
    words = {"bandwidth": f"memory {show(speed, 'B/s')}", "peak": f"peak {rate(peak, engine)}"}
    lines = [
        replace(line, label=words[line.role], group={"bandwidth": "HBM", "peak": "peak"}[line.role]) for line in lines
    ]
    before, _ = base.lines(across)
    thin = [replace(line, role="guide", label="", group="") for line in before]
    chart = Chart(
        "roofline", f"{base.machine.name} in {dtype} with another roof", *plane_axes((across, up), base.engines), "",
        (*thin, *lines), (*corners, *_kernels(roofs, dtype)), regions=bound_regions([corner], across), marks=(ridge_mark(corners[0]),),
    )  # fmt: skip
    return {"answer": _moved(corner, old, compute, bandwidth), "ridge": corner, "peak": peak, "bandwidth": speed, "chart": pictured(chart)}  # fmt: skip


def _kernels(roofs: Roofs, dtype: str) -> list[Point]:
    points = []
    for rows in ROWS:
        at = float(linear(rows, LAYER, LAYER, dtype=dtype).intensity())
        height = roofs.attainable(at, roofs.engines[0], roofs.levels[0])
        group = f"{side_of(at, roofs.ridges[0])}-bound"
        details = {"intensity": at, "attainable": height}
        points.append(Point(at, height, f"batch {rows}", group, "expected", f"{LAYER} x {LAYER} layer, batch {rows}", details))  # fmt: skip
    return points


def _moved(corner: float, old: float, compute: float, bandwidth: float) -> list[str]:
    if compute == bandwidth == 1:
        return [f"Ridge at {show(corner, 'flop/B')}.", "Move a slider: the thin line stays where the roof is now."]
    way = "stays" if compute == bandwidth else "moves right" if corner > old else "moves left"
    verdict = f"Ridge {way}: {show(corner, 'flop/B')} instead of {show(old, 'flop/B')} ({show(corner / old)}x)."
    parts = []
    for factor, what, whom in ((compute, "compute", "compute-bound"), (bandwidth, "bandwidth", "memory-bound")):
        if factor != 1:
            parts.append(f"{show(factor)}x {what}: {whom} kernels get {'faster' if factor > 1 else 'slower'}")
    return [verdict, "; ".join(parts) + "."]


# -- generations and phases ----------------------------------------------------------------------------------------------


def growth(machines: Sequence[str], dtype: str) -> Document:
    """Cards of machines in the order given, and what each step brought, by stated dense figures."""
    every = [machine_of(name) for name in dict.fromkeys(machines)]
    rows = generations(every, dtype, "stated")
    chart = find("compare")(every[0], machines=every, dtype=dtype, ceilings="stated")
    verdict = [_step(old, new) for old, new in pairwise(rows)]
    return {"answer": verdict, "cards": [_card(row) for row in rows], "chart": pictured(chart)}


def _card(row: Generation) -> Document:
    facts = [
        ("compute", rate(row.peak, row.engine)),
        ("bandwidth", show(row.bandwidth, "B/s")),
        ("ridge", show(row.ridge, "flop/B")),
    ]
    gains = ""
    if row.compute_growth and row.bandwidth_growth:
        facts += [
            ("compute grew", f"{show(row.compute_growth)}x"),
            ("bandwidth grew", f"{show(row.bandwidth_growth)}x"),
        ]
        gains = f"gains more: {row.gains}"
    return {
        "name": row.name, "title": load(row.name).title, "facts": facts, "gains": gains, "ridge": row.ridge, "peak": row.peak,
        "bandwidth": row.bandwidth, "compute_growth": row.compute_growth, "bandwidth_growth": row.bandwidth_growth,
    }  # fmt: skip


def _step(old: Generation, new: Generation) -> str:
    way = "right" if new.ridge > old.ridge else "left" if new.ridge < old.ridge else "nowhere"
    factors = f"compute {show(new.compute_growth)}x, bandwidth {show(new.bandwidth_growth)}x"
    return f"{old.name} to {new.name}: {factors}; the ridge moves {way}, from {show(old.ridge)} to {show(new.ridge)}; gains more: {new.gains}."


def phases(on: str, dtype: str, hidden: int, prompt: int) -> Document:
    """Prefill and decode of one layer: two charts and a table from the same predictions."""
    study = predict_phases(machine_of(on), dtype, prompt, hidden)
    corners = {"prefill": study.prefill.kernels, "decode": study.decode.kernels}
    pairs = list(zip(*corners.values(), strict=True))
    rows = [_pair(prefill, decode) for prefill, decode in pairs]
    crossed = [prefill.name for prefill, decode in pairs if prefill.bound == "compute" and decode.bound != "compute"]
    many = f"{' and '.join(crossed)} {'is' if len(crossed) == 1 else 'are'}" if crossed else "No operation is"
    table = Table(
        "", columns("operation", Column("prefill AI"), "prefill bound", Column("decode AI"), "decode bound"), rows
    )
    return {
        "answer": [f"{many} compute-bound in prefill and memory-bound in decode." if crossed else f"{many} compute-bound in prefill with a prompt of {prompt}."],
        "chart": pictured(phases_chart(study)), "table": tabled(table),
    }  # fmt: skip


def _pair(prefill: PredictedKernel, decode: PredictedKernel) -> Document:
    return {
        "operation": prefill.name, "prefill AI": float(intensity_text(prefill.intensity).replace(",", "")), "prefill bound": prefill.bound,
        "decode AI": float(intensity_text(decode.intensity).replace(",", "")), "decode bound": decode.bound,
    }  # fmt: skip
