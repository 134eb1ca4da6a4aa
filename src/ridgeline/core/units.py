"""Text to floats in base units (flop, B, s, Hz, W, J) and back; sweep axes such as 256..8192.

Everything inside ridgeline is in base units; prefixes exist only in text. A decimal prefix is a power
of 1000 (`GB` = 1e9 B), a binary one a power of 1024 (`GiB` = 2**30 B). `flop` is an amount, `flop/s` a
rate: one is never read as the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

from .errors import InputError, quoted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_SIZE = 1e18  # of a kernel, along one dimension
DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
FRACTIONAL = ("s", "J", "W", "J/flop", "J/B")  # units people divide; a milli-byte is a slip for a megabyte
FRACTIONS = {"m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15}

# symbol as written -> base unit; each spelling once, without its prefix.
SYMBOLS = {
    "flop": "flop", "FLOP": "flop", "flops": "flop", "FLOPs": "flop", "op": "flop", "OP": "flop", "OPs": "flop",
    "flop/s": "flop/s", "FLOP/s": "flop/s", "FLOPS": "flop/s", "FLOPs/s": "flop/s", "OPS": "flop/s", "OP/s": "flop/s",
    "op/s": "flop/s", "B": "B", "byte": "B", "bytes": "B", "B/s": "B/s", "Bps": "B/s", "s": "s", "Hz": "Hz", "W": "W",
    "J": "J", "J/flop": "J/flop", "J/B": "J/B", "T/s": "T/s", "bit": "bit", "flop/B": "flop/B", "FLOP/B": "flop/B",
}  # fmt: skip
MEANINGS = {
    "flop": "an amount of work (flop)", "flop/s": "a rate of work (flop/s)", "B": "an amount of data (B)",
    "B/s": "a bandwidth (B/s)", "s": "a time (s)", "Hz": "a clock (Hz)", "W": "a power (W)", "J": "an energy (J)",
    "J/flop": "an energy per flop (J/flop)", "J/B": "an energy per byte (J/B)", "T/s": "a transfer rate (T/s)",
    "bit": "a width (bit)", "flop/B": "an intensity (flop/B)",
}  # fmt: skip
EXAMPLES = {
    "flop": "2.5 Tflop", "flop/s": "989 TFLOP/s", "B": "80 GiB", "B/s": "3.35 TB/s", "s": "8 us", "Hz": "1.83 GHz",
    "W": "700 W", "J": "2 mJ", "J/flop": "0.3 pJ/flop", "J/B": "20 pJ/B", "T/s": "5.2 GT/s", "bit": "5120 bit",
    "flop/B": "295 flop/B",
}  # fmt: skip

WRITTEN = {
    "flop": "FLOP",
    "flop/s": "FLOP/s",
    "flop/B": "FLOP/B",
    "op": "OP",
    "op/s": "OP/s",
    "op/B": "OP/B",
}  # as people write them

# A number and whatever follows it: as anything may follow, no text is tried twice.
_NUMBER = re.compile(
    r"([+-]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(.*)", re.ASCII | re.DOTALL
)
_THOUSANDS = re.compile(r"0\d\d", re.ASCII)  # the rest of a number such as 1,024
_POWER = re.compile(r"(\d{1,20})\s*(?:\^|\*\*)\s*(\d{1,20})", re.ASCII)
MAX_EXACT = 2.0**53  # the whole number up to which float64 is exact


def _unit(text: str) -> tuple[float, str] | None:
    """Factor and base unit of a symbol with its prefix, longest symbol first (`TB/s` before `B`)."""
    for symbol in sorted(SYMBOLS, key=len, reverse=True):
        if text.endswith(symbol):
            prefix = text[: -len(symbol)]
            for table in (BINARY, DECIMAL, FRACTIONS):
                if prefix in table and (table is not FRACTIONS or SYMBOLS[symbol] in FRACTIONAL):
                    return table[prefix], SYMBOLS[symbol]
    return None


def _split(text: str) -> tuple[float, str] | None:
    """The number that a text begins with, and what follows it; None where it begins with none."""
    match = _NUMBER.fullmatch(text.strip())
    return (float(match[1].replace("_", "").replace(",", "")), match[2].strip()) if match else None


def parse(text: str | float, unit: str) -> float:
    """A quantity in base units from text such as `3.35 TB/s`; a bare number is already in base units."""
    if isinstance(text, bool) or not isinstance(text, str | Real):
        raise InputError(f"expected {MEANINGS[unit]}, such as '{EXAMPLES[unit]}', got {quoted(text)}")
    example = f"{MEANINGS[unit]} such as '{EXAMPLES[unit]}'"
    if not isinstance(text, str):
        try:
            value = float(text)
        except OverflowError:
            value = math.inf
    else:
        split = _split(text)
        if split is None:
            raise InputError(f"{quoted(text)} is not a quantity; write {example}")
        value, symbol = split
        if symbol:
            known = _unit(symbol)
            if known is None:
                raise InputError(f"{quoted(text)}: unknown unit {quoted(symbol)}; write {example}")
            factor, base = known
            if base != unit:
                raise InputError(f"{quoted(text)} is {MEANINGS[base]}; asked for is {example}")
            value *= factor
    if not math.isfinite(value):
        raise InputError(f"{quoted(text)} is not a finite number; write {example}")
    return value


def bare(text: str) -> bool:
    """Whether a quantity comes without a unit."""
    split = _split(text)
    return split is not None and not split[1]


PLAIN_UNITS = ("", "FLOP/B", "OP/B", "%")  # never with a prefix, as long as the number stays readable
READABLE = 1e7  # a plain number from here on gets a prefix: 134 M


def show(value: float | None, unit: str = "", digits: int = 3, binary: bool = False) -> str:
    """A quantity as people write it: `3.35 TB/s`, `40 MiB`, `8 us`; integers as integers; `-` for what is not known."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    unit = WRITTEN.get(unit, unit)
    if isinstance(value, int) and not unit:
        return f"{value:,}"
    value = float(value)
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    size = abs(value)
    fraction = unit in FRACTIONAL and 0 < size < 1
    if binary and size >= 1024:
        steps = [(factor, prefix) for prefix, factor in BINARY.items()]
    elif (unit in PLAIN_UNITS and size < READABLE) or (unit == "s" and size >= 1):
        steps = []
    elif fraction:
        steps = TIME_STEPS
    else:
        steps = [(DECIMAL[prefix], prefix) for prefix in "kMGTPE"]
    # the largest step the rounded number still reaches, so that 999,999 B is 1 MB and not 1,000 kB
    rounded = float(f"{size:.{digits - 1}e}")
    reached = [(factor, prefix) for factor, prefix in steps if rounded >= factor]
    factor, prefix = max(reached, default=(1e-12, "p") if fraction else (1.0, ""))
    return f"{rounded_text(value / factor, digits)} {prefix}{unit}".rstrip()


