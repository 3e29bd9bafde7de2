/* panel_report: a panel's table to people, scores and facts to files. See pipelines/panel.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "pipelines/panel.h"
#include "scoring/stats.h"

static struct estimate mean_of(const struct panel_table *t, const double *v, size_t pass,
                               size_t model)
{
    double *x = mem_array(2 * t->items + 1, sizeof *x), *one = x + t->items;
    int32_t *cluster = mem_array(t->items + 1, sizeof *cluster);
    int32_t *dense = mem_array(t->items + 1, sizeof *dense), next = 0;
    size_t n = 0;
    for (size_t i = 0; i < t->items; i++) {
        double got = panel_at(t, v, pass, model, i);
        if (isnan(got))
            continue;
        if (!dense[t->cluster[i]])
            dense[t->cluster[i]] = ++next;
        cluster[n] = dense[t->cluster[i]] - 1;
        x[n] = got;
        one[n++] = 1;
    }
    struct estimate e = stats_ratio(x, one, cluster, n, 0.95);
    if (!n)
        e.value = NAN;
    free(x);
    free(cluster);
    free(dense);
    return e;
}

/* No interval: one of the passes is not whole, so its items are those that came first. */
static const char partial[] = "a pass is unfinished";

/* In whichever whole pass holds both, else linked between their newest ones. */
static struct estimate difference(const struct panel_table *t, size_t a, size_t b, int32_t pass[2])
{
    pass[0] = panel_newest(t, a);
    pass[1] = panel_newest(t, b);
    for (int32_t p = (int32_t)t->passes - 1; p >= 0; p--)
        if ((t->whole[p] || t->passes == 1) && !isnan(mean_of(t, t->d, (size_t)p, a).value) &&
            !isnan(mean_of(t, t->d, (size_t)p, b).value)) {
            pass[0] = pass[1] = p;
            break;
        }
    if (pass[0] < 0 || pass[1] < 0)
        return (struct estimate){.value = NAN, .lo = NAN, .hi = NAN, .why = "not judged"};
    if (pass[0] == pass[1]) { /* anchors and sanity answers may take part within a pass */
        struct link_table all = t->link;
        all.d = t->d;
        return link_difference(&all, pass[0], (int32_t)a, pass[1], (int32_t)b, 0.95);
    }
    struct estimate x = link_difference(&t->link, pass[0], (int32_t)a, pass[1], (int32_t)b, 0.95);
    if (!t->whole[pass[0]] || !t->whole[pass[1]]) {
        x.se = x.lo = x.hi = x.p = NAN;
        x.why = partial;
    }
    return x;
}

static const char *why_no_link(const struct panel_table *t, size_t p, size_t q,
                               const struct link *k)
{
    return t->whole[p] && t->whole[q] ? k->why : partial;
}

static const char *kind_of(const struct panel_table *t, size_t m)
{
    return t->is_anchor[m] ? " (anchor)" : t->is_sanity[m] ? " (sanity)" : "";
}

static void put_estimate(FILE *to, const struct estimate *e)
{
    if (isnan(e->value))
        fprintf(to, "  not estimable");
    else if (isfinite(e->lo))
        fprintf(to, "  %+.2f [%+.2f, %+.2f]", e->value, e->lo, e->hi);
    else
        fprintf(to, "  %+.2f (no interval: %s)", e->value, e->why ? e->why : "not estimable");
}

/* A judge that does not put the reference on top and the empty answer at the bottom is no judge. */
static void print_sanity(const struct panel_table *t, size_t p, FILE *to)
{
    double best = -INFINITY, worst = INFINITY, top = NAN, bottom = NAN;
    for (size_t i = 0; i < t->pass[p].model.n; i++) {
        struct str role = t->pass[p].role.v[i];
        size_t m = (size_t)t->at[p][i];
        double v = mean_of(t, t->value, p, m).value;
        if (str_eqz(role, "reference"))
            top = v;
        else if (str_eqz(role, "empty"))
            bottom = v;
        else if (!isnan(v)) {
            best = v > best ? v : best;
            worst = v < worst ? v : worst;
        }
    }
    if (isnan(top) || isnan(bottom))
        return;
    bool good = top >= best && bottom <= worst;
    fprintf(to,
            "sanity, pass %zu: reference %.1f, best model %.1f, worst %.1f, empty answer %.1f%s\n",
            p + 1, top, best, worst, bottom, good ? "" : ": NOT in this order, do not trust it");
}

