/* Pre-training as a whole: what a run leaves behind, and that a run that was cut is bit-equal to a
 * straight one. */
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "formats/manifest.h"
#include "formats/shard.h"
#include "tests/tap.h"
#include "trainer/metrics.h"
#include "trainer/train.h"
#include "trainer/train_folder.h"

#define VOCAB 32
static struct arena arena;
static char *shards;

static char *at(const char *dir, const char *name)
{
    return path_join(&arena, dir, name);
}

/* A chain in which each id is followed by one of two: a loss well below ln 32 can be learnt. */
static void put_split(const char *split, uint64_t seed, int64_t n)
{
    struct err e = {0};
    struct strs names;
    struct rng r = rng_make(seed, "chain", 0);
    struct shard_writer *w = shard_create(shards, "t", split, VOCAB, 700, &e);
    int32_t id = 0;
    for (int64_t i = 0; w && i < n; i++) {
        id = (int32_t)((id * 5 + 1 + 7 * (int64_t)(rng_u32(&r) & 1)) % VOCAB);
        if (shard_put(w, &id, 1, &e))
            break;
    }
    if (!w || shard_finish(w, &names, &arena, &e)) {
        printf("Bail out! %s\n", e.msg);
        exit(1);
    }
}

static struct run config(void)
{
    struct run r = {0};
    r.model = (struct model_config){.layers = 2,
                                    .heads = 2,
                                    .width = 16,
                                    .context = 24,
                                    .vocab = VOCAB,
                                    .qkv_bias = true,
                                    .tied = true,
                                    .norm_eps = 1e-5,
                                    .init_std = 0.1};
    r.train = (struct train_config){.seed = 1,
                                    .tokens = STR_LIT("2880"),
                                    .batch = 6,
                                    .lr = 1e-2,
                                    .min_lr = 0.1,
                                    .schedule = LR_COSINE,
                                    .warmup = 0.1,
                                    .weight_decay = 0.1,
                                    .beta1 = 0.9,
                                    .beta2 = 0.95,
                                    .eps = 1e-8,
                                    .clip = 1,
                                    .shuffle = true,
                                    .checkpoint_every = 7,
                                    .keep = 2,
                                    .max_skips = 10,
                                    .backend = STR_LIT("cpu"),
                                    .threads = 1};
    return r;
}

static int train(const struct run *r, const char *out, bool resume, struct err *e)
{
    struct train_options o = {.run = r, .shards = shards, .out = out, .resume = resume};
    e->msg[0] = 0;
    e->code = 0;
    return train_run(&o, e);
}

static bool same_bytes(const char *a, const char *b)
{
    struct buf x = {0}, y = {0};
    struct err e = {0};
    bool same = file_read(a, &x, 0, &e) == 0 && file_read(b, &y, 0, &e) == 0 && x.n == y.n &&
                memcmp(x.p, y.p, x.n) == 0;
    buf_release(&x);
    buf_release(&y);
    return same;
}

static bool same_end(const char *a, const char *b, const char *step)
{
    const char *x = at(a, step), *y = at(b, step);
    return same_bytes(at(x, "model.safetensors"), at(y, "model.safetensors")) &&
           same_bytes(at(x, "optimizer.safetensors"), at(y, "optimizer.safetensors"));
}

static bool same_losses(const char *a, const char *b)
{
    struct metrics_row *x, *y;
    size_t n, m;
    struct err e = {0};
    if (metrics_read(at(a, "metrics.jsonl"), &x, &n, &arena, &e) ||
        metrics_read(at(b, "metrics.jsonl"), &y, &m, &arena, &e) || n != m)
        return false;
    for (size_t i = 0; i < n; i++)
        if (x[i].step != y[i].step || x[i].loss != y[i].loss || x[i].norm != y[i].norm ||
            x[i].skipped != y[i].skipped)
            return false;
    return n > 0;
}

