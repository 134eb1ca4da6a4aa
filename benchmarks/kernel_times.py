"""Public kernel timings as cases of ridgeline's ops: fit coefficients to them, judge them, leave a GPU out.

    python benchmarks/kernel_times.py FOLDER fit      write src/ridgeline/machines/catalog/fitted/*.json
    python benchmarks/kernel_times.py FOLDER defaults write what machines without timings borrow
    python benchmarks/kernel_times.py FOLDER all      both, one after the other
    python benchmarks/kernel_times.py FOLDER judge    error by family on the half that was not fitted to
    python benchmarks/kernel_times.py FOLDER left-out error on GPUs that were left out of the fit

FOLDER holds the tables gemm, attention, moe, vector and conv (parquet) with the columns gpu, op, dtype, backend, sizes
and time_us, collected by aiconfigurator (Apache-2.0) and NeuSight (MIT). The tables are not part of this project.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from lending import (
    FIT_ROWS,
    LONG,
    Lender,
    all_ends,
    blank,
    ends_for,
    left_out_ratios,
    own_rows,
    physical,
    ranges,
    some,
    tables_without,
    timed_here,
    with_errors,
)

from ridgeline.core.dtypes import label
from ridgeline.core.families import Key
from ridgeline.core.families.product import LINE
from ridgeline.core.fitted import Fitted
from ridgeline.core.machine import Machine
from ridgeline.machines import coefficients as files
from ridgeline.machines import load as machines
from ridgeline.machines.defaults import defaults as default_figures
from ridgeline.machines.power import base
from ridgeline.machines.transfer import BEYOND, WITHIN, borrowed, library
from ridgeline.prediction import fit as fitting

GPUS = {
    "A100-PCIE-40GB": "a100-pcie-40gb", "A100-PCIE-80GB": "a100-pcie-80gb", "A100-SXM-80GB": "a100-sxm-80gb",
    "H100-SXM-80GB": "h100-sxm", "H200-SXM-141GB": "h200-sxm", "L4-24GB": "l4", "T4-16GB": "t4",
    "V100-PCIE-32GB": "v100-pcie-32gb", "MI100-32GB": "mi100",
}  # fmt: skip
DTYPES = {"fp8_block": "fp8_g128", "w4a16_int4": "bf16"}
ELEMENTWISE = {"add": "add", "mul": "mul", "pow": "mul", "div": "mul", "relu": "relu", "gelu": "gelu", "tanh": "tanh"}
SOURCES = {
    "aiconfigurator": "ai-dynamo/aiconfigurator 095f58a5 (Apache-2.0), {backend}: replayed CUDA graph, caches not flushed",
    "neusight": "sitar-lab/NeuSight 6945927d (MIT), {backend} eager fp32: events around one call, host launch included",
}
# Effects that only some backends show: fp8 products that quantise their input, attention that writes its cache.
OPTIONAL = {"gemm": ("prepare", "row"), "attention": ("prepare",), "conv": ("winograd", "transform", "layout")}
DEVICE_LAUNCH = default_figures("launch")[
    "gpu"
]  # what a kernel takes on the device where only the host's launch was timed
HOST_LAUNCH = f"here with {DEVICE_LAUNCH * 1e6:g} us instead of the launch"
OWN_TIMINGS = "h200-sxm"  # its default paths were timed by ridgeline itself (fit_h200.py)
# Families whose default path is that of PyTorch wherever it has such kernels: serving libraries fuse experts, and are twice as fast on one GPU.
PYTORCH_PATHS = ("moe",)
ENOUGH = 60  # timings from which a variant is told apart
BIG = {"graph": LONG[""], "eager": LONG["fp32"]}  # seconds above which the kernel decides, not the overhead


def case(row: dict[str, Any]) -> dict[str, Any] | None:
    """A row of the tables as a case of an op, None for what ridgeline has no op for."""
    op, dtype = row["op"], DTYPES.get(row["dtype"], row["dtype"])
    made: dict[str, Any] = {"dtype": dtype, "time_us": row["time_us"], "backend": row["backend"]}
    if op == "gemm":
        return made | {"op": "gemm", **{key: row[key] for key in "mnk"}}
    if op == "bmm":
        return made | {"op": "bmm", **{key: row[key] for key in ("batch", "m", "n", "k")}}
    if op.startswith("attention_"):
        sizes = {key: row[key] for key in ("batch", "heads", "kv_heads", "head_dim", "seq_q", "seq_kv")}
        kv = {"kv": row["kv_dtype"]} if row["kv_dtype"] and row["kv_dtype"] != row["dtype"] else {}
        return made | {"op": "attention", **sizes, **kv, "causal": float(op == "attention_context")}
    if op == "moe":
        weights = {"weights": "int4_g128"} if row["dtype"] == "w4a16_int4" else {}
        return (
            made
            | {"op": "moe", **{key: row[key] for key in ("tokens", "experts", "topk", "hidden", "inter")}}
            | weights
        )
    if op == "conv2d":
        sizes = {"batch": row["batch"], "c_in": row["cin"], "c_out": row["cout"], "kernel": row["ksize"]}
        return made | {"op": "conv2d", **sizes, "h": row["hw"], "w": row["hw"]}
    if op in ("softmax", "layernorm"):
        return made | {"op": op, "rows": row["rows"], "cols": row["cols"]}
    if op == "elementwise":
        name = ELEMENTWISE.get(row["func"], "scal")
        return made | {"op": name, "n": row["rows"] * row["cols"]}
    return None


def key(row: dict[str, Any]) -> int:
    """A stable number for a shape, the same on every GPU and backend."""
    told = sorted(
        (name, str(value)) for name, value in row.items() if name not in ("time_us", "backend", "dtype", "kv")
    )
    return zlib.crc32(repr(told).encode())


def tables(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Cases by machine, with the source, the note and the original op beside them."""
    import pyarrow.parquet as parquet

    found: dict[str, list[dict[str, Any]]] = {}
    for name in ("gemm", "attention", "moe", "vector", "conv"):
        for row in parquet.read_table(folder / f"{name}.parquet").to_pylist():
            if row["gpu"] not in GPUS or (row.get("routing") or "balanced") != "balanced":
                continue
            made = case(row)
            if made is not None:
                told = {"_source": row["source"], "_note": row["note"], "_op": row["op"], "_dtype": row["dtype"]}
                found.setdefault(GPUS[row["gpu"]], []).append(made | told)
    return found


