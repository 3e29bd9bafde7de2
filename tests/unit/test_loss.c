/* Losses against hand-set logits: every target counted once, at the right position, with the right
 * neighbour; tails, borders, slices, documents; independent of batch and threads; the oracle check.
 */
#include "eval/loss.h"

#include "base/file.h"
#include "eval/loss_keep.h"
#include "tests/tap.h"
#include "tests/toy.h"

enum { N = 101, EOT = 0 };

static int32_t ids[N];
static char dir[300];

/* EOT at the given places, else ids 1..10 by a seeded rule. */
static void make_ids(int n, const int *eots)
{
    struct rng r = rng_make(9, "ids", 0);
    for (int i = 0; i < n; i++)
        ids[i] = 1 + (int32_t)rng_below(&r, TOY_V - 1);
    for (; *eots >= 0; eots++)
        ids[*eots] = EOT;
}

static int make_shards(const int32_t *v, size_t n, struct tokens *t, struct err *e)
{
    static int count;
    struct strs names;
    struct arena a = {0};
    snprintf(dir, sizeof dir, "%s/shards%d", tap_tmp(), count++);
    struct shard_writer *w = shard_create(dir, "toy", "test", TOY_V, 40, e);
    int rc = w ? shard_put(w, v, n, e) : -1;
    rc = rc || shard_finish(w, &names, &a, e) || tokens_open(t, dir, "test", e) ? -1 : 0;
    arena_release(&a);
    return rc;
}

/* What window w should cost, by the formula. */
static double want_window(const struct toy *m, int64_t start, int64_t w, int64_t T, int64_t end)
{
    double sum = 0;
    for (int64_t t = 0; t < T && start + w * T + t + 1 < end; t++)
        sum += toy_nats(m, ids[start + w * T + t], (int)t, ids[start + w * T + t + 1]);
    return sum;
}

static bool near_all(const struct toy *m, const struct loss_units *u, int64_t start, int64_t T,
                     int64_t end)
{
    for (size_t i = 0; i < u->n; i++) {
        double want = want_window(m, start, (int64_t)i, T, end);
        if (!(fabs(u->v[i].nats - want) <= 2e-5)) {
            printf("# window %zu: got %.9g, want %.9g\n", i, u->v[i].nats, want);
            return false;
        }
    }
    return true;
}

