// Kernels with one planted fault each, paired with the same work without it.

// Uncoalesced: adjacent threads access addresses a row apart, so each uses 4 bytes of its own 32-byte sector.
extern "C" __global__ void copy_scattered(const float* __restrict__ x, float* __restrict__ y, int rows, int cols)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const size_t at = i % rows * cols + i / rows;
    y[at] = x[at];
}

extern "C" __global__ void copy_straight(const float4* __restrict__ x, float4* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i];
}

// Bank conflicts: a tile of 32 columns is read by columns, so all threads of a warp meet one bank; a 33rd column parts them.
template <int WIDTH>
__device__ __forceinline__ void transpose(const float* x, float* y, int side)
{
    __shared__ float tile[32][WIDTH];
    const int i = blockIdx.x * 32, j = blockIdx.y * 32;
    for (int row = threadIdx.y; row < 32; row += 8)
        tile[row][threadIdx.x] = x[(size_t)(j + row) * side + i + threadIdx.x];
    __syncthreads();
    for (int row = threadIdx.y; row < 32; row += 8)
        y[(size_t)(i + row) * side + j + threadIdx.x] = tile[threadIdx.x][row];
}

extern "C" __global__ void transpose_conflicting(const float* __restrict__ x, float* __restrict__ y, int side)
{
    transpose<32>(x, y, side);
}

extern "C" __global__ void transpose_padded(const float* __restrict__ x, float* __restrict__ y, int side)
{
    transpose<33>(x, y, side);
}

// One load at a time per thread. Launched with most of the shared memory for each block it has one block per multiprocessor.
extern "C" __global__ void scale(const float* __restrict__ x, float* __restrict__ y, float factor, size_t n)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
#pragma unroll 1
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        y[i] = factor * x[i];
}

// RMS norm of rows that lie side by side (x[column][row]): a thread holds the 128 values of its row until it knows their
// norm. With a limit of 32 registers they go to local memory and come back.
__device__ __forceinline__ void norm(const float* x, const float* gamma, float* y, size_t rows)
{
    constexpr int COLS = 128;
    const size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    float held[COLS], squares = 0.0f;
#pragma unroll
    for (int col = 0; col < COLS; ++col)
        held[col] = x[col * rows + row];
#pragma unroll
    for (int col = 0; col < COLS; ++col)
        squares += held[col] * held[col];
    const float scale = rsqrtf(squares / COLS + 1e-6f);
#pragma unroll
    for (int col = 0; col < COLS; ++col)
        y[col * rows + row] = held[col] * scale * gamma[col];
}

extern "C" __global__ void __launch_bounds__(128, 16)
    norm_spilling(const float* __restrict__ x, const float* __restrict__ gamma, float* __restrict__ y, size_t rows)
{
    norm(x, gamma, y, rows);
}

extern "C" __global__ void __launch_bounds__(128)
    norm_in_registers(const float* __restrict__ x, const float* __restrict__ gamma, float* __restrict__ y, size_t rows)
{
    norm(x, gamma, y, rows);
}

// Contended atomics: every thread adds to one address, so the adds queue at one L2 slice. The other version adds within a
// block first and leaves one atomic per block.
extern "C" __global__ void sum_by_atomics(const float* __restrict__ x, float* __restrict__ y)
{
    atomicAdd(y, x[(size_t)blockIdx.x * blockDim.x + threadIdx.x]);
}

__device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int lane = 16; lane; lane /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, lane);
    return value;
}

// The sum of a block of up to 1024 threads, known to its first thread.
__device__ __forceinline__ float block_sum(float value)
{
    __shared__ float parts[32];
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x >= 32)
        return 0.0f;
    return warp_sum(threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0.0f);
}

__device__ __forceinline__ float add4(float4 v) { return (v.x + v.y) + (v.z + v.w); }

extern "C" __global__ void sum_by_blocks(const float4* __restrict__ x, float* __restrict__ y, size_t n)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    float sum = 0.0f;
#pragma unroll 4
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        sum += add4(x[i]);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        atomicAdd(y, sum);
}

