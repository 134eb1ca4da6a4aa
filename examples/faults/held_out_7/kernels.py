"""30 pairs of kernels and 5 healthy ones. truth.csv names the planted causes; `../pairs.py` checks, times and counts them.

The kernels in Triton are in programs.py. Nine pairs are calls of torch, as a user writes them; some of these launch several kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch
from pairs import DEVICE, HEAD, SMS, Pair, Tensor, Version, empty, numbers, pair, whole
from torch.nn import functional


def triton_version(
    name: str, grid: tuple[int, ...], values: tuple[Any, ...], result: Callable[[], Tensor], **options: Any
) -> Version:
    """A kernel of programs.py, which is imported when it is launched: cases need no Triton."""
    cleared = options.pop("cleared", None)

    def start() -> None:
        getattr(import_module("held_out_7.programs"), name)[grid](*values, **options)

    return Version(name, (), (), (), result, start=start, cleared=cleared)


def torch_version(name: str, call: Callable[[], Tensor], traced: bool = False) -> Version:
    """A call of torch that returns its result."""
    results: list[Tensor] = []

    def start() -> None:
        results[:] = [call()]

    return Version(name, (), (), (), lambda: results[0], start=start, traced=traced)


# Darts in a circle, in Triton -----------------------------------------------------------------------------------------


@pair
def darts(n: int = 1 << 24, block: int = 4096) -> Pair:
    x, y = numbers(n), numbers(n, seed=1)
    p, q = empty(1, dtype=torch.int32), empty(1, dtype=torch.int32)
    a = triton_version("darts_a", (n // block,), (x, y, p, block), lambda: p[0], cleared=p, num_warps=8)
    b = triton_version("darts_b", (n // block,), (x, y, q, block), lambda: q[0], cleared=q, num_warps=8)
    return Pair("", (a, b), lambda: (x * x + y * y < 0.25).sum(), ("fp32", 4 * n, 8 * n), 1e-4)


# Ratings of 16 kinds, a call of torch ---------------------------------------------------------------------------------


@pair
def ratings(n: int = 1 << 22, kinds: int = 16) -> Pair:
    x, y, z = numbers(n) + 0.5, empty(kinds), empty(kinds)
    kind = torch.arange(n, device=DEVICE) % kinds
    a = Version("ratings_a", (), (), (), lambda: y, cleared=y, start=lambda: y.scatter_add_(0, kind, x), traced=True)
    b = Version("ratings_b", (), (), (), lambda: z, start=lambda: torch.sum(x.view(-1, kinds), 0, out=z))
    return Pair("", (a, b), lambda: x.double().view(-1, kinds).sum(0), ("fp32", n, 4 * n + 4 * kinds), 1e-3)


# A transpose ----------------------------------------------------------------------------------------------------------

MIRRORED = r"""
extern "C" __global__ void __launch_bounds__(256) mirrored_a(const float* __restrict__ x, float* __restrict__ y, int side)
{
    const int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
#pragma unroll
    for (int j = 0; j < 32; j += 8)
        y[(size_t)col * side + row + j] = x[(size_t)(row + j) * side + col];
}

// By way of a tile in shared memory
extern "C" __global__ void __launch_bounds__(256) mirrored_b(const float* __restrict__ x, float* __restrict__ y, int side)
{
    __shared__ float tile[32][33];
    const int col = blockIdx.x * 32, row = blockIdx.y * 32, tx = threadIdx.x, ty = threadIdx.y;
#pragma unroll
    for (int j = 0; j < 32; j += 8)
        tile[ty + j][tx] = x[(size_t)(row + ty + j) * side + col + tx];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 32; j += 8)
        y[(size_t)(col + ty + j) * side + row + tx] = tile[tx][ty + j];
}
"""


@pair
def mirrored(side: int = 8192) -> Pair:
    x, y, z = numbers(side, side), empty(side, side), empty(side, side)
    grid = (side // 32, side // 32)
    a = Version("mirrored_a", grid, (32, 8), (x, y, side), lambda: y)
    b = Version("mirrored_b", grid, (32, 8), (x, z, side), lambda: z)
    return Pair(MIRRORED, (a, b), lambda: x.t(), ("fp32", 0, 8 * side * side), 0.0)


# A multiple of a matrix plus another one ------------------------------------------------------------------------------

SWAPPED = r"""
// Threads that follow each other take rows.
extern "C" __global__ void __launch_bounds__(256)
    swapped_a(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z, float by, int cols)
{
    const int row = blockIdx.x * 32 + threadIdx.x, col = blockIdx.y * 8 + threadIdx.y;
    const size_t i = (size_t)row * cols + col;
    z[i] = fmaf(by, x[i], y[i]);
}

// Threads that follow each other take columns.
extern "C" __global__ void __launch_bounds__(256)
    swapped_b(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z, float by, int cols)
{
    const int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    const size_t i = (size_t)row * cols + col;
    z[i] = fmaf(by, x[i], y[i]);
}
"""


@pair
def swapped(rows: int = 4096, cols: int = 8192) -> Pair:
    x, y, p, q = numbers(rows, cols), numbers(rows, cols, seed=1), empty(rows, cols), empty(rows, cols)
    a = Version("swapped_a", (rows // 32, cols // 8), (32, 8), (x, y, p, 1.5, cols), lambda: p)
    b = Version("swapped_b", (cols // 32, rows // 8), (32, 8), (x, y, q, 1.5, cols), lambda: q)
    return Pair(SWAPPED, (a, b), lambda: 1.5 * x + y, ("fp32", 2 * rows * cols, 12 * rows * cols))


# Cosine transforms of 16 numbers --------------------------------------------------------------------------------------

COSINES = [[math.cos(math.pi * (2 * n + 1) * k / 32) for n in range(16)] for k in range(16)]
DCT = (
    "__device__ constexpr float COSINES[256] = {"
    + ", ".join(f"{value:.9e}f" for row in COSINES for value in row)
    + "};\n"
    + r"""
// A thread has a row of 16 numbers in shared memory.
template <int PITCH>
__device__ __forceinline__ void dct(const float* x, float* y)
{
    __shared__ float s[256 * PITCH];
    const size_t first = (size_t)blockIdx.x * 4096;
    const int t = threadIdx.x;
    volatile float* const own = s + t * PITCH;
#pragma unroll
    for (int i = t; i < 4096; i += 256)
        s[i / 16 * PITCH + i % 16] = x[first + i];
    __syncthreads();
    float v[16];
#pragma unroll
    for (int n = 0; n < 16; ++n)
        v[n] = own[n];
#pragma unroll
    for (int k = 0; k < 16; ++k) {
        float sum = 0.0f;
#pragma unroll
        for (int n = 0; n < 16; ++n)
            sum = fmaf(COSINES[16 * k + n], v[n], sum);
        own[k] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int i = t; i < 4096; i += 256)
        y[first + i] = s[i / 16 * PITCH + i % 16];
}

