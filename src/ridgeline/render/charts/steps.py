"""Charts of a program report: its operators on the roofline, and the phases of a step measured and predicted."""

from __future__ import annotations

from dataclasses import replace

from ...core.errors import InputError
from ...core.units import show
from ...gaps.steps.report import ProgramReport
from ..chart import NO_AXIS, Axis, Bar, Chart, Panel, Picture
from .gaps import landed_chart, landed_item
from .wording import bound_title, name_of


def step_chart(report: ProgramReport) -> Picture:
    """The operators on the roofline, where any does arithmetic, and the phases of the step next to it."""
    phases = phase_chart(report)
    try:
        roofline = op_chart(report)
    except InputError:
        return phases
    return Panel(step_title(report), (roofline, phases))


def step_title(report: ProgramReport) -> str:
    return f"Where a step of {show(report.view.step, 's', 3)} goes on {name_of(report.machine)}"


def op_chart(report: ProgramReport) -> Chart:
    """Operators by their counts and measured times; the area of a dot is its share of device time."""
    shown = [item for item in report.by_time if item.gap.target.flops and item.gap.target.bytes]
    if not shown:
        raise InputError("no operator of this program does arithmetic, so none has a place on the roofline")
    left_out = [item.name for item in report.by_time if not (item.gap.target.flops and item.gap.target.bytes)]
    kernels = [replace(landed_item(report.machine, item), bound=bound_title(item.gap.target.bound)) for item in shown]
    return landed_chart(report.machine, f"Operators on the roofline of {name_of(report.machine)}", kernels, left_out)


def phase_chart(report: ProgramReport) -> Chart:
    """Two bars a phase, one after the other from left to right: measured above, predicted below."""
    rows = {name: row for name, row in report.view.phases.items() if row["device_us"]}
    bars: list[Bar] = []
    for label, key in (("measured", "device_us"), ("predicted", "predicted_us")):
        reached = 0.0
        for name, row in rows.items():
            time = (row[key] or 0.0) / 1e6
            if not time:
                continue
            bars.append(
                Bar(f"{label}: {name}", reached + time, reached, show(time, "s", 3), label, "value", {"us": time * 1e6})
            )
            reached += time
    idle = report.view.step_idle
    if idle > 0:
        device = report.view.device
        bars.append(Bar("idle", device + idle, device, show(idle, "s", 3), "idle", "loss", {"us": idle * 1e6}))
    limit = max((bar.value for bar in bars), default=1.0) * 1.02
    across = Axis("time per step", "s", "linear", (0.0, limit))
    title = f"Device time of a step by phase on {name_of(report.machine)}"
    return Chart("phases", title, across, NO_AXIS, report.view.regime, bars=tuple(bars), look="bars")
