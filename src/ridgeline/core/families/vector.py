"""Kernels that stream: elementwise ops, full reductions, copies, gathers; row-wise ops, whose rows are units of work; scans.

stream: time = launch + blend(bytes over the bandwidth of the mix, arithmetic and element handling)
rows:   the same bytes, a row that does not fit on chip read again, and rows dealt to the cores in waves
"""

from __future__ import annotations

import numpy as np

from . import columns
from .effects import LAUNCH, OVERLAP, RAMP, Array, Effect
from .family import Coefficient, Coefficients, Family, Hardware, Sizes, overlapped
from .row_kernels import BLOCK_THREADS, scan_threads

CORE_BLOCKS = 2.0  # of 1024 threads, that a core holds at once
CHUNK = 65536.0  # elements of a tensor that an optimizer gives to one block
# the size that says that elements of a result lie a row apart, and its value where the plan of such sums is not known
APART, UNPLANNED = "apart", 2.0
BYTES = "bytes at achieved bandwidth"  # their time without any effect

STREAM = {
    "memory": Coefficient(0.90, 0.1, 1.0, "share of the main bandwidth that long streams reach"),
    "launch": Coefficient(2.5e-6, 5e-7, 1e-4, "seconds of the shortest kernel"),
    "turn": Coefficient(0.05, 0.001, 0.5, "bandwidth lost when reads and writes are even"),
    "element": Coefficient(8.0, 0.1, 8000.0, "flops at the vector peak that handling one element costs"),
    "blend": Coefficient(3.0, 1.0, 8.0, "how well arithmetic and memory overlap"),
    "kept": Coefficient(0.3, 0.01, 1.0, "share of L2 that takes writes without sending them on"),
    "inner": Coefficient(2.0, 1.0, 10.0, "how much faster those writes are"),
    "ramp": Coefficient(1e-6, 1e-8, 2e-5, "seconds until the stream is at full speed"),
    "full": Coefficient(4e6, 1e5, 1e8, "bytes from which it gets there"),
    "chunk": Coefficient(5e-10, 1e-11, 1e-8, "seconds per element of the piece of a tensor that one block takes", True),
    "chain": Coefficient(3e-7, 1e-9, 5e-6, "seconds of a step of those that a thread takes one after the other", True),
    "fetch": Coefficient(2e-7, 1e-9, 5e-6, "seconds that those steps take longer whose data is in no cache", True),
}

ROWS = {
    "memory": Coefficient(0.80, 0.02, 1.0, "share of the main bandwidth that long rows reach"),
    "launch": Coefficient(2.5e-6, 5e-7, 1e-4, "seconds of the shortest call"),
    "serial": Coefficient(5e-10, 1e-12, 5e-7, "seconds per element of a row on its own"),
    "row": Coefficient(2e-8, 1e-10, 2e-6, "core seconds that a row costs among many"),
    "element": Coefficient(1e-11, 1e-13, 1e-9, "core seconds that an element costs among many"),
    "blend": Coefficient(2.0, 1.0, 8.0, "how well the parts overlap"),
    "holds": Coefficient(4e4, 1e3, 1e6, "bytes of a row that stay on chip"),
    "again": Coefficient(0.7, 0.02, 4.0, "passes more that a longer row costs"),
    "kept": Coefficient(0.3, 0.01, 1.0, "share of L2 that takes writes without sending them on"),
    "inner": Coefficient(2.0, 1.0, 10.0, "how much faster those writes are"),
    "shared": Coefficient(1.0, 1.0, 16.0, "rows that share a block, each with as many threads fewer"),
    "chain": Coefficient(
        1e-7, 1e-9, 5e-6, "seconds of an element that a thread adds after the other, a row apart", True
    ),
    "deep": Coefficient(4e-9, 1e-12, 1e-6, "seconds per row of what takes rows one after the other", True),
}


