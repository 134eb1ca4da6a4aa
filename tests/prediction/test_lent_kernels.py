"""Kernels that a machine was not timed with: whose coefficients serve them, and what their times may not do."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.families.attention import EXPONENTIAL_SHARE, MAX_HEAD
from ridgeline.machines.files import names
from ridgeline.prediction.compare import comparison
from ridgeline.prediction.hardware import hardware
from ridgeline.prediction.predict import Prediction
from ridgeline.programs.ops import find
from strategies import law

real = cache(rl.machine)
GPUS = [name for name in names() if real(name).kind == "gpu"]
ROUNDING = 1 + 1e-9


def lent(prediction: Prediction) -> list[str]:
    return [kernel.selected.key.dtype for kernel in prediction.expected[0].kernels]


@pytest.mark.parametrize("name", ["v100-sxm2-32gb", "t4", "p100-sxm2-16gb", "apple-m4"])
def test_rows_and_streams_need_no_products_in_their_format(name: str) -> None:
    """They compute in fp32 whatever they read, so that bf16 takes as long as fp16 where there is no bf16 arithmetic."""
    for work in (rl.ops.softmax, rl.ops.layernorm):
        there, here = (rl.predict(work(rows=1, cols=32768, dtype=dtype), name) for dtype in ("bf16", "fp16"))
        assert there.time == pytest.approx(here.time, rel=1e-6)
        assert there.expected[0].label == "transferred"
    assert rl.predict(rl.ops.gelu(n=1e6, dtype="fp8"), "a100-sxm-80gb").expected[0].label == "transferred"


@pytest.mark.parametrize("name", ["l4", "t4", "a100-pcie-80gb"])
def test_timings_of_some_elementwise_ops_serve_those_that_are_built_like_them(name: str) -> None:
    """An optimizer goes over pieces of tensors, a pool over windows: both take what an H200 lends."""
    alike = rl.predict(rl.ops.silu(n=1e8, dtype="fp32"), name).expected[0].kernels[0]
    other = rl.predict(rl.ops.adamw(n=1e5, dtype="fp32"), name).expected[0].kernels[0]
    assert (alike.selected.fitted.borrowed, other.selected.fitted.borrowed) == (False, True)


@pytest.mark.parametrize(
    "work",
    [
        rl.ops.max_pool2d_backward(batch=256, channels=256, h=56, w=56, dtype="fp8"),
        rl.ops.batchnorm_training(batch=8, channels=1024, pixels=49, dtype="fp32"),
        rl.ops.adamw(n=65536, dtype="fp64"),
        rl.ops.sort(rows=4096, cols=128000, dtype="fp32"),
    ],
    ids=lambda work: work.name,
)
def test_ops_built_in_their_own_way_take_lent_timings_of_the_op_before_own_timings_of_others(work: rl.Work) -> None:
    """An A100 PCIe was timed in some elementwise ops, layernorm and softmax; the SXM board in none of them."""
    timed, untimed = (rl.predict(work, name) for name in ("a100-pcie-80gb", "a100-sxm-80gb"))
    assert float(timed.time) == pytest.approx(float(untimed.time), rel=0.15)
    assert timed.expected[0].kernels[0].selected.fitted.borrowed


@pytest.mark.parametrize(
    "work",
    [rl.ops.sort(rows=8192, cols=8192, dtype="fp64"), rl.ops.layernorm(rows=16, cols=1_000_000, dtype="fp64")],
    ids=lambda work: work.name,
)
@pytest.mark.parametrize("name", ["h200-sxm", "b200-sxm", "mi300x"])
def test_wider_elements_are_not_timed_by_other_ops(name: str, work: rl.Work) -> None:
    """fp64 was timed in few of their shapes; those of all rows in fp64 together said a 16th of what fp32 takes."""
    narrow = find(work.name)(**work.shape, dtype="fp32")
    assert float(rl.predict(work, name).time) > 0.95 * float(rl.predict(narrow, name).time)


@pytest.mark.parametrize(
    "work",
    [
        rl.ops.topk(rows=4096, cols=4096, k=8),
        rl.ops.sort(rows=4096, cols=4096),
        rl.ops.topk(rows=1 << 20, cols=128, k=1),
    ],
    ids=["topk", "sort", "first"],
)
def test_what_hardly_uses_the_bandwidth_is_no_slower_for_lack_of_it(work: rl.Work) -> None:
    """A search within rows that reaches a twentieth of an H200's bandwidth waits for the cores: as many of them take as long at a fifth of it."""
    h200, h100, rtx = (float(rl.predict(work, name).time) for name in ("h200-sxm", "h100-sxm", "rtx-4090"))
    assert rtx < 1.5 * h200
    assert h100 < 1.1 * h200
    passes = rl.ops.sort(rows=4096, cols=128_000)  # over the main memory
    assert float(rl.predict(passes, "rtx-4090").time) > 3 * float(rl.predict(passes, "h200-sxm").time)


