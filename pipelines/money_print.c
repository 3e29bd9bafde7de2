/* money_print: the tables of `assay cost`, see money.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/money.h"

enum { COLUMNS = 13 };

double money_quality(const struct result *r, const char *metric)
{
    const struct metric *m = r->metrics.v;
    double found = NAN;
    for (size_t i = 0; i < r->metrics.n; i++)
        if (str_eqz(m[i].name, metric) && (isnan(found) || str_eqz(m[i].task, "windows")))
            found = m[i].value;
    return found;
}

bool money_higher(const struct result *v, size_t n, const char *metric)
{
    for (size_t i = 0; i < n; i++) {
        const struct metric *m = v[i].metrics.v;
        for (size_t k = 0; k < v[i].metrics.n; k++)
            if (str_eqz(m[k].name, metric))
                return m[k].higher_better;
    }
    return false;
}

/* ---- cells ------------------------------------------------------------------------------------ */

/* fmt takes one double. */
__attribute__((format(printf, 2, 3))) static const char *num(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;
    struct buf b = {0};
    va_start(ap, fmt);
    va_copy(again, ap);
    if (!isnan(va_arg(again, double)))
        buf_vprintf(&b, fmt, ap);
    va_end(again);
    va_end(ap);
    const char *text = b.n ? arena_strdup(a, b.p) : "-";
    buf_release(&b);
    return text;
}

static const char *hours(struct arena *a, double seconds)
{
    return isnan(seconds)   ? "-"
           : seconds < 3600 ? num(a, "%.3f", seconds / 3600)
                            : num(a, "%.2f", seconds / 3600);
}

static const char *share(struct arena *a, double v)
{
    return isnan(v) ? "-" : num(a, "%.1f%%", 100 * v);
}

static const char *count(struct arena *a, double v)
{
    return isnan(v) ? "-" : num(a, "%.0f", v);
}

static void head(struct buf *out, enum table_format f, const char *text)
{
    buf_printf(out, "%s%s\n", out->n ? "\n" : "", text);
    if (f == TABLE_MD)
        buf_addc(out, '\n');
}

/* ---- tables ----------------------------------------------------------------------------------- */

static void table_of_runs(const struct result *v, const struct bill *b, const bool *front, size_t n,
                          const struct money_options *o, enum table_format f, struct buf *out,
                          struct arena *a)
{
    static const char *const names[COLUMNS] = {
        "run",     "machine", "tokens/s",    "10%..90%",  "MFU",    "stall",         "J/token",
        "train h", "train",   "without val", "with eval", "billed", "per 1e9 tokens"};
    struct table t = {0};
    head(out, f,
         "Speed and cost (money in each machine's currency; billed is what the provider took)");
    const char *cells[COLUMNS + 2];
    memcpy(cells, names, sizeof names);
    cells[COLUMNS] = o->metric;
    cells[COLUMNS + 1] = "front";
    table_begin(&t, COLUMNS + 2, "llrrrrrrrrrrrrl");
    table_row(&t, cells);
    for (size_t i = 0; i < n; i++) {
        const struct bill *x = &b[i];
        bool spread = !isnan(x->rate_lo) && !isnan(x->rate_hi);
        const char *row[] = {str_dup(a, v[i].run),
                             v[i].hardware.name.n ? str_dup(a, v[i].hardware.name) : "-",
                             count(a, x->rate),
                             spread ? arena_printf(a, "%.0f..%.0f", x->rate_lo, x->rate_hi) : "-",
                             share(a, x->mfu),
                             share(a, x->stall),
                             num(a, "%.3g", x->joules_token),
                             hours(a, x->seconds),
                             x->mixed ? "mixed" : num(a, "%.2f", x->train),
                             num(a, "%.2f", x->without_val),
                             num(a, "%.2f", x->total),
                             num(a, "%.2f", x->billed),
                             num(a, "%.2f", x->gtoken),
                             num(a, "%.6g", money_quality(&v[i], o->metric)),
                             front[i] ? "*" : ""};
        table_row(&t, row);
    }
    table_write(&t, f, "", out);
    table_release(&t);
}

