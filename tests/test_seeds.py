"""The values that are safe to pin, and the checks the requirements name, each computed by the library.

Ids are those of docs/coverage.md. Numbers on the right-hand side are the arithmetic written out where that is short.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import ridgeline as rl
from ridgeline.core.dtypes import dtype
from ridgeline.core.machine import two_number
from ridgeline.core.roofline import (
    achieved,
    attainable,
    batch_intensity,
    critical_batch,
    energy,
    energy_balance,
    feeding_level,
    intensity,
    largest_tile,
    ridge,
    roof,
    saturation,
)
from ridgeline.prediction import compare, locality, precisions, turning
from ridgeline.programs import ops
from ridgeline.render.tables.named import TABLES

A100, H100 = rl.machine("a100-sxm-80gb"), rl.machine("h100-sxm")
TERA = 1e12


def near(value: float, digits: float = 5e-4) -> object:
    return pytest.approx(value, rel=digits)


# -- peaks, bandwidths, ridges (S0-11..20, S0-24, S2-09, S2-11) -----------------------------------------------


@pytest.mark.parametrize(
    ("machine", "peak", "tera"),
    [
        ("a100-sxm-80gb", "vector.fp64", 108 * 32 * 2 * 1.41e-3),
        ("a100-sxm-80gb", "vector.fp32", 108 * 64 * 2 * 1.41e-3),
        ("a100-sxm-80gb", "tensor.tf32", 108 * 4 * 128 * 2 * 1.41e-3),
        ("a100-sxm-80gb", "tensor.fp16", 108 * 4 * 256 * 2 * 1.41e-3),
        ("a100-sxm-80gb", "tensor.int8", 108 * 4 * 512 * 2 * 1.41e-3),
        ("h100-sxm", "vector.fp32", 132 * 128 * 2 * 1.98e-3),
        ("h100-sxm", "vector.fp64", 132 * 64 * 2 * 1.98e-3),
        ("h100-sxm", "tensor.fp64", 132 * 128 * 2 * 1.98e-3),
        ("h100-sxm", "tensor.tf32", 132 * 4 * 256 * 2 * 1.83e-3),
        ("h100-sxm", "tensor.fp16", 132 * 4 * 512 * 2 * 1.83e-3),
        ("h100-sxm", "tensor.fp8", 132 * 4 * 1024 * 2 * 1.83e-3),
    ],
)
def test_derived_peaks_are_units_times_rate_times_clock(machine: str, peak: str, tera: float) -> None:
    assert rl.machine(machine).peak(peak, "derived").value / TERA == pytest.approx(tera, rel=1e-9)


def test_pinned_peaks() -> None:
    derived = [
        A100.peak(f"{name}", "derived").value / TERA
        for name in ("vector.fp64", "vector.fp32", "tensor.tf32", "tensor.fp16", "tensor.int8")
    ]
    assert derived == [near(9.746), near(19.492), near(155.9), near(311.9), near(623.7)]
    hopper = [
        H100.peak(name, "derived").value / TERA for name in ("vector.fp32", "tensor.tf32", "tensor.fp16", "tensor.fp8")
    ]
    assert hopper == [near(66.91), near(494.7), near(989.4), near(1978.9)]


def test_per_precision_multipliers_of_the_a100_tensor_peak() -> None:
    """S0-20: tf32 half, fp64 a sixteenth, int8 twice the fp16 rate."""
    fp16 = A100.peak("tensor.fp16", "derived").value
    ratios = [A100.peak(f"tensor.{name}", "derived").value / fp16 for name in ("bf16", "tf32", "fp64", "int8")]
    assert ratios == pytest.approx([1, 1 / 2, 1 / 16, 2])


def test_pinned_bandwidths() -> None:
    """S0-24: clock x bus x 2 / 8; a rate already doubled must not be doubled again."""
    assert (
        A100.bandwidth(ceilings="derived").value / 1e9
        == pytest.approx(1593e6 * 5120 * 2 / 8 / 1e9)
        == near(2039.04, 1e-6)
    )
    assert H100.bandwidth(ceilings="derived").value / 1e9 == near(3352.32, 1e-6)
    assert A100.bandwidth().value == 2.039e12
    assert H100.bandwidth().value == 3.35e12


def test_pinned_ridges() -> None:
    stated = [A100.ridge(name, ceilings="stated") for name in ("vector.fp32", "tensor.tf32", "tensor.fp16")]
    assert stated == [near(9.564), near(76.51), near(153.02)]
    assert [ridge(989e12, 3.35e12), ridge(1979e12, 3.35e12)] == [near(295.2), near(590.7)]
    assert ridge(19.5e12, 2.039e12) == near(19500 / 2039)


def test_dense_is_the_default_and_sparse_must_be_asked_for() -> None:
    """S2-10, E-01."""
    work = ops.gemm(8192, 8192, 8192, dtype="fp16")
    assert rl.predict(work, H100).limiter == "tensor.fp16"
    sparse = rl.predict(work, H100, engine="tensor-sparse")
    assert sparse.limiter == "tensor-sparse.fp16"
    assert rl.predict(work, H100).floor / sparse.floor == near(2.0, 1e-3)


def test_clocks_differ_per_engine_on_hopper() -> None:
    """S0-13, E-04."""
    assert H100.clocks["vector"].value() == 1.98e9
    assert H100.clocks["tensor"].value() == 1.83e9
    units = [A100.units[name] for name in ("sm", "fp32_lanes_per_sm", "fp64_lanes_per_sm", "tensor_cores_per_sm")]
    assert units == [108, 64, 32, 4]
    assert A100.clocks["vector"].value() == 1.41e9
    assert [H100.units[name] for name in ("sm", "fp32_lanes_per_sm", "fp64_lanes_per_sm", "tensor_cores_per_sm")] == [
        132,
        128,
        64,
        4,
    ]


def test_vector_half_precision_of_the_a100() -> None:
    """S0-17, E-06: 78 for fp16, 39 for bf16."""
    assert [A100.peak(f"vector.{name}").value / TERA for name in ("fp16", "bf16")] == [near(78, 5e-3), near(39, 5e-3)]


def test_h100_constants() -> None:
    """S2-09: shared memory, registers, L2; each with a source."""
    assert H100.limits["shared_per_sm"].value() == 228 * 1024
    assert H100.limits["registers_per_sm"].value() == 65536 * 4
    assert H100.level("l2").capacity.value() == 50 * 2**20
    assert all(figure.source for figure in H100.peaks.values())
    assert all(level.source for level in H100.levels)


def test_pcie_variant_is_its_own_record() -> None:
    """S2-29, E-14."""
    pcie = rl.machine("h100-pcie")
    assert pcie.units["sm"] == 114
    assert pcie.peak("tensor.bf16").value / TERA == near(756, 2e-3)
    assert pcie.bandwidth().value == 2.0e12
    assert pcie.ridge("tensor.bf16") == near(378, 2e-3)


def test_memory_hierarchy_of_the_a100() -> None:
    """S0-23, E-10: register file and L1 in total, 128 B per cycle and SM."""
    assert A100.limits["registers_per_sm"].value() * 108 == 27 * 2**20
    assert A100.level("l1").total == 20.25 * 2**20
    assert A100.level("l2").capacity.value() == 40 * 2**20
    assert A100.bandwidth("l1").value == near(19.49e12)
    assert A100.bandwidth("l2").value == near(5120 * 1.41e9)


# -- worked examples (S0-32, S0-34..36, S2-18, S2-19) ----------------------------------------------------------


def test_saxpy_on_an_a100() -> None:
    prediction = rl.predict(ops.axpy(1e8, dtype="fp32"), A100)
    assert (prediction.flops, prediction.bytes) == (2e8, 1.2e9)
    assert prediction.intensity == near(1 / 6)
    assert prediction.bound == "memory"
    assert prediction.attainable / 1e9 == near(339.83)
    assert prediction.share_of_peak * 100 == near(1.743)
    # the distance to the other roof: ridge over intensity
    assert prediction.ridge / prediction.intensity == near(19500 / 2039 * 6)


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (ops.gemm(128, 128, 128, dtype="fp32"), 21.333),
        (ops.gemm(4096, 4096, 4096, dtype="fp32"), 682.667),
        (ops.gemm(128, 128, 128, dtype="fp16"), 42.667),
        (ops.gemm(4096, 4096, 4096, dtype="fp16"), 1365.333),
        (ops.gemm(8192, 8192, 8192, dtype="fp16"), 2730.667),
        (ops.gemm(8192, 28672, 8192, dtype="fp16"), 3584.0),
        (ops.gemm(4096, 4096, 128, dtype="fp16"), 120.471),
        (ops.gemm(1, 28672, 8192, dtype="fp16"), 0.99984),
        (ops.gemm(1024, 1024, 1024, dtype="fp32"), 170.667),
        (ops.sum(1e8, dtype="fp32"), 0.25),
        (ops.add(1e8, dtype="fp32"), 1 / 12),
        (ops.dot(1e8, dtype="fp32"), 0.25),
        (ops.softmax(4096, 4096, dtype="fp32"), 0.625),
        (ops.softmax(4096, 4096, dtype="fp16"), 1.25),
        (ops.layernorm(65536, 4096, dtype="fp32"), 1.0),
        (ops.layernorm(65536, 4096, dtype="fp16"), 2.0),
        (ops.rmsnorm(65536, 4096, dtype="fp16"), 1.25),
        (ops.batchnorm(65536, 4096, dtype="fp16"), 2.0),
        (ops.relu(1e8, dtype="fp16"), 0.25),
        (ops.relu(1e8, dtype="fp32"), 0.125),
        (ops.gelu(1e8, dtype="fp16"), 3.0),
        (ops.silu(1e8, dtype="fp16"), 1.0),
        (ops.dropout(1e8, dtype="fp16"), 0.5),
        (ops.residual(1e8, dtype="fp16"), 1 / 6),
        (ops.conv2d(1, 64, 64, 56, 56, dtype="fp16"), 263.78),
        (ops.conv2d(32, 64, 64, 56, 56, dtype="fp16"), 287.18),
        (ops.conv2d(1, 512, 512, 7, 7, dtype="fp16"), 47.98),
        (ops.conv2d(32, 512, 512, 7, 7, dtype="fp16"), 933.03),
        (ops.attention(1, 96, 2048, 128, variant="standard", score_passes=2, dtype="fp16"), 114.89),
        (ops.attention(1, 96, 2048, 128, variant="standard", dtype="fp16"), 60.82),
        (ops.attention(1, 96, 2048, 128, dtype="fp16"), 1034.0),
        (ops.attention(1, 96, 8192, 128, variant="standard", score_passes=2, dtype="fp16"), 125.3),
        (ops.attention(1, 96, 8192, 128, dtype="fp16"), 4136),
        (ops.linear(512, 4096, 4096, dtype="fp32"), 204.8),
        (ops.linear(1, 8192, 28672, dtype="fp16", weights="int4"), 4.0),
        (ops.linear(1, 8192, 28672, dtype="fp16", weights="int4_g128"), 3.88),
    ],
)
def test_intensities(work: rl.Work, expected: float) -> None:
    assert work.intensity() == near(expected, 1e-3)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (1, 0.99951),
        (4, 3.992),
        (16, 15.88),
        (32, 31.508),
        (64, 62.06),
        (128, 120.47),
        (256, 227.56),
        (512, 409.6),
        (1024, 682.67),
    ],
)
def test_linear_layer_against_batch(batch: int, expected: float) -> None:
    """S0-66, S0-76, S0-78: counted and closed form agree."""
    counted = ops.linear(batch, 4096, 4096, dtype="fp16").intensity()
    assert counted == near(expected)
    assert batch_intensity(batch, 4096, 4096, 2.0) == pytest.approx(counted)


@pytest.mark.parametrize(
    ("shape", "regime", "microseconds"),
    [
        ((8192, 28672, 8192), "compute", 4988.6),
        ((4096, 4096, 128), "memory", 13.644),
        ((1, 28672, 8192), "memory", 179.81),
    ],
)
def test_reference_predictions(shape: tuple[int, int, int], regime: str, microseconds: float) -> None:
    """S2-18, S2-19: 2 bytes, 989 TFLOP/s, 3.35 TB/s, 78 %."""
    machine = two_number(989e12, 3.35e12)
    prediction = rl.predict(ops.gemm(*shape, dtype="fp16"), machine, efficiency=0.78)
    assert prediction.bound == regime
    assert prediction.time * 1e6 == near(microseconds)


def test_seven_billion_parameters_decoding_on_an_a100() -> None:
    """A batch-1 step reads 7e9 fp16 weights once: 14 GB over the bandwidth."""
    step = rl.predict(ops.linear(1, 1e5, 7e4, dtype="fp16"), A100)
    weights = step.work.moves["main", "W", "read"]
    assert weights / A100.bandwidth().value * 1e3 == near(6.866)
    assert A100.bandwidth().value / weights == near(145.64)


def test_common_table_lists_the_texts_operations() -> None:
    """S0-36."""
    rows = {row["op"]: row["intensity"] for row in TABLES["common"](A100).rows}
    expected = {
        "vector add": 0.0833,
        "axpy": 0.1667,
        "dot": 0.25,
        "sum": 0.25,
        "softmax": 0.625,
        "layernorm": 1.0,
        "gemm 128": 21.33,
        "gemm 4096": 682.7,
    }
    assert rows == {name: near(value, 2e-3) for name, value in expected.items()}


# -- BLAS and STREAM (S0-38, S0-61..64, S1-31) ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"), [("copy", 0), ("scal", 0.125), ("axpy", 1 / 6), ("dot", 0.25), ("nrm2", 0.5), ("asum", 0.25)]
)
def test_blas_one(name: str, expected: float) -> None:
    prediction = rl.predict(ops.find(name)(1e8, dtype="fp32"), A100)
    assert prediction.intensity == pytest.approx(expected, rel=1e-6)
    assert prediction.bound == "memory"
    if expected:
        assert 0.01 < prediction.share_of_peak < 0.055


def test_blas_two_limits() -> None:
    n = 16384
    found = [
        ops.gemv(n, n, dtype="fp32"),
        ops.symv(n, dtype="fp32"),
        ops.trmv(n, dtype="fp32"),
        ops.ger(n, n, dtype="fp32"),
    ]
    assert [work.intensity() for work in found] == [near(0.5), near(1.0), near(0.5), near(0.25)]


def test_gemv_stays_memory_bound() -> None:
    """S0-63."""
    sizes = np.array([1024, 4096, 16384])
    prediction = rl.predict(ops.gemv(sizes, sizes, dtype="fp32"), A100, launch=0)
    assert prediction.intensity == pytest.approx([0.499, 0.500, 0.500], abs=6e-4)
    assert set(prediction.bound) == {"memory"}


@pytest.mark.parametrize("n", [512, 4096])
def test_blas_three_grows_with_n(n: int) -> None:
    works = [
        ops.gemm(n, n, n, dtype="fp32"),
        ops.symm(n, n, dtype="fp32"),
        ops.syrk(n, n, dtype="fp32"),
        ops.trmm(n, n, dtype="fp32"),
    ]
    assert [work.intensity() / n for work in works] == [
        near(1 / 6, 3e-3),
        near(1 / 5, 3e-3),
        near(1 / 6, 3e-3),
        near(1 / 10, 3e-3),
    ]
    beta = [
        ops.gemm(n, n, n, dtype="fp32", beta=True),
        ops.symm(n, n, dtype="fp32", beta=True),
        ops.syrk(n, n, dtype="fp32", beta=True),
    ]
    assert [work.intensity() / n for work in beta] == [near(1 / 8, 3e-3), near(1 / 7, 3e-3), near(1 / 8, 3e-3)]


@pytest.mark.parametrize("m", [64, 1000, 8192])
def test_square_half_precision_gemm(m: int) -> None:
    """S1-31: 2M^3 flops, 6M^2 bytes, M/3; beta adds 2M^2 bytes."""
    plain, beta = ops.gemm(m, m, m, dtype="fp16"), ops.gemm(m, m, m, dtype="fp16", beta=True)
    assert (plain.flops, plain.bytes) == (2 * m**3, 6 * m**2)
    assert plain.intensity() == pytest.approx(m / 3)
    assert beta.bytes - plain.bytes == 2 * m**2


def test_stream_bytes_and_flops_per_element() -> None:
    found = [
        (work.bytes, work.flops)
        for work in (ops.stream_copy(1), ops.stream_scale(1), ops.stream_add(1), ops.stream_triad(1))
    ]
    assert found == [(16, 0), (16, 1), (24, 1), (24, 2)]
    allocating = [
        ops.find(f"stream_{name}")(1, write_allocate=True).bytes for name in ("copy", "scale", "add", "triad")
    ]
    assert allocating == [24, 24, 32, 32]


def test_gemm_crosses_the_fp32_ridge_of_an_a100_at_58() -> None:
    """S0-65."""
    n = np.arange(1, 200)
    above = ops.gemm(n, n, n, dtype="fp32").intensity() >= A100.ridge("vector.fp32")
    assert n[np.argmax(above)] == 58


# -- the law (S0-06, S0-09, S0-30, S0-47, S1-01, S1-09, S2-04, S2-34) --------------------------------------------


def test_intensity_of_no_bytes_is_an_error_and_of_no_flops_zero() -> None:
    assert intensity(0.0, 8.0) == 0
    with pytest.raises(rl.RidgelineError, match="positive number of bytes"):
        intensity(1.0, 0.0)


def test_roofline_builder_defaults() -> None:
    """S0-30: 1000 log-spaced samples from 0.01 to 1000."""
    at, rate = roof(19500e9, 2039e9)
    assert (len(at), at[0], at[-1]) == (1000, pytest.approx(0.01), pytest.approx(1000))
    assert np.allclose(np.diff(np.log(at)), np.log(at[1] / at[0]))
    assert rate.max() == 19500e9


def test_slopes_are_one_and_zero() -> None:
    """S0-10: doubling the bandwidth shifts the line and leaves its slope."""
    at = np.array([0.1, 1.0, 1000.0, 2000.0])
    for bandwidth in (2e12, 4e12):
        rate = attainable(at, 20e12, bandwidth)
        slopes = np.diff(np.log(rate)) / np.diff(np.log(at))
        assert slopes[[0, 2]] == pytest.approx([1, 0])


def test_hierarchical_bound_is_a_minimum() -> None:
    """S0-47, E-20: a level nearer the core can be the one that binds; rates are never added."""
    work = ops.gemm(4096, 4096, 4096, dtype="fp32", tile=16)
    prediction = rl.predict(work, A100)
    levels = {"l2": work.intensity("l2") * A100.bandwidth("l2").value, "hbm": work.intensity() * A100.bandwidth().value}
    assert prediction.attainable == pytest.approx(min(19.5e12, *levels.values()))
    assert work.intensity("l2") < work.intensity()


def test_resident_data_change_the_verdict_between_the_two_ridges() -> None:
    """S0-28: between peak/BW_L2 and peak/BW_HBM."""
    work = ops.gemm(64, 1e5, 64, dtype="fp16")
    assert A100.ridge("tensor.fp16", "l1") < work.intensity() < A100.ridge("tensor.fp16")
    assert rl.predict(work, A100).bound == "memory"
    assert rl.predict(work, A100, resident="l1").bound == "compute"


def test_point_at_the_ridge_is_balanced() -> None:
    """S0-02, E-21."""
    machine = two_number(100e12, 1e12)
    work = ops.gemm(300, 300, 300, dtype="fp16")  # intensity 100, the ridge
    prediction = rl.predict(work, machine)
    assert prediction.bound == "balanced"
    assert prediction.sure == pytest.approx(0.5)


def test_measured_point() -> None:
    """S1-09: 1e12 flop, 1e10 B, 5 ms: x = 100, y = 200 TFLOP/s."""
    point = achieved(1e12, 1e10, 5e-3, 312e12, 2.039e12)
    assert (point.intensity, point.rate) == (100, 200e12)


@pytest.mark.parametrize(("time", "verdict"), [(1.1, "memory"), (10.0, "underused")])
def test_third_answer_when_both_shares_are_low(time: float, verdict: str) -> None:
    """S1-01."""
    assert achieved(1.0, 1.0, time, 10.0, 1.0).verdict == verdict
    assert achieved(10.0, 0.1, 1.1, 10.0, 1.0).verdict == "compute"


def test_two_numbers_make_a_machine() -> None:
    """S1-02, S0-11."""
    machine = two_number(19500e9, 2039e9)
    assert machine.ridges() == {"peak": near(9.56, 1e-3)}


def test_small_kernels_are_overhead() -> None:
    """S2-04, S2-34: the threshold is a parameter."""
    work = ops.gemm(128, 128, 128, dtype="fp16")
    assert rl.predict(work, H100).bound == "overhead"
    assert rl.predict(work, H100, launch=0).bound != "overhead"
    decode = ops.gemm(1, 8192, 1024, dtype="fp16")
    assert rl.predict(decode, H100, launch=1e-6).bound == "memory"
    assert rl.predict(decode, H100, launch=8e-6).bound == "overhead"


def test_switching_precision_moves_the_ridge_and_can_flip_the_verdict() -> None:
    """S1-14: one layer, compute-bound in fp32, memory-bound in bf16."""
    sides = {name: rl.predict(ops.linear(64, 4096, 4096, dtype=name), A100).bound for name in ("fp32", "bf16")}
    assert sides == {"fp32": "compute", "bf16": "memory"}


def test_exact_gemm_rule_and_its_range() -> None:
    """S2-31, E-27: (2/d) / (1/M + 1/N + 1/K), between min/3 and min in fp16."""
    for m, n, k in [(256, 8192, 8192), (1000, 1000, 1000), (1, 5000, 70)]:
        counted = ops.gemm(m, n, k, dtype="fp16").intensity()
        assert counted == pytest.approx(1 / (1 / m + 1 / n + 1 / k))
        assert min(m, n, k) / 3 <= counted * (1 + 1e-12)
        assert counted < min(m, n, k)


# -- batch (S0-77..80, S2-02, S3-22) ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fan_in", "fan_out", "expected"),
    [
        (4096, 4096, 165),
        (4096, 16384, 160),
        (16384, 4096, 160),
        (768, 768, 252),
        (768, 3072, 202),
        (256, 256, math.inf),
    ],
)
def test_critical_batch(fan_in: int, fan_out: int, expected: float) -> None:
    assert critical_batch(152, fan_in, fan_out, 2.0) == expected


def test_saturation() -> None:
    assert saturation(4096, 4096, 2.0) == 2048
    assert batch_intensity(1e12, 4096, 4096, 2.0) == near(2048)


def test_batch_at_which_the_regime_changes() -> None:
    """S2-02, E-58: 8192 to 28672 on H100 needs B = 310."""
    machine = two_number(989e12, 3.35e12)
    turn = turning.turning_point(ops.find("gemm"), {"m": 1.0, "n": 28672.0, "k": 8192.0, "dtype": "fp16"}, machine)
    assert turn[:2] == ("m", 310)
    assert critical_batch(ridge(989e12, 3.35e12), 8192, 28672) == 310
    assert ops.linear(32, 8192, 28672, dtype="fp16").intensity() == near(31.8, 2e-3)


# -- locality (S0-49..52, S0-54) --------------------------------------------------------------------------------


def test_tiled_intensities() -> None:
    tiled = [
        ops.gemm(4096, 4096, 4096, dtype="fp32", traffic="tiled", tile=tile).intensity() for tile in (64, 128, 256)
    ]
    assert tiled == [near(15.88), near(31.51), near(62.06)]
    assert ops.gemm(4096, 4096, 4096, dtype="fp32", traffic="no_reuse").intensity() == near(0.25, 1e-3)
    both = ops.gemm(4096, 4096, 4096, dtype="fp32", tile=128)
    assert (both.intensity(), both.intensity("l2")) == (near(682.7), near(31.51))


def test_tile_sweep_working_sets() -> None:
    """S0-50, E-11: 128 x 128 fp32 does not fit an A100 block's shared memory."""
    found = locality.tiles(A100)
    assert [tile.working_set / 1024 for tile in found] == [12, 48, 192, 768, 3072]
    assert [tile.fits_block for tile in found] == [True, True, False, False, False]
    side, limit = largest_tile(A100, "fp32")
    assert limit == 163 * 1024
    assert 3 * side**2 * 4 <= limit < 3 * (side + 16) ** 2 * 4


