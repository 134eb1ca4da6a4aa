// Memory probes: streams, cache passes, pointer chases. Compiled at run time by NVRTC, so no headers are used.
//
// Reads add every 32-bit word modulo 2^32 whatever the order, so their answer is known exactly. Loads and stores
// are volatile assembly: the compiler may neither drop them nor move them from one pass to another.

typedef unsigned int u32;
typedef unsigned long long u64;

enum Path { CACHED = 0, STREAMED = 1, L2_ONLY = 2, WIDE = 3 };

template <int PATH>
__device__ __forceinline__ uint4 load(const uint4* at) {
    uint4 v;
    if constexpr (PATH == CACHED)
        asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at));
    else if constexpr (PATH == STREAMED)
        asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at));
    else if constexpr (PATH == L2_ONLY)
        asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at));
    else
        asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at));
    return v;
}

template <int PATH>
__device__ __forceinline__ void store(uint4* at, uint4 v) {
    if constexpr (PATH == CACHED)
        asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
    else
        asm volatile("st.global.cs.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

// One add per warp, spread over `sums` and not waited for: the answer must not cost the probe a tail.
__device__ __forceinline__ void keep(u32 sum, u32* sums, u32 mask) {
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    u32 warps = blockDim.x / 32, warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) atomicAdd(sums + ((blockIdx.x * warps + warp) & mask), sum);
}

// The set is `tiles` tiles of blockDim x UNROLL vectors of 16 B; blocks take tiles in turn.
template <int UNROLL, int PATH>
__global__ void read(const uint4* source, u64 tiles, u32 passes, u32* sums, u32 mask) {
    u32 a = 0, b = 0, c = 0, d = 0;
    for (u32 pass = 0; pass < passes; ++pass)
        for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            const uint4* at = source + tile * blockDim.x * UNROLL + threadIdx.x;
            uint4 v[UNROLL];
#pragma unroll
            for (int i = 0; i < UNROLL; ++i) v[i] = load<PATH>(at + i * blockDim.x);
#pragma unroll
            for (int i = 0; i < UNROLL; ++i) a += v[i].x, b += v[i].y, c += v[i].z, d += v[i].w;
        }
    keep(a + b + c + d, sums, mask);
}

// Every vector written is table[place % span]; span divides blockDim, so a thread always writes the same one.
template <int UNROLL, int PATH>
__global__ void write(uint4* target, u64 tiles, const uint4* table, u32 span) {
    uint4 v = table[threadIdx.x % span];
    for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        uint4* at = target + tile * blockDim.x * UNROLL + threadIdx.x;
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) store<PATH>(at + i * blockDim.x, v);
    }
}

template <int UNROLL, int PATH>
__global__ void copy(uint4* target, const uint4* source, u64 tiles) {
    for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        u64 first = tile * blockDim.x * UNROLL + threadIdx.x;
        uint4 v[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) v[i] = load<PATH>(source + first + i * blockDim.x);
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) store<PATH>(target + first + i * blockDim.x, v[i]);
    }
}

__device__ __forceinline__ u32 axpy(float s, u32 b, u32 c) {
    return __float_as_uint(fmaf(s, __uint_as_float(c), __uint_as_float(b)));
}

// a = b + s c in fp32.
template <int UNROLL, int PATH>
__global__ void triad(uint4* a, const uint4* b, const uint4* c, float s, u64 tiles) {
    for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        u64 first = tile * blockDim.x * UNROLL + threadIdx.x;
        uint4 v[UNROLL], w[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            v[i] = load<PATH>(b + first + i * blockDim.x);
            w[i] = load<PATH>(c + first + i * blockDim.x);
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            uint4 r = {axpy(s, v[i].x, w[i].x), axpy(s, v[i].y, w[i].y), axpy(s, v[i].z, w[i].z), axpy(s, v[i].w, w[i].w)};
            store<PATH>(a + first + i * blockDim.x, r);
        }
    }
}

