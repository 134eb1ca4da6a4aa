"""Commands that check: expected times against measured ones, timings against a baseline."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from .options import PATH, MachineOptions, json_output, machine_options, picture_output
from .predict import name_errors
from .present import Output, Result, present, present_table


@click.command("eval")
@click.argument("cases", type=PATH)
@machine_options
@click.option("--backend", metavar="NAME", help="Library the cases ran on, where they do not say.")
@picture_output
def evaluate(cases: Path, machine: MachineOptions, backend: str | None, output: Output) -> None:
    """How far expected times lie from measured ones: CASES with a column time_us, by family, against three baselines.

    The baselines are computed on the same cases: the stated roofline, 0.78 of it with a launch floor, and three numbers
    fitted per family and format on the other half of the cases.
    """
    from ...machines.load import load
    from ...prediction import score
    from ...prediction.table import Defaults
    from ...programs.cases import read
    from ...render.charts.score import score_chart
    from ...render.tables.score import score_table

    chosen = machine.load() if machine else None
    scores = score.evaluate(read(cases), Defaults(chosen, load, {}, {"backend": backend} if backend else {}))
    name_errors(scores.row_errors)
    document = partial(score.document, scores)
    present(Result(lambda: [score_table(scores)], document, picture=lambda: score_chart(scores)), output)


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
    from ...render.tables.gate import gate_table

    verdict = compare(load(baseline), load(current), least, chance, strict)
    present_table(gate_table(verdict), output, verdict)
    ctx.exit(0 if verdict.passed else 1)
