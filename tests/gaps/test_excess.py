"""Bytes and FLOPs in excess: which kind they are, and what other figures than the counted excess decide."""

from __future__ import annotations

import pytest
from advice_samples import COPIED, COPY, LOADED, achievable, gap_of, profiled
from gap_samples import H200

from ridgeline.gaps.advice import Advice, advise
from ridgeline.gaps.excess import read_hit
from ridgeline.gaps.signs import signs
from ridgeline.prediction.predict import predict
from ridgeline.programs import ops

ELEMENTS = 2.0**26
# Twice the bytes of a copy, all of them streamed: nothing hits in L1, and L2 serves no read itself.
STREAMED = {
    "hbm_read": 3 * LOADED, "hbm_write": LOADED, "l2_to_sm": 3 * LOADED, "l2_hit": 0.25, "l1_hit": 0.0,
    "conversions": 0.0, "hbm_busy": 0.9,
}  # fmt: skip


def excess(**counters: float) -> list[Advice]:
    """Of a copy that moves twice its bytes."""
    item = profiled(2.2 * achievable(COPY), moved=2 * COPIED, counters={**STREAMED, **counters})
    return [advice for advice in advise(gap_of(COPY, item)) if advice.shown]


@pytest.mark.parametrize(
    ("counters", "rule"),
    [
        ({}, "extra bytes"),
        ({"conversions": 2 * ELEMENTS}, "wide elements"),  # each element after the load, and again before the store
        ({"conversions": 8 * ELEMENTS}, "extra bytes"),  # coordinates, say
        ({"hbm_write": 2 * LOADED, "hbm_read": 2 * LOADED, "l2_to_sm": 2 * LOADED}, "scratch buffer"),
        ({"l2_to_sm": 8 * LOADED}, "redundant loads"),
        ({"l1_hit": 0.4}, "cache thrash"),
        ({"l1_hit": 0.2}, "extra bytes"),  # a table besides the data
        ({"l1_hit": 0.4, "bytes_per_sector_load": 20.0}, "extra bytes"),  # a sector in two loads, the second one a hit
    ],
)
def test_the_kind_of_extra_bytes(counters: dict[str, float], rule: str) -> None:
    first = excess(**counters)[0]
    assert first.rule == rule
    assert "bytes moved over algorithmic bytes 2x" in first.evidence
    assert first.gain == pytest.approx(1.2 * achievable(COPY), rel=0.1)


def test_one_kind_is_named() -> None:
    kinds = {"extra bytes", "wide elements", "scratch buffer", "redundant loads", "cache thrash"}
    named = [{item.rule for item in excess(**counters)} & kinds for counters in ({}, {"conversions": 2 * ELEMENTS}, {"l1_hit": 0.4})]  # fmt: skip
    assert [len(rules) for rules in named] == [1, 1, 1]


def test_a_copy_that_moves_its_bytes_has_none_in_excess() -> None:
    item = profiled(2.2 * achievable(COPY), moved=COPIED, counters={**STREAMED, "conversions": 2 * ELEMENTS})
    assert not {"extra bytes", "wide elements"} & {advice.rule for advice in advise(gap_of(COPY, item))}


def test_conversions_are_no_sign_in_formats_that_are_computed_in_a_wider_one() -> None:
    work = ops.stream_copy(2**26, dtype="fp16")
    item = profiled(2.2 * achievable(work), moved=COPIED, counters={**STREAMED, "conversions": 2 * ELEMENTS})
    assert "converted" not in signs(gap_of(work, item))


def test_a_few_written_bytes_beside_a_small_result_are_no_scratch_buffer() -> None:
    """The sum of a tensor writes one number; lines that were dirty before are written back during it."""
    work = ops.reduce_sum(2**26, dtype="fp32")
    item = profiled(2.2 * achievable(work), moved=2 * LOADED, counters={**STREAMED, "hbm_write": 0.01 * LOADED})
    assert signs(gap_of(work, item))["scratch"] == "no"


