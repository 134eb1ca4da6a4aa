"""The main job, `ridgeline run`: measure this machine, predict a handful of kernels, seal, run them, reconcile."""

from __future__ import annotations

from .job import Bench, Outcome, Progress, Workload, job

__all__ = ["Bench", "Outcome", "Progress", "Workload", "bench_of", "job"]


def bench_of(device: str | None = None) -> Bench:
    """The device to run on: the one asked for, else the GPU where there is one and torch is installed, else the CPU."""
    from . import cpu, cuda

    if device == "cuda" or (device is None and cuda.available()):
        return cuda.CudaBench()
    return cpu.CpuBench()