MIN_IN_UNIT = 0.01  # the smallest number that a column of times shows before it takes a smaller unit
TIME_STEPS = [(1e-12, "p"), (1e-9, "n"), (1e-6, "u"), (1e-3, "m"), (1.0, "")]


def rounded_text(value: float, digits: int = 3) -> str:
    """`digits` significant figures, all those before the point, and no exponent where the number stays readable."""
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e7:
        places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        text = f"{value:,.{places}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.{digits}g}"


def percent(share: float | None, digits: int = 2) -> str:
    """A share of 1 as people read it: `84 %`, `5.4 %`, `<0.1 %`."""
    if share is None or math.isnan(share):
        return "-"
    value = share * 100
    if 0 < abs(value) < 0.1:
        return "<0.1 %" if value > 0 else ">-0.1 %"
    return show(float(value), "%", digits)


def time_unit(seconds: Iterable[float]) -> tuple[float, str]:
    """One unit for several times, as its factor and name: that of the largest, or a smaller one that fits all better."""
    known = [abs(value) for value in seconds if 0 < abs(value) < math.inf] or [1.0]
    largest, smallest = float(f"{max(known):.2e}"), min(known)
    reached = [step for step in TIME_STEPS if largest >= step[0]] or TIME_STEPS[:1]
    smaller = len(reached) > 1 and smallest / reached[-1][0] < MIN_IN_UNIT
    factor, prefix = reached[-2 if smaller else -1]
    return factor, f"{prefix}s"


def show_interval(time: float, low: float, high: float) -> str:
    """A time and its interval in one unit: `167 us [149-190]`."""
    factor, unit = time_unit([time])
    return f"{rounded_text(time / factor)} {unit} [{span_text(low / factor, high / factor)}]"