@pytest.mark.parametrize("name", ["apple-m4", "gb300"])
def test_what_takes_no_arithmetic_needs_no_rate_of_it(name: str) -> None:
    """Neither has a known rate in fp64: sorting took them a tenth of its time in fp32."""
    wide, narrow = (rl.predict(rl.ops.sort(rows=4096, cols=4096, dtype=dtype), name) for dtype in ("fp64", "fp32"))
    assert wide.expected[0].label == "transferred"
    assert float(wide.time) > float(narrow.time)


@pytest.mark.parametrize("name", ["l4", "a100-pcie-80gb"])
def test_sizes_far_below_the_timed_ones_have_an_interval_as_wide_as_lent_ones(name: str) -> None:
    short, long = (rl.predict(rl.ops.gelu(n=n, dtype="fp32"), name) for n in (1e3, 1e8))
    assert float(short.high) > 1.25 * float(short.time)
    assert float(short.low) < 0.8 * float(short.time)
    assert float(long.high) - float(long.time) < 0.3 * float(long.time)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("a100-sxm-80gb", "bf16"), *((name, dtype) for name in ("h100-sxm", "h200-sxm", "b200-sxm") for dtype in ("bf16", "fp8"))],
)  # fmt: skip
def test_wide_rows_off_a_cache_line_are_not_priced_as_rows_shorter_than_one(name: str, dtype: str) -> None:
    """4000 columns took an H200 as long as 4032; public timings off a line are all of 32 columns or a depth of 32."""
    ragged, even = (rl.predict(rl.ops.gemm(4000, n, 4096, dtype=dtype), name) for n in (4000, 4032))
    assert float(ragged.time) == pytest.approx(float(even.time), rel=0.35)


@pytest.mark.parametrize("name", ["apple-m1-ultra", "p100-pcie-16gb"])
def test_products_on_the_vector_units_are_lent_kernels_that_run_there(name: str) -> None:
    for rows in (1, 16, 4096):
        half, single = (rl.predict(rl.ops.gemm(rows, 1024, 1024, dtype=dtype), name) for dtype in ("fp16", "fp32"))
        assert lent(half) == lent(single) == ["fp32"]
        assert half.low < single.high
    assert lent(rl.predict(rl.ops.gemm(16, 1024, 1024, dtype="fp16"), "rtx-4090")) != ["fp32"]


@given(
    name=st.sampled_from(GPUS),
    backend=st.sampled_from((None, "cudnn", "flash2", "efficient", "triton", "vllm")),
    dtype=st.sampled_from(("bf16", "fp16", "fp8")),
    sizes=st.tuples(st.sampled_from((1, 64)), st.sampled_from((1, 12)), st.integers(2, 4096), st.sampled_from((64, 80, 128, 256))),
)  # fmt: skip
@law(60)
def test_a_mask_makes_no_attention_longer_unless_it_was_timed(
    name: str, backend: str | None, dtype: str, sizes: tuple[int, int, int, int]
) -> None:
    batch, heads, tokens, head = sizes
    try:
        full, causal = (
            rl.predict(
                rl.ops.attention(batch, heads, tokens, head, causal=causal, dtype=dtype), real(name), backend=backend
            )
            for causal in (False, True)
        )
    except rl.RidgelineError:  # a format that the machine lacks
        return
    masked = causal.expected[0]
    prepares = any(kernel.coefficients.get("prepare") for kernel in masked.kernels)  # which full ones do not do
    if masked.label != "calibrated" and not prepares:
        assert causal.time <= full.time * ROUNDING


