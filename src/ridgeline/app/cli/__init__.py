"""The command line: one short function per command; parse, call, render."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...core.errors import InputError, RidgelineError, unknown
from ...core.version import __version__

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...programs.ops import Op
    from ...render.table import Table

EPILOG = (
    "Exit codes: 0 done, 1 what was asked for did not hold, 2 bad input. Words: `ridgeline glossary`. "
    "The roofline model is due to Williams, Waterman and Patterson (2009)."
)
TEXTS = (".json", ".csv", ".md", ".txt")  # data; every other suffix is a picture
MOST_ROWS = 64  # of a sweep on the terminal; files and --json get all
MOST_CASES = 10_000_000  # of a sweep on the terminal: some 4 GB of memory
MOST_WRITTEN = 1_000_000  # of a sweep that is written whole: some 5 GB of memory
MOST_NAMED = 10  # rows at fault that are named one by one


class Commands(click.Group):
    """Turns every expected error into one message and exit code 2, on whatever command."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RidgelineError as error:
            click.echo(f"ridgeline: {error}", err=True)
            ctx.exit(2)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
                raise  # a reader that went away, which click ends without a word
            click.echo(f"ridgeline: the answer cannot be printed: {error.strerror}; send it elsewhere", err=True)
            # what is still buffered would be complained of once more when Python ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(2)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            click.echo(f"ridgeline: {unknown('command', args[0], self.list_commands(ctx))}", err=True)
            ctx.exit(2)
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}, epilog=EPILOG
)
@click.version_option(__version__, "--version", prog_name="ridgeline")
def main() -> None:
    """Predict where a kernel lands on a machine, measure where it does, reconcile the two.

    Attainable rate = min(peak, bandwidth x arithmetic intensity), per engine and per memory level, with launch
    overhead as a third regime.
    """


def as_json(command: Callable[..., None]) -> Callable[..., None]:
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")(command)


def out_option(command: Callable[..., None]) -> Callable[..., None]:
    command = click.option(
        "--theme", type=click.Choice(["light", "dark"]), default="light", help="Colours of a picture."
    )(command)
    return click.option(
        "--out",
        type=click.Path(path_type=Path),
        help="Write a file: .svg .png .pdf .html (picture), .json .csv .md (data).",
    )(command)


