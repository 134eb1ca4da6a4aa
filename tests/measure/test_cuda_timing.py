"""Kernel times: which kernels belong to a call, what a case took, how it is written. No GPU is needed."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from fake_bench import US, FakeBench, cases

from ridgeline.measure.cuda import cases as shapes
from ridgeline.measure.cuda import kernels, timing
from ridgeline.measure.cuda.conditions import Watch
from ridgeline.measure.cuda.timing import Event, Timed


def times(timed_cases: list[shapes.Case], bench: FakeBench, repeats: int) -> list[Timed]:
    return [timed for chunk in timing.chunks(timed_cases, bench, repeats) for timed in chunk]


def test_a_time_is_the_sum_of_the_kernels_between_the_markers() -> None:
    bench = FakeBench()
    (timed,) = times(cases(5), bench, 7)
    assert bench.sessions == [[(5, 7)]]
    assert timed.samples == pytest.approx([15 * US] * 7)  # 5 + 10; the flush of 50 and the markers are not in it
    assert timed.span == pytest.approx([16 * US] * 7)  # and the gap of 1 between the two
    assert [name for name, _ in timed.kernels] == ["first<float>", "Memset (Device)"]
    assert [seconds for _, seconds in timed.kernels] == pytest.approx([5 * US, 10 * US])
    assert timed.conditions == {"sm_clock": 1.98e9}
    assert timed.reason == ""


@pytest.mark.parametrize(("warm", "repeats"), [(0.9e-3, 7), (1.1e-3, 3)])
def test_a_long_case_is_called_less_often(warm: float, repeats: int) -> None:
    (timed,) = times(cases(5), FakeBench(warm=warm), 7)
    assert len(timed.samples) == repeats


def test_a_case_that_fails_keeps_its_place_and_says_why() -> None:
    found = times(cases(1, 2, 3, 4), FakeBench(refuses=2, breaks=3), 2)
    assert [each.reason for each in found] == ["", "no default path", "CUDA out of memory.", ""]
    assert [each.case["n"] for each in found] == [1, 2, 3, 4]
    assert [len(each.samples) for each in found] == [2, 0, 0, 2]


def test_lost_events_send_the_chunk_through_again_in_halves() -> None:
    bench = FakeBench(loses=3, losses=1)
    found = times(cases(1, 2, 3, 4), bench, 2)
    assert [[n for n, _ in session] for session in bench.sessions] == [[1, 2, 3, 4], [1, 2], [3, 4]]
    assert [each.samples[0] for each in found] == pytest.approx([3 * n * US for n in (1, 2, 3, 4)])


def test_a_case_that_loses_its_events_every_time_is_given_up_alone() -> None:
    bench = FakeBench(loses=3, losses=100)
    found = times(cases(1, 2, 3, 4), bench, 2)
    assert [[n for n, _ in session] for session in bench.sessions[-4:]] == [[3, 4], [3], [3], [4]]
    assert found[2].reason == "2 markers were seen of 4"
    assert [bool(each.samples) for each in found] == [True, True, False, True]


def test_chunks_come_one_by_one_and_end_at_the_limit() -> None:
    many = cases(*range(1, 2 * timing.CHUNK_CASES + 2))
    bench = FakeBench()
    assert [len(chunk) for chunk in timing.chunks(many, bench, 1)] == [64, 64, 1]
    assert bench.cleared == 3
    ticks = iter([0.0, 1.0, 2.0, 20.0])  # asked before the chunk, twice by its session, before the next chunk
    assert [len(part) for part in timing.chunks(many, FakeBench(), 1, until=10.0, now=lambda: next(ticks))] == [64]


def test_kernels_that_come_and_go_between_calls_are_lost_events() -> None:
    mark = Event("spin_kernel", 0, 0)
    work = Event("x", 0, 1)
    assert timing.split([mark, work, mark, mark, work, mark], [2]) == [[[work], [work]]]
    assert timing.split([mark, work, mark, mark, mark], [1, 1]) == [[[work]], [[]]]
    with pytest.raises(timing.LostEvents, match="between 0 and 1 kernels"):
        timing.split([mark, work, mark, mark, mark], [2])
    assert timing.summed({}, [[]], {}).reason == "no kernel ran on the device"


class FakeTorch:
    """Just enough of torch with a GPU to see in which order things are queued; an event of 3 ms for every call."""

    def __init__(self) -> None:
        self.queued: list[str] = []
        self.reserved = 0
        queue = self.queued.append
        told = SimpleNamespace(total_memory=100 << 30, L2_cache_size=60 << 20)
        event = SimpleNamespace(record=lambda: None, synchronize=lambda: queue("wait"), elapsed_time=lambda end: 3.0)
        self.cuda = SimpleNamespace(
            current_device=lambda: 0,
            get_device_properties=lambda index: told,
            Event=lambda enable_timing: event,
            _sleep=lambda cycles: queue("spin_kernel"),
            synchronize=lambda: queue("wait"),
            memory_reserved=lambda: self.reserved,
            memory_allocated=lambda: 0,
            empty_cache=lambda: queue("emptied"),
        )
        self.backends = SimpleNamespace(cudnn=SimpleNamespace(benchmark=True))
        self.autograd = SimpleNamespace(DeviceType=SimpleNamespace(CUDA="cuda"))
        self.profiler = SimpleNamespace(profile=self.profile, ProfilerActivity=SimpleNamespace(CUDA="cuda activity"))
        self.values = 0

    def manual_seed(self, seed: int) -> None: ...

    def randn(self, count: int, device: str) -> Any:
        self.values = count
        return SimpleNamespace(relu=lambda: self.queued.append("relu"))

    def empty(self, shape: tuple[int, ...], device: str) -> Any:
        return SimpleNamespace()

    def sum(self, values: Any, dim: int, out: Any) -> None:
        self.queued.append("sum")

    @contextmanager
    def profile(self, activities: list[str]) -> Iterator[Any]:
        assert activities == ["cuda activity"]
        self.queued.clear()
        session = SimpleNamespace(profiler=SimpleNamespace(kineto_results=None))
        yield session
        ran = [record(name, "cuda", 10 * at, 5) for at, name in enumerate(self.queued) if name != "wait"]
        session.profiler.kineto_results = SimpleNamespace(events=lambda: ran)


def test_every_call_finds_cold_caches_and_stands_between_markers() -> None:
    torch = FakeTorch()
    gpu = timing.Gpu(torch)
    assert torch.values * 4 == 3 * (60 << 20)  # fp32 values over three times the L2
    assert torch.backends.cudnn.benchmark is False
    calls = {name: lambda name=name: torch.queued.append(name) for name in ("one", "two")}
    events = gpu.trace([(calls["one"], 2), (calls["two"], 1)])
    ran = [name for call in ("one", "one", "two") for name in ("sum", "spin_kernel", call, "spin_kernel")]
    assert [event.name for event in events] == ran
    assert torch.queued[-1] == "wait"  # before the session ends
    found = timing.split(events, [2, 1])
    assert [[event.name for call in each for event in call] for each in found] == [["one", "one"], ["two"]]


def test_a_gpu_that_rests_waits_before_the_caches_are_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    torch, rests = FakeTorch(), []
    gpu = timing.Gpu(torch)
    monkeypatch.setattr(timing.time, "sleep", rests.append)
    torch.queued.clear()
    gpu.trace([(lambda: torch.queued.append("op"), 2)])
    usual = [name for name in torch.queued if name != "wait"]
    assert not rests
    gpu.rest = 0.005
    torch.queued.clear()
    gpu.trace([(lambda: torch.queued.append("op"), 2)])
    assert rests == [0.005, 0.005]
    assert torch.queued[0] == "wait"
    assert [name for name in torch.queued if name != "wait"] == usual


def test_warming_up_calls_twice_and_times_the_second() -> None:
    torch = FakeTorch()
    gpu = timing.Gpu(torch)
    torch.queued.clear()
    assert gpu.warm(lambda: torch.queued.append("op")) == pytest.approx(3e-3)
    assert torch.queued == ["op", "op", "wait"]


def test_freed_memory_is_given_back_when_there_is_much_of_it() -> None:
    torch = FakeTorch()
    gpu = timing.Gpu(torch)
    for reserved, emptied in ((23 << 30, 0), (25 << 30, 1)):
        torch.reserved = reserved
        torch.queued.clear()
        gpu.clear()
        assert torch.queued.count("emptied") == emptied


def test_conditions_are_those_read_during_the_session() -> None:
    watch = Watch(None)
    clocks = ((0.5, 1.2e9), (1.5, 1.9e9), (1.6, 1.98e9), (1.7, 1.95e9), (9.0, 1.0e9))
    watch.readings = [(at, {"sm_clock": clock}) for at, clock in clocks]
    assert timing.Gpu(FakeTorch(), watch=watch).conditions(1.0, 2.0) == {"sm_clock": 1.95e9}
    assert timing.Gpu(FakeTorch()).conditions(1.0, 2.0) == {}


def record(name: str, device: str, start: int, duration: int, note: bool = False) -> Any:
    """A record as the profiler gives it."""
    told = {"name": name, "device_type": device, "start_ns": start, "duration_ns": duration, "is_user_annotation": note}
    return SimpleNamespace(**{key: lambda value=value: value for key, value in told.items()})


def test_the_device_s_records_come_in_order_of_start() -> None:
    late = 1_700_000_000_000_000_000  # nanoseconds since 1970: a float would round them to 256
    told = [
        record("b", "cuda", late + 301, 10),
        record("cudaLaunchKernel", "cpu", late, 5),
        record("a", "cuda", late + 100, 50),
        record("ProfilerStep", "cuda", late, 900, note=True),
        record("Stream Wait Event", "cuda", late, 3),
    ]
    found = timing.device_events(told, "cuda")
    assert [event.name for event in found] == ["a", "b"]
    assert [event.end - event.start for event in found] == pytest.approx([50e-9, 10e-9], rel=1e-6)
    assert found[1].start - found[0].start == pytest.approx(201e-9, rel=1e-6)
    assert timing.device_events([], "cuda") == []


def test_rows_are_flat_and_leave_out_what_is_not_known() -> None:
    samples = tuple(n * US for n in (10, 11, 12, 13, 20))
    case = {"op": "attention", "dtype": "bf16", "batch": 2, "causal": True, "variant": "flash"}
    timed = Timed(case, samples, samples, (("small", 1 * US), ("large", 11 * US)), conditions={"power": 400.0})
    done, failed = kernels.rows([timed, Timed({"op": "relu", "n": 3}, reason="why")])
    assert (done["time_us"], done["best_us"], done["span_us"]) == (12.0, 10.0, 12.0)
    # quantiles of five samples: 10 % lies 0.4 of the way from 10 to 11, 90 % 0.6 of the way from 13 to 20
    assert done["spread"] == pytest.approx((17.2 - 10.4) / 2 / 12, abs=1e-4)
    assert (done["kernels"], done["kernel_name"], done["causal"], done["power"]) == (2, "large", "yes", 400.0)
    assert failed == {"op": "relu", "n": 3, "reason": "why"}
    back = list(csv.DictReader(kernels.table([done, failed]).splitlines()))
    assert back[0]["time_us"] == "12"
    assert (back[1]["n"], back[1]["time_us"], back[1]["reason"]) == ("3", "", "why")
    assert "rows" not in back[0]  # a column nobody uses


def test_every_word_of_a_drawn_case_has_a_column() -> None:
    used = {key for case in shapes.calibration_cases(quick=True) for key in case}
    assert used <= set(kernels.COLUMNS)


@pytest.mark.needs_torch
def test_the_profiler_answers_to_the_names_we_call() -> None:
    """The same session as on a GPU, over the host's activities, which this torch can always record."""
    import torch

    values = torch.ones(10)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as session:
        values.relu()
    told = session.profiler.kineto_results.events()
    found = timing.device_events(told, torch.autograd.DeviceType.CPU)
    assert "aten::relu" in [event.name for event in found]
    assert timing.device_events(told, torch.autograd.DeviceType.CUDA) == []
