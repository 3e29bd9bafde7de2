/* plan: memory, time and money of a run on a machine, see plan.h. */
#include "trainer/plan.h"

#include <math.h>

#include "trainer/schedule.h"
#include "trainer/train.h"

#define GIB ((double)(1 << 30))

static struct gpt2_plan memory(const struct plan_result *p, int64_t batch)
{
    struct gpt2_use use = train_use(&p->model, batch);
    struct gpt2_plan m;
    gpt2_plan(&p->model, &use, &m);
    return m;
}

static bool fits(const struct plan_result *p, const struct plan_options *o, int64_t batch)
{
    double room = (o->hardware->memory_gib - o->reserve_gib) * GIB;
    return isnan(o->hardware->memory_gib) || (double)memory(p, batch).total <= room;
}

/* The plan grows with the batch, so halving finds the largest that fits. */
static int64_t largest(const struct plan_result *p, const struct plan_options *o)
{
    int64_t lo = 0, hi = p->per_device;
    while (lo < hi) {
        int64_t mid = hi - (hi - lo) / 2;
        if (fits(p, o, mid))
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

int plan_make(struct plan_result *p, const struct plan_options *o, struct err *e)
{
    const struct train_config *c = &o->run->train;
    const struct hardware *h = o->hardware;
    *p = (struct plan_result){.model = o->run->model, .devices = h->count};
    if (p->model.from.n)
        return err_code(e, EXIT_USAGE, "model.from = %.*s: there is nothing to pre-train",
                        STR_ARG(p->model.from));
    if (!p->model.vocab && (o->run->vocab.from.n || o->run->data.run.n))
        return err_code(e, EXIT_USAGE,
                        "the vocabulary's size is not in the run file: --set model.vocab=SIZE");
    if (!p->model.vocab)
        p->model.vocab = o->run->vocab.size;
    if (model_config_check(&p->model, e))
        return -1;
    p->parameters = params_count(&p->model);
    if ((p->tokens = train_tokens(&p->model, c, e)) < 0)
        return -1;
    p->steps = p->tokens / (c->batch * p->model.context);
    p->per_device = (c->batch + h->count - 1) / h->count;
    p->micro_batch = largest(p, o);
    if (c->micro_batch && c->micro_batch < p->micro_batch)
        p->micro_batch = c->micro_batch;
    if (p->micro_batch)
        p->accumulation = (p->per_device + p->micro_batch - 1) / p->micro_batch;
    p->flops_token = schedule_flops(&p->model, p->model.context);
    p->tokens_per_s = o->tokens_per_s;
    if (isnan(p->tokens_per_s))
        p->tokens_per_s =
            (double)h->count * h->peak_tflops * 1e12 * o->utilisation / p->flops_token;
    p->seconds = (double)p->tokens / p->tokens_per_s;
    p->money = p->seconds / 3600 * h->price_hour;
    return 0;
}

static void print_memory(const struct plan_result *p, const struct plan_options *o, FILE *to)
{
    char text[256];
    fprintf(to,
            "memory of one device, planned in fp32, beside %.1f GiB assumed for context and "
            "workspaces:\n",
            o->reserve_gib);
    for (int64_t n = 1;; n *= 2) {
        if (n > p->per_device)
            n = p->per_device;
        struct gpt2_plan m = memory(p, n);
        gpt2_plan_text(&m, text, sizeof text);
        fprintf(to, "  micro-batch %5lld  %s%s\n", (long long)n, text,
                fits(p, o, n) ? "" : "  does not fit");
        if (n == p->per_device)
            break;
    }
}

static void print_time(const struct plan_result *p, const struct plan_options *o, FILE *to)
{
    const struct hardware *h = o->hardware;
    if (!isfinite(p->seconds)) {
        fprintf(to,
                "time         unknown: neither hardware.peak_tflops nor --tokens-per-s is set\n");
        return;
    }
    fprintf(to, "time         %.2f h at %.0f tokens/s", p->seconds / 3600, p->tokens_per_s);
    if (isnan(o->tokens_per_s))
        fprintf(to,
                ", assuming %.0f%% of %lld x %.4g TFLOP/s at %.4g MFLOP a token (6 N + 6 L C T)\n",
                o->utilisation * 100, (long long)h->count, h->peak_tflops, p->flops_token / 1e6);
    else
        fprintf(to, ", as measured\n");
    if (isfinite(p->money))
        fprintf(to, "money        %.2f %.*s at %.2f an hour (%.*s, %.*s), training alone\n",
                p->money, STR_ARG(h->price_currency), h->price_hour, STR_ARG(h->price_source),
                STR_ARG(h->price_date));
    else
        fprintf(to, "money        unknown: hardware.price_hour is not set\n");
}

void plan_print(const struct plan_result *p, const struct plan_options *o, FILE *to)
{
    const struct hardware *h = o->hardware;
    fprintf(to, "machine      %.*s: %lld x %.*s", STR_ARG(h->name), (long long)h->count,
            STR_ARG(h->device));
    if (isfinite(h->memory_gib))
        fprintf(to, ", %.4g GiB each", h->memory_gib);
    fprintf(to,
            "\nparameters   %lld\ntokens       %lld\nsteps        %lld of %lld sequences of %lld\n",
            (long long)p->parameters, (long long)p->tokens, (long long)p->steps,
            (long long)o->run->train.batch, (long long)p->model.context);
    print_memory(p, o, to);
    if (p->micro_batch)
        fprintf(to, "micro-batch  %lld, %lld pass%s a step on each device\n",
                (long long)p->micro_batch, (long long)p->accumulation,
                p->accumulation == 1 ? "" : "es");
    else
        fprintf(to, "micro-batch  none: not even one sequence fits\n");
    print_time(p, o, to);
}
