"""Commands of the ledger: seal predictions, reconcile them with measurements, report their accuracy."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...core.errors import InputError
from ...core.units import counted
from .command import command
from .echo import echo
from .options import (
    PATH,
    MachineOptions,
    format_option,
    json_output,
    machine_options,
    output_options,
    picture_output,
    refuse,
    verbose_option,
)
from .present import Output, Result, check_suffix, present

if TYPE_CHECKING:
    from ...core.observation import Observation
    from ...gaps.ledger import Ledger, Sealed
    from ...gaps.settle import Reconciled
    from ...render.table import Table

ledger_option = click.option("--ledger", "path", type=PATH, help="Another ledger file.")


@contextmanager
def broken_is_1(ctx: click.Context) -> Iterator[None]:
    """A broken ledger ends with exit code 1, not with that of bad input."""
    from ...gaps.ledger import Broken

    try:
        yield
    except Broken as error:
        echo(f"ridgeline: {error}", err=True)
        ctx.exit(1)


@contextmanager
def printed_at_end() -> Iterator[None]:
    """What is printed inside is encoded at once for standard output, and gets there when all went well.

    A record is thus committed only if it can be shown, and shown only if it was committed.
    """
    real, kept = sys.stdout, io.BytesIO()

    class Draft(io.TextIOWrapper):
        def isatty(self) -> bool:
            return bool(real and real.isatty())

    encoding, errors = getattr(real, "encoding", None), getattr(real, "errors", None)
    draft = Draft(kept, encoding or "utf-8", errors or "strict", newline="", write_through=True)
    sys.stdout = draft
    try:
        yield
    finally:
        sys.stdout = real
    draft.flush()
    try:
        click.echo(kept.getvalue().decode(draft.encoding), nl=False)
    except OSError:
        click.echo("the record was added to the ledger: see it with `ridgeline ledger show`", err=True)
        raise


@command()
@click.argument("cases", type=PATH)
@machine_options
@click.option("--note", default="", help="A line stored with the seal.")
@ledger_option
@json_output
@click.pass_context
def seal(
    ctx: click.Context, cases: Path, machine: MachineOptions, note: str, path: Path | None, output: Output
) -> None:
    """Seal predictions before the run.

    CASES is a table with op, name and sizes. Their predictions on a machine are added to the hash chain of the ledger.
    """
    from ...gaps import settle
    from ...gaps.ledger import open_ledger
    from ...programs.cases import read
    from ...render.tables.gaps import seal_answer, seal_table

    def show(sealed: Sealed) -> None:
        present(Result(lambda: [seal_table(sealed)], sealed, answer=lambda: [seal_answer(sealed)]), output)

    with broken_is_1(ctx), printed_at_end():
        sealed = settle.seal(open_ledger(path), read(cases), machine.load(), note, show, str(cases))
    if sealed.evidence_after != sealed.time:
        text = f"the clock is behind an earlier record of {sealed.evidence_after}"
        hint = "if that time was wrong, seal into another file with --ledger"
        click.echo(f"{text}: only what is measured after that time counts as sealed evidence; {hint}", err=True)


@command()
@click.argument("files", nargs=-1, required=True, type=PATH)
@click.option("--seal", "seal_id", metavar="ID", help="The seal to settle with FILES.")
@click.option("--cases", type=PATH, help="Unsealed cases (op, name, sizes).")
@machine_options
@format_option
@ledger_option
@verbose_option
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
    verbose: bool,
    kernel: str | None,
    output: Output,
) -> None:
    """Explain measured against predicted time.

    A trace of torch.profiler or JAX needs nothing else: the step as a whole, its phases, the moves worth most and the
    operators, each predicted from its recorded arguments. With --cases or --seal, FILES are profiles whose kernels are
    joined to those predictions; --seal settles them in the ledger, with exit code 1 where that is broken. A seal of
    `ridgeline trace --seal` is settled with one trace of that program. -v adds all rows with their evidence. --out takes
    a picture, a page or data.
    """
    if kernel is not None and output.out is None:
        raise InputError("--kernel draws a picture: give --out FILE.svg with it")
    if seal_id is not None and cases is not None:
        raise InputError("two things to compare with: give either --seal ID, or --cases FILE --on MACHINE")
    if seal_id is None and cases is None:
        refuse({"ledger": path}, "without --seal: nothing is settled")
        refuse({"kernel": kernel}, "without --cases or --seal: a trace has no causes per kernel")
        from .steps import reconcile_trace

        reconcile_trace(files, machine.load(), form, output, verbose)
        return
    if cases is not None:
        refuse({"ledger": path}, "with --cases: nothing is sealed or settled")
    sealed = None if seal_id is None else find_seal(ctx, path, seal_id)
    if sealed is not None and isinstance(sealed.environment.get("program"), dict):
        refuse({"kernel": kernel}, "with the seal of a program, which has no causes per kernel")
        from .programs import settle_traced

        settle_traced(ctx, path, sealed, files, machine, form, output, verbose)
        return
    from ...profilers.load import load
    from ...profilers.self_check import unchecked

    observations = [item for file in files for item in load(file, form)]

    def show(reconciled: Reconciled) -> None:
        present_gaps(reconciled, unchecked(observations), output, verbose, kernel)

    reconciled = reconciled_with(ctx, sealed, path, cases, machine, observations, files, show)
    if reconciled.broken:
        echo(f"ridgeline: {reconciled.broken}", err=True)
        ctx.exit(1)


def find_seal(ctx: click.Context, path: Path | None, seal_id: str) -> Sealed:
    from ...gaps.ledger import open_ledger

    with broken_is_1(ctx):
        sealed = open_ledger(path).find(seal_id)
    return sealed


def reconciled_with(
    ctx: click.Context, sealed: Sealed | None, path: Path | None, cases: Path | None, machine: MachineOptions,
    observations: list[Observation], files: tuple[Path, ...], show: Callable[[Reconciled], None],
) -> Reconciled:  # fmt: skip
    """Observations against the predictions of a seal, which is settled in the ledger, or of unsealed cases."""
    from ...gaps import settle
    from ...gaps.ledger import open_ledger
    from ...programs.cases import read

    chosen = machine.load() if machine else None
    if sealed is not None:
        with broken_is_1(ctx), printed_at_end():
            reconciled = settle.settle(open_ledger(path), sealed, observations, chosen, files, show)
        return reconciled
    assert cases is not None
    reconciled = settle.reconcile(read(cases), chosen or machine.load(), observations, str(cases))
    show(reconciled)
    return reconciled


def present_gaps(
    reconciled: Reconciled, unchecked_gpus: list[str], output: Output, verbose: bool, kernel: str | None = None
) -> None:
    """Warnings on standard error, then the gap report; `unchecked_gpus` are those whose counters were not validated."""
    from ...core.documents import to_document
    from ...render.charts.gaps import gap_waterfall, report_chart
    from ...render.tables.gaps import (
        report_answer,
        report_summary,
        report_tables,
        settlement_answer,
        settlement_table,
    )
    from ..reports.gaps import gap_report

    report, settled = reconciled.report, reconciled.settled
    for note in report.notes:
        echo(note, err=True)
    if unchecked_gpus:
        text = f"counters of {', '.join(unchecked_gpus)} not validated on this machine"
        echo(f"{text}: run `ridgeline profile --self-check`", err=True)
    settlement = [] if settled is None else [settlement_table(settled)]
    lines = [*report_answer(report), *([] if settled is None else [settlement_answer(settled)])]

    def tables() -> list[Table]:
        return [*report_tables(report), *settlement]

    def document() -> dict[str, Any]:
        sealed = {} if settled is None else {"sealed": to_document(settled)}
        return {**to_document(report), "unchecked_counters": unchecked_gpus, **sealed}

    result = Result(
        tables,
        document,
        terminal=None if verbose else lambda: [report_summary(report)] if report.items else [],
        answer=lambda: lines,
        picture=lambda: report_chart(report) if kernel is None else gap_waterfall(report, kernel),
        writers={".html": lambda out: gap_report(report, tables(), document(), out, output.theme, lines, kernel)},
    )
    present(result, output)


@command()
@click.argument("what", type=click.Choice(["report", "verify", "show", "efficiency", "head"]), default="report")
@click.option("--expect", metavar="HEAD", help="With verify: a head kept elsewhere, its hash or its file.")
@ledger_option
@output_options("With show: predictions.md to read and commit, or .json; with head: its .json file.")
@click.pass_context
def ledger(ctx: click.Context, what: str, expect: str | None, path: Path | None, output: Output) -> None:
    """Accuracy of sealed predictions.

    `report` has the errors, `verify` checks the hash chain, `show` prints every record, `efficiency` the share of
    roofline that settled kernels reached, a value for `predict --efficiency`. `head --out head.json` writes the head to
    keep or sign elsewhere; `verify --expect head.json` then finds an end that was cut off. The exit code is 1 where the
    chain is broken (`show` prints it all the same).
    """
    from ...core.files import write_text
    from ...gaps.ledger import open_ledger
    from ...render.tables.gaps import efficiency_answer, efficiency_table, ledger_answer, ledger_tables

    if expect is not None and what != "verify":
        raise InputError(f"--expect goes with verify, got {what}: ridgeline ledger verify --expect HEAD")
    book = open_ledger(path)
    if what == "verify":
        verify(ctx, book, expect, output)
    elif what == "report":
        with broken_is_1(ctx):
            report = book.report()
        present(Result(lambda: ledger_tables(report), report, answer=lambda: [ledger_answer(report)]), output)
        ctx.exit(0 if report["intact"] else 1)
    elif what == "efficiency":
        with broken_is_1(ctx):
            report = book.report()
        rows = report["sealed"].get("efficiency", [])
        tables = [efficiency_table(rows)] if rows else []
        present(Result(lambda: tables, rows, answer=lambda: [efficiency_answer(rows)]), output)
        ctx.exit(0 if report["intact"] else 1)
    elif what == "head":
        if output.out is not None:
            check_suffix(output.out, (".json",), "a head is")
        with broken_is_1(ctx):
            head = book.anchor()
        line = f"head {head.hash} after {counted(head.records, 'record')}, {head.time}"
        present(Result(document=head, answer=lambda: [line]), output)
    else:
        if output.out is not None:
            check_suffix(output.out, (".md", ".json"), "the record is")
        markdown = {".md": lambda out: write_text(out, book.markdown())}
        with broken_is_1(ctx):
            present(Result(document=book.export, terminal=lambda: [book.markdown()], writers=markdown), output)


def verify(ctx: click.Context, book: Ledger, expect: str | None, output: Output) -> None:
    """Check the hash chain; exit code 1 where it is broken."""
    from ...core.documents import to_document
    from ...gaps.ledger import Broken
    from ...render.tables.gaps import verification_answer, verification_table

    findings = book.verify(expect)
    try:
        records, head = book.head()
    except Broken:
        records, head = 0, "not readable"
    document = {"findings": to_document(findings), "head": head, "records": records}
    line = verification_answer(findings, (records, head))
    tables = [verification_table(findings)] if findings else []
    present(Result(lambda: tables, document, answer=lambda: [line]), output)
    ctx.exit(1 if any(finding.fault for finding in findings) else 0)
