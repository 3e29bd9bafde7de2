/* cmd_corpus: `assay corpus`, the known-answer corpus as a stage. */
#include "base/command.h"
#include "base/file.h"
#include "base/log.h"
#include "datasets/corpus.h"
#include "formats/manifest.h"

struct options {
    struct str out;
    int64_t docs, seed;
};
#define AT(m) offsetof(struct options, m)
static const struct field fields[] = {
    {"out", FIELD_STR, AT(out), NULL, .help = "folder to write", .flags = FIELD_VOLATILE},
    {"docs", FIELD_I64, AT(docs), "20000", .min = 1, .max = 1e9, .help = "documents to draw"},
    {"seed", FIELD_I64, AT(seed), "1", .min = 0, .max = 9e15, .help = "seed of the documents"},
    {0},
};
#undef AT
static const struct schema options = {"corpus", 1, sizeof(struct options), fields};

struct totals {
    int64_t bytes;
    double bits;
};

static int write_docs(const struct grammar *g, const struct options *o, const char *path,
                      struct totals *t, struct err *e)
{
    struct file_out f = {0};
    struct buf text = {0}, line = {0};
    int rc = file_create(&f, path, e);
    for (int64_t i = 0; !rc && i < o->docs; i++) {
        struct arena a = {0};
        struct doc d = corpus_doc(g, (uint64_t)o->seed, i, &text, &a);
        buf_cut(&line, 0);
        doc_write(&d, &line);
        t->bytes += (int64_t)d.text.n;
        t->bits += d.oracle_bits;
        rc = file_puts(&f, buf_str(&line), e);
        arena_release(&a);
    }
    if (!rc)
        rc = file_commit(&f, e);
    file_abort(&f);
    buf_release(&text);
    buf_release(&line);
    return rc;
}

/* Takes v. */
static int write_json(const char *path, struct json *v, struct err *e)
{
    struct buf b = {0};
    json_write_pretty(v, &b);
    json_free(v);
    int rc = file_write_all(path, buf_str(&b), e);
    buf_release(&b);
    return rc;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    const struct options *o = opt;
    const char *dir = str_dup(a, o->out);
    const char *docs = path_join(a, dir, "docs.jsonl"), *asks = path_join(a, dir, "instruct.json"),
               *truth = path_join(a, dir, "truth.json");
    struct stage st;
    struct grammar g = {0};
    struct totals t = {0};
    int rc = -1;
    stage_begin(&st, "corpus", 1, dir, &options, o);
    if (stage_fresh(&st)) {
        rc = 0;
        goto out;
    }
    if (corpus_grammar(&g, e) || file_mkdirs(dir, e) || stage_start(&st, e))
        goto out;
    if (write_docs(&g, o, docs, &t, e) || write_json(asks, corpus_instructions(), e) ||
        write_json(truth, corpus_truth(&g), e))
        goto out;
    if (stage_output(&st, docs, e) || stage_output(&st, asks, e) || stage_output(&st, truth, e))
        goto out;
    stage_fact(&st, "docs", json_of_int(o->docs));
    stage_fact(&st, "bytes", json_of_int(t.bytes));
    stage_fact(&st, "oracle_bits", json_of_num(t.bits));
    stage_fact(&st, "oracle_bits_byte", json_of_num(t.bits / (double)t.bytes));
    stage_fact(&st, "facts", json_of_int(CORPUS_PEOPLE * CORPUS_KINDS));
    stage_fact(&st, "questions", json_of_int(CORPUS_PEOPLE * CORPUS_KINDS * CORPUS_QUESTIONS));
    rc = stage_end(&st, e);
    if (!rc)
        log_info("%s: %lld documents, %lld bytes, oracle %.4f bits/byte", dir, (long long)o->docs,
                 (long long)t.bytes, t.bits / (double)t.bytes);
out:
    grammar_release(&g);
    stage_release(&st);
    return rc;
}

const struct command cmd_corpus = {
    .room = "datasets",
    .name = "corpus",
    .summary = "write the known-answer corpus: documents, questions, truth",
    .details =
        "docs.jsonl has one document a line {id, text, oracle_bits}: oracle_bits is -log2 of the\n"
        "document's probability, its end included, so their mean is the lowest loss there is.\n"
        "instruct.json has the questions about its facts {id, instruction, input, output, "
        "cluster,\n"
        "split, choices, graded}; truth.json the facts and the grammar with its weights.\n"
        "Facts and questions do not depend on the seed. Never de-duplicate this corpus.",
    .options = &options,
    .run = run,
};