extern "C" __global__ void __launch_bounds__(256) dct_a(const float* __restrict__ x, float* __restrict__ y) { dct<16>(x, y); }

extern "C" __global__ void __launch_bounds__(256) dct_b(const float* __restrict__ x, float* __restrict__ y) { dct<17>(x, y); }
"""
)


@pair
def dct(rows: int = 1 << 21) -> Pair:
    x, y, z = numbers(rows, 16), empty(rows, 16), empty(rows, 16)
    a = Version("dct_a", (rows // 256,), (256,), (x, y), lambda: y)
    b = Version("dct_b", (rows // 256,), (256,), (x, z), lambda: z)

    def wanted() -> Tensor:
        return x.double() @ torch.tensor(COSINES, dtype=torch.float64, device=DEVICE).t()

    return Pair(DCT, (a, b), wanted, ("fp32", 2 * 16 * 16 * rows, 8 * 16 * rows), 1e-4)


# Blocks of 1024 in the order of their reversed bits -------------------------------------------------------------------

REVERSED = r"""
template <bool PADDED>
__device__ __forceinline__ int place(int i) { return PADDED ? i + i / 32 : i; }

template <bool PADDED>
__device__ __forceinline__ void reversed(const float* x, float* y)
{
    __shared__ float s[1056];
    const size_t first = (size_t)blockIdx.x * 1024;
    const int t = threadIdx.x;
#pragma unroll
    for (int i = t; i < 1024; i += 256)
        s[place<PADDED>(__brev(i) >> 22)] = x[first + i];
    __syncthreads();
#pragma unroll
    for (int i = t; i < 1024; i += 256)
        y[first + i] = s[place<PADDED>(i)];
}

extern "C" __global__ void __launch_bounds__(256) reversed_a(const float* __restrict__ x, float* __restrict__ y)
{
    reversed<false>(x, y);
}

extern "C" __global__ void __launch_bounds__(256) reversed_b(const float* __restrict__ x, float* __restrict__ y)
{
    reversed<true>(x, y);
}
"""


@pair
def reversed_bits(blocks: int = 1 << 15) -> Pair:
    x, y, z = numbers(blocks, 1024), empty(blocks, 1024), empty(blocks, 1024)
    order = [int(f"{i:010b}"[::-1], 2) for i in range(1024)]
    a = Version("reversed_a", (blocks,), (256,), (x, y), lambda: y)
    b = Version("reversed_b", (blocks,), (256,), (x, z), lambda: z)
    return Pair(REVERSED, (a, b), lambda: x[:, order], ("fp32", 0, 8 * 1024 * blocks), 0.0)


# The negative of a picture --------------------------------------------------------------------------------------------

NEGATIVE = r"""
extern "C" __global__ void __launch_bounds__(256)
    negative_a(const unsigned char* __restrict__ x, unsigned char* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    y[i] = 255 - x[i];
}

// 16 pixels per thread
extern "C" __global__ void __launch_bounds__(256) negative_b(const uint4* __restrict__ x, uint4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const uint4 v = x[i];
    y[i] = make_uint4(~v.x, ~v.y, ~v.z, ~v.w);
}
"""


@pair
def negative(n: int = 1 << 27) -> Pair:
    x, y, z = whole(256, n, dtype=torch.uint8), empty(n, dtype=torch.uint8), empty(n, dtype=torch.uint8)
    a = Version("negative_a", (n // 256,), (256,), (x, y), lambda: y)
    b = Version("negative_b", (n // 4096,), (256,), (x, z), lambda: z)
    return Pair(NEGATIVE, (a, b), lambda: 255 - x, ("int32", n, 2 * n), 0.0)


# The largest magnitude of a tensor, the scale of its quantization -----------------------------------------------------

ABSMAX = r"""
__device__ __forceinline__ float block_max(float value)
{
    __shared__ float parts[32];
#pragma unroll
    for (int lane = 16; lane; lane /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lane));
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[threadIdx.x % 32];
#pragma unroll
    for (int lane = 16; lane; lane /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lane));
    return value;
}

extern "C" __global__ void __launch_bounds__(1024) absmax_a(const float* __restrict__ x, float* __restrict__ y, int n)
{
    float high = 0.0f;
#pragma unroll 1
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < n; i += gridDim.x * 1024)
        high = fmaxf(high, fabsf(x[i]));
    high = block_max(high);
    if (threadIdx.x == 0)
        y[blockIdx.x] = high;
}

// Eight numbers at a time
extern "C" __global__ void __launch_bounds__(1024) absmax_b(const float* __restrict__ x, float* __restrict__ y, int n)
{
    const int apart = gridDim.x * 1024;
    float high = 0.0f;
#pragma unroll 1
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < n; i += 8 * apart) {
        float v[8];
#pragma unroll
        for (int e = 0; e < 8; ++e)
            v[e] = x[i + e * apart];
#pragma unroll
        for (int e = 0; e < 8; ++e)
            high = fmaxf(high, fabsf(v[e]));
    }
    high = block_max(high);
    if (threadIdx.x == 0)
        y[blockIdx.x] = high;
}
"""


@pair
def absmax(blocks: int = SMS, each: int = 256) -> Pair:
    n = 1024 * blocks * each
    x, y, z = numbers(n), empty(blocks), empty(blocks)
    a = Version("absmax_a", (blocks,), (1024,), (x, y, n), lambda: y.max())
    b = Version("absmax_b", (blocks,), (1024,), (x, z, n), lambda: z.max())
    return Pair(ABSMAX, (a, b), lambda: x.abs().max(), ("fp32", n, 4 * n), 0.0)


# Means of four frames of a film ---------------------------------------------------------------------------------------

FRAMES = r"""
__device__ __forceinline__ float4 mean(float4 p, float4 q, float4 r, float4 s)
{
    return make_float4(0.25f * (p.x + q.x + r.x + s.x), 0.25f * (p.y + q.y + r.y + s.y),
                       0.25f * (p.z + q.z + r.z + s.z), 0.25f * (p.w + q.w + r.w + s.w));
}

// A row of the grid per mean
extern "C" __global__ void __launch_bounds__(256) frames_a(const float4* __restrict__ x, float4* __restrict__ y, int frame)
{
    const size_t i = (size_t)blockIdx.y * frame + blockIdx.x * 256 + threadIdx.x;
    y[i] = mean(x[i], x[i + frame], x[i + 2 * (size_t)frame], x[i + 3 * (size_t)frame]);
}

