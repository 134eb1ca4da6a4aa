"""32 pairs of kernels and 4 healthy ones. truth.csv names the planted causes; `../pairs.py` checks, times and counts them."""

from __future__ import annotations

import torch
from pairs import DEVICE, HEAD, SMS, Pair, Tensor, Version, empty, numbers, pair, whole

# Patches of an image as the rows of a matrix -------------------------------------------------------------------------

PATCHES = r"""
// x[16][high][wide], y[high * wide][16 * 9]; a pixel beyond the edge is zero.
extern "C" __global__ void __launch_bounds__(256)
    patches_a(const float* __restrict__ x, float* __restrict__ y, int high, int wide)
{
    const int col = blockIdx.x * 256 + threadIdx.x, row = blockIdx.y, channel = blockIdx.z;
    const float* const plane = x + (size_t)channel * high * wide;
    float* const out = y + ((size_t)row * wide + col) * 144 + channel * 9;
#pragma unroll
    for (int k = 0; k < 9; ++k) {
        const int r = row + k / 3 - 1, c = col + k % 3 - 1;
        out[k] = r >= 0 && r < high && c >= 0 && c < wide ? plane[(size_t)r * wide + c] : 0.0f;
    }
}

extern "C" __global__ void __launch_bounds__(256)
    patches_b(const float* __restrict__ x, float* __restrict__ y, int high, int wide)
{
    __shared__ float held[16][3][66];
    const int first = blockIdx.x * 64, row = blockIdx.y;
    for (int i = threadIdx.x; i < 16 * 3 * 66; i += 256) {
        const int channel = i / 198, down = i / 66 % 3, across = i % 66, r = row + down - 1, c = first + across - 1;
        const bool inside = r >= 0 && r < high && c >= 0 && c < wide;
        held[channel][down][across] = inside ? x[((size_t)channel * high + r) * wide + c] : 0.0f;
    }
    __syncthreads();
    float* const out = y + ((size_t)row * wide + first) * 144;
#pragma unroll 4
    for (int i = threadIdx.x; i < 64 * 144; i += 256) {
        const int pixel = i / 144, place = i % 144;
        out[i] = held[place / 9][place % 9 / 3][pixel + place % 3];
    }
}
"""


