"""30 pairs of kernels and 4 healthy ones. truth.csv names the planted causes; `../pairs.py` checks, times and counts them.

The kernels in Triton are in programs.py. Seven pairs are calls of torch, as a user writes them; some of these launch several kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch
from pairs import DEVICE, HEAD, SMS, Pair, Tensor, Version, empty, numbers, pair, whole


def triton_version(
    name: str, grid: tuple[int, ...], values: tuple[Any, ...], result: Callable[[], Tensor], **options: Any
) -> Version:
    """A kernel of programs.py, which is imported when it is launched: cases need no Triton."""
    cleared = options.pop("cleared", None)

    def start() -> None:
        getattr(import_module("held_out_6.programs"), name)[grid](*values, **options)

    return Version(name, (), (), (), result, start=start, cleared=cleared)


# Samples times a gain that another program may change -----------------------------------------------------------------

PUBLISHED = r"""
__device__ __forceinline__ float latest(const float* gain)
{
    float value;
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(value) : "l"(gain));
    return value;
}

extern "C" __global__ void __launch_bounds__(256)
    published_a(const float* __restrict__ x, const float* gain, float* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 1024 + threadIdx.x;
    float v[4];
#pragma unroll
    for (int e = 0; e < 4; ++e)
        v[e] = x[i + 256 * e];
#pragma unroll
    for (int e = 0; e < 4; ++e)
        y[i + 256 * e] = latest(gain) * v[e];
}

// Asked once per block
extern "C" __global__ void __launch_bounds__(256)
    published_b(const float* __restrict__ x, const float* gain, float* __restrict__ y)
{
    __shared__ float by;
    const size_t i = (size_t)blockIdx.x * 1024 + threadIdx.x;
    float v[4];
#pragma unroll
    for (int e = 0; e < 4; ++e)
        v[e] = x[i + 256 * e];
    if (threadIdx.x == 0)
        by = latest(gain);
    __syncthreads();
#pragma unroll
    for (int e = 0; e < 4; ++e)
        y[i + 256 * e] = by * v[e];
}
"""


@pair
def published(n: int = 1 << 25) -> Pair:
    x, gain, y, z = numbers(n), numbers(1, seed=1), empty(n), empty(n)
    a = Version("published_a", (n // 1024,), (256,), (x, gain, y), lambda: y)
    b = Version("published_b", (n // 1024,), (256,), (x, gain, z), lambda: z)
    return Pair(PUBLISHED, (a, b), lambda: gain * x, ("fp32", n, 8 * n))


# A logistic map, twelve per thread ------------------------------------------------------------------------------------

LOGISTIC = r"""
template <int BLOCK>
__device__ __forceinline__ void logistic(const float* x, float* y, int n, int steps)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    float rate[12], v[12];
#pragma unroll
    for (int e = 0; e < 12; ++e) {
        rate[e] = x[e * n + i];
        v[e] = 0.5f;
    }
#pragma unroll 2
    for (int step = 0; step < steps; ++step)
#pragma unroll
        for (int e = 0; e < 12; ++e) {
            const float up = rate[e] * v[e];
            v[e] = fmaf(-up, v[e], up);
        }
#pragma unroll
    for (int e = 0; e < 12; ++e)
        y[e * n + i] = v[e];
}

extern "C" __global__ void __launch_bounds__(1024) logistic_a(const float* __restrict__ x, float* __restrict__ y, int n, int steps)
{
    logistic<1024>(x, y, n, steps);
}

extern "C" __global__ void __launch_bounds__(128) logistic_b(const float* __restrict__ x, float* __restrict__ y, int n, int steps)
{
    logistic<128>(x, y, n, steps);
}
"""


@pair
def logistic(blocks: int = SMS + 6, steps: int = 1024) -> Pair:
    n = 1024 * blocks
    x, y, z = 0.8 * numbers(12, n) + 2.9, empty(12, n), empty(12, n)

    def wanted() -> Tensor:
        v = torch.full_like(x, 0.5, dtype=torch.float64)
        for _ in range(steps):
            v = x * v * (1 - v)
        return v

    a = Version("logistic_a", (blocks,), (1024,), (x, y, n, steps), lambda: y)
    b = Version("logistic_b", (8 * blocks,), (128,), (x, z, n, steps), lambda: z)
    return Pair(LOGISTIC, (a, b), wanted, ("fp32", 36 * steps * n, 96 * n), 1e-2)


# A layer of a network, its positive part, in Triton -------------------------------------------------------------------


@pair
def forward(m: int = 4096, n: int = 4096, depth: int = 4096) -> Pair:
    x, w = numbers(m, depth).bfloat16(), numbers(n, depth, seed=1).bfloat16()
    y, z = empty(m, n), empty(m, n)
    grid = (m // 64 * (n // 128),)
    a = triton_version("forward_a", grid, (x, w, y, m, n, depth, 64, 128, 64), lambda: y, num_warps=2, num_stages=3)
    grid = (m // 128 * (n // 256),)
    b = triton_version("forward_b", grid, (x, w, z, m, n, depth, 128, 256, 64), lambda: z, num_warps=8, num_stages=3)
    work = ("bf16", 2 * m * n * depth, 2 * depth * (m + n) + 4 * m * n)
    return Pair("", (a, b), lambda: (x.float() @ w.float().t()).relu(), work, 1e-2, gemm=(m, n, depth))


# Planes of red, green and blue as one of gray -------------------------------------------------------------------------

GRAY = r"""
__device__ __forceinline__ unsigned gray(unsigned r, unsigned g, unsigned b) { return (77 * r + 150 * g + 29 * b) >> 8; }

extern "C" __global__ void __launch_bounds__(256)
    gray_a(const unsigned char* __restrict__ x, unsigned char* __restrict__ y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = gray(x[i], x[n + i], x[2 * n + i]);
}

__device__ __forceinline__ unsigned gray4(unsigned r, unsigned g, unsigned b)
{
    unsigned result = 0;
#pragma unroll
    for (int k = 0; k < 32; k += 8)
        result |= gray(r >> k & 255, g >> k & 255, b >> k & 255) << k;
    return result;
}

extern "C" __global__ void __launch_bounds__(256) gray_b(const uint4* __restrict__ x, uint4* __restrict__ y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x, plane = n / 16;
    const uint4 r = x[i], g = x[plane + i], b = x[2 * plane + i];
    y[i] = make_uint4(gray4(r.x, g.x, b.x), gray4(r.y, g.y, b.y), gray4(r.z, g.z, b.z), gray4(r.w, g.w, b.w));
}
"""


@pair
def gray(n: int = 1 << 26) -> Pair:
    x = whole(256, 3, n).to(torch.uint8)
    y, z = empty(n, dtype=torch.uint8), empty(n, dtype=torch.uint8)
    a = Version("gray_a", (n // 256,), (256,), (x, y, n), lambda: y)
    b = Version("gray_b", (n // 4096,), (256,), (x, z, n), lambda: z)

    def wanted() -> Tensor:
        return (77 * x[0].int() + 150 * x[1].int() + 29 * x[2].int()) >> 8

    return Pair(GRAY, (a, b), wanted, ("int32", 6 * n, 4 * n), 0.0)


# The dot product of two long vectors ----------------------------------------------------------------------------------

DOTS = (
    HEAD
    + r"""