// A histogram of bytes, all blocks on one table in global memory; then a table per block in shared memory.
extern "C" __global__ void count_in_global(const unsigned* __restrict__ x, unsigned* __restrict__ bins, size_t n)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const unsigned four = x[i];
#pragma unroll
        for (int at = 0; at < 32; at += 8)
            atomicAdd(&bins[four >> at & 255u], 1u);
    }
}

extern "C" __global__ void count_in_shared(const unsigned* __restrict__ x, unsigned* __restrict__ bins, size_t n)
{
    __shared__ unsigned mine[8][256];  // a table per warp of 256 threads
    unsigned* const table = mine[threadIdx.x / 32];
    for (int i = threadIdx.x; i < 8 * 256; i += 256)
        (&mine[0][0])[i] = 0;
    __syncthreads();
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        const unsigned four = x[i];
#pragma unroll
        for (int at = 0; at < 32; at += 8)
            atomicAdd(&table[four >> at & 255u], 1u);
    }
    __syncthreads();
    unsigned sum = 0;
#pragma unroll
    for (int warp = 0; warp < 8; ++warp)
        sum += mine[warp][threadIdx.x];
    atomicAdd(&bins[threadIdx.x], sum);
}

// Slice imbalance: all threads look up eight factors in one 32-byte sector, past L1, so one L2 slice serves the device.
extern "C" __global__ void scale_by_hot_line(const float* __restrict__ x, const float* table, float* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i] * __ldcg(&table[i % 8]);
}

extern "C" __global__ void scale_by_shared(const float4* __restrict__ x, const float* table, float4* __restrict__ y)
{
    __shared__ float kept[8];
    if (threadIdx.x < 8)
        kept[threadIdx.x] = table[threadIdx.x];
    __syncthreads();
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const float4 v = x[i];
    const int at = i % 2 * 4;
    y[i] = make_float4(v.x * kept[at], v.y * kept[at + 1], v.z * kept[at + 2], v.w * kept[at + 3]);
}

// Tail wave: blocks that fill a multiprocessor each; with a few more blocks than multiprocessors most wait for the last.
__device__ __forceinline__ float iterate(float v, int times)
{
#pragma unroll 16
    for (int i = 0; i < times; ++i)
        v = fmaf(v, 0.75f, 0.125f);
    return v;
}

__device__ __forceinline__ float4 iterate4(float4 v, int times)
{
#pragma unroll 16
    for (int i = 0; i < times; ++i) {
        v.x = fmaf(v.x, 0.75f, 0.125f), v.y = fmaf(v.y, 0.75f, 0.125f);
        v.z = fmaf(v.z, 0.75f, 0.125f), v.w = fmaf(v.w, 0.75f, 0.125f);
    }
    return v;
}

extern "C" __global__ void __launch_bounds__(1024)
    iterate_shares(const float4* __restrict__ x, float4* __restrict__ y, size_t n, int times)
{
    const size_t share = (n + gridDim.x - 1) / gridDim.x, from = share * blockIdx.x;
    const size_t end = from + share < n ? from + share : n;
    for (size_t i = from + threadIdx.x; i < end; i += blockDim.x)
        y[i] = iterate4(x[i], times);
}

// Thin loads: a byte per thread and request, where 16 would do.
extern "C" __global__ void copy_bytes(const unsigned char* __restrict__ x, unsigned char* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i];
}

// Few bytes in flight: the next address depends on the value before, so a thread has 4 bytes on the way at most.
extern "C" __global__ void sum_dependent(const float* __restrict__ x, float* __restrict__ y, size_t n)
{
    const size_t t = (size_t)blockIdx.x * blockDim.x + threadIdx.x, step = (size_t)gridDim.x * blockDim.x;
    float sum = 0.0f;
    for (size_t i = t; i < n;) {
        const float value = x[i];
        sum += value;
        i += value > 1e30f ? n : step;
    }
    y[t] = sum;
}

