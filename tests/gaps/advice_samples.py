"""Kernels as a profiler counted them, nothing busy and nothing odd unless a test says so."""

from __future__ import annotations

from typing import Any

from gap_samples import H200
from gap_samples import gap_of as gap_on

from ridgeline.core.observation import Observation
from ridgeline.core.work import Work
from ridgeline.gaps.advice import Advice, advise
from ridgeline.gaps.gap import Gap
from ridgeline.prediction.predict import predict
from ridgeline.programs import ops

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


def profiled(time: float, name: str = "step", flops: float = 0.0, moved: float = 0.0, **parts: Any) -> Observation:
    engine = parts.pop("engine", "vector.fp32")
    levels = parts.pop("bytes", {})
    counters = {**QUIET, **parts.pop("counters", {})}
    zero = {"vector.fp32": 0.0, "tensor.bf16": 0.0, "tensor.tf32": 0.0}
    return Observation(
        name, name, (time,), conditions=CLOCK, flops={**zero, engine: flops}, bytes={"hbm": moved, **levels},
        counters=counters, kernel=parts.pop("kernel", "kernel"), **parts,
    )  # fmt: skip


def gap_of(work: Work, item: Observation) -> Gap:
    return gap_on(work, H200, item)


def top(gap: Gap) -> Advice:
    return advise(gap)[0]


def launch(work: Work) -> float:
    return float(sum(item.seconds for item in predict(work, H200).items if item.kind == "launch"))


def achievable(work: Work) -> float:
    """What a kernel without the fault takes: as expected, or 90 % of the measured roof and a launch."""
    advice = predict(work, H200)
    return min(float(advice.time), float(advice.floor) / 0.9 + launch(work))
