"""Commands that look something up: machines, ops, glossary."""

from __future__ import annotations

import click

from .options import json_output, picture_output
from .present import Output, Result, named_chart, present, present_table


@click.command()
@click.argument("name", required=False)
@picture_output
def machines(name: str | None, output: Output) -> None:
    """The catalog; with NAME, one machine with every ceiling, its ridges and sources."""
    from ...machines.load import load
    from ...render.tables import catalog

    if name is None:
        table, document = catalog.machines_table()
        present_table(table, output, document)
        return
    machine = load(name)
    picture = named_chart("pyramid", machine)
    present(Result(lambda: catalog.machine_tables(machine), machine, picture=picture), output)


@click.command()
@click.argument("name", required=False)
@json_output
def ops(name: str | None, output: Output) -> None:
    """The ops and their parameters; with NAME, one op with its equation."""
    from ...programs.ops import find
    from ...render.tables import catalog

    if name is None:
        present_table(catalog.ops_table(), output)
        return
    op = find(name)
    text = f"{op.signature}\n\n{op.doc}"
    present(Result(document=lambda: catalog.op_document(op), terminal=lambda: (text, catalog.op_table(op))), output)


@click.command()
@click.argument("term", nargs=-1)
@json_output
def glossary(term: tuple[str, ...], output: Output) -> None:
    """The words of the tool, and further reading; with TERM, one of them."""
    from ...render.tables.named import glossary as glossary_table

    present_table(glossary_table(" ".join(term)), output)
