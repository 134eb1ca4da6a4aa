"""`ridgeline.step()`: a program marks its steps, for the profiles that are taken of it.

    for batch in loader:                for batch in loader:
        with ridgeline.step():              ridgeline.step()    # until the next one
            train(batch)                    train(batch)

While torch.profiler or the profiler of JAX records, a step is a range named `ridgeline.step#N`; at other times a mark is a
function call and nothing more. Importing this file loads neither of them.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

WATCHER = "ridgeline_watcher"  # the name under which a program that is being profiled finds who profiles it
_marks = {"count": 0}
_open: list[Step] = []  # the step that a call began and nothing has ended yet


class Step:
    """A step that has begun. Leaving the `with` block ends it; without one the next step does."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._range = _range(number)
        if self._range is not None:
            self._range.__enter__()

    def end(self) -> None:
        mark, self._range = self._range, None
        if mark is not None:
            mark.__exit__(None, None, None)
        if self in _open:
            _open.remove(self)

    def __enter__(self) -> Step:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()


def step() -> Step:
    """Begin a step of the program; it ends with the `with` block, or where the next step begins."""
    end_open()
    watcher = sys.modules.get(WATCHER)
    if watcher is not None:
        watcher.marked()
    _marks["count"] += 1
    begun = Step(_marks["count"])
    _open.append(begun)
    return begun


def end_open() -> None:
    """End the step that a call began; before a profiler stops, so that the last range has an end."""
    for begun in list(_open):
        begun.end()


def _range(number: int) -> Any:
    """The range of a step in the profiler that records; None where none does."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "autograd"):
        recording = torch.autograd._profiler_enabled()
        return torch.profiler.record_function(f"ridgeline.step#{number}") if recording else None
    profiler = getattr(sys.modules.get("jax"), "profiler", None)
    return None if profiler is None else profiler.StepTraceAnnotation("ridgeline.step", step_num=number)
