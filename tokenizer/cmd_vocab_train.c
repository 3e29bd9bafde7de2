/* cmd_vocab_train: `assay vocab train`, a vocabulary from documents, as a stage. */
#include <stdlib.h>

#include "base/command.h"
#include "base/file.h"
#include "base/log.h"
#include "base/regex.h"
#include "base/thread.h"
#include "formats/doc.h"
#include "formats/manifest.h"
#include "tokenizer/train.h"

enum { STAGE_VERSION = 1 };

struct options {
    struct strs in;
    struct str out, pattern, eot;
    int64_t size;
    double holdout;
    int bad_utf8;
};
#define AT(m) offsetof(struct options, m)
static const struct field fields[] = {
    {"in", FIELD_STRS, AT(in), NULL,
     .help = "documents (.txt, .jsonl, each plain, .gz or .zst, or folders)",
     .flags = FIELD_VOLATILE},
    {"size", FIELD_I64, AT(size), NULL, .min = 257, .max = 16777216,
     .help = "tokens, the 256 bytes and end-of-text included"},
    {"out", FIELD_STR, AT(out), NULL, .help = "file to write: .tiktoken or .json (Hugging Face)",
     .flags = FIELD_VOLATILE},
    {"pattern", FIELD_STR, AT(pattern), "gpt2",
     .help = "split pattern: gpt2, cl100k, o200k, llama3, qwen2"},
    {"eot", FIELD_STR, AT(eot), VOCAB_EOT, .help = "text of the end-of-text token"},
    {"holdout", FIELD_F64, AT(holdout), "0", .min = 0, .max = 0.999,
     .help = "leave out the documents that `shard --holdout` with this share holds out"},
    {"bad_utf8", FIELD_ENUM, AT(bad_utf8), "replace", .choices = bad_utf8_names,
     .help = "bytes that are no UTF-8 become U+FFFD or stop the run (raw: stop as well)"},
    {0},
};
#undef AT
static const struct schema options = {"vocab train", 1, sizeof(struct options), fields};

struct totals {
    int64_t docs, bytes, pieces, distinct;
};

static int count(struct trainer *t, const struct options *o, struct totals *n, struct err *e)
{
    struct docs *docs = docs_open(o->in, (enum bad_utf8)o->bad_utf8, e);
    struct progress bar = {0};
    struct doc d;
    int got;
    if (!docs)
        return -1;
    progress_begin(&bar, "reading", "%", 100, 0);
    while ((got = docs_next(docs, &d, e)) > 0) {
        if (o->holdout > 0 && doc_held_out(d.id, o->holdout))
            continue;
        if (trainer_add(t, d.text, e)) {
            got = err_wrap(e, "document %.*s", STR_ARG(d.id));
            break;
        }
        n->docs++;
        n->bytes += (int64_t)d.text.n;
        progress_set(&bar, docs_fraction(docs) * 100, NULL);
        if (interrupt_raised()) {
            got = err_code(e, EXIT_INCOMPLETE, "interrupted; run it again");
            break;
        }
    }
    progress_end(&bar);
    docs_close(docs);
    n->pieces = trainer_pieces(t);
    n->distinct = trainer_distinct(t);
    return got;
}

static int learn(struct vocab *v, const struct options *o, struct totals *n, struct err *e)
{
    const struct split_pattern *p = split_find(o->pattern, e);
    struct trainer *t = p ? trainer_new(p, e) : NULL;
    struct merge *merges = NULL;
    size_t got;
    int r = -1;
    if (t && count(t, o, n, e) == 0 && trainer_run(t, (size_t)o->size - 257, &merges, &got, e) == 0)
        r = vocab_trained(v, merges, got, p, o->eot, e);
    free(merges);
    trainer_free(t);
    return r;
}

/* What the file cannot say (vocab_read.c reads it back), and where it is from. */
static void put_facts(struct stage *st, const struct vocab *v, const struct totals *n)
{
    struct json *specials = json_obj();
    struct buf text = {0};
    for (size_t i = 0; i < v->nspecial; i++) {
        buf_cut(&text, 0);
        buf_adds(&text, v->special[i].text);
        json_put(specials, text.p, json_of_int(v->special[i].id));
    }
    stage_fact(st, "size", json_of_int(v->size));
    stage_fact(st, "ordinary", json_of_int(v->ordinary));
    stage_fact(st, "pattern", json_of_z(v->pattern->name));
    stage_fact(st, "eot", json_of_int(v->eot));
    stage_fact(st, "eot_text", json_of_str(v->bytes[v->eot]));
    stage_fact(st, "specials", specials);
    stage_fact(st, "vocab_hash", json_of_z(v->hash));
    stage_fact(st, "unicode", json_of_z(regex_unicode()));
    stage_fact(st, "docs", json_of_int(n->docs));
    stage_fact(st, "bytes", json_of_int(n->bytes));
    stage_fact(st, "pieces", json_of_int(n->pieces));
    stage_fact(st, "distinct_pieces", json_of_int(n->distinct));
    buf_release(&text);
}

static int check_options(const struct options *o, struct err *e)
{
    if (!str_ends(o->out, ".tiktoken") && !str_ends(o->out, ".json"))
        return err_code(e, EXIT_USAGE, "--out %.*s: want a name that ends in .tiktoken or .json",
                        STR_ARG(o->out));
    if (o->eot.n == 0 || utf8_valid(o->eot) != o->eot.n)
        return err_code(e, EXIT_USAGE, "--eot wants a text");
    return split_find(o->pattern, e) ? 0 : -1;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    const struct options *o = opt;
    const char *out = str_dup(a, o->out);
    struct vocab v = {0};
    struct stage st = {0};
    struct totals n = {0};
    int r = -1;
    if (check_options(o, e))
        goto out;
    stage_begin(&st, "vocab train", STAGE_VERSION, out, &options, o);
    stage_setting(&st, "format", str_ends(o->out, ".json") ? "tokenizer.json" : "tiktoken");
    for (size_t i = 0; i < o->in.n; i++) {
        if (stage_input(&st, str_dup(a, o->in.v[i]), e))
            goto out;
    }
    if (stage_fresh(&st)) {
        r = 0;
        goto out;
    }
    if (learn(&v, o, &n, e) || stage_start(&st, e) || vocab_save(&v, out, e) ||
        stage_output(&st, out, e))
        goto out;
    put_facts(&st, &v, &n);
    r = stage_end(&st, e);
    if (r == 0)
        log_info("%s: %lld tokens from %lld documents, %lld bytes, %lld distinct pieces", out,
                 (long long)v.size, (long long)n.docs, (long long)n.bytes, (long long)n.distinct);
out:
    vocab_release(&v);
    stage_release(&st);
    return r;
}

const struct command cmd_vocab_train = {
    .room = "tokenizer",
    .name = "vocab train",
    .summary = "train a byte-level BPE vocabulary on documents",
    .details =
        "The most frequent pair of neighbours becomes a token until there are --size of them; of\n"
        "equally frequent pairs the one with the smaller ids. The order of documents, files and\n"
        "threads does not matter. A .tiktoken file says neither pattern nor end-of-text token: "
        "they\n"
        "are in the manifest beside it, which every command reads along.",
    .options = &options,
    .run = run,
};
