"""Runs a Python script under torch.profiler and writes its trace: `python -m ridgeline.profilers.run_torch OUT SCRIPT ...`.

It is started by `ridgeline profile --with torch`, in the interpreter of the program that is profiled.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


def main(out: str, script: str, *arguments: str) -> None:
    import torch

    activity = torch.profiler.ProfilerActivity
    activities = [activity.CPU, *([activity.CUDA] if torch.cuda.is_available() else [])]
    sys.argv = [script, *arguments]
    with torch.profiler.profile(activities=activities, record_shapes=True, with_stack=True) as profiler:
        try:
            if script == "-m":
                sys.argv = list(arguments)
                runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
            else:
                sys.path.insert(0, str(Path(script).resolve().parent))  # as python itself does
                runpy.run_path(script, run_name="__main__")
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    profiler.export_chrome_trace(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
