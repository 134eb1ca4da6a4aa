"""Tables people ask for by name: built from the ops and a machine, never typed in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...core.dtypes import dtype as dtype_row
from ...core.errors import MissingFigure
from ...core.machine import Machine
from ...core.roofline import attainable, batch_intensity, critical_batch, largest_tile, saturation
from ...core.units import show
from ...core.work import Work
from ...gaps import rules
from ...prediction import compare
from ...prediction.predict import Prediction, predict
from ...programs import ops
from ..table import Column, Table

VERDICT = (
    Column("op"),
    Column("flops", "FLOPs", "flop"),
    Column("bytes", "bytes", "B"),
    Column("intensity", "FLOP/B"),
    Column("ridge", "ridge"),
    Column("bound", "bound"),
    Column("limiter", "limiter"),
    Column("attainable", "attainable", "flop/s"),
    Column("floor", "floor", "s"),
    Column("time", "time", "s"),
)


def verdict_row(label: str, prediction: Prediction) -> dict[str, Any]:
    row = next(prediction.rows())
    return {**row, "op": label, "floor": row["floor_us"] / 1e6, "time": row["time_us"] / 1e6}


def _table(title: str, machine: Machine, works: Iterable[tuple[str, Work]], notes: tuple[str, ...] = ()) -> Table:
    rows, missing = [], []
    for label, work in works:
        try:
            rows.append(verdict_row(label, predict(work, machine)))
        except MissingFigure as error:
            missing.append(f"{label} left out: {error}")
    return Table(title, VERDICT, rows, (*notes, *missing))


def common(machine: Machine, dtype: str | None = None) -> Table:
    """Vector add, axpy, dot, sum, softmax, layernorm and two GEMMs, as the texts list them."""
    dtype = dtype or compare.usable_dtype(machine, "fp32")
    n, rows = 1e8, 8192.0
    works = [
        ("vector add", ops.add(n, dtype=dtype)),
        ("axpy", ops.axpy(n, dtype=dtype)),
        ("dot", ops.dot(n, dtype=dtype)),
        ("sum", ops.sum(n, dtype=dtype)),
        ("softmax", ops.softmax(rows, rows, dtype=dtype)),
        ("layernorm", ops.layernorm(rows, rows, dtype=dtype)),
        ("gemm 128", ops.gemm(128, 128, 128, dtype=dtype)),
        ("gemm 4096", ops.gemm(4096, 4096, 4096, dtype=dtype)),
    ]
    return _table(f"common operations in {dtype} on {machine.name}", machine, works)


def blas(machine: Machine, dtype: str | None = None) -> Table:
    """BLAS levels 1, 2 and 3."""
    dtype = dtype or compare.usable_dtype(machine, "fp32")
    n, side = 1e8, 4096.0
    one = [(name, ops.find(name)(n, dtype=dtype)) for name in ("copy", "scal", "axpy", "dot", "nrm2", "asum")]
    two = [
        ("gemv", ops.gemv(side, side, dtype=dtype)),
        ("symv", ops.symv(side, dtype=dtype)),
        ("trmv", ops.trmv(side, dtype=dtype)),
        ("ger", ops.ger(side, side, dtype=dtype)),
    ]
    three = [
        ("gemm", ops.gemm(side, side, side, dtype=dtype)),
        ("symm", ops.symm(side, side, dtype=dtype)),
        ("syrk", ops.syrk(side, side, dtype=dtype)),
        ("trmm", ops.trmm(side, side, dtype=dtype)),
    ]
    return _table(f"BLAS in {dtype} on {machine.name} (n = 1e8, 4096)", machine, one + two + three)


def regimes(machine: Machine, dtype: str | None = None) -> Table:
    """The three regimes: when each holds and what its time is."""
    dtype = dtype or compare.usable_dtype(machine, "bf16")
    from ...prediction.host import launch_latency

    columns = (Column("regime"), Column("when"), Column("time"), Column("here"))
    engine = machine.engine("matrix", dtype)
    at = show(machine.ridge(engine), "flop/B")
    rows = [
        {
            "regime": "compute",
            "when": f"intensity above the ridge ({at})",
            "time": "flops / (peak x efficiency)",
            "here": f"peak {show(machine.peak(engine).value, 'flop/s')} ({engine})",
        },
        {
            "regime": "memory",
            "when": f"intensity below the ridge ({at})",
            "time": "bytes / (bandwidth x efficiency)",
            "here": f"bandwidth {show(machine.bandwidth().value, 'B/s')} ({machine.main.name})",
        },
        {
            "regime": "overhead",
            "when": "both terms below the launch latency",
            "time": "launch latency",
            "here": f"launch {show(launch_latency(machine), 's')}",
        },
    ]
    return Table(
        f"the three regimes on {machine.name}, {dtype}",
        columns,
        rows,
        ("balanced: both terms within the ceilings' uncertainty of each other",),
    )


def typical(machine: Machine, dtype: str | None = None) -> Table:
    """Intensity of the eight operations an inference engineer meets daily."""
    dtype = dtype or compare.usable_dtype(machine, "fp16")
    s, d = 4096.0, 128.0
    works = [
        ("gemm 4096", ops.gemm(4096, 4096, 4096, dtype=dtype)),
        ("gemv 8192x28672", ops.gemm(1, 28672, 8192, dtype=dtype)),
        ("unary elementwise (relu)", ops.relu(1e8, dtype=dtype)),
        ("binary elementwise (add)", ops.add(1e8, dtype=dtype)),
        ("softmax", ops.softmax(8192, 8192, dtype=dtype)),
        ("rmsnorm", ops.rmsnorm(8192, 8192, dtype=dtype)),
        ("attention, unfused, S 4096 D 128", ops.attention(1, 32, s, d, variant="standard", dtype=dtype)),
        ("attention, flash, S 4096 D 128", ops.attention(1, 32, s, d, dtype=dtype)),
    ]
    return _table(f"typical operations in {dtype} on {machine.name}", machine, works)


def batches(machine: Machine, dtype: str | None = None, fan_in: float = 4096, fan_out: float = 4096) -> Table:
    """A linear layer against batch: intensity, verdict, where it turns."""
    dtype = dtype or compare.usable_dtype(machine, "fp16")
    sizes = (1, 4, 16, 32, 64, 128, 256, 512, 1024)
    works = [(f"batch {size}", ops.linear(size, fan_in, fan_out, dtype=dtype)) for size in sizes]
    at, width = compare.layer_ridge(machine, fan_in, fan_out, dtype), dtype_row(dtype).bytes
    turn = critical_batch(at, fan_in, fan_out, width)
    notes = (
        f"weights {show(fan_in * fan_out * width, 'B')}; AI(B) = (2/d) B / (1 + B/in + B/out), {show(float(batch_intensity(1, fan_in, fan_out, width)))} at batch 1",
        f"compute-bound from batch {turn:.0f}"
        if turn != float("inf")
        else "never compute-bound: the intensity saturates below the ridge",
        f"saturates at {show(float(saturation(fan_in, fan_out, width)))} FLOP/B",
    )
    return _table(f"linear {fan_in:.0f} to {fan_out:.0f} in {dtype} on {machine.name}", machine, works, notes)


def peaks(machine: Machine, dtype: str | None = None) -> Table:
    """Every peak with bits, ratio to fp32 vector and ridge; 2:4-sparse rates are their own rows."""
    columns = (
        Column("peak"),
        Column("bits"),
        Column("stated", unit="flop/s"),
        Column("derived", unit="flop/s"),
        Column("measured", unit="flop/s"),
        Column("ratio", "x fp32"),
        Column("ridge", "ridge"),
        Column("use"),
    )
    base = machine.peaks["vector.fp32"].value() if "vector.fp32" in machine.peaks else None
    ridges = machine.ridges()
    rows = []
    for name, figure in machine.peaks.items():
        engine, _, math = name.partition(".")
        value = figure.value()
        unit = "op/s" if math.startswith("int") else "flop/s"
        rows.append(
            {
                **{f"{key}:unit": unit for key in ("stated", "derived", "measured")},
                "peak": name,
                "bits": BITS.get(math),
                "stated": figure.stated,
                "derived": figure.derived,
                "measured": figure.measured,
                "ratio": value / base if value and base and engine != "special" else None,
                "ridge": ridges.get(name),
                "use": USES.get(math, ""),
            }
        )
    return Table(
        f"peak rates of {machine.name} (dense unless the engine says sparse; an FMA is 2 flops)", columns, rows
    )


BITS = {
    "fp64": 64,
    "fp32": 32,
    "tf32": 32,
    "bf16": 16,
    "fp16": 16,
    "fp8": 8,
    "mxfp8": 8,
    "mxfp6": 6,
    "mxfp4": 4,
    "nvfp4": 4,
    "int8": 8,
    "int4": 4,
    "int1": 1,
    "int32": 32,
}
USES = {
    "fp64": "simulation, solvers",
    "fp32": "elementwise work, accumulation",
    "tf32": "fp32 matrices at tensor speed (stored in 4 bytes)",
    "bf16": "training, inference",
    "fp16": "inference, mixed-precision training",
    "fp8": "training and inference with scales",
    "mxfp8": "block-scaled training and inference",
    "mxfp6": "block-scaled inference",
    "mxfp4": "block-scaled inference",
    "nvfp4": "block-scaled inference",
    "int8": "quantised inference",
    "int4": "quantised inference",
    "int1": "binary networks",
}


def tiling(machine: Machine, dtype: str | None = None, n: float = 4096) -> Table:
    """Tile sizes: working set and the level that holds it; traffic, intensity, bound and rate where the main memory feeds the tiles."""
    dtype = dtype or compare.usable_dtype(machine, "fp32")
    engine = machine.engine("matrix", dtype)
    peak, memory = machine.peak(engine).value, machine.bandwidth().value
    speeds = {level.name: level.bandwidth.value() for level in machine.levels}
    columns = (
        Column("tile"),
        Column("working_set", "three tiles", "B", binary=True),
        Column("level", "held in"),
        Column("bandwidth", "its bandwidth", "B/s"),
        Column("fits_block", "fits one block"),
        Column("traffic", "tiles read and written", "B"),
        Column("intensity", "FLOP/B"),
        Column("bound"),
        Column("attainable", unit="flop/s"),
    )

    def row(tile: str, at: float, **more: Any) -> dict[str, Any]:
        bound = "memory" if at < peak / memory else "compute"
        rate = float(attainable(at, peak, memory))
        return {"tile": tile, **more, "traffic": 2 * n**3 / at, "intensity": at, "bound": bound, "attainable": rate}

    rows = [row("none (no reuse)", float(ops.gemm(n, n, n, dtype=dtype, traffic="no_reuse").intensity()))]
    rows += [
        row(
            f"{tile.side} x {tile.side}",
            tile.intensity,
            working_set=tile.working_set,
            level=tile.level,
            bandwidth=speeds.get(tile.level),
            fits_block=tile.fits_block,
        )
        for tile in compare.tiles(machine, n, dtype)
    ]
    rows.append(row("all (compulsory)", float(ops.gemm(n, n, n, dtype=dtype).intensity())))
    notes = [f"bound and rate: {engine}, {show(peak, 'flop/s')}, against {machine.main.name}, {show(memory, 'B/s')}"]
    try:
        side, limit = largest_tile(machine, dtype)
        notes.append(
            f"largest square tile of which three fit the {show(limit, 'B', binary=True)} shared memory of one block: {side} x {side}"
        )
    except MissingFigure as error:
        notes.append(str(error))
    return Table(
        f"tiled product of {n:.0f} x {n:.0f} matrices in {dtype} on {machine.name}", columns, rows, tuple(notes)
    )


# Published landing places of production kernels: share of the ceiling named in the last column.
KERNELS: tuple[tuple[str, Callable[[], Work], float, float, str], ...] = (
    ("cuBLAS fp16 gemm 8192", lambda: ops.gemm(8192, 8192, 8192, dtype="fp16"), 0.80, 0.85, "of the dense fp16 peak"),
    ("CUTLASS fp16 gemm 8192", lambda: ops.gemm(8192, 8192, 8192, dtype="fp16"), 0.78, 0.83, "of the dense fp16 peak"),
    ("Triton fp16 gemm 8192", lambda: ops.gemm(8192, 8192, 8192, dtype="fp16"), 0.70, 0.80, "of the dense fp16 peak"),
    (
        "int4 weights, decode 8192x28672",
        lambda: ops.linear(1, 8192, 28672, dtype="fp16", weights="int4_g128"),
        0.70,
        0.85,
        "of the memory bandwidth",
    ),
    (
        "flash attention 3, S 4096 D 128",
        lambda: ops.attention(4, 32, 4096, 128, dtype="fp16"),
        0.70,
        0.75,
        "of the dense fp16 peak",
    ),
    (
        "naive attention, S 4096 D 128",
        lambda: ops.attention(4, 32, 4096, 128, variant="standard", dtype="fp16"),
        0.50,
        0.60,
        "of the memory bandwidth",
    ),
)


def kernels(machine: Machine, dtype: str | None = None) -> Table:
    """Reference: intensity and regime of production kernels, and the share of the ceiling they are known to reach."""
    columns = (
        Column("op", "kernel"),
        Column("intensity", "FLOP/B"),
        Column("bound"),
        Column("low", "from", percent=True),
        Column("high", "to", percent=True),
        Column("of", "share"),
    )
    rows, missing = [], []
    for label, make, low, high, of in KERNELS:
        try:
            rows.append({**verdict_row(label, predict(make(), machine)), "low": low, "high": high, "of": of})
        except MissingFigure as error:
            missing.append(f"{label} left out: {error}")
    note = (
        "shares are what published benchmarks of such kernels report, a prior and not a law; intensities are computed"
    )
    return Table(f"production kernels, judged on {machine.name}", columns, rows, (note, *missing))


def moves(machine: Machine) -> Table:
    """Reference: every move advice knows, where it leads on the chart, when it helps and what limits it."""
    rows = [
        {"move": row.name, "direction": row.direction, "changes": row.changes, "when": row.when, "limit": row.limit, "bound": ", ".join(row.bounds)}
        for row in rules.catalog().values()
    ]  # fmt: skip
    keys = ("move", "direction", "bound", "when", "changes", "limit")
    return Table("moves", tuple(Column(key) for key in keys), rows)


def flow(machine: Machine) -> Table:
    """Reference: the decision flow, from what to measure to the moves of either answer, by this machine's ridge."""
    told = rules.flow()
    rows = [{"step": "measure", "do": str(told["measure"])}, {"step": "ask", "do": str(told["question"])}]
    rows += [{"step": side, "do": row.name} for side in ("memory", "compute") for row in told[side]]
    rows += [{"step": "decoding", "do": row.name} for row in rules.decode()]
    ridges = ", ".join(f"{name} {show(value)}" for name, value in list(machine.ridges().items())[:6])
    return Table(
        "decision flow", (Column("step"), Column("do")), rows, (f"ridges of {machine.name} in FLOP/B: {ridges}",)
    )


TABLES: dict[str, tuple[Callable[..., Table], str]] = {
    "common": (common, "vector add to GEMM: flops, bytes, intensity, verdict"),
    "blas": (blas, "BLAS levels 1 to 3"),
    "typical": (typical, "eight operations of deep learning with their regime"),
    "batches": (batches, "a linear layer against batch size"),
    "peaks": (peaks, "every precision: stated, derived, measured peak, ratio to fp32, ridge"),
    "tiling": (tiling, "tile sizes: working set, level, intensity"),
    "regimes": (regimes, "the three regimes and their time formulas"),
    "kernels": (kernels, "production kernels and the share of the ceiling they reach"),
    "moves": (moves, "what can be done about a gap: direction, when, limit"),
    "flow": (flow, "the decision flow: measure, ask, move"),
}
