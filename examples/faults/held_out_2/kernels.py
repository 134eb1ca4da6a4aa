"""30 pairs of kernels. truth.csv names the planted causes; `../pairs.py` checks, times and counts them."""

from __future__ import annotations

import torch
from pairs import DEVICE, HEAD, SMS, Pair, Tensor, Version, empty, numbers, pair, whole

# A matrix times a vector ---------------------------------------------------------------------------------------------

MATVEC = (
    HEAD
    + r"""
extern "C" __global__ void __launch_bounds__(256)
    matvec_a(const float* __restrict__ a, const float* __restrict__ x, float* __restrict__ y, int cols)
{
    const int row = blockIdx.x * 256 + threadIdx.x;
    const float* const line = a + (size_t)row * cols;
    float sum = 0.0f;
#pragma unroll 4
    for (int j = 0; j < cols; ++j)
        sum = fmaf(line[j], x[j], sum);
    y[row] = sum;
}

extern "C" __global__ void __launch_bounds__(256)
    matvec_b(const float* __restrict__ a, const float* __restrict__ x, float* __restrict__ y, int cols)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    const float4* const line = (const float4*)(a + (size_t)row * cols);
    const float4* const other = (const float4*)x;
    float sum = 0.0f;
#pragma unroll 2
    for (int j = lane; j < cols / 4; j += 32) {
        const float4 v = line[j], w = other[j];
        sum += add4(make_float4(v.x * w.x, v.y * w.y, v.z * w.z, v.w * w.w));
    }
    sum = warp_sum(sum);
    if (lane == 0)
        y[row] = sum;
}
"""
)


