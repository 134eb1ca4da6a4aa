"""Sorting, top-k, prefix sums, sampling and random numbers."""

from __future__ import annotations

from dataclasses import replace
from math import log2, prod

from ...core.timeline import Tensor
from ...core.work import Work
from .. import ops
from ..ops.strided import STRIDED
from .arguments import Arguments, elements
from .building import BLOCK, like, named, rows_along, streamed, with_moves
from .counted import Rule
from .formats import REAL, known
from .memory import result

RANDOM_FLOPS = 10.0  # integer rounds of a counter-based generator per number, as Philox 4x32-10 makes four in 40


def _timed(tensor: Tensor) -> str:
    """The format whose timings serve rows of a tensor: its own where it is a float, else that of its width."""
    row = known(tensor)
    return row.name if row.kind == REAL else row.copied


def _sort(arguments: Arguments) -> Work:
    """sort(x, dim, descending), sort(x, stable, dim, descending): values and 64-bit places."""
    x = arguments.tensor(0)
    stable = len(arguments) >= 4 or isinstance(arguments.at(1), bool)
    place = 2 if stable and arguments.base in ("sort", "argsort") else 1
    rows, cols = rows_along(x, arguments.integer(place, "dim", -1))
    return ops.sort(rows=rows, cols=cols, dtype=_timed(x))


def _topk(arguments: Arguments) -> Work:
    """topk(x, k, dim, largest, sorted)."""
    x, k = arguments.tensor(0), arguments.integer(1, "k")
    rows, cols = rows_along(x, arguments.integer(2, "dim", -1))
    return ops.topk(rows=rows, cols=cols, k=k, dtype=_timed(x))


def _kth(arguments: Arguments) -> Work:
    """kthvalue(x, k, dim): one value and its place per row."""
    x = arguments.tensor(0)
    rows, cols = rows_along(x, arguments.integer(2, "dim", -1))
    return replace(ops.topk(rows=rows, cols=cols, k=1, dtype=_timed(x)), name="kthvalue")


def _scan(arguments: Arguments) -> Work:
    """cumsum(x, dim, dtype), cumprod, cummax (with places), logcumsumexp (4 flops, 2 of them special)."""
    x = arguments.tensor(0)
    dimension = arguments.integer(1, "dim")
    rows, cols = rows_along(x, dimension)
    work = ops.cumsum(rows=rows, cols=cols, dtype=_timed(x))
    if (
        x.shape and prod(x.shape[dimension % len(x.shape) + 1 :]) > 1
    ):  # a thread goes along a column: all move as a copy does
        chain = {"steps": float(cols), "blocks": rows / BLOCK}  # a thread takes a column
        passed = streamed("cumsum", {"x": x}, {"y": x}, known(x), like=STRIDED, further=chain)
        work = replace(work, kernels=passed.kernels)
    name = arguments.base.strip("_").removesuffix("_helper")
    counts = {("vector", known(x).arithmetic, "scan"): float(max(elements(x) - rows, 0))}
    work = replace(work, name=name, counts=counts, dtype=known(x).arithmetic)
    out = arguments.outputs[0] if arguments.outputs else like(x, strides=())
    if known(x).kind < REAL and not arguments.outputs:
        out = like(out, dtype="int64")
    places: dict[str, Tensor | tuple[float, str]] = {"y": out}
    if name in ("cummax", "cummin"):
        work = replace(work, kernels=tuple(replace(kernel, op=kernel.op or "cummax") for kernel in work.kernels))
        places["places"] = (float(elements(x)), "int64")
    return with_moves(work, {"x": x}, places)


def _multinomial(arguments: Arguments) -> Work:
    """multinomial(weights, samples, replacement): rows normalised and scanned, then searched for each sample.

    The sum, the division and the scan take 3 flops per weight; a search takes log2(cols) comparisons per sample.
    """
    x, samples = arguments.tensor(0), arguments.integer(1, "num_samples")
    cols = x.shape[-1] if x.shape else 1
    rows = elements(x) // max(cols, 1)
    flops = 3.0 * elements(x) + rows * samples * max(log2(max(cols, 2)), 1.0)
    scanned: dict[str, Tensor | tuple[float, str]] = {"cdf": like(x, strides=())}
    write: dict[str, Tensor | tuple[float, str]] = {**scanned, "y": (float(rows * samples), "int64")}
    return streamed("multinomial", {"x": x, **scanned}, write, known(x), flops, launches=4.0, count=float(elements(x)))


