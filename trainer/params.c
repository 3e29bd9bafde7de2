/* params: the table of a GPT-2's parameter tensors.
 *
 * One row a tensor, in the order of the flat vector. Allocation, initialisation, decay and the
 * checkpoint all walk this table, so a tensor that is not in it does not exist. Names and shapes
 * ([in, out]) are Hugging Face's, without "transformer.". Initialisation is that of Radford et al.
 * 2019, section 2.3: normal(0, init_std), weights that write into the residual stream scaled by
 * 1 / sqrt(2 * layers), norms 1 and 0, biases 0.
 */
#include "trainer/gpt2.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* More than any machine holds; keeps all products below far from an int64's end. */
#define MOST_ELEMENTS ((int64_t)1 << 46)

static int64_t inner_of(const struct model_config *c)
{
    return c->inner ? c->inner : 4 * c->width;
}

int64_t params_count(const struct model_config *c)
{
    int64_t w = c->width, f = inner_of(c);
    int64_t block = 4 * w + 3 * w * w + (c->qkv_bias ? 3 * w : 0) + w * w + w + 2 * w * f + f + w;
    return (c->vocab + c->context) * w + c->layers * block + 2 * w + (c->tied ? 0 : c->vocab * w);
}

int model_config_check(const struct model_config *c, struct err *e)
{
    const struct {
        const char *name;
        int64_t v, most;
    } rows[] = {{"layers", c->layers, 1024},
                {"heads", c->heads, 1024},
                {"width", c->width, 65536},
                {"context", c->context, 1048576},
                {"vocab", c->vocab, 16777216}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].v < 1 || rows[i].v > rows[i].most)
            return err_code(e, EXIT_USAGE, "model.%s = %lld is not between 1 and %lld",
                            rows[i].name, (long long)rows[i].v, (long long)rows[i].most);
    if (c->inner < 0 || c->inner > 1048576)
        return err_code(e, EXIT_USAGE, "model.inner = %lld is not between 0 and 1048576",
                        (long long)c->inner);
    if (c->width % c->heads != 0)
        return err_code(e, EXIT_USAGE, "model.heads = %lld does not divide model.width = %lld",
                        (long long)c->heads, (long long)c->width);
    if (!(c->dropout >= 0 && c->dropout < 1))
        return err_code(e, EXIT_USAGE, "model.dropout = %g is not in [0, 1)", c->dropout);
    if (!(c->norm_eps >= 0 && isfinite(c->norm_eps)))
        return err_code(e, EXIT_USAGE, "model.norm_eps = %g is no small number", c->norm_eps);
    if (params_count(c) > MOST_ELEMENTS)
        return err_code(e, EXIT_USAGE, "a model of %lld parameters is beyond this tool",
                        (long long)params_count(c));
    return 0;
}

static struct param *row(struct params *p, const char *name, int ndim, int64_t rows, int64_t cols)
{
    struct param *r = &p->v[p->n++];
    snprintf(r->name, sizeof r->name, "%s", name);
    r->ndim = ndim;
    r->dim[0] = rows;
    r->dim[1] = ndim == 2 ? cols : 1;
    r->count = r->dim[0] * r->dim[1];
    r->room = r->count;
    r->at = p->count;
    p->count += r->count;
    return r;
}

static void add_matrix(struct params *p, const char *name, int64_t rows, int64_t cols, double std)
{
    struct param *r = row(p, name, 2, rows, cols);
    r->init_std = std;
    r->matrix = true;
}

/* Zeros behind a matrix, up to a multiple of rows. */
static void pad_rows(struct params *p, int64_t multiple)
{
    struct param *r = &p->v[p->n - 1];
    int64_t rows = (r->dim[0] + multiple - 1) / multiple * multiple;
    r->room = rows * r->dim[1];
    p->count += r->room - r->count;
}

static void add_vector(struct params *p, const char *name, int64_t n, double value)
{
    row(p, name, 1, n, 1)->init_value = value;
}

static void add_block(struct params *p, const struct model_config *c, int64_t layer)
{
    int64_t w = c->width, f = inner_of(c);
    double std = c->init_std, residual = std / sqrt(2.0 * (double)c->layers);
    char name[64], *tail = name + snprintf(name, sizeof name, "h.%lld.", (long long)layer);
    size_t room = sizeof name - (size_t)(tail - name);

#define NAME(z) (snprintf(tail, room, "%s", (z)), name)
    add_vector(p, NAME("ln_1.weight"), w, 1);
    add_vector(p, NAME("ln_1.bias"), w, 0);
    add_matrix(p, NAME("attn.c_attn.weight"), w, 3 * w, std);
    if (c->qkv_bias)
        add_vector(p, NAME("attn.c_attn.bias"), 3 * w, 0);
    add_matrix(p, NAME("attn.c_proj.weight"), w, w, residual);
    add_vector(p, NAME("attn.c_proj.bias"), w, 0);
    add_vector(p, NAME("ln_2.weight"), w, 1);
    add_vector(p, NAME("ln_2.bias"), w, 0);
    add_matrix(p, NAME("mlp.c_fc.weight"), w, f, std);
    add_vector(p, NAME("mlp.c_fc.bias"), f, 0);
    add_matrix(p, NAME("mlp.c_proj.weight"), f, w, residual);
    add_vector(p, NAME("mlp.c_proj.bias"), w, 0);
#undef NAME
}

int params_make(struct params *p, const struct model_config *c, int64_t vocab_pad, struct arena *a,
                struct err *e)
{
    memset(p, 0, sizeof *p);
    if (model_config_check(c, e))
        return -1;
    p->v = arena_array(a, (size_t)(5 + 12 * c->layers), sizeof *p->v);
    add_matrix(p, "wte.weight", c->vocab, c->width, c->init_std);
    if (c->tied)
        pad_rows(p, vocab_pad);
    add_matrix(p, "wpe.weight", c->context, c->width, c->init_std);
    for (int64_t l = 0; l < c->layers; l++)
        add_block(p, c, l);
    add_vector(p, "ln_f.weight", c->width, 1);
    add_vector(p, "ln_f.bias", c->width, 0);
    if (!c->tied) {
        add_matrix(p, "lm_head.weight", c->vocab, c->width, c->init_std);
        pad_rows(p, vocab_pad);
    }
    return 0;
}
