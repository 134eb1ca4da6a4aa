"""Further planted faults, each beside its cure: atomics, slices, tails, tensor paths, loads, branches, barriers, grids."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cupy
import torch
import triton
import triton.language as tl
from bench import Kernel
from products import launch, linear, numbers
from torch.nn import functional

FAULTS = Path(__file__).parent / "faults.cu"
bf16 = torch.bfloat16
start = partial(launch, FAULTS)
SMS = torch.cuda.get_device_properties(0).multi_processor_count if torch.cuda.is_available() else 132


def single(
    name: str, run: Callable[[], object], result: torch.Tensor, wanted: Callable[[], torch.Tensor], error: float = 1e-5
) -> Kernel:
    return Kernel({name: run}, lambda: result, wanted, error)


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Zeros that the host copied to the device: no kernel runs."""
    return torch.empty(shape, dtype=dtype, device="cuda").copy_(torch.zeros(shape, dtype=dtype))


def _sum(name: str, kernel: str) -> Kernel:
    n = 1 << 24
    x, y = numbers(n), zeros(1)
    if kernel == "sum_by_atomics":
        run: Callable[[], Any] = partial(start, kernel, (n // 256,), (256,), x, y)
    else:
        run = partial(start, kernel, (8 * SMS,), (256,), x, y, cupy.uint64(n // 4))
    return single(name, run, y, lambda: x.double().sum().view(1), 1e-2)


def _histogram(name: str, kernel: str) -> Kernel:
    words = 1 << 22
    made = torch.randint(-(2**31), 2**31, (words,), generator=torch.Generator().manual_seed(0), dtype=torch.int64)
    x = torch.empty(words, dtype=torch.int32, device="cuda")
    x.copy_(made.to(torch.int32))
    bins = zeros(256, dtype=torch.int32)
    run = partial(start, kernel, (4 * SMS,), (256,), x, bins, cupy.uint64(words))
    return single(name, run, bins, lambda: torch.bincount(x.view(torch.uint8).long(), minlength=256), 0.0)


def _lookup(name: str, kernel: str, per_thread: int) -> Kernel:
    n = 1 << 26
    x, table = numbers(n), numbers(8)
    y = torch.empty_like(x)
    run = partial(start, kernel, (n // per_thread // 256,), (256,), x, table, y)
    return single(name, run, y, lambda: (x.view(-1, 8) * table).view(-1))


def _iterated(x: torch.Tensor, times: int) -> torch.Tensor:
    y = x.clone()
    for _ in range(times):
        y.mul_(0.75).add_(0.125)
    return y


TAIL_TIMES, MIRROR_TIMES = 256, 24


def _shares(name: str, blocks: int) -> Kernel:
    n = 1 << 25
    x = numbers(n)
    y = torch.empty_like(x)
    values = (x, y, cupy.uint64(n // 4), cupy.int32(TAIL_TIMES))
    run = partial(start, "iterate_shares", (blocks,), (1024,), *values, shared=200 * 1024)
    return single(name, run, y, lambda: _iterated(x, TAIL_TIMES), 1e-4)


SIDE = 8192


def legacy_tensor() -> Kernel:
    """Two warps are less than the group that newer matrix instructions take, so Triton falls back to the older ones."""
    x, w = (numbers(SIDE, SIDE, dtype=bf16) for _ in range(2))
    y = torch.empty_like(x)
    run = partial(linear, x, w, y, (128, 64, 64), 2, 3)
    return single("legacy_tensor", run, y, lambda: x @ w.t(), 1e-2)


def current_tensor() -> Kernel:
    x, w = (numbers(SIDE, SIDE, dtype=bf16) for _ in range(2))
    y = torch.empty_like(x)
    return single("current_tensor", partial(torch.mm, x, w.t(), out=y), y, lambda: x @ w.t(), 1e-2)


def thin_loads() -> Kernel:
    n = 1 << 28
    x = numbers(n // 4).view(torch.uint8)
    y = torch.empty_like(x)
    return single("thin_loads", partial(start, "copy_bytes", (n // 256,), (256,), x, y), y, lambda: x, 0.0)


def wide_loads() -> Kernel:
    n = 1 << 28
    x = numbers(n // 4).view(torch.uint8)
    y = torch.empty_like(x)
    return single("wide_loads", partial(start, "copy_straight", (n // 16 // 256,), (256,), x, y), y, lambda: x, 0.0)


def _columns(name: str, kernel: str) -> Kernel:
    threads, rows = SMS * 2048, 256
    x, y = numbers(rows, threads), torch.empty(threads, device="cuda")
    run = partial(start, kernel, (SMS * 8,), (256,), x, y, cupy.uint64(rows * threads))
    return single(name, run, y, lambda: x.sum(0), 1e-4)


def _kinds(name: str, kernel: str, length: int) -> Kernel:
    n = 1 << 24
    x = numbers(n)
    y = torch.empty_like(x)

    def wanted() -> torch.Tensor:
        kind = torch.arange(n, device="cuda") // length % 4
        result = torch.empty_like(x)
        for which in range(4):
            v = x[kind == which].double()
            for _ in range(256):
                v = [v * 0.75 + 0.125, v * v - 0.5, v * -0.5 + v * v, (v * 0.875 + 0.0625).clamp(max=0.25)][which]
            result[kind == which] = v.float()
        return result

    return single(name, partial(start, kernel, (n // 256,), (256,), x, y), y, wanted, 1e-4)


def _row_norm(name: str, kernel: str, grid: tuple[int, ...]) -> Kernel:
    x, gamma = numbers(16384, 4096), numbers(4096)
    y = torch.empty_like(x)
    run = partial(start, kernel, grid, (512,), x, gamma, y)
    return single(name, run, y, lambda: functional.rms_norm(x, (4096,), gamma, 1e-6), 1e-4)


def strided_gather() -> Kernel:
    n = 1 << 24
    x, y = numbers(n, 8), torch.empty(n, device="cuda")
    return single("strided_gather", partial(start, "gather_field", (n // 256,), (256,), x, y), y, lambda: x[:, 0], 0.0)


def dense_gather() -> Kernel:
    n = 1 << 24
    x, y = numbers(n), torch.empty(n, device="cuda")
    return single("dense_gather", partial(start, "copy_straight", (n // 1024,), (256,), x, y), y, lambda: x, 0.0)


def _mirror(name: str, kernel: str) -> Kernel:
    slices = SMS * 60
    x = numbers(slices, 2048, 4)
    y = torch.empty_like(x)
    values = (x, y, cupy.int32(slices), cupy.int32(MIRROR_TIMES))
    run = partial(start, kernel, (SMS,), (1024,), *values, shared=160 * 1024)
    return single(name, run, y, lambda: _iterated(x.flip(1), MIRROR_TIMES), 1e-4)


@triton.jit
def _products(
    x, y, n, k, tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr, lower: tl.constexpr
):  # fmt: skip
    """y = x x^T, with `lower` only the tiles that reach the lower triangle."""
    row, col = tl.program_id(0) * tile_m, tl.program_id(1) * tile_n
    rows, cols = row + tl.arange(0, tile_m), col + tl.arange(0, tile_n)
    deep = tl.arange(0, tile_k)
    from_u = x + rows[:, None] * k + deep[None, :]
    from_v = x + cols[None, :] * k + deep[:, None]
    sums = tl.zeros((tile_m, tile_n), dtype=tl.float32)
    end = k
    if lower:
        end = tl.where(row + tile_m > col, k, 0)
    for _ in range(0, end, tile_k):
        sums = tl.dot(tl.load(from_u), tl.load(from_v), sums)
        from_u += tile_k
        from_v += tile_k
    tl.store(y + rows[:, None] * n + cols[None, :], sums.to(y.dtype.element_ty))


def _lower_product(name: str, lower: bool) -> Kernel:
    n, k = SIDE, 4096
    x = numbers(n, k, dtype=bf16)
    y = torch.empty((n, n), dtype=bf16, device="cuda")

    def run() -> None:
        _products[(n // 128, n // 256)](x, y, n, k, 128, 256, 64, lower, num_warps=8, num_stages=3)

    return Kernel({name: run}, lambda: y.tril(), lambda: (x @ x.t()).tril(), 1e-2)


PERMUTED = (64, 128, 32, 256)


def index_math() -> Kernel:
    x = numbers(*PERMUTED)
    y = torch.empty_like(x)
    run = partial(start, "swap_by_division", (x.numel() // 256,), (256,), x, y, *map(cupy.int64, PERMUTED))
    return single("index_math", run, y, lambda: x.transpose(0, 1).reshape(PERMUTED), 0.0)


def grid_index() -> Kernel:
    x = numbers(*PERMUTED)
    y = torch.empty_like(x)
    a, b, c, d = PERMUTED
    inner = c * d // 4
    values = (x, y, cupy.int32(a), cupy.int32(b), cupy.int32(inner))
    run = partial(start, "swap_by_grid", (inner // 256, a, b), (256,), *values)
    return single("grid_index", run, y, lambda: x.transpose(0, 1).reshape(PERMUTED), 0.0)


def _row_sums(name: str, kernel: str, blocks: int, threads: int) -> Kernel:
    x, y = numbers(65536, 1024), torch.empty(65536, device="cuda")
    return single(name, partial(start, kernel, (blocks,), (threads,), x, y), y, lambda: x.sum(1), 1e-4)


def _long_rows(name: str, per_row: int) -> Kernel:
    rows, cols = 16, 1 << 22
    x, y = numbers(rows, cols), zeros(rows)
    run = partial(start, "long_row_sums", (per_row, rows), (1024,), x, y, cupy.uint64(cols // 4))
    return single(name, run, y, lambda: x.double().sum(1), 1e-2)


def _scaled(name: str, threads: int) -> Kernel:
    n = 1 << 26
    x = numbers(n)
    y = torch.empty_like(x)
    values = (x, y, cupy.float32(3.0), cupy.uint64(n))
    return single(name, partial(start, "scale", (n // threads,), (threads,), *values), y, lambda: 3 * x)


PLANTED: dict[str, Callable[[], Kernel]] = {
    "contended_atomics": partial(_sum, "contended_atomics", "sum_by_atomics"),
    "block_sums": partial(_sum, "block_sums", "sum_by_blocks"),
    "contended_histogram": partial(_histogram, "contended_histogram", "count_in_global"),
    "shared_histogram": partial(_histogram, "shared_histogram", "count_in_shared"),
    "hot_slice": partial(_lookup, "hot_slice", "scale_by_hot_line", 1),
    "shared_table": partial(_lookup, "shared_table", "scale_by_shared", 4),
    "tail_wave": partial(_shares, "tail_wave", SMS + 8),
    "full_wave": partial(_shares, "full_wave", SMS),
    "legacy_tensor": legacy_tensor,
    "current_tensor": current_tensor,
    "thin_loads": thin_loads,
    "wide_loads": wide_loads,
    "few_in_flight": partial(_columns, "few_in_flight", "sum_dependent"),
    "many_in_flight": partial(_columns, "many_in_flight", "sum_independent"),
    "divergence": partial(_kinds, "divergence", "kinds_mixed", 1),
    "convergence": partial(_kinds, "convergence", "kinds_grouped", 32),
    "redundant_loads": partial(_row_norm, "redundant_loads", "norm_by_parts", (8, 16384)),
    "single_load": partial(_row_norm, "single_load", "norm_by_rows", (16384,)),
    "strided_gather": strided_gather,
    "dense_gather": dense_gather,
    "no_prefetch": partial(_mirror, "no_prefetch", "mirror_in_turns"),
    "prefetch": partial(_mirror, "prefetch", "mirror_prefetched"),
    "excess_flops": partial(_lower_product, "excess_flops", False),
    "lower_only": partial(_lower_product, "lower_only", True),
    "index_math": index_math,
    "grid_index": grid_index,
    "barriers": partial(_row_sums, "barriers", "row_sums_by_tree", 65536, 1024),
    "warp_sums": partial(_row_sums, "warp_sums", "row_sums_by_warp", 65536 // 8, 256),
    "few_blocks": partial(_long_rows, "few_blocks", 1),
    "split_rows": partial(_long_rows, "split_rows", 64),
    "small_blocks": partial(_scaled, "small_blocks", 32),
    "large_blocks": partial(_scaled, "large_blocks", 256),
}