// A thread has the last frames in registers.
extern "C" __global__ void __launch_bounds__(256) frames_b(const float4* __restrict__ x, float4* __restrict__ y, int frame)
{
    size_t i = blockIdx.x * 256 + threadIdx.x;
    float4 p = x[i], q = x[i + frame], r = x[i + 2 * (size_t)frame];
#pragma unroll
    for (int k = 0; k < 8; ++k, i += frame) {
        const float4 s = x[i + 3 * (size_t)frame];
        y[i] = mean(p, q, r, s);
        p = q;
        q = r;
        r = s;
    }
}
"""


@pair
def frames(pixels: int = 1 << 23) -> Pair:
    x, y, z = numbers(11, pixels), empty(8, pixels), empty(8, pixels)
    a = Version("frames_a", (pixels // 1024, 8), (256,), (x, y, pixels // 4), lambda: y)
    b = Version("frames_b", (pixels // 1024,), (256,), (x, z, pixels // 4), lambda: z)
    wanted = lambda: 0.25 * (x[:8] + x[1:9] + x[2:10] + x[3:11])  # noqa: E731
    return Pair(FRAMES, (a, b), wanted, ("fp32", 4 * 8 * pixels, 4 * 19 * pixels), 1e-5)


# An offset for every row, calls of torch ------------------------------------------------------------------------------


@pair
def offsets(rows: int = 8192, cols: int = 4096) -> Pair:
    x, offset = numbers(rows, cols), numbers(cols, seed=1)
    a = torch_version("offsets_a", lambda: x + offset.repeat(rows, 1), traced=True)
    b = torch_version("offsets_b", lambda: x + offset)
    return Pair("", (a, b), lambda: x.double() + offset, ("fp32", rows * cols, 4 * (2 * rows + 1) * cols))


# The trace of a product, calls of torch -------------------------------------------------------------------------------


@pair
def frobenius(side: int = 4096) -> Pair:
    x, w = (numbers(side, side) + 0.5).bfloat16(), (numbers(side, side, seed=1) + 0.5).bfloat16()
    a = torch_version("frobenius_a", lambda: torch.trace(x @ w.t()), traced=True)
    b = torch_version("frobenius_b", lambda: torch.dot(x.view(-1), w.view(-1)))
    return Pair("", (a, b), lambda: (x.double() * w).sum(), ("bf16", 2 * side * side, 4 * side * side), 2e-2)


# Points moved by a chain of joints ------------------------------------------------------------------------------------

POSES = r"""
__device__ __forceinline__ float dot(float4 m, float4 p) { return fmaf(m.x, p.x, fmaf(m.y, p.y, fmaf(m.z, p.z, m.w * p.w))); }

// Four points per thread, a matrix of four rows after the other
template <int MATRICES>
__device__ __forceinline__ void poses(const float4* x, const float4* matrices, float4* y)
{
    __shared__ float4 s[4 * MATRICES];
    const size_t first = (size_t)blockIdx.x * 1024 + threadIdx.x;
    if (threadIdx.x < 4 * MATRICES)
        s[threadIdx.x] = matrices[threadIdx.x];
    float4 p[4];
#pragma unroll
    for (int e = 0; e < 4; ++e)
        p[e] = x[first + 256 * e];
    __syncthreads();
#pragma unroll 2
    for (int k = 0; k < 4 * MATRICES; k += 4) {
        const float4 a = s[k], b = s[k + 1], c = s[k + 2], d = s[k + 3];
#pragma unroll
        for (int e = 0; e < 4; ++e)
            p[e] = make_float4(dot(a, p[e]), dot(b, p[e]), dot(c, p[e]), dot(d, p[e]));
    }
#pragma unroll
    for (int e = 0; e < 4; ++e)
        y[first + 256 * e] = p[e];
}

extern "C" __global__ void __launch_bounds__(256)
    poses_a(const float4* __restrict__ x, const float4* __restrict__ matrices, float4* __restrict__ y)
{
    poses<64>(x, matrices, y);
}

// The product of the matrices is known.
extern "C" __global__ void __launch_bounds__(256)
    poses_b(const float4* __restrict__ x, const float4* __restrict__ matrices, float4* __restrict__ y)
{
    poses<1>(x, matrices, y);
}
"""


@pair
def poses(n: int = 1 << 22) -> Pair:
    x, y, z = numbers(n, 4), empty(n, 4), empty(n, 4)
    joints = torch.eye(4, device=DEVICE) + 0.1 * numbers(64, 4, 4, seed=1)
    product = torch.eye(4, dtype=torch.float64, device=DEVICE)
    for joint in joints:
        product = joint.double() @ product
    a = Version("poses_a", (n // 1024,), (256,), (x, joints, y), lambda: y)
    b = Version("poses_b", (n // 1024,), (256,), (x, product.float(), z), lambda: z)
    return Pair(POSES, (a, b), lambda: x.double() @ product.t(), ("fp32", 32 * n, 32 * n), 1e-3)


# Products of fp32 where TF32 would do, a call of torch ----------------------------------------------------------------


@pair
def batched(batch: int = 32, side: int = 1024) -> Pair:
    x, w = numbers(batch, side, side), numbers(batch, side, side, seed=1)

    def product(tf32: bool) -> Tensor:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        return torch.bmm(x, w)

    a = torch_version("batched_a", partial(product, False), traced=True)
    b = torch_version("batched_b", partial(product, True))
    work = ("fp32", 2 * batch * side**3, 12 * batch * side * side)
    case = {"op": "bmm", "dtype": "fp32", "batch": batch, "m": side, "n": side, "k": side}
    return Pair("", (a, b), lambda: torch.bmm(x.double(), w.double()), work, 1e-2, case=case)


# A convolution of fp32 where TF32 would do, a call of torch -----------------------------------------------------------


@pair
def features(batch: int = 32, channels: int = 128, side: int = 56) -> Pair:
    x = numbers(batch, channels, side, side).contiguous(memory_format=torch.channels_last)
    w = numbers(channels, channels, 3, 3, seed=1).contiguous(memory_format=torch.channels_last)

    def convolution(tf32: bool) -> Tensor:
        torch.backends.cudnn.allow_tf32 = tf32
        return functional.conv2d(x, w, padding=1)

    a = torch_version("features_a", partial(convolution, False), traced=True)
    b = torch_version("features_b", partial(convolution, True))
    size = batch * channels * side * side
    case = {"op": "conv2d", "dtype": "fp32", "batch": batch, "c_in": channels, "c_out": channels, "h": side, "w": side}
    case |= {"kernel": 3, "layout": "nhwc"}
    work = ("fp32", 2 * 9 * channels * size, 8 * size + 36 * channels * channels)
    return Pair("", (a, b), lambda: functional.conv2d(x.double(), w.double(), padding=1), work, 1e-2, case=case)


# An activation, calls of torch ----------------------------------------------------------------------------------------


@pair
def gelu(n: int = 1 << 25) -> Pair:
    x = 8 * numbers(n)

    def by_hand() -> Tensor:
        return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))

    a = torch_version("gelu_a", by_hand, traced=True)
    b = torch_version("gelu_b", lambda: functional.gelu(x, approximate="tanh"))
    return Pair("", (a, b), lambda: functional.gelu(x.double(), approximate="tanh"), ("fp32", 10 * n, 8 * n), 1e-4)


# A loss of every element, calls of torch ------------------------------------------------------------------------------


@pair
def huber(n: int = 1 << 25) -> Pair:
    x, y = 4 * numbers(n), 4 * numbers(n, seed=1)

    def by_hand() -> Tensor:
        apart = x - y
        return torch.where(apart.abs() < 1, 0.5 * apart * apart, apart.abs() - 0.5)

    a = torch_version("huber_a", by_hand, traced=True)
    b = torch_version("huber_b", lambda: functional.smooth_l1_loss(x, y, reduction="none"))
    wanted = lambda: functional.smooth_l1_loss(x.double(), y.double(), reduction="none")  # noqa: E731
    return Pair("", (a, b), wanted, ("fp32", 5 * n, 12 * n))


# Samples between two limits -------------------------------------------------------------------------------------------

LIMITS = r"""
__device__ __forceinline__ float between(float v, float low, float high) { return fminf(fmaxf(v, low), high); }

