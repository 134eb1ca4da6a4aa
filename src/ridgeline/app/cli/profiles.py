"""Commands for profiles and timings: import a profile, run a program under a profiler, gate against a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...core.errors import InputError
from .command import Command, command
from .echo import echo
from .options import PATH, format_option, fraction, json_output, not_blank, output_options, refuse, verbose_option
from .present import Output, Result, present

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...core.observation import Observation
    from ...render.chart import Picture
    from ...render.table import Table

MAX_KERNELS = 20  # on the terminal without -v
to_stderr = partial(echo, err=True)


class _Import(Command):
    """Its help ends with the formats, which are listed from the importers when they are asked for."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from ...profilers.load import formats

        with formatter.section("Formats, and how to export them"):
            formatter.write_dl(list(formats().items()))


@command("import", cls=_Import)
@click.argument("file", type=PATH)
@format_option
@click.option(
    "--on",
    "on",
    metavar="MACHINE",
    callback=not_blank,
    help="Put every kernel on the roofline of this machine and diagnose it.",
)
@verbose_option
@output_options("Write a file: .json .csv .md (data); with --on also .svg .png .pdf .html (picture).", theme=True)
def import_file(file: Path, form: str | None, on: str | None, verbose: bool, output: Output) -> None:
    """Read the file of a profiler.

    Nsight Compute, torch.profiler, JAX, LIKWID, perf, Advisor, rocprof-compute, CSV or JSON, recognised from the content.
    Counts that the tool did not make are absent, never 0. With --on every kernel gets its AI, rates, MFU, MBU, bound,
    share of roofline and diagnosis; -v lists all kernels and causes with their evidence.
    """
    from ...profilers.load import load

    observations = load(file, form)
    if on is None:
        present_observations(observations, output, verbose)
    else:
        from .options import load_machine

        present_kernels(observations, load_machine(on), output, verbose)


def present_kernels(observations: Sequence[Observation], machine: Machine, output: Output, verbose: bool) -> None:
    """Kernels on the roofline: the answer, the top kernels, what to collect next; all of it with -v and in files."""
    from ...gaps.kernels import report_of_kernels
    from ...render.charts.kernels import profile_chart
    from ...render.tables.kernels import causes_table, kernels_answer, kernels_data, kernels_table
    from ..collect import collect_next
    from ..reports.gaps import kernel_page, kernel_rows

    report = report_of_kernels(observations, machine)
    everything = verbose or output.complete
    limit = None if everything else MAX_KERNELS

    def rows() -> list[dict[str, Any]]:
        return kernel_rows(report)

    def tables() -> list[Table]:
        if output.out is not None and output.out.suffix == ".csv":
            return [kernels_data(report, rows())]
        return [kernels_table(report, limit), *([causes_table(report)] if everything else [])]

    def terminal() -> list[Table | str]:
        return [*tables(), *collect_next(report)]

    def page(out: Path) -> None:
        from ...render.draw.html import write

        write(out, kernel_page(report), output.theme)

    picture, answer = partial(profile_chart, machine, observations), partial(kernels_answer, report)
    present(Result(tables, rows, terminal, picture, writers={".html": page}, answer=answer), output)


def present_observations(observations: Sequence[Observation], output: Output, verbose: bool) -> None:
    """Kernel count, total time and the top kernel; then the kernels by time, all of them with -v and in files."""
    from ...profilers.load import document
    from ...render.tables.observed import observations_answer, observations_data, observations_table

    csv = output.out is not None and output.out.suffix == ".csv"
    limit = None if verbose or output.complete else MAX_KERNELS

    def picture() -> Picture:
        raise InputError("a picture needs the machine that the kernels ran on: name it with --on")

    result = Result(
        lambda: [observations_data(observations) if csv else observations_table(observations, limit)],
        lambda: document(observations),
        picture=picture,
        answer=lambda: [observations_answer(observations)],
    )
    present(result, output)


