"""The simple predictor of a matrix product: one peak, one bandwidth, one efficiency; no machine, no kernel families.

    AI = 2 M N K / ((M K + K N + M N) dtype_bytes)        time = flops / (attainable(AI) x realistic_eff)

Good for thirty seconds of mental arithmetic. `predict` with a machine is the better answer: it knows tiles, waves and
what kernels were timed to reach.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError, quoted
from ..core.machine import positive
from ..core.roofline import attainable, intensity, label, ridge, scalar_or_array
from ..core.work import Array

EFFICIENCY = 0.78  # the share of a ceiling that tuned kernels reach, where nothing better is known
TUNED_BAND = (0.65, 0.85)  # the range of that share among tuned kernels
OVERHEAD_US = 8.0  # a shorter kernel is mostly launch
REGIMES = ("compute", "HBM", "overhead")
TERA = 1e9 * 1e3


class SimplePrediction(NamedTuple):
    """Arithmetic intensity in FLOP/B, `compute`, `HBM` or `overhead`, and microseconds."""

    ai: Array
    bound: str | NDArray[np.str_]
    time_us: Array


def predict_matmul(
    M: Array,  # noqa: N803 (upper case, as the product is written)
    N: Array,  # noqa: N803
    K: Array,  # noqa: N803
    dtype_bytes: float = 2,
    peak_tflops: float = 989,
    hbm_tbps: float = 3.35,
    realistic_eff: Array = EFFICIENCY,
) -> SimplePrediction:
    """C[M,N] = A[M,K] B[K,N] on an H100 SXM in fp16, or by other figures; arrays welcome.

    Every matrix moves once. Above the ridge the product is compute-bound, below it bound by the memory; a time under
    8 us is called overhead and stays as it is. `realistic_eff` is the share of the ceiling that is reached:
    `ridgeline ledger efficiency` gives the one of your own kernels.
    """
    given = {"M": M, "N": N, "K": K, "dtype_bytes": dtype_bytes, "peak_tflops": peak_tflops, "hbm_tbps": hbm_tbps}
    sizes = {name: _numbers(name, value) for name, value in given.items()}
    for name, values in sizes.items():
        if not values.size:
            raise InputError(f"{name} must be a positive, finite number, got no value")
        positive(name, float(values.min()))
        positive(name, float(values.max()))
    efficiency = _numbers("realistic_eff", realistic_eff)
    try:
        np.broadcast_shapes(efficiency.shape, *(values.shape for values in sizes.values()))
    except ValueError as error:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in sizes.items() if values.ndim)
        raise InputError(f"arrays must have shapes that go together, got {shapes}") from error
    if not np.all((efficiency > 0) & (efficiency <= 1)):
        raise InputError(f"realistic_eff must lie in (0, 1], got {realistic_eff}")
    m, n, k = sizes["M"], sizes["N"], sizes["K"]
    peak, bandwidth = peak_tflops * TERA, hbm_tbps * TERA
    flops, moved = 2 * m * n * k, (m * k + k * n + m * n) * dtype_bytes
    at = np.asarray(intensity(flops, moved))
    time = np.asarray(flops / (attainable(at, peak, bandwidth) * efficiency)) * 1e6
    side = np.where(at > ridge(peak, bandwidth), 0, 1)
    return SimplePrediction(
        scalar_or_array(at), label(np.where(time < OVERHEAD_US, 2, side), REGIMES), scalar_or_array(time)
    )


def _numbers(name: str, value: Array) -> NDArray[np.float64]:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a number or an array of numbers, got {quoted(value)}") from error


def efficiency_warning(efficiency: float | None) -> str:
    """That a given efficiency is not one of tuned kernels; nothing where it is, or where none was given."""
    low, high = TUNED_BAND
    if efficiency is None or low <= efficiency <= high:
        return ""
    usual = f"outside {low} to {high}, the range of tuned kernels"
    return (
        f"efficiency {efficiency:.15g} is {usual}: `ridgeline ledger efficiency` gives the one of settled predictions"
    )
