"""Report pages of a measurement and of `run`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.documents import to_document
from ...measure.session import remarks
from ...render.charts import measured as charts
from ...render.draw.html import Page, Section, write
from ...render.tables import measured as tables
from ...render.tables import run as run_tables
from .parts import drawable, with_facts

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...core.observation import Observation
    from ...measure.session import Measured
    from ...render.chart import Picture
    from ..run import Outcome


def ceiling_pictures(machine: Machine, observations: Iterable[Observation]) -> list[Picture]:
    items = list(observations)
    return drawable(
        lambda: charts.working_sets(machine, items),
        lambda: charts.gemm_sizes(machine, items),
        lambda: charts.shares(machine),
    )


def measurement_page(measured: Measured, out: Path, theme: str | None = None, answer: Sequence[str] = ()) -> None:
    """Ceilings, or collectives between several machines, and every observation; `answer` are the lines to begin with."""
    items, machine = measured.observations, measured.machine
    figures: dict[str, str] = {}
    if machine is None:
        picture = charts.collectives(items)
        title, first = picture.title, Section("", "", [picture], tables.collectives(items, measured.notes))
    else:
        title, pictures, figures = (
            f"Measured: {machine.title or machine.name}",
            ceiling_pictures(machine, items),
            run_tables.roofs(machine),
        )
        first = Section("Ceilings", "", pictures, [tables.ceilings(machine), tables.latencies(machine)])
    every = tables.observations(items, measured.notes)
    second = Section(f"All {len(items)} observations", tables=[replace(every, title="")], folded=True)
    write(out, Page(title, [first, second], to_document(measured), answer, figures), theme)


def run_page(outcome: Outcome, out: Path) -> None:
    """Kernels predicted and measured, then the ceilings of the machine they ran on."""
    machine, items, summary = outcome.machine, outcome.items, outcome.summary
    kernels = replace(run_tables.kernels(items, outcome.notes, outcome.sealed), title="")
    ceilings = tables.ceilings(machine)
    ceilings = replace(ceilings, notes=(*ceilings.notes, *remarks(outcome.observations)))
    landing, pictures = (
        drawable(lambda: with_facts(charts.landing(machine, items), items)),
        ceiling_pictures(machine, outcome.observations),
    )
    sections = [
        Section("Predicted vs measured", "", landing, [kernels] if items else []),
        Section("This machine", "", pictures[:1], [ceilings]),
        Section("Latencies and further charts", "", pictures[1:], [tables.latencies(machine)], folded=True),
    ]
    title = (
        f"ridgeline run: {machine.title or machine.name}, {summary.place}, {summary.effort}, {summary.seconds:.0f} s"
    )
    provisional = f"Provisional ceilings ({summary.provisional}): run again on a quiet machine" * bool(
        summary.provisional
    )
    following = f"Next: {summary.next}" if summary.next else ""
    answer = [summary.sentence if items else outcome.sentence, following, provisional, *outcome.remarks]
    write(out, Page(title, sections, outcome.document(), answer, run_tables.roofs(machine)))