static void table_of_segments(const struct result *v, size_t n, const struct money_options *o,
                              enum table_format f, struct buf *out, struct arena *a)
{
    struct table t = {0};
    bool any = false;
    table_begin(&t, 7, "llrrrrr");
    table_row(&t, (const char *const[]){"run", "machine", "steps", "tokens", "hours", "money",
                                        "lost before"});
    for (size_t i = 0; i < n; i++) {
        const struct result_segment *s = v[i].segments.v;
        for (size_t k = 0; v[i].segments.n > 1 && k < v[i].segments.n; k++) {
            double money, lost;
            money_segment(&v[i], k, o->prices, o->nprices, &money, &lost);
            any = true;
            const char *row[] = {
                str_dup(a, v[i].run),
                str_dup(a, s[k].hardware.n ? s[k].hardware : s[k].host),
                num(a, "%.0f", (double)s[k].steps),
                num(a, "%.0f", (double)s[k].tokens),
                hours(a, s[k].seconds),
                num(a, "%.2f", money),
                s[k].lost_seconds > 0
                    ? arena_printf(a, "%.3f h, %s", s[k].lost_seconds / 3600, num(a, "%.2f", lost))
                    : ""};
            table_row(&t, row);
        }
    }
    if (any) {
        head(out, f, "Segments of runs that moved");
        table_write(&t, f, "", out);
    }
    table_release(&t);
}

static void table_of_loss(const struct result *v, const struct bill *b, size_t n,
                          const struct money_options *o, enum table_format f, struct buf *out,
                          struct arena *a)
{
    struct table t = {0};
    if (isnan(o->loss))
        return;
    head(out, f,
         arena_printf(
             a,
             "Until the training loss (mean of %lld points) is %g; in brackets the points around",
             (long long)o->smooth, o->loss));
    table_begin(&t, 4, "lrrr");
    table_row(&t, (const char *const[]){"run", "tokens", "hours", "money"});
    for (size_t i = 0; i < n; i++) {
        struct reached r;
        const char *row[4] = {str_dup(a, v[i].run), "not reached", "", ""};
        if (!v[i].curve.loss.n)
            row[1] = "no curve";
        else if ((int64_t)v[i].curve.loss.n < o->smooth)
            row[1] = arena_printf(a, "only %zu points", v[i].curve.loss.n);
        else if (money_reached(&v[i].curve, o->loss, (size_t)o->smooth, &r)) {
            double rate = b[i].a_second;
            row[1] = arena_printf(a, "%.4g [%.4g, %.4g]", r.tokens, r.tokens_lo, r.tokens_hi);
            row[2] = arena_printf(a, "%.4g [%.4g, %.4g]", r.seconds / 3600, r.seconds_lo / 3600,
                                  r.seconds_hi / 3600);
            row[3] = isnan(rate) ? "-"
                                 : arena_printf(a, "%.2f [%.2f, %.2f]", r.seconds * rate,
                                                r.seconds_lo * rate, r.seconds_hi * rate);
        }
        table_row(&t, row);
    }
    table_write(&t, f, "", out);
    table_release(&t);
}

double money_scaled(const struct result *v, const struct bill *b, size_t n, size_t i)
{
    size_t least = i, others = 0;
    for (size_t k = 0; k < n; k++) {
        if (!str_eq(v[k].hardware.device, v[i].hardware.device) || isnan(b[k].rate) ||
            result_devices(&v[k].hardware) < 1)
            continue;
        others += result_devices(&v[k].hardware) != result_devices(&v[i].hardware);
        if (result_devices(&v[k].hardware) < result_devices(&v[least].hardware) ||
            (result_devices(&v[k].hardware) == result_devices(&v[least].hardware) && k < least))
            least = k;
    }
    if (!others || !v[i].hardware.device.n || isnan(b[i].rate))
        return NAN;
    return money_scaling(b[i].rate, (double)result_devices(&v[i].hardware), b[least].rate,
                         (double)result_devices(&v[least].hardware));
}

/* Runs on the same device: the fewest devices are the measure. */
static void table_of_scaling(const struct result *v, const struct bill *b, size_t n,
                             enum table_format f, struct buf *out, struct arena *a)
{
    struct table t = {0};
    bool any = false;
    table_begin(&t, 5, "llrrr");
    table_row(&t, (const char *const[]){"device", "run", "devices", "tokens/s", "of linear"});
    for (size_t i = 0; i < n; i++) {
        double scaled = money_scaled(v, b, n, i);
        if (isnan(scaled))
            continue;
        any = true;
        const char *row[] = {str_dup(a, v[i].hardware.device), str_dup(a, v[i].run),
                             num(a, "%.0f", (double)result_devices(&v[i].hardware)),
                             count(a, b[i].rate), share(a, scaled)};
        table_row(&t, row);
    }
    if (any) {
        head(out, f, "Scaling, against the fewest devices of the same kind");
        table_write(&t, f, "", out);
    }
    table_release(&t);
}

