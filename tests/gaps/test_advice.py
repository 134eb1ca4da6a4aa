"""Advice: the planted fault is named on top with its price, what was not counted is only possible, nothing passes its limit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.errors import InputError
from ridgeline.core.figure import Figure
from ridgeline.core.machine import Machine
from ridgeline.core.observation import Observation
from ridgeline.core.work import Program, Step, Work
from ridgeline.gaps.advice import GAINS, Advice, advise, catalog, causes, decode, figures, flow, moves, recommend, rules
from ridgeline.gaps.gap import Gap, gap
from ridgeline.gaps.join import Pair
from ridgeline.gaps.report import Item, reconcile
from ridgeline.machines.load import load
from ridgeline.prediction.predict import predict
from ridgeline.profilers import load as observe
from ridgeline.profilers.ncu.metrics import METRICS, STALLS
from ridgeline.programs import ops
from strategies import law

NCU = Path(__file__).parents[1] / "fixtures" / "ncu"
H200 = load("h200-sxm")
HBM = H200.bandwidth("hbm").value

# What every run under the profiler brings: nothing busy, nothing odd.
QUIET = {
    "sm_active": 0.97, "sms": 132.0, "blocks": 4096.0, "waves": 8.0, "occupancy": 0.9, "issue": 0.2, "hbm_busy": 0.25,
    "l2_busy": 0.25, "l1_busy": 0.2, "tensor_busy": 0.0, "fma_busy": 0.05, "special_busy": 0.0, "copy_busy": 0.0,
    "tma": 0.0, "spills": 0.0, "local_sectors": 0.0, "bank_conflicts": 0.0, "shared_wavefronts": 0.0,
    "shared_per_block": 1024.0, "sectors_per_load": 4.0, "sectors_per_store": 4.0, "bytes_per_sector_load": 32.0,
    "bytes_per_sector_store": 32.0, "threads_per_instruction": 32.0, "l2_hit": 0.4, "l1_hit": 0.0,
    "stall.long_scoreboard": 8.0, "stall.wait": 1.5, "stall.selected": 1.0,
}  # fmt: skip
CLOCK = {"sm_clock": 1.98e9}
COPY = ops.stream_copy(2**26, dtype="fp32")
COPIED = 2 * 4 * 2.0**26
LOADED = 4 * 2.0**26


def saw(time: float, name: str = "step", flops: float = 0.0, moved: float = 0.0, **parts: Any) -> Observation:
    engine = parts.pop("engine", "vector.fp32")
    levels = parts.pop("bytes", {})
    counters = {**QUIET, **parts.pop("counters", {})}
    zero = {"vector.fp32": 0.0, "tensor.bf16": 0.0, "tensor.tf32": 0.0}
    return Observation(
        name, name, (time,), conditions=CLOCK, flops={**zero, engine: flops}, bytes={"hbm": moved, **levels},
        counters=counters, kernel=parts.pop("kernel", "kernel"), **parts,
    )  # fmt: skip


def one(work: Work, item: Observation) -> Gap:
    return gap(predict(work, H200), Pair((0,), (item,), "name"))


def top(found: Gap) -> Advice:
    return advise(found)[0]


def launch(work: Work) -> float:
    return float(sum(item.seconds for item in predict(work, H200).items if item.kind == "launch"))


def fixed(work: Work) -> float:
    """What a kernel without the fault takes: as expected, or 90 % of the measured roof and a launch."""
    found = predict(work, H200)
    return min(float(found.time), float(found.floor) / 0.9 + launch(work))


# Planted faults -------------------------------------------------------------------------------------------------------


def test_uncoalesced_copy() -> None:
    """Each thread of a warp reads 4 B of a sector of its own: 8 times the sectors, and L2 is what is busy."""
    counters = {"sectors_per_load": 32.0, "bytes_per_sector_load": 4.0, "l2_busy": 0.96, "l2_to_sm": 8 * LOADED}
    item = saw(5 * fixed(COPY), moved=COPIED, bytes={"l2": 9 * LOADED}, counters=counters)
    found = top(one(COPY, item))
    assert (found.rule, found.status, found.direction) == ("uncoalesced", "shown", "both")
    assert "wasted 8" in found.evidence
    assert found.gain == pytest.approx(
        item.median - fixed(COPY)
    )  # an eighth of the time would be less than is possible


def test_naive_gemm_without_tiling() -> None:
    """One thread per element, operands from the caches: a warp's multiply-add loads 128 + 32 B for 64 flops."""
    work = ops.gemm(2048, 2048, 2048, dtype="fp32")
    flops = 2 * 2048.0**3
    counters = {"l1_busy": 0.9, "fma_busy": 0.12, "sectors_per_load": 2.5, "bytes_per_sector_load": 26.4, "l2_hit": 0.9}
    item = saw(2.4e-3, flops=flops, moved=2e8, bytes={"l1": 2.5 * flops, "l2": flops / 8}, counters=counters)
    found = advise(one(work, item))
    assert (found[0].rule, found[0].status) == ("no tiling", "shown")
    assert found[0].gain == pytest.approx(2.4e-3 - fixed(work))
    assert not any(item.rule == "no tensor cores" for item in found)  # the vector units wait as well


