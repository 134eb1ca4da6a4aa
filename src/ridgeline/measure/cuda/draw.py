"""Where the sizes of timed cases come from: sizes people use, odd ones, and any in between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Case = dict[str, Any]
GIB = 1 << 30
POOL_BYTES = 9 * GIB  # bytes of random values per format: two fp64 vectors of 2^29 fit

MAX_BYTES = 12 * GIB  # bytes of all tensors of a case: three fp64 vectors of 2^29
SLOW_DTYPES = ("fp32", "fp64")  # products without tensor units, or nearly so
MAX_FLOPS, MAX_FLOPS_SLOW = 30 * 1e12, 3 * 1e12
MAX_ELEMENTS = 1 << 29

# (n, k) of projections in transformers from GPT-2 to 70B, and of vocabularies
PROJECTIONS = (
    *((768, 768), (2304, 768), (3072, 768), (768, 3072), (3072, 1024), (4096, 1024), (1024, 4096), (1600, 1600)),
    *((6400, 1600), (1600, 6400), (2048, 2048), (8192, 2048), (2048, 8192), (3072, 3072), (8192, 3072), (3072, 8192)),
    *((3584, 3584), (18944, 3584), (3584, 18944), (4096, 4096), (6144, 4096), (12288, 4096), (11008, 4096)),
    *((4096, 11008), (14336, 4096), (28672, 4096), (4096, 14336), (5120, 5120), (13824, 5120), (5120, 13824)),
    *((7168, 2048), (2048, 7168), (1536, 7168), (18432, 7168), (8192, 8192), (10240, 8192), (28672, 8192)),
    *((8192, 28672), (1024, 8192)),
)
VOCABULARIES = (32000, 50257, 128256, 151936)
WIDTHS = (768, 1024, 1600, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 11008, 12288, 14336, 16384)
ODD_SIZES = (
    *(33, 50, 100, 127, 200, 257, 500, 777, 1000, 1023),
    *(1500, 2000, 2049, 3000, 3333, 4097, 5000, 6001, 7777, 10000),
)
HEAD_DIMS = (64, 80, 96, 128, 256)
HEADS = (8, 12, 16, 20, 32, 40, 64)
LAYERS = (  # c_in, c_out, image, kernel, stride: ResNet, VGG, a diffusion UNet, a patch embedding
    *((3, 64, 224, 7, 2), (64, 64, 56, 1, 1), (64, 64, 56, 3, 1), (64, 256, 56, 1, 1), (256, 128, 56, 1, 1)),
    *((128, 128, 56, 3, 2), (128, 128, 28, 3, 1), (128, 512, 28, 1, 1), (512, 256, 28, 1, 1), (256, 256, 14, 3, 1)),
    *((256, 1024, 14, 1, 1), (1024, 512, 14, 1, 1), (512, 512, 14, 3, 2), (512, 512, 7, 3, 1), (512, 2048, 7, 1, 1)),
    *((256, 512, 56, 1, 2), (3, 64, 224, 3, 1), (64, 64, 224, 3, 1), (64, 128, 112, 3, 1), (128, 256, 56, 3, 1)),
    *((256, 512, 28, 3, 1), (512, 512, 28, 3, 1), (4, 320, 64, 3, 1), (320, 320, 64, 3, 1), (640, 640, 32, 3, 1)),
    *((1280, 1280, 16, 3, 1), (3, 768, 224, 16, 16), (64, 192, 27, 5, 1), (96, 256, 27, 5, 1)),
)
EXPERTS = (  # experts, topk, hidden, inter
    *((8, 2, 4096, 14336), (16, 2, 4096, 6400), (60, 4, 2048, 1408), (64, 6, 2048, 1408), (64, 8, 2048, 1024)),
    *((128, 8, 2048, 768), (32, 4, 2880, 2880), (16, 4, 6144, 10752)),
)
CASTS = (("fp32", "bf16"), ("bf16", "fp32"), ("fp32", "fp16"), ("fp16", "fp32"), ("fp64", "fp32"), ("bf16", "fp8_e4m3"))
STREAMS = (
    *("copy", "scal", "axpy", "add", "mul", "residual", "relu", "gelu", "silu", "sigmoid", "tanh", "exp", "dropout"),
    *("stream_copy", "stream_scale", "stream_add", "stream_triad", "cast"),
)
REDUCTIONS = ("sum", "dot", "nrm2", "asum")
ROWS = ("softmax", "layernorm", "rmsnorm", "sum_rows", "cross_entropy", "batchnorm")


@dataclass
class Draw:
    """A source of sizes. `smooth` draws them log-uniformly; otherwise they mix the sizes people use with odd ones."""

    rng: np.random.Generator
    smooth: bool

    def size(self, low: float, high: float, step: int = 1) -> int:
        """A log-uniform whole number between two, in multiples of a step."""
        value = math.exp(self.rng.uniform(math.log(low), math.log(high)))
        return min(max(round(value / step), -(-int(low) // step), 1), max(int(high) // step, 1)) * step

    def mixed(self, low: float, high: float) -> int:
        """A power of two, a multiple of 64 or any number; any number when drawing smoothly."""
        kind = 3 if self.smooth else int(self.rng.integers(4))
        if kind == 0:
            return int(2 ** self.rng.integers(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1))
        return self.size(low, high, 64 if kind == 1 and high >= 64 else 1)

    def choice(self, values: Sequence[Any]) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)


def head_counts(draw: Draw) -> tuple[int, int]:
    """Heads of the queries, and those of the keys, which may be shared."""
    heads = draw.choice(HEADS)
    return heads, heads // draw.choice([share for share in (1, 1, 4, 8) if heads % share == 0])


def attention_case(draw: Draw, index: int, batch: int, heads: tuple[int, int], seq_q: int, seq_kv: int) -> Case:
    return {
        **{"op": "attention", "dtype": ("bf16", "fp16")[index % 2], "batch": batch, "heads": heads[0]},
        **{"kv_heads": heads[1], "seq_q": seq_q, "seq_kv": seq_kv, "head_dim": draw.choice(HEAD_DIMS)},
        **{"causal": False, "variant": "flash"},
    }
