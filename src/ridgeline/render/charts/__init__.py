"""The charts by name: from machines, works and predictions to neutral Chart values. Nothing is drawn here.

Every builder takes a Machine first and works on any of them: what a machine does not state is left out and said in
the notes, and only when nothing is left does it raise. `CHARTS` lists them for the command line and the page.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...core.errors import unknown
from ...core.machine import Machine
from ..chart import Picture
from .figures import bandwidth, bandwidth_bars, losses, peaks, pyramid, trend, waterfall
from .ops import batch, blas, dl, efficiency, phases, scale
from .paths import changes, versions
from .roofs import Seen, ceilings_chart, compare, gaps, locality, precisions, roofline

__all__ = ["CHARTS", "Kind", "Seen", "bandwidth_bars", "find", "gaps", "roofline", "waterfall"]


@dataclass(frozen=True)
class Kind:
    """A chart by name; called with a machine and those options its builder takes."""

    name: str
    build: Callable[..., Picture]

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.build) or "").splitlines()[0]

    @property
    def options(self) -> list[str]:
        return [name for name in inspect.signature(self.build).parameters if name != "machine"]

    def __call__(self, machine: Machine, **options: Any) -> Picture:
        given = {name: value for name, value in options.items() if value is not None}
        for name in given:
            if name not in self.options:
                raise unknown(f"option of the {self.name} chart", name, self.options)
        return self.build(machine, **given)


_BUILDERS: dict[str, Callable[..., Picture]] = {
    "roofline": roofline, "ceilings": ceilings_chart, "precisions": precisions, "locality": locality, "blas": blas, "dl": dl, "scale": scale,
    "peaks": peaks, "pyramid": pyramid, "efficiency": efficiency, "batch": batch, "compare": compare, "phases": phases, "trend": trend,
    "gaps": gaps, "bandwidth": bandwidth, "losses": losses, "changes": changes, "versions": versions,
}  # fmt: skip
CHARTS = {name: Kind(name, build) for name, build in _BUILDERS.items()}


def find(name: str) -> Kind:
    if name not in CHARTS:
        raise unknown("chart", name, CHARTS, "See `ridgeline chart`.")
    return CHARTS[name]
