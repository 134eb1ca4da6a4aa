"""Extended rooflines: energy efficiency and communication; and an annotated roofline that says how to read one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...core.machine import Machine
from ...core.units import show
from ...prediction.ceilings import default_dtype, engine_for
from ...prediction.extended import TRAINING_TOKENS, CommunicationRoofline, EnergyRoofline
from ..chart import LOG, Arrow, Axis, Chart, Line, Mark, Point, Region
from ..draw.labels import amount
from .plane import Roofs, decade_span, equal_decades, power_span, roof_chart
from .wording import INTENSITY, PER_BYTE, bound_title, engine_title, level_title, link_title, rate, rate_unit, title_of

CURVE_POINTS = 81


def energy(study: EnergyRoofline) -> Chart:
    """Energy efficiency against AI: half of the ceiling is reached at the energy balance point."""
    machine, balance, ceiling = study.machine, study.balance, 1 / study.per_flop
    spots = [(kernel, study.kernel_efficiency(kernel)) for kernel in study.kernels]
    across = power_span([balance / 64, balance * 32, *(kernel.intensity for kernel, _ in spots)], 2.0, 1.2)
    low = min([across[0] / study.per_byte, *(value for _, value in spots)])
    across, up = equal_decades((across, decade_span(low / 1.5, ceiling * 1.6)))
    at = np.geomspace(*across, CURVE_POINTS)
    lines = [
        Line(tuple(zip(at.tolist(), study.efficiency(at).tolist(), strict=True)), "series", "dynamic energy", ""),
        Line(((across[0], across[0] / study.per_byte), (balance, ceiling)), "bandwidth", f"{level_title(study.level)} {_pico(study.per_byte)}/B", level_title(study.level)),
        Line(((balance, ceiling), (across[1], ceiling)), "peak", f"{engine_title(study.engine)} {_pico(study.per_flop)}/FLOP", study.engine.partition(".")[0]),
    ]  # fmt: skip
    if study.static:
        curve = study.efficiency(at, static=True).tolist()
        name = f"with {study.static:.0f} W static power"
        lines.append(Line(tuple(zip(at.tolist(), curve, strict=True)), "target", name, "static power"))
    points = [
        Point(balance, ceiling / 2, "half of the ceiling", "", "ridge", "energy balance point", {"balance": balance})
    ]
    points += [
        Point(kernel.intensity, value, f"{kernel.name} {show(value, 'FLOP/J', 3)}", bound_title(kernel.bound), "expected", kernel.name, {"flop_per_joule": value})
        for kernel, value in spots
    ]  # fmt: skip
    regions = (
        Region("memory energy dominates", (across[0], balance), None, "memory"),
        Region("compute energy dominates", (balance, across[1]), None, "compute"),
    )
    figures = machine.energy.get(f"flop.{study.engine}")
    kind = f"{figures.kind()} energy" if figures is not None else "energy as given"
    return Chart(
        "energy", f"Energy roofline of {machine.name}", Axis(INTENSITY, PER_BYTE, LOG, across), Axis("energy efficiency", "FLOP/J", LOG, up),
        f"{title_of(machine)}, {kind}", tuple(lines), tuple(points), regions=regions,
        marks=(Mark("x", balance, f"energy balance {amount(balance, PER_BYTE)}", "ridge"),),
        notes=("dots: expected time, static power included",) if study.static else (),
    )  # fmt: skip


def _pico(joules: float) -> str:
    return f"{joules * 1e12:.3g} pJ"


def communication(study: CommunicationRoofline) -> Chart:
    """Attainable rate against FLOP per byte communicated, one roof and one ridge for each link."""
    machine, peak = study.machine, study.peak
    ridges = {name: study.ridge(name) for name in study.links}
    spread = [min(ridges.values()) / 16, max(ridges.values()) * 4, *study.training.values()]
    across = power_span(spread, 2.0, 1.2)
    low = across[0] * min(study.links.values()) * 4
    across, up = equal_decades((across, decade_span(low, peak * 1.6)))
    lines, points = [], []
    for name, speed in sorted(study.links.items(), key=lambda item: -item[1]):
        ends = ((across[0], across[0] * speed), (ridges[name], peak))
        group = "nic" if "NIC" in name else name
        lines.append(
            Line(
                ends,
                "bandwidth",
                f"{link_title(name)} {show(speed, 'B/s', 3)}",
                group,
                {"link": name, "bandwidth": speed},
            )
        )
        points.append(Point(ridges[name], peak, show(ridges[name], "", 3), group, "ridge", f"ridge of {name}"))
    engine = engine_title(study.engine)
    flat = ((min(ridges.values()), peak), (across[1], peak))
    lines.append(Line(flat, "peak", f"{engine} {rate(peak, study.engine)}", study.engine.partition(".")[0]))
    for name, x in study.training.items():
        link = study.carriers[name]
        attainable = min(peak, x * study.links[link])
        bound = "compute-bound" if x >= ridges[link] else "link-bound"
        points.append(Point(x, attainable, name, bound, "value", f"{name} over {link_title(link)}", {"intensity": x}))
    notes = (
        "numbers at the corners: ridge of each link, in FLOP per byte sent",
        f"data parallel: {TRAINING_TOKENS} tokens per step, ring all-reduce of bf16 gradients over the fastest link that joins all devices",
        "NIC: nominal rates of common network cards; links: payload per direction",
    )
    return Chart(
        "communication", f"Communication roofline of {machine.name}", Axis("FLOP per byte communicated", PER_BYTE, LOG, across),
        Axis("attainable performance", rate_unit([study.engine]), LOG, up), title_of(machine), tuple(lines), tuple(points), notes=notes,
    )  # fmt: skip


def anatomy(machine: Machine, dtype: str | None = None, ceilings: str | None = None) -> Chart:
    """How to read a roofline: both roofs, the ridge point, and a memory-bound, a compute-bound and an overhead-bound kernel."""
    engine = engine_for(machine, dtype or default_dtype(machine), ceilings)
    roofs = Roofs(machine, [engine], [machine.main.name], ceilings)
    (peak,), (bandwidth,), (ridge,) = roofs.peaks, roofs.bandwidths, roofs.ridges
    left, right, small = ridge / 24, ridge * 3, ridge / 3
    points = [
        Point(left, left * bandwidth * 0.45, "memory-bound kernel, 45 % of roofline", "memory-bound", "value"),
        Point(right, peak * 0.75, "compute-bound kernel, 75 %", "compute-bound", "value"),
        Point(small, small * bandwidth * 0.02, "overhead-bound kernel, 2 % of roofline", "overhead-bound", "value"),
        Point(left * 3, left * bandwidth * 0.45, "fewer bytes: move right", "memory-bound", "target"),
    ]  # fmt: skip
    arrows = [
        Arrow(points[0].spot, (left, left * bandwidth), "gap 2.2x: faster, move up", "gap", "memory-bound"),
    ]
    guides = [Line((points[0].spot, points[3].spot), "target", "", "memory-bound")]
    across, up = roofs.ranges([point.spot for point in points])
    notes = ["every kernel is one dot: x = FLOP / bytes moved, y = FLOP / time; nothing can be above the roofs", "example kernels, not measurements"]  # fmt: skip
    chart = roof_chart("anatomy", "How to read a roofline", [roofs], (across, up), guides, points, arrows, notes)
    labels = {
        "bandwidth": f"memory roof: AI x {show(bandwidth, 'B/s', 3)}",
        "peak": f"compute roof: {rate(peak, engine)}",
    }
    lines = tuple(replace(line, label=labels.get(line.role, line.label)) for line in chart.lines)
    mark = replace(chart.marks[0], label=f"ridge point {amount(ridge, PER_BYTE)}")
    return replace(chart, lines=lines, marks=(mark,), subtitle=roofs.subtitle)
