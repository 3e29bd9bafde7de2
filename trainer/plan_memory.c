/* plan_memory: buffers under recomputation, and what measured runs say of a device; see plan.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/metrics.h"
#include "trainer/plan.h"
#include "trainer/schedule.h"
#include "trainer/train.h"

void plan_memory(const struct model_config *m, const struct train_config *c, const char *backend,
                 int64_t batch, enum recompute how, struct gpt2_plan *out)
{
    struct train_config with = *c;
    with.recompute = (int)how;
    struct gpt2_use use = train_use(m, &with, backend_prefers(backend), batch);
    gpt2_plan(m, &use, out);
}

double plan_work(const struct model_config *m, enum recompute how)
{
    if (how != RECOMPUTE_LAYER)
        return 1; /* GELU is a pass over memory, not work of the matrix units */
    struct model_config head = *m;
    head.layers = 0;
    double all = schedule_flops(m, m->context), rest = schedule_flops(&head, m->context);
    return 1 + (all - rest) / 3 / all;
}

/* Share of the peak that a result reached; NaN: it cannot be told. */
static double reached(const struct result *r)
{
    const struct result_hardware *h = &r->hardware;
    double rate = r->timing.tokens_per_second, val = r->timing.val_seconds;
    double seconds = r->timing.train_seconds - (isnan(val) ? 0 : val);
    if (isnan(rate) && seconds > 0)
        rate = (double)r->tokens / seconds;
    if (r->config.model.vocab < 1 || result_devices(h) < 1 || !(h->peak_tflops > 0))
        return NAN;
    double work = schedule_flops(&r->config.model, r->config.model.context) *
                  plan_work(&r->config.model, (enum recompute)r->config.train.recompute);
    return rate * work / ((double)result_devices(h) * h->peak_tflops * 1e12);
}

struct calibration plan_calibrate(const struct result *v, size_t n, const struct hardware *h,
                                  int precision, int64_t parameters, struct arena *a)
{
    struct calibration c = {.utilisation = NAN};
    double *u = arena_array(a, n + 1, sizeof *u), near = INFINITY;
    for (size_t i = 0; i < n; i++) {
        double share = reached(&v[i]);
        double far = fabs(log((double)v[i].parameters / (double)parameters));
        if (!str_eq(v[i].hardware.device, h->device) || !h->device.n || !(share > 0) ||
            !(far <= log(4)) || v[i].segments.n > 1 || v[i].config.train.precision != precision)
            continue;
        u[c.runs++] = share;
        if (far < near) {
            near = far;
            c.run = str_dup(a, v[i].run);
        }
    }
    c.utilisation = metrics_quantile(u, (size_t)c.runs, 0.5);
    return c;
}
