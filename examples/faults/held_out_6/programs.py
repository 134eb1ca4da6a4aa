"""The kernels of this set that are in Triton; kernels.py launches them."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _product(x, w, y, m, n, depth, tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr):
    """y[m, n] = the positive part of x[m, depth] w[n, depth]^T, eight rows of tiles at a time."""
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
    tl.store(y + row[:, None] * n + col[None, :], tl.maximum(total, 0.0))


@triton.jit
def forward_a(x, w, y, m, n, depth, tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr):
    _product(x, w, y, m, n, depth, tile_m, tile_n, tile_k)


@triton.jit
def forward_b(x, w, y, m, n, depth, tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr):
    _product(x, w, y, m, n, depth, tile_m, tile_n, tile_k)


@triton.jit
def similar_b(x, w, y, m, n, depth, tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr):
    _product(x, w, y, m, n, depth, tile_m, tile_n, tile_k)


@triton.jit
def gradient_a(g, x, y, cols: tl.constexpr):
    """A program per row adds to all columns."""
    col = tl.arange(0, cols)
    at = tl.program_id(0) * cols + col
    tl.atomic_add(y + col, tl.load(g + at) * tl.load(x + at))


@triton.jit
def gradient_b(g, x, y, rows: tl.constexpr, cols: tl.constexpr):
    """A program sums its rows first."""
    col = tl.arange(0, cols)
    at = tl.program_id(0) * rows * cols + col
    total = tl.zeros((cols,), tl.float32)
    for row in range(rows):
        total += tl.load(g + at + row * cols) * tl.load(x + at + row * cols)
    tl.atomic_add(y + col, total)


@triton.jit
def train_b(h, w, b, y, steps, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    value, by, shift = tl.load(h + at), tl.load(w + at), tl.load(b + at)
    for _ in range(steps):
        value = 2.0 * tl.sigmoid(2.0 * (value * by + shift)) - 1.0  # the hyperbolic tangent
    tl.store(y + at, value)


@triton.jit
def gate_b(x, r, y, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    value = tl.load(x + at)
    tl.store(y + at, tl.sigmoid(value * 1.5 + 0.25) * value + tl.load(r + at))


@triton.jit
def swiglu(x, g, y, block: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    gate = tl.load(g + at).to(tl.float32)
    tl.store(y + at, (gate * tl.sigmoid(gate) * tl.load(x + at).to(tl.float32)).to(tl.bfloat16))
