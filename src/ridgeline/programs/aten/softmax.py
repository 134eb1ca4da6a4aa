"""Softmaxes over rows or across them, and their gradients.

Kernels of rows keep a row on chip: read once, written once. Across rows elements are read in several passes.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log2, prod

from ...core.families.vector import CORE_BLOCKS
from ...core.timeline import Tensor
from ...core.work import Kernel, Work
from .. import ops
from ..ops.strided import STRIDED
from .arguments import Arguments, elements
from .building import after, named, row_format, rows_along, rows_and_columns, streamed, with_moves
from .counted import Rule
from .elementwise import order
from .formats import known
from .memory import copied, rows_first

# Across rows: threads of a block, columns up to which several of them share a column, blocks that a core holds at once.
MAX_THREADS, MAX_SHARING, MAX_BLOCKS = 1024, 64, 32


def _softmax(arguments: Arguments) -> Work:
    """_softmax(x, dim, half_to_float); the logarithm subtracts the log of the sum in place of dividing: 5 flops too."""
    x = arguments.tensor(0)
    masked, plain = arguments.base == "_masked_softmax", arguments.base in ("_softmax", "_log_softmax")
    last = masked and arguments.at(2) is None  # where the dimension may be left out
    rows, cols = rows_and_columns(x) if last else rows_along(x, arguments.integer(2 if masked else 1, "dim"))
    out = "fp32" if plain and arguments.flag(2, "half_to_float", False) else None
    work = ops.softmax(rows=rows, cols=cols, dtype=row_format(x), out_dtype=out)
    if masked:
        return with_moves(work, named("mask", arguments.optional(1)))
    work = _across(work, x, arguments.integer(1, "dim"), "softmax_across", 3.0)
    return replace(work, name="log_softmax") if arguments.base == "_log_softmax" else work


def _across(work: Work, x: Tensor, dimension: int, op: str, passes: float) -> Work:
    """Over elements that do not lie next to each other: a thread, or a few of a block, goes over them one after the other.

    They are read in so many passes (over one or two tensors), by blocks that have a core to themselves.
    """
    length, inner = x.shape[dimension], prod(x.shape[dimension % len(x.shape) + 1 :]) if x.shape else 1
    if inner <= 1 or not elements(x):
        return work
    size = float(elements(x))
    along = min(inner, MAX_THREADS)
    shared = 2 ** int(log2(min(MAX_THREADS / along, length))) if along <= MAX_SHARING and length >= MAX_SHARING else 1
    columns = size / length / inner * ceil(inner / along)
    moved = size * known(x).bytes
    sizes = {
        "read": passes * moved,
        "written": moved,
        "flops": 5 * size,
        "special": size,
        "elements": size,
        "launches": 1.0,
    }
    of_core = max(along * shared / MAX_THREADS, 1 / MAX_BLOCKS)  # that a block takes
    sizes |= {"steps": length / shared, "blocks": CORE_BLOCKS * columns * of_core, "piece": float(length)}
    work = replace(work, kernels=tuple(Kernel("stream", sizes, op, kernel.dtype, "exp") for kernel in work.kernels))
    plain = rows_first(x)
    if order(x) == order(plain):
        return work
    # brought into order first: a kernel more, and no more work than the softmax has
    return replace(work, kernels=(*copied("contiguous", x, plain).kernels, *work.kernels))


def _safe_softmax(arguments: Arguments) -> Work:
    """_safe_softmax(x, dim): the softmax, and zeros for rows that a mask leaves nothing of.

    Four kernels: the softmax; which elements are minus infinity; whether all of a row are; a choice of zero or the result.
    """
    x = arguments.tensor(0)
    rows, cols = rows_along(x, arguments.integer(1, "dim"))
    size, row = float(rows * cols), known(x)
    flags: tuple[float, str] = (size, "bool")
    masked: tuple[float, str] = (float(rows), "bool")
    return after(
        "softmax",
        _softmax(arguments),
        streamed("isneginf", {"x": x}, {"flags": flags}, row),
        streamed("all", {"flags": flags}, {"rows": masked}, known(Tensor((), "bool")), family="reduce"),
        streamed("where", {"rows": masked, "y": (size, x.dtype)}, {"z": (size, x.dtype)}, row, op=STRIDED, count=size),
    )


def _softmax_backward(arguments: Arguments) -> Work:
    """_softmax_backward_data(dy, y, dim, dtype of x); of the logarithm dx = dy - exp(y) sum dy: 4 flops too, one of them exp."""
    dy, y = arguments.tensor(0), arguments.tensor(1)
    rows, cols = rows_along(y, arguments.integer(2, "dim"))
    of_logarithm = arguments.base.startswith("_log")
    gradient = ops.log_softmax_backward if of_logarithm else ops.softmax_backward
    work = gradient(rows=rows, cols=cols, dtype=row_format(dy))
    work = _across(work, y, arguments.integer(2, "dim"), "softmax_across_backward", 4.0)
    if arguments.outputs and arguments.outputs[0].dtype != dy.dtype:
        work = with_moves(work, write={"dx": arguments.outputs[0]})
    return work


RULES: dict[str, Rule] = {
    "_softmax": _softmax, "_log_softmax": _softmax, "_safe_softmax": _safe_softmax, "_masked_softmax": _softmax,
    "_softmax_backward_data": _softmax_backward, "_log_softmax_backward_data": _softmax_backward,
}  # fmt: skip
