"""Notebooks: results as HTML that follows the notebook's theme, and `%%roofline`, which times a cell and draws it.

    %load_ext ridgeline.notebook
    %%roofline --on h200-sxm
    model(x)

Drawing needs matplotlib; without it the picture is the one of the terminal.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..core.errors import InputError, RidgelineError

if TYPE_CHECKING:
    from ..core.machine import Machine
    from ..core.observation import Observation
    from ..prediction.predict import Prediction
    from ..render.chart import Picture
    from ..render.table import Table

MOST_ROWS = 40  # of a table in a notebook
MOST_DRAWN = 60
# Where notebooks say that they are dark: the reader's system, JupyterLab, VS Code.
DARK = ("body[data-jp-theme-light='false'] .ridgeline", "body.vscode-dark .ridgeline")
USAGE = "%%roofline [OP NAME=VALUE ...] [--on MACHINE] [--tool torch|time] [--repeat N]"


# -- results as HTML ------------------------------------------------------------------------------------------


def style() -> str:
    """Colours as variables of our own elements only; nothing else of the notebook changes."""
    from ..render.draw.themes import THEMES

    def block(selector: str, name: str) -> str:
        return f"{selector} {{ {' '.join(f'--rl-{role}: {value};' for role, value in THEMES[name].items())} }}"

    looks = (
        ".ridgeline figure { margin: 0; max-width: 60rem; } .ridgeline svg { width: 100%; height: auto; } "
        ".ridgeline .n { text-align: right; } .ridgeline .note { color: var(--rl-muted); margin: .2em 0; }"
    )
    dark = f"@media (prefers-color-scheme: dark) {{ {block('.ridgeline', 'dark')} }}"
    light = block("body[data-jp-theme-light='true'] .ridgeline, body.vscode-light .ridgeline", "light")
    return f"<style>{block('.ridgeline', 'light')} {dark} {light} {block(', '.join(DARK), 'dark')} {looks}</style>"


def html_of_table(table: Table) -> str:
    """A table with its notes; long ones say how much is left out."""
    return _wrapped(_table(table))


def html_of_chart(picture: Picture) -> str:
    """A picture as inline SVG, or as text where matplotlib is not installed."""
    return _wrapped(_figure(picture))


def html_of_prediction(prediction: Prediction) -> str:
    """The table of a prediction and its place on the roofline."""
    parts = [_table(prediction_table(prediction))]
    picture = _roofline(prediction)
    return _wrapped("\n".join([*parts, *([_figure(picture)] if picture is not None else [])]))


def _wrapped(body: str) -> str:
    return f'{style()}<div class="ridgeline">\n{body}\n</div>'


def _table(table: Table) -> str:
    from ..render.draw import html

    shown = replace(table, rows=table.rows[:MOST_ROWS])
    left = len(table.rows) - len(shown.rows)
    notes = [*table.notes, *([f"{left} more rows are not shown"] if left else [])]
    title = f"<p><b>{escape(table.title)}</b></p>" if table.title else ""
    return (
        title
        + html.table([column.head for column in table.columns], shown.cells())
        + "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
    )


def _figure(picture: Picture) -> str:
    from ..render.draw import html

    try:
        # ids must differ between the pictures of a notebook
        return html.figure(picture, f"rl{time.monotonic_ns():x}-")
    except InputError:
        from ..render.draw.terminal import draw

        return f"<pre>{escape(draw(picture, 100, 24, False, False))}</pre>"


def prediction_table(prediction: Prediction) -> Table:
    """One row per step, or per case of a sweep, and the sum of several steps."""
    from ..render.charts.plane import cases
    from ..render.table import Column, Table

    found = cases(_steps(prediction))
    rows: list[dict[str, Any]] = [
        {
            "name": case.name, "flops": case.flops, "bytes": case.bytes, "intensity": case.intensity if case.bytes else None, "bound": case.bound,
            "limiter": case.limiter, "floor": case.floor, "time": case.time,
        }
        for case in found
    ]  # fmt: skip
    if len(prediction.steps) > 1 and len(found) == len(prediction.steps):
        counts = [step.count for step in prediction.steps]
        rows = [{**row, "count": count} for row, count in zip(rows, counts, strict=True)]
        rows.append({"name": "all", "floor": float(prediction.floor), "time": float(prediction.time)})
    columns = [
        Column("name"), Column("flops", "FLOPs", "flop"), Column("bytes", "bytes", "B"), Column("intensity", "FLOP/B"), Column("bound"), Column("limiter"),
        Column("floor", "floor", "s"), Column("time", "time", "s"),
    ]  # fmt: skip
    if any("count" in row for row in rows):
        columns.insert(1, Column("count", "times"))
    basis = list(dict.fromkeys(item.basis for item in prediction.expected))
    kinds = list(dict.fromkeys(item.kinds for item in prediction.bounds))
    return Table(
        f"on {prediction.machine.title or prediction.machine.name}",
        columns,
        rows,
        (f"{' and '.join(kinds)} ceilings; time: {'; '.join(basis)}",),
    )


def _steps(prediction: Prediction) -> list[Prediction]:
    """A prediction for each step."""
    each = zip(prediction.steps, prediction.bounds, prediction.expected, strict=True)
    return [replace(prediction, steps=(step,), bounds=(bound,), expected=(item,)) for step, bound, item in each]


def _roofline(prediction: Prediction) -> Picture | None:
    """The chart of a prediction, None where nothing of it has a place on one."""
    from ..render.charts.plane import cases
    from ..render.charts.roofs import roofline

    steps = _steps(prediction)
    if len(cases(steps)) > MOST_DRAWN:
        return None
    try:
        return roofline(prediction.machine, steps)
    except RidgelineError:
        return None


# -- %%roofline -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """The words of a `%%roofline` line."""

    machine: str = ""
    tool: str = ""
    repeat: int = 1
    call: tuple[str, ...] = ()


def asked(line: str) -> Asked:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise InputError(f"%%roofline {line}: {error}; write {USAGE}") from error
    found: dict[str, str] = {}
    call: list[str] = []
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            call.append(word)
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        if name not in ("on", "tool", "repeat"):
            raise InputError(f"%%roofline has no --{name}; write {USAGE}")
        if not equals and not words:
            raise InputError(f"%%roofline --{name} needs a value; write {USAGE}")
        found[name] = value if equals else words.pop(0)
    repeat = found.get("repeat", "1")
    if not repeat.isdigit() or not int(repeat):
        raise InputError(f"%%roofline --repeat {repeat}: a whole number of at least 1 belongs there")
    if found.get("tool", "torch") not in ("torch", "time"):
        raise InputError(f"%%roofline --tool {found['tool']}: cells are observed with torch or time")
    return Asked(found.get("on", ""), found.get("tool", ""), int(repeat), tuple(call))


@dataclass(frozen=True)
class Cell:
    """What a cell did: its wall times, the ops a profiler saw in it, and the machine it is held against."""

    walls: tuple[float, ...]
    observations: tuple[Observation, ...]
    machine: Machine | None
    notes: tuple[str, ...] = ()
    predicted: Prediction | None = None  # of the op the whole cell was said to be

    def table(self) -> Table:
        from ..render.table import Column, Table

        rows = [_row(item, self.machine) for item in self.observations]
        total = sum(row["total"] for row in rows)
        rows = sorted(({**row, "share": row["total"] / total} for row in rows), key=lambda row: -row["total"])
        whole: dict[str, Any] = {
            "name": "the cell",
            "count": len(self.walls),
            "time": _median(self.walls),
            "total": sum(self.walls),
        }
        if self.predicted is not None:
            floor = float(self.predicted.floor)
            bound = self.predicted.bounds[0]
            whole |= {"roof": floor / whole["time"], "bound": bound.bound, "limiter": bound.limiter}
        columns = (
            Column("name"), Column("count", "times"), Column("time", "median", "s"), Column("total", "total", "s"), Column("share", "of the ops", percent=True, digits=3),
            Column("roof", "of its roof", percent=True, digits=3), Column("bound"), Column("limiter"),
        )  # fmt: skip
        title = f"%%roofline on {self.machine.title or self.machine.name}" if self.machine else "%%roofline"
        return Table(title, columns, [*rows, whole], self.notes)

    def chart(self) -> Picture | None:
        """The ops whose work their shapes tell, where they were seen; None where none has a place."""
        from ..render.charts.plane import INTENSITY
        from ..render.charts.roofs import Seen, gaps

        if self.machine is None:
            return None
        spots: dict[str, Seen] = {}
        for name, seconds, work in self._known():
            flops, moved = float(work.flops), float(work.bytes)
            if flops > 0 and moved > 0:
                spots.setdefault(name, Seen(name, flops / moved, flops / seconds))
        if not spots:
            return None
        dtype = next(work.dtype for _, _, work in self._known())
        try:
            drawn = gaps(self.machine, list(spots.values())[:MOST_DRAWN], dtype)
        except RidgelineError:
            return None
        above = tuple(note for note in drawn.notes if "above the roof" in note)
        told = "times are measured; flops and bytes are those of the algorithm, from the shapes"
        return replace(
            drawn, title=f"A cell on {self.machine.name}", x=replace(drawn.x, label=INTENSITY), notes=(told, *above)
        )

    def _known(self) -> list[tuple[str, float, Any]]:
        """Name, median and Work of what is known by its counts, the longest first."""
        from ..render.charts.plane import name_of

        found = (
            [] if self.predicted is None else [(name_of(self.predicted.work), _median(self.walls), self.predicted.work)]
        )
        for item in sorted(self.observations, key=lambda item: -sum(item.samples)):
            work = _work(item)
            if work is not None:
                found.append((name_of(work), item.median, work))
        return found

    def _repr_html_(self) -> str:
        picture = self.chart()
        return _wrapped("\n".join([_table(self.table()), *([_figure(picture)] if picture is not None else [])]))

    def __repr__(self) -> str:
        picture = self.chart()
        text = self.table().text()
        if picture is None:
            return text
        from ..render.draw.terminal import draw

        return f"{text}\n\n{draw(picture, 100, 24, False, False)}"


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _work(item: Observation) -> Any:
    """The work of an op that did it itself; one that handed it on to another has only its own few instructions."""
    from ..programs.calls import known, work_of

    settings = item.settings
    if any(known(name) and not name.startswith("aten::copy") for name in settings.get("called", [])):
        return None
    return work_of(str(settings.get("op", item.name)), settings.get("shapes", []), settings.get("dtypes", []))


def _row(item: Observation, machine: Machine | None) -> dict[str, Any]:
    """An op of a cell, with its roof where its shapes tell its work and the machine has the ceilings."""
    from ..prediction.predict import predict

    row: dict[str, Any] = {
        "name": _title(item),
        "count": len(item.samples),
        "time": item.median,
        "total": sum(item.samples),
    }
    work = _work(item)
    if work is None or machine is None:
        return row
    try:
        bound = predict(work, machine).bounds[0]
    except RidgelineError:
        return row
    return {**row, "roof": float(bound.floor) / item.median, "bound": str(bound.bound), "limiter": str(bound.limiter)}


def _title(item: Observation) -> str:
    shapes = " ".join("x".join(str(size) for size in shape) for shape in item.settings.get("shapes", [])[:3] if shape)
    path = "/".join(item.path)
    return " ".join(part for part in (f"{path}:" if path else "", item.name.removeprefix("aten::"), shapes) if part)


def run(shell: Any, line: str, cell: str, clock: Callable[[], float] = time.perf_counter) -> Cell | None:
    """Run a cell under observation; None where it raised, which the shell has shown by then."""
    wanted = asked(line)
    machine, notes = _machine(wanted.machine)
    predicted = _predicted(wanted.call, machine)
    # torch that nobody imported has no tensors to watch
    tool = wanted.tool or ("torch" if "torch" in sys.modules and wanted.repeat == 1 else "time")
    walls: list[float] = []
    observations: list[Observation] = []
    for _ in range(wanted.repeat):
        start = clock()
        if tool == "torch":
            done, seen = _observed(shell, cell)
            observations += seen
        else:
            done = _done(shell, cell)
        walls.append(clock() - start)
        if not done:
            return None
    if tool == "torch" and not observations:
        notes = (*notes, "no torch op ran in the cell, so only its wall time is known")
    elif tool == "torch":
        notes = (*notes, "the wall time holds what the profiler costs; --tool time leaves it out")
    return Cell(tuple(walls), tuple(observations), machine, notes, predicted)


def _done(shell: Any, cell: str) -> bool:
    """Run a cell without showing its value: that takes time, and of a tensor ops, which are not the cell's own."""
    shown = getattr(shell, "ast_node_interactivity", "none")
    shell.ast_node_interactivity = "none"
    try:
        return bool(shell.run_cell(cell).success)
    finally:
        shell.ast_node_interactivity = shown


