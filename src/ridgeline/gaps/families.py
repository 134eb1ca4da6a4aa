"""What kind of kernel a name or a shape tells of, and whether it speaks against a step."""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod

import numpy as np

from ..core.dtypes import dtype as dtype_row
from ..core.observation import Observation
from ..core.work import READ, Work

# Families by what a kernel's name holds; the first pattern that matches counts.
KERNELS: tuple[tuple[str, str], ...] = (
    (r"splitk|split_k|memset|memcpy", "helper"),
    (r"flash|fmha|sdpa|attention|paged", "attention"),
    (r"conv|fprop|dgrad|wgrad|implicit_gemm|winograd", "conv"),
    (r"all_?reduce|all_?gather|reduce_?scatter|sendrecv|nccl", "collective"),
    (r"softmax", "softmax"),
    (r"layer_?norm|rms_?norm|batch_?norm|group_?norm|bn_fw", "norm"),
    (r"embedding|gather|index_select|scatter", "gather"),
    (r"transpose|permute", "transpose"),
    (r"gemv", "gemv"),
    (r"gemm|nvjet|cutlass|xmma|matmul|wgmma", "gemm"),
    (r"reduce_kernel|\breduce|asum|nrm2|dot_kernel", "reduce"),
    (r"elementwise|vectorized|unrolled|pointwise|copy|fill|triton_poi", "stream"),
)
# Families of steps that a family of kernels may serve: libraries copy strided with elementwise kernels, and reduce rows.
SERVED_BY: dict[str, frozenset[str]] = {
    "gemm": frozenset({"gemm", "gemv", "moe"}),
    "gemv": frozenset({"gemv", "gemm"}),
    "stream": frozenset({"stream", "transpose", "gather"}),
    "transpose": frozenset({"transpose", "stream"}),
    "gather": frozenset({"gather", "stream"}),
    "reduce": frozenset({"reduce", "rows", "softmax", "norm"}),
    "softmax": frozenset({"softmax", "rows", "attention"}),
    "norm": frozenset({"norm", "rows"}),
    "attention": frozenset({"attention"}),
    "conv": frozenset({"conv"}),
    "collective": frozenset({"collective"}),
}
HELPER = "helper"  # a kernel that belongs to the one before it
MAX_SIZE_RATIO = 2.0  # within which tensors are taken for the same (padding, a bias beside a weight)


def kernel_family(item: Observation) -> str:
    """The family that the kernel's name, or else the op's, tells; empty where none does."""
    for text in (item.kernel, item.settings.get("op", ""), item.name):
        family = _family(str(text))
        if family:
            return family
    return ""


@lru_cache(maxsize=4096)
def _family(text: str) -> str:
    return next((family for pattern, family in KERNELS if re.search(pattern, text, re.IGNORECASE)), "")


def step_family(work: Work) -> str:
    """The same words for a step; operations on rows are told apart by the op."""
    if work.family == "rows":
        return "softmax" if "softmax" in work.name else "norm" if "norm" in work.name else "rows"
    return work.family


def may_be(work: Work, item: Observation) -> bool:
    """Whether neither the kernel's name nor the shapes recorded with it speak against the step."""
    if other_size(work, item):
        return False
    family = kernel_family(item)
    return not family or not work.family or step_family(work) in SERVED_BY.get(family, frozenset({family}))


def same_shape(work: Work, item: Observation) -> bool:
    """Whether the op's shapes hold every size of the step."""
    shapes = item.settings.get("shapes")
    if not isinstance(shapes, list) or not work.shape:
        return False
    recorded = {
        float(size) for shape in shapes if isinstance(shape, list) for size in shape if isinstance(size, int | float)
    }
    sizes = [value for value in work.shape.values() if isinstance(value, int | float) and not isinstance(value, bool)]
    return bool(sizes) and all(float(size) in recorded or size == 1 for size in sizes)


def other_size(work: Work, item: Observation) -> bool:
    """Whether the op's recorded shapes speak against the step: its largest input is of quite another size."""
    shapes = item.settings.get("shapes")
    if not isinstance(shapes, list) or not work.dtype:
        return False
    recorded = [
        prod(shape) for shape in shapes if isinstance(shape, list) and shape and all(isinstance(n, int) for n in shape)
    ]
    inputs = {tensor for _, tensor, way in work.moves if way == READ}
    sizes = work.tensor_sizes()
    largest = max((float(np.max(sizes[tensor])) for tensor in inputs if tensor in sizes), default=0.0)
    if not recorded or not largest:
        return False
    elements = largest / dtype_row(work.dtype).bytes
    return not 1 / MAX_SIZE_RATIO <= max(recorded) / elements <= MAX_SIZE_RATIO
