"""30 pairs of kernels and 4 healthy ones. truth.csv names the planted causes; `../pairs.py` checks, times and counts them.

The kernels in Triton are in programs.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

import torch
from pairs import DEVICE, HEAD, SMS, Pair, Tensor, Version, empty, numbers, pair, whole


def triton_version(
    name: str, grid: tuple[int, ...], values: tuple[Any, ...], result: Callable[[], Tensor], **options: int
) -> Version:
    """A kernel of programs.py, which is imported when it is launched: cases need no Triton."""

    def start() -> None:
        getattr(import_module("held_out_5.programs"), name)[grid](*values, **options)

    return Version(name, (), (), (), result, start=start)


# Bytes sent through each of 512 ports ---------------------------------------------------------------------------------

TRAFFIC = r"""
// A word has the port in its low 9 bits and the bytes of a packet above.
extern "C" __global__ void __launch_bounds__(256) traffic_a(const uint4* __restrict__ x, unsigned* total)
{
    const uint4 v = x[blockIdx.x * 256 + threadIdx.x];
    atomicAdd(total + (v.x & 511), v.x >> 9);
    atomicAdd(total + (v.y & 511), v.y >> 9);
    atomicAdd(total + (v.z & 511), v.z >> 9);
    atomicAdd(total + (v.w & 511), v.w >> 9);
}

extern "C" __global__ void __launch_bounds__(1024) traffic_b(const uint4* __restrict__ x, unsigned* total, int n)
{
    __shared__ unsigned mine[512];
    if (threadIdx.x < 512)
        mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < n; i += gridDim.x * 1024) {
        const uint4 v = x[i];
        atomicAdd(mine + (v.x & 511), v.x >> 9);
        atomicAdd(mine + (v.y & 511), v.y >> 9);
        atomicAdd(mine + (v.z & 511), v.z >> 9);
        atomicAdd(mine + (v.w & 511), v.w >> 9);
    }
    __syncthreads();
    if (threadIdx.x < 512)
        atomicAdd(total + threadIdx.x, mine[threadIdx.x]);
}
"""


@pair
def traffic(n: int = 1 << 24) -> Pair:
    x, y, z = whole(1 << 20, n), empty(512, dtype=torch.int32), empty(512, dtype=torch.int32)

    def wanted() -> Tensor:
        return torch.bincount(x & 511, weights=(x >> 9).double(), minlength=512)

    a = Version("traffic_a", (n // 1024,), (256,), (x, y), lambda: y, cleared=y)
    b = Version("traffic_b", (2 * SMS,), (1024,), (x, z, n // 4), lambda: z, cleared=z)
    return Pair(TRAFFIC, (a, b), wanted, ("int32", n, 4 * n + 2048), 0.0)


# How well each of the four bases was read, by parts of 4096 -----------------------------------------------------------

BASES = r"""
// A byte has the base in its low two bits and the quality above.
extern "C" __global__ void __launch_bounds__(256) bases_a(const uint4* __restrict__ x, int* __restrict__ y)
{
    __shared__ int sum[4];
    const uint4 v = x[blockIdx.x * 256 + threadIdx.x];
    const unsigned words[4] = {v.x, v.y, v.z, v.w};
    if (threadIdx.x < 4)
        sum[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) {
        const unsigned byte = words[k / 4] >> (8 * (k % 4)) & 255;
        atomicAdd(sum + (byte & 3), (int)(byte >> 2));
    }
    __syncthreads();
    if (threadIdx.x < 4)
        y[blockIdx.x * 4 + threadIdx.x] = sum[threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(256) bases_b(const uint4* __restrict__ x, int* __restrict__ y)
{
    __shared__ int sum[4];
    const uint4 v = x[blockIdx.x * 256 + threadIdx.x];
    const unsigned words[4] = {v.x, v.y, v.z, v.w};
    if (threadIdx.x < 4)
        sum[threadIdx.x] = 0;
    __syncthreads();
    int mine[4] = {};
#pragma unroll
    for (int k = 0; k < 16; ++k) {
        const unsigned byte = words[k / 4] >> (8 * (k % 4)) & 255;
#pragma unroll
        for (int base = 0; base < 4; ++base)
            mine[base] += (byte & 3) == base ? byte >> 2 : 0;
    }
#pragma unroll
    for (int base = 0; base < 4; ++base) {
        const int all = __reduce_add_sync(0xffffffffu, mine[base]);
        if (threadIdx.x % 32 == 0)
            atomicAdd(sum + base, all);
    }
    __syncthreads();
    if (threadIdx.x < 4)
        y[blockIdx.x * 4 + threadIdx.x] = sum[threadIdx.x];
}
"""


@pair
def bases(parts: int = 1 << 14) -> Pair:
    x = whole(256, parts, 4096).to(torch.uint8)
    y, z = empty(parts, 4, dtype=torch.int32), empty(parts, 4, dtype=torch.int32)

    def wanted() -> Tensor:
        return torch.stack([((x >> 2).int() * ((x & 3) == base)).sum(1) for base in range(4)], 1)

    a = Version("bases_a", (parts,), (256,), (x, y), lambda: y)
    b = Version("bases_b", (parts,), (256,), (x, z), lambda: z)
    return Pair(BASES, (a, b), wanted, ("int32", 4096 * parts, 4112 * parts), 0.0)


# Codes of 32 levels, shown as floats ----------------------------------------------------------------------------------

GAMMA = r"""
// The table may change while the kernel runs, so it is read past L1.
extern "C" __global__ void __launch_bounds__(256)
    gamma_a(const uchar4* __restrict__ x, const float* table, float4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const uchar4 v = x[i];
    y[i] = make_float4(__ldcg(table + v.x), __ldcg(table + v.y), __ldcg(table + v.z), __ldcg(table + v.w));
}

extern "C" __global__ void __launch_bounds__(256)
    gamma_b(const uchar4* __restrict__ x, const float* __restrict__ table, float4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const uchar4 v = x[i];
    y[i] = make_float4(__ldg(table + v.x), __ldg(table + v.y), __ldg(table + v.z), __ldg(table + v.w));
}
"""


@pair
def gamma(n: int = 1 << 25) -> Pair:
    x, table, y, z = whole(32, n).to(torch.uint8), numbers(32, seed=1), empty(n), empty(n)
    a = Version("gamma_a", (n // 1024,), (256,), (x, table, y), lambda: y)
    b = Version("gamma_b", (n // 1024,), (256,), (x, table, z), lambda: z)
    return Pair(GAMMA, (a, b), lambda: table[x.long()], ("fp32", 0, 5 * n + 128), 0.0)


# Inverse cube roots by an iteration, four per thread ------------------------------------------------------------------

ROOTS = r"""
template <int BLOCK>
__device__ __forceinline__ void roots(const float* x, float* y, int n, int steps)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    float of[4], r[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        of[e] = x[e * n + i] * (1.0f / 3.0f);
        r[e] = 1.0f;
    }
#pragma unroll 4
    for (int step = 0; step < steps; ++step)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            r[e] *= fmaf(-of[e], r[e] * r[e] * r[e], 4.0f / 3.0f);
#pragma unroll
    for (int e = 0; e < 4; ++e)
        y[e * n + i] = r[e];
}

extern "C" __global__ void __launch_bounds__(768, 2) roots_a(const float* __restrict__ x, float* __restrict__ y, int n, int steps)
{
    roots<768>(x, y, n, steps);
}

extern "C" __global__ void __launch_bounds__(96) roots_b(const float* __restrict__ x, float* __restrict__ y, int n, int steps)
{
    roots<96>(x, y, n, steps);
}
"""


@pair
def roots(blocks: int = 2 * SMS + 8, steps: int = 512) -> Pair:
    n = 768 * blocks
    x, y, z = numbers(4, n) + 1.0, empty(4, n), empty(4, n)
    a = Version("roots_a", (blocks,), (768,), (x, y, n, steps), lambda: y)
    b = Version("roots_b", (8 * blocks,), (96,), (x, z, n, steps), lambda: z)
    return Pair(ROOTS, (a, b), lambda: x.double() ** (-1 / 3), ("fp32", 20 * steps * n, 32 * n), 1e-4)


# A projection of tokens: products of bfloat16, summed in fp32 ---------------------------------------------------------

PROJECT = r"""
// x[m][depth], w[n][depth], z[m][n]; eight warps, each with 64 x 32 of 128 x 128. Rows of tiles have 16 words and 4 of padding.
extern "C" __global__ void __launch_bounds__(256)
    project_a(const uint4* __restrict__ x, const uint4* __restrict__ w, float* __restrict__ z, int n, int depth)
{
    __shared__ __align__(16) unsigned left[2][128][20], right[2][128][20];
    const int t = threadIdx.x, group = t % 32 / 4, word = t % 4, i = blockIdx.y * 128, j = blockIdx.x * 128;
    const int down = t / 128 * 64, across = t / 32 % 4 * 32, row = t / 4, part = t % 4, pitch = depth / 8;
    float sum[4][4][4] = {};
    uint4 p[2], q[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        p[half] = x[(size_t)(i + row + 64 * half) * pitch + part];
        q[half] = w[(size_t)(j + row + 64 * half) * pitch + part];
    }
    for (int k = 0; k < pitch; k += 4) {
        const int now = k / 4 % 2;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            *(uint4*)&left[now][row + 64 * half][4 * part] = p[half];
            *(uint4*)&right[now][row + 64 * half][4 * part] = q[half];
        }
        __syncthreads();
        if (k + 4 < pitch)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                p[half] = x[(size_t)(i + row + 64 * half) * pitch + k + 4 + part];
                q[half] = w[(size_t)(j + row + 64 * half) * pitch + k + 4 + part];
            }
#pragma unroll
        for (int e = word; e < word + 16; e += 8) {
            unsigned a[4][4], b[4][2];
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const int line = down + 16 * r + group;
                a[r][0] = left[now][line][e];
                a[r][1] = left[now][line + 8][e];
                a[r][2] = left[now][line][e + 4];
                a[r][3] = left[now][line + 8][e + 4];
            }
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                b[c][0] = right[now][across + 8 * c + group][e];
                b[c][1] = right[now][across + 8 * c + group][e + 4];
            }
