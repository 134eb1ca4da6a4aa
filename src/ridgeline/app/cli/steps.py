"""Reconcile a trace with nothing else given: the step view of a program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.errors import InputError
from .echo import echo
from .present import Output, Result, present

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...gaps.steps.report import ProgramReport


def reconcile_trace(files: Sequence[Path], machine: Machine, form: str | None, output: Output, verbose: bool) -> None:
    """One trace as a program report; a profile with counters kernel by kernel; others are asked for cases."""
    from ...gaps.steps.report import program_report
    from ...profilers.load import NoTimeline, load, timeline

    if len(files) > 1:
        raise InputError(f"{len(files)} files and no cases: a program report takes one trace; give one file")
    try:
        recorded = timeline(files[0], form)
    except NoTimeline as error:
        observations = load(files[0], form)
        if not any(item.flops or item.bytes for item in observations):
            hint = "give either --seal ID or --cases FILE with it, or a profile that counts FLOPs and bytes"
            raise InputError(f"{error}; {hint}") from error
        from .profiles import present_kernels

        present_kernels(observations, machine, output, verbose)
        return
    present_steps(program_report(recorded, machine), output, verbose)


def present_steps(report: ProgramReport, output: Output, verbose: bool) -> None:
    """Warnings on standard error, then the step, the moves and the operators."""
    from ...render.charts.steps import step_chart
    from ...render.tables.steps import move_lines, op_table, phase_table, step_answer, step_tables
    from ..reports.gaps import step_page

    for note in report.warnings:
        echo(note, err=True)
    lines = step_answer(report)
    result = Result(
        lambda: step_tables(report),
        report,
        terminal=None
        if verbose
        else lambda: [phase_table(report), "\n".join(move_lines(report.moves)), op_table(report)],
        answer=lambda: lines,
        picture=lambda: step_chart(report),
        writers={".html": lambda out: step_page(report, out, output.theme)},
    )
    present(result, output)
