/* checkpoint_load: weights out of a checkpoint folder, ours or one that transformers wrote.
 *
 * Names come with or without "transformer."; the causal mask buffers that older files carry
 * (attn.bias, attn.masked_bias) are no weights and are left out; a tied model may repeat its head
 * if it is the same. Anything else that does not fit is named: a missing, doubled, unknown or
 * wrongly shaped tensor.
 */
#include "trainer/checkpoint_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

static const char *bare(const char *name)
{
    const char *prefix = "transformer.";
    return strncmp(name, prefix, strlen(prefix)) == 0 ? name + strlen(prefix) : name;
}

static bool ends(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && strcmp(s + n - k, tail) == 0;
}

static bool is_mask(const char *name)
{
    return ends(name, ".attn.bias") || ends(name, ".attn.masked_bias");
}

static int open_model(struct safetensors *s, const char **dir, struct arena *a, struct err *e)
{
    if (!(*dir = checkpoint_resolve(a, *dir, e)))
        return -1;
    return safetensors_open(s, path_join(a, *dir, "model.safetensors"), e);
}

int gpt2_config_of(const char *dir, struct model_config *c, int64_t *eos, struct err *e)
{
    struct arena a = {0};
    struct safetensors s = {0};
    int64_t none;
    int rc = -1;
    if (open_model(&s, &dir, &a, e) || hf_config_read(dir, c, eos ? eos : &none, e))
        goto out;
    /* A file without any such bias is a model without it, whatever the config leaves open. */
    bool bias = false;
    for (size_t i = 0; i < s.n; i++)
        bias = bias || ends(s.v[i].name, ".attn.c_attn.bias");
    c->qkv_bias = c->qkv_bias && bias;
    rc = model_config_check(c, e) ? err_wrap(e, "%s/config.json", dir) : 0;
out:
    safetensors_close(&s);
    arena_release(&a);
    return rc;
}

static void shape_text(int ndim, const int64_t *d, char out[64])
{
    size_t n = (size_t)snprintf(out, 64, "[");
    for (int i = 0; i < ndim && n < 64; i++)
        n += (size_t)snprintf(out + n, 64 - n, "%s%lld", i ? ", " : "", (long long)d[i]);
    if (n < 64)
        snprintf(out + n, 64 - n, "]");
}

static int take(const struct param *p, const struct st_tensor *t, float *flat, struct err *e)
{
    bool same = t->ndim == p->ndim;
    for (int k = 0; same && k < p->ndim; k++)
        same = t->dim[k] == p->dim[k];
    if (!same) {
        char have[64], want[64];
        shape_text(t->ndim, t->dim, have);
        shape_text(p->ndim, p->dim, want);
        return err_set(e, "%s is %s, the config wants %s", t->name, have, want);
    }
    return st_to_f32(t, flat + p->at, e) ? err_wrap(e, "%s", t->name) : 0;
}

/* A tensor that the table lacks: fine if it says nothing new. */
static int spare(const struct gpt2 *m, const struct st_tensor *t, const float *flat, struct err *e)
{
    const struct model_config *c = gpt2_config(m);
    const char *name = bare(t->name);
    bool head = c->tied && strcmp(name, "lm_head.weight") == 0;
    bool bias = !c->qkv_bias && ends(name, ".attn.c_attn.bias");
    int64_t want = head ? c->vocab * c->width : 3 * c->width;
    int rc = 0;
    if (is_mask(name))
        return 0;
    if (!head && !bias)
        return err_set(e, "%s is no tensor of a GPT-2 of %lld layers", t->name,
                       (long long)c->layers);
    if (t->count != want)
        return err_set(e, "%s has %lld values, the config wants %lld", t->name, (long long)t->count,
                       (long long)want);
    float *v = mem_array((size_t)want, sizeof *v);
    if (st_to_f32(t, v, e))
        rc = err_wrap(e, "%s", t->name);
    for (int64_t i = 0; i < want && !rc; i++)
        if (v[i] != (head ? flat[i] : 0)) /* the token embedding is first in the flat vector */
            rc = err_set(e,
                         head ? "%s differs from wte.weight, but the config says they are tied"
                              : "%s is not zero, but the config says there is no such bias",
                         t->name);
    free(v);
    return rc;
}

static int find(const struct params *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->v[i].name, name) == 0)
            return i;
    return -1;
}

static int fill(struct gpt2 *m, const struct safetensors *s, float *flat, struct err *e)
{
    const struct params *p = gpt2_params(m);
    bool *seen = mem_array((size_t)p->n, sizeof *seen);
    int rc = -1;
    for (size_t i = 0; i < s->n; i++) {
        int k = find(p, bare(s->v[i].name));
        if (k < 0)
            continue;
        if (seen[k]) {
            err_set(e, "%s is there twice, with and without \"transformer.\"", p->v[k].name);
            goto out;
        }
        seen[k] = true;
        if (take(&p->v[k], &s->v[i], flat, e))
            goto out;
    }
    for (int k = 0; k < p->n; k++)
        if (!seen[k]) {
            err_set(e, "%s is missing", p->v[k].name);
            goto out;
        }
    for (size_t i = 0; i < s->n; i++)
        if (find(p, bare(s->v[i].name)) < 0 && spare(m, &s->v[i], flat, e))
            goto out;
    rc = 0;
out:
    free(seen);
    return rc;
}

int gpt2_load(struct gpt2 *m, const char *dir, struct err *e)
{
    struct arena a = {0};
    struct safetensors s = {0};
    float *flat = mem_array((size_t)gpt2_params(m)->count, sizeof *flat);
    int rc = -1;
    if (open_model(&s, &dir, &a, e))
        goto out;
    rc = fill(m, &s, flat, e) ? err_wrap(e, "%s", s.path) : gpt2_put(m, 'w', flat, e);
out:
    free(flat);
    safetensors_close(&s);
    arena_release(&a);
    return rc;
}

static int moments(struct gpt2 *m, const struct safetensors *s, char which, float *flat,
                   struct err *e)
{
    const struct params *p = gpt2_params(m);
    for (int i = 0; i < p->n; i++) {
        char name[128];
        bool head = strcmp(p->v[i].name, "lm_head.weight") == 0;
        snprintf(name, sizeof name, "%s%s.%c", head ? "" : "transformer.", p->v[i].name, which);
        const struct st_tensor *t = safetensors_find(s, name);
        if (!t)
            return err_set(e, "%s: %s is missing", s->path, name);
        if (take(&p->v[i], t, flat, e))
            return err_wrap(e, "%s", s->path);
    }
    return gpt2_put(m, which, flat, e);
}

int checkpoint_load_moments(const char *dir, struct gpt2 *m, struct err *e)
{
    struct arena a = {0};
    struct safetensors s = {0};
    float *flat = mem_array((size_t)gpt2_params(m)->count, sizeof *flat);
    int rc = -1;
    if (safetensors_open(&s, path_join(&a, dir, "optimizer.safetensors"), e))
        goto out;
    rc = moments(m, &s, 'm', flat, e) || moments(m, &s, 'v', flat, e) ? -1 : 0;
out:
    free(flat);
    safetensors_close(&s);
    arena_release(&a);
    return rc;
}
