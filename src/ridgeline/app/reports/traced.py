"""Report pages of traced programs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.documents import to_document
from ...core.units import show
from ...render.draw.html import Page, Section, write
from .parts import drawable

if TYPE_CHECKING:
    from ...prediction.traced import ProgramPrediction


def trace_page(program: ProgramPrediction, out: Path, theme: str | None = None) -> None:
    """A traced program: the answer, its ops on the roofline, its time by module, its memory, then all tables."""
    from ...prediction.traced.summary import answer
    from ...render.charts.traced import program_icicle, program_memory, program_roofline
    from ...render.tables.traced import part_table, program_tables

    roofline, icicle, memory = (
        drawable(partial(make, program)) for make in (program_roofline, program_icicle, program_memory)
    )
    others = program_tables(program)[1:]
    sections = [
        Section("Ops", "", roofline, [part_table(program, limit=None)]),
        Section("Modules", "", icicle),
        Section("Memory", "", memory),
        *(Section(table.title, tables=[replace(table, title="")], folded=True) for table in others),
    ]
    title = f"ridgeline trace: {program.trace.name or 'a program'} on {program.machine.name}, {program.mode}"
    figures = {
        "wall time": show(program.wall, "s", 3),
        "device time": show(program.time, "s", 3),
        "roofline": show(program.floor, "s", 3),
        "peak memory": show(program.peak_memory, "B", 3),
    }
    write(out, Page(title, sections, to_document(program), answer(program), figures), theme)
