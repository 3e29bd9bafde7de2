/* test_reduce: how flat vectors are cut, and that gradients which are sent while backward runs are sums
 * of whole gradients. */
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "tests/tap.h"
#include "trainer/launch.h"
#include "trainer/reduce.h"

/* ---- cuts ---- */

static void test_cuts(void)
{
    static const int64_t counts[] = {1, 63, 64, 4097, 17000, 124439808, 163009536};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int bad = 0;
        for (int ranks = 2; ranks <= 64; ranks += ranks < 9 ? 1 : 11) {
            int64_t all = reduce_extent(counts[c], ranks), at = 0, used = 0;
            for (int k = 0; k < reduce_pieces(counts[c], ranks); k++) {
                struct reduce_piece p = {0};
                for (int r = 0; r < ranks; r++) {
                    p = reduce_piece(counts[c], ranks, r, k);
                    bad += p.at != at || p.n < 1 || p.at % 64 || p.whole != p.n * ranks ||
                           p.home != p.bucket / ranks || p.used < 0 || p.used > p.n;
                    at += p.n;
                    used += p.used;
                }
                bad += p.bucket + p.whole != at;
            }
            bad += at != all || used != counts[c] || all - counts[c] >= 64 * ranks;
        }
        CHECK(bad == 0, "%lld parameters: pieces of 2 to 64 ranks cover each once, aligned",
              (long long)counts[c]);
    }
    CHECK(reduce_extent(17001, 1) == 17001, "one rank needs no padding");
    CHECK(reduce_pieces(17000, 2) >= 4, "a small model has several buckets");
}

static void test_plan(void)
{
    struct model_config c = {.layers = 12,
                             .heads = 12,
                             .width = 768,
                             .context = 1024,
                             .vocab = 50257,
                             .qkv_bias = true,
                             .tied = true};
    struct gpt2_use u = {.batch = 1, .length = 1024, .train = true};
    struct gpt2_plan one, eight, zero;
    gpt2_plan(&c, &u, &one);
    u.ranks = 8;
    gpt2_plan(&c, &u, &eight);
    u.zero = true;
    gpt2_plan(&c, &u, &zero);
    CHECK(eight.moments - one.moments >= 0 && eight.moments - one.moments < 8 * 64 * 4 * 2,
          "eight ranks pad the moments by less than 4 KiB");
    CHECK_INT(zero.moments, eight.moments / 8, "ZeRO-1 keeps an eighth of them");
    CHECK(zero.grads == eight.grads && zero.activations == one.activations, "and all else");
}

/* ---- sums ---- */

enum { RANKS = 3, B = 2, T = 16, V = 41, MICRO = 2 };

static const struct model_config small = {.layers = 3,
                                          .heads = 2,
                                          .width = 32,
                                          .context = T,
                                          .vocab = V,
                                          .qkv_bias = true,
                                          .init_std = 0.05,
                                          .norm_eps = 1e-5};

static struct gpt2 *open_model(struct backend *b, bool zero, bool tied, int ranks, int rank)
{
    struct err e = {0};
    struct model_config c = small;
    struct gpt2_use u = {
        .batch = B, .length = T, .train = true, .zero = zero, .ranks = ranks, .rank = rank};
    c.tied = tied;
    if (backend_open(b, "cpu", 0, 1, &e))
        return NULL;
    struct gpt2 *m = gpt2_new(b, &c, &u, &e);
    if (m && gpt2_init(m, 3, &e))
        return NULL;
    return m;
}

/* The micro-batches of one rank; rank 1 has one only, rank 2 two. */
static int grads_of(struct gpt2 *m, int rank, struct err *e)
{
    struct rng r = rng_make(9, "batch", (uint64_t)rank);
    int32_t ids[B * T], targets[B * T];
    uint64_t seq[B] = {0, 1};
    float loss[B * T];
    int n = rank == 1 ? 1 : MICRO;
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < B * T; i++) {
            ids[i] = (int32_t)rng_below(&r, V);
            targets[i] = (int32_t)rng_below(&r, V);
        }
        struct gpt2_batch b = {.ids = ids,
                               .targets = targets,
                               .seq = seq,
                               .B = B,
                               .T = T,
                               .valid_total = 160,
                               .last = k == n - 1};
        if (gpt2_grad(m, &b, loss, e))
            return -1;
    }
    return 0;
}

struct seen {
    int sums, early, buckets, weights, moments;
};