#pragma unroll
            for (int r = 0; r < 4; ++r)
#pragma unroll
                for (int c = 0; c < 4; ++c) {
                    float* const s = sum[r][c];
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                 : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
                                 : "r"(a[r][0]), "r"(a[r][1]), "r"(a[r][2]), "r"(a[r][3]), "r"(b[c][0]), "r"(b[c][1]));
                }
        }
    }
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            float* const at = z + (size_t)(i + down + 16 * r + group) * n + j + across + 8 * c + 2 * word;
            *(float2*)at = make_float2(sum[r][c][0], sum[r][c][1]);
            *(float2*)(at + 8 * (size_t)n) = make_float2(sum[r][c][2], sum[r][c][3]);
        }
}
"""


@pair
def project(m: int = 4096, n: int = 4096, depth: int = 4096) -> Pair:
    x, w = numbers(m, depth).bfloat16(), numbers(n, depth, seed=1).bfloat16()
    y, z = empty(m, n), empty(m, n)
    a = Version("project_a", (n // 128, m // 128), (256,), (x, w, y, n, depth), lambda: y)
    b = triton_version(
        "project_b",
        (m // 128 * (n // 256),),
        (x, w, z, m, n, depth, 128, 256, 64),
        lambda: z,
        num_warps=8,
        num_stages=3,
    )
    work = ("bf16", 2 * m * n * depth, 2 * depth * (m + n) + 4 * m * n)
    return Pair(PROJECT, (a, b), lambda: x.float() @ w.float().t(), work, 1e-2, gemm=(m, n, depth))


# Two channels of 16-bit samples mixed into one ------------------------------------------------------------------------

MONO = r"""
extern "C" __global__ void __launch_bounds__(256)
    mono_a(const short* __restrict__ x, const short* __restrict__ y, short* __restrict__ z)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    z[i] = (x[i] + y[i]) >> 1;
}

__device__ __forceinline__ unsigned mixed(unsigned p, unsigned q)
{
    const int low = ((short)p + (short)q) >> 1, high = ((short)(p >> 16) + (short)(q >> 16)) >> 1;
    return (unsigned)low & 0xffffu | (unsigned)high << 16;
}

extern "C" __global__ void __launch_bounds__(256)
    mono_b(const uint4* __restrict__ x, const uint4* __restrict__ y, uint4* __restrict__ z)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const uint4 p = x[i], q = y[i];
    z[i] = make_uint4(mixed(p.x, q.x), mixed(p.y, q.y), mixed(p.z, q.z), mixed(p.w, q.w));
}
"""


@pair
def mono(n: int = 1 << 26) -> Pair:
    x, y = (whole(65536, n, seed=seed).sub_(32768).short() for seed in (0, 1))
    p, q = empty(n, dtype=torch.int16), empty(n, dtype=torch.int16)
    a = Version("mono_a", (n // 256,), (256,), (x, y, p), lambda: p)
    b = Version("mono_b", (n // 2048,), (256,), (x, y, q), lambda: q)
    return Pair(MONO, (a, b), lambda: (x.int() + y.int()) >> 1, ("int32", 2 * n, 6 * n), 0.0)


# A checksum of every block of 64 KB -----------------------------------------------------------------------------------

PARITY = r"""
__device__ __forceinline__ void checked(unsigned mine, unsigned* y)
{
    __shared__ unsigned parts[8];
    mine = __reduce_xor_sync(0xffffffffu, mine);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x == 0)
        y[blockIdx.x] = ((parts[0] ^ parts[1]) ^ (parts[2] ^ parts[3])) ^ ((parts[4] ^ parts[5]) ^ (parts[6] ^ parts[7]));
}

extern "C" __global__ void __launch_bounds__(256) parity_a(const unsigned* __restrict__ x, unsigned* __restrict__ y)
{
    const unsigned* const from = x + (size_t)blockIdx.x * 16384;
    unsigned mine = 0;
#pragma unroll 1
    for (int i = threadIdx.x; i < 16384; i += 256)
        mine = mine * 33 ^ from[i];
    checked(mine, y);
}