extern "C" __global__ void __launch_bounds__(1024)
    dots_a(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z, int n)
{
    __shared__ float parts[32];
    float sum = 0.0f;
#pragma unroll 1
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < n; i += gridDim.x * 1024)
        sum = fmaf(x[i], y[i], sum);
    sum = block_sum(sum, parts);
    if (threadIdx.x == 0)
        z[blockIdx.x] = sum;
}

// Four pairs of 16 bytes at a time
extern "C" __global__ void __launch_bounds__(1024)
    dots_b(const float4* __restrict__ x, const float4* __restrict__ y, float* __restrict__ z, int n)
{
    __shared__ float parts[32];
    const int apart = gridDim.x * 1024;
    float sum = 0.0f;
#pragma unroll 1
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < n / 4; i += 4 * apart) {
        float4 p[4], q[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            p[k] = x[i + k * apart];
            q[k] = y[i + k * apart];
        }
#pragma unroll
        for (int k = 0; k < 4; ++k)
            sum += fmaf(p[k].x, q[k].x, p[k].y * q[k].y) + fmaf(p[k].z, q[k].z, p[k].w * q[k].w);
    }
    sum = block_sum(sum, parts);
    if (threadIdx.x == 0)
        z[blockIdx.x] = sum;
}
"""
)


@pair
def dots(blocks: int = SMS, each: int = 256) -> Pair:
    n = 1024 * blocks * each
    x, y, p, q = numbers(n) + 0.5, numbers(n, seed=1) + 0.5, empty(blocks), empty(blocks)
    a = Version("dots_a", (blocks,), (1024,), (x, y, p, n), lambda: p.double().sum())
    b = Version("dots_b", (blocks,), (1024,), (x, y, q, n), lambda: q.double().sum())
    return Pair(DOTS, (a, b), lambda: (x.double() * y).sum(), ("fp32", 2 * n, 8 * n), 1e-4)


# Softmax of rows of 32 ------------------------------------------------------------------------------------------------

PROBS = r"""
// A thread has a row.
extern "C" __global__ void __launch_bounds__(256) probs_a(const float* __restrict__ x, float* __restrict__ y)
{
    const size_t first = ((size_t)blockIdx.x * 256 + threadIdx.x) * 32;
    float high = -3.4e38f, sum = 0.0f;
    for (int k = 0; k < 32; ++k)
        high = fmaxf(high, x[first + k]);
    for (int k = 0; k < 32; ++k)
        sum += __expf(x[first + k] - high);
    sum = 1.0f / sum;
    for (int k = 0; k < 32; ++k)
        y[first + k] = __expf(x[first + k] - high) * sum;
}

// Eight lanes have a row.
extern "C" __global__ void __launch_bounds__(256) probs_b(const float4* __restrict__ x, float4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float4 v = x[i];
    float high = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
#pragma unroll
    for (int lane = 4; lane; lane /= 2)
        high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, lane));
    const float4 e = make_float4(__expf(v.x - high), __expf(v.y - high), __expf(v.z - high), __expf(v.w - high));
    float sum = (e.x + e.y) + (e.z + e.w);
#pragma unroll
    for (int lane = 4; lane; lane /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    sum = 1.0f / sum;
    y[i] = make_float4(e.x * sum, e.y * sum, e.z * sum, e.w * sum);
}
"""


@pair
def probs(rows: int = 1 << 20) -> Pair:
    x, y, z = 8 * numbers(rows, 32), empty(rows, 32), empty(rows, 32)
    a = Version("probs_a", (rows // 256,), (256,), (x, y), lambda: y)
    b = Version("probs_b", (rows // 32,), (256,), (x, z), lambda: z)
    return Pair(PROBS, (a, b), lambda: x.double().softmax(1), ("fp32", 4 * 32 * rows, 8 * 32 * rows), 1e-4)


# A layer of 64 x 64 for many rows -------------------------------------------------------------------------------------

LAYER = r"""
// A block has 32 rows; its threads have an output each of 64, for eight rows.
template <int PITCH>
__device__ __forceinline__ void layer(const float* x, const float* w, float* y)
{
    __shared__ float by[64 * PITCH];
    __shared__ __align__(16) float of[32 * 64];
    const int t = threadIdx.x, to = t % 64, row = t / 64 * 8;
    for (int i = t; i < 4096; i += 256)
        by[i / 64 * PITCH + i % 64] = w[i];
    for (int i = t; i < 2048; i += 256)
        of[i] = x[(size_t)blockIdx.x * 2048 + i];
    __syncthreads();
    float sum[8] = {};
#pragma unroll 2
    for (int k = 0; k < 64; k += 4) {
        float f[4];
#pragma unroll
        for (int e = 0; e < 4; ++e)
            f[e] = *(volatile float*)&by[to * PITCH + k + e];
#pragma unroll
        for (int r = 0; r < 8; ++r) {
            const float4 v = *(const float4*)&of[(row + r) * 64 + k];
            sum[r] = fmaf(f[0], v.x, fmaf(f[1], v.y, fmaf(f[2], v.z, fmaf(f[3], v.w, sum[r]))));
        }
    }
#pragma unroll
    for (int r = 0; r < 8; ++r)
        y[((size_t)blockIdx.x * 32 + row + r) * 64 + to] = sum[r];
}

extern "C" __global__ void __launch_bounds__(256)
    layer_a(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y)
{
    layer<64>(x, w, y);
}

extern "C" __global__ void __launch_bounds__(256)
    layer_b(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y)
{
    layer<65>(x, w, y);
}
"""


@pair
def layer(rows: int = 1 << 18) -> Pair:
    x, w, y, z = numbers(rows, 64), numbers(64, 64, seed=1), empty(rows, 64), empty(rows, 64)
    a = Version("layer_a", (rows // 32,), (256,), (x, w, y), lambda: y)
    b = Version("layer_b", (rows // 32,), (256,), (x, w, z), lambda: z)
    work = ("fp32", 2 * 64 * 64 * rows, 8 * 64 * rows + 4 * 64 * 64)
    return Pair(LAYER, (a, b), lambda: x.double() @ w.double().t(), work, 1e-4)


# Every fourth sample after a filter of 24 taps ------------------------------------------------------------------------

DECIMATE = r"""
// A block has 256 results. The filter begins at sample `first`.
extern "C" __global__ void __launch_bounds__(256)
    decimate_a(const float* __restrict__ x, const float* __restrict__ taps, float* __restrict__ y, int first)
{
    __shared__ float s[1056], h[24];
    const int t = threadIdx.x;
    for (int i = t; i < 1056; i += 256)
        s[i] = x[(size_t)blockIdx.x * 1024 + i];
    if (t < 24)
        h[t] = taps[t];
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 24; ++k)
        sum = fmaf(h[k], s[4 * t + first + k], sum);
    y[blockIdx.x * 256 + t] = sum;
}