@command(context_settings={"ignore_unknown_options": True})
@click.option("--with", "tool", type=click.Choice(["ncu", "torch"]), default="ncu", help="The profiler.")
@click.option("--use", type=click.Choice(["roofline", "diagnosis", "full"]), default="diagnosis", help="Counter set.")
@click.option("--kernel", metavar="REGEX", default="", help="Only kernels whose name matches.")
@click.option("--launches", type=int, default=0, help="Stop after this many kernels.")
@click.option("--self-check", "check", is_flag=True, help="Validate the counters with three kernels of known counts.")
@click.option("--out", "report", type=PATH, help="The profile (default kernels.csv, trace.json.gz).")
@verbose_option
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
    verbose: bool,
    output: Output,
) -> None:
    """Run a program under a profiler.

    ridgeline profile --with ncu -- python script.py

    Kernels are named by their NVTX ranges. Where counters are not permitted, torch.profiler times the kernels instead.
    """
    from ...core.documents import to_document
    from ...profilers.profile import profile as run
    from ...profilers.self_check import self_check
    from ...render.tables.observed import self_check_answer, self_check_table

    if check:
        given = {"kernel": kernel, "launches": launches, "use": use != "diagnosis", "with": tool != "ncu"}
        refuse(given, "with --self-check, which counts kernels of its own")
        if program:
            raise InputError(f"--self-check counts kernels of its own; leave out {' '.join(program)}, or --self-check")
        counts = self_check(report or Path("self-check.csv"), to_stderr)
        rows, holds = [to_document(item) for item in counts], all(item.holds for item in counts)
        answer = self_check_answer(holds)
        document = {"holds": holds, "kernels": rows}
        present(Result(lambda: [self_check_table(rows)], document, answer=lambda: [answer]), output)
        ctx.exit(0 if holds else 1)
    recorded = run(program, tool, report, use, kernel, launches, to_stderr)
    to_stderr(f"wrote {recorded.out} ({recorded.step})")
    present_observations(recorded.observations, output, verbose)


@command()
@click.argument("files", nargs=-1, required=True, type=PATH)
@click.option(
    "--baseline", "baselines", multiple=True, type=PATH, help="A baseline run, or a folder of them; repeat it."
)
@click.option(
    "--min-change", "--least", "least", metavar="FRACTION", default="0.05", show_default=True, callback=fraction,
    help="Smaller changes pass.",
)  # fmt: skip
@click.option(
    "--p-value", "--chance", "chance", type=float, default=0.01, show_default=True,
    help="Probability of a false alarm, over all names together.",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Inconclusive or missing names fail too.")
@json_output
@click.pass_context
def gate(
    ctx: click.Context,
    files: tuple[Path, ...],
    baselines: tuple[Path, ...],
    least: float,
    chance: float,
    strict: bool,
    output: Output,
) -> None:
    """Fail a build on a performance regression.

    ridgeline gate BASELINE CURRENT

    ridgeline gate --baseline FILE_OR_FOLDER [--baseline ...] CURRENT...

    Every file is a run: JSON that ridgeline wrote, or a table (.csv .jsonl .parquet) with the columns name and time_us,
    where rows of one name are its samples, or samples (seconds, separated by spaces). Several baseline runs show the
    run-to-run variation. Exit code 1 on a regression.
    """
    from ...gaps.gate import compare, load_runs
    from ...render.tables.gaps import gate_table

    if not baselines and len(files) != 2:
        raise InputError(
            f"got {len(files)} file{'s' if len(files) > 1 else ''}: name a baseline and a current file, or several runs: "
            "ridgeline gate --baseline FILE_OR_FOLDER CURRENT..."
        )
    old, new = (baselines, files) if baselines else (files[:1], files[1:])
    verdict = compare(load_runs(old), load_runs(new), least, chance, strict)
    present(Result(lambda: [gate_table(verdict)], verdict, answer=lambda: [verdict.sentence]), output)
    ctx.exit(0 if verdict.passed else 1)
