"""Operators over lists of tensors: foreach forms of elementwise operators, fused optimizers, unscaling of gradients.

A list is handled in launches of PyTorch's multi-tensor kernels: at most 320 pieces of 65536 elements each, of a number of
tensors that shrinks with the lists that are passed at once.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from ...core.notes import ASSUMED, Note
from ...core.timeline import Tensor
from ...core.work import Work
from .arguments import Arguments, Missing, elements
from .building import named, streamed
from .counted import Rule
from .elementwise import PLACES, costs
from .formats import BOOL, known, number_kind, promoted, real_result

CHUNK, BLOCKS = 65536, 320  # elements of a piece, pieces of a launch
TENSORS = (110, 64, 48, 36, 30)  # tensors of a launch, by the number of lists
FUSED_TENSORS = (72, 60, 50, 40, 30)  # and where steps are passed too


def launches(sizes: list[int], lists: int, limits: tuple[int, ...] = TENSORS) -> float:
    """Launches that tensors of these sizes take: one ends when its pieces or its tensors are full."""
    limit = limits[min(max(lists, 1), len(limits)) - 1]
    count, tensors, pieces = 0, 0, 0
    for size in sizes:
        if not size:
            continue
        tensors += 1
        chunks = ceil(size / CHUNK)
        full, pieces = divmod(pieces + chunks, BLOCKS)
        count += full
        if full:
            tensors = 1 if pieces else 0
        if tensors == limit:
            count, tensors, pieces = count + (1 if pieces else 0), 0, 0
    return float(max(count + (1 if pieces else 0), 1))


def _together(tensors: tuple[Tensor, ...]) -> tuple[float, str]:
    """All tensors of a list as one operand; formats that differ are taken by their bytes."""
    total = float(sum(elements(tensor) for tensor in tensors))
    rows = {tensor.dtype for tensor in tensors}
    if len(rows) == 1:
        return total, tensors[0].dtype
    moved = sum(elements(tensor) * known(tensor).bytes for tensor in tensors)
    lead = promoted(tensors)
    return moved / lead.bytes, lead.name


MULTI_TENSOR = "sgd"  # the timed op that runs as operators over lists do: a block takes a piece of a tensor
AT_MOST = Note(
    ASSUMED, "the list of tensors was too long to be recorded: counted as full pieces of its launches, an upper limit"
)


def lists_of(arguments: Arguments, places: tuple[int, ...] | None = None) -> dict[int, tuple[Tensor, ...]]:
    """The lists of tensors by their places. Profilers leave lists of more than 30 tensors out: then those the caller knows.

    Where the caller knows the pieces that were launched, the list is one tensor of as many full pieces.
    """
    settings = arguments.settings
    known_lists = {place: arg for place, arg in enumerate(arguments.args) if _tensors(arg)}
    empty = [place for place, arg in enumerate(arguments.args) if arg == () and (places is None or place in places)]
    if not known_lists and empty:
        tensors = tuple(settings.lists)
        if not tensors and settings.pieces:
            if not settings.dtype:
                raise Missing("the format of its tensors was not recorded")
            tensors = (Tensor((settings.pieces * CHUNK,), settings.dtype),)
        if not tensors:
            raise Missing("its lists of tensors were not recorded (profilers leave out lists of more than 30)")
        known_lists = dict.fromkeys(empty, tensors)
    if not known_lists:
        raise Missing("shapes were not recorded")
    return known_lists


def noted(arguments: Arguments, work: Work) -> Work:
    """With the note that sizes are an upper limit, where they are."""
    limited = arguments.settings.pieces and not arguments.settings.lists and not arguments.tensors
    return replace(work, notes=(*work.notes, AT_MOST)) if limited else work


def foreach(arguments: Arguments) -> Work:
    return noted(arguments, _foreach(arguments))


def _foreach(arguments: Arguments) -> Work:
    """_foreach_mul_(list, list | numbers): an elementwise operator over every tensor, all lists read once."""
    name = arguments.base.removeprefix("_foreach_").removesuffix("_")
    lists = list(lists_of(arguments).values())
    if name == "addcmul" and not arguments.tensors:  # not recorded: Adam squares its gradients, which are read once
        lists = lists[:2]
    first = lists[0]
    size = float(sum(elements(tensor) for tensor in first))
    in_place = arguments.in_place
    kinds = [number_kind(arg) for arg in arguments.args[1:] if isinstance(arg, int | float | complex)]
    row = promoted((first[0], *(items[0] for items in lists[1:])), max(kinds, default=BOOL))
    depth = len(lists) + (0 if in_place else 1)
    count = launches([elements(tensor) for tensor in first], depth)
    read = {f"x{place}": _together(items) for place, items in enumerate(lists)}
    largest = max(elements(tensor) for tensor in first)
    if name in ("zero", "copy"):
        source = {"x1": read["x1"]} if name == "copy" and "x1" in read else {}
        work = streamed(
            f"foreach_{name}", source, {"x0": read["x0"]}, known(first[0]), launches=count, like=MULTI_TENSOR
        )
        return _in_pieces(work, largest)
    if name in ("norm", "max"):
        results: tuple[float, str] = (float(len(first)), first[0].dtype)
        each = 2.0 if name == "norm" else 1.0
        return streamed(f"foreach_{name}", read, {"y": results}, row, each * size, family="reduce", launches=count + 1)
    if name not in PLACES:
        raise Missing(f"no rule for {arguments.name}")
    flops, special = costs(name, row, size)
    out = row if not special else real_result(row)
    write: dict[str, tuple[float, str]] = {"x0": read["x0"]} if in_place else {"y": (size, out.name)}
    work = streamed(f"foreach_{name}", read, write, row, flops, special, launches=count, count=size, like=MULTI_TENSOR)
    return _in_pieces(work, largest)


def _in_pieces(work: Work, largest: int) -> Work:
    """Kernels that give one block a piece of a tensor: the largest one is what a launch takes at least."""
    return replace(
        work, kernels=tuple(replace(item, sizes={**item.sizes, "largest": float(largest)}) for item in work.kernels)
    )


def _tensors(arg: object) -> bool:
    return isinstance(arg, tuple) and bool(arg) and all(isinstance(item, Tensor) for item in arg)


def _step(arguments: Arguments, name: str, lists: dict[str, int], written: str, flops: float, special: float) -> Work:
    """One pass of a fused optimizer: the lists at these places read, those named in `written` written."""
    given = lists_of(arguments, tuple(lists.values()))
    tensors = {tensor: given[place] for tensor, place in lists.items() if place in given}
    if "p" not in tensors or "g" not in tensors:
        raise Missing("shapes were not recorded")
    sizes = [elements(tensor) for tensor in tensors["p"]]
    size = float(sum(sizes))
    read = {tensor: _together(items) for tensor, items in tensors.items()}
    write = {tensor: operand for tensor, operand in read.items() if tensor in written.split()}
    row = known(tensors["p"][0])
    # the timings of these kernels are of one tensor, so that the launches its pieces take are in them
    count = launches(sizes, len(tensors), FUSED_TENSORS) - launches([int(size)], len(tensors), FUSED_TENSORS) + 1.0
    work = streamed(name, read, write, row, flops * size, special * size, launches=max(count, 1.0), count=size)
    return noted(arguments, _in_pieces(work, max(sizes, default=0)))


def _adamw(arguments: Arguments) -> Work:
    """_fused_adamw_(p, g, m, v, max v, steps, ...): 14 flops per parameter, as ops.adamw derives them."""
    lists = {"p": 0, "g": 1, "m": 2, "v": 3}
    if arguments.flag(11, "amsgrad", False) or _tensors(arguments.at(4)):
        lists["max_v"] = 4
    return _step(arguments, "adamw_fused", lists, "p m v max_v", 14.0, 2.0)


def _sgd(arguments: Arguments) -> Work:
    """_fused_sgd_(p, g, momentum, ...): 2 flops per parameter, 4 with momentum."""
    factor = arguments.at(4)
    momentum = _tensors(arguments.at(2)) or (isinstance(factor, float) and factor != 0)
    lists = {"p": 0, "g": 1, "v": 2} if momentum else {"p": 0, "g": 1}
    return _step(arguments, "sgd", lists, "p v", 4.0 if momentum else 2.0, 0.0)


def _adagrad(arguments: Arguments) -> Work:
    """_fused_adagrad_(p, g, sums, steps, ...): the sum of squares 2, root, epsilon, division, scale, subtraction 5."""
    return _step(arguments, "adagrad_fused", {"p": 0, "g": 1, "s": 2}, "p s", 7.0, 2.0)


def _unscale(arguments: Arguments) -> Work:
    """_amp_foreach_non_finite_check_and_unscale_(g, found, scale): each gradient checked and scaled, 2 flops."""
    tensors = lists_of(arguments, (0,))[0]
    size = float(sum(elements(tensor) for tensor in tensors))
    both = {"g": _together(tensors)}
    count = launches([elements(tensor) for tensor in tensors], 1)
    work = streamed("unscale", both, both, known(tensors[0]), 2.0 * size, launches=count, count=size)
    return noted(arguments, work)


def _update_scale(arguments: Arguments) -> Work:
    """_amp_update_scale_(scale, tracker, found, ...): a few numbers."""
    scale, tracker = arguments.tensor(0), arguments.tensor(1)
    both = named("scale tracker", scale, tracker)
    return streamed("update_scale", both, both, known(scale), 2.0)


RULES: dict[str, Rule] = {
    "_fused_adamw_": _adamw, "_fused_adam_": _adamw, "_fused_sgd_": _sgd, "_fused_adagrad_": _adagrad,
    "_amp_foreach_non_finite_check_and_unscale_": _unscale, "_amp_update_scale_": _update_scale,
}  # fmt: skip