// Samples from `first` on, in four rows by their remainder
extern "C" __global__ void __launch_bounds__(256)
    decimate_b(const float* __restrict__ x, const float* __restrict__ taps, float* __restrict__ y, int first)
{
    __shared__ float s[4][264], h[24];
    const int t = threadIdx.x;
    for (int i = t; i < 1048; i += 256)
        s[i % 4][i / 4] = x[(size_t)blockIdx.x * 1024 + first + i];
    if (t < 24)
        h[t] = taps[t];
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 24; ++k)
        sum = fmaf(h[k], s[k % 4][t + k / 4], sum);
    y[blockIdx.x * 256 + t] = sum;
}
"""


@pair
def decimate(results: int = 1 << 24, first: int = 3) -> Pair:
    x, taps, y, z = numbers(4 * results + 32), numbers(24, seed=1), empty(results), empty(results)

    def wanted() -> Tensor:
        total = torch.zeros(results, dtype=torch.float64, device=DEVICE)
        for k in range(24):
            total += taps[k].double() * x[first + k : first + k + 4 * results : 4]
        return total

    a = Version("decimate_a", (results // 256,), (256,), (x, taps, y, first), lambda: y)
    b = Version("decimate_b", (results // 256,), (256,), (x, taps, z, first), lambda: z)
    return Pair(DECIMATE, (a, b), wanted, ("fp32", 48 * results, 20 * results), 1e-4)


# A small state moved by many small steps, calls of torch --------------------------------------------------------------


@pair
def train(n: int = 1 << 14, steps: int = 16) -> Pair:
    h, w, b, y, z = numbers(n), numbers(n, seed=1), numbers(n, seed=2), empty(n), empty(n)

    def start() -> None:
        state = h
        for _ in range(steps):
            state = torch.tanh(torch.addcmul(b, state, w))
        y.set_(state)

    def wanted() -> Tensor:
        state = h.double()
        for _ in range(steps):
            state = (b + state * w).tanh()
        return state

    slow = Version("train_a", (), (), (), lambda: y, start=start, traced=True)
    fast = triton_version("train_b", (n // 128,), (h, w, b, z, steps, 128), lambda: z, num_warps=4)
    return Pair("", (slow, fast), wanted, ("fp32", 4 * steps * n, 16 * n), 1e-4)


# A product of fp32 where TF32 would do, a call of torch ---------------------------------------------------------------


@pair
def dense(side: int = 4096) -> Pair:
    x, w, y, z = numbers(side, side), numbers(side, side, seed=1), empty(side, side), empty(side, side)

    def product(out: Tensor, tf32: bool) -> None:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.mm(x, w, out=out)

    a = Version("dense_a", (), (), (), lambda: y, start=partial(product, y, False), traced=True)
    b = Version("dense_b", (), (), (), lambda: z, start=partial(product, z, True))
    work = ("fp32", 2 * side**3, 12 * side * side)
    return Pair("", (a, b), lambda: x.double() @ w.double(), work, 1e-2, gemm=(side, side, side))


# A product with a transposed matrix, calls of torch -------------------------------------------------------------------


@pair
def turned(side: int = 8192, cols: int = 256) -> Pair:
    x, w = numbers(side, side).bfloat16(), numbers(side, cols, seed=1).bfloat16()
    y, z = empty(side, cols, dtype=torch.bfloat16), empty(side, cols, dtype=torch.bfloat16)
    a = Version("turned_a", (), (), (), lambda: y, start=lambda: torch.mm(x.t().contiguous(), w, out=y), traced=True)
    b = Version("turned_b", (), (), (), lambda: z, start=lambda: torch.mm(x.t(), w, out=z))
    work = ("bf16", 2 * side * side * cols, 2 * side * side + 4 * side * cols)
    return Pair("", (a, b), lambda: x.float().t() @ w.float(), work, 2e-2, tensor=True)


# A convolution of 3 x 3, a call of torch ------------------------------------------------------------------------------


@pair
def pixels(images: int = 64, channels: int = 64, side: int = 112) -> Pair:
    x = numbers(images, channels, side, side).half()
    w = numbers(channels, channels, 3, 3, seed=1).half()
    last = {"memory_format": torch.channels_last}
    u, v = x.contiguous(**last), w.contiguous(**last)
    results: dict[str, Tensor] = {}

    def start(name: str, of: Tensor, by: Tensor) -> None:
        results[name] = torch.nn.functional.conv2d(of, by, padding=1)

    a = Version(
        "pixels_a", (), (), (), lambda: results["pixels_a"], start=partial(start, "pixels_a", x, w), traced=True
    )
    b = Version("pixels_b", (), (), (), lambda: results["pixels_b"], start=partial(start, "pixels_b", u, v))
    size = images * channels * side * side
    work = ("fp16", 2 * size * channels * 9, 4 * size + 2 * 9 * channels * channels)
    return Pair(
        "", (a, b), lambda: torch.nn.functional.conv2d(x.float(), w.float(), padding=1), work, 2e-2, tensor=True
    )


# A gate and a residual, calls of torch --------------------------------------------------------------------------------


@pair
def gate(n: int = 1 << 25) -> Pair:
    x, r, z = numbers(n), numbers(n, seed=1), empty(n)
    results: list[Tensor] = [z]

    def start() -> None:
        results[0] = torch.sigmoid(x * 1.5 + 0.25) * x + r

    a = Version("gate_a", (), (), (), lambda: results[0], start=start, traced=True)
    b = triton_version("gate_b", (n // 1024,), (x, r, z, 1024), lambda: z, num_warps=4)
    wanted = lambda: torch.sigmoid(x.double() * 1.5 + 0.25) * x + r  # noqa: E731
    return Pair("", (a, b), wanted, ("fp32", 7 * n, 12 * n))


# Rows plus a bias -----------------------------------------------------------------------------------------------------

BIASED = r"""
__device__ __forceinline__ float4 sum(float4 p, float4 q) { return make_float4(p.x + q.x, p.y + q.y, p.z + q.z, p.w + q.w); }

// The bias was repeated for every row.
extern "C" __global__ void __launch_bounds__(256)
    biased_a(const float4* __restrict__ x, const float4* __restrict__ bias, float4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 512 + threadIdx.x;
    const float4 p = x[i], q = x[i + 256], r = bias[i], s = bias[i + 256];
    y[i] = sum(p, r);
    y[i + 256] = sum(q, s);
}

// A row has 2048 numbers.
extern "C" __global__ void __launch_bounds__(256)
    biased_b(const float4* __restrict__ x, const float4* __restrict__ bias, float4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 512 + threadIdx.x;
    const float4 p = x[i], q = x[i + 256], r = bias[threadIdx.x], s = bias[threadIdx.x + 256];
    y[i] = sum(p, r);
    y[i + 256] = sum(q, s);
}
"""


@pair
def biased(rows: int = 1 << 14, cols: int = 2048) -> Pair:
    x, bias, y, z = numbers(rows, cols), numbers(cols, seed=1), empty(rows, cols), empty(rows, cols)
    repeated = bias.expand(rows, cols).contiguous()
    a = Version("biased_a", (rows,), (256,), (x, repeated, y), lambda: y)
    b = Version("biased_b", (rows,), (256,), (x, bias, z), lambda: z)
    return Pair(BIASED, (a, b), lambda: x + bias, ("fp32", rows * cols, 8 * rows * cols + 4 * cols))


# A geometric series ---------------------------------------------------------------------------------------------------

SERIES = r"""
__device__ __forceinline__ void series(const float* x, float* y, int n, int terms)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float v[4], sum[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        v[e] = x[(size_t)e * n + i];
        sum[e] = 1.0f;
    }
