/* Probe kernels for x86-64: SSE2 always; AVX2, AVX-512, fp16, bf16 and AMX where this CPU was compiled for. */
#include "probe.h"
#if defined(__x86_64__)
#include <string.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

void spin_hint(void) { __asm__ volatile("pause"); }
int vector_bytes(void) { return 16; }

uint64_t dependent_adds(uint64_t count) {
    uint64_t value = 1, step = 3; /* a register, not a constant: newer cores fold additions of constants */
#define ADD1 "add %[s], %[v]\n\t"
#define ADD16 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1 ADD1
    __asm__ volatile("1:\n\t" ADD16 ADD16 ADD16 ADD16 "dec %[n]\n\tjnz 1b\n\t"
                     : [v] "+r"(value), [n] "+r"(count)
                     : [s] "r"(step)
                     : "cc");
    return value;
}

#define LOW                                                                                                            \
    "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",  \
        "xmm12", "xmm13", "xmm14", "xmm15"
#if defined(__AVX512F__)
#define ALL                                                                                                            \
    LOW, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27",   \
        "xmm28", "xmm29", "xmm30", "xmm31"
#endif

/* -- streams: eight registers of each array per turn, plain base addresses so that every store port can serve ------ */

#define AT(i, W, p) #i "*" W "(%[p" #p "])"
#define FWD(p, W) "add $8*" W ", %[p" #p "]\n\t"

#define STREAM(NAME, SETUP, BODY, FORWARD, W, FINISH)                                                                  \
    static void NAME(struct args *g) {                                                                                 \
        const char *pa, *pb, *pc;                                                                                      \
        char *pd;                                                                                                      \
        uint64_t left, reps = g->reps;                                                                                 \
        uint64_t *sums = (uint64_t *)g->out;                                                                           \
        memset(sums, 0, 64);                                                                                           \
        __asm__ volatile(SETUP ".p2align 6\n"                                                                          \
                               "1:\n\tmov %[a], %[pa]\n\tmov %[b], %[pb]\n\tmov %[c], %[pc]\n\tmov %[d], %[pd]\n\t"    \
                               "mov %[bytes], %[left]\n\t.p2align 6\n"                                                 \
                               "2:\n\t" BODY FORWARD "sub $8*" W ", %[left]\n\tjnz 2b\n\t"                             \
                               "dec %[reps]\n\tjnz 1b\n\t" FINISH                                                      \
                         : [pa] "=&r"(pa), [pb] "=&r"(pb), [pc] "=&r"(pc), [pd] "=&r"(pd), [left] "=&r"(left),         \
                           [reps] "+r"(reps)                                                                           \
                         : [a] "m"(g->a), [b] "m"(g->b), [c] "m"(g->c), [d] "m"(g->d), [bytes] "m"(g->bytes),          \
                           [s] "m"(g->s), [sums] "r"(sums)                                                             \
                         : LOW);                                                                                       \
        g->sum = 0;                                                                                                    \
        for (int i = 0; i < 8; i++) g->sum += sums[i];                                                                 \
    }

/* read: 64-bit integers are added up, because their sum is exact in any order and no adder limits it */
#define REDUCE(op, R)                                                                                                  \
    op(1, 0, R) op(3, 2, R) op(5, 4, R) op(7, 6, R) op(2, 0, R) op(6, 4, R) op(4, 0, R)

/* read by loads alone: adding up needs both 512-bit ports in every cycle, which the loop's own counting then shares. All
   passes but the last only load; the last adds up what it reads, so that the answer says what was there. */