def test_tiles_that_are_too_small() -> None:
    """Tiles of 32 x 32, an element per thread: each multiply-add reads 4 B and a broadcast from shared memory."""
    work = ops.gemm(4096, 4096, 4096, dtype="fp32")
    flops = 2 * 4096.0**3
    counters = {"l1_busy": 0.85, "fma_busy": 0.15, "shared_per_block": 9216.0, "shared_wavefronts": 3.4e9}
    item = saw(15.6e-3, flops=flops, moved=8.5e9, bytes={"l1": 1.7e10, "l2": 1.7e10, "shared": 128 * 3.4e9}, counters=counters)  # fmt: skip
    found = top(one(work, item))
    assert (found.rule, found.status, found.direction) == ("small tiles", "shown", "both")
    assert "limiter l1" in found.evidence
    assert found.gain == pytest.approx(15.6e-3 - fixed(work))
    conflicts = advise(one(work, replace(item, counters={**item.counters, "bank_conflicts": 3e9})))
    assert conflicts[0].rule == "bank conflicts"
    assert not any(item.rule == "small tiles" for item in conflicts)


def test_unused_bytes_of_sectors_are_no_fault_where_instructions_are_the_limiter() -> None:
    """A row read twice, the second time from L1: 8 sectors a load, little of each used, and the schedulers issue all the time."""
    work = ops.layernorm(16384, 4096, dtype="bf16")
    counters = {"sectors_per_load": 8.0, "bytes_per_sector_load": 12.8, "issue": 0.8, "hbm_busy": 0.55, "l1_hit": 0.75}
    found = advise(one(work, saw(103e-6, flops=1.3e9, moved=2.5e8, counters=counters)))
    assert [item.rule for item in found] == ["issue"]


def test_bank_conflicts() -> None:
    """A transpose through shared memory without padding: 1 + 32 wavefronts where 1 + 1 would do."""
    work = ops.transpose(8192, 8192, dtype="fp32")
    warps = 8192.0**2 / 32
    wavefronts, conflicts = 33 * warps, 31 * warps
    counters = {
        "bank_conflicts": conflicts, "shared_wavefronts": wavefronts, "l1_busy": 0.97, "shared_per_block": 5120.0,
        "stall.mio_throttle": 40.0,
    }  # fmt: skip
    time = wavefronts / (132 * 1.98e9) * 1.05
    item = saw(time, moved=COPIED, bytes={"shared": 128 * wavefronts}, counters=counters)
    found = top(one(work, item))
    assert (found.rule, found.status, found.direction) == ("bank conflicts", "shown", "up")
    assert found.gain == pytest.approx(min(conflicts / (132 * 1.98e9), time - fixed(work)))


@pytest.mark.parametrize(
    ("counters", "rule"),
    [
        ({"occupancy": 0.03, "occupancy_limit": 0.03, "blocks_by_shared": 1.0, "shared_per_block": 230e3}, "low occupancy"),
        ({"blocks": 8.0, "waves": 0.03, "occupancy": 0.5, "sm_active": 0.06}, "few blocks"),
    ],
)  # fmt: skip
def test_low_occupancy(counters: dict[str, float], rule: str) -> None:
    item = saw(6 * fixed(COPY), moved=COPIED, counters=counters)
    found = top(one(COPY, item))
    assert (found.rule, found.status, found.direction) == (rule, "shown", "up")
    assert found.gain == pytest.approx(5 * fixed(COPY), rel=0.3)


def test_register_spills() -> None:
    """Three quarters of what passes L1 are spilled registers."""
    local = 3 * COPIED
    counters = {"local_sectors": local / 32, "spills": 1e6, "l2_busy": 0.7, "hbm_busy": 0.6, "l2_to_sm": 2 * LOADED}
    item = saw(4 * fixed(COPY), moved=2 * COPIED, bytes={"l1": local + COPIED, "l2": 3 * COPIED}, counters=counters)
    found = top(one(COPY, item))
    assert (found.rule, found.status) == ("spills", "shown")
    assert found.gain == pytest.approx(0.75 * item.median)


