"""Kernel times: which calls are made, which kernels belong to a call, which shapes are drawn. No GPU is needed."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.errors import InputError
from ridgeline.measure.cuda import cases as shapes
from ridgeline.measure.cuda import kernels
from ridgeline.measure.cuda.kernels import Event, Timed
from ridgeline.programs.ops import OPS, find

US = 1e-6


# -- a device made of a list ---------------------------------------------------------------------------------------


class FakeBench:
    """Runs a case as two kernels of n and 2n microseconds with a gap of one between them, on a clock of its own.

    `refuses` cannot be built, `breaks` fails in its first call, `loses` names cases whose second marker is dropped in
    the first `losses` sessions that hold them.
    """

    def __init__(self, refuses: int = 0, breaks: int = 0, loses: int = 0, losses: int = 0, warm: float = 0.0) -> None:
        self.refuses, self.breaks, self.loses, self.losses = refuses, breaks, loses, losses
        self.seconds = warm
        self.sessions: list[list[tuple[int, int]]] = []
        self.cleared = 0

    def build(self, case: shapes.Case) -> Any:
        if case["n"] == self.refuses:
            raise InputError("no default path")
        return lambda: case["n"]

    def warm(self, run: Any) -> float:
        if run() == self.breaks:
            raise RuntimeError("CUDA out of memory.\nmore lines")
        return self.seconds

    def trace(self, plan: Any) -> list[Event]:
        self.sessions.append([(run(), repeats) for run, repeats in plan])
        events, now = [], 0.0

        def add(name: str, microseconds: float) -> None:
            nonlocal now
            events.append(Event(name, now, now + microseconds * US))
            now += (microseconds + 1) * US

        for run, repeats in plan:
            lost = run() == self.loses and self.losses > 0
            self.losses -= lost
            for _ in range(repeats):
                add("reduce_kernel", 50)
                add("at::cuda::spin_kernel(long)", 1)
                add("void at::native::first<float>", run())
                add("Memset (Device)", 2 * run())
                if not lost:
                    add("at::cuda::spin_kernel(long)", 1)
        return events

    def conditions(self, begin: float, end: float) -> dict[str, float]:
        return {"sm_clock": 1.98e9}

    def clear(self) -> None:
        self.cleared += 1


def cases(*sizes: int) -> list[shapes.Case]:
    return [{"op": "relu", "dtype": "fp32", "n": n} for n in sizes]


def test_a_time_is_the_sum_of_the_kernels_between_the_markers() -> None:
    bench = FakeBench()
    (timed,) = kernels.times(cases(5), repeats=7, bench=bench)
    assert bench.sessions == [[(5, 7)]]
    assert timed.samples == pytest.approx([15 * US] * 7)  # 5 + 10; the flush of 50 and the markers are not in it
    assert timed.span == pytest.approx([16 * US] * 7)  # and the gap of 1 between the two
    assert [name for name, _ in timed.kernels] == ["first<float>", "Memset (Device)"]
    assert [seconds for _, seconds in timed.kernels] == pytest.approx([5 * US, 10 * US])
    assert timed.conditions == {"sm_clock": 1.98e9}
    assert timed.reason == ""


@pytest.mark.parametrize(("warm", "repeats"), [(0.9e-3, 7), (1.1e-3, 3)])
def test_a_long_case_is_called_less_often(warm: float, repeats: int) -> None:
    (timed,) = kernels.times(cases(5), repeats=7, bench=FakeBench(warm=warm))
    assert len(timed.samples) == repeats


def test_a_case_that_fails_keeps_its_place_and_says_why() -> None:
    found = kernels.times(cases(1, 2, 3, 4), repeats=2, bench=FakeBench(refuses=2, breaks=3))
    assert [each.reason for each in found] == ["", "no default path", "CUDA out of memory.", ""]
    assert [each.case["n"] for each in found] == [1, 2, 3, 4]
    assert [len(each.samples) for each in found] == [2, 0, 0, 2]


def test_lost_events_send_the_chunk_through_again_in_halves() -> None:
    bench = FakeBench(loses=3, losses=1)
    found = kernels.times(cases(1, 2, 3, 4), repeats=2, bench=bench)
    assert [[n for n, _ in session] for session in bench.sessions] == [[1, 2, 3, 4], [1, 2], [3, 4]]
    assert [each.samples[0] for each in found] == pytest.approx([3 * n * US for n in (1, 2, 3, 4)])


def test_a_case_that_loses_its_events_every_time_is_given_up_alone() -> None:
    bench = FakeBench(loses=3, losses=100)
    found = kernels.times(cases(1, 2, 3, 4), repeats=2, bench=bench)
    assert [[n for n, _ in session] for session in bench.sessions[-4:]] == [[3, 4], [3], [3], [4]]
    assert found[2].reason == "2 markers were seen of 4"
    assert [bool(each.samples) for each in found] == [True, True, False, True]


def test_chunks_end_at_the_limit_and_progress_is_told() -> None:
    many = cases(*range(1, 2 * kernels.CHUNK + 2))
    told: list[tuple[int, int]] = []
    bench = FakeBench()
    assert len(kernels.times(many, 1, lambda done, whole: told.append((done, whole)), bench)) == len(many)
    assert told == [(64, 129), (128, 129), (129, 129)]
    assert bench.cleared == 3
    ticks = iter([0.0, 1.0, 2.0, 20.0])  # asked before the chunk, twice by its session, before the next chunk
    assert [len(part) for part in kernels.chunks(many, FakeBench(), 1, until=10.0, clock=lambda: next(ticks))] == [64]


def test_kernels_that_come_and_go_between_calls_are_lost_events() -> None:
    mark = Event("spin_kernel", 0, 0)
    work = Event("x", 0, 1)
    assert kernels.split([mark, work, mark, mark, work, mark], [2]) == [[[work], [work]]]
    assert kernels.split([mark, work, mark, mark, mark], [1, 1]) == [[[work]], [[]]]
    with pytest.raises(kernels.Lost, match="between 0 and 1 kernels"):
        kernels.split([mark, work, mark, mark, mark], [2])
    assert kernels.summed({}, [[]], {}).reason == "no kernel ran on the device"


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
    gpu = kernels.Gpu(torch)
    assert torch.values * 4 == 3 * (60 << 20)  # fp32 values over three times the L2
    assert torch.backends.cudnn.benchmark is False
    calls = {name: lambda name=name: torch.queued.append(name) for name in ("one", "two")}
    events = gpu.trace([(calls["one"], 2), (calls["two"], 1)])
    ran = [name for call in ("one", "one", "two") for name in ("sum", "spin_kernel", call, "spin_kernel")]
    assert [event.name for event in events] == ran
    assert torch.queued[-1] == "wait"  # before the session ends
    found = kernels.split(events, [2, 1])
    assert [[event.name for call in each for event in call] for each in found] == [["one", "one"], ["two"]]


def test_warming_up_calls_twice_and_times_the_second() -> None:
    torch = FakeTorch()
    gpu = kernels.Gpu(torch)
    torch.queued.clear()
    assert gpu.warm(lambda: torch.queued.append("op")) == pytest.approx(3e-3)
    assert torch.queued == ["op", "op", "wait"]


def test_freed_memory_is_given_back_when_there_is_much_of_it() -> None:
    torch = FakeTorch()
    gpu = kernels.Gpu(torch)
    for reserved, emptied in ((23 << 30, 0), (25 << 30, 1)):
        torch.reserved = reserved
        torch.queued.clear()
        gpu.clear()
        assert torch.queued.count("emptied") == emptied


def test_conditions_are_those_read_during_the_session() -> None:
    watch = kernels.conditions_cuda.Watch(None)
    clocks = ((0.5, 1.2e9), (1.5, 1.9e9), (1.6, 1.98e9), (1.7, 1.95e9), (9.0, 1.0e9))
    watch.seen = [(at, {"sm_clock": clock}) for at, clock in clocks]
    assert kernels.Gpu(FakeTorch(), watch=watch).conditions(1.0, 2.0) == {"sm_clock": 1.95e9}
    assert kernels.Gpu(FakeTorch()).conditions(1.0, 2.0) == {}


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
    found = kernels.device_events(told, "cuda")
    assert [event.name for event in found] == ["a", "b"]
    assert [event.end - event.start for event in found] == pytest.approx([50e-9, 10e-9], rel=1e-6)
    assert found[1].start - found[0].start == pytest.approx(201e-9, rel=1e-6)
    assert kernels.device_events([], "cuda") == []


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
    assert back[0]["time_us"] == "12.0"
    assert (back[1]["n"], back[1]["time_us"], back[1]["reason"]) == ("3", "", "why")
    assert "rows" not in back[0]  # a column nobody uses


def test_every_word_of_a_drawn_case_has_a_column() -> None:
    used = {key for case in shapes.calibration_cases(quick=True) for key in case}
    assert used <= set(kernels.COLUMNS)


# -- which shapes --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def calibration() -> list[shapes.Case]:
    return shapes.calibration_cases()


@pytest.fixture(scope="module")
def drawn() -> list[shapes.Case]:
    return shapes.random_cases(600, seed=5)


def test_the_calibration_has_as_many_cases_of_each_family_as_planned(calibration: list[shapes.Case]) -> None:
    assert len(calibration) == sum(count for _, count, _ in shapes.PLAN)
    by = Counter(case["op"] for case in calibration)
    assert by["gemm"] == 800 + 300 + 300 + 350 + 350 + 250 + 200
    assert by["attention"] == 600 + 360 + 40
    assert sum(by[op] for op in shapes.ROWS) == 2000
    assert {case["dtype"] for case in calibration} == set(kernels.FORMATS) - {"fp8_e5m2"}
    assert sum(case.get("layout") == "nhwc" for case in calibration) > 50
    assert len(shapes.calibration_cases(quick=True)) < len(calibration) / 6


def test_no_case_comes_twice_and_none_of_the_test_set_was_calibrated(
    calibration: list[shapes.Case], drawn: list[shapes.Case]
) -> None:
    seen = Counter(tuple(sorted(case.items())) for case in calibration + drawn)
    assert max(seen.values()) == 1
    assert len(drawn) == 600


def test_cases_are_the_same_for_the_same_seed_only(drawn: list[shapes.Case]) -> None:
    assert shapes.random_cases(600, seed=5) == drawn
    assert shapes.random_cases(600, seed=6) != drawn


def test_a_part_of_the_cases_covers_every_op(calibration: list[shapes.Case]) -> None:
    """They come shuffled: a run that stops early has seen every family."""
    assert {case["op"] for case in calibration[:1000]} == {case["op"] for case in calibration}


def test_drawn_cases_are_ones_their_ops_accept_within_the_caps(
    calibration: list[shapes.Case], drawn: list[shapes.Case]
) -> None:
    for case in calibration + drawn:
        sizes = {key: value for key, value in case.items() if key != "op"}
        work = find(case["op"])(**sizes)
        assert work.flops <= (3e12 if case["dtype"] in ("fp32", "fp64") else 3e13), case
        assert work.footprint <= 12 * (1 << 30), case
        assert all(type(value) is int for key, value in sizes.items() if key in kernels.SIZES), case
        if case["op"] == "gemm" and case["dtype"] in ("fp8_e4m3", "int8"):
            assert case["n"] % 16 == case["k"] % 16 == 0, case
            assert case["dtype"] == "fp8_e4m3" or case["m"] > 16, case


def test_products_cover_decoding_vocabularies_odd_sizes_and_squares(calibration: list[shapes.Case]) -> None:
    products = [case for case in calibration if case["op"] == "gemm" and case["dtype"] == "bf16"]
    assert sum(case["m"] <= 64 for case in products) > 50
    assert sum(case["m"] == case["n"] == case["k"] for case in products) > 20
    assert sum(case["n"] in shapes.VOCABULARIES for case in products) > 5
    assert sum(case["n"] % 2 == 1 for case in products) > 20
    assert max(case["m"] for case in products) > 12000


@given(st.integers(0, 2**31), st.floats(1, 1e4), st.floats(1, 1e4), st.sampled_from([1, 8, 64]))
def test_a_size_lies_between_its_ends_and_on_its_step(seed: int, low: float, ratio: float, step: int) -> None:
    high = max(low * ratio, step)
    found = shapes.Draw(np.random.default_rng(seed), True).size(low, high, step)
    assert found % step == 0
    assert 1 <= found <= high
    assert found >= min(int(low), int(high) // step * step)


# -- the calls -----------------------------------------------------------------------------------------------------

SMALL = {
    **{"m": 32, "n": 48, "k": 64, "batch": 4, "in_features": 32, "out_features": 48, "rows": 8, "cols": 24},
    **{"vocab": 100, "c_in": 8, "c_out": 16, "h": 9, "w": 9, "heads": 8, "seq_q": 16, "head_dim": 64},
    **{"tokens": 16, "experts": 4, "topk": 2, "hidden": 32, "inter": 16},
}
SHAPES = {
    **{"gemm": (32, 48), "linear": (4, 48), "bmm": (4, 32, 48), "gemv": (32,), "ger": (32, 48), "transpose": (24, 8)},
    **{"softmax": (8, 24), "layernorm": (8, 24), "rmsnorm": (8, 24), "batchnorm": (8, 24), "embedding": (8, 24)},
    **{"sum_rows": (8,), "cross_entropy": (8,), "conv2d": (4, 16, 9, 9), "attention": (4, 8, 16, 64)},
    **{"moe": (16, 1, 32)},
    **dict.fromkeys(("dot", "nrm2", "asum", "sum"), ()),
}


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def pool(torch: Any) -> kernels.Pool:
    return kernels.Pool(torch, "cpu", 8 << 20)


def made(torch: Any, pool: kernels.Pool, op: str, **sizes: Any) -> Any:
    return kernels.build({"op": op, **sizes}, torch, "cpu", pool)()


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a host without bf16 units takes another path
@pytest.mark.parametrize("name", sorted(kernels.BUILDERS))
def test_every_op_runs_and_gives_the_right_shape(name: str, torch: Any, pool: kernels.Pool) -> None:
    sizes = {key: SMALL[key] for key, param in OPS[name].params.items() if param.required}
    if name == "cast":
        sizes["out_dtype"] = "fp32"
    found = made(torch, pool, name, dtype="bf16", **sizes)
    assert tuple(found.shape) == SHAPES.get(name, (48,))
    assert found.dtype == (torch.float32 if name == "cast" else torch.bfloat16)
    assert bool(torch.isfinite(found).all())
    assert bool((found != 0).any())


def test_operands_are_random_and_lie_apart(torch: Any, pool: kernels.Pool) -> None:
    pool.begin()
    first, second = pool.take("fp32", 1000), pool.take("fp32", 1000)
    assert second.data_ptr() - first.data_ptr() == 1024 * 4  # 1000 rounded up to a multiple of 512
    assert float(torch.std(first)) == pytest.approx(1.0, abs=0.1)
    assert float(torch.std(pool.take("int8", 100000).float())) == pytest.approx(32.0, abs=1.0)
    assert float(torch.std(pool.take("fp8_e4m3", 100000).float())) == pytest.approx(1.0, abs=0.05)


def test_a_product_multiplies_by_the_weights_as_linear_stores_them(torch: Any, pool: kernels.Pool) -> None:
    found = made(torch, pool, "gemm", m=3, n=5, k=7, dtype="fp64")
    pool.begin()
    x, weights = pool.take("fp64", 3, 7), pool.take("fp64", 5, 7)
    assert torch.allclose(found, x @ weights.t())


def test_narrow_products_have_the_results_of_their_hardware(torch: Any, pool: kernels.Pool) -> None:
    assert made(torch, pool, "gemm", m=32, n=48, k=64, dtype="int8").dtype == torch.int32
    found = made(torch, pool, "gemm", m=32, n=48, k=64, dtype="fp8")
    pool.begin()
    x, weights = pool.take("fp8_e4m3", 32, 64).float(), pool.take("fp8_e4m3", 48, 64).float()
    assert found.dtype == torch.bfloat16
    assert torch.allclose(found.float(), x @ weights.t(), rtol=0.02, atol=0.1)


def test_tf32_is_switched_by_the_format_of_the_case(torch: Any, pool: kernels.Pool) -> None:
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    try:
        for dtype in ("tf32", "fp32", "tf32"):
            made(torch, pool, "gemm", m=2, n=2, k=2, dtype=dtype)
            assert torch.backends.cuda.matmul.allow_tf32 is (dtype == "tf32")
            made(torch, pool, "conv2d", batch=1, c_in=1, c_out=1, h=4, w=4, dtype=dtype)
            assert torch.backends.cudnn.allow_tf32 is (dtype == "tf32")
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def test_standard_attention_computes_what_flash_does(torch: Any, pool: kernels.Pool) -> None:
    sizes = {"batch": 2, "heads": 8, "kv_heads": 2, "seq_q": 5, "seq_kv": 9, "head_dim": 16, "dtype": "fp64"}
    flash = made(torch, pool, "attention", **sizes)
    standard = made(torch, pool, "attention", **sizes, variant="standard")
    assert torch.allclose(standard.view(2, 8, 5, 16), flash)


def test_a_causal_mask_hides_later_keys_and_none_from_the_last_query(torch: Any, pool: kernels.Pool) -> None:
    sizes = {"batch": 1, "heads": 2, "seq_q": 6, "head_dim": 8, "dtype": "fp64"}
    masked, plain = (made(torch, pool, "attention", **sizes, causal=causal) for causal in ("yes", "no"))
    assert torch.allclose(masked[:, :, -1], plain[:, :, -1])
    pool.begin()
    _, _, values = (pool.take("fp64", 1, 2, 6, 8) for _ in range(3))
    assert torch.allclose(masked[:, :, 0], values[:, :, 0])  # the first query sees the first key alone
    decode = {**sizes, "seq_q": 1, "seq_kv": 6}
    both = [made(torch, pool, "attention", **decode, causal=causal) for causal in ("yes", "no")]
    assert torch.allclose(*both)


def test_experts_are_applied_to_the_tokens_routed_to_them(torch: Any, pool: kernels.Pool) -> None:
    tokens, experts, topk, hidden, inter = 6, 3, 2, 16, 8
    found = made(torch, pool, "moe", tokens=tokens, experts=experts, topk=topk, hidden=hidden, inter=inter)
    pool.begin()
    x, _ = pool.take("bf16", tokens, hidden).float(), pool.take("bf16", experts, hidden)
    up, down = pool.take("bf16", experts, 2 * inter, hidden), pool.take("bf16", experts, hidden, inter)
    shares = pool.take("bf16", tokens, topk).float()
    for token in range(tokens):
        want = torch.zeros(hidden)
        for choice in range(topk):
            expert = (token * topk + choice) % experts
            gate, plain = (up[expert].float() @ x[token]).chunk(2)
            each = down[expert].float() @ (torch.nn.functional.silu(gate) * plain)
            want += shares[token, choice] * each
        assert torch.allclose(found[token, 0].float(), want, rtol=0.05, atol=0.02 * float(want.abs().max()))


def test_convolutions_take_the_layout_they_are_asked_for(torch: Any, pool: kernels.Pool) -> None:
    sizes = {"batch": 2, "c_in": 8, "c_out": 16, "h": 9, "w": 7, "stride": 2, "dtype": "fp32"}
    plain, last = (made(torch, pool, "conv2d", **sizes, layout=layout) for layout in ("nchw", "nhwc"))
    assert plain.shape == last.shape == (2, 16, 5, 4)  # floor((9 + 2 - 3) / 2) + 1, floor((7 + 2 - 3) / 2) + 1
    assert plain.is_contiguous()
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert made(torch, pool, "conv2d", **sizes, padding=0).shape == (2, 16, 4, 3)


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ({"op": "symm", "m": 3, "n": 4}, "symm has no default path"),
        ({"op": "nope"}, "unknown op 'nope'"),
        ({"m": 3}, "unknown op ''"),
        ({"op": "gemm", "m": 3, "n": 4}, "needs k"),
        ({"op": "gemm", "m": 3, "n": 4, "k": 5, "beta": True}, "gemm with beta"),
        ({"op": "gemm", "m": 3, "n": 4, "k": 5, "dtype": "int4"}, "gemm in int4"),
        ({"op": "gemm", "m": 3, "n": 4, "k": 16, "dtype": "fp8"}, "multiples of 16"),
        ({"op": "gemm", "m": 16, "n": 8, "k": 8, "dtype": "int8"}, "m above 16"),
        ({"op": "linear", "batch": 32, "in_features": 16, "out_features": 16, "bias": 1, "dtype": "int8"}, "bias"),
        ({"op": "add", "n": 1 << 40}, "the pool holds"),
        ({"op": "relu", "n": 4, "layout": "nhwc"}, "unknown parameter of relu"),
        ({"op": "cast", "n": 4, "dtype": "tf32", "out_dtype": "fp32"}, "stored alike"),
        ({"op": "cast", "n": 4, "out_dtype": "int4"}, "cast to int4"),
        ({"op": "transpose", "rows": 1, "cols": 9}, "nothing runs"),
        (
            {"op": "conv2d", "batch": 1, "c_in": 4, "c_out": 4, "h": 4, "w": 4, "layout": "chwn"},
            "unknown layout of conv2d",
        ),
        ({"op": "conv2d", "batch": 1, "c_in": 4, "c_out": 4, "h": 2, "w": 2, "kernel": 5, "padding": 0}, "no output"),
        ({"op": "attention", "batch": 1, "heads": 2, "seq_q": 2, "seq_kv": 4, "head_dim": 8, "causal": 1}, "aligns"),
        (
            {"op": "attention", "batch": 1, "heads": 2, "seq_q": 4, "head_dim": 8, "causal": 1, "variant": "standard"},
            "pass of its own",
        ),
        (
            {"op": "moe", **dict.fromkeys(("tokens", "experts", "topk", "hidden", "inter"), 8), "dtype": "fp16"},
            "bf16",
        ),
        ({"op": "moe", "tokens": 4, "experts": 2, "topk": 1, "hidden": 9, "inter": 8}, "multiples of 8"),
    ],
)
def test_a_case_that_cannot_be_built_says_why(case: shapes.Case, says: str, torch: Any, pool: kernels.Pool) -> None:
    with pytest.raises(InputError, match=says):
        kernels.build(case, torch, "cpu", pool)


def test_the_profiler_answers_to_the_names_we_call(torch: Any) -> None:
    """The same session as on a GPU, over the host's activities, which this torch can always record."""
    values = torch.ones(10)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as session:
        values.relu()
    told = session.profiler.kineto_results.events()
    found = kernels.device_events(told, torch.autograd.DeviceType.CPU)
    assert "aten::relu" in [event.name for event in found]
    assert kernels.device_events(told, torch.autograd.DeviceType.CUDA) == []


