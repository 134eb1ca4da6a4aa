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
