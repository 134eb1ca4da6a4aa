"""Runs a Python program under the profiler of the library it uses, in the program's own interpreter.

    python script.py FOLDER SETTINGS program.py [arguments]      (or -m module [arguments])

The file needs the standard library only and nothing of ridgeline, so that any interpreter can run it. What is recorded, and
when, is in `watcher.py` next to it; how the process ends in `leaving.py`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import runpy
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

WATCHER = "ridgeline_watcher"  # as `step.py` looks for it


def run(words: Sequence[str]) -> None:
    """The program as `python words...` runs it: its argv, its folder on the path, its `__main__`."""
    if words[0] == "-m":
        sys.argv = list(words[1:])
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(words)
        sys.path.insert(0, os.path.dirname(os.path.realpath(words[0])))
        runpy.run_path(words[0], run_name="__main__")


def _beside(folder: str, name: str) -> Any:
    """A file next to this one by its path: the folder is not where the program looks for its modules."""
    spec: Any = importlib.util.spec_from_file_location(f"ridgeline_{name}", os.path.join(folder, f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(folder: str, settings: str, *words: str) -> int:
    options = json.loads(settings)
    if options.get("safe_path"):  # it kept the folder of this file from the path, and is not meant for the program
        os.environ.pop("PYTHONSAFEPATH", None)
    own_folder = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [place for place in sys.path if not place or os.path.realpath(place) != own_folder]
    leaving, imports, module = (_beside(own_folder, name) for name in ("leaving", "imports", "watcher"))
    watcher = module.Watcher(folder, options["steps"], options["seconds"])
    module.marked = watcher.marked
    sys.modules[WATCHER] = module
    sys.meta_path.insert(0, imports.Finder(watcher.imported, watcher.importing))
    code = 0
    try:
        run(words)
    except BaseException as end:
        code = leaving.exit_code(end, __file__)
    with suppress(ValueError, AttributeError):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the trace is being written
    watcher.finish()
    if watcher.restarted:
        leaving.leave(code)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
