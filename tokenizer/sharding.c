/* sharding: see sharding.h. EOT stands in front of each document, as in llm.c's data scripts, so a
 * window that starts at a document starts with the mark that eval puts in front of a text.
 */
#include "tokenizer/sharding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "formats/item.h"
#include "tokenizer/bpe.h"

/* One split while it is written. */
struct side {
    struct shard_writer *out;
    struct sha256 hash;
    bool hashing;
    int64_t docs, bytes, tokens;
    struct strs names;
};
enum { TRAIN, TEST };
static const char *const split_names[] = {"train", "test"};

struct sharder {
    const struct sharding *s;
    struct side side[2];
    struct encoder *enc;
    struct ids ids;
    char *hidden; /* ".NAME" */
    int64_t replaced;
    struct progress bar;
};

/* True for "PREFIX_{train,test}_DDDDDD.bin". */
static bool is_shard(struct str file, const char *prefix)
{
    size_t n = strlen(prefix);
    if (!str_starts(file, prefix) || file.n <= n || file.p[n] != '_')
        return false;
    file = (struct str){file.p + n + 1, file.n - n - 1};
    if (!str_starts(file, "train_") && !str_starts(file, "test_"))
        return false;
    str_cut(&file, '_');
    for (size_t i = 0; i < 6; i++) {
        if (i >= file.n || file.p[i] < '0' || file.p[i] > '9')
            return false;
    }
    return file.n == 10 && str_ends(file, ".bin");
}

/* Shards of an earlier run would be read with ours where there is no manifest. */
static int remove_old(const struct sharder *x, struct arena *a, struct err *e)
{
    struct strs names;
    if (!file_is_dir(x->s->dir))
        return 0;
    if (file_list(x->s->dir, &names, a, e))
        return -1;
    for (size_t i = 0; i < names.n; i++) {
        const char *path = path_join(a, x->s->dir, str_dup(a, names.v[i]));
        if (!is_shard(names.v[i], x->s->name) && !is_shard(names.v[i], x->hidden))
            continue;
        if (unlink(path))
            return err_sys(e, "remove %s", path);
    }
    return 0;
}

static int put_doc(struct sharder *x, struct side *side, const struct doc *d, struct err *e)
{
    unsigned char length[8];
    x->ids.n = 0;
    ids_add(&x->ids, x->s->vocab->eot);
    if (encode(x->enc, d->text, &x->ids, e))
        return err_wrap(e, "document %.*s", STR_ARG(d->id));
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)d->text.n >> 8 * i);
    sha256_add(&side->hash, length, sizeof length);
    sha256_add(&side->hash, d->text.p, d->text.n);
    side->docs++;
    side->bytes += (int64_t)d->text.n;
    side->tokens += (int64_t)x->ids.n;
    return shard_put(side->out, x->ids.v, x->ids.n, e);
}

/* All documents of some paths; which split each goes to. */
static int put_paths(struct sharder *x, struct strs paths, int side, double holdout, struct err *e)
{
    struct docs *docs = docs_open(paths, x->s->bad_utf8, e);
    struct doc d;
    int got = -1;
    if (!docs)
        return -1;
    while ((got = docs_next(docs, &d, e)) > 0) {
        int to = holdout > 0 && doc_held_out(d.id, holdout) ? TEST : side;
        if (put_doc(x, &x->side[to], &d, e)) {
            got = -1;
            break;
        }
        progress_set(&x->bar, (side + docs_fraction(docs)) * 100, NULL);
        if (interrupt_raised()) {
            got = err_code(e, EXIT_INCOMPLETE, "interrupted; run it again");
            break;
        }
    }
    x->replaced += docs_replaced(docs);
    docs_close(docs);
    return got;
}

/* Ends both splits and gives the files their names. */
static int finish(struct sharder *x, struct arena *a, struct err *e)
{
    for (int k = 0; k < 2; k++) {
        struct side *s = &x->side[k];
        struct shard_writer *out = s->out;
        s->out = NULL;
        if (shard_finish(out, &s->names, a, e))
            return -1;
    }
    for (int k = 0; k < 2; k++) {
        struct strs *names = &x->side[k].names;
        for (size_t i = 0; i < names->n; i++) {
            const char *from = path_join(a, x->s->dir, str_dup(a, names->v[i]));
            names->v[i] = (struct str){names->v[i].p + 1, names->v[i].n - 1}; /* without the dot */
            const char *to = path_join(a, x->s->dir, str_dup(a, names->v[i]));
            if (rename(from, to))
                return err_sys(e, "rename %s", to);
        }
    }
    return 0;
}

