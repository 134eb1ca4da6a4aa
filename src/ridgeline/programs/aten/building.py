"""Work of kernels that stream: bytes of every tensor, flops, and the kernel that the families price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from ...core.dtypes import label
from ...core.machine import MAIN
from ...core.timeline import Tensor
from ...core.work import READ, WRITE, Array, Kernel, Work
from .arguments import Missing, elements
from .formats import REAL, Format, format_of, known, width

Operands = Mapping[str, Tensor | tuple[float, str]]  # a tensor moved once, or (elements, format)
BLOCK = 1024.0  # threads of what the size `blocks` of a kernel counts


def streamed(
    name: str,
    read: Operands,
    write: Operands,
    dtype: Format,
    flops: float = 0.0,
    special: float = 0.0,
    *,
    op: str = "",
    like: str = "",
    family: str = "stream",
    launches: float = 1.0,
    count: float = 0.0,
    further: Mapping[str, Array] | None = None,
    notes: tuple[str, ...] = (),
) -> Work:
    """A pass over tensors. `op` names the timed op whose kernel it runs, `like` one that is built alike, where its own was
    never timed; `count` the elements that are handled, `further` the sizes that only this kernel has."""
    moves = {(MAIN, tensor, READ): size for tensor, operand in read.items() if (size := _bytes(operand))}
    moves |= {(MAIN, tensor, WRITE): size for tensor, operand in write.items() if (size := _bytes(operand))}
    handled = count or max([_count(operand) for operand in (*read.values(), *write.values())], default=0.0)
    arithmetic = dtype.arithmetic
    timed = label(arithmetic if flops else dtype.copied)
    sizes: dict[str, Array] = {
        "read": sum(size for (_, _, way), size in moves.items() if way == READ),
        "written": sum(size for (_, _, way), size in moves.items() if way == WRITE),
        "flops": flops, "special": special, "elements": handled, "launches": launches, **(further or {}),
    }  # fmt: skip
    return Work(
        counts={("vector", arithmetic, name): flops} if flops else {},
        moves=moves,
        waits={"launch": launches},
        special=special,
        name=name,
        family=family,
        dtype=arithmetic,
        shape={"n": handled},
        formulas={key: _formula(read if key[2] == READ else write, key[1]) for key in moves},
        notes=notes,
        kernels=(Kernel(family, sizes, op or name, timed, like or _built_like(family, sizes)),),
    )


def _built_like(family: str, sizes: Mapping[str, Array]) -> str:
    """The timed op that does most alike: sums, copies, fills, functions of one tensor or of several."""
    if family == "reduce":
        return "sum"
    if not sizes["flops"]:
        return "stream_copy" if sizes["read"] else "fill"
    if not sizes["read"]:
        return "dropout"
    return "exp" if sizes["special"] else "relu" if sizes["read"] <= sizes["written"] else "add"


def with_moves(
    work: Work, read: Operands | None = None, write: Operands | None = None, without: tuple[str, ...] = ()
) -> Work:
    """The same kernels with tensors added to the traffic, or left out of it."""
    moves = {key: size for key, size in work.moves.items() if key[1] not in without}
    for way, operands in ((READ, read), (WRITE, write)):
        for tensor, operand in (operands or {}).items():
            moves[MAIN, tensor, way] = _bytes(operand)
    formulas = {key: text for key, text in work.formulas.items() if key[-1] not in (READ, WRITE) or key in moves}
    return replace(work, moves=moves, formulas=formulas)


def after(name: str, *works: Work) -> Work:
    """Kernels that one operator runs one after the other, under its name."""
    total = works[0]
    for work in works[1:]:
        total = total + work
    return replace(total, name=name, family=works[0].family, dtype=works[0].dtype)


def row_format(tensor: Tensor) -> str:
    """The format of rows that are normalised; refuses whole and complex numbers."""
    row = known(tensor)
    if row.kind != REAL:
        raise Missing(f"norms of {row.name} are not counted")
    return row.name


def rows_and_columns(tensor: Tensor, dimensions: int = 1) -> tuple[int, int]:
    """How many rows the last so many dimensions form, and how long they are."""
    cut = len(tensor.shape) - dimensions
    return prod(tensor.shape[:cut]), prod(tensor.shape[cut:])


def rows_along(tensor: Tensor, dimension: int) -> tuple[int, int]:
    """How many rows lie along a dimension, and how long they are."""
    rank = len(tensor.shape)
    if not -max(rank, 1) <= dimension < max(rank, 1):
        raise Missing(f"dimension {dimension} is not one of {tensor.shape}")
    cols = tensor.shape[dimension] if rank else 1
    return elements(tensor) // max(cols, 1), cols


def named(names: str, *tensors: Tensor | None) -> dict[str, Tensor | tuple[float, str]]:
    """Tensors by the names given for them, those that are there."""
    return {name: tensor for name, tensor in zip(names.split(), tensors, strict=True) if tensor is not None}


def like(tensor: Tensor, **changes: Any) -> Tensor:
    return replace(tensor, **changes)


def distinct(tensor: Tensor) -> int:
    """Elements that are stored: a dimension of stride 0 repeats what is there."""
    if not tensor.strides:
        return elements(tensor)
    return prod(size for size, stride in zip(tensor.shape, tensor.strides, strict=True) if stride != 0)


def _bytes(operand: Tensor | tuple[float, str]) -> float:
    if isinstance(operand, Tensor):
        return distinct(operand) * width(operand)
    row = format_of(operand[1])
    return float(operand[0]) * (row.bytes if row else 0.0)


def _count(operand: Tensor | tuple[float, str]) -> float:
    return float(elements(operand)) if isinstance(operand, Tensor) else float(operand[0])


def _formula(operands: Operands, name: str) -> str:
    operand = operands[name]
    if isinstance(operand, Tensor):
        return f"{' x '.join(map(str, operand.shape)) or '1'} x {known(operand).bytes:g} B"
    return f"{operand[0]:g} {operand[1]}"
