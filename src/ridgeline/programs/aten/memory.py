"""Copies, casts, concatenations and fills: bytes without arithmetic.

Copies between layouts whose innermost dimensions differ read or write with strides and run as transposes; the others
stream. Views cost nothing and are not here.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from ...core.notes import ASSUMED, Note
from ...core.timeline import Tensor
from ...core.work import Work
from .. import ops
from ..ops.strided import JOINED, JOINED_IMAGES, JOINED_STRIDED, STACKED_STRIDED, STRIDED
from .arguments import Arguments, Missing, elements
from .building import distinct, like, streamed, with_moves
from .counted import Rule
from .elementwise import dense, innermost, order
from .formats import INTEGER, Format, format_of, known, number_kind

# torch.ScalarType by number, as profiles record it.
SCALAR_TYPES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "fp16", 6: "fp32", 7: "fp64", 8: "complex32",
    9: "complex64", 10: "complex128", 11: "bool", 15: "bf16", 23: "fp8_e5m2", 24: "fp8_e4m3", 27: "uint16", 28: "uint32",
    29: "uint64",
}  # fmt: skip


def format_argument(value: object) -> str:
    """The format that an argument names: a number of torch.ScalarType or a name; empty for none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return SCALAR_TYPES.get(value, "")
    text = str(value) if isinstance(value, str) else ""
    if text.isdecimal():
        return SCALAR_TYPES.get(int(text[:4]), "")
    row = format_of(text) if text else None
    return row.name if row else ""


def copied(name: str, source: Tensor, target: Tensor) -> Work:
    """Every element of the target written, and of the source those that are stored read."""
    row = known(source)
    read_along, written_along = innermost(source), innermost(target)
    same_rank = len(source.shape) == len(target.shape)
    if (
        same_rank
        and None not in (read_along, written_along)
        and read_along != written_along
        and source.dtype == target.dtype
    ):
        return _transposed(name, source, target, read_along or 0, written_along or 0)
    op = "copy" if source.dtype == target.dtype else "cast"
    if order(source) != order(target) or not (dense(source) and dense(target)) or source.shape != target.shape:
        op = STRIDED
    return streamed(name, {"x": source}, {"y": target}, row, op=op, count=float(elements(target)))


def rows_first(tensor: Tensor) -> Tensor:
    """The tensor in contiguous order."""
    strides = tuple(prod(tensor.shape[place + 1 :]) for place in range(len(tensor.shape)))
    return like(tensor, strides=strides)


def _transposed(name: str, source: Tensor, target: Tensor, read_along: int, written_along: int) -> Work:
    """A copy between layouts: the sides of its transpose are the two dimensions that are innermost."""
    cols = source.shape[read_along]
    rows = elements(source) // max(cols, 1)
    if target.shape[written_along] < rows:  # batches of transposes: the shorter side decides
        cols, rows = max(cols, 1), elements(source) // max(cols, 1)
    work = ops.transpose(rows=rows, cols=cols, dtype=known(source).copied)
    return with_moves(work, {"x": source}, {"y": like(target, strides=())})


def _copy(arguments: Arguments) -> Work:
    """copy_(target, source)."""
    return copied("copy", arguments.tensor(1, "source"), _target(arguments.tensor(0), arguments.tensor(1)))


def _target(target: Tensor, source: Tensor) -> Tensor:
    if elements(target) < elements(source):
        raise Missing(f"a source of {source.shape} does not fit {target.shape}")
    return target


def _clone(arguments: Arguments) -> Work:
    """clone(x), x.contiguous(): the result in its own layout where that was recorded."""
    x = arguments.tensor(0)
    return copied("clone", x, arguments.outputs[0] if arguments.outputs else like(x, strides=()))


def _to_copy(arguments: Arguments) -> Work:
    """_to_copy(x, dtype, ...): a cast, or a copy where the format stays."""
    x = arguments.tensor(0)
    dtype = format_argument(arguments.at(1)) or x.dtype
    out = arguments.outputs[0] if arguments.outputs else like(x, dtype=dtype, strides=())
    return copied("copy" if out.dtype == x.dtype else "cast", x, out)


AT_LEAST = Note(ASSUMED, "the list of tensors was too long to be recorded: counted as one element each, a lower limit")


