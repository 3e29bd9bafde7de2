/* cmd_split: `assay split`, documents and instructions sorted into train, val and test. */
#include "base/command.h"
#include "base/file.h"
#include "base/log.h"
#include "datasets/split.h"
#include "formats/manifest.h"

struct options {
    struct str out;
    struct strs in, test_in;
    double holdout;
    bool clean;
    int bad_utf8;
    int64_t paragraphs;
    struct str instruct;
    double instruct_test, instruct_val;
};
#define AT(m) offsetof(struct options, m)
/* Paths are volatile: the hashes of inputs decide, and their names (see name_inputs). */
static const struct field fields[] = {
    {"out", FIELD_STR, AT(out), NULL, .help = "folder to write", .flags = FIELD_VOLATILE},
    {"in", FIELD_STRS, AT(in), "", .help = "documents: .txt, .jsonl, folders; may be repeated",
     .flags = FIELD_VOLATILE},
    {"test_in", FIELD_STRS, AT(test_in), "", .help = "test documents; then --in is all train",
     .flags = FIELD_VOLATILE},
    {"holdout", FIELD_F64, AT(holdout), "0.01", .min = 0, .max = 1,
     .help = "share of documents for test, by hash of the id; 0: no test file"},
    {"clean", FIELD_BOOL, AT(clean), "no",
     .help = "byte order mark away, CR LF to LF, blank-line runs to one"},
    {"bad_utf8", FIELD_ENUM, AT(bad_utf8), "replace", .choices = bad_utf8_names,
     .help = "text that is not UTF-8"},
    {"paragraphs", FIELD_I64, AT(paragraphs), "0", .min = 0, .max = 1e9,
     .help = "cut longer texts at blank lines into pieces of about this many bytes; 0: off"},
    {"instruct", FIELD_STR, AT(instruct), "", .help = "instructions: .json, .jsonl or .msgpack",
     .flags = FIELD_VOLATILE},
    {"instruct_test", FIELD_F64, AT(instruct_test), "0.1", .min = 0, .max = 1,
     .help = "share of instructions for test, if they name no split"},
    {"instruct_val", FIELD_F64, AT(instruct_val), "0.05", .min = 0, .max = 1,
     .help = "share of instructions for validation, the tail of the file"},
    {0},
};
#undef AT
static const struct schema options = {"split", 1, sizeof(struct options), fields};

/* Inputs enter the key by hash, and by name because names make ids; roles by the setting's name. */
static int name_inputs(struct stage *st, const char *role, struct strs paths, struct arena *a,
                       struct err *e)
{
    struct buf names = {0};
    int rc = 0;
    for (size_t i = 0; i < paths.n && !rc; i++) {
        const char *path = str_dup(a, paths.v[i]);
        buf_printf(&names, "%s%s", i ? " " : "", path_base(path));
        rc = stage_input(st, path, e);
    }
    if (paths.n)
        stage_setting(st, role, names.p);
    buf_release(&names);
    return rc;
}

static void docs_facts(struct stage *st, const struct split_counts *n)
{
    stage_fact(st, "train_docs", json_of_int(n->train_docs));
    stage_fact(st, "train_bytes", json_of_int(n->train_bytes));
    stage_fact(st, "test_docs", json_of_int(n->test_docs));
    stage_fact(st, "test_bytes", json_of_int(n->test_bytes));
    stage_fact(st, "bad_utf8_docs", json_of_int(n->replaced));
    stage_fact(st, "cleaned_docs", json_of_int(n->cleaned));
    stage_fact(st, "cut_docs", json_of_int(n->cut));
    log_info("%lld documents to train (%lld bytes), %lld to test (%lld bytes)",
             (long long)n->train_docs, (long long)n->train_bytes, (long long)n->test_docs,
             (long long)n->test_bytes);
    if (n->replaced)
        log_warn("%lld documents had bytes that are not UTF-8", (long long)n->replaced);
}

static int write_docs(struct stage *st, const struct options *o, const char *dir, struct arena *a,
                      struct err *e)
{
    const char *train = path_join(a, dir, "train.jsonl"), *test = path_join(a, dir, "test.jsonl");
    struct split_docs d = {o->in, o->test_in, o->holdout, o->clean, o->bad_utf8, o->paragraphs};
    struct split_counts n;
    if (split_docs(&d, train, test, &n, e) || stage_output(st, train, e))
        return -1;
    if (n.test_docs && stage_output(st, test, e))
        return -1;
    docs_facts(st, &n);
    return 0;
}

