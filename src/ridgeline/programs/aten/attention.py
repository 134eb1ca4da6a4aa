"""Attention in one kernel, forward and backward, by the paths of PyTorch.

Q is [batch, heads, queries, head] or, for the inner operators (`_flash_attention_forward`), [batch, queries, heads, head].
K and V may have fewer heads, which groups of query heads share. V may have another head size than Q and K.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...core.timeline import Tensor
from ...core.work import Work
from .. import ops
from .arguments import Arguments, Missing, elements
from .building import named, with_moves
from .counted import Counted, Rule, by
from .formats import known
from .matmul import product_format

FLASH, CUDNN, EFFICIENT = "flash2", "cudnn", "efficient"  # as the coefficients of a machine name them

# As many times the batch, from single calls on an H200: kernels with a bias, and those of cuDNN whose rows of the bias begin off 16 bytes.
BIASED = {CUDNN: 1.8, EFFICIENT: 1.17}
ODD_BIAS, ALIGNED = 1.45, 16.0
DECODE_BIASED, DECODE_ODD_BIAS = {CUDNN: 1.13}, 1.24  # of a single query, where keys and values are waited for


@dataclass(frozen=True)
class Places:
    """Where the arguments of one operator are: Q (K and V follow), the causal flag, the bias, cumulative lengths."""

    q: int
    causal: int
    backend: str
    bias: int | None = None
    lengths: int | None = None
    heads_first: bool = True  # [batch, heads, queries, head]
    mask_type: bool = False  # the causal flag is the number of a kind of mask, 0 for none


FORWARD = {
    "_scaled_dot_product_flash_attention": Places(0, 4, FLASH),
    "_scaled_dot_product_flash_attention_for_cpu": Places(0, 4, "", bias=5),
    "_scaled_dot_product_efficient_attention": Places(0, 6, EFFICIENT, bias=3),
    "_scaled_dot_product_cudnn_attention": Places(0, 6, CUDNN, bias=3),
    "_scaled_dot_product_fused_attention_overrideable": Places(0, 5, "", bias=3),
    "_cudnn_attention_forward": Places(0, 10, CUDNN, bias=3, lengths=4),
    "_flash_attention_forward": Places(0, 8, FLASH, lengths=3, heads_first=False),
    "_efficient_attention_forward": Places(0, 9, EFFICIENT, bias=3, lengths=4, heads_first=False, mask_type=True),
    "_flash_attn_forward": Places(0, 5, FLASH, heads_first=False),
    "scaled_dot_product_attention": Places(0, 5, "", bias=3),
    "_scaled_dot_product_attention_math": Places(0, 5, "", bias=3),
}
BACKWARD = {
    "_scaled_dot_product_flash_attention_backward": Places(1, 11, FLASH, lengths=6),
    "_scaled_dot_product_flash_attention_for_cpu_backward": Places(1, 7, ""),
    "_scaled_dot_product_efficient_attention_backward": Places(1, 11, EFFICIENT, bias=4),
    "_scaled_dot_product_cudnn_attention_backward": Places(1, 14, CUDNN, bias=8, lengths=9),
    "_scaled_dot_product_fused_attention_overrideable_backward": Places(1, 13, "", bias=4),
    "_cudnn_attention_backward": Places(1, 14, CUDNN, bias=8, lengths=9),
    "_flash_attention_backward": Places(1, 11, FLASH, lengths=6, heads_first=False),
    "_flash_attn_backward": Places(1, 11, FLASH, heads_first=False),
    "_efficient_attention_backward": Places(1, 14, EFFICIENT, bias=4, lengths=6, heads_first=False, mask_type=True),
}


@dataclass(frozen=True)
class Sizes:
    batch: int
    heads: int
    kv_heads: int
    seq_q: int
    seq_kv: int
    head: int
    v_head: int


def _sizes(arguments: Arguments, places: Places) -> Sizes:
    q, k, v = (arguments.tensor(places.q + place, name) for place, name in enumerate(("query", "key", "value")))
    packed = None if places.lengths is None else arguments.optional(places.lengths)
    if packed is not None and elements(packed) > 2:
        raise Missing("the lengths of the sequences packed in one batch were not recorded")
    if not len(q.shape) == len(k.shape) == len(v.shape) or len(q.shape) not in (3, 4):
        raise Missing(f"shapes {q.shape}, {k.shape} and {v.shape} are no attention")
    queries, keys, values = (tensor.shape if len(tensor.shape) == 4 else (1, *tensor.shape) for tensor in (q, k, v))
    head_at, place_at = (1, 2) if places.heads_first else (2, 1)
    if queries[0] != keys[0] or keys[:3] != values[:3] or queries[3] != keys[3]:
        raise Missing(f"shapes {q.shape}, {k.shape} and {v.shape} are no attention")
    return Sizes(
        queries[0], queries[head_at], keys[head_at], queries[place_at], keys[place_at], queries[3], values[3]
    )  # fmt: skip


def _causal(arguments: Arguments, places: Places) -> bool:
    if places.mask_type:
        return arguments.integer(places.causal, "custom_mask_type", 0) > 0
    return arguments.flag(places.causal, "is_causal")


def _format(arguments: Arguments, queries: Tensor) -> str:
    """The format of the products: a kernel of attention keeps the digits of fp32, whatever is allowed for products of matrices."""
    name = product_format(arguments, queries)
    return "fp32" if name == "tf32" else name


def _op_sizes(sizes: Sizes, head: int, causal: bool) -> dict[str, int | bool]:
    return {
        "batch": sizes.batch, "heads": sizes.heads, "kv_heads": sizes.kv_heads, "seq_q": sizes.seq_q,
        "seq_kv": sizes.seq_kv, "head_dim": head, "causal": causal,
    }  # fmt: skip


def _forward(arguments: Arguments) -> Counted:
    """Two products of 2 D flops per visible pair. Q and K of one head size and V of another count with their mean.

    The products cost 2 (D + Dv) per pair and the tensors hold D + Dv per query and per key, so the mean is exact.
    """
    places = FORWARD[arguments.base]
    sizes, causal = _sizes(arguments, places), _causal(arguments, places)
    if (sizes.head + sizes.v_head) % 2:
        raise Missing(f"heads of {sizes.head} and {sizes.v_head} are not counted")
    dtype = _format(arguments, arguments.tensor(places.q))
    # a single query sees every key, and the flag means nothing
    work = ops.attention(**_op_sizes(sizes, (sizes.head + sizes.v_head) // 2, causal and sizes.seq_q > 1), dtype=dtype)
    return by(places.backend, _with_bias(arguments, places, work))


def _with_bias(arguments: Arguments, places: Places, work: Work) -> Work:
    """With the bias read, and with the time that kernels take for it."""
    bias = None if places.bias is None else arguments.optional(places.bias)
    if bias is None:
        return work
    decodes = arguments.tensor(places.q).shape[-2 if places.heads_first else -3] == 1
    longer = (DECODE_BIASED if decodes else BIASED).get(places.backend, 1.0)
    if places.backend == CUDNN and bias.shape and bias.shape[-1] * known(bias).bytes % ALIGNED:
        longer *= DECODE_ODD_BIAS if decodes else ODD_BIAS
    kernels = tuple(
        replace(kernel, sizes={**kernel.sizes, "batch": kernel.sizes["batch"] * longer})
        if "batch" in kernel.sizes
        else kernel
        for kernel in work.kernels
    )
    return replace(with_moves(work, read=named("bias", bias)), kernels=kernels)


def _backward(arguments: Arguments) -> Counted:
    """Five products: three over the head of Q and K (S, dQ, dK), two over that of V (dP, dV)."""
    places = BACKWARD[arguments.base]
    sizes, causal = _sizes(arguments, places), _causal(arguments, places)
    tensor = arguments.tensor(places.q)
    work = ops.attention_backward(
        **_op_sizes(sizes, sizes.head, causal and sizes.seq_q > 1), dtype=_format(arguments, tensor)
    )
    if sizes.v_head != sizes.head:
        factor = sizes.v_head / sizes.head
        counts = {
            key: value * factor if key[2].startswith(("dP", "dV", "delta")) else value
            for key, value in work.counts.items()
        }
        moves = {
            key: value * factor if key[1] in ("V", "O", "dO", "dV") else value for key, value in work.moves.items()
        }
        work = replace(work, counts=counts, moves=moves)
    return by(places.backend, _with_bias(arguments, places, work))


RULES: dict[str, Rule] = {**dict.fromkeys(FORWARD, _forward), **dict.fromkeys(BACKWARD, _backward)}
# Operators of other libraries than PyTorch, by their full names.
LIBRARIES: dict[str, Rule] = {
    "flash_attn::_flash_attn_forward": _forward,
    "flash_attn::_flash_attn_backward": _backward,
}
