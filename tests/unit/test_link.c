/* Blocks and links: a judge whose scale drifts is simulated; linked differences must be unbiased and
 * their intervals must cover, where raw ones are wrong.
 */
#include "scoring/link.h"

#include "base/mem.h"
#include "base/rng.h"
#include "scoring/blocks.h"
#include "tests/tap.h"

/* ---- blocks --------------------------------------------------------------------------------- */

static void test_blocks(int32_t models, int32_t size, int items)
{
    struct blocks b;
    int32_t who[32], out[64];
    int64_t in[32] = {0}, most = 0, least = INT64_MAX, fill_most = 0, fill_least = INT64_MAX;
    bool whole = true, once = true;
    blocks_init(&b, models, size, 7);
    for (int32_t i = 0; i < models; i++)
        who[i] = i;
    for (int i = 0; i < items; i++) {
        int32_t n = blocks_item(&b, who, models, (uint64_t)i, out), seen[32] = {0};
        whole = whole && n == (models + size - 1) / size;
        for (int32_t k = 0; k < n * size; k++) {
            whole = whole && out[k] >= 0;
            seen[out[k]]++;
            in[out[k]]++;
            for (int32_t j = k / size * size; j < k; j++)
                once = once && out[j] != out[k];
        }
        for (int32_t m = 0; m < models; m++)
            once = once && seen[m] >= 1 && seen[m] <= 2;
    }
    for (int32_t x = 0; x < models; x++)
        for (int32_t y = 0; y < x; y++) {
            int64_t met = b.met[x * models + y];
            most = met > most ? met : most;
            least = met < least ? met : least;
        }
    for (int32_t m = 0; m < models; m++) {
        fill_most = in[m] > fill_most ? in[m] : fill_most;
        fill_least = in[m] < fill_least ? in[m] : fill_least;
    }
    CHECK(whole, "%d models in blocks of %d: all blocks are full", models, size);
    CHECK(once, "every model stands in one block, fillers in two, none twice in one");
    CHECK(fill_most - fill_least <= 1, "all models are shown equally often: %lld to %lld",
          (long long)fill_least, (long long)fill_most);
    CHECK((double)(most - least) <= 0.15 * (double)most + 2,
          "all pairs meet about equally often: %lld to %lld", (long long)least, (long long)most);
    blocks_release(&b);
}

static void test_small_block(void)
{
    struct blocks b;
    int32_t who[] = {4, 1}, out[4];
    blocks_init(&b, 5, 4, 1);
    int32_t n = blocks_item(&b, who, 2, 0, out);
    CHECK(n == 1 && out[0] + out[1] == 5 && out[2] == -1 && out[3] == -1,
          "two answers make one short block");
    blocks_release(&b);
}

/* ---- a judge that drifts -------------------------------------------------------------------- */

enum { ITEMS = 100, ANCHORS = 2 };

struct world {
    double pass_sd, block_sd, own_sd, noise_sd, stretch;
    int rejudged;
};
struct outcome {
    double bias, cover, raw_cover, supported, misfit, half;
};

static double draw(struct rng *r, double sd)
{
    return sd * rng_normal(r);
}

/* Model 0 is judged in pass 0 only, model 1 in pass 1 only, the others in both. Quality of a model on
 * an item is fixed; the judge adds a shift a pass, a question and a (pass, model), noise, and may
 * stretch the second pass about the middle of its scale. */
static void simulate(const struct world *w, struct rng *r, struct link_table *t, double *raw)
{
    double quality[16], level[2], own[2][16 + ANCHORS];
    for (int32_t m = 0; m < t->models; m++)
        quality[m] = m == 0 ? 55 : m == 1 ? 60 : 20 + 70.0 * (m - 2) / (t->models - 2);
    for (int p = 0; p < 2; p++) {
        level[p] = draw(r, w->pass_sd);
        for (int k = 0; k < t->models + ANCHORS; k++)
            own[p][k] = draw(r, w->own_sd);
    }
    raw[0] = raw[1] = 0;
    for (size_t i = 0; i < ITEMS; i++) {
        double item = draw(r, 10), fixed[16 + ANCHORS];
        for (int k = 0; k < t->models + ANCHORS; k++)
            fixed[k] = (k < t->models ? quality[k] : 50) + item + draw(r, 12);
        for (int p = 0; p < 2; p++) {
            double question = draw(r, w->block_sd), anchor = 0, v[16 + ANCHORS];
            for (int k = 0; k < t->models + ANCHORS; k++) {
                double x = fixed[k] + own[p][k] + draw(r, w->noise_sd);
                v[k] = (p ? 50 + (x - 50) * w->stretch : x) + level[p] + question;
            }
            for (int k = 0; k < ANCHORS; k++)
                anchor += v[t->models + k] / ANCHORS;
            for (int32_t m = 0; m < t->models; m++)
                *link_at(t, p, m, i) =
                    (p == 0 && m == 1) || (p == 1 && m == 0) ? NAN : v[m] - anchor;
            raw[p] += v[p] / ITEMS;
        }
    }
}