extern "C" __global__ void sum_independent(const float* __restrict__ x, float* __restrict__ y, size_t n)
{
    const size_t t = (size_t)blockIdx.x * blockDim.x + threadIdx.x, step = (size_t)gridDim.x * blockDim.x;
    float sum = 0.0f;
    for (size_t i = t; i < n; i += 16 * step) {  // n is a multiple of 16 steps
        float value[16];
#pragma unroll
        for (int j = 0; j < 16; ++j)
            value[j] = x[i + j * step];
#pragma unroll
        for (int j = 0; j < 16; ++j)
            sum += value[j];
    }
    y[t] = sum;
}

// Divergence: four kinds of element, each with a loop of its own. Kinds that alternate within a warp take turns; kinds that
// alternate by 32 elements do not.
template <int RUN>
__device__ __forceinline__ void by_kind(const float* x, float* y)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    switch (i / RUN % 4) {
    case 0:
#pragma unroll 8
        for (int j = 0; j < 256; ++j)
            v = fmaf(v, 0.75f, 0.125f);
        break;
    case 1:
#pragma unroll 8
        for (int j = 0; j < 256; ++j)
            v = fmaf(v, v, -0.5f);
        break;
    case 2:
#pragma unroll 8
        for (int j = 0; j < 256; ++j)
            v = fmaf(v, -0.5f, v * v);
        break;
    default:
#pragma unroll 8
        for (int j = 0; j < 256; ++j)
            v = fminf(fmaf(v, 0.875f, 0.0625f), 0.25f);
    }
    y[i] = v;
}

extern "C" __global__ void kinds_mixed(const float* __restrict__ x, float* __restrict__ y) { by_kind<1>(x, y); }

extern "C" __global__ void kinds_grouped(const float* __restrict__ x, float* __restrict__ y) { by_kind<32>(x, y); }

// Redundant loads: a row is split over eight blocks, and each reads all of it for its norm before it writes its part.
extern "C" __global__ void __launch_bounds__(512)
    norm_by_parts(const float4* __restrict__ x, const float4* __restrict__ gamma, float4* __restrict__ y)
{
    constexpr int COLS = 1024;  // float4
    const float4* const row = x + (size_t)blockIdx.y * COLS;
    __shared__ float scale;
    float squares = 0.0f;
#pragma unroll
    for (int i = threadIdx.x; i < COLS; i += 512) {
        const float4 v = row[i];
        squares += add4(make_float4(v.x * v.x, v.y * v.y, v.z * v.z, v.w * v.w));
    }
    squares = block_sum(squares);
    if (threadIdx.x == 0)
        scale = rsqrtf(squares / (4 * COLS) + 1e-6f);
    __syncthreads();
    if (threadIdx.x < COLS / 8) {
        const int i = blockIdx.x * (COLS / 8) + threadIdx.x;
        const float4 v = row[i], g = gamma[i];
        y[(size_t)blockIdx.y * COLS + i] =
            make_float4(v.x * scale * g.x, v.y * scale * g.y, v.z * scale * g.z, v.w * scale * g.w);
    }
}

extern "C" __global__ void __launch_bounds__(512)
    norm_by_rows(const float4* __restrict__ x, const float4* __restrict__ gamma, float4* __restrict__ y)
{
    constexpr int COLS = 1024;
    const size_t first = (size_t)blockIdx.x * COLS + threadIdx.x;
    const float4 u = x[first], v = x[first + 512];
    __shared__ float scale;
    const float squares = block_sum(add4(make_float4(u.x * u.x, u.y * u.y, u.z * u.z, u.w * u.w)) +
                                    add4(make_float4(v.x * v.x, v.y * v.y, v.z * v.z, v.w * v.w)));
    if (threadIdx.x == 0)
        scale = rsqrtf(squares / (4 * COLS) + 1e-6f);
    __syncthreads();
    const float4 g = gamma[threadIdx.x], h = gamma[threadIdx.x + 512];
    y[first] = make_float4(u.x * scale * g.x, u.y * scale * g.y, u.z * scale * g.z, u.w * scale * g.w);
    y[first + 512] = make_float4(v.x * scale * h.x, v.y * scale * h.y, v.z * scale * h.z, v.w * scale * h.w);
}

// One field of records of 32 bytes: the memory is busy with the seven others. Then the field kept apart.
extern "C" __global__ void gather_field(const float* __restrict__ x, float* __restrict__ y)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[8 * i];
}

