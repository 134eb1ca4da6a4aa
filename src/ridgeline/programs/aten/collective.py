"""Collectives: bytes of the buffer that all ranks hold together, and the number of ranks.

The number of ranks is among the arguments of functional collectives, follows from the sizes of both buffers of a gather or
a scatter, or is given by the caller; without it a collective is not counted.
"""

from __future__ import annotations

import re

from ...core.timeline import Tensor
from ...core.work import Work
from .. import ops
from ..ops import Op
from .arguments import Arguments, Missing, elements
from .counted import Rule
from .formats import REAL, known

OPS: dict[str, Op] = {
    "all_reduce": ops.all_reduce, "all_gather": ops.all_gather, "reduce_scatter": ops.reduce_scatter,
    "all_to_all": ops.all_to_all, "broadcast": ops.broadcast, "p2p": ops.p2p,
}  # fmt: skip
# What a name says it is, the first that fits; names without underscores and dashes.
WORDS = {
    "reducescatter": "reduce_scatter", "allreduce": "all_reduce", "allgather": "all_gather", "alltoall": "all_to_all",
    "broadcast": "broadcast", "bcast": "broadcast", "sendrecv": "p2p", "send": "p2p", "recv": "p2p", "gather": "all_gather",
    "scatter": "broadcast", "reduce": "broadcast",
}  # fmt: skip
NAMESPACES = (
    "c10d::",
    "_c10d_functional::",
    "_c10d_functional_autograd::",
    "c10d_functional::",
    "nccl:",
    "rccl:",
    "gloo:",
)
GROUP_SIZE = {"all_gather_into_tensor": 1, "reduce_scatter_tensor": 2, "all_gather_into_tensor_coalesced": 1}


def is_collective(name: str) -> bool:
    return name.startswith(NAMESPACES) or name.startswith("record_param_comms") or name.startswith("ncclDevKernel")


def kind(name: str) -> str:
    """The op of a collective's name, empty where it is none (barrier, wait)."""
    letters = re.sub(r"[^a-z]", "", name.lower().rpartition(":")[2])
    return next((op for word, op in WORDS.items() if word in letters), "")


def _size(arguments: Arguments, tensors: list[Tensor]) -> float:
    return sum(elements(tensor) * known(tensor).bytes for tensor in tensors)


def collective(arguments: Arguments) -> Work:
    """The buffer is the larger side: what a gather ends with, what a scatter starts from."""
    op = kind(arguments.name) or next((kind(arg) for arg in arguments.args if isinstance(arg, str) and kind(arg)), "")
    if not op:
        raise Missing(f"no rule for {arguments.name}")
    lists = [_flat(arg) for arg in arguments.args[:2]]
    sizes = [_size(arguments, items) for items in lists if items]
    if not sizes or not max(sizes):
        raise Missing("shapes were not recorded")
    size, ranks = max(sizes), arguments.settings.ranks
    if arguments.base in GROUP_SIZE:
        ranks = arguments.integer(GROUP_SIZE[arguments.base], "group_size")
        if op == "all_gather":
            size *= ranks
    if not ranks and len(sizes) == 2 and op in ("all_gather", "reduce_scatter") and size % min(sizes) == 0:
        ranks = int(size // min(sizes))
    if op == "p2p":
        ranks = 2
    if ranks < 1:
        raise Missing("the number of ranks was not recorded")
    if ranks == 1:
        raise Missing("a group of one rank sends nothing")
    first = next(items for items in lists if items)[0]
    row = known(first)
    return OPS[op](bytes=size, ranks=ranks, dtype=row.name if row.kind == REAL else row.copied)


def _flat(arg: object) -> list[Tensor]:
    if isinstance(arg, Tensor):
        return [arg]
    return [tensor for item in arg for tensor in _flat(item)] if isinstance(arg, tuple | list) else []


RULES: dict[str, Rule] = {}
