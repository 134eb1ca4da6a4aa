"""rocprof-compute's `pmc_perf.csv` and rocprof's counter tables: flops, bytes and time of AMD kernels.

Checked against the documented format only. Vector instructions count 64 lanes; a matrix counter counts 512 operations;
requests of the last cache to memory are of 64 bytes, or of 32 where a counter of its own says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

from ..core.errors import InputError
from ..core.intake import Door, refuse_over
from ..core.observation import LONGEST, SHORTEST, Observation
from ..core.tabular import count, decimal_mark, header, opened
from .rows import Omitted, Rows, by_column, held, numbered, timed

HOW = "rocprof-compute profile --name NAME --roof-only -- PROGRAM, then import pmc_perf.csv of the workload's folder"
KERNEL = ("Kernel_Name", "KernelName")
START = ("Start_Timestamp", "BeginNs")
END = ("End_Timestamp", "EndNs")
DISPATCH = ("Dispatch_ID", "Dispatch_Id", "Index")
LANES, MATRIX_OPS = 64, 512
PEEK = 50  # kernels that show how numbers are written
MAX_DIGITS = 20  # of a time stamp in nanoseconds

# Engine or level -> counters and their factors; the first list a file has all of is used.
_VALU = "SQ_INSTS_VALU_"
Ways = Mapping[str, tuple[tuple[tuple[str, float], ...], ...]]
FLOPS: Ways = {
    **{
        f"vector.{dtype}": (
            tuple((f"{_VALU}{op}_{bits}", LANES * weight) for op, weight in (("ADD", 1), ("MUL", 1), ("FMA", 2), ("TRANS", 1))),
        )
        for dtype, bits in (("fp16", "F16"), ("fp32", "F32"), ("fp64", "F64"))
    },
    **{
        f"tensor.{dtype}": (((f"{_VALU}MFMA_MOPS_{bits}", MATRIX_OPS),),)
        for dtype, bits in (("fp8", "F8"), ("fp16", "F16"), ("bf16", "BF16"), ("tf32", "XF32"), ("fp32", "F32"), ("fp64", "F64"), ("int8", "I8"))
    },
}  # fmt: skip
BYTES: Ways = {
    "hbm": tuple(
        # 32 n32 + 64 (n - n32) read, 64 n64 + 32 (n - n64) written
        ((f"{unit}_RDREQ_sum", 64.0), (f"{unit}_RDREQ_32B_sum", -32.0), (f"{unit}_WRREQ_sum", 32.0), (f"{unit}_WRREQ_64B_sum", 32.0))
        for unit in ("TCC_EA", "TCC_EA0")
    ),
    "l2": (tuple((f"TCP_TCC_{kind}_REQ_sum", 64.0) for kind in ("READ", "WRITE", "ATOMIC_WITH_RET", "ATOMIC_WITHOUT_RET")),),
    "l1": ((("TCP_TOTAL_CACHE_ACCESSES_sum", 64.0),),),
    "shared": ((("SQ_LDS_IDX_ACTIVE", 128.0), ("SQ_LDS_BANK_CONFLICT", -128.0)),),
}  # fmt: skip
_COUNTERS = frozenset(name for table in (FLOPS, BYTES) for ways in table.values() for way in ways for name, _ in way)
LAUNCH = {"Grid_Size": "grid", "Workgroup_Size": "block", "GRD": "grid", "WGR": "block"}


def recognises(head: str, path: Path) -> bool:
    return _is_header(header(next(iter(head.lstrip("\ufeff\r\n").splitlines()), ""))[0])


def _is_header(names: Sequence[str]) -> bool:
    return all(any(name in names for name in group) for group in (KERNEL, START, END))


def read(path: Path) -> list[Observation]:
    with opened(path) as text:
        names, sign = header(next(text, ""))
        if not _is_header(names):
            raise InputError(f"'{path}' has no columns for kernel, start and end; the table with them comes from {HOW}")
        door, omitted = Door(f"'{path}'"), Omitted("truncated or without kernel, start and end")
        kernels = _complete(by_column(numbered(text, path, 2), names, sign, door), len(names), omitted)
        if "Counter_Name" in names:
            kernels = iter(_gathered(kernels, path))
        first_kernels = list(islice(kernels, PEEK))
        mark = decimal_mark(row[name] for _, row in first_kernels for name in row if name in _COUNTERS)
        every = ((line, _observation(row, mark, door, line)) for line, row in chain(first_kernels, kernels))
        observations = list(held(timed(every, omitted), path))
    door.close()
    return omitted.noted(observations)


def _complete(rows: Rows, width: int, omitted: Omitted) -> Rows:
    for line, row in rows:
        if len(row) == width:
            yield line, row
        else:
            omitted.add(line)


def _gathered(rows: Rows, path: Path) -> list[tuple[int, dict[str, str]]]:
    """One row per kernel from one row per counter."""
    kernels: dict[tuple[str, ...], tuple[int, dict[str, str]]] = {}
    for line, row in rows:
        key = tuple(row[name] for name in (*DISPATCH, *KERNEL, *START) if name in row)
        kernels.setdefault(key, (line, row))[1][row["Counter_Name"]] = row.get("Counter_Value", "")
        refuse_over("kernels", len(kernels), f"'{path}', line {line:,},")
    return list(kernels.values())


def _nanoseconds(row: Mapping[str, str], names: Sequence[str]) -> float | None:
    """A time stamp; as a whole number it keeps all its digits."""
    text = next((row[name] for name in names if name in row), "")
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else count(text)


def _observation(row: Mapping[str, str], mark: str, door: Door, line: int) -> Observation | None:
    kernel = next(row[name] for name in KERNEL if name in row).removesuffix(" (.kd)").removesuffix(".kd").strip()
    start, end = _nanoseconds(row, START), _nanoseconds(row, END)
    if not kernel or start is None or end is None or not end > start:
        return None
    seconds = door.number((end - start) * 1e-9, f"line {line}, end less start", SHORTEST, LONGEST)
    defined: dict[str, str] = {}
    flops = _counted(row, FLOPS, "flops", defined, mark)
    moved = _counted(row, BYTES, "bytes", defined, mark)
    name = kernel.partition("(")[0].partition("<")[0].removeprefix("void ").strip() or kernel
    return Observation(
        name=name,
        target=name,
        samples=(seconds,),
        settings={ours: row[theirs] for theirs, ours in LAUNCH.items() if row.get(theirs)},
        tool="rocprof",
        kernel=kernel,
        flops=flops,
        bytes=moved,
        defined=defined,
    )


def _counted(row: Mapping[str, str], table: Ways, kind: str, defined: dict[str, str], mark: str) -> dict[str, float]:
    totals = {}
    for name, ways in table.items():
        for way in ways:
            values = [count(row[counter], mark) if counter in row else None for counter, _ in way]
            if None not in values:
                total = sum(factor * value for (_, factor), value in zip(way, values, strict=True) if value)
                totals[name] = max(total, 0.0)
                defined[f"{kind}.{name}"] = " + ".join(f"{factor:g} x {counter}" for counter, factor in way)
                break
    return totals