def _observed(shell: Any, cell: str) -> tuple[bool, list[Observation]]:
    from ..profilers.live import observe

    with observe("torch") as seen:
        done = _done(shell, cell)
    return done, list(seen.observations) if done else []


def _machine(name: str) -> tuple[Machine | None, tuple[str, ...]]:
    """The machine asked for, else the one this runs on; without known ceilings there are no roofs, and a note says so."""
    from ..machines.load import load

    if name:
        return load(name), ()
    torch = sys.modules.get("torch")
    found = load("here:gpu" if torch is not None and torch.cuda.is_available() else "here:cpu")
    if any(figure.value() for figure in found.peaks.values()) and found.levels and found.main.bandwidth.value():
        return found, ()
    return None, ("the ceilings of this machine are not known: run `ridgeline measure`, or name one with --on",)


def _predicted(call: Sequence[str], machine: Machine | None) -> Prediction | None:
    """The op that the line says the cell is."""
    if not call:
        return None
    from ..core.units import number
    from ..prediction.predict import predict
    from ..programs.ops import find

    op = find(call[0])
    values: dict[str, Any] = {}
    for word in call[1:]:
        name, equals, text = word.partition("=")
        if not equals:
            raise InputError(f"%%roofline: '{word}' is not of the form name=value; {op.name} is {op.signature}")
        kind = op.params[name].kind if name in op.params else ""
        values[name] = number(text) if kind in ("Size", "Count") else text
    work = op(**values)
    return None if machine is None else predict(work, machine)


