/* Fine-tuning: padded batches, masks, and that the weights of the best epoch are what is written. */
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "formats/manifest.h"
#include "tests/tap.h"
#include "trainer/checkpoint_io.h"
#include "trainer/finetune.h"
#include "trainer/gpt2.h"
#include "trainer/metrics.h"

#define VOCAB   40
#define CONTEXT 16
static struct arena arena;

static char *at(const char *dir, const char *name)
{
    return path_join(&arena, dir, name);
}

/* n examples: a prompt of 4 ids, an answer that repeats `noise` of them wrongly, the end (0). */
static void put_examples(const char *path, uint64_t seed, int n, bool random, int longer)
{
    struct err e = {0};
    struct rng r = rng_make(seed, "examples", 0);
    struct examples_writer *w = examples_create(path, VOCAB, &e);
    for (int i = 0; w && i < n; i++) {
        int32_t ids[64];
        uint8_t mask[64];
        int len = 0, answer = 2 + (int)rng_below(&r, 4);
        if (i < longer)
            answer = 30;
        for (int k = 0; k < 4; k++) {
            mask[len] = 0;
            ids[len++] = 1 + (int32_t)rng_below(&r, VOCAB - 1);
        }
        for (int k = 0; k < answer; k++) {
            mask[len] = 1;
            ids[len] = random ? 1 + (int32_t)rng_below(&r, VOCAB - 1)
                              : 1 + (ids[len - 4] + 3) % (VOCAB - 1);
            len++;
        }
        mask[len] = 1;
        ids[len++] = 0;
        examples_put(w, ids, mask, (size_t)len);
    }
    if (!w || examples_finish(w, &e)) {
        printf("Bail out! %s\n", e.msg);
        exit(1);
    }
}

static struct model_config model(void)
{
    return (struct model_config){.layers = 2,
                                 .heads = 2,
                                 .width = 32,
                                 .context = CONTEXT,
                                 .vocab = VOCAB,
                                 .qkv_bias = true,
                                 .tied = true,
                                 .norm_eps = 1e-5,
                                 .init_std = 0.1};
}

static void put_init(const char *dir)
{
    struct backend b = {0};
    struct err e = {0};
    struct model_config c = model();
    struct gpt2_use use = {.batch = 1, .length = 1};
    struct checkpoint_made made = {.by = "test"};
    struct gpt2 *m;
    if (backend_open(&b, "cpu", 0, 1, &e) || !(m = gpt2_new(&b, &c, &use, &e)) ||
        gpt2_init(m, 1, &e) || checkpoint_save(dir, m, 0, NULL, &made, &e)) {
        printf("Bail out! %s\n", e.msg);
        exit(1);
    }
    gpt2_free(m);
    backend_close(&b);
}

static struct run config(void)
{
    struct run r = {0};
    r.train.backend = STR_LIT("cpu");
    r.train.threads = 1;
    r.finetune = (struct finetune_config){.seeds = 1,
                                          .seed = 1,
                                          .lr = 5e-3,
                                          .weight_decay = 0.1,
                                          .clip = 1,
                                          .epochs = 12,
                                          .batch = 8,
                                          .patience = 3,
                                          .mask_prompt = true,
                                          .dropout = -1};
    return r;
}

static char *init, *examples;

static int tune(const struct run *r, const char *out, int64_t seed, struct err *e)
{
    struct finetune_options o = {r, init, examples, out, seed, NULL};
    *e = (struct err){0};
    return finetune_run(&o, e);
}

static int64_t batch(const struct example_set *s, const int64_t *which, int64_t B, int64_t *T,
                     int32_t *ids, int32_t *targets, uint64_t *seq)
{
    int64_t valid = example_shape(s, which, B, T);
    example_fill(s, which, B, *T, ids, targets, seq);
    return valid;
}

/* Mean loss of a checkpoint over an example shard, one example at a time. */
static double measure(const char *dir, const char *path, bool mask_prompt)
{
    struct backend b = {0};
    struct err e = {0};
    struct model_config c;
    struct examples x = {0};
    struct example_set s = {0};
    double sum = 0;
    int64_t valid = 0, T, eos;
    backend_open(&b, "cpu", 0, 2, &e);
    gpt2_config_of(dir, &c, &eos, &e);
    struct gpt2_use use = {.batch = 1, .length = CONTEXT};
    struct gpt2 *m = gpt2_new(&b, &c, &use, &e);
    if (!m || gpt2_load(m, dir, &e) || examples_open(&x, path, &e) ||
        example_set_make(&s, &x, CONTEXT, VOCAB, mask_prompt, path, &e))
        CHECK(false, "%s", e.msg);
    for (int64_t i = 0; i < s.n; i++) {
        int32_t ids[CONTEXT], targets[CONTEXT];
        uint64_t seq[1];
        float loss[CONTEXT];
        valid += batch(&s, &i, 1, &T, ids, targets, seq);
        gpt2_losses(m, ids, targets, 1, T, loss, &e);
        for (int64_t t = 0; t < T; t++)
            sum += loss[t];
    }
    example_set_release(&s);
    examples_close(&x);
    gpt2_free(m);
    backend_close(&b);
    return sum / (double)valid;
}

