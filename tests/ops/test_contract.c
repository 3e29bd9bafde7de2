/* test_contract: what backend.h promises besides the numbers: refusals, NaN, extreme values, masks,
 * and the registry. For any backend.
 */
#include <math.h>
#include <string.h>

#include "tests/ops/harness.h"
#include "tests/tap.h"

static const struct dropout none;

/* The op failed with a message that holds `part`, later ops do nothing, and nothing was written. */
static void check_refused(struct rig *r, const struct box *y, const char *part, const char *what)
{
    struct err e = {0};
    bool failed = op_sync(&r->b, &e) < 0;
    if (!CHECK(failed && strstr(e.msg, part), "refused: %s", what))
        printf("# %s\n", e.msg);
    r->b.failed = false;
    struct box copy = *y;
    box_get(r, &copy);
    bool same = true;
    for (int64_t i = 0; i < y->n; i++)
        same = same && (double)copy.got[i] == y->want[i];
    CHECK(same && !r->guard_broken, "refused: %s: nothing is written", what);
}

static void test_refusals(const char *backend)
{
    struct rig r;
    rig_open(&r, backend, 0);
    struct box x = box_new(&r, 0, 1, 3, 2, 3, 8, 0), y = box_new(&r, 5, 0, 3, 2, 3, 8, 0);
    struct box w = box_new(&r, 0, 1, 2, 8, 8, 0, 0), b = box_new(&r, 0, 1, 1, 8, 0, 0, 0);
    struct box w9 = box_new(&r, 0, 1, 2, 9, 8, 0, 0);
    op_linear_fwd(&r.b, &y.t, &x.t, &w9.t, WEIGHT_IN_OUT, NULL, NULL);
    check_refused(&r, &y, "linear_fwd: w is [9, 8], want [8, 8]", "a weight of another width");
    op_linear_fwd(&r.b, &y.t, &x.t, &w.t, WEIGHT_IN_OUT, &w.t, NULL);
    check_refused(&r, &y, "bias", "a bias of another length");
    op_linear_fwd(&r.b, &y.t, &y.t, &w.t, WEIGHT_IN_OUT, NULL, NULL);
    check_refused(&r, &y, "storage", "a product into its own input");
    op_linear_fwd(&r.b, &y.t, &x.t, &w.t, WEIGHT_IN_OUT, NULL, &y.t);
    check_refused(&r, &y, "storage", "gelu over what backward needs");
    struct tensor gone = y.t;
    gone.data = NULL;
    op_linear_fwd(&r.b, &y.t, &gone, &w.t, WEIGHT_IN_OUT, NULL, NULL);
    check_refused(&r, &y, "x is missing", "a tensor without data");
    struct tensor ints = y.t;
    ints.type = DTYPE_I32;
    op_linear_fwd(&r.b, &y.t, &ints, &w.t, WEIGHT_IN_OUT, NULL, NULL);
    check_refused(&r, &y, "type i32", "integers where reals belong");
    struct tensor vast = y.t;
    vast.dim[0] = vast.dim[1] = INT64_MAX / 2;
    op_linear_fwd(&r.b, &y.t, &vast, &w.t, WEIGHT_IN_OUT, NULL, NULL);
    check_refused(&r, &y, "x is missing or empty", "a shape whose size overflows");
    op_attention_fwd(&r.b, &y.t, &b.t, &x.t, 3, none);
    check_refused(&r, &y, "heads", "heads that do not divide the width");
    op_add_norm_fwd(&r.b, &y.t, &y.t, NULL, NULL, &x.t, &x.t, &b.t, &b.t, 1e-5f,
                    (struct dropout){.p = 1.5f});
    check_refused(&r, &y, "dropout of 1.5", "a dropout beyond 1");
    op_add_norm_fwd(&r.b, &y.t, &y.t, NULL, NULL, &x.t, &x.t, &b.t, &b.t, 1e-5f,
                    (struct dropout){.p = .5f});
    check_refused(&r, &y, "sequence ids", "dropout without ids");

    struct tensor ids;
    int32_t *id = ints_new(&r, &ids, 6);
    struct box wpe = box_new(&r, 0, 1, 2, 3, 8, 0, 0);
    id[4] = 9;
    op_put(&r.b, &ids, id);
    ids = tensor_2d(DTYPE_I32, ids.data, 2, 3);
    op_embed_fwd(&r.b, &y.t, &ids, &w9.t, &wpe.t, NULL, none);
    check_refused(&r, &y, "id 9 of row 4", "an id beyond the vocabulary");
    id[4] = -2;
    op_put(&r.b, &ids, id);
    op_embed_fwd(&r.b, &y.t, &ids, &w9.t, &wpe.t, NULL, none);
    check_refused(&r, &y, "id -2", "a negative id");
    id[4] = 0;
    id[3] = -1;
    op_put(&r.b, &ids, id);
    op_embed_fwd(&r.b, &y.t, &ids, &w9.t, &wpe.t, NULL, none);
    check_refused(&r, &y, "id -1 of row 3", "padding in a sequence's first place");
    id[3] = 0;
    id[4] = -1;
    op_put(&r.b, &ids, id);
    op_embed_bwd(&r.b, &w9.t, &wpe.t, &x.t, &ids, none);
    check_refused(&r, &y, "id -1 of row 4", "padding while training");
    id[4] = 0;
    op_put(&r.b, &ids, id);
    struct box short_wpe = box_new(&r, 0, 1, 2, 2, 8, 0, 0);
    op_embed_fwd(&r.b, &y.t, &ids, &w9.t, &short_wpe.t, NULL, none);
    check_refused(&r, &y, "3 positions, the table has 2", "more positions than the table has");

    struct box logits = box_new(&r, 0, 1, 2, 6, 8, 0, 0), loss = box_new(&r, 4, 0, 1, 6, 0, 0, 0);
    id[5] = 8;
    op_put(&r.b, &ids, id);
    op_classifier(&r.b, &loss.t, &logits.t, &ids, NULL, false, 0);
    check_refused(&r, &loss, "target 8 of row 5", "a target beyond the vocabulary");
    id[5] = -100;
    op_put(&r.b, &ids, id);
    op_classifier(&r.b, &loss.t, &logits.t, &ids, NULL, false, 0);
    check_refused(&r, &loss, "target -100", "another ignore mark than -1");

    struct box cache = box_new(&r, 3, 0, 4, 2, 2, 2, 1), qkv = box_new(&r, 0, 1, 3, 2, 1, 6, 0);
    struct box out = box_new(&r, 3, 0, 2, 2, 2, 0, 0);
    struct tensor pos;
    int32_t *at = ints_new(&r, &pos, 2);
    at[1] = 2;
    op_put(&r.b, &pos, at);
    op_kv_write(&r.b, &cache.t, &cache.t, &qkv.t, &pos, 2);
    check_refused(&r, &cache, "position 2 of row 1", "a key behind the cache");
    op_attention_step(&r.b, &out.t, &cache.t, &cache.t, &qkv.t, &pos, 2);
    check_refused(&r, &out, "position 2 of row 1", "a step behind the cache");

    struct box p = box_new(&r, 0, 1, 1, 10, 0, 0, 0), one = box_new(&r, 0, 0, 1, 1, 0, 0, 0);
    struct adamw_segment seg[] = {{0, 4, true}, {5, 10, false}};
    struct adamw h = {.step = 1, .segments = seg, .nsegments = 2, .lo = 0, .hi = 10};
    op_adamw(&r.b, &p.t, &p.t, &p.t, &p.t, &h, &one.t, &one.t);
    check_refused(&r, &p, "segment 1 begins at 5, want 4", "segments with a hole");
    rig_close(&r);
}