def test_working_set_to_level() -> None:
    """S0-49, E-34: per block against per SM, the whole against L2, data used once stay at HBM."""
    assert feeding_level(A100, total_bytes=1e6, reuse=1) == "hbm"
    assert feeding_level(A100, total_bytes=10e6, block_bytes=48 * 1024, reuse=8) == "l1"
    assert feeding_level(A100, total_bytes=30e6, block_bytes=200 * 1024, reuse=8) == "l2"
    assert feeding_level(A100, total_bytes=1e9, block_bytes=1e6, reuse=8) == "hbm"


# -- precision (S0-18, S0-81, S0-82) ----------------------------------------------------------------------------


def test_tf32_is_stored_in_four_bytes_and_runs_on_the_tensor_units() -> None:
    assert dtype("tf32").bytes == 4
    assert "19 significant bits" in dtype("tf32").note
    assert A100.engine("matrix", "tf32") == "tensor.tf32"
    assert A100.engine("matrix", "fp32") == "vector.fp32"


def test_precision_sweep_of_one_layer() -> None:
    names = ["fp32", "tf32", "fp16", "int8", "int4"]
    layer = {"batch": 1, "in_features": 4096, "out_features": 4096}
    found = precisions.precision_sweep(ops.linear, layer, A100, names, launch=0).predictions
    assert [prediction.intensity for _, prediction in found] == [near(value, 3e-3) for value in (0.5, 0.5, 1, 2, 4)]
    assert [prediction.attainable / TERA for _, prediction in found] == [
        near(value, 3e-3) for value in (1.02, 1.02, 2.04, 4.08, 8.15)
    ]
    assert [prediction.ridge for _, prediction in found] == [
        near(value, 2e-3) for value in (9.564, 76.5, 153.0, 306.0, 612.1)
    ]
    assert {prediction.bound for _, prediction in found} == {"memory"}


