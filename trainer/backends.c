/* backends: the registry of devices, see backend.h.
 *
 * A backend lives in this binary or in a shared object beside it, so that one build runs anywhere:
 * libassay_NAME.so (there, or in $ASSAY_LIBDIR) exports
 * `const struct backend_ops *assay_backend(int abi)`, which returns NULL when it was built for
 * another BACKEND_ABI (trainer/object.h).
 */
#include "trainer/backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "trainer/cpu/cpu.h"
#include "trainer/cuda/limits.h"
#include "trainer/object.h"
#include "trainer/ops.h"

static const struct registered {
    const char *name;
    const struct backend_ops *ops; /* NULL: in libassay_NAME.so */
    struct backend_prefers prefers;
} registry[] = {
    /* A GPU is idle below some thousand rows, and its products want borders of 16 bytes: the whole
     * micro-batch goes back at once, 2^29 logits (1 GiB of bf16) are ten thousand rows of GPT-2's, and
     * its 50,257 become 50,304 (393 x 128, as llm.c pads them). */
    {"cuda",
     NULL,
     {.eval_rows = 16384,
      .logits = 1 << 29,
      .vocab_pad = 128,
      .reserve = (int64_t)256 << 20,
      .head_most = CUDA_HEAD_SIZE,
      .width_most = CUDA_NORM_WIDTH}},
    /* Activations of more rows do not stay in the caches, and products gain nothing from more.
     * Gradients are summed in pieces of 128 rows whatever the micro-batch, so it decides no bit: one
     * sequence, or several short ones; more would make a small model's products a tenth faster. 2^23
     * logits are 32 MiB, around a last-level cache. */
    {"cpu",
     &cpu_backend_ops,
     {.pass_rows = 1024, .grain_rows = 128, .eval_rows = 4096, .logits = 1 << 23, .vocab_pad = 1}},
};
enum { REGISTERED = sizeof registry / sizeof *registry };

const struct backend_prefers *backend_prefers(const char *name)
{
    int i = 0;
    while (i < REGISTERED - 1 && strcmp(registry[i].name, name) != 0)
        i++;
    return &registry[i].prefers; /* the last row is the CPU's */
}

int backend_takes(const char *name, int64_t width, int64_t heads, struct err *e)
{
    const struct backend_prefers *p = backend_prefers(name);
    if (p->width_most && width > p->width_most)
        return err_code(e, EXIT_USAGE, "model.width = %lld, on %s there may be %lld",
                        (long long)width, name, (long long)p->width_most);
    if (p->head_most && heads > 0 && width / heads > p->head_most)
        return err_code(e, EXIT_USAGE,
                        "model.heads = %lld of model.width = %lld: heads of %lld, on %s there may "
                        "be %lld; take more heads",
                        (long long)heads, (long long)width, (long long)(width / heads), name,
                        (long long)p->head_most);
    return 0;
}

void backend_fail(struct backend *b, const char *fmt, ...)
{
    if (b->failed)
        return;
    char s[sizeof b->fault.msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s, sizeof s, fmt, ap);
    va_end(ap);
    err_set(&b->fault, "%s", s);
    b->failed = true;
}

static const struct backend_ops *load(const char *name, struct err *e)
{
    /* POSIX says this conversion works; ISO C has no way to write it, so through memory. */
    void *symbol = object_symbol(name, "assay_backend", e);
    const struct backend_ops *(*table)(int abi) = NULL;
    memcpy(&table, &symbol, sizeof table);
    if (!table)
        return NULL;
    const struct backend_ops *ops = table(BACKEND_ABI);
    if (!ops)
        err_set(e, "libassay_%s.so was not built for this tool (want ABI %d)", name, BACKEND_ABI);
    return ops;
}

static int open_one(struct backend *b, const struct registered *r, int device, int threads,
                    struct err *e)
{
    const struct backend_ops *ops = r->ops ? r->ops : load(r->name, e);
    if (!ops)
        return -1;
    const char *lacks = ops_missing(ops);
    if (ops->abi != BACKEND_ABI)
        return err_set(e, "want ABI %d, the table has %d", BACKEND_ABI, ops->abi);
    if (lacks)
        return err_set(e, "the table lacks %s", lacks);
    *b = (struct backend){.ops = ops};
    if (ops->open(b, device, threads, e) < 0) {
        *b = (struct backend){0};
        return -1;
    }
    return 0;
}

/* "cuda (not built), cpu": every name, with the reason when it does not open here. */
static void names(char *out, size_t n, const char *leave_out)
{
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < REGISTERED && at < n; i++) {
        struct backend b;
        struct err why = {0};
        if (leave_out && strcmp(registry[i].name, leave_out) == 0)
            continue;
        bool opens = open_one(&b, &registry[i], 0, 1, &why) == 0;
        if (opens)
            backend_close(&b);
        at += (size_t)snprintf(out + at, n - at, "%s%s%s%.200s%s", at ? ", " : "", registry[i].name,
                               opens ? "" : " (", opens ? "" : why.msg, opens ? "" : ")");
    }
}

void backend_others(const char *name, char *out, size_t n)
{
    names(out, n, name);
}

int backend_open(struct backend *b, const char *name, int device, int threads, struct err *e)
{
    *b = (struct backend){0};
    bool any = !name || !*name || strcmp(name, "auto") == 0;
    char list[sizeof e->msg / 2];
    for (int i = 0; i < REGISTERED; i++) {
        const struct registered *r = &registry[i];
        struct err why = {0};
        if (!any && strcmp(r->name, name) != 0)
            continue;
        /* Any: a machine with fewer devices than ranks has one CPU for all of them. */
        if (open_one(b, r, any && r->ops ? 0 : device, threads, &why) == 0)
            return 0;
        if (any)
            continue;
        names(list, sizeof list, name);
        *e = why;
        return err_set(e, "backend %s: %.400s; others: %s", name, why.msg, list);
    }
    names(list, sizeof list, NULL);
    return any ? err_set(e, "no backend opens: %s", list)
               : err_code(e, EXIT_USAGE, "no backend is named \"%.100s\"; known: %s", name, list);
}

void backend_close(struct backend *b)
{
    if (b->ops)
        b->ops->close(b);
    *b = (struct backend){0};
}

void backend_list(void (*line)(void *ctx, const char *name, const char *state), void *ctx)
{
    for (int i = 0; i < REGISTERED; i++) {
        struct backend b;
        struct err e = {0};
        if (open_one(&b, &registry[i], 0, 0, &e) < 0) {
            line(ctx, registry[i].name, e.msg);
            continue;
        }
        line(ctx, registry[i].name, b.ops->describe(&b));
        backend_close(&b);
    }
}
