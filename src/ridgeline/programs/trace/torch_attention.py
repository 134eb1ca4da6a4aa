"""Scaled dot-product attention as PyTorch runs it on a Hopper GPU: one fused operator, by the backend that torch would choose.

Which one that is `attention_backends.py` says, for other GPUs too: a prediction takes the kernel of its machine. A backend that
the program has switched off (`torch.nn.attention.sdpa_kernel`) is not chosen.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from ..aten.formats import format_of
from ..attention_backends import CUDNN, EFFICIENT, FLASH, MATH, Attention, backend


def attend(
    torch: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """`scaled_dot_product_attention` on the traced GPU."""
    needs_grad = torch.is_grad_enabled() and any(item.requires_grad for item in (query, key, value))
    row = format_of(str(query.dtype))
    sizes = Attention(
        tuple(query.shape), tuple(key.shape), tuple(value.shape), row.name if row else "", attn_mask is not None,
        attn_mask is not None and torch.is_grad_enabled() and attn_mask.requires_grad,
        _adjacent(query, key, value, attn_mask), is_causal, dropout_p, enable_gqa, needs_grad,
    )  # fmt: skip
    chosen = backend(sizes, enabled=enabled_backends(torch)) if query.dtype.is_floating_point else MATH
    aten = torch.ops.aten
    if chosen == CUDNN:
        bias = _bias(torch, attn_mask, query)
        return aten._scaled_dot_product_cudnn_attention(
            query, key, value, bias, needs_grad, dropout_p, is_causal, False, scale=scale
        )[0]
    if chosen == FLASH:
        return _flash(torch, query, key, value, dropout_p, is_causal, scale)
    if chosen == EFFICIENT:
        bias = _bias(torch, attn_mask, query)
        return aten._scaled_dot_product_efficient_attention(
            query, key, value, _expanded(bias, query, key), needs_grad, dropout_p, is_causal, scale=scale
        )[0]
    return aten._scaled_dot_product_attention_math(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )[0]


def enabled_backends(torch: Any) -> frozenset[str]:
    """Those that the program has not switched off."""
    flags = torch.backends.cuda
    states = {
        CUDNN: flags.cudnn_sdp_enabled(),
        FLASH: flags.flash_sdp_enabled(),
        EFFICIENT: flags.mem_efficient_sdp_enabled(),
    }
    return frozenset(name for name, enabled in states.items() if enabled)


def _adjacent(query: Any, key: Any, value: Any, mask: Any) -> bool:
    """Whether elements of heads, and of rows of the mask, lie next to each other, as every fused kernel loads them."""
    heads = all(item.stride(-1) == 1 or item.shape[-1] == 1 for item in (query, key, value) if item.dim())
    return heads and (mask is None or not mask.dim() or mask.stride(-1) == 1)


def _bias(torch: Any, mask: Any, query: Any) -> Any:
    """A mask of booleans becomes one of numbers before the kernel."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(float("-inf"), dtype=query.dtype, device=query.device))


def _expanded(bias: Any, query: Any, key: Any) -> Any:
    """The efficient kernel reads a bias of every head, which a broadcast mask becomes without a copy."""
    return None if bias is None else bias.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])


def _flash(torch: Any, query: Any, key: Any, value: Any, dropout: float, causal: bool, scale: float | None) -> Any:
    """Heads that are no multiple of 8 are padded before the kernel and cut after it."""
    head = query.shape[-1]
    padding = -head % 8
    if padding:
        query, key, value = (torch.nn.functional.pad(item, (0, padding)) for item in (query, key, value))
    result = torch.ops.aten._scaled_dot_product_flash_attention(
        query, key, value, dropout, causal, False, scale=scale if scale is not None else 1 / sqrt(head)
    )[0]
    return result[..., :head] if padding else result
