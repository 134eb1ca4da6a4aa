"""Pairs of kernels: `NAME_a` has a planted fault, `NAME_b` does the same work without it. A healthy kernel has no second version.

python pairs.py SET --check             every version against torch
python pairs.py SET --time OUT.csv      every version with CUDA events, L2 emptied before each run
python pairs.py SET --count             every version once, in a range of its name, between cudaProfilerStart and Stop
python pairs.py SET --trace FOLDER      faulty calls of torch, a few steps of each by torch.profiler
python pairs.py SET --cases OUT.csv     the algorithm's work of every version

SET is a folder with `kernels.py`. A pair that fails is printed and the others go on. SET/truth.csv names the planted causes.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

DEVICE = "cuda"  # "meta" has shapes without data, enough for the cases; set before a set of pairs is imported
SETS = sorted(path.parent.name for path in Path(__file__).parent.glob("*/kernels.py"))
SMS = 132  # of an H200; sizes follow it, so that cases.csv holds on any GPU
RUNS, WARM = 11, 2
FLUSH = 32 << 20  # floats: 128 MB
Tensor = torch.Tensor


@dataclass(frozen=True)
class Version:
    """One launch; `values` are tensors (given as addresses), int or float (given as 32-bit numbers)."""

    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    values: tuple[Any, ...]
    result: Callable[[], Tensor]
    shared: int = 0
    cleared: Tensor | None = None  # set to zero before a run that is checked
    start: Callable[[], object] | None = None  # what launches a kernel that is not in the code of the pair
    traced: bool = False  # calls of torch, which torch.profiler records too


@dataclass(frozen=True)
class Pair:
    code: str
    versions: tuple[Version, ...]  # the faulty one and the fixed one, or a healthy one
    wanted: Callable[[], Tensor]
    work: tuple[str, int, int]  # dtype, FLOPs, bytes
    error: float = 1e-5  # largest difference allowed, relative to the largest number wanted
    gemm: tuple[int, int, int] | None = None  # m, n, k of a product with an fp32 result, which is then the case
    tensor: bool = False  # FLOPs of tensor cores
    case: dict[str, object] | None = None  # the op and its sizes, where the case is not one of stated FLOPs and bytes


PAIRS: dict[str, Callable[..., Pair]] = {}


def pair(make: Callable[..., Pair]) -> Callable[..., Pair]:
    PAIRS[make.__name__] = make
    return make


def numbers(*shape: int, seed: int = 0) -> Tensor:
    """Random numbers in [-0.5, 0.5)."""
    if DEVICE == "meta":
        return torch.empty(shape, device=DEVICE)
    return torch.rand(shape, generator=torch.Generator(DEVICE).manual_seed(seed), device=DEVICE) - 0.5


def whole(high: int, *shape: int, seed: int = 0, dtype: torch.dtype = torch.int32) -> Tensor:
    """Random whole numbers in [0, high)."""
    if DEVICE == "meta":
        return torch.empty(shape, dtype=dtype, device=DEVICE)
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return torch.randint(0, high, shape, generator=generator, device=DEVICE, dtype=dtype)


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype, device=DEVICE)


HEAD = r"""
__device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int lane = 16; lane; lane /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, lane);
    return value;
}

// The sum over a block of up to 1024 threads, for its first thread. `parts` has room for 32.
__device__ __forceinline__ float block_sum(float value, float* parts)
{
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x >= 32)
        return 0.0f;
    return warp_sum(threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0.0f);
}