@pair
def matvec(rows: int = 1 << 18, cols: int = 256) -> Pair:
    matrix, x = numbers(rows, cols), numbers(cols, seed=1)
    y, z = empty(rows), empty(rows)
    a = Version("matvec_a", (rows // 256,), (256,), (matrix, x, y, cols), lambda: y)
    b = Version("matvec_b", (rows // 8,), (256,), (matrix, x, z, cols), lambda: z)
    work = ("fp32", 2 * rows * cols, 4 * (rows * cols + cols + rows))
    return Pair(MATVEC, (a, b), lambda: (matrix.double() * x.double()).sum(1), work, 1e-4)


# Bodies moved by their speeds ----------------------------------------------------------------------------------------

PUSH = r"""
// A body has 16 floats: its place in 0 to 2, its speed in 8 to 10, other things elsewhere.
extern "C" __global__ void __launch_bounds__(256)
    push_a(const float* __restrict__ bodies, float* __restrict__ moved, float step)
{
    const size_t i = ((size_t)blockIdx.x * 256 + threadIdx.x) * 16;
    moved[i] = fmaf(step, bodies[i + 8], bodies[i]);
    moved[i + 1] = fmaf(step, bodies[i + 9], bodies[i + 1]);
    moved[i + 2] = fmaf(step, bodies[i + 10], bodies[i + 2]);
}

extern "C" __global__ void __launch_bounds__(256)
    push_b(const float4* __restrict__ places, const float4* __restrict__ speeds, float4* __restrict__ moved, float step)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float4 p = places[i], v = speeds[i];
    moved[i] = make_float4(fmaf(step, v.x, p.x), fmaf(step, v.y, p.y), fmaf(step, v.z, p.z), fmaf(step, v.w, p.w));
}
"""


@pair
def push(n: int = 1 << 23) -> Pair:
    """The second version has the three axes of places and speeds in rows of their own."""
    bodies, y = numbers(n, 16), empty(n, 16)
    places, speeds = bodies[:, :3].t().contiguous(), bodies[:, 8:11].t().contiguous()
    z = empty(3, n)
    a = Version("push_a", (n // 256,), (256,), (bodies, y, 0.125), lambda: y[:, :3].t())
    b = Version("push_b", (3 * n // 1024,), (256,), (places, speeds, z, 0.125), lambda: z)
    return Pair(PUSH, (a, b), lambda: places + 0.125 * speeds, ("fp32", 6 * n, 36 * n))


# Shortest ways over one stop between, for all pairs of places --------------------------------------------------------

HOPS = r"""
// x[stop][n] and y[stop][m] are ways to and from a stop, d[n][m] the shortest over any stop.
extern "C" __global__ void __launch_bounds__(256)
    hops_a(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ d, int n, int m, int stops)
{
    const int j = blockIdx.x * 64 + threadIdx.x % 64, i = blockIdx.y * 4 + threadIdx.x / 64;
    float best = 3e38f;
#pragma unroll 4
    for (int k = 0; k < stops; ++k)
        best = fminf(best, x[(size_t)k * n + i] + y[(size_t)k * m + j]);
    d[(size_t)i * m + j] = best;
}

extern "C" __global__ void __launch_bounds__(256)
    hops_b(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ d, int n, int m, int stops)
{
    __shared__ float4 left[8][32], right[8][32];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const int i = blockIdx.y * 128, j = blockIdx.x * 128;
    float best[8][8];
#pragma unroll
    for (int r = 0; r < 8; ++r)
#pragma unroll
        for (int c = 0; c < 8; ++c)
            best[r][c] = 3e38f;
    for (int k = 0; k < stops; k += 8) {
        left[t / 32][t % 32] = *(const float4*)(x + (size_t)(k + t / 32) * n + i + 4 * (t % 32));
        right[t / 32][t % 32] = *(const float4*)(y + (size_t)(k + t / 32) * m + j + 4 * (t % 32));
        __syncthreads();
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            const float4 p = left[e][ty], q = left[e][ty + 16], u = right[e][tx], v = right[e][tx + 16];
            const float to[8] = {p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w};
            const float from[8] = {u.x, u.y, u.z, u.w, v.x, v.y, v.z, v.w};
#pragma unroll
            for (int r = 0; r < 8; ++r)
#pragma unroll
                for (int c = 0; c < 8; ++c)
                    best[r][c] = fminf(best[r][c], to[r] + from[c]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 8; ++r) {
        float* const line = d + (size_t)(i + 4 * ty + r % 4 + r / 4 * 64) * m + j + 4 * tx;
        *(float4*)line = make_float4(best[r][0], best[r][1], best[r][2], best[r][3]);
        *(float4*)(line + 64) = make_float4(best[r][4], best[r][5], best[r][6], best[r][7]);
    }
}
"""


@pair
def hops(n: int = 4096, m: int = 4096, stops: int = 256) -> Pair:
    x, y = numbers(stops, n), numbers(stops, m, seed=1)
    d, e = empty(n, m), empty(n, m)

    def wanted() -> Tensor:
        best = torch.full((n, m), 3e38, device=DEVICE)
        for k in range(stops):
            best = torch.minimum(best, x[k][:, None] + y[k][None])
        return best

    a = Version("hops_a", (m // 64, n // 4), (256,), (x, y, d, n, m, stops), lambda: d)
    b = Version("hops_b", (m // 128, n // 128), (256,), (x, y, e, n, m, stops), lambda: e)
    return Pair(HOPS, (a, b), wanted, ("fp32", 2 * n * m * stops, 4 * (stops * (n + m) + n * m)))


# Walsh-Hadamard transforms of tiles of 32 x 32 -----------------------------------------------------------------------

WALSH = r"""
__device__ __forceinline__ void butterflies(float (&v)[32])
{
#pragma unroll
    for (int step = 1; step < 32; step *= 2)
#pragma unroll
        for (int k = 0; k < 32; ++k)
            if ((k & step) == 0) {
                const float low = v[k], high = v[k + step];
                v[k] = low + high;
                v[k + step] = low - high;
            }
}

// A warp has a tile; a lane transforms a row of it, then a column.
template <int PITCH>
__device__ __forceinline__ void walsh(const float* x, float* y, int side)
{
    __shared__ float tiles[8][32 * PITCH];
    float* const tile = tiles[threadIdx.x / 32];
    const int lane = threadIdx.x % 32, which = blockIdx.x * 8 + threadIdx.x / 32, across = side / 32;
    const size_t corner = (size_t)(which / across) * 32 * side + (which % across) * 32;
#pragma unroll 8
    for (int k = 0; k < 32; ++k)
        tile[k * PITCH + lane] = x[corner + (size_t)k * side + lane];
    __syncwarp();
    float v[32];
#pragma unroll
    for (int k = 0; k < 32; ++k)
        v[k] = tile[lane * PITCH + k];
    butterflies(v);
#pragma unroll
    for (int k = 0; k < 32; ++k)
        tile[lane * PITCH + k] = v[k];
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 32; ++k)
        v[k] = tile[k * PITCH + lane];
    butterflies(v);
#pragma unroll
    for (int k = 0; k < 32; ++k)
        y[corner + (size_t)k * side + lane] = v[k] * 0.03125f;
}

extern "C" __global__ void __launch_bounds__(256) walsh_a(const float* __restrict__ x, float* __restrict__ y, int side)
{
    walsh<32>(x, y, side);
}

extern "C" __global__ void __launch_bounds__(256) walsh_b(const float* __restrict__ x, float* __restrict__ y, int side)
{
    walsh<33>(x, y, side);
}
"""


@pair
def walsh(side: int = 8192) -> Pair:
    x, y, z = numbers(side, side), empty(side, side), empty(side, side)

    def wanted() -> Tensor:
        matrix = torch.ones(1, 1, device=DEVICE, dtype=torch.float64)
        for _ in range(5):
            matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)], 0)
        tiles = x.double().view(side // 32, 32, side // 32, 32).transpose(1, 2)
        return (matrix @ tiles @ matrix / 32).transpose(1, 2).reshape(side, side)

    blocks = side * side // 8192
    a = Version("walsh_a", (blocks,), (256,), (x, y, side), lambda: y)
    b = Version("walsh_b", (blocks,), (256,), (x, z, side), lambda: z)
    return Pair(WALSH, (a, b), wanted, ("fp32", 11 * side * side, 8 * side * side))


# The most frequent of 32 labels around each pixel --------------------------------------------------------------------

VOTES = r"""
// `mine` is the thread's table of 32 counters, `apart` words from one another.
__device__ __forceinline__ void vote(const unsigned char* x, unsigned char* y, int side, int* mine, int apart)
{
    const int col = blockIdx.x * 128 + threadIdx.x, row = blockIdx.y;
#pragma unroll
    for (int k = 0; k < 32; ++k)
        mine[k * apart] = 0;
#pragma unroll
    for (int dy = -2; dy <= 2; ++dy) {
        const unsigned char* const line = x + (size_t)min(max(row + dy, 0), side - 1) * side;
#pragma unroll
        for (int dx = -2; dx <= 2; ++dx)
            mine[(line[min(max(col + dx, 0), side - 1)] & 31) * apart] += 1;
    }
    int best = 0, which = 0;
#pragma unroll
    for (int k = 0; k < 32; ++k) {
        const int count = mine[k * apart];
        if (count > best) {
            best = count;
            which = k;
        }
    }
    y[(size_t)row * side + col] = (unsigned char)which;
}

extern "C" __global__ void __launch_bounds__(128)
    votes_a(const unsigned char* __restrict__ x, unsigned char* __restrict__ y, int side)
{
    __shared__ int held[128 * 32];
    vote(x, y, side, held + threadIdx.x * 32, 1);
}

extern "C" __global__ void __launch_bounds__(128)
    votes_b(const unsigned char* __restrict__ x, unsigned char* __restrict__ y, int side)
{
    __shared__ int held[32 * 128];
    vote(x, y, side, held + threadIdx.x, 128);
}
"""


@pair
def votes(side: int = 2048) -> Pair:
    """Fields of one label, with labels at random on a tenth of the pixels."""
    along = torch.arange(side, device=DEVICE) // 40
    fields, noise = (along[:, None] * 7 + along[None] * 3) % 32, whole(320, side, side)
    x = torch.where(noise < 32, noise.long(), fields).to(torch.uint8)
    y, z = empty(side, side, dtype=torch.uint8), empty(side, side, dtype=torch.uint8)

    def wanted() -> Tensor:
        wide = torch.nn.functional.pad(x.float()[None], (2, 2, 2, 2), mode="replicate")[0]
        best, which = torch.zeros(side, side, device=DEVICE), torch.zeros(side, side, device=DEVICE)
        for k in range(32):
            same = (wide == k).float()
            count = sum(same[i : i + side, j : j + side] for i in range(5) for j in range(5))
            which = torch.where(count > best, torch.full_like(which, k), which)
            best = torch.maximum(best, count)
        return which

    a = Version("votes_a", (side // 128, side), (128,), (x, y, side), lambda: y)
    b = Version("votes_b", (side // 128, side), (128,), (x, z, side), lambda: z)
    return Pair(VOTES, (a, b), wanted, ("int8", 0, 2 * side * side), 0.0)


# Sensor readings of 16 bits, corrected by a table --------------------------------------------------------------------

CURVE = r"""
__device__ __forceinline__ void correct(const uint2* x, const float* table, float4* y, int entries, int n4)
{
    extern __shared__ float held[];
#pragma unroll 8
    for (int i = threadIdx.x; i < entries; i += blockDim.x)
        held[i] = table[i];
    __syncthreads();
#pragma unroll 1
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n4; i += gridDim.x * blockDim.x) {
        const uint2 v = x[i];
        y[i] = make_float4(held[v.x & 0xffffu], held[v.x >> 16], held[v.y & 0xffffu], held[v.y >> 16]);
    }
}

extern "C" __global__ void __launch_bounds__(128)
    curve_a(const uint2* __restrict__ x, const float* __restrict__ table, float4* __restrict__ y, int entries, int n4)
{
    correct(x, table, y, entries, n4);
}

extern "C" __global__ void __launch_bounds__(1024, 2)
    curve_b(const uint2* __restrict__ x, const float* __restrict__ table, float4* __restrict__ y, int entries, int n4)
{
    correct(x, table, y, entries, n4);
}
"""


@pair
def curve(n: int = 1 << 26, entries: int = 24576, blocks: int = 2 * SMS) -> Pair:
    x = ((torch.arange(n, device=DEVICE) + whole(4, n).long()) % entries).to(torch.int16)
    table, y, z = numbers(entries, seed=1), empty(n), empty(n)
    values = (entries, n // 4)
    a = Version("curve_a", (blocks,), (128,), (x, table, y, *values), lambda: y, shared=4 * entries)
    b = Version("curve_b", (blocks,), (1024,), (x, table, z, *values), lambda: z, shared=4 * entries)
    return Pair(CURVE, (a, b), lambda: table[x.long()], ("fp32", 0, 6 * n + 4 * entries), 0.0)


# Triangular factors of many matrices of 8 x 8 ------------------------------------------------------------------------

FACTOR = r"""
// x[64][n]: one element of all matrices after the other
__device__ __forceinline__ void factor(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float m[64];
#pragma unroll
    for (int e = 0; e < 64; ++e)
        m[e] = x[(size_t)e * n + i];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        const float inverse = 1.0f / m[9 * k];
#pragma unroll
        for (int r = k + 1; r < 8; ++r) {
            const float share = m[8 * r + k] * inverse;
            m[8 * r + k] = share;
#pragma unroll
            for (int c = k + 1; c < 8; ++c)
                m[8 * r + c] = fmaf(-share, m[8 * k + c], m[8 * r + c]);
        }
    }
#pragma unroll
    for (int e = 0; e < 64; ++e)
        y[(size_t)e * n + i] = m[e];
}

extern "C" __global__ void __launch_bounds__(256, 8) factor_a(const float* __restrict__ x, float* __restrict__ y, int n)
{
    factor(x, y, n);
}

extern "C" __global__ void __launch_bounds__(256) factor_b(const float* __restrict__ x, float* __restrict__ y, int n)
{
    factor(x, y, n);
}
"""


@pair
def factor(n: int = 1 << 20) -> Pair:
    x, y, z = numbers(64, n), empty(64, n), empty(64, n)
    x[::9] += 6.0  # the diagonal

    def wanted() -> Tensor:
        m = x.double().view(8, 8, n).clone()
        for k in range(7):
            m[k + 1 :, k] /= m[k, k]
            m[k + 1 :, k + 1 :] -= m[k + 1 :, k, None] * m[None, k, k + 1 :]
        return m.view(64, n)

    a = Version("factor_a", (n // 256,), (256,), (x, y, n), lambda: y)
    b = Version("factor_b", (n // 256,), (256,), (x, z, n), lambda: z)
    return Pair(FACTOR, (a, b), wanted, ("fp32", 316 * n, 512 * n))


# Records dealt to 16 queues ------------------------------------------------------------------------------------------

DEAL = r"""
// The queue of a record is in the low bits of its first word. A queue has room for a power of two.
extern "C" __global__ void __launch_bounds__(256)
    deal_a(const int4* __restrict__ x, int4* __restrict__ queues, int* lengths, int room)
{
    const int4 record = x[(size_t)blockIdx.x * 256 + threadIdx.x];
    const int queue = record.x & 15;
    const int place = atomicAdd(&lengths[queue], 1) & (room - 1);
    queues[(size_t)queue * room + place] = record;
}

extern "C" __global__ void __launch_bounds__(256)
    deal_b(const int4* __restrict__ x, int4* __restrict__ queues, int* lengths, int room)
{
    __shared__ int counts[16], starts[16];
    const int t = threadIdx.x;
    if (t < 16)
        counts[t] = 0;
    __syncthreads();
    int4 record[4];
    int rank[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
        record[j] = x[(size_t)blockIdx.x * 1024 + j * 256 + t];
#pragma unroll
    for (int j = 0; j < 4; ++j)
        rank[j] = atomicAdd(&counts[record[j].x & 15], 1);
    __syncthreads();
    if (t < 16)
        starts[t] = atomicAdd(&lengths[t], counts[t]);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const int queue = record[j].x & 15;
        queues[(size_t)queue * room + ((starts[queue] + rank[j]) & (room - 1))] = record[j];
    }
}
"""


@pair
def deal(n: int = 3 << 21, room: int = 1 << 19) -> Pair:
    """The lengths of the queues follow the queues in memory, so that both are cleared."""
    x = whole(1 << 20, n, 4)
    x[:, 1] = torch.arange(1, n + 1, device=DEVICE)
    size = 16 * room * 4
    y, z = empty(size + 16, dtype=torch.int32), empty(size + 16, dtype=torch.int32)

    def ids(queues: Tensor) -> Tensor:
        return queues[:size].view(16, room, 4)[:, :, 1].sort(1).values

    def wanted() -> Tensor:
        result = empty(16, room, dtype=torch.int32)
        for queue in range(16):
            mine = x[(x[:, 0] & 15) == queue, 1]
            result[queue, room - len(mine) :] = mine
        return result

    a = Version("deal_a", (n // 256,), (256,), (x, y, y[size:], room), lambda: ids(y), cleared=y)
    b = Version("deal_b", (n // 1024,), (256,), (x, z, z[size:], room), lambda: ids(z), cleared=z)
    return Pair(DEAL, (a, b), wanted, ("int32", 0, 32 * n + 64), 0.0)


# Weights of particles, summed by cell; particles are in the order of their cells -------------------------------------

DEPOSIT = r"""
// A block has 4096 particles, nearly always within 256 cells.
template <bool BY_RUNS>
__device__ __forceinline__ void deposit(const int* cells, const float* weights, float* y)
{
    __shared__ float held[256];
    const int t = threadIdx.x, lane = t % 32;
    const size_t from = (size_t)blockIdx.x * 4096;
    const int base = cells[from];
    held[t] = 0.0f;
    __syncthreads();
#pragma unroll 4
    for (int j = t; j < 4096; j += 256) {
        const int cell = cells[from + j] - base;
        float weight = weights[from + j];
        bool adds = true;
        if (BY_RUNS) {
#pragma unroll
            for (int step = 1; step < 32; step *= 2) {
                const float more = __shfl_down_sync(0xffffffffu, weight, step);
                const int other = __shfl_down_sync(0xffffffffu, cell, step);
                if (lane + step < 32 && other == cell)
                    weight += more;
            }
            const int before = __shfl_up_sync(0xffffffffu, cell, 1);
            adds = lane == 0 || before != cell;
        }
        if (adds && cell < 256)
            atomicAdd(&held[cell], weight);
        else if (adds)
            atomicAdd(&y[base + cell], weight);
    }
    __syncthreads();
    if (held[t] != 0.0f)
        atomicAdd(&y[base + t], held[t]);
}

extern "C" __global__ void __launch_bounds__(256)
    deposit_a(const int* __restrict__ cells, const float* __restrict__ weights, float* y)
{
    deposit<false>(cells, weights, y);
}

extern "C" __global__ void __launch_bounds__(256)
    deposit_b(const int* __restrict__ cells, const float* __restrict__ weights, float* y)
{
    deposit<true>(cells, weights, y);
}
"""


@pair
def deposit(n: int = 1 << 25) -> Pair:
    count = n // 64
    cells = whole(count, n)
    cells = cells if DEVICE == "meta" else cells.sort().values
    weights = numbers(n, seed=1) + 0.5
    y, z = empty(count), empty(count)

    def wanted() -> Tensor:
        return torch.bincount(cells.long(), weights=weights.double(), minlength=count)

    a = Version("deposit_a", (n // 4096,), (256,), (cells, weights, y), lambda: y, cleared=y)
    b = Version("deposit_b", (n // 4096,), (256,), (cells, weights, z), lambda: z, cleared=z)
    return Pair(DEPOSIT, (a, b), wanted, ("fp32", n, 8 * n + 4 * count))


# A step of gradient descent with momentum ----------------------------------------------------------------------------

DESCENT = r"""
extern "C" __global__ void __launch_bounds__(256)
    descent_a(const float* __restrict__ p, const float* __restrict__ m, const float* __restrict__ g,
              float* __restrict__ new_p, float* __restrict__ new_m, const volatile float* settings)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float rate = settings[0], keep = settings[1], decay = settings[2], scale = settings[3];
    const float value = p[i], moment = fmaf(keep, m[i], fmaf(scale, g[i], decay * value));
    new_m[i] = moment;
    new_p[i] = fmaf(-rate, moment, value);
}

extern "C" __global__ void __launch_bounds__(256)
    descent_b(const float* __restrict__ p, const float* __restrict__ m, const float* __restrict__ g,
              float* __restrict__ new_p, float* __restrict__ new_m, const float* __restrict__ settings)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const float rate = settings[0], keep = settings[1], decay = settings[2], scale = settings[3];
    const float value = p[i], moment = fmaf(keep, m[i], fmaf(scale, g[i], decay * value));
    new_m[i] = moment;
    new_p[i] = fmaf(-rate, moment, value);
}
"""


@pair
def descent(n: int = 1 << 25) -> Pair:
    p, m, g = numbers(n), numbers(n, seed=1), numbers(n, seed=2)
    settings = torch.tensor([0.01, 0.9, 0.1, 0.5], device=DEVICE)
    y, z = empty(2, n), empty(2, n)

    def wanted() -> Tensor:
        moment = 0.9 * m + 0.5 * g + 0.1 * p
        return torch.stack([p - 0.01 * moment, moment])

    a = Version("descent_a", (n // 256,), (256,), (p, m, g, y[0], y[1], settings), lambda: y)
    b = Version("descent_b", (n // 256,), (256,), (p, m, g, z[0], z[1], settings), lambda: z)
    return Pair(DESCENT, (a, b), wanted, ("fp32", 7 * n, 20 * n + 16))


# Call options at 64 expiries, by the same draws for every asset ------------------------------------------------------

LADDER = (
    HEAD
    + r"""
// An asset is (log2 of the price, drift, volatility, strike), logarithms to the base 2. The sum is over draws and expiries.
__device__ __forceinline__ float worth(const float4* draws, float4 asset, int count4)
{
    extern __shared__ float4 held[];
    __shared__ float parts[32];
    for (int j = threadIdx.x; j < count4; j += blockDim.x)
        held[j] = draws[j];
    __syncthreads();
    float sum = 0.0f;
    for (int expiry = 1; expiry <= 64; ++expiry) {
        const float time = 0.015625f * expiry;
        const float base = fmaf(asset.y, time, asset.x), slope = asset.z * sqrtf(time);
#pragma unroll 2
        for (int j = threadIdx.x; j < count4; j += blockDim.x) {
            const float4 z = held[j];
            sum += fmaxf(exp2f(fmaf(slope, z.x, base)) - asset.w, 0.0f);
            sum += fmaxf(exp2f(fmaf(slope, z.y, base)) - asset.w, 0.0f);
            sum += fmaxf(exp2f(fmaf(slope, z.z, base)) - asset.w, 0.0f);
            sum += fmaxf(exp2f(fmaf(slope, z.w, base)) - asset.w, 0.0f);
        }
    }
    return block_sum(sum, parts);
}

extern "C" __global__ void __launch_bounds__(1024)
    ladder_a(const float4* __restrict__ draws, const float4* __restrict__ assets, float* y, int count4)
{
    const float sum = worth(draws, assets[blockIdx.x], count4);
    if (threadIdx.x == 0)
        y[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(128)
    ladder_b(const float4* __restrict__ draws, const float4* __restrict__ assets, float* y, int count4)
{
    const float sum = worth(draws + (size_t)blockIdx.x * count4, assets[blockIdx.y], count4);
    if (threadIdx.x == 0)
        atomicAdd(&y[blockIdx.y], sum);
}
"""
)


@pair
def ladder(assets: int = SMS + 4, draws: int = 32768) -> Pair:
    z, given = 4 * numbers(draws), numbers(assets, 4, seed=1)
    scale = torch.tensor([0.5, 0.1, 0.2, 0.4], device=DEVICE)
    values = given * scale + torch.tensor([0.0, 0.05, 0.4, 0.9], device=DEVICE)
    y, w = empty(assets), empty(assets)

    def wanted() -> Tensor:
        price, drift, volatility, strike = (column[:, None] for column in values.double().t())
        result = torch.zeros(assets, dtype=torch.float64, device=DEVICE)
        for expiry in range(1, 65):
            time = expiry / 64
            final = torch.exp2(price + drift * time + volatility * time**0.5 * z.double()[None])
            result += (final - strike).clamp(min=0).sum(1)
        return result

    a = Version("ladder_a", (assets,), (1024,), (z, values, y, draws // 4), lambda: y, shared=4 * draws)
    b = Version("ladder_b", (8, assets), (128,), (z, values, w, draws // 32), lambda: w, shared=draws // 2, cleared=w)
    return Pair(LADDER, (a, b), wanted, ("fp32", 6 * 64 * assets * draws, 4 * draws + 20 * assets), 1e-3)


# The energy of all pairs of points, by strips of 512 points ----------------------------------------------------------

ENERGY = (
    HEAD
    + r"""
// Every point of a strip with all points before it, of the strips from `first` to `last`.
__device__ __forceinline__ float energy(const float4* points, int strip, int first, int last)
{
    __shared__ float4 held[512];
    __shared__ float parts[32];
    const int t = threadIdx.x;
    const float4 p = points[strip * 512 + t];
    float sum = 0.0f;
    for (int other = first; other < last; ++other) {
        __syncthreads();
        held[t] = points[other * 512 + t];
        __syncthreads();
        const int end = other == strip ? t : 512;
#pragma unroll 8
        for (int j = 0; j < 512; ++j) {
            const float4 q = held[j];
            const float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z;
            const float inverse = __fdividef(1.0f, fmaf(dx, dx, fmaf(dy, dy, fmaf(dz, dz, 0.5f))));
            const float cube = inverse * inverse * inverse;
            sum += j < end ? fmaf(cube, cube, -cube) : 0.0f;
        }
    }
    return block_sum(sum, parts);
}

extern "C" __global__ void __launch_bounds__(512) energy_a(const float4* __restrict__ points, float* y)
{
    const float sum = energy(points, blockIdx.x, 0, blockIdx.x + 1);
    if (threadIdx.x == 0)
        y[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(512) energy_b(const float4* __restrict__ points, float* y)
{
    const int strip = gridDim.y - 1 - blockIdx.y, parts = gridDim.x, part = blockIdx.x;
    const float sum = energy(points, strip, (strip + 1) * part / parts, (strip + 1) * (part + 1) / parts);
    if (threadIdx.x == 0)
        atomicAdd(&y[strip], sum);
}
"""
)


@pair
def energy(strips: int = SMS, parts: int = 8) -> Pair:
    n = strips * 512
    points = 8 * numbers(n, 4)
    y, z = empty(strips), empty(strips)

    def wanted() -> Tensor:
        result = torch.zeros(strips, dtype=torch.float64, device=DEVICE)
        for strip, mine in enumerate(points.split(512)):
            before = points[: 512 * (strip + 1)]
            apart = sum((mine[:, None, axis] - before[None, :, axis]).square() for axis in range(3)) + 0.5
            cube = (1 / apart) ** 3
            result[strip] = (cube * cube - cube).double().tril(512 * strip - 1).sum()
        return result

    a = Version("energy_a", (strips,), (512,), (points, y), lambda: y)
    b = Version("energy_b", (parts, strips), (512,), (points, z), lambda: z, cleared=z)
    return Pair(ENERGY, (a, b), wanted, ("fp32", 15 * (n * (n - 1) // 2), 16 * n + 4 * strips), 1e-3)


# A gated unit on halves ----------------------------------------------------------------------------------------------

GATED = r"""
__device__ __forceinline__ float wide(unsigned short half)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

__device__ __forceinline__ unsigned short narrow(float value)
{
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}

__device__ __forceinline__ unsigned short gate(unsigned short g, unsigned short u)
{
    const float value = wide(g);
    return narrow(__fdividef(value, 1.0f + __expf(-value)) * wide(u));
}

__device__ __forceinline__ unsigned gate2(unsigned g, unsigned u)
{
    const unsigned low = gate((unsigned short)(g & 0xffffu), (unsigned short)(u & 0xffffu));
    const unsigned high = gate((unsigned short)(g >> 16), (unsigned short)(u >> 16));
    return low | high << 16;
}

extern "C" __global__ void __launch_bounds__(256)
    gated_a(const unsigned short* __restrict__ g, const unsigned short* __restrict__ u, unsigned short* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    y[i] = gate(g[i], u[i]);
}

extern "C" __global__ void __launch_bounds__(256)
    gated_b(const uint4* __restrict__ g, const uint4* __restrict__ u, uint4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const uint4 p = g[i], q = u[i];
    y[i] = make_uint4(gate2(p.x, q.x), gate2(p.y, q.y), gate2(p.z, q.z), gate2(p.w, q.w));
}
"""


@pair
def gated(n: int = 1 << 27) -> Pair:
    g, u = (8 * numbers(n)).half(), numbers(n, seed=1).half()
    y, z = empty(n, dtype=torch.float16), empty(n, dtype=torch.float16)
    a = Version("gated_a", (n // 256,), (256,), (g, u, y), lambda: y)
    b = Version("gated_b", (n // 2048,), (256,), (g, u, z), lambda: z)
    return Pair(GATED, (a, b), lambda: torch.nn.functional.silu(g.float()) * u.float(), ("fp32", 5 * n, 6 * n), 2e-3)


# The place of the largest number of every row ------------------------------------------------------------------------

WINNER = r"""
__device__ __forceinline__ void finish(float best, int at, int* y)
{
#pragma unroll
    for (int lane = 16; lane; lane /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, best, lane);
        const int place = __shfl_xor_sync(0xffffffffu, at, lane);
        if (other > best || (other == best && place < at)) {
            best = other;
            at = place;
        }
    }
    if (threadIdx.x % 32 == 0)
        *y = at;
}

extern "C" __global__ void __launch_bounds__(256) winner_a(const float* __restrict__ x, int* __restrict__ y, int cols)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32;
    const float* const line = x + (size_t)row * cols;
    float best = -3e38f;
    int at = 0;
#pragma unroll 1
    for (int j = threadIdx.x % 32; j < cols; j += 32) {
        const float value = line[j];
        if (value > best) {
            best = value;
            at = j;
        }
    }
    finish(best, at, y + row);
}

extern "C" __global__ void __launch_bounds__(256) winner_b(const float* __restrict__ x, int* __restrict__ y, int cols)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32;
    const float* const line = x + (size_t)row * cols;
    float best = -3e38f;
    int at = 0;
#pragma unroll 1
    for (int j = threadIdx.x % 32; j < cols; j += 512) {  // cols is a multiple of 512
        float value[16];
#pragma unroll
        for (int e = 0; e < 16; ++e)
            value[e] = line[j + 32 * e];
#pragma unroll
        for (int e = 0; e < 16; ++e)
            if (value[e] > best) {
                best = value[e];
                at = j + 32 * e;
            }
    }
    finish(best, at, y + row);
}
"""


@pair
def winner(rows: int = 256 * SMS, cols: int = 2048) -> Pair:
    """Equal numbers make either place right, so the numbers at the places are compared."""
    x = numbers(rows, cols)
    y, z = empty(rows, dtype=torch.int32), empty(rows, dtype=torch.int32)
    a = Version("winner_a", (rows // 8,), (256,), (x, y, cols), lambda: x.gather(1, y.long()[:, None])[:, 0])
    b = Version("winner_b", (rows // 8,), (256,), (x, z, cols), lambda: x.gather(1, z.long()[:, None])[:, 0])
    return Pair(WINNER, (a, b), lambda: x.amax(1), ("fp32", 0, 4 * rows * (cols + 1)), 0.0)


# Oscillators, of which a quarter swing -------------------------------------------------------------------------------

ALIVE = r"""
__device__ __forceinline__ float2 swing(float2 s, int steps)
{
#pragma unroll 4
    for (int j = 0; j < steps; ++j) {
        s.x = fmaf(0.015625f, s.y, s.x);
        s.y = fmaf(-0.015625f, s.x, s.y);
    }
    return s;
}

extern "C" __global__ void __launch_bounds__(256)
    alive_a(const float2* __restrict__ x, const unsigned char* __restrict__ swings, float2* __restrict__ y, int steps)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (swings[i])
        y[i] = swing(x[i], steps);
}

extern "C" __global__ void __launch_bounds__(256)
    alive_b(const float2* __restrict__ x, const int* __restrict__ which, float2* __restrict__ y, int steps)
{
    const int i = which[blockIdx.x * 256 + threadIdx.x];
    y[i] = swing(x[i], steps);
}
"""


@pair
def alive(n: int = 1 << 23, steps: int = 512) -> Pair:
    """The second version is given a list of those that swing."""
    x, y, z = numbers(n, 2), empty(n, 2), empty(n, 2)
    which = torch.argsort(numbers(n, seed=1))[: n // 4].sort().values
    swings = empty(n, dtype=torch.uint8)
    swings[which] = 1

    def wanted() -> Tensor:
        place, speed = x[which].double().t()
        for _ in range(steps):
            place = place + 0.015625 * speed
            speed = speed - 0.015625 * place
        result = torch.zeros(n, 2, dtype=torch.float64, device=DEVICE)
        result[which] = torch.stack([place, speed], 1)
        return result

    a = Version("alive_a", (n // 256,), (256,), (x, swings, y, steps), lambda: y)
    b = Version("alive_b", (n // 1024,), (256,), (x, which.to(torch.int32), z, steps), lambda: z)
    return Pair(ALIVE, (a, b), wanted, ("fp32", n // 4 * steps * 4, n // 4 * 16 + n), 1e-4)


# Four queries against a long list of keys ----------------------------------------------------------------------------

SCORES = (
    HEAD
    + r"""
__device__ __forceinline__ float dot(float4 u, float4 v)
{
    return warp_sum(add4(make_float4(u.x * v.x, u.y * v.y, u.z * v.z, u.w * v.w)));
}

// keys[count][128], queries[4][128], y[4][count]; a warp has four keys.
extern "C" __global__ void __launch_bounds__(256)
    scores_a(const float4* __restrict__ keys, const float4* __restrict__ queries, float* __restrict__ y, int count)
{
    const int lane = threadIdx.x % 32, key = (blockIdx.x * 8 + threadIdx.x / 32) * 4, q = blockIdx.y;
    const float4 query = queries[q * 32 + lane];
    float4 value[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
        value[j] = keys[(size_t)(key + j) * 32 + lane];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const float sum = dot(value[j], query);
        if (lane == 0)
            y[(size_t)q * count + key + j] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(256)
    scores_b(const float4* __restrict__ keys, const float4* __restrict__ queries, float* __restrict__ y, int count)
{
    const int lane = threadIdx.x % 32, key = (blockIdx.x * 8 + threadIdx.x / 32) * 4;
    float4 value[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
        value[j] = keys[(size_t)(key + j) * 32 + lane];
#pragma unroll
    for (int q = 0; q < 4; ++q) {
        const float4 query = queries[q * 32 + lane];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float sum = dot(value[j], query);
            if (lane == 0)
                y[(size_t)q * count + key + j] = sum;
        }
    }
}
"""
)


@pair
def scores(count: int = 1 << 19) -> Pair:
    keys, queries = numbers(count, 128), numbers(4, 128, seed=1)
    y, z = empty(4, count), empty(4, count)

    def wanted() -> Tensor:
        return torch.stack([(keys * query).double().sum(1) for query in queries])

    a = Version("scores_a", (count // 32, 4), (256,), (keys, queries, y, count), lambda: y)
    b = Version("scores_b", (count // 32,), (256,), (keys, queries, z, count), lambda: z)
    work = ("fp32", 2 * 4 * 128 * count, 4 * (128 * count + 512 + 4 * count))
    return Pair(SCORES, (a, b), wanted, work, 1e-4)


# Means over the corners of the cells of a mesh -----------------------------------------------------------------------

MESH = r"""
extern "C" __global__ void __launch_bounds__(256)
    mesh_a(const longlong2* __restrict__ corners, const float* __restrict__ x, float* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const longlong2 p = corners[2 * i], q = corners[2 * i + 1];
    y[i] = 0.25f * ((x[p.x] + x[p.y]) + (x[q.x] + x[q.y]));
}

extern "C" __global__ void __launch_bounds__(256)
    mesh_b(const int4* __restrict__ corners, const float* __restrict__ x, float* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const int4 p = corners[i];
    y[i] = 0.25f * ((x[p.x] + x[p.y]) + (x[p.z] + x[p.w]));
}
"""


@pair
def mesh(rows: int = 2048, cols: int = 8192) -> Pair:
    n, points = rows * cols, (rows + 1) * (cols + 1)
    x, y, z = numbers(points), empty(n), empty(n)
    row, col = torch.arange(rows, device=DEVICE)[:, None], torch.arange(cols, device=DEVICE)[None]
    first = (row * (cols + 1) + col).view(-1)
    corners = torch.stack([first, first + 1, first + cols + 1, first + cols + 2], 1).contiguous()
    a = Version("mesh_a", (n // 256,), (256,), (corners, x, y), lambda: y)
    b = Version("mesh_b", (n // 256,), (256,), (corners.to(torch.int32), x, z), lambda: z)
    return Pair(MESH, (a, b), lambda: x[corners].mean(1), ("fp32", 4 * n, 20 * n + 4 * points))


# An image of bytes, brightened towards its edges ---------------------------------------------------------------------

VIGNETTE = r"""
__device__ __forceinline__ unsigned char brighter(unsigned char value, float gain)
{
    return (unsigned char)min((int)fmaf((float)value, gain, 0.5f), 255);
}

extern "C" __global__ void __launch_bounds__(256)
    vignette_a(const uchar4* __restrict__ x, const float4* __restrict__ gains, uchar4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.y * gridDim.x * 256 + blockIdx.x * 256 + threadIdx.x;
    const uchar4 v = x[i];
    const float4 g = gains[i];
    y[i] = make_uchar4(brighter(v.x, g.x), brighter(v.y, g.y), brighter(v.z, g.z), brighter(v.w, g.w));
}

extern "C" __global__ void __launch_bounds__(256)
    vignette_b(const uchar4* __restrict__ x, uchar4* __restrict__ y, float scale, float middle_row, float middle_col)
{
    const size_t i = (size_t)blockIdx.y * gridDim.x * 256 + blockIdx.x * 256 + threadIdx.x;
    const uchar4 v = x[i];
    const float down = ((float)blockIdx.y - middle_row) * scale, base = fmaf(0.6f * down, down, 1.0f);
    const float right = ((float)((blockIdx.x * 256 + threadIdx.x) * 4) - middle_col) * scale;
    float g[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const float at = fmaf((float)j, scale, right);
        g[j] = fmaf(0.6f * at, at, base);
    }
    y[i] = make_uchar4(brighter(v.x, g[0]), brighter(v.y, g[1]), brighter(v.z, g[2]), brighter(v.w, g[3]));
}
"""


@pair
def vignette(rows: int = 8192, cols: int = 16384) -> Pair:
    """A rounding apart is one of 255."""
    x = whole(256, rows, cols, dtype=torch.uint8)
    y, z = empty(rows, cols, dtype=torch.uint8), empty(rows, cols, dtype=torch.uint8)
    down = (torch.arange(rows, device=DEVICE) - rows / 2)[:, None] / cols
    right = (torch.arange(cols, device=DEVICE) - cols / 2)[None] / cols
    gains = (1 + 0.6 * (down.square() + right.square())).float().contiguous()
    grid = (cols // 1024, rows)
    a = Version("vignette_a", grid, (256,), (x, gains, y), lambda: y)
    b = Version("vignette_b", grid, (256,), (x, z, 1 / cols, rows / 2, cols / 2), lambda: z)
    work = ("fp32", 8 * rows * cols, 2 * rows * cols)
    return Pair(VIGNETTE, (a, b), lambda: (x * gains + 0.5).floor().clamp(max=255), work, 5e-3)


# The strength of the edges in an image -------------------------------------------------------------------------------

EDGES = r"""
__device__ __forceinline__ float2 slopes(const float* x, int rows, int cols, int row, int col)
{
    const float* const middle = x + (size_t)row * cols;
    const float* const upper = row > 0 ? middle - cols : middle;
    const float* const lower = row < rows - 1 ? middle + cols : middle;
    const int left = max(col - 1, 0), right = min(col + 1, cols - 1);
    const float a = upper[left], b = upper[col], c = upper[right], d = middle[left];
    const float e = middle[right], f = lower[left], g = lower[col], h = lower[right];
    return make_float2((c - a) + (h - f) + 2.0f * (e - d), (f - a) + (h - c) + 2.0f * (g - b));
}

// A block has 16 rows.
extern "C" __global__ void __launch_bounds__(512)
    edges_a(const float* __restrict__ x, float2* between, float* __restrict__ y, int rows, int cols)
{
    const int first = blockIdx.x * 16;
    for (int row = first; row < first + 16; ++row)
        for (int col = threadIdx.x; col < cols; col += 512)
            between[(size_t)row * cols + col] = slopes(x, rows, cols, row, col);
    __syncthreads();
    for (int row = first; row < first + 16; ++row)
#pragma unroll 4
        for (int col = threadIdx.x; col < cols; col += 512) {
            const float2 s = between[(size_t)row * cols + col];
            y[(size_t)row * cols + col] = sqrtf(fmaf(s.x, s.x, s.y * s.y));
        }
}

extern "C" __global__ void __launch_bounds__(512)
    edges_b(const float* __restrict__ x, float* __restrict__ y, int rows, int cols)
{
    const int first = blockIdx.x * 16;
    for (int row = first; row < first + 16; ++row)
        for (int col = threadIdx.x; col < cols; col += 512) {
            const float2 s = slopes(x, rows, cols, row, col);
            y[(size_t)row * cols + col] = sqrtf(fmaf(s.x, s.x, s.y * s.y));
        }
}
"""


@pair
def edges(blocks: int = 4 * SMS, cols: int = 8192) -> Pair:
    rows = 16 * blocks
    x, between, y, z = numbers(rows, cols), empty(rows, cols, 2), empty(rows, cols), empty(rows, cols)

    def wanted() -> Tensor:
        wide = torch.nn.functional.pad(x[None], (1, 1, 1, 1), mode="replicate")[0]
        across, down = wide[:, 2:] - wide[:, :-2], wide[2:] - wide[:-2]
        across = across[:-2] + 2 * across[1:-1] + across[2:]
        down = down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]
        return (across.square() + down.square()).sqrt()

    a = Version("edges_a", (blocks,), (512,), (x, between, y, rows, cols), lambda: y)
    b = Version("edges_b", (blocks,), (512,), (x, z, rows, cols), lambda: z)
    return Pair(EDGES, (a, b), wanted, ("fp32", 16 * rows * cols, 8 * rows * cols))


# How much points in four dimensions overlap, over all pairs ----------------------------------------------------------

OVERLAP = (
    HEAD
    + r"""
__device__ __forceinline__ float overlap(const float4* points, int first, int second)
{
    __shared__ float4 held[256];
    __shared__ float parts[32];
    const float4 p = points[first * 256 + threadIdx.x];
    held[threadIdx.x] = points[second * 256 + threadIdx.x];
    __syncthreads();
    float sum = 0.0f;
#pragma unroll 8
    for (int j = 0; j < 256; ++j) {
        const float4 q = held[j];
        const float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z, dw = p.w - q.w;
        sum += __expf(-fmaf(dx, dx, fmaf(dy, dy, fmaf(dz, dz, dw * dw))));
    }
    return block_sum(sum, parts);
}

extern "C" __global__ void __launch_bounds__(256) overlap_a(const float4* __restrict__ points, float* y)
{
    const float sum = overlap(points, blockIdx.y, blockIdx.x);
    if (threadIdx.x == 0)
        atomicAdd(&y[blockIdx.y], 0.5f * sum);
}

extern "C" __global__ void __launch_bounds__(256) overlap_b(const float4* __restrict__ points, float* y)
{
    const int k = blockIdx.x;
    int first = (int)(0.5f * (sqrtf(8.0f * k + 1.0f) - 1.0f));
    while (first * (first + 1) / 2 > k)
        --first;
    while ((first + 1) * (first + 2) / 2 <= k)
        ++first;
    const int second = k - first * (first + 1) / 2;
    const float sum = overlap(points, first, second);
    if (threadIdx.x == 0)
        atomicAdd(&y[first], first == second ? 0.5f * sum : sum);
}
"""
)


@pair
def overlap(tiles: int = 192) -> Pair:
    n = tiles * 256
    points, y, z = 2 * numbers(n, 4), empty(tiles), empty(tiles)

    def wanted() -> Tensor:
        total = torch.zeros(1, dtype=torch.float64, device=DEVICE)
        for part in points.split(256):
            apart = sum((part[:, None, axis] - points[None, :, axis]).square() for axis in range(4))
            total += 0.5 * (-apart).exp().double().sum()
        return total

    a = Version("overlap_a", (tiles, tiles), (256,), (points, y), lambda: y.double().sum()[None], cleared=y)
    count = tiles * (tiles + 1) // 2
    b = Version("overlap_b", (count,), (256,), (points, z), lambda: z.double().sum()[None], cleared=z)
    return Pair(OVERLAP, (a, b), wanted, ("fp32", 13 * (n * (n + 1) // 2), 16 * n + 4 * tiles), 1e-4)


# Channels laid out as pixels -----------------------------------------------------------------------------------------

WIDEN = r"""
// x[batch][channels][factor][factor][rows][cols], y[batch][channels][rows * factor][cols * factor]
extern "C" __global__ void __launch_bounds__(256) widen_a(const float* __restrict__ x, float* __restrict__ y, int channels,
                                                          int rows, int cols, int factor)
{
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x, f = factor, wide = cols * f, high = rows * f;
    const long long col = i % wide, row = i / wide % high;
    const long long channel = i / (wide * high) % channels, image = i / (wide * high * channels);
    const long long part = row % f * f + col % f;
    y[i] = x[(((image * channels + channel) * f * f + part) * rows + row / f) * cols + col / f];
}

// The factor is 2 to the power of `bits`.
extern "C" __global__ void __launch_bounds__(256)
    widen_b(const float* __restrict__ x, float* __restrict__ y, int rows, int cols, int bits)
{
    const unsigned col = blockIdx.x * 256 + threadIdx.x, row = blockIdx.y, plane = blockIdx.z, rest = (1u << bits) - 1u;
    const unsigned part = ((row & rest) << bits) + (col & rest);
    const size_t from = (((size_t)plane << 2 * bits) + part) * rows + (row >> bits);
    y[((size_t)plane * gridDim.y + row) * ((size_t)cols << bits) + col] = x[from * cols + (col >> bits)];
}
"""


@pair
def widen(batch: int = 4, channels: int = 12, rows: int = 512, cols: int = 640, bits: int = 1) -> Pair:
    factor = 1 << bits
    x = numbers(batch, channels * factor * factor, rows, cols)
    y, z = (empty(batch, channels, rows * factor, cols * factor) for _ in range(2))
    grid = (cols * factor // 256, rows * factor, batch * channels)
    n = y.numel()
    a = Version("widen_a", (n // 256,), (256,), (x, y, channels, rows, cols, factor), lambda: y)
    b = Version("widen_b", grid, (256,), (x, z, rows, cols, bits), lambda: z)
    return Pair(WIDEN, (a, b), lambda: torch.nn.functional.pixel_shuffle(x, factor), ("fp32", 0, 8 * n), 0.0)


# Heat along rods of 1024 cells ---------------------------------------------------------------------------------------

HEAT = r"""
extern "C" __global__ void __launch_bounds__(1024)
    heat_a(const float* __restrict__ x, float* __restrict__ y, int steps, float share)
{
    __shared__ float held[1024];
    const int t = threadIdx.x, left = max(t - 1, 0), right = min(t + 1, 1023);
    const size_t i = (size_t)blockIdx.x * 1024 + t;
    held[t] = x[i];
    __syncthreads();
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        const float mine = held[t], flow = (held[left] - mine) + (held[right] - mine);
        __syncthreads();
        held[t] = fmaf(share, flow, mine);
        __syncthreads();
    }
    y[i] = held[t];
}

// A warp has a rod, a lane 32 cells of it.
extern "C" __global__ void __launch_bounds__(128)
    heat_b(const float* __restrict__ x, float* __restrict__ y, int steps, float share)
{
    __shared__ float tiles[4][32][33];
    float(&tile)[32][33] = tiles[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    const size_t from = ((size_t)blockIdx.x * 4 + threadIdx.x / 32) * 1024 + lane;
#pragma unroll 8
    for (int k = 0; k < 32; ++k)
        tile[k][lane] = x[from + 32 * k];
    __syncwarp();
    float v[32];
#pragma unroll
    for (int k = 0; k < 32; ++k)
        v[k] = tile[lane][k];
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        const float first = v[0], last = v[31];
        const float before = __shfl_up_sync(0xffffffffu, last, 1), after = __shfl_down_sync(0xffffffffu, first, 1);
        float left = lane == 0 ? first : before;
        const float end = lane == 31 ? last : after;
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            const float mine = v[k], right = k < 31 ? v[(k + 1) % 32] : end;
            v[k] = fmaf(share, (left - mine) + (right - mine), mine);
            left = mine;
        }
    }
#pragma unroll
    for (int k = 0; k < 32; ++k)
        tile[lane][k] = v[k];
    __syncwarp();
#pragma unroll 8
    for (int k = 0; k < 32; ++k)
        y[from + 32 * k] = tile[k][lane];
}
"""


@pair
def heat(rods: int = 16384, steps: int = 64, share: float = 0.25) -> Pair:
    x, y, z = numbers(rods, 1024), empty(rods, 1024), empty(rods, 1024)

    def wanted() -> Tensor:
        v = x
        for _ in range(steps):
            wide = torch.nn.functional.pad(v[None], (1, 1), mode="replicate")[0]
            v = v + share * (wide[:, :-2] + wide[:, 2:] - 2 * v)
        return v

    a = Version("heat_a", (rods,), (1024,), (x, y, steps, share), lambda: y)
    b = Version("heat_b", (rods // 4,), (128,), (x, z, steps, share), lambda: z)
    return Pair(HEAT, (a, b), wanted, ("fp32", 5 * 1024 * rods * steps, 8 * 1024 * rods), 1e-4)


# Means over what a mask leaves ---------------------------------------------------------------------------------------

VOICED = (
    HEAD
    + r"""
__device__ __forceinline__ void masked(const float4* x, const uchar4* mask, float* y, int cols4)
{
    __shared__ float parts[2][32];
    const size_t from = (size_t)blockIdx.y * cols4;
    float sum = 0.0f, count = 0.0f;
#pragma unroll 4
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < cols4; i += gridDim.x * blockDim.x) {
        const float4 v = x[from + i];
        const uchar4 m = mask[from + i];
        sum += add4(make_float4(m.x ? v.x : 0.0f, m.y ? v.y : 0.0f, m.z ? v.z : 0.0f, m.w ? v.w : 0.0f));
        count += (float)((m.x + m.y) + (m.z + m.w));
    }
    sum = block_sum(sum, parts[0]);
    count = block_sum(count, parts[1]);
    if (threadIdx.x == 0) {
        atomicAdd(&y[2 * blockIdx.y], sum);
        atomicAdd(&y[2 * blockIdx.y + 1], count);
    }
}

extern "C" __global__ void __launch_bounds__(512)
    voiced_a(const float4* __restrict__ x, const uchar4* __restrict__ mask, float* y, int cols4)
{
    masked(x, mask, y, cols4);
}

extern "C" __global__ void __launch_bounds__(512)
    voiced_b(const float4* __restrict__ x, const uchar4* __restrict__ mask, float* y, int cols4)
{
    masked(x, mask, y, cols4);
}
"""
)


@pair
def voiced(rows: int = 20, cols: int = 1 << 22, blocks: int = 64) -> Pair:
    x, mask = numbers(rows, cols) + 0.5, whole(2, rows, cols, seed=1, dtype=torch.uint8)
    y, z = empty(rows, 2), empty(rows, 2)

    def wanted() -> Tensor:
        return (x * mask).double().sum(1) / mask.double().sum(1)

    a = Version("voiced_a", (1, rows), (512,), (x, mask, y, cols // 4), lambda: y[:, 0] / y[:, 1], cleared=y)
    b = Version("voiced_b", (blocks, rows), (512,), (x, mask, z, cols // 4), lambda: z[:, 0] / z[:, 1], cleared=z)
    return Pair(VOICED, (a, b), wanted, ("fp32", 2 * rows * cols, 5 * rows * cols + 8 * rows), 1e-3)


# Pairs of numbers turned by an angle that depends on the token and the pair ------------------------------------------

ROTARY = r"""
// x[tokens][heads][64], turns[tokens][64]: cosine and sine
__device__ __forceinline__ void rotate(const float2* x, const float2* turns, float2* y, int heads)
{
    const unsigned token = blockIdx.y, at = blockIdx.x * blockDim.x + threadIdx.x;
    const size_t i = (size_t)token * heads * 64 + at;
    const float2 v = x[i], turn = turns[token * 64 + at % 64];
    y[i] = make_float2(v.x * turn.x - v.y * turn.y, v.x * turn.y + v.y * turn.x);
}

extern "C" __global__ void rotary_a(const float2* __restrict__ x, const float2* __restrict__ turns, float2* __restrict__ y,
                                    int heads)
{
    rotate(x, turns, y, heads);
}

extern "C" __global__ void rotary_b(const float2* __restrict__ x, const float2* __restrict__ turns, float2* __restrict__ y,
                                    int heads)
{
    rotate(x, turns, y, heads);
}
"""


@pair
def rotary(tokens: int = 8192, heads: int = 64) -> Pair:
    x, y, z = numbers(tokens, heads, 64, 2), empty(tokens, heads, 64, 2), empty(tokens, heads, 64, 2)
    rates = 10000.0 ** -(torch.arange(64, device=DEVICE) / 64)
    angles = torch.arange(tokens, device=DEVICE)[:, None] * rates[None]
    turns = torch.stack([angles.cos(), angles.sin()], 2).contiguous()

    def wanted() -> Tensor:
        return torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(turns)[:, None])

    a = Version("rotary_a", (heads * 2, tokens), (32,), (x, turns, y, heads), lambda: y)
    b = Version("rotary_b", (heads // 4, tokens), (256,), (x, turns, z, heads), lambda: z)
    n = tokens * heads * 64
    return Pair(ROTARY, (a, b), wanted, ("fp32", 6 * n, 16 * n + 8 * tokens * 64))


# Filters of 32 taps along many signals, side by side in memory -------------------------------------------------------

MOVING = r"""
// x[time][signal]; a thread keeps the last 32 numbers of a signal in a ring.
extern "C" __global__ void __launch_bounds__(256)
    moving_a(const float* __restrict__ x, float* __restrict__ y, int times, int signals)
{
    const int signal = blockIdx.x * 256 + threadIdx.x;
    float ring[32] = {};
#pragma unroll 1
    for (int time = 0; time < times; ++time) {
        ring[time & 31] = x[(size_t)time * signals + signal];
        float sum = 0.0f;
#pragma unroll
        for (int k = 0; k < 32; ++k)
            sum = fmaf(1.0f / (k + 1), ring[(time - k) & 31], sum);
        y[(size_t)time * signals + signal] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(256)
    moving_b(const float* __restrict__ x, float* __restrict__ y, int times, int signals)
{
    const int signal = blockIdx.x * 256 + threadIdx.x;
    float ring[32] = {};
#pragma unroll 1
    for (int from = 0; from < times; from += 32)  // times is a multiple of 32
#pragma unroll
        for (int u = 0; u < 32; ++u) {
            ring[u] = x[(size_t)(from + u) * signals + signal];
            float sum = 0.0f;
#pragma unroll
            for (int k = 0; k < 32; ++k)
                sum = fmaf(1.0f / (k + 1), ring[(u - k) & 31], sum);
            y[(size_t)(from + u) * signals + signal] = sum;
        }
}
"""


@pair
def moving(times: int = 128, signals: int = 2048 * SMS) -> Pair:
    x, y, z = numbers(times, signals), empty(times, signals), empty(times, signals)

    def wanted() -> Tensor:
        result = torch.zeros_like(x)
        for k in range(32):
            result[k:] += x[: times - k] / (k + 1)
        return result

    a = Version("moving_a", (signals // 256,), (256,), (x, y, times, signals), lambda: y)
    b = Version("moving_b", (signals // 256,), (256,), (x, z, times, signals), lambda: z)
    return Pair(MOVING, (a, b), wanted, ("fp32", 64 * times * signals, 8 * times * signals))


# Prices of European options ------------------------------------------------------------------------------------------

QUOTES = r"""
__device__ __forceinline__ float normal_a(float x)
{
    const float k = 1.0 / (1.0 + 0.2316419 * fabsf(x));
    const float tail = 0.39894228 * exp(-0.5 * x * x) *
                       (k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429)))));
    return x > 0.0 ? 1.0 - tail : tail;
}

extern "C" __global__ void __launch_bounds__(256)
    quotes_a(const float* __restrict__ prices, const float* __restrict__ strikes, const float* __restrict__ times,
             float* __restrict__ calls, float* __restrict__ puts, float rate, float volatility)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float price = prices[i], strike = strikes[i], time = times[i], spread = volatility * sqrtf(time);
    const float up = (logf(price / strike) + (rate + 0.5 * volatility * volatility) * time) / spread, down = up - spread;
    const float present = strike * exp(-1.0 * rate * time);
    const float call = price * normal_a(up) - present * normal_a(down);
    calls[i] = call;
    puts[i] = call + present - price;
}

__device__ __forceinline__ float normal_b(float x)
{
    const float k = 1.0f / (1.0f + 0.2316419f * fabsf(x));
    const float tail =
        0.39894228f * expf(-0.5f * x * x) *
        (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
    return x > 0.0f ? 1.0f - tail : tail;
}

extern "C" __global__ void __launch_bounds__(256)
    quotes_b(const float* __restrict__ prices, const float* __restrict__ strikes, const float* __restrict__ times,
             float* __restrict__ calls, float* __restrict__ puts, float rate, float volatility)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float price = prices[i], strike = strikes[i], time = times[i], spread = volatility * sqrtf(time);
    const float up = (logf(price / strike) + (rate + 0.5f * volatility * volatility) * time) / spread, down = up - spread;
    const float present = strike * expf(-rate * time);
    const float call = price * normal_b(up) - present * normal_b(down);
    calls[i] = call;
    puts[i] = call + present - price;
}
"""


@pair
def quotes(n: int = 1 << 24, rate: float = 0.03, volatility: float = 0.25) -> Pair:
    prices, strikes = 40 * numbers(n) + 50, 40 * numbers(n, seed=1) + 50
    times = 2 * numbers(n, seed=2) + 1.25
    y, z = empty(2, n), empty(2, n)

    def wanted() -> Tensor:
        price, strike, time = prices.double(), strikes.double(), times.double()
        spread = volatility * time.sqrt()
        up = ((price / strike).log() + (rate + 0.5 * volatility**2) * time) / spread
        present = strike * (-rate * time).exp()
        call = price * torch.special.ndtr(up) - present * torch.special.ndtr(up - spread)
        return torch.stack([call, call + present - price])

    given = (prices, strikes, times)
    a = Version("quotes_a", (n // 256,), (256,), (*given, y[0], y[1], rate, volatility), lambda: y)
    b = Version("quotes_b", (n // 256,), (256,), (*given, z[0], z[1], rate, volatility), lambda: z)
    return Pair(QUOTES, (a, b), wanted, ("fp32", 58 * n, 20 * n), 1e-4)


# Sums over pages that belong together --------------------------------------------------------------------------------

PAGES = (
    HEAD
    + r"""
// A page has 128 floats; a warp sums the pages of a book.
extern "C" __global__ void __launch_bounds__(128)
    pages_a(const float4* __restrict__ pages, const int* __restrict__ firsts, const int* __restrict__ nexts,
            float* __restrict__ y, int length)
{
    const int lane = threadIdx.x % 32, book = blockIdx.x * 4 + threadIdx.x / 32;
    int page = firsts[book];
    float sum = 0.0f;
#pragma unroll 1
    for (int j = 0; j < length; ++j) {
        sum += add4(pages[(size_t)page * 32 + lane]);
        page = nexts[page];
    }
    sum = warp_sum(sum);
    if (lane == 0)
        y[book] = sum;
}

// table[book][length]
extern "C" __global__ void __launch_bounds__(128)
    pages_b(const float4* __restrict__ pages, const int* __restrict__ table, float* __restrict__ y, int length)
{
    const int lane = threadIdx.x % 32, book = blockIdx.x * 4 + threadIdx.x / 32;
    const int* const mine = table + (size_t)book * length;
    float sum = 0.0f;
#pragma unroll 1
    for (int j = 0; j < length; j += 8) {  // length is a multiple of 8
        float4 value[8];
#pragma unroll
        for (int e = 0; e < 8; ++e)
            value[e] = pages[(size_t)mine[j + e] * 32 + lane];
#pragma unroll
        for (int e = 0; e < 8; ++e)
            sum += add4(value[e]);
    }
    sum = warp_sum(sum);
    if (lane == 0)
        y[book] = sum;
}
"""
)


@pair
def pages(books: int = 16 * SMS, length: int = 256) -> Pair:
    n = books * length
    x, y, z = numbers(n, 128) + 0.5, empty(books), empty(books)
    table = torch.argsort(numbers(n, seed=1)).to(torch.int32).view(books, length)
    nexts = empty(n, dtype=torch.int32)
    nexts[table.long()] = table.roll(-1, 1)
    firsts = table[:, 0].contiguous()
    a = Version("pages_a", (books // 4,), (128,), (x, firsts, nexts, y, length), lambda: y)
    b = Version("pages_b", (books // 4,), (128,), (x, table, z, length), lambda: z)
    work = ("fp32", 128 * n, 512 * n + 4 * n + 4 * books)
    return Pair(PAGES, (a, b), lambda: x.double().sum(1)[table.long()].sum(1), work, 1e-4)


# The depth of 512 wells at the particles of many cells ---------------------------------------------------------------

WELLS = r"""
__device__ __forceinline__ void load(const float4* wells, float4 (&held)[512])
{
    for (int j = threadIdx.x; j < 512; j += 256)
        held[j] = wells[j];
    __syncthreads();
}

__device__ __forceinline__ float depth(const float4 (&held)[512], float4 p)
{
    float sum = 0.0f;
#pragma unroll 8
    for (int j = 0; j < 512; ++j) {
        const float4 q = held[j];
        const float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z;
        sum = fmaf(q.w, __expf(-fmaf(dx, dx, fmaf(dy, dy, dz * dz))), sum);
    }
    return sum;
}

// A cell has 8 particles.
extern "C" __global__ void __launch_bounds__(256)
    wells_a(const float4* __restrict__ particles, const float4* __restrict__ wells, float* __restrict__ y)
{
    __shared__ float4 held[512];
    load(wells, held);
    const int cell = blockIdx.x * 8 + threadIdx.x / 32, place = threadIdx.x % 32;
    if (place < 8)
        y[cell * 8 + place] = depth(held, particles[cell * 8 + place]);
}

extern "C" __global__ void __launch_bounds__(256)
    wells_b(const float4* __restrict__ particles, const float4* __restrict__ wells, float* __restrict__ y)
{
    __shared__ float4 held[512];
    load(wells, held);
    const int cell = blockIdx.x * 32 + threadIdx.x / 8, place = threadIdx.x % 8;
    y[cell * 8 + place] = depth(held, particles[cell * 8 + place]);
}
"""


@pair
def wells(cells: int = 1 << 16) -> Pair:
    n = 8 * cells
    particles, given = 3 * numbers(n, 4), numbers(512, 4, seed=1)
    given[:, 3] += 1.0
    y, z = empty(n), empty(n)

    def wanted() -> Tensor:
        parts = []
        for part in particles.split(65536):
            apart = sum((part[:, None, axis] - given[None, :, axis]).square() for axis in range(3))
            parts.append(((-apart).exp() * given[:, 3]).sum(1))
        return torch.cat(parts)

    a = Version("wells_a", (cells // 8,), (256,), (particles, given, y), lambda: y)
    b = Version("wells_b", (cells // 32,), (256,), (particles, given, z), lambda: z)
    return Pair(WELLS, (a, b), wanted, ("fp32", 11 * 512 * n, 20 * n + 16 * 512), 1e-4)


# Products of matrices of halves, summed in fp32 ----------------------------------------------------------------------

PRODUCT = r"""
__device__ __forceinline__ float wide(unsigned short half)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

// x[n][depth], y[m][depth], z[n][m]: a block has 128 x 128 of z.
extern "C" __global__ void __launch_bounds__(256)
    product_a(const uint4* __restrict__ x, const uint4* __restrict__ y, float* __restrict__ z, int m, int depth)
{
    __shared__ float4 left[16][33], right[16][33];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16, row = t / 2, part = t % 2;
    const int i = blockIdx.y * 128, j = blockIdx.x * 128;
    float sum[8][8] = {};
    for (int k = 0; k < depth; k += 16) {
        const uint4 p = x[((size_t)(i + row) * depth + k) / 8 + part], q = y[((size_t)(j + row) * depth + k) / 8 + part];
        const unsigned u[4] = {p.x, p.y, p.z, p.w}, v[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            ((float*)left[8 * part + e])[row] = wide((unsigned short)(u[e / 2] >> 16 * (e % 2)));
            ((float*)right[8 * part + e])[row] = wide((unsigned short)(v[e / 2] >> 16 * (e % 2)));
        }
        __syncthreads();
#pragma unroll
        for (int e = 0; e < 16; ++e) {
            const float4 a = left[e][ty], b = left[e][ty + 16], c = right[e][tx], d = right[e][tx + 16];
            const float rows[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
            const float cols[8] = {c.x, c.y, c.z, c.w, d.x, d.y, d.z, d.w};
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
        float* const line = z + (size_t)(i + 4 * ty + r % 4 + r / 4 * 64) * m + j + 4 * tx;
        *(float4*)line = make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
        *(float4*)(line + 64) = make_float4(sum[r][4], sum[r][5], sum[r][6], sum[r][7]);
    }
}

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Eight warps, each with 64 x 32 of the block's part. A row of a tile has 16 words and 4 of padding.
extern "C" __global__ void __launch_bounds__(256)
    product_b(const uint4* __restrict__ x, const uint4* __restrict__ y, float* __restrict__ z, int m, int depth)
{
    __shared__ uint4 tiles[2][128][5];
    const int t = threadIdx.x, lane = t % 32, group = lane / 4, word = lane % 4;
    const int i = blockIdx.y * 128, j = blockIdx.x * 128, row = t / 4, part = t % 4;
    const int down = t / 128 * 64, across = t / 32 % 4 * 32;
    const unsigned* const left = (const unsigned*)tiles[0];
    const unsigned* const right = (const unsigned*)tiles[1];
    const size_t pitch = depth / 8;
    const uint4* const from_x = x + (i + row) * pitch + part;
    const uint4* const from_y = y + (j + row) * pitch + part;
    float sum[4][4][4] = {};
    uint4 p = from_x[0], q = from_x[64 * pitch], u = from_y[0], v = from_y[64 * pitch];
    for (int k = 4; k <= depth / 8; k += 4) {
        __syncthreads();
        tiles[0][row][part] = p;
        tiles[0][row + 64][part] = q;
        tiles[1][row][part] = u;
        tiles[1][row + 64][part] = v;
        __syncthreads();
        if (k < depth / 8) {
            p = from_x[k];
            q = from_x[64 * pitch + k];
            u = from_y[k];
            v = from_y[64 * pitch + k];
        }
#pragma unroll
        for (int half = 0; half < 16; half += 8) {
            unsigned b[4][2];
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                const unsigned* const at = right + (across + 8 * c + group) * 20 + half + word;
                b[c][0] = at[0];
                b[c][1] = at[4];
            }
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const unsigned* const at = left + (down + 16 * r + group) * 20 + half + word;
                const unsigned a[4] = {at[0], at[8 * 20], at[4], at[8 * 20 + 4]};
#pragma unroll
                for (int c = 0; c < 4; ++c)
                    multiply(sum[r][c], a, b[c]);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            float* const at = z + (size_t)(i + down + 16 * r + group) * m + j + across + 8 * c + 2 * word;
            *(float2*)at = make_float2(sum[r][c][0], sum[r][c][1]);
            *(float2*)(at + 8 * (size_t)m) = make_float2(sum[r][c][2], sum[r][c][3]);
        }
}
"""


@pair
def product(n: int = 4096, m: int = 4096, depth: int = 2048) -> Pair:
    x, y = numbers(n, depth).half(), numbers(m, depth, seed=1).half()
    z, w = empty(n, m), empty(n, m)
    grid = (m // 128, n // 128)
    a = Version("product_a", grid, (256,), (x, y, z, m, depth), lambda: z)
    b = Version("product_b", grid, (256,), (x, y, w, m, depth), lambda: w)
    work = ("fp16", 2 * n * m * depth, 2 * depth * (n + m) + 4 * n * m)
    return Pair(PRODUCT, (a, b), lambda: x.double() @ y.double().t(), work, 1e-3, gemm=(n, m, depth))


# Signals smoothed by an exponential mean, side by side in memory -----------------------------------------------------

SMOOTH = r"""
// x[time][signal]
extern "C" __global__ void __launch_bounds__(32)
    smooth_a(const float* __restrict__ x, float* __restrict__ y, int times, int signals, float keep)
{
    const int signal = blockIdx.x * 32 + threadIdx.x;
    float mean = 0.0f;
    for (int time = 0; time < times; ++time) {
        const size_t i = (size_t)time * signals + signal;
        mean = fmaf(keep, mean, (1.0f - keep) * x[i]);
        y[i] = mean;
    }
}

// A warp takes one of 32 spans of time of 32 signals. `fade` is `keep` to the power of the times in a span.
extern "C" __global__ void __launch_bounds__(1024)
    smooth_b(const float* __restrict__ x, float* __restrict__ y, int times, int signals, float keep, float fade)
{
    __shared__ float ends[32][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, span = times / 32;
    const size_t from = (size_t)warp * span * signals + blockIdx.x * 32 + lane;
    float end = 0.0f;
#pragma unroll 8
    for (int time = 0; time < span; ++time)
        end = fmaf(keep, end, (1.0f - keep) * x[from + (size_t)time * signals]);
    ends[warp][lane] = end;
    __syncthreads();
    float mean = 0.0f;
    for (int before = 0; before < warp; ++before)
        mean = fmaf(fade, mean, ends[before][lane]);
#pragma unroll 8
    for (int time = 0; time < span; ++time) {
        const size_t i = from + (size_t)time * signals;
        mean = fmaf(keep, mean, (1.0f - keep) * x[i]);
        y[i] = mean;
    }
}
"""


@pair
def smooth(times: int = 8192, signals: int = 32 * SMS, keep: float = 0.96875) -> Pair:
    x, y, z = numbers(times, signals) + 0.5, empty(times, signals), empty(times, signals)

    def wanted() -> Tensor:
        result = torch.empty(times, signals, dtype=torch.float64, device=DEVICE)
        mean = torch.zeros(signals, dtype=torch.float64, device=DEVICE)
        for time in range(times):
            mean = keep * mean + (1 - keep) * x[time].double()
            result[time] = mean
        return result

    fade = keep ** (times // 32)
    a = Version("smooth_a", (signals // 32,), (32,), (x, y, times, signals, keep), lambda: y)
    b = Version("smooth_b", (signals // 32,), (1024,), (x, z, times, signals, keep, fade), lambda: z)
    return Pair(SMOOTH, (a, b), wanted, ("fp32", 3 * times * signals, 8 * times * signals), 1e-4)
