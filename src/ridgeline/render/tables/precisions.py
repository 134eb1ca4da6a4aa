"""Answer and table of one op in several number formats: the fastest of them, and what each does to intensity, ridge and time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.dtypes import dtype as dtype_row
from ...core.units import enumerated, show
from ...prediction.basis import QUANTIZING
from ...prediction.plain import plain
from ...prediction.precisions import PrecisionSweep
from ..table import Column, Table, columns
from .prediction import shape_text
from .studies import INTENSITY, US

FASTER = 1.005  # times, from which on a format is called faster
HALF_BITS = 16  # activations of so many or more are not quantized


def precisions_lines(study: PrecisionSweep) -> list[str]:
    """The fastest of the formats that were timed and what it gains over the first 16-bit one, then what was asked."""
    kinds = sorted({kind for _, prediction in study.predictions for kind in prediction.bounds[0].kinds.split("+")})
    op = f"{study.op.name} {_fixed(study)} on {study.machine.name}, {'+'.join(kinds)} ceilings"
    untimed = _untimed(study)
    times = {name: float(np.sum(each.time)) for name, each in study.predictions if name not in untimed}
    best = min(times, key=lambda name: times[name])
    base = next((name for name in ("bf16", "fp16", "fp32") if name in times and name != best), None)
    ratio = times[base] / times[best] if base else 1.0
    faster = f"{ratio:.3g}x faster than" if ratio >= FASTER else "as fast as"
    gain = f", {faster} {base} ({show(times[base], 's')})" if base else ""
    if len(study.predictions) == 1:
        return [f"{best}: {show(times[best], 's')}", op]
    several = " for all cases" if study.predictions[0][1].count > 1 else ""
    quantizing = _quantizing(study)
    unlike = quantizing and best not in quantizing and dtype_row(best).stored_bits < HALF_BITS
    apart = (
        f", without quantizing the activations, which the times of {enumerated(quantizing)} include" if unlike else ""
    )
    left_out = f"; without {enumerated(untimed)}, in which no kernels were timed" if untimed else ""
    if not untimed and max(times.values()) < FASTER * times[best]:  # as a collective, which takes what its bytes take
        return [f"as fast in every format: {show(times[best], 's')}{several}", op]
    return [f"fastest in {best}: {show(times[best], 's')}{several}{gain}{apart}{left_out}", op]


def _untimed(study: PrecisionSweep) -> list[str]:
    """Formats that no timings speak for, where they do for others: a flat form does not compare with what kernels take."""
    flat = [name for name, prediction in study.predictions if all(expected.is_flat for expected in prediction.expected)]
    return flat if len(flat) < len(study.predictions) else []


def _quantizing(study: PrecisionSweep) -> list[str]:
    """Formats whose times include quantizing the activations, as those of layers of serving engines do."""
    return [name for name, prediction in study.predictions if QUANTIZING in prediction.expected[0].basis]


def _fixed(study: PrecisionSweep) -> str:
    return shape_text({name: value for name, value in study.values.items() if not getattr(value, "ndim", 0)})


def precisions_table(study: PrecisionSweep) -> Table:
    """One op in every number format; a sweep has a row per format and case."""
    rows = []
    for name, prediction in study.predictions:
        bound = prediction.bounds[0]
        shared: dict[str, Any] = {"dtype": name, "bits": dtype_row(name).stored_bits}
        if dtype_row(name).integer:  # counted by the same rules but called OP
            shared |= {"flops:unit": "op", "attainable:unit": "op/s", "peak:unit": "op/s"}
        for index, row in enumerate(prediction.rows()):
            distance = row["intensity"] / row["ridge"] if row["ridge"] else None
            units = {"peak": plain(bound.peak, index), "engine": plain(bound.engine, index), "to_ridge": distance}
            rows.append({**row["shape"], **row, **shared, **units})
    swept = [name for name, value in study.values.items() if getattr(value, "ndim", 0)]
    shown = columns(
        *swept, "dtype", "bits", "engine", Column("peak", unit="flop/s"), INTENSITY, Column("ridge", "ridge FLOP/B"), Column("to_ridge", "AI / ridge"), "bound",
        Column("attainable", unit="flop/s"), "ceilings", *US,
    )  # fmt: skip
    notes = ["AI / ridge above 1: compute-bound; weight-only quantization: `ridgeline predict --weights`"]
    if quantizing := _quantizing(study):
        notes.append(f"{enumerated(quantizing)}: {QUANTIZING}; the others do not include it")
    return Table("", shown, rows, (*notes, *_shortages(study)))


def _shortages(study: PrecisionSweep) -> list[str]:
    """The formats in which the working set does not fit the memory, on one line."""
    short = [(name, made.bounds[0]) for name, made in study.predictions if made.bounds[0].shortage]
    needs = [f"{name} needs {show(float(np.max(bound.work.footprint)), 'B', 3)}" for name, bound in short]
    if not short:
        return []
    return [f"does not fit: {', '.join(needs)}; {study.machine.name} has {show(short[0][1].capacity or 0.0, 'B', 3)}"]
