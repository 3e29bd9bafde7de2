/* judge_labels: a judge measured against pairs that people labelled. See pipelines/judge.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "pipelines/judge.h"
#include "scoring/agreement.h"
#include "scoring/stats.h"

enum { LABELS_MAX = 256 << 20 };

static int take_row(struct judge_asker *g, size_t i, const struct json *row, double *label,
                    struct err *e)
{
    static const char *const names[] = {"a", "b"};
    struct str said;
    if (i >= g->store->items || json_need_str(row, "label", &said, e))
        return -1;
    *label = str_eqz(said, "a") ? 1 : str_eqz(said, "b") ? 0 : str_eqz(said, "tie") ? 0.5 : NAN;
    if (isnan(*label))
        return err_set(e, "label is \"%.*s\", not a, b or tie", STR_ARG(said));
    for (size_t k = 0; k < 2; k++) {
        struct str text;
        if (json_need_str(row, names[k], &text, e))
            return -1;
        judge_store_answer(g->store, i, k, &text);
    }
    return 0;
}

/* Rows of a JSON array, or a line each. */
static int take_rows(struct judge_asker *g, const char *path, double *label, struct err *e)
{
    struct buf text = {0};
    size_t n = 0;
    int rc = file_read(path, &text, LABELS_MAX, e);
    struct str rest = str_trim(buf_str(&text));
    if (str_starts(rest, "\xEF\xBB\xBF"))
        rest = (struct str){rest.p + 3, rest.n - 3};
    if (rc == 0 && str_starts(rest, "[")) {
        struct json *doc = json_parse(rest, e);
        rc = doc ? 0 : -1;
        for (; rc == 0 && n < json_size(doc); n++)
            rc = take_row(g, n, json_at(doc, n), &label[n], e);
        json_free(doc);
    } else {
        while (rc == 0 && rest.n) {
            struct str line = str_trim(str_cut(&rest, '\n'));
            if (!line.n)
                continue;
            struct json *row = json_parse(line, e);
            rc = row ? take_row(g, n, row, &label[n], e) : -1;
            n++;
            json_free(row);
        }
    }
    buf_release(&text);
    return rc ? err_wrap(e, "%s: row %zu", path, n + (rc && str_starts(rest, "[") ? 1 : 0)) : 0;
}

int judge_labels_load(struct judge_asker *g, const char *path, double **label, struct arena *a,
                      struct err *e)
{
    if (judge_store_items(g->store, path, e))
        return -1;
    *label = arena_array(a, g->store->items, sizeof **label);
    g->store->entrants = g->entrants = 2;
    g->entrant = mem_array(2, sizeof *g->entrant);
    for (int k = 0; k < 2; k++)
        g->entrant[k].name = k ? STR_LIT("b") : STR_LIT("a");
    return take_rows(g, path, *label, e);
}

/* Who is better by the judge: 1 for a, 0 for b, 0.5 for a tie, NaN: it has not said. */
struct deciding {
    double *out;
    bool second; /* b's scores, behind a's */
};

static int decide_one(void *ctx, int32_t item, const struct score *s, struct err *e)
{
    struct deciding *x = ctx;
    (void)e;
    x->out[item] = x->second ? x->out[item] - s->value : s->value;
    return 0;
}

static void decide(const struct judge_asker *g, double *out)
{
    static const int32_t pair[2] = {0, 1};
    struct deciding x = {.out = out};
    struct err ignored; /* decide_one never fails */
    bool pairwise = g->prompt.protocol == JUDGE_PAIRWISE;
    if (pairwise) {
        judge_each_pair(g, pair, decide_one, &x, NULL, &ignored);
    } else {
        judge_each(g, 0, decide_one, &x, NULL, &ignored);
        x.second = true;
        judge_each(g, 1, decide_one, &x, NULL, &ignored);
    }
    for (size_t i = 0; i < g->store->items; i++) {
        double d = pairwise ? out[i] - 0.5 : out[i];
        out[i] = isnan(d) ? NAN : d > 0 ? 1 : d < 0 ? 0 : 0.5;
    }
}

struct json *judge_labels_report(const struct judge_asker *g, const double *label, FILE *to)
{
    size_t n = g->store->items;
    double *said = mem_array(n, sizeof *said), lo = NAN, hi = NAN;
    int64_t right = 0, wrong = 0, tie = 0, none = 0, human_ties = 0;
    decide(g, said);
    for (size_t i = 0; i < n; i++) {
        human_ties += label[i] == 0.5;
        if (isnan(said[i]))
            none++;
        else if (label[i] != 0.5)
            *(said[i] == 0.5 ? &tie : said[i] == label[i] ? &right : &wrong) += 1;
    }
    int64_t all = right + wrong + tie;
    double *twice = mem_array(2 * n, sizeof *twice); /* classes 0, 1, 2 */
    for (size_t i = 0; i < n; i++) {
        twice[i] = 2 * label[i];
        twice[n + i] = 2 * said[i];
    }
    struct agreement agree = agree_all(twice, twice + n, n, 0, 2);
    struct json *o = json_obj();
    fprintf(to, "labels: %zu pairs, %lld of them ties for people", n, (long long)human_ties);
    if (all) {
        stats_wilson(right, all, 0.95, &lo, &hi);
        fprintf(to, "; of the others the judge has %lld right (%.3f [%.3f, %.3f])",
                (long long)right, (double)right / (double)all, lo, hi);
    }
    fprintf(to, ", %lld wrong, %lld a tie, %lld without a verdict", (long long)wrong,
            (long long)tie, (long long)none);
    if (isfinite(agree.kappa))
        fprintf(to, "; kappa %.3f (a, tie, b)", agree.kappa);
    fputc('\n', to);
    json_put(o, "pairs", json_of_int((int64_t)n));
    json_put(o, "human_ties", json_of_int(human_ties));
    json_put(o, "right", json_of_int(right));
    json_put(o, "wrong", json_of_int(wrong));
    json_put(o, "judge_ties", json_of_int(tie));
    json_put(o, "unscored", json_of_int(none));
    json_put(o, "accuracy", json_of_num(all ? (double)right / (double)all : NAN));
    json_put(o, "accuracy_lo", json_of_num(lo));
    json_put(o, "accuracy_hi", json_of_num(hi));
    json_put(o, "kappa", json_of_num(agree.kappa));
    free(said);
    free(twice);
    return o;
}