def test_recorded_spills_and_conflicts() -> None:
    """Two kernels with these faults as an H200 counted them."""
    spill, conflict = observe.load(NCU / "h200_faults.csv")
    # each of 67.1 M floats read and written once, 4 flops on each
    streamed = replace(ops.stream_scale(2**26, dtype="fp32"), name="spill")
    assert top(one(streamed, spill)).rule == "spills"
    stored = Work(
        counts={("vector", "fp32", "adds"): 3.355e7}, moves={("main", "y", "write"): 4.194e6}, waits={"launch": 1.0},
        name="conflict", dtype="fp32", family="stream",
    )  # fmt: skip
    found = top(one(stored, conflict))
    assert found.rule == "bank conflicts"
    assert found.gain == pytest.approx(3.253e7 / (132 * 1.980026e9), rel=0.001)


def test_thousands_of_tiny_kernels() -> None:
    """A thousand launches of 2.1 us for what one kernel does in a few."""
    work = replace(ops.add(1024 * 1000, dtype="fp32"), name="many")
    each = {"vector.fp32": 1024.0}
    items = [
        Observation("many", "many", (2.1e-6,), kernel="add", counters=QUIET | {"blocks": 1.0, "waves": 0.0}, flops=each, bytes={"hbm": 12288.0})
        for _ in range(1000)
    ]  # fmt: skip
    (found,) = reconcile(predict(work, H200), items).items
    assert found.top is not None
    assert (found.top.rule, found.top.status, found.top.move) == ("tiny kernels", "shown", "fuse kernels")
    assert "kernels 1,000" in found.top.evidence
    assert found.top.gain == pytest.approx(2.1e-3 - fixed(work))
    graph = next(item for item in found.advice if item.rule == "launches")
    assert graph.gain == pytest.approx(1000 * 1.4646874e-6 * (1 - 0.46))


# -- what the host costs ------------------------------------------------------------------------------------

MANY = replace(ops.add(1024 * 1000, dtype="fp32"), name="many")


def dispatching(each: float | None) -> Machine:
    """An H200 whose host takes so long to send a kernel, or of which nobody knows."""
    known = Figure("s") if each is None else Figure("s", measured=each, measurement="by hand", source="a test")
    return replace(H200, dispatch=known)


def launched(machine: Machine, time: float, kernels: int = 1000, **settings: Any) -> Gap:
    """So many kernels of one step, `time` each."""
    done, moved = {"vector.fp32": 1024e3 / kernels}, {"hbm": 12288e3 / kernels}  # each does its part of the step
    sent = {name: value for name, value in settings.items() if name != "host_wait"}
    kernel = Observation("many", "many", (time,), kernel="add", settings=sent, flops=done, bytes=moved)
    last = replace(kernel, settings=settings)
    return gap(predict(MANY, machine), Pair((0,), (*(kernel,) * (kernels - 1), last), "name"))


def advised(found: Gap) -> dict[str, Advice]:
    return {item.rule: item for item in advise(found)}


def test_kernels_sent_one_by_one_wait_for_the_host() -> None:
    """A thousand kernels of 2.1 us, sent every 5 us: 5 ms in all, 2.9 of them waiting. One kernel is sent in 5 us."""
    found = launched(dispatching(5e-6), 2.1e-6, sent="one by one")
    assert found.waiting == pytest.approx(1000 * 5e-6 - 2.1e-3)
    merged = top(found)
    one_kernel = fixed(MANY)
    assert merged.rule == "tiny kernels"
    assert merged.device == pytest.approx(2.1e-3 - one_kernel)
    assert merged.host == pytest.approx(2.9e-3 - max(5e-6 - one_kernel, 0.0))
    assert merged.gain == pytest.approx((merged.device or 0) + (merged.host or 0))
    assert merged.document()["host_gain_us"] == pytest.approx(1e6 * (merged.host or 0))
    assert merged.document()["device_gain_us"] == pytest.approx(1e6 * (merged.device or 0))
    assert any(text.startswith("waiting for the host: 2.9 ms of it (model: the host takes 5 us") for text in merged.evidence)  # fmt: skip
    graph = advised(found)["launches"]
    queued = 1000 * 1.4646874e-6 * (1 - 0.46)
    assert graph.device == pytest.approx(queued)
    assert graph.host == pytest.approx(2.9e-3)
    assert any("the device waits 2.9 ms for the host between 1,000 kernels" in text for text in found.findings)