def test_precision_table_of_the_a100() -> None:
    """S0-81: 9.7, 19.5, 156, 312, 312, 624, 1248."""
    names = ["vector.fp64", "vector.fp32", "tensor.tf32", "tensor.fp16", "tensor.bf16", "tensor.int8", "tensor.int4"]
    rows = {row["peak"]: row for row in TABLES["peaks"](A100).rows}
    assert [rows[name]["stated"] / TERA for name in names] == [9.7, 19.5, 156, 312, 312, 624, 1248]
    assert rows["tensor.fp16"]["ratio"] == near(16)
    assert rows["tensor.int8"]["ratio"] == near(32)


# -- generations (S3-20, S3-21, S3-26) --------------------------------------------------------------------------


def test_generations_and_which_phase_gains() -> None:
    """Dense figures; B200 at the 7.7 TB/s its boards report. A100 to H100 helps prefill, H100 to B200 decode by a little."""
    a100, h100, b200 = compare.generations([A100, H100, rl.machine("b200-sxm")], "bf16")
    assert [round(item.peak / TERA) for item in (a100, h100, b200)] == [312, 989, 2250]
    assert [item.ridge for item in (a100, h100, b200)] == [near(153, 2e-3), near(295, 2e-3), near(292, 2e-3)]
    assert h100.gains == "prefill"
    assert b200.gains == "decode, slightly"
    assert h100.compute_growth == near(989.4 / 312)