def _random(arguments: Arguments) -> Work:
    """uniform_(x), normal_(x), bernoulli_(x, p): every element written."""
    given = arguments.at(0)
    x = given if isinstance(given, Tensor) else result(arguments)
    if not arguments.in_place and arguments.outputs:
        x = arguments.outputs[0]
    row = known(like(x))
    probability = arguments.optional(1) if arguments.base.startswith("bernoulli") else None
    if arguments.base == "bernoulli" and probability is None and isinstance(given, Tensor):
        probability = given  # whose elements are the probabilities
    size = float(elements(x))
    timed = row if row.kind == REAL else known(Tensor((), "fp32"))
    return streamed(
        arguments.base.strip("_"), named("p", probability), {"x": like(x, strides=())}, timed, RANDOM_FLOPS * size,
        size if "normal" in arguments.base or "exponential" in arguments.base else 0.0,
    )  # fmt: skip


def _permutation(arguments: Arguments) -> Work:
    """randperm(n): random keys sorted with their places."""
    out = arguments.outputs[0] if arguments.outputs else None
    size = elements(out) if out else arguments.integer(0, "n")
    return replace(ops.sort(rows=1, cols=size, dtype="fp32"), name="randperm")


def _dropout(arguments: Arguments) -> Work:
    """native_dropout(x, p, train) -> y and a mask of bytes: 2 flops per element, as ops.dropout counts."""
    x = arguments.tensor(0)
    size = float(elements(x))
    write: dict[str, Tensor | tuple[float, str]] = {"y": like(x, strides=()), "mask": (size, "bool")}
    return streamed("dropout", {"x": x}, write, known(x), 2.0 * size, op="dropout", count=size)


def _dropout_backward(arguments: Arguments) -> Work:
    """native_dropout_backward(dy, mask, scale): 2 flops per element."""
    dy, mask = arguments.tensor(0), arguments.tensor(1, "mask")
    return streamed(
        "dropout_backward",
        {"dy": dy, "mask": mask},
        {"dx": like(dy, strides=())},
        known(dy),
        2.0 * elements(dy),
    )


def _search(arguments: Arguments) -> Work:
    """searchsorted(sorted, values), bucketize(values, boundaries), isin: a binary search per value."""
    first, second = arguments.tensor(0), arguments.tensor(1)
    values, table = (first, second) if arguments.base in ("bucketize", "isin") else (second, first)
    steps = log2(max(table.shape[-1] if table.shape else 1, 2))
    out: tuple[float, str] = (float(elements(values)), "bool" if arguments.base == "isin" else "int64")
    reads = {"values": values, "table": table}
    return streamed(arguments.base, reads, {"y": out}, known(values), steps * elements(values))


def _histogram(arguments: Arguments) -> Work:
    """bincount(x), histc(x): one addition per element; bins are few beside the data."""
    x = arguments.tensor(0)
    out = result(arguments, (elements(x),), "int64")
    return streamed(arguments.base, {"x": x}, {"y": out}, known(x), float(elements(x)))


def _unique(arguments: Arguments) -> Work:
    """_unique2(x, ...): sorted, then compared with the neighbour."""
    x = arguments.tensor(0)
    return replace(ops.sort(rows=1, cols=elements(x), dtype=_timed(x)), name="unique")


RANDOM = (
    "uniform_", "normal_", "bernoulli_", "random_", "exponential_", "cauchy_", "geometric_", "log_normal_", "rand", "randn",
    "randint", "rand_like", "randn_like", "randint_like", "bernoulli", "normal", "poisson", "uniform",
)  # fmt: skip
RULES: dict[str, Rule] = {
    "sort": _sort, "argsort": _sort, "msort": _sort, "topk": _topk, "kthvalue": _kth,
    **dict.fromkeys(("cumsum", "cumsum_", "cumprod", "cumprod_", "logcumsumexp", "_logcumsumexp", "_cummax_helper", "_cummin_helper"), _scan),
    "cummax": _scan, "cummin": _scan, "multinomial": _multinomial, **dict.fromkeys(RANDOM, _random),
    "randperm": _permutation, "native_dropout": _dropout, "_fused_dropout": _dropout,
    "native_dropout_backward": _dropout_backward, "searchsorted": _search, "bucketize": _search, "isin": _search,
    "bincount": _histogram, "histc": _histogram, "_unique2": _unique, "unique_dim": _unique, "_unique": _unique,
    "unique_consecutive": _unique,
}  # fmt: skip
