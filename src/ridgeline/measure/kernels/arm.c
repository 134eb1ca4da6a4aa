/* Probe kernels for 64-bit Arm: NEON always, SVE, fp16, bf16 and int8 matrix where this CPU was compiled for. */
#include "probe.h"
#if defined(__aarch64__)

#define CLOBBER                                                                                                       \
    "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",     \
        "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",      \
        "v30", "v31"

void spin_hint(void) { __asm__ volatile("yield"); }
int may_use_tiles(void) { return 0; }

uint64_t dependent_adds(uint64_t count) {
    uint64_t value = 1, step = 3;
#define ADD1 "add %[v], %[v], %[s]\n\t"
#define ADD16 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1
    __asm__ volatile("1:\n\t" ADD16 ADD16 ADD16 ADD16 "subs %[n], %[n], #1\n\tb.ne 1b\n\t"
                     : [v] "+r"(value), [n] "+r"(count)
                     : [s] "r"(step)
                     : "cc");
    return value;
}

/* -- streams: pairs of 16-byte registers, 256 bytes of each array per turn ------------------------------------- */

#define LD(r0, r1, p, o) "ldp q" #r0 ", q" #r1 ", [%[" #p "], #" #o "]\n\t"
#define ST(r0, r1, o) "stp q" #r0 ", q" #r1 ", [%[pd], #" #o "]\n\t"
#define SN(r0, r1, o) "stnp q" #r0 ", q" #r1 ", [%[pd], #" #o "]\n\t"

#define STREAM(NAME, SETUP, BODY, FORWARD)                                                                             \
    static void NAME(struct args *g) {                                                                                 \
        const char *pa, *pb, *pc;                                                                                      \
        char *pd;                                                                                                      \
        uint64_t left, reps = g->reps;                                                                                 \
        __asm__ volatile(SETUP ".p2align 6\n"                                                                          \
                               "1:\n\tmov %[pa], %[a]\n\tmov %[pb], %[b]\n\tmov %[pc], %[c]\n\tmov %[pd], %[d]\n\t"    \
                               "mov %[left], %[bytes]\n\t.p2align 6\n"                                                 \
                               "2:\n\t" BODY FORWARD "subs %[left], %[left], #256\n\tb.ne 2b\n\t"                      \
                               "subs %[reps], %[reps], #1\n\tb.ne 1b\n\t"                                              \
                               "add v16.2d, v16.2d, v17.2d\n\tadd v18.2d, v18.2d, v19.2d\n\t"                          \
                               "add v20.2d, v20.2d, v21.2d\n\tadd v22.2d, v22.2d, v23.2d\n\t"                          \
                               "add v16.2d, v16.2d, v18.2d\n\tadd v20.2d, v20.2d, v22.2d\n\t"                          \
                               "add v16.2d, v16.2d, v20.2d\n\taddp d16, v16.2d\n\tstr d16, [%[sum]]\n\t"               \
                         : [pa] "=&r"(pa), [pb] "=&r"(pb), [pc] "=&r"(pc), [pd] "=&r"(pd), [left] "=&r"(left),         \
                           [reps] "+r"(reps)                                                                           \
                         : [a] "r"(g->a), [b] "r"(g->b), [c] "r"(g->c), [d] "r"(g->d), [bytes] "r"(g->bytes),          \
                           [s] "r"(&g->s), [sum] "r"(&g->sum)                                                          \
                         : CLOBBER);                                                                                   \
    }

#define ZERO(i) "movi v" #i ".2d, #0\n\t"
#define CLEAR ZERO(16) ZERO(17) ZERO(18) ZERO(19) ZERO(20) ZERO(21) ZERO(22) ZERO(23)
#define SPREAD "ld1r {v31.2d}, [%[s]]\n\t"
#define FWD(p) "add %[p" #p "], %[p" #p "], #256\n\t"

/* Each kernel twice: as it is, and with the lines of the next turn asked for ahead of time, which the caches beyond the
   second one reward on some cores. */
