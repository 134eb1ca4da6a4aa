"""Which kernels the library takes for matrix products, on a machine with an NVIDIA GPU: millions of products in a minute.

    python benchmarks/library_kernels.py FOLDER [--seconds 80] [--processes 14]

Calls are captured into CUDA graphs that are never run; a graph names its kernels and how many blocks they have. So nothing is
computed, operands need no values, and the number of products is limited by how quickly the library decides. One file for each op and
format: `drawn-*.npz` of products drawn at random, `timed-*.npz` of those in benchmarks/data that were timed.
`benchmarks/fit_products.py` reads them.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fit_products import FORMATS, PARTS, timings
from numpy.typing import NDArray

GIB = 1 << 30
SIDE_BYTES = 2 * GIB  # of an operand or result at most; each lies in a part of one buffer
WIDTHS = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8_e4m3": 1, "int8": 1}
RESULT_WIDTHS = {"fp8_e4m3": 2, "int8": 4}
TORCH_NAMES = {"fp64": "float64", "fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16",
               "fp8_e4m3": "float8_e4m3fn", "int8": "int8"}  # fmt: skip
BATCHED = ("bf16", "fp16", "fp32", "tf32")
STEPS = (1, 1, 1, 2, 4, 8, 16, 32, 64, 64, 64, 128)  # multiples that columns and inner sizes come in
POPULAR = tuple(sorted(odd << power for odd in (1, 3, 5, 7) for power in range(16)))  # sides that people choose
POPULAR_SHARE = 0.25  # of the sides that are drawn
THIN_SHARE = 0.15  # of the products whose columns and inner size may be fewer than a tile's
DRAWN = {"gemm": 900_000, "bmm": 1_100_000}  # products of each format
RELAXED = 2  # capture mode in which other calls are allowed
KERNEL_NODE = 0
MAX_NODES = 32
NO_KERNEL = 65535

Shapes = NDArray[np.int64]
Work = Callable[[Path, int, int, float], None]  # folder, rank, processes, seconds
Merge = Callable[[Path, int], None]


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2 of the driver."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        *((name, ctypes.c_uint) for name in ("x", "y", "z", "block_x", "block_y", "block_z", "shared")),
        *((name, ctypes.c_void_p) for name in ("parameters", "extra", "kernel", "context")),
    )


class Library:
    """The library's products on one stream, captured and not run."""

    def __init__(self) -> None:
        import torch

        self.torch, self.driver = torch, ctypes.CDLL("libcuda.so.1")
        self.stream = torch.cuda.Stream()
        self.handle = ctypes.c_void_p(self.stream.cuda_stream)
        self.buffer = torch.empty(3 * SIDE_BYTES + GIB, dtype=torch.uint8, device="cuda")
        self.scale = torch.ones((), device="cuda")
        self.names: dict[str, int] = {}
        self._known: dict[tuple[Any, Any], int] = {}

    def _take(self, place: int, dtype: str, *shape: int) -> Any:
        count, start = int(np.prod(shape)) * WIDTHS[dtype], place * SIDE_BYTES
        return self.buffer[start : start + count].view(getattr(self.torch, TORCH_NAMES[dtype])).view(shape)

    def call(self, op: str, dtype: str, b: int, m: int, n: int, k: int) -> Callable[[], Any]:
        """The call that `measure.cuda.calls` times."""
        torch = self.torch
        if op == "bmm":
            a, other, out = (
                self._take(place, dtype, b, *sides) for place, sides in enumerate(((m, k), (k, n), (m, n)))
            )
            return lambda: torch.bmm(a, other, out=out)
        x, weights = self._take(0, dtype, m, k), self._take(1, dtype, n, k).t()
        if dtype == "fp8_e4m3":
            result = self._take(2, "bf16", m, n)
            scales = {"scale_a": self.scale, "scale_b": self.scale}
            return lambda: torch._scaled_mm(x, weights, **scales, out_dtype=torch.bfloat16, out=result)
        if dtype == "int8":
            result = self._take(2, "fp32", m, n).view(torch.int32)
            return lambda: torch._int_mm(x, weights, out=result)
        result = self._take(2, dtype, m, n)
        return lambda: torch.mm(x, weights, out=result)

    def captured(self, run: Callable[[], Any]) -> tuple[int, list[tuple[int, int, int, int]]]:
        """How many nodes of a call are no kernels, and each kernel with its blocks."""
        driver, graph = self.driver, ctypes.c_void_p()
        self._must(driver.cuStreamBeginCapture_v2(self.handle, RELAXED))
        try:
            run()
        finally:
            ended = driver.cuStreamEndCapture(self.handle, ctypes.byref(graph))
        self._must(ended)
        nodes, count = (ctypes.c_void_p * MAX_NODES)(), ctypes.c_size_t(MAX_NODES)
        self._must(driver.cuGraphGetNodes(graph, nodes, ctypes.byref(count)))
        kernels, node, kind = [], KernelNode(), ctypes.c_int()
        for place in range(count.value):
            each = ctypes.c_void_p(nodes[place])
            driver.cuGraphNodeGetType(each, ctypes.byref(kind))
            if kind.value == KERNEL_NODE:
                self._must(driver.cuGraphKernelNodeGetParams_v2(each, ctypes.byref(node)))
                kernels.append((self._name(node), node.x, node.y, node.z))
        driver.cuGraphDestroy(graph)
        return count.value - len(kernels), kernels

    def _name(self, node: KernelNode) -> int:
        of = (node.function, node.kernel)
        if of not in self._known:
            name = ctypes.c_char_p()
            if node.function:
                self._must(self.driver.cuFuncGetName(ctypes.byref(name), ctypes.c_void_p(node.function)))
            else:
                self._must(self.driver.cuKernelGetName(ctypes.byref(name), ctypes.c_void_p(node.kernel)))
            self._known[of] = self.names.setdefault((name.value or b"").decode(), len(self.names))
        return self._known[of]

    @staticmethod
    def _must(result: int) -> None:
        if result:
            raise RuntimeError(f"the CUDA driver answered {result}")