static void test_failure_sticks(const char *backend)
{
    struct rig r;
    rig_open(&r, backend, 0);
    struct box x = box_new(&r, 0, 1, 2, 2, 4, 0, 0), y = box_new(&r, 5, 0, 2, 2, 4, 0, 0);
    struct box w = box_new(&r, 0, 1, 2, 4, 4, 0, 0);
    op_linear_fwd(&r.b, &y.t, &w.t, &w.t, WEIGHT_IN_OUT, NULL, NULL);
    op_linear_fwd(&r.b, &y.t, &x.t, &w.t, WEIGHT_IN_OUT, NULL, NULL);
    CHECK(op_alloc(&r.b, 64) == NULL, "after a failure nothing is allocated");
    struct err e = {0}, again = {0};
    CHECK(op_sync(&r.b, &e) < 0 && op_sync(&r.b, &again) < 0, "sync reports it every time");
    CHECK_STR(e.msg, again.msg, "the first failure stays");
    r.b.failed = false;
    box_get(&r, &y);
    CHECK(y.got[0] == 5, "later ops did nothing");
    CHECK(op_alloc(&r.b, (size_t)1 << 60) == NULL && op_sync(&r.b, &e) < 0,
          "memory that cannot be had is a failure: %s", e.msg);
    rig_close(&r);
}

