/* weights: see trainer/weights.h. */
#include "trainer/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---------------------------------------------------------------------------------- */

static bool ends(const char *s, const char *tail)
{
    size_t n = strlen(s), k = strlen(tail);
    return n >= k && strcmp(s + n - k, tail) == 0;
}

static const char *behind(const char *s, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(s, prefix, n) == 0 ? s + n : NULL;
}

/* LLMs-from-scratch (ch04/01_main-chapter-code/gpt.py), behind "trf_blocks.N." and without. */
static const struct alias {
    const char *theirs, *ours;
    bool out_in;
    int part, parts;
} in_block[] =
    {
        {"att.W_query.weight", "attn.c_attn.weight", true, 0, 3},
        {"att.W_key.weight", "attn.c_attn.weight", true, 1, 3},
        {"att.W_value.weight", "attn.c_attn.weight", true, 2, 3},
        {"att.W_query.bias", "attn.c_attn.bias", false, 0, 3},
        {"att.W_key.bias", "attn.c_attn.bias", false, 1, 3},
        {"att.W_value.bias", "attn.c_attn.bias", false, 2, 3},
        {"att.out_proj.weight", "attn.c_proj.weight", true, 0, 1},
        {"att.out_proj.bias", "attn.c_proj.bias", false, 0, 1},
        {"norm1.scale", "ln_1.weight", false, 0, 1},
        {"norm1.shift", "ln_1.bias", false, 0, 1},
        {"norm2.scale", "ln_2.weight", false, 0, 1},
        {"norm2.shift", "ln_2.bias", false, 0, 1},
        {"ff.layers.0.weight", "mlp.c_fc.weight", true, 0, 1},
        {"ff.layers.0.bias", "mlp.c_fc.bias", false, 0, 1},
        {"ff.layers.2.weight", "mlp.c_proj.weight", true, 0, 1},
        {"ff.layers.2.bias", "mlp.c_proj.bias", false, 0, 1},
},
  outside[] = {
      {"tok_emb.weight", "wte.weight", false, 0, 1},
      {"pos_emb.weight", "wpe.weight", false, 0, 1},
      {"final_norm.scale", "ln_f.weight", false, 0, 1},
      {"final_norm.shift", "ln_f.bias", false, 0, 1},
      {"out_head.weight", "lm_head.weight", false, 0, 1},
};

static bool alias_of(const struct alias *v, size_t n, const char *name, const char *prefix,
                     struct weights_piece *p, struct arena *a)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(v[i].theirs, name) == 0) {
            p->name = arena_printf(a, "%s%s", prefix, v[i].ours);
            p->out_in = v[i].out_in;
            p->part = v[i].part;
            p->parts = v[i].parts;
            return true;
        }
    return false;
}

static void name_piece(struct weights_piece *p, struct arena *a)
{
    const char *s = p->t->name, *rest;
    char prefix[32];
    int layer, n = 0;
    while ((rest = behind(s, "module.")) || (rest = behind(s, "_orig_mod.")))
        s = rest;
    if ((rest = behind(s, "transformer.")))
        s = rest;
    p->name = s;
    p->parts = 1;
    p->ignored = ends(s, ".attn.bias") || ends(s, ".attn.masked_bias") || ends(s, ".att.mask");
    if (alias_of(outside, sizeof outside / sizeof *outside, s, "", p, a))
        return;
    if (sscanf(s, "trf_blocks.%4d.%n", &layer, &n) == 1 && n > 0 && layer >= 0) {
        snprintf(prefix, sizeof prefix, "h.%d.", layer);
        alias_of(in_block, sizeof in_block / sizeof *in_block, s + n, prefix, p, a);
    }
}

/* ---- files ---------------------------------------------------------------------------------- */

static struct weights_piece *room(struct weights *w, size_t n)
{
    w->v = mem_grow(w->v, (w->n + n) * sizeof *w->v);
    memset(w->v + w->n, 0, n * sizeof *w->v);
    return w->v + w->n;
}

static int add_file(struct weights *w, const char *path, struct err *e)
{
    struct safetensors *s = &w->files[w->nfiles];
    if (safetensors_open(s, path, e))
        return -1;
    w->nfiles++;
    struct weights_piece *p = room(w, s->n);
    for (size_t i = 0; i < s->n; i++) {
        p[i].t = &s->v[i];
        p[i].file = s->path;
        name_piece(&p[i], &w->arena);
    }
    w->n += s->n;
    return 0;
}