// The limits are asked for anew for every sample.
extern "C" __global__ void __launch_bounds__(256)
    limits_a(const float* __restrict__ x, const volatile float* limits, float* __restrict__ y)
{
    const size_t first = (size_t)blockIdx.x * 1024 + threadIdx.x;
    float v[4];
#pragma unroll
    for (int e = 0; e < 4; ++e)
        v[e] = x[first + 256 * e];
#pragma unroll
    for (int e = 0; e < 4; ++e)
        y[first + 256 * e] = between(v[e], limits[0], limits[1]);
}

extern "C" __global__ void __launch_bounds__(256)
    limits_b(const float* __restrict__ x, const float* __restrict__ limits, float* __restrict__ y)
{
    const size_t first = (size_t)blockIdx.x * 1024 + threadIdx.x;
    float v[4];
#pragma unroll
    for (int e = 0; e < 4; ++e)
        v[e] = x[first + 256 * e];
#pragma unroll
    for (int e = 0; e < 4; ++e)
        y[first + 256 * e] = between(v[e], limits[0], limits[1]);
}
"""


@pair
def limits(n: int = 1 << 25) -> Pair:
    x, y, z = numbers(n), empty(n), empty(n)
    edges = torch.tensor([-0.25, 0.25], device=DEVICE)
    a = Version("limits_a", (n // 1024,), (256,), (x, edges, y), lambda: y)
    b = Version("limits_b", (n // 1024,), (256,), (x, edges, z), lambda: z)
    return Pair(LIMITS, (a, b), lambda: x.clamp(-0.25, 0.25), ("fp32", 2 * n, 8 * n), 0.0)


# A damped oscillator with two wells, twelve per thread ----------------------------------------------------------------

DUFFING = r"""
template <int BLOCK>
__device__ __forceinline__ void duffing(const float* force, float* y, int n, int steps)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    float f[12], x[12], v[12];
#pragma unroll
    for (int e = 0; e < 12; ++e) {
        f[e] = force[e * n + i];
        x[e] = 0.1f;
        v[e] = 0.0f;
    }
#pragma unroll 2
    for (int step = 0; step < steps; ++step)
#pragma unroll
        for (int e = 0; e < 12; ++e) {
            const float push = fmaf(fmaf(-x[e], x[e], 1.0f), x[e], fmaf(-0.3f, v[e], f[e]));
            v[e] = fmaf(0.01f, push, v[e]);
            x[e] = fmaf(0.01f, v[e], x[e]);
        }
#pragma unroll
    for (int e = 0; e < 12; ++e)
        y[e * n + i] = x[e];
}

extern "C" __global__ void __launch_bounds__(1024)
    duffing_a(const float* __restrict__ force, float* __restrict__ y, int n, int steps)
{
    duffing<1024>(force, y, n, steps);
}

extern "C" __global__ void __launch_bounds__(128)
    duffing_b(const float* __restrict__ force, float* __restrict__ y, int n, int steps)
{
    duffing<128>(force, y, n, steps);
}
"""


@pair
def duffing(blocks: int = SMS + 8, steps: int = 1024) -> Pair:
    n = 1024 * blocks
    force, y, z = numbers(12, n), empty(12, n), empty(12, n)

    def wanted() -> Tensor:
        x, v = torch.full_like(force, 0.1, dtype=torch.float64), torch.zeros_like(force, dtype=torch.float64)
        for _ in range(steps):
            v = v + 0.01 * (x - x * x * x - 0.3 * v + force)
            x = x + 0.01 * v
        return x

    a = Version("duffing_a", (blocks,), (1024,), (force, y, n, steps), lambda: y)
    b = Version("duffing_b", (8 * blocks,), (128,), (force, z, n, steps), lambda: z)
    return Pair(DUFFING, (a, b), wanted, ("fp32", 120 * steps * n, 96 * n), 1e-2)


# A product of halves by fragments, against one in Triton --------------------------------------------------------------

FRAGMENTS = r"""
// The instructions of nvcuda::wmma. y[m, n] = x[m, depth] w[n, depth]^T; a block has 128 x 128, a warp 64 x 32.
#define EIGHT(v) v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(v[4]), "r"(v[5]), "r"(v[6]), "r"(v[7]

__device__ __forceinline__ void load_a(unsigned* v, unsigned at)
{
    asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], 40;"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]), "=r"(v[4]), "=r"(v[5]), "=r"(v[6]), "=r"(v[7])
                 : "r"(at));
}

__device__ __forceinline__ void load_b(unsigned* v, unsigned at)
{
    asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], 40;"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]), "=r"(v[4]), "=r"(v[5]), "=r"(v[6]), "=r"(v[7])
                 : "r"(at));
}