def plain(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]


def by_op(kernel: Any) -> bool:
    """Kernels that say nothing of the other ops of their family; the convolutions are forward ones of images stored channel by channel."""
    return kernel.family in ("rows", "attention", "conv") or kernel.op == "bmm"


def thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without most of the rows that only show the host's launch: they are many and say one thing."""
    least: dict[tuple[str, str], float] = {}
    for row in rows:
        at = (row["op"], row["dtype"])
        least[at] = min(least.get(at, np.inf), row["time_us"])
    return [
        row
        for row in rows
        if "eager" not in row["_note"] or row["time_us"] > 1.3 * least[row["op"], row["dtype"]] or key(row) % 10 == 0
    ]


def optional(key: Key) -> tuple[str, ...]:
    if key.family == "gemm":
        # products without tensor cores are hardly split by the libraries of these timings
        return OPTIONAL["gemm"] if key.dtype.startswith("fp8") else ("most",) if key.dtype.startswith("fp32") else ()
    if key.family == "attention":
        return OPTIONAL["attention"] if key.op != "full" else ()
    return OPTIONAL.get(key.family, ())


def source_of(rows: list[dict[str, Any]], backend: str) -> str:
    """Where rows come from, and the library that they are of, or all those of the default path."""
    names = sorted({row["_source"] for row in rows})
    every = {name: ", ".join(sorted({row["backend"] for row in rows if row["_source"] == name})) for name in names}
    return "; ".join(SOURCES[name].format(backend=backend or every[name]) for name in names)


def same_dtype(row: dict[str, Any], key: Key) -> bool:
    """Whether a row's arithmetic is in the dtype of a group."""
    return label(row["dtype"]) == key.dtypes[0]