// Each block passes over a window of its own, small enough to stay in the L1 of its SM. A pass reads UNROLL x THREADS
// vectors and the next one moves on by as many, round the window (a power of two in bytes): the assembler takes a load
// out of a loop when its address stays the same, volatile or not.
template <int THREADS, int UNROLL>
__global__ void read_l1(const char* source, u32 window, u32 passes, u32* sums, u32 mask) {
    const char* from = source + (u64)blockIdx.x * window;
    u32 at = threadIdx.x * 16, a = 0, b = 0, c = 0, d = 0;
    for (u32 pass = 0; pass < passes; ++pass) {
        uint4 v[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) v[i] = load<CACHED>((const uint4*)(from + at) + i * THREADS);
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) a += v[i].x, b += v[i].y, c += v[i].z, d += v[i].w;
        at = (at + UNROLL * THREADS * 16) & (window - 1);
    }
    keep(a + b + c + d, sums, mask);
}

// The same from shared memory, of which a block takes `window` bytes.
template <int THREADS, int UNROLL>
__global__ void read_shared(const char* source, u32 window, u32 passes, u32* sums, u32 mask) {
    extern __shared__ uint4 held[];
    const uint4* from = (const uint4*)(source + (u64)blockIdx.x * window);
    for (u32 i = threadIdx.x; i < window / 16; i += THREADS) held[i] = from[i];
    __syncthreads();
    u32 base = (u32)__cvta_generic_to_shared(held);
    u32 at = threadIdx.x * 16, a = 0, b = 0, c = 0, d = 0;
    for (u32 pass = 0; pass < passes; ++pass) {
        uint4 v[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i)
            asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                         : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w) : "r"(base + at + i * THREADS * 16));
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) a += v[i].x, b += v[i].y, c += v[i].z, d += v[i].w;
        at = (at + UNROLL * THREADS * 16) & (window - 1);
    }
    keep(a + b + c + d, sums, mask);
}

// -- setting up and checking ------------------------------------------------------------------------------------

__device__ __forceinline__ u64 mixed(u64 x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// Standard normal fp32 by Box and Muller from a counter: the same data on every device, whatever the grid.
extern "C" __global__ void fill_normal(float2* target, u64 pairs, u64 seed) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < pairs; i += (u64)gridDim.x * blockDim.x) {
        u64 bits = mixed(i * 0x9e3779b97f4a7c15ull + seed);
        float u = ((u32)(bits >> 40) + 1) * (1.0f / 16777217.0f), v = (u32)(bits & 0xffffff) * (1.0f / 16777216.0f);
        float radius = sqrtf(-2.0f * __logf(u)), angle = 6.2831853f * v;
        target[i] = make_float2(radius * __cosf(angle), radius * __sinf(angle));
    }
}

// Sum of the 32-bit words of each MiB, one block per MiB, written plainly so that it can judge the probes.
extern "C" __global__ void checksums(const u32* source, u32* sums) {
    __shared__ u32 part[256];
    const u32* at = source + (u64)blockIdx.x * 262144;
    u32 sum = 0;
    for (int i = threadIdx.x; i < 262144; i += 256) sum += at[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 256; ++i) sum += part[i];
        sums[blockIdx.x] = sum;
    }
}

// -- latency ----------------------------------------------------------------------------------------------------

// Node i, `stride` bytes apart, holds the address of node next[i].
extern "C" __global__ void link(u64 base, u64 stride, const u32* next, u64 nodes) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < nodes; i += (u64)gridDim.x * blockDim.x)
        *(u64*)(base + i * stride) = base + next[i] * stride;
}

// One thread follows the addresses; state[0] is where it stands, state[1] the cycles it took.
template <int PATH>
__global__ void chase(u64* state, u64 steps) {
    u64 at = state[0];
    long long start = clock64();
    for (u64 step = 0; step < steps; step += 32)
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            if constexpr (PATH == CACHED)
                asm volatile("ld.global.u64 %0, [%1];" : "=l"(at) : "l"(at));
            else
                asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(at) : "l"(at));
        }
    state[1] = clock64() - start;
    state[0] = at;
}

extern "C" __global__ void chase_shared(u64* state, u64 steps, const u32* next, u32 nodes) {
    __shared__ u32 held[4096];
    u32 base = (u32)__cvta_generic_to_shared(held);
    for (u32 i = 0; i < nodes; ++i) held[i] = base + 4 * next[i];
    u32 at = base + 4 * (u32)state[0];
    long long start = clock64();
    for (u64 step = 0; step < steps; step += 32)
#pragma unroll
        for (int i = 0; i < 32; ++i) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(at) : "r"(at));
    state[1] = clock64() - start;
    state[0] = (at - base) / 4;
}