__device__ __forceinline__ void multiply(float* s, const unsigned* a, const unsigned* b)
{
    asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, "
                 "{%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19, %20, %21, %22, %23}, "
                 "{%0, %1, %2, %3, %4, %5, %6, %7};"
                 : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]), "+f"(s[4]), "+f"(s[5]), "+f"(s[6]), "+f"(s[7])
                 : "r"(EIGHT(a)), "r"(EIGHT(b)));
}

__device__ __forceinline__ void store(float* at, const float* s, int n)
{
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8}, %9;"
                 :
                 : "l"(at), "f"(s[0]), "f"(s[1]), "f"(s[2]), "f"(s[3]), "f"(s[4]), "f"(s[5]), "f"(s[6]), "f"(s[7]), "r"(n)
                 : "memory");
}

extern "C" __global__ void __launch_bounds__(256)
    fragments_a(const uint4* __restrict__ x, const uint4* __restrict__ w, float* __restrict__ y, int n, int depth)
{
    __shared__ __align__(128) unsigned short left[2][128 * 40], right[2][128 * 40];
    const int t = threadIdx.x, row = t / 4, part = t % 4, pitch = depth / 8;
    const int i = blockIdx.y * 128, j = blockIdx.x * 128, down = t / 128 * 64, across = t / 32 % 4 * 32;
    const int to = row * 40 + 8 * part, half = 64 * 40;
    const size_t from = (size_t)64 * pitch;
    const uint4 *p = x + (size_t)(i + row) * pitch + part, *q = w + (size_t)(j + row) * pitch + part;
    float sum[4][2][8] = {};
    uint4 a0 = p[0], a1 = p[from], b0 = q[0], b1 = q[from];
    for (int k = 0; k < pitch; k += 4) {
        const int now = k / 4 % 2;
        *(uint4*)&left[now][to] = a0;
        *(uint4*)&left[now][to + half] = a1;
        *(uint4*)&right[now][to] = b0;
        *(uint4*)&right[now][to + half] = b1;
        __syncthreads();
        if (k + 4 < pitch) {
            a0 = p[k + 4];
            a1 = p[from + k + 4];
            b0 = q[k + 4];
            b1 = q[from + k + 4];
        }
#pragma unroll
        for (int e = 0; e < 32; e += 16) {
            unsigned a[4][8], b[2][8];
#pragma unroll
            for (int r = 0; r < 4; ++r)
                load_a(a[r], __cvta_generic_to_shared(&left[now][(down + 16 * r) * 40 + e]));
#pragma unroll
            for (int c = 0; c < 2; ++c)
                load_b(b[c], __cvta_generic_to_shared(&right[now][(across + 16 * c) * 40 + e]));
#pragma unroll
            for (int r = 0; r < 4; ++r)
#pragma unroll
                for (int c = 0; c < 2; ++c)
                    multiply(sum[r][c], a[r], b[c]);
        }
    }
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 2; ++c)
            store(y + (size_t)(i + down + 16 * r) * n + j + across + 16 * c, sum[r][c], n);
}
"""


@pair
def fragments(m: int = 4096, n: int = 4096, depth: int = 4096) -> Pair:
    x, w = numbers(m, depth).half(), numbers(n, depth, seed=1).half()
    y, z = empty(m, n), empty(m, n)
    a = Version("fragments_a", (n // 128, m // 128), (256,), (x, w, y, n, depth), lambda: y)
    grid = (m // 128 * (n // 256),)
    b = triton_version("fragments_b", grid, (x, w, z, m, n, depth, 128, 256, 64), lambda: z, num_warps=8, num_stages=3)
    work = ("fp16", 2 * m * n * depth, 2 * depth * (m + n) + 4 * m * n)
    return Pair(FRAGMENTS, (a, b), lambda: x.float() @ w.float().t(), work, 1e-2, gemm=(m, n, depth))


# Softmax of a row at a time, calls of torch ---------------------------------------------------------------------------


@pair
def rowwise(rows: int = 32, cols: int = 4096) -> Pair:
    x, y = 8 * numbers(rows, cols), empty(rows, cols)

    def start() -> None:
        for row in range(rows):
            torch.softmax(x[row], 0, out=y[row])

    a = Version("rowwise_a", (), (), (), lambda: y, start=start, traced=True)
    b = torch_version("rowwise_b", lambda: torch.softmax(x, 1))
    return Pair("", (a, b), lambda: x.double().softmax(1), ("fp32", 5 * rows * cols, 8 * rows * cols), 1e-4)


# Attention with heads before times, calls of torch --------------------------------------------------------------------


@pair
def heads(batch: int = 64, times: int = 256, count: int = 16, size: int = 64) -> Pair:
    q, k, v = (4 * numbers(batch, times, count, size, seed=seed).bfloat16() for seed in range(3))

    def copied() -> Tensor:
        return functional.scaled_dot_product_attention(*(x.transpose(1, 2).contiguous() for x in (q, k, v)))

    def viewed() -> Tensor:
        return functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)))

    def wanted() -> Tensor:
        p = torch.einsum("bqhd,bkhd->bhqk", q.float(), k.float()) / math.sqrt(size)
        return torch.einsum("bhqk,bkhd->bhqd", p.softmax(3), v.float())

    a = torch_version("heads_a", copied, traced=True)
    b = torch_version("heads_b", viewed)
    work = ("bf16", 4 * batch * count * times * times * size, 8 * batch * times * count * size)
    case = {"op": "attention", "dtype": "bf16", "batch": batch, "heads": count, "seq_q": times, "head_dim": size}
    return Pair("", (a, b), wanted, work, 2e-2, case=case | {"causal": False})


# Fourier transforms of 32 numbers, one per thread ---------------------------------------------------------------------

SPECTRUM = (
    "__device__ constexpr float COSINE[16] = {"
    + ", ".join(f"{math.cos(math.pi * k / 16):.9e}f" for k in range(16))
    + "};\n__device__ constexpr float SINE[16] = {"
    + ", ".join(f"{math.sin(math.pi * k / 16):.9e}f" for k in range(16))
    + "};\n"
    + r"""
__device__ __forceinline__ constexpr int turned(int i) { return (i & 1) << 4 | (i & 2) << 2 | (i & 4) | (i & 8) >> 2 | (i & 16) >> 4; }

__device__ __forceinline__ void spectrum(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float re[32], im[32];
#pragma unroll
    for (int k = 0; k < 32; ++k) {
        re[k] = x[(size_t)k * n + i];
        im[k] = x[(size_t)(32 + k) * n + i];
    }
#pragma unroll
    for (int half = 16; half; half /= 2)
#pragma unroll
        for (int pair = 0; pair < 16; ++pair) {
            const int j = pair % half, p = 2 * (pair - j) + j, q = p + half;
            const float c = COSINE[j * (16 / half)], s = SINE[j * (16 / half)], u = re[p] - re[q], v = im[p] - im[q];
            re[p] += re[q];
            im[p] += im[q];
            re[q] = fmaf(u, c, v * s);
            im[q] = fmaf(v, c, -u * s);
        }
#pragma unroll
    for (int k = 0; k < 32; ++k) {
        y[(size_t)turned(k) * n + i] = re[k];
        y[(size_t)(32 + turned(k)) * n + i] = im[k];
    }
}

