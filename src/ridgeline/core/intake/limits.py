"""How much is accepted of anything that can grow; whoever needs more says so: `--limit read=16GiB`.

Python says it with `set_limits(["read=16GiB"])`; the command line also reads the variable RIDGELINE_LIMITS.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import InputError, unknown
from ..units import number, parse, show


@dataclass(frozen=True)
class Limit:
    most: float
    unit: str  # empty: a plain count
    what: str


LIMITS = {
    "read": Limit(8 * 2.0**30, "B", "bytes of one file, unpacked, that are read piece by piece"),
    "document": Limit(2.0**30, "B", "bytes of one file, unpacked, that are held as a whole"),
    "machine": Limit(32 * 2.0**20, "B", "bytes of a machine file"),
    "unpacking": Limit(100.0, "", "bytes that one packed byte may become"),
    "rows": Limit(20e6, "", "rows of a table, events of a trace, entries of a list"),
    "kernels": Limit(200e3, "", "kernels, ops or timings of one profile"),
    "cells": Limit(40e6, "", "cells of a table, values of a document"),
    "line": Limit(16 * 2.0**20, "B", "characters of a line or of one event"),
    "depth": Limit(32.0, "", "lists and tables inside each other"),
    "samples": Limit(10e6, "", "samples of one name"),
    "steps": Limit(2e9, "", "steps of the database on a ledger's file"),
    "cases": Limit(10e6, "", "cases of a sweep or a table"),
}
_given: dict[str, float] = {}


def limit(name: str) -> float:
    """The most that is accepted, as the user or the default has it."""
    return _given.get(name, LIMITS[name].most)


def set_limits(words: Iterable[str]) -> None:
    """Limits by `name=value` words in place of the defaults."""
    _given.update(_parsed(words))


def refuse_over(name: str, amount: float, what: str) -> None:
    """InputError where an amount is above its limit; `what` is the subject: `'trace.json.gz' unpacked`."""
    if amount > limit(name):
        raise over(name, what)


def over(name: str, what: str) -> InputError:
    """The refusal of what is above a limit, with the option that raises it."""
    row, most = LIMITS[name], limit(name)
    accepted = show(most, row.unit, binary=True) if row.unit else f"{most:,.0f}"
    twice = show(2 * most, row.unit, binary=True).replace(" ", "") if row.unit else f"{2 * most:.3g}".replace("+0", "")
    return InputError(
        f"{what} is over the limit of {accepted} ({row.what}); if it is meant, repeat with `ridgeline --limit {name}={twice} ...`"
    )


def _parsed(words: Iterable[str]) -> dict[str, float]:
    values = {}
    for word in words:
        name, equals, text = word.strip().partition("=")
        if name not in LIMITS:
            raise unknown("limit", name, LIMITS)
        unit = LIMITS[name].unit
        value = (parse(text, unit) if unit else float(number(text))) if equals else 0.0
        if not 0 < value < math.inf:
            raise InputError(f"limit {word}: give a number above 0, such as {name}={LIMITS[name].most:g}")
        values[name] = value
    return values