extern "C" __global__ void __launch_bounds__(256) parity_b(const unsigned* __restrict__ x, unsigned* __restrict__ y)
{
    const unsigned* const from = x + (size_t)blockIdx.x * 16384;
    unsigned mine = 0;
#pragma unroll 1
    for (int i = threadIdx.x; i < 16384; i += 4096) {
        unsigned v[16];
#pragma unroll
        for (int j = 0; j < 16; ++j)
            v[j] = from[i + 256 * j];
#pragma unroll
        for (int j = 0; j < 16; ++j)
            mine = mine * 33 ^ v[j];
    }
    checked(mine, y);
}
"""


@pair
def parity(blocks: int = 4096) -> Pair:
    x = whole(1 << 30, blocks, 64, 256)
    y, z = empty(blocks, dtype=torch.int32), empty(blocks, dtype=torch.int32)

    def wanted() -> Tensor:
        mine = torch.zeros(blocks, 256, dtype=torch.int32, device=DEVICE)
        for k in range(64):
            mine = mine * 33 ^ x[:, k]
        while mine.shape[1] > 1:
            half = mine.shape[1] // 2
            mine = mine[:, :half] ^ mine[:, half:]
        return mine[:, 0]

    a = Version("parity_a", (blocks,), (256,), (x, y), lambda: y)
    b = Version("parity_b", (blocks,), (256,), (x, z), lambda: z)
    return Pair(PARITY, (a, b), wanted, ("int32", 2 * 16384 * blocks, 4 * 16385 * blocks), 0.0)


# What was paid in every trade -----------------------------------------------------------------------------------------

TRADES = r"""
// A record has ten floats; price and volume are the fourth and the fifth.
extern "C" __global__ void __launch_bounds__(256) trades_a(const float* __restrict__ records, float* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    y[i] = records[10 * i + 3] * records[10 * i + 4];
}

extern "C" __global__ void __launch_bounds__(256)
    trades_b(const float4* __restrict__ price, const float4* __restrict__ volume, float4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float4 p = price[i], q = volume[i];
    y[i] = make_float4(p.x * q.x, p.y * q.y, p.z * q.z, p.w * q.w);
}
"""


@pair
def trades(n: int = 1 << 23) -> Pair:
    records, y, z = numbers(n, 10), empty(n), empty(n)
    price, volume = records[:, 3].contiguous(), records[:, 4].contiguous()
    a = Version("trades_a", (n // 256,), (256,), (records, y), lambda: y)
    b = Version("trades_b", (n // 1024,), (256,), (price, volume, z), lambda: z)
    return Pair(TRADES, (a, b), lambda: price * volume, ("fp32", n, 12 * n))


# Sums of columns, in Triton -------------------------------------------------------------------------------------------


@pair
def column(rows: int = 16384, cols: int = 2048) -> Pair:
    x, y, z = numbers(rows, cols) + 0.5, empty(cols), empty(rows // 128, cols)
    a = triton_version("column_a", (cols,), (x, y, rows, cols, 1024), lambda: y, num_warps=4)
    b = triton_version(
        "column_b", (cols // 128, rows // 128), (x, z, cols, 128, 16, 128), lambda: z.sum(0), num_warps=4
    )
    return Pair("", (a, b), lambda: x.double().sum(0), ("fp32", rows * cols, 4 * (rows + 1) * cols), 1e-4)


# Forces between nodes of a mesh that are near in number ---------------------------------------------------------------

SPRINGS = r"""
// A node is x, its speed, y, its speed, z, its speed, mass, charge. AT gives the place of a field in shared memory.
#define FORCES(AT)                                                                                                             \
    __shared__ __align__(16) float s[2048];                                                                                    \
    const int t = threadIdx.x;                                                                                                 \
    const float4 p = nodes[(size_t)blockIdx.x * 512 + 2 * t], q = nodes[(size_t)blockIdx.x * 512 + 2 * t + 1];                 \
    const float all[8] = {p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w};                                                             \
    _Pragma("unroll") for (int f = 0; f < 8; ++f) s[AT(t, f)] = all[f];                                                        \
    __syncthreads();                                                                                                           \
    float fx = 0.0f, fy = 0.0f, fz = 0.0f;                                                                                     \
    _Pragma("unroll 4") for (int k = 1; k <= 64; ++k)                                                                          \
    {                                                                                                                          \
        const int other = (t + k) % 256;                                                                                       \
        const float a = s[AT(other, 0)] - p.x, b = s[AT(other, 2)] - p.z, c = s[AT(other, 4)] - q.x;                           \
        const float by = __fdividef(s[AT(other, 7)], fmaf(a, a, fmaf(b, b, fmaf(c, c, 0.25f))));                               \
        fx = fmaf(by, a, fx);                                                                                                  \
        fy = fmaf(by, b, fy);                                                                                                  \
        fz = fmaf(by, c, fz);                                                                                                  \
    }                                                                                                                          \
    forces[(size_t)blockIdx.x * 256 + t] = make_float4(fx, fy, fz, 0.0f);

#define BY_NODE(node, field) (8 * (node) + (field))
#define BY_FIELD(node, field) (256 * (field) + (node))

extern "C" __global__ void __launch_bounds__(256) springs_a(const float4* __restrict__ nodes, float4* __restrict__ forces)
{
    FORCES(BY_NODE)
}

extern "C" __global__ void __launch_bounds__(256) springs_b(const float4* __restrict__ nodes, float4* __restrict__ forces)
{
    FORCES(BY_FIELD)
}
"""


@pair
def springs(blocks: int = 2048) -> Pair:
    x, y, z = numbers(blocks, 256, 8), empty(blocks, 256, 4), empty(blocks, 256, 4)

    def wanted() -> Tensor:
        at, charge = x[:, :, [0, 2, 4]].double(), x[:, :, 7:].double()
        total = torch.zeros(blocks, 256, 4, dtype=torch.float64, device=DEVICE)
        for k in range(1, 65):
            way = at.roll(-k, 1) - at
            total[:, :, :3] += charge.roll(-k, 1) * way / (way.square().sum(2, keepdim=True) + 0.25)
        return total

    a = Version("springs_a", (blocks,), (256,), (x, y), lambda: y)
    b = Version("springs_b", (blocks,), (256,), (x, z), lambda: z)
    return Pair(SPRINGS, (a, b), wanted, ("fp32", 64 * 16 * 256 * blocks, 48 * 256 * blocks), 1e-4)


# The inverse of matrices of 6 x 6 -------------------------------------------------------------------------------------

INVERSE = r"""
// x[36][n]; Gauss-Jordan in place
__device__ __forceinline__ void inverse(const float* x, float* y, int n, int i)
{
    float m[36];
#pragma unroll
    for (int k = 0; k < 36; ++k)
        m[k] = x[(size_t)k * n + i];
#pragma unroll
    for (int p = 0; p < 6; ++p) {
        const float by = __fdividef(1.0f, m[7 * p]);
        m[7 * p] = 1.0f;
#pragma unroll
        for (int c = 0; c < 6; ++c)
            m[6 * p + c] *= by;
#pragma unroll
        for (int r = 0; r < 6; ++r) {
            if (r == p)
                continue;
            const float factor = m[6 * r + p];
            m[6 * r + p] = 0.0f;
#pragma unroll
            for (int c = 0; c < 6; ++c)
                m[6 * r + c] = fmaf(-factor, m[6 * p + c], m[6 * r + c]);
        }
    }
#pragma unroll
    for (int k = 0; k < 36; ++k)
        y[(size_t)k * n + i] = m[k];
}

extern "C" __global__ void __launch_bounds__(1024, 2) inverse_a(const float* __restrict__ x, float* __restrict__ y, int n)
{
    inverse(x, y, n, blockIdx.x * 1024 + threadIdx.x);
}

