"""The same question on machines that are nearly the same: like is compared with like."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import ridgeline as rl
from ridgeline.core.work import Work
from ridgeline.prediction.inherited import at_same_share

real = cache(rl.machine)
CONVOLUTION = {"batch": 32, "c_in": 128, "c_out": 128, "h": 28, "w": 28, "kernel": 3, "dtype": "fp32"}
TWINS = [
    ("a100-sxm-80gb", "a100-pcie-80gb"),
    ("a100-sxm-40gb", "a100-pcie-40gb"),
    ("v100-sxm2-32gb", "v100-pcie-32gb"),
    ("v100-pcie-16gb", "v100-pcie-32gb"),
]


def seconds(work: Work, machine: str, **asked: Any) -> float:
    return float(rl.predict(work, real(machine), **asked).time)


@pytest.mark.parametrize(("untimed", "timed"), TWINS)
@pytest.mark.parametrize(
    "work",
    [
        rl.ops.softmax(rows=4096, cols=4096, dtype="fp32"),
        rl.ops.layernorm(rows=4096, cols=4096, dtype="fp32"),
        rl.ops.copy(n=2**27, dtype="fp32"),
        rl.ops.conv2d(**CONVOLUTION),
        rl.ops.conv2d(**{**CONVOLUTION, "kernel": 1}),
        rl.ops.conv2d(**{**CONVOLUTION, "groups": 128}),
        rl.ops.conv2d_wgrad(**CONVOLUTION),
    ],
    ids=["softmax", "layernorm", "copy", "3x3", "1x1", "depthwise", "wgrad"],
)
def test_a_twin_without_timings_takes_what_the_timed_one_does(work: Work, untimed: str, timed: str) -> None:
    """They differ by a quarter at most in clock and bandwidth; kernels of another architecture made it up to 3.5 times."""
    assert seconds(work, untimed) == pytest.approx(seconds(work, timed), rel=0.25)


def test_timings_of_plain_convolutions_do_not_serve_other_kinds() -> None:
    """3x3 kernels without groups, forward, are all that an A100 was timed with."""
    calibrated = rl.predict(rl.ops.conv2d(**CONVOLUTION), real("a100-pcie-80gb"))
    assert calibrated.expected[0].label == "calibrated"
    for other in ({"kernel": 1}, {"groups": 128}, {"stride": 2, "kernel": 1}, {"kernel": 7}):
        (kernel,) = rl.predict(rl.ops.conv2d(**{**CONVOLUTION, **other}), real("a100-pcie-80gb")).expected[0].kernels
        assert kernel.selected.fitted.borrowed
    (gradient,) = rl.predict(rl.ops.conv2d_wgrad(**CONVOLUTION), real("a100-pcie-80gb")).expected[0].kernels
    assert gradient.selected.fitted.borrowed


def test_a_convolution_that_beats_the_roofline_says_so() -> None:
    """Winograd multiplies less than the roofline counts; the floor is one product for each output and channel."""
    large = rl.ops.conv2d(**CONVOLUTION)
    fast = rl.predict(large, real("v100-pcie-32gb"))
    assert float(fast.floor) <= float(fast.low) <= float(fast.time) < float(fast.roofline)
    compute, memory = (float(part) for part in (fast.bounds[0].compute_time, fast.bounds[0].memory_time))
    assert float(fast.floor) == pytest.approx(max(compute / CONVOLUTION["kernel"] ** 2, memory))
    assert float(fast.efficiency) == pytest.approx(float(fast.roofline) / float(fast.time))
    assert float(fast.attainable) <= float(fast.bounds[0].peak) * (1 + 1e-9)
    assert "Winograd" in str(fast.expected[0].confidence)
    few = rl.predict(rl.ops.conv2d(**{**CONVOLUTION, "batch": np.array([1, 32])}), real("v100-pcie-32gb"))
    first, second = few.expected[0].confidence
    assert ("Winograd" in first, "Winograd" in second) == (False, True)
    assert np.all(np.asarray(few.floor) == np.where([True, False], few.roofline, float(fast.floor)))


@pytest.mark.parametrize("change", ["stated ceilings", "bandwidth", "fused", "twice"])
def test_what_is_made_of_such_a_convolution_obeys_the_laws(change: str) -> None:
    large, machine = rl.ops.conv2d(**CONVOLUTION), real("v100-pcie-32gb")
    alone = rl.predict(large, machine)
    if change == "stated ceilings":
        made = at_same_share(alone, machine, "stated")
        assert float(made.time) == pytest.approx(float(alone.time))
    elif change == "bandwidth":
        made = at_same_share(alone, machine)
        assert float(made.floor) == float(alone.floor)
    elif change == "fused":
        relu = rl.ops.relu(n=32 * 128 * 28 * 28, dtype="fp32")
        made = rl.predict(large.fuse(relu, "y", "x"), machine)
        assert float(alone.time) * 0.99 <= float(made.time) <= float(alone.time + rl.predict(relu, machine).time)
    else:
        made = rl.predict(large.repeat(2), machine)
        assert float(made.time) == pytest.approx(2 * float(alone.time))
    assert float(made.floor) <= float(made.low) <= float(made.time) <= float(made.high)


@pytest.mark.parametrize("name", ["h100-sxm", "b200-sxm"])
def test_depthwise_convolutions_in_fp16_are_lent_those_in_fp16(name: str) -> None:
    """cuDNN has a fast kernel for them in fp16 alone; others run the same kernels in both formats."""
    layer = {**CONVOLUTION, "c_in": 256, "c_out": 256, "h": 56, "w": 56}
    fast, slow = (
        seconds(rl.ops.conv2d(**{**layer, "groups": 256, "dtype": dtype}), name) for dtype in ("fp16", "bf16")
    )
    assert slow > 2 * fast
    plain = [seconds(rl.ops.conv2d(**{**layer, "dtype": dtype}), name) for dtype in ("fp16", "bf16")]
    assert plain[0] == pytest.approx(plain[1], rel=1e-3)  # their energies differ a little


@pytest.mark.parametrize("name", ["l4", "t4", "v100-pcie-32gb"])
def test_elementwise_kernels_reach_the_same_share_of_the_bandwidth_in_every_format(name: str) -> None:
    """fp32 alone was timed on them: the memory is the same one. Other ops were timed, so that the interval is as wide as ops differ."""
    wide, narrow = (rl.predict(rl.ops.copy(n=2**28, dtype=dtype), real(name)) for dtype in ("fp32", "fp16"))
    assert float(wide.time) == pytest.approx(2 * float(narrow.time), rel=0.02)
    for copy in (wide, narrow):
        assert copy.expected[0].label == "transferred"
        assert float(copy.high) > 1.09 * float(copy.time)


@pytest.mark.parametrize("name", ["h100-sxm", "mi300x", "mi355x"])
@pytest.mark.parametrize(
    "work",
    [
        rl.ops.topk(rows=64, cols=128256, k=32000),
        rl.ops.conv2d_dgrad(batch=32, c_in=128, c_out=128, h=28, w=28, kernel=3, dtype="int8"),
        rl.ops.linear(batch=8192, in_features=4096, out_features=4096, dtype="fp8", weights="int4_g128"),
    ],
    ids=["sizes", "format", "weights"],
)
def test_independent_doubts_do_not_multiply(work: Work, name: str) -> None:
    """Another machine, format and vendor, at sizes far beyond the timed ones: the interval spanned a factor of 11 to 64."""
    made = rl.predict(work, real(name))
    assert 2 < float(made.high / made.low) < 8


def test_timings_speak_for_sizes_near_to_theirs() -> None:
    """Beyond four times them a formula errs twice as much; bytes that stream take as long each, however many there are."""
    far = rl.predict(rl.ops.gemm(m=1, n=1, k=10**9), real("h200-sxm")).expected[0]
    assert far.label == "transferred"
    assert "extrapolated up to 12,111x" in str(far.confidence)
    near = rl.predict(rl.ops.gemm(m=np.array([4096, 2**22]), n=4096, k=4096), real("h200-sxm")).expected[0]
    assert list(near.label) == ["calibrated", "transferred"]
    assert rl.predict(rl.ops.copy(n=2**33), real("h200-sxm")).expected[0].label == "calibrated"


@pytest.mark.parametrize("name", ["b300-sxm", "gb300"])
def test_a_product_of_one_row_takes_no_tiles_of_matrix_units_that_are_cut(name: str) -> None:
    """int8 has a thirtieth of what the lender has there: a tile of 64 rows took 57 times the floor, and its loads as many products as they do on fast units."""
    row = rl.predict(rl.ops.gemm(m=1, n=4096, k=4096, dtype="int8"), real(name))
    launch = 2.5e-6
    assert float(row.time) < float(row.floor) / 0.8 + launch
    assert any(item.effect == "products with a vector" for item in row.expected[0].items())
    square = rl.predict(rl.ops.gemm(m=4096, n=4096, k=4096, dtype="int8"), real(name))
    assert float(square.time) < 1.3 * float(square.floor)


def test_a_product_of_one_row_in_fp64_takes_the_vector_units_where_the_others_are_no_faster() -> None:
    for name in ("b300-sxm", "l4"):
        row = rl.predict(rl.ops.gemm(m=1, n=4096, k=4096, dtype="fp64"), real(name))
        assert float(row.time) < 1.5 * float(row.floor) + 2.5e-6


def test_the_default_path_names_its_libraries() -> None:
    attention = rl.ops.attention(batch=1, heads=32, seq_q=1, seq_kv=4096, head_dim=128)
    for name, libraries in (
        ("h100-sxm", "SGLang, TensorRT-LLM and vLLM"),
        ("h200-sxm", "PyTorch"),
        ("a100-sxm-80gb", "SGLang and vLLM"),
    ):
        assert f" timings of {libraries})" in str(rl.predict(attention, real(name)).expected[0].confidence)


EXPERTS = {"experts": 128, "topk": 8, "hidden": 2048, "inter": 768}
FASTER = ("h100-pcie", "h100-sxm", "gh200", "h200-sxm", "b200-sxm")  # in bandwidth


@pytest.mark.parametrize("backend", [None, "vllm"])
@pytest.mark.parametrize("formats", [{}, {"dtype": "fp16"}, {"dtype": "fp8"}], ids=["bf16", "fp16", "fp8"])
def test_experts_are_never_slower_on_the_faster_machine(backend: str | None, formats: dict[str, str]) -> None:
    """The H200 had PyTorch's kernels, the H100 those of serving engines."""
    for tokens in (1, 32, 512, 8192):
        work = rl.ops.moe(tokens=tokens, **EXPERTS, **formats)
        times = [seconds(work, name, backend=backend) for name in FASTER]
        assert all(after < 1.03 * before for before, after in pairwise(times)), times