static int64_t questions(const struct panel_table *t, size_t p)
{
    int64_t n = 0;
    for (int i = 0; outcome_names[i]; i++)
        n += t->outcome[p][i];
    return n;
}

/* What came of the questions of each pass. */
static void print_passes(const struct panel_table *t, FILE *to)
{
    for (size_t p = 0; p < t->passes; p++) {
        fprintf(to, "pass %zu: %lld of %lld questions scored", p + 1,
                (long long)t->outcome[p][OUTCOME_SCORED], (long long)questions(t, p));
        for (int i = 1; outcome_names[i]; i++)
            if (t->outcome[p][i])
                fprintf(to, ", %lld %s", (long long)t->outcome[p][i], outcome_names[i]);
        fputs(t->whole[p] ? "\n" : "; UNFINISHED: the same command goes on\n", to);
    }
}

/* What the mean would be if what has no value had got the lowest or the highest score. */
static void put_bounds(const struct panel_table *t, const struct estimate *raw, double lo,
                       double hi, FILE *to)
{
    double n = (double)raw->n, lack = (double)t->items - n, all = n + lack;
    if (lack > 0 && isfinite(lo))
        fprintf(to, " (between %.2f and %.2f if all had a score)",
                (raw->value * n + lo * lack) / all, (raw->value * n + hi * lack) / all);
}

static void print_links(const struct panel_table *t, FILE *to)
{
    for (size_t p = 0; p + 1 < t->passes; p++)
        for (size_t q = p + 1; q < t->passes; q++) {
            struct link k = link_passes(&t->link, (int32_t)p, (int32_t)q);
            fprintf(to, "link of pass %zu and %zu: ", p + 1, q + 1);
            const char *why = why_no_link(t, p, q, &k);
            if (why)
                fprintf(to, "not supported: %s%s\n", why,
                        why == partial ? "" : " (--rejudge all asks about all of them anew)");
            else
                fprintf(to, "adds sd %.2f (df %.1f, from %d models judged in both)\n", k.sd, k.df,
                        k.rejudged);
        }
}

int panel_print(const struct panel_table *t, struct str baseline, double lo, double hi, FILE *to,
                struct err *e)
{
    ptrdiff_t base = -1;
    if (!t->passes)
        return err_set(e, "nothing was judged here yet");
    for (size_t m = 0; m < t->models; m++)
        if (baseline.n ? str_eq(t->model[m], baseline) : base < 0 && !t->is_sanity[m])
            base = (ptrdiff_t)m;
    if (base < 0)
        return err_code(e, EXIT_USAGE, "no model of this panel is called %.*s", STR_ARG(baseline));
    fprintf(to, "panel: %zu models, %zu items, %zu passes, %zu anchors, baseline %.*s\n", t->models,
            t->items, t->passes, t->anchors, STR_ARG(t->model[base]));
    for (size_t m = 0; m < t->models; m++) {
        int32_t p = panel_newest(t, m), pass[2];
        fprintf(to, "%.*s%s:", STR_ARG(t->model[m]), kind_of(t, m));
        if (p < 0) {
            fprintf(to, " not judged yet\n");
            continue;
        }
        struct estimate raw = mean_of(t, t->value, (size_t)p, m),
                        d = mean_of(t, t->d, (size_t)p, m);
        fprintf(to, " pass %d%s, %lld of %zu items, mean %.2f", p + 1,
                t->whole[p] ? "" : " (unfinished)", (long long)raw.n, t->items, raw.value);
        put_bounds(t, &raw, lo, hi, to);
        fprintf(to, ", from the anchors");
        put_estimate(to, &d);
        if ((ptrdiff_t)m != base) {
            struct estimate x = difference(t, (size_t)base, m, pass);
            fprintf(to, ", from the baseline");
            put_estimate(to, &x);
            if (pass[0] != pass[1])
                fprintf(to, x.why ? "" : " (linked)");
        }
        fputc('\n', to);
    }
    print_passes(t, to);
    for (size_t p = 0; p < t->passes; p++)
        print_sanity(t, p, to);
    print_links(t, to);
    return 0;
}