def test_a_graph_does_not_wait_for_the_host_and_needs_no_capture() -> None:
    found = launched(dispatching(5e-6), 2.1e-6, sent="graph")
    assert found.waiting == 0.0
    merged = top(found)
    assert (merged.rule, merged.host) == ("tiny kernels", 0.0)
    assert merged.gain == pytest.approx(2.1e-3 - fixed(MANY))
    assert merged.missing == ()
    assert {item.move for item in advise(found)}.isdisjoint({"capture a graph"})


def test_where_nobody_says_how_kernels_are_sent_the_host_is_priced_apart() -> None:
    """A profiler that runs kernel by kernel sees no host: its price is told, and not promised."""
    found = launched(dispatching(5e-6), 2.1e-6)
    merged = top(found)
    assert (found.sent, merged.host) == (None, None)
    assert merged.gain == pytest.approx(2.1e-3 - fixed(MANY))
    assert merged.missing == ("sent",)
    assert any(text.startswith("waiting for the host: 2.9 ms more if they are sent one by one") for text in merged.evidence)  # fmt: skip
    assert any(text.startswith("where they are sent one by one, the device waits 2.9 ms") for text in found.findings)


def test_a_figure_that_is_not_there_is_named_and_not_zero() -> None:
    found = launched(dispatching(None), 2.1e-6, sent="one by one")
    merged = top(found)
    assert (found.waiting, merged.host) == (None, None)
    assert merged.missing == ("dispatch",)
    assert merged.document()["host_gain_us"] is None
    assert "waiting" not in figures(found, found.target.machine)


@pytest.mark.parametrize(("idle", "each", "kind"), [(1e-3, 3.1e-6, "observed"), (10e-3, 5e-6, "model")])
def test_a_trace_bounds_what_the_host_takes_from_above(idle: float, each: float, kind: str) -> None:
    """2.1 ms of kernels and 1 ms between them: one every 3.1 us, less than the 5 us of the figure; 10 ms are more."""
    found = launched(dispatching(5e-6), 2.1e-6, sent="one by one", host_wait=idle)
    assert found.host is not None
    assert found.host.each == pytest.approx(each)
    assert found.host.evidence.startswith(kind)
    assert found.host.most == (kind == "observed")
    assert found.waiting == pytest.approx(1000 * each - 2.1e-3)
    alone = launched(dispatching(None), 2.1e-6, sent="one by one", host_wait=idle)
    assert alone.waiting == pytest.approx(idle)
    assert "at most" in Item(alone, tuple(advise(alone))).sentence.partition("and ")[2]
    assert "at most" not in Item(launched(dispatching(5e-6), 2.1e-6, sent="one by one"), ()).sentence


def test_kernels_beyond_a_launch_can_wait_for_a_slow_host_too() -> None:
    """Five kernels of 20 us sent every 30 us: 50 us of waiting, which a graph takes away; fast hosts are no cause."""
    slow = launched(dispatching(30e-6), 20e-6, 5, sent="one by one")
    found = advised(slow)["host-bound"]
    assert (found.status, found.move, found.device) == ("shown", "capture a graph", 0.0)
    assert found.gain == pytest.approx(5 * 30e-6 - 5 * 20e-6)
    for other in (
        launched(dispatching(21e-6), 20e-6, 5, sent="one by one"),  # 5 % of the time
        launched(dispatching(30e-6), 20e-6, 5),
        launched(dispatching(30e-6), 20e-6, 5, sent="graph"),
        launched(dispatching(None), 20e-6, 5, sent="one by one"),
        launched(dispatching(300e-6), 20e-6, 1, sent="one by one"),  # what stands before it decides
    ):
        assert "host-bound" not in advised(other)


@law(100)
@given(st.integers(10, 500), st.floats(1e-7, 5e-6), st.floats(1e-7, 5e-5))
def test_device_and_host_gain_are_the_walls_before_and_after(kernels: int, time: float, each: float) -> None:
    """wall = max(device, launches x each), on both sides."""
    for item in advise(launched(dispatching(each), time, kernels, sent="one by one")):
        if item.gain is None or item.host is None:
            continue
        device = kernels * time
        before, after = max(device, kernels * each), max(device - (item.device or 0.0), each)
        assert item.gain == pytest.approx(before - after, rel=1e-6, abs=1e-12)


