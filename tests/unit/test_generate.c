/* Generation: the cache against full recomputation, results that don't depend on the rows beside
 * them, ends by EOT, by length, by the context, by a logit that is no number. */
#include "eval/generate.h"

#include "base/file.h"
#include "base/json.h"
#include "eval/local.h"
#include "tests/tap.h"
#include "tests/toy.h"

enum { MOST = 64, TASKS = 12 };

struct result {
    int32_t ids[600];
    int64_t n, cropped;
    int finish, done;
    float told[600]; /* of a scored prompt: the logit of id 0 behind each position */
    int64_t positions;
    float top; /* the logit of the last id picked */
};
struct book {
    const struct gen_task *task;
    int n, next, order[MOST];
    int32_t stop_id; /* token() asks to stop behind it; -1: never */
    struct result got[MOST];
    int ended;
};

static int next(void *ctx, struct gen_task *t, struct err *e)
{
    struct book *b = ctx;
    (void)e;
    if (b->next == b->n)
        return 0;
    int i = b->order[b->next++];
    *t = b->task[i];
    t->tag = &b->got[i];
    return 1;
}

static int token(void *ctx, struct gen_task *t, int32_t id, struct err *e)
{
    struct book *b = ctx;
    struct result *r = t->tag;
    (void)e;
    r->ids[r->n++] = id;
    r->top = t->logits[id];
    return b->stop_id >= 0 && id == b->stop_id;
}

static int prompt(void *ctx, struct gen_task *t, int64_t pos, const float *logits, struct err *e)
{
    struct result *r = t->tag;
    (void)ctx;
    (void)e;
    r->told[pos] = logits[0];
    r->positions++;
    return 0;
}

static int done(void *ctx, struct gen_task *t, enum finish finish, struct err *e)
{
    struct book *b = ctx;
    struct result *r = t->tag;
    (void)e;
    r->finish = (int)finish;
    r->cropped = t->cropped;
    r->done++;
    b->ended++;
    return 0;
}

/* Runs the tasks in the given order (NULL: as they stand). */
static void run(struct gpt2 *m, int64_t rows, const struct gen_task *task, int n, const int *order,
                int32_t stop_id, int64_t limit, struct book *b)
{
    struct err e = {0};
    *b = (struct book){.task = task, .n = n, .stop_id = stop_id};
    for (int i = 0; i < n; i++)
        b->order[i] = order ? order[i] : i;
    struct gen_calls calls = {
        .next = next, .token = token, .done = done, .ctx = b, .limit = limit, .prompt = prompt};
    if (generate_run(m, rows, &calls, &e)) {
        b->ended = -1;
        printf("# %s\n", e.msg);
    }
}

/* The ids of one task by recomputing all positions for each id: the slow truth. */
static void recompute(struct gpt2 *m, const struct gen_task *t, struct result *r)
{
    const struct model_config *c = gpt2_config(m);
    int64_t n = generate_keep(t->n, t->max_new, c->context);
    int32_t *seq = mem_array((size_t)c->context + 1, sizeof *seq);
    float *logits = mem_array((size_t)(c->context * c->vocab), sizeof *logits);
    struct sampler *s = sampler_new(c->vocab);
    struct err e;
    *r = (struct result){.cropped = t->n - n, .finish = FINISH_LENGTH};
    memcpy(seq, t->ids + r->cropped, (size_t)n * sizeof *seq);
    while (r->n < t->max_new && n <= c->context) {
        if (gpt2_logits(m, seq, 1, n, logits, &e)) {
            printf("# %s\n", e.msg);
            break;
        }
        const float *from = sample_repeat(s, logits + (n - 1) * c->vocab, seq, n, t->rule.repeat);
        int32_t id = sample_pick(s, from, &t->rule, t->seed, (uint64_t)r->n);
        if (id == t->eos) {
            r->finish = FINISH_STOP;
            break;
        }
        r->ids[r->n++] = seq[n++] = id;
    }
    sampler_free(s);
    free(logits);
    free(seq);
}

static bool equal(const struct result *a, const struct result *b)
{
    return a->n == b->n && a->finish == b->finish && a->cropped == b->cropped &&
           memcmp(a->ids, b->ids, (size_t)a->n * sizeof *a->ids) == 0;
}

