"""Tables of profiled kernels on a roofline: the answer, the top kernels with their first diagnosis, all figures as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.units import counted, percent, show
from ...gaps.advice import Advice
from ...gaps.counted import Places, name_engine, unknown_engines
from ...gaps.kernel_families import kernel_word
from ...gaps.kernels import MAX_DIAGNOSED, KernelReport, ProfiledKernel
from ...gaps.sentences import as_expected, kernel_bound, kernel_judgement
from ..table import Column, Table, columns
from ..table import percent as percent_column

MAX_NAME, MIN_DIAGNOSIS, MAX_WIDTH = 24, 24, 118  # characters
MAX_MOVES = 3
MAX_CAUSES = 3  # of a kernel with -v
MAX_SILENT_SHARE = 0.995  # of the time in the kernels that were searched for moves: what rounds to all of it is


NO_COUNTERS = {
    False: "collect them with `ridgeline profile`; `ridgeline reconcile` explains a trace by its recorded operators",
    True: "collect them with perf stat or likwid-perfctr; `ridgeline reconcile` explains a trace by its recorded operators",
}


def kernels_answer(report: KernelReport) -> list[str]:
    """Time and share of roofline, the dominant bound; then the moves worth most."""
    first = f"{counted(len(report.kernels), 'kernel')}, {show(report.time, 's', 3)} on {report.machine.name}"
    unnamed = unknown_engines(report.observations, report.machine)
    if unnamed and not report.counted:
        return [f"{first}: none has a place on the roofline", name_engine(unnamed, report.machine)]
    if not report.counted:
        return [f"{first}: no counters, so none has a place on the roofline", NO_COUNTERS[report.machine.kind == "cpu"]]
    bounds = {bound: share for bound, share in report.bounds.items() if bound != "unknown"}
    bound, share = next(iter(bounds.items()))
    reached = "" if report.roofline_share is None else f"{percent(report.roofline_share)} of roofline; "
    held = f"{percent(share)} of the time is in {_bound_word(bound)} kernels"
    missing = "place on the roofline" if unnamed else "counters"
    rest = f"; {percent(1 - report.counted)} has no {missing}" if report.counted < 1 else ""
    lines = [f"{first}: {reached}{held}{rest}"]
    moves = report.moves(MAX_MOVES)
    names = _labels(report, moves)
    for place, kernel in enumerate(moves, 1):
        assert kernel.top is not None
        saves = f"saves {show(kernel.gain, 's', 3)} of {show(kernel.time, 's', 3)}"
        text = f"{place}. {clip(names[id(kernel)], MAX_NAME)}: {kernel.top.move}, {saves} ({kernel.top.name})"
        lines.append(clip(text, MAX_WIDTH))
    if not moves:
        lines.append("no shown cause promises a gain; see the possible ones with -v")
    if unnamed:
        lines.append(name_engine(unnamed, report.machine))
    searched = report.searched_share(moves, MAX_MOVES)
    if searched < MAX_SILENT_SHARE:
        lines.append(f"only the {MAX_DIAGNOSED} longest kernels were diagnosed, {percent(searched)} of the time")
    return lines


def _bound_word(bound: str) -> str:
    return "launch-bound" if bound == "overhead" else f"{bound}-bound"


def clip(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _labels(report: KernelReport, listed: Sequence[ProfiledKernel]) -> dict[int, str]:
    """Names of kernels by their identity; with what a kernel does, where it shares the name of a range with others."""
    shared = Counter(kernel.name for kernel in report.kernels)
    return {id(kernel): _label(kernel, shared[kernel.name] > 1) for kernel in listed}


def _label(kernel: ProfiledKernel, shared: bool) -> str:
    word = kernel_word(kernel.kernel) if shared and kernel.typical.path else ""
    return f"{kernel.name} ({word})" if word and word not in kernel.name else kernel.name


def kernels_table(report: KernelReport, limit: int | None = None, clipped: bool = True) -> Table:
    """The kernels by time; the first `limit` of them, shortened to 120 columns unless they are not to be `clipped`."""
    rows: list[dict[str, Any]] = []
    names = _labels(report, report.kernels[:limit])
    short = bool(limit) and clipped
    for kernel in report.kernels[:limit]:
        figures = kernel.document(kernel.typical)
        rows.append(
            {
                "name": clip(names[id(kernel)], MAX_NAME) if short else names[id(kernel)],
                "time": kernel.time, "share": kernel.time / report.time, "runs": kernel.launches,
                "intensity": figures.get("intensity"), "mfu": figures.get("mfu"), "mbu": figures.get("mbu"),
                "bound": kernel_bound(kernel.gap, short=short), "roofline": kernel.share,
                "diagnosis": _diagnosis(kernel),
            }
        )  # fmt: skip
    several = any(row["runs"] > 1 for row in rows)
    shares = [percent_column(key, title, 2) for key, title in (("mfu", "MFU"), ("mbu", "MBU"))]
    heads = columns(
        "name", Column("time", unit="s"), percent_column("share", "of time", 2), *(["runs"] if several else []),
        Column("intensity", "AI" if short else "AI FLOP/B", digits=3), *shares, "bound", percent_column("roofline", "roofline", 2), "diagnosis",
    )  # fmt: skip
    if short:
        used = len(Table("", heads[:-1], rows).text().splitlines()[0])
        for row in rows:
            row["diagnosis"] = clip(row["diagnosis"], max(MAX_WIDTH - used - 2, MIN_DIAGNOSIS))
    more = [f"and {len(report.kernels) - limit} more: -v"] if short and limit and len(report.kernels) > limit else []
    return Table("", heads, rows, tuple(more))


def _diagnosis(kernel: ProfiledKernel) -> str:
    """The first cause with its gain, or what is known instead."""
    top = kernel.top
    if kernel.gap is None and not Places(kernel.machine).known(kernel.typical):
        return "FLOPs of an unknown engine"
    unproven = top is None or not top.shown
    if top is None or (unproven and kernel.gap is not None and as_expected(kernel.gap)):
        return kernel_judgement(kernel.gap)
    return _cause(top)


def _cause(advice: Advice) -> str:
    gain = "" if advice.gain is None else f", -{show(advice.gain, 's', 3)}"
    return f"{'' if advice.shown else 'possible: '}{advice.name}{gain}"


def causes_table(report: KernelReport, limit: int | None = None) -> Table:
    """The causes of each kernel with their evidence, the one to act on first."""
    names = _labels(report, report.kernels[:limit])
    rows: list[dict[str, Any]] = [
        {
            "kernel": names[id(kernel)] if place == 0 else "", "status": item.status, "cause": item.name, "gain": item.gain,
            "move": item.move, "evidence": "; ".join(item.evidence),
        }
        for kernel in report.kernels[:limit]
        for place, item in enumerate(kernel.advice[:MAX_CAUSES])
    ]  # fmt: skip
    heads = columns("kernel", "status", "cause", Column("gain", "gain per launch", unit="s"), "move", "evidence")
    return Table("Causes", heads, rows)


def kernels_data(report: KernelReport, documents: Sequence[Mapping[str, Any]]) -> Table:
    """Every observation as plain numbers: counts, roofline figures and the first cause."""
    rows = []
    for row in documents:
        first: Mapping[str, Any] = next(iter(row.get("diagnosis", ())), {})
        rows.append(
            {
                **{key: row.get(key) for key in DATA},
                **{f"flops.{engine}": value for engine, value in row.get("flops", {}).items()},
                **{f"bytes.{level}": value for level, value in row.get("bytes", {}).items()},
                **{f"rate.{engine}": value for engine, value in row.get("rate", {}).items()},
                "cause": first.get("cause"), "status": first.get("status"), "gain_us": first.get("gain_us"),
            }
        )  # fmt: skip
    prefixes = ("flops", "bytes", "rate")
    counts = sorted({key for row in rows for key in row if key.partition(".")[0] in prefixes and "." in key}, key=lambda key: prefixes.index(key.partition(".")[0]))  # fmt: skip
    return Table("", columns(*DATA, *counts, "cause", "status", "gain_us"), rows)


DATA = (
    "name", "kernel", "time_us", "op", "predicted_us", "intensity", "mfu", "mbu", "share_of_roofline", "bound", "limiter",
    "floor_us",
)  # fmt: skip