def machine_options(command: Callable[..., None]) -> Callable[..., None]:
    options = [
        click.option("--on", "on", metavar="MACHINE", help="A machine of the catalog, a .toml file, or `here`."),
        click.option("--peak", metavar="RATE", help="A peak of your own, such as '989 TFLOP/s'."),
        click.option("--bandwidth", metavar="RATE", help="A main-memory bandwidth of your own, such as '3.35 TB/s'."),
        click.option("--launch", metavar="TIME", help="Launch latency, such as '8 us'."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def model_options(command: Callable[..., None]) -> Callable[..., None]:
    options = [
        click.option(
            "--ceilings",
            type=click.Choice(["stated", "derived", "measured"]),
            help="Which figures to use (default: the best there is).",
        ),
        click.option(
            "--engine", type=click.Choice(["vector", "tensor", "tensor-sparse"]), help="Unit of matrix products."
        ),
        click.option("--resident", metavar="LEVEL", help="Level the data already sit at, such as l2."),
        click.option("--efficiency", type=float, help="One fraction of every ceiling, such as 0.78."),
        click.option("--backend", metavar="NAME", help="Library whose kernels are meant, such as vllm-0.24.0."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def find_machine(on: str | None, peak: str | None, bandwidth: str | None, launch: str | None) -> Machine:
    """The machine the options name: from the catalog, from two numbers, or the one with figures of the caller's own."""
    from ...core.machine import two_number
    from ...machines.load import load

    own = {
        "peak": quantity("--peak", peak, "flop/s"),
        "bandwidth": quantity("--bandwidth", bandwidth, "B/s"),
        "launch": quantity("--launch", launch, "s"),
    }
    if on:
        return load(on).with_figures(**own)
    if own["peak"] is not None and own["bandwidth"] is not None:
        return two_number(own["peak"], own["bandwidth"], own["launch"])
    raise InputError("no machine: name one with --on (see `ridgeline machines`), or give both --peak and --bandwidth")


def quantity(option: str, text: str | None, unit: str) -> float | None:
    """What an option says; a number without a unit is taken in base units, and that is told."""
    from ...core.units import bare, parse, show

    if not text:
        return None
    value = parse(text, unit)
    if bare(text):
        click.echo(f"{option} {text} has no unit and is read as {show(value, unit)}", err=True)
    return value


def show_json(document: Any) -> None:
    click.echo(json_text(document))


def json_text(document: Any) -> str:
    """One JSON document; of a long list each row stands on a line, which is written and read many times as fast."""
    if not isinstance(document, list) or len(document) <= MOST_ROWS:
        return json.dumps(_finite(document), indent=1)
    encode = json.JSONEncoder(allow_nan=False).encode

    def line(row: Any) -> str:
        try:
            return encode(row)
        except ValueError:
            return encode(_finite(row))

    return "[\n" + ",\n".join(map(line, document)) + "\n]"


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN; both become null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and (value != value or abs(value) == float("inf")) else value


def present(table: Table, json_wanted: bool, out: Path | None, document: Any = None) -> None:
    """A table where it was asked to go: a file, one JSON document, or the terminal."""
    from ...core.documents import to_document

    if out is not None:
        from ...core.files import write_text

        whole = document if document is not None else to_document(table)
        kinds: dict[str, Callable[[], str]] = {
            ".json": lambda: json_text(whole) + "\n",
            ".csv": table.csv,
            ".md": table.markdown,
            ".txt": lambda: table.text() + "\n",
        }
        if out.suffix not in kinds:
            raise InputError(f"{out}: this table is written to {', '.join(kinds)}, not to '{out.suffix}'")
        write_text(out, kinds[out.suffix]())
        click.echo(f"wrote {out}", err=True)
    if json_wanted:
        show_json(document if document is not None else to_document(table))
    elif out is None:
        from ...render.table import draw

        draw(table)


def present_all(tables: Sequence[Table], out: Path, document: Any) -> None:
    """Several tables as one file."""
    from ...core.files import write_text

    texts = {".md": "\n".join(table.markdown() for table in tables), ".csv": "\n".join(table.csv() for table in tables)}
    texts[".txt"] = "\n\n".join(table.text() for table in tables) + "\n"
    texts[".json"] = json.dumps(_finite(document), indent=1) + "\n"
    write_text(out, texts[out.suffix])
    click.echo(f"wrote {out}", err=True)


def terminal_size() -> dict[str, Any]:
    """Room and colours of the terminal; 80 columns and none where there is no terminal."""
    import shutil

    return {"width": min(120, shutil.get_terminal_size((80, 24)).columns), "colour": sys.stdout.isatty()}


def draw_file(name: str, machine: Machine, out: Path, theme: str, **options: Any) -> None:
    """A named chart to a picture file."""
    from ...render import charts
    from ...render.draw import files

    files.save(charts.CHARTS[name](machine, **options), out, theme)
    click.echo(f"wrote {out}", err=True)


def bind(op: Op, words: Sequence[str], formats: dict[str, str | None], most: int = MOST_CASES) -> dict[str, Any]:
    """`k=v` words and storage options as the op's arguments; several axes make a full grid of `most` cases at most."""
    import math

    import numpy as np

    from ...core.units import axis

    values: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise InputError(f"'{word}' is not of the form name=value; {op.name} is {op.signature}")
        if name in values:
            raise InputError(f"{op.name}: {name} is given twice")
        if name not in op.params:
            raise unknown(f"parameter of {op.name}", name, op.params, f"It is {op.signature}.")
        kind = op.params[name].kind
        if kind in ("Size", "Count"):
            try:
                values[name] = axis(text)
            except InputError as error:
                raise InputError(f"{op.name}: {name}: {error}") from error
        else:
            values[name] = text
    for name, value in formats.items():
        if value is None:
            continue
        if name not in op.params:
            raise InputError(f"{op.name} has no {name}; it is {op.signature}")
        if name in values:
            raise InputError(f"{op.name}: {name} is given twice, as {name}={values[name]} and as an option")
        values[name] = value
    axes = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    count = math.prod(len(value) for value in axes.values())
    if count > most:
        raise InputError(
            f"this sweep has {count:,} cases; {MOST_CASES:,} is the most, {MOST_WRITTEN:,} with --json or --out; "
            "take larger steps, or several sweeps"
        )
    if len(axes) > 1:
        values.update(zip(axes, (grid.ravel() for grid in np.meshgrid(*axes.values(), indexing="ij")), strict=True))
    return values


# -- commands ---------------------------------------------------------------------------------------------


@main.command()
@click.argument("name", required=False)
@as_json
@out_option
def machines(name: str | None, as_json: bool, out: Path | None, theme: str) -> None:
    """The catalog; with NAME, one machine with every ceiling, its ridges and sources."""
    from ...render.tables import catalog

    if name is None:
        table, document = catalog.machines_table()
        present(table, as_json, out, document)
        return
    from ...machines.load import load

    machine = load(name)
    if out is not None and out.suffix not in TEXTS:
        draw_file("pyramid", machine, out, theme)
        return
    tables = catalog.machine_tables(machine)
    if out is not None:
        present_all(tables, out, machine.document())
    if as_json:
        show_json(machine.document())
    elif out is None:
        for table in tables:
            present(table, False, None)
            click.echo()


@main.command()
@click.argument("name", required=False)
@as_json
def ops(name: str | None, as_json: bool) -> None:
    """The ops and their parameters; with NAME, one op with its equation."""
    from ...render.tables import catalog

    if name is None:
        table = catalog.ops_table()
        present(table, as_json, None)
        return
    from ...programs.ops import find

    op = find(name)
    if as_json:
        show_json(catalog.op_document(op))
    else:
        click.echo(f"{op.signature}\n\n{op.doc}\n")
        present(catalog.op_table(op), False, None)


@main.command()
@click.argument("op_name", metavar="[OP]", required=False)
@click.argument("values", metavar="[NAME=VALUE]...", nargs=-1)
@machine_options
@click.option("--dtype", help="Format of the arithmetic (default bf16).")
@click.option("--weights", help="Storage format of the weights, such as int4_g128.")
@click.option("--out-dtype", help="Storage format of the result.")
@click.option("--kv", help="Storage format of keys and values.")
@model_options
@click.option("--levels", is_flag=True, help="One row per memory level.")
@click.option("--explain", is_flag=True, help="Every addend of flops and bytes, every ceiling and its source.")
@click.option("--took", metavar="TIME", help="A measured time: adds achieved rate and shares of the roofs.")
@click.option("--plot", is_flag=True, help="Draw the roofline in the terminal.")
@click.option("--cases", type=click.Path(path_type=Path), help="A table of cases: .csv .jsonl .json .parquet.")
@as_json
@out_option
def predict(
    op_name: str | None,
    values: tuple[str, ...],
    cases: Path | None,
    as_json: bool,
    out: Path | None,
    theme: str,
    **options: Any,
) -> None:
    """Where an op lands on a machine, before anything runs.

    Values may be sweeps: m=1..8192 doubles, m=1..100:10 steps, m=1,8,64 lists. Several sweeps make a grid.

    \b
      ridgeline predict gemm m=4096 n=14336 k=4096 --on h200-sxm
      ridgeline predict linear batch=1..1024 in_features=4096 out_features=4096 --on a100-sxm-80gb --dtype fp16
      ridgeline predict --cases kernels.csv --on h100-sxm --out predicted.csv
    """
    if cases is not None:
        if op_name:
            raise InputError("give either an op or --cases, not both")
        for name in ("levels", "explain", "took", "plot"):
            if options[name]:
                raise InputError(f"--{name} speaks of one op; it does not go with --cases")
        return predict_cases(cases, as_json, out, **options)
    if not op_name:
        raise InputError("name an op (see `ridgeline ops`), or give --cases FILE")
    from ...core.units import parse
    from ...prediction.answer import answer as ask
    from ...prediction.answer import document
    from ...programs.ops import find

    op = find(op_name)
    machine = find_machine(options["on"], options["peak"], options["bandwidth"], options["launch"])
    formats = {name: options[name] for name in ("dtype", "weights", "out_dtype", "kv")}
    given = bind(op, values, formats, MOST_WRITTEN if as_json or out is not None else MOST_CASES)
    took = parse(options["took"], "s") if options["took"] else None
    model = {name: options[name] for name in ("ceilings", "engine", "resident", "efficiency", "backend")}
    answer = ask(op, given, machine, took, **model)
    if took is not None and not answer.single:
        count = answer.prediction.count
        raise InputError(f"--took is the time of one case, and this sweep has {count:,}; give one value each")
    if took is not None and took <= 0:
        raise InputError(f"--took must be a positive time, got '{options['took']}'")
    if out is not None:
        save_prediction(answer, out, theme)
    if as_json:
        show_json(document(answer))
        return
    if out is not None:
        return
    from ...render.table import draw
    from ...render.tables.prediction import prediction_tables

    for index, table in enumerate(prediction_tables(answer, options["levels"], options["explain"], MOST_ROWS)):
        if index:
            click.echo()
        draw(table)
    if options["plot"]:
        from ...render.figure import plot

        click.echo()
        click.echo(plot(machine, [answer.prediction]).text(**terminal_size()))


def save_prediction(answer: Any, out: Path, theme: str) -> None:
    from ...prediction.answer import document
    from ...render.draw import files
    from ...render.figure import plot
    from ...render.tables.prediction import rows_table

    if out.suffix in TEXTS:
        present(rows_table(answer), False, out, document(answer))
        return
    files.save(plot(answer.prediction.machine, [answer.prediction]).chart, out, theme)
    click.echo(f"wrote {out}", err=True)


def predict_cases(path: Path, as_json: bool, out: Path | None, **options: Any) -> None:
    from ...machines.load import load
    from ...prediction import table as cases

    machine = None
    if options["on"] or options["peak"] or options["bandwidth"]:
        machine = find_machine(options["on"], options["peak"], options["bandwidth"], options["launch"])
    formats = {name: options[name] for name in ("dtype", "weights", "out_dtype", "kv") if options[name]}
    model = {name: options[name] for name in ("ceilings", "engine", "resident", "efficiency", "backend")}
    if out is not None and out.suffix not in cases.SUFFIXES:
        raise InputError(f"{out}: cases are written to {', '.join(cases.SUFFIXES)}, not to '{out.suffix}'")
    given = cases.read(path)
    most = None if as_json or out is not None else MOST_ROWS
    rows, errors = cases.run(given, cases.Defaults(machine, load, formats, model), most)
    if out is not None:
        cases.write(rows, out)
    if as_json:
        show_json(rows)
    elif out is None:
        from ...render.table import draw
        from ...render.tables.prediction import cases_table

        draw(cases_table(rows, len(given)))
    if errors:
        name_failed(list(errors.values()))
        click.echo(
            f"ridgeline: {len(errors)} of {len(given)} cases could not be predicted; their column `error` says why",
            err=True,
        )
        sys.exit(1)


def name_failed(why: Sequence[str]) -> None:
    """The first few rows at fault, each with its reason."""
    for text in why[:MOST_NAMED]:
        click.echo(f"ridgeline: {text}", err=True)
    if len(why) > MOST_NAMED:
        click.echo(f"ridgeline: and {len(why) - MOST_NAMED} more rows", err=True)


@main.command("eval")
@click.argument("cases", type=click.Path(path_type=Path))
@machine_options
@click.option("--backend", metavar="NAME", help="Library the cases ran on, where they do not say.")
@as_json
@out_option
def evaluate(cases: Path, as_json: bool, out: Path | None, theme: str, **options: Any) -> None:
    """How far expected times lie from measured ones: CASES with a column time_us, by family, against three baselines.

    The baselines are computed on the same cases: the stated roofline, 0.78 of it with a launch floor, and three numbers
    fitted per family and format on the other half of the cases.
    """
    from ...machines.load import load
    from ...prediction.score import evaluate as judge
    from ...prediction.table import Defaults, read

    backend = options.pop("backend")
    machine = None if not any(options.values()) else find_machine(**options)
    found = judge(read(cases), Defaults(machine, load, {}, {"backend": backend} if backend else {}))
    name_failed(found.errors)
    if out is not None and out.suffix not in TEXTS:
        from ...render.charts.score import score_chart
        from ...render.draw import files

        files.save(score_chart(found), out, theme)
        click.echo(f"wrote {out}", err=True)
        out = None
        if not as_json:
            return
    from ...render.tables.score import score_table

    present(score_table(found), as_json, out, found.document())


@main.command("critical-batch")
@click.argument("fan_in", metavar="IN_FEATURES")
@click.argument("fan_out", metavar="OUT_FEATURES")
@machine_options
@click.option("--ridge", metavar="FLOP/B", help="A ridge of your own instead of a machine's.")
@click.option("--dtype", default="bf16", show_default=True, help="Format of activations and arithmetic.")
@click.option("--weights", help="Storage format of the weights.")
@click.option("--ceilings", type=click.Choice(["stated", "derived", "measured"]))
@as_json
@out_option
def critical_batch(fan_in: str, fan_out: str, as_json: bool, out: Path | None, theme: str, **options: Any) -> None:
    """The batch at which a linear layer turns compute-bound; `never` when it does not."""
    from ...core.documents import to_document
    from ...core.units import number, parse
    from ...prediction.turning import critical_batch as study
    from ...render.tables.studies import critical_batch_table

    machine = (
        None
        if options["ridge"]
        else find_machine(options["on"], options["peak"], options["bandwidth"], options["launch"])
    )
    ridge = parse(options["ridge"], "flop/B") if options["ridge"] else None
    if ridge is not None and ridge <= 0:
        raise InputError(f"--ridge must be positive, got '{options['ridge']}'")
    model = {name: options[name] for name in ("dtype", "weights", "ceilings")}
    answer = study(number(fan_in), number(fan_out), machine, ridge, **model)
    if out is not None and out.suffix not in TEXTS:
        if machine is None:
            raise InputError("a picture of the batch sweep needs a machine (--on)")
        sizes = {"in_features": int(answer.in_features), "out_features": int(answer.out_features)}
        draw_file("batch", machine, out, theme, dtype=answer.dtype, weights=options["weights"], **sizes)
        return
    present(critical_batch_table(answer), as_json, out, to_document(answer))


@main.command()
@click.argument("op_name", metavar="OP")
@click.argument("values", metavar="[NAME=VALUE]...", nargs=-1)
@machine_options
@click.option("--dtypes", help="Formats to compare, such as fp32,bf16,fp8 (default: all the machine computes in).")
@click.option("--ceilings", type=click.Choice(["stated", "derived", "measured"]))
@as_json
@out_option
def precisions(
    op_name: str, values: tuple[str, ...], as_json: bool, out: Path | None, theme: str, **options: Any
) -> None:
    """One op in every number format of a machine: intensity, ridge, bound, attainable."""
    from ...prediction.precisions import precision_sweep
    from ...programs.ops import find
    from ...render.tables.studies import precisions_table

    op = find(op_name)
    machine = find_machine(options["on"], options["peak"], options["bandwidth"], options["launch"])
    given = bind(op, values, {})
    if "dtype" in given:
        raise InputError("precisions sweeps the dtype itself; choose some with --dtypes fp32,bf16")
    dtypes = options["dtypes"].split(",") if options["dtypes"] else None
    if out is not None and out.suffix not in TEXTS:
        draw_file("precisions", machine, out, theme, ceilings=options["ceilings"])
        return
    table = precisions_table(precision_sweep(op, given, machine, dtypes, ceilings=options["ceilings"]))
    present(table, as_json, out, table.records)


@main.command()
@click.argument("names", metavar="MACHINE MACHINE...", nargs=-1, required=True)
@click.option("--dtype", default="bf16", show_default=True)
@click.option("--ceilings", type=click.Choice(["stated", "derived", "measured"]))
@click.option(
    "--op",
    "case",
    metavar="'OP NAME=VALUE ...'",
    help="Also predict this op on each, such as 'gemm m=1 n=4096 k=4096'.",
)
@as_json
@out_option
def compare(
    names: tuple[str, ...],
    dtype: str,
    ceilings: str | None,
    case: str | None,
    as_json: bool,
    out: Path | None,
    theme: str,
) -> None:
    """Machines side by side: peak, bandwidth, ridge, growth, and which phase gains."""
    from ...machines.load import load
    from ...prediction.compare import comparison
    from ...programs.ops import find
    from ...render.tables.studies import comparison_table

    chosen = [load(name) for name in names]
    if out is not None and out.suffix not in TEXTS:
        draw_file("compare", chosen[0], out, theme, machines=chosen, dtype=dtype, ceilings=ceilings)
        return
    op, values = None, {}
    if case:
        name, *words = case.split()
        op = find(name)
        own = "dtype" not in op.params or any(word.startswith("dtype=") for word in words)
        values = bind(op, words, {} if own else {"dtype": dtype})
    table = comparison_table(comparison(chosen, dtype, ceilings, op, values), " ".join((case or "").split()))
    present(table, as_json, out, table.records)


@main.command()
@click.argument("name", required=False)
@machine_options
@click.option("--dtype", help="Number format, where the chart has one.")
@click.option("--and", "others", multiple=True, metavar="MACHINE", help="Further machines, for charts that compare.")
@as_json
@out_option
def chart(
    name: str | None,
    as_json: bool,
    out: Path | None,
    theme: str,
    others: tuple[str, ...],
    dtype: str | None,
    **options: Any,
) -> None:
    """A named chart of a machine: in the terminal, or to a file with --out. Without NAME, the list."""
    from ...render import charts
    from ...render.chart import document
    from ...render.draw import files
    from ...render.draw.terminal import draw

    if name is None:
        from ...render.table import Column, Table

        rows = [{"chart": key, "shows": entry.summary} for key, entry in charts.CHARTS.items()]
        present(Table("", (Column("chart"), Column("shows")), rows), as_json, None)
        return
    from ...machines.load import load

    kind = charts.find(name)
    machine = find_machine(options["on"], options["peak"], options["bandwidth"], options["launch"])
    machines = [machine, *(load(other) for other in others)] if others else None
    if machines and "machines" not in kind.options:
        several = ", ".join(name for name, one in charts.CHARTS.items() if "machines" in one.options)
        raise InputError(f"the {kind.name} chart is of one machine; --and goes with {several}")
    drawn = kind(machine, dtype=dtype, machines=machines)
    if out is not None:
        files.save(drawn, out, theme)
        click.echo(f"wrote {out}", err=True)
    if as_json:
        show_json(document(drawn))
    elif out is None:
        click.echo(draw(drawn, **terminal_size()))


@main.command()
@click.argument("name", required=False)
@machine_options
@click.option("--dtype", help="Number format, where the table has one.")
@as_json
@click.option("--out", type=click.Path(path_type=Path), help="Write a file: .json .csv .md .txt.")
def table(name: str | None, as_json: bool, out: Path | None, dtype: str | None, **options: Any) -> None:
    """A named table, computed for a machine. Without NAME, the list."""
    from ...core.dtypes import dtype as find_dtype
    from ...render.table import Column, Table
    from ...render.tables.named import TABLES

    if name is None:
        rows = [{"table": key, "shows": entry.summary} for key, entry in TABLES.items()]
        present(Table("", (Column("table"), Column("shows")), rows), as_json, out)
        return
    if name not in TABLES:
        raise unknown("table", name, TABLES, "See `ridgeline table`.")
    machine = find_machine(options["on"], options["peak"], options["bandwidth"], options["launch"])
    made = TABLES[name](machine, dtype=find_dtype(dtype).name if dtype else None)
    present(made, as_json, out)


@main.command()
@click.argument("term", nargs=-1)
@as_json
def glossary(term: tuple[str, ...], as_json: bool) -> None:
    """The words of the tool, and further reading; with TERM, one of them."""
    from ...render.tables.glossary import glossary as build

    present(build(" ".join(term)), as_json, None)


from . import measure, record  # noqa: E402, F401  (their commands hang themselves onto `main`)