def test_hits_of_writes_are_not_those_of_reads() -> None:
    """A copy: L2 fetches every byte it delivers, and half of its requests are writes, which hit."""
    assert read_hit({"l2_hit": 0.5, "l2_to_sm": LOADED, "hbm_read": LOADED}) == 0
    assert read_hit({"l2_hit": 0.5, "l2_to_sm": 4 * LOADED, "hbm_read": LOADED}) == 0.75
    assert read_hit({"l2_hit": 0.5}) == 0.5
    assert read_hit({}) is None


def test_l2_limits_what_fewer_fetches_bring() -> None:
    """L2 is the busiest unit, and after the fix it still delivers to the SMs what it does today: 3 + 1 parts of 3 + 2."""
    counters = {**STREAMED, "l1_hit": 0.4, "l2_busy": 0.95}
    time = 2.2 * achievable(COPY)
    item = profiled(time, moved=2 * COPIED, bytes={"l2": 3 * COPIED}, counters=counters)
    first = advise(gap_of(COPY, item))[0]
    assert first.rule == "cache thrash"
    assert first.gain == pytest.approx(time * (1 - (3 + 1) / (3 + 2)))


@pytest.mark.parametrize(("loads", "share"), [(1.0, 0.5), (4.0, 1.0)])
def test_fewer_bytes_may_be_too_few_in_flight(loads: float, share: float) -> None:
    """Of three bytes that are read one is needed. With one load of 16 bytes per thread it is half of what covers the latency."""
    latency = H200.main.latency.value()
    assert latency
    covering = 1.5 * COPIED / float(predict(COPY, H200).floor) * latency  # bytes in flight of one load per warp
    occupancy = covering / (64 * 132 * 16 * 32)
    threads = ELEMENTS / 4
    counters = {
        "sectors_per_load": 16.0,
        "occupancy": occupancy,
        "threads": threads,
        "load_requests": loads * threads / 32,
    }
    [first] = [item for item in excess(**counters) if item.rule == "extra bytes"]
    time, after = 2.2 * achievable(COPY), achievable(COPY) / share
    assert first.gain == pytest.approx(min(time - after, 1.2 * achievable(COPY)), rel=0.1)


@pytest.mark.parametrize(("alu", "rule"), [(0.05, "extra flops"), (0.6, "costly functions")])
def test_flops_around_fast_functions_are_the_work(alu: float, rule: str) -> None:
    """A precise function checks ranges and scales by exponents; around a fast one there are only multiply-adds."""
    needed = 64 * ELEMENTS
    counters = {
        "issue": 0.85, "fma_busy": 0.65, "special_busy": 0.5, "alu_busy": alu, "thread_instructions": 2 * needed,
        "integer_instructions": 0.0,
    }  # fmt: skip
    peak = H200.peak("vector.fp32").value
    item = profiled(2 * needed / (0.65 * peak), flops=2 * needed, moved=COPIED / 16, counters=counters)
    work = ops.custom(bytes=COPIED / 16, flops=needed)
    assert advise(gap_of(work, item))[0].rule == rule


def test_barriers_cost_nothing_where_the_issue_slots_are_full() -> None:
    counters = {"stall.barrier": 5.0, "shared_per_block": 2048.0, "hbm_busy": 0.1}
    time = 5 * achievable(COPY)
    named = [
        {
            item.rule
            for item in advise(gap_of(COPY, profiled(time, moved=COPIED, counters={**counters, "issue": issue})))
        }
        for issue in (0.5, 0.95)
    ]
    assert ["barriers" in rules for rules in named] == [True, False]


@pytest.mark.parametrize(("executed", "named"), [(8.0, True), (1.0, False)])
def test_extra_flops_may_fill_the_issue_slots(executed: float, named: bool) -> None:
    """Products in loops: the FMA pipe is used less than half, and every slot issues them and their loops."""
    needed = 64 * ELEMENTS
    work = ops.custom(bytes=COPIED, flops=needed)
    counters = {
        "issue": 0.97,
        "fma_busy": 0.4,
        "thread_instructions": 3 * executed * needed,
        "integer_instructions": 0.0,
    }
    item = profiled(30 * achievable(COPY), flops=executed * needed, moved=COPIED, counters=counters)
    assert ("extra flops" in {advice.rule for advice in advise(gap_of(work, item))}) == named