#define LOADS(NAME, ZERO, LOAD, ADD, W, FINISH)                                                                        \
    static void NAME(struct args *g) {                                                                                 \
        const char *pa;                                                                                                \
        uint64_t left, reps = g->reps;                                                                                 \
        uint64_t *sums = (uint64_t *)g->out;                                                                           \
        memset(sums, 0, 64);                                                                                           \
        __asm__ volatile("jmp 3f\n\t.p2align 6\n"                                                                      \
                         "1:\n\tmov %[a], %[pa]\n\tmov %[bytes], %[left]\n\t.p2align 6\n"                             \
                         "2:\n\t" LIST8(LOAD) FWD(a, W) "sub $8*" W ", %[left]\n\tjnz 2b\n"                           \
                         "3:\n\tdec %[reps]\n\tjnz 1b\n\t" LIST8(ZERO) "mov %[a], %[pa]\n\tmov %[bytes], %[left]\n"   \
                         "4:\n\t" LIST8(ADD) FWD(a, W) "sub $8*" W ", %[left]\n\tjnz 4b\n\t" FINISH                    \
                         : [pa] "=&r"(pa), [left] "=&r"(left), [reps] "+r"(reps)                                       \
                         : [a] "m"(g->a), [bytes] "m"(g->bytes), [sums] "r"(sums)                                      \
                         : LOW);                                                                                       \
        g->sum = 0;                                                                                                    \
        for (int i = 0; i < 8; i++) g->sum += sums[i];                                                                 \
    }

/* SSE2 */
#define W16 "16"
#define S_ZERO(i) "pxor %%xmm" #i ", %%xmm" #i "\n\t"
#define S_READ(i) "paddq " AT(i, W16, a) ", %%xmm" #i "\n\t"
#define S_JOIN(from, to, R) "paddq %%xmm" #from ", %%xmm" #to "\n\t"
#define S_SPREAD "movsd %[s], %%xmm15\n\tunpcklpd %%xmm15, %%xmm15\n\t"
#define S_PUT(i) "movapd %%xmm" #i ", " AT(i, W16, d) "\n\t"
#define S_PUT_NT(i) "movntpd %%xmm" #i ", " AT(i, W16, d) "\n\t"
#define S_GET(i) "movapd " AT(i, W16, a) ", %%xmm" #i "\n\t"
#define S_WRITE(i) "movapd %%xmm15, " AT(i, W16, d) "\n\t"
#define S_WRITE_NT(i) "movntpd %%xmm15, " AT(i, W16, d) "\n\t"
#define S_COPY(i) S_GET(i) S_PUT(i)
#define S_COPY_NT(i) S_GET(i) S_PUT_NT(i)
#define S_SCALE(i) S_GET(i) "mulpd %%xmm15, %%xmm" #i "\n\t" S_PUT(i)
#define S_ADD(i) S_GET(i) "addpd " AT(i, W16, b) ", %%xmm" #i "\n\t" S_PUT(i)
#define S_TRIADS(i) "movapd " AT(i, W16, b) ", %%xmm" #i "\n\tmulpd %%xmm15, %%xmm" #i "\n\taddpd " AT(i, W16, a) ", %%xmm" #i "\n\t"
#define S_TRIAD(i) S_TRIADS(i) S_PUT(i)
#define S_TRIAD_NT(i) S_TRIADS(i) S_PUT_NT(i)
#define S_SCHOENAUERS(i) "movapd " AT(i, W16, b) ", %%xmm" #i "\n\tmulpd " AT(i, W16, c) ", %%xmm" #i "\n\taddpd " AT(i, W16, a) ", %%xmm" #i "\n\t"
#define S_SCHOENAUER(i) S_SCHOENAUERS(i) S_PUT(i)
#define S_SCHOENAUER_NT(i) S_SCHOENAUERS(i) S_PUT_NT(i)
#define S_STREAM(NAME, M, FORWARD) STREAM(NAME, S_SPREAD, LIST8(M), FORWARD, W16, "sfence\n\t")
STREAM(read_sse2, LIST8(S_ZERO), LIST8(S_READ), FWD(a, W16), W16, REDUCE(S_JOIN, "") "movdqu %%xmm0, (%[sums])\n\t")
S_STREAM(write_sse2, S_WRITE, FWD(d, W16))
S_STREAM(write_nt_sse2, S_WRITE_NT, FWD(d, W16))
S_STREAM(copy_sse2, S_COPY, FWD(a, W16) FWD(d, W16))
S_STREAM(copy_nt_sse2, S_COPY_NT, FWD(a, W16) FWD(d, W16))
S_STREAM(scale_sse2, S_SCALE, FWD(a, W16) FWD(d, W16))
S_STREAM(add_sse2, S_ADD, FWD(a, W16) FWD(b, W16) FWD(d, W16))
S_STREAM(triad_sse2, S_TRIAD, FWD(a, W16) FWD(b, W16) FWD(d, W16))
S_STREAM(triad_nt_sse2, S_TRIAD_NT, FWD(a, W16) FWD(b, W16) FWD(d, W16))
S_STREAM(schoenauer_sse2, S_SCHOENAUER, FWD(a, W16) FWD(b, W16) FWD(c, W16) FWD(d, W16))
S_STREAM(schoenauer_nt_sse2, S_SCHOENAUER_NT, FWD(a, W16) FWD(b, W16) FWD(c, W16) FWD(d, W16))