def drawn(op: str, dtype: str, count: int, random: np.random.Generator) -> Shapes:
    """Products with sides drawn log-uniformly, in multiples that decide which kernels can take them, or of popular sizes."""

    def sides(low: Any, high: float, step: Any) -> Shapes:
        size = np.exp(random.uniform(np.log(low), np.log(high), count))
        size = np.maximum(np.rint(size / step), 1) * step
        among = [side for side in POPULAR if side <= high and side % least == 0]
        popular = random.random(count) < POPULAR_SHARE
        return np.asarray(np.where(popular, random.choice(among, count), size), dtype=np.int64)

    least = 16 if WIDTHS[dtype] == 1 else 1
    columns = np.maximum(random.choice(STEPS, count), least)
    inner = np.where(random.random(count) < 0.6, columns, np.maximum(random.choice(STEPS, count), least))
    lines = np.where(random.random(count) < 0.75, 1, 64)
    most_rows, most = (4096, 4096) if op == "bmm" else (16384, 32768)
    least_side = np.where(random.random(count) < THIN_SHARE, least, 8 if op == "bmm" else 16)
    b = sides(1, 1024, 1) if op == "bmm" else np.ones(count, dtype=np.int64)
    m = np.maximum(sides(1, most_rows, lines), 17 if dtype == "int8" else 1)
    n, k = sides(least_side, most, columns), sides(least_side, most, inner)
    return np.stack([b, m, n, k], axis=1)


def fitting(dtype: str, shapes: Shapes) -> Shapes:
    """The products whose operands and result have room."""
    b, m, n, k = shapes.T
    width, result = WIDTHS[dtype], RESULT_WIDTHS.get(dtype, WIDTHS[dtype])
    most = b * np.maximum(np.maximum(m * k * width, n * k * width), m * n * result)
    return np.asarray(shapes[most <= SIDE_BYTES])