/* The files that an index names, each once; every tensor must be where it says. */
static int add_index(struct weights *w, const char *dir, const struct json *index, struct err *e)
{
    const struct json *map = json_get(index, "weight_map"), *v;
    const char *key;
    void *it = NULL;
    if (json_kind(map) != JSON_OBJ || !json_size(map))
        return err_set(e, "it has no \"weight_map\"");
    w->files = mem_array(json_size(map), sizeof *w->files);
    while (json_each(map, &it, &key, &v)) {
        struct str file = json_str(v);
        if (!file.n || memchr(file.p, '/', file.n) || memchr(file.p, 0, file.n))
            return err_set(e, "\"%s\" lies in no file of this folder", key);
        const char *path = path_join(&w->arena, dir, str_dup(&w->arena, file));
        size_t k = 0;
        while (k < w->nfiles && strcmp(w->files[k].path, path) != 0)
            k++;
        if (k == w->nfiles && add_file(w, path, e))
            return -1;
        if (!safetensors_find(&w->files[k], key))
            return err_set(e, "\"%s\" is not in %.*s", key, STR_ARG(file));
    }
    return 0;
}

static int open_index(struct weights *w, const char *dir, const char *path, struct err *e)
{
    struct json *index = json_read(path, e);
    if (!index)
        return -1;
    int rc = add_index(w, dir, index, e) ? err_wrap(e, "%s", path) : 0;
    json_free(index);
    return rc;
}

static bool is_linear(const char *name)
{
    return ends(name, ".c_attn.weight") || ends(name, ".c_proj.weight") ||
           ends(name, ".c_fc.weight");
}

static int open_bin(struct weights *w, const char *path, struct err *e)
{
    if (llmc_model_open(&w->bin, path, e))
        return -1;
    struct weights_piece *p = room(w, w->bin.n);
    for (size_t i = 0; i < w->bin.n; i++)
        p[i] = (struct weights_piece){.name = w->bin.v[i].name,
                                      .t = &w->bin.v[i],
                                      .out_in = is_linear(w->bin.v[i].name),
                                      .parts = 1};
    w->n = w->bin.n;
    return 0;
}

/* PyTorch's own file, where there is no other; NULL: none. */
static const char *pickle_in(const char *dir, struct arena *a)
{
    static const char *const ends[] = {".pth", ".pt", "pytorch_model.bin"};
    struct strs names = {0};
    struct err unread;
    if (file_list(dir, &names, a, &unread))
        return NULL;
    for (size_t i = 0; i < names.n; i++)
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
            if (str_ends(names.v[i], ends[k]))
                return str_dup(a, names.v[i]);
    return NULL;
}

int weights_open(struct weights *w, const char *path, struct err *e)
{
    int rc;
    *w = (struct weights){0};
    const char *one = path_join(&w->arena, path, "model.safetensors");
    const char *index = path_join(&w->arena, path, "model.safetensors.index.json");
    if (!file_is_dir(path)) {
        w->path = arena_strdup(&w->arena, path);
        rc = open_bin(w, path, e);
    } else if (!file_exists(one) && file_exists(index)) {
        w->path = index;
        rc = open_index(w, path, index, e);
    } else if (!file_exists(one) && pickle_in(path, &w->arena)) {
        w->path = one;
        rc = err_set(e,
                     "%s holds %s, a pickle of Python's, and no model.safetensors: docs/formats.md "
                     "has the line that converts it",
                     path, pickle_in(path, &w->arena));
    } else {
        w->path = one;
        w->files = mem_array(1, sizeof *w->files);
        rc = add_file(w, one, e);
    }
    if (rc)
        weights_close(w);
    return rc;
}

void weights_close(struct weights *w)
{
    for (size_t i = 0; i < w->nfiles; i++)
        safetensors_close(&w->files[i]);
    llmc_model_close(&w->bin);
    free(w->files);
    free(w->v);
    arena_release(&w->arena);
    *w = (struct weights){0};
}

const struct weights_piece *weights_find(const struct weights *w, const char *name)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->v[i].name, name) == 0)
            return &w->v[i];
    return NULL;
}

bool weights_any(const struct weights *w, const char *tail)
{
    for (size_t i = 0; i < w->n; i++)
        if (ends(w->v[i].name, tail))
            return true;
    return false;
}
