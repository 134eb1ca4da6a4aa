"""Timings of library kernels on this CPU, over sizes from a few KiB to beyond the last cache, for fitting families.

    cases -> library (calls of torch and NumPy, cold caches) -> protocol -> rows of op, dtype, sizes, backend, time_us

The default path is torch where it is installed, else NumPy; the rows of the other carry its name as their backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import count, zip_longest
from time import perf_counter
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.families.key import Key
from ...core.machine import Fitted, Machine
from ...core.notes import NOT_MEASURED, Note
from ...core.statistics import median, quantile
from ...prediction.fit import fit_cases
from ...programs.ops import find
from ..conditions import allowed_cpus, now, waited
from ..cuda.draw import HEAD_DIMS, LAYERS, Draw
from ..protocol import STOPPED, Probe, Progress, Timing, interleave
from .library import Case, NumPy, Run, Torch, keep_freed_memory

BUDGET_SECONDS = {True: 27.0, False: 150.0}  # of timing, quick and full
MIN_FLUSH, MAX_FLUSH, MAX_POOL = 1 << 26, 1 << 30, 1 << 28
MEMORY_PER_FLUSH = 8.0  # memory over the bytes that are read to empty the caches, at least
FLUSH_CACHES = 1.5  # caches' worth of bytes that are read to empty them
MAX_CASE_SECONDS = {True: 0.02, False: 0.1}  # of the longest case, at half the peak
MAX_WAIT_SECONDS = 2e-5  # that threads may wait for a core however short the call is
ROUNDS = {True: (3, 5), False: (5, 9)}  # at least and at most, quick and full
TOLERANCE = 0.03
TIME_QUANTILE = 0.25  # of the samples of a case: what disturbs a call makes it slower, and there are few samples
CHUNK_CASES = 12  # that take turns
DEFAULT_SHARE = 0.7  # of the time, for the default path where there are two
MEMORY_PER_POOL = 32.0  # memory over the bytes of random values of a format
DEFAULT_MEMORY = 4e9  # bytes, where the size of the memory is not known
COLD_CACHES = 4.0  # a call that moves so many caches' worth of bytes finds nothing of its own in them

# Timings per op and dtype, quick and full.
STREAMS = ("add", "mul", "relu", "gelu", "exp", "copy", "cast")
REDUCTIONS = ("sum", "dot")
ROWS = ("softmax", "layernorm", "rmsnorm", "sum_rows")
COUNTS = {True: 10, False: 32}
PRODUCT_COUNTS = {True: 14, False: 96}


@dataclass(frozen=True)
class Limits:
    """Bytes that a case may move and flops it may do."""

    moved: float
    flops: float


def limits(machine: Machine, quick: bool, pool_bytes: float) -> Limits:
    seconds = MAX_CASE_SECONDS[quick]
    peak = max((figure.value() or 0.0 for name, figure in machine.peaks.items() if name == "vector.fp32"), default=0.0)
    beyond_caches = max((2.0 if quick else 4.0) * _largest_cache(machine), MIN_FLUSH)
    return Limits(min(beyond_caches, pool_bytes), max(peak, 1e9) * seconds / 2)


def _largest_cache(machine: Machine) -> float:
    return max((level.total or 0.0 for level in machine.levels[:-1]), default=0.0)


# -- cases ----------------------------------------------------------------------------------------------------


def _products(draw: Draw, index: int, most: Limits) -> Case:
    """Squares, thin and odd products in turn."""
    side = (most.flops / 2) ** (1 / 3)
    if index % 3 == 0:
        size = draw.size(16, side, 8)
        return {"m": size, "n": size, "k": size}
    if index % 3 == 1:
        return {"m": draw.size(9, 128), "n": draw.size(64, 3 * side, 8), "k": draw.size(64, 3 * side, 8)}
    return {name: draw.size(16, 2 * side) for name in "mnk"}


def _few_rows(draw: Draw, index: int, most: Limits) -> Case:
    side = most.moved**0.5 / 2
    return {"m": draw.size(1, 8), "n": draw.size(32, side), "k": draw.size(32, side)}


def _matrix(draw: Draw, index: int, most: Limits, names: tuple[str, str] = ("rows", "cols")) -> Case:
    elements = draw.size(1 << 10, most.moved / 8)
    cols = draw.size(16, min(elements, 1 << 16), 8 if index % 4 else 1)
    return {names[0]: max(elements // cols, 1), names[1]: cols}


def _vector(draw: Draw, index: int, most: Limits) -> Case:
    return {"n": draw.size(1 << 10, most.moved / 8)}


def _embedding(draw: Draw, index: int, most: Limits) -> Case:
    cols = draw.size(64, 4096, 8)
    vocab = draw.size(1000, max(most.moved / 8 / cols, 1001))
    return {"rows": draw.size(1, max(most.moved / 16 / cols, 2)), "vocab": vocab, "cols": cols}


def _attention(draw: Draw, index: int, most: Limits) -> Case:
    heads, width = draw.choice((4, 8, 12, 16)), draw.choice(HEAD_DIMS[:4])
    seq = draw.size(16, max((most.flops / (4 * heads * width)) ** 0.5, 17))
    case = {"batch": draw.size(1, 8), "heads": heads, "kv_heads": heads, "seq_q": seq, "seq_kv": seq}
    return {**case, "head_dim": width, "causal": bool(index % 2)}


def _decode(draw: Draw, index: int, most: Limits) -> Case:
    heads, width = draw.choice((8, 16, 32)), draw.choice(HEAD_DIMS[:4])
    keys = draw.size(16, max(most.moved / (8 * heads * width), 17))
    case = {"batch": draw.size(1, 16), "heads": heads, "kv_heads": heads, "seq_q": 1, "seq_kv": keys}
    return {**case, "head_dim": width, "causal": False}


def _conv(draw: Draw, index: int, most: Limits) -> Case:
    c_in, c_out, side, kernel, stride = draw.choice(LAYERS)
    case = {"batch": draw.size(1, 8), "c_in": c_in, "c_out": c_out, "h": side, "w": side, "kernel": kernel}
    return {**case, "stride": stride, "padding": 0 if kernel == stride else (kernel - 1) // 2}


DRAWS: dict[str, Callable[[Draw, int, Limits], Case]] = {
    **dict.fromkeys((*STREAMS, *REDUCTIONS), _vector),
    **dict.fromkeys((*ROWS, "transpose"), _matrix),
    "gemv": partial(_matrix, names=("m", "n")),
    "gemm": _products,
    "gemm few": _few_rows,
    "embedding": _embedding,
    "attention": _attention,
    "decode": _decode,
    "conv2d": _conv,
}
PRODUCTS = ("gemm", "conv2d", "attention")
OPS = {"gemm few": "gemm", "decode": "attention"}  # draws that are of another op
NOT_NUMPY = ("attention", "decode", "conv2d")
CAST_TO = {"fp32": "bf16", "bf16": "fp32", "fp64": "fp32"}
NUMPY_CAST_TO = {"fp32": "fp64", "fp64": "fp32"}
DRAWS_PER_CASE = 50


def cases(library: str, dtypes: Sequence[str], most: Limits, quick: bool, seed: int = 1) -> list[Case]:
    """Cases of every op and dtype within the limits, one of each in turn: whatever part is timed covers all of them."""
    rng = np.random.default_rng(seed)
    groups: list[list[Case]] = []
    for name, draw_sizes in DRAWS.items():
        if library == NumPy.name and name in NOT_NUMPY:
            continue
        count = (PRODUCT_COUNTS if name in PRODUCTS else COUNTS)[quick]
        groups += [_drawn(name, dtype, draw_sizes, count, most, rng, library) for dtype in dtypes]
    return [case for turn in zip_longest(*groups) for case in turn if case is not None]


def _drawn(
    name: str, dtype: str, draw_sizes: Callable[[Draw, int, Limits], Case], count: int, most: Limits,
    rng: np.random.Generator, library: str,
) -> list[Case]:  # fmt: skip
    accepted: list[Case] = []
    for _ in range(DRAWS_PER_CASE * count):
        if len(accepted) == count:
            break
        case = {"op": OPS.get(name, name), "dtype": dtype, **draw_sizes(Draw(rng, True), len(accepted), most)}
        if name == "cast":
            case["out_dtype"] = (NUMPY_CAST_TO if library == NumPy.name else CAST_TO)[dtype]
        work = find(case["op"])(**{key: value for key, value in case.items() if key != "op"})
        if case not in accepted and work.footprint <= most.moved and work.flops <= most.flops:
            accepted.append(case)
    return accepted


# -- timing ---------------------------------------------------------------------------------------------------


@dataclass
class Timings:
    """Rows for the fit, and how many cases have none: preempted in every sample, or left when the time was over."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    libraries: list[str] = field(default_factory=list)  # with their versions, the default path first
    preempted: int = 0
    missing: int = 0
    stopped: bool = False
    only_numpy: bool = False

    def notes(self) -> tuple[Note, ...]:
        texts = []
        if self.preempted:
            texts.append(f"noisy: {self.preempted} library kernels were preempted in every sample and are left out")
        if self.missing:
            why = STOPPED if self.stopped else "the time was used up"
            texts.append(f"not measured ({why}): {self.missing} of {len(self.rows) + self.missing} library kernels")
        return tuple(Note(NOT_MEASURED, text) for text in texts)


