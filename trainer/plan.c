/* plan: memory, time and money of a run on a machine, see plan.h. */
#include "trainer/plan.h"

#include <math.h>
#include <string.h>

#include "base/field.h"
#include "base/log.h"
#include "trainer/plan_roof.h"
#include "trainer/schedule.h"
#include "trainer/train.h"

#define GIB            ((double)(1 << 30))
#define MOST_SEQUENCES 65536
#define FLAT           0.35 /* of the peak, where nothing better is known */

/* The backend whose buffers are planned: what the run asks for, or else the machine's, a GPU's where it
 * does not say. */
static const char *backend_of(const struct plan_options *o)
{
    struct str wish = o->run->train.backend;
    if (str_eqz(wish, "auto"))
        wish = str_z(hardware_backends[o->hardware->backend]);
    return str_eqz(wish, "cpu") ? "cpu" : "cuda";
}

/* One for each rank that the run asks for, else all of the machine. */
static int64_t devices_used(const struct plan_options *o)
{
    int64_t ranks = o->run->train.ranks, count = o->hardware->count;
    if (o->devices)
        return o->devices;
    return ranks > 0 && ranks < count ? ranks : count;
}

/* The run as one of the machine's devices sees it. */
static struct train_config on_device(const struct plan_options *o, int precision)
{
    struct train_config c = o->run->train;
    c.precision = precision;
    c.ranks = devices_used(o);
    return c;
}

static bool fits(const struct plan_result *p, const struct plan_options *o, int precision,
                 enum recompute how, int64_t batch)
{
    double room = (o->hardware->memory_gib - o->reserve_gib) * GIB;
    struct train_config c = on_device(o, precision);
    struct gpt2_plan m;
    plan_memory(&p->model, &c, backend_of(o), batch, how, &m);
    return isnan(o->hardware->memory_gib) || (double)m.total <= room;
}

