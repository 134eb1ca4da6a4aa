"""Rules by evidence: the deciding counter shows a cause, another value rules it out, specific causes come first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from advice_samples import COPIED, COPY, achievable, gap_of, profiled, top
from gap_samples import H200

from ridgeline.core.observation import Observation
from ridgeline.gaps.advice import Advice, advise
from ridgeline.gaps.gap import Gap
from ridgeline.gaps.kernels import report_of_kernels
from ridgeline.gaps.rules import rules
from ridgeline.gaps.sentences import action, as_expected, gap_band
from ridgeline.prediction.predict import predict
from ridgeline.programs import ops

SLOW = 5 * achievable(COPY)
ATOMIC = {"atomics": 1e5, "atomic_busy": 0.8, "l2_imbalance": 30.0}
EVEN = {"atomics": 0.0, "atomic_busy": 0.0, "l2_imbalance": 1.02, "l2_slice_busy": 0.26}
# loads of 4 bytes per thread, one of which takes the load-store pipe of an SM a cycle
NARROW = {"lsu_busy": 0.8, "issue": 0.65, "cycles": 5.1e5, "load_requests": 4e7, "store_requests": 1e6}
# 2 M warps of a histogram whose pixels are nearly all of one value: 32 turns each in shared memory, counted by no load or store
TURNS = {
    "l1_busy": 0.99, "cycles": 5.1e5, "lsu_busy": 0.05, "load_requests": 1e6, "store_requests": 0.0, "l2_to_sm": 1.3e8,
    "stall.mio_throttle": 6.0, "shared_per_block": 2048.0,
}  # fmt: skip
# the same in fp32: a loop of loads and compare-and-swaps, in which the lanes that are done wait for the others
RETRIES = {
    **TURNS,
    "lsu_busy": 0.6,
    "threads_per_instruction": 14.0,
    "issue": 0.5,
    "shared_wavefronts": 1e7,
    "stall.short_scoreboard": 18.0,
}
# a table in constant memory that every thread reads elsewhere: no counted pipe is used, and the SM is busy
TABLE = {
    "compute_busy": 0.78,
    "issue": 0.01,
    "lsu_busy": 0.01,
    "l1_busy": 0.01,
    "fma_busy": 0.0,
    "stall.mio_throttle": 40.0,
}
# powf of every element: 8 x 0.9 / 0.38 = 19 instructions per special function
POWERS = {
    "special_busy": 0.38,
    "alu_busy": 0.5,
    "issue": 0.9,
    "integer_instructions": 5e8,
    "thread_instructions": 6.7e9,
}
# load, wait, compute, wait
STAGES = {"stall.barrier": 4.0, "issue": 0.5, "hbm_busy": 0.45, "lsu_busy": 0.1}
# one atomic per warp on one address: most of what its slice does
ONE_WORD = {"atomics": 5e5, "atomic_busy": 0.31, "l2_imbalance": 2.95, "l2_slice_busy": 0.48}
WORK = {"integer_instructions": 7e9, "thread_instructions": 1.3e10, "issue": 0.8}


def all_advice(item: Observation) -> list[Advice]:
    """Of a kernel whose operator is not known."""
    (kernel,) = report_of_kernels([item], H200).kernels
    assert kernel.gap is not None
    return advise(kernel.gap)


def kernel_advice(item: Observation) -> Advice:
    return all_advice(item)[0]


def slow(**counters: float) -> Gap:
    return gap_of(COPY, profiled(SLOW, moved=COPIED, counters={**EVEN, "hbm_imbalance": 1.02, **counters}))


@pytest.mark.parametrize(
    ("rule", "counters", "counter", "other"),
    [
        ("contended atomics", ATOMIC, "atomics", 0.0),
        ("hot slice", {"l2_imbalance": 2.5, "l2_slice_busy": 0.7}, "l2_imbalance", 1.1),
        ("tail wave", {"waves": 1.06, "sm_active": 0.54, "sm_imbalance": 1.9}, "waves", 1.0),
        ("uneven blocks", {"sm_imbalance": 1.6, "sm_active": 0.6}, "sm_imbalance", 1.05),
        ("small blocks", {"threads_per_block": 32.0, "occupancy": 0.1, "occupancy_limit": 0.5}, "occupancy", 0.45),
        ("thin loads", {"sectors_per_load": 1.0, "sectors_per_store": 1.0}, "sectors_per_load", 16.0),
        ("few in flight", {}, "sectors_per_load", 16.0),
        ("repeated loads", {"l2_to_sm": 4 * COPIED, "l2_busy": 0.6}, "l2_to_sm", 0.5 * COPIED),
        ("repeated loads", {"l2_to_sm": 4 * COPIED, "l2_busy": 0.6}, "l2_busy", 0.1),  # loads from an idle L2 cost little
        ("integer overhead", WORK, "integer_instructions", 1e9),
        ("no overlap", STAGES, "stall.barrier", 0.0),
        ("no overlap", STAGES, "lsu_busy", 0.6),  # then steps of an exchange through shared memory end at the barriers
        ("contended atomics", ONE_WORD, "l2_slice_busy", 0.9),
        ("channels", {"hbm_imbalance": 2.0, "sectors_per_load": 16.0, "stall.long_scoreboard": 0.1}, "hbm_imbalance", 1.0),
        ("no vectorization", NARROW, "lsu_busy", 0.2),
        ("no vectorization", NARROW, "load_requests", 1e6),  # then shared memory or shuffles fill the load-store pipe
        ("divergence", {"threads_per_instruction": 8.0, "issue": 0.9}, "threads_per_instruction", 31.0),
        ("shared atomics", TURNS, "l1_busy", 0.3),
        ("retried atomics", RETRIES, "threads_per_instruction", 31.0),
        ("indexed constants", TABLE, "compute_busy", 0.1),
        ("costly functions", POWERS, "special_busy", 0.1),
        ("costly functions", POWERS, "alu_busy", 0.05),
        ("thin loads", {"sectors_per_load": 3.0, "bytes_per_sector_load": 32 / 3}, "bytes_per_sector_load", 26.0),
    ],
)  # fmt: skip
def test_the_deciding_counter_decides(rule: str, counters: dict[str, float], counter: str, other: float) -> None:
    gap = slow(**counters)
    first = top(gap)
    assert (first.rule, first.status) == (rule, "shown")
    assert first.evidence
    assert not first.missing
    assert rule not in {item.rule for item in advise(slow(**{**counters, counter: other}))}
    without = replace(gap.measurement, counters={k: v for k, v in gap.measurement.counters.items() if k != counter})
    statuses = {item.rule: item.status for item in advise(replace(gap, measurement=without))}
    assert statuses.get(rule, "possible") == "possible"  # shown needs the deciding counter


CHASE = {
    "sectors_per_load": 32.0, "bytes_per_sector_load": 4.0, "occupancy": 0.12, "stall.long_scoreboard": 400.0,
    "l1_busy": 0.3, "l2_busy": 0.7,
}  # fmt: skip


def test_loads_that_wait_for_each_other_are_told_from_uncoalesced_ones() -> None:
    """Both use 4 bytes of each sector. By Little's law each warp of the first has one load in flight.

    0.12 x 64 warps on 132 SMs with a load of 32 sectors of 32 bytes are 1.04 MB, 0.4 of them at 40 % of the bandwidth
    times the latency; with ten times the warps the same bandwidth means that most loads come from a cache.
    """
    chase = profiled(COPIED / (0.4 * 4.8e12), moved=COPIED, counters={**EVEN, **CHASE}, flops=0.0)
    first = kernel_advice(chase)
    assert (first.rule, first.status) == ("dependent loads", "shown")
    assert any(text.startswith("loads in flight per warp 0.") for text in first.evidence)
    full = profiled(COPIED / (0.4 * 4.8e12), moved=COPIED, counters={**EVEN, **CHASE, "occupancy": 0.95})
    assert kernel_advice(full).rule == "uncoalesced"
    busy = profiled(COPIED / (0.4 * 4.8e12), moved=COPIED, counters={**EVEN, **CHASE, "stall.long_scoreboard": 20.0})
    assert kernel_advice(busy).rule == "uncoalesced"


def test_a_chain_whose_nodes_are_partly_in_l2() -> None:
    """Two thirds of the sectors come from L2, in half the time of the main memory: by its bandwidth alone, a third of a load.

    By Little's law over both: rate x (1/3 x 337 ns + 2/3 x 156 ns) over 0.06 x 64 warps x 132 SMs x 32 sectors.
    """
    nodes, far, near = 1.35e8, H200.main.latency.value(), H200.levels[-2].latency.value()
    assert far
    assert near
    counters = {**CHASE, "occupancy": 0.06, "l2_busy": 0.27, "l2_to_sm": nodes, "hbm_read": nodes / 3, "blocks": 128.0}
    chase = profiled(120e-6, moved=nodes / 3, counters={**EVEN, **counters, "stall.long_scoreboard": 50.0}, flops=0.0)
    first = kernel_advice(chase)
    assert (first.rule, first.status) == ("dependent loads", "shown")
    loads = nodes / 120e-6 * (far + 2 * near) / 3 / (0.06 * 64 * 132 * 32 * 32)
    assert f"loads in flight per warp {loads:.3g}" in first.evidence
    wide = replace(chase, counters={**chase.counters, "sectors_per_load": 4.0, "bytes_per_sector_load": 32.0})
    assert "dependent loads" not in {each.rule for each in all_advice(wide)}  # coalesced loads are no chain


def test_few_scattered_results_are_no_waste() -> None:
    """A reduction writes a few sums with a stride: 8 sectors per store, 4 bytes of each, 1 % of all sectors."""
    counters = {"sectors_per_store": 8.0, "bytes_per_sector_store": 4.0, "load_requests": 1e6}
    assert "uncoalesced" not in {item.rule for item in advise(slow(**counters, store_requests=5e3))}
    assert "uncoalesced" in {item.rule for item in advise(slow(**counters, store_requests=1e6))}


def test_local_memory_without_register_pressure_holds_arrays() -> None:
    """20 registers are fewer than any launch bounds leave; the traffic of local memory is no product without tiles."""
    counters = {"local_sectors": 8e7, "registers": 20.0, "issue": 0.65, "l2_busy": 0.92, "l1_busy": 0.5, **EVEN}
    item = profiled(5e-4, flops=1e9, moved=4e8, bytes={"l1": 3.5e9, "l2": 2.3e9}, counters=counters)
    item = replace(item, counters={name: value for name, value in item.counters.items() if name != "spills"})
    first = kernel_advice(item)
    assert (first.rule, first.status) == ("local arrays", "shown")
    assert first.device == pytest.approx(5e-4 * 32 * 8e7 / 3.5e9, rel=0.02)
    assert not {"no tiling", "spills"} & {each.rule for each in all_advice(item)}
    capped = replace(item, counters={**item.counters, "registers": 40.0})
    assert kernel_advice(capped).rule == "spills"


@pytest.mark.parametrize(
    ("per_access", "flops", "rule"), [(3.0, 1e9, "local arrays"), (0.5, 1e9, "spills"), (3.0, 0.0, "spills")]
)
def test_addresses_that_are_computed_are_those_of_arrays(per_access: float, flops: float, rule: str) -> None:
    """A spilled register has a fixed address. In a kernel of integers they are the work, and say nothing of addresses."""
    sectors = 8e7
    counters = {
        "local_sectors": sectors, "registers": 32.0, "integer_instructions": per_access * 32 * sectors / 4,
        "thread_instructions": 2.5 * per_access * 32 * sectors / 4, "issue": 0.5, "l2_busy": 0.92, "l1_busy": 0.5, **EVEN,
    }  # fmt: skip
    item = profiled(5e-4, flops=flops, moved=4e8, bytes={"l1": 3.5e9, "l2": 2.3e9}, counters=counters)
    item = replace(item, counters={name: value for name, value in item.counters.items() if name != "spills"})
    assert kernel_advice(item).rule == rule


def test_arithmetic_remains_when_spills_go() -> None:
    """All traffic of L1 is local. The FMA pipe, used 40 % of the time, is then used as much as L2 is today."""
    counters = {"local_sectors": 1e8, "registers": 64.0, "fma_busy": 0.4, "l2_busy": 0.8, "l1_busy": 0.5, **EVEN}
    time = 5e-4
    flops = 0.97 * 0.4 * time * H200.peak("vector.fp32").value
    item = profiled(
        time, flops=flops, moved=1e8, bytes={"l1": 3.2e9, "l2": 2.3e9}, counters={**counters, "spills": 1e6}
    )
    first = next(each for each in all_advice(item) if each.rule == "spills")
    assert first.device == pytest.approx(time * (1 - 0.97 * 0.4 / 0.8), rel=0.03)


def test_updates_that_are_made_once_leave_the_lanes_that_were_off() -> None:
    """Shared memory served nothing but retries. All lanes active, the issue slots take 14 of 32 parts of 0.97 x 0.5."""
    gap = slow(**RETRIES)
    wavefronts = 1e7 / (RETRIES["cycles"] * 132)
    uncounted = 0.99 * 0.97 - wavefronts - (4e6 + 1.3e8 / 32) / (RETRIES["cycles"] * 132)
    left = max(0.99 * 0.97 - uncounted - wavefronts, 0.97 * 0.5 * 14 / 32, 0.25)
    assert top(gap).gain == pytest.approx(
        gap.measured - max(gap.measured * left / (0.99 * 0.97), achievable(COPY)), rel=0.02
    )


def test_fp64_arithmetic_on_fp32_data_is_a_cause_of_its_own() -> None:
    """Threads load 4 bytes and compute in fp64 at 90 % of its peak. At that of fp32, twice as high, it is 45 %, on top of 5 %."""
    flops = 1e11
    peak = H200.peak("vector.fp64").value
    item = profiled(
        flops / (0.9 * peak), engine="vector.fp64", flops=flops, moved=1e9, counters={**EVEN, "fp64_busy": 0.9}
    )
    first = kernel_advice(item)
    assert (first.rule, first.status) == ("accidental fp64", "shown")
    assert first.device == pytest.approx(item.samples[0] * (1 - (0.45 + 0.05) / 0.9), rel=0.02)
    meant = replace(item, counters={**item.counters, "sectors_per_load": 8.0})  # 8 bytes per thread: the data are fp64
    assert "accidental fp64" not in {each.rule for each in all_advice(meant)}
    # every 4 bytes that were read are converted, and results have 4 bytes
    several = {"conversions": 0.25e9, "hbm_read": 1e9, "sectors_per_store": 4.0, "bytes_per_sector_store": 32.0}
    assert kernel_advice(replace(meant, counters={**meant.counters, **several})).rule == "accidental fp64"
    fewer = {**meant.counters, **several, "conversions": 0.1e9}
    assert "accidental fp64" not in {each.rule for each in all_advice(replace(meant, counters=fewer))}


def test_fp64_costs_instructions_too() -> None:
    """Half the instructions are of fp64 (an FMA for two FLOPs), a tenth conversions, the others come in two halves.

    0.5 + 0.4 / 2 of the issue slots remain; the special-function pipe does nothing but convert.
    """
    flops, every = 1e10, 1e10
    counters = {
        "fp64_busy": 0.5, "issue": 0.9, "special_busy": 0.72, "thread_instructions": every, "conversions": 0.1 * every, **EVEN
    }  # fmt: skip
    item = profiled(1e-3, engine="vector.fp64", flops=flops, moved=1e9, counters=counters)
    gain = next(each.device for each in all_advice(item) if each.rule == "accidental fp64")
    assert gain == pytest.approx(1e-3 * (1 - (0.5 + 0.4 / 2)), rel=0.02)


def test_multiply_adds_that_refine_functions_go_with_them() -> None:
    """Special functions fill 38 % of their pipe, an eighth of that is one instruction of all: 5 multiply-adds each are 24 %."""
    gap = slow(**POWERS, fma_busy=0.8)
    indexing = 5e8 / 6.7e9 * 0.9
    assert top(gap).rule == "costly functions"
    left = 0.8 - indexing - 5 * 0.38 / 8
    assert top(gap).gain == pytest.approx(gap.measured * (1 - left / gap.target.achievable_share), rel=0.05)


def test_integers_are_the_cause_while_memory_is_not_busy() -> None:
    gap = slow(**WORK, hbm_busy=0.65, sectors_per_load=16.0)
    assert top(gap).rule == "integer overhead"
    assert "integer overhead" not in {item.rule for item in advise(slow(**WORK, hbm_busy=0.9))}


def test_special_functions_remain_when_instructions_go() -> None:
    """Half the time the special-function pipe is busy: whatever else goes, it needs that time at 90 % of its peak."""
    item = profiled(1e-3, flops=1e9, moved=1e9, counters={**EVEN, "special_busy": 0.5, "issue": 0.7})
    gain = next(each.device for each in all_advice(item) if each.rule == "issue")
    assert gain == pytest.approx(1e-3 * (1 - 0.97 * 0.5 / 0.9), rel=0.02)


def test_atomics_are_not_mistaken_for_waiting_loads() -> None:
    """Warps wait for memory in both; the counters of atomics tell them apart."""
    gap = slow(**ATOMIC)
    assert top(gap).rule == "contended atomics"
    assert not {"synchronous loads", "few in flight"} & {item.rule for item in advise(gap)}


def test_loads_that_all_threads_share_are_not_thin() -> None:
    """A broadcast uses 4 bytes of its only sector: few bytes per thread, and nothing to widen."""
    broadcast = slow(**{"sectors_per_load": 1.0, "bytes_per_sector_load": 4.0})
    assert "thin loads" not in {item.rule for item in advise(broadcast)}


def test_barriers_of_a_reduction() -> None:
    counters = {"stall.barrier": 6.0, "shared_per_block": 5120.0, "issue": 0.65}
    assert top(slow(**counters)).rule == "barriers"
    assert "barriers" not in {item.rule for item in advise(slow(**{**counters, "shared_per_block": 1024.0}))}


def test_products_on_the_older_matrix_instructions() -> None:
    work = ops.gemm(8192, 8192, 8192, dtype="bf16")
    counters = {"tensor_busy": 0.6, "wgmma_busy": 0.0, "mma_busy": 0.2, "occupancy": 0.2}
    item = profiled(2.7e-3, flops=2 * 8192.0**3, moved=1.6e9, engine="tensor.bf16", counters=counters)
    first = top(gap_of(work, item))
    assert (first.rule, first.status) == ("legacy tensor path", "shown")
    assert first.gain == pytest.approx(2.7e-3 - achievable(work))
    newer = replace(item, counters={**item.counters, "wgmma_busy": 0.1})
    assert "legacy tensor path" not in {advice.rule for advice in advise(gap_of(work, newer))}


def test_a_full_product_where_a_triangle_is_needed() -> None:
    """Twice the FLOPs, which no tile explains: not padding."""
    work = ops.syrk(n=8192, k=4096, dtype="bf16")
    flops = 2 * 8192.0**2 * 4096
    time = flops / H200.peak("tensor.bf16").value / 0.7
    item = profiled(time, flops=flops, moved=1.2e9, engine="tensor.bf16", counters={"tensor_busy": 0.62})
    first = top(gap_of(work, item))
    assert (first.rule, first.status) == ("extra flops", "shown")
    assert first.gain == pytest.approx(time / 2, rel=0.05)


def test_a_throttled_clock() -> None:
    work = ops.gemm(8192, 8192, 8192, dtype="bf16")
    time = 1.5 * float(predict(work, H200).time)
    item = profiled(time, flops=2 * 8192.0**3, moved=1.4e9, engine="tensor.bf16", counters={"tensor_busy": 0.95})
    slow_clock = replace(item, conditions={"sm_clock": 1.2e9})
    first = top(gap_of(work, slow_clock))
    assert (first.rule, first.status) == ("throttled clock", "shown")
    assert first.gain == pytest.approx(min(time * (1 - 1.2 / 1.83), time - achievable(work)), rel=0.01)
    assert "throttled clock" not in {advice.rule for advice in advise(gap_of(work, replace(item, conditions={"sm_clock": 1.83e9})))}  # fmt: skip


@pytest.mark.parametrize("share", [0.5, 0.95])
def test_wasted_bytes_are_a_fault_at_any_share_of_the_bandwidth(share: float) -> None:
    """S1-22, S1-23: eight times the bytes at 95 % of the bandwidth is uncoalesced, not a kernel to quantize."""
    moved = 8 * COPIED
    counters = {"sectors_per_load": 32.0, "bytes_per_sector_load": 4.0, "hbm_busy": share, "l2_busy": share}
    gap = gap_of(COPY, profiled(moved / H200.bandwidth("hbm").value / share, moved=moved, counters=counters))
    first = top(gap)
    assert (first.rule, first.status) == ("uncoalesced", "shown")
    assert first.gain == pytest.approx(gap.measured - max(achievable(COPY), gap.measured / 8))


def test_without_counters_causes_keep_to_their_side_of_the_ridge() -> None:
    """S1-19, S1-20: memory-side causes for points left of the ridge, compute-side ones right of it, below the roof."""
    sides = {rule.name: rule.side for rule in rules() if rule.side}
    assert set(sides.values()) == {"memory", "compute"}
    product = ops.gemm(4096, 4096, 4096, dtype="bf16")
    for work, side in ((COPY, "memory"), (product, "compute")):
        for factor, below in ((4.0, True), (1.0, False)):
            gap = gap_of(work, Observation("step", "step", (factor * achievable(work),)))
            listed = {sides[item.rule] for item in advise(gap) if item.rule in sides}
            assert listed == ({side} if below else set()), (work.name, factor)


def test_a_specific_cause_comes_before_a_general_one_of_similar_gain() -> None:
    gap = slow(**WORK, **{"threads_per_instruction": 12.0})
    ranks = {rule.name: rule.rank for rule in rules()}
    shown = [item for item in advise(gap) if item.shown]
    large = [item for item in shown if (item.gain or 0.0) >= 0.4 * max(other.gain or 0.0 for other in shown)]
    assert shown[: len(large)] == large
    assert [ranks[item.rule] for item in large] == sorted(ranks[item.rule] for item in large)


def test_no_gain_of_a_library_kernel_ends_below_its_expected_time() -> None:
    """ATen's softmax at its expected time is left alone; a kernel of one's own may reach the roofline."""
    work = ops.softmax(16384, 4096, dtype="bf16")
    time = 1.4 * float(predict(work, H200).time)
    counters = {"issue": 0.8, "hbm_busy": 0.2}
    for kernel, limit in (("at::native::softmax", float(predict(work, H200).time)), ("my_softmax", achievable(work))):
        gap = gap_of(work, profiled(time, flops=1e9, moved=2.7e8, counters=counters, kernel=kernel))
        gains = [item.gain for item in advise(gap) if item.gain is not None]
        assert gains
        assert time - max(gains) >= limit * (1 - 1e-9)


def test_near_the_roofline_is_judged_by_the_expected_time() -> None:
    work = ops.softmax(16384, 4096, dtype="bf16")
    expected = float(predict(work, H200).time)
    gap = gap_of(work, Observation("step", "step", (1.02 * expected,)))
    assert gap.share < 0.5
    assert as_expected(gap)
    assert "typical of tuned kernels" in gap_band(gap)
    assert "typical of tuned kernels" in action(gap, None)
    slower = gap_of(work, Observation("step", "step", (2 * expected,)))
    assert not as_expected(slower)
    assert "far below" in gap_band(slower)


def test_issue_slots_of_multiply_adds_are_no_fault() -> None:
    """Polynomials: 0.8 of the slots are filled, by multiply-adds alone, or half of them by other instructions."""
    item = profiled(1e-3, flops=2e10, moved=1e8, counters={**EVEN, "issue": 0.8, "fma_busy": 0.75})
    assert "issue" not in {each.rule for each in all_advice(item)}
    mixed = replace(item, counters={**item.counters, "fma_busy": 0.4})
    assert "issue" in {each.rule for each in all_advice(mixed)}
