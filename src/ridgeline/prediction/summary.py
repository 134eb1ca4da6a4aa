"""A prediction in a few lines, the answer first: what Python prints for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.units import parse, show
from ..core.work import Array

if TYPE_CHECKING:
    from ..core.bound import Bound
    from .predict import Prediction

MIN_CONFIDENCE = 0.95  # of the bound; a lower one is named
MAX_LINES = 4  # cases of a sweep, or steps of a program, that are listed
LEVELS = {"nvlink": "NVLink", "memory": "memory", "launch": "launch"}  # others are upper case: HBM, L2, DRAM


def answer_line(prediction: Prediction) -> str:
    """`167 us [149-190] · memory-bound (HBM) · 84 % of roofline · MFU 0.3 % · MBU 84 %`, of a single case."""
    ends = (_first(end) for end in (prediction.time, prediction.low, prediction.high))
    roofline = f"{share(_first(prediction.efficiency))} of roofline"
    parts = [time_text(*ends)]
    if len(prediction.steps) == 1:
        parts += [bound_text(prediction.bounds[0]), roofline, *_utilization(prediction)]
    else:
        parts += [f"{len(prediction.steps)} steps", roofline]
    return " · ".join(parts)


def summary(prediction: Prediction) -> str:
    """The answer line with what it is of; of a sweep and a program the first rows and how many more there are."""
    on = f"on {prediction.machine.name}"
    times = np.atleast_1d(np.asarray(prediction.time)).ravel()
    if not prediction.steps:
        return f"nothing to predict {on}: the program has no steps"
    if len(times) > 1:
        span = f"{show(float(times.min()), 's', 3)} to {show(float(times.max()), 's', 3)}"
        is_list = len(prediction.steps) == 1 and np.ndim(prediction.time) == 1
        head = f"{len(times)} cases {on}: {span}"
        return "\n".join([head, *(_sweep_lines(prediction) if is_list else ())])
    if len(prediction.steps) > 1:
        rows = [f"  {step.name} x{step.count:g}: {answer_line(prediction.step(place))}"
                for place, step in enumerate(prediction.steps[:MAX_LINES])]  # fmt: skip
        return "\n".join([f"{answer_line(prediction)} {on}", *rows, *_more(len(prediction.steps), "steps")])
    work = prediction.bounds[0].work
    floor = f"roofline {show(_first(prediction.floor), 's', 3)} ({prediction.bounds[0].kinds} ceilings)"
    return f"{answer_line(prediction)}\n  {work!r}\n  {on}; {floor}; {_first_text(prediction.expected[0].confidence)}"


def _sweep_lines(prediction: Prediction) -> list[str]:
    work, lines = prediction.bounds[0].work, []
    for row in prediction.rows(MAX_LINES):
        sizes = " ".join(f"{name}={value}" for name, value in row["shape"].items())
        times = time_text(*(row[key] / 1e6 for key in ("time_us", "low_us", "high_us")))
        bound = f"{row['bound']}-bound" if row["bound"] != "balanced" else "balanced"
        lines.append(
            f"  {work.name} {sizes}: {times} · {bound} ({limiter_text(row['limiter'])}) · {share(row['efficiency'])} of roofline"
        )
    return [*lines, *_more(prediction.count, "cases")]


def _more(count: int, what: str) -> list[str]:
    return [f"  ... {count - MAX_LINES} more {what}"] if count > MAX_LINES else []


def time_text(time: float, low: float, high: float) -> str:
    """`167 us [149-190]`: the interval in the unit of the time."""
    text = show(time, "s", 3)
    unit = parse(f"1 {text.split()[1]}", "s")
    return f"{text} [{show(low / unit, '', 3)}-{show(high / unit, '', 3)}]"


def share(value: float) -> str:
    """A fraction as people say it: `84 %`, `0.3 %`."""
    percent = value * 100
    return f"{percent:.0f} %" if percent >= 9.5 else f"{percent:.1g} %" if percent < 1 else f"{percent:.2g} %"


def limiter_text(name: str) -> str:
    return name if "." in name else LEVELS.get(name, name.upper())


def bound_text(bound: Bound) -> str:
    name, confidence = _first_text(bound.bound), _first(bound.confidence)
    sides = "balanced" if name == "balanced" else f"{name}-bound"
    sure = "" if confidence >= MIN_CONFIDENCE or name == "overhead" else f", {share(confidence)} confidence"
    return f"{sides} ({limiter_text(_first_text(bound.limiter))}){sure}"


def _utilization(prediction: Prediction) -> list[str]:
    """Model flop and bandwidth utilization of the expected time, where the machine has the ceilings."""
    bound, time = prediction.bounds[0], _first(prediction.time)
    parts = []
    if bound.peak is not None and _first(bound.flops):
        parts.append(f"MFU {share(_first(bound.flops) / time / _first(bound.peak))}")
    outer = [term for term in bound.terms.values() if term.side == "memory"]
    if outer:
        parts.append(f"MBU {share(_first(outer[-1].amount) / time / _first(outer[-1].rate))}")
    return parts


def _first(value: Array) -> float:
    return float(np.asarray(value).ravel()[0])


def _first_text(value: Any) -> str:
    return str(np.asarray(value).ravel()[0])