/* All that may decide the quality but batch size and seed, as text. */
static struct str recipe_of(const struct result *r, struct arena *a)
{
    struct buf b = {0};
    struct train_config t = r->config.train;
    t.batch = t.micro_batch = t.seed = t.checkpoint_every = 0;
    t.backend = (struct str){0};
    schema_canonical(&model_config_schema, &r->config.model, &b);
    schema_canonical(&train_config_schema, &t, &b);
    buf_printf(&b, "data %.*s %.*s %.*s", STR_ARG(r->data.text_hash),
               STR_ARG(r->config.data.shards), STR_ARG(r->config.data.run));
    struct str text = str_copy(a, buf_str(&b));
    buf_release(&b);
    return text;
}

bool money_batch_fit(const struct result *v, const double *quality, size_t n, bool higher,
                     struct fit *best, size_t *of, size_t *recipe)
{
    struct arena a = {0};
    double *x = arena_array(&a, n + 1, sizeof *x), *y = arena_array(&a, n + 1, sizeof *y);
    struct str *text = arena_array(&a, n + 1, sizeof *text);
    struct fit f;
    *best = (struct fit){0};
    *recipe = n;
    for (size_t i = 0; i < n; i++) {
        text[i] = recipe_of(&v[i], &a);
        of[i] = 0;
        while (!str_eq(text[of[i]], text[i]))
            of[i]++;
    }
    for (size_t i = 0; i < n; i++) {
        size_t m = 0;
        for (size_t k = 0; of[i] == i && k < n; k++) {
            if (of[k] != i || isnan(quality[k]) || v[k].tokens < 1)
                continue; /* where nothing was trained the batch says nothing */
            x[m] = (double)v[k].config.train.batch;
            y[m++] = quality[k];
        }
        if (!m)
            continue;
        fit_log_parabola(&f, x, y, m, higher, 0.9);
        if (f.values > best->values) {
            *best = f;
            *recipe = i;
        }
    }
    arena_release(&a);
    return best->values >= 3;
}

static void line_of_batch(const struct result *v, const double *quality, size_t n,
                          const struct money_options *o, struct buf *out, struct arena *a)
{
    size_t *of = arena_array(a, n + 1, sizeof *of), recipe;
    struct fit f;
    if (money_batch_fit(v, quality, n, money_higher(v, n, o->metric), &f, of, &recipe))
        buf_printf(out,
                   "\nBatch size against %s, a parabola in its logarithm over %zu runs alike but "
                   "for it: %s\n",
                   o->metric, f.n, fit_words(&f, a));
}

struct billed money_bills(const struct result *v, size_t n, const struct money_options *o,
                          struct arena *a)
{
    double *cost = arena_array(a, n + 1, sizeof *cost), *bad = arena_array(a, n + 1, sizeof *bad);
    struct billed x = {.bill = arena_array(a, n + 1, sizeof *x.bill),
                       .quality = arena_array(a, n + 1, sizeof *x.quality),
                       .front = arena_array(a, n + 1, sizeof *x.front),
                       .higher = money_higher(v, n, o->metric)};
    for (size_t i = 0; i < n; i++) {
        money_bill(&x.bill[i], &v[i], o->prices, o->nprices);
        cost[i] = money_dear(&x.bill[i]);
        x.quality[i] = money_quality(&v[i], o->metric);
        bad[i] = x.higher ? -x.quality[i] : x.quality[i];
    }
    money_front(cost, bad, n, x.front);
    return x;
}

void money_print(const struct result *v, size_t n, const struct money_options *o,
                 enum table_format f, struct buf *out)
{
    struct arena a = {0};
    struct billed x = money_bills(v, n, o, &a);
    table_of_runs(v, x.bill, x.front, n, o, f, out, &a);
    buf_printf(out,
               "front: no other run here is at most as dear (with evaluation) and at least as good "
               "(%s); prices of different currencies are not converted\n",
               o->metric);
    table_of_segments(v, n, o, f, out, &a);
    table_of_loss(v, x.bill, n, o, f, out, &a);
    table_of_scaling(v, x.bill, n, f, out, &a);
    line_of_batch(v, x.quality, n, o, out, &a);
    arena_release(&a);
}
