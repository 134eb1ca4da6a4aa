"""Locality: tiles of a GEMM, the level they fit in, and one kernel fed from each memory level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.dtypes import dtype as dtype_row
from ..core.errors import InputError, MissingFigure
from ..core.machine import Machine
from ..core.roofline import attainable, feeding_level, largest_tile
from ..core.units import show
from ..core.work import Work
from ..programs.ops.blas import gemm
from .answer import Answer
from .ceilings import default_dtype, engine_for, known_levels, usable_dtype
from .kernel_sets import kernel_name

TILE_SIDES = (32, 64, 128, 256, 512)
SIDE = 4096  # of the square GEMM that is the default kernel
INNERMOST_TILE, MAX_DOUBLINGS = 16, 3


@dataclass(frozen=True)
class Tile:
    side: int
    working_set: float
    level: str
    intensity: float
    fits_block: bool | None


def tiles(machine: Machine, n: float = SIDE, dtype: str = "fp32") -> list[Tile]:
    """Square tiles of a product of n x n matrices: working set of three tiles, the level that holds it, intensity at the feeding level."""
    limit = machine.limits["shared_per_block"].value() if "shared_per_block" in machine.limits else None
    width = dtype_row(dtype).bytes
    rows = []
    for side in TILE_SIDES:
        working_set = 3 * side * side * width
        product = gemm(n, n, n, dtype=dtype, out_dtype=dtype, traffic="tiled", tile=side)
        total = working_set * machine.levels[0].instances
        level = feeding_level(machine, total_bytes=total, block_bytes=working_set, reuse=2)
        fits = None if limit is None else working_set <= limit
        rows.append(Tile(side, working_set, level, float(product.intensity()), fits))
    return rows


@dataclass(frozen=True)
class TiledRow:
    """A product with tiles of one side, or without: its traffic at the main memory and what that allows."""

    label: str
    traffic: float
    intensity: float
    bound: str
    attainable: float
    tile: Tile | None = None


@dataclass(frozen=True)
class Tiling:
    machine: Machine
    dtype: str
    n: float
    engine: str
    rows: tuple[TiledRow, ...]
    largest: str  # the largest tile of a block, or why it is not known


def tiling(machine: Machine, dtype: str | None = None, n: float = SIDE) -> Tiling:
    """No reuse, square tiles and perfect reuse of an n x n x n product, fed by the main memory."""
    dtype = dtype or usable_dtype(machine, "fp32")
    engine = machine.engine("matrix", dtype)
    peak, bandwidth = machine.peak(engine).value, machine.bandwidth().value

    def row(label: str, intensity: float, tile: Tile | None = None) -> TiledRow:
        bound = "memory" if intensity < peak / bandwidth else "compute"
        rate = float(attainable(intensity, peak, bandwidth))
        return TiledRow(label, 2 * n**3 / intensity, intensity, bound, rate, tile)

    rows = [row("none (no reuse)", float(gemm(n, n, n, dtype=dtype, traffic="no_reuse").intensity()))]
    rows += [row(f"{tile.side} x {tile.side}", tile.intensity, tile) for tile in tiles(machine, n, dtype)]
    rows.append(row("all (compulsory)", float(gemm(n, n, n, dtype=dtype).intensity())))
    try:
        side, limit = largest_tile(machine, dtype)
        room = f"{show(limit, 'B', binary=True)} of shared memory per block"
        largest = f"largest square tile with three in {room}: {side} x {side}"
    except MissingFigure as missing:
        largest = str(missing)
    return Tiling(machine, dtype, n, engine, tuple(rows), largest)


@dataclass(frozen=True)
class LevelTraffic:
    """The bytes of one kernel that cross one memory level."""

    level: str
    flops: float
    bytes: float
    assumed: bool = False  # nothing counts this level: what crosses the next level out crosses this one too

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes


@dataclass(frozen=True)
class Locality:
    """One kernel with its time and its traffic at every level with a bandwidth, outermost first."""

    machine: Machine
    kernel: str
    dtype: str
    engine: str
    ceilings: str | None
    flops: float
    time: float
    basis: str  # what the time is
    bound: str
    limiter: str
    levels: tuple[LevelTraffic, ...]
    without_bandwidth: tuple[str, ...] = ()


def locality(
    machine: Machine, dtype: str | None = None, work: Work | None = None, ceilings: str | None = None
) -> Locality:
    """One kernel and the bytes it moves at each level, at the rate that the slowest of its levels allows.

    The default kernel is a product in square tiles: each operand once from the outermost memory, small tiles
    (16, 32, 64, 128) from the levels between, innermost first.
    """
    dtype = dtype or (work.dtype if work is not None else "") or default_dtype(machine)
    engine = engine_for(machine, dtype, ceilings)
    names = known_levels(machine, ceilings)
    if len(names) < 2:
        raise InputError(f"{machine.name} has no cache with a known bandwidth; use the roofline chart")
    rows = []
    for name in names:
        flops, moved, assumed = _tiled(machine, name, dtype) if work is None else _moved(machine, work, name)
        rows.append(LevelTraffic(name, flops, moved, assumed))
    terms = {row.level: row.bytes / machine.bandwidth(row.level, ceilings).value for row in rows}
    terms[engine] = rows[0].flops / machine.peak(engine, ceilings).value
    limiter = max(terms, key=lambda name: terms[name])
    bound = "compute" if limiter == engine else "memory"
    kernel = f"tiled gemm {SIDE}³" if work is None else kernel_name(work)
    absent = tuple(level.name for level in machine.levels if level.name not in names)
    return Locality(
        machine, kernel, dtype, engine, ceilings, rows[0].flops, terms[limiter], "attainable time", bound, limiter, tuple(rows), absent,
    )  # fmt: skip


def locality_of(answer: Answer) -> Locality:
    """The traffic of one prediction at every level, at its expected time."""
    prediction, bound = answer.prediction, answer.bound
    if not answer.single:
        raise InputError(
            f"the levels are drawn for one case, and this sweep has {prediction.count:,}; give one value each"
        )
    flops, machine = float(np.ravel(prediction.flops)[0]), prediction.machine
    engine = str(np.ravel(np.asarray(bound.engine or ""))[0])
    rows = [LevelTraffic(row.level, flops, row.bytes, not row.counted) for row in answer.levels if row.bandwidth]
    time, limiter = float(np.ravel(prediction.time)[0]), str(np.ravel(np.asarray(prediction.limiter))[0])
    absent = tuple(row.level for row in answer.levels if not row.bandwidth)
    side = str(np.ravel(np.asarray(prediction.bound))[0])
    return Locality(
        machine, kernel_name(prediction.work), prediction.work.dtype, engine, bound.ceilings, flops, time, "expected time", side, limiter, tuple(rows[::-1]), absent,
    )  # fmt: skip


def _tiled(machine: Machine, level: str, dtype: str) -> tuple[float, float, bool]:
    """What a tiled product moves at a level."""
    if level == machine.main.name:
        product = gemm(SIDE, SIDE, SIDE, dtype=dtype)
    else:
        depth = [inner.name for inner in machine.levels].index(level)
        tile = INNERMOST_TILE * 2 ** min(MAX_DOUBLINGS, depth)
        product = gemm(SIDE, SIDE, SIDE, dtype=dtype, traffic="tiled", tile=tile)
    return float(product.flops), float(product.bytes), False


def _moved(machine: Machine, work: Work, level: str) -> tuple[float, float, bool]:
    """What a work states for a level, else its bytes at the main memory."""
    outermost = level == machine.main.name
    stated = 0.0 if outermost else work.bytes_at(level)
    if np.any(np.asarray(stated)):
        return float(work.flops), float(stated), False
    return float(work.flops), float(work.bytes), not outermost