#pragma unroll 8
    for (int k = 0; k < terms; ++k)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            sum[e] = fmaf(sum[e], v[e], 1.0f);
#pragma unroll
    for (int e = 0; e < 4; ++e)
        y[(size_t)e * n + i] = sum[e];
}

extern "C" __global__ void __launch_bounds__(256) series_a(const float* __restrict__ x, float* __restrict__ y, int n, int terms)
{
    series(x, y, n, terms);
}

extern "C" __global__ void __launch_bounds__(256) series_b(const float* __restrict__ x, float* __restrict__ y, int n, int terms)
{
    series(x, y, n, terms);
}
"""


@pair
def series(n: int = 1 << 23) -> Pair:
    x, y, z = numbers(4, n), empty(4, n), empty(4, n)
    a = Version("series_a", (n // 256,), (256,), (x, y, n, 256), lambda: y)
    b = Version("series_b", (n // 256,), (256,), (x, z, n, 32), lambda: z)
    return Pair(SERIES, (a, b), lambda: 1 / (1 - x.double()), ("fp32", 8 * 32 * n, 32 * n))


# Two matrices and a few vectors, calls of torch -----------------------------------------------------------------------


@pair
def order(side: int = 4096, cols: int = 64) -> Pair:
    p, q = numbers(side, side).bfloat16(), numbers(side, side, seed=1).bfloat16()
    v = numbers(side, cols, seed=2).bfloat16()
    y, z = empty(side, cols, dtype=torch.bfloat16), empty(side, cols, dtype=torch.bfloat16)
    a = Version("order_a", (), (), (), lambda: y, start=lambda: torch.mm(p @ q, v, out=y), traced=True)
    b = Version("order_b", (), (), (), lambda: z, start=lambda: torch.mm(p, q @ v, out=z))
    work = ("bf16", 4 * side * side * cols, 4 * side * side + 4 * side * cols)
    return Pair("", (a, b), lambda: p.float() @ (q.float() @ v.float()), work, 3e-2, tensor=True)


# A bank of 48 filters of one pole -------------------------------------------------------------------------------------

FILTERS = r"""
// x[samples][n]; a thread has a signal.
__device__ __forceinline__ void filters(const float* x, float* y, int n, int samples)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float state[48] = {}, sum = 0.0f;
#pragma unroll 1
    for (int s = 0; s < samples; ++s) {
        const float v = x[(size_t)s * n + i];
#pragma unroll
        for (int k = 0; k < 48; ++k)
            state[k] = fmaf((k + 1) / 64.0f, v - state[k], state[k]);
    }
#pragma unroll
    for (int k = 0; k < 48; ++k)
        sum = fmaf(state[k], state[k], sum);
    y[i] = sum;
}

extern "C" __global__ void __launch_bounds__(256, 8)
    filters_a(const float* __restrict__ x, float* __restrict__ y, int n, int samples)
{
    filters(x, y, n, samples);
}

extern "C" __global__ void __launch_bounds__(256) filters_b(const float* __restrict__ x, float* __restrict__ y, int n, int samples)
{
    filters(x, y, n, samples);
}
"""


@pair
def filters(n: int = 1 << 19, samples: int = 64) -> Pair:
    x, y, z = numbers(samples, n) + 0.5, empty(n), empty(n)

    def wanted() -> Tensor:
        by = (torch.arange(48, device=DEVICE, dtype=torch.float64) + 1)[:, None] / 64
        state = torch.zeros(48, n, dtype=torch.float64, device=DEVICE)
        for s in range(samples):
            state += by * (x[s] - state)
        return state.square().sum(0)

    a = Version("filters_a", (n // 256,), (256,), (x, y, n, samples), lambda: y)
    b = Version("filters_b", (n // 256,), (256,), (x, z, n, samples), lambda: z)
    return Pair(FILTERS, (a, b), wanted, ("fp32", 144 * samples * n, 4 * n * (samples + 1)), 1e-4)


# Values by a curve of 256 points --------------------------------------------------------------------------------------

TINT = r"""
// Room for a curve is given at the launch.
__device__ __forceinline__ void tint(const float* x, const float* points, float* y)
{
    extern __shared__ float curve[];
    const size_t first = (size_t)blockIdx.x * 4096 + threadIdx.x;
    for (int i = threadIdx.x; i < 257; i += 128)
        curve[i] = points[i];
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < 4096; k += 128) {
        const float at = 256.0f * x[first + k];
        const int low = (int)at;
        y[first + k] = fmaf(at - low, curve[low + 1] - curve[low], curve[low]);
    }
}

extern "C" __global__ void __launch_bounds__(128)
    tint_a(const float* __restrict__ x, const float* __restrict__ points, float* __restrict__ y)
{
    tint(x, points, y);
}

extern "C" __global__ void __launch_bounds__(128)
    tint_b(const float* __restrict__ x, const float* __restrict__ points, float* __restrict__ y)
{
    tint(x, points, y);
}
"""


@pair
def tint(n: int = 1 << 25) -> Pair:
    x, points, y, z = (numbers(n) + 0.5).clamp(max=0.999), numbers(257, seed=1), empty(n), empty(n)

    def wanted() -> Tensor:
        at = 256 * x
        low = at.long()
        return points[low] + (at - low) * (points[low + 1] - points[low])

    a = Version("tint_a", (n // 4096,), (128,), (x, points, y), lambda: y, shared=40 * 1024)
    b = Version("tint_b", (n // 4096,), (128,), (x, points, z), lambda: z, shared=4 * 257)
    return Pair(TINT, (a, b), wanted, ("fp32", 5 * n, 8 * n), 1e-4)


# Complex numbers turned by an angle -----------------------------------------------------------------------------------

SPIN = r"""
__device__ __forceinline__ void spin(const float2* x, const float* angle, float2* y, size_t i)
{
    const float2 v = x[i];
    float s, c;
    __sincosf(angle[i], &s, &c);
    y[i] = make_float2(fmaf(v.x, c, -v.y * s), fmaf(v.x, s, v.y * c));
}

extern "C" __global__ void __launch_bounds__(32)
    spin_a(const float2* __restrict__ x, const float* __restrict__ angle, float2* __restrict__ y)
{
    spin(x, angle, y, (size_t)blockIdx.x * 32 + threadIdx.x);
}