def call_cold(flush: Callable[[], None] | None, runs: tuple[Run, Run], threads: int, loops: int) -> Timing:
    """So many calls, each with its operands in no cache; the time is of the second call after each flush."""
    first, second = runs
    total = waiting = 0.0
    results: list[Any] = [None, None]
    for _ in range(loops):
        if flush is not None:
            flush()
            results[0] = first()  # kept, so that the second call writes elsewhere
        before = waited()
        start = perf_counter()
        results[1] = second()
        total += perf_counter() - start
        after = waited()
        if before is not None and after is not None:
            waiting += max(after - before - MAX_WAIT_SECONDS, 0.0)
    return Timing(total, max(1 - waiting / (total * threads), 0.0))


def _probes(chunk: Sequence[Case], library: Torch | NumPy, cache: float, threads: int) -> Iterator[tuple[Case, Probe]]:
    for number, case in enumerate(chunk):
        work = find(case["op"])(**{key: value for key, value in case.items() if key != "op"})
        try:
            runs = library.build(case)
        except InputError:
            continue
        flush = library.flush if work.footprint < COLD_CACHES * cache else None
        yield case, Probe(f"{number} {case['op']}", case["op"], partial(call_cold, flush, runs, threads), work)


def time_cases(
    listed: Sequence[Case], library: Torch | NumPy, machine: Machine, quick: bool, until: float, on_progress: Progress
) -> Timings:
    """Rows of the cases that the time sufficed for."""
    (rounds, max_rounds), cache, threads = ROUNDS[quick], _largest_cache(machine), allowed_cpus()
    timings = Timings()
    for start in range(0, len(listed), CHUNK_CASES):
        if perf_counter() >= until or timings.stopped:
            timings.missing = len(listed) - start
            break
        on_progress(start, len(listed), f"library kernels, {library.name}")
        pairs = list(_probes(listed[start : start + CHUNK_CASES], library, cache, threads))
        run = interleave(
            [probe for _, probe in pairs], rounds, min_seconds=1e-9, warm_seconds=0.0,
            max_rounds=max_rounds, tolerance=TOLERANCE,
        )  # fmt: skip
        of_probe = {probe.name: case for case, probe in pairs}
        calm = [series for series in run.series if not series.stand_in]
        timings.rows += [
            {**of_probe[row.probe.name], "time_us": 1e6 * quantile(row.samples, TIME_QUANTILE)} for row in calm
        ]
        timings.preempted += len(run.series) - len(calm)
        timings.stopped = run.stopped
    return timings


