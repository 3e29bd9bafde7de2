/* money: the formulas, see money.h. */
#include "pipelines/money.h"

#include <math.h>

#include "trainer/schedule.h"

double money_cost(double seconds, double price_hour)
{
    return seconds / 3600 * price_hour;
}

double money_rate(double tokens, double seconds)
{
    return seconds > 0 ? tokens / seconds : NAN;
}

double money_gtoken(double money, double tokens)
{
    return tokens > 0 ? money / tokens * 1e9 : NAN;
}

double money_energy_token(double joules, double tokens)
{
    return tokens > 0 ? joules / tokens : NAN;
}

double money_mfu(double rate, double flops_token, double devices, double peak_tflops)
{
    return devices > 0 && peak_tflops > 0 ? rate * flops_token / (devices * peak_tflops * 1e12)
                                          : NAN;
}

double money_scaling(double rate, double devices, double rate0, double devices0)
{
    return devices > 0 && rate0 > 0 ? rate / devices / (rate0 / devices0) : NAN;
}

double money_without(double seconds, double times, double each)
{
    return seconds - times * each;
}

bool money_reached(const struct result_curve *c, double loss, size_t smooth, struct reached *r)
{
    size_t n = c->loss.n;
    double before = NAN;
    if (smooth < 1)
        smooth = 1;
    if (n != c->seconds.n || n != c->tokens.n)
        return false;
    for (size_t i = smooth - 1; i < n; i++) {
        double mean = 0;
        for (size_t k = 0; k < smooth; k++)
            mean += c->loss.v[i - k] / (double)smooth;
        if (!(mean <= loss)) {
            before = mean;
            continue;
        }
        double s = c->seconds.v[i], t = (double)c->tokens.v[i];
        *r = (struct reached){s, 0, s, t, 0, t};
        if (i >= smooth) { /* the point before was above */
            double q = (before - loss) / (before - mean), s0 = c->seconds.v[i - 1],
                   t0 = (double)c->tokens.v[i - 1];
            *r = (struct reached){s0 + q * (s - s0), s0, s, t0 + q * (t - t0), t0, t};
        }
        return true;
    }
    return false;
}

void money_front(const double *cost, const double *loss, size_t n, bool *front)
{
    for (size_t i = 0; i < n; i++) {
        front[i] = !isnan(cost[i]) && !isnan(loss[i]);
        for (size_t k = 0; front[i] && k < n; k++)
            front[i] = !(cost[k] <= cost[i] && loss[k] <= loss[i] &&
                         (cost[k] < cost[i] || loss[k] < loss[i]));
    }
}

/* ---- one run ---------------------------------------------------------------------------------- */

/* The price of a machine: the last that was given for it by name, else for any, else its own. */
static double price_of(struct str hardware, double own, const struct price *p, size_t n)
{
    double any = NAN, named = NAN;
    for (size_t i = 0; i < n; i++) {
        if (!p[i].hardware.n)
            any = p[i].price_hour;
        else if (str_eq(p[i].hardware, hardware))
            named = p[i].price_hour;
    }
    return !isnan(named) ? named : !isnan(any) ? any : own;
}

/* Whether a price was given for this machine. */
static bool given_for(struct str hardware, const struct price *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!p[i].hardware.n || str_eq(p[i].hardware, hardware))
            return true;
    return false;
}

void money_segment(const struct result *r, size_t at, const struct price *p, size_t n,
                   double *money, double *lost)
{
    const struct result_segment *s = r->segments.v, *x = &s[at], *before = &s[at ? at - 1 : 0];
    *money = x->money;
    *lost = x->lost_seconds > 0 ? x->lost_money : 0;
    if (isnan(*money) || given_for(x->hardware, p, n))
        *money = money_cost(x->seconds, price_of(x->hardware, x->price_hour, p, n));
    if (x->lost_seconds > 0 && (isnan(*lost) || given_for(before->hardware, p, n)))
        *lost = money_cost(x->lost_seconds, price_of(before->hardware, before->price_hour, p, n));
}