def groups(rows: list[dict[str, Any]], machine: Machine, backend: bool) -> dict[Key, fitting.Group]:
    told = plain(rows) if backend else [{**row, "backend": ""} for row in plain(rows)]
    found = fitting.group(told, machine, by_op, without_variants=("rows", "conv"))
    # few convolutions were timed on each machine: their variants stand beside the family where there are enough
    images = [row for row in told if row["op"] == "conv2d"]
    apart = fitting.group(images, machine, by_op)
    every = {**{key: timed for key, timed in apart.items() if len(timed) >= ENOUGH}, **found}
    return {key: timed for key, timed in every.items() if not narrow_only(key, timed)}


def narrow_only(key: Key, timed: fitting.Group) -> bool:
    """Whether products off a cache line are so for being shorter than one: they say nothing of wide ones, which are twice as fast."""
    if key.family != "gemm" or "ragged" not in key.variant:
        return False
    return bool(np.all(np.minimum(timed.sizes["n"], timed.sizes["k"]) * timed.sizes["a"] < LINE))


def fit_group(members: fitting.Group, source: str, group: Key) -> Fitted | None:
    members = physical(members)
    got = fitting.fit([some(members, FIT_ROWS)], source, optional(group))
    return None if got is None else replace(got, cases=len(members), ranges=ranges([members]))


def fit_machine(name: str, rows: list[dict[str, Any]], tell: Any) -> dict[Key, Fitted]:
    """Every group of a machine by backend, and over all backends as the default."""
    machine = machines.load(name)
    rows = thinned(rows)
    found: dict[Key, Fitted] = {}
    for group, members in in_order(groups(rows, machine, True)):
        mine = [row for row in rows if row["backend"] == group.backend and same_dtype(row, group)]
        if got := fit_group(members, source_of(mine, group.backend), group):
            found[group] = got
            tell(f"{name} {group}: {got.cases} timings, {got.error:.1%} / {got.p90:.1%}")
    own = pytorch_paths(machine)
    for group, members in in_order(groups(rows, machine, False)):
        if group in own:
            continue
        libraries = {at.backend for at in found if at._replace(backend="") == group}
        source = source_of([row for row in rows if same_dtype(row, group) and row["backend"] in libraries], "")
        # with one backend the default path is the same fit
        alone = next(
            (row for at, row in found.items() if at._replace(backend="") == group and row.cases == len(members)), None
        )
        got = replace(alone, source=source) if alone else fit_group(members, source, group)
        if got is None:
            continue
        if "eager" in source:
            got = replace(
                got, coefficients={**got.coefficients, "launch": DEVICE_LAUNCH}, source=f"{source}; {HOST_LAUNCH}"
            )
        found[group] = got
        tell(f"{name} {group}: {got.cases} timings, {got.error:.1%} / {got.p90:.1%}")
    return found


def pytorch_paths(machine: Machine) -> set[Key]:
    """Default paths that PyTorch has kernels for on GPUs of this architecture, by the GPU that was timed with them."""
    if machine.architecture != machines.load(OWN_TIMINGS).architecture:
        return set()
    return {key for key in files.of_machine(OWN_TIMINGS) if key.family in PYTORCH_PATHS and not key.backend}


def in_order(made: dict[Key, fitting.Group]) -> list[tuple[Key, fitting.Group]]:
    return sorted(made.items(), key=lambda item: str(item[0]))


FAMILY = {
    ("gemm", "bf16"): "gemm bf16", ("gemm", "fp8"): "gemm fp8", ("gemm", "fp8_block"): "gemm fp8",
    ("gemm", "fp32"): "gemm fp32", ("bmm", "fp32"): "bmm fp32", ("moe", ""): "moe", ("conv2d", ""): "conv2d fp32",
    ("elementwise", ""): "elementwise", ("softmax", ""): "softmax, layernorm", ("layernorm", ""): "softmax, layernorm",
    ("attention_context", ""): "attention context, encoder", ("attention_encoder", ""): "attention context, encoder",
    ("attention_generation", ""): "attention generation",
}  # fmt: skip


ALL_FORMATS = "gemm, all formats"


def family_of(row: dict[str, Any]) -> str:
    return FAMILY.get((row["_op"], row["_dtype"])) or FAMILY[row["_op"], ""]


