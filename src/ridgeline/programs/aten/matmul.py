"""Products of matrices: 2 m n k flops, every operand read once and the result written once.

Shapes are as the operator sees them: a transposed operand has its sizes swapped, and strides tell its layout, which changes
no count. fp32 runs on the tensor cores only where tf32 is allowed. A product of complex numbers is that of real matrices
with both parts of B stacked, and A in two rows for each: four multiplications and additions for one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil, prod

import numpy as np

from ...core.dtypes import result
from ...core.families.product import BIASED
from ...core.timeline import Tensor
from ...core.work import Kernel, Work
from .. import ops
from ..ops.kernels import added_to
from .arguments import Arguments, Missing, elements
from .building import named, streamed, with_moves
from .counted import Counted, Rule, by
from .formats import COMPLEX, INTEGER, known, matrix_format

Product = Callable[[Arguments, Tensor, Tensor], Work]
ALIGNED = 16.0  # bytes that rows should start on, for loads of full width
PACKED_COLUMNS = 8  # columns of an int4 matrix in the outermost dimension of its packed form


def product_format(arguments: Arguments, tensor: Tensor) -> str:
    """The format that products of a tensor run in; integers that have no product units count as int32."""
    row = known(tensor)
    if row.name == "fp32" and arguments.settings.tf32 and arguments.settings.device == "cuda":
        return "tf32"
    name = matrix_format(row)
    if name is None and row.kind == INTEGER:
        return "int32"
    if name is None:
        raise Missing(f"products of {row.name} are not counted")
    return name


def _output(arguments: Arguments, dtype: str) -> str | None:
    """The format of the result where it was recorded and is not the usual one of such a product."""
    name = matrix_format(known(arguments.outputs[0])) if arguments.outputs else None
    return name if name is not None and known(arguments.outputs[0]).bytes != result(dtype).bytes else None


def _sizes(a: Tensor, b: Tensor) -> tuple[int, int, int]:
    """m, n and k of A[m,k] B[k,n]."""
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        raise Missing(f"shapes {a.shape} and {b.shape} are no product of matrices")
    return a.shape[0], b.shape[1], a.shape[1]


def _gemm(arguments: Arguments, a: Tensor, b: Tensor) -> Work:
    m, n, k = _sizes(a, b)
    if known(a).kind == COMPLEX:
        return with_moves(ops.gemm(m=2 * m, n=n, k=2 * k, dtype=known(a).arithmetic), read={"A": a})
    dtype = product_format(arguments, a)
    return _in_rows(ops.gemm(m=m, n=n, k=k, dtype=dtype, out_dtype=_output(arguments, dtype)), a, b)


def _in_rows(work: Work, a: Tensor, b: Tensor) -> Work:
    """Where rows of the operands lie along m and n, as in the gradient of weights, k may be any: no row begins at a multiple
    of it. The timings are of rows along k, so that their kernels are those of a k whose rows are aligned."""
    pitches = (_pitch(a, -2), _pitch(b, -1))
    if any(pitch is None or pitch * known(a).bytes % ALIGNED for pitch in pitches):
        return work
    step = ALIGNED / known(a).bytes
    kernels = (replace(kernel, sizes={**kernel.sizes, "k": ceil(a.shape[-1] / step) * step}) for kernel in work.kernels)
    return replace(work, kernels=tuple(kernels))


def _pitch(tensor: Tensor, along: int) -> int | None:
    """Elements from one row to the next of a matrix whose rows lie along a dimension; None where they do not."""
    other = -1 if along == -2 else -2
    if len(tensor.strides) < 2 or tensor.strides[along] != 1 or tensor.strides[other] < max(tensor.shape[along], 2):
        return None
    return tensor.strides[other]


def _bmm(arguments: Arguments, a: Tensor, b: Tensor) -> Work:
    if len(a.shape) != 3 or len(b.shape) != 3 or a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise Missing(f"shapes {a.shape} and {b.shape} are no batch of products")
    if known(a).kind == COMPLEX:
        batch, m, k = a.shape
        real = ops.bmm(batch=batch, m=2 * m, n=b.shape[2], k=2 * k, dtype=known(a).arithmetic)
        return with_moves(real, read={"A": a})
    dtype = product_format(arguments, a)
    sizes = {"batch": a.shape[0], "m": a.shape[1], "n": b.shape[2], "k": a.shape[2]}
    return _in_rows(ops.bmm(**sizes, dtype=dtype, out_dtype=_output(arguments, dtype)), a, b)


def with_addend(work: Work, addend: Tensor | None, scale: object = 1) -> Work:
    """The product plus beta times a vector or matrix: read once, one addition per result; beta = 0 reads nothing."""
    if addend is None or scale == 0:
        return work
    made = with_moves(work, read={"addend": addend})
    width = known(addend).bytes
    kernels = tuple(added_to(each, width) if _as_large(addend, each) else each for each in made.kernels)
    return replace(made, kernels=kernels)


def _as_large(addend: Tensor, kernel: Kernel) -> bool:
    """Whether it is read element by element: a bias and what is broadcast stay in cache."""
    results = prod(float(np.max(kernel.sizes.get(name, 1.0))) for name in "bmn")
    return elements(addend) >= results


def _product(product: Product) -> Rule:
    """mm(A, B) and its kind."""
    return lambda arguments: product(arguments, arguments.tensor(0), arguments.tensor(1))


def _with_sum(product: Product) -> Rule:
    """addmm(addend, A, B, beta, alpha) and its kind: the addend has the result's shape or broadcasts to it (a bias)."""

    def rule(arguments: Arguments) -> Work:
        work = product(arguments, arguments.tensor(1), arguments.tensor(2))
        addend, scale = arguments.tensor(0), arguments.at(3)
        if product is _gemm and len(addend.shape) == 1 and scale != 0:  # another library of kernels chooses for a bias
            work = replace(work, kernels=tuple(replace(kernel, op=BIASED) for kernel in work.kernels))
        return with_addend(work, addend, scale)

    return rule


