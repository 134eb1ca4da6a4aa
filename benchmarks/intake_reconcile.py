"""Time and memory of `ridgeline reconcile` on large tables, whatever the names: 3000 cases against 100,000 kernels.

    python benchmarks/intake_reconcile.py [CASES] [KERNELS]

The goal is under 10 s and 1 GB for each kind of names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FAMILIES = ("gemm", "softmax", "elementwise", "layer_norm", "reduce_kernel", "unheard_of")
# Name of a case by its number, and the row of a kernel by its number and the number of cases.
Kinds = dict[str, tuple[Callable[[int], str], Callable[[int, int], dict[str, Any]]]]
KINDS: Kinds = {
    "fitting": (lambda case: f"case_{case}", lambda kernel, cases: {"name": f"case_{kernel % cases}"}),
    "not fitting": (
        lambda case: f"case_{case}",
        lambda kernel, cases: {"name": f"k{kernel % 50}", "kernel": f"{FAMILIES[kernel % 6]}_{kernel % 50}"},
    ),
    "all equal": (lambda case: "step", lambda kernel, cases: {"name": "step", "kernel": "gemm"}),
    "all different": (
        lambda case: f"case_{case}",
        lambda kernel, cases: {"name": f"k{kernel}", "kernel": f"{FAMILIES[kernel % 6]}_{kernel}"},
    ),
    "module paths": (
        lambda case: f"model.layers.{case // 30}.part{case % 30}.fc",
        lambda kernel, cases: {
            "name": f"aten::mm_{kernel}",
            "path": ["model", "layers", str(kernel % 100), f"part{kernel % 40}"],
        },
    ),
    "shapes": (
        lambda case: f"case_{case}",
        lambda kernel, cases: {
            "name": f"k{kernel}",
            "kernel": f"gemm_{kernel}",
            "settings": {"shapes": [[64 + kernel % 7000, 512], [512, 64 + kernel % 900]]},
        },
    ),
}


def reconcile_large(cases: int = 3000, kernels: int = 100_000) -> Iterator[tuple[str, float, float, float]]:
    """Seconds, seconds of processor time and MiB of `ridgeline reconcile` for each kind of names."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, (case, kernel) in KINDS.items():
            sizes = ((64 + place, 512, 64 + place % 900) for place in range(cases))
            rows = [f"gemm,{case(place)},{m},{n},{k}\n" for place, (m, n, k) in enumerate(sizes)]
            (folder / "cases.csv").write_text("op,name,m,n,k\n" + "".join(rows), encoding="utf-8")
            observed = [{**kernel(place, cases), "time_us": 5 + place % 90} for place in range(kernels)]
            (folder / "kernels.json").write_text(json.dumps(observed), encoding="utf-8")
            yield kind, *_run(folder)


def _run(folder: Path) -> tuple[float, float, float]:
    words = ["reconcile", str(folder / "kernels.json"), "--cases", str(folder / "cases.csv"), "--on", "h200-sxm"]
    start = time.perf_counter()
    with (folder / "out").open("w") as out:
        process = subprocess.Popen([sys.executable, "-m", "ridgeline", *words], stdout=out, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    taken = time.perf_counter() - start
    if status:
        raise SystemExit((folder / "out").read_text())
    return taken, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    for kind, seconds, busy, memory in reconcile_large(*map(int, sys.argv[1:])):
        print(f"{kind:14} {seconds:6.1f} s, {busy:5.1f} s of processor time, {memory:5.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
