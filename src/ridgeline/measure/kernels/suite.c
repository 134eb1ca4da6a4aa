/* The kernels of `ridgeline run`, each over rows first .. last - 1: explicit vectors, several sums in flight, prefetch. */
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define WIDTH 64
#elif defined(__AVX__)
#define WIDTH 32
#else
#define WIDTH 16
#endif
#define SUMS 8      /* independent partial sums: enough for the latency of an addition on two units */
#define AHEAD 1024  /* bytes that loads from memory are prefetched ahead */
#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(WIDTH)));
typedef double wide __attribute__((vector_size(WIDTH)));
typedef int32_t bits __attribute__((vector_size(WIDTH)));
enum { LANES = WIDTH / sizeof(float), WIDE_LANES = WIDTH / sizeof(double) };

INLINE vec load(const float *at) { vec v; memcpy(&v, at, sizeof v); return v; }
INLINE wide load_wide(const double *at) { wide v; memcpy(&v, at, sizeof v); return v; }
INLINE void store(float *at, vec v) { memcpy(at, &v, sizeof v); }
INLINE vec all(float x) { return x - (vec){0}; }
INLINE void ahead(const void *at) { __builtin_prefetch((const char *)at + AHEAD); }

/* Stores that do not fetch the line first (write-allocate); at least aligned to WIDTH. Arm cores detect such streams. */
INLINE void stream(float *at, vec v) {
#if defined(__AVX512F__)
    _mm512_stream_ps(at, (__m512)v);
#elif defined(__AVX__)
    _mm256_stream_ps(at, (__m256)v);
#elif defined(__x86_64__)
    _mm_stream_ps(at, (__m128)v);
#else
    store(at, v);
#endif
}

INLINE void stream_wide(double *at, wide v) {
#if defined(__AVX512F__)
    _mm512_stream_pd(at, (__m512d)v);
#elif defined(__AVX__)
    _mm256_stream_pd(at, (__m256d)v);
#elif defined(__x86_64__)
    _mm_stream_pd(at, (__m128d)v);
#else
    memcpy(at, &v, sizeof v);
#endif
}

INLINE void fence(void) {
#if defined(__x86_64__)
    _mm_sfence(); /* streaming stores are complete when the kernel returns */
#endif
}

INLINE vec larger(vec a, vec b) {
    bits first = a > b;
    return (vec)((first & (bits)a) | (~first & (bits)b));
}

INLINE float total(vec v) {
    float sum = 0;
    for (int lane = 0; lane < LANES; lane++) sum += v[lane];
    return sum;
}

INLINE float fold(const vec *part) {
    return total(((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7])));
}

/* 2^(x log2 e), the fraction by a polynomial of degree 6; good to 2e-7 for x below 87, and 0 where a result would underflow */
INLINE vec exponential(vec x) {
    const vec magic = all(12582912.0f); /* adding 1.5 * 2^23 leaves the nearest integer in the low bits */
    vec t = larger(x * 1.44269504088896341f, all(-126.0f));
    vec shifted = t + magic, f = t - (shifted - magic);
    vec p = all(1.540353039338161e-4f);
    p = p * f + 1.333355814642844e-3f;
    p = p * f + 9.618129107628477e-3f;
    p = p * f + 5.550410866482158e-2f;
    p = p * f + 2.402265069591007e-1f;
    p = p * f + 6.931471805599453e-1f;
    p = p * f + 1.0f;
    return p * (vec)(((bits)shifted << 23) + (127 << 23));
}

/* The rate of exp alone, on data in the nearest cache; n is a multiple of 4 vectors. */
void suite_exp(const float *restrict x, float *restrict y, int64_t n, int64_t reps) {
    for (int64_t rep = 0; rep < reps; rep++) {
        for (int64_t i = 0; i < n; i += 4 * LANES)
            for (int k = 0; k < 4; k++) store(y + i + k * LANES, exponential(load(x + i + k * LANES)));
        __asm__ volatile("" ::: "memory"); /* every repetition really writes */
    }
}

/* first and last are multiples of 64 elements, columns of all rows below multiples of SUMS vectors */
void suite_triad(double *restrict a, const double *restrict b, const double *restrict c, double s, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i += SUMS * WIDE_LANES) {
        for (int k = 0; k < SUMS * WIDTH; k += 64) ahead((const char *)(b + i) + k), ahead((const char *)(c + i) + k);
        for (int k = 0; k < SUMS; k++) {
            int64_t at = i + k * WIDE_LANES;
            stream_wide(a + at, load_wide(b + at) + s * load_wide(c + at));
        }
    }
    fence();
}

double suite_dot(const double *x, const double *y, int64_t first, int64_t last) {
    wide part[SUMS] = {{0}};
    for (int64_t i = first; i < last; i += SUMS * WIDE_LANES) {
        for (int k = 0; k < SUMS * WIDTH; k += 64) ahead((const char *)(x + i) + k), ahead((const char *)(y + i) + k);
        for (int k = 0; k < SUMS; k++) part[k] += load_wide(x + i + k * WIDE_LANES) * load_wide(y + i + k * WIDE_LANES);
    }
    double sum = 0;
    for (int k = 0; k < SUMS; k++)
        for (int lane = 0; lane < WIDE_LANES; lane++) sum += part[k][lane];
    return sum;
}