def _over_batch(arguments: Arguments, a: Tensor, b: Tensor) -> Work:
    """The sum over the batch of A_b B_b: one product over k times the batch."""
    _bmm(arguments, a, b)  # checks the sizes
    dtype = product_format(arguments, a)
    return ops.gemm(m=a.shape[1], n=b.shape[2], k=a.shape[0] * a.shape[2], dtype=dtype)


def _gemv(arguments: Arguments, matrix: Tensor, vector: Tensor) -> Work:
    if len(matrix.shape) != 2 or len(vector.shape) != 1 or matrix.shape[1] != vector.shape[0]:
        raise Missing(f"shapes {matrix.shape} and {vector.shape} are no product of a matrix and a vector")
    dtype = known(matrix).arithmetic  # by the vector units
    return ops.gemv(m=matrix.shape[0], n=matrix.shape[1], dtype=dtype)


def _dot(arguments: Arguments) -> Work:
    a, b = arguments.tensor(0), arguments.tensor(1)
    if a.shape != b.shape or len(a.shape) != 1:
        raise Missing(f"shapes {a.shape} and {b.shape} are no dot product")
    return ops.dot(n=a.shape[0], dtype=known(a).arithmetic)


def _outer(arguments: Arguments) -> Work:
    """addr(A, x, y): A + x y^T, 2 m n flops."""
    a, x, y = arguments.tensor(0), arguments.tensor(1), arguments.tensor(2)
    out = Tensor((elements(x), elements(y)), x.dtype)
    return streamed("ger", named("A x y", a, x, y), {"out": out}, known(x), 2.0 * elements(out))


