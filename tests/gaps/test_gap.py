"""Gaps: the two factors, the regime, every microsecond accounted for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from math import fsum
from typing import Any

import numpy as np
import pytest
from gap_samples import H200, NCU, RECORDED, amounts, gap_of, observation, simple
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.documents import to_document
from ridgeline.core.machine import Machine
from ridgeline.core.observation import Observation
from ridgeline.core.work import Work
from ridgeline.gaps.accounting import Cause
from ridgeline.gaps.gap import Gap
from ridgeline.gaps.regime import MIN_LIMITER_SHARE, SHARE_TOLERANCE
from ridgeline.gaps.report import reconcile
from ridgeline.gaps.sentences import LAUNCH_BOUND, band, findings, gap_band
from ridgeline.machines.load import load
from ridgeline.prediction.predict import predict
from ridgeline.profilers import load as observe
from ridgeline.programs import ops
from strategies import law

# The two gaps ---------------------------------------------------------------------------------------------------------


def test_saxpy_on_an_a100_is_113_percent_from_its_roof() -> None:
    """axpy n = 1e8 in fp32: 2e8 flops, 12e8 B, roof 339.8 Gflop/s; 300 Gflop/s reached."""
    machine = load("a100-sxm-80gb")
    observed = observation(2e8 / 300e9, flops={"vector.fp32": 2e8}, bytes={"hbm": 12e8})
    gap = gap_of(ops.axpy(1e8, dtype="fp32"), machine, observed, "stated")
    roof = 2e8 / 12e8 * machine.bandwidth("hbm", "stated").value
    assert gap.vertical == pytest.approx(roof / 300e9)
    assert gap.vertical == pytest.approx(1.13, abs=0.005)
    assert gap.horizontal == pytest.approx(1.0)


def test_on_the_bandwidth_roof_with_twice_the_bytes() -> None:
    """1e9 B needed, 2e9 moved at the full 1e12 B/s: nothing to gain upwards, a factor 2 to the right."""
    gap = gap_of(amounts(1e10, 1e9), simple(), observation(2e-3, flops={"tensor.bf16": 1e10}, bytes={"hbm": 2e9}))
    assert gap.vertical == pytest.approx(1.0)
    assert gap.horizontal == pytest.approx(2.0)
    assert gap.excess_bytes == pytest.approx(2.0)
    assert gap.excess_flops == pytest.approx(1.0)
    assert gap.counts.intensity == pytest.approx(5.0)  # half of the algorithm's 10
    assert gap.direction == "right"


def test_naive_gemm_is_2731_from_its_intensity() -> None:
    """fp32 4096^3 with operands fetched for every multiply-add: 0.25 flop/B against 682.7."""
    work = ops.gemm(4096, 4096, 4096, dtype="fp32")
    flops = 2 * 4096.0**3
    gap = gap_of(work, H200, observation(1.0, flops={"vector.fp32": flops}, bytes={"hbm": flops / 0.25}))
    assert gap.horizontal == pytest.approx(4096 / 6 / 0.25)


def test_measured_numbers_give_the_point() -> None:
    """1e12 flop, 1e10 B, 5 ms: x = 100 flop/B, and the roof there is min(1e14, 100 x 1e12)."""
    gap = gap_of(amounts(1e12, 1e10), simple(), observation(5e-3, flops={"tensor.bf16": 1e12}, bytes={"hbm": 1e10}))
    assert gap.counts.intensity == pytest.approx(100)
    assert gap.vertical == pytest.approx(1e14 / (1e12 / 5e-3))


@pytest.mark.parametrize(
    ("slower", "more", "direction"), [(1.0, 1.0, "done"), (2.0, 1.0, "up"), (1.0, 2.0, "right"), (2.0, 2.0, "both")]
)
def test_the_next_direction_of_the_four_quadrants(slower: float, more: float, direction: str) -> None:
    time = slower * more * 1e-3  # at 1e12 B/s for 1e9 B
    gap = gap_of(
        amounts(1e10, 1e9), simple(), observation(time, flops={"tensor.bf16": 1e10}, bytes={"hbm": more * 1e9})
    )
    assert gap.direction == direction


def test_a_copy_has_only_the_factor_of_the_bytes() -> None:
    gap = gap_of(amounts(0, 1e9), simple(), observation(3e-3, bytes={"hbm": 1.5e9}))
    assert (gap.horizontal, gap.excess_flops) == (pytest.approx(1.5), None)
    assert gap.vertical == pytest.approx(2.0)


@pytest.mark.parametrize(
    "parts",
    [{}, {"flops": {"tensor.bf16": 1e10}}, {"bytes": {"hbm": 1e9}}, {"counters": {"occupancy": 0.5}}],
    ids=["nothing", "flops", "bytes", "a sign"],
)
def test_what_was_not_counted_stays_unknown(parts: dict[str, Any]) -> None:
    """Both gaps need flops and bytes: with one of them neither is a number, and least of all 1."""
    gap = gap_of(amounts(1e10, 1e9), simple(), observation(2e-3, **parts))
    assert (gap.vertical, gap.horizontal) == (None, None)
    assert (gap.excess_bytes is None) == ("bytes" not in parts)
    assert (gap.excess_flops is None) == ("flops" not in parts)
    assert gap.total == pytest.approx(2.0)  # 1e9 B at 1e12 B/s is a floor of 1 ms
    assert fsum(entry.time for entry in gap.accounting) == pytest.approx(2e-3)


def test_above_the_roof_is_a_finding() -> None:
    gap = gap_of(amounts(1e10, 1e9), simple(), observation(5e-4, flops={"tensor.bf16": 1e10}, bytes={"hbm": 1e9}))
    assert gap.vertical == pytest.approx(0.5)  # not clamped
    assert gap_band(gap).startswith("above the roofline (200 %): ")
    assert any(text.startswith("above the roofline (200 %): ") for text in findings(gap))
    assert gap.accounting[-1].time < 0


def test_uncertainty_adds_spread_ceiling_and_counters() -> None:
    """Samples whose central 80 % lie within 3 %, ceilings of 10 %, counters of 2 %."""
    samples = tuple(np.linspace(0.97, 1.03, 11) * 2e-3)
    observed = Observation("step", "step", samples, flops={"tensor.bf16": 1e10}, bytes={"hbm": 1e9})
    gap = gap_of(amounts(1e10, 1e9), simple(), observed).uncertainty
    spread = 0.8 * 0.03
    assert gap["time"] == pytest.approx(spread)
    assert gap["vertical"] == pytest.approx((spread**2 + 0.1**2 + 0.02**2) ** 0.5)
    assert gap["horizontal"] == pytest.approx(0.02)
    assert gap_of(amounts(1e10, 1e9), simple(), observation(2e-3)).uncertainty["vertical"] is None


# Bands and points -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "kind", "word"),
    [
        (0.30, "stated", "far below the roofline: suspect tile shape, dtype path, no tensor cores"),
        (0.49, "stated", "suspect"),
        (0.55, "stated", "below typical tuned kernels"),
        (0.75, "stated", "typical of tuned kernels"),
        (0.78, "stated", "look elsewhere"),
        (0.92, "stated", "cache hits"),
        (0.92, "measured", "at the roofline"),
        (1.2, "measured", "above the roofline (120 %)"),
    ],
)
def test_bands(share: float, kind: str, word: str) -> None:
    assert word in band(share, kind)


def test_78_predicted_and_71_seen_are_seven_points() -> None:
    """2e12 flops at 1e14 are a floor of 20 ms: 78 % predicted is the default of tuned kernels."""
    work = amounts(2e12, 1e6)
    gap = gap_of(work, simple(), observation(20e-3 / 0.71, flops={"tensor.bf16": 2e12}, bytes={"hbm": 1e6}))
    assert gap.target.floor / gap.target.time == pytest.approx(0.78)
    assert gap.points == pytest.approx(-7.0)
    assert gap.largest_loss.kind is Cause.LIMITER_LOSS


# Regimes and the recorded report --------------------------------------------------------------------------------------


def test_recorded_counts_against_the_algorithms(gaps: Mapping[str, Gap]) -> None:
    assert gaps["gemm_bf16_8192"].excess_flops == pytest.approx(1.016, abs=0.001)
    assert gaps["gemv_bf16_1x28672x8192"].excess_flops == pytest.approx(8.0)
    assert gaps["flash_attention_bf16"].excess_flops == pytest.approx(1.03, abs=0.005)
    assert gaps["triad_fp32_2^27"].excess_bytes == pytest.approx(1.0, abs=0.02)
    assert gaps["triad_fp32_2^27"].horizontal == pytest.approx(1.0, abs=0.02)
    assert gaps["gemm_bf16_8192"].excess_bytes == pytest.approx(1382e6 / (3 * 8192**2 * 2), rel=0.001)


def test_padding_of_the_gemv_is_seen_and_harmless(gaps: Mapping[str, Gap]) -> None:
    gap = gaps["gemv_bf16_1x28672x8192"]
    assert any("8.00x" in text and "tile padding" in text and "harmless: HBM" in text for text in findings(gap))
    assert gap.time_of(Cause.EXTRA_WORK) == 0
    assert (gap.regime.bound, gap.regime.limiter, gap.regime.confirmed) == ("memory", "hbm", True)


def test_extra_traffic_right_of_the_ridge_is_harmless(gaps: Mapping[str, Gap]) -> None:
    gap = gaps["gemm_bf16_8192"]
    assert any("3.43x" in text and "harmless: tensor.bf16" in text for text in findings(gap))
    assert gap.direction != "right"


def test_fewer_bytes_than_the_algorithm_are_explained_not_clamped(gaps: Mapping[str, Gap]) -> None:
    """4096 x 4096 x 128: 8.8 of 35.7 MB reach the memory, the 33.5 MB result stays in an L2 of 60 MiB."""
    gap = gaps["gemm_bf16_4096x4096x128"]
    assert gap.excess_bytes == pytest.approx(8.78 / 35.65, rel=0.01)
    assert gap.horizontal is not None
    assert gap.horizontal < 0.3
    assert any("L2 (60 MiB) holds the outputs" in text for text in findings(gap))
    kept = [entry.time for entry in gap.accounting if entry.kind is Cause.CACHED_TRAFFIC]
    assert len(kept) == 1
    assert kept[0] < 0


def test_softmax_is_bound_by_issue_and_the_strided_copy_by_l2(gaps: Mapping[str, Gap]) -> None:
    softmax, copy = gaps["softmax_bf16"], gaps["strided_copy_fp32"]
    assert (softmax.target.bound, softmax.regime.bound, softmax.regime.limiter) == ("memory", "compute", "issue")
    assert not softmax.regime.confirmed
    assert any("instruction-issue-bound" in text for text in findings(softmax))
    assert (copy.regime.bound, copy.regime.limiter) == ("memory", "l2")
    assert copy.regime.share == pytest.approx(0.97, abs=0.005)
    levels = {row.level: row for row in copy.levels()}
    assert levels["l2"].bytes == pytest.approx(1.958e9, rel=0.001)
    assert levels["l2"].share > levels["hbm"].share


def test_regimes_of_the_others(gaps: Mapping[str, Gap]) -> None:
    observed = {name: gap.regime.bound for name, gap in gaps.items()}
    assert observed["tiny_relu"] == "overhead"
    assert gap_band(gaps["tiny_relu"]) == LAUNCH_BOUND
    assert {observed[name] for name in ("triad_fp32_2^27", "gelu_fp32_2^27")} == {"memory"}
    for name in ("gemm_fp32_4096", "gemm_fp64_2048", "flash_attention_bf16", "gemm_fp8_8192"):
        assert (observed[name], gaps[name].regime.limiter) == ("compute", gaps[name].target.limiter)
    assert observed["conv3x3_fp16"] == "latency"


def test_the_clock_has_an_entry_of_its_own_against_stated_peaks() -> None:
    """The 8192^3 product ran at 1.566 GHz where the peak of 989.4 Tflop/s is that of 1.83 GHz."""
    observed = {item.name: item for item in observe.load(NCU / "h200_raw.csv")}["gemm_bf16_8192"]
    gap = gap_of(RECORDED["gemm_bf16_8192"], H200, observed, "stated")
    clock = gap.time_of(Cause.CLOCK)
    flops = observed.flops["tensor.bf16"]
    assert clock == pytest.approx(flops / (4096 * 132 * 1.565629e9) - flops / 989.4e12, rel=1e-6)


def test_below_launch_latency_is_overhead_from_the_time_alone() -> None:
    gap = gap_of(amounts(1e3, 1e3), simple(launch=5e-6), observation(6e-6))
    assert (gap.regime.bound, gap.regime.basis) == ("overhead", "time only")


def test_bytes_that_a_cluster_shares_are_not_those_of_l2() -> None:
    """1.6 GB arrive at the multiprocessors in 176 us, more than L2 can send: one read serves the two blocks of a cluster."""
    counters = {"l2_to_sm": 1.61e9, "tma": 1.61e9, "l2_busy": 0.48, "tensor_busy": 0.95}
    work, flops = ops.gemm(4096, 4096, 4096, dtype="bf16"), 2 * 4096.0**3
    item = observation(176e-6, flops={"tensor.bf16": flops}, bytes={"hbm": 1.76e8, "l2": 1.64e9}, counters={**counters, "cluster": 2.0})  # fmt: skip
    gap = gap_of(work, H200, item)
    assert (gap.regime.limiter, gap.regime.confirmed) == ("tensor.bf16", True)
    assert "l2" not in gap.counts.inner
    alone = gap_of(work, H200, replace(item, counters={**counters, "cluster": 0.0}))
    assert alone.counts.inner["l2"].amount == 1.61e9


# Laws -----------------------------------------------------------------------------------------------------------------

positive = st.floats(1e3, 1e13)
factors = st.floats(0.01, 100)


@st.composite
def runs(draw: st.DrawFn) -> tuple[Work, Machine, Observation]:
    flops = draw(st.one_of(st.just(0.0), positive))
    moved = draw(positive)
    machine = simple(draw(st.floats(1e9, 1e16)), draw(st.floats(1e9, 1e13)), draw(st.floats(0, 1e-4)))
    engine = draw(st.sampled_from(["tensor.bf16", "vector.fp32"]))
    parts: dict[str, Any] = {"flops": {}, "bytes": {}, "counters": {}}
    if draw(st.booleans()):
        parts["flops"] = {engine: flops * draw(factors)}
    if draw(st.booleans()):
        parts["bytes"] = {"hbm": moved * draw(factors)}
    if draw(st.booleans()):
        parts["counters"] = {"l2_to_sm": moved * draw(factors), "sm_active": draw(st.floats(0, 1))}
    return amounts(flops, moved), machine, observation(draw(st.floats(1e-9, 1e4)), **parts)


@given(runs())
@law(300)
def test_every_microsecond_is_accounted_for(run: tuple[Work, Machine, Observation]) -> None:
    gap = gap_of(*run)
    largest = max(abs(entry.time) for entry in gap.accounting)  # what floats can tell apart hangs on it
    assert fsum(entry.time for entry in gap.accounting) == pytest.approx(gap.measured, rel=1e-12, abs=1e-15 * largest)
    assert (gap.accounting[0].kind, gap.accounting[-1].kind) == (Cause.FLOOR, Cause.RESIDUAL)
    assert all(entry.time >= 0 for entry in gap.accounting if entry.kind is Cause.LIMITER_LOSS)
    kinds = [entry.kind for entry in gap.accounting]
    assert Cause.HOST_WAIT not in kinds
    assert kinds.count(Cause.FLOOR) == kinds.count(Cause.RESIDUAL) == 1
    assert not any("{" in entry.cause for entry in gap.accounting)
    assert sum(gap.time_of(kind) for kind in set(kinds)) == pytest.approx(gap.measured, rel=1e-9, abs=1e-12 * largest)


@given(runs())
@law(100)
def test_the_limiter_of_a_run_was_busy_and_the_busiest_comes_first(run: tuple[Work, Machine, Observation]) -> None:
    gap = gap_of(*run)
    values = [share.value for share in gap.shares]
    assert values == sorted(values, reverse=True)
    if gap.regime.limited:
        assert gap.regime.share >= MIN_LIMITER_SHARE or gap.regime.share >= values[0] - SHARE_TOLERANCE
        assert {share.name: share.side for share in gap.shares}[gap.regime.limiter] == gap.regime.bound


@given(runs())
@law(300)
def test_the_factors_multiply_and_nothing_is_made_up(run: tuple[Work, Machine, Observation]) -> None:
    work, machine, observed = run
    gap = gap_of(work, machine, observed)
    counted = bool(observed.flops) and bool(observed.bytes)
    if gap.vertical is not None:
        assert gap.work.floor is not None
        assert gap.total is not None
        assert gap.vertical * gap.work.floor / gap.target.floor == pytest.approx(gap.total)
    if gap.excess_flops and gap.excess_bytes is not None:
        assert gap.horizontal == pytest.approx(gap.excess_bytes / gap.excess_flops)
    if gap.target.flops and not counted:
        assert gap.vertical is None
        assert gap.horizontal is None
    if not observed.bytes:
        assert gap.excess_bytes is None
        assert gap.uncertainty["excess_bytes"] is None
    if not observed.flops:
        assert gap.excess_flops is None
    json.dumps(to_document(reconcile(predict(work, machine), [observed])), allow_nan=False)


@given(runs(), st.floats(0.1, 10))
@law(200)
def test_a_longer_time_widens_the_vertical_gap_alone(run: tuple[Work, Machine, Observation], times: float) -> None:
    work, machine, observed = run
    gap = gap_of(work, machine, observed)
    later = gap_of(work, machine, replace(observed, samples=(observed.samples[0] * times,)))
    assert later.horizontal == gap.horizontal
    assert later.total == pytest.approx((gap.total or 0) * times)
    if gap.vertical is not None:
        assert later.vertical == pytest.approx(gap.vertical * times)


@given(st.floats(1e6, 1e13), st.floats(1e3, 1e10), st.floats(1e-7, 1.0), factors, factors)
@law(200)
def test_vertical_is_the_roof_at_the_observed_intensity_over_the_rate(
    flops: float, moved: float, time: float, more: float, extra: float
) -> None:
    observed = observation(time, flops={"tensor.bf16": flops * extra}, bytes={"hbm": moved * more})
    gap = gap_of(amounts(flops, moved), simple(), observed)
    rate, at = flops * extra / time, flops * extra / (moved * more)
    assert gap.vertical == pytest.approx(min(100e12, at * 1e12) / rate)
