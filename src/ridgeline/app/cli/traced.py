"""A traced program shown: on the terminal, as a picture or a page, as data, as a timeline; and programs side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .echo import echo
from .present import Output, Result, present, terminal_size

if TYPE_CHECKING:
    from ...gaps.ledger import Sealed
    from ...prediction.traced import ProgramPrediction
    from ...prediction.traced.side_by_side import SideBySide
    from ...prediction.traced.whatif import ProgramChange
    from ...render.chart import Picture
    from ...render.table import Table


def present_program(
    program: ProgramPrediction, output: Output, changes: Sequence[ProgramChange] = (), *, sealed: Sealed | None = None,
    view: str | None, top: int | None, chart: str | None, timeline: Path | None, verbose: bool,
) -> None:  # fmt: skip
    """The answer and the parts that take longest; a chart, a page, or the data."""
    from ...prediction.traced.summary import answer
    from ...render.tables.gaps import seal_answer
    from ...render.tables.traced import MAX_PARTS, change_table, next_lines, op_table, part_table, program_tables

    def tables() -> list[Table]:
        if changes:
            return [change_table(changes)]
        return [part_table(program, view, top, short=False)] if view else [op_table(program)]

    @cache
    def priced() -> Sequence[ProgramChange]:
        return changes or usual(program)

    def lines() -> list[str]:
        said = [*answer(program), *(() if changes else next_lines(priced()))]
        if sealed is None:
            return said
        return [*said, f"{seal_answer(sealed)}; after the run: ridgeline reconcile TRACE --seal {sealed.id}"]

    def terminal() -> Iterator[Table | str]:
        if chart is not None:
            from ...render.draw.terminal import draw

            yield draw(picture(program, chart), **terminal_size())
        elif changes:
            yield change_table(changes)
        elif verbose:
            yield from program_tables(program, top)
        else:
            yield part_table(program, view or "op", top or MAX_PARTS)

    def write_page(out: Path) -> None:
        from ...render.draw import files
        from ..reports.traced import trace_page

        if chart is not None:
            files.save(picture(program, chart), out, output.theme)
            return
        trace_page(program, out, output.theme, lines(), document(program, view, priced(), sealed), priced())

    result = Result(
        tables,
        lambda: document(program, view, changes, sealed),
        terminal,
        lambda: picture(program, chart or "roofline"),
        {".html": write_page},
        lines,
    )
    if timeline is not None:
        write_timeline(program, timeline)
    present(result, output)


def picture(program: ProgramPrediction, name: str) -> Picture:
    from ...render.charts import traced as charts

    return charts.CHARTS[name](program)


def document(
    program: ProgramPrediction, view: str | None, changes: Sequence[ProgramChange], sealed: Sealed | None
) -> dict[str, Any]:
    """The prediction; with --by also its parts, with --whatif the changes, with --seal the seal."""
    from ...core.documents import to_document
    from ...prediction.traced.breakdown import breakdown

    made: dict[str, Any] = to_document(program)
    made |= {"by": view, "parts": to_document(breakdown(program, view))} if view else {}
    made |= {"whatif": to_document(changes)} if changes else {}
    return {**made, "seal": sealed.id, "sealed_at": sealed.time, "ledger_hash": sealed.hash} if sealed else made


def write_timeline(program: ProgramPrediction, out: Path) -> None:
    import gzip
    import json

    from ...core.files import write_atomically
    from ...prediction.traced.timeline import chrome_trace

    data = json.dumps(chrome_trace(program), allow_nan=False).encode()
    data = gzip.compress(data, mtime=0) if out.suffix == ".gz" else data
    write_atomically(out, lambda draft: Path(draft).write_bytes(data))
    echo(f"wrote {out}: open it at https://ui.perfetto.dev or in chrome://tracing", err=True)


def present_study(side_by_side: SideBySide, output: Output, chart: str | None = None) -> None:
    """The table of all cases; with a chart their ops on one roofline, a colour for each case."""
    from ...render.charts.traced import clouds_chart, side_chart
    from ...render.tables.traced import side_table
    from ..reports.traced import side_page

    clouds = clouds_chart(side_by_side) if chart else None  # before the answer: a chart may not exist

    def terminal() -> Iterator[Table | str]:
        if clouds is not None:
            from ...render.draw.terminal import draw

            yield draw(clouds, **terminal_size())
        else:
            yield side_table(side_by_side)

    result = Result(
        lambda: [side_table(side_by_side)],
        side_by_side,
        picture=lambda: clouds or side_chart(side_by_side),
        answer=side_by_side.answer,
        terminal=terminal,
        writers={} if clouds else {".html": lambda out: side_page(side_by_side, out, output.theme)},
    )
    present(result, output)


def usual(program: ProgramPrediction) -> tuple[ProgramChange, ...]:
    """Changes that need no other hardware and no other numbers."""
    from ...prediction.traced.whatif import CAPTURED, COMPILED, program_changes

    if program.mode != "eager" or program.machine.kind == "cpu":
        return ()
    return program_changes(program.trace, program.machine, program.mode, (CAPTURED, COMPILED))
