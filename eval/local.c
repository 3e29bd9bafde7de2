/* local: see eval/local.h. */
#include "eval/local.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "formats/checkpoint.h"
#include "trainer/ranks.h"

/* The first digits of a hash. */
static struct str digits(struct str hash)
{
    hash.n = hash.n < 12 ? hash.n : 12;
    return hash;
}

/* Of several ranks on one machine each takes its device, or its share of the cores. */
static int open_backend(struct local_model *l, const struct local_options *o, struct err *e)
{
    bool cpu = o->backend && strcmp(o->backend, "cpu") == 0;
    int threads = (int)o->threads, device = o->meet && !cpu ? ranks_device(o->meet) : 0;
    if (o->meet && !threads) {
        threads = thread_cpus() / o->meet->local_world;
        threads = threads > 0 ? threads : 1;
    }
    if (backend_open(&l->backend, o->backend, device, threads, e))
        return -1;
    return o->meet && ranks_own_device(o->meet, &l->backend, e) ? -1 : 0;
}

int local_open(struct local_model *l, const char *dir, const struct local_options *o, struct err *e)
{
    *l = (struct local_model){.open = true};
    const char *found = checkpoint_resolve(&l->arena, dir, e);
    if (!found)
        return -1;
    l->dir = found;
    if (gpt2_config_of(l->dir, &l->config, &l->eos, e) || open_backend(l, o, e))
        return -1;
    int64_t batch = o->batch > 0 ? o->batch : o->rows(l->config.context);
    const struct backend_ops *ops = l->backend.ops;
    /* Where nothing computes in bf16 the weights may still be read in it. */
    bool narrow = o->precision == PRECISION_BF16 && ops->bf16_weights &&
                  !ops->supports(&l->backend, DTYPE_BF16);
    if (!narrow && ops->bf16_weights && gpt2_precision(&l->backend, o->precision, e))
        return err_wrap(e, "on the %s backend weights are fp32 or bf16", ops->name);
    struct gpt2_use use = {.batch = batch,
                           .length = l->config.context,
                           .decode = o->decode,
                           .precision = narrow ? PRECISION_FP32 : o->precision,
                           .bf16_weights = narrow};
    l->precision = narrow ? "bf16 weights" : precision_names[o->precision];
    l->m = gpt2_new(&l->backend, &l->config, &use, e);
    if (!l->m || gpt2_load(l->m, l->dir, e))
        return err_wrap(e, "model %s", dir);
    return 0;
}

void local_close(struct local_model *l)
{
    if (!l->open)
        return;
    gpt2_free(l->m);
    backend_close(&l->backend);
    arena_release(&l->arena);
    *l = (struct local_model){0};
}

const char *local_own_vocab(const char *dir, struct arena *a)
{
    static const char *const names[] = {"tokenizer.json", "vocab.tiktoken", "vocab.json",
                                        "encoder.json", NULL};
    for (int i = 0; names[i]; i++)
        if (file_exists(path_join(a, dir, names[i])))
            return i < 2 ? path_join(a, dir, names[i]) : dir;
    return NULL;
}

/* Another vocabulary than the folder's own file is refused. 1: there is none. */
static int same_as_file(const char *path, const char *what, struct str hash, struct err *e)
{
    struct vocab own = {0};
    struct err unread; /* what cannot be read says nothing */
    if (!path || vocab_load(&own, path, NULL, &unread))
        return 1;
    int rc = 0;
    if (!str_eqz(hash, own.hash))
        rc = err_code(e, EXIT_USAGE,
                      "%s: vocabulary %.*s, but the checkpoint brings its own, %s (%.12s): its "
                      "ids mean other text, use that one",
                      what, STR_ARG(digits(hash)), path, own.hash);
    vocab_release(&own);
    return rc;
}

/* Can a model of `head` ids be one of `size` ids? A head may be padded, for speed, to the next multiple
 * of a power of two, 64 or more: what lies above is never an id. */
static bool head_fits(int64_t head, int64_t size)
{
    for (int64_t to = 64; to == 64 || (to <= 1024 && to <= size); to *= 2)
        if (head == (size + to - 1) / to * to)
            return true;
    return head == size;
}

int local_same_vocab(const struct local_model *l, const char *what, struct str hash, int64_t size,
                     struct err *e)
{
    struct arena a = {0};
    struct str trained = manifest_vocab(&a, l->dir);
    int rc = 1;
    if (hash.n && trained.n && !str_eq(hash, trained))
        rc = err_code(
            e, EXIT_USAGE,
            "%s: vocabulary %.*s, but %s was trained with another, %.*s as its manifest "
            "says: its ids mean other text, give that one (--vocab; [vocab] from in a run)",
            what, STR_ARG(digits(hash)), l->dir, STR_ARG(digits(trained)));
    else if (hash.n && trained.n)
        rc = 0;
    else if (hash.n)
        rc = same_as_file(local_own_vocab(l->dir, &a), what, hash, e);
    if (rc > 0 && size && !head_fits(l->config.vocab, size))
        rc = err_code(e, EXIT_USAGE,
                      "%s: a vocabulary of %lld ids, but %s has %lld, and is not padded from it to "
                      "a multiple of 64: it was trained with another; give that one",
                      what, (long long)size, l->dir, (long long)l->config.vocab);
    if (rc > 0 && !size)
        log_info("%s: whether its vocabulary is the one that %s was trained with is not known: it "
                 "says neither which it is nor how many ids it has",
                 what, l->dir);
    else if (rc > 0)
        log_info("%s: whether its vocabulary is the one that %s was trained with is known by its "
                 "size only (%lld ids, the model has %lld): %s",
                 what, l->dir, (long long)size, (long long)l->config.vocab,
                 hash.n ? "neither a vocabulary nor a manifest in the checkpoint's folder says more"
                        : "it does not say which it is");
    arena_release(&a);
    return rc < 0 ? -1 : 0;
}

int local_vocab(const struct local_model *l, const char *path, struct vocab *v, struct err *e)
{
    struct arena a = {0};
    int rc = -1;
    bool given = path && *path;
    if (!given)
        path = local_own_vocab(l->dir, &a);
    if (!path)
        err_code(e, EXIT_USAGE, "%s holds no vocabulary: say which with --vocab FILE", l->dir);
    else if (vocab_load(v, path, NULL, e) == 0)
        rc = 0;
    if (rc == 0 && v->size > l->config.vocab)
        rc = err_set(e, "%s has ids up to %lld, but the model %s knows only %lld", path,
                     (long long)v->size - 1, l->dir, (long long)l->config.vocab);
    else if (rc == 0)
        rc = local_same_vocab(l, path, str_z(v->hash), v->size, e);
    if (rc)
        vocab_release(v);
    arena_release(&a);
    return rc;
}

int32_t local_eot(const struct local_model *l, const struct vocab *v)
{
    if (v && v->eot >= 0)
        return v->eot;
    return l->eos >= 0 && l->eos < l->config.vocab ? (int32_t)l->eos : -1;
}
