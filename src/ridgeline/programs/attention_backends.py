"""Which kernel PyTorch runs `scaled_dot_product_attention` with, by the GPU, the tensors and the mask: one table, one rule.

The rule is that of `select_sdp_backend` (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, torch 2.9 to 2.13; its choices
on an H200 were recorded with torch 2.11). Backends are tried in the order of the GPU; the first that is enabled and can run
the call is chosen, and separate products ("math") where none can. Every fused kernel needs heads, and masks along the keys,
whose elements lie next to each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

CUDNN, FLASH, EFFICIENT, MATH = "cudnn", "flash", "efficient", "math"
FUSED = frozenset((CUDNN, FLASH, EFFICIENT))
HOPPER = "hopper"
MAX_FLASH_HEAD = 256
EFFICIENT_ALIGNMENT = {2: 8, 4: 4}  # elements by bytes of an element: a head is loaded in pieces of 16 bytes


@dataclass(frozen=True)
class Path:
    """What an architecture runs attention with: backends in order, and its limits."""

    order: tuple[str, ...]
    max_cudnn_head: int = 128
    bf16: bool = True
    max_trained_flash_head: int = MAX_FLASH_HEAD  # heads between this and 224 have no flash backward


_AMPERE = Path((FLASH, EFFICIENT))
_SMALL_AMPERE = Path((FLASH, EFFICIENT), max_trained_flash_head=192)
_BEFORE_AMPERE = Path((EFFICIENT,), bf16=False)
# By the architectures of the catalog. cuDNN comes first on compute capabilities 9.0 and 10.0 alone; elsewhere it is after
# separate products, which run everything. AMD's kernels (AOTriton) have the names of flash and efficient ones.
PATHS: dict[str, Path] = {
    "hopper": Path((CUDNN, FLASH, EFFICIENT), max_cudnn_head=256),
    "blackwell": Path((CUDNN, FLASH, EFFICIENT)),
    "blackwell-ultra": _AMPERE,
    "blackwell-rtx": _SMALL_AMPERE,
    "ada": _SMALL_AMPERE,
    "ampere": _AMPERE,
    **dict.fromkeys(("turing", "volta", "pascal"), _BEFORE_AMPERE),
    **dict.fromkeys(("cdna2", "cdna3", "cdna4"), _AMPERE),
    "cdna": Path(()),
}


@dataclass(frozen=True)
class Attention:
    """What the choice of a backend depends on. Shapes are [batch, heads, places, head]."""

    q: tuple[int, ...]
    k: tuple[int, ...]
    v: tuple[int, ...]
    dtype: str  # ridgeline's name
    masked: bool = False
    mask_trained: bool = False  # the mask has a gradient
    adjacent: bool = True  # elements of a head, and of a row of the mask, lie next to each other
    causal: bool = False
    dropout: float = 0.0
    grouped: bool = False  # fewer heads of keys were asked for
    trained: bool = False


def backend(attention: Attention, architecture: str = HOPPER, enabled: frozenset[str] = FUSED) -> str | None:
    """The backend that torch chooses on a GPU of an architecture; None where that is not known."""
    path = PATHS.get(architecture)
    if path is None:
        return None
    allowed: dict[str, Callable[[Attention, Path], bool]] = {CUDNN: _cudnn, FLASH: _flash, EFFICIENT: _efficient}
    if not (attention.adjacent and _dense(attention)):
        return MATH
    return next((name for name in path.order if name in enabled and allowed[name](attention, path)), MATH)


def _dense(attention: Attention) -> bool:
    shapes = attention.q, attention.k, attention.v
    return all(len(shape) == 4 and all(shape) for shape in shapes) and attention.q[0] == attention.k[0]


def _same_heads(attention: Attention) -> bool:
    return attention.q[1] == attention.k[1] == attention.v[1]


def _low_precision(attention: Attention, path: Path) -> bool:
    return attention.dtype == "fp16" or (attention.dtype == "bf16" and path.bf16)


def _cudnn(attention: Attention, path: Path) -> bool:
    heads = attention.q[-1], attention.v[-1]
    fits = all(size <= path.max_cudnn_head and size % 8 == 0 for size in heads)
    if not (_low_precision(attention, path) and fits and (attention.grouped or _same_heads(attention))):
        return False
    return attention.k[2] > 1 and not (attention.q[2] == 1 and attention.dropout) and not attention.mask_trained


def _flash(attention: Attention, path: Path) -> bool:
    square = not attention.causal or attention.q[-2] == attention.k[-2]
    head = attention.q[-1]
    one_head = head == attention.k[-1] == attention.v[-1] <= MAX_FLASH_HEAD
    if not (_low_precision(attention, path) and square and one_head and not attention.masked):
        return False
    if attention.trained and path.max_trained_flash_head < head and (head <= 224 or attention.dropout):
        return False
    return attention.grouped or _same_heads(attention)


def _efficient(attention: Attention, path: Path) -> bool:
    if attention.dtype not in ("fp32", "fp16") and not (attention.dtype == "bf16" and path.bf16):
        return False
    alignment = EFFICIENT_ALIGNMENT[4 if attention.dtype == "fp32" else 2]
    return _same_heads(attention) and all(shape[-1] % alignment == 0 for shape in (attention.q, attention.v))
