"""27 pairs of kernels. truth.csv names the planted causes; `../pairs.py` checks, times and counts them."""

from __future__ import annotations

import torch
from pairs import DEVICE, HEAD, SMS, Pair, Tensor, Version, empty, numbers, pair, whole

# A filter of five taps along the rows of an image --------------------------------------------------------------------

FIR = r"""
__device__ __forceinline__ void filter(const float* x, float* y, int width, int row, int col)
{
    const float* const line = x + (size_t)row * width;
    const float taps[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};
    float sum = 0.0f;
#pragma unroll
    for (int d = 0; d < 5; ++d) {
        const int at = min(max(col + d - 2, 0), width - 1);
        sum = fmaf(taps[d], line[at], sum);
    }
    y[(size_t)row * width + col] = sum;
}

extern "C" __global__ void fir_a(const float* __restrict__ x, float* __restrict__ y, int width)
{
    filter(x, y, width, blockIdx.y * 32 + threadIdx.x, blockIdx.x * 8 + threadIdx.y);
}

extern "C" __global__ void fir_b(const float* __restrict__ x, float* __restrict__ y, int width)
{
    filter(x, y, width, blockIdx.y * 8 + threadIdx.y, blockIdx.x * 32 + threadIdx.x);
}
"""


@pair
def fir(rows: int = 4096, cols: int = 8192) -> Pair:
    x, y, z = numbers(rows, cols), empty(rows, cols), empty(rows, cols)

    def wanted() -> Tensor:
        wide = torch.nn.functional.pad(x[None], (2, 2), mode="replicate")[0]
        return sum(w * wide[:, d : d + cols] for d, w in enumerate((0.0625, 0.25, 0.375, 0.25, 0.0625)))

    a = Version("fir_a", (cols // 8, rows // 32), (32, 8), (x, y, cols), lambda: y)
    b = Version("fir_b", (cols // 32, rows // 8), (32, 8), (x, z, cols), lambda: z)
    return Pair(FIR, (a, b), wanted, ("fp32", 9 * rows * cols, 8 * rows * cols))


# Sums of absolute differences between all pairs of points ------------------------------------------------------------

CITY = r"""
// x[k][n], y[k][m], d[n][m]
extern "C" __global__ void city_a(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ d, int n,
                                  int m, int depth)
{
    const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y;
    float sum = 0.0f;
    for (int k = 0; k < depth; ++k)
        sum += fabsf(x[(size_t)k * n + i] - y[(size_t)k * m + j]);
    d[(size_t)i * m + j] = sum;
}

extern "C" __global__ void __launch_bounds__(256)
    city_b(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ d, int n, int m, int depth)
{
    __shared__ float4 u[16][16], v[16][16];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const int i = blockIdx.y * 64, j = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int k = 0; k < depth; k += 16) {
        u[ty][tx] = *(const float4*)(x + (size_t)(k + ty) * n + i + 4 * tx);
        v[ty][tx] = *(const float4*)(y + (size_t)(k + ty) * m + j + 4 * tx);
        __syncthreads();
#pragma unroll
        for (int e = 0; e < 16; ++e) {
            const float4 p = u[e][ty], q = v[e][tx];
            const float left[4] = {p.x, p.y, p.z, p.w}, right[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
            for (int r = 0; r < 4; ++r)
#pragma unroll
                for (int c = 0; c < 4; ++c)
                    sum[r][c] += fabsf(left[r] - right[c]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 4; ++r)
        *(float4*)(d + (size_t)(i + 4 * ty + r) * m + j + 4 * tx) =
            make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
}
"""


@pair
def city(n: int = 4096, m: int = 4096, depth: int = 256) -> Pair:
    x, y = numbers(depth, n), numbers(depth, m, seed=1)
    d, e = empty(n, m), empty(n, m)
    a = Version("city_a", (m // 32, n // 8), (32, 8), (x, y, d, n, m, depth), lambda: d)
    b = Version("city_b", (m // 64, n // 64), (256,), (x, y, e, n, m, depth), lambda: e)
    work = ("fp32", 2 * n * m * depth, 4 * (depth * (n + m) + n * m))
    return Pair(CITY, (a, b), lambda: torch.cdist(x.t().contiguous(), y.t().contiguous(), p=1.0), work, 1e-4)


# Prefix sums of chunks of 4096, 32 elements per thread ---------------------------------------------------------------

CHUNKS = r"""
template <int EXTRA>
__device__ __forceinline__ void scan(const float* x, float* y)
{
    constexpr int ITEMS = 32, THREADS = 128, SIZE = ITEMS * THREADS;
    __shared__ float held[SIZE + EXTRA * THREADS];
    __shared__ float sums[THREADS / 32];
    const int t = threadIdx.x;
    const size_t base = (size_t)blockIdx.x * SIZE;
#pragma unroll 8
    for (int i = t; i < SIZE; i += THREADS)
        held[i + EXTRA * (i / ITEMS)] = x[base + i];
    __syncthreads();
    float* const mine = held + t * (ITEMS + EXTRA);
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < ITEMS; ++j)
        sum += mine[j];
    float upto = sum;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const float left = __shfl_up_sync(0xffffffffu, upto, step);
        if (t % 32 >= step)
            upto += left;
    }
    if (t % 32 == 31)
        sums[t / 32] = upto;
    __syncthreads();
    float run = upto - sum;
    for (int warp = 0; warp < t / 32; ++warp)
        run += sums[warp];
#pragma unroll
    for (int j = 0; j < ITEMS; ++j) {
        run += mine[j];
        mine[j] = run;
    }
    __syncthreads();
#pragma unroll 8
    for (int i = t; i < SIZE; i += THREADS)
        y[base + i] = held[i + EXTRA * (i / ITEMS)];
}

extern "C" __global__ void __launch_bounds__(128) chunks_a(const float* __restrict__ x, float* __restrict__ y)
{
    scan<0>(x, y);
}

extern "C" __global__ void __launch_bounds__(128) chunks_b(const float* __restrict__ x, float* __restrict__ y)
{
    scan<1>(x, y);
}
"""


@pair
def chunks(count: int = 16384) -> Pair:
    x, y, z = numbers(count, 4096), empty(count, 4096), empty(count, 4096)
    a = Version("chunks_a", (count,), (128,), (x, y), lambda: y)
    b = Version("chunks_b", (count,), (128,), (x, z), lambda: z)
    return Pair(CHUNKS, (a, b), lambda: x.double().cumsum(1), ("fp32", 4096 * count, 8 * 4096 * count), 1e-4)


# Sums of 32 rows of a table, chosen by indices -----------------------------------------------------------------------

BAGS = r"""
__device__ __forceinline__ float4 bag(const float4* table, const int* index, size_t which)
{
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
    for (int j = 0; j < 32; ++j) {
        const float4 v = table[(size_t)index[which * 32 + j] * 32 + threadIdx.x % 32];
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(128)
    bags_a(const float4* __restrict__ table, const int* __restrict__ index, float4* __restrict__ out)
{
    extern __shared__ float4 held[];
    const size_t which = (size_t)blockIdx.x * 4 + threadIdx.x / 32;
    held[threadIdx.x] = bag(table, index, which);
    out[which * 32 + threadIdx.x % 32] = held[threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(128)
    bags_b(const float4* __restrict__ table, const int* __restrict__ index, float4* __restrict__ out)
{
    const size_t which = (size_t)blockIdx.x * 4 + threadIdx.x / 32;
    out[which * 32 + threadIdx.x % 32] = bag(table, index, which);
}
"""


@pair
def bags(count: int = 16384, rows: int = 1 << 21) -> Pair:
    table, index = numbers(rows, 128), whole(rows, count, 32)
    y, z = empty(count, 128), empty(count, 128)

    def wanted() -> Tensor:
        return torch.nn.functional.embedding_bag(index.long(), table, mode="sum")

    a = Version("bags_a", (count // 4,), (128,), (table, index, y), lambda: y, shared=112 * 1024)
    b = Version("bags_b", (count // 4,), (128,), (table, index, z), lambda: z)
    return Pair(BAGS, (a, b), wanted, ("fp32", count * 32 * 128, count * (32 * 516 + 512)))


# The squared distance to the nearest of 32 centres in 48 dimensions --------------------------------------------------

NEAREST = r"""
__device__ __forceinline__ void nearest(const float* x, const float* centres, float* y, int points)
{
    constexpr int DIMS = 48, CENTRES = 32;
    __shared__ float held[CENTRES * DIMS];
    for (int i = threadIdx.x; i < CENTRES * DIMS; i += blockDim.x)
        held[i] = centres[i];
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float point[DIMS], best = 3e38f;
#pragma unroll
    for (int d = 0; d < DIMS; ++d)
        point[d] = x[(size_t)d * points + i];
#pragma unroll 1
    for (int c = 0; c < CENTRES; ++c) {
        float sum = 0.0f;
#pragma unroll
        for (int d = 0; d < DIMS; ++d) {
            const float apart = point[d] - held[c * DIMS + d];
            sum = fmaf(apart, apart, sum);
        }
        best = fminf(best, sum);
    }
    y[i] = best;
}

extern "C" __global__ void __launch_bounds__(256, 8)
    nearest_a(const float* __restrict__ x, const float* __restrict__ centres, float* __restrict__ y, int points)
{
    nearest(x, centres, y, points);
}

extern "C" __global__ void __launch_bounds__(256)
    nearest_b(const float* __restrict__ x, const float* __restrict__ centres, float* __restrict__ y, int points)
{
    nearest(x, centres, y, points);
}
"""


@pair
def nearest(points: int = 1 << 20) -> Pair:
    x, centres = numbers(48, points), numbers(32, 48, seed=1)
    y, z = empty(points), empty(points)

    def wanted() -> Tensor:
        best = torch.full((points,), 3e38, device=DEVICE)
        for c in range(32):
            best = torch.minimum(best, (x - centres[c, :, None]).square().sum(0))
        return best

    a = Version("nearest_a", (points // 256,), (256,), (x, centres, y, points), lambda: y)
    b = Version("nearest_b", (points // 256,), (256,), (x, centres, z, points), lambda: z)
    work = ("fp32", 3 * points * 48 * 32, 4 * (points * 49 + 48 * 32))
    return Pair(NEAREST, (a, b), wanted, work, 1e-4)


# Sums of whole numbers by key, 64 keys -------------------------------------------------------------------------------

GROUPS = r"""
extern "C" __global__ void groups_a(const int* __restrict__ keys, const int* __restrict__ values, int* sums, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&sums[keys[i]], values[i]);
}

extern "C" __global__ void __launch_bounds__(256)
    groups_b(const int4* __restrict__ keys, const int4* __restrict__ values, int* sums, int n4)
{
    __shared__ int held[8][64];  // a table per warp
    for (int i = threadIdx.x; i < 8 * 64; i += 256)
        held[i / 64][i % 64] = 0;
    __syncthreads();
    int* const mine = held[threadIdx.x / 32];
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n4; i += gridDim.x * 256) {
        const int4 k = keys[i], v = values[i];
        atomicAdd(&mine[k.x], v.x);
        atomicAdd(&mine[k.y], v.y);
        atomicAdd(&mine[k.z], v.z);
        atomicAdd(&mine[k.w], v.w);
    }
    __syncthreads();
    if (threadIdx.x < 64) {
        int sum = 0;
        for (int warp = 0; warp < 8; ++warp)
            sum += held[warp][threadIdx.x];
        atomicAdd(&sums[threadIdx.x], sum);
    }
}
"""


@pair
def groups(n: int = 1 << 23, blocks: int = 8 * SMS) -> Pair:
    keys, values = whole(64, n), whole(16, n, seed=1)
    y, z = empty(64, dtype=torch.int32), empty(64, dtype=torch.int32)

    def wanted() -> Tensor:
        return torch.bincount(keys.long(), weights=values.double(), minlength=64)

    a = Version("groups_a", (n // 256,), (256,), (keys, values, y, n), lambda: y, cleared=y)
    b = Version("groups_b", (blocks,), (256,), (keys, values, z, n // 4), lambda: z, cleared=z)
    return Pair(GROUPS, (a, b), wanted, ("int32", 0, 8 * n + 256), 0.0)


# Sums of weights by class: the class in three bits of a word, the weight in the others -------------------------------

CLASSES = r"""
extern "C" __global__ void __launch_bounds__(256) classes_a(const int4* __restrict__ x, int* sums, int n4)
{
    __shared__ int held[8];
    if (threadIdx.x < 8)
        held[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n4; i += gridDim.x * 256) {
        const int4 w = x[i];
        atomicAdd(&held[w.x & 7], w.x >> 3);
        atomicAdd(&held[w.y & 7], w.y >> 3);
        atomicAdd(&held[w.z & 7], w.z >> 3);
        atomicAdd(&held[w.w & 7], w.w >> 3);
    }
    __syncthreads();
    if (threadIdx.x < 8)
        atomicAdd(&sums[threadIdx.x], held[threadIdx.x]);
}

__device__ __forceinline__ void count(int (&sum)[8], int word)
{
#pragma unroll
    for (int c = 0; c < 8; ++c)
        sum[c] += (word & 7) == c ? word >> 3 : 0;
}

extern "C" __global__ void __launch_bounds__(256) classes_b(const int4* __restrict__ x, int* sums, int n4)
{
    __shared__ int held[8];
    if (threadIdx.x < 8)
        held[threadIdx.x] = 0;
    __syncthreads();
    int sum[8] = {};
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n4; i += gridDim.x * 256) {
        const int4 w = x[i];
        count(sum, w.x);
        count(sum, w.y);
        count(sum, w.z);
        count(sum, w.w);
    }
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        int all = sum[c];
#pragma unroll
        for (int lane = 16; lane; lane /= 2)
            all += __shfl_xor_sync(0xffffffffu, all, lane);
        if (threadIdx.x % 32 == 0)
            atomicAdd(&held[c], all);
    }
    __syncthreads();
    if (threadIdx.x < 8)
        atomicAdd(&sums[threadIdx.x], held[threadIdx.x]);
}
"""


@pair
def classes(n: int = 1 << 26, blocks: int = 8 * SMS) -> Pair:
    draw, weights = whole(20, n), whole(8, n, seed=1)
    kinds = torch.where(draw < 8, draw, torch.zeros_like(draw))  # 13 of 20 are of class 0
    x = weights * 8 + kinds
    y, z = empty(8, dtype=torch.int32), empty(8, dtype=torch.int32)

    def wanted() -> Tensor:
        return torch.stack([(weights * (kinds == c)).sum() for c in range(8)])

    a = Version("classes_a", (blocks,), (256,), (x, y, n // 4), lambda: y, cleared=y)
    b = Version("classes_b", (blocks,), (256,), (x, z, n // 4), lambda: z, cleared=z)
    return Pair(CLASSES, (a, b), wanted, ("int32", 0, 4 * n + 32), 0.0)


# Dequantization of bytes with the four parameters of a tensor --------------------------------------------------------

DEQUANT = r"""
__device__ __forceinline__ float value(unsigned q, float scale, float zero, float low, float high)
{
    return fminf(fmaxf(((float)q - zero) * scale, low), high);
}

__device__ __forceinline__ float4 value4(uchar4 q, float scale, float zero, float low, float high)
{
    return make_float4(value(q.x, scale, zero, low, high), value(q.y, scale, zero, low, high),
                       value(q.z, scale, zero, low, high), value(q.w, scale, zero, low, high));
}

extern "C" __global__ void __launch_bounds__(256)
    dequant_a(const uchar4* __restrict__ x, const volatile float* parameters, float4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float scale = parameters[0], zero = parameters[1], low = parameters[2], high = parameters[3];
    y[i] = value4(x[i], scale, zero, low, high);
}

extern "C" __global__ void __launch_bounds__(256)
    dequant_b(const uchar4* __restrict__ x, const float* __restrict__ parameters, float4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    y[i] = value4(x[i], parameters[0], parameters[1], parameters[2], parameters[3]);
}
"""


@pair
def dequant(n: int = 1 << 27) -> Pair:
    x, parameters = whole(256, n, dtype=torch.uint8), torch.tensor([0.02, 117.0, -2.0, 2.5], device=DEVICE)
    y, z = empty(n), empty(n)
    a = Version("dequant_a", (n // 1024,), (256,), (x, parameters, y), lambda: y)
    b = Version("dequant_b", (n // 1024,), (256,), (x, parameters, z), lambda: z)
    return Pair(DEQUANT, (a, b), lambda: ((x.float() - 117) * 0.02).clamp(-2, 2.5), ("fp32", 2 * n, 5 * n + 16))


# The potential of charges at many places -----------------------------------------------------------------------------

FIELD = r"""
__device__ __forceinline__ void field(const float4* places, const float4* charges, float* y, int count, int step)
{
    extern __shared__ float4 held[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 p = places[i];
    float sum = 0.0f;
    for (int from = 0; from < count; from += step) {
        __syncthreads();
        for (int j = threadIdx.x; j < step; j += blockDim.x)
            held[j] = charges[from + j];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < step; ++j) {
            const float4 q = held[j];
            const float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z;
            sum = fmaf(q.w, rsqrtf(fmaf(dx, dx, fmaf(dy, dy, fmaf(dz, dz, 0.01f)))), sum);
        }
    }
    y[i] = sum;
}

extern "C" __global__ void __launch_bounds__(1024)
    field_a(const float4* __restrict__ places, const float4* __restrict__ charges, float* __restrict__ y, int count, int step)
{
    field(places, charges, y, count, step);
}

extern "C" __global__ void __launch_bounds__(128)
    field_b(const float4* __restrict__ places, const float4* __restrict__ charges, float* __restrict__ y, int count, int step)
{
    field(places, charges, y, count, step);
}
"""


@pair
def field(blocks: int = SMS + 8, count: int = 8192) -> Pair:
    n = blocks * 1024
    places, charges = numbers(n, 4), numbers(count, 4, seed=1)
    charges[:, 3] += 1.0  # no cancellation
    y, z = empty(n), empty(n)

    def wanted() -> Tensor:
        parts = []
        for part in places.split(4096):
            apart = sum((part[:, None, axis] - charges[None, :, axis]).square() for axis in range(3))
            parts.append(((apart + 0.01).rsqrt() * charges[:, 3]).sum(1))
        return torch.cat(parts)

    a = Version("field_a", (blocks,), (1024,), (places, charges, y, count, count), lambda: y, shared=16 * count)
    b = Version("field_b", (n // 128,), (128,), (places, charges, z, count, 512), lambda: z, shared=16 * 512)
    return Pair(FIELD, (a, b), wanted, ("fp32", 12 * n * count, 20 * n + 16 * count), 1e-3)


# Sums of rows of very different lengths ------------------------------------------------------------------------------

RAGGED = (
    HEAD
    + r"""
__device__ __forceinline__ float part_sum(const float* x, int from, int to)
{
    __shared__ float parts[32];
    float sum = 0.0f;
#pragma unroll 4
    for (int i = from + threadIdx.x; i < to; i += 256)
        sum += x[i];
    return block_sum(sum, parts);
}

extern "C" __global__ void __launch_bounds__(256)
    ragged_a(const float* __restrict__ x, const int* __restrict__ starts, float* __restrict__ y)
{
    const float sum = part_sum(x, starts[blockIdx.x], starts[blockIdx.x + 1]);
    if (threadIdx.x == 0)
        y[blockIdx.x] = sum;
}

// parts: row, first element, end
extern "C" __global__ void __launch_bounds__(256)
    ragged_b(const float* __restrict__ x, const int* __restrict__ parts, float* y)
{
    const int* const part = parts + 3 * (size_t)blockIdx.x;
    const float sum = part_sum(x, part[1], part[2]);
    if (threadIdx.x == 0)
        atomicAdd(&y[part[0]], sum);
}
"""
)


@pair
def ragged(rows: int = 4096, long: int = 524288, step: int = 8192) -> Pair:
    lengths = [long if row % 64 == 37 else 2048 + row * 977 % 4096 for row in range(rows)]
    starts = [0]
    for length in lengths:
        starts.append(starts[-1] + length)
    parts = [
        (row, at, min(at + step, starts[row + 1]))
        for row in range(rows)
        for at in range(starts[row], starts[row + 1], step)
    ]
    x, y, z = numbers(starts[-1]), empty(rows), empty(rows)
    x += 0.5
    from_row, from_part = (torch.tensor(made, dtype=torch.int32, device=DEVICE) for made in (starts, parts))

    def wanted() -> Tensor:
        upto = torch.cat([torch.zeros(1, dtype=torch.float64, device=DEVICE), x.double().cumsum(0)])
        return upto[from_row[1:].long()] - upto[from_row[:-1].long()]

    a = Version("ragged_a", (rows,), (256,), (x, from_row, y), lambda: y)
    b = Version("ragged_b", (len(parts),), (256,), (x, from_part, z), lambda: z, cleared=z)
    return Pair(RAGGED, (a, b), wanted, ("fp32", starts[-1], 4 * (starts[-1] + 2 * rows + 1)), 1e-4)


# Two images of bytes, blended ----------------------------------------------------------------------------------------

BLEND = r"""
__device__ __forceinline__ unsigned mix(unsigned u, unsigned v) { return (u * 96u + v * 160u) >> 8; }

__device__ __forceinline__ unsigned mix4(unsigned u, unsigned v)
{
    unsigned all = 0;
#pragma unroll
    for (int at = 0; at < 32; at += 8)
        all |= mix(u >> at & 255u, v >> at & 255u) << at;
    return all;
}

extern "C" __global__ void __launch_bounds__(256)
    blend_a(const unsigned char* __restrict__ u, const unsigned char* __restrict__ v, unsigned char* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    y[i] = (unsigned char)mix(u[i], v[i]);
}

extern "C" __global__ void __launch_bounds__(256)
    blend_b(const uint4* __restrict__ u, const uint4* __restrict__ v, uint4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const uint4 p = u[i], q = v[i];
    y[i] = make_uint4(mix4(p.x, q.x), mix4(p.y, q.y), mix4(p.z, q.z), mix4(p.w, q.w));
}
"""


@pair
def blend(n: int = 1 << 27) -> Pair:
    u, v = whole(256, n, dtype=torch.uint8), whole(256, n, seed=1, dtype=torch.uint8)
    y, z = empty(n, dtype=torch.uint8), empty(n, dtype=torch.uint8)
    a = Version("blend_a", (n // 256,), (256,), (u, v, y), lambda: y)
    b = Version("blend_b", (n // 4096,), (256,), (u, v, z), lambda: z)
    return Pair(BLEND, (a, b), lambda: (u.int() * 96 + v.int() * 160) >> 8, ("int8", 0, 3 * n), 0.0)


# The first row of every column that reaches a limit ------------------------------------------------------------------

SEARCH = r"""
extern "C" __global__ void __launch_bounds__(256)
    search_a(const float* __restrict__ x, int* __restrict__ y, int rows, int cols, float limit)
{
    const int col = blockIdx.x * 256 + threadIdx.x;
    int row = 0;
    while (row < rows && x[(size_t)row * cols + col] < limit)
        ++row;
    y[col] = row;
}

extern "C" __global__ void __launch_bounds__(256)
    search_b(const float* __restrict__ x, int* __restrict__ y, int rows, int cols, float limit)
{
    const int col = blockIdx.x * 256 + threadIdx.x;
    int first = rows;
    for (int row = 0; row < rows; row += 16) {  // rows is a multiple of 16
        float value[16];
#pragma unroll
        for (int j = 0; j < 16; ++j)
            value[j] = x[(size_t)(row + j) * cols + col];
        unsigned reached = 0;
#pragma unroll
        for (int j = 0; j < 16; ++j)
            reached |= value[j] >= limit ? 1u << j : 0u;
        if (reached) {
            first = row + __ffs(reached) - 1;
            break;
        }
    }
    y[col] = first;
}
"""


@pair
def search(cols: int = 2048 * SMS, rows: int = 256) -> Pair:
    x, last = numbers(rows, cols), whole(8, cols).long()
    x[rows - 8 + last, torch.arange(cols, device=DEVICE)] = 3.0
    y, z = empty(cols, dtype=torch.int32), empty(cols, dtype=torch.int32)
    a = Version("search_a", (cols // 256,), (256,), (x, y, rows, cols, 2.0), lambda: y)
    b = Version("search_b", (cols // 256,), (256,), (x, z, rows, cols, 2.0), lambda: z)
    return Pair(SEARCH, (a, b), lambda: rows - 8 + last, ("fp32", 0, 4 * cols * (rows + 1)), 0.0)


# An iteration whose length is given per element ----------------------------------------------------------------------

RELAX = r"""
__device__ __forceinline__ void relax(const float* x, const int* times, float* y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const int end = times[i];
    float v = x[i];
#pragma unroll 1
    for (int j = 0; j < end; ++j) {
        v = fmaf(v, 0.75f, 0.125f);
        v = fmaf(v, -0.5f, 0.25f);
        v = fmaf(v, 0.875f, 0.0625f);
        v = fmaf(v, -0.625f, 0.3125f);
    }
    y[i] = v;
}

extern "C" __global__ void __launch_bounds__(256)
    relax_a(const float* __restrict__ x, const int* __restrict__ times, float* __restrict__ y)
{
    relax(x, times, y);
}

extern "C" __global__ void __launch_bounds__(256)
    relax_b(const float* __restrict__ x, const int* __restrict__ times, float* __restrict__ y)
{
    relax(x, times, y);
}
"""


@pair
def relax(n: int = 1 << 24, short: int = 8, long: int = 256) -> Pair:
    """The second version has the elements in the order of their lengths."""
    x = numbers(n)
    order = torch.argsort(numbers(n, seed=1))
    times = torch.full((n,), short, dtype=torch.int32, device=DEVICE)
    times[order[: n // 8]] = long
    by_length = torch.argsort(times, stable=True)
    x_sorted, times_sorted = x[by_length].contiguous(), times[by_length].contiguous()
    y, z = empty(n), empty(n)

    def back() -> Tensor:
        result = torch.empty_like(z)
        result[by_length] = z
        return result

    def wanted() -> Tensor:
        v, early = x.double(), x.double()
        for j in range(long):
            for scale, add in ((0.75, 0.125), (-0.5, 0.25), (0.875, 0.0625), (-0.625, 0.3125)):
                v = v * scale + add
            early = v if j == short - 1 else early
        return torch.where(times == short, early, v)

    a = Version("relax_a", (n // 256,), (256,), (x, times, y), lambda: y)
    b = Version("relax_b", (n // 256,), (256,), (x_sorted, times_sorted, z), back)
    return Pair(RELAX, (a, b), wanted, ("fp32", 8 * (n // 8 * long + (n - n // 8) * short), 12 * n))


# What an image has above each of eight levels ------------------------------------------------------------------------

ABOVE = (
    HEAD
    + r"""
__device__ __forceinline__ float above(float4 v, float level)
{
    return add4(make_float4(fmaxf(v.x - level, 0.0f), fmaxf(v.y - level, 0.0f), fmaxf(v.z - level, 0.0f),
                            fmaxf(v.w - level, 0.0f)));
}

// y[level][chunk], chunks of 8192 float4
extern "C" __global__ void __launch_bounds__(256) above_a(const float4* __restrict__ x, float* __restrict__ y, int chunks)
{
    __shared__ float parts[32];
    const float level = 0.1f * blockIdx.x - 0.4f;
    const float4* const from = x + (size_t)blockIdx.y * 8192;
    float sum = 0.0f;
#pragma unroll 8
    for (int i = threadIdx.x; i < 8192; i += 256)
        sum += above(from[i], level);
    sum = block_sum(sum, parts);
    if (threadIdx.x == 0)
        y[(size_t)blockIdx.x * chunks + blockIdx.y] = sum;
}

extern "C" __global__ void __launch_bounds__(256) above_b(const float4* __restrict__ x, float* __restrict__ y, int chunks)
{
    __shared__ float parts[8][32];
    const float4* const from = x + (size_t)blockIdx.x * 8192;
    float sum[8] = {};
#pragma unroll 4
    for (int i = threadIdx.x; i < 8192; i += 256) {
        const float4 v = from[i];
#pragma unroll
        for (int q = 0; q < 8; ++q)
            sum[q] += above(v, 0.1f * q - 0.4f);
    }
#pragma unroll
    for (int q = 0; q < 8; ++q) {
        const float all = block_sum(sum[q], parts[q]);
        if (threadIdx.x == 0)
            y[(size_t)q * chunks + blockIdx.x] = all;
    }
}
"""
)


@pair
def above(chunks: int = 2048) -> Pair:
    n = chunks * 32768
    x, y, z = numbers(chunks, 32768), empty(8, chunks), empty(8, chunks)

    def wanted() -> Tensor:
        return torch.stack([(x - (0.1 * q - 0.4)).clamp(min=0).sum(1) for q in range(8)])

    a = Version("above_a", (8, chunks), (256,), (x, y, chunks), lambda: y)
    b = Version("above_b", (chunks,), (256,), (x, z, chunks), lambda: z)
    return Pair(ABOVE, (a, b), wanted, ("fp32", 16 * n, 4 * n + 32 * chunks), 1e-4)


# The sum of absolute differences of two fp32 signals -----------------------------------------------------------------

DRIFT = (
    HEAD
    + r"""
extern "C" __global__ void __launch_bounds__(256)
    drift_a(const double2* __restrict__ u, const double2* __restrict__ v, float* __restrict__ y, int n2)
{
    __shared__ float parts[32];
    float sum = 0.0f;
#pragma unroll 4
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n2; i += gridDim.x * 256) {
        const double2 p = u[i], q = v[i];
        sum += fabsf((float)p.x - (float)q.x) + fabsf((float)p.y - (float)q.y);
    }
    sum = block_sum(sum, parts);
    if (threadIdx.x == 0)
        y[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(256)
    drift_b(const float4* __restrict__ u, const float4* __restrict__ v, float* __restrict__ y, int n4)
{
    __shared__ float parts[32];
    float sum = 0.0f;
#pragma unroll 4
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n4; i += gridDim.x * 256) {
        const float4 p = u[i], q = v[i];
        sum += (fabsf(p.x - q.x) + fabsf(p.y - q.y)) + (fabsf(p.z - q.z) + fabsf(p.w - q.w));
    }
    sum = block_sum(sum, parts);
    if (threadIdx.x == 0)
        y[blockIdx.x] = sum;
}
"""
)


@pair
def drift(n: int = 1 << 26, blocks: int = 8 * SMS) -> Pair:
    u, v = numbers(n), numbers(n, seed=1)
    wide_u, wide_v = u.double(), v.double()
    y, z = empty(blocks), empty(blocks)
    a = Version("drift_a", (blocks,), (256,), (wide_u, wide_v, y, n // 2), lambda: y.double().sum()[None])
    b = Version("drift_b", (blocks,), (256,), (u, v, z, n // 4), lambda: z.double().sum()[None])
    work = ("fp32", 2 * n, 8 * n + 4 * blocks)
    return Pair(DRIFT, (a, b), lambda: (u - v).abs().double().sum()[None], work, 1e-4)


# An image resampled at places that an affine map gives ---------------------------------------------------------------

RESAMPLE = r"""
__device__ __forceinline__ float sample(const float* x, int rows, int cols, float u, float v)
{
    u = fminf(fmaxf(u, 0.0f), cols - 1.001f);
    v = fminf(fmaxf(v, 0.0f), rows - 1.001f);
    const int col = (int)u, row = (int)v;
    const float right = u - col, down = v - row;
    const float* const at = x + (size_t)row * cols + col;
    const float upper = fmaf(right, at[1] - at[0], at[0]);
    const float lower = fmaf(right, at[cols + 1] - at[cols], at[cols]);
    return fmaf(down, lower - upper, upper);
}

extern "C" __global__ void __launch_bounds__(256) resample_a(const float* __restrict__ x, const float2* __restrict__ places,
                                                             float* __restrict__ y, int rows, int cols)
{
    const int col = blockIdx.x * 256 + threadIdx.x, row = blockIdx.y;
    const size_t i = (size_t)row * cols + col;
    const float2 place = places[i];
    y[i] = sample(x, rows, cols, place.x, place.y);
}

extern "C" __global__ void __launch_bounds__(256) resample_b(const float* __restrict__ x, float* __restrict__ y, int rows,
                                                             int cols)
{
    const int col = blockIdx.x * 256 + threadIdx.x, row = blockIdx.y;
    const float u = fmaf(0.998f, (float)col, fmaf(0.02f, (float)row, 1.7f));
    const float v = fmaf(-0.01f, (float)col, fmaf(0.999f, (float)row, 40.3f));
    y[(size_t)row * cols + col] = sample(x, rows, cols, u, v);
}
"""


@pair
def resample(rows: int = 4096, cols: int = 8192) -> Pair:
    x, y, z = numbers(rows, cols), empty(rows, cols), empty(rows, cols)
    row = torch.arange(rows, device=DEVICE, dtype=torch.float64)[:, None]
    col = torch.arange(cols, device=DEVICE, dtype=torch.float64)[None]
    u, v = 0.998 * col + 0.02 * row + 1.7, -0.01 * col + 0.999 * row + 40.3
    places = torch.stack([u.float(), v.float()], 2).contiguous()

    def wanted() -> Tensor:
        left, top = u.clamp(0, cols - 1.001), v.clamp(0, rows - 1.001)
        i, j = top.long(), left.long()
        right, down = left - j, top - i
        upper = x[i, j] * (1 - right) + x[i, j + 1] * right
        lower = x[i + 1, j] * (1 - right) + x[i + 1, j + 1] * right
        return upper * (1 - down) + lower * down

    a = Version("resample_a", (cols // 256, rows), (256,), (x, places, y, rows, cols), lambda: y)
    b = Version("resample_b", (cols // 256, rows), (256,), (x, z, rows, cols), lambda: z)
    return Pair(RESAMPLE, (a, b), wanted, ("fp32", 19 * rows * cols, 8 * rows * cols), 1e-2)


# A polynomial --------------------------------------------------------------------------------------------------------

POLY = r"""
extern "C" __global__ void __launch_bounds__(256)
    poly_a(const float* __restrict__ x, const float* __restrict__ factors, float* __restrict__ y, int degree)
{
    __shared__ float held[64];
    if (threadIdx.x <= degree)
        held[threadIdx.x] = factors[threadIdx.x];
    __syncthreads();
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float v = x[i];
    float sum = held[0];
#pragma unroll 1
    for (int k = 1; k <= degree; ++k) {
        float power = v;
#pragma unroll 4
        for (int j = 1; j < k; ++j)
            power *= v;
        sum = fmaf(held[k], power, sum);
    }
    y[i] = sum;
}

extern "C" __global__ void __launch_bounds__(256)
    poly_b(const float* __restrict__ x, const float* __restrict__ factors, float* __restrict__ y, int degree)
{
    __shared__ float held[64];
    if (threadIdx.x <= degree)
        held[threadIdx.x] = factors[threadIdx.x];
    __syncthreads();
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float v = x[i];
    float sum = held[degree];
#pragma unroll 4
    for (int k = degree - 1; k >= 0; --k)
        sum = fmaf(sum, v, held[k]);
    y[i] = sum;
}
"""


@pair
def poly(n: int = 1 << 25, degree: int = 32) -> Pair:
    x, factors = 2 * numbers(n), numbers(degree + 1, seed=1)
    y, z = empty(n), empty(n)

    def wanted() -> Tensor:
        sum_, v = torch.full((n,), float(factors[degree]), dtype=torch.float64, device=DEVICE), x.double()
        for k in range(degree - 1, -1, -1):
            sum_ = sum_ * v + float(factors[k])
        return sum_

    a = Version("poly_a", (n // 256,), (256,), (x, factors, y, degree), lambda: y)
    b = Version("poly_b", (n // 256,), (256,), (x, factors, z, degree), lambda: z)
    return Pair(POLY, (a, b), wanted, ("fp32", 2 * degree * n, 8 * n + 4 * (degree + 1)), 1e-4)


# An image in Morton order, written by rows ---------------------------------------------------------------------------

MORTON = r"""
extern "C" __global__ void __launch_bounds__(256) morton_a(const float* __restrict__ x, float* __restrict__ y, int bits)
{
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    unsigned col = 0, row = 0;
#pragma unroll 1
    for (int bit = 0; bit < bits; ++bit)
        col |= (i >> (2 * bit) & 1u) << bit;
#pragma unroll 1
    for (int bit = 0; bit < bits; ++bit)
        row |= (i >> (2 * bit + 1) & 1u) << bit;
    y[((size_t)row << bits) + col] = x[i];
}

__device__ __forceinline__ unsigned even_bits(unsigned v)
{
    v &= 0x55555555u;
    v = (v | v >> 1) & 0x33333333u;
    v = (v | v >> 2) & 0x0f0f0f0fu;
    v = (v | v >> 4) & 0x00ff00ffu;
    return (v | v >> 8) & 0x0000ffffu;
}

extern "C" __global__ void __launch_bounds__(256) morton_b(const float* __restrict__ x, float* __restrict__ y, int bits)
{
    const unsigned i = blockIdx.x * 256u + threadIdx.x;
    const unsigned col = even_bits(i), row = even_bits(i >> 1);
    y[((size_t)row << bits) + col] = x[i];
}
"""


@pair
def morton(bits: int = 13) -> Pair:
    side = 1 << bits
    x, y, z = numbers(side * side), empty(side, side), empty(side, side)

    def wanted() -> Tensor:
        def spread(value: Tensor) -> Tensor:
            return sum(((value >> bit) & 1) << (2 * bit) for bit in range(bits))

        along = torch.arange(side, device=DEVICE)
        return x[spread(along)[None] + 2 * spread(along)[:, None]]

    a = Version("morton_a", (side * side // 256,), (256,), (x, y, bits), lambda: y)
    b = Version("morton_b", (side * side // 256,), (256,), (x, z, bits), lambda: z)
    return Pair(MORTON, (a, b), wanted, ("fp32", 0, 8 * side * side), 0.0)


# Prefix sums of rows of 1024 -----------------------------------------------------------------------------------------

PREFIX = r"""
extern "C" __global__ void __launch_bounds__(1024) prefix_a(const float* __restrict__ x, float* __restrict__ y)
{
    __shared__ float held[1024];
    const int t = threadIdx.x;
    const size_t i = (size_t)blockIdx.x * 1024 + t;
    held[t] = x[i];
    __syncthreads();
#pragma unroll 1
    for (int step = 1; step < 1024; step *= 2) {
        const float left = t >= step ? held[t - step] : 0.0f;
        __syncthreads();
        held[t] += left;
        __syncthreads();
    }
    y[i] = held[t];
}

extern "C" __global__ void __launch_bounds__(256) prefix_b(const float4* __restrict__ x, float4* __restrict__ y)
{
    __shared__ float sums[8];
    const int t = threadIdx.x;
    const size_t i = (size_t)blockIdx.x * 256 + t;
    float4 v = x[i];
    v.y += v.x, v.z += v.y, v.w += v.z;
    float upto = v.w;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const float left = __shfl_up_sync(0xffffffffu, upto, step);
        if (t % 32 >= step)
            upto += left;
    }
    if (t % 32 == 31)
        sums[t / 32] = upto;
    __syncthreads();
    float before = upto - v.w;
#pragma unroll
    for (int warp = 0; warp < 7; ++warp)
        before += warp < t / 32 ? sums[warp] : 0.0f;
    y[i] = make_float4(v.x + before, v.y + before, v.z + before, v.w + before);
}
"""


@pair
def prefix(rows: int = 65536) -> Pair:
    x, y, z = numbers(rows, 1024), empty(rows, 1024), empty(rows, 1024)
    a = Version("prefix_a", (rows,), (1024,), (x, y), lambda: y)
    b = Version("prefix_b", (rows,), (256,), (x, z), lambda: z)
    return Pair(PREFIX, (a, b), lambda: x.double().cumsum(1), ("fp32", 1024 * rows, 8 * 1024 * rows), 1e-4)


# Sums and sums of squares of channels --------------------------------------------------------------------------------

CHANNELS = (
    HEAD
    + r"""
__device__ __forceinline__ void moments(const float4* x, float* y, int cols4)
{
    __shared__ float parts[2][32];
    const float4* const channel = x + (size_t)blockIdx.y * cols4;
    float sum = 0.0f, squares = 0.0f;
#pragma unroll 4
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < cols4; i += gridDim.x * blockDim.x) {
        const float4 v = channel[i];
        sum += add4(v);
        squares += add4(make_float4(v.x * v.x, v.y * v.y, v.z * v.z, v.w * v.w));
    }
    sum = block_sum(sum, parts[0]);
    squares = block_sum(squares, parts[1]);
    if (threadIdx.x == 0) {
        atomicAdd(&y[2 * blockIdx.y], sum);
        atomicAdd(&y[2 * blockIdx.y + 1], squares);
    }
}

extern "C" __global__ void __launch_bounds__(1024) channels_a(const float4* __restrict__ x, float* y, int cols4)
{
    moments(x, y, cols4);
}

extern "C" __global__ void __launch_bounds__(1024) channels_b(const float4* __restrict__ x, float* y, int cols4)
{
    moments(x, y, cols4);
}
"""
)


@pair
def channels(count: int = 24, cols: int = 1 << 21, blocks: int = 64) -> Pair:
    x, y, z = numbers(count, cols), empty(count, 2), empty(count, 2)
    x += 0.5

    def wanted() -> Tensor:
        return torch.stack([x.double().sum(1), x.double().square().sum(1)], 1)

    a = Version("channels_a", (1, count), (1024,), (x, y, cols // 4), lambda: y, cleared=y)
    b = Version("channels_b", (blocks, count), (1024,), (x, z, cols // 4), lambda: z, cleared=z)
    return Pair(CHANNELS, (a, b), wanted, ("fp32", 3 * count * cols, 4 * count * (cols + 2)), 1e-3)


# Products of complex numbers -----------------------------------------------------------------------------------------

TURN = r"""
__device__ __forceinline__ void turn(const float2* u, const float2* v, float2* y)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const float2 p = u[i], q = v[i];
    y[i] = make_float2(p.x * q.x - p.y * q.y, p.x * q.y + p.y * q.x);
}

extern "C" __global__ void turn_a(const float2* __restrict__ u, const float2* __restrict__ v, float2* __restrict__ y)
{
    turn(u, v, y);
}

extern "C" __global__ void turn_b(const float2* __restrict__ u, const float2* __restrict__ v, float2* __restrict__ y)
{
    turn(u, v, y);
}
"""


@pair
def turn(n: int = 1 << 25) -> Pair:
    u, v, y, z = numbers(n, 2), numbers(n, 2, seed=1), empty(n, 2), empty(n, 2)

    def wanted() -> Tensor:
        return torch.view_as_real(torch.view_as_complex(u) * torch.view_as_complex(v))

    a = Version("turn_a", (n // 32,), (32,), (u, v, y), lambda: y)
    b = Version("turn_b", (n // 256,), (256,), (u, v, z), lambda: z)
    return Pair(TURN, (a, b), wanted, ("fp32", 6 * n, 24 * n))


# Four-bit codes, looked up and scaled by groups of 64 ----------------------------------------------------------------

LEVELS = (-1.0, -0.7, -0.53, -0.39, -0.28, -0.18, -0.09, 0.0, 0.08, 0.16, 0.25, 0.34, 0.44, 0.56, 0.72, 1.0)
CODES = (
    "#define LEVELS {" + ", ".join(f"{level}f" for level in LEVELS) + "}\n"
    r"""
extern "C" __global__ void __launch_bounds__(256)
    codes_a(const unsigned short* __restrict__ x, const float* __restrict__ scales, float4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float levels[16] = LEVELS;
    const float scale = scales[i / 16];
    const unsigned four = x[i];
    float scaled[16];
#pragma unroll
    for (int j = 0; j < 16; ++j)
        scaled[j] = levels[j] * scale;
    y[i] = make_float4(scaled[four & 15u], scaled[four >> 4 & 15u], scaled[four >> 8 & 15u], scaled[four >> 12]);
}

extern "C" __global__ void __launch_bounds__(256)
    codes_b(const unsigned short* __restrict__ x, const float* __restrict__ scales, float4* __restrict__ y)
{
    __shared__ float held[16];
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    if (threadIdx.x == 0) {
        const float levels[16] = LEVELS;
#pragma unroll
        for (int j = 0; j < 16; ++j)
            held[j] = levels[j];
    }
    __syncthreads();
    const float scale = scales[i / 16];
    const unsigned four = x[i];
    y[i] = make_float4(held[four & 15u] * scale, held[four >> 4 & 15u] * scale, held[four >> 8 & 15u] * scale,
                       held[four >> 12] * scale);
}
"""
)


@pair
def codes(n: int = 1 << 26) -> Pair:
    packed, scales = whole(65536, n // 4), numbers(n // 64, seed=1)
    x = (packed - 65536 * (packed >= 32768)).to(torch.int16)  # the same 16 bits
    y, z = empty(n), empty(n)

    def wanted() -> Tensor:
        levels = torch.tensor(LEVELS, device=DEVICE)
        four = torch.stack([levels[(packed >> at & 15).long()] for at in (0, 4, 8, 12)], 1)
        return (four.view(-1, 64) * scales[:, None]).view(-1)

    a = Version("codes_a", (n // 1024,), (256,), (x, scales, y), lambda: y)
    b = Version("codes_b", (n // 1024,), (256,), (x, scales, z), lambda: z)
    return Pair(CODES, (a, b), wanted, ("fp32", n, n // 2 + n // 16 + 4 * n))


# A bilateral filter of seven taps along rows -------------------------------------------------------------------------

BILATERAL = r"""
template <bool BY_POWER>
__device__ __forceinline__ void bilateral(const float* x, float* y, int cols, float base)
{
    const int col = blockIdx.x * 256 + threadIdx.x;
    const float* const line = x + (size_t)blockIdx.y * cols;
    const float near[7] = {0.2f, 0.5f, 0.8f, 1.0f, 0.8f, 0.5f, 0.2f};
    const float middle = line[col], slope = BY_POWER ? 0.0f : log2f(base);
    float sum = 0.0f, weights = 0.0f;
#pragma unroll
    for (int d = 0; d < 7; ++d) {
        const float value = line[min(max(col + d - 3, 0), cols - 1)], apart = value - middle;
        const float alike = BY_POWER ? powf(base, apart * apart) : exp2f(slope * (apart * apart));
        const float weight = near[d] * alike;
        sum = fmaf(weight, value, sum);
        weights += weight;
    }
    y[(size_t)blockIdx.y * cols + col] = sum / weights;
}

extern "C" __global__ void __launch_bounds__(256)
    bilateral_a(const float* __restrict__ x, float* __restrict__ y, int cols, float base)
{
    bilateral<true>(x, y, cols, base);
}

extern "C" __global__ void __launch_bounds__(256)
    bilateral_b(const float* __restrict__ x, float* __restrict__ y, int cols, float base)
{
    bilateral<false>(x, y, cols, base);
}
"""


@pair
def bilateral(rows: int = 4096, cols: int = 8192, base: float = 0.01) -> Pair:
    x, y, z = numbers(rows, cols), empty(rows, cols), empty(rows, cols)

    def wanted() -> Tensor:
        wide = torch.nn.functional.pad(x[None], (3, 3), mode="replicate")[0]
        sums, weights = torch.zeros_like(x), torch.zeros_like(x)
        for d, near in enumerate((0.2, 0.5, 0.8, 1.0, 0.8, 0.5, 0.2)):
            value = wide[:, d : d + cols]
            weight = near * torch.pow(torch.full_like(x, base), (value - x).square())
            sums += weight * value
            weights += weight
        return sums / weights

    a = Version("bilateral_a", (cols // 256, rows), (256,), (x, y, cols, base), lambda: y)
    b = Version("bilateral_b", (cols // 256, rows), (256,), (x, z, cols, base), lambda: z)
    return Pair(BILATERAL, (a, b), wanted, ("fp32", 50 * rows * cols, 8 * rows * cols), 1e-4)


# Running sums of many sequences, side by side in memory --------------------------------------------------------------

RUNNING = r"""
// x[time][sequence]
extern "C" __global__ void running_a(const float* __restrict__ x, float* __restrict__ y, int steps, int count)
{
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int step = 0; step < steps; ++step) {
        sum += x[(size_t)step * count + at];
        y[(size_t)step * count + at] = sum;
    }
}

// A warp takes one of 32 spans of time of 32 sequences.
extern "C" __global__ void __launch_bounds__(1024)
    running_b(const float* __restrict__ x, float* __restrict__ y, int steps, int count)
{
    __shared__ float sums[32][33];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, span = steps / 32;
    const size_t from = (size_t)warp * span * count + blockIdx.x * 32 + lane;
    float sum = 0.0f;
#pragma unroll 8
    for (int step = 0; step < span; ++step)
        sum += x[from + (size_t)step * count];
    sums[warp][lane] = sum;
    __syncthreads();
    float run = 0.0f;
    for (int before = 0; before < warp; ++before)
        run += sums[before][lane];
#pragma unroll 8
    for (int step = 0; step < span; ++step) {
        run += x[from + (size_t)step * count];
        y[from + (size_t)step * count] = run;
    }
}
"""


@pair
def running(steps: int = 4096, count: int = 4096) -> Pair:
    x, y, z = numbers(steps, count), empty(steps, count), empty(steps, count)
    a = Version("running_a", (count // 32,), (32,), (x, y, steps, count), lambda: y)
    b = Version("running_b", (count // 32,), (1024,), (x, z, steps, count), lambda: z)
    return Pair(RUNNING, (a, b), lambda: x.double().cumsum(0), ("fp32", steps * count, 8 * steps * count), 1e-4)


# Sums of squares of the columns of a matrix that is stored by rows ---------------------------------------------------

COLUMNS = (
    HEAD
    + r"""
// A block has 32 columns, 1024 threads.
extern "C" __global__ void __launch_bounds__(1024)
    columns_a(const float* __restrict__ x, float* turned, float* __restrict__ y, int rows, int cols)
{
    __shared__ float tile[32][33];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, col = blockIdx.x * 32;
    for (int row = 0; row < rows; row += 32) {
        tile[warp][lane] = x[(size_t)(row + warp) * cols + col + lane];
        __syncthreads();
        turned[(size_t)(col + warp) * rows + row + lane] = tile[lane][warp];
        __syncthreads();
    }
    const float4* const mine = (const float4*)(turned + (size_t)(col + warp) * rows);
    float sum = 0.0f;
#pragma unroll 8
    for (int i = lane; i < rows / 4; i += 32) {
        const float4 v = mine[i];
        sum += add4(make_float4(v.x * v.x, v.y * v.y, v.z * v.z, v.w * v.w));
    }
    sum = warp_sum(sum);
    if (lane == 0)
        y[col + warp] = sum;
}

extern "C" __global__ void __launch_bounds__(1024)
    columns_b(const float* __restrict__ x, float* __restrict__ y, int rows, int cols)
{
    __shared__ float parts[32][33];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, col = blockIdx.x * 32;
    float sum = 0.0f;
#pragma unroll 8
    for (int row = warp; row < rows; row += 32) {
        const float v = x[(size_t)row * cols + col + lane];
        sum = fmaf(v, v, sum);
    }
    parts[warp][lane] = sum;
    __syncthreads();
    sum = warp_sum(parts[lane][warp]);
    if (lane == 0)
        y[col + warp] = sum;
}
"""
)


@pair
def columns(rows: int = 8192, cols: int = 8192) -> Pair:
    x, turned, y, z = numbers(rows, cols), empty(cols, rows), empty(cols), empty(cols)
    a = Version("columns_a", (cols // 32,), (1024,), (x, turned, y, rows, cols), lambda: y)
    b = Version("columns_b", (cols // 32,), (1024,), (x, z, rows, cols), lambda: z)
    work = ("fp32", 2 * rows * cols, 4 * (rows * cols + cols))
    return Pair(COLUMNS, (a, b), lambda: x.square().sum(0), work, 1e-4)


# One step of Jacobi's method in three dimensions ---------------------------------------------------------------------

JACOBI = r"""
// Blocks of 64 x 4 cells of a cube with a side of 2^bits cells; the cells at its faces keep their values.
__device__ __forceinline__ void step(const float* x, float* y, int bits, unsigned block)
{
    const int side = 1 << bits, across = bits - 6, down = bits - 2;
    const int i = ((block & ((1u << across) - 1)) << 6) + threadIdx.x;
    const int j = ((block >> across & ((1u << down) - 1)) << 2) + threadIdx.y;
    const int k = block >> (across + down);
    const size_t row = side, plane = row << bits, at = (size_t)k * plane + (size_t)j * row + i;
    if (i == 0 || j == 0 || k == 0 || i == side - 1 || j == side - 1 || k == side - 1)
        y[at] = x[at];
    else
        y[at] = ((x[at - 1] + x[at + 1]) + (x[at - row] + x[at + row]) + (x[at - plane] + x[at + plane])) * (1.0f / 6.0f);
}

extern "C" __global__ void __launch_bounds__(256) jacobi_a(const float* __restrict__ x, float* __restrict__ y, int bits)
{
    step(x, y, bits, blockIdx.x * 161803u & (gridDim.x - 1));
}

extern "C" __global__ void __launch_bounds__(256) jacobi_b(const float* __restrict__ x, float* __restrict__ y, int bits)
{
    step(x, y, bits, blockIdx.x);
}
"""


@pair
def jacobi(bits: int = 9) -> Pair:
    side = 1 << bits
    x, y, z = numbers(side, side, side), empty(side, side, side), empty(side, side, side)

    def wanted() -> Tensor:
        result, c = x.clone(), slice(1, -1)
        result[c, c, c] = (
            x[c, c, :-2] + x[c, c, 2:] + x[c, :-2, c] + x[c, 2:, c] + x[:-2, c, c] + x[2:, c, c]
        ) / 6  # fmt: skip
        return result

    a = Version("jacobi_a", (side**3 // 256,), (64, 4), (x, y, bits), lambda: y)
    b = Version("jacobi_b", (side**3 // 256,), (64, 4), (x, z, bits), lambda: z)
    return Pair(JACOBI, (a, b), wanted, ("fp32", 6 * side**3, 8 * side**3))


# A sparse matrix of eight numbers per row, times a vector ------------------------------------------------------------

SPARSE = r"""
extern "C" __global__ void __launch_bounds__(256)
    sparse_a(const int* __restrict__ starts, const int* __restrict__ cols, const float* __restrict__ values,
             const float* __restrict__ x, float* __restrict__ y)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    const int at = starts[row] + lane;
    float sum = at < starts[row + 1] ? values[at] * x[cols[at]] : 0.0f;
#pragma unroll
    for (int other = 16; other; other /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, other);
    if (lane == 0)
        y[row] = sum;
}

extern "C" __global__ void __launch_bounds__(256)
    sparse_b(const int* __restrict__ starts, const int* __restrict__ cols, const float* __restrict__ values,
             const float* __restrict__ x, float* __restrict__ y)
{
    const int row = blockIdx.x * 32 + threadIdx.x / 8, lane = threadIdx.x % 8;
    const int at = starts[row] + lane;
    float sum = at < starts[row + 1] ? values[at] * x[cols[at]] : 0.0f;
#pragma unroll
    for (int other = 4; other; other /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, other);
    if (lane == 0)
        y[row] = sum;
}
"""


@pair
def sparse(rows: int = 1 << 22) -> Pair:
    values, x = numbers(rows, 8), numbers(rows, seed=1)
    starts = torch.arange(0, 8 * rows + 1, 8, dtype=torch.int32, device=DEVICE)
    places = torch.arange(rows, device=DEVICE)[:, None] + 7 * (torch.arange(8, device=DEVICE) - 4)
    cols = (places % rows).to(torch.int32)
    y, z = empty(rows), empty(rows)
    a = Version("sparse_a", (rows // 8,), (256,), (starts, cols, values, x, y), lambda: y)
    b = Version("sparse_b", (rows // 32,), (256,), (starts, cols, values, x, z), lambda: z)
    work = ("fp32", 16 * rows, 4 * (8 * rows * 2 + rows + 1 + 2 * rows))
    return Pair(SPARSE, (a, b), lambda: (values * x[cols.long()]).sum(1), work, 1e-5)