// 32 registers per thread, for the sake of occupancy
extern "C" __global__ void __launch_bounds__(256, 8) spectrum_a(const float* __restrict__ x, float* __restrict__ y, int n)
{
    spectrum(x, y, n);
}

extern "C" __global__ void __launch_bounds__(256) spectrum_b(const float* __restrict__ x, float* __restrict__ y, int n)
{
    spectrum(x, y, n);
}
"""
)


@pair
def spectrum(n: int = 1 << 19) -> Pair:
    x, y, z = numbers(2, 32, n), empty(2, 32, n), empty(2, 32, n)

    def wanted() -> Tensor:
        result = torch.fft.fft(torch.complex(x[0].double(), x[1].double()), dim=0)
        return torch.stack([result.real, result.imag])

    a = Version("spectrum_a", (n // 256,), (256,), (x, y, n), lambda: y)
    b = Version("spectrum_b", (n // 256,), (256,), (x, z, n), lambda: z)
    return Pair(SPECTRUM, (a, b), wanted, ("fp32", 800 * n, 512 * n), 1e-4)


# Distances from the origin --------------------------------------------------------------------------------------------

REACH = r"""
extern "C" __global__ void __launch_bounds__(128)
    reach_a(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z)
{
    const size_t i = (size_t)blockIdx.x * 128 + threadIdx.x;
    z[i] = sqrtf(x[i] * x[i] + y[i] * y[i]);
}

extern "C" __global__ void __launch_bounds__(128)
    reach_b(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z)
{
    const size_t i = (size_t)blockIdx.x * 128 + threadIdx.x;
    z[i] = sqrtf(x[i] * x[i] + y[i] * y[i]);
}
"""


@pair
def reach(n: int = 1 << 25) -> Pair:
    """The first version asks for 100 KB of shared memory per block, which nothing uses."""
    x, y, p, q = numbers(n), numbers(n, seed=1), empty(n), empty(n)
    a = Version("reach_a", (n // 128,), (128,), (x, y, p), lambda: p, shared=100 * 1024)
    b = Version("reach_b", (n // 128,), (128,), (x, y, q), lambda: q)
    return Pair(REACH, (a, b), lambda: (x.double() ** 2 + y.double() ** 2).sqrt(), ("fp32", 4 * n, 12 * n))


# Energies of signals --------------------------------------------------------------------------------------------------

ENERGIES = (
    HEAD
    + r"""
__device__ __forceinline__ float squares(float4 v) { return fmaf(v.x, v.x, v.y * v.y) + fmaf(v.z, v.z, v.w * v.w); }

// Each block has `each` times 16 bytes.
__device__ __forceinline__ void energies(const float4* x, float* y, int each)
{
    __shared__ float parts[32];
    const float4* const own = x + (size_t)blockIdx.x * each;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < each; i += 4096)
        sum += (squares(own[i]) + squares(own[i + 1024])) + (squares(own[i + 2048]) + squares(own[i + 3072]));
    sum = block_sum(sum, parts);
    if (threadIdx.x == 0)
        y[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(1024) energies_a(const float4* __restrict__ x, float* __restrict__ y, int each)
{
    energies(x, y, each);
}

extern "C" __global__ void __launch_bounds__(1024) energies_b(const float4* __restrict__ x, float* __restrict__ y, int each)
{
    energies(x, y, each);
}
"""
)


@pair
def energies(signals: int = 16, times: int = 1 << 21, parts: int = 64) -> Pair:
    x, y, z = numbers(signals, times), empty(signals), empty(signals, parts)
    a = Version("energies_a", (signals,), (1024,), (x, y, times // 4), lambda: y)
    b = Version("energies_b", (signals * parts,), (1024,), (x, z, times // 4 // parts), lambda: z.double().sum(1))
    n = signals * times
    return Pair(ENERGIES, (a, b), lambda: x.double().pow(2).sum(1), ("fp32", 2 * n, 4 * n), 1e-3)


# Cells of which every eighth is at the boundary -----------------------------------------------------------------------

BOUNDARY = r"""
__device__ __forceinline__ float settled(float v)
{
    float w = v;
#pragma unroll 4
    for (int step = 0; step < 256; ++step)
        w = fmaf(-0.5f * w, w, v);
    return w;
}

extern "C" __global__ void __launch_bounds__(256) boundary_a(const float* __restrict__ x, float* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float v = x[i];
    y[i] = i % 8 == 0 ? settled(v) : v;
}

// A warp has all cells of a block that are at the boundary.
extern "C" __global__ void __launch_bounds__(256) boundary_b(const float* __restrict__ x, float* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x % 32 * 8 + threadIdx.x / 32;
    const float v = x[i];
    y[i] = i % 8 == 0 ? settled(v) : v;
}
"""


@pair
def boundary(n: int = 1 << 23) -> Pair:
    x, y, z = numbers(n), empty(n), empty(n)

    def wanted() -> Tensor:
        result = x.double()
        v = result[::8].clone()
        for _ in range(256):
            result[::8] = v - 0.5 * result[::8] ** 2
        return result

    a = Version("boundary_a", (n // 256,), (256,), (x, y), lambda: y)
    b = Version("boundary_b", (n // 256,), (256,), (x, z), lambda: z)
    return Pair(BOUNDARY, (a, b), wanted, ("fp32", 3 * 256 * n // 8, 8 * n), 1e-4)


# Waves on strings of 32 nodes -----------------------------------------------------------------------------------------

STRINGS = r"""
template <bool BLOCK>
__device__ __forceinline__ void wait()
{
    if (BLOCK)
        __syncthreads();
    else
        __syncwarp();
}

// A warp has a string.
template <bool BLOCK>
__device__ __forceinline__ void strings(const float* x, float* y, int steps)
{
    __shared__ float s[32][32];
    const int i = blockIdx.x * 1024 + threadIdx.x, lane = threadIdx.x % 32, row = threadIdx.x / 32;
    float now = x[i], before = now;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        s[row][lane] = now;
        wait<BLOCK>();
        const float bend = s[row][(lane + 31) % 32] + s[row][(lane + 1) % 32] - 2.0f * now;
        const float next = fmaf(0.1f, bend, 2.0f * now - before);
        before = now;
        now = next;
        wait<BLOCK>();
    }
    y[i] = now;
}

