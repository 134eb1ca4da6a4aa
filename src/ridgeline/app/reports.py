"""Report pages of a measurement, of the main job and of gaps: one offline HTML file each, with charts, tables and the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.documents import to_document
from ..core.errors import InputError, RidgelineError
from ..measure.session import remarks
from ..render.charts import measured as charts
from ..render.charts.gaps import report_chart
from ..render.draw.html import Section, write
from ..render.tables import measured as tables
from ..render.tables import run as run_tables

if TYPE_CHECKING:
    from ..core.machine import Machine
    from ..core.observation import Observation
    from ..gaps.report import Report
    from ..measure.session import Measured
    from ..render.chart import Picture
    from ..render.table import Table
    from .run import Outcome


@contextmanager
def reported_interrupt(out: Path) -> Iterator[None]:
    """Drawing takes seconds: Ctrl-C during it becomes a message. No part of the file is left."""
    try:
        yield
    except KeyboardInterrupt:
        raise RidgelineError(f"stopped by Ctrl-C while {out} was made; it was not written") from None


def drawable(*makers: Callable[[], Picture]) -> list[Picture]:
    """The pictures there are data for."""
    pictures: list[Picture] = []
    for make in makers:
        with suppress(InputError):
            pictures.append(make())
    return pictures


def ceiling_pictures(machine: Machine, observations: Iterable[Observation]) -> list[Picture]:
    items = list(observations)
    return drawable(
        lambda: charts.working_sets(machine, items),
        lambda: charts.gemm_sizes(machine, items),
        lambda: charts.shares(machine),
    )


def measurement_page(measured: Measured, out: Path, theme: str) -> None:
    """Ceilings, or collectives between several machines, and every observation."""
    items, machine = measured.observations, measured.machine
    if machine is None:
        picture = charts.collectives(items)
        title, first = picture.title, Section("Collectives", "", [picture], tables.collectives(items, measured.notes))
    else:
        title, pictures = f"Measured: {machine.title or machine.name}", ceiling_pictures(machine, items)
        first = Section("Ceilings", "", pictures, [tables.ceilings(machine), tables.latencies(machine)])
    second = Section("Observations", tables=[tables.observations(items, measured.notes)])
    write(out, title, [first, second], to_document(measured), theme)


def run_page(outcome: Outcome, out: Path) -> None:
    """Kernels predicted and measured, then the ceilings of the machine they ran on."""
    machine, items = outcome.machine, outcome.items
    kernels = run_tables.kernels(items, outcome.notes, outcome.sealed)
    ceilings = tables.ceilings(machine)
    ceilings = replace(ceilings, notes=(*ceilings.notes, *remarks(outcome.observations)))
    landing, pictures = (
        drawable(lambda: charts.landing(machine, items)),
        ceiling_pictures(machine, outcome.observations),
    )
    sections = [
        Section("Predicted vs measured", outcome.sentence, landing, [kernels] if items else []),
        Section("This machine", "", pictures, [ceilings, tables.latencies(machine)]),
    ]
    write(out, f"ridgeline on {machine.title or machine.name}", sections, outcome.document())


def gap_report(report: Report, tables: Sequence[Table], document: Any, out: Path) -> None:
    """The gap report as one offline file."""
    pictures = [report_chart(report)] if any(item.gap.target.flops for item in report.items) else []
    sections = [
        Section("What came out", report.sentence, pictures, tables[:1]),
        Section("Where the time went", "", (), tables[1:2]),
        *([Section("What to do next", "", (), tables[2:])] if tables[2:] else []),
    ]
    write(out, f"ridgeline: gaps on {report.prediction.machine.name}", sections, document)