// No prefetch: load a slice, wait for all threads, compute, wait for all threads; memory and arithmetic take turns. Each
// thread works on the value that its mirror in the block loaded.
constexpr int WIDE = 1024, SLICE = 2 * WIDE;  // threads, float4

extern "C" __global__ void __launch_bounds__(1024)
    mirror_in_turns(const float4* __restrict__ x, float4* __restrict__ y, int slices, int times)
{
    extern __shared__ float4 slice[];
    const int t = threadIdx.x;
    for (int at = blockIdx.x; at < slices; at += gridDim.x) {
        const size_t from = (size_t)at * SLICE;
        slice[t] = x[from + t];
        slice[t + WIDE] = x[from + t + WIDE];
        __syncthreads();
        y[from + t] = iterate4(slice[SLICE - 1 - t], times);
        y[from + t + WIDE] = iterate4(slice[WIDE - 1 - t], times);
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(1024)
    mirror_prefetched(const float4* __restrict__ x, float4* __restrict__ y, int slices, int times)
{
    extern __shared__ float4 slice[];
    const int t = threadIdx.x;
    float4 u = x[(size_t)blockIdx.x * SLICE + t], v = x[(size_t)blockIdx.x * SLICE + t + WIDE];
    int side = 0;
    for (int at = blockIdx.x; at < slices; at += gridDim.x, side ^= SLICE) {
        const size_t from = (size_t)at * SLICE;
        slice[side + t] = u;
        slice[side + t + WIDE] = v;
        __syncthreads();
        if (at + gridDim.x < slices) {
            u = x[from + (size_t)gridDim.x * SLICE + t];
            v = x[from + (size_t)gridDim.x * SLICE + t + WIDE];
        }
        y[from + t] = iterate4(slice[side + SLICE - 1 - t], times);
        y[from + t + WIDE] = iterate4(slice[side + WIDE - 1 - t], times);
    }
}

// Index arithmetic: the two outer dimensions of four change places; every element divides its way to its place. The other
// version gets its place from the grid.
extern "C" __global__ void swap_by_division(const float* __restrict__ x, float* __restrict__ y, long long a, long long b,
                                            long long c, long long d)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long id = i % d, ic = i / d % c, ia = i / (d * c) % a, ib = i / (d * c * a) % b;
    y[i] = x[((ia * b + ib) * c + ic) * d + id];
}

extern "C" __global__ void swap_by_grid(const float4* __restrict__ x, float4* __restrict__ y, int a, int b, int inner)
{
    const size_t from = ((size_t)blockIdx.y * b + blockIdx.z) * inner, to = ((size_t)blockIdx.z * a + blockIdx.y) * inner;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[to + i] = x[from + i];
}

// Barriers: a tree over shared memory in which all 1024 threads meet after every step; then a warp per row without any.
extern "C" __global__ void __launch_bounds__(1024) row_sums_by_tree(const float* __restrict__ x, float* __restrict__ y)
{
    __shared__ float parts[1024];
    parts[threadIdx.x] = x[(size_t)blockIdx.x * 1024 + threadIdx.x];
    __syncthreads();
#pragma unroll 1
    for (int half = 512; half; half /= 2) {
        if (threadIdx.x < half)
            parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        y[blockIdx.x] = parts[0];
}

extern "C" __global__ void row_sums_by_warp(const float4* __restrict__ x, float* __restrict__ y)
{
    const size_t row = (size_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    float4 v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i)
        v[i] = x[row * 256 + i * 32 + threadIdx.x % 32];
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i)
        sum += add4(v[i]);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        y[row] = sum;
}

// Few blocks: a block per row, of which there are 16. With several blocks per row every multiprocessor has work.
extern "C" __global__ void __launch_bounds__(1024)
    long_row_sums(const float4* __restrict__ x, float* __restrict__ y, size_t cols)
{
    const float4* const row = x + (size_t)blockIdx.y * cols;
    float sum = 0.0f;
#pragma unroll 4
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < cols; i += (size_t)gridDim.x * blockDim.x)
        sum += add4(row[i]);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        atomicAdd(&y[blockIdx.y], sum);
}