# -- formats of 16 bits and siblings --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["b200-sxm", "mi300x", "rtx-4090", "a100-sxm-40gb", "l40s", "h20"])
@pytest.mark.parametrize("backend", [None, "vllm", "triton"])
@pytest.mark.parametrize(
    ("op", "sizes"),
    [
        ("gemm", {"m": 4095, "n": 4095, "k": 4095}),
        ("gemm", {"m": 4096, "n": 4096, "k": 4096}),
        ("attention", {"batch": 8, "heads": 32, "seq_q": 4096, "head_dim": 128}),
        ("attention", {"batch": 8, "heads": 32, "seq_q": 4096, "head_dim": 32}),
        (
            "attention",
            {"batch": 8, "heads": 32, "kv_heads": 8, "seq_q": 1, "seq_kv": 1024, "head_dim": 128, "kv": "int8"},
        ),
        ("attention_backward", {"batch": 8, "heads": 32, "seq_q": 4096, "head_dim": 128, "causal": True}),
    ],
)
def test_fp16_runs_the_kernels_of_bf16_where_both_are_lent(
    name: str, backend: str | None, op: str, sizes: dict[str, Any]
) -> None:
    there, here = (
        rl.predict(find(op)(**sizes, dtype=dtype), real(name), backend=backend) for dtype in ("bf16", "fp16")
    )
    for end in ("low", "time", "high"):
        assert getattr(here, end) == pytest.approx(getattr(there, end), rel=1e-6)


def test_fp16_on_a_gpu_without_bf16_products_keeps_the_matrix_units() -> None:
    assert rl.predict(rl.ops.gemm(4096, 4096, 4096, dtype="fp16"), "v100-sxm2-32gb").time < 3e-3


@pytest.mark.parametrize(
    ("timed", "sibling"), [("a100-sxm-80gb", "a100-sxm-40gb"), ("a100-sxm-80gb", "a100-pcie-40gb")]
)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("head", [96, 128, 192])
def test_a_sibling_with_less_bandwidth_decodes_no_faster(timed: str, sibling: str, dtype: str, head: int) -> None:
    """Wide heads were timed on an H200 alone, where decoding streams at 0.9 of the bandwidth, not at the 0.65 of an A100."""
    work = rl.ops.attention(64, 32, 1, head, seq_kv=32768, kv_heads=8, dtype=dtype)
    less, more = (rl.predict(work, real(name)) for name in (sibling, timed))
    assert less.time > 1.1 * more.time


# -- softmax ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["b200-sxm", "gb200", "h100-sxm", "h200-sxm", "mi300x"])
@pytest.mark.parametrize(("dtype", "head"), [("bf16", 16), ("bf16", 64), ("fp16", 32), ("fp8", 128), ("fp8", 64)])
def test_exponentials_take_no_larger_share_of_their_units_than_in_timed_kernels(
    name: str, dtype: str, head: int
) -> None:
    """A B200 has twice the matrix rate of an H200 and the same special-function rate."""
    sizes = {"batch": 16, "heads": 16, "seq_q": 4096, "head_dim": head}
    machine = real(name)
    rate = hardware(machine, dtype).special  # type: ignore[union-attr]
    for causal, pairs in ((False, 4096), (True, 4097 / 2)):
        time = rl.predict(rl.ops.attention(**sizes, causal=causal, dtype=dtype), machine).time
        assert float(time) > 16 * 16 * 4096 * pairs / (EXPONENTIAL_SHARE * rate)


def test_a_narrower_format_speeds_up_the_products_of_attention_and_not_its_softmax() -> None:
    """An exponential is one in fp32, whatever the format of the products."""
    wide, narrow = (
        rl.predict(rl.ops.attention(16, 16, 4096, 128, dtype=dtype), "h200-sxm") for dtype in ("bf16", "fp8")
    )
    assert 1.5 < wide.time / narrow.time < 1.9
    softmaxes = [made.expected[0].kernels[0].coefficients["softmax"] for made in (wide, narrow)]
    assert softmaxes[1] == pytest.approx(2 * softmaxes[0], rel=0.01)