static void test_batches(void)
{
    const char *path = at(tap_tmp(), "one.bin");
    struct err e = {0};
    struct examples_writer *w = examples_create(path, VOCAB, &e);
    int32_t a[] = {5, 6, 7, 0}, b[] = {8, 9, 0}, c[] = {3};
    uint8_t ma[] = {0, 0, 1, 1}, mb[] = {0, 0, 0}, mc[] = {1};
    examples_put(w, a, ma, 4);
    examples_put(w, b, mb, 3);
    examples_put(w, c, mc, 1);
    examples_finish(w, &e);
    struct examples x = {0};
    struct example_set s;
    int32_t ids[8], targets[8];
    uint64_t seq[2];
    int64_t T = 0, both[] = {0, 1};
    examples_open(&x, path, &e);
    example_set_make(&s, &x, 16, VOCAB, true, path, &e);
    CHECK(s.n == 1 && s.empty == 2, "examples without a target that counts are left out, counted");
    example_set_release(&s);
    example_set_make(&s, &x, 16, VOCAB, false, path, &e);
    CHECK(s.n == 2 && s.empty == 1, "unmasked, only the one of a single id is");
    int64_t valid = batch(&s, both, 2, &T, ids, targets, seq);
    static const int32_t want_ids[] = {5, 6, 7, 8, 9, 0}, want[] = {6, 7, 0, 9, 0, -1};
    CHECK(T == 3 && valid == 5 && memcmp(ids, want_ids, sizeof want_ids) == 0 &&
              memcmp(targets, want, sizeof want) == 0,
          "a batch is padded to its longest; padding is no target, the end is");
    CHECK(seq[0] == 0 && seq[1] == 1, "sequences are numbered as in the file");
    example_set_release(&s);
    example_set_make(&s, &x, 16, VOCAB, true, path, &e);
    valid = batch(&s, both, 1, &T, ids, targets, seq);
    CHECK(valid == 2 && targets[0] == -1 && targets[1] == 7 && targets[2] == 0,
          "masked, only the answer counts");
    example_set_release(&s);
    example_set_make(&s, &x, 3, VOCAB, false, path, &e);
    CHECK(s.n == 1 && s.dropped == 1, "longer examples are dropped and counted");
    example_set_release(&s);
    CHECK(example_set_make(&s, &x, 16, 8, false, path, &e) == -1 && strstr(e.msg, "example 1") &&
              strstr(e.msg, "id 8"),
          "an id beyond the model's vocabulary is named: %s", e.msg);
    example_set_release(&s);
    examples_close(&x);
}

/* Random answers cannot be learnt: the validation loss falls, then rises as training ones are
 * learnt by heart. */
static void test_best_weights(void)
{
    struct run r = config();
    struct err e = {0};
    char *out = at(tap_tmp(), "rises");
    struct metrics_row *rows;
    size_t n = 0;
    double val[32] = {0};
    int64_t epochs = 0, best = 0;
    r.finetune.epochs = 30;
    r.finetune.lr = 1e-2;
    r.finetune.weight_decay = 0;
    CHECK(tune(&r, out, -1, &e) == EXIT_DONE, "fine-tuning ends %s", e.msg);
    metrics_read(at(out, "metrics.jsonl"), &rows, &n, &arena, &e);
    for (size_t i = 0; i < n; i++)
        if (!isnan(rows[i].val_loss)) {
            epochs = rows[i].epoch;
            val[epochs] = rows[i].val_loss;
            if (!best || val[epochs] < val[best])
                best = epochs;
        }
    CHECK_INT(n, epochs * 7, "50 examples in batches of 8 are 7 steps an epoch: none is dropped");
    CHECK_INT(epochs - best, 3, "it stops 3 epochs behind the best (%lld)", (long long)best);
    CHECK(val[epochs] > val[best] + 0.05, "the validation loss had risen from %.3f to %.3f",
          val[best], val[epochs]);
    struct json *m = manifest_read(out, &e);
    const struct json *f = json_get(m, "facts");
    double told = json_num(json_get(f, "val_loss"));
    CHECK(json_int(json_get(f, "best_epoch"), 0) == best, "the manifest names the best epoch");
    CHECK_NEAR(told, val[best], 1e-7, "and its loss");
    CHECK_NEAR(measure(at(out, "checkpoint"), at(examples, "val.bin"), true), told, 1e-6,
               "the weights written have that validation loss");
    CHECK_INT(json_int(json_get(f, "dropped"), -1), 3, "three too long examples are counted");
    json_free(m);

    /* A run of exactly `best` epochs ends with these very weights. */
    char *shorter = at(tap_tmp(), "shorter");
    struct buf x = {0}, y = {0};
    r.finetune.epochs = best;
    tune(&r, shorter, -1, &e);
    file_read(at(out, "checkpoint/model.safetensors"), &x, 0, &e);
    file_read(at(shorter, "checkpoint/model.safetensors"), &y, 0, &e);
    CHECK(x.n && x.n == y.n && memcmp(x.p, y.p, x.n) == 0,
          "they are, bit for bit, those of a run that ends at the best epoch");
    CHECK(file_exists(at(out, "latest/config.json")), "OUT/latest leads to them");
    buf_release(&x);
    buf_release(&y);
}

