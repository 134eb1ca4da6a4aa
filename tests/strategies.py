"""Hypothesis strategies that several test files share: calls of any op, sweeps of calls, machines with every figure."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from ridgeline.core.figure import Figure, Level, Link
from ridgeline.core.machine import Machine
from ridgeline.programs.ops import OPS, Op, Param

COMPUTE = (
    "fp64", "fp32", "tf32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "mxfp8", "mxfp6", "mxfp4", "nvfp4", "int8", "int4",
)  # fmt: skip
STORED = (*COMPUTE, "int32", "int1", "int4_g128", "int4_g128z", "fp8_e4m3_g64")
COLLECTIVES = ("all_gather", "all_reduce", "all_to_all", "broadcast", "p2p", "reduce_scatter")
NUMBERS = ("Size", "Count", "Flag")
MIN_EXAMPLES = 6


def law(examples: int = 50, **others: Any) -> settings:
    """Settings of a property: so many examples where the profile has 100, the rest as it says (`conftest.py`)."""
    return settings(max_examples=max(MIN_EXAMPLES, examples * settings().max_examples // 100), **others)


def _number(param: Param, largest: int) -> st.SearchStrategy[Any]:
    if param.kind == "Flag":
        return st.booleans()
    return st.integers(1, largest) if param.kind == "Size" else st.integers(0, 3)


def _word(param: Param) -> st.SearchStrategy[Any]:
    if param.kind == "Choice":
        return st.sampled_from(param.choices)
    return st.sampled_from(COMPUTE if param.name == "dtype" else STORED)


@st.composite
def _row(draw: st.DrawFn, op: Op, names: tuple[str, ...], largest: int) -> dict[str, Any]:
    """One set of numbers that fit each other: divisors divide, masks have keys, kernels fit their image."""
    row = {name: draw(_number(op.params[name], largest), label=name) for name in names}
    more = st.integers(0, largest)
    if op.name in ("attention", "attention_backward"):
        if "kv_heads" in row:
            row["heads"] = row["kv_heads"] * draw(st.integers(1, 4))
        if "window" in row:
            row["causal"] = True
        if row.get("causal") and "seq_kv" in row:
            row["seq_kv"] = row["seq_q"] + draw(more)
    elif op.name.startswith("conv"):
        for name in ("kernel", "stride", "dilation", "groups"):
            if name in row:
                row[name] = draw(st.integers(1, 4), label=name)
        for name in ("c_in", "c_out"):
            row[name] *= row.get("groups", 1)
        reach = row.get("dilation", 1) * (row.get("kernel", 3) - 1) + 1
        if op.name == "conv_transpose2d":
            reach += 2 * row.get("padding", 0)
        row["h"], row["w"] = max(row["h"], reach), max(row["w"], reach)
    elif op.name.startswith("max_pool"):
        for name in ("kernel", "stride"):
            if name in row:
                row[name] = draw(st.integers(1, 4), label=name)
        kernel = row.get("kernel", 3)
        if "padding" in row:  # a window holds at least one pixel
            row["padding"] = draw(st.integers(0, kernel // 2), label="padding")
        row["h"], row["w"] = max(row["h"], kernel), max(row["w"], kernel)
    elif op.name == "moe":
        row["experts"] = row["topk"] + draw(more)
        if "active" in row:
            row["active"] = draw(st.integers(row["topk"], min(row["experts"], row["tokens"] * row["topk"])))
    elif op.name == "topk":
        row["cols"] = row["k"] + draw(more)
    elif op.name in COLLECTIVES and "ranks" in row:
        row["ranks"] = draw(st.integers(2, 64))
    return row


@st.composite
def sweeps(
    draw: st.DrawFn,
    names: tuple[str, ...] = tuple(sorted(OPS)),
    needed: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
    least: int = 2,
    most: int = 4,
    largest: int = 64,
) -> tuple[Op, dict[str, Any], list[dict[str, Any]]]:
    """An op, its words (formats, choices), and several rows of numbers for the same parameters."""
    op = OPS[draw(st.sampled_from(names), label="op")]
    asked = [
        name
        for name, param in op.params.items()
        if name not in without and (param.required or name in needed or draw(st.booleans()))
    ]
    words = {name: draw(_word(op.params[name])) for name in asked if op.params[name].kind not in NUMBERS}
    numbers = tuple(name for name in asked if op.params[name].kind in NUMBERS)
    if "window" in numbers and "causal" not in numbers:
        numbers += ("causal",)
    rows = draw(st.lists(_row(op, numbers, largest), min_size=least, max_size=most))
    return op, words, rows


@st.composite
def calls(draw: st.DrawFn, **options: Any) -> tuple[Op, dict[str, Any]]:
    """One op and one complete set of arguments it accepts."""
    op, words, rows = draw(sweeps(least=1, most=1, **options))
    return op, words | rows[0]


rates = st.floats(1e9, 1e16, allow_nan=False)


def figure(unit: str, value: float) -> Figure:
    return Figure(unit, stated=value, source="a test")


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """A machine with a peak for every format, three caches over a main memory, a link, and any launch latency."""
    maths = ("fp64", "tf32", "bf16", "fp16", "fp8", "mxfp8", "mxfp6", "mxfp4", "nvfp4", "int8", "int4")
    base = draw(rates)
    peaks = {f"tensor.{name}": figure("flop/s", base * draw(st.floats(0.1, 10))) for name in maths}
    peaks |= {f"vector.{name}": figure("flop/s", draw(rates)) for name in ("fp64", "fp32", "int32")}
    peaks["special.fp32"] = figure("flop/s", draw(rates))
    outer = draw(rates)
    levels = [Level("hbm", figure("B/s", outer), figure("B", 2.0**36))]
    for name, size in (("l3", 2.0**28), ("l2", 2.0**24), ("l1", 2.0**16)):
        outer *= draw(st.floats(1, 8))
        levels.insert(0, Level(name, figure("B/s", outer), figure("B", size)))
    return Machine(
        name="any",
        kind="gpu",
        peaks=peaks,
        levels=tuple(levels),
        links=(Link("wire", figure("B/s", draw(rates))),),
        launch=figure("s", draw(st.floats(0, 1e-4))),
    )