def test_unfused_norm_and_gemm_as_two_steps() -> None:
    """One writes what the other reads, in one module: a write and a read of 8192 x 4096 bf16, and a launch."""
    norm, product = ops.rmsnorm(8192, 4096, dtype="bf16"), ops.gemm(8192, 4096, 4096, dtype="bf16")
    tensor = 8192 * 4096 * 2.0
    program = Program((Step("block.norm", norm), Step("block.fc", product)))
    seen = [
        saw(1.1 * fixed(norm), "block.norm", flops=1.7e8, moved=2 * tensor, counters={"hbm_busy": 0.85}),
        saw(1.1 * fixed(product), "block.fc", flops=2 * 8192 * 4096 * 4096.0, moved=2.5 * tensor, engine="tensor.bf16", counters={"tensor_busy": 0.9}),
    ]  # fmt: skip
    first, second = reconcile(predict(program, H200), seen).items
    assert first.top is not None
    assert (first.top.rule, first.top.status, first.top.direction) == ("unfused neighbour", "shown", "right")
    assert any("is shared with block.fc" in text for text in first.top.evidence)
    rate = predict(norm, H200).bounds[0].terms["hbm"].rate
    assert first.top.gain == pytest.approx(2 * tensor / rate + 1.4646874e-6, rel=1e-6)
    assert not any(item.rule == "unfused neighbour" for item in second.advice)
    apart = [replace(item, name=item.name.partition(".")[2]) for item in seen]
    loose = Program((Step("norm", norm), Step("fc", product)))
    free = reconcile(predict(loose, H200), apart).items[0]
    assert {item.status for item in free.advice if item.rule == "unfused neighbour"} == {"possible"}


def test_unfused_kernels_of_one_step() -> None:
    """A norm as five elementwise passes: 10 passes over the tensor where 2 would do."""
    work = replace(ops.rmsnorm(8192, 4096, dtype="bf16"), name="norm")
    tensor = 8192 * 4096 * 2.0
    kernels = ("pow", "mean", "rsqrt", "mul", "mul_weight")
    seen = [saw(2 * tensor / HBM / 0.9, "norm", flops=3e7, moved=2 * tensor, kernel=name) for name in kernels]
    (found,) = reconcile(predict(work, H200), seen).items
    assert found.top is not None
    assert (found.top.rule, found.top.move) == ("unfused", "fuse with a neighbour")
    assert found.gap.excess_bytes == pytest.approx(5.0, rel=0.01)
    assert found.top.gain == pytest.approx(found.gap.measured - fixed(work))


def test_fp32_where_tensor_cores_could_serve() -> None:
    seen = {item.name: item for item in observe.load(NCU / "h200_raw.csv")}["gemm_fp32_4096"]
    work = ops.gemm(4096, 4096, 4096, dtype="fp32")
    found = top(one(work, seen))
    assert (found.rule, found.status, found.move) == ("no tensor cores", "shown", "use a faster engine")
    after = seen.flops["vector.fp32"] / H200.peak("tensor.tf32").value / 0.9 + launch(work)
    assert found.gain == pytest.approx(seen.median - after)


def test_bf16_products_on_the_vector_units() -> None:
    work = ops.gemm(2048, 2048, 2048, dtype="bf16")
    flops = 2 * 2048.0**3
    found = top(one(work, saw(flops / 50e12, flops=flops, moved=4e7, counters={"fma_busy": 0.8, "issue": 0.85})))
    assert found.rule == "no tensor cores"
    assert found.gain is not None
    assert found.gain > 0.9 * flops / 50e12


def test_too_small_a_problem() -> None:
    work = ops.gemm(256, 256, 256, dtype="bf16")
    item = saw(5e-6, flops=2 * 256.0**3, moved=4e5, engine="tensor.bf16", counters={"blocks": 8.0, "waves": 0.06})
    found = top(one(work, item))
    assert (found.rule, found.status) == ("too small", "shown")
    assert found.gain == pytest.approx(5e-6 * (1 - 0.06))  # per problem, when the machine is filled with them


# The recorded report --------------------------------------------------------------------------------------------------


