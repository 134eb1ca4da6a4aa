"""`%%roofline`: reads its line, runs the cell under observation, shows what it took."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError, RidgelineError
from .cell import Cell

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...core.observation import Observation
    from ...prediction.predict import Prediction

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
        raise InputError(f"%%roofline --repeat {repeat}: a whole number of at least 1 belongs there")
    if tool not in ("", "torch", "time"):
        raise InputError(f"%%roofline --tool {tool}: cells are observed with torch or time")
    return Line(options["on"], tool, int(repeat), tuple(call))


def run(shell: Any, line: str, cell: str, clock: Callable[[], float] = time.perf_counter) -> Cell | None:
    """Run a cell under observation; None where it raised, which the shell has shown by then."""
    options = parse_line(line)
    machine, notes = _machine(options.machine)
    predicted = _predicted(options.call, machine)
    # torch that nobody imported has no tensors to watch
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
    """The machine asked for, else the one this runs on; without known ceilings there are no roofs, and a note says so."""
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
        """Time a cell and hold its ops to the roofs of a machine; the result is kept as `_roofline`."""
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