# -- the command ---------------------------------------------------------------------------------------------------


def test_without_a_gpu_there_is_one_message(tmp_path: Any, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(kernels, "package", lambda name: None)
    assert kernels.main(["--out", str(tmp_path / "new")]) == 2
    assert "torch is not installed" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_the_command_writes_tables_and_conditions(tmp_path: Any, monkeypatch: Any) -> None:
    class Everything(FakeBench):
        def build(self, case: shapes.Case) -> Any:
            return lambda: 4

    watch = kernels.conditions_cuda.Watch(None)
    monkeypatch.setattr(kernels, "open_gpu", lambda: (Everything(), watch, {"device": "a GPU"}))
    assert kernels.main(["--out", str(tmp_path), "--quick", "--count", "70", "--repeats", "2"]) == 0
    wanted = {"calibration": len(shapes.calibration_cases(quick=True)), "random": 70}
    for name, count in wanted.items():
        with (tmp_path / f"{name}.csv").open(newline="") as file:
            found = list(csv.DictReader(file))
        assert len(found) == count
        assert {row["time_us"] for row in found} == {"12.0"}  # 4 + 8
    told = json.loads((tmp_path / "conditions.json").read_text())
    assert told["device"] == "a GPU"
    assert told["done"] == wanted


def test_the_command_times_a_table_that_it_wrote(tmp_path: Any, monkeypatch: Any) -> None:
    asked: list[shapes.Case] = []

    class Asked(FakeBench):
        def build(self, case: shapes.Case) -> Any:
            asked.append(case)
            return lambda: 4

    watch = kernels.conditions_cuda.Watch(None)
    monkeypatch.setattr(kernels, "open_gpu", lambda: (Asked(), watch, {"device": "a GPU"}))
    assert kernels.main(["--out", str(tmp_path), "--what", "random", "--count", "60", "--repeats", "2"]) == 0
    first = list(asked)
    asked.clear()
    again = ["--out", str(tmp_path / "again"), "--cases", str(tmp_path / "random.csv"), "--repeats", "2"]
    assert kernels.main(again) == 0
    assert asked == first
    assert json.loads((tmp_path / "again" / "conditions.json").read_text())["done"] == {"cases": 60}


@pytest.mark.parametrize("text", ["", "op,m\ngemm,4\n", "op,dtype,m\ngemm,bf16,four\n", "op,dtype\n"])
def test_a_table_of_no_cases_gets_one_message(text: str, tmp_path: Any, capsys: Any) -> None:
    path = tmp_path / "cases.csv"
    path.write_text(text)
    assert kernels.main(["--out", str(tmp_path / "new"), "--cases", str(path)]) == 2
    assert "cases.csv" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_the_command_keeps_what_is_done_when_time_is_up(tmp_path: Any) -> None:
    path = tmp_path / "part.csv"
    told: list[str] = []
    assert kernels.collect(cases(1, 2), path, FakeBench(), float("-inf"), 2, told.append) == 0
    assert not path.exists()
    assert kernels.collect(cases(1, 2), path, FakeBench(refuses=2), float("inf"), 2, told.append) == 2
    assert told == ["part.csv: 2 of 2, 1 without a time"]
    assert len(path.read_text().splitlines()) == 3
