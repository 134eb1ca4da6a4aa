"""The command line of the other half of the loop: profiles in, gaps explained, changes priced, predictions on record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ...core.errors import InputError
from . import TEXTS, as_json, bind, find_machine, machine_options, main, out_option, present, present_all, show_json

LEDGER = click.option("--ledger", "where", type=click.Path(path_type=Path), help="Another ledger than your own.")
FORMAT = click.option("--as", "form", metavar="FORMAT", help="The format of FILE, where its content does not tell.")


def show_all(tables: Any, out: Path | None, wanted: bool, document: Any) -> None:
    """Several tables to a file, as one JSON document, or to the terminal."""
    if out is not None:
        if out.suffix not in TEXTS:
            raise InputError(f"{out}: this is written to {', '.join(TEXTS)}, not to '{out.suffix}'")
        present_all(tables, out, document)
    if wanted:
        show_json(document)
    elif out is None:
        for place, table in enumerate(tables):
            if place:
                click.echo()
            present(table, False, None)


@contextmanager
def standing(ctx: click.Context) -> Iterator[None]:
    """A ledger that is broken is no bad input: it did not hold, which is exit code 1."""
    from ...gaps.ledger import Broken

    try:
        yield
    except Broken as error:
        click.echo(f"ridgeline: {error}", err=True)
        ctx.exit(1)


@main.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@FORMAT
@as_json
@click.option("--out", type=click.Path(path_type=Path), help="Write a file: .json .csv .md.")
def import_file(file: Path, form: str | None, as_json: bool, out: Path | None) -> None:
    """Read what a profiler wrote: Nsight Compute, torch.profiler, JAX, LIKWID, perf, Advisor, rocprof-compute, CSV, JSON.

    The format is recognised from the content. Counts that the tool did not make are absent, never 0.
    """
    from ...profilers import load as observe
    from ...render.tables.observations import observations_data, observations_table

    found = observe.load(file, form)
    table = observations_data(found) if out is not None and out.suffix == ".csv" else observations_table(found)
    present(table, as_json, out, observe.document(found) if as_json or out else None)


@main.command(context_settings={"ignore_unknown_options": True})
@click.option("--with", "tool", type=click.Choice(["ncu", "torch"]), default="ncu", help="The profiler.")
@click.option(
    "--use", type=click.Choice(["roofline", "diagnosis", "full"]), default="diagnosis", help="Which counters."
)
@click.option("--kernel", metavar="REGEX", default="", help="Only kernels whose name matches.")
@click.option("--launches", type=int, default=0, help="Stop after so many kernels.")
@click.option(
    "--self-check", "check", is_flag=True, help="Count three kernels whose counts are known, instead of PROGRAM."
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="What the profiler writes (default kernels.csv, trace.json.gz)."
)
@as_json
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def profile(
    ctx: click.Context,
    tool: str,
    use: str,
    kernel: str,
    launches: int,
    check: bool,
    out: Path | None,
    as_json: bool,
    program: tuple[str, ...],
) -> None:
    """Run PROGRAM under a profiler and show what it saw: ridgeline profile --with ncu -- python script.py.

    Kernels are named by their NVTX ranges. Where counters are refused, kernels are timed by torch.profiler instead.
    """
    from ...profilers import load as observe
    from ...profilers.profile import profile as run
    from ...profilers.profile import self_check
    from ...render.tables.observations import observations_table, self_check_table

    if check:
        found_right = self_check(out or Path("self-check.csv"), lambda text: click.echo(text, err=True))
        rows = [one.document() for one in found_right]
        whole = all(one.holds for one in found_right)
        present(self_check_table(rows, whole), as_json, None, {"holds": whole, "kernels": rows})
        ctx.exit(0 if whole else 1)
    found = run(program, tool, out, use, kernel, launches, lambda text: click.echo(text, err=True))
    click.echo(f"{found.step}: {len(found.observations)} observations, in {found.out}", err=True)
    present(
        observations_table(found.observations), as_json, None, observe.document(found.observations) if as_json else None
    )


@main.command()
@click.argument("cases", type=click.Path(path_type=Path))
@machine_options
@click.option("--note", default="", help="A line to keep with the seal.")
@LEDGER
@as_json
@click.pass_context
def seal(ctx: click.Context, /, cases: Path, note: str, where: Path | None, as_json: bool, **options: Any) -> None:
    """Fix predictions before the run: CASES (op, name, sizes) as they are expected on a machine, chained in the ledger."""
    from ...gaps.ledger import open_ledger
    from ...gaps.settle import seal as fix
    from ...prediction.table import read
    from ...render.tables.ledger import seal_table

    with standing(ctx):
        made = fix(open_ledger(where), read(cases), find_machine(**options), note)
    present(seal_table(made), as_json, None, made.document())


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--seal", "seal_id", metavar="ID", help="The seal that FILES settle.")
@click.option("--cases", type=click.Path(path_type=Path), help="Cases that nobody sealed (op, name, sizes).")
@machine_options
@FORMAT
@LEDGER
@as_json
@out_option
@click.pass_context
def reconcile(
    ctx: click.Context,
    /,
    files: tuple[Path, ...],
    seal_id: str | None,
    cases: Path | None,
    form: str | None,
    where: Path | None,
    as_json: bool,
    out: Path | None,
    theme: str,
    **options: Any,
) -> None:
    """What was observed (FILES) against what was predicted: gaps, where the time went, what to do next.

    With --seal the result is put beside the sealed predictions in the ledger; a broken one takes nothing, and the exit
    code is 1. --out takes a picture, a page or data.
    """
    from ...gaps import settle as records
    from ...gaps.ledger import open_ledger
    from ...profilers import load as observe
    from ...profilers.profile import unchecked
    from ...render.tables.gaps import report_tables, with_sentence
    from ...render.tables.ledger import settlement_table

    if (seal_id is None) == (cases is None):
        raise InputError("give either --seal ID (sealed predictions) or --cases FILE --on MACHINE (unsealed ones)")
    seen = [item for file in files for item in observe.load(file, form)]
    machine = find_machine(**options) if any(options.values()) else None
    if seal_id is not None:
        ledger = open_ledger(where)
        with standing(ctx):
            found = records.settle(ledger, ledger.find(seal_id), seen, machine, files)
    else:
        from ...prediction.table import read

        assert cases is not None
        if machine is None:
            raise InputError("no machine: name one with --on (see `ridgeline machines`)")
        found = records.reconcile(read(cases), machine, seen)
    tables = report_tables(found.report)
    doubted = unchecked(seen)
    for note in found.report.notes:
        click.echo(note, err=True)
    for gpu in doubted:
        click.echo(
            f"the counters of {gpu} were not checked here; verdicts by level rest on them: ridgeline profile --self-check",
            err=True,
        )
    if found.settled is not None:
        tables.append(settlement_table(found.settled))
    document = {**found.report.document(), "unchecked_counters": doubted}
    if found.settled is not None:
        document["sealed"] = found.settled.document()
    if out is not None and out.suffix not in TEXTS:
        if out.suffix == ".html":
            from ..reports import gap_report

            gap_report(found.report, tables, document, out)
        else:
            from ...render.charts.gaps import report_chart
            from ...render.draw import files as pictures

            pictures.save(report_chart(found.report), out, theme)
        click.echo(f"wrote {out}", err=True)
    if out is None or out.suffix in TEXTS or as_json:
        kept = out if out is not None and out.suffix in TEXTS else None
        show_all(with_sentence(tables, found.report.sentence), kept, as_json, document)
    if found.broken:
        click.echo(f"ridgeline: {found.broken}", err=True)
        ctx.exit(1)


@main.command()
@click.argument("what", type=click.Choice(["report", "verify", "show"]), default="report")
@click.option("--expect", metavar="HASH", help="A head hash you kept elsewhere: verify that the ledger still holds it.")
@LEDGER
@as_json
@click.option("--out", type=click.Path(path_type=Path), help="With show: predictions.md to read and commit, or .json.")
@click.pass_context
def ledger(
    ctx: click.Context, what: str, expect: str | None, where: Path | None, as_json: bool, out: Path | None
) -> None:
    """The record of how good predictions were: `report`, `verify` that nothing was altered, `show` it whole.

    The exit code of `report` and `verify` is 1 where the chain is broken.
    """
    from dataclasses import asdict

    from ...core.files import write_text
    from ...gaps.ledger import open_ledger
    from ...render.tables.ledger import ledger_tables, verification_table

    if expect is not None and what != "verify":
        raise InputError(f"--expect goes with verify, got {what}: ridgeline ledger verify --expect HASH")
    book = open_ledger(where)
    if what == "verify":
        found = book.verify(expect)
        head = (0, "not readable") if any(one.what == "damaged" for one in found) else book.head()
        document = {"findings": [asdict(one) for one in found], "head": head[1], "records": head[0]}
        present(verification_table(found, head), as_json, out, document)
        ctx.exit(1 if found else 0)
    if what == "report":
        with standing(ctx):
            told = book.report()
        show_all(ledger_tables(told), out, as_json, told)
        ctx.exit(0 if told["intact"] else 1)
    if out is not None:
        if out.suffix not in (".md", ".json"):
            raise InputError(f"{out}: the record is written to .md or .json, not to '{out.suffix}'")
        write_text(out, json.dumps(book.export(), indent=1) + "\n" if out.suffix == ".json" else book.markdown())
        click.echo(f"wrote {out}", err=True)
    if as_json:
        show_json(book.export())
    elif out is None:
        click.echo(book.markdown())


@main.command()
@click.argument("op_name", metavar="OP", required=False)
@click.argument("values", metavar="[NAME=VALUE]...", nargs=-1)
@machine_options
@click.option("--dtype", help="Format of the arithmetic (default bf16).")
@click.option("--weights", help="Storage format of the weights.")
@click.option("--out-dtype", help="Storage format of the result.")
@click.option("--kv", help="Storage format of keys and values.")
@click.option(
    "--do", "changes", metavar="CHANGES", help="One change or a chain: quantize=fp8,batch=8,machine=b200-sxm."
)
@click.option("--share", type=float, help="Share of a program's time that this op has: adds the bound on the whole.")
@as_json
@out_option
def whatif(
    op_name: str | None,
    values: tuple[str, ...],
    changes: str | None,
    share: float | None,
    as_json: bool,
    out: Path | None,
    theme: str,
    **options: Any,
) -> None:
    """Price a change before making it: quantize, fuse, batch, tile, tensor cores, graphs, another machine.

    Without an op, the changes there are. A chain is priced step by step, each from where the last one led.
    """
    from ...prediction import whatif as model
    from ...render.table import Column, Table
    from ...render.tables.studies import changes_table

    if (op_name is None) != (changes is None):
        given, missing = (f"--do {changes}", "an op") if op_name is None else (op_name, "changes (--do)")
        raise InputError(
            f"'{given}' without {missing}; write ridgeline whatif OP NAME=VALUE ... --on MACHINE --do CHANGES (`ridgeline whatif` lists them)"
        )
    if op_name is None or changes is None:
        rows = [{"change": kind.usage, "does": kind.does} for kind in model.CHANGES.values()]
        present(Table("", (Column("change"), Column("does")), rows), as_json, out)
        return
    from ...programs.ops import find

    formats = {name: options.pop(name) for name in ("dtype", "weights", "out_dtype", "kv")}
    op, machine = find(op_name), find_machine(**options)
    stops = model.apply(model.Case(machine, op, bind(op, values, formats)), model.parse(changes))
    if out is not None and out.suffix not in TEXTS:
        from ...render.charts import CHARTS
        from ...render.draw import files

        files.save(CHARTS["changes"](machine, stops=stops), out, theme)
        click.echo(f"wrote {out}", err=True)
        if not as_json:
            return
        out = None
    present(changes_table(stops, share), as_json, out, model.document(stops, share))


@main.command()
@click.argument("baseline", type=click.Path(path_type=Path))
@click.argument("current", type=click.Path(path_type=Path))
@click.option("--least", type=float, default=0.05, show_default=True, help="Least difference that matters, relative.")
@click.option("--chance", type=float, default=0.01, show_default=True, help="Chance of a false alarm, per name.")
@click.option("--strict", is_flag=True, help="Too few samples to tell, or a vanished name, fails too.")
@as_json
@click.pass_context
def gate(
    ctx: click.Context, baseline: Path, current: Path, least: float, chance: float, strict: bool, as_json: bool
) -> None:
    """Whether CURRENT is slower than BASELINE beyond what their samples leave open; exit code 1 if so."""
    from ...gaps import gate as judge
    from ...render.tables.gate import gate_table

    found = judge.compare(judge.load(baseline), judge.load(current), least, chance, strict)
    present(gate_table(found), as_json, None, found.document())
    ctx.exit(found.exit_code)
