/* metrics: the journal of a run, see metrics.h. */
#include "trainer/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"

#define MOST_BYTES ((size_t)8 << 30)

static double number(const struct json *o, const char *key)
{
    return json_num(json_get(o, key));
}

static int row_parse(struct str line, struct metrics_row *r, struct err *e)
{
    struct json *o = json_parse(line, e);
    if (!o)
        return -1;
    *r = (struct metrics_row){
        .step = json_int(json_get(o, "step"), -1),
        .tokens = json_int(json_get(o, "tokens"), 0),
        .epoch = json_int(json_get(o, "epoch"), 0),
        .loss = number(o, "loss"),
        .lr = number(o, "lr"),
        .norm = number(o, "norm"),
        .val_loss = number(o, "val_loss"),
        .ms = number(o, "ms"),
        .ms_data = number(o, "ms_data"),
        .ms_val = json_get(o, "ms_val") ? number(o, "ms_val") : 0,
        .ms_comm = json_get(o, "ms_comm") ? number(o, "ms_comm") : 0,
        .tokens_per_s = number(o, "tokens_per_s"),
        .seconds = number(o, "seconds"),
        .skipped = json_bool(json_get(o, "skipped")),
        .loss_scale = json_get(o, "loss_scale") ? number(o, "loss_scale") : 0,
        .overflow = json_bool(json_get(o, "overflow")),
        .measured = json_get(o, "energy_j") != NULL,
        .memory = number(o, "memory"),
        .power_w = number(o, "power_w"),
        .energy_j = number(o, "energy_j"),
        .mfu = number(o, "mfu"),
    };
    json_free(o);
    return r->step < 1 ? err_set(e, "no step from 1 on") : 0;
}

/* Calls for each whole line; *end gets the bytes of the lines of steps <= keep. */
static int scan(const char *path, int64_t keep, struct metrics_row *rows, size_t *n, size_t *end,
                struct err *e)
{
    struct buf text = {0};
    int64_t line = 0, before = 0;
    int rc = -1;
    *n = 0;
    *end = 0;
    if (file_read(path, &text, MOST_BYTES, e))
        goto out;
    struct str rest = buf_str(&text);
    size_t at = 0;
    for (const char *lf; rest.n && (lf = memchr(rest.p, '\n', rest.n));) {
        struct str one = {rest.p, (size_t)(lf - rest.p)};
        struct metrics_row r;
        line++;
        if (row_parse(one, &r, e)) {
            err_wrap(e, "%s: line %lld", path, (long long)line);
            goto out;
        }
        if (r.step <= before) {
            err_set(e, "%s: line %lld: step %lld stands behind step %lld", path, (long long)line,
                    (long long)r.step, (long long)before);
            goto out;
        }
        before = r.step;
        at += one.n + 1;
        rest.p += one.n + 1;
        rest.n -= one.n + 1;
        if (r.step > keep)
            break;
        *end = at;
        if (rows)
            rows[*n] = r;
        ++*n;
    }
    rc = 0;
out:
    buf_release(&text);
    return rc;
}

int metrics_open(struct metrics *m, const char *path, int64_t keep, struct err *e)
{
    size_t n, end = 0;
    *m = (struct metrics){.fd = -1, .path = path};
    if (keep > 0 && file_exists(path) && scan(path, keep, NULL, &n, &end, e))
        return -1;
    if (file_append_open(path, (int64_t)end, &m->fd, e))
        return -1;
    m->open = true;
    return 0;
}

static void put(struct buf *b, const char *key, double v)
{
    if (isfinite(v))
        buf_printf(b, ",\"%s\":%.9g", key, v);
    else
        buf_printf(b, ",\"%s\":null", key);
}

int metrics_add(struct metrics *m, const struct metrics_row *r, struct err *e)
{
    struct buf b = {0};
    buf_printf(&b, "{\"step\":%lld,\"tokens\":%lld", (long long)r->step, (long long)r->tokens);
    if (r->epoch)
        buf_printf(&b, ",\"epoch\":%lld", (long long)r->epoch);
    put(&b, "loss", r->loss);
    put(&b, "lr", r->lr);
    put(&b, "norm", r->norm);
    if (!isnan(r->val_loss))
        put(&b, "val_loss", r->val_loss);
    if (r->ms_val > 0)
        put(&b, "ms_val", r->ms_val);
    if (r->skipped)
        buf_addz(&b, ",\"skipped\":true");
    if (r->loss_scale > 0)
        put(&b, "loss_scale", r->loss_scale);
    if (r->overflow)
        buf_addz(&b, ",\"overflow\":true");
    put(&b, "ms", r->ms);
    put(&b, "ms_data", r->ms_data);
    if (r->ms_comm > 0)
        put(&b, "ms_comm", r->ms_comm);
    put(&b, "tokens_per_s", r->tokens_per_s);
    put(&b, "seconds", r->seconds);
    if (r->measured) {
        put(&b, "memory", r->memory);
        put(&b, "power_w", r->power_w);
        put(&b, "energy_j", r->energy_j);
        put(&b, "mfu", r->mfu);
    }
    buf_addz(&b, "}\n");
    int rc = file_append(m->fd, b.p, b.n, m->path, e);
    buf_release(&b);
    return rc;
}

int metrics_sync(struct metrics *m, struct err *e)
{
    return file_append_sync(m->fd, m->path, e);
}

void metrics_close(struct metrics *m)
{
    if (m->open)
        close(m->fd);
    m->open = false;
}

int metrics_read(const char *path, struct metrics_row **rows, size_t *n, struct arena *a,
                 struct err *e)
{
    size_t end;
    if (scan(path, INT64_MAX, NULL, n, &end, e))
        return -1;
    *rows = arena_array(a, *n + 1, sizeof **rows);
    return scan(path, INT64_MAX, *rows, n, &end, e);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double metrics_quantile(double *v, size_t n, double q)
{
    if (!n)
        return NAN;
    qsort(v, n, sizeof *v, by_value);
    double at = q * (double)(n - 1);
    size_t lo = (size_t)at, hi = lo + 1 < n ? lo + 1 : lo;
    return v[lo] + (v[hi] - v[lo]) * (at - (double)lo);
}