extern "C" __global__ void __launch_bounds__(1024) strings_a(const float* __restrict__ x, float* __restrict__ y, int steps)
{
    strings<true>(x, y, steps);
}

extern "C" __global__ void __launch_bounds__(1024) strings_b(const float* __restrict__ x, float* __restrict__ y, int steps)
{
    strings<false>(x, y, steps);
}
"""


@pair
def strings(blocks: int = SMS, steps: int = 2048) -> Pair:
    x, y, z = numbers(32 * blocks, 32), empty(32 * blocks, 32), empty(32 * blocks, 32)

    def wanted() -> Tensor:
        now = before = x.double()
        for _ in range(steps):
            bend = now.roll(1, 1) + now.roll(-1, 1) - 2 * now
            now, before = 2 * now - before + 0.1 * bend, now
        return now

    a = Version("strings_a", (blocks,), (1024,), (x, y, steps), lambda: y)
    b = Version("strings_b", (blocks,), (1024,), (x, z, steps), lambda: z)
    n = 1024 * blocks
    return Pair(STRINGS, (a, b), wanted, ("fp32", 7 * steps * n, 8 * n), 1e-2)


# A product of complex matrices ----------------------------------------------------------------------------------------

COMPLEX = r"""
__device__ __forceinline__ void add_product(float2& sum, float2 p, float2 q)
{
    sum.x = fmaf(p.x, q.x, fmaf(-p.y, q.y, sum.x));
    sum.y = fmaf(p.x, q.y, fmaf(p.y, q.x, sum.y));
}

// A thread per result, straight from memory
extern "C" __global__ void __launch_bounds__(256)
    complex_a(const float2* __restrict__ x, const float2* __restrict__ w, float2* __restrict__ y, int n)
{
    const int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    float2 sum = make_float2(0.0f, 0.0f);
    for (int k = 0; k < n; ++k)
        add_product(sum, x[row * n + k], w[k * n + col]);
    y[row * n + col] = sum;
}