def asked(library: Library, op: str, dtype: str, shapes: Shapes, seconds: float) -> dict[str, NDArray[Any]]:
    """The kernels of these products, as many as there is time for."""
    torch, end, found = library.torch, time.monotonic() + seconds, []
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    with torch.cuda.stream(library.stream):
        library.call(op, dtype, 1, 64, 64, 64)()  # makes the library's workspace, which a graph cannot
        torch.cuda.synchronize()
        for shape in shapes.tolist():
            if time.monotonic() > end:
                break
            others, kernels = library.captured(library.call(op, dtype, *shape))
            first = kernels[0] if kernels else (NO_KERNEL, 0, 0, 0)
            second = kernels[1][0] if len(kernels) > 1 else NO_KERNEL
            found.append((*shape, others, len(kernels), *first, second))
    table = np.array(found, dtype=np.int64).reshape(-1, 4 + len(PARTS))
    return dict(zip(("b", "m", "n", "k", *PARTS), table.T, strict=True))


def work(folder: Path, rank: int, processes: int, seconds: float) -> None:
    library, random = Library(), np.random.default_rng([rank, 20261118])
    kinds = [*(("gemm", dtype) for dtype in FORMATS), *(("bmm", dtype) for dtype in BATCHED)]
    known = timings()
    for op, dtype in kinds:
        listed = np.array(sorted(known.get((op, dtype), {})), dtype=np.int64).reshape(-1, 4)[rank::processes]
        count = DRAWN[op] // processes
        for kind, shapes in (("timed", listed), ("drawn", drawn(op, dtype, count, random))):
            table = asked(library, op, dtype, fitting(dtype, shapes), seconds / len(kinds))
            names = np.array(list(library.names))
            np.savez(folder / f"{kind}-{op}-{dtype}.{rank}.npz", names=names, **table)


def merge(folder: Path, processes: int) -> None:
    """One file for each op and format, with one list of names."""
    for path in sorted(folder.glob("*.0.npz")):
        parts = [np.load(path.with_name(path.name.replace(".0.npz", f".{rank}.npz"))) for rank in range(processes)]
        names = {
            name: place for place, name in enumerate(sorted({str(name) for part in parts for name in part["names"]}))
        }
        table: dict[str, list[NDArray[Any]]] = {}
        for part in parts:
            places = np.array([*(names[str(name)] for name in part["names"])] or [0])
            for column in ("b", "m", "n", "k", *PARTS):
                values = part[column]
                if column in ("kernel", "second"):
                    values = np.where(values == NO_KERNEL, NO_KERNEL, places[np.minimum(values, len(places) - 1)])
                table.setdefault(column, []).append(values.astype(np.uint32))
        merged = {column: np.concatenate(values) for column, values in table.items()}
        name = path.name.replace(".0.npz", ".npz")
        np.savez_compressed(folder / name, names=np.array(list(names)), **merged)
        print(f"{name}: {len(merged['m'])} products, {len(np.unique(merged['kernel']))} kernels", flush=True)
        for rank in range(processes):
            path.with_name(path.name.replace(".0.npz", f".{rank}.npz")).unlink()


def share(description: str, seconds: float, work: Work, merge: Merge) -> None:
    """Let processes do the work of a script side by side, then merge what they wrote."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("--processes", type=int, default=14)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        work(options.folder, options.rank, options.processes, options.seconds)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ranks = range(options.processes)
    workers = [subprocess.Popen([sys.executable, *sys.argv, "--rank", str(rank)], env=environment) for rank in ranks]
    codes = [worker.wait() for worker in workers]
    if any(codes):
        sys.exit(f"{sum(map(bool, codes))} of {len(codes)} processes failed")
    merge(options.folder, options.processes)


if __name__ == "__main__":
    share(__doc__ or "", 80.0, work, merge)
