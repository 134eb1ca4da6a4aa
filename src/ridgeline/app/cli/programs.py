"""Programs that were run: their report with a page, and the settlement of one that was traced and sealed before."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...core.errors import InputError
from .echo import echo
from .present import Output, Result, present

if TYPE_CHECKING:
    from ...gaps.ledger import Sealed
    from ...gaps.traced import ProgramSettlement
    from ..run.program import ProgramRun
    from .options import MachineOptions


def run_program(
    program: Sequence[str],
    on: str | None,
    amount: tuple[int | None, float | None],
    page: Path,
    keep: Path | None,
    verbose: bool,
    output: Output,
) -> int:
    """Run it, show the report and write its page; the exit code is that of the program. With --json it prints to standard error."""
    from ...core.files import writable
    from ...profilers import launch
    from ..reports.gaps import step_page
    from ..reports.parts import reported_interrupt
    from ..run import program as job
    from .measure import progress

    for place in (page, *([keep] if keep else [])):
        writable(place)
    if on is not None and on not in job.DEVICES:
        from .options import load_machine

        load_machine(on)  # a name that is not known is refused before the program runs
    steps = job.STEPS if amount[0] is None else amount[0]
    seconds = job.SECONDS if amount[1] is None else amount[1]
    say = partial(echo, err=True)
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
        stdout = _stderr() if output.as_json else None
        try:
            recorded = launch.run_program(program, Path(folder), steps, seconds, stdout)
        except launch.NothingRecorded as error:
            if not error.exit_code:
                raise
            say(f"ridgeline: {error}")
            return error.exit_code
        if keep is not None:
            for written in job.keep_trace(recorded, keep):
                say(f"wrote {written}")
        with progress() as on_progress:
            outcome = job.report_of(recorded, on, say, on_progress)
        result = program_result(outcome, page, verbose)
        try:
            result.show(output.as_json)
        finally:
            with reported_interrupt(page):
                step_page(outcome.report, page)
            if output.as_json:
                say(f"wrote {page}")
    return recorded.exit_code


def _stderr() -> int:
    """The file that standard error is, also where it was replaced by one that is none."""
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return 2


def program_result(outcome: ProgramRun, page: Path, verbose: bool) -> Result:
    """The answer: the step view, the three moves worth most, the operators; -v shows every table."""
    from ...render.tables.steps import move_lines, op_table, phase_table, step_answer, step_tables

    report = outcome.report
    warnings = [str(note) for note in report.warnings]

    def answer() -> list[str]:
        return [*step_answer(report), *warnings, *outcome.notes, f"report {page}   more: -v --json"]

    return Result(
        lambda: step_tables(report),
        outcome.document,
        terminal=None
        if verbose
        else lambda: [phase_table(report), "\n".join(move_lines(report.moves)), op_table(report)],
        answer=answer,
    )


def settle_traced(
    ctx: click.Context,
    path: Path | None,
    sealed: Sealed,
    files: Sequence[Path],
    machine: MachineOptions,
    form: str | None,
    output: Output,
    verbose: bool,
) -> None:
    """Settle the seal of a traced program with a trace of its run; exit code 1 where the ledger is broken."""
    from ...gaps.ledger import open_ledger
    from ...gaps.steps.report import program_report
    from ...gaps.traced import settle_program
    from ...profilers.load import timeline
    from ...render.tables.settled import program_settlement_answer, program_settlement_table
    from .options import MachineOptions as Options
    from .record import broken_is_1, printed_at_end

    if len(files) > 1:
        raise InputError(f"{len(files)} files: the seal of a program is settled with one trace; give one file")
    chosen = (machine if machine else Options(sealed.machine["name"])).load()
    recorded = timeline(files[0], form)
    report = program_report(recorded, chosen)

    def show(settlement: ProgramSettlement) -> None:
        result = Result(
            lambda: [program_settlement_table(settlement, None)],
            settlement,
            terminal=None if verbose else lambda: [program_settlement_table(settlement)],
            answer=lambda: program_settlement_answer(settlement),
        )
        present(result, output)

    for note in report.warnings:
        echo(note, err=True)
    with broken_is_1(ctx), printed_at_end():
        settlement = settle_program(open_ledger(path), sealed, report, recorded, files[0], show)
    if settlement.broken:
        echo(f"ridgeline: {settlement.broken}", err=True)
        ctx.exit(1)
