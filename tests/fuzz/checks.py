"""What must be true of a value that came out of a parser, whatever went in."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ridgeline.core.machine import Machine
from ridgeline.core.observation import Observation
from ridgeline.core.timeline import PHASES, Timeline


class WrongValue(AssertionError):
    """A value that should have been refused, or that went missing."""


def hold(condition: bool, text: str) -> None:
    if not condition:
        raise WrongValue(text)


def printable(text: object, what: str) -> None:
    hold(isinstance(text, str), f"{what} is no text: {type(text).__name__}")
    hold(str(text).isprintable(), f"{what} is not printable: {str(text)[:80]!r}")


def finite(value: object, what: str, low: float = -math.inf) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    hold(number and math.isfinite(value) and value >= low, f"{what} is {str(value)[:60]}")  # type: ignore[arg-type]


def times(samples: Sequence[float], what: str) -> None:
    hold(len(samples) > 0, f"no samples: {what}")
    for sample in samples:
        finite(sample, "a time")
        hold(sample > 0, f"a time is {sample}")


def writable(document: Any, what: str) -> str:
    """JSON that any other program reads: no NaN, no lone surrogates."""
    try:
        text = json.dumps(document, allow_nan=False, ensure_ascii=False)
        text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise WrongValue(f"{what} cannot be written as JSON: {error}") from error
    return text


def shown(text: str, what: str) -> None:
    """Text for a terminal or a file: lines that are printable."""
    for line in text.split("\n"):
        hold(line.replace("\t", "").isprintable(), f"{what} has an unprintable line: {line[:80]!r}")


BIDIRECTIONAL = set("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def quiet(text: str, what: str) -> None:
    """Output of a command: nothing in it that moves a cursor, turns text around or cannot be written."""
    for line in text.split("\n"):
        odd = [sign for sign in line if unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") and sign != "\t"]
        hold(not odd and not BIDIRECTIONAL & set(line), f"{what} has a line with control characters: {line[:80]!r}")


def observations(items: Iterable[Observation]) -> None:
    for item in items:
        for field in ("name", "target", "kernel", "tool", "version"):
            printable(getattr(item, field), field)
        for text in (*item.notes, *item.path):
            printable(text, "a note or path")
        times(item.samples, item.name)
        finite(item.median, "the median", 0.0)
        for field in ("flops", "bytes", "counters"):
            for name, amount in getattr(item, field).items():
                printable(name, f"a name of {field}")
                finite(amount, f"{field}.{name}", 0.0 if field != "counters" else -math.inf)
        for field in ("settings", "conditions", "defined"):
            writable(dict(getattr(item, field)), field)


def predicted(rows: Sequence[Mapping[str, Any]], errors: Mapping[int, str]) -> None:
    """Every row has its time, or an error that names it."""
    for number, row in enumerate(rows, 1):
        if number in errors:
            shown(errors[number], "an error")
            continue
        for name in ("time_us", "low_us", "high_us", "floor_us"):
            finite(row[name], name, 0.0)
        hold(row["time_us"] > 0, "a predicted time is 0")
        for name in ("flops", "bytes"):
            finite(row[name], name, 0.0)


def machine(value: Machine) -> None:
    for text in (value.name, value.title, value.vendor, value.architecture, *value.aliases, *value.notes):
        printable(text, "a text of the machine")
    levels = [figure for level in value.levels for figure in (level.capacity, level.bandwidth, level.latency)]
    figures = [*value.peaks.values(), *value.clocks.values(), *value.limits.values(), *value.energy.values(), *levels]
    for figure in [*figures, value.launch, value.dispatch, value.tdp]:
        for number in (figure.stated, figure.derived, figure.measured, figure.sustained, figure.spread):
            if number is not None:
                finite(number, "a figure", 0.0)
    for name, rate in value.per_cycle.items():
        printable(name, "a name of per_cycle")
        finite(rate, "a rate per cycle", 0.0)


def timeline(line: Timeline) -> None:
    """Columns of equal length in order, numbers that point somewhere, steps one after the other, clean names."""
    for columns in (line.runs, line.calls, line.waits):
        arrays = [value for value in vars(columns).values() if isinstance(value, np.ndarray)]
        hold(len({len(array) for array in arrays}) == 1, "columns of unequal length")
        hold(bool(np.isfinite(columns.start).all() and np.isfinite(columns.end).all()), "a time that is no number")
        hold(bool((columns.start <= columns.end).all()), "an end before its start")
        hold(bool((np.diff(columns.start) >= 0).all()), "rows out of order")
        indexes(columns.site, len(line.sites), "a site")
    indexes(line.runs.activity, len(line.activities), "an activity", 0)
    indexes(line.runs.call, len(line.calls), "a call")
    indexes(line.runs.step, len(line.steps), "a step")
    hold(len(line.waits.what) == len(line.waits.through) == len(line.waits), "a wait without its name")
    hold(len(line.steps) > 0 and bool((line.steps.start <= line.steps.end).all()), "a step that ends before it starts")
    for site in line.sites:
        hold(site.phase in PHASES, f"a phase {site.phase}")
        calls = (site.call, *site.outer)
        sizes = [size for call in calls for tensor in call.tensors for size in (*tensor.shape, *tensor.strides)]
        hold(all(isinstance(size, int) and size >= 0 for size in sizes), "a shape that is none")
        texts = (site.source, *site.modules, *site.ranges, *site.fused, *(call.name for call in calls))
        for text in (*texts, *(tensor.dtype for call in calls for tensor in call.tensors)):
            printable(text, "a name")
    for activity in line.activities:
        printable(activity.name + activity.kernel + activity.device, "a kernel")
        writable(dict(activity.settings), "settings")
    writable(dict(line.conditions), "conditions")


def indexes(values: np.ndarray, count: int, what: str, low: int = -1) -> None:
    hold(bool(((values >= low) & (values < count)).all()), f"{what} that does not exist")
