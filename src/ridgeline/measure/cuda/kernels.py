"""Kernel times on an NVIDIA GPU: the default PyTorch path of an op, its device time with cold caches, over many shapes.

A case is a dict of an op's name, dtype and sizes, as in a table of cases. Before each call a buffer of three times the
L2 is read, so that the op finds its operands in main memory and no dirty line is left to be written back under it.
CUPTI tells the kernels' times through torch's profiler; marker kernels around each call say which kernels belong to it.
`time` is the sum of their durations, `span` last end less first start.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...core.errors import InputError, RidgelineError, first_line
from ...core.files import write_text
from ...programs.ops import find
from . import conditions as conditions_cuda
from .cases import GIB, POOL, Case, calibration_cases, random_cases
from .device import Library, package

Run = Callable[[], Any]
Progress = Callable[[int, int], None]

ALIGN = 512  # elements between operands, so that each starts on a boundary kernels like
FILL = 1 << 28  # elements filled at once

# Our names of formats in torch's words; tf32 is stored as fp32.
FORMATS = {
    "fp64": "float64",
    "fp32": "float32",
    "tf32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "int8": "int8",
}
SPREADS = {"int8": 32.0}  # standard deviation of the values; 1 for every floating-point format


class Pool:
    """Random normal values of each format, made once; operands are views of them, never zeros."""

    def __init__(self, torch: Any, device: str, size: int = POOL) -> None:
        self.torch, self.device, self.size = torch, device, size
        self._values: dict[str, Any] = {}
        self._next: dict[str, int] = {}

    def begin(self) -> None:
        """A new case: its operands may lie where those of the last one did, but not over each other."""
        self._next.clear()

    def take(self, name: str, *shape: int) -> Any:
        word = FORMATS[name]
        values = self._values.get(word)
        if values is None:
            values = self._values[word] = self._fill(word)
        count, start = math.prod(shape), self._next.get(word, 0)
        if start + count > values.numel():
            raise InputError(
                f"the operands need {(start + count) * values.element_size() / GIB:.1f} GiB of {name} values and the "
                f"pool holds {self.size / GIB:.1f}; use smaller sizes"
            )
        self._next[word] = start + -(-count // ALIGN) * ALIGN
        return values[start : start + count].view(shape)

    def _fill(self, word: str) -> Any:
        torch = self.torch
        dtype = getattr(torch, word)
        count = self.size // torch.empty(0, dtype=dtype).element_size()
        values = torch.empty(count, dtype=dtype, device=self.device)
        narrow = values.element_size() == 1  # no generator of its own: made in fp32 and converted
        for part in values.split(FILL):
            if narrow:
                normal = torch.randn(part.numel(), device=self.device) * SPREADS.get(word, 1.0)
                part.copy_(normal.clamp_(-120.0, 120.0))
            else:
                part.normal_()
        return values


# -- the default path of each op ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Maker:
    """What a builder works with: operands in the format of the case, and torch."""

    torch: Any
    device: str
    dtype: str
    pool: Pool

    def take(self, *shape: int) -> Any:
        return self.pool.take(self.dtype, *shape)

    def integers(self, below: int, count: int) -> Any:
        return self.torch.randint(below, (count,), device=self.device)

    def product(self, run: Run) -> Run:
        """The same run with TF32 allowed exactly when the case asks for it; other formats know no such switch."""
        if FORMATS[self.dtype] != "float32":
            return run
        products, convolutions = self.torch.backends.cuda.matmul, self.torch.backends.cudnn
        allowed = self.dtype == "tf32"

        def switched() -> Any:
            products.allow_tf32 = allowed
            convolutions.allow_tf32 = allowed
            return run()

        return switched


def _linear(make: Maker, m: int, n: int, k: int, bias: bool = False) -> Run:
    """x[m,k] W[n,k]^T as torch.nn.Linear computes it; fp8 with one scale per tensor, int8 into int32."""
    torch, x, weights = make.torch, make.take(m, k), make.take(n, k)
    if make.dtype.startswith("fp8"):
        if n % 16 or k % 16:
            raise InputError(f"gemm in fp8: torch._scaled_mm needs n and k in multiples of 16, got n={n} k={k}")
        one = torch.ones((), dtype=torch.float32, device=make.device)
        return partial(torch._scaled_mm, x, weights.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    if make.dtype == "int8":
        if m <= 16 or n % 8 or k % 8:
            raise InputError(
                f"gemm in int8: torch._int_mm needs m above 16 and n, k in multiples of 8, got m={m} n={n} k={k}"
            )
        return partial(torch._int_mm, x, weights.t())
    linear = torch.nn.functional.linear
    return make.product(partial(linear, x, weights, make.take(n) if bias else None))


def _gemm(make: Maker, m: int, n: int, k: int) -> Run:
    return _linear(make, m, n, k)


def _layer(make: Maker, batch: int, in_features: int, out_features: int, bias: int = 0) -> Run:
    if bias and make.dtype in ("fp8_e4m3", "fp8_e5m2", "int8"):
        raise InputError(f"linear in {make.dtype} with a bias has no default path in PyTorch")
    return _linear(make, batch, out_features, in_features, bool(bias))


def _bmm(make: Maker, batch: int, m: int, n: int, k: int) -> Run:
    return make.product(partial(make.torch.bmm, make.take(batch, m, k), make.take(batch, k, n)))


def _gemv(make: Maker, m: int, n: int) -> Run:
    return make.product(partial(make.torch.mv, make.take(m, n), make.take(n)))


def _ger(make: Maker, m: int, n: int) -> Run:
    return partial(make.torch.addr, make.take(m, n), make.take(m), make.take(n))


FACTOR = 3  # of scal, axpy and STREAM; whole, so that integers stay integers
# one operand in, by what torch calls on it
UNARY: dict[str, Callable[[Any, Any], Run]] = {
    "copy": lambda torch, x: x.clone,
    "stream_copy": lambda torch, x: x.clone,
    "scal": lambda torch, x: partial(torch.mul, x, FACTOR),
    "stream_scale": lambda torch, x: partial(torch.mul, x, FACTOR),
    "nrm2": lambda torch, x: partial(torch.linalg.vector_norm, x),
    "asum": lambda torch, x: partial(torch.linalg.vector_norm, x, 1),
    "sum": lambda torch, x: partial(torch.sum, x),
    "relu": lambda torch, x: partial(torch.relu, x),
    "gelu": lambda torch, x: partial(torch.nn.functional.gelu, x, approximate="tanh"),
    "silu": lambda torch, x: partial(torch.nn.functional.silu, x),
    "sigmoid": lambda torch, x: partial(torch.sigmoid, x),
    "tanh": lambda torch, x: partial(torch.tanh, x),
    "exp": lambda torch, x: partial(torch.exp, x),
    "dropout": lambda torch, x: partial(torch.nn.functional.dropout, x, 0.5, True),
}
BINARY: dict[str, Callable[[Any, Any, Any], Run]] = {
    "axpy": lambda torch, x, y: partial(torch.add, y, x, alpha=FACTOR),
    "stream_add": lambda torch, x, y: partial(torch.add, x, y),
    "stream_triad": lambda torch, x, y: partial(torch.add, x, y, alpha=FACTOR),
    "add": lambda torch, x, y: partial(torch.add, x, y),
    "residual": lambda torch, x, y: partial(torch.add, x, y),
    "mul": lambda torch, x, y: partial(torch.mul, x, y),
    "dot": lambda torch, x, y: partial(torch.dot, x, y),
}


def _unary(name: str, make: Maker, n: int) -> Run:
    return UNARY[name](make.torch, make.take(n))


def _binary(name: str, make: Maker, n: int) -> Run:
    return BINARY[name](make.torch, make.take(n), make.take(n))


def _cast(make: Maker, n: int, out_dtype: str = "bf16") -> Run:
    if out_dtype not in FORMATS:
        raise InputError(f"cast to {out_dtype} has no default path in PyTorch; it knows {', '.join(FORMATS)}")
    if FORMATS[out_dtype] == FORMATS[make.dtype]:
        raise InputError(f"cast from {make.dtype} to {out_dtype}: both are stored alike, so nothing runs")
    return partial(make.take(n).to, getattr(make.torch, FORMATS[out_dtype]))


def _softmax(make: Maker, rows: int, cols: int) -> Run:
    return partial(make.torch.softmax, make.take(rows, cols), -1)


def _layernorm(make: Maker, rows: int, cols: int) -> Run:
    x, gamma, beta = make.take(rows, cols), make.take(cols), make.take(cols)
    return partial(make.torch.nn.functional.layer_norm, x, (cols,), gamma, beta)


def _rmsnorm(make: Maker, rows: int, cols: int) -> Run:
    return partial(make.torch.nn.functional.rms_norm, make.take(rows, cols), (cols,), make.take(cols))


def _batchnorm(make: Maker, rows: int, cols: int) -> Run:
    """Inference, with stored statistics of each column."""
    x, mean, gamma, beta = make.take(rows, cols), make.take(cols), make.take(cols), make.take(cols)
    variance = make.take(cols).abs() + 0.5
    return partial(make.torch.nn.functional.batch_norm, x, mean, variance, gamma, beta, False)


def _sum_rows(make: Maker, rows: int, cols: int) -> Run:
    return partial(make.torch.sum, make.take(rows, cols), -1)


def _transpose(make: Maker, rows: int, cols: int) -> Run:
    turned = make.take(rows, cols).t()
    if turned.is_contiguous():
        raise InputError(f"transpose of {rows} x {cols}: one row or column lies the same way turned, so nothing runs")
    return turned.contiguous  # type: ignore[no-any-return]


def _cross_entropy(make: Maker, rows: int, cols: int) -> Run:
    x, target = make.take(rows, cols), make.integers(cols, rows)
    return partial(make.torch.nn.functional.cross_entropy, x, target, reduction="none")


def _embedding(make: Maker, rows: int, vocab: int, cols: int) -> Run:
    return partial(make.torch.nn.functional.embedding, make.integers(vocab, rows), make.take(vocab, cols))


def _conv2d(
    make: Maker,
    batch: int,
    c_in: int,
    c_out: int,
    h: int,
    w: int,
    kernel: int = 3,
    stride: int = 1,
    padding: int | None = None,
    groups: int = 1,
    dilation: int = 1,
    layout: str = "nchw",
) -> Run:
    pad = dilation * (kernel - 1) // 2 if padding is None else padding
    if layout == "nhwc":
        x = make.take(batch, h, w, c_in).permute(0, 3, 1, 2)
        weights = make.take(c_out, kernel, kernel, c_in // groups).permute(0, 3, 1, 2)
    else:
        x, weights = make.take(batch, c_in, h, w), make.take(c_out, c_in // groups, kernel, kernel)
    conv = make.torch.nn.functional.conv2d
    return make.product(partial(conv, x, weights, None, stride, pad, dilation, groups))


def _attention(
    make: Maker,
    batch: int,
    heads: int,
    seq_q: int,
    head_dim: int,
    seq_kv: int | None = None,
    kv_heads: int | None = None,
    causal: int = 0,
    variant: str = "flash",
) -> Run:
    """`flash` is what scaled_dot_product_attention chooses by itself; `standard` two batched products and a softmax."""
    torch, keys, shared = make.torch, seq_kv or seq_q, kv_heads or heads
    q = make.take(batch, heads, seq_q, head_dim)
    k, v = make.take(batch, shared, keys, head_dim), make.take(batch, shared, keys, head_dim)
    masked = bool(causal) and seq_q > 1  # the last query sees every key
    if variant == "standard":
        if masked:
            raise InputError("standard attention with a causal mask is not timed: PyTorch masks in a pass of its own")
        q, k, v = q.view(batch * shared, -1, head_dim), k.view(-1, keys, head_dim), v.view(-1, keys, head_dim)
        start = torch.empty(1, 1, 1, dtype=q.dtype, device=make.device)  # not read: beta is 0
        turned, scale = k.transpose(1, 2), head_dim**-0.5

        def standard() -> Any:
            scores = torch.baddbmm(start, q, turned, beta=0, alpha=scale)
            return torch.bmm(torch.softmax(scores, -1), v)

        return make.product(standard)
    if masked and keys != seq_q:
        raise InputError(
            "flash attention with a causal mask and seq_q below seq_kv is not timed: PyTorch aligns that mask to the first key"
        )
    attend = torch.nn.functional.scaled_dot_product_attention
    return make.product(partial(attend, q, k, v, is_causal=masked, enable_gqa=shared != heads))


def _moe(make: Maker, tokens: int, experts: int, topk: int, hidden: int, inter: int) -> Run:
    """Router, gather by expert, grouped products (torch._grouped_mm) around silu and gate, weighted sum per token.

    Routing is balanced and known beforehand: choosing and sorting the experts is not part of it.
    """
    torch = make.torch
    grouped = getattr(torch, "_grouped_mm", None)
    if grouped is None or make.dtype != "bf16":
        raise InputError(f"moe in {make.dtype}: the default path is torch._grouped_mm, which multiplies bf16")
    if hidden % 8 or inter % 8:
        raise InputError(f"moe: grouped products need hidden and inter in multiples of 8, got {hidden} and {inter}")
    x, router = make.take(tokens, hidden), make.take(experts, hidden)
    up = make.take(experts, 2 * inter, hidden).transpose(1, 2)
    down = make.take(experts, hidden, inter).transpose(1, 2)
    shares = make.take(tokens, 1, topk)
    chosen = torch.arange(tokens * topk, device=make.device) % experts
    order = torch.argsort(chosen, stable=True)
    ends = torch.bincount(chosen, minlength=experts).cumsum(0).to(torch.int32)
    sources, back = order // topk, torch.argsort(order)
    linear, silu = torch.nn.functional.linear, torch.nn.functional.silu

    def run() -> Any:
        linear(x, router)
        gate, plain = grouped(x[sources], up, offs=ends).chunk(2, dim=-1)
        each = grouped(silu(gate) * plain, down, offs=ends)
        return torch.bmm(shares, each[back].view(tokens, topk, hidden))

    return run


BUILDERS: dict[str, Callable[..., Run]] = {
    **{name: partial(_unary, name) for name in UNARY},
    **{name: partial(_binary, name) for name in BINARY},
    "gemm": _gemm,
    "linear": _layer,
    "bmm": _bmm,
    "gemv": _gemv,
    "ger": _ger,
    "cast": _cast,
    "softmax": _softmax,
    "layernorm": _layernorm,
    "rmsnorm": _rmsnorm,
    "batchnorm": _batchnorm,
    "sum_rows": _sum_rows,
    "transpose": _transpose,
    "cross_entropy": _cross_entropy,
    "embedding": _embedding,
    "conv2d": _conv2d,
    "attention": _attention,
    "moe": _moe,
}


@cache
def _words(name: str) -> frozenset[str]:
    return frozenset(signature(BUILDERS[name]).parameters) - {"make"}


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else int(value)


def build(case: Case, torch: Any, device: str, pool: Pool) -> Run:
    """A call without arguments that runs the case out of place on prepared operands; InputError says why there is none."""
    given = {key: value for key, value in case.items() if value is not None and value != ""}
    op = find(str(given.pop("op", "")))
    if op.name not in BUILDERS:
        raise InputError(f"{op.name} has no default path in PyTorch; timed are {', '.join(sorted(BUILDERS))}")
    ready = op.check(given)
    op.make(**ready)  # its own conditions: kernels that fit, heads that divide
    name = str(ready.pop("dtype", op.params["dtype"].default))
    if name not in FORMATS:
        raise InputError(f"{op.name} in {name} has no default path in PyTorch; it knows {', '.join(FORMATS)}")
    asked = {
        key: _plain(value) for key, value in ready.items() if value is not None and value != op.params[key].default
    }
    missing = [key for key in asked if key not in _words(op.name)]
    if missing:
        raise InputError(f"{op.name} with {', '.join(missing)} has no default path in PyTorch")
    pool.begin()
    return BUILDERS[op.name](Maker(torch, device, name, pool), **asked)


# -- timing ------------------------------------------------------------------------------------------------------

LONG = 1e-3  # seconds from which a case is called less often
LONG_REPEATS = 3
CHUNK = 64  # cases in one session of the profiler: some two thousand kernels
NAME = 120  # characters kept of a kernel's name
MARKER = "spin_kernel"  # what torch.cuda._sleep runs
WAITS = ("Context Sync", "Stream Sync", "Event Sync", "Stream Wait Event")  # waiting that is filed under the device
CACHED = 24 * GIB  # what torch may keep of freed memory between chunks


@dataclass(frozen=True)
class Event:
    """One thing the device did: a kernel, a copy or a fill; seconds on the device's clock."""

    name: str
    start: float
    end: float