static void test_windows(void)
{
    struct toy m;
    struct tokens t;
    struct err e = {0};
    struct loss_units u = {0};
    struct loss_totals s;
    make_ids(N, (const int[]){0, 30, 31, 60, -1});
    CHECK(!toy_open(&m, loss_rows(TOY_T), 1, false, 1.5, &e) && !make_shards(ids, N, &t, &e),
          "toy opens %s", e.msg);
    struct loss_slice slice = {.window = TOY_T, .eot = EOT};
    CHECK_INT(loss_windows(m.m, &t, &slice, &u, &s, &e), 0, "windows run");
    CHECK_INT(u.n, 13, "100 targets in windows of 8 are 13 windows");
    CHECK(near_all(&m, &u, 0, TOY_T, N), "each window costs what the formula says");
    CHECK_INT(s.tokens, N - 1, "every token but the first is counted, once");
    CHECK_INT(u.v[12].tokens, 4, "the tail is counted");
    CHECK(s.bytes == -1 && u.v[0].bytes == -1, "bare shards: bytes are unknown");
    CHECK(str_eqz(u.v[0].id, "w000000") && str_eqz(u.v[12].id, "w000012"), "ids by number");
    double sum = 0;
    for (size_t i = 0; i < u.n; i++)
        sum += u.v[i].nats;
    CHECK(sum == s.nats, "the total is the sum of the windows");
    /* first targets at 1, 9, 17, 25 | 33 (behind EOTs at 30, 31), 41, 49, 57 | 65... */
    CHECK(str_eqz(u.v[0].cluster, "d000001") && str_eqz(u.v[3].cluster, "d000001") &&
              str_eqz(u.v[4].cluster, "d000003") && str_eqz(u.v[7].cluster, "d000003") &&
              str_eqz(u.v[8].cluster, "d000004") && s.documents == 3 && s.long_documents == 0,
          "clusters are the documents in which windows start");
    loss_units_release(&u);
    slice.start =
        26; /* 27..29 of the first, nothing of the second but its EOT, the third, the fourth */
    slice.tokens = 35;
    CHECK(!loss_windows(m.m, &t, &slice, &u, &s, &e) && s.documents == 3,
          "documents are those of which an id is predicted, an EOT aside: %lld",
          (long long)s.documents);
    loss_units_release(&u);
    slice.tokens = 34;
    CHECK(!loss_windows(m.m, &t, &slice, &u, &s, &e) && s.documents == 2,
          "an EOT at the slice's end begins nothing: %lld", (long long)s.documents);
    loss_units_release(&u);

    slice = (struct loss_slice){.start = 17, .tokens = 21, .window = 5, .eot = EOT};
    CHECK_INT(loss_windows(m.m, &t, &slice, &u, &s, &e), 0, "a slice runs");
    CHECK(u.n == 5 && s.tokens == 21 && near_all(&m, &u, 17, 5, 17 + 22),
          "a slice of 21 tokens from 17 on, in windows of 5, counts exactly those");
    loss_units_release(&u);
    slice = (struct loss_slice){.window = 1, .eot = EOT};
    CHECK(!loss_windows(m.m, &t, &slice, &u, &s, &e) && u.n == N - 1 && near_all(&m, &u, 0, 1, N),
          "windows of one token");
    loss_units_release(&u);

    static const struct loss_slice bad[] = {
        {.start = 100, .window = 8},
        {.start = 101, .window = 8},
        {.start = -1, .window = 8},
        {.tokens = 101, .window = 8},
        {.window = 9},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        e = (struct err){0};
        CHECK(loss_windows(m.m, &t, &bad[i], &u, &s, &e) == -1 && e.msg[0], "refused: %s", e.msg);
        loss_units_release(&u);
    }
    slice = (struct loss_slice){.tokens = 100, .window = 8, .eot = EOT};
    CHECK(!loss_windows(m.m, &t, &slice, &u, &s, &e) && s.tokens == 100,
          "the last token can be asked for");
    loss_units_release(&u);
    tokens_close(&t);
    toy_close(&m);
}

/* Windows of T ids, S apart: the first counts all, later ones the last S of theirs. */
static double want_strided(const struct toy *m, int64_t i, int64_t T, int64_t S, int64_t *tokens)
{
    double sum = 0;
    *tokens = 0;
    for (int64_t t = i ? T - S : 0; t < T && i * S + t + 1 < N; t++) {
        sum += toy_nats(m, ids[i * S + t], (int)t, ids[i * S + t + 1]);
        ++*tokens;
    }
    return sum;
}

static void test_stride(void)
{
    static const int64_t strides[] = {1, 3, 4, 7};
    struct toy m;
    struct tokens t;
    struct err e = {0};
    make_ids(N, (const int[]){0, 30, 31, 60, -1});
    CHECK(!toy_open(&m, loss_rows(TOY_T), 1, false, 1.5, &e) && !make_shards(ids, N, &t, &e),
          "toy opens %s", e.msg);
    for (size_t k = 0; k < 4; k++) {
        struct loss_units u = {0};
        struct loss_totals s;
        struct loss_slice slice = {.window = TOY_T, .stride = strides[k], .eot = EOT};
        bool same = loss_windows(m.m, &t, &slice, &u, &s, &e) == 0;
        for (size_t i = 0; same && i < u.n; i++) {
            int64_t tokens;
            double want = want_strided(&m, (int64_t)i, TOY_T, strides[k], &tokens);
            same = fabs(u.v[i].nats - want) <= 2e-5 && u.v[i].tokens == tokens;
        }
        CHECK(same, "windows of 8, %lld apart, cost what the formula says", (long long)strides[k]);
        CHECK_INT(s.tokens, N - 1, "and count every token but the first once");
        loss_units_release(&u);
    }
    struct loss_units a = {0}, b = {0};
    struct loss_totals s;
    struct loss_slice whole = {.window = TOY_T, .stride = TOY_T, .eot = EOT},
                      plain = {.window = TOY_T, .eot = EOT}, bad = {.window = 4, .stride = 5};
    CHECK(!loss_windows(m.m, &t, &whole, &a, &s, &e) &&
              !loss_windows(m.m, &t, &plain, &b, &s, &e) && a.n == b.n &&
              a.v[3].nats == b.v[3].nats,
          "a stride of the window is disjoint windows, to the bit");
    loss_units_release(&a);
    loss_units_release(&b);
    CHECK(loss_windows(m.m, &t, &bad, &a, &s, &e) == -1, "refused: %s", e.msg);
    tokens_close(&t);
    toy_close(&m);
}

