/* sample: see eval/sample.h. Candidates are (weight, id); only what top_k or top_p need is sorted. */
#include "eval/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

struct candidate {
    double w; /* exp((logit - max) / temperature), not normalised */
    int32_t id;
};
struct sampler {
    int64_t V;
    struct candidate *c;
    float *changed; /* [V], made when a penalty is first wanted */
};

struct sampler *sampler_new(int64_t V)
{
    struct sampler *s = mem_zero(sizeof *s);
    s->V = V;
    s->c = mem_array((size_t)V, sizeof *s->c);
    return s;
}

void sampler_free(struct sampler *s)
{
    if (!s)
        return;
    free(s->c);
    free(s->changed);
    free(s);
}

/* An id that occurs twice is taken from the untouched logits again, so it is punished once. */
const float *sample_repeat(struct sampler *s, const float *logits, const int32_t *seen, int64_t n,
                           double penalty)
{
    if (penalty == 1 || !(penalty > 0))
        return logits;
    if (!s->changed)
        s->changed = mem_array((size_t)s->V, sizeof *s->changed);
    memcpy(s->changed, logits, (size_t)s->V * sizeof *s->changed);
    for (int64_t i = 0; i < n; i++)
        if (seen[i] >= 0 && seen[i] < s->V) {
            double l = logits[seen[i]];
            s->changed[seen[i]] = (float)(l > 0 ? l / penalty : l * penalty);
        }
    return s->changed;
}

/* Largest weight first, equals by id. */
static int by_weight(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->w != y->w)
        return x->w > y->w ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static int32_t argmax(const float *logits, int64_t V)
{
    int32_t best = -1;
    for (int64_t i = 0; i < V; i++) {
        if (isnan(logits[i]) || logits[i] == INFINITY)
            return -1;
        if (best < 0 || logits[i] > logits[best])
            best = (int32_t)i;
    }
    return best >= 0 && logits[best] == -INFINITY ? -1 : best;
}

static void sift_down(struct candidate *h, size_t n, size_t i)
{
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && by_weight(&h[child + 1], &h[child]) > 0)
            child++;
        if (by_weight(&h[child], &h[i]) <= 0)
            return;
        struct candidate t = h[i];
        h[i] = h[child];
        h[child] = t;
    }
}

/* Moves the k first by by_weight() to the front, unsorted: a heap whose top is the last of them. */
static void select_top(struct candidate *c, size_t n, size_t k)
{
    for (size_t i = k / 2; i-- > 0;)
        sift_down(c, k, i);
    for (size_t i = k; i < n; i++) {
        if (by_weight(&c[i], &c[0]) >= 0)
            continue;
        struct candidate t = c[0];
        c[0] = c[i];
        c[i] = t;
        sift_down(c, k, 0);
    }
}

/* Shortens to the nucleus. Ids below (1 - p) / n of the total can be left out before sorting: all
 * of them together weigh less than 1 - p, so the head that reaches p lies in the others. */
static size_t nucleus(struct candidate *c, size_t n, double p)
{
    double total = 0, floor_w, sum = 0;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        total += c[i].w;
    floor_w = (1 - p) / (double)n * total * 0.999;
    for (size_t i = 0; i < n; i++)
        if (c[i].w >= floor_w)
            c[kept++] = c[i];
    qsort(c, kept, sizeof *c, by_weight);
    for (size_t i = 0; i < kept; i++) {
        sum += c[i].w;
        if (sum >= p * total)
            return i + 1;
    }
    return kept;
}

/* Leaves out what is below p times the likeliest, whose weight is 1; the order stays. */
static size_t likely(struct candidate *c, size_t n, double p)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (c[i].w >= (p < 1 ? p : 1))
            c[kept++] = c[i];
    return kept;
}

int32_t sample_pick(struct sampler *s, const float *logits, const struct sample_rule *rule,
                    uint64_t seed, uint64_t step)
{
    int32_t best = argmax(logits, s->V);
    if (best < 0 || !(rule->temperature > 0))
        return best;
    size_t n = 0;
    double max = logits[best];
    for (int64_t i = 0; i < s->V; i++) {
        double w = exp((logits[i] - max) / rule->temperature);
        if (w > 0)
            s->c[n++] = (struct candidate){w, (int32_t)i};
    }
    if (rule->top_k > 0 && (size_t)rule->top_k < n) {
        select_top(s->c, n, (size_t)rule->top_k);
        n = (size_t)rule->top_k;
        qsort(s->c, n, sizeof *s->c, by_weight);
    }
    if (rule->top_p > 0 && rule->top_p < 1)
        n = nucleus(s->c, n, rule->top_p);
    if (rule->min_p > 0)
        n = likely(s->c, n, rule->min_p);
    double total = 0, sum = 0;
    for (size_t i = 0; i < n; i++)
        total += s->c[i].w;
    struct rng r = rng_make(seed, "sample", step);
    double u = rng_unit(&r) * total;
    for (size_t i = 0; i < n; i++) {
        sum += s->c[i].w;
        if (u < sum)
            return s->c[i].id;
    }
    return s->c[n - 1].id; /* u rounded up to the total */
}
