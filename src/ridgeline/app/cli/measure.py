"""Commands that take minutes: measure this machine, merge measurements, the main job; with a progress bar, and ended by signals."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...core.errors import InputError
from ..last_resort import INTERRUPTED
from .command import command
from .echo import echo
from .options import PATH, json_output, not_blank, picture_output, refuse, verbose_option
from .present import Output, Result, check_suffix, terminal_size

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...measure.session import Measured
    from ...render.chart import Picture
    from ...render.table import Table
    from ..run import Outcome, Progress

SUFFIXES = (".toml", ".json", ".html", ".svg", ".png", ".pdf", ".csv", ".md")  # of a measurement


@command()
@click.argument("what", type=click.Choice(["cpu", "cuda", "collective"]), required=False)
@click.option("--quick", is_flag=True, help="Fewer sizes and samples.")
@click.option("--calibrate", is_flag=True, help="Also time library kernels and fit expected times to them.")
@click.option("--save/--no-save", "keep", default=True, help="Keep the result as the machine `here`.")
@click.option("--against", type=PATH, help="An earlier machine file to compare with.")
@verbose_option
@picture_output
@click.pass_context
def measure(
    ctx: click.Context,
    what: str | None,
    quick: bool,
    calibrate: bool,
    keep: bool,
    against: Path | None,
    verbose: bool,
    output: Output,
) -> None:
    """Measure the ceilings of this machine.

    Bandwidth per memory level and access mix, peak per format, latency per level.

    Saved as the machine `here`; --out writes .toml (machine file), .json (every sample), .html (report) or a picture.
    """
    from ...core.files import writable
    from ...machines.files import load_file
    from ...measure import session
    from ..reports.parts import reported_interrupt

    out = output.out
    earlier = load_file(against) if against else None
    if out is not None:
        check_suffix(out, SUFFIXES, "a measurement is")
    if earlier is not None and what == "collective":
        raise InputError("--against compares machine files; collectives involve several machines and have none")
    if out is not None:
        writable(out)  # before minutes are spent on what could then not be kept
    if keep and what != "collective":
        session.require_folder()
    with signals_interrupt(), progress() as on_progress:
        measured = session.measure(what, quick, on_progress, calibrate)
    if not measured.observations:
        return  # a rank other than the first: that one reports for all
    result = measurement(measured, earlier, output.theme, verbose)
    try:  # shown, saved and written, each whatever becomes of the others: what took minutes must not be lost
        result.show(output.as_json)
    finally:
        try:
            say = partial(echo, err=True)
            for path in session.keep(measured, say) if keep and measured.machine is not None else ():
                echo(f"wrote {path}", err=True)
        finally:
            if out is not None:
                with reported_interrupt(out):
                    result.write(out, output.theme)
    if session.was_stopped(measured):
        ctx.exit(INTERRUPTED)


def measurement(
    measured: Measured, earlier: Machine | None = None, theme: str = "light", verbose: bool = False
) -> Result:
    """A measurement in every form; `earlier` is one to compare with, `verbose` shows every ceiling."""
    from ...core.documents import to_document
    from ...core.files import write_text
    from ...machines import write as machine_file
    from ...render.charts.measured import collectives
    from ...render.tables import measured as tables
    from ..reports.measured import ceiling_pictures, measurement_page

    machine, items = measured.machine, measured.observations

    def terminal() -> Iterator[Table]:
        if machine is None:
            yield from tables.collectives(items, measured.notes)
            return
        yield tables.roofs(machine, () if verbose else measured.notes)
        if verbose:
            yield tables.ceilings(machine)
        if verbose and (latencies := tables.latencies(machine)).rows:
            yield latencies
        if earlier is not None:
            yield tables.against(earlier, machine)

    def document() -> dict[str, Any]:
        changes = {"against": to_document(tables.against(earlier, machine))} if earlier and machine else {}
        return {**to_document(measured), **changes}

    def picture() -> Picture:
        pictures = ceiling_pictures(machine, items) if machine else [collectives(items)]
        if not pictures:
            raise InputError("too little was measured for a picture; write .json or .toml")
        return pictures[0]

    def write_machine(out: Path) -> None:
        if machine is None:
            raise InputError(f"{out}: collectives involve several machines and have no machine file; write .json")
        write_text(out, machine_file.text(machine))

    def lines() -> list[str]:
        return tables.measured_lines(measured, earlier)

    writers = {".toml": write_machine, ".html": lambda out: measurement_page(measured, out, theme, lines())}
    return Result(
        lambda: [tables.observations(items, measured.notes)],
        document,
        terminal,
        picture,
        writers,
        lines,
    )


@command()
@click.argument("first", type=PATH)
@click.argument("second", type=PATH)
@click.option("--out", "target", type=PATH, required=True, help="The machine file to write.")
@json_output
def merge(first: Path, second: Path, target: Path, output: Output) -> None:
    """Merge two measurements of one machine.

    Of each ceiling the better value: the higher rate, the shorter latency.
    """
    from ...core.files import write_text
    from ...machines import write as machine_file
    from ...machines.files import load_file
    from ...machines.merge import merge as merged
    from ...render.tables.measured import against_line

    check_suffix(target, (".toml",), "a machine file is")
    before, after = load_file(first), load_file(second)
    machine = merged(before, after)
    write_text(target, machine_file.text(machine))
    line = f"merged: {against_line(before, after)}"
    Result(document=machine, answer=lambda: [line, machine.title or machine.name]).show(output.as_json)
    echo(f"wrote {target}", err=True)


@command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--on", "on", metavar="cpu|cuda|MACHINE", callback=not_blank,
    help="Device (default: a CUDA GPU where torch sees one); for a program, the machine to predict for.",
)  # fmt: skip
@click.option("--full", is_flag=True, help="Measure the ceilings at length instead of quickly.")
@click.option("--report", type=PATH, default=Path("ridgeline-report.html"), show_default=True, help="The HTML report.")
@click.option("--plot", is_flag=True, help="Draw the roofline on the terminal.")
@click.option("--steps", type=int, help="Of a program: steps to record (default 5).")
@click.option("--seconds", type=float, help="Of a program: time to record at most, after three steps (default 10).")
@click.option("--keep", type=PATH, help="Of a program: keep its trace in this file.")
@verbose_option
@json_output
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(
    ctx: click.Context,
    on: str | None,
    full: bool,
    report: Path,
    plot: bool,
    steps: int | None,
    seconds: float | None,
    keep: Path | None,
    program: tuple[str, ...],
    verbose: bool,
    output: Output,
) -> None:
    """Measure, predict, seal, run and reconcile on this machine.

    ridgeline run -- python train.py [ARGUMENTS]

    With a program: profile some of its steps, predict every operator, say where the time goes and what to do next. It
    runs unchanged; its exit code is passed on.
    """
    from ...core.files import writable
    from ..reports.measured import run_page
    from ..reports.parts import reported_interrupt
    from ..run import bench_of, job

    if output.as_json and (plot or verbose):
        raise InputError("--json prints one document with everything in it; leave out -v and --plot")
    if program:
        from .programs import run_program

        refuse({"full": full, "plot": plot}, "with a program")
        ctx.exit(run_program(program, on, (steps, seconds), report, keep, verbose, output))
    refuse({"steps": steps, "seconds": seconds, "keep": keep}, "without a program: ridgeline run -- python train.py")
    if on not in (None, "cpu", "cuda"):
        raise InputError(f"--on {on}: the kernels run on this machine's cpu or cuda; a program takes any machine")
    writable(report)
    with signals_interrupt(), progress() as on_progress:
        outcome = job(bench_of(on), not full, on_progress)
    result = run_result(outcome, report, plot, verbose)
    try:
        result.show(output.as_json)
    finally:  # also where nobody reads what is shown
        with reported_interrupt(report):
            run_page(outcome, report)
        if output.as_json:
            echo(f"wrote {report}", err=True)
    if outcome.stopped:
        ctx.exit(INTERRUPTED)


def run_result(outcome: Outcome, report: Path, plot: bool = False, verbose: bool = False) -> Result:
    """The answer of the main job, and what -v and --plot show below it."""
    from ...core.documents import to_document
    from ...measure.session import remarks
    from ...render.charts.measured import landing
    from ...render.draw.terminal import draw
    from ...render.tables import measured as tables
    from ...render.tables import run as run_tables
    from ..reports.parts import drawable

    def answer() -> list[str]:
        seal = f"sealed before the run {outcome.sealed['hash'][:8]}   " if outcome.sealed else ""
        last = f"{seal}report {report}   more: -v --plot --json"
        facts = {**to_document(outcome.summary), "sentence": outcome.sentence}
        return run_tables.answer(outcome.machine, facts, outcome.items, outcome.remarks, last)

    def details() -> Iterator[Table | str]:
        if verbose and outcome.items:
            yield run_tables.kernels(outcome.items, outcome.notes, outcome.sealed)
        if verbose or not outcome.items:
            ceilings = tables.ceilings(outcome.machine)
            yield replace(ceilings, notes=(*ceilings.notes, *remarks(outcome.observations)))
        for picture in drawable(lambda: landing(outcome.machine, outcome.items)) if plot else ():
            yield draw(picture, **terminal_size())

    return Result(document=outcome, answer=answer, terminal=details)


@contextmanager
def progress() -> Iterator[Progress]:
    """A bar on standard error with the time left, where that is a terminal; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda phase, done, total, label: None
        return
    from rich import progress as bar
    from rich.console import Console

    phase, label = bar.TextColumn("{task.fields[phase]:>8}"), bar.TextColumn("{task.description}")
    columns = (phase, bar.BarColumn(), bar.TimeRemainingColumn(), label)
    with bar.Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def update(phase: str, done: int, total: int, label: str) -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task("", phase=phase, total=total)
            bars.update(tasks[phase], completed=done, total=total, description=label[:60])

        yield update


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """SIGTERM, or losing the terminal, ends long work as Ctrl-C does: what is done is kept."""
    signals = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    previous = {}

    def interrupt(number: int, frame: object) -> None:
        with suppress(OSError):  # the terminal may be gone
            echo(f"stopped by {signal.Signals(number).name}; what was measured is kept", err=True)
        raise KeyboardInterrupt

    with suppress(ValueError):  # only the main thread may handle signals
        previous = {number: signal.signal(number, interrupt) for number in signals}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