static void test_again(void)
{
    struct run r = config();
    struct err e = {0};
    char *one = at(tap_tmp(), "one"), *two = at(tap_tmp(), "two"), *other = at(tap_tmp(), "other");
    struct buf x = {0}, y = {0}, z = {0};
    r.finetune.epochs = 3;
    r.finetune.dropout = 0.1;
    tune(&r, one, 5, &e);
    file_write_all(at(two, "metrics.jsonl"), STR_LIT("{\"step\":1,\"loss\":1}\n{\"st"), &e);
    file_write_all(at(two, ".checkpoint.tmp/model.safetensors"), STR_LIT("half"), &e);
    r.train.threads = 2;
    CHECK(tune(&r, two, 5, &e) == EXIT_DONE, "over what a kill left it starts again %s", e.msg);
    file_read(at(one, "checkpoint/model.safetensors"), &x, 0, &e);
    file_read(at(two, "checkpoint/model.safetensors"), &y, 0, &e);
    CHECK(x.n && x.n == y.n && memcmp(x.p, y.p, x.n) == 0,
          "with the same bytes, also on two threads and with dropout");
    tune(&r, other, 6, &e);
    file_read(at(other, "checkpoint/model.safetensors"), &z, 0, &e);
    CHECK(x.n == z.n && memcmp(x.p, z.p, x.n) != 0, "another seed gives others");
    double before = file_mtime(at(one, "checkpoint/model.safetensors"));
    CHECK(tune(&r, one, 5, &e) == EXIT_DONE &&
              file_mtime(at(one, "checkpoint/model.safetensors")) == before,
          "run again it is up to date");
    r.finetune.mask_prompt = false;
    CHECK(tune(&r, one, 5, &e) == EXIT_DONE, "another option makes it again %s", e.msg);
    buf_release(&z);
    file_read(at(one, "checkpoint/model.safetensors"), &z, 0, &e);
    CHECK(x.n == z.n && memcmp(x.p, z.p, x.n) != 0, "and the prompt then counts");
    buf_release(&x);
    buf_release(&y);
    buf_release(&z);
}

static void test_refusals(void)
{
    struct run r = config();
    struct err e = {0};
    char *was = examples, *out = at(tap_tmp(), "refused");
    examples = at(tap_tmp(), "nothing");
    CHECK(tune(&r, out, -1, &e) == -1 && strstr(e.msg, "nothing"),
          "examples that are not there are named: %s", e.msg);
    put_examples(at(examples, "train.bin"), 1, 4, true, 4);
    put_examples(at(examples, "val.bin"), 1, 0, true, 0);
    CHECK(tune(&r, out, -1, &e) == -1 && strstr(e.msg, "no example to train on"),
          "a set with only too long examples is refused: %s", e.msg);
    put_examples(at(examples, "train.bin"), 1, 9, true, 0);
    r.finetune.epochs = 2;
    CHECK(tune(&r, out, -1, &e) == EXIT_DONE, "without validation examples the last epoch stays %s",
          e.msg);
    struct json *m = manifest_read(out, &e);
    CHECK_INT(json_int(json_get(json_get(m, "facts"), "best_epoch"), 0), 2, "and it says so");
    json_free(m);
    r.finetune.lr = 1e37;
    CHECK(tune(&r, out, -1, &e) == -1 && strstr(e.msg, "nan"),
          "a loss that is not finite stops it: %s", e.msg);
    CHECK(!file_exists(at(out, "manifest.json")) && !file_exists(at(out, "checkpoint")),
          "and leaves nothing that looks whole");
    examples = was;
    char *had = init;
    init = at(tap_tmp(), "no-init");
    CHECK(tune(&r, out, -1, &e) == -1 && strstr(e.msg, "no-init"),
          "a checkpoint that is not there is named: %s", e.msg);
    init = had;
}

int main(void)
{
    struct err e = {0};
    log_open("test", LOG_QUIET);
    init = at(tap_tmp(), "init");
    examples = at(tap_tmp(), "examples");
    put_init(init);
    put_examples(at(examples, "train.bin"), 1, 53, true, 3);
    put_examples(at(examples, "val.bin"), 2, 21, true, 0);
    test_batches();
    test_best_weights();
    test_again();
    test_refusals();
    file_remove_tree(tap_tmp(), &e);
    arena_release(&arena);
    return tap_done();
}
