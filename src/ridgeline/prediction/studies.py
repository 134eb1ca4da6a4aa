"""Studies: well-known kernels and sweeps predicted on one machine, for the charts and tables that have a name."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from ..core.machine import MAIN, Machine
from ..core.roofline import batch_intensity
from ..core.units import show
from ..core.work import Work
from ..programs import ops
from . import whatif
from .ceilings import default_dtype, engine_for, usable_dtype
from .kernel_sets import Entry, KernelSet, kernel_name, predict_set, size_text
from .precisions import QUANTIZED
from .predict import Prediction
from .turning import critical_batch, layer_widths

ELEMENTS = 1e8  # of a vector
OF_BANDWIDTH = "of the memory bandwidth"  # what some published shares are of
BLAS_LEVELS = (
    dict.fromkeys(("copy", "scal", "axpy", "dot", "asum"), "level 1")
    | dict.fromkeys(("gemv", "symv", "ger"), "level 2")
    | {"gemm": "level 3"}
)
EXAMPLE_CHANGES = "efficiency=0.6,tile=64,tile,fuse=gelu,efficiency=0.8"


def roofline(
    machine: Machine,
    predictions: Prediction | Iterable[Prediction] | None = None,
    works: Iterable[Work] | None = None,
    dtype: str | None = None,
    ceilings: str | None = None,
    title: str | None = None,
) -> KernelSet:
    """The kernels to show under a machine's roofs: predictions, works, or three well-known ones."""
    title = title or ""  # the chart names what is on it
    if predictions is not None:
        listed = [predictions] if isinstance(predictions, Prediction) else predictions
        return KernelSet(machine, tuple(Entry("", each) for each in listed), dtype, ceilings, title)
    if works is None:
        name = dtype or default_dtype(machine)
        works = (
            ops.axpy(n=ELEMENTS, dtype=name),
            ops.conv2d(batch=32, c_in=64, c_out=64, h=56, w=56, kernel=3, dtype=name),
            ops.gemm(m=4096, n=4096, k=4096, dtype=name),
        )
    return predict_set(machine, (("", work) for work in works), dtype, ceilings, title)


def blas_levels(
    machine: Machine,
    dtype: str | None = None,
    sizes: Sequence[int] = (64, 256, 1024, 4096),
    ceilings: str | None = None,
) -> KernelSet:
    """BLAS levels 1 and 2 at one size each, GEMM at several, and the size at which GEMM reaches the ridge."""
    dtype = dtype or usable_dtype(machine, "fp32", ceilings)
    side = 16384
    works = {name: ops.find(name)(n=ELEMENTS, dtype=dtype) for name in ("copy", "scal", "axpy", "dot", "asum")}
    works |= {"gemv": ops.gemv(m=side, n=side, dtype=dtype), "symv": ops.symv(n=side, dtype=dtype)}
    works |= {"ger": ops.ger(m=side, n=side, dtype=dtype)}
    works |= {f"gemm {size}": ops.gemm(m=size, n=size, k=size, dtype=dtype) for size in sizes}
    # the intensity of an N x N x N product grows in proportion to N
    ridge = machine.ridge(engine_for(machine, dtype, ceilings), MAIN, ceilings)
    crossing = math.ceil(ridge / float(ops.gemm(m=1, n=1, k=1, dtype=dtype).intensity()) * (1 - 1e-12))
    sizes_shown = f"level 1 has n = {size_text(ELEMENTS)}, level 2 {side} x {side}"
    note = f"gemm N³ reaches the ridge at N = {crossing}; {sizes_shown}"
    title = f"BLAS levels in {dtype} on {machine.name}"
    return predict_set(
        machine, works.items(), dtype, ceilings, title, (note,), lambda name, work: BLAS_LEVELS.get(work.name, "")
    )


def deep_learning(
    machine: Machine,
    dtype: str | None = None,
    works: Mapping[str, Work] | Iterable[Work] | None = None,
    ceilings: str | None = None,
) -> KernelSet:
    """Deep-learning ops, grouped by category."""
    dtype = dtype or default_dtype(machine)
    if works is None:
        works = _deep_learning_ops(dtype)
    elif not isinstance(works, Mapping):
        works = {kernel_name(work): work for work in works}

    def category(name: str, work: Work) -> str:
        return ops.OPS[work.name].category if work.name in ops.OPS else "other"

    title = f"Deep-learning ops in {dtype} on {machine.name}"
    return predict_set(machine, works.items(), dtype, ceilings, title, (), category)


