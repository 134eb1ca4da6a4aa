"""Record many programs within minutes: each in a process of its own, all built and compiled at once, then timed one by one.

    python benchmarks/programs/together.py --out FOLDER [--set held_out_5] [--compiled "gemma2-2b prefill,mixer-b train"]
                                           [--eager NAMES] [--ready 100] [--turn 30]

Every process builds its program, runs it until its kernels are compiled, and waits. When all of them wait, or after `--ready` seconds,
they take turns: while one is timed and then profiled, the others sleep, so that neither host nor device is shared. A program that is
not ready by then, or that takes longer than `--turn` seconds, is recorded last or as failed; the others are not lost.

Writes `programs.jsonl`, a line per program as `record.py` does, and `kernels.jsonl.gz`, a line per program with the kernels of one
profiled step: [start us, us, name of the kernel, operators that launched it (innermost first), shapes of their inputs].
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import os
import tempfile
import time
from collections import defaultdict
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from sets import SETS, cases

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
LAUNCH = ("cuda_runtime", "cuda_driver")
STEP = "ProfilerStep#1"  # neither the first nor the last
KEPT_OPERATORS, KEPT_NAME = 4, 150  # operators around a launch, characters of a kernel's name
READY = "ready"
MODES = ("eager", "compiled")


def kernels_of(path: Path) -> list[list[Any]]:
    """The kernels of one profiled step, in the order in which they began."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    marks = [event for event in events if event.get("name") == STEP and event.get("cat") == "user_annotation"]
    began, ended = marks[0]["ts"], marks[0]["ts"] + marks[0]["dur"]
    launched: dict[int, list[dict[str, Any]]] = defaultdict(list)
    threads: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event.get("cat") in DEVICE:
            launched[event["args"]["correlation"]].append(event)
        elif event.get("cat") in ("cpu_op", *LAUNCH) and "dur" in event and began <= event["ts"] <= ended:
            threads[event["tid"]].append(event)
    rows = []
    for thread in threads.values():
        stack: list[dict[str, Any]] = []
        for event in sorted(thread, key=lambda each: (each["ts"], -each["dur"])):
            while stack and event["ts"] >= stack[-1]["ts"] + stack[-1]["dur"] - 1e-6:
                stack.pop()
            if event["cat"] == "cpu_op":
                stack.append(event)
                continue
            around = stack[: -KEPT_OPERATORS - 1 : -1]
            names = [item["name"] for item in around]
            shapes = next((item["args"]["Input Dims"] for item in around if "Input Dims" in item.get("args", {})), [])
            for kernel in launched.pop(event.get("args", {}).get("correlation", -1), []):
                start = round(kernel["ts"] - began, 1)
                rows.append([start, kernel["dur"], kernel["name"][:KEPT_NAME], names, shapes])
    return sorted(rows, key=lambda row: row[0])


def one(name: str, mode: str, which: str, link: Connection) -> None:
    """A process: build the program and warm it up, wait for the turn, time it, profile it."""
    row: dict[str, Any] = {"case": name, "mode": mode}
    try:
        import torch
        from record import WARMUP, compiled, recorded, timed

        from ridgeline.measure.cuda.host_calls import HostCalls

        torch.manual_seed(0)
        began = time.perf_counter()
        step, args = cases(which)[name]("cuda")
        step = compiled(step) if mode == "compiled" else step

        def warmed() -> None:
            for _ in range(WARMUP):
                step(*args)
            torch.cuda.synchronize()

        warmed()
        torch.cuda.empty_cache()  # the others need room
        row["ready_s"] = round(time.perf_counter() - began, 1)
        link.send(READY)
        link.recv()
        calls = HostCalls(torch)
        warmed()
        torch.cuda.reset_peak_memory_stats()  # the memory of a step, not that of building the model
        row |= timed(step, args, calls)
        row["peak_memory"] = torch.cuda.max_memory_allocated()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json.gz"
            row |= recorded(step, args, path)
            row["listed"] = kernels_of(path)
    except Exception as error:  # the others are still worth recording
        row["failed"] = f"{type(error).__name__}: {error}"[:300]
    link.send(row)


class Recording:
    """What came back, written after every program."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.began = folder, time.perf_counter()
        self.rows: list[dict[str, Any]] = []
        self.kernels = gzip.open(folder / "kernels.jsonl.gz", "wt", encoding="utf-8")  # noqa: SIM115

    def add(self, row: dict[str, Any]) -> None:
        key = {name: row[name] for name in ("case", "mode")}
        if listed := row.pop("listed", None):
            self.kernels.write(json.dumps({**key, "kernels": listed}) + "\n")
            self.kernels.flush()
        self.rows.append(row)
        (self.folder / "programs.jsonl").write_text("".join(json.dumps(each) + "\n" for each in self.rows))
        shown = {name: value for name, value in row.items() if name not in ("rounds", "call_us")}
        print(f"{time.perf_counter() - self.began:.0f} s {shown}", flush=True)


def turn(key: tuple[str, str], link: Connection, seconds: float) -> dict[str, Any]:
    """What a program sends when it may go. One that failed before has sent it already; one that was late is waited for."""
    deadline = time.perf_counter() + seconds
    row = {"case": key[0], "mode": key[1]}
    try:
        while link.poll(max(deadline - time.perf_counter(), 0)):
            sent = link.recv()
            if isinstance(sent, dict):
                return sent
            link.send("go")
        return {**row, "failed": f"no result within {seconds:.0f} s"}
    except (EOFError, OSError):
        return {**row, "failed": "the process ended"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", choices=SETS, default="held_out_5")
    parser.add_argument("--eager", default="")
    parser.add_argument("--compiled", default="")
    parser.add_argument("--ready", type=float, default=100)
    parser.add_argument("--turn", type=float, default=30)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")  # several programs compile at once
    names = {mode: [part.strip() for part in getattr(given, mode).split(",") if part.strip()] for mode in MODES}
    keys = [(name, "eager") for name in names["eager"] or cases(given.set)]
    keys += [(name, "compiled") for name in names["compiled"]]
    spawn = multiprocessing.get_context("spawn")
    recording, links, processes = Recording(given.out), {}, dict[tuple[str, str], BaseProcess]()
    for key in keys:
        links[key], theirs = spawn.Pipe()
        processes[key] = spawn.Process(target=one, args=(*key, given.set, theirs), daemon=False)
        processes[key].start()
        theirs.close()
    deadline = time.perf_counter() + given.ready
    late = list(keys)
    while late and (left := deadline - time.perf_counter()) > 0:
        heard = wait([links[key] for key in late], left)
        late = [key for key in late if links[key] not in heard]
    print(f"{time.perf_counter() - recording.began:.0f} s, not ready: {late}", flush=True)
    for key in sorted(keys, key=lambda key: key in late):
        recording.add(turn(key, links[key], given.turn))
        processes[key].terminate()
        processes[key].join(5)
    recording.kernels.close()


if __name__ == "__main__":
    main()
