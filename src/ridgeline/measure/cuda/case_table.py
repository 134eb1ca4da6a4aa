"""Timed cases as a CSV table: one flat row per case, and cases read back from such a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...core.statistics import median, spread
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
    """Cases from a table with the columns that `rows` writes; results in it are left aside."""
    try:
        records = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as a table of cases: {error}") from error
    if not records or not {"op", "dtype"} <= set(records[0]):
        raise InputError(f"{path}: a table of cases has the columns op and dtype, and a line for each case")
    return [_case(record, f"{path}, line {line}") for line, record in enumerate(records, 2)]


def _case(record: Mapping[str, str], where: str) -> Case:
    words = {name: record[name] for name in ("op", "dtype", *WORDS) if record.get(name)}
    try:
        case: Case = {**words, **{name: int(float(record[name])) for name in SIZES if record.get(name)}}
    except ValueError as error:
        raise InputError(f"{where}: sizes are whole numbers: {error}") from error
    if "causal" in case:
        case["causal"] = case["causal"] == "yes"
    return case


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


def table(flat: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV, with the columns that any of them uses."""
    used = [name for name in COLUMNS if any(name in row for row in flat)]
    text = io.StringIO()
    writer = csv.DictWriter(text, used, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()
