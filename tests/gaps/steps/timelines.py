"""Timelines made by hand: a host that launches, a device that runs, steps that repeat. Times are in microseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ridgeline.core.timeline import (
    FORWARD,
    KERNEL,
    Activity,
    Call,
    Columns,
    Runs,
    Site,
    Steps,
    Tensor,
    Timeline,
    Waits,
)

MICRO = 1e-6


def tensor(*shape: int, dtype: str = "bf16") -> Tensor:
    return Tensor(shape, dtype)


def call(name: str, *args: Any) -> Call:
    return Call(name, args)


ADD = call("aten::add", tensor(1 << 20), tensor(1 << 20), 1)


@dataclass
class Story:
    """A program step by step: `launch` dispatches a kernel, `wait` synchronises, `pause` waits for data, `end` ends a step."""

    host: float = 0.0
    device: dict[int, float] = field(default_factory=dict)
    runs: list[tuple[float, float, int, int, int, int, bool, float]] = field(default_factory=list)
    calls: list[tuple[float, float, int]] = field(default_factory=list)
    waits: list[tuple[float, float, int, str, str]] = field(default_factory=list)
    sites: dict[Site, int] = field(default_factory=dict)
    activities: dict[Any, int] = field(default_factory=dict)
    listed: list[Activity] = field(default_factory=list)
    steps: list[tuple[float, float]] = field(default_factory=list)
    began: float = 0.0

    def site(self, site: Site | None) -> int:
        return -1 if site is None else self.sites.setdefault(site, len(self.sites))

    def launch(self, site: Site | Call | None, *times: float, cost: float = 10.0, stream: int = 7, kind: str = KERNEL,
               name: str = "kernel", kernel: str = "", graph: bool = False, **settings: Any) -> Story:  # fmt: skip
        """One call of the host that takes `cost`, and its runs on the device, one after the other."""
        place = self.site(Site(site, FORWARD) if isinstance(site, Call) else site)
        key = (kind, name, kernel, tuple(sorted(settings.items())))
        if key not in self.activities:
            self.activities[key] = len(self.listed)
            self.listed.append(Activity(kind, name, kernel or name, "0", settings))
        start = self.host
        self.host += cost
        number = len(self.calls) if place >= 0 else -1
        if place >= 0:
            self.calls.append((start, self.host, place))
        for time in times:
            begin = max(self.host, self.device.get(stream, 0.0))
            self.device[stream] = begin + time
            self.runs.append((begin, begin + time, place, self.activities[key], number, stream, graph, self.host))
        return self

    def wait(self, operator: str = "aten::item", source: str = "train.py:9", cost: float = 0.0) -> Story:
        """The host stands still until the device is done, and `cost` longer."""
        done = max([self.host, *self.device.values()]) + cost
        place = self.site(Site(Call(operator), FORWARD, source=source))
        self.waits.append((self.host, done, place, operator, "cudaStreamSynchronize"))
        self.host = done
        return self

    def pause(self, time: float) -> Story:
        """The host waits for data."""
        self.waits.append((self.host, self.host + time, -1, "data loader", "enumerate(DataLoader)"))
        self.host += time
        return self

    def work(self, time: float) -> Story:
        """The host does something else."""
        self.host += time
        return self

    def end(self) -> Story:
        done = max(
            [self.host if not self.device else 0.0, *self.device.values(), self.waits[-1][1] if self.waits else 0.0]
        )
        self.steps.append((self.began, max(done, self.began)))
        self.began = max(done, self.began)
        return self

    def timeline(self, **parts: Any) -> Timeline:
        rows = sorted(self.runs)
        steps = self.steps or [(0.0, max(self.host, *self.device.values()))]
        columns = list(zip(*rows, strict=True))
        launched = np.array(columns[7]) * MICRO
        edges = np.array(self.edges or [0.0])
        return Timeline(
            sites=tuple(self.sites),
            activities=tuple(self.listed),
            runs=Runs(
                start=np.array(columns[0]) * MICRO, end=np.array(columns[1]) * MICRO, site=np.array(columns[2]),
                activity=np.array(columns[3]), call=np.array(columns[4]), stream=np.array(columns[5]),
                step=np.searchsorted(edges, np.array(columns[7]), side="left") - 1 if self.edges else np.zeros(len(rows), int),
                correlated=np.array(columns[2]) >= 0, graph=np.array(columns[6]), launched=launched,
            ),
            calls=Columns(*(np.array([row[place] for row in self.calls], float) * MICRO for place in (0, 1)),
                          np.array([row[2] for row in self.calls], int)),
            waits=Waits(*(np.array([row[place] for row in self.waits], float) * MICRO for place in (0, 1)),
                        np.array([row[2] for row in self.waits], int), tuple(row[3] for row in self.waits),
                        tuple(row[4] for row in self.waits)),
            steps=Steps(*(np.array(edge) * MICRO for edge in zip(*steps, strict=True)), "marked"),
            **{"tool": "by hand", **parts},
        )  # fmt: skip

    edges: list[float] = field(default_factory=list)  # host times at which steps begin


def repeated(step: Any, times: int = 4, **parts: Any) -> Timeline:
    """The same step several times: `step` tells it to a Story."""
    story = Story()
    for _ in range(times):
        story.edges.append(story.host)
        step(story)
        story.end()
    return story.timeline(**parts)
