"""The state of one GPU measurement: the device, what is watched, the observations so far, what could not be measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...core.errors import RidgelineError, first_line
from ...core.machine import Machine
from ...core.observation import Observation
from ...core.version import __version__
from ...core.work import Work
from ..conditions import now
from ..protocol import Clock, Probe, Progress, Run, observation
from .conditions import Watch, summary
from .device import Device, Library


@dataclass
class Session:
    device: Device | None
    library: Library | None
    machine: Machine | None
    watch: Watch
    clock: Clock
    quick: bool
    facts: dict[str, Any]
    gaps: list[str]
    on_progress: Progress | None = None
    sms: int = 132
    l2: int = 0
    scale: int = 8192  # rows of the larger matrix products
    essential: bool = False  # nothing but the ceilings of a roofline
    spans: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    observations: list[Observation] = field(default_factory=list)

    @property
    def main(self) -> str:
        return self.machine.main.name if self.machine and self.machine.levels else "hbm"

    def tell(self, done: int, total: int, label: str) -> None:
        if self.on_progress:
            self.on_progress(done, total, label)

    def watched(self, probe: Probe) -> Probe:
        """The probe with its times on the host's clock noted and a failing device named."""
        spans = self.spans.setdefault(probe.name, [])

        def call(loops: int) -> Any:
            start = self.clock.now()
            try:
                return probe.call(loops)
            except (RidgelineError, KeyboardInterrupt):
                raise
            except Exception as error:
                raise RidgelineError(f"probe {probe.name}: the device failed: {first_line(error)}") from error
            finally:
                spans.append((start, self.clock.now()))

        return replace(probe, call=call)

    def conditions(self, name: str) -> dict[str, Any]:
        during = summary(self.watch.during(self.spans.get(name, ())))
        return {**self.facts, "during": during, "gaps": list(self.gaps), "date": now()}

    def keep(self, run: Run) -> None:
        """The observations of the probes that took turns."""
        for series in run.series:
            conditions = self.conditions(series.probe.name)
            self.observations.append(observation(series, conditions, __version__, run.partial))
        if run.partial:
            self.gaps.append(f"{run.why}: {', '.join(run.missing) or 'the sustained loads'} not measured")

    def add(
        self, name: str, target: str, samples: Sequence[float], work: Work, settings: dict[str, Any], *notes: str
    ) -> None:
        """An observation that no series of interleaved samples stands behind."""
        conditions = self.conditions(name)
        self.observations.append(
            Observation(name, target, tuple(samples), work, settings, conditions, "ridgeline", __version__, notes)
        )
