// Arithmetic and launch probes: chains of multiply-adds and special functions in registers, the empty kernel.
// Compiled at run time by NVRTC, so no headers are used.

typedef unsigned int u32;
typedef unsigned long long u64;

// Half precision is two values to a register, handled as bits so that no header is needed.
__device__ __forceinline__ double multiply_add(double x, double a, double b) { return fma(x, a, b); }
__device__ __forceinline__ float multiply_add(float x, float a, float b) { return fmaf(x, a, b); }
__device__ __forceinline__ u32 multiply_add(u32 x, u32 a, u32 b) {
    u32 r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(a), "r"(b));
    return r;
}
__device__ __forceinline__ double plus(double x, double y) { return x + y; }
__device__ __forceinline__ float plus(float x, float y) { return x + y; }
__device__ __forceinline__ u32 plus(u32 x, u32 y) {
    u32 r;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y));
    return r;
}

__device__ __forceinline__ u64 nanoseconds() {
    u64 t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

// Cycles and nanoseconds a block took: the clock it ran at, whatever else the launch cost.
struct Stopwatch {
    long long cycle;
    u64 time;
    __device__ Stopwatch() {
        cycle = clock64();
        time = nanoseconds();
    }
    __device__ void write(u64* pace) {
        if (threadIdx.x == 0) pace[2 * blockIdx.x] = clock64() - cycle, pace[2 * blockIdx.x + 1] = nanoseconds() - time;
    }
};

// CHAINS independent x = x a + b per thread, `steps` long (a multiple of 32). With a just above -1 the values swing
// between two normal numbers instead of settling, so the bits keep changing as they do in real work.
// Thread i starts from seeds[(i CHAINS + j) mod span] and adds b = seeds[(i + span/2) mod span]; a = *factor.
template <typename T, int CHAINS>
__global__ void multiply_adds(const T* seeds, u32 span, const T* factor, u32 steps, T* out, u64* pace) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    T x[CHAINS], a = *factor, b = seeds[(thread + span / 2) % span];
#pragma unroll
    for (int j = 0; j < CHAINS; ++j) x[j] = seeds[(thread * CHAINS + j) % span];
    Stopwatch watch;
    for (u32 step = 0; step < steps; step += 32)
#pragma unroll
        for (int i = 0; i < 32; ++i)
#pragma unroll
            for (int j = 0; j < CHAINS; ++j) x[j] = multiply_add(x[j], a, b);
    watch.write(pace);
    T sum = x[0];
#pragma unroll
    for (int j = 1; j < CHAINS; ++j) sum = plus(sum, x[j]);
    out[thread] = sum;
}

// x = 2^-x, which settles at 0.641186 from anywhere; and x = 1/sqrt(x), which settles at 1.
enum Special { EX2 = 0, RSQRT = 1 };

template <int WHICH, int CHAINS>
__global__ void specials(const float* seeds, u32 span, u32 steps, float* out, u64* pace) {
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    float x[CHAINS];
#pragma unroll
    for (int j = 0; j < CHAINS; ++j) x[j] = fabsf(seeds[(thread * CHAINS + j) % span]) + 0.01f;
    Stopwatch watch;
    for (u32 step = 0; step < steps; step += 32)
#pragma unroll
        for (int i = 0; i < 32; ++i)
#pragma unroll
            for (int j = 0; j < CHAINS; ++j) {
                if constexpr (WHICH == EX2)
                    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(x[j]) : "f"(-x[j]));
                else
                    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(x[j]) : "f"(x[j]));
            }
    watch.write(pace);
    float sum = 0;
#pragma unroll
    for (int j = 0; j < CHAINS; ++j) sum += x[j];
    out[thread] = sum / CHAINS;
}

extern "C" __global__ void nothing() {}

// Keeps the stream busy while the host fills its queue.
extern "C" __global__ void spin(u64 cycles) {
    long long start = clock64();
    while (clock64() - start < (long long)cycles) {
    }
}
