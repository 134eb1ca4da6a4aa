/* The kernels of `ridgeline run`: plain C that a compiler turns into SIMD code; each works on rows first .. last - 1. */
#include <stdint.h>
#include <string.h>

#define LANES 32 /* independent partial sums, so that a sum can be vectorised without reordering it behind one's back */

static inline float exponential(float x) {
    /* 2^(x log2 e), the fraction by a polynomial of degree 6; good to 2e-7 where no result under- or overflows */
    float t = x * 1.44269504088896341f;
    t = t < -126.0f ? -126.0f : t > 126.0f ? 126.0f : t;
    float whole = __builtin_rintf(t);
    float f = t - whole;
    float p = 1.540353039338161e-4f;
    p = p * f + 1.333355814642844e-3f;
    p = p * f + 9.618129107628477e-3f;
    p = p * f + 5.550410866482158e-2f;
    p = p * f + 2.402265069591007e-1f;
    p = p * f + 6.931471805599453e-1f;
    p = p * f + 1.0f;
    int32_t bits = ((int32_t)whole + 127) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

static float fold(const float *part) {
    float sum = 0;
    for (int lane = 0; lane < LANES; lane++) sum += part[lane];
    return sum;
}

void suite_exp(const float *restrict x, float *restrict y, int64_t n, int64_t reps) {
    for (int64_t rep = 0; rep < reps; rep++) {
        for (int64_t i = 0; i < n; i++) y[i] = exponential(x[i]);
        __asm__ volatile("" ::: "memory"); /* every repetition really writes */
    }
}

void suite_triad(double *restrict a, const double *restrict b, const double *restrict c, double s, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) a[i] = b[i] + s * c[i];
}

double suite_dot(const double *x, const double *y, int64_t first, int64_t last) {
    double part[LANES] = {0};
    int64_t i = first;
    for (; i + LANES <= last; i += LANES)
        for (int lane = 0; lane < LANES; lane++) part[lane] += x[i + lane] * y[i + lane];
    double sum = 0;
    for (int lane = 0; lane < LANES; lane++) sum += part[lane];
    for (; i < last; i++) sum += x[i] * y[i];
    return sum;
}

void suite_gemv(const float *restrict a, const float *restrict x, float *restrict y, int64_t columns, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; row++) {
        const float *line = a + row * columns;
        float part[LANES] = {0};
        int64_t i = 0;
        for (; i + LANES <= columns; i += LANES)
            for (int lane = 0; lane < LANES; lane++) part[lane] += line[i + lane] * x[i + lane];
        float sum = fold(part);
        for (; i < columns; i++) sum += line[i] * x[i];
        y[row] = sum;
    }
}

void suite_softmax(const float *restrict x, float *restrict y, int64_t columns, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; row++) {
        const float *in = x + row * columns;
        float *out = y + row * columns;
        float top[LANES];
        for (int lane = 0; lane < LANES; lane++) top[lane] = in[0];
        int64_t i = 0;
        for (; i + LANES <= columns; i += LANES)
            for (int lane = 0; lane < LANES; lane++) top[lane] = in[i + lane] > top[lane] ? in[i + lane] : top[lane];
        float most = top[0];
        for (int lane = 1; lane < LANES; lane++) most = top[lane] > most ? top[lane] : most;
        for (; i < columns; i++) most = in[i] > most ? in[i] : most;
        float part[LANES] = {0};
        for (i = 0; i + LANES <= columns; i += LANES)
            for (int lane = 0; lane < LANES; lane++) {
                float e = exponential(in[i + lane] - most);
                out[i + lane] = e;
                part[lane] += e;
            }
        float sum = fold(part);
        for (; i < columns; i++) sum += out[i] = exponential(in[i] - most);
        float scale = 1 / sum;
        for (i = 0; i < columns; i++) out[i] *= scale;
    }
}

void suite_layernorm(const float *restrict x, float *restrict y, const float *restrict gamma, const float *restrict beta, int64_t columns, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; row++) {
        const float *in = x + row * columns;
        float *out = y + row * columns;
        float part[LANES] = {0};
        int64_t i = 0;
        for (; i + LANES <= columns; i += LANES)
            for (int lane = 0; lane < LANES; lane++) part[lane] += in[i + lane];
        float mean = fold(part);
        for (; i < columns; i++) mean += in[i];
        mean /= columns;
        float square[LANES] = {0};
        for (i = 0; i + LANES <= columns; i += LANES)
            for (int lane = 0; lane < LANES; lane++) square[lane] += (in[i + lane] - mean) * (in[i + lane] - mean);
        float variance = fold(square);
        for (; i < columns; i++) variance += (in[i] - mean) * (in[i] - mean);
        float scale = 1 / __builtin_sqrtf(variance / columns + 1e-5f);
        for (i = 0; i < columns; i++) out[i] = (in[i] - mean) * scale * gamma[i] + beta[i];
    }
}

/* y = 3 x 3 weighted sum of x over inner rows first .. last - 1 of an image that carries a border of one pixel */
void suite_stencil(const float *restrict x, float *restrict y, const float *restrict w, int64_t width, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; row++) {
        const float *up = x + row * (width + 2), *in = up + width + 2, *down = in + width + 2;
        float *out = y + row * width;
        for (int64_t i = 0; i < width; i++)
            out[i] = w[0] * up[i] + w[1] * up[i + 1] + w[2] * up[i + 2] + w[3] * in[i] + w[4] * in[i + 1] + w[5] * in[i + 2] +
                     w[6] * down[i] + w[7] * down[i + 1] + w[8] * down[i + 2];
    }
}