def _cat(arguments: Arguments) -> Work:
    """cat(tensors, dim), stack(tensors, dim): all read, as much written.

    Each tensor goes to its place in pieces, the dimensions from `dim` on; one that lies in another order is indexed. Images with
    channels last that are joined along the channels have a kernel of their own.
    """
    settings = arguments.settings
    if arguments.at(0) == () and settings.joined and settings.dtype:
        every = (float(settings.joined), settings.dtype)
        row = known(Tensor((), settings.dtype))
        work = streamed("cat", {"x": every}, {"y": every}, row, op=JOINED, launches=settings.joins, notes=(AT_LEAST,))
        return _in_pieces(work, row.bytes)
    tensors = arguments.listed(0)
    total = float(sum(elements(tensor) for tensor in tensors))
    read: dict[str, Tensor | tuple[float, str]] = {f"x{place}": tensor for place, tensor in enumerate(tensors)}
    row = max((known(tensor) for tensor in tensors), key=lambda item: (item.kind, item.bytes))
    if arguments.base != "stack" and all(_channels_last(tensor) for tensor in tensors):
        return streamed("cat", read, {"y": (total, row.name)}, row, count=total, op=JOINED_IMAGES, like=STACKED_STRIDED)
    if not all(dense(tensor) and order(tensor) == order(Tensor(tensor.shape)) for tensor in tensors):
        op, alike = (
            (STACKED_STRIDED, JOINED_STRIDED) if all(dense(tensor) for tensor in tensors) else (JOINED_STRIDED, STRIDED)
        )
        return streamed("cat", read, {"y": (total, row.name)}, row, count=total, op=op, like=alike)
    work = streamed("cat", read, {"y": (total, row.name)}, row, count=total, op=JOINED)
    dim, rank = arguments.integer(1, "dim", 0), max((len(tensor.shape) for tensor in tensors), default=0)
    pieces = [prod(tensor.shape[dim % rank :]) * row.bytes for tensor in tensors if elements(tensor)] if rank else [0.0]
    return _in_pieces(work, min(pieces, default=0.0))


def _in_pieces(work: Work, piece: float) -> Work:
    kernels = tuple(replace(item, sizes={**item.sizes, "piece": float(piece)}) for item in work.kernels)
    return replace(work, kernels=kernels)


def _channels_last(tensor: Tensor) -> bool:
    """Whether an image of several channels and pixels has its channels next to each other."""
    rank = len(tensor.shape)
    if rank not in (4, 5):
        return False
    last = tuple(place for place in (0, *range(2, rank), 1) if tensor.shape[place] > 1)
    return dense(tensor) and order(tensor) == last != order(Tensor(tensor.shape))


def result(arguments: Arguments, shape: tuple[int, ...] | None = None, dtype: str = "") -> Tensor:
    """The result as recorded, else of the shape and format that follow from the arguments."""
    if arguments.outputs:
        return arguments.outputs[0]
    if shape is None:
        raise Missing("the shape of its result was not recorded")
    if any(size < 0 for size in shape):
        raise Missing(f"{shape} is no shape of a result")
    return Tensor(shape, dtype)


def rearranged(arguments: Arguments) -> Work:
    """Every element read once and written once elsewhere: roll, flip, shuffles, copies of views."""
    x = arguments.tensor(0)
    out = result(arguments, x.shape, x.dtype)
    name = arguments.base.strip("_")
    return streamed(name, {"x": (float(min(distinct(x), elements(out))), x.dtype)}, {"y": out}, known(x))


def _roll(arguments: Arguments) -> Work:
    """roll(x, shifts, dims): a kernel for each dimension, which reads all and writes all, and computes every place."""
    x = arguments.tensor(0)
    passes = max(len(arguments.integers(2, "dims", ())), 1)
    out = result(arguments, x.shape, x.dtype)
    each = streamed("roll", {"x": x}, {"y": like(out, strides=())}, known(x), like=STRIDED, count=float(elements(out)))
    return each if passes == 1 else each.repeat(float(passes))


def _repeat(arguments: Arguments) -> Work:
    """repeat(x, repeats): x read once, every repetition written."""
    x = arguments.tensor(0)
    times = prod(arguments.integers(1, "repeats")) if not arguments.outputs else 1
    out = result(arguments, (elements(x) * times,), x.dtype)
    return streamed("repeat", {"x": x}, {"y": out}, known(x), count=float(elements(out)))


def _split_copy(arguments: Arguments) -> Work:
    """split_with_sizes_copy(x, ...), unbind_copy(x): x read and written in parts."""
    x = arguments.tensor(0)
    return streamed("split_copy", {"x": x}, {"y": like(x, strides=())}, known(x))


