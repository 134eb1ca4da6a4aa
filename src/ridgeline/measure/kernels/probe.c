/* Drives the probe kernels: pinned threads, one arena whose slices are first touched by the threads that use them, a
   common start, times taken inside the threads. */
#define _GNU_SOURCE
#include "probe.h"
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#if defined(__linux__)
#include <unistd.h>
#endif

#define PAGE 4096
#define MARGIN (4 * PAGE) /* behind every slice, for the places of its arrays within a page */
#define PATIENCE 500000   /* nanoseconds at the start line before a thread offers its core to others */
#define PATTERN 65536     /* bytes of random data, repeated over the arena */
#define SCALE 0.75 /* s of scale and triad, and what write stores */

/* Memory of one thread: what it reads, and what it writes. Apart, so that what is read stays as it was filled. */
struct slice {
    char *source, *target;
};

/* Lines linked into one random cycle, and the line where the last chase stopped. */
struct chain {
    char *start, *at;
    uint64_t bytes, line;
};

struct pool {
    int threads;
    int *cpus;      /* where each thread is pinned; -1: left to the system */
    uint64_t bytes; /* that each thread reads, and as many that it writes */
    struct slice *slices;
    struct slice arena; /* all slices; empty where they belong to another pool */
    uint64_t room;      /* bytes of each half of the arena */
    int pinned;         /* threads that could be pinned the last time */
};

struct job {
    struct pool *pool;
    const struct kernel *kernel;
    struct chain *chain;
    int index, mode;
    uint64_t bytes, reps, warm, offset;
    atomic_int *waiting;
    int64_t start, end, ran;
    uint64_t sum, wrong;
    int pinned;
    char scratch[(3 + ACCUMULATORS) * WIDEST] __attribute__((aligned(64)));
};

enum { FILL, RUN, CHECK, LINK, CHASE, CLOCK };