extern "C" __global__ void __launch_bounds__(256)
    spin_b(const float2* __restrict__ x, const float* __restrict__ angle, float2* __restrict__ y)
{
    spin(x, angle, y, (size_t)blockIdx.x * 256 + threadIdx.x);
}
"""


@pair
def spin(n: int = 1 << 24) -> Pair:
    x, angle, y, z = numbers(n, 2), 6 * numbers(n, seed=1), empty(n, 2), empty(n, 2)

    def wanted() -> Tensor:
        s, c = angle.double().sin(), angle.double().cos()
        return torch.stack([x[:, 0] * c - x[:, 1] * s, x[:, 0] * s + x[:, 1] * c], 1)

    a = Version("spin_a", (n // 32,), (32,), (x, angle, y), lambda: y)
    b = Version("spin_b", (n // 256,), (256,), (x, angle, z), lambda: z)
    return Pair(SPIN, (a, b), wanted, ("fp32", 8 * n, 20 * n), 1e-4)


# Second and fourth moments of channels --------------------------------------------------------------------------------

PEAKED = (
    HEAD
    + r"""
// A block has `length` numbers, four at a time.
__device__ __forceinline__ void peaked(const float4* x, float2* y, int length)
{
    __shared__ float parts[2][32];
    const float4* const from = x + (size_t)blockIdx.x * (length / 4);
    float second = 0.0f, fourth = 0.0f;
#pragma unroll 4
    for (int i = threadIdx.x; i < length / 4; i += 512) {
        const float4 v = from[i], s = make_float4(v.x * v.x, v.y * v.y, v.z * v.z, v.w * v.w);
        second += add4(s);
        fourth += add4(make_float4(s.x * s.x, s.y * s.y, s.z * s.z, s.w * s.w));
    }
    second = block_sum(second, parts[0]);
    fourth = block_sum(fourth, parts[1]);
    if (threadIdx.x == 0)
        y[blockIdx.x] = make_float2(second, fourth);
}

extern "C" __global__ void __launch_bounds__(512) peaked_a(const float4* __restrict__ x, float2* __restrict__ y, int length)
{
    peaked(x, y, length);
}

extern "C" __global__ void __launch_bounds__(512) peaked_b(const float4* __restrict__ x, float2* __restrict__ y, int length)
{
    peaked(x, y, length);
}
"""
)


@pair
def peaked(channels: int = 40, length: int = 1 << 20, parts: int = 64) -> Pair:
    x, y, z = numbers(channels, length), empty(channels, 2), empty(channels, parts, 2)

    def wanted() -> Tensor:
        square = x.double().square()
        return torch.stack([square.sum(1), square.square().sum(1)], 1)

    a = Version("peaked_a", (channels,), (512,), (x, y, length), lambda: y)
    b = Version("peaked_b", (channels * parts,), (512,), (x, z, length // parts), lambda: z.sum(1))
    work = ("fp32", 4 * channels * length, 4 * channels * length + 8 * channels)
    return Pair(PEAKED, (a, b), wanted, work, 1e-4)


# Two kinds of cells side by side, like the squares of a chess board ---------------------------------------------------

CHESS = r"""
__device__ __forceinline__ float black(float v, int steps)
{
#pragma unroll 4
    for (int k = 0; k < steps; ++k)
        v = fmaf(v, fmaf(v, 0.5f, 0.25f), 0.125f);
    return v;
}

__device__ __forceinline__ float white(float v, int steps)
{
#pragma unroll 4
    for (int k = 0; k < steps; ++k)
        v = fmaf(-v * v, 0.75f, 0.5f * v + 0.375f);
    return v;
}

extern "C" __global__ void __launch_bounds__(256) chess_a(const float* __restrict__ x, float* __restrict__ y, int steps)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float v = x[i];
    if (i % 2 == 0)
        y[i] = black(v, steps);
    else
        y[i] = white(v, steps);
}

// A warp has cells of one kind.
extern "C" __global__ void __launch_bounds__(256) chess_b(const float* __restrict__ x, float* __restrict__ y, int steps)
{
    const int i = blockIdx.x * 256 + threadIdx.x % 128 * 2 + threadIdx.x / 128;
    const float v = x[i];
    if (i % 2 == 0)
        y[i] = black(v, steps);
    else
        y[i] = white(v, steps);
}
"""


@pair
def chess(n: int = 1 << 23, steps: int = 128) -> Pair:
    x, y, z = numbers(n), empty(n), empty(n)

    def wanted() -> Tensor:
        v = x.double().view(-1, 2)
        black, white = v[:, 0], v[:, 1]
        for _ in range(steps):
            black = black * (0.5 * black + 0.25) + 0.125
            white = -0.75 * white * white + 0.5 * white + 0.375
        return torch.stack([black, white], 1).view(-1)

    a = Version("chess_a", (n // 256,), (256,), (x, y, steps), lambda: y)
    b = Version("chess_b", (n // 256,), (256,), (x, z, steps), lambda: z)
    return Pair(CHESS, (a, b), wanted, ("fp32", 5 * steps * n, 8 * n), 1e-4)


# How many letters to change to turn one word of 128 into another ------------------------------------------------------

EDITS = r"""
// A block has a pair of words and goes along the diagonals of the table; a thread has a column.
extern "C" __global__ void __launch_bounds__(128)
    edits_a(const unsigned char* __restrict__ first, const unsigned char* __restrict__ second, int* __restrict__ y)
{
    __shared__ unsigned char word[128];
    __shared__ int last[2][128];
    const int t = threadIdx.x, letter = second[blockIdx.x * 128 + t];
    word[t] = first[blockIdx.x * 128 + t];
    __syncthreads();
    int above = t + 1, corner = t;
    for (int step = 0; step < 255; ++step) {
        const int row = step - t;
        if (row >= 0 && row < 128) {
            const int left = t ? last[(step + 1) % 2][t - 1] : row + 1;
            const int other = corner + (word[row] != letter);
            above = min(min(above, left) + 1, other);
            corner = left;
            last[step % 2][t] = above;
        }
        __syncthreads();
    }
    if (t == 127)
        y[blockIdx.x] = above;
}

