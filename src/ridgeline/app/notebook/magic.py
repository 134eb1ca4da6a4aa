"""`%%roofline`: reads its line, runs the cell under observation, compares its times with the roofline of a machine."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError, RidgelineError
from ...core.notes import ABOVE_ROOFLINE, of_kind
from ...core.statistics import median
from . import html

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...core.observation import Observation
    from ...core.work import Work
    from ...prediction.predict import Prediction
    from ...render.chart import Picture
    from ...render.table import Table

USAGE = "%%roofline [OP NAME=VALUE ...] [--on MACHINE] [--tool torch|time] [--repeat N]"


@dataclass(frozen=True)
class Line:
    """The words of a `%%roofline` line."""

    machine: str = ""
    tool: str = ""
    repeat: int = 1
    call: tuple[str, ...] = ()


def parse_line(line: str) -> Line:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise InputError(f"%%roofline {line}: {error}; write {USAGE}") from error
    options = {"on": "", "tool": "", "repeat": "1"}
    call: list[str] = []
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            call.append(word)
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        if name not in options:
            raise InputError(f"%%roofline has no --{name}; write {USAGE}")
        if not equals and not words:
            raise InputError(f"%%roofline --{name} needs a value; write {USAGE}")
        options[name] = value if equals else words.pop(0)
    repeat, tool = options["repeat"], options["tool"]
    if not repeat.isdigit() or not int(repeat):
        raise InputError(f"%%roofline --repeat {repeat}: give a whole number of at least 1")
    if tool not in ("", "torch", "time"):
        raise InputError(f"%%roofline --tool {tool}: cells are observed with torch or time")
    return Line(options["on"], tool, int(repeat), tuple(call))


def run(shell: Any, line: str, cell: str, clock: Callable[[], float] = time.perf_counter) -> Cell | None:
    """Run a cell under observation; None where it raised, which the shell has shown by then."""
    options = parse_line(line)
    machine, notes = _machine(options.machine)
    predicted = _predicted(options.call, machine)
    # without torch imported there are no tensors to observe
    tool = options.tool or ("torch" if "torch" in sys.modules and options.repeat == 1 else "time")
    walls: list[float] = []
    observations: list[Observation] = []
    for _ in range(options.repeat):
        start = clock()
        succeeded = _run_profiled(shell, cell, observations) if tool == "torch" else _run_cell(shell, cell)
        walls.append(clock() - start)
        if not succeeded:
            return None
    if tool == "torch" and not observations:
        notes = (*notes, "no torch op ran in the cell, so only its wall time is known")
    elif tool == "torch":
        notes = (*notes, "the wall time holds what the profiler costs; --tool time leaves it out")
    return Cell(tuple(walls), tuple(observations), machine, notes, predicted)


def _run_cell(shell: Any, cell: str) -> bool:
    """Run a cell without showing its value: showing takes time, and a tensor's takes ops that are not the cell's."""
    shown = getattr(shell, "ast_node_interactivity", "none")
    shell.ast_node_interactivity = "none"
    try:
        return bool(shell.run_cell(cell).success)
    finally:
        shell.ast_node_interactivity = shown


def _run_profiled(shell: Any, cell: str, observations: list[Observation]) -> bool:
    from ...profilers.live import observe

    with observe("torch") as recording:
        succeeded = _run_cell(shell, cell)
    observations += recording.observations if succeeded else ()
    return succeeded


def _machine(name: str) -> tuple[Machine | None, tuple[str, ...]]:
    """The machine asked for, else the one this runs on; None and a note where its ceilings are not known."""
    from ...machines.load import load

    if name:
        return load(name), ()
    torch = sys.modules.get("torch")
    local = load("here:gpu" if torch is not None and torch.cuda.is_available() else "here:cpu")
    if any(figure.value() for figure in local.peaks.values()) and local.levels and local.main.bandwidth.value():
        return local, ()
    return None, ("the ceilings of this machine are not known: run `ridgeline measure`, or name one with --on",)


def _predicted(call: Sequence[str], machine: Machine | None) -> Prediction | None:
    """The op that the line says the cell is."""
    if not call:
        return None
    from ...prediction.predict import predict
    from ...programs.cases import arguments
    from ...programs.ops import find

    op = find(call[0])
    work = op(**arguments(op, call[1:], sweeps=False))
    return None if machine is None else predict(work, machine)


def register(shell: Any) -> None:
    """Make `%%roofline` known to a shell."""

    def roofline(line: str, cell: str) -> None:
        """Time a cell and compare its ops with the roofline of a machine; the result is kept as `_roofline`."""
        try:
            result = run(shell, line, cell)
        except RidgelineError as error:
            print(f"ridgeline: {error}", file=sys.stderr)
            return
        if result is not None:
            shell.user_ns["_roofline"] = result
            _show(result)

    shell.register_magic_function(roofline, "cell", "roofline")


def _show(cell: Cell) -> None:
    """Shown by hand: the shell forgets the value of a magic that runs a cell itself."""
    try:
        display = import_module("IPython.display").display
    except ImportError:  # a shell that is not IPython's
        print(repr(cell))
    else:
        display(cell)


# -- what a cell took -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """What a cell did: its wall times, the ops a profiler saw in it, and the machine it is compared with."""

    walls: tuple[float, ...]
    observations: tuple[Observation, ...]
    machine: Machine | None
    notes: tuple[str, ...] = ()
    predicted: Prediction | None = None  # of the op that the line says the cell is

    def table(self) -> Table:
        from ...render.table import Column, Table

        rows = [_row(item, self.machine) for item in self.observations]
        total = sum(row["total"] for row in rows)
        rows = sorted(({**row, "share": row["total"] / total} for row in rows), key=lambda row: -row["total"])
        wall = median(self.walls)
        cell: dict[str, Any] = {"name": "the cell", "count": len(self.walls), "time": wall, "total": sum(self.walls)}
        if self.predicted is not None:
            cell |= _against_roof(self.predicted, wall)
        columns = (
            Column("name"), Column("count", "times"), Column("time", "median", "s"), Column("total", "total", "s"), Column("share", "share", percent=True, digits=3),
            Column("roof", "% of roofline", percent=True, digits=3), Column("bound"), Column("limiter"),
        )  # fmt: skip
        title = f"%%roofline on {self.machine.title or self.machine.name}" if self.machine else "%%roofline"
        return Table(title, columns, [*rows, cell], self.notes)

    def chart(self) -> Picture | None:
        """The ops whose shapes give their work, at their measured rates; None where none has a place."""
        from ...prediction.kernel_sets import kernel_name
        from ...render.charts.gaps import Observed, gaps
        from ...render.charts.wording import INTENSITY

        points: dict[str, Observed] = {}
        known = list(self._known())
        for seconds, work in known:
            flops, moved, name = float(work.flops), float(work.bytes), kernel_name(work)
            if flops > 0 and moved > 0:
                points.setdefault(name, Observed(name, flops / moved, flops / seconds))
        if self.machine is None or not points:
            return None
        try:
            drawn = gaps(self.machine, list(points.values())[: html.MAX_POINTS], known[0][1].dtype)
        except RidgelineError:
            return None
        above = of_kind(drawn.notes, ABOVE_ROOFLINE)
        basis = "times are measured; flops and bytes are those of the algorithm, from the shapes"
        x = replace(drawn.x, label=INTENSITY)
        return replace(drawn, title=f"A cell on {self.machine.name}", x=x, notes=(basis, *above))

    def _known(self) -> Iterator[tuple[float, Work]]:
        """Median time and work of what is known by its counts: the cell, then its ops, the longest first."""
        if self.predicted is not None:
            yield median(self.walls), self.predicted.work
        for item in sorted(self.observations, key=lambda item: -sum(item.samples)):
            work = _work(item)
            if work is not None:
                yield item.median, work

    def _repr_html_(self) -> str:
        return html.page(self.table(), self.chart())

    def __repr__(self) -> str:
        from ...render.draw.terminal import draw

        picture, text = self.chart(), self.table().text()
        return text if picture is None else f"{text}\n\n{draw(picture, 100, 24, False, False)}"


def _row(item: Observation, machine: Machine | None) -> dict[str, Any]:
    """An op of a cell, with its roof where its shapes give its work and the machine has the ceilings."""
    from ...prediction.predict import predict

    row = {"name": _title(item), "count": len(item.samples), "time": item.median, "total": sum(item.samples)}
    work = _work(item)
    if work is None or machine is None:
        return row
    try:
        return row | _against_roof(predict(work, machine), item.median)
    except RidgelineError:
        return row


def _against_roof(prediction: Prediction, seconds: float) -> dict[str, Any]:
    bound = prediction.bounds[0]
    return {"roof": float(bound.roofline) / seconds, "bound": str(bound.bound), "limiter": str(bound.limiter)}


def _work(item: Observation) -> Work | None:
    """The work of an op that did it itself; one that called another op has only its own few instructions."""
    from ...core.timeline import Tensor
    from ...programs.aten.python_calls import has_work, work_of

    settings = item.settings
    if any(has_work(name) and not name.startswith("aten::copy") for name in settings.get("called", [])):
        return None
    shapes, dtypes = settings.get("shapes", []), settings.get("dtypes", [])
    tensors = [Tensor(tuple(shape), dtype) for shape, dtype in zip(shapes, dtypes, strict=False)]
    return work_of(str(settings.get("op", item.name)), tensors)


def _title(item: Observation) -> str:
    shapes = " ".join("x".join(str(size) for size in shape) for shape in item.settings.get("shapes", [])[:3] if shape)
    path = "/".join(item.path)
    return " ".join(part for part in (f"{path}:" if path else "", item.name.removeprefix("aten::"), shapes) if part)
