/* judge_summary: see scoring/judge_summary.h. */
#include "scoring/judge_summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "scoring/stats.h"

struct judge_tally_row {
    double value, n, rank;
};
struct row {
    double value, length;
};
struct cluster {
    double num, den;
};

/* ---- ranks ---------------------------------------------------------------------------------- */

/* Where the value is, or would be. */
static size_t find(const struct judge_tally *t, double value)
{
    size_t lo = 0, hi = t->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->v[mid].value < value)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void tally(struct judge_tally *t, double value)
{
    size_t i = find(t, value);
    if (i == t->n || t->v[i].value != value) {
        if (t->n == t->cap) {
            t->cap = t->cap ? 2 * t->cap : 64;
            t->v = mem_grow(t->v, t->cap * sizeof *t->v);
        }
        memmove(&t->v[i + 1], &t->v[i], (t->n - i) * sizeof *t->v);
        t->v[i] = (struct judge_tally_row){.value = value};
        t->n++;
    }
    t->v[i].n++;
}

/* Equal values share the mean of their ranks, from 0. */
static void set_ranks(struct judge_tally *t)
{
    double before = 0;
    for (size_t i = 0; i < t->n; i++) {
        t->v[i].rank = before + (t->v[i].n - 1) / 2;
        before += t->v[i].n;
    }
}

/* ---- adding --------------------------------------------------------------------------------- */

void judge_sums_add(struct judge_sums *x, const struct score *s, int32_t cluster, double length)
{
    struct row row = {s->value, length};
    struct cluster c;
    uint64_t at = (uint64_t)cluster * sizeof c;
    x->n++;
    x->count[s->outcome]++;
    if (s->outcome != OUTCOME_SCORED)
        return;
    x->sum += s->value;
    x->length += length;
    spool_read(&x->cluster, at, &c, sizeof c);
    x->clusters += c.den == 0;
    c.num += s->value;
    c.den++;
    spool_write(&x->cluster, at, &c, sizeof c);
    spool_append(&x->row, &row, sizeof row);
    tally(&x->values, row.value);
    tally(&x->lengths, row.length);
}

/* ---- the end -------------------------------------------------------------------------------- */

static void next_cluster(void *ctx, size_t g, double *num, double *den)
{
    struct judge_sums *x = ctx;
    struct cluster c;
    if (g == 0)
        x->at = 0;
    do { /* clusters without a score have none */
        spool_read(&x->cluster, x->at, &c, sizeof c);
        x->at += sizeof c;
    } while (c.den == 0 && x->at < x->cluster.end);
    *num = c.num;
    *den = c.den;
}

/* Pearson's of values and lengths, or of their ranks, in their order. */
static double correlation(struct judge_sums *x, bool ranks)
{
    double n = (double)x->count[OUTCOME_SCORED], aa = 0, bb = 0, ab = 0;
    double ma = ranks ? (n - 1) / 2 : x->sum / n, mb = ranks ? (n - 1) / 2 : x->length / n;
    for (uint64_t at = 0; at < x->row.end; at += sizeof(struct row)) {
        struct row r;
        spool_read(&x->row, at, &r, sizeof r);
        double a = r.value, b = r.length;
        if (ranks) {
            a = x->values.v[find(&x->values, a)].rank;
            b = x->lengths.v[find(&x->lengths, b)].rank;
        }
        aa += (a - ma) * (a - ma);
        bb += (b - mb) * (b - mb);
        ab += (a - ma) * (b - mb);
    }
    return n >= 2 && aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : NAN;
}

static void of_scored(struct judge_sums *x, struct judge_summary *out)
{
    double k = (double)x->count[OUTCOME_SCORED];
    struct stats_sums s = {.num = x->sum,
                           .den = k,
                           .n = x->count[OUTCOME_SCORED],
                           .clusters = (size_t)x->clusters,
                           .finite = true,
                           .of = next_cluster,
                           .ctx = x};
    struct estimate est = stats_ratio_sums(&s, 0.95);
    out->mean = x->sum / k;
    out->lo = est.lo;
    out->hi = est.hi;
    out->why = est.why;
    out->length_mean = x->length / k;
    set_ranks(&x->values);
    set_ranks(&x->lengths);
    out->pearson = correlation(x, false);
    out->spearman = correlation(x, true);
}

int judge_sums_end(struct judge_sums *x, double lo, double hi, struct judge_summary *out,
                   struct err *e)
{
    double n = (double)x->n, k = (double)x->count[OUTCOME_SCORED];
    int rc = spool_check(&x->cluster, e) || spool_check(&x->row, e) ? -1 : 0;
    *out = (struct judge_summary){.n = x->n,
                                  .mean = NAN,
                                  .lo = NAN,
                                  .hi = NAN,
                                  .why = "no answer was scored",
                                  .lo_all = x->n ? (x->sum + lo * (n - k)) / n : NAN,
                                  .hi_all = x->n ? (x->sum + hi * (n - k)) / n : NAN,
                                  .length_mean = NAN,
                                  .pearson = NAN,
                                  .spearman = NAN};
    memcpy(out->count, x->count, sizeof out->count);
    if (rc == 0 && k > 0) {
        of_scored(x, out);
        rc = spool_check(&x->cluster, e) || spool_check(&x->row, e) ? -1 : 0;
    }
    spool_release(&x->cluster);
    spool_release(&x->row);
    free(x->values.v);
    free(x->lengths.v);
    *x = (struct judge_sums){0};
    return rc;
}
