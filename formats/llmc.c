/* llmc: see formats/llmc.h. */
#include "formats/llmc.h"

#include <stdio.h>
#include <string.h>

enum { HEADER = 256, MAGIC = 20240326, VERSION_F32 = 3, VERSION_BF16 = 5 };

/* The 16 tensors in file order. rows: "V" vocabulary (stored padded), "T" positions, else outputs in
 * units of the width; cols 0: a vector. */
static const struct kind {
    const char *name;
    int layered;
    int rows, cols; /* in units of the width; ROWS_*: instead of rows */
} kinds[] = {
    {"wte.weight", 0, -1, 1},        {"wpe.weight", 0, -2, 1},        {"ln_1.weight", 1, 1, 0},
    {"ln_1.bias", 1, 1, 0},          {"attn.c_attn.weight", 1, 3, 1}, {"attn.c_attn.bias", 1, 3, 0},
    {"attn.c_proj.weight", 1, 1, 1}, {"attn.c_proj.bias", 1, 1, 0},   {"ln_2.weight", 1, 1, 0},
    {"ln_2.bias", 1, 1, 0},          {"mlp.c_fc.weight", 1, 4, 1},    {"mlp.c_fc.bias", 1, 4, 0},
    {"mlp.c_proj.weight", 1, 1, 4},  {"mlp.c_proj.bias", 1, 1, 0},    {"ln_f.weight", 0, 1, 0},
    {"ln_f.bias", 0, 1, 0},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static int32_t word(const unsigned char *p, int i)
{
    p += 4 * i;
    return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                     (uint32_t)p[3] << 24);
}

bool llmc_is_model(const char *path)
{
    unsigned char head[4];
    FILE *f = file_is_dir(path) ? NULL : fopen(path, "rb");
    bool is = f && fread(head, 1, 4, f) == 4 && word(head, 0) == MAGIC;
    if (f)
        fclose(f);
    return is;
}

static int read_header(struct llmc_model *m, int64_t *padded, size_t *element, struct err *e)
{
    static const struct {
        const char *name;
        int at;
        int64_t most;
    } counts[] = {{"positions", 2, 1048576}, {"vocabulary", 3, 16777216},
                  {"layers", 4, 1024},       {"heads", 5, 1024},
                  {"width", 6, 65536},       {"padded vocabulary", 7, 16777216}};
    int64_t v[6];
    if (m->map.n < HEADER * 4)
        return err_set(e, "%zu bytes are no header of 1024", m->map.n);
    if (word(m->map.p, 0) != MAGIC)
        return err_set(e, "magic %d, a model of llm.c has %d", word(m->map.p, 0), MAGIC);
    int32_t version = word(m->map.p, 1);
    if (version != VERSION_F32 && version != VERSION_BF16)
        return err_set(e, "version %d, want 3 (float32) or 5 (bfloat16)", version);
    for (int i = 0; i < 6; i++) {
        v[i] = word(m->map.p, counts[i].at);
        if (v[i] < 1 || v[i] > counts[i].most)
            return err_set(e, "%s %lld is not between 1 and %lld", counts[i].name, (long long)v[i],
                           (long long)counts[i].most);
    }
    if (v[5] < v[1])
        return err_set(e, "%lld rows of embedding for a vocabulary of %lld", (long long)v[5],
                       (long long)v[1]);
    if (v[4] % v[3])
        return err_set(e, "%lld heads do not divide a width of %lld", (long long)v[3],
                       (long long)v[4]);
    m->config = (struct model_config){.layers = v[2],
                                      .heads = v[3],
                                      .width = v[4],
                                      .context = v[0],
                                      .vocab = v[1],
                                      .qkv_bias = true,
                                      .tied = true,
                                      .norm_eps = 1e-5,
                                      .init_std = 0.02};
    *padded = v[5];
    *element = version == VERSION_F32 ? 4 : 2;
    return 0;
}

/* Rows as stored and as meant. */
static int64_t rows_of(const struct kind *k, const struct model_config *c, int64_t padded,
                       int64_t *meant)
{
    int64_t rows = k->rows == -1 ? padded : k->rows == -2 ? c->context : k->rows * c->width;
    *meant = k->rows == -1 ? c->vocab : rows;
    return rows;
}

static int place(struct llmc_model *m, int64_t padded, size_t element, struct err *e)
{
    const struct model_config *c = &m->config;
    uint64_t want = HEADER * 4;
    const unsigned char *p = m->map.p + HEADER * 4;
    int64_t meant;
    for (int i = 0; i < KINDS; i++) { /* at most 2^24 * 2^16 * 4 * 2^10 * 4 < 2^63 */
        int64_t rows = rows_of(&kinds[i], c, padded, &meant);
        int64_t cols = kinds[i].cols ? kinds[i].cols * c->width : 1;
        want += (uint64_t)(rows * cols * (kinds[i].layered ? c->layers : 1)) * element;
    }
    if (want != m->map.n)
        return err_set(e, "%zu bytes, its header wants %llu", m->map.n, (unsigned long long)want);
    m->v = arena_array(&m->arena, (size_t)(KINDS * c->layers), sizeof *m->v);
    for (int i = 0; i < KINDS; i++) {
        const struct kind *k = &kinds[i];
        int64_t rows = rows_of(k, c, padded, &meant), cols = k->cols ? k->cols * c->width : 1;
        for (int64_t l = 0; l < (k->layered ? c->layers : 1); l++) {
            struct st_tensor *t = &m->v[m->n++];
            t->name =
                k->layered ? arena_printf(&m->arena, "h.%lld.%s", (long long)l, k->name) : k->name;
            t->dtype = element == 4 ? ST_F32 : ST_BF16;
            t->ndim = k->cols ? 2 : 1;
            t->dim[0] = meant;
            t->dim[1] = k->cols ? cols : 0;
            t->data = p;
            t->count = meant * cols;
            t->bytes = (size_t)t->count * element;
            p += (size_t)(rows * cols) * element;
        }
    }
    return 0;
}

int llmc_model_open(struct llmc_model *m, const char *path, struct err *e)
{
    int64_t padded = 0;
    size_t element = 0;
    *m = (struct llmc_model){0};
    if (file_map(path, &m->map, e))
        return -1;
    if (read_header(m, &padded, &element, e) || place(m, padded, element, e)) {
        llmc_model_close(m);
        return err_wrap(e, "%s", path);
    }
    return 0;
}

void llmc_model_close(struct llmc_model *m)
{
    file_unmap(&m->map);
    arena_release(&m->arena);
    *m = (struct llmc_model){0};
}