// A warp has a pair of words, a lane four columns.
extern "C" __global__ void __launch_bounds__(128)
    edits_b(const unsigned char* __restrict__ first, const unsigned* __restrict__ second, int* __restrict__ y)
{
    __shared__ unsigned char words[4][128];
    const int lane = threadIdx.x % 32, mine = threadIdx.x / 32, at = blockIdx.x * 4 + mine;
    for (int i = lane; i < 128; i += 32)
        words[mine][i] = first[at * 128 + i];
    const unsigned letters = second[at * 32 + lane];
    __syncwarp();
    int above[4] = {4 * lane + 1, 4 * lane + 2, 4 * lane + 3, 4 * lane + 4}, corner = 4 * lane;
    for (int step = 0; step < 159; ++step) {
        const int row = step - lane, before = __shfl_up_sync(0xffffffffu, above[3], 1);
        if (row >= 0 && row < 128) {
            const unsigned letter = words[mine][row];
            int left = lane ? before : row + 1, old = corner;
            corner = left;
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int other = old + (letter != (letters >> (8 * e) & 255));
                old = above[e];
                above[e] = min(min(above[e], left) + 1, other);
                left = above[e];
            }
        }
    }
    if (lane == 31)
        y[at] = above[3];
}
"""


@pair
def edits(words: int = 1 << 14) -> Pair:
    first, second = (whole(4, words, 128, seed=seed).to(torch.uint8) for seed in (0, 1))
    y, z = empty(words, dtype=torch.int32), empty(words, dtype=torch.int32)

    def wanted() -> Tensor:
        place = torch.arange(129, device=DEVICE, dtype=torch.int32)
        table = place.expand(words, 129)
        for row in range(128):
            near = torch.minimum(table[:, 1:] + 1, table[:, :-1] + (second != first[:, row, None]).int())
            near = torch.cat([torch.full_like(near[:, :1], row + 1), near], 1)
            table = (near - place).cummin(1).values + place
        return table[:, -1]

    a = Version("edits_a", (words,), (128,), (first, second, y), lambda: y)
    b = Version("edits_b", (words // 4,), (128,), (first, second, z), lambda: z)
    return Pair(EDITS, (a, b), wanted, ("int32", 5 * 128 * 128 * words, 260 * words), 0.0)


# How well two views of a scene match, for 64 shifts -------------------------------------------------------------------

STEREO = r"""
// p[channels][high][wide], q[channels][high][wide + 64], y[high][64][wide]: the sum over channels of p at x and q at x + 63 - shift
extern "C" __global__ void __launch_bounds__(256)
    stereo_a(const float* __restrict__ p, const float* __restrict__ q, float* __restrict__ y, int wide, int channels)
{
    const int x = blockIdx.x * 256 + threadIdx.x, shift = blockIdx.y, row = blockIdx.z, high = gridDim.z;
    float sum = 0.0f;
#pragma unroll 4
    for (int c = 0; c < channels; ++c) {
        const size_t line = (size_t)c * high + row;
        sum = fmaf(p[line * wide + x], q[line * (wide + 64) + x + 63 - shift], sum);
    }
    y[((size_t)row * 64 + shift) * wide + x] = sum;
}

// A block has 128 places and all shifts, a thread four places and eight shifts.
extern "C" __global__ void __launch_bounds__(256)
    stereo_b(const float* __restrict__ p, const float* __restrict__ q, float* __restrict__ y, int wide, int channels)
{
    __shared__ __align__(16) float left[8][128], right[8][192];
    const int t = threadIdx.x, tx = t % 32 * 4, ty = t / 32 * 8, x = blockIdx.x * 128, row = blockIdx.y, high = gridDim.y;
    float sum[8][4] = {};
    for (int c = 0; c < channels; c += 8) {
        for (int i = t; i < 8 * 128; i += 256)
            left[i / 128][i % 128] = p[((size_t)(c + i / 128) * high + row) * wide + x + i % 128];
        for (int i = t; i < 8 * 192; i += 256)
            right[i / 192][i % 192] = q[((size_t)(c + i / 192) * high + row) * (wide + 64) + x + i % 192];
        __syncthreads();
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            const float4 v = *(const float4*)&left[e][tx];
            const float of[4] = {v.x, v.y, v.z, v.w};
            float by[12];
#pragma unroll
            for (int k = 0; k < 3; ++k) {
                const float4 w = *(const float4*)&right[e][tx - ty + 56 + 4 * k];
                by[4 * k] = w.x;
                by[4 * k + 1] = w.y;
                by[4 * k + 2] = w.z;
                by[4 * k + 3] = w.w;
            }
#pragma unroll
            for (int shift = 0; shift < 8; ++shift)
#pragma unroll
                for (int k = 0; k < 4; ++k)
                    sum[shift][k] = fmaf(of[k], by[k + 7 - shift], sum[shift][k]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int shift = 0; shift < 8; ++shift)
        *(float4*)(y + ((size_t)row * 64 + ty + shift) * wide + x + tx) =
            make_float4(sum[shift][0], sum[shift][1], sum[shift][2], sum[shift][3]);
}
"""


@pair
def stereo(high: int = 128, wide: int = 1024, channels: int = 128) -> Pair:
    p, q = numbers(channels, high, wide), numbers(channels, high, wide + 64, seed=1)
    y, z = empty(high, 64, wide), empty(high, 64, wide)

    def wanted() -> Tensor:
        shifted = [(p * q[:, :, 63 - shift : 63 - shift + wide]).sum(0) for shift in range(64)]
        return torch.stack(shifted, 1)

    a = Version("stereo_a", (wide // 256, 64, high), (256,), (p, q, y, wide, channels), lambda: y)
    b = Version("stereo_b", (wide // 128, high), (256,), (p, q, z, wide, channels), lambda: z)
    size = 4 * high * (channels * (2 * wide + 64) + 64 * wide)
    return Pair(STEREO, (a, b), wanted, ("fp32", 2 * 64 * channels * high * wide, size), 1e-4)


# How similar tokens are: products of halves ---------------------------------------------------------------------------

SIMILAR = r"""
__device__ __forceinline__ unsigned fma2(unsigned p, unsigned q, unsigned sum)
{
    asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(p), "r"(q));
    return sum;
}

__device__ __forceinline__ float both(unsigned v)
{
    float low, high;
    asm("{ .reg .f16 p, q; mov.b32 {p, q}, %2; cvt.f32.f16 %0, p; cvt.f32.f16 %1, q; }" : "=f"(low), "=f"(high) : "r"(v));
    return low + high;
}

// x[m][depth], w[n][depth], y[m][n]: 64 x 64 by 256 threads, 4 x 4 each; two halves per multiply-add, 16 products summed as halves
extern "C" __global__ void __launch_bounds__(256)
    similar_a(const unsigned* __restrict__ x, const unsigned* __restrict__ w, float* __restrict__ y, int n, int depth)
{
    __shared__ __align__(16) unsigned left[8][68], right[8][68];
    const int t = threadIdx.x, tx = t % 16 * 4, ty = t / 16 * 4, i = blockIdx.y * 64, j = blockIdx.x * 64, pitch = depth / 2;
    float total[4][4] = {};
    for (int k = 0; k < pitch; k += 8) {
#pragma unroll
        for (int half = 0; half < 64; half += 32) {
            left[t % 8][t / 8 + half] = x[(size_t)(i + t / 8 + half) * pitch + k + t % 8];
            right[t % 8][t / 8 + half] = w[(size_t)(j + t / 8 + half) * pitch + k + t % 8];
        }
        __syncthreads();
        unsigned sum[4][4] = {};
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            const uint4 a = *(const uint4*)&left[e][ty], b = *(const uint4*)&right[e][tx];
            const unsigned rows[4] = {a.x, a.y, a.z, a.w}, cols[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
            for (int r = 0; r < 4; ++r)
#pragma unroll
                for (int c = 0; c < 4; ++c)
                    sum[r][c] = fma2(rows[r], cols[c], sum[r][c]);
        }
#pragma unroll
        for (int r = 0; r < 4; ++r)
#pragma unroll
            for (int c = 0; c < 4; ++c)
                total[r][c] += both(sum[r][c]);
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 4; ++r)
        *(float4*)(y + (size_t)(i + ty + r) * n + j + tx) =
            make_float4(fmaxf(total[r][0], 0.0f), fmaxf(total[r][1], 0.0f), fmaxf(total[r][2], 0.0f), fmaxf(total[r][3], 0.0f));
}
"""


@pair
def similar(m: int = 4096, n: int = 4096, depth: int = 512) -> Pair:
    x, w = numbers(m, depth).half(), numbers(n, depth, seed=1).half()
    y, z = empty(m, n), empty(m, n)
    a = Version("similar_a", (n // 64, m // 64), (256,), (x, w, y, n, depth), lambda: y)
    grid = (m // 128 * (n // 128),)
    b = triton_version("similar_b", grid, (x, w, z, m, n, depth, 128, 128, 64), lambda: z, num_warps=8, num_stages=3)
    work = ("fp16", 2 * m * n * depth, 2 * depth * (m + n) + 4 * m * n)
    return Pair(SIMILAR, (a, b), lambda: (x.float() @ w.float().t()).relu(), work, 2e-2, gemm=(m, n, depth))


# A smooth positive part -----------------------------------------------------------------------------------------------

SOFTPLUS = r"""
__device__ __forceinline__ float wide(float v) { return log(1.0 + exp((double)v)); }
__device__ __forceinline__ float plain(float v) { return logf(1.0f + expf(v)); }

