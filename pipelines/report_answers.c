/* report_answers: what each run answered to each item, side by side, with its scores. Answers and items
 * are read from the run folders beside the results; scores are the results' own per-item values. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/map.h"
#include "formats/item.h"
#include "pipelines/report.h"
#include "pipelines/report_charts.h"
#include "pipelines/runs_table.h"

enum { LONGEST = 600 };

struct answers {
    const struct comparison *c;
    struct responses *of; /* nruns; empty where there are none */
    struct items items;
    const struct compared_metric *metric[8]; /* over answers: exact, overlap, judge... */
    struct map at[8];                        /* not used where the metric is missing */
    size_t nmetrics;
    struct arena a;
};

static const char *folder_of(const char *path, struct arena *a)
{
    return file_is_dir(path) ? path : path_dir(a, path);
}

/* The items that the first run with answers was asked. A run may take another's data. */
static int load_items(struct answers *x, const char *dir, const struct result *r, struct err *e)
{
    struct str from = r->config.data.run;
    const char *data = from.n ? path_join(&x->a, path_dir(&x->a, dir), str_dup(&x->a, from)) : dir;
    const char *path = path_join(&x->a, data, "data/instruct_test.msgpack");
    return file_exists(path) ? items_load(&x->items, path, e) : 0;
}

static int load(struct answers *x, const char *const *path, struct err *e)
{
    const struct comparison *c = x->c;
    x->of = arena_array(&x->a, c->nruns + 1, sizeof *x->of);
    for (size_t r = 0; r < c->nruns; r++) {
        const char *dir = folder_of(path[r], &x->a);
        const char *file = path_join(&x->a, dir,
                                     arena_printf(&x->a, "eval/responses-%lld.msgpack",
                                                  (long long)c->run[r].config.finetune.seed));
        if (!file_exists(file))
            continue;
        if (responses_load(&x->of[r], file, e) != 0 ||
            (!x->items.n && load_items(x, dir, &c->run[r], e) != 0))
            return -1;
    }
    for (size_t k = 0; k < c->nmetrics && x->nmetrics < 8; k++)
        if (!str_eqz(c->metric[k].task, "windows") && !str_eqz(c->metric[k].task, "documents"))
            x->metric[x->nmetrics++] = &c->metric[k];
    return 0;
}

static double value_of(const struct metric *m, struct str id, size_t guess)
{
    if (!m)
        return NAN;
    if (guess < m->ids.n && str_eq(m->ids.v[guess], id)) /* the order of the items, as a rule */
        return m->num.v[guess] / m->den.v[guess];
    for (size_t i = 0; i < m->ids.n; i++)
        if (str_eq(m->ids.v[i], id))
            return m->num.v[i] / m->den.v[i];
    return NAN;
}

/* Of one item: how far the runs are apart on the first metric, and who is below it all. */
struct place {
    size_t item;
    double spread;
};

static double spread_of(const struct answers *x, size_t item)
{
    double lo = NAN, hi = NAN;
    for (size_t r = 0; x->nmetrics && r < x->c->nruns; r++) {
        double v = value_of(x->metric[0]->delta[r].m, x->items.v[item].id, item);
        lo = fmin(lo, v);
        hi = fmax(hi, v);
    }
    return hi > lo ? (hi - lo) : 0;
}

static int by_spread(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->spread != y->spread)
        return x->spread > y->spread ? -1 : 1;
    return x->item < y->item ? -1 : 1;
}

static void text(struct buf *out, struct str s)
{
    size_t n = s.n;
    if (n > LONGEST) { /* cut between characters */
        n = LONGEST;
        while (n && ((unsigned char)s.p[n] & 0xC0) == 0x80)
            n--;
    }
    html_text(out, (struct str){s.p, n});
    if (n < s.n)
        buf_printf(out, "\xe2\x80\xa6 <i>(%zu bytes more)</i>", s.n - n);
}

static void answer(const struct answers *x, size_t r, const struct item *it, size_t at,
                   struct buf *out)
{
    struct arena a = {0};
    const struct response *p = x->of[r].n ? responses_find(&x->of[r], it->id) : NULL;
    if (!x->of[r].n)
        return;
    buf_addz(out, "<div><b>");
    html_text(out, x->c->run[r].run);
    for (size_t k = 0; k < x->nmetrics; k++) {
        double v = value_of(x->metric[k]->delta[r].m, it->id, at);
        if (isnan(v))
            continue;
        buf_addz(out, " \xc2\xb7 ");
        html_text(out, x->metric[k]->name);
        buf_printf(out, " %s", arena_printf(&a, v == round(v) ? "%.0f" : "%.2f", v));
    }
    buf_addz(out, "</b>");
    if (!p)
        buf_addz(out, "<i>no answer</i>");
    else if (!p->text.n)
        buf_printf(out, "<i>empty (%s)</i>", finish_names[p->finish]);
    else
        text(out, p->text);
    buf_addz(out, "</div>");
    arena_release(&a);
}

