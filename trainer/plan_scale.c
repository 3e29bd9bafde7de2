/* plan_scale: see plan_scale.h. */
#include "trainer/plan_scale.h"

#include <math.h>

enum { MOST_DEVICES = 1024 };

/* One way round of a ring: p - 1 messages of bytes / p. */
static double ring(int64_t p, double bytes, double gbs, double us)
{
    return p < 2 ? 0 : (double)(p - 1) * (us * 1e-6 + bytes / (double)p / (gbs * 1e9));
}

double plan_allreduce(const struct scale_options *o, int64_t devices, double bytes)
{
    int64_t inside = devices < o->node ? devices : o->node;
    int64_t machines = (devices + o->node - 1) / o->node;
    double local = ring(inside, bytes, o->link_gbs, o->link_us);
    double across = ring(machines, bytes / (double)inside, o->net_gbs, o->net_us);
    return 2 * (local + across); /* there and back */
}

/* Seconds of a step without communication when each busy device takes n sequences. */
static double compute(const struct scale_options *o, int64_t n)
{
    return (double)(n * o->context) * o->flops_token / o->device_flops;
}

void plan_scale(struct scale *s, const struct scale_options *o, int64_t devices)
{
    *s = (struct scale){.devices = devices, .busy = devices < o->batch ? devices : o->batch};
    s->per_device = (o->batch + s->busy - 1) / s->busy;
    s->passes = o->micro > 0 ? (s->per_device + o->micro - 1) / o->micro : 1;
    s->compute = compute(o, s->per_device);
    double buckets = ceil(o->gradient_bytes / o->bucket_bytes);
    double bytes = o->gradient_bytes / buckets;
    double one = plan_allreduce(o, s->busy, bytes);
    s->comm = buckets * one;
    /* Two thirds of a pass go backward; the last bucket is known only at its end. */
    double hide = o->overlap * 2 / 3 * s->compute / (double)s->passes;
    s->exposed = one + fmax(0, (buckets - 1) * one - hide);
    s->step = s->compute + s->exposed;
    s->tokens_per_s = (double)(o->batch * o->context) / s->step;
    s->efficiency = compute(o, o->batch) / s->step / (double)devices;
}

static double or_default(double v, double otherwise)
{
    return isnan(v) ? otherwise : v;
}

struct scale_options plan_scale_options(const struct plan_result *p, const struct plan_options *o)
{
    const struct hardware *h = o->hardware;
    return (struct scale_options){
        .link_gbs = or_default(h->link_gbs, 12),
        .link_us = or_default(h->link_us, 5),
        .net_gbs = or_default(h->net_gbs, 1.25),
        .net_us = or_default(h->net_us, 15),
        .node = h->count,
        .gradient_bytes = 4.0 * (double)p->parameters,
        .bucket_bytes = 25e6,
        .overlap = 0.8,
        .device_flops = p->roof.device_flops,
        .flops_token = p->flops_token,
        .batch = o->run->train.batch,
        .context = p->model.context,
        .micro = p->micro_batch,
    };
}

static const char *said(double v)
{
    return isnan(v) ? " (assumed)" : "";
}

/* One row: the plan's own computation on so many devices where that is the roofline; else by the rate
 * that is known, taken apart into work and sums so that the plan's own devices reach it again. */
static int row(const struct plan_result *p, const struct plan_options *o,
               const struct scale_options *so, int64_t n, struct scale *s)
{
    struct scale_options with = *so;
    if (p->rate_from != RATE_ROOFLINE) {
        plan_scale(s, so, n);
        return 0;
    }
    struct plan_options at = *o;
    struct plan_result q;
    struct err ignored;
    at.devices = n;
    if (plan_make(&q, &at, &ignored) || !q.micro_batch)
        return -1;
    with.device_flops = q.roof.device_flops;
    with.micro = q.micro_batch;
    plan_scale(s, &with, n);
    return 0;
}

/* FLOP/s of a device by a rate that holds communication: the step is work and what is not hidden. */
static double taken_apart(const struct plan_result *p, const struct scale_options *so)
{
    struct scale_options with = *so;
    double step = (double)(so->batch * so->context) / p->tokens_per_s, work = step;
    double own = (double)(p->per_device * so->context) * so->flops_token;
    for (int i = 0; i < 50; i++) { /* less work hides less: the sum moves by a part of it */
        struct scale s;
        with.device_flops = own / work;
        plan_scale(&s, &with, p->devices);
        work = fmax(step - (p->devices > 1 ? s.exposed : 0), step / 100);
    }
    return own / work;
}

void plan_print_scale(const struct plan_result *p, const struct plan_options *o, FILE *to)
{
    const struct hardware *h = o->hardware;
    struct scale_options so = plan_scale_options(p, o);
    if (p->rate_from != RATE_ROOFLINE)
        so.device_flops = taken_apart(p, &so);
    if (!isfinite(so.device_flops)) {
        fprintf(to, "scaling      unknown: neither %s nor --tokens-per-s is set\n",
                hardware_peak_key(o->run->train.precision));
        return;
    }
    fprintf(
        to,
        "scaling by an alpha-beta model, global batch kept: %lld devices a machine; %.4g GB/s%s "
        "and "
        "%.3g us%s inside,\n%.4g GB/s%s a device and %.3g us%s between machines; %.4g MB of fp32 "
        "gradients in buckets of %.0f MB;\n%.0f%% of the backward half of the last pass hides "
        "communication; %.3g TFLOP/s a device%s; no stragglers, no data stalls\n",
        (long long)so.node, so.link_gbs, said(h->link_gbs), so.link_us, said(h->link_us),
        so.net_gbs, said(h->net_gbs), so.net_us, said(h->net_us), so.gradient_bytes / 1e6,
        so.bucket_bytes / 1e6, so.overlap * 100, so.device_flops / 1e12,
        p->rate_from == RATE_ROOFLINE ? " of this plan, in each row by the roofline of its share"
                                      : "");
    fprintf(to,
            "  devices  sequences  passes  compute ms  comm ms  exposed ms      tokens/s  linear"
            "      hours       money\n");
    double one = NAN; /* tokens/s of a device in the first row that fits */
    for (int64_t n = 1; n <= MOST_DEVICES; n *= 2) {
        struct scale s;
        char text[32];
        if (row(p, o, &so, n, &s)) {
            fprintf(to, "  %7lld  does not fit\n", (long long)n);
            continue;
        }
        double each = s.tokens_per_s / (double)n;
        one = isnan(one) ? each : one;
        double hours = (double)p->tokens / s.tokens_per_s / 3600;
        double money = hours * h->price_hour * (double)n / (double)h->count;
        fprintf(to, "  %7lld  %9lld  %6lld  %10.2f  %7.2f  %10.2f  %12.0f  %5.1f%%  %9s",
                (long long)n, (long long)s.per_device, (long long)s.passes, s.compute * 1e3,
                s.comm * 1e3, s.exposed * 1e3, s.tokens_per_s, each / one * 100,
                plan_digits(hours, text));
        if (isfinite(money))
            fprintf(to, "  %10s", plan_digits(money, text));
        else
            fprintf(to, "           -");
        fprintf(to, "%s\n", s.busy < n ? "  (some devices have no sequence)" : "");
    }
    if (isfinite(h->price_hour))
        fprintf(to,
                "  money: a share of the machine's price for each device, whole machines from %lld "
                "on\n",
                (long long)h->count);
}
