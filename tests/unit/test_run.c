/* the run file: every default is in its range, every key is known at each door, and the keys of
 * stages move only with what decides the result. */
#include "base/command.h"
#include "base/config.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "formats/record.h"
#include "formats/result.h"
#include "formats/run.h"
#include "tests/tap.h"

static struct arena arena;
static struct err e;

static int load(struct run *r, const char *text, struct strs sets)
{
    const char *path = arena_printf(&arena, "%s/run.ini", tap_tmp());
    if (file_write_all(path, str_z(text), &e))
        return -1;
    return run_load(r, path, sets, &arena, &e);
}

static bool says(const char *text, int code, const char *want)
{
    struct run r;
    struct err none = {0};
    e = none;
    int rc = load(&r, text, (struct strs){0});
    bool ok = rc == -1 && e.code == code && strstr(e.msg, want);
    if (!ok)
        printf("# got \"%s\" (%d), want \"%s\"\n", rc ? e.msg : "a run", e.code, want);
    return ok;
}

static void test_defaults(void)
{
    struct run r;
    CHECK(load(&r, "", (struct strs){0}) == -1, "an empty run file is refused");
    CHECK(load(&r, "[run]\nnotes = x\n", (struct strs){0}) == 0, "one with a note is whole");
    CHECK(r.vocab.size == 4096 && str_eqz(r.vocab.pattern, "gpt2") && r.model.layers == 12 &&
              r.model.heads == 12 && r.model.width == 768 && r.model.context == 1024 &&
              r.model.qkv_bias && r.model.tied && r.model.norm_eps == 1e-5,
          "its model is GPT-2 124M");
    CHECK(r.train.seed == 1 && str_eqz(r.train.tokens, "20n") && r.train.lr == 6e-4 &&
              r.train.schedule == LR_COSINE && r.train.decay == DECAY_MATRICES &&
              r.train.beta2 == 0.95 && r.train.precision == PRECISION_FP32 && r.train.keep == 2,
          "its training nanoGPT's");
    CHECK(r.finetune.seeds == 3 && r.finetune.dropout == -1 && r.finetune.mask_prompt &&
              str_eqz(r.finetune.template_, "alpaca") && r.score.scorers.n == 2 &&
              str_eqz(r.score.scorers.v[1], "overlap") && r.judge.seed == 123 && !r.judge.judge.n,
          "fine-tuned three times, scored twice, not judged");
}

static void test_keys(void)
{
    struct run r;
    struct str set[] = {STR_LIT("train.lr=1e-3"), STR_LIT("data.train=a,b")};
    CHECK(load(&r,
               "[run]\ntitle = A title\n[model]\nlayers=3\nwidth = 192\nheads = 3\n"
               "[train]\nlr = 2e-3\nschedule = wsd\n",
               (struct strs){set, 2}) == 0 &&
              r.model.layers == 3 && r.train.lr == 1e-3 && r.train.schedule == LR_WSD &&
              r.data.train.n == 2 && str_eqz(r.about.title, "A title"),
          "a file sets keys and --set overrides them");
    CHECK(says("[train]\nbatchsize = 3\n", EXIT_USAGE, "run.ini:2"), "unknown keys, by line");
    CHECK(strstr(e.msg, "batch"), "name the one that was meant: %s", e.msg);
    CHECK(says("[trian]\nlr = 3\n", EXIT_USAGE, "trian"), "unknown sections");
    CHECK(says("[train]\nlr = fast\n", EXIT_USAGE, "run.ini:2"), "values that are no numbers");
    CHECK(says("[train]\nlr = 11\n", EXIT_USAGE, "run.ini:2"), "out of range");
    CHECK(says("[train]\nlr = nan\n", EXIT_USAGE, "run.ini:2"), "not a number");
    CHECK(says("[train]\nprecision = fp8\n", EXIT_USAGE, "fp8"), "no choice");
    CHECK(says("[model]\nheads = 7\n", EXIT_USAGE, "does not divide"), "heads that do not divide");
    CHECK(says("[data]\ninstruct_test = 0.6\ninstruct_val = 0.4\n", EXIT_USAGE, "leaves nothing"),
          "and splits that leave nothing are refused");
    CHECK(says("[model]\ncontext = 64\n[eval]\nwindow = 65\n", EXIT_USAGE,
               "eval.window = 65 is more than model.context = 64"),
          "windows longer than the context");
    CHECK(says("[eval]\nwindow = 32\nstride = 33\n", EXIT_USAGE,
               "eval.stride = 33 is more than eval.window = 32"),
          "a stride longer than the window");
    CHECK(says("[model]\ncontext = 64\n[eval]\nstride = 65\n", EXIT_USAGE,
               "eval.stride = 65 is more than model.context = 64, the window"),
          "or than the context, where that is the window");
    CHECK(says("[eval]\nwindows = false\nstride = 8\n", EXIT_USAGE, "eval.stride = 8 is read by"),
          "a stride of windows that are not asked for");
    CHECK(says("[eval]\nwindows = false\nwindow = 8\n", EXIT_USAGE, "eval.window = 8 is read by"),
          "a window neither");
    struct run far;
    CHECK(!load(&far, "[model]\ncontext = 64\nfrom = x\n[eval]\nwindow = 2048\nstride = 2048\n",
                (struct strs){0}) &&
              far.eval.window == 2048 && far.eval.stride == 2048,
          "a model that is taken from a folder has its own context: %s", e.msg);
}

