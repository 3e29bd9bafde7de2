/* checkpoint_io: writing checkpoint folders, see checkpoint_io.h; reading is in checkpoint_load.c. */
#include "trainer/checkpoint_io.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "formats/manifest.h"
#include "formats/record.h"

/* Hugging Face's name of a tensor of the table. */
static const char *hf_name(struct arena *a, const struct param *p, const char *suffix)
{
    bool head = strcmp(p->name, "lm_head.weight") == 0;
    return arena_printf(a, "%s%s%s", head ? "" : "transformer.", p->name, suffix);
}

/* The bias of q, k and v stands behind its weight; a model without it stores zeros there, so that
 * other readers, which always expect it, load the folder. */
static bool wants_zero_bias(const struct gpt2 *m, const struct param *p)
{
    const char *tail = "attn.c_attn.weight";
    size_t n = strlen(p->name), k = strlen(tail);
    return !gpt2_config(m)->qkv_bias && n > k && strcmp(p->name + n - k, tail) == 0;
}

static const char *zero_bias_name(struct arena *a, const struct param *p)
{
    const char *w = hf_name(a, p, "");
    return arena_printf(a, "%.*sbias", (int)(strlen(w) - strlen("weight")), w);
}

static int check_finite(const struct params *p, const float *flat, struct err *e)
{
    for (int i = 0; i < p->n; i++)
        for (int64_t k = 0; k < p->v[i].count; k++)
            if (!isfinite(flat[p->v[i].at + k]))
                return err_set(e, "%s holds a value that is not finite at element %lld",
                               p->v[i].name, (long long)k);
    return 0;
}

static int put_flat(struct st_writer *w, struct gpt2 *m, const float *flat, bool zero_bias,
                    struct err *e)
{
    const struct params *p = gpt2_params(m);
    size_t bias = (size_t)gpt2_config(m)->width * 3 * sizeof(float);
    float *zero = zero_bias ? mem_zero(bias) : NULL;
    int rc = 0;
    for (int i = 0; i < p->n && !rc; i++) {
        rc = safetensors_put(w, flat + p->v[i].at, (size_t)p->v[i].count * sizeof *flat, e);
        if (!rc && zero_bias && wants_zero_bias(m, &p->v[i]))
            rc = safetensors_put(w, zero, bias, e);
    }
    free(zero);
    return rc;
}

static void declare(struct st_writer *w, struct gpt2 *m, struct arena *a, const char *suffix,
                    bool zero_bias)
{
    const struct params *p = gpt2_params(m);
    int64_t bias = gpt2_config(m)->width * 3;
    for (int i = 0; i < p->n; i++) {
        safetensors_declare(w, hf_name(a, &p->v[i], suffix), ST_F32, p->v[i].ndim, p->v[i].dim);
        if (zero_bias && wants_zero_bias(m, &p->v[i]))
            safetensors_declare(w, zero_bias_name(a, &p->v[i]), ST_F32, 1, &bias);
    }
}

int checkpoint_put_model(const char *dir, struct gpt2 *m, int64_t eos, struct err *e)
{
    struct arena a = {0};
    float *flat = mem_array((size_t)gpt2_params(m)->count, sizeof *flat);
    struct st_writer *w = NULL;
    int rc = -1;
    if (gpt2_get(m, 'w', flat, e) || check_finite(gpt2_params(m), flat, e))
        goto out;
    if (!(w = safetensors_create(path_join(&a, dir, "model.safetensors"), e)))
        goto out;
    safetensors_meta_set(w, "format", "pt");
    declare(w, m, &a, "", true);
    if (put_flat(w, m, flat, true, e)) {
        safetensors_abort(w);
        goto out;
    }
    if (safetensors_finish(w, e) || hf_config_write(dir, gpt2_config(m), eos, e))
        goto out;
    rc = 0;
out:
    free(flat);
    arena_release(&a);
    return rc;
}

static int put_moments(const char *dir, struct gpt2 *m, struct err *e)
{
    struct arena a = {0};
    float *flat = mem_array((size_t)gpt2_params(m)->count, sizeof *flat);
    struct st_writer *w = safetensors_create(path_join(&a, dir, "optimizer.safetensors"), e);
    int rc = -1;
    if (!w)
        goto out;
    declare(w, m, &a, ".m", false);
    declare(w, m, &a, ".v", false);
    if (gpt2_get(m, 'm', flat, e) || put_flat(w, m, flat, false, e) || gpt2_get(m, 'v', flat, e) ||
        put_flat(w, m, flat, false, e)) {
        safetensors_abort(w);
        goto out;
    }
    rc = safetensors_finish(w, e);
out:
    free(flat);
    arena_release(&a);
    return rc;
}

