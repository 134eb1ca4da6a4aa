"""One op in several number formats: what each format does to intensity, ridge and time, and what quantizing brings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.dtypes import TABLE
from ..core.dtypes import dtype as dtype_row
from ..core.errors import InputError, MissingFigure
from ..core.machine import ANY, Machine
from ..core.work import Work
from ..programs.ops import Op
from ..programs.ops.blas import linear
from .ceilings import default_dtype, known_peak
from .kernel_sets import PredictedKernel, kernel_name, predict_set
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
class Quantization:
    """The engines of every format of a machine, and one kernel before and after it is quantized where two formats allow it."""

    machine: Machine
    ceilings: str | None
    engines: tuple[str, ...]  # slowest first
    left_out: tuple[str, ...]
    dtype: str
    to: str | None = None
    kernel: str = ""
    before: PredictedKernel | None = None
    after: PredictedKernel | None = None
    notes: tuple[str, ...] = ()


def quantization(
    machine: Machine,
    dtype: str | None = None,
    work: Callable[[str], Work] | None = None,
    to: str | None = None,
    ceilings: str | None = None,
) -> Quantization:
    """A kernel in `dtype` and in `to`; `work` makes it in a format."""
    engines, left_out = _engines(machine, ceilings)
    if not engines:
        raise InputError(f"{machine.name} has no {ceilings or 'known'} peak to draw")
    make = work or (lambda name: linear(batch=16, in_features=4096, out_features=4096, dtype=name))
    dtype = dtype or default_dtype(machine)
    known = [engine.partition(".")[2] for engine in engines]
    to = to or next((name for name in QUANTIZED if name in known and name != dtype), None)
    study = Quantization(machine, ceilings, tuple(engines), tuple(left_out), dtype, to)
    if to is None or ANY in engines:
        return study
    works = (make(dtype), make(to))
    pair = predict_set(machine, (("", item) for item in works), ceilings=ceilings)
    study = replace(study, kernel=kernel_name(works[0]), notes=pair.notes)
    if len(pair.entries) < 2:
        return study
    named = zip(pair.kernels, (dtype, to), strict=True)
    # their expected time is set to the floor: a change of format moves the ceilings, and nothing else is compared
    before, after = (
        replace(kernel, name=f"{kernel.name.partition(' ')[0]} {name}", time=kernel.floor) for kernel, name in named
    )
    return replace(study, before=before, after=after)


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