/* The same bits whatever the threads and whatever stands beside a window: a slice of the same
 * windows, the whole split. */
static void test_independent(void)
{
    static const struct {
        int threads;
        int64_t tokens;
    } v[] = {{1, 0}, {2, 0}, {1, 8}, {2, 16}, {2, 64}, {1, 99}};
    struct tokens t;
    struct err e = {0};
    double first[13];
    make_ids(N, (const int[]){0, -1});
    if (make_shards(ids, N, &t, &e))
        CHECK(false, "shards: %s", e.msg);
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        struct toy m;
        struct loss_units u = {0};
        struct loss_totals s;
        struct loss_slice slice = {.window = TOY_T, .tokens = v[i].tokens, .eot = EOT};
        bool same = !toy_open(&m, loss_rows(TOY_T), v[i].threads, false, 1.5, &e) &&
                    !loss_windows(m.m, &t, &slice, &u, &s, &e) && u.n > 0;
        for (size_t k = 0; same && k < u.n; k++) {
            if (i == 0)
                first[k] = u.v[k].nats;
            same = u.v[k].tokens < TOY_T || memcmp(&first[k], &u.v[k].nats, sizeof(double)) == 0;
        }
        CHECK(same, "%lld tokens, %d threads: the same bits in every whole window",
              (long long)v[i].tokens, v[i].threads);
        loss_units_release(&u);
        toy_close(&m);
    }
    tokens_close(&t);
}

static void test_blocks(void)
{
    /* One document of 81 windows of one token, then a short one. */
    struct toy m;
    struct tokens t;
    struct err e = {0};
    struct loss_units u = {0};
    struct loss_totals s;
    int last = -1, blocks = 0;
    make_ids(N, (const int[]){0, 82, -1});
    CHECK(!toy_open(&m, loss_rows(TOY_T), 1, false, 1.5, &e) && !make_shards(ids, N, &t, &e),
          "toy opens");
    struct loss_slice slice = {.window = 1, .eot = EOT};
    CHECK_INT(loss_windows(m.m, &t, &slice, &u, &s, &e), 0, "windows run");
    for (size_t i = 0; i < 81; i++) {
        int b = -1;
        bool named = u.v[i].cluster.n == 12 && str_starts(u.v[i].cluster, "d000001.");
        for (size_t k = 8; named && k < 12; k++)
            b = (b < 0 ? 0 : b) * 10 + (u.v[i].cluster.p[k] - '0');
        if (b != last)
            blocks++;
        last = b;
    }
    CHECK(blocks == 5 && last == 4, "a document of 81 windows is 5 blocks (4 of 16, one of 17): %d",
          blocks);
    CHECK(str_eqz(u.v[81].cluster, "d000002") && str_eqz(u.v[99].cluster, "d000002"),
          "a short one behind it is one cluster");
    CHECK(s.documents == 2 && s.long_documents == 1, "and the long one is counted");
    loss_units_release(&u);
    tokens_close(&t);
    make_ids(N, (const int[]){0, 2, 4, 6, 60, -1});
    slice.window = TOY_T;
    CHECK(!make_shards(ids, N, &t, &e) && !loss_windows(m.m, &t, &slice, &u, &s, &e) &&
              s.documents == 5,
          "documents that lie inside one window count too: %lld", (long long)s.documents);
    slice.window = 1;
    loss_units_release(&u);
    make_ids(N, (const int[]){0, 40, -1});
    slice = (struct loss_slice){.window = TOY_T, .stride = 1, .eot = EOT};
    tokens_close(&t);
    CHECK(!make_shards(ids, N, &t, &e) && !loss_windows(m.m, &t, &slice, &u, &s, &e) &&
              u.n > 2 * LOSS_LONG_DOCUMENT && s.long_documents == 0 &&
              str_eqz(u.v[0].cluster, "d000001") && str_eqz(u.v[u.n - 1].cluster, "d000002"),
          "%zu windows one token apart are two documents, none of them long", u.n);
    loss_units_release(&u);
    slice = (struct loss_slice){.window = 1, .eot = EOT};
    slice.eot = -1;
    CHECK(!loss_windows(m.m, &t, &slice, &u, &s, &e) && s.documents == 1 && s.long_documents == 1,
          "without a known EOT all is one long document");
    loss_units_release(&u);
    tokens_close(&t);
    toy_close(&m);
}

