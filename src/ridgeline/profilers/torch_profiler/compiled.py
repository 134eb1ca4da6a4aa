"""Names of kernels that torch.compile generated: `triton_poi_fused_add_gelu_3` was made of add and gelu."""

from __future__ import annotations

import re

_GENERATED = re.compile(r"(?:triton|cpp|cutlass)_(?:\w+?_)?fused_(?P<operators>\w+?)_(?P<number>\d+)")


def fused_operators(name: str) -> tuple[str, ...]:
    generated = _GENERATED.fullmatch(name)
    return tuple(part for part in generated["operators"].split("_") if part) if generated else ()