def _show(found: Cell) -> None:
    """Shown by hand: the shell forgets the value of a magic that runs a cell of its own."""
    try:
        display = import_module("IPython.display").display
    except ImportError:  # a shell that is not IPython's
        print(repr(found))
    else:
        display(found)


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext ridgeline.notebook` brings `%%roofline` and lets results draw themselves."""

    def roofline(line: str, cell: str) -> None:
        """Time a cell and hold its ops to the roofs of a machine; what came out is kept as `_roofline`."""
        try:
            found = run(ipython, line, cell)
        except RidgelineError as error:
            print(f"ridgeline: {error}", file=sys.stderr)
            return
        if found is not None:
            ipython.user_ns["_roofline"] = found
            _show(found)

    hook()
    ipython.register_magic_function(roofline, "cell", "roofline")


def hook() -> None:
    """Give predictions, charts and tables the method by which notebooks show them."""
    from ..prediction.predict import Prediction
    from ..render.chart import Chart, Panel
    from ..render.table import Table

    kinds = ((Prediction, html_of_prediction), (Chart, html_of_chart), (Panel, html_of_chart), (Table, html_of_table))
    for kind, shown in kinds:
        setattr(kind, "_repr_html_", shown)  # noqa: B010  they live on lower floors, which know nothing of notebooks