static struct outcome run_world(struct world w, int times)
{
    int32_t cluster[ITEMS];
    struct link_table t = {2, w.rejudged + 2, ANCHORS, ITEMS, cluster, NULL};
    struct outcome o = {0};
    double raw[2], used = 0;
    t.d = mem_array(2 * (size_t)t.models * ITEMS, sizeof *t.d);
    for (int32_t i = 0; i < ITEMS; i++)
        cluster[i] = i;
    for (int k = 0; k < times; k++) {
        struct rng r = rng_make(11, "drift", (uint64_t)k);
        simulate(&w, &r, &t, raw);
        struct estimate e = link_difference(&t, 0, 0, 1, 1, 0.95);
        struct link link = link_passes(&t, 0, 1);
        o.misfit += link.why != NULL;
        double half = 1.96 * sqrt(2 * (144 + 100 + w.noise_sd * w.noise_sd) / ITEMS);
        o.raw_cover += fabs(raw[1] - raw[0] - 5) <= half;
        o.bias += e.value - 5;
        if (e.why)
            continue;
        used++;
        o.cover += e.lo <= 5 && 5 <= e.hi;
        o.half += (e.hi - e.lo) / 2;
    }
    o.bias /= times;
    o.raw_cover /= times;
    o.misfit /= times;
    o.cover /= used;
    o.half /= used;
    free(t.d);
    return o;
}

static void test_drift(void)
{
    static const struct {
        struct world w;
        const char *what;
    } v[] = {
        {{8, 3, 0, 5, 1, 3}, "3 re-judged, drift of a pass only"},
        {{8, 3, 1.5, 5, 1, 3}, "3 re-judged, models drift too"},
        {{8, 3, 1.5, 5, 1, 6}, "6 re-judged, models drift too"},
        {{8, 3, 4, 5, 1, 3}, "3 re-judged, models drift much"},
    };
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        const int times = 1500;
        struct outcome o = run_world(v[i].w, times);
        double se = sqrt((2 * v[i].w.own_sd * v[i].w.own_sd * 1.5 + 6.0) / times);
        CHECK(fabs(o.bias) < 4 * se, "%s: linked differences are unbiased: %.3f +- %.3f", v[i].what,
              o.bias, se);
        CHECK(o.cover > 0.935, "%s: 95%% intervals cover %.1f%%, half width %.1f", v[i].what,
              100 * o.cover, o.half);
        CHECK(o.raw_cover < 0.7, "%s: raw differences cover %.1f%% only", v[i].what,
              100 * o.raw_cover);
        CHECK(o.misfit < 0.12, "%s: called a misfit %.1f%% of the time", v[i].what, 100 * o.misfit);
    }
}

static void test_unsupported(void)
{
    struct outcome o = run_world((struct world){8, 3, 1, 5, 1.5, 5}, 300);
    CHECK(o.misfit > 0.95, "a scale that is stretched by half is a misfit: %.1f%%", 100 * o.misfit);
    int32_t cluster[ITEMS];
    double raw[2];
    struct link_table t = {2, 4, ANCHORS, ITEMS, cluster, NULL};
    struct rng r = rng_make(1, "few", 0);
    for (int32_t i = 0; i < ITEMS; i++)
        cluster[i] = i;
    t.d = mem_array(2 * 4 * ITEMS, sizeof *t.d);
    simulate(&(struct world){8, 3, 1, 5, 1, 2}, &r, &t, raw);
    struct estimate e = link_difference(&t, 0, 0, 1, 1, 0.95);
    CHECK(e.why && isnan(e.lo) && isnan(e.se), "two re-judged models: %s", e.why ? e.why : "?");
    e = link_difference(&t, 0, 0, 0, 2, 0.95);
    CHECK(!e.why && e.lo < e.hi, "in one pass no link is needed");
    t.anchors = 0;
    CHECK(link_passes(&t, 0, 1).why != NULL, "without anchors there is none");
    free(t.d);
}

int main(void)
{
    test_blocks(16, 4, 200);
    test_blocks(10, 4, 110);
    test_blocks(7, 3, 110);
    test_small_block();
    test_drift();
    test_unsupported();
    return tap_done();
}
