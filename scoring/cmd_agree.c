/* cmd_agree: two judges (or any two scorers) over the same items. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/command.h"
#include "base/file.h"
#include "formats/item.h"
#include "formats/manifest.h"
#include "scoring/agreement.h"

struct options {
    struct str a, b;
    double lo, hi;
};
#define AT(m) offsetof(struct options, m)
static const struct field fields[] = {
    {"a", FIELD_STR, AT(a), NULL, .help = "scores of one judge", .flags = FIELD_POSITIONAL},
    {"b", FIELD_STR, AT(b), NULL, .help = "scores of the other", .flags = FIELD_POSITIONAL},
    {"lo", FIELD_F64, AT(lo), "",
     .help = "lower end of the scale, for kappa's classes; else as the judging says, or 0"},
    {"hi", FIELD_F64, AT(hi), "", .help = "upper end; else as the judging says, or 100"},
    {0},
};
static const struct schema options_schema = {"agree", 1, sizeof(struct options), fields};

/* What the manifest of a judging or of a panel says of one file of scores. */
struct origin {
    double lo, hi;      /* NaN: not known */
    struct str answers; /* SHA-256 of what was judged; empty: not known */
    const char *path;
    struct str name; /* of the answers */
};

static void read_scale(struct str text, struct origin *o)
{
    int64_t lo, hi;
    ptrdiff_t dots = str_find(text, STR_LIT(".."));
    if (dots < 0 || str_i64((struct str){text.p, (size_t)dots}, &lo) ||
        str_i64((struct str){text.p + dots + 2, text.n - (size_t)dots - 2}, &hi) || hi <= lo)
        return;
    o->lo = (double)lo;
    o->hi = (double)hi;
}

/* A judging: its protocol, "single 0..100", and answers by name. A pair's values are 0..1. */
static void from_judging(const struct json *facts, struct origin *o, struct arena *a)
{
    struct str protocol = json_str(json_get(json_get(facts, "identity"), "protocol"));
    const struct json *answers = json_get(facts, "answers"), *v;
    const char *key;
    void *it = NULL;
    struct str kind = str_cut(&protocol, ' ');
    read_scale(str_eqz(kind, "pairwise") ? STR_LIT("0..1") : protocol, o);
    while (json_each(answers, &it, &key, &v))
        if (json_size(answers) == 1 || str_eqz(o->name, key)) {
            o->answers = str_copy(a, json_str(v));
            o->name = str_copy(a, str_z(key));
        }
}

/* A panel: scores/PASS/NAME.msgpack. */
static void from_panel(const struct json *facts, int64_t pass, struct origin *o, struct arena *a)
{
    const struct json *models = json_get(facts, "models");
    read_scale(json_str(json_get(facts, "scale")), o);
    for (size_t i = 0; i < json_size(models); i++) {
        const struct json *m = json_at(models, i);
        struct str name = json_str(json_get(m, "name"));
        bool same = str_eq(name, o->name) || (str_starts(name, str_dup(a, o->name)) &&
                                              name.n == o->name.n + 9 && name.p[o->name.n] == '@');
        if (same && json_int(json_get(m, "pass"), 0) == pass)
            o->answers = str_copy(a, json_str(json_get(m, "answers")));
    }
}

static bool makes(const struct json *manifest, const char *output)
{
    const struct json *list = json_get(manifest, "outputs");
    for (size_t i = 0; i < json_size(list); i++)
        if (str_eqz(json_str(json_get(json_at(list, i), "path")), output))
            return true;
    return false;
}

/* The folder of its manifest is one, two or three levels up. */
static struct origin origin_of(const char *path, struct arena *a)
{
    struct origin o = {.lo = NAN, .hi = NAN, .path = path, .name = str_z(path_base(path))};
    const char *dir = path_dir(a, path), *rel = path_base(path);
    struct err ignored;
    int64_t pass = 0;
    if (str_ends(o.name, ".msgpack"))
        o.name.n -= 8;
    for (int level = 0; level < 3; level++) {
        struct json *m = file_exists(manifest_path(a, dir)) ? manifest_read(dir, &ignored) : NULL;
        bool found = m && makes(m, rel);
        if (found && level == 2 && str_i64(str_z(path_base(path_dir(a, path))), &pass) == 0)
            from_panel(json_get(m, "facts"), pass, &o, a);
        else if (found)
            from_judging(json_get(m, "facts"), &o, a);
        json_free(m);
        if (found)
            break;
        rel = arena_printf(a, "%s/%s", path_base(dir), rel);
        dir = path_dir(a, dir);
    }
    return o;
}