/* AVX2 and AVX-512 differ in the register's name and width alone */
#define V_ZERO(i, R) "vpxor %%xmm" #i ", %%xmm" #i ", %%xmm" #i "\n\t"
#define V_READ(i, R, W) "vpaddq " AT(i, W, a) ", %%" R #i ", %%" R #i "\n\t"
#define V_JOIN(from, to, R) "vpaddq %%" R #from ", %%" R #to ", %%" R #to "\n\t"
#define V_SPREAD(R) "vbroadcastsd %[s], %%" R "15\n\t"
#define V_PUT(i, R, W) "vmovapd %%" R #i ", " AT(i, W, d) "\n\t"
#define V_PUT_NT(i, R, W) "vmovntpd %%" R #i ", " AT(i, W, d) "\n\t"
#define V_GET(i, R, W) "vmovapd " AT(i, W, a) ", %%" R #i "\n\t"
#define V_WRITE(i, R, W) "vmovapd %%" R "15, " AT(i, W, d) "\n\t"
#define V_WRITE_NT(i, R, W) "vmovntpd %%" R "15, " AT(i, W, d) "\n\t"
#define V_SCALE(i, R, W) "vmulpd " AT(i, W, a) ", %%" R "15, %%" R #i "\n\t" V_PUT(i, R, W)
#define V_ADD(i, R, W) V_GET(i, R, W) "vaddpd " AT(i, W, b) ", %%" R #i ", %%" R #i "\n\t" V_PUT(i, R, W)
#define V_TRIADS(i, R, W) "vmovapd " AT(i, W, b) ", %%" R #i "\n\tvfmadd213pd " AT(i, W, a) ", %%" R "15, %%" R #i "\n\t"
#define V_SCHOENAUERS(i, R, W) V_GET(i, R, W) "vmovapd " AT(i, W, b) ", %%" R "14\n\tvfmadd231pd " AT(i, W, c) ", %%" R "14, %%" R #i "\n\t"
#define V_FINISH "sfence\n\tvzeroupper\n\t"

