"""Commands around recorded times: read what a profiler wrote, run a program under one, hold timings to a baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...core.errors import InputError
from .options import PATH, format_option, json_output, output_options
from .present import Output, Result, present, present_table

if TYPE_CHECKING:
    from ...core.observation import Observation
    from ...render.chart import Picture

to_stderr = partial(click.echo, err=True)


@click.command("import")
@click.argument("file", type=PATH)
@format_option
@click.option("--on", "on", metavar="MACHINE", help="The machine whose roofline a picture shows.")
@output_options("Write a file: .json .csv .md (data); with --on also .svg .png .pdf .html (picture).", theme=True)
def import_file(file: Path, form: str | None, on: str | None, output: Output) -> None:
    """Read what a profiler wrote: Nsight Compute, torch.profiler, JAX, LIKWID, perf, Advisor, rocprof-compute, CSV, JSON.

    The format is recognised from the content. Counts that the tool did not make are absent, never 0.
    """
    from ...profilers.load import document, load
    from ...render.tables.measured import observations_data, observations_table

    observations = load(file, form)
    csv = output.out is not None and output.out.suffix == ".csv"
    table = observations_data if csv else observations_table
    picture = profile_picture(observations, on)
    present(Result(lambda: [table(observations)], lambda: document(observations), picture=picture), output)


def profile_picture(observations: Sequence[Observation], on: str | None) -> Callable[[], Picture]:
    """The kernels on the roofline of a machine, for files that hold a picture."""

    def picture() -> Picture:
        from ...machines.load import load
        from ...render.charts.gaps import profile_chart

        if on is None:
            raise InputError("a picture needs the machine that the kernels ran on: name it with --on")
        return profile_chart(load(on), observations)

    return picture


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--with", "tool", type=click.Choice(["ncu", "torch"]), default="ncu", help="The profiler.")
@click.option(
    "--use", type=click.Choice(["roofline", "diagnosis", "full"]), default="diagnosis", help="Which counters."
)
@click.option("--kernel", metavar="REGEX", default="", help="Only kernels whose name matches.")
@click.option("--launches", type=int, default=0, help="Stop after so many kernels.")
@click.option(
    "--self-check", "check", is_flag=True, help="Count three kernels whose counts are known, instead of PROGRAM."
)
@click.option("--out", "report", type=PATH, help="What the profiler writes (default kernels.csv, trace.json.gz).")
@json_output
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def profile(
    ctx: click.Context,
    tool: str,
    use: str,
    kernel: str,
    launches: int,
    check: bool,
    report: Path | None,
    program: tuple[str, ...],
    output: Output,
) -> None:
    """Run PROGRAM under a profiler and show what it saw: ridgeline profile --with ncu -- python script.py.

    Kernels are named by their NVTX ranges. Where counters are refused, kernels are timed by torch.profiler instead.
    """
    from ...core.documents import to_document
    from ...profilers.load import document
    from ...profilers.profile import profile as run
    from ...profilers.self_check import self_check
    from ...render.tables.measured import observations_table, self_check_table

    if check:
        counts = self_check(report or Path("self-check.csv"), to_stderr)
        rows, holds = [to_document(item) for item in counts], all(item.holds for item in counts)
        present_table(self_check_table(rows, holds), output, {"holds": holds, "kernels": rows})
        ctx.exit(0 if holds else 1)
    recorded = run(program, tool, report, use, kernel, launches, to_stderr)
    observations = recorded.observations
    to_stderr(f"{recorded.step}: {len(observations)} observations, in {recorded.out}")
    present(Result(lambda: [observations_table(observations)], lambda: document(observations)), output)


@click.command()
@click.argument("baseline", type=PATH)
@click.argument("current", type=PATH)
@click.option("--least", type=float, default=0.05, show_default=True, help="Least difference that matters, relative.")
@click.option("--chance", type=float, default=0.01, show_default=True, help="Chance of a false alarm, per name.")
@click.option("--strict", is_flag=True, help="Too few samples to tell, or a vanished name, fails too.")
@json_output
@click.pass_context
def gate(
    ctx: click.Context, baseline: Path, current: Path, least: float, chance: float, strict: bool, output: Output
) -> None:
    """Whether CURRENT is slower than BASELINE beyond what their samples leave open; exit code 1 if so."""
    from ...gaps.gate import compare, load
    from ...render.tables.gaps import gate_table

    verdict = compare(load(baseline), load(current), least, chance, strict)
    present_table(gate_table(verdict), output, verdict)
    ctx.exit(0 if verdict.passed else 1)
