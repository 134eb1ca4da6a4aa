"""The kernels `ridgeline run` predicts and runs on a CPU: real work on all cores, at several sizes, with checked answers.

Every size of a kernel is a part of the same two arrays, which are allocated once and touched first by the threads that
use them. The sealed size lies between the sizes that the prediction is calibrated on.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import RidgelineError
from ...core.machine import Machine
from ...core.work import Work, work
from ...programs import ops
from ..protocol import Call, Probe, Timing
from .gemm import blas, thread_share
from .levels import available_memory
from .pool import cores
from .team import Team

SEALED_SHARE = 0.75  # of the arrays: the size that is predicted, sealed and run
CALIBRATION_SHARES = (0.6, 1.0, 0.85, 0.68)  # the sizes that are timed before, on both sides of it
CACHE_MULTIPLE = 2  # size of an array over that of the largest cache; every kernel has at least two arrays
MIN_ARRAY_BYTES = 32 << 20
MAX_TOTAL_BYTES = 2 << 30  # touched within a second or two
MAX_MEMORY_SHARE = 0.25  # of the free memory, for all arrays together
COLUMNS = 2048  # of fp32 values: a row and the next one stay in the nearest cache
LINE_FLOATS = 16  # fp32 values of a cache line
PRODUCT_SECONDS = 0.02  # that the largest matrix product takes at the peak
PRODUCT_SIDES = (512, 4096)
MIN_SAMPLE_SECONDS = 0.004  # short, so that a sample fits between the time slices of another program
MAX_SHORT_CORES = 4  # up to which samples are that short

Pointer = ctypes.c_void_p
Index = ctypes.c_int64


@dataclass(frozen=True)
class Kernel:
    """A kernel of one size; `call(loops)` runs it so many times, `how` says who executes it."""

    name: str
    work: Work
    call: Call
    check: Callable[[], None]
    how: str = "C, all cores"
    library: bool = False  # runs in a library with its own threads

    def probe(self, checked: bool = True) -> Probe:
        def check() -> None:
            self.call(1)  # the arrays are shared: another kernel may have written to them since
            self.check()

        checks = check if checked else None
        return Probe(self.name, self.work.name, self.call, self.work, {"how": self.how}, (), None, checks, sample_seconds())  # fmt: skip


def sample_seconds() -> float:
    """Of the shortest sample; longer on many cores, whose threads start one after the other."""
    return MIN_SAMPLE_SECONDS * max(1.0, len(cores()) / MAX_SHORT_CORES)


def array_bytes(cache: float, free: float) -> int:
    """Bytes of one array (there are three): well beyond the largest cache, within the free memory and the time."""
    limit = min(MAX_TOTAL_BYTES, MAX_MEMORY_SHARE * free) / 3
    size = min(max(CACHE_MULTIPLE * cache, MIN_ARRAY_BYTES), limit)
    return max(int(size) >> 20, 1) << 20


def _address(array: NDArray[Any]) -> Pointer:
    return Pointer(array.ctypes.data)


class Suite:
    """The kernels over shared arrays: two to read, one to write; without a compiled library those of NumPy."""

    def __init__(self, library: Any, machine: Machine, cpus: Sequence[int] | None = None) -> None:
        self.library, self.machine = library, machine
        self.team = Team(cores() if cpus is None else cpus)
        self.random = np.random.default_rng(1)
        self.cache = machine.largest_cache
        self.bytes, self.inputs, self.outputs = self._arrays(array_bytes(self.cache, available_memory()))
        self.vectors = self._normal(2, COLUMNS)
        if library is not None:
            library.suite_dot.restype = ctypes.c_double

    def _normal(self, *shape: int) -> NDArray[np.float32]:
        return self.random.standard_normal(shape, dtype=np.float32)

    def _arrays(self, size: int) -> tuple[int, NDArray[np.float32], NDArray[np.float32]]:
        """Two arrays to read and one to write; smaller ones where a limit of the process (ulimit -v) is in the way."""
        try:
            return size, self._array(2 * size), self._array(size)
        except (OSError, MemoryError):
            if size <= 1 << 20:
                raise RidgelineError("no memory for the kernels; close other programs or raise the limit") from None
            return self._arrays(size // 2 >> 20 << 20)

    def _array(self, size: int) -> NDArray[np.float32]:
        """Page-aligned fp32 normal values, first touched by the threads that use them; read as fp64 they are finite too."""
        region = mmap.mmap(-1, size)
        with contextlib.suppress(AttributeError, OSError, ValueError):
            region.madvise(mmap.MADV_HUGEPAGE)
        array: NDArray[np.float32] = np.frombuffer(region, np.float32)
        values = self._normal(1 << 18)

        def fill(first: int, last: int) -> None:
            for start in range(first, last, len(values)):
                array[start : min(last, start + len(values))] = values[: min(last - start, len(values))]

        self.team.run(len(array), 1 << 18, fill)
        return array

    def _compiled(self, function: Any, arguments: tuple[Any, ...], rows: int, step: int = 1) -> Call:
        def part(first: int, last: int) -> None:
            function(*arguments, Index(first), Index(last))

        return lambda loops: self.team.run(rows, step, part, loops)

    def _rows(self, share: float, arrays: int) -> int:
        """Rows of COLUMNS fp32 values in the share of that many arrays, in multiples of 4."""
        return max(4, int(share * arrays * self.bytes) // (16 * COLUMNS) * 4)

    def _image(self, share: float) -> tuple[int, NDArray[np.float32], NDArray[np.float32]]:
        """Rows to read and rows to write, as the kernels that keep the shape have them."""
        rows = self._rows(share, 1)
        count = rows * COLUMNS
        return rows, self.inputs[:count].reshape(rows, COLUMNS), self.outputs[:count].reshape(rows, COLUMNS)

    def _length(self, share: float) -> int:
        """fp64 elements of the share of one array, in multiples of 512."""
        return int(share * self.bytes) // 4096 * 512 - 512

    def _pair(self, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Two arrays to read, whose elements do not lie a multiple of a page apart: such addresses get in each other's way."""
        both = self.inputs.view(np.float64)
        return both[:n], both[self.bytes // 8 + 128 :][:n]

    def triad(self, share: float) -> Kernel:
        n, s = self._length(share), 0.75
        b, c = self._pair(n)
        a = self.outputs.view(np.float64)[256:][:n]
        arguments = (_address(a), _address(b), _address(c), ctypes.c_double(s))
        call = self._compiled(self.library.suite_triad, arguments, n, 512)
        return Kernel(
            "triad", ops.stream_triad(n), call, lambda: _expect_ends("triad", a, lambda at: b[at] + s * c[at])
        )

    def dot(self, share: float) -> Kernel:
        n = self._length(share)
        x, y = self._pair(n)
        parts: dict[int, float] = {}
        function, arguments = self.library.suite_dot, (_address(x), _address(y))

        def part(first: int, last: int) -> None:
            parts[first] = function(*arguments, Index(first), Index(last))

        def check() -> None:
            _expect("dot", sum(parts.values()), float(np.einsum("i,i->", x, y)), 1e-6)

        return Kernel("dot", ops.dot(n, dtype="fp64"), lambda loops: self.team.run(n, 512, part, loops), check)

    def gemv(self, share: float) -> Kernel:
        rows = self._rows(share, 2)
        a, x = self.inputs[: rows * COLUMNS].reshape(rows, COLUMNS), self.vectors[0]
        y = np.zeros(rows, np.float32)
        arguments = (_address(a), _address(x), _address(y), Index(COLUMNS))
        call = self._compiled(self.library.suite_gemv, arguments, rows)
        counted = ops.gemv(rows, COLUMNS, dtype="fp32")
        return Kernel("gemv", counted, call, lambda: _expect_ends("gemv", y, lambda at: np.einsum("ij,j->i", a[at].astype(np.float64), x), 1e-3))  # fmt: skip

    def softmax(self, share: float) -> Kernel:
        rows, x, y = self._image(share)
        call = self._compiled(self.library.suite_softmax, (_address(x), _address(y), Index(COLUMNS)), rows)
        check = partial(_expect_ends, "softmax", y, lambda at: softmax(x[at].astype(np.float64)), 1e-4)
        return Kernel("softmax", ops.softmax(rows, COLUMNS, dtype="fp32"), call, check)

    def layernorm(self, share: float) -> Kernel:
        rows, x, y = self._image(share)
        gamma, beta = self.vectors
        arguments = (_address(x), _address(y), _address(gamma), _address(beta), Index(COLUMNS))
        call = self._compiled(self.library.suite_layernorm, arguments, rows)
        check = partial(_expect_ends, "layernorm", y, lambda at: normalised(x[at].astype(np.float64)) * gamma + beta, 1e-3)  # fmt: skip
        return Kernel("layernorm", ops.layernorm(rows, COLUMNS, dtype="fp32"), call, check)

    def stencil(self, share: float) -> Kernel:
        # lines of neighbouring rows must not fall into the same set of a cache
        stride, width = COLUMNS - LINE_FLOATS, COLUMNS - 2 * LINE_FLOATS
        rows = self._rows(share, 1) - 4
        x = self.inputs[: (rows + 2) * stride].reshape(rows + 2, stride)
        y, w = self.outputs[: rows * width].reshape(rows, width), self.vectors[0, :9]
        arguments = (_address(x), _address(y), _address(w), Index(stride), Index(width))
        call = self._compiled(self.library.suite_stencil, arguments, rows, 4)

        def expected(at: slice) -> NDArray[Any]:
            first, last = at.indices(rows)[:2]
            taps = [w[3 * i + j] * x[first + i : last + i, j : j + width] for i in range(3) for j in range(3)]
            return np.asarray(np.sum(taps, axis=0))

        return Kernel(
            "stencil 3x3", stencil_work(rows, width), call, partial(_expect_ends, "stencil", y, expected, 1e-3)
        )

    def gemm(self, share: float) -> Kernel:
        """NumPy's product, of a size that the peak of this machine does in milliseconds."""
        peak = self.machine.peaks["vector.fp32"].value() if "vector.fp32" in self.machine.peaks else None
        largest = ((PRODUCT_SECONDS * peak / 2) ** (1 / 3) if peak else 1024.0) * share
        n = int(min(max(largest, PRODUCT_SIDES[0] * share), PRODUCT_SIDES[1])) // 32 * 32
        a, b, c = self._normal(n, n), self._normal(n, n), np.zeros((n, n), np.float32)
        _, set_threads = blas()
        if set_threads:
            set_threads(self.team.size)  # a probe before may have left the library on one core

        def call(loops: int) -> Timing:
            return thread_share(self.team.size, partial(np.matmul, a, b, out=c), loops)

        def check() -> None:
            _expect("gemm", c[:8], a[:8].astype(np.float64) @ b.astype(np.float64), 1e-3)

        return Kernel("gemm fp32", ops.gemm(n, n, n, dtype="fp32"), call, check, "NumPy's BLAS, its own threads", True)

    def exponential(self) -> Probe:
        """Results per second of the suite's own exp on data in the nearest cache: the special-function ceiling of its kernels."""
        n, reps, size = COLUMNS, 64, self.team.size
        x = [self._normal(n) for _ in range(size)]
        y = [np.zeros(n, np.float32) for _ in range(size)]

        arguments = [(_address(x[place]), _address(y[place]), Index(n)) for place in range(size)]

        def call(loops: int) -> Timing:
            repeats = Index(reps * loops)
            return self.team.run(size, 1, lambda first, _: self.library.suite_exp(*arguments[first], repeats))

        counted = work(vector={"exp": (float(n * reps * size), "n reps threads")}, dtype="fp32")
        return Probe(
            "exp", "special.fp32", call, counted, {"threads": size, "variant": "polynomial of degree 6"},
            check=lambda: _expect("exp", y[0], np.exp(x[0].astype(np.float64)), 1e-5), min_seconds=sample_seconds(),
        )  # fmt: skip

    def numpy_copy(self, share: float) -> Kernel:
        n = self._length(share)
        a, (b, _) = self.outputs.view(np.float64)[:n], self._pair(n)
        return self._numpy("copy", ops.stream_copy(n), a, lambda at: np.copyto(a[at], b[at]), lambda at: b[at])

    def numpy_add(self, share: float) -> Kernel:
        n = self._length(share)
        a, (b, c) = self.outputs.view(np.float64)[:n], self._pair(n)
        return self._numpy("add", ops.stream_add(n), a, lambda at: np.add(b[at], c[at], out=a[at]), lambda at: b[at] + c[at])  # fmt: skip

    def _numpy(
        self,
        name: str,
        counted: Work,
        result: NDArray[Any],
        act: Callable[[slice], Any],
        expected: Callable[[slice], Any],
    ) -> Kernel:
        """An operation of NumPy over one slice per core; it releases the interpreter's lock."""

        def call(loops: int) -> Timing:
            return self.team.run(len(result), 512, lambda first, last: act(slice(first, last)), loops)

        return Kernel(name, counted, call, partial(_expect_ends, name, result, expected), "NumPy, all cores")

    def numpy_gemv(self, share: float) -> Kernel:
        rows = self._rows(share, 2)
        a, x = self.inputs[: rows * COLUMNS].reshape(rows, COLUMNS), self.vectors[0]
        y = np.zeros(rows, np.float32)
        check = partial(_expect_ends, "gemv", y, lambda at: np.einsum("ij,j->i", a[at].astype(np.float64), x), 1e-3)

        def call(loops: int) -> Timing:
            return thread_share(self.team.size, partial(np.dot, a, x, out=y), loops)

        return Kernel("gemv", ops.gemv(rows, COLUMNS, dtype="fp32"), call, check, "NumPy's BLAS, its own threads", True)

    @property
    def makers(self) -> list[Callable[[float], Kernel]]:
        """The kernels by size; without a compiler NumPy's."""
        if self.library is None:
            return [self.numpy_copy, self.numpy_add, self.numpy_gemv, self.gemm]
        return [self.triad, self.dot, self.gemv, self.softmax, self.layernorm, self.stencil, self.gemm]


def stencil_work(rows: int, width: int) -> Work:
    """Nine multiplications and eight additions per pixel on the vector units; one image in, one out."""
    pixels = float(rows * width)
    counted = work(
        vector={"3 x 3 taps": (17 * pixels, "17 rows width")},
        read={"x": ((rows + 2.0) * (width + 2), "fp32", "(rows+2) (width+2)"), "w": (9.0, "fp32", "9")},
        write={"y": (pixels, "fp32", "rows width")},
        dtype="fp32",
    )
    return replace(counted, name="stencil", family="stream")


def softmax(x: NDArray[Any]) -> NDArray[Any]:
    raised = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def normalised(x: NDArray[Any]) -> NDArray[Any]:
    return np.asarray((x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5))


def _expect_ends(name: str, actual: NDArray[Any], expected: Callable[[slice], Any], tolerance: float = 1e-9) -> None:
    """The first and the last rows are what they should be; all of them would take longer than the kernel."""
    for at in (slice(0, 4), slice(-4, None)):
        _expect(name, actual[at], expected(at), tolerance)


def _expect(name: str, actual: Any, expected: Any, tolerance: float) -> None:
    if not np.allclose(actual, expected, rtol=tolerance, atol=tolerance):
        worst = float(np.max(np.abs(np.asarray(actual) - np.asarray(expected))))
        raise RidgelineError(f"kernel {name} computed a wrong result (off by up to {worst:.3g}); its time is not used")