# -- energy -----------------------------------------------------------------------------------------------------


def test_energy_adds_up() -> None:
    """0.3 pJ per flop, 20 pJ per byte: balance, a GEMM and a softmax in GFLOPS/W; half the ceiling at the balance point."""
    per_flop, per_byte = 0.3e-12, 20e-12
    assert energy_balance(per_flop, per_byte) == near(66.67)
    for work, expected in [
        (ops.gemm(4096, 4096, 4096, dtype="fp16"), 3178.1),
        (ops.softmax(2048, 2048, dtype="fp16"), 61.35),
    ]:
        assert work.flops / energy(work.flops, work.bytes, per_flop, per_byte) / 1e9 == near(expected)
    balance = energy_balance(per_flop, per_byte)
    assert balance / energy(balance, 1.0, per_flop, per_byte) == near(0.5 / per_flop)
    assert energy(1.0, 1.0, per_flop, per_byte, static=100.0, time=2.0) == near(200)


# -- attention and decode (S2-27, S3-13, S3-18, S3-19, S2-32, S2-37) ---------------------------------------------


def test_decode_intensity_is_two_over_the_width() -> None:
    found = [ops.linear(1, 4096, 4096, dtype=name).intensity() for name in ("fp32", "fp16", "int8", "int4")]
    assert found == [near(value, 3e-3) for value in (0.5, 1.0, 2.0, 4.0)]


