/* gguf: see formats/gguf.h. Numbers are little-endian, as the machines that this runs on. */
#include "formats/gguf.h"

#include <string.h>

enum {
    VERSION = 3,
    ALIGN = 32,
    TYPE_U32 = 4,
    TYPE_I32 = 5,
    TYPE_F32 = 6,
    TYPE_BOOL = 7,
    TYPE_STR = 8,
    TYPE_ARRAY = 9
};
enum { TENSOR_F32 = 0 };

static void put32(struct buf *b, uint32_t v)
{
    buf_add(b, &v, sizeof v);
}
static void put64(struct buf *b, uint64_t v)
{
    buf_add(b, &v, sizeof v);
}
static void put_str(struct buf *b, struct str s)
{
    put64(b, s.n);
    buf_adds(b, s);
}

static void key(struct gguf *g, const char *name, uint32_t type)
{
    put_str(&g->meta, str_z(name));
    put32(&g->meta, type);
    g->nmeta++;
}

void gguf_str(struct gguf *g, const char *name, struct str v)
{
    key(g, name, TYPE_STR);
    put_str(&g->meta, v);
}

void gguf_u32(struct gguf *g, const char *name, uint32_t v)
{
    key(g, name, TYPE_U32);
    put32(&g->meta, v);
}

void gguf_f32(struct gguf *g, const char *name, float v)
{
    key(g, name, TYPE_F32);
    buf_add(&g->meta, &v, sizeof v);
}

void gguf_bool(struct gguf *g, const char *name, bool v)
{
    key(g, name, TYPE_BOOL);
    buf_addc(&g->meta, v);
}

void gguf_strs(struct gguf *g, const char *name, struct strs v)
{
    key(g, name, TYPE_ARRAY);
    put32(&g->meta, TYPE_STR);
    put64(&g->meta, v.n);
    for (size_t i = 0; i < v.n; i++)
        put_str(&g->meta, v.v[i]);
}

void gguf_i32s(struct gguf *g, const char *name, const int32_t *v, size_t n)
{
    key(g, name, TYPE_ARRAY);
    put32(&g->meta, TYPE_I32);
    put64(&g->meta, n);
    buf_add(&g->meta, v, n * sizeof *v);
}

void gguf_tensor(struct gguf *g, const char *name, int64_t rows, int64_t cols)
{
    put_str(&g->tensors, str_z(name));
    put32(&g->tensors, cols ? 2 : 1);
    if (cols)
        put64(&g->tensors, (uint64_t)cols);
    put64(&g->tensors, (uint64_t)rows);
    put32(&g->tensors, TENSOR_F32);
    put64(&g->tensors, g->at);
    g->at += (uint64_t)(rows * (cols ? cols : 1)) * sizeof(float);
    g->at = (g->at + ALIGN - 1) / ALIGN * ALIGN;
    g->ntensors++;
}

static int pad(struct gguf *g, uint64_t written, struct err *e)
{
    static const char zeros[ALIGN];
    return file_put(&g->out, zeros, (size_t)((ALIGN - written % ALIGN) % ALIGN), e);
}

int gguf_create(struct gguf *g, const char *path, struct err *e)
{
    struct buf head = {0};
    buf_addz(&head, "GGUF");
    put32(&head, VERSION);
    put64(&head, g->ntensors);
    put64(&head, g->nmeta);
    int rc = file_create(&g->out, path, e) || file_puts(&g->out, buf_str(&head), e) ||
                     file_puts(&g->out, buf_str(&g->meta), e) ||
                     file_puts(&g->out, buf_str(&g->tensors), e) ||
                     pad(g, head.n + g->meta.n + g->tensors.n, e)
                 ? -1
                 : 0;
    buf_release(&head);
    return rc;
}

int gguf_put(struct gguf *g, const float *v, int64_t n, struct err *e)
{
    uint64_t bytes = (uint64_t)n * sizeof *v;
    g->given += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return file_put(&g->out, v, (size_t)bytes, e) || pad(g, bytes, e) ? -1 : 0;
}

int gguf_commit(struct gguf *g, struct err *e)
{
    if (g->given != g->at)
        return err_set(e, "gguf: %llu bytes of tensors were declared, %llu given",
                       (unsigned long long)g->at, (unsigned long long)g->given);
    return file_commit(&g->out, e);
}

void gguf_release(struct gguf *g)
{
    file_abort(&g->out);
    buf_release(&g->meta);
    buf_release(&g->tensors);
}
