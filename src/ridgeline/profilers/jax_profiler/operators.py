"""What a compiled instruction computes, as a call: products as `aten::mm` and its kin, everything else by its tensors.

The arguments of a fusion are what its kernel is given: operands, then results.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from ...core.tabular import json_document
from ...core.timeline import Call, Tensor
from .hlo import CONTROL, PLUMBING, Instruction, Module

SHAPING = frozenset(
    {"broadcast", "reshape", "convert", "copy", "slice", "transpose"}
)  # said only where nothing else is
MATMUL = ("cublas$lt$matmul", "cublas$gemm", "cublas$lt$matmul$f8")
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::convolution")
MAX_CONFIG = 1 << 16


def call_of(module: Module, item: Instruction) -> Call:
    """The call of an instruction; a fusion with a single product in it is that product."""
    parts = module.inner(item)
    products = [part for part in parts if part.opcode == "dot"]
    if len(products) == 1 and products[0].contracted:
        left, right = module.operands(products[0])[:2] if len(module.operands(products[0])) > 1 else (None, None)
        if left is not None and right is not None:
            return product(left, right, products[0].contracted, products[0].outputs[:1])
    if any(item.target.endswith(name) for name in MATMUL):
        made = _library_product(module, item)
        if made is not None:
            return made
    convolutions = [part for part in parts if part.convolved is not None]
    if len(convolutions) == 1:
        made = _convolution(module, convolutions[0])
        if made is not None:
            return made
    if item.opcode in CONTROL:
        return Call(item.name)  # what it runs are instructions of their own
    return Call(item.name, _moved(module, item, parts))


def _moved(module: Module, item: Instruction, parts: Sequence[Instruction]) -> tuple[Tensor, ...]:
    """Operands and results; of those that a loop takes a slice of, or writes one into, the slice."""
    operands, results = list(module.operands(item)), list(item.outputs)
    for part in parts:
        given = module.operands(part)
        if part.opcode == "dynamic-slice" and given and part.outputs and given[0] in operands:
            operands[operands.index(given[0])] = part.outputs[0]
        elif part.opcode == "dynamic-update-slice" and len(given) > 1 and given[0] in results:
            results[results.index(given[0])] = given[1]
            if given[0] in operands:
                operands.remove(given[0])
    return (*operands, *results)


def fused_operators(module: Module, item: Instruction) -> tuple[str, ...]:
    """The operations in a fusion, sorted; those that only shape data where there are no others. Of a product none."""
    if item.opcode in CONTROL or call_of(module, item).name in PRODUCTS:
        return ()
    opcodes = {part.opcode for part in module.inner(item)} - PLUMBING - {"fusion", "custom-call"}
    return tuple(sorted(opcodes - SHAPING or opcodes))


def product(left: Tensor, right: Tensor, contracted: Sequence[Sequence[int]], outputs: tuple[Tensor, ...]) -> Call:
    """C[b, m, n] = A[b, m, k] B[b, k, n], from the dimensions that are summed over and those that are batched."""
    sum_left, _, batch_left, batch_right = contracted
    batch = math.prod(_sizes(left, batch_left))
    k = math.prod(_sizes(left, sum_left))
    m = _volume(left) // max(1, batch * k)
    n = _volume(right) // max(1, math.prod(_sizes(right, batch_right)) * k)
    if batch == 1:
        return Call("aten::mm", (Tensor((m, k), left.dtype), Tensor((k, n), right.dtype)), outputs)
    return Call("aten::bmm", (Tensor((batch, m, k), left.dtype), Tensor((batch, k, n), right.dtype)), outputs)


def _library_product(module: Module, item: Instruction) -> Call | None:
    """A product that the compiler gave to cuBLAS: its configuration says which dimensions are summed over."""
    operands = module.operands(item)
    config = _config(item.config)
    dims = config.get("dot_dimension_numbers")
    if len(operands) < 2 or not isinstance(dims, dict):
        return None
    keys = ("lhs_contracting_dimensions", "rhs_contracting_dimensions", "lhs_batch_dimensions", "rhs_batch_dimensions")
    contracted = [[int(dim) for dim in dims.get(key, []) if str(dim).isdecimal() and len(str(dim)) < 4] for key in keys]
    made = product(operands[0], operands[1], contracted, item.outputs[:1])
    if "BIAS" in str(config.get("epilogue", "")) and len(operands) > 2 and made.name == "aten::mm":
        return Call("aten::addmm", (operands[-1], *made.args), made.outputs)
    return made


def _convolution(module: Module, item: Instruction) -> Call | None:
    """A convolution with its tensors as (batch, features, spatial) and (output, input, spatial).

    The gradients that the compiler gives to cuDNN are described by the convolution they belong to, which has as many flops:
    that of the input writes the input, that of the filter writes the filter.
    """
    operands, where = module.operands(item), item.convolved
    if len(operands) < 2 or not item.outputs or where is None:
        return None
    gradient = item.target.rpartition("$")[2]
    source = item.outputs[0] if gradient == "convBackwardInput" else operands[0]
    weights = item.outputs[0] if gradient == "convBackwardFilter" else operands[1]
    if (
        not sorted(where.input)
        == list(range(len(source.shape)))
        == list(range(len(weights.shape)))
        == sorted(where.filter)
    ):
        return None
    tensors = [
        Tensor(tuple(tensor.shape[dim] for dim in order), tensor.dtype)
        for tensor, order in ((source, where.input), (weights, where.filter))
    ]
    # padded on one side more than on the other (`SAME` with a stride): as an image that is larger by the difference
    beyond = (0, 0, *(abs(high - low) for low, high in where.padding))
    if len(beyond) != len(tensors[0].shape):
        return None
    larger = tuple(size + more for size, more in zip(tensors[0].shape, beyond, strict=True))
    tensors[0] = Tensor(larger, tensors[0].dtype)
    padding = tuple(min(pair) for pair in where.padding)
    spatial = (0,) * len(padding)
    args = (*tensors, None, where.strides, padding, where.dilation, False, spatial, where.groups)
    return Call("aten::convolution", args)


def _config(text: str) -> dict[str, Any]:
    try:
        document = json_document(text) if len(text) <= MAX_CONFIG else {}
    except (ValueError, RecursionError, json.JSONDecodeError):
        return {}
    inner = document.get("gemm_backend_config", document) if isinstance(document, dict) else {}
    return inner if isinstance(inner, dict) else {}


def _sizes(tensor: Tensor, dims: Sequence[int]) -> list[int]:
    return [tensor.shape[dim] for dim in dims if dim < len(tensor.shape)]


def _volume(tensor: Tensor) -> int:
    return math.prod(tensor.shape)