def test_recorded_copy_and_softmax_are_diagnosed_for_what_they_are() -> None:
    seen = {item.name: item for item in observe.load(NCU / "h200_raw.csv")}
    work = ops.transpose(8192, 8192, dtype="fp32")
    copy = top(one(work, seen["strided_copy_fp32"]))
    assert (copy.rule, copy.status) == ("strided", "shown")
    assert "strided or scattered access" in copy.cause
    assert copy.gain == pytest.approx(seen["strided_copy_fp32"].median - fixed(work))
    softmax = advise(one(ops.softmax(16384, 4096, dtype="bf16"), seen["softmax_bf16"]))
    assert [item.rule for item in softmax] == ["issue"]
    assert "issue 0.773" in softmax[0].evidence


def test_kernels_at_their_roof_get_no_fault() -> None:
    seen = {item.name: item for item in observe.load(NCU / "h200_raw.csv")}
    for name, work in (
        ("triad_fp32_2^27", ops.stream_triad(2**27, dtype="fp32")),
        ("gemv_bf16_1x28672x8192", ops.gemm(1, 28672, 8192, dtype="bf16")),
        ("gemm_bf16_8192", ops.gemm(8192, 8192, 8192, dtype="bf16")),
    ):
        assert {item.status for item in advise(one(work, seen[name]))} == {"possible"}, name


def test_padding_costs_only_where_arithmetic_is_the_limiter() -> None:
    """Products of 1030 rows in tiles of 256, which make 1280: 1.24 times the flops at the tensor roof."""
    work = ops.bmm(64, 1030, 4096, 4096, dtype="bf16")
    flops = 2.0 * 64 * 1280 * 4096 * 4096
    time = flops / H200.peak("tensor.bf16").value / 0.95
    item = saw(time, flops=flops, moved=1.05 * float(work.bytes), engine="tensor.bf16", counters={"tensor_busy": 0.97})
    found = top(one(work, item))
    assert found.rule == "padding"
    assert found.gain == pytest.approx(flops * (1 - 1030 / 1280) / H200.peak("tensor.bf16").value)


# Shown, possible, ruled out -------------------------------------------------------------------------------------------


def test_without_counters_all_causes_of_a_memory_gap_are_possible() -> None:
    found = advise(one(COPY, Observation("step", "step", (4 * fixed(COPY),))))
    assert {item.status for item in found} == {"possible"}
    told = {item.cause for item in found}
    small = next(rule.cause for rule in rules() if rule.name == "too small")  # 118 us of work is no small problem
    assert set(causes("memory gap")) - told == {small}
    assert all(item.missing for item in found if item.rule != "channels")
    assert all(item.gain is not None and item.gain <= 3 * fixed(COPY) * 1.01 for item in found if item.gain is not None)


def test_counters_rule_causes_out() -> None:
    """The same time with counters that show coalesced loads, many warps and no conflicts."""
    told = {item.rule for item in advise(one(COPY, saw(4 * fixed(COPY), moved=COPIED)))}
    assert not told & {"uncoalesced", "low occupancy", "few blocks", "bank conflicts", "spills", "divergence"}
    assert "synchronous loads" in told


def test_deep_in_the_compute_region_nothing_moves_right() -> None:
    work = ops.gemm(8192, 8192, 8192, dtype="bf16")
    item = saw(
        4e-3, flops=2 * 8192.0**3, moved=1e9, engine="tensor.bf16", counters={"tensor_busy": 0.3, "stall.gmma": 9.0}
    )
    found = one(work, item)
    assert found.deep
    assert advise(found)
    assert all(item.direction != "right" for item in advise(found))


def test_overhead_lists_its_four_cures() -> None:
    found = advise(one(ops.softmax(8, 64), Observation("step", "step", (2e-6,))))
    assert {item.move for item in found} >= {move.name for move in moves("overhead")}
    assert len(moves("overhead")) == 4


def test_near_the_memory_roof_only_reading_less_is_offered() -> None:
    found = advise(one(ops.axpy(1e8, dtype="fp32"), saw(1.05 * fixed(ops.axpy(1e8, dtype="fp32")), flops=2e8, moved=12e8, counters={"hbm_busy": 0.92})))  # fmt: skip
    assert found
    assert {item.direction for item in found} == {"right"}
    assert found[0].move == "fuse with a neighbour"
    decoding = advise(one(ops.gemm(1, 8192, 8192, dtype="bf16"), Observation("step", "step", (3.2e-5,))))
    offered = {item.move: item.changes for item in decoding}
    for key in ("quantise", "speculate", "continuous"):
        assert "bytes" in offered[catalog()[key].name] or "weights" in offered[catalog()[key].name]


