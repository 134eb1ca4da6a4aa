"""Reductions over all elements or some dimensions: everything read once, the results written once."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...core.timeline import Tensor
from ...core.work import Kernel, Work
from ..ops.kernels import column_kernel, row_kernel
from .arguments import Arguments, Missing, elements
from .building import streamed
from .counted import Rule
from .elementwise import dense, elementwise, order
from .formats import REAL, Format, known

# Flops per element, special functions per element, place of the dimensions, results per place.
SUM, ARG, SQUARED = (1.0, 0.0), (1.0, 0.0), (2.0, 0.0)
COSTS: dict[str, tuple[float, float]] = {
    "sum": SUM, "mean": SUM, "nansum": SUM, "prod": SUM, "amax": SUM, "amin": SUM, "max": SUM, "min": SUM, "all": SUM,
    "any": SUM, "argmax": ARG, "argmin": ARG, "count_nonzero": SUM, "aminmax": (2.0, 0.0), "_is_all_true": SUM,
    "_is_any_true": SUM, "norm": SQUARED, "linalg_vector_norm": SQUARED, "var": (4.0, 0.0), "std": (4.0, 0.0),
    "var_mean": (4.0, 0.0), "std_mean": (4.0, 0.0), "logsumexp": (4.0, 1.0), "median": SUM, "nanmedian": SUM, "mode": SUM,
}  # fmt: skip
DIMENSIONS = {"norm": 2, "linalg_vector_norm": 2}  # else 1
KEYWORD_ONLY = ("sum", "mean", "prod", "max", "min", "all", "any", "median", "nanmedian")  # a short call reduces all
FULL = {
    "mean": "sum",
    "nansum": "sum",
    "linalg_vector_norm": "nrm2",
    "norm": "nrm2",
}  # ops that are timed of these kernels
ONE_VALUE = {
    "sum",
    "mean",
    "nansum",
    "prod",
    "amax",
    "amin",
    "all",
    "any",
    "norm",
    "linalg_vector_norm",
}  # as row sums are
PAIRS = {"var_mean", "std_mean", "aminmax"}
PLACES_TOO = {"max", "min", "median", "nanmedian", "mode"}  # with a dimension: values and 64-bit places
LOGICAL = {"all", "any", "_is_all_true", "_is_any_true"}
INDICES = {"argmax", "argmin", "count_nonzero"}


def dimensions(arguments: Arguments, tensor: Tensor, name: str) -> tuple[int, ...]:
    """The dimensions that are reduced; all where none are given."""
    rank, place = len(tensor.shape), DIMENSIONS.get(name, 1)
    every = tuple(range(rank))
    value = arguments.at(place)
    short = name in KEYWORD_ONLY and len(arguments) <= (2 if name in ("sum", "mean", "prod") else 1)
    if short or value is None or isinstance(value, bool) or len(arguments) <= place:
        return every
    given = arguments.integers(place, "dim")
    if any(not -max(rank, 1) <= dimension < max(rank, 1) for dimension in given):
        raise Missing(f"dimensions {given} are not those of {tensor.shape}")
    return tuple(sorted({dimension % rank for dimension in given})) if given and rank else every


def _result_format(name: str, row: Format, arguments: Arguments) -> str:
    if arguments.outputs:
        return arguments.outputs[0].dtype
    if name in LOGICAL:
        return "bool"
    if name in INDICES:
        return "int64"
    return "int64" if name in ("sum", "prod", "nansum") and row.kind < REAL else row.name


def reduction(arguments: Arguments) -> Work:
    """n flops per element read less those that the first element of each result saves."""
    name = arguments.base
    if name in ("max", "min") and isinstance(arguments.at(1), Tensor):
        return _binary(arguments)
    x = arguments.tensor(0)
    row = known(x)
    reduced = dimensions(arguments, x, name)
    kept = tuple(size for place, size in enumerate(x.shape) if place not in reduced)
    results = float(prod(kept))
    out = _result_format(name, row, arguments)
    each, special = COSTS[name]
    write: dict[str, Tensor | tuple[float, str]] = {"y": (results, out)}
    if name in PAIRS:
        write["second"] = (results, out)
    if name in PLACES_TOO and len(reduced) < len(x.shape) and not _all_of(arguments, name):
        write["places"] = (results, "int64")
    flops = each * elements(x) - results if each == 1.0 else each * elements(x)
    work = streamed(
        name,
        {"x": x},
        write,
        row,
        max(flops, 0.0),
        special * elements(x),
        op=FULL.get(name, name),
        family="reduce",
        count=elements(x),
    )
    if results > 1:  # only full reductions are timed under these names
        work = replace(work, kernels=tuple(replace(kernel, op="columns") for kernel in work.kernels))
    rows = reduced == tuple(range(len(x.shape) - len(reduced), len(x.shape))) and _rows_contiguous(x)
    rows = rows or (dense(x) and _outermost(x, reduced, of_kept=True))
    if rows and results > 1:
        cols = elements(x) / results
        timed = row.copied if row.kind == REAL else "fp32"
        kernels = row_kernel(
            "sum_rows" if name in ONE_VALUE else name, results, cols, timed, timed, per_row=float(len(write))
        )
        shape = {"rows": results, "cols": cols}
        alike = tuple(replace(kernel, like="sum_rows") for kernel in kernels)
        return replace(work, family="rows", shape=shape, kernels=alike)
    if dense(x) and name in ONE_VALUE and 1 < results < elements(x):
        return replace(work, kernels=_apart(x, reduced, results, row.copied if row.kind == REAL else "fp32"))
    return work


def _apart(x: Tensor, reduced: tuple[int, ...], results: float, timed: str) -> tuple[Kernel, ...]:
    """The kernel of sums whose elements are not one piece of memory each: a row apart where the innermost dimension is kept, pieces
    that follow each other at a distance where it is not."""
    length = elements(x) / results
    if _outermost(x, reduced):
        return column_kernel(results, length, timed, timed)
    if order(x)[-1] not in reduced:
        return column_kernel(results, length, timed, timed, op="sum_between", like="sum_columns")
    return tuple(
        replace(kernel, like="sum_rows")
        for kernel in row_kernel("sum_around", results, length, timed, timed, per_row=1.0)
    )


def _all_of(arguments: Arguments, name: str) -> bool:
    return name in PLACES_TOO and len(arguments) <= 1


def _outermost(tensor: Tensor, reduced: tuple[int, ...], of_kept: bool = False) -> bool:
    """Whether in memory the dimensions that are reduced, or those that are kept, are outside of all others."""
    placed = [(place in reduced) != of_kept for place in order(tensor)]
    return bool(placed) and placed == sorted(placed, reverse=True)


def _rows_contiguous(tensor: Tensor) -> bool:
    return not tensor.strides or tensor.strides[-1] in (0, 1)


def _binary(arguments: Arguments) -> Work:
    """max(a, b) of two tensors is elementwise."""
    copy = Arguments.__new__(Arguments)
    vars(copy).update(vars(arguments))
    copy.base = {"max": "maximum", "min": "minimum"}[arguments.base]
    return elementwise(copy)


def _sum_to(arguments: Arguments) -> Work:
    """_sum_to_size and its like: n - results additions."""
    x = arguments.tensor(0)
    results = float(prod(arguments.integers(1, "size")))
    return streamed(
        "sum", {"x": x}, {"y": (results, x.dtype)}, known(x), max(elements(x) - results, 0.0), op="sum", family="reduce"
    )


RULES: dict[str, Rule] = {**dict.fromkeys(COSTS, reduction), "sum_to_size": _sum_to}
