"""Library kernels of a CPU: the calls of NumPy and torch that run a case, and how their operands are made cold.

Cold caches: before each call a buffer larger than the largest cache is read on all cores, then the same call runs on other
operands, so that code and threads are ready while the operands are in no cache. The time is the wall time of the call,
with its dispatch.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ..conditions import allowed_cpus
from ..cuda import calls
from . import direct_calls
from .gemm import blas

Case = dict[str, Any]
Run = Callable[[], Any]
Values = NDArray[Any]
NUMPY_TYPES = {"fp32": np.float32, "fp64": np.float64}
MMAP_MAX, TRIM_THRESHOLD = -4, -1  # parameters of glibc's mallopt


def keep_freed_memory() -> None:
    """Let malloc keep what is freed, so that results do not come on pages that the system must clear first."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(MMAP_MAX, 0)
        libc.mallopt(TRIM_THRESHOLD, 2**31 - 1)


class Torch:
    """The default path of torch on all cores, over two pools of values that take turns."""

    name = "torch"

    def __init__(self, flush_bytes: int, pool_bytes: int) -> None:
        import torch

        self.torch, self.version = torch, f"torch {torch.__version__}"
        torch.set_num_threads(allowed_cpus())
        torch.manual_seed(1)
        self.flushed = torch.ones(flush_bytes // 4)
        self.pools = [calls.ValuePool(torch, "cpu", pool_bytes) for _ in range(2)]

    def build(self, case: Case) -> tuple[Run, Run]:
        """The call of a case on two sets of operands."""
        first, second = (calls.build(case, self.torch, "cpu", pool, direct_calls.BUILDERS) for pool in self.pools)
        return first, second

    def flush(self) -> None:
        self.torch.sum(self.flushed)


class NumPy:
    """NumPy: BLAS on all cores, everything else on one."""

    name = "numpy"

    def __init__(self, flush_bytes: int, pool_bytes: int) -> None:
        self.version, set_threads = blas()
        if set_threads:
            set_threads(allowed_cpus())
        self.threads = ThreadPoolExecutor(allowed_cpus())
        self.parts = np.array_split(np.ones(flush_bytes // 4, np.float32), allowed_cpus())
        self.values = np.random.default_rng(1).standard_normal(pool_bytes // 8)

    def build(self, case: Case) -> tuple[Run, Run]:
        sizes = {name: value for name, value in case.items() if name not in ("op", "dtype")}
        if case["op"] not in CALLS or case["dtype"] not in NUMPY_TYPES:
            raise InputError(f"{case['op']} in {case['dtype']} has no call in NumPy")
        first, second = (CALLS[case["op"]](Operands(self.values, case["dtype"], turn), **sizes) for turn in range(2))
        return first, second

    def flush(self) -> None:
        list(self.threads.map(np.sum, self.parts))


class Operands:
    """Arrays of random normal values in the format of a case."""

    def __init__(self, values: Values, dtype: str, turn: int) -> None:
        self.values, self.kind, self.turn = values, NUMPY_TYPES[dtype], turn

    def take(self, *shape: int) -> Values:
        count = math.prod(shape)
        if count > len(self.values):
            raise InputError(f"an operand of {count} elements is larger than the pool; use smaller sizes")
        return np.roll(self.values[:count], self.turn).astype(self.kind).reshape(shape)

    def empty(self, *shape: int) -> Values:
        return np.zeros(shape, self.kind)


def _gemm(operands: Operands, m: int, n: int, k: int) -> Run:
    return partial(np.matmul, operands.take(m, k), operands.take(n, k).T, out=operands.empty(m, n))


def _bmm(operands: Operands, batch: int, m: int, n: int, k: int) -> Run:
    return partial(np.matmul, operands.take(batch, m, k), operands.take(batch, k, n), out=operands.empty(batch, m, n))


def _gemv(operands: Operands, m: int, n: int) -> Run:
    return partial(np.matmul, operands.take(m, n), operands.take(n), out=operands.empty(m))


def _unary(call: Callable[..., Any], operands: Operands, n: int) -> Run:
    return partial(call, operands.take(n), out=operands.empty(n))


def _binary(call: Callable[..., Any], operands: Operands, n: int) -> Run:
    return partial(call, operands.take(n), operands.take(n), out=operands.empty(n))


def _copy(operands: Operands, n: int) -> Run:
    return partial(np.copyto, operands.empty(n), operands.take(n))


def _cast(operands: Operands, n: int, out_dtype: str) -> Run:
    return partial(np.copyto, np.zeros(n, NUMPY_TYPES[out_dtype]), operands.take(n), casting="same_kind")


def _gelu(operands: Operands, n: int) -> Run:
    x = operands.take(n)
    return lambda: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def _softmax(operands: Operands, rows: int, cols: int) -> Run:
    x = operands.take(rows, cols)

    def softmax() -> Values:
        raised: Values = np.exp(x - x.max(axis=1, keepdims=True))
        raised /= raised.sum(axis=1, keepdims=True)
        return raised

    return softmax


def _layernorm(operands: Operands, rows: int, cols: int) -> Run:
    x, gamma, beta = operands.take(rows, cols), operands.take(cols), operands.take(cols)

    def layernorm() -> Values:
        centered = x - x.mean(axis=1, keepdims=True)
        deviation = np.sqrt(np.mean(centered * centered, axis=1, keepdims=True) + 1e-5)
        return np.asarray(centered / deviation * gamma + beta)

    return layernorm


def _rmsnorm(operands: Operands, rows: int, cols: int) -> Run:
    x, gamma = operands.take(rows, cols), operands.take(cols)
    return lambda: x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + 1e-5) * gamma


def _embedding(operands: Operands, rows: int, vocab: int, cols: int) -> Run:
    places = np.random.default_rng(operands.turn).integers(vocab, size=rows)
    return partial(np.take, operands.take(vocab, cols), places, axis=0)


CALLS: dict[str, Callable[..., Run]] = {
    **{name: partial(_binary, call) for name, call in (("add", np.add), ("mul", np.multiply))},
    **{name: partial(_unary, call) for name, call in (("exp", np.exp), ("tanh", np.tanh))},
    "relu": lambda operands, n: partial(np.maximum, operands.take(n), operands.kind(0), out=operands.empty(n)),
    "gelu": _gelu,
    "copy": _copy,
    "cast": _cast,
    "sum": lambda operands, n: operands.take(n).sum,
    "dot": lambda operands, n: partial(np.dot, operands.take(n), operands.take(n)),
    "sum_rows": lambda operands, rows, cols: partial(operands.take(rows, cols).sum, axis=1),
    "softmax": _softmax,
    "layernorm": _layernorm,
    "rmsnorm": _rmsnorm,
    "transpose": lambda operands, rows, cols: operands.take(rows, cols).T.copy,
    "embedding": _embedding,
    "gemm": _gemm,
    "bmm": _bmm,
    "gemv": _gemv,
}