static void test_straight(const char *out)
{
    struct run r = config();
    struct err e = {0};
    struct metrics_row *rows;
    struct i64s steps;
    size_t n = 0;
    char link[64] = {0};
    CHECK(train(&r, out, false, &e) == EXIT_DONE, "a run ends %s", e.msg);
    metrics_read(at(out, "metrics.jsonl"), &rows, &n, &arena, &e);
    CHECK_INT(n, 20, "2880 tokens are 20 steps of 6 x 24, a line each");
    CHECK(n == 20 && rows[0].loss > 3.2 && rows[19].loss < rows[0].loss - 0.5,
          "and the loss falls from %.3f to %.3f", rows[0].loss, rows[19].loss);
    CHECK(n == 20 && rows[19].tokens == 2880 && rows[0].norm > 0 && rows[1].lr == 0.01,
          "tokens, norm and rate are in the lines");
    folder_list(out, &steps, &arena, &e);
    CHECK(steps.n == 2 && steps.v[0] == 14 && steps.v[1] == 20,
          "the last two of the checkpoints of steps 7, 14 and 20 stay");
    CHECK(readlink(at(out, "latest"), link, 63) > 0 && strcmp(link, "step-00000020") == 0,
          "latest is a link to the last");
    memset(link, 0, sizeof link);
    CHECK(readlink(at(out, "best"), link, 63) > 0 && strcmp(link, "step-00000020") == 0,
          "best to the one of the lowest mean training loss");
    struct json *m = manifest_read(out, &e);
    const struct json *f = json_get(m, "facts"), *v = json_get(m, "volatile");
    CHECK(m && json_int(json_get(f, "steps"), 0) == 20 &&
              json_int(json_get(f, "tokens"), 0) == 2880 &&
              json_num(json_get(f, "loss")) == json_num(json_get(f, "loss")) &&
              json_num(json_get(v, "tokens_per_second")) > 0 &&
              json_int(json_get(v, "peak_rss"), 0) > 0,
          "the manifest holds steps, tokens, loss and times");
    json_free(m);
    double before = file_mtime(at(out, "step-00000020/model.safetensors"));
    CHECK(train(&r, out, false, &e) == EXIT_DONE &&
              file_mtime(at(out, "step-00000020/model.safetensors")) == before,
          "run again it is up to date");
    r.train.threads = 2;
    r.train.micro_batch = 5;
    r.train.keep = 9;
    CHECK(train(&r, out, false, &e) == EXIT_DONE &&
              file_mtime(at(out, "step-00000020/model.safetensors")) == before,
          "threads, micro_batch and keep decide nothing");
}

/* Cut behind every step, going on with other threads and micro-batches. */
static void check_cut(const char *name, const struct run *r)
{
    static const int64_t micro[] = {1, 5, 2, 6, 3};
    char *whole = at(tap_tmp(), arena_printf(&arena, "%s-whole", name));
    char *cut = at(tap_tmp(), arena_printf(&arena, "%s-cut", name));
    struct err e = {0};
    struct run piece = *r;
    struct i64s steps, want;
    int rc, starts = 0;
    rc = train(r, whole, false, &e);
    CHECK(rc == EXIT_DONE, "%s: the straight run ends %s", name, e.msg);
    piece.train.max_hours = 1e-9;
    do {
        piece.train.micro_batch = micro[starts % 5];
        piece.train.threads = 1 + starts % 2;
        rc = train(&piece, cut, starts > 0, &e);
        if (rc < 0 && e.code != EXIT_INCOMPLETE)
            break;
        starts++;
    } while (rc < 0 && starts < 100);
    CHECK(rc == EXIT_DONE && starts == 20, "%s: 20 starts of one step each end it %s", name, e.msg);
    CHECK(same_end(whole, cut, "step-00000020"),
          "%s: weights and moments are those of the straight run, bit for bit", name);
    CHECK(same_losses(whole, cut), "%s: and every line of metrics", name);
    folder_list(cut, &steps, &arena, &e);
    folder_list(whole, &want, &arena, &e);
    CHECK(steps.n == want.n && memcmp(steps.v, want.v, steps.n * 8) == 0,
          "%s: and the checkpoints that stay", name);
    char a[65], b[65];
    CHECK(manifest_hash(whole, a, &e) == 0 && manifest_hash(cut, b, &e) == 0 && strcmp(a, b) == 0,
          "%s: a later stage sees the same input", name);
}

