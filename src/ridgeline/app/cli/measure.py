"""The command line of what takes time here: measuring this machine, merging measurements, the main job."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from ...core.errors import InputError
from . import as_json, main, out_option, show_json, terminal_size


@contextmanager
def progress() -> Iterator[Callable[[str, int, int, str], None]]:
    """A bar on standard error with the time left, where that is a terminal; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda phase, done, total, label: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.fields[phase]:>8}"),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def tell(phase: str, done: int, total: int, label: str) -> None:
            if phase not in tasks:
                tasks[phase] = bars.add_task("", phase=phase, total=total)
            bars.update(tasks[phase], completed=done, total=total, description=label[:60])

        yield tell


@contextmanager
def stoppable() -> Iterator[None]:
    """Being told to end, or losing the terminal, ends long work as Ctrl-C does: what is done is kept."""
    told = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {}

    def end(number: int, frame: object) -> None:
        with suppress(OSError):  # the terminal may be gone
            click.echo(f"told to end ({signal.Signals(number).name}); as after Ctrl-C, what is done is kept", err=True)
        raise KeyboardInterrupt

    with suppress(ValueError):  # not the main thread, which alone may ask for signals
        before = {number: signal.signal(number, end) for number in told}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@main.command()
@click.argument("what", type=click.Choice(["cpu", "cuda", "collective"]), required=False)
@click.option("--quick", is_flag=True, help="Fewer sizes and samples.")
@click.option("--calibrate", is_flag=True, help="Also time library kernels and fit the kernel families to them (CUDA).")
@click.option("--save/--no-save", "keep", default=True, help="Keep the result as the machine `here`.")
@click.option("--against", type=click.Path(path_type=Path), help="An earlier machine file to compare with.")
@as_json
@out_option
def measure(
    what: str | None,
    quick: bool,
    calibrate: bool,
    keep: bool,
    against: Path | None,
    as_json: bool,
    out: Path | None,
    theme: str,
) -> None:
    """Empirical ceilings of the machine you sit at, per memory level, access mix and precision.

    Saved as the machine `here`; --out writes .toml (machine file), .json (every sample), .html (report) or a picture.
    """
    from ...core.files import writable
    from ...machines.files import load_file
    from ...measure import session as measuring
    from ...render.tables import findings

    earlier = load_file(against) if against else None
    if out is not None and out.suffix not in findings.SUFFIXES:
        raise InputError(f"{out}: a measurement is written to {', '.join(findings.SUFFIXES)}, not to '{out.suffix}'")
    if earlier is not None and what == "collective":
        raise InputError("--against compares machine files, and collectives speak of several machines")
    if out is not None:
        writable(out)  # before minutes are spent on what could then not be kept
    with stoppable(), progress() as tell:
        found = measuring.measure(what, quick, tell, calibrate)
    if not found.observations:
        return  # a rank other than the first: that one speaks for all

    # shown and written in two places, each whatever becomes of the others: what took minutes must not be lost
    def put() -> None:
        if out is not None:
            findings.write(found, out, theme)
            click.echo(f"wrote {out}", err=True)

    def save() -> None:
        for place in measuring.keep(found) if keep and found.machine is not None else ():
            click.echo(f"wrote {place}", err=True)

    with ExitStack() as last:
        last.callback(put)
        last.callback(save)
        if as_json:
            show_json(findings.whole(found, earlier))
        else:
            findings.show(found, earlier)


@main.command()
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The machine file to write.")
@as_json
def merge(first: Path, second: Path, out: Path, as_json: bool) -> None:
    """One machine file of two measurements of one machine: of each ceiling the better reading."""
    from ...core.documents import to_document
    from ...core.files import write_text
    from ...machines import write as save
    from ...machines.files import load_file
    from ...machines.merge import merge as together

    if out.suffix != ".toml":
        raise InputError(f"{out}: a machine file is written to .toml, not to '{out.suffix}'")
    made = together(load_file(first), load_file(second))
    write_text(out, save.text(made))
    if as_json:
        show_json(to_document(made))
    click.echo(f"wrote {out}", err=True)


@main.command()
@click.option("--full", is_flag=True, help="Measure at length instead of quickly.")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    default=Path("ridgeline-report.html"),
    show_default=True,
    help="Where the report goes.",
)
@as_json
def run(full: bool, report: Path, as_json: bool) -> None:
    """The main job: measure this machine, predict kernels, seal, run them, reconcile, draw, report."""
    from ...core.files import writable
    from ...render.tables import findings
    from .. import run as job

    writable(report)
    with stoppable(), progress() as tell:
        outcome = job.job(quick=not full, on_progress=tell)
    try:
        if as_json:
            show_json(findings.document(outcome))
        else:
            findings.tell(outcome, terminal_size())
    finally:  # also where nobody reads what is shown
        findings.report(outcome, report)
        click.echo(f"wrote {report}", err=True)
