"""The op that a profiled kernel ran, as far as its range, its name and its counters show it.

Two sources are trusted. A range that records an operator call with its sizes, as PyTorch's `emit_nvtx` writes it. A range
or name that spells an op and sizes (`gemm m=4096 n=4096 k=128`, `softmax_bf16_16384x4096`), where the counted FLOPs or
bytes agree with what the op needs. Everything else stays a kernel without a prediction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..core.dtypes import ALIASES, TABLE
from ..core.errors import RidgelineError
from ..core.observation import Observation
from ..core.timeline import Call, Tensor
from ..core.work import Work
from ..programs.aten import count
from ..programs.ops import OPS, Op, op_name
from .kernel_families import SERVED_BY, kernel_family, step_family

MAX_TEXT = 400  # characters of a range that are read
FLOPS_AGREE = (0.95, 1.5)  # counted over needed; tiles add padding
BYTES_AGREE = (0.45, 1.6)  # an output may stay in cache
RECORDED, NAMED = "recorded call", "name and counters"

_CALL = re.compile(r"(?P<name>[\w:]+), (?:seq|op_id) = .*?sizes = (?P<sizes>\[[\d\[\], ]*\])")
_LIST = re.compile(r"\[([\d, ]*)\]")
_GIVEN = re.compile(r"\b([a-z_]+)\s*=\s*(\d{1,15})\b")
_NUMBERS = re.compile(r"(?<![a-z0-9])(\d{1,12}(?:\s*[x*]\s*\d{1,12})*)(?![a-z0-9])")
_WORD = re.compile(r"[a-z][a-z0-9]*")


@dataclass(frozen=True)
class KnownOp:
    """Work of a kernel, its op as text, and what shows it."""

    work: Work
    text: str
    shown_by: str


def known_op(item: Observation) -> KnownOp | None:
    """The op of a kernel, None where nothing reliable shows it."""
    dtype = _dtype(item.flops)
    for text in (*reversed(item.path), item.name):
        call = _recorded(text[:MAX_TEXT], dtype)
        if call is not None and _same_family(item, call.work):
            return call
    for text in dict.fromkeys((item.name, *reversed(item.path))):
        for work in _spelled(text[:MAX_TEXT].lower(), dtype):
            if _agrees(item, work) and _same_family(item, work):
                return KnownOp(work, _text(work), NAMED)
    return None


def _dtype(flops: Mapping[str, float]) -> str:
    """The format of the largest arithmetic, tensor units before vector units; empty where nothing was counted."""
    counted = {engine: amount for engine, amount in flops.items() if amount > 0}
    tensor = {engine: amount for engine, amount in counted.items() if engine.startswith("tensor")}
    chosen = tensor or counted
    return max(chosen, key=lambda engine: chosen[engine]).partition(".")[2] if chosen else ""


@lru_cache(maxsize=4096)
def _recorded(text: str, dtype: str) -> KnownOp | None:
    """A call that a range records: `aten::mm, seq = 3, sizes = [[8, 16], [16, 4]]`."""
    match = _CALL.match(text)
    if match is None:
        return None
    shapes = [tuple(int(size) for size in row.split(",") if size.strip()) for row in _LIST.findall(match["sizes"])]
    tensors = tuple(Tensor(shape, dtype or "fp32") for shape in shapes if shape)
    counted = count(Call(match["name"], tensors), leaf=True)
    if counted.work is None:
        return None
    sizes = " ".join("x".join(map(str, shape)) for shape in shapes if shape)
    return KnownOp(counted.work, f"{match['name']} {sizes}", RECORDED)


@lru_cache(maxsize=4096)
def _spelled(text: str, dtype: str) -> tuple[Work, ...]:
    """Works that a text may mean; kernels of one name ask for the same ones."""
    return tuple(_works(text, dtype))


def _works(text: str, dtype: str) -> Iterator[Work]:
    """An op in the words of a text, sizes as `m=8` or as numbers in the order of the op's sizes."""
    words = _WORD.findall(text.replace("_", " "))
    given = {name: int(value) for name, value in _GIVEN.findall(text)}
    formats = [word for word in words if _is_format(word)]
    ops = dict.fromkeys(filter(None, (op_name(word) for word in (*_names(text), *words) if word)))
    for name in ops:
        op = OPS[name]
        sizes = [param.name for param in op.params.values() if param.kind == "Size" and param.required]
        for values in (given, *_numbered(text, sizes)):
            if set(sizes) <= set(values):
                for chosen in dict.fromkeys((*formats, dtype, op.params["dtype"].default)):
                    if chosen and (work := _made(op, {key: values[key] for key in sizes}, chosen)) is not None:
                        yield work


def _names(text: str) -> Iterator[str]:
    """Names of ops that have several words, such as `stream_triad`."""
    parts = re.findall(r"[a-z][a-z0-9]*", text)
    joined = text.replace(" ", "_")
    return (name for name in OPS if "_" in name and len(parts) > 1 and name in joined)


def _is_format(word: str) -> bool:
    return ALIASES.get(word, word) in TABLE


def _numbered(text: str, sizes: list[str]) -> Iterator[dict[str, int]]:
    """Numbers of a text as the sizes of an op, in order; a single one may be that of all sizes."""
    for group in _NUMBERS.findall(text.replace("_", " ")):
        numbers = [int(part) for part in re.split(r"\s*[x*]\s*", group)]
        if len(numbers) == len(sizes):
            yield dict(zip(sizes, numbers, strict=True))
        elif len(numbers) == 1:
            yield dict.fromkeys(sizes, numbers[0])


def _made(op: Op, sizes: Mapping[str, int], dtype: str) -> Work | None:
    try:
        return op(**sizes, dtype=dtype)
    except RidgelineError:
        return None


def _agrees(item: Observation, work: Work) -> bool:
    """Whether the counters are those of the work: FLOPs of a product, else bytes at the main memory."""
    matrix = sum(float(np.asarray(value)) for (engine, _), value in work.by_engine().items() if engine == "matrix")
    if matrix:
        return any(_within(amount / matrix, FLOPS_AGREE) for amount in item.flops.values())
    moved = next((item.bytes[level] for level in ("hbm", "gddr", "main") if level in item.bytes), None)
    needed = float(np.asarray(work.bytes))
    return moved is not None and needed > 0 and _within(moved / needed, BYTES_AGREE)


def _within(ratio: float, limits: tuple[float, float]) -> bool:
    return limits[0] <= ratio <= limits[1]


def _same_family(item: Observation, work: Work) -> bool:
    """Whether the kernel's own name allows the op."""
    family, step = kernel_family(item), step_family(work)
    return not family or not step or step in SERVED_BY.get(family, {family})


def _text(work: Work) -> str:
    sizes = " ".join(f"{name}={int(value)}" for name, value in work.shape.items() if isinstance(value, float))
    return f"{work.name} {sizes} {work.dtype}"
