"""What long commands need: a progress bar, and signals that end them as Ctrl-C does."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

Progress = Callable[[str, int, int, str], None]  # phase, steps done, steps in all, what is being done


@contextmanager
def progress() -> Iterator[Progress]:
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
            click.echo(f"told to end ({signal.Signals(number).name}); as after Ctrl-C, what is done is kept", err=True)
        raise KeyboardInterrupt

    with suppress(ValueError):  # only the main thread may handle signals
        previous = {number: signal.signal(number, interrupt) for number in signals}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
