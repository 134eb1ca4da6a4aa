"""Typed values of a document from outside: every value is checked where it comes in, and all complaints come at once.

    door = Door("cases.json")
    name = door.text(row.get("name"), at(3, "name"))
    time = door.number(row.get("time_us"), at(3, "time_us"), low=1e-9)
    door.close()        # SchemaError with every complaint, or nothing

A value that is refused is replaced by a harmless one, so that the rest of the document is still read.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from numbers import Integral, Real
from typing import Any

from ..errors import SchemaError
from .limits import limit
from .text import clean

MAX_NUMBER = 10.0**100  # nothing that is counted or timed gets there, and the product of two is still a number
MIN_NUMBER = 1 / MAX_NUMBER  # what lies between it and 0 makes a ratio infinite
MAX_SHOWN = 60  # characters of a refused value in a complaint
MAX_COMPLAINTS = 20  # of one document that are listed
MAX_COMPLAINT = 600  # characters of one


@lru_cache(maxsize=4096)  # the places of many small documents are the same ones
def at(row: int | None = None, column: str = "") -> str:
    """The place of a value: `row 3, column m`."""
    return ", ".join(
        [*([f"row {row}"] if row is not None else []), *([f"column {clean(column, MAX_SHOWN)}"] if column else [])]
    )


def shown(value: Any) -> str:
    """A refused value in a complaint: short, on one line, whatever it is."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**MAX_SHOWN:
        return "a number with too many digits"
    if isinstance(value, Mapping | list | tuple):
        return f"a {'table' if isinstance(value, Mapping) else 'list'} of {len(value)}"
    text = clean(str(value), MAX_SHOWN)
    return repr(text) if isinstance(value, str) else text


def native(value: Any) -> Any:
    """A number of numpy as one of Python; anything else as it is."""
    if type(value) in (float, int, bool, str) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


class Door:
    """Checks of one document, named `where`. Values that pass are of their type, finite, in range and clean."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.complaints: list[str] = []
        self.more = 0

    def complain(self, place: str, text: str) -> None:
        if len(self.complaints) < MAX_COMPLAINTS:
            self.complaints.append(clean(f"{place}: {text}" if place else text, MAX_COMPLAINT))
        else:
            self.more += 1

    @property
    def refused(self) -> int:
        """How many complaints there are so far."""
        return len(self.complaints) + self.more

    def close(self) -> None:
        """SchemaError with all complaints where there are any."""
        if self.complaints:
            more = [f"and {self.more:,} more"] if self.more else []
            raise SchemaError(self.where, [*self.complaints, *more])

    def text(self, value: Any, place: str, needed: bool = False, choices: Collection[str] = ()) -> str:
        """A text, clean; None and nothing are empty, which `needed` refuses."""
        if value is None or value == "":
            if needed:
                self.complain(place, "is missing; give a text")
            return ""
        if not isinstance(value, str):
            self.complain(place, f"must be a text, found {shown(value)}")
            return ""
        text = clean(value)
        if choices and text not in choices:
            self.complain(place, f"is {shown(text)}; it is one of {', '.join(sorted(choices))}")
        if needed and not text.strip():
            self.complain(place, "is empty; give a text")
        return text

    def number(self, value: Any, place: str, low: float = 0.0, high: float = MAX_NUMBER, whole: bool = False) -> float:
        """A finite number from `low` to `high`; `low` where it is refused."""
        value = native(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            kind = "a whole number" if whole else "a number"
            self.complain(place, f"is {shown(value)}; it is {kind} from {low:g} to {high:g}")
            return max(low, min(high, 1.0))
        if 0 < abs(value) < MIN_NUMBER:
            self.complain(place, f"is {shown(value)}; it is 0, or at least {MIN_NUMBER:g}")
            return low
        if whole and value != math.floor(value):
            self.complain(place, f"is {shown(value)}; it is a whole number from {low:g} to {high:g}")
        return float(value)

    def numbers(self, value: Any, place: str, low: float = 0.0, high: float = MAX_NUMBER) -> tuple[float, ...]:
        """A list of such numbers; the complaint names the first that is none."""
        if not isinstance(value, Sequence) or isinstance(value, str):
            self.complain(place, f"must be a list of numbers, found {shown(value)}")
            return ()
        # long lists are checked without a step of Python per number; what fails is looked for below
        above, below = float(low).__le__, float(high).__ge__
        if set(map(type, value)) <= {int, float} and all(map(above, value)) and all(map(below, value)):
            return tuple(map(float, value))
        for number, item in enumerate(value, 1):
            if isinstance(item, bool) or not isinstance(item, int | float) or not low <= item <= high:
                self.complain(place, f"entry {number} is {shown(item)}; it is a number from {low:g} to {high:g}")
                return ()
        return tuple(map(float, value))

    def table(self, value: Any, place: str, keys: Collection[str] | None = None) -> dict[str, Any]:
        """A table by its keys, which are clean; keys that are not known are complained of."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.complain(place, f"must be a table, found {shown(value)}")
            return {}
        for key in value:
            if not isinstance(key, str):
                self.complain(place, f"has the key {shown(key)}; keys are texts")
                return {}
            if keys is not None and key not in keys:
                self.complain(place, f"unknown key {shown(key)}; it may have {', '.join(sorted(keys))}")
        table = {clean(key): item for key, item in value.items()}
        if len(table) < len(value):
            self.complain(place, "has two keys that differ only in what cannot be printed")
        return table

    def amounts(self, value: Any, place: str) -> dict[str, float]:
        """A table of numbers of zero or more, by name."""
        return {name: self.number(item, f"{place}.{name}") for name, item in self.table(value, place).items()}

    def items(self, value: Any, place: str) -> list[Any]:
        """A list of anything, each of which is checked by the caller."""
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.complain(place, f"must be a list, found {shown(value)}")
            return []
        return list(value)

    def texts(self, value: Any, place: str) -> tuple[str, ...]:
        """A list of texts; one text counts as a list of one."""
        listed = [value] if isinstance(value, str) else self.items(value, place)
        return tuple(self.text(item, f"{place} {number}") for number, item in enumerate(listed, 1))

    def schema(self, value: Any, known: int) -> None:
        """The number of a format: an older one is read, a newer one refused."""
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            self.complain("schema", f"is {shown(value)}; it is a whole number")
        elif value > known:
            self.complain("schema", f"is {shown(value)}, newer than {known}; install a newer ridgeline")

    def plain(self, value: Any, place: str) -> Any:
        """Any value of JSON: clean texts, finite numbers, not nested too deep. For settings and conditions."""
        try:
            return self._plain(value, place, int(limit("depth")))
        except RecursionError:
            self.complain(place, "is nested too deep")
            return None

    def _plain(self, value: Any, place: str, depth: int) -> Any:
        value = native(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return clean(value)
        if isinstance(value, int | float):
            if -MAX_NUMBER <= value <= MAX_NUMBER:
                return value
            self.complain(place, f"is {shown(value)}; numbers are finite and below {MAX_NUMBER:g}")
            return None
        if depth <= 0:
            self.complain(place, f"is nested deeper than {limit('depth'):.0f}; raise it with --limit depth=")
            return None
        if isinstance(value, Mapping):
            return {clean(str(key)): self._plain(item, place, depth - 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._plain(item, place, depth - 1) for item in value]
        self.complain(place, f"is {shown(value)}, which has no place here")
        return None
