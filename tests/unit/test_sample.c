/* Picking an id from logits: greedy, temperature, top-k, top-p, numbers that are none; text at the
 * borders of tokens. */
#include "eval/sample.h"
#include "eval/text.h"

#include "base/mem.h"
#include "base/rng.h"
#include "tests/tap.h"

enum { DRAWS = 20000 };

/* Shares of each id over many seeds. */
static void shares(const float *logits, int V, struct sample_rule rule, double *p)
{
    struct sampler *s = sampler_new(V);
    memset(p, 0, (size_t)V * sizeof *p);
    for (int i = 0; i < DRAWS; i++) {
        int32_t id = sample_pick(s, logits, &rule, (uint64_t)i, 0);
        if (id >= 0 && id < V)
            p[id] += 1.0 / DRAWS;
    }
    sampler_free(s);
}

static int32_t pick(const float *logits, int V, struct sample_rule rule, uint64_t seed, uint64_t t)
{
    struct sampler *s = sampler_new(V);
    int32_t id = sample_pick(s, logits, &rule, seed, t);
    sampler_free(s);
    return id;
}

static void test_greedy(void)
{
    const struct sample_rule greedy = {0, 1, 0, 0, 0};
    CHECK_INT(pick((float[]){1, 3, 2}, 3, greedy, 1, 0), 1, "greedy takes the largest");
    CHECK_INT(pick((float[]){3, 1, 3}, 3, greedy, 1, 0), 0, "equals: the lowest id");
    CHECK_INT(pick((float[]){-INFINITY, -5, -INFINITY}, 3, greedy, 1, 0), 1, "-inf is never taken");
    CHECK_INT(pick((float[]){1, NAN, 2}, 3, greedy, 1, 0), -1, "a NaN has no pick");
    CHECK_INT(pick((float[]){NAN, 5, 2}, 3, greedy, 1, 0), -1, "also in front");
    CHECK_INT(pick((float[]){1, INFINITY, 2}, 3, greedy, 1, 0), -1, "+inf has none");
    CHECK_INT(pick((float[]){-INFINITY, -INFINITY}, 2, greedy, 1, 0), -1, "all -inf has none");
    CHECK_INT(pick((float[]){1, NAN}, 2, (struct sample_rule){1, 1, 1, 0, 0}, 1, 0), -1,
              "nor when sampling");
}

static void test_shares(void)
{
    const float l[] = {logf(0.1f), logf(0.2f), logf(0.3f), logf(0.4f)};
    double p[4];
    shares(l, 4, (struct sample_rule){1, 1, 0, 0, 0}, p);
    bool near = true;
    for (int i = 0; i < 4; i++)
        near = near && fabs(p[i] - 0.1 * (i + 1)) < 0.015;
    CHECK(near, "temperature 1 draws by probability: %.3f %.3f %.3f %.3f", p[0], p[1], p[2], p[3]);
    shares(l, 4, (struct sample_rule){0.5, 1, 0, 0, 0}, p);
    CHECK_NEAR(p[3], 16.0 / 30, 0.015, "temperature 0.5 squares them");
    shares(l, 4, (struct sample_rule){1, 1, 2, 0, 0}, p);
    CHECK(p[0] == 0 && p[1] == 0, "top_k 2 leaves the others out");
    CHECK_NEAR(p[3], 4.0 / 7, 0.015, "and keeps the proportion");
    shares(l, 4, (struct sample_rule){1, 0.7, 0, 0, 0}, p);
    CHECK(p[0] == 0 && p[1] == 0 && p[2] > 0.3, "top_p 0.7 keeps the head that reaches it");
    shares(l, 4, (struct sample_rule){1, 0.71, 0, 0, 0}, p);
    CHECK(p[0] == 0 && p[1] > 0.15, "top_p 0.71 needs one more");
    shares(l, 4, (struct sample_rule){1, 0.01, 0, 0, 0}, p);
    CHECK_NEAR(p[3], 1, 1e-9, "a tiny top_p keeps one");
    shares(l, 4, (struct sample_rule){1, 0.6, 3, 0, 0}, p);
    CHECK(p[0] == 0 && p[1] == 0, "top_p works on what top_k left: 0.4 / 0.9 and 0.3 / 0.9");
    shares((float[]){100, 99, 0, 0}, 4, (struct sample_rule){1, 1, 0, 0, 0}, p);
    CHECK_NEAR(p[0], 1 / (1 + exp(-1)), 0.015, "a logit of 100 is a logit like any other");
    shares((float[]){1000, 999, -1000, 0}, 4, (struct sample_rule){1, 1, 0, 0, 0}, p);
    CHECK_NEAR(p[1], exp(-1) / (1 + exp(-1)), 0.015, "so is one of 1000, which exp can't hold");
    shares((float[]){2, 2, 2, 1}, 4, (struct sample_rule){1, 1, 2, 0, 0}, p);
    CHECK(p[0] > 0.4 && p[1] > 0.4 && p[2] == 0, "equals at the border of top_k: lower ids");
}

static void test_min_p(void)
{
    const float l[] = {logf(0.1f), logf(0.2f), logf(0.3f), logf(0.4f)};
    double p[4];
    shares(l, 4, (struct sample_rule){1, 1, 0, 0.6, 0}, p);
    CHECK(p[0] == 0 && p[1] == 0, "min_p 0.6 leaves out what is below 0.6 of the likeliest");
    CHECK_NEAR(p[3], 4.0 / 7, 0.015, "and keeps the proportion");
    shares(l, 4, (struct sample_rule){0.5, 1, 0, 0.5, 0}, p);
    CHECK(p[1] == 0 && p[2] > 0, "after the temperature: 0.3^2 / 0.4^2 is above a half");
    shares(l, 4, (struct sample_rule){1, 1, 0, 1, 0}, p);
    CHECK_NEAR(p[3], 1, 1e-9, "min_p 1 is greedy");
    shares(l, 4, (struct sample_rule){1, 0.95, 3, 0.7, 0}, p);
    CHECK(p[1] == 0 && p[2] > 0, "together with the others the narrowest decides");
}

