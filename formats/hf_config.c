/* hf_config: config.json of a GPT-2 in Hugging Face form, the train state, and finding a
 * checkpoint.
 *
 * Keys and their defaults are those of GPT2Config (transformers,
 * src/transformers/models/gpt2/configuration_gpt2.py): what a file leaves out means what it means
 * there. Options that change the arithmetic and that we do not compute are refused.
 */
#include <string.h>

#include "base/log.h"
#include "formats/checkpoint.h"
#include "formats/llmc.h"
#include "formats/manifest.h"

#define AT(m) offsetof(struct train_state, m)
static const struct field train_state_fields[] = {
    {"step", FIELD_I64, AT(step), NULL, .help = "steps done"},
    {"tokens", FIELD_I64, AT(tokens), "0", .help = "tokens seen"},
    {"updates", FIELD_I64, AT(updates), "0", .help = "updates of the weights"},
    {"skipped", FIELD_I64, AT(skipped), "0", .help = "updates that were skipped"},
    {"skipped_in_row", FIELD_I64, AT(skipped_in_row), "0", .help = "of these the last in a row"},
    {"best_step", FIELD_I64, AT(best_step), "0", .help = "step of the best checkpoint"},
    {"best_loss", FIELD_F64, AT(best_loss), "", .help = "and its loss"},
    {"last_loss", FIELD_F64, AT(last_loss), "", .help = "of the last step"},
    {"interval_loss", FIELD_F64, AT(interval_loss), "0", .help = "sum since the last checkpoint"},
    {"interval_steps", FIELD_I64, AT(interval_steps), "0", .help = "steps in that sum"},
    {"seconds", FIELD_F64, AT(seconds), "0", .help = "training time so far",
     .flags = FIELD_VOLATILE},
    {"energy_j", FIELD_F64, AT(energy_j), "", .help = "joules of all devices so far",
     .flags = FIELD_VOLATILE},
    {"config_key", FIELD_STR, AT(config_key), "", .help = "hash of what must not change"},
    {"data_hash", FIELD_STR, AT(data_hash), "", .help = "hash of the shards"},
    {"spike_mean_loss", FIELD_F64, AT(spike_mean_loss), "0", .help = "running mean"},
    {"spike_var_loss", FIELD_F64, AT(spike_var_loss), "0", .help = "running variance"},
    {"spike_mean_norm", FIELD_F64, AT(spike_mean_norm), "0", .help = "running mean"},
    {"spike_var_norm", FIELD_F64, AT(spike_var_norm), "0", .help = "running variance"},
    {"spike_n", FIELD_I64, AT(spike_n), "0", .help = "values in them"},
    {"loss_scale", FIELD_F64, AT(loss_scale), "0", .help = "fp16: factor of the loss; 0: none"},
    {"loss_scale_good", FIELD_I64, AT(loss_scale_good), "0", .help = "good steps with it"},
    {"overflows", FIELD_I64, AT(overflows), "0", .help = "steps left out to find it"},
    {"rest", FIELD_REST, AT(rest), "", .help = "unknown keys"},
    {0},
};
#undef AT
const struct schema train_state_schema = {"train_state", 1, sizeof(struct train_state),
                                          train_state_fields};

/* ---- reading -------------------------------------------------------------------------------- */

/* An integer from 1 to most; absent or null: `otherwise`, which is an error if negative. */
static int need_count(const struct json *doc, const char *key, int64_t most, int64_t otherwise,
                      int64_t *out, struct err *e)
{
    const struct json *v = json_get(doc, key);
    if (json_kind(v) == JSON_NULL) {
        *out = otherwise;
        return otherwise < 0 ? err_set(e, "\"%s\" is missing", key) : 0;
    }
    *out = json_int(v, 0);
    if (json_kind(v) != JSON_INT || *out < 1 || *out > most)
        return err_set(e, "\"%s\" is no integer from 1 to %lld", key, (long long)most);
    return 0;
}

static int need_real(const struct json *doc, const char *key, double otherwise, double most,
                     double *out, struct err *e)
{
    const struct json *v = json_get(doc, key);
    *out = json_kind(v) == JSON_NULL ? otherwise : json_num(v);
    if (!(*out >= 0 && *out <= most))
        return err_set(e, "\"%s\" is no number from 0 to %g", key, most);
    return 0;
}

static int need_bool(const struct json *doc, const char *key, bool otherwise, bool *out,
                     struct err *e)
{
    const struct json *v = json_get(doc, key);
    *out = json_kind(v) == JSON_NULL ? otherwise : json_bool(v);
    if (json_kind(v) != JSON_NULL && json_kind(v) != JSON_BOOL)
        return err_set(e, "\"%s\" is neither true nor false", key);
    return 0;
}