/* ---- files ---------------------------------------------------------------------------------- */

static int write_scores(const struct panel_table *t, const char *dir, size_t p, size_t m,
                        struct str name, struct stage *st, struct arena *a, struct err *e)
{
    struct score *v = arena_array(a, t->items + 1, sizeof *v);
    const char *path = arena_printf(a, "%s/scores/%zu/%.*s.msgpack", dir, p + 1, STR_ARG(name));
    for (size_t i = 0; i < t->items; i++) {
        double x = panel_at(t, t->value, p, m, i);
        v[i] = (struct score){.item = t->item[i],
                              .scorer = STR_LIT("judge_joint"),
                              .cluster = t->group[i],
                              .value = x,
                              .outcome = isnan(x) ? OUTCOME_NOT_RUN : OUTCOME_SCORED,
                              .judge = t->pass[p].judge};
    }
    return judge_save_scores(v, t->items, path, e) || stage_output(st, path, e) ? -1 : 0;
}

static struct json *json_estimate(const struct estimate *x)
{
    struct json *o = json_obj();
    json_put(o, "value", json_of_num(x->value));
    json_put(o, "lo", json_of_num(x->lo));
    json_put(o, "hi", json_of_num(x->hi));
    json_put(o, "n", json_of_int(x->n));
    if (x->why)
        json_put(o, "why", json_of_z(x->why));
    return o;
}

int panel_write(const struct panel_table *t, const char *dir, struct stage *st, struct arena *a,
                struct err *e)
{
    struct json *list = json_arr(), *links = json_arr();
    int rc = 0;
    for (size_t p = 0; p < t->passes; p++)
        for (size_t i = 0; i < t->pass[p].model.n && rc == 0; i++) {
            size_t m = (size_t)t->at[p][i];
            struct estimate raw = mean_of(t, t->value, p, m), d = mean_of(t, t->d, p, m);
            if (isnan(raw.value))
                continue;
            rc = write_scores(t, dir, p, m, t->pass[p].model.v[i], st, a, e);
            struct json *o = json_obj();
            json_put(o, "name", json_of_str(t->model[m]));
            json_put(o, "pass", json_of_int((int64_t)p + 1));
            json_put(o, "answers", json_of_str(t->pass[p].hash.v[i]));
            json_put(o, "anchor", json_of_bool(t->is_anchor[m]));
            json_put(o, "sanity", json_of_bool(t->is_sanity[m]));
            json_put(o, "mean", json_estimate(&raw));
            json_put(o, "from_anchors", json_estimate(&d));
            json_push(list, o);
        }
    for (size_t p = 0; p + 1 < t->passes; p++)
        for (size_t q = p + 1; q < t->passes; q++) {
            struct link k = link_passes(&t->link, (int32_t)p, (int32_t)q);
            struct json *o = json_obj();
            json_put(o, "passes", json_arr());
            json_push((struct json *)json_get(o, "passes"), json_of_int((int64_t)p + 1));
            json_push((struct json *)json_get(o, "passes"), json_of_int((int64_t)q + 1));
            json_put(o, "rejudged", json_of_int(k.rejudged));
            json_put(o, "sd", json_of_num(k.sd));
            json_put(o, "df", json_of_num(k.df));
            const char *why = why_no_link(t, p, q, &k);
            json_put(o, "supported", json_of_bool(!why));
            if (why)
                json_put(o, "why", json_of_z(why));
            json_push(links, o);
        }
    stage_fact(st, "models", list);
    stage_fact(st, "links", links);
    return rc;
}
