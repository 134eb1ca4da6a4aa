"""26 pairs of kernels and 3 healthy ones. truth.csv names the planted causes; `../pairs.py` checks, times and counts them."""

from __future__ import annotations

import torch
from pairs import DEVICE, HEAD, SMS, Pair, Tensor, Version, empty, numbers, pair, whole

# The square of the norm of a gradient ---------------------------------------------------------------------------------

NORM = (
    HEAD
    + r"""
__device__ __forceinline__ float square4(float4 v) { return fmaf(v.x, v.x, v.y * v.y) + fmaf(v.z, v.z, v.w * v.w); }

extern "C" __global__ void __launch_bounds__(256) norm_a(const float4* __restrict__ x, float* total)
{
    const size_t i = (size_t)blockIdx.x * 1024 + threadIdx.x;
    float4 v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
        v[j] = x[i + 256 * j];
    atomicAdd(total, (square4(v[0]) + square4(v[1])) + (square4(v[2]) + square4(v[3])));
}

extern "C" __global__ void __launch_bounds__(256) norm_b(const float4* __restrict__ x, float* total, int n)
{
    __shared__ float parts[32];
    float sum = 0.0f;
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < n; i += gridDim.x * 1024) {
        float4 v[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
            v[j] = x[i + 256 * j];
        sum += (square4(v[0]) + square4(v[1])) + (square4(v[2]) + square4(v[3]));
    }
    sum = block_sum(sum, parts);
    if (threadIdx.x == 0)
        atomicAdd(total, sum);
}
"""
)


