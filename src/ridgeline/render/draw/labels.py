"""Axes and their texts, shared by all drawings: positions, ticks, values as people write them, wrapped lines."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...core.units import show
from ..chart import INTENSITY_UNIT, LOG, Axis


def position(axis: Axis, value: float, first: float, last: float) -> float:
    """The place of a value between `first` and `last` (points on paper, or cells)."""
    low, high = axis.range
    if axis.scale == LOG:
        low, high, value = math.log(low), math.log(high), math.log(max(value, 1e-300))
    return first + (value - low) / (high - low) * (last - first)


def ticks(axis: Axis, max_count: int = 9) -> list[tuple[float, str]]:
    """Values and their texts, about `max_count` of them at most."""
    if axis.scale != LOG:
        values = _even_values(axis, max_count)
    else:
        values = _powers(axis, 2.0 if axis.unit in (INTENSITY_UNIT, "") else 10.0, max_count)
    return [(value, tick_text(value, axis.unit)) for value in values]


def _powers(axis: Axis, base: float, max_count: int) -> list[float]:
    low, high = (math.log(value, base) for value in axis.range)
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    for step in (1, 2, 4, 6, 8, 12, 16):
        # multiples of the step, so that 1 is always among them when it is in range
        powers = [power for power in range(first, last + 1) if power % step == 0]
        if len(powers) <= max_count:
            break
    return [base**power for power in powers] if len(powers) >= 3 else _parts_of_decades(axis, max_count)


def _parts_of_decades(axis: Axis, max_count: int) -> list[float]:
    """Values within decades for a log axis that covers little, evenly spaced ones where even that is too coarse."""
    low, high = axis.range
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        values = [factor * 10.0**power for power in decades for factor in factors]
        values = [value for value in values if low * 0.999999 <= value <= high * 1.000001]
        if 2 <= len(values) <= max_count:
            return values
    return _even_values(axis, max_count)


def _even_values(axis: Axis, max_count: int) -> list[float]:
    low, high = axis.range
    finest = (high - low) / max(1, min(max_count, 7) - 1)
    decade = 10.0 ** math.floor(math.log10(finest))
    step = next(factor * decade for factor in (1, 2, 5, 10) if factor * decade >= finest * 0.999)
    if axis.unit == "year":
        step = max(1.0, math.ceil(step))
    return [index * step for index in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def tick_text(value: float, unit: str) -> str:
    """A value as an axis writes it: 1/16, 4, 100 GFLOP/s, 40 %."""
    if unit == "year":
        return f"{value:.0f}"
    if unit == "%":
        return f"{value * 100:.3g} %"
    if unit not in (INTENSITY_UNIT, ""):
        return show(value, unit, 4)
    inverse = 1 / value if 0 < value < 1 else math.inf
    if math.isfinite(inverse) and abs(inverse - round(inverse)) < 1e-9 and round(inverse).bit_count() == 1:
        return f"1/{round(inverse)}"
    if value >= 1e6:
        return show(value, "x", 3).removesuffix("x").replace(" ", "")
    return show(value, digits=4).replace(",", "")


def amount(value: float, unit: str) -> str:
    """A value in running text: an intensity with its unit (153 FLOP/B), anything else as on the axis."""
    if unit == INTENSITY_UNIT:
        return f"{show(value, '', 3 if value < 1000 else 4)} {unit}"
    return tick_text(value, unit)


def shorten(name: str, max_length: int = 34) -> str:
    """A long name with its middle left out."""
    if len(name) <= max_length:
        return name
    head = (max_length - 1) * 2 // 3
    return f"{name[:head]}…{name[-(max_length - 1 - head) :]}"


def wrap(words: str, width: float, measure: Callable[[str], float]) -> list[str]:
    """Lines no wider than `width` by `measure`; a longer word has a line of its own."""
    lines: list[str] = []
    for word in words.split():
        if lines and measure(f"{lines[-1]} {word}") <= width:
            lines[-1] = f"{lines[-1]} {word}"
        else:
            lines.append(word)
    return lines
