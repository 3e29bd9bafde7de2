/* cpu: opening, memory and the table of the CPU backend.
 *
 * Work is done when the call returns: the queue is always empty, so mark and wait have nothing to
 * do. The library for matrix products is chosen in gemm.c, the vector kernels in level.c.
 */
#include "trainer/cpu/cpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread.h"
#include "trainer/cpu/gemm.h"
#include "trainer/cpu/impl.h"
#include "trainer/cpu/machine.h"
#include "trainer/tensor.h"

enum { MAX_THREADS = 1024 };
static const size_t huge = (size_t)2 << 20; /* from here on pages of 2 MiB are asked for */

struct cpu_memory {
    struct cpu_memory *next;
    void *p;
    size_t n;
    bool mapped;
};

struct cpu *cpu_of(const struct backend *b)
{
    return b->impl;
}

static int cpu_open(struct backend *b, int device, int threads, struct err *e)
{
    if (device != 0)
        return err_code(e, EXIT_USAGE, "there is device 0 only, not %d", device);
    if (threads < 0 || threads > MAX_THREADS)
        return err_code(e, EXIT_USAGE, "%d threads, want 0 (all usable) to %d", threads,
                        MAX_THREADS);
    if (threads == 0)
        threads = thread_cpus();
    const struct vec *vec = cpu_vec(e);
    if (!vec)
        return -1;
    struct pool *pool = pool_new(threads, e);
    if (!pool)
        return -1;
    struct cpu *c = mem_zero(sizeof *c);
    c->pool = pool;
    c->vec = vec;
    c->scratch = mem_array((size_t)threads, sizeof *c->scratch);
    c->scratch_n = mem_array((size_t)threads, sizeof *c->scratch_n);
    char model[128], dnnl[96];
    cpu_model(model, sizeof model);
    gemm_describe(dnnl, sizeof dnnl);
    snprintf(c->describe, sizeof c->describe, "%s, %d thread%s, %s, kernels %s", model, threads,
             threads == 1 ? "" : "s", dnnl, vec->name);
    b->impl = c;
    return 0;
}

static void cpu_close(struct backend *b)
{
    struct cpu *c = cpu_of(b);
    if (!c)
        return;
    for (struct cpu_memory *m = c->memory, *next; m; m = next) {
        next = m->next;
        if (m->mapped)
            munmap(m->p, m->n);
        else
            free(m->p);
        free(m);
    }
    for (int i = 0; i < pool_threads(c->pool); i++)
        free(c->scratch[i]);
    free(c->scratch);
    free(c->scratch_n);
    free(c->partial);
    pool_free(c->pool);
    free(c);
    b->impl = NULL;
}

static bool cpu_supports(const struct backend *b, enum dtype t)
{
    (void)b;
    return t == DTYPE_F32 || t == DTYPE_I32 || t == DTYPE_U64;
}

static const char *cpu_describe(const struct backend *b)
{
    return cpu_of(b)->describe;
}

static int64_t cpu_memory_free(const struct backend *b)
{
    (void)b;
    return machine_memory_free();
}

/* Large blocks come from the kernel, zeroed, and ask for huge pages: a pass over a vocabulary of
 * logits in 4 KiB pages spends a fifth of its time on translation. */
static void *cpu_alloc(struct backend *b, size_t n)
{
    struct cpu *c = cpu_of(b);
    bool map = n >= huge;
    size_t size = map ? (n + huge - 1) / huge * huge : (n + 63) / 64 * 64 + (n == 0) * 64;
    void *p = NULL;
    if (size < n)
        p = NULL; /* wrapped round */
    else if (map) {
        p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            p = NULL;
        else
            madvise(p, size, MADV_HUGEPAGE); /* advice: failing changes the speed only */
    } else if (posix_memalign(&p, 64, size) == 0)
        memset(p, 0, size);
    else
        p = NULL;
    if (!p) {
        backend_fail(b, "no memory for %zu bytes", n);
        return NULL;
    }
    struct cpu_memory *m = mem_zero(sizeof *m);
    *m = (struct cpu_memory){.next = c->memory, .p = p, .n = size, .mapped = map};
    c->memory = m;
    return p;
}

static void cpu_put(struct backend *b, struct tensor *dst, const void *src)
{
    (void)b;
    memcpy(dst->data, src, tensor_bytes(dst));
}

static void cpu_get(struct backend *b, void *dst, const struct tensor *src)
{
    (void)b;
    memcpy(dst, src->data, tensor_bytes(src));
}

/* Whole pages inside of x go back to the kernel. */
static void cpu_forget(struct backend *b, struct tensor *x)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)x->data;
    uintptr_t to = from + tensor_bytes(x);
    (void)b;
    from = (from + page - 1) / page * page;
    to = to / page * page;
    if (from < to)
        madvise((void *)from, to - from, MADV_DONTNEED); /* advice: failing costs memory only */
}

static int cpu_sync(struct backend *b, struct err *e)
{
    if (!b->failed)
        return 0;
    *e = b->fault;
    return -1;
}

struct zero_job {
    char *p;
    size_t n;
};
enum { ZERO_PIECE = 1 << 20 };

static void zero_task(void *ctx, int64_t task, int worker)
{
    (void)worker;
    const struct zero_job *j = ctx;
    size_t at = (size_t)task * ZERO_PIECE;
    memset(j->p + at, 0, j->n - at < ZERO_PIECE ? j->n - at : ZERO_PIECE);
}

static void cpu_zero(struct backend *b, struct tensor *x)
{
    struct zero_job j = {x->data, tensor_bytes(x)};
    pool_run(cpu_of(b)->pool, (int64_t)((j.n + ZERO_PIECE - 1) / ZERO_PIECE), zero_task, &j);
}

const struct backend_ops cpu_backend_ops = {
    .abi = BACKEND_ABI,
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .supports = cpu_supports,
    .describe = cpu_describe,
    .memory_free = cpu_memory_free,
    .alloc = cpu_alloc,
    .put = cpu_put,
    .get = cpu_get,
    .sync = cpu_sync,
    .zero = cpu_zero,
    .embed_fwd = cpu_embed_fwd,
    .embed_bwd = cpu_embed_bwd,
    .add_norm_fwd = cpu_add_norm_fwd,
    .add_norm_bwd = cpu_add_norm_bwd,
    .linear_fwd = cpu_linear_fwd,
    .linear_step = cpu_linear_step,
    .bf16_weights = true,
    .host = true,
    .forget = cpu_forget,
    .linear_bwd = cpu_linear_bwd,
    .cast = cpu_cast,
    .gelu_fwd = cpu_gelu_fwd,
    .attention_fwd = cpu_attention_fwd,
    .attention_bwd = cpu_attention_bwd,
    .kv_write = cpu_kv_write,
    .attention_step = cpu_attention_step,
    .classifier = cpu_classifier,
    .sum_squares = cpu_sum_squares,
    .adamw = cpu_adamw,
};
