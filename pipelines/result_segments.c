/* result_segments: the machines that trained a run, and what each cost. */
#include "pipelines/result_segments.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "pipelines/money.h"
#include "trainer/metrics.h"
#include "trainer/segments.h"

/* Seconds of training by the end of step s (0: before the first). Rows are one a step, in order. */
static double seconds_at(const struct metrics_row *rows, size_t n, int64_t s)
{
    size_t i = 0;
    while (i < n && rows[i].step <= s)
        i++;
    return i ? rows[i - 1].seconds : 0;
}

static int64_t tokens_at(const struct metrics_row *rows, size_t n, int64_t s)
{
    size_t i = 0;
    while (i < n && rows[i].step <= s)
        i++;
    return i ? rows[i - 1].tokens : 0;
}

static void fill(struct result_segment *out, const struct segment *s, const struct hardware *given)
{
    const struct hardware *h = s->hardware.name.n ? &s->hardware : given;
    *out = (struct result_segment){.host = s->host,
                                   .started = s->started,
                                   .first_step = s->step + 1,
                                   .price_hour = NAN,
                                   .lost_seconds = s->lost_seconds,
                                   .lost_money = s->lost_money};
    if (!h)
        return;
    out->hardware = h->name;
    out->device = h->device;
    out->devices = h->count;
    out->price_hour = h->price_hour;
    out->price_currency = h->price_currency;
    out->price_source = h->price_source;
    out->price_date = h->price_date;
}

int result_segments(struct result *r, const char *dir, const struct hardware *given,
                    struct arena *a, struct err *e)
{
    struct segment *s;
    struct metrics_row *rows = NULL;
    size_t n, nrows = 0;
    const char *journal = path_join(a, dir, "metrics.jsonl");
    if (segments_read(dir, &s, &n, a, e) != 0 ||
        (file_exists(journal) && metrics_read(journal, &rows, &nrows, a, e) != 0))
        return -1;
    double val = 0;
    for (size_t i = 0; i < nrows; i++)
        val += rows[i].ms_val / 1e3;
    r->timing.val_seconds = nrows ? val : NAN;
    struct result_segment *v = arena_array(a, n + 1, sizeof *v);
    double lost = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t end = i + 1 < n ? s[i + 1].step : INT64_MAX;
        int64_t last = nrows && rows[nrows - 1].step < end ? rows[nrows - 1].step : end;
        fill(&v[i], &s[i], given);
        v[i].steps = nrows && last > s[i].step ? last - s[i].step : 0;
        v[i].tokens = tokens_at(rows, nrows, end) - tokens_at(rows, nrows, s[i].step);
        v[i].seconds = seconds_at(rows, nrows, end) - seconds_at(rows, nrows, s[i].step);
        v[i].money = money_cost(v[i].seconds, v[i].price_hour);
        lost += s[i].lost_seconds;
    }
    r->segments = (struct list){v, n};
    r->timing.lost_seconds = n ? lost : NAN;
    return 0;
}
