"""One op in several number formats: what each format does to intensity, ridge and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.dtypes import TABLE
from ..core.dtypes import dtype as dtype_row
from ..core.errors import InputError, MissingFigure
from ..core.machine import ANY, Machine
from ..programs.ops import Op, find
from .ceilings import known_peak
from .kernel_sets import PredictedKernel, kernels_of
from .predict import Prediction, predict

NOT_COMPARED = ("int1", "int32")  # peaks that no kernel people compare uses
STORAGE_ONLY = ("int32", "fp8_e5m2")  # results; the second fp8 encoding runs at the rate of the first
QUANTIZED = ("fp8", "int8")


@dataclass(frozen=True)
class PrecisionSweep:
    """An op on a machine, predicted in one format after the other."""

    op: Op
    values: dict[str, Any]
    machine: Machine
    predictions: tuple[tuple[str, Prediction], ...]


def precision_sweep(
    op: Op, values: dict[str, Any], machine: Machine, dtypes: Sequence[str] | None = None, **options: Any
) -> PrecisionSweep:
    """The same op in every format the machine computes in, or in those asked for."""
    asked = [dtype_row(name).name for name in dtypes or ()]
    names = asked or [name for name in TABLE if name not in STORAGE_ONLY and _computes_in(machine, name)]
    if not names:
        raise MissingFigure(f"{machine.name} has no peaks to compare precisions with")
    predictions = ((name, predict(op(**{**values, "dtype": name}), machine, **options)) for name in names)
    return PrecisionSweep(op, values, machine, tuple(predictions))


def _computes_in(machine: Machine, dtype: str) -> bool:
    try:
        machine.engine("matrix", dtype)
    except MissingFigure:
        return False
    return True


@dataclass(frozen=True)
class FormatSet:
    """The engines of every format of a machine, and one op predicted in each."""

    machine: Machine
    ceilings: str | None
    engines: tuple[str, ...]  # slowest first
    title: str
    kernels: tuple[tuple[str, PredictedKernel], ...] = ()
    notes: tuple[str, ...] = ()


def formats(
    machine: Machine,
    dtype: str | None = None,
    sweep: PrecisionSweep | None = None,
    ceilings: str | None = None,
) -> FormatSet:
    """A sweep over number formats under the roofs of a machine; without one, a linear layer in every format.

    `dtype` keeps one format of the default layer.
    """
    engines, left_out = _engines(machine, ceilings)
    if not engines:
        raise InputError(f"{machine.name} has no {ceilings or 'known'} peak to draw")
    if sweep is None:
        usable = [dtype] if dtype else [name for name in TABLE if _drawn(machine, name, engines)]
        values = {"batch": 16, "in_features": 4096, "out_features": 4096}
        sweep = precision_sweep(find("linear"), values, machine, usable, ceilings=ceilings)
    kernels = [(name, kernel) for name, prediction in sweep.predictions for kernel in kernels_of(prediction)]
    if len(kernels) > len(sweep.predictions):
        raise InputError("precisions draws one case of an op, not a sweep; give one value for each size")
    placed = tuple((name, kernel) for name, kernel in kernels if kernel.flops > 0 and kernel.bytes > 0)
    if not placed:
        raise InputError(f"{sweep.op.name} does no flops, so it has no place on the roofline")
    used = {kernel.engine for _, kernel in placed if kernel.engine}
    left_out = [name.partition(".")[2] for name in left_out if name not in used]
    notes = [f"not drawn: {', '.join(left_out)}"] if left_out else []
    engines = sorted({*engines, *used}, key=lambda name: (machine.peak(name, ceilings).value, name))
    title = f"{placed[0][1].name} in {len(placed)} formats on {machine.name}"
    return FormatSet(machine, ceilings, tuple(engines), title, placed, tuple(notes))


def _drawn(machine: Machine, dtype: str, engines: Sequence[str]) -> bool:
    if dtype in STORAGE_ONLY or dtype in NOT_COMPARED:
        return False
    return _computes_in(machine, dtype) and machine.engine("matrix", dtype) in engines


def _engines(machine: Machine, ceilings: str | None) -> tuple[list[str], list[str]]:
    """The engine of each format a machine computes in, slowest first, and those nobody compares kernels by."""
    if ANY in machine.peaks:
        return [ANY], []
    compared: list[str] = []
    left_out: list[str] = []
    for dtype in machine.dtypes():
        owners = (f"tensor.{dtype}", f"vector.{dtype}")
        engine = next((name for name in owners if known_peak(machine, name, ceilings) is not None), None)
        if engine is not None:
            (left_out if dtype in NOT_COMPARED else compared).append(engine)
    return sorted(compared, key=lambda name: machine.peak(name, ceilings).value), left_out
