"""Report pages of a measurement, of `run` and of gaps: one offline HTML file each, with the answer, charts, tables and the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.documents import to_document
from ..core.errors import InputError, RidgelineError
from ..core.statistics import median
from ..core.units import percent, show
from ..measure.session import remarks
from ..render.charts import measured as charts
from ..render.charts.gaps import gap_waterfall, report_chart
from ..render.draw.html import Card, Page, Section, key_of, write
from ..render.tables import measured as tables
from ..render.tables import run as run_tables

if TYPE_CHECKING:
    from ..core.machine import Machine
    from ..core.observation import Observation
    from ..gaps.report import Report
    from ..gaps.steps.moves import Move
    from ..gaps.steps.report import ProgramReport
    from ..measure.session import Measured
    from ..prediction.traced import ProgramPrediction
    from ..render.chart import Chart, Picture
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


def with_facts(chart: Chart, items: Sequence[Mapping[str, Any]]) -> Chart:
    """The chart with times, share of the roofline and bound of each kernel behind its dots, as the page's card shows them."""
    by_name = {
        item["name"]: {key: item.get(key) for key in ("measured_us", "predicted_us", "low_us", "high_us", "floor_us")}
        | {"share_of_roofline": item.get("share_of_roofline", item.get("share_of_roof"))}
        | {"bound": item.get("bound_observed") or item.get("bound_predicted")}
        for item in items
    }
    points = (replace(point, details=by_name.get(key_of(point), point.details)) for point in chart.points)
    return replace(chart, points=tuple(points))


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


def gap_report(
    report: Report,
    tables: Sequence[Table],
    document: Any,
    out: Path,
    theme: str | None = None,
    answer: Sequence[str] = (),
    kernel: str | None = None,
) -> None:
    """The gap report: the verdict, the kernels on the roofline and their gaps, then where the time went and what to do.

    `kernel` names one whose time is also drawn, cause by cause.
    """
    items = to_document(report.items)
    pictures = drawable(lambda: with_facts(replace(report_chart(report), subtitle=""), items))  # the answer is above
    pictures += [gap_waterfall(report, kernel)] if kernel is not None else []
    sections = [
        Section("Gaps", "", pictures, [replace(table, title="") for table in tables[:1]]),
        *(Section(table.title.capitalize(), tables=[replace(table, title="")], folded=True) for table in tables[1:]),
    ]
    title = f"ridgeline reconcile: gaps on {report.prediction.machine.name}"
    write(out, Page(title, sections, document, answer or [report.sentence], scores(items)), theme)


def step_page(report: ProgramReport, out: Path, theme: str | None = None) -> None:
    """The program report: the step, what to change, its phases, the operators on the roofline, then all tables."""
    from ..render.charts.steps import op_chart, phase_chart, step_title
    from ..render.tables.steps import step_tables

    items = [{**row, "name": item.name} for row, item in zip(to_document(report.items), report.items, strict=True)]
    phases = drawable(lambda: phase_chart(report))
    operators = drawable(lambda: with_facts(replace(op_chart(report), subtitle=""), items))
    by_phase, listed, *others = step_tables(report)
    moves = "" if report.moves else "No change that the timeline shows is worth half a percent of the step."
    sections = [
        Section("What to change", moves, cards=[_card(report, move) for move in report.moves]),
        Section("Device time by phase", "", phases, [replace(by_phase, title="")]),
        Section("Operators", "", operators, [replace(listed, title="")]),
        *(Section(table.title, tables=[replace(table, title="")], folded=True) for table in others),
    ]
    answer = [*report.answer, *report.warnings]
    write(out, Page(step_title(report), sections, to_document(report), answer, step_figures(report)), theme)


def _card(report: ProgramReport, move: Move) -> Card:
    """A move in full: its gain, its cause, all its evidence, the lines of the program it is about."""
    share = f" ({percent(move.gain / report.view.step)} of the step)" if move.gain and report.view.step else ""
    value = f"saves {show(move.gain, 's', 3)} per step{share}" if move.gain else "gain not known"
    lines = [f"Cause: {move.cause}.", *(f"{_sentence(text)}." for text in move.evidence)]
    lines += [f"At {', '.join(move.sources)}."] if move.sources else []
    return Card(_sentence(move.move), value, lines, "" if move.shown else move.status)


def _sentence(text: str) -> str:
    """With a capital letter, unless it begins with the name of a function."""
    word = text.split(" ", 1)[0]
    return text.capitalize()[:1] + text[1:] if word.isalpha() and word.islower() else text


def step_figures(report: ProgramReport) -> dict[str, str]:
    """Key figures of a step."""
    view = report.view
    return {
        "step": show(view.step, "s", 3),
        "device busy": show(view.device, "s", 3),
        "predicted device time": show(view.predicted, "s", 3),
        "explained": f"{show(view.explained_share * 100, '', 2)} %",
    }


def trace_page(program: ProgramPrediction, out: Path, theme: str | None = None) -> None:
    """A traced program: the answer, its ops on the roofline, its time by module, its memory, then all tables."""
    from ..prediction.traced.summary import answer
    from ..render.charts.traced import program_icicle, program_memory, program_roofline
    from ..render.tables.traced import part_table, program_tables

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


def scores(items: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """How good the predictions were, as key figures: by the names that items have in JSON."""
    items = [item for item in items if item.get("confidence") != "low"]  # doubtful joins say nothing about predictions
    if not items:
        return {}
    inside = sum(bool(item["inside"]) for item in items)
    return {
        "measured": show(sum(item["measured_us"] * item["count"] for item in items) / 1e6, "s", 3),
        "median error": f"{show(median([abs(item['error']) for item in items]) * 100, '', 2)} %",
        "inside the 80 % interval": f"{inside} of {len(items)}",
    }
