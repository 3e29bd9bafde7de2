/* documents: see eval/documents.h. */
#include "eval/documents.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"
#include "formats/doc.h"
#include "tokenizer/bpe.h"

struct reader {
    const struct vocab *v;
    struct encoder *encoder;
    struct docs *docs;
    struct ids ids;
    int64_t *bytes; /* of the texts, in order */
    size_t n, cap;
    int64_t context, rolled, words;
    struct sha256 hash;
    struct progress bar;
    double size; /* what the bar counts in all: bytes of the file, or 100 percent */
};

static void hash_part(struct sha256 *h, struct str s)
{
    uint64_t n = s.n;
    sha256_add(h, &n, sizeof n);
    sha256_add(h, s.p, s.n);
}

static int64_t bytes_of(const struct reader *r)
{
    int64_t sum = 0;
    struct str s;
    for (size_t i = 0; i < r->ids.n; i++)
        if (vocab_bytes(r->v, r->ids.v[i], &s))
            sum += (int64_t)s.n;
    return sum;
}

static int64_t words_of(struct str s)
{
    int64_t n = 0;
    bool in = false;
    for (size_t at = 0; at < s.n;) {
        uint32_t c = utf8_next(s, &at);
        bool blank = (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
                     c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
                     c == 0x202F || c == 0x205F || c == 0x3000;
        n += !in && !blank;
        in = !blank;
    }
    return n;
}

static int next(void *ctx, struct loss_doc *out, struct err *e)
{
    struct reader *r = ctx;
    struct doc d;
    progress_set(&r->bar, docs_fraction(r->docs) * r->size,
                 NULL); /* of the texts before this one */
    int rc = docs_next(r->docs, &d, e);
    if (rc <= 0)
        return rc;
    if (docs_once(r->docs, d.id, e))
        return -1;
    r->ids.n = 0;
    if (encode(r->encoder, d.text, &r->ids, e))
        return err_wrap(e, "document %.*s", STR_ARG(d.id));
    int64_t bytes = bytes_of(r);
    if (bytes != (int64_t)d.text.n)
        return err_set(e,
                       "document %.*s has %zu bytes, but its ids stand for %lld: the vocabulary "
                       "does not give it back",
                       STR_ARG(d.id), d.text.n, (long long)bytes);
    hash_part(&r->hash, d.id);
    hash_part(&r->hash, d.text);
    if (r->n == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 256;
        r->bytes = mem_grow(r->bytes, r->cap * sizeof *r->bytes);
    }
    r->bytes[r->n++] = (int64_t)d.text.n;
    r->rolled += (int64_t)r->ids.n + 1 > r->context;
    r->words += words_of(d.text);
    *out = (struct loss_doc){.id = d.id,
                             .ids = r->ids.v,
                             .n = (int64_t)r->ids.n,
                             .bytes = bytes,
                             .oracle_bits = d.oracle_bits};
    return 1;
}

int documents_run(struct local_model *l, const struct vocab *v, struct strs paths,
                  struct documents_result *out, struct err *e)
{
    struct reader r = {.v = v, .context = l->config.context};
    struct encode_options eo = {.special = SPECIAL_PLAIN, .bad_utf8 = BAD_UTF8_REPLACE};
    int32_t eot = local_eot(l, v);
    struct arena a = {0};
    int rc = -1;
    *out = (struct documents_result){
        .units = {.meet = out->units.meet, .keep = out->units.keep},
    };
    sha256_begin(&r.hash);
    r.encoder = encoder_new(v, eo, e);
    if (r.encoder && eot < 0)
        err_set(e, "neither the vocabulary nor the model has an EOT to begin a document with");
    else if (r.encoder)
        r.docs = docs_open(paths, BAD_UTF8_REPLACE, e);
    if (r.docs) {
        int64_t size = paths.n == 1 ? file_size(str_dup(&a, paths.v[0])) : -1;
        r.size = size > 0 ? (double)size : 100;
        progress_begin(&r.bar, "documents", size > 0 ? "bytes" : "percent", r.size, 0);
        rc = loss_documents(l->m, eot, next, &r, &out->units, &out->totals, e);
        progress_set(&r.bar, r.size, NULL);
        progress_end(&r.bar);
        out->replaced = docs_replaced(r.docs);
        docs_close(r.docs);
    }
    sha256_end_hex(&r.hash, out->hash);
    out->rolled = r.rolled;
    out->words = r.words;
    if (rc == 0 && !out->units.n)
        rc = err_set(e, "%.*s holds no documents", STR_ARG(paths.v[0]));
    if (rc == 0 && !out->totals.tokens)
        rc = err_set(e, "%.*s holds empty texts only: nothing of them is predicted but their end",
                     STR_ARG(paths.v[0]));
    if (rc == 0)
        rc = loss_check_oracle(&out->units, r.bytes, &out->gap, e);
    arena_release(&a);
    encoder_free(r.encoder);
    ids_release(&r.ids);
    free(r.bytes);
    return rc;
}

void documents_release(struct documents_result *r)
{
    loss_units_release(&r->units);
}
