"""Collectives of a JAX program: bytes of one rank's buffer on the links, and the ranks of the mesh axes that they go over."""

from __future__ import annotations

from math import prod

from ...core.trace import LIBRARY
from .. import ops
from ..aten.formats import REAL, known
from ..ops import Op
from .jax_case import NOTHING, Case, Count, Rule, done, stored_bytes, unknown

OPS: dict[str, Op] = {
    "psum": ops.all_reduce, "pmax": ops.all_reduce, "pmin": ops.all_reduce, "all_gather": ops.all_gather,
    "reduce_scatter": ops.reduce_scatter, "all_to_all": ops.all_to_all, "ragged_all_to_all": ops.all_to_all,
    "ppermute": ops.p2p,
}  # fmt: skip


def _base(name: str) -> str:
    """The collective that a variant of it is: started ahead, of values that are equal on all ranks, not yet reduced."""
    for end in ("_start", "_invariant", "_reduced"):
        name = name.removesuffix(end)
    return name.removeprefix("unreduced_")


def _ranks(case: Case) -> int:
    """Ranks of a group: those of the axes, or of the groups that are given; 0 where an axis is not known."""
    groups = case.params.get("axis_index_groups")
    if groups:
        return len(groups[0])
    axes = case.params.get("axes", case.params.get("axis_name", ()))
    names = axes if isinstance(axes, tuple | list) else (axes,)
    return prod(case.axes.get(str(name), 0) for name in names if not isinstance(name, int))


def collective(case: Case) -> Count:
    """The buffer is what an all-reduce, scatter or exchange starts from, and what a gather ends with."""
    name, ranks = _base(case.name), _ranks(case)
    if not ranks:
        return unknown("the mesh axes of the collective are not known")
    if ranks == 1 or not case.tensors:
        return NOTHING
    held = case.outputs if name == "all_gather" else case.tensors
    size = sum(stored_bytes(tensor) for tensor in held)
    row = known(held[0])
    if not size:
        return NOTHING
    dtype = row.name if row.kind == REAL else row.copied
    return done(OPS[name](bytes=size, ranks=2 if name == "ppermute" else ranks, dtype=dtype), LIBRARY)


VARIANTS = [
    *OPS, *(f"{name}_start" for name in OPS), "psum_invariant", "psum_invariant_start", "all_gather_invariant",
    "all_gather_reduced", "all_gather_reduced_start", "unreduced_psum", "unreduced_psum_start",
    "unreduced_reduce_scatter", "unreduced_reduce_scatter_start",
]  # fmt: skip
RULES: dict[str, Rule] = dict.fromkeys(VARIANTS, collective)