static void test_numbers(void)
{
    struct toy m;
    struct tokens t;
    struct err e = {0};
    struct loss_units u = {0};
    struct loss_totals s;
    make_ids(N, (const int[]){0, -1});
    CHECK(!toy_open(&m, loss_rows(TOY_T), 1, false, 0, &e) && !make_shards(ids, N, &t, &e),
          "uniform toy opens");
    struct loss_slice slice = {.window = TOY_T, .eot = EOT};
    CHECK_INT(loss_windows(m.m, &t, &slice, &u, &s, &e), 0, "it runs");
    CHECK_NEAR(s.nats / (double)s.tokens, log(TOY_V), 1e-6, "a uniform model costs ln V");
    loss_units_release(&u);
    int64_t bytes[TOY_V] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    t.info.token_bytes = (struct i64s){bytes, TOY_V};
    CHECK_INT(loss_windows(m.m, &t, &slice, &u, &s, &e), 0, "with bytes it runs");
    int64_t want = 0;
    for (int i = 1; i < N; i++)
        want += ids[i];
    CHECK_INT(s.bytes, want, "bytes are those of the targets, EOT has none");
    loss_units_release(&u);
    m.head[3][2] = NAN;
    CHECK_INT(toy_put(&m, &e), 0, "a NaN weight");
    CHECK(loss_windows(m.m, &t, &slice, &u, &s, &e) == -1 && strstr(e.msg, "w0000") &&
              strstr(e.msg, "finite"),
          "is an error that names the window: %s", e.msg);
    loss_units_release(&u);
    t.info.token_bytes = (struct i64s){0};
    tokens_close(&t);
    toy_close(&m);
}

/* ---- what is kept --------------------------------------------------------------------------- */

static void count_pass(void *ctx, const char *name, const struct tensor *t)
{
    (void)t;
    *(int *)ctx += strcmp(name, "embed") == 0;
}

/* Runs over what lies beside `out` under this identity; *passes: through the model. */
static int run_kept(struct toy *m, const struct tokens *t, const char *out, const char *identity,
                    struct loss_units *u, int *passes, struct err *e)
{
    struct loss_keep keep;
    struct loss_totals s;
    struct loss_slice slice = {.window = TOY_T, .eot = EOT};
    *u = (struct loss_units){.keep = &keep};
    *passes = 0;
    gpt2_watch(m->m, count_pass, passes);
    int rc = loss_keep_open(&keep, out, str_z(identity), NULL, e);
    rc = rc ? rc : loss_windows(m->m, t, &slice, u, &s, e);
    return loss_keep_close(&keep, rc, e);
}

/* Writes what a killed run would have left: rows [0, n), each with nats 1000 + its number. */
static int plant(const char *out, const char *identity, int n, struct err *e)
{
    struct loss_keep keep;
    struct arena a = {0};
    int rc = loss_keep_open(&keep, out, str_z(identity), NULL, e);
    for (int i = 0; i < n && !rc; i++) {
        struct loss_row r = {.unit = str_printf(&a, "w%06d", i), .row = i, .tokens = 8};
        r.nats = 1000 + i;
        rc = loss_keep_add(&keep, &r, e);
    }
    arena_release(&a);
    loss_keep_close(&keep, -1, e);
    return rc;
}