def errors(
    rows: list[dict[str, Any]], machine: Machine, fitted: dict[Key, Fitted], backend: bool
) -> dict[str, list[Any]]:
    """(ratio, kernel decides, a device time at all, inside the interval) of every row by family, with the given numbers alone."""
    from ridgeline.prediction.kernel_steps import ran_with
    from ridgeline.prediction.predict import predict
    from ridgeline.programs.ops import find

    one = replace(machine, fitted=fitted)
    alike: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        names = tuple(sorted(name for name in find(row["op"]).params if row.get(name) not in (None, "")))
        words = tuple((name, row[name]) for name in names if isinstance(row[name], str))
        which = (family_of(row), row["op"], names, words, row["backend"] if backend else None, row.get("causal"))
        alike.setdefault(which, []).append(row)
    found: dict[str, list[Any]] = {}
    for (family, op, names, words, at, _), members in alike.items():
        told = dict(words)
        sizes = {name: np.array([float(row[name]) for row in members]) for name in names if name not in told}
        step = predict(ran_with(find(op)(**sizes, **told), at), one).expected[0]
        if not step.kernels:
            print(f"no numbers for {family} {op} {words} {at} on {machine.name}", file=sys.stderr)
            continue
        measured = np.array([row["time_us"] for row in members]) * 1e-6
        note = members[0]["_note"]
        big = measured > (BIG["eager"] if "eager" in note else BIG["graph"])
        device = big | ("eager" not in note)  # short eager calls show the host's launch, not the kernel
        ratio = np.asarray(step.time) / measured
        inside = (measured >= np.asarray(step.low)) & (measured <= np.asarray(step.high))
        found.setdefault(family, []).append(np.stack([ratio, big, device, inside]))
    return found


def show(title: str, found: dict[str, dict[str, list[Any]]], only_big: bool = True) -> None:
    """Median / P90 per family, machine by machine and pooled, over all device times or those where the kernel decides."""
    print(f"\n{title}: median / P90 of |predicted - measured| / measured in %, and share inside the 80 % interval")
    families = sorted({family for told in found.values() for family in told})
    pooled: dict[str, list[Any]] = {}
    for family in families:
        line, every = [], []
        for name, told in found.items():
            if family in told:
                ratio, big, device, inside = np.concatenate(told[family], axis=1)
                chosen = (big if only_big else device) > 0
                error = np.abs(ratio[chosen] - 1)
                every.append(np.stack([error, inside[chosen]]))
                line.append(
                    f"{name} {np.median(error):.1%}/{np.quantile(error, 0.9):.1%} ({inside[chosen].mean():.0%})"
                )
        for group in (ALL_FORMATS if family.startswith("gemm") else "", "all"):
            pooled.setdefault(group, []).extend(every)
        print(f"{_summed_up(family, every)}   {', '.join(line)}")
    for group in (ALL_FORMATS, "all"):
        if group in pooled:
            print(_summed_up(group, pooled[group]))


def _summed_up(name: str, parts: list[Any]) -> str:
    error, inside = np.concatenate(parts, axis=1)
    return f"{name:28} {len(error):6} rows {np.median(error):6.1%} / {np.quantile(error, 0.9):6.1%}  inside {inside.mean():.0%}"


def judge(data: dict[str, list[dict[str, Any]]]) -> None:
    """Fit on one half of the shapes, judge on the other."""
    found = {}
    for name, rows in data.items():
        first = [row for row in rows if key(row) % 2]
        second = [row for row in rows if not key(row) % 2]
        numbers = fit_machine(name, first, lambda text: None)
        found[name] = errors(second, machines.load(name), numbers, True)
    show("held-out half of the shapes", found)


def halved(data: dict[str, list[dict[str, Any]]], odd: bool) -> dict[str, list[dict[str, Any]]]:
    """One half of the shapes, the same on every GPU."""
    return {name: [row for row in rows if bool(key(row) % 2) == odd] for name, rows in data.items()}


def lenders(data: dict[str, list[dict[str, Any]]]) -> dict[str, Lender]:
    """The timings by architecture, machine and key: of every library, and of all of them as the default path."""
    found: dict[str, dict[str, dict[Key, list[fitting.Group]]]] = {}
    for name, rows in data.items():
        machine = machines.load(name)
        by_key: dict[Key, list[fitting.Group]] = {}
        for at, timed in groups(thinned(rows), machine, True).items():
            for path in (library(at.backend), ""):
                by_key.setdefault(at._replace(backend=path), []).append(physical(timed))
        found.setdefault(base(machine.architecture), {})[name] = by_key
    return {architecture: Lender(architecture, members, optional) for architecture, members in found.items()}