# -- sizes that were not timed ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["h100-sxm", "h200-sxm", "l4", "mi300x"])
def test_sizes_below_the_timed_ones_take_no_less_than_a_launch_and_no_more_than_the_smallest(name: str) -> None:
    tiny = rl.predict(rl.ops.dot(n=1), name)
    (kernel,) = tiny.expected[0].kernels
    smallest = max(low for low, _ in kernel.selected.fitted.ranges.values())
    assert (
        tiny.high <= 1.02 * rl.predict(rl.ops.dot(n=smallest), name).high
    )  # timings nearby differ a little from cell to cell
    assert tiny.low >= 0.4 * kernel.coefficients["launch"]
    sweep = rl.predict(rl.ops.dot(n=np.array([1.0, 1e6, 1e11])), name)
    assert [sweep.low[0], sweep.high[0]] == pytest.approx([tiny.low, tiny.high])
    last = rl.predict(rl.ops.dot(n=1e11), name)
    assert [sweep.low[2], sweep.high[2]] == pytest.approx([last.low, last.high])


def test_small_products_may_take_longer_than_formulas_of_large_ones_say() -> None:
    """The H100 was timed in fp32 from 512 rows on. Far below, the upper end grows faster than the lower one, and than it does above."""
    at = rl.predict(rl.ops.gemm(np.array([1024, 128, 65536 * 8]), 1024, 4096, dtype="fp32"), "h100-sxm")
    above = at.high / at.time
    below = at.time / at.low
    assert above[1] > 1.2 * above[0]
    assert above[1] > above[2]
    assert above[1] > 1.05 * below[1]
    tall = rl.predict(rl.ops.gemm(128, 128, 65536, dtype="fp32"), "h100-sxm")
    assert tall.time < 450e-6  # 16 tiles of 32x32, of which each is split in two; with tiles of 64x64 it was 958 us


@pytest.mark.parametrize("k", [65535, 65536])
def test_a_board_timed_with_large_products_agrees_with_one_timed_with_small_ones_too(k: int) -> None:
    """Timings of large products do not tell the smallest tile or in how many parts k is split: 136 us aligned and 1.79 ms not."""
    large, small = (rl.predict(rl.ops.gemm(128, 128, k, dtype="fp32"), f"a100-pcie-{size}gb") for size in (80, 40))
    assert large.time == pytest.approx(small.time, rel=0.1)


def test_a_long_stream_is_known_as_well_as_the_longest_that_was_timed() -> None:
    """Twice the bytes take twice as long."""
    longest, longer = (rl.predict(rl.ops.add(n=n, dtype="bf16"), "l4") for n in (1e10, 1e13))
    assert longer.high / longer.time == pytest.approx(longest.high / longest.time, rel=0.5)


def test_heads_larger_than_any_library_takes_are_extrapolated() -> None:
    usual, huge = (rl.predict(rl.ops.attention(1, 8, 1024, head), "h200-sxm") for head in (int(MAX_HEAD), 1024))
    assert "extrapolated" not in str(usual.expected[0].confidence)
    assert "extrapolated up to 4.0x" in str(huge.expected[0].confidence)
    assert huge.high / huge.time > usual.high / usual.time


def test_machines_without_products_in_a_format_are_compared_by_an_op_that_has_none() -> None:
    machines = [real(name) for name in ("apple-m4", "v100-sxm2-32gb", "h100-sxm")]
    sizes = {"rows": 16, "cols": 4096, "dtype": "bf16"}
    rows = comparison(machines, "bf16", op=find("softmax"), values=sizes)
    assert [row.engine for row in rows.generations] == ["vector.fp32"] * 3
    assert [made.time for made in rows.predictions] == [
        rl.predict(rl.ops.softmax(**sizes), one).time for one in machines
    ]
    product = comparison(machines, "bf16", op=find("gemm"), values={"m": 8, "n": 8, "k": 8})
    assert [row.name for row in product.generations] == ["h100-sxm"]