static void test_kept(void)
{
    struct toy m;
    struct tokens t;
    struct err e = {0};
    struct loss_units u = {0}, whole = {0};
    char out[400];
    int passes, all;
    make_ids(N, (const int[]){0, 30, 31, 60, -1});
    snprintf(out, sizeof out, "%s/kept", tap_tmp());
    CHECK(!toy_open(&m, loss_rows(TOY_T), 1, false, 1.5, &e) && !make_shards(ids, N, &t, &e),
          "toy opens %s", e.msg);
    CHECK(!run_kept(&m, &t, out, "a", &whole, &all, &e) && all == 1 &&
              near_all(&m, &whole, 0, TOY_T, N),
          "13 windows are one pass");
    CHECK(!plant(out, "a", 12, &e) && !run_kept(&m, &t, out, "a", &u, &passes, &e) && passes == 1 &&
              near_all(&m, &u, 0, TOY_T, N),
          "a pass of which a window is missing is computed whole: %s", e.msg);
    loss_units_release(&u);
    CHECK(!plant(out, "a", 13, &e) && !run_kept(&m, &t, out, "a", &u, &passes, &e) && passes == 0 &&
              u.v[12].nats == 1012 && u.v[0].nats == 1000,
          "one that is kept is not computed again");
    loss_units_release(&u);
    CHECK(!run_kept(&m, &t, out, "a", &u, &passes, &e) && passes == 1,
          "and is gone when the result was there");
    loss_units_release(&u);
    CHECK(!plant(out, "b", 13, &e) && !run_kept(&m, &t, out, "a", &u, &passes, &e) && passes == 1 &&
              near_all(&m, &u, 0, TOY_T, N),
          "what was kept for another identity is not taken");
    loss_units_release(&u);
    loss_units_release(&whole);
    tokens_close(&t);
    toy_close(&m);
}

/* ---- documents ------------------------------------------------------------------------------ */

struct feed {
    const int *lengths; /* -1 ends */
    int at, most;
    struct arena a;
    int64_t text_bytes[16];
};

static int feed_next(void *ctx, struct loss_doc *d, struct err *e)
{
    struct feed *f = ctx;
    (void)e;
    if (f->lengths[f->at] < 0 || f->at == f->most)
        return 0;
    *d = (struct loss_doc){.id = str_printf(&f->a, "doc%d", f->at),
                           .ids = ids + 1 + f->at,
                           .n = f->lengths[f->at],
                           .bytes = 2 * f->lengths[f->at],
                           .oracle_bits = NAN};
    f->text_bytes[f->at++] = d->bytes;
    return 1;
}

/* By the rule in eval/loss.h, target by target; *end: of the closing EOT. */
static double want_document(const struct toy *m, const int32_t *body, int n, double *end)
{
    int32_t seq[N + 2];
    double sum = 0;
    seq[0] = seq[n + 1] = EOT;
    memcpy(seq + 1, body, (size_t)n * sizeof *seq);
    for (int k = 0; k <= n; k++) { /* target seq[k + 1] behind seq[k] */
        int begin = k < TOY_T ? 0 : (k - TOY_T) / (TOY_T / 2) * (TOY_T / 2) + TOY_T / 2;
        *(k == n ? end : &sum) += toy_nats(m, seq[k], k - begin, seq[k + 1]);
    }
    return sum;
}

static void test_documents(void)
{
    static const int lengths[] = {3, 0, 6, 7, 8, 9, 11, 12, 40, 1, -1};
    static const int counts[] = {10, 1, 4, 9};
    double first[16];
    struct err e = {0};
    make_ids(N, (const int[]){-1});
    for (size_t b = 0; b < sizeof counts / sizeof *counts; b++) {
        struct toy m;
        struct feed f = {.lengths = lengths, .most = counts[b]};
        struct loss_units u = {0};
        struct loss_totals s = {0};
        bool same = true;
        double ends = 0;
        CHECK(!toy_open(&m, loss_rows(TOY_T), 1 + b % 2, false, 1.5, &e) &&
                  !loss_documents(m.m, EOT, feed_next, &f, &u, &s, &e) && u.n == (size_t)counts[b],
              "%d documents run, %d threads %s", counts[b], 1 + (int)b % 2, e.msg);
        for (size_t i = 0; i < u.n; i++) {
            double end = 0, want = want_document(&m, ids + 1 + i, lengths[i], &end);
            ends += end;
            if (b == 0) {
                CHECK_NEAR(u.v[i].nats, want, 2e-5, "a document of %d ids: alone behind EOT",
                           lengths[i]);
                CHECK_NEAR(u.v[i].nats_end, end, 1e-5, "its closing EOT kept apart");
                first[i] = u.v[i].nats;
            }
            same = same && memcmp(&first[i], &u.v[i].nats, sizeof(double)) == 0;
            same = same && u.v[i].tokens == lengths[i] && u.v[i].bytes == 2 * lengths[i];
        }
        CHECK(same, "with the same bits and counts whatever runs beside them");
        CHECK(b || (s.documents == 10 && s.tokens == 3 + 6 + 7 + 8 + 9 + 11 + 12 + 40 + 1),
              "tokens are ids without the ends");
        CHECK_NEAR(s.nats_end, ends, 1e-4, "whose nats are summed apart");
        loss_units_release(&u);
        arena_release(&f.a);
        toy_close(&m);
    }
}

