"""Pace: whether host or device sets the time of a step, over all of it and phase by phase.

    sensitivity = relative change of the step time / relative change of all times of the host, or of the device

Both are probed on the queue of launches. Where the host never waits, that of the host is 1 and that of the device 0; in a
step that synchronises, each sets the time of a part. A phase is host-bound where its launches take the host longer than
its runs take the device by a margin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...core.timeline import OPTIMIZER, OTHER, PHASES
from ...core.units import percent
from ...prediction.queue import DEVICE_BOUND, HOST_BOUND, PROBE, Queue
from .kept import Kept

MIXED = 1 / 3  # of both sensitivities, from which the smaller one is named too
MARGIN = 1.5  # host time over device time, from which a phase is clearly host-bound
FULL = 0.95  # of the step in which the device is busy, from which a faster host could bring next to nothing
MIN_PHASE = 0.1  # of the step, from which a phase counts


@dataclass(frozen=True)
class Pace:
    """`host_times` and `device_times` are seconds per step of each phase."""

    host: float  # sensitivity
    device: float
    busy: float  # share of the step in which the device runs something
    host_times: Mapping[str, float]
    device_times: Mapping[str, float]

    DOCUMENT: ClassVar = ("host_sensitivity=host", "device_sensitivity=device", "host_bound_phases")

    @property
    def regime(self) -> str:
        return HOST_BOUND if self.host > self.device and self.busy < FULL else DEVICE_BOUND

    @property
    def host_bound_phases(self) -> tuple[str, ...]:
        """The phases that count and take the host clearly longer than the device."""
        return tuple(phase for phase in self._counting if self.host_times[phase] > MARGIN * self.device_times[phase])

    @property
    def _counting(self) -> tuple[str, ...]:
        longest = {phase: max(self.host_times[phase], self.device_times[phase]) for phase in PHASES}
        total = max(sum(self.host_times.values()), sum(self.device_times.values()))
        return tuple(phase for phase in PHASES if longest[phase] >= MIN_PHASE * total > 0)

    @property
    def text(self) -> str:
        """`device-bound`, `host-bound in the optimizer`, `device-bound 70 %, host-bound 30 % (optimizer)`."""
        late = self.host_bound_phases
        partly = 0 < len(late) < len(self._counting)
        both = self.host + self.device
        if min(self.host, self.device) < MIXED * both:
            named = f" in {_listed(late)}" if partly and self.regime == HOST_BOUND else ""
            return f"{self.regime}{named}"
        where = f" ({', '.join(_names(late))})" if partly else ""
        shares = {HOST_BOUND: f"{percent(self.host / both)}{where}", DEVICE_BOUND: percent(self.device / both)}
        other = DEVICE_BOUND if self.regime == HOST_BOUND else HOST_BOUND
        return ", ".join(f"{name} {shares[name]}" for name in (self.regime, other))


def _names(phases: tuple[str, ...]) -> list[str]:
    return ["the rest" if phase == OTHER else phase for phase in phases]


def _listed(phases: tuple[str, ...]) -> str:
    names = _names(phases)
    return f"the {names[0]}" if names == [OPTIMIZER] else " and ".join(names)


def pace(kept: Kept, queue: Queue) -> Pace:
    """What sets the time of a step with this queue."""
    wall = queue.wall()
    host, device = (wall - queue.faster(**{side: 1 - PROBE}).wall() for side in ("host", "device"))
    scale = PROBE * wall if wall else 1.0
    phases = _phases(kept, queue)
    sums = [_by_phase(phases, times) for times in (queue.cost, np.where(queue.runs, queue.time, 0.0))]
    busy = sum(sums[1].values()) / wall if wall else 0.0
    return Pace(max(host, 0.0) / scale, max(device, 0.0) / scale, busy, *sums)


def _phases(kept: Kept, queue: Queue) -> list[str]:
    """The phase of each event; a wait belongs to what was launched before it."""
    listed, phase = list[str](), OTHER
    for place, is_run in zip(queue.place.tolist(), queue.runs.tolist(), strict=True):
        if is_run:
            site = int(kept.site[place])
            phase = kept.timeline.sites[site].phase if site >= 0 else OTHER
        listed.append(phase)
    return listed


def _by_phase(phases: list[str], times: np.ndarray[tuple[int], np.dtype[np.float64]]) -> dict[str, float]:
    sums = dict.fromkeys(PHASES, 0.0)
    for phase, time in zip(phases, times.tolist(), strict=True):
        sums[phase] += time
    return sums
