"""Machine: what the hardware can do, and where each figure comes from.

peak = units x flop per unit and cycle x clock        bandwidth = clock x bus / 8 x transfers per clock
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isclose
from typing import TYPE_CHECKING, ClassVar, TypeVar

from .cached import cached_property
from .dtypes import dtype as dtype_row
from .errors import InputError, MissingFigure, unknown
from .figure import KINDS, NO_POWER, NO_TIME, Ceiling, Figure, Level, Link
from .fitted import Fitted, over_memory
from .units import counted, parse, show

if TYPE_CHECKING:  # the formulas of the families bring numpy
    from .families.key import Key

MAX_LISTED = 6  # peaks that the repr names
ENGINES = ("vector", "tensor", "tensor-sparse", "special")
RATES = (1.0, 10.0**27)  # flop/s and B/s that a machine may be given
GIVEN = "given by the caller"  # the source of figures that replace the machine's own
ANY = "peak"  # the peak of a two-number machine answers for every engine and dtype
MAIN = "main"  # what Work calls the outermost memory, whatever the machine calls it

# Share of the bytes that a measured access mix writes; kernels lie between them.
WRITE_SHARE = {"read": 0.0, "add": 1 / 3, "triad": 1 / 3, "scale": 1 / 2, "copy": 1 / 2, "write": 1.0, "write_nt": 1.0}


Part = TypeVar("Part", Level, Link)


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
    per_core: Mapping[str, Figure] = field(default_factory=dict)  # peaks and bandwidths of one core of a CPU
    per_cycle: Mapping[str, float] = field(default_factory=dict)  # flop per clock cycle of all cores, by peak
    limits: Mapping[str, Figure] = field(default_factory=dict)
    energy: Mapping[str, Figure] = field(default_factory=dict)
    efficiency: Mapping[str, Figure] = field(default_factory=dict)
    fitted: Mapping[Key, Fitted] = field(default_factory=dict)
    launch: Figure = NO_TIME
    dispatch: Figure = NO_TIME  # host time to dispatch one operation through the framework
    eager_call: Figure = (
        NO_TIME  # host time per launching call of a program that runs call by call, its Python included
    )
    backward_call: Figure = NO_TIME  # the same in a backward pass, on the thread of autograd
    tdp: Figure = NO_POWER
    ecc: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    conditions: Mapping[str, str] = field(default_factory=dict)  # under which the measured figures were taken
    file: str = ""

    DOCUMENT: ClassVar = (
        "name", "title", "vendor", "kind", "architecture", "released", "units", "clocks", "peaks", "ridges", "levels",
        "per_core?", "per_cycle?", "links", "limits", "energy", "efficiency", "fitted=calibrated", "launch=launch.value", "dispatch=dispatch.value",
        "eager_call=eager_call.value", "backward_call=backward_call.value",
        "tdp=tdp.value", "ecc", "sources", "notes", "conditions", "file",
    )  # fmt: skip

    def __repr__(self) -> str:
        """The roofs in one line, then the ceilings of every level and the fastest engines."""
        ridges = self.ridges()
        best = max(ridges, key=lambda name: (name.startswith("tensor."), name.endswith("16"), ridges[name]), default="")
        roofs = [f"{best} {self._shown(self.peaks[best])}", f"ridge {show(ridges[best], 'flop/B', 3)}"] if best else []
        memory = [f"{level.name} {self._shown(level.bandwidth)}" for level in self.levels[-1:]]
        facts = [str(fact) for fact in (self.kind, self.vendor, self.architecture, self.released) if fact]
        peaks = [
            f"{name} {self._shown(figure)}" for name, figure in self.peaks.items() if not name.startswith("special")
        ]
        levels = [f"{level.name} {self._shown(level.bandwidth)}" for level in self.levels]
        lines = [f"{self.name}: {' · '.join([*memory, *roofs]) or 'no ceilings known'}"]
        lines += [f"  {self.title or self.name} ({', '.join(facts)})"] if facts else []
        lines += [
            f"  {counted(len(peaks), 'peak')}: {', '.join(peaks[:MAX_LISTED])}{', ...' if len(peaks) > MAX_LISTED else ''}"
        ]
        return "\n".join([*lines, f"  {counted(len(levels), 'level')}: {', '.join(levels)}"])

    def _shown(self, figure: Figure) -> str:
        return show(figure.value(), figure.unit, 3)

    @property
    def main(self) -> Level:
        if not self.levels:
            raise MissingFigure(f"{self.name} has no memory level; {self._where_to_fill('a [[level]]')}")
        return self.levels[-1]

    @property
    def largest_cache(self) -> float:
        """Bytes of the largest level before the main memory; 0 where none is known."""
        return max((level.total or 0.0 for level in self.levels[:-1]), default=0.0)

    def level(self, name: str) -> Level:
        """A level by name; `main` is the outermost, whatever its own name."""
        return self.main if name == MAIN else self._named("memory level", self.levels, name)

    def link(self, name: str | None = None) -> Link:
        if not self.links:
            raise MissingFigure(f"{self.name} has no link to other devices; {self._where_to_add_a_link()}")
        return self.links[0] if name is None else self._named("link", self.links, name)

    def _named(self, what: str, rows: Sequence[Part], name: str) -> Part:
        row = next((row for row in rows if row.name == name), None)
        if row is None:
            raise unknown(f"{what} of {self.name}", name, [row.name for row in rows])
        return row

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
        raise self._no_engine(asked, order[0], forced, dtype)

    def _no_engine(self, asked: str, name: str, forced: str | None, dtype: str) -> MissingFigure:
        """What the machine has in place of a peak it lacks."""
        peaks = ", ".join(sorted(self.peaks))
        if asked == "vector":
            return MissingFigure(f"{self.name} has no {name} peak; it has {peaks or 'none'}.")
        if forced:
            same_engine = sorted(key for key in self.peaks if key.startswith(f"{forced}."))
            have = f"its {forced} peaks are {', '.join(same_engine)}"
            none = f"it has no {forced} engine; it has {peaks}"
            return MissingFigure(f"{self.name} has no {name}; {have if same_engine else none}.")
        formats, row = self.dtypes(), dtype_row(dtype)
        if not formats:
            return MissingFigure(f"{self.name} has no peaks that are known; {self._where_to_fill('[peak.vector]')}")
        order = ("fp32", "bf16", "fp16") if row.bits > 16 else ("bf16", "fp16", "fp32")  # the least loss first
        wider = next((name for name in order if name in formats), formats[0])
        narrow = f" To store weights as {row.name} and compute wider, use dtype {wider} and weights {row.name}."
        hint = narrow if row.bits < 16 else f" Use dtype {wider}."
        return MissingFigure(f"{self.name} does no {row.name} arithmetic; it has {', '.join(formats)}.{hint}")

    def ceiling(self, figure: Figure, name: str, ceilings: str | None = None) -> Ceiling:
        """A figure's value of the kind asked for, or a message that says which kinds there are."""
        value = figure.value(ceilings)
        if value is None:
            have = [kind for kind in KINDS if getattr(figure, kind) is not None]
            if not have:
                raise MissingFigure(f"{self.name} has no figure for {name}; {self._where_to_fill(name)}")
            raise MissingFigure(f"{self.name} has no {ceilings} figure for {name}; it has {' and '.join(have)}.")
        kind, why = figure.kind(ceilings), figure.why(ceilings)
        return Ceiling(name, value, kind, figure.uncertainty(ceilings), why, figure.stated)

    @cached_property
    def _ceilings(self) -> dict[tuple[str, str, str | None], Ceiling]:
        """Those asked for before: a report on 100,000 kernels asks for the same few."""
        return {}

    def peak(self, name: str, ceilings: str | None = None) -> Ceiling:
        key = ("peak", name, ceilings)
        if key not in self._ceilings:
            if name not in self.peaks:
                raise unknown(f"peak of {self.name}", name, self.peaks)
            self._ceilings[key] = self.ceiling(self.peaks[name], name, ceilings)
        return self._ceilings[key]

    def bandwidth(self, level: str = MAIN, ceilings: str | None = None) -> Ceiling:
        key = ("bandwidth", level, ceilings)
        if key not in self._ceilings:
            row = self.level(level)
            self._ceilings[key] = self.ceiling(row.bandwidth, row.name, ceilings)
        return self._ceilings[key]

    def mixes(self, level: str = MAIN, ceilings: str | None = None) -> list[tuple[float, float, str]]:
        """(share written, bandwidth, mix) of every measured mix of a level, where measured figures are asked for.

        What comes from a level further out crosses this one as well, which is therefore as fast at least: a GPU's cache that is written
        and read by one kernel may be measured slower than its memory.
        """
        if self.level(level).bandwidth.kind(ceilings) != "measured":
            return []
        rates = [
            (WRITE_SHARE[mix], figure.measured, mix)
            for mix, figure in self.mix_figures(level)
            if mix in WRITE_SHARE and figure.measured is not None
        ]
        return sorted(rates)

    def mix_figures(self, level: str) -> list[tuple[str, Figure]]:
        """The figure of every access mix of a level that was measured there, and of the levels further out."""
        first = self.levels.index(self.level(level))
        mixed = self.level(level).mixes
        return [(mix, figure) for row in self.levels[first:] for mix, figure in row.mixes.items() if mix in mixed]

    def mix_at(self, level: str, rate: float, ceilings: str | None = None) -> str:
        """The measured access mix of a level that has this bandwidth; nothing where mixes were not measured."""
        return next((mix for _, value, mix in self.mixes(level, ceilings) if isclose(value, rate)), "")

    def ridge(self, peak: str, level: str = MAIN, ceilings: str | None = None) -> float:
        """Intensity from which a kernel can saturate the peak when fed from the level: peak / bandwidth of reads."""
        return self.peak(peak, ceilings).value / self.bandwidth(level, ceilings).value

    def ridge_mix(self, ceilings: str | None = None) -> str:
        """` (read bandwidth)` where the ridges are those of a measured access mix, to be printed after them."""
        mix = self.mix_at(MAIN, self.bandwidth(MAIN, ceilings).value, ceilings)
        return f" ({mix} bandwidth)" if mix else ""

    def _where_to_add_a_link(self) -> str:
        """A peak and a bandwidth do not help: neither says what joins two devices."""
        if self.file:
            return f"add a [[link]] to {self.file}."
        return "name a machine that has one, or a .toml file with a [[link]]."

    def _where_to_fill(self, what: str) -> str:
        if self.file:
            return f"add {what} to {self.file}, or give a peak and a bandwidth."
        return "run `ridgeline measure` on it, or give a peak and a bandwidth."

    def with_figures(
        self, peak: float | str | None = None, bandwidth: float | str | None = None, launch: float | None = None
    ) -> Machine:
        """The same machine with a peak for everything, a main bandwidth or a launch latency of the caller's own: numbers, or `3.35 TB/s`."""
        machine = self
        if peak is not None:
            machine = replace(
                machine, peaks={ANY: Figure("flop/s", stated=rate("peak", parse(peak, "flop/s")), source=GIVEN)}
            )
        if bandwidth is not None:
            given = Figure("B/s", stated=rate("bandwidth", parse(bandwidth, "B/s")), source=GIVEN)
            outer = machine.levels[-1] if machine.levels else Level("memory", given, Figure("B"))
            machine = replace(machine, levels=(*machine.levels[:-1], replace(outer, bandwidth=given)))
            if (before := outer.bandwidth.stated or 0.0) and given.stated:
                machine = replace(machine, fitted=over_memory(machine.fitted, before / given.stated))
        if launch is not None:
            if not launch >= 0:
                raise InputError(f"launch latency must be zero or more seconds, got {launch}")
            machine = replace(machine, launch=Figure("s", stated=launch, source=GIVEN))
        return machine

    @cached_property
    def given_bandwidth(self) -> bool:
        """Whether the bandwidth of main memory is the caller's own: nothing was timed on such a machine."""
        return bool(self.levels) and self.main.bandwidth.source == GIVEN

    @property
    def calibrated(self) -> dict[Key, Fitted]:
        """Coefficients fitted to timings of this machine, without those borrowed from others."""
        return {key: row for key, row in self.fitted.items() if not row.borrowed}

    @cached_property
    def backends(self) -> frozenset[str]:
        """Backends whose kernels have coefficients, of this machine or borrowed; the default path is the empty one."""
        return frozenset(key.backend for key in self.fitted)

    @cached_property
    def timed_backends(self) -> dict[str, set[str]]:
        """Backends that this machine was timed with, by kernel family."""
        backends: dict[str, set[str]] = {}
        for key, row in self.fitted.items():
            if not row.borrowed:
                backends.setdefault(key.family, set()).add(key.backend)
        return backends

    def ridges(self, ceilings: str | None = None) -> dict[str, float]:
        """Ridge of every peak against the main memory, where both figures are known."""
        if not self.levels or self.main.bandwidth.value(ceilings) is None:
            return {}
        peaks = {name: figure.value(ceilings) for name, figure in self.peaks.items() if not name.startswith("special")}
        bandwidth = self.bandwidth(ceilings=ceilings).value
        return {name: value / bandwidth for name, value in peaks.items() if value is not None}


def positive(name: str, value: float) -> float:
    if not (value > 0 and value != float("inf")):
        raise InputError(f"{name} must be a positive, finite number, got {value}")
    return float(value)


def rate(name: str, value: float) -> float:
    """Of a machine: within bounds that keep every ratio finite, and far beyond all machines."""
    low, high = RATES
    if not low <= positive(name, value) <= high:
        raise InputError(f"{name} must lie between {low:g} and {high:g} per second, got {value:g}")
    return float(value)


def two_number(
    peak: float | str, bandwidth: float | str, launch: float | None = None, name: str = "two-number"
) -> Machine:
    """The simplest machine: one compute rate (flop/s, or `989 TFLOP/s`), one bandwidth (B/s), one memory boundary."""
    return Machine(name=name, title="given by two numbers", kind="model").with_figures(peak, bandwidth, launch)