static void test_cut(void)
{
    struct run r = config();
    check_cut("plain", &r);
    r.model.dropout = 0.2;
    r.model.tied = r.model.qkv_bias = false;
    r.train.schedule = LR_WSD;
    r.train.val_every = 5;
    check_cut("dropout and validation", &r);
    CHECK(file_exists(at(tap_tmp(), "dropout and validation-cut/best/config.json")),
          "with validation there is a best checkpoint");
    r.train.val_every = 0;
    r.train.batch = 96; /* more than the split's windows a step: an epoch ends inside */
    r.train.tokens = STR_LIT("46080");
    r.train.checkpoint_every = 0;
    check_cut("epochs", &r);
    CHECK(!file_exists(at(tap_tmp(), "epochs-cut/step-00000010")),
          "checkpoints of interruptions are gone at the end");
}

static void test_other_key(const char *out)
{
    struct run r = config();
    struct err e = {0};
    struct metrics_row *rows;
    size_t n = 0;
    r.train.lr = 2e-3;
    CHECK(train(&r, out, true, &e) == -1 && strstr(e.msg, "train.lr was 0.01, is 0.002"),
          "--resume of a run with other options is refused: %s", e.msg);
    CHECK(file_exists(at(out, "step-00000020/model.safetensors")), "and nothing is lost");
    CHECK(train(&r, at(tap_tmp(), "none"), true, &e) == -1 && strstr(e.msg, "no checkpoint"),
          "--resume without a checkpoint is refused: %s", e.msg);
    r.train.max_hours = 1e-9;
    CHECK(train(&r, out, false, &e) == -1 && e.code == EXIT_INCOMPLETE,
          "without --resume it starts over");
    metrics_read(at(out, "metrics.jsonl"), &rows, &n, &arena, &e);
    CHECK(n == 1 && rows[0].step == 1 && !file_exists(at(out, "step-00000020")) &&
              !file_exists(at(out, "manifest.json")),
          "and nothing of the old run is mixed in");
}

/* What a kill -9 can leave: a torn line, steps behind the checkpoint, a half-written folder. */
static void test_leftovers(void)
{
    char *out = at(tap_tmp(), "left"), *whole = at(tap_tmp(), "plain-whole");
    struct run r = config();
    struct err e = {0};
    r.train.max_hours = 1e-9;
    for (int i = 0; i < 3; i++)
        train(&r, out, false, &e);
    struct buf b = {0};
    file_read(at(out, "metrics.jsonl"), &b, 0, &e);
    buf_addz(&b, "{\"step\":4,\"tokens\":1,\"loss\":9}\n{\"step\":5,\"tok");
    file_write_all(at(out, "metrics.jsonl"), buf_str(&b), &e);
    file_write_all(at(out, ".step-00000004.tmp/model.safetensors"), STR_LIT("half"), &e);
    file_write_all(at(out, ".step-00000001.gone/state.msgpack"), STR_LIT("half"), &e);
    unlink(at(out, "latest"));
    r.train.max_hours = 0;
    CHECK(train(&r, out, false, &e) == EXIT_DONE, "a run goes on over what a kill left %s", e.msg);
    CHECK(same_end(whole, out, "step-00000020") && same_losses(whole, out),
          "and ends with the bytes of a straight one");
    CHECK(!file_exists(at(out, ".step-00000004.tmp")) &&
              !file_exists(at(out, ".step-00000001.gone")),
          "half folders are swept");
    buf_release(&b);

    out = at(tap_tmp(), "damaged");
    r.train.max_hours = 1e-9;
    for (int i = 0; i < 3; i++)
        train(&r, out, false, &e);
    file_write_all(at(out, "metrics.jsonl"),
                   STR_LIT("{\"step\":1,\"loss\":3}\nrubbish\n{\"step\":3,\"loss\":3}\n"), &e);
    CHECK(train(&r, out, false, &e) == -1 && strstr(e.msg, "line 2"),
          "damage before the journal's end is named: %s", e.msg);
    file_write_all(at(out, "step-00000003/state.msgpack"), STR_LIT("rubbish"), &e);
    CHECK(train(&r, out, false, &e) == -1 && strstr(e.msg, "state.msgpack"),
          "a damaged state is named: %s", e.msg);
}

