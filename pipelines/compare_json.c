/* compare_json: a comparison for programs, see compare.h. */
#include "pipelines/compare.h"

static struct json *json_estimate(const struct estimate *s)
{
    struct json *o = json_obj();
    json_put(o, "value", json_of_num(s->value));
    if (s->why) {
        json_put(o, "not_estimable", json_of_z(s->why));
        return o;
    }
    json_put(o, "lo", json_of_num(s->lo));
    json_put(o, "hi", json_of_num(s->hi));
    json_put(o, "p", json_of_num(s->p));
    json_put(o, "df", json_of_num(s->df));
    return o;
}

static struct json *json_delta(const struct comparison *c, const struct delta *d)
{
    struct json *o = json_obj();
    json_put(o, "run", json_of_str(c->run[d->run].run));
    json_put(o, "group", json_of_str(c->run[d->run].group));
    if (!d->m) {
        json_put(o, "measured", json_of_bool(false));
        return o;
    }
    json_put(o, "value", json_of_num(d->m->value));
    json_put(o, "lo", json_of_num(d->m->lo));
    json_put(o, "hi", json_of_num(d->m->hi));
    json_put(o, "n", json_of_int(d->m->n));
    json_put(o, "n_invalid", json_of_int(d->m->n_invalid));
    struct arena a = {0};
    double lowest, highest;
    if (d->m->n_invalid && compare_range(d->m, &lowest, &highest, &a)) {
        json_put(o, "lowest",
                 json_of_num(lowest)); /* if all without a value were wrong, or right */
        json_put(o, "highest", json_of_num(highest));
    }
    arena_release(&a);
    json_put(o, "clusters", json_of_int(d->m->clusters));
    if (d->m->note.n)
        json_put(o, "note", json_of_str(d->m->note));
    if (d->run == c->baseline || !d->base)
        return o;
    if (d->refused)
        json_put(o, d->allowed ? "allowed_though" : "refused", json_of_z(d->refused));
    if (!d->refused || d->allowed) {
        json_put(o, "difference", json_estimate(&d->est));
        json_put(o, "p_holm", json_of_num(d->p_holm));
        json_put(o, "exploratory", json_of_bool(!d->m->primary || d->same_as));
        json_put(o, "detectable", json_of_num(d->mde));
        if (d->same_as)
            json_put(o, "counted_as", json_of_z(d->same_as));
        if (d->mcnemar) {
            json_put(o, "won", json_of_int(d->won));
            json_put(o, "lost", json_of_int(d->lost));
        }
        if (d->again)
            json_put(o, "same_training", json_of_bool(true));
        json_put(o, "these_checkpoints", json_of_z(verdict_names[d->verdict]));
    }
    return o;
}

static struct json *json_recipe(const struct recipe *x)
{
    struct json *o = json_obj();
    json_put(o, "group", json_of_str(x->group));
    json_put(o, "seeds", json_of_int(x->seeds));
    json_put(o, "baseline_seeds", json_of_int(x->base_seeds));
    json_put(o, "effect", json_of_num(x->effect));
    json_put(o, "seed_sd", json_of_num(x->sd));
    json_put(o, "seed_sd_df", json_of_int(x->sd_df));
    if (x->lent_seeds >= 2)
        json_put(o, "seed_sd_from", json_of_str(x->lender));
    json_put(o, "seeds_needed", json_of_int(x->needed));
    json_put(o, "detectable", json_of_num(x->mde));
    if (x->why)
        json_put(o, "not_estimable", json_of_z(x->why));
    else
        json_put(o, "difference", json_estimate(&x->est));
    json_put(o, "p_holm", json_of_num(x->p_holm));
    json_put(o, "these_recipes", json_of_z(verdict_names[x->verdict]));
    return o;
}

struct json *compare_json(const struct comparison *c)
{
    struct json *o = json_obj(), *metrics = json_arr(), *runs = json_arr();
    json_put(o, "baseline", json_of_str(c->run[c->baseline].run));
    for (size_t i = 0; i < c->nruns; i++) {
        struct json *r = json_of_struct(&result_schema, &c->run[i], false);
        json_put(r, "metrics",
                 json_of_null()); /* values are below, per-item ones in the result file */
        json_push(runs, r);
    }
    for (size_t k = 0; k < c->nmetrics; k++) {
        struct json *m = json_obj(), *d = json_arr(), *x = json_arr();
        json_put(m, "name", json_of_str(c->metric[k].name));
        json_put(m, "task", json_of_str(c->metric[k].task));
        json_put(m, "oracle_floor", json_of_num(c->metric[k].floor));
        for (size_t r = 0; r < c->nruns; r++)
            json_push(d, json_delta(c, &c->metric[k].delta[r]));
        for (size_t i = 0; i < c->metric[k].nrecipes; i++)
            json_push(x, json_recipe(&c->metric[k].recipe[i]));
        json_put(m, "runs", d);
        json_put(m, "recipes", x);
        json_push(metrics, m);
    }
    json_put(o, "runs", runs);
    json_put(o, "metrics", metrics);
    return o;
}