static void test_ends(void)
{
    struct toy m;
    struct err e = {0};
    struct book b;
    static const int32_t p[] = {3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4};
    CHECK(!toy_open(&m, generate_batch(4), 1, true, 2, &e), "toy opens %s", e.msg);
    const struct gen_task t[] = {
        {.ids = p, .n = 2, .max_new = 3, .eos = -1},  {.ids = p, .n = 2, .max_new = 100, .eos = -1},
        {.ids = p, .n = 12, .max_new = 2, .eos = -1}, {.ids = p, .n = 6, .max_new = 1, .eos = -1},
        {.ids = p, .n = 3, .max_new = 0, .eos = -1},  {.ids = p, .n = 8, .max_new = 1, .eos = -1},
    };
    run(m.m, 4, t, 6, NULL, -1, 0, &b);
    CHECK_INT(b.ended, 6, "all tasks end once");
    CHECK(b.got[0].n == 3 && b.got[0].finish == FINISH_LENGTH, "at max_new");
    CHECK(b.got[1].n == 7 && b.got[1].finish == FINISH_LENGTH && b.got[1].cropped == 0,
          "at the context: 2 of 8 positions are the prompt, the last id needs none: %d ids",
          (int)b.got[1].n);
    CHECK(b.got[2].cropped == 6 && b.got[2].n == 2,
          "a prompt of 12 keeps the last 6 of a context of 8: %d lost", (int)b.got[2].cropped);
    CHECK(b.got[3].n == 1 && b.got[3].cropped == 0, "a prompt that fits is whole");
    CHECK(b.got[4].n == 0 && b.got[4].finish == FINISH_LENGTH, "no new id wanted, none made");
    CHECK_INT(b.got[5].cropped, 1, "room for one id is made by one");

    int32_t first = 0;
    for (int u = 1; u < TOY_V; u++)
        if (toy_logit(&m, p[1], 1, u) > toy_logit(&m, p[1], 1, first))
            first = u;
    CHECK_INT(b.got[0].ids[0], first,
              "the first id is the likeliest behind the last of the prompt");
    int32_t second = 0;
    for (int u = 1; u < TOY_V; u++)
        if (toy_logit(&m, first, 2, u) > toy_logit(&m, first, 2, second))
            second = u;
    CHECK_INT(b.got[0].ids[1], second, "the second one is behind the first, a position on");

    struct gen_task eos = {.ids = p, .n = 2, .max_new = 100, .eos = second};
    run(m.m, 1, &eos, 1, NULL, -1, 0, &b);
    CHECK(b.got[0].n == (first == second ? 0 : 1) && b.got[0].finish == FINISH_STOP,
          "EOT ends a sequence and is not part of it");
    run(m.m, 1, t, 1, NULL, first, 0, &b);
    CHECK(b.got[0].n == 1 && b.got[0].finish == FINISH_STOP, "token() may end it, id included");
    run(m.m, 2, t + 1, 1, NULL, -1, 4, &b);
    bool below = b.got[0].n == 7;
    for (int64_t i = 0; i < b.got[0].n; i++)
        below = below && b.got[0].ids[i] < 4;
    CHECK(below, "ids from the limit on (padding) are never picked");
    struct gen_task none = {.ids = p, .n = 0, .max_new = 1};
    struct gen_calls calls = {.next = next, .token = token, .done = done, .ctx = &b};
    b = (struct book){.task = &none, .n = 1};
    CHECK(generate_run(m.m, 1, &calls, &e) == -1 && e.msg[0], "an empty prompt is refused: %s",
          e.msg);
    m.head[first][p[1]] = NAN;
    CHECK_INT(toy_put(&m, &e), 0, "a NaN weight");
    run(m.m, 3, t, 6, NULL, -1, 0, &b);
    CHECK(b.ended == 6 && b.got[0].finish == FINISH_ERROR && b.got[0].n == 0,
          "ends that response as an error; the others end too");
    toy_close(&m);
}

