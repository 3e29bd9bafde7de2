/* export: see eval/export.h. The manifest comes last, as for any artefact. */
#include "eval/export.h"

#include <string.h>

#include "base/file.h"
#include "formats/manifest.h"
#include "trainer/checkpoint_io.h"

static int64_t one_row(int64_t context)
{
    (void)context;
    return 1;
}

/* What transformers' AutoTokenizer wants beside tokenizer.json. */
static int put_tokenizer(const char *dir, const struct local_model *l, const struct vocab *v,
                         struct arena *a, struct err *e)
{
    struct json *o = json_obj();
    struct buf b = {0};
    struct str eot;
    json_put(o, "tokenizer_class", json_of_z("PreTrainedTokenizerFast"));
    json_put(o, "model_max_length", json_of_int(l->config.context));
    if (v->eot >= 0 && vocab_bytes(v, v->eot, &eot)) {
        json_put(o, "bos_token", json_of_str(eot));
        json_put(o, "eos_token", json_of_str(eot));
        json_put(o, "unk_token", json_of_str(eot));
    }
    json_write_pretty(o, &b);
    int rc = vocab_save(v, path_join(a, dir, "tokenizer.json"), e) ||
                     file_write_all(path_join(a, dir, "tokenizer_config.json"), buf_str(&b), e)
                 ? -1
                 : 0;
    buf_release(&b);
    json_free(o);
    return rc;
}

static int put_folder(const char *dir, struct local_model *l, const struct vocab *v,
                      struct stage *st, struct arena *a, struct err *e)
{
    static const char *const files[] = {"model.safetensors", "config.json", "tokenizer.json",
                                        "tokenizer_config.json"};
    int64_t eos = v ? local_eot(l, v) : l->eos;
    if (file_mkdirs(dir, e) || checkpoint_put_model(dir, l->m, eos, e) ||
        (v && put_tokenizer(dir, l, v, a, e)))
        return -1;
    for (int i = 0; i < (v ? 4 : 2); i++)
        if (stage_output(st, path_join(a, dir, files[i]), e))
            return -1;
    return 0;
}

static int work(const struct export_job *j, struct stage *st, struct arena *a, struct err *e)
{
    struct local_model l = {0};
    struct vocab v = {0};
    struct local_options lo = {.backend = "cpu", .rows = one_row};
    struct err none = {0};
    int rc = -1;
    if (local_open(&l, j->model, &lo, e))
        goto out;
    bool have = local_vocab(&l, j->vocab, &v, &none) == 0;
    if (!have && (j->vocab || j->format == EXPORT_GGUF)) {
        *e = none;
        goto out;
    }
    if (j->format == EXPORT_HF)
        rc = put_folder(j->out, &l, have ? &v : NULL, st, a, e);
    else
        rc = export_gguf(&l, &v, path_base(l.dir), j->out, e) || stage_output(st, j->out, e) ? -1
                                                                                             : 0;
    stage_fact(st, "parameters", json_of_int(params_count(&l.config)));
    struct str trained = have ? str_z(v.hash) : manifest_vocab(a, l.dir);
    if (trained.n)
        stage_fact(st, "vocab", json_of_str(trained));
out:
    vocab_release(&v);
    local_close(&l);
    return rc;
}

/* Somebody's file would be written over. */
static int check_file(const char *path, struct arena *a, struct err *e)
{
    if (!file_exists(path) || file_exists(manifest_path(a, path)))
        return 0; /* whose manifest it is, the stage looks at */
    return err_code(e, EXIT_USAGE,
                    "%s is there and not an export of this tool: take another --out, or remove it",
                    path);
}

/* Somebody's folder: files of these names would be written over, and others would lie beside. */
static int check_folder(const char *dir, struct arena *a, struct err *e)
{
    struct strs names = {0};
    if (!file_is_dir(dir) || file_exists(manifest_path(a, dir)))
        return 0; /* whose manifest it is, the stage looks at */
    if (file_list(dir, &names, a, e))
        return -1;
    if (!names.n)
        return 0;
    return err_code(e, EXIT_USAGE,
                    "%s is not empty (%.*s) and not an export of this tool: take another --out, or "
                    "remove it",
                    dir, STR_ARG(names.v[0]));
}

int export_model(const struct export_job *j, struct arena *a, struct err *e)
{
    struct stage st;
    int rc = -1;
    stage_begin(&st, "export-model", 1, j->out, NULL, NULL);
    stage_setting(&st, "format", j->format == EXPORT_HF ? "hf" : "gguf");
    const char *model = checkpoint_resolve(a, j->model, e);
    if (!model || stage_input_whole(&st, model, e) ||
        (j->vocab && stage_input_whole(&st, j->vocab, e)))
        goto out;
    if (j->format == EXPORT_HF && !strcmp(model, j->out))
        err_code(e, EXIT_USAGE, "%s is the checkpoint itself", j->out);
    else if (j->format == EXPORT_HF ? check_folder(j->out, a, e) : check_file(j->out, a, e))
        ;
    else if (stage_fresh(&st))
        rc = 0;
    else
        rc = stage_start(&st, e) || work(j, &st, a, e) || stage_end(&st, e) ? -1 : 0;
out:
    stage_release(&st);
    return rc;
}
