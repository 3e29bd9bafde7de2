/* cmd_agree: two judges (or any two scorers) over the same items. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/command.h"
#include "formats/item.h"
#include "scoring/agreement.h"

struct options {
    struct str a, b;
    double lo, hi;
};
#define AT(m) offsetof(struct options, m)
static const struct field fields[] = {
    {"a", FIELD_STR, AT(a), NULL, .help = "scores of one judge", .flags = FIELD_POSITIONAL},
    {"b", FIELD_STR, AT(b), NULL, .help = "scores of the other", .flags = FIELD_POSITIONAL},
    {"lo", FIELD_F64, AT(lo), "0", .help = "lower end of the scale, for kappa's classes"},
    {"hi", FIELD_F64, AT(hi), "100", .help = "upper end"},
    {0},
};
static const struct schema options_schema = {"agree", 1, sizeof(struct options), fields};

static void line(const char *name, double v)
{
    if (isfinite(v))
        printf("%-16s %.3f\n", name, v);
    else
        printf("%-16s not estimable\n", name);
}

static int run(void *opt, struct arena *arena, struct err *e)
{
    const struct options *o = opt;
    struct scores a = {0}, b = {0};
    double *x = NULL, *y;
    size_t n = 0, lack = 0;
    int rc = -1;
    if (!(o->hi > o->lo))
        return err_code(e, EXIT_USAGE, "--hi must be above --lo");
    if (scores_load(&a, str_dup(arena, o->a), e) || scores_load(&b, str_dup(arena, o->b), e))
        goto out;
    x = mem_array(2 * a.n + 1, sizeof *x);
    y = x + a.n;
    for (size_t i = 0; i < a.n; i++) {
        const struct score *other = scores_find(&b, a.v[i].item);
        bool both = other && a.v[i].outcome == OUTCOME_SCORED && other->outcome == OUTCOME_SCORED;
        lack += !both;
        if (!both)
            continue;
        if (a.v[i].value < o->lo || a.v[i].value > o->hi || other->value < o->lo ||
            other->value > o->hi) {
            err_code(e, EXIT_USAGE, "item %.*s has a score outside of %g..%g: give --lo and --hi",
                     STR_ARG(a.v[i].item), o->lo, o->hi);
            goto out;
        }
        x[n] = a.v[i].value;
        y[n++] = other->value;
    }
    if (!n) {
        err_set(e, "no item has a score in both");
        goto out;
    }
    struct agreement g = agree_all(x, y, n, o->lo, o->hi);
    printf("%-16s %lld with both scores, %zu without\n", "items", (long long)g.n, lack);
    line("pearson", g.pearson);
    line("spearman", g.spearman);
    line("kendall tau-b", g.kendall);
    printf("%-16s %d\n", "classes", g.classes);
    line("kappa", g.kappa);
    line("kappa quadratic", g.kappa_quadratic);
    line("mean of b - a", g.shift);
    line("sd of b - a", g.sd);
    rc = EXIT_DONE;
out:
    scores_release(&a);
    scores_release(&b);
    free(x);
    return rc;
}

const struct command cmd_agree = {
    .room = "scoring",
    .name = "agree",
    .summary = "how far two judges agree: correlations and Cohen's kappa",
    .details = "Takes two score files of the same items. Kappa needs classes: the whole numbers of "
               "a scale of at most ten steps, else five equal bands of it.",
    .options = &options_schema,
    .run = run,
};
