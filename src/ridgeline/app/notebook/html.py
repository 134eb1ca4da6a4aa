"""Results as HTML for a notebook, in the colours of its theme: the answer line, a small table, the chart as inline SVG."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError, RidgelineError
from ...core.escaping import markup

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...gaps.report import Report
    from ...prediction.predict import Prediction
    from ...prediction.traced import ProgramPrediction
    from ...render.chart import Picture
    from ...render.table import Table

MAX_ROWS = 12  # of a table in a notebook
MAX_POINTS = 60  # of a chart
# How JupyterLab and VS Code mark a dark page.
DARK = ("body[data-jp-theme-light='false'] .ridgeline", "body.vscode-dark .ridgeline")


def style() -> str:
    """Colours as variables of ridgeline's elements only; nothing else of the notebook changes."""
    from ...render.draw.themes import THEMES

    def block(selector: str, name: str) -> str:
        return f"{selector} {{ {' '.join(f'--rl-{role}: {value};' for role, value in THEMES[name].items())} }}"

    layout = (
        ".ridgeline figure { margin: 0; max-width: 60rem; } .ridgeline svg { width: 100%; height: auto; } "
        ".ridgeline .n { text-align: right; } .ridgeline .note { color: var(--rl-muted); margin: .2em 0; }"
    )
    dark = f"@media (prefers-color-scheme: dark) {{ {block('.ridgeline', 'dark')} }}"
    light = block("body[data-jp-theme-light='true'] .ridgeline, body.vscode-light .ridgeline", "light")
    return f"<style>{block('.ridgeline', 'light')} {dark} {light} {block(', '.join(DARK), 'dark')} {layout}</style>"


def page(*parts: str | Table | Picture | None) -> str:
    """Lines of text; tables with their notes, of a long one its first rows; pictures as inline SVG, or text without matplotlib."""
    texts = [_part(part) for part in parts if part is not None]
    return "\n".join((f'{style()}<div class="ridgeline">', *texts, "</div>"))


def prediction(prediction: Prediction) -> str:
    """The answer line, a row per step or case, and the place on the roofline."""
    answer = repr(prediction).partition("\n")[0]
    return page(answer, prediction_table(prediction), _roofline(prediction))


def program(program: ProgramPrediction) -> str:
    """The answer, the parts by device time, the time by module."""
    from ...prediction.traced.summary import answer
    from ...render.charts.traced import program_icicle
    from ...render.tables.traced import part_table

    return page(*answer(program), part_table(program), _drawn(lambda: program_icicle(program)))


def report(report: Report) -> str:
    """The verdict, the steps with their gaps, and where they are on the roofline."""
    from ...render.charts.gaps import report_chart
    from ...render.tables.gaps import report_tables

    return page(report.sentence, report_tables(report)[0], _drawn(lambda: report_chart(report)))


def machine(machine: Machine) -> str:
    """The main roofs, every level with its bandwidth, and the roofline."""
    from ...render.figure import plot
    from ...render.table import Column, Table

    rows = [
        {"level": level.name, "capacity": level.total, "bandwidth": level.bandwidth.value(), "kind": level.bandwidth.kind()}
        for level in machine.levels
    ]  # fmt: skip
    columns = (
        Column("level"),
        Column("capacity", "", "B", 3, binary=True),
        Column("bandwidth", "", "B/s", 3),
        Column("kind"),
    )
    answer = repr(machine).partition("\n")[0]
    return page(answer, Table(machine.title, columns, rows), _drawn(lambda: plot(machine).chart))


def _drawn(draw: Callable[[], Picture]) -> Picture | None:
    """A chart; None where it cannot be drawn."""
    try:
        return draw()
    except RidgelineError:
        return None


def _part(part: str | Table | Picture) -> str:
    from ...render.table import Table

    if isinstance(part, str):
        return f"<p><b>{markup(part)}</b></p>"
    return _table(part) if isinstance(part, Table) else _figure(part)


def _table(table: Table) -> str:
    from ...render.draw import html

    hidden = len(table.rows) - MAX_ROWS
    notes = [*table.notes, *([f"{hidden} more rows are not shown"] if hidden > 0 else [])]
    title = f"<p><b>{markup(table.title)}</b></p>" if table.title else ""
    cells = replace(table, rows=table.rows[:MAX_ROWS]).cells()
    below = "".join(f'<p class="note">{markup(note)}</p>' for note in notes)
    return title + html.table(table.heads, cells) + below


def _figure(picture: Picture) -> str:
    from ...render.draw import html

    try:
        # ids must differ between the pictures of a notebook
        return html.figure(picture, f"rl{time.monotonic_ns():x}-")
    except InputError:
        from ...render.draw.terminal import draw

        return f"<pre>{escape(draw(picture, 100, 24, False, False))}</pre>"


def prediction_table(prediction: Prediction) -> Table:
    """One row per step, or per case of a sweep, and the sum of several steps."""
    from ...prediction.kernel_sets import kernels_of
    from ...render.table import Column, Table

    points = kernels_of(_steps(prediction))
    rows: list[dict[str, Any]] = [
        {
            "name": case.name, "flops": case.flops, "bytes": case.bytes, "intensity": case.intensity if case.bytes else None, "bound": case.bound,
            "limiter": case.limiter, "floor": case.floor, "time": case.time,
        }
        for case in points
    ]  # fmt: skip
    columns = [
        Column("name"), Column("flops", "FLOPs", "flop"), Column("bytes", "bytes", "B"), Column("intensity", "FLOP/B"), Column("bound"), Column("limiter"),
        Column("floor", "floor", "s"), Column("time", "time", "s"),
    ]  # fmt: skip
    if 1 < len(prediction.steps) == len(points):
        columns.insert(1, Column("count", "times"))
        rows = [{**row, "count": step.count} for row, step in zip(rows, prediction.steps, strict=True)]
        rows.append({"name": "all", "floor": float(prediction.floor), "time": float(prediction.time)})
    kinds = " and ".join(dict.fromkeys(bound.kinds for bound in prediction.bounds))
    basis = "; ".join(dict.fromkeys(step.basis for step in prediction.expected))
    title = f"on {prediction.machine.title or prediction.machine.name}"
    return Table(title, columns, rows, (f"{kinds} ceilings; time: {basis}",))


def _steps(prediction: Prediction) -> Sequence[Prediction]:
    """A prediction for each step."""
    each = zip(prediction.steps, prediction.bounds, prediction.expected, strict=True)
    return [replace(prediction, steps=(step,), bounds=(bound,), expected=(item,)) for step, bound, item in each]


def _roofline(prediction: Prediction) -> Picture | None:
    """The chart of a prediction; None where no point can be drawn."""
    from ...prediction.kernel_sets import kernels_of
    from ...render.figure import plot

    steps = _steps(prediction)
    if len(kernels_of(steps)) > MAX_POINTS:
        return None
    return _drawn(lambda: plot(prediction.machine, steps).chart)
