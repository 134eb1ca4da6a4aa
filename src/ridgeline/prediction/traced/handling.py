"""Instructions of compiled kernels beside the arithmetic that is counted, in special functions that take a GPU as long.

    gelu        the series of the error function, per element
    row         raised to a power of two, which is the block that Triton gives a row, x the figure of its kind
    long row    more than a block holds: the kernel loops over pieces of two blocks, once to reduce and once for the results
    operand     a further one of a softmax, such as a mask or a bias
    odd row     one that does not begin at a multiple of 16 B: its elements are loaded one by one

The figures are data (`fusion` in `machines/defaults.toml`, from benchmarks/programs/compiled_kernels.py). They are part of expected
times only: a floor does not know how a kernel is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, log2, prod

from ...core.dtypes import dtype as dtype_row
from ...core.timeline import Call
from ...core.trace import TracedOp
from ...machines.defaults import defaults
from ...programs.aten.arguments import base_name

SOFTMAXES = ("_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "_safe_softmax")
WEIGHTS = ("_softmax", "_softmax_backward_data", "_safe_softmax")
ERROR_FUNCTIONS = ("gelu", "gelu_backward", "erf")
VECTOR = 16  # bytes that a thread loads at once


def reduces_rows(call: Call) -> bool:
    """Whether what is summed lies next to each other: softmax, norms of rows, sums over the last dimensions."""
    base = base_name(call.name)
    if base in SOFTMAXES or "layer_norm" in base or "rms_norm" in base:
        return True
    dims = next((arg for arg in call.args[1:] if isinstance(arg, tuple)), None)
    if not call.tensors or not dims or not all(isinstance(dim, int) for dim in dims):
        return False
    rank = len(call.tensors[0].shape)
    return sorted(dim % rank for dim in dims if rank) == list(range(rank - len(dims), rank))


def handling(op: TracedOp, elements: float, rows: float) -> float:
    """Of one call, over `elements` in `rows` results."""
    call, figures = op.site.call, defaults("fusion")
    base = base_name(call.name)
    if base in ERROR_FUNCTIONS:
        return figures["gelu"] * elements
    if not rows or elements <= rows or not call.tensors or not reduces_rows(call):
        return 0.0
    width = elements / rows
    kind = "row_softmax" if base in WEIGHTS else "row_norm" if "norm" in base else "row_sum"
    long = width > figures["row_block"]
    padded = 2 * figures["row_block"] * ceil(width / figures["row_block"] / 2) if long else 2.0 ** ceil(log2(width))
    each = padded * figures[kind] * (figures["row_looped"] if long else 1.0)
    largest = max(call.tensors, key=lambda tensor: prod(tensor.shape))
    odd = width * dtype_row(largest.dtype or "fp32").bytes % VECTOR != 0
    extra = max(figures["row_odd"], figures["long_row_odd"] * each if long else 0.0)
    return rows * (each + (extra if odd else 0.0))


def operand_factor(names: Iterable[str], operands: int) -> float:
    """Of the handling of a kernel with these operators that reads so many tensors."""
    weighs = any(name in WEIGHTS for name in names)
    return 1 + defaults("fusion")["row_operand"] if weighs and operands > 1 else 1.0
