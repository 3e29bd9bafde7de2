/* export_gguf: a GPT-2 as llama.cpp wants it (its convert_hf_to_gguf.py, class GPT2Model, and
 * src/llama-arch.cpp say names and shapes): linear weights [out, in], tokens as texts in GPT-2's
 * alphabet for bytes, merges as pairs of these.
 */
#include <stdlib.h>
#include <string.h>

#include "eval/export.h"
#include "formats/gguf.h"

enum { TOKEN_NORMAL = 1, TOKEN_CONTROL = 3, TOKEN_UNUSED = 5 };

/* Our split patterns under llama.cpp's names. */
static const char *pre_of(const char *pattern)
{
    static const char *const names[][2] = {{"gpt2", "gpt-2"},
                                           {"cl100k", "dbrx"},
                                           {"o200k", "gpt-4o"},
                                           {"llama3", "llama-bpe"},
                                           {"qwen2", "qwen2"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(pattern, names[i][0]) == 0)
            return names[i][1];
    return NULL;
}

/* GPT-2's alphabet: printable bytes of Latin-1 stand for themselves, the others for the code points
 * from U+0100 on in their order. */
static struct str spell(struct str bytes, struct arena *a)
{
    uint32_t map[256], next = 256;
    struct buf b = {0};
    char c[4];
    for (uint32_t i = 0; i < 256; i++) {
        bool self = (i >= '!' && i <= '~') || (i >= 0xA1 && i <= 0xAC) || i >= 0xAE;
        map[i] = self ? i : next++;
    }
    for (size_t i = 0; i < bytes.n; i++)
        buf_add(&b, c, (size_t)utf8_put(c, map[(unsigned char)bytes.p[i]]));
    struct str s = str_copy(a, buf_str(&b));
    buf_release(&b);
    return s;
}

static int put_vocab(struct gguf *g, const struct local_model *l, const struct vocab *v,
                     struct arena *a, struct err *e)
{
    size_t n = (size_t)l->config.vocab, nmerges;
    struct strs tokens = {arena_array(a, n, sizeof(struct str)), n}, merges;
    int32_t *type = arena_array(a, n, sizeof *type);
    struct merge *m;
    struct str left, right;
    const char *pre = pre_of(v->pattern->name);
    if (!pre)
        return err_set(e, "llama.cpp has no name for the split pattern %s", v->pattern->name);
    if (vocab_merges(v, a, &m, &nmerges, e))
        return -1;
    for (size_t i = 0; i < n; i++) {
        enum token_kind kind = vocab_kind(v, (int64_t)i);
        type[i] = kind == TOKEN_ORDINARY  ? TOKEN_NORMAL
                  : kind == TOKEN_SPECIAL ? TOKEN_CONTROL
                                          : TOKEN_UNUSED;
        if (vocab_bytes(v, (int64_t)i, &tokens.v[i]))
            tokens.v[i] = kind == TOKEN_SPECIAL ? tokens.v[i] : spell(tokens.v[i], a);
        else
            tokens.v[i] = str_printf(a, "[PAD%zu]", i);
    }
    merges = (struct strs){arena_array(a, nmerges, sizeof(struct str)), nmerges};
    for (size_t i = 0; i < nmerges; i++) {
        vocab_bytes(v, m[i].left, &left);
        vocab_bytes(v, m[i].right, &right);
        left = spell(left, a);
        right = spell(right, a);
        merges.v[i] = str_printf(a, "%.*s %.*s", STR_ARG(left), STR_ARG(right));
    }
    gguf_str(g, "tokenizer.ggml.model", STR_LIT("gpt2"));
    gguf_str(g, "tokenizer.ggml.pre", str_z(pre));
    gguf_strs(g, "tokenizer.ggml.tokens", tokens);
    gguf_i32s(g, "tokenizer.ggml.token_type", type, n);
    gguf_strs(g, "tokenizer.ggml.merges", merges);
    gguf_bool(g, "tokenizer.ggml.add_bos_token", false);
    int32_t eot = local_eot(l, v);
    if (eot >= 0) {
        gguf_u32(g, "tokenizer.ggml.bos_token_id", (uint32_t)eot);
        gguf_u32(g, "tokenizer.ggml.eos_token_id", (uint32_t)eot);
    }
    return 0;
}

static void put_shape(struct gguf *g, const struct model_config *c, const char *name)
{
    gguf_str(g, "general.architecture", STR_LIT("gpt2"));
    gguf_str(g, "general.name", str_z(name));
    gguf_u32(g, "general.file_type", 0); /* all float32 */
    gguf_u32(g, "general.alignment", 32);
    gguf_u32(g, "gpt2.block_count", (uint32_t)c->layers);
    gguf_u32(g, "gpt2.context_length", (uint32_t)c->context);
    gguf_u32(g, "gpt2.embedding_length", (uint32_t)c->width);
    gguf_u32(g, "gpt2.feed_forward_length", (uint32_t)(c->inner ? c->inner : 4 * c->width));
    gguf_u32(g, "gpt2.attention.head_count", (uint32_t)c->heads);
    gguf_f32(g, "gpt2.attention.layer_norm_epsilon", (float)c->norm_eps);
}

/* ---- tensors -------------------------------------------------------------------------------- */

static const struct {
    const char *ours, *theirs;
    bool linear; /* [in, out] here, [out, in] there */
} tensors[] = {
    {"attn.c_attn.weight", "attn_qkv.weight", true},
    {"attn.c_attn.bias", "attn_qkv.bias", false},
    {"attn.c_proj.weight", "attn_output.weight", true},
    {"attn.c_proj.bias", "attn_output.bias", false},
    {"mlp.c_fc.weight", "ffn_up.weight", true},
    {"mlp.c_fc.bias", "ffn_up.bias", false},
    {"mlp.c_proj.weight", "ffn_down.weight", true},
    {"mlp.c_proj.bias", "ffn_down.bias", false},
    {"ln_1.weight", "attn_norm.weight", false},
    {"ln_1.bias", "attn_norm.bias", false},
    {"ln_2.weight", "ffn_norm.weight", false},
    {"ln_2.bias", "ffn_norm.bias", false},
    {"wte.weight", "token_embd.weight", false},
    {"wpe.weight", "position_embd.weight", false},
    {"ln_f.weight", "output_norm.weight", false},
    {"ln_f.bias", "output_norm.bias", false},
    {"lm_head.weight", "output.weight", false},
};

/* Their name of a tensor of ours; *linear: to be transposed. */
static const char *name_of(const char *ours, bool *linear, struct arena *a)
{
    const char *rest = ours;
    long layer = -1;
    if (strncmp(ours, "h.", 2) == 0) {
        char *end;
        layer = strtol(ours + 2, &end, 10);
        rest = end + 1;
    }
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        if (strcmp(rest, tensors[i].ours) == 0) {
            *linear = tensors[i].linear;
            return layer < 0 ? tensors[i].theirs
                             : arena_printf(a, "blk.%ld.%s", layer, tensors[i].theirs);
        }
    return NULL;
}

/* declare: headers; else data. A model without q/k/v bias gets zeros behind each c_attn.weight. */
static int put_tensors(struct gguf *g, const struct local_model *l, const float *flat, bool declare,
                       struct arena *a, struct err *e)
{
    const struct params *p = gpt2_params(l->m);
    int rc = 0;
    for (int i = 0; i < p->n && !rc; i++) {
        const struct param *x = &p->v[i];
        bool linear = false, lacks = !l->config.qkv_bias && strstr(x->name, ".c_attn.weight");
        const char *name = name_of(x->name, &linear, a);
        int64_t in = x->dim[0], out = x->dim[1];
        if (!name)
            return err_set(e, "llama.cpp has no tensor %s", x->name);
        if (declare) {
            gguf_tensor(g, name, x->ndim == 1 || !linear ? in : out,
                        x->ndim == 1 ? 0
                        : linear     ? in
                                     : out);
            if (lacks)
                gguf_tensor(g, arena_printf(a, "%.*sbias", (int)strlen(name) - 6, name), out, 0);
            continue;
        }
        float *v = mem_array((size_t)x->count, sizeof *v);
        if (linear)
            for (int64_t r = 0; r < in; r++)
                for (int64_t c = 0; c < out; c++)
                    v[c * in + r] = flat[x->at + r * out + c];
        else
            memcpy(v, flat + x->at, (size_t)x->count * sizeof *v);
        rc = gguf_put(g, v, x->count, e);
        if (!rc && lacks) {
            memset(v, 0, (size_t)out * sizeof *v);
            rc = gguf_put(g, v, out, e);
        }
        free(v);
    }
    return rc;
}

int export_gguf(const struct local_model *l, const struct vocab *v, const char *name,
                const char *path, struct err *e)
{
    struct gguf g = {0};
    struct arena a = {0};
    float *flat = mem_array((size_t)gpt2_params(l->m)->count, sizeof *flat);
    int rc = -1;
    put_shape(&g, &l->config, name);
    if (put_vocab(&g, l, v, &a, e) || gpt2_get(l->m, 'w', flat, e) ||
        put_tensors(&g, l, flat, true, &a, e) || gguf_create(&g, path, e) ||
        put_tensors(&g, l, flat, false, &a, e) || gguf_commit(&g, e))
        goto out;
    rc = 0;
out:
    gguf_release(&g);
    free(flat);
    arena_release(&a);
    return rc;
}