@pytest.mark.parametrize("time", [27e-6, 31e-6, 40e-6, 80e-6])
def test_weights_read_for_one_row_are_offered_more_rows_whatever_is_reached(time: float) -> None:
    """117 of 117 MB are weights: for two rows at once, half of the time falls to each."""
    work = ops.linear(batch=1, in_features=4096, out_features=14336, dtype="bf16")
    found = advise(one(work, Observation("step", "step", (time,))))
    first = [item.move for item in found[:3]]
    assert {catalog()[key].name for key in ("continuous", "speculate")} <= set(first)
    assert (catalog()["quantise"].name in first) == (time < 50e-6), "near the roof only"
    told = {item.rule: item for item in found}
    assert told["read for others too"].gain == pytest.approx(time / 2, rel=1e-3)
    assert "no tensor cores" not in told, "2 us on the vector units, and 26 us of reading"
    assert ("cache thrash" in told) == (time > 35e-6), "1.25 times the bytes do not pass at 80 % of the roof"


def test_more_rows_are_not_offered_where_they_do_not_help() -> None:
    work = ops.linear(batch=1, in_features=4096, out_features=14336, dtype="bf16")
    busy = saw(60e-6, flops=1.2e8, moved=1.17e8, counters={"fma_busy": 0.95, "issue": 0.95})
    assert not {"read for others too", "check several tokens"} & {item.rule for item in advise(one(work, busy))}
    outer = ops.gemm(8192, 8192, 32, dtype="bf16")  # the result is what takes the time
    slow = Observation("step", "step", (2 * fixed(outer),))
    assert "read for others too" not in {item.rule for item in advise(one(outer, slow))}
    cache = ops.attention(batch=8, heads=32, kv_heads=8, seq_q=1, seq_kv=4096, head_dim=128, dtype="bf16")
    told = {item.rule for item in advise(one(cache, Observation("step", "step", (1.2 * fixed(cache),))))}
    assert "check several tokens" in told
    assert "read for others too" not in told, "each request has keys and values of its own"


def test_a_cpu_is_not_told_about_warps() -> None:
    cpu = load("xeon-8480plus")
    work = ops.stream_triad(1e8, dtype="fp64")
    slow = Observation("step", "step", (4 * float(predict(work, cpu).floor),))
    found = advise(gap(predict(work, cpu), Pair((0,), (slow,), "name")))
    assert "channels" in {item.rule for item in found}
    assert not any("warp" in item.cause + item.changes or "shared" in item.move for item in found)


# The table ------------------------------------------------------------------------------------------------------------


def test_the_table_is_whole() -> None:
    known = {metric.name for metric in METRICS if metric.kind == "counter"}
    item = saw(1e-3, flops=2 * 512.0**3, moved=1e6, bytes={"l1": 1e7, "l2": 1e6}, counters={"l2_to_sm": 1e6})
    own = set(figures(one(ops.gemm(512, 512, 512, dtype="fp32"), item), H200))
    names = [rule.name for rule in rules()]
    assert len(set(names)) == len(names)
    words = {"stall": set(STALLS), "matrix": {"yes", "no"}, "engine": {"tensor", "vector"}}
    for rule in rules():
        assert rule.move in catalog(), rule.name
        assert rule.gain in GAINS, rule.name
        assert set(rule.unless) <= set(names), rule.name
        for condition in rule.applies + rule.sign:
            open_ = {"together", "sent", "waiting"}  # of neighbours and of launches that follow each other
            assert condition.figure in known | own | open_, f"{rule.name} asks for {condition.figure}"
            if condition.figure in words and isinstance(condition.value, tuple):
                assert set(condition.value) <= words[condition.figure], rule.name
    assert {rule.gain for rule in rules()} == set(GAINS)
    used = {rule.move for rule in rules()} | {move.key for move in (*decode(), *flow()["memory"], *flow()["compute"])}
    levels = {move.key for side in (0.1, 0.6, 0.9) for at in (2.0, 500.0) for move in recommend(side * min(312e12, at * 2e12), at, 312e12, 2e12).moves}  # fmt: skip
    offered = {move.key for bound in ("memory", "compute", "overhead", "balanced") for move in moves(bound)}
    assert set(catalog()) <= used | levels | offered


def test_cause_lists_and_the_flow() -> None:
    assert [len(causes(group)) for group in ("memory gap", "compute gap", "extra bytes")] == [5, 4, 5]
    assert [len(flow()[side]) for side in ("memory", "compute")] == [6, 6]
    assert len(decode()) == 5
    kinds = {move.kind for move in catalog().values()}
    assert kinds == {"bandwidth use", "fusion", "tiling", "quantisation", "compute", "parallelism"}
    with pytest.raises(InputError, match="unknown kind of gap"):
        causes("no gap")
    with pytest.raises(InputError, match="unknown bound"):
        moves("weather")