/* What is not GPT-2's arithmetic. */
static int check_kind(const struct json *doc, struct err *e)
{
    static const struct {
        const char *key;
        bool ours;
    } switches[] = {
        {"scale_attn_weights", true},
        {"scale_attn_by_inverse_layer_idx", false},
        {"add_cross_attention", false},
    };
    struct str kind = json_str(json_get(doc, "model_type"));
    struct str act = json_str(json_get(doc, "activation_function"));
    if (json_kind(doc) != JSON_OBJ)
        return err_set(e, "no JSON object");
    if (json_get(doc, "model_type") && !str_eqz(kind, "gpt2"))
        return err_set(e, "\"model_type\" is \"%.*s\", want gpt2", STR_ARG(kind));
    if (json_get(doc, "activation_function") && !str_eqz(act, "gelu_new") &&
        !str_eqz(act, "gelu_pytorch_tanh"))
        return err_set(e, "\"activation_function\" is \"%.*s\", want gelu_new or gelu_pytorch_tanh",
                       STR_ARG(act));
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        bool on;
        if (need_bool(doc, switches[i].key, switches[i].ours, &on, e))
            return -1;
        if (on != switches[i].ours)
            return err_set(e, "\"%s\" is %s, which is not supported", switches[i].key,
                           on ? "true" : "false");
    }
    return 0;
}

/* One dropout stands for three; they decide nothing but fine-tuning. */
static int read_dropout(const struct json *doc, const char *path, struct model_config *c,
                        struct err *e)
{
    double embd, attn;
    if (need_real(doc, "resid_pdrop", 0.1, 0.99, &c->dropout, e) ||
        need_real(doc, "embd_pdrop", 0.1, 0.99, &embd, e) ||
        need_real(doc, "attn_pdrop", 0.1, 0.99, &attn, e))
        return -1;
    if (embd != c->dropout || attn != c->dropout)
        log_warn("%s: three different dropouts; resid_pdrop %g stands for all", path, c->dropout);
    return 0;
}

/* Config of an LLMs-from-scratch model; its head and biases are seen in the tensors. */
static int read_scratch(const struct json *doc, struct model_config *c, struct err *e)
{
    *c = (struct model_config){.qkv_bias = true, .norm_eps = 1e-5, .init_std = 0.02};
    if (need_count(doc, "n_layers", 1024, -1, &c->layers, e) ||
        need_count(doc, "n_heads", 1024, -1, &c->heads, e) ||
        need_count(doc, "emb_dim", 65536, -1, &c->width, e) ||
        need_count(doc, "vocab_size", 16777216, -1, &c->vocab, e) ||
        need_count(doc, "context_length", 1048576, -1, &c->context, e) ||
        need_real(doc, "drop_rate", 0, 0.99, &c->dropout, e) ||
        need_bool(doc, "qkv_bias", true, &c->qkv_bias, e))
        return -1;
    if (c->width % c->heads)
        return err_set(e, "\"n_heads\" %lld does not divide \"emb_dim\" %lld", (long long)c->heads,
                       (long long)c->width);
    return 0;
}

static int read_shape(const struct json *doc, struct model_config *c, struct err *e)
{
    int64_t ctx;
    if (need_count(doc, "n_layer", 1024, -1, &c->layers, e) ||
        need_count(doc, "n_head", 1024, -1, &c->heads, e) ||
        need_count(doc, "n_embd", 65536, -1, &c->width, e) ||
        need_count(doc, "vocab_size", 16777216, -1, &c->vocab, e) ||
        need_count(doc, "n_inner", 1048576, 0, &c->inner, e) ||
        need_count(doc, "n_ctx", 1048576, 0, &ctx, e) ||
        need_count(doc, "n_positions", 1048576, ctx ? ctx : -1, &c->context, e))
        return -1;
    if (c->width % c->heads)
        return err_set(e, "\"n_head\" %lld does not divide \"n_embd\" %lld", (long long)c->heads,
                       (long long)c->width);
    return 0;
}

/* The end-of-text id: GPT2Config's default is 50256, which a smaller vocabulary cannot mean. Test
 * models often name an id that they do not have: they have none. */
static int read_eos(const struct json *doc, int64_t vocab, int64_t *eos, struct err *e)
{
    const struct json *v = json_get(doc, "eos_token_id");
    *eos = v ? json_int(v, -1) : 50256;
    if (v && json_kind(v) != JSON_NULL && (json_kind(v) != JSON_INT || *eos < 0))
        return err_set(e, "\"eos_token_id\" is no id");
    if (*eos >= vocab)
        *eos = -1;
    return 0;
}

