"""Instructions of compiled kernels beside the arithmetic that is counted, in special functions that take a GPU as long.

    gelu        the series of the error function, per element
    row         raised to a power of two, which is the block that Triton gives a row, x the figure of its kind
    long row    more than a block holds: the kernel loops over pieces of two blocks, once to reduce and once for the results
    operand     a further one of a softmax, such as a mask or a bias
    odd row     one that does not begin at a multiple of 16 B: its elements are loaded one by one
    layout      a norm of rows that are read or written in another order: addresses are computed for every element
    window      of an average, per element, those outside the image too: the kernel visits all of them
    largest     of a window, per element of it; the gradient, per window that an element may be the largest of

The figures are data (`fusion` in `machines/defaults.toml`, from benchmarks/programs/compiled_kernels.py). They are part of expected
times only: a floor does not know how a kernel is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, log2, prod

from ...core.timeline import Call
from ...core.trace import TracedOp
from ...machines.defaults import defaults
from ...programs.aten.arguments import base_name
from ...programs.aten.formats import format_of

SOFTMAXES = ("_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "_safe_softmax")
WEIGHTS = ("_softmax", "_softmax_backward_data", "_safe_softmax")
COPIES = ("clone", "roll")
ERROR_FUNCTIONS = ("gelu", "gelu_backward", "erf")
VECTOR = 16  # bytes that a thread loads at once
MAX_UNROLLED = 25  # elements of a window that a kernel writes out one by one


def reduces_rows(call: Call) -> bool:
    """Whether what is summed lies next to each other: softmax, norms of rows, sums over the last dimensions."""
    base = base_name(call.name)
    if base in SOFTMAXES or "layer_norm" in base or "rms_norm" in base:
        return True
    dims = next((arg for arg in call.args[1:] if isinstance(arg, tuple)), None) if "pool" not in base else None
    if not call.tensors or not dims or not all(isinstance(dim, int) for dim in dims):
        return False
    rank = len(call.tensors[0].shape)
    return sorted(dim % rank for dim in dims if rank) == list(range(rank - len(dims), rank))


def _window(call: Call) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sides of a pool's window and its steps; a number that is given once is that of all sides, and steps are as long unless given."""
    sides = int(base_name(call.name).partition("pool")[2][0])
    given = [arg for arg in call.args if isinstance(arg, tuple)]
    kernel, stride = (arg * sides if len(arg) == 1 else arg for arg in (*given, (), ())[:2])
    return kernel, stride or kernel


def averaged_window(call: Call) -> tuple[int, bool]:
    """Elements of the window that a pool averages, and whether windows lie side by side; 0 of other calls."""
    if not base_name(call.name).startswith("avg_pool") or base_name(call.name).endswith("backward"):
        return 0, False
    kernel, stride = _window(call)
    return prod(kernel) if kernel else 0, stride == kernel


def largest_loads(call: Call) -> int:
    """Loads per result of a pool that keeps the largest elements, or of its gradient; 0 of other calls.

    The gradient visits, for each element of the image, the windows that hold it: k / s of them along a side, rounded up.
    """
    base = base_name(call.name)
    if not base.startswith("max_pool"):
        return 0
    kernel, stride = _window(call)
    if not base.endswith("backward"):
        return int(prod(kernel))
    return prod(ceil(side / step) for side, step in zip(kernel, stride, strict=True))


def handling(op: TracedOp, elements: float, rows: float) -> float:
    """Of one call, over `elements` in `rows` results."""
    call, figures = op.site.call, defaults("fusion")
    base = base_name(call.name)
    if base in ERROR_FUNCTIONS:
        return figures["gelu"] * elements
    if loads := largest_loads(call):
        return rows * loads * figures["largest_gradient" if base.endswith("backward") else "largest"]
    window, _ = averaged_window(call)
    if window > MAX_UNROLLED:
        return figures["window"] * rows * window
    if not rows or elements <= rows or not call.tensors or not reduces_rows(call):
        return 0.0
    width = elements / rows
    kind = "row_softmax" if base in WEIGHTS else "row_norm" if "norm" in base else "row_sum"
    long = width > figures["row_block"]
    padded = 2 * figures["row_block"] * ceil(width / figures["row_block"] / 2) if long else 2.0 ** ceil(log2(width))
    each = padded * figures[kind] * (figures["row_looped"] if long else 1.0)
    widest = max(call.tensors, key=lambda tensor: prod(tensor.shape))
    form = format_of(widest.dtype or "fp32")
    odd = form is not None and width * form.bytes % VECTOR != 0
    extra = max(figures["row_odd"], figures["long_row_odd"] * each if long else 0.0)
    return rows * (each + (extra if odd else 0.0))


def operand_factor(names: Iterable[str], operands: int) -> float:
    """Of the handling of a kernel with these operators that reads so many tensors."""
    weighs = any(name in WEIGHTS for name in names)
    return 1 + defaults("fusion")["row_operand"] if weighs and operands > 1 else 1.0


def layout_factor(names: Iterable[str]) -> float:
    """Of the handling of a kernel with these operators: a norm with a copy into another order."""
    listed = list(names)
    moves = any(name in COPIES for name in listed) and any("norm" in name for name in listed)
    return defaults("fusion")["row_moved"] if moves else 1.0