/* The plan grows with the batch, so halving finds the largest up to hi that fits. */
static int64_t largest(const struct plan_result *p, const struct plan_options *o, int precision,
                       enum recompute how, int64_t hi)
{
    int64_t lo = 0;
    while (lo < hi) {
        int64_t mid = hi - (hi - lo) / 2;
        if (fits(p, o, precision, how, mid))
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

/* Tokens a second: given, calibrated by runs on the same device, or assumed. */
static void speed(struct plan_result *p, const struct plan_options *o)
{
    double peak = (double)p->devices * o->hardware->peak_tflops * 1e12;
    double work = p->flops_token * plan_work(&p->model, (enum recompute)o->run->train.recompute);
    double step = (double)(o->run->train.batch * p->model.context);
    plan_roof(p, o);
    p->utilisation = FLAT;
    p->rate_from = RATE_ASSUMED;
    if (!isnan(o->tokens_per_s))
        p->rate_from = RATE_GIVEN;
    else if (!isnan(o->measured.utilisation)) {
        p->rate_from = RATE_MEASURED;
        p->utilisation = o->measured.utilisation;
    } else if (!isnan(o->utilisation))
        p->utilisation = o->utilisation;
    else if (isfinite(p->roof.step) && p->micro_batch)
        p->rate_from = RATE_ROOFLINE;
    p->tokens_per_s = p->rate_from == RATE_GIVEN      ? o->tokens_per_s
                      : p->rate_from == RATE_ROOFLINE ? step / p->roof.step
                                                      : peak * p->utilisation / work;
    p->utilisation = p->tokens_per_s * work / peak;
}

void plan_complain(const struct plan_result *p, const struct plan_options *o)
{
    const struct train_config *c = &o->run->train;
    const struct hardware *h = o->hardware;
    int64_t fits = p->largest[c->recompute];
    int64_t want = c->micro_batch < p->per_device ? c->micro_batch : p->per_device;
    if (c->ranks > h->count)
        log_warn("train.ranks = %lld, %.*s has %lld: planned for these", (long long)c->ranks,
                 STR_ARG(h->name), (long long)h->count);
    if (fits && want > fits)
        log_warn("train.micro_batch = %lld does not fit on a device of %.*s, where train would "
                 "stop: planned with %lld, the largest that fits",
                 (long long)c->micro_batch, STR_ARG(h->name), (long long)fits);
}

int plan_possible(const struct plan_options *o, struct err *e)
{
    const struct train_config *c = &o->run->train;
    const struct hardware *h = o->hardware;
    if (train_config_check(c, e))
        return -1;
    bool told = !str_eqz(c->backend, "auto");
    if (strcmp(backend_of(o), "cpu") == 0 && c->precision != PRECISION_FP32)
        return err_code(
            e, EXIT_USAGE,
            "train.precision: precision %s: the cpu backend (%s%.*s) computes in fp32 only",
            precision_names[c->precision], told ? "train.backend" : "hardware file ",
            told ? 0 : (int)h->name.n, told ? "" : h->name.p);
    if (told && !hardware_is_of(h, c->backend))
        return err_code(
            e, EXIT_USAGE,
            "hardware file %.*s is of %lld x %.*s (backend = %s), the run's train.backend "
            "is %.*s",
            STR_ARG(h->name), (long long)h->count, STR_ARG(h->device),
            hardware_backends[h->backend], STR_ARG(c->backend));
    return backend_takes(backend_of(o), o->run->model.width, o->run->model.heads, e);
}

int plan_make(struct plan_result *p, const struct plan_options *o, struct err *e)
{
    const struct train_config *c = &o->run->train;
    const struct hardware *h = o->hardware;
    *p = (struct plan_result){.model = o->run->model, .devices = devices_used(o)};
    if (plan_possible(o, e))
        return -1;
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
    p->per_device = (c->batch + p->devices - 1) / p->devices;
    for (int how = 0; how < RECOMPUTES; how++) {
        p->largest[how] = largest(p, o, c->precision, (enum recompute)how, p->per_device);
        p->fits[0][how] = largest(p, o, PRECISION_FP32, (enum recompute)how, MOST_SEQUENCES);
        p->fits[1][how] = largest(p, o, PRECISION_BF16, (enum recompute)how, MOST_SEQUENCES);
    }
    p->micro_batch = p->largest[c->recompute];
    if (c->micro_batch && c->micro_batch < p->micro_batch)
        p->micro_batch = c->micro_batch;
    if (p->micro_batch)
        p->accumulation = (p->per_device + p->micro_batch - 1) / p->micro_batch;
    p->flops_token = schedule_flops(&p->model, p->model.context);
    speed(p, o);
    p->seconds = (double)p->tokens / p->tokens_per_s;
    p->money = p->seconds / 3600 * h->price_hour;
    return 0;
}

static void print_memory(const struct plan_result *p, const struct plan_options *o, FILE *to)
{
    char text[256], size[RECOMPUTES][32];
    struct gpt2_plan m;
    struct train_config c = on_device(o, o->run->train.precision);
    fprintf(
        to,
        "memory of one device in %s on %s%s, beside %.1f GiB assumed for context and workspaces:\n",
        precision_names[c.precision], backend_of(o),
        c.zero && c.ranks > 1 ? ", with its share of the moments" : "", o->reserve_gib);
    for (int64_t n = 1;; n *= 2) {
        if (n > p->per_device)
            n = p->per_device;
        plan_memory(&p->model, &c, backend_of(o), n, RECOMPUTE_NONE, &m);
        gpt2_plan_text(&m, text, sizeof text);
        fprintf(to, "  micro-batch %5lld  %s%s\n", (long long)n, text,
                fits(p, o, o->run->train.precision, RECOMPUTE_NONE, n) ? "" : "  does not fit");
        if (n == p->per_device)
            break;
    }
    fprintf(to, "with recomputation (this run: %s):\n", recompute_names[o->run->train.recompute]);
    for (int64_t n = 1;; n *= 2) {
        if (n > p->per_device)
            n = p->per_device;
        for (int how = 0; how < RECOMPUTES; how++) {
            plan_memory(&p->model, &c, backend_of(o), n, (enum recompute)how, &m);
            gpt2_size_text(m.total, size[how]);
        }
        fprintf(to, "  micro-batch %5lld ", (long long)n);
        for (int how = 0; how < RECOMPUTES; how++)
            fprintf(to, " %s %s%s", recompute_names[how], size[how],
                    fits(p, o, o->run->train.precision, (enum recompute)how, n) ? " " : "! ");
        fputc('\n', to);
        if (n == p->per_device)
            break;
    }
    fprintf(to, "  largest          ");
    for (int how = 0; how < RECOMPUTES; how++)
        fprintf(to, " %s %lld ", recompute_names[how], (long long)p->largest[how]);
    fprintf(to, "  (! does not fit; layer takes %.0f%% more work)\n",
            100 * (plan_work(&p->model, RECOMPUTE_LAYER) - 1));
    if (isnan(o->hardware->memory_gib))
        return;
    fprintf(to,
            "  fits by itself    fp32, tf32: %lld / %lld / %lld   bf16, fp16: %lld / %lld / %lld\n",
            (long long)p->fits[0][0], (long long)p->fits[0][1], (long long)p->fits[0][2],
            (long long)p->fits[1][0], (long long)p->fits[1][1], (long long)p->fits[1][2]);
}

/* What fits on each machine's device, whatever the batch and the precision of the run. */
static void print_fits(const struct plan_result *p, const struct plan_options *o, size_t n,
                       FILE *to)
{
    fprintf(
        to,
        "\nlargest micro-batch that fits on a device by itself, recomputing none / gelu / layer\n"
        "machine               GiB  fp32, tf32           bf16, fp16\n");
    for (size_t i = 0; i < n; i++) {
        char fp32[40], bf16[40];
        if (isnan(o[i].hardware->memory_gib) || p[i].refused[0])
            continue;
        const int64_t(*f)[RECOMPUTES] = p[i].fits;
        snprintf(fp32, sizeof fp32, "%lld / %lld / %lld", (long long)f[0][0], (long long)f[0][1],
                 (long long)f[0][2]);
        snprintf(bf16, sizeof bf16, "%lld / %lld / %lld", (long long)f[1][0], (long long)f[1][1],
                 (long long)f[1][2]);
        fprintf(to, "%-18.*s %6.4g  %-20s %s\n", STR_ARG(o[i].hardware->name),
                o[i].hardware->memory_gib, fp32, bf16);
    }
}

/* Where the share of the peak comes from. */
static void rate_source(const struct plan_result *p, const struct plan_options *o, char *out,
                        size_t n)
{
    if (!isnan(o->tokens_per_s))
        snprintf(out, n, "as given");
    else if (p->rate_from == RATE_ROOFLINE)
        snprintf(out, n, "roofline");
    else if (!isnan(o->measured.utilisation) && o->measured.runs == 1)
        snprintf(out, n, "measured: %s", o->measured.run);
    else if (!isnan(o->measured.utilisation))
        snprintf(out, n, "measured: median of %lld runs, nearest %s", (long long)o->measured.runs,
                 o->measured.run);
    else
        snprintf(out, n, "assumed");
}

const char *plan_digits(double v, char out[32])
{
    int places = 2;
    for (double x = v; places < 8 && x > 0 && x < 0.995; x *= 10)
        places++;
    snprintf(out, 32, "%.*f", places, v);
    return out;
}

static void print_time(const struct plan_result *p, const struct plan_options *o, FILE *to)
{
    const struct hardware *h = o->hardware;
    if (!isfinite(p->seconds)) {
        fprintf(to, "time         unknown: neither %s nor --tokens-per-s is set\n",
                hardware_peak_key(o->run->train.precision));
        return;
    }
    char from[200], digits[32];
    fprintf(to, "time         %s h at %.0f tokens/s", plan_digits(p->seconds / 3600, digits),
            p->tokens_per_s);
    rate_source(p, o, from, sizeof from);
    if (p->rate_from == RATE_GIVEN)
        fprintf(to, ", as measured\n");
    else if (p->rate_from == RATE_ASSUMED)
        fprintf(to,
                ", assuming %.0f%% of %lld x %.4g TFLOP/s at %.4g MFLOP a token (6 N + 6 L C T)\n",
                p->utilisation * 100, (long long)p->devices, h->peak_tflops, p->flops_token / 1e6);
    else
        fprintf(to, ", %.1f%% of %lld x %.4g TFLOP/s (%s) at %.4g MFLOP a token (6 N + 6 L C T)\n",
                p->utilisation * 100, (long long)p->devices, h->peak_tflops, from,
                p->flops_token / 1e6);
    bool part = p->devices < h->count;
    struct str source = h->price_source.n ? h->price_source : STR_LIT("no source stated");
    if (isfinite(p->money))
        fprintf(to, "money        %s %.*s at %.2f an hour%s (%.*s%s%.*s), training alone\n",
                plan_digits(p->money, digits), STR_ARG(h->price_currency), h->price_hour,
                part ? " for the whole machine" : "", STR_ARG(source), h->price_date.n ? ", " : "",
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
    if (p->devices < h->count)
        fprintf(to, "; %lld used (train.ranks)", (long long)p->devices);
    fprintf(to,
            "\nparameters   %lld\ntokens       %lld\nsteps        %lld of %lld sequences of %lld\n",
            (long long)p->parameters, (long long)p->tokens, (long long)p->steps,
            (long long)o->run->train.batch, (long long)p->model.context);
    print_memory(p, o, to);
    if (!p->micro_batch) { /* hours and money of a run that cannot be would be believed */
        fprintf(to, "micro-batch  none: not even one sequence fits\n"
                    "time, money  none: it does not fit\n");
        return;
    }
    fprintf(to, "micro-batch  %lld, %lld pass%s a step on each device\n", (long long)p->micro_batch,
            (long long)p->accumulation, p->accumulation == 1 ? "" : "es");
    print_time(p, o, to);
    plan_print_roof(p, o, to);
}

/* Cheapest first, then the fastest; what is unknown comes last. */
static bool before(const struct plan_result *a, const struct plan_result *b)
{
    double x = a->micro_batch ? a->money : INFINITY, y = b->micro_batch ? b->money : INFINITY;
    x = isnan(x) ? 1e300 : x;
    y = isnan(y) ? 1e300 : y;
    if (x != y)
        return x < y;
    return a->seconds < b->seconds;
}

void plan_print_many(const struct plan_result *p, const struct plan_options *o, size_t n, FILE *to)
{
    char from[200], name[40], largest_text[40];
    bool done[64] = {false};
    size_t first = 0;
    while (first + 1 < n && p[first].refused[0])
        first++;
    fprintf(to,
            "parameters %lld, tokens %lld, %lld steps of %lld sequences of %lld; memory in %s, "
            "%.1f GiB of a device kept back\n",
            (long long)p[first].parameters, (long long)p[first].tokens, (long long)p[first].steps,
            (long long)o->run->train.batch, (long long)p[first].model.context,
            precision_names[o->run->train.precision], o->reserve_gib);
    fprintf(to,
            "machine            largest micro-batch  micro  passes      tokens/s      hours     "
            "  money  of peak\n"
            "                   none / gelu / layer\n");
    for (size_t k = 0; k < n; k++) {
        size_t at = n;
        for (size_t i = 0; i < n; i++)
            if (!done[i] && (at == n || before(&p[i], &p[at])))
                at = i;
        done[at] = true;
        const struct plan_result *x = &p[at];
        const struct hardware *h = o[at].hardware;
        snprintf(name, sizeof name, "%.*s", STR_ARG(h->name));
        if (x->refused[0]) {
            fprintf(to, "%-18s refused: %s\n", name, x->refused);
            continue;
        }
        rate_source(x, &o[at], from, sizeof from);
        snprintf(largest_text, sizeof largest_text, "%lld / %lld / %lld", (long long)x->largest[0],
                 (long long)x->largest[1], (long long)x->largest[2]);
        if (!x->micro_batch) {
            fprintf(to, "%-18s %-20s     -       -  does not fit\n", name, largest_text);
            continue;
        }
        fprintf(to, "%-18s %-20s %5lld  %6lld", name, largest_text, (long long)x->micro_batch,
                (long long)x->accumulation);
        if (!isfinite(x->seconds))
            fprintf(to, "  unknown: %s is not set\n",
                    hardware_peak_key(o[at].run->train.precision));
        else {
            char hours[32], money[32];
            fprintf(to, "  %12.0f  %9s", x->tokens_per_s, plan_digits(x->seconds / 3600, hours));
            if (isfinite(x->money))
                fprintf(to, "  %7s %.*s", plan_digits(x->money, money), STR_ARG(h->price_currency));
            else
                fprintf(to, "  no price   ");
            fprintf(to, "  %4.1f%% %s\n", x->utilisation * 100, from);
        }
    }
    fprintf(to, "cheapest first; training alone, without boot, data and evaluation\n");
    print_fits(p, o, n, to);
}
