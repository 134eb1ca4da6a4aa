"""Machines of round numbers, work, observations and the recorded report: what several tests of gaps start from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ridgeline.core.figure import Level
from ridgeline.core.machine import Machine
from ridgeline.core.observation import Observation
from ridgeline.core.work import Work
from ridgeline.gaps.gap import Gap
from ridgeline.gaps.join import Pair
from ridgeline.machines.load import load
from ridgeline.prediction.predict import predict
from ridgeline.programs import ops
from strategies import figure

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


def observation(time: float, name: str = "step", **parts: Any) -> Observation:
    return Observation(name, name, (time,), **parts)


def gap_of(work: Work, machine: Machine, item: Observation, ceilings: str | None = None) -> Gap:
    return Gap.of(predict(work, machine, ceilings=ceilings), Pair((0,), (item,), "name"))