def measure(machine: Machine, quick: bool, on_progress: Progress) -> Timings:
    """Library kernels timed on this CPU within the budget; Ctrl-C keeps what was timed."""
    cache = _largest_cache(machine)
    memory = (machine.main.total if machine.levels else None) or DEFAULT_MEMORY
    flush_bytes = int(min(max(FLUSH_CACHES * cache, MIN_FLUSH), MAX_FLUSH, memory / MEMORY_PER_FLUSH))
    pool_bytes = int(min(max(COLD_CACHES * cache, MIN_FLUSH), MAX_POOL, memory / MEMORY_PER_POOL))
    keep_freed_memory()
    kinds: list[type[Torch] | type[NumPy]] = [Torch, NumPy] if find_spec("torch") else [NumPy]
    most, begin, every = limits(machine, quick, pool_bytes), perf_counter(), Timings(only_numpy=len(kinds) == 1)
    kinds = kinds[:1] if quick else kinds  # the time of a quick run suffices for the default path in one format
    for kind in kinds:
        default = kind is kinds[0]
        formats = ("fp32", "fp64") if kind is NumPy else ("fp32", "bf16")
        dtypes = [name for name in formats[: 1 if quick else None] if name in machine.dtypes()]
        share = DEFAULT_SHARE if default and len(kinds) > 1 else 1.0
        library = kind(flush_bytes, pool_bytes)
        until = begin + BUDGET_SECONDS[quick] * share
        timings = time_cases(cases(kind.name, dtypes, most, quick), library, machine, quick, until, on_progress)
        every.rows += [row if default else {**row, "backend": kind.name} for row in timings.rows]
        every.libraries.append(library.version)
        every.preempted, every.missing = every.preempted + timings.preempted, every.missing + timings.missing
        every.stopped = timings.stopped
        if every.stopped:
            break
    return every