void suite_gemv(const float *restrict a, const float *restrict x, float *restrict y, int64_t columns, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; row++) {
        const float *line = a + row * columns;
        vec part[SUMS] = {{0}};
        for (int64_t i = 0; i < columns; i += SUMS * LANES) {
            for (int k = 0; k < SUMS * WIDTH; k += 64) ahead((const char *)(line + i) + k);
            for (int k = 0; k < SUMS; k++) part[k] += load(line + i + k * LANES) * load(x + i + k * LANES);
        }
        y[row] = fold(part);
    }
}

void suite_softmax(const float *restrict x, float *restrict y, int64_t columns, int64_t first, int64_t last) {
    float kept[columns] __attribute__((aligned(64))); /* a row between its passes: in the nearest caches */
    for (int64_t row = first; row < last; row++) {
        const float *in = x + row * columns;
        float *out = y + row * columns;
        vec top[SUMS];
        for (int k = 0; k < SUMS; k++) top[k] = load(in + k * LANES);
        for (int64_t i = 0; i < columns; i += SUMS * LANES)
            for (int k = 0; k < SUMS; k++) top[k] = larger(top[k], load(in + i + k * LANES));
        for (int k = 1; k < SUMS; k++) top[0] = larger(top[0], top[k]);
        float most = top[0][0];
        for (int lane = 1; lane < LANES; lane++) most = top[0][lane] > most ? top[0][lane] : most;
        vec part[SUMS] = {{0}}; /* four of them are used: more would not leave registers for the polynomial */
        for (int64_t i = 0; i < columns; i += 4 * LANES) {
            for (int k = 0; k < 4 * LANES; k += 16) __builtin_prefetch(in + columns + i + k); /* the next row */
            for (int k = 0; k < 4; k++) {
                vec e = exponential(load(in + i + k * LANES) - most);
                store(kept + i + k * LANES, e);
                part[k] += e;
            }
        }
        float scale = 1 / fold(part);
        for (int64_t i = 0; i < columns; i += LANES) stream(out + i, load(kept + i) * scale);
    }
    fence();
}

void suite_layernorm(const float *restrict x, float *restrict y, const float *restrict gamma, const float *restrict beta, int64_t columns, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; row++) {
        const float *in = x + row * columns;
        float *out = y + row * columns;
        float origin = in[0]; /* sums of differences from any value of the row do not cancel as sums of squares do */
        vec part[SUMS] = {{0}}, square[SUMS] = {{0}};
        for (int64_t i = 0; i < columns; i += SUMS * LANES)
            for (int k = 0; k < SUMS; k++) {
                vec d = load(in + i + k * LANES) - origin;
                part[k] += d;
                square[k] += d * d;
            }
        float shift = fold(part) / columns, variance = fold(square) / columns - shift * shift;
        float scale = 1 / __builtin_sqrtf(variance + 1e-5f), offset = -(origin + shift) * scale;
        for (int64_t i = 0; i < columns; i += SUMS * LANES) {
            for (int k = 0; k < SUMS * LANES; k += 16) __builtin_prefetch(in + columns + i + k); /* the next row */
            for (int k = 0; k < SUMS; k++) {
                int64_t at = i + k * LANES;
                stream(out + at, (load(in + at) * scale + offset) * load(gamma + at) + load(beta + at));
            }
        }
    }
    fence();
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-schedule-insns") /* which would load all of a block first, and run out of registers */
#endif

/* y = 3 x 3 weighted sum of x over inner rows first .. last - 1 of an image that carries a border of one pixel; `stride`
   floats from row to row of x. Four rows at a time, so that a loaded vector serves up to three of them; width is a multiple of
   two vectors. */
INLINE void stencil_rows(const float *restrict x, float *restrict y, const float *restrict w, int64_t stride, int64_t width, int rows) {
    vec tap[9];
    for (int k = 0; k < 9; k++) tap[k] = all(w[k]);
    for (int64_t i = 0; i < width; i += 2 * LANES) { /* two vectors of each row: eight sums in flight */
        vec sum[8] = {{0}};
        _Pragma("GCC unroll 6") for (int line = 0; line < rows + 2; line++)
            _Pragma("GCC unroll 3") for (int k = 0; k < 3; k++) {
                vec left = load(x + line * stride + i + k), right = load(x + line * stride + i + LANES + k);
                _Pragma("GCC unroll 4") for (int row = 0; row < rows; row++)
                    if (line - row >= 0 && line - row < 3) {
                        sum[2 * row] += tap[3 * (line - row) + k] * left;
                        sum[2 * row + 1] += tap[3 * (line - row) + k] * right;
                    }
            }
        _Pragma("GCC unroll 4") for (int row = 0; row < rows; row++) {
            stream(y + row * width + i, sum[2 * row]);
            stream(y + row * width + i + LANES, sum[2 * row + 1]);
        }
    }
}

void suite_stencil(const float *restrict x, float *restrict y, const float *restrict w, int64_t stride, int64_t width, int64_t first, int64_t last) {
    int64_t row = first;
    for (; row + 4 <= last; row += 4) stencil_rows(x + row * stride, y + row * width, w, stride, width, 4);
    for (; row < last; row++) stencil_rows(x + row * stride, y + row * width, w, stride, width, 1);
    fence();
}