/* Words that the filter knows: differ, and for each run rI-low when it is the lowest alone. */
static void item(const struct answers *x, size_t at, double spread, struct buf *out)
{
    const struct item *it = &x->items.v[at];
    buf_printf(out, "<article class=\"item\" data-k=\"%s", spread > 0 ? "differ" : "same");
    for (size_t r = 0; r < x->c->nruns && x->nmetrics && spread > 0; r++) {
        double v = value_of(x->metric[0]->delta[r].m, it->id, at), best = NAN;
        for (size_t k = 0; k < x->c->nruns; k++)
            best = fmax(best, value_of(x->metric[0]->delta[k].m, it->id, at));
        if (v < best)
            buf_printf(out, " low%zu", r);
    }
    buf_addz(out, "\"><h4>");
    text(out, it->instruction);
    buf_addz(out, "</h4>");
    if (it->input.n) {
        buf_addz(out, "<p class=\"ref\"><b>Input:</b> ");
        text(out, it->input);
        buf_addz(out, "</p>");
    }
    if (it->reference.n) {
        buf_addz(out, "<p class=\"ref\"><b>Reference:</b> ");
        text(out, it->reference);
        buf_addz(out, "</p>");
    }
    buf_addz(out, "<div class=\"side\">");
    for (size_t r = 0; r < x->c->nruns; r++)
        answer(x, r, it, at, out);
    buf_addz(out, "</div></article>\n");
}

static void filter(const struct answers *x, struct buf *out)
{
    buf_addz(out, "<form class=\"filter\" hidden onsubmit=\"return false\"><div><label for=\"q\">"
                  "Search</label><input id=\"q\" type=\"search\" size=\"24\"></div>"
                  "<div><label for=\"f\">Show</label><select id=\"f\"><option value=\"all\">all "
                  "items</option><option value=\"differ\">where scores differ</option>"
                  "<option value=\"same\">where they agree</option>");
    for (size_t r = 0; r < x->c->nruns && x->nmetrics; r++) {
        if (!x->of[r].n)
            continue;
        buf_printf(out, "<option value=\"low%zu\">where ", r);
        html_text(out, x->c->run[r].run);
        buf_addz(out, " is not the best</option>");
    }
    buf_addz(out, "</select></div><output id=\"n\" role=\"status\"></output></form>\n");
}

int report_answers(const struct comparison *c, const char *const *path, size_t room,
                   struct buf *out, struct err *e)
{
    struct answers x = {.c = c};
    struct place *order = NULL;
    size_t start = out->n, shown = 0, full = 0;
    int rc = load(&x, path, e);
    if (rc != 0)
        goto out;
    if (!x.items.n) {
        buf_addz(out, "<p>There are no answers beside these results (eval/responses of the run "
                      "folders and data/instruct_test).</p>\n");
        goto out;
    }
    order = mem_array(x.items.n, sizeof *order);
    for (size_t i = 0; i < x.items.n; i++)
        order[i] = (struct place){i, spread_of(&x, i)};
    qsort(order, x.items.n, sizeof *order, by_spread);
    buf_addz(out, "<p>Items on which the runs differ most come first");
    if (x.nmetrics) {
        buf_addz(out, ", by ");
        html_text(out, x.metric[0]->name);
    }
    bool means = false;
    for (size_t r = 0; r < c->nruns; r++)
        means = means || (x.of[r].n && c->run[r].config.finetune.seeds > 1);
    buf_addz(out, means
                      ? ". The texts are of the first fine-tuning seed, the scores means over all "
                        "seeds.</p>\n"
                      : ".</p>\n");
    filter(&x, out);
    for (; shown < x.items.n && out->n - start < room; shown++) {
        full = out->n;
        item(&x, order[shown].item, order[shown].spread, out);
    }
    if (out->n - start > room && shown > 1) { /* the one that went over */
        buf_cut(out, full);
        shown--;
    }
    if (shown < x.items.n)
        buf_printf(out,
                   "<p>%zu more items are left out to keep this page small; <code>assay cat</code> "
                   "shows all answers.</p>\n",
                   x.items.n - shown);
out:
    for (size_t r = 0; x.of && r < c->nruns; r++)
        responses_release(&x.of[r]);
    items_release(&x.items);
    free(order);
    arena_release(&x.a);
    return rc;
}
