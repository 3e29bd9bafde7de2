/* examples: tokenized instruction data with its loss mask; the layout is in formats/shard.h.
 *
 * All is checked when the file is opened, so that readers may use the mapped vectors as they are.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "formats/shard.h"

enum { VERSION = 1 };

/* The mapped vectors are used in place, which asks for a little-endian machine. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are mapped as they are");

static uint32_t head_u32(const struct file_map *m, int i)
{
    uint32_t v;
    memcpy(&v, m->p + 4 * (size_t)i, sizeof v);
    return v;
}

static int check_head(struct examples *x, struct err *e)
{
    size_t n = x->map.n;
    if (n < SHARD_HEADER)
        return err_set(e, "%zu bytes, want at least the header's %d", n, SHARD_HEADER);
    if (head_u32(&x->map, 0) != EXAMPLES_MAGIC)
        return err_set(e, "not an example shard: magic %lu, want %d",
                       (unsigned long)head_u32(&x->map, 0), EXAMPLES_MAGIC);
    if (head_u32(&x->map, 1) != VERSION)
        return err_set(e, "want version %d, file has %lu", VERSION,
                       (unsigned long)head_u32(&x->map, 1));
    x->n = head_u32(&x->map, 2);
    x->vocab_size = head_u32(&x->map, 3);
    x->longest = head_u32(&x->map, 4);
    if (x->n > INT32_MAX || x->vocab_size > INT32_MAX || x->longest > INT32_MAX ||
        (uint64_t)x->n + 1 > (n - SHARD_HEADER) / 8)
        return err_set(e, "its header says %lld examples, but %zu bytes follow it", (long long)x->n,
                       n - SHARD_HEADER);
    return 0;
}

/* Offsets start at 0, never fall, end at N, and N ids and mask bytes fill the file. */
static int check_offsets(struct examples *x, struct err *e)
{
    size_t rest = x->map.n - SHARD_HEADER - 8 * ((size_t)x->n + 1);
    uint64_t total = x->offset[x->n], longest = 0;
    if (x->offset[0] != 0)
        return err_set(e, "example 0 starts at %llu", (unsigned long long)x->offset[0]);
    if (rest % 5 || total != rest / 5)
        return err_set(e, "its offsets end at %llu tokens, but %zu bytes follow them",
                       (unsigned long long)total, rest);
    for (int64_t i = 0; i < x->n; i++) {
        if (x->offset[i + 1] <= x->offset[i] || x->offset[i + 1] > total)
            return err_set(e, "example %lld goes from %llu to %llu of %llu", (long long)i,
                           (unsigned long long)x->offset[i], (unsigned long long)x->offset[i + 1],
                           (unsigned long long)total);
        uint64_t len = x->offset[i + 1] - x->offset[i];
        longest = len > longest ? len : longest;
    }
    if (longest != (uint64_t)x->longest)
        return err_set(e, "its header says the longest example has %lld tokens, it has %llu",
                       (long long)x->longest, (unsigned long long)longest);
    return 0;
}

static int check_values(const struct examples *x, struct err *e)
{
    for (uint64_t i = 0; i < x->offset[x->n]; i++) {
        if (x->ids[i] >= (uint64_t)x->vocab_size)
            return err_set(e, "token %llu has id %lu, the vocabulary has %lld",
                           (unsigned long long)i, (unsigned long)x->ids[i],
                           (long long)x->vocab_size);
        if (x->mask[i] > 1)
            return err_set(e, "token %llu has mask %d, want 0 or 1", (unsigned long long)i,
                           x->mask[i]);
    }
    return 0;
}

int examples_open(struct examples *x, const char *path, struct err *e)
{
    *x = (struct examples){0};
    if (file_map(path, &x->map, e))
        return -1;
    if (check_head(x, e))
        goto fail;
    x->offset = (const uint64_t *)(const void *)(x->map.p + SHARD_HEADER);
    if (check_offsets(x, e))
        goto fail;
    x->ids = (const uint32_t *)(const void *)(x->offset + x->n + 1);
    x->mask = (const uint8_t *)(x->ids + x->offset[x->n]);
    if (check_values(x, e))
        goto fail;
    return 0;
fail:
    err_wrap(e, "%s", path);
    examples_close(x);
    return -1;
}

void examples_close(struct examples *x)
{
    file_unmap(&x->map);
    *x = (struct examples){0};
}

/* ---- writing: in memory, because the offsets stand in front --------------------------------- */

struct examples_writer {
    struct file_out out;
    char *path;
    struct buf offset, ids, mask;
    uint64_t at;
    int64_t n, vocab_size, longest;
    struct err bad; /* of the first example that was wrong */
    bool failed;
};

struct examples_writer *examples_create(const char *path, int64_t vocab_size, struct err *e)
{
    struct examples_writer *w = mem_zero(sizeof *w);
    w->path = mem_strdup(path);
    w->vocab_size = vocab_size;
    if (file_create(&w->out, path, e)) {
        examples_abort(w);
        return NULL;
    }
    buf_add(&w->offset, &w->at, sizeof w->at);
    return w;
}

void examples_put(struct examples_writer *w, const int32_t *ids, const uint8_t *mask, size_t n)
{
    assert(n > 0);
    for (size_t i = 0; i < n && !w->failed; i++)
        if (ids[i] < 0 || ids[i] >= w->vocab_size) {
            err_set(&w->bad, "%s: example %lld has id %d, the vocabulary has %lld", w->path,
                    (long long)w->n, ids[i], (long long)w->vocab_size);
            w->failed = true;
        }
    buf_add(&w->ids, ids, n * sizeof *ids);
    for (size_t i = 0; i < n; i++)
        buf_addc(&w->mask, mask[i] ? 1 : 0);
    w->at += n;
    w->n++;
    w->longest = (int64_t)n > w->longest ? (int64_t)n : w->longest;
    buf_add(&w->offset, &w->at, sizeof w->at);
}

int examples_finish(struct examples_writer *w, struct err *e)
{
    uint32_t head[SHARD_HEADER / 4] = {EXAMPLES_MAGIC, VERSION, (uint32_t)w->n,
                                       (uint32_t)w->vocab_size, (uint32_t)w->longest};
    int rc = -1;
    if (w->failed) {
        *e = w->bad;
        goto out;
    }
    if (file_put(&w->out, head, sizeof head, e) || file_puts(&w->out, buf_str(&w->offset), e) ||
        file_puts(&w->out, buf_str(&w->ids), e) || file_puts(&w->out, buf_str(&w->mask), e))
        goto out;
    rc = file_commit(&w->out, e);
out:
    examples_abort(w);
    return rc;
}

void examples_abort(struct examples_writer *w)
{
    if (!w)
        return;
    file_abort(&w->out);
    buf_release(&w->offset);
    buf_release(&w->ids);
    buf_release(&w->mask);
    free(w->path);
    free(w);
}