static void test_not_finite(void)
{
    char *out = at(tap_tmp(), "nan");
    struct run r = config();
    struct err e = {0};
    r.train.warmup = 0;
    r.train.schedule = LR_CONSTANT;
    r.train.lr = 1e37;
    r.train.checkpoint_every = 1;
    r.train.keep = 1;
    CHECK(train(&r, out, false, &e) == -1 && e.code != EXIT_INCOMPLETE &&
              (strstr(e.msg, "nan") || strstr(e.msg, "inf")) && strstr(e.msg, "step 2"),
          "a loss that is not finite stops the run at its step: %s", e.msg);
    CHECK(strstr(e.msg, "step-00000001 are no good already, and no older checkpoint is here"),
          "and says that the checkpoint has these weights");
    struct metrics_row *rows;
    size_t n;
    metrics_read(at(out, "metrics.jsonl"), &rows, &n, &arena, &e);
    CHECK_INT(n, 1, "the step has no line");
    r.train.checkpoint_every = 0;
    CHECK(train(&r, at(tap_tmp(), "nan2"), false, &e) == -1 &&
              strstr(e.msg, "there is no checkpoint yet"),
          "without one it says so");
    CHECK(!file_exists(at(tap_tmp(), "nan2/manifest.json")), "and there is no manifest");
}

static void test_spikes(void)
{
    struct run r = config();
    struct err e = {0};
    struct metrics_row *rows;
    size_t n = 0, skipped = 0;
    r.train.tokens = STR_LIT("10368"); /* 72 steps */
    r.train.checkpoint_every = 50;
    r.train.spike_z = 0.3;
    r.train.max_skips = 100;
    char *out = at(tap_tmp(), "spikes"), *cut = at(tap_tmp(), "spikes-cut");
    CHECK(train(&r, out, false, &e) == EXIT_DONE, "a run that skips spikes ends %s", e.msg);
    metrics_read(at(out, "metrics.jsonl"), &rows, &n, &arena, &e);
    for (size_t i = 0; i < n; i++)
        skipped += rows[i].skipped;
    struct json *m = manifest_read(out, &e);
    CHECK(skipped > 0 && skipped < 40 &&
              json_int(json_get(json_get(m, "facts"), "skipped"), -1) == (int64_t)skipped,
          "%zu of %zu updates were skipped, and counted", skipped, n);
    json_free(m);
    int starts = 0;
    r.train.max_hours = 1e-9;
    while (train(&r, cut, false, &e) < 0 && e.code == EXIT_INCOMPLETE && starts < 200)
        starts++;
    CHECK(starts == 71 && same_end(out, cut, "step-00000072") && same_losses(out, cut),
          "cut behind every step it skips the same and ends with the same bytes");
    r.train.max_hours = 0;
    r.train.spike_z = 0.001;
    r.train.max_skips = 2;
    CHECK(train(&r, at(tap_tmp(), "spikes2"), false, &e) == -1 &&
              strstr(e.msg, "2 updates in a row"),
          "max_skips in a row stop the run: %s", e.msg);
}