@pytest.mark.parametrize("name", ["a100-sxm-80gb", "mi300x", "h100-sxm", "rtx-4090"])
def test_one_long_row_takes_no_longer_than_one_core_at_its_share_of_the_bandwidth(name: str) -> None:
    """With what a softmax reads again, and the launch."""
    machine = real(name)
    cores = next(machine.units[unit] for unit in ("sm", "cu") if unit in machine.units)
    row = rl.predict(rl.ops.softmax(rows=1, cols=131072, dtype="fp32"), machine)
    assert row.time < 2.5 * float(row.bytes) * cores / machine.main.bandwidth.stated + 5e-6


def test_products_that_were_timed_with_the_quantizing_of_their_activations_say_so() -> None:
    """Serving engines time a layer in fp8, whose activations come in 16 bits; on the H200 the product alone was timed."""
    alone, layer = (str(rl.predict(rl.ops.gemm(64, 1024, 1024, dtype="fp8"), name).expected[0].confidence) for name in ("h200-sxm", "h100-sxm"))  # fmt: skip
    assert "quantizing the activations" in layer
    assert "quantizing" not in alone


@pytest.mark.parametrize("name", ["h100-sxm", "a100-sxm-80gb"])
def test_aligned_timings_say_nothing_of_products_with_odd_rows(name: str) -> None:
    """All that was timed there is aligned; on an H200 a vocabulary of 50257 takes seven times as long as one of 50304."""
    odd, even = (rl.predict(rl.ops.gemm(4096, columns, 768), name) for columns in (50257, 50304))
    assert even.expected[0].label == "calibrated"
    assert odd.expected[0].label == "transferred"
    assert odd.time > 2 * even.time


@pytest.mark.parametrize("name", ["h100-sxm", "a100-pcie-80gb"])
def test_unaligned_products_in_tf32_take_no_timings_of_the_vector_units(name: str) -> None:
    """Those load any address alike; matrix units do not, and fp32 is all that was timed there."""
    assert lent(rl.predict(rl.ops.gemm(1093, 18631, 1141, dtype="tf32"), name)) == ["tf32"]


def test_few_units_for_fp64_do_not_slow_what_computes_nothing() -> None:
    few, many = (rl.predict(rl.ops.fill(n=1 << 24, dtype="fp64"), name) for name in ("b300-sxm", "b200-sxm"))
    assert few.time == pytest.approx(many.time, rel=0.05)


