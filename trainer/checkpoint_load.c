/* checkpoint_load: weights out of a checkpoint, ours or somebody's (trainer/weights.h lists whose).
 *
 * The causal mask buffers that older files carry are no weights and are left out; a tied model may
 * repeat its head if it is the same. Anything else that does not fit is named: a missing, doubled,
 * unknown or wrongly shaped tensor.
 */
#include "trainer/checkpoint_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "trainer/weights.h"

static bool ends(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && strcmp(s + n - k, tail) == 0;
}

static int open_model(struct weights *w, const char **dir, struct arena *a, struct err *e)
{
    *dir = checkpoint_resolve(a, *dir, e);
    return *dir ? weights_open(w, *dir, e) : -1;
}

int gpt2_config_of(const char *dir, struct model_config *c, int64_t *eos, struct err *e)
{
    struct arena a = {0};
    struct weights w = {0};
    int64_t none;
    int rc = -1;
    if (open_model(&w, &dir, &a, e))
        goto out;
    if (!file_is_dir(dir)) { /* llm.c: the file says it all, but for the end of text */
        *c = w.bin.config;
        if (eos)
            *eos = c->vocab == 50257 ? 50256 : -1;
        rc = model_config_check(c, e) ? err_wrap(e, "%s", dir) : 0;
        goto out;
    }
    if (hf_config_read(dir, c, eos ? eos : &none, e))
        goto out;
    /* A file without any such bias is a model without it, whatever the config leaves open; the same
     * for the head of LLMs-from-scratch's models, whose config does not tell. */
    c->qkv_bias = c->qkv_bias && weights_any(&w, ".attn.c_attn.bias");
    const struct weights_piece *wte = weights_find(&w, "wte.weight");
    if (wte && ends(wte->t->name, "tok_emb.weight"))
        c->tied = !weights_find(&w, "lm_head.weight");
    rc = model_config_check(c, e) ? err_wrap(e, "%s/config.json", dir) : 0;
out:
    weights_close(&w);
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

/* Is t the shape of p, or of its part, in the order of the file? */
static int check_shape(const struct param *p, const struct weights_piece *w, struct err *e)
{
    int64_t want[2] = {p->dim[0], p->dim[1]};
    int out = p->ndim - 1; /* dimension of the outputs */
    bool same = w->t->ndim == p->ndim;
    want[out] /= w->parts;
    if (w->out_in) {
        int64_t in = want[0];
        want[0] = want[1];
        want[1] = in;
    }
    for (int k = 0; same && k < p->ndim; k++)
        same = w->t->dim[k] == want[k];
    if (same)
        return 0;
    char have[64], wanted[64];
    shape_text(w->t->ndim, w->t->dim, have);
    shape_text(p->ndim, want, wanted);
    return err_set(e, "%s is %s, the config wants %s", w->t->name, have, wanted);
}

/* One piece into its place in the flat vector. */
static int take(const struct param *p, const struct weights_piece *w, float *flat, struct err *e)
{
    if (check_shape(p, w, e))
        return -1;
    if (!w->out_in && w->parts == 1)
        return st_to_f32(w->t, flat + p->at, e) ? err_wrap(e, "%s", w->t->name) : 0;
    float *v = mem_array((size_t)w->t->count, sizeof *v);
    int rc = st_to_f32(w->t, v, e) ? err_wrap(e, "%s", w->t->name) : 0;
    int64_t in = p->ndim == 2 ? p->dim[0] : 1, all = p->count / in, out = all / w->parts;
    float *to = flat + p->at + w->part * out;
    for (int64_t i = 0; i < in && !rc; i++)
        for (int64_t o = 0; o < out; o++)
            to[i * all + o] = w->out_in ? v[o * in + i] : v[i * out + o];
    free(v);
    return rc;
}

/* A tensor that the table lacks: fine if it says nothing new. */
static int spare(const struct gpt2 *m, const struct weights_piece *w, const float *flat,
                 struct err *e)
{
    const struct model_config *c = gpt2_config(m);
    const struct st_tensor *t = w->t;
    bool head = c->tied && strcmp(w->name, "lm_head.weight") == 0;
    bool bias = !c->qkv_bias && ends(w->name, ".attn.c_attn.bias");
    int64_t want = head ? c->vocab * c->width : 3 * c->width / w->parts;
    int rc = 0;
    if (w->ignored)
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
                         head ? "%s differs from wte.weight, and they are one tensor unless the "
                                "config has \"tie_word_embeddings\": false"
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

static unsigned parts_of(const struct weights_piece *x)
{
    return (x->parts == 3 ? 1u : 7u) << x->part;
}

/* Piece i is what a piece before it was already: both under their own names and files. */
static int twice(const struct weights *w, size_t i, const char *name, struct err *e)
{
    const struct weights_piece *x = &w->v[i], *first = w->v;
    while (first->ignored || !first->name || strcmp(first->name, name) != 0 ||
           !(parts_of(first) & parts_of(x)))
        first++;
    return err_set(e, "%s is there twice: as %s in %s and as %s in %s; leave one out", name,
                   first->t->name, first->file ? path_base(first->file) : "it", x->t->name,
                   x->file ? path_base(x->file) : "it");
}

/* seen[k]: bits of the parts of tensor k that were there. */
static int fill_all(struct gpt2 *m, const struct weights *w, unsigned *seen, float *flat,
                    struct err *e)
{
    const struct params *p = gpt2_params(m);
    for (size_t i = 0; i < w->n; i++) {
        const struct weights_piece *x = &w->v[i];
        int k = x->ignored ? -1 : find(p, x->name);
        unsigned bits = parts_of(x);
        if (k < 0)
            continue;
        if (seen[k] & bits)
            return twice(w, i, x->name, e);
        seen[k] |= bits;
        if (take(&p->v[k], x, flat, e))
            return -1;
    }
    for (int k = 0; k < p->n; k++)
        if (seen[k] != 7)
            return err_set(e, seen[k] ? "a part of %s is missing" : "%s is missing", p->v[k].name);
    for (size_t i = 0; i < w->n; i++)
        if ((w->v[i].ignored || find(p, w->v[i].name) < 0) && spare(m, &w->v[i], flat, e))
            return -1;
    return 0;
}

static int fill(struct gpt2 *m, const struct weights *w, float *flat, struct err *e)
{
    unsigned *seen = mem_array((size_t)gpt2_params(m)->n, sizeof *seen);
    int rc = fill_all(m, w, seen, flat, e);
    free(seen);
    return rc;
}

int gpt2_load(struct gpt2 *m, const char *dir, struct err *e)
{
    struct arena a = {0};
    struct weights w = {0};
    float *place = gpt2_place(m), *own = NULL;
    int rc = -1;
    if (open_model(&w, &dir, &a, e))
        goto out;
    if (!place)
        place = own = mem_array((size_t)gpt2_params(m)->count, sizeof *own);
    if (fill(m, &w, place, e)) {
        err_wrap(e, "%s", w.path);
        goto out;
    }
    if (!own)
        gpt2_refresh(m, 0);
    rc = own ? gpt2_put(m, 'w', own, e) : 0;
out:
    free(own);
    weights_close(&w);
    arena_release(&a);
    return rc;
}

static int moments(const struct gpt2 *m, const struct safetensors *s, char which, float *flat,
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
        struct weights_piece whole = {.t = t, .parts = 1};
        if (take(&p->v[i], &whole, flat, e))
            return err_wrap(e, "%s", s->path);
    }
    return 0;
}

int checkpoint_read_moments(const char *dir, const struct gpt2 *m, checkpoint_take_fn *fn,
                            void *ctx, struct err *e)
{
    struct arena a = {0};
    struct safetensors s = {0};
    float *flat = mem_array((size_t)gpt2_params(m)->count, sizeof *flat);
    int rc = -1;
    if (safetensors_open(&s, path_join(&a, dir, "optimizer.safetensors"), e))
        goto out;
    rc = moments(m, &s, 'm', flat, e) || fn(ctx, 'm', flat, e) || moments(m, &s, 'v', flat, e) ||
                 fn(ctx, 'v', flat, e)
             ? -1
             : 0;
out:
    free(flat);
    safetensors_close(&s);
    arena_release(&a);
    return rc;
}

static int put_moments(void *ctx, char which, float *flat, struct err *e)
{
    return gpt2_put(ctx, which, flat, e);
}

int checkpoint_load_moments(const char *dir, struct gpt2 *m, struct err *e)
{
    return checkpoint_read_moments(dir, m, put_moments, m, e);
}