def _deep_learning_ops(dtype: str) -> dict[str, Work]:
    elements, rows, cols = 2**26, 16384, 4096
    heads = {"batch": 4, "heads": 32, "seq_q": 2048, "head_dim": 128, "dtype": dtype}
    layer = {"in_features": 4096, "out_features": 4096, "dtype": dtype}
    return {
        "relu": ops.relu(n=elements, dtype=dtype),
        "add": ops.add(n=elements, dtype=dtype),
        "gelu": ops.gelu(n=elements, dtype=dtype),
        "softmax": ops.softmax(rows=rows, cols=cols, dtype=dtype),
        "layernorm": ops.layernorm(rows=rows, cols=cols, dtype=dtype),
        "QK^T": ops.bmm(batch=128, m=2048, n=2048, k=128, dtype=dtype),
        "standard attention": ops.attention(variant="standard", **heads),
        "flash attention": ops.attention(**heads),
        "conv 3x3": ops.conv2d(batch=32, c_in=64, c_out=64, h=56, w=56, kernel=3, dtype=dtype),
        "linear B=1": ops.linear(batch=1, **layer),
        "linear B=256": ops.linear(batch=256, **layer),
        "gemm 4096³": ops.gemm(m=4096, n=4096, k=4096, dtype=dtype),
    }


@dataclass(frozen=True)
class Phases:
    """The same ops of one transformer layer at many rows and at one."""

    dtype: str
    hidden: int
    prefill: KernelSet
    decode: KernelSet


