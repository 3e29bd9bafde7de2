/* The data order: windows, epochs, and a loader that gives the same batches however it is asked. */
#include "base/file.h"
#include "formats/shard.h"
#include "tests/tap.h"
#include "trainer/loader.h"

#define VOCAB 70000 /* needs 4 bytes an id */

static char dir[512];

/* ids i % VOCAB over files of 100 tokens, so windows cross files. */
static int64_t make_shards(const char *name, int64_t n)
{
    struct err e = {0};
    struct arena a = {0};
    struct strs names;
    snprintf(dir, sizeof dir, "%s/%s", tap_tmp(), name);
    struct shard_writer *w = shard_create(dir, "t", "train", VOCAB, 100, &e);
    for (int64_t i = 0; w && i < n; i++) {
        int32_t id = (int32_t)(i * 7 % VOCAB);
        if (shard_put(w, &id, 1, &e))
            break;
    }
    if (!w || shard_finish(w, &names, &a, &e))
        CHECK(false, "%s", e.msg);
    arena_release(&a);
    return n;
}

static void test_order(void)
{
    struct loader_options o = {.batch = 4, .context = 8, .seed = 3, .shuffle = true};
    enum { N = 37 };
    int seen[N] = {0}, moved = 0, same = 0;
    for (int64_t g = 0; g < N; g++) {
        int64_t w = loader_window(&o, N, g);
        if (w >= 0 && w < N)
            seen[w]++;
        moved += w != g;
        same += w == loader_window(&o, N, g + N);
    }
    bool once = true;
    for (int i = 0; i < N; i++)
        once = once && seen[i] == 1;
    CHECK(once, "an epoch reads every window once");
    CHECK(moved > N / 2, "in another order than the file's");
    CHECK(same < N / 2, "and the next epoch in another one again");
    struct loader_options other = o;
    other.seed = 4;
    same = 0;
    for (int64_t g = 0; g < N; g++)
        same += loader_window(&o, N, g) == loader_window(&other, N, g);
    CHECK(same < N / 2, "another seed orders otherwise");
    o.shuffle = false;
    CHECK(loader_window(&o, N, 5) == 5 && loader_window(&o, N, N + 5) == 5,
          "without shuffle windows come in order, epoch after epoch");
    CHECK_INT(loader_windows(17, 8), 2, "17 tokens hold two windows of 8 and the last target");
    CHECK_INT(loader_windows(16, 8), 1, "16 hold one: the second lacks its last target");
    CHECK_INT(loader_windows(0, 8), 0, "none hold none");
}

static void test_batches(void)
{
    enum { B = 3, T = 8 };
    int64_t n = make_shards("shards", 1000), windows = loader_windows(n, T);
    struct tokens t = {0};
    struct err e = {0};
    CHECK(tokens_open(&t, dir, "train", &e) == 0 && t.n == n, "shards open %s", e.msg);
    CHECK(t.nfiles > 1, "in several files");
    struct loader_options o = {.batch = B,
                               .hi = B,
                               .context = T,
                               .vocab = VOCAB,
                               .first_step = 1,
                               .last_step = 100,
                               .seed = 1,
                               .shuffle = true};
    struct loader *l = loader_open(&t, &o, &e);
    struct loader_batch b;
    bool right = true, steps = true;
    int64_t got = 0;
    while (l && loader_next(l, &b, &e) == 1) {
        got++;
        steps = steps && b.step == got;
        for (int64_t i = 0; i < B; i++) {
            int64_t g = (got - 1) * B + i, at = loader_window(&o, windows, g) * T;
            right = right && b.seq[i] == (uint64_t)g;
            for (int64_t k = 0; k < T; k++)
                right = right && b.ids[i * T + k] == (at + k) * 7 % VOCAB &&
                        b.targets[i * T + k] == (at + k + 1) * 7 % VOCAB;
        }
    }
    CHECK_INT(got, 100, "the loader gives every step, over two epochs and file boundaries");
    CHECK(steps && right, "ids, shifted targets and sequence numbers are those of the order");
    CHECK(l && loader_stalled(l) >= 0, "waiting is measured");
    loader_close(l);

    /* Started in the middle it goes on as if it had run from the start. */
    o.first_step = 60;
    l = loader_open(&t, &o, &e);
    int64_t g = 59 * B, at = loader_window(&o, windows, g) * T;
    CHECK(l && loader_next(l, &b, &e) == 1 && b.step == 60 && b.seq[0] == (uint64_t)g &&
              b.ids[0] == at * 7 % VOCAB,
          "a loader that starts at step 60 reads step 60's sequences");
    loader_close(l); /* with batches read ahead and untaken */

    /* 2 x 6 is the same sequence of windows as 3 x 4. */
    struct loader_options o2 = o;
    o2.batch = 6;
    bool same = true;
    for (int64_t k = 0; k < 600; k++)
        same = same && loader_window(&o, windows, k) == loader_window(&o2, windows, k);
    CHECK(same, "the order of sequences does not depend on the batch");

    o.context = 2000;
    CHECK(!loader_open(&t, &o, &e) && strstr(e.msg, "1000 tokens"),
          "a split shorter than a window is refused: %s", e.msg);
    tokens_close(&t);
}

