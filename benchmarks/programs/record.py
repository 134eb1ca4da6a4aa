"""Record programs on this machine's GPU: kernel, host and wall time of a step, eager and compiled.

    python benchmarks/programs/record.py --out FOLDER [--set models] [--only "gpt2 train,vit train"] [--mode eager|compiled] [--warm]
                                         [--untraced]

Writes a line per case to `programs.jsonl` (without profiler: the wall time of a step, and the time until the host has dispatched one;
with it: the kernel time) and one trace per case. All cases are timed before the first is profiled, because a profiler that was
on once slows the launches after it. `call_us` is what calls took on the host around each round (`ridgeline.measure.cuda.host_calls`):
hosts differ, and one host differs from minute to minute. `--warm` only compiles, so that several processes fill the
compiler's cache at once; `--untraced` leaves the profiler out.
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

from ridgeline.measure.cuda.host_calls import HostCalls, typical

WARMUP, STEPS, ROUNDS, RECORDED = 3, 5, 5, 3


def compiled(step: Any) -> Any:
    return torch.compile(step)


def wall_time(step: Any, args: tuple[Any, ...]) -> float:
    """Seconds per step of some that follow each other, with the device idle before and after."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(STEPS):
        step(*args)
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / STEPS


def host_time(step: Any, args: tuple[Any, ...]) -> float:
    """Seconds until the host has dispatched a step to an idle device. Above 1024 launches it may wait for the device."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    step(*args)
    return time.perf_counter() - began


def timed(step: Any, args: tuple[Any, ...], calls: HostCalls) -> dict[str, Any]:
    """Medians over rounds; each round has its calls, its dispatch and its steps."""
    rounds = []
    for _ in range(ROUNDS):
        before = calls.round()
        host = min(host_time(step, args) for _ in range(2))
        rounds.append((wall_time(step, args), host, before, calls.round()))
    walls, hosts = ([row[place] for row in rounds] for place in range(2))
    around = typical([each for row in rounds for each in row[2:]])
    return {
        "wall_us": statistics.median(walls) * 1e6,
        "host_us": statistics.median(hosts) * 1e6,
        "call_us": {name: round(seconds * 1e6, 3) for name, seconds in around.items()},
        "rounds": [
            {"wall_us": wall * 1e6, "host_us": host * 1e6, "add_us": [1e6 * row["add"] for row in pair]}
            for wall, host, *pair in rounds
        ],
    }


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


def measure(
    name: str, build: Callable[[str], Built], mode: str, folder: Path, what: str, calls: HostCalls | None
) -> dict[str, Any] | None:
    """`what`: warm, timed or traced."""
    torch.manual_seed(0)
    step, args = build("cuda")
    step = compiled(step) if mode == "compiled" else step
    for _ in range(1 if what == "warm" else WARMUP):
        step(*args)
    torch.cuda.synchronize()
    if what == "warm":
        return None
    torch.cuda.reset_peak_memory_stats()  # the memory of a step, not that of building the model
    if calls is not None:
        row = timed(step, args, calls)
        return {"case": name, "mode": mode, **row, "peak_memory": torch.cuda.max_memory_allocated()}
    file = folder / f"{name.replace(' ', '-')}-{mode}.json.gz"
    return {"case": name, "mode": mode, **recorded(step, args, file)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", choices=SETS, default="models")
    parser.add_argument("--only", default="")
    parser.add_argument("--mode", default="eager", choices=("eager", "compiled"))
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--untraced", action="store_true")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    programs = cases(given.set)
    names = [name.strip() for name in given.only.split(",") if name.strip()] or list(programs)
    rows: dict[str, dict[str, Any]] = {}
    for what in ["warm"] if given.warm else ["timed"] if given.untraced else ["timed", "traced"]:
        calls = HostCalls(torch) if what == "timed" else None
        for name in names:
            began = time.perf_counter()
            try:
                row = measure(name, programs[name], given.mode, given.out, what, calls)
            except Exception as error:  # the others are still worth recording
                row = {"case": name, "mode": given.mode, "failed": f"{type(error).__name__}: {error}"[:300]}
            if row:
                rows[name] = {**rows.get(name, {}), **row}
                lines = (json.dumps(each) for each in rows.values())
                (given.out / "programs.jsonl").write_text("\n".join(lines) + "\n")
            print(f"{name} {given.mode} {what}: {time.perf_counter() - began:.1f} s {row}", flush=True)
            torch._dynamo.reset()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
