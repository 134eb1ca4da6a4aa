"""Kernels of a named backend: attention by the paths of PyTorch and by Triton, quantized layers by Triton, fp8 with a scale per row."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ...core.errors import InputError
from .device import triton_module
from .operands import Operands, Run

PATHS = {"flash2": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
QUANTIZED = re.compile(r"int(4|8)_g(32|64|128|256)")


def _attention(
    operands: Operands,
    backend: str,
    batch: int,
    heads: int,
    seq_q: int,
    head_dim: int,
    seq_kv: int | None = None,
    kv_heads: int | None = None,
    causal: int = 0,
    window: int = 0,
) -> Run:
    torch, keys, groups = operands.torch, seq_kv or seq_q, kv_heads or heads
    q = operands.take(batch, heads, seq_q, head_dim)
    k, v = operands.take(batch, groups, keys, head_dim), operands.take(batch, groups, keys, head_dim)
    masked = bool(causal) and seq_q > 1
    if backend == "triton":
        module = _triton("attention")
        if head_dim & (head_dim - 1) or head_dim < 16:
            raise InputError(f"attention by triton: head_dim is a power of two from 16, got {head_dim}")
        run: Run = module.forward(torch, q, k, v, masked, window)
        return run
    if window or (masked and keys != seq_q):
        raise InputError(f"attention by {backend} has no window, and no causal mask with seq_q below seq_kv")
    paths, attend = torch.nn.attention, torch.nn.functional.scaled_dot_product_attention
    path = getattr(paths.SDPBackend, PATHS[backend])

    def on_path() -> Any:
        with paths.sdpa_kernel(path):
            return attend(q, k, v, is_causal=masked, enable_gqa=groups != heads)

    return on_path


def _linear(
    operands: Operands, backend: str, batch: int, in_features: int, out_features: int, weights: str = ""
) -> Run:
    torch, form = operands.torch, QUANTIZED.fullmatch(weights)
    if form is None or operands.dtype not in ("bf16", "fp16"):
        raise InputError(f"linear by {backend}: bf16 or fp16 with weights such as int4_g128, got {weights or 'none'}")
    bits, group = int(form[1]), int(form[2])
    if in_features % group:
        raise InputError(f"linear with {weights} weights: in_features is a multiple of {group}, got {in_features}")
    width = in_features * bits // 8
    kind = torch.uint8 if bits == 4 else torch.int8
    low, high = (0, 256) if bits == 4 else (-128, 128)
    packed = torch.randint(low, high, (out_features, width), dtype=kind, device=operands.device)
    scale = operands.take(out_features, in_features // group)
    cores = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    run: Run = _triton("quantized").linear(torch, operands.take(batch, in_features), packed, scale, bits, group, cores)
    return run


def _rowwise(operands: Operands, backend: str, m: int, n: int, k: int) -> Run:
    """fp8 with one scale per row of A and per column of B."""
    torch = operands.torch
    if not operands.dtype.startswith("fp8") or n % 16 or k % 16:
        raise InputError(f"gemm by rowwise: fp8 with n and k in multiples of 16, got {operands.dtype} n={n} k={k}")
    x, weights = operands.take(m, k), operands.take(n, k)
    scale_a, scale_b = (torch.ones(size, dtype=torch.float32, device=operands.device) for size in ((m, 1), (1, n)))

    def scaled() -> Any:
        return torch._scaled_mm(x, weights.t(), scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16)

    return scaled


def _triton(name: str) -> Any:
    module = triton_module(name)
    if module is None:
        raise InputError("kernels of the backend triton need triton, which is not installed")
    return module


BUILDERS: dict[tuple[str, str], Callable[..., Run]] = {
    **{("attention", backend): _attention for backend in (*PATHS, "triton")},
    ("linear", "triton"): _linear,
    ("gemm", "rowwise"): _rowwise,
}
