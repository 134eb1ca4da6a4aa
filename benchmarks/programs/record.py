"""Record programs on this machine's GPU: kernel time and wall time of a step, eager and compiled.

    python benchmarks/programs/record.py --out FOLDER [--set models] [--only "gpt2 train,vit train"] [--mode eager|compiled] [--warm]

Writes one document (`programs.json`: per case the wall time of a step without profiler and the kernel time with it) and one
trace per case. `--warm` only compiles, so that several processes fill the compiler's cache at once.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from models import Built
from sets import SETS, cases

WARMUP, STEPS, ROUNDS, RECORDED = 3, 5, 5, 3


def compiled(step: Any) -> Any:
    return torch.compile(step)


def wall_time(step: Any, args: tuple[Any, ...]) -> float:
    """Median over rounds of the seconds per step, with the device idle before and after each round."""
    rounds = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(STEPS):
            step(*args)
        torch.cuda.synchronize()
        rounds.append((time.perf_counter() - began) / STEPS)
    return statistics.median(rounds)


def recorded(step: Any, args: tuple[Any, ...], path: Path) -> dict[str, float]:
    """The trace of some steps, and the time and number of kernels of one step."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        for place in range(RECORDED):
            with torch.profiler.record_function(f"ProfilerStep#{place}"):
                step(*args)
        torch.cuda.synchronize()
    plain = path.with_suffix("")
    profiler.export_chrome_trace(str(plain))
    events = json.loads(plain.read_text())["traceEvents"]
    kernels = [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    with plain.open("rb") as source, gzip.open(path, "wb", compresslevel=6) as packed:
        shutil.copyfileobj(source, packed)
    plain.unlink()
    return {
        "device_us": sum(event["dur"] for event in kernels) / RECORDED,
        "kernels": len(kernels) / RECORDED,
    }


def measure(name: str, build: Callable[[str], Built], mode: str, folder: Path, warm: bool) -> dict[str, Any] | None:
    torch.manual_seed(0)
    step, args = build("cuda")
    step = compiled(step) if mode == "compiled" else step
    for _ in range(1 if warm else WARMUP):
        step(*args)
    torch.cuda.synchronize()
    if warm:
        return None
    wall = wall_time(step, args)
    peak = torch.cuda.max_memory_allocated()
    file = folder / f"{name.replace(' ', '-')}-{mode}.json.gz"
    return {"case": name, "mode": mode, "wall_us": wall * 1e6, **recorded(step, args, file), "peak_memory": peak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", choices=SETS, default="models")
    parser.add_argument("--only", default="")
    parser.add_argument("--mode", default="eager", choices=("eager", "compiled"))
    parser.add_argument("--warm", action="store_true")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    programs = cases(given.set)
    names = [name.strip() for name in given.only.split(",") if name.strip()] or list(programs)
    rows = []
    for name in names:
        began = time.perf_counter()
        try:
            row = measure(name, programs[name], given.mode, given.out, given.warm)
        except Exception as error:  # the others are still worth recording
            row = {"case": name, "mode": given.mode, "failed": f"{type(error).__name__}: {error}"[:300]}
        if row:
            rows.append(row)
            with (given.out / "programs.jsonl").open("a") as log:
                log.write(json.dumps(row) + "\n")
        print(f"{name} {given.mode}: {time.perf_counter() - began:.1f} s {row}", flush=True)
        torch._dynamo.reset()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
