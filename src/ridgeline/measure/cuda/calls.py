"""The default PyTorch path of each op: library calls that run a case out of place, on views of random normal values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from typing import Any

from ...core.errors import InputError
from ...programs.ops import find
from . import backends, gradients, layers
from .draw import Case
from .operands import FORMATS, Operands, Run
from .operands import ValuePool as ValuePool


def _linear(operands: Operands, m: int, n: int, k: int, bias: bool = False) -> Run:
    """x[m,k] W[n,k]^T as torch.nn.Linear computes it; fp8 with one scale per tensor, int8 into int32."""
    torch, x, weights = operands.torch, operands.take(m, k), operands.take(n, k)
    if operands.dtype.startswith("fp8"):
        if n % 16 or k % 16:
            raise InputError(f"gemm in fp8: torch._scaled_mm needs n and k in multiples of 16, got n={n} k={k}")
        scale = torch.ones((), dtype=torch.float32, device=operands.device)
        return partial(torch._scaled_mm, x, weights.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)
    if operands.dtype == "int8":
        if m <= 16 or n % 8 or k % 8:
            raise InputError(
                f"gemm in int8: torch._int_mm needs m above 16 and n, k in multiples of 8, got m={m} n={n} k={k}"
            )
        return partial(torch._int_mm, x, weights.t())
    linear = torch.nn.functional.linear
    return operands.product(partial(linear, x, weights, operands.take(n) if bias else None))


INT4_TILES = 8  # k-tiles of 16 that torch packs together
GROUPED_INT4 = re.compile(r"int4_g(32|64|128|256)z")  # the group sizes of torch's kernel, with scale and zero point


def _int4_linear(operands: Operands, m: int, n: int, k: int, weights: str) -> Run:
    """x[m,k] W[n,k]^T with int4 weights, a bf16 scale and zero point per group, as torch's own kernel takes them."""
    torch, group = operands.torch, GROUPED_INT4.fullmatch(weights)
    if group is None or operands.dtype != "bf16":
        raise InputError(f"linear in {operands.dtype} with {weights} weights has no default path in PyTorch")
    if n % 64 or k % (16 * INT4_TILES):
        raise InputError(f"linear with int4 weights: torch needs n in multiples of 64 and k of 128, got n={n} k={k}")
    size = int(group[1])
    packed = torch._convert_weight_to_int4pack(
        torch.randint(256, (n, k // 2), dtype=torch.uint8, device=operands.device), INT4_TILES
    )
    return partial(torch._weight_int4pack_mm, operands.take(m, k), packed, size, operands.take(k // size, n, 2))


def _linear_op(
    operands: Operands, batch: int, in_features: int, out_features: int, bias: int = 0, weights: str = ""
) -> Run:
    if weights and not bias:
        return _int4_linear(operands, batch, out_features, in_features, weights)
    if bias and operands.dtype in ("fp8_e4m3", "fp8_e5m2", "int8"):
        raise InputError(f"linear in {operands.dtype} with a bias has no default path in PyTorch")
    return _linear(operands, batch, out_features, in_features, bool(bias))


def _bmm(operands: Operands, batch: int, m: int, n: int, k: int) -> Run:
    return operands.product(partial(operands.torch.bmm, operands.take(batch, m, k), operands.take(batch, k, n)))


FACTOR = 3  # of scal, axpy and STREAM; an integer, so that integer data stay integers
# ops of one operand: the call of torch that computes them
UNARY: dict[str, Callable[[Any, Any], Run]] = {
    "copy": lambda torch, x: x.clone,
    "stream_copy": lambda torch, x: x.clone,
    "scal": lambda torch, x: partial(torch.mul, x, FACTOR),
    "stream_scale": lambda torch, x: partial(torch.mul, x, FACTOR),
    "nrm2": lambda torch, x: partial(torch.linalg.vector_norm, x),
    "asum": lambda torch, x: partial(torch.linalg.vector_norm, x, 1),
    "sum": lambda torch, x: partial(torch.sum, x),
    "relu": lambda torch, x: partial(torch.relu, x),
    "gelu": lambda torch, x: partial(torch.nn.functional.gelu, x, approximate="tanh"),
    "silu": lambda torch, x: partial(torch.nn.functional.silu, x),
    "sigmoid": lambda torch, x: partial(torch.sigmoid, x),
    "tanh": lambda torch, x: partial(torch.tanh, x),
    "exp": lambda torch, x: partial(torch.exp, x),
    "dropout": lambda torch, x: partial(torch.nn.functional.dropout, x, 0.5, True),
}
BINARY: dict[str, Callable[[Any, Any, Any], Run]] = {
    "axpy": lambda torch, x, y: partial(torch.add, y, x, alpha=FACTOR),
    "stream_add": lambda torch, x, y: partial(torch.add, x, y),
    "stream_triad": lambda torch, x, y: partial(torch.add, x, y, alpha=FACTOR),
    "add": lambda torch, x, y: partial(torch.add, x, y),
    "residual": lambda torch, x, y: partial(torch.add, x, y),
    "mul": lambda torch, x, y: partial(torch.mul, x, y),
    "dot": lambda torch, x, y: partial(torch.dot, x, y),
}


def _vectors(call: Callable[..., Run], count: int, operands: Operands, n: int) -> Run:
    return call(operands.torch, *(operands.take(n) for _ in range(count)))


def _cast(operands: Operands, n: int, out_dtype: str = "bf16") -> Run:
    if out_dtype not in FORMATS:
        raise InputError(f"cast to {out_dtype} has no default path in PyTorch; it knows {', '.join(FORMATS)}")
    if FORMATS[out_dtype] == FORMATS[operands.dtype]:
        raise InputError(f"cast from {operands.dtype} to {out_dtype}: both are stored alike, so nothing runs")
    return partial(operands.take(n).to, getattr(operands.torch, FORMATS[out_dtype]))


def _layernorm(operands: Operands, rows: int, cols: int) -> Run:
    x, gamma, beta = operands.take(rows, cols), operands.take(cols), operands.take(cols)
    return partial(operands.torch.nn.functional.layer_norm, x, (cols,), gamma, beta)


def _rmsnorm(operands: Operands, rows: int, cols: int) -> Run:
    return partial(operands.torch.nn.functional.rms_norm, operands.take(rows, cols), (cols,), operands.take(cols))


def _batchnorm(operands: Operands, rows: int, cols: int) -> Run:
    """Inference, with stored statistics of each column."""
    x, mean, gamma, beta = operands.take(rows, cols), operands.take(cols), operands.take(cols), operands.take(cols)
    variance = operands.take(cols).abs() + 0.5
    return partial(operands.torch.nn.functional.batch_norm, x, mean, variance, gamma, beta, False)


def _transpose(operands: Operands, rows: int, cols: int) -> Run:
    transposed = operands.take(rows, cols).t()
    if transposed.is_contiguous():
        raise InputError(f"transpose of {rows} x {cols}: one row or column lies the same way turned, so nothing runs")
    return transposed.contiguous  # type: ignore[no-any-return]


def _cross_entropy(operands: Operands, rows: int, cols: int) -> Run:
    x, target = operands.take(rows, cols), operands.integers(cols, rows)
    return partial(operands.torch.nn.functional.cross_entropy, x, target, reduction="none")


def _embedding(operands: Operands, rows: int, vocab: int, cols: int) -> Run:
    return partial(operands.torch.nn.functional.embedding, operands.integers(vocab, rows), operands.take(vocab, cols))


def _conv2d(
    operands: Operands,
    batch: int,
    c_in: int,
    c_out: int,
    h: int,
    w: int,
    kernel: int = 3,
    stride: int = 1,
    padding: int | None = None,
    groups: int = 1,
    dilation: int = 1,
    layout: str = "nchw",
) -> Run:
    pad = dilation * (kernel - 1) // 2 if padding is None else padding
    if layout == "nhwc":
        x = operands.take(batch, h, w, c_in).permute(0, 3, 1, 2)
        weights = operands.take(c_out, kernel, kernel, c_in // groups).permute(0, 3, 1, 2)
    else:
        x, weights = operands.take(batch, c_in, h, w), operands.take(c_out, c_in // groups, kernel, kernel)
    conv = operands.torch.nn.functional.conv2d
    return operands.product(partial(conv, x, weights, None, stride, pad, dilation, groups))


def _attention(
    operands: Operands,
    batch: int,
    heads: int,
    seq_q: int,
    head_dim: int,
    seq_kv: int | None = None,
    kv_heads: int | None = None,
    causal: int = 0,
    variant: str = "flash",
) -> Run:
    """`flash` is what scaled_dot_product_attention chooses by itself; `standard` two batched products and a softmax."""
    torch, keys, groups = operands.torch, seq_kv or seq_q, kv_heads or heads
    q = operands.take(batch, heads, seq_q, head_dim)
    k, v = operands.take(batch, groups, keys, head_dim), operands.take(batch, groups, keys, head_dim)
    masked = bool(causal) and seq_q > 1  # the last query sees every key
    if variant == "standard":
        if masked:
            raise InputError("standard attention with a causal mask is not timed: PyTorch masks in a pass of its own")
        q, k, v = q.view(batch * groups, -1, head_dim), k.view(-1, keys, head_dim), v.view(-1, keys, head_dim)
        start = torch.empty(1, 1, 1, dtype=q.dtype, device=operands.device)  # not read: beta is 0
        keys_transposed, scale = k.transpose(1, 2), head_dim**-0.5

        def standard() -> Any:
            scores = torch.baddbmm(start, q, keys_transposed, beta=0, alpha=scale)
            return torch.bmm(torch.softmax(scores, -1), v)

        return operands.product(standard)
    if masked and keys != seq_q:
        raise InputError(
            "flash attention with a causal mask and seq_q below seq_kv is not timed: PyTorch aligns that mask to the first key"
        )
    attend = torch.nn.functional.scaled_dot_product_attention
    return operands.product(partial(attend, q, k, v, is_causal=masked, enable_gqa=groups != heads))


def _moe(operands: Operands, tokens: int, experts: int, topk: int, hidden: int, inter: int) -> Run:
    """Router, gather by expert, grouped products (torch._grouped_mm) around silu and gate, weighted sum per token.

    Routing is balanced and known beforehand: choosing and sorting the experts is not part of it.
    """
    torch = operands.torch
    grouped = getattr(torch, "_grouped_mm", None)
    if grouped is None or operands.dtype != "bf16":
        raise InputError(f"moe in {operands.dtype}: the default path is torch._grouped_mm, which multiplies bf16")
    if hidden % 8 or inter % 8:
        raise InputError(f"moe: grouped products need hidden and inter in multiples of 8, got {hidden} and {inter}")
    x, router = operands.take(tokens, hidden), operands.take(experts, hidden)
    up = operands.take(experts, 2 * inter, hidden).transpose(1, 2)
    down = operands.take(experts, hidden, inter).transpose(1, 2)
    shares = operands.take(tokens, 1, topk)
    chosen = torch.arange(tokens * topk, device=operands.device) % experts
    order = torch.argsort(chosen, stable=True)
    ends = torch.bincount(chosen, minlength=experts).cumsum(0).to(torch.int32)
    sources, back = order // topk, torch.argsort(order)
    linear, silu = torch.nn.functional.linear, torch.nn.functional.silu

    def run() -> Any:
        linear(x, router)
        gate, plain = grouped(x[sources], up, offs=ends).chunk(2, dim=-1)
        each = grouped(silu(gate) * plain, down, offs=ends)
        return torch.bmm(shares, each[back].view(tokens, topk, hidden))

    return run


BUILDERS: dict[str, Callable[..., Run]] = {
    **gradients.BUILDERS,
    **layers.BUILDERS,
    **{name: partial(_vectors, call, 1) for name, call in UNARY.items()},
    **{name: partial(_vectors, call, 2) for name, call in BINARY.items()},
    "gemm": _linear,
    "linear": _linear_op,
    "bmm": _bmm,
    "gemv": lambda operands, m, n: operands.product(partial(operands.torch.mv, operands.take(m, n), operands.take(n))),
    "ger": lambda operands, m, n: partial(operands.torch.addr, operands.take(m, n), operands.take(m), operands.take(n)),
    "cast": _cast,
    "softmax": lambda operands, rows, cols: partial(operands.torch.softmax, operands.take(rows, cols), -1),
    "layernorm": _layernorm,
    "rmsnorm": _rmsnorm,
    "batchnorm": _batchnorm,
    "sum_rows": lambda operands, rows, cols: partial(operands.torch.sum, operands.take(rows, cols), -1),
    "transpose": _transpose,
    "cross_entropy": _cross_entropy,
    "embedding": _embedding,
    "conv2d": _conv2d,
    "attention": _attention,
    "moe": _moe,
}


def _builder(op: str, backend: str) -> Callable[..., Run]:
    """Who makes the call of an op, by its default path or by a backend; InputError where nobody does."""
    if not backend:
        if op not in BUILDERS:
            raise InputError(f"{op} has no default path in PyTorch; timed are {', '.join(sorted(BUILDERS))}")
        return BUILDERS[op]
    if (op, backend) not in backends.BUILDERS:
        known = ", ".join(f"{name} by {path}" for name, path in sorted(backends.BUILDERS))
        raise InputError(f"{op} by backend {backend} is not timed here; timed are {known}")
    return partial(backends.BUILDERS[op, backend], backend=backend)


def build(
    case: Case, torch: Any, device: str, pool: ValuePool, own: Mapping[str, Callable[..., Run]] | None = None
) -> Run:
    """A call without arguments that runs the case out of place on prepared operands; InputError says why there is none.

    `own` are the calls that a device has in place of the usual ones.
    """
    given = {key: value for key, value in case.items() if value is not None and value != ""}
    op, backend = find(str(given.pop("op", ""))), str(given.pop("backend", ""))
    builder = (own or {}).get(op.name) or _builder(op.name, backend)
    sizes = op.check(given)
    op.make(**sizes)  # its own conditions: kernels that fit, heads that divide
    dtype = str(sizes.pop("dtype", op.params["dtype"].default))
    if dtype not in FORMATS:
        raise InputError(f"{op.name} in {dtype} has no default path in PyTorch; it knows {', '.join(FORMATS)}")
    non_default = {key: value for key, value in sizes.items() if value is not None and value != op.params[key].default}
    taken = frozenset(signature(builder).parameters) - {"operands", "backend"}
    missing = [key for key in non_default if key not in taken]
    if missing:
        raise InputError(f"{op.name} with {', '.join(missing)} has no {backend or 'default'} path in PyTorch")
    pool.begin()
    arguments = {key: value if isinstance(value, str) else int(value) for key, value in non_default.items()}
    return builder(Operands(torch, device, dtype, pool), **arguments)
