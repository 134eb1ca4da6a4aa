/* What a probe kernel is: the table of all of them that the driver runs, and the arguments they get. */
#ifndef RIDGELINE_PROBE_H
#define RIDGELINE_PROBE_H
#include <stddef.h>
#include <stdint.h>

#define BLOCK 512       /* every array of a stream kernel is a multiple of this many bytes */
#define WIDEST 256      /* bytes of the widest vector register there can be (SVE) */
#define ACCUMULATORS 32 /* most independent chains of an arithmetic kernel */
#define LAST "+loads"   /* ends the instruction set of a read that only loads, but for its last pass, which adds up */

/* Stream kernels read a, b, c and write d. Arithmetic kernels read x and y (and minus x) and leave their chains in
   `out`. Both repeat `reps` times; `sum` is what a read adds up. */
struct args {
    char *d;
    const char *a, *b, *c;
    uint64_t bytes; /* of each array */
    uint64_t reps;
    double s;
    uint64_t sum;
    char *x, *y, *minus, *out; /* WIDEST bytes each, out ACCUMULATORS times that */
};

struct kernel {
    const char *kind; /* stream, fma */
    const char *op;   /* read, write, ...; for fma the number of chains */
    const char *isa;
    const char *dtype;
    const char *engine; /* vector or tensor */
    int reads, writes;  /* arrays of a stream kernel */
    int width;          /* bytes of a vector register; 0: ask the hardware */
    int chains;
    double flops; /* stream: per 8-byte element; fma: per chain, vector byte and loop */
    void (*run)(struct args *);
};

extern const struct kernel KERNELS[];
extern const int KERNEL_COUNT;
int vector_bytes(void);    /* of a register whose length only the hardware knows */
int may_use_tiles(void);   /* asks the system for AMX; 0 when it says no */
void spin_hint(void);
uint64_t dependent_adds(uint64_t count); /* 64 per count, one cycle each */

/* Rows of the table: the kernels of an instruction set that load, and those with the ones that only store. */
#define LOADING(isa, w, suffix)                                                                                        \
    {"stream", "read", isa, "fp64", "vector", 1, 0, w, 0, 0, read_##suffix},                                           \
    {"stream", "copy", isa, "fp64", "vector", 1, 1, w, 0, 0, copy_##suffix},                                           \
    {"stream", "copy_nt", isa, "fp64", "vector", 1, 1, w, 0, 0, copy_nt_##suffix},                                     \
    {"stream", "scale", isa, "fp64", "vector", 1, 1, w, 0, 1, scale_##suffix},                                         \
    {"stream", "add", isa, "fp64", "vector", 2, 1, w, 0, 1, add_##suffix},                                             \
    {"stream", "triad", isa, "fp64", "vector", 2, 1, w, 0, 2, triad_##suffix},                                         \
    {"stream", "triad_nt", isa, "fp64", "vector", 2, 1, w, 0, 2, triad_nt_##suffix},                                   \
    {"stream", "schoenauer", isa, "fp64", "vector", 3, 1, w, 0, 2, schoenauer_##suffix},                               \
    {"stream", "schoenauer_nt", isa, "fp64", "vector", 3, 1, w, 0, 2, schoenauer_nt_##suffix}
#define STREAMS(isa, w, suffix)                                                                                        \
    LOADING(isa, w, suffix), {"stream", "write", isa, "fp64", "vector", 0, 1, w, 0, 0, write_##suffix},                \
    {"stream", "write_nt", isa, "fp64", "vector", 0, 1, w, 0, 0, write_nt_##suffix}

#define LIST4(M) M(0) M(1) M(2) M(3)
#define LIST8(M) LIST4(M) M(4) M(5) M(6) M(7)
#define LIST10(M) LIST8(M) M(8) M(9)
#define LIST12(M) LIST10(M) M(10) M(11)
#define LIST14(M) LIST12(M) M(12) M(13)
#define LIST16(M) LIST14(M) M(14) M(15)
#define LIST20(M) LIST16(M) M(16) M(17) M(18) M(19)
#define LIST24(M) LIST20(M) M(20) M(21) M(22) M(23)

#endif
