"""What a compiler does with an operator: merges it with its neighbours, ends a chain with it, moves data, calls a library."""

from __future__ import annotations

from functools import lru_cache

from ...core.trace import LIBRARY, MOVE, POINTWISE, REDUCTION
from ..aten import rule_of
from ..aten.arguments import base_name

# By the file of the operator's rule in the vocabulary.
_BY_FAMILY = {
    "elementwise": POINTWISE, "optimizer": POINTWISE, "norm": REDUCTION, "softmax": REDUCTION, "reduction": REDUCTION, "loss": REDUCTION,
    "memory": MOVE, "indexing": MOVE, "images": POINTWISE,
}  # fmt: skip
# Copies, casts and fills run over their results element by element, as functions of one tensor do.
_COPIES = """
    copy_ copy _to_copy to clone contiguous fill_ fill zero_ zeros ones full zeros_like ones_like full_like new_zeros
    new_ones new_full arange scalar_tensor native_dropout native_dropout_backward tril triu tril_ triu_ bernoulli_ bernoulli
    rand rand_like randn randn_like uniform_ normal_ random_ _efficientzerotensor nll_loss_backward embedding
"""
_POINTWISE = frozenset(_COPIES.split())


@lru_cache(maxsize=4096)
def sort_of(name: str) -> str:
    """One of `core.trace.SORTS` for an operator that does work."""
    if base_name(name) in _POINTWISE:
        return POINTWISE
    rule = rule_of(name)
    family = rule.__module__.rpartition(".")[2] if rule is not None else ""
    return _BY_FAMILY.get(family, LIBRARY)