static int put_manifest(const char *dir, struct gpt2 *m, const struct train_state *state,
                        const struct checkpoint_made *made, struct err *e)
{
    static const char *const files[] = {"model.safetensors", "config.json",
                                        "optimizer.safetensors"};
    struct arena a = {0};
    struct stage st = {0};
    int rc = -1;
    stage_begin(&st, "checkpoint", 1, dir, NULL, NULL);
    stage_setting(&st, "made by", made->by);
    if (made->options)
        stage_fact(&st, "options", json_clone(made->options));
    if (made->vocab_hash.n)
        stage_fact(&st, "vocab_hash", json_of_str(made->vocab_hash));
    stage_fact(&st, "parameters", json_of_int(params_count(gpt2_config(m))));
    if (state) {
        stage_fact(&st, "step", json_of_int(state->step));
        stage_fact(&st, "tokens", json_of_int(state->tokens));
        stage_fact(&st, "loss", json_of_num(state->last_loss));
    }
    for (int i = 0; i < (state ? 3 : 2); i++)
        if (stage_output(&st, path_join(&a, dir, files[i]), e))
            goto out;
    rc = stage_end(&st, e);
out:
    stage_release(&st);
    arena_release(&a);
    return rc;
}

int checkpoint_save(const char *dir, struct gpt2 *m, int64_t eos, const struct train_state *state,
                    const struct checkpoint_made *made, struct err *e)
{
    struct arena a = {0};
    char *parent = path_dir(&a, dir);
    char *tmp = path_join(&a, parent, arena_printf(&a, ".%s.tmp", path_base(dir)));
    int rc = -1;
    if (file_remove_tree(tmp, e) || file_mkdirs(tmp, e) || checkpoint_put_model(tmp, m, eos, e))
        goto out;
    if (state && (put_moments(tmp, m, e) ||
                  record_save(path_join(&a, tmp, "state.msgpack"), &train_state_schema, state, e)))
        goto out;
    if (put_manifest(tmp, m, state, made, e) || file_rename_dir(tmp, dir, e))
        goto out;
    rc = 0;
out:
    if (rc) {
        struct err ignored;
        file_remove_tree(tmp, &ignored);
        err_wrap(e, "checkpoint %s", dir);
    }
    arena_release(&a);
    return rc;
}

/* One section of options against another, both {"key": value}. */
static void differ(const char *section, const struct json *was, const struct json *is,
                   struct buf *out)
{
    void *it = NULL;
    const char *key;
    const struct json *v;
    while (json_each(is, &it, &key, &v)) {
        struct buf a = {0}, b = {0};
        json_write(json_get(was, key), &a);
        json_write(v, &b);
        if (!str_eq(buf_str(&a), buf_str(&b)))
            buf_printf(out, "%s%s.%s was %s, is %s", out->n ? "; " : "", section, key, a.p, b.p);
        buf_release(&a);
        buf_release(&b);
    }
}

void checkpoint_differs(const char *dir, const struct json *options, char *out, size_t n)
{
    struct err ignored;
    struct buf text = {0};
    struct json *m = manifest_read(dir, &ignored);
    const struct json *was = json_get(json_get(m, "facts"), "options"), *v;
    void *it = NULL;
    const char *section;
    while (was && json_each(options, &it, &section, &v))
        if (json_kind(v) == JSON_OBJ)
            differ(section, json_get(was, section), v, &text);
    snprintf(out, n, "%.*s", STR_ARG(buf_str(&text)));
    buf_release(&text);
    json_free(m);
}

int checkpoint_remove(const char *dir, struct err *e)
{
    struct arena a = {0};
    char *gone = path_join(&a, path_dir(&a, dir), arena_printf(&a, ".%s.gone", path_base(dir)));
    int rc = -1;
    if (file_remove_tree(gone, e))
        goto out;
    if (rename(dir, gone)) {
        err_sys(e, "remove %s", dir);
        goto out;
    }
    rc = file_remove_tree(gone, e);
out:
    arena_release(&a);
    return rc;
}

int checkpoint_sweep(const char *parent, struct err *e)
{
    struct arena a = {0};
    struct strs names = {0};
    int rc = -1;
    if (file_list(parent, &names, &a, e))
        goto out;
    for (size_t i = 0; i < names.n; i++) {
        struct str n = names.v[i];
        if (str_starts(n, ".") && (str_ends(n, ".tmp") || str_ends(n, ".gone")) &&
            file_remove_tree(path_join(&a, parent, str_dup(&a, n)), e))
            goto out;
    }
    rc = 0;
out:
    arena_release(&a);
    return rc;
}