/* ---- the oracle check ----------------------------------------------------------------------- */

static void test_oracle(void)
{
    struct loss_units u = {0};
    struct loss_gap g;
    struct err e = {0};
    int64_t bytes[100];
    struct loss_unit v[100];
    struct rng r = rng_make(3, "oracle", 0);
    u.v = v;
    u.n = 100;
    for (int i = 0; i < 100; i++) {
        bytes[i] = 200 + i;
        double oracle = 300 + 20 * rng_normal(&r);
        v[i] = (struct loss_unit){.bytes = bytes[i],
                                  .tokens = 50,
                                  .oracle_bits = oracle,
                                  .nats = (oracle + 4 * rng_normal(&r)) * log(2)};
    }
    CHECK(!loss_check_oracle(&u, bytes, &g, &e) && g.n == 100 && fabs(g.mean) < 3 * g.se,
          "a perfect model passes: %+.3f +- %.3f bits", g.mean, g.se);
    CHECK_NEAR(g.se, 0.4, 0.1, "with the standard error of its differences");
    struct loss_unit keep[100];
    memcpy(keep, v, sizeof v);
    for (int i = 0; i < 100; i++)
        v[i].nats += 20 * log(2);
    CHECK(!loss_check_oracle(&u, bytes, &g, &e), "a worse model passes");
    memcpy(v, keep, sizeof v);
    for (int i = 0; i < 20; i++) /* twenty leaked documents are known by heart */
        v[i].nats = 5;
    CHECK(loss_check_oracle(&u, bytes, &g, &e) == -1 && strstr(e.msg, "trained on"),
          "a planted leak is caught: %s", e.msg[0] ? e.msg : "not caught");
    memcpy(v, keep, sizeof v);
    for (int i = 0; i < 100; i++)
        v[i].bytes = bytes[i] + 10; /* e.g. EOT counted as bytes */
    CHECK(loss_check_oracle(&u, bytes, &g, &e) == -1, "a wrong denominator is caught");
    memcpy(v, keep, sizeof v);
    for (int i = 0; i < 100; i++)
        v[i].nats *= log(2); /* nats taken for bits */
    CHECK(loss_check_oracle(&u, bytes, &g, &e) == -1, "a wrong unit is caught");
    memcpy(v, keep, sizeof v);
    for (int i = 0; i < 100; i++)
        v[i].nats -= 3 * log(2); /* the end left out */
    CHECK(loss_check_oracle(&u, bytes, &g, &e) == -1, "a missing end is caught");
    for (int i = 0; i < 100; i++)
        v[i].nats_end = 3 * log(2);
    CHECK(!loss_check_oracle(&u, bytes, &g, &e), "one that is kept apart is not missing");
    for (int i = 9; i < 100; i++)
        v[i].oracle_bits = NAN;
    CHECK(!loss_check_oracle(&u, bytes, &g, &e) && g.n == 9 && isnan(g.mean),
          "nine documents are too few for a verdict");
}

int main(void)
{
    test_windows();
    test_stride();
    test_independent();
    test_blocks();
    test_numbers();
    test_kept();
    test_documents();
    test_oracle();
    file_remove_tree(tap_tmp(), &(struct err){0});
    return tap_done();
}