/* Two judges of the same answers, on one scale. */
static int check_origins(const struct options *o, const struct origin *a, const struct origin *b,
                         double *lo, double *hi, struct err *e)
{
    if (a->answers.n && b->answers.n && !str_eq(a->answers, b->answers))
        return err_code(
            e, EXIT_USAGE,
            "%s judges the answers of %.*s, %s others, of %.*s: two judges can agree on "
            "the same answers only",
            a->path, STR_ARG(a->name), b->path, STR_ARG(b->name));
    bool given = !isnan(o->lo) && !isnan(o->hi);
    if (!given && !isnan(a->lo) && !isnan(b->lo) && (a->lo != b->lo || a->hi != b->hi))
        return err_code(e, EXIT_USAGE,
                        "%s is on a scale of %g..%g, %s on %g..%g: they have no classes in common",
                        a->path, a->lo, a->hi, b->path, b->lo, b->hi);
    *lo = !isnan(o->lo) ? o->lo : !isnan(a->lo) ? a->lo : !isnan(b->lo) ? b->lo : 0;
    *hi = !isnan(o->hi) ? o->hi : !isnan(a->hi) ? a->hi : !isnan(b->hi) ? b->hi : 100;
    return *hi > *lo ? 0 : err_code(e, EXIT_USAGE, "--hi must be above --lo");
}

static void line(const char *name, double v, const char *why)
{
    if (isfinite(v))
        printf("%-16s %.3f\n", name, v);
    else
        printf("%-16s not estimable: %s\n", name, why);
}

static bool has_spread(const double *v, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (v[i] != v[0])
            return true;
    return false;
}

static void print(const double *x, const double *y, size_t n, size_t lack, double lo, double hi)
{
    struct agreement g = agree_all(x, y, n, lo, hi);
    bool in_x = has_spread(x, n), in_y = has_spread(y, n);
    const char *spread = n < 2            ? "one item"
                         : !in_x && !in_y ? "each gives all items the same score"
                         : !in_x          ? "the first gives all items the same score"
                         : !in_y          ? "the second gives all items the same score"
                                          : "no spread";
    printf("%-16s %lld with both scores, %zu without\n", "items", (long long)g.n, lack);
    line("pearson", g.pearson, spread);
    line("spearman", g.spearman, spread);
    line("kendall tau-b", g.kendall, spread);
    printf("%-16s %d, of %g..%g\n", "classes", g.classes, lo, hi);
    line("kappa", g.kappa, "both put all items into one and the same class");
    line("kappa quadratic", g.kappa_quadratic, "both put all items into one and the same class");
    line("mean of b - a", g.shift, "no items");
    line("sd of b - a", g.sd, "one item");
}

static int run(void *opt, struct arena *arena, struct err *e)
{
    const struct options *o = opt;
    const char *path_a = str_dup(arena, o->a), *path_b = str_dup(arena, o->b);
    struct scores a = {0}, b = {0};
    double *x = NULL, *y, lo = 0, hi = 100;
    size_t n = 0, lack = 0;
    int rc = -1;
    if (scores_load(&a, path_a, e) || scores_load(&b, path_b, e))
        goto out;
    struct origin of_a = origin_of(path_a, arena), of_b = origin_of(path_b, arena);
    if (check_origins(o, &of_a, &of_b, &lo, &hi, e))
        goto out;
    x = mem_array(2 * a.n + 1, sizeof *x);
    y = x + a.n;
    for (size_t i = 0; i < a.n; i++) {
        const struct score *other = scores_find(&b, a.v[i].item);
        bool both = other && a.v[i].outcome == OUTCOME_SCORED && other->outcome == OUTCOME_SCORED;
        lack += !both;
        if (!both)
            continue;
        if (a.v[i].value < lo || a.v[i].value > hi || other->value < lo || other->value > hi) {
            err_code(e, EXIT_USAGE, "item %.*s has a score outside of %g..%g: give --lo and --hi",
                     STR_ARG(a.v[i].item), lo, hi);
            goto out;
        }
        x[n] = a.v[i].value;
        y[n++] = other->value;
    }
    if (!n) {
        err_set(e, "no item has a score in both");
        goto out;
    }
    print(x, y, n, lack, lo, hi);
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
               "a scale of at most ten steps, else five equal bands of it. The scale and whose "
               "answers were judged come from the manifest of the judging.",
    .options = &options_schema,
    .run = run,
};