#if defined(__AVX2__) && defined(__FMA__)
#define WIDE "32"
#define REG "ymm"
#define Y_READ(i) V_READ(i, REG, WIDE)
#define Y_ZERO(i) V_ZERO(i, REG)
#define Y_GET(i) V_GET(i, REG, WIDE)
#define Y_WRITE(i) V_WRITE(i, REG, WIDE)
#define Y_WRITE_NT(i) V_WRITE_NT(i, REG, WIDE)
#define Y_COPY(i) V_GET(i, REG, WIDE) V_PUT(i, REG, WIDE)
#define Y_COPY_NT(i) V_GET(i, REG, WIDE) V_PUT_NT(i, REG, WIDE)
#define Y_SCALE(i) V_SCALE(i, REG, WIDE)
#define Y_ADD(i) V_ADD(i, REG, WIDE)
#define Y_TRIAD(i) V_TRIADS(i, REG, WIDE) V_PUT(i, REG, WIDE)
#define Y_TRIAD_NT(i) V_TRIADS(i, REG, WIDE) V_PUT_NT(i, REG, WIDE)
#define Y_SCHOENAUER(i) V_SCHOENAUERS(i, REG, WIDE) V_PUT(i, REG, WIDE)
#define Y_SCHOENAUER_NT(i) V_SCHOENAUERS(i, REG, WIDE) V_PUT_NT(i, REG, WIDE)
#define V_STREAM(NAME, M, FORWARD) STREAM(NAME, V_SPREAD(REG), LIST8(M), FORWARD, WIDE, V_FINISH)
/* Each kernel that loads twice: as it is, and with lines well ahead asked for early */
#define V_BOTH(NAME, suffix, FETCH, M, FORWARD)                                                                        \
    STREAM(NAME##_##suffix, V_SPREAD(REG), LIST8(M), FORWARD, WIDE, V_FINISH)                                          \
    STREAM(NAME##_##suffix##_ahead, V_SPREAD(REG), FETCH LIST8(M), FORWARD, WIDE, V_FINISH)
#define V_TOTAL REDUCE(V_JOIN, REG) "vmovdqu" UNALIGNED " %%" REG "0, (%[sums])\n\tvzeroupper\n\t"
#define V_STREAMS(suffix)                                                                                              \
    LOADS(read_##suffix##_loads, Y_ZERO, Y_GET, Y_READ, WIDE, V_TOTAL)                                                 \
    STREAM(read_##suffix, LIST8(Y_ZERO), LIST8(Y_READ), FWD(a, WIDE), WIDE, V_TOTAL)                                   \
    STREAM(read_##suffix##_ahead, LIST8(Y_ZERO), AHEAD(a) LIST8(Y_READ), FWD(a, WIDE), WIDE, V_TOTAL)                  \
    V_STREAM(write_##suffix, Y_WRITE, FWD(d, WIDE))                                                                    \
    V_STREAM(write_nt_##suffix, Y_WRITE_NT, FWD(d, WIDE))                                                              \
    V_BOTH(copy, suffix, AHEAD(a), Y_COPY, FWD(a, WIDE) FWD(d, WIDE))                                                  \
    V_BOTH(copy_nt, suffix, AHEAD(a), Y_COPY_NT, FWD(a, WIDE) FWD(d, WIDE))                                            \
    V_BOTH(scale, suffix, AHEAD(a), Y_SCALE, FWD(a, WIDE) FWD(d, WIDE))                                                \
    V_BOTH(add, suffix, AHEAD(a) AHEAD(b), Y_ADD, FWD(a, WIDE) FWD(b, WIDE) FWD(d, WIDE))                              \
    V_BOTH(triad, suffix, AHEAD(a) AHEAD(b), Y_TRIAD, FWD(a, WIDE) FWD(b, WIDE) FWD(d, WIDE))                          \
    V_BOTH(triad_nt, suffix, AHEAD(a) AHEAD(b), Y_TRIAD_NT, FWD(a, WIDE) FWD(b, WIDE) FWD(d, WIDE))                    \
    V_BOTH(schoenauer, suffix, AHEAD(a) AHEAD(b) AHEAD(c), Y_SCHOENAUER, FWD(a, WIDE) FWD(b, WIDE) FWD(c, WIDE) FWD(d, WIDE)) \
    V_BOTH(schoenauer_nt, suffix, AHEAD(a) AHEAD(b) AHEAD(c), Y_SCHOENAUER_NT, FWD(a, WIDE) FWD(b, WIDE) FWD(c, WIDE) FWD(d, WIDE))
#define FETCH4(p, o0, o1, o2, o3)                                                                                      \
    "prefetcht0 " #o0 "(%[p" #p "])\n\tprefetcht0 " #o1 "(%[p" #p "])\n\tprefetcht0 " #o2 "(%[p" #p "])\n\tprefetcht0 " #o3 "(%[p" #p "])\n\t"
#define AHEAD(p) FETCH4(p, 768, 832, 896, 960)
#define UNALIGNED ""
V_STREAMS(avx2)
#if defined(__AVX512F__)
#undef WIDE
#undef REG
#undef UNALIGNED
#define WIDE "64"
#define REG "zmm"
#define UNALIGNED "64"
#undef AHEAD
#define AHEAD(p) FETCH4(p, 1024, 1088, 1152, 1216) FETCH4(p, 1280, 1344, 1408, 1472)
V_STREAMS(avx512)
#endif
#endif

/* -- arithmetic: chains of multiply-adds, two up and two down again, so that the answer is exact in any format ------ */

#define FMA(NAME, LIST, ZERO, LOAD, UP, DOWN, LEAVE, CLOBBERED)                                                        \
    static void NAME(struct args *g) {                                                                                 \
        uint64_t reps = g->reps;                                                                                       \
        char *out = g->out;                                                                                            \
        __asm__ volatile(LIST(ZERO) LOAD ".p2align 6\n"                                                                \
                                         "1:\n\t" LIST(UP) LIST(UP) LIST(DOWN)                                         \
                                             LIST(DOWN) "dec %[reps]\n\tjnz 1b\n\t" LIST(UP) LIST(LEAVE)               \
                         : [reps] "+r"(reps), [out] "+r"(out)                                                          \
                         : [x] "r"(g->x), [y] "r"(g->y), [m] "r"(g->minus)                                             \
                         : CLOBBERED);                                                                                 \
    }
#define NEXT "\n\tadd $256, %[out]\n\t"

/* SSE2 has no multiply-add: each chain is a multiplication into a spare register and an addition */
#define SSE(T, s, m)                                                                                                   \
    FMA(T##_8, LIST8, S_ZERO, "movup" m " (%[x]), %%xmm14\n\tmovup" m " (%[y]), %%xmm15\n\t", UP_##T, DN_##T, S_LEAVE, LOW) \
    FMA(T##_10, LIST10, S_ZERO, "movup" m " (%[x]), %%xmm14\n\tmovup" m " (%[y]), %%xmm15\n\t", UP_##T, DN_##T, S_LEAVE, LOW)
#define S_LEAVE(i) "movupd %%xmm" #i ", (%[out])" NEXT
#define S_SPARE(i) S_SPARE_##i
#define S_SPARE_0 "10"
#define S_SPARE_1 "11"
#define S_SPARE_2 "12"
#define S_SPARE_3 "13"
#define S_SPARE_4 "10"
#define S_SPARE_5 "11"
#define S_SPARE_6 "12"
#define S_SPARE_7 "13"
#define S_SPARE_8 "10"
#define S_SPARE_9 "11"
#define S_STEP(i, kind, op)                                                                                            \
    "movaps %%xmm14, %%xmm" S_SPARE(i) "\n\tmul" kind " %%xmm15, %%xmm" S_SPARE(i) "\n\t" op kind " %%xmm" S_SPARE(i) ", %%xmm" #i "\n\t"
#define UP_sse2_fp64(i) S_STEP(i, "pd", "add")
#define DN_sse2_fp64(i) S_STEP(i, "pd", "sub")
#define UP_sse2_fp32(i) S_STEP(i, "ps", "add")
#define DN_sse2_fp32(i) S_STEP(i, "ps", "sub")
SSE(sse2_fp64, "pd", "d")
SSE(sse2_fp32, "ps", "s")

#if defined(__FMA__)
#define UPV(i, kind, R, x, y) "vfmadd231" kind " %%" R x ", %%" R y ", %%" R #i "\n\t"
#define DNV(i, kind, R, x, y) "vfnmadd231" kind " %%" R x ", %%" R y ", %%" R #i "\n\t"
#define FMA_LOW(T, R, MOV)                                                                                             \
    FMA(T##_8, LIST8, Y_CLEAR, MOV " (%[x]), %%" R "14\n\t" MOV " (%[y]), %%" R "15\n\t", UP_##T, DN_##T, LEAVE_##T, LOW)   \
    FMA(T##_10, LIST10, Y_CLEAR, MOV " (%[x]), %%" R "14\n\t" MOV " (%[y]), %%" R "15\n\t", UP_##T, DN_##T, LEAVE_##T, LOW) \
    FMA(T##_12, LIST12, Y_CLEAR, MOV " (%[x]), %%" R "14\n\t" MOV " (%[y]), %%" R "15\n\t", UP_##T, DN_##T, LEAVE_##T, LOW) \
    FMA(T##_14, LIST14, Y_CLEAR, MOV " (%[x]), %%" R "14\n\t" MOV " (%[y]), %%" R "15\n\t", UP_##T, DN_##T, LEAVE_##T, LOW)
#define Y_CLEAR(i) "vpxor %%xmm" #i ", %%xmm" #i ", %%xmm" #i "\n\t"
#define UP_scalar_fp64(i) UPV(i, "sd", "xmm", "14", "15")
#define DN_scalar_fp64(i) DNV(i, "sd", "xmm", "14", "15")
#define LEAVE_scalar_fp64(i) "vmovupd %%xmm" #i ", (%[out])" NEXT
#define UP_scalar_fp32(i) UPV(i, "ss", "xmm", "14", "15")
#define DN_scalar_fp32(i) DNV(i, "ss", "xmm", "14", "15")
#define LEAVE_scalar_fp32(i) "vmovupd %%xmm" #i ", (%[out])" NEXT
#define UP_avx2_fp64(i) UPV(i, "pd", "ymm", "14", "15")
#define DN_avx2_fp64(i) DNV(i, "pd", "ymm", "14", "15")
#define LEAVE_avx2_fp64(i) "vmovupd %%ymm" #i ", (%[out])" NEXT
#define UP_avx2_fp32(i) UPV(i, "ps", "ymm", "14", "15")
#define DN_avx2_fp32(i) DNV(i, "ps", "ymm", "14", "15")
#define LEAVE_avx2_fp32(i) "vmovupd %%ymm" #i ", (%[out])" NEXT
FMA_LOW(scalar_fp64, "xmm", "vmovupd")
FMA_LOW(scalar_fp32, "xmm", "vmovups")
FMA_LOW(avx2_fp64, "ymm", "vmovupd")
FMA_LOW(avx2_fp32, "ymm", "vmovups")
#endif

#if defined(__AVX512F__)
#define FMA_ALL(T)                                                                                                     \
    FMA(T##_8, LIST8, Z_CLEAR, Z_LOAD, UP_##T, DN_##T, Z_LEAVE, ALL)                                                   \
    FMA(T##_12, LIST12, Z_CLEAR, Z_LOAD, UP_##T, DN_##T, Z_LEAVE, ALL)                                                 \
    FMA(T##_16, LIST16, Z_CLEAR, Z_LOAD, UP_##T, DN_##T, Z_LEAVE, ALL)                                                 \
    FMA(T##_24, LIST24, Z_CLEAR, Z_LOAD, UP_##T, DN_##T, Z_LEAVE, ALL)
#define Z_CLEAR(i) "vpxord %%zmm" #i ", %%zmm" #i ", %%zmm" #i "\n\t"
#define Z_LOAD "vmovupd (%[x]), %%zmm30\n\tvmovupd (%[y]), %%zmm31\n\tvmovupd (%[m]), %%zmm29\n\t"
#define Z_LEAVE(i) "vmovupd %%zmm" #i ", (%[out])" NEXT
#define UP_avx512_fp64(i) UPV(i, "pd", "zmm", "30", "31")
#define DN_avx512_fp64(i) DNV(i, "pd", "zmm", "30", "31")
#define UP_avx512_fp32(i) UPV(i, "ps", "zmm", "30", "31")
#define DN_avx512_fp32(i) DNV(i, "ps", "zmm", "30", "31")
FMA_ALL(avx512_fp64)
FMA_ALL(avx512_fp32)
#if defined(__AVX512FP16__)
#define UP_avx512_fp16(i) UPV(i, "ph", "zmm", "30", "31")
#define DN_avx512_fp16(i) DNV(i, "ph", "zmm", "30", "31")
FMA_ALL(avx512_fp16)
#endif
#if defined(__AVX512BF16__)
#define UP_avx512_bf16(i) "vdpbf16ps %%zmm31, %%zmm30, %%zmm" #i "\n\t"
#define DN_avx512_bf16(i) "vdpbf16ps %%zmm31, %%zmm29, %%zmm" #i "\n\t"
FMA_ALL(avx512_bf16)
#endif
#endif

/* -- AMX: tiles of 16 rows of 64 bytes; every row of the left tile is x, row r of the right one y for all r ---------- */

#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AMX_INT8__) && defined(__linux__)
int may_use_tiles(void) { return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* tile data */) == 0; }
struct tiles {
    uint8_t palette, start, reserved[14];
    uint16_t columns[16];
    uint8_t rows[16];
} __attribute__((packed));
#define TILE(NAME, LIST, INSTRUCTION)                                                                                  \
    static void NAME(struct args *g) {                                                                                 \
        uint64_t reps = g->reps, stride = 0, wide = 64;                                                                \
        struct tiles shape;                                                                                            \
        char kept[5][16 * 64];                                                                                         \
        memset(&shape, 0, sizeof shape);                                                                               \
        shape.palette = 1;                                                                                             \
        for (int i = 0; i < 8; i++) {                                                                                  \
            shape.columns[i] = 64;                                                                                     \
            shape.rows[i] = 16;                                                                                        \
        }                                                                                                              \
        /* stride 0 loads the same 64 bytes into every row; tmm5 is x, tmm7 minus x, tmm6 y */                          \
        __asm__ volatile("ldtilecfg %[shape]\n\t"                                                                      \
                         "tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3\n\ttilezero %%tmm4\n\t" \
                         "tileloadd (%[x],%[stride],1), %%tmm5\n\ttileloadd (%[m],%[stride],1), %%tmm7\n\t"            \
                         "tileloadd (%[y],%[stride],1), %%tmm6\n\t.p2align 6\n"                                        \
                         "1:\n\t" LIST(INSTRUCTION, "5") LIST(INSTRUCTION, "5") LIST(INSTRUCTION, "7") LIST(INSTRUCTION, "7") \
                         "dec %[reps]\n\tjnz 1b\n\t" LIST(INSTRUCTION, "5")                                            \
                         "tilestored %%tmm0, 0(%[kept],%[wide],1)\n\ttilestored %%tmm1, 1024(%[kept],%[wide],1)\n\t"   \
                         "tilestored %%tmm2, 2048(%[kept],%[wide],1)\n\ttilestored %%tmm3, 3072(%[kept],%[wide],1)\n\t" \
                         "tilestored %%tmm4, 4096(%[kept],%[wide],1)\n\ttilerelease\n\t"                               \
                         : [reps] "+r"(reps)                                                                           \
                         : [shape] "m"(shape), [x] "r"(g->x), [y] "r"(g->y), [m] "r"(g->minus), [stride] "r"(stride),  \
                           [kept] "r"(kept), [wide] "r"(wide)                                                          \
                         : "memory", "cc");                                                                            \
        for (int i = 0; i < 5; i++) memcpy(g->out + i * WIDEST, kept[i] + 64 * (i % 16), 64);                          \
    }
#define TILES4(I, x) I("0", x) I("1", x) I("2", x) I("3", x)
#define TILES5(I, x) TILES4(I, x) I("4", x)
#define TDPBF(i, x) "tdpbf16ps %%tmm6, %%tmm" x ", %%tmm" i "\n\t"
#define TDPINT(i, x) "tdpbssd %%tmm6, %%tmm" x ", %%tmm" i "\n\t"
TILE(amx_bf16_4, TILES4, TDPBF)
TILE(amx_bf16_5, TILES5, TDPBF)
TILE(amx_int8_4, TILES4, TDPINT)
TILE(amx_int8_5, TILES5, TDPINT)
#define AMX
#else
int may_use_tiles(void) { return 0; }
#endif

/* -- the table ---------------------------------------------------------------------------------------------------- */

#define PEAK(isa, dtype, engine, w, per_byte, T, n) {"fma", #n, isa, dtype, engine, 0, 0, w, n, 4 * per_byte, T##_##n}
#define PEAKS_LOW(isa, dtype, w, per_byte, T)                                                                          \
    PEAK(isa, dtype, "vector", w, per_byte, T, 8), PEAK(isa, dtype, "vector", w, per_byte, T, 10),                     \
        PEAK(isa, dtype, "vector", w, per_byte, T, 12), PEAK(isa, dtype, "vector", w, per_byte, T, 14)
#define PEAKS_ALL(isa, dtype, w, per_byte, T)                                                                          \
    PEAK(isa, dtype, "vector", w, per_byte, T, 8), PEAK(isa, dtype, "vector", w, per_byte, T, 12),                     \
        PEAK(isa, dtype, "vector", w, per_byte, T, 16), PEAK(isa, dtype, "vector", w, per_byte, T, 24)

#define ONLY_LOADS(isa, w, suffix) {"stream", "read", isa LAST, "fp64", "vector", 1, 0, w, 0, 0, read_##suffix##_loads}

const struct kernel KERNELS[] = {
    STREAMS("sse2", 16, sse2),
    PEAK("sse2", "fp64", "vector", 16, 2 / 8.0, sse2_fp64, 8),
    PEAK("sse2", "fp64", "vector", 16, 2 / 8.0, sse2_fp64, 10),
    PEAK("sse2", "fp32", "vector", 16, 2 / 4.0, sse2_fp32, 8),
    PEAK("sse2", "fp32", "vector", 16, 2 / 4.0, sse2_fp32, 10),
#if defined(__AVX2__) && defined(__FMA__)
    STREAMS("avx2", 32, avx2),
    LOADING("avx2+prefetch", 32, avx2_ahead),
    ONLY_LOADS("avx2", 32, avx2),
    PEAKS_LOW("scalar", "fp64", 8, 2 / 8.0, scalar_fp64),
    PEAKS_LOW("scalar", "fp32", 4, 2 / 4.0, scalar_fp32),
    PEAKS_LOW("avx2", "fp64", 32, 2 / 8.0, avx2_fp64),
    PEAKS_LOW("avx2", "fp32", 32, 2 / 4.0, avx2_fp32),
#endif
#if defined(__AVX512F__)
    STREAMS("avx512", 64, avx512),
    LOADING("avx512+prefetch", 64, avx512_ahead),
    ONLY_LOADS("avx512", 64, avx512),
    PEAKS_ALL("avx512", "fp64", 64, 2 / 8.0, avx512_fp64),
    PEAKS_ALL("avx512", "fp32", 64, 2 / 4.0, avx512_fp32),
#if defined(__AVX512FP16__)
    PEAKS_ALL("avx512", "fp16", 64, 2 / 2.0, avx512_fp16),
#endif
#if defined(__AVX512BF16__)
    PEAKS_ALL("avx512", "bf16", 64, 2 / 2.0, avx512_bf16),
#endif
#endif
#if defined(AMX)
    /* one instruction: 16 x 16 results of 16 groups of 2 (bf16) or 4 (int8) products, over 64 bytes of result row */
    PEAK("amx", "bf16", "tensor", 64, 16 * 16 * 16 * 2 * 2 / 64.0, amx_bf16, 4),
    PEAK("amx", "bf16", "tensor", 64, 16 * 16 * 16 * 2 * 2 / 64.0, amx_bf16, 5),
    PEAK("amx", "int8", "tensor", 64, 16 * 16 * 16 * 4 * 2 / 64.0, amx_int8, 4),
    PEAK("amx", "int8", "tensor", 64, 16 * 16 * 16 * 4 * 2 / 64.0, amx_int8, 5),
#endif
};
const int KERNEL_COUNT = sizeof KERNELS / sizeof KERNELS[0];
#endif