@pair
def patches(high: int = 768, wide: int = 1024) -> Pair:
    x, y, z = numbers(16, high, wide), empty(high * wide, 144), empty(high * wide, 144)

    def wanted() -> Tensor:
        return torch.nn.functional.unfold(x[None], 3, padding=1)[0].t()

    a = Version("patches_a", (wide // 256, high, 16), (256,), (x, y, high, wide), lambda: y)
    b = Version("patches_b", (wide // 64, high), (256,), (x, z, high, wide), lambda: z)
    return Pair(PATCHES, (a, b), wanted, ("fp32", 0, 4 * 160 * high * wide), 0.0)


# The real part of a signal, scaled -----------------------------------------------------------------------------------

LEVEL = r"""
template <int APART>
__device__ __forceinline__ void level(const float* x, float* y, float gain)
{
    const size_t i = (size_t)blockIdx.x * 1024 + threadIdx.x;
    float value[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
        value[j] = x[(i + 256 * j) * APART];
#pragma unroll
    for (int j = 0; j < 4; ++j)
        y[i + 256 * j] = fabsf(value[j]) * gain;
}

// Real and imaginary parts take turns.
extern "C" __global__ void __launch_bounds__(256) level_a(const float* __restrict__ x, float* __restrict__ y, float gain)
{
    level<2>(x, y, gain);
}

extern "C" __global__ void __launch_bounds__(256) level_b(const float* __restrict__ x, float* __restrict__ y, float gain)
{
    level<1>(x, y, gain);
}
"""


@pair
def level(n: int = 1 << 26) -> Pair:
    x, y, z = numbers(n, 2), empty(n), empty(n)
    a = Version("level_a", (n // 1024,), (256,), (x, y, 3.0), lambda: y)
    b = Version("level_b", (n // 1024,), (256,), (x[:, 0].contiguous(), z, 3.0), lambda: z)
    return Pair(LEVEL, (a, b), lambda: 3.0 * x[:, 0].abs(), ("fp32", n, 8 * n))


# The nearest of 64 centres -------------------------------------------------------------------------------------------

ASSIGN = r"""
// x[dims][n], centres[64][dims]
extern "C" __global__ void __launch_bounds__(256)
    assign_a(const float* __restrict__ x, const float* __restrict__ centres, int* __restrict__ which,
             float* __restrict__ apart, int n, int dims)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float best = 3e38f;
    int at = 0;
    for (int c = 0; c < 64; ++c) {
        float sum = 0.0f;
#pragma unroll 4
        for (int d = 0; d < dims; ++d) {
            const float e = x[(size_t)d * n + i] - centres[c * dims + d];
            sum = fmaf(e, e, sum);
        }
        if (sum < best) {
            best = sum;
            at = c;
        }
    }
    which[i] = at;
    apart[i] = best;
}

extern "C" __global__ void __launch_bounds__(256)
    assign_b(const float* __restrict__ x, const float* __restrict__ centres, int* __restrict__ which,
             float* __restrict__ apart, int n)
{
    __shared__ float4 held[64][4];
    const int i = blockIdx.x * 256 + threadIdx.x;
    ((float4*)held)[threadIdx.x] = ((const float4*)centres)[threadIdx.x];
    float p[16];
#pragma unroll
    for (int d = 0; d < 16; ++d)
        p[d] = x[(size_t)d * n + i];
    __syncthreads();
    float best = 3e38f;
    int at = 0;
#pragma unroll 2
    for (int c = 0; c < 64; ++c) {
        float sum = 0.0f;
#pragma unroll
        for (int d = 0; d < 4; ++d) {
            const float4 q = held[c][d];
            const float e = p[4 * d] - q.x, f = p[4 * d + 1] - q.y, g = p[4 * d + 2] - q.z, h = p[4 * d + 3] - q.w;
            sum = fmaf(e, e, fmaf(f, f, fmaf(g, g, fmaf(h, h, sum))));
        }
        if (sum < best) {
            best = sum;
            at = c;
        }
    }
    which[i] = at;
    apart[i] = best;
}
"""


@pair
def assign(n: int = 1 << 21) -> Pair:
    """Two centres may be equally near but for rounding, so distances are compared."""
    x, centres = numbers(16, n), numbers(64, 16, seed=1)
    which, other = empty(n, dtype=torch.int32), empty(n, dtype=torch.int32)
    y, z = empty(n), empty(n)

    def wanted() -> Tensor:
        best = torch.full((n,), 3e38, device=DEVICE)
        for centre in centres:
            best = torch.minimum(best, (x - centre[:, None]).square().sum(0))
        return best

    a = Version("assign_a", (n // 256,), (256,), (x, centres, which, y, n, 16), lambda: y)
    b = Version("assign_b", (n // 256,), (256,), (x, centres, other, z, n), lambda: z)
    return Pair(ASSIGN, (a, b), wanted, ("fp32", 3 * 64 * 16 * n, 4 * (16 * n + 1024 + 2 * n)), 1e-4)


# Squared distances between all points of two sets --------------------------------------------------------------------

APART = r"""
// x[depth][n], y[depth][m], z[n][m]
extern "C" __global__ void __launch_bounds__(256)
    apart_a(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z, int n, int m, int depth)
{
    __shared__ float left[16][16], right[16][16];
    const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, i = blockIdx.y * 16, j = blockIdx.x * 16;
    float sum = 0.0f;
    for (int k = 0; k < depth; k += 16) {
        left[ty][tx] = x[(size_t)(k + ty) * n + i + tx];
        right[ty][tx] = y[(size_t)(k + ty) * m + j + tx];
        __syncthreads();
#pragma unroll
        for (int e = 0; e < 16; ++e) {
            const float d = left[e][ty] - right[e][tx];
            sum = fmaf(d, d, sum);
        }
        __syncthreads();
    }
    z[(size_t)(i + ty) * m + j + tx] = sum;
}

extern "C" __global__ void __launch_bounds__(256)
    apart_b(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z, int n, int m, int depth)
{
    __shared__ float4 left[16][32], right[16][32];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16, i = blockIdx.y * 128, j = blockIdx.x * 128;
    float sum[8][8] = {};
    for (int k = 0; k < depth; k += 16) {
#pragma unroll
        for (int half = 0; half < 16; half += 8) {
            const int e = half + t / 32;
            left[e][t % 32] = *(const float4*)(x + (size_t)(k + e) * n + i + 4 * (t % 32));
            right[e][t % 32] = *(const float4*)(y + (size_t)(k + e) * m + j + 4 * (t % 32));
        }
        __syncthreads();
#pragma unroll 8
        for (int e = 0; e < 16; ++e) {
            const float4 a = left[e][ty], b = left[e][ty + 16], c = right[e][tx], d = right[e][tx + 16];
            const float rows[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
            const float cols[8] = {c.x, c.y, c.z, c.w, d.x, d.y, d.z, d.w};
#pragma unroll
            for (int r = 0; r < 8; ++r)
#pragma unroll
                for (int s = 0; s < 8; ++s) {
                    const float between = rows[r] - cols[s];
                    sum[r][s] = fmaf(between, between, sum[r][s]);
                }
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 8; ++r) {
        float* const line = z + (size_t)(i + 4 * ty + r % 4 + r / 4 * 64) * m + j + 4 * tx;
        *(float4*)line = make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
        *(float4*)(line + 64) = make_float4(sum[r][4], sum[r][5], sum[r][6], sum[r][7]);
    }
}
"""


@pair
def apart(n: int = 4096, m: int = 4096, depth: int = 512) -> Pair:
    x, y = numbers(depth, n), numbers(depth, m, seed=1)
    z, w = empty(n, m), empty(n, m)

    def wanted() -> Tensor:
        p, q = x.double(), y.double()
        return p.square().sum(0)[:, None] + q.square().sum(0)[None] - 2 * (p.t() @ q)

    a = Version("apart_a", (m // 16, n // 16), (256,), (x, y, z, n, m, depth), lambda: z)
    b = Version("apart_b", (m // 128, n // 128), (256,), (x, y, w, n, m, depth), lambda: w)
    return Pair(APART, (a, b), wanted, ("fp32", 3 * n * m * depth, 4 * (depth * (n + m) + n * m)), 1e-4)


# Running sums within parts of 4096 numbers ---------------------------------------------------------------------------

RUNNING = r"""
// Numbers enter and leave side by side; in between a thread has 16 that follow each other. `pad` words follow 32 of them.
__device__ __forceinline__ int place(int i, int pad) { return i + i / 32 * pad; }

__device__ __forceinline__ void running(const float* x, float* y, int pad)
{
    __shared__ float held[4096 + 128];
    __shared__ float ends[8];
    const int t = threadIdx.x;
    const size_t from = (size_t)blockIdx.x * 4096 + t;
#pragma unroll
    for (int j = 0; j < 16; ++j)
        held[place(t + 256 * j, pad)] = x[from + 256 * j];
    __syncthreads();
    float v[16];
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
        sum += held[place(16 * t + j, pad)];
        v[j] = sum;
    }
    float before = sum;
#pragma unroll
    for (int lane = 1; lane < 32; lane *= 2) {
        const float other = __shfl_up_sync(0xffffffffu, before, lane);
        before += t % 32 >= lane ? other : 0.0f;
    }
    if (t % 32 == 31)
        ends[t / 32] = before;
    __syncthreads();
    before -= sum;
#pragma unroll
    for (int warp = 0; warp < 7; ++warp)
        before += warp < t / 32 ? ends[warp] : 0.0f;
#pragma unroll
    for (int j = 0; j < 16; ++j)
        held[place(16 * t + j, pad)] = v[j] + before;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 16; ++j)
        y[from + 256 * j] = held[place(t + 256 * j, pad)];
}

extern "C" __global__ void __launch_bounds__(256) running_a(const float* __restrict__ x, float* __restrict__ y, int pad)
{
    running(x, y, pad);
}

extern "C" __global__ void __launch_bounds__(256) running_b(const float* __restrict__ x, float* __restrict__ y, int pad)
{
    running(x, y, pad);
}
"""


@pair
def running(n: int = 1 << 26) -> Pair:
    x, y, z = numbers(n) + 0.5, empty(n), empty(n)
    a = Version("running_a", (n // 4096,), (256,), (x, y, 0), lambda: y)
    b = Version("running_b", (n // 4096,), (256,), (x, z, 1), lambda: z)
    return Pair(RUNNING, (a, b), lambda: x.double().view(-1, 4096).cumsum(1).view(-1), ("fp32", n, 8 * n))


# Softmax of long rows, held in shared memory -------------------------------------------------------------------------

SHARES = (
    HEAD
    + r"""
// The room that is asked for may be that of the longest row allowed.
__device__ __forceinline__ void shares(const float* x, float* y, int cols)
{
    extern __shared__ float held[];
    __shared__ float tops[4], sums[4];
    const int t = threadIdx.x;
    const float* const from = x + (size_t)blockIdx.x * cols;
    float top = -3e38f;
    for (int j = t; j < cols; j += 128) {
        const float value = from[j];
        held[j] = value;
        top = fmaxf(top, value);
    }
#pragma unroll
    for (int lane = 16; lane; lane /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, lane));
    if (t % 32 == 0)
        tops[t / 32] = top;
    __syncthreads();
    top = fmaxf(fmaxf(tops[0], tops[1]), fmaxf(tops[2], tops[3]));
    float sum = 0.0f;
    for (int j = t; j < cols; j += 128) {
        const float value = __expf(held[j] - top);
        held[j] = value;
        sum += value;
    }
    sum = warp_sum(sum);
    if (t % 32 == 0)
        sums[t / 32] = sum;
    __syncthreads();
    const float scale = 1.0f / ((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (int j = t; j < cols; j += 128)
        y[(size_t)blockIdx.x * cols + j] = held[j] * scale;
}

extern "C" __global__ void __launch_bounds__(128) shares_a(const float* __restrict__ x, float* __restrict__ y, int cols)
{
    shares(x, y, cols);
}

extern "C" __global__ void __launch_bounds__(128) shares_b(const float* __restrict__ x, float* __restrict__ y, int cols)
{
    shares(x, y, cols);
}
"""
)


@pair
def shares(rows: int = 1 << 14, cols: int = 4096, longest: int = 25600) -> Pair:
    x, y, z = 4 * numbers(rows, cols), empty(rows, cols), empty(rows, cols)
    a = Version("shares_a", (rows,), (128,), (x, y, cols), lambda: y, shared=4 * longest)
    b = Version("shares_b", (rows,), (128,), (x, z, cols), lambda: z, shared=4 * cols)
    work = ("fp32", 5 * rows * cols, 8 * rows * cols)
    return Pair(SHARES, (a, b), lambda: x.softmax(1), work, 1e-4)


# The 40 largest numbers of every column ------------------------------------------------------------------------------

LARGEST = r"""
__device__ __forceinline__ void largest(const float* x, float* y, int rows, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float best[40];
#pragma unroll
    for (int e = 0; e < 40; ++e)
        best[e] = -3e38f;
#pragma unroll 2
    for (int row = 0; row < rows; ++row) {
        float value = x[(size_t)row * n + i];
#pragma unroll
        for (int e = 0; e < 40; ++e) {
            const float low = fminf(best[e], value);
            best[e] = fmaxf(best[e], value);
            value = low;
        }
    }
#pragma unroll
    for (int e = 0; e < 40; ++e)
        y[(size_t)e * n + i] = best[e];
}

extern "C" __global__ void __launch_bounds__(256, 8)
    largest_a(const float* __restrict__ x, float* __restrict__ y, int rows, int n)
{
    largest(x, y, rows, n);
}

extern "C" __global__ void __launch_bounds__(256)
    largest_b(const float* __restrict__ x, float* __restrict__ y, int rows, int n)
{
    largest(x, y, rows, n);
}
"""


@pair
def largest(rows: int = 128, n: int = 1 << 19) -> Pair:
    x, y, z = numbers(rows, n), empty(40, n), empty(40, n)
    a = Version("largest_a", (n // 256,), (256,), (x, y, rows, n), lambda: y)
    b = Version("largest_b", (n // 256,), (256,), (x, z, rows, n), lambda: z)
    work = ("fp32", 0, 4 * (rows + 40) * n)
    return Pair(LARGEST, (a, b), lambda: x.sort(0, descending=True).values[:40], work, 0.0)


# The median of nine pixels -------------------------------------------------------------------------------------------

MIDDLE = r"""
__device__ __forceinline__ void around(const float* x, float (&v)[9], int high, int wide)
{
    const int col = blockIdx.x * 256 + threadIdx.x, row = blockIdx.y;
#pragma unroll
    for (int k = 0; k < 9; ++k) {
        const int r = min(max(row + k / 3 - 1, 0), high - 1), c = min(max(col + k % 3 - 1, 0), wide - 1);
        v[k] = x[(size_t)r * wide + c];
    }
}

extern "C" __global__ void __launch_bounds__(256)
    middle_a(const float* __restrict__ x, float* __restrict__ y, int high, int wide)
{
    float v[9];
    around(x, v, high, wide);
#pragma unroll 1
    for (int k = 1; k < 9; ++k) {
        const float value = v[k];
        int at = k;
#pragma unroll 1
        for (; at > 0 && v[at - 1] > value; --at)
            v[at] = v[at - 1];
        v[at] = value;
    }
    y[(size_t)blockIdx.y * wide + blockIdx.x * 256 + threadIdx.x] = v[4];
}

extern "C" __global__ void __launch_bounds__(256)
    middle_b(const float* __restrict__ x, float* __restrict__ y, int high, int wide)
{
    float v[9];
    around(x, v, high, wide);
#pragma unroll
    for (int pass = 0; pass < 9; ++pass)
#pragma unroll
        for (int k = pass % 2; k < 8; k += 2) {
            const float low = fminf(v[k], v[k + 1]);
            v[k + 1] = fmaxf(v[k], v[k + 1]);
            v[k] = low;
        }
    y[(size_t)blockIdx.y * wide + blockIdx.x * 256 + threadIdx.x] = v[4];
}
"""


@pair
def middle(high: int = 2048, wide: int = 4096) -> Pair:
    x, y, z = numbers(high, wide), empty(high, wide), empty(high, wide)

    def wanted() -> Tensor:
        padded = torch.nn.functional.pad(x[None], (1, 1, 1, 1), mode="replicate")[0]
        parts = [padded[i : i + high, j : j + wide] for i in range(3) for j in range(3)]
        return torch.stack(parts, 2).sort(2).values[..., 4]

    grid = (wide // 256, high)
    a = Version("middle_a", grid, (256,), (x, y, high, wide), lambda: y)
    b = Version("middle_b", grid, (256,), (x, z, high, wide), lambda: z)
    return Pair(MIDDLE, (a, b), wanted, ("fp32", 0, 8 * high * wide), 0.0)


# The product of two long vectors -------------------------------------------------------------------------------------

INNER = (
    HEAD
    + r"""
__device__ __forceinline__ float dot(float4 p, float4 q)
{
    return add4(make_float4(p.x * q.x, p.y * q.y, p.z * q.z, p.w * q.w));
}

extern "C" __global__ void __launch_bounds__(256)
    inner_a(const float4* __restrict__ x, const float4* __restrict__ y, float* sum)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float part = warp_sum(dot(x[i], y[i]));
    if (threadIdx.x % 32 == 0)
        atomicAdd(sum, part);
}

extern "C" __global__ void __launch_bounds__(256)
    inner_b(const float4* __restrict__ x, const float4* __restrict__ y, float* sum, int n4)
{
    __shared__ float parts[32];
    float part = 0.0f;
#pragma unroll 2
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n4; i += gridDim.x * 256)
        part += dot(x[i], y[i]);
    part = block_sum(part, parts);
    if (threadIdx.x == 0)
        atomicAdd(sum, part);
}
"""
)


@pair
def inner(n: int = 1 << 26) -> Pair:
    x, y, u, v = numbers(n) + 0.5, numbers(n, seed=1) + 0.5, empty(1), empty(1)
    a = Version("inner_a", (n // 1024,), (256,), (x, y, u), lambda: u, cleared=u)
    b = Version("inner_b", (8 * SMS,), (256,), (x, y, v, n // 4), lambda: v, cleared=v)
    return Pair(INNER, (a, b), lambda: (x.double() * y.double()).sum()[None], ("fp32", 2 * n, 8 * n + 4), 1e-3)


# How often each of 256 tones occurs, most of them black --------------------------------------------------------------

TONES = r"""
template <int COPIES>
__device__ __forceinline__ void tones(const uint4* x, int* y)
{
    __shared__ int held[256 * COPIES];
    const int t = threadIdx.x, copy = t % COPIES;
    for (int i = t; i < 256 * COPIES; i += 256)
        held[i] = 0;
    __syncthreads();
#pragma unroll 2
    for (int j = 0; j < 16; ++j) {
        const uint4 v = x[((size_t)blockIdx.x * 16 + j) * 256 + t];
        const unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int e = 0; e < 16; ++e)
            atomicAdd(&held[(words[e / 4] >> 8 * (e % 4) & 255u) * COPIES + copy], 1);
    }
    __syncthreads();
    int sum = 0;
#pragma unroll
    for (int j = 0; j < COPIES; ++j)
        sum += held[t * COPIES + (j + t) % COPIES];
    atomicAdd(&y[t], sum);
}

extern "C" __global__ void __launch_bounds__(256) tones_a(const uint4* __restrict__ x, int* y)
{
    tones<1>(x, y);
}

extern "C" __global__ void __launch_bounds__(256) tones_b(const uint4* __restrict__ x, int* y)
{
    tones<32>(x, y);
}
"""


@pair
def tones(n: int = 1 << 27) -> Pair:
    """Three pixels of five are black."""
    drawn = whole(640, n, dtype=torch.int16)
    x = torch.where(drawn < 256, drawn, torch.zeros_like(drawn)).to(torch.uint8)
    y, z = empty(256, dtype=torch.int32), empty(256, dtype=torch.int32)
    a = Version("tones_a", (n // 65536,), (256,), (x, y), lambda: y, cleared=y)
    b = Version("tones_b", (n // 65536,), (256,), (x, z), lambda: z, cleared=z)
    return Pair(TONES, (a, b), lambda: torch.bincount(x.int(), minlength=256), ("int8", 0, n + 1024), 0.0)


# Sums and counts by key ----------------------------------------------------------------------------------------------

KEYED = r"""
// A sum and a count are updated together, as one word of 64 bits.
extern "C" __global__ void __launch_bounds__(256)
    keyed_a(const int* __restrict__ keys, const float* __restrict__ x, unsigned long long* table)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    unsigned long long* const at = table + keys[i];
    const float value = x[i];
    unsigned long long seen = *at, expected;
    do {
        expected = seen;
        const float sum = __uint_as_float((unsigned)expected) + value;
        const unsigned long long count = (expected >> 32) + 1;
        seen = atomicCAS(at, expected, count << 32 | __float_as_uint(sum));
    } while (seen != expected);
}

extern "C" __global__ void __launch_bounds__(256)
    keyed_b(const int* __restrict__ keys, const float* __restrict__ x, float* table)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float* const at = table + 2 * keys[i];
    atomicAdd(at, x[i]);
    atomicAdd((unsigned*)at + 1, 1u);
}
"""


@pair
def keyed(n: int = 1 << 20, count: int = 8192) -> Pair:
    keys, x = whole(count, n), numbers(n, seed=1) + 0.5
    y, z = empty(count, 2), empty(count, 2)

    def read(table: Tensor) -> Tensor:
        return torch.stack([table[:, 0].double(), table.view(torch.int32)[:, 1].double()])

    def wanted() -> Tensor:
        sums = torch.bincount(keys.long(), weights=x.double(), minlength=count)
        return torch.stack([sums, torch.bincount(keys.long(), minlength=count).double()])

    a = Version("keyed_a", (n // 256,), (256,), (keys, x, y), lambda: read(y), cleared=y)
    b = Version("keyed_b", (n // 256,), (256,), (keys, x, z), lambda: read(z), cleared=z)
    return Pair(KEYED, (a, b), wanted, ("fp32", n, 8 * n + 8 * count))


# Random numbers from a counter ---------------------------------------------------------------------------------------

NOISE = r"""
__device__ __forceinline__ float draw(unsigned counter, uint4 seed)
{
    unsigned h = counter * 0x9e3779b1u + seed.x;
    h = (h ^ h >> 16 ^ seed.y) * 0x85ebca6bu;
    h = (h ^ h >> 13 ^ seed.z) * 0xc2b2ae35u;
    h ^= h >> 16 ^ seed.w;
    return (float)(h >> 8) * 5.9604645e-8f;
}

__device__ __forceinline__ void fill(float4* y, uint4 seed)
{
    const unsigned i = blockIdx.x * 256 + threadIdx.x;
    y[i] = make_float4(draw(4 * i, seed), draw(4 * i + 1, seed), draw(4 * i + 2, seed), draw(4 * i + 3, seed));
}

// Another kernel may change the seed, so it is read from L2.
extern "C" __global__ void __launch_bounds__(256) noise_a(const uint4* seeds, float4* __restrict__ y)
{
    uint4 seed;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(seed.x), "=r"(seed.y), "=r"(seed.z), "=r"(seed.w)
                 : "l"(seeds));
    fill(y, seed);
}

extern "C" __global__ void __launch_bounds__(256) noise_b(const uint4* __restrict__ seeds, float4* __restrict__ y)
{
    fill(y, *seeds);
}
"""


@pair
def noise(n: int = 1 << 26) -> Pair:
    words = (123456789, 362436069, 521288629, 88675123)
    seeds = torch.tensor(words, dtype=torch.int32, device=DEVICE)
    y, z = empty(n), empty(n)

    def wanted() -> Tensor:
        low = 0xFFFFFFFF
        h = (torch.arange(n, device=DEVICE) * 0x9E3779B1 + words[0]) & low
        h = ((h ^ h >> 16 ^ words[1]) * 0x85EBCA6B) & low
        h = ((h ^ h >> 13 ^ words[2]) * 0xC2B2AE35) & low
        h = h ^ h >> 16 ^ words[3]
        return (h >> 8).double() / (1 << 24)

    a = Version("noise_a", (n // 1024,), (256,), (seeds, y), lambda: y)
    b = Version("noise_b", (n // 1024,), (256,), (seeds, z), lambda: z)
    return Pair(NOISE, (a, b), wanted, ("fp32", n, 4 * n + 16), 1e-6)


# Squared and shifted, over and over ----------------------------------------------------------------------------------

ORBIT = r"""
__device__ __forceinline__ void orbit(const float2* start, float2* y, int steps)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float2 c = start[i];
    float re = 0.0f, im = 0.0f;
#pragma unroll 4
    for (int step = 0; step < steps; ++step) {
        const float next = fmaf(re, re, fmaf(-im, im, c.x));
        im = fmaf(re + re, im, c.y);
        re = next;
    }
    y[i] = make_float2(re, im);
}

extern "C" __global__ void __launch_bounds__(1024, 2)
    orbit_a(const float2* __restrict__ start, float2* __restrict__ y, int steps)
{
    orbit(start, y, steps);
}

extern "C" __global__ void __launch_bounds__(128, 16)
    orbit_b(const float2* __restrict__ start, float2* __restrict__ y, int steps)
{
    orbit(start, y, steps);
}
"""


@pair
def orbit(blocks: int = 4 * SMS + 16, steps: int = 2048) -> Pair:
    """Two blocks of 1024 threads fit on an SM: two waves and a bit."""
    n = 1024 * blocks
    start, y, z = 0.4 * numbers(n, 2), empty(n, 2), empty(n, 2)

    def wanted() -> Tensor:
        c = torch.view_as_complex(start.double())
        value = torch.zeros_like(c)
        for _ in range(steps):
            value = value * value + c
        return torch.view_as_real(value)

    a = Version("orbit_a", (blocks,), (1024,), (start, y, steps), lambda: y)
    b = Version("orbit_b", (8 * blocks,), (128,), (start, z, steps), lambda: z)
    return Pair(ORBIT, (a, b), wanted, ("fp32", 7 * steps * n, 16 * n), 1e-4)


# A sparse matrix times a vector --------------------------------------------------------------------------------------

ROWS = (
    HEAD
    + r"""
// A warp has eight rows, one after the other.
__device__ __forceinline__ void rows_times(const int* starts, const int* cols, const float* values, const float* x,
                                           const int* order, float* y)
{
    const int lane = threadIdx.x % 32, first = (blockIdx.x * 8 + threadIdx.x / 32) * 8;
    for (int k = 0; k < 8; ++k) {
        const int row = order[first + k], end = starts[row + 1];
        float sum = 0.0f;
#pragma unroll 4
        for (int j = starts[row] + lane; j < end; j += 32)
            sum = fmaf(values[j], x[cols[j]], sum);
        sum = warp_sum(sum);
        if (lane == 0)
            y[row] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(256)
    rows_a(const int* __restrict__ starts, const int* __restrict__ cols, const float* __restrict__ values,
           const float* __restrict__ x, const int* __restrict__ order, float* __restrict__ y)
{
    rows_times(starts, cols, values, x, order, y);
}

extern "C" __global__ void __launch_bounds__(256)
    rows_b(const int* __restrict__ starts, const int* __restrict__ cols, const float* __restrict__ values,
           const float* __restrict__ x, const int* __restrict__ order, float* __restrict__ y)
{
    rows_times(starts, cols, values, x, order, y);
}
"""
)


@pair
def rows(count: int = 1 << 18, long_rows: int = 2048, width: int = 1 << 14) -> Pair:
    """The long rows come first; the second version deals them out over the blocks."""
    lengths = torch.full((count,), 96, device=DEVICE)
    lengths[:long_rows] = 4096
    total = 96 * (count - long_rows) + 4096 * long_rows
    starts = torch.zeros(count + 1, dtype=torch.int32, device=DEVICE)
    starts[1:] = lengths.cumsum(0).to(torch.int32)
    cols, values, x = whole(width, total), numbers(total, seed=1), numbers(width, seed=2)
    kept = torch.arange(count, dtype=torch.int32, device=DEVICE)
    dealt = kept.view(64, count // 64).t().contiguous()
    y, z = empty(count), empty(count)

    def wanted() -> Tensor:
        sums = torch.zeros(total + 1, dtype=torch.float64, device=DEVICE)
        sums[1:] = (values.double() * x.double()[cols.long()]).cumsum(0)
        return sums[starts[1:].long()] - sums[starts[:-1].long()]

    given = (starts, cols, values, x)
    a = Version("rows_a", (count // 64,), (256,), (*given, kept, y), lambda: y)
    b = Version("rows_b", (count // 64,), (256,), (*given, dealt, z), lambda: z)
    return Pair(ROWS, (a, b), wanted, ("fp32", 2 * total, 8 * total + 4 * (3 * count + width)), 1e-4)


# A matrix of bytes with a scale per row, times a vector --------------------------------------------------------------

WEIGHTS = (
    HEAD
    + r"""
extern "C" __global__ void __launch_bounds__(256)
    weights_a(const signed char* __restrict__ w, const float* __restrict__ scales, const float* __restrict__ x,
            float* __restrict__ y, int cols)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    const signed char* const line = w + (size_t)row * cols;
    float sum = 0.0f;
#pragma unroll 8
    for (int j = lane; j < cols; j += 32)
        sum = fmaf((float)line[j], x[j], sum);
    sum = warp_sum(sum);
    if (lane == 0)
        y[row] = sum * scales[row];
}

__device__ __forceinline__ float four(int w, float4 x)
{
    const float a = (float)(signed char)w, b = (float)(signed char)(w >> 8), c = (float)(signed char)(w >> 16);
    return fmaf(a, x.x, fmaf(b, x.y, fmaf(c, x.z, (float)(w >> 24) * x.w)));
}

// Four weights per lane and load
extern "C" __global__ void __launch_bounds__(256)
    weights_b(const int* __restrict__ w, const float* __restrict__ scales, const float4* __restrict__ x,
            float* __restrict__ y, int cols)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    const int* const line = w + (size_t)row * (cols / 4);
    float sum = 0.0f;
#pragma unroll 8
    for (int j = lane; j < cols / 4; j += 32)
        sum += four(line[j], x[j]);
    sum = warp_sum(sum);
    if (lane == 0)
        y[row] = sum * scales[row];
}
"""
)


@pair
def weights(rows: int = 1 << 16, cols: int = 4096) -> Pair:
    w = whole(255, rows, cols, dtype=torch.int16).sub(127).to(torch.int8)
    scales, x = numbers(rows, seed=1) + 1.0, numbers(cols, seed=2)
    y, z = empty(rows), empty(rows)

    def wanted() -> Tensor:
        parts = [part.double() @ x.double() for part in w.split(8192)]
        return torch.cat(parts) * scales

    a = Version("weights_a", (rows // 8,), (256,), (w, scales, x, y, cols), lambda: y)
    b = Version("weights_b", (rows // 8,), (256,), (w, scales, x, z, cols), lambda: z)
    return Pair(WEIGHTS, (a, b), wanted, ("fp32", 2 * rows * cols, rows * cols + 4 * cols + 8 * rows), 1e-4)


# Sums of rows of a table, chosen by index ----------------------------------------------------------------------------

PICKED = r"""
__device__ __forceinline__ void add(float2& sum, unsigned halves)
{
    float low, high;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }" : "=f"(low), "=f"(high) : "r"(halves));
    sum.x += low;
    sum.y += high;
}

// table[][64] of halves; a warp sums the rows of a bag.
template <int AHEAD>
__device__ __forceinline__ void picked(const unsigned* table, const int* which, float2* y, int length)
{
    const int bag = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    const int* const mine = which + (size_t)bag * length;
    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll 1
    for (int j = 0; j < length; j += AHEAD) {
        unsigned value[AHEAD];
#pragma unroll
        for (int e = 0; e < AHEAD; ++e)
            value[e] = table[(size_t)mine[j + e] * 32 + lane];
#pragma unroll
        for (int e = 0; e < AHEAD; ++e)
            add(sum, value[e]);
    }
    y[(size_t)bag * 32 + lane] = sum;
}

extern "C" __global__ void __launch_bounds__(256)
    picked_a(const unsigned* __restrict__ table, const int* __restrict__ which, float2* __restrict__ y, int length)
{
    picked<1>(table, which, y, length);
}

extern "C" __global__ void __launch_bounds__(256)
    picked_b(const unsigned* __restrict__ table, const int* __restrict__ which, float2* __restrict__ y, int length)
{
    picked<8>(table, which, y, length);
}
"""


@pair
def picked(bags: int = 1 << 15, length: int = 128) -> Pair:
    """Every row of the table is in one bag."""
    n = bags * length
    table = numbers(n, 64).half()
    which = torch.argsort(numbers(n, seed=1)).to(torch.int32)
    y, z = empty(bags, 64), empty(bags, 64)

    def wanted() -> Tensor:
        return torch.cat([table[part.long()].float().sum(1) for part in which.view(bags, length).split(4096)])

    a = Version("picked_a", (bags // 8,), (256,), (table, which, y, length), lambda: y)
    b = Version("picked_b", (bags // 8,), (256,), (table, which, z, length), lambda: z)
    return Pair(PICKED, (a, b), wanted, ("fp32", 64 * n, 132 * n + 256 * bags), 1e-4)


# Two kinds of cells, each with its own rule --------------------------------------------------------------------------

KINDS = r"""
__device__ __forceinline__ float grown(float x, int kind, int steps)
{
    if (kind) {
#pragma unroll 4
        for (int step = 0; step < steps; ++step)
            x = fmaf(fmaf(-0.125f, x, 0.25f), x, fmaf(0.5f, x, 0.125f));
    } else {
        float speed = 0.0f;
#pragma unroll 4
        for (int step = 0; step < steps; ++step) {
            speed = fmaf(0.0625f, 1.0f - x, 0.9375f * speed);
            x = fmaf(0.0625f, speed, x);
        }
    }
    return x;
}

extern "C" __global__ void __launch_bounds__(256)
    kinds_a(const float* __restrict__ x, const unsigned char* __restrict__ kinds, float* __restrict__ y, int steps)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = grown(x[i], kinds[i], steps);
}

extern "C" __global__ void __launch_bounds__(256)
    kinds_b(const float* __restrict__ x, const unsigned char* __restrict__ kinds, float* __restrict__ y, int steps)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = grown(x[i], kinds[i], steps);
}
"""


@pair
def kinds(n: int = 1 << 22, steps: int = 512) -> Pair:
    """The second version is given the cells in the order of their kinds."""
    x, given, y, z = numbers(n) + 1.0, whole(2, n, seed=1, dtype=torch.uint8), empty(n), empty(n)
    order = torch.argsort(given)

    def wanted() -> Tensor:
        first, second, speed = x.double(), x.double(), torch.zeros(n, dtype=torch.float64, device=DEVICE)
        for _ in range(steps):
            first = (0.25 - 0.125 * first) * first + 0.5 * first + 0.125
            speed = 0.9375 * speed + 0.0625 * (1 - second)
            second = second + 0.0625 * speed
        return torch.where(given > 0, first, second)

    def back() -> Tensor:
        result = torch.empty_like(z)
        result[order] = z
        return result

    a = Version("kinds_a", (n // 256,), (256,), (x, given, y, steps), lambda: y)
    b = Version("kinds_b", (n // 256,), (256,), (x[order], given[order], z, steps), back)
    return Pair(KINDS, (a, b), wanted, ("fp32", 6 * steps * n, 9 * n), 1e-4)


# Chains of 20 joints that settle -------------------------------------------------------------------------------------

JOINTS = r"""
__device__ __forceinline__ float settled(float angle, float target, int steps)
{
    float speed = 0.0f;
#pragma unroll 4
    for (int step = 0; step < steps; ++step) {
        speed = fmaf(0.03125f, target - angle, 0.9375f * speed);
        angle = fmaf(0.03125f, speed, angle);
    }
    return angle;
}

extern "C" __global__ void __launch_bounds__(256)
    joints_a(const float* __restrict__ x, const float* __restrict__ targets, float* __restrict__ y, int steps)
{
    const int chain = blockIdx.x * 8 + threadIdx.x / 32, joint = threadIdx.x % 32;
    if (joint < 20)
        y[chain * 20 + joint] = settled(x[chain * 20 + joint], targets[joint], steps);
}

extern "C" __global__ void __launch_bounds__(256)
    joints_b(const float* __restrict__ x, const float* __restrict__ targets, float* __restrict__ y, int steps)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = settled(x[i], targets[i % 20], steps);
}
"""


@pair
def joints(chains: int = 1 << 17, steps: int = 512) -> Pair:
    n = 20 * chains
    x, targets, y, z = numbers(chains, 20), numbers(20, seed=1), empty(chains, 20), empty(chains, 20)

    def wanted() -> Tensor:
        angle, speed = x.double(), torch.zeros(chains, 20, dtype=torch.float64, device=DEVICE)
        for _ in range(steps):
            speed = 0.9375 * speed + 0.03125 * (targets.double() - angle)
            angle = angle + 0.03125 * speed
        return angle

    a = Version("joints_a", (chains // 8,), (256,), (x, targets, y, steps), lambda: y)
    b = Version("joints_b", (n // 256,), (256,), (x, targets, z, steps), lambda: z)
    return Pair(JOINTS, (a, b), wanted, ("fp32", 6 * steps * n, 8 * n + 80), 1e-4)


# Rows with mean zero and variance one --------------------------------------------------------------------------------

CENTRED = (
    HEAD
    + r"""
__device__ __forceinline__ float total(float value, float (&parts)[16])
{
    value = warp_sum(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    return warp_sum(threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : 0.0f);
}

__device__ __forceinline__ float spread(float4 v, float mean)
{
    const float a = v.x - mean, b = v.y - mean, c = v.z - mean, d = v.w - mean;
    return add4(make_float4(a * a, b * b, c * c, d * d));
}

__device__ __forceinline__ float4 scaled(float4 v, float mean, float by)
{
    return make_float4((v.x - mean) * by, (v.y - mean) * by, (v.z - mean) * by, (v.w - mean) * by);
}

// A row has 16384 numbers.
extern "C" __global__ void __launch_bounds__(256, 8) centred_a(const float4* __restrict__ x, float4* __restrict__ y)
{
    __shared__ float parts[16];
    const float4* const from = x + (size_t)blockIdx.x * 4096;
    float sum = 0.0f, square = 0.0f;
#pragma unroll 4
    for (int j = threadIdx.x; j < 4096; j += 256)
        sum += add4(from[j]);
    const float mean = total(sum, parts) / 16384;
#pragma unroll 4
    for (int j = threadIdx.x; j < 4096; j += 256)
        square += spread(from[j], mean);
    const float by = rsqrtf(total(square, parts) / 16384 + 1e-5f);
#pragma unroll 4
    for (int j = threadIdx.x; j < 4096; j += 256)
        y[(size_t)blockIdx.x * 4096 + j] = scaled(from[j], mean, by);
}

extern "C" __global__ void __launch_bounds__(512, 2) centred_b(const float4* __restrict__ x, float4* __restrict__ y)
{
    __shared__ float parts[16];
    const float4* const from = x + (size_t)blockIdx.x * 4096;
    float4 v[8];
    float sum = 0.0f, square = 0.0f;
#pragma unroll
    for (int j = 0; j < 8; ++j)
        v[j] = from[threadIdx.x + 512 * j];
#pragma unroll
    for (int j = 0; j < 8; ++j)
        sum += add4(v[j]);
    const float mean = total(sum, parts) / 16384;
#pragma unroll
    for (int j = 0; j < 8; ++j)
        square += spread(v[j], mean);
    const float by = rsqrtf(total(square, parts) / 16384 + 1e-5f);
#pragma unroll
    for (int j = 0; j < 8; ++j)
        y[(size_t)blockIdx.x * 4096 + threadIdx.x + 512 * j] = scaled(v[j], mean, by);
}
"""
)


@pair
def centred(rows: int = 32 * SMS) -> Pair:
    x, y, z = numbers(rows, 16384), empty(rows, 16384), empty(rows, 16384)
    a = Version("centred_a", (rows,), (256,), (x, y), lambda: y)
    b = Version("centred_b", (rows,), (512,), (x, z), lambda: z)
    work = ("fp32", 6 * rows * 16384, 8 * rows * 16384)
    return Pair(CENTRED, (a, b), lambda: torch.nn.functional.layer_norm(x, (16384,)), work, 1e-4)


# Halves kept where a mask is set -------------------------------------------------------------------------------------

MASKED = r"""
__device__ __forceinline__ unsigned kept(unsigned halves, bool low, bool high)
{
    return halves & ((low ? 0x0000ffffu : 0u) | (high ? 0xffff0000u : 0u));
}

extern "C" __global__ void __launch_bounds__(256)
    masked_a(const uint4* __restrict__ x, const int4* __restrict__ mask, uint4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const uint4 v = x[i];
    const int4 p = mask[2 * i], q = mask[2 * i + 1];
    y[i] = make_uint4(kept(v.x, p.x, p.y), kept(v.y, p.z, p.w), kept(v.z, q.x, q.y), kept(v.w, q.z, q.w));
}

extern "C" __global__ void __launch_bounds__(256)
    masked_b(const uint4* __restrict__ x, const uint2* __restrict__ mask, uint4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const uint4 v = x[i];
    const uint2 p = mask[i];
    y[i] = make_uint4(kept(v.x, p.x & 0xffu, p.x & 0xff00u), kept(v.y, p.x & 0xff0000u, p.x >> 24),
                      kept(v.z, p.y & 0xffu, p.y & 0xff00u), kept(v.w, p.y & 0xff0000u, p.y >> 24));
}
"""


@pair
def masked(n: int = 1 << 27) -> Pair:
    x, mask = numbers(n).half(), whole(2, n, seed=1, dtype=torch.uint8)
    y, z = empty(n, dtype=torch.float16), empty(n, dtype=torch.float16)
    a = Version("masked_a", (n // 2048,), (256,), (x, mask.to(torch.int32), y), lambda: y)
    b = Version("masked_b", (n // 2048,), (256,), (x, mask, z), lambda: z)
    return Pair(MASKED, (a, b), lambda: x * mask, ("fp16", 0, 5 * n), 0.0)


# Three spectra multiplied --------------------------------------------------------------------------------------------

SPECTRA = r"""
// Two complex numbers
__device__ __forceinline__ float4 times(float4 p, float4 q)
{
    return make_float4(fmaf(p.x, q.x, -p.y * q.y), fmaf(p.x, q.y, p.y * q.x), fmaf(p.z, q.z, -p.w * q.w),
                       fmaf(p.z, q.w, p.w * q.z));
}

// A block has 65536 complex numbers.
extern "C" __global__ void __launch_bounds__(512)
    spectra_a(const float4* __restrict__ p, const float4* __restrict__ q, const float4* __restrict__ r, float4* between,
              float4* __restrict__ y)
{
    const size_t from = (size_t)blockIdx.x * 32768;
#pragma unroll 4
    for (int j = threadIdx.x; j < 32768; j += 512)
        between[from + j] = times(p[from + j], q[from + j]);
    __syncthreads();
#pragma unroll 4
    for (int j = threadIdx.x; j < 32768; j += 512)
        y[from + j] = times(between[from + j], r[from + j]);
}

extern "C" __global__ void __launch_bounds__(512)
    spectra_b(const float4* __restrict__ p, const float4* __restrict__ q, const float4* __restrict__ r,
              float4* __restrict__ y)
{
    const size_t from = (size_t)blockIdx.x * 32768;
#pragma unroll 4
    for (int j = threadIdx.x; j < 32768; j += 512)
        y[from + j] = times(times(p[from + j], q[from + j]), r[from + j]);
}
"""


@pair
def spectra(blocks: int = 4 * SMS) -> Pair:
    n = 65536 * blocks
    p, q, r = numbers(n, 2), numbers(n, 2, seed=1), numbers(n, 2, seed=2)
    between, y, z = empty(n, 2), empty(n, 2), empty(n, 2)

    def wanted() -> Tensor:
        first, second, third = (torch.view_as_complex(part) for part in (p, q, r))
        return torch.view_as_real(first * second * third)

    a = Version("spectra_a", (blocks,), (512,), (p, q, r, between, y), lambda: y)
    b = Version("spectra_b", (blocks,), (512,), (p, q, r, z), lambda: z)
    return Pair(SPECTRA, (a, b), wanted, ("fp32", 12 * n, 32 * n))


# A stencil of seven points in three dimensions -----------------------------------------------------------------------

POINTS = r"""
__device__ __forceinline__ void points(const float* x, float* y, int col, int row, int layer, int cols, int rows,
                                       int layers)
{
    const size_t plane = (size_t)rows * cols, i = layer * plane + (size_t)row * cols + col;
    const float around = (x[col > 0 ? i - 1 : i] + x[col < cols - 1 ? i + 1 : i]) +
                         (x[row > 0 ? i - cols : i] + x[row < rows - 1 ? i + cols : i]) +
                         (x[layer > 0 ? i - plane : i] + x[layer < layers - 1 ? i + plane : i]);
    y[i] = fmaf(0.125f, around, 0.25f * x[i]);
}

extern "C" __global__ void __launch_bounds__(256)
    points_a(const float* __restrict__ x, float* __restrict__ y, int cols, int rows, int layers)
{
    const int col = blockIdx.x * 64 + threadIdx.x % 64, row = blockIdx.y * 4 + threadIdx.x / 64;
    points(x, y, col, row, blockIdx.z, cols, rows, layers);
}

// All layers of a part of the plane, then the next part
extern "C" __global__ void __launch_bounds__(256)
    points_b(const float* __restrict__ x, float* __restrict__ y, int cols, int rows, int layers)
{
    const int col = blockIdx.y * 64 + threadIdx.x % 64, row = blockIdx.z * 4 + threadIdx.x / 64;
    points(x, y, col, row, blockIdx.x, cols, rows, layers);
}
"""


@pair
def points(layers: int = 8, rows: int = 4096, cols: int = 4096) -> Pair:
    """A plane is 67 MB, more than L2 holds."""
    x, y, z = numbers(layers, rows, cols), empty(layers, rows, cols), empty(layers, rows, cols)

    def wanted() -> Tensor:
        result = 0.25 * x
        for axis in range(3):
            first, last = x.narrow(axis, 0, 1), x.narrow(axis, x.shape[axis] - 1, 1)
            length = x.shape[axis] - 1
            result += 0.125 * torch.cat([first, x.narrow(axis, 0, length)], axis)
            result += 0.125 * torch.cat([x.narrow(axis, 1, length), last], axis)
        return result

    n = layers * rows * cols
    a = Version("points_a", (cols // 64, rows // 4, layers), (256,), (x, y, cols, rows, layers), lambda: y)
    b = Version("points_b", (layers, cols // 64, rows // 4), (256,), (x, z, cols, rows, layers), lambda: z)
    return Pair(POINTS, (a, b), wanted, ("fp32", 8 * n, 8 * n))


# Attention scores where a query sees only the keys before it ---------------------------------------------------------

CAUSAL = r"""
// q[depth][n], k[depth][n], s[n][n]
template <bool SKIP>
__device__ __forceinline__ void causal(const float* q, const float* k, float* s, int n, int depth)
{
    __shared__ float4 left[8][32], right[8][32];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16, i = blockIdx.y * 128, j = blockIdx.x * 128;
    float sum[8][8] = {};
    for (int d = 0; d < (SKIP && j > i ? 0 : depth); d += 8) {
        left[t / 32][t % 32] = *(const float4*)(q + (size_t)(d + t / 32) * n + i + 4 * (t % 32));
        right[t / 32][t % 32] = *(const float4*)(k + (size_t)(d + t / 32) * n + j + 4 * (t % 32));
        __syncthreads();
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            const float4 a = left[e][ty], b = left[e][ty + 16], c = right[e][tx], f = right[e][tx + 16];
            const float rows[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
            const float cols[8] = {c.x, c.y, c.z, c.w, f.x, f.y, f.z, f.w};
#pragma unroll
            for (int r = 0; r < 8; ++r)
#pragma unroll
                for (int u = 0; u < 8; ++u)
                    sum[r][u] = fmaf(rows[r], cols[u], sum[r][u]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 8; ++r) {
        const int row = i + 4 * ty + r % 4 + r / 4 * 64;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int col = j + 4 * tx + 64 * half;
            const float* const v = sum[r] + 4 * half;
            *(float4*)(s + (size_t)row * n + col) =
                make_float4(col <= row ? v[0] : 0.0f, col + 1 <= row ? v[1] : 0.0f, col + 2 <= row ? v[2] : 0.0f,
                            col + 3 <= row ? v[3] : 0.0f);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
    causal_a(const float* __restrict__ q, const float* __restrict__ k, float* __restrict__ s, int n, int depth)
{
    causal<false>(q, k, s, n, depth);
}

extern "C" __global__ void __launch_bounds__(256)
    causal_b(const float* __restrict__ q, const float* __restrict__ k, float* __restrict__ s, int n, int depth)
{
    causal<true>(q, k, s, n, depth);
}
"""


@pair
def causal(n: int = 8192, depth: int = 128) -> Pair:
    q, k, y, z = numbers(depth, n), numbers(depth, n, seed=1), empty(n, n), empty(n, n)
    grid = (n // 128, n // 128)
    a = Version("causal_a", grid, (256,), (q, k, y, n, depth), lambda: y)
    b = Version("causal_b", grid, (256,), (q, k, z, n, depth), lambda: z)
    work = ("fp32", depth * n * (n + 1), 4 * (2 * depth * n + n * n))
    return Pair(CAUSAL, (a, b), lambda: (q.double().t() @ k.double()).tril(), work, 1e-4)


# A filter over a signal that starts again at its end -----------------------------------------------------------------

CIRCLE = r"""
extern "C" __global__ void __launch_bounds__(256)
    circle_a(const float* __restrict__ x, const float* __restrict__ taps, float* __restrict__ y, int n, int apart)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 4
    for (int j = 0; j < 24; ++j)
        sum = fmaf(taps[j], x[(i + j * apart) % n], sum);
    y[i] = sum;
}

extern "C" __global__ void __launch_bounds__(256)
    circle_b(const float* __restrict__ x, const float* __restrict__ taps, float* __restrict__ y, int n, int apart)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 4
    for (int j = 0; j < 24; ++j) {
        const int at = i + j * apart;
        sum = fmaf(taps[j], x[at < n ? at : at - n], sum);
    }
    y[i] = sum;
}
"""


@pair
def circle(n: int = 24_000_000, apart: int = 3) -> Pair:
    x, taps, y, z = numbers(n), numbers(24, seed=1), empty(n), empty(n)

    def wanted() -> Tensor:
        return sum(tap * x.double().roll(-j * apart) for j, tap in enumerate(taps.tolist()))

    a = Version("circle_a", (n // 256,), (256,), (x, taps, y, n, apart), lambda: y)
    b = Version("circle_b", (n // 256,), (256,), (x, taps, z, n, apart), lambda: z)
    return Pair(CIRCLE, (a, b), wanted, ("fp32", 48 * n, 8 * n + 96), 1e-4)


# Rows of length one --------------------------------------------------------------------------------------------------

LENGTHS = (
    HEAD
    + r"""
// A row has 1024 numbers, two per thread.
extern "C" __global__ void __launch_bounds__(512) lengths_a(const float2* __restrict__ x, float2* __restrict__ y)
{
    __shared__ float held[512];
    const int t = threadIdx.x;
    const size_t i = (size_t)blockIdx.x * 512 + t;
    const float2 v = x[i];
    held[t] = fmaf(v.x, v.x, v.y * v.y);
    __syncthreads();
#pragma unroll 1
    for (int half = 256; half; half /= 2) {
        if (t < half)
            held[t] += held[t + half];
        __syncthreads();
    }
    const float by = rsqrtf(held[0]);
    y[i] = make_float2(v.x * by, v.y * by);
}

extern "C" __global__ void __launch_bounds__(512) lengths_b(const float2* __restrict__ x, float2* __restrict__ y)
{
    __shared__ float parts[16];
    const int t = threadIdx.x;
    const size_t i = (size_t)blockIdx.x * 512 + t;
    const float2 v = x[i];
    const float part = warp_sum(fmaf(v.x, v.x, v.y * v.y));
    if (t % 32 == 0)
        parts[t / 32] = part;
    __syncthreads();
    const float by = rsqrtf(warp_sum(t % 32 < 16 ? parts[t % 32] : 0.0f));
    y[i] = make_float2(v.x * by, v.y * by);
}
"""
)


@pair
def lengths(rows: int = 1 << 16) -> Pair:
    x, y, z = numbers(rows, 1024), empty(rows, 1024), empty(rows, 1024)
    a = Version("lengths_a", (rows,), (512,), (x, y), lambda: y)
    b = Version("lengths_b", (rows,), (512,), (x, z), lambda: z)
    work = ("fp32", 3 * rows * 1024, 8 * rows * 1024)
    return Pair(LENGTHS, (a, b), lambda: torch.nn.functional.normalize(x, dim=1), work, 1e-4)


# How many random points are within a quarter circle ------------------------------------------------------------------

THROWS = r"""
__device__ __forceinline__ unsigned next(unsigned s)
{
    s ^= s << 13;
    s ^= s >> 17;
    return s ^ s << 5;
}

__device__ __forceinline__ void throws(const uint2* seeds, int* y, int count)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint2 s = seeds[i];
    int inside = 0;
#pragma unroll 4
    for (int j = 0; j < count; ++j) {
        s.x = next(s.x);
        s.y = next(s.y);
        const float x = (float)(s.x >> 8) * 5.9604645e-8f, z = (float)(s.y >> 8) * 5.9604645e-8f;
        inside += fmaf(x, x, z * z) < 1.0f;
    }
    y[i] = inside;
}

extern "C" __global__ void __launch_bounds__(1024) throws_a(const uint2* __restrict__ seeds, int* __restrict__ y, int count)
{
    throws(seeds, y, count);
}

extern "C" __global__ void __launch_bounds__(128) throws_b(const uint2* __restrict__ seeds, int* __restrict__ y, int count)
{
    throws(seeds, y, count);
}
"""


@pair
def throws(blocks: int = SMS // 2, count: int = 1024) -> Pair:
    """Rounding may put a point on the other side of the circle."""
    n = 1024 * blocks
    seeds = whole(1 << 30, n, 2) + 1
    y, z = empty(n, dtype=torch.int32), empty(n, dtype=torch.int32)

    def wanted() -> Tensor:
        state, inside = seeds.long(), torch.zeros(n, dtype=torch.int64, device=DEVICE)
        for _ in range(count):
            state = state ^ (state << 13 & 0xFFFFFFFF)
            state = state ^ state >> 17
            state = state ^ (state << 5 & 0xFFFFFFFF)
            inside += ((state >> 8).double() / (1 << 24)).square().sum(1) < 1
        return inside

    a = Version("throws_a", (blocks,), (1024,), (seeds, y, count), lambda: y)
    b = Version("throws_b", (8 * blocks,), (128,), (seeds, z, count), lambda: z)
    return Pair(THROWS, (a, b), wanted, ("fp32", 5 * n * count, 12 * n), 5e-3)


# A step of Jacobi's method on a plane --------------------------------------------------------------------------------

RELAXED = r"""
__device__ __forceinline__ void relaxed(const float* x, const float* source, float* y, int rows, int cols)
{
    const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    const size_t i = (size_t)row * cols + col;
    const float left = x[col > 0 ? i - 1 : i], right = x[col < cols - 1 ? i + 1 : i];
    const float above = x[row > 0 ? i - cols : i], below = x[row < rows - 1 ? i + cols : i];
    y[i] = 0.25f * ((left + right) + (above + below) - source[i]);
}

extern "C" __global__ void __launch_bounds__(32)
    relaxed_a(const float* __restrict__ x, const float* __restrict__ source, float* __restrict__ y, int rows, int cols)
{
    relaxed(x, source, y, rows, cols);
}

extern "C" __global__ void __launch_bounds__(256)
    relaxed_b(const float* __restrict__ x, const float* __restrict__ source, float* __restrict__ y, int rows, int cols)
{
    relaxed(x, source, y, rows, cols);
}
"""


@pair
def relaxed(rows: int = 4096, cols: int = 8192) -> Pair:
    x, source, y, z = numbers(rows, cols), numbers(rows, cols, seed=1), empty(rows, cols), empty(rows, cols)

    def wanted() -> Tensor:
        wide = torch.nn.functional.pad(x[None], (1, 1, 1, 1), mode="replicate")[0]
        sides = wide[1:-1, :-2] + wide[1:-1, 2:] + wide[:-2, 1:-1] + wide[2:, 1:-1]
        return 0.25 * (sides - source)

    a = Version("relaxed_a", (cols // 8, rows // 4), (8, 4), (x, source, y, rows, cols), lambda: y)
    b = Version("relaxed_b", (cols // 32, rows // 8), (32, 8), (x, source, z, rows, cols), lambda: z)
    return Pair(RELAXED, (a, b), wanted, ("fp32", 5 * rows * cols, 12 * rows * cols))


# Bodies that attract each other --------------------------------------------------------------------------------------

PULL = r"""
template <bool FAST>
__device__ __forceinline__ void pull(const float4* bodies, const float4* masses, float4* y, int count)
{
    __shared__ float4 held[256];
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float4 p = bodies[i];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int first = 0; first < count; first += 256) {
        __syncthreads();
        held[threadIdx.x] = masses[first + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < 256; ++j) {
            const float4 q = held[j];
            const float dx = q.x - p.x, dy = q.y - p.y, dz = q.z - p.z;
            const float square = fmaf(dx, dx, fmaf(dy, dy, fmaf(dz, dz, 0.0625f)));
            float share;
            if (FAST) {
                const float inverse = rsqrtf(square);
                share = q.w * inverse * inverse * inverse;
            } else {
                share = q.w / (square * sqrtf(square));
            }
            ax = fmaf(share, dx, ax);
            ay = fmaf(share, dy, ay);
            az = fmaf(share, dz, az);
        }
    }
    y[i] = make_float4(ax, ay, az, 0.0f);
}

extern "C" __global__ void __launch_bounds__(256)
    pull_a(const float4* __restrict__ bodies, const float4* __restrict__ masses, float4* __restrict__ y, int count)
{
    pull<false>(bodies, masses, y, count);
}

extern "C" __global__ void __launch_bounds__(256)
    pull_b(const float4* __restrict__ bodies, const float4* __restrict__ masses, float4* __restrict__ y, int count)
{
    pull<true>(bodies, masses, y, count);
}
"""


@pair
def pull(n: int = 1024 * SMS, count: int = 2048) -> Pair:
    bodies, masses = 4 * numbers(n, 4), 4 * numbers(count, 4, seed=1)
    masses[:, 3] = numbers(count, seed=2) + 1.0
    y, z = empty(n, 4), empty(n, 4)

    def wanted() -> Tensor:
        parts = []
        for part in bodies.split(16384):
            apart = [masses[None, :, axis] - part[:, None, axis] for axis in range(3)]
            share = masses[None, :, 3] * (sum(d.square() for d in apart) + 0.0625) ** -1.5
            parts.append(torch.stack([*((share * d).sum(1) for d in apart), torch.zeros_like(part[:, 0])], 1))
        return torch.cat(parts)

    a = Version("pull_a", (n // 256,), (256,), (bodies, masses, y, count), lambda: y)
    b = Version("pull_b", (n // 256,), (256,), (bodies, masses, z, count), lambda: z)
    return Pair(PULL, (a, b), wanted, ("fp32", 19 * n * count, 32 * n + 16 * count), 1e-3)


# Sums over records of different lengths ------------------------------------------------------------------------------

RECORDS = (
    HEAD
    + r"""
// A record is a float4 whose first word is a count, then as many float4 (at most 31). A warp has a stream of records.
extern "C" __global__ void __launch_bounds__(128)
    records_a(const float4* __restrict__ x, const int* __restrict__ starts, float* __restrict__ y, int length)
{
    const int lane = threadIdx.x % 32, stream = blockIdx.x * 4 + threadIdx.x / 32;
    int at = starts[stream * length];
    float sum = 0.0f;
#pragma unroll 1
    for (int j = 0; j < length; ++j) {
        const float4 v = x[at + lane];
        const int count = __shfl_sync(0xffffffffu, __float_as_int(v.x), 0);
        sum += lane > 0 && lane <= count ? add4(v) : 0.0f;
        at += count + 1;
    }
    sum = warp_sum(sum);
    if (lane == 0)
        y[stream] = sum;
}

extern "C" __global__ void __launch_bounds__(128)
    records_b(const float4* __restrict__ x, const int* __restrict__ starts, float* __restrict__ y, int length)
{
    const int lane = threadIdx.x % 32, stream = blockIdx.x * 4 + threadIdx.x / 32;
    float sum = 0.0f;
#pragma unroll 1
    for (int j = 0; j < length; j += 8) {
        float4 v[8];
#pragma unroll
        for (int e = 0; e < 8; ++e)
            v[e] = x[starts[stream * length + j + e] + lane];
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            const int count = __shfl_sync(0xffffffffu, __float_as_int(v[e].x), 0);
            sum += lane > 0 && lane <= count ? add4(v[e]) : 0.0f;
        }
    }
    sum = warp_sum(sum);
    if (lane == 0)
        y[stream] = sum;
}
"""
)


@pair
def records(streams: int = 24 * SMS, length: int = 256) -> Pair:
    """Counts from 24 to 31; numbers beyond the last record are read and not used."""
    count = 24 + (7 * torch.arange(streams)[:, None] + 5 * torch.arange(length)[None]) % 8
    ends = (count.view(-1) + 1).cumsum(0)
    total = int(ends[-1])
    starts = (ends - count.view(-1) - 1).to(DEVICE)
    x, y, z = numbers(total + 32, 4) + 0.5, empty(streams), empty(streams)
    x.view(torch.int32)[starts, 0] = count.view(-1).to(DEVICE, torch.int32)

    def wanted() -> Tensor:
        values = x.double().sum(1)
        values[starts] = 0
        sums = torch.zeros(total + 1, dtype=torch.float64, device=DEVICE)
        sums[1:] = values[:total].cumsum(0)
        return sums[[*starts.view(streams, length)[:, 0].tolist(), total]].diff()

    given = starts.to(torch.int32)
    a = Version("records_a", (streams // 4,), (128,), (x, given, y, length), lambda: y)
    b = Version("records_b", (streams // 4,), (128,), (x, given, z, length), lambda: z)
    n = streams * length
    return Pair(RECORDS, (a, b), wanted, ("fp32", 4 * (total - n), 16 * total + 4 * streams), 1e-4)


# Products of matrices of bfloat16, summed in fp32 --------------------------------------------------------------------

BRAIN = r"""
// x[n][depth], y[m][depth], z[n][m]; a word has two numbers, the one of the lower place in its lower half.
extern "C" __global__ void __launch_bounds__(256)
    brain_a(const unsigned* __restrict__ x, const unsigned* __restrict__ y, float* __restrict__ z, int m, int depth)
{
    __shared__ __align__(16) float left[16][68], right[16][68];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16, i = blockIdx.y * 64, j = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int k = 0; k < depth; k += 16) {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
            const int row = t / 8 + 32 * part, word = t % 8;
            const unsigned p = x[((size_t)(i + row) * depth + k) / 2 + word];
            const unsigned q = y[((size_t)(j + row) * depth + k) / 2 + word];
            left[2 * word][row] = __uint_as_float(p << 16);
            left[2 * word + 1][row] = __uint_as_float(p & 0xffff0000u);
            right[2 * word][row] = __uint_as_float(q << 16);
            right[2 * word + 1][row] = __uint_as_float(q & 0xffff0000u);
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
    brain_b(const uint4* __restrict__ x, const uint4* __restrict__ y, float* __restrict__ z, int m, int depth)
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
            *(uint4*)&right[row + half][4 * part] = y[(size_t)(j + row + half) * pitch + k + part];
        }
        __syncthreads();
#pragma unroll
        for (int w = word; w < word + 16; w += 8) {
            unsigned a[2][4];
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int line = down + 16 * r + group;
                a[r][0] = left[line][w];
                a[r][1] = left[line + 8][w];
                a[r][2] = left[line][w + 4];
                a[r][3] = left[line + 8][w + 4];
            }
#pragma unroll
            for (int c = 0; c < 8; ++c) {
                const unsigned b = right[across + 8 * c + group][w], d = right[across + 8 * c + group][w + 4];
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    float* const s = sum[r][c];
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
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
def brain(n: int = 4096, m: int = 4096, depth: int = 1024) -> Pair:
    x, y = numbers(n, depth).bfloat16(), numbers(m, depth, seed=1).bfloat16()
    z, w = empty(n, m), empty(n, m)
    a = Version("brain_a", (m // 64, n // 64), (256,), (x, y, z, m, depth), lambda: z)
    b = Version("brain_b", (m // 128, n // 128), (256,), (x, y, w, m, depth), lambda: w)
    work = ("bf16", 2 * n * m * depth, 2 * depth * (n + m) + 4 * n * m)
    return Pair(BRAIN, (a, b), lambda: x.double() @ y.double().t(), work, 1e-3, gemm=(n, m, depth))


# A curve evaluated part by part --------------------------------------------------------------------------------------

STAGES = r"""
__device__ __forceinline__ float bent(float x, float other, int degree)
{
    float value = other;
#pragma unroll 16
    for (int k = 0; k < degree; ++k)
        value = fmaf(value, x, 0.25f);
    return value;
}

// A block takes parts of 8192 numbers; a number also needs the one after it, around the end of the part.
template <bool AHEAD>
__device__ __forceinline__ void stages(const float4* x, float* y, int parts, int degree)
{
    __shared__ float4 held[2048];
    const float* const numbers = (const float*)held;
    const int t = threadIdx.x;
    float4 p, q;
    if (AHEAD) {
        p = x[(size_t)blockIdx.x * 2048 + t];
        q = x[(size_t)blockIdx.x * 2048 + 1024 + t];
    }
    for (int part = blockIdx.x; part < parts; part += gridDim.x) {
        if (!AHEAD) {
            p = x[(size_t)part * 2048 + t];
            q = x[(size_t)part * 2048 + 1024 + t];
        }
        __syncthreads();
        held[t] = p;
        held[t + 1024] = q;
        __syncthreads();
        const int next = part + gridDim.x;
        if (AHEAD && next < parts) {
            p = x[(size_t)next * 2048 + t];
            q = x[(size_t)next * 2048 + 1024 + t];
        }
#pragma unroll
        for (int j = 0; j < 8192; j += 1024)
            y[(size_t)part * 8192 + j + t] = bent(numbers[j + t], numbers[(j + t + 1) % 8192], degree);
    }
}

extern "C" __global__ void __launch_bounds__(1024)
    stages_a(const float4* __restrict__ x, float* __restrict__ y, int parts, int degree)
{
    stages<false>(x, y, parts, degree);
}

extern "C" __global__ void __launch_bounds__(1024)
    stages_b(const float4* __restrict__ x, float* __restrict__ y, int parts, int degree)
{
    stages<true>(x, y, parts, degree);
}
"""


@pair
def stages(parts: int = 64 * SMS, degree: int = 48) -> Pair:
    n = 8192 * parts
    x, y, z = numbers(n), empty(n), empty(n)

    def wanted() -> Tensor:
        value = x.view(parts, 8192).roll(-1, 1).reshape(-1)
        for _ in range(degree):
            value = value * x + 0.25
        return value

    a = Version("stages_a", (SMS,), (1024,), (x, y, parts, degree), lambda: y)
    b = Version("stages_b", (SMS,), (1024,), (x, z, parts, degree), lambda: z)
    return Pair(STAGES, (a, b), wanted, ("fp32", 2 * degree * n, 8 * n), 1e-4)


# Eight sequences per thread, each step from the one before -----------------------------------------------------------

DECAY = r"""
extern "C" __global__ void __launch_bounds__(128)
    decay_a(const float* __restrict__ x, float* __restrict__ y, int n, int steps, float keep)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
#pragma unroll 1
    for (int e = 0; e < 8; ++e) {
        const float push = x[e * n + i];
        float value = 0.0f;
#pragma unroll 16
        for (int step = 0; step < steps; ++step)
            value = fmaf(keep, value, push);
        y[e * n + i] = value;
    }
}

extern "C" __global__ void __launch_bounds__(128)
    decay_b(const float* __restrict__ x, float* __restrict__ y, int n, int steps, float keep)
{
    const int i = blockIdx.x * 128 + threadIdx.x;
    float push[8], value[8] = {};
#pragma unroll
    for (int e = 0; e < 8; ++e)
        push[e] = x[e * n + i];
#pragma unroll 4
    for (int step = 0; step < steps; ++step)
#pragma unroll
        for (int e = 0; e < 8; ++e)
            value[e] = fmaf(keep, value[e], push[e]);
#pragma unroll
    for (int e = 0; e < 8; ++e)
        y[e * n + i] = value[e];
}
"""


@pair
def decay(blocks: int = 2 * SMS, steps: int = 8192, keep: float = 0.875) -> Pair:
    n = 128 * blocks
    x, y, z = numbers(8, n), empty(8, n), empty(8, n)
    a = Version("decay_a", (blocks,), (128,), (x, y, n, steps, keep), lambda: y)
    b = Version("decay_b", (blocks,), (128,), (x, z, n, steps, keep), lambda: z)
    return Pair(DECAY, (a, b), lambda: x / (1 - keep), ("fp32", 16 * steps * n, 64 * n), 1e-4)


# Healthy: nothing is planted, and nothing large is to be promised ----------------------------------------------------

HEALTHY = (
    HEAD
    + r"""
extern "C" __global__ void __launch_bounds__(256)
    triad(const float4* __restrict__ x, const float4* __restrict__ y, float4* __restrict__ z, float by)
{
    const size_t i = (size_t)blockIdx.x * 512 + threadIdx.x;
#pragma unroll
    for (int j = 0; j < 512; j += 256) {
        const float4 p = x[i + j], q = y[i + j];
        z[i + j] = make_float4(fmaf(by, q.x, p.x), fmaf(by, q.y, p.y), fmaf(by, q.z, p.z), fmaf(by, q.w, p.w));
    }
}

// A warp has a row of 1024 numbers in registers.
extern "C" __global__ void __launch_bounds__(256) weighed(const float4* __restrict__ x, float4* __restrict__ y)
{
    const size_t from = ((size_t)blockIdx.x * 8 + threadIdx.x / 32) * 256 + threadIdx.x % 32;
    float4 v[8];
    float top = -3e38f, sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 8; ++j)
        v[j] = x[from + 32 * j];
#pragma unroll
    for (int j = 0; j < 8; ++j)
        top = fmaxf(top, fmaxf(fmaxf(v[j].x, v[j].y), fmaxf(v[j].z, v[j].w)));
#pragma unroll
    for (int lane = 16; lane; lane /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, lane));
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        v[j] = make_float4(__expf(v[j].x - top), __expf(v[j].y - top), __expf(v[j].z - top), __expf(v[j].w - top));
        sum += add4(v[j]);
    }
    const float by = __fdividef(1.0f, warp_sum(sum));
#pragma unroll
    for (int j = 0; j < 8; ++j)
        y[from + 32 * j] = make_float4(v[j].x * by, v[j].y * by, v[j].z * by, v[j].w * by);
}

// Tiles of 64 x 64, four rows at a time
extern "C" __global__ void __launch_bounds__(256) turned(const float* __restrict__ x, float* __restrict__ y, int rows, int cols)
{
    __shared__ float tile[64][65];
    const int across = threadIdx.x % 64, down = threadIdx.x / 64, col = blockIdx.x * 64, row = blockIdx.y * 64;
#pragma unroll
    for (int j = 0; j < 64; j += 4)
        tile[down + j][across] = x[(size_t)(row + down + j) * cols + col + across];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 64; j += 4)
        y[(size_t)(col + down + j) * rows + row + across] = tile[across][down + j];
}

extern "C" __global__ void __launch_bounds__(256) series(const float4* __restrict__ x, float4* __restrict__ y, int degree)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float4 v = x[i];
    float4 sum = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
#pragma unroll 32
    for (int k = 0; k < degree; ++k)
        sum = make_float4(fmaf(sum.x, v.x, 0.5f), fmaf(sum.y, v.y, 0.5f), fmaf(sum.z, v.z, 0.5f), fmaf(sum.w, v.w, 0.5f));
    y[i] = sum;
}
"""
)


@pair
def triad(n: int = 1 << 26) -> Pair:
    x, y, z = numbers(n), numbers(n, seed=1), empty(n)
    only = Version("triad", (n // 2048,), (256,), (x, y, z, 3.0), lambda: z)
    return Pair(HEALTHY, (only,), lambda: x + 3.0 * y, ("fp32", 2 * n, 12 * n))


@pair
def weighed(rows: int = 1 << 16) -> Pair:
    x, y = 4 * numbers(rows, 1024), empty(rows, 1024)
    only = Version("weighed", (rows // 8,), (256,), (x, y), lambda: y)
    return Pair(HEALTHY, (only,), lambda: x.softmax(1), ("fp32", 5 * rows * 1024, 8 * rows * 1024), 1e-4)


@pair
def turned(rows: int = 8192, cols: int = 8192) -> Pair:
    x, y = numbers(rows, cols), empty(cols, rows)
    only = Version("turned", (cols // 64, rows // 64), (256,), (x, y, rows, cols), lambda: y)
    return Pair(HEALTHY, (only,), lambda: x.t(), ("fp32", 0, 8 * rows * cols), 0.0)


@pair
def series(n: int = 1 << 25, degree: int = 1024) -> Pair:
    x, y = numbers(n), empty(n)

    def wanted() -> Tensor:
        return 0.5 / (1 - x.double())

    only = Version("series", (n // 1024,), (256,), (x, y, degree), lambda: y)
    return Pair(HEALTHY, (only,), wanted, ("fp32", 2 * degree * n, 8 * n), 1e-4)
