"""Device times of many cases on an NVIDIA GPU: CUPTI through torch's profiler, marker kernels around each call.

Before each call a buffer of three times the L2 is read, so that the call finds its operands in main memory and no
dirty line is left to be written back under it. A sample is the sum of the durations of a call's kernels; `span` is
last end less first start.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...core.errors import InputError, RidgelineError, first_line
from ..conditions import now
from .calls import build
from .conditions import Nvml, Watch, reader, summary, versions
from .device import Library, package
from .draw import GIB, POOL_BYTES, Case
from .operands import Run, ValuePool

MARKER = "spin_kernel"  # what torch.cuda._sleep runs
WAITS = ("Context Sync", "Stream Sync", "Event Sync", "Stream Wait Event")  # waiting that is filed under the device
MAX_CACHED_BYTES = 24 * GIB  # what torch may keep of freed memory between chunks
METHOD = (
    "device time of the default PyTorch path: kernels, copies and fills between two marker kernels, by "
    "CUPTI through torch.profiler; two calls to warm up; before each call three times the L2 is read; operands are "
    "normal random values; time_us is the median over the calls of the sum of durations, span_us of last end less "
    "first start, spread half the width of the central 80 % of the sums over their median"
)
Now = Callable[[], float]
LONG_SECONDS = 1e-3  # from which a case is called less often
LONG_REPEATS = 3
CHUNK_CASES = 64  # in one session of the profiler: some two thousand kernels
NAME_LENGTH = 120  # characters kept of a kernel's name


@dataclass(frozen=True)
class Event:
    """One thing the device did: a kernel, a copy or a fill; seconds on the device's clock."""

    name: str
    start: float
    end: float

    @property
    def duration(self) -> float:
        return self.end - self.start


class LostEvents(RidgelineError):
    """The profiler did not record all that ran."""


