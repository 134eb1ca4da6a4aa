"""Report pages of traced programs: one program in full, or several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.documents import to_document
from ...core.units import percent, rounded_text, show
from ...prediction.traced.breakdown import FAMILY, LINE, MODULE, PHASE
from ...render.charts.traced import program_icicle, program_memory, program_roofline, side_chart
from ...render.draw.html import Page, Section, write
from ...render.tables.traced import (
    change_table,
    labelled_table,
    memory_table,
    part_table,
    side_table,
    uncounted_table,
    view_title,
)
from .parts import drawable, filled, untitled

if TYPE_CHECKING:
    from ...prediction.traced import ProgramPrediction
    from ...prediction.traced.side_by_side import SideBySide
    from ...prediction.traced.whatif import ProgramChange

MAX_DETAILED = 8  # programs side by side whose ops are listed
ALL_COUNTED = "Every operator of the program is counted."


def trace_page(
    program: ProgramPrediction, out: Path, theme: str | None, answer: Sequence[str], document: Any, changes: Sequence[ProgramChange] = ()
) -> None:  # fmt: skip
    """A traced program: the answer, what changes would bring, its ops on the roofline, its time by module, its memory."""
    roofline, icicle, memory = (
        drawable(partial(make, program)) for make in (program_roofline, program_icicle, program_memory)
    )
    views = [(view_title(by), part_table(program, by, None, short=False)) for by in (FAMILY, PHASE, LINE)]
    sections = [
        Section("What each change would bring", "", tables=untitled(change_table(changes)) if changes else []),
        Section("Ops", "", roofline, [labelled_table(program)]),
        Section("Modules", "", icicle, [part_table(program, MODULE, None, short=False)]),
        Section("Memory", "", memory, [memory_table(program)]),
        uncounted_section([program]),
        *(Section(title, tables=[table], folded=True) for title, table in views),
    ]
    title = f"ridgeline trace: {program.trace.name or 'a program'} on {program.machine.name}, {program.mode}"
    write(out, Page(title, filled(sections), document, answer, program_figures(program)), theme)


def program_figures(program: ProgramPrediction) -> dict[str, str]:
    """Key figures of a program; what is not known is left out."""
    figures = {
        "wall time": show(program.wall, "s", 3) if program.time else "",
        "device time": show(program.time, "s", 3) if program.time else "",
        "host dispatch": show(program.host, "s", 3),
        "roofline": show(program.roofline, "s", 3) if program.time else "",
        "MFU": percent(program.mfu) if program.mfu else "",
        "peak memory": show(program.peak_memory, "B", 3) if program.peak_memory else "",
    }
    return {name: text for name, text in figures.items() if text}


def uncounted_section(programs: Sequence[ProgramPrediction]) -> Section:
    """Operators without a count, with what they would move; or that there are none."""
    tables = [uncounted_table(program) for program in programs]
    rows = {str(row): row for table in tables for row in table.rows}  # the same ones in every mode and on every machine
    if not rows:
        return Section("Not in the times", ALL_COUNTED)
    return Section("Not in the times", "", tables=untitled(replace(tables[0], rows=list(rows.values()))))


def side_page(study: SideBySide, out: Path, theme: str | None) -> None:
    """Programs side by side: the fastest against the first, all of them, then the ops of each where they are few."""
    cases = study.cases
    detailed = cases if len(cases) <= MAX_DETAILED else ()
    sections = [
        Section("Side by side", "", drawable(partial(side_chart, study)), [side_table(study)]),
        uncounted_section([case.program for case in cases]),
        *(Section(f"Ops: {case.label}", tables=[labelled_table(case.program)], folded=True) for case in detailed),
    ]
    title = f"ridgeline trace: {study.name or 'a program'}, {len(cases)} programs side by side"
    write(out, Page(title, filled(sections), to_document(study), study.answer(), side_figures(study)), theme)


def side_figures(study: SideBySide) -> dict[str, str]:
    """Of the fastest program that fits."""
    best = study.fastest
    gain, rate = study.speedup(best), study.rate(best)
    figures = {
        "fastest": best.label,
        "wall time": show(best.program.wall, "s", 3),
        f"{study.swept}/s": show(rate) if rate else "",
        "speedup over the first": f"{rounded_text(gain, 3)}x" if gain else "",
        "peak memory": show(best.program.peak_memory, "B", 3),
    }
    return {name: text for name, text in figures.items() if text}