def _memory(read: Array, written: Array, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    kept: Array = 0.0 if "cache" in off else np.minimum(written, c["kept"] * hw.cache)
    return (read + written - kept * (1 - 1 / c["inner"])) / (c["memory"] * hw.bandwidth)


def stream(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    read, written = g["read"], g["written"]
    moved = read + written
    memory = _memory(read, written, hw, c, off)
    if "turn" not in off:
        memory = memory + c["turn"] * 4 * read * written / moved / (c["memory"] * hw.bandwidth)
    time: Array = memory
    if "arithmetic" not in off:
        work = g["flops"] / hw.vector + c["element"] * g["elements"] / hw.handled + g["special"] / hw.special
        time = overlapped(memory, work, c, off)
    if c["chunk"] and "chunk" not in off:
        piece = np.minimum(g.get("largest", g["elements"]), CHUNK) * g["launches"]
        time = overlapped(time, piece * c["chunk"], c, off)
    if c["chain"] and "chain" not in off:
        rounds = np.maximum(g.get("blocks", 0.0) / (CORE_BLOCKS * hw.cores), 1.0)
        alone = g.get("steps", 0.0) * c["chain"] + g.get("fetched", 0.0) * c["fetch"]
        time = overlapped(time, rounds * alone, c, off)
    if "ramp" not in off:
        time = time + c["ramp"] * moved / (moved + c["full"])
    return time if "launch" in off else time + c["launch"] * g["launches"]


def rows(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    number, cols = g["rows"], g["cols"]
    row = cols * g["x"]  # bytes of a row
    read = number * row * g.get("fresh", 1.0)
    written = number * np.where(np.asarray(g["per_row"]) > 0, g["per_row"], cols) * g["y"]
    again: Array = 0.0 if "again" in off else np.where(row > c["holds"], c["again"], 0.0)
    memory = _memory(read * (1 + again), written, hw, c, off)
    crowd: Array = 0.0 if "crowd" in off else number * (c["row"] + cols * c["element"] * (1 + again)) / hw.cores
    time = overlapped(memory, crowd, c, off)

    def split(chain: Array, parts: Array) -> Array:
        """With what a thread takes one after the other, and the parts that a row is split into."""
        alone: Array = 0.0
        if "alone" not in off and c["chain"] and APART in g:
            alone = chain * c["chain"]
        elif "alone" not in off:
            alone = cols * c["serial"] * (1 + again) * (np.minimum(number, c["shared"]) / c["shared"])
        made = overlapped(time, alone, c, off)
        if c["deep"] and "deep" not in off:
            made = made + c["deep"] * (parts if APART in g else number)
        return made if "launch" in off else made + c["launch"] * np.where(np.asarray(parts) > 1, 2.0, 1.0)

    # results whose elements lie a row apart are shared by threads and blocks in a way of their own
    if APART not in g:
        return split(0.0, 1.0)
    if np.all(g[APART] == UNPLANNED):
        return columns.shortest(number, cols, split)
    return split(*columns.plan(number, cols, hw.cores))


SCAN = {
    **{name: ROWS[name] for name in ("launch", "blend", "kept", "inner")},
    "memory": Coefficient(0.80, 0.2, 1.0, "share of the main bandwidth that long rows reach"),
    "element": Coefficient(5e-10, 1e-11, 1e-7, "core seconds that an element costs among many"),
    "block": Coefficient(8e-7, 1e-9, 1e-5, "core seconds that a block costs among many"),
    "serial": Coefficient(1.5e-6, 1e-9, 1e-5, "seconds of a step in which every thread of a row takes two elements"),
}


def scan(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    """Prefix sums of rows: bytes, handling elements, and a row's steps one after the other."""
    number, cols = g["rows"], g["cols"]
    size = number * cols * g["x"]
    time = _memory(size, size, hw, c, off)
    several, threads = np.asarray(number) > 1, scan_threads(number, cols)  # a single row is scanned by all cores
    blocks = np.where(several, number * threads / BLOCK_THREADS, 0.0)
    crowd: Array = 0.0 if "crowd" in off else (blocks * c["block"] + number * cols * c["element"]) / hw.cores
    alone: Array = 0.0 if "alone" in off else np.where(several, np.ceil(cols / (2 * threads)) * c["serial"], 0.0)
    time = overlapped(overlapped(time, crowd, c, off), alone, c, off)
    return time if "launch" in off else time + c["launch"]


TRANSPOSE = {
    **{name: STREAM[name] for name in ("memory", "launch", "kept", "inner")},
    "strided": Coefficient(1.0, 0.01, 20.0, "unused bytes fetched per byte requested, when columns are read"),
    "thin": Coefficient(32.0, 1.0, 4096.0, "length of the shorter side at which half of that shows"),
    **{name: STREAM[name] for name in ("ramp", "full")},
}


def transpose(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    size = g["rows"] * g["cols"] * g["x"]
    memory = _memory(size, size, hw, c, off)
    if "strided" not in off:
        side = np.minimum(g["rows"], g["cols"])
        memory = memory * (1 + c["strided"] * (side - 1) / (side - 1 + c["thin"]))
    if "ramp" not in off:
        memory = memory + c["ramp"] * size / (size + c["full"])
    return memory if "launch" in off else memory + c["launch"]


CACHE, STRIDED = Effect("cache", "writes kept in L2"), Effect("strided", "strided reads")
TURN, ARITHMETIC = Effect("turn", "reads and writes mixed"), Effect("arithmetic", "arithmetic beyond memory")
AGAIN, CROWD = Effect("again", "rows read again"), Effect("crowd", "handling rows and elements")
ALONE, DEEP = Effect("alone", "serial work of one row"), Effect("deep", "row after row")
TRANSPOSING = Family("transpose", transpose, TRANSPOSE, (CACHE, STRIDED, RAMP, LAUNCH), ("rows", "cols"), BYTES)
SCANNING = Family("scan", scan, SCAN, (CACHE, CROWD, ALONE, OVERLAP, LAUNCH), ("rows", "cols"), BYTES)
CHUNKS = Effect("chunk", "chunks of one block", "shape")
CHAIN = Effect("chain", "steps of one thread", "shape")
STREAMING_EFFECTS = (TURN, CACHE, ARITHMETIC, CHUNKS, CHAIN, OVERLAP, RAMP, LAUNCH)
STREAMING = Family(
    "stream",
    stream,
    STREAM,
    STREAMING_EFFECTS,
    ("read", "written", "elements"),
    BYTES,
    ("piece", "steps", "blocks", "fetched", "side", "lanes"),
)
ROWS_EFFECTS = (AGAIN, CACHE, CROWD, ALONE, OVERLAP, DEEP, LAUNCH)
ROWWISE = Family("rows", rows, ROWS, ROWS_EFFECTS, ("rows", "cols", "per_row"), BYTES, ("pixels",))
