"""Timings of library kernels on this CPU, over sizes from a few KiB to beyond the last cache, for fitting families.

    cases -> library (calls of torch and NumPy, cold caches) -> protocol -> rows of op, dtype, sizes, backend, time_us

The default path is torch where it is installed, else NumPy; the rows of the other carry its name as their backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import count
from time import perf_counter
from typing import Any

from ...core.errors import InputError
from ...core.families.key import Key
from ...core.fitted import Fitted
from ...core.machine import Machine
from ...core.notes import NOT_MEASURED, Note
from ...core.statistics import median, quantile
from ...prediction.fit import fit_cases
from ...programs.ops import find
from ..conditions import allowed_cpus, now, waited
from ..protocol import STOPPED, Probe, Progress, Timing, interleave
from . import direct_calls
from .draws import Limits, cases
from .library import Case, NumPy, Run, Torch, keep_freed_memory

BUDGET_SECONDS = {True: 32.0, False: 210.0}  # of timing with cold caches, quick and full
RESIDENT_SECONDS = {True: 15.0, False: 60.0}  # and with operands in the caches
RESIDENT_SHARE, MAX_RESIDENT = 0.25, 1 << 23  # of the largest cache and bytes, that operands in the caches take
MIN_SAMPLE_SECONDS = 1e-3  # of calls on operands in the caches
MIN_CALLS = 5  # of a sample, whose median a few disturbed ones do not change
MIN_FLUSH, MAX_FLUSH, MAX_POOL = 1 << 26, 1 << 30, 1 << 28
MEMORY_PER_FLUSH = 8.0  # memory over the bytes that are read to empty the caches, at least
FLUSH_CACHES = 1.5  # caches' worth of bytes that are read to empty them
MAX_CASE_SECONDS = {True: 0.02, False: 0.1}  # of the longest case, at half the peak
MAX_WAIT_SECONDS = 2e-5  # that threads may wait for a core however short the call is
ROUNDS = {True: (3, 5), False: (5, 9)}  # at least and at most, quick and full
RESIDENT_ROUNDS = (5, 9)
TOLERANCE = 0.03
TIME_QUANTILE = 0.25  # of the samples of a case: what disturbs a call makes it slower, and there are few samples
CHUNK_CASES = 12  # that take turns
DEFAULT_SHARE = 0.7  # of the time, for the default path where there are two
MEMORY_PER_POOL = 32.0  # memory over the bytes of random values of a format
DEFAULT_MEMORY = 4e9  # bytes, where the size of the memory is not known
COLD_CACHES = 4.0  # a call that moves so many caches' worth of bytes finds nothing of its own in them


def limits(machine: Machine, quick: bool, pool_bytes: float) -> Limits:
    seconds = MAX_CASE_SECONDS[quick]
    peak = max((figure.value() or 0.0 for name, figure in machine.peaks.items() if name == "vector.fp32"), default=0.0)
    beyond_caches = max((2.0 if quick else 4.0) * machine.largest_cache, MIN_FLUSH)
    return Limits(min(beyond_caches, pool_bytes), max(peak, 1e9) * seconds / 2)


def resident_limits(machine: Machine, cold: Limits) -> Limits:
    """Of cases whose operands stay in the caches: down to a single element, as optimizers have them."""
    return Limits(min(RESIDENT_SHARE * machine.largest_cache, MAX_RESIDENT), cold.flops / 8, 1)


@dataclass
class Timings:
    """Rows for the fit, and how many cases have none: preempted in every sample, or left when the time was over."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    resident_rows: list[dict[str, Any]] = field(default_factory=list)  # with the operands in the caches
    libraries: list[str] = field(default_factory=list)  # with their versions, the default path first
    preempted: int = 0
    missing: int = 0
    stopped: bool = False
    only_numpy: bool = False

    @property
    def count(self) -> int:
        return len(self.rows) + len(self.resident_rows)

    def notes(self) -> tuple[Note, ...]:
        texts = []
        if self.preempted:
            texts.append(f"noisy: {self.preempted} library kernels were preempted in every sample and are left out")
        if self.missing:
            why = STOPPED if self.stopped else "the time was used up"
            texts.append(f"not measured ({why}): {self.missing} of {self.count + self.missing} library kernels")
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