/* Sums of all ranks' gradients in rank order, made by one process. */
static float *expected(bool tied, int idle)
{
    struct backend b;
    struct err e = {0};
    struct gpt2 *m = open_model(&b, false, tied, 1, 0);
    size_t n = (size_t)gpt2_params(m)->count;
    float *sum = mem_array(n, sizeof *sum), *one = mem_array(n, sizeof *one);
    for (int r = 0; r < RANKS; r++) {
        gpt2_zero_grad(m);
        if ((r != idle && grads_of(m, r, &e)) || gpt2_get(m, 'g', one, &e))
            return NULL;
        for (size_t i = 0; i < n; i++)
            sum[i] += one[i];
    }
    free(one);
    gpt2_free(m);
    backend_close(&b);
    return sum;
}

/* What a rank sees of a step. idle: a rank without sequences. */
static int see(struct rendezvous *meet, bool zero, bool tied, int idle, struct seen *s,
               struct err *e)
{
    struct backend b;
    struct comm c;
    float *want = expected(tied, idle);
    struct gpt2 *m = open_model(&b, zero, tied, RANKS, meet->rank);
    if (!m || !want || comm_open(&c, NULL, &b, meet, e))
        return -1;
    int64_t count = gpt2_params(m)->count;
    float *have = mem_array((size_t)count, sizeof *have), *all = mem_array((size_t)count, 4);
    struct reducer *r = reducer_new(m, &c);
    gpt2_zero_grad(m);
    reducer_begin(r);
    if ((meet->rank != idle && grads_of(m, meet->rank, e)) || reducer_finish(r, e) ||
        gpt2_get(m, 'g', have, e))
        return -1;
    s->early = reducer_early(r);
    s->buckets = reduce_pieces(count, RANKS);
    s->sums = 1;
    for (int k = 0; k < s->buckets; k++) {
        struct reduce_piece p = reduce_piece(count, RANKS, meet->rank, k);
        int64_t at = zero ? p.at : p.bucket, n = zero ? p.used : p.whole;
        if (at + n > count)
            n = count - at;
        if (n > 0 && memcmp(have + at, want + at, (size_t)n * sizeof *have) != 0)
            s->sums = 0;
    }
    /* A step, and the moments through the sharing: what was put comes back whole. */
    struct gpt2_update u = {
        .lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .clip = 1, .step = 1};
    double norm;
    for (int64_t i = 0; i < count; i++)
        all[i] = (float)i;
    if (gpt2_update(m, &u, &norm, e) || gpt2_put(m, 'v', all, e) || gpt2_get(m, 'v', have, e))
        return -1;
    s->moments = memcmp(have, all, (size_t)count * sizeof *all) == 0;
    if (gpt2_get(m, 'w', have, e) || rendezvous_share(meet, 0, have, (size_t)count * 4, e) ||
        gpt2_get(m, 'w', all, e))
        return -1;
    s->weights = memcmp(have, all, (size_t)count * sizeof *all) == 0;
    reducer_free(r);
    comm_close(&c);
    return 0;
}

static void test_sums(bool zero, bool tied, int idle)
{
    struct rendezvous_seat seat;
    struct err e = {0};
    struct seen s[RANKS] = {{0}};
    int status = -1, p[2];
    if (pipe(p))
        return;
    if (launch_ranks(RANKS, &seat, &status, &e) == 1) {
        struct rendezvous r;
        struct rendezvous_options o = {.seat = &seat};
        struct seen mine = {0};
        int bad = rendezvous_open(&r, &o, &e) || see(&r, zero, tied, idle, &mine, &e) ||
                  rendezvous_gather(&r, &mine, sizeof mine, s, &e);
        if (!bad && seat.rank == 0)
            (void)!write(p[1], s, sizeof s);
        rendezvous_close(&r);
        _exit(bad);
    }
    char name[80];
    snprintf(name, sizeof name, "%s, %s head%s", zero ? "ZeRO-1" : "all-reduce",
             tied ? "tied" : "own", idle >= 0 ? ", an idle rank" : "");
    if (CHECK(status == 0 && read(p[0], s, sizeof s) == sizeof s, "%s: it runs", name))
        for (int r = 0; r < RANKS; r++) {
            CHECK(s[r].sums, "%s: rank %d has the sums in rank order, bit by bit", name, r);
            CHECK(s[r].early == (r == idle ? 0 : s[r].buckets) && s[r].buckets > 3,
                  "%s: %d of %d buckets of rank %d went while it went back", name, s[r].early,
                  s[r].buckets, r);
            CHECK(s[r].weights && s[r].moments, "%s: rank %d has rank 0's weights, whole moments",
                  name, r);
        }
    close(p[0]);
    close(p[1]);
}

int main(void)
{
    test_cuts();
    test_plan();
    test_sums(false, true, -1);
    test_sums(true, false, -1);
    test_sums(true, true, 1);
    return tap_done();
}
