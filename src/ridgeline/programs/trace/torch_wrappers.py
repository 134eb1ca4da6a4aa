"""What wrappers of modules do that no operator of a trace shows: gradients of replicas, compiled modules, autocast of the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...core.units import show

REPLICATED = "DistributedDataParallel"  # whose reducer exchanges gradients outside of the dispatcher
AUTOCAST = (
    "autocast of the CPU has no effect in a trace, whose tensors are on a GPU: products are counted in the formats of their tensors; "
    "use torch.autocast('cuda') for those of a GPU"
)


def compiled_note(target: Any) -> tuple[str, ...]:
    """What to say where a program that torch.compile wraps is traced as an eager one."""
    compiled = hasattr(target, "_orig_mod") or hasattr(target, "_torchdynamo_orig_callable")
    return ("torch.compile is not applied in this mode; mode fused predicts the compiled program",) if compiled else ()


def replica_notes(roots: Iterable[Any]) -> Iterator[str]:
    """Of the modules that a program called first, and whose gradients it computes."""
    for module in roots:
        if type(module).__name__ == REPLICATED:
            moved = sum(item.numel() * item.element_size() for item in module.parameters() if item.requires_grad)
            ranks = module.process_group.size()
            yield (
                f"not in the times: the all-reduce of gradients by {REPLICATED}, {show(moved, 'B', 3)} over {ranks} ranks; "
                f"`ridgeline predict all_reduce bytes={moved} ranks={ranks}` predicts it"
            )