extern "C" __global__ void __launch_bounds__(128) inverse_b(const float* __restrict__ x, float* __restrict__ y, int n)
{
    inverse(x, y, n, blockIdx.x * 128 + threadIdx.x);
}
"""


@pair
def inverse(n: int = 1 << 19) -> Pair:
    x, y, z = numbers(36, n), empty(36, n), empty(36, n)
    x[::7] += 4.0
    a = Version("inverse_a", (n // 1024,), (1024,), (x, y, n), lambda: y)
    b = Version("inverse_b", (n // 128,), (128,), (x, z, n), lambda: z)

    def wanted() -> Tensor:
        return torch.linalg.inv(x.double().t().reshape(n, 6, 6)).reshape(n, 36).t()

    return Pair(INVERSE, (a, b), wanted, ("fp32", 6 * (6 + 60) * n, 288 * n), 1e-3)


# Running sums of 32 numbers in an order that is given -----------------------------------------------------------------

ORDERED = r"""
// x[32][n]
extern "C" __global__ void __launch_bounds__(256)
    ordered_a(const float* __restrict__ x, const int* __restrict__ order, float* __restrict__ y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float v[32], sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 32; ++k)
        v[k] = x[(size_t)k * n + i];
#pragma unroll 8
    for (int k = 0; k < 32; ++k) {
        sum += v[order[k]];
        y[(size_t)k * n + i] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(256)
    ordered_b(const float* __restrict__ x, const int* __restrict__ order, float* __restrict__ y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 8
    for (int k = 0; k < 32; ++k) {
        sum += x[(size_t)order[k] * n + i];
        y[(size_t)k * n + i] = sum;
    }
}
"""


@pair
def ordered(n: int = 1 << 20) -> Pair:
    x, y, z = numbers(32, n), empty(32, n), empty(32, n)
    order = (torch.arange(32, device=DEVICE, dtype=torch.int32) * 13 + 5) % 32
    a = Version("ordered_a", (n // 256,), (256,), (x, order, y, n), lambda: y)
    b = Version("ordered_b", (n // 256,), (256,), (x, order, z, n), lambda: z)
    return Pair(ORDERED, (a, b), lambda: x[order.long()].double().cumsum(0), ("fp32", 32 * n, 256 * n), 1e-4)


# Samples scaled, and broken ones repaired by a long way around --------------------------------------------------------

REPAIRED = r"""
// 100 numbers around the sample are held in registers. It hardly ever happens.
__device__ __forceinline__ float repair(const float* around, float value)
{
    float w[100];
#pragma unroll
    for (int k = 0; k < 100; ++k)
        w[k] = around[k] - value;
#pragma unroll 1
    for (int step = 0; step < 16; ++step)
#pragma unroll
        for (int k = 0; k < 100; ++k)
            w[k] = fmaf(w[(k + 37) % 100], w[(k + 1) % 100], 0.5f * w[k]);
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 100; ++k)
        sum += w[k];
    return sum * 0.01f;
}

__device__ __forceinline__ void repaired(const float4* x, const float* around, float4* y, float by, float limit)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    float4 v = x[i];
    const float largest = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
    if (largest > limit)
        v.x = repair(around, largest);
    y[i] = make_float4(by * v.x, by * v.y, by * v.z, by * v.w);
}

extern "C" __global__ void __launch_bounds__(256)
    repaired_a(const float4* __restrict__ x, const float* __restrict__ around, float4* __restrict__ y, float by, float limit)
{
    repaired(x, around, y, by, limit);
}

extern "C" __global__ void __launch_bounds__(256, 8)
    repaired_b(const float4* __restrict__ x, const float* __restrict__ around, float4* __restrict__ y, float by, float limit)
{
    repaired(x, around, y, by, limit);
}
"""


@pair
def repaired(n: int = 1 << 25) -> Pair:
    x, around, y, z = numbers(n), numbers(100, seed=1), empty(n), empty(n)
    a = Version("repaired_a", (n // 1024,), (256,), (x, around, y, 0.75, 8.0), lambda: y)
    b = Version("repaired_b", (n // 1024,), (256,), (x, around, z, 0.75, 8.0), lambda: z)
    return Pair(REPAIRED, (a, b), lambda: 0.75 * x, ("fp32", n, 8 * n))


# Between two signals by a third one, in Triton ------------------------------------------------------------------------


@pair
def lerp(n: int = 1 << 24) -> Pair:
    x, y, t = numbers(n), numbers(n, seed=1), numbers(n, seed=2)
    p, q = empty(n), empty(n)
    a = triton_version("lerp_a", (n // 32,), (x, y, t, p, 32), lambda: p, num_warps=1)
    b = triton_version("lerp_b", (n // 1024,), (x, y, t, q, 1024), lambda: q, num_warps=4)
    return Pair("", (a, b), lambda: x + t * (y - x), ("fp32", 3 * n, 16 * n))


# Sums of the absolute numbers of a few long rows, in Triton -----------------------------------------------------------


@pair
def weight(rows: int = 24, cols: int = 1 << 20, parts: int = 64) -> Pair:
    x, y, z = numbers(rows, cols), empty(rows), empty(rows, parts)
    a = triton_version("weight_a", (rows,), (x, y, cols, cols, 4096), lambda: y, num_warps=8)
    b = triton_version(
        "weight_b", (rows * parts,), (x, z, cols // parts, cols // parts, 4096), lambda: z.sum(1), num_warps=8
    )
    return Pair("", (a, b), lambda: x.double().abs().sum(1), ("fp32", rows * cols, 4 * rows * (cols + 1)), 1e-4)


# Steps until a number comes to one: halved where even, else three times and one more ----------------------------------

COLLATZ = r"""
extern "C" __global__ void __launch_bounds__(256) collatz_a(const unsigned* __restrict__ x, int* __restrict__ y)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    unsigned at = x[i];
    int steps = 0;
    while (at != 1) {
        at = at & 1 ? 3 * at + 1 : at / 2;
        ++steps;
    }
    y[i] = steps;
}

extern "C" __global__ void __launch_bounds__(256) collatz_b(const unsigned* __restrict__ x, int* __restrict__ y)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    unsigned at = x[i];
    int steps = 0;
    while (at != 1) {
        at = at & 1 ? 3 * at + 1 : at / 2;
        ++steps;
    }
    y[i] = steps;
}
"""
COLLATZ_HIGH = 131071  # below it the numbers on the way stay under 2^32


@lru_cache(maxsize=1)
def collatz_steps() -> list[int]:
    steps = [0, 0]
    for start in range(2, COLLATZ_HIGH + 1):
        at, count = start, 0
        while at >= start:
            at, count = (3 * at + 1 if at & 1 else at // 2), count + 1
        steps.append(count + steps[at])
    return steps


@pair
def collatz(n: int = 1 << 22) -> Pair:
    known = torch.tensor(collatz_steps(), dtype=torch.int32)
    start = torch.arange(n) * 40503 % COLLATZ_HIGH + 1
    steps = int(known[start].sum())
    ordered = start[known[start].argsort(stable=True)]
    x, u = start.int().to(DEVICE), ordered.int().to(DEVICE)
    y, z = empty(n, dtype=torch.int32), empty(n, dtype=torch.int32)

    a = Version("collatz_a", (n // 256,), (256,), (x, y), lambda: y.sort().values)
    b = Version("collatz_b", (n // 256,), (256,), (u, z), lambda: z.sort().values)
    return Pair(COLLATZ, (a, b), lambda: known[start].sort().values.to(DEVICE), ("int32", 4 * steps, 8 * n), 0.0)


# Rows of 96 with mean zero and variance one, in Triton ----------------------------------------------------------------


@pair
def narrow(rows: int = 1 << 17, cols: int = 96) -> Pair:
    x, y, z = numbers(rows, cols), empty(rows, cols), empty(rows, cols)

    def wanted() -> Tensor:
        wide = x.double()
        return (wide - wide.mean(1, keepdim=True)) / (wide.var(1, keepdim=True, correction=0) + 1e-5).sqrt()

    a = triton_version("narrow_a", (rows,), (x, y, cols, 1, 1024), lambda: y, num_warps=4)
    b = triton_version("narrow_b", (rows // 16,), (x, z, cols, 16, 128), lambda: z, num_warps=4)
    return Pair("", (a, b), wanted, ("fp32", 8 * rows * cols, 8 * rows * cols), 1e-3)


# Rows of 512 sorted ---------------------------------------------------------------------------------------------------

BITONIC = r"""
extern "C" __global__ void __launch_bounds__(512) bitonic_a(const float* __restrict__ x, float* __restrict__ y)
{
    __shared__ float s[512];
    const int t = threadIdx.x;
    s[t] = x[(size_t)blockIdx.x * 512 + t];
    __syncthreads();
    for (int size = 2; size <= 512; size *= 2)
        for (int apart = size / 2; apart; apart /= 2) {
            const float mine = s[t], other = s[t ^ apart];
            const bool low = ((t & apart) == 0) == ((t & size) == 0);
            __syncthreads();
            s[t] = low ? fminf(mine, other) : fmaxf(mine, other);
            __syncthreads();
        }
    y[(size_t)blockIdx.x * 512 + t] = s[t];
}

