"""The exercise of the two gaps: recorded versions of one GEMM, each with both gaps and the roof that applies to it."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from ....core.machine import MAIN, Machine
from ....core.units import percent, show
from ....machines.load import load
from ....render.chart import Arrow, Chart, Point
from ....render.charts.changes import Version, versions
from ....render.charts.plane import Roofs
from ....render.charts.wording import engine_title, level_title, rate, times
from .lookup import case_of_text
from .pictures import pictured

FILE = Path(__file__).with_name("gemm_versions.toml")
RECORDED = "Recorded with Nsight Compute on an NVIDIA H200; the kernels are in examples/gemm_path of the repository."
# What moves a dot straight up once the right roof applies: none of these changes the bytes.
ACTIONS = (
    "overlap the loads of the next tile with the arithmetic of this one",
    "keep enough independent multiply-adds in flight",
    "avoid shared-memory bank conflicts",
    "keep dependency chains short",
    "wait less at synchronization points",
)
NEXT = {
    "naive": "Next: tile. Fewer bytes come first, since they decide which roof applies.",
    "tiled": "Next: keep the units busy. Fewer bytes would not raise this roof.",
}
Document = dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """A version against the roofs: horizontal gap = algorithmic over observed AI, vertical gap = roof at the observed AI over achieved rate."""

    version: Version
    what: str
    algorithmic: float
    roofs: Roofs

    @property
    def intensity(self) -> float:
        return self.version.spot[0]

    @property
    def roof(self) -> float:
        return self.roofs.attainable(self.intensity, self.roofs.engines[0], self.roofs.levels[0])

    @property
    def side(self) -> str:
        return "compute" if self.intensity >= self.roofs.ridges[0] else "memory"

    @property
    def horizontal(self) -> float:
        return self.algorithmic / self.intensity

    @property
    def vertical(self) -> float:
        return self.roof / self.version.spot[1]


@cache
def stages() -> tuple[Stage, ...]:
    """The recorded versions, in the order they were written."""
    source = tomllib.loads(FILE.read_text(encoding="utf-8"))
    machine: Machine = load(source["machine"])
    roofs = Roofs(machine, [source["engine"]], [machine.bandwidth(MAIN).name])
    op, values = case_of_text(source["case"])
    algorithmic = float(op(**values).intensity())
    return tuple(
        Stage(
            Version(row["name"], row["time"], float(row["flops"]), float(row["bytes"])), row["what"], algorithmic, roofs
        )
        for row in source["version"]
    )


def path() -> Document:
    """Every stage with its chart: the path as far as this stage, and both gaps as arrows."""
    every = stages()
    return {"recorded": RECORDED, "stages": [_stage(every, number) for number in range(len(every))]}


def _stage(every: Sequence[Stage], number: int) -> Document:
    stage = every[number]
    engine, level = engine_title(stage.roofs.engines[0]), level_title(stage.roofs.levels[0])
    roof = f"the {level} bandwidth" if stage.side == "memory" else f"the peak of {engine}"
    before = every[number - 1] if number else None
    if before is None:
        crossing = f"It is left of the ridge at {show(stage.roofs.ridges[0], 'flop/B')}"
    elif before.side != stage.side:
        crossing = f"The dot crossed the ridge at {show(stage.roofs.ridges[0], 'flop/B')}, so another roof applies"
    else:
        crossing = "The same roof applies as before"
    name = stage.version.name
    harmless = " (harmless right of the ridge: fewer bytes do not raise this roof)" if stage.side == "compute" else ""
    faster = f", {times(before.version.time / stage.version.time)} faster than {before.version.name}" if before else ""
    lines = [
        f"{name}: {show(stage.version.time, 's')}{faster}; horizontal gap {times(stage.horizontal)}, vertical gap {times(stage.vertical)}.",
        f"{crossing}: {roof} allows {rate(stage.roof, stage.roofs.engines[0])} at AI {show(stage.intensity)}.",
        f"Horizontal: AI {show(stage.intensity)} observed, {show(stage.algorithmic)} of the algorithm, {show(stage.version.bytes, 'B')} moved{harmless}.",
        f"Vertical: {rate(stage.version.spot[1], stage.roofs.engines[0])} reached, {percent(1 / stage.vertical)} of that roof.",
        *([NEXT[name]] if name in NEXT else []),
    ]
    return {
        "title": f"Stage {number + 1}: {name}", "what": stage.what, "answer": lines, "horizontal_gap": stage.horizontal, "vertical_gap": stage.vertical,
        "roof": stage.side, "intensity": stage.intensity, "actions": list(ACTIONS) if number == len(every) - 1 else [],
        "chart": pictured(_chart(every, number)),
    }  # fmt: skip


def _chart(every: Sequence[Stage], number: int) -> Chart:
    """The versions up to this one under the same axes at every stage; the gaps of this one as arrows."""
    stage, machine = every[number], every[number].roofs.machine
    complete = versions(machine, [item.version for item in every], engine=stage.roofs.engines[0], title="bf16 GEMM 8192³ on h200-sxm")  # fmt: skip
    shown = {item.version.name for item in every[: number + 1]}
    points = [dot for dot in complete.points if dot.role == "ridge" or dot.name in shown]
    (at, reached), top = stage.version.spot, stage.roofs.peaks[0]
    best = Point(stage.algorithmic, top, "the algorithm", "", "target", "the algorithm, every element moved once", {"intensity": stage.algorithmic})  # fmt: skip
    gaps = (
        Arrow((at, reached), (at, stage.roof), f"vertical {times(stage.vertical)}", "gap", "memory-bound" if stage.side == "memory" else "compute-bound"),
        Arrow((at, reached), (stage.algorithmic, reached), f"horizontal {times(stage.horizontal)}", "gap", ""),
    )  # fmt: skip
    return replace(complete, points=(*points, best), arrows=gaps, notes=())
