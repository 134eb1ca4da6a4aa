"""Operators on sparse tensors: the elements that are stored count, not those of the shape.

A product takes two flops for every stored element and column of the other side; its kernels gather a row of that side for
each stored element, which a cache serves in part, so that they move more than each operand once.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...core.timeline import Tensor
from ...core.work import Work
from .. import ops
from .arguments import Arguments, Missing, elements
from .building import after, streamed
from .counted import Counted, Rule
from .elementwise import PLACES, costs, root
from .formats import known

Moved = dict[str, Tensor | tuple[float, str]]


def _stored(tensor: Tensor) -> float:
    if not tensor.stored:
        raise Missing(f"a sparse tensor of {'x'.join(map(str, tensor.shape))}: how much it stores was not recorded")
    return float(prod(tensor.stored))


def _product(arguments: Arguments) -> Work:
    """mm(A, B), addmm(C, A, B, beta, alpha) with A sparse, or B: indices of 64 bits, two of them for every element."""
    given = [arg for arg in arguments.args if isinstance(arg, Tensor)]
    addend = given[0] if "addm" in arguments.base else None
    a, b = given[1:3] if addend is not None else given[:2]
    matrix, other = (a, b) if a.sparse else (b, a)
    if not matrix.sparse or other.sparse or len(matrix.shape) != 2:
        raise Missing("products of two sparse tensors are not counted")
    stored, columns = _stored(matrix), elements(other) / max(matrix.shape[1 if a.sparse else 0], 1)
    dtype = known(other)
    out: tuple[float, str] = (matrix.shape[0 if a.sparse else 1] * columns, other.dtype)
    reads: Moved = {"values": (stored, matrix.dtype), "places": (2 * stored, "int64"), "B": other}
    if addend is not None and arguments.at(3) not in (0, 0.0):
        reads["addend"] = addend
    work = streamed("spmm", reads, {"C": out}, dtype, 2 * stored * columns)
    gathered: Moved = {**reads, "B": (stored * columns, other.dtype)}
    moving = streamed("spmm", gathered, {"C": out}, dtype, 2 * stored * columns)
    return replace(work, kernels=moving.kernels)


def _coalesce(arguments: Arguments) -> Work:
    """_coalesce(x): the places sorted, the values of equal ones added up and written anew."""
    x = arguments.tensor(0)
    stored = _stored(x)
    rows = float(x.stored[0])  # places: of each one several values where only the outer dimensions are sparse
    values: tuple[float, str] = (stored, x.dtype)
    places: tuple[float, str] = ((len(x.shape) - len(x.stored) + 1) * rows, "int64")
    added = streamed("coalesce", {"x": values, "i": places}, {"y": values, "j": places}, known(x), stored)
    return after("coalesce", ops.sort(rows=1, cols=rows, dtype="fp32"), added)


def _elementwise(arguments: Arguments) -> Work:
    """An elementwise operator on the values that are stored."""
    name = root(arguments.base)
    read: Moved = {}
    for place, tensor in enumerate(arguments.tensors):
        read[f"x{place}"] = (_stored(tensor), tensor.dtype) if tensor.sparse else tensor
    lead = next(tensor for tensor in arguments.tensors if tensor.sparse)
    out: Moved = {"y": (_stored(lead), lead.dtype)}
    return streamed(name, read, out, known(lead), *costs(name, known(lead), _stored(lead)), count=_stored(lead))


RULES: dict[str, Rule] = {
    **dict.fromkeys(("mm", "_sparse_mm", "addmm", "addmm_", "_sparse_addmm", "mv", "addmv"), _product),
    "_coalesce": _coalesce,
}


def sparse(arguments: Arguments) -> Work | Counted:
    """A call with a sparse tensor among its arguments."""
    rule = RULES.get(arguments.base)
    if rule is not None:
        return rule(arguments)
    if root(arguments.base) in PLACES and arguments.tensors[0].sparse and len(arguments.tensors) == 1:
        return _elementwise(arguments)
    raise Missing(f"{arguments.base} of sparse tensors is not counted")