def lent_rows(lender: Lender, data: dict[str, list[dict[str, Any]]]) -> dict[Key, Fitted]:
    """Coefficients fitted to all GPUs of an architecture together; their errors come later."""
    rows: dict[Key, Fitted] = {}
    for at in lender.keys:
        members, values = lender.members(at), lender.coefficients(at)
        if values is None:
            continue
        libraries = (
            {at.backend} if at.backend else {key.backend for key in lender.keys if key._replace(backend="") == at}
        )
        timings = [
            row
            for name in members
            for row in data[name]
            if same_dtype(row, at) and library(row["backend"]) in libraries
        ]
        versions = ", ".join(sorted({row["backend"] for row in timings}))
        source = f"{', '.join(members)}: {source_of(timings, versions)}"
        if not at.backend and "eager" in source:
            values, source = {**values, "launch": DEVICE_LAUNCH}, f"{source}; {HOST_LAUNCH}"
        every = [timed for parts in members.values() for timed in parts]
        rows[at] = replace(
            blank({name: fitting.rounded(value) for name, value in values.items()}),
            cases=sum(map(len, every)),
            ranges=ranges(every),
            source=source,
        )
    return rows


def defaults(data: dict[str, list[dict[str, Any]]]) -> dict[str, dict[Key, Fitted]]:
    """What machines without timings borrow, from every architecture."""
    lending = lenders(data)
    ratios = left_out_ratios(lending)
    tables: dict[str, dict[Key, Fitted]] = {}
    for architecture, lender in lending.items():
        fitted, own = lent_rows(lender, data), own_rows(files.of_machine(OWN_TIMINGS), OWN_TIMINGS)
        if OWN_TIMINGS not in lender.groups:
            own = {}
        same = {key: row for key, row in own.items() if key.family in PYTORCH_PATHS}
        for kind, rows in ((WITHIN, {**fitted, **own}), (BEYOND, {**own, **fitted, **same})):
            table = f"{kind} {architecture}"
            tables[table] = {at: with_errors(row, ends_for(table, at, ratios)) for at, row in rows.items()}
    return tables


def left_out(data: dict[str, list[dict[str, Any]]]) -> None:
    """Every GPU from the timings of the others: errors from one half of the shapes, judged on the other."""
    lending = lenders(halved(data, True))
    ends = all_ends(lending, left_out_ratios(lending))
    machine_rows = {name: (machines.load(name), rows) for name, rows in halved(data, False).items()}
    fitted = {}
    for name, (machine, _) in machine_rows.items():
        tables = tables_without(lending, ends, name)
        fitted[name] = borrowed(machine, lambda table, tables=tables: tables.get(table, {}))
    for by_backend in (True, False):
        found = {
            name: errors(rows, machine, fitted[name], by_backend) for name, (machine, rows) in machine_rows.items()
        }
        title = "backend named" if by_backend else "backend not named"
        show(f"GPU left out of the fit, {title}, kernels that decide", found)
        show(f"GPU left out of the fit, {title}, all", found, False)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("what", choices=("fit", "defaults", "judge", "left-out", "all"))
    parser.add_argument("--only", metavar="MACHINE", help="With fit: one machine, the others as they are.")
    asked = parser.parse_args()
    data = tables(asked.folder)
    if asked.what == "judge":
        judge(data)
    elif asked.what == "left-out":
        left_out(data)
    if asked.what in ("fit", "all"):
        for name, rows in data.items():
            if asked.only not in (None, name):
                continue
            found = fit_machine(name, rows, lambda text: print(text, file=sys.stderr))
            if name == OWN_TIMINGS:
                kept = {group: row for group, row in files.of_machine(name).items() if timed_here(group)}
                found = {**kept, **{group: row for group, row in found.items() if group.backend}}
            files.write(files.FOLDER / f"{name}.json", {"fitted": found})
    if asked.what in ("defaults", "all"):
        files.write(files.DEFAULTS, defaults(data))


if __name__ == "__main__":
    main()