def test_prefill_and_decode_of_one_layer() -> None:
    prefill, decode = ops.linear(512, 4096, 4096, dtype="fp16"), ops.linear(1, 4096, 4096, dtype="fp16")
    assert (prefill.flops, prefill.bytes / 1e6, prefill.intensity()) == (near(1.718e10), near(41.9, 2e-3), near(409.6))
    assert (decode.flops, decode.bytes / 1e6, decode.intensity()) == (
        near(3.36e7, 2e-3),
        near(33.6, 2e-3),
        near(1.0, 1e-3),
    )


def test_scores_written_out_are_memory_bound_at_any_length() -> None:
    """E-45: QK^T in fp16 has intensity S D / (2 D + S), below D."""
    s = np.array([512, 2048, 8192, 1e6])
    work = ops.gemm(s, s, 128, dtype="fp16")
    assert work.intensity() == pytest.approx(s * 128 / (2 * 128 + s))
    assert set(rl.predict(work, A100, launch=0).bound) == {"memory"}


def test_typical_operations_table() -> None:
    """S2-32: GEMV 1, unary 0.25, binary 0.167, softmax 1.25, rmsnorm 1.25, unfused about 60, flash S/2."""
    values = [row["intensity"] for row in TABLES["typical"](H100).rows]
    assert values[1:6] == [near(1.0, 1e-3), near(0.25), near(1 / 6), near(1.25), near(1.25, 1e-3)]
    assert values[6] == near(62.7, 5e-3)
    assert values[7] == near(2068, 1e-3)
    assert len(values) == 8


def test_production_kernels_table() -> None:
    """S2-37 with corrected intensities."""
    values = [row["intensity"] for row in TABLES["kernels"](H100).rows]
    assert values[:4] == [near(2730.7), near(2730.7), near(2730.7), near(3.88, 1e-3)]
    assert values[4] > 1000
    assert values[5] == near(62.7, 5e-3)


def test_int4_weights_quarter_the_time_of_decoding() -> None:
    """S2-15: by bytes alone."""
    plain, packed = (
        rl.predict(ops.linear(1, 8192, 28672, dtype="fp16", weights=name), H100) for name in ("fp16", "int4")
    )
    assert plain.floor / packed.floor == near(4.0, 2e-3)
    assert packed.limiter == "hbm"


def test_vector_operations_are_judged_against_the_vector_roof() -> None:
    """E-63."""
    prediction = rl.predict(ops.softmax(16384, 4096, dtype="bf16"), H100)
    assert prediction.ridge == near(66.9 / 3.35)
