"""Report pages of gaps: kernels predicted and measured, and the step of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.documents import to_document
from ...core.statistics import median
from ...core.units import counted, percent, show
from ...render.charts.gaps import gap_waterfall, report_chart
from ...render.draw.html import Card, Page, Section, write
from .parts import drawable, with_facts

if TYPE_CHECKING:
    from ...gaps.kernels import KernelReport
    from ...gaps.report import Report
    from ...gaps.steps.moves import Move
    from ...gaps.steps.report import ProgramReport
    from ...render.table import Table

MAX_KERNELS = 2000  # of a profile that a page lists: a browser shows a few megabytes at once


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


def kernel_rows(report: KernelReport) -> list[dict[str, Any]]:
    """Every observation of a profile as outsiders read it, with its roofline figures."""
    from ...profilers.load import document

    return [{**row, **more} for row, more in zip(document(report.observations), report.document(), strict=True)]


def kernel_page(report: KernelReport) -> Page:
    """Kernels of a profile on the roofline, with their causes and the counters to collect next.

    A page has the longest kernels where there are many, in its tables and in its data.
    """
    from ...render.charts.kernels import profile_chart
    from ...render.tables.kernels import causes_table, kernels_answer, kernels_table
    from ..collect import collect_next

    pictures = drawable(lambda: profile_chart(report.machine, report.observations))
    title = f"{counted(len(report.kernels), 'kernel')} on {report.machine.name}"
    listed = report if len(report.kernels) <= MAX_KERNELS else report.longest(MAX_KERNELS)
    causes, kernels = causes_table(listed), kernels_table(listed)
    if listed is not report:
        of_time = percent(listed.time / report.time)
        note = f"the {MAX_KERNELS:,} longest of {len(report.kernels):,} kernels, {of_time} of the time; `ridgeline import --json` lists all"
        kernels = replace(kernels, notes=(*kernels.notes, note))
    sections = [
        Section("", "", pictures, [kernels]),
        *([Section("Causes", tables=[replace(causes, title="")])] if causes.rows else []),
        *(Section("Collect next", words) for words in collect_next(report)),
    ]
    return Page(title, sections, kernel_rows(listed), kernels_answer(report))


def step_page(report: ProgramReport, out: Path, theme: str | None = None) -> None:
    write(out, program_page(report), theme)


def program_page(report: ProgramReport) -> Page:
    """The program report: the step, what to change, its phases, the operators on the roofline, then all tables."""
    from ...render.charts.steps import op_chart, phase_chart, step_title
    from ...render.tables.steps import step_tables

    items = [{**row, "name": item.name} for row, item in zip(to_document(report.items), report.items, strict=True)]
    phases = drawable(lambda: phase_chart(report))
    operators = drawable(lambda: with_facts(replace(op_chart(report), subtitle=""), items))
    by_phase, listed, *others = step_tables(report)
    moves = "" if report.moves else "No change that the timeline shows is worth half a percent of the step."
    sections = [
        Section("What to change", moves, cards=[move_card(report, move) for move in report.moves]),
        Section("Device time by phase", "", phases, [replace(by_phase, title="")]),
        Section("Operators", "", operators, [replace(listed, title="")]),
        *(Section(table.title, tables=[replace(table, title="")], folded=True) for table in others),
    ]
    answer = [*report.answer, *report.warnings]
    return Page(step_title(report), sections, to_document(report), answer, step_figures(report))


def move_card(report: ProgramReport, move: Move) -> Card:
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
        "operators, profiled" if view.kept.on_host else "device busy": show(view.device, "s", 3),
        "predicted operators" if view.kept.on_host else "predicted device time": show(view.predicted, "s", 3),
        "explained": percent(view.explained_share),
    }


def scores(items: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """How good the predictions were, as key figures: by the names that items have in JSON."""
    items = [item for item in items if item.get("confidence") != "low"]  # doubtful joins say nothing about predictions
    if not items:
        return {}
    inside = sum(bool(item["inside"]) for item in items)
    return {
        "measured": show(sum(item["measured_us"] * item["count"] for item in items) / 1e6, "s", 3),
        "median error": percent(median([abs(item["error"]) for item in items])),
        "inside the 80 % interval": f"{inside} of {len(items)}",
    }