/* Non-finite values must reach the loss, or a run goes on with garbage. */
static void test_non_finite(const char *backend)
{
    static const struct {
        const char *name;
        double at;
    } bad[] = {{"NaN", NAN}, {"+inf", INFINITY}};
    for (size_t k = 0; k < 2; k++) {
        struct rig r;
        rig_open(&r, backend, 0);
        for (int64_t where = 0; where < 70; where += 23) {
            struct box x = box_new(&r, 0, 1, 2, 2, 70, 0, 0),
                       loss = box_new(&r, 0, 0, 1, 2, 0, 0, 0);
            struct box scale = box_new(&r, 1, 0, 1, 1, 0, 0, 0);
            struct tensor targets;
            int32_t *id = ints_new(&r, &targets, 2);
            op_put(&r.b, &targets, id);
            x.want[where] = bad[k].at;
            box_put(&r, &x);
            op_classifier(&r.b, &loss.t, &x.t, &targets, NULL, false, 0);
            box_get(&r, &loss);
            CHECK(!isfinite(loss.got[0]) && isfinite(loss.got[1]),
                  "classifier: %s in logit %d reaches the loss of its row", bad[k].name,
                  (int)where);
            op_classifier(&r.b, &loss.t, &x.t, &targets, &scale.t, true, 0);
            box_get(&r, &x);
            bool all = true;
            for (int i = 0; i < 70; i++)
                all = all && isnan(x.got[i]);
            CHECK(all, "classifier: %s in logit %d reaches the whole gradient", bad[k].name,
                  (int)where);
        }
        struct box x = box_new(&r, 0, 1, 3, 1, 40, 48, 0), y = box_new(&r, 0, 0, 3, 1, 40, 16, 0);
        struct box lse = box_new(&r, 0, 0, 3, 1, 1, 40, 0), sum = box_new(&r, 0, 0, 1, 1, 0, 0, 0);
        x.want[35 * 48 + 20] = bad[k].at; /* a key at 35 */
        box_put(&r, &x);
        op_attention_fwd(&r.b, &y.t, &lse.t, &x.t, 1, none);
        op_sum_squares(&r.b, &sum.t, &x.t);
        box_get(&r, &y);
        box_get(&r, &sum);
        bool late = true, early = true;
        for (int i = 0; i < 16; i++) {
            late = late && !isfinite(y.got[39 * 16 + i]);
            early = early && isfinite(y.got[10 * 16 + i]);
        }
        /* +inf times a negative query is -inf: that key merely has no weight. */
        CHECK(late || k == 1, "attention: a %s key reaches later positions", bad[k].name);
        CHECK(early, "attention: and none before its strip");
        CHECK(!isfinite(sum.got[0]), "sum of squares: %s is seen", bad[k].name);
        struct box w = box_new(&r, 1, 0, 1, 48, 0, 0, 0), n = box_new(&r, 0, 0, 3, 1, 40, 48, 0);
        op_add_norm_fwd(&r.b, NULL, &n.t, NULL, NULL, &x.t, NULL, &w.t, &w.t, 1e-5f, none);
        box_get(&r, &n);
        CHECK(isnan(n.got[35 * 48]) && isfinite(n.got[34 * 48]), "add_norm: %s stays in its row",
              bad[k].name);
        rig_close(&r);
    }
}