// Within a warp by shuffles
extern "C" __global__ void __launch_bounds__(512) bitonic_b(const float* __restrict__ x, float* __restrict__ y)
{
    __shared__ float s[512];
    const int t = threadIdx.x;
    float mine = x[(size_t)blockIdx.x * 512 + t];
    for (int size = 2; size <= 512; size *= 2)
        for (int apart = size / 2; apart; apart /= 2) {
            float other;
            if (apart >= 32) {
                __syncthreads();
                s[t] = mine;
                __syncthreads();
                other = s[t ^ apart];
            } else
                other = __shfl_xor_sync(0xffffffffu, mine, apart);
            const bool low = ((t & apart) == 0) == ((t & size) == 0);
            mine = low ? fminf(mine, other) : fmaxf(mine, other);
        }
    y[(size_t)blockIdx.x * 512 + t] = mine;
}
"""


@pair
def bitonic(rows: int = 1 << 15) -> Pair:
    x, y, z = numbers(rows, 512), empty(rows, 512), empty(rows, 512)
    a = Version("bitonic_a", (rows,), (512,), (x, y), lambda: y)
    b = Version("bitonic_b", (rows,), (512,), (x, z), lambda: z)
    return Pair(BITONIC, (a, b), lambda: x.sort(1).values, ("fp32", 45 * 512 * rows, 8 * 512 * rows), 0.0)


# The 64th power of matrices of 2 x 2 ----------------------------------------------------------------------------------

MATPOW = r"""
__device__ __forceinline__ float4 times(float4 p, float4 q)
{
    return make_float4(fmaf(p.x, q.x, p.y * q.z), fmaf(p.x, q.y, p.y * q.w), fmaf(p.z, q.x, p.w * q.z), fmaf(p.z, q.y, p.w * q.w));
}

extern "C" __global__ void __launch_bounds__(256) matpow_a(const float4* __restrict__ x, float4* __restrict__ y, int power)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float4 v = x[i];
    float4 result = v;
#pragma unroll 7
    for (int k = 1; k < power; ++k)
        result = times(result, v);
    y[i] = result;
}

// The power is one of two.
extern "C" __global__ void __launch_bounds__(256) matpow_b(const float4* __restrict__ x, float4* __restrict__ y, int power)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    float4 result = x[i];
    for (int k = 1; k < power; k *= 2)
        result = times(result, result);
    y[i] = result;
}
"""


@pair
def matpow(n: int = 1 << 23) -> Pair:
    x, y, z = 0.2 * numbers(n, 2, 2), empty(n, 2, 2), empty(n, 2, 2)
    x += 0.95 * torch.eye(2, device=DEVICE)
    a = Version("matpow_a", (n // 256,), (256,), (x, y, 64), lambda: y)
    b = Version("matpow_b", (n // 256,), (256,), (x, z, 64), lambda: z)
    return Pair(MATPOW, (a, b), lambda: torch.linalg.matrix_power(x.double(), 64), ("fp32", 72 * n, 32 * n), 1e-3)


# Means over sequences that are padded to 512 --------------------------------------------------------------------------

PADDED = (
    HEAD
    + r"""
__device__ __forceinline__ float kept(float4 v, int at, int length)
{
    const float first = (at < length ? v.x : 0.0f) + (at + 1 < length ? v.y : 0.0f);
    return first + (at + 2 < length ? v.z : 0.0f) + (at + 3 < length ? v.w : 0.0f);
}

// A warp has a sequence.
extern "C" __global__ void __launch_bounds__(256)
    padded_a(const float4* __restrict__ x, const int* __restrict__ lengths, float* __restrict__ y)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32, length = lengths[row];
    float4 v[4];
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k)
        v[k] = x[(size_t)row * 128 + 32 * k + lane];
#pragma unroll
    for (int k = 0; k < 4; ++k)
        sum += kept(v[k], 128 * k + 4 * lane, length);
    sum = warp_sum(sum);
    if (lane == 0)
        y[row] = sum / length;
}

extern "C" __global__ void __launch_bounds__(256)
    padded_b(const float4* __restrict__ x, const int* __restrict__ lengths, float* __restrict__ y)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32, length = lengths[row];
    float4 v[4];
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k)
        v[k] = 128 * k + 4 * lane < length ? x[(size_t)row * 128 + 32 * k + lane] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int k = 0; k < 4; ++k)
        sum += kept(v[k], 128 * k + 4 * lane, length);
    sum = warp_sum(sum);
    if (lane == 0)
        y[row] = sum / length;
}
"""
)


@pair
def padded(rows: int = 1 << 17) -> Pair:
    x, y, z = numbers(rows, 512) + 0.5, empty(rows), empty(rows)
    lengths = torch.arange(rows, device=DEVICE, dtype=torch.int32) * 37 % 255 + 1
    total = sum(row * 37 % 255 + 1 for row in range(rows))

    def wanted() -> Tensor:
        kept = torch.arange(512, device=DEVICE) < lengths[:, None]
        return (x.double() * kept).sum(1) / lengths

    a = Version("padded_a", (rows // 8,), (256,), (x, lengths, y), lambda: y)
    b = Version("padded_b", (rows // 8,), (256,), (x, lengths, z), lambda: z)
    return Pair(PADDED, (a, b), wanted, ("fp32", total, 4 * total + 8 * rows), 1e-4)


# Numbers scaled, shifted and bent -------------------------------------------------------------------------------------

SOFTEN = r"""
__device__ __forceinline__ float4 placed(float4 v, float by, float shift)
{
    return make_float4(fmaf(by, v.x, shift), fmaf(by, v.y, shift), fmaf(by, v.z, shift), fmaf(by, v.w, shift));
}

__device__ __forceinline__ float bent(float v) { return __fdividef(v, 1.0f + fabsf(v)); }
__device__ __forceinline__ float4 bent4(float4 v) { return make_float4(bent(v.x), bent(v.y), bent(v.z), bent(v.w)); }

