"""Predictions against observations: who belongs to whom, the two gaps, the regime, every microsecond accounted for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.errors import InputError
from ridgeline.core.figure import Level
from ridgeline.core.machine import Machine
from ridgeline.core.observation import Observation
from ridgeline.core.work import Program, Step, Work
from ridgeline.gaps.gap import FLOOR, LOW, OVERHEAD, REST, Gap, band, gap
from ridgeline.gaps.join import Pair, join, kernel_family
from ridgeline.gaps.report import Report, reconcile
from ridgeline.machines.load import load
from ridgeline.prediction.predict import predict
from ridgeline.profilers import load as observe
from ridgeline.programs import ops
from strategies import figure, law

NCU = Path(__file__).parents[1] / "fixtures" / "ncu"
H200 = load("h200-sxm")

# The 14 kernels of the recorded report, as what they compute.
RECORDED: dict[str, Work] = {
    "gemm_bf16_8192": ops.gemm(8192, 8192, 8192, dtype="bf16"),
    "gemv_bf16_1x28672x8192": ops.gemm(1, 28672, 8192, dtype="bf16"),
    "gemm_bf16_4096x4096x128": ops.gemm(4096, 4096, 128, dtype="bf16"),
    "gemm_fp32_4096": ops.gemm(4096, 4096, 4096, dtype="fp32"),
    "gemm_fp64_2048": ops.gemm(2048, 2048, 2048, dtype="fp64"),
    "triad_fp32_2^27": ops.stream_triad(2**27, dtype="fp32"),
    "gelu_fp32_2^27": ops.gelu(2**27, dtype="fp32"),
    "softmax_bf16": ops.softmax(16384, 4096, dtype="bf16"),
    "layernorm_bf16": ops.layernorm(16384, 4096, dtype="bf16"),
    "flash_attention_bf16": ops.attention(
        batch=4, heads=32, kv_heads=32, seq_q=4096, seq_kv=4096, head_dim=128, causal=True, dtype="bf16"
    ),
    "conv3x3_fp16": ops.conv2d(batch=32, c_in=64, c_out=64, h=56, w=56, kernel=3, stride=1, padding=1, dtype="fp16"),
    "tiny_relu": ops.relu(1024, dtype="bf16"),
    "strided_copy_fp32": ops.transpose(8192, 8192, dtype="fp32"),
    "gemm_fp8_8192": ops.gemm(8192, 8192, 8192, dtype="fp8"),
}


def simple(peak: float = 100e12, bandwidth: float = 1e12, launch: float = 0.0) -> Machine:
    """Two roofs of round numbers, a cache of 50 MB, no expected loss but what the defaults say."""
    return Machine(
        name="simple",
        kind="gpu",
        peaks={"tensor.bf16": figure("flop/s", peak), "vector.fp32": figure("flop/s", peak / 10)},
        levels=(
            Level("l2", figure("B/s", 10 * bandwidth), figure("B", 50e6)),
            Level("hbm", figure("B/s", bandwidth), figure("B", 1e11)),
        ),
        launch=figure("s", launch),
    )


def amounts(flops: float, moved: float, name: str = "step", engine: str = "matrix", dtype: str = "bf16") -> Work:
    """Work of so many flops and bytes, half of them written."""
    counts = {(engine, dtype, "all"): flops} if flops else {}
    moves = {("main", "x", "read"): moved / 2, ("main", "y", "write"): moved / 2}
    return Work(counts=counts, moves=moves, waits={"launch": 1.0}, name=name, dtype=dtype, family="gemm")


def saw(time: float, name: str = "step", **parts: Any) -> Observation:
    return Observation(name, name, (time,), **parts)


def one(work: Work, machine: Machine, item: Observation, ceilings: str | None = None) -> Gap:
    return gap(predict(work, machine, ceilings=ceilings), Pair((0,), (item,), "name"))


@pytest.fixture(scope="module")
def recorded() -> Report:
    program = Program(tuple(Step(name, work) for name, work in RECORDED.items()))
    return reconcile(predict(program, H200), observe.load(NCU / "h200_raw.csv"))


@pytest.fixture(scope="module")
def gaps(recorded: Report) -> dict[str, Gap]:
    return {item.name: item.gap for item in recorded.items}


# The two gaps ---------------------------------------------------------------------------------------------------------


def test_saxpy_on_an_a100_is_113_percent_from_its_roof() -> None:
    """axpy n = 1e8 in fp32: 2e8 flops, 12e8 B, roof 339.8 Gflop/s; 300 Gflop/s reached."""
    machine = load("a100-sxm-80gb")
    seen = saw(2e8 / 300e9, flops={"vector.fp32": 2e8}, bytes={"hbm": 12e8})
    found = one(ops.axpy(1e8, dtype="fp32"), machine, seen, "stated")
    roof = 2e8 / 12e8 * machine.bandwidth("hbm", "stated").value
    assert found.vertical == pytest.approx(roof / 300e9)
    assert found.vertical == pytest.approx(1.13, abs=0.005)
    assert found.horizontal == pytest.approx(1.0)


def test_on_the_bandwidth_roof_with_twice_the_bytes() -> None:
    """1e9 B needed, 2e9 moved at the full 1e12 B/s: nothing to gain upwards, a factor 2 to the right."""
    found = one(amounts(1e10, 1e9), simple(), saw(2e-3, flops={"tensor.bf16": 1e10}, bytes={"hbm": 2e9}))
    assert found.vertical == pytest.approx(1.0)
    assert found.horizontal == pytest.approx(2.0)
    assert found.excess_bytes == pytest.approx(2.0)
    assert found.excess_flops == pytest.approx(1.0)
    assert found.intensity == pytest.approx(5.0)  # half of the algorithm's 10
    assert found.direction == "right"


def test_naive_gemm_is_2731_from_its_intensity() -> None:
    """fp32 4096^3 with operands fetched for every multiply-add: 0.25 flop/B against 682.7."""
    work = ops.gemm(4096, 4096, 4096, dtype="fp32")
    flops = 2 * 4096.0**3
    found = one(work, H200, saw(1.0, flops={"vector.fp32": flops}, bytes={"hbm": flops / 0.25}))
    assert found.horizontal == pytest.approx(4096 / 6 / 0.25)


def test_measured_numbers_give_the_point() -> None:
    """1e12 flop, 1e10 B, 5 ms: x = 100 flop/B, and the roof there is min(1e14, 100 x 1e12)."""
    found = one(amounts(1e12, 1e10), simple(), saw(5e-3, flops={"tensor.bf16": 1e12}, bytes={"hbm": 1e10}))
    assert found.intensity == pytest.approx(100)
    assert found.vertical == pytest.approx(1e14 / (1e12 / 5e-3))


@pytest.mark.parametrize(
    ("slower", "more", "direction"), [(1.0, 1.0, "done"), (2.0, 1.0, "up"), (1.0, 2.0, "right"), (2.0, 2.0, "both")]
)
def test_the_next_direction_of_the_four_quadrants(slower: float, more: float, direction: str) -> None:
    time = slower * more * 1e-3  # at 1e12 B/s for 1e9 B
    found = one(amounts(1e10, 1e9), simple(), saw(time, flops={"tensor.bf16": 1e10}, bytes={"hbm": more * 1e9}))
    assert found.direction == direction


def test_a_copy_has_only_the_factor_of_the_bytes() -> None:
    found = one(amounts(0, 1e9), simple(), saw(3e-3, bytes={"hbm": 1.5e9}))
    assert (found.horizontal, found.excess_flops) == (pytest.approx(1.5), None)
    assert found.vertical == pytest.approx(2.0)


@pytest.mark.parametrize(
    "parts",
    [{}, {"flops": {"tensor.bf16": 1e10}}, {"bytes": {"hbm": 1e9}}, {"counters": {"occupancy": 0.5}}],
    ids=["nothing", "flops", "bytes", "a sign"],
)
def test_what_was_not_counted_stays_unknown(parts: dict[str, Any]) -> None:
    """Both gaps need flops and bytes: with one of them neither is a number, and least of all 1."""
    found = one(amounts(1e10, 1e9), simple(), saw(2e-3, **parts))
    assert (found.vertical, found.horizontal) == (None, None)
    assert (found.excess_bytes is None) == ("bytes" not in parts)
    assert (found.excess_flops is None) == ("flops" not in parts)
    assert found.total == pytest.approx(2.0)  # 1e9 B at 1e12 B/s is a floor of 1 ms
    assert fsum(entry.time for entry in found.accounting) == pytest.approx(2e-3)


def test_above_the_roof_is_a_finding() -> None:
    found = one(amounts(1e10, 1e9), simple(), saw(5e-4, flops={"tensor.bf16": 1e10}, bytes={"hbm": 1e9}))
    assert found.vertical == pytest.approx(0.5)  # not clamped
    assert found.band.startswith("above the roof")
    assert any("measure again" in text and "sparse" in text for text in found.findings)
    assert found.accounting[-1].time < 0


def test_uncertainty_adds_spread_ceiling_and_counters() -> None:
    """Samples whose central 80 % lie within 3 %, ceilings of 10 %, counters of 2 %."""
    samples = tuple(np.linspace(0.97, 1.03, 11) * 2e-3)
    seen = Observation("step", "step", samples, flops={"tensor.bf16": 1e10}, bytes={"hbm": 1e9})
    found = one(amounts(1e10, 1e9), simple(), seen).uncertainty
    spread = 0.8 * 0.03
    assert found["time"] == pytest.approx(spread)
    assert found["vertical"] == pytest.approx((spread**2 + 0.1**2 + 0.02**2) ** 0.5)
    assert found["horizontal"] == pytest.approx(0.02)
    assert one(amounts(1e10, 1e9), simple(), saw(2e-3)).uncertainty["vertical"] is None


# Bands and points -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "kind", "word"),
    [
        (0.30, "stated", "suspect a fault (tile shape, type path, no tensor cores"),
        (0.49, "stated", "suspect"),
        (0.55, "stated", "below the usual"),
        (0.75, "stated", "good kernels"),
        (0.78, "stated", "next bottleneck"),
        (0.92, "stated", "cache hits"),
        (0.92, "measured", "at the roof"),
        (1.2, "measured", "above the roof"),
    ],
)
def test_bands(share: float, kind: str, word: str) -> None:
    assert word in band(share, kind)


def test_78_predicted_and_71_seen_are_seven_points() -> None:
    """2e12 flops at 1e14 are a floor of 20 ms: 78 % predicted is the default of tuned kernels."""
    work = amounts(2e12, 1e6)
    found = one(work, simple(), saw(20e-3 / 0.71, flops={"tensor.bf16": 2e12}, bytes={"hbm": 1e6}))
    assert found.target.floor / found.target.time == pytest.approx(0.78)
    assert found.points == pytest.approx(-7.0)
    assert found.widest.cause == LOW


# The recorded report --------------------------------------------------------------------------------------------------


def test_every_recorded_kernel_is_joined_by_its_range(recorded: Report) -> None:
    assert [item.name for item in recorded.items] == list(RECORDED)
    assert {item.gap.how for item in recorded.items} == {"name"}
    assert recorded.unmatched == {"predicted": [], "observed": []}


def test_recorded_counts_against_the_algorithms(gaps: Mapping[str, Gap]) -> None:
    assert gaps["gemm_bf16_8192"].excess_flops == pytest.approx(1.016, abs=0.001)
    assert gaps["gemv_bf16_1x28672x8192"].excess_flops == pytest.approx(8.0)
    assert gaps["flash_attention_bf16"].excess_flops == pytest.approx(1.03, abs=0.005)
    assert gaps["triad_fp32_2^27"].excess_bytes == pytest.approx(1.0, abs=0.02)
    assert gaps["triad_fp32_2^27"].horizontal == pytest.approx(1.0, abs=0.02)
    assert gaps["gemm_bf16_8192"].excess_bytes == pytest.approx(1382e6 / (3 * 8192**2 * 2), rel=0.001)


def test_padding_of_the_gemv_is_seen_and_harmless(gaps: Mapping[str, Gap]) -> None:
    found = gaps["gemv_bf16_1x28672x8192"]
    assert any("8.00 x" in text and "padding" in text and "harmless: hbm" in text for text in found.findings)
    assert not any(entry.cause == "extra work" for entry in found.accounting)
    assert (found.regime.bound, found.regime.limiter, found.regime.confirmed) == ("memory", "hbm", True)


def test_extra_traffic_right_of_the_ridge_is_harmless(gaps: Mapping[str, Gap]) -> None:
    found = gaps["gemm_bf16_8192"]
    assert any("3.43 x" in text and "harmless: tensor.bf16" in text for text in found.findings)
    assert found.direction != "right"


def test_fewer_bytes_than_the_algorithm_are_explained_not_clamped(gaps: Mapping[str, Gap]) -> None:
    """4096 x 4096 x 128: 8.8 of 35.7 MB reach the memory, the 33.5 MB result stays in an L2 of 60 MiB."""
    found = gaps["gemm_bf16_4096x4096x128"]
    assert found.excess_bytes == pytest.approx(8.78 / 35.65, rel=0.01)
    assert found.horizontal is not None
    assert found.horizontal < 0.3
    assert any("l2 kept it" in text and "outputs" in text for text in found.findings)
    kept = [entry.time for entry in found.accounting if entry.cause == "traffic a cache kept"]
    assert len(kept) == 1
    assert kept[0] < 0


def test_softmax_is_bound_by_issue_and_the_strided_copy_by_l2(gaps: Mapping[str, Gap]) -> None:
    softmax, copy = gaps["softmax_bf16"], gaps["strided_copy_fp32"]
    assert (softmax.target.bound, softmax.regime.bound, softmax.regime.limiter) == ("memory", "compute", "issue")
    assert not softmax.regime.confirmed
    assert any("issue is busy" in text for text in softmax.findings)
    assert (copy.regime.bound, copy.regime.limiter) == ("memory", "l2")
    assert copy.regime.share == pytest.approx(0.97, abs=0.005)
    levels = {row["level"]: row for row in copy.levels()}
    assert levels["l2"]["bytes"] == pytest.approx(1.958e9, rel=0.001)
    assert isinstance(levels["l2"]["share"], float)
    assert isinstance(levels["hbm"]["share"], float)
    assert levels["l2"]["share"] > levels["hbm"]["share"]


def test_regimes_of_the_others(gaps: Mapping[str, Gap]) -> None:
    seen = {name: found.regime.bound for name, found in gaps.items()}
    assert seen["tiny_relu"] == "overhead"
    assert gaps["tiny_relu"].band == OVERHEAD
    assert {seen[name] for name in ("triad_fp32_2^27", "gelu_fp32_2^27")} == {"memory"}
    for name in ("gemm_fp32_4096", "gemm_fp64_2048", "flash_attention_bf16", "gemm_fp8_8192"):
        assert (seen[name], gaps[name].regime.limiter) == ("compute", gaps[name].target.limiter)
    assert seen["conv3x3_fp16"] == "underused"


def test_the_clock_has_an_entry_of_its_own_against_stated_peaks() -> None:
    """The 8192^3 product ran at 1.566 GHz where the peak of 989.4 Tflop/s is that of 1.83 GHz."""
    seen = {item.name: item for item in observe.load(NCU / "h200_raw.csv")}["gemm_bf16_8192"]
    found = one(RECORDED["gemm_bf16_8192"], H200, seen, "stated")
    clock = next(entry.time for entry in found.accounting if entry.cause.startswith("clock"))
    flops = seen.flops["tensor.bf16"]
    assert clock == pytest.approx(flops / (4096 * 132 * 1.565629e9) - flops / 989.4e12, rel=1e-6)


def test_the_report_as_a_document(recorded: Report) -> None:
    document = json.loads(json.dumps(recorded.document(), allow_nan=False))
    keys = {
        "name", "predicted_us", "measured_us", "floor_us", "vertical_gap", "horizontal_gap", "excess_bytes",
        "excess_flops", "bound_predicted", "bound_observed", "accounting", "advice",
    }  # fmt: skip
    for item in document["items"]:
        assert keys <= set(item)
        assert sum(entry["us"] for entry in item["accounting"]) == pytest.approx(item["measured_us"])
        for row in item["advice"]:
            assert {"move", "direction", "gain_us", "evidence"} <= set(row)
    assert {"items", "unmatched", "sealed", "sentence"} <= set(document)


def test_the_verdict_over_all_of_it(recorded: Report) -> None:
    verdict = recorded.verdict
    assert verdict["measured_us"] == pytest.approx(sum(item.gap.measured for item in recorded.items) * 1e6)
    assert sum(row["share"] for row in verdict["holders"]) == pytest.approx(1)
    assert verdict["holders"][0]["name"] == "gemm_fp32_4096"
    assert verdict["worth_most"]["name"] == "gemm_fp32_4096"
    assert sum(verdict["regimes"].values()) == pytest.approx(1)
    assert sum(verdict["causes"].values()) == pytest.approx(verdict["measured_us"])
    assert "because" in recorded.sentence
    assert "the gap is" in recorded.sentence
    assert "next is to use a faster engine in gemm_fp32_4096" in recorded.sentence


def test_sentences_are_made_of_the_data(recorded: Report) -> None:
    told = {item.name: item.sentence for item in recorded.items}
    assert told["triad_fp32_2^27"].startswith(
        "triad_fp32_2^27: fast because hbm is busy for 99% of the time, as predicted"
    )
    assert "slow because l2 is busy for 97% of the time, where hbm was predicted" in told["strided_copy_fp32"]
    assert "launching takes" in told["tiny_relu"]
    assert all("; the gap is " in text and "; next is " in text for text in told.values())


# Without counters -----------------------------------------------------------------------------------------------------


def test_times_alone_say_so() -> None:
    work = ops.stream_triad(1e8, dtype="fp32")
    near = reconcile(predict(work, H200), [saw(1.2e9 / 4.4e12 * 1.1, "stream_triad")])
    item = near.items[0]
    assert (item.gap.regime.bound, item.gap.regime.basis, item.gap.regime.confirmed) == (
        "memory",
        "the time alone",
        True,
    )
    assert item.document()["vertical_gap"] is None
    far = reconcile(predict(work, H200), [saw(1.2e9 / 4.4e12 * 5, "stream_triad")]).items[0]
    assert far.gap.regime.bound == "underused"
    assert {advice.status for advice in far.advice} == {"possible"}
    assert "perhaps" in far.sentence


def test_below_launch_latency_is_overhead_from_the_time_alone() -> None:
    found = one(amounts(1e3, 1e3), simple(launch=5e-6), saw(6e-6))
    assert (found.regime.bound, found.regime.basis) == ("overhead", "the time alone")


# Joining --------------------------------------------------------------------------------------------------------------


def steps(*names: str, work: Work | None = None) -> Any:
    return predict(Program(tuple(Step(name, work or amounts(1e9, 1e6)) for name in names)), simple())


def test_names_paths_and_ops_join() -> None:
    seen = [
        saw(1e-3, "kernel_a", path=("model", "layers.0.attn")),
        saw(2e-3, "layers.0.mlp"),
        saw(3e-3, "aten::mm", settings={"op": "head"}),
        saw(4e-3, "stranger", kernel="something_else"),
    ]
    joined = join(steps("layers.0.attn", "layers.0.mlp", "head", "absent"), seen)
    assert [(pair.steps, pair.observations[0].median, pair.how) for pair in joined.pairs] == [
        ((0,), 1e-3, "name"),
        ((1,), 2e-3, "name"),
        ((2,), 3e-3, "name"),
        ((3,), 4e-3, "order"),  # one of each is left, and nothing speaks against it
    ]


def test_what_does_not_fit_is_listed_on_both_sides() -> None:
    seen = [saw(1e-3, "a"), saw(2e-3, "x", kernel="softmax_kernel"), saw(3e-3, "y", kernel="softmax_kernel_2")]
    report = reconcile(steps("a", "b"), seen)
    assert report.unmatched == {"predicted": ["b"], "observed": ["x", "y"]}
    assert report.verdict["unmatched_us"] == pytest.approx(5000)


def test_same_names_join_in_order() -> None:
    report = reconcile(steps("a", "a", "a"), [saw(1e-3, "a"), saw(2e-3, "a"), saw(3e-3, "a")])
    assert [item.gap.measured for item in report.items] == [1e-3, 2e-3, 3e-3]


def test_several_kernels_of_a_step_add_up() -> None:
    """A product in two kernels: 3 + 1 us, 8 + 2 MB; a count that one of them lacks is not known."""
    work = amounts(1e9, 1e7)
    seen = [
        saw(3e-6, "a", kernel="gemm", bytes={"hbm": 8e6}, flops={"tensor.bf16": 1e9}),
        saw(1e-6, "a", kernel="splitk_reduce", bytes={"hbm": 2e6}),
    ]
    found = reconcile(predict(replace(work, name="a"), simple()), seen).items[0].gap
    assert found.measured == pytest.approx(4e-6)
    assert found.excess_bytes == pytest.approx(1.0)
    assert found.flops is None
    assert found.seen.launches == 2


def test_repeated_kernels_are_runs_where_one_is_the_whole_and_parts_where_it_is_not() -> None:
    whole = [saw(time, "a", kernel="k", bytes={"hbm": 1e7}) for time in (1e-5, 2e-5, 4e-5)]
    parts = [saw(1e-5, "a", kernel="k", bytes={"hbm": 1e7 / 1000}) for _ in range(1000)]
    prediction = predict(amounts(0, 1e7, "a"), simple())
    assert reconcile(prediction, whole).items[0].gap.measured == pytest.approx(2e-5)
    many = reconcile(prediction, parts).items[0].gap
    assert many.measured == pytest.approx(1e-2)
    assert many.seen.launches == 1000
    assert many.excess_bytes == pytest.approx(1.0)


def test_samples_of_repeated_runs_are_pooled() -> None:
    """Five samples of 1 ms and one of 2 ms under one name: the middle of all six, not of two medians."""
    prediction = predict(amounts(0, 1e8, "a"), simple())
    runs = [replace(saw(1e-3, "a"), samples=(1e-3,) * 5), saw(2e-3, "a")]
    found = reconcile(prediction, runs).items[0].document()
    assert (found["measured_us"], found["samples"]) == (pytest.approx(1000), 6)
    kernels = [replace(saw(time, "a", kernel=name), samples=(time, time)) for time in (1e-3, 2e-3) for name in "kl"]
    assert reconcile(prediction, kernels).items[0].gap.seen.samples == pytest.approx((2e-3, 2e-3, 4e-3, 4e-3))


def test_samples_of_one_observation_are_parts_where_one_cannot_be_the_whole() -> None:
    """The step needs 10 us at the roof. A trace has a thousand kernels of 1 us, or four of 12 us, as samples of one."""
    prediction = predict(amounts(0, 1e7, "a"), simple())
    parts = replace(saw(1e-6, "a", kernel="k"), samples=(1e-6,) * 999 + (2e-6,))
    many = reconcile(prediction, [parts]).items[0].gap
    assert many.measured == pytest.approx(1.001e-3)
    assert many.seen.launches == 1000
    runs = replace(parts, samples=(1.1e-5, 1.2e-5, 1.2e-5, 1.4e-5))
    whole = reconcile(prediction, [runs]).items[0].gap
    assert whole.measured == pytest.approx(1.2e-5)
    assert (len(whole.seen.samples), whole.seen.launches) == (4, 1)
    counted = replace(parts, bytes={"hbm": 1e4})
    assert reconcile(prediction, [counted]).items[0].gap.excess_bytes == pytest.approx(1.0)
    twice = predict(Program((Step("a", amounts(0, 1e7), 2.0),)), simple())
    halves = reconcile(twice, [parts]).items[0].gap
    assert halves.seen.samples == pytest.approx((500e-6, 501e-6))
    assert halves.seen.launches == 500


def test_bytes_that_a_cluster_shares_are_not_those_of_l2() -> None:
    """1.6 GB arrive at the multiprocessors in 176 us, more than L2 can send: one read serves the two blocks of a cluster."""
    counters = {"l2_to_sm": 1.61e9, "tma": 1.61e9, "l2_busy": 0.48, "tensor_busy": 0.95}
    work, flops = ops.gemm(4096, 4096, 4096, dtype="bf16"), 2 * 4096.0**3
    item = saw(176e-6, flops={"tensor.bf16": flops}, bytes={"hbm": 1.76e8, "l2": 1.64e9}, counters={**counters, "cluster": 2.0})  # fmt: skip
    found = one(work, H200, item)
    assert (found.regime.limiter, found.regime.confirmed) == ("tensor.bf16", True)
    assert "l2" not in found.inner
    alone = one(work, H200, replace(item, counters={**counters, "cluster": 0.0}))
    assert alone.inner["l2"].amount == 1.61e9


def test_a_step_that_runs_often_is_told_per_run() -> None:
    prediction = predict(Program((Step("a", amounts(0, 1e7), 3.0),)), simple())
    seen = [saw(time, "a", kernel="k", bytes={"hbm": 1e5}) for time in (1e-5, 2e-5, 4e-5)]
    report = reconcile(prediction, seen)
    assert report.items[0].gap.measured == pytest.approx(2e-5)
    assert report.verdict["measured_us"] == pytest.approx(60)


def test_steps_of_one_fused_kernel_add_up_and_are_marked() -> None:
    """Steps of 2 and 6 ms at the memory roof; the fused kernel is told against both."""
    parts = {"mlp.norm": amounts(0, 2e9), "mlp.fc": amounts(0, 6e9)}
    prediction = predict(Program(tuple(Step(name, work) for name, work in parts.items())), simple())
    for name in ("mlp", "mlp.norm + mlp.fc"):
        (item,) = reconcile(prediction, [saw(9e-3, name, bytes={"hbm": 5e9})]).items
        assert item.gap.target.fused
        assert item.gap.target.floor == pytest.approx(8e-3)
        assert item.gap.target.time == pytest.approx(float(np.asarray(prediction.time)))
        assert any("need not be moved" in text for text in item.gap.findings)
    hinted = reconcile(prediction, [saw(9e-3, "triton_0")], hints={"triton_0": ["mlp.norm", "mlp.fc"]})
    assert hinted.items[0].gap.how == "hint"
    assert hinted.items[0].gap.target.steps == ("mlp.norm", "mlp.fc")


def test_a_hint_for_a_step_that_is_not_there() -> None:
    with pytest.raises(InputError, match="unknown step of the prediction 'fc9'"):
        reconcile(steps("fc1", "fc2"), [saw(1e-3, "k")], hints={"k": "fc9"})


def test_families_join_what_names_and_order_do_not() -> None:
    program = {"mm": ops.gemm(64, 64, 64), "act": ops.gelu(4096), "sm": ops.softmax(64, 64), "lost": ops.sum(4096)}
    prediction = predict(Program(tuple(Step(name, work) for name, work in program.items())), H200)
    seen = [
        saw(1e-6, "1", kernel="vectorized_elementwise_kernel"),
        saw(2e-6, "2", kernel="cunn_SoftMaxForward"),
        saw(3e-6, "3", kernel="nvjet_tst_64x64"),
    ]
    report = reconcile(prediction, seen)
    assert {item.name: item.gap.measured for item in report.items} == {"mm": 3e-6, "act": 1e-6, "sm": 2e-6}
    assert {item.gap.how for item in report.items} == {"family"}
    assert report.unmatched == {"predicted": ["lost"], "observed": []}


def test_shapes_tell_kernels_of_one_family_apart() -> None:
    program = {"wide": ops.gemm(64, 512, 32), "tall": ops.gemm(512, 64, 16), "other": ops.gelu(4096)}
    prediction = predict(Program(tuple(Step(name, work) for name, work in program.items())), H200)
    seen = [
        saw(1e-6, "x", kernel="gemm_1", settings={"shapes": [[512, 16], [16, 64]]}),
        saw(2e-6, "y", kernel="gemm_2", settings={"shapes": [[64, 32], [32, 512]]}),
    ]
    report = reconcile(prediction, seen)
    assert {item.name: item.gap.measured for item in report.items} == {"wide": 2e-6, "tall": 1e-6}


def test_two_kernels_for_three_steps_of_a_family_are_not_guessed() -> None:
    prediction = steps("a", "b", "c", work=ops.gemm(64, 64, 64, dtype="bf16"))
    report = reconcile(prediction, [saw(1e-6, "x", kernel="gemm_1"), saw(2e-6, "y", kernel="gemm_2")])
    assert not report.items
    assert len(report.unmatched["predicted"]) == 3
    assert len(report.unmatched["observed"]) == 2
    assert "nothing can be said" in report.sentence


def test_kernels_by_their_names() -> None:
    seen = {item.name: kernel_family(item) for item in observe.load(NCU / "h200_raw.csv")}
    assert seen["gemm_bf16_8192"] == seen["gemm_fp64_2048"] == "gemm"
    assert (seen["softmax_bf16"], seen["layernorm_bf16"]) == ("softmax", "norm")
    assert (seen["flash_attention_bf16"], seen["conv3x3_fp16"]) == ("attention", "conv")
    assert seen["triad_fp32_2^27"] == seen["strided_copy_fp32"] == "stream"


def test_joining_a_hundred_thousand_kernels_is_quick() -> None:
    import time

    prediction = steps(*(f"layer.{place}.fc" for place in range(500)))
    seen = [saw(1e-6, f"layer.{place % 500}.fc", kernel="gemm") for place in range(100_000)]
    start = time.perf_counter()
    joined = join(prediction, seen)
    assert time.perf_counter() - start < 10
    assert [len(pair.observations) for pair in joined.pairs] == [200] * 500


def test_bad_input_has_one_message() -> None:
    with pytest.raises(InputError, match="no observations"):
        reconcile(steps("a"), [])
    sweep = predict(ops.gemm(m=np.array([1.0, 2.0]), n=4, k=4), H200)
    with pytest.raises(InputError, match="a sweep of 2 cases"):
        reconcile(sweep, [saw(1e-6, "gemm")])


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
    return amounts(flops, moved), machine, saw(draw(st.floats(1e-9, 1e4)), **parts)


@given(runs())
@law(300)
def test_every_microsecond_is_accounted_for(run: tuple[Work, Machine, Observation]) -> None:
    found = one(*run)
    largest = max(abs(entry.time) for entry in found.accounting)  # what floats can tell apart hangs on it
    assert fsum(entry.time for entry in found.accounting) == pytest.approx(
        found.measured, rel=1e-12, abs=1e-15 * largest
    )
    assert (found.accounting[0].cause, found.accounting[-1].cause) == (FLOOR, REST)
    assert all(entry.time >= 0 for entry in found.accounting if entry.cause == LOW)


@given(runs())
@law(300)
def test_the_factors_multiply_and_nothing_is_made_up(run: tuple[Work, Machine, Observation]) -> None:
    work, machine, seen = run
    found = one(work, machine, seen)
    counted = bool(seen.flops) and bool(seen.bytes)
    if found.vertical is not None:
        assert found.floor_observed is not None
        assert found.total is not None
        assert found.vertical * found.floor_observed / found.target.floor == pytest.approx(found.total)
    if found.excess_flops and found.excess_bytes is not None:
        assert found.horizontal == pytest.approx(found.excess_bytes / found.excess_flops)
    if found.target.flops and not counted:
        assert found.vertical is None
        assert found.horizontal is None
    if not seen.bytes:
        assert found.excess_bytes is None
        assert found.uncertainty["excess_bytes"] is None
    if not seen.flops:
        assert found.excess_flops is None
    json.dumps(reconcile(predict(work, machine), [seen]).document(), allow_nan=False)


@given(runs(), st.floats(0.1, 10))
@law(200)
def test_a_longer_time_widens_the_vertical_gap_alone(run: tuple[Work, Machine, Observation], times: float) -> None:
    work, machine, seen = run
    found = one(work, machine, seen)
    later = one(work, machine, replace(seen, samples=(seen.samples[0] * times,)))
    assert later.horizontal == found.horizontal
    assert later.total == pytest.approx((found.total or 0) * times)
    if found.vertical is not None:
        assert later.vertical == pytest.approx(found.vertical * times)


@given(st.floats(1e6, 1e13), st.floats(1e3, 1e10), st.floats(1e-7, 1.0), factors, factors)
@law(200)
def test_vertical_is_the_roof_at_the_observed_intensity_over_the_rate(
    flops: float, moved: float, time: float, more: float, extra: float
) -> None:
    seen = saw(time, flops={"tensor.bf16": flops * extra}, bytes={"hbm": moved * more})
    found = one(amounts(flops, moved), simple(), seen)
    rate, at = flops * extra / time, flops * extra / (moved * more)
    assert found.vertical == pytest.approx(min(100e12, at * 1e12) / rate)


def test_shapes_that_speak_against_a_step_keep_a_kernel_from_it() -> None:
    """A softmax over 4 x 4 is not the softmax over 16384 x 4096 that was predicted, whatever its kernel is called."""
    prediction = predict(ops.softmax(rows=16384, cols=4096), load("h200-sxm"))

    def softmax(*shape: int) -> Observation:
        return Observation("k", "k", (1e-4,), kernel="softmax_warp_forward", settings={"shapes": [list(shape)]})

    assert not reconcile(prediction, [softmax(4, 4)]).items
    assert reconcile(prediction, [softmax(16384, 4096)]).items
