"""Expected times: of one op or a sweep, of a table of cases, and against measured ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...core.errors import InputError
from .command import command
from .echo import echo
from .options import (
    PATH,
    MachineOptions,
    bind,
    format_options,
    machine_options,
    model_options,
    not_blank,
    picture_output,
    quantity,
    refuse,
    verbose_option,
)
from .present import MAX_ROWS, Output, Result, check_suffix, present, terminal_size

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...core.tabular import Row
    from ...prediction.predict import Prediction
    from ...render.chart import Picture
    from ...render.figure import Figure
    from ...render.table import Table

Formats = dict[str, str | None]
PICTURES = (".svg", ".png", ".pdf", ".html")
MAX_NAMED_ERRORS = 10  # rows at fault that are named one by one


@command()
@click.argument("op_name", metavar="[OP]", required=False)
@click.argument("values", metavar="[NAME=VALUE]...", nargs=-1)
@machine_options
@format_options("Storage format of the weights, such as int4_g128.")
@model_options
@click.option("--levels", is_flag=True, help="Bytes, AI, ridge and bound per memory level.")
@click.option("--explain", is_flag=True, help="Every term of flops, bytes and time, with its source.")
@click.option("--took", metavar="TIME", help="A measured time such as 220us: adds achieved rates and % of roofline.")
@click.option("--plot", is_flag=True, help="Draw the roofline in the terminal.")
@click.option("--cases", type=PATH, help="A table of cases: .csv .jsonl .json .parquet.")
@verbose_option
@picture_output
def predict(op_name: str | None, values: tuple[str, ...], cases: Path | None, output: Output, **options: Any) -> None:
    """Expected time and bound of an op, before it runs.

    Values may be sweeps: m=1..8192 doubles, m=1..100:10 steps, m=1,8,64 lists. Several sweeps make a grid. k, M and G
    are powers of 1000, Ki, Mi and Gi of 1024: n=16M, m=4Ki, bytes=64MiB. Common names work: matmul M=8 N=8 K=8, sdpa.

    \b
      ridgeline predict gemm m=4096 n=14336 k=4096 --on h200-sxm
      ridgeline predict linear batch=1..1024 in_features=4096 out_features=4096 --on a100-sxm-80gb --dtype fp16
      ridgeline predict --cases kernels.csv --on h100-sxm --out predicted.csv
    """
    if cases is None and not (op_name or "").strip():
        raise InputError("name an op (see `ridgeline ops`), or give --cases FILE")
    if cases is None:
        op, *sizes = str(op_name).split()  # in quotes as `compare --op` takes them
        predict_op(op, (*sizes, *values), output, **options)
        return
    if op_name:
        raise InputError("give either an op or --cases, not both")
    refuse(
        {name: options.pop(name) for name in ("levels", "explain", "took", "plot", "verbose")},
        "with --cases: it is about one op",
    )
    predict_cases(cases, output, **options)


def predict_op(
    op_name: str, values: Sequence[str], output: Output,
    machine: MachineOptions, formats: Formats, model: dict[str, Any], took: str | None, plot: bool, **tables: bool,
) -> None:  # fmt: skip
    """One op, or a sweep over its parameters."""
    from ...prediction.answer import answer as ask
    from ...prediction.answer import document
    from ...programs.ops import find
    from ...render.tables.prediction import prediction_tables, rows_table

    op, chosen = find(op_name), machine.load()
    given = bind(op, values, formats, output.complete)
    seconds = quantity("--took", took, "s")
    answer = ask(op, given, chosen, seconds, **model)
    prediction = answer.prediction
    check_effect(prediction, model, {**tables, "plot": plot}, output)
    if seconds is not None and not answer.single:
        raise InputError(
            f"--took is the time of one case, and this sweep has {prediction.count:,}; give one value each"
        )
    if tables["levels"] and output.out is not None and output.out.suffix in PICTURES and not answer.single:
        raise InputError(f"--levels draws one case, and this sweep has {prediction.count:,}; give one value each")
    if seconds is not None and seconds <= 0:
        raise InputError(f"--took must be a positive time, got '{took}'")

    def roofline() -> Figure:
        from ...prediction.locality import locality_of
        from ...render.charts.answers import levels
        from ...render.figure import Figure
        from ...render.figure import plot as draw  # the charts load only where one is drawn

        return Figure(levels(locality_of(answer))) if tables["levels"] else draw(chosen, [prediction])

    def terminal() -> Iterator[Table | str]:
        yield from prediction_tables(answer, tables["levels"], tables["explain"], MAX_ROWS, tables["verbose"])
        if plot:
            yield roofline().text(**terminal_size())

    result = Result(
        lambda: [rows_table(answer, data=True)],
        lambda: document(answer, tables["levels"], tables["explain"]),
        terminal,
        lambda: roofline().chart,
        answer=lambda: answer.lines,
    )
    present(result, output)


def check_effect(prediction: Prediction, model: dict[str, Any], shown: dict[str, bool], output: Output) -> None:
    """Refuse options that would change nothing of the answer that was asked for."""
    from ...core.machine import ANY

    work, machine = prediction.work, prediction.machine
    if output.complete:
        terminal = {name: shown[name] for name in ("plot", "verbose")}
        refuse(terminal, "with --json or --out: it is for the terminal")
    if output.out is not None and output.out.suffix != ".json":
        kept = ("levels",) if output.out.suffix in PICTURES else ()
        without = {name: value for name, value in shown.items() if name not in kept}
        refuse(without, f"on {output.out.suffix} files; take --json or --out FILE.json, or leave out --out")
    if ANY in machine.peaks:
        refuse({"engine": model["engine"]}, "on a machine of one peak (--peak)")
    if not any(engine == "matrix" for engine, _, _ in work.counts):
        refuse({"engine": model["engine"]}, f"on {work.name}: it has no matrix product")
    if machine.levels and model["resident"] == machine.main.name:
        refuse({"resident": True}, f"with {machine.main.name}, where the data are by default; name an inner level")


def predict_cases(path: Path, output: Output, machine: MachineOptions, formats: Formats, model: dict[str, Any]) -> None:
    """A table of cases in, the same rows with predictions out; exit code 1 where some could not be predicted."""
    from ...core.tabular import SUFFIXES, write_blocks
    from ...machines.libraries import check
    from ...machines.load import load
    from ...prediction.answer import rows_document
    from ...prediction.simple import efficiency_warning
    from ...prediction.table import CaseTable, Defaults
    from ...programs.cases import read_table
    from ...render.tables.prediction import cases_lines, cases_table

    chosen = machine.load_if_known()
    if chosen is not None:
        check(model["backend"], chosen)
    if output.out is not None:
        check_suffix(output.out, (*SUFFIXES, *PICTURES), "cases are")
    if warning := efficiency_warning(model["efficiency"]):
        echo(f"ridgeline: {warning}", err=True)
    stored = {name: value for name, value in formats.items() if value}
    table = CaseTable(read_table(path), Defaults(chosen, load, stored, model))
    given, errors = table.given, table.errors

    @cache
    def rows() -> list[Row]:
        """All rows where a document or a picture needs them, the first ones for the terminal."""
        return [row for block in table.blocks(None if output.complete else MAX_ROWS) for row in block.rows()]

    def drawable() -> list[Row]:
        rows()
        kept = [row for place, row in enumerate(given.rows(), 1) if place not in errors]
        if not kept:
            raise InputError(f"{path}: nothing to draw, no case could be predicted; {next(iter(errors.values()))}")
        return kept

    tables = [suffix for suffix in SUFFIXES if suffix != ".json"]  # which holds the document of --json
    in_picture = output.out is not None and output.out.suffix in PICTURES
    if in_picture:
        drawable()  # before anything is written
    result = Result(
        lambda: [cases_table(rows(), len(given))],
        lambda: rows_document(rows()),
        picture=lambda: cases_picture(path, drawable(), chosen, formats, model),
        writers=dict.fromkeys(tables, lambda out: write_blocks(table.blocks(), table.order, out)),
        answer=lambda: cases_lines(rows(), len(given)),
    )
    present(result, output)
    if errors:
        name_errors(list(errors.values()))
        rest = "left out of the picture" if in_picture else "their column `error` says why"
        echo(f"ridgeline: {len(errors)} of {len(given)} cases could not be predicted; {rest}", err=True)
        sys.exit(1)


def cases_picture(
    path: Path, rows: Sequence[Row], machine: Machine | None, formats: Formats, model: dict[str, Any]
) -> Picture:
    """All cases on the roofline of one machine, the area of a dot by its expected time."""
    from ...prediction.kernel_sets import Entry, KernelSet
    from ...prediction.predict import predict as expect
    from ...programs.cases import program
    from ...render.charts.answers import cases

    if machine is None:
        raise InputError("a picture of cases is of one machine: name it with --on")
    stored = {name: value for name, value in formats.items() if value}
    asked = {name: value for name, value in model.items() if value is not None}
    prediction = expect(program([{**stored, **row} for row in rows]), machine, **asked)
    title = f"{len(rows)} cases of {path.name} on {machine.name}"
    return cases(KernelSet(machine, (Entry("", prediction),), None, asked.get("ceilings"), title))


@command("eval")
@click.argument("cases", type=PATH)
@machine_options
@click.option(
    "--backend", metavar="NAME", callback=not_blank, help="Library that the cases ran on, unless a column names it."
)
@picture_output
def evaluate(cases: Path, machine: MachineOptions, backend: str | None, output: Output) -> None:
    """Score predictions against measured times.

    CASES has a column time_us. Errors are by kernel family, with three baselines on the same cases: the stated
    roofline, 78 % of it plus a launch floor, and a fit of three parameters per family and format (held-out).
    """
    from ...machines.libraries import check
    from ...machines.load import load
    from ...prediction import score
    from ...prediction.table import Defaults
    from ...programs.cases import read
    from ...render.charts.measured import score_chart
    from ...render.tables.studies import score_lines, score_table

    chosen = machine.load_if_known()
    if chosen is not None:
        check(backend, chosen)
    scores = score.evaluate(read(cases), Defaults(chosen, load, {}, {"backend": backend} if backend else {}))
    name_errors(scores.row_errors)
    result = Result(
        lambda: [score_table(scores)],
        lambda: score.document(scores),
        picture=lambda: score_chart(scores),
        answer=lambda: score_lines(scores),
    )
    present(result, output)


def name_errors(errors: Sequence[str]) -> None:
    """The first few rows at fault, each with its reason."""
    for text in errors[:MAX_NAMED_ERRORS]:
        echo(f"ridgeline: {text}", err=True)
    if len(errors) > MAX_NAMED_ERRORS:
        echo(f"ridgeline: and {len(errors) - MAX_NAMED_ERRORS} more rows", err=True)