extern "C" __global__ void __launch_bounds__(256) soften_a(const float4* __restrict__ x, float4* __restrict__ y, float by, float shift)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    y[i] = placed(x[i], by, shift);
}

extern "C" __global__ void __launch_bounds__(256) soften_a2(const float4* __restrict__ x, float4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    y[i] = bent4(x[i]);
}

extern "C" __global__ void __launch_bounds__(256) soften_b(const float4* __restrict__ x, float4* __restrict__ y, float by, float shift)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    y[i] = bent4(placed(x[i], by, shift));
}
"""


@pair
def soften(n: int = 1 << 25) -> Pair:
    x, middle, y, z = numbers(n), empty(n), empty(n), empty(n)

    def wanted() -> Tensor:
        placed = 3.0 * x + 0.5
        return placed / (1 + placed.abs())

    a = Version("soften_a", (n // 1024,), (256,), (x, middle, 3.0, 0.5), lambda: middle / (1 + middle.abs()))
    then = Version("soften_a2", (n // 1024,), (256,), (middle, y), lambda: y)
    b = Version("soften_b", (n // 1024,), (256,), (x, z, 3.0, 0.5), lambda: z)
    return Pair(SOFTEN, (a, then, b), wanted, ("fp32", 2 * n, 8 * n))


# Values weighed by attention, 64 heads --------------------------------------------------------------------------------

ATTEND = r"""
// p[heads][512][512], v[heads][512][64]
extern "C" __global__ void __launch_bounds__(256)
    attend_a(const float* __restrict__ p, const float* __restrict__ v, float* __restrict__ y)
{
    const int col = threadIdx.x % 64, row = blockIdx.x * 4 + threadIdx.x / 64;
    const float* const by = p + ((size_t)blockIdx.y * 512 + row) * 512;
    const float* const of = v + (size_t)blockIdx.y * 512 * 64 + col;
    float sum = 0.0f;
#pragma unroll 8
    for (int k = 0; k < 512; ++k)
        sum = fmaf(by[k], of[64 * k], sum);
    y[((size_t)blockIdx.y * 512 + row) * 64 + col] = sum;
}

// 64 x 64 by 256 threads, 4 x 4 each
extern "C" __global__ void __launch_bounds__(256)
    attend_b(const float* __restrict__ p, const float* __restrict__ v, float* __restrict__ y)
{
    __shared__ __align__(16) float left[32][68], right[32][64];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const float* const by = p + ((size_t)blockIdx.y * 512 + blockIdx.x * 64) * 512;
    const float* const of = v + (size_t)blockIdx.y * 512 * 64;
    float sum[4][4] = {};
    for (int k = 0; k < 512; k += 32) {
#pragma unroll
        for (int part = 0; part < 8; ++part) {
            left[t % 32][t / 32 + 8 * part] = by[(size_t)(t / 32 + 8 * part) * 512 + k + t % 32];
            right[t / 64 + 4 * part][t % 64] = of[64 * (k + t / 64 + 4 * part) + t % 64];
        }
        __syncthreads();
#pragma unroll
        for (int e = 0; e < 32; ++e) {
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
    float* const to = y + ((size_t)blockIdx.y * 512 + blockIdx.x * 64 + 4 * ty) * 64 + 4 * tx;
#pragma unroll
    for (int r = 0; r < 4; ++r)
        *(float4*)(to + 64 * r) = make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
}
"""


@pair
def attend(heads: int = 128) -> Pair:
    p, v, y, z = numbers(heads, 512, 512), numbers(heads, 512, 64, seed=1), empty(heads, 512, 64), empty(heads, 512, 64)
    a = Version("attend_a", (128, heads), (256,), (p, v, y), lambda: y)
    b = Version("attend_b", (8, heads), (256,), (p, v, z), lambda: z)
    work = ("fp32", 2 * heads * 512 * 512 * 64, 4 * heads * 512 * (512 + 64 + 64))
    return Pair(ATTEND, (a, b), lambda: p.double() @ v.double(), work, 1e-4)


# Products of bfloat16 without a matrix instruction, in Triton ---------------------------------------------------------


@pair
def outer(m: int = 4096, n: int = 4096, depth: int = 256) -> Pair:
    x, w = numbers(depth, m).bfloat16(), numbers(depth, n, seed=1).bfloat16()
    y, z = empty(m, n), empty(m, n)
    a = triton_version("outer_a", (m // 64, n // 64), (x, w, y, m, n, depth, 64, 64), lambda: y, num_warps=8)
    b = triton_version(
        "outer_b", (m // 128, n // 128), (x, w, z, m, n, depth, 128, 128, 64), lambda: z, num_warps=8, num_stages=3
    )
    work = ("bf16", 2 * m * n * depth, 2 * depth * (m + n) + 4 * m * n)
    return Pair("", (a, b), lambda: x.float().t() @ w.float(), work, 1e-2, gemm=(m, n, depth))


# Products of fp32 in full precision where TF32 would do, in Triton ----------------------------------------------------


@pair
def exact(m: int = 2048, n: int = 2048, depth: int = 2048) -> Pair:
    x, w, y, z = numbers(m, depth), numbers(n, depth, seed=1), empty(m, n), empty(m, n)
    a = triton_version(
        "exact_a", (m // 64 * (n // 64),), (x, w, y, m, n, depth, 64, 64, 32), lambda: y, num_warps=8, num_stages=3
    )
    b = triton_version(
        "exact_b", (m // 128 * (n // 128),), (x, w, z, m, n, depth, 128, 128, 32), lambda: z, num_warps=8, num_stages=3
    )
    work = ("fp32", 2 * m * n * depth, 4 * depth * (m + n) + 4 * m * n)
    return Pair("", (a, b), lambda: x.double() @ w.double().t(), work, 1e-2, gemm=(m, n, depth))


# Linear light as the numbers of a screen ------------------------------------------------------------------------------

SRGB = r"""
extern "C" __global__ void __launch_bounds__(256) srgb_a(const float4* __restrict__ x, float4* __restrict__ y)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float4 v = x[i];
    float part[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int k = 0; k < 4; ++k)
        part[k] = part[k] <= 0.0031308 ? 12.92 * part[k] : 1.055 * pow((double)part[k], 1.0 / 2.4) - 0.055;
    y[i] = make_float4(part[0], part[1], part[2], part[3]);
}

extern "C" __global__ void __launch_bounds__(256) srgb_b(const float4* __restrict__ x, float4* __restrict__ y)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float4 v = x[i];
    float part[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int k = 0; k < 4; ++k)
        part[k] = part[k] <= 0.0031308f ? 12.92f * part[k] : fmaf(1.055f, __powf(part[k], 1.0f / 2.4f), -0.055f);
    y[i] = make_float4(part[0], part[1], part[2], part[3]);
}
"""


@pair
def srgb(n: int = 1 << 24) -> Pair:
    x, y, z = numbers(n) + 0.5, empty(n), empty(n)

    def wanted() -> Tensor:
        light = x.double()
        return torch.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)

    a = Version("srgb_a", (n // 1024,), (256,), (x, y), lambda: y)
    b = Version("srgb_b", (n // 1024,), (256,), (x, z), lambda: z)
    return Pair(SRGB, (a, b), wanted, ("fp32", 5 * n, 8 * n), 1e-4)


# Points of a picture, moved as a lens does ----------------------------------------------------------------------------

LENS = r"""
// The exponents are multiples of `two`.
extern "C" __global__ void __launch_bounds__(256) lens_a(const float4* __restrict__ x, float4* __restrict__ y, float two, float by)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float4 v = x[i];
    const float p = sqrtf(fmaf(v.x, v.x, v.y * v.y)), q = sqrtf(fmaf(v.z, v.z, v.w * v.w));
    float first = 1.0f, second = 1.0f, factor = by;
