"""Turning points: the size at which an op becomes compute-bound; linear layers by batch, GEMM by size, intensities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.bound import bound
from ..core.dtypes import dtype as dtype_row
from ..core.dtypes import result as stored_result
from ..core.errors import InputError
from ..core.machine import MAIN, Machine
from ..core.roofline import batch_intensity, saturation
from ..core.roofline import critical_batch as batch_at_ridge
from ..core.work import Work
from ..programs import ops
from ..programs.ops import Op
from ..programs.ops.blas import linear
from .ceilings import default_dtype, engine_for, known_peak
from .kernel_sets import PredictedKernel, kernel_name, kernels_of
from .predict import predict

MAX_SIZE = 2.0**40  # an op that is memory-bound up to here is called never compute-bound
PARTS = 1024  # that the range of sizes is divided into, again and again
MAX_REFINEMENTS = 4
GEMM_SIZES = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)


class TurningPoint(NamedTuple):
    """The smallest value of a size at which an op's arithmetic takes as long as its traffic; infinite where it never does.

    Both may be over before a kernel is launched: then the op is overhead-bound there, and compute-bound from `launched` on.
    """

    size: str
    value: float
    launched: float = 0.0

    @property
    def never(self) -> bool:
        return math.isinf(self.value)

    @property
    def at(self) -> float:
        """From which value on the op is compute-bound."""
        return max(self.value, self.launched)

    @property
    def text(self) -> str:
        """`compute-bound at batch >= 346`."""
        if self.never:
            return f"never compute-bound, however large {self.size}"
        ridge = f"AI crosses the ridge at {self.size} {self.value:.0f}" if self.value > 1 else "AI is above the ridge"
        if math.isinf(self.launched):
            return f"overhead-bound at every {self.size}; {ridge}"
        if self.launched > self.value:
            return f"compute-bound at {self.size} >= {self.launched:.0f}, overhead-bound below; {ridge}"
        return (
            f"compute-bound at every {self.size}"
            if self.value <= 1
            else f"compute-bound at {self.size} >= {self.value:.0f}"
        )


def turning_point(op: Op, values: dict[str, Any], machine: Machine, **options: Any) -> TurningPoint | None:
    """The smallest value of the op's growing size at which its arithmetic takes as long as its traffic, and longer than its launch.

    None when the op has no such size. The intensity rises with that size, so the value lies in one part of any division of
    the range, which is divided again: 1024 sizes are predicted in one call, and four calls cover all sizes.
    """
    if not op.grows:
        return None
    fixed = {name: value for name, value in values.items() if name != op.grows}
    if any(isinstance(value, np.ndarray) for value in fixed.values()):
        return None
    over_keys = "seq_kv" in op.params
    if over_keys and fixed.get("seq_kv") is None:
        return None  # keys grow with the queries, so there is no single batch-like size
    if fixed.get("tile") is not None or fixed.get("traffic", "compulsory") != "compulsory":
        return None  # whole tiles make the intensity a saw-tooth, which crosses the ridge more than once

    def compute_bound(sizes: NDArray[np.float64]) -> NDArray[np.bool_]:
        times = bound(op(**{**fixed, op.grows: sizes}), machine, **options)
        return np.broadcast_to(np.asarray(times.compute_time) >= np.asarray(times.memory_time), sizes.shape)

    least = 1.0
    if fixed.get("active") is not None:  # so many experts need tokens enough to reach them
        least = float(math.ceil(fixed["active"] / fixed["topk"]))
    most = min(MAX_SIZE, float(fixed["seq_kv"]) if over_keys else MAX_SIZE)
    turn = _first_size(compute_bound, least, most)
    if math.isinf(turn):
        return TurningPoint(op.grows, turn)
    single = predict(op(**{**fixed, op.grows: turn}), machine, **options).bounds
    if len(single) > 1 or np.all(single[0].bound != "overhead"):
        return TurningPoint(op.grows, turn)

    def launched(sizes: NDArray[np.float64]) -> NDArray[np.bool_]:
        times = bound(op(**{**fixed, op.grows: sizes}), machine, **options, launch=single[0].launch)
        return np.broadcast_to(np.asarray(times.bound) != "overhead", sizes.shape)

    return TurningPoint(op.grows, turn, _first_size(launched, turn, most))


def _first_size(holds: Callable[[NDArray[np.float64]], NDArray[np.bool_]], low: float, high: float) -> float:
    """The smallest integer between two at which something holds that holds from there on; infinite where it does not."""
    first, last = holds(np.array([low, high]))
    if first or not last:
        return low if first else math.inf
    while high - low > 1:
        inner = np.unique(np.floor(np.linspace(low, high, PARTS + 1)))[1:-1]
        ends = np.array([low, *inner, high])
        turned = 1 + int(np.argmax(np.append(holds(inner), True)))
        low, high = ends[turned - 1], ends[turned]
    return float(high)


@dataclass(frozen=True)
class CriticalBatch:
    """The batch at which a linear layer becomes compute-bound; infinite where its intensity saturates below the ridge."""

    in_features: float
    out_features: float
    dtype: str
    weights: str
    ridge: float
    of: str  # whose ridge it is
    ceilings: str  # the kind of them, nothing for a given ridge
    batch: float
    saturation: float
    launched: float = 0.0  # the first batch that takes longer than a launch, where that is a larger one
    DOCUMENT: ClassVar = (
        "in_features", "out_features", "dtype", "weights", "ridge", "of", "ceilings", "critical_batch", "never",
        "turns_compute_bound_at", "saturation",
    )  # fmt: skip

    @property
    def never(self) -> bool:
        return math.isinf(self.batch)

    @property
    def critical_batch(self) -> int | None:
        return None if self.never else int(self.batch)

    @property
    def turning(self) -> TurningPoint:
        return TurningPoint("batch", self.batch, self.launched)

    @property
    def turns_compute_bound_at(self) -> int | None:
        """The critical batch, or the one from which the layer takes longer than a launch."""
        return None if math.isinf(self.turning.at) else int(self.turning.at)


def critical_batch(
    in_features: float,
    out_features: float,
    machine: Machine | None = None,
    ridge: float | None = None,
    dtype: str = "bf16",
    weights: str | None = None,
    ceilings: str | None = None,
) -> CriticalBatch:
    """Against the ridge of a machine, or a given one."""
    arithmetic, stored, widths = dtype_row(dtype), dtype_row(weights or dtype), layer_widths(dtype, weights)
    sizes = linear.check({"batch": 1, "in_features": in_features, "out_features": out_features})
    fan_in, fan_out = sizes["in_features"], sizes["out_features"]
    if machine is not None:
        engine = machine.engine("matrix", arithmetic.name)
        ridge = layer_ridge(machine, fan_in, fan_out, arithmetic.name, weights, ceilings)
        peak, level = machine.peak(engine, ceilings), machine.bandwidth(MAIN, ceilings)
        mix = machine.mix_at(MAIN, peak.value / ridge, ceilings)
        of = f"{engine}, {machine.main.name}{f' {mix} bandwidth' if mix else ''} of {machine.name}"
        kinds = "+".join(sorted({peak.kind, level.kind}))
    else:
        of, kinds = "given by the caller", ""
    if ridge is None or ridge <= 0:
        raise InputError(f"a ridge must be positive, got {ridge}; give it in FLOP/B, or name a machine")
    batch = batch_at_ridge(ridge, fan_in, fan_out, *widths)
    limit = float(saturation(fan_in, fan_out, widths[0], widths[2]))
    launched = 0.0
    if machine is not None and math.isfinite(batch):
        formats = {"dtype": dtype} | ({"weights": weights} if weights else {})
        values = {"in_features": fan_in, "out_features": fan_out, **formats}
        turn = turning_point(linear, values, machine, ceilings=ceilings)
        launched = 0.0 if turn is None else turn.launched
    return CriticalBatch(fan_in, fan_out, arithmetic.name, stored.name, ridge, of, kinds, float(batch), limit, launched)


def layer_widths(dtype: str, weights: str | None = None) -> tuple[float, float, float]:
    """Bytes of an activation, a weight and a result of a linear layer: products of 8 bits are stored wider."""
    return dtype_row(dtype).bytes, dtype_row(weights or dtype).bytes, stored_result(dtype).bytes


def layer_ridge(
    machine: Machine, fan_in: float, fan_out: float, dtype: str, weights: str | None = None, ceilings: str | None = None
) -> float:
    """The ridge that a linear layer crosses as its batch grows, against the memory bandwidth of its own access mix.

    Where mixes were measured, the mix depends on the batch and the batch on the ridge; a few iterations find both.
    """
    formats = {"dtype": dtype} | ({"weights": weights} if weights else {})
    widths = layer_widths(dtype, weights)

    def ridge_at(batch: float) -> float:
        return float(np.asarray(predict(linear(batch, fan_in, fan_out, **formats), machine, ceilings).ridge))

    ridge = ridge_at(1.0)
    for _ in range(MAX_REFINEMENTS):
        refined = ridge_at(min(float(batch_at_ridge(ridge, fan_in, fan_out, *widths)), MAX_SIZE))
        if refined == ridge:
            break
        ridge = refined
    return ridge


@dataclass(frozen=True)
class BatchSweep:
    """Intensity of a linear layer against its batch, the ridge it is held against and the limit it approaches."""

    machine: Machine
    engine: str
    critical: CriticalBatch
    ceilings: str | None
    max_batch: int
    weights: str | None

    def intensity(self, batch: Any) -> Any:
        layer = self.critical
        return batch_intensity(batch, layer.in_features, layer.out_features, *layer_widths(layer.dtype, layer.weights))


def batch_sweep(
    machine: Machine,
    dtype: str | None = None,
    in_features: int = 4096,
    out_features: int = 4096,
    weights: str | None = None,
    max_batch: int = 16384,
    ceilings: str | None = None,
) -> BatchSweep:
    arithmetic = dtype or default_dtype(machine)
    engine = engine_for(machine, arithmetic, ceilings)
    layer = critical_batch(in_features, out_features, machine, None, arithmetic, weights, ceilings)
    return BatchSweep(machine, engine, layer, ceilings, max_batch, weights)


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
            notes.append(f"{name} has no flops: AI 0")
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