static void fill_info(struct sharder *x, struct shard_info *info, struct arena *a)
{
    const struct vocab *v = x->s->vocab;
    unsigned char digest[2][32];
    char hex[SHA256_HEX];
    for (int k = 0; k < 2; k++) {
        sha256_end(&x->side[k].hash, digest[k]);
        x->side[k].hashing = false;
    }
    sha256_hex((struct str){(const char *)digest, sizeof digest}, hex);
    *info = (struct shard_info){
        .vocab_size = v->size,
        .eot = v->eot,
        .vocab_hash = str_z(arena_strdup(a, v->hash)),
        .text_hash = str_z(arena_strdup(a, hex)),
        .train_tokens = x->side[TRAIN].tokens,
        .test_tokens = x->side[TEST].tokens,
        .train_docs = x->side[TRAIN].docs,
        .test_docs = x->side[TEST].docs,
        .train_bytes = x->side[TRAIN].bytes,
        .test_bytes = x->side[TEST].bytes,
        .train_files = x->side[TRAIN].names,
        .test_files = x->side[TEST].names,
        .token_bytes = {arena_array(a, (size_t)v->size, sizeof(int64_t)), (size_t)v->size},
    };
    for (int64_t id = 0; id < v->size; id++) {
        struct str s;
        if (vocab_kind(v, id) == TOKEN_ORDINARY && vocab_bytes(v, id, &s))
            info->token_bytes.v[id] = (int64_t)s.n;
    }
}

int shard_documents(const struct sharding *s, struct shard_info *info, int64_t *replaced,
                    struct arena *a, struct err *e)
{
    struct sharder x = {.s = s, .hidden = arena_printf(a, ".%s", s->name)};
    double holdout = s->test.n ? 0 : s->holdout;
    int r = -1;
    /* docs_open has applied the policy; what is left to encode under `raw` is left as it is. */
    x.enc = encoder_new(s->vocab, (struct encode_options){.bad_utf8 = s->bad_utf8}, e);
    if (!x.enc || remove_old(&x, a, e))
        goto out;
    for (int k = 0; k < 2; k++) {
        x.side[k].out =
            shard_create(s->dir, x.hidden, split_names[k], s->vocab->size, s->per_shard, e);
        if (!x.side[k].out)
            goto out;
        sha256_begin(&x.side[k].hash);
        x.side[k].hashing = true;
    }
    progress_begin(&x.bar, "shard", "%", s->test.n ? 200 : 100, 0);
    if (put_paths(&x, s->train, TRAIN, holdout, e) ||
        (s->test.n && put_paths(&x, s->test, TEST, 0, e)))
        goto out;
    if (x.side[TRAIN].docs == 0) {
        err_set(e, "all %lld documents are held out (--holdout %g); none is left to train on",
                (long long)x.side[TEST].docs, holdout);
        goto out;
    }
    if (finish(&x, a, e))
        goto out;
    fill_info(&x, info, a);
    *replaced = x.replaced;
    r = 0;
out:
    progress_end(&x.bar);
    for (int k = 0; k < 2; k++) {
        unsigned char digest[32];
        if (x.side[k].hashing)
            sha256_end(&x.side[k].hash, digest);
        shard_abort(x.side[k].out);
    }
    if (r < 0) {
        struct err ignored;
        remove_old(&x, a, &ignored);
    }
    encoder_free(x.enc);
    ids_release(&x.ids);
    return r;
}

/* ---- examples ----------------------------------------------------------------------------- */

static int put_example(const struct vocab *v, const struct template *t, struct encoder *enc,
                       const struct item *it, struct examples_writer *w, struct example_counts *c,
                       struct err *e)
{
    struct buf prompt = {0};
    struct ids ids = {0};
    uint8_t *mask = NULL;
    size_t border;
    int r = -1;
    if (it->reference.n == 0) {
        err_set(e, "it has no output to learn");
        goto out;
    }
    template_prompt(t, it->instruction, it->input, &prompt);
    if (encode(enc, buf_str(&prompt), &ids, e))
        goto out;
    border = ids.n;
    if (encode(enc, it->reference, &ids, e))
        goto out;
    ids_add(&ids, v->eot);
    mask = mem_zero(ids.n);
    memset(mask + border, 1, ids.n - border);
    examples_put(w, ids.v, mask, ids.n);
    c->examples++;
    c->tokens += (int64_t)ids.n;
    c->targets += (int64_t)(ids.n - border);
    c->longest = (int64_t)ids.n > c->longest ? (int64_t)ids.n : c->longest;
    r = 0;
out:
    if (r < 0)
        err_wrap(e, "item %.*s", STR_ARG(it->id));
    free(mask);
    ids_release(&ids);
    buf_release(&prompt);
    return r;
}

int shard_examples(const struct vocab *v, const struct template *t, const char *path,
                   const char *out, struct example_counts *c, struct err *e)
{
    struct items items = {0};
    struct examples_writer *w = NULL;
    struct encoder *enc = NULL;
    int r = -1;
    *c = (struct example_counts){0};
    if (items_load(&items, path, e) || !(enc = encoder_new(v, (struct encode_options){0}, e)) ||
        !(w = examples_create(out, v->size, e)))
        goto out;
    for (size_t i = 0; i < items.n; i++) {
        if (put_example(v, t, enc, &items.v[i], w, c, e)) {
            err_wrap(e, "%s", path);
            goto out;
        }
    }
    r = examples_finish(w, e);
    w = NULL;
out:
    examples_abort(w);
    encoder_free(enc);
    items_release(&items);
    return r;
}
