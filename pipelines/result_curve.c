/* result_curve: the curve of a training, from its metrics.jsonl; see result_collect.h. */
#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/stream.h"
#include "pipelines/result_collect.h"

enum { CURVE_POINTS = 1000 };

struct curve_row {
    double step, tokens, loss, lr, norm, seconds;
};

static int curve_read(const char *path, struct curve_row **rows, size_t *n, struct err *e)
{
    struct stream *s = stream_open(path, e);
    struct buf line = {0};
    size_t cap = 0;
    int got = -1;
    *rows = NULL;
    *n = 0;
    if (!s)
        return -1;
    while ((got = stream_line(s, &line, 1 << 20, e)) == 1) {
        struct err ignored;
        struct json *j = json_parse(buf_str(&line), &ignored);
        if (!j) /* a torn tail of a killed run */
            continue;
        struct curve_row row = {json_num(json_get(j, "step")), json_num(json_get(j, "tokens")),
                                json_num(json_get(j, "loss")), json_num(json_get(j, "lr")),
                                json_num(json_get(j, "norm")), json_num(json_get(j, "seconds"))};
        json_free(j);
        if (isnan(row.step) || isnan(row.loss))
            continue;
        if (*n == cap)
            *rows = mem_grow(*rows, (cap = cap ? 2 * cap : 1024) * sizeof **rows);
        (*rows)[(*n)++] = row;
    }
    buf_release(&line);
    stream_close(s);
    return got < 0 ? -1 : 0;
}

/* Thinned to at most CURVE_POINTS: means over equal runs of steps, so that no spike is lost. */
static void curve_thin(struct collector *c, const struct curve_row *rows, size_t n)
{
    struct result_curve *v = &c->r->curve;
    size_t per = (n + CURVE_POINTS - 1) / CURVE_POINTS, m = per ? (n + per - 1) / per : 0;
    v->step = (struct i64s){arena_array(c->a, m, 8), m};
    v->tokens = (struct i64s){arena_array(c->a, m, 8), m};
    v->loss = (struct f64s){arena_array(c->a, m, 8), m};
    v->lr = (struct f64s){arena_array(c->a, m, 8), m};
    v->norm = (struct f64s){arena_array(c->a, m, 8), m};
    v->seconds = (struct f64s){arena_array(c->a, m, 8), m};
    for (size_t i = 0; i < m; i++) {
        size_t from = i * per, to = from + per < n ? from + per : n;
        double loss = 0, norm = 0;
        for (size_t k = from; k < to; k++) {
            loss += rows[k].loss;
            norm += rows[k].norm;
        }
        const struct curve_row *last = &rows[to - 1];
        v->step.v[i] = (int64_t)last->step;
        v->tokens.v[i] = isnan(last->tokens) ? 0 : (int64_t)last->tokens;
        v->loss.v[i] = loss / (double)(to - from);
        v->norm.v[i] = norm / (double)(to - from);
        v->lr.v[i] = last->lr;
        v->seconds.v[i] = last->seconds;
    }
}

int collect_curve(struct collector *c, const char *dir, struct err *e)
{
    struct curve_row *rows;
    size_t n;
    if (curve_read(path_join(c->a, dir, "metrics.jsonl"), &rows, &n, e) != 0)
        return -1;
    curve_thin(c, rows, n);
    free(rows);
    return 0;
}