def call_resident(run: Run, threads: int, loops: int) -> Timing:
    """So many calls on operands that an earlier one has brought into the caches, each as long as the median of them.

    On a machine that others use, a call now and then takes a hundred times as long, because one of its threads has no core.
    """
    result = run()
    seconds = []
    before = waited()
    for _ in range(loops):
        start = perf_counter()
        result = run()
        seconds.append(perf_counter() - start)
    after = waited()
    del result  # kept until here, so that the next call writes elsewhere
    total = sum(seconds)
    waiting = 0.0 if before is None or after is None else max(after - before - MAX_WAIT_SECONDS, 0.0)
    disturbed = loops < MIN_CALLS and waiting > 0
    return Timing(loops * median(seconds), max(1 - waiting / (total * threads), 0.0) if disturbed else 1.0)


def _probes(
    chunk: Sequence[Case], library: Torch | NumPy, cache: float | None, threads: int
) -> Iterator[tuple[Case, Probe]]:
    """With cold caches of so many bytes, or with the operands in them where none are given."""
    for number, case in enumerate(chunk):
        work = find(case["op"])(**{key: value for key, value in case.items() if key != "op"})
        try:
            runs = library.build(case)
        except InputError:
            continue
        if cache is None:
            call = partial(call_resident, runs[0], threads)
        else:
            flush = library.flush if work.footprint < COLD_CACHES * cache else None
            call = partial(call_cold, flush, runs, threads)
        yield case, Probe(f"{number} {case['op']}", case["op"], call, work)


def time_cases(
    listed: Sequence[Case],
    library: Torch | NumPy,
    machine: Machine,
    quick: bool,
    until: float,
    on_progress: Progress,
    resident: bool = False,
) -> Timings:
    """Rows of the cases that the time sufficed for."""
    (rounds, max_rounds), threads = RESIDENT_ROUNDS if resident else ROUNDS[quick], allowed_cpus()
    cache = None if resident else machine.largest_cache
    timings = Timings()
    for start in range(0, len(listed), CHUNK_CASES):
        if perf_counter() >= until or timings.stopped:
            timings.missing = len(listed) - start
            break
        on_progress(start, len(listed), f"library kernels, {library.name}{', in cache' if resident else ''}")
        pairs = list(_probes(listed[start : start + CHUNK_CASES], library, cache, threads))
        run = interleave(
            [probe for _, probe in pairs], rounds, min_seconds=MIN_SAMPLE_SECONDS if resident else 1e-9, warm_seconds=0.0,
            max_rounds=max_rounds, tolerance=TOLERANCE,
        )  # fmt: skip
        of_probe = {probe.name: case for case, probe in pairs}
        calm = [series for series in run.series if not series.stand_in]
        for row in calm:
            case, seconds = of_probe[row.probe.name], quantile(row.samples, TIME_QUANTILE)
            ops = direct_calls.TOGETHER.get(case["op"], (case["op"],))
            timings.rows += [{**case, "op": op, "time_us": 1e6 * seconds / len(ops)} for op in ops]
        timings.preempted += len(run.series) - len(calm)
        timings.stopped = run.stopped
    return timings


