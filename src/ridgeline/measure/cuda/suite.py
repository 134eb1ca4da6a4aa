"""The kernels `ridgeline run` predicts and runs on a GPU: torch's default paths in every regime; ceilings and times.

    python -m ridgeline.measure.cuda.suite ceilings OUT [--full]
    python -m ridgeline.measure.cuda.suite kernels OUT

Both run in a process of their own: a profiler slows every launch after it, and what a library does when its process ends
cannot harm the job. OUT is a pickle that only the parent reads, from a folder of its own.
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.errors import InputError, RidgelineError
from ...core.observation import Observation
from ...core.version import __version__
from ...core.work import Work
from ...machines.detect import local as detect
from ...programs.ops import find
from ..protocol import STOPPED, Progress
from .draw import Case
from .probes import measure
from .timing import Timed, chunks, open_gpu

REPEATS = 9  # samples of every kernel
HOW = "torch, device time, cold L2"
LAYER = {"dtype": "bf16", "in_features": 8192, "out_features": 28672}  # of a 70B model
HEADS = {"dtype": "bf16", "heads": 32, "kv_heads": 8, "head_dim": 128}

# Every regime: large, thin and odd products, streams, reductions, attention in prefill and decode, conv, gather.
CASES: dict[str, Case] = {
    "gemm 8192^3": {"op": "gemm", "dtype": "bf16", "m": 8192, "n": 8192, "k": 8192},
    "linear batch 16": {"op": "linear", "batch": 16, **LAYER},
    "gemm odd": {"op": "gemm", "dtype": "bf16", "m": 1000, "n": 3333, "k": 2049},
    "gemv": {"op": "gemv", "dtype": "bf16", "m": 28672, "n": 8192},
    "int4 linear": {"op": "linear", "batch": 1, **LAYER, "weights": "int4_g128z"},
    "gelu": {"op": "gelu", "dtype": "bf16", "n": 1 << 27},
    "softmax": {"op": "softmax", "dtype": "bf16", "rows": 16384, "cols": 8192},
    "layernorm": {"op": "layernorm", "dtype": "bf16", "rows": 16384, "cols": 8192},
    "sum": {"op": "sum", "dtype": "fp32", "n": 1 << 27},
    "attention prefill": {"op": "attention", "batch": 4, **HEADS, "seq_q": 4096, "seq_kv": 4096, "causal": True},
    "attention decode": {"op": "attention", "batch": 32, **HEADS, "seq_q": 1, "seq_kv": 4096},
    "conv 3x3": {"op": "conv2d", "dtype": "bf16", "batch": 64, "c_in": 256, "c_out": 256, "h": 56, "w": 56, "layout": "nhwc"},
    "embedding": {"op": "embedding", "dtype": "bf16", "rows": 65536, "vocab": 128256, "cols": 4096},
}  # fmt: skip


@dataclass(frozen=True)
class GpuKernel:
    """A case of the suite as it is predicted."""

    name: str
    case: Case
    work: Work
    how: str = HOW


def kernels() -> list[GpuKernel]:
    return [GpuKernel(name, case, _work(case)) for name, case in CASES.items()]


def _work(case: Case) -> Work:
    return find(str(case["op"]))(**{key: value for key, value in case.items() if key != "op"})


def ceilings(quick: bool, on_progress: Progress) -> list[Observation]:
    """The ceilings of the GPU's roofline, measured in another process."""
    observations: list[Observation] = _in_child(["ceilings", *([] if quick else ["--full"])], on_progress)
    return observations


def timed(
    chosen: Sequence[GpuKernel], date: str, on_progress: Progress
) -> tuple[dict[str, Observation], dict[str, str]]:
    """Kernels timed in another process: observations by name, and why others have no time."""
    rows: dict[str, Timed] = _in_child(["kernels"], on_progress)
    works = {kernel.name: kernel.work for kernel in chosen}
    observed, refused = {}, {}
    for name, work in works.items():
        row = rows[name]
        if not row.samples:
            refused[name] = row.reason
            continue
        settings, conditions = {"how": HOW, "kernels": len(row.kernels)}, {"date": date, **row.conditions}
        longest = max(row.kernels, key=lambda each: each[1])[0]
        observed[name] = Observation(
            name, work.name, row.samples, work, settings, conditions, version=__version__, kernel=longest
        )  # fmt: skip
    return observed, refused


def _in_child(arguments: Sequence[str], on_progress: Progress) -> Any:
    """What a process of this module left in its file; how the process ended does not matter once the file is there."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.pickle"
        package = str(Path(__file__).parents[3])
        search = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
        words = [sys.executable, "-m", "ridgeline.measure.cuda.suite", arguments[0], str(out), *arguments[1:]]
        process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": search})
        last_line = ""
        try:
            for line in process.stderr or ():
                if progress := re.match(r"(\d+) of (\d+) (.*)", line):
                    on_progress(int(progress[1]), int(progress[2]), progress[3])
                else:
                    last_line = line.strip() or last_line
            process.wait()
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
        if not out.is_file():
            raise InputError(f"the GPU could not be measured: {last_line or f'exit code {process.returncode}'}")
        return pickle.loads(out.read_bytes())


# -- the child ------------------------------------------------------------------------------------------------


def _tell(done: int, total: int, label: str) -> None:
    print(f"{done} of {total} {label}", file=sys.stderr, flush=True)


def _write(out: Path, value: Any) -> None:
    part = out.with_suffix(".part")
    part.write_bytes(pickle.dumps(value))
    part.replace(out)


def _ceilings(out: Path, full: bool) -> None:
    _write(out, measure(detect.here("gpu"), quick=not full, on_progress=_tell, essential=not full))


def _kernels(out: Path) -> None:
    gpu, watch, _ = open_gpu()
    with watch:
        _tell(0, len(CASES), "kernels")
        rows = [row for chunk in chunks(list(CASES.values()), gpu, REPEATS) for row in chunk]
    _write(out, dict(zip(CASES, rows, strict=True)))


def main(arguments: Sequence[str]) -> int:
    what, out, *options = arguments
    try:
        if what == "kernels":
            _kernels(Path(out))
        elif what == "ceilings":
            _ceilings(Path(out), "--full" in options)
        else:
            raise InputError(f"'{what}' is neither `ceilings` nor `kernels`")
    except RidgelineError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
