"""What the kernels of a call say about it that its record leaves out: formats of listed tensors, sizes of long lists."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from .arguments import Settings

MULTI_TENSOR = "multi_tensor_apply_kernel"
JOINING = "CatArrayBatchedCopy"
# Types in template arguments, the narrow ones first: kernels compute in float whatever they load.
_TYPES = (
    (re.compile(r"\bc10::BFloat16\b|\b__nv_bfloat16\b"), "bf16"),
    (re.compile(r"\bc10::Half\b|\b__half\b"), "fp16"),
    (re.compile(r"\bdouble\b"), "fp64"),
    (re.compile(r"\bfloat\b"), "fp32"),
    (re.compile(r"\blong\b"), "int64"),
)
_OPAQUE = re.compile(r"OpaqueType<(\d+)u?>")
_WIDTHS = {1: "uint8", 2: "bf16", 4: "fp32", 8: "fp64", 16: "complex128"}  # copies depend on the width alone


def kernel_format(kernel: str) -> str:
    """The format of a kernel's tensors by its template arguments, empty where they name none."""
    opaque = _OPAQUE.search(kernel)
    if opaque:
        return _WIDTHS.get(int(opaque[1]), "")
    _, _, inner = kernel.partition("<")
    return next((name for pattern, name in _TYPES if pattern.search(inner)), "")


def evidence(settings: Settings, kernels: Iterable[tuple[str, tuple[int, ...]]]) -> Settings:
    """Settings with what the kernels of one call (full name, grid) add: the format, and the pieces of long lists."""
    listed = list(kernels)
    dtype = settings.dtype or next(filter(None, (kernel_format(name) for name, _ in listed)), "")
    pieces = sum(grid[0] for name, grid in listed if MULTI_TENSOR in name and grid)
    rows = [grid[1] for name, grid in listed if JOINING in name and len(grid) > 1]  # a row of blocks for every tensor
    return replace(settings, dtype=dtype, pieces=settings.pieces or pieces, joined=sum(rows), joins=len(rows))