#pragma unroll
    for (int k = 1; k <= 4; ++k) {
        first += factor * powf(p, two * k);
        second += factor * powf(q, two * k);
        factor *= by;
    }
    y[i] = make_float4(first * v.x, first * v.y, second * v.z, second * v.w);
}

extern "C" __global__ void __launch_bounds__(256) lens_b(const float4* __restrict__ x, float4* __restrict__ y, float by)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float4 v = x[i];
    const float p = by * fmaf(v.x, v.x, v.y * v.y), q = by * fmaf(v.z, v.z, v.w * v.w);
    const float first = fmaf(p, fmaf(p, fmaf(p, 1.0f + p, 1.0f), 1.0f), 1.0f);
    const float second = fmaf(q, fmaf(q, fmaf(q, 1.0f + q, 1.0f), 1.0f), 1.0f);
    y[i] = make_float4(first * v.x, first * v.y, second * v.z, second * v.w);
}
"""


@pair
def lens(n: int = 1 << 24) -> Pair:
    x, y, z = numbers(n, 2), empty(n, 2), empty(n, 2)

    def wanted() -> Tensor:
        square = 0.5 * x.double().square().sum(1, keepdim=True)
        return x * (1 + square * (1 + square * (1 + square * (1 + square))))

    a = Version("lens_a", (n // 512,), (256,), (x, y, 2.0, 0.5), lambda: y)
    b = Version("lens_b", (n // 512,), (256,), (x, z, 0.5), lambda: z)
    return Pair(LENS, (a, b), wanted, ("fp32", 14 * n, 16 * n), 1e-4)


# The bucket of every key ----------------------------------------------------------------------------------------------

BUCKETS = r"""
__device__ __forceinline__ unsigned long long mixed(unsigned long long key)
{
    key *= 0x9e3779b97f4a7c15ull;
    return key ^ key >> 32;
}

extern "C" __global__ void __launch_bounds__(256)
    buckets_a(const ulonglong2* __restrict__ keys, uint2* __restrict__ y, int buckets)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const unsigned long long by = buckets;
    const ulonglong2 v = keys[i];
    y[i] = make_uint2(mixed(v.x) % by, mixed(v.y) % by);
}

// Their number is a power of two.
extern "C" __global__ void __launch_bounds__(256)
    buckets_b(const ulonglong2* __restrict__ keys, uint2* __restrict__ y, int buckets)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const unsigned long long mask = buckets - 1;
    const ulonglong2 v = keys[i];
    y[i] = make_uint2(mixed(v.x) & mask, mixed(v.y) & mask);
}
"""


@pair
def buckets(n: int = 1 << 24) -> Pair:
    x = whole(1 << 30, n, dtype=torch.int64)
    y, z = empty(n, dtype=torch.int32), empty(n, dtype=torch.int32)

    def wanted() -> Tensor:
        key = x * (0x9E3779B97F4A7C15 - (1 << 64))
        return (key ^ (key >> 32 & 0xFFFFFFFF)) & 4095

    a = Version("buckets_a", (n // 512,), (256,), (x, y, 4096), lambda: y)
    b = Version("buckets_b", (n // 512,), (256,), (x, z, 4096), lambda: z)
    return Pair(BUCKETS, (a, b), wanted, ("int32", 4 * n, 12 * n), 0.0)


# Means of 17 rows of an image -----------------------------------------------------------------------------------------

VERTICAL = r"""
extern "C" __global__ void __launch_bounds__(256) vertical_a(const float4* __restrict__ x, float4* __restrict__ y, int pitch)
{
    const size_t i = (size_t)blockIdx.y * pitch + blockIdx.x * 256 + threadIdx.x;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int k = 0; k < 17; ++k) {
        const float4 v = x[i + (size_t)k * pitch];
        sum = make_float4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
    }
    const float by = 1.0f / 17.0f;
    y[i] = make_float4(by * sum.x, by * sum.y, by * sum.z, by * sum.w);
}

// 16 rows of means from 32 rows
extern "C" __global__ void __launch_bounds__(256) vertical_b(const float* __restrict__ x, float* __restrict__ y, int pitch)
{
    const size_t i = (size_t)blockIdx.y * 16 * pitch + blockIdx.x * 256 + threadIdx.x;
    float v[32], sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 32; ++k)
        v[k] = x[i + (size_t)k * pitch];
#pragma unroll
    for (int k = 0; k < 16; ++k)
        sum += v[k];
#pragma unroll
    for (int k = 0; k < 16; ++k) {
        sum += v[k + 16];
        y[i + (size_t)k * pitch] = sum * (1.0f / 17.0f);
        sum -= v[k];
    }
}
"""


@pair
def vertical(high: int = 4096, wide: int = 4096) -> Pair:
    x, y, z = numbers(high, wide), empty(high - 16, wide), empty(high - 16, wide)
    a = Version("vertical_a", (wide // 1024, high - 16), (256,), (x, y, wide // 4), lambda: y)
    b = Version("vertical_b", (wide // 256, (high - 16) // 16), (256,), (x, z, wide), lambda: z)

    def wanted() -> Tensor:
        total = torch.cat([torch.zeros_like(x[:1]), x]).double().cumsum(0)
        return (total[17:] - total[:-17]) / 17

    return Pair(VERTICAL, (a, b), wanted, ("fp32", 3 * high * wide, 8 * high * wide), 1e-4)


# Sums over the buckets of a hash table --------------------------------------------------------------------------------

CHAINS = r"""
// A node has a key, a value and the number of the next one. Nodes of a bucket are a list.
extern "C" __global__ void __launch_bounds__(256)
    chains_a(const uint4* __restrict__ nodes, const int* __restrict__ heads, const int* __restrict__ asked, int* __restrict__ y, int queries)
{
    const int i = blockIdx.x * 256 + threadIdx.x, threads = gridDim.x * 256;
    int sum = 0;
#pragma unroll 1
    for (int k = 0; k < queries; ++k) {
        int at = heads[asked[k * threads + i]];
        while (at >= 0) {
            const uint4 node = nodes[at];
            sum += node.x & 1 ? node.y : 0;
            at = (int)node.z;
        }
    }
    y[i] = sum;
}

