/* safetensors_write: the header first, so all tensors are declared before the first is given. The
 * header is padded with spaces so that the data starts at a multiple of 8 bytes, as the reference
 * implementation does; metadata and tensors stand in the order of their declaration.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint.h"
#include "formats/safetensors.h"

struct st_writer {
    struct file_out out;
    struct json *header, *meta;
    size_t *bytes; /* of each declared tensor */
    size_t n, cap, given;
    int64_t at;
    bool head_written;
};

struct st_writer *safetensors_create(const char *path, struct err *e)
{
    struct st_writer *w = mem_zero(sizeof *w);
    w->header = json_obj();
    if (file_create(&w->out, path, e)) {
        safetensors_abort(w);
        return NULL;
    }
    return w;
}

void safetensors_meta_set(struct st_writer *w, const char *key, const char *value)
{
    assert(!w->head_written);
    if (!w->meta) {
        w->meta = json_obj();
        json_put(w->header, "__metadata__", w->meta);
    }
    json_put(w->meta, key, json_of_z(value));
}

void safetensors_declare(struct st_writer *w, const char *name, enum st_dtype t, int ndim,
                         const int64_t *dim)
{
    struct json *v = json_obj(), *shape = json_arr(), *offsets = json_arr();
    int64_t bytes = (int64_t)st_dtype_size(t);
    assert(!w->head_written && !json_get(w->header, name) && ndim <= 8);
    for (int i = 0; i < ndim; i++) {
        json_push(shape, json_of_int(dim[i]));
        bytes *= dim[i];
    }
    json_push(offsets, json_of_int(w->at));
    w->at += bytes;
    json_push(offsets, json_of_int(w->at));
    json_put(v, "dtype", json_of_z(st_dtype_name(t)));
    json_put(v, "shape", shape);
    json_put(v, "data_offsets", offsets);
    json_put(w->header, name, v);
    if (w->n == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 64;
        w->bytes = mem_grow(w->bytes, w->cap * sizeof *w->bytes);
    }
    w->bytes[w->n++] = (size_t)bytes;
}

static int write_head(struct st_writer *w, struct err *e)
{
    struct buf text = {0};
    unsigned char len[8];
    json_write(w->header, &text);
    while (text.n % 8)
        buf_addc(&text, ' ');
    for (int i = 0; i < 8; i++)
        len[i] = (unsigned char)((uint64_t)text.n >> 8 * i);
    int rc = file_put(&w->out, len, sizeof len, e) || file_puts(&w->out, buf_str(&text), e);
    buf_release(&text);
    w->head_written = true;
    return rc ? -1 : 0;
}

int safetensors_put(struct st_writer *w, const void *data, size_t bytes, struct err *e)
{
    if (!w->head_written && write_head(w, e))
        return -1;
    assert(w->given < w->n && bytes == w->bytes[w->given]);
    w->given++;
    return file_put(&w->out, data, bytes, e);
}

int safetensors_finish(struct st_writer *w, struct err *e)
{
    assert(w->given == w->n && "every declared tensor was given");
    int rc = w->head_written ? 0 : write_head(w, e);
    if (!rc)
        rc = file_commit(&w->out, e);
    safetensors_abort(w);
    return rc;
}

void safetensors_abort(struct st_writer *w)
{
    if (!w)
        return;
    file_abort(&w->out);
    json_free(w->header);
    free(w->bytes);
    free(w);
}
