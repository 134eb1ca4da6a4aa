"""Timed cases as a CSV table: one flat row per case, and cases read back from such a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...core.statistics import median, spread
from ...core.tabular import csv_text
from ...programs import cases
from .cases import Case
from .timing import Timed

SIZES = (
    *("batch", "m", "n", "k", "in_features", "out_features", "rows", "cols", "vocab"),
    *("c_in", "c_out", "h", "w", "kernel", "stride", "padding", "groups", "dilation"),
    *("heads", "kv_heads", "seq_q", "seq_kv", "head_dim", "tokens", "experts", "topk", "hidden", "inter"),
)
WORDS = ("out_dtype", "causal", "variant", "layout")
RESULTS = ("time_us", "best_us", "span_us", "spread", "kernels", "kernel_name", "sm_clock", "power", "reason")
COLUMNS = ("op", "dtype", *SIZES, *WORDS, *RESULTS)


def read_cases(path: Path) -> list[Case]:
    """Cases from a table such as `rows` writes; results in it are left aside."""
    return [_case(row, f"{path}, row {number}") for number, row in enumerate(cases.read(path), 1)]


def _case(row: Mapping[str, Any], where: str) -> Case:
    try:
        op = cases.op_of(row)
        values = op.bind(row)
    except InputError as error:
        raise InputError(f"{where}, {error}") from error
    if "dtype" not in values:
        raise InputError(f"{where}, column dtype: is empty; a timing is of one dtype")
    kinds = {name: {"Flag": bool, "Size": int, "Count": int}.get(op.params[name].kind, str) for name in values}
    return {"op": op.name, **{name: kinds[name](value) for name, value in values.items()}}


def rows(timed: Iterable[Timed]) -> list[dict[str, Any]]:
    """One flat row per case: its parameters, then median, best and span in microseconds; what is not known is absent."""
    flat = []
    for each in timed:
        row = {key: ("no", "yes")[value] if isinstance(value, bool) else value for key, value in each.case.items()}
        if each.samples:
            row |= {
                "time_us": round(median(each.samples) * 1e6, 3),
                "best_us": round(min(each.samples) * 1e6, 3),
                "span_us": round(median(each.span) * 1e6, 3),
                "spread": round(spread(each.samples), 4),
                "kernels": len(each.kernels),
                "kernel_name": max(each.kernels, key=lambda kernel: kernel[1])[0],
                **each.conditions,
            }
        if each.reason:
            row["reason"] = each.reason
        flat.append(row)
    return flat


def table(flat: Sequence[dict[str, Any]]) -> str:
    """Rows as CSV, with the columns that any of them uses."""
    return csv_text(flat, [name for name in COLUMNS if any(name in row for row in flat)])