/* A scored prompt tells the logits behind each of its ids but the last, and goes on as always. */
static void test_scored(void)
{
    struct toy m;
    struct err e = {0};
    static struct book plain, b;
    static const int32_t p[] = {3, 4, 5, 6, 7, 8, 9, 10};
    CHECK(!toy_open(&m, generate_batch(2), 1, true, 2, &e), "toy opens %s", e.msg);
    struct gen_task t[] = {
        {.ids = p, .n = 5, .max_new = 3, .eos = -1, .scored = true},
        {.ids = p, .n = 8, .max_new = 0, .eos = -1, .scored = true, .whole = true},
        {.ids = p, .n = 8, .max_new = 4, .eos = -1, .scored = true, .whole = true},
    };
    run(m.m, 2, t, 3, NULL, -1, 0, &b);
    double worst = 0;
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < b.got[k].positions; i++)
            worst = fmax(worst, fabs(b.got[k].told[i] - toy_logit(&m, p[i], (int)i, 0)));
    CHECK(b.ended == 3 && b.got[0].positions == 4 && b.got[1].positions == 7,
          "every position but the last is told: %d of 5, %d of 8", (int)b.got[0].positions,
          (int)b.got[1].positions);
    CHECK(worst < 1e-4, "with its own logits, off by %.2g at most", worst);
    CHECK(b.got[1].n == 0 && b.got[1].finish == FINISH_LENGTH && b.got[1].cropped == 0,
          "scoring alone makes no id");
    CHECK(b.got[2].n == 1 && b.got[2].finish == FINISH_LENGTH && b.got[2].cropped == 0,
          "a whole prompt of the context's length has room for one id");
    CHECK_NEAR(b.got[2].top, toy_logit(&m, 10, 7, b.got[2].ids[0]), 1e-4,
               "token() sees the logits its id was picked from");
    t[0].scored = false;
    run(m.m, 2, t, 1, NULL, -1, 0, &plain);
    CHECK(equal(&plain.got[0], &b.got[0]), "scoring changes no id");
    t[1].n = 9;
    struct gen_calls calls = {.next = next, .token = token, .done = done, .ctx = &b};
    b = (struct book){.task = t + 1, .n = 1};
    CHECK(generate_run(m.m, 1, &calls, &e) == -1, "a whole prompt beyond the context: %s", e.msg);
    toy_close(&m);
}

/* next() may have nothing for now; what is under way goes on. */
struct late {
    struct book b;
    int asked;
};
static int next_late(void *ctx, struct gen_task *t, struct err *e)
{
    struct late *l = ctx;
    return ++l->asked % 3 ? 2 : next(&l->b, t, e);
}
static int token_late(void *ctx, struct gen_task *t, int32_t id, struct err *e)
{
    return token(&((struct late *)ctx)->b, t, id, e);
}
static int done_late(void *ctx, struct gen_task *t, enum finish finish, struct err *e)
{
    return done(&((struct late *)ctx)->b, t, finish, e);
}

static void test_late(void)
{
    struct toy m;
    struct err e = {0};
    static struct late l;
    static const int32_t p[] = {3, 4, 5, 6, 7, 8, 9, 10};
    struct gen_task t[9];
    CHECK(!toy_open(&m, generate_batch(3), 1, true, 2, &e), "toy opens %s", e.msg);
    for (int i = 0; i < 9; i++)
        t[i] = (struct gen_task){.ids = p, .n = 1 + i % 5, .max_new = 1 + i % 4, .eos = -1};
    l = (struct late){.b = {.task = t, .n = 9, .stop_id = -1}};
    for (int i = 0; i < 9; i++)
        l.b.order[i] = i;
    struct gen_calls calls = {.next = next_late, .token = token_late, .done = done_late, .ctx = &l};
    CHECK_INT(generate_run(m.m, 3, &calls, &e), 0, "tasks that come late are taken %s", e.msg);
    bool all = l.b.ended == 9;
    for (int i = 0; i < 9; i++)
        all = all && l.b.got[i].n == t[i].max_new && l.b.got[i].done == 1;
    CHECK(all, "and all end once, with their ids: %d", l.b.ended);
    toy_close(&m);
}

/* Tasks of mixed lengths, rules and seeds. */
static void make_tasks(struct gen_task *t, int32_t *ids, int64_t vocab, int64_t longest)
{
    struct rng r = rng_make(11, "tasks", 0);
    for (int i = 0; i < MOST * 16; i++)
        ids[i] = (int32_t)rng_below(&r, (uint64_t)vocab);
    for (int i = 0; i < TASKS; i++)
        t[i] = (struct gen_task){.ids = ids + 16 * i,
                                 .n = 1 + (i * 5) % longest,
                                 .max_new = 3 + i * 2,
                                 .eos = i % 3 ? -1 : 1,
                                 .seed = (uint64_t)(100 + i),
                                 .rule = {i % 2 ? 0 : 0.9, i % 4 ? 1 : 0.8, i % 6 ? 0 : 20,
                                          i % 5 ? 0 : 0.05, i % 3 ? 1 : 1.3}};
}

