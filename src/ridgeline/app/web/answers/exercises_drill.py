"""The drill: flash cards of ridge, AI and regime. A seed and a number make a card, so nothing is kept between requests."""

from __future__ import annotations

from random import Random
from typing import Any

from ....core.errors import InputError, quoted
from ....core.units import show
from ....prediction.answer import answer
from ....programs.ops import find
from .exercises import intensity_text
from .exercises_regimes import REGIMES, is_right, reason
from .lookup import machine_of

TOLERANCE = 0.3  # a mental estimate this near counts as right
KINDS = ("ridge", "intensity", "regime")  # in turns
MACHINES = ("a100-sxm-80gb", "h100-sxm", "b200-sxm", "mi300x", "l4")
MEMORIZED = ("a100-sxm-80gb", "h100-sxm", "b200-sxm")  # whose peaks and bandwidths the lesson lists
FORMATS = ("fp16", "fp8", "fp32")
STATED = "stated"  # the figures that people have in their heads
SIDES = (512, 1024, 2048, 4096, 8192)
BATCHES = (1, 8, 32, 64)
ELEMENTS = 1 << 26
ROWS = (64, 128, 16384)
Document = dict[str, Any]
Case = tuple[str, dict[str, Any], str]  # op, values, as the card names it


def card(seed: int, number: int) -> Document:
    """The question of a card, without its answer."""
    kind, question, _ = _drawn(seed, number)
    choices = list(REGIMES) if kind == "regime" else []
    return {"kind": kind, "question": question, "unit": "" if choices else "FLOP/B", "choices": choices}


def check(seed: int, number: int, given: str) -> Document:
    """Whether what was given is right: the regime, or a number within the tolerance."""
    kind, question, truth = _drawn(seed, number)
    if kind == "regime":
        if given not in REGIMES:
            raise InputError(f"a regime is {', '.join(REGIMES)}, not {quoted(given)}")
        bound, why = truth
        right, text = is_right(bound, given), f"{bound}{'-bound' if bound in REGIMES else ''}. {why}"
    else:
        value = estimate(given)
        exact, why = truth
        right, text = abs(value / exact - 1) <= TOLERANCE, f"{intensity_text(exact)} FLOP/B{why}"
    return {"right": right, "answer": [f"{'Right' if right else 'No'}: {text}"], "question": question}


def estimate(text: str) -> float:
    """A number as people write one in a hurry: `153`, `0,17`, `1/6`."""
    first, sign, second = text.strip().replace(",", ".").partition("/")
    try:
        value = float(first) / (float(second) if sign else 1.0)
    except (ValueError, ZeroDivisionError):
        raise InputError(f"{quoted(text)} is not a number; write 153, 0.17 or 1/6") from None
    if not 0 <= value < float("inf"):
        raise InputError(f"{quoted(text)} is not a number that an intensity can be")
    return value


def _drawn(seed: int, number: int) -> tuple[str, str, Any]:
    draw, kind = Random(f"{seed}:{number}"), KINDS[number % len(KINDS)]
    return (kind, *{"ridge": _ridge, "intensity": _intensity, "regime": _regime}[kind](draw))


def _ridge(draw: Random) -> tuple[str, tuple[float, str]]:
    machine = machine_of(draw.choice(MEMORIZED))
    dtype = draw.choice([name for name in FORMATS if _computes_in(machine, name)])
    engine = machine.engine("matrix", dtype)
    peak, bandwidth = machine.peak(engine, STATED).value, machine.bandwidth(ceilings=STATED).value
    figures = f" ({show(peak, 'flop/s')} over {show(bandwidth, 'B/s')})"
    return f"Ridge of {machine.name} in {dtype.upper()}?", (peak / bandwidth, figures)


def _computes_in(machine: Any, dtype: str) -> bool:
    return any(f"{unit}.{name}" in machine.peaks for unit in ("tensor", "vector") for name in (dtype, f"{dtype}_e4m3"))


def _intensity(draw: Random) -> tuple[str, tuple[float, str]]:
    name, values, title = _case(draw)
    return f"AI of {title}?", (float(find(name)(**values).intensity()), "")


def _regime(draw: Random) -> tuple[str, tuple[str, str]]:
    name, values, title = _case(draw)
    machine = machine_of(draw.choice(MACHINES))
    made = answer(find(name), values, machine, ceilings=STATED)
    return f"Regime of {title} on {machine.name}?", (made.rows()[0]["bound"], reason(made))


def _case(draw: Random) -> Case:
    """A GEMM, a layer, an elementwise op or a softmax of round sizes."""
    dtype = draw.choice(("fp16", "fp32"))
    shown = dtype.upper()
    kind = draw.randrange(5)
    if kind == 0:
        side = draw.choice(SIDES)
        return "gemm", {"m": side, "n": side, "k": side, "dtype": dtype}, f"GEMM {side}³ in {shown}"
    if kind == 1:
        batch = draw.choice(BATCHES)
        title = f"a 4096 x 4096 layer at batch {batch} in {shown}"
        return "linear", {"batch": batch, "in_features": 4096, "out_features": 4096, "dtype": dtype}, title
    if kind == 2:
        return "add", {"n": ELEMENTS, "dtype": dtype}, f"adding two vectors of 64 M elements in {shown}"
    if kind == 3:
        return "relu", {"n": ELEMENTS, "dtype": dtype}, f"ReLU of 64 M elements in {shown}"
    rows = draw.choice(ROWS)
    cols = 4096 if rows == ROWS[-1] else rows
    return "softmax", {"rows": rows, "cols": cols, "dtype": dtype}, f"softmax of {rows} x {cols} in {shown}"
