"""Kernels that TorchInductor makes of chains of calls, one at a time: recorded on a GPU, and predicted.

    python benchmarks/programs/compiled_kernels.py --record FILE [--processes 12]     on a GPU
    python benchmarks/programs/compiled_kernels.py --compare FILE [--on h200-sxm]     anywhere

Each case is a function that compiles to one or two Triton kernels: norms with a residual, softmax with and without a bias, losses,
pointwise chains and transposed copies, by the length of a row. Several processes compile, one at a time is timed: the sum of the times of
its Triton kernels by torch.profiler, the median of some runs, with the L2 overwritten before each.
"""

from __future__ import annotations

import argparse
import csv
import fcntl
import multiprocessing
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

REPEATS, FLUSH = 5, 256 * 2**20
FIELDS = ("kind", "rows", "width", "dtype", "kernels", "time_us", "names")
WIDTHS = (32, 49, 64, 100, 128, 197, 256, 320, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192)
SIZES = (2**22, 2**24, 2**26)
Made = tuple[Callable[..., Any], tuple[Any, ...]]


def rms(x: Any, residual: Any, weight: Any) -> Any:
    hidden = x + residual
    wide = hidden.float()
    return hidden, (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


def layer(x: Any, residual: Any, weight: Any, bias: Any) -> Any:
    hidden = x + residual
    return hidden, functional.layer_norm(hidden, x.shape[-1:], weight, bias)


def softmax(x: Any) -> Any:
    return (x * 0.125).softmax(-1)


def biased(x: Any, bias: Any) -> Any:
    return (x * 0.125 + bias).softmax(-1)


def loss(x: Any, target: Any) -> Any:
    wide = x.float()
    return torch.logsumexp(wide, -1) - wide.gather(-1, target).squeeze(-1)


def gelu(x: Any, bias: Any) -> Any:
    return functional.gelu(x + bias)


def gated(x: Any, y: Any) -> Any:
    return functional.silu(x) * y


def swapped(x: Any) -> Any:
    return x.transpose(1, 2).contiguous() * 2.0


def make(kind: str, rows: int, width: int, dtype: str, device: str) -> Made:
    """A function and its arguments, on a device or on `meta`."""

    def full(*shape: int) -> Any:
        return torch.randn(*shape, device=device, dtype=getattr(torch, dtype))

    if kind in ("rms", "layer"):
        weights = tuple(full(width) for _ in range(1 if kind == "rms" else 2))
        return (rms if kind == "rms" else layer), (full(rows, width), full(rows, width), *weights)
    if kind == "biased":
        return biased, (full(rows // 64, 64, width), full(64, width))
    if kind == "loss":
        return loss, (full(rows, width), torch.zeros(rows, 1, dtype=torch.int64, device=device))
    if kind == "gelu":
        return gelu, (full(rows, width), full(width))
    if kind == "gated":
        return gated, (full(rows, width), full(rows, width))
    if kind == "swapped":
        return swapped, (full(rows // 1024, 64, 16, width),)
    return softmax, (full(rows, width),)


def drawn() -> Iterator[tuple[str, int, int, str]]:
    """The cases: every width with every kind, sizes and formats in turn."""
    for place, width in enumerate(WIDTHS):
        for number, kind in enumerate(("rms", "layer", "softmax", "biased")):
            for step in range(2):
                size, dtype = (
                    SIZES[(place + number + step) % 3],
                    ("bfloat16", "float32")[(place + number // 2 + step) % 2],
                )
                yield kind, max(size // width // 64, 1) * 64, width, dtype
    for place, width in enumerate((8192, 32000, 50257, 128256)):
        yield "loss", (2048, 512, 4096, 1024)[place], width, "bfloat16"
    for place, width in enumerate((768, 1024, 3072, 4096, 11008)):
        for kind in ("gelu", "gated"):
            yield kind, SIZES[place % 3] // width, width, "bfloat16"
    for place, width in enumerate((32, 64, 80, 128)):
        yield "swapped", SIZES[place % 3] // width // 1024 * 1024, width, "bfloat16"


def timed(run: Callable[..., Any], args: tuple[Any, ...], flush: Any) -> tuple[float, float, str]:
    """Seconds of the Triton kernels of one run, how many, and their names."""
    runs = []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(REPEATS):
            flush.zero_()
            run(*args)
        torch.cuda.synchronize()
    kernels = [event for event in profiler.events() if event.name.startswith("triton")]
    by_name = defaultdict(list)
    for event in kernels:
        by_name[event.name].append(event.device_time)
    runs = [statistics.median(times) * len(times) / REPEATS for times in by_name.values()]
    return sum(runs), len(kernels) / REPEATS, " ".join(sorted(by_name))


def work(cases: list[tuple[str, int, int, str]], lock_path: str, out: Path) -> None:
    flush = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")
    for kind, rows, width, dtype in cases:
        try:
            function, args = make(kind, rows, width, dtype, "cuda")
            torch._dynamo.reset()
            run = torch.compile(function, dynamic=False)
            run(*args)
            torch.cuda.synchronize()
            with open(lock_path, "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                run(*args)
                row = timed(run, args, flush)
                with out.open("a", newline="") as stream:
                    csv.writer(stream).writerow((kind, rows, width, dtype, row[1], round(row[0], 3), row[2]))
        except Exception as error:  # the others are still worth recording
            print(kind, rows, width, dtype, f"{type(error).__name__}: {error}"[:200], flush=True)
        del function, args


def record(out: Path, processes: int) -> None:
    out.write_text(",".join(FIELDS) + "\n")
    listed = list(drawn())
    spawn = multiprocessing.get_context("spawn")
    with tempfile.NamedTemporaryFile() as lock:
        started = [
            spawn.Process(target=work, args=(listed[place::processes], lock.name, out)) for place in range(processes)
        ]
        for process in started:
            process.start()
        for process in started:
            process.join()


def compare(path: Path, machine: str) -> None:
    """Every case with its predicted time, and the median ratio by kind."""
    import ridgeline as rl

    ratios = defaultdict(list)
    on = rl.machine(machine)
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in sorted(rows, key=lambda row: (row["kind"], int(row["width"]))):
        function, args = make(row["kind"], int(row["rows"]), int(row["width"]), row["dtype"], "meta")
        made = rl.predict(rl.trace(function, *args, compiled=True), on, mode="fused")
        ratio = made.totals["time_us"] / float(row["time_us"])
        ratios[row["kind"]].append(ratio)
        print(
            f"{row['kind']:8} {row['rows']:>8} x {row['width']:<6} {row['dtype']:8} {float(row['time_us']):8.1f} us, {row['kernels']} kernels; "
            f"predicted {made.totals['time_us']:8.1f} us in {made.totals['kernels']:.0f}, {100 * ratio - 100:+.0f} %"
        )
    for kind, listed in ratios.items():
        errors = [abs(ratio - 1) for ratio in listed]
        print(
            f"{kind}: {len(listed)} cases, predicted / recorded {statistics.median(listed):.2f}, error {100 * statistics.median(errors):.0f} % median"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--on", default="h200-sxm")
    given = parser.parse_args()
    began = time.perf_counter()
    if given.record:
        record(given.record, given.processes)
        print(f"{time.perf_counter() - began:.0f} s")
    if given.compare:
        compare(given.compare, given.on)


if __name__ == "__main__":
    main()