@dataclass(frozen=True)
class Timed:
    """What a case took: sums and spans of its kernels per call, the kernels of the median call; or why it has no time."""

    case: Case
    samples: tuple[float, ...] = ()
    span: tuple[float, ...] = ()
    kernels: tuple[tuple[str, float], ...] = ()
    reason: str = ""
    conditions: Mapping[str, float] = field(default_factory=dict)


class Lost(RidgelineError):
    """The profiler did not tell all that ran."""


class Bench(Protocol):
    """Where cases run; tests bring one of their own."""

    def build(self, case: Case) -> Run: ...

    def warm(self, run: Run) -> float: ...

    def trace(self, plan: Sequence[tuple[Run, int]]) -> list[Event]: ...

    def conditions(self, begin: float, end: float) -> dict[str, float]: ...

    def clear(self) -> None: ...


class Gpu:
    """The current CUDA device through torch."""

    def __init__(self, torch: Any, pool: int = POOL, watch: conditions_cuda.Watch | None = None) -> None:
        self.torch, self.watch = torch, watch
        told = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.pool = Pool(torch, "cuda", min(pool, int(told.total_memory) // 10))
        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = False
        self.flushed = torch.randn(3 * int(told.L2_cache_size) // 4, device="cuda")
        self.total = torch.empty((), device="cuda")
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.trace([(self.flushed.relu, 1)])  # the first session sets CUPTI up and may lose events

    def build(self, case: Case) -> Run:
        return build(case, self.torch, "cuda", self.pool)

    def warm(self, run: Run) -> float:
        """Two calls, so that libraries are set up and their choices made; seconds of the second."""
        run()
        self.begin.record()
        run()
        self.end.record()
        self.end.synchronize()
        return float(self.begin.elapsed_time(self.end)) / 1e3

    def trace(self, plan: Sequence[tuple[Run, int]]) -> list[Event]:
        """What the device did, in order of start, with a marker on both sides of each call."""
        torch = self.torch
        total, flushed, out, mark = torch.sum, self.flushed, self.total, torch.cuda._sleep
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as session:
            for run, repeats in plan:
                for _ in range(repeats):
                    total(flushed, 0, out=out)
                    mark(1)
                    run()
                    mark(1)
            torch.cuda.synchronize()
        return device_events(session.profiler.kineto_results.events(), torch.autograd.DeviceType.CUDA)

    def conditions(self, begin: float, end: float) -> dict[str, float]:
        """Median clock and power between two moments of the watch's clock."""
        if self.watch is None:
            return {}
        told = conditions_cuda.summary(self.watch.during([(begin, end)]))
        return {key: told[key]["median"] for key in ("sm_clock", "power") if key in told}

    def clear(self) -> None:
        cuda = self.torch.cuda
        if cuda.memory_reserved() - cuda.memory_allocated() > CACHED:
            cuda.empty_cache()


def device_events(told: Iterable[Any], device: Any) -> list[Event]:
    """The profiler's records of the device, in order of start; host calls and annotations are left out."""
    found = []
    for row in told:
        if row.device_type() != device or row.is_user_annotation() or row.name() in WAITS:
            continue
        start = row.start_ns()
        found.append((start, start + row.duration_ns(), row.name()))
    found.sort()
    first = found[0][0] if found else 0  # nanoseconds since 1970 would not fit a float
    return [Event(name, (start - first) / 1e9, (end - first) / 1e9) for start, end, name in found]


def split(events: Sequence[Event], repeats: Sequence[int]) -> list[list[list[Event]]]:
    """The events of each call of each case: those between its two markers."""
    places = [index for index, event in enumerate(events) if MARKER in event.name]
    if len(places) != 2 * sum(repeats):
        raise Lost(f"{len(places)} markers were seen of {2 * sum(repeats)}")
    calls = iter([list(events[start + 1 : end]) for start, end in zip(places[::2], places[1::2], strict=True)])
    found = [[next(calls) for _ in range(count)] for count in repeats]
    for each in found:
        counts = {len(call) for call in each}
        if len(counts) > 1:
            raise Lost(f"calls of one case show between {min(counts)} and {max(counts)} kernels")
    return found


def short(name: str) -> str:
    """A kernel's name without what all of them carry."""
    for common in ("void ", "at::native::", "(anonymous namespace)::", "c10::", "<unnamed>::"):
        name = name.replace(common, "")
    return name[:NAME]


def summed(case: Case, calls: Sequence[Sequence[Event]], conditions: Mapping[str, float]) -> Timed:
    if not calls or not calls[0]:
        return Timed(case, reason="no kernel ran on the device")
    sums = tuple(sum(event.end - event.start for event in call) for call in calls)
    spans = tuple(max(event.end for event in call) - min(event.start for event in call) for call in calls)
    middle = calls[sums.index(sorted(sums)[len(sums) // 2])]
    kernels = tuple((short(event.name), event.end - event.start) for event in middle)
    return Timed(case, sums, spans, kernels, conditions=dict(conditions))


def chunks(
    cases: Sequence[Case],
    bench: Bench,
    repeats: int = 7,
    until: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[list[Timed]]:
    """The cases chunk by chunk, in their order, as they are timed; no chunk begins after `until` on the clock."""
    for at in range(0, len(cases), CHUNK):
        if clock() >= until:
            return
        yield _chunk(cases[at : at + CHUNK], bench, repeats, clock)
        bench.clear()


def _chunk(cases: Sequence[Case], bench: Bench, repeats: int, clock: Callable[[], float]) -> list[Timed]:
    found: dict[int, Timed] = {}
    plan: list[tuple[int, Run, int]] = []
    for index, case in enumerate(cases):
        try:
            run = bench.build(case)
            seconds = bench.warm(run)
        except Exception as error:  # whatever a library refuses: out of memory, a format, a layout
            found[index] = Timed(case, reason=first_line(error))
            bench.clear()
        else:
            plan.append((index, run, min(repeats, LONG_REPEATS) if seconds > LONG else repeats))
    found.update(_traced(cases, plan, bench, clock))
    return [found[index] for index in range(len(cases))]


def _traced(
    cases: Sequence[Case], plan: Sequence[tuple[int, Run, int]], bench: Bench, clock: Callable[[], float]
) -> dict[int, Timed]:
    """One session over the plan; where it fails, one over each half, down to single cases, which are tried twice."""
    if not plan:
        return {}
    why = ""
    for _ in range(2 if len(plan) == 1 else 1):
        begin = clock()
        try:
            calls = split(bench.trace([(run, repeats) for _, run, repeats in plan]), [row[2] for row in plan])
        except Exception as error:  # lost events, or memory that no longer sufficed
            why = first_line(error)
            continue
        held = bench.conditions(begin, clock())
        return {index: summed(cases[index], each, held) for (index, _, _), each in zip(plan, calls, strict=True)}
    if len(plan) == 1:
        index = plan[0][0]
        return {index: Timed(cases[index], reason=why)}
    half = len(plan) // 2
    return _traced(cases, plan[:half], bench, clock) | _traced(cases, plan[half:], bench, clock)


def times(
    cases: Sequence[Case], repeats: int = 7, on_progress: Progress | None = None, bench: Bench | None = None
) -> list[Timed]:
    """Device times of the cases with cold caches; one that cannot be timed keeps its place and says why."""
    found: list[Timed] = []
    if bench is None:
        gpu, watch, _ = open_gpu()
        with watch:
            return times(cases, repeats, on_progress, gpu)
    for part in chunks(cases, bench, repeats):
        found += part
        if on_progress is not None:
            on_progress(len(found), len(cases))
    return found


SIZES = (
    *("batch", "m", "n", "k", "in_features", "out_features", "rows", "cols", "vocab"),
    *("c_in", "c_out", "h", "w", "kernel", "stride", "padding", "groups", "dilation"),
    *("heads", "kv_heads", "seq_q", "seq_kv", "head_dim", "tokens", "experts", "topk", "hidden", "inter"),
)
WORDS = ("out_dtype", "causal", "variant", "layout")
RESULTS = ("time_us", "best_us", "span_us", "spread", "kernels", "kernel_name", "sm_clock", "power", "reason")
COLUMNS = ("op", "dtype", *SIZES, *WORDS, *RESULTS)


def read_cases(path: Path) -> list[Case]:
    """Cases from a table with the columns that `rows` writes; results in it are left aside."""
    try:
        told = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as a table of cases: {error}") from error
    if not told or not {"op", "dtype"} <= set(told[0]):
        raise InputError(f"{path}: a table of cases has the columns op and dtype, and a line for each case")
    return [_case(row, f"{path}, line {line}") for line, row in enumerate(told, 2)]


def _case(row: Mapping[str, str], where: str) -> Case:
    words = {name: row[name] for name in ("op", "dtype", *WORDS) if row.get(name)}
    try:
        found: Case = {**words, **{name: int(float(row[name])) for name in SIZES if row.get(name)}}
    except ValueError as error:
        raise InputError(f"{where}: sizes are whole numbers: {error}") from error
    if "causal" in found:
        found["causal"] = found["causal"] == "yes"
    return found


def rows(timed: Iterable[Timed]) -> list[dict[str, Any]]:
    """One flat row per case: its own words, then median, best and span in microseconds; what is not known is absent."""
    found = []
    for each in timed:
        row = {key: ("no", "yes")[value] if isinstance(value, bool) else value for key, value in each.case.items()}
        if each.samples:
            middle = float(np.median(each.samples))
            low, high = np.quantile(each.samples, (0.1, 0.9))
            row |= {
                "time_us": round(middle * 1e6, 3),
                "best_us": round(min(each.samples) * 1e6, 3),
                "span_us": round(float(np.median(each.span)) * 1e6, 3),
                "spread": round(float(high - low) / 2 / middle, 4),
                "kernels": len(each.kernels),
                "kernel_name": max(each.kernels, key=lambda kernel: kernel[1])[0],
                **each.conditions,
            }
        if each.reason:
            row["reason"] = each.reason
        found.append(row)
    return found


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV, with the columns that any of them uses."""
    used = [name for name in COLUMNS if any(name in row for row in found)]
    text = io.StringIO()
    writer = csv.DictWriter(text, used, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue()


# -- on the machine with the GPU ---------------------------------------------------------------------------------


def _bus(torch: Any) -> str:
    """The PCI bus id of the current device, or an empty text where neither torch nor cupy tells it."""
    index = torch.cuda.current_device()
    told = torch.cuda.get_device_properties(index)
    if hasattr(told, "pci_bus_id"):
        return f"{told.pci_domain_id:08x}:{told.pci_bus_id:02x}:{told.pci_device_id:02x}.0"
    cupy = package("cupy")
    return str(cupy.cuda.Device(index).pci_bus_id) if cupy is not None else ""


def open_gpu() -> tuple[Gpu, conditions_cuda.Watch, dict[str, Any]]:
    """The device, a watch that is not yet running, and the conditions it was found in."""
    torch = package("torch")
    if torch is None or not torch.cuda.is_available():
        what = "torch is not installed" if torch is None else "this torch sees no CUDA GPU"
        raise InputError(f"timing kernels needs torch with CUDA and an NVIDIA GPU: {what}")
    bus = _bus(torch)
    source, why = conditions_cuda.reader(bus) if bus else (None, "the bus id of the GPU is not known")
    # nvidia-smi starts a process for each reading, which would disturb the host if asked often
    quick = isinstance(source, conditions_cuda.Nvml)
    watch = conditions_cuda.Watch(source, period=0.05 if quick else 2.0)
    gpu = Gpu(torch, watch=watch)
    told = torch.cuda.get_device_properties(torch.cuda.current_device())
    return (
        gpu,
        watch,
        {
            "device": str(told.name),
            "date": conditions_cuda.now(),
            "l2": int(told.L2_cache_size),
            "sms": int(told.multi_processor_count),
            "memory": int(told.total_memory),
            **(source.facts() if source is not None else {"gaps": [why]}),
            "versions": {**conditions_cuda.versions(), **Library(torch).versions()},
            "method": "device time of the default PyTorch path: kernels, copies and fills between two marker kernels, by "
            "CUPTI through torch.profiler; two calls to warm up; before each call three times the L2 is read; operands are "
            "normal random values; time_us is the median over the calls of the sum of durations, span_us of last end less "
            "first start, spread half the width of the central 80 % of the sums over their median",
        },
    )


def collect(
    cases: Sequence[Case], path: Path, bench: Bench, until: float, repeats: int, tell: Callable[[str], None]
) -> int:
    """Time the cases and keep the file of what is done whole after every chunk; how many were timed."""
    found: list[dict[str, Any]] = []
    for part in chunks(cases, bench, repeats, until):
        found += rows(part)
        write_text(path, table(found))
        tell(f"{path.name}: {len(found)} of {len(cases)}, {sum('reason' in row for row in found)} without a time")
    return len(found)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m ridgeline.measure.cuda.kernels", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="folder for calibration.csv, random.csv or cases.csv, and conditions.json",
    )
    parser.add_argument("--what", choices=("calibration", "random", "both"), default="both")
    parser.add_argument("--cases", type=Path, help="a table of cases to time instead (columns as they are written)")
    parser.add_argument("--seed", type=int, default=2, help="of the random cases")
    parser.add_argument("--count", type=int, default=1000, help="random cases")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="an eighth of the calibration")
    parser.add_argument("--limit-s", type=float, default=480.0, help="seconds after which no further chunk begins")
    asked = parser.parse_args(arguments)
    begin = time.perf_counter()

    def tell(text: str) -> None:
        print(f"{time.perf_counter() - begin:6.1f} s  {text}", file=sys.stderr, flush=True)

    try:
        given = read_cases(asked.cases) if asked.cases else None
        gpu, watch, told = open_gpu()
        told["seed"], told["repeats"], told["done"] = asked.seed, asked.repeats, {}
        asked.out.mkdir(parents=True, exist_ok=True)
        parts: dict[str, tuple[list[Case], float]] = {}
        if given is not None:
            parts["cases"] = given, 1.0
        elif asked.what != "random":
            share = 1.0 if asked.what == "calibration" else 0.7  # the test set must get its time too
            parts["calibration"] = calibration_cases(asked.quick), share
        if given is None and asked.what != "calibration":
            parts["random"] = random_cases(asked.count, asked.seed), 1.0
        tell(f"{told['device']}: {', '.join(f'{len(cases)} {name} cases' for name, (cases, _) in parts.items())}")
        write_text(asked.out / "conditions.json", json.dumps(told, indent=1) + "\n")  # so that an early end keeps them
        with watch:
            for name, (cases, share) in parts.items():
                until = begin + share * asked.limit_s
                told["done"][name] = collect(cases, asked.out / f"{name}.csv", gpu, until, asked.repeats, tell)
                told["seen"] = conditions_cuda.summary(watch.seen)
                write_text(asked.out / "conditions.json", json.dumps(told, indent=1) + "\n")
    except RidgelineError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