static void test_micro_batch(void)
{
    struct run r = config();
    struct err e = {0};
    struct gpt2_plan one, three;
    struct gpt2_use use;
    const struct backend_prefers *cpu = backend_prefers("cpu"), *gpu = backend_prefers("cuda");
    r.model.context = 256;
    r.train.batch = 64;
    CHECK_INT(train_micro_batch(&r.model, &r.train, -1, cpu, &e), 4,
              "on a CPU a pass takes 1024 rows");
    CHECK_INT(train_micro_batch(&r.model, &r.train, -1, gpu, &e), 64, "on a device all that fit");
    use = train_use(&r.model, &r.train, cpu, 1);
    gpt2_plan(&r.model, &use, &one);
    use = train_use(&r.model, &r.train, cpu, 3);
    gpt2_plan(&r.model, &use, &three);
    CHECK_INT(train_micro_batch(&r.model, &r.train, three.total, cpu, &e), 3,
              "less when less fits");
    CHECK(train_micro_batch(&r.model, &r.train, one.total - 1, cpu, &e) == -1 &&
              strstr(e.msg, "needs") && strstr(e.msg, "are free"),
          "none when not even one fits: %s", e.msg);
    CHECK(train_micro_batch(&r.model, &r.train, 1 << 20, backend_prefers("cuda"), &e) == -1 &&
              strstr(e.msg, " and 256 MiB of scratch, but 1.0 MiB are free"),
          "on a GPU the scratch is in the sentence: %s", e.msg);
    r.train.micro_batch = 16;
    CHECK_INT(train_micro_batch(&r.model, &r.train, -1, cpu, &e), 16, "or what was asked for");
    CHECK(train_micro_batch(&r.model, &r.train, three.total, cpu, &e) == -1,
          "which is refused when it does not fit");
    r.model.context = 16;
    r.train.micro_batch = 3;
    CHECK_INT(train_micro_batch(&r.model, &r.train, -1, cpu, &e), 8,
              "short sequences go in whole grains");
}

static void test_refusals(void)
{
    struct run r = config();
    struct err e = {0};
    char *out = at(tap_tmp(), "refused");
    r.model.vocab = 20;
    CHECK(train(&r, out, false, &e) == -1, "ids beyond model.vocab are refused: %s", e.msg);
    r = config();
    r.model.from = STR_LIT("elsewhere");
    CHECK(train(&r, out, false, &e) == -1 && e.code == EXIT_USAGE,
          "model.from leaves nothing to train: %s", e.msg);
    r = config();
    r.train.tokens = STR_LIT("many");
    CHECK(train(&r, out, false, &e) == -1 && e.code == EXIT_USAGE && strstr(e.msg, "many"),
          "a token budget that is none is refused: %s", e.msg);
    r = config();
    r.train.precision = PRECISION_BF16;
    CHECK(train(&r, out, false, &e) == -1 && strstr(e.msg, "precision"),
          "a precision that is not there is refused: %s", e.msg);
    r = config();
    r.train.backend = STR_LIT("abacus");
    CHECK(train(&r, out, false, &e) == -1 && strstr(e.msg, "abacus") && strstr(e.msg, "cpu"),
          "a backend that is not there is refused with those present: %s", e.msg);
    r = config();
    char *was = shards;
    shards = at(tap_tmp(), "nowhere");
    CHECK(train(&r, out, false, &e) == -1 && strstr(e.msg, "nowhere"),
          "shards that are not there are named: %s", e.msg);
    shards = was;
}

int main(void)
{
    struct err e = {0};
    log_open("test", LOG_QUIET);
    shards = at(tap_tmp(), "shards");
    put_split("train", 1, 1500);
    put_split("test", 2, 400);
    char *out = at(tap_tmp(), "run");
    test_straight(out);
    test_cut();
    test_other_key(out);
    test_leftovers();
    test_not_finite();
    test_spikes();
    test_micro_batch();
    test_refusals();
    file_remove_tree(tap_tmp(), &e);
    arena_release(&arena);
    return tap_done();
}