// Eight keys and values of a bucket lie side by side.
extern "C" __global__ void __launch_bounds__(256)
    chains_b(const uint4* __restrict__ table, const int* __restrict__ asked, int* __restrict__ y, int queries)
{
    const int i = blockIdx.x * 256 + threadIdx.x, threads = gridDim.x * 256;
    int sum = 0;
#pragma unroll 4
    for (int k = 0; k < queries; ++k) {
        const size_t at = 4 * (size_t)asked[k * threads + i];
        uint4 v[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
            v[j] = table[at + j];
#pragma unroll
        for (int j = 0; j < 4; ++j)
            sum += (v[j].x & 1 ? v[j].y : 0) + (v[j].z & 1 ? v[j].w : 0);
    }
    y[i] = sum;
}
"""


@pair
def chains(buckets: int = 1 << 19, blocks: int = SMS, queries: int = 16) -> Pair:
    threads = 256 * blocks
    table, asked = whole(100, buckets, 8, 2), whole(buckets, queries, threads, seed=1)
    place = numbers(buckets * 8, seed=2).argsort().view(buckets, 8).int()  # of every node
    nodes = empty(buckets * 8, 4, dtype=torch.int32)
    if DEVICE != "meta":
        rows = torch.cat([table, torch.cat([place[:, 1:], torch.full_like(place[:, :1], -1)], 1)[:, :, None]], 2)
        nodes[place.view(-1).long(), :3] = rows.view(-1, 3)
    heads = place[:, 0].contiguous()
    y, z = empty(threads, dtype=torch.int32), empty(threads, dtype=torch.int32)

    def wanted() -> Tensor:
        return ((table[:, :, 0] & 1) * table[:, :, 1]).sum(1)[asked.long()].sum(0)

    a = Version("chains_a", (blocks,), (256,), (nodes, heads, asked, y, queries), lambda: y)
    b = Version("chains_b", (blocks,), (256,), (table, asked, z, queries), lambda: z)
    work = ("int32", 16 * queries * threads, 68 * queries * threads + 4 * threads)
    return Pair(CHAINS, (a, b), wanted, work, 0.0)


# Mean squares of polynomials of Chebyshev, a degree per row -----------------------------------------------------------

CHEBY = (
    HEAD
    + r"""
// x[rows][4096]; row r has degree r + 1
__device__ __forceinline__ void row(const float* x, float* y, int degree)
{
    __shared__ float parts[32];
    float at[4], before[4], now[4], sum = 0.0f;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        at[e] = x[(size_t)(degree - 1) * 4096 + 1024 * e + threadIdx.x];
        before[e] = 1.0f;
        now[e] = at[e];
        at[e] *= 2.0f;
    }
#pragma unroll 4
    for (int k = 1; k < degree; ++k)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const float next = fmaf(at[e], now[e], -before[e]);
            before[e] = now[e];
            now[e] = next;
        }
#pragma unroll
    for (int e = 0; e < 4; ++e)
        sum = fmaf(now[e], now[e], sum);
    sum = block_sum(sum, parts);
    if (threadIdx.x == 0)
        y[degree - 1] = sum / 4096.0f;
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(1024) cheby_a(const float* __restrict__ x, float* __restrict__ y, int rows)
{
    for (int k = 0; k < rows; ++k)
        row(x, y, blockIdx.x * rows + k + 1);
}

extern "C" __global__ void __launch_bounds__(1024) cheby_b(const float* __restrict__ x, float* __restrict__ y, int rows)
{
    for (int k = 0; k < rows; ++k)
        row(x, y, k * gridDim.x + blockIdx.x + 1);
}
"""
)


@pair
def cheby(blocks: int = SMS, rows: int = 8) -> Pair:
    high = rows * blocks
    x, y, z = numbers(high, 4096), empty(high), empty(high)

    def wanted() -> Tensor:
        degree = torch.arange(1, high + 1, device=DEVICE)[:, None]
        return (x.double().acos() * degree).cos().square().mean(1)

    a = Version("cheby_a", (blocks,), (1024,), (x, y, rows), lambda: y)
    b = Version("cheby_b", (blocks,), (1024,), (x, z, rows), lambda: z)
    work = ("fp32", 4096 * high * (high + 1), 4 * 4097 * high)
    return Pair(CHEBY, (a, b), wanted, work, 1e-3)


# Healthy: nothing is planted, and nothing large is to be promised ----------------------------------------------------

HEALTHY = r"""
__device__ __forceinline__ unsigned mean2(unsigned p, unsigned q)
{
    unsigned result;
    asm("{ .reg .b32 half; mov.b32 half, 0x3f003f00; mul.rn.bf16x2 %0, %1, half; fma.rn.bf16x2 %0, %2, half, %0; }"
        : "=&r"(result) : "r"(p), "r"(q));
    return result;
}

// Two tensors of bfloat16, 16 bytes of each per load
extern "C" __global__ void __launch_bounds__(256)
    averaged(const uint4* __restrict__ x, const uint4* __restrict__ y, uint4* __restrict__ z)
{
    const size_t i = (size_t)blockIdx.x * 512 + threadIdx.x;
    const uint4 p = x[i], q = y[i], r = x[i + 256], s = y[i + 256];
    z[i] = make_uint4(mean2(p.x, q.x), mean2(p.y, q.y), mean2(p.z, q.z), mean2(p.w, q.w));
    z[i + 256] = make_uint4(mean2(r.x, s.x), mean2(r.y, s.y), mean2(r.z, s.z), mean2(r.w, s.w));
}

// Horner's rule with 16 coefficients, eight numbers per thread, over and over
extern "C" __global__ void __launch_bounds__(256) nested(const float* __restrict__ x, float* __restrict__ y, int n, int times)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float v[8];
#pragma unroll
    for (int e = 0; e < 8; ++e)
        v[e] = x[(size_t)e * n + i];
#pragma unroll 1
    for (int k = 0; k < times; ++k) {
        float sum[8] = {};
#pragma unroll
        for (int c = 16; c; --c)
#pragma unroll
            for (int e = 0; e < 8; ++e)
                sum[e] = fmaf(sum[e], v[e], 1.0f / (c + 8));
#pragma unroll
        for (int e = 0; e < 8; ++e)
            v[e] = sum[e];
    }
#pragma unroll
    for (int e = 0; e < 8; ++e)
        y[(size_t)e * n + i] = v[e];
}
"""


@pair
def averaged(n: int = 1 << 26) -> Pair:
    x, y, z = numbers(n).bfloat16(), numbers(n, seed=1).bfloat16(), empty(n, dtype=torch.bfloat16)
    only = Version("averaged", (n // 4096,), (256,), (x, y, z), lambda: z)
    return Pair(HEALTHY, (only,), lambda: (x.float() + y.float()) / 2, ("bf16", 3 * n, 6 * n), 1e-2)


@pair
def nested(n: int = 1 << 20, times: int = 32) -> Pair:
    x, y = numbers(8, n), empty(8, n)

    def wanted() -> Tensor:
        v = x.double()
        for _ in range(times):
            total = torch.zeros_like(v)
            for c in range(16, 0, -1):
                total = total * v + 1 / (c + 8)
            v = total
        return v

    only = Version("nested", (n // 256,), (256,), (x, y, n, times), lambda: y)
    return Pair(HEALTHY, (only,), wanted, ("fp32", 8 * 32 * times * n, 64 * n), 1e-4)


@pair
def scaled(rows: int = 16384, cols: int = 4096) -> Pair:
    x, by, y = numbers(rows, cols).bfloat16(), numbers(cols, seed=1).bfloat16(), empty(rows, cols, dtype=torch.bfloat16)

    def wanted() -> Tensor:
        wide = x.float()
        return wide / (wide.square().mean(1, keepdim=True) + 1e-5).sqrt() * by.float()

    only = triton_version("scaled", (rows,), (x, by, y, cols), lambda: y, num_warps=8)
    return Pair("", (only,), wanted, ("bf16", 4 * rows * cols, 4 * rows * cols + 2 * cols), 1e-2)


@pair
def library(side: int = 8192) -> Pair:
    x, w = numbers(side, side).bfloat16(), numbers(side, side, seed=1).bfloat16()
    y = empty(side, side, dtype=torch.bfloat16)
    only = Version("library", (), (), (), lambda: y, start=partial(torch.mm, x, w.t(), out=y))
    return Pair("", (only,), lambda: x.float() @ w.float().t(), ("bf16", 2 * side**3, 6 * side * side), 2e-2)