/* Walks all rows of all sections: help, default in range, text round trip. */
static void test_tables(void)
{
    struct run r;
    int rows = 0, bad = 0;
    schema_defaults(&run_schema, &r, &arena, &e);
    for (const struct field *s = run_schema.fields; s->name; s++)
        for (const struct field *f = s->sub->fields; f->name; f++) {
            struct buf b = {0};
            const char *key = arena_printf(&arena, "%s.%s", s->name, f->name);
            void *m;
            rows++;
            if (schema_find(&run_schema, &r, key, &m) != f || !f->help || !*f->help || !f->def ||
                f->help[strlen(f->help) - 1] == '.') {
                printf("# %s: not found, or without help or default\n", key);
                bad++;
                continue;
            }
            field_text(f, m, &b);
            if (b.n && schema_set(&run_schema, &r, key, buf_str(&b), &arena, &e)) {
                printf("# %s: %s\n", key, e.msg);
                bad++;
            }
            buf_release(&b);
        }
    CHECK(rows > 70 && bad == 0, "each of the %d keys has help and a default in its range", rows);
}

static void canonical(const struct run *r, struct buf *b)
{
    buf_cut(b, 0);
    schema_canonical(&run_schema, r, b);
}

static void test_volatile(void)
{
    struct run r;
    struct buf a = {0}, b = {0};
    load(&r, "[run]\nnotes = x\n", (struct strs){0});
    canonical(&r, &a);
    const char *same[] = {"train.threads=2", "train.max_hours=3",   "train.keep=5",
                          "eval.batch=2",    "judge.concurrency=9", "judge.timeout=1",
                          "judge.retries=0"};
    const char *other[] = {"train.lr=1e-3", "train.seed=2", "model.tied=false",
                           "eval.seed=2",   "judge.seed=1", "train.micro_batch=4"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct str set = str_z(same[i]);
        load(&r, "[run]\nnotes = x\n", (struct strs){&set, 1});
        canonical(&r, &b);
        CHECK(str_eq(buf_str(&a), buf_str(&b)), "%s makes nothing run again", same[i]);
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        struct str set = str_z(other[i]);
        load(&r, "[run]\nnotes = x\n", (struct strs){&set, 1});
        canonical(&r, &b);
        CHECK(!str_eq(buf_str(&a), buf_str(&b)), "%s does", other[i]);
    }
    buf_release(&a);
    buf_release(&b);
}