def span_text(low: float, high: float) -> str:
    """From one number to another, without separators of thousands: `149-190`."""
    return "-".join(rounded_text(value).replace(",", "") for value in (low, high))


def counted(count: int, noun: str, ending: str = "s") -> str:
    """`1 core`, `2 cores`."""
    return f"{count} {noun}{'' if count == 1 else ending}"


def enumerated(names: Sequence[str]) -> str:
    """`fp64, tf32 and int8`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def number(text: str, unit: str = "") -> float:
    """A number as typed for a size: `4096`, `1e8`, `2^20`, `16M` (k, M and G are powers of 1000), `64Ki` (of 1024).

    With a `unit` it may be written: `64MiB`.
    """
    text = text.strip()
    power = _POWER.fullmatch(text)
    if power:
        if int(power[2]) * math.log2(max(int(power[1]), 1)) > 1023:
            raise InputError(f"{quoted(text)} is too large to count with")
        return float(int(power[1]) ** int(power[2]))
    split = _split(text)
    if split is not None:
        value, symbol = split
        factor = BINARY.get(symbol, DECIMAL.get(symbol))
        if factor is None and unit:
            known = _unit(symbol)
            factor = known[0] if known and known[1] == unit else None
        if factor is not None:
            if not math.isfinite(value * factor):
                raise InputError(f"{quoted(text)} is too large to count with")
            return value * factor
    examples = "1e9, 64MiB or 1GB" if unit else "4096, 1e8, 2^20, 64Ki or 16M"
    raise InputError(f"{quoted(text)} is not a number; write {examples}")


MAX_RATIO = 10.0**100  # of the last value of a sweep to the first


@dataclass(frozen=True)
class _Span:
    """Values of a sweep before they are made: `count` of them, each `width` further, or that many times as large."""

    start: float
    width: float = 1.0
    count: int = 1
    factors: bool = False


def axis(text: str, unit: str = "") -> float | NDArray[np.float64]:
    """A size or a sweep of sizes.

    `64` one value; `1,8,64` a list; `1..8192` doubling from the first while not past the last;
    `1..100:10` in steps of 10; `1..4096:x4` in factors of 4.
    """
    import numpy as np  # here, so that machine files and --help load without it

    from .intake.limits import refuse_over  # which reads its values with this file

    text = text.strip()
    if "," not in text and ".." not in text:
        return number(text, unit)
    parts = [part for part in text.split(",") if part.strip()]
    if not parts:
        raise InputError(f"{quoted(text)} names no values; write a list such as 1,8,64")
    if any(_THOUSANDS.fullmatch(part.strip()) for part in parts[1:]):
        together = text.replace(",", "")
        raise InputError(
            f"{quoted(text)}: commas separate the values of a list; write {quoted(together)} for one value"
        )
    spans = [_span(part, unit) for part in parts]
    count = sum(span.count for span in spans)
    refuse_over("cases", count, f"{quoted(text)} with its {show(float(count))} values")
    arrays = []
    for span in spans:
        places = np.arange(span.count)
        arrays.append(span.start * span.width**places if span.factors else span.start + span.width * places)
    return np.concatenate(arrays, dtype=np.float64)


def _span(text: str, unit: str) -> _Span:
    """One value, or from one value to another."""
    first, dots, rest = text.strip().partition("..")
    if not dots:
        return _Span(number(first, unit))
    last, _, step = rest.partition(":")
    start, stop = number(first, unit), number(last, unit)
    if start <= 0 or stop < start or stop / MAX_RATIO > start:
        raise InputError(f"{quoted(text)}: a sweep runs upwards from a positive value, such as 1..8192")
    factors = not step or step.startswith("x")
    width = number(step.removeprefix("x"), "" if factors else unit) if step else 2.0
    if factors and width <= 1:
        raise InputError(f"{quoted(text)}: the factor after ':x' must be above 1")
    if width <= 0:
        raise InputError(f"{quoted(text)}: the step after ':' must be positive")
    last_place = (math.log(stop) - math.log(start)) / math.log(width) if factors else (stop - start) / width
    if not math.isfinite(last_place):
        raise InputError(f"{quoted(text)}: the step after ':' is too small")
    return _Span(start, width, math.floor(last_place + 1e-9) + 1, factors)