class Gpu:
    """The current CUDA device through torch."""

    def __init__(self, torch: Any, pool_bytes: int = POOL_BYTES, watch: Watch | None = None) -> None:
        self.torch, self.watch = torch, watch
        self.rest = 0.0  # seconds before each call, in which the clock recovers from the load before
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.pool = ValuePool(torch, "cuda", min(pool_bytes, int(properties.total_memory) // 10))
        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = False
        self.flushed = torch.randn(3 * int(properties.L2_cache_size) // 4, device="cuda")
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
                    if self.rest:
                        torch.cuda.synchronize()
                        time.sleep(self.rest)
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
        during = summary(self.watch.during([(begin, end)]))
        return {key: during[key]["median"] for key in ("sm_clock", "power") if key in during}

    def clear(self) -> None:
        cuda = self.torch.cuda
        try:
            cuda.synchronize()
        except RuntimeError as error:  # a kernel that went wrong takes the device with it: nothing runs after it
            raise InputError(
                f"the GPU stopped answering ({first_line(error)}); cases timed before are kept, leave out the last ones and run again"
            ) from None
        if cuda.memory_reserved() - cuda.memory_allocated() > MAX_CACHED_BYTES:
            cuda.empty_cache()


def device_events(records: Iterable[Any], device: Any) -> list[Event]:
    """The profiler's records of the device, in order of start; host calls and annotations are left out."""
    rows = sorted(
        (row.start_ns(), row.start_ns() + row.duration_ns(), row.name())
        for row in records
        if row.device_type() == device and not row.is_user_annotation() and row.name() not in WAITS
    )
    first = rows[0][0] if rows else 0  # nanoseconds since 1970 would not fit a float
    return [Event(name, (start - first) / 1e9, (end - first) / 1e9) for start, end, name in rows]


def split(events: Sequence[Event], repeats: Sequence[int]) -> list[list[list[Event]]]:
    """The events of each call of each case: those between its two markers."""
    places = [index for index, event in enumerate(events) if MARKER in event.name]
    if len(places) != 2 * sum(repeats):
        raise LostEvents(f"{len(places)} markers were seen of {2 * sum(repeats)}")
    calls = iter([list(events[start + 1 : end]) for start, end in zip(places[::2], places[1::2], strict=True)])
    by_case = [[next(calls) for _ in range(count)] for count in repeats]
    for case_calls in by_case:
        counts = {len(call) for call in case_calls}
        if len(counts) > 1:
            raise LostEvents(f"calls of one case show between {min(counts)} and {max(counts)} kernels")
    return by_case


def _bus(torch: Any) -> str:
    """The PCI bus id of the current device; empty where neither torch nor cupy reports it."""
    index = torch.cuda.current_device()
    properties = torch.cuda.get_device_properties(index)
    if hasattr(properties, "pci_bus_id"):
        return f"{properties.pci_domain_id:08x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
    cupy = package("cupy")
    return str(cupy.cuda.Device(index).pci_bus_id) if cupy is not None else ""


def open_gpu() -> tuple[Gpu, Watch, dict[str, Any]]:
    """The device, a watch that is not yet running, and the conditions at this moment."""
    torch = package("torch")
    if torch is None or not torch.cuda.is_available():
        why = "torch is not installed" if torch is None else "this torch sees no CUDA GPU"
        raise InputError(f"timing kernels needs torch with CUDA and an NVIDIA GPU: {why}")
    bus = _bus(torch)
    source, why = reader(bus) if bus else (None, "the bus id of the GPU is not known")
    # nvidia-smi starts a process for each reading, which would disturb the host if asked often
    watch = Watch(source, period=0.05 if isinstance(source, Nvml) else 2.0)
    gpu = Gpu(torch, watch=watch)
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    conditions = {
        "device": str(properties.name),
        "date": now(),
        "l2": int(properties.L2_cache_size),
        "sms": int(properties.multi_processor_count),
        "memory": int(properties.total_memory),
        **(source.facts() if source is not None else {"gaps": [why]}),
        "versions": {**versions(), **Library(torch).versions()},
        "method": METHOD,
    }
    return gpu, watch, conditions


@dataclass(frozen=True)
class Timed:
    """What a case took: sums and spans of its kernels per call, the kernels of the median call; or why it has no time."""

    case: Case
    samples: tuple[float, ...] = ()
    span: tuple[float, ...] = ()
    kernels: tuple[tuple[str, float], ...] = ()
    reason: str = ""
    conditions: Mapping[str, float] = field(default_factory=dict)


class Bench(Protocol):
    """Where cases run; tests bring their own."""

    def build(self, case: Case) -> Run: ...
    def warm(self, run: Run) -> float: ...
    def trace(self, plan: Sequence[tuple[Run, int]]) -> list[Event]: ...
    def conditions(self, begin: float, end: float) -> dict[str, float]: ...
    def clear(self) -> None: ...


def short_name(kernel: str) -> str:
    """A kernel's name without what all of them carry."""
    for common in ("void ", "at::native::", "(anonymous namespace)::", "c10::", "<unnamed>::"):
        kernel = kernel.replace(common, "")
    return kernel[:NAME_LENGTH]


def summed(case: Case, calls: Sequence[Sequence[Event]], conditions: Mapping[str, float]) -> Timed:
    if not calls or not calls[0]:
        return Timed(case, reason="no kernel ran on the device")
    sums = tuple(sum(event.duration for event in call) for call in calls)
    spans = tuple(max(event.end for event in call) - min(event.start for event in call) for call in calls)
    median_call = calls[sums.index(sorted(sums)[len(sums) // 2])]
    kernels = tuple((short_name(event.name), event.duration) for event in median_call)
    return Timed(case, sums, spans, kernels, conditions=dict(conditions))


def chunks(
    cases: Sequence[Case], bench: Bench, repeats: int = 7, until: float = math.inf, now: Now = time.perf_counter
) -> Iterator[list[Timed]]:
    """The cases chunk by chunk, in their order, as they are timed; no chunk begins after `until` on the clock."""
    for first in range(0, len(cases), CHUNK_CASES):
        if now() >= until:
            return
        yield _chunk(cases[first : first + CHUNK_CASES], bench, repeats, now)
        bench.clear()


def _chunk(cases: Sequence[Case], bench: Bench, repeats: int, now: Now) -> list[Timed]:
    timed: dict[int, Timed] = {}
    plan: list[tuple[int, Run, int]] = []
    for index, case in enumerate(cases):
        try:
            run = bench.build(case)
            seconds = bench.warm(run)
        except Exception as error:  # whatever a library refuses: out of memory, a format, a layout
            timed[index] = Timed(case, reason=first_line(error))
            bench.clear()
        else:
            plan.append((index, run, min(repeats, LONG_REPEATS) if seconds > LONG_SECONDS else repeats))
    timed.update(_traced(cases, plan, bench, now))
    return [timed[index] for index in range(len(cases))]


def _traced(cases: Sequence[Case], plan: Sequence[tuple[int, Run, int]], bench: Bench, now: Now) -> dict[int, Timed]:
    """One session over the plan; where it fails, one over each half, down to single cases, which are tried twice."""
    if not plan:
        return {}
    why = ""
    for _ in range(2 if len(plan) == 1 else 1):
        begin = now()
        try:
            calls = split(bench.trace([(run, repeats) for _, run, repeats in plan]), [row[2] for row in plan])
        except Exception as error:  # lost events, or memory that no longer sufficed
            why = first_line(error)
            continue
        during = bench.conditions(begin, now())
        return {index: summed(cases[index], each, during) for (index, _, _), each in zip(plan, calls, strict=True)}
    if len(plan) == 1:
        index = plan[0][0]
        return {index: Timed(cases[index], reason=why)}
    half = len(plan) // 2
    return _traced(cases, plan[:half], bench, now) | _traced(cases, plan[half:], bench, now)