@pytest.mark.parametrize("name", ["v100-sxm2-16gb", "a100-sxm-80gb", "t4", "l40s", "h100-sxm", "rtx-5090", "mi300x"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_a_bias_costs_no_more_than_its_bytes_where_none_was_timed(name: str, dtype: str) -> None:
    """Layers with a bias were lent by the H200 and those without by others: a bias took 64 x 1024 x 1024 from 19.7 to 63.3 us on an A100."""
    for batch, features in ((64, 1024), (303, 704), (4096, 4096)):
        sizes = {"batch": batch, "in_features": features, "out_features": features, "dtype": dtype}
        without, biased = (
            rl.predict(find("linear")(**sizes, bias=bias), rl.machine(name)).expected[0] for bias in (False, True)
        )
        assert without.time <= biased.time * (1 + 1e-9)
        assert biased.time <= 1.1 * without.time


@pytest.mark.parametrize("name", ["l40s", "b200-sxm", "h100-sxm"])
@pytest.mark.parametrize("sides", [(8192, 8192), (256, 4096)])
def test_fp8_products_whose_timings_include_quantizing_all_do(name: str, sides: tuple[int, int]) -> None:
    """8192 x 8192 took an L40S 1.77 ms by 8208 and 2.57 ms by 8192: one library's timings include quantizing, another's do not."""
    m, side = sides
    k = np.array([side - 32, side - 16, side, side + 16])
    time = np.asarray(rl.predict(find("gemm")(m=m, n=side, k=k, dtype="fp8"), rl.machine(name)).expected[0].time)
    assert time.max() <= 1.1 * time.min()


def test_timings_that_include_rotating_keys_say_so() -> None:
    sizes = {"batch": 8, "heads": 16, "seq_q": 512, "head_dim": 64}
    causal, full = (
        rl.predict(find("attention")(**sizes, causal=causal), rl.machine("h100-sxm")).expected[0]
        for causal in (True, False)
    )
    assert "the timings include rotating queries and keys and writing the cache" in causal.basis
    assert "rotating" not in full.basis


@pytest.mark.parametrize("op", ["relu", "gemm"])
def test_nothing_was_timed_on_a_machine_of_another_bandwidth(op: str) -> None:
    sizes: dict[str, float] = {"n": 1e8} if op == "relu" else {"m": 1, "n": 28672, "k": 8192}
    machine = rl.machine("h200-sxm")
    timed, changed = (
        rl.predict(find(op)(**sizes), each).expected[0] for each in (machine, machine.with_figures(bandwidth="1 TB/s"))
    )
    assert (timed.label, changed.label) == ("calibrated", "transferred")
    assert changed.high / changed.time > timed.high / timed.time


@pytest.mark.parametrize("name", ["h200-sxm", "h100-sxm", "b200-sxm", "l40s"])
def test_another_bandwidth_of_memory_leaves_that_of_the_l2(name: str) -> None:
    """At a fifth of the bandwidth a product that memory hardly limits took an H200 554 us, 30 % of its roofline; 172 at the whole."""
    machine = rl.machine(name)
    slower = machine.with_figures(bandwidth=float(machine.main.bandwidth.stated or 0) / 5)
    asked = find("gemm")(m=4096, n=4096, k=4096, dtype="bf16")
    (before,), (after,) = (rl.predict(asked, each).expected for each in (machine, slower))
    memory = float(asked.footprint) / float(slower.main.bandwidth.stated or 1)
    assert before.time <= after.time <= before.time + memory


@pytest.mark.parametrize("name", ["l4", "t4", "v100-pcie-32gb", "a100-sxm-80gb", "mi100"])
@pytest.mark.parametrize("op", ["softmax", "layernorm"])
def test_rows_in_16_bits_take_no_longer_than_those_in_fp32_that_were_timed_nearer(name: str, op: str) -> None:
    """A softmax of 16384 x 4000 took an L4 3.73 ms in bf16 and 2.22 in fp32: one was lent by an H200, the other timed on an L4."""
    rows = np.unique(np.geomspace(4096, 16384, 50).round())
    halves, wide = (
        rl.predict(find(op)(rows=rows, cols=1024, dtype=dtype), real(name)).expected[0] for dtype in ("bf16", "fp32")
    )
    near = np.asarray(wide.distance) <= 1.0
    assert near.any()
    assert np.all(np.asarray(halves.time)[near] <= np.asarray(wide.time)[near] * ROUNDING)
    assert np.all(np.diff(halves.time) >= 0)


def test_the_interval_of_rows_in_16_bits_reaches_to_half_the_bytes() -> None:
    halves, wide = (
        rl.predict(rl.ops.softmax(rows=16384, cols=4000, dtype=dtype), real("l4")) for dtype in ("bf16", "fp32")
    )
    assert halves.time == pytest.approx(wide.time, rel=1e-9)
    assert halves.low == pytest.approx(wide.time / 2, rel=0.05)
    assert any(item.effect == "kernel of the same size in fp32" for item in halves.items)


def test_what_one_gpu_was_timed_at_in_both_formats_stays_as_it_is() -> None:
    """Eight long rows take an H200 longer in bf16 than in fp32, and so they do the machines that it lends both."""
    times = [
        rl.predict(rl.ops.rmsnorm(rows=8, cols=65536, dtype=dtype), real("h100-sxm")).time for dtype in ("bf16", "fp32")
    ]
    assert times[0] > 1.2 * times[1]


@pytest.mark.parametrize("name", ["rtx-4090", "rtx-3090", "rtx-5090", "h20"])
@pytest.mark.parametrize("rows", [1, 8])
def test_the_interval_of_few_rows_reaches_down_to_a_product_with_a_vector(name: str, rows: int) -> None:
    """One row on an RTX 4090 was 159 us [142-180], 73 % of its roofline, and the same matrix by a vector 128, 91 %."""
    few = rl.predict(find("gemm")(m=rows, n=14336, k=4096), real(name))
    vector = rl.predict(find("gemv")(m=14336, n=4096), real(name))
    assert few.low <= vector.time * ROUNDING
    assert few.low >= few.floor
    assert few.time > few.low
    named = rl.predict(find("gemm")(m=rows, n=14336, k=4096), real(name), backend="vllm")
    assert named.low > vector.time
