"""The kernels of this set that are in Triton; kernels.py launches them."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _product(
    x, w, y, m, n, depth, tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr, exact: tl.constexpr
):
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
        if exact:
            total = tl.dot(tl.load(left), tl.load(right), total, input_precision="ieee")
        else:
            total = tl.dot(tl.load(left), tl.load(right), total)
        left += tile_k
        right += tile_k
    tl.store(y + row[:, None] * n + col[None, :], total)


@triton.jit
def project_b(x, w, y, m, n, depth, tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr):
    _product(x, w, y, m, n, depth, tile_m, tile_n, tile_k, False)


@triton.jit
def exact_a(x, w, y, m, n, depth, tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr):
    _product(x, w, y, m, n, depth, tile_m, tile_n, tile_k, True)


@triton.jit
def exact_b(x, w, y, m, n, depth, tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr):
    _product(x, w, y, m, n, depth, tile_m, tile_n, tile_k, False)


@triton.jit
def column_a(x, y, rows, cols, block: tl.constexpr):
    """A program per column."""
    col = tl.program_id(0)
    total = tl.zeros((block,), tl.float32)
    for first in range(0, rows, block):
        total += tl.load(x + (first + tl.arange(0, block)) * cols + col)
    tl.store(y + col, tl.sum(total, 0))


@triton.jit
def column_b(x, y, cols, high: tl.constexpr, step: tl.constexpr, block: tl.constexpr):
    """A program per part of high rows and block columns."""
    col = tl.program_id(0) * block + tl.arange(0, block)
    row = tl.program_id(1) * high + tl.arange(0, step)
    total = tl.zeros((step, block), tl.float32)
    for first in range(0, high, step):
        total += tl.load(x + (first + row[:, None]) * cols + col[None, :])
    tl.store(y + tl.program_id(1) * cols + col, tl.sum(total, 0))


@triton.jit
def lerp_a(x, y, t, z, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    start = tl.load(x + at)
    tl.store(z + at, start + tl.load(t + at) * (tl.load(y + at) - start))


@triton.jit
def lerp_b(x, y, t, z, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    start = tl.load(x + at)
    tl.store(z + at, start + tl.load(t + at) * (tl.load(y + at) - start))


@triton.jit
def weight_a(x, y, pitch, length, block: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((block,), tl.float32)
    for first in range(0, length, block):
        total += tl.abs(tl.load(x + row * pitch + first + tl.arange(0, block)))
    tl.store(y + row, tl.sum(total, 0))


@triton.jit
def weight_b(x, y, pitch, length, block: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((block,), tl.float32)
    for first in range(0, length, block):
        total += tl.abs(tl.load(x + row * pitch + first + tl.arange(0, block)))
    tl.store(y + row, tl.sum(total, 0))


@triton.jit
def _normed(x, y, cols, tile_m: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0) * tile_m + tl.arange(0, tile_m)[:, None]
    col = tl.arange(0, block)[None, :]
    inside = col < cols
    value = tl.load(x + row * cols + col, mask=inside, other=0.0)
    apart = tl.where(inside, value - tl.sum(value, 1)[:, None] / cols, 0.0)
    spread = tl.sum(apart * apart, 1)[:, None] / cols
    tl.store(y + row * cols + col, apart / tl.sqrt(spread + 1e-5), mask=inside)


@triton.jit
def narrow_a(x, y, cols, tile_m: tl.constexpr, block: tl.constexpr):
    _normed(x, y, cols, tile_m, block)


@triton.jit
def narrow_b(x, y, cols, tile_m: tl.constexpr, block: tl.constexpr):
    _normed(x, y, cols, tile_m, block)


@triton.jit
def outer_a(x, w, y, m, n, depth, tile_m: tl.constexpr, tile_n: tl.constexpr):
    """y[m, n] = x[depth, m]^T w[depth, n], a row of each at a time."""
    row = tl.program_id(0) * tile_m + tl.arange(0, tile_m)
    col = tl.program_id(1) * tile_n + tl.arange(0, tile_n)
    total = tl.zeros((tile_m, tile_n), tl.float32)
    for k in range(depth):
        left, right = tl.load(x + k * m + row).to(tl.float32), tl.load(w + k * n + col).to(tl.float32)
        total += left[:, None] * right[None, :]
    tl.store(y + row[:, None] * n + col[None, :], total)


@triton.jit
def outer_b(x, w, y, m, n, depth, tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr):
    row = tl.program_id(0) * tile_m + tl.arange(0, tile_m)
    col = tl.program_id(1) * tile_n + tl.arange(0, tile_n)
    total = tl.zeros((tile_m, tile_n), tl.float32)
    for first in range(0, depth, tile_k):
        k = first + tl.arange(0, tile_k)
        left, right = tl.load(x + k[:, None] * m + row[None, :]), tl.load(w + k[:, None] * n + col[None, :])
        total = tl.dot(tl.trans(left), right, total)
    tl.store(y + row[:, None] * n + col[None, :], total)


@triton.jit
def scaled(x, by, y, tile_n: tl.constexpr):
    """Rows by their root mean square."""
    col = tl.arange(0, tile_n)
    at = tl.program_id(0).to(tl.int64) * tile_n + col
    value = tl.load(x + at).to(tl.float32)
    factor = 1.0 / tl.sqrt(tl.sum(value * value, 0) / tile_n + 1e-5)
    tl.store(y + at, (value * factor * tl.load(by + col).to(tl.float32)).to(tl.bfloat16))
