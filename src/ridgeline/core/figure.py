"""Figure: one quantity of a machine by provenance; Level and Link, which are made of figures; Ceiling, a figure in use.

A figure may hold three values: `stated` by the vendor, `derived` from counts and clocks, `measured` by a
benchmark. None overwrites another; whoever asks names the kind, or takes the best there is (measured, else stated,
else derived) and learns which it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from .errors import unknown

KINDS = ("measured", "stated", "derived")

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


NO_TIME, NO_POWER = Figure("s"), Figure("W")  # not known


@dataclass(frozen=True)
class Level:
    """One level of memory. `capacity` is of one instance; `bandwidth` of all of them together."""

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


@dataclass(frozen=True)
class Link:
    """A connection to other devices; `per_direction` is the payload rate one way."""

    name: str
    per_direction: Figure
    topology: str = ""
    note: str = ""

    DOCUMENT: ClassVar = (
        "name", "per_direction=per_direction.value", "source=per_direction.why", "topology", "note",
    )  # fmt: skip


@dataclass(frozen=True)
class Ceiling:
    """A figure as it was used: its name, value, kind, uncertainty and the sentence behind it."""

    name: str
    value: float
    kind: str
    uncertainty: float
    why: str
