"""Products of a JAX program: dot_general, ragged_dot, convolutions and cuDNN attention, as profiles of JAX name them.

    dot_general   C[batch, m, n] = A[batch, m, k] B[batch, k, n], the sizes being those of the batch, free and summed dimensions
    convolution   by its dimension numbers; a gradient has the flops of the convolution that it belongs to
    attention     cuDNN's kernel is one operation; `jax.nn.dot_product_attention` by XLA is the products and softmax it is made of

fp32 runs as tf32 on the tensor cores unless the precision is HIGHEST, which is how XLA runs it on GPUs.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from ...core.timeline import BACKWARD, Call, Tensor
from ...core.trace import LIBRARY, POINTWISE
from ..aten.arguments import elements
from ..aten.building import with_moves
from ..aten.convolution import Convolution, forward, image_gradient, weight_gradient
from ..aten.formats import known, matrix_format
from .jax_case import Case, Count, Rule, done, looked_up, unknown

# What the names of dot algorithms (BF16_BF16_F32_X3) begin with.
ALGORITHMS = {"BF16": "bf16", "TF32": "tf32", "F16": "fp16", "F32": "fp32", "F64": "fp64"}
Dims = tuple[int, ...]


def dot_dims(case: Case) -> tuple[Dims, Dims, Dims, Dims, Dims, Dims]:
    """Dimensions of both operands: summed left and right, batch left and right, free left and right."""
    (sum_a, sum_b), (batch_a, batch_b) = case.params["dimension_numbers"]
    sums, batches = (tuple(sum_a), tuple(sum_b)), (tuple(batch_a), tuple(batch_b))
    free = [
        tuple(dim for dim in range(len(tensor.shape)) if dim not in sums[side] + batches[side])
        for side, tensor in enumerate(case.inputs[:2])
    ]
    return *sums, *batches, *free  # type: ignore[return-value]


def _precision(value: Any) -> tuple[bool, str, int]:
    """Whether fp32 may run as tf32; the format that an algorithm asks for, if one does; and how many products it takes."""
    listed = value if isinstance(value, tuple | list) else (value,)
    names = [str(getattr(item, "name", item)).upper() for item in listed]
    first = names[0].split("_")
    if first[0] in ALGORITHMS:
        last = first[-1]
        products = int(last[1:]) if last[:1] == "X" and last[1:].isdecimal() else 1
        return first[0] == "TF32", ALGORITHMS[first[0]], products
    return "HIGHEST" not in names and "F32" not in names, "", 1


def dot_general(case: Case) -> Count:
    """2 batch m n k flops; without summed dimensions it is the elementwise product that XLA makes of it."""
    a, b = case.inputs[:2]
    sum_a, _, batch_a, _, free_a, free_b = dot_dims(case)
    batch, k = prod(a.shape[dim] for dim in batch_a), prod(a.shape[dim] for dim in sum_a)
    m, n = prod(a.shape[dim] for dim in free_a), prod(b.shape[dim] for dim in free_b)
    tf32, asked, products = _precision(case.params.get("precision"))
    wide = max((known(a), known(b)), key=lambda row: (row.kind, row.bytes)).name
    dtype = asked if asked and wide == "fp32" else wide
    left, right = ((m, k), (k, n)) if not batch_a else ((batch, m, k), (batch, k, n))
    name = "aten::bmm" if batch_a and batch != 1 else "aten::mm"
    if name == "aten::mm":
        left, right = left[-2:], right[-2:]
    out = Tensor((*left[:-1], n), case.outputs[0].dtype)
    plain = dtype if dtype != "tf32" else "fp32"
    counted = looked_up(Call(name, (Tensor(left, plain), Tensor(right, plain)), (out,)), LIBRARY, tf32=tf32)
    if counted.work is None:
        return counted
    work = with_moves(counted.work, read={"A": a, "B": b})  # formats as they are stored
    if products > 1:
        work = work.repeat(float(products))
    call = Call(name, (Tensor(left, a.dtype), Tensor(right, b.dtype)), (out,))
    return replace(counted, work=work, call=call, sort=LIBRARY if sum_a else POINTWISE)


def ragged_dot(case: Case) -> Count:
    """Products of groups of different sizes: 2 m n k flops over all groups together.

    Rows of A[m,k] in groups, each times its own matrix of B[groups,k,n]; or, for the gradient of those matrices, A[k,m] and
    B[k,n] with the sum over k in groups.
    """
    a, b, groups = case.inputs[:3]
    numbers = case.params.get("ragged_dot_dimension_numbers")
    if numbers is None or len(a.shape) != 2 or len(b.shape) not in (2, 3):
        return unknown(f"ragged products of {a.shape} and {b.shape} are not counted")
    ((sum_a,), (sum_b,)), batch = numbers.dot_dimension_numbers
    stacked = tuple(numbers.rhs_group_dimensions)
    if any(batch) or len(b.shape) != 2 + len(stacked):
        return unknown(f"ragged products of {a.shape} and {b.shape} in batches are not counted")
    k, m = a.shape[sum_a], a.shape[1 - sum_a]
    n = next(size for dim, size in enumerate(b.shape) if dim not in (sum_b, *stacked))
    right = (*(b.shape[dim] for dim in stacked), k, n)
    tensors = Tensor((m, k), a.dtype), Tensor(right, b.dtype)
    counted = looked_up(Call("aten::_grouped_mm", (*tensors, groups), case.outputs[:1]), LIBRARY)
    if counted.work is None:
        return counted
    return replace(counted, work=with_moves(counted.work, read={"groups": groups}))


def _format(case: Case, tensor: Tensor) -> str | None:
    tf32, _, _ = _precision(case.params.get("precision"))
    row = known(tensor)
    return "tf32" if row.name == "fp32" and tf32 else matrix_format(row)


def convolution(case: Case) -> Count:
    """2 flops for every output, input channel of its group and tap.

    In the backward pass the filter's gradient has dy as its filter, which is larger than its result; the image's gradient has
    dy as its image, spread by the stride. A spread image in the forward pass is a transposed convolution.
    """
    x, w, out = case.inputs[0], case.inputs[1], case.outputs[0]
    numbers, dtype = case.params["dimension_numbers"], _format(case, x)
    if dtype is None:
        return unknown(f"convolutions of {x.dtype} are not counted")
    image, kernel, result = (
        _ordered(x, numbers.lhs_spec),
        _ordered(w, numbers.rhs_spec),
        _ordered(out, numbers.out_spec),
    )
    groups = int(case.params["feature_group_count"]) * int(case.params["batch_group_count"])
    stride, spread = tuple(case.params["window_strides"]), tuple(case.params["lhs_dilation"])
    dilation, low = tuple(case.params["rhs_dilation"]), tuple(int(pair[0]) for pair in case.params["padding"])
    last = int(numbers.lhs_spec[1]) == len(x.shape) - 1 and len(x.shape) > 3
    taps, pixels = kernel[2:], image[2:]
    if case.phase == BACKWARD and (prod(taps) > prod(result[2:]) or case.params["batch_group_count"] > 1):
        sizes = Convolution(  # the channels of x are the batch here, and its batch is summed over
            image[1], image[0], result[1], pixels, taps, result[2:], dilation, low, stride, groups, dtype, last
        )
        work = weight_gradient(sizes)
    elif case.phase == BACKWARD or prod(spread) > 1:
        reach = tuple(step * (size - 1) - pad for step, size, pad in zip(dilation, taps, low, strict=True))
        sizes = Convolution(
            image[0], result[1], image[1], result[2:], pixels, taps, spread, reach, dilation, groups, dtype, last
        )
        work = image_gradient(sizes, layer=case.phase != BACKWARD)
    else:
        sizes = Convolution(
            image[0], image[1], result[1], pixels, result[2:], taps, stride, low, dilation, groups, dtype, last
        )
        work = forward(sizes)
    return done(work, LIBRARY, call=_convolution_call(case, image, kernel, groups))


def _convolution_call(case: Case, image: Dims, kernel: Dims, groups: int) -> Call:
    """(batch, features, spatial) and (output, input, spatial), as profiles describe it; padding where it is even."""
    x, w = case.inputs[:2]
    both = [int(low) + int(high) for low, high in case.params["padding"]]
    padding = tuple(size // 2 for size in both) if all(size % 2 == 0 for size in both) else str(case.params["padding"])
    spread = tuple(case.params["lhs_dilation"])
    args = (
        Tensor(image, x.dtype), Tensor(kernel, w.dtype), None, tuple(case.params["window_strides"]), padding,
        tuple(case.params["rhs_dilation"]), prod(spread) > 1, spread, groups,
    )  # fmt: skip
    return Call("aten::convolution", args, case.outputs)


def _ordered(tensor: Tensor, order: Any) -> Dims:
    return tuple(tensor.shape[int(dim)] for dim in order)


def attention(case: Case) -> Count:
    """cuDNN's fused attention: Q, K and V in front, then the bias; the layout says whether heads or positions come first."""
    q, k, v, bias = case.inputs[:4]
    heads_first = int(case.params.get("layout", 0)) == 1
    queries, keys, values = (_heads_first(tensor, heads_first) for tensor in (q, k, v))
    masked = "CAUSAL" in str(getattr(case.params.get("mask_type"), "name", case.params.get("mask_type"))).upper()
    addend = bias if isinstance(bias, Tensor) and elements(bias) else None
    if case.params.get("sliding_window_length"):
        return unknown("attention in a sliding window is not counted")
    if "bwd" in case.name:
        filler = (None,) * 4
        args: tuple[Any, ...] = (queries, queries, keys, values, *filler, addend, *filler, 0.0, masked)
        counted = looked_up(Call("aten::_scaled_dot_product_cudnn_attention_backward", args), LIBRARY)
    else:
        args = (queries, keys, values, addend, True, 0.0, masked)
        counted = looked_up(Call("aten::_scaled_dot_product_cudnn_attention", args), LIBRARY)
    if counted.work is None:
        return replace(counted, call=None)
    sums = {"logsumexp": case.outputs[1]} if "fwd" in case.name and len(case.outputs) > 1 else {}
    return replace(counted, work=with_moves(counted.work, write=sums))


def _heads_first(tensor: Tensor, already: bool) -> Tensor:
    if already or len(tensor.shape) != 4:
        return tensor
    batch, positions, heads, size = tensor.shape
    return Tensor((batch, heads, positions, size), tensor.dtype)


RULES: dict[str, Rule] = {
    "dot_general": dot_general, "ragged_dot_general": ragged_dot, "ragged_dot": ragged_dot,
    "conv_general_dilated": convolution, "dot_product_attention_fwd_wrapper": attention,
    "dot_product_attention_bwd_wrapper": attention,
}  # fmt: skip
