"""The kernels `ridgeline run` predicts and runs: real work on all cores, each with its counts and its checked answer."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import RidgelineError
from ...core.work import Work, work
from ...programs import ops
from ..conditions import allowed_cpus
from ..protocol import Probe, Timing
from .gemm import blas

# Share of all cores' time that a kernel gets on an idle machine; handing out the ranges takes the rest.
IDLE_SHARE = 0.93

Pointer = ctypes.c_void_p
Index = ctypes.c_int64


@dataclass(frozen=True)
class Kernel:
    """A kernel to predict and run; `how` says who executes it."""

    name: str
    work: Work
    run: Callable[[], Any]
    check: Callable[[], None]
    how: str = "C, all cores"
    library: bool = False  # runs in a library with its own threads

    def probe(self) -> Probe:
        call, settings = partial(_on_all_cores, self.run), {"how": self.how}
        return Probe(self.name, self.work.name, call, self.work, settings, check=self.check, min_seconds=0.02)


def _on_all_cores(call: Callable[[], Any], loops: int = 1) -> Timing:
    """The time of calls that want every core, and the share of the cores' time they got."""
    start, ran = time.perf_counter(), time.process_time()
    for _ in range(loops):
        call()
    wall = time.perf_counter() - start
    share = (time.process_time() - ran) / (wall * allowed_cpus())
    return Timing(wall, min(1.0, share / IDLE_SHARE))


def _address(array: NDArray[Any]) -> Pointer:
    return Pointer(array.ctypes.data)