def phases(
    machine: Machine,
    dtype: str | None = None,
    tokens: int = 2048,
    hidden: int = 4096,
    inter: int = 14336,
    heads: int = 32,
    ceilings: str | None = None,
) -> Phases:
    """Prefill of `tokens` rows and decode of one row after as many tokens."""
    name = dtype or default_dtype(machine)

    def phase(title: str, rows: int) -> KernelSet:
        shape = {"heads": heads, "seq_q": rows, "seq_kv": tokens, "head_dim": hidden // heads}
        works = {
            "projection": ops.linear(batch=rows, in_features=hidden, out_features=hidden, dtype=name),
            "mlp": ops.linear(batch=rows, in_features=hidden, out_features=inter, dtype=name),
            "attention": ops.attention(batch=1, causal=True, dtype=name, **shape),
            "norm": ops.rmsnorm(rows=rows, cols=hidden, dtype=name),
        }
        return predict_set(machine, works.items(), name, ceilings, title, (), lambda label, work: label)

    return Phases(name, hidden, phase(f"prefill, {tokens} tokens", tokens), phase("decode, 1 token", 1))


def common_ops(machine: Machine, dtype: str | None = None) -> KernelSet:
    """Vector add, axpy, dot, sum, softmax, layernorm and two GEMMs."""
    dtype = dtype or usable_dtype(machine, "fp32")
    side = 8192.0
    works = {
        "vector add": ops.add(ELEMENTS, dtype=dtype),
        "axpy": ops.axpy(ELEMENTS, dtype=dtype),
        "dot": ops.dot(ELEMENTS, dtype=dtype),
        "sum": ops.sum(ELEMENTS, dtype=dtype),
        "softmax": ops.softmax(side, side, dtype=dtype),
        "layernorm": ops.layernorm(side, side, dtype=dtype),
        "gemm 128": ops.gemm(128, 128, 128, dtype=dtype),
        "gemm 4096": ops.gemm(4096, 4096, 4096, dtype=dtype),
    }
    return predict_set(machine, works.items(), dtype, title=f"common operations in {dtype} on {machine.name}")


def blas_ops(machine: Machine, dtype: str | None = None) -> KernelSet:
    """BLAS levels 1, 2 and 3, each op once."""
    dtype = dtype or usable_dtype(machine, "fp32")
    side = 4096.0
    vector = ("copy", "scal", "axpy", "dot", "nrm2", "asum")
    works = {name: ops.find(name)(ELEMENTS, dtype=dtype) for name in vector}
    sides = {"gemv": 2, "symv": 1, "trmv": 1, "ger": 2, "gemm": 3, "symm": 2, "syrk": 2, "trmm": 2}
    works |= {name: ops.find(name)(*[side] * count, dtype=dtype) for name, count in sides.items()}
    return predict_set(machine, works.items(), dtype, title=f"BLAS in {dtype} on {machine.name} (n = 1e8, 4096)")


def typical_ops(machine: Machine, dtype: str | None = None) -> KernelSet:
    """Eight ops that are common in inference."""
    dtype = dtype or usable_dtype(machine, "fp16")
    works = {
        "gemm 4096": ops.gemm(4096, 4096, 4096, dtype=dtype),
        "gemv 8192x28672": ops.gemm(1, 28672, 8192, dtype=dtype),
        "unary elementwise (relu)": ops.relu(ELEMENTS, dtype=dtype),
        "binary elementwise (add)": ops.add(ELEMENTS, dtype=dtype),
        "softmax": ops.softmax(8192, 8192, dtype=dtype),
        "rmsnorm": ops.rmsnorm(8192, 8192, dtype=dtype),
        "attention, unfused, S 4096 D 128": ops.attention(1, 32, 4096.0, 128.0, variant="standard", dtype=dtype),
        "attention, flash, S 4096 D 128": ops.attention(1, 32, 4096.0, 128.0, dtype=dtype),
    }
    return predict_set(machine, works.items(), dtype, title=f"typical operations in {dtype} on {machine.name}")


def batches(machine: Machine, dtype: str | None = None, fan_in: float = 4096, fan_out: float = 4096) -> KernelSet:
    """A linear layer at growing batches, and the batch from which it is compute-bound."""
    dtype = dtype or usable_dtype(machine, "fp16")
    width, _, result = layer_widths(dtype)
    sizes = (1, 4, 16, 32, 64, 128, 256, 512, 1024)
    works = {f"batch {size}": ops.linear(size, fan_in, fan_out, dtype=dtype) for size in sizes}
    layer = critical_batch(fan_in, fan_out, machine, dtype=dtype)
    at_one = show(float(batch_intensity(1, fan_in, fan_out, width, result=result)))
    form = "(2/d) B / (1 + B/in + B/out)" if result == width else "2B / (d + B (d/out + e/in)), e bytes per result"
    notes = (
        f"weights {show(fan_in * fan_out * width, 'B')}; AI(B) = {form}, {at_one} at batch 1",
        "never compute-bound: the AI limit is below the ridge" if layer.never else layer.turning.text,
        f"AI limit for large batch: {show(layer.saturation)} FLOP/B",
    )
    title = f"linear {fan_in:.0f} to {fan_out:.0f} in {dtype} on {machine.name}"
    return predict_set(machine, works.items(), dtype, title=title, notes=notes)


@dataclass(frozen=True)
class Published:
    """The share of a ceiling that published benchmarks of a kernel report."""

    name: str
    op: str
    arguments: Mapping[str, Any]
    low: float
    high: float
    of: str
    vendors: tuple[str, ...] = ()  # of the GPUs it runs on; those of any vendor where none is named
    architecture: str = ""  # the one that it was written for

    def unfit(self, machine: Machine) -> str:
        """Why it says nothing of a machine; empty where it may."""
        if machine.kind != "gpu":
            return "GPUs"
        if self.vendors and machine.vendor not in self.vendors:
            return f"{' and '.join(self.vendors)} GPUs"
        if self.architecture and machine.architecture != self.architecture:
            return f"{self.architecture.capitalize()} GPUs"
        return ""


@cache
def published() -> tuple[Published, ...]:
    text = Path(__file__).with_name("production_kernels.toml").read_text(encoding="utf-8")
    return tuple(Published(**row) for row in tomllib.loads(text)["kernel"])


def production_kernels(machine: Machine) -> KernelSet:
    """AI and bound of the production kernels that run on a machine; the shares of the ceiling are from published benchmarks."""
    fit = [row for row in published() if not row.unfit(machine)]
    works = ((row.name, ops.find(row.op)(**row.arguments)) for row in fit)
    others = [f"{row.name} left out: it runs on {row.unfit(machine)}" for row in published() if row not in fit]
    notes = [*(["shares are from published benchmarks of such kernels; AI is computed"] if fit else []), *others]
    study = predict_set(machine, works, title=f"production kernels on {machine.name}", notes=notes)
    beyond = {row.name for row in fit if row.of == OF_BANDWIDTH}
    beyond &= {entry.name for entry in study.entries if str(entry.prediction.bounds[0].bound) == "compute"}
    kept = tuple(entry for entry in study.entries if entry.name not in beyond)
    left_out = tuple(
        f"{name} left out: its share is of the bandwidth, and it is compute-bound here" for name in sorted(beyond)
    )
    return replace(study, entries=kept, notes=(*study.notes, *left_out))


@dataclass(frozen=True)
class Changes:
    """A chain of priced changes, and whether it is the built-in example."""

    stops: tuple[whatif.PricedCase, ...]
    title: str
    example: bool = False


def changes(machine: Machine, stops: Sequence[whatif.PricedCase] | None = None, title: str | None = None) -> Changes:
    """The chain given, else a GEMM with small tiles at 30 % of its roof and five kinds of change."""
    chain = tuple(stops if stops is not None else _example(machine))
    title = title or f"{chain[0].case.program.name}: predicted gain of {'a change' if len(chain) == 2 else 'changes'}"
    return Changes(chain, title, stops is None)


def _example(machine: Machine) -> list[whatif.PricedCase]:
    dtype = default_dtype(machine)
    values = {"m": 4096, "n": 4096, "k": 4096, "dtype": dtype, "traffic": "tiled", "tile": 16}
    case = whatif.Case(machine, ops.gemm, values, options={"efficiency": 0.3})
    quantized = [f",quantize={name}" for name in QUANTIZED if name in machine.dtypes() and name != dtype]
    return whatif.apply(case, whatif.parse(EXAMPLE_CHANGES + "".join(quantized[:1])))
