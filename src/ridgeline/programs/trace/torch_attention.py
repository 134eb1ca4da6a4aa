"""Scaled dot-product attention as PyTorch runs it on a Hopper GPU: one fused operator, by the backend that torch would choose.

The order of preference is cuDNN, FlashAttention, memory-efficient, and separate products ("math"), as recorded on an H200
with torch 2.11; each has limits on formats, heads, masks and head sizes. A backend that the program has switched off
(`torch.nn.attention.sdpa_kernel`) is not chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

CUDNN, FLASH, EFFICIENT, MATH = "cudnn", "flash", "efficient", "math"
ORDER = (CUDNN, FLASH, EFFICIENT)
MAX_HEAD = 256  # of cuDNN (on Hopper) and FlashAttention
EFFICIENT_ALIGNMENT = {2: 8, 4: 4}  # elements by bytes of an element: a head is loaded in pieces of 16 bytes


@dataclass(frozen=True)
class Attention:
    """What the choice of a backend depends on. Shapes are [batch, heads, places, head]."""

    q: tuple[int, ...]
    k: tuple[int, ...]
    v: tuple[int, ...]
    width: int  # bytes of an element
    masked: bool = False
    causal: bool = False
    dropout: float = 0.0
    grouped: bool = False
    low_precision: bool = True  # bf16 or fp16


def backend(attention: Attention, enabled: frozenset[str] = frozenset(ORDER)) -> str:
    """The backend that torch chooses: the first that is enabled and can run this attention."""
    allowed = {CUDNN: _by_cudnn, FLASH: _by_flash, EFFICIENT: _by_efficient}
    return next((name for name in ORDER if name in enabled and allowed[name](attention)), MATH)


def _dense(attention: Attention) -> bool:
    shapes = attention.q, attention.k, attention.v
    return all(len(shape) == 4 and all(shape) for shape in shapes) and attention.q[0] == attention.k[0]


def _same_heads(attention: Attention) -> bool:
    return attention.q[1] == attention.k[1] == attention.v[1]


def _by_cudnn(attention: Attention) -> bool:
    heads = attention.q[-1], attention.v[-1]
    fits = all(size <= MAX_HEAD and size % 8 == 0 for size in heads)
    if not (_dense(attention) and attention.low_precision and fits and (attention.grouped or _same_heads(attention))):
        return False
    return attention.k[2] > 1 and not (attention.q[2] == 1 and attention.dropout)


def _by_flash(attention: Attention) -> bool:
    square = not attention.causal or attention.q[-2] == attention.k[-2]
    one_head = attention.q[-1] == attention.k[-1] == attention.v[-1] <= MAX_HEAD
    if not (_dense(attention) and attention.low_precision and square and one_head and not attention.masked):
        return False
    return attention.grouped or _same_heads(attention)


def _by_efficient(attention: Attention) -> bool:
    alignment = EFFICIENT_ALIGNMENT.get(attention.width)
    if alignment is None or not _dense(attention) or not _same_heads(attention):
        return False
    return attention.q[-1] % alignment == 0 and attention.v[-1] % alignment == 0


def attend(
    torch: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """`scaled_dot_product_attention` on the traced GPU."""
    needs_grad = torch.is_grad_enabled() and any(item.requires_grad for item in (query, key, value))
    if attn_mask is not None and (attn_mask.requires_grad or _is_repeated(attn_mask)):
        chosen = MATH
    else:
        low = query.dtype in (torch.bfloat16, torch.float16)
        sizes = Attention(
            tuple(query.shape), tuple(key.shape), tuple(value.shape), query.element_size(), attn_mask is not None,
            is_causal, dropout_p, enable_gqa, low,
        )  # fmt: skip
        chosen = backend(sizes, enabled_backends(torch)) if query.dtype.is_floating_point else MATH
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


def _is_repeated(mask: Any) -> bool:
    """Whether a mask is one column repeated over the keys: no fused kernel loads that."""
    return bool(mask.shape[-1] > 1 and mask.stride(-1) == 0)


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
