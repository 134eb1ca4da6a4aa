"""Products in CUDA and Triton, and how to call them: what the examples with kernels of their own share."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import cupy
import torch
import triton
import triton.language as tl

HERE = Path(__file__).parent
BLOCK = 1 << 22  # numbers that are made once and repeated


@lru_cache(maxsize=8)
def module(path: Path) -> cupy.RawModule:
    """The kernels of a CUDA file, compiled for this device."""
    return cupy.RawModule(code=path.read_text(encoding="utf-8"), options=("-std=c++17",))


def launch(path: Path, name: str, grid: tuple[int, ...], block: tuple[int, ...], *values: Any, shared: int = 0) -> None:
    """Start a kernel of a CUDA file; tensors are given as their addresses."""
    kernel = module(path).get_function(name)
    if shared > 48 * 1024:
        kernel.max_dynamic_shared_size_bytes = shared
    told = tuple(cupy.uint64(value.data_ptr()) if isinstance(value, torch.Tensor) else value for value in values)
    kernel(grid, block, told, shared_mem=shared)


@lru_cache(maxsize=4)
def _block(dtype: torch.dtype) -> torch.Tensor:
    made = torch.rand(BLOCK, generator=torch.Generator().manual_seed(0)) - 0.5
    return made.to(dtype)


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random numbers that the host copied to the device: no kernel runs, so a profiler sees none but ours."""
    found = torch.empty(shape, dtype=dtype, device="cuda")
    flat, block = found.view(-1), _block(dtype)
    for at in range(0, flat.numel(), BLOCK):
        part = flat[at : at + BLOCK]
        part.copy_(block[: part.numel()])
    return found


def square(name: str, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    """One of the square products of products.cu."""
    n = a.shape[0]
    side, threads = (128, (256,)) if name in ("blocked", "pipelined") else (32, (32, 32))
    launch(HERE / "products.cu", name, (n // side, n // side), threads, a, b, c, cupy.int32(n))


@triton.jit
def _linear(
    x, w, y, m, n, k, eps,
    tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr, norm: tl.constexpr,
):  # fmt: skip
    """y = x w^T; with `norm` the rows of x are divided by their root mean square on the way, which is not known before the
    last slice and therefore applied to the sums."""
    across = n // tile_n
    place = tl.program_id(0)
    # blocks that run together share tiles in L2: eight block rows at a time
    together = 8 * across
    first = place // together * 8
    high = min(m // tile_m - first, 8)
    rows = (first + place % together % high) * tile_m + tl.arange(0, tile_m)
    cols = place % together // high * tile_n + tl.arange(0, tile_n)
    deep = tl.arange(0, tile_k)
    from_x = x + rows[:, None] * k + deep[None, :]
    from_w = w + cols[None, :] * k + deep[:, None]
    sums = tl.zeros((tile_m, tile_n), dtype=tl.float32)
    squares = tl.zeros((tile_m,), dtype=tl.float32)
    for _ in range(0, k, tile_k):
        u = tl.load(from_x)
        v = tl.load(from_w)
        sums = tl.dot(u, v, sums)
        if norm:
            wide = u.to(tl.float32)
            squares += tl.sum(wide * wide, axis=1)
        from_x += tile_k
        from_w += tile_k
    if norm:
        sums = sums / tl.sqrt(squares / k + eps)[:, None]
    tl.store(y + rows[:, None] * n + cols[None, :], sums.to(y.dtype.element_ty))


def linear(
    x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, tile: tuple[int, int, int], warps: int, stages: int, norm: bool = False
) -> None:  # fmt: skip
    """y = x w^T by tiles of (rows, columns, depth), `stages` of them in flight."""
    (m, k), n = x.shape, w.shape[0]
    grid = (m // tile[0] * (n // tile[1]),)
    _linear[grid](x, w, y, m, n, k, 1e-6, *tile, norm, num_warps=warps, num_stages=stages)


@triton.jit
def _rms(x, gamma, y, eps, cols: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * cols + tl.arange(0, cols)
    wide = tl.load(x + at).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(wide * wide, axis=0) / cols + eps)
    made = wide * scale * tl.load(gamma + tl.arange(0, cols)).to(tl.float32)
    tl.store(y + at, made.to(y.dtype.element_ty))


def rms_norm(x: torch.Tensor, gamma: torch.Tensor, y: torch.Tensor) -> None:
    """Every row of x by its root mean square, times gamma."""
    _rms[(x.shape[0],)](x, gamma, y, 1e-6, x.shape[1], num_warps=8)