/* gelu and its gradient through linear with a weight of 1: finite and right everywhere. */
static void test_gelu(const char *backend)
{
    struct rig r;
    rig_open(&r, backend, 0);
    enum { N = 4003 };
    struct box x = box_new(&r, 0, 0, 2, N, 1, 0, 0), y = box_new(&r, 0, 0, 2, N, 1, 0, 0);
    struct box pre = box_new(&r, 0, 0, 2, N, 1, 0, 0), w = box_new(&r, 1, 0, 2, 1, 1, 0, 0);
    struct box dy = box_new(&r, 1, 0, 2, N, 1, 0, 0), dw = box_new(&r, 0, 0, 2, 1, 1, 0, 0);
    static const double far[] = {-40, 40, -1e3, 1e3, -1e10, 1e10, -1e30, 1e30, -3e38, 3e38, 0};
    for (int i = 0; i < N; i++)
        x.want[i] = i < 11 ? far[i] : -12 + 24.0 * i / N;
    box_put(&r, &x);
    op_linear_fwd(&r.b, &y.t, &x.t, &w.t, WEIGHT_IN_OUT, NULL, &pre.t);
    op_linear_bwd(&r.b, NULL, false, &dw.t, NULL, &dy.t, &x.t, &w.t, WEIGHT_IN_OUT, &pre.t);
    box_get(&r, &y);
    box_get(&r, &dy);
    bool finite = true, right = true;
    double worst = 0, worst_grad = 0;
    for (int i = 0; i < N; i++) {
        double v = x.want[i], a = (double)y.got[i], g = (double)dy.got[i];
        finite = finite && isfinite(a) && isfinite(g);
        if (fabs(v) >= 40) {
            right =
                right && fabs(a - (v > 0 ? v : 0)) <= 1e-30 && fabs(g - (v > 0 ? 1 : 0)) < 1e-20;
            continue;
        }
        /* Below, both values are tiny: the bound is absolute, in units of a float's last bit. */
        worst = fmax(worst, fabs(a - ref_gelu(v)) / (1 + fabs(v)));
        worst_grad = fmax(worst_grad, fabs(g - ref_gelu_grad(v)));
    }
    CHECK(finite, "gelu and its gradient are finite from -3e38 to 3e38");
    CHECK(right, "gelu is 0 or x and its gradient 0 or 1 far out");
    CHECK(worst <= 1.5e-7, "gelu in -12..12 is off by %.2g at most", worst);
    CHECK(worst_grad <= 4e-7, "its gradient is off by %.2g at most", worst_grad);
    rig_close(&r);
}

/* The mask itself, bit for bit, from ones through dropout; and each op that has one agrees. */
static void test_masks(const char *backend)
{
    static const int64_t shapes[][3] = {{1, 1, 1}, {2, 3, 5}, {3, 9, 48}, {2, 7, 63}, {1, 20, 192}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        struct rig r;
        rig_open(&r, backend, 0);
        int64_t B = shapes[k][0], T = shapes[k][1], C = shapes[k][2];
        static const float ps[] = {.1f, .5f, 0x1p-24f, 1 - 0x1p-24f, .9f};
        float p = ps[k];
        struct tensor seq;
        uint64_t *s = ids_new(&r, &seq, B);
        s[0] = UINT64_MAX - 3;
        op_put(&r.b, &seq, s);
        struct dropout d = {p, 0x0123456789abcdefu, &seq};
        struct ref_drop rd = {(double)p, d.key, s};
        struct box x = box_new(&r, 0, 0, 3, B, T, C, 0), ones = box_new(&r, 1, 0, 3, B, T, C, 0);
        struct box sum = box_new(&r, 0, 0, 3, B, T, C, 0), y = box_new(&r, 0, 0, 3, B, T, C, 0);
        struct box w = box_new(&r, 1, 0, 1, C, 0, 0, 0);
        op_add_norm_fwd(&r.b, &sum.t, &y.t, NULL, NULL, &x.t, &ones.t, &w.t, &w.t, 1e-5f, d);
        box_get(&r, &sum);
        bool same = true;
        for (int64_t i = 0; i < sum.n; i++)
            same = same && sum.got[i] == (float)ref_mask(&rd, i / (T * C), i % (T * C));
        CHECK(same, "dropout %.8g of %d x %d x %d: the mask is that of rng_at, bit for bit",
              (double)p, (int)B, (int)T, (int)C);
        rig_close(&r);
    }
}