/* Three ranks of a batch of 4, and one for which nothing is left: side by side they are the batch, and
 * each has read its own rows. */
static void test_parts(void)
{
    enum { B = 4, T = 8, STEPS = 30 };
    static const int64_t cut[] = {0, 1, 2, 4, 4};
    struct tokens t = {0};
    struct err e = {0};
    struct loader *l[4];
    struct loader_batch b, whole;
    int64_t rows = 0, last_read = -1;
    bool same = true, own = true;
    make_shards("parts", 1000);
    tokens_open(&t, dir, "train", &e);
    struct loader_options o = {.batch = B,
                               .hi = B,
                               .context = T,
                               .vocab = VOCAB,
                               .first_step = 1,
                               .last_step = STEPS,
                               .seed = 5,
                               .shuffle = true};
    struct loader *all = loader_open(&t, &o, &e);
    for (int r = 0; r < 4; r++) {
        o.lo = cut[r];
        o.hi = cut[r + 1];
        l[r] = loader_open(&t, &o, &e);
    }
    for (int64_t s = 1; s <= STEPS; s++) {
        same = same && loader_next(all, &whole, &e) == 1 && whole.n == B;
        for (int r = 0; r < 4; r++) {
            same = same && loader_next(l[r], &b, &e) == 1 && b.n == cut[r + 1] - cut[r];
            for (int64_t i = 0; same && i < b.n * T; i++)
                same = b.ids[i] == whole.ids[cut[r] * T + i] &&
                       b.targets[i] == whole.targets[cut[r] * T + i];
            for (int64_t i = 0; same && i < b.n; i++)
                same = b.seq[i] == whole.seq[cut[r] + i];
            rows += b.n;
        }
    }
    CHECK(same && rows == (int64_t)B * STEPS, "the parts of four ranks are the batches, in order");
    for (int r = 0; r < 4; r++) {
        int64_t n = loader_read(l[r]);
        own = own && n == (cut[r + 1] - cut[r]) * (T + 1) * STEPS;
        last_read = n;
        loader_close(l[r]);
    }
    CHECK(own && loader_read(all) == (int64_t)B * (T + 1) * STEPS,
          "each has taken only its own rows out of the shards: %lld of %lld tokens by the last",
          (long long)last_read, (long long)loader_read(all));
    loader_close(all);
    tokens_close(&t);
}

static void test_bad_id(void)
{
    struct tokens t = {0};
    struct err e = {0};
    struct loader_batch b;
    make_shards("bad", 200);
    tokens_open(&t, dir, "train", &e);
    struct loader_options o = {
        .batch = 1, .hi = 1, .context = 10, .vocab = 700, .first_step = 1, .last_step = 50};
    struct loader *l = loader_open(&t, &o, &e);
    int rc = 0, got = 0;
    while (l && (rc = loader_next(l, &b, &e)) == 1)
        got++;
    CHECK_INT(got, 9, "batches before an id outside the vocabulary come");
    CHECK(rc == -1 && strstr(e.msg, "700"), "then the error names it: %s", e.msg);
    CHECK(l && loader_next(l, &b, &e) == -1, "and stays");
    loader_close(l);
    tokens_close(&t);
}

int main(void)
{
    struct err e = {0};
    test_order();
    test_batches();
    test_parts();
    test_bad_id();
    file_remove_tree(tap_tmp(), &e);
    return tap_done();
}