/* A result holds a run; it goes through its record file and JSON. */
static void test_result(void)
{
    const char *path = arena_printf(&arena, "%s/result.msgpack", tap_tmp());
    struct result in, out;
    struct str id = STR_LIT("w0");
    double num = 2.5, den = 4;
    struct metric m = {.name = STR_LIT("nll_token"),
                       .value = 0.625,
                       .lo = NAN,
                       .hi = NAN,
                       .n = 1,
                       .ids = {&id, 1},
                       .num = {&num, 1},
                       .den = {&den, 1}};
    schema_defaults(&result_schema, &in, &arena, &e);
    in.run = STR_LIT("r");
    in.metrics = (struct list){&m, 1};
    in.config.train.lr = 0.25;
    in.timing.mfu = 0.5;
    CHECK(record_save(path, &result_schema, &in, &e) == 0 &&
              record_load(path, &result_schema, &out, &arena, &e) == 0,
          "a result is saved and loaded");
    const struct metric *got = out.metrics.v;
    CHECK(out.metrics.n == 1 && str_eqz(got->name, "nll_token") && got->num.v[0] == 2.5 &&
              isnan(got->lo) && out.config.train.lr == 0.25 && out.config.model.width == 768 &&
              out.timing.mfu == 0.5 && isnan(out.cost_train),
          "with its metrics and configuration");
    struct json *v = json_of_struct(&result_schema, &out, true);
    CHECK(v && !json_get(v, "timing") && !json_get(v, "started") &&
              !json_get(json_get(v, "software"), "commit") &&
              !json_get(json_get(v, "curve"), "seconds") && json_get(v, "metrics"),
          "times and provenance are volatile, measurements are not");
    json_free(v);
}

static void test_hardware(void)
{
    const char *path = arena_printf(&arena, "%s/h.ini", tap_tmp());
    struct hardware h;
    file_write_all(path, STR_LIT("[hardware]\nname = 8xA100\ncount = 8\nprice_hour = 10\n"), &e);
    CHECK(hardware_load(&h, path, &arena, &e) == 0 && h.count == 8 && h.price_hour == 10 &&
              isnan(h.peak_tflops) && str_eqz(h.price_currency, "USD"),
          "a hardware file is read; what it leaves out is unknown");
    file_write_all(path, STR_LIT("[hardware]\nprice = 10\n"), &e);
    CHECK(hardware_load(&h, path, &arena, &e) == -1 && strstr(e.msg, "h.ini:2"),
          "its unknown keys are refused: %s", e.msg);
}

/* Every key of [eval] is an option of `assay eval` whose absence leaves the key's value. */
static void test_eval_options(void)
{
    extern const struct command cmd_eval;
    static const char *const runs[] = {"windows", "documents", "instruct", "tasks"};
    for (const struct field *key = eval_config_schema.fields; key->name; key++) {
        const struct field *f = cmd_eval.options->fields;
        bool of_run = false;
        for (size_t k = 0; k < sizeof runs / sizeof *runs; k++)
            of_run = of_run || strcmp(runs[k], key->name) == 0;
        while (f->name && strcmp(f->name, key->name) != 0)
            f++;
        if (of_run) /* what is measured at all: --task says it */
            CHECK(!f->name, "eval.%s is of runs only", key->name);
        else
            CHECK(f->name && f->def && (!*f->def || strcmp(key->name, "ranks") == 0) &&
                      (f->type == key->type || f->type == FIELD_STR),
                  "eval.%s is the default of an option", key->name);
    }
    CHECK(says("[eval]\nstop = a, \"\"\n", EXIT_USAGE, "eval.stop has an empty text"),
          "an empty stop is refused");
}

int main(void)
{
    log_open("test", LOG_QUIET);
    test_defaults();
    test_keys();
    test_tables();
    test_volatile();
    test_result();
    test_hardware();
    test_eval_options();
    file_remove_tree(tap_tmp(), &e);
    arena_release(&arena);
    return tap_done();
}
