"""How fast predictions are: ten million GEMMs against bare NumPy, and one whole process against `import numpy`.

    python benchmarks/predict_speed.py

Both sides run interleaved in one process (arrays) or alternately (processes); the best of the repetitions counts.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

import ridgeline as rl

CASES, REPEATS = 10_000_000, 7


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def arrays() -> None:
    machine = rl.machine("h100-sxm")
    peak, bandwidth = machine.peak("tensor.bf16").value, machine.bandwidth().value
    random = np.random.default_rng(0)
    m, n, k = (random.integers(1, 16384, CASES) for _ in range(3))
    flops, moved = 2.0 * m * n * k, 2.0 * (m * k + k * n + m * n)

    def bare() -> object:
        return np.maximum(flops / peak, moved / bandwidth)

    def bare_with_counts() -> object:
        return np.maximum(2.0 * m * n * k / peak, 2.0 * (m * k + k * n + m * n) / bandwidth)

    def floors() -> object:
        return rl.predict_cases(rl.ops.gemm, machine, {"m": m, "n": n, "k": k}, ["floor"])

    def times() -> object:
        return rl.predict_cases(rl.ops.gemm, machine, {"m": m, "n": n, "k": k}, ["time"])

    def whole() -> object:
        return rl.predict(rl.ops.gemm(m=m, n=n, k=k), machine).floor

    calls = {
        "maximum(flops/peak, bytes/bw), counts given": bare,
        "the same with counts from m, n, k": bare_with_counts,
        "predict_cases, floors": floors,
        "predict_cases, expected times": times,
        "predict(gemm(m, n, k)).floor": whole,
    }
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(REPEATS):
        for name, call in calls.items():
            best[name] = min(best[name], timed(call))
    base, counted = best["maximum(flops/peak, bytes/bw), counts given"], best["the same with counts from m, n, k"]
    print(f"{CASES:,} GEMMs, best of {REPEATS}")
    for name, seconds in best.items():
        print(
            f"  {name:46s} {seconds * 1e3:7.1f} ms  {seconds / base:5.2f} x bare  {seconds / counted:5.2f} x with counts"
        )


def processes() -> None:
    commands = {
        'python -c "import numpy"': ["-c", "import numpy"],
        "ridgeline predict gemm ...": [
            "-m",
            "ridgeline",
            "predict",
            "gemm",
            "m=4096",
            "n=4096",
            "k=4096",
            "--on",
            "h200-sxm",
        ],
        "ridgeline --help": ["-m", "ridgeline", "--help"],
        'python -c "import ridgeline"': ["-c", "import ridgeline"],
    }
    best = dict.fromkeys(commands, float("inf"))
    for _ in range(15):
        for name, words in commands.items():
            best[name] = min(
                best[name],
                timed(lambda words=words: subprocess.run([sys.executable, *words], check=True, capture_output=True)),
            )
    base = best['python -c "import numpy"']
    print("whole processes, best of 15")
    for name, seconds in best.items():
        print(f"  {name:46s} {seconds * 1e3:7.1f} ms  {seconds / base:5.2f} x import numpy")


if __name__ == "__main__":
    arrays()
    processes()