static void test_rows(const char *name, struct gpt2 *(*open)(int rows, int threads),
                      void (*close)(void), int64_t vocab, int64_t longest)
{
    static const struct {
        int rows, threads;
        bool reversed;
    } v[] = {{1, 1, false}, {8, 2, false}, {3, 1, true}, {12, 2, true}};
    struct gen_task t[TASKS];
    int32_t ids[MOST * 16];
    static struct book b;
    static struct result alone[TASKS];
    int order[TASKS];
    make_tasks(t, ids, vocab, longest);
    for (int i = 0; i < TASKS; i++)
        order[i] = TASKS - 1 - i;
    for (size_t k = 0; k < sizeof v / sizeof *v; k++) {
        struct gpt2 *m = open(v[k].rows, v[k].threads);
        if (!m) {
            CHECK(false, "%s opens", name);
            return;
        }
        run(m, v[k].rows, t, TASKS, v[k].reversed ? order : NULL, -1, 0, &b);
        bool same = b.ended == TASKS;
        for (int i = 0; i < TASKS; i++) {
            if (k == 0) {
                struct result slow;
                recompute(m, &t[i], &slow);
                alone[i] = b.got[i];
                CHECK(equal(&slow, &alone[i]), "%s task %d: the cache gives what recomputing does",
                      name, i);
            }
            same = same && equal(&b.got[i], &alone[i]) && b.got[i].done == 1;
        }
        CHECK(same, "%s, %d rows, %d threads%s: the same ids as alone", name, v[k].rows,
              v[k].threads, v[k].reversed ? ", reversed" : "");
        close();
    }
}

static struct toy toy;
static struct gpt2 *open_toy(int rows, int threads)
{
    struct err e;
    return toy_open(&toy, generate_batch(rows), threads, true, 1, &e) ? NULL : toy.m;
}
static void close_toy(void)
{
    toy_close(&toy);
}

static struct local_model local;
static struct gpt2 *open_tiny(int rows, int threads)
{
    struct err e = {0};
    struct local_options o = {.batch = generate_batch(rows), .threads = threads, .decode = true};
    if (local_open(&local, tap_data("model/tiny-random-gpt2"), &o, &e)) {
        printf("# %s\n", e.msg);
        return NULL;
    }
    return local.m;
}
static void close_tiny(void)
{
    local_close(&local);
}

/* Greedy ids that another program published for this checkpoint. */
static void test_published(const char *path)
{
    struct err e = {0};
    struct json *doc = json_read(path, &e);
    const struct json *list = json_get(doc, "greedy");
    struct gpt2 *m = open_tiny(4, 1);
    struct book b;
    CHECK(doc && m && json_size(list) > 0, "expected.json holds greedy ids %s", e.msg);
    for (size_t i = 0; m && i < json_size(list); i++) {
        const struct json *row = json_at(list, i), *in = json_get(row, "prompt"),
                          *out = json_get(row, "greedy");
        int32_t prompt[600];
        for (size_t k = 0; k < json_size(in); k++)
            prompt[k] = (int32_t)json_int(json_at(in, k), -1);
        struct gen_task t = {.ids = prompt,
                             .n = (int64_t)json_size(in),
                             .max_new = (int64_t)json_size(out),
                             .eos = -1};
        run(m, 1, &t, 1, NULL, -1, 0, &b);
        bool same = b.got[0].n == t.max_new && t.max_new > 0;
        for (int64_t k = 0; same && k < t.max_new; k++)
            same = b.got[0].ids[k] == json_int(json_at(out, (size_t)k), -1);
        CHECK(same, "greedy row %zu: the published ids", i);
    }
    close_tiny();
    json_free(doc);
}

int main(void)
{
    CHECK_INT(generate_keep(100, 20, 128), 100, "a prompt with room is kept");
    CHECK_INT(generate_keep(110, 20, 128), 108, "else it makes room for max_new");
    CHECK_INT(generate_keep(500, 1000, 128), 96, "but at most a quarter of the context");
    CHECK_INT(generate_keep(5, 5, 1), 1, "a context of 1 keeps one id");
    test_ends();
    test_scored();
    test_late();
    test_rows("toy", open_toy, close_toy, TOY_V, TOY_T);
    const char *expected = tap_data("model/tiny-random-gpt2/expected.json");
    if (expected) {
        test_rows("tiny-random-gpt2", open_tiny, close_tiny, 1000, 16);
        test_published(expected);
    } else {
        SKIP("tiny-random-gpt2");
    }
    return tap_done();
}
