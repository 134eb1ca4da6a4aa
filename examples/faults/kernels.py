"""Kernels with planted faults beside the same work without them, and healthy kernels of every regime.

python kernels.py --skip tiny_kernels graph    each once, in a range named like its case: for Nsight Compute
python kernels.py tiny_kernels                 the two thousand launches: for torch.profiler
python kernels.py --check                      each against torch
python kernels.py --time times.csv             each with CUDA events, L2 emptied before
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import cupy
import torch
from torch.nn import functional

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "gemm_path"))

from bench import Kernel, main  # noqa: E402
from planted import PLANTED  # noqa: E402
from products import launch, linear, numbers, rms_norm, square  # noqa: E402

FAULTS = HERE / "faults.cu"
N = 1 << 26
SIDE = 8192
bf16 = torch.bfloat16


def one(name: str, run: Callable[[], object], found: torch.Tensor, wanted: Callable[[], torch.Tensor], error: float = 1e-5) -> Kernel:  # fmt: skip
    return Kernel({name: run}, lambda: found, wanted, error)


# Healthy ------------------------------------------------------------------------------------------------------------


def gemm_bf16() -> Kernel:
    a, b = numbers(4096, 4096, dtype=bf16), numbers(4096, 4096, dtype=bf16)
    c = torch.empty_like(a)
    return one("gemm_bf16", partial(torch.mm, a, b, out=c), c, lambda: a.float() @ b.float(), 1e-2)


def add() -> Kernel:
    a, b = numbers(2 * N), numbers(2 * N)
    c = torch.empty_like(a)
    return one("add", partial(torch.add, a, b, out=c), c, lambda: a + b)


def _kept(name: str, make: Callable[[], torch.Tensor], wanted: Callable[[], torch.Tensor], error: float) -> Kernel:
    """A function of torch that returns what it makes."""
    made: list[torch.Tensor] = []

    def run() -> None:
        made[:] = [make()]

    return Kernel({name: run}, lambda: made[0], wanted, error)


def softmax() -> Kernel:
    x = numbers(16384, 4096, dtype=bf16)
    return _kept("softmax", partial(functional.softmax, x, 1), lambda: functional.softmax(x.float(), 1), 1e-2)


def layernorm() -> Kernel:
    x, gamma, beta = numbers(16384, 4096, dtype=bf16), numbers(4096, dtype=bf16), numbers(4096, dtype=bf16)
    wanted = partial(lambda: functional.layer_norm(x.float(), (4096,), gamma.float(), beta.float()))
    return _kept("layernorm", partial(functional.layer_norm, x, (4096,), gamma, beta), wanted, 1e-2)


def attention() -> Kernel:
    q, k, v = (numbers(4, 32, 4096, 128, dtype=bf16) for _ in range(3))
    attend = partial(functional.scaled_dot_product_attention, is_causal=True)

    def wanted() -> torch.Tensor:
        seen = [part[:1, :2].float() for part in (q, k, v)]
        return attend(*seen)

    made: list[torch.Tensor] = []

    def run() -> None:
        made[:] = [attend(q, k, v)]

    return Kernel({"attention": run}, lambda: made[0][:1, :2], wanted, 1e-2)


def relu() -> Kernel:
    x = numbers(4096, dtype=bf16)
    return _kept("relu", partial(torch.relu, x), lambda: x.clamp(min=0), 0.0)


# Planted, each beside its cure ---------------------------------------------------------------------------------------


def uncoalesced_copy() -> Kernel:
    x = numbers(N)
    y = torch.empty_like(x)
    rows, cols = 1 << 16, N >> 16
    run = partial(launch, FAULTS, "copy_scattered", (N // 256,), (256,), x, y, cupy.int32(rows), cupy.int32(cols))
    return one("uncoalesced_copy", run, y, lambda: x, 0.0)


def coalesced_copy() -> Kernel:
    x = numbers(N)
    y = torch.empty_like(x)
    return one(
        "coalesced_copy", partial(launch, FAULTS, "copy_straight", (N // 1024,), (256,), x, y), y, lambda: x, 0.0
    )


def _product(name: str, run: str) -> Kernel:
    a, b = numbers(4096, 4096), numbers(4096, 4096)
    c = torch.empty_like(a)
    return one(name, partial(square, run, a, b, c), c, lambda: a @ b, 1e-4)


def _transpose(name: str, kernel: str) -> Kernel:
    x = numbers(SIDE, SIDE)
    y = torch.empty_like(x)
    run = partial(launch, FAULTS, kernel, (SIDE // 32, SIDE // 32), (32, 8), x, y, cupy.int32(SIDE))
    return one(name, run, y, lambda: x.t(), 0.0)


def _scale(name: str, blocks: int, shared: int) -> Kernel:
    x = numbers(N)
    y = torch.empty_like(x)
    values = (x, y, cupy.float32(3.0), cupy.uint64(N))
    run = partial(launch, FAULTS, "scale", (blocks,), (256,), *values, shared=shared)
    return one(name, run, y, lambda: 3 * x)


def _norm(name: str, kernel: str) -> Kernel:
    rows, cols = N // 128, 128
    x, gamma = numbers(cols, rows), numbers(cols)
    y = torch.empty_like(x)
    run = partial(launch, FAULTS, kernel, (rows // 128,), (128,), x, gamma, y, cupy.uint64(rows))
    return one(name, run, y, lambda: functional.rms_norm(x.t(), (cols,), gamma, 1e-6).t())


LAUNCHES, EACH = 2000, 1024


def tiny_kernels() -> Kernel:
    a, b = numbers(LAUNCHES, EACH), numbers(LAUNCHES, EACH)
    c = torch.empty_like(a)
    rows = list(zip(a.unbind(), b.unbind(), c.unbind(), strict=True))

    def run() -> None:
        for left, right, out in rows:
            torch.add(left, right, out=out)

    return one("tiny_kernels", run, c, lambda: a + b)


def one_kernel() -> Kernel:
    a, b = numbers(LAUNCHES, EACH), numbers(LAUNCHES, EACH)
    c = torch.empty_like(a)
    return one("one_kernel", partial(torch.add, a, b, out=c), c, lambda: a + b)


def graph() -> Kernel:
    """The two thousand launches as one graph: the other cure, timed only."""
    tiny = tiny_kernels()
    (run,) = tiny.parts.values()
    run()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        run()
    return Kernel({"graph": captured.replay}, tiny.found, tiny.wanted)


ROWS, INNER, OUTER = 16384, 4096, 256
TILE = ((128, 256, 64), 8, 3)


def _block() -> tuple[torch.Tensor, ...]:
    x, w = numbers(ROWS, INNER, dtype=bf16), numbers(OUTER, INNER, dtype=bf16)
    gamma = numbers(INNER, dtype=bf16)
    return x, gamma, w, torch.empty((ROWS, OUTER), dtype=bf16, device="cuda")


def _normed(x: torch.Tensor, gamma: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return functional.rms_norm(x.float(), (INNER,), gamma.float(), 1e-6) @ w.float().t()


def unfused() -> Kernel:
    x, gamma, w, y = _block()
    between = torch.empty_like(x)
    parts = {
        "unfused.norm": partial(rms_norm, x, gamma, between),
        "unfused.linear": partial(linear, between, w, y, *TILE),
    }
    return Kernel(parts, lambda: y, lambda: _normed(x, gamma, w), 2e-2)


def fused() -> Kernel:
    """Gamma is folded into the weights once and for all; the norm of a row is applied to its sums."""
    x, gamma, w, y = _block()
    folded = torch.empty_like(w)
    folded.copy_((w.cpu().float() * gamma.cpu().float()).to(bf16))  # on the host, unseen by a profiler
    run = partial(linear, x, folded, y, *TILE, norm=True)
    return one("fused", run, y, lambda: _normed(x, gamma, w), 2e-2)


def _library(name: str, tf32: bool) -> Kernel:
    a, b = numbers(4096, 4096), numbers(4096, 4096)
    c = torch.empty_like(a)

    def run() -> None:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.mm(a, b, out=c)
        torch.backends.cuda.matmul.allow_tf32 = False

    return one(name, run, c, lambda: a.double() @ b.double(), 1e-3 if tf32 else 1e-5)


KERNELS: dict[str, Callable[[], Kernel]] = {
    "gemm_bf16": gemm_bf16,
    "add": add,
    "softmax": softmax,
    "layernorm": layernorm,
    "attention": attention,
    "relu": relu,
    "uncoalesced_copy": uncoalesced_copy,
    "coalesced_copy": coalesced_copy,
    "naive_gemm": partial(_product, "naive_gemm", "naive"),
    "tiled_gemm": partial(_product, "tiled_gemm", "blocked"),
    "bank_conflicts": partial(_transpose, "bank_conflicts", "transpose_conflicting"),
    "padded": partial(_transpose, "padded", "transpose_padded"),
    "low_occupancy": partial(_scale, "low_occupancy", 132, 200 * 1024),
    "full_occupancy": partial(_scale, "full_occupancy", N // 256, 0),
    "spills": partial(_norm, "spills", "norm_spilling"),
    "in_registers": partial(_norm, "in_registers", "norm_in_registers"),
    "tiny_kernels": tiny_kernels,
    "one_kernel": one_kernel,
    "graph": graph,
    "unfused": unfused,
    "fused": fused,
    "fp32_gemm": partial(_library, "fp32_gemm", False),
    "tf32_gemm": partial(_library, "tf32_gemm", True),
    **PLANTED,
}

if __name__ == "__main__":
    torch.backends.cuda.matmul.allow_tf32 = False
    main(KERNELS, __doc__)