// Tiles of 64 x 64 in shared memory, 4 x 4 per thread
extern "C" __global__ void __launch_bounds__(256)
    complex_b(const float2* __restrict__ x, const float2* __restrict__ w, float2* __restrict__ y, int n)
{
    __shared__ float2 left[16][65], right[16][64];
    const int t = threadIdx.y * 32 + threadIdx.x, ty = t / 16, tx = t % 16, row = blockIdx.y * 64, col = blockIdx.x * 64;
    float2 sum[4][4] = {};
    for (int first = 0; first < n; first += 16) {
#pragma unroll
        for (int i = t; i < 1024; i += 256) {
            left[i % 16][i / 16] = x[(row + i / 16) * n + first + i % 16];
            right[i / 64][i % 64] = w[(first + i / 64) * n + col + i % 64];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            float2 p[4], q[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                p[e] = left[k][ty + 16 * e];
                q[e] = right[k][tx + 16 * e];
            }
#pragma unroll
            for (int e = 0; e < 4; ++e)
#pragma unroll
                for (int f = 0; f < 4; ++f)
                    add_product(sum[e][f], p[e], q[f]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int e = 0; e < 4; ++e)
#pragma unroll
        for (int f = 0; f < 4; ++f)
            y[(row + ty + 16 * e) * n + col + tx + 16 * f] = sum[e][f];
}
"""


@pair
def complexes(side: int = 1024) -> Pair:
    x, w = numbers(side, side, 2), numbers(side, side, 2, seed=1)
    y, z = empty(side, side, 2), empty(side, side, 2)

    def wanted() -> Tensor:
        p, q = torch.view_as_complex(x.double()), torch.view_as_complex(w.double())
        return torch.view_as_real(p @ q)

    a = Version("complex_a", (side // 32, side // 8), (32, 8), (x, w, y, side), lambda: y)
    b = Version("complex_b", (side // 64, side // 64), (32, 8), (x, w, z, side), lambda: z)
    return Pair(COMPLEX, (a, b), wanted, ("fp32", 8 * side**3, 24 * side * side), 1e-4)


# Wavelets of four widths ----------------------------------------------------------------------------------------------

RICKER = r"""
// Literals without an f
extern "C" __global__ void __launch_bounds__(256) ricker_a(const float* __restrict__ x, float* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    float v = x[i], sum = 0.0f;
#pragma unroll
    for (int width = 0; width < 4; ++width) {
        sum += 0.8673 * (1.0 - v * v) * exp(-0.5 * v * v);
        v *= 2.0f;
    }
    y[i] = sum;
}

extern "C" __global__ void __launch_bounds__(256) ricker_b(const float* __restrict__ x, float* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    float v = x[i], sum = 0.0f;
#pragma unroll
    for (int width = 0; width < 4; ++width) {
        sum += 0.8673f * (1.0f - v * v) * expf(-0.5f * v * v);
        v *= 2.0f;
    }
    y[i] = sum;
}
"""


@pair
def ricker(n: int = 1 << 25) -> Pair:
    x, y, z = 2 * numbers(n), empty(n), empty(n)

    def wanted() -> Tensor:
        squares = [(2**width * x.double()) ** 2 for width in range(4)]
        return sum((0.8673 * (1 - q) * torch.exp(-0.5 * q) for q in squares), torch.zeros_like(squares[0]))

    a = Version("ricker_a", (n // 256,), (256,), (x, y), lambda: y)
    b = Version("ricker_b", (n // 256,), (256,), (x, z), lambda: z)
    return Pair(RICKER, (a, b), wanted, ("fp32", 32 * n, 8 * n), 1e-4)


# A tone of 16 harmonics -----------------------------------------------------------------------------------------------

HARMONICS = r"""
extern "C" __global__ void __launch_bounds__(256) harmonics_a(const float* __restrict__ x, float* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float v = x[i];
    float sum = 0.0f;
#pragma unroll
    for (int k = 1; k <= 16; ++k)
        sum = fmaf(1.0f / k, sinf(k * v), sum);
    y[i] = sum;
}

extern "C" __global__ void __launch_bounds__(256) harmonics_b(const float* __restrict__ x, float* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float v = x[i];
    float sum = 0.0f;
#pragma unroll
    for (int k = 1; k <= 16; ++k)
        sum = fmaf(1.0f / k, __sinf(k * v), sum);
    y[i] = sum;
}
"""


@pair
def harmonics(n: int = 1 << 24) -> Pair:
    x, y, z = 6.2831853 * numbers(n), empty(n), empty(n)

    def wanted() -> Tensor:
        result = torch.zeros_like(x, dtype=torch.float64)
        for k in range(1, 17):
            result += torch.sin(k * x.double()) / k
        return result

    a = Version("harmonics_a", (n // 256,), (256,), (x, y), lambda: y)
    b = Version("harmonics_b", (n // 256,), (256,), (x, z), lambda: z)
    return Pair(HARMONICS, (a, b), wanted, ("fp32", 4 * 16 * n, 8 * n), 1e-3)


# Sums over linked lists of 128 nodes ----------------------------------------------------------------------------------

LISTS = r"""
extern "C" __global__ void __launch_bounds__(1024)
    lists_a(const float* __restrict__ value, const int* __restrict__ next, float* __restrict__ y, int n)
{
    const int i = blockIdx.x * 1024 + threadIdx.x;
    int node = i;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < 128; ++k) {
        sum += value[node];
        node = next[node];
    }
    y[i] = sum;
}

// The nodes of a list are in a table.
extern "C" __global__ void __launch_bounds__(1024)
    lists_b(const float* __restrict__ value, const int* __restrict__ nodes, float* __restrict__ y, int n)
{
    const int i = blockIdx.x * 1024 + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 8
    for (int k = 0; k < 128; ++k)
        sum += value[nodes[k * n + i]];
    y[i] = sum;
}
"""


@pair
def lists(blocks: int = SMS, length: int = 128) -> Pair:
    """The lists of a warp stay side by side, so that loads are coalesced."""
    n = 1024 * blocks
    value, y, z = numbers(length * n) + 0.5, empty(n), empty(n)
    lanes = torch.arange(32, device=DEVICE)
    shuffled = numbers(length, n // 32, seed=1).argsort(1)
    level = torch.arange(1, length + 1, device=DEVICE) % length * n
    after = (level[:, None, None] + 32 * shuffled[:, :, None] + lanes).view(-1)
    nodes = [torch.arange(n, device=DEVICE)]
    for _ in range(length - 1):
        nodes.append(after[nodes[-1]])
    table, after = torch.stack(nodes).int(), after.int()
    a = Version("lists_a", (blocks,), (1024,), (value, after, y, n), lambda: y)
    b = Version("lists_b", (blocks,), (1024,), (value, table, z, n), lambda: z)
    work = ("fp32", length * n, 8 * length * n + 4 * n)
    return Pair(LISTS, (a, b), lambda: value[table.long()].double().sum(0), work, 1e-4)


# Healthy: nothing is planted, and nothing large is to be promised ----------------------------------------------------

HEALTHY = (
    HEAD
    + r"""
// Four times 16 bytes per thread
extern "C" __global__ void __launch_bounds__(256) copied(const uint4* __restrict__ x, uint4* __restrict__ y)
{
    const size_t first = (size_t)blockIdx.x * 1024 + threadIdx.x;
    uint4 v[4];
#pragma unroll
    for (int e = 0; e < 4; ++e)
        v[e] = x[first + 256 * e];
#pragma unroll
    for (int e = 0; e < 4; ++e)
        y[first + 256 * e] = v[e];
}

// A block sums 64 KB.
extern "C" __global__ void __launch_bounds__(512) totalled(const float4* __restrict__ x, float* __restrict__ y)
{
    __shared__ float parts[32];
    const size_t first = (size_t)blockIdx.x * 4096 + threadIdx.x;
    float4 v[8];
#pragma unroll
    for (int e = 0; e < 8; ++e)
        v[e] = x[first + 512 * e];
    float sum = 0.0f;
#pragma unroll
    for (int e = 0; e < 8; ++e)
        sum += add4(v[e]);
    sum = block_sum(sum, parts);
    if (threadIdx.x == 0)
        y[blockIdx.x] = sum;
}

// A polynomial of degree 1024, eight numbers per thread
extern "C" __global__ void __launch_bounds__(256) horner(const float* __restrict__ x, float* __restrict__ y, int degree)
{
    const size_t first = (size_t)blockIdx.x * 2048 + threadIdx.x;
    float v[8], sum[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
        v[e] = x[first + 256 * e];
        sum[e] = 1.0f;
    }
#pragma unroll 8
    for (int k = 0; k < degree; ++k)
#pragma unroll
        for (int e = 0; e < 8; ++e)
            sum[e] = fmaf(sum[e], v[e], 0.5f);
#pragma unroll
    for (int e = 0; e < 8; ++e)
        y[first + 256 * e] = sum[e];
}
"""
)


@pair
def copied(n: int = 1 << 28) -> Pair:
    x, y = whole(256, n, dtype=torch.uint8), empty(n, dtype=torch.uint8)
    only = Version("copied", (n // 16384,), (256,), (x, y), lambda: y)
    return Pair(HEALTHY, (only,), lambda: x, ("int32", 0, 2 * n), 0.0)


@pair
def totalled(n: int = 1 << 27) -> Pair:
    x, y = numbers(n) + 0.5, empty(n // 16384)
    only = Version("totalled", (n // 16384,), (512,), (x, y), lambda: y)
    return Pair(HEALTHY, (only,), lambda: x.double().view(-1, 16384).sum(1), ("fp32", n, 4 * n), 1e-4)


@pair
def vendor(side: int = 8192) -> Pair:
    x, w = numbers(side, side).bfloat16(), numbers(side, side, seed=1).bfloat16()
    only = torch_version("vendor", lambda: x @ w, traced=True)
    work = ("bf16", 2 * side**3, 6 * side * side)
    case = {"op": "gemm", "dtype": "bf16", "m": side, "n": side, "k": side}
    return Pair("", (only,), lambda: x.float() @ w.float(), work, 2e-2, case=case)


@pair
def softrows(rows: int = 1 << 14, cols: int = 4096) -> Pair:
    x, y = 8 * numbers(rows, cols), empty(rows, cols)
    only = triton_version("softrows", (rows,), (x, y, cols), lambda: y, num_warps=8)
    case = {"op": "softmax", "dtype": "fp32", "rows": rows, "cols": cols}
    return Pair("", (only,), lambda: x.softmax(1), ("fp32", 5 * rows * cols, 8 * rows * cols), 1e-4, case=case)


@pair
def horner(n: int = 1 << 23, degree: int = 1024) -> Pair:
    x, y = 0.9 * numbers(n), empty(n)

    def wanted() -> Tensor:
        result = torch.ones_like(x, dtype=torch.float64)
        for _ in range(degree):
            result = result * x + 0.5
        return result

    only = Version("horner", (n // 2048,), (256,), (x, y, degree), lambda: y)
    return Pair(HEALTHY, (only,), wanted, ("fp32", 2 * degree * n, 8 * n), 1e-4)
