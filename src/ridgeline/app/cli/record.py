"""Commands of the ledger: seal predictions, reconcile them with what was observed, report how good they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...core.errors import InputError
from .options import PATH, MachineOptions, format_option, json_output, machine_options, output_options, picture_output
from .present import Output, Result, check_suffix, present, present_table

if TYPE_CHECKING:
    from ...gaps.ledger import Ledger
    from ...gaps.settle import Reconciled

ledger_option = click.option("--ledger", "path", type=PATH, help="Another ledger than your own.")


@contextmanager
def broken_is_1(ctx: click.Context) -> Iterator[None]:
    """A ledger that is broken is no bad input: it did not hold, which is exit code 1."""
    from ...gaps.ledger import Broken

    try:
        yield
    except Broken as error:
        click.echo(f"ridgeline: {error}", err=True)
        ctx.exit(1)


@click.command()
@click.argument("cases", type=PATH)
@machine_options
@click.option("--note", default="", help="A line to keep with the seal.")
@ledger_option
@json_output
@click.pass_context
def seal(
    ctx: click.Context, cases: Path, machine: MachineOptions, note: str, path: Path | None, output: Output
) -> None:
    """Fix predictions before the run: CASES (op, name, sizes) as they are expected on a machine, chained in the ledger."""
    from ...gaps import settle
    from ...gaps.ledger import open_ledger
    from ...programs.cases import read
    from ...render.tables.gaps import seal_table

    with broken_is_1(ctx):
        sealed = settle.seal(open_ledger(path), read(cases), machine.load(), note)
    present_table(seal_table(sealed), output, sealed)


@click.command()
@click.argument("files", nargs=-1, required=True, type=PATH)
@click.option("--seal", "seal_id", metavar="ID", help="The seal that FILES settle.")
@click.option("--cases", type=PATH, help="Cases that nobody sealed (op, name, sizes).")
@machine_options
@format_option
@ledger_option
@click.option("--kernel", metavar="NAME", help="With --out: the time of this kernel as a waterfall.")
@picture_output
@click.pass_context
def reconcile(
    ctx: click.Context,
    files: tuple[Path, ...],
    seal_id: str | None,
    cases: Path | None,
    machine: MachineOptions,
    form: str | None,
    path: Path | None,
    kernel: str | None,
    output: Output,
) -> None:
    """What was observed (FILES) against what was predicted: gaps, where the time went, what to do next.

    With --seal the result is put beside the sealed predictions in the ledger; a broken one takes nothing, and the exit
    code is 1. --out takes a picture, a page or data.
    """
    from ...gaps import settle
    from ...gaps.ledger import open_ledger
    from ...profilers.load import load
    from ...profilers.self_check import unchecked
    from ...programs.cases import read

    if kernel is not None and output.out is None:
        raise InputError("--kernel draws a picture: give --out FILE.svg with it")
    if (seal_id is None) == (cases is None):
        raise InputError("give either --seal ID (sealed predictions) or --cases FILE --on MACHINE (unsealed ones)")
    observations = [item for file in files for item in load(file, form)]
    chosen = machine.load() if machine else None
    if seal_id is not None:
        book = open_ledger(path)
        with broken_is_1(ctx):
            reconciled = settle.settle(book, book.find(seal_id), observations, chosen, files)
    else:
        assert cases is not None
        if chosen is None:
            raise InputError("no machine: name one with --on (see `ridgeline machines`)")
        reconciled = settle.reconcile(read(cases), chosen, observations)
    present_gaps(reconciled, unchecked(observations), output, kernel)
    if reconciled.broken:
        click.echo(f"ridgeline: {reconciled.broken}", err=True)
        ctx.exit(1)


def present_gaps(reconciled: Reconciled, unchecked_gpus: list[str], output: Output, kernel: str | None = None) -> None:
    """Remarks on standard error, then the gap report; `unchecked_gpus` are those whose counters were not validated."""
    from ...core.documents import to_document
    from ...render.charts.gaps import gap_waterfall, report_chart
    from ...render.tables.gaps import report_tables, settlement_table, with_sentence
    from ..reports import gap_report

    report, settled = reconciled.report, reconciled.settled
    for note in report.notes:
        click.echo(note, err=True)
    for gpu in unchecked_gpus:
        click.echo(
            f"the counters of {gpu} were not checked here; verdicts by level rest on them: ridgeline profile --self-check",
            err=True,
        )
    tables = [*report_tables(report), *([] if settled is None else [settlement_table(settled)])]
    document = {**to_document(report), "unchecked_counters": unchecked_gpus}
    if settled is not None:
        document["sealed"] = to_document(settled)
    result = Result(
        lambda: with_sentence(tables, report.sentence),
        document,
        picture=lambda: report_chart(report) if kernel is None else gap_waterfall(report, kernel),
        writers={".html": lambda out: gap_report(report, tables, document, out, output.theme, kernel=kernel)},
    )
    present(result, output)


@click.command()
@click.argument("what", type=click.Choice(["report", "verify", "show"]), default="report")
@click.option("--expect", metavar="HASH", help="A head hash you kept elsewhere: verify that the ledger still holds it.")
@ledger_option
@output_options("With show: predictions.md to read and commit, or .json.")
@click.pass_context
def ledger(ctx: click.Context, what: str, expect: str | None, path: Path | None, output: Output) -> None:
    """The record of how good predictions were: `report`, `verify` that nothing was altered, `show` it whole.

    The exit code of `report` and `verify` is 1 where the chain is broken.
    """
    from ...core.files import write_text
    from ...gaps.ledger import open_ledger
    from ...render.tables.gaps import ledger_tables

    if expect is not None and what != "verify":
        raise InputError(f"--expect goes with verify, got {what}: ridgeline ledger verify --expect HASH")
    book = open_ledger(path)
    if what == "verify":
        verify(ctx, book, expect, output)
    elif what == "report":
        with broken_is_1(ctx):
            report = book.report()
        present(Result(lambda: ledger_tables(report), report), output)
        ctx.exit(0 if report["intact"] else 1)
    else:
        if output.out is not None:
            check_suffix(output.out, (".md", ".json"), "the record is")
        markdown = {".md": lambda out: write_text(out, book.markdown())}
        present(Result(document=book.export, terminal=lambda: [book.markdown()], writers=markdown), output)


def verify(ctx: click.Context, book: Ledger, expect: str | None, output: Output) -> None:
    """Whether the chain of records holds; exit code 1 where it does not."""
    from ...core.documents import to_document
    from ...render.tables.gaps import verification_table

    findings = book.verify(expect)
    records, head = (0, "not readable") if any(item.what == "damaged" for item in findings) else book.head()
    document = {"findings": to_document(findings), "head": head, "records": records}
    present_table(verification_table(findings, (records, head)), output, document)
    ctx.exit(1 if findings else 0)
