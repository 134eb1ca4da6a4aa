"""torch.profiler around a block of code: `with rl.observe("torch") as seen: model(x)`, then `seen.observations`.

`python -P -m ridgeline.profilers.live OUT SCRIPT ...` runs it around a script and writes the trace; `ridgeline profile
--with torch` starts that in the interpreter of the program. With -P no file of the current folder is imported. Importing this file loads neither torch nor numpy; the
profiler loads them when the block is entered.
"""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import InputError, unknown

if TYPE_CHECKING:
    from ..core.observation import Observation

ELSEWHERE = {
    "ncu": "Nsight Compute starts the program itself: ridgeline profile --with ncu -- python script.py",
    "jax": "the JAX profiler writes a file: wrap the block in jax.profiler.trace(FOLDER), then ridgeline import "
    "FOLDER/plugins/profile/*/*.trace.json.gz",
}


class BlockProfile:
    """The profile of a block; readable once the block has ended."""

    def __init__(self, shapes: bool = True, modules: bool = True) -> None:
        self._options = {"record_shapes": shapes, "with_stack": modules, "with_modules": modules}
        self._profiler: Any = None
        self._state = "the block has not begun"
        self._observations: list[Observation] = []
        self._gaps: dict[str, Any] = {}

    def __enter__(self) -> BlockProfile:
        torch = _torch()
        if self._profiler is not None:
            raise InputError("this observation has been used; call observe() again for another block")
        if torch.autograd._profiler_enabled():
            raise InputError("a torch profiler is already running around this block; only one can run at a time")
        # Modules of eager code come with the Python stack; `with_modules` alone serves TorchScript only.
        self._profiler = torch.profiler.profile(activities=_activities(torch), **self._options)
        self._profiler.__enter__()
        self._state = "the block is still running"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, where: Any) -> None:
        torch = _torch()
        self._state = "the block ended in an error"
        if torch.cuda.is_available() and kind is None:
            torch.cuda.synchronize()  # kernels still queued belong to the block
        self._profiler.__exit__(kind, error, where)
        if kind is None:
            self._read(str(torch.__version__))
            self._state = ""

    def _read(self, version: str) -> None:
        from .torch_profiler import idle_times, load, observations

        with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
            path = Path(folder) / "trace.json"
            self._profiler.export_chrome_trace(str(path))
            trace = load(path, version)
        self._observations, self._gaps = observations(trace), idle_times(trace)

    def _require_end(self) -> None:
        if self._state:
            raise InputError(f"nothing observed yet: {self._state}; read `seen` after the with block")

    @property
    def observations(self) -> list[Observation]:
        """One per kernel (per op where there is no GPU), shape and module, in the order they first ran."""
        self._require_end()
        return list(self._observations)

    @property
    def gaps(self) -> dict[str, Any]:
        """When each device had nothing to do, and how much of that it waited for the host."""
        self._require_end()
        return dict(self._gaps)

    def __iter__(self) -> Iterator[Observation]:
        return iter(self.observations)


def observe(tool: str = "torch", *, shapes: bool = True, modules: bool = True) -> BlockProfile:
    """A context that profiles the block under it.

    `shapes` records the inputs of every op, `modules` the modules it ran under; both slow the host, so leave them out
    where the gaps between kernels are what you look for.
    """
    if tool in ELSEWHERE:
        raise InputError(f"'{tool}' cannot observe a block of Python: {ELSEWHERE[tool]}")
    if tool != "torch":
        hint = "A block of Python is observed with torch; ncu runs through ridgeline profile."
        raise unknown("tool", tool, ("torch", *ELSEWHERE), hint)
    _torch()
    return BlockProfile(shapes, modules)


def _torch() -> Any:
    try:
        import torch
        import torch.profiler
    except ImportError as error:
        message = "observing with torch needs torch, which is not installed; install ridgeline[torch]"
        raise InputError(message) from error
    return torch


def _activities(torch: Any) -> list[Any]:
    activity = torch.profiler.ProfilerActivity
    return [activity.CPU, *([activity.CUDA] if torch.cuda.is_available() else [])]


def main(out: str, script: str, *arguments: str) -> None:
    """Run a Python script, or a module after `-m`, and write its trace.

    All that the profiler needs is imported before the folder of the script is searched, which is searched as long as the
    script runs: a file of the script's folder named as a module of ours or of torch's is not taken for it.
    """
    torch = _torch()
    module = script == "-m"
    folder, before = (os.getcwd() if module else str(Path(script).resolve().parent)), list(sys.path)
    sys.argv = list(arguments) if module else [script, *arguments]
    with torch.profiler.profile(activities=_activities(torch), record_shapes=True, with_stack=True) as profiler:
        sys.path.insert(0, folder)  # as python itself does
        try:
            if module:
                runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
        finally:
            sys.path[:] = before
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    profiler.export_chrome_trace(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
