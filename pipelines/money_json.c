/* money_json: `assay cost` for programs, see money.h. */
#include <math.h>

#include "pipelines/money.h"

/* One figure of a run. text: of what is no number. */
struct figure {
    const char *name;
    double v;
    struct str text;
};
enum { MOST_FIGURES = 24 };

static size_t figures_of(struct figure *to, const struct result *r, const struct bill *b)
{
    const struct figure all[] = {
        {"run", NAN, r->run},
        {"machine", NAN, r->hardware.name},
        {"devices", r->hardware.devices > 0 ? (double)r->hardware.devices : NAN, {0}},
        {"tokens_per_second", b->rate, {0}},
        {"tokens_per_second_p10", b->rate_lo, {0}},
        {"tokens_per_second_p90", b->rate_hi, {0}},
        {"mfu", b->mfu, {0}},
        {"stall_share", b->stall, {0}},
        {"comm_share", b->comm, {0}},
        {"joules_per_token", b->joules_token, {0}},
        {"train_seconds", b->seconds, {0}},
        {"val_seconds", b->val_seconds, {0}},
        {"eval_seconds", b->eval_seconds, {0}},
        {"lost_seconds", b->lost_seconds, {0}},
        {"cost_train", b->train, {0}},
        {"cost_without_val", b->without_val, {0}},
        {"cost_with_eval", b->total, {0}},
        {"cost_billed", b->billed, {0}},
        {"cost_lost", b->lost, {0}},
        {"cost_per_1e9_tokens", b->gtoken, {0}},
        {"currency", NAN, b->mixed ? STR_LIT("mixed") : b->currency},
    };
    size_t n = sizeof all / sizeof all[0];
    for (size_t i = 0; i < n; i++)
        to[i] = all[i];
    return n;
}

static bool is_text(const struct figure *f)
{
    return f->text.n || str_eqz(str_z(f->name), "machine") || str_eqz(str_z(f->name), "currency");
}

static const char *number(double v, struct arena *a)
{
    return isnan(v) ? "" : arena_printf(a, "%.12g", v);
}

void money_csv(const struct result *v, size_t n, const struct money_options *o, struct buf *out)
{
    struct arena a = {0};
    struct billed x = money_bills(v, n, o, &a);
    struct table t = {0};
    struct figure f[MOST_FIGURES];
    struct result none = {0};
    struct bill blank = {0};
    const char *cells[MOST_FIGURES + 2];
    size_t k = figures_of(f, &none, &blank);
    table_begin(&t, k + 2, "");
    for (size_t i = 0; i < k; i++)
        cells[i] = f[i].name;
    cells[k] = o->metric;
    cells[k + 1] = "front";
    table_row(&t, cells);
    for (size_t i = 0; i < n; i++) {
        figures_of(f, &v[i], &x.bill[i]);
        for (size_t j = 0; j < k; j++)
            cells[j] = f[j].text.n ? str_dup(&a, f[j].text) : number(f[j].v, &a);
        cells[k] = number(x.quality[i], &a);
        cells[k + 1] = x.front[i] ? "1" : "0";
        table_row(&t, cells);
    }
    table_write(&t, TABLE_CSV, "", out);
    table_release(&t);
    arena_release(&a);
}

static struct json *text_or_null(struct str s)
{
    return s.n ? json_of_str(s) : json_of_null();
}

static struct json *segments_of(const struct result *r, const struct money_options *o)
{
    struct json *list = json_arr();
    const struct result_segment *s = r->segments.v;
    for (size_t i = 0; i < r->segments.n; i++) {
        struct json *j = json_obj();
        double money, lost;
        money_segment(r, i, o->prices, o->nprices, &money, &lost);
        json_put(j, "machine", text_or_null(s[i].hardware.n ? s[i].hardware : s[i].host));
        json_put(j, "steps", json_of_int(s[i].steps));
        json_put(j, "tokens", json_of_int(s[i].tokens));
        json_put(j, "seconds", json_of_num(s[i].seconds));
        json_put(j, "money", json_of_num(money));
        json_put(j, "lost_seconds", json_of_num(s[i].lost_seconds));
        json_put(j, "lost_money", json_of_num(lost));
        json_put(j, "currency", text_or_null(s[i].price_currency));
        json_push(list, j);
    }
    return list;
}

/* Time and money to the loss that was asked for; null: not reached, or no curve. */
static struct json *to_loss(const struct result *r, const struct bill *b,
                            const struct money_options *o)
{
    struct reached x;
    if (!money_reached(&r->curve, o->loss, (size_t)o->smooth, &x))
        return json_of_null();
    struct json *j = json_obj();
    json_put(j, "tokens", json_of_num(x.tokens));
    json_put(j, "tokens_lo", json_of_num(x.tokens_lo));
    json_put(j, "tokens_hi", json_of_num(x.tokens_hi));
    json_put(j, "seconds", json_of_num(x.seconds));
    json_put(j, "seconds_lo", json_of_num(x.seconds_lo));
    json_put(j, "seconds_hi", json_of_num(x.seconds_hi));
    json_put(j, "money", json_of_num(x.seconds * b->a_second));
    return j;
}

static struct json *batch_of(const struct result *v, const struct billed *x, size_t n,
                             struct arena *a)
{
    size_t *of = arena_array(a, n + 1, sizeof *of), recipe;
    struct fit f;
    if (!money_batch_fit(v, x->quality, n, x->higher, &f, of, &recipe))
        return json_of_null();
    struct json *j = json_obj();
    json_put(j, "runs", json_of_int((int64_t)f.n));
    json_put(j, "optimum", json_of_num(f.best));
    json_put(j, "lo", json_of_num(f.lo));
    json_put(j, "hi", json_of_num(f.hi));
    json_put(j, "level", json_of_num(f.level));
    json_put(j, "words", json_of_z(fit_words(&f, a)));
    return j;
}

struct json *money_json(const struct result *v, size_t n, const struct money_options *o)
{
    struct arena a = {0};
    struct billed x = money_bills(v, n, o, &a);
    struct json *doc = json_obj(), *runs = json_arr();
    for (size_t i = 0; i < n; i++) {
        struct json *j = json_obj();
        struct figure f[MOST_FIGURES];
        size_t k = figures_of(f, &v[i], &x.bill[i]);
        for (size_t m = 0; m < k; m++)
            json_put(j, f[m].name, is_text(&f[m]) ? text_or_null(f[m].text) : json_of_num(f[m].v));
        json_put(j, "quality", json_of_num(x.quality[i]));
        json_put(j, "front", json_of_bool(x.front[i]));
        json_put(j, "of_linear", json_of_num(money_scaled(v, x.bill, n, i)));
        json_put(j, "segments", segments_of(&v[i], o));
        if (!isnan(o->loss))
            json_put(j, "to_loss", to_loss(&v[i], &x.bill[i], o));
        json_push(runs, j);
    }
    json_put(doc, "metric", json_of_z(o->metric));
    if (!isnan(o->loss))
        json_put(doc, "loss", json_of_num(o->loss));
    json_put(doc, "runs", runs);
    json_put(doc, "batch_size", batch_of(v, &x, n, &a));
    arena_release(&a);
    return doc;
}
