"""The door for machine files: values and figures of a TOML document, checked as they are read."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..core.errors import InputError, SchemaError
from ..core.figure import Figure
from ..core.intake import Door, clean, limit
from ..core.intake.door import shown
from ..core.machine import RATES
from ..core.units import parse, percent, show

AGREEMENT = 0.025  # relative difference that stated and derived may have without a word in `differs`
FIGURE = {
    "stated", "derive", "derived", "derivation", "measured", "source", "differs", "spread", "measurement", "sustained",
}  # fmt: skip
# What a figure may be, by unit: far beyond all machines, and every product and ratio of two stays finite.
RANGES = {
    "flop/s": RATES, "B/s": RATES, "T/s": RATES, "Hz": (1.0, 1e15), "B": (1.0, 10.0**24), "s": (1e-15, 1e6), "W": (1e-9, 1e9),
    "J": (10.0**-24, 1e9), "J/flop": (10.0**-24, 1e6), "J/B": (10.0**-24, 1e6),
}  # fmt: skip
MAX_COUNT = 1e9  # of units, cores, bits of a bus
MAX_SPREAD = 10.0
MAX_QUANTITY = 100  # characters of a number with its unit
MAX_PARTS = 10  # of a dotted key
BYTES_PER_VALUE = 40  # of a machine file, at least: timings are one long text each


def toml(text: str, where: str) -> dict[str, Any]:
    """The tables of a TOML text. What the parser would take long for is refused before: many values, long dotted keys."""
    most = int(limit("machine") / BYTES_PER_VALUE)
    if sum(text.count(sign) for sign in "=,[{") > most:
        raise SchemaError(where, [f"has more than {most:,} values; if they are meant, raise the limit `machine`"])
    word = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
    lines = "\n".join(line for line in text.split("\n") if "=" in line or "]" in line)  # that may hold a key
    if re.search(rf"(?<![\w-])(?:{word}[ \t]*+\.[ \t]*+){{{MAX_PARTS}}}", lines):
        raise SchemaError(where, [f"a key has more than {MAX_PARTS} parts"])
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SchemaError(where, [f"not TOML: {clean(str(error), MAX_QUANTITY)}"]) from error
    except RecursionError:
        raise SchemaError(where, ["lists or tables are nested too deep"]) from None
    except ValueError:  # Python reads whole numbers of some thousand digits and no longer ones
        raise SchemaError(where, ["a number has too many digits"]) from None


class Reader(Door):
    """Figures with their sources, measurements and clocks, which the document lists once and figures name."""

    def __init__(self, document: Mapping[str, Any], where: str, keys: Collection[str]) -> None:
        super().__init__(where)
        self.document = self.table(document, "", keys)
        self.default_source = self.text(self.document.get("source"), "source")
        self.sources = self.named_texts("sources")
        self.measurements = self.named_texts("measurements")
        self.clocks: dict[str, Figure] = {}
        self.clocks = self.named("clock", lambda _: "Hz")

    def named_texts(self, key: str) -> dict[str, str]:
        """A table of texts at the top of the document, none of them empty."""
        table = self.table(self.document.get(key), key)
        return {name: self.text(value, f"{key}.{name}", needed=True) for name, value in table.items()}

    def conditions(self) -> dict[str, str]:
        """Under which was measured: texts, or plain values that are kept as texts."""
        conditions = {}
        for name, value in self.table(self.document.get("conditions"), "conditions").items():
            if isinstance(value, Mapping | list):
                self.complain(f"conditions.{name}", f"must be a text, found {shown(value)}")
            conditions[name] = clean(value) if isinstance(value, str) else shown(value)
        return conditions

    def count(self, value: Any, place: str) -> int:
        return int(self.number(value, place, low=1, high=MAX_COUNT, whole=True))

    def quantity(self, value: Any, unit: str, place: str) -> float | None:
        """A number with its unit."""
        if not isinstance(value, str) or len(value) > MAX_QUANTITY:
            self.complain(place, f"must be a text with its unit, found {shown(value)}")
            return None
        try:
            amount = parse(value, unit)
        except InputError as error:
            self.complain(place, str(error))
            return None
        if not any(letter.isalpha() for letter in value):
            self.complain(place, f"is {shown(value)}, which has no unit")
        return self.within(amount, unit, place)

    def within(self, amount: float, unit: str, place: str) -> float | None:
        low, high = RANGES[unit]
        if low <= amount <= high:
            return amount
        self.complain(place, f"is {amount:g} {unit}; it is from {low:g} to {high:g} {unit}")
        return None

    def source(self, name: str, place: str) -> str:
        name = name or self.default_source
        if not name:
            self.complain(place, "names no source")
        elif name not in self.sources:
            self.complain(place, f"source {shown(name)} is not listed under [sources]")
        return self.sources.get(name, "")

    def figure(self, value: Any, unit: str, place: str, source: str = "", plain: bool = False) -> Figure:
        """A figure table, or (where `plain`) a bare text that takes the surrounding source."""
        if value is None:
            return Figure(unit)
        if plain and isinstance(value, str):
            value = {"stated": value}
        entry = self.table(value, place, FIGURE)
        if not {"stated", "derive", "derived", "measured"} & set(entry):
            if isinstance(value, Mapping):
                self.complain(place, "has neither stated, derive nor measured")
            return Figure(unit)
        stated, measured, sustained = (
            self.quantity(entry[key], unit, f"{place}.{key}") if key in entry else None
            for key in ("stated", "measured", "sustained")
        )
        derived, how = self.derived(entry, unit, place)
        differs, measurement = (self.text(entry.get(key), f"{place}.{key}") for key in ("differs", "measurement"))
        if stated and derived and abs(derived / stated - 1) > AGREEMENT and not differs:
            self.complain(
                place,
                f"stated {show(stated, unit)} and derived {show(derived, unit)} ({how}) are more than {percent(AGREEMENT)} apart; say why in `differs`",
            )
        if measured is not None and not measurement:
            self.complain(f"{place}.measured", "needs `measurement`: how, when and on what")
        spread = entry.get("spread")
        return Figure(
            unit,
            stated,
            derived,
            measured,
            source=self.source(self.text(entry.get("source"), f"{place}.source") or source, place),
            derivation=how,
            measurement=self.measurements.get(measurement, measurement),
            differs=differs,
            spread=None if spread is None else self.number(spread, f"{place}.spread", high=MAX_SPREAD),
            sustained=sustained,
        )

    def derived(self, entry: Mapping[str, Any], unit: str, place: str) -> tuple[float | None, str]:
        """The derived value and the words of its derivation, which a file written by the tool keeps as they are."""
        if "derived" in entry:
            how = self.text(entry.get("derivation"), f"{place}.derivation")
            return self.quantity(entry["derived"], unit, f"{place}.derived"), how
        if "derive" not in entry:
            return None, ""
        amount, how = self.derive(entry["derive"], unit, f"{place}.derive")
        return (None, "") if amount is None else (self.within(amount, unit, f"{place}.derive"), how)

    def derive(self, value: Any, unit: str, place: str) -> tuple[float | None, str]:
        """units x per_cycle x clock, or clock x bus / 8 x transfers (memory, links)."""
        entry = self.table(value, place, {"units", "per_cycle", "clock", "bus", "transfers", "rate"})
        if "bus" in entry:
            bus = self.count(entry["bus"], f"{place}.bus")
            if "rate" in entry:
                rate = self.quantity(entry["rate"], "T/s", f"{place}.rate")
                return (None, "") if rate is None else (rate * bus / 8, f"{bus} bit x {show(rate, 'T/s')} / 8")
            clock = self.clock(entry.get("clock"), f"{place}.clock")
            transfers = self.count(entry.get("transfers"), f"{place}.transfers")
            if clock is None:
                return None, ""
            return clock * bus * transfers / 8, f"{show(clock, 'Hz')} x {bus} bit x {transfers} transfers / 8"
        units = self.count(entry.get("units"), f"{place}.units")
        per_cycle = self.per_cycle(entry.get("per_cycle"), f"{place}.per_cycle")
        clock = self.clock(entry.get("clock"), f"{place}.clock")
        if clock is None:
            return None, ""
        what = unit.removesuffix("/s")
        return units * per_cycle * clock, f"{units} units x {per_cycle:g} {what}/cycle x {show(clock, 'Hz')}"

    def per_cycle(self, value: Any, place: str) -> float:
        return self.number(value, place, low=1e-6, high=1e9)

    def clock(self, value: Any, place: str) -> float | None:
        """A clock by its name in [clock], or written out."""
        if isinstance(value, str) and value in self.clocks:
            return self.clocks[value].value()
        if isinstance(value, str) and not any(letter.isdigit() for letter in value):
            self.complain(place, f"clock {shown(value)} is not listed under [clock]")
            return None
        return self.quantity(value, "Hz", place)

    def named(self, key: str, unit: Callable[[str], str], allowed: Collection[str] | None = None) -> dict[str, Figure]:
        """A table of figures at the top of the document."""
        entries = self.table(self.document.get(key), key, allowed)
        return {name: self.figure(value, unit(name), f"{key}.{name}", plain=True) for name, value in entries.items()}
