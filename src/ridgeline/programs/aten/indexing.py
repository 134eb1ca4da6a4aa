"""Indexed reads and writes: gathers, scatters, embeddings, masks.

An indexed read takes as many elements as its result has (no more than are stored), the indices, and writes the result. An
indexed write takes the values and the indices and writes as many elements; adding to them reads them first. Where the data
decide how much is moved, the count is that of all being selected, with a note that says so.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...core.notes import ASSUMED, Note
from ...core.timeline import Tensor
from ...core.work import Kernel, Work
from .. import ops
from ..ops.strided import STRIDED
from .arguments import Arguments, Missing, elements
from .building import after, like, named, streamed, with_moves
from .counted import Rule
from .elementwise import dense, order
from .formats import BOOL, known
from .matmul import broadcast
from .memory import copied, result

DATA_DEPENDENT = Note(ASSUMED, "the data decide how many elements are selected: counted as if all were")
WARP = 32  # threads that handle a row together
Reads = dict[str, Tensor | tuple[float, str]]


def _indices(arguments: Arguments, place: int) -> tuple[Tensor | None, ...]:
    value = arguments.at(place)
    if isinstance(value, Tensor):
        return (value,)
    if not isinstance(value, tuple) or not any(isinstance(item, Tensor) for item in value):
        raise Missing(f"argument {place} (indices) was not recorded")
    return tuple(item if isinstance(item, Tensor) else None for item in value)


def _selected(table: Tensor, indices: tuple[Tensor | None, ...]) -> tuple[tuple[int, ...], bool]:
    """The shape that indices select from a table, and whether the data decide it (masks)."""
    given = [item for item in indices if item is not None]
    masks = any(known(item).kind == BOOL or item.dtype == "uint8" for item in given)
    if masks:
        return table.shape, True
    kept = [size for place, size in enumerate(table.shape) if place >= len(indices) or indices[place] is None]
    return (*broadcast(tuple(item.shape for item in given)), *kept), False


def _reads(given: tuple[Tensor | None, ...]) -> Reads:
    return {f"index{place}": item for place, item in enumerate(given) if item is not None}


def _index(arguments: Arguments) -> Work:
    """x[indices]: the elements that are selected, and the indices, read; the result written."""
    table, indices = arguments.tensor(0), _indices(arguments, 1)
    shape, assumed = _selected(table, indices)
    out = result(arguments, shape, table.dtype)
    if _takes_rows(table, indices, assumed):
        work = _rows(table, next(item for item in indices if item is not None))
        taking = tuple(replace(kernel, op="index", like="embedding") for kernel in work.kernels)
        return replace(work, name="index", kernels=taking)
    taken = float(min(elements(out), elements(table)))
    return streamed(
        "index", {"x": (taken, table.dtype), **_reads(indices)}, {"y": out}, known(table),
        notes=(DATA_DEPENDENT,) if assumed and not arguments.outputs else (),
    )  # fmt: skip


def _takes_rows(table: Tensor, indices: tuple[Tensor | None, ...], masked: bool) -> bool:
    """Whether entire rows of a table that lies in order are taken, as an embedding does."""
    plain = dense(table) and order(table) == order(Tensor(table.shape))
    return plain and not masked and len(indices) == 1 and indices[0] is not None and len(table.shape) > 1


def _rows(table: Tensor, index: Tensor) -> Work:
    """Rows of a table at indices: ops.embedding, with the index's own width."""
    cols = prod(table.shape[1:])
    work = ops.embedding(rows=elements(index), vocab=table.shape[0], cols=cols, dtype=known(table).copied)
    return with_moves(work, read={"index": index})


def _index_select(arguments: Arguments) -> Work:
    """index_select(x, dim, index): rows of a table where dim is the first."""
    table, dimension, index = arguments.tensor(0), arguments.integer(1, "dim"), arguments.tensor(2)
    rank = len(table.shape)
    if rank and dimension % rank == 0 and rank > 1:
        return _rows(table, index)
    shape = tuple(
        elements(index) if place == dimension % max(rank, 1) else size for place, size in enumerate(table.shape)
    )
    out = result(arguments, shape, table.dtype)
    taken = float(min(elements(out), elements(table)))
    return streamed("index_select", {"x": (taken, table.dtype), "index": index}, {"y": out}, known(table))


def _embedding(arguments: Arguments) -> Work:
    """embedding(weight, indices)."""
    return _rows(arguments.tensor(0), arguments.tensor(1))


def _embedding_backward(arguments: Arguments) -> Work:
    """embedding_dense_backward(dy, indices, num_weights, ...)."""
    dy, index, vocab = arguments.tensor(0), arguments.tensor(1), arguments.integer(2, "num_weights")
    rows = elements(index)
    cols = elements(dy) // max(rows, 1)
    work = ops.embedding_backward(rows=rows, vocab=vocab, cols=cols, dtype=known(dy).arithmetic)
    return with_moves(work, read={"index": index})


