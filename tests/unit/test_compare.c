/* Comparison: what is paired, what is refused, and the two verdicts. */
#include <stdlib.h>

#include "base/rng.h"
#include "pipelines/compare.h"
#include "tests/tap.h"

static struct arena arena;

/* A metric of n items in clusters of `per`; value = base + effect + noise of the item. */
static struct metric make_metric(const char *name, size_t n, size_t per, double effect,
                                 double noise, uint64_t seed)
{
    struct metric m = {.name = str_z(name),
                       .task = STR_LIT("documents"),
                       .unit = STR_LIT("bits/byte"),
                       .primary = true};
    m.ids = (struct strs){arena_array(&arena, n, sizeof(struct str)), n};
    m.cluster = (struct strs){arena_array(&arena, n, sizeof(struct str)), n};
    m.num = (struct f64s){arena_array(&arena, n, 8), n};
    m.den = (struct f64s){arena_array(&arena, n, 8), n};
    struct rng shared = rng_make(1, "item", 0), own = rng_make(seed, "own", 0);
    double sum = 0, den = 0;
    for (size_t i = 0; i < n; i++) {
        m.ids.v[i] = str_printf(&arena, "d%zu", i);
        m.cluster.v[i] = str_printf(&arena, "c%zu", i / per);
        m.den.v[i] = 10 + (double)(i % 7);
        m.num.v[i] =
            m.den.v[i] * (1 + effect + 0.3 * rng_normal(&shared) + noise * rng_normal(&own));
        sum += m.num.v[i];
        den += m.den.v[i];
    }
    m.value = sum / den;
    m.lo = m.value - 0.1;
    m.hi = m.value + 0.1;
    m.n = (int64_t)n;
    m.clusters = (int64_t)((n + per - 1) / per);
    static struct str identity[] = {{"rule=documents", 14}, {"text=aaaa", 9}};
    m.identity = (struct strs){identity, 2};
    return m;
}

static struct result make_result(const char *run, const char *group, int64_t seed, struct metric m)
{
    struct metric *v = arena_alloc(&arena, sizeof *v);
    *v = m;
    struct result r = {.run = str_z(run), .group = str_z(group), .seed = seed};
    r.cost_train = r.cost_total = NAN;
    r.metrics = (struct list){v, 1};
    return r;
}

static const struct compare_options plain = {.level = 0.95};

static void pairing(void)
{
    struct err e;
    struct comparison c;
    struct result r[3] = {
        make_result("a", "base", 1, make_metric("bits_byte", 400, 4, 0, 0.02, 1)),
        make_result("b", "base", 2, make_metric("bits_byte", 400, 4, 0, 0.02, 2)),
        make_result("c", "slow", 1, make_metric("bits_byte", 400, 4, 0.05, 0.02, 3)),
    };
    CHECK_INT(compare_runs(&c, r, 3, &plain, &e), 0, "three runs compare");
    const struct delta *d = c.metric[0].delta;
    CHECK_INT(d[1].verdict, VERDICT_NOT_SEEN, "A/A: no difference seen");
    CHECK_INT(d[2].verdict, VERDICT_WORSE, "A/B: a loss that is higher is worse");
    CHECK_NEAR(d[2].est.value, 0.05, 0.01, "the difference is the planted one");
    CHECK(d[2].est.hi - d[2].est.lo < 0.02, "pairing takes the items' own spread out (sd 0.3)");
    CHECK(c.metric[0].nrecipes == 2 && c.metric[0].recipe[0].same &&
              c.metric[0].recipe[0].verdict == VERDICT_NOT_ESTIMABLE,
          "the baseline's own group: its noise, no verdict");
    CHECK_INT(c.metric[0].recipe[1].verdict, VERDICT_NOT_ESTIMABLE,
              "recipes with 1 seed against 2: not estimable");
    CHECK(c.metric[0].recipe[1].needed > 1, "and the seeds that would settle it are said");
    compare_release(&c);

    /* Other order of the items: the same answer. */
    struct metric *m = r[2].metrics.v, turned = *m;
    size_t n = m->ids.n;
    turned.ids.v = arena_array(&arena, n, sizeof(struct str));
    turned.cluster.v = arena_array(&arena, n, sizeof(struct str));
    turned.num.v = arena_array(&arena, n, 8);
    turned.den.v = arena_array(&arena, n, 8);
    for (size_t i = 0; i < n; i++) {
        turned.ids.v[i] = m->ids.v[n - 1 - i];
        turned.cluster.v[i] = m->cluster.v[n - 1 - i];
        turned.num.v[i] = m->num.v[n - 1 - i];
        turned.den.v[i] = m->den.v[n - 1 - i];
    }
    *m = turned;
    compare_runs(&c, r, 3, &plain, &e);
    CHECK_NEAR(c.metric[0].delta[2].est.value, 0.05, 0.01, "items are paired by id, not by place");
    compare_release(&c);

    turned.num.v[3] = NAN;
    compare_runs(&c, r, 3, &plain, &e);
    CHECK_INT(c.metric[0].delta[2].est.n, n - 1, "an item without a value leaves the pair");
    compare_release(&c);
}