static void count_line(void *ctx, const char *name, const char *state)
{
    printf("# %s: %s\n", name, state);
    *(int *)ctx += *name && *state;
}

static void test_registry(const char *backend)
{
    struct backend b;
    struct err e = {0};
    CHECK(backend_open(&b, "abacus", 0, 1, &e) < 0 && strstr(e.msg, "abacus") &&
              strstr(e.msg, backend),
          "an unknown backend fails with the list of those there are: %s", e.msg);
    CHECK_INT(e.code, EXIT_USAGE, "and with the code of a usage error");
    CHECK(backend_open(&b, backend, 77, 1, &e) < 0 && strstr(e.msg, "77"),
          "a device that is not there is named: %s", e.msg);
    CHECK(backend_open(&b, backend, 0, -1, &e) < 0, "a negative number of threads is refused");
    backend_close(&b);
    CHECK(backend_open(&b, NULL, 0, 1, &e) == 0, "without a name the first that opens is taken");
    CHECK(strlen(b.ops->describe(&b)) > 10, "it describes itself: %s", b.ops->describe(&b));
    CHECK(b.ops->memory_free(&b) > 0, "it knows its free memory");
    struct backend_ops holes = *b.ops;
    CHECK(ops_missing(&holes) == NULL, "its table is whole");
    holes.attention_bwd = NULL;
    CHECK_STR(ops_missing(&holes), "attention_bwd", "a hole in a table is named");
    holes = *b.ops;
    holes.zero = NULL;
    holes.mark = NULL;
    holes.wait = NULL;
    CHECK(ops_missing(&holes) == NULL, "zero, mark and wait may be missing");
    struct tensor t = tensor_1d(DTYPE_F32, op_alloc(&b, 400), 100);
    float v[100], got[100];
    for (int i = 0; i < 100; i++)
        v[i] = 3;
    op_put(&b, &t, v);
    b.ops = &holes;
    op_wait(&b, op_mark(&b));
    op_zero(&b, &t);
    op_get(&b, got, &t);
    CHECK(op_sync(&b, &e) == 0 && got[0] == 0 && got[99] == 0, "and are composed then");
    backend_close(&b);
    backend_close(&b); /* a zeroed one */
    char path[512];
    snprintf(path, sizeof path, "%s/libassay_cuda.so", tap_tmp());
    const char *given = getenv("ASSAY_LIBDIR");
    char before[1024];
    snprintf(before, sizeof before, "%s", given ? given : "");
    setenv("ASSAY_LIBDIR", tap_tmp(), 1);
    CHECK(backend_open(&b, "cuda", 0, 1, &e) < 0 && strstr(e.msg, "not built") &&
              strstr(e.msg, "cpu"),
          "a backend whose object is missing: %s", e.msg);
    FILE *f = fopen(path, "w");
    fputs("not an object\n", f);
    fclose(f);
    CHECK(backend_open(&b, "cuda", 0, 1, &e) < 0 && strstr(e.msg, "libassay_cuda.so"),
          "an object that cannot be loaded costs a sentence: %s", e.msg);
    CHECK(backend_open(&b, NULL, 0, 1, &e) == 0 && strcmp(b.ops->name, "cpu") == 0,
          "and the next backend is taken");
    backend_close(&b);
    unlink(path);
    rmdir(tap_tmp());
    if (*before)
        setenv("ASSAY_LIBDIR", before, 1);
    else
        unsetenv("ASSAY_LIBDIR");
    int lines = 0;
    backend_list(count_line, &lines);
    CHECK(lines >= 2, "the list has a line for each backend, there or not");
}

int main(int argc, char **argv)
{
    const char *b = rig_backend(argc, argv);
    test_registry(b);
    test_refusals(b);
    test_failure_sticks(b);
    test_non_finite(b);
    test_gelu(b);
    test_masks(b);
    return tap_done();
}