int hf_config_read(const char *dir, struct model_config *c, int64_t *eos, struct err *e)
{
    struct arena a = {0};
    const char *path = path_join(&a, dir, "config.json");
    if (!file_exists(path) && file_exists(path_join(&a, dir, "model.json")))
        path = path_join(&a, dir, "model.json");
    struct json *doc = json_read(path, e);
    int rc = -1;
    *c = (struct model_config){0};
    if (!doc)
        goto out;
    if (json_get(doc, "emb_dim")) {
        rc = read_scratch(doc, c, e) ? err_wrap(e, "%s", path) : 0;
        *eos = !rc && c->vocab == 50257 ? 50256 : -1; /* GPT-2's vocabulary has it there */
        goto out;
    }
    if (check_kind(doc, e) || read_shape(doc, c, e) || read_dropout(doc, path, c, e) ||
        read_eos(doc, c->vocab, eos, e) ||
        need_real(doc, "layer_norm_epsilon", 1e-5, 1, &c->norm_eps, e) ||
        need_real(doc, "initializer_range", 0.02, 10, &c->init_std, e) ||
        need_bool(doc, "tie_word_embeddings", true, &c->tied, e) ||
        need_bool(doc, "assay_qkv_bias", true, &c->qkv_bias, e)) {
        err_wrap(e, "%s", path);
        goto out;
    }
    rc = 0;
out:
    json_free(doc);
    arena_release(&a);
    return rc;
}

/* ---- writing -------------------------------------------------------------------------------- */

int hf_config_write(const char *dir, const struct model_config *c, int64_t eos, struct err *e)
{
    struct arena a = {0};
    struct buf text = {0};
    struct json *doc = json_obj(), *archs = json_arr();
    json_push(archs, json_of_z("GPT2LMHeadModel"));
    json_put(doc, "model_type", json_of_z("gpt2"));
    json_put(doc, "architectures", archs);
    json_put(doc, "vocab_size", json_of_int(c->vocab));
    json_put(doc, "n_positions", json_of_int(c->context));
    json_put(doc, "n_ctx", json_of_int(c->context));
    json_put(doc, "n_embd", json_of_int(c->width));
    json_put(doc, "n_layer", json_of_int(c->layers));
    json_put(doc, "n_head", json_of_int(c->heads));
    json_put(doc, "n_inner", json_of_int(c->inner ? c->inner : 4 * c->width));
    json_put(doc, "activation_function", json_of_z("gelu_new"));
    json_put(doc, "layer_norm_epsilon", json_of_num(c->norm_eps));
    json_put(doc, "initializer_range", json_of_num(c->init_std));
    json_put(doc, "resid_pdrop", json_of_num(c->dropout));
    json_put(doc, "embd_pdrop", json_of_num(c->dropout));
    json_put(doc, "attn_pdrop", json_of_num(c->dropout));
    json_put(doc, "tie_word_embeddings", json_of_bool(c->tied));
    json_put(doc, "torch_dtype", json_of_z("float32"));
    if (eos >= 0) {
        json_put(doc, "bos_token_id", json_of_int(eos));
        json_put(doc, "eos_token_id", json_of_int(eos));
    } else { /* left out, transformers would take GPT-2's, 50256 */
        json_put(doc, "bos_token_id", json_of_null());
        json_put(doc, "eos_token_id", json_of_null());
    }
    json_put(doc, "assay_qkv_bias", json_of_bool(c->qkv_bias));
    json_write_pretty(doc, &text);
    int rc = file_write_all(path_join(&a, dir, "config.json"), buf_str(&text), e);
    json_free(doc);
    buf_release(&text);
    arena_release(&a);
    return rc;
}

struct str manifest_vocab(struct arena *a, const char *artefact)
{
    struct err none; /* one that cannot be read says nothing; its stage will */
    struct json *doc = manifest_read(artefact, &none);
    const struct json *facts = json_get(doc, "facts"), *hash = json_get(facts, "vocab_hash");
    struct str found = str_copy(a, json_str(hash ? hash : json_get(facts, "vocab")));
    json_free(doc);
    return found;
}

const char *checkpoint_resolve(struct arena *a, const char *dir, struct err *e)
{
    const char *latest = path_join(a, dir, "latest");
    if (file_exists(path_join(a, dir, "config.json")) ||
        file_exists(path_join(a, dir, "model.json")))
        return arena_strdup(a, dir);
    if (llmc_is_model(dir))
        return arena_strdup(a, dir);
    if (file_exists(path_join(a, latest, "config.json")))
        return latest;
    if (!file_exists(dir))
        err_set(e, "%s: No such file or directory", dir);
    else if (!file_is_dir(dir))
        err_set(e, "%s: is a file, want a checkpoint folder or a model file of llm.c", dir);
    else
        err_set(
            e, "%s: no checkpoint in it: neither config.json nor latest/config.json%s", dir,
            file_is_dir(path_join(a, dir, ".replaced/latest"))
                ? "; a run that was ended before its own put the one before into .replaced: run "
                  "either again, and its checkpoint is there"
                : "");
    return NULL;
}
