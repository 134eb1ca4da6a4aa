"""Questions over several dtypes, machines or sizes: precision sweep, generations, turning point, tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.bound import bound
from ..core.dtypes import TABLE
from ..core.dtypes import dtype as dtype_row
from ..core.errors import InputError, MissingFigure
from ..core.figure import KINDS
from ..core.machine import ANY, Machine
from ..core.roofline import critical_batch, feeding_level
from ..programs.ops import Op
from ..programs.ops.blas import gemm, linear
from .predict import Prediction, predict

FURTHEST = 2.0**40  # sizes beyond it are called never
ALIKE = 0.02  # growth factors closer than this gain alike


def default_dtype(machine: Machine) -> str:
    """The format a machine is usually judged by: 16-bit on matrix units, fp32 without them."""
    order = ("tensor.bf16", "tensor.fp16", "vector.fp32", "vector.fp64", "vector.bf16", "vector.fp16")
    for name in order:
        if name in machine.peaks and machine.peaks[name].value() is not None:
            return name.partition(".")[2]
    if ANY in machine.peaks:
        return "fp32"
    names = machine.dtypes()
    if not names:
        raise InputError(f"{machine.name} states no peak, so there is nothing to judge by; give --peak and --bandwidth")
    return names[0]


def usable_dtype(machine: Machine, wanted: str) -> str:
    """The wanted format where the machine computes in it, else the one it is usually judged by."""
    return wanted if _runs(machine, wanted) else default_dtype(machine)


def common_kind(machines: Sequence[Machine], dtype: str | None = None) -> str | None:
    """The best kind of ceilings that all machines have, so that like is held against like; None where there is none.

    A machine that was measured must not look slower than one of which only the datasheet is known.
    """
    for kind in KINDS:
        figures = []
        for machine in machines:
            try:
                figures.append(machine.peaks[machine.engine("matrix", dtype or default_dtype(machine))])
            except InputError:
                continue  # left out by whoever compares, with a note
            figures.append(machine.main.bandwidth)
        if figures and all(getattr(figure, kind) is not None for figure in figures):
            return kind
    return None


def layer_ridge(
    machine: Machine, fan_in: float, fan_out: float, dtype: str, weights: str | None = None, ceilings: str | None = None
) -> float:
    """The ridge that a linear layer crosses as its batch grows: against the memory as its own mix of accesses finds it.

    Where mixes were measured the mix depends on the batch and the batch on the ridge; a few turns settle both.
    """
    words = {"dtype": dtype} | ({"weights": weights} if weights else {})
    widths = dtype_row(dtype).bytes, dtype_row(weights or dtype).bytes

    def at(batch: float) -> float:
        return float(np.asarray(predict(linear(batch, fan_in, fan_out, **words), machine, ceilings).ridge))

    ridge = at(1.0)
    for _ in range(4):
        again = at(min(float(critical_batch(ridge, fan_in, fan_out, *widths)), FURTHEST))
        if again == ridge:
            break
        ridge = again
    return ridge


def turning_point(op: Op, values: dict[str, Any], machine: Machine, **options: Any) -> tuple[str, float] | None:
    """The smallest value of the op's growing size at which its arithmetic takes as long as its traffic.

    None when the op has no such size; infinite when it never happens. The intensity rises with that size, so
    halving the range finds it.
    """
    if not op.grows:
        return None
    given = {name: value for name, value in values.items() if name != op.grows}
    if any(isinstance(value, np.ndarray) for value in given.values()):
        return None
    if op.name == "attention" and given.get("seq_kv") is None:
        return None  # keys grow with the queries, so there is no single batch-like size
    if given.get("tile") is not None or given.get("traffic", "compulsory") != "compulsory":
        return None  # whole tiles make the intensity a saw-tooth, which crosses the ridge more than once

    def turned(size: float) -> bool:
        item = bound(op(**{**given, op.grows: size}), machine, **options)
        return bool(np.all(np.asarray(item.compute_time) >= np.asarray(item.memory_time)))

    most = min(FURTHEST, float(given["seq_kv"]) if op.name == "attention" else FURTHEST)
    if turned(1.0):
        return op.grows, 1.0
    if not turned(most):
        return op.grows, float("inf")
    low, high = 1.0, most
    while high - low > 1:
        middle = np.floor((low + high) / 2)
        low, high = (low, middle) if turned(middle) else (middle, high)
    return op.grows, float(high)


def precisions(
    op: Op, values: dict[str, Any], machine: Machine, dtypes: Sequence[str] | None = None, **options: Any
) -> list[tuple[str, Prediction]]:
    """The same op in every format the machine computes in (or in those asked for)."""
    asked = (
        [dtype_row(name).name for name in dtypes]
        if dtypes
        else [name for name, row in TABLE.items() if _runs(machine, row.name)]
    )
    if not asked:
        raise MissingFigure(f"{machine.name} has no peaks to compare precisions with")
    return [(name, predict(op(**{**values, "dtype": name}), machine, **options)) for name in asked]


def _runs(machine: Machine, name: str) -> bool:
    if name in ("int32", "fp8_e5m2"):
        return False  # storage of results; the second fp8 encoding runs at the first one's rate
    try:
        machine.engine("matrix", name)
    except MissingFigure:
        return False
    return True


@dataclass(frozen=True)
class Generation:
    machine: Machine
    engine: str
    peak: float
    bandwidth: float
    compute_growth: float | None
    bandwidth_growth: float | None

    @property
    def ridge(self) -> float:
        return self.peak / self.bandwidth

    @property
    def gains(self) -> str:
        """Which phase gains more from the step: more compute helps prefill, more bandwidth decode."""
        if self.compute_growth is None or self.bandwidth_growth is None:
            return ""
        ratio = self.compute_growth / self.bandwidth_growth
        if abs(ratio - 1) <= ALIKE:
            lead = "prefill" if ratio > 1 else "decode"
            return f"{lead}, by a little" if ratio != 1 else "both alike"
        return "prefill" if ratio > 1 else "decode"


def generations(machines: Sequence[Machine], dtype: str = "bf16", ceilings: str | None = None) -> list[Generation]:
    """Peak, bandwidth and ridge of each machine, and how both grew from the one before; one kind of ceilings for all."""
    ceilings = ceilings or common_kind(machines, dtype)
    found: list[Generation] = []
    for machine in machines:
        engine = machine.engine("matrix", dtype)
        peak, bandwidth = machine.peak(engine, ceilings).value, machine.bandwidth(ceilings=ceilings).value
        before = found[-1] if found else None
        found.append(
            Generation(
                machine,
                engine,
                peak,
                bandwidth,
                peak / before.peak if before else None,
                bandwidth / before.bandwidth if before else None,
            )
        )
    return found


@dataclass(frozen=True)
class Tile:
    side: int
    working_set: float
    level: str
    intensity: float
    fits_block: bool | None


def tiles(
    machine: Machine, n: float = 4096, dtype: str = "fp32", sides: Sequence[int] = (32, 64, 128, 256, 512)
) -> list[Tile]:
    """Square tiles of a product of n x n matrices: working set of three tiles, the level that holds it, intensity at the feeding level."""
    if any(side < 1 for side in sides):
        raise InputError("tiles must be at least 1 wide")
    limit = machine.limits["shared_per_block"].value() if "shared_per_block" in machine.limits else None
    width = dtype_row(dtype).bytes
    found = []
    for side in sides:
        held = 3 * side * side * width
        at = float(gemm(n, n, n, dtype=dtype, out_dtype=dtype, traffic="tiled", tile=side).intensity())
        level = feeding_level(machine, total_bytes=held * machine.levels[0].instances, block_bytes=held, reuse=2)
        found.append(Tile(side, held, level, at, None if limit is None else held <= limit))
    return found
