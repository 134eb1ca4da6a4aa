"""The answer of the main job on the terminal, and its kernels as a table for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.machine import Machine
from ...core.units import show
from ..table import Column, Table, columns, percent
from .catalog import bandwidth_text

Item = Mapping[str, Any]
PEAKS = ("tensor.bf16", "tensor.fp8", "vector.fp32", "vector.fp64")  # those of the first line, where they were measured
MAX_PEAKS = 3
BAR_CELLS = 10
MIN_MILLISECONDS = 1e-4  # seconds of the shortest kernel from which a column is in milliseconds
MAX_REMARKS = 3  # under the table


def answer(
    machine: Machine, summary: Mapping[str, Any], items: Sequence[Item], notes: Sequence[str], last: str
) -> list[str]:
    """Machine, roofs, result, next, the kernels and where to read more: at most 25 lines."""
    place, effort, seconds = summary["place"], summary["effort"], summary["seconds"]
    lines = [f"ridgeline run   {machine.title or machine.name}, {place}, {effort}, {seconds:.0f} s"]
    lines.append(
        f" roofs   {' | '.join(f'{name} {text}' for name, text in roofs(machine).items())}{_noise(summary['noise'])}"
    )
    if summary["provisional"]:
        lines.append(f" noisy   provisional ceilings ({summary['provisional']}): run again on a quiet machine")
    lines.append(f" result  {summary['sentence']}")
    if summary["next"]:
        lines.append(f" next    {summary['next']}")
    lines += [f" {line}" for line in kernel_lines(items)]
    lines += [f" {line}" for line in [*_remarks(items), *notes]]
    return [*lines, f" {last}"]


def roofs(machine: Machine) -> dict[str, str]:
    """Bandwidth of the main memory and the peaks, as measured, by name."""
    main = machine.main
    peaks = [(name, machine.peaks[name].measured) for name in PEAKS if name in machine.peaks]
    texts = {name.partition(".")[2]: show(rate, "flop/s", 3) for name, rate in peaks if rate}
    return {main.name: bandwidth_text(main), **dict(list(texts.items())[:MAX_PEAKS])}


def _noise(noise: float | None) -> str:
    return "" if noise is None else f"     noise +/-{_percent(noise)}"


def kernel_lines(items: Sequence[Item]) -> list[str]:
    """One line a kernel, with one unit of time for all of them."""
    if not items:
        return []
    shortest = min(min(item["measured_us"], item["predicted_us"]) for item in items) / 1e6
    unit, factor = ("ms", 1e-3) if shortest >= MIN_MILLISECONDS else ("us", 1.0)
    rows = [("kernel", "bound", "measured", "predicted [80 %]", "error", "% of roofline")]
    for item in items:
        measured, predicted, low, high = (
            _digits(item[key] * factor) for key in ("measured_us", "predicted_us", "low_us", "high_us")
        )
        bound, mark = str(item["bound_predicted"]), "  noisy" if item["noisy"] else ""
        expected = f"{predicted} {unit} [{low}, {high}]"
        error, share = f"{100 * item['error']:+.0f} %", 100 * item["share_of_roof"]
        rows.append(
            (item["name"], bound, f"{measured} {unit}", expected, error, f"{share:3.0f}  {bar(share / 100)}{mark}")
        )
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    right = (False, False, True, True, True, False)
    return ["  ".join(_set(cell, width, flush) for cell, width, flush in zip(row, widths, right, strict=True)).rstrip() for row in rows]  # fmt: skip


def _set(cell: str, width: int, right: bool) -> str:
    return cell.rjust(width) if right else cell.ljust(width)


def bar(share: float) -> str:
    filled = min(max(round(share * BAR_CELLS), 0), BAR_CELLS)
    return "█" * filled + "·" * (BAR_CELLS - filled)


def _digits(value: float) -> str:
    return show(value, "", 3)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _remarks(items: Sequence[Item]) -> list[str]:
    """Kernels above their roofline, and those whose samples support no verdict."""
    above = [f"{item['name']}: {item['finding']}" for item in items if item["finding"]]
    noisy = sum(item["noisy"] for item in items)
    more = [f"and {len(above) - MAX_REMARKS} more above the roofline: -v"] if len(above) > MAX_REMARKS else []
    busy = [f"noisy: {noisy} of {len(items)} kernels; their times rest on CPU time or scattered samples: run again on a quiet machine"]  # fmt: skip
    return above[:MAX_REMARKS] + more + busy * bool(noisy)


def kernels(items: Sequence[Item], notes: Sequence[str], sealed: Mapping[str, Any]) -> Table:
    """Every kernel with its interval, limiter and verdict; each note of a kernel once, with the kernels it is about."""
    shown = columns(
        Column("name", "kernel"), Column("bound_predicted", "bound"), "limiter", Column("floor_us", "roofline us"),
        Column("predicted_us", "predicted us"), Column("low_us", "80 % from"), Column("high_us", "to"),
        Column("measured_us", "measured us"), percent("spread", digits=2), percent("error", digits=2),
        percent("share_of_roof", "of roofline"), Column("band", "verdict"),
    )  # fmt: skip
    texts = list(notes)
    if sealed:
        texts.append(f"sealed {sealed['time']}, before the run; sha256 {sealed['hash'][:16]}")
    names_by_note: dict[str, list[str]] = {}
    for item in items:
        for note in (*item["notes"], *([item["finding"]] if item["finding"] else [])):
            names_by_note.setdefault(note, []).append(item["name"])
    texts += [f"{', '.join(names)}: {note}" for note, names in names_by_note.items()]
    return Table("Predicted, sealed, run, reconciled", shown, [dict(item) for item in items], tuple(texts))