static void refusing(void)
{
    struct err e;
    struct comparison c;
    struct result r[2] = {
        make_result("a", "base", 1, make_metric("bits_byte", 60, 1, 0, 0.02, 1)),
        make_result("b", "base", 2, make_metric("bits_byte", 60, 1, 0, 0.02, 2)),
    };
    struct metric *m = r[1].metrics.v;
    static struct str other[] = {{"rule=documents", 14}, {"text=bbbb", 9}};
    struct strs keep = m->identity;
    m->identity = (struct strs){other, 2};
    compare_runs(&c, r, 2, &plain, &e);
    CHECK_STR(c.metric[0].delta[1].refused, "text differs: bbbb against aaaa",
              "other text is refused");
    CHECK(c.refused == 1 && c.compared == 0, "and counted");
    compare_release(&c);
    struct compare_options allow = {.level = 0.95, .allow = true};
    compare_runs(&c, r, 2, &allow, &e);
    CHECK(c.metric[0].delta[1].allowed && c.compared == 1, "--allow compares and marks");
    compare_release(&c);
    m->identity = (struct strs){other, 1};
    compare_runs(&c, r, 2, &plain, &e);
    CHECK_STR(c.metric[0].delta[1].refused, "text differs: nothing against aaaa",
              "a setting that one side lacks is refused");
    compare_release(&c);
    m->identity = keep;
    m->den.v[5] += 1;
    compare_runs(&c, r, 2, &allow, &e);
    CHECK(strstr(c.metric[0].delta[1].refused, "denominator of item d5"),
          "other denominators are refused even with --allow");
    compare_release(&c);
    m->den.v[5] -= 1;
    m->ids.v[7] = STR_LIT("x");
    compare_runs(&c, r, 2, &plain, &e);
    CHECK(strstr(c.metric[0].delta[1].refused, "items differ"), "other items are refused");
    compare_release(&c);
    struct compare_options nobody = {.level = 0.95, .baseline = "zzz"};
    CHECK_INT(compare_runs(&c, r, 2, &nobody, &e), -1, "an unknown baseline: %s", e.msg);
    compare_release(&c);
}

static void recipes(void)
{
    struct err e;
    struct comparison c;
    struct result r[6];
    /* three seeds an arm, seed noise 0.01 (a shift of all items), effect 0.2 */
    const double shift[] = {0.00, 0.01, -0.01, 0.20, 0.21, 0.19};
    for (int i = 0; i < 6; i++)
        r[i] = make_result(i < 3 ? "base" : "new", i < 3 ? "base" : "new", i,
                           make_metric("bits_byte", 100, 1, shift[i], 0, 1));
    compare_runs(&c, r, 6, &plain, &e);
    const struct recipe *x = &c.metric[0].recipe[1];
    CHECK_INT(x->verdict, VERDICT_WORSE, "three seeds an arm: estimable, and worse");
    CHECK_NEAR(x->est.df, 4, 0, "pooled over both arms: df 4");
    CHECK_NEAR(x->sd, 0.01, 1e-9, "the pooled sd");
    compare_release(&c);
    struct compare_options borrow = {.level = 0.95, .seed_sd = "base"};
    compare_runs(&c, r, 4, &borrow, &e);
    x = &c.metric[0].recipe[1];
    CHECK(x->why == NULL && x->sd_df == 2,
          "one seed against three with a borrowed sd is estimable");
    compare_release(&c);
    compare_runs(&c, r, 4, &plain, &e);
    CHECK_INT(c.metric[0].recipe[1].verdict, VERDICT_NOT_ESTIMABLE, "and without it is not");
    struct buf out = {0};
    compare_print(&c, TABLE_TEXT, -1, &out, &e);
    CHECK(strstr(out.p, "not estimable, 1 seed against 3"), "the table says why");
    buf_cut(&out, 0);
    compare_print(&c, TABLE_MD, -1, &out, &e);
    CHECK(strstr(out.p, "| run "), "Markdown has tables");
    buf_cut(&out, 0);
    compare_print(&c, TABLE_CSV, -1, &out, &e);
    CHECK(strstr(out.p, "metric,task,unit,run"), "CSV has a head");
    struct json *j = compare_json(&c);
    CHECK_INT(json_size(json_get(j, "metrics")), 1, "JSON has the metrics");
    json_free(j);
    buf_release(&out);
    compare_release(&c);
}

int main(void)
{
    pairing();
    refusing();
    recipes();
    arena_release(&arena);
    return tap_done();
}