#define AHEAD(p) "prfm pldl1keep, [%[p" #p "], #256]\n\tprfm pldl1keep, [%[p" #p "], #320]\n\tprfm pldl1keep, [%[p" #p "], #384]\n\tprfm pldl1keep, [%[p" #p "], #448]\n\t"
#define BOTH(NAME, SETUP, FETCH, BODY, FORWARD)                                                                        \
    STREAM(NAME##_neon, CLEAR SETUP, BODY, FORWARD)                                                                    \
    STREAM(NAME##_ahead, CLEAR SETUP, FETCH BODY, FORWARD)

/* read: 64-bit integers are added up, because their sum is exact in any order and the adder is never the limit */
#define ACC(i, r) "add v" #i ".2d, v" #i ".2d, v" #r ".2d\n\t"
#define READ_LOW(o0, o1) LD(0, 1, pa, o0) ACC(16, 0) ACC(17, 1) LD(2, 3, pa, o1) ACC(18, 2) ACC(19, 3)
#define READ_HIGH(o0, o1) LD(4, 5, pa, o0) ACC(20, 4) ACC(21, 5) LD(6, 7, pa, o1) ACC(22, 6) ACC(23, 7)
BOTH(read, "", AHEAD(a), READ_LOW(0, 32) READ_HIGH(64, 96) READ_LOW(128, 160) READ_HIGH(192, 224), FWD(a))

#define PAIRS(M) M(0, 1, 0) M(2, 3, 32) M(4, 5, 64) M(6, 7, 96) M(0, 1, 128) M(2, 3, 160) M(4, 5, 192) M(6, 7, 224)
#define TWO(op, x, y, u, v) op " v" #x ".2d, " u "\n\t" op " v" #y ".2d, " v "\n\t"

#define WRITE(x, y, o) ST(31, 31, o)
STREAM(write_neon, CLEAR SPREAD, PAIRS(WRITE), FWD(d))
#define WRITE_NT(x, y, o) SN(31, 31, o)
STREAM(write_nt_neon, CLEAR SPREAD, PAIRS(WRITE_NT), FWD(d))
#define COPY(x, y, o) LD(x, y, pa, o) ST(x, y, o)
BOTH(copy, "", AHEAD(a), PAIRS(COPY), FWD(a) FWD(d))
#define COPY_NT(x, y, o) LD(x, y, pa, o) SN(x, y, o)
BOTH(copy_nt, "", AHEAD(a), PAIRS(COPY_NT), FWD(a) FWD(d))
#define SCALE(x, y, o) LD(x, y, pa, o) TWO("fmul", x, y, "v" #x ".2d, v31.2d", "v" #y ".2d, v31.2d") ST(x, y, o)
BOTH(scale, SPREAD, AHEAD(a), PAIRS(SCALE), FWD(a) FWD(d))
#define SUM(x, y, o)                                                                                                   \
    LD(x, y, pa, o) LD(24, 25, pb, o) TWO("fadd", x, y, "v" #x ".2d, v24.2d", "v" #y ".2d, v25.2d") ST(x, y, o)
BOTH(add, "", AHEAD(a) AHEAD(b), PAIRS(SUM), FWD(a) FWD(b) FWD(d))
#define TRIADS(x, y, o) LD(x, y, pa, o) LD(24, 25, pb, o) TWO("fmla", x, y, "v24.2d, v31.2d", "v25.2d, v31.2d")
#define TRIAD(x, y, o) TRIADS(x, y, o) ST(x, y, o)
BOTH(triad, SPREAD, AHEAD(a) AHEAD(b), PAIRS(TRIAD), FWD(a) FWD(b) FWD(d))
#define TRIAD_NT(x, y, o) TRIADS(x, y, o) SN(x, y, o)
BOTH(triad_nt, SPREAD, AHEAD(a) AHEAD(b), PAIRS(TRIAD_NT), FWD(a) FWD(b) FWD(d))
#define SCHOENAUERS(x, y, o)                                                                                           \
    LD(x, y, pa, o) LD(24, 25, pb, o) LD(26, 27, pc, o) TWO("fmla", x, y, "v24.2d, v26.2d", "v25.2d, v27.2d")
#define SCHOENAUER(x, y, o) SCHOENAUERS(x, y, o) ST(x, y, o)
BOTH(schoenauer, "", AHEAD(a) AHEAD(b) AHEAD(c), PAIRS(SCHOENAUER), FWD(a) FWD(b) FWD(c) FWD(d))
#define SCHOENAUER_NT(x, y, o) SCHOENAUERS(x, y, o) SN(x, y, o)
BOTH(schoenauer_nt, "", AHEAD(a) AHEAD(b) AHEAD(c), PAIRS(SCHOENAUER_NT), FWD(a) FWD(b) FWD(c) FWD(d))

/* -- arithmetic: chains of multiply-adds, two up and two down again, so that the answer is exact in any format -- */

#define FMA(NAME, LIST, UP, DOWN)                                                                                      \
    static void NAME(struct args *g) {                                                                                 \
        uint64_t reps = g->reps;                                                                                       \
        char *out = g->out;                                                                                            \
        __asm__ volatile(LIST(ZERO) "ldr q30, [%[x]]\n\tldr q31, [%[y]]\n\tldr q29, [%[m]]\n\t.p2align 6\n"            \
                                    "1:\n\t" LIST(UP) LIST(UP) LIST(DOWN)                                              \
                                        LIST(DOWN) "subs %[reps], %[reps], #1\n\tb.ne 1b\n\t" LIST(UP) LIST(LEAVE)     \
                         : [reps] "+r"(reps), [out] "+r"(out)                                                          \
                         : [x] "r"(g->x), [y] "r"(g->y), [m] "r"(g->minus)                                             \
                         : CLOBBER);                                                                                   \
    }
#define LEAVE(i) "str q" #i ", [%[out]]\n\tadd %[out], %[out], #256\n\t"
#define UP64(i) "fmla v" #i ".2d, v30.2d, v31.2d\n\t"
#define DN64(i) "fmls v" #i ".2d, v30.2d, v31.2d\n\t"
#define UP32(i) "fmla v" #i ".4s, v30.4s, v31.4s\n\t"
#define DN32(i) "fmls v" #i ".4s, v30.4s, v31.4s\n\t"
#define UP16(i) "fmla v" #i ".8h, v30.8h, v31.8h\n\t"
#define DN16(i) "fmls v" #i ".8h, v30.8h, v31.8h\n\t"
#define UPD(i) "fmadd d" #i ", d30, d31, d" #i "\n\t"
#define DND(i) "fmsub d" #i ", d30, d31, d" #i "\n\t"
#define UPS(i) "fmadd s" #i ", s30, s31, s" #i "\n\t"
#define DNS(i) "fmsub s" #i ", s30, s31, s" #i "\n\t"
#define CHAINS(M, T, UP, DOWN) M(T##_8, LIST8, UP, DOWN) M(T##_12, LIST12, UP, DOWN) M(T##_16, LIST16, UP, DOWN) M(T##_24, LIST24, UP, DOWN)
CHAINS(FMA, neon_fp64, UP64, DN64)
CHAINS(FMA, neon_fp32, UP32, DN32)
CHAINS(FMA, scalar_fp64, UPD, DND)
CHAINS(FMA, scalar_fp32, UPS, DNS)
#if defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
CHAINS(FMA, neon_fp16, UP16, DN16)
#endif
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define UPB(i) "bfdot v" #i ".4s, v30.8h, v31.8h\n\t"
#define DNB(i) "bfdot v" #i ".4s, v29.8h, v31.8h\n\t"
#define UPM(i) "bfmmla v" #i ".4s, v30.8h, v31.8h\n\t"
#define DNM(i) "bfmmla v" #i ".4s, v29.8h, v31.8h\n\t"
CHAINS(FMA, neon_bf16, UPB, DNB)
CHAINS(FMA, bfmmla, UPM, DNM)
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define UPI(i) "smmla v" #i ".4s, v30.16b, v31.16b\n\t"
#define DNI(i) "smmla v" #i ".4s, v29.16b, v31.16b\n\t"
CHAINS(FMA, smmla, UPI, DNI)
#endif

/* -- SVE: the same with registers whose length the hardware chooses; four of them per turn ----------------------- */

#if defined(__ARM_FEATURE_SVE)
int vector_bytes(void) {
    uint64_t bytes;
    __asm__("cntb %0" : "=r"(bytes));
    return (int)bytes;
}
#define ZL(r, p, k) "ld1d {z" #r ".d}, p0/z, [%[" #p "], #" #k ", mul vl]\n\t"
#define ZS(r, k) "st1d {z" #r ".d}, p0, [%[pd], #" #k ", mul vl]\n\t"
#define ZN(r, k) "stnt1d {z" #r ".d}, p0, [%[pd], #" #k ", mul vl]\n\t"
#define SVE(NAME, SETUP, BODY, FORWARD)                                                                                \
    static void NAME(struct args *g) {                                                                                 \
        const char *pa, *pb, *pc;                                                                                      \
        char *pd;                                                                                                      \
        uint64_t left, reps = g->reps, turn = 4 * (uint64_t)vector_bytes();                                            \
        __asm__ volatile("ptrue p0.d\n\tmov z16.d, #0\n\tmov z17.d, #0\n\tmov z18.d, #0\n\tmov z19.d, #0\n\t"          \
                         "ld1rd {z31.d}, p0/z, [%[s]]\n\t" SETUP ".p2align 6\n"                                        \
                         "1:\n\tmov %[pa], %[a]\n\tmov %[pb], %[b]\n\tmov %[pc], %[c]\n\tmov %[pd], %[d]\n\t"          \
                         "mov %[left], %[bytes]\n\t.p2align 6\n"                                                       \
                         "2:\n\t" BODY FORWARD "subs %[left], %[left], %[turn]\n\tb.ne 2b\n\t"                         \
                         "subs %[reps], %[reps], #1\n\tb.ne 1b\n\t"                                                    \
                         "add z16.d, z16.d, z17.d\n\tadd z18.d, z18.d, z19.d\n\tadd z16.d, z16.d, z18.d\n\t"           \
                         "uaddv d16, p0, z16.d\n\tstr d16, [%[sum]]\n\t"                                               \
                         : [pa] "=&r"(pa), [pb] "=&r"(pb), [pc] "=&r"(pc), [pd] "=&r"(pd), [left] "=&r"(left),         \
                           [reps] "+r"(reps)                                                                           \
                         : [a] "r"(g->a), [b] "r"(g->b), [c] "r"(g->c), [d] "r"(g->d), [bytes] "r"(g->bytes),          \
                           [s] "r"(&g->s), [sum] "r"(&g->sum), [turn] "r"(turn)                                        \
                         : CLOBBER, "p0");                                                                             \
    }
#define ZFWD(p) "addvl %[p" #p "], %[p" #p "], #4\n\t"
#define FOUR(M) M(0) M(1) M(2) M(3)
#define ZREAD(k) ZL(k, pa, k) "add z1" SIXTEEN##k ".d, z1" SIXTEEN##k ".d, z" #k ".d\n\t"
#define SIXTEEN0 "6"
#define SIXTEEN1 "7"
#define SIXTEEN2 "8"
#define SIXTEEN3 "9"
#define ZWRITE(k) ZS(31, k)
#define ZWRITE_NT(k) ZN(31, k)
#define ZCOPY(k) ZL(k, pa, k) ZS(k, k)
#define ZCOPY_NT(k) ZL(k, pa, k) ZN(k, k)
#define ZSCALE(k) ZL(k, pa, k) "fmul z" #k ".d, z" #k ".d, z31.d\n\t" ZS(k, k)
#define ZADD(k) ZL(k, pa, k) ZL(2##k, pb, k) "fadd z" #k ".d, z" #k ".d, z2" #k ".d\n\t" ZS(k, k)
#define ZTRIADS(k, PUT) ZL(k, pa, k) ZL(2##k, pb, k) "fmla z" #k ".d, p0/m, z2" #k ".d, z31.d\n\t" PUT(k, k)
#define ZTRIAD(k) ZTRIADS(k, ZS)
#define ZTRIAD_NT(k) ZTRIADS(k, ZN)
#define ZSCHOENAUERS(k, PUT)                                                                                           \
    ZL(k, pa, k) ZL(2##k, pb, k) ZL(1##k, pc, k) "fmla z" #k ".d, p0/m, z2" #k ".d, z1" #k ".d\n\t" PUT(k, k)
#define ZSCHOENAUER(k) ZSCHOENAUERS(k, ZS)
#define ZSCHOENAUER_NT(k) ZSCHOENAUERS(k, ZN)
SVE(read_sve, "", FOUR(ZREAD), ZFWD(a))
SVE(write_sve, "", FOUR(ZWRITE), ZFWD(d))
SVE(write_nt_sve, "", FOUR(ZWRITE_NT), ZFWD(d))
SVE(copy_sve, "", FOUR(ZCOPY), ZFWD(a) ZFWD(d))
SVE(copy_nt_sve, "", FOUR(ZCOPY_NT), ZFWD(a) ZFWD(d))
SVE(scale_sve, "", FOUR(ZSCALE), ZFWD(a) ZFWD(d))
SVE(add_sve, "", FOUR(ZADD), ZFWD(a) ZFWD(b) ZFWD(d))
SVE(triad_sve, "", FOUR(ZTRIAD), ZFWD(a) ZFWD(b) ZFWD(d))
SVE(triad_nt_sve, "", FOUR(ZTRIAD_NT), ZFWD(a) ZFWD(b) ZFWD(d))
SVE(schoenauer_sve, "", FOUR(ZSCHOENAUER), ZFWD(a) ZFWD(b) ZFWD(c) ZFWD(d))
SVE(schoenauer_nt_sve, "", FOUR(ZSCHOENAUER_NT), ZFWD(a) ZFWD(b) ZFWD(c) ZFWD(d))

#define ZZERO(i) "mov z" #i ".d, #0\n\t"
#define ZLEAVE(i) "str z" #i ", [%[out]]\n\tadd %[out], %[out], #256\n\t"
#define FMASVE(NAME, LIST, UP, DOWN)                                                                                   \
    static void NAME(struct args *g) {                                                                                 \
        uint64_t reps = g->reps;                                                                                       \
        char *out = g->out;                                                                                            \
        __asm__ volatile("ptrue p0.b\n\t" LIST(ZZERO) "ldr z30, [%[x]]\n\tldr z31, [%[y]]\n\t.p2align 6\n"             \
                                                      "1:\n\t" LIST(UP) LIST(UP) LIST(DOWN)                            \
                                                          LIST(DOWN) "subs %[reps], %[reps], #1\n\tb.ne 1b\n\t"        \
                                                              LIST(UP) LIST(ZLEAVE)                                    \
                         : [reps] "+r"(reps), [out] "+r"(out)                                                          \
                         : [x] "r"(g->x), [y] "r"(g->y)                                                                \
                         : CLOBBER, "p0");                                                                             \
    }
#define ZUP64(i) "fmla z" #i ".d, p0/m, z30.d, z31.d\n\t"
#define ZDN64(i) "fmls z" #i ".d, p0/m, z30.d, z31.d\n\t"
#define ZUP32(i) "fmla z" #i ".s, p0/m, z30.s, z31.s\n\t"
#define ZDN32(i) "fmls z" #i ".s, p0/m, z30.s, z31.s\n\t"
#define ZUP16(i) "fmla z" #i ".h, p0/m, z30.h, z31.h\n\t"
#define ZDN16(i) "fmls z" #i ".h, p0/m, z30.h, z31.h\n\t"
CHAINS(FMASVE, sve_fp64, ZUP64, ZDN64)
CHAINS(FMASVE, sve_fp32, ZUP32, ZDN32)
CHAINS(FMASVE, sve_fp16, ZUP16, ZDN16)
#else
int vector_bytes(void) { return 16; }
#endif

/* -- the table ---------------------------------------------------------------------------------------------------- */

#define PEAKS(isa, dtype, engine, w, per_byte, T)                                                                      \
    {"fma", "8", isa, dtype, engine, 0, 0, w, 8, 4 * per_byte, T##_8},                                                 \
    {"fma", "12", isa, dtype, engine, 0, 0, w, 12, 4 * per_byte, T##_12},                                              \
    {"fma", "16", isa, dtype, engine, 0, 0, w, 16, 4 * per_byte, T##_16},                                              \
    {"fma", "24", isa, dtype, engine, 0, 0, w, 24, 4 * per_byte, T##_24}

const struct kernel KERNELS[] = {
    STREAMS("neon", 16, neon),
    LOADING("neon+prefetch", 16, ahead),
    PEAKS("scalar", "fp64", "vector", 8, 2 / 8.0, scalar_fp64),
    PEAKS("scalar", "fp32", "vector", 4, 2 / 4.0, scalar_fp32),
    PEAKS("neon", "fp64", "vector", 16, 2 / 8.0, neon_fp64),
    PEAKS("neon", "fp32", "vector", 16, 2 / 4.0, neon_fp32),
#if defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
    PEAKS("neon", "fp16", "vector", 16, 2 / 2.0, neon_fp16),
#endif
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    PEAKS("bfdot", "bf16", "vector", 16, 2 / 2.0, neon_bf16),
    PEAKS("bfmmla", "bf16", "tensor", 16, 4 / 2.0, bfmmla),
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8)
    PEAKS("smmla", "int8", "tensor", 16, 4 / 1.0, smmla),
#endif
#if defined(__ARM_FEATURE_SVE)
    STREAMS("sve", 0, sve),
    PEAKS("sve", "fp64", "vector", 0, 2 / 8.0, sve_fp64),
    PEAKS("sve", "fp32", "vector", 0, 2 / 4.0, sve_fp32),
    PEAKS("sve", "fp16", "vector", 0, 2 / 2.0, sve_fp16),
#endif
};
const int KERNEL_COUNT = sizeof KERNELS / sizeof KERNELS[0];
#endif
