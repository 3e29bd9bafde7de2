/* cmd_shard: `assay shard`: documents to token shards, --instruct: items to example shards. */
#include <math.h>

#include "base/command.h"
#include "base/file.h"
#include "base/log.h"
#include "formats/manifest.h"
#include "tokenizer/sharding.h"

enum { STAGE_VERSION = 1 };

struct options {
    struct str vocab, out, name, pattern, eot, template_, val;
    struct strs in, test;
    double holdout;
    int64_t shard_tokens;
    int bad_utf8;
    bool instruct;
};
#define AT(m) offsetof(struct options, m)
/* Paths are volatile: what is in them decides, and that goes into the key as inputs. */
static const struct field fields[] = {
    {"vocab", FIELD_STR, AT(vocab), NULL, .help = "vocabulary: a file or its folder",
     .flags = FIELD_VOLATILE},
    {"in", FIELD_STRS, AT(in), NULL,
     .help = "documents (.txt, .jsonl, each plain, .gz or .zst, or folders); --instruct: items",
     .flags = FIELD_VOLATILE},
    {"test", FIELD_STRS, AT(test), "", .help = "held-out documents", .flags = FIELD_VOLATILE},
    {"val", FIELD_STR, AT(val), "", .help = "--instruct: items for validation",
     .flags = FIELD_VOLATILE},
    {"out", FIELD_STR, AT(out), NULL, .help = "folder to write", .flags = FIELD_VOLATILE},
    {"holdout", FIELD_F64, AT(holdout), "0.01", .min = 0, .max = 0.999,
     .help = "share of the documents held out by the hash of their ids, without --test"},
    {"shard_tokens", FIELD_I64, AT(shard_tokens), "100M", .min = 1, .max = SHARD_MOST_TOKENS,
     .help = "tokens in a file; so many wait in memory"},
    {"name", FIELD_STR, AT(name), "shard", .help = "first part of the files' names"},
    {"bad_utf8", FIELD_ENUM, AT(bad_utf8), "replace", .choices = bad_utf8_names,
     .help = "bytes that are no UTF-8 become U+FFFD, stop the run, or stay"},
    {"instruct", FIELD_BOOL, AT(instruct), "false",
     .help = "write example shards with loss masks for finetune"},
    {"template", FIELD_STR, AT(template_), "alpaca",
     .help = "--instruct: prompt template, a name or a file", .flags = FIELD_VOLATILE},
    {"pattern", FIELD_STR, AT(pattern), "",
     .help = "split pattern: gpt2, cl100k, o200k, llama3, qwen2; default: what the vocabulary says",
     .flags = FIELD_VOLATILE},
    {"eot", FIELD_STR, AT(eot), "",
     .help = "text of the end-of-text token; default: what the vocabulary says",
     .flags = FIELD_VOLATILE},
    {0},
};
#undef AT
static const struct schema options = {"shard", 1, sizeof(struct options), fields};

static int open_vocab(struct vocab *v, const struct options *o, struct arena *a, struct err *e)
{
    const char *path = str_dup(a, o->vocab);
    struct vocab_options vo = {.pattern = o->pattern, .eot = o->eot};
    if (vocab_load(v, path, &vo, e))
        return -1;
    if (v->note.n)
        log_warn("%s: %.*s", path, STR_ARG(v->note));
    if (v->eot < 0) {
        vocab_release(v);
        return err_code(e, EXIT_USAGE, "%s has no end-of-text token %s; --eot names another", path,
                        VOCAB_EOT);
    }
    return 0;
}

static int add_inputs(struct stage *st, struct strs paths, const char *what, struct arena *a,
                      struct err *e)
{
    stage_setting(st, what, arena_printf(a, "%zu", paths.n));
    for (size_t i = 0; i < paths.n; i++) {
        if (stage_input(st, str_dup(a, paths.v[i]), e))
            return -1;
    }
    return 0;
}

/* Fields of the manifest's facts, which are a struct shard_info. */
static void put_facts(struct stage *st, const struct shard_info *info)
{
    struct json *facts = json_of_struct(&shard_info_schema, info, false);
    const struct json *value;
    const char *key;
    void *it = NULL;
    while (json_each(facts, &it, &key, &value))
        stage_fact(st, key, json_clone(value));
    json_free(facts);
}

