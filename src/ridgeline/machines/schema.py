"""Machine file (TOML) to Machine: every figure with its unit and source, all complaints at once.

A figure is written as the datasheet prints it and, where counts allow, how it follows from them:

    bf16 = { stated = "989.4 Tflop/s", source = "datasheet", derive = { units = 132, per_cycle = 4096, clock = "tensor" } }

Stated and derived must agree within 2.5 %, or `differs` says why they do not. Tensor peaks stand under
[peak.tensor.dense] or [peak.tensor.sparse]; one without that tag is refused.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from ..core.dtypes import TABLE
from ..core.errors import InputError, SchemaError
from ..core.figure import Figure, Level, Link
from ..core.machine import Machine
from ..core.units import parse, show
from . import coefficients as fitted

AGREEMENT = 0.025
KINDS = ("gpu", "cpu", "tpu", "accelerator")
SCOPES = ("sm", "core", "chip", "group")
ECC = ("inline", "sideband", "none", "")
MATH = {row.math for row in TABLE.values()}

TOP = {
    "name",
    "title",
    "vendor",
    "kind",
    "architecture",
    "released",
    "aliases",
    "source",
    "sources",
    "measurements",
    "conditions",
    "units",
    "clock",
    "peak",
    "level",
    "link",
    "limit",
    "energy",
    "efficiency",
    "fitted",
    "launch",
    "dispatch",
    "tdp",
    "ecc",
    "notes",
}
FIGURE = {
    "stated",
    "derive",
    "derived",
    "derivation",
    "measured",
    "source",
    "differs",
    "spread",
    "measurement",
    "sustained",
}
LEVEL = {"name", "capacity", "scope", "instances", "bandwidth", "latency", "technology", "source", "note", "mixes"}
LINK = {"name", "per_direction", "source", "topology", "note"}
LIMITS = {"shared_per_sm": "B", "shared_per_block": "B", "registers_per_sm": "B", "l1_per_sm": "B"}


class _Reader:
    """Reads one document and keeps every complaint instead of stopping at the first."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.complaints: list[str] = []
        self.default_source = str(document.get("source", ""))
        self.sources: dict[str, str] = {}
        self.measurements: dict[str, str] = {}
        self.clocks: dict[str, Figure] = {}

    def complain(self, text: str) -> None:
        self.complaints.append(text)

    def table(self, value: Any, where: str, allowed: set[str] | None = None) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.complain(f"{where} must be a table, found {value!r}")
            return {}
        for key in value:
            if allowed is not None and key not in allowed:
                self.complain(f"{where}: unknown key '{key}'; it may have {', '.join(sorted(allowed))}")
        return value

    def text(self, key: str, needed: bool = False, choices: tuple[str, ...] | None = None) -> str:
        value = self.document.get(key, "")
        if not isinstance(value, str) or (needed and not value):
            self.complain(f"{key} must be a text{', and is missing' if value == '' else f', found {value!r}'}")
            return ""
        if choices and value not in choices:
            self.complain(f"{key} = '{value}' is not one of {', '.join(name for name in choices if name)}")
        return value

    def count(self, value: Any, where: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self.complain(f"{where} must be a whole number of at least 1, found {value!r}")
            return 1
        return value

    def quantity(self, value: Any, unit: str, where: str) -> float | None:
        if not isinstance(value, str):
            self.complain(f"{where} must be a text with its unit, found {value!r}")
            return None
        try:
            number = parse(value, unit)
        except InputError as error:
            self.complain(f"{where}: {error}")
            return None
        if not any(letter.isalpha() for letter in value):
            self.complain(f"{where} = '{value}' has no unit")
        if number <= 0:
            self.complain(f"{where} = '{value}' must be above zero")
            return None
        return number

    def source(self, name: str, where: str) -> str:
        name = name or self.default_source
        if not name:
            self.complain(f"{where} names no source")
            return ""
        if name not in self.sources:
            self.complain(f"{where}: source '{name}' is not listed under [sources]")
            return name
        return self.sources[name]

    def figure(self, value: Any, unit: str, where: str, source: str = "", plain: bool = False) -> Figure:
        """A figure table, or (where `plain`) a bare text that takes the surrounding source."""
        if plain and isinstance(value, str):
            value = {"stated": value}
        entry = self.table(value, where, FIGURE)
        if not entry:
            return Figure(unit)
        if not {"stated", "derive", "derived", "measured"} & set(entry):
            self.complain(f"{where} has neither stated, derive nor measured")
            return Figure(unit)
        stated = self.quantity(entry["stated"], unit, f"{where}.stated") if "stated" in entry else None
        measured = self.quantity(entry["measured"], unit, f"{where}.measured") if "measured" in entry else None
        derived, how = self.derive(entry["derive"], unit, f"{where}.derive") if "derive" in entry else (None, "")
        if "derived" in entry:  # a file written by the tool keeps the result and the words of its derivation
            derived, how = self.quantity(entry["derived"], unit, f"{where}.derived"), str(entry.get("derivation", ""))
        sustained = self.quantity(entry["sustained"], unit, f"{where}.sustained") if "sustained" in entry else None
        spread = entry.get("spread")
        if spread is not None and (
            isinstance(spread, bool) or not isinstance(spread, int | float) or not 0 <= spread < 10
        ):
            self.complain(f"{where}.spread must be a fraction such as 0.02, found {spread!r}")
            spread = None
        differs = str(entry.get("differs", ""))
        if stated and derived and abs(derived / stated - 1) > AGREEMENT and not differs:
            self.complain(
                f"{where}: stated {show(stated, unit)} and derived {show(derived, unit)} ({how}) are more than {AGREEMENT:.1%} apart; say why in `differs`"
            )
        if measured is not None and not entry.get("measurement"):
            self.complain(f"{where}.measured needs `measurement`: how, when and on what")
        return Figure(
            unit,
            stated,
            derived,
            measured,
            source=self.source(str(entry.get("source", source)), where),
            derivation=how,
            measurement=self.measurements.get(str(entry.get("measurement", "")), str(entry.get("measurement", ""))),
            differs=differs,
            spread=spread,
            sustained=sustained,
        )

    def derive(self, value: Any, unit: str, where: str) -> tuple[float | None, str]:
        """units x per_cycle x clock, or clock x bus / 8 x transfers (memory, links)."""
        entry = self.table(value, where, {"units", "per_cycle", "clock", "bus", "transfers", "rate"})
        if "bus" in entry:
            bus = self.count(entry["bus"], f"{where}.bus")
            if "rate" in entry:
                rate = self.quantity(entry["rate"], "T/s", f"{where}.rate")
                return (None, "") if rate is None else (rate * bus / 8, f"{bus} bit x {show(rate, 'T/s')} / 8")
            clock = self.clock(entry.get("clock"), f"{where}.clock")
            transfers = self.count(entry.get("transfers"), f"{where}.transfers")
            if clock is None:
                return None, ""
            return clock * bus * transfers / 8, f"{show(clock, 'Hz')} x {bus} bit x {transfers} transfers / 8"
        units = self.count(entry.get("units"), f"{where}.units")
        per_cycle = entry.get("per_cycle")
        if isinstance(per_cycle, bool) or not isinstance(per_cycle, int | float) or per_cycle <= 0:
            self.complain(f"{where}.per_cycle must be a positive number, found {per_cycle!r}")
            return None, ""
        clock = self.clock(entry.get("clock"), f"{where}.clock")
        if clock is None:
            return None, ""
        what = unit.removesuffix("/s")
        return units * per_cycle * clock, f"{units} units x {per_cycle:g} {what}/cycle x {show(clock, 'Hz')}"

    def clock(self, value: Any, where: str) -> float | None:
        """A clock by its name in [clock], or written out."""
        if value in self.clocks:
            return self.clocks[value].value()
        if isinstance(value, str) and not any(letter.isdigit() for letter in value):
            self.complain(f"{where}: clock '{value}' is not listed under [clock]")
            return None
        return self.quantity(value, "Hz", where)

    def peaks(self) -> dict[str, Figure]:
        found: dict[str, Figure] = {}
        peak = self.table(self.document.get("peak"), "peak", {"vector", "tensor", "special"})
        tensor = self.table(peak.get("tensor"), "peak.tensor")
        for name in tensor:
            if name not in ("dense", "sparse"):
                self.complain(
                    f"peak.tensor.{name} does not say whether it is dense or 2:4 sparse; put it under [peak.tensor.dense] or [peak.tensor.sparse]"
                )
        groups = {
            "tensor": tensor.get("dense"),
            "vector": peak.get("vector"),
            "tensor-sparse": tensor.get("sparse"),
            "special": peak.get("special"),
        }
        for engine, group in groups.items():
            for name, value in self.table(group, f"peak.{engine}").items():
                if name not in MATH:
                    self.complain(f"peak.{engine}.{name}: unknown number format; known are {', '.join(sorted(MATH))}")
                found[f"{engine}.{name}"] = self.figure(value, "flop/s", f"peak.{engine}.{name}")
        return found

    def levels(self) -> tuple[Level, ...]:
        found = []
        rows = self.document.get("level", [])
        if not isinstance(rows, list) or not rows:
            self.complain("no [[level]] is given; the outermost memory stands last")
            return ()
        for index, row in enumerate(rows):
            entry = self.table(row, f"level {index + 1}", LEVEL)
            name = str(entry.get("name", ""))
            if not name:
                self.complain(f"level {index + 1} has no name")
            where, source = f"level {name}", str(entry.get("source", ""))
            scope = str(entry.get("scope", "chip"))
            if scope not in SCOPES:
                self.complain(f"{where}: scope '{scope}' is not one of {', '.join(SCOPES)}")
            found.append(
                Level(
                    name=name,
                    scope=scope,
                    instances=self.count(entry.get("instances", 1), f"{where}.instances"),
                    capacity=self.figure(entry.get("capacity"), "B", f"{where}.capacity", source, plain=True),
                    bandwidth=self.figure(entry.get("bandwidth"), "B/s", f"{where}.bandwidth", source, plain=True),
                    latency=self.figure(entry.get("latency"), "s", f"{where}.latency", source, plain=True),
                    technology=str(entry.get("technology", "")),
                    note=str(entry.get("note", "")),
                    source=self.sources.get(
                        source or self.default_source, ""
                    ),  # its figures complain where it is missing
                    mixes={
                        mix: self.figure(value, "B/s", f"{where}.mixes.{mix}", source)
                        for mix, value in self.table(entry.get("mixes"), f"{where}.mixes").items()
                    },
                )
            )
        names = [level.name for level in found]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.complain(f"level {name} is given more than once")
        return tuple(found)

    def links(self) -> tuple[Link, ...]:
        found = []
        for index, row in enumerate(self.document.get("link", [])):
            entry = self.table(row, f"link {index + 1}", LINK)
            name = str(entry.get("name", ""))
            if not name or "per_direction" not in entry:
                self.complain(f"link {index + 1} needs a name and per_direction")
            speed = self.figure(
                entry.get("per_direction"),
                "B/s",
                f"link {name}.per_direction",
                str(entry.get("source", "")),
                plain=True,
            )
            found.append(Link(name, speed, str(entry.get("topology", "")), str(entry.get("note", ""))))
        return tuple(found)

    def named(self, key: str, unit: Callable[[str], str], allowed: set[str] | None = None) -> dict[str, Figure]:
        entries = self.table(self.document.get(key), key, allowed)
        return {name: self.figure(value, unit(name), f"{key}.{name}", plain=True) for name, value in entries.items()}

    def efficiency(self) -> dict[str, Figure]:
        """Fractions of a stated ceiling that public measurements reached; plain numbers with a source."""
        found = {}
        for name, value in self.table(self.document.get("efficiency"), "efficiency").items():
            entry = self.table(value, f"efficiency.{name}", {"value", "source", "note"})
            fraction = entry.get("value")
            if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction <= 1.3:
                self.complain(f"efficiency.{name}.value must be a fraction, found {fraction!r}")
                continue
            how = self.source(str(entry.get("source", "")), f"efficiency.{name}")
            found[name] = Figure(
                "", measured=float(fraction), source=how, measurement=str(entry.get("note", "")) or how
            )
        return found

    def machine(self, file: str) -> Machine:
        document = self.document
        for key in document:
            if key not in TOP:
                self.complain(f"unknown key '{key}'; a machine file may have {', '.join(sorted(TOP))}")
        self.sources, self.measurements, conditions = (
            {name: str(text) for name, text in self.table(document.get(key), key).items()}
            for key in ("sources", "measurements", "conditions")
        )
        self.clocks = self.named("clock", lambda _: "Hz")
        units = self.table(document.get("units"), "units")
        released = document.get("released")
        if released is not None and not isinstance(released, int):
            self.complain(f"released must be a year, found {released!r}")
        aliases, notes = document.get("aliases", []), document.get("notes", [])
        for key, value in (("aliases", aliases), ("notes", notes)):
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                self.complain(f"{key} must be a list of texts, found {value!r}")
        return Machine(
            name=self.text("name", needed=True),
            title=self.text("title", needed=True),
            vendor=self.text("vendor", needed=True),
            kind=self.text("kind", needed=True, choices=KINDS),
            architecture=self.text("architecture"),
            released=released,
            aliases=tuple(aliases),
            units={name: self.count(value, f"units.{name}") for name, value in units.items()},
            clocks=self.clocks,
            peaks=self.peaks(),
            levels=self.levels(),
            links=self.links(),
            limits=self.named("limit", lambda name: LIMITS.get(name, "B"), set(LIMITS)),
            energy=self.named("energy", _energy_unit),
            efficiency=self.efficiency(),
            fitted=fitted.read(self.table(document.get("fitted"), "fitted"), self.complain),
            launch=self.figure(document.get("launch"), "s", "launch"),
            dispatch=self.figure(document.get("dispatch"), "s", "dispatch"),
            tdp=self.figure(document.get("tdp"), "W", "tdp", plain=True),
            ecc=self.text("ecc", choices=ECC),
            sources=self.sources,
            notes=tuple(notes),
            conditions=conditions,
            file=file,
        )


def _energy_unit(name: str) -> str:
    return (
        {"flop": "J/flop", "byte": "J/B", "static": "W"}[name.partition(".")[0]]
        if name.partition(".")[0] in ("flop", "byte", "static")
        else "J"
    )


def read(text: str, where: str) -> Machine:
    """The Machine a TOML text describes; `where` names it in messages."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SchemaError(where, [f"not TOML: {error}"]) from error
    reader = _Reader(document)
    machine = reader.machine(where)
    if reader.complaints:
        raise SchemaError(where, reader.complaints)
    return machine
