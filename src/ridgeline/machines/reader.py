"""Values and figures of a TOML document, checked as they are read; every complaint is kept instead of stopping at the first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..core.errors import InputError
from ..core.figure import Figure
from ..core.units import parse, percent, show

AGREEMENT = 0.025  # relative difference that stated and derived may have without a word in `differs`
FIGURE = {
    "stated", "derive", "derived", "derivation", "measured", "source", "differs", "spread", "measurement", "sustained",
}  # fmt: skip


class Reader:
    """Plain values, and figures with their sources, measurements and clocks, which the document lists once and figures name."""

    def __init__(self, document: Mapping[str, Any], keys: Collection[str]) -> None:
        self.document = document
        self.complaints: list[str] = []
        for key in document:
            if key not in keys:
                self.complain(f"unknown key '{key}'; a machine file may have {', '.join(sorted(keys))}")
        self.default_source = str(document.get("source", ""))
        self.sources = self.texts("sources")
        self.measurements = self.texts("measurements")
        self.conditions = self.texts("conditions")
        self.clocks: dict[str, Figure] = {}
        self.clocks = self.named("clock", lambda _: "Hz")

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

    def rows(self, key: str) -> list[Any]:
        """A list of tables, [[key]], at the top of the document; they are checked one by one."""
        value = self.document.get(key, [])
        if not isinstance(value, list):
            self.complain(f"{key} must be a list of tables, [[{key}]], found {value!r}")
            return []
        return value

    def lines(self, key: str) -> tuple[str, ...]:
        """A list of texts at the top of the document."""
        value = self.document.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.complain(f"{key} must be a list of texts, found {value!r}")
            return ()
        return tuple(value)

    def texts(self, key: str) -> dict[str, str]:
        """A table of texts at the top of the document."""
        return {name: str(value) for name, value in self.table(self.document.get(key), key).items()}

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
        stated, measured, sustained = (
            self.quantity(entry[key], unit, f"{where}.{key}") if key in entry else None
            for key in ("stated", "measured", "sustained")
        )
        derived, how = self.derived(entry, unit, where)
        differs, measurement = str(entry.get("differs", "")), str(entry.get("measurement", ""))
        if stated and derived and abs(derived / stated - 1) > AGREEMENT and not differs:
            self.complain(
                f"{where}: stated {show(stated, unit)} and derived {show(derived, unit)} ({how}) are more than {percent(AGREEMENT)} apart; say why in `differs`"
            )
        if measured is not None and not measurement:
            self.complain(f"{where}.measured needs `measurement`: how, when and on what")
        return Figure(
            unit,
            stated,
            derived,
            measured,
            source=self.source(str(entry.get("source", source)), where),
            derivation=how,
            measurement=self.measurements.get(measurement, measurement),
            differs=differs,
            spread=self.spread(entry.get("spread"), where),
            sustained=sustained,
        )

    def spread(self, value: Any, where: str) -> float | None:
        if value is None or (not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value < 10):
            return value
        self.complain(f"{where}.spread must be a fraction such as 0.02, found {value!r}")
        return None

    def derived(self, entry: Mapping[str, Any], unit: str, where: str) -> tuple[float | None, str]:
        """The derived value and the words of its derivation, which a file written by the tool keeps as they are."""
        if "derived" in entry:
            return self.quantity(entry["derived"], unit, f"{where}.derived"), str(entry.get("derivation", ""))
        return self.derive(entry["derive"], unit, f"{where}.derive") if "derive" in entry else (None, "")

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
        if isinstance(value, str) and value in self.clocks:
            return self.clocks[value].value()
        if isinstance(value, str) and not any(letter.isdigit() for letter in value):
            self.complain(f"{where}: clock '{value}' is not listed under [clock]")
            return None
        return self.quantity(value, "Hz", where)

    def named(self, key: str, unit: Callable[[str], str], allowed: set[str] | None = None) -> dict[str, Figure]:
        """A table of figures at the top of the document."""
        entries = self.table(self.document.get(key), key, allowed)
        return {name: self.figure(value, unit(name), f"{key}.{name}", plain=True) for name, value in entries.items()}
