/* plan_roof: see plan_roof.h. */
#include "trainer/plan_roof.h"

#include <math.h>

#include "trainer/gpt2_private.h"
#include "trainer/plan_scale.h"
#include "trainer/train.h"

const char *const roof_names[] = {"norms and residuals", "attention",  "GELU",
                                  "bias gradients",      "classifier", "AdamW"};

void plan_roof_bytes(const struct model_config *m, const struct train_config *c,
                     const char *backend, const struct roof_step *s, double bytes[ROOFS])
{
    struct gpt2_use use = train_use(m, c, backend_prefers(backend), 1);
    double size = (double)dtype_size(gpt2_type(&use)),
           copy = (double)dtype_size(gpt2_copy_type(&use));
    double C = (double)m->width, F = m->inner ? (double)m->inner : 4 * C, L = (double)m->layers;
    double n = (double)s->tokens, params = (double)params_count(m);
    double again = c->recompute == RECOMPUTE_LAYER ? 1 : 0;
    double drop = m->dropout > 0 ? 1 : 0; /* its mask is made again, its gradient written apart */
    /* A sum and its norm read x and the branch and write both; back: d_norm, x, d_res in and out. */
    double norm = 4 * C, norm_back = (4 + drop) * C;
    bytes[ROOF_NORMS] = n * size * (L * 2 * (norm * (1 + again) + norm_back) + norm + norm_back);
    /* q k v in, the result out, in tiles; back: those and its gradient in, three gradients out. */
    bytes[ROOF_ATTENTION] = n * size * L * C * (4 * (1 + again) + 8);
    /* The product's epilogue writes what GELU had read, and reads it on the way back. */
    bytes[ROOF_MLP] = n * size * L * F * (2 + again + (c->recompute == RECOMPUTE_GELU ? 2 : 0));
    bytes[ROOF_BIASES] = n * size * L * (F + (m->qkv_bias ? 5 : 2) * C);
    /* Logits in twice and their gradient out; rows of both embeddings in, their gradients in f32. */
    double vocab = (double)gpt2_padded(m, &use);
    bytes[ROOF_HEAD] = n * (size * (3 * vocab + 4 * C) + 4 * 4 * C);
    /* Gradients: set to 0, added to in each pass, read for their norm. Of weights, gradient and
     * moments seven passes, and the copy. */
    double share = c->zero && s->devices > 1 ? 1 / (double)s->devices : 1;
    bytes[ROOF_ADAMW] =
        params * (4 + 8 * (double)s->passes + 4 + share * (28 + (copy < 4 ? copy : 0)));
}

enum { ASSUMED = 70 }; /* per cent of the peak: what A100's products reach */

static double matrix_share(const struct plan_options *o)
{
    if (!isnan(o->matrix_share))
        return o->matrix_share;
    return isnan(o->hardware->matrix_share) ? ASSUMED / 100.0 : o->hardware->matrix_share;
}

static const char *share_from(const struct plan_options *o)
{
    return isnan(o->matrix_share) && !isnan(o->hardware->matrix_share) ? "the hardware file's"
                                                                       : "an assumed";
}

void plan_roof(struct plan_result *p, const struct plan_options *o)
{
    const struct hardware *h = o->hardware;
    const struct train_config *c = &o->run->train;
    struct roof *r = &p->roof;
    struct roof_step s = {p->per_device * p->model.context, p->accumulation, p->devices};
    *r = (struct roof){.flops = (double)s.tokens * p->flops_token *
                                plan_work(&p->model, (enum recompute)c->recompute)};
    const char *backend = str_eqz(c->backend, "cpu") ? "cpu" : "cuda";
    double bytes[ROOFS];
    plan_roof_bytes(&p->model, c, backend, &s, bytes);
    for (int i = 0; i < ROOFS; i++)
        r->bytes += bytes[i];
    r->matrix = r->flops / (h->peak_tflops * 1e12 * matrix_share(o));
    r->memory = r->bytes / (h->bandwidth_gbs * 1e9 * o->memory_share);
    r->step = NAN;
    if (!isfinite(r->matrix + r->memory))
        return;
    struct scale_options so = plan_scale_options(p, o);
    struct scale all;
    so.device_flops = (double)s.tokens * p->flops_token / (r->matrix + r->memory);
    plan_scale(&all, &so, p->devices);
    r->exposed = p->devices > 1 ? all.exposed : 0;
    r->step = r->matrix + r->memory + r->exposed;
    r->device_flops = so.device_flops;
}

void plan_print_roof(const struct plan_result *p, const struct plan_options *o, FILE *to)
{
    const struct hardware *h = o->hardware;
    const struct roof *r = &p->roof;
    struct roof_step s = {p->per_device * p->model.context, p->accumulation, p->devices};
    double bytes[ROOFS];
    if (!isfinite(r->step)) {
        fprintf(to, "roofline     unknown: %s is not set\n",
                isfinite(r->matrix) ? "hardware.bandwidth_gbs"
                                    : hardware_peak_key(o->run->train.precision));
        return;
    }
    plan_roof_bytes(&p->model, &o->run->train,
                    str_eqz(o->run->train.backend, "cpu") ? "cpu" : "cuda", &s, bytes);
    fprintf(to,
            "roofline     a step of %.1f ms: products %.1f ms (%.4g TFLOP at %s %.0f%% of "
            "%.4g TFLOP/s)\n             + memory %.1f ms (%.4g GB at an assumed %.0f%% of %.4g "
            "GB/s) + sums over devices %.1f ms not hidden\n             of the bytes:",
            r->step * 1e3, r->matrix * 1e3, r->flops / 1e12, share_from(o), matrix_share(o) * 100,
            h->peak_tflops, r->memory * 1e3, r->bytes / 1e9, o->memory_share * 100,
            h->bandwidth_gbs, r->exposed * 1e3);
    for (int i = 0; i < ROOFS; i++)
        fprintf(to, "%s %s %.0f%%", i ? "," : "", roof_names[i], 100 * bytes[i] / r->bytes);
    fputc('\n', to);
}
