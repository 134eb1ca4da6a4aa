"""Results as HTML for a notebook: tables with their notes, charts as inline SVG, in the colours of its theme."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError, RidgelineError

if TYPE_CHECKING:
    from ...prediction.predict import Prediction
    from ...render.chart import Picture
    from ...render.table import Table

MAX_ROWS = 40  # of a table in a notebook
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


def page(*parts: Table | Picture | None) -> str:
    """Tables with their notes, of a long one its first rows; pictures as inline SVG, or as text without matplotlib."""
    from ...render.table import Table

    texts = [_table(part) if isinstance(part, Table) else _figure(part) for part in parts if part is not None]
    return "\n".join((f'{style()}<div class="ridgeline">', *texts, "</div>"))


def prediction(prediction: Prediction) -> str:
    """The table of a prediction and its place on the roofline."""
    return page(prediction_table(prediction), _roofline(prediction))


def _table(table: Table) -> str:
    from ...render.draw import html

    hidden = len(table.rows) - MAX_ROWS
    notes = [*table.notes, *([f"{hidden} more rows are not shown"] if hidden > 0 else [])]
    title = f"<p><b>{escape(table.title)}</b></p>" if table.title else ""
    cells = replace(table, rows=table.rows[:MAX_ROWS]).cells()
    below = "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
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
    """The chart of a prediction, None where nothing of it has a place on one."""
    from ...prediction.kernel_sets import kernels_of
    from ...render.figure import plot

    steps = _steps(prediction)
    if len(kernels_of(steps)) > MAX_POINTS:
        return None
    try:
        return plot(prediction.machine, steps).chart
    except RidgelineError:
        return None