static int run_documents(const struct options *o, const struct vocab *v, struct stage *st,
                         struct arena *a, struct err *e)
{
    struct sharding s = {
        .vocab = v,
        .dir = st->out,
        .name = str_dup(a, o->name),
        .train = o->in,
        .test = o->test,
        .holdout = o->holdout,
        .per_shard = o->shard_tokens,
        .bad_utf8 = (enum bad_utf8)o->bad_utf8,
    };
    struct shard_info info;
    int64_t replaced;
    if (shard_documents(&s, &info, &replaced, a, e))
        return -1;
    for (int k = 0; k < 2; k++) {
        struct strs names = k ? info.test_files : info.train_files;
        for (size_t i = 0; i < names.n; i++) {
            if (stage_output(st, path_join(a, st->out, str_dup(a, names.v[i])), e))
                return -1;
        }
    }
    put_facts(st, &info);
    if (replaced)
        log_warn("%lld documents had bytes that are no UTF-8; they became U+FFFD",
                 (long long)replaced);
    if (info.test_docs == 0 && o->holdout > 0)
        log_warn("no document fell into the held-out %g of them: no test split", o->holdout);
    log_info("%s: train %lld documents, %lld tokens; test %lld documents, %lld tokens", st->out,
             (long long)info.train_docs, (long long)info.train_tokens, (long long)info.test_docs,
             (long long)info.test_tokens);
    return 0;
}

static int run_examples(const struct options *o, const struct vocab *v, const struct template *t,
                        struct stage *st, struct arena *a, struct err *e)
{
    static const char *const files[] = {"train.bin", "val.bin"};
    for (int k = 0; k < (o->val.n ? 2 : 1); k++) {
        const char *items = str_dup(a, k ? o->val : o->in.v[0]);
        const char *path = path_join(a, st->out, files[k]);
        struct example_counts c;
        struct json *fact;
        if (shard_examples(v, t, items, path, &c, e) || stage_output(st, path, e))
            return -1;
        fact = json_obj();
        json_put(fact, "examples", json_of_int(c.examples));
        json_put(fact, "tokens", json_of_int(c.tokens));
        json_put(fact, "targets", json_of_int(c.targets));
        json_put(fact, "longest", json_of_int(c.longest));
        stage_fact(st, k ? "val" : "train", fact);
        log_info("%s: %lld examples, %lld tokens, %lld of them targets", path,
                 (long long)c.examples, (long long)c.tokens, (long long)c.targets);
    }
    stage_fact(st, "vocab_size", json_of_int(v->size));
    stage_fact(st, "vocab_hash", json_of_z(v->hash));
    stage_fact(st, "eot", json_of_int(v->eot));
    stage_fact(st, "template", json_of_z(t->name));
    stage_fact(st, "template_hash", json_of_z(t->hash));
    return 0;
}

static int check_options(const struct options *o, struct err *e)
{
    if (o->name.n == 0 || o->name.p[0] == '.' || str_find(o->name, STR_LIT("/")) >= 0)
        return err_code(e, EXIT_USAGE, "--name \"%.*s\" is not the start of a file name",
                        STR_ARG(o->name));
    if (o->instruct && (o->in.n != 1 || o->test.n))
        return err_code(e, EXIT_USAGE, "--instruct wants one --in and no --test");
    if (!o->instruct && o->val.n)
        return err_code(e, EXIT_USAGE, "--val goes with --instruct; held-out documents are --test");
    return 0;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    const struct options *o = opt;
    const char *dir = str_dup(a, o->out);
    struct vocab v = {0};
    struct template t = {0};
    struct stage st = {0};
    int r = -1;
    if (check_options(o, e) || open_vocab(&v, o, a, e))
        goto out;
    if (o->instruct && template_load(&t, str_dup(a, o->template_), a, e))
        goto out;
    stage_begin(&st, "shard", STAGE_VERSION, dir, &options, o);
    stage_setting(&st, "vocab_hash", v.hash);
    if (o->instruct)
        stage_setting(&st, "template_hash", t.hash);
    if (stage_input(&st, str_dup(a, o->vocab), e) || add_inputs(&st, o->in, "train inputs", a, e) ||
        add_inputs(&st, o->test, "test inputs", a, e) ||
        (o->val.n && stage_input(&st, str_dup(a, o->val), e)))
        goto out;
    if (stage_fresh(&st)) {
        r = 0;
        goto out;
    }
    if (file_mkdirs(dir, e) || stage_start(&st, e))
        goto out;
    r = o->instruct ? run_examples(o, &v, &t, &st, a, e) : run_documents(o, &v, &st, a, e);
    if (r == 0)
        r = stage_end(&st, e);
out:
    stage_release(&st);
    vocab_release(&v);
    return r;
}

const struct command cmd_shard = {
    .room = "tokenizer",
    .name = "shard",
    .summary = "documents to train and test token shards; --instruct: items to example shards",
    .details =
        "Files are NAME_train_000000.bin... and NAME_test_000000.bin... in llm.c's layout; each\n"
        "document is the end-of-text token and its own. Special tokens' text in a document is "
        "text.\n"
        "Held out are the documents of --test, else the share --holdout of --in by the hash of\n"
        "their ids. manifest.json has the counts, the vocabulary's hash and the bytes of each id.\n"
        "--instruct writes train.bin and val.bin: prompt, answer and end-of-text, with a mask "
        "that\n"
        "is 1 on the answer and the end. Prompt and answer are encoded apart: no token crosses\n"
        "the border.",
    .options = &options,
    .run = run,
};