def measure(machine: Machine, quick: bool, on_progress: Progress) -> Timings:
    """Library kernels timed on this CPU within the budget; Ctrl-C keeps what was timed."""
    cache = machine.largest_cache
    memory = (machine.main.total if machine.levels else None) or DEFAULT_MEMORY
    flush_bytes = int(min(max(FLUSH_CACHES * cache, MIN_FLUSH), MAX_FLUSH, memory / MEMORY_PER_FLUSH))
    pool_bytes = int(min(max(COLD_CACHES * cache, MIN_FLUSH), MAX_POOL, memory / MEMORY_PER_POOL))
    keep_freed_memory()
    kinds: list[type[Torch] | type[NumPy]] = [Torch, NumPy] if find_spec("torch") else [NumPy]
    most, every = limits(machine, quick, pool_bytes), Timings(only_numpy=len(kinds) == 1)
    kinds = kinds[:1] if quick else kinds  # the time of a quick run suffices for the default path in one format
    for kind in kinds:
        default = kind is kinds[0]
        formats = ("fp32", "fp64") if kind is NumPy else ("fp32", "bf16")
        dtypes = [name for name in formats[: 1 if quick else None] if name in machine.dtypes()]
        share = 1.0 if len(kinds) == 1 else DEFAULT_SHARE if default else 1 - DEFAULT_SHARE
        library = kind(flush_bytes, pool_bytes)
        every.libraries.append(library.version)
        cold = cases(kind.name, dtypes, most, quick)
        small = cases(kind.name, dtypes, resident_limits(machine, most), quick, resident=True)
        for rows, listed, seconds in (
            (every.rows, cold, BUDGET_SECONDS[quick]),
            (every.resident_rows, small, RESIDENT_SECONDS[quick]),
        ):
            until, resident = perf_counter() + share * seconds, listed is small
            timed = time_cases(listed, library, machine, quick, until, on_progress, resident)
            rows += [row if default else {**row, "backend": kind.name} for row in timed.rows]
            every.preempted, every.missing = every.preempted + timed.preempted, every.missing + timed.missing
            every.stopped = timed.stopped
            if every.stopped:
                return every
    return every


def fitted_families(
    machine: Machine, quick: bool, on_progress: Callable[[str, int, int, str], None]
) -> tuple[dict[Key, Fitted], tuple[str, ...]]:
    """Coefficients of the kernel families, fitted to library kernels timed on this CPU; and what was not timed."""
    steps = count(1)
    try:
        timings = measure(machine, quick, partial(on_progress, "kernels"))
        how = f"{' and '.join(timings.libraries)}, {allowed_cpus()} threads, wall time of a call"

        def fit(rows: list[dict[str, Any]], state: str, resident: bool) -> dict[Key, Fitted]:
            source = f"timed on this machine ({how}, {state}), {now()[:10]}"
            tell = lambda text: on_progress("fit", n := next(steps), n + 1, text)  # noqa: E731
            return fit_cases(rows, machine, source, tell, resident=resident)

        fitted = fit(timings.rows, "cold caches", False)
        if timings.resident_rows:
            fitted |= fit(timings.resident_rows, "operands in cache", True)
    except KeyboardInterrupt:
        return {}, (Note(NOT_MEASURED, f"not measured ({STOPPED}): the kernel families"),)
    if timings.only_numpy:  # the default path is then NumPy's, under either name
        fitted |= {key._replace(backend=NumPy.name): row for key, row in fitted.items()}
    return fitted, (*summary(fitted, timings.count), *timings.notes())


def summary(fitted: Mapping[Key, Fitted], timed: int) -> tuple[Note, ...]:
    """The held-out error by family, or that too little was timed."""
    by_family: dict[str, list[float]] = {}
    for key, row in fitted.items():
        name = f"{key.family}{f'@{key.backend}' if key.backend else ''}{' in cache' if key.resident else ''}"
        by_family.setdefault(name, []).append(row.error)
    if not by_family:
        again = "run `ridgeline measure cpu --calibrate` on a quiet machine"
        return (
            Note(NOT_MEASURED, f"not calibrated: {timed} undisturbed timings of library kernels are too few; {again}"),
        )
    errors = ", ".join(f"{family} {100 * median(values):.0f} %" for family, values in sorted(by_family.items()))
    return (Note("", f"calibrated on {timed} timings of library kernels; held-out median error: {errors}"),)