extern "C" __global__ void __launch_bounds__(256) softplus_a(const float4* __restrict__ x, float4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float4 v = x[i];
    y[i] = make_float4(wide(v.x), wide(v.y), wide(v.z), wide(v.w));
}

extern "C" __global__ void __launch_bounds__(256) softplus_b(const float4* __restrict__ x, float4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float4 v = x[i];
    y[i] = make_float4(plain(v.x), plain(v.y), plain(v.z), plain(v.w));
}
"""


@pair
def softplus(n: int = 1 << 24) -> Pair:
    x, y, z = 8 * numbers(n), empty(n), empty(n)
    a = Version("softplus_a", (n // 1024,), (256,), (x, y), lambda: y)
    b = Version("softplus_b", (n // 1024,), (256,), (x, z), lambda: z)
    return Pair(SOFTPLUS, (a, b), lambda: x.double().exp().log1p(), ("fp32", 3 * n, 8 * n), 1e-4)


# A curve of film: a sum of four powers --------------------------------------------------------------------------------

FILMIC = r"""
extern "C" __global__ void __launch_bounds__(256) filmic_a(const float4* __restrict__ x, float4* __restrict__ y, float power)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float4 v = x[i];
    const float of[4] = {v.x, v.y, v.z, v.w};
    float sum[4] = {};
#pragma unroll
    for (int k = 1; k <= 4; ++k)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            sum[e] += powf(of[e], power * k);
    y[i] = make_float4(sum[0], sum[1], sum[2], sum[3]);
}

extern "C" __global__ void __launch_bounds__(256) filmic_b(const float4* __restrict__ x, float4* __restrict__ y, float power)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float4 v = x[i];
    const float of[4] = {v.x, v.y, v.z, v.w};
    float sum[4] = {};
#pragma unroll
    for (int k = 1; k <= 4; ++k)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            sum[e] += __powf(of[e], power * k);
    y[i] = make_float4(sum[0], sum[1], sum[2], sum[3]);
}
"""


@pair
def filmic(n: int = 1 << 24) -> Pair:
    x, y, z = numbers(n) + 0.6, empty(n), empty(n)

    def wanted() -> Tensor:
        wide = x.double()
        return sum((wide ** (0.45 * k) for k in range(1, 5)), torch.zeros_like(wide))

    a = Version("filmic_a", (n // 1024,), (256,), (x, y, 0.45), lambda: y)
    b = Version("filmic_b", (n // 1024,), (256,), (x, z, 0.45), lambda: z)
    return Pair(FILMIC, (a, b), wanted, ("fp32", 12 * n, 8 * n), 1e-4)


# The place of numbers in a tree of 32 keys per node --------------------------------------------------------------------

LOOKUP = r"""
// A level has 32 times the keys of the one before and follows it; a warp has a query at a time.
extern "C" __global__ void __launch_bounds__(1024)
    lookup_a(const float* __restrict__ tree, const float* __restrict__ x, int* __restrict__ y, int times, int levels)
{
    const int warps = gridDim.x * 32, warp = blockIdx.x * 32 + threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll 1
    for (int k = 0; k < times; ++k) {
        const float of = x[k * warps + warp];
        int at = 0, first = 0, size = 32;
#pragma unroll 1
        for (int level = 0; level < levels; ++level) {
            const int below = __popc(__ballot_sync(0xffffffffu, tree[first + 32 * at + lane] <= of));
            at = 32 * at + max(below - 1, 0);
            first += size;
            size *= 32;
        }
        if (lane == 0)
            y[k * warps + warp] = at;
    }
}

// Eight queries side by side
extern "C" __global__ void __launch_bounds__(1024)
    lookup_b(const float* __restrict__ tree, const float* __restrict__ x, int* __restrict__ y, int times, int levels)
{
    const int warps = gridDim.x * 32, warp = blockIdx.x * 32 + threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll 1
    for (int k = 0; k < times; k += 8) {
        float of[8], key[8];
        int at[8] = {}, first = 0, size = 32;
#pragma unroll
        for (int e = 0; e < 8; ++e)
            of[e] = x[(k + e) * warps + warp];
#pragma unroll 1
        for (int level = 0; level < levels; ++level) {
#pragma unroll
            for (int e = 0; e < 8; ++e)
                key[e] = tree[first + 32 * at[e] + lane];
#pragma unroll
            for (int e = 0; e < 8; ++e)
                at[e] = 32 * at[e] + max(__popc(__ballot_sync(0xffffffffu, key[e] <= of[e])) - 1, 0);
            first += size;
            size *= 32;
        }
        if (lane == 0)
#pragma unroll
            for (int e = 0; e < 8; ++e)
                y[(k + e) * warps + warp] = at[e];
    }
}
"""


@pair
def lookup(levels: int = 5, blocks: int = SMS, times: int = 64) -> Pair:
    n, size = 32 * blocks * times, 32**levels
    keys, x = numbers(size).sort().values, numbers(n, seed=1)
    tree = torch.cat([keys[:: 32**level] for level in reversed(range(levels))])
    y, z = empty(n, dtype=torch.int32), empty(n, dtype=torch.int32)

    def wanted() -> Tensor:
        return (torch.searchsorted(keys, x, right=True) - 1).clamp(min=0)

    a = Version("lookup_a", (blocks,), (1024,), (tree, x, y, times, levels), lambda: y)
    b = Version("lookup_b", (blocks,), (1024,), (tree, x, z, times, levels), lambda: z)
    return Pair(LOOKUP, (a, b), wanted, ("fp32", 32 * levels * n, (8 + 128 * levels) * n), 0.0)


# A triangular matrix times a vector -----------------------------------------------------------------------------------

TRIANGLE = (
    HEAD
    + r"""