class Suite:
    """The kernels over shared arrays, cut into one range of rows per core; without a compiled library only `gemm`."""

    def __init__(self, library: Any, cache: float) -> None:
        self.library = library
        self.cache = cache  # bytes of the largest cache: what is meant for the memory must be well beyond it
        self.threads = allowed_cpus()
        self.pool = ThreadPoolExecutor(self.threads)
        self.random = np.random.default_rng(1)
        if library is not None:
            library.suite_dot.restype = ctypes.c_double

    def over(self, rows: int, call: Callable[[int, int], Any]) -> list[Any]:
        """Call once per core on its range of rows; the foreign functions release the interpreter's lock."""
        edges = np.linspace(0, rows, self.threads + 1).astype(int)
        parts = [self.pool.submit(call, int(first), int(last)) for first, last in pairwise(edges)]
        return [part.result() for part in parts]

    def compiled(self, function: Any, arguments: tuple[Any, ...], rows: int) -> Callable[[], list[Any]]:
        """A call of a C kernel on all cores, each with its range of rows."""
        return lambda: self.over(rows, lambda first, last: function(*arguments, Index(first), Index(last)))

    def floats(self, *shape: int, dtype: str = "float32") -> NDArray[Any]:
        return self.random.standard_normal(shape).astype(dtype)

    def large(self, width: int, arrays: int) -> int:
        """Elements per array so that all of them together are four times the largest cache, and 64 MB at least."""
        return int(max(4 * self.cache, 64e6) / (arrays * width)) // 4096 * 4096

    def triad(self) -> Kernel:
        n, s = self.large(8, 3), 0.75
        a, b, c = np.zeros(n), self.floats(n, dtype="float64"), self.floats(n, dtype="float64")
        arguments = (_address(a), _address(b), _address(c), ctypes.c_double(s))
        call = self.compiled(self.library.suite_triad, arguments, n)
        return Kernel("triad", ops.stream_triad(n), call, lambda: _expect("triad", a, b + s * c))

    def dot(self) -> Kernel:
        n = self.large(8, 2)
        x, y, result = self.floats(n, dtype="float64"), self.floats(n, dtype="float64"), [0.0]
        parts = self.compiled(self.library.suite_dot, (_address(x), _address(y)), n)

        def call() -> None:
            result[0] = sum(parts())

        counted = ops.dot(n, dtype="fp64")
        return Kernel("dot", counted, call, lambda: _expect("dot", result[0], float(x @ y), 1e-6))

    def gemv(self) -> Kernel:
        columns = 4096
        rows = max(1024, self.large(4, 1) // columns)
        a, x, y = self.floats(rows, columns), self.floats(columns), np.zeros(rows, np.float32)
        arguments = (_address(a), _address(x), _address(y), Index(columns))
        call = self.compiled(self.library.suite_gemv, arguments, rows)
        counted = ops.gemv(rows, columns, dtype="fp32")
        return Kernel("gemv", counted, call, lambda: _expect("gemv", y, a @ x, 1e-3))

    def gemm(self, n: int = 1024, dtype: str = "fp32") -> Kernel:
        kind = {"fp32": "float32", "fp64": "float64"}[dtype]
        a, b = self.floats(n, n, dtype=kind), self.floats(n, n, dtype=kind)
        c = np.zeros((n, n), kind)

        _, set_threads = blas()
        if set_threads:
            set_threads(self.threads)  # a probe before may have left the library on one core

        def check() -> None:
            _expect("gemm", c[:8], (a[:8].astype(np.float64) @ b.astype(np.float64)), 1e-3)

        call, counted = partial(np.matmul, a, b, out=c), ops.gemm(n, n, n, dtype=dtype)
        return Kernel(f"gemm {dtype}", counted, call, check, "NumPy's BLAS, its own threads", True)

    def softmax(self) -> Kernel:
        columns = 4096
        rows = max(256, self.large(4, 2) // columns)
        x, y = self.floats(rows, columns), np.zeros((rows, columns), np.float32)
        call = self.compiled(self.library.suite_softmax, (_address(x), _address(y), Index(columns)), rows)

        def check() -> None:
            raised = np.exp(x[:4].astype(np.float64) - x[:4].max(axis=1, keepdims=True))
            _expect("softmax", y[:4], raised / raised.sum(axis=1, keepdims=True), 1e-4)

        return Kernel("softmax", ops.softmax(rows, columns, dtype="fp32"), call, check)

    def layernorm(self) -> Kernel:
        columns = 4096
        rows = max(256, self.large(4, 2) // columns)
        x, y = self.floats(rows, columns), np.zeros((rows, columns), np.float32)
        gamma, beta = self.floats(columns), self.floats(columns)
        arguments = (_address(x), _address(y), _address(gamma), _address(beta), Index(columns))
        call = self.compiled(self.library.suite_layernorm, arguments, rows)

        def check() -> None:
            rows = x[:4].astype(np.float64)
            scaled = (rows - rows.mean(axis=1, keepdims=True)) / np.sqrt(rows.var(axis=1, keepdims=True) + 1e-5)
            _expect("layernorm", y[:4], scaled * gamma + beta, 1e-3)

        return Kernel("layernorm", ops.layernorm(rows, columns, dtype="fp32"), call, check)

    def stencil(self) -> Kernel:
        width = 4096
        rows = max(256, self.large(4, 2) // width)
        x, y, w = self.floats(rows + 2, width + 2), np.zeros((rows, width), np.float32), self.floats(9)
        call = self.compiled(self.library.suite_stencil, (_address(x), _address(y), _address(w), Index(width)), rows)

        def check() -> None:
            parts = [w[3 * i + j] * x[i : i + 4, j : j + width] for i in range(3) for j in range(3)]
            _expect("stencil", y[:4], np.sum(parts, axis=0), 1e-3)

        # nine multiplications and eight additions per pixel on the vector units; one image in, one out
        pixels = float(rows * width)
        counted = work(
            vector={"3 x 3 taps": (17 * pixels, "17 rows width")},
            read={"x": ((rows + 2.0) * (width + 2), "fp32", "(rows+2) (width+2)"), "w": (9.0, "fp32", "9")},
            write={"y": (pixels, "fp32", "rows width")},
            dtype="fp32",
        )
        counted = replace(counted, name="stencil", family="stream")
        return Kernel("stencil 3x3", counted, call, check)

    def exponential(self) -> Probe:
        """Results per second of the suite's own exp on data in the nearest cache: the special-function ceiling of its kernels."""
        n, reps = 4096, 64
        x = [self.floats(n) for _ in range(self.threads)]
        y = [np.zeros(n, np.float32) for _ in range(self.threads)]
        run = self.library.suite_exp

        def call(loops: int) -> Timing:
            repeats = Index(reps * loops)

            def on_core(first: int, _: int) -> None:
                run(_address(x[first]), _address(y[first]), Index(n), repeats)

            return _on_all_cores(lambda: self.over(self.threads, on_core))

        results = float(n * reps * self.threads)
        counted = work(vector={"exp": (results, "n reps threads")}, dtype="fp32")
        return Probe(
            "exp", "special.fp32", call, counted, {"threads": self.threads, "variant": "polynomial of degree 6"},
            check=lambda: _expect("exp", y[0], np.exp(x[0].astype(np.float64)), 1e-5), min_seconds=0.02,
        )  # fmt: skip

    def kernels(self) -> list[Kernel]:
        makers = (self.triad, self.dot, self.gemv, self.gemm, self.softmax, self.layernorm, self.stencil)
        return [make() for make in makers]


def _expect(name: str, actual: Any, expected: Any, tolerance: float = 1e-9) -> None:
    if not np.allclose(actual, expected, rtol=tolerance, atol=tolerance):
        worst = float(np.max(np.abs(np.asarray(actual) - np.asarray(expected))))
        raise RidgelineError(
            f"kernel {name} computed a wrong answer (off by up to {worst:.3g}); its time means nothing"
        )