bool money_moved(const struct result *r)
{
    const struct result_segment *s = r->segments.v;
    for (size_t i = 1; i < r->segments.n; i++)
        if (!str_eq(s[i].hardware, s[0].hardware) || !str_eq(s[i].device, s[0].device) ||
            s[i].devices != s[0].devices || (!s[i].hardware.n && !str_eq(s[i].host, s[0].host)))
            return true;
    return false;
}

/* Whether a price was given for one of the machines of a run. */
static bool priced_anew(const struct result *r, const struct price *p, size_t n)
{
    const struct result_segment *s = r->segments.v;
    bool anew = given_for(r->hardware.name, p, n);
    for (size_t k = 0; k < r->segments.n; k++)
        anew = anew || given_for(s[k].hardware, p, n);
    return anew;
}

/* Training money over the segments; without any, all of it on the result's machine. */
static double training(const struct result *r, const struct price *p, size_t n, double *lost,
                       bool *mixed)
{
    const struct result_segment *s = r->segments.v;
    double sum = 0;
    *lost = 0;
    if (!r->segments.n)
        return money_cost(r->timing.train_seconds,
                          price_of(r->hardware.name, r->hardware.price_hour, p, n));
    for (size_t i = 0; i < r->segments.n; i++) {
        double money, gone;
        money_segment(r, i, p, n, &money, &gone);
        sum += money;
        *lost += gone;
        *mixed = *mixed || !str_eq(s[i].price_currency, s[0].price_currency);
    }
    /* Checkpoints and validations lie between the steps of the last machine's. */
    double rest = r->timing.train_seconds;
    for (size_t i = 0; i < r->segments.n; i++)
        rest -= s[i].seconds;
    const struct result_segment *last = &s[r->segments.n - 1];
    if (rest > 0)
        sum += money_cost(rest, price_of(last->hardware, last->price_hour, p, n));
    return sum;
}

static double zero_if_unknown(double v)
{
    return isnan(v) ? 0 : v;
}

double money_dear(const struct bill *b)
{
    return isnan(b->total) ? b->train : b->total;
}

void money_bill(struct bill *b, const struct result *r, const struct price *p, size_t n)
{
    const struct result_timing *t = &r->timing;
    const struct result_hardware *h = &r->hardware;
    double per_step = r->steps > 0 ? (double)r->tokens / (double)r->steps : NAN, lost;
    double price = price_of(h->name, h->price_hour, p, n);
    *b = (struct bill){.rate = t->tokens_per_second,
                       .rate_lo = per_step / t->step_ms_p90 * 1e3,
                       .rate_hi = per_step / t->step_ms_p10 * 1e3,
                       .stall = t->stall_share,
                       .comm = t->comm_share,
                       .joules_token = money_energy_token(t->energy_j, (double)r->tokens),
                       .seconds = t->train_seconds,
                       .val_seconds = t->val_seconds,
                       .eval_seconds = t->eval_seconds,
                       .billed_seconds = t->billed_seconds,
                       .lost_seconds = t->lost_seconds,
                       .currency = h->price_currency};
    if (isnan(b->rate))
        b->rate = money_rate((double)r->tokens, t->train_seconds - zero_if_unknown(t->val_seconds));
    b->mfu = money_moved(r) ? NAN : t->mfu; /* one peak for two machines says nothing */
    if (isnan(b->mfu) && !money_moved(r))
        b->mfu = money_mfu(b->rate, schedule_flops(&r->config.model, r->config.model.context),
                           (double)result_devices(h), h->peak_tflops);
    b->train = training(r, p, n, &lost, &b->mixed);
    if (b->mixed)
        b->train = NAN;
    double val = money_cost(zero_if_unknown(t->val_seconds), price);
    b->without_val = zero_if_unknown(t->val_seconds) > 0 ? b->train - val : b->train;
    b->total = b->train + money_cost(zero_if_unknown(t->eval_seconds), price);
    b->billed = priced_anew(r, p, n) ? NAN : r->cost_billed; /* at that price nobody was billed */
    b->a_second = t->train_seconds > 0 ? b->train / t->train_seconds : NAN;
    b->lost = lost;
    b->gtoken = money_gtoken(b->without_val, (double)r->tokens);
}
