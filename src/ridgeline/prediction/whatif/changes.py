"""The changes there are, by name, and chains of them from text."""

from __future__ import annotations

from ...core.errors import InputError, unknown
from . import machine_changes, op_changes
from .change import Change, ChangeKind

CHANGES: dict[str, ChangeKind] = {
    "quantize": ChangeKind(
        "quantize=[weights:|kv:|out:]FORMAT",
        "another number format, of everything or of what is stored",
        op_changes.quantize,
    ),
    "fuse": ChangeKind(
        "fuse=[before:|after:]OP",
        "a neighbour into the kernel: the tensor between is neither written nor read",
        op_changes.fuse,
    ),
    "batch": ChangeKind("batch=N", "N times as much at once; times are per unit", op_changes.batch),
    "speculate": ChangeKind("speculate=K[:SHARE]", "verify K drafted tokens in one pass", op_changes.speculate),
    "split": ChangeKind("split=N", "the op over N devices, with what they send each other", op_changes.split),
    "tile": ChangeKind(
        "tile[=SIDE]", "square tiles of a side, or everything kept on chip that can be", op_changes.tile, True
    ),
    "tensor": ChangeKind(
        "tensor[=FORMAT]", "matrix products from the vector to the tensor units", op_changes.tensor_units, True
    ),
    "graph": ChangeKind(
        "graph[=TIME]", "a captured graph: a launch costs what a node costs", machine_changes.graph, True
    ),
    "overhead": ChangeKind(
        "overhead", "no launch latency at all: what remains is the kernel", machine_changes.overhead, True
    ),
    "machine": ChangeKind("machine=NAME", "another machine", machine_changes.machine),
    "bandwidth": ChangeKind("bandwidth=F", "main memory F times as fast", machine_changes.bandwidth),
    "compute": ChangeKind("compute=F", "every peak F times as high", machine_changes.compute),
    "bytes": ChangeKind("bytes=F", "a declared effect: F times the traffic", machine_changes.traffic),
    "flops": ChangeKind("flops=F", "a declared effect: F times the arithmetic", machine_changes.arithmetic),
    "efficiency": ChangeKind(
        "efficiency=SHARE", "a declared effect: this share of every ceiling is reached", machine_changes.efficiency
    ),
}


def parse(text: str) -> list[Change]:
    """A chain from text: `quantize=fp8,batch=8,machine=b200-sxm`."""
    changes = []
    for word in text.split(","):
        name, equals, value = (part.strip() for part in word.partition("="))
        if not name and not equals:
            continue
        if name not in CHANGES:
            raise unknown("change", name, CHANGES, f"Write {', '.join(kind.usage for kind in CHANGES.values())}.")
        if not value and (equals or not CHANGES[name].value_optional):
            raise InputError(f"'{word.strip()}': {name} needs a value; write {CHANGES[name].usage}")
        changes.append(CHANGES[name].change(value))
    if not changes:
        raise InputError("no change is named; write one or a chain, such as quantize=fp8,batch=8")
    return changes
