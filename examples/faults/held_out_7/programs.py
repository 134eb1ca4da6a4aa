"""The kernels of this set that are in Triton; kernels.py launches them."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def darts_a(x, y, hits, block: tl.constexpr):
    """Every dart adds to the count."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    p, q = tl.load(x + at), tl.load(y + at)
    tl.atomic_add(hits + tl.zeros((block,), tl.int32), (p * p + q * q < 0.25).to(tl.int32))


@triton.jit
def darts_b(x, y, hits, block: tl.constexpr):
    """A program counts its darts first."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    p, q = tl.load(x + at), tl.load(y + at)
    tl.atomic_add(hits, tl.sum((p * p + q * q < 0.25).to(tl.int32), 0))


@triton.jit
def fragments_b(x, w, y, m, n, depth, tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr):
    """y[m, n] = x[m, depth] w[n, depth]^T, eight rows of tiles at a time."""
    tile = tl.program_id(0)
    high, wide = m // tile_m, n // tile_n
    group = tile // (8 * wide) * 8
    tall = tl.minimum(high - group, 8)
    row = (group + tile % (8 * wide) % tall) * tile_m + tl.arange(0, tile_m)
    col = tile % (8 * wide) // tall * tile_n + tl.arange(0, tile_n)
    k = tl.arange(0, tile_k)
    left, right = x + row[:, None] * depth + k[None, :], w + col[None, :] * depth + k[:, None]
    total = tl.zeros((tile_m, tile_n), tl.float32)
    for _ in range(0, depth, tile_k):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += tile_k
        right += tile_k
    tl.store(y + row[:, None] * n + col[None, :], total)


@triton.jit
def softrows(x, y, cols: tl.constexpr):
    """A row per program."""
    at = tl.program_id(0).to(tl.int64) * cols + tl.arange(0, cols)
    value = tl.load(x + at)
    value = tl.exp(value - tl.max(value, 0))
    tl.store(y + at, value / tl.sum(value, 0))