static void items_facts(struct stage *st, const struct items part[SPLIT_PARTS])
{
    struct json *v = split_duplicates(part);
    size_t in_test = json_size(json_get(v, "test_in_train")),
           in_val = json_size(json_get(v, "val_in_train"));
    for (int k = 0; k < SPLIT_PARTS; k++)
        json_put(v, split_names[k], json_of_int((int64_t)part[k].n));
    log_info("%zu instructions to train, %zu to val, %zu to test; %lld of %lld prompts differ",
             part[SPLIT_TRAIN].n, part[SPLIT_VAL].n, part[SPLIT_TEST].n,
             (long long)json_int(json_get(v, "distinct_prompts"), 0),
             (long long)json_int(json_get(v, "items"), 0));
    if (in_test || in_val)
        log_warn("%zu test and %zu validation prompts also occur in train; the manifest names them",
                 in_test, in_val);
    stage_fact(st, "instruct", v);
}

static int write_items(struct stage *st, const struct options *o, const char *dir, struct arena *a,
                       struct err *e)
{
    struct items all = {0}, part[SPLIT_PARTS] = {{0}};
    int rc = -1;
    if (items_load(&all, str_dup(a, o->instruct), e))
        return -1;
    if (split_items(&all, o->instruct_test, o->instruct_val, part, e)) {
        err_wrap(e, "split %.*s", STR_ARG(o->instruct));
        goto out;
    }
    for (int k = 0; k < SPLIT_PARTS; k++) {
        const char *path =
            path_join(a, dir, arena_printf(a, "instruct_%s.msgpack", split_names[k]));
        if (items_save(&part[k], path, e) || stage_output(st, path, e))
            goto out;
    }
    items_facts(st, part);
    rc = 0;
out:
    split_items_release(part);
    items_release(&all);
    return rc;
}

static int check(const struct options *o, struct err *e)
{
    if (!o->in.n && !o->instruct.n)
        return err_code(e, EXIT_USAGE, "split: give --in, --instruct, or both");
    if (o->test_in.n && !o->in.n)
        return err_code(e, EXIT_USAGE, "split: --test-in without --in leaves nothing to train on");
    if (o->instruct_test + o->instruct_val >= 1)
        return err_code(e, EXIT_USAGE,
                        "split: --instruct-test %g and --instruct-val %g leave nothing to train on",
                        o->instruct_test, o->instruct_val);
    return 0;
}

static int run(void *opt, struct arena *a, struct err *e)
{
    struct options *o = opt;
    struct str one = o->instruct;
    const char *dir = str_dup(a, o->out);
    struct stage st;
    int rc = -1;
    if (check(o, e))
        return -1;
    stage_begin(&st, "split", 1, dir, &options, o);
    if (name_inputs(&st, "in", o->in, a, e) || name_inputs(&st, "test_in", o->test_in, a, e) ||
        name_inputs(&st, "instruct", (struct strs){&one, one.n ? 1 : 0}, a, e))
        goto out;
    if (stage_fresh(&st)) {
        rc = 0;
        goto out;
    }
    if (file_mkdirs(dir, e) || stage_start(&st, e))
        goto out;
    if ((o->in.n && write_docs(&st, o, dir, a, e)) || (one.n && write_items(&st, o, dir, a, e)))
        goto out;
    rc = stage_end(&st, e);
out:
    stage_release(&st);
    return rc;
}

const struct command cmd_split = {
    .room = "datasets",
    .name = "split",
    .summary = "sort documents and instructions into train, val and test",
    .details =
        "A document is held out if the hash of its id falls into --holdout, so more input moves\n"
        "nothing. DIR gets train.jsonl and test.jsonl. Instructions that name a split keep it;\n"
        "others go in file order to train | test | val (1,100 items: 935, 110, 55). DIR gets\n"
        "instruct_train.msgpack, instruct_val.msgpack and instruct_test.msgpack. Prompts of test\n"
        "or val that also occur in train are counted, said, and named in the manifest.\n"
        "--paragraphs N cuts texts longer than N bytes at blank lines, or line ends where there\n"
        "are none, into documents NAME#0001...",
    .options = &options,
    .run = run,
};
