"""Machine: what the hardware can do, and where each figure comes from.

    peak = units x flop per unit and cycle x clock        bandwidth = clock x bus / 8 x transfers per clock

Every figure may hold three values side by side: `stated` by the vendor, `derived` from counts and clocks,
`measured` by a benchmark. None overwrites another; whoever asks says which kind, or takes the best there is
(measured, else stated, else derived) and is told which it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .dtypes import dtype as dtype_row
from .errors import InputError, MissingFigure, unknown

if TYPE_CHECKING:  # the formulas of the families bring numpy
    from .families.key import Key

KINDS = ("measured", "stated", "derived")
ENGINES = ("vector", "tensor", "tensor-sparse", "special")
RATES = (1.0, 10.0**27)  # flop/s and B/s that a machine may be given
GIVEN = "given by the caller"  # the source of figures that replace the machine's own
ANY = "peak"  # the peak of a two-number machine answers for every engine and dtype
MAIN = "main"  # what Work calls the outermost memory, whatever the machine calls it

# Share of the bytes that a measured access mix writes; a kernel takes the mix nearest to its own.
WRITE_SHARE = {"read": 0.0, "add": 1 / 3, "triad": 1 / 3, "scale": 1 / 2, "copy": 1 / 2, "write": 1.0}

# Relative uncertainty of a ceiling by where it comes from, when the file gives none (see docs/model.md).
UNCERTAINTY = {"measured": 0.03, "stated": 0.10, "derived": 0.10}


@dataclass(frozen=True)
class Figure:
    """One quantity in base units, by provenance; a value nobody published is None, never a guess."""

    unit: str
    stated: float | None = None
    derived: float | None = None
    measured: float | None = None
    source: str = ""
    derivation: str = ""
    measurement: str = ""
    differs: str = ""
    spread: float | None = None
    sustained: float | None = None  # measured under lasting load; `measured` is the best that was seen

    def kind(self, asked: str | None = None) -> str:
        """Which provenance answers: the one asked for, else the best there is."""
        if asked is not None:
            if asked not in KINDS:
                raise unknown("kind of ceiling", asked, KINDS)
            return asked
        return next((kind for kind in KINDS if getattr(self, kind) is not None), KINDS[1])

    def value(self, asked: str | None = None) -> float | None:
        found: float | None = getattr(self, self.kind(asked))
        return found

    def uncertainty(self, asked: str | None = None) -> float:
        least = UNCERTAINTY[self.kind(asked)]
        return max(self.spread or 0.0, least) if self.kind(asked) == "measured" else least

    def why(self, asked: str | None = None) -> str:
        """The sentence behind the value used: its source, derivation or measurement."""
        kind = self.kind(asked)
        return {"stated": self.source, "derived": self.derivation, "measured": self.measurement}[kind]

    def document(self) -> dict[str, Any]:
        rest = {"stated": self.stated, "derived": self.derived, "measured": self.measured, "source": self.source}
        extra: dict[str, Any] = {
            "derivation": self.derivation,
            "measurement": self.measurement,
            "differs": self.differs,
            "spread": self.spread,
            "sustained": self.sustained,
        }
        return rest | {key: value for key, value in extra.items() if value}


@dataclass(frozen=True)
class Level:
    """One level of memory. `capacity` is of one instance; `bandwidth` of all of them together."""

    name: str
    bandwidth: Figure
    capacity: Figure
    scope: str = "chip"
    instances: int = 1
    latency: Figure = Figure("s")
    technology: str = ""
    source: str = ""
    note: str = ""
    mixes: Mapping[str, Figure] = field(default_factory=dict)  # bandwidth by access mix: read, write, copy, triad ...

    @property
    def total(self) -> float | None:
        """Capacity of all instances."""
        size = self.capacity.value()
        return None if size is None else size * self.instances

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "capacity": self.capacity.value(),
            "total_capacity": self.total,
            "scope": self.scope,
            "instances": self.instances,
            "bandwidth": self.bandwidth.document(),
            "latency": self.latency.value(),
            "technology": self.technology,
            "source": self.source or self.bandwidth.source,
            "note": self.note,
            **({"mixes": {name: figure.document() for name, figure in self.mixes.items()}} if self.mixes else {}),
        }


@dataclass(frozen=True)
class Link:
    """A connection to other devices; `per_direction` is the payload rate one way."""

    name: str
    per_direction: Figure
    topology: str = ""
    note: str = ""

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "per_direction": self.per_direction.value(),
            "source": self.per_direction.source,
            "topology": self.topology,
            "note": self.note,
        }


@dataclass(frozen=True)
class Fitted:
    """Coefficients of a kernel family's formula as fitted to timings, and how well they told timings left out."""

    coefficients: Mapping[str, float]
    error: float  # median of |predicted - measured| / measured over timings that were not fitted to
    p90: float
    low: float  # 80 % of these timings lie between low and high times the predicted one
    high: float
    cases: int
    source: str
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # of each size among the timings
    borrowed: bool = False  # from other machines; the error is then that of machines left out
    nearby: str = ""  # the timings as a table (`families/nearby.py`), where they are kept

    def document(self) -> dict[str, Any]:
        return {
            "coefficients": dict(self.coefficients),
            "error": self.error,
            "p90": self.p90,
            "low": self.low,
            "high": self.high,
            "cases": self.cases,
            "source": self.source,
            "ranges": {name: list(ends) for name, ends in self.ranges.items()},
            "borrowed": self.borrowed,
        }