def _embedding_bag_backward(arguments: Arguments) -> Work:
    """_embedding_bag_backward(dy, indices, offsets, bags, sizes, largest, num_weights, ...): a row of dy for every index.

    _embedding_bag_dense_backward, which it calls, has no offsets. On a GPU the indices are sorted and rows added up; the
    zeros are written by another operator.
    """
    place = 5 if "dense" in arguments.base else 6
    dy, index, vocab = arguments.tensor(0), arguments.tensor(1), arguments.integer(place, "num_weights")
    cols = dy.shape[-1] if dy.shape else 1
    rows = float(elements(index))
    work = ops.embedding_backward(rows=rows, vocab=vocab, cols=cols, dtype=known(dy).arithmetic)
    if arguments.settings.device == "cuda":
        work = replace(work, kernels=_added_by_rows(Tensor((vocab, cols), dy.dtype), rows, cols))
    return with_moves(work, read={"index": index})


def _embedding_bag(arguments: Arguments) -> Work:
    """_embedding_bag(weight, indices, offsets, ...): every index's row read, one row per bag written, added up."""
    table, index, offsets = arguments.tensor(0), arguments.tensor(1), arguments.tensor(2)
    cols = prod(table.shape[1:])
    taken = float(min(elements(index), table.shape[0]) * cols)
    write: tuple[float, str] = (float(elements(offsets) * cols), table.dtype)
    reads: Reads = {"table": (taken, table.dtype), "index": index, "offsets": offsets}
    return streamed("embedding_bag", reads, {"y": write}, known(table), float(elements(index) * cols))


def _gather(arguments: Arguments) -> Work:
    """gather(x, dim, index): one element per index; of an index that is repeated along the others, entire rows."""
    table, index = arguments.tensor(0), arguments.tensor(2)
    if arguments.at(1) == 0 and _repeated_rows(table, index):
        rows = Tensor(index.shape[:1], index.dtype)
        return replace(_rows(table, rows), name="gather")
    taken: tuple[float, str] = (float(min(elements(index), elements(table))), table.dtype)
    out = result(arguments, index.shape, table.dtype)
    return streamed("gather", {"x": taken, "index": index}, {"y": out}, known(table))


def _repeated_rows(table: Tensor, index: Tensor) -> bool:
    """Whether an index of rows is repeated along all columns of a table, which torch takes row by row."""
    plain = dense(table) and order(table) == order(Tensor(table.shape))
    repeated = len(index.strides) > 1 and not any(index.strides[1:]) and index.shape[1:] == table.shape[1:]
    return plain and repeated and prod(table.shape[1:]) > 1


def _take(arguments: Arguments) -> Work:
    """take(x, index): as gather, of all elements."""
    table, index = arguments.tensor(0), arguments.tensor(1)
    taken: tuple[float, str] = (float(min(elements(index), elements(table))), table.dtype)
    return streamed("take", {"x": taken, "index": index}, {"y": like(index, dtype=table.dtype)}, known(table))


def _written(arguments: Arguments, values: Tensor | None, index: Reads, count: float, adds: bool, name: str) -> Work:
    """`count` elements of the first tensor written from values; where it is not in place, the tensor is copied first."""
    target = arguments.tensor(0)
    touched: tuple[float, str] = (min(count, float(elements(target))), target.dtype)
    reads: Reads = {**named("values", values), **index}
    if adds:
        reads["x"] = touched
    repeated = (
        {"piece": count / max(touched[0], 1.0)} if adds else {}
    )  # additions to one element, which wait for each other
    work = streamed(
        name, reads, {"x": touched}, known(target), count if adds else 0.0, count=count, op=f"{name}_adding" if adds else name,
        like=STRIDED, further=repeated,
    )  # fmt: skip
    return work if arguments.in_place else after(name, copied("copy", target, target), work)


def _index_put(arguments: Arguments) -> Work:
    """index_put_(x, indices, values, accumulate): as many elements as the indices select.

    Profilers leave the indices out, but not the values, which have the shape that is selected.
    """
    target, values = arguments.tensor(0), arguments.tensor(2, "values")
    adds = arguments.flag(3, "accumulate", False)
    reads: Reads
    if arguments.at(1) is None and values.shape and elements(values) > 1:
        count = float(elements(values))
        cols = _shared_columns(target, values)
        reads = {"index0": (count / cols, "int64")}
    else:
        indices = _indices(arguments, 1)
        shape, assumed = _selected(target, indices)
        count = float(max(elements(values), 1) if assumed else prod(shape))
        cols = _shared_columns(target, like(values, shape=shape))
        reads = _reads(indices)
    work = _written(arguments, values, reads, count, adds, "index_put")
    if adds and arguments.in_place and arguments.settings.device == "cuda":
        return replace(work, kernels=_added_by_rows(target, count / cols, cols))
    return work