def test_an_answer_of_experts_names_its_library() -> None:
    work = rl.ops.moe(tokens=512, **EXPERTS)
    for name in FASTER:
        said = str(rl.predict(work, real(name)).expected[0].confidence)
        assert "timings of PyTorch)" in said
        assert "--backend vllm" in said
        assert "--backend" not in str(rl.predict(work, real(name), backend="vllm").expected[0].confidence)
    narrow = rl.predict(rl.ops.moe(tokens=512, **EXPERTS, weights="int4_g128"), real("h200-sxm")).expected[0]
    assert "no timings of PyTorch with int4 weights, vllm-0.24.0 used" in str(narrow.confidence)


def test_models_take_the_experts_of_their_software() -> None:
    for name in ("h100-sxm", "h200-sxm", "mi300x"):
        times = {
            software: float(rl.model("mixtral-8x7b", real(name), tp=2, software=software).decode_time)
            for software in ("vllm", "sglang", "tensorrt-llm", "gpt-fast")
        }
        assert len(set(times.values())) >= 3
        assert times["gpt-fast"] > times["vllm"]


@pytest.mark.parametrize("dtype", ["bf16", "fp8_e4m3", "tf32", "fp64"])
def test_a_product_longer_than_any_timed_runs_at_the_rate_under_lasting_load(dtype: str) -> None:
    """131072^3 in bf16 was predicted at the rate of a burst of 10 ms, which the power limit does not let last: 5.5 s, not 6.6."""
    machine = rl.machine("h200-sxm")
    peak = machine.peaks[machine.engine("matrix", dtype)]
    side = np.array([8192, 131072])
    made = rl.predict(rl.ops.gemm(m=side, n=side, k=side, dtype=dtype), machine)
    short, lasting = 2 * side.astype(float) ** 3 / np.asarray(made.time)
    assert peak.sustained is not None
    assert peak.measured is not None
    assert 0.9 * peak.sustained < lasting < 1.03 * peak.sustained
    assert short > 1.05 * peak.sustained
    assert np.all(np.asarray(made.low) <= np.asarray(made.time))
    burst = 2 * side[1] ** 3 / float(np.asarray(made.low)[1])
    assert burst > 0.95 * peak.measured  # when the limit sets in is not known
    twice = rl.predict(rl.ops.gemm(m=8192, n=8192, k=8192, dtype=dtype).repeat(1000), machine)
    assert float(twice.time) == pytest.approx(1000 * float(np.asarray(made.time)[0]))
