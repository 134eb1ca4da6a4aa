"""Scales: intensities on one line, and the rate of GEMM against its size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.machine import MAIN, Machine
from ..core.work import Work
from ..programs import ops
from .ceilings import default_dtype, engine_for, known_peak
from .kernel_sets import PredictedKernel, kernel_name, kernels_of
from .predict import predict

GEMM_SIZES = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)


@dataclass(frozen=True)
class Intensity:
    name: str
    dtype: str
    value: float


@dataclass(frozen=True)
class IntensityScale:
    """Intensities of some ops, and the ridges of a machine, that of `dtype` first."""

    machine: Machine
    dtype: str
    ceilings: str | None
    intensities: tuple[Intensity, ...]
    ridges: dict[str, float]
    notes: tuple[str, ...]


def intensity_scale(
    machine: Machine, dtype: str | None = None, works: Iterable[Work] | None = None, ceilings: str | None = None
) -> IntensityScale:
    """The works given, else vector add, dot product and a GEMM in fp32."""
    dtype = dtype or default_dtype(machine)
    if works is None:
        size = 2**26
        named = {
            "vector add": ops.add(n=size, dtype="fp32"),
            "dot product": ops.dot(n=size, dtype="fp32"),
            "gemm 1024³": ops.gemm(m=1024, n=1024, k=1024, dtype="fp32"),
        }
        pairs, notes = list(named.items()), ["ops in fp32"]
    else:
        pairs, notes = [(kernel_name(work), work) for work in works], []
    intensities = []
    for name, work in pairs:
        value = float(np.ravel(np.asarray(work.intensity()))[0])
        if value > 0:
            intensities.append(Intensity(name, work.dtype, value))
        else:
            notes.append(f"{name} does no flops: its intensity is 0")
    engines = [engine_for(machine, dtype, ceilings)]
    engines += ["vector.fp32"] if known_peak(machine, "vector.fp32", ceilings) is not None else []
    ridges = {engine: machine.ridge(engine, MAIN, ceilings) for engine in engines}
    return IntensityScale(machine, dtype, ceilings, tuple(intensities), ridges, tuple(notes))


@dataclass(frozen=True)
class SizeSweep:
    """A square GEMM at several sizes."""

    machine: Machine
    dtype: str
    ceilings: str | None
    engine: str
    sizes: tuple[int, ...]
    kernels: tuple[PredictedKernel, ...]


def gemm_sizes(
    machine: Machine, dtype: str | None = None, sizes: Sequence[int] = GEMM_SIZES, ceilings: str | None = None
) -> SizeSweep:
    dtype = dtype or default_dtype(machine)
    engine = engine_for(machine, dtype, ceilings)
    side = np.asarray(sizes, dtype=np.float64)
    prediction = predict(ops.gemm(m=side, n=side, k=side, dtype=dtype), machine, ceilings=ceilings)
    return SizeSweep(machine, dtype, ceilings, engine, tuple(sizes), tuple(kernels_of(prediction)))