@dataclass(frozen=True)
class Ceiling:
    """A figure as it was used: its name, value, kind, uncertainty and the sentence behind it."""

    name: str
    value: float
    kind: str
    uncertainty: float
    why: str


@dataclass(frozen=True)
class Machine:
    name: str
    title: str = ""
    vendor: str = ""
    kind: str = ""
    architecture: str = ""
    released: int | None = None
    aliases: tuple[str, ...] = ()
    units: Mapping[str, int] = field(default_factory=dict)
    clocks: Mapping[str, Figure] = field(default_factory=dict)
    peaks: Mapping[str, Figure] = field(default_factory=dict)
    levels: tuple[Level, ...] = ()
    links: tuple[Link, ...] = ()
    limits: Mapping[str, Figure] = field(default_factory=dict)
    energy: Mapping[str, Figure] = field(default_factory=dict)
    efficiency: Mapping[str, Figure] = field(default_factory=dict)
    fitted: Mapping[Key, Fitted] = field(default_factory=dict)
    launch: Figure = Figure("s")
    dispatch: Figure = Figure("s")  # what the host takes to send one operation through the framework
    tdp: Figure = Figure("W")
    ecc: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    conditions: Mapping[str, str] = field(default_factory=dict)  # under which the measured figures were taken
    file: str = ""

    # -- looking figures up -------------------------------------------------------------------------------

    @property
    def main(self) -> Level:
        if not self.levels:
            raise MissingFigure(f"{self.name} has no memory level; {self._where_to_fill('a [[level]]')}")
        return self.levels[-1]

    def level(self, name: str) -> Level:
        """A level by name; `main` is the outermost, whatever its own name."""
        if name == MAIN:
            return self.main
        for level in self.levels:
            if level.name == name:
                return level
        raise unknown(f"memory level of {self.name}", name, [level.name for level in self.levels])

    def link(self, name: str | None = None) -> Link:
        if not self.links:
            raise MissingFigure(f"{self.name} has no link to other devices; {self._where_to_fill('a [[link]]')}")
        if name is None:
            return self.links[0]
        for link in self.links:
            if link.name == name:
                return link
        raise unknown(f"link of {self.name}", name, [link.name for link in self.links])

    def dtypes(self, engine: str | None = None) -> list[str]:
        """The arithmetic formats there is a peak for, widest engine first."""
        names = [key.partition(".") for key in self.peaks if key != ANY]
        return list(dict.fromkeys(name for owner, _, name in names if engine in (None, owner) and owner != "special"))

    def engine(self, asked: str, dtype: str, forced: str | None = None) -> str:
        """The peak (`tensor.bf16`) that serves flops asked for as `matrix` or `vector` in a dtype.

        Matrix products run on the tensor units where they do this format, else on the vector units; a
        2:4-sparse peak is used only when `forced` names it.
        """
        row = dtype_row(dtype)
        if ANY in self.peaks:
            return ANY
        if asked == "vector":
            order = [f"vector.{row.vector}"]
        elif forced:
            order = [f"{forced}.{row.math}"]
        else:
            order = [f"tensor.{row.math}", f"vector.{row.math}"]
        for name in order:
            if name in self.peaks:
                return name
        if forced and asked != "vector":
            have = [key for key in self.peaks if key.startswith(f"{forced}.")]
            raise MissingFigure(
                f"{self.name} has no {order[0]}; "
                + (
                    f"its {forced} peaks are {', '.join(sorted(have))}."
                    if have
                    else f"it has no {forced} engine; it has {', '.join(sorted(self.peaks))}."
                )
            )
        if asked == "vector":
            raise MissingFigure(
                f"{self.name} has no {order[0]} peak; it has {', '.join(sorted(self.peaks)) or 'none'}."
            )
        have = self.dtypes()
        if not have:
            raise MissingFigure(f"{self.name} has no peaks that are known; {self._where_to_fill('[peak.vector]')}")
        wider = next((name for name in ("bf16", "fp16", "fp32") if name in have), have[0])
        narrow = row.bits < 16
        hint = (
            f" To store weights as {row.name} and compute wider, give --dtype {wider} --weights {row.name}."
            if narrow
            else ""
        )
        raise MissingFigure(f"{self.name} does no {row.name} arithmetic; it has {', '.join(have)}.{hint}")

    def ceiling(self, figure: Figure, name: str, ceilings: str | None = None) -> Ceiling:
        """A figure's value of the kind asked for, or a message that says which kinds there are."""
        value = figure.value(ceilings)
        if value is None:
            have = [kind for kind in KINDS if getattr(figure, kind) is not None]
            if have:
                raise MissingFigure(
                    f"{self.name} has no {ceilings} figure for {name}; it has {' and '.join(have)} (--ceilings {have[0]})."
                )
            raise MissingFigure(f"{self.name} has no figure for {name}; {self._where_to_fill(name)}")
        return Ceiling(name, value, figure.kind(ceilings), figure.uncertainty(ceilings), figure.why(ceilings))

    def peak(self, name: str, ceilings: str | None = None) -> Ceiling:
        if name not in self.peaks:
            raise unknown(f"peak of {self.name}", name, self.peaks)
        return self.ceiling(self.peaks[name], name, ceilings)

    def bandwidth(self, level: str = MAIN, ceilings: str | None = None) -> Ceiling:
        found = self.level(level)
        return self.ceiling(found.bandwidth, found.name, ceilings)

    def mixes(self, level: str = MAIN, ceilings: str | None = None) -> list[tuple[float, float, str]]:
        """(share written, bandwidth, mix) of every measured mix of a level, where measured figures are asked for."""
        found = self.level(level)
        if found.bandwidth.kind(ceilings) != "measured":
            return []
        known = [(WRITE_SHARE[mix], figure.measured, mix) for mix, figure in found.mixes.items() if mix in WRITE_SHARE]
        return sorted((share, rate, mix) for share, rate, mix in known if rate is not None)

    def ridge(self, peak: str, level: str = MAIN, ceilings: str | None = None) -> float:
        """Intensity from which a kernel can saturate the peak when fed from the level: peak / bandwidth."""
        return self.peak(peak, ceilings).value / self.bandwidth(level, ceilings).value

    def _where_to_fill(self, what: str) -> str:
        if self.file:
            return f"fill {what} in {self.file}, or give --peak and --bandwidth."
        return "measure this machine (`ridgeline measure`), or give --peak and --bandwidth."

    # -- making machines from machines --------------------------------------------------------------------

    def with_figures(
        self, peak: float | None = None, bandwidth: float | None = None, launch: float | None = None
    ) -> Machine:
        """The same machine with a peak for everything, a main bandwidth or a launch latency of the caller's own."""
        machine = self
        if peak is not None:
            machine = replace(machine, peaks={ANY: Figure("flop/s", stated=rate("peak", peak), source=GIVEN)})
        if bandwidth is not None:
            given = Figure("B/s", stated=rate("bandwidth", bandwidth), source=GIVEN)
            outer = machine.levels[-1] if machine.levels else Level("memory", given, Figure("B"))
            machine = replace(machine, levels=(*machine.levels[:-1], replace(outer, bandwidth=given)))
        if launch is not None:
            if not launch >= 0:
                raise InputError(f"launch latency must be zero or more seconds, got {launch}")
            machine = replace(machine, launch=Figure("s", stated=launch, source=GIVEN))
        return machine

    # -- showing it ---------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "vendor": self.vendor,
            "kind": self.kind,
            "architecture": self.architecture,
            "released": self.released,
            "units": dict(self.units),
            "clocks": {name: clock.document() for name, clock in self.clocks.items()},
            "peaks": {name: peak.document() for name, peak in self.peaks.items()},
            "ridges": self.ridges(),
            "levels": [level.document() for level in self.levels],
            "links": [link.document() for link in self.links],
            "limits": {name: limit.document() for name, limit in self.limits.items()},
            "energy": {name: figure.document() for name, figure in self.energy.items()},
            "efficiency": {name: figure.document() for name, figure in self.efficiency.items()},
            "fitted": {str(key): row.document() for key, row in self.fitted.items() if not row.borrowed},
            "launch": self.launch.value(),
            "dispatch": self.dispatch.value(),
            "tdp": self.tdp.value(),
            "ecc": self.ecc,
            "sources": dict(self.sources),
            "notes": list(self.notes),
            "conditions": dict(self.conditions),
            "file": self.file,
        }

    def ridges(self, ceilings: str | None = None) -> dict[str, float]:
        """Ridge of every peak against the main memory, where both figures are known."""
        if not self.levels or self.main.bandwidth.value(ceilings) is None:
            return {}
        found = {name: figure.value(ceilings) for name, figure in self.peaks.items() if not name.startswith("special")}
        bandwidth = self.bandwidth(ceilings=ceilings).value
        return {name: value / bandwidth for name, value in found.items() if value is not None}


def positive(name: str, value: float) -> float:
    if not (value > 0 and value != float("inf")):
        raise InputError(f"{name} must be a positive, finite number, got {value}")
    return float(value)


def rate(name: str, value: float) -> float:
    """Of a machine: within bounds that keep every ratio finite, and far beyond all machines."""
    least, most = RATES
    if not least <= positive(name, value) <= most:
        raise InputError(f"{name} must lie between {least:g} and {most:g} per second, got {value:g}")
    return float(value)


def two_number(peak: float, bandwidth: float, launch: float | None = None, name: str = "two-number") -> Machine:
    """The simplest machine: one compute rate (flop/s), one bandwidth (B/s), one memory boundary."""
    return Machine(name=name, title="given by two numbers", kind="model").with_figures(peak, bandwidth, launch)