def test_directions_follow_from_what_changes() -> None:
    table = catalog()
    right = {"tile": "both", "fuse": "right", "multicast": "right", "larger-tiles": "both", "quantise": "right"}
    up = {"pipeline": "up", "swizzle": "up", "independent": "up", "occupancy": "up", "engine": "up", "coalesce": "both"}
    assert {key: table[key].direction for key in right | up} == right | up
    assert "fewer warps" in table["occupancy"].changes  # both ways


@pytest.mark.parametrize(
    ("rate", "intensity", "side", "name", "efficiency"),
    [
        (150e9, 2.0, "memory", "low efficiency", 0.037),
        (2500e9, 2.0, "memory", "moderate efficiency", 0.61),
        (3700e9, 2.0, "memory", "high efficiency", 0.91),
        (100e12, 500.0, "compute", "low efficiency", 0.32),
        (280e12, 500.0, "compute", "high efficiency", 0.90),
    ],
)
def test_the_recommender(rate: float, intensity: float, side: str, name: str, efficiency: float) -> None:
    """An A100 in fp16: 312 Tflop/s, 2039 GB/s."""
    found = recommend(rate, intensity, 312e12, 2039e9)
    assert (found.side, found.name) == (side, name)
    assert found.efficiency == pytest.approx(efficiency, abs=0.005)
    assert len(found.moves) == 3
    assert len(found.causes) == ({"memory": 5, "compute": 4}[side] if found.efficiency < 0.8 else 0)


# Laws -----------------------------------------------------------------------------------------------------------------


@st.composite
def runs(draw: st.DrawFn) -> Gap:
    work = draw(
        st.sampled_from([COPY, ops.gemm(1024, 1024, 1024, dtype="bf16"), ops.softmax(4096, 1024), ops.relu(512)])
    )
    counters = {name: value * draw(st.floats(0, 8)) for name, value in QUIET.items() if draw(st.booleans())}
    flops = {draw(st.sampled_from(["tensor.bf16", "vector.fp32"])): float(work.flops) * draw(st.floats(0, 4))}
    moved = {level: float(work.bytes) * draw(st.floats(0, 9)) for level in ("hbm", "l2", "l1") if draw(st.booleans())}
    time = fixed(work) * draw(st.floats(0.5, 50))
    item = Observation("step", "step", (time,), flops=draw(st.sampled_from([flops, {}])), bytes=moved, counters=counters, conditions=CLOCK)  # fmt: skip
    return one(work, item)


@given(runs())
@law(300)
def test_no_move_gains_more_than_the_time_nor_passes_its_limits(found: Gap) -> None:
    offered = advise(found)
    assert [item.status for item in offered] == sorted(
        (item.status for item in offered), key=lambda word: word != "shown"
    )
    for item in offered:
        assert item.gain is None or 0 < item.gain <= found.measured
        assert item.document()["evidence"] is not None
        if item.status == "shown":
            assert not item.missing
        if item.end is not None and found.flops and found.moved:
            at, rate = item.end
            before = found.flops / found.moved
            assert at <= max(before, found.target.flops / found.target.bytes) * (1 + 1e-9)
            assert rate <= at * found.needs["hbm"].rate * (1 + 1e-9)
            assert item.direction != "up" or at == pytest.approx(before)


@given(runs())
@law(100)
def test_nothing_is_shown_without_counters(found: Gap) -> None:
    bare = replace(found.seen, flops={}, bytes={}, counters={})
    timed = ("tiny kernels", "launches", "unfused neighbour")
    for item in advise(replace(found, seen=bare)):
        assert item.status == "possible" or item.rule in timed or item.rule.startswith("launch-bound")


def test_a_product_faster_than_the_vector_units_ran_on_the_tensor_units() -> None:
    """4096 cubed in bf16 in 175 us is 785 TFLOP/s: no possibility of idle tensor units is left, counters or not."""
    prediction = predict(ops.gemm(4096, 4096, 4096), load("h200-sxm"))
    [item] = reconcile(prediction, [Observation("gemm", "gemm", (175e-6,))]).items
    assert "no tensor cores" not in {advice.rule for advice in item.advice}
    [slow] = reconcile(prediction, [Observation("gemm", "gemm", (5e-3,))]).items
    assert "no tensor cores" in {advice.rule for advice in slow.advice}