def linear(arguments: Arguments) -> Work:
    """linear(x, W[out,in], bias): the leading dimensions of x are rows."""
    x, weights, bias = arguments.tensor(0), arguments.tensor(1, "weight"), arguments.optional(2)
    if not x.shape or len(weights.shape) not in (1, 2) or x.shape[-1] != weights.shape[-1]:
        raise Missing(f"shapes {x.shape} and {weights.shape} are no linear layer")
    dtype = product_format(arguments, x)
    rows, out = prod(x.shape[:-1]), weights.shape[0] if len(weights.shape) == 2 else 1
    sizes = {"batch": rows, "in_features": x.shape[-1], "out_features": out}
    stored = matrix_format(known(weights)) if weights.dtype != x.dtype else None
    return ops.linear(**sizes, dtype=dtype, weights=stored, out_dtype=_output(arguments, dtype), bias=bias is not None)


def matmul(arguments: Arguments) -> Work:
    """matmul(A, B): a vector, a matrix or a batch on either side; batches broadcast, and a shared side is read once."""
    a, b = arguments.tensor(0), arguments.tensor(1)
    if len(a.shape) == len(b.shape) == 1:
        return _dot(arguments)
    if len(b.shape) == 1 and a.shape[-1] == b.shape[0]:
        return ops.gemv(m=prod(a.shape[:-1]), n=a.shape[-1], dtype=known(a).arithmetic)
    if len(a.shape) == 1 and len(b.shape) >= 2 and a.shape[0] == b.shape[-2]:
        return ops.gemv(m=elements(b) // a.shape[0] if a.shape[0] else 0, n=a.shape[0], dtype=known(a).arithmetic)
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
        raise Missing(f"shapes {a.shape} and {b.shape} are no product of matrices")
    dtype = product_format(arguments, a)
    m, n, k = a.shape[-2], b.shape[-1], a.shape[-1]
    if len(b.shape) == 2:
        return ops.gemm(m=prod(a.shape[:-1]), n=n, k=k, dtype=dtype)
    batch = broadcast((a.shape[:-2], b.shape[:-2]))
    work = ops.bmm(batch=prod(batch), m=m, n=n, k=k, dtype=dtype)
    return with_moves(work, read={"A": a, "B": b})


def broadcast(shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """The shape that shapes broadcast to."""
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    joined = []
    for sizes in zip(*padded, strict=True):
        larger = {size for size in sizes if size != 1}
        if len(larger) > 1:
            raise Missing(f"shapes {', '.join(map(str, shapes))} do not broadcast")
        joined.append(larger.pop() if larger else 1)
    return tuple(joined)


def _scaled_mm(arguments: Arguments) -> Counted:
    """_scaled_mm(A, B, scale_a, scale_b, bias, scale_result, out_dtype): fp8 or fp4 with scales; bf16 unless recorded."""
    a, b = arguments.tensor(0), arguments.tensor(1)
    m, n, k = _sizes(a, b)
    row = known(a)
    if row.name == "fp4_pair":  # two elements a byte
        k, dtype = 2 * k, "nvfp4"
    else:
        dtype = product_format(arguments, a)
    work = ops.gemm(m=m, n=n, k=k, dtype=dtype, out_dtype=_output(arguments, dtype))
    scales = named("scale_a scale_b bias", arguments.optional(2), arguments.optional(3), arguments.optional(4))
    per_row = any(isinstance(scale, Tensor) and elements(scale) > 1 for scale in scales.values())
    return by("rowwise" if per_row and dtype.startswith("fp8") else "", with_moves(work, read=scales))


def _grouped(arguments: Arguments) -> Work:
    """_grouped_mm(A, B, offs): products of different sizes at once.

    2-D A[rows,k] times 3-D B[groups,k,n]: the groups share the rows, 2 rows n k flops, and every group's matrix is read.
    2-D A[m,k] times 2-D B[k,n] split along k: groups of m x n results, 2 m n k flops. 3-D times 3-D is a bmm.
    """
    a, b = arguments.tensor(0), arguments.tensor(1)
    if len(a.shape) == len(b.shape) == 3:
        return _bmm(arguments, a, b)
    dtype = product_format(arguments, a)
    offsets = next((item for item in arguments.tensors[2:] if known(item).kind == INTEGER), None)
    groups = (
        b.shape[0] if len(b.shape) == 3 else a.shape[0] if len(a.shape) == 3 else elements(offsets) if offsets else 0
    )
    if not groups:
        raise Missing("the number of groups was not recorded")
    if len(a.shape) == 2 and len(b.shape) == 3 and a.shape[1] == b.shape[1]:
        rows, n, k = a.shape[0], b.shape[2], a.shape[1]
        work = ops.bmm(batch=groups, m=max(rows // groups, 1), n=n, k=k, dtype=dtype)
        out = Tensor((rows, n), result(dtype).name)
    elif len(a.shape) == len(b.shape) == 2 and a.shape[1] == b.shape[0]:
        rows, n, k = a.shape[0], b.shape[1], a.shape[1]
        work = ops.bmm(batch=groups, m=rows, n=n, k=max(k // groups, 1), dtype=dtype)
        out = Tensor((groups, rows, n), result(dtype).name)
    else:
        raise Missing(f"shapes {a.shape} and {b.shape} are no grouped product")
    exact = dict.fromkeys(work.counts, 2.0 * rows * n * k)
    work = with_moves(work, read={"A": a, "B": b}, write={"C": out})
    return Work(**{**vars(work), "counts": exact})


def _int4(arguments: Arguments) -> Work:
    """_weight_int4pack_mm(x, packed, group size, scales and zeros): packed is [n/8, k/(16 tiles), 32, tiles/2] of int32.

    On CPU packed is [n, k/2] bytes.
    """
    x, packed, group = arguments.tensor(0), arguments.tensor(1), arguments.integer(2, "group size")
    n = packed.shape[0] * (PACKED_COLUMNS if len(packed.shape) == 4 else 1)
    dtype = product_format(arguments, x)
    return ops.linear(prod(x.shape[:-1]), x.shape[-1], n, dtype=dtype, weights=f"int4_g{group}z")


def _int8(arguments: Arguments) -> Work:
    """_weight_int8pack_mm(x, W[n,k] int8, scales): arithmetic in the format of x."""
    x, weights = arguments.tensor(0), arguments.tensor(1)
    dtype = product_format(arguments, x)
    work = ops.linear(prod(x.shape[:-1]), x.shape[-1], weights.shape[0], dtype=dtype, weights="int8")
    return with_moves(work, read=named("scales", arguments.optional(2)))


RULES: dict[str, Rule] = {
    **dict.fromkeys(("mm", "_int_mm", "hspmm"), _product(_gemm)),
    **dict.fromkeys(("addmm", "_addmm_activation", "addmm_"), _with_sum(_gemm)),
    "bmm": _product(_bmm), **dict.fromkeys(("baddbmm", "baddbmm_"), _with_sum(_bmm)),
    **dict.fromkeys(("addbmm", "addbmm_"), _with_sum(_over_batch)),
    "mv": _product(_gemv), **dict.fromkeys(("addmv", "addmv_"), _with_sum(_gemv)), "dot": _dot, "vdot": _dot, "addr": _outer, "addr_": _outer,
    "_scaled_mm": _scaled_mm, "_scaled_mm_v2": _scaled_mm,
    "_grouped_mm": _grouped, "_scaled_grouped_mm": _grouped, "_scaled_grouped_mm_v2": _grouped,
    "_weight_int4pack_mm": _int4, "_weight_int4pack_mm_for_cpu": _int4, "_weight_int8pack_mm": _int8,
    "_linear_pointwise": linear, "mkldnn_linear": linear, "linear": linear, "matmul": matmul, "linalg_matmul": matmul,
}  # fmt: skip