// A warp has a row.
__device__ __forceinline__ void row(const float* x, const float* v, float* y, int n, int i)
{
    const float* const from = x + (size_t)i * n;
    float sum = 0.0f;
#pragma unroll 8
    for (int j = threadIdx.x % 32; j <= i; j += 32)
        sum = fmaf(from[j], v[j], sum);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        y[i] = sum;
}

// Blocks have adjacent rows.
extern "C" __global__ void __launch_bounds__(1024)
    triangle_a(const float* __restrict__ x, const float* __restrict__ v, float* __restrict__ y, int n)
{
    const int rows = n / gridDim.x;
    for (int k = threadIdx.x / 32; k < rows; k += 32)
        row(x, v, y, n, blockIdx.x * rows + k);
}

// Blocks have rows from all parts.
extern "C" __global__ void __launch_bounds__(1024)
    triangle_b(const float* __restrict__ x, const float* __restrict__ v, float* __restrict__ y, int n)
{
    const int rows = n / gridDim.x;
    for (int k = threadIdx.x / 32; k < rows; k += 32)
        row(x, v, y, n, k * gridDim.x + blockIdx.x);
}
"""
)


@pair
def triangle(blocks: int = SMS, rows: int = 128) -> Pair:
    n = blocks * rows
    x, v, y, z = numbers(n, n), numbers(n, seed=1), empty(n), empty(n)
    a = Version("triangle_a", (blocks,), (1024,), (x, v, y, n), lambda: y)
    b = Version("triangle_b", (blocks,), (1024,), (x, v, z, n), lambda: z)
    work = ("fp32", n * (n + 1), 2 * n * (n + 1) + 8 * n)
    return Pair(TRIANGLE, (a, b), lambda: x.tril().double() @ v.double(), work, 1e-4)


# The gradient of a scale: sums over rows, in Triton -------------------------------------------------------------------


@pair
def gradient(rows: int = 1 << 15, cols: int = 1024, each: int = 64) -> Pair:
    g, x, y, z = numbers(rows, cols), numbers(rows, cols, seed=1), empty(cols), empty(cols)
    a = triton_version("gradient_a", (rows,), (g, x, y, cols), lambda: y, num_warps=4, cleared=y)
    b = triton_version("gradient_b", (rows // each,), (g, x, z, each, cols), lambda: z, num_warps=4, cleared=z)
    work = ("fp32", 2 * rows * cols, 8 * rows * cols + 4 * cols)
    return Pair("", (a, b), lambda: (g.double() * x).sum(0), work, 1e-3)


# Rows that all go to one row of a table, a call of torch --------------------------------------------------------------


@pair
def collected(n: int = 1 << 18, cols: int = 64) -> Pair:
    x, y, z = numbers(n, cols), empty(16, cols), empty(16, cols)
    index = torch.full((n,), 3, device=DEVICE)

    def wanted() -> Tensor:
        return torch.zeros(16, cols, dtype=torch.float64, device=DEVICE).index_add_(
            0, index[:1], x.double().sum(0)[None]
        )

    a = Version("collected_a", (), (), (), lambda: y, cleared=y, start=lambda: y.index_add_(0, index, x), traced=True)
    b = Version("collected_b", (), (), (), lambda: z, cleared=z, start=lambda: torch.sum(x, 0, out=z[3]))
    return Pair("", (a, b), wanted, ("fp32", n * cols, 4 * n * cols + 4 * cols), 1e-3)


# Healthy: nothing is planted, and nothing large is to be promised ----------------------------------------------------

HEALTHY = r"""
__device__ __forceinline__ float2 moved(float p, float g, float m)
{
    const float way = fmaf(0.9f, m, 0.1f * g);
    return make_float2(p - copysignf(1e-3f, way), fmaf(0.99f, m, 0.01f * g));
}

// A step of an optimizer along signs, 16 bytes per load
extern "C" __global__ void __launch_bounds__(256)
    signs(const float4* __restrict__ p, const float4* __restrict__ g, const float4* __restrict__ m, float4* __restrict__ to, float4* __restrict__ mean)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float4 v = p[i], s = g[i], a = m[i];
    const float2 x = moved(v.x, s.x, a.x), y = moved(v.y, s.y, a.y), z = moved(v.z, s.z, a.z), w = moved(v.w, s.w, a.w);
    to[i] = make_float4(x.x, y.x, z.x, w.x);
    mean[i] = make_float4(x.y, y.y, z.y, w.y);
}

// A map of the plane, eight points per thread, over and over
extern "C" __global__ void __launch_bounds__(256) plane(const float* __restrict__ x, float* __restrict__ y, int n, int times)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float u[8], v[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) {
        u[e] = x[(size_t)e * n + i];
        v[e] = 0.0f;
    }
#pragma unroll 4
    for (int k = 0; k < times; ++k)
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            const float next = fmaf(-0.2f * u[e], u[e], v[e]);
            v[e] = fmaf(0.3f, u[e], 0.1f);
            u[e] = next;
        }
#pragma unroll
    for (int e = 0; e < 8; ++e)
        y[(size_t)e * n + i] = u[e];
}
"""


@pair
def signs(n: int = 1 << 25) -> Pair:
    p, g, m, to, mean = numbers(n), numbers(n, seed=1), numbers(n, seed=2), empty(n), empty(n)

    def wanted() -> Tensor:
        return torch.stack([p - 1e-3 * (0.9 * m + 0.1 * g).sign(), 0.99 * m + 0.01 * g])

    only = Version("signs", (n // 1024,), (256,), (p, g, m, to, mean), lambda: torch.stack([to, mean]))
    return Pair(HEALTHY, (only,), wanted, ("fp32", 7 * n, 20 * n), 5e-3)


@pair
def plane(n: int = 1 << 20, times: int = 512) -> Pair:
    x, y = numbers(8, n), empty(8, n)

    def wanted() -> Tensor:
        u, v = x.double(), torch.zeros_like(x, dtype=torch.float64)
        for _ in range(times):
            u, v = v - 0.2 * u * u, 0.3 * u + 0.1
        return u

    only = Version("plane", (n // 256,), (256,), (x, y, n, times), lambda: y)
    return Pair(HEALTHY, (only,), wanted, ("fp32", 8 * 5 * times * n, 64 * n), 1e-4)


@pair
def swiglu(n: int = 1 << 26) -> Pair:
    x, g, y = numbers(n).bfloat16(), numbers(n, seed=1).bfloat16(), empty(n, dtype=torch.bfloat16)
    only = triton_version("swiglu", (n // 2048,), (x, g, y, 2048), lambda: y, num_warps=4)
    wanted = lambda: torch.nn.functional.silu(g.float()) * x.float()  # noqa: E731
    return Pair("", (only,), wanted, ("bf16", 6 * n, 6 * n), 1e-2)


@pair
def summed(rows: int = 1 << 14, cols: int = 4096) -> Pair:
    x, y = numbers(rows, cols), empty(rows)
    only = Version("summed", (), (), (), lambda: y, start=lambda: torch.sum(x, 1, out=y), traced=True)
    return Pair("", (only,), lambda: x.double().sum(1), ("fp32", rows * cols, 4 * rows * (cols + 1)), 1e-4)
