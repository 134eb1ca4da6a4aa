"""Advice: what was not counted is only possible, what counters contradict is left out, nothing passes its limit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from advice_samples import CLOCK, COPIED, COPY, QUIET, achievable, gap_of, profiled, top
from gap_samples import H200, NCU
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.documents import to_document
from ridgeline.core.observation import Observation
from ridgeline.core.work import Work
from ridgeline.gaps.advice import Advice, advise
from ridgeline.gaps.gap import Gap
from ridgeline.gaps.join import Pair
from ridgeline.gaps.kernel_families import is_conversion, kernel_word, only_converts
from ridgeline.gaps.report import reconcile
from ridgeline.gaps.rules import catalog, causes, moves, rules
from ridgeline.machines.load import load
from ridgeline.prediction.predict import predict
from ridgeline.profilers import load as observe
from ridgeline.programs import ops
from strategies import law

# The recorded report --------------------------------------------------------------------------------------------------


def test_recorded_copy_and_softmax_are_diagnosed_for_what_they_are() -> None:
    observed = {item.name: item for item in observe.load(NCU / "h200_raw.csv")}
    work = ops.transpose(8192, 8192, dtype="fp32")
    copy = top(gap_of(work, observed["strided_copy_fp32"]))
    assert (copy.rule, copy.status) == ("strided", "shown")
    assert "strided access" in copy.cause
    # a library kernel, and as fast as expected of it: the waste is named, nothing is promised
    assert observed["strided_copy_fp32"].median < float(predict(work, H200).time)
    assert copy.gain is None
    own = replace(observed["strided_copy_fp32"], kernel="my_transpose(float*, float*)")
    assert top(gap_of(work, own)).gain == pytest.approx(own.median - achievable(work))
    softmax = advise(gap_of(ops.softmax(16384, 4096, dtype="bf16"), observed["softmax_bf16"]))
    assert softmax == []
    mine = advise(
        gap_of(ops.softmax(16384, 4096, dtype="bf16"), replace(observed["softmax_bf16"], kernel="my_softmax"))
    )
    assert [item.rule for item in mine] == ["issue"]
    assert "issue slots used 77.3 %" in mine[0].evidence


def test_kernels_at_their_roof_get_no_fault() -> None:
    observed = {item.name: item for item in observe.load(NCU / "h200_raw.csv")}
    for name, work in (
        ("triad_fp32_2^27", ops.stream_triad(2**27, dtype="fp32")),
        ("gemv_bf16_1x28672x8192", ops.gemm(1, 28672, 8192, dtype="bf16")),
        ("gemm_bf16_8192", ops.gemm(8192, 8192, 8192, dtype="bf16")),
    ):
        assert {item.status for item in advise(gap_of(work, observed[name]))} == {"possible"}, name


def test_padding_costs_only_where_arithmetic_is_the_limiter() -> None:
    """Products of 1030 rows in tiles of 256, which make 1280: 1.24 times the flops at the tensor roof."""
    work = ops.bmm(64, 1030, 4096, 4096, dtype="bf16")
    flops = 2.0 * 64 * 1280 * 4096 * 4096
    time = flops / H200.peak("tensor.bf16").value / 0.95
    item = profiled(
        time, flops=flops, moved=1.05 * float(work.bytes), engine="tensor.bf16", counters={"tensor_busy": 0.97}
    )
    advice = top(gap_of(work, item))
    assert advice.rule == "padding"
    extra = flops * (1 - 1030 / 1280) / H200.peak("tensor.bf16").value
    assert advice.gain == pytest.approx(min(extra / 0.95, time - achievable(work)))


@pytest.mark.parametrize(("factor", "listed"), [(1.1, False), (1.5, True), (3.0, True)])
def test_causes_of_extra_bytes_are_listed_when_their_factor_is_large(factor: float, listed: bool) -> None:
    """Also where the kernel moves them at full bandwidth: the fault is in the bytes, not in the rate."""
    seen = Observation("step", "step", (1.05 * factor * achievable(COPY),), bytes={"hbm": factor * COPIED}, kernel="k")
    named = {item.cause for item in advise(gap_of(COPY, seen))}
    unfused = next(rule.cause for rule in rules() if rule.name == "unfused")  # one kernel leaves nothing to fuse
    assert set(causes("extra bytes")) & named == ((set(causes("extra bytes")) - {unfused}) if listed else set())


def test_without_counters_all_causes_of_a_memory_gap_are_possible() -> None:
    advice = advise(gap_of(COPY, Observation("step", "step", (4 * achievable(COPY),))))
    assert {item.status for item in advice} == {"possible"}
    causes_named = {item.cause for item in advice}
    small = next(rule.cause for rule in rules() if rule.name == "too small")  # 118 us of work is no small problem
    assert set(causes("memory gap")) - causes_named == {small}
    assert all(item.missing for item in advice if item.rule != "channels")
    assert all(
        item.gain is not None and item.gain <= 3 * achievable(COPY) * 1.01 for item in advice if item.gain is not None
    )


def test_counters_rule_causes_out() -> None:
    """The same time with counters that show coalesced loads, many warps and no conflicts."""
    named = {item.rule for item in advise(gap_of(COPY, profiled(4 * achievable(COPY), moved=COPIED)))}
    assert not named & {"uncoalesced", "low occupancy", "few blocks", "bank conflicts", "spills", "divergence"}
    assert "few in flight" in named


def test_deep_in_the_compute_region_nothing_moves_right() -> None:
    work = ops.gemm(8192, 8192, 8192, dtype="bf16")
    item = profiled(
        4e-3, flops=2 * 8192.0**3, moved=1e9, engine="tensor.bf16", counters={"tensor_busy": 0.3, "stall.gmma": 9.0}
    )
    gap = gap_of(work, item)
    assert gap.deep_compute
    assert advise(gap)
    assert all(item.direction != "right" for item in advise(gap))


def test_overhead_lists_its_four_cures() -> None:
    advice = advise(gap_of(ops.softmax(8, 64), Observation("step", "step", (2e-6,))))
    assert {item.move for item in advice} >= {move.name for move in moves("overhead")}
    assert len(moves("overhead")) == 4


def test_near_the_memory_roof_only_reading_less_is_offered() -> None:
    advice = advise(gap_of(ops.axpy(1e8, dtype="fp32"), profiled(1.05 * achievable(ops.axpy(1e8, dtype="fp32")), flops=2e8, moved=12e8, counters={"hbm_busy": 0.92})))  # fmt: skip
    assert advice
    assert {item.direction for item in advice} == {"right"}
    assert advice[0].move == "fuse with the adjacent kernel"
    decoding = advise(gap_of(ops.gemm(1, 8192, 8192, dtype="bf16"), Observation("step", "step", (3.2e-5,))))
    offered = {item.move: item.changes for item in decoding}
    for key in ("quantize", "speculate", "continuous"):
        assert "bytes" in offered[catalog()[key].name] or "weights" in offered[catalog()[key].name]


@pytest.mark.parametrize("time", [27e-6, 31e-6, 40e-6, 80e-6])
def test_weights_read_for_one_row_are_offered_more_rows_whatever_is_reached(time: float) -> None:
    """117 of 117 MB are weights: for two rows at once, half of the time falls to each."""
    work = ops.linear(batch=1, in_features=4096, out_features=14336, dtype="bf16")
    advice = advise(gap_of(work, Observation("step", "step", (time,))))
    first = [item.move for item in advice[:3]]
    assert {catalog()[key].name for key in ("continuous", "speculate")} <= set(first)
    assert (catalog()["quantize"].name in first) == (time < 50e-6), "near the roofline only"
    by_rule = {item.rule: item for item in advice}
    assert by_rule["read for others too"].gain == pytest.approx(time / 2, rel=1e-3)
    assert "no tensor cores" not in by_rule, "2 us on the vector units, and 26 us of reading"
    assert ("cache thrash" in by_rule) == (time > 35e-6), "1.25 times the bytes do not pass at 80 % of the roof"


def test_more_rows_are_not_offered_where_they_do_not_help() -> None:
    work = ops.linear(batch=1, in_features=4096, out_features=14336, dtype="bf16")
    busy = profiled(60e-6, flops=1.2e8, moved=1.17e8, counters={"fma_busy": 0.95, "issue": 0.95})
    assert not {"read for others too", "check several tokens"} & {item.rule for item in advise(gap_of(work, busy))}
    outer = ops.gemm(8192, 8192, 32, dtype="bf16")  # the result is what takes the time
    slow = Observation("step", "step", (2 * achievable(outer),))
    assert "read for others too" not in {item.rule for item in advise(gap_of(outer, slow))}
    cache = ops.attention(batch=8, heads=32, kv_heads=8, seq_q=1, seq_kv=4096, head_dim=128, dtype="bf16")
    named = {item.rule for item in advise(gap_of(cache, Observation("step", "step", (1.2 * achievable(cache),))))}
    assert "check several tokens" in named
    assert "read for others too" not in named, "each request has keys and values of its own"


def test_a_cpu_is_not_told_about_warps() -> None:
    cpu = load("xeon-8480plus")
    work = ops.stream_triad(1e8, dtype="fp64")
    slow = Observation("step", "step", (4 * float(predict(work, cpu).floor),))
    advice = advise(Gap.of(predict(work, cpu), Pair((0,), (slow,), "name")))
    assert "channels" in {item.rule for item in advice}
    assert not any("warp" in item.cause + item.changes or "shared" in item.move for item in advice)


def test_a_product_faster_than_the_vector_units_ran_on_the_tensor_units() -> None:
    """4096 cubed in bf16 in 175 us is 785 TFLOP/s: no possibility of idle tensor units is left, counters or not."""
    prediction = predict(ops.gemm(4096, 4096, 4096), load("h200-sxm"))
    [item] = reconcile(prediction, [Observation("gemm", "gemm", (175e-6,))]).items
    assert "no tensor cores" not in {advice.rule for advice in item.advice}
    [slow] = reconcile(prediction, [Observation("gemm", "gemm", (5e-3,))]).items
    assert "no tensor cores" in {advice.rule for advice in slow.advice}


# Laws -----------------------------------------------------------------------------------------------------------------


@st.composite
def runs(draw: st.DrawFn) -> Gap:
    work = draw(
        st.sampled_from([COPY, ops.gemm(1024, 1024, 1024, dtype="bf16"), ops.softmax(4096, 1024), ops.relu(512)])
    )
    counters = {name: value * draw(st.floats(0, 8)) for name, value in QUIET.items() if draw(st.booleans())}
    flops = {draw(st.sampled_from(["tensor.bf16", "vector.fp32"])): float(work.flops) * draw(st.floats(0, 4))}
    moved = {level: float(work.bytes) * draw(st.floats(0, 9)) for level in ("hbm", "l2", "l1") if draw(st.booleans())}
    time = achievable(work) * draw(st.floats(0.5, 50))
    item = Observation("step", "step", (time,), flops=draw(st.sampled_from([flops, {}])), bytes=moved, counters=counters, conditions=CLOCK)  # fmt: skip
    return gap_of(work, item)


@given(runs())
@law(300)
def test_no_move_gains_more_than_the_time_nor_passes_its_limits(gap: Gap) -> None:
    offered = advise(gap)
    assert [item.status for item in offered] == sorted(
        (item.status for item in offered), key=lambda word: word != "shown"
    )
    for item in offered:
        assert item.gain is None or 0 < item.gain <= gap.measured
        assert to_document(item)["evidence"] is not None
        if item.status == "shown":
            assert not item.missing
        if item.end is not None and gap.counts.flops and gap.counts.bytes:
            at, rate = item.end.intensity, item.end.rate
            before = gap.counts.flops / gap.counts.bytes
            assert at <= max(before, gap.target.flops / gap.target.bytes) * (1 + 1e-9)
            assert rate <= at * gap.work.needs["hbm"].rate * (1 + 1e-9)
            assert item.direction != "up" or at == pytest.approx(before)


@given(runs())
@law(100)
def test_nothing_is_shown_without_counters(gap: Gap) -> None:
    bare = replace(gap.measurement, flops={}, bytes={}, counters={})
    timed = ("tiny kernels", "launches", "unfused neighbour")
    for item in advise(replace(gap, measurement=bare)):
        assert item.status == "possible" or item.rule in timed or item.rule.startswith("launch-bound")


# CPUs -----------------------------------------------------------------------------------------------------------------


def on_cpu(work: Work, item: Observation) -> list[Advice]:
    cpu = load("xeon-8480plus")
    return advise(Gap.of(predict(work, cpu), Pair((0,), (item,), "name")))


def test_one_thread_of_56_is_told_to_use_all_cores() -> None:
    """A triad on 8 of 56 cores at a quarter of the roofline."""
    work = ops.stream_triad(1e8, dtype="fp64")
    time = 4 * float(predict(work, load("xeon-8480plus")).floor)
    top, *_ = on_cpu(work, Observation("step", "step", (time,), settings={"threads": 8}))
    assert (top.rule, top.status, top.move) == ("idle cores", "shown", "run on all cores")
    assert "cores used 14.3 %" in top.evidence
    assert top.gain is not None
    assert 0.5 * time < top.gain < time
    all_cores = on_cpu(work, Observation("step", "step", (time,), settings={"threads": 56}))
    assert "idle cores" not in {item.rule for item in all_cores}


def test_scalar_code_is_told_to_vectorize() -> None:
    work = ops.gemm(2048, 2048, 2048, dtype="fp64")
    time = 6 * float(predict(work, load("xeon-8480plus")).floor)
    counted = {"flops": {"vector.fp64": float(work.flops)}, "counters": {"scalar_share": 0.98}}
    top, *_ = on_cpu(work, Observation("step", "step", (time,), **counted))
    assert (top.rule, top.status, top.move) == ("scalar code", "shown", "vectorize the inner loop")


def test_write_allocate_and_poor_reuse_are_told_apart() -> None:
    """A triad reads two arrays and writes one: a third more bytes is write-allocate, three times as many is not."""
    work = ops.stream_triad(1e8, dtype="fp64")
    time = 1.5 * float(predict(work, load("xeon-8480plus")).floor)
    for factor, rule, move in (
        (4 / 3, "write-allocate", "use non-temporal stores"),
        (3.0, "poor reuse", "block for cache"),
    ):
        offered = on_cpu(
            work, Observation("step", "step", (time * factor,), bytes={"main": factor * float(work.bytes)})
        )
        shown = [item for item in offered if item.shown]
        assert [(item.rule, item.move) for item in shown] == [(rule, move)]


def test_no_advice_for_a_cpu_names_gpu_hardware() -> None:
    for work in (
        ops.stream_triad(1e8, dtype="fp64"),
        ops.gemm(2048, 2048, 2048),
        ops.gemm(1, 4096, 4096),
        ops.relu(64),
    ):
        for factor in (1.0, 3.0, 30.0):
            time = factor * float(predict(work, load("xeon-8480plus")).time)
            for item in on_cpu(work, Observation("step", "step", (time,))):
                text = f"{item.cause} {item.move} {item.changes}"
                assert not any(
                    word in text for word in ("warp", "tensor core", "oalesce", "CUDA", "thread block", "SM ")
                )


def test_a_case_for_the_vector_units_is_told_of_tensor_cores() -> None:
    """Stated FLOPs are those of the vector units unless the case says otherwise; counted ones show what ran."""
    item = Observation("step", "nvjet", (1e-3,), flops={"tensor.bf16": 1e12})
    for engine, noted in (("vector", True), ("matrix", False)):
        work = ops.custom(bytes=1e8, flops=1e12, engine=engine, dtype="bf16")
        notes = Gap.of(predict(work, H200), Pair((0,), (item,), "name")).notes
        assert any("engine=matrix" in note for note in notes) == noted


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("void cudnn::nchwToNhwcKernel<__half>(params)", True),
        ("void at::elementwise_kernel<128, 4, void at::gpu_kernel_impl_nocast<at::direct_copy_kernel_cuda(x)>>", True),
        (
            "void at::vectorized_elementwise_kernel<4, at::direct_copy_kernel_cuda(x)>",
            False,
        ),  # no stride, as in a clone
        (
            "void at::elementwise_kernel<128, 4, void at::gpu_kernel_impl<at::direct_copy_kernel_cuda(x)>>",
            False,
        ),  # a cast
    ],
)
def test_kernels_that_only_change_a_layout_are_known_by_name(kernel: str, expected: bool) -> None:
    assert is_conversion(kernel) == expected


def test_a_copy_that_repeats_its_input_changes_no_layout() -> None:
    """A row of 16 kB, which L1 serves, is written 8192 times."""
    name = "void at::elementwise_kernel<128, 2, void at::gpu_kernel_impl_nocast<at::direct_copy_kernel_cuda(x)>>"
    counters = {"store_requests": 1e6, "sectors_per_store": 4.0, "l2_to_sm": 1.28e8}
    item = Observation("step", "step", (1e-4,), kernel=name, counters=counters)
    assert only_converts(item)
    assert not only_converts(replace(item, counters={**counters, "l2_to_sm": 2e6}))


@pytest.mark.parametrize(
    ("kernel", "word"),
    [
        (
            "void at::vectorized_elementwise_kernel<4, at::AUnaryFunctor<float, binary_internal::MulFunctor<float>>>",
            "mul",
        ),
        (
            "void at::vectorized_elementwise_kernel<4, at::CUDAFunctor_add<float>, std::array<char *, 3>>(int, T2)",
            "add",
        ),
        (
            "void at::elementwise_kernel<128, 4, void at::gpu_kernel_impl_nocast<at::direct_copy_kernel_cuda(x)>>",
            "direct_copy",
        ),
        ("void at::<unnamed>::cunn_SoftMaxForwardReg<float, float>(T3 *)", "cunn_SoftMaxForwardReg"),
        ("my_kernel(float *, int)", "my_kernel"),
    ],
)
def test_a_word_says_what_a_kernel_does(kernel: str, word: str) -> None:
    assert kernel_word(kernel) == word


def test_many_more_flops_on_another_engine_than_stated_are_extra() -> None:
    """The trace of a product: 2 n^2 FLOPs of a sum are stated, the tensor cores do 2 n^3, and a few vector FLOPs are counted."""
    flops = {"tensor.bf16": 2 * 4096.0**3, "vector.fp32": 8e3}
    counters = {"tensor_busy": 0.9, "sm_active": 1.0}
    item = Observation("step", "nvjet", (1.8e-4,), kernel="nvjet", flops=flops, bytes={"hbm": 1.7e8}, counters=counters)
    work = ops.custom(bytes=4 * 4096.0**2, flops=2 * 4096.0**2, dtype="bf16")
    gap = Gap.of(predict(work, H200), Pair((0,), (item,), "name"))
    assert advise(gap)[0].rule == "extra flops"
    assert not gap.notes