def fitted_families(
    machine: Machine, quick: bool, on_progress: Callable[[str, int, int, str], None]
) -> tuple[dict[Key, Fitted], tuple[str, ...]]:
    """Coefficients of the kernel families, fitted to library kernels timed on this CPU; and what was not timed."""
    steps = count(1)
    try:
        timings = measure(machine, quick, partial(on_progress, "kernels"))
        how = f"{' and '.join(timings.libraries)}, {allowed_cpus()} threads, wall time of a call, cold caches"
        source = f"timed on this machine ({how}), {now()[:10]}"
        fitted = fit_cases(
            timings.rows, machine, source, lambda text: on_progress("fit", n := next(steps), n + 1, text)
        )
    except KeyboardInterrupt:
        return {}, (Note(NOT_MEASURED, f"not measured ({STOPPED}): the kernel families"),)
    if timings.only_numpy:  # the default path is then NumPy's, under either name
        fitted |= {key._replace(backend=NumPy.name): row for key, row in fitted.items()}
    return fitted, (*summary(fitted, len(timings.rows)), *timings.notes())


def summary(fitted: Mapping[Key, Fitted], timed: int) -> tuple[Note, ...]:
    """The held-out error by family, or that too little was timed."""
    by_family: dict[str, list[float]] = {}
    for key, row in fitted.items():
        by_family.setdefault(f"{key.family}{f'@{key.backend}' if key.backend else ''}", []).append(row.error)
    if not by_family:
        again = "run `ridgeline measure cpu --calibrate` on a quiet machine"
        return (
            Note(NOT_MEASURED, f"not calibrated: {timed} undisturbed timings of library kernels are too few; {again}"),
        )
    errors = ", ".join(f"{family} {100 * median(values):.0f} %" for family, values in sorted(by_family.items()))
    return (Note("", f"calibrated on {timed} timings of library kernels; held-out median error: {errors}"),)
