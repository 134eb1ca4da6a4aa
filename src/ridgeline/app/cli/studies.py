"""Commands that look up and study machines and ops: catalog, critical batch, formats, changes, named charts and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ...core.errors import InputError, unknown
from .command import command
from .options import (
    CEILINGS,
    CEILINGS_HELP,
    MachineOptions,
    bind,
    format_options,
    load_machine,
    machine_options,
    output_options,
    picture_output,
    refuse,
)
from .present import Output, Result, named_chart, present, present_table, terminal_size

if TYPE_CHECKING:
    from ...render.chart import Picture
    from ...render.table import Table


def _list(name: str, says: str, rows: Mapping[str, str]) -> Table:
    from ...render.table import Column, Table

    return Table("", (Column(name), Column(says)), [{name: key, says: text} for key, text in rows.items()])


def _present_rows(
    table: Callable[[], Table], picture: Callable[[], Picture], output: Output, answer: Callable[[], Sequence[str]]
) -> None:
    """A table whose JSON document is the list of its rows."""
    present(Result(lambda: [table()], lambda: table().records, picture=picture, answer=answer), output)


@command()
@click.argument("name", required=False)
@picture_output
def machines(name: str | None, output: Output) -> None:
    """List machines, or show NAME with every ceiling."""
    from ...render.tables import catalog

    if name is None:
        table, document = catalog.machines_table()
        present_table(table, output, document)
        return
    machine = load_machine(name)
    picture, lines = named_chart("pyramid", machine), partial(catalog.machine_lines, machine)
    present(Result(lambda: catalog.machine_tables(machine), machine, picture=picture, answer=lines), output)


@command()
@click.argument("name", required=False)
@output_options()
def ops(name: str | None, output: Output) -> None:
    """List ops, or show NAME with its equation."""
    from ...programs.ops import find
    from ...render.tables import catalog

    if name is None:
        present_table(catalog.ops_table(), output)
        return
    op = find(name)
    also = f"\nalso called {', '.join(op.aliases)}" if op.aliases else ""
    text = f"{op.signature}{also}\n\n{op.doc}"
    present(Result(document=lambda: catalog.op_document(op), terminal=lambda: (text, catalog.op_table(op))), output)


@command()
@click.argument("term", nargs=-1)
@output_options()
def glossary(term: tuple[str, ...], output: Output) -> None:
    """Define the terms, or one TERM."""
    from ...render.tables.named import glossary as glossary_table

    present_table(glossary_table(" ".join(term)), output)


@command("critical-batch")
@click.argument("fan_in", metavar="IN_FEATURES")
@click.argument("fan_out", metavar="OUT_FEATURES")
@machine_options
@click.option("--ridge", metavar="FLOP/B", help="A ridge instead of a machine.")
@click.option("--dtype", default="bf16", show_default=True, help="Format of activations and arithmetic.")
@click.option("--weights", help="Storage format of the weights.")
@click.option("--ceilings", type=CEILINGS, help=CEILINGS_HELP)
@picture_output
def critical_batch(machine: MachineOptions, output: Output, **layer: Any) -> None:
    """Batch size at which a linear layer is compute-bound."""
    from ...core.units import number, parse
    from ...prediction.turning import critical_batch as study
    from ...render.tables.studies import critical_batch_lines, critical_batch_table

    if layer["ridge"]:
        refuse({**machine.given(), "ceilings": layer["ceilings"]}, "with --ridge, which replaces that of a machine")
    chosen = None if layer["ridge"] else machine.load()
    ridge = parse(layer["ridge"], "flop/B") if layer["ridge"] else None
    if ridge is not None and ridge <= 0:
        raise InputError(f"--ridge must be positive, got '{layer['ridge']}'")
    model = {name: layer[name] for name in ("dtype", "weights", "ceilings")}
    answer = study(number(layer["fan_in"]), number(layer["fan_out"]), chosen, ridge, **model)

    def picture() -> Picture:
        if chosen is None:
            raise InputError("a picture of the batch sweep needs a machine (--on)")
        sizes = {"in_features": int(answer.in_features), "out_features": int(answer.out_features)}
        return named_chart("batch", chosen, dtype=answer.dtype, weights=layer["weights"], **sizes)()

    lines = partial(critical_batch_lines, answer)
    present(Result(lambda: [critical_batch_table(answer)], answer, picture=picture, answer=lines), output)


@command()
@click.argument("op_name", metavar="OP")
@click.argument("values", metavar="[NAME=VALUE]...", nargs=-1)
@machine_options
@click.option("--dtypes", help="Formats to compare, such as fp32,bf16,fp8 (default: all the machine computes in).")
@click.option("--ceilings", type=CEILINGS, help=CEILINGS_HELP)
@picture_output
def precisions(
    op_name: str, values: tuple[str, ...], machine: MachineOptions, dtypes: str | None, output: Output, **model: Any
) -> None:
    """Compare number formats for one op on a machine."""
    from ...prediction.precisions import precision_sweep
    from ...programs.ops import find
    from ...render.tables.precisions import precisions_lines, precisions_table

    op, chosen = find(op_name), machine.load()
    given = bind(op, values, {})
    if "dtype" in given:
        raise InputError("precisions sweeps the dtype itself; choose some with --dtypes fp32,bf16")

    sweep = precision_sweep(op, given, chosen, dtypes.split(",") if dtypes else None, **model)
    picture = named_chart("precisions", chosen, sweep=sweep, **model)
    _present_rows(lambda: precisions_table(sweep), picture, output, lambda: precisions_lines(sweep))


@command()
@click.argument("names", metavar="MACHINE MACHINE...", nargs=-1, required=True)
@click.option("--dtype", help="Number format (default: that of the op, else bf16).")
@click.option("--ceilings", type=CEILINGS, help=CEILINGS_HELP)
@click.option(
    "--op",
    "case",
    metavar="'OP NAME=VALUE ...'",
    help="Also predict this op on each, such as 'gemm m=1 n=4096 k=4096'.",
)
@picture_output
def compare(names: tuple[str, ...], dtype: str | None, ceilings: str | None, case: str | None, output: Output) -> None:
    """Compare machines: peak, bandwidth, ridge, one op."""
    from ...prediction.compare import comparison
    from ...programs.ops import find
    from ...render.tables.studies import comparison_lines, comparison_table

    machines = [load_machine(name) for name in names]
    op, values = None, {}
    if case:
        op_name, *words = case.split()
        op = find(op_name)
        values = bind(op, words, {"dtype": dtype})
    title = " ".join(word for word in (case or "").split() if not word.startswith("dtype="))
    works = [op(**values)] if op is not None else []
    study = comparison(machines, works[0].dtype if works else dtype, ceilings, op, values)
    picture = named_chart("compare", machines[0], machines=machines, dtype=study.dtype, works=works, ceilings=ceilings)
    _present_rows(lambda: comparison_table(study), picture, output, lambda: comparison_lines(study, title))


@command()
@click.argument("op_name", metavar="OP", required=False)
@click.argument("values", metavar="[NAME=VALUE]...", nargs=-1)
@machine_options
@format_options("Storage format of the weights.")
@click.option(
    "--do", "changes", metavar="CHANGES", help="One change or a chain: quantize=fp8,batch=8,machine=b200-sxm."
)
@click.option("--share", type=float, help="Share of the program time in this op: adds the program speedup (Amdahl).")
@picture_output
def whatif(
    op_name: str | None,
    values: tuple[str, ...],
    machine: MachineOptions,
    formats: dict[str, str | None],
    changes: str | None,
    share: float | None,
    output: Output,
) -> None:
    """Price a change before making it.

    Changes: quantize, fuse, batch, tile, tensor cores, graphs, another machine; without an op, the list of them. In a
    chain each change is applied to the result of the one before.
    """
    from ...prediction import whatif as model
    from ...programs.ops import find
    from ...render.tables.studies import changes_lines, changes_table

    if (op_name is None) != (changes is None):
        given, missing = (f"--do {changes}", "an op") if op_name is None else (op_name, "changes (--do)")
        raise InputError(
            f"'{given}' without {missing}; write ridgeline whatif OP NAME=VALUE ... --on MACHINE --do CHANGES (`ridgeline whatif` lists them)"
        )
    if op_name is None or changes is None:
        refuse({**machine.given(), **formats, "share": share}, "without an op: `ridgeline whatif` lists the changes")
        rows = {change.usage: change.does for change in model.CHANGES.values()}
        present_table(_list("change", "does", rows), output)
        return
    op, chosen = find(op_name), machine.load()
    priced = model.apply(model.Case(chosen, op, bind(op, values, formats)), model.parse(changes))
    result = Result(
        lambda: [changes_table(priced, share)],
        lambda: model.document(priced, share),
        picture=named_chart("changes", chosen, stops=priced),
        answer=lambda: changes_lines(priced),
    )
    present(result, output)


@command()
@click.argument("name", required=False)
@machine_options
@click.option("--dtype", help="Number format, where the chart has one.")
@click.option("--and", "others", multiple=True, metavar="MACHINE", help="Further machines, for charts that compare.")
@picture_output
def chart(
    name: str | None, machine: MachineOptions, dtype: str | None, others: tuple[str, ...], output: Output
) -> None:
    """Draw a named chart of a machine.

    In the terminal, or to a file with --out. Without NAME, the list.
    """
    from ...render import charts
    from ...render.chart import document
    from ...render.draw.terminal import draw

    if name is None:
        given = {**machine.given(), "dtype": dtype, "and": others, "out": output.out}
        refuse(given, "without the name of a chart: `ridgeline chart` lists them")
        rows = {key: entry.summary for key, entry in charts.CHARTS.items()}
        present_table(_list("chart", "shows", rows), Output(output.as_json))
        return
    kind, chosen = charts.find(name), machine.load()
    machines = [chosen, *(load_machine(other) for other in others)] if others else None
    if machines and "machines" not in kind.options:
        several = ", ".join(key for key, entry in charts.CHARTS.items() if "machines" in entry.options)
        raise InputError(f"the {kind.name} chart is of one machine; --and goes with {several}")
    picture = kind(chosen, dtype=dtype, machines=machines)

    def terminal() -> list[str]:
        return [draw(picture, **terminal_size())]

    present(Result(document=lambda: document(picture), terminal=terminal, picture=lambda: picture), output)


@command()
@click.argument("name", required=False)
@machine_options
@click.option("--dtype", help="Number format, where the table has one.")
@output_options("Write a file: .json .csv .md .txt.")
def table(name: str | None, machine: MachineOptions, dtype: str | None, output: Output) -> None:
    """Print a named table for a machine.

    Without NAME, the list.
    """
    from ...core.dtypes import dtype as find_dtype
    from ...render.tables.named import TABLES

    if name is None:
        refuse({**machine.given(), "dtype": dtype}, "without the name of a table: `ridgeline table` lists them")
        present_table(_list("table", "shows", {key: entry.summary for key, entry in TABLES.items()}), output)
        return
    if name not in TABLES:
        raise unknown("table", name, TABLES)
    chosen = machine.load()
    present_table(TABLES[name](chosen, dtype=find_dtype(dtype).name if dtype else None), output)