@pair
def norm(n: int = 1 << 25) -> Pair:
    x, y, z = numbers(n), empty(1), empty(1)
    a = Version("norm_a", (n // 4096,), (256,), (x, y), lambda: y, cleared=y)
    b = Version("norm_b", (8 * SMS,), (256,), (x, z, n // 4), lambda: z, cleared=z)
    return Pair(NORM, (a, b), lambda: x.double().square().sum()[None], ("fp32", 2 * n, 4 * n), 1e-3)


# The loudness of windows of 1024 samples ------------------------------------------------------------------------------

LOUD = (
    HEAD
    + r"""
extern "C" __global__ void __launch_bounds__(256) loud_a(const float4* __restrict__ x, float* __restrict__ y)
{
    __shared__ float sum;
    const float4 v = x[(size_t)blockIdx.x * 256 + threadIdx.x];
    if (threadIdx.x == 0)
        sum = 0.0f;
    __syncthreads();
    atomicAdd(&sum, fmaf(v.x, v.x, v.y * v.y) + fmaf(v.z, v.z, v.w * v.w));
    __syncthreads();
    if (threadIdx.x == 0)
        y[blockIdx.x] = sum / 1024.0f;
}

extern "C" __global__ void __launch_bounds__(256) loud_b(const float4* __restrict__ x, float* __restrict__ y)
{
    __shared__ float parts[32];
    const float4 v = x[(size_t)blockIdx.x * 256 + threadIdx.x];
    const float sum = block_sum(fmaf(v.x, v.x, v.y * v.y) + fmaf(v.z, v.z, v.w * v.w), parts);
    if (threadIdx.x == 0)
        y[blockIdx.x] = sum / 1024.0f;
}
"""
)


@pair
def loud(windows: int = 1 << 16) -> Pair:
    x, y, z = numbers(windows, 1024), empty(windows), empty(windows)
    a = Version("loud_a", (windows,), (256,), (x, y), lambda: y)
    b = Version("loud_b", (windows,), (256,), (x, z), lambda: z)
    work = ("fp32", 2 * 1024 * windows, 4 * 1025 * windows)
    return Pair(LOUD, (a, b), lambda: x.double().square().mean(1), work, 1e-4)


# Numbers above a limit, counted by thread until somebody asks to stop -------------------------------------------------

HUNT = r"""
template <bool ALWAYS>
__device__ __forceinline__ void hunt(const float* x, int* y, const int* stop, float limit)
{
    const size_t i = (size_t)blockIdx.x * 2048 + threadIdx.x;
    const bool stopped = !ALWAYS && *stop;
    int hits = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        const float value = x[i + 256 * j];
        const bool off = ALWAYS ? *(const volatile int*)stop : stopped;
        hits += value > limit && !off;
    }
    y[blockIdx.x * 256 + threadIdx.x] = hits;
}

// The flag is looked at before every number.
extern "C" __global__ void __launch_bounds__(256)
    hunt_a(const float* __restrict__ x, int* __restrict__ y, const int* stop, float limit)
{
    hunt<true>(x, y, stop, limit);
}

extern "C" __global__ void __launch_bounds__(256)
    hunt_b(const float* __restrict__ x, int* __restrict__ y, const int* stop, float limit)
{
    hunt<false>(x, y, stop, limit);
}
"""


@pair
def hunt(n: int = 1 << 26) -> Pair:
    x, stop = numbers(n), empty(1, dtype=torch.int32)
    y, z = empty(n // 8, dtype=torch.int32), empty(n // 8, dtype=torch.int32)

    def wanted() -> Tensor:
        return (x.view(-1, 8, 256) > 0.25).sum(1).flatten()

    a = Version("hunt_a", (n // 2048,), (256,), (x, y, stop, 0.25), lambda: y)
    b = Version("hunt_b", (n // 2048,), (256,), (x, z, stop, 0.25), lambda: z)
    return Pair(HUNT, (a, b), wanted, ("fp32", n, 4 * n + n // 2), 0.0)


# Swings with a hard spring, 16 per thread --------------------------------------------------------------------------

SWING = r"""
template <int BLOCK>
__device__ __forceinline__ void swing(const float* x, float* y, int n, int steps, float by)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    float at[16], speed[16];
#pragma unroll
    for (int e = 0; e < 16; ++e) {
        at[e] = x[e * n + i];
        speed[e] = 0.0f;
    }
#pragma unroll 2
    for (int step = 0; step < steps; ++step)
#pragma unroll
        for (int e = 0; e < 16; ++e) {
            const float pull = fmaf(at[e], at[e], 1.0f) * at[e];
            speed[e] = fmaf(-by, pull, speed[e]);
            at[e] = fmaf(by, speed[e], at[e]);
        }
#pragma unroll
    for (int e = 0; e < 16; ++e)
        y[e * n + i] = at[e];
}

extern "C" __global__ void __launch_bounds__(1024)
    swing_a(const float* __restrict__ x, float* __restrict__ y, int n, int steps, float by)
{
    swing<1024>(x, y, n, steps, by);
}

extern "C" __global__ void __launch_bounds__(128)
    swing_b(const float* __restrict__ x, float* __restrict__ y, int n, int steps, float by)
{
    swing<128>(x, y, n, steps, by);
}
"""


@pair
def swing(blocks: int = SMS + 10, steps: int = 512, by: float = 0.0078125) -> Pair:
    n = 1024 * blocks
    x, y, z = numbers(16, n), empty(16, n), empty(16, n)

    def wanted() -> Tensor:
        at, speed = x.double(), torch.zeros(16, n, dtype=torch.float64, device=DEVICE)
        for _ in range(steps):
            speed = speed - by * (at * at + 1) * at
            at = at + by * speed
        return at

    a = Version("swing_a", (blocks,), (1024,), (x, y, n, steps, by), lambda: y)
    b = Version("swing_b", (8 * blocks,), (128,), (x, z, n, steps, by), lambda: z)
    return Pair(SWING, (a, b), wanted, ("fp32", 112 * steps * n, 128 * n), 1e-3)


# A convolution of one pixel: 256 channels of halves to 256 channels of fp32 -------------------------------------------

POINTWISE = r"""
__device__ __forceinline__ float low_half(unsigned word)
{
    float value;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(word));
    return value;
}

// x[pixels][depth], w[m][depth], z[pixels][m]; a word has two halves
extern "C" __global__ void __launch_bounds__(256)
    pointwise_a(const unsigned* __restrict__ x, const unsigned* __restrict__ w, float* __restrict__ z, int m, int depth)
{
    __shared__ __align__(16) float left[16][68], right[16][68];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16, i = blockIdx.y * 64, j = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int k = 0; k < depth; k += 16) {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
            const int row = t / 8 + 32 * part, word = t % 8;
            const unsigned p = x[((size_t)(i + row) * depth + k) / 2 + word];
            const unsigned q = w[((size_t)(j + row) * depth + k) / 2 + word];
            left[2 * word][row] = low_half(p);
            left[2 * word + 1][row] = low_half(p >> 16);
            right[2 * word][row] = low_half(q);
            right[2 * word + 1][row] = low_half(q >> 16);
        }
        __syncthreads();
#pragma unroll
        for (int e = 0; e < 16; ++e) {
            const float4 a = *(const float4*)&left[e][4 * ty], b = *(const float4*)&right[e][4 * tx];
            const float rows[4] = {a.x, a.y, a.z, a.w}, cols[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
            for (int r = 0; r < 4; ++r)
#pragma unroll
                for (int s = 0; s < 4; ++s)
                    sum[r][s] = fmaf(rows[r], cols[s], sum[r][s]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 4; ++r)
        *(float4*)(z + (size_t)(i + 4 * ty + r) * m + j + 4 * tx) = make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
}

// Eight warps, each with 32 x 64 of 128 x 128. Rows of tiles have 16 words and 4 of padding.
extern "C" __global__ void __launch_bounds__(256)
    pointwise_b(const uint4* __restrict__ x, const uint4* __restrict__ w, float* __restrict__ z, int m, int depth)
{
    __shared__ __align__(16) unsigned left[128][20], right[128][20];
    const int t = threadIdx.x, group = t % 32 / 4, word = t % 4, i = blockIdx.y * 128, j = blockIdx.x * 128;
    const int down = t / 64 * 32, across = t / 32 % 2 * 64, row = t / 4, part = t % 4, pitch = depth / 8;
    float sum[2][8][4] = {};
    for (int k = 0; k < pitch; k += 4) {
        __syncthreads();
#pragma unroll
        for (int half = 0; half < 128; half += 64) {
            *(uint4*)&left[row + half][4 * part] = x[(size_t)(i + row + half) * pitch + k + part];
            *(uint4*)&right[row + half][4 * part] = w[(size_t)(j + row + half) * pitch + k + part];
        }
        __syncthreads();
#pragma unroll
        for (int e = word; e < word + 16; e += 8) {
            unsigned a[2][4];
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int line = down + 16 * r + group;
                a[r][0] = left[line][e];
                a[r][1] = left[line + 8][e];
                a[r][2] = left[line][e + 4];
                a[r][3] = left[line + 8][e + 4];
            }
#pragma unroll
            for (int c = 0; c < 8; ++c) {
                const unsigned b = right[across + 8 * c + group][e], d = right[across + 8 * c + group][e + 4];
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    float* const s = sum[r][c];
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                 : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
                                 : "r"(a[r][0]), "r"(a[r][1]), "r"(a[r][2]), "r"(a[r][3]), "r"(b), "r"(d));
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int c = 0; c < 8; ++c) {
            float* const at = z + (size_t)(i + down + 16 * r + group) * m + j + across + 8 * c + 2 * word;
            *(float2*)at = make_float2(sum[r][c][0], sum[r][c][1]);
            *(float2*)(at + 8 * (size_t)m) = make_float2(sum[r][c][2], sum[r][c][3]);
        }
}
"""


@pair
def pointwise(n: int = 1 << 17, m: int = 256, depth: int = 256) -> Pair:
    x, w = numbers(n, depth).half(), numbers(m, depth, seed=1).half()
    y, z = empty(n, m), empty(n, m)
    a = Version("pointwise_a", (m // 64, n // 64), (256,), (x, w, y, m, depth), lambda: y)
    b = Version("pointwise_b", (m // 128, n // 128), (256,), (x, w, z, m, depth), lambda: z)
    work = ("fp16", 2 * n * m * depth, 2 * depth * (n + m) + 4 * n * m)
    return Pair(POINTWISE, (a, b), lambda: x.double() @ w.double().t(), work, 1e-3, gemm=(n, m, depth))


# A residual added to quantized activations ----------------------------------------------------------------------------

RESIDUAL = r"""
extern "C" __global__ void __launch_bounds__(256)
    residual_a(const signed char* __restrict__ x, const signed char* __restrict__ y, signed char* __restrict__ z)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const int sum = x[i] + y[i];
    z[i] = sum < 0 ? 0 : sum > 127 ? 127 : sum;
}

__device__ __forceinline__ unsigned rectified(unsigned p, unsigned q)
{
    unsigned word = 0;
#pragma unroll
    for (int k = 0; k < 32; k += 8) {
        const int sum = (signed char)(p >> k) + (signed char)(q >> k);
        word |= (unsigned)(sum < 0 ? 0 : sum > 127 ? 127 : sum) << k;
    }
    return word;
}

extern "C" __global__ void __launch_bounds__(256)
    residual_b(const uint4* __restrict__ x, const uint4* __restrict__ y, uint4* __restrict__ z)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const uint4 p = x[i], q = y[i];
    z[i] = make_uint4(rectified(p.x, q.x), rectified(p.y, q.y), rectified(p.z, q.z), rectified(p.w, q.w));
}
"""


@pair
def residual(n: int = 1 << 27) -> Pair:
    x, y = (whole(256, n, seed=seed).to(torch.uint8).view(torch.int8) for seed in (0, 1))
    p, q = empty(n, dtype=torch.int8), empty(n, dtype=torch.int8)
    a = Version("residual_a", (n // 256,), (256,), (x, y, p), lambda: p)
    b = Version("residual_b", (n // 4096,), (256,), (x, y, q), lambda: q)
    return Pair(RESIDUAL, (a, b), lambda: (x.short() + y.short()).clamp(0, 127), ("int8", n, 3 * n), 0.0)


# The coldest day of every station -------------------------------------------------------------------------------------

COLDEST = r"""
// x[days][stations]
extern "C" __global__ void __launch_bounds__(256)
    coldest_a(const float* __restrict__ x, float* __restrict__ y, int stations, int days)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float least = x[i];
#pragma unroll 1
    for (int day = 1; day < days; ++day)
        least = fminf(least, x[(size_t)day * stations + i]);
    y[i] = least;
}

extern "C" __global__ void __launch_bounds__(256)
    coldest_b(const float* __restrict__ x, float* __restrict__ y, int stations, int days)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float least = 3e38f;
#pragma unroll 1
    for (int day = 0; day < days; day += 8) {
        float v[8];
#pragma unroll
        for (int j = 0; j < 8; ++j)
            v[j] = x[(size_t)(day + j) * stations + i];
#pragma unroll
        for (int j = 0; j < 8; ++j)
            least = fminf(least, v[j]);
    }
    y[i] = least;
}
"""


@pair
def coldest(stations: int = 2048 * SMS, days: int = 256) -> Pair:
    x, y, z = numbers(days, stations), empty(stations), empty(stations)
    a = Version("coldest_a", (stations // 256,), (256,), (x, y, stations, days), lambda: y)
    b = Version("coldest_b", (stations // 256,), (256,), (x, z, stations, days), lambda: z)
    return Pair(COLDEST, (a, b), lambda: x.amin(0), ("fp32", days * stations, 4 * (days + 1) * stations), 0.0)


# The growth of stocks over 64 days ------------------------------------------------------------------------------------

GROWTH = r"""
// x[stocks][64]
extern "C" __global__ void __launch_bounds__(256) growth_a(const float* __restrict__ x, float* __restrict__ y)
{
    const int stock = blockIdx.x * 256 + threadIdx.x;
    float product = 1.0f;
#pragma unroll 8
    for (int day = 0; day < 64; ++day)
        product *= fmaf(x[(size_t)stock * 64 + day], 0.0625f, 1.0f);
    y[stock] = product;
}

// 16 lanes have a stock, two per warp and step
extern "C" __global__ void __launch_bounds__(256) growth_b(const float4* __restrict__ x, float* __restrict__ y)
{
    const int lane = threadIdx.x % 16, first = blockIdx.x * 64 + threadIdx.x / 16;
    float4 v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
        v[j] = x[(size_t)(first + 16 * j) * 16 + lane];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        float product = fmaf(v[j].x, 0.0625f, 1.0f) * fmaf(v[j].y, 0.0625f, 1.0f);
        product *= fmaf(v[j].z, 0.0625f, 1.0f) * fmaf(v[j].w, 0.0625f, 1.0f);
#pragma unroll
        for (int apart = 8; apart; apart /= 2)
            product *= __shfl_xor_sync(0xffffffffu, product, apart);
        if (lane == 0)
            y[first + 16 * j] = product;
    }
}
"""


@pair
def growth(stocks: int = 1 << 20) -> Pair:
    x, y, z = numbers(stocks, 64), empty(stocks), empty(stocks)
    a = Version("growth_a", (stocks // 256,), (256,), (x, y), lambda: y)
    b = Version("growth_b", (stocks // 64,), (256,), (x, z), lambda: z)
    work = ("fp32", 3 * 64 * stocks, 4 * 65 * stocks)
    return Pair(GROWTH, (a, b), lambda: (1 + x.double() / 16).prod(1), work, 1e-4)


# How far the corners of a model are from a plane ----------------------------------------------------------------------

CORNERS = r"""
struct Corner {
    float place[3], normal[3], tangent[4], colour[4], texture[2];
};

extern "C" __global__ void __launch_bounds__(256)
    corners_a(const Corner* __restrict__ x, float* __restrict__ y, float a, float b, float c, float d)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const Corner* const corner = x + i;
    y[i] = fmaf(a, corner->place[0], fmaf(b, corner->place[1], fmaf(c, corner->place[2], d)));
}

extern "C" __global__ void __launch_bounds__(256)
    corners_b(const float* __restrict__ x, float* __restrict__ y, int n, float a, float b, float c, float d)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    y[i] = fmaf(a, x[i], fmaf(b, x[n + i], fmaf(c, x[2 * (size_t)n + i], d)));
}
"""


@pair
def corners(n: int = 1 << 24) -> Pair:
    x, y, z = numbers(n, 16), empty(n), empty(n)
    plane = (0.5, -0.25, 2.0, 1.0)

    def wanted() -> Tensor:
        return 0.5 * x[:, 0] - 0.25 * x[:, 1] + 2.0 * x[:, 2] + 1.0

    a = Version("corners_a", (n // 256,), (256,), (x, y, *plane), lambda: y)
    b = Version("corners_b", (n // 256,), (256,), (x[:, :3].t().contiguous(), z, n, *plane), lambda: z)
    return Pair(CORNERS, (a, b), wanted, ("fp32", 6 * n, 16 * n))


# 32 channels mixed into 32 others, for every pixel --------------------------------------------------------------------

MIXED = r"""
// A lane has a channel of the result; x[pixels][32], w[32][32]. `PITCH` is the length of a row of weights in shared memory.
template <int PITCH>
__device__ __forceinline__ void mixed(const float* x, const float* w, float* y, int pixels)
{
    __shared__ float weights[32 * PITCH];
    const int lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < 1024; i += 256)
        weights[i / 32 * PITCH + i % 32] = w[i];
    __syncthreads();
    for (int pixel = (blockIdx.x * 8 + threadIdx.x / 32) * 4; pixel < pixels; pixel += gridDim.x * 32) {
        float v[4], sum[4] = {};
#pragma unroll
        for (int j = 0; j < 4; ++j)
            v[j] = x[(size_t)(pixel + j) * 32 + lane];
#pragma unroll 8
        for (int k = 0; k < 32; ++k) {
            const float weight = weights[lane * PITCH + k];
#pragma unroll
            for (int j = 0; j < 4; ++j)
                sum[j] = fmaf(weight, __shfl_sync(0xffffffffu, v[j], k), sum[j]);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j)
            y[(size_t)(pixel + j) * 32 + lane] = sum[j];
    }
}

extern "C" __global__ void __launch_bounds__(256)
    mixed_a(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int pixels)
{
    mixed<32>(x, w, y, pixels);
}

extern "C" __global__ void __launch_bounds__(256)
    mixed_b(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int pixels)
{
    mixed<33>(x, w, y, pixels);
}
"""


@pair
def mixed(pixels: int = 1 << 20) -> Pair:
    x, w, y, z = numbers(pixels, 32), numbers(32, 32, seed=1), empty(pixels, 32), empty(pixels, 32)
    a = Version("mixed_a", (8 * SMS,), (256,), (x, w, y, pixels), lambda: y)
    b = Version("mixed_b", (8 * SMS,), (256,), (x, w, z, pixels), lambda: z)
    work = ("fp32", 2 * 1024 * pixels, 256 * pixels + 4096)
    return Pair(MIXED, (a, b), lambda: x.double() @ w.double().t(), work, 1e-4)


# The middle half of 64 numbers, summed --------------------------------------------------------------------------------

TRIMMED = r"""
// A thread sorts 64 numbers of its column by Batcher's network.
__device__ __forceinline__ void trimmed(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float v[64], sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 64; ++k)
        v[k] = x[(size_t)k * n + i];
#pragma unroll
    for (int size = 2; size <= 64; size *= 2)
#pragma unroll
        for (int apart = size / 2; apart; apart /= 2)
#pragma unroll
            for (int k = 0; k < 64; ++k)
                if (!(k & apart)) {
                    const float low = fminf(v[k], v[k + apart]), high = fmaxf(v[k], v[k + apart]);
                    v[k] = k & size ? high : low;
                    v[k + apart] = k & size ? low : high;
                }
#pragma unroll
    for (int k = 16; k < 48; ++k)
        sum += v[k];
    y[i] = sum;
}

extern "C" __global__ void __launch_bounds__(256, 8) trimmed_a(const float* __restrict__ x, float* __restrict__ y, int n)
{
    trimmed(x, y, n);
}

extern "C" __global__ void __launch_bounds__(256) trimmed_b(const float* __restrict__ x, float* __restrict__ y, int n)
{
    trimmed(x, y, n);
}
"""


@pair
def trimmed(n: int = 1 << 20) -> Pair:
    x, y, z = numbers(64, n), empty(n), empty(n)

    def wanted() -> Tensor:
        return x.sort(0).values[16:48].sum(0)

    a = Version("trimmed_a", (n // 256,), (256,), (x, y, n), lambda: y)
    b = Version("trimmed_b", (n // 256,), (256,), (x, z, n), lambda: z)
    return Pair(TRIMMED, (a, b), wanted, ("fp32", 32 * n, 4 * 65 * n), 1e-4)


# The most frequent digit of 64 ----------------------------------------------------------------------------------------

DIGITS = r"""
// Digits are 4 bits; of two that are equally frequent the lower one counts.
extern "C" __global__ void __launch_bounds__(256) digits_a(const uint4* __restrict__ x, int* __restrict__ y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    int count[16], best = 0;
    for (int d = 0; d < 16; ++d)
        count[d] = 0;
    for (int part = 0; part < 2; ++part) {
        const uint4 v = x[(size_t)part * n + i];
        const unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
            for (int bit = 0; bit < 32; bit += 4)
                ++count[words[k] >> bit & 15];
    }
    for (int d = 1; d < 16; ++d)
        if (count[d] > count[best])
            best = d;
    y[i] = best;
}

// Counts are bytes of four words.
extern "C" __global__ void __launch_bounds__(256) digits_b(const uint4* __restrict__ x, int* __restrict__ y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    unsigned count[4] = {};
#pragma unroll
    for (int part = 0; part < 2; ++part) {
        const uint4 v = x[(size_t)part * n + i];
        const unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
            for (int bit = 0; bit < 32; bit += 4) {
                const unsigned digit = words[k] >> bit & 15, one = 1u << 8 * (digit % 4);
#pragma unroll
                for (unsigned w = 0; w < 4; ++w)
                    count[w] += digit / 4 == w ? one : 0u;
            }
    }
    int best = 0;
    unsigned most = 0;
#pragma unroll
    for (int d = 0; d < 16; ++d) {
        const unsigned times = count[d / 4] >> 8 * (d % 4) & 255;
        best = times > most ? d : best;
        most = times > most ? times : most;
    }
    y[i] = best;
}
"""


@pair
def digits(n: int = 1 << 21) -> Pair:
    x = whole(1 << 31, 2, n, 4)
    y, z = empty(n, dtype=torch.int32), empty(n, dtype=torch.int32)

    def wanted() -> Tensor:
        count = torch.zeros(16, n, dtype=torch.int32, device=DEVICE)
        for part in x:
            for bit in range(0, 32, 4):
                digit = part >> bit & 15
                for d in range(16):
                    count[d] += (digit == d).sum(1)
        return (count * 16 - torch.arange(16, device=DEVICE)[:, None]).argmax(0)

    a = Version("digits_a", (n // 256,), (256,), (x, y, n), lambda: y)
    b = Version("digits_b", (n // 256,), (256,), (x, z, n), lambda: z)
    return Pair(DIGITS, (a, b), wanted, ("int32", 64 * n, 36 * n), 0.0)


# Places on a curve, and how far each is from the one before -----------------------------------------------------------

STEPS = r"""
// `held` is shared memory for as many places as a block ever has; a block has 128.
__device__ __forceinline__ void steps(const float* where, const float* table, float* y)
{
    extern __shared__ float held[];
    const int t = threadIdx.x;
    const size_t i = (size_t)blockIdx.x * 128 + t;
    const float at = where[i];
    const int cell = (int)at;
    const float low = table[cell], high = table[cell + 1];
    held[t] = fmaf(at - cell, high - low, low);
    __syncthreads();
    y[i] = t ? held[t] - held[t - 1] : held[t];
}

extern "C" __global__ void __launch_bounds__(128)
    steps_a(const float* __restrict__ where, const float* __restrict__ table, float* __restrict__ y)
{
    steps(where, table, y);
}

extern "C" __global__ void __launch_bounds__(128)
    steps_b(const float* __restrict__ where, const float* __restrict__ table, float* __restrict__ y)
{
    steps(where, table, y);
}
"""


@pair
def steps(n: int = 1 << 24, cells: int = 4096) -> Pair:
    where, table = (numbers(n) + 0.5) * (cells - 1), numbers(cells + 1, seed=1)
    y, z = empty(n), empty(n)

    def wanted() -> Tensor:
        cell = where.long()
        low, high = table[cell], table[cell + 1]
        held = (low + (where - cell) * (high - low)).view(-1, 128)
        return torch.cat([held[:, :1], held[:, 1:] - held[:, :-1]], 1).flatten()

    a = Version("steps_a", (n // 128,), (128,), (where, table, y), lambda: y, shared=96 * 1024)
    b = Version("steps_b", (n // 128,), (128,), (where, table, z), lambda: z, shared=512)
    return Pair(STEPS, (a, b), wanted, ("fp32", 5 * n, 8 * n + 4 * cells), 1e-4)


# An activation --------------------------------------------------------------------------------------------------------

SWISH = r"""
__device__ __forceinline__ float swish(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

extern "C" __global__ void __launch_bounds__(32) swish_a(const float* __restrict__ x, float* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 32 + threadIdx.x;
    y[i] = swish(x[i]);
}

extern "C" __global__ void __launch_bounds__(256) swish_b(const float* __restrict__ x, float* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    y[i] = swish(x[i]);
}
"""


@pair
def swish(n: int = 1 << 25) -> Pair:
    x, y, z = numbers(n), empty(n), empty(n)
    a = Version("swish_a", (n // 32,), (32,), (x, y), lambda: y)
    b = Version("swish_b", (n // 256,), (256,), (x, z), lambda: z)
    return Pair(SWISH, (a, b), lambda: x * x.sigmoid(), ("fp32", 4 * n, 8 * n), 1e-4)


# How well 16 masks cover 16 others ------------------------------------------------------------------------------------

COVER = (
    HEAD
    + r"""
// What two masks have in common and what they have together, of the numbers that this block takes
__device__ __forceinline__ float2 cover(const float4* x, const float4* y, int n, int first, int by)
{
    float common = 0.0f, both = 0.0f;
#pragma unroll 4
    for (int i = first; i < n; i += by) {
        const float4 p = x[i], q = y[i];
        common += fmaf(p.x, q.x, p.y * q.y) + fmaf(p.z, q.z, p.w * q.w);
        both += add4(p) + add4(q);
    }
    return make_float2(common, both);
}

extern "C" __global__ void __launch_bounds__(1024)
    cover_a(const float4* __restrict__ x, const float4* __restrict__ y, float* __restrict__ z, int n)
{
    __shared__ float parts[2][32];
    const size_t from = (size_t)blockIdx.x * n;
    const float2 sums = cover(x + from, y + from, n, threadIdx.x, 1024);
    const float common = block_sum(sums.x, parts[0]), both = block_sum(sums.y, parts[1]);
    if (threadIdx.x == 0) {
        z[2 * blockIdx.x] = common;
        z[2 * blockIdx.x + 1] = both;
    }
}

extern "C" __global__ void __launch_bounds__(256)
    cover_b(const float4* __restrict__ x, const float4* __restrict__ y, float* __restrict__ z, int n)
{
    __shared__ float parts[2][32];
    const size_t from = (size_t)blockIdx.y * n;
    const float2 sums = cover(x + from, y + from, n, blockIdx.x * 256 + threadIdx.x, gridDim.x * 256);
    const float common = block_sum(sums.x, parts[0]), both = block_sum(sums.y, parts[1]);
    if (threadIdx.x == 0) {
        atomicAdd(z + 2 * blockIdx.y, common);
        atomicAdd(z + 2 * blockIdx.y + 1, both);
    }
}
"""
)


@pair
def cover(n: int = 1 << 20) -> Pair:
    x, y, z, w = numbers(16, n) + 0.5, numbers(16, n, seed=1) + 0.5, empty(16, 2), empty(16, 2)

    def wanted() -> Tensor:
        p, q = x.double(), y.double()
        return torch.stack([(p * q).sum(1), (p + q).sum(1)], 1)

    a = Version("cover_a", (16,), (1024,), (x, y, z, n // 4), lambda: z)
    b = Version("cover_b", (64, 16), (256,), (x, y, w, n // 4), lambda: w, cleared=w)
    return Pair(COVER, (a, b), wanted, ("fp32", 4 * 16 * n, 8 * 16 * n), 1e-4)


# Six materials, each with its law -------------------------------------------------------------------------------------

LAWS = r"""
__device__ __forceinline__ void laws(const float* x, const int* kind, float* y, int steps)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float v = x[i];
    float s = 0.25f;
    switch (kind[i]) {
    case 0:
        for (int k = 0; k < steps; ++k)
            s = fmaf(s, v, 0.5f);
        break;
    case 1:
        for (int k = 0; k < steps; ++k)
            s = __fdividef(v, 1.0f + fabsf(s));
        break;
    case 2:
        for (int k = 0; k < steps; ++k)
            s = __expf(-fabsf(s)) * v;
        break;
    case 3:
        for (int k = 0; k < steps; ++k)
            s = rsqrtf(fmaf(s, s, 1.0f)) * v;
        break;
    case 4:
        for (int k = 0; k < steps; ++k)
            s = fmaf(0.5f, __sinf(s), v);
        break;
    default:
        for (int k = 0; k < steps; ++k)
            s = fmaf(0.5f * s, s, v);
    }
    y[i] = s;
}

// Elements in any order, and in the order of their materials
extern "C" __global__ void __launch_bounds__(256)
    laws_a(const float* __restrict__ x, const int* __restrict__ kind, float* __restrict__ y, int steps)
{
    laws(x, kind, y, steps);
}

extern "C" __global__ void __launch_bounds__(256)
    laws_b(const float* __restrict__ x, const int* __restrict__ kind, float* __restrict__ y, int steps)
{
    laws(x, kind, y, steps);
}
"""


@pair
def laws(n: int = 1 << 22, steps: int = 64) -> Pair:
    x, kind, y, z = numbers(n), whole(6, n, seed=1), empty(n), empty(n)
    order = kind.argsort()

    def wanted() -> Tensor:
        rules = (
            lambda s: s * x + 0.5,
            lambda s: x / (1 + s.abs()),
            lambda s: (-s.abs()).exp() * x,
            lambda s: (s * s + 1).rsqrt() * x,
            lambda s: 0.5 * s.sin() + x,
            lambda s: 0.5 * s * s + x,
        )
        result = torch.zeros_like(x)
        for which, rule in enumerate(rules):
            s = torch.full_like(x, 0.25)
            for _ in range(steps):
                s = rule(s)
            result = torch.where(kind == which, s, result)
        return result

    def unsorted() -> Tensor:
        return torch.empty_like(z).scatter_(0, order, z)

    a = Version("laws_a", (n // 256,), (256,), (x, kind, y, steps), lambda: y)
    b = Version("laws_b", (n // 256,), (256,), (x[order], kind[order], z, steps), unsorted)
    return Pair(LAWS, (a, b), wanted, ("fp32", 2 * steps * n, 12 * n), 1e-3)


# Triangular factors of matrices of 16 x 16 ----------------------------------------------------------------------------

FACTORS = r"""
// A block has a matrix and a thread an element.
extern "C" __global__ void __launch_bounds__(256) factors_a(const float* __restrict__ x, float* __restrict__ y)
{
    __shared__ float a[16][17];
    const int col = threadIdx.x % 16, row = threadIdx.x / 16;
    const size_t at = (size_t)blockIdx.x * 256 + threadIdx.x;
    a[row][col] = x[at];
    __syncthreads();
    for (int k = 0; k < 15; ++k) {
        if (row > k && col == k)
            a[row][k] = __fdividef(a[row][k], a[k][k]);
        __syncthreads();
        if (row > k && col > k)
            a[row][col] -= a[row][k] * a[k][col];
        __syncthreads();
    }
    y[at] = a[row][col];
}

// Half a warp has a matrix and a lane a column.
extern "C" __global__ void __launch_bounds__(256) factors_b(const float* __restrict__ x, float* __restrict__ y)
{
    const int lane = threadIdx.x % 16;
    const size_t from = ((size_t)blockIdx.x * 16 + threadIdx.x / 16) * 256 + lane;
    float a[16];
#pragma unroll
    for (int row = 0; row < 16; ++row)
        a[row] = x[from + 16 * row];
#pragma unroll
    for (int k = 0; k < 15; ++k) {
        const float by = __fdividef(1.0f, __shfl_sync(0xffffffffu, a[k], k, 16));
#pragma unroll
        for (int row = k + 1; row < 16; ++row) {
            const float factor = __shfl_sync(0xffffffffu, a[row], k, 16) * by;
            a[row] = lane == k ? factor : lane > k ? fmaf(-factor, a[k], a[row]) : a[row];
        }
    }
#pragma unroll
    for (int row = 0; row < 16; ++row)
        y[from + 16 * row] = a[row];
}
"""


@pair
def factors(count: int = 1 << 17) -> Pair:
    x = numbers(count, 16, 16) + 8 * torch.eye(16, device=DEVICE)
    y, z = empty(count, 16, 16), empty(count, 16, 16)

    def product(made: Tensor) -> Tensor:
        return (made.tril(-1) + torch.eye(16, device=DEVICE)).double() @ made.triu().double()

    a = Version("factors_a", (count,), (256,), (x, y), lambda: product(y))
    b = Version("factors_b", (count // 16,), (256,), (x, z), lambda: product(z))
    return Pair(FACTORS, (a, b), lambda: x, ("fp32", 2600 * count, 2048 * count), 1e-4)


# An image blurred by 15 x 15 weights that are products of 15 and 15 ---------------------------------------------------

BLUR = r"""
#define WEIGHTS                                                                                                          \
    const float w[15] = {0.009f, 0.018f, 0.033f, 0.055f, 0.08f,  0.105f, 0.13f, 0.14f,                                   \
                         0.13f,  0.105f, 0.08f,  0.055f, 0.033f, 0.018f, 0.009f}

// 46 x 46 pixels around a tile of 32 x 32; beyond the edge is what is at the edge.
__device__ __forceinline__ void fetch(const float* x, float (*held)[46], int high, int wide)
{
    for (int i = threadIdx.x; i < 46 * 46; i += 256) {
        const int row = min(max((int)blockIdx.y * 32 + i / 46 - 7, 0), high - 1);
        const int col = min(max((int)blockIdx.x * 32 + i % 46 - 7, 0), wide - 1);
        held[i / 46][i % 46] = x[(size_t)row * wide + col];
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(256)
    blur_a(const float* __restrict__ x, float* __restrict__ y, int high, int wide)
{
    WEIGHTS;
    __shared__ float held[46][46];
    const int col = threadIdx.x % 32, row = threadIdx.x / 32 * 4;
    fetch(x, held, high, wide);
    float sum[4] = {};
#pragma unroll
    for (int across = 0; across < 15; ++across) {
        float v[18];
#pragma unroll
        for (int k = 0; k < 18; ++k)
            v[k] = held[row + k][col + across];
#pragma unroll
        for (int r = 0; r < 4; ++r)
#pragma unroll
            for (int k = 0; k < 15; ++k)
                sum[r] = fmaf(w[k] * w[across], v[r + k], sum[r]);
    }
#pragma unroll
    for (int r = 0; r < 4; ++r)
        y[(size_t)(blockIdx.y * 32 + row + r) * wide + blockIdx.x * 32 + col] = sum[r];
}

extern "C" __global__ void __launch_bounds__(256)
    blur_b(const float* __restrict__ x, float* __restrict__ y, int high, int wide)
{
    WEIGHTS;
    __shared__ float held[46][46], lines[46][32];
    const int col = threadIdx.x % 32, row = threadIdx.x / 32 * 4;
    fetch(x, held, high, wide);
    for (int line = threadIdx.x / 32; line < 46; line += 8) {
        float sum = 0.0f;
#pragma unroll
        for (int across = 0; across < 15; ++across)
            sum = fmaf(w[across], held[line][col + across], sum);
        lines[line][col] = sum;
    }
    __syncthreads();
    float v[18];
#pragma unroll
    for (int k = 0; k < 18; ++k)
        v[k] = lines[row + k][col];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        float sum = 0.0f;
#pragma unroll
        for (int k = 0; k < 15; ++k)
            sum = fmaf(w[k], v[r + k], sum);
        y[(size_t)(blockIdx.y * 32 + row + r) * wide + blockIdx.x * 32 + col] = sum;
    }
}
"""


@pair
def blur(high: int = 4096, wide: int = 4096) -> Pair:
    x, y, z = numbers(high, wide), empty(high, wide), empty(high, wide)
    half = [0.009, 0.018, 0.033, 0.055, 0.08, 0.105, 0.13]

    def wanted() -> Tensor:
        w = torch.tensor([*half, 0.14, *half[::-1]], device=DEVICE, dtype=torch.float64)
        padded = torch.nn.functional.pad(x[None, None].double(), (7, 7, 7, 7), mode="replicate")[0, 0]
        lines = sum(w[k] * padded[:, k : k + wide] for k in range(15))
        return sum((w[k] * lines[k : k + high] for k in range(15)), torch.zeros((), device=DEVICE))

    a = Version("blur_a", (wide // 32, high // 32), (256,), (x, y, high, wide), lambda: y)
    b = Version("blur_b", (wide // 32, high // 32), (256,), (x, z, high, wide), lambda: z)
    return Pair(BLUR, (a, b), wanted, ("fp32", 60 * high * wide, 8 * high * wide), 1e-4)


# The loss of a classifier with 16 classes -----------------------------------------------------------------------------

LOSS = r"""
// Four lanes have a row of 16 numbers; for all of them: the logarithm of the sum of the exponentials, less the number of the right class.
__device__ __forceinline__ float loss(float4 v, float right)
{
    float top = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    float sum = (__expf(v.x - top) + __expf(v.y - top)) + (__expf(v.z - top) + __expf(v.w - top));
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    right += __shfl_xor_sync(0xffffffffu, right, 1);
    right += __shfl_xor_sync(0xffffffffu, right, 2);
    return __logf(sum) + top - right;
}

// `right` has 1 at the right class of a row and 0 elsewhere.
extern "C" __global__ void __launch_bounds__(256)
    loss_a(const float4* __restrict__ x, const float4* __restrict__ right, float* __restrict__ y)
{
    const int first = blockIdx.x * 1024 + threadIdx.x;
    float4 v[4], h[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        v[j] = x[first + 256 * j];
        h[j] = right[first + 256 * j];
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const float picked = fmaf(v[j].x, h[j].x, v[j].y * h[j].y) + fmaf(v[j].z, h[j].z, v[j].w * h[j].w);
        const float value = loss(v[j], picked);
        if (threadIdx.x % 4 == 0)
            y[(first + 256 * j) / 4] = value;
    }
}

// `right` has the number of the right class.
extern "C" __global__ void __launch_bounds__(256)
    loss_b(const float4* __restrict__ x, const int* __restrict__ right, float* __restrict__ y)
{
    const int first = blockIdx.x * 1024 + threadIdx.x;
    float4 v[4];
    int h[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        v[j] = x[first + 256 * j];
        h[j] = right[(first + 256 * j) / 4] - 4 * (threadIdx.x % 4);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const float low = h[j] == 0 ? v[j].x : h[j] == 1 ? v[j].y : 0.0f;
        const float value = loss(v[j], h[j] == 2 ? v[j].z : h[j] == 3 ? v[j].w : low);
        if (threadIdx.x % 4 == 0)
            y[(first + 256 * j) / 4] = value;
    }
}
"""


@pair
def loss(rows: int = 1 << 22) -> Pair:
    x, right, y, z = 4 * numbers(rows, 16), whole(16, rows, seed=1), empty(rows), empty(rows)
    ones = (right[:, None] == torch.arange(16, device=DEVICE)).float()

    def wanted() -> Tensor:
        return x.logsumexp(1) - (x * ones).sum(1)

    a = Version("loss_a", (rows // 256,), (256,), (x, ones, y), lambda: y)
    b = Version("loss_b", (rows // 256,), (256,), (x, right, z), lambda: z)
    return Pair(LOSS, (a, b), wanted, ("fp32", 66 * rows, 72 * rows), 1e-4)


# Products of all pairs of columns -------------------------------------------------------------------------------------

GRAM = r"""
// x[depth][n], z[n][n]
extern "C" __global__ void __launch_bounds__(256) gram_a(const float* __restrict__ x, float* __restrict__ z, int n, int depth)
{
    const int j = blockIdx.x * 32 + threadIdx.x % 32, i = blockIdx.y * 8 + threadIdx.x / 32;
    float sum = 0.0f;
    for (int k = 0; k < depth; ++k)
        sum = fmaf(x[(size_t)k * n + i], x[(size_t)k * n + j], sum);
    z[(size_t)i * n + j] = sum;
}

extern "C" __global__ void __launch_bounds__(256) gram_b(const float* __restrict__ x, float* __restrict__ z, int n, int depth)
{
    __shared__ __align__(16) float left[16][128], right[16][128];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16, i = blockIdx.y * 128, j = blockIdx.x * 128;
    float sum[8][8] = {};
    for (int k = 0; k < depth; k += 16) {
#pragma unroll
        for (int part = 0; part < 16; part += 8) {
            const size_t row = (size_t)(k + part + t / 32) * n;
            *(float4*)&left[part + t / 32][t % 32 * 4] = *(const float4*)(x + row + i + t % 32 * 4);
            *(float4*)&right[part + t / 32][t % 32 * 4] = *(const float4*)(x + row + j + t % 32 * 4);
        }
        __syncthreads();
#pragma unroll
        for (int e = 0; e < 16; ++e) {
            const float4 a = *(const float4*)&left[e][4 * ty], b = *(const float4*)&left[e][64 + 4 * ty];
            const float4 c = *(const float4*)&right[e][4 * tx], d = *(const float4*)&right[e][64 + 4 * tx];
            const float rows[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}, cols[8] = {c.x, c.y, c.z, c.w, d.x, d.y, d.z, d.w};
#pragma unroll
            for (int r = 0; r < 8; ++r)
#pragma unroll
                for (int s = 0; s < 8; ++s)
                    sum[r][s] = fmaf(rows[r], cols[s], sum[r][s]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 8; ++r) {
        float* const at = z + (size_t)(i + r / 4 * 64 + 4 * ty + r % 4) * n + j + 4 * tx;
        *(float4*)at = make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
        *(float4*)(at + 64) = make_float4(sum[r][4], sum[r][5], sum[r][6], sum[r][7]);
    }
}
"""


@pair
def gram(n: int = 2048, depth: int = 2048) -> Pair:
    x, y, z = numbers(depth, n), empty(n, n), empty(n, n)
    a = Version("gram_a", (n // 32, n // 8), (256,), (x, y, n, depth), lambda: y)
    b = Version("gram_b", (n // 128, n // 128), (256,), (x, z, n, depth), lambda: z)
    work = ("fp32", 2 * n * n * depth, 4 * (n * depth + n * n))
    return Pair(GRAM, (a, b), lambda: x.double().t() @ x.double(), work, 1e-4, gemm=(n, n, depth))


# Distances between places on a globe ----------------------------------------------------------------------------------

GLOBE = r"""
extern "C" __global__ void __launch_bounds__(256) globe_a(const float4* __restrict__ x, float* __restrict__ y)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float4 v = x[i]; // latitude and longitude of two places, in degrees
    const float down = sin((v.z - v.x) * 3.14159265358979 / 360.0), across = sin((v.w - v.y) * 3.14159265358979 / 360.0);
    const float by = cos(v.x * 3.14159265358979 / 180.0) * cos(v.z * 3.14159265358979 / 180.0);
    y[i] = 12742.0 * asin(sqrt(down * down + by * across * across));
}

extern "C" __global__ void __launch_bounds__(256) globe_b(const float4* __restrict__ x, float* __restrict__ y)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float4 v = x[i];
    const float half = 3.14159265358979f / 360.0f;
    const float down = sinf((v.z - v.x) * half), across = sinf((v.w - v.y) * half);
    const float by = cosf(v.x * (2.0f * half)) * cosf(v.z * (2.0f * half));
    y[i] = 12742.0f * asinf(sqrtf(down * down + by * across * across));
}
"""


@pair
def globe(n: int = 1 << 23) -> Pair:
    x, y, z = 160 * numbers(n, 4), empty(n), empty(n)

    def wanted() -> Tensor:
        a, b, c, d = (x.double() * (torch.pi / 180)).t()
        inner = ((c - a) / 2).sin() ** 2 + a.cos() * c.cos() * ((d - b) / 2).sin() ** 2
        return 12742 * inner.sqrt().asin()

    a = Version("globe_a", (n // 256,), (256,), (x, y), lambda: y)
    b = Version("globe_b", (n // 256,), (256,), (x, z), lambda: z)
    return Pair(GLOBE, (a, b), wanted, ("fp32", 20 * n, 20 * n), 1e-3)


# The energy of atoms near a wall of atoms -----------------------------------------------------------------------------

ATOMS = r"""
template <bool POWERS>
__device__ __forceinline__ void atoms(const float4* x, const float4* wall, float* y)
{
    __shared__ float4 held[512];
    const int t = threadIdx.x, i = blockIdx.x * 256 + t;
    held[t] = wall[t];
    held[t + 256] = wall[t + 256];
    __syncthreads();
    const float4 p = x[i];
    float sum = 0.0f;
#pragma unroll 4
    for (int j = 0; j < 512; ++j) {
        const float4 q = held[j];
        const float a = p.x - q.x, b = p.y - q.y, c = p.z - q.z, apart = fmaf(a, a, fmaf(b, b, fmaf(c, c, 0.5f)));
        if (POWERS) {
            const float r = sqrtf(apart);
            sum += powf(r, -12.0f) - powf(r, -6.0f);
        } else {
            const float one = __fdividef(1.0f, apart), three = one * one * one;
            sum += fmaf(three, three, -three);
        }
    }
    y[i] = sum;
}

extern "C" __global__ void __launch_bounds__(256)
    atoms_a(const float4* __restrict__ x, const float4* __restrict__ wall, float* __restrict__ y)
{
    atoms<true>(x, wall, y);
}

extern "C" __global__ void __launch_bounds__(256)
    atoms_b(const float4* __restrict__ x, const float4* __restrict__ wall, float* __restrict__ y)
{
    atoms<false>(x, wall, y);
}
"""


@pair
def atoms(n: int = 1 << 18) -> Pair:
    x, wall, y, z = 2 * numbers(n, 4), 2 * numbers(512, 4, seed=1), empty(n), empty(n)

    def wanted() -> Tensor:
        total = torch.zeros(n, dtype=torch.float64, device=DEVICE)
        for place in wall.double():
            three = 1 / ((x[:, :3].double() - place[:3]).square().sum(1) + 0.5) ** 3
            total += three * three - three
        return total

    a = Version("atoms_a", (n // 256,), (256,), (x, wall, y), lambda: y)
    b = Version("atoms_b", (n // 256,), (256,), (x, wall, z), lambda: z)
    return Pair(ATOMS, (a, b), wanted, ("fp32", 15 * 512 * n, 20 * n + 8192), 1e-3)


# A number per channel added to images ---------------------------------------------------------------------------------

SHIFTS = r"""
// x[images][channels][inner]
extern "C" __global__ void __launch_bounds__(256)
    shifts_a(const float* __restrict__ x, const float* __restrict__ shift, float* __restrict__ y, int channels, int inner)
{
    const long long i = blockIdx.x * 1024LL + threadIdx.x;
#pragma unroll
    for (int j = 0; j < 1024; j += 256)
        y[i + j] = x[i + j] + shift[(i + j) / inner % channels];
}

extern "C" __global__ void __launch_bounds__(256)
    shifts_b(const float* __restrict__ x, const float* __restrict__ shift, float* __restrict__ y, int channels, int inner)
{
    const long long plane = (long long)blockIdx.z * channels + blockIdx.y, i = plane * inner + blockIdx.x * 1024 + threadIdx.x;
    const float by = shift[blockIdx.y];
#pragma unroll
    for (int j = 0; j < 1024; j += 256)
        y[i + j] = x[i + j] + by;
}
"""


@pair
def shifts(images: int = 64, channels: int = 64, inner: int = 128 * 128) -> Pair:
    n = images * channels * inner
    x, shift = numbers(images, channels, inner), numbers(channels, seed=1)
    y, z = empty(images, channels, inner), empty(images, channels, inner)
    a = Version("shifts_a", (n // 1024,), (256,), (x, shift, y, channels, inner), lambda: y)
    b = Version("shifts_b", (inner // 1024, channels, images), (256,), (x, shift, z, channels, inner), lambda: z)
    return Pair(SHIFTS, (a, b), lambda: x + shift[:, None], ("fp32", n, 8 * n + 4 * channels))


# Eight products of every row with a vector ----------------------------------------------------------------------------

PROBES = r"""
__device__ __forceinline__ float dot4(float4 p, float4 q) { return fmaf(p.x, q.x, p.y * q.y) + fmaf(p.z, q.z, p.w * q.w); }

__device__ __forceinline__ float row_sum(float value)
{
#pragma unroll
    for (int apart = 8; apart; apart /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
}

// x[n][64], w[8][64], y[n][8]; 16 lanes have a row. A block has one of the vectors.
extern "C" __global__ void __launch_bounds__(256)
    probes_a(const float4* __restrict__ x, const float4* __restrict__ w, float* __restrict__ y)
{
    const int lane = threadIdx.x % 16, first = blockIdx.y * 64 + threadIdx.x / 16;
    const float4 by = w[blockIdx.x * 16 + lane];
    float4 v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
        v[j] = x[(size_t)(first + 16 * j) * 16 + lane];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const float sum = row_sum(dot4(v[j], by));
        if (lane == 0)
            y[(first + 16 * j) * 8 + blockIdx.x] = sum;
    }
}

// A block has all of them.
extern "C" __global__ void __launch_bounds__(256)
    probes_b(const float4* __restrict__ x, const float4* __restrict__ w, float* __restrict__ y)
{
    const int lane = threadIdx.x % 16, first = blockIdx.y * 64 + threadIdx.x / 16;
    float4 v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
        v[j] = x[(size_t)(first + 16 * j) * 16 + lane];
    float mine[4] = {};
#pragma unroll
    for (int probe = 0; probe < 8; ++probe) {
        const float4 by = w[probe * 16 + lane];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float sum = row_sum(dot4(v[j], by));
            mine[j] = lane == probe ? sum : mine[j];
        }
    }
    if (lane < 8)
#pragma unroll
        for (int j = 0; j < 4; ++j)
            y[(first + 16 * j) * 8 + lane] = mine[j];
}
"""


@pair
def probes(n: int = 1 << 20) -> Pair:
    x, w, y, z = numbers(n, 64), numbers(8, 64, seed=1), empty(n, 8), empty(n, 8)
    a = Version("probes_a", (8, n // 64), (256,), (x, w, y), lambda: y)
    b = Version("probes_b", (1, n // 64), (256,), (x, w, z), lambda: z)
    work = ("fp32", 2 * 8 * 64 * n, 4 * 72 * n + 2048)
    return Pair(PROBES, (a, b), lambda: x.double() @ w.double().t(), work, 1e-4)


# What walkers find on their ways --------------------------------------------------------------------------------------

WAYS = r"""
__device__ __forceinline__ int add8(uint4 p, uint4 q) { return p.y + p.z + p.w + q.x + q.y + q.z + q.w; }

// A place has the number of the next one and seven finds.
extern "C" __global__ void __launch_bounds__(256) ways_a(const uint4* __restrict__ places, int* __restrict__ y, int steps)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    int sum = 0;
    size_t at = i;
    for (int step = 0; step < steps; ++step) {
        const uint4 p = places[2 * at], q = places[2 * at + 1];
        sum += add8(p, q);
        at = p.x;
    }
    y[i] = sum;
}

// order[steps][walkers] is known.
extern "C" __global__ void __launch_bounds__(256)
    ways_b(const uint4* __restrict__ places, const int* __restrict__ order, int* __restrict__ y, int steps)
{
    const int i = blockIdx.x * 256 + threadIdx.x, walkers = gridDim.x * 256;
    int sum = 0;
    for (int step = 0; step < steps; step += 8) {
        size_t at[8];
#pragma unroll
        for (int j = 0; j < 8; ++j)
            at[j] = order[(step + j) * walkers + i];
        uint4 p[8], q[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            p[j] = places[2 * at[j]];
            q[j] = places[2 * at[j] + 1];
        }
#pragma unroll
        for (int j = 0; j < 8; ++j)
            sum += add8(p[j], q[j]);
    }
    y[i] = sum;
}
"""


@pair
def ways(n: int = 1 << 22, steps: int = 128) -> Pair:
    walkers = 256 * SMS
    places = whole(100, n, 8)
    places[:, 0] = numbers(n, seed=1).argsort()
    order = empty(steps, walkers, dtype=torch.int32)
    order[0] = torch.arange(walkers, device=DEVICE)
    for step in range(1, steps):
        order[step] = places[order[step - 1].long(), 0]
    y, z = empty(walkers, dtype=torch.int32), empty(walkers, dtype=torch.int32)

    def wanted() -> Tensor:
        return places[:, 1:].sum(1)[order.long()].sum(0)

    a = Version("ways_a", (SMS,), (256,), (places, y, steps), lambda: y)
    b = Version("ways_b", (SMS,), (256,), (places, order, z, steps), lambda: z)
    return Pair(WAYS, (a, b), wanted, ("int32", 7 * steps * walkers, 32 * steps * walkers + 4 * walkers), 0.0)


# How soon z * z + c grows beyond 2 ------------------------------------------------------------------------------------

ESCAPE = r"""
// Rounded after every operation, so that any machine counts the same.
__device__ __forceinline__ int escape(float a, float b, int limit)
{
    float x = 0.0f, y = 0.0f;
    int k = 0;
    for (; k < limit; ++k) {
        const float p = __fmul_rn(x, x), q = __fmul_rn(y, y);
        if (__fadd_rn(p, q) > 4.0f)
            break;
        y = __fadd_rn(__fmul_rn(__fadd_rn(x, x), y), b);
        x = __fadd_rn(__fadd_rn(p, -q), a);
    }
    return k;
}

// 16 rows per block: its own strip, or every 132nd row
template <bool STRIPS>
__device__ __forceinline__ void rows(int* out, int wide, int limit)
{
    for (int part = 0; part < 16; ++part) {
        const int row = STRIPS ? blockIdx.x * 16 + part : part * gridDim.x + blockIdx.x;
        for (int col = threadIdx.x; col < wide; col += 1024)
            out[(size_t)row * wide + col] = escape(col * 0.00146484375f - 2.0f, (row - 1056) * 0.0009765625f, limit);
    }
}

extern "C" __global__ void __launch_bounds__(1024) escape_a(int* __restrict__ out, int wide, int limit)
{
    rows<true>(out, wide, limit);
}

extern "C" __global__ void __launch_bounds__(1024) escape_b(int* __restrict__ out, int wide, int limit)
{
    rows<false>(out, wide, limit);
}
"""
STEPS_TO_ESCAPE = 566_165_828  # over all pixels


@pair
def escape(wide: int = 2048, limit: int = 512) -> Pair:
    high = 16 * SMS
    out, other = empty(high, wide, dtype=torch.int32), empty(high, wide, dtype=torch.int32)

    def wanted() -> Tensor:
        a = torch.arange(wide, device=DEVICE) * 0.00146484375 - 2.0
        b = ((torch.arange(high, device=DEVICE) - 1056) * 0.0009765625)[:, None]
        x, y, count = (
            torch.zeros(high, wide, device=DEVICE),
            torch.zeros(high, wide, device=DEVICE),
            torch.zeros_like(out),
        )
        alive = torch.ones(high, wide, dtype=torch.bool, device=DEVICE)
        for _ in range(limit):
            p, q = x * x, y * y
            alive &= ~(p + q > 4.0)
            count += alive
            x, y = torch.where(alive, p - q + a, x), torch.where(alive, (x + x) * y + b, y)
        return count

    a = Version("escape_a", (SMS,), (1024,), (out, wide, limit), lambda: out)
    b = Version("escape_b", (SMS,), (1024,), (other, wide, limit), lambda: other)
    return Pair(ESCAPE, (a, b), wanted, ("fp32", 8 * STEPS_TO_ESCAPE, 4 * high * wide), 0.0)


# Healthy: nothing is planted, and nothing large is to be promised ----------------------------------------------------

HEALTHY = (
    HEAD
    + r"""
__device__ __forceinline__ void adapt(float& p, float g, float& m, float& v)
{
    m = fmaf(0.9f, m, 0.1f * g);
    v = fmaf(0.99f, v, 0.01f * g * g);
    p -= 0.01f * __fdividef(m, sqrtf(v) + 1e-3f);
}

extern "C" __global__ void __launch_bounds__(256)
    adapted(const float4* __restrict__ p, const float4* __restrict__ g, const float4* __restrict__ m, const float4* __restrict__ v,
            float4* __restrict__ to, int n)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    float4 a = p[i], b = m[i], c = v[i];
    const float4 d = g[i];
    adapt(a.x, d.x, b.x, c.x);
    adapt(a.y, d.y, b.y, c.y);
    adapt(a.z, d.z, b.z, c.z);
    adapt(a.w, d.w, b.w, c.w);
    to[i] = a;
    to[n + i] = b;
    to[2 * (size_t)n + i] = c;
}

// A warp has a row of 1024.
extern "C" __global__ void __launch_bounds__(256) totals(const float4* __restrict__ x, float* __restrict__ y)
{
    const size_t row = (size_t)blockIdx.x * 8 + threadIdx.x / 32;
    float4 v[8];
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 8; ++j)
        v[j] = x[row * 256 + 32 * j + threadIdx.x % 32];
#pragma unroll
    for (int j = 0; j < 8; ++j)
        sum += add4(v[j]);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        y[row] = sum;
}

// Four complex numbers per thread
extern "C" __global__ void __launch_bounds__(256) spun(const float2* __restrict__ x, float2* __restrict__ y, int n, int steps, float a, float b)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float2 start[4], v[4];
#pragma unroll
    for (int e = 0; e < 4; ++e)
        v[e] = start[e] = x[e * n + i];
#pragma unroll 8
    for (int step = 0; step < steps; ++step)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            v[e] = make_float2(fmaf(a, v[e].x, fmaf(-b, v[e].y, start[e].x)), fmaf(b, v[e].x, fmaf(a, v[e].y, start[e].y)));
#pragma unroll
    for (int e = 0; e < 4; ++e)
        y[e * n + i] = v[e];
}
"""
)


@pair
def adapted(n: int = 1 << 25) -> Pair:
    p, g, m, v, to = numbers(n), numbers(n, seed=1), numbers(n, seed=2), numbers(n, seed=3) + 0.5, empty(3, n)

    def wanted() -> Tensor:
        first, second = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        return torch.stack([p - 0.01 * first / (second.sqrt() + 1e-3), first, second])

    only = Version("adapted", (n // 1024,), (256,), (p, g, m, v, to, n // 4), lambda: to)
    return Pair(HEALTHY, (only,), wanted, ("fp32", 12 * n, 28 * n), 1e-4)


@pair
def totals(rows: int = 1 << 17) -> Pair:
    x, y = numbers(rows, 1024) + 0.5, empty(rows)
    only = Version("totals", (rows // 8,), (256,), (x, y), lambda: y)
    return Pair(HEALTHY, (only,), lambda: x.double().sum(1), ("fp32", 1024 * rows, 4 * 1025 * rows), 1e-4)


@pair
def spun(n: int = 1 << 21, steps: int = 512) -> Pair:
    x, y = numbers(4, n, 2), empty(4, n, 2)

    def wanted() -> Tensor:
        return torch.view_as_real(torch.view_as_complex(x.double()) / (1 - complex(0.5, 0.25)))

    only = Version("spun", (n // 256,), (256,), (x, y, n, steps, 0.5, 0.25), lambda: y)
    return Pair(HEALTHY, (only,), wanted, ("fp32", 4 * 8 * steps * n, 64 * n), 1e-4)