__device__ __forceinline__ float add4(float4 v) { return (v.x + v.y) + (v.z + v.w); }
"""


@lru_cache(maxsize=1)
def module(code: str) -> Any:
    import cupy

    return cupy.RawModule(code=code, options=("-std=c++17",))


def argument(value: Any) -> Any:
    import cupy

    if isinstance(value, Tensor):
        return cupy.uint64(value.data_ptr())
    return cupy.int32(value) if isinstance(value, int) else cupy.float32(value)


def prepared(code: str, version: Version) -> Callable[[], object]:
    """A function that launches a version; everything that takes the host long is done before."""
    if version.start:
        return version.start
    kernel = module(code).get_function(version.name)
    if version.shared > 48 * 1024:
        kernel.max_dynamic_shared_size_bytes = version.shared
    values = tuple(argument(value) for value in version.values)
    return lambda: kernel(version.grid, version.block, values, shared_mem=version.shared)


def difference(made: Pair, version: Version) -> float:
    """The largest difference to torch, relative to the largest number wanted; infinite where a result is not finite."""
    if version.cleared is not None:
        version.cleared.zero_()
    prepared(made.code, version)()
    torch.cuda.synchronize()
    result, wanted = version.result().double(), made.wanted().double()
    if result.shape != wanted.shape or not bool(torch.isfinite(result).all()):
        return float("inf")
    return float((result - wanted).abs().max() / wanted.abs().max())


def check(made: Pair) -> list[str]:
    wrong = []
    for version in made.versions:
        apart = difference(made, version)
        print(f"{version.name}: differs by {apart:.2g}, {made.error:.2g} allowed", file=sys.stderr, flush=True)
        wrong += [] if apart <= made.error else [version.name]
    return wrong


def timed(run: Callable[[], object]) -> list[float]:
    """Microseconds of every run. Before each, one buffer is written, then another one read, which writes the first one back."""
    written, read = torch.zeros(FLUSH, device=DEVICE), torch.zeros(FLUSH, device=DEVICE)
    for _ in range(WARM):
        run()
    samples = []
    for number in range(RUNS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        written.fill_(number)
        read.sum()
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        samples.append(1e3 * start.elapsed_time(end))
    return samples


def time_row(name: str, samples: list[float]) -> dict[str, object]:
    median = statistics.median(samples)
    print(f"{name}: {median:.1f} us, {min(samples):.1f} to {max(samples):.1f}", file=sys.stderr, flush=True)
    return {"kernel": name, "median_us": f"{median:.1f}"}


def count(made: Pair) -> None:
    """Each version once. The profiler sees only the launch: data, compilation and a first run come before."""
    for version in made.versions:
        run = prepared(made.code, version)
        run()
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        with torch.cuda.nvtx.range(version.name):
            run()
            torch.cuda.synchronize()
        torch.cuda.profiler.stop()


def trace(made: Pair, folder: Path) -> None:
    """A trace of each version that is to be traced: two steps to warm up, then three."""
    from torch.profiler import ProfilerActivity, profile, schedule

    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    folder.mkdir(parents=True, exist_ok=True)
    for version in made.versions:
        if not version.traced:
            continue
        run = prepared(made.code, version)
        run()
        torch.cuda.synchronize()
        with profile(
            activities=activities, schedule=schedule(wait=1, warmup=1, active=3), record_shapes=True
        ) as recorded:
            for _ in range(5):
                run()
                torch.cuda.synchronize()
                recorded.step()
        recorded.export_chrome_trace(str(folder / f"{version.name}.json.gz"))


def case_rows(made: Pair) -> list[dict[str, object]]:
    dtype, flops, size = made.work
    if made.case:
        work = made.case
    elif made.gemm:
        work = {"op": "gemm", "dtype": dtype, "out_dtype": "fp32", **dict(zip("mnk", made.gemm, strict=True))}
    else:
        work = {"op": "custom", "dtype": dtype, "flops": flops, "bytes": size}
        work |= {"engine": "matrix"} if made.tensor else {}
    return [{"name": version.name, **work} for version in made.versions]


def lost() -> bool:
    """Whether an error has left the device unusable for this process."""
    try:
        torch.cuda.synchronize()
    except Exception:
        return True
    return False


def write(path: Path, rows: list[dict[str, object]]) -> None:
    if not rows:
        sys.exit(f"nothing to write to {path}")
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def main() -> None:
    global DEVICE
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("set", choices=SETS, help="folder of the pairs")
    parser.add_argument("names", nargs="*", help="pairs to run; all where none is named")
    parser.add_argument("--skip", nargs="*", default=[], help="pairs to leave out")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="compare every version with torch")
    action.add_argument("--time", type=Path, metavar="CSV", help="time every version with CUDA events")
    action.add_argument("--count", action="store_true", help="launch every version once, for a profiler")
    action.add_argument("--trace", type=Path, metavar="FOLDER", help="record calls of torch with torch.profiler")
    action.add_argument("--cases", type=Path, metavar="CSV", help="write the algorithm's work of every version")
    asked = parser.parse_args()
    DEVICE = "meta" if asked.cases else DEVICE
    import_module(f"{asked.set}.kernels")  # fills PAIRS
    if unknown := {*asked.names, *asked.skip} - set(PAIRS):
        parser.error(f"no pair is called {', '.join(sorted(unknown))}; there are {', '.join(PAIRS)}")
    if not asked.cases and not torch.cuda.is_available():
        parser.error("torch finds no CUDA device; only --cases works without one")
    rows: list[dict[str, object]] = []
    wrong: list[str] = []
    names = [name for name in asked.names or PAIRS if name not in asked.skip]
    for place, name in enumerate(names, 1):
        try:
            made = PAIRS[name]()
            if asked.check:
                wrong += [name] if check(made) else []
            elif asked.time:
                rows += [time_row(version.name, timed(prepared(made.code, version))) for version in made.versions]
            elif asked.count:
                count(made)
            elif asked.trace:
                trace(made, asked.trace)
            else:
                rows += case_rows(made)
            del made
        except Exception:  # the others can still run
            print(f"{name}: failed\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            wrong.append(name)
            if asked.check and lost():  # the others in a new process
                if rest := names[place:]:
                    subprocess.run([sys.executable, __file__, asked.set, *rest, "--check"], check=False)
                break
        module.cache_clear()
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
    if asked.time or asked.cases:
        write(asked.time or asked.cases, rows)
    if wrong:
        sys.exit(f"wrong: {', '.join(wrong)}")


if __name__ == "__main__":
    import pairs  # the module that the kernels import; this one is called __main__

    pairs.main()
