"""Figure: one quantity of a machine by provenance; Level and Link, which are made of figures; Ceiling, a figure in use.

A figure may hold three values: `stated` by the vendor, `derived` from counts and clocks, `measured` by a
benchmark. None overwrites another; whoever asks names the kind, or takes the best there is (measured, else stated,
else derived) and learns which it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from .errors import unknown

KINDS = ("measured", "stated", "derived")

READ_MIX = "read"  # the access mix that the bandwidth of a level is of, where mixes were measured

# Relative uncertainty of a ceiling by where it comes from, when the file gives none (see docs/understand/model.md).
UNCERTAINTY = {"measured": 0.03, "stated": 0.10, "derived": 0.10}


@dataclass(frozen=True)
class Figure:
    """One quantity in base units, by provenance; an unknown value is None, never a guess."""

    unit: str
    stated: float | None = None
    derived: float | None = None
    measured: float | None = None
    source: str = ""
    derivation: str = ""
    measurement: str = ""
    differs: str = ""
    spread: float | None = None
    sustained: float | None = None  # measured under lasting load; `measured` is the best sample

    DOCUMENT: ClassVar = (
        "stated", "derived", "measured", "source", "derivation?", "measurement?", "differs?", "spread?", "sustained?",
    )  # fmt: skip

    def kind(self, asked: str | None = None) -> str:
        """Which provenance answers: the one asked for, else the best there is."""
        if asked is not None:
            if asked not in KINDS:
                raise unknown("kind of ceiling", asked, KINDS)
            return asked
        return next((kind for kind in KINDS if getattr(self, kind) is not None), KINDS[1])

    def value(self, asked: str | None = None) -> float | None:
        value: float | None = getattr(self, self.kind(asked))
        return value

    def uncertainty(self, asked: str | None = None) -> float:
        kind = self.kind(asked)
        return max(self.spread or 0.0, UNCERTAINTY[kind]) if kind == "measured" else UNCERTAINTY[kind]

    def why(self, asked: str | None = None) -> str:
        """The sentence behind the value used: its source, derivation or measurement."""
        sentences = {"stated": self.source, "derived": self.derivation, "measured": self.measurement}
        return sentences[self.kind(asked)]


def of_reads(bandwidth: Figure, mixes: Mapping[str, Figure]) -> Figure:
    """The bandwidth of a level with what was measured of its reads, where that was measured."""
    reads = mixes.get(READ_MIX)
    if reads is None or reads.measured is None:
        return bandwidth
    taken = {name: getattr(reads, name) for name in ("measured", "measurement", "spread", "sustained")}
    return replace(bandwidth, **taken)


NO_TIME, NO_POWER, NO_SHARE = Figure("s"), Figure("W"), Figure("")  # not known


@dataclass(frozen=True)
class Level:
    """One level of memory. `capacity` is of one instance; `bandwidth` of all of them together.

    Where access mixes were measured, the measured bandwidth is that of reads, which feed arithmetic: the best of all
    mixes may be that of writes. A kernel is judged by its own mix, between those measured.
    """

    name: str
    bandwidth: Figure
    capacity: Figure
    scope: str = "chip"
    instances: int = 1
    latency: Figure = NO_TIME
    technology: str = ""
    source: str = ""
    note: str = ""
    mixes: Mapping[str, Figure] = field(default_factory=dict)  # bandwidth by access mix: read, write, copy, triad ...

    DOCUMENT: ClassVar = (
        "name", "capacity=capacity.value", "total_capacity=total", "scope", "instances", "bandwidth",
        "latency=latency.value", "technology", "source=source_or_bandwidths", "note", "mixes?",
    )  # fmt: skip

    @property
    def total(self) -> float | None:
        """Capacity of all instances."""
        size = self.capacity.value()
        return None if size is None else size * self.instances

    @property
    def source_or_bandwidths(self) -> str:
        return self.source or self.bandwidth.source


# How devices are joined.
SWITCH, MESH, TORUS, PAIR, BUS, NETWORK = "switch", "mesh", "torus", "pair", "bus", "network"
TOPOLOGIES = (SWITCH, MESH, TORUS, PAIR, BUS, NETWORK)


@dataclass(frozen=True)
class Link:
    """A connection to other devices. `per_direction` is the payload rate one way of all its links of a device together.

    `devices` says how many devices it joins without a network in between, `latency` what one hop takes, `efficiency`
    and `in_network` which share of the rate large collectives reach, by rings and with sums made in the switch. Where
    ranks are `apart` devices from each other, as those of data parallelism are behind tensor parallelism, it joins fewer of
    them; the links of a mesh or a torus lead to the other devices all the same.
    """

    name: str
    per_direction: Figure
    topology: str = ""
    note: str = ""
    links: int = 0  # of a device; 0 where it is not stated
    devices: int = 0  # that it joins; 0 where it is not stated, or where there is no limit
    dimensions: int = 0  # of a torus
    reduces: bool = False  # its switches can add up what passes through them
    latency: Figure = NO_TIME
    efficiency: Figure = NO_SHARE
    in_network: Figure = NO_SHARE
    apart: int = 1  # devices from one rank to the next

    DOCUMENT: ClassVar = (
        "name", "per_direction=per_direction.value", "source=per_direction.why", "topology", "note", "links?",
        "per_link?", "devices?", "dimensions?", "reduces?", "latency?=latency.value", "efficiency?=efficiency.value",
        "in_network?=in_network.value",
    )  # fmt: skip

    @property
    def reach(self) -> int:
        """Ranks that it joins without a network in between, 1 where the next one is beyond it; 0 as `devices`."""
        return max(self.devices // self.apart, 1) if self.devices else 0

    @property
    def per_link(self) -> float | None:
        """The rate of one link one way, where their number is stated."""
        rate = self.per_direction.value()
        return None if rate is None or not self.links else rate / self.links


@dataclass(frozen=True)
class Ceiling:
    """A figure as it was used: its name, value, kind, uncertainty and the sentence behind it."""

    name: str
    value: float
    kind: str
    uncertainty: float
    why: str
    stated: float | None = None  # the vendor's figure, whichever kind is used