def _added_by_rows(target: Tensor, rows: float, cols: int) -> tuple[Kernel, ...]:
    """Indices sorted with their places, then a warp for every row, which adds up equal ones one after the other."""
    handled = rows * max(cols, WARP)
    touched: tuple[float, str] = (min(rows * cols, float(elements(target))), target.dtype)
    reads: Reads = {"values": (rows * cols, target.dtype), "places": (2 * rows, "int64"), "x": touched}
    added = streamed(
        "index_put", reads, {"x": touched}, known(target), rows * cols, op="index_put_by_rows", count=handled
    )
    return (*ops.sort(rows=1, cols=rows, dtype="fp32").kernels, *added.kernels)


def _shared_columns(target: Tensor, values: Tensor) -> int:
    """Elements of the innermost dimensions that a tensor has in common with the values written into it."""
    cols = 1
    for ours, theirs in zip(reversed(target.shape), reversed(values.shape[1:]), strict=False):
        if ours != theirs:
            break
        cols *= ours
    return max(cols, 1)


def _scatter(arguments: Arguments) -> Work:
    """scatter(x, dim, index, values or a number), scatter_add, scatter_reduce: one element per index."""
    index, values = arguments.tensor(2, "index"), arguments.optional(3)
    adds = "add" in arguments.base or "reduce" in arguments.base
    count = float(elements(index))
    if values is not None and elements(values) > count:
        values = like(values, shape=index.shape, strides=())
    return _written(arguments, values, {"index": index}, count, adds, arguments.base.strip("_"))


def _index_write(arguments: Arguments) -> Work:
    """index_add(x, dim, index, values), index_copy, index_fill, index_reduce: a slice of x per index."""
    target, index, values = arguments.tensor(0), arguments.tensor(2, "index"), arguments.optional(3)
    rank = max(len(target.shape), 1)
    size = target.shape[arguments.integer(1, "dim") % rank] if target.shape else 1
    count = float(elements(target) // max(size, 1) * elements(index))
    adds = "add" in arguments.base or "reduce" in arguments.base
    return _written(arguments, values, {"index": index}, count, adds, arguments.base.strip("_"))


def _masked_select(arguments: Arguments) -> Work:
    """masked_select(x, mask), nonzero(x): the mask read twice (counted, then selected)."""
    x, mask = arguments.tensor(0), arguments.optional(1)
    lead = mask or x
    twice: tuple[float, str] = (2.0 * elements(lead), lead.dtype)
    if mask is None:  # nonzero: one 64-bit place per dimension
        places = result(arguments, (elements(x), max(len(x.shape), 1)), "int64")
        return streamed("nonzero", {"x": twice}, {"y": places}, known(x), launches=3.0, notes=_assumed(arguments))
    out = result(arguments, (elements(x),), x.dtype)
    taken: tuple[float, str] = (float(elements(out)), x.dtype)
    return streamed(
        "masked_select", {"mask": twice, "x": taken}, {"y": out}, known(x), launches=3.0, notes=_assumed(arguments)
    )


def _masked_scatter(arguments: Arguments) -> Work:
    """masked_scatter(x, mask, source): the mask summed up first, then values placed."""
    target, mask, source = arguments.tensor(0), arguments.tensor(1), arguments.tensor(2)
    count = float(min(elements(source), elements(target)))
    places: tuple[float, str] = (2.0 * elements(target), "int64")
    work = _written(arguments, source, {"mask": mask, "places": places}, count, False, "masked_scatter")
    return with_moves(work, write={"places": (float(elements(target)), "int64")})


def _assumed(arguments: Arguments) -> tuple[str, ...]:
    return () if arguments.outputs else (DATA_DEPENDENT,)


def _placed(arguments: Arguments) -> Work:
    """slice_backward(dy, sizes, ...), select_backward: zeros of the sizes, dy copied into them."""
    dy = arguments.tensor(0)
    out = result(arguments, arguments.integers(1, "input_sizes", ()) or None, dy.dtype)
    total: tuple[float, str] = (float(elements(out) + (elements(dy) if arguments.settings.leaf else 0)), dy.dtype)
    return streamed(arguments.base, {"dy": dy}, {"dx": total}, known(dy), launches=2.0)


RULES: dict[str, Rule] = {
    "index": _index, "_unsafe_index": _index, "_unsafe_masked_index": _index, "index_select": _index_select,
    "embedding": _embedding, "embedding_dense_backward": _embedding_backward, "_embedding_bag": _embedding_bag,
    "_embedding_bag_forward_only": _embedding_bag, "_embedding_bag_backward": _embedding_bag_backward, "_embedding_bag_dense_backward": _embedding_bag_backward, "gather": _gather, "take": _take,
    **dict.fromkeys(("index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put"), _index_put),
    **dict.fromkeys(("scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_"), _scatter),
    **dict.fromkeys(
        ("index_add", "index_add_", "index_copy", "index_copy_", "index_fill", "index_fill_", "index_reduce", "index_reduce_"),
        _index_write,
    ),
    "masked_select": _masked_select, "nonzero": _masked_select, "masked_scatter": _masked_scatter,
    "masked_scatter_": _masked_scatter, "nonzero_static": _masked_select, "argwhere": _masked_select,
    **dict.fromkeys(("slice_backward", "select_backward", "diagonal_backward", "unfold_backward"), _placed),
}  # fmt: skip
