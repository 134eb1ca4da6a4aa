"""Tables of profiles: kernels by time with their counts, and the self-check of the counters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.observation import Observation
from ...core.units import counted, percent, show
from ..table import Column, Table, columns
from ..table import percent as percent_column

MAX_NOTES = 2  # on the terminal without -v
MAX_NAME, MAX_COUNTS, MIN_KERNEL = 26, 22, 8  # characters without -v
TIMES_WIDTH, REPEATS_WIDTH = 40, 20  # characters of the columns of numbers
PREFIXES = re.compile(r"^void |at::native::|\(anonymous namespace\)::|<unnamed>::")  # of PyTorch's kernels
MAX_WIDTH = 118
OUTERMOST = ("hbm", "gddr", "main", "memory")  # levels whose bytes a short table shows


def observations_answer(observations: Sequence[Observation]) -> str:
    """`14 kernels, 8.9 ms in total; gemm_fp32_4096 takes 35 %`."""
    ranked = sorted(observations, key=_time, reverse=True)
    total, first = sum(map(_time, ranked)), ranked[0]
    tool = f"{first.tool} {first.version}".strip()
    share = percent(_time(first) / total)
    launches = sum(len(item.samples) for item in ranked)
    count = counted(len(ranked), "kernel") + (f" in {launches:,} launches" if launches > len(ranked) else "")
    return f"{count}, {show(total, 's', 3)} in total; {_clip(first.name, MAX_NAME)} takes {share} ({tool})"


def _time(item: Observation) -> float:
    """Seconds of all samples."""
    return sum(item.samples)


def observations_table(observations: Sequence[Observation], limit: int | None = None) -> Table:
    """The kernels by time with cumulative share; the first `limit` of them, shortened to 120 columns."""
    ranked = sorted(observations, key=_time, reverse=True)
    total, until = sum(map(_time, ranked)), 0.0
    rows: list[dict[str, Any]] = []
    several = any(len(item.samples) > 1 for item in ranked)
    for item in ranked[:limit]:
        until += _time(item)
        times: dict[str, Any] = {"total": _time(item), "median": item.median, "runs": len(item.samples)}
        rows.append({**_texts(item, limit), **times, "share": _time(item) / total, "until": until / total})
    if limit:
        _shorten(rows, several)
    shares = percent_column("share", "% of time", 2), percent_column("until", "cumulative", 2)
    repeats = [Column("median", unit="s"), Column("runs")] if several else []
    filled = [key for key in ("flops", "bytes", "kernel") if any(row[key] for row in rows)]
    heads = columns("name", Column("total", "time", unit="s"), *shares, *repeats, *filled)
    return Table("", heads, rows, _notes(observations, limit))


def _texts(item: Observation, limit: int | None) -> dict[str, str]:
    """Name, counts and kernel; in a short table the largest count of flops and the bytes of the outermost level alone."""
    flops, moved = item.flops, item.bytes
    if limit:
        flops = dict(sorted(flops.items(), key=lambda pair: -pair[1])[:1])
        moved = {level: count for level, count in moved.items() if level in OUTERMOST} or dict(list(moved.items())[:1])
    return {
        "name": item.name, "flops": _counts(flops, "flop"), "bytes": _counts(moved, "B"), "kernel": item.kernel,
    }  # fmt: skip


def _shorten(rows: Sequence[dict[str, Any]], several: bool) -> None:
    """Cut the texts so that a line has at most 120 columns; the kernel gets what the others leave."""
    left = MAX_WIDTH - TIMES_WIDTH - REPEATS_WIDTH * several
    for key, most in (("name", MAX_NAME), ("flops", MAX_COUNTS), ("bytes", MAX_COUNTS)):
        for row in rows:
            row[key] = _clip(row[key], most)
        left -= max(len(row[key]) for row in rows) + 2
    for row in rows:
        row["kernel"] = _clip(PREFIXES.sub("", row["kernel"]), max(left, MIN_KERNEL))


def _notes(observations: Sequence[Observation], limit: int | None) -> tuple[str, ...]:
    """How many kernels and notes were left out, and the first notes."""
    texts = list(dict.fromkeys(note for item in observations for note in item.notes))
    if limit is None:
        return tuple(texts)
    more = [f"and {len(observations) - limit} more: -v"] if len(observations) > limit else []
    notes = [_clip(text, MAX_WIDTH) for text in texts[:MAX_NOTES]]
    rest = len(texts) - len(notes)
    return (*more, *notes, *([f"and {counted(rest, 'more note')}: -v"] if rest else []))


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _counts(counts: Mapping[str, float], unit: str) -> str:
    return ", ".join(f"{name} {show(value, unit, 3)}" for name, value in counts.items() if value)


def observations_data(observations: Sequence[Observation]) -> Table:
    """All observations as plain numbers under the columns that `import` reads back."""
    rows = [
        {
            "name": item.name, "time_us": item.median * 1e6,
            **{f"flops.{engine}": value for engine, value in item.flops.items()},
            **{f"bytes.{level}": value for level, value in item.bytes.items()},
            "runs": len(item.samples), "kernel": item.kernel, "tool": item.tool,
        }
        for item in observations
    ]  # fmt: skip
    counts = dict.fromkeys(key for row in rows for key in row if key.partition(".")[0] in ("flops", "bytes"))
    return Table("", columns("name", "time_us", *counts, "runs", "kernel", "tool"), rows)


def self_check_answer(holds: bool) -> str:
    if holds:
        return "counters validated: the counts of three known kernels are right"
    return "counters wrong: at least one known count differs; do not trust bounds derived from them"


def self_check_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Counters against known counts."""
    shown = columns("name", "what", "expected", "counted", Column("ratio", digits=6), "holds")
    return Table("", shown, [{**row, "holds": "yes" if row["holds"] else "no"} for row in rows])
