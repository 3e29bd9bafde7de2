/* segments: the journal of machines, see segments.h. */
#include "trainer/segments.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"

#define MOST_BYTES ((size_t)16 << 20)

static struct json *to_json(const struct segment *s)
{
    struct json *o = json_obj();
    json_put(o, "step", json_of_int(s->step));
    json_put(o, "tokens", json_of_int(s->tokens));
    json_put(o, "host", json_of_str(s->host));
    json_put(o, "backend", json_of_str(s->backend));
    json_put(o, "started", json_of_str(s->started));
    if (s->lost_seconds > 0)
        json_put(o, "lost_seconds", json_of_num(s->lost_seconds));
    if (s->lost_money > 0)
        json_put(o, "lost_money", json_of_num(s->lost_money));
    if (s->hardware.name.n)
        json_put(o, "hardware", json_of_struct(&hardware_schema, &s->hardware, false));
    return o;
}

static int of_json(const struct json *o, struct segment *s, struct arena *a, struct err *e)
{
    const struct json *h = json_get(o, "hardware");
    *s = (struct segment){
        .step = json_int(json_get(o, "step"), -1),
        .tokens = json_int(json_get(o, "tokens"), 0),
        .host = str_copy(a, json_str(json_get(o, "host"))),
        .backend = str_copy(a, json_str(json_get(o, "backend"))),
        .started = str_copy(a, json_str(json_get(o, "started"))),
        .lost_seconds = json_num(json_get(o, "lost_seconds")),
        .lost_money = json_num(json_get(o, "lost_money")),
    };
    if (isnan(s->lost_seconds))
        s->lost_seconds = 0;
    if (isnan(s->lost_money))
        s->lost_money = 0;
    if (s->step < 0)
        return err_set(e, "no step from 0 on");
    if (h)
        return json_to_struct(&hardware_schema, &s->hardware, h, a, e);
    if (schema_defaults(&hardware_schema, &s->hardware, a, e))
        return -1;
    s->hardware.name = (struct str){0};
    return 0;
}

int segments_read(const char *dir, struct segment **v, size_t *n, struct arena *a, struct err *e)
{
    const char *path = path_join(a, dir, "segments.jsonl");
    struct buf text = {0};
    int rc = -1;
    *n = 0;
    *v = NULL;
    if (!file_exists(path))
        return 0;
    if (file_read(path, &text, MOST_BYTES, e))
        goto out;
    struct str rest = buf_str(&text);
    size_t lines = 1;
    for (size_t i = 0; i < rest.n; i++)
        lines += rest.p[i] == '\n';
    *v = arena_array(a, lines, sizeof **v);
    for (int64_t line = 1; rest.n; line++) {
        struct str one = str_cut(&rest, '\n');
        struct json *o = json_parse(one, e);
        int bad = !o || of_json(o, &(*v)[*n], a, e);
        json_free(o);
        if (bad || (*n && (*v)[*n].step <= (*v)[*n - 1].step)) {
            rc = bad ? err_wrap(e, "%s: line %lld", path, (long long)line)
                     : err_set(e, "%s: line %lld: it does not begin behind the one before", path,
                               (long long)line);
            goto out;
        }
        ++*n;
    }
    rc = 0;
out:
    buf_release(&text);
    return rc;
}

int segments_add(const char *dir, const struct segment *s, double last_seconds, double kept_seconds,
                 struct err *e)
{
    struct arena a = {0};
    struct segment *v, add = *s;
    struct buf text = {0};
    size_t n = 0;
    int rc = -1;
    if (s->step > 0 && segments_read(dir, &v, &n, &a, e))
        goto out;
    double lost = last_seconds > kept_seconds ? last_seconds - kept_seconds : 0;
    double price = n ? v[n - 1].hardware.price_hour : NAN;
    add.lost_seconds = lost;
    add.lost_money = isnan(price) ? 0 : lost / 3600 * price;
    for (; n && v[n - 1].step >= s->step; n--) { /* made nothing that is left */
        add.lost_seconds += v[n - 1].lost_seconds;
        add.lost_money += v[n - 1].lost_money;
    }
    for (size_t i = 0; i <= n; i++) {
        struct json *o = to_json(i < n ? &v[i] : &add);
        json_write(o, &text);
        buf_addc(&text, '\n');
        json_free(o);
    }
    rc = file_write_all(path_join(&a, dir, "segments.jsonl"), buf_str(&text), e);
out:
    buf_release(&text);
    arena_release(&a);
    return rc;
}
