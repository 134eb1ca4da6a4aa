// C = A B, square and row-major, n a multiple of 128: one product written four times, each undoing one fault of the one before.

// One thread per element; every multiply-add fetches both operands through the caches.
extern "C" __global__ void naive(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n)
{
    const int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k)
        sum += a[(size_t)row * n + k] * b[(size_t)k * n + col];
    c[(size_t)row * n + col] = sum;
}

// The same for bf16 operands, given as their 16 bits.
__device__ __forceinline__ float wide(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }

extern "C" __global__ void naive_bf16(const unsigned short* __restrict__ a, const unsigned short* __restrict__ b,
                                      unsigned short* __restrict__ c, int n)
{
    const int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k)
        sum += wide(a[(size_t)row * n + k]) * wide(b[(size_t)k * n + col]);
    const unsigned bits = __float_as_uint(sum);
    c[(size_t)row * n + col] = (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);  // nearest, ties to even
}

// A block loads tiles of 32 x 32 into shared memory once, and each of its threads uses them 32 times.
extern "C" __global__ void tiled(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n)
{
    __shared__ float left[32][32], right[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * 32 + y, col = blockIdx.x * 32 + x;
    float sum = 0.0f;
    for (int at = 0; at < n; at += 32) {
        left[y][x] = a[(size_t)row * n + at + x];
        right[y][x] = b[(size_t)(at + y) * n + col];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 32; ++k)
            sum += left[y][k] * right[k][x];
        __syncthreads();
    }
    c[(size_t)row * n + col] = sum;
}

// The two below: a block makes 128 x 128 elements, a thread 8 x 8 of them in registers, in four quarters of 4 x 4 so that
// a warp's 16-byte reads of shared memory meet all banks. The left tile is kept transposed, its rows padded.
constexpr int SIDE = 128, PADDED = SIDE + 4;

__device__ __forceinline__ void multiply(const float* left, const float* right, int x, int y, float (&sum)[8][8])
{
    float u[8], v[8];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        *(float4*)&u[4 * half] = *(const float4*)&left[64 * half + 4 * y];
        *(float4*)&v[4 * half] = *(const float4*)&right[64 * half + 4 * x];
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
            sum[i][j] += u[i] * v[j];
}

__device__ __forceinline__ void store(float* c, int n, int row, int col, int x, int y, const float (&sum)[8][8])
{
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half)
            *(float4*)&c[(size_t)(row + 64 * (i / 4) + 4 * y + i % 4) * n + col + 64 * half + 4 * x] =
                *(const float4*)&sum[i][4 * half];
}

// Load a slice, wait, compute, wait.
extern "C" __global__ void __launch_bounds__(256) blocked(const float* __restrict__ a, const float* __restrict__ b,
                                                          float* __restrict__ c, int n)
{
    constexpr int DEEP = 8;
    __shared__ __align__(16) float left[DEEP][PADDED], right[DEEP][SIDE];
    const int t = threadIdx.x, x = t % 16, y = t / 16;
    const int row = blockIdx.y * SIDE, col = blockIdx.x * SIDE;
    float sum[8][8] = {};
    for (int at = 0; at < n; at += DEEP) {
        const float4 u = *(const float4*)&a[(size_t)(row + t / 2) * n + at + 4 * (t % 2)];
        const float4 v = *(const float4*)&b[(size_t)(at + t / 32) * n + col + 4 * (t % 32)];
        const int k = 4 * (t % 2);
        left[k][t / 2] = u.x, left[k + 1][t / 2] = u.y, left[k + 2][t / 2] = u.z, left[k + 3][t / 2] = u.w;
        *(float4*)&right[t / 32][4 * (t % 32)] = v;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEEP; ++k)
            multiply(left[k], right[k], x, y, sum);
        __syncthreads();
    }
    store(c, n, row, col, x, y, sum);
}

// The next slice is fetched into registers while this one is computed, and lands in the other half of shared memory:
// one barrier per slice, and the latency of memory is behind the arithmetic.
extern "C" __global__ void __launch_bounds__(256, 2) pipelined(const float* __restrict__ a, const float* __restrict__ b,
                                                               float* __restrict__ c, int n)
{
    constexpr int DEEP = 16;
    __shared__ __align__(16) float left[2][DEEP][PADDED], right[2][DEEP][SIDE];
    const int t = threadIdx.x, x = t % 16, y = t / 16;
    const int row = blockIdx.y * SIDE, col = blockIdx.x * SIDE;
    const float* from_a = a + (size_t)(row + t / 4) * n + 4 * (t % 4);
    const float* from_b = b + (size_t)(t / 32) * n + col + 4 * (t % 32);
    float4 u[2], v[2];
    auto fetch = [&](int at) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            u[half] = *(const float4*)&from_a[at + (size_t)64 * half * n];
            v[half] = *(const float4*)&from_b[(size_t)(at + 8 * half) * n];
        }
    };
    auto keep = [&](int side) {
        const int k = 4 * (t % 4);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int i = t / 4 + 64 * half;
            left[side][k][i] = u[half].x, left[side][k + 1][i] = u[half].y;
            left[side][k + 2][i] = u[half].z, left[side][k + 3][i] = u[half].w;
            *(float4*)&right[side][t / 32 + 8 * half][4 * (t % 32)] = v[half];
        }
    };
    float sum[8][8] = {};
    fetch(0);
    keep(0);
    __syncthreads();
    int side = 0;
    for (int at = 0; at < n; at += DEEP) {
        const bool more = at + DEEP < n;
        if (more)
            fetch(at + DEEP);
#pragma unroll
        for (int k = 0; k < DEEP; ++k)
            multiply(left[side][k], right[side][k], x, y, sum);
        if (more) {
            keep(side ^ 1);
            __syncthreads();
        }
        side ^= 1;
    }
    store(c, n, row, col, x, y, sum);
}