static void test_repeat(void)
{
    const float l[] = {2, -1, 1.5f, 0.25f};
    static const int32_t seen[] = {0, 1, 0, 7, -1};
    struct sampler *s = sampler_new(4);
    const float *x = sample_repeat(s, l, seen, 5, 2);
    CHECK(x[0] == 1 && x[1] == -2 && x[2] == 1.5f && x[3] == 0.25f,
          "what was seen is divided when positive, multiplied when negative, once: %g %g %g %g",
          x[0], x[1], x[2], x[3]);
    CHECK(l[0] == 2 && l[1] == -1, "the logits themselves stay");
    CHECK(sample_repeat(s, l, seen, 5, 1) == l && sample_repeat(s, l, seen, 5, 0) == l,
          "a penalty of 1 or 0 is none");
    sampler_free(s);
}

static void test_streams(void)
{
    enum { V = 1000 };
    float l[V];
    struct rng r = rng_make(1, "test", 0);
    for (int i = 0; i < V; i++)
        l[i] = (float)rng_normal(&r);
    const struct sample_rule rule = {1, 0.95, 200, 0, 0};
    int same = 0, seeds = 0;
    for (uint64_t t = 0; t < 50; t++) {
        CHECK(t || pick(l, V, rule, 7, t) == pick(l, V, rule, 7, t),
              "the same seed and step repeat");
        same += pick(l, V, rule, 7, t) == pick(l, V, rule, 7, t + 1);
        seeds += pick(l, V, rule, 7, t) == pick(l, V, rule, 8, t);
    }
    CHECK(same < 10 && seeds < 10, "other steps and seeds are other draws: %d, %d of 50", same,
          seeds);
    /* top_k of all equals no top_k in what can come out */
    int bad = 0;
    for (uint64_t t = 0; t < 200; t++) {
        int32_t a = pick(l, V, (struct sample_rule){1, 1, 5, 0, 0}, 3, t);
        int larger = 0;
        for (int i = 0; i < V; i++)
            larger += l[i] > l[a];
        bad += larger >= 5;
    }
    CHECK_INT(bad, 0, "top_k 5 of 1000 gives only the five largest");
}

static const char *repaired(const char *bytes, size_t n)
{
    static struct buf b;
    buf_cut(&b, 0);
    text_repair((struct str){bytes, n}, &b);
    return b.p ? b.p : "";
}

static void test_text(void)
{
    CHECK_STR(repaired("a\xC3\xA9z", 4), "a\xC3\xA9z", "good text stays");
    CHECK_STR(repaired("a\xFFz", 3), "a\xEF\xBF\xBDz", "a bad byte is one U+FFFD");
    CHECK_STR(repaired("\xE2\x82", 2), "\xEF\xBF\xBD", "a cut character is one U+FFFD");
    CHECK_STR(repaired("\xE2\x82\x41", 3), "\xEF\xBF\xBD\x41", "what follows it is kept");
    CHECK_STR(repaired("\xED\xA0\x80", 3), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD",
              "a surrogate is three");
    CHECK_STR(repaired("\xF0\x9F\x98\xF0\x9F\x98\x80", 7), "\xEF\xBF\xBD\xF0\x9F\x98\x80",
              "a cut emoji before a whole one");
    CHECK_INT(text_whole((struct str){"ab\xF0\x9F\x98", 5}), 2, "an emoji in the making is held");
    CHECK_INT(text_whole((struct str){"ab\xF0\x9F\x98\x80", 6}), 6, "a whole one is not");
    CHECK_INT(text_whole((struct str){"ab\xFF", 3}), 3, "a byte that begins nothing is not held");
    CHECK_INT(text_whole((struct str){"\x80\x80", 2}), 2, "nor are strays");
    CHECK_INT(text_whole((struct str){"", 0}), 0, "nothing is whole");
    struct str stop[] = {STR_LIT("\n###"), STR_LIT("END")};
    struct strs stops = {stop, 2};
    CHECK_INT(text_stop(STR_LIT("ab\n###c"), 0, stops), 2, "a stop string is found");
    CHECK_INT(text_stop(STR_LIT("ab\n##"), 0, stops), -1, "half a one is not");
    CHECK_INT(text_stop(STR_LIT("ab\n###"), 5, stops), 2, "also when its head was seen before");
    CHECK_INT(text_stop(STR_LIT("xEND\n###"), 0, stops), 1, "the earliest counts");
    CHECK_INT(text_held(STR_LIT("ab\n#"), stops), 2, "what may become a stop string is held");
    CHECK_INT(text_held(STR_LIT("abEN"), stops), 2, "the longest such tail");
    CHECK_INT(text_held(STR_LIT("abc"), stops), 0, "else nothing");
    CHECK_INT(text_stop(STR_LIT("abc"), 0, (struct strs){&(struct str){"", 0}, 1}), -1,
              "an empty stop string never stops");
}

int main(void)
{
    test_greedy();
    test_shares();
    test_min_p();
    test_repeat();
    test_streams();
    test_text();
    return tap_done();
}