def _triangle(arguments: Arguments) -> Work:
    """tril(x), triu(x): as the kernels run, all read and all written."""
    x = arguments.tensor(0)
    return streamed(arguments.base.strip("_"), {"x": x}, {"y": like(x, strides=())}, known(x))


def filled(tensor: Tensor, name: str = "fill") -> Work:
    return streamed(name, {}, {"x": like(tensor, strides=())}, known(tensor), op="fill")


def _fill(arguments: Arguments) -> Work:
    """fill_(x, value), zero_(x), zeros_like(x) and the like: every element written."""
    if arguments.in_place or isinstance(arguments.at(0), Tensor):
        x = arguments.tensor(0)
        if arguments.base.startswith("new_"):
            sizes = None if arguments.outputs else arguments.integers(1, "size")
            return filled(result(arguments, sizes, x.dtype))
        return filled(x if arguments.in_place else result(arguments, x.shape, x.dtype))
    sizes = None if arguments.outputs else arguments.integers(0, "size")
    return filled(result(arguments, sizes, _factory_format(arguments)))


def _factory_format(arguments: Arguments) -> str:
    """The format asked for, else torch's default of fp32."""
    place = {"full": 2, "scalar_tensor": 1}.get(arguments.base, 1)
    return format_argument(arguments.at(place)) or "fp32"


def _range(arguments: Arguments) -> Work:
    """arange(end), arange(start, end), arange(start, end, step): integers unless a number has a fraction."""
    if arguments.outputs:
        return filled(arguments.outputs[0], "arange")
    given = next((arg for arg in arguments.args if isinstance(arg, Tensor)), None)
    if given is not None and elements(given):  # the tensor to be written; one without elements is made larger
        return filled(given, "arange")
    numbers = []
    for arg in arguments.args[:3]:
        if isinstance(arg, bool) or not isinstance(arg, int | float):
            break
        numbers.append(arg)
    if not numbers:
        raise Missing("argument 0 (end) was not recorded")
    start, end = (0, numbers[0]) if len(numbers) == 1 else numbers[:2]
    step = numbers[2] if len(numbers) == 3 else 1
    count = max(ceil((end - start) / step), 0) if step else 0
    whole_numbers = all(number_kind(value) == INTEGER for value in numbers)
    return filled(Tensor((count,), "int64" if whole_numbers else "fp32"), "arange")


def _scalar_tensor(arguments: Arguments) -> Work:
    return filled(result(arguments, (), _factory_format(arguments)))


def memcpy(name: str, size: float, row: Format | None = None) -> Work:
    """A copy of so many bytes by a copy engine or kernel, read on one side and written on the other."""
    form = row or known(Tensor((), "fp32"))
    moved: tuple[float, str] = (size / form.bytes, form.name)
    return streamed(name, {"x": moved}, {"y": moved}, form, op="copy")


REARRANGED = (
    "flip", "fliplr", "flipud", "rot90", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    "native_channel_shuffle", "view_copy", "permute_copy", "transpose_copy", "t_copy", "expand_copy", "slice_copy",
    "select_copy", "unsqueeze_copy", "squeeze_copy", "as_strided_copy", "diagonal_copy", "detach_copy", "alias_copy",
    "_reshape_copy", "unfold_copy", "view_as_real_copy", "view_as_complex_copy", "_unsafe_view_copy", "diag",
    "diag_embed", "block_diag", "_to_dense", "lift_fresh_copy", "lift", "take_along_dim", "_pin_memory",
)  # fmt: skip
FILLS = (
    "fill_", "zero_", "fill", "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones",
    "new_full", "fill_diagonal_", "_efficientzerotensor", "zero",
)  # fmt: skip
RANGES = ("arange", "linspace", "logspace", "eye", "range", "tril_indices", "triu_indices", "hann_window")
RULES: dict[str, Rule] = {
    "copy_": _copy, "copy": _copy, "_copy_from": _copy, "set_data_": _copy, "clone": _clone, "contiguous": _clone,
    "_to_copy": _to_copy, "to": _to_copy, "cat": _cat, "stack": _cat, "_chunk_cat": _cat, "concat": _cat,
    **dict.fromkeys(REARRANGED, rearranged), "roll": _roll, "repeat": _repeat, "tile": _repeat,
    "split_with_sizes_copy": _split_copy, "unbind_copy": _split_copy, "split_copy": _split_copy,
    **dict.fromkeys(("tril", "triu", "tril_", "triu_"), _triangle),
    **dict.fromkeys(FILLS, _fill), **dict.fromkeys(RANGES, _range), "scalar_tensor": _scalar_tensor,
}  # fmt: skip