static int64_t nanoseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint64_t next(uint64_t *state) { /* splitmix64 */
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Nearly normal: the sum of four uniform numbers, mean 0, deviation 1. */
static double normal(uint64_t *state) {
    uint64_t bits = next(state);
    double sum = (double)(bits & 0xffff) + (double)(bits >> 16 & 0xffff) + (double)(bits >> 32 & 0xffff) + (double)(bits >> 48);
    return (sum / 65536.0 - 2.0) * 1.7320508;
}

static int pin(int cpu) {
#if defined(__linux__)
    if (cpu < 0) return 0;
    size_t size = CPU_ALLOC_SIZE(cpu + 1);
    cpu_set_t *set = CPU_ALLOC(cpu + 1);
    if (!set) return 0;
    CPU_ZERO_S(size, set);
    CPU_SET_S(cpu, size, set);
    int done = pthread_setaffinity_np(pthread_self(), size, set) == 0;
    CPU_FREE(set);
    return done;
#else
    (void)cpu;
    return 0;
#endif
}

/* A spinning start line: the last one in lets all go. Yields after a while, in case there are more threads than cores;
   not at once, because on a shared core the other program would have it when the last one comes in. */
static void meet(atomic_int *waiting) {
    atomic_fetch_sub(waiting, 1);
    int64_t patience = nanoseconds(CLOCK_MONOTONIC) + PATIENCE;
    for (unsigned turn = 1; atomic_load_explicit(waiting, memory_order_acquire) > 0; turn++) {
        spin_hint();
        if (turn % 4096 == 0 && nanoseconds(CLOCK_MONOTONIC) > patience) sched_yield();
    }
}

static void *reserve(uint64_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return NULL;
#if defined(MADV_HUGEPAGE)
    madvise(at, bytes, MADV_HUGEPAGE); /* fewer address translations, where the system has large pages */
#endif
    return at;
}

/* -- where the arrays lie ---------------------------------------------------------------------------------------- */

static int arrays(const struct kernel *k) { return k->reads + k->writes; }

static uint64_t array_bytes(const struct kernel *k, uint64_t bytes) {
    uint64_t each = bytes / (uint64_t)arrays(k) / BLOCK * BLOCK;
    return each ? each : BLOCK;
}

/* Array `index` of `of` starts at its own place within a page: equal places make loads wait for stores (4 KiB aliasing). */
static uint64_t place(int index, int of, uint64_t each) {
    uint64_t shift = (uint64_t)index * (PAGE / (uint64_t)of) / 64 * 64;
    return (uint64_t)index * ((each + PAGE - 1) / PAGE * PAGE) + shift;
}

static struct args lay(struct job *job) {
    const struct kernel *k = job->kernel;
    const struct slice *slice = &job->pool->slices[job->index];
    struct args args;
    memset(&args, 0, sizeof args);
    args.reps = job->reps;
    args.s = SCALE;
    args.x = job->scratch;
    args.y = args.x + WIDEST;
    args.minus = args.y + WIDEST;
    args.out = args.minus + WIDEST;
    if (arrays(k)) {
        args.bytes = array_bytes(k, job->bytes);
        args.a = slice->source + job->offset;
        args.b = args.a + place(1, arrays(k), args.bytes);
        args.c = args.a + place(2, arrays(k), args.bytes);
        args.d = slice->target + job->offset + place(k->reads, arrays(k), 0);
    }
    return args;
}

/* -- operands and answers of the arithmetic kernels --------------------------------------------------------------- */

static int width(const struct kernel *k) { return k->width ? k->width : vector_bytes(); }

static uint16_t half(float value, int bits) { /* exact for the few small values used here */
    uint32_t word;
    memcpy(&word, &value, 4);
    if (bits == 8) return (uint16_t)(word >> 16); /* bf16 */
    int exponent = (int)(word >> 23 & 255) - 127 + 15;
    return (uint16_t)((word >> 16 & 0x8000) | (uint32_t)exponent << 10 | (word >> 13 & 0x3ff));
}

/* x = 0.25 .. 1.75, y = 0.5, 1 or 2 (int8: x = 1 .. 7, y = 1 .. 3): products and their sums are exact in every format. */
static double operand_x(int lane, int integer) { return integer ? 1 + lane % 7 : 0.25 * (1 + lane % 7); }
static double operand_y(int lane, int integer) { return integer ? 1 + lane % 3 : 0.5 * (1 << lane % 3); }

static void put(char *at, int lane, const char *dtype, double value) {
    if (!strcmp(dtype, "fp64")) ((double *)at)[lane] = value;
    if (!strcmp(dtype, "fp32")) ((float *)at)[lane] = (float)value;
    if (!strcmp(dtype, "fp16")) ((uint16_t *)at)[lane] = half((float)value, 5);
    if (!strcmp(dtype, "bf16")) ((uint16_t *)at)[lane] = half((float)value, 8);
    if (!strcmp(dtype, "int8")) ((int8_t *)at)[lane] = (int8_t)value;
}

static int element(const char *dtype) { return !strcmp(dtype, "int8") ? 1 : dtype[2] == '6' ? 8 : dtype[2] == '3' ? 4 : 2; }

static void operands(const struct kernel *k, struct args *g) {
    int integer = !strcmp(k->dtype, "int8");
    for (int lane = 0; lane < WIDEST / element(k->dtype); lane++) {
        put(g->x, lane, k->dtype, operand_x(lane, integer));
        put(g->y, lane, k->dtype, operand_y(lane, integer));
        put(g->minus, lane, k->dtype, -operand_x(lane, integer));
    }
}

/* What every chain must hold in the end: one product more than it took away. `lane` counts results, not operands. */
static double expected(const struct kernel *k, int lane) {
    int integer = !strcmp(k->dtype, "int8");
    double sum = 0;
    if (!strcmp(k->isa, "bfmmla") || !strcmp(k->isa, "smmla")) { /* 2 x n by n x 2 in each 16 bytes */
        int inner = integer ? 8 : 4, row = lane / 2 % 2, column = lane % 2;
        for (int i = 0; i < inner; i++) sum += operand_x(row * inner + i, integer) * operand_y(column * inner + i, integer);
        return sum;
    }
    if (!strncmp(k->isa, "amx", 3)) { /* every row of the tiles is the same, see x86.c */
        int pairs = integer ? 4 : 2, column = lane % 16;
        for (int row = 0; row < 16; row++)
            for (int i = 0; i < pairs; i++) sum += operand_x(row * pairs + i, integer) * operand_y(column * pairs + i, integer);
        return sum;
    }
    if (!strcmp(k->dtype, "bf16")) {
        for (int i = 0; i < 2; i++) sum += operand_x(2 * lane + i, 0) * operand_y(2 * lane + i, 0);
        return sum;
    }
    return operand_x(lane, 0) * operand_y(lane, 0);
}

static uint64_t wrong_chains(const struct kernel *k, struct args *g) {
    int tensor_or_bf16 = !strcmp(k->dtype, "bf16") || !strcmp(k->dtype, "int8");
    int size = tensor_or_bf16 ? 4 : element(k->dtype), lanes = width(k) / size;
    uint64_t wrong = 0;
    for (int chain = 0; chain < k->chains; chain++)
        for (int lane = 0; lane < lanes; lane++) {
            const char *at = g->out + chain * WIDEST + lane * size;
            double value, want = expected(k, lane);
            uint16_t small;
            if (!strcmp(k->dtype, "fp64")) memcpy(&value, at, 8);
            else if (!strcmp(k->dtype, "int8")) { int32_t v; memcpy(&v, at, 4); value = v; }
            else if (size == 4) { float v; memcpy(&v, at, 4); value = (double)v; }
            else { memcpy(&small, at, 2); value = small; want = half((float)want, 5); }
            wrong += value != want;
        }
    return wrong;
}

/* -- answers of the stream kernels, by a plain loop -------------------------------------------------------------- */

static uint64_t wrong_stream(const struct kernel *k, const struct args *g, uint64_t read) {
    const double *a = (const double *)g->a, *b = (const double *)g->b, *c = (const double *)g->c, *d = (const double *)g->d;
    uint64_t wrong = 0, sum = 0, count = g->bytes / 8;
    char op = k->op[0];
    if (op == 'r') {
        for (uint64_t i = 0; i < count; i++) sum += ((const uint64_t *)g->a)[i];
        return sum * (strstr(k->isa, LAST) ? 1 : g->reps) != read;
    }
    for (uint64_t i = 0; i < count; i++) {
        double want = op == 'w' ? g->s : op == 'c' ? a[i] : op == 'a' ? a[i] + b[i] : op == 't' ? a[i] + g->s * b[i] : 0;
        if (k->op[0] == 's') want = k->op[2] == 'a' ? g->s * a[i] : a[i] + b[i] * c[i];
        wrong += !(fabs(d[i] - want) <= 1e-14 * (1 + fabs(want)));
    }
    return wrong;
}

/* -- one thread's part ---------------------------------------------------------------------------------------------- */

static void fill(struct job *job) {
    struct slice *slice = &job->pool->slices[job->index];
    uint64_t state = (uint64_t)job->index + 1, bytes = job->pool->bytes + MARGIN;
    uint64_t first = bytes < PATTERN ? bytes : PATTERN;
    for (uint64_t i = 0; i < first / 8; i++) ((double *)slice->source)[i] = normal(&state);
    for (uint64_t at = first; at < bytes; at += PATTERN)
        memcpy(slice->source + at, slice->source, bytes - at < PATTERN ? bytes - at : PATTERN);
    memset(slice->target, 0, bytes);
}

/* A random cycle through all lines (Sattolo), so that no prefetcher guesses the next one; 1 when memory ran out. */
static uint64_t link_lines(struct chain *chain) {
    uint64_t lines = chain->bytes / chain->line, state = lines, *order = malloc(lines * sizeof *order);
    if (!order) return 1;
    for (uint64_t i = 0; i < lines; i++) order[i] = i;
    for (uint64_t i = lines - 1; i > 0; i--) {
        uint64_t j = next(&state) % i, kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (uint64_t i = 0; i < lines; i++) *(char **)(chain->start + i * chain->line) = chain->start + order[i] * chain->line;
    free(order);
    return 0;
}

static void *follow(void *at, uint64_t steps) {
    void **p = at;
#define HOP(i) p = (void **)*(void *volatile *)p;
    for (uint64_t i = 0; i < steps / 16; i++) { LIST16(HOP) }
    return p;
}

static void *work(void *given) {
    struct job *job = given;
    const struct kernel *k = job->kernel;
    job->pinned = pin(job->pool->cpus[job->index]);
    struct args args;
    if (job->mode == FILL) fill(job);
    if (job->mode == RUN || job->mode == CHECK) {
        args = lay(job);
        if (!arrays(k)) operands(k, &args);
        if (job->warm) {
            args.reps = job->warm;
            k->run(&args);
            args.reps = job->reps;
        }
    }
    if (job->mode == LINK) job->wrong = link_lines(job->chain);
    char *at = job->mode == CHASE ? follow(job->chain->at, job->warm) : NULL;
    meet(job->waiting);
    job->start = nanoseconds(CLOCK_MONOTONIC);
    int64_t ran = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    if (job->mode == RUN || job->mode == CHECK) k->run(&args);
    if (job->mode == CHASE) at = follow(at, job->reps);
    if (job->mode == CLOCK) job->sum = dependent_adds(job->reps);
    job->ran = nanoseconds(CLOCK_THREAD_CPUTIME_ID) - ran;
    job->end = nanoseconds(CLOCK_MONOTONIC);
    if (job->mode == CHASE) job->chain->at = at;
    if (job->mode == CHECK) job->wrong = arrays(k) ? wrong_stream(k, &args, args.sum) : wrong_chains(k, &args);
    return NULL;
}

/* All threads together. out: seconds from the first start to the last end, smallest running share, wrong answers. */
static int together(struct pool *pool, struct job *like, double *out) {
    struct job *jobs = NULL;
    pthread_t *threads = calloc((size_t)pool->threads, sizeof *threads);
    atomic_int waiting = pool->threads;
    int made = 0;
    if (posix_memalign((void **)&jobs, 64, (size_t)pool->threads * sizeof *jobs)) jobs = NULL;
    if (!threads || !jobs) {
        free(threads);
        free(jobs);
        return -1;
    }
    for (int i = 0; i < pool->threads; i++) {
        jobs[i] = *like;
        jobs[i].pool = pool;
        jobs[i].index = i;
        jobs[i].waiting = &waiting;
    }
    for (; made < pool->threads; made++)
        if (pthread_create(&threads[made], NULL, work, &jobs[made])) break;
    for (int i = made; i < pool->threads; i++) atomic_fetch_sub(&waiting, 1); /* let those that started go on */
    for (int i = 0; i < made; i++) pthread_join(threads[i], NULL);
    int64_t start = INT64_MAX, end = 0;
    out[1] = 1;
    out[2] = 0;
    pool->pinned = 0;
    for (int i = 0; i < made; i++)
        if (jobs[i].start < start) start = jobs[i].start;
    for (int i = 0; i < made; i++) {
        /* from the common start on, so that a thread that was kept from starting counts as preempted */
        double busy = (double)jobs[i].ran / (double)(jobs[i].end - start + 1);
        if (jobs[i].end > end) end = jobs[i].end;
        if (busy < out[1]) out[1] = busy;
        out[2] += (double)jobs[i].wrong;
        pool->pinned += jobs[i].pinned;
    }
    out[0] = (double)(end - start) * 1e-9;
    free(threads);
    free(jobs);
    return made == pool->threads ? 0 : -1;
}

/* -- what Python calls ---------------------------------------------------------------------------------------------- */

int rl_count(void) { return KERNEL_COUNT; }

/* Texts of kernel i, and its numbers: reads, writes, width, chains, flops, usable here. */
const char *rl_text(int i, int which) {
    const struct kernel *k = &KERNELS[i];
    return which == 0 ? k->kind : which == 1 ? k->op : which == 2 ? k->isa : which == 3 ? k->dtype : k->engine;
}

void rl_numbers(int i, double *out) {
    const struct kernel *k = &KERNELS[i];
    int usable = arrays(k) ? 4 * width(k) <= BLOCK : strncmp(k->isa, "amx", 3) ? 1 : may_use_tiles();
    out[0] = k->reads;
    out[1] = k->writes;
    out[2] = width(k);
    out[3] = k->chains;
    out[4] = arrays(k) ? k->flops : k->flops * k->chains * width(k);
    out[5] = usable;
}

void rl_free(struct pool *pool) {
    if (!pool) return;
    if (pool->arena.source) munmap(pool->arena.source, pool->room);
    if (pool->arena.target) munmap(pool->arena.target, pool->room);
    free(pool->slices);
    free(pool->cpus);
    free(pool);
}

static struct pool *new_pool(int threads, const int *cpus, uint64_t bytes) {
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pool->threads = threads;
    pool->bytes = bytes;
    pool->cpus = calloc((size_t)threads, sizeof *pool->cpus);
    pool->slices = calloc((size_t)threads, sizeof *pool->slices);
    if (!pool->cpus || !pool->slices) {
        rl_free(pool);
        return NULL;
    }
    memcpy(pool->cpus, cpus, (size_t)threads * sizeof *cpus);
    return pool;
}

/* Threads on these CPUs with `bytes` to read and `bytes` to write each; NULL when there is not enough memory. */
struct pool *rl_new(int threads, const int *cpus, uint64_t bytes) {
    bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    struct pool *pool = new_pool(threads, cpus, bytes);
    if (!pool) return NULL;
    pool->room = (uint64_t)threads * (bytes + MARGIN);
    pool->arena.source = reserve(pool->room);
    pool->arena.target = reserve(pool->room);
    struct job like;
    double out[3];
    memset(&like, 0, sizeof like);
    like.mode = FILL;
    for (int i = 0; i < threads && pool->arena.source && pool->arena.target; i++) {
        pool->slices[i].source = pool->arena.source + (uint64_t)i * (bytes + MARGIN);
        pool->slices[i].target = pool->arena.target + (uint64_t)i * (bytes + MARGIN);
    }
    if (!pool->arena.source || !pool->arena.target || together(pool, &like, out)) {
        rl_free(pool);
        return NULL;
    }
    return pool;
}

/* One thread on this CPU with the arena of another pool, which must outlive it. */
struct pool *rl_alone(const struct pool *owner, int cpu) {
    struct pool *pool = new_pool(1, &cpu, owner->room - MARGIN);
    if (pool) pool->slices[0] = owner->arena;
    return pool;
}

int rl_pinned(const struct pool *pool) { return pool->pinned; }

/* Bytes that one pass of kernel i over a working set of `bytes` per thread really touches in all its arrays. */
uint64_t rl_touched(int i, uint64_t bytes) {
    const struct kernel *k = &KERNELS[i];
    return array_bytes(k, bytes) * (uint64_t)arrays(k);
}

/* `reps` passes over `bytes` per thread from `offset` of its slice on, after `warm` passes that are not timed. */
int rl_run(struct pool *pool, int i, uint64_t bytes, uint64_t reps, uint64_t warm, uint64_t offset, int check, double *out) {
    struct job like;
    memset(&like, 0, sizeof like);
    like.kernel = &KERNELS[i];
    like.mode = check ? CHECK : RUN;
    like.bytes = bytes;
    like.reps = reps;
    like.warm = warm;
    like.offset = offset / PAGE * PAGE;
    if (arrays(like.kernel) && like.offset + array_bytes(like.kernel, bytes) * (uint64_t)arrays(like.kernel) > pool->bytes) return -2;
    return together(pool, &like, out);
}

static int alone(struct pool *pool, struct job *like, double *out) {
    struct pool one = *pool;
    one.threads = 1;
    return together(&one, like, out);
}

void rl_chain_free(struct chain *chain) {
    if (chain) munmap(chain->start, chain->bytes);
    free(chain);
}

/* A pointer chase for the first CPU of the pool, which also lays it out; NULL when there is not enough memory. */
struct chain *rl_chain_new(struct pool *pool, uint64_t bytes, uint64_t line) {
    struct chain *chain = calloc(1, sizeof *chain);
    struct job like;
    double out[3];
    if (!chain) return NULL;
    chain->line = line;
    chain->bytes = bytes / line * line;
    chain->start = chain->at = reserve(chain->bytes);
    memset(&like, 0, sizeof like);
    like.mode = LINK;
    like.chain = chain;
    if (!chain->start || alone(pool, &like, out) || out[2] > 0) {
        if (chain->start) munmap(chain->start, chain->bytes);
        free(chain);
        return NULL;
    }
    return chain;
}

/* Whether the chain is one cycle through all lines. */
int rl_chain_whole(const struct chain *chain) {
    char *at = chain->start;
    for (uint64_t i = 1; i <= chain->bytes / chain->line; i++) {
        at = *(char **)at;
        if (at == chain->start) return i == chain->bytes / chain->line;
    }
    return 0;
}

/* Hops are counted in sixteens; a chase goes on where the last one stopped, so that no cache holds what comes. */
int rl_chase(struct pool *pool, struct chain *chain, uint64_t hops, uint64_t warm, double *out) {
    struct job like;
    memset(&like, 0, sizeof like);
    like.mode = CHASE;
    like.chain = chain;
    like.reps = hops;
    like.warm = warm;
    return alone(pool, &like, out);
}

/* Dependent additions on all threads at once, 64 per count and one cycle each: seconds give the clock. */
int rl_clock(struct pool *pool, uint64_t count, double *out) {
    struct job like;
    memset(&like, 0, sizeof like);
    like.mode = CLOCK;
    like.reps = count;
    return together(pool, &like, out);
}
